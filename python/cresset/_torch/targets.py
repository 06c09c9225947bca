"""What is known of an op that a torch.fx graph calls: asked of its schema once, however often it is called."""
from __future__ import annotations

import json
import operator
from typing import Any

import torch

from cresset import _C

_NAMED_LISTS = {"Tensor": "as_tensors", "int": "as_ints", "SymInt": "as_ints", "float": "as_floats", "bool": "as_bools",
                "Optional": "as_optional_tensors", "number": "as_ints"}


class Unsupported(Exception):
    """A node that no row of the op table carries out; the message says why."""


class Parameter:
    """`empty`: what an empty list is; `optional`: may entries of a list be None?"""

    def __init__(self, name: str = "", kind: str = ""):
        self.empty = next((key for word, key in _NAMED_LISTS.items() if word in kind), "as_ints")
        self.optional = "Optional" in kind
        self.positional = f'{{"name": {json.dumps(name)}, "kind": 1, "arg": '
        self.keyword = f'{{"name": {json.dumps(name)}, "kind": 2, "arg": '


_UNNAMED = Parameter()


class Target:
    def __init__(self, target: Any):
        self.target = target  # held: its identity stays its own
        self.name = _name_of(target)
        self.text = json.dumps(self.name)
        self.is_getitem = target is operator.getitem
        self.is_overload = isinstance(target, torch._ops.OpOverload)
        schema = target._schema if self.is_overload else None
        params = schema.arguments if schema is not None else []
        self.params = [Parameter(p.name, str(p.type)) for p in params]
        self.by_name = {p.name: mine for p, mine in zip(params, self.params)}
        self.nreturns = len(schema.returns) if schema is not None else None
        self.gives_list = schema is not None and len(schema.returns) == 1 and "List" in str(schema.returns[0].type)
        is_mutable = schema is not None and schema.is_mutable
        self.viewed: tuple[int, str] | None = None  # the parameter whose memory a result may share
        if schema is not None and not is_mutable and any(r.alias_info is not None for r in schema.returns):
            self.viewed = next(((i, p.name) for i, p in enumerate(params) if p.alias_info is not None), None)
        self.may_draw = self.is_overload and torch.Tag.nondeterministic_seeded in target.tags
        self.dropout = next(((i, p.name, p.default_value) for i, p in enumerate(params)
                             if p.name in ("dropout_p", "dropout")), None) if self.may_draw else None
        self.refusal: str | None = None
        if not self.is_getitem and not _is_in_table(self.name):
            self.refusal = f"{self.name} has no row"
        elif is_mutable:
            self.refusal = f"{self.name} writes to an argument"

    def parameter(self, at: int) -> Parameter:
        return self.params[at] if at < len(self.params) else _UNNAMED

    def named(self, name: str) -> Parameter:
        known = self.by_name.get(name)
        if known is None:
            known = self.by_name[name] = Parameter(name)
        return known


_known: dict[int, Target] = {}  # by identity: the hash of an overload is Python code


def of(target: Any) -> Target:
    known = _known.get(id(target))
    if known is None:
        known = _known[id(target)] = Target(target)
    return known


def _name_of(target: Any) -> str:
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


def has_row(target: Any) -> bool:
    """Does the op table have this op?"""
    return _is_in_table(_name_of(target))


def _is_in_table(name: str) -> bool:
    if name.startswith("torch.ops."):
        namespace, _, rest = name[len("torch.ops."):].partition(".")
        op, _, overload = rest.partition(".")
        name = f"{namespace}::{op}" + (f".{overload}" if overload not in ("", "default") else "")
    else:
        namespace, _, op = name.rpartition(".")
        name = f"{namespace}::{op}"
    try:
        _C._op(name, "overload")
        return True
    except Exception:
        return False
