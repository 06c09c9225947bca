"""Variable, from when tensors had no gradients: Variable(data, requires_grad) is a tensor."""
from __future__ import annotations

from typing import Any

from cresset import _C

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return bool(_C._is_tensor(instance))


class Variable(metaclass=_VariableMeta):
    """A leaf with the numbers of the tensor, and without its history."""

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:  # type: ignore[misc]
        if data is None:
            data = _C._function("empty")(0)
        if not _C._is_tensor(data):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
