"""Backends that count and keep what they are given, for tests."""
from __future__ import annotations

from typing import Any, Callable

from cresset._dynamo.backends.registry import lookup_backend

__all__ = ["CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "same"]


def _calls(gm: Any) -> int:
    return sum("call" in node.op for node in gm.graph.nodes)


class CompileCounter:
    """frame_count: graphs that it was given; op_count: the calls in them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.frame_count = self.op_count = 0

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        # unused example_inputs: what is counted is in the graph
        self.frame_count += 1
        self.op_count += _calls(gm)
        return gm.forward


class CompileCounterWithBackend:
    """The same around another backend; graphs: what it was given."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.clear()

    def clear(self) -> None:
        self.frame_count = self.op_count = 0
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += _calls(gm)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)


class EagerAndRecordGraphs:
    """Keeps the graphs, runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        # unused example_inputs: the graph runs as it is
        self.graphs.append(gm)
        return gm.forward


def same(a: Any, b: Any) -> bool:
    """Equal values, in equal structures."""
    import cresset
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, cresset.Tensor) and isinstance(b, cresset.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and cresset.allclose(a, b, equal_nan=True)
    return type(a) is type(b) and a == b
