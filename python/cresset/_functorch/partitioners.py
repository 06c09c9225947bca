"""How a joint graph is cut in two: what the backward graph gets from the forward graph, and what it computes again."""
from __future__ import annotations

import functools
from typing import Any

from cresset import _C
from cresset.export.graph_view import GraphModule

__all__ = ["default_partition", "min_cut_rematerialization_partition"]


def _cut(kind: str, joint: Any, results: int, budget: float) -> tuple[GraphModule, GraphModule]:
    raw = joint._raw if isinstance(joint, GraphModule) else joint
    if not isinstance(raw, _C.Graph):
        raise TypeError(f"a joint graph is a GraphModule or a Graph, not {type(joint).__name__}")
    outputs = len(next(node for node in raw.nodes if node["kind"] == "output")["args"])
    if not 0 <= results <= outputs:
        raise ValueError(f"num_fwd_outputs is {results}; the joint graph has {outputs} results")
    forward, backward, *_ = _C._partition(raw, outputs - results, results, kind, budget)
    return GraphModule(forward), GraphModule(backward)


def default_partition(joint_module: Any, _joint_inputs: Any, *,
                      num_fwd_outputs: int) -> tuple[GraphModule, GraphModule]:
    """(forward, backward): whatever the backward reads of what the forward computes is saved."""
    # unused _joint_inputs: the graph says what they are
    return _cut("default", joint_module, num_fwd_outputs, 1.0)


def min_cut_rematerialization_partition(joint_module: Any, _joint_inputs: Any, compiler: str = "native", *,
                                        num_fwd_outputs: int,
                                        activation_memory_budget: float = 1.0) -> tuple[GraphModule, GraphModule]:
    """(forward, backward): the cheapest choice of what is saved and what is computed again, by bytes and time; at
    budget 1 no product, convolution or attention is computed again. A budget below 1 is the fraction of those bytes
    that may be saved."""
    # unused _joint_inputs: the graph says what they are
    if compiler not in ("native", "nop"):
        raise ValueError(f"prices are those of 'native' code (and of 'nop'), not of {compiler!r}")
    return _cut("min_cut", joint_module, num_fwd_outputs, activation_memory_budget)


def _how(partition_fn: Any) -> dict[str, Any]:
    """What aot_function tells the C side: one of the two functions, or a functools.partial of one."""
    given = {}
    if isinstance(partition_fn, functools.partial) and not partition_fn.args:
        given, partition_fn = partition_fn.keywords, partition_fn.func
    known = {default_partition: {"min_cut": False}, min_cut_rematerialization_partition: {"min_cut": True}}
    unknown = set(given) - {"activation_memory_budget", "compiler"}
    if partition_fn not in known or unknown:
        raise ValueError(f"partition_fn is default_partition or min_cut_rematerialization_partition (or a "
                         f"functools.partial of it with activation_memory_budget), not {partition_fn!r}")
    budget = given.get("activation_memory_budget", 1.0)
    return {**known[partition_fn], "budget": float(budget)}
