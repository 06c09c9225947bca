"""A sample of ./dev test --full torch, and what that sweep found."""
import os
import sys

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
sys.path.insert(0, os.path.dirname(__file__))
import random_torch_programs as programs  # noqa: E402


@pytest.mark.parametrize("first", [0, 30])
@pytest.mark.filterwarnings("ignore")
def test_a_sample(first):
    kinds = set()
    for seed in range(first, first + 30):
        kind, told = programs.check(seed)
        assert told is None, told
        kinds.add(kind)
    assert "whole" in kinds and "breaks" in kinds


def compiled(function):
    return cresset.compile(function, backend="eager")


def test_what_a_method_of_a_tensor_raises_is_torchs():
    def f(x):
        y = x * 2
        try:
            return y.reshape(7, 11)
        except RuntimeError as error:
            return str(error)
    x = torch.randn(3, 4)
    run = compiled(f)
    assert run(x) == run(x) == f(x)
    method = compiled(lambda x: (x * 2).mul(eval("3")))    # the method is bound, then its arguments break
    assert torch.equal(method(x), x * 6) and type(method(x)) is torch.Tensor


def test_bases_of_views():
    def f(x, y):
        with torch.no_grad():
            row = x[0]
        own = x.detach()
        return row, own, own[1:], y.t(), y.detach(), x * y
    x, y = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            row, own, part, turned, plain, _ = ours = compiled(f)(x, y)
            theirs = f(x, y)
        assert row._base is x and own._base is None and part._base is own and turned._base is y and plain._base is None
        assert [(t.requires_grad, t.is_leaf) for t in ours] == [(t.requires_grad, t.is_leaf) for t in theirs]
        assert own.data_ptr() == x.data_ptr() and torch.equal(part, x[1:]) and torch.equal(turned, y.t())


def test_no_gradient_is_not_zero_and_zero_is_not_none():
    def f(x, y, z):
        unused = y * y
        print(end="")           # `unused` crosses as a variable
        return x * 2 + z.sign(), unused
    x, y, z = (torch.randn(3, requires_grad=True) for _ in range(3))
    compiled(f)(x, y, z)[0].sum().backward()
    assert y.grad is None and torch.equal(z.grad, torch.zeros(3)) and torch.equal(x.grad, torch.full((3,), 2.0))


def test_what_an_attribute_held_before_is_no_input_of_the_walk():
    class Keeps(torch.nn.Module):
        def forward(self, x):
            self.kept = (x, x[0])
            return x * x
    run = compiled(Keeps())
    for _ in range(3):
        a = torch.randn(2, 3, requires_grad=True)
        run(a * 2).sum().backward()
        assert torch.allclose(a.grad, 8 * a)


def test_writes_without_a_functional_form_run_plain():
    def f(x, y):
        x[1:].sub_(x[1:])
        y[:, :2].t().mul_(2)
        return x + y
    x = torch.randn(2, 4)
    for make in (lambda: torch.ones(2, 4, requires_grad=True), lambda: torch.ones(2, 4)):
        own, their = x.t().contiguous().t(), x.t().contiguous().t()
        outcomes = []
        for call, given in ((compiled(f), own), (f, their)):
            try:
                outcomes.append(call(given, make()).tolist())
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1] and torch.equal(own, their)


def test_views_taken_without_gradients():
    """In PyTorch they require grad and are leaves of their own."""
    def f(x):
        y = x * 2
        with torch.no_grad():
            row, part = x[0], y[0]
        return row * 1, part, (y * 3).sum(), torch.nn.functional.dropout(y, 0.5, False)
    for outer in (True, False):
        seen = []
        for call in (compiled(f), f):
            x = torch.ones(2, 3, requires_grad=True)
            with torch.set_grad_enabled(outer):
                results = call(x)
            if outer:
                sum(t.sum() for t in results if t.requires_grad).backward()
            seen.append(([(t.requires_grad, t.is_leaf) for t in results], None if x.grad is None else x.grad.tolist()))
        assert seen[0] == seen[1]


def test_versions_of_what_a_program_made():
    def f(x):
        y = x * 2
        y.add_(1)
        y[0].mul_(3)
        z = y.exp()
        return y, z, y._version
    for x in (torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)):
        y, z, version = compiled(f)(x)
        assert (y._version, z._version, version) == (2, 0, 2)
        if x.requires_grad:
            z.sum().backward()
            assert torch.equal(x.grad, torch.autograd.grad(f(x)[1].sum(), x)[0])


@pytest.mark.filterwarnings("ignore")
def test_a_graph_without_a_walk_back_runs_plain():
    kind, told = programs.check(1077)
    assert told is None, told


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [854, 1139, 1569])
def test_programs_that_once_differed(seed):
    kind, told = programs.check(seed)
    assert told is None, told


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_what_is_made_of_a_written_input_keeps_its_strides(backend):
    def f(x):
        x.masked_fill_(x > 0, 0.25)
        return x * 1, x.sort(1).values
    run = cresset.compile(f, backend=backend)
    for _ in range(2):
        x = torch.randn(4, 3).t()
        other = x.clone()
        for a, b in zip(run(x), f(other)):
            assert a.stride() == b.stride() == (1, 3) and torch.equal(a, b)
        assert torch.equal(x, other)
        run._wait()


def test_a_number_that_a_walk_back_needs_is_no_tensor_to_watch():
    """Behind the break the number is an input of the graph, which writes a buffer: once, whatever the number is."""
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            y = x * x.mean().item()
            self.calls.add_(1)
            return y * 1
    model = Scaled()
    run = cresset.compile(model, backend="eager")
    for n in range(1, 5):
        x = torch.randn(3, requires_grad=True)
        run(x).sum().backward()
        assert model.calls.item() == n and torch.allclose(x.grad, x.detach().mean().expand(3))
    assert run._compiled._counts()["failed"] == 0


@pytest.mark.parametrize("take", [lambda x: x[0], lambda x: x.unsqueeze(1)], ids=["item", "unsqueeze"])
def test_views_that_a_graph_under_no_grad_gives_show_their_input(take):
    def f(x):
        with torch.no_grad():
            return take(x), x * 2
    x = torch.randn(3, 2, requires_grad=True)
    run = compiled(f)
    for function in (f, run, run):
        view, product = function(x)
        assert (view.requires_grad, view.is_leaf, view._base is x) == (True, True, True)
        assert not product.requires_grad
