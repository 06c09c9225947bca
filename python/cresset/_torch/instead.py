"""What stands in for functions of torch's while a program is captured: read as if the program had called it."""
from __future__ import annotations

from typing import Any

import torch


class Context:
    """ctx of an autograd.Function whose backward nobody will ask for."""

    def __init__(self) -> None:
        self.to_save: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        for tensor in tensors:
            if not (tensor is None or isinstance(tensor, torch.Tensor)):
                raise TypeError("save_for_forward expects all arguments to be tensors or None")

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.to_save

    @property
    def needs_input_grad(self) -> int:
        return id(self)  # it tells what is not guarded where nothing is recorded; id() ends the capture


def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """autograd.Function.apply() where no gradient is recorded."""
    ctx = Context()
    with torch.no_grad():
        if cls.setup_context is torch.autograd.Function.setup_context:
            output = cls.forward(ctx, *args, **kwargs)
        elif kwargs or len(args) != cls.forward.__code__.co_argcount:
            return id(ctx)  # torch binds them; id() ends the capture
        else:
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
        if type(output) is not tuple:
            return _fresh(ctx, args, output)
        return tuple(_fresh(ctx, args, item) for item in output)


def enter_autocast(self: Any) -> Any:
    """Autocast is off where a program is captured: `with autocast(enabled=False)` changes nothing."""
    return id(self) if self._enabled else self  # id() ends the capture


def exit_autocast(self: Any, *raised: Any) -> bool:  # unused raised: nothing is held back
    return False


def _fresh(ctx: Context, args: tuple[Any, ...], output: Any) -> Any:
    """An argument that is given back is another tensor, on the same memory."""
    if isinstance(output, torch.Tensor) and not any(output is tensor for tensor in ctx.dirty_tensors):
        if any(output is arg for arg in args):
            return output.view_as(output)
    return output
