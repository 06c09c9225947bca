"""Numbers that stand for as many as there are dimensions."""
from itertools import repeat
from collections.abc import Iterable


def _ntuple(n, name="parse"):
    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))
    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = _ntuple(1, "_single"), _ntuple(2, "_pair"), _ntuple(3, "_triple"), _ntuple(4,
        "_quadruple")


def _reverse_repeat_tuple(t, n):
    """(a, b) -> (b, b, a, a) for n = 2: padding as F.pad wants it."""
    return tuple(x for x in reversed(t) for _ in range(n))
