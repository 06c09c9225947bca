"""N3: files of torch.save: tensors, parameters, state dicts and plain values, written here and there."""
import collections
import io
import pathlib
import warnings

import cresset
import pytest

try:
    import torch
except ImportError:
    torch = None

DTYPES = ("float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 bool uint16 uint32 "
          "uint64 complex32 float8_e4m3fn".split())
needs_torch = pytest.mark.skipif(torch is None, reason="exchanges files with PyTorch")


def plain(library):
    return {"none": None, "numbers": [1, -5, 2**40, -2**63, 1.5, True, 2 - 3j], "texts": ("snow ☃", "", b"\x00\xff"),
            "nested": [{"a": ({1, 2},)}],
            "ordered": collections.OrderedDict(b=1, a=2), "counter": collections.Counter(b=3, a=-1),
            7: library.Size([2, 3]), "dtype": library.float16, "device": library.device("cpu")}


def tensors(library):
    base = library.arange(12.0).reshape(3, 4)
    return {"base": base, "row": base[1], "transposed": base.t(), "expanded": library.ones(1, 3).expand(2, 3),
            "scalar": library.tensor(4), "empty": library.zeros(0, 3),
            "grad": library.ones(2, requires_grad=True), "parameter": library.nn.Parameter(library.zeros(2, 2)),
            "frozen": library.nn.Parameter(library.ones(1), requires_grad=False)}


def same(ours, theirs):
    assert (ours.tolist() == theirs.tolist() and tuple(ours.shape) == tuple(theirs.shape)
            and ours.stride() == theirs.stride())
    assert (str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
            and ours.storage_offset() == theirs.storage_offset())
    assert ours.requires_grad == theirs.requires_grad and type(ours).__name__ == type(theirs).__name__


@pytest.mark.parametrize("mmap", [None, True])
def test_round_trip(tmp_path, mmap):
    path = tmp_path / "ünïcode name.pt"
    values = {**plain(cresset), **tensors(cresset)}
    cresset.save(values, path)
    back = cresset.load(path, mmap=mmap)
    assert list(back) == list(values) and {k: back[k] for k in plain(cresset)} == plain(cresset)
    assert [type(back[k]) for k in ("ordered", "counter")] == [collections.OrderedDict, collections.Counter]
    for name, t in tensors(cresset).items():
        same(back[name], t)
    back["row"][0] = 99  # one storage, as it was
    assert back["base"][1, 0].item() == 99 == back["transposed"][0, 1].item()
    assert cresset.load(path)["base"][1, 0].item() == 4


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(tmp_path, name):
    t = cresset.tensor([0, 1, 1]).to(getattr(cresset, name)) if name != "complex32" else cresset.zeros(3,
            dtype=cresset.complex32)
    cresset.save(t, tmp_path / "t.pt")
    back = cresset.load(tmp_path / "t.pt")
    assert back.dtype is t.dtype and back.to(cresset.complex64).tolist() == t.to(cresset.complex64).tolist()


def test_file_objects():
    file = io.BytesIO()
    cresset.save([cresset.ones(2)], file)
    file.seek(0)
    assert cresset.load(file)[0].tolist() == [1, 1]
    with pytest.raises(ValueError, match="path"):
        cresset.load(file, mmap=True)


def test_a_state_dict(tmp_path):
    model, other = (cresset.nn.Sequential(cresset.nn.Linear(3, 2), cresset.nn.BatchNorm1d(2)) for _ in range(2))
    cresset.save(model.state_dict(), tmp_path / "m.pt")
    other.load_state_dict(cresset.load(tmp_path / "m.pt"))
    assert all(cresset.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))


def test_what_is_refused(tmp_path):
    path, looped = tmp_path / "x.pt", []
    looped.append(looped)
    for value, error, text in ((object(), TypeError, "builtins.object cannot be saved"),
                               (looped, ValueError, "contains itself"),
                               (cresset.nn.Linear(1, 1), TypeError, "state_dict")):
        with pytest.raises(error, match=text):
            cresset.save(value, path)
        assert not path.exists()
    with pytest.raises(FileNotFoundError):
        cresset.load(path)
    path.write_bytes(b"hello" * 100)
    with pytest.raises(ValueError):
        cresset.load(path)
    for arguments in ({"weights_only": False}, {"map_location": "cuda"}, {"pickle_module": pathlib},
                      {"encoding": "latin1"}):
        with pytest.raises(NotImplementedError):
            cresset.load(path, **arguments)


@needs_torch
def test_pytorch_reads_ours(tmp_path):
    cresset.save({**plain(cresset), **tensors(cresset)}, tmp_path / "ours.pt")
    back = torch.load(tmp_path / "ours.pt")  # its own restricted reader
    assert {k: back[k] for k in plain(torch)} == plain(torch)
    for name, t in tensors(torch).items():
        same(back[name], t)
    back["row"][0] = 99
    assert back["base"][1, 0] == 99
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in DTYPES:
            cresset.save(cresset.zeros(2, dtype=getattr(cresset, name)), tmp_path / "t.pt")
            assert torch.load(tmp_path / "t.pt").dtype == getattr(torch, name)


@needs_torch
def test_pytorchs_files_are_read(tmp_path):
    torch.save({**plain(torch), **tensors(torch)}, tmp_path / "theirs.pt")
    back = cresset.load(tmp_path / "theirs.pt")
    assert {k: back[k] for k in plain(cresset)} == plain(cresset) and type(back["counter"]) is collections.Counter
    for name, t in tensors(torch).items():
        same(back[name], t)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    torch.save(model.state_dict(), tmp_path / "m.pt")
    ours = cresset.nn.Sequential(cresset.nn.Conv2d(3, 4, 3), cresset.nn.BatchNorm2d(4))
    ours.load_state_dict(cresset.load(tmp_path / "m.pt"))
    x = torch.randn(2, 3, 5, 5)
    model.eval(), ours.eval()
    assert torch.allclose(torch.from_dlpack(ours(cresset.from_dlpack(x)).detach()), model(x).detach(), atol=1e-5)
    torch.save(model, tmp_path / "whole.pt")
    with pytest.raises(Exception, match="torch.nn.modules.container"):
        cresset.load(tmp_path / "whole.pt")
    cresset.save(ours.state_dict(), tmp_path / "ours.pt")
    model.load_state_dict(torch.load(tmp_path / "ours.pt"))
