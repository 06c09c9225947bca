"""Decomposition tables: which ops are written as others, and how.

    table = core_aten_decompositions()          # {op: function}, the core ATen dialect
    del table[cresset.ops.aten.linear.default]  # linear stays
    ep = ep.run_decompositions(table)
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import cresset
from cresset import _C

__all__ = ["CustomDecompTable", "core_aten_decompositions", "decomposition_table", "default_decompositions",
           "get_decompositions", "register_decomposition"]


def _key(op: Any) -> str:
    """The name by which the table of ops knows an overload."""
    if not isinstance(op, _C.OpOverload):
        raise TypeError(f"a decomposition table is keyed by op overloads like cresset.ops.aten.relu.default, not by "
                        f"{op!r}")
    return op.name()


def _find(name: str) -> Any:
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(cresset.ops, space), packet), overload or "default")


def _overloads(op: Any) -> list[Any]:
    return [getattr(op, name) for name in op.overloads()] if hasattr(op, "overloads") else [op]


class _BuiltIn:
    """The decomposition that comes with the op; can be called like the op itself."""

    def __init__(self, op: Any):
        self.op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<built-in decomposition of {self.op}>"


decomposition_table: dict[Any, Callable[..., Any]] = {}  # what register_decomposition() put there


def register_decomposition(ops: Any,
        registry: dict[Any, Callable[..., Any]] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is how these ops (an overload, all overloads of an op, or a list of such) decompose."""
    table = decomposition_table if registry is None else registry

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops if isinstance(ops, (list, tuple)) else [ops]:
            for overload in _overloads(op):
                if overload in table:
                    raise RuntimeError(f"{overload} has a decomposition in this table already; remove it first")
                table[overload] = function
        return function
    return add


class CustomDecompTable(dict):
    """A table to change: delete an op to preserve it, set one to a function to have it decomposed by that. Ops of other
    libraries that are registered later and are composite come in when the table is used."""

    def __init__(self) -> None:
        super().__init__((op, _BuiltIn(op)) for op in map(_find, _C._decomposed_names()))
        for op, function in decomposition_table.items():
            self[op] = function

    def pop(self, op: Any, *default: Any) -> Any:
        if default or op in self or _key(op).startswith("aten::"):
            return super().pop(op, *default)
        return None

    def __delitem__(self, op: Any) -> None:
        self.pop(op)

    def copy(self) -> CustomDecompTable:
        same = CustomDecompTable.__new__(CustomDecompTable)
        dict.__init__(same, self)
        return same

    def materialize(self) -> dict[Any, Callable[..., Any]]:
        """A plain dict with what is in it now."""
        return dict(self)


def core_aten_decompositions() -> CustomDecompTable:
    """The table whose result is made of the core ATen ops (and of those that nothing decomposes)."""
    return CustomDecompTable()


def default_decompositions() -> CustomDecompTable:
    """The table that run_decompositions() uses; as torch.export.default_decompositions()."""
    return CustomDecompTable()


def get_decompositions(ops: Iterable[Any], type: str = "post_autograd") -> dict[Any, Callable[..., Any]]:
    """The decompositions of these ops (overloads, or all overloads of an op), where there are any."""
    if type not in ("post_autograd", "pre_autograd", "meta"):
        raise ValueError(f"get_decompositions(): type is 'post_autograd', 'pre_autograd' or 'meta', not {type!r}")
    found: dict[Any, Callable[..., Any]] = {}
    for op in ops:
        for overload in _overloads(op):
            if overload in decomposition_table:
                found[overload] = decomposition_table[overload]
            elif type == "post_autograd" and _C._can_decompose(_key(overload)):
                found[overload] = _BuiltIn(overload)
    return found


# ---- using one ----

def _decompose(program: Any, table: Mapping[Any, Callable[..., Any]] | None) -> Any:
    if table is None:
        table = core_aten_decompositions() if decomposition_table else None
    names = None if table is None else {_key(op): None if isinstance(function, _BuiltIn) else _function(op, function)
                                        for op, function in table.items()}
    return program._decompose(names, _record)


def _function(op: Any, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"the decomposition table has {function!r} for {op}: expected a function")
    return function


def _is_value(value: Any) -> bool:
    return _C._is_tensor(value) or isinstance(value, (_C.SymInt, _C.SymFloat, _C.SymBool))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif _is_value(value):
        yield value


def _filled(value: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(item, leaves) for item in value)
    return next(leaves) if _is_value(value) else value


def _record(function: Callable[..., Any], _op: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
            several: bool) -> Any:
    """The graph of function(*args, **kwargs); None where it has nothing to say (NotImplemented). Its inputs are the
    tensors and symbolic numbers, in order."""
    given = [*args, *kwargs.values()]
    declined = False

    def call(*flat: Any) -> Any:
        nonlocal declined
        filled = _filled(given, iter(flat))
        result = function(*filled[:len(args)], **dict(zip(kwargs, filled[len(args):])))
        if result is NotImplemented:
            declined = True
            return ()
        return tuple(result) if several and isinstance(result, list) else result
    graph = cresset.record(call, tuple(_leaves(given)))
    return None if declined else graph
