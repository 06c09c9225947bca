"""cresset.fx.symbolic_trace and make_fx beside PyTorch's."""
import operator

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is what they are compared with")

import cresset  # noqa: E402
from cresset.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from cresset.fx.proxy import TraceError  # noqa: E402


def net(t):
    class Block(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = t.nn.Parameter(t.full((3,), 2.0))
            self.register_buffer("shift", t.ones(3))

        def forward(self, x):
            return x * (self.scale * 2) + self.shift

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.ReLU())
            self.block = Block()
            with t.no_grad():
                self.layers[0].weight.fill_(0.5)
                self.layers[0].bias.fill_(-0.25)

        def forward(self, x, k=2):
            return self.block(self.layers(x)) + k
    return Net()


def unpacks(x, y):
    a, b = x.split(1)
    return a + b * y


FUNCTIONS = {
    "operators": lambda t: lambda x, y: -(x + 1) * (2 - y) / 3 + abs(x) ** 2,
    "methods": lambda t: lambda x, y: x.relu().sum(dim=0, keepdim=True) + y.t().t(),
    "functions": lambda t: lambda x, y: t.cat([t.relu(x), y], dim=1),
    "unpacking": lambda t: unpacks,
    "indexing": lambda t: lambda x, y: x[:, 1:] + y[0, :2],
    "attributes": lambda t: lambda x, y: x.reshape(x.shape[0], -1) + x.shape[1],
    "constants": lambda t: lambda x, y: x + t.ones(3),
    "structures": lambda t: lambda x, y: {"a": (x + y, [x]), "b": None},
}


def flat(t, value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(t, item)]
    return [None] if value is None else value.reshape(-1).tolist()


def shape(t, gm):
    target = lambda n: n.target if isinstance(n.target, str) else getattr(n.target, "__name__", "")  # noqa: E731
    return [(n.op, n.name, target(n), [a.name for a in n.all_input_nodes]) for n in gm.graph.nodes]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    results = []
    for t in (cresset, torch):
        function = FUNCTIONS[name](t)
        gm = t.fx.symbolic_trace(function)
        gm.graph.lint()
        x, y = t.arange(6.0).reshape(2, 3) - 2, t.ones(2, 3)
        assert flat(t, gm(x, y)) == flat(t, function(x, y))
        results.append((shape(t, gm), flat(t, gm(x, y))))
    assert results[0] == results[1]


def test_modules():
    results = []
    for t in (cresset, torch):
        module = net(t)
        gm = t.fx.symbolic_trace(module)
        x = t.arange(6.0).reshape(2, 3)
        assert flat(t, gm(x, 5)) == flat(t, module(x, 5))
        results.append((shape(t, gm), flat(t, gm(x)), sorted(dict(gm.named_parameters()))))
    assert results[0] == results[1]
    lowered = cresset.fx.symbolic_trace(net(cresset)).to_graph
    with pytest.raises(TypeError, match="input 'x'"):
        lowered()


def test_modules_are_as_before():
    call, get = cresset.nn.Module.__call__, cresset.nn.Module.__getattr__
    with pytest.raises(TraceError, match="control flow"):
        cresset.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    assert cresset.nn.Module.__call__ is call and cresset.nn.Module.__getattr__ is get


@pytest.mark.parametrize("function, error", [
    (lambda x: x if x else 1, ValueError), (lambda x: len(x), RuntimeError), (lambda x: [v for v in x], ValueError),
], ids=["bool", "len", "iter"])
def test_errors(function, error):
    for t in (cresset, torch):
        with pytest.raises(error):
            t.fx.symbolic_trace(function)


def test_what_is_not_there():
    with pytest.raises(NotImplementedError, match=r"'\*args'"):
        cresset.fx.symbolic_trace(lambda *args: args[0])
    with pytest.raises(NotImplementedError, match="concrete_args"):
        cresset.fx.symbolic_trace(lambda x, y: x, {"y": 1})
    with pytest.raises(TypeError, match="no overload takes"):
        cresset.relu(object())


MADE = {
    "one": lambda t: lambda x, k: x.relu() + k,
    "tuple": lambda t: lambda x, k: (x.sin(), k, None),
    "dict": lambda t: lambda x, k: {"a": x.sin() * k, "b": [x.cos()]},
    "several": lambda t: lambda x, k: x.max(dim=0)[0] * k,
    "write": lambda t: lambda x, k: x.clone().add_(k),
}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", MADE)
def test_make_fx(name, mode):
    ours, theirs = cresset.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
    gm = make_fx(MADE[name](cresset), tracing_mode=mode)(ours, 3)
    other = torch.fx.experimental.proxy_tensor.make_fx(MADE[name](torch))(theirs, 3)
    targets = [str(n.target) for n in gm.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    assert targets == [str(n.target) for n in other.graph.nodes
                       if n.op == "call_function" and n.target is not operator.getitem]
    assert [n.name for n in gm.graph.find_nodes(op="placeholder")] == ["x_1", "k_1"]
    got, want = gm(ours, 3), other(theirs, 3)
    assert type(got).__name__ == type(want).__name__
    numbers = [[v for v in _leaves(r)] for r in (got, want)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)
    if mode == "symbolic":
        larger = cresset.arange(15.0).reshape(5, 3)
        assert list(_leaves(gm(larger, 3))) == pytest.approx(list(_leaves(MADE[name](cresset)(larger, 3))), rel=1e-5)


def _leaves(value):
    if isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None:
        yield from value.reshape(-1).tolist() if hasattr(value, "reshape") else [value]


def test_make_fx_messages():
    with pytest.raises(ValueError, match="'symbolic'"):
        make_fx(lambda x: x, tracing_mode="dreamt")
    with pytest.raises(TypeError, match="argument 0 is a list"):
        make_fx(lambda x: x)([cresset.ones(1)])
