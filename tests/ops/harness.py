"""Runs one call with PyTorch and with Cresset and says how they differ.

Exact for integers, bools and data movement. Floating results pass within 4 ULP of PyTorch's or within the tolerance that
PyTorch publishes for the dtype (torch.testing's defaults), whichever is looser: TOLERANCE below is that table. Where
PyTorch's own result is further than that from the same op in f64 (half-precision sums, cancellation), ours passes if it is
at least as near to the f64 result.
"""
import contextlib
import dataclasses

import cresset
import torch

TOLERANCE = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
             torch.float64: (1e-7, 1e-7), torch.complex32: (1e-3, 1e-5), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7)}
NAMES = {getattr(torch, n): getattr(cresset, n) for n in
         ("uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex32 complex64 complex128 bool uint16 uint32 uint64".split())}
FORMATS = {getattr(torch, n): getattr(cresset, n) for n in "contiguous_format preserve_format channels_last channels_last_3d".split()}


class Different(AssertionError):
    pass


@dataclasses.dataclass
class Refused:
    error: Exception


def ours(value):
    """A torch value as Cresset's, sharing memory."""
    if isinstance(value, torch.Tensor):
        return cresset.from_dlpack(value.detach())
    if isinstance(value, torch.dtype):
        return NAMES[value]
    if isinstance(value, torch.memory_format):
        return FORMATS[value]
    if isinstance(value, torch.device):
        return cresset.device(str(value))
    if isinstance(value, torch.layout):
        return cresset.strided
    if isinstance(value, torch.Generator):
        return cresset.Generator().manual_seed(value.initial_seed())
    if isinstance(value, (list, tuple)):
        return type(value)(ours(v) for v in value)
    return value


def theirs(value):
    if isinstance(value, cresset.Tensor):
        return torch.from_dlpack(value)
    if isinstance(value, (list, tuple)):
        return [theirs(v) for v in value]
    return value


def twin(value):
    """A copy with the same strides, overlap included."""
    if isinstance(value, torch.Tensor):
        span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) if value.numel() else 0
        base = torch.as_strided(value, (span,), (1,)).clone() if span else torch.empty(0, dtype=value.dtype)
        return torch.as_strided(base, value.shape, value.stride(), 0)
    if isinstance(value, torch.Generator):
        return torch.Generator().manual_seed(value.initial_seed())
    if isinstance(value, (list, tuple)):
        return type(value)(twin(v) for v in value)
    return value


def attempt(f, args, kwargs):
    try:
        return f(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the class is what is compared
        return Refused(error)


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def ulps(a, b):
    """Distance in representable numbers, for real floats."""
    kind = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}[a.dtype]
    x, y = a.contiguous().view(kind).to(torch.int64), b.contiguous().view(kind).to(torch.int64)
    low = torch.iinfo(kind).min
    x, y = torch.where(x < 0, low - x, x), torch.where(y < 0, low - y, y)
    return (x - y).abs()


def close(want, got):
    if want.numel() == 0:
        return True
    if not want.dtype.is_floating_point and not want.dtype.is_complex:
        return bool(torch.equal(want, got))
    if want.dtype.is_complex:
        return close(torch.view_as_real(want.resolve_conj().contiguous()), torch.view_as_real(got.contiguous())) or \
            bool(torch.isclose(got, want, *TOLERANCE[want.dtype], equal_nan=True).all())
    rtol, atol = TOLERANCE[want.dtype]
    ok = torch.isclose(got.double(), want.double(), rtol, atol, equal_nan=True) | (ulps(want, got) <= 4)
    ok &= ~(want.isnan() ^ got.isnan())
    return bool(ok.all())


WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128}


def widened(value):
    if isinstance(value, torch.Tensor):
        return value.to(WIDE.get(value.dtype, value.dtype))
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    if isinstance(value, (list, tuple)):
        return type(value)(widened(v) for v in value)
    return value


def no_further(op, c, want, got):
    """Is every element of ours at least as near to the f64 result as PyTorch's is (or within tolerance of it)?"""
    with seeded():
        exact = attempt(op, widened(twin(c.args)), {k: widened(twin(v)) for k, v in c.kwargs.items()})
    if isinstance(exact, Refused):
        return False
    flat = lambda v: tensors(list(v) if isinstance(v, (list, tuple)) else [v])
    theirs_flat, exact_flat, mine_flat = flat(want), flat(exact), [theirs(t) for t in cresset_tensors(got if isinstance(got, (list, tuple)) else [got])]
    if not len(theirs_flat) == len(exact_flat) == len(mine_flat):
        return False
    for a, e, b in zip(theirs_flat, exact_flat, mine_flat):
        if close(a, b):
            continue
        if a.dtype not in WIDE or a.shape != e.shape:
            return False
        rtol, atol = TOLERANCE[a.dtype]
        wide = WIDE[a.dtype]
        limit = torch.maximum((a.to(wide) - e).abs(), atol + rtol * e.abs())
        if not bool(((b.to(wide) - e).abs() <= limit).all()):
            return False
    return True


def compare(want, got, where, values=True, strides=True):
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(want) != len(got):
            raise Different(f"{where}: {len(want)} results expected, got {got!r:.100}")
        for i, (w, g) in enumerate(zip(want, got)):
            compare(w, g, f"{where}[{i}]", values, strides)
        return
    if not isinstance(want, torch.Tensor):
        if isinstance(want, float) and want != want:
            same = isinstance(got, float) and got != got
        else:
            same = type(want) is type(got) and (want == got or (isinstance(want, float) and abs(want - got) <= 1e-6 * abs(want)))
        if not same:
            raise Different(f"{where}: expected {want!r}, got {got!r}")
        return
    if not isinstance(got, cresset.Tensor):
        raise Different(f"{where}: expected a tensor, got {type(got).__name__}")
    if NAMES.get(want.dtype) is not got.dtype:
        raise Different(f"{where}: dtype {want.dtype} expected, got {got.dtype}")
    if tuple(want.shape) != tuple(got.shape):
        raise Different(f"{where}: shape {tuple(want.shape)} expected, got {tuple(got.shape)}")
    if strides and want.numel() and any(n > 1 and s != t for n, s, t in zip(want.shape, want.stride(), got.stride())):
        raise Different(f"{where}: strides {want.stride()} expected, got {tuple(got.stride())}")
    if values and not close(want, theirs(got)):
        raise Different(f"{where}: values differ\n expected {want}\n got {theirs(got)}")


def aliases(results, args):
    """Which result shares memory with which argument."""
    base = lambda t: t.data_ptr() - t.storage_offset() * t.element_size()
    return [[base(r) == base(a) if r.numel() and a.numel() else False for a in args] for r in results]


def cresset_tensors(value):
    if isinstance(value, cresset.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in cresset_tensors(v)]
    return []


@contextlib.contextmanager
def seeded(seed=1234):
    torch.manual_seed(seed)
    cresset.manual_seed(seed)
    yield


KINDS = (IndexError, TypeError, ValueError, NotImplementedError, RuntimeError)


def samples_call(c, kwargs):
    return dataclasses.replace(c, kwargs=kwargs)


def check_out(name, functional, ours_op, c, outs, values=True):
    """An out= form must leave what PyTorch's functional form gives in the given tensors, whatever their strides were.
    (PyTorch's own out forms ignore the strides of `out` in places, so they are not asked.)"""
    given = {k: v for k, v in c.kwargs.items() if k not in outs}
    with seeded():
        want = attempt(functional, twin(c.args), {k: twin(v) for k, v in given.items()})
        results = {k: twin(c.kwargs[k]) for k in outs}
        mine = {k: ours(v) for k, v in results.items()}
        got = attempt(ours_op, ours(twin(c.args)), {**{k: ours(twin(v)) for k, v in given.items()}, **mine})
    where = f"{name}({describe(c)})"
    if isinstance(got, Refused):
        raise Different(f"{where}: Cresset refuses: {type(got.error).__name__}: {got.error}")
    try:
        for wanted, key in zip(tensors(want), outs):
            compare(wanted, mine[key], f"{where}.{key}", values, strides=False)
    except Different:
        for wanted, key in zip(tensors(want), outs):
            compare(wanted, mine[key], f"{where}.{key}", values=False, strides=False)
        if not no_further(functional, samples_call(c, given), want, [mine[key] for key in outs]):
            raise
    return "equal"


def check(name, theirs_op, ours_op, c, values=True):
    """Runs one call both ways. Returns "equal" or "refused" (both raise); raises Different."""
    args_t, kwargs_t = twin(c.args), {k: twin(v) for k, v in c.kwargs.items()}
    args_o, kwargs_o = twin(c.args), {k: twin(v) for k, v in c.kwargs.items()}
    with seeded():
        want = attempt(theirs_op, args_t, kwargs_t)
        mine_args, mine_kwargs = ours(args_o), {k: ours(v) for k, v in kwargs_o.items()}
        got = attempt(ours_op, mine_args, mine_kwargs)
    where = f"{name}({describe(c)})"
    if isinstance(want, Refused):
        if not isinstance(got, Refused):
            raise Different(f"{where}: PyTorch refuses ({type(want.error).__name__}: {str(want.error)[:160]}), Cresset gave {got!r:.100}")
        if not same_kind(want.error, got.error):
            raise Different(f"{where}: PyTorch raises {type(want.error).__name__}: {str(want.error)[:160]}, Cresset {type(got.error).__name__}: {got.error}")
        return "refused"
    if isinstance(got, Refused):
        raise Different(f"{where}: Cresset refuses: {type(got.error).__name__}: {got.error}")
    wants, gots = list(want) if isinstance(want, tuple) else want, list(got) if isinstance(got, tuple) else got
    try:
        compare(wants, gots, where, values)
    except Different:
        compare(wants, gots, where, values=False)
        if not no_further(theirs_op, c, want, got):
            raise
        return "equal"
    flat_args = list(mine_args) + list(mine_kwargs.values())
    for i, (a, b) in enumerate(zip(tensors(list(args_t) + list(kwargs_t.values())), cresset_tensors(flat_args))):
        compare(a, b, f"{where}: tensor argument {i} after the call", values)
    want_alias = aliases(tensors(want), tensors(list(args_t) + list(kwargs_t.values())))
    got_alias = aliases(cresset_tensors(got), cresset_tensors(flat_args))
    if want_alias != got_alias:
        raise Different(f"{where}: aliasing {want_alias} expected, got {got_alias}")
    return "equal"


def same_kind(want, got):
    """NotImplementedError is a RuntimeError, as in Python."""
    for kind in KINDS:
        if isinstance(want, kind):
            return isinstance(got, kind) or (kind is NotImplementedError and isinstance(got, RuntimeError))
    return True


def describe(c):
    def one(v):
        if isinstance(v, torch.Tensor):
            return f"{str(v.dtype)[6:]}{list(v.shape)}" + ("" if v.is_contiguous() else f"{tuple(v.stride())}")
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(map(one, v)) + "]"
        return repr(v)
    return ", ".join([one(a) for a in c.args] + [f"{k}={one(v)}" for k, v in c.kwargs.items()]) + (f"  # {c.note}" if c.note else "")
