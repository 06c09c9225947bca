"""The errors of export, for the files of this package."""
from cresset._dynamo.exc import UserError, UserErrorType

__all__ = ["UserError", "UserErrorType"]
