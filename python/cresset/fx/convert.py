"""cresset.Graph to fx.Graph and back.

The graph that runs names values; here are nodes. A call with several results is followed by `getitem` nodes, a subgraph
is preceded by a `get_attr` node, and a value that a mutating call left in an argument is that argument.
"""
from __future__ import annotations

import operator
from typing import Any

from cresset import _C
from cresset.fx.graph import Graph
from cresset.fx.node import Node, target_named

__all__ = ["fill", "lower"]


class _Reader:
    """Puts the nodes of `raw` into an empty graph. callable: regions give tuples, as they do when they are called."""

    def __init__(self, graph: Graph, raw: _C.Graph, callable: bool):
        self.graph, self.raw, self.callable = graph, raw, callable
        self.values: dict[str, Any] = {}
        data = raw.nodes
        graph._names.update((result["name"], 0) for node in data for result in node["results"] if not result["hidden"])
        for node in data:
            getattr(self, "_" + node["kind"])(node)

    def argument(self, argument: dict[str, Any]) -> Any:
        (kind, value), = argument.items()
        return _ARGUMENTS[kind](self, value)

    def region(self, name: str) -> Node:
        if "@" + name not in self.values:
            self.values["@" + name] = self.graph._put("get_attr", self._name(name), name)
        return self.values["@" + name]

    def _name(self, wish: str) -> str:
        name, number = wish, 0
        while name in self.graph._names:
            number += 1
            name = f"{wish}_{number}"
        return name

    def _placeholder(self, node: dict[str, Any]) -> None:
        name = node["results"][0]["name"]
        self.values[name] = self.graph._put("placeholder", name, name, meta={"val": self.raw._value(name)})

    def _get_attr(self, node: dict[str, Any]) -> None:
        name = node["results"][0]["name"]
        self.values[name] = self.graph._put("get_attr", name, node["target"], meta={"val": self.raw._value(name)})

    def _call(self, node: dict[str, Any]) -> None:
        given = [(a["name"], a["kind"], self.argument(a["arg"])) for a in node["args"]]
        args = tuple(value for _, kind, value in given if kind == "positional")
        kwargs = {name: value for name, kind, value in given if kind != "positional"}
        results = [result for result in node["results"] if not result["hidden"]]
        target, meta = target_named(node["target"]), _origin_meta(node)
        if self.callable and node["data"]:
            target, args, kwargs = getattr, (given[0][2], "data"), {}
        if self._is_single(node["target"], results):
            name = results[0]["name"]
            self.values[name] = self.graph._put("call_function", name, target, args, kwargs,
                                                {"val": self.raw._value(name), **meta})
        else:
            values = tuple(self.raw._value(result["name"]) for result in results)
            call = self.graph._put("call_function", node["name"] or self._name(node["target"].split(".")[1]), target,
                                   args, kwargs, {"val": values if results else None, **meta})
            for i, (result, value) in enumerate(zip(results, values)):
                self.values[result["name"]] = self.graph._put(
                    "call_function", result["name"], operator.getitem, (call, i), meta={"val": value, **meta})
        self._settle(node, {name: value for name, _, value in given})

    def _is_single(self, target: str, results: list[dict[str, Any]]) -> bool:
        if len(results) != 1 or results[0]["listed"]:
            return False
        region = target.startswith("higher_order.")
        return not region or not (self.callable or results[0]["name"].startswith("getitem"))

    def _settle(self, node: dict[str, Any], given: dict[str, Any]) -> None:
        """Hidden results are the written arguments."""
        for result in node["results"]:
            if result["hidden"]:
                written = given.get(result["writes"])
                self.values[result["name"]] = (
                    written if isinstance(written, Node) else self.values.get(result.get("of")))

    def _output(self, node: dict[str, Any]) -> None:
        self.graph._put("output", "output", "output", (tuple(map(self.argument, node["args"])),))


_ARGUMENTS = {
    "as_none": lambda reader, value: None,
    "as_value": lambda reader, value: reader.values[value],
    "as_complex": lambda reader, value: complex(*value),
    "as_scalar_type": lambda reader, value: getattr(_C, value),
    "as_layout": lambda reader, value: getattr(_C, value),
    "as_memory_format": lambda reader, value: getattr(_C, value),
    "as_device": lambda reader, value: _C.device(value),
    "as_graph": lambda reader, value: reader.region(value),
    "as_list": lambda reader, value: [reader.argument(item) for item in value],
    **dict.fromkeys(("as_int", "as_float", "as_bool", "as_string"), lambda reader, value: value),
}


def _origin_meta(node: dict[str, Any]) -> dict[str, Any]:
    stack_trace, module_stack, source_fn = node["origin"]
    meta: dict[str, Any] = {}
    if stack_trace:
        meta["stack_trace"] = stack_trace
    if module_stack:  # "key,path,type;key,path,type"
        entries = (entry.split(",", 2) for entry in module_stack.split(";"))
        meta["nn_module_stack"] = {entry[0]: (entry[1], entry[2]) for entry in entries if len(entry) == 3}
    if source_fn:
        meta["torch_fn"] = tuple(source_fn.split(";"))
    if node["no_grad"]:
        meta["no_grad"] = True
    return meta


def fill(graph: Graph, raw: _C.Graph, callable: bool) -> None:
    _Reader(graph, raw, callable)


def lower(module: Any, example_inputs: tuple[Any, ...] = ()) -> _C.Graph:
    """The graph of the ops that the module's nodes call, on fakes like its inputs."""
    from cresset.fx.interpreter import Interpreter
    inputs = module.graph.find_nodes(op="placeholder")
    if example_inputs and len(example_inputs) != len(inputs):
        raise TypeError(f"to_graph(): {len(example_inputs)} example inputs; the graph has {len(inputs)}: "
                        f"{', '.join(node.name for node in inputs)}")
    examples = example_inputs or tuple(node.meta.get("val") for node in inputs)
    for node, example in zip(inputs, examples):
        if not isinstance(example, (_C.Tensor, _C.SymInt, _C.SymFloat, _C.SymBool)):
            raise TypeError(f"to_graph(): input '{node.name}' must be like a tensor or a symbolic number, not "
                            f"{type(example).__name__}: set node.meta['val'], or give to_graph(*example_inputs)")
    interpreter = Interpreter(module)
    return _C.record(lambda *args: interpreter.run(*args), examples, names=tuple(node.name for node in inputs))
