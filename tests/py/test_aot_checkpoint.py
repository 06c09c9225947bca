"""checkpoint regions and random numbers in functions that are compiled ahead of time."""
import functools
import json

import cresset
import pytest

from cresset import _C, nn
from cresset._functorch.aot_autograd import (aot_function, aot_module, default_partition,
                                             min_cut_rematerialization_partition)
from cresset.utils.checkpoint import checkpoint, checkpoint_sequential

PARTITIONS = [default_partition, min_cut_rematerialization_partition,
              functools.partial(min_cut_rematerialization_partition, activation_memory_budget=0.0)]


def step(fn, *inputs, seed=3):
    """(result, gradients) with the generator seeded alike."""
    cresset.manual_seed(seed)
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    result = fn(*leaves)
    (result * result).sum().backward()
    return result, [t.grad for t in leaves]


def agree(a, b):
    assert cresset.allclose(a[0], b[0], rtol=1e-5, atol=1e-6)
    for x, y in zip(a[1], b[1]):
        assert cresset.allclose(x, y, rtol=1e-4, atol=1e-6)


def calls_of(graph, name):
    return sum(str(node.target).startswith(f"aten.{name}.") for node in graph.graph.nodes)


def collecting(seen):
    def compiler(graph, inputs):
        seen.append(graph)
        return graph
    return compiler


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("partition", PARTITIONS[:2])
def test_regions_are_computed_again(partition, reentrant):
    """Products of a region, which no partitioner computes again of its own accord, are in the backward graph."""
    def block(a, w):
        return ((a @ w).sin() @ w).exp()

    def fn(x, w, inside):
        run = (lambda a: checkpoint(block, a, w, use_reentrant=reentrant)) if inside else (lambda a: block(a, w))
        return run(x) * 2

    x, w = cresset.rand(4, 4), cresset.rand(4, 4)
    made = {}
    for inside in (False, True):
        seen = []
        f = aot_function(lambda x, w: fn(x, w, inside), collecting(seen), partition_fn=partition)
        agree(step(f, x, w), step(lambda x, w: fn(x, w, False), x, w))
        forward, backward = seen
        made[inside] = (len(forward.graph.output_node().args[0]), calls_of(backward, "mm"))
    assert made[True][1] == made[False][1] + 2
    assert made[True][0] < made[False][0]


@pytest.mark.parametrize("compiler", ["nop", "native"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_dropout_draws_once(partition, compiler):
    """The backward has the mask of the forward, whatever is computed again, and the generator goes on as in eager."""
    def fn(x, w):
        a = nn.functional.dropout((x * w).sin(), 0.5, True)
        return checkpoint(lambda b: nn.functional.dropout(b.exp() * w, 0.5, True).cos(), a, use_reentrant=False)

    x, w = cresset.rand(16, 8), cresset.rand(16, 8)
    want = step(fn, x, w)
    after = cresset.rand(3).tolist()
    f = aot_function(fn, compiler, partition_fn=partition)
    for _ in range(2):
        agree(step(f, x, w), want)
        assert cresset.rand(3).tolist() == after


DRAWN = {
    "dropout": lambda m, c, x, w: m.nn.functional.dropout(
        c(lambda a: m.nn.functional.dropout(a.exp() * w, 0.4, True).sin(), (x * w).sin()), 0.5, True),
    "noise": lambda m, c, x, w: c(lambda a: (a * m.randn_like(a)).sin() * (w + m.rand(w.shape)).exp(), x),
    "twice": lambda m, c, x, w: w * c(
        lambda a: c(lambda b: (b * m.rand_like(b)).cos(), a * m.bernoulli(w.detach())), x),
    "feature": lambda m, c, x, w: c(lambda a: m.nn.functional.feature_alpha_dropout(a.sin(), 0.5, True).exp(), x) * w,
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_again_is_what_was_drawn(name):
    """Large tensors are drawn again from the generator's state, of which one is saved for each call: numbers, gradients
    and the generator afterwards are eager PyTorch's."""
    torch = pytest.importorskip("torch", reason="its eager numbers are the right ones")
    from torch.utils.checkpoint import checkpoint as theirs
    fn = DRAWN[name]
    x, w = torch.rand(96, 80), torch.rand(96, 80)

    def run(m, f):
        m.manual_seed(4)
        leaves = [m.tensor(t.tolist()).requires_grad_() for t in (x, w)]
        y = f(*leaves)
        (y * y).sum().backward()
        return [torch.tensor(t.tolist()) for t in (y, *(leaf.grad for leaf in leaves))], m.get_rng_state().tolist()

    want, stream = run(torch, lambda x, w: fn(torch, lambda f, a: theirs(f, a, use_reentrant=False), x, w))
    ours = functools.partial(fn, cresset, lambda f, a: checkpoint(f, a, use_reentrant=False))
    for partition in PARTITIONS:
        seen = []
        for compiler in (collecting(seen), "native"):
            got, state = run(cresset, aot_function(ours, compiler, partition_fn=partition))
            for a, b in zip(got, want):
                assert (a - b).abs().max() <= 1e-4 * b.abs().max()
            assert state == stream
        forward, backward = (sum("random_state" in str(node.target) and node.op == "call_function"
                                 for node in graph.graph.nodes) for graph in seen)
        assert forward >= 1 and backward == 2 * forward


def test_budgets_draw_again():
    """Without a region masks are saved at budget 1, and drawn again where the budget leaves no room."""
    def fn(x):
        return nn.functional.dropout(x.sin(), 0.5, True).exp()

    x = cresset.rand(100, 100)
    joint, primals, results, _ = _C._differentiate(_C._functionalize(_C.record(fn, (x,)))[0])
    cresset.manual_seed(6)
    want, gradient = joint.run(x, cresset.ones(100, 100))
    after, saved = cresset.get_rng_state().tolist(), {}
    for budget in (1.0, 0.0):
        forward, backward, nsaved, numbers, report = _C._partition(joint, primals, results, budget=budget)
        cresset.manual_seed(6)
        result, *kept = forward.run(x)
        assert len(kept) == nsaved and not numbers and result.tolist() == want.tolist()
        got = backward.run(*kept, cresset.ones(100, 100))
        got = got[0] if isinstance(got, (list, tuple)) else got
        assert got.tolist() == gradient.tolist() and cresset.get_rng_state().tolist() == after
        saved[budget] = {item["op"]: item["bytes"] for item in json.loads(report)["saved"] if item["bytes"]}
    assert "cresset::random_state" not in saved[1.0] and saved[1.0]
    assert saved[0.0] == {"cresset::random_state": 5056}


def test_few_numbers_are_kept():
    """A mask that is smaller than a state is saved, also in a region."""
    seen = []
    f = aot_function(lambda x: checkpoint(lambda a: nn.functional.dropout(a.exp(), 0.5, True).sin(), x,
                                          use_reentrant=False), collecting(seen))
    step(f, cresset.rand(8, 8))
    assert not any("random_state" in str(node.target) for graph in seen for node in graph.graph.nodes)


def test_nested_and_sequential():
    net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            inner = lambda a: checkpoint(lambda b: self.net[0](b).sin(), a, use_reentrant=False) * a  # noqa: E731
            y = checkpoint(inner, x, use_reentrant=False)
            return checkpoint_sequential(self.net, 2, y, use_reentrant=False)

    x = cresset.rand(3, 4)
    model = Model()
    want = step(model, x)
    weights = [p.grad for p in model.parameters()]
    model.zero_grad()
    agree(step(aot_module(model, "nop"), x), want)
    for p, grad in zip(model.parameters(), weights):
        assert cresset.allclose(p.grad, grad, rtol=1e-4, atol=1e-6)


def test_what_a_region_cannot_say():
    """Writes to buffers from inside, and results that are operands, are recorded without a region."""
    norm = nn.BatchNorm1d(4)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = norm

        def forward(self, x):
            return checkpoint(lambda a: self.norm(a).sin(), x, use_reentrant=False)

    state = {k: v.clone() for k, v in norm.state_dict().items()}
    x = cresset.rand(5, 4)
    want = step(lambda x: norm(x).sin(), x)
    written = norm.running_mean.tolist()
    norm.load_state_dict(state)
    agree(step(aot_module(Model(), "nop"), x), want)
    assert norm.running_mean.tolist() == pytest.approx(written)
    agree(step(aot_function(lambda x: checkpoint(lambda a: a.view(-1), x, use_reentrant=False) * 2, "nop"), x),
          step(lambda x: x.view(-1) * 2, x))
    with pytest.raises(NotImplementedError, match="context_fn"):
        aot_function(lambda x: checkpoint(lambda a: a.sin(), x, use_reentrant=False, context_fn=lambda: (None, None)),
                     "nop")(x.requires_grad_())


def test_nothing_requires_grad():
    f = aot_function(lambda x: checkpoint(lambda a: (a.sin(), 3), x, use_reentrant=False), "native")
    made, three = f(cresset.ones(2))
    assert three == 3 and cresset.allclose(made, cresset.ones(2).sin())
