"""A torch.fx graph of aten ops as a cresset.Graph.

Nodes are written as the JSON of an exported program, and read by the archive reader: ops, arguments and metas are
understood in one place (src/export/pt2_graph.c). Tensors that the graph module holds become inputs, the last ones."""
from __future__ import annotations

import json
import operator
from typing import Any, Iterable

import torch
from torch import fx

from cresset import _C

_DTYPE_NUMBERS = {name: number for number, name in enumerate(
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16".split(), 1)}
_DTYPE_NUMBERS.update({name: number for number, name in enumerate(
    "uint16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu uint32 uint64".split(), 28)})
DTYPES = {getattr(torch, name): number for name, number in _DTYPE_NUMBERS.items() if hasattr(torch, name)}
_FORMATS = {torch.contiguous_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3, torch.preserve_format: 4}
_STRIDED = 7
_CPU = {"type": "cpu", "index": None}
_NAMED_LISTS = {"Tensor": "as_tensors", "int": "as_ints", "SymInt": "as_ints", "float": "as_floats", "bool": "as_bools",
                "Optional": "as_optional_tensors", "number": "as_ints"}
_SYM_KINDS = ((torch.SymInt, "sym_int"), (torch.SymFloat, "sym_float"), (torch.SymBool, "sym_bool"))


class Unsupported(Exception):
    """A node that no row of the op table carries out; the message says why."""


def _sym_kind(value: Any) -> str | None:
    for cls, kind in _SYM_KINDS:
        if isinstance(value, cls):
            return kind
    return None


def target_name(target: Any) -> str:
    """The op's name in archives."""
    if isinstance(target, torch._ops.OpOverload):
        return "torch.ops." + str(target)
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", str(target))
    if module in ("_operator", "math"):
        return f"{module}.{name}"
    if module.startswith("torch") and name.startswith(("sym_", "_sym_")):
        return f"torch.{name}"
    return f"{module}.{name}"


_known: dict[Any, bool] = {}


def has_row(target: Any) -> bool:
    """Does the op table have this op?"""
    known = _known.get(target)
    if known is None:
        name = target_name(target)
        if name.startswith("torch.ops."):
            namespace, _, rest = name[len("torch.ops."):].partition(".")
            op, _, overload = rest.partition(".")
            name = f"{namespace}::{op}" + (f".{overload}" if overload not in ("", "default") else "")
        else:
            namespace, _, op = name.rpartition(".")
            name = f"{namespace}::{op}"
        try:
            _C._op(name, "overload")
            known = True
        except Exception:
            known = False
        _known[target] = known
    return known


def check(node: fx.Node) -> None:
    """Raises Unsupported when no row can carry it out."""
    if node.target is operator.getitem:
        return
    if not has_row(node.target):
        raise Unsupported(f"{target_name(node.target)} has no row")
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
        raise Unsupported(f"{target_name(node.target)} writes to an argument")


class Importer:
    """Writes nodes of one graph module. `inputs` are nodes (placeholders, or values from before a part begins)."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.numbers: dict[str, dict[str, Any]] = {kind: {} for _, kind in _SYM_KINDS}
        self.nodes: list[Any] = []
        self.symbols: dict[str, Any] = {}
        self.texts: dict[Any, Any] = {}
        self.shape_env: Any = None
        self.parts: dict[fx.Node, dict[int, str]] = {}  # of a node with several results: the names of those used
        self.same: dict[fx.Node, str] = {}              # nodes that stand for a value with another name

    # ---- sizes ----

    def expression(self, value: Any) -> dict[str, Any]:
        node = value.node
        expr = node.expr
        known = self.texts.get(expr)
        if known is None:
            import sympy
            self.shape_env = node.shape_env or self.shape_env
            for symbol in expr.free_symbols:
                self.symbols[str(symbol)] = symbol
            known = self.texts[expr] = {"as_expr": {"expr_str": sympy.srepr(expr), "hint": None}}
        return known

    def dim(self, value: Any) -> dict[str, Any]:
        if type(value) is int:
            return {"as_int": value}
        if value.node.is_constant() or value.node.expr.is_number:
            return {"as_int": int(value.node.expr)}
        return self.expression(value)

    def ranges(self) -> dict[str, Any]:
        out = {}
        for name, symbol in self.symbols.items():
            found = self.shape_env.var_to_range.get(symbol) if self.shape_env is not None else None
            bounds: dict[str, Any] = {"min_val": None, "max_val": None}
            for key, bound in (("min_val", getattr(found, "lower", None)), ("max_val", getattr(found, "upper", None))):
                if getattr(bound, "is_Integer", False) and abs(int(bound)) < 2**62:
                    bounds[key] = int(bound)
            out[name] = {key: bound for key, bound in bounds.items() if bound is not None}
        return out

    # ---- values ----

    def meta(self, value: torch.Tensor) -> dict[str, Any]:
        if value.layout != torch.strided or value.device.type != "cpu" or value.dtype not in DTYPES:
            raise Unsupported(f"a {value.dtype} tensor on {value.device.type}, layout {value.layout}")
        if value.is_quantized or value.is_nested:
            raise Unsupported("a quantised or nested tensor")
        dim = self.dim
        return {"dtype": DTYPES[value.dtype], "sizes": [dim(d) for d in value.shape],
                "strides": [dim(d) for d in value.stride()], "storage_offset": {"as_int": 0}, "requires_grad": False,
                "device": _CPU, "layout": _STRIDED}

    def declare(self, name: str, value: Any) -> dict[str, Any]:
        """The value gets its row in the tables of names; returns how a result or an input names it."""
        if isinstance(value, torch.Tensor):
            self.tensors[name] = self.meta(value)
            return {"as_tensor": {"name": name}}
        kind = _sym_kind(value)
        if kind is None:
            kind = {bool: "sym_bool", int: "sym_int", float: "sym_float"}.get(type(value))
            if kind is None:
                raise Unsupported(f"a value of type {type(value).__name__}")
            self.numbers[kind][name] = {"as_" + kind[4:]: value}
        elif value.node.is_constant():
            self.numbers[kind][name] = {"as_" + kind[4:]: value.node.pytype(value)}
        else:
            self.numbers[kind][name] = self.expression(value)
        return {"as_" + kind: {"as_name": name}}

    def name_of(self, node: fx.Node) -> str:
        return self.same.get(node, node.name)

    # ---- arguments ----

    def argument(self, value: Any, kind: str = "") -> dict[str, Any]:
        """kind: the schema's type of it, where lists are empty."""
        if isinstance(value, fx.Node):
            meta = value.meta.get("val")
            if isinstance(meta, torch.Tensor):
                return {"as_tensor": {"name": self.name_of(value)}}
            sym = _sym_kind(meta) or {bool: "sym_bool", int: "sym_int", float: "sym_float"}.get(type(meta))
            if sym is None:
                raise Unsupported(f"an argument that is a {type(meta).__name__}")
            return {"as_" + sym: {"as_name": self.name_of(value)}}
        if value is None:
            return {"as_none": True}
        if type(value) is bool:
            return {"as_bool": value}
        if type(value) is int:
            return {"as_int": value}
        if type(value) is float:
            return {"as_float": value}
        if type(value) is complex:
            return {"as_complex": {"real": value.real, "imag": value.imag}}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, torch.dtype):
            if value not in DTYPES:
                raise Unsupported(f"dtype {value}")
            return {"as_scalar_type": DTYPES[value]}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": _FORMATS[value]}
        if isinstance(value, torch.layout):
            if value != torch.strided:
                raise Unsupported(f"layout {value}")
            return {"as_layout": _STRIDED}
        if isinstance(value, torch.device):
            if value.type != "cpu":
                raise Unsupported(f"device {value}")
            return {"as_device": _CPU}
        if isinstance(value, (list, tuple)):
            return self.listed(value, kind)
        raise Unsupported(f"an argument of type {type(value).__name__}")

    def listed(self, values: Any, kind: str) -> dict[str, Any]:
        items = [self.argument(v) for v in values]
        keys = {next(iter(item)) for item in items}
        if not items:
            return {next((key for name, key in _NAMED_LISTS.items() if name in kind), "as_ints"): []}
        if keys == {"as_tensor"}:
            if "Optional" in kind:
                return {"as_optional_tensors": items}
            return {"as_tensors": [item["as_tensor"] for item in items]}
        if keys == {"as_tensor", "as_none"} or keys == {"as_none"}:
            return {"as_optional_tensors": items}
        if keys == {"as_int"}:
            return {"as_ints": [item["as_int"] for item in items]}
        if keys == {"as_bool"}:
            return {"as_bools": [item["as_bool"] for item in items]}
        if keys <= {"as_float", "as_int"}:
            return {"as_floats": [float(next(iter(item.values()))) for item in items]}
        if keys <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [item.get("as_sym_int") or item for item in items]}
        if keys == {"as_string"}:
            return {"as_strings": [item["as_string"] for item in items]}
        raise Unsupported(f"a list of {', '.join(sorted(keys))}")

    # ---- nodes ----

    def results(self, node: fx.Node, value: Any, overload: Any) -> list[Any]:
        """How the node names what it gives: one entry for each return of the schema."""
        returns = overload._schema.returns if overload is not None else None
        if returns is not None and not returns:
            return []
        several = isinstance(value, (list, tuple))
        if not several:
            if value is None:
                raise Unsupported("a result that is None")
            return [self.declare(node.name, value)]
        names = self.parts.setdefault(node, {})
        for user in node.users:
            if user.target is operator.getitem and user.args[0] is node:
                index = user.args[1]
                names.setdefault(index, user.name)
                self.same[user] = names[index]
        entries = []
        for index, part in enumerate(value):
            if index in names and part is not None:
                entries.append(self.declare(names[index], part))
            elif part is None or isinstance(part, torch.Tensor):
                entries.append({"as_tensor": {"name": ""}})
            else:
                entries.append(self.declare(f"{node.name}_part{index}", part))
        if returns is not None and len(returns) == 1 and "List" in str(returns[0].type):
            return [{"as_tensors": [entry["as_tensor"] for entry in entries]}]
        return entries

    def call(self, node: fx.Node) -> None:
        """Raises Unsupported; then nothing was written."""
        target, value = node.target, node.meta.get("val")
        if target is operator.getitem and isinstance(node.args[0], fx.Node) and node.args[0] in self.parts:
            return  # a part of a result, named with it
        if value is None and "val" not in node.meta:
            raise Unsupported(f"{node.name} says nothing of its value")
        overload = target if isinstance(target, torch._ops.OpOverload) else None
        params = overload._schema.arguments if overload is not None else ()
        inputs = []
        for i, given in enumerate(node.args):
            name, kind = (params[i].name, str(params[i].type)) if i < len(params) else ("", "")
            inputs.append({"name": name, "arg": self.argument(given, kind), "kind": 1})
        kinds = {p.name: str(p.type) for p in params} if node.kwargs else {}
        for name, given in node.kwargs.items():
            inputs.append({"name": name, "arg": self.argument(given, kinds.get(name, "")), "kind": 2})
        outputs = self.results(node, value, overload)
        self.nodes.append({"target": target_name(target), "inputs": inputs, "outputs": outputs, "metadata": {}})

    def finish(self, inputs: list[Any], outputs: list[Any]) -> Any:
        """The graph. `inputs`: entries of declare(); `outputs`: nodes, numbers or None."""
        results = [self.argument(o) for o in outputs]
        graph = {"inputs": inputs, "outputs": results, "nodes": self.nodes, "tensor_values": self.tensors,
                 "sym_int_values": self.numbers["sym_int"], "sym_float_values": self.numbers["sym_float"],
                 "sym_bool_values": self.numbers["sym_bool"], "is_single_tensor_return": False,
                 "custom_obj_values": {}}
        return _C._graph_from_json(json.dumps({"range_constraints": self.ranges(), "graph": graph}))


def attribute(module: Any, path: str) -> Any:
    """What a get_attr node names."""
    for part in path.split("."):
        module = getattr(module, part)
    return module


def from_fx(gm: fx.GraphModule, example_inputs: Iterable[Any] | None = None) -> Any:
    """cresset.from_fx"""
    importer = Importer()
    given = list(example_inputs) if example_inputs is not None else []
    inputs, held, outputs = [], [], []
    try:
        for i, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder"):
            if "val" not in node.meta:
                if i >= len(given):
                    raise ValueError(f"from_fx(): nothing is known of input {node.name}: give example_inputs")
                node.meta["val"] = given[i]
            inputs.append(importer.declare(node.name, node.meta["val"]))
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                value = attribute(gm, node.target)
                if not isinstance(value, torch.Tensor):
                    raise Unsupported(f"attribute {node.target} is a {type(value).__name__}")
                node.meta.setdefault("val", value)
                held.append(importer.declare(node.name, value))
            elif node.op == "call_function":
                check(node)
                importer.call(node)
            elif node.op == "output":
                outputs = torch.utils._pytree.tree_leaves(node.args[0])
            elif node.op != "placeholder":
                raise Unsupported(f"{node.op} {node.target}: only graphs of aten ops can be read")
        return importer.finish(inputs + held, outputs)
    except Unsupported as error:
        raise NotImplementedError(f"from_fx(): {error}") from None
