"""What captures do with a function, said by the program.

    @allow_in_graph              its ops are recorded as CPython runs it on fakes; its code is not looked into
    @assume_constant_result      called once, when something is captured; the result is a constant from then on
    @disallow_in_graph           captures end before it
    @substitute_in_graph(f)      captures inline the decorated function where f is called

Marks are read when something is captured: who marks a function that was captured already calls reset().
"""
from __future__ import annotations

import inspect
import types
import weakref
from typing import Any, Callable

from cresset import _C
from cresset._dynamo.exc import NotCallableError

__all__ = ["allow_in_graph", "assume_constant_result", "disallow_in_graph", "nonstrict_trace", "substitute_in_graph"]

_substitutes: dict[str, Callable[..., Any]] = {}  # "module.name" of a function -> what captures inline for it
_originals: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()  # ... -> that function


def _marked(fn: Any, rule: str, who: str) -> Any:
    if isinstance(fn, (list, tuple)):
        return [_marked(each, rule, who) for each in fn]
    if not callable(fn):
        raise NotCallableError(f"{who}() takes a function, not a {type(fn).__name__}")
    if not isinstance(fn, types.FunctionType):
        raise TypeError(f"{who}() takes a function written in Python, not {fn!r}: wrap it, lambda *args: f(*args)")
    fn._cresset_rule = rule  # type: ignore[attr-defined]
    return fn


def allow_in_graph(fn: Any) -> Any:
    """The ops that fn calls are recorded; what else it does happens when something is captured, and then never. It is
    called with tensors, numbers, texts and containers of those, and returns such. Also takes a list of functions."""
    return _marked(fn, "record", "allow_in_graph")


def nonstrict_trace(traceable_fn: Any) -> Any:
    """As allow_in_graph: fn is run on fakes, not evaluated."""
    return _marked(traceable_fn, "record", "nonstrict_trace")


def disallow_in_graph(fn: Any) -> Any:
    """Captures end before a call of fn and go on behind it. Also takes a list of functions."""
    return _marked(fn, "leave", "disallow_in_graph")


def assume_constant_result(fn: Any) -> Any:
    """fn is called once, when something is captured, and what it returned is used from then on. Its arguments must not
    be computed by the program, its result is a number, a text, None or a container of those."""
    return _marked(fn, "constant", "assume_constant_result")


def _name_of(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False,
                        skip_signature_check: bool = False) -> Callable[[Any], Any]:
    """Captures inline the decorated function where `original_fn` (of a module, in C or Python) is called. Both must do
    the same; signatures are compared unless that is skipped. A function has one such, and functions are known by module
    and name."""
    # unused can_constant_fold_through: captures evaluate calls with constants in any case
    if not isinstance(original_fn, (types.FunctionType, types.BuiltinFunctionType)):
        raise TypeError(f"substitute_in_graph() takes a function, not a {type(original_fn).__name__}")
    if not isinstance(original_fn.__module__, str):
        raise TypeError(f"substitute_in_graph() takes a function of a module; {original_fn!r} is a method")

    def decorate(traceable_fn: Any) -> Any:
        if not isinstance(traceable_fn, types.FunctionType):
            raise TypeError("@substitute_in_graph(...) takes a function written in Python, not a "
                            f"{type(traceable_fn).__name__}")
        if not skip_signature_check:
            _compare(original_fn, traceable_fn)
        name = _name_of(original_fn)
        if name in _substitutes and _originals.get(name) is not None:
            raise ValueError(f"substitute_in_graph(): there is one for {name} already, "
                             f"{_substitutes[name].__qualname__}(): give functions names of their own, and each one")
        _substitutes[name], _originals[name] = traceable_fn, original_fn
        if isinstance(original_fn, types.FunctionType):
            original_fn._cresset_rule = "substitute"  # type: ignore[attr-defined]
        elif hasattr(_C, "_use_substitutes"):
            _C._use_substitutes()
        return traceable_fn
    return decorate


def _compare(original: Any, traceable: Any) -> None:
    try:
        wanted = inspect.signature(original)
    except ValueError:  # some functions in C have none
        return
    given = inspect.signature(traceable)

    def shape(signature: inspect.Signature) -> list[Any]:
        return [(p.name, p.kind, p.default) for p in signature.parameters.values()]
    if shape(wanted) != shape(given):
        raise TypeError(f"substitute_in_graph(): {original.__name__}{wanted} and {traceable.__name__}{given} have "
                        "other parameters: make them the same, or give skip_signature_check=True")
