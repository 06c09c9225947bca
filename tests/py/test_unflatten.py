"""X7: `cresset.export.unflatten`: the hierarchy, state, swapping, kept signatures, adapters, errors; against PyTorch's
own."""
import copy
import pathlib

import cresset
import cresset.export
import pytest
from cresset import nn
from cresset.export import FlatArgsAdapter, unflatten

RECORDED = sorted((pathlib.Path(__file__).resolve().parents[1] / "interop" / "recorded").glob("*.pt2"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("calls", cresset.zeros(()))

    def forward(self, x, *, scale=2.0):
        self.calls.add_(1)
        return self.linear(x).relu() * scale, x.sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(3, 2)
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        y, total = self.block(x)
        y, _ = self.block(y)
        for layer in self.layers:
            y, _ = layer(y)
        return {"y": self.head(y) @ self.head.weight, "total": total}


def exported(module, *args):
    return cresset.export.export(module, args)


# ---- the hierarchy ----

def test_the_hierarchy_and_the_state_are_the_modules():
    model = Model()
    ep = exported(model, cresset.randn(2, 3))
    module = unflatten(ep)
    assert [name for name, _ in module.named_modules()] == [name for name, _ in model.named_modules()]
    assert set(module.state_dict()) == set(model.state_dict())
    assert {name for name, _ in module.named_parameters()} == {name for name, _ in model.named_parameters()}
    module.load_state_dict(model.state_dict())
    x = cresset.randn(2, 3)
    got, want = module(x), copy.deepcopy(model)(x)
    assert got.keys() == want.keys() and cresset.allclose(got["y"], want["y"]) and cresset.equal(got["total"],
            want["total"])
    assert module.block.type_name().endswith("Block")


def test_state_is_the_modules_own():
    ep = exported(Model(), cresset.randn(2, 3))
    one, two = unflatten(ep), unflatten(ep)
    with cresset.no_grad():
        one.head.weight.zero_()
    assert not cresset.equal(one.head.weight, two.head.weight) and cresset.equal(two.head.weight,
            ep.state_dict["head.weight"])
    assert isinstance(one.head.weight, nn.Parameter) and one.head.weight.requires_grad


def test_buffers_count_on():
    """A module that is called twice counts twice; the program's own buffer does not change."""
    ep = exported(Model(), cresset.randn(2, 3))
    module = unflatten(ep)
    module(cresset.randn(2, 3))
    module(cresset.randn(2, 3))
    assert (module.block.calls.item() == 4 and module.layers._modules["1"].calls.item() == 2
            and ep.state_dict["block.calls"].item() == 0)


def test_mutations_that_are_outputs_are_written_back():
    ep = exported(Model(), cresset.randn(2, 3)).run_decompositions()
    module = unflatten(ep)
    module(cresset.randn(2, 3))
    assert module.block.calls.item() == 2


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight
        self.table = cresset.tensor([1.0, 2.0, 3.0])
        self.register_buffer("hidden", cresset.ones(3), persistent=False)

    def forward(self, x):
        return self.two(self.one(x)) * self.table + self.hidden


def test_tied_weights_constants_and_hidden_buffers():
    model = Tied()
    ep = exported(model, cresset.randn(2, 3))
    module = unflatten(ep)
    assert module.one.weight is module.two.weight
    assert "hidden" not in module.state_dict() and "hidden" in dict(module.named_buffers())
    x = cresset.randn(2, 3)
    assert cresset.allclose(module(x), model(x))


@pytest.mark.parametrize("path", [p for p in RECORDED if not p.name.startswith("namedtuple")],
                         ids=lambda path: path.stem)
def test_recorded_archives(path):
    """The same results as the flat program, state by the same names."""
    ep = cresset.export.load(str(path))
    module = unflatten(ep)
    args, kwargs = ep.example_inputs
    fresh = lambda: cresset.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, cresset.Tensor)
                                                   else leaf, (args, kwargs))
    assert set(module.state_dict()) == set(ep.state_dict)
    flat = []
    for callee in (module, ep.module(own_state=True)):
        cresset.manual_seed(3)
        given = fresh()
        flat.append(cresset.utils._pytree.tree_flatten((callee(*given[0], **given[1]), given))[0])
    assert len(flat[0]) == len(flat[1])
    for got, want in zip(*flat):
        assert cresset.equal(got, want) if isinstance(got, cresset.Tensor) else got == want
    assert "def forward(self" in module.print_readable(print_output=False)


# ---- swapping ----

def test_a_submodule_is_swapped():
    """Without a kept signature it is called with flat tensors."""
    ep = exported(Model(), cresset.randn(2, 3))
    module = unflatten(ep)
    x = cresset.randn(2, 3)
    before = module(x)

    class Doubled(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) * 2

    head = nn.Linear(3, 2)
    head.load_state_dict({"weight": module.head.weight, "bias": module.head.bias})
    module.head = Doubled(head)
    with pytest.raises(AttributeError):
        module(x)  # the root reads head.weight, too: what is put there must have it
    module.head.weight = head.weight
    assert cresset.allclose(module(x)["y"], before["y"] * 2)


class Nested(nn.Module):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("calls", cresset.zeros(()))

        def forward(self, pair, *, scale=1.0):
            self.calls.add_(1)
            return {"sum": self.layer(pair[0]) + pair[1] * scale, "n": 3, "other": (pair[0] * 2,)}

    def __init__(self):
        super().__init__()
        self.inner = Nested.Inner()
        self.last = nn.Linear(3, 3)

    def forward(self, x):
        first = self.inner((x, x + 1), scale=2.0)
        second = self.inner((first["sum"], first["other"][0]), scale=2.0)
        return self.last(second["sum"].sin()), second["n"]


def kept_archive(tmp_path):
    """An archive of PyTorch's whose signatures of `inner` were kept."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, pair, *, scale=1.0):
            self.calls.add_(1)
            return {"sum": self.layer(pair[0]) + pair[1] * scale, "n": 3, "other": (pair[0] * 2,)}

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = Inner(), torch.nn.Linear(3, 3)
        forward = Nested.forward

    model = Outer()
    x = torch.randn(2, 3)
    torch.export.save(torch.export.export(model, (x,), preserve_module_call_signature=("inner",)), tmp_path / "m.pt2")
    return model, cresset.export.load(str(tmp_path / "m.pt2"))


def test_kept_signatures_are_known(tmp_path):
    _, ep = kept_archive(tmp_path)
    kept = {entry.fqn: entry.signature for entry in ep.module_call_graph if entry.signature and entry.fqn}
    assert set(kept) == {"inner", "inner@1"}
    assert [argument.name for argument in kept["inner"].inputs][:2] == ["x", "add"]
    assert len(kept["inner"].outputs) == kept["inner"].out_spec.num_leaves == 3


def test_a_module_with_a_kept_signature_is_swapped(tmp_path):
    """It is called as it was, in both calls, with nested arguments and keywords."""
    model, ep = kept_archive(tmp_path)
    import torch
    module = unflatten(ep)
    x = torch.randn(2, 3)
    want, _ = model(x)
    got, three = module(cresset.from_dlpack(x))
    torch.testing.assert_close(torch.from_dlpack(got.detach()), want.detach())
    assert three == 3 and module.inner.calls.item() == 2
    seen = []

    class Other(Nested.Inner):
        def forward(self, pair, *, scale=1.0):
            seen.append(scale)
            return super().forward(pair, scale=scale)

    other = Other()
    other.load_state_dict(module.inner.state_dict())
    module.inner = other
    again, _ = module(cresset.from_dlpack(x))
    assert cresset.allclose(again, got) and seen == [2.0, 2.0] and other.calls.item() == 4


def test_signatures_kept_by_our_own_export(tmp_path):
    """Both calls of the module, here and in PyTorch."""
    model, x = Nested(), cresset.randn(2, 3)
    ep = cresset.export.export(model, (x,), preserve_module_call_signature=("inner",))
    assert {entry.fqn for entry in ep.module_call_graph if entry.signature} == {"", "inner", "inner@1"}
    module = unflatten(ep)
    want = copy.deepcopy(model)(x)[0]
    assert cresset.allclose(module(x)[0], want)
    module.inner = copy.deepcopy(model.inner)
    assert cresset.allclose(module(x)[0], want) and module.inner.calls.item() == 2
    cresset.export.save(ep, tmp_path / "m.pt2")
    again = unflatten(cresset.export.load(str(tmp_path / "m.pt2")))
    assert cresset.allclose(again(x)[0], want)
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    theirs = torch.export.unflatten(torch.export.load(tmp_path / "m.pt2"))
    torch.testing.assert_close(theirs(torch.from_dlpack(x))[0].detach(), torch.from_dlpack(want.detach()))


def test_a_kept_module_runs_alone(tmp_path):
    _, ep = kept_archive(tmp_path)
    module = unflatten(ep)
    x = cresset.randn(2, 3)
    result = module.inner((x, x), scale=2.0)
    assert set(result) == {"sum", "n", "other"} and cresset.allclose(result["sum"],
            module.inner.layer(x) + x * 2) and cresset.equal(result["other"][0], x * 2)
    with pytest.raises(ValueError, match="scale"):
        module.inner((x, x))


def test_hooks_and_copies():
    module = unflatten(exported(Model(), cresset.randn(2, 3)))
    seen = []
    module.layers._modules["0"].register_forward_hook(lambda m, args, output: seen.append(len(args)))
    x = cresset.randn(2, 3)
    twin = copy.deepcopy(module)
    a, b = module(x), twin(x)
    assert cresset.equal(a["y"], b["y"]) and len(seen) >= 1
    with cresset.no_grad():
        twin.head.weight.zero_()
    assert not cresset.equal(module(x)["y"], twin(x)["y"])


# ---- how it is called ----

def test_adapters():
    """Another structure of the arguments is fitted by an adapter, or refused."""
    class Sum(nn.Module):
        def forward(self, inputs):
            return inputs["a"] - inputs["b"]

    x, y = cresset.ones(2), cresset.zeros(2)
    ep = exported(Sum(), {"a": x, "b": y})
    with pytest.raises((TypeError, ValueError)):
        unflatten(ep)({"a": x, "b": y, "c": x})

    class Dropping(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            assert obj is not None and target_spec.num_leaves == 2 and input_spec.num_leaves == 3
            return input_args[:2]

    assert cresset.equal(unflatten(ep, Dropping())({"a": x, "b": y, "c": x}), x - y)

    class Wrong(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args

    with pytest.raises(TypeError, match="3 leaves, the exported program takes 2"):
        unflatten(ep, Wrong())({"a": x, "b": y, "c": x})
    with pytest.raises(TypeError):
        FlatArgsAdapter()


def test_inputs_are_checked():
    """X10"""
    class Scaled(nn.Module):
        def forward(self, x, factor):
            return x * factor

    module = unflatten(exported(Scaled(), cresset.ones(2, 3), 2.0))
    assert cresset.equal(module(cresset.ones(2, 3), 2.0), cresset.full((2, 3), 2.0))
    for args, error, text in (((cresset.ones(3, 3), 2.0), RuntimeError, "'x': size 2 expected in dimension 0, 3 given"),
                              ((cresset.ones(2), 2.0), RuntimeError, "2 dimensions expected"),
                              ((cresset.ones(2, 3), 3.0), ValueError, "'factor' was specialised to 2.0"),
                              ((3, 2.0), TypeError, "'x' is a tensor, not int")):
        with pytest.raises(error, match=text):
            module(*args)
    module.check_input_constraints = False
    assert module(cresset.ones(4, 3), 2.0).shape == (4, 3)


def test_dynamic_sizes_are_checked():
    path = next(p for p in RECORDED if p.name == "dynamic_batch.training.pt2")
    module = unflatten(cresset.export.load(str(path)))
    assert module(cresset.randn(5, 8))[1] == 5
    with pytest.raises(RuntimeError, match=r"'x': dimension 0 is 129, outside VR\[1, 128\]"):
        module(cresset.randn(129, 8))


def test_errors_name_the_module():
    module = unflatten(exported(Model(), cresset.randn(2, 3)))
    with pytest.raises(NotImplementedError, match="'unused' was not called"):
        module.unused(cresset.ones(1))
    with pytest.raises(TypeError, match="'head' takes the 1 tensors .*preserve_module_call_signature"):
        module.head(cresset.ones(1), cresset.ones(1))
    with pytest.raises(TypeError, match="ExportedProgram, not Linear"):
        unflatten(nn.Linear(1, 1))
    module.layers._modules["0"] = nn.Identity()
    module.layers._modules["1"] = nn.Identity()
    module(cresset.randn(2, 3))  # one tensor in, one out: any module fits

    class Three(nn.Module):
        def forward(self, x):
            return x, x, x

    module.block = Three()
    with pytest.raises(RuntimeError, match="'block' gave 3 values where the graph uses 2: mul, sum_1"):
        module(cresset.randn(2, 3))


def test_readable_code():
    text = unflatten(exported(Model(), cresset.randn(2, 3))).print_readable(print_output=False)
    assert "class UnflattenedModule(cresset.nn.Module):" in text and "class head(" in text
    assert "self.head(" in text and "cresset.ops.aten.linear.default(" in text and 'getattr(self.layers, "0")(' in text
    compile(text, "code", "exec")


# ---- against PyTorch ----

PROGRAMS = ["conv_bn_relu_train", "multihead_masked", "lstm_two_layers", "nested_dict", "counting", "while_loop"]


@pytest.mark.parametrize("path", [p for p in RECORDED if p.name.split(".")[0] in PROGRAMS], ids=lambda path: path.stem)
def test_as_pytorch_unflattens(path):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    theirs, ours = torch.export.unflatten(torch.export.load(path)), unflatten(cresset.export.load(str(path)))
    # second calls and subgraphs are no modules here
    plain = lambda names: {name for name in names if "@" not in name and "_graph_" not in name}
    assert plain(name for name, _ in theirs.named_modules()) == {name for name, _ in ours.named_modules()}
    assert plain(theirs.state_dict()) == set(ours.state_dict())
    args, kwargs = torch.export.load(path).example_inputs
    here = torch.utils._pytree.tree_map(lambda leaf: cresset.from_dlpack(leaf.clone()) if isinstance(leaf,
            torch.Tensor) else leaf, (args, kwargs))
    with torch.no_grad():
        want = torch.utils._pytree.tree_flatten(theirs(*args, **kwargs))[0]
    got = cresset.utils._pytree.tree_flatten(ours(*here[0], **here[1]))[0]
    assert len(got) == len(want)
    for a, b in zip(got, want):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(torch.from_dlpack(a.detach()), b.detach(), rtol=1e-4, atol=1e-5)
        else:
            assert a == b
