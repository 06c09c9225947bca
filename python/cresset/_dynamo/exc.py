"""Errors that are the caller's to fix, with their kind."""
from __future__ import annotations

import enum

from cresset._C import GuardOnDataDependentSymNode

__all__ = ["BackendCompilerFailed", "BranchesDifferError", "DataDependentError", "FailOnRecompileLimitHit",
           "InternalTorchDynamoError", "InvalidBackend", "NotCallableError", "SkipFrame", "TorchDynamoException",
           "TorchRuntimeError", "UncapturedHigherOrderOpError", "Unsupported", "UserError", "UserErrorType"]


class UserErrorType(enum.Enum):
    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class TorchDynamoException(RuntimeError):
    """What recording a program can fail with."""


class Unsupported(TorchDynamoException):
    """A call of a function compiled with fullgraph=True cannot be one graph: says where, and why."""


class FailOnRecompileLimitHit(Unsupported):
    """fullgraph=True, and a call fits nothing of what was captured as often as the limits allow: says what did not
    hold."""


class BackendCompilerFailed(TorchDynamoException):
    """The backend given to compile() failed on a graph: `backend_name`, and `inner_exception`, what it raised (None: it
    gave what cannot be used)."""

    def __init__(self, message: str, backend: object = None, inner_exception: BaseException | None = None):
        super().__init__(message)
        self.backend_name = getattr(backend, "__name__", "?")
        self.inner_exception = inner_exception


class SkipFrame(TorchDynamoException):
    """Raised by a backend: it makes nothing of this graph, which runs as it is."""


class InternalTorchDynamoError(TorchDynamoException):
    """A function that was to be told of a capture (guard_export_fn) raised, and nothing is kept of the capture;
    `__cause__`: what it raised."""


class InvalidBackend(TorchDynamoException):
    """compile(backend=...) names none."""


class NotCallableError(TypeError, AssertionError):
    """Something that cannot be called was given where a function is due. PyTorch asserts there."""


class TorchRuntimeError(TorchDynamoException):
    """An op fails on the fake tensors that stand for its operands."""


class UncapturedHigherOrderOpError(Unsupported):
    """A function given to cond, while_loop, map, scan or associative_scan cannot become a subgraph."""


class BranchesDifferError(UncapturedHigherOrderOpError, TorchRuntimeError):
    """fullgraph=True, and the branches of cond give other dtypes or shapes: in PyTorch a TorchRuntimeError."""


class UserError(TorchDynamoException):
    """What the caller gave cannot be used. `error_type` says which kind of mistake it is, `case_name` names the page of
    the documentation that treats it (or is None), `msg` is the text."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None):
        super().__init__(msg)
        self.error_type = error_type
        self.msg = msg
        self.message = msg
        self.case_name = case_name


class DataDependentError(UserError, Unsupported, GuardOnDataDependentSymNode):
    """fullgraph=True, and the program asks about a number that depends on data what facts do not decide: in PyTorch a
    UserError."""

    def __init__(self, msg: str):
        super().__init__(UserErrorType.ANTI_PATTERN, msg)
