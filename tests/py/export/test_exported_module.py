"""X2, X9: the module of a program is an nn.Module like any other: state, conversions, hooks, copies, nesting, and
export again; beside PyTorch's."""
import copy
import io
import pickle
import warnings

import export_programs as programs
import pytest

import cresset
from cresset import nn
from cresset.export import Dim, SpecViolationError, export, load, save
from cresset.export.graph_signature import InputKind


def model(torch):
    nn = torch.nn

    class Sub(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("scale", torch.ones(3), persistent=False)

        def forward(self, x):
            self.count.add_(1)
            return self.linear(x) * self.scale

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.sub, self.constant = Sub(), torch.arange(3.0)

        def forward(self, x, *, shift=None):
            return self.sub(x) + self.constant
    made = Model()
    with torch.no_grad():
        made.sub.linear.weight.copy_(torch.arange(9.0).reshape(3, 3) / 8)
        made.sub.linear.bias.fill_(0.5)
    return made


def outer(torch, inner):
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = inner, torch.nn.Identity()

        def forward(self, x):
            return self.last(self.inner(x) * 2)
    return Outer()


def attempt(call):
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - its class is the answer
        return type(error).__name__


def questions(torch):
    """What one would ask the module of a program; the answers are the same in both libraries."""
    x, found = torch.ones(2, 3), {}

    def ask(name, call):
        found[name] = attempt(call)

    def fresh():
        original = model(torch)
        ep = torch.export.export(original, (x,))
        return original, ep, ep.module()
    original, ep, m = fresh()
    ask("is a module", lambda: isinstance(m, torch.nn.Module))
    ask("state_dict", lambda: sorted(m.state_dict()))
    ask("parameters", lambda: [name for name, _ in m.named_parameters()])
    ask("buffers", lambda: [name for name, _ in m.named_buffers()])
    ask("modules", lambda: [name for name, _ in m.named_modules() if "guard" not in name])
    ask("classes", lambda: [type(value).__name__ for value in m.parameters()])
    ask("live parameter", lambda: m.sub.linear.weight is original.sub.linear.weight
        and m.sub.linear.weight is ep.state_dict["sub.linear.weight"])
    ask("live buffer", lambda: m.sub.count is original.sub.count)
    ask("live constant", lambda: m.constant is original.constant)
    ask("train", m.train)
    ask("eval", m.eval)
    ask("training", lambda: m.training)
    ask("call", lambda: m(x).tolist())
    ask("counted", lambda: [original.sub.count.item(), m.sub.count.item(), ep.module().sub.count.item()])
    ask("load",
        lambda: str(m.load_state_dict({name: torch.ones_like(value) for name, value in m.state_dict().items()})))
    ask("loaded", lambda: [m(x).tolist(), original(x).tolist(), original.sub.linear.weight.sum().item()])
    ask("load wrong", lambda: m.load_state_dict({"sub.count": torch.zeros(1)}))
    ask("assign", lambda: setattr(m.sub.linear, "weight", torch.nn.Parameter(torch.zeros(3, 3))))
    ask("assigned", lambda: [m(x).tolist(), ep.module()(x).tolist()])
    ask("swap", lambda: setattr(m.sub, "linear", torch.nn.Linear(3, 3, bias=False)))
    ask("swapped", lambda: list(m(x).shape))
    original, ep, m = fresh()
    ask("hook", lambda: m.register_forward_hook(lambda module, args, output: output * 0 + 7) and m(x).tolist())
    ask("pre-hook", lambda: ep.module().register_forward_pre_hook(lambda module, args: (args[0] * 0,)) and None)
    ask("freeze", lambda: [value.requires_grad for value in ep.module().requires_grad_(False).parameters()])
    ask("to", lambda: str(m.to(torch.float64)(x.double()).dtype).split(".")[1])
    ask("another of the program", lambda: str(ep.module()(x.double()).dtype).split(".")[1])
    ask("half", lambda: str(m.half().sub.linear.weight.dtype).split(".")[1])
    original, ep, m = fresh()
    twin = copy.deepcopy(m)
    ask("copy", lambda: [twin(x).tolist(), twin.sub.count.item(), m.sub.count.item(),
                         twin.sub.linear.weight is m.sub.linear.weight])
    ask("copy of the program", lambda: [copy.deepcopy(ep).module()(x).tolist(), ep.state_dict["sub.count"].item()])
    nested = outer(torch, ep.module())
    ask("nested", lambda: nested(x).tolist())
    ask("nested state", lambda: sorted(nested.state_dict()))
    ask("nested eval", nested.eval)
    ask("nested export", lambda: [node.name for node in torch.export.export(nested, (x,)).graph.nodes])
    ask("part", lambda: ep.module().get_submodule("sub.linear") is None)
    ask("put into state_dict", lambda: ep.state_dict.__setitem__("sub.linear.weight",
                                                                 torch.nn.Parameter(torch.zeros(3, 3))))
    ask("in the next module", lambda: ep.module()(x).tolist())
    for name, change in TAMPERED.items():
        changed = torch.export.export(model(torch), (x,))
        change(torch, changed)
        ask(name, lambda: changed.validate() or "fits")
    return found


TAMPERED = {
    "nothing": lambda t, ep: None,
    "name of an input": lambda t, ep: setattr(ep.graph_signature.input_specs[0].arg, "name", "other"),
    "target of an input": lambda t, ep: setattr(ep.graph_signature.input_specs[0], "target", "other"),
    "kind of an input": lambda t, ep: setattr(ep.graph_signature.input_specs[0], "kind",
                                              t.export.graph_signature.InputKind.BUFFER),
    "inputs": lambda t, ep: ep.graph_signature.input_specs.pop(),
    "outputs": lambda t, ep: ep.graph_signature.output_specs.append(ep.graph_signature.output_specs[0]),
    "name of an output": lambda t, ep: setattr(ep.graph_signature.output_specs[0].arg, "name", "other"),
    "missing parameter": lambda t, ep: ep.state_dict.pop("sub.linear.weight"),
    "missing buffer": lambda t, ep: ep.state_dict.pop("sub.count"),
    "missing constant": lambda t, ep: ep.constants.pop("constant"),
    "class of a parameter": lambda t, ep: ep.state_dict.__setitem__("sub.linear.weight", t.ones(3, 3)),
}


def test_as_pytorch_answers(oracle):
    def theirs(torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return questions(torch)
    ours, wanted = questions(cresset), oracle("questions", theirs)
    assert ours == wanted


def loaded(ep):
    content = io.BytesIO()
    save(ep, content)
    content.seek(0)
    return load(content)


def test_loaded_programs():
    x = cresset.ones(2, 3)
    ep = loaded(export(model(cresset), (x,)))
    m = ep.module()
    expected = model(cresset)(x)
    assert cresset.equal(m(x), expected)
    assert ([type(value) for value in m.parameters()] == [nn.Parameter] * 2
            and m.sub.linear.weight is ep.state_dict["sub.linear.weight"])
    assert m.sub.count.item() == 1 and ep.state_dict["sub.count"].item() == 1  # the call before anybody asked counts
    with cresset.no_grad():
        m.sub.linear.weight.zero_()
    assert cresset.equal(m(x), cresset.tensor([0.5, 1.5, 2.5]).expand(2, 3)) and cresset.equal(ep.module()(x), m(x))
    ep.validate()


def test_tied_weights_stay_tied():
    m, args, kwargs, _ = programs.PROGRAMS["tied_weights"](cresset)
    ep = export(m, args, kwargs)
    first, second = (value for _, value in ep.module().named_parameters(remove_duplicate=False))
    assert first is second
    first, second = (value for _, value in loaded(ep).module().named_parameters(remove_duplicate=False))
    assert first.data_ptr() == second.data_ptr()  # two objects on one memory, as PyTorch loads them


def test_own_state():
    x = cresset.ones(2, 3)
    for ep in (export(model(cresset), (x,)), loaded(export(model(cresset), (x,)))):
        own = ep.module(own_state=True)
        own(x), own(x)
        assert own.sub.count.item() == 2 and ep.module().sub.count.item() == 0
        assert own.sub.linear.weight is ep.state_dict["sub.linear.weight"]


def test_tensors_that_do_not_fit():
    x = cresset.ones(2, 3)
    m = export(model(cresset), (x,)).module()
    m.sub.linear.weight = nn.Parameter(cresset.ones(2, 2))
    with pytest.raises((RuntimeError, ValueError), match="sub.linear.weight"):
        m(x)
    del m.sub.linear.weight
    with pytest.raises(AttributeError, match="sub.linear.weight"):
        m(x)


def test_tampered_state_says_what():
    x = cresset.ones(2, 3)
    for key, value, message in (("sub.linear.weight", nn.Parameter(cresset.ones(2, 2)),
                                 r"\[2, 2\]; the program was exported with"),
                                ("sub.linear.bias", nn.Parameter(cresset.ones(3, dtype=cresset.float64)), "float64"),
                                ("sub.count", None, "sub.count")):
        ep = export(model(cresset), (x,))
        ep.state_dict[key] = value
        with pytest.raises(SpecViolationError, match=message):
            ep.validate()
    ep = export(model(cresset), (x,))
    ep.graph_signature.input_specs[0].kind = InputKind.BUFFER
    with pytest.raises(SpecViolationError, match="p_sub_linear_weight.*kind"):
        ep._validate()


# ---- pickles ----

class Pickled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("count", cresset.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return self.linear(x)


def doubled(module, args, output):
    return output * 2


def test_pickle():
    x = cresset.ones(3, 2)
    ep = export(Pickled(), (x,), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    again = pickle.loads(pickle.dumps(ep))
    assert str(again) == str(ep) and cresset.equal(again.module()(x),
                                                   ep.module()(x)) and again.range_constraints == ep.range_constraints
    m = ep.module()
    m.register_forward_hook(doubled)
    m.linear.bias = nn.Parameter(cresset.ones(2))
    m.note = "kept"
    with cresset.no_grad():
        m.count.fill_(5)
    twin = pickle.loads(pickle.dumps(m))
    assert cresset.equal(twin(x), m(x)) and twin.note == "kept" and twin.count.item() == m.count.item() == 6
    assert cresset.equal(twin.linear.bias, cresset.ones(2)) and twin.linear.weight is not m.linear.weight
    nested = pickle.loads(pickle.dumps(nn.Sequential(ep.module(), nn.ReLU())))
    assert cresset.equal(nested(x), ep.module()(x).relu())
    m.extra = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(m)


# ---- export again ----

def described(ep):
    return [(node.name, str(node.target), str(node.args), node.meta.get("stack_trace"),
             node.meta.get("nn_module_stack"), node.meta.get("torch_fn"))
            for node in ep.graph.nodes]


UNNAMED = {"named_tuples", "results_of_several_parts", "names_of_builtins"}  # classes that have no name in an archive
# calls that the exporter makes itself have other names the second time
RENAMED = {"tensors_made_inside", "buffer_assigned", "no_grad_region"}


@pytest.mark.parametrize("name", list(programs.PROGRAMS))
def test_exported_again_it_tells_the_same(name):
    """Nodes, module paths, classes, the user's lines and functions."""
    module, args, kwargs, dynamic_shapes = programs.PROGRAMS[name](cresset)
    first = export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    for ep in (first, loaded(first)) if name not in UNNAMED else (first,):
        again, before = described(export(ep.module(), args, kwargs, dynamic_shapes=dynamic_shapes)), described(ep)
        if name in RENAMED or (ep is not first and name == "indexing"):
            again, before = ([(target, lines, modules) for _, target, _, lines, modules, _ in nodes]
                             for nodes in (again, before))
        assert again == before


def test_nested_and_exported_again():
    x = cresset.ones(2, 3)
    inner = export(model(cresset), (x,))
    ep = export(outer(cresset, inner.module()), (x,))
    assert cresset.equal(ep.module()(x), inner.module()(x) * 2)
    assert [spec.target for spec in ep.graph_signature.input_specs if spec.target] == ["inner.sub.linear.weight",
            "inner.sub.linear.bias", "inner.sub.count",
                                                                                      "inner.sub.scale",
            "inner.constant"]
    linear = next(node for node in ep.graph.nodes if node.name == "linear")
    stack = list(linear.meta["nn_module_stack"].values())
    assert [path for path, _ in stack] == ["", "inner", "inner.sub", "inner.sub.linear"]
    assert [kind.rsplit(".", 1)[1] for _, kind in stack] == ["Outer", "Model", "Sub", "Linear"]
    lines = linear.meta["stack_trace"].splitlines()[1::2]
    assert [line.strip() for line in lines] == ["return self.last(self.inner(x) * 2)",
            "return self.sub(x) + self.constant", "return self.linear(x) * self.scale",
                                                "return F.linear(input, self.weight, self.bias)"]
    again = export(nn.Sequential(ep.module()), (x,))
    assert ([path for path, _ in next(node for node in again.graph.nodes
            if node.name == "linear").meta["nn_module_stack"].values()][-1] == "0.inner.sub.linear")
    assert cresset.equal(cresset.export.unflatten(again)(x), again.module()(x))


def test_hooks_of_parts_run_in_an_export():
    """A module of a program that is exported again calls its parts, so that their hooks are recorded."""
    x = cresset.ones(2, 3)
    m = export(model(cresset), (x,)).module()
    m.register_forward_hook(lambda module, args, output: output.exp())
    assert [node.name for node in export(m, (x,)).graph.nodes][-2] == "exp"
