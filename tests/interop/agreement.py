"""When two results are the same. Works on NumPy arrays and plain values, so that it serves with and without PyTorch.

Floating results: max|a - b| <= TOLERANCE * max|b|, infinities and NaNs in the same places; integers, bools, texts and
None exactly; same structure, sizes and dtype. 1e-4 is what f32 must reach; the others are a few units in the last place
of a sum in that precision. bfloat16 arrives here as float32 (NumPy has none), so the caller passes the name of its own
dtype.
"""
import dataclasses

import numpy

TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 1e-4, "complex64": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


class Tensor:
    """A tensor as an array and the name of its dtype."""

    def __init__(self, dtype, array):
        self.dtype, self.array = dtype, array

    def __repr__(self):
        return f"{self.dtype}{list(self.array.shape)}"


def plain(value, tensor_type):
    """Tensors of either package as Tensor, containers as lists and dicts; everything else itself."""
    if isinstance(value, tensor_type):
        return of_tensor(value)
    if isinstance(value, dict):
        return {key: plain(item, tensor_type) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, tensor_type) for item in value]
    if dataclasses.is_dataclass(value):  # here a structure of that name, which is a tuple
        return [plain(item, tensor_type) for item in vars(value).values()]
    return value


def of_tensor(tensor):
    name = str(tensor.dtype).rpartition(".")[2]
    tensor = tensor.detach()
    if hasattr(tensor, "resolve_conj"):
        tensor = tensor.resolve_conj().resolve_neg()
    array = tensor.float().numpy() if name == "bfloat16" else tensor.numpy()
    return Tensor(name, numpy.array(array))


def difference(want, got, tolerance=None, where="result"):
    """None, or how `got` differs."""
    if isinstance(want, Tensor):
        return tensor_difference(want, got, tolerance, where)
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(want) != list(got):
            return (f"{where}: a dict with the keys {list(want)} expected, got "
                    f"{list(got) if isinstance(got, dict) else got!r}")
        pairs = [(f"{where}[{key!r}]", want[key], got[key]) for key in want]
    elif isinstance(want, list):
        if not isinstance(got, list) or len(want) != len(got):
            return f"{where}: {len(want)} items expected, got {got!r}"
        pairs = [(f"{where}[{i}]", w, g) for i, (w, g) in enumerate(zip(want, got))]
    else:
        return None if type(want) is type(got) and (want == got or want != want
                                                    and got != got) else f"{where}: {want!r} expected, got {got!r}"
    return next((found for at, w, g in pairs if (found := difference(w, g, tolerance, at))), None)


def tensor_difference(want, got, tolerance, where):
    if not isinstance(got, Tensor):
        return f"{where}: a tensor expected, got {got!r}"
    if (want.dtype, want.array.shape) != (got.dtype, got.array.shape):
        return f"{where}: {want} expected, got {got}"
    a, b = got.array, want.array
    if want.dtype not in TOLERANCE:
        return (None if (a == b).all() else f"{where}: {int((a != b).sum())} of {a.size} {want.dtype} values differ; "
                f"first {b[a != b][0]} expected, got {a[a != b][0]}")
    wide = numpy.complex128 if "complex" in want.dtype else numpy.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = numpy.isfinite(b)
    with numpy.errstate(invalid="ignore"):
        odd = (numpy.isfinite(a) != finite) | (numpy.isnan(a) != numpy.isnan(b)) | (~finite & ~numpy.isnan(b)
                & (a != b))
    if odd.any():
        return f"{where}: {b[odd][0]} expected, got {a[odd][0]}"
    if not finite.any():
        return None
    error, scale = numpy.abs(a[finite] - b[finite]).max(), numpy.abs(b[finite]).max()
    limit = (TOLERANCE[want.dtype] if tolerance is None else tolerance) * scale
    return (None if error <= limit else f"{where}: max|a-b| = {error:.3g}, more than {limit:.3g} (max|b| = "
            f"{scale:.3g}, {want.dtype})")


def varies(value):
    """Does some tensor in it hold more than one value?"""
    if isinstance(value, Tensor):
        return value.array.size > 1 and bool((value.array != value.array.flat[0]).any())
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(map(varies, value))


def leaves(value):
    """The flat list that `cresset run` writes out0, out1, ... of."""
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]
