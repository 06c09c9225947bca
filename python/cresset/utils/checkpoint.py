"""Activation checkpointing. The function simply runs: what a backward pass computes again instead of keeping it is decided
when a graph is partitioned, not by the eager call, so that the numbers are the function's own either way."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, context_fn: Callable[..., Any] | None = None,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs)."""
    if use_reentrant and kwargs:
        raise ValueError(f"checkpoint(): the reentrant form takes no keyword arguments, got {', '.join(kwargs)}; use use_reentrant=False")
    return function(*args, **kwargs)


def checkpoint_sequential(functions: Iterable[Callable[..., Any]], segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """The functions one after the other."""
    for function in (functions.children() if hasattr(functions, "children") else functions):
        input = function(input)
    return input
