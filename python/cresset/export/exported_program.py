"""ExportedProgram: a graph with its signature, state and call structure; and the module that runs it."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import cresset
from cresset import _C
from cresset.export import graph_signature as signatures
from cresset.export._call_structure import CallStructure
from cresset.export._errors import SpecViolationError
from cresset.export.graph_view import Graph, GraphModule
from cresset.utils._pytree import TreeSpec

if TYPE_CHECKING:
    from cresset.export._module import ExportedModule


class Symbol(str):
    """The name of a symbolic size; equal to its text."""

    @property
    def name(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True)
class ValueRanges:
    """The values a symbol may have, bounds included; math.inf where there is none."""
    lower: int | float
    upper: int | float

    def __contains__(self, value: int) -> bool:
        return self.lower <= value <= self.upper

    def __repr__(self) -> str:
        shown = {math.inf: "int_oo", -math.inf: "-int_oo"}
        return f"VR[{shown.get(self.lower, self.lower)}, {shown.get(self.upper, self.upper)}]"


@dataclasses.dataclass
class CallSpec:
    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


@dataclasses.dataclass
class ModuleCallSignature:
    inputs: list[signatures.ArgumentSpec]
    outputs: list[signatures.ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    fqn: str
    signature: ModuleCallSignature | None = None


class Verifier:
    """Checks a program: `dialect` is TRAINING, ATEN, ..."""

    def __init__(self, dialect: str):
        self.dialect = dialect

    def check(self, ep: ExportedProgram) -> None:
        """SpecViolationError when graph, signature and state do not fit each other."""
        try:
            ep._program.verify()
        except ValueError as error:
            raise SpecViolationError(str(error)) from None
        _check_signature(ep)
        _check_state(ep)

    def __repr__(self) -> str:
        return f"<verifier of the {self.dialect} dialect>"


class ExportedProgram:
    """A program as it was exported. Made by `load`; `module()` gives what can be called."""

    def __init__(self, program: Any):
        self._own_program = program
        self._handed_out: dict[str, dict[str, cresset.Tensor]] = {}  # state_dict and constants, as they were
        self._data = program._data()
        self._state: dict[str, cresset.Tensor] | None = None
        self._constants: dict[str, cresset.Tensor] | None = None
        self._own_tensors: dict[str, cresset.Tensor] | None = None
        self._graph_module: GraphModule | None = None
        self._in_spec = self._data["in_spec"]
        self._out_spec = self._data["out_spec"]
        self._signature: signatures.ExportGraphSignature | None = None

    @property
    def _program(self) -> Any:
        """The program itself, with the tensors that state_dict and constants hold now. What was made of it before stays
        as it was."""
        others = {**_changes("state_dict", self._state, self._handed_out), **_changes("constants", self._constants,
                self._handed_out)}
        if others:
            self._own_program, self._own_tensors = self._own_program._with_tensors(others), None
            for tensors in self._handed_out.values():
                tensors.update({name: tensor for name, tensor in others.items() if name in tensors})
        return self._own_program

    def _hand_out(self, what: str, tensors: dict[str, cresset.Tensor]) -> dict[str, cresset.Tensor]:
        """From here on other tensors in it are the program's."""
        self._handed_out[what] = dict(tensors)
        return tensors

    # ---- the graph ----
    @property
    def graph_module(self) -> GraphModule:
        if self._graph_module is None:
            text = str(self._program)
            self._graph_module = GraphModule(self._program.graph,
                                             text.partition("\nGraph signature")[0].partition("\n")[2])
        return self._graph_module

    @property
    def graph(self) -> Graph:
        return self.graph_module.graph

    @property
    def graph_signature(self) -> signatures.ExportGraphSignature:
        if self._signature is None:
            self._signature = _signature(self._program.graph, self._data)
        return self._signature

    @property
    def range_constraints(self) -> dict[Symbol, ValueRanges]:
        return {Symbol(symbol): ValueRanges(low, high) for symbol, low, high in self._data["ranges"]}

    @property
    def guards(self) -> list[str]:
        """The conditions on the inputs that were saved beside the graph, as Python texts."""
        return self._data["guards"]

    # ---- state ----
    @property
    def state_dict(self) -> dict[str, cresset.Tensor]:
        """Parameters and persistent buffers by name; tied names share one tensor. A tensor that is put here is the
        program's from then on: module(), save() and compile() take it, if it has the dtype, sizes and strides of the
        one before, and refuse it otherwise."""
        if self._state is None:
            made: dict[int, Any] = {}  # tied names share one parameter
            self._state = self._hand_out("state_dict", {name: _parameter(tensor, made) if is_parameter else tensor
                                                        for name, tensor, is_parameter, _ in self._program._state()})
        return self._state

    @property
    def constants(self) -> dict[str, cresset.Tensor]:
        """Tensors that are neither: lifted constants, and buffers that are not saved with the state. They can be
        replaced like those."""
        if self._constants is None:
            self._constants = self._hand_out("constants",
                                             {name: tensor for name, tensor, _, _ in self._program._constants()})
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, cresset.Tensor]:
        return self.constants

    def named_parameters(self) -> Iterator[tuple[str, cresset.Tensor]]:
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def parameters(self) -> Iterator[cresset.Tensor]:
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, cresset.Tensor]]:
        for spec in self.graph_signature._inputs(signatures.InputKind.BUFFER):
            yield spec.target, self.state_dict[spec.target] if spec.persistent else self.constants[spec.target]

    def buffers(self) -> Iterator[cresset.Tensor]:
        return (tensor for _, tensor in self.named_buffers())

    # ---- calls ----
    @property
    def in_spec(self) -> TreeSpec:
        """The structure of (args, kwargs)."""
        return self._in_spec

    @property
    def out_spec(self) -> TreeSpec:
        return self._out_spec

    @property
    def call_spec(self) -> CallSpec:
        return CallSpec(self._in_spec, self._out_spec)

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        found = []
        for (fqn, in_spec, out_spec, names), values in zip(self._data["calls"], self._program._call_values()):
            signature = None
            if in_spec is not None and out_spec is not None:
                inputs, outputs = ([_call_argument(*value) for value in side] for side in values)
                if not fqn:
                    in_spec, out_spec = self._in_spec, self._out_spec
                signature = ModuleCallSignature(inputs, outputs, in_spec, out_spec, names)
            found.append(ModuleCallEntry(fqn, signature))
        return found

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The (args, kwargs) it was exported with, where the archive has them."""
        leaves = self._program._example()
        return None if leaves is None else self._in_spec.unflatten(leaves)

    def module(self, *, own_state: bool = False) -> ExportedModule:
        """What can be called, with the original call structure. Its buffers are the program's own, so calls that change
        them are seen by every module of this program; with `own_state` it has its own copies."""
        from cresset.export._module import ExportedModule  # noqa: PLC0415 - it is made of programs
        return ExportedModule(self, own_state)

    def _program_tensor(self, name: str) -> cresset.Tensor | None:
        """The tensor that the program itself has under that name."""
        if self._own_tensors is None:
            self._own_tensors = {key: tensor for key, tensor, _, _ in [*self._program._state(),
                    *self._program._constants()]}
        return self._own_tensors.get(name)

    def compile(self, *, options: dict[str, Any] | None = None) -> Any:
        """What can be called, as `module(own_state=True)` gives it, made faster: the first calls are interpreted, and
        native code takes over as soon as it is built in the background. With options={"wait": True} it is built first.
        See `cresset._aot.CompiledProgram`."""
        from cresset._aot import CompiledProgram
        return CompiledProgram(self, options)

    def _call_structure(self) -> CallStructure:
        calls = self._data["calls"]
        return CallStructure(self._in_spec, self._out_spec, calls[0][3] if calls else None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("an ExportedProgram cannot be called: call its module, ep.module()(...)")

    # ---- about it ----
    @property
    def dialect(self) -> str:
        return self._data["dialect"]

    @property
    def verifier(self) -> Verifier:
        return Verifier(self.dialect)

    @property
    def verifiers(self) -> list[Verifier]:
        return [self.verifier]

    @property
    def torch_version(self) -> str | None:
        return self._data["torch_version"]

    @property
    def unsupported_ops(self) -> list[str]:
        """Ops of the graph that have no row here; `module()` refuses while there are any."""
        return self._data["unsupported"]

    def validate(self) -> None:
        """SpecViolationError says what does not fit: the graph, the signature as it is now, or the tensors in
        state_dict and constants."""
        self.verifier.check(self)

    _validate = validate

    # ---- copies: a program is what its archive holds ----
    def _archived(self) -> bytes:
        import io

        from cresset.export import save
        content = io.BytesIO()
        save(self, content, absolute_paths=True)
        return content.getvalue()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (self._archived(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        made = memo[id(self)] = _restored(self._archived())
        return made

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """The program in the core ATen dialect: functional, with composite ops decomposed; what the module changes
        (buffers, inputs) comes out as further outputs, with their rows in the signature.

        decomp_table: which ops are decomposed, and how: {op: function}. None is default_decompositions(); with {}
        writes become values and no op is decomposed. Take an op out of the default table to keep it; put a function in
        to have it recorded in the op's place."""
        from cresset._decomp import _decompose
        return ExportedProgram(_decompose(self._program, decomp_table))

    def __str__(self) -> str:
        return str(self._program)

    __repr__ = __str__


def _parameter(tensor: cresset.Tensor, made: dict[int, Any]) -> cresset.Tensor:
    from cresset.nn import Parameter
    if id(tensor) not in made:
        made[id(tensor)] = tensor if isinstance(tensor, Parameter) else Parameter(tensor,
                requires_grad=tensor.requires_grad)
    return made[id(tensor)]


def _restored(content: bytes) -> ExportedProgram:
    import io

    from cresset.export import load
    return load(io.BytesIO(content))


def _changes(what: str, now: dict[str, cresset.Tensor] | None,
             handed_out: dict[str, dict[str, cresset.Tensor]]) -> dict[str, cresset.Tensor]:
    """The tensors that were put into the dictionary since it was handed out."""
    was = handed_out.get(what)
    if now is None or was is None:
        return {}
    if now.keys() != was.keys():
        odd, known = min(now.keys() ^ was.keys()), ", ".join(was)
        problem = (f"{what} has no '{odd}' any more; put a tensor there" if odd in was
                   else f"{what} has '{odd}', which the program has not: it has {known or 'none'}")
        raise SpecViolationError(problem)
    others = {name: tensor for name, tensor in now.items() if tensor is not was[name]}
    for name, tensor in others.items():
        if not _C._is_tensor(tensor):
            raise SpecViolationError(f"{what}['{name}'] is a {type(tensor).__name__}, not a Tensor")
    return others


def _call_argument(name: str | None, kind: str, constant: Any) -> signatures.ArgumentSpec:
    return signatures.ConstantArgument("", constant) if name is None else _ARGUMENT_TYPES.get(kind,
            signatures.TensorArgument)(name)


_ARGUMENT_TYPES = {"int": signatures.SymIntArgument, "float": signatures.SymFloatArgument,
                   "bool": signatures.SymBoolArgument}


def _signature(graph: Any, data: dict[str, Any]) -> signatures.ExportGraphSignature:
    nodes = graph.nodes
    kinds = {result["name"]: result["type"] for node in nodes for result in node["results"]}

    def argument(name: str) -> signatures.ArgumentSpec:
        return _ARGUMENT_TYPES.get(kinds.get(name, "tensor"), signatures.TensorArgument)(name)

    inputs = []
    for kind, name, target, persistent, is_constant, value in data["inputs"]:
        if is_constant:
            arg = signatures.ConstantArgument(name, value)
        elif kind == "TOKEN":
            arg = signatures.TokenArgument(name)
        elif kind == "CUSTOM_OBJ":
            arg = signatures.CustomObjArgument(name, "")
        else:
            arg = argument(name)
        inputs.append(signatures.InputSpec(signatures.InputKind[kind], arg, target, persistent))
    outputs = []
    constants = [_constant(argument) for argument in nodes[-1]["args"]]
    for (kind, name, target), value in zip(data["outputs"], constants):
        arg = signatures.ConstantArgument("",
                value) if name is None else signatures.TokenArgument(name) if kind == "TOKEN" else argument(name)
        outputs.append(signatures.OutputSpec(signatures.OutputKind[kind], arg, target))
    return signatures.ExportGraphSignature(inputs, outputs)


def _check_signature(ep: ExportedProgram) -> None:
    """Is it the signature that the graph has? Nothing else is read when the program runs or is saved."""
    if ep._signature is None:
        return
    known = _signature(ep._program.graph, ep._data)
    for side, have, want in (("input", ep._signature.input_specs, known.input_specs),
                             ("output", ep._signature.output_specs, known.output_specs)):
        if len(have) != len(want):
            raise SpecViolationError(f"the graph has {len(want)} {side}s, its signature {len(have)}")
        for i, (one, other) in enumerate(zip(have, want)):
            if one.arg.name != other.arg.name:
                raise SpecViolationError(f"the signature calls {side} {i} '{one.arg.name}', the graph "
                                         f"'{other.arg.name}'")
            for field in dataclasses.fields(other):
                if getattr(one, field.name) != getattr(other, field.name):
                    raise SpecViolationError(f"the signature says of {side} '{other.arg.name}' that its {field.name} "
                                             f"is {getattr(one, field.name)!r}; the program was exported with "
                                             f"{getattr(other, field.name)!r}")


def _check_state(ep: ExportedProgram) -> None:
    for kind, _, target, persistent, _, _ in ep._data["inputs"]:
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            continue
        what, state = kind.lower().replace("_", " "), kind == "PARAMETER" or (kind == "BUFFER" and persistent)
        tensor, known = (ep.state_dict if state else ep.constants).get(target), ep._program_tensor(target)
        if tensor is None:
            raise SpecViolationError(f"the {what} '{target}' is not in {'state_dict' if state else 'constants'}")
        if not _C._is_tensor(tensor) or (kind == "PARAMETER" and _C._kind(tensor) != "parameter"):
            raise SpecViolationError(f"the {what} '{target}' is a {type(tensor).__name__}, not a "
                                     f"{'Parameter' if kind == 'PARAMETER' else 'Tensor'}")
        if known is not None and (tensor.dtype != known.dtype or tensor.shape != known.shape):
            raise SpecViolationError(f"the {what} '{target}' is {tensor.dtype} {list(tensor.shape)}; the program was "
                                     f"exported with {known.dtype} {list(known.shape)}")


def _constant(argument: dict[str, Any]) -> Any:
    """The value of an output that is a number, a text or None."""
    (kind, value), = argument.items()
    return value if kind in ("as_int", "as_float", "as_bool", "as_string") else None
