"""autograd.Function under vmap: by the function's own rule for all examples (the vmap staticmethod), or by one that is
made of its forward and backward (generate_vmap_rule). Either runs outside of the level, on the values of the mapped
tensors, so that the tape has one node for all examples."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from cresset import _C, _vmap
from cresset.autograd.function import Function
from cresset.utils import _pytree as pytree

VmapInfo = collections.namedtuple("VmapInfo", ["batch_size", "randomness"])


def call(function: type[Function], args: tuple[Any, ...]) -> Any:
    """function.apply(*args), of which at least one is mapped by the innermost level."""
    size, randomness = _C._vmap_info()
    dims = tuple(0 if _C._vmap_maps(a) else None for a in args)
    values = tuple(_C._vmap_lift(a, 0) if d == 0 else a for a, d in zip(args, dims))
    own, generated = function.vmap is not Function.vmap, function.generate_vmap_rule
    if own and generated:
        raise RuntimeError(f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and "
                           "an overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
                           "overriden vmap staticmethod to avoid ambiguity.")
    if not own and not generated:
        raise RuntimeError(f"You tried to vmap over {function.__name__}, but it does not have vmap support. Please "
                           "override and implement the vmap staticmethod or set generate_vmap_rule=True.")
    if function.setup_context is Function.setup_context:
        raise RuntimeError("In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
                           f"...), it must override the setup_context staticmethod: {function.__name__} does not.")
    if own:
        info = VmapInfo(size, randomness)
        output, out_dims = _C._vmap_outside(lambda: function.vmap(info, dims, *values))
    else:
        rule = _generated(function, size, dims, randomness)
        output, out_dims = _C._vmap_outside(lambda: rule.apply(*values)), 0
    leaves, spec = pytree.tree_flatten(output)
    places = _vmap._broadcast(out_dims, output)
    if places is None:
        raise ValueError(f"{function.__name__}.vmap() returned out_dims {out_dims} that are no prefix of its output")
    return pytree.tree_unflatten([_C._vmap_lower(t, d % t.dim()) if d is not None and _C._is_tensor(t) else t
                                  for t, d in zip(leaves, places)], spec)


class _Context:
    """What setup_context and backward of one example see; saved tensors are those of all examples, outside."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Any) -> None:
        raise RuntimeError("mark_non_differentiable() does not go with generate_vmap_rule=True; write a vmap "
                           "staticmethod")

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError("mark_dirty() does not go with generate_vmap_rule=True; write a vmap staticmethod")

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def _run(body: Callable[..., Any], size: int, dims: tuple[Any, ...], values: tuple[Any, ...], randomness: str) -> Any:
    leaves, spec = pytree.tree_flatten(values)
    found, _, structure = _vmap.mapped(body, size, dims, leaves, spec, _vmap.outputs_at(body, 0),
                                       randomness, {})
    return pytree.tree_unflatten(found, structure)


def _generated(function: type[Function], size: int, dims: tuple[Any, ...], randomness: str) -> type[Function]:
    """The function of all examples: forward and backward are the given ones under vmap."""

    class Mapped(Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            inner = ctx.inner = _Context(ctx.needs_input_grad)

            def one(*examples: Any) -> Any:
                output = function.forward(*examples)
                function.setup_context(inner, examples, output)
                return output, tuple(t for t in inner.saved_tensors if t is not None)
            places = tuple(d if _C._is_tensor(v) else None for v, d in zip(values, dims))
            output, saved = _run(one, size, places, values, randomness)
            ctx.holes = tuple(t is None for t in inner.saved_tensors)
            ctx.save_for_backward(*saved)
            return output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            inner, saved = ctx.inner, ctx.saved_tensors
            missing = [False] * len(dims)

            def one(*given: Any) -> Any:
                kept = iter(given[:len(saved)])
                inner.saved_tensors = tuple(None if hole else next(kept) for hole in ctx.holes)
                made = function.backward(inner, *given[len(saved):])
                made = made if isinstance(made, tuple) else (made,)
                missing[:] = [g is None for g in made]
                return tuple(g for g in made if g is not None)
            found = iter(_run(one, size, (0,) * (len(saved) + len(grads)), (*saved, *grads), randomness))
            made = [None if hole else next(found) for hole in missing]
            return tuple(g if g is None or d == 0 else g.sum(0) for g, d in zip(made, dims))

    def jvp(ctx: Any, *tangents: Any) -> Any:
        inner, saved = ctx.inner, ctx.saved_tensors
        places = [i for i, t in enumerate(tangents) if t is not None]

        def one(*given: Any) -> Any:
            kept, each = iter(given[:len(saved)]), [None] * len(tangents)
            inner.saved_tensors = tuple(None if hole else next(kept) for hole in ctx.holes)
            for place, tangent in zip(places, given[len(saved):]):
                each[place] = tangent
            return function.jvp(inner, *each)
        where = (*(0,) * len(saved), *(dims[i] for i in places))
        return _run(one, size, where, (*saved, *(tangents[i] for i in places)), randomness)

    Mapped.__name__ = function.__name__
    if function.jvp is not Function.jvp:
        Mapped.jvp = staticmethod(jvp)  # type: ignore[method-assign]
    return Mapped
