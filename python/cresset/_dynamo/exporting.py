"""_dynamo.export(): a function or module captured whole, as a graph module and the guards under which it holds."""
from __future__ import annotations

import types
import warnings
from typing import Any, Callable, NamedTuple

from cresset import _C, fx, nn
from cresset._dynamo.exc import NotCallableError, UserError, UserErrorType
from cresset.utils import _pytree as pytree

__all__ = ["ExportResult", "export"]

_MODES = ("real", "fake", "symbolic")


class ExportResult(NamedTuple):
    """`guards`: what was looked at when it was captured, as texts."""
    graph_module: Any
    guards: list[str]


class _Function(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.__dict__["forward"] = function


class ExportedGraph(fx.GraphModule):
    """Called as the function was: arguments and results have its structure."""

    def _take(self, ep: Any) -> ExportedGraph:
        self.__dict__.update(_in_spec=ep.in_spec, _out_spec=ep.out_spec, _names=list(ep._data["calls"][0][3]),
                             _outputs=ep.graph_signature.output_specs)
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(self._names, args)) | kwargs
        unknown = [name for name in given if name not in self._names]
        missing = [name for name in self._names if name not in given]
        if unknown or missing or len(args) > len(self._names):
            raise TypeError(f"the exported graph takes {', '.join(self._names)}; {', '.join(missing) or 'nothing'} is "
                            f"missing, {', '.join(unknown) or 'nothing'} is not known, {len(args)} are given by "
                            "position")
        count = len(self._names) - len(self._in_spec.children()[1].children())
        ordered = (tuple(given[name] for name in self._names[:count]), {name: given[name]
                                                                        for name in self._names[count:]})
        flat, spec = pytree.tree_flatten(ordered)
        if spec != self._in_spec:
            raise TypeError(f"the exported graph takes arguments of the structure {self._in_spec}, not {spec}")
        return pytree.tree_unflatten(self._results(super().forward(*flat), flat), self._out_spec)

    def _results(self, outputs: Any, flat: list[Any]) -> list[Any]:
        """Those of the user; what the function writes to is written."""
        results = []
        for spec, value in zip(self._outputs, outputs if isinstance(outputs, (tuple, list)) else [outputs]):
            if spec.kind.name == "BUFFER_MUTATION":
                path, _, name = spec.target.rpartition(".")
                getattr(self.get_submodule(path), name).data.copy_(value)
            elif spec.kind.name == "USER_INPUT_MUTATION":
                inputs = [node.name for node in self.graph.nodes if node.op == "placeholder"]
                flat[inputs.index(spec.target)].data.copy_(value)
            else:
                results.append(value)
        return results


def _embed(graph: Any, ep: Any, constants: dict[int, Any]) -> None:
    """Constants that no program holds become outputs of the graph, by their numbers among the user's."""
    user = [i for i, spec in enumerate(ep.graph_signature.output_specs) if spec.kind.name == "USER_OUTPUT"]
    output = graph.output_node()
    results = list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
    for number, value in constants.items():
        results[user[number]] = value
    output.args = (tuple(results),)


def _graph_module(ep: Any, kind: type, constants: dict[int, Any]) -> Any:
    """The program's graph, its state as attributes."""
    whole = fx.GraphModule.from_graph(ep._program.graph)
    attributes = {name: getattr(whole, name) for name, _ in ep._program.graph._subgraphs()}
    targets = {name: target for input_kind, name, target, *_ in ep._data["inputs"] if input_kind != "USER_INPUT"}
    tensors = {**ep.constants, **ep.state_dict}
    for node in [node for node in whole.graph.nodes if node.op == "placeholder" and node.name in targets]:
        target = targets[node.name]
        attributes[target] = tensors[target]
        with whole.graph.inserting_before(node):
            read = whole.graph.get_attr(target)
        read.meta.update(node.meta)
        node.replace_all_uses_with(read)
        whole.graph.erase_node(node)
    if constants:
        _embed(whole.graph, ep, constants)
    return kind(attributes, whole.graph)


def _name_unused(gm: Any, ep: Any) -> Any:
    """A flat input that nothing uses is `arg` and its number, as in PyTorch; where none is used, names stay."""
    written = {spec.target for spec in ep.graph_signature.output_specs if spec.kind.name == "USER_INPUT_MUTATION"}
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    used = [bool(node.users) or node.name in written for node in inputs]
    if not any(used) and not any(node.op == "call_function" for node in gm.graph.nodes):
        return gm
    for i, node in enumerate(inputs):
        if not used[i] and node.name != f"arg{i}":
            node.name = gm.graph._name(f"arg{i}")
            gm.graph._names.setdefault(node.name, 0)
            node.target = node.name
    gm.recompile()
    return gm


def _all_open(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Every size that may vary does."""
    from cresset.export import Dim
    from cresset.export._trace import _combine
    from cresset.export.dynamic_shapes import _combine_args
    _combine(f, args, kwargs)  # says what does not fit

    def sizes(leaf: Any) -> Any:
        return {d: Dim.AUTO for d, n in enumerate(leaf.shape) if n > 1} if hasattr(leaf, "shape") else None
    return {name: pytree.tree_map(sizes, value) for name, value in _combine_args(f, args, kwargs).items()}


def _check(aten_graph: bool, pre_dispatch: bool, decomposition_table: Any, tracing_mode: str) -> None:
    """PyTorch asserts."""
    if pre_dispatch and not aten_graph:
        raise AssertionError("export(): pre_dispatch=True is about ATen graphs: give aten_graph=True, too")
    if decomposition_table is not None and not aten_graph:
        raise AssertionError("export(): a decomposition_table is for ATen graphs: give aten_graph=True, too")
    if tracing_mode not in _MODES:
        raise ValueError(f"export(): tracing_mode is {', '.join(map(repr, _MODES))}, not {tracing_mode!r}")


def export(f: Any, *extra_args: Any, aten_graph: bool = False, pre_dispatch: bool = False,
           decomposition_table: dict[Any, Any] | None = None, tracing_mode: str = "symbolic",
           dynamic_shapes: Any = None, assume_static_by_default: bool = False, same_signature: bool = True,
           disable_constraint_solver: bool = False, prefer_deferred_runtime_asserts_over_guards: bool = False,
           **extra_kwargs: Any) -> Any:
    """A function of f's arguments that gives (graph_module, guards): f captured whole, on those arguments.

    Sizes are left open where they can be, unless dynamic_shapes says which, assume_static_by_default is set or
    tracing_mode is "real" or "fake". Graphs are of aten ops, as f calls them; aten_graph: without composite ops and
    writes, and decomposed by decomposition_table (pre_dispatch: composite ops stay). same_signature=False: the module
    takes and gives flat lists. disable_constraint_solver: sizes that dynamic_shapes names and the program settles are
    no error."""
    if not callable(f):
        raise NotCallableError(f"export() takes a function or a module, not a {type(f).__name__}")
    _check(aten_graph, pre_dispatch, decomposition_table, tracing_mode)

    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        mod = _module_of(f, args, kwargs)
        spec, guards = dynamic_shapes, []
        if spec is None and tracing_mode == "symbolic" and not assume_static_by_default:
            spec = _all_open(f, args, kwargs)
        elif disable_constraint_solver:
            spec = _relaxed(spec)
        ep, constants = _run(f, mod, args, kwargs, spec, prefer_deferred_runtime_asserts_over_guards, guards)
        if aten_graph and (decomposition_table is not None or not pre_dispatch):
            ep = ep.run_decompositions(decomposition_table if decomposition_table is not None else {})
        if not same_signature:
            return ExportResult(_graph_module(ep, fx.GraphModule, constants), guards)
        return ExportResult(_name_unused(_graph_module(ep, ExportedGraph, constants)._take(ep), ep), guards)

    if extra_args or extra_kwargs:
        warnings.warn("export(f, *args) is deprecated: write export(f)(*args)", FutureWarning, stacklevel=2)
        return inner(*extra_args, **extra_kwargs)
    return inner


def _relaxed(spec: Any) -> Any:
    from cresset.export import Dim
    if isinstance(spec, dict):
        return {key: _relaxed(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_relaxed(value) for value in spec)
    return Dim.AUTO if isinstance(spec, Dim) else spec


def _module_of(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if isinstance(f, types.MethodType) and _C._kind(f.__self__) == "module":
        return f.__self__
    if _C._kind(f) == "module":
        return f
    if any(type(leaf).__module__.partition(".")[0] == "torch" for leaf in pytree.tree_leaves((args, kwargs))):
        raise NotImplementedError("export() of a function on PyTorch's tensors: put it into a torch.nn.Module")
    return _Function(f)


def _run(f: Any, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, asserts: bool,
         guards: list[str]) -> tuple[Any, dict[int, Any]]:
    from cresset.export import _trace
    from cresset.export._state import claimed
    with claimed(mod):
        if not isinstance(f, types.MethodType) or f.__self__ is not mod:
            work = _trace._Export(mod, args, kwargs, spec, (), asserts, False, True)
            return _finish(work, guards)
        with _trace.patch_forward(mod, f):
            return _finish(_trace._Export(mod, args, kwargs, spec, (), asserts, False, True), guards)


def _finish(work: Any, guards: list[str]) -> tuple[Any, dict[int, Any]]:
    work.elsewhere, work.captured_guards = [], guards
    ep = work.run()
    if work.elsewhere:
        places = "\n".join(f"  a tensor of {list(tensor.shape)}, first used at {place}" for tensor, place in
                           work.elsewhere)
        raise UserError(UserErrorType.INVALID_INPUT,
                        f"export(): tensors are used that are no inputs, parameters, buffers or attributes of the "
                        f"module:\n{places}\npass each as an argument, or mark the function that makes it with "
                        "cresset._dynamo.assume_constant_result")
    return ep, work.embedded


def _export_to_torch_ir(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, dynamic_shapes: Any = None,
                        *, preserve_module_call_signature: tuple[str, ...] = (),
                        disable_constraint_solver: bool = False,
                        prefer_deferred_runtime_asserts_over_guards: bool = False, restore_fqn: bool = True,
                        _log_export_usage: bool = True, same_signature: bool = True) -> Any:
    """f captured whole, before decompositions: a graph module of the ops that f calls, whose parameters and buffers
    have their own names. Sizes are as they are but for those of dynamic_shapes."""
    # unused _log_export_usage: nothing is ever sent anywhere
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT, f"args is a tuple of example inputs, not a {type(args).__name__}; "
                                                     "for one input write (x,)")
    if preserve_module_call_signature:
        raise NotImplementedError("_export_to_torch_ir(preserve_module_call_signature=...): give it to "
                                  "cresset.export.export, whose programs unflatten() makes modules of")
    if not restore_fqn:
        raise NotImplementedError("_export_to_torch_ir(restore_fqn=False): parameters and buffers keep their names")
    return export(f, dynamic_shapes=dynamic_shapes, assume_static_by_default=True, same_signature=same_signature,
                  disable_constraint_solver=disable_constraint_solver,
                  prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
                  )(*args, **(kwargs or {})).graph_module
