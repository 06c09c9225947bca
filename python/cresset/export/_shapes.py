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
import warnings
from typing import Any

import cresset
from cresset import _C
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
        seen: set[int] = set()
        for path, leaf, entry in language._check_dynamic_shapes(combined, dynamic_shapes):
            source, where = "L" + pytree.keystr(path), "inputs" + pytree.keystr(path)
            if isinstance(leaf, cresset.Tensor):
                self._add_tensor(source, where, leaf, entry, id(leaf) in seen)
                seen.add(id(leaf))
            elif isinstance(entry, _DimHint) and entry.type is not _DimHintType.STATIC:
                self.sizes[(id(leaf), 0)] = Size(source, where, leaf.val, entry, is_input=True)
        self._check_values()

    def _add_tensor(self, source: str, where: str, tensor: Any, entry: dict[int, Any], again: bool) -> None:
        for dim, size in sorted(entry.items()):
            found = tensor.shape[dim]
            if type(size) is int and size != found:
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"dynamic_shapes says that {where}.shape[{dim}] is always {size}; the example input has "
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
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"{size.where} is {size.value} in the example input, which is outside of the bounds "
                                f"{spec.min}..{spec.max} of {spec.__name__}: widen the Dim, or give another example")
            root, rest = divmod(size.value - spec._shift, spec._scale)
            if rest:
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"{size.where} is {size.value} in the example input, which is not of the form "
                                f"{spec.__name__} for any integer {spec.root.__name__}")
            value, other = first.setdefault(spec.root.__name__, (root, size))
            if value != root:
                raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"{size.where} is {size.value} and {other.where} is {other.value} in the example inputs; "
                                f"dynamic_shapes says that they are {spec.__name__} and {other.spec.__name__}, of one {spec.root.__name__}: give examples that "
                                "agree, or different Dims")

    # ---- before the program runs ----

    def fakes(self, mode: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs with fakes for tensors and symbolic ints where the plan says so. The same tensor gives the same fake."""
        names = _Names()
        for size in self.sizes.values():
            size.symbol = self._symbol(mode, names, size)
        self._relate(mode, names)
        made: dict[int, Any] = {}

        def fake(leaf: Any) -> Any:
            if isinstance(leaf, _IntWrapper):
                size = self.sizes.get((id(leaf), 0))
                return leaf.val if size is None else size.symbol
            if not isinstance(leaf, cresset.Tensor):
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
        """None: 0 and 1 mean something of their own (they broadcast, they are empty), so such a size stays what it is."""
        low, high = size.spec.min, size.spec.max
        if size.is_input:
            return _C._shape_symbol(mode, names.next(size.source), size.value, low, high)
        if size.value in (0, 1):
            if size.spec == Dim.AUTO:
                warnings.warn(f"{size.where} is {size.value} in the example input, so it stays {size.value}: give an example of at least 2 to let it vary")
            return None
        return _C._shape_symbol(mode, names.next(size.source), size.value, max(2, low or 0), None if high in (None, math.inf) else high)

    def _relate(self, mode: Any, names: _Names) -> None:
        """Sizes of one Dim are equal, derived ones follow their root: facts before the program begins."""
        roots: dict[str, Any] = {}
        named = [size for size in self.sizes.values() if isinstance(size.spec, Dim) and size.symbol is not None]
        for size in named:
            if size.spec.root is size.spec:
                first = roots.setdefault(size.spec.__name__, size.symbol)
                if first is not size.symbol:
                    _C._shape_learn(size.symbol == first)
        for size in named:
            spec, root = size.spec, size.spec.root
            if root is spec:
                continue
            if root.__name__ not in roots:  # no input has that size itself
                value = (size.value - spec._shift) // spec._scale
                low = max(2, root.min) if value >= 2 else root.min
                roots[root.__name__] = _C._shape_symbol(mode, names.next(root.__name__), value, low, None if root.max == math.inf else root.max)
            _C._shape_learn(size.symbol == roots[root.__name__] * spec._scale + spec._shift)

    # ---- after the program ran ----

    def settle(self, mode: Any) -> Settled:
        """Judges what the program asked about the sizes. UserError(CONSTRAINT_VIOLATION): dynamic_shapes promises more than holds."""
        ranges: dict[str, tuple[float, float]] = {}
        replacements: dict[str, str] = {}
        wrong: list[str] = []
        for size in self.sizes.values():
            now = _C._shape_simplify(size.symbol) if size.symbol is not None else size.value
            if size.symbol is not None and repr(now) != repr(size.symbol):
                replacements[repr(size.symbol)] = repr(now)
            if isinstance(now, int):
                if size.spec.__class__ is not _DimHint or size.spec.type is _DimHintType.DYNAMIC:
                    wrong.append(f"{size.where} must vary, but the program works only with {now}")
                continue
            low, high = _bounds(now)
            if isinstance(size.spec, Dim):
                low, high = size.spec.min, size.spec.max
            known = ranges.get(repr(now), (-math.inf, math.inf))
            ranges[repr(now)] = (max(low, known[0]), min(high, known[1]))
        if wrong:
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION, "; ".join(wrong))
        return Settled(ranges, [], replacements)


def _bounds(number: Any) -> tuple[float, float]:
    low, high = _C._shape_range(number)
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def _wrap_int(leaf: Any) -> Any:
    return _IntWrapper(leaf) if type(leaf) is int else leaf


def plan(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any) -> Plan:
    """f: the module or function (or its signature, or the names of its parameters). UserError: dynamic_shapes is wrong."""
    return Plan(f, args, kwargs, dynamic_shapes)
