"""Symbolic inputs for export: from example inputs and `dynamic_shapes` to fake tensors, and from what the program asked
about their sizes to ranges, guards and verdicts.

    plan = _shapes.plan(module, args, kwargs, dynamic_shapes)
    fake_args, fake_kwargs = plan.fakes(mode)
    ... run the program on the fakes ...
    settled = plan.settle(mode)
"""
from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import warnings
from typing import Any

import cresset
from cresset import _C
from cresset._dynamo.decorators import _marked_sizes
from cresset.export import dynamic_shapes as language
from cresset.export._errors import UserError, UserErrorType
from cresset.export.dynamic_shapes import Dim, _DimHint, _DimHintType, _IntWrapper
from cresset.utils import _pytree as pytree

__all__ = ["Plan", "Settled", "plan"]


@dataclasses.dataclass
class Size:
    """One size (or int input) that is not simply static."""
    source: str                 # how the program reaches it: L['x'].size()[0]
    where: str                  # how the user names it: inputs['x'].shape[0]
    value: int
    spec: Any                   # Dim or _DimHint
    symbol: Any = None          # the SymInt that was made for it
    is_input: bool = False      # an int input, not a size


@dataclasses.dataclass
class Settled:
    ranges: dict[str, tuple[float, float]]    # expression of a size, or symbol -> bounds; math.inf: none
    guards: list[str]                         # conditions on the inputs, in Python
    replacements: dict[str, str]              # symbol -> the expression it turned out to equal
    asserts: list[Any] = dataclasses.field(default_factory=list)   # SymBools to be checked by the program when it runs


class ConstraintViolationError(UserError):
    """An example input contradicts dynamic_shapes."""


class RangeConflict(UserError, ValueError):
    """The bounds of a Dim.AUTO or Dim.DYNAMIC, or the example, exclude what the program needs."""


_AUTO, _DYNAMIC, _NAMED, _ROOT = range(4)   # cr_size_promise
_GUARD, _ASSERT, _ASSUMED, _TRACED = range(4)   # cr_cond_kind
_MOST = 2 ** 63 - 2                         # how PyTorch bounds a count that has no bound


class _Names:
    """Symbols are named after what they stand for, so that a size has the same name in every export."""

    def __init__(self) -> None:
        self.taken: set[int] = set()

    def next(self, source: str) -> str:
        number = int.from_bytes(hashlib.sha256(source.encode()).digest(), "big") % 100
        while number in self.taken:
            number += 1
        self.taken.add(number)
        return f"s{number}"


class Plan:
    """What the inputs will be. `sizes`: every size and int input that is not simply static."""

    def __init__(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any):
        if isinstance(dynamic_shapes, (language.ShapesCollection, language.AdditionalInputs)):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(f, args, kwargs)
        # ints get an identity, so that the fakes of two equal ones can differ
        self.args, self.kwargs = pytree.tree_map(_wrap_int, (args, kwargs or {}))
        combined = language._combine_args(f, self.args, self.kwargs)
        self.sizes: dict[tuple[int, int], Size] = {}    # (id of the tensor or wrapped int, dimension)
        for path, leaf, entry in language._check_dynamic_shapes(combined, dynamic_shapes):
            source, where = "L" + pytree.keystr(path), "inputs" + pytree.keystr(path)
            if _C._is_tensor(leaf):
                self._add_tensor(source, where, leaf, _marked_sizes(leaf) if dynamic_shapes is None else entry)
            elif isinstance(entry, _DimHint) and entry.type is not _DimHintType.STATIC:
                self.sizes[(id(leaf), 0)] = Size(source, where, leaf.val, entry, is_input=True)
        self._check_values()

    def _add_tensor(self, source: str, where: str, tensor: Any, entry: dict[int, Any]) -> None:
        for dim, size in sorted(entry.items()):
            found = tensor.shape[dim]
            if type(size) is int and size != found:
                raise ConstraintViolationError(UserErrorType.CONSTRAINT_VIOLATION,
                        f"dynamic_shapes says that {where}.shape[{dim}] is always {size}; the example input has "
                        f"{found} there: give an example of that size, or use Dim.AUTO")
            if isinstance(size, (Dim, _DimHint)) and size != Dim.STATIC and (id(tensor), dim) not in self.sizes:
                self.sizes[(id(tensor), dim)] = Size(f"{source}.size()[{dim}]", f"{where}.shape[{dim}]", found, size)

    def _check_values(self) -> None:
        """Examples must fit: equal names, equal sizes; derived sizes by their formula; everything within its bounds."""
        first: dict[str, tuple[int, Size]] = {}
        for size in self.sizes.values():
            spec = size.spec
            if not isinstance(spec, Dim):
                continue
            if not spec.min <= size.value <= spec.max:
                raise ConstraintViolationError(UserErrorType.CONSTRAINT_VIOLATION,
                        f"{size.where} is {size.value} in the example input, which is outside of the bounds "
                        f"{spec.min}..{spec.max} of {spec.__name__}: widen the Dim, or give another example")
            root, rest = divmod(size.value - spec._shift, spec._scale)
            if rest:
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION,
                        f"{size.where} is {size.value} in the example input, which is not of the form {spec.__name__} "
                        f"for any integer {spec.root.__name__}")
            value, other = first.setdefault(spec.root.__name__, (root, size))
            if value != root:
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION,
                        f"{size.where} is {size.value} and {other.where} is {other.value} in the example inputs; "
                        f"dynamic_shapes says that they are {spec.__name__} and {other.spec.__name__}, of one "
                        f"{spec.root.__name__}: give examples that "
                                "agree, or different Dims")

    # ---- before the program runs ----

    def fakes(self, mode: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs with fakes for tensors and symbolic ints where the plan says so. The same tensor gives the same
        fake."""
        names = _Names()
        for size in self.sizes.values():
            size.symbol = self._symbol(mode, names, size)
        self._relate(mode, names)
        self.stated = len(_C._shape_conditions(mode))
        _C._shape_origins(mode, os.path.join(os.path.dirname(cresset.__file__), ""))
        made: dict[int, Any] = {}

        def fake(leaf: Any) -> Any:
            if isinstance(leaf, _IntWrapper):
                size = self.sizes.get((id(leaf), 0))
                return leaf.val if size is None else size.symbol
            if not _C._is_tensor(leaf):
                return leaf
            if id(leaf) not in made:
                made[id(leaf)] = self._fake(mode, leaf)
            return made[id(leaf)]

        return pytree.tree_map(fake, self.args), pytree.tree_map(fake, self.kwargs)

    def _fake(self, mode: Any, tensor: Any) -> Any:
        sizes = list(tensor.shape)
        for dim in range(len(sizes)):
            if (size := self.sizes.get((id(tensor), dim))) is not None and size.symbol is not None:
                sizes[dim] = _C._shape_simplify(size.symbol)
        return _C._shape_fake(mode, tensor, tuple(sizes))

    def _symbol(self, mode: Any, names: _Names, size: Size) -> Any:
        """None: 0 and 1 mean something of their own (they broadcast, they are empty), so such a size stays what it
        is."""
        spec, symbol = size.spec, None
        if size.is_input:
            symbol = _C._shape_symbol(mode, names.next(size.source), size.value, None, None)
        elif size.value not in (0, 1):
            low, high = (max(2, spec.min), spec.max) if isinstance(spec, Dim) else (2, math.inf)
            symbol = _C._shape_symbol(mode, names.next(size.source), size.value, low, _bound(high))
        elif size.spec == Dim.AUTO:
            warnings.warn(f"{size.where} is {size.value} in the example input, so it stays {size.value}: give an "
                          f"example of at least 2 to let it vary")
        if isinstance(spec, Dim):
            root = spec.root
            _C._shape_add(mode, _NAMED, size.source, spec.__name__, root.__name__, spec._scale, spec._shift, root.min,
                          _bound(root.max), size.value, symbol)
        else:
            promise = _AUTO if spec.type is _DimHintType.AUTO else _DYNAMIC
            _C._shape_add(mode, promise, size.source, None, None, 1, 0, None, None, size.value, symbol)
        return symbol

    def _relate(self, mode: Any, names: _Names) -> None:
        """Sizes of one Dim are equal, derived ones follow their root: facts before the program begins."""
        roots: dict[str, Any] = {}
        named = [size for size in self.sizes.values() if isinstance(size.spec, Dim)]
        for size in named:
            if size.spec.root is size.spec and size.symbol is not None:
                first = roots.setdefault(size.spec.__name__, size.symbol)
                if first is not size.symbol:
                    _C._shape_learn(size.symbol == first)
        exact = {size.spec.__name__ for size in named if size.spec.root is size.spec}
        for size in named:
            spec, root = size.spec, size.spec.root
            if root is spec:
                continue
            value = (size.value - spec._shift) // spec._scale
            if root.__name__ not in exact:  # no input has that size itself
                exact.add(root.__name__)
                low, high = max(2, root.min) if value >= 2 else root.min, _bound(root.max)
                roots[root.__name__] = symbol = _C._shape_symbol(mode, names.next(root.__name__), value, low, high)
                _C._shape_add(mode, _ROOT, root.__name__, root.__name__, root.__name__, 1, 0, low, high, value, symbol)
            if size.symbol is not None:
                _C._shape_learn(size.symbol == roots.get(root.__name__, value) * spec._scale + spec._shift)

    # ---- after the program ran ----

    def settle(self, mode: Any, prefer_deferred_runtime_asserts_over_guards: bool = False) -> Settled:
        """Judges what the program asked about the sizes. UserError(CONSTRAINT_VIOLATION): dynamic_shapes promises more
        than holds."""
        self._check_examples()
        names, reasons, fixes, deferred = _C._shape_solve(mode, prefer_deferred_runtime_asserts_over_guards)
        if names:
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION, _message(names, reasons, fixes))
        settled = Settled({}, [], {})
        free: dict[str, Any] = {}
        conflicts = [self._range(size, settled, free) for size in self.sizes.values()]
        if any(conflicts):
            raise RangeConflict(UserErrorType.CONSTRAINT_VIOLATION, "\n".join(filter(None, conflicts)))
        for name, symbol in free.items():
            settled.ranges.setdefault(name, _bounds(symbol))
        for symbol, counted in _C._shape_unbacked(mode):
            if isinstance(symbol, _C.SymFloat):
                settled.ranges[repr(symbol)] = (-math.inf, math.inf)
            elif isinstance(now := _C._shape_simplify(symbol), int):
                settled.replacements[repr(symbol)] = repr(now)
                settled.ranges[repr(symbol)] = (now, now)  # the graph names it still
            else:
                low, high = _bounds(symbol)
                settled.ranges[repr(symbol)] = (low, _MOST if counted and high == math.inf else high)
        sources = {repr(size.symbol) for size in self.sizes.values()}
        for i, ((kind, condition, *_), later) in enumerate(zip(_C._shape_conditions(mode), deferred)):
            if kind not in (_GUARD, _TRACED):
                continue
            # what a derived size is to a root that is no input, the sizes themselves say
            if i < self.stated and not {repr(symbol) for symbol in _C._shape_symbols(condition)} <= sources:
                continue
            if later:
                settled.asserts.append(condition)
            elif (text := _C._shape_text(condition)) not in settled.guards:
                settled.guards.append(text)
        _C._shape_open(mode)
        return settled

    def _check_examples(self) -> None:
        for size in self.sizes.values():
            if size.symbol is None and isinstance(size.spec, _DimHint) and size.spec.type is _DimHintType.DYNAMIC:
                raise RangeConflict(UserErrorType.CONSTRAINT_VIOLATION,
                        f"{size.where} must vary by dynamic_shapes ({size.spec!r}), but it is {size.value} in the "
                                    "example input, and sizes 0 and 1 never vary: give an example of at least 2, or "
                                    "use Dim.AUTO")

    def _range(self, size: Size, settled: Settled, free: dict[str, Any]) -> str | None:
        """Enters the bounds of one size. A text: the user's bounds exclude what is left."""
        if size.symbol is None:
            return None
        now = _C._shape_simplify(size.symbol)
        text = repr(now)
        if text != repr(size.symbol):
            settled.replacements[repr(size.symbol)] = text
        if isinstance(now, int):
            return None
        free.update((repr(symbol), symbol) for symbol in _C._shape_symbols(now))
        low, high = (size.spec.min, size.spec.max) if isinstance(size.spec, Dim) else _bounds(now)
        known = settled.ranges.get(text, (0, math.inf))
        low, high = max(low, known[0]), min(high, known[1])
        if isinstance(size.spec, _DimHint):
            wanted = (size.spec.min or 0, math.inf if size.spec.max is None else size.spec.max)
            if wanted[0] > high or wanted[1] < low:
                return (f"{size.where} has the bounds {wanted[0]}..{wanted[1]} in dynamic_shapes ({size.spec!r}); the "
                        f"program needs {low}..{high}: widen them")
            low, high = max(low, wanted[0]), min(high, wanted[1])
        settled.ranges[text] = (low, high)
        return None


def _message(names: str, reasons: str, fixes: str) -> str:
    text = f"Constraints violated ({names})! dynamic_shapes promises more than the program can do:\n{reasons}"
    if fixes:
        text += "Suggested fixes:\n" + "".join(f"  {line}\n" for line in fixes.splitlines())
    return text


def _bound(value: float) -> int | None:
    return None if value in (math.inf, -math.inf) else int(value)


def _bounds(number: Any) -> tuple[float, float]:
    low, high = _C._shape_range(number)
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def _wrap_int(leaf: Any) -> Any:
    return _IntWrapper(leaf) if type(leaf) is int else leaf


def plan(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any) -> Plan:
    """f: the module or function (or its signature, or the names of its parameters). UserError: dynamic_shapes is
    wrong."""
    return Plan(f, args, kwargs, dynamic_shapes)
