"""Dual numbers: tensors that carry a tangent, the derivative forwards, through whatever is called on them.

    with forward_ad.dual_level():
        y = function(forward_ad.make_dual(x, tangent))
        value, derivative = forward_ad.unpack_dual(y)

Tangents are not computed beside every call: the tape records what is made of dual tensors, and unpack_dual() pushes the
tangents through it (derivatives forwards are transposes of gradients; cresset.func.jvp does the same for a function).
So dual tensors require grad inside of their level, and no_grad() there is an error instead of a lost tangent.
"""
from __future__ import annotations

import threading
from typing import Any, NamedTuple

from cresset import _C, _grad_mode, autograd, func
from cresset.autograd.function import transposing

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    primal: Any
    tangent: Any


class _Duals(func._Level):
    """An open level: what make_dual() was given, and the tangents."""

    def __init__(self) -> None:
        super().__init__()
        self.tangents: list[Any] = []

    def pulled(self, tensor: Any, seed: Any) -> list[Any]:
        """Gradients of the tensor for all that make_dual() made; None where it does not depend on them."""
        if not tensor.requires_grad or not self.entered:
            return []
        with transposing():
            return list(autograd.grad([tensor], self.entered, [seed], retain_graph=True, create_graph=True,
                                      allow_unused=True))


def _level() -> _Duals | None:
    return _grad_mode.open_levels.get(threading.get_ident())


def _checked(level: int | None) -> _Duals | None:
    found = _level()
    if level is not None and level > 0 and found is not None:
        raise RuntimeError(f"Invalid level given: {level}; there is one dual level, 0")
    return None if level is not None and level < 0 else found


def enter_dual_level() -> int:
    """Opens the level, whose number is 0: there is one at a time."""
    if _level() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment; cresset.func.jvp nests")
    duals = _Duals()
    duals.__enter__()
    _grad_mode.open_levels[threading.get_ident()] = duals
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level: what was made in it has no tangents any more."""
    duals = _level()
    if duals is None or (level is not None and level < 0):
        raise RuntimeError("Dual level must be a positive number: no level is open")
    if level is not None and level > 0:
        raise RuntimeError(f"Trying to exit a forward AD level that was not the last one that was created: {level}")
    del _grad_mode.open_levels[threading.get_ident()]
    duals.__exit__()


class dual_level:
    """A context manager; inside, tensors may be dual."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def _check(tensor: Any, what: str) -> None:
    if not _C._is_tensor(tensor):
        raise TypeError(f"make_dual(): the {what} must be a Tensor, not {type(tensor).__name__}")
    if not tensor.is_floating_point() and not tensor.is_complex():
        raise ValueError(f"Expected {what} to be floating point or complex, but got: {tensor.dtype}")


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with the numbers of `tensor` that carries the tangent as long as the level is open."""
    duals = _checked(level)
    if duals is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    _check(tensor, "primal")
    _check(tangent, "tangent")
    if tensor.shape != tangent.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original "
                           f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the given "
                           f"forward gradient is of size {list(tangent.shape)}.")
    if any(g is not None for g in duals.pulled(tensor, _C._function("ones_like")(tensor.detach()))):
        raise RuntimeError("Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
                           "level 0 is not supported.")
    entered = duals.enter(tensor, "make_dual()")
    duals.tangents.append(tangent)
    return _C._function("clone")(entered)  # no leaf: it may be written


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """(the tensor without its tangent, the tangent; None where it has none)."""
    duals = _checked(level)
    if not _C._is_tensor(tensor):
        raise TypeError(f"unpack_dual(): the argument must be a Tensor, not {type(tensor).__name__}")
    if duals is None or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    seed = _C._vmap_require(_C._function("ones_like")(tensor.detach()))  # a dummy: gradients are linear in it
    pairs = [(g, t) for g, t in zip(duals.pulled(tensor, seed), duals.tangents) if g is not None]
    if not pairs:
        return UnpackedDualTensor(tensor, None)
    graph, before = duals.needs([tensor, *duals.tangents]), len(duals.own)
    duals.own.append(seed)
    flowing = [(g, t) for g, t in pairs if g.requires_grad]
    tangent = autograd.grad([g for g, _ in flowing], [seed], [t.to(g.dtype) for g, t in flowing], retain_graph=True,
                            create_graph=graph, allow_unused=True)[0] if flowing else None
    made = duals.leave([tensor, _C._function("zeros_like")(tensor.detach()) if tangent is None else tangent])
    del duals.own[before:]
    return UnpackedDualTensor(*made)
