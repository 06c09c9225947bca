"""Names of placeholders: user inputs after the arguments of forward, state after its place in the module."""
from __future__ import annotations

import re
from typing import Any

from cresset.utils import _pytree as pytree

PREFIXES = {"USER_INPUT": "", "PARAMETER": "p_", "BUFFER": "b_", "CONSTANT_TENSOR": "c_", "CUSTOM_OBJ": "obj_",
            "TOKEN": "token"}
_ODD = re.compile(r"[^a-zA-Z0-9]")
_NUMBERED = re.compile(r"(.*)_(\d+)")


class Names:
    """Hands names out; one that is taken gets the next free number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, wish: str) -> str:
        name = wish
        while name in self._taken:
            self._numbers[wish] = self._numbers.get(wish, 0) + 1
            name = f"{wish}_{self._numbers[wish]}"
        if found := _NUMBERED.match(name):
            self._numbers[found[1]] = max(self._numbers.get(found[1], 0), int(found[2]))
        self._taken.add(name)
        return name

    def state(self, kind: str, target: str) -> str:
        # as PyTorch does: self_attn gives p_attn_...
        return self.take(PREFIXES[kind] + _ODD.sub("_", target).lower().removeprefix("self_"))


def _step(key: Any) -> str:
    if isinstance(key, pytree.MappingKey):
        return _ODD.sub("_", str(key.key)).lower()
    return (str(key.idx) if isinstance(key, pytree.SequenceKey) else key.name).lower()


def input_names(combined: dict[str, Any]) -> list[str]:
    """One name per leaf, before collisions are settled: the path to it, joined by underscores."""
    names = []
    for name, value in combined.items():
        if pytree.tree_is_leaf(value):
            names.append(_ODD.sub("_", name).lower())
        else:
            names += ["_".join([_ODD.sub("_", name).lower(), *map(_step, path)])
                      for path, _ in pytree.tree_flatten_with_path(value)[0]]
    return names


def combine(signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, in the order of the call: *xs as xs_0, xs_1; keywords last, by key."""
    combined: dict[str, Any] = {}
    parameters = list(signature.parameters.values())
    at = 0
    for i, value in enumerate(args):
        while at < len(parameters) and parameters[at].kind in (parameters[at].KEYWORD_ONLY, parameters[at].VAR_KEYWORD):
            at += 1
        parameter = parameters[at] if at < len(parameters) else None
        if parameter is None:
            combined[f"args_{i}"] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            combined[f"{parameter.name}_{i - at}"] = value
        else:
            combined[parameter.name] = value
            at += 1
    return combined | kwargs
