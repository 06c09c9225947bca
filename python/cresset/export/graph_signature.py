"""What the placeholders and outputs of an exported graph are: parameters, buffers, constants, the user's arguments and
results, and the values that mutated state ends up with. Names as in torch.export.graph_signature."""
from __future__ import annotations

import dataclasses
import enum
from typing import Any


@dataclasses.dataclass
class TensorArgument:
    name: str


@dataclasses.dataclass
class TokenArgument:
    name: str


@dataclasses.dataclass
class SymIntArgument:
    name: str


@dataclasses.dataclass
class SymFloatArgument:
    name: str


@dataclasses.dataclass
class SymBoolArgument:
    name: str


@dataclasses.dataclass
class CustomObjArgument:
    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    name: str
    value: int | float | bool | str | None


ArgumentSpec = (TensorArgument | TokenArgument | SymIntArgument | SymFloatArgument | SymBoolArgument
                | CustomObjArgument | ConstantArgument)


class InputKind(enum.Enum):
    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6


class OutputKind(enum.Enum):
    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8


def _line(spec: InputSpec | OutputSpec) -> str:
    text = f"{spec.arg.value!r}" if isinstance(spec.arg, ConstantArgument) and not spec.arg.name else spec.arg.name
    text += f": {spec.kind.name}"
    if spec.target is not None:
        text += f" target={spec.target!r}"
    if getattr(spec, "persistent", None) is not None:
        text += f" persistent={spec.persistent}"
    return text


@dataclasses.dataclass
class InputSpec:
    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None
    __str__ = _line


@dataclasses.dataclass
class OutputSpec:
    kind: OutputKind
    arg: ArgumentSpec
    target: str | None
    __str__ = _line


@dataclasses.dataclass
class ExportBackwardSignature:
    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _user_value(arg: ArgumentSpec) -> Any:
    """Constants stand for themselves among the user's inputs and outputs."""
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    """`input_specs` is in the order of the placeholders, `output_specs` in the order of the graph's outputs."""
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind: InputKind) -> list[InputSpec]:
        return [spec for spec in self.input_specs if spec.kind is kind]

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self.output_specs if spec.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(spec.target for spec in self._inputs(InputKind.PARAMETER))

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(spec.target for spec in self._inputs(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        return tuple(spec.target for spec in self._inputs(InputKind.BUFFER) if not spec.persistent)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return tuple(spec.target for spec in self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        return tuple(spec.target for spec in self._inputs(InputKind.CUSTOM_OBJ))

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        return tuple(_user_value(spec.arg) for spec in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        return tuple(_user_value(spec.arg) for spec in self.output_specs if spec.kind in (OutputKind.USER_OUTPUT,
                OutputKind.LOSS_OUTPUT))

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self._inputs(InputKind.PARAMETER)}

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self._inputs(InputKind.BUFFER)}

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self._inputs(InputKind.CONSTANT_TENSOR)}

    @property
    def inputs_to_lifted_custom_objs(self) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self._inputs(InputKind.CUSTOM_OBJ)}

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def input_tokens(self) -> tuple[str, ...]:
        return tuple(spec.arg.name for spec in self._inputs(InputKind.TOKEN))

    @property
    def output_tokens(self) -> tuple[str, ...]:
        return tuple(spec.arg.name for spec in self.output_specs if spec.kind is OutputKind.TOKEN)

    @property
    def assertion_dep_token(self) -> None:
        return None

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        losses = [spec.arg.name for spec in self.output_specs if spec.kind is OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        return ExportBackwardSignature(self._outputs(OutputKind.GRADIENT_TO_PARAMETER),
                                       self._outputs(OutputKind.GRADIENT_TO_USER_INPUT), losses[0])

    def __str__(self) -> str:
        lines = ["", "# inputs", *map(str, self.input_specs), "", "# outputs", *map(str, self.output_specs), ""]
        return "\n".join(lines)
