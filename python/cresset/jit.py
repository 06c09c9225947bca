"""What model code asks of torch.jit: that nothing is being scripted. Functions and classes stay as they are."""
from typing import Final, TypeVar

__all__ = ["Final", "annotate", "export", "ignore", "is_scripting", "is_tracing", "script_if_tracing", "unused"]
_T = TypeVar("_T")


def is_scripting():
    return False


def is_tracing():
    return False


def annotate(the_type, the_value):  # unused the_type: types are checked by nobody
    return the_value


def export(fn: _T) -> _T:
    return fn


def unused(fn: _T) -> _T:
    return fn


def script_if_tracing(fn: _T) -> _T:
    return fn


def ignore(drop=False, **kwargs):  # unused kwargs: what a script would leave out is in nobody's way
    return drop if callable(drop) else lambda fn: fn
