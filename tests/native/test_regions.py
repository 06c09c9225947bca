"""O7, native: everything with control flow that the interpreter runs, compiles, and gives the same numbers."""
import pathlib
import sys

import cresset
import numpy
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "py"))
import test_higher_order as control  # noqa: E402

X = cresset.tensor(control.floats(4, 3))


def compiled(fn, given, shapes=None):
    class Program(cresset.nn.Module):
        def forward(self, *args):
            return tuple(control.leaves(fn(*args)))
    ep = cresset.export.export(Program(), given, dynamic_shapes=shapes)
    model = ep.compile(options={"wait": True})
    assert model.tier == "native"
    return model, ep.module()


def same(ours, wanted):
    ours, wanted = control.leaves(ours), control.leaves(wanted)
    assert len(ours) == len(wanted)
    for mine, want in zip(ours, wanted):
        numpy.testing.assert_allclose(numpy.asarray(mine), numpy.asarray(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*control.PROGRAMS, *control.ASSOCIATIVE])
def test_programs(name):
    fn = {**control.PROGRAMS, **control.ASSOCIATIVE}[name]
    static = name in control.STATIC
    model, interpreted = compiled(lambda x, w: fn(cresset, x, w), control.inputs(cresset),
                                  None if static else (({0: cresset.export.Dim("rows", min=2)}, None),))
    for n in (4,) if static else (4, 6):
        given = control.inputs(cresset, n)
        same(model(*given), fn(cresset, *given))
        same(interpreted(*given), fn(cresset, *given))


@pytest.mark.parametrize("fn", [
    lambda x: cresset.cond(x.sum() > 0, lambda a: a[:2] + 1, lambda a: a[:3] + 1, (x,)) * 2,
    lambda x: cresset.cond(x.sum() > 0, lambda a: a.nonzero(), lambda a: (a > 0.5).nonzero(), (x,)) + 1,
    lambda x: cresset.cond(x.sum() > 0, lambda a: (a[a > 0], a[:1] * 2), lambda a: (a[a < 0], a[:2] * 3), (x,)),
    lambda x: cresset.cond(x.sum() > 0, lambda a: (a[:2] + 1, 3), lambda a: (a[:3] + 1, 4), (x,))[0].sum(1),
], ids=["slices", "nonzero", "masks", "with a number"])
def test_sizes_that_only_the_branch_gives(fn):
    model, _ = compiled(fn, (X,))
    for x in (X, -X, X * 0):
        same(model(x), fn(x))


def test_a_branch_of_unknown_size_of_many_rows():
    def fn(x):
        return cresset.cond(x.sum() > 0, lambda a: a[:2] + 1, lambda a: a + 1, (x,)).sum(1)
    model, _ = compiled(fn, (X,), (({0: cresset.export.Dim("rows", min=3)},),))
    for x in (X, -X, cresset.ones(7, 3), -cresset.ones(7, 3)):
        same(model(x), fn(x))
