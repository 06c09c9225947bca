"""How torch's tensors are read and made (src/python/torch_tensor.h): tells the extension module what it needs of torch.

Of private names each has a public substitute. CRESSET_TORCH_READER chooses how tensors are read: "layout" (where in
memory the numbers of a tensor lie is found out with tensors made here, and verified; the default), "table" (DLPack's C
functions), "public" (__dlpack__, and no private name of torch at all)."""
from __future__ import annotations

import os
from typing import Any

import cresset
from cresset import _C

READERS = ("layout", "table", "public")
_DTYPES = ("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16 uint16 "
           "uint32 uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu").split()
_ready: list[str] = []  # the reader in use


def dtypes() -> dict[Any, Any]:
    """{our dtype: torch's}"""
    import torch
    return {getattr(cresset, name): getattr(torch, name) for name in _DTYPES if hasattr(torch, name)}


def _empty(private: bool) -> Any:
    import torch
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None) if private else None
    quick = getattr(guards, "_empty_strided_cpu", None)
    return quick or (lambda sizes, strides, dtype: torch.empty_strided(sizes, strides, dtype=dtype, device="cpu"))


def set_reader(name: str) -> str:
    """Uses this way of reading, or the next that works here; returns which one it is."""
    import torch
    if name not in READERS:
        raise ValueError(f"CRESSET_TORCH_READER is {name!r}; it can be {', '.join(READERS)}")
    table = None if name == "public" else getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    _C._torch_setup(torch.Tensor, torch.nn.Parameter, table, _empty(name != "public"), dtypes())
    _ready[:] = ["table" if table is not None else "public"]
    if name == "layout":
        from cresset._torch import layout
        if layout.use():
            _ready[:] = ["layout"]
    return _ready[0]


def allows_private() -> bool:
    """May private names of torch be used, where they are?"""
    return prepare() != "public"


def prepare() -> str:
    """Once, when torch is first used."""
    return _ready[0] if _ready else set_reader(os.environ.get("CRESSET_TORCH_READER") or "layout")
