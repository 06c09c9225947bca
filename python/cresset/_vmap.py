"""vmap: a function of one example becomes a function of many. Calls on mapped tensors are carried out for all examples
at once by src/ops/batch.h; here are the arguments and errors of torch.func.vmap."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from cresset import _C
from cresset.utils import _pytree as pytree

_RANDOMNESS = ("error", "different", "same")


def check_randomness(randomness: Any) -> None:
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def check_chunk_size(chunk_size: Any, name: str = "vmap") -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be None or greater than 0. (got {chunk_size})")


def _is_dim(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _broadcast(dims: Any, tree: Any) -> list[Any] | None:
    """One dim per leaf of the tree: `dims` is a prefix of it. None: it is not."""
    if dims is None or _is_dim(dims):
        return [dims] * pytree.tree_structure(tree).num_leaves
    if not isinstance(dims, (list, tuple, dict)):
        return None
    parts, spec = _children(tree)
    given, other = _children(dims)
    if parts is None or given is None or spec != other or len(parts) != len(given):
        return None
    found: list[Any] = []
    for one, part in zip(given, parts):
        inner = _broadcast(one, part)
        if inner is None:
            return None
        found += inner
    return found


def _children(tree: Any) -> tuple[list[Any] | None, Any]:
    """The next level of a container, and what kind it is; lists and tuples of dims may stand for each other."""
    if isinstance(tree, dict):
        return list(tree.values()), tuple(tree)
    if isinstance(tree, (list, tuple)):  # a namedtuple, too
        return list(tree), "sequence"
    return None, None


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _checked_inputs(func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]) -> tuple[int, list[Any], list[Any],
                                                                                             Any]:
    """(examples, dims, leaves, structure)."""
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not _is_dim(in_dims) and not isinstance(in_dims, (tuple, list)):
        raise ValueError(f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure "
                         f"of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"{call}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
                         "function with no inputs. The latter is unsupported.")
    leaves, spec = pytree.tree_flatten(args)
    dims = _broadcast(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    if dims is None:
        raise ValueError(f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                         f"{pytree.tree_structure(in_dims)} but inputs has structure {spec}.")
    sizes, places = [], []
    for leaf, dim in zip(leaves, dims):
        if dim is not None and not _is_dim(dim):
            raise ValueError(f"{call}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or "
                             "None.")
        if dim is None:
            places.append(None)
            continue
        if not _C._is_tensor(leaf):
            raise ValueError(f"{call}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
                             "vmap over non-Tensor arguments, please use None as the respective in_dim")
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                             f"{leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}.")
        places.append(dim % leaf.dim())
        sizes.append(leaf.shape[places[-1]])
    if not sizes:
        raise ValueError(f"{call}: vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError("vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{[int(s) for s in sizes]} for the mapped dimension")
    return sizes[0], places, leaves, spec


def _checked_outputs(func: Callable[..., Any], out_dims: Any, output: Any) -> tuple[list[Any], list[Any], Any]:
    """(leaves, their out_dims, structure)."""
    leaves, spec = pytree.tree_flatten(output)
    kinds = {type(leaf) for leaf in leaves if type(leaf) in _C._return_types.values()}
    for kind in kinds:  # results with names are nodes of trees from now on
        pytree.register_pytree_node(kind, lambda value: (list(value), None), lambda values, _, kind=kind: kind(values))
    if kinds:
        leaves, spec = pytree.tree_flatten(output)
    single = _C._is_tensor(output) and isinstance(out_dims, tuple) and len(out_dims) == 1
    dims = _broadcast(out_dims[0] if single else out_dims, output)
    if dims is None or any(d is not None and not _is_dim(d) for d in dims):
        given = pytree.tree_structure(out_dims)
        raise ValueError(f"vmap({_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the "
                         f"structure of `outputs`. out_dims has structure {given} but outputs has structure {spec}.")
    return leaves, dims, spec


def outputs_at(func: Callable[..., Any], out_dims: Any) -> Callable[[Any], tuple[list[Any], list[Any], Any]]:
    """What mapped() asks of an output."""
    return functools.partial(_checked_outputs, func, out_dims)


def _lifted(func: Callable[..., Any], value: Any, dim: int | None) -> Any:
    call = f"vmap({_name(func)}, ...)"
    if not _C._is_tensor(value):
        if dim is None:
            return value
        raise ValueError(f"{call}: `{_name(func)}` must only return Tensors, got type {type(value)}. Did you mean to "
                         "set out_dims= to None for output?")
    if dim is None:
        if _C._vmap_maps(value):
            raise ValueError(f"{call}: `{_name(func)}` can not return a BatchedTensor when out_dim is None")
        return value
    rank = value.dim() + 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}], but got {dim})")
    return _C._vmap_lift(value, dim % rank)


def mapped(func: Callable[..., Any], size: Any, dims: Sequence[Any], leaves: Sequence[Any], spec: Any,
           outputs: Callable[[Any], tuple[list[Any], list[Any], Any]], randomness: str,
           kwargs: dict[str, Any]) -> tuple[list[Any], list[Any], Any]:
    """One run of the function under one level: (leaves of the output, their out_dims, its structure), of which
    `outputs` tells where the examples are to be."""
    _C._vmap_begin(size, _RANDOMNESS.index(randomness))
    try:
        inputs = [leaf if dim is None else _C._vmap_lower(leaf, dim) for leaf, dim in zip(leaves, dims)]
        output = func(*pytree.tree_unflatten(inputs, spec), **kwargs)
        found, places, structure = outputs(output)
        lifted = [_lifted(func, value, dim) for value, dim in zip(found, places)]
    finally:
        _C._vmap_end()
    return lifted, places, structure


def joined(chunks: list[list[Any]], places: Sequence[Any]) -> list[Any]:
    cat = _C._function("cat")
    return [parts[0] if dim is None else cat(list(parts), dim) for parts, dim in zip(zip(*chunks), places)]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that runs `func`, which is written for one example, for all examples at once.

    in_dims: the dimension of each argument that has the examples; None: the argument is the same for all; a tree of
    them for arguments that are trees. out_dims: where results have theirs. randomness: "different" random numbers for
    each example, the "same" for all, or an "error". chunk_size: at most so many examples at a time.
    """
    check_randomness(randomness)
    check_chunk_size(chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _mapped_call(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)
    return wrapper


def _mapped_call(func: Any, in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None,
                 args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    size, dims, leaves, spec = _checked_inputs(func, in_dims, args)
    outputs = outputs_at(func, out_dims)
    if chunk_size is None or size <= chunk_size:
        found, _, structure = mapped(func, size, dims, leaves, spec, outputs, randomness, kwargs)
        return pytree.tree_unflatten(found, structure)
    found, structure = in_chunks(func, size, chunk_size, dims, leaves, spec, outputs, randomness, kwargs)
    return pytree.tree_unflatten(found, structure)


def in_chunks(func: Callable[..., Any], size: int, chunk_size: int, dims: Sequence[Any], leaves: Sequence[Any],
              spec: Any, outputs: Callable[[Any], tuple[list[Any], list[Any], Any]], randomness: str,
              kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The same, at most so many examples at a time: (leaves of the output, its structure)."""
    state = None
    chunks = []
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        part = [leaf if dim is None else leaf.narrow(dim, start, count) for leaf, dim in zip(leaves, dims)]
        if randomness == "same":
            state = _same_numbers(state)
        found, places, structure = mapped(func, count, dims, part, spec, outputs, randomness, kwargs)
        chunks.append(found)
    return joined(chunks, places), structure


_mapped_call._cresset_rule = "transform"  # type: ignore[attr-defined]  # captures run it (capture/rules.c)
_mapped_call.__qualname__ = "vmap"  # for their reasons


def _same_numbers(state: Any) -> Any:
    """Every chunk draws what the first one draws."""
    from cresset import random
    if _C._is_recording():
        raise NotImplementedError("vmap: chunks of a program that is recorded cannot draw the same numbers; leave out "
                                  "chunk_size, or randomness='same'")
    if state is None:
        return random.get_rng_state()
    random.set_rng_state(state)
    return state


_AT_ONCE = 1 << 22  # elements of unit vectors; more are taken in turns, which gives the same


def over_basis(func: Callable[..., Any], tensors: Sequence[Any], chunk_size: int | None = None) -> list[Any] | None:
    """Each result of func(*unit vectors), which are one vector of all elements of the tensors in their shapes, for all
    of them along a new first dimension; None: there are no elements, or there is no result. chunk_size: at most so many
    at a time."""
    sizes = [t.numel() for t in tensors]
    n = sum(sizes)
    spec, outputs = pytree.tree_structure((0,) * len(sizes)), outputs_at(func, 0)
    parts = [(0, n)]  # of a size that is left open all of them, whatever it is
    if isinstance(n, int):
        step = chunk_size or max(1, min(n, _AT_ONCE // max(n, 1)))
        parts = [(start, min(step, n - start)) for start in range(0, n, step)]
    chunks = []
    for start, count in parts:
        units, before = [], 0
        for t, size in zip(tensors, sizes):
            rows = _C._function("arange")(start - before, start - before + count).unsqueeze(1)
            units.append((rows == _C._function("arange")(size)).to(t.dtype).reshape(count, *t.shape))
            before += size
        chunks.append(mapped(func, count, [0] * len(sizes), units, spec, outputs, "error", {})[0])
    if not chunks or not chunks[0]:
        return None
    return chunks[0] if len(chunks) == 1 else joined(chunks, [0] * len(chunks[0]))
