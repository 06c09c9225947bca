"""Asking about symbolic sizes without always deciding.

    guard_or_false(n == 0)          False where it depends on data and is not known
    statically_known_true(n > 3)    True only where it follows; asks nothing of the inputs
    guard_size_oblivious(n == 1)    decided for sizes that depend on data as if they were neither 0 nor 1
"""
from __future__ import annotations

from typing import Any

from cresset import _C
from cresset._C import GuardOnDataDependentSymNode
from cresset.export._shapes import ConstraintViolationError

__all__ = ["ConstraintViolationError", "GuardOnDataDependentSymNode", "guard_bool", "guard_float", "guard_int",
           "guard_or_false", "guard_or_true",
           "guard_size_oblivious", "has_free_symbols", "has_hint", "is_concrete_bool", "is_concrete_int",
           "statically_known_false", "statically_known_true"]


def guard_size_oblivious(expr: Any) -> bool:
    """The answer where sizes that depend on data are neither 0 nor 1; for other numbers as `bool(expr)`."""
    if not isinstance(expr, _C.SymBool):
        return bool(expr)
    answer = _C._shape_truth(expr, expr.hint is None)
    return bool(expr) if answer is None else answer


def _guard_or(expr: Any, otherwise: bool) -> bool:
    if not isinstance(expr, _C.SymBool):
        return bool(expr)
    answer = _C._shape_truth(expr, False)
    if answer is not None:
        return answer
    return bool(expr) if expr.hint is not None else otherwise


def guard_or_false(a: Any) -> bool:
    """bool(a); False where that depends on data and is not known. The program must be right either way."""
    return _guard_or(a, False)


def guard_or_true(a: Any) -> bool:
    """bool(a); True where that depends on data and is not known. The program must be right either way."""
    return _guard_or(a, True)


def statically_known_true(x: Any) -> bool:
    """Does it follow from what is known? Never a guard."""
    return _C._shape_truth(x, False) is True if isinstance(x, _C.SymBool) else bool(x)


def statically_known_false(x: Any) -> bool:
    return _C._shape_truth(x, False) is False if isinstance(x, _C.SymBool) else not x


def guard_bool(a: Any) -> bool:
    return bool(a)


def guard_int(a: Any) -> int:
    return int(a)


def guard_float(a: Any) -> float:
    return float(a)


def has_hint(a: Any) -> bool:
    return not isinstance(a, (_C.SymInt, _C.SymFloat, _C.SymBool)) or a.hint is not None


def is_concrete_int(a: Any) -> bool:
    return isinstance(a, int) or (isinstance(a, _C.SymInt) and isinstance(_C._shape_simplify(a), int))


def is_concrete_bool(a: Any) -> bool:
    return isinstance(a, bool) or (isinstance(a, _C.SymBool) and _C._shape_truth(a, False) is not None)


def has_free_symbols(value: Any) -> bool:
    """Is it a symbolic number, or a tensor with a symbolic size?"""
    if isinstance(value, (_C.SymInt, _C.SymFloat, _C.SymBool)):
        return not is_concrete_int(value)
    return any(has_free_symbols(size) for size in value.shape) if hasattr(value, "shape") else False


for _function in (guard_size_oblivious, guard_or_false, guard_or_true, statically_known_true, statically_known_false,
                  guard_int, guard_float, guard_bool, has_hint, is_concrete_int, is_concrete_bool, has_free_symbols):
    _function._cresset_rule = "run"  # type: ignore[attr-defined]  # an export does not look into them (capture/rules.c)
