"""A graph as PyTorch's users know it: nodes with `op`, `target`, `args`, `kwargs`, `users` and `meta["val"]`.

The graph itself names values, not nodes, and cannot be edited from Python; this is a picture of it. A call with several
results is followed by `getitem` nodes, a subgraph is preceded by a `get_attr` node, and a value that a mutating call
left in an argument is shown as that argument, as in torch.fx.
"""
from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from cresset import _C

_OPERATORS = set("add sub mul floordiv truediv mod pow neg pos eq ne lt le gt ge and_ or_ not_ xor lshift rshift "
                 "getitem".split())


class Node:
    """One step: `op` is placeholder, call_function, get_attr or output."""

    def __init__(self, graph: Graph, op: str, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 meta: dict[str, Any]):
        self.graph, self.op, self.name, self.target, self.args, self.kwargs, self.meta = (graph, op, name, target,
                args, kwargs, meta)
        self.users: dict[Node, None] = {}
        for used in self.all_input_nodes:
            used.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        found: dict[Node, None] = {}
        _visit((self.args, self.kwargs), found)
        return list(found)

    @property
    def next(self) -> Node | None:
        at = self.graph._order[self.name] + 1
        return self.graph._nodes[at] if at < len(self.graph._nodes) else None

    @property
    def prev(self) -> Node | None:
        at = self.graph._order[self.name]
        return self.graph._nodes[at - 1] if at else None

    @property
    def stack_trace(self) -> str | None:
        return self.meta.get("stack_trace")

    def format_node(self) -> str:
        if self.op == "output":
            return f"return {_shown(self.args[0], '')}"
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={_target_text(self.target)}]"
        return head if self.op in ("placeholder",
                "get_attr") else f"{head}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"

    def __repr__(self) -> str:
        return self.name


class Graph:
    """`nodes` in order; `raw` is the graph that runs."""

    def __init__(self, raw: _C.Graph):
        self.raw = raw
        self._nodes: list[Node] = []
        self._order: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        data = raw.nodes
        self._taken = {result["name"] for node in data for result in node["results"] if not result["hidden"]}
        for node in data:
            _BUILDERS[node["kind"]](self, node)

    @property
    def nodes(self) -> list[Node]:
        return self._nodes

    def output_node(self) -> Node:
        return self._nodes[-1]

    def find_nodes(self, *, op: str, target: Any = None) -> list[Node]:
        return [node for node in self._nodes if node.op == op and (target is None or node.target == target)]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __str__(self) -> str:
        return "\n".join(["graph():", *("    " + node.format_node() for node in self._nodes)])

    __repr__ = __str__

    def print_tabular(self) -> None:
        rows = [("opcode", "name", "target", "args", "kwargs")] + [(n.op, n.name, _target_text(n.target),
                _shown(n.args, ""), _shown(n.kwargs, "")) for n in self._nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            print("  ".join([*(text.ljust(width) for text, width in zip(row, widths)), row[4]]))

    def _add(self, op: str, name: str, target: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None,
             meta: dict[str, Any] | None = None) -> Node:
        node = Node(self, op, name, target, args, kwargs or {}, meta or {})
        self._order[name] = len(self._nodes)
        self._nodes.append(node)
        return node

    def _name(self, wish: str) -> str:
        name, number = wish, 0
        while name in self._taken or name in self._order:
            number += 1
            name = f"{wish}_{number}"
        return name

    def _argument(self, argument: dict[str, Any]) -> Any:
        (kind, value), = argument.items()
        return _ARGUMENTS[kind](self, value)

    def _placeholder(self, node: dict[str, Any]) -> None:
        name = node["results"][0]["name"]
        self._values[name] = self._add("placeholder", name, name, meta={"val": self.raw._value(name)})

    def _get_attr(self, node: dict[str, Any]) -> None:
        name = node["results"][0]["name"]
        self._values[name] = self._add("get_attr", name, node["target"], meta={"val": self.raw._value(name)})

    def _call(self, node: dict[str, Any]) -> None:
        given = [(a["name"], a["kind"], self._argument(a["arg"])) for a in node["args"]]
        args = tuple(value for _, kind, value in given if kind == "positional")
        kwargs = {name: value for name, kind, value in given if kind != "positional"}
        results = [result for result in node["results"] if not result["hidden"]]
        target = _target(node["target"])
        single = len(results) == 1 and not results[0]["listed"] and not (node["target"].startswith("higher_order.")
                and results[0]["name"].startswith("getitem"))
        meta = _origin_meta(node["origin"])
        if single:
            name = results[0]["name"]
            self._values[name] = self._add("call_function", name, target, args, kwargs,
                                           {"val": self.raw._value(name), **meta})
        else:
            values = tuple(self.raw._value(result["name"]) for result in results)
            call = self._add("call_function", node["name"] or self._name(node["target"].split(".")[1]), target, args,
                             kwargs, {"val": values if results else None, **meta})
            for i, (result, value) in enumerate(zip(results, values)):
                self._values[result["name"]] = self._add("call_function", result["name"], operator.getitem, (call, i),
                                                         meta={"val": value, **meta})
        self._settle(node, {name: value for name, _, value in given})

    def _settle(self, node: dict[str, Any], given: dict[str, Any]) -> None:
        """Hidden results are the written arguments."""
        for result in node["results"]:
            if result["hidden"]:
                written = given.get(result["writes"])
                self._values[result["name"]] = (
                    written if isinstance(written, Node) else self._values.get(result.get("of")))

    def _output(self, node: dict[str, Any]) -> None:
        results = tuple(self._argument(argument) for argument in node["args"])
        self._add("output", "output", "output", (results,))


_BUILDERS = {"placeholder": Graph._placeholder, "get_attr": Graph._get_attr, "call": Graph._call,
             "output": Graph._output}
_ARGUMENTS = {
    "as_none": lambda graph, value: None,
    "as_value": lambda graph, value: graph._values[value],
    "as_complex": lambda graph, value: complex(*value),
    "as_scalar_type": lambda graph, value: getattr(_C, value),
    "as_layout": lambda graph, value: getattr(_C, value),
    "as_memory_format": lambda graph, value: getattr(_C, value),
    "as_device": lambda graph, value: _C.device(value),
    "as_graph": lambda graph, value: graph._values.get("@" + value) or graph._values.setdefault("@" + value,
            graph._add("get_attr", graph._name(value), value)),
    "as_list": lambda graph, value: [graph._argument(item) for item in value],
    **dict.fromkeys(("as_int", "as_float", "as_bool", "as_string"), lambda graph, value: value),
}


def _visit(value: Any, found: dict[Node, None]) -> None:
    if isinstance(value, Node):
        found[value] = None
    elif isinstance(value, (tuple, list)):
        for item in value:
            _visit(item, found)
    elif isinstance(value, dict):
        _visit(list(value.values()), found)


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


def _target(text: str) -> Any:
    """The function that a call names: an op of cresset.ops, a function of `operator`, or the name alone."""
    namespace, name, *overload = text.split(".")
    if namespace == "_operator" and name in _OPERATORS:
        return getattr(operator, name)
    try:
        return getattr(_C._packet(namespace, name), overload[0] if overload else "default")
    except (AttributeError, KeyError):
        return OpaqueTarget(text)


def _target_text(target: Any) -> str:
    if isinstance(target, str):
        return target
    if callable(target) and getattr(target, "__module__", None) == "_operator":
        return "operator." + target.__name__
    text = str(target)
    return text if isinstance(target, OpaqueTarget) or text.startswith("<") else "cresset.ops." + text


def _origin_meta(origin: list[str | None]) -> dict[str, Any]:
    stack_trace, module_stack, source_fn = origin
    meta: dict[str, Any] = {}
    if stack_trace:
        meta["stack_trace"] = stack_trace
    if module_stack:  # "key,path,type;key,path,type"
        entries = (entry.split(",", 2) for entry in module_stack.split(";"))
        meta["nn_module_stack"] = {entry[0]: (entry[1], entry[2]) for entry in entries if len(entry) == 3}
    if source_fn:
        meta["torch_fn"] = tuple(source_fn.split(";"))
    return meta


class GraphModule:
    """The lifted graph with its subgraphs as attributes; called with every placeholder's value, it gives the flat
    outputs."""

    def __init__(self, raw: _C.Graph, text: str = ""):
        self._raw, self._text = raw, text
        self._graph: Graph | None = None
        self._subgraphs = {name: GraphModule(sub) for name, sub in raw._subgraphs()}
        self.meta: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            self._graph = Graph(self._raw)
        return self._graph

    @property
    def code(self) -> str:
        return self._text or str(self._raw)

    def print_readable(self, print_output: bool = True) -> str:
        if print_output:
            print(self.code)
        return self.code

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, GraphModule]]:
        yield prefix, self
        for name, sub in self._subgraphs.items():
            yield from sub.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[GraphModule]:
        return (module for _, module in self.named_modules())

    def __getattr__(self, name: str) -> GraphModule:
        subgraphs = self.__dict__.get("_subgraphs", {})
        if name in subgraphs:
            return subgraphs[name]
        raise AttributeError(f"the graph module has no attribute '{name}'; its subgraphs are: "
                             f"{', '.join(subgraphs) or 'none'}")

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        results = self._raw.run(*inputs)
        return results if isinstance(results, tuple) else (results,)

    forward = __call__

    def __repr__(self) -> str:
        return "GraphModule(" + "".join(f"\n  ({name}): GraphModule()" for name in self._subgraphs) + ("\n"
                if self._subgraphs else "") + ")"

    def __str__(self) -> str:
        return f"{self!r}\n\n{self.code}"
