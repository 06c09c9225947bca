"""Call structures: the specs of an archive as objects, and Python values taken apart and put together by them.

A spec is a leaf or a node with a type name, a context, keys and children. Types are rows of `_TYPES`; one that is not
known here (somebody's dataclass) is taken apart by its field names and put together as a plain structure of that name.
"""
from __future__ import annotations

import collections
import types
from typing import Any


class TreeSpec:
    """Names as in torch.utils._pytree.TreeSpec; `type` is a Python type, or the name of one that is not known here."""
    __slots__ = ("type", "context", "children_spec", "num_leaves", "_keys")

    def __init__(self, node: tuple[str | None, str | None, list[Any] | None, list[Any]]):
        name, context, keys, children = node
        self.type = _TYPES.get(name, name)
        self.context = keys if self.type in _MAPPINGS else context
        self.children_spec = [TreeSpec(child) for child in children]
        self.num_leaves = 1 if name is None else sum(child.num_leaves for child in self.children_spec)
        if keys is None and isinstance(self.type, str):
            keys = [f"field_{i}" for i in range(len(children))]
        self._keys = keys

    @property
    def num_children(self) -> int:
        return len(self.children_spec)

    def is_leaf(self) -> bool:
        return self.type is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self.children_spec) == (other.type, other.context, other.children_spec)

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        name = self.type if isinstance(self.type, str) else self.type.__name__
        children = ", ".join(map(repr, self.children_spec))
        return f"TreeSpec({name}, {self.context if self.type in (dict, collections.OrderedDict) else None}, [{children}])"

    def paths(self, root: str) -> list[str]:
        """Where each leaf is, as Python reads it: args[0]['image']."""
        found: list[str] = []
        _paths(self, root, found)
        return found

    def flatten(self, value: Any, root: str) -> list[Any]:
        """The leaves. ValueError naming the place where the value has another structure."""
        leaves: list[Any] = []
        _flatten(self, value, root, leaves)
        return leaves

    def unflatten(self, leaves: list[Any]) -> Any:
        if len(leaves) != self.num_leaves:
            raise ValueError(f"the structure has {self.num_leaves} leaves, {len(leaves)} were given")
        return _unflatten(self, iter(leaves))


_TYPES = {None: None, "builtins.tuple": tuple, "builtins.list": list, "builtins.dict": dict, "collections.OrderedDict": collections.OrderedDict,
          "collections.defaultdict": collections.defaultdict, "collections.deque": collections.deque, "collections.namedtuple": "namedtuple",
          "torch.Size": tuple}
_SEQUENCES = (tuple, list, collections.deque)
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_made: dict[Any, type] = {}


def _child_path(spec: TreeSpec, path: str, i: int) -> str:
    if isinstance(spec.type, str):
        return f"{path}.{spec._keys[i]}"
    return f"{path}[{spec._keys[i]!r}]" if spec._keys is not None else f"{path}[{i}]"


def _paths(spec: TreeSpec, path: str, found: list[str]) -> None:
    if spec.is_leaf():
        found.append(path)
    for i, child in enumerate(spec.children_spec):
        _paths(child, _child_path(spec, path, i), found)


def _structure(value: Any) -> str:
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (*_SEQUENCES, *_MAPPINGS)) else f"a {type(value).__name__}"


def _mismatch(path: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"{path}: expected {expected}, as in the call that was exported; got {_structure(value)}")


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def _flatten(spec: TreeSpec, value: Any, path: str, leaves: list[Any]) -> None:
    kind, children, keys = spec.type, spec.children_spec, spec._keys
    if kind is None:
        if isinstance(value, (*_SEQUENCES, *_MAPPINGS)):
            raise _mismatch(path, "one value", value)
        leaves.append(value)
    elif kind in _SEQUENCES:
        if not isinstance(value, kind) or len(value) != len(children):
            raise _mismatch(path, f"a {kind.__name__} of {len(children)}", value)
        for i, child in enumerate(children):
            _flatten(child, value[i], f"{path}[{i}]", leaves)
    elif kind in _MAPPINGS:
        if not isinstance(value, dict):
            raise _mismatch(path, f"a {kind.__name__} with the keys {_listed(keys)}", value)
        missing, extra = [key for key in keys if key not in value], [key for key in value if key not in keys]
        if missing or extra:
            parts = [f"{word} {_listed(names)}" for word, names in (("no", missing), ("an unexpected", extra)) if names]
            raise ValueError(f"{path}: the {kind.__name__} has {' and '.join(parts)}; expected the keys {_listed(keys)}")
        for key, child in zip(keys, children):
            _flatten(child, value[key], f"{path}[{key!r}]", leaves)
    else:
        for i, (key, child) in enumerate(zip(keys, children)):
            if isinstance(value, tuple) and len(value) == len(children):
                item = value[i]
            elif hasattr(value, key):
                item = getattr(value, key)
            else:
                raise _mismatch(path, f"a {_type_name(spec)} with the fields {_listed(keys)}", value)
            _flatten(child, item, f"{path}.{key}", leaves)


def _type_name(spec: TreeSpec) -> str:
    """A namedtuple's own name is its context."""
    return spec.context if spec.type == "namedtuple" else spec.type


def _unflatten(spec: TreeSpec, leaves: Any) -> Any:
    kind = spec.type
    if kind is None:
        return next(leaves)
    items = [_unflatten(child, leaves) for child in spec.children_spec]
    if kind in _SEQUENCES:
        return items if kind is list else kind(items)
    if kind is dict:
        return dict(zip(spec._keys, items))
    if kind is collections.OrderedDict:
        return collections.OrderedDict(zip(spec._keys, items))
    if kind is collections.defaultdict:
        return collections.defaultdict(None, zip(spec._keys, items))
    if kind == "namedtuple":
        return _namedtuple(_type_name(spec).rpartition(".")[2], tuple(spec._keys))(*items)
    return types.SimpleNamespace(**dict(zip(spec._keys, items)))


def _namedtuple(name: str, fields: tuple[str, ...]) -> type:
    key = (name, fields)
    if key not in _made:
        _made[key] = collections.namedtuple(name if name.isidentifier() else "Structure", fields, rename=True)
    return _made[key]
