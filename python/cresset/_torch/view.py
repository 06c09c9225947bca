"""A captured graph as a torch.fx.GraphModule of torch.ops: what backends written in Python get of PyTorch programs.

Its nodes are torch's, called on torch's tensors: what such a backend returns computes, writes, draws and records
gradients as PyTorch does."""
from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

import cresset
from cresset import _C
from cresset._torch import crossing, opaque
from cresset.fx.graph_module import GraphModule


def _target(target: Any) -> Any:
    """torch's function for what a node of ours calls."""
    name = _C._resolve(target)
    if name is not None:
        space, _, rest = name.partition("::")
        op, _, overload = rest.partition(".")
        try:
            return getattr(getattr(getattr(torch.ops, space), op), overload or "default")
        except AttributeError:
            raise NotImplementedError(f"the graph has {name}, which torch has no op for") from None
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if target is getattr or module in ("_operator", "math"):
        return target
    if isinstance(name, str) and name.startswith("sym_") and hasattr(torch, name):
        return getattr(torch, name)
    raise NotImplementedError(f"the graph has {name or target}, which torch.fx does not show")


class _Writer:
    def __init__(self, ours: GraphModule):
        self.ours, self.graph = ours, fx.Graph()
        self.root = torch.nn.Module()
        self.nodes: dict[Any, fx.Node] = {}
        self.theirs = dict(crossing.dtypes())
        self.begin = self.grad = torch.is_grad_enabled()

    def argument(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self.argument(v) for v in value)
        if isinstance(value, dict):
            return {k: self.argument(v) for k, v in value.items()}
        if value in self.nodes if isinstance(value, cresset.fx.Node) else False:
            return self.nodes[value]
        if isinstance(value, cresset.dtype):
            return self.theirs[value]
        if isinstance(value, (cresset.device, cresset.memory_format, cresset.layout)):
            from cresset._torch.capture import translate
            return translate(value)
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return value
        raise NotImplementedError(f"the graph has an argument of class {type(value).__name__}")

    def switch(self, grad: bool) -> None:
        if grad != self.grad:
            self.graph.call_function(torch._C._set_grad_enabled, (grad,))
            self.grad = grad

    def call(self, node: Any) -> tuple[Any, Any, Any]:
        """Function, arguments, keywords."""
        if _C._resolve(node.target) != "cresset::opaque":
            return _target(node.target), self.argument(node.args), self.argument(node.kwargs)
        name, names, given = node.args
        args = [self.argument(a) for a in given]
        return (opaque.named(name), tuple(a for a, keyword in zip(args, names) if not keyword),
                {keyword: a for a, keyword in zip(args, names) if keyword})

    def constant(self, node: Any) -> fx.Node:
        value = operator.attrgetter(node.target)(self.ours)
        if not isinstance(value, cresset.Tensor):
            raise NotImplementedError("the graph has a graph inside")
        name = f"_constant{len(self.nodes)}"
        self.root.register_buffer(name, torch.from_dlpack(value.detach()))
        return self.graph.get_attr(name)

    def write(self) -> fx.GraphModule:
        for node in self.ours.graph.nodes:
            if node.op == "placeholder":
                self.nodes[node] = self.graph.placeholder(node.name)
            elif node.op == "get_attr":
                self.nodes[node] = self.constant(node)
            elif node.op == "output":
                self.switch(self.begin)
                self.graph.output(self.argument(node.args[0]))
                continue
            else:
                if node.target is not operator.getitem:
                    self.switch(not node.meta.get("no_grad", False))
                made = self.graph.create_node("call_function", *self.call(node), name=node.name)
                made.meta.update((k, v) for k, v in node.meta.items() if k in ("stack_trace", "nn_module_stack"))
                self.nodes[node] = made
            _note_value(self.nodes[node], node.meta.get("val"), self.theirs)
        return fx.GraphModule(self.root, self.graph)


def _note_value(node: fx.Node, value: Any, dtypes: dict[Any, Any]) -> None:
    """meta["val"]: a tensor of the meta device, where its sizes are the same in every call."""
    if not isinstance(value, cresset.Tensor) or not all(type(n) is int for n in (*value.shape, *value.stride())):
        return
    node.meta["val"] = torch.empty_strided(tuple(value.shape), value.stride(), dtype=dtypes[value.dtype], device="meta")


def module_of(graph: Any) -> fx.GraphModule:
    """NotImplementedError: torch has no op for a node."""
    return _Writer(GraphModule.from_graph(graph)).write()
