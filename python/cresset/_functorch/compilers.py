"""Compilers for aot_function by the names that PyTorch has for them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cresset

from .aot_autograd import aot_function, aot_module, native, nop, print_compile
from .partitioners import min_cut_rematerialization_partition

__all__ = ["memory_efficient_fusion", "native", "nop", "print_compile"]


def memory_efficient_fusion(fn: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    """A function or module as native code, forward and backward, that saves between them what costs least. Arguments:
    as aot_function's, which these are the defaults of."""
    options = {"fw_compiler": native, "partition_fn": min_cut_rematerialization_partition, **kwargs}
    return aot_module(fn, **options) if isinstance(fn, cresset.nn.Module) else aot_function(fn, **options)
