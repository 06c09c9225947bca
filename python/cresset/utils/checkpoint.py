"""Activation checkpointing. The function simply runs: what a backward pass computes again instead of keeping it is
decided when a graph is partitioned, not by the eager call, so that the numbers are the function's own either way."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
               context_fn: Callable[..., Any] | None = None,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True,
               preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs), inside the first of the two contexts that context_fn() gives."""
    # unused debug, early_stop, preserve_rng_state: about a second run, which there is none of here
    if use_reentrant and kwargs:
        raise ValueError(f"checkpoint(): the reentrant form takes no keyword arguments, got {', '.join(kwargs)}; use "
                         f"use_reentrant=False")
    if use_reentrant and context_fn is not None:
        raise ValueError("checkpoint(): context_fn needs use_reentrant=False")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint(): determinism_check is 'default' or 'none', not {determinism_check!r}")
    if context_fn is None:
        return function(*args, **kwargs)
    first, _ = context_fn()
    with first:
        return function(*args, **kwargs)


def checkpoint_sequential(functions: Iterable[Callable[..., Any]], segments: int, input: Any,
                          use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """The functions one after the other."""
    # unused use_reentrant: how a second run would be made, which there is none of here
    if unknown := set(kwargs) - {"preserve_rng_state"}:
        raise ValueError(f"checkpoint_sequential(): unknown keyword arguments: {', '.join(sorted(unknown))}")
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= len(chain):
        raise ValueError(f"checkpoint_sequential(): {len(chain)} functions make 1 to {len(chain)} segments, not "
                         f"{segments}")
    for function in chain:
        input = function(input)
    return input
