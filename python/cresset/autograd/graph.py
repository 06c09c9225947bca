"""The graph behind grad_fn: nodes and edges, hooks on several tensors, and where saved tensors are kept.

    with graph.saved_tensors_hooks(pack, unpack):    # what nodes save goes through pack() and comes back by unpack()
        y = f(x)
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cresset import _C

__all__ = ["Node", "GradientEdge", "get_gradient_edge", "saved_tensors_hooks", "save_on_cpu",
           "disable_saved_tensors_hooks", "register_multi_grad_hook", "increment_version"]

Node = _C._Node


class GradientEdge(NamedTuple):
    """A place where a gradient enters the graph: stands for its tensor as a root or an input of backward and grad."""
    node: Any
    output_nr: int
    ownership_token: Any = None  # keeps a function's node alive, whose context alone would not


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of the tensor goes."""
    edge = _C._edge(tensor)
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients; "
                           "call requires_grad_() before it is used")
    return GradientEdge(*edge)


def increment_version(tensor: Any) -> None:
    """As if the tensor, or each of several, had been written to: for writes that only other code sees."""
    for each in (tensor,) if _C._is_tensor(tensor) else tensor:
        _C._increment_version(each)


# ---- saved tensors ----

_disabled = threading.local()


class saved_tensors_hooks:
    """Inside of the block every tensor that is saved for a derivative is what pack_hook(tensor) returns, and the
    derivative reads unpack_hook(of that)."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if reasons := getattr(_disabled, "reasons", None):
            raise RuntimeError(reasons[-1])
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *error: object) -> None:
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are moved to the CPU, and back where they were when they are read."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        # unused pin_memory, device_type: about copies from accelerators, of which there are none
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside of the block saved_tensors_hooks raises a RuntimeError with that message."""
    if _C._top_saved_hooks() is not None:
        raise RuntimeError(error_message)
    reasons = _disabled.__dict__.setdefault("reasons", [])
    reasons.append(error_message)
    try:
        yield
    finally:
        reasons.pop()


# ---- hooks on several tensors ----

class _Handles(tuple):
    def remove(self) -> None:
        for handle in self:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _when_all(tensors: Sequence[Any], fn: Callable[[Sequence[Any]], None]) -> list[Callable[[Any], None]]:
    nodes = [get_gradient_edge(t).node for t in tensors]
    edges = [get_gradient_edge(t) for t in tensors]  # hold the nodes
    walks: dict[int, tuple[list[Any], list[int]]] = {}

    def hook(i: int) -> Callable[[Any], None]:
        def inner(grad: Any) -> None:
            number = _C._walk_number()
            if number not in walks:
                walks[number] = [None] * len(edges), [sum(map(_C._will_run, nodes))]
            grads, left = walks[number]
            grads[i] = grad
            left[0] -= 1
            if not left[0]:
                del walks[number]
                fn(grads)
        return inner
    return [hook(i) for i in range(len(tensors))]


def _when_any(tensors: Sequence[Any], fn: Callable[[Any], None]) -> list[Callable[[Any], None]]:
    seen: set[int] = set()
    lock = threading.Lock()

    def inner(grad: Any) -> None:
        number = _C._walk_number()
        with lock:
            if number in seen:
                return
            seen.clear()
            seen.add(number)
        fn(grad)
    return [inner] * len(tensors)


def register_multi_grad_hook(tensors: Iterable[Any], fn: Callable[..., None], *, mode: str = "all") -> Any:
    """fn(grads) once the gradients of all tensors are there in a backward, None for those that get none; with
    mode="any" fn(grad) for the first of them."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    hooks = (_when_all if mode == "all" else _when_any)(tensors, fn)
    return _Handles(t.register_hook(hook) for t, hook in zip(tensors, hooks))
