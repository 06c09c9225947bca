"""Weights in the safetensors format: names and tensors, nothing that could run.

    from cresset.utils.safetensors import load_file, save_file
    save_file(module.state_dict(), "weights.safetensors", {"format": "pt"})
    module.load_state_dict(load_file("weights.safetensors"))

A file is written atomically and in one pass: a tensor whose elements do not lie in order is copied when its turn comes,
one at a time. What is loaded stays in the file, mapped, until it is used; writing to it changes this process's copy
alone.
"""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

import cresset
from cresset import _C

__all__ = ["load", "load_file", "metadata", "save", "save_file"]


def save_file(tensors: Mapping[str, cresset.Tensor], filename: str | os.PathLike[str],
              metadata: Mapping[str, str] | None = None) -> None:
    """Writes the tensors; names that share memory are written once each, because the format has no ties."""
    _C._save_safetensors(os.fspath(filename), dict(tensors), dict(metadata or {}))


def save(tensors: Mapping[str, cresset.Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of the file."""
    return _C._save_safetensors(None, dict(tensors), dict(metadata or {}))


def load_file(filename: str | os.PathLike[str], device: str | cresset.device = "cpu") -> dict[str, cresset.Tensor]:
    """The tensors by name, in the order of their data."""
    tensors = _C._load_safetensors(os.fspath(filename))[0]
    return tensors if str(device) == "cpu" else {name: tensor.to(device) for name, tensor in tensors.items()}


def load(data: bytes) -> dict[str, cresset.Tensor]:
    """The tensors of a file's bytes."""
    handle, path = tempfile.mkstemp(suffix=".safetensors")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return _C._load_safetensors(path)[0]
    finally:
        os.unlink(path)


def metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that were written beside the tensors."""
    return _C._load_safetensors(os.fspath(filename))[1]
