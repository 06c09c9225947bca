"""What aot_function and aot_export_module share: modules as functions of their weights, tables of decompositions."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cresset._decomp import _BuiltIn, _function, _key
from cresset.autograd.function import _compiling


def module_state(mod: Any) -> dict[str, Any]:
    """Parameters, then buffers, under every name that they have."""
    return {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))}


def functional(mod: Any) -> Callable[..., Any]:
    """The module as a function of (weights, args, kwargs)."""
    from cresset.nn.utils.stateless import _reparametrize_module

    def call(state: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with _reparametrize_module(mod, state):
            return mod(*args, **kwargs)

    return call


def with_backwards(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """fn(*args, **kwargs), recorded so that it can be differentiated: each autograd.Function with its backward."""
    before, _compiling.on = getattr(_compiling, "on", False), True
    try:
        return fn(*args, **kwargs)
    finally:
        _compiling.on = before


def decomposition_table(decompositions: dict[Any, Any] | None) -> dict[Any, Any] | None:
    return None if not decompositions else {
        _key(op): None if isinstance(function, _BuiltIn) else _function(op, function)
        for op, function in decompositions.items()}
