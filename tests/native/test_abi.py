"""P4: callers of a library that get it wrong: sizes that only data decides, and a library that is closed while it is
used."""
import ctypes as c
import pathlib
import subprocess
import sys

import cresset
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import library  # noqa: E402


class Counting(cresset.nn.Module):
    """Counts its calls; how many rows it gives depends on the values."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", cresset.zeros(2))

    def forward(self, x):
        self.calls.add_(1)
        return cresset.nonzero(x), x + self.calls


class Selecting(cresset.nn.Module):
    def forward(self, x):
        return cresset.nonzero(x)


def compiled(module, path):
    cresset.aot_compile(cresset.export.export(module, (cresset.ones(2),)), options={"output_path": str(path)})
    return library.Model(path)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("abi")
    return compiled(Counting(), folder / "libcounting.so"), compiled(Selecting(), folder / "libselecting.so")


def run(model, capacity, noutputs):
    x, room, message = np.array([3.0, 4.0], "float32"), (c.c_int64 * 2)(7, 7), c.create_string_buffer(256)
    keep = []
    ins = (library.Value * 1)(model.value(x, keep))
    outs = (library.Value * noutputs)(*(library.Value(struct_size=c.sizeof(library.Value)) for _ in range(noutputs)))
    outs[0].data, outs[0].capacity = c.addressof(room), capacity
    before = bytes(outs)
    code = model.api.contents.run(model.instance, 0, ins, 1, outs, noutputs, message, 256)
    assert code == 0 or bytes(outs) == before
    for out in outs:
        model.api.contents.release(model.instance, out)
    return code, message.value.decode(), list(room)


def calls_of(model):
    out = (c.c_float * 2)()
    assert model.api.contents.get_state(model.instance, b"calls", out, 8, None, 0) == 0
    return out[0]


def test_room_that_may_not_do_is_refused_before_the_state_changes(models):
    model = models[0]
    for capacity in (0, 8, 15):
        code, message, room = run(model, capacity, 2)
        assert code == 3 and "leave data NULL, the library allocates" in message and room == [7, 7]
        assert calls_of(model) == 0
    np.testing.assert_array_equal(model(np.array([3.0, 4.0], "float32"))[0], [[0], [1]])
    assert calls_of(model) == 1


def test_room_is_compared_after_a_run_that_changes_nothing(models):
    code, message, room = run(models[1], 8, 1)
    assert code == 3 and "needs 16 bytes, but there is room for 8" in message and room == [7, 7]
    assert run(models[1], 16, 1)[::2] == (0, [0, 1])


CLOSED = """
import ctypes as c, sys, _ctypes
sys.path.insert(0, {here!r})
import library, numpy as np
x = np.ones(2, "float32")
for threads in (1, 3):
    model = library.Model({path!r}, threads)
    expected = model(x)[0]
    handle, model.library._handle = model.library._handle, None
    _ctypes.dlclose(handle)
    assert all((model(x)[0] == expected).all() for _ in range(3))
    api, instance, model.instance = model.api, model.instance, None
    api.contents.destroy(instance)          # and with that the library goes
assert {name!r} not in open("/proc/self/maps").read()
print("closed")
"""


def test_a_library_that_is_closed_stays_until_its_last_instance_ends(models, tmp_path):
    cresset.aot_compile(cresset.export.export(Selecting(), (cresset.ones(2),)),
                        options={"output_path": str(tmp_path / "libclosed.so")})
    code = CLOSED.format(here=str(HERE), path=str(tmp_path / "libclosed.so"), name="libclosed.so")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "closed\n", done.stderr
