"""Helpers around the library: `cresset.utils._pytree`, nested values as lists of leaves; `cresset.utils.safetensors`,
weights in files."""
from cresset.utils import _pytree

__all__ = ["_pytree"]
