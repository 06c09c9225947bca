"""Derivatives of what ran: backward() adds gradients to leaves, grad() returns them.

    x = cresset.ones(3, requires_grad=True)
    (x * x).sum().backward()
    x.grad                                   # tensor([2., 2., 2.])

The tape is in cresset._C (src/autograd); here are the calling conventions of torch.autograd. docs/autograd.md.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cresset import _C, _lazy
from cresset._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from cresset.autograd.gradcheck import gradcheck, gradgradcheck  # now: the file has the function's name

__all__ = ["backward", "grad", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "Function", "function",
           "graph", "functional", "gradcheck", "gradgradcheck", "detect_anomaly", "set_detect_anomaly", "Variable",
           "set_multithreading_enabled"]
__getattr__, __dir__ = _lazy.names(globals(), {"Function": "function", "Variable": "variable", **dict.fromkeys(
    ("detect_anomaly", "set_detect_anomaly", "is_anomaly_enabled"), "anomaly_mode")},
                                       {"function", "graph", "anomaly_mode", "functional", "forward_ad", "variable"})


def _is_edge(value: Any) -> bool:
    """A graph.GradientEdge, without reading that file."""
    return isinstance(value, tuple) and len(value) > 1 and isinstance(value[0], _C._Node)


def _list(value: Any) -> list[Any]:
    return [value] if _C._is_tensor(value) or value is None or _is_edge(value) else list(value)


def _gradients(given: Any, n: int, name: str) -> list[Any]:
    grads = [None] * n if given is None else _list(given)
    if len(grads) != n:
        raise RuntimeError(f"got {n} tensors and {len(grads)} gradients; {name} has one for each, or None")
    return grads


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Any = None, inputs: Any = None) -> None:
    """Adds the gradients of `tensors` to the .grad of the leaves they depend on, or of `inputs` alone.

    grad_tensors: their own gradients; None (1) only for tensors of one element. retain_graph: what was saved stays for
    another backward. create_graph: the gradients can be differentiated again.
    """
    if grad_variables is not None:
        raise NotImplementedError("backward(grad_variables=...) is the old name of grad_tensors: use that")
    roots = _list(tensors)
    if inputs is not None and not (inputs := _list(inputs)):
        raise RuntimeError("backward(): inputs cannot be an empty list; leave it out for all leaves")
    keep = create_graph if retain_graph is None else bool(retain_graph)
    _C._backward(roots, _gradients(grad_tensors, len(roots), "grad_tensors"), inputs, False, keep, create_graph)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
         is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`; no .grad is touched.

    allow_unused: None for an input that the outputs do not depend on, instead of an error; materialize_grads: zeros.
    is_grads_batched: grad_outputs have one more dimension, the first, and so have the gradients (but for zeros).
    """
    if not only_inputs:
        warnings.warn("grad(only_inputs=False) is deprecated and ignored: use backward(), which adds to the .grad of "
                      "every leaf", FutureWarning, stacklevel=2)
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise ValueError("grad(): allow_unused=False and materialize_grads=True contradict each other")
    roots, wanted = _list(outputs), _list(inputs)
    if not wanted:
        raise RuntimeError("grad(): inputs cannot be empty; backward() is for all leaves")
    keep = create_graph if retain_graph is None else bool(retain_graph)
    seeds = _gradients(grad_outputs, len(roots), "grad_outputs")
    walk = _batched if is_grads_batched else _C._backward
    found = walk(roots, seeds, wanted, True, keep, create_graph)
    for i, (tensor, gradient) in enumerate(zip(wanted, found)):
        if gradient is None and not allow_unused:
            raise RuntimeError(f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                               "Set allow_unused=True if this is the desired behavior.")
        if gradient is None and materialize_grads and _is_edge(tensor):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge: its shape is "
                               "not known; give the tensor")
        if gradient is None and materialize_grads:
            found[i] = _C._function("zeros_like")(tensor, requires_grad=False)
    return tuple(found)


def _batched(roots: list[Any], seeds: list[Any], wanted: list[Any], *how: bool) -> list[Any]:
    """One walk for many gradients of the roots, along their first dimension."""
    from cresset import _vmap
    given = [s for s in seeds if s is not None]
    if not given:
        raise RuntimeError("grad(is_grads_batched=True) needs grad_outputs: their first dimension is the batch")
    flows: list[bool] = []

    def walk(*batch: Any) -> tuple[Any, ...]:
        each = iter(batch)
        found = _C._backward(roots, [None if s is None else next(each) for s in seeds], wanted, *how)
        flows[:] = [g is not None for g in found]
        return tuple(g for g in found if g is not None)
    made = iter(_vmap.vmap(walk)(*given))
    return [next(made) if flowed else None for flowed in flows]


def _backward_method(tensor: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
                     inputs: Sequence[Any] | Any = None) -> None:
    """Tensor.backward()."""
    backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


class set_multithreading_enabled:
    """PyTorch's switch for walks with one thread a device: at once, or for a with block. Here a walk runs on the thread
    that asked for it, whatever it says."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass
