"""N2: Module: what it keeps, state dicts, hooks, walks, conversions, copies. Needs no oracle."""
import copy
import pickle
import subprocess
import sys
import textwrap
import warnings
from collections import OrderedDict

import pytest

import cresset
from cresset import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(cresset.ones(4))
        self.register_buffer("shift", cresset.zeros(4))
        self.register_buffer("cache", cresset.zeros(2), persistent=False)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.plain = 3

    def forward(self, x, *, times=1):
        x = self.norm(self.first(x)) * self.scale + self.shift
        for layer in self.layers:
            x = layer(x)
        return x * times


KEYS = ["scale", "shift", "first.weight", "first.bias", "norm.weight", "norm.bias", "norm.running_mean",
        "norm.running_var", "norm.num_batches_tracked",
        "layers.0.weight", "layers.0.bias"]


# ---- what a module keeps ----

def test_attributes():
    net = Net()
    assert list(net.state_dict()) == KEYS
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "norm.weight",
                                                      "norm.bias", "layers.0.weight", "layers.0.bias"]
    assert [n for n, _ in net.named_buffers()] == ["shift", "cache", "norm.running_mean", "norm.running_var",
                                                   "norm.num_batches_tracked"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "norm", "layers", "layers.0", "layers.1"]
    assert [n for n, _ in net.named_children()] == ["first", "norm", "layers"]
    assert {"first", "scale", "shift", "plain", "forward"} <= set(dir(net)) and "0" not in dir(net.layers)
    net.first = None
    assert net.first is None and "first" in net._modules
    del net.first, net.scale, net.shift
    assert not hasattr(net, "first") and "scale" not in net.state_dict()
    net.plain = nn.Parameter(cresset.ones(1))
    assert "plain" not in net.__dict__ and "plain" in dict(net.named_parameters())
    net.plain = None
    assert net.plain is None


def test_shared_members_are_listed_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, layer)
    assert len(list(net.parameters())) == 2 and len(list(net.modules())) == 2
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_buffers():
    net = nn.Module()
    net.a = nn.Buffer(cresset.ones(2))
    net.b = nn.Buffer(cresset.ones(2), persistent=False)
    assert isinstance(net.a, nn.Buffer) and list(net.state_dict()) == ["a"]
    assert [n for n, _ in net.named_buffers()] == ["a", "b"]
    net.b = cresset.zeros(3)
    assert net.b.shape == (3,) and "b" in net._non_persistent_buffers_set
    with pytest.raises(TypeError, match="'b'"):
        net.b = 3


@pytest.mark.parametrize("change, error, fact", [
    (lambda net: net.register_parameter("scale.x", None), KeyError, "'.'"),
    (lambda net: net.register_parameter("", None), KeyError, "empty"),
    (lambda net: net.register_parameter("plain", None), KeyError, "plain"),
    (lambda net: net.register_parameter("p", cresset.ones(2)), TypeError, "Parameter"),
    (lambda net: net.register_buffer("first", None), KeyError, "first"),
    (lambda net: net.register_buffer("b", 3), TypeError, "int"),
    (lambda net: net.register_buffer(3, None), TypeError, "str"),
    (lambda net: net.add_module("m", 3), TypeError, "int"),
    (lambda net: net.add_module("plain", nn.ReLU()), KeyError, "plain"),
    (lambda net: net.add_module("a.b", nn.ReLU()), KeyError, "'.'"),
    (lambda net: setattr(net, "scale", cresset.ones(4)), TypeError, "'scale'"),
    (lambda net: setattr(net, "first", 3), TypeError, "'first'"),
    (lambda net: net.nothing, AttributeError, "'Net' object has no attribute 'nothing'"),
    (lambda net: net.train(3), ValueError, "bool"),
    (lambda net: nn.Module()(1), NotImplementedError, "forward"),
    (lambda net: nn.Module(3), TypeError, "positional"),
    (lambda net: nn.Module(a=3), TypeError, "'a'"),
    (lambda net: net.to(cresset.int64), TypeError, "int64"),
    (lambda net: net.cuda(), RuntimeError, "CPU"),
    (lambda net: nn.Parameter(3), TypeError, "int"),
])
def test_errors(change, error, fact):
    with pytest.raises(error) as raised:
        change(Net())
    assert fact in str(raised.value)


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.x = value
            super().__init__()

    for value in (nn.Parameter(cresset.ones(1)), nn.ReLU(), nn.Buffer(cresset.ones(1))):
        with pytest.raises(AttributeError, match="__init__"):
            Early(value)
    assert Early(3).x == 3


def test_paths():
    net = Net()
    assert net.get_submodule("layers.0") is net.layers[0] and net.get_submodule("") is net
    assert (net.get_parameter("layers.0.bias") is net.layers[0].bias
            and net.get_buffer("norm.running_mean") is net.norm.running_mean)
    net.set_submodule("layers.1", nn.GELU())
    assert isinstance(net.layers[1], nn.GELU)
    for bad in (lambda: net.get_submodule("layers.7"), lambda: net.get_submodule("scale"),
                lambda: net.get_parameter("shift"), lambda: net.get_buffer("scale"),
                lambda: net.get_parameter("none"), lambda: net.set_submodule("x.y", nn.GELU()),
                lambda: net.set_submodule("scale", nn.GELU()),
                lambda: net.set_submodule("gone", nn.GELU(), strict=True)):
        with pytest.raises(AttributeError):
            bad()
    with pytest.raises(ValueError):
        net.set_submodule("", nn.GELU())


# ---- state dicts ----

def test_state_dict_shares_memory_and_loads():
    a, b = Net(), Net()
    state = a.state_dict()
    assert state["scale"]._storage_id() == a.scale._storage_id() and not state["scale"].requires_grad
    assert a.state_dict(keep_vars=True)["scale"] is a.scale
    assert a.state_dict(prefix="net.")["net.scale"].tolist() == a.scale.tolist()
    result = b.load_state_dict(state)
    assert str(result) == "<All keys matched successfully>" and not result.missing_keys
    assert (b.first.weight.tolist() == a.first.weight.tolist()
            and b.first.weight._storage_id() != a.first.weight._storage_id())
    with pytest.warns(FutureWarning):
        assert list(a.state_dict(OrderedDict(), "p."))[0] == "p.scale"


def test_load_strictness():
    net, state = Net(), Net().state_dict()
    del state["scale"]
    state["norm.extra"] = cresset.ones(1)
    state["first.weight"] = cresset.ones(5, 3)
    with pytest.raises(RuntimeError) as raised:
        net.load_state_dict(state)
    for fact in ("Net", 'missing keys: "scale"', 'unexpected keys: "norm.extra"', "size mismatch for first.weight",
                 "(5, 3)", "(4, 3)"):
        assert fact in str(raised.value)
    with pytest.raises(RuntimeError, match="size mismatch for first.weight"):  # strict=False is about names
        net.load_state_dict(state, strict=False)
    del state["first.weight"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale", "first.weight"] and result.unexpected_keys == ["norm.extra"]
    with pytest.raises(TypeError):
        net.load_state_dict([1])
    with pytest.raises(RuntimeError, match="not a tensor"):
        net.load_state_dict({**Net().state_dict(), "scale": "text"})


def test_load_assign():
    net, state = Net(), Net().state_dict()
    state["scale"] = state["scale"].double()
    net.scale.requires_grad = False
    net.load_state_dict(state, assign=True)
    assert net.scale.dtype is cresset.float64 and isinstance(net.scale, nn.Parameter) and not net.scale.requires_grad
    assert net.first.weight._storage_id() == state["first.weight"]._storage_id() and net.first.weight.requires_grad
    assert net.shift is state["shift"]


def test_load_from_numpy_and_dlpack():
    numpy = pytest.importorskip("numpy", reason="the state comes from NumPy")
    net = nn.Linear(2, 1)
    net.load_state_dict({"weight": numpy.array([[1, 2]], dtype="float32"), "bias": numpy.array([3], dtype="float32")})
    assert net.weight.tolist() == [[1.0, 2.0]] and net(cresset.ones(2)).tolist() == [6.0]


def test_versions_of_batch_norm():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    net = nn.BatchNorm1d(2)
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        net.load_state_dict(state)
    del state._metadata  # as old checkpoints are
    net.load_state_dict(state)


def test_extra_state():
    class Counted(nn.Linear):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    a, b = Counted(1, 1), Counted(1, 1)
    a.count = 7
    assert list(a.state_dict()) == ["weight", "bias", "_extra_state"]
    b.load_state_dict(a.state_dict())
    assert b.count == 7
    with pytest.raises(RuntimeError, match='unexpected keys: "_extra_state"'):
        nn.Linear(1, 1).load_state_dict(a.state_dict())
    with pytest.raises(RuntimeError, match='missing keys: "_extra_state"'):
        b.load_state_dict(nn.Linear(1, 1).state_dict())


def test_state_dict_hooks():
    net, seen = nn.Sequential(nn.Linear(1, 1)), []
    net.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append(("pre", prefix, keep_vars)))
    net.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.update(added=cresset.ones(1)))
    net[0]._register_state_dict_hook(lambda module, state, prefix,
                                     metadata: seen.append(("inner", prefix, metadata["version"])))
    assert list(net.state_dict()) == ["0.weight", "0.bias", "added"] and seen == [("pre", "", False),
            ("inner", "0.", 1)]
    net.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="None"):
        net.state_dict()


def test_load_hooks():
    net, state = nn.Linear(1, 1), nn.Linear(1, 1).state_dict()
    state["old"] = state.pop("weight")

    def rename(module, entries, prefix, metadata, strict, missing, unexpected, errors):
        entries[prefix + "weight"] = entries.pop(prefix + "old")

    handle = net.register_load_state_dict_pre_hook(rename)
    net.load_state_dict(state)
    handle.remove()
    post = net.register_load_state_dict_post_hook(lambda module, keys: (keys.missing_keys.clear(),
            keys.unexpected_keys.clear())[2:] or None)
    assert net.load_state_dict(state) == ([], [])
    post.remove()
    with pytest.raises(RuntimeError, match="old"):
        net.load_state_dict(state)


# ---- hooks ----

def test_forward_hooks():
    net, seen = nn.Linear(2, 2), []
    x = cresset.ones(2)
    plain = net(x)
    first = net.register_forward_hook(lambda module, args, output: seen.append("first"))
    net.register_forward_hook(lambda module, args, output: output * 2)
    net.register_forward_hook(lambda module, args, output: seen.append("prepended"), prepend=True)
    assert cresset.equal(net(x), plain * 2) and seen == ["prepended", "first"]
    first.remove()
    net(x)
    assert seen == ["prepended", "first", "prepended"]
    net.register_forward_pre_hook(lambda module, args: args[0] * 0)
    assert cresset.equal(net(x), net.bias * 2)


def test_hooks_with_kwargs():
    net, seen = Net().eval(), []
    x = cresset.ones(2, 3)
    plain = net(x)
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {"times": kwargs["times"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, kwargs, output: seen.append(kwargs), with_kwargs=True)
    assert cresset.equal(net(x, times=2), plain * 3) and seen == [{"times": 3}]
    net.register_forward_pre_hook(lambda module, args, kwargs: 5, with_kwargs=True)
    with pytest.raises(RuntimeError, match="kwargs"):
        net(x, times=2)


def test_hooks_that_are_always_called():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    net, seen = Fails(), []
    net.register_forward_hook(lambda module, args, output: seen.append("skipped"))
    net.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert seen == [None]


def test_global_hooks():
    from cresset.nn.modules import module as hooks
    seen, net = [], nn.Sequential(nn.ReLU())
    with hooks.register_module_forward_pre_hook(lambda module, args: seen.append(("pre", type(module).__name__))), \
            hooks.register_module_forward_hook(lambda module, args,
                                               output: seen.append(("post", type(module).__name__))):
        net(cresset.ones(1))
    assert seen == [("pre", "Sequential"), ("pre", "ReLU"), ("post", "ReLU"), ("post", "Sequential")]
    net(cresset.ones(1))
    assert len(seen) == 4
    with hooks.register_module_parameter_registration_hook(lambda module, name, param: seen.append(name)), \
            hooks.register_module_module_registration_hook(lambda module, name, child: seen.append(name)), \
            hooks.register_module_buffer_registration_hook(lambda module, name, buffer: seen.append(name)):
        made = nn.Module()
        made.p, made.m = nn.Parameter(cresset.ones(1)), nn.ReLU()
        made.register_buffer("b", None)
    assert seen[4:] == ["p", "m", "b"]


def test_export_stack(monkeypatch):
    """The seam of export: enter and leave frame every call, hooks included, also when a call raises."""
    from cresset.nn.modules import module as seam

    class Stack:
        def __init__(self):
            self.seen = []

        def enter(self, module):
            self.seen.append("+" + type(module).__name__)

        def leave(self, module):
            self.seen.append("-" + type(module).__name__)

    net, stack = nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), Stack()
    net[0].register_forward_hook(lambda *args: stack.seen.append("hook"))
    monkeypatch.setattr(seam, "_exporting", lambda: stack)
    net(cresset.ones(2))
    assert stack.seen == ["+Sequential", "+ReLU", "hook", "-ReLU", "+Linear", "-Linear", "-Sequential"]
    stack.seen.clear()
    with pytest.raises(RuntimeError):
        net(cresset.ones(3))
    assert stack.seen[-2:] == ["-Linear", "-Sequential"]


# ---- modes, conversions, copies ----

def test_modes_and_apply():
    net = Net()
    assert net.training and not net.eval().norm.training and net.train().norm.training
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "BatchNorm1d", "Linear", "ReLU", "ModuleList", "Net"]
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_conversions():
    net = Net()
    weight = net.first.weight
    assert net.double() is net and net.first.weight is weight and weight.dtype is cresset.float64
    assert net.norm.num_batches_tracked.dtype is cresset.int64 and net.cache.dtype is cresset.float64
    for convert, dtype in ((net.half, cresset.float16), (net.bfloat16, cresset.bfloat16), (net.float, cresset.float32)):
        convert()
        assert weight.dtype is dtype and net.shift.dtype is dtype
    net.to("cpu", cresset.float64).cpu()
    assert weight.dtype is cresset.float64
    net.to(cresset.ones(1, dtype=cresset.float16))
    assert weight.dtype is cresset.float16
    net.to(dtype=cresset.float32)
    assert net(cresset.ones(2, 3)).dtype is cresset.float32
    image = nn.Conv2d(2, 2, 3).to(memory_format=cresset.channels_last)
    assert image.weight.is_contiguous(memory_format=cresset.channels_last) and image.bias.dtype is cresset.float32
    assert nn.Linear(2, 3, device="meta").to_empty(device="cpu").weight.shape == (3, 2)


def test_copies():
    net = Net()
    net.tied = net.scale
    other = copy.deepcopy(net)
    assert other.first.weight.tolist() == net.first.weight.tolist() and other.first.weight is not net.first.weight
    assert other.tied is other.scale and isinstance(other.scale, nn.Parameter) and other.scale.requires_grad
    with cresset.no_grad():
        other.scale.fill_(5)
    assert net.scale.tolist() == [1.0] * 4
    back = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))))
    assert isinstance(back[0].weight,
                      nn.Parameter) and back[0].weight.requires_grad and list(back.state_dict())[0] == "0.weight"
    param = nn.Parameter(cresset.ones(2), requires_grad=False)
    param.note = "kept"
    loaded = pickle.loads(pickle.dumps(param))
    assert isinstance(loaded, nn.Parameter) and loaded.note == "kept" and not loaded.requires_grad
    assert repr(param) == "Parameter containing:\ntensor([1., 1.])"


def test_repr():
    assert repr(Net()) == textwrap.dedent("""\
        Net(
          (first): Linear(in_features=3, out_features=4, bias=True)
          (norm): BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
          (layers): ModuleList(
            (0): Linear(in_features=4, out_features=4, bias=True)
            (1): ReLU()
          )
        )""")


# ---- containers ----

def test_sequential():
    net = nn.Sequential(OrderedDict(a=nn.Linear(2, 2), b=nn.ReLU()))
    assert net.a is net[0] and net[-1] is net.b and isinstance(net[:1], nn.Sequential) and len(net[:1]) == 1
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.append(nn.Tanh()).insert(1, nn.Sigmoid()).extend([nn.GELU()])
    assert [type(m).__name__ for m in net] == ["Linear", "Sigmoid", "ReLU", "Tanh", "GELU"]
    assert isinstance(net.pop(1), nn.Sigmoid) and list(net._modules) == ["0", "1", "2", "3"]
    del net[1:3]
    assert [type(m).__name__ for m in net + nn.Sequential(nn.ReLU())] == ["Linear", "GELU", "ReLU"]
    assert len(net * 3) == 6
    net[1] = nn.ReLU()
    assert isinstance(net[1], nn.ReLU)
    with pytest.raises(IndexError):
        net[2]
    with pytest.raises(ValueError):
        net * 0
    with pytest.raises(TypeError):
        nn.Sequential(3)


def test_lists_and_dicts():
    items = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    items += [nn.GELU()]
    items.insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in items] == ["ReLU", "Sigmoid", "Tanh", "GELU"] and isinstance(items[1:],
            nn.ModuleList) and len(items[1:]) == 3
    assert isinstance(items.pop(-1), nn.GELU) and len(items + [nn.ReLU()]) == 4
    del items[0]
    assert isinstance(items[0], nn.Sigmoid)
    with pytest.raises(TypeError):
        items.extend(nn.ReLU)
    table = nn.ModuleDict({"a": nn.ReLU()})
    table.update({"b": nn.Tanh()})
    assert "b" in table and list(table.keys()) == ["a", "b"] and isinstance(table.pop("a"), nn.ReLU) and len(table) == 1
    with pytest.raises(ValueError):
        table.update([["x"]])
    params = nn.ParameterList([cresset.ones(1), nn.Parameter(cresset.ones(2))])
    params.append(cresset.ones(3))
    assert [tuple(p.shape) for p in params] == [(1,), (2,), (3,)]
    assert all(isinstance(p, nn.Parameter) for p in params) and list(params.state_dict()) == ["0", "1", "2"]
    named = nn.ParameterDict({"x": cresset.ones(1)})
    named["y"] = nn.Parameter(cresset.ones(2))
    assert list(named.keys()) == ["x",
            "y"] and "x" in named and named.get("z") is None and list((named | {"z": cresset.ones(1)}).keys()) == ["x",
                    "y", "z"]
    assert named.pop("x").shape == (1,) and list(named.state_dict()) == ["y"]


# ---- lazy modules, imports ----

def test_lazy_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
        other = nn.LazyLinear(2)
    assert isinstance(net[3].weight, nn.UninitializedParameter)
    with pytest.raises(RuntimeError, match="size"):
        net[3].weight.shape
    net(cresset.ones(2, 3, 5, 5))
    assert type(net[3]) is nn.Linear and type(net[1]) is nn.BatchNorm2d and net[3].in_features == 36
    assert type(net[3].weight) is nn.Parameter and not net[3]._forward_pre_hooks
    other.load_state_dict(net[3].state_dict())
    assert other.weight.shape == (2, 36)


def test_import_is_lazy():
    code = ("import sys, cresset; assert not any(m.startswith('cresset.nn') for m in sys.modules); cresset.nn; assert "
            "'cresset.nn' in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)
    for text in ("import cresset.nn as nn; nn.Linear", "import cresset.nn.functional as F; F.relu",
                 "from cresset.nn import Linear", "from cresset.nn.utils import weight_norm"):
        subprocess.run([sys.executable, "-c", text], check=True)
