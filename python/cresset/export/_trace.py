"""export(): a module, run once on fake tensors, becomes an ExportedProgram.

The tracer of cresset._C records every op that forward calls. Here is what happens around it: state and inputs become
placeholders, what forward changed on the module is put back, the results are flattened, and the parts make a program.
"""
from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from cresset import _C
from cresset._symbolic import symbolic_builtins
from cresset.export import _log, _names, _report, _shapes, _strict, config
from cresset.export._location import text as _location_text
from cresset.export._errors import ArgumentsDifferError, SpecViolationError, UserError, UserErrorType
from cresset.export._state import Swapped, attribute_tensors, claimed
from cresset.export.dynamic_shapes import AdditionalInputs, signature_of
from cresset.export.exported_program import ExportedProgram
from cresset.export.unflatten import InterpreterModule
from cresset.utils import _pytree as pytree

_LEAVES = (int, float, bool, str, type(None))
# what _dynamo.export takes and gives beside those: constants that no archive holds
_CONSTANTS = (complex, bytes, type(...), _C.dtype, _C.device, _C.layout, _C.memory_format)
_KINDS = "tensors, numbers, texts, None, and tuples, lists and dicts of them"
_MORE_KINDS = ("tensors, symbolic numbers, int, float, complex, bool, str, bytes, None, Ellipsis, dtype, device, "
               "layout, memory_format, and tuples, lists and dicts of them")
_HOW = ("register a class of your own with cresset.export.register_dataclass() or "
        "cresset.utils._pytree.register_pytree_node()")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def export(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, dynamic_shapes: Any = None,
           strict: bool = False,
           preserve_module_call_signature: tuple[str, ...] = (),
           prefer_deferred_runtime_asserts_over_guards: bool = False, report: bool = False) -> Any:
    """The program that `mod(*args, **kwargs)` runs, for all inputs like these: an ExportedProgram.

    dynamic_shapes: which sizes may differ from the example's (docs/shapes.md).
    preserve_module_call_signature: paths of submodules whose calling convention is kept, for unflatten().
    prefer_deferred_runtime_asserts_over_guards: conditions on sizes are checked by the program when it runs.
    report: an ExportReport instead, with every problem, its line and a fix; nothing is raised for them.
    strict: forward is not run but captured by its bytecode, as compile(fullgraph=True) does it; what cannot be is an
    Unsupported error that names the line.
    """
    if not _is_module(mod):
        raise ValueError(f"export() takes a module (cresset.nn.Module), got {type(mod).__name__}: put a function into "
                         f"a module's forward")
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT,
                        f"export(): args must be a tuple of the example inputs, got {type(args).__name__}: "
                        f"write (x,) for one input")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise UserError(UserErrorType.INVALID_INPUT,
                        f"export(): kwargs must be a dict of example inputs by name, got {type(kwargs).__name__}")
    flags = {"strict": strict, "dynamic_shapes": dynamic_shapes is not None,
             "preserve_module_call_signature": list(preserve_module_call_signature),
             "prefer_deferred_runtime_asserts_over_guards": prefer_deferred_runtime_asserts_over_guards,
             "report": report}
    with claimed(mod), _log.events("export", flags) as log:
        work = _Export(mod, args, kwargs or {}, dynamic_shapes, preserve_module_call_signature,
                       prefer_deferred_runtime_asserts_over_guards, report, strict)
        if report:
            return work.report()
        log["program"] = ep = work.run()
        return ep


def export_for_training(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
                        dynamic_shapes: Any = None, strict: bool = False,
                        preserve_module_call_signature: tuple[str, ...] = (),
                        prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """The same as export(): its programs are in the training dialect."""
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature,
                  prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards)


_warned = False


def capture_pre_autograd_graph(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                               dynamic_shapes: Any = None) -> Any:
    """Deprecated: export(f, args, kwargs, dynamic_shapes=...).module(). Its train() and eval() raise."""
    global _warned
    if not _is_module(f):
        raise ValueError(f"capture_pre_autograd_graph() takes a module, got {type(f).__name__}: put a function "
                         f"into a module's forward")
    if not _warned:
        _warned = True
        warnings.warn("capture_pre_autograd_graph() is deprecated: use cresset.export.export(...).module()",
                      DeprecationWarning, stacklevel=2)
    return export(f, args, kwargs, dynamic_shapes=dynamic_shapes).module()


@contextlib.contextmanager
def patch_forward(mod: Any, method: Callable[..., Any]) -> Iterator[Any]:
    """Inside the block `mod.forward` is `method`, so that export(mod, ...) exports that method."""
    if not _is_module(mod):
        raise TypeError(f"patch_forward() takes a module and one of its methods; the first is a {type(mod).__name__}")
    if not callable(method):
        raise TypeError(f"patch_forward() takes a module and one of its methods, such as module.method; the second is "
                        f"a {type(method).__name__}")
    before = mod.__dict__.get("forward")
    mod.__dict__["forward"] = method
    try:
        yield mod
    finally:
        if before is None:
            del mod.__dict__["forward"]
        else:
            mod.__dict__["forward"] = before


def _is_module(mod: Any) -> bool:
    return _C._kind(mod) == "module"


class _Export:
    """One export, step by step."""

    def __init__(self, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any,
                 preserved: tuple[str, ...] = (),
                 asserts: bool = False, reports: bool = False, strict: bool = False):
        self.mod, self.dynamic_shapes, self.asserts, self.reports = mod, dynamic_shapes, asserts, reports
        self.args, self.kwargs, self.given = args, kwargs, (args, kwargs)
        self.taken = _strict.taken(mod)
        self.strict = strict or self.taken is not None
        if self.taken is not None:  # PyTorch's: tensors of ours stand for its tensors
            from cresset._torch import exporting
            self.dynamic_shapes = exporting.shapes(dynamic_shapes, mod, args, kwargs)
            self.args, self.kwargs = self.taken.inputs((args, kwargs))
        self.modules = list(mod.named_modules())
        self.paths = dict(mod.named_modules(remove_duplicate=False))
        unknown = [path for path in preserved if path not in self.paths]
        if unknown:
            raise ValueError(f"export(): preserve_module_call_signature names {', '.join(map(repr, unknown))}, which "
                             f"the module does not have; its submodules are "
                             f"{', '.join(repr(path) for path in self.paths if path)}")
        self.preserved = {id(self.paths[path]): path for path in preserved}
        self.signatures: dict[str, tuple[Any, ...]] = {}
        self.parameters = self._state(mod.named_parameters(remove_duplicate=False))
        self.buffers = self._state(mod.named_buffers(remove_duplicate=False))
        self.names = _names.Names()
        self.placeholders: dict[str, str] = {}    # of parameters and buffers, by path
        # (kind, name, target, persistent, is_constant, value), in order of the placeholders
        self.inputs: list[tuple[Any, ...]] = []
        self.problems: list[_report.Problem] = []
        # _dynamo.export: tensors from elsewhere with their lines, and guards as texts
        self.elsewhere: list[tuple[Any, str | None]] | None = None
        self.captured_guards: list[str] | None = None
        self.embedded: dict[int, Any] = {}  # its outputs, by number, that are of _CONSTANTS

    def _state(self, tensors: Iterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
        if self.taken is None:
            return list(tensors)
        return [(name, self.taken.state(tensor, f"'{name}'")) for name, tensor in tensors]

    def run(self) -> ExportedProgram:
        leaves, in_spec = pytree.tree_flatten((self.args, self.kwargs))
        combined = _combine(self.mod, self.args, self.kwargs)
        _check_inputs(leaves, combined, self.elsewhere is not None)
        mode = _C.FakeTensorMode()
        plan = _shapes.plan(self.mod, self.args, self.kwargs, self.dynamic_shapes)
        fake_args, fake_kwargs = plan.fakes(mode)
        fake_leaves = pytree.tree_leaves((fake_args, fake_kwargs))
        attributes = dict(self._state(attribute_tensors(self.modules).items()))
        tracer = _C._Tracer(mode, {id(module): (path, _class_name(module)) for path, module in self.modules},
                            attributes, self.reports)
        user_names = [self.names.take(name) for name in _names.input_names(combined)]
        fakes = self._add_state(tracer)
        user = []
        for name, leaf in zip(user_names, fake_leaves):
            leaf = None if isinstance(leaf, _CONSTANTS) else leaf  # an input that nothing reads
            tracer.input(name, leaf, True)
            constant = isinstance(leaf, _LEAVES)
            user.append(("USER_INPUT", name, None, False, constant, leaf if constant else None))
        try:
            with symbolic_builtins() if self.taken is None else _strict.theirs():
                result = self._trace(tracer, fakes, fake_args, fake_kwargs)
        finally:
            self.problems += [_report.problem(kind, message, location) for kind, message, location in tracer.problems]
        _register_return_types()
        out_leaves, out_spec = pytree.tree_flatten(result)
        _check_outputs(out_leaves, self.elsewhere is not None)
        self.embedded = {i: leaf for i, leaf in enumerate(out_leaves) if isinstance(leaf, _CONSTANTS)}
        out_leaves = [None if i in self.embedded else leaf for i, leaf in enumerate(out_leaves)]
        tracer.finish(out_leaves)
        settled = plan.settle(mode, self.asserts)
        graph = tracer.arrange(self.asserts if config.runtime_asserts else None)
        lifted = tracer.lifted
        self.inputs += [("CONSTANT_TENSOR", self.names.state("CONSTANT_TENSOR", name), name, False, False, None)
                        for name, _ in lifted]
        state, constants = self._tensors(lifted, attributes)
        calls: list[tuple[Any, ...]] = [("", _spec_text(in_spec), _spec_text(out_spec), list(combined))]
        calls += [(path, *self.signatures.get(path, (None, None, None))) for path in [*self.paths,
                *(key for key in self.signatures if key not in self.paths)] if path]
        program = _C._build_program(graph, self.inputs + user, [("USER_OUTPUT", None)] * len(out_leaves), state,
                                    constants,
                                    [(name, *bounds) for name, bounds in settled.ranges.items()], settled.guards,
                                    calls, [None if isinstance(leaf, _CONSTANTS) else leaf for leaf in leaves], tracer)
        try:
            program.check()
        except ValueError as error:
            raise SpecViolationError(str(error)) from None
        ep = ExportedProgram(program)
        ep._in_spec, ep._out_spec = in_spec, out_spec
        ep._state = ep._hand_out("state_dict", {name: tensor for name, tensor, _, _ in state})
        ep._constants = ep._hand_out("constants", {name: tensor for name, tensor, _, _ in constants})
        if isinstance(self.dynamic_shapes, AdditionalInputs):
            self.dynamic_shapes.verify(ep)
        return ep

    def report(self) -> _report.ExportReport:
        """As run(); what would be raised is listed."""
        program, complete = None, True
        try:
            program = self.run()
        except Exception as error:  # whatever it is, the user is told
            self.problems.append(_report.problem(_kind_of(error), str(error), _location(error)))
            complete = isinstance(error, UserError) and error.error_type is UserErrorType.CONSTRAINT_VIOLATION
        return _report.ExportReport(self.problems, None if self.problems else program, complete)

    def _add_state(self, tracer: Any) -> dict[int, Any]:
        """Placeholders for parameters and buffers under every name; the fakes by the id of the tensor they stand
        for."""
        fakes: dict[int, Any] = {}
        temporary = {id(module): getattr(module, _C._module_tables(module)[3], set()) for _, module in self.modules}
        for kind, tensors in (("PARAMETER", self.parameters), ("BUFFER", self.buffers)):
            for target, tensor in tensors:
                if id(tensor) not in fakes:
                    fakes[id(tensor)] = tracer.fake(tensor)
                name = self.placeholders[target] = self.names.state(kind, target)
                tracer.input(name, fakes[id(tensor)], False, tensor)
                path, _, own = target.rpartition(".")
                saved = kind == "BUFFER" and own not in temporary[id(self.paths[path])]
                self.inputs.append((kind, name, target, saved, False, None))
        return fakes

    def _trace(self, tracer: Any, fakes: dict[int, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        standing = _strict.Standing(self.taken.state if self.taken is not None else None)
        if self.elsewhere is not None:
            standing.watch(self.elsewhere, attribute_tensors(self.modules).values())
        with Swapped(self.modules, {} if self.strict else fakes, self.strict) as swapped:
            for _, module in self.modules:
                if id(module) in self.preserved:
                    self._watch(tracer, module, self.preserved[id(module)])
            if self.strict:
                for _, tensor in [*self.mod.named_parameters(), *self.mod.named_buffers()]:
                    stands = tensor if self.taken is None else self.taken.state(tensor)
                    standing.add(tensor, fakes[id(stands)])
                args, kwargs = _strict.arguments(self.given, (args, kwargs), standing)
                result = _strict.capture(tracer, self.mod, args, kwargs, standing, self.captured_guards)
            else:
                result = tracer.run(self.mod, args, kwargs)
            for path, value in swapped.assigned_buffers():
                tracer.copy_back(self.placeholders[path], standing.of(value))
            if assigned := swapped.assigned_tensors():
                self._refuse_assigned(assigned)
        return result

    def _refuse_assigned(self, paths: list[str]) -> None:
        message = (f"export(): {', '.join(paths)} {'was' if len(paths) == 1 else 'were'} assigned a tensor by forward; "
                   f"a program keeps tensors between calls only in "
                   "buffers: register each with register_buffer()")
        if self.reports:
            self.problems.append(_report.problem("assigned-attribute", message))
        elif config.assigned_tensors == "warn":
            warnings.warn(message + " (it is not part of the program)")
        else:
            raise ValueError(message)

    def _watch(self, tracer: Any, module: Any, path: str) -> None:
        """Keeps the calling convention of the module's calls: the second is PATH@1."""
        forward, made, open_calls = module.forward, itertools.count(), []

        def flat(tree: Any) -> tuple[list[Any], str]:
            leaves, spec = pytree.tree_flatten(tree)
            values = [(tracer.value_of(leaf), leaf) for leaf in leaves]
            return [(value, None if value is not None else leaf) for value, leaf in values], _spec_text(spec)

        @_strict.runs
        def begins(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            open_calls.append((next(made), *flat((args, kwargs)), list(_combine(forward, args, kwargs))))

        @_strict.runs
        def ends(result: Any) -> None:
            number, inputs, in_spec, names = open_calls.pop()
            outputs, out_spec = flat(result)
            self.signatures[f"{path}@{number}" if number else path] = (in_spec, out_spec, names, inputs, outputs)

        def watched(*args: Any, **kwargs: Any) -> Any:
            begins(args, kwargs)
            result = forward(*args, **kwargs)
            ends(result)
            return result

        module.__dict__["forward"] = watched

    def _tensors(self, lifted: list[tuple[str, Any]], attributes: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        state: list[Any] = [(name, tensor, True, True) for name, tensor in self.parameters]
        constants: list[Any] = []
        for name, tensor in lifted:
            constants.append((name, tensor, False, False))
            constants += [(other, tensor, False, False) for other, value in attributes.items() if value is tensor
                          and other != name]
        for (name, tensor), spec in zip(self.buffers, (spec for spec in self.inputs if spec[0] == "BUFFER")):
            (state if spec[3] else constants).append((name, tensor, False, spec[3]))
        return state, constants


def _combine(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    signature = signature_of(forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        text = f"export(): the example inputs do not fit forward{signature}: {error}"
        raise ArgumentsDifferError(UserErrorType.INVALID_INPUT, text) from None
    return _names.combine(signature, args, kwargs)


def _check_inputs(leaves: list[Any], combined: dict[str, Any], constants: bool) -> None:
    good = _LEAVES + _CONSTANTS * constants
    if all(_C._is_tensor(leaf) or isinstance(leaf, good) for leaf in leaves):
        return
    for path, leaf in pytree.tree_flatten_with_path(combined)[0]:
        if not (_C._is_tensor(leaf) or isinstance(leaf, good)):
            raise UserError(UserErrorType.INVALID_INPUT,
                            f"export(): the input {path[0].key}{pytree.keystr(path[1:])} is a "
                            f"{_type_text(type(leaf))}, which a program cannot take; inputs are "
                            f"{_MORE_KINDS if constants else _KINDS}; {_HOW}")


def _check_outputs(leaves: list[Any], constants: bool) -> None:
    good = (*_LEAVES, _C.SymInt, _C.SymFloat, _C.SymBool) + _CONSTANTS * constants
    for leaf in leaves:
        if not (_C._is_tensor(leaf) or isinstance(leaf, good)):
            raise UserError(UserErrorType.INVALID_OUTPUT,
                            f"export(): an output is a {_type_text(type(leaf))}, which a program cannot give; outputs "
                            f"are {_MORE_KINDS if constants else _KINDS}; {_HOW}")


def _kind_of(error: Exception) -> str:
    if isinstance(error, UserError) and error.error_type is UserErrorType.CONSTRAINT_VIOLATION:
        return "specialized"
    if isinstance(error, _C.GuardOnDataDependentSymNode):
        return "data-dependent"
    return "missing-rule" if isinstance(error, (NotImplementedError, _C.UnsupportedError)) else "error"


def _location(error: BaseException) -> str | None:
    """The innermost line of the traceback that is the user's."""
    found, at = None, error.__traceback__
    while at is not None:
        path = at.tb_frame.f_code.co_filename
        if not os.path.realpath(path).startswith(_PACKAGE):
            found = (path, at.tb_lineno, at.tb_frame.f_code.co_name)
        at = at.tb_next
    if found is None or found[2] == "<module>":
        return None
    return _location_text(*found)


def _class_name(module: Any) -> str:
    """Of a module; one that runs a part of a program has the class that the program tells."""
    return module.type_name() if isinstance(module, InterpreterModule) else _type_text(type(module))


def _type_text(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _spec_text(spec: Any) -> str:
    """The spec as archives have it. Classes that have no name there get one here: the program runs, and saving it says
    what is missing."""
    try:
        return pytree.treespec_dumps(spec)
    except (NotImplementedError, TypeError):
        return json.dumps([1, _named(spec)])


def _named(spec: Any) -> dict[str, Any]:
    if spec.is_leaf():
        return pytree._dump(spec)
    children = [_named(child) for child in spec.children()]
    if spec.type is collections.namedtuple:
        return {"type": "collections.namedtuple", "context": _type_text(spec.context), "children_spec": children}
    try:
        plain = pytree._dump_node(spec)
    except (NotImplementedError, TypeError):
        plain = {"type": _type_text(spec.type), "context": json.dumps(repr(spec.context))}
    return {**plain, "children_spec": children}


def _register_return_types() -> None:
    """Structures that ops give are nodes: torch.max(x, 1) may be returned as it is."""
    for cls in list(_C._return_types.values()):
        if _C._tree_registered(cls) is None:  # another thread may do the same: both register the same thing
            _C._tree_register(cls, (lambda value: (list(value), None), lambda values, _, cls=cls: cls(values), None,
                                    None, None,
                                    lambda value: ([(pytree.SequenceKey(i), item) for i, item in enumerate(value)],
                                                   None)), None)


def _export_to_torch_ir(f: Any, args: tuple[Any, ...], *rest: Any, **options: Any) -> Any:
    """As cresset._dynamo._export_to_torch_ir, where PyTorch has it."""
    from cresset._dynamo.exporting import _export_to_torch_ir as export_whole
    return export_whole(f, args, *rest, **options)
