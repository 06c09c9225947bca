"""make_fx(): the graph of the ops that a function calls on examples."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from cresset import _C
from cresset._decomp import _record
from cresset._functorch._recording import decomposition_table as _table
from cresset.fx.graph_module import GraphModule
from cresset.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["make_fx"]

_MODES = ("real", "fake", "symbolic")
_RECORDED = (_C.Tensor, _C.SymInt, _C.SymFloat, _C.SymBool)


def _names(f: Callable[..., Any], n: int) -> list[str]:
    """As PyTorch has them: x_1 for the parameter x."""
    try:
        found = [p.name for p in inspect.signature(f).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        found = []
    return [f"{found[i]}_1" if i < len(found) else f"arg{i}_1" for i in range(n)]


def make_fx(f: Callable[..., Any], decomposition_table: dict[Any, Any] | None = None,
            tracing_mode: str = "real") -> Callable[..., GraphModule]:
    """A function of f's arguments that gives the GraphModule of the ops that f calls on them. tracing_mode: "real" runs
    on the tensors, "fake" on fakes of their sizes, "symbolic" leaves sizes open. Arguments that are no tensors are the
    constants they were."""
    if tracing_mode not in _MODES:
        raise ValueError(f"there is no tracing_mode {tracing_mode!r}: there are {', '.join(map(repr, _MODES))}")

    def traced(*args: Any) -> GraphModule:
        for i, arg in enumerate(args):
            if isinstance(arg, (list, tuple, dict)):
                raise TypeError(f"make_fx(): argument {i} is a {type(arg).__name__}: trace a function that takes its "
                                "tensors one by one")
        spec: list[Any] = []

        def flat(*inputs: Any) -> tuple[Any, ...]:
            leaves, structure = tree_flatten(f(*inputs))
            spec.append(structure)
            return tuple(leaves)
        names = _names(f, len(args))
        open_sizes = tuple({d: None for d in range(arg.dim())} if isinstance(arg, _C.Tensor) else None for arg in args)
        raw = _C.record(flat, args, open_sizes if tracing_mode == "symbolic" else None, tuple(names),
                        tracing_mode != "real")
        if decomposition_table:
            raw = _C._decompose_graph(raw, _table(decomposition_table), _record)
        made = GraphModule.from_graph(raw)
        _restore(made, names, args, spec[-1])
        return made
    return traced


def _restore(made: GraphModule, names: list[str], args: tuple[Any, ...], spec: Any) -> None:
    """Inputs that the recording made constants, and the structure of the results."""
    graph = made.graph
    recorded = iter(graph.find_nodes(op="placeholder"))
    before = graph._root
    for name, arg in zip(names, args):
        if isinstance(arg, _RECORDED):
            before = next(recorded)
        else:
            with graph.inserting_after(before):
                before = graph.create_node("placeholder", name, name=name)
    output = graph.output_node()
    result = tree_unflatten(list(output.args[0]), spec)
    if result != output.args[0]:
        output.args = (result,)
    made.recompile()
