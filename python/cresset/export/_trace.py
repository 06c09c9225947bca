"""export(): a module, run once on fake tensors, becomes an ExportedProgram.

The tracer of cresset._C records every op that forward calls. Here is what happens around it: state and inputs become
placeholders, what forward changed on the module is put back, the results are flattened, and the parts make a program.
"""
from __future__ import annotations

import collections
import inspect
import json
import sys
from typing import Any

import cresset
from cresset import _C
from cresset.export import _names, _shapes
from cresset.export._errors import UserError, UserErrorType
from cresset.export._state import Swapped, attribute_tensors
from cresset.export.exported_program import ExportedProgram
from cresset.utils import _pytree as pytree

_LEAVES = (int, float, bool, str, type(None))


def export(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, dynamic_shapes: Any = None, strict: bool = False,
           preserve_module_call_signature: tuple[str, ...] = (), prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """The program that `mod(*args, **kwargs)` runs, for all inputs like these."""
    if not _is_module(mod):
        raise ValueError(f"export() takes a module (cresset.nn.Module), got {type(mod).__name__}: put a function into a module's forward")
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT, f"export(): args must be a tuple of the example inputs, got {type(args).__name__}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise UserError(UserErrorType.INVALID_INPUT, f"export(): kwargs must be a dict of example inputs by name, got {type(kwargs).__name__}")
    if strict:
        raise NotImplementedError("export(strict=True): capture by bytecode is not available yet; use strict=False, which runs the module on fake tensors")
    return _Export(mod, args, kwargs or {}, dynamic_shapes).run()


def _is_module(mod: Any) -> bool:
    return all(hasattr(mod, name) for name in ("forward", "named_parameters", "named_buffers", "named_modules"))


class _Export:
    """One export, step by step."""

    def __init__(self, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any):
        self.mod, self.args, self.kwargs, self.dynamic_shapes = mod, args, kwargs, dynamic_shapes
        self.modules = list(mod.named_modules())
        self.parameters = list(mod.named_parameters(remove_duplicate=False))
        self.buffers = list(mod.named_buffers(remove_duplicate=False))
        self.names = _names.Names()
        self.placeholders: dict[str, str] = {}    # of parameters and buffers, by path
        self.inputs: list[tuple[Any, ...]] = []   # (kind, name, target, persistent, is_constant, value), in order of the placeholders

    def run(self) -> ExportedProgram:
        leaves, in_spec = pytree.tree_flatten((self.args, self.kwargs))
        signature = inspect.signature(self.mod.forward)
        combined = _names.combine(signature, self.args, self.kwargs)
        _check_inputs(leaves, combined)
        mode = _C.FakeTensorMode()
        plan = _shapes.plan(self.mod, self.args, self.kwargs, self.dynamic_shapes)
        fake_args, fake_kwargs = plan.fakes(mode)
        fake_leaves = pytree.tree_leaves((fake_args, fake_kwargs))
        attributes = attribute_tensors(self.modules)
        tracer = _C._Tracer(mode, {id(module): (path, _class_name(type(module))) for path, module in self.modules}, attributes)
        user_names = [self.names.take(name) for name in _names.input_names(combined)]
        fakes = self._add_state(tracer)
        user = []
        for name, leaf in zip(user_names, fake_leaves):
            tracer.input(name, leaf, True)
            constant = isinstance(leaf, _LEAVES)
            user.append(("USER_INPUT", name, None, False, constant, leaf if constant else None))
        result = self._trace(tracer, fakes, fake_args, fake_kwargs)
        _register_return_types()
        out_leaves, out_spec = pytree.tree_flatten(result)
        _check_outputs(out_leaves)
        tracer.finish(out_leaves)
        settled = plan.settle(mode)
        graph = tracer.arrange()
        lifted = tracer.lifted
        self.inputs += [("CONSTANT_TENSOR", self.names.state("CONSTANT_TENSOR", name), name, False, False, None) for name, _ in lifted]
        state, constants = self._tensors(lifted, attributes)
        calls = [("", _spec_text(in_spec), _spec_text(out_spec), list(combined))]
        calls += [(path, None, None, None) for path, _ in self.mod.named_modules(remove_duplicate=False) if path]
        program = _C._build_program(graph, self.inputs + user, [("USER_OUTPUT", None)] * len(out_leaves), state, constants,
                                    [(name, *bounds) for name, bounds in settled.ranges.items()], settled.guards, calls, leaves, tracer)
        ep = ExportedProgram(program)
        ep._in_spec, ep._out_spec = in_spec, out_spec
        ep._state = {name: tensor for name, tensor, _, _ in state}
        ep._constants = {name: tensor for name, tensor, _, _ in constants}
        return ep

    def _add_state(self, tracer: Any) -> dict[int, Any]:
        """Placeholders for parameters and buffers under every name; the fakes by the id of the tensor they stand for."""
        fakes: dict[int, Any] = {}
        persistent = {id(module): getattr(module, "_non_persistent_buffers_set", set()) for _, module in self.modules}
        paths = dict(self.mod.named_modules(remove_duplicate=False))
        for kind, tensors in (("PARAMETER", self.parameters), ("BUFFER", self.buffers)):
            for target, tensor in tensors:
                if id(tensor) not in fakes:
                    fakes[id(tensor)] = tracer.fake(tensor)
                name = self.placeholders[target] = self.names.state(kind, target)
                tracer.input(name, fakes[id(tensor)], False)
                path, _, own = target.rpartition(".")
                saved = kind == "BUFFER" and own not in persistent[id(paths[path])]
                self.inputs.append((kind, name, target, saved, False, None))
        return fakes

    def _trace(self, tracer: Any, fakes: dict[int, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nn = sys.modules.get("cresset.nn.modules.module")
        grad = _C.is_grad_enabled()
        with Swapped(self.modules, fakes) as swapped:
            try:
                if nn is not None:
                    nn._export_stack = tracer
                result = tracer.run(self.mod, args, kwargs)
            finally:
                if nn is not None:
                    nn._export_stack = None
                _C._set_grad_enabled(grad)
            for path, value in swapped.assigned_buffers():
                tracer.copy_back(self.placeholders[path], value)
            if assigned := swapped.assigned_tensors():
                raise ValueError(f"export(): {', '.join(assigned)} {'was' if len(assigned) == 1 else 'were'} assigned a tensor by forward; a program keeps "
                                 "tensors between calls only in buffers: use register_buffer() for each")
        return result

    def _tensors(self, lifted: list[tuple[str, Any]], attributes: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        state: list[Any] = [(name, tensor, True, True) for name, tensor in self.parameters]
        constants: list[Any] = []
        for name, tensor in lifted:
            constants.append((name, tensor, False, False))
            constants += [(other, tensor, False, False) for other, value in attributes.items() if value is tensor and other != name]
        for (name, tensor), spec in zip(self.buffers, (spec for spec in self.inputs if spec[0] == "BUFFER")):
            (state if spec[3] else constants).append((name, tensor, False, spec[3]))
        return state, constants


def _check_inputs(leaves: list[Any], combined: dict[str, Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, (cresset.Tensor, *_LEAVES)):
            raise UserError(UserErrorType.INVALID_INPUT, f"export(): an input is a {type(leaf).__module__}.{type(leaf).__qualname__}, which a program cannot take; inputs are "
                            "tensors, numbers, texts, None, and tuples, lists and dicts of them; register a class of your own with "
                            "cresset.export.register_dataclass() or cresset.utils._pytree.register_pytree_node()")


def _check_outputs(leaves: list[Any]) -> None:
    symbolic = (_C.SymInt, _C.SymFloat, _C.SymBool)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, (cresset.Tensor, *_LEAVES, *symbolic)):
            raise UserError(UserErrorType.INVALID_OUTPUT, f"export(): an output is a {type(leaf).__module__}.{type(leaf).__qualname__}, which a program cannot give; outputs are "
                            "tensors, numbers, texts, None, and tuples, lists and dicts of them; register a class of your own with "
                            "cresset.export.register_dataclass() or cresset.utils._pytree.register_pytree_node()")


def _spec_text(spec: Any) -> str:
    """The spec as archives have it. Classes that have no name there get one here: the program runs, and saving it says what is missing."""
    try:
        return pytree.treespec_dumps(spec)
    except (NotImplementedError, TypeError):
        return json.dumps([1, _named(spec)])


def _named(spec: Any) -> dict[str, Any]:
    if spec.is_leaf():
        return pytree._dump(spec)
    children = [_named(child) for child in spec.children()]
    if spec.type is collections.namedtuple:
        return {"type": "collections.namedtuple", "context": _class_name(spec.context), "children_spec": children}
    try:
        plain = pytree._dump_node(spec)
    except (NotImplementedError, TypeError):
        plain = {"type": _class_name(spec.type), "context": json.dumps(repr(spec.context))}
    return {**plain, "children_spec": children}


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _register_return_types() -> None:
    """Structures that ops give are nodes: torch.max(x, 1) may be returned as it is."""
    for cls in _C._return_types.values():
        if _C._tree_registered(cls) is None:
            pytree.register_pytree_node(cls, lambda value: (list(value), None), lambda values, _, cls=cls: cls(values),
                                        flatten_with_keys_fn=lambda value: ([(pytree.SequenceKey(i), item) for i, item in enumerate(value)], None))
