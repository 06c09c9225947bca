"""Changes of dicts and objects, by which capture finds out whether CPython gives a dict another version with each one
(src/capture/stamps.c). Each function changes what its argument holds; they are called often enough that CPython
specialises their code."""
from __future__ import annotations

from typing import Any, Callable

_ROUNDS = 24


class _Object:
    def __init__(self) -> None:
        self.first, self.second = 0, 0


def _dict_changes() -> list[Callable[[Any], object]]:
    fresh = iter(range(1 << 30, 1 << 40))

    def store(d: Any) -> None:
        d["first"] = next(fresh)

    def insert(d: Any) -> None:
        d[f"new{next(fresh)}"] = 0

    def remove(d: Any) -> None:
        d["gone"] = next(fresh)
        del d["gone"]
    return [store, lambda d: d.update(first=next(fresh)), insert, lambda d: d.popitem(), remove,
            lambda d: d.__setitem__("second", next(fresh)), lambda d: d.setdefault(f"more{next(fresh)}", 1),
            lambda d: d.pop("first"), lambda d: d.__ior__({"first": next(fresh)}),
            lambda d: exec("first = first + 1", d), lambda d: d.clear(), store]


def _object_changes() -> list[Callable[[Any], object]]:
    fresh = iter(range(1 << 30, 1 << 40))

    def store(o: Any) -> None:
        o.first = next(fresh)

    def remove(o: Any) -> None:
        del o.second

    def put_back(o: Any) -> None:
        o.second = next(fresh)
    return [store, lambda o: setattr(o, "first", next(fresh)), lambda o: object.__setattr__(o, "first", next(fresh)),
            remove, put_back, lambda o: o.__dict__.update(first=next(fresh)), store,
            lambda o: setattr(o, f"new{next(fresh)}", 0)]


def subjects() -> list[tuple[Any, tuple[Callable[[Any], object], ...]]]:
    """(dict or object, what is done to it, in order)"""
    changes, own = _dict_changes(), _object_changes()
    found: list[tuple[Any, tuple[Callable[[Any], object], ...]]] = []
    found.append(({"first": 0, "second": 0}, tuple(changes * _ROUNDS)))
    for _ in range(_ROUNDS):
        o, asked = _Object(), _Object()
        vars(asked)  # from then on there is a dict, which the object's values stand behind or are moved into
        found += [(o, tuple(own)), (asked, tuple(own)), (asked, tuple(own[:6] * 4))]
    return found
