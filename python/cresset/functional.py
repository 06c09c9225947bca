"""Functions whose Python form differs from the op's schema: any number of tensors, results that depend on flags."""
from cresset import _C, ops

aten = ops.aten


def _tensors(tensors):
    """f(a, b) and f([a, b]) are the same."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def einsum(equation, *operands):
    """einsum("ij,jk->ik", a, b): sums of products by letter. Also einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    if isinstance(equation, str):
        return _C._function("einsum")(equation, _tensors(operands))
    items, tensors, terms = [equation, *operands], [], []
    letter = lambda i: "..." if i is ... else chr(ord("A") + i if i < 26 else ord("a") + i - 26)
    while len(items) > 1:
        tensors.append(items.pop(0))
        terms.append("".join(map(letter, items.pop(0))))
    text = ",".join(terms) + ("->" + "".join(map(letter, items[0])) if items else "")
    return _C._function("einsum")(text, tensors)


def meshgrid(*tensors, indexing=None):
    """Grids of coordinates. indexing is "ij" (the default) or "xy"."""
    tensors = _tensors(tensors)
    return tuple(aten.meshgrid(tensors) if indexing is None else aten.meshgrid(tensors, indexing=indexing))


def broadcast_tensors(*tensors):
    return tuple(aten.broadcast_tensors(_tensors(tensors)))


def broadcast_shapes(*shapes):
    """The size that tensors of these sizes broadcast to. A number stands for a size of one dimension."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if n < 0:
                raise RuntimeError(f"broadcast_shapes(): sizes cannot be negative, found {shape}")
            if result[i] == 1:
                result[i] = n
            elif n not in (1, result[i]):
                raise RuntimeError(f"broadcast_shapes(): sizes {result[i]} and {n} at dimension {i - rank} do not "
                                   f"broadcast in {shapes}")
    return _C.Size(result)


def block_diag(*tensors):
    return aten.block_diag(_tensors(tensors))


def cartesian_prod(*tensors):
    return aten.cartesian_prod(_tensors(tensors))


def _atleast(op, tensors):
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return op(tensors[0])
    return tuple(op(t) for t in _tensors(tensors))


def atleast_1d(*tensors):
    return _atleast(aten.atleast_1d.default, tensors)


def atleast_2d(*tensors):
    return _atleast(aten.atleast_2d.default, tensors)


def atleast_3d(*tensors):
    return _atleast(aten.atleast_3d.default, tensors)


def _to(name, out):
    """out= of a function as keywords of its op."""
    if out is None:
        return {}
    if not isinstance(out, _C._populated_tensor_type()):
        raise TypeError(f"{name}(): argument 'out' must be a Tensor, not {type(out).__name__}")
    return {"out": out}


def nonzero(input, *, out=None, as_tuple=False):
    """Indices of the elements that are not zero: one row each, or (as_tuple) one tensor per dimension."""
    if as_tuple and out is None:
        return tuple(aten.nonzero_numpy(input))
    if as_tuple:
        raise TypeError("nonzero(): as_tuple gives new tensors, so there is nothing that could be written to 'out'")
    return aten.nonzero(input, **_to("nonzero", out))


def split(tensor, split_size_or_sections, dim=0):
    op = aten.split_with_sizes.default if isinstance(split_size_or_sections, (list, tuple)) else aten.split.Tensor
    return tuple(op(tensor, split_size_or_sections, dim))


def _split_method(tensor, split_size, dim=0):
    """Tensor.split, whose argument has another name."""
    return split(tensor, split_size, dim)


def tensordot(a, b, dims=2, out=None):
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    elif isinstance(dims, _C._populated_tensor_type()):
        dims = dims.tolist()
    first, second = dims
    first, second = ([first] if isinstance(first, int) else list(first)), ([second] if isinstance(second, int)
            else list(second))
    return aten.tensordot(a, b, first, second, **_to("tensordot", out))


def _chosen(result, return_inverse, return_counts):
    output, inverse, counts = result
    chosen = (output, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return chosen if len(chosen) > 1 else output


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements (or slices along dim), and where each came from and how often it occurs when asked."""
    if dim is None:
        result = aten._unique2(input, sorted, return_inverse, return_counts)
    else:
        result = aten.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(result, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    return _chosen(aten.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A vector norm over the given dimensions (all by default); "fro" is the 2-norm, "nuc" a matrix's nuclear norm."""
    dims = [dim] if isinstance(dim, int) else dim
    kwargs = _to("norm", out)
    if p == "nuc":
        return aten.linalg_matrix_norm(input, "nuc", dims if dims is not None else [-2, -1], keepdim, dtype=dtype,
                                       **kwargs)
    return aten.linalg_vector_norm(input, 2 if p == "fro" or p is None else p, dims, keepdim, dtype=dtype, **kwargs)


def typename(o):
    return o.type() if isinstance(o, _C._populated_tensor_type()) else f"{type(o).__module__}.{type(o).__qualname__}"


def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
         normalized=False, onesided=None, return_complex=None, align_to_window=None):
    """The Fourier transforms of overlapping frames. center: frame t is centred at sample t * hop_length; the signal is
    padded by half a frame on both sides."""
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft(): align_to_window goes with center=False only")
        dim, half = input.dim(), n_fft // 2
        input = aten.pad(input.view([1] * (3 - dim) + list(input.shape)), [half, half], pad_mode)
        input = input.view(input.shape[-dim:])
    return aten.stft.default(input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
                             align_to_window)
