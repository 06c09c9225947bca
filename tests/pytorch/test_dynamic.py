"""Sizes and numbers that differ from call to call, in PyTorch programs: one graph serves them, marks are followed, and
values, strides, views and gradients are plain PyTorch's."""
import copy
import os
import sys

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
sys.path.insert(0, os.path.dirname(__file__))
import torch_programs  # noqa: E402
from torch_checks import assert_same, backward, clones, sharing, with_grad  # noqa: E402

nn, F = torch.nn, torch.nn.functional
SIZES = (5, 6, 7, 9, 1, 0, 2, 33)  # 5 and 6 are captured as they are, the third leaves the size open; 0 and 1 never are


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(20261117)
    yield


def entries(run):
    return (run._compiled if isinstance(run, nn.Module) else run)._entries()


def rows(x, w):
    return torch.relu(x @ w) + x.shape[0]


def views(x, w):
    y = F.gelu(x @ w)
    return y.sum(), x[:, 1:], y.t(), x.view(-1), y.detach()[1:], x.shape, isinstance(x.shape, torch.Size), len(x)


def layouts(x, w):
    y = torch.cat([x, x * 2], 1).t()
    return y, y.clone(), y.contiguous(), torch.empty_like(y).copy_(y), x.new_zeros(x.shape[0], 2) + w.sum()


def pieces(x, w):
    a, b = (x @ w).chunk(2, 1) if x.shape[1] > 2 else (x, x)
    return [a, b, torch.stack([x.mean(), x.std()])], {"last": x[-1:] * 2}


def loop(x, w):
    total = x.new_zeros(x.shape[1])
    for i in range(w.shape[0]):
        total = total + x.sum(0) * w[i, 0] * i
    return total, torch.arange(x.size(0)) * 2, torch.ones(x.shape[0], x.shape[0]).tril()


PROGRAMS = [rows, views, layouts, pieces, loop]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph_serves_other_sizes(function, backend):
    run = cresset.compile(function, backend=backend)
    with torch.no_grad():
        for n in SIZES:
            x, w = torch.randn(n, 4), torch.randn(4, 4)
            for _ in range(2):
                ours, theirs = run(x, w), function(x, w)
                assert_same(ours, theirs)
                assert sharing((x, w), ours) == sharing((x, w), theirs)
                run._wait()
    made = entries(run)
    assert [e["reason"] for e in made] == [None] * len(made) and len(made) <= 4
    assert max(e["hits"] for e in made) >= 9     # 7, 9, 2 and 33
    assert run._counts()["failed"] == 0


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", [rows, views, pieces, loop], ids=lambda f: f.__name__)
def test_one_graph_trains_other_sizes(function, backend):
    run = cresset.compile(function, backend=backend)
    for n in SIZES:
        if n < 2 and function is pieces:
            continue     # the gradient of std() of one element is NaN
        args = torch.randn(n, 4), torch.randn(4, 4)
        for _ in range(2):
            ours, theirs = backward(run, with_grad(args)), backward(function, with_grad(args))
            assert_same(ours[0], theirs[0])
            assert_same(ours[1], theirs[1])
            run._wait()
    made = entries(run)
    assert [e["reason"] for e in made] == [None] * len(made) and len(made) <= 4
    assert max(e["hits"] for e in made) >= 9


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", torch_programs.INFERENCE)
def test_every_size_open(name, backend):
    function, make = torch_programs.INFERENCE[name]
    run = cresset.compile(function, backend=backend, dynamic=True)
    with torch.no_grad():
        for _ in range(2):
            args = make()
            own, their = clones(args), clones(args)
            ours, theirs = run(*own), function(*their)
            assert_same(ours, theirs)
            assert_same(own, their)
            assert sharing(own, ours) == sharing(their, theirs)
            run._wait()


@pytest.mark.parametrize("name", torch_programs.TRAINED)
def test_every_size_open_in_training(name):
    function, make = torch_programs.TRAINED[name]
    run = cresset.compile(function, backend="eager", dynamic=True)
    for _ in range(2):
        args = make()
        ours, theirs = backward(run, with_grad(args)), backward(function, with_grad(args))
        assert_same(ours[0], theirs[0])
        assert_same(ours[1], theirs[1])


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out((torch.softmax(q @ k.transpose(-2, -1) / 2, -1) @ v).transpose(1, 2).reshape(b, t, c))


def attends():
    return Attends(), lambda b, t: torch.randn(b, t, 16)


def convolves():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                          nn.MaxPool2d(2), nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return model, lambda b, t: torch.randn(b, 3, 2 * t, 3 * t)


@pytest.mark.parametrize("make", [attends, convolves], ids=lambda f: f.__name__)
def test_models(make):
    model, example = make()
    other = copy.deepcopy(model)
    run = cresset.compile(model, backend="eager")
    for b, t in ((2, 4), (3, 5), (4, 7), (5, 6), (2, 9)):
        x = example(b, t)
        ours, theirs = backward(run, with_grad([x])), backward(other, with_grad([x]))
        assert_same(ours[0], theirs[0])
        assert_same(ours[1], theirs[1])
    for a, b in zip(model.parameters(), other.parameters()):
        assert_same(a.grad, b.grad)
    assert_same(list(model.buffers()), list(other.buffers()))
    made = entries(run)
    assert [e["reason"] for e in made] == [None] * len(made) and len(made) <= 3


def captures(function, arguments, **options):
    run = cresset.compile(function, backend="eager", **options)
    for args in arguments:
        assert_same(run(*args), function(*args))
    return len(entries(run))


def test_what_is_said_of_sizes():
    def made(mark=lambda x: None):
        for n in (5, 6, 7, 8):
            x = torch.randn(n, 4)
            mark(x)
            yield x, torch.ones(4, 4)
    dynamo = cresset._dynamo
    assert captures(rows, made()) == 2
    assert captures(rows, made(), dynamic=True) == 1
    assert captures(rows, made(), dynamic=False) == 4
    assert captures(rows, made(lambda x: dynamo.mark_static(x, 0))) == 4
    assert captures(rows, made(lambda x: dynamo.maybe_mark_dynamic(x, 0))) == 1
    assert captures(rows, made(lambda x: dynamo.mark_dynamic(x, 0))) == 1
    assert captures(rows, made(lambda x: torch._dynamo.mark_dynamic(x, 0, min=2, max=64))) == 1
    assert captures(rows, made(lambda x: torch._dynamo.mark_static(x, 0))) == 4
    assert captures(rows, made(lambda x: torch._dynamo.maybe_mark_dynamic(x, 0))) == 1

    def one(x, w):
        return x * int(x.shape[0] == 5)
    assert captures(one, made()) == 2                       # == 5, != 5
    with pytest.raises(Exception, match="mark_dynamic"):
        captures(lambda x, w: torch.ones(4, 4) * list(range(x.shape[0]))[-1], made(lambda x: dynamo.mark_dynamic(x, 0)))


def test_only_what_was_asked_is_guarded():
    def f(x):
        return x.sum() if x.shape[0] > 10 else x.mean() * x.shape[1]
    sizes = [(3, 4), (4, 5), (5, 6), (6, 7), (11, 4), (12, 5), (300, 2), (10, 10)]
    assert captures(f, [(torch.randn(n, m),) for n, m in sizes]) == 3


def test_numbers():
    def f(x, n, scale):
        return x * n + scale, n * 2, x[:n % 3 + 1]
    calls = [(torch.randn(4), n, s) for n, s in ((1, 0.5), (2, 0.25), (3, -1.5), (40, 1e6), (-7, 3.0), (0, 2.5))]
    assert captures(f, calls) <= 5     # by the remainder that the slice asks for


@pytest.mark.parametrize("grad", [True, False])
def test_a_module_counts_its_calls(grad):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.calls = nn.Linear(4, 3), 0

        def forward(self, x):
            self.calls += 1
            return self.linear(x) / self.calls
    model = Counts()
    other = copy.deepcopy(model)
    run = cresset.compile(model, backend="eager")
    with torch.set_grad_enabled(grad):
        for _ in range(20):
            x = torch.randn(5, 4)
            assert_same(run(x), other(x))
    assert model.calls == 20 and len(entries(run)) == 2


def test_writes_and_random_numbers_of_open_sizes():
    def f(x, buffer):
        buffer.add_(x.sum(0))
        x[1:].mul_(2)
        return F.dropout(x, 0.5) + torch.rand(x.shape[0], 1), buffer
    run = cresset.compile(f, backend="eager")
    mine, theirs = torch.zeros(4), torch.zeros(4)
    for n in SIZES:
        x = torch.randn(n, 4)
        other = x.clone()
        torch.manual_seed(n)
        a = run(x, mine)
        torch.manual_seed(n)
        b = f(other, theirs)
        assert_same(a, b)
        assert_same(x, other)
        assert a[1] is mine and mine._version == theirs._version
    assert len(entries(run)) <= 5


def test_strides_that_go_with_sizes():
    def f(x):
        return x * 2, x.t() + 1, x.sum(1)
    run = cresset.compile(f, backend="eager")
    for n in (5, 6, 7, 8):
        x = torch.randn(4, n).t()
        assert_same(run(x), f(x))
    for n in (5, 6, 7, 8):
        x = torch.randn(n, 9)[:, 1:5]
        assert_same(run(x), f(x))
    assert len(entries(run)) <= 4
