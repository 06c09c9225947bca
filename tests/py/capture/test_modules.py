"""E2: modules: inlined, guarded, and what comes back as OptimizedModule."""
import copy
import pathlib
import pickle
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parents[3] / "bench")]
import twins  # noqa: E402

import cresset  # noqa: E402
import cresset.nn as nn  # noqa: E402
from cresset._dynamo.eval_frame import OptimizedModule  # noqa: E402


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.named = nn.ModuleDict({"out": nn.Sequential(nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3))})
        self.scale = nn.Parameter(cresset.ones(3))
        self.register_buffer("shift", cresset.zeros(3))
        self.drop = nn.Dropout(0.5)
        self.config = {"repeat": 2}

    def forward(self, x, flag=True):
        for _ in range(self.config["repeat"]):
            for i, layer in enumerate(self.layers):
                x = layer(x) + i
        x = self.named["out"](self.drop(x)) * self.scale + self.shift
        return x if flag else -x

    def helper(self):
        return 5


class Derived(Model):
    def forward(self, x):
        return super().forward(x) * 2


def close(a, b):
    return (a - b).abs().max().item() <= 1e-6


def compiled(module, **options):
    return cresset.compile(module, backend="eager", fullgraph=True, **options)


@pytest.mark.parametrize("kind", [Model, Derived])
def test_whole_module(kind):
    m = kind().eval()
    c, x = compiled(m), cresset.randn(2, 4)
    for _ in range(2):
        assert close(c(x), m(x))
    entry, = c._compiled._entries()
    assert entry["ops"] == (15 if kind is Derived else 14)


def test_training_and_random_numbers():
    m = Model()
    c, x = compiled(m), cresset.randn(2, 4)
    cresset.manual_seed(3)
    want = m(x)
    cresset.manual_seed(3)
    assert close(c(x), want)
    m.eval()
    assert close(c(x), m(x))
    c.train()
    assert m.training and c.training
    assert c._compiled._counts()["captures"] == 2


def test_gradients_and_updates():
    m = Model().eval()
    c, x = compiled(m), cresset.randn(2, 4)
    c(x).sum().backward()
    got = {name: p.grad.clone() for name, p in m.named_parameters()}
    m.zero_grad()
    m(x).sum().backward()
    assert all(close(p.grad, got[name]) for name, p in m.named_parameters())
    with cresset.no_grad():
        for p in m.parameters():
            p.mul_(0.5)
    assert close(c(x), m(x))
    assert c._compiled._counts()["captures"] == 1
    m.load_state_dict(Model().state_dict())
    assert close(c(x), m(x))


def test_what_changes_is_seen():
    """2, 3, 6, 7: parameters replaced, frozen, modules swapped, hooks, methods patched."""
    m = Model().eval()
    c, x = cresset.compile(m, backend="eager"), cresset.randn(2, 4)
    c._compiled._reset()

    def check():
        c._compiled._counts()
        got, want = c(x), m(x)
        assert close(got, want) and got.requires_grad == want.requires_grad
    check()
    del m.scale
    m.scale = nn.Parameter(cresset.full((3,), 2.0))
    check()
    m.scale.requires_grad_(False)
    check()
    m.layers[1] = nn.Linear(4, 4)
    check()
    m.layers.append(nn.Linear(4, 4))
    check()
    m.config["repeat"] = 1
    check()
    handle = m.layers[0].register_forward_hook(lambda module, args, out: out + 1)
    check()
    handle.remove()
    check()
    m.shift = cresset.ones(3)
    check()
    c._compiled._reset()
    m.layers[0].forward = lambda x: x * 3
    check()
    del m.layers[0].forward
    check()
    original = nn.Linear.forward
    try:
        nn.Linear.forward = lambda self, x: original(self, x) * 2
        check()
    finally:
        nn.Linear.forward = original
    check()
    m.eval().requires_grad_(False)
    check()


def test_optimized_module():
    m = Model()
    c = compiled(m)
    assert isinstance(c, OptimizedModule) and isinstance(c, nn.Module) and c._orig_mod is m
    assert set(c.state_dict()) == {"_orig_mod." + name for name in m.state_dict()}
    assert [name for name, _ in c.named_modules()][:2] == ["", "_orig_mod"]
    assert c.helper() == 5 and c.scale is m.scale and set(dir(m)) <= set(dir(c))
    c.extra = 4
    assert m.extra == 4 and "extra" not in c.__dict__
    del c.extra
    assert not hasattr(m, "extra")
    c.eval()
    assert not m.training
    assert len(compiled(nn.Sequential(nn.Linear(1, 1)))) == 1
    assert compiled(c)._orig_mod is m
    with pytest.raises(AttributeError, match="cannot be replaced"):
        c._orig_mod = m
    assert cresset.compile(m, disable=True) is m


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies(copied):
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    c, x = compiled(m), cresset.randn(3, 2)
    c(x)
    twin = copied(c)
    assert close(twin(x), m(x)) and twin._orig_mod is not m
    with cresset.no_grad():
        twin._orig_mod[0].weight.zero_()
    assert not close(twin(x), c(x)) and close(twin(x), twin._orig_mod(x))


# (ops of the graph) of the small twins of the benchmark models
TWINS = {"pointwise": 11, "mlp8": 16, "lstm": 5, "resnet18": 69, "vit": 189, "bert": 54, "gpt2": 75}


@pytest.mark.parametrize("name", TWINS)
def test_models(name):
    module, args = twins.make(cresset, name, small=True)
    module.eval()
    c = compiled(module)
    with cresset.no_grad():
        got, want = c(*args), module(*args)
    for a, b in zip(got, want) if isinstance(want, (tuple, list)) else [(got, want)]:
        assert close(a, b)
    entry, = c._compiled._entries()
    assert entry["ops"] == TWINS[name]
