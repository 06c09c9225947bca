"""Dual numbers are not there: derivatives forwards are transposes of gradients (cresset.func.jvp), of a whole function,
so a tensor alone cannot carry a tangent. Every name of torch.autograd.forward_ad says so and what to use."""
from __future__ import annotations

from typing import Any, NoReturn

_NAMES = ("dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'cresset.autograd.forward_ad' has no attribute '{name}'")

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"forward_ad.{name}(): dual tensors are not supported; cresset.func.jvp(function, "
                                  "primals, tangents) gives a function's value and its derivative along the tangents, "
                                  "func.jacfwd and func.linearize build on it")
    return refused
