"""The errors of export, for the files of this package."""
from cresset._dynamo.exc import UserError, UserErrorType

__all__ = ["ArgumentsDifferError", "SpecViolationError", "UserError", "UserErrorType"]


class ArgumentsDifferError(UserError, TypeError):
    """The example inputs are not what forward takes: in PyTorch a TypeError."""


class SpecViolationError(ValueError):
    """A program is not what its dialect promises; the message names the node."""
