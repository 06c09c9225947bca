"""Node: one step of a Graph. Its place, arguments and users are kept true by whoever changes it through its methods."""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from cresset import _C

__all__ = ["Argument", "Node", "OpaqueTarget", "Target", "map_aggregate", "map_arg"]
Argument = Any  # for annotations: what a node may be given
Target = Callable[..., Any] | str

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


def _refuse(name: str) -> Callable[..., Any]:
    def refused(self: Any, *args: Any, **kwargs: Any) -> Any:
        # unused args, kwargs: nothing is done
        raise TypeError(f"{type(self).__name__}: {name} of an argument of a node, which users would not hear of: make "
                        "a new one and assign node.args or node.kwargs")
    return refused


class immutable_list(list):
    """A list among arguments."""
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse("change")
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse("change")

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (list(self),)


class immutable_dict(dict):
    """The keyword arguments of a node."""
    update = pop = popitem = clear = setdefault = __setitem__ = __delitem__ = __ior__ = _refuse("change")

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """fn of every leaf of tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(item, fn) for key, item in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(item, fn) for item in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """fn of every Node in it; the rest stays."""
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


class Node:
    """One step. `op` is one of placeholder, get_attr, call_function, call_method, call_module, output."""

    def __init__(self, graph: Any, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 return_type: Any = None, meta: dict[str, Any] | None = None):
        self.graph, self.name, self.op, self._target, self.type = graph, name, op, target, return_type
        self.meta: dict[str, Any] = {} if meta is None else meta
        self.users: dict[Node, None] = {}
        self._inputs: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._take(args, kwargs)

    # ---- what it uses ----

    def _take(self, args: Any, kwargs: Any) -> None:
        found: dict[Node, None] = {}
        self._args = map_arg(tuple(args), lambda node: found.setdefault(node) or node)
        self._kwargs = map_arg(dict(kwargs), lambda node: found.setdefault(node) or node)
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = found
        for node in found:
            node.users.setdefault(self)

    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self.graph._changed()
        self._take(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self.graph._changed()
        self._take(self._args, kwargs)

    @property
    def target(self) -> Any:
        return self._target

    @target.setter
    def target(self, target: Any) -> None:
        self.graph._changed()
        self._target = target

    @property
    def all_input_nodes(self) -> list[Node]:
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Any) -> None:
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        if not 0 <= idx <= len(self.args):
            raise ValueError(f"insert_arg(): index {idx}, and {self.name} has {len(self.args)} arguments")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        self.graph._changed()
        self._take(*(map_arg(given, lambda node: new_input if node is old_input else node)
                     for given in (self._args, self._kwargs)))

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
                              propagate_meta: bool = False) -> list[Node]:
        """Whoever uses this node, and is not turned down by the function, uses the other; those that did before."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(f"propagate_meta=True: {replace_with.name} has a meta of its own")
            replace_with.meta.update(self.meta)
        users = list(self.users)
        for user in users:
            if delete_user_cb(user):
                user.replace_input_with(self, replace_with)
        return users

    # ---- its place ----

    @property
    def next(self) -> Node:
        """The node behind it; behind the last comes the graph's root, whose op is "root"."""
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Puts x in front of this node."""
        if x.graph is not self.graph:
            raise AssertionError(f"{x.name} is of another graph than {self.name}: node_copy() copies it")
        if x is self:
            return
        self.graph._changed()
        x._unlink()
        x._prev, x._next = self._prev, self
        self._prev._next = self._prev = x

    def append(self, x: Node) -> None:
        """Puts x behind this node."""
        if x is not self:
            self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        at = self._next
        while at.op != "root":
            if at is other:
                return True
            at = at._next
        return False

    # ---- what it is ----

    @property
    def stack_trace(self) -> str | None:
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Is there more to it than its result? Such nodes are no dead code."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            return bool(getattr(self._module(), "_is_impure", False))
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op != "call_function" or not isinstance(self.target, _C.OpOverload):
            return self.op == "call_function" and getattr(self.target, "__name__", "_").endswith("_")
        schema = str(self.target._schema)
        random = impure_random and "random" in _C._row(self.target.name())["tags"]
        return "!" in schema or schema.endswith("-> ()") or random or self.target.namespace == "higher_order"

    def _module(self) -> Any:
        module = self.graph.owning_module
        for part in self.target.split("."):
            module = getattr(module, part, None)
        return module

    def format_node(self) -> str:
        if self.op == "output":
            return f"return {_shown(self.args[0] if self.args else None, '')}"
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target_text(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"

    def __repr__(self) -> str:
        return self.name


class OpaqueTarget:
    """An op that has no row in the table: it can be looked at, not called."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"there is no op '{self.name}' here")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTarget) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


_OPERATORS = set("add sub mul floordiv truediv mod pow neg pos eq ne lt le gt ge and_ or_ not_ xor lshift rshift "
                 "getitem".split())


def target_named(text: str) -> Any:
    """The function that a call names: an op of cresset.ops, a function of `operator`, or the name alone."""
    namespace, name, *overload = text.split(".")
    if namespace == "_operator" and name in _OPERATORS:
        return getattr(operator, name)
    try:
        return getattr(_C._packet(namespace, name), overload[0] if overload else "default")
    except (AttributeError, KeyError):
        return OpaqueTarget(text)


def target_text(target: Any) -> str:
    if isinstance(target, str):
        return target
    if callable(target) and getattr(target, "__module__", None) == "_operator":
        return "operator." + target.__name__
    if isinstance(target, (_C.OpOverload, _C.OpOverloadPacket)):
        return f"cresset.ops.{target}"
    text = str(target)
    if isinstance(target, OpaqueTarget) or not hasattr(target, "__name__"):
        return text
    return f"{target.__module__}.{getattr(target, '__qualname__', target.__name__)}"


def _shown(value: Any, mark: str = "%") -> str:
    if isinstance(value, Node):
        return mark + value.name
    if isinstance(value, tuple):
        return "(" + ", ".join(_shown(item, mark) for item in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item, mark) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item, mark)}" for key, item in value.items()) + "}"
    return repr(value) if isinstance(value, str) else str(value)
