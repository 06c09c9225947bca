"""Graphs as Python: what `GraphModule.code` shows and recompile() runs."""
from __future__ import annotations

import cmath
import importlib
import keyword
import operator
import re
from typing import Any, NamedTuple

from cresset import _C
from cresset.fx.node import Node

__all__ = ["PythonCode", "python_code"]

_INFIX = {getattr(operator, name): sign for name, sign in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("truediv", "/"), ("mod", "%"), ("pow", "**"),
    ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("and_", "&"), ("or_", "|"),
    ("xor", "^"), ("lshift", "<<"), ("rshift", ">>"), ("matmul", "@"))}
_PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~", operator.not_: "not "}
_SHORT = {"bfloat16": "bf16", "bool": "b8"}


class PythonCode(NamedTuple):
    src: str
    globals: dict[str, Any]


class _Writer:
    def __init__(self, graph: Any, root: str):
        import cresset
        self.graph, self.root = graph, root
        self.globals: dict[str, Any] = {"cresset": cresset, "inf": float("inf"), "nan": float("nan"),
                                        "device": _C.device}
        self.names: dict[Node, str] = {}
        self.taken = {root, *self.globals}

    def local(self, node: Node) -> str:
        if node not in self.names:
            name = re.sub(r"\W", "_", node.name)
            while keyword.iskeyword(name) or name in self.taken or not name.isidentifier():
                name = f"_{name}"
            self.names[node] = name
            self.taken.add(name)
        return self.names[node]

    def held(self, value: Any, wish: str) -> str:
        """A global name for an object."""
        for name, known in self.globals.items():
            if known is value:
                return name
        wish = name = "_" + re.sub(r"\W", "_", wish).lstrip("_")
        number = 0
        while name in self.taken:
            number += 1
            name = f"{wish}_{number}"
        self.globals[name] = value
        self.taken.add(name)
        return name

    def function(self, target: Any) -> str:
        if isinstance(target, (_C.OpOverload, _C.OpOverloadPacket)):
            return f"cresset.ops.{target}"
        module, name = getattr(target, "__module__", None) or "", getattr(target, "__name__", type(target).__name__)
        if module == "cresset" or module.startswith("cresset."):
            if getattr(importlib.import_module(module), name, None) is target:
                return f"{module}.{name}"
        return self.held(target, f"{module}_{name}".strip("_"))

    def value(self, v: Any) -> str:
        if isinstance(v, Node):
            return self.local(v)
        if isinstance(v, tuple):
            if hasattr(v, "_fields"):
                return f"{self.held(type(v), type(v).__name__)}({', '.join(map(self.value, v))})"
            return "(" + ", ".join(map(self.value, v)) + ("," if len(v) == 1 else "") + ")"
        if isinstance(v, list):
            return "[" + ", ".join(map(self.value, v)) + "]"
        if isinstance(v, dict):
            return "{" + ", ".join(f"{self.value(key)}: {self.value(item)}" for key, item in v.items()) + "}"
        if isinstance(v, slice):
            return f"{self.held(slice, 'slice')}({self.value(v.start)}, {self.value(v.stop)}, {self.value(v.step)})"
        if v is None or type(v) in (int, float, bool, str, bytes, type(...)):
            return repr(v)
        if type(v) is complex and cmath.isfinite(v) and v.real:
            return repr(v)
        if isinstance(v, (_C.dtype, _C.layout, _C.memory_format)):
            return str(v)
        return repr(v) if isinstance(v, _C.device) else self.held(v, f"_{type(v).__name__}")

    def argument(self, node: Node, v: Any) -> str:
        """Regions are called with the graphs of the modules that show them."""
        if isinstance(v, Node) and v.op == "get_attr" and getattr(node.target, "namespace", "") == "higher_order":
            if hasattr(v._module(), "to_graph"):
                return f"{self.local(v)}.to_graph()"
        return self.value(v)

    def call(self, node: Node) -> str:
        args = [self.argument(node, v) for v in node.args]
        given = args + [f"{key} = {self.argument(node, v)}" for key, v in node.kwargs.items()]
        if node.op == "call_method":
            return f"{args[0]}.{node.target}({', '.join(given[1:])})"
        if node.op == "call_module":
            return f"{self.attribute(node.target)}({', '.join(given)})"
        if not node.kwargs and len(args) == 2 and node.target in _INFIX:
            return f"{args[0]} {_INFIX[node.target]} {args[1]}"
        if not node.kwargs and len(args) == 1 and node.target in _PREFIX:
            return f"{_PREFIX[node.target]}{args[0]}"
        if node.target is operator.getitem and len(args) == 2 and isinstance(node.args[0], Node):
            return f"{args[0]}[{args[1]}]"
        if node.target is getattr and len(args) == 2 and str(node.args[1]).isidentifier():
            return f"{args[0]}.{node.args[1]}"
        return f"{self.function(node.target)}({', '.join(given)})"

    def attribute(self, path: str) -> str:
        text = self.root
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f"{self.held(getattr, 'getattr')}({text}, {part!r})"
        return text


def type_of(value: Any) -> str | None:
    """A value as print_readable() notes it: "f32[2, s0]", "Sym(s0)"."""
    if isinstance(value, (_C.SymInt, _C.SymFloat, _C.SymBool)):
        return f"Sym({value})"
    if not isinstance(value, _C.Tensor):
        return None
    name = str(value.dtype).rpartition(".")[2]
    short = _SHORT.get(name) or re.sub(r"^([a-z])[a-z]*", r"\1", name)
    return f"{short}[{', '.join(map(str, value.shape))}]"


def _place(node: Node) -> str | None:
    lines = re.findall(r'File "(.*?)", line (\d+), in (.*)', node.stack_trace or "")
    return "# File: {}:{} in {}".format(*lines[-1]) if lines else None


def _last_uses(graph: Any) -> dict[Node, list[Node]]:
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(graph.nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
    return found


def python_code(graph: Any, root: str, verbose: bool) -> PythonCode:
    writer = _Writer(graph, root)
    parameters, lines, last, place = [root], [], _last_uses(graph), None
    for node in graph.nodes:
        note = type_of(node.meta.get("val")) if verbose else None
        name = writer.local(node) + (f': "{note}"' if note else "")
        if verbose and node.op.startswith("call") and _place(node) not in (None, place):
            place = _place(node)
            lines += ["", f"    {place}"]
        if node.op == "placeholder":
            stars = re.match(r"\**", node.target)[0]
            parameters.append(f"{stars}{name}" + (f" = {writer.value(node.args[0])}" if node.args else ""))
        elif node.op == "get_attr":
            lines.append(f"    {name} = {writer.attribute(node.target)}")
        elif node.op == "output":
            lines.append(f"    return {writer.value(node.args[0] if node.args else None)}")
        else:
            gone = " = ".join(writer.local(used) for used in (*last.get(node, ()), *([] if node.users else [node])))
            with_ = "with cresset.no_grad(): " if node.meta.get("no_grad") else ""
            lines.append(f"    {with_}{name} = {writer.call(node)}" + (f";  {gone} = None" if gone else ""))
    body = "\n".join(lines) or "    pass"
    return PythonCode(f"\n\n\ndef forward({', '.join(parameters)}):\n{body}\n", writer.globals)
