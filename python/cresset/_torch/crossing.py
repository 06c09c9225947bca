"""How torch's tensors are read and made (src/python/torch_tensor.h): tells the extension module what it needs of torch.

Of private names each has a public substitute. CRESSET_TORCH_READER chooses how tensors are read: "layout" (where in
memory the numbers of a tensor lie is found out with tensors made here, and verified; the default), "table" (DLPack's C
functions), "public" (__dlpack__). CRESSET_TORCH_PRIVATE=0 turns all private names of torch off, as a torch without them
would be: tensors are read by __dlpack__, and everything else is asked by names that PyTorch documents."""
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


def allows_private() -> bool:
    """May names be used that PyTorch does not document?"""
    word = os.environ.get("CRESSET_TORCH_PRIVATE") or "1"
    if word not in ("0", "1"):
        raise ValueError(f"CRESSET_TORCH_PRIVATE is {word!r}; it can be 0 or 1")
    return word == "1"


def private(*path: str) -> Any:
    """torch.PATH, which PyTorch does not document; None: it has no such name, or none may be used."""
    import torch
    found: Any = torch if allows_private() else None
    for name in path:
        found = getattr(found, name, None)
    return found


def _empty(fast: bool) -> Any:
    import torch
    quick = private("_C", "_dynamo", "guards", "_empty_strided_cpu") if fast else None
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


def prepare() -> str:
    """Once, when torch is first used."""
    return _ready[0] if _ready else set_reader(os.environ.get("CRESSET_TORCH_READER") or
                                               ("layout" if allows_private() else "public"))
