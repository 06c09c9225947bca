"""N3: NumPy, DLPack and the buffer protocol, both ways and without copying."""
# ruff: noqa: E501 - one case is one line
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import cresset
from agree import agree, lines

DTYPES = "float64 float32 float16 complex64 complex128 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_both_ways(name):
    array = np.arange(6).reshape(2, 3).astype(name)
    x = cresset.from_numpy(array)
    assert x.dtype is getattr(cresset, name) and x.tolist() == array.tolist()
    assert x.shape == (2, 3) and x.stride() == (3, 1)
    assert x.data_ptr() == array.ctypes.data
    back = x.numpy()
    assert back.dtype == array.dtype and np.shares_memory(back, array) and back.flags.writeable
    assert np.asarray(x).dtype == array.dtype and np.array(x, dtype="float64" if name[0] != "c"
                                                           else name).tolist() == array.tolist()
    assert np.shares_memory(np.from_dlpack(x), array)
    assert cresset.from_dlpack(array).data_ptr() == array.ctypes.data


def test_writes_are_seen_on_both_sides():
    array = np.zeros(3)
    x = cresset.from_numpy(array)
    x[1] = 5
    array[2] = 7
    assert array.tolist() == [0, 5, 7] == x.tolist()
    y = cresset.zeros(2)
    y.numpy()[0] = 3
    memoryview(y)[1] = 4
    assert y.tolist() == [3, 4]


@pytest.mark.parametrize("make", ["a.T", "a[:, ::2]", "a[1:, None]", "a[..., :0]", "np.broadcast_to(a[0], (3, 6))",
                                  "np.array(a[1, 2])", "a[:1].T"])
def test_strides(make):
    a = np.arange(24.).reshape(4, 6)
    array = eval(make, {"a": a, "np": np})
    x = cresset.from_numpy(array)
    assert x.shape == array.shape and np.array_equal(x.numpy(), array)
    assert x.dim() != 2 or np.array_equal(np.asarray(x.T), array.T)
    assert np.array_equal(np.asarray(x), array)
    if array.size:
        assert [s * 8 for n, s in zip(x.shape, x.stride()) if n > 1] == [s for n, s in zip(array.shape, array.strides)
                if n > 1]
    assert np.array_equal(np.from_dlpack(x), array)


REFUSED = lines("""
    t.from_numpy(np.arange(3)[::-1])
    t.from_numpy(np.array(['a']))
    t.from_numpy(np.array([None]))
    t.from_numpy(np.zeros(2, dtype='M8[s]'))
    t.from_numpy(np.array([1, 2], dtype='>i4'))
    t.from_numpy([1])
    t.ones(2, dtype=t.bfloat16).numpy()
    t.ones(2).requires_grad_().numpy()
    np.asarray(t.ones(2).requires_grad_())
    t.from_numpy(np.zeros(3, dtype=[('a', 'i1'), ('b', 'f4')])['b'])
""")


@pytest.mark.parametrize("line", REFUSED)
def test_refused(oracle, line):
    agree(oracle, line)


def test_force_copies_what_cannot_be_shared():
    x = cresset.tensor([1 + 2j], requires_grad=True)
    assert x.numpy(force=True).tolist() == [1 + 2j]


def test_read_only_memory_stays_read_only():
    array = np.arange(3.)
    array.flags.writeable = False
    x = cresset.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="read-only"):
        x[0] = 1
    assert memoryview(x).readonly and not x.numpy().flags.writeable and (x + 1).tolist() == [1, 2, 3]
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError):
        x.__dlpack__()  # the old capsule cannot say "read-only"
    with pytest.raises(TypeError):
        memoryview(x)[0] = 1
    frozen = cresset.frombuffer(b"\x01\x02", dtype=cresset.uint8)
    with pytest.raises(RuntimeError, match="read-only"):
        frozen.zero_()


def test_memory_lives_as_long_as_anyone_uses_it():
    array = np.arange(100000.)
    ref = weakref.ref(array)
    x = cresset.from_numpy(array)[10:]
    del array
    gc.collect()
    assert ref() is not None and x[0].item() == 10
    back = x.numpy()
    del x
    gc.collect()
    assert back[0] == 10
    del back
    gc.collect()
    assert ref() is None


def test_memory_may_be_freed_without_the_gil():
    """The last reference to a NumPy array goes away inside an op that runs without the GIL."""
    for _ in range(20):
        x = cresset.from_numpy(np.ones(100000))
        thread = threading.Thread(target=lambda: x.add(1))
        thread.start()
        thread.join()
        x.data = cresset.zeros(1)


def test_capsules_are_used_once():
    x = cresset.arange(3)
    capsule = x.__dlpack__()
    y = cresset.from_dlpack(capsule)
    assert y.data_ptr() == x.data_ptr() and y is not x
    with pytest.raises(ValueError, match="once"):
        cresset.from_dlpack(capsule)
    before = sys.getrefcount(x)
    for _ in range(100):
        x.__dlpack__(max_version=(1, 0))  # nobody takes these
    assert sys.getrefcount(x) == before
    assert x.__dlpack_device__() == (1, 0) and "versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert np.from_dlpack(x, copy=True).ctypes.data != x.data_ptr()
    with pytest.raises((TypeError, AttributeError)):
        cresset.from_dlpack(5)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        cresset.ones(1, requires_grad=True).__dlpack__()


def test_torch_both_ways(oracle):
    """The same expressions run against PyTorch's own exporter; without torch its place is taken by NumPy's."""
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None:
        peer = np.arange(6.).reshape(2, 3)
        assert cresset.from_dlpack(peer).tolist() == peer.tolist()
        return
    for name in [*DTYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2"]:
        theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
        ours = cresset.from_dlpack(theirs)
        assert ours.data_ptr() == theirs.data_ptr() and ours.dtype is getattr(cresset,
                name) and ours.stride() == theirs.stride()
        back = torch.from_dlpack(ours.T)
        assert (back.data_ptr() == theirs.data_ptr() and back.dtype == theirs.dtype
                and back.stride() == theirs.T.stride())
    assert cresset.as_tensor(torch.ones(2)).tolist() == [1, 1] and cresset.tensor(torch.ones(2)).tolist() == [1, 1]
    assert torch.from_numpy(cresset.ones(2).numpy()).tolist() == [1, 1]


def test_buffer_protocol():
    x = cresset.arange(6, dtype=cresset.int16).view(2, 3)
    view = memoryview(x)
    assert (view.shape, view.strides, view.format, view.itemsize, view.nbytes, view.readonly) == ((2, 3), (6, 2), "h",
            2, 12, False)
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]] and bytes(x) == b"".join(i.to_bytes(2, "little") for i in range(6))
    assert memoryview(x.T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert bytes(memoryview(x.T)) == b"".join(i.to_bytes(2, "little") for i in (0, 3, 1, 4, 2, 5))
    import struct
    with pytest.raises((BufferError, TypeError)):
        struct.pack_into("h", x.T, 0, 1)  # asks for contiguous memory
    struct.pack_into("h", x, 0, 9)
    assert x[0, 0].item() == 9
    assert memoryview(cresset.ones(0)).nbytes == 0 and memoryview(cresset.tensor(2.5)).tolist() == 2.5
    held = memoryview(cresset.ones(3))
    gc.collect()
    assert held.tolist() == [1, 1, 1]
    assert cresset.frombuffer(bytearray(b"\0\0\x80\x3f"), dtype=cresset.float32).tolist() == [1]


OPERATORS = lines("""
    t.ones(2) + np.float64(1), t.ones(2) * np.int32(2), t.ones(2) == np.float32(1)
    t.from_numpy(np.float32([1, 2])).numpy()
    np.sin(np.asarray(t.zeros(2))), np.add(t.ones(2).numpy(), 1)
""")


@pytest.mark.parametrize("line", OPERATORS)
def test_operators(oracle, line):
    agree(oracle, line)


OPERATORS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
             "//": lambda a, b: a // b, "%": lambda a, b: a % b,
             "**": lambda a, b: a ** b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
             ">=": lambda a, b: a >= b,
             "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "@": lambda a, b: a @ b}


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_take_arrays_on_either_side(sign):
    f, x, y = OPERATORS[sign], np.array([1.0, 2.0, 5.0]), np.array([2.0, 2.0, 3.0])
    for left, right in ((cresset.tensor(x), y), (x, cresset.tensor(y)), (cresset.tensor(x), y[::-1].copy()[::-1])):
        result = f(left, right)
        assert isinstance(result, cresset.Tensor) and result.tolist() == f(x, y).tolist()


def test_operators_with_arrays_in_place_and_refused():
    x = cresset.zeros(3)
    same = x
    x += np.array([1.0, 2.0, 3.0])
    assert x is same and x.tolist() == [1, 2, 3] and x.dtype is cresset.float32
    assert (x == np.array(["a", "b", "c"])) is False  # nothing that a tensor holds: Python's answer
    with pytest.raises(RuntimeError, match="broadcast"):
        x == np.arange(4.0)
    for result in (np.add(x, 1), np.sin(x), np.multiply(np.ones(3), x)):
        assert isinstance(result, cresset.Tensor)


def test_a_missing_file_is_file_not_found(tmp_path):
    for read in (cresset.export.load, cresset.aot_load):
        with pytest.raises(FileNotFoundError, match="nothing.pt2"):
            read(str(tmp_path / "nothing.pt2"))
        with pytest.raises(IsADirectoryError):
            read(str(tmp_path))
