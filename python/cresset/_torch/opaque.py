"""Ops of torch's that the table lacks (of torch.library, of vendors) in captured graphs: `cresset::opaque` nodes.

While a program is captured, what such an op gives is found on torch's meta device. The graph is then cut at these
nodes: torch carries them out itself, between parts that are code of ours, so gradients through them are torch's."""
from __future__ import annotations

from typing import Any

import torch

import cresset
from cresset import _C
from cresset._torch import crossing

OPAQUE = "cresset.opaque"
_Packet, _Overload, _Space = type(torch.ops.aten.add), type(torch.ops.aten.add.Tensor), type(torch.ops.aten)


# ---- names ----

def name_of(op: Any) -> str:
    """"ns::name" of a packet and of the default overload, else "ns::name.overload"."""
    if isinstance(op, _Packet):
        return str(op._qualified_op_name)
    return str(op.name())


def find(callable: Any) -> Any:
    """The packet or overload of torch.ops that a function in C belongs to; None: it belongs to none."""
    for ops in list(vars(torch.ops).values()):
        for packet in list(vars(ops).values()) if isinstance(ops, _Space) else ():
            if not isinstance(packet, _Packet):
                continue
            if packet._op is callable:
                return packet
            for overload in list(vars(packet).values()):
                if isinstance(overload, _Overload) and overload._op is callable:
                    return overload
    return None


def named(name: str) -> Any:
    """torch's op; None: there is none."""
    space, _, rest = name.partition("::")
    op, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, space), op)
        return getattr(packet, overload) if overload else packet
    except AttributeError:
        return None


def _overloads(op: Any) -> list[Any]:
    if isinstance(op, _Overload):
        return [op]
    return [o for o in (getattr(op, n) for n in op.overloads()) if not any(a.is_out for a in o._schema.arguments)]


def _is_followed(overload: Any) -> bool:
    """Does it write to nothing, and give tensors of its own?"""
    schema = overload._schema
    return (not schema.is_mutable and bool(schema.returns)
            and all(r.alias_info is None and str(r.type) == "Tensor" for r in schema.returns))


# ---- while a program is captured ----

def row(op: Any) -> tuple[str, Any] | None:
    """What the op is to a captured program; None: it ends a capture."""
    overloads = _overloads(op)
    if not overloads or not all(_is_followed(o) for o in overloads):
        return None
    name = name_of(op)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not _C._follows_opaque() or _C._autocast()[0]:  # nobody knows how torch casts what goes into it
            raise NotImplementedError(f"{name}, which only torch has, ends this capture")
        names = [""] * len(args) + list(kwargs)
        made = cresset.ops.cresset.opaque(name, names, [*args, *kwargs.values()])
        return made[0] if len(made) == 1 else tuple(made)
    return "op", call


def _each(value: Any, kind: type, change: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_each(item, kind, change) for item in value]
    return change(value) if isinstance(value, kind) else value


def _to_torch(value: Any) -> Any:
    """A tensor of ours on the same memory; a fake on the meta device."""
    if isinstance(value, cresset.dtype):
        return crossing.dtypes()[value]
    if not value._is_fake():
        return torch.from_dlpack(value.detach())
    sizes, strides = tuple(value.shape), tuple(value.stride())
    if not all(type(n) is int for n in (*sizes, *strides)):
        raise NotImplementedError("an op that only torch has is called on a tensor whose sizes are open")
    return torch.empty_strided(sizes, strides, dtype=crossing.dtypes()[value.dtype], device="meta")


def _to_ours(value: torch.Tensor) -> Any:
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        raise NotImplementedError(f"the op gives a {type(value).__name__} of layout {value.layout}")
    if not value.is_meta:
        return cresset.from_dlpack(value.detach().clone())
    ours = {theirs: own for own, theirs in crossing.dtypes().items()}[value.dtype]
    return cresset.empty_strided(tuple(value.shape), value.stride(), dtype=ours)


def host(name: str) -> Any:
    """A function that carries the op out on tensors of ours, fakes too; None: torch has no such op."""
    op = named(name)
    if op is None:
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        tensor = (cresset.Tensor, cresset.dtype)
        with torch.no_grad():
            made = op(*_each(args, tensor, _to_torch), **{k: _each(v, tensor, _to_torch) for k, v in kwargs.items()})
        return _each(made, torch.Tensor, _to_ours)
    return call


# ---- graphs with such nodes ----

def names_in(nodes: list[dict[str, Any]]) -> list[str]:
    """The ops that torch carries out, in order."""
    return [node["args"][0]["arg"]["as_string"] for node in nodes if node.get("target") == OPAQUE]


class Value(str):
    """The name of a value of the graph."""


def _plain(arg: Any) -> Any:
    """An argument of a node: a number, text, torch's dtype, a Value, or a list of such."""
    (kind, value), = arg.items()
    if kind == "as_list":
        return [_plain(item) for item in value]
    if kind == "as_value":
        return Value(value)
    if kind == "as_scalar_type":
        return getattr(torch, value)
    if kind == "as_complex":
        return complex(*value)
    if kind == "as_none":
        return None
    if kind in ("as_int", "as_float", "as_bool", "as_string"):
        return value
    raise NotImplementedError(f"an op that only torch has gets an argument of kind {kind}")


def carry_out(op: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return op(*args, **kwargs)  # what is raised in here is the op's (running.is_failure)


class Call:
    """One node that torch carries out: reads values by name, gives its results by name."""

    def __init__(self, node: dict[str, Any]):
        target, names, args = (arg["arg"] for arg in node["args"])
        self.name = target["as_string"]
        self.op, self.quiet = named(self.name), node["no_grad"]
        self.names, self.args = [_plain(n) for n in names["as_list"]], _plain(args)
        self.results = [result["name"] for result in node["results"]]
        self.layouts = [(getattr(torch, m["dtype"]), tuple(m["sizes"]), tuple(m["strides"]))
                        for m in (result["meta"] for result in node["results"])]
        self.wants: list[bool] | None = None   # which results require grad

    def inputs(self) -> list[str]:
        return _values_in(self.args)

    def __call__(self, values: dict[str, Any]) -> None:
        given = _each(self.args, Value, values.__getitem__)
        args = [a for a, name in zip(given, self.names) if not name]
        kwargs = {name: a for a, name in zip(given, self.names) if name}
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.quiet):
            made = carry_out(self.op, args, kwargs)
        made = list(made) if isinstance(made, (tuple, list)) else [made]
        wants = [t.requires_grad for t in made]
        if self.wants is None:
            self.wants = wants
        if wants != self.wants or [_layout(t) for t in made] != self.layouts:
            raise RuntimeError(f"{self.name} gave something else than when the program was captured")
        values.update(zip(self.results, made))


def _layout(t: Any) -> Any:
    plain = type(t) is torch.Tensor and t.layout is torch.strided
    return (t.dtype, tuple(t.shape), t.stride()) if plain else None


def _values_in(arg: Any) -> list[str]:
    if isinstance(arg, list):
        return [name for item in arg for name in _values_in(item)]
    return [arg] if isinstance(arg, Value) else []
