"""N2, P1: `cresset.utils.safetensors`: files that the format's other readers read, and the other way round."""
import json
import os

import cresset
import pytest
from cresset.utils import safetensors

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool",
          "complex64", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def some(dtype, *shape):
    count = 1
    for size in shape:
        count *= size
    return cresset.arange(count).reshape(shape).to(getattr(cresset, dtype))


def same(a, b):
    wide = lambda t: t.to(cresset.float32) if str(t.dtype).rpartition(".")[2].startswith("float8") else t
    return a.dtype == b.dtype and a.shape == b.shape and cresset.equal(wide(a), wide(b))


def test_round_trip_of_every_dtype(tmp_path):
    tensors = {f"{dtype}.{rank}": some(dtype, *range(2, 2 + rank)) for dtype in DTYPES for rank in range(4)}
    tensors["empty"] = cresset.zeros(0, 3)
    safetensors.save_file(tensors, tmp_path / "w.safetensors", {"format": "pt", "note": "grüße"})
    again = safetensors.load_file(tmp_path / "w.safetensors")
    assert set(again) == set(tensors) and all(same(again[name], tensor) for name, tensor in tensors.items())
    assert safetensors.metadata(tmp_path / "w.safetensors") == {"format": "pt", "note": "grüße"}
    data = (tmp_path / "w.safetensors").read_bytes()
    assert safetensors.save(tensors, {"format": "pt", "note": "grüße"}) == data
    assert all(same(tensor, tensors[name]) for name, tensor in safetensors.load(data).items())


def test_layout_of_the_file(tmp_path):
    """A header of JSON, padded so that data are aligned, widest elements first."""
    safetensors.save_file({"a": some("uint8", 3), "b": some("float64", 2), "c": some("float32", 1)},
                          tmp_path / "w.safetensors")
    data = (tmp_path / "w.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    assert (8 + length) % 64 == 0 and list(header) == ["b", "c", "a"]
    assert header["b"] == {"dtype": "F64", "shape": [2],
                           "data_offsets": [0, 16]} and len(data) == 8 + length + 16 + 4 + 3


def test_tensors_that_do_not_lie_in_order(tmp_path):
    x = some("float32", 6, 4)
    tensors = {"t": x.t(), "step": x[::2], "expanded": x[:1].expand(3, 4),
               "image": some("float32", 2, 3, 4, 4).to(memory_format=cresset.channels_last)}
    safetensors.save_file(tensors, tmp_path / "w.safetensors")
    again = safetensors.load_file(tmp_path / "w.safetensors")
    assert all(same(again[name], tensor) and again[name].is_contiguous() for name, tensor in tensors.items())


def test_loaded_tensors_are_the_processes_own(tmp_path):
    safetensors.save_file({"a": some("float32", 4)}, tmp_path / "w.safetensors")
    before = (tmp_path / "w.safetensors").read_bytes()
    safetensors.load_file(tmp_path / "w.safetensors")["a"].add_(1)
    assert (tmp_path / "w.safetensors").read_bytes() == before


def test_a_module_by_its_weights(tmp_path):
    first, second = cresset.nn.Linear(3, 2), cresset.nn.Linear(3, 2)
    safetensors.save_file(first.state_dict(), tmp_path / "w.safetensors")
    second.load_state_dict(safetensors.load_file(tmp_path / "w.safetensors"))
    x = cresset.randn(4, 3)
    assert cresset.equal(first(x), second(x))


def test_what_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    for tensors, metadata, error, text in (({"a": 3}, {}, TypeError, "'a' is a tensor, not int"),
                                           ({3: some("float32", 1)}, {}, TypeError, "name is a text"),
                                           ({"a": some("float32", 1)}, {"n": 3}, TypeError, "metadata are texts"),
                                           ({"a": cresset.zeros(2, dtype=cresset.complex128)}, {},
                                            cresset.UnsupportedError, "no complex128"),
                                           ({"__metadata__": some("float32", 1)}, {}, ValueError, "cannot be used")):
        with pytest.raises(error, match=text):
            safetensors.save_file(tensors, path, metadata)
    with pytest.raises(OSError, match="No such file"):
        safetensors.save_file({}, tmp_path / "missing" / "w.safetensors")
    with pytest.raises(OSError, match="directory"):
        safetensors.save_file({}, tmp_path)
    path.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{\"a\": 1}")
    with pytest.raises(ValueError, match="w.safetensors.*tensor 'a'"):
        safetensors.load_file(path)
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_the_formats_own_library_reads_and_writes_the_same(tmp_path):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    theirs = pytest.importorskip("safetensors.torch", reason="needs the safetensors package")
    tensors = {dtype: some(dtype, 2, 3) for dtype in ("float32", "float16", "bfloat16", "int64", "bool", "float64",
                                                      "uint8")}
    safetensors.save_file(tensors, tmp_path / "ours.safetensors", {"format": "pt"})
    found = theirs.load_file(tmp_path / "ours.safetensors")
    assert {name: str(tensor.dtype) for name, tensor in found.items()} == {name: f"torch.{name}" for name in tensors}
    assert all(torch.equal(found[name], torch.from_dlpack(tensor)) for name, tensor in tensors.items()
               if name != "bool")
    theirs.save_file(found, tmp_path / "theirs.safetensors", {"who": "them"})
    again = safetensors.load_file(tmp_path / "theirs.safetensors")
    assert all(same(again[name], tensor) for name, tensor in tensors.items())
    assert safetensors.metadata(tmp_path / "theirs.safetensors") == {"who": "them"}
