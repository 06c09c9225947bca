"""cond, while_loop, map, scan and associative_scan inside of compiled functions: part of the one graph, their functions
recorded as bodies, what those use from outside lifted; what a body must not do ends the capture, by name."""
import pytest

import cresset
from cresset._dynamo.exc import Unsupported
from cresset._higher_order import associative_scan, cond, map, scan, while_loop

SCALE = cresset.tensor(2.0)
LOG = []


class Layer(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = cresset.nn.Linear(3, 3)

    def forward(self, x):
        return cond(x.sum() > 0, self.inner, lambda v: v - SCALE, (x,))


def branches(x, k=3.0):
    def up(v):
        return {"out": v * SCALE + k, "more": (v.sum(),)}
    return cond(x.sum() > 0, up, lambda v: {"out": v - SCALE, "more": (v.mean() * x.sum(),)}, (x,))


def nested(x):
    return cond(x.sum() > 0, lambda v: cond(v.max() > 1, lambda u: u * SCALE, lambda u: u + x, (v,)), lambda v: v.sin(),
                (x,))


def looped(x):
    return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * SCALE + x.mean()), (cresset.tensor(0), x))


def mapped(x):
    return map(lambda row: row * SCALE + x[0], x)


def scanned(x):
    return scan(lambda carry, row: (carry + row, carry * row), x[0], x)


def combined(x):
    return associative_scan(lambda a, b: a + b * 1, x, 0)


PROGRAMS = [branches, nested, looped, mapped, scanned, combined]


def same(ours, theirs):
    ours, theirs = (cresset.utils._pytree.tree_flatten(v) for v in (ours, theirs))
    assert ours[1] == theirs[1] and all(cresset.allclose(a, b) for a, b in zip(ours[0], theirs[0]))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_whole(program, backend):
    run = cresset.compile(program, fullgraph=True, backend=backend)
    for sign in (1, -1, 1):
        x = cresset.arange(6, dtype=cresset.float32).reshape(2, 3) * sign + 0.5
        same(run(x), program(x))
        run._wait()
    assert run._counts()["captures"] == 1


def test_a_module_as_a_branch_and_gradients():
    layer, x = Layer(), cresset.randn(2, 3)
    run = cresset.compile(layer, fullgraph=True, backend="eager")
    for value in (x.abs(), -x.abs()):
        grads = []
        for call in (run, layer):
            layer.zero_grad()
            given = value.clone().requires_grad_()
            out = call(given)
            out.sum().backward()
            grads.append((out, given.grad))
        same(*grads)


def test_a_lifted_tensor_is_read_in_every_call():
    run = cresset.compile(lambda x: cond(x.sum() > 0, lambda v: v * SCALE, lambda v: v * 1, (x,)), fullgraph=True)
    global SCALE
    before, x = SCALE, cresset.ones(2)
    try:
        assert run(x).tolist() == [2.0, 2.0]
        SCALE = cresset.tensor(5.0)
        assert run(x).tolist() == [5.0, 5.0]
    finally:
        SCALE = before


def appends_here(x):
    seen = []
    y = cond(x.sum() > 0, lambda v: (seen.append(1), v + 1)[1], lambda v: v - 1, (x,))
    return y, len(seen)


def appends_outside(x):
    return cond(x.sum() > 0, lambda v: (LOG.append(1), v + 1)[1], lambda v: v - 1, (x,)), len(LOG)


def counts(x):
    n = 0

    def up(v):
        nonlocal n
        n += 1
        return v + 1
    return cond(x.sum() > 0, up, lambda v: v - 1, (x,)), n


@pytest.mark.parametrize("program", [appends_here, appends_outside, counts], ids=lambda p: p.__name__)
def test_a_body_that_changes_something_runs_as_it_is(program):
    with pytest.raises(Unsupported, match=r"cond\(\) changes something that was there before: return the new value"):
        cresset.compile(program, fullgraph=True)(cresset.ones(2))
    run = cresset.compile(program)
    for sign in (1, -1):
        x, got = cresset.ones(2) * sign, []
        for call in (run, program):
            LOG.clear()
            out, n = call(x)
            got.append((out.tolist(), n))
        assert got[0] == got[1]


def test_branches_that_differ_are_named():
    def f(x):
        return cond(x.sum() > 0, lambda v: v, lambda v: v.sum(), (x * 1,))
    with pytest.raises(Unsupported, match="cond.*(shape|shares memory)"):
        cresset.compile(f, fullgraph=True)(cresset.ones(2))
