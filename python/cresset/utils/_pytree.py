"""Pytrees: nested tuples, lists, dicts and registered classes as a list of leaves and a TreeSpec.

The names are those of torch.utils._pytree. The work is done in C (src/python/tree.c); here is what is called once in a
while: registering types, reading and writing contexts, and the functions built on flattening.

    leaves, spec = tree_flatten({"a": 1, "b": [2, 3]})      # [1, 2, 3]
    tree_unflatten([4, 5, 6], spec)                         # {"a": 4, "b": [5, 6]}
    treespec_loads(treespec_dumps(spec)) == spec

A spec of an archive may name classes that this process does not have. They become plain structures, namedtuples of that
name; nothing is imported for the sake of an archive. Register the class before loading to get it back.
"""
from __future__ import annotations

import collections
import dataclasses
import enum
import json
import keyword
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cresset import _C
from cresset._C import _tree_flatten as tree_flatten
from cresset._C import _tree_unflatten as tree_unflatten
from cresset._C import _TreeSpec as TreeSpec

PyTree = Any
Context = Any
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
BUILTIN_TYPES = frozenset({tuple, list, dict, collections.namedtuple, collections.OrderedDict, collections.defaultdict,
                           collections.deque})
_TYPE_NAMES = {tuple: "builtins.tuple", list: "builtins.list", dict: "builtins.dict",
               collections.OrderedDict: "collections.OrderedDict",
               collections.defaultdict: "collections.defaultdict", collections.namedtuple: "collections.namedtuple",
               collections.deque: "collections.deque"}
_namedtuple_names: dict[type, str] = {}


class NodeDef(NamedTuple):
    """What was registered for a type; a plain tuple of six to the C side."""
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    serialized_type_name: str | None
    to_dumpable_context: Callable[[Context], Any] | None
    from_dumpable_context: Callable[[Any], Context] | None
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[Any], Context]] | None


# ---- registering ----

def register_pytree_node(cls: type, flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any], *,
                         serialized_type_name: str | None = None,
                         to_dumpable_context: Callable[..., Any] | None = None,
                         from_dumpable_context: Callable[..., Any] | None = None,
                         flatten_with_keys_fn: Callable[..., Any] | None = None) -> None:
    """Makes `cls` a node: `flatten_fn(x)` gives (children, context), `unflatten_fn(children, context)` puts one
    together.

    With `serialized_type_name` specs with it can be written and read; the context then goes through JSON, or through
    the two functions for it."""
    if not isinstance(cls, type):
        raise TypeError(f"register_pytree_node() takes a class, got {cls!r}")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"both or none of to_dumpable_context and from_dumpable_context must be given for {cls}")
    if cls in BUILTIN_TYPES or _C._tree_registered(cls) is not None:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _check_name(cls, serialized_type_name)
    definition = (flatten_fn, unflatten_fn, serialized_type_name, to_dumpable_context, from_dumpable_context,
                  flatten_with_keys_fn)
    _C._tree_register(cls, definition, serialized_type_name)


_register_pytree_node = register_pytree_node


def _check_name(cls: type, name: str | None) -> None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"serialized_type_name of {cls} must be a text, got {name!r}")
    if name in _TYPE_NAMES.values() or (name is not None and _C._tree_named(name) not in (None, cls)):
        raise ValueError(f"the name '{name}' belongs to another pytree node already; choose another "
                         f"serialized_type_name for {cls}")


def _deregister_pytree_node(cls: type) -> None:
    definition = _C._tree_registered(cls)
    if definition is None:
        raise ValueError(f"{cls} is not registered as a pytree node")
    _C._tree_register(cls, None, definition[2])


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Namedtuples are nodes without being registered; with a name they can be written and read, too."""
    if not is_namedtuple_class(cls):
        raise TypeError(f"{cls} is no namedtuple class")
    _check_name(cls, serialized_type_name)
    _namedtuple_names[cls] = serialized_type_name
    _C._tree_register(cls, (list, lambda values, _: cls(*values), serialized_type_name, None, None, None),
                      serialized_type_name)


def register_dataclass(cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Makes a dataclass (or any class made from keywords, with `field_names`) a node; fields that are None are no
    children."""
    dropped = set(drop_field_names or ())
    if dataclasses.is_dataclass(cls):
        known = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
        if field_names is not None and set(field_names) != set(known):
            raise ValueError(f"field_names of {cls} must be its fields, less drop_field_names: expected {known}, got "
                             f"{list(field_names)}")
        names = known if field_names is None else list(field_names)
    elif field_names is None:
        raise ValueError(f"{cls} is no dataclass: field_names must list the fields that make one")
    else:
        names = list(field_names)

    def flatten(value: Any) -> tuple[list[Any], Context]:
        present = [name for name in names if getattr(value, name) is not None]
        return [getattr(value, name) for name in present], [present, [name for name in names if name not in present]]

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        return cls(**dict(zip(context[0], values)), **dict.fromkeys(context[1]))

    def flatten_with_keys(value: Any) -> tuple[list[Any], Context]:
        values, context = flatten(value)
        return [(GetAttrKey(name), item) for name, item in zip(context[0], values)], context

    register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                         flatten_with_keys_fn=flatten_with_keys)


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    value: Any


def register_constant(cls: type) -> None:
    """Makes `cls` a node without leaves: the value itself is the context."""
    if cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        raise TypeError(f"register_constant() needs a class with its own __eq__ and a __hash__, got {cls}")
    register_pytree_node(cls, lambda value: ([], ConstantNode(value)), lambda _, context: context.value,
                         flatten_with_keys_fn=lambda value: ([], ConstantNode(value)))


def is_namedtuple_class(cls: Any) -> bool:
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
            and all(type(field) is str for field in cls._fields)
            and callable(getattr(cls, "_make", None)))  # type: ignore[attr-defined]


def is_namedtuple_instance(value: Any) -> bool:
    return is_namedtuple_class(type(value))


# ---- specs ----

def treespec_leaf() -> TreeSpec:
    return _C._treespec(None, None, [])


LeafSpec = treespec_leaf


def treespec_tuple(children: Iterable[TreeSpec] = ()) -> TreeSpec:
    return _C._treespec(tuple, None, list(children))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    items = dict(mapping, **kwargs)
    return _C._treespec(dict, list(items), list(items.values()))


class EnumEncoder(json.JSONEncoder):
    def default(self, obj: Any) -> Any:
        if isinstance(obj, enum.Enum):
            return {"__enum__": True, "fqn": f"{type(obj).__module__}:{type(obj).__qualname__}", "name": obj.name}
        return super().default(obj)


def _enum_hook(value: dict[str, Any]) -> Any:
    """An enum of a module that is there already; its name otherwise. Nothing is imported."""
    if "__enum__" not in value:
        return value
    module, _, path = str(value.get("fqn")).partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, enum.Enum) and value.get("name") in found.__members__:
        return found[value["name"]]
    return f"{path}.{value.get('name')}"


def _dump(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    return {**_dump_node(spec), "children_spec": [_dump(child) for child in spec.children()]}


def _dump_node(spec: TreeSpec) -> dict[str, Any]:
    """Type and context of a node that is no leaf."""
    kind, context, name = spec.type, spec.context, None
    if spec._is_plain:
        name, context = kind.__cresset_made__, context.dumped()
    elif kind is collections.namedtuple:
        context = _namedtuple_names.get(context) or getattr(context, "__cresset_made__", None)
        if context is None:
            raise NotImplementedError(f"the namedtuple {spec.context} has no name to be written under: use "
                                      f"_register_namedtuple(cls, serialized_type_name=...)")
        name = _TYPE_NAMES[kind]
    elif kind is collections.defaultdict:
        factory, keys = context
        name = _TYPE_NAMES[kind]
        context = {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
                   "dict_context": keys}
    elif kind in _TYPE_NAMES:
        name, context = _TYPE_NAMES[kind], _context_text(kind, context)
    else:
        definition = NodeDef(*(_C._tree_registered(kind) or [None] * 6))
        name = definition.serialized_type_name
        if name is None:
            raise NotImplementedError(f"{kind} has no name to be written under: give register_pytree_node a "
                                      f"serialized_type_name")
        context = definition.to_dumpable_context(context) if definition.to_dumpable_context else _context_text(kind,
                context)
    return {"type": name, "context": context}


def _context_text(kind: Any, context: Context) -> str:
    try:
        return json.dumps(context, cls=EnumEncoder)
    except TypeError as error:
        raise TypeError(f"the context of {kind} does not go into JSON ({error}): give register_pytree_node "
                        f"to_dumpable_context and from_dumpable_context") from error


def class_paths(spec: TreeSpec) -> dict[str, str | None]:
    """Where Python finds the classes of a structure, by the names they are registered under; None: pickle, protocol 2,
    cannot name them (they were made inside of a function or another class)."""
    found: dict[str, str | None] = {}
    waiting = [spec]
    while waiting:
        node = waiting.pop()
        waiting += node.children()
        cls = node.context if node.type is collections.namedtuple else node.type
        definition = _C._tree_registered(cls) if isinstance(cls, type) else None
        name = definition[2] if definition else None
        if name is not None and cls.__module__.partition(".")[0] != "cresset":
            found[name] = None if "." in cls.__qualname__ else f"{cls.__module__}.{cls.__qualname__}"
    return found


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The text that archives hold, equal to PyTorch's."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps() takes a TreeSpec, got {type(treespec).__name__}")
    if protocol not in (None, DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps([DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL, _dump(treespec)], cls=EnumEncoder)


def treespec_loads(serialized: str) -> TreeSpec:
    """The spec of such a text. Classes that are not registered become plain structures of that name."""
    return _C._treespec_loads(serialized)


# ---- called from C while a text is read ----

_FACTORIES = {f"builtins.{t.__name__}": t for t in (list, dict, set, tuple, int, float, str, bool)} | {
    f"collections.{t.__name__}": t for t in (collections.OrderedDict, collections.deque)}
_made: dict[Any, type] = {}


@dataclasses.dataclass(frozen=True, repr=False)
class PlainContext:
    """The context of a class that is not known here, as the archive has it."""
    text: str
    is_text: bool

    def __repr__(self) -> str:
        return self.text

    def dumped(self) -> Any:
        return self.text if self.is_text else json.loads(self.text)


def _load_key(text: str) -> Any:
    key = json.loads(text, object_hook=_enum_hook)
    try:
        hash(key)
    except TypeError:  # a tuple, in JSON a list; or an object, of which only the text can be a key
        key = tuple(key) if isinstance(key, list) else text
    return key


def _load_factory(name: str) -> Any:
    return _FACTORIES.get(name)


def _made_class(name: str, fields: tuple[str, ...] | None, count: int, absent: tuple[str, ...] = ()) -> type:
    """A namedtuple class for a name that nobody has registered; the same one each time."""
    numbered = fields is None
    if fields is None:
        fields = tuple(f"field_{i}" for i in range(count))
    key = (name, fields, absent, numbered)
    if key not in _made:
        module, _, short = name.rpartition(".")
        short = short if short.isidentifier() and not keyword.iskeyword(short) else "Structure"
        cls = collections.namedtuple(short, fields + absent, rename=True, defaults=(None,) * len(absent),
                                     module=module or None)
        cls.__cresset_made__ = name  # type: ignore[attr-defined]
        if numbered:
            cls.__cresset_numbered__ = True  # type: ignore[attr-defined]
        _made[key] = cls
    return _made[key]


def _load_other(name: str, context: str, is_text: int, fields: tuple[str, ...] | None,
                count: int) -> tuple[type, Context, Any]:
    """(class, context, fields) of a node of any other type."""
    cls = _C._tree_named(name)
    if cls is not None and _C._tree_registered(cls) is not None:
        definition = NodeDef(*_C._tree_registered(cls))
        value = context if is_text else json.loads(context)
        if definition.from_dumpable_context is not None:
            return cls, definition.from_dumpable_context(value), None
        return cls, json.loads(value, object_hook=_enum_hook) if is_text else value, None
    absent: tuple[str, ...] = ()
    if fields is not None and is_text:
        parsed = json.loads(context)
        if len(parsed) == 2 and isinstance(parsed[1], list):  # a dataclass: [present, those that are None]
            absent = tuple(str(field) for field in parsed[1])
    return _made_class(name, fields, count, absent), PlainContext(context, bool(is_text)), fields


# ---- functions on trees ----

def tree_is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    return (is_leaf is not None and bool(is_leaf(tree))) or _C._tree_open(tree) is None


def tree_leaves(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Iterable[Any]:
    return iter(tree_flatten(tree, is_leaf)[0])


def tree_structure(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    return tree_leaves((args, kwargs))


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree,
             is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    """func on every leaf, and on what the other trees have in its place."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten([func(*items) for items in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests))], spec)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree,
              is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    leaves, spec = tree_flatten(tree, is_leaf)
    for items in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*items)
    return tree


def _matches(what: Any) -> Callable[[Any], bool]:
    return (lambda leaf: isinstance(leaf, what)) if isinstance(what, (type, tuple)) else what


def tree_map_only(type_or_pred: Any, func: Callable[[Any], Any], tree: PyTree,
                  is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    chosen = _matches(type_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(type_or_pred: Any, func: Callable[[Any], Any], tree: PyTree,
                   is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    chosen = _matches(type_or_pred)
    return tree_map_(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_pred: Any, pred: Callable[[Any], bool], tree: PyTree,
                  is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    chosen = _matches(type_or_pred)
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_any_only(type_or_pred: Any, pred: Callable[[Any], bool], tree: PyTree,
                  is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    chosen = _matches(type_or_pred)
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


# ---- paths ----

@dataclasses.dataclass(frozen=True)
class SequenceKey:
    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, parent: Any) -> Any:
        return getattr(parent, self.name)


KeyPath = tuple[Any, ...]


def _children_with_keys(tree: PyTree) -> list[tuple[Any, Any]] | None:
    opened = _C._tree_open(tree)
    if opened is None:
        return None
    children, kind, context = opened
    if kind in (dict, collections.OrderedDict, collections.defaultdict):
        return [(MappingKey(key), child) for key, child in zip(context, children)]
    if kind is collections.namedtuple:
        return [(GetAttrKey(field), child) for field, child in zip(context._fields, children)]
    if kind not in BUILTIN_TYPES:
        with_keys = NodeDef(*_C._tree_registered(kind)).flatten_with_keys_fn
        if with_keys is None:
            raise ValueError(f"{kind} was registered without flatten_with_keys_fn: its children have no paths")
        return list(with_keys(tree)[0])
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def _key_paths(path: KeyPath, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None) -> Iterable[tuple[KeyPath, Any]]:
    children = None if is_leaf is not None and is_leaf(tree) else _children_with_keys(tree)
    if children is None:
        yield path, tree
        return
    for key, child in children:
        yield from _key_paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[tuple[KeyPath, Any]]:
    return list(_key_paths((), tree, is_leaf))


def tree_flatten_with_path(tree: PyTree,
        is_leaf: Callable[[PyTree], bool] | None = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree,
                       is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten([func(path, leaf, *items) for (path, leaf), *items in zip(found, *others)], spec)


def keystr(path: KeyPath) -> str:
    return "".join(map(str, path))


def key_get(tree: PyTree, path: KeyPath) -> Any:
    for key in path:
        tree = key.get(tree)
    return tree


def _open_size(size: Any) -> tuple[list[Any], None]:
    return list(size), None


def _open_size_with_keys(size: Any) -> tuple[list[tuple[Any, Any]], None]:
    return [(SequenceKey(i), item) for i, item in enumerate(size)], None


register_pytree_node(_C.Size, _open_size, lambda items, _: _C.Size(items), serialized_type_name="torch.Size",
                     flatten_with_keys_fn=_open_size_with_keys)


# What classes that are dicts register: their own keys are the context.
def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values))
