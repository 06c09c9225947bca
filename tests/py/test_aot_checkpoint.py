"""checkpoint regions and random numbers in functions that are compiled ahead of time."""
import functools

import cresset
import pytest

from cresset import nn
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
        if compiler == "nop":
            assert cresset.rand(3).tolist() == after


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
