"""Things that PyTorch's modules and models of others do, captured as one graph: fullgraph=True, as plain PyTorch."""
import copy
import functools
import weakref

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402

nn = torch.nn


def check(function, *args, calls=2, grad=False):
    """As plain, whole, in a second call by the entry of the first."""
    run = cresset.compile(function, fullgraph=True, backend="eager")
    with torch.set_grad_enabled(grad):
        for _ in range(calls):
            ours, theirs = run(*args), function(*args)
            for a, b in zip(torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(theirs)):
                assert type(a) is type(b)
                torch.testing.assert_close(a, b) if isinstance(a, torch.Tensor) else check_equal(a, b)
    counts = (run._compiled if isinstance(run, nn.Module) else run)._counts()
    assert counts["captures"] == 1 and counts["hits"] == calls - 1
    return run


def check_equal(a, b):
    assert a == b


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.again = self.first
        self.register_buffer("kept", torch.ones(3), persistent=False)

    def forward(self, x):
        for parameter in self.parameters():
            x = x + parameter.sum()
        for module in self.children():
            x = module(x)
        names = [name for name, _ in self.named_modules()]
        return x * len(names), names, next(self.buffers()).dtype


def test_parameters_children_and_modules():
    check(Tower(), torch.randn(2, 3))


def test_one_module_twice_is_another_capture():
    model, x = Tower(), torch.randn(2, 3)
    run = check(model, x)
    model.again = nn.Linear(3, 3)
    with torch.no_grad():
        ours, theirs = run(x), model(x)
    torch.testing.assert_close(ours[0], theirs[0])
    assert ours[1] == theirs[1]


def test_a_buffer_is_registered():
    class Keeps(nn.Module):
        def forward(self, x):
            self.register_buffer("mean", x.mean(0), persistent=False)
            self.mean = self.mean + 1
            return x - self.mean

    model, other, x = Keeps(), Keeps(), torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(cresset.compile(model, fullgraph=True, backend="eager")(x), other(x))
    torch.testing.assert_close(model.mean, other.mean)
    assert model._non_persistent_buffers_set == {"mean"} and not model.state_dict()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x * n

    @staticmethod
    def backward(ctx, grad):
        return grad * 100, None


class Split(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x, x + 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, *grads):
        return grads[0]


def test_autograd_function_in_inference():
    x = torch.randn(3)
    check(lambda x: (Doubled.apply(x, 2) + 1, *Split.apply(x)), x)
    same = cresset.compile(Split.apply, backend="eager")
    with torch.no_grad():
        given = same(x)[0]
    assert given is not x and given.data_ptr() == x.data_ptr()
    check(lambda x: Doubled.apply(x, 2) + 1, x, grad=True)  # nothing wants a gradient


def test_autograd_function_has_its_own_gradient():
    x = torch.randn(3, requires_grad=True)
    cresset.compile(lambda x: (Doubled.apply(x * 1, 2) + 1).sum(), backend="eager")(x).backward()
    assert x.grad.tolist() == [100.0] * 3


def test_scripted_function():
    script = torch.jit.script(scripted)
    check(lambda x: script(x, 2) * 3, torch.randn(3))


def scripted(x: torch.Tensor, n: int):
    return torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * n) + x


def test_as_tensor_and_nested_lists():
    check(lambda x: (torch.as_tensor(x) + torch.as_tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[1.5], [2]]),
                     torch.as_tensor([True]), torch.as_tensor(x, dtype=torch.float64)), torch.randn(2, 3))


def test_lstm_whose_weights_are_looked_at_behind_a_change():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = nn.LSTM(3, 4), 0

        def forward(self, x):
            self.calls += 1
            return self.layer(x)[0]

    model = Counted()
    run, x = cresset.compile(copy.deepcopy(model), fullgraph=True, backend="eager"), torch.randn(5, 2, 3)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))


class Holder:
    pass


def test_a_weak_reference_to_what_was_dropped_is_none():
    def f(x, o):
        o.held = None
        return x + (1 if o.link() is None else 2)

    def world():
        o = Holder()
        o.held = Holder()
        o.link = weakref.ref(o.held)
        return o
    x, run = torch.ones(2), cresset.compile(f, backend="eager")
    for _ in range(2):
        assert run(x, world()).tolist() == f(x, world()).tolist() == [2.0, 2.0]


@functools.cache
def table(n):
    return tuple(range(n))


def test_cached_function():
    table(4)  # else the second call finds in the cache what the first did not
    check(lambda x: x + sum(table(4)), torch.ones(2))


def test_multihead_attention_and_encoder_layer():
    check(nn.MultiheadAttention(8, 2, batch_first=True).eval(), *[torch.randn(2, 3, 8)] * 3)
    check(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 3, 8))


def test_autocast_switched_off():
    def f(x):
        with torch.autocast(device_type="cpu", enabled=False):
            x = x @ x
        return x + 1
    check(f, torch.randn(3, 3))


class Sliced(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers[:2]:  # makes a ModuleList
            x = layer(x)
        return x


def test_modules_made_inside_after_torch_compile():
    """Which puts a counter of its own into Module.__init__."""
    torch.compile(nn.Linear(3, 3), backend="eager")(torch.randn(2, 3))
    assert nn.Module.__init__.__module__ == "torch._dynamo.mutation_guard"
    check(Sliced(), torch.randn(2, 3))
