"""A program that was exported with inputs in one memory, compiled: callers may give it inputs that lie anyhow."""
import pytest

import cresset


class Writes(cresset.nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        return y * 1, y[1:] + x[:2]


class Reads(cresset.nn.Module):
    def forward(self, x, y):
        return x * 2 + y, y * 1, x.flip(0), y[1:] * 3


class ReadsBuffer(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", cresset.arange(3.0))

    def forward(self, x, y):
        return x + self.kept, y - self.kept


PLACES = {
    "overlapping": lambda a: (a[0:3], a[1:4]),
    "the other way": lambda a: (a[1:4], a[0:3]),
    "disjoint": lambda a: (a[0:3], a[4:7]),
    "the same": lambda a: (a[2:5], a[2:5]),
    "apart": lambda a: (a[0:3].clone(), a[3:6].clone()),
}


@pytest.mark.parametrize("recorded", PLACES)
@pytest.mark.parametrize("module", [Writes, Reads])
def test_inputs_lie_as_the_caller_has_them(module, recorded, tmp_path):
    program = cresset.export.export(module(), PLACES[recorded](cresset.arange(8.0)))
    path = cresset.aot_compile(program, options={"output_path": str(tmp_path / "model.so")})
    compiled = cresset.aot_load(path)
    for name, place in PLACES.items():
        ours, wanted = cresset.arange(8.0), cresset.arange(8.0)
        given, eager = place(ours), place(wanted)
        assert [t.tolist() for t in compiled(*given)] == [t.tolist() for t in module()(*eager)], name
        assert [t.tolist() for t in (ours, *given)] == [t.tolist() for t in (wanted, *eager)], name


def test_an_input_that_is_a_buffer_of_the_module(tmp_path):
    module = ReadsBuffer()
    program = cresset.export.export(module, (module.kept, cresset.ones(3)))
    path = cresset.aot_compile(program, options={"output_path": str(tmp_path / "model.so")})
    for x in (module.kept, cresset.ones(3) * 7):
        given = cresset.aot_load(path)(x, cresset.ones(3))
        assert [t.tolist() for t in given] == [t.tolist() for t in module(x, cresset.ones(3))]
