"""Questions that a program asks about who is running it."""
from cresset import _C

__all__ = ["is_compiling", "is_dynamo_compiling", "is_exporting", "disable"]


def is_exporting():
    """Is an export recording this call?"""
    return _C._exporting() is not None


def is_compiling():
    return is_exporting()


def is_dynamo_compiling():
    return False


def disable(fn=None, recursive=True, *, reason=None):
    """The function itself: nothing is compiled behind its back."""
    # unused recursive, reason: what is not compiled is not compiled at any depth, for whatever reason
    return fn if fn is not None else lambda function: function
