"""Helpers around the library: `cresset.utils._pytree`, nested values as lists of leaves."""
from cresset.utils import _pytree

__all__ = ["_pytree"]
