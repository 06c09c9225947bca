"""Marks on tensors: which of their sizes vary.

    mark_dynamic(x, 0, max=64)
    export(model, (x,))            # as with dynamic_shapes=({0: Dim.DYNAMIC(max=64)},)

Export reads marks where no dynamic_shapes are given, as PyTorch does; dynamic_shapes say everything by themselves. The
marks are attributes of the tensor with PyTorch's names, so that programs that look for them find them.
"""
from __future__ import annotations

import sys
from typing import Any, Iterable, NamedTuple

import cresset

__all__ = ["mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic"]


class _DimRange(NamedTuple):
    dim: int
    min: int | None
    max: int | None


def _dims(t: Any, index: int | Iterable[int] | None, function: str) -> list[int]:
    if not isinstance(t, (cresset.Tensor, getattr(sys.modules.get("torch"), "Tensor", cresset.Tensor))):
        raise TypeError(f"{function}() takes a Tensor, not {type(t).__name__}")
    dims = list(range(t.dim())) if index is None else [index] if isinstance(index, (int, str)) else list(index)
    for dim in dims:
        if not isinstance(dim, int) or not 0 <= dim < t.dim():
            raise IndexError(f"{function}(): the tensor has dimensions 0 to {t.dim() - 1}; {dim!r} is none of them")
    return dims


def _add(t: Any, name: str, values: Iterable[Any]) -> None:
    setattr(t, name, getattr(t, name, set()) | set(values))


def mark_dynamic(t: Any, index: int | Iterable[int], *, min: int | None = None, max: int | None = None) -> None:
    """The size varies, within the bounds; a program that needs one value of it is refused."""
    dims = _dims(t, index, "mark_dynamic")
    if min is not None and max is not None and min > max:
        raise ValueError(f"mark_dynamic(): min={min} is larger than max={max}")
    _add(t, "_dynamo_dynamic_indices", dims)
    _add(t, "_dynamo_dynamic_range", (_DimRange(dim, min, max) for dim in dims))


def maybe_mark_dynamic(t: Any, index: int | Iterable[int]) -> None:
    """The size varies as far as the program lets it."""
    _add(t, "_dynamo_weak_dynamic_indices", _dims(t, index, "maybe_mark_dynamic"))


def mark_static(t: Any, index: int | Iterable[int] | None = None) -> None:
    """The size (None: every size) never varies. mark_dynamic counts more."""
    _add(t, "_dynamo_static_indices", _dims(t, index, "mark_static"))


def mark_unbacked(t: Any, index: int | Iterable[int]) -> None:
    """The size is a number without an example. For what compiles calls; export keeps it static, as PyTorch's does."""
    _add(t, "_dynamo_unbacked_indices", _dims(t, index, "mark_unbacked"))


def _marked_sizes(t: Any) -> dict[int, Any]:
    """{dimension: Dim.DYNAMIC or Dim.AUTO}: what the marks mean to export."""
    Dim = cresset.export.Dim
    bounds = {r.dim: (r.min, r.max) for r in getattr(t, "_dynamo_dynamic_range", ())}
    sizes = {dim: Dim.DYNAMIC(*bounds.get(dim, (None, None))) for dim in getattr(t, "_dynamo_dynamic_indices", ())}
    return sizes | {dim: Dim.AUTO for dim in getattr(t, "_dynamo_weak_dynamic_indices", ())}
