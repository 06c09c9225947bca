"""`compiled_autograd`, under the name that PyTorch has it: refused, with what there is instead."""
from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["enable"]


def enable(compiler_fn: Any, dynamic: bool = True, ignore_active_disable_ctx: bool = True) -> NoReturn:
    """The tape's backward is not captured as one graph at run time."""
    raise NotImplementedError(
        f"compiled_autograd.enable({compiler_fn!r}): a backward pass that is captured while it runs is not there. The "
        "backward of a compiled call is compiled together with it (backend='native'), hooks and what lies between such "
        "calls run as they are; a whole step, forward and backward, is one graph by cresset.func.grad or aot_function")
