"""Helpers around the library: `cresset.utils._pytree`, nested values as lists of leaves; `cresset.utils.data`, batches
of datasets; `cresset.utils.checkpoint`, activations that are computed again; `cresset.utils.safetensors`, weights in
files."""
from cresset import _lazy
from cresset.utils import _pytree

__all__ = ["_pytree"]
__getattr__, __dir__ = _lazy.names(globals(), {}, {"checkpoint", "data", "dlpack", "hooks", "safetensors"})
