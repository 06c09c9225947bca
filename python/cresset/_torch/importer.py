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
from cresset._torch import targets
from cresset._torch.targets import Parameter, Unsupported

_DTYPE_NUMBERS = {name: number for number, name in enumerate(
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16".split(), 1)}
_DTYPE_NUMBERS.update({name: number for number, name in enumerate(
    "uint16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu uint32 uint64".split(), 28)})
DTYPES = {getattr(torch, name): number for name, number in _DTYPE_NUMBERS.items() if hasattr(torch, name)}
PLAIN = (torch.Tensor, torch.nn.Parameter, torch._subclasses.FakeTensor)
_FORMATS = {torch.contiguous_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3, torch.preserve_format: 4}
_STRIDED = 7
_CPU = '{"type": "cpu", "index": null}'
_META = (f'"storage_offset": {{"as_int": 0}}, "requires_grad": false, "device": {_CPU}, "layout": {_STRIDED}}}')
_SYM_KINDS = ((torch.SymInt, "sym_int"), (torch.SymFloat, "sym_float"), (torch.SymBool, "sym_bool"))
_NUMBER_KINDS = {bool: "sym_bool", int: "sym_int", float: "sym_float"}
_ANY = Parameter()
_UNUSED = '{"name": ""}'


def _sym_kind(value: Any) -> str | None:
    for cls, kind in _SYM_KINDS:
        if isinstance(value, cls):
            return kind
    return None


def _quoted(name: str) -> str:
    return f'"{name}"' if name.isidentifier() else json.dumps(name)


def is_tensor(value: Any) -> bool:
    return type(value) in PLAIN or isinstance(value, torch.Tensor)


def refusal(value: torch.Tensor) -> str | None:
    """Why a tensor's meta cannot be written."""
    if value.layout != torch.strided or value.device.type != "cpu" or value.dtype not in DTYPES:
        return f"a {value.dtype} tensor on {value.device.type}, layout {value.layout}"
    return "a quantised or nested tensor" if value.is_quantized or value.is_nested else None


class Importer:
    """Writes nodes of one graph module. Of a value with a name `named` has (key, text): how arguments name it."""

    def __init__(self, is_checked: bool = False) -> None:
        """is_checked: refusal() was asked of all values."""
        self.is_checked = is_checked
        self.tensors: dict[str, str] = {}
        self.numbers: dict[str, dict[str, str]] = {kind: {} for _, kind in _SYM_KINDS}
        self.nodes: list[str] = []
        self.symbols: dict[str, Any] = {}
        self.texts: dict[Any, str] = {}
        self.metas: dict[Any, str] = {}   # by dtype, sizes and strides, where all of them are ints
        self.shape_env: Any = None
        self.named: dict[fx.Node, tuple[str, str]] = {}
        self.parts: set[fx.Node] = set()  # those with several results

    # ---- sizes ----

    def expression(self, value: Any) -> str:
        node = value.node
        expr = node.expr
        known = self.texts.get(expr)
        if known is None:
            import sympy
            self.shape_env = node.shape_env or self.shape_env
            for symbol in expr.free_symbols:
                self.symbols[str(symbol)] = symbol
            known = self.texts[expr] = json.dumps({"as_expr": {"expr_str": sympy.srepr(expr), "hint": None}})
        return known

    def dim(self, value: Any) -> str:
        if type(value) is int:
            return f'{{"as_int": {value}}}'
        if value.node.is_constant() or value.node.expr.is_number:
            return f'{{"as_int": {int(value.node.expr)}}}'
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

    def meta(self, value: torch.Tensor) -> str:
        reason = None if self.is_checked else refusal(value)
        if reason is not None:
            raise Unsupported(reason)
        key = value.dtype, value.shape, value.stride()
        try:
            known = self.metas.get(key)
        except TypeError:  # symbols have no hash
            return self.written_meta(*key)
        if known is None:
            known = self.metas[key] = self.written_meta(*key)
        return known

    def written_meta(self, dtype: torch.dtype, sizes: Any, strides: Any) -> str:
        dim = self.dim
        return (f'{{"dtype": {DTYPES[dtype]}, "sizes": [{", ".join([dim(d) for d in sizes])}], '
                f'"strides": [{", ".join([dim(d) for d in strides])}], {_META}')

    def declare(self, name: str, value: Any) -> tuple[str, str]:
        """The value gets its row in the tables of names; returns how a result, an input or an argument names it."""
        if is_tensor(value):
            quoted = _quoted(name)
            self.tensors[quoted] = self.meta(value)
            return "as_tensor", f'{{"name": {quoted}}}'
        kind = _sym_kind(value)
        if kind is None:
            kind = _NUMBER_KINDS.get(type(value))
            if kind is None:
                raise Unsupported(f"a value of type {type(value).__name__}")
            text = json.dumps({"as_" + kind[4:]: value})
        elif value.node.is_constant():
            text = json.dumps({"as_" + kind[4:]: value.node.pytype(value)})
        else:
            text = self.expression(value)
        self.numbers[kind][_quoted(name)] = text
        return "as_" + kind, f'{{"as_name": {_quoted(name)}}}'

    def input(self, node: fx.Node, value: Any) -> str:
        """What the node gives comes from outside; returns the graph's input."""
        named = self.named[node] = self.declare(node.name, value)
        return '{"%s": %s}' % named

    # ---- arguments ----

    def argument(self, value: Any, parameter: Parameter = _ANY) -> tuple[str, str]:
        """(the kind's key, its text)"""
        write = _WRITERS.get(type(value))
        if write is not None:
            return write(self, value)
        if isinstance(value, (list, tuple)):
            return self.listed(value, parameter)
        for cls, write in _WRITERS.items():
            if isinstance(value, cls) and cls not in _EXACT:
                return write(self, value)
        raise Unsupported(f"an argument of type {type(value).__name__}")

    def node(self, value: fx.Node) -> tuple[str, str]:
        known = self.named.get(value)
        if known is not None:
            return known
        meta = value.meta.get("val")  # the reader says that it is not defined
        if is_tensor(meta):
            return "as_tensor", f'{{"name": {_quoted(value.name)}}}'
        kind = _sym_kind(meta) or _NUMBER_KINDS.get(type(meta))
        if kind is None:
            raise Unsupported(f"an argument that is a {type(meta).__name__}")
        return "as_" + kind, f'{{"as_name": {_quoted(value.name)}}}'

    def dtype(self, value: torch.dtype) -> tuple[str, str]:
        if value not in DTYPES:
            raise Unsupported(f"dtype {value}")
        return "as_scalar_type", str(DTYPES[value])

    def layout(self, value: torch.layout) -> tuple[str, str]:
        if value != torch.strided:
            raise Unsupported(f"layout {value}")
        return "as_layout", str(_STRIDED)

    def device(self, value: torch.device) -> tuple[str, str]:
        if value.type != "cpu":
            raise Unsupported(f"device {value}")
        return "as_device", _CPU

    def listed(self, values: Any, parameter: Parameter) -> tuple[str, str]:
        items = [self.argument(v) for v in values]
        keys = {key for key, _ in items}
        if not items:
            return parameter.empty, "[]"
        texts = [text for _, text in items]
        if keys <= {"as_tensor", "as_none"} and ("as_none" in keys or parameter.optional):
            key, texts = "as_optional_tensors", ['{"%s": %s}' % item for item in items]
        elif len(keys) == 1 and keys <= _LISTS.keys():
            key = _LISTS[next(iter(keys))]
        elif keys <= {"as_float", "as_int"}:
            key, texts = "as_floats", [json.dumps(float(v)) for v in values]
        elif keys <= {"as_int", "as_sym_int"}:
            key, texts = "as_sym_ints", [text if of == "as_sym_int" else f'{{"as_int": {text}}}' for of, text in items]
        else:
            raise Unsupported(f"a list of {', '.join(sorted(keys))}")
        return key, f"[{', '.join(texts)}]"

    # ---- nodes ----

    def results(self, node: fx.Node, value: Any, target: targets.Target) -> str:
        """How the node names what it gives: one entry for each return of the schema."""
        if target.nreturns == 0:
            return ""
        if not isinstance(value, (list, tuple)):
            if value is None:
                raise Unsupported("a result that is None")
            named = self.named[node] = self.declare(node.name, value)
            return '{"%s": %s}' % named
        self.parts.add(node)
        names: dict[Any, fx.Node] = {}
        users = [user for user in node.users if user.target is operator.getitem and user.args[0] is node]
        for user in users:
            names.setdefault(user.args[1], user)
        entries = []
        for index, part in enumerate(value):
            if index in names and part is not None:
                named = self.named[names[index]] = self.declare(names[index].name, part)
                entries.append(named)
            elif part is None or is_tensor(part):
                entries.append(("as_tensor", _UNUSED))
            else:
                entries.append(self.declare(f"{node.name}_part{index}", part))
        for user in users:  # of one result several may be made: they stand for the same
            if names[user.args[1]] in self.named:
                self.named[user] = self.named[names[user.args[1]]]
        if target.gives_list:
            return '{"as_tensors": [%s]}' % ", ".join([text for _, text in entries])
        return ", ".join(['{"%s": %s}' % entry for entry in entries])

    def call(self, node: fx.Node) -> None:
        """Raises Unsupported; then nothing was written."""
        target = targets.of(node.target)
        args = node.args
        if target.is_getitem and isinstance(args[0], fx.Node) and args[0] in self.parts:
            return  # a part of a result, named with it
        value = node.meta.get("val")
        if value is None and "val" not in node.meta:
            raise Unsupported(f"{node.name} says nothing of its value")
        inputs = []
        for i, given in enumerate(args):
            parameter = target.parameter(i)
            inputs.append('%s{"%s": %s}}' % (parameter.positional, *self.argument(given, parameter)))
        for name, given in node.kwargs.items():
            parameter = target.named(name)
            inputs.append('%s{"%s": %s}}' % (parameter.keyword, *self.argument(given, parameter)))
        self.nodes.append(f'{{"target": {target.text}, "inputs": [{", ".join(inputs)}], '
                          f'"outputs": [{self.results(node, value, target)}], "metadata": {{}}}}')

    def finish(self, inputs: list[str], outputs: list[Any]) -> Any:
        """The graph. `inputs`: of input(); `outputs`: nodes, numbers or None."""
        def table(rows: dict[str, str]) -> str:
            return "{" + ", ".join([f"{name}: {row}" for name, row in rows.items()]) + "}"
        results = ", ".join(['{"%s": %s}' % self.argument(o) for o in outputs])
        numbers = ", ".join([f'"{kind}_values": {table(rows)}' for kind, rows in self.numbers.items()])
        return _C._graph_from_json(
            f'{{"range_constraints": {json.dumps(self.ranges())}, "graph": {{"inputs": [{", ".join(inputs)}], '
            f'"outputs": [{results}], "nodes": [{", ".join(self.nodes)}], "tensor_values": {table(self.tensors)}, '
            f'{numbers}, "is_single_tensor_return": false, "custom_obj_values": {{}}}}}}')


# By the exact class, where that is quicker; of those not in _EXACT subclasses are written, too, the first that fits.
_WRITERS: dict[type, Any] = {
    fx.Node: Importer.node,
    type(None): lambda i, v: ("as_none", "true"),
    bool: lambda i, v: ("as_bool", "true" if v else "false"),
    int: lambda i, v: ("as_int", str(v)),
    float: lambda i, v: ("as_float", json.dumps(v)),
    complex: lambda i, v: ("as_complex", json.dumps({"real": v.real, "imag": v.imag})),
    str: lambda i, v: ("as_string", json.dumps(v)),
    torch.dtype: Importer.dtype,
    torch.memory_format: lambda i, v: ("as_memory_format", str(_FORMATS[v])),
    torch.layout: Importer.layout,
    torch.device: Importer.device,
}
_EXACT = (type(None), bool, int, float, complex)
_LISTS = {"as_tensor": "as_tensors", "as_int": "as_ints", "as_bool": "as_bools", "as_float": "as_floats",
          "as_sym_int": "as_sym_ints", "as_string": "as_strings"}


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
            inputs.append(importer.input(node, node.meta["val"]))
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                value = attribute(gm, node.target)
                if not isinstance(value, torch.Tensor):
                    raise Unsupported(f"attribute {node.target} is a {type(value).__name__}")
                node.meta.setdefault("val", value)
                held.append(importer.input(node, value))
            elif node.op == "call_function":
                reason = targets.of(node.target).refusal
                if reason is not None:
                    raise Unsupported(reason)
                importer.call(node)
            elif node.op == "output":
                outputs = torch.utils._pytree.tree_leaves(node.args[0])
            elif node.op != "placeholder":
                raise Unsupported(f"{node.op} {node.target}: only graphs of aten ops can be read")
        return importer.finish(inputs + held, outputs)
    except Unsupported as error:
        raise NotImplementedError(f"from_fx(): {error}") from None
