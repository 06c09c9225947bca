"""What stands in for functions of torch's while a program is captured: read as if the program had called it."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils._device import DeviceContext
from torch.utils.checkpoint import noop_context_fn

from cresset import _C
from cresset._torch import transforms


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


def mark(self: Any, name: str, args: str | None = None) -> None:
    """record_function.__init__(): a mark that nobody takes off, since nobody has set it; a graph has no parts that a
    profiler could see."""
    self.name, self.args, self.run_callbacks_on_exit, self.record = name, args, False, None
    self._cupti_monitor_external_id = None  # read by __exit__(), which is torch's own


def set_mark(self: Any) -> Any:
    """record_function.__enter__()."""
    self.run_callbacks_on_exit = False
    return self


def take_mark(self: Any, *exception: Any) -> None:  # unused exception: it goes on
    """record_function.__exit__()."""
    if self.run_callbacks_on_exit:
        _C._graph_break("a mark for profilers that was set for real is taken off")
    self.run_callbacks_on_exit = True


def number_of(x: Any) -> Any:
    """torch.optim's: the number in a tensor. Here the tensor stays one, with as many digits as a number of Python's."""
    if isinstance(x, torch.Tensor) and not x.is_complex():
        return x.to(torch.float64, copy=True)
    return x


def zero_grad(self: Any, set_to_none: bool = True) -> None:
    """Optimizer.zero_grad(), which torch hides from its own compiler; in a graph lists of gradients are as good as one
    after the other."""
    if not hasattr(self, "_zero_grad_profile_name"):
        _C._graph_break("an optimizer that was unpickled has its methods changed first")
    for group in self.param_groups:
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if set_to_none:
                p.grad = None
                continue
            if grad.grad_fn is not None:
                _C._graph_break("the history of a gradient is taken away")
            grad.requires_grad_(False)
            grad.zero_()


def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """Tensor.requires_grad_() where nothing changes by it, or nothing that anybody sees."""
    if not _C._note_leaf(self, requires_grad) and self.requires_grad != requires_grad:
        _C._graph_break("requires_grad_() changes a tensor")
    return self


def push_mode(mode: Any) -> None:
    """torch._C._push_on_torch_function_stack(): of modes that are known, and devices that tensors are on anyway."""
    if isinstance(mode, DeviceContext) and mode.device != torch.device("cpu"):
        _C._graph_break("a mode for another device is entered")
    _C._push_mode(mode)


def pop_mode() -> Any:
    return _C._pop_mode()


def has_modes() -> bool:
    return _C._count_modes() > 0


def count_modes() -> int:
    return _C._count_modes()


def mode_at(index: int) -> Any:
    return _C._mode_at(index)


def enter_device(self: Any) -> Any:
    """torch.device.__enter__()."""
    push_mode(DeviceContext(self))
    return self


def leave_device(self: Any, *exception: Any) -> None:  # unused self, exception: the mode is the last one; it goes on
    """torch.device.__exit__()."""
    _C._pop_mode()


def checkpoint(function: Any, *args: Any, use_reentrant: bool | None = None, context_fn: Any = noop_context_fn,
               determinism_check: str = "default",  # unused determinism_check: nothing is run twice
               debug: bool = False,  # unused debug: of the second run
               early_stop: bool = True,  # unused early_stop: of the second run
               preserve_rng_state: bool = True,  # unused preserve_rng_state: numbers are drawn once
               **kwargs: Any) -> Any:
    """checkpoint() in a graph, whose partition chooses what is kept and what is computed again. Without
    use_reentrant=False its results have a history only where a tensor among the arguments has one, which is not known
    here, and a context of the program's sees both runs: such calls are torch's."""
    if context_fn is not noop_context_fn or (use_reentrant is not False and torch.is_grad_enabled()):
        _C._graph_break("checkpoint() with a context_fn or without use_reentrant=False records gradients by itself")
    return function(*args, **kwargs)


def vjp(func: Any, *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """_vjp_with_argnums()."""
    results, aux, held = transforms.run_vjp(func, primals, argnums, has_aux)

    def wrapper(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if retain_graph is not True or create_graph is not None:
            _C._graph_break("a function of vjp() is told what to do with its graph")
        found = transforms.pull(held, cotangents)
        return found[0] if isinstance(argnums, int) else found
    return (results, wrapper, aux) if has_aux else (results, wrapper)


def linearize(func: Any, *primals: Any) -> Any:
    """linearize() where nothing is recorded around it: what torch traces has no history."""
    results, held = transforms.run_linearize(func, primals)

    def jvp_fn(*tangents: Any) -> Any:
        return transforms.push(held, tangents)
    return results, jvp_fn


def rows_of(_preallocate_and_copy: bool, argnums: Any, chunk_size: int | None, func: Any, has_aux: bool,
            *args: Any) -> Any:
    """What jacrev() gives."""
    if _preallocate_and_copy:
        _C._graph_break("jacrev() copies into memory of its own")
    return transforms.jacobian(func, argnums, has_aux, "jacrev", chunk_size, args)


def columns_of(argnums: Any, func: Any, has_aux: bool, randomness: str, *args: Any) -> Any:
    """What jacfwd() gives."""
    if argnums is None or randomness != "error":
        _C._graph_break("jacfwd() of all arguments at once, or of random numbers")
    return transforms.jacobian(func, argnums, has_aux, "jacfwd", None, args)


def _fresh(ctx: Context, args: tuple[Any, ...], output: Any) -> Any:
    """An argument that is given back is another tensor, on the same memory."""
    if isinstance(output, torch.Tensor) and not any(output is tensor for tensor in ctx.dirty_tensors):
        if any(output is arg for arg in args):
            return output.view_as(output)
    return output
