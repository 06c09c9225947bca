"""Backends written in Python, for PyTorch programs: they get a torch.fx.GraphModule of torch.ops, and what they return
is what runs."""
import operator
import os
import sys

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
sys.path.insert(0, os.path.dirname(__file__))
import torch_programs  # noqa: E402
from torch_checks import assert_same, backward, clones, sharing, with_grad  # noqa: E402

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(20261118)
    yield


class Seen:
    """A backend that keeps what it got."""

    def __init__(self, change=lambda gm: gm):
        self.modules, self.calls, self.change = [], 0, change

    def __call__(self, gm, example_inputs):
        assert isinstance(gm, torch.fx.GraphModule) and all(isinstance(t, (torch.Tensor, int, float))
                                                            for t in example_inputs)
        self.modules.append(gm)
        made = self.change(gm)

        def run(*args):
            self.calls += 1
            return made(*args)
        return run


def test_the_edits_of_a_backend_run():
    def relu_becomes_sigmoid(gm):
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.sigmoid.default
        gm.recompile()
        return gm.forward
    backend = Seen(relu_becomes_sigmoid)
    run = cresset.compile(lambda x, w: torch.relu(x @ w) + 1, backend=backend)
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2)
    for _ in range(2):
        assert_same(run(x, w), torch.sigmoid(x @ w) + 1)
    run(x, w).sum().backward()
    assert torch.allclose(x.grad, torch.autograd.grad(torch.sigmoid(x @ w).sum(), x)[0])
    assert backend.calls == 3 and len(backend.modules) == 1
    targets = [n.target for n in backend.modules[0].graph.nodes if n.op == "call_function"]
    assert targets == [torch.ops.aten.matmul.default, torch.ops.aten.sigmoid.default, torch.ops.aten.add.Tensor]
    assert "torch.ops.aten.sigmoid.default" in backend.modules[0].code
    node = backend.modules[0].graph.find_nodes(op="placeholder")[0]
    assert node.meta["val"].shape == (3, 4) and node.meta["val"].device.type == "meta"


@pytest.mark.parametrize("name", torch_programs.INFERENCE)
def test_programs(name):
    function, make = torch_programs.INFERENCE[name]
    backend = Seen()
    run = cresset.compile(function, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            args = make()
            own, their = clones(args), clones(args)
            state = torch.get_rng_state()
            ours = run(*own)
            torch.set_rng_state(state)
            theirs = function(*their)
            assert_same(ours, theirs)
            assert_same(own, their)
            assert sharing(own, ours) == sharing(their, theirs)
    assert backend.calls or name in ("histogram", "no_tensor")  # ops without a row; nothing is computed


@pytest.mark.parametrize("name", torch_programs.TRAINED)
def test_training(name):
    function, make = torch_programs.TRAINED[name]
    backend = Seen()
    run = cresset.compile(function, backend=backend)
    args = make()
    ours, theirs = backward(run, with_grad(args)), backward(function, with_grad(args))
    assert_same(ours[0], theirs[0])
    assert_same(ours[1], theirs[1])
    assert backend.calls


def test_gradient_modes_inside():
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y * 3
            with torch.enable_grad():
                w = x * 5
            z = z + 1
        return y, z, w, x * z
    for outer in (True, False):
        run = cresset.compile(f, backend=Seen())
        x = torch.randn(3, requires_grad=True)
        with torch.set_grad_enabled(outer):
            ours, theirs = run(x), f(x)
            assert torch.is_grad_enabled() is outer
        assert_same(ours, theirs)


def test_sizes_that_differ_are_numbers_of_the_graph():
    backend = Seen()
    run = cresset.compile(lambda x, n: x.reshape(-1)[: x.shape[0] * 2] * n, backend=backend)
    for n in (3, 4, 5, 6):
        x = torch.randn(n, 4)
        assert_same(run(x, n + 10), x.reshape(-1)[:2 * n] * (n + 10))
    assert len(backend.modules) == 2 and backend.calls == 4
    assert any(n.target in (operator.mul, torch.ops.aten.sym_size.int) for n in backend.modules[1].graph.nodes)


def test_modules_and_breaks():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            x = F.gelu(self.first(x))
            if x.sum() > 0:
                x = x + 1
            return self.second(x)
    model, backend = Model(), Seen()
    run = cresset.compile(model, backend=backend)
    for _ in range(3):
        x = torch.randn(3, 4)
        assert_same(run(x), model(x))
    assert backend.calls >= 6


def test_what_goes_wrong_in_a_backend_is_said():
    def raises(gm, inputs):
        raise ZeroDivisionError("no")
    x = torch.randn(3)
    with pytest.raises(cresset._dynamo.exc.BackendCompilerFailed, match="raises.*ZeroDivisionError"):
        cresset.compile(lambda x: x + 1, backend=raises)(x)
    with pytest.raises(cresset._dynamo.exc.BackendCompilerFailed, match="cannot be called"):
        cresset.compile(lambda x: x + 1, backend=lambda gm, inputs: 3)(x)

    def fails_later(gm, inputs):
        def run(*args):
            raise LookupError("later")
        return run
    with pytest.raises(LookupError, match="later"):
        cresset.compile(lambda x: x + 1, backend=fails_later)(x)
    with cresset._dynamo.config.patch(verify_correctness=True):
        assert_same(cresset.compile(lambda x: x + 1, backend=lambda gm, inputs: gm)(x), x + 1)
        with pytest.raises(cresset._dynamo.exc.BackendCompilerFailed, match="result 0 differs by"):
            cresset.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda x: (x + 2,))(x)
    with cresset._dynamo.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="suppress_errors"):
        assert_same(cresset.compile(lambda x: x + 1, backend=raises)(x), x + 1)


def test_a_backend_of_torchs_own():
    from torch._dynamo.backends.common import aot_autograd
    graphs = []

    def keep(gm, inputs):
        graphs.append(gm)
        return gm
    from functorch.compile import make_boxed_func
    backend = aot_autograd(fw_compiler=lambda gm, inputs: make_boxed_func(keep(gm, inputs)))
    run = cresset.compile(lambda x, w: torch.tanh(x @ w).sum(), backend=backend)
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    run(x, w).backward()
    theirs = torch.autograd.grad(torch.tanh(x @ w).sum(), (x, w))
    assert torch.allclose(x.grad, theirs[0]) and torch.allclose(w.grad, theirs[1]) and len(graphs) == 2
