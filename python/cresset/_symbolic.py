"""Functions on numbers that may be symbolic, and statements about them.

On plain Python numbers they do what their names say. On a SymInt, SymFloat or SymBool of a fake run, `sym_max(a, b)`
and the others give expressions instead of deciding, and `_check(condition)` makes the condition a fact: a guard where
it is about the inputs, a runtime assert where it depends on data.
"""
from __future__ import annotations

import builtins
import contextlib
import math
import threading
from typing import Any, Callable

from cresset import _C

__all__ = ["SymNode", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"]

_SYMBOLIC = (_C.SymInt, _C.SymFloat, _C.SymBool)


def _is_symbolic(*values: Any) -> bool:
    return builtins.any(isinstance(value, _SYMBOLIC) for value in values)


def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float when either is one."""
    if _is_symbolic(a, b):
        return _C._sym_call("torch::sym_max", a, b)
    larger = _plain_max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float when either is one."""
    if _is_symbolic(a, b):
        return _C._sym_call("torch::sym_min", a, b)
    smaller = _plain_min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_int(a: Any) -> Any:
    """Towards zero."""
    if isinstance(a, _C.SymInt):
        return a
    if isinstance(a, _C.SymFloat):
        return _C._sym_call("torch::sym_int", a)
    return math.trunc(a)


def sym_float(a: Any) -> Any:
    if isinstance(a, _C.SymFloat):
        return a
    return _C._sym_call("torch::sym_float", a) if _is_symbolic(a) else float(a)


def sym_not(a: Any) -> Any:
    return _C._sym_call("torch::sym_not", a) if _is_symbolic(a) else not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t where b holds, else f; both of one type."""
    if _is_symbolic(b):
        return _C._sym_call("torch::sym_ite", b, t, f)
    return t if b else f


def sym_sqrt(a: Any) -> Any:
    return _C._sym_call("torch::sym_sqrt", a) if _is_symbolic(a) else math.sqrt(a)


def sym_sum(args: Any) -> Any:
    total: Any = 0
    for value in args:
        total = total + value
    return total


# ---- methods of the numbers ----

def _round(a: Any, digits: Any) -> Any:
    """round(a) and round(a, digits): half to even. PyTorch's programs can round down; decimal digits fix the number."""
    if not isinstance(a, _C.SymFloat):
        return +a if digits is None or digits >= 0 else round(int(a), digits)
    if digits is not None:
        return round(float(a), digits)
    low = math.floor(a)
    rest = a - low
    return sym_ite((rest > 0.5) | ((rest == 0.5) & (low % 2 == 1)), low + 1, low)


def _is_integer(a: Any) -> Any:
    return sym_float(math.floor(a)) == a


def _as_integer_ratio(a: Any) -> Any:
    return float(a).as_integer_ratio() if isinstance(a, _C.SymFloat) else (+a, 1)


def _leaves(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        for item in data:
            yield from _leaves(item)
    else:
        yield data


def _tensor(data: Any, dtype: Any) -> Any:
    """tensor(data): every number a tensor of its own, and these stacked, as PyTorch's programs do it."""
    import cresset
    if dtype is None:
        kinds = {_C.SymInt: cresset.int64, _C.SymFloat: cresset.get_default_dtype(), _C.SymBool: cresset.bool}
        for leaf in _leaves(data):
            found = kinds[type(leaf)] if type(leaf) in kinds else cresset.tensor(leaf).dtype
            dtype = found if dtype is None else cresset.promote_types(dtype, found)

    def made(item: Any) -> Any:
        if not isinstance(item, (list, tuple)):
            return cresset.scalar_tensor(item.item() if isinstance(item, cresset.Tensor) else item, dtype=dtype)
        if not item:
            return cresset.empty(0, dtype=dtype)
        lengths = {len(part) if isinstance(part, (list, tuple)) else -1 for part in item}
        if len(lengths) > 1:
            raise ValueError(f"the parts of a sequence have lengths {sorted(lengths)}; they must be the same (-1: a "
                             f"number)")
        return cresset.stack([made(part) for part in item])
    return made(data)


# ---- statements ----

def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None) -> None:
    if message is not None and not callable(message):
        raise TypeError(f"the message of a check is a function that gives it, not {type(message).__name__}")
    if isinstance(cond, _C.SymBool):
        try:
            _C._shape_check(cond, "" if message is None else str(message()))
        except RuntimeError as error:
            if error_type is RuntimeError or isinstance(error, _C.GuardOnDataDependentSymNode):
                raise
            raise error_type(str(error)) from None
        return
    if not isinstance(cond, bool):
        raise TypeError(f"a check is about a bool, not {type(cond).__name__}")
    if not cond:
        raise error_type("a check failed: its condition is False" if message is None else str(message()))


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """The condition holds from here on; RuntimeError with the message when it does not. In a fake run it becomes a
    fact."""
    _check_with(RuntimeError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """All elements of a tensor of bools are true."""
    if not _C._is_tensor(cond):
        raise TypeError(f"a check of all elements is about a tensor, not {type(cond).__name__}")
    if cond.dtype is not _C.bool:
        raise TypeError(f"a check of all elements is about a tensor of bools, not of {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(ValueError, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(IndexError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None, *, max: Any = None) -> None:
    """i is the size of something: not negative, at most `max`, and questions about 0 and 1 need no answer."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)
    if isinstance(i, _C.SymInt):
        _C._shape_mark_size(i)


def _constrain_as_value(symbol: Any, min: int | None = None, max: int | None = None) -> None:
    """min <= symbol <= max from here on."""
    if min is not None and max is not None and min > max:
        raise ValueError(f"min={min} is larger than max={max}")
    if min is not None:
        _check(symbol >= min)
    if max is not None:
        _check(symbol <= max)


def _constrain_as_size(symbol: Any, min: int | None = None, max: int | None = None) -> None:
    """As _constrain_as_value, for the size of something."""
    _check_is_size(symbol)
    _constrain_as_value(symbol, min, max)


# ---- what is behind a symbolic number ----

class SymNode:
    """The expression of a symbolic number, with the names that PyTorch programs use."""

    def __init__(self, number: Any):
        self._number = number

    @property
    def expr(self) -> Any:
        from cresset.export.exported_program import Symbol
        return Symbol(repr(self._number))

    _expr = expr

    @property
    def hint(self) -> Any:
        return self._number.hint

    def has_hint(self) -> bool:
        return self._number.hint is not None

    def is_symbolic(self) -> bool:
        return True

    def maybe_as_int(self) -> int | None:
        simple = _C._shape_simplify(self._number)
        return simple if isinstance(simple, int) else None

    def is_int(self) -> bool:
        return isinstance(self._number, _C.SymInt)

    def is_float(self) -> bool:
        return isinstance(self._number, _C.SymFloat)

    def is_bool(self) -> bool:
        return isinstance(self._number, _C.SymBool)

    def __repr__(self) -> str:
        return repr(self._number)

    __str__ = __repr__


# ---- max() and min() of Python ----

_plain_max, _plain_min = builtins.max, builtins.min
_lock = threading.Lock()
_inside = 0


def _selecting(plain: Callable[..., Any], pair: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def select(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not args:
            return plain(*args, **kwargs)
        items = list(args[0]) if len(args) == 1 and not _is_symbolic(args[0]) else list(args)
        if not _is_symbolic(*items) or not items:
            return plain(items) if len(args) == 1 and not hasattr(args[0], "shape") else plain(*args)
        result = items[0]
        for item in items[1:]:
            result = pair(result, item)
        return result
    return select


@contextlib.contextmanager
def symbolic_builtins():
    """Inside, Python's max() and min() of symbolic numbers give expressions instead of deciding which one is larger. Of
    other things they give what they always give, so that other threads may go on."""
    global _inside
    with _lock:
        if _inside == 0:
            builtins.max, builtins.min = _selecting(_plain_max, sym_max), _selecting(_plain_min, sym_min)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                builtins.max, builtins.min = _plain_max, _plain_min


for _function in (sym_max, sym_min, sym_int, sym_float, sym_not, sym_ite, sym_sqrt, _check, _check_value, _check_index,
                  _check_type, _check_not_implemented, _check_is_size, _constrain_as_value, _constrain_as_size):
    _function._cresset_rule = "run"  # type: ignore[attr-defined]  # an export does not look into them (capture/rules.c)
