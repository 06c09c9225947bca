"""A graph as PyTorch's users know it: nodes with `op`, `target`, `args`, `kwargs`, `users` and `meta["val"]`.

The graph itself names values, not nodes; this is a picture of it, made of the nodes of cresset.fx.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cresset import _C
from cresset.fx import graph as fx
from cresset.fx.convert import fill


class Graph(fx.Graph):
    """`nodes` in order; `raw` is the graph that runs. It cannot be edited: the program would not hear of it."""

    def __init__(self, raw: _C.Graph):
        super().__init__()
        self.raw = raw
        self._done = False
        fill(self, raw, callable=False)
        self._done = True

    def _changed(self) -> None:
        if self._done:
            raise NotImplementedError("this graph shows what a program runs and cannot be edited: edit the one of "
                                      "cresset.fx.GraphModule.from_graph(graph.raw)")


class GraphModule:
    """The lifted graph with its subgraphs as attributes; called with every placeholder's value, it gives the flat
    outputs."""

    def __init__(self, raw: _C.Graph, text: str = ""):
        self._raw, self._text = raw, text
        self._graph: Graph | None = None
        self._subgraphs = {name: GraphModule(sub) for name, sub in raw._subgraphs()}
        self.meta: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            self._graph = Graph(self._raw)
        return self._graph

    @property
    def code(self) -> str:
        return self._text or str(self._raw)

    def print_readable(self, print_output: bool = True) -> str:
        if print_output:
            print(self.code)
        return self.code

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, GraphModule]]:
        yield prefix, self
        for name, sub in self._subgraphs.items():
            yield from sub.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[GraphModule]:
        return (module for _, module in self.named_modules())

    def __getattr__(self, name: str) -> GraphModule:
        subgraphs = self.__dict__.get("_subgraphs", {})
        if name in subgraphs:
            return subgraphs[name]
        raise AttributeError(f"the graph module has no attribute '{name}'; its subgraphs are: "
                             f"{', '.join(subgraphs) or 'none'}")

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        results = self._raw.run(*inputs)
        return results if isinstance(results, tuple) else (results,)

    forward = __call__

    def __repr__(self) -> str:
        return "GraphModule(" + "".join(f"\n  ({name}): GraphModule()" for name in self._subgraphs) + ("\n"
                if self._subgraphs else "") + ")"

    def __str__(self) -> str:
        return f"{self!r}\n\n{self.code}"
