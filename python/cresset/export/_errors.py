"""The errors of export, for the files of this package."""
from cresset._dynamo.exc import UserError, UserErrorType

__all__ = ["SpecViolationError", "UserError", "UserErrorType"]


class SpecViolationError(ValueError):
    """A program is not what its dialect promises; the message names the node."""
