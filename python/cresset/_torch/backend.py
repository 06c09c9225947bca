"""torch.compile(model, backend="cresset"): PyTorch captures and differentiates (Dynamo, AOTAutograd), Cresset carries
out the graphs. Each graph runs at once, by the interpreter of graphs; native code takes over when it is built."""
from __future__ import annotations

import weakref
from typing import Any

import torch

from cresset._torch import crossing, targets
from cresset._torch.parts import Plan

NATIVE = ("background", "wait", "off")
_OPTIONS = {"native": "background", "strict": False}
_made: list[Any] = []  # weak references to the plans of living graphs


def read_options(options: dict[str, Any] | None) -> dict[str, Any]:
    """All options, those given checked."""
    known = dict(_OPTIONS)
    for name, value in (options or {}).items():
        if name not in known:
            raise RuntimeError(f"backend 'cresset' has no option {name!r}; it has {', '.join(map(repr, known))}")
        known[name] = value
    if known["native"] not in NATIVE:
        raise RuntimeError(f"option 'native' is {known['native']!r}; it can be {', '.join(map(repr, NATIVE))}")
    if not isinstance(known["strict"], bool):
        raise RuntimeError(f"option 'strict' is {known['strict']!r}; it can be True or False")
    return known


def _saved(gm: Any, forward: bool) -> set[Any]:
    """The outputs of a training forward that only the backward gets."""
    context = torch._guards.TracingContext.try_get() if forward else None
    metadata = getattr(context, "fw_metadata", None)
    visible = getattr(metadata, "num_forward_returns", None)
    if getattr(metadata, "bw_donated_idxs", None):
        metadata.bw_donated_idxs = []  # nothing that was saved is written over: backward may run twice
    outputs = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    if visible is None or not isinstance(outputs, (list, tuple)):
        return set()
    seen = {n for n in outputs[:visible] if isinstance(n, torch.fx.Node)}
    return {n for n in outputs[visible:] if isinstance(n, torch.fx.Node)} - seen


def _boxed(call: Any) -> Any:
    """As a function: torch wraps what a backward compiler returns, and asks the wrapper's __dict__."""
    def run(args: list[Any]) -> list[Any]:
        return call(args)
    run._boxed_call = True
    return run


def compile_graph(gm: Any, kind: str, options: dict[str, Any]) -> Any:
    """The callable for one graph of aten ops; kind: "inference", "forward" or "backward"."""
    crossing.prepare()
    plan = Plan(gm, _saved(gm, kind == "forward"), options["strict"])
    plan.kind = kind
    if options["native"] != "off":
        for part in plan.parts:
            part.compiled._build(part.graph, options["native"] == "wait")
    call = plan.call
    if kind == "backward":
        call = _boxed(call)
    _made[:] = [ref for ref in _made if ref() is not None]
    _made.append(weakref.ref(plan))
    return call


def report() -> list[dict[str, Any]]:
    """What became of the graphs that torch.compile(backend="cresset") made and that are still alive: nodes that Cresset
    carries out, ops that torch does (and why), the tier of each part, calls, and calls that torch answered."""
    rows = []
    for ref in _made:
        plan = ref()
        if plan is not None:
            rows.append({"kind": plan.kind, "nodes": plan.nodes, "opaque": dict(plan.opaque),
                         "tiers": [p.compiled.tier for p in plan.parts],
                         "calls": [p.compiled.calls for p in plan.parts],
                         "fallbacks": [p.compiled.fallbacks for p in plan.parts]})
    return rows


def _decompositions() -> dict[Any, Any]:
    """Of ops without a row, those that torch knows how to write with others."""
    if not _tables:
        from torch._decomp import core_aten_decompositions
        _tables.append({op: f for op, f in core_aten_decompositions().items() if not targets.has_row(op)})
    return _tables[0]


_tables: list[dict[Any, Any]] = []


def cresset(gm: Any, example_inputs: Any, *, options: dict[str, Any] | None = None, mode: str | None = None) -> Any:
    """The backend. options: native="background" (default), "wait" or "off"; strict=True: ops that the table lacks
    raise instead of being called through torch."""
    known = read_options(options)
    if mode not in (None, "default"):
        raise RuntimeError(f"backend 'cresset' has no mode {mode!r}; 'default' is the one there is")
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    def compiler(kind: str) -> Any:
        return lambda graph, inputs: compile_graph(graph, kind, known)

    backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"),
                           inference_compiler=compiler("inference"), decompositions=_decompositions(),
                           partition_fn=min_cut_rematerialization_partition)
    return backend(gm, example_inputs)
