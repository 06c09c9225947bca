"""Exported programs: `.pt2` archives that PyTorch reads and writes, read, shown, run and written here.

    ep = cresset.export.load("model.pt2")
    print(ep)
    y = ep.module()(x)
    cresset.export.save(ep, "copy.pt2")
"""
from __future__ import annotations

import os
import tempfile
import warnings
from typing import IO, Any

from cresset import _C
from cresset._decomp import default_decompositions
from cresset.export._errors import SpecViolationError, UserError, UserErrorType
from cresset.export._log import get_ep_stats
from cresset.export._module import ExportedModule
from cresset.export._report import ExportReport, Problem
from cresset.export._trace import capture_pre_autograd_graph, export, export_for_training, patch_forward
from cresset.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims
from cresset.export.exported_program import CallSpec, ExportedProgram, ModuleCallEntry, ModuleCallSignature, ValueRanges
from cresset.utils._pytree import class_paths, register_dataclass, treespec_dumps
from cresset.export.graph_signature import ExportBackwardSignature, ExportGraphSignature
from cresset.export.unflatten import FlatArgsAdapter, InterpreterModule, UnflattenedModule, unflatten

__all__ = ["AdditionalInputs", "CallSpec", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportReport",
           "ExportedModule",
           "ExportedProgram", "FlatArgsAdapter", "InterpreterModule", "ModuleCallEntry", "ModuleCallSignature",
           "Problem",
           "ShapesCollection", "SpecViolationError", "UnflattenedModule", "UserError", "UserErrorType", "ValueRanges",
           "capture_pre_autograd_graph", "default_decompositions", "dims", "export", "export_for_training",
           "get_ep_stats", "load",
           "patch_forward", "register_dataclass", "save", "unflatten"]


def load(f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None,
         expected_opset_version: dict[str, int] | None = None,
         name: str | None = None, check: bool = False) -> ExportedProgram:
    """Reads an exported program from a path or a binary file object. Weights stay in the file, mapped, until they are
    used.

    extra_files: a dict whose keys name extra files of the archive; their texts are filled in.
    expected_opset_version: {"aten": N}; another version in the archive is an error.
    name: which program, where the archive has several. check: verify the checksum of every weight, too.
    """
    if isinstance(f, (str, os.PathLike)):
        program = _C._load_program(f, name, check)
    elif hasattr(f, "read"):
        program = _load_stream(f, name, check)
    else:
        raise TypeError(f"load() takes a path or a binary file object, not {type(f).__name__}")
    _check_opset(program, expected_opset_version)
    for old in ("serialized_state_dict.json", "serialized_constants.json"):
        if program._extra(old) is not None:
            warnings.warn(f"{old}: this layout of archives is deprecated; save the program again", stacklevel=2)
    for key in extra_files or ():
        content = program._extra("extra/" + key)
        if content is None:
            content = program._extra("extra_files/" + key)  # the older layout
        if content is not None:
            extra_files[key] = content.decode()
    return ExportedProgram(program)


def save(ep: ExportedProgram, f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None,
         opset_version: dict[str, int] | None = None,
         pickle_protocol: int = 2, absolute_paths: bool = False) -> None:
    """Writes an exported program as a `.pt2` archive that PyTorch 2.13 loads: to a path, atomically, or to a binary
    file object.

    extra_files: {name: text or bytes}, kept beside the program; `load` gives them back. opset_version: {"aten": N} and
    versions of other op sets, to be written instead of the program's own. pickle_protocol: PyTorch's argument; example
    inputs are pickled with protocol 2, which every reader knows, so only 2 to 5 are accepted and nothing depends on it.
    absolute_paths: stack traces name source files as they were found; else from the working folder or `site-packages`
    on, and files elsewhere by their names alone, so that an archive does not say where its author keeps things.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save() takes an ExportedProgram, not {type(ep).__name__}")
    if not isinstance(pickle_protocol, int) or not 2 <= pickle_protocol <= 5:
        raise ValueError(f"save(): pickle_protocol is a number from 2 to 5, not {pickle_protocol!r}")
    for spec in (ep.in_spec, ep.out_spec):
        treespec_dumps(spec)  # says which class has no name to be written under
    extra = {_extra_name(name): _extra_bytes(name, content) for name, content in (extra_files or {}).items()}
    if isinstance(f, (str, os.PathLike)):
        to: Any = os.fspath(f)
    elif callable(getattr(f, "write", None)):
        to = f.write
    else:
        raise TypeError(f"save() takes a path or a binary file object, not {type(f).__name__}")
    _C._save_program(ep._program, to, extra, dict(opset_version or {}), bool(absolute_paths), class_paths(ep.in_spec))


def _extra_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"save(): extra_files has names of files as keys, not {type(name).__name__}")
    return name


def _extra_bytes(name: str, content: Any) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise TypeError(f"save(): extra file '{name}' is a text or bytes, not {type(content).__name__}")


def _load_stream(f: IO[bytes], name: str | None, check: bool) -> Any:
    """The archive is mapped, so the bytes go to a file that has no name any more once it is open."""
    handle, path = tempfile.mkstemp(suffix=".pt2")
    try:
        with os.fdopen(handle, "wb") as copy:
            while chunk := f.read(1 << 20):
                if not isinstance(chunk, (bytes, bytearray, memoryview)):
                    raise TypeError("load(): the file object gives text; open it in binary mode")
                copy.write(chunk)
        return _C._load_program(path, name, check)
    finally:
        os.unlink(path)


def _check_opset(program: Any, expected: dict[str, int] | None) -> None:
    found = program._data()["opset"]
    for domain, version in (expected or {}).items():
        if domain == "aten" and found and found != version:
            raise ValueError(f"load(): the archive has version {found} of the op set '{domain}', expected {version}")
