"""E4: `with optimize(backend):` captures what is called inside, on this thread, and leaves nothing behind; run() and
disable() as context managers."""
import textwrap
import threading

import pytest

import cresset
import cresset._dynamo as dynamo
import cresset.nn as nn
from cresset._dynamo import config

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")


@pytest.fixture(autouse=True)
def allowed():
    dynamo.reset()
    with config.patch(raise_on_ctx_manager_usage=False):
        yield
    dynamo.reset()


class Seen:
    """A backend that counts its graphs and how often they run."""

    def __init__(self):
        self.graphs, self.runs = [], 0

    def __call__(self, gm, example_inputs):
        self.graphs.append([n.target for n in gm.graph.nodes if n.op == "call_function"])
        return lambda *args: self.run(gm, args)

    def run(self, gm, args):
        self.runs += 1
        return gm(*args)


def double(x):
    return x * 2


def both(x):
    return double(x).sin() + 1


def is_captured(seen, x):
    before = seen.runs
    assert cresset.equal(both(x), (x * 2).sin() + 1)
    return seen.runs > before


dynamo.skip_code(is_captured.__code__)  # it looks at what it calls, and is no part of it


def test_refused_by_default():
    with config.patch(raise_on_ctx_manager_usage=True):
        for made, name in ((dynamo.optimize("eager"), "optimize"), (dynamo.run(), "run"),
                           (dynamo.disable(), "disable")):
            with pytest.raises(RuntimeError, match=rf"write @{name}\(...\) before the function"):
                with made:
                    pytest.fail("entered")
        assert not is_captured(Seen(), cresset.ones(3))


def test_functions_called_inside_are_captured():
    seen, x = Seen(), cresset.randn(3)
    optimize = dynamo.optimize(seen)
    assert not is_captured(seen, x)
    with optimize as nothing:
        assert nothing is None
        assert is_captured(seen, x) and is_captured(seen, x)
        assert len(seen.graphs) == 1 and len(seen.graphs[0]) == 3
        assert cresset.equal(double(x), x * 2)
    assert len(seen.graphs) == 2 and seen.runs == 3
    assert not is_captured(seen, x)
    with optimize:  # what was captured serves again
        assert is_captured(seen, x)
    assert len(seen.graphs) == 2
    dynamo.reset()
    with optimize:
        assert is_captured(seen, x)
    assert len(seen.graphs) == 3


def test_modules_methods_and_closures():
    seen, x = Seen(), cresset.randn(2, 4)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x).exp()
    model, scale = Model(), 3
    want = net(x).exp() * scale
    with dynamo.optimize(seen):
        got = (lambda t: model(t) * scale)(x)
        assert cresset.allclose(got, want) and len(seen.graphs) == 1
        assert cresset.allclose(net(x), net.forward(x)) and len(seen.graphs) >= 2
    got.sum().backward()
    assert net[0].weight.grad is not None


def test_breaks_and_exceptions_are_as_plain():
    seen, x, told = Seen(), cresset.ones(3), []

    def broken(x):
        y = x + 1
        told.append(float(y.sum()))
        return double(y) * 2

    def raising(x):
        double(x)
        raise KeyError("mine")
    with dynamo.optimize(seen):
        assert broken(x).tolist() == [8, 8, 8]
        with pytest.raises(KeyError, match="mine"):
            raising(x)
        assert sorted(map(broken, [x, x]), key=lambda t: 0)[0].tolist() == [8, 8, 8]
    assert told == [6.0] * 3 and len(seen.graphs) >= 2


def test_state_is_back_on_every_exit():
    seen, inner, x = Seen(), Seen(), cresset.ones(3)
    with pytest.raises(KeyError):
        with dynamo.optimize(seen):
            raise KeyError
    assert not is_captured(seen, x)
    with dynamo.optimize(seen):
        with dynamo.optimize(inner):
            assert is_captured(inner, x) and not is_captured(seen, x)
        assert is_captured(seen, x) and not is_captured(inner, x)
    assert not is_captured(seen, x) and not is_captured(inner, x)

    optimize = dynamo.optimize(seen)
    with optimize, optimize:
        assert is_captured(seen, x)
    assert not is_captured(seen, x)

    def returning():
        with dynamo.optimize(seen):
            return is_captured(seen, x)
    assert returning() and not is_captured(seen, x)
    for _ in range(3):
        with dynamo.optimize(seen):
            continue
    assert not is_captured(seen, x)


def test_generators_that_hold_a_block():
    seen, other, x = Seen(), Seen(), cresset.ones(3)

    def steps(seen):
        with dynamo.optimize(seen):
            yield is_captured(seen, x)
            yield is_captured(seen, x)
    first = steps(seen)
    assert list(first) == [True, True] and not is_captured(seen, x)
    first, second = steps(seen), steps(other)
    assert next(first) and next(second)
    first.close()  # not the innermost
    assert not is_captured(seen, x)
    second.close()
    assert not is_captured(seen, x) and not is_captured(other, x)
    left = steps(seen)
    next(left)
    del left
    assert not is_captured(seen, x)


def test_a_block_is_its_threads():
    seen, x, found = Seen(), cresset.ones(3), []
    inside, done = threading.Event(), threading.Event()

    def other():
        inside.wait()
        found.append(is_captured(seen, x))
        done.set()
    thread = threading.Thread(target=other)
    thread.start()
    with dynamo.optimize(seen):
        inside.set()
        done.wait()
        assert is_captured(seen, x)
    thread.join()
    assert found == [False]


def test_the_library_and_the_package_run_as_they_are():
    seen, x = Seen(), cresset.ones(3)
    with dynamo.optimize(seen):
        textwrap.dedent("  a")
        cresset.autograd.grad(x.clone().requires_grad_().exp().sum(), [w := cresset.ones(3, requires_grad=True)],
                              allow_unused=True)
        assert w.grad is None
    assert seen.graphs == []


def test_nested_compile_run_and_disable():
    seen, own, x = Seen(), Seen(), cresset.ones(3)
    compiled = cresset.compile(both, backend=own)
    with dynamo.optimize(seen):
        assert cresset.equal(compiled(x), both(x)) and own.runs == 1
        assert is_captured(seen, x)
        with dynamo.disable():
            assert not is_captured(seen, x)
            compiled(x)
            assert own.runs == 1
        with dynamo.run():
            assert is_captured(seen, x)
            graphs = len(seen.graphs)
            double(x)
            assert len(seen.graphs) == graphs
        assert is_captured(seen, x)
    with dynamo.run():
        fresh = cresset.compile(double, backend=own)
        before = len(own.graphs)
        fresh(x)
        assert len(own.graphs) == before
    fresh(x)
    assert len(own.graphs) == before + 1
    assert dynamo.disable()(double)(x).tolist() == dynamo.run()(double)(x).tolist() == [2, 2, 2]


def test_whole_graphs_sizes_and_switches():
    seen = Seen()
    with pytest.raises(dynamo.exc.Unsupported, match="print"), dynamo.optimize(seen, nopython=True):
        (lambda x: (print(end=""), x + 1))(cresset.ones(3))
    assert not is_captured(seen, cresset.ones(3))
    with dynamo.optimize(seen, dynamic=True):
        for n in (3, 4, 5):
            both(cresset.ones(n))
    assert len(seen.graphs) == 1
    with dynamo.optimize(seen, disable=True):
        assert not is_captured(seen, cresset.ones(3))
    with pytest.raises(NotImplementedError, match="guards are told"):
        with dynamo.optimize(seen, guard_fail_fn=print):
            pass
    for backend in ("eager", "native", "aot_eager"):
        with dynamo.optimize(backend):
            assert both(cresset.zeros(2)).tolist() == [1, 1]
