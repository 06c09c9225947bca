"""symbolic_trace(): a program's graph without example inputs. Proxies stand for values; what is done to them is
recorded.

Op functions that meet an argument they do not know, of a class with `__cresset_function__`, call that instead.
"""
from __future__ import annotations

import dis
import inspect
import operator
import sys
import threading
from collections.abc import Iterator
from typing import Any

from cresset import _C
from cresset.fx.graph import Graph
from cresset.fx.graph_module import GraphModule, _attribute
from cresset.fx.node import Node, map_aggregate
from cresset.nn import Module, Parameter, Sequential

__all__ = ["Proxy", "TraceError", "Tracer", "symbolic_trace"]


class TraceError(ValueError):
    """The program asks for a value that is not known while it is traced."""


class Proxy:
    """Stands for what `node` gives."""

    def __init__(self, node: Node, tracer: Tracer):
        self.node, self.tracer = node, tracer

    def __getattr__(self, name: str) -> Attribute:
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        frame = sys._getframe(1)
        at = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
        if at is not None and at.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(at.argval))
        raise TraceError("a proxy cannot be iterated over: how many items there are is not known while tracing; "
                         "take them by index, or unpack them into names")

    def __bool__(self) -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow: take cresset.where() "
                         "or cresset.cond(), or trace with make_fx() on examples")

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing: its value is not known")

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    @classmethod
    def __cresset_function__(cls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An op function was given a proxy among its arguments."""
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda leaf: found.append(leaf) if isinstance(leaf, Proxy) else None)
        return found[0].tracer.create_proxy("call_function", function, args, kwargs)


class Attribute(Proxy):
    """x.name: a method as soon as it is called, else a node of its own."""

    def __init__(self, root: Proxy, name: str):
        self.root, self.attribute, self.tracer = root, name, root.tracer
        self._made: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._made is None:
            self._made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attribute), {}).node
        return self._made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attribute, (self.root, *args), kwargs)


_BINARY = "add sub mul floordiv truediv mod pow matmul and_ or_ xor lshift rshift".split()
_OTHERS = "eq ne lt le gt ge getitem neg pos invert abs".split()


def _record_operator(function: Any, swapped: bool = False) -> Any:
    def record(self: Proxy, *args: Any) -> Proxy:
        given = (args[0], self) if swapped else (self, *args)
        return self.tracer.create_proxy("call_function", function, given, {})
    return record


for _name in (*_BINARY, *_OTHERS):
    _function, _word = getattr(operator, _name), _name.strip("_")
    setattr(Proxy, f"__{_word}__", _record_operator(_function))
    if _name in _BINARY:
        setattr(Proxy, f"__r{_word}__", _record_operator(_function, swapped=True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # which __eq__ took away

_active = threading.local()
_patching = threading.Lock()
_plain_call, _plain_getattr = Module.__call__, Module.__getattr__


def _traced_call(self: Module, *args: Any, **kwargs: Any) -> Any:
    tracer = getattr(_active, "tracer", None)
    if tracer is None:
        return _plain_call(self, *args, **kwargs)
    return tracer.call_module(self, lambda *a, **k: _plain_call(self, *a, **k), args, kwargs)


def _traced_getattr(self: Module, name: str) -> Any:
    value = _plain_getattr(self, name)
    tracer = getattr(_active, "tracer", None)
    return value if tracer is None or not isinstance(value, Parameter) else tracer._parameter(value)


class _Patched:
    """Modules ask the thread's tracer, as long as there is one anywhere."""
    count = 0

    def __init__(self, tracer: Tracer):
        self.tracer = tracer

    def __enter__(self) -> None:
        self.before, _active.tracer = getattr(_active, "tracer", None), self.tracer
        with _patching:
            _Patched.count += 1
            Module.__call__, Module.__getattr__ = _traced_call, _traced_getattr

    def __exit__(self, *error: Any) -> None:
        _active.tracer = self.before
        with _patching:
            _Patched.count -= 1
            if not _Patched.count:
                Module.__call__, Module.__getattr__ = _plain_call, _plain_getattr


class Tracer:
    """trace(root) gives the graph. is_leaf_module says which modules stay calls; those of cresset.nn do."""

    def __init__(self) -> None:
        self.graph, self.root = Graph(), Module()
        self.constants: dict[str, Any] = {}
        self._proxies: dict[str, Proxy] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        # unused module_qualified_name: for those who decide by it
        return type(m).__module__.startswith("cresset.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError(f"a {type(mod).__name__} is called that is no submodule of the module traced: assign it to an "
                        "attribute")

    def call_module(self, m: Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = self.path_of_module(m)
        if self.is_leaf_module(m, name):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def create_node(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                    name: str | None = None) -> Node:
        return self.graph.create_node(kind, target, args, kwargs, name)

    def create_proxy(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                     name: str | None = None) -> Proxy:
        return self.proxy(self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name))

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_arg(self, a: Any) -> Any:
        """Values as nodes have them: proxies as nodes, tensors as attributes."""
        def one(leaf: Any) -> Any:
            if isinstance(leaf, Proxy):
                return leaf.node
            return self._attribute(leaf).node if isinstance(leaf, _C.Tensor) else leaf
        return map_aggregate(a, one)

    def _parameter(self, value: Any) -> Any:
        return self._attribute(value) if any(value is p for p in self.root.parameters()) else value

    def _attribute(self, tensor: Any) -> Proxy:
        held = (*self.root.named_parameters(), *self.root.named_buffers(), *self.constants.items())
        name = next((name for name, value in held if value is tensor), None)
        if name is None:
            name = f"_tensor_constant{len(self.constants)}"
            self.constants[name] = tensor
        if name not in self._proxies:
            self._proxies[name] = self.create_proxy("get_attr", name, (), {})
        return self._proxies[name]

    def _inputs(self, function: Any) -> list[Any]:
        args: list[Any] = []
        for p in inspect.signature(function).parameters.values():
            stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            if stars or p.kind is p.KEYWORD_ONLY:
                raise NotImplementedError(f"symbolic_trace(): parameter '{stars}{p.name}': graphs have positional "
                                          "inputs; trace a function that has its arguments by position")
            args.append(self.proxy(self.graph.placeholder(p.name, default_value=... if p.default is p.empty
                                                          else p.default)))
        return args

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        if concrete_args:
            raise NotImplementedError("concrete_args: trace functools.partial(function, ...) or a lambda instead")
        self.graph, self.constants, self._proxies = Graph(tracer_cls=type(self)), {}, {}
        self.root, function = (root, root.forward) if isinstance(root, Module) else (Module(), root)
        args = self._inputs(function)
        with _Patched(self):
            result = self.create_arg(function(*args))
        self.graph.output(result)
        return self.graph


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The graph of a function or module, by running it on proxies; modules of cresset.nn stay calls."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    held = {node.target: tracer.constants[node.target] if node.target in tracer.constants
            else _attribute(tracer.root, node.target)
            for node in graph.nodes if node.op in ("get_attr", "call_module")}
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    made = GraphModule(held, graph, name if name.isidentifier() else "GraphModule")
    made.training = tracer.root.training
    return made
