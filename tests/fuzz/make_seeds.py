"""Writes the seeds of the fuzz targets zip, json, npy and safetensors: small files made by the real writers.

    ./dev exec python tests/fuzz/make_seeds.py     (needs torch, numpy and safetensors)

The seeds are checked in, and unit tests read some of them; run it again to add one.
"""
import io
import json
import pathlib
import sys
import zipfile

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
from checking import forget_paths  # noqa: E402

CORPUS = HERE / "corpus"


def save(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


class Pipe(io.RawIOBase):
    """Not seekable: zipfile then writes data descriptors."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


def zips():
    torch.manual_seed(0)
    exported = io.BytesIO()
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(3, 2),))
    forget_paths(program)
    torch.export.save(program, exported)
    save("zip", "export.pt2", exported.getvalue())
    with zipfile.ZipFile(exported) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                save("json", "pt2_" + name.split("/")[-1], archive.read(name))
    saved = io.BytesIO()
    torch.save({"a": torch.arange(4), "b": [1, "x"]}, saved)
    save("zip", "save.pt", saved.getvalue())
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("stored", "hello" * 10)
        archive.writestr("folder/", b"")
        archive.writestr("folder/café", b"\0" * 100, zipfile.ZIP_DEFLATED)
        with archive.open("wide", "w", force_zip64=True) as member:
            member.write(b"x" * 30)
        archive.comment = b"a comment"
    save("zip", "zipfile.zip", plain.getvalue())
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", "hi" * 100)
        archive.writestr(zipfile.ZipInfo("b"), b"stored")
    save("zip", "streamed.zip", bytes(pipe.data))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("inner.zip", plain.getvalue())
    save("zip", "nested.zip", inner.getvalue())
    # Recipes of the fuzz target itself: five members of all forms, without and with changed bytes.
    recipe = b"Z\xc5" + b"".join(bytes([12, form]) + b"twelve bytes" for form in (0, 1, 2, 4, 8))
    save("zip", "recipe", recipe)
    save("zip", "recipe_changed", recipe + b"\0\x1c\1" + b"\1\x30\xff")
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    save("zip", "empty.zip", empty.getvalue())


def texts():
    save("json", "small", b'{"a": [1, -2.5e-3, "x\\n\\u00e9\\ud83d\\ude00", null, true, false], "b": {}, "c": [], "d": '
         b'NaN}')
    save("json", "pytree", b'[1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null, '
         b'"context": null, "children_spec": []}]}]')
    save("json", "numbers", json.dumps([0, -1, 2**63 - 1, 2**64, 0.1, 1e300, 5e-324, float("inf")]).encode())
    save("json", "large_object", json.dumps({f"key{i}": i for i in range(40)}).encode())
    save("json", "indented", json.dumps({"a": {"b": [1, 2, {"c": None}]}}, indent=2).encode())
    save("json", "deep", b"[" * 200 + b"]" * 200)


def arrays():
    samples = {
        "f4": np.arange(6, dtype="<f4").reshape(2, 3), "f8_big": np.arange(3, dtype=">f8"),
        "bool": np.array([True, False]), "scalar": np.array(7, "i8"),
        "c16": np.array([1 + 2j]), "fortran": np.asfortranarray(np.arange(24, dtype="i2").reshape(2, 3, 4)),
        "empty": np.zeros((0, 5), "u1"),
        "f2": np.array([0.5], "f2"), "raw": np.zeros(2, "V2"),
    }
    for name, array in samples.items():
        file = io.BytesIO()
        np.save(file, array)
        save("npy", name + ".npy", file.getvalue())
    for name, array in (("object", np.array([{}], object)), ("record", np.zeros(1, [("a", "f4"), ("b", "i4")])),
                        ("text", np.array(["ab"]))):
        file = io.BytesIO()
        np.save(file, array)
        save("npy", name + ".npy", file.getvalue())
    file = io.BytesIO()
    np.lib.format.write_array(file, samples["f4"], version=(2, 0))
    save("npy", "version2.npy", file.getvalue())
    for name, writer in (("stored", np.savez), ("deflated", np.savez_compressed)):
        file = io.BytesIO()
        writer(file, x=samples["f4"], **{"y/z": samples["fortran"]})
        save("npy", name + ".npz", file.getvalue())


def tensors():
    save("safetensors", "numpy",
         safetensors.numpy.save({"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array([True]),
                                 "e": np.zeros((0, 2), "i8")}))
    save("safetensors", "torch", safetensors.torch.save(
        {"w": torch.ones(2, 2, dtype=torch.bfloat16), "s": torch.tensor(2.0),
         "q": torch.zeros(3).to(torch.float8_e4m3fn), "c": torch.ones(1, dtype=torch.complex64)},
        metadata={"format": "pt", "made by": "tests"}))
    save("safetensors", "empty", safetensors.numpy.save({}))


if __name__ == "__main__":
    zips()
    texts()
    arrays()
    tensors()
