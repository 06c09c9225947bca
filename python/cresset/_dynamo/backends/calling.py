"""A Python backend as capture calls it: what goes wrong in it is said with its name, suppressed, checked or written
down as `config` asks (suppress_errors, verify_correctness, repro_after)."""
from __future__ import annotations

import re
import sys
import warnings
from typing import Any, Callable

from cresset import _C
from cresset._dynamo import config
from cresset._dynamo.exc import BackendCompilerFailed, SkipFrame
from cresset.fx.graph_module import GraphModule

__all__ = ["Backend"]

_NOT_NOW = (_C.GuardOnDataDependentSymNode, _C.UnsupportedError)  # of fakes: nothing is wrong with the graph


def _name_of(function: Any) -> str:
    return getattr(function, "compiler_name", None) or getattr(function, "__name__", type(function).__name__)


def _clones(values: list[Any]) -> list[Any]:
    return [value.detach().clone().requires_grad_(value.requires_grad) if hasattr(value, "detach") else value
            for value in values]


def _results(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (tuple, list)) else [made]


def differs(own: Callable[..., Any], made: Callable[..., Any], inputs: list[Any],
            library: str = "cresset") -> str | None:
    """What of the results is not the graph's own, on copies of the inputs; None: nothing."""
    of = sys.modules[library]
    state = of.get_rng_state()
    want = _results(own(*_clones(inputs)))
    of.set_rng_state(state)
    got = _results(made(*_clones(inputs)))
    of.set_rng_state(state)
    if len(got) != len(want):
        return f"it gives {len(got)} results, the graph {len(want)}"
    for i, (ours, theirs) in enumerate(zip(got, want)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"result {i} is {ours.dtype} {list(ours.shape)}, the graph's {theirs.dtype} {list(theirs.shape)}"
        if not of.allclose(ours.detach(), theirs.detach(), rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"result {i} differs by {(ours.detach() - theirs.detach()).abs().max().item()}"
    return None


def _place(graph: Any) -> str:
    """Of the call that the graph begins with."""
    for node in graph.nodes:
        found = re.findall(r'File "(.*)", line (\d+), in (.*)', node["origin"][0] or "")
        if node["kind"] == "call" and found:
            return " of {}:{} in {}".format(*found[0])
    return ""


def _shown(graph: Any, library: str) -> tuple[Any, Callable[..., Any]]:
    """The graph as the backend gets it, and what carries it out. NotImplementedError: PyTorch cannot show it."""
    if library == "cresset":
        return GraphModule.from_graph(graph), graph.run
    from cresset._torch import view
    return view.module_of(graph), view.module_of(graph)


class Backend:
    """Called with (graph, example inputs) when something was captured; library: whose tensors they are. whole: of
    compile(fullgraph=True), where it must make something of the graph. given: mode and options of compile()."""

    def __init__(self, function: Callable[..., Any], whole: bool = False, given: dict[str, Any] | None = None):
        self.function, self.whole, self.given = function, whole, given or {}
        self.name = _name_of(function)

    def __call__(self, graph: Any, example_inputs: list[Any], library: str = "cresset") -> Callable[..., Any]:
        module, own = _shown(graph, library)
        try:
            made = self._compiled(module, own, example_inputs, library)
        except SkipFrame as error:
            if self.whole:
                raise RuntimeError(f"compile(fullgraph=True) has compiled nothing: backend {self.name!r} skips the "
                                   f"graph{_place(graph)}: {error}\n  give another backend, or leave fullgraph out: "
                                   "then it runs as it is") from error
            made = own
        except BackendCompilerFailed as error:
            if not self.whole and isinstance(error.inner_exception, _NOT_NOW):
                warnings.warn(f"{error}\n  it wants what there is only when the graph runs: the graph runs as it is",
                              RuntimeWarning, stacklevel=2)
                return self._entered(own)
            if config.repro_after == "dynamo" and library == "cresset":
                from cresset._dynamo import repro
                error.args = (f"{error.args[0]}\n  written to reproduce it: "
                              f"{repro.write(graph, example_inputs, self.function, str(error))}",)
            if not config.suppress_errors:
                raise
            warnings.warn(f"{error}\n  config.suppress_errors is on: the graph runs as it is", RuntimeWarning,
                          stacklevel=2)
            made = own
        return self._entered(made)

    def get_compiler_config(self) -> Any:
        told = getattr(self.function, "get_compiler_config", None)
        return told() if told else None

    def _compiled(self, module: Any, own: Callable[..., Any], example_inputs: list[Any],
                  library: str) -> Callable[..., Any]:
        try:
            made = self.function(module, example_inputs, **self.given)
        except SkipFrame:
            raise
        except Exception as error:
            raise BackendCompilerFailed(f"backend {self.name!r} raised {type(error).__name__}: {error}",
                                        self.function, error) from error
        if not callable(made):
            raise BackendCompilerFailed(f"backend {self.name!r} returned a {type(made).__name__}, which cannot be "
                                        "called: return a function of the graph's inputs, as the module itself is",
                                        self.function)
        if config.verify_correctness and (wrong := differs(own, made, example_inputs, library)):
            raise BackendCompilerFailed(f"backend {self.name!r} computes something else than the graph: {wrong} "
                                        "(config.verify_correctness)", self.function)
        return made

    def _entered(self, made: Callable[..., Any]) -> Callable[..., Any]:
        around = getattr(self.function, "backend_ctx_ctor", None)
        if around is None:
            return made

        def inside(*args: Any) -> Any:
            with around():
                return made(*args)
        return inside
