"""torch._foreach_*() and numbers that are tensors, on fakes: what optimizers are written with.

torch._foreach_NAME(tensors, ...) is Tensor.NAME of each. Where an op takes a number (`alpha`, `value`) torch reads one
out of a tensor; in a graph the tensor stays one, and the argument that it scales is multiplied by it."""
from __future__ import annotations

from typing import Any

import cresset
from cresset import _C

PREFIX = "_foreach_"
# ops that scale an argument, the one at `at`, by a number `name`
SCALED = {"add": ("alpha", 1), "sub": ("alpha", 1), "addcdiv": ("value", 1), "addcmul": ("value", 1)}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, cresset.Tensor)


def scaled(ours: Any, name: str, at: int) -> Any:
    """An op of ours that takes a tensor of one element for the number `name`, too."""
    def call(*args: Any, **kwargs: Any) -> Any:
        number = kwargs.get(name)
        if not _is_tensor(number) or _C._is_exporting():
            return ours(*args, **kwargs)
        if cresset.is_grad_enabled() or len(args) <= at or not _is_tensor(args[at]) or number.numel() != 1:
            raise TypeError(f"a tensor for {name}, where it is not known what torch does with it")
        if number.is_complex() or not (args[at].is_floating_point() or args[at].is_complex()):
            raise TypeError(f"a tensor for {name} of integers")
        del kwargs[name]
        by = args[at].mul(number.reshape(())).to(args[at].dtype)
        return ours(*args[:at], by, *args[at + 1:], **kwargs)
    return call


def method(name: str) -> Any:
    """Tensor.NAME of ours; None: there is none."""
    ours = getattr(cresset.Tensor, name, None)
    if ours is None and name in ("maximum_", "minimum_"):
        plain = getattr(cresset.Tensor, name[:-1])
        return lambda x, other: x.copy_(plain(x, other))
    return scaled(ours, *SCALED[name.rstrip("_")]) if ours is not None and name.rstrip("_") in SCALED else ours


def _one_of(given: Any, i: int, n: int, numbers: bool) -> Any:
    """Item i of a list; of a tensor of numbers, where one may be given for them; anything else is for all."""
    if type(given) in (list, tuple):
        if len(given) != n:
            raise RuntimeError("lists of several lengths")
        return given[i]
    return given[i] if numbers and _is_tensor(given) and given.dim() == 1 else given


def each(name: str) -> Any:
    """torch._foreach_NAME on lists of fakes; None: Tensor has no such method."""
    plain = name[len(PREFIX):]
    ours = method(plain)
    if ours is None or type(getattr(cresset.Tensor, plain.rstrip("_"), None)) is not type(cresset.Tensor.relu):
        return None
    in_place, base = plain.endswith("_"), plain.rstrip("_")

    def call(*args: Any, **kwargs: Any) -> Any:
        given, named = list(args), dict(kwargs)
        if base in ("addcdiv", "addcmul") and len(given) > 3:
            named["value"] = given.pop(3)
        named = {"value" if key == "scalars" else key: value for key, value in named.items()}
        tensors = next((a for a in given if type(a) in (list, tuple)), None)
        if tensors is None or any(key not in ("alpha", "value", "weight", "ord") for key in named):
            raise TypeError(f"{name} with arguments that are not known here")
        n = len(tensors)
        made = [_call(ours, [_one_of(a, i, n, False) for a in given],
                      {key: _one_of(a, i, n, key == "value") for key, a in named.items()}) for i in range(n)]
        return tensors if in_place else tuple(made)
    return call


def _call(ours: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if _is_tensor(args[0]):
        return ours(*args, **kwargs)
    return cresset.pow(*args, **kwargs)  # of a number by tensors: the only one there is
