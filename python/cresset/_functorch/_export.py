"""Functional graphs of modules and functions, with gradients on request: aot_export_module, aot_export_joint_simple.

Nothing is done around such a graph: its inputs are flat (parameters, buffers, the user's), its results are new values
of what was written, the user's results, and gradients. The signature says which is which.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import cresset
from cresset import _C
from cresset._decomp import _record
from cresset.export.graph_view import GraphModule
from cresset.utils._pytree import tree_flatten, tree_unflatten

from . import config
from ._recording import decomposition_table, functional, module_state, with_backwards
from .partitioners import default_partition

_DATA, _META = 1, 2  # what is written of an input


@dataclasses.dataclass
class BackwardSignature:
    """Which result is the gradient of what: by names of results, parameters and inputs."""
    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class GraphSignature:
    """What the inputs and results of the graph are; new values of what was written are for the caller to apply."""
    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None
    input_tokens: list[str]
    output_tokens: list[str]


class JointGraphModule(GraphModule):
    """Called with (primals, tangents); gives (results, gradients), a gradient or None for each primal."""

    def __init__(self, raw: _C.Graph, results: int):
        super().__init__(raw)
        self._results = results

    def __call__(self, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:  # type: ignore[override]
        made = super().__call__(*primals, *tangents)
        return list(made[:self._results]), list(made[self._results:])

    forward = __call__


# ---- recording ----

@dataclasses.dataclass
class _Program:
    """A function recorded on flat inputs."""
    graph: Any
    writes: tuple[int, ...]
    kinds: tuple[str, ...]
    metadata: str
    leaves: list[Any]
    out_spec: Any
    structure: Any  # what the function gave, in its shape


_OWN_RULES = ("__tensor_flatten__", "__torch_dispatch__", "__torch_function__")  # of what ops do to a subclass


def _flat(api: str, leaves: list[Any], first: int) -> None:
    for i, leaf in enumerate(leaves):
        own = [rule for rule in _OWN_RULES if rule in dir(type(leaf))]
        if isinstance(leaf, _C.Tensor) and own:
            what = f"input {i - first}" if i >= first else f"parameter or buffer {i}"
            raise RuntimeError(f"{api} is not supported with subclasses of Tensor that have rules of their own: {what} "
                               f"is a {type(leaf).__name__}, which has {own[0]}. Pass the tensors that it wraps")
        if not isinstance(leaf, _C.Tensor):
            raise NotImplementedError(f"{api}: input {i - first} is {leaf!r}; inputs of the graph are tensors: close "
                                      "over other values, or make a tensor of it")


def _recorded(api: str, fn: Callable[..., Any], leaves: list[Any], spec: Any, names: list[str], fixed: int = 0,
              dynamic: bool = False) -> _Program:
    seen: dict[str, Any] = {}

    def flat(fakes: list[Any]) -> list[Any]:
        args, kwargs = tree_unflatten(fakes, spec)
        seen["whole"] = with_backwards(fn, args, kwargs)
        results, seen["spec"] = tree_flatten(seen["whole"])
        for i, result in enumerate(results):
            if not isinstance(result, (_C.Tensor, _C.SymInt, _C.SymFloat, _C.SymBool)):
                raise NotImplementedError(f"{api}: result {i} is {result!r}; results of the graph are tensors: leave "
                                          "it out, or make a tensor of it")
        return results

    made = _C._aot_record(flat, leaves, names, fixed=fixed, dynamic=dynamic)
    return _Program(*made, leaves, seen["spec"], seen["whole"])


def _check_inputs(program: _Program, joint: bool) -> None:
    """What a graph alone cannot say of its inputs."""
    told = f"\n\nfw_metadata={program.metadata}"
    for i, (leaf, writes) in enumerate(zip(program.leaves, program.writes)):
        if writes & _META:
            raise RuntimeError(f"Found an input that received a metadata mutation, through e.g. a call to `.resize_()` "
                               f"or `.transpose_()`: input {i}. A functional graph has no place for it; use t() and "
                               f"such, which give a new tensor.{told}")
        if not writes:
            continue
        if joint and leaf.requires_grad:
            raise RuntimeError(f"Found a graph input that requires gradients, and received a mutation: input {i}. "
                               f"Write to a detached tensor or a buffer that requires none.{told}")
        for k, other in enumerate(program.leaves):
            if k != i and other is leaf:
                raise RuntimeError(f"Encountered duplicated inputs that are mutated in the graph you are trying to "
                                   f"export: {i} and {k} are one tensor. Pass it once, or a clone() of it.{told}")
            if k != i and other.untyped_storage().data_ptr() == leaf.untyped_storage().data_ptr():
                raise RuntimeError(f"Encountered aliased inputs that are mutated in the graph you are trying to export:"
                                   f" {i} and {k} share memory. Pass a clone() of one of them.{told}")


def _names_of(graph: Any) -> tuple[list[str], list[str]]:
    nodes = graph.nodes
    inputs = [node["results"][0]["name"] for node in nodes if node["kind"] == "placeholder"]
    view = GraphModule(graph).graph.output_node().args[0]
    return inputs, [str(value) for value in view]


def _decomposed(graph: Any, decompositions: Any) -> Any:
    table = decomposition_table(decompositions)
    return _C._decompose_graph(graph, table, _record) if table else graph


# ---- modules ----

def _check_structure(whole: Any, loss: int | None) -> None:
    if loss is None:
        raise RuntimeError("If trace_joint=True it is required that one of your forward outputs must be a scalar loss. "
                           "You must specify the which (index) output is the loss with output_loss_index.")
    if not isinstance(whole, (tuple, list)):
        raise RuntimeError("Expected forward output to be either a tensor or a list/tuple of tensors. found "
                           f"{type(whole)}; return its tensors, the loss among them, as a tuple")
    if not 0 <= loss < len(whole):
        raise IndexError(f"output_loss_index is {loss}; the forward has {len(whole)} outputs")


def _check_loss(live: tuple[bool, ...], whole: Any, loss: int) -> None:
    for i, requires in enumerate(live):
        if requires and i != loss:
            raise RuntimeError(
                "Found an output of the forward that requires gradients, that was not the scalar loss. We require all "
                "outputs to the forward that are not the scalar loss to not require gradient, because we will only "
                "compute a backward graph against the scalar loss. You can fix this by calling .detach() on each of "
                f"your forward outputs that is not the loss. You specified that output index {loss} is the loss, but "
                f"we found that the output at index {i} requires gradients.")
    if not live[loss]:
        raise RuntimeError(f"The output at index {loss} was marked as the loss, but it does not require gradients; "
                           "compute it from a parameter or an input that does")
    if str(whole[loss].numel()) != "1":
        raise RuntimeError(f"We require the output marked as the loss (at index {loss}) to be a scalar, but it has "
                           f"shape {list(whole[loss].shape)}; reduce it with .sum() or .mean()")


def aot_export_module(mod: Any, args: Any, *, decompositions: dict[Any, Any] | None = None, trace_joint: bool,
                      output_loss_index: int | None = None, pre_dispatch: bool = False,
                      dynamic_shapes: bool | None = None,
                      kwargs: dict[str, Any] | None = None) -> tuple[GraphModule, GraphSignature]:
    """(graph, signature) of the module called with (*args, **kwargs): functional, flat, weights as inputs under every
    name that they have.

    Inputs: parameters, buffers, the user's tensors. Results: new values of buffers and inputs that were written (only
    returned: the caller applies them), the user's results and, with trace_joint, gradients of the loss by whatever
    requires grad, in the order of the inputs; the loss's tangent is 1. dynamic_shapes: sizes of user inputs are
    symbols."""
    if pre_dispatch and trace_joint:
        raise RuntimeError("pre_dispatch is not supported when trace_joint is True. Leave one of them out: gradients "
                           "are in the graph of trace_joint alone")
    if pre_dispatch:
        raise NotImplementedError("pre_dispatch=True: switches of grad mode are regions of exported programs; use "
                                  "cresset.export.export(mod, args)")
    config.refuse_functional_rng("aot_export_module()")
    parameters = dict(mod.named_parameters(remove_duplicate=False))
    buffers = dict(mod.named_buffers(remove_duplicate=False))
    state = module_state(mod)
    call, names = functional(mod), list(state)

    def fn(*flat: Any, **named: Any) -> Any:
        result = call(dict(zip(names, flat)), flat[len(names):], named)
        if trace_joint:
            result = (result,) if isinstance(result, _C.Tensor) else result
            _check_structure(result, output_loss_index)
        return result

    full = (*state.values(), *args)
    leaves, spec = tree_flatten((full, kwargs or {}))
    _flat("aot_export_module()", leaves, len(state))
    with cresset.set_grad_enabled(trace_joint):
        program = _recorded("aot_export_module()", fn, leaves, spec, [f"arg{i}_1" for i in range(len(leaves))],
                            len(state), bool(dynamic_shapes))
    _check_inputs(program, trace_joint)
    wrt = [trace_joint and leaf.requires_grad for leaf in leaves]
    loss = -1 if output_loss_index is None or not trace_joint else output_loss_index
    graph, mutated, due, live = _C._aot_export(program.graph, wrt, loss)
    if loss >= 0:
        _check_loss(live, program.structure, loss)
    reached = {id(leaf) for leaf, given in zip(leaves, due) if given}  # by one of its names
    for i, (wanted, leaf) in enumerate(zip(wrt, leaves)):
        if wanted and id(leaf) not in reached:
            what = f"the parameter '{names[i]}'" if i < len(names) else f"user input {i - len(names)}"
            raise AssertionError(f"Found a parameter that did not receive a gradient: {what} requires grad, and the "
                                 "loss does not depend on it; use it, or requires_grad_(False)")
    graph = _decomposed(graph, decompositions)
    signature = _signature(graph, list(parameters), list(buffers), mutated, due, spec, program.out_spec, loss)
    return GraphModule(graph), signature


def _signature(graph: Any, parameters: list[str], buffers: list[str], mutated: tuple[int, ...], due: tuple[bool, ...],
               in_spec: Any, out_spec: Any, loss: int) -> GraphSignature:
    inputs, outputs = _names_of(graph)
    weights = len(parameters) + len(buffers)
    state = [*parameters, *buffers]
    updates = dict(zip(outputs, mutated))
    user = outputs[len(mutated):len(mutated) + out_spec.num_leaves]
    grads = dict(zip(outputs[len(mutated) + len(user):], (i for i, given in enumerate(due) if given)))
    backward = None if loss < 0 else BackwardSignature(
        {name: state[i] for name, i in grads.items() if i < weights},
        {name: inputs[i] for name, i in grads.items() if i >= weights}, user[loss])
    return GraphSignature(
        parameters=parameters, buffers=buffers, user_inputs=inputs[weights:], user_outputs=user,
        inputs_to_parameters=dict(zip(inputs, parameters)),
        inputs_to_buffers=dict(zip(inputs[len(parameters):], buffers)),
        buffers_to_mutate={name: state[i] for name, i in updates.items() if len(parameters) <= i < weights},
        parameters_to_mutate={name: state[i] for name, i in updates.items() if i < len(parameters)},
        user_inputs_to_mutate={name: inputs[i] for name, i in updates.items() if i >= weights},
        in_spec=in_spec, out_spec=out_spec, backward_signature=backward, input_tokens=[], output_tokens=[])


# ---- functions ----

def aot_export_joint_simple(func: Callable[..., Any], args: tuple[Any, ...], *, trace_joint: bool,
                            num_params_buffers: int = 0,
                            decompositions: dict[Any, Any] | None = None) -> GraphModule:
    """The graph of a function of flat tensors that gives a tuple of new tensors. With trace_joint it is called with
    (primals, tangents) and gives (results, gradients); cut in two by a partitioner, its forward part takes what func
    takes and gives first what func gives. num_params_buffers: sizes are fixed for all of them, so for these, too."""
    config.refuse_functional_rng("aot_export_joint_simple()")
    leaves, spec = tree_flatten((args, {}))
    if not 0 <= num_params_buffers <= len(leaves):
        raise ValueError(f"num_params_buffers is {num_params_buffers}; there are {len(leaves)} inputs")
    if spec.children_spec[0].is_leaf():
        raise RuntimeError(f"aot_export_joint_simple requires inputs to be a single list/tuple. in_spec={spec}; "
                           "pass (x,)")
    if not all(child.is_leaf() for child in spec.children_spec[0].children_spec):
        raise RuntimeError(f"aot_export_joint_simple requires individual inputs not to be pytrees. in_spec={spec}; "
                           "pass their leaves")
    _flat("aot_export_joint_simple()", leaves, 0)
    with cresset.set_grad_enabled(trace_joint):
        program = _recorded("aot_export_joint_simple()", func, leaves, spec,
                            [f"primals_{i + 1}" if trace_joint else f"arg{i}_1" for i in range(len(leaves))])
    _check_inputs(program, trace_joint)
    if any(program.writes):
        raise RuntimeError(f"aot_export_joint_simple does not support input mutations: write to a clone().\n"
                           f"{program.metadata}")
    if any(kind not in ("fresh", "number") for kind in program.kinds):
        raise RuntimeError(f"aot_export_joint_simple does not support outputs that alias inputs, or each other: return "
                           f".clone().\n{program.metadata}")
    if program.out_spec.is_leaf():
        raise RuntimeError("aot_export_joint_simple requires outputs to be a single list/tuple. "
                           f"out_spec={program.out_spec}; return (result,)")
    if not all(child.is_leaf() for child in program.out_spec.children_spec):
        raise RuntimeError(f"aot_export_joint_simple requires individual outputs not to be pytrees. "
                           f"out_spec={program.out_spec}; return their leaves")
    if not trace_joint:
        return GraphModule(_decomposed(_C._aot_export(program.graph, None, -1)[0], decompositions))
    wrt = [leaf.requires_grad for leaf in leaves]
    joint, _, results, _ = _C._differentiate(_C._functionalize(program.graph)[0], wrt)
    made = JointGraphModule(_decomposed(joint, decompositions), results)
    if config.debug_assert:
        forward, _ = default_partition(made, args, num_fwd_outputs=results)
        taken = [node for node in forward._raw.nodes if node["kind"] == "placeholder"]
        assert len(taken) == len(leaves), "the forward part takes other inputs than the function"
    return made
