"""aot_export_module and aot_export_joint_simple against PyTorch's: signatures, values, errors."""
import re

import cresset
import pytest

from cresset._functorch import aot_autograd, config
from cresset._functorch.compilers import memory_efficient_fusion

torch = pytest.importorskip("torch", reason="signatures are compared with PyTorch's")
from torch._functorch import aot_autograd as theirs_api  # noqa: E402


def ours(t):
    return cresset.tensor(t.tolist(), dtype=getattr(cresset, str(t.dtype).split(".")[1])).requires_grad_(
        t.requires_grad)


def modules_of(m):
    """One source for both libraries: {name: (module, inputs, loss index)}."""
    nn = m.nn

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 1)

        def forward(self, x):
            return (self.b(self.a(x).relu()).sum(),)

    class Counting(Plain):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", m.zeros(3))
            self.register_buffer("fixed", m.ones(3), persistent=False)

        def forward(self, x):
            self.seen.add_(x.detach().sum(0))
            return super().forward(x * self.fixed)[0], x.detach()[0]

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return (self.b(self.a(x)).square().mean(),)

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            return ((self.norm(x) * x).sum(),)

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(m.ones(3) * 2)
            self.frozen = nn.Parameter(m.ones(3), requires_grad=False)

        def forward(self, x, y):
            return (x * self.w * self.frozen + y).sum(), y.detach() * 1

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(m.ones(3))

        def forward(self, pair, named):
            return [(pair[0] * self.w + pair[1] * named["k"]).sum()]

    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(m.ones(3))

        def forward(self, x, state):
            state.mul_(0.5)
            return ((x * self.w * state).sum(),)

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(m.ones(3))

        def forward(self, x):
            y = x.detach()
            return (x[0] * self.w).sum(), y.t(), y

    class Whole(nn.Module):
        def forward(self, x):
            return ((x * x).sum(),)

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(3, 3)
            self.two = self.one
            self.register_buffer("scale", m.ones(3))
            self.register_buffer("also", self.scale)

        def forward(self, x):
            return ((self.two(self.one(x)) * self.scale * self.also).sum(),)

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Plain()
            self.register_buffer("a", m.zeros(()))
            self.register_buffer("b", m.zeros(()))

        def forward(self, x):
            loss, = self.inner(x)
            self.b.copy_(loss.detach())
            self.a.add_(1)
            return loss, self.b * 2

    leaf = {"x": True}
    return {"plain": (Plain, [(2, 3)], 0, leaf), "counting": (Counting, [(2, 3)], 0, leaf),
            "tied": (Tied, [(2, 3)], 0, {}), "norm": (Norm, [(4, 3)], 0, leaf), "mixed": (Mixed, [(2, 3), (3,)], 0, {}),
            "nested": (Nested, "nested", 0, {}), "writing": (Writing, [(2, 3), (3,)], 0, leaf),
            "views": (Views, [(2, 3)], 0, {}), "whole": (Whole, [(2, 3)], 0, leaf), "shared": (Shared, [(2, 3)], 0, {}),
            "two": (Two, [(2, 3)], 0, leaf)}


NAMES = list(modules_of(torch))


def both(name):
    """(module, args) of both libraries, with equal weights."""
    make, shapes, loss, grads = modules_of(torch)[name]
    torch.manual_seed(0)
    theirs = make()
    mine = modules_of(cresset)[name][0]()
    cresset_state = {k: ours(v.detach()) for k, v in theirs.state_dict().items()}
    mine.load_state_dict(cresset_state)
    if shapes == "nested":
        args = ((torch.rand(2, 3), torch.rand(2, 3)), {"k": torch.rand(3)})
        return theirs, args, mine, ((ours(args[0][0]), ours(args[0][1])), {"k": ours(args[1]["k"])}), loss
    args = [torch.rand(*shape) for shape in shapes]
    args[0].requires_grad_(bool(grads))
    return theirs, tuple(args), mine, tuple(ours(a) for a in args), loss


def named(signature, outputs):
    """A signature with results by their place: names of calls differ."""
    at = {}
    for i, output in enumerate(outputs):
        at.setdefault(str(output), i)
    back = signature.backward_signature
    return {"parameters": signature.parameters, "buffers": signature.buffers, "user_inputs": signature.user_inputs,
            "inputs": (signature.inputs_to_parameters, signature.inputs_to_buffers),
            "outputs": [at[name] for name in signature.user_outputs],
            "writes": [{at[k]: v for k, v in d.items()} for d in (
                signature.buffers_to_mutate, signature.parameters_to_mutate, signature.user_inputs_to_mutate)],
            "specs": [s.num_leaves for s in (signature.in_spec, signature.out_spec)],
            "tokens": (signature.input_tokens, signature.output_tokens),
            "gradients": back and [{at[k]: v for k, v in d.items()} for d in (
                back.gradients_to_parameters, back.gradients_to_user_inputs)]}


def results_of(graph):
    node = next(n for n in graph.nodes if n.op == "output")
    return node.args[0]


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_like_pytorch(name, joint):
    theirs, args, mine, my_args, loss = both(name)
    how = {"trace_joint": joint, "output_loss_index": loss if joint else None}
    graph, signature = aot_autograd.aot_export_module(mine, my_args, **how)
    graph._raw.verify("functional", "metas")
    if joint and name == "nested":  # PyTorch cannot: it hands pytrees to a flat function
        with pytest.raises(Exception):
            theirs_api.aot_export_module(theirs, args, **how)
        assert len(signature.backward_signature.gradients_to_parameters) == 1
        return
    flat = [*dict(theirs.named_parameters(remove_duplicate=False)).values(),
            *dict(theirs.named_buffers(remove_duplicate=False)).values(), *torch.utils._pytree.tree_leaves(args)]
    if joint and name == "shared":  # PyTorch wants a gradient under both names of the layer; here it is one of them
        with pytest.raises(AssertionError):
            theirs_api.aot_export_module(theirs, args, **how)
        assert list(signature.backward_signature.gradients_to_parameters.values()) == ["two.weight", "two.bias"]
        return
    want, other = theirs_api.aot_export_module(theirs, args, **how)
    a, b = named(signature, results_of(graph.graph)), named(other, results_of(want.graph))
    assert a == b
    if joint:  # PyTorch names result `loss` of all results, which is a buffer's new value where one is written
        assert signature.backward_signature.loss_output == signature.user_outputs[loss]
    made, expected = graph(*[ours(t) for t in flat]), want(*flat)
    assert len(made) == len(expected)
    for x, y in zip(made, expected):
        assert torch.allclose(torch.tensor(x.tolist()).float(), y.detach().float(), rtol=1e-4, atol=1e-5)


def test_native_joint():
    """One library that computes loss and gradients."""
    theirs, args, mine, my_args, _ = both("counting")
    graph, signature = aot_autograd.aot_export_module(mine, my_args, trace_joint=True, output_loss_index=0)
    run = aot_autograd.native(graph, [])
    made = run([*(p.detach() for p in mine.parameters()), mine.seen, mine.fixed, my_args[0].detach()])
    loss, _ = theirs(*args)
    loss.backward()
    grads = [p.grad for p in theirs.parameters()] + [args[0].grad]
    for x, y in zip(made[3:], grads):
        assert torch.allclose(torch.tensor(x.tolist()), y, rtol=1e-4, atol=1e-5)
    assert len(signature.backward_signature.gradients_to_parameters) == 4


def test_other_sizes():
    class Model(cresset.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = cresset.nn.Parameter(cresset.ones(3))

        def forward(self, x):
            return (x * self.w).square().sum()

    graph, _ = aot_autograd.aot_export_module(Model(), (cresset.ones(4, 3),), trace_joint=True, output_loss_index=0,
                                              dynamic_shapes=True)
    for n in (2, 7):
        loss, grad = graph(cresset.ones(3), cresset.ones(n, 3))
        assert loss.item() == 3 * n and grad.tolist() == [2.0 * n] * 3


# ---- errors ----

def module(m, forward, **state):
    class Model(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = m.nn.Parameter(m.ones(3))
            self.unused = m.nn.Parameter(m.ones(3)) if "unused" in state else None
            self.register_buffer("n", m.zeros(3, 3))

        def forward(self, *args):
            return forward(m, self, *args)

    return Model()


# name: (forward, options, state, facts, remedy)
ERRORS = {
    "no loss index": (lambda m, s, x: ((x * s.w).sum(),), {}, {}, "one of your forward outputs must be a scalar loss",
                      "specify the which .index. output is the loss with output_loss_index"),
    "no tensor": (lambda m, s, x: {"a": (x * s.w).sum()}, {"output_loss_index": 0}, {},
                  "tensor or a list/tuple of tensors. found <class 'dict'>", "return its tensors.*as a tuple"),
    "two that require grad": (lambda m, s, x: ((x * s.w).sum(), x * s.w), {"output_loss_index": 0}, {},
                              "output at index 1 requires gradients", r"calling \.detach\(\) on each"),
    "loss without grad": (lambda m, s, x: ((x * s.w).sum().detach(), x * 1), {"output_loss_index": 0}, {},
                          "output at index 0 was marked as the loss, but it does not require gradients",
                          "compute it from a parameter or an input that does"),
    "no scalar": (lambda m, s, x: (x * s.w,), {"output_loss_index": 0}, {}, "to be a scalar, but it has",
                  r"shape \[3, 3\]; reduce it with \.sum\(\) or \.mean\(\)"),
    "not reached": (lambda m, s, x: ((x * s.w).sum(),), {"output_loss_index": 0}, {"unused": True},
                    "did not receive a gradient", r"use it, or requires_grad_\(False\)"),
    "metadata": (lambda m, s, x: ((s.n.t_() * s.w).sum() + x.sum(),), {"output_loss_index": 0}, {},
                 "metadata mutation", r"input 1\..*use t\(\) and such, which give a new tensor"),
    "written and requires grad": (lambda m, s, x: ((x.mul_(2) * s.w).sum(),), {"output_loss_index": 0}, {"leaf": True},
                                  "received a mutation",
                                  r"input 2\. Write to a detached tensor or a buffer that requires none"),
    "pre_dispatch": (lambda m, s, x: (x * s.w).sum(), {"output_loss_index": 0, "pre_dispatch": True}, {},
                     "pre_dispatch is not supported when trace_joint is True", "Leave one of them out"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_class_facts_remedy(name):
    """Facts are PyTorch's words, and more; the remedy is ours."""
    forward, how, state, facts, remedy = ERRORS[name]
    found = []
    for m, api in ((torch, theirs_api), (cresset, aot_autograd)):
        x = m.ones(3, 3, requires_grad=True)
        if state.get("leaf"):
            x = x * 1
        elif name in ("loss without grad", "metadata"):
            x = m.ones(3, 3)
        with pytest.raises(Exception) as error:
            api.aot_export_module(module(m, forward, **state), (x,), trace_joint=True, **how)
        found.append(error.value)
        assert facts in str(error.value) or (m is torch and name == "no tensor"), str(error.value)
    assert type(found[0]).__name__ == type(found[1]).__name__
    assert re.search(remedy, str(found[1]), re.DOTALL), str(found[1])


@pytest.mark.parametrize("rule", ["__torch_dispatch__", "__torch_function__", "__tensor_flatten__"])
def test_subclasses_with_rules_of_their_own(rule):
    """A graph of plain tensors would forget the rules. Subclasses without any are tensors."""
    from torch.testing._internal.two_tensor import TwoTensor
    own = type("Own", (cresset.Tensor,), {rule: classmethod(lambda cls, *args: None)})
    plain = type("Plain", (cresset.Tensor,), {})
    made = lambda kind: cresset.Tensor._make_subclass(kind, cresset.ones(3))
    model = module(cresset, lambda m, s, x: (x * 2,))
    said = rf"(?s)not supported with subclasses.*input 0 is a Own, which has {rule}\. Pass the tensors that it wraps"
    for api, call in (("module", lambda t: aot_autograd.aot_export_module(model, (t,), trace_joint=False)),
                      ("simple", lambda t: aot_autograd.aot_export_joint_simple(lambda x: (x * 2,), (t,),
                                                                                trace_joint=False))):
        with pytest.raises(RuntimeError, match=said):
            call(made(own))
        call(made(plain))
    with pytest.raises(RuntimeError, match="traceable tensor subclass"):  # PyTorch's class
        theirs_api.aot_export_joint_simple(lambda x: (x * 2,), (TwoTensor(torch.ones(2), torch.ones(2)),),
                                           trace_joint=False)


def test_inputs_that_share_memory():
    x = cresset.ones(4)

    class Write(cresset.nn.Module):
        def forward(self, a, b):
            a.add_(1)
            return a * b

    for b, said in ((x, r"duplicated inputs that are mutated.*0 and 1 are one tensor\. Pass it once, or a clone\(\)"),
                    (x[:4], r"aliased inputs that are mutated.*0 and 1 share memory\. Pass a clone\(\) of one")):
        with pytest.raises(RuntimeError, match=said):
            aot_autograd.aot_export_module(Write(), (x, b), trace_joint=False)
    assert x.tolist() == [1.0] * 4  # recorded, not run


def test_refusals():
    model = module(cresset, lambda m, s, x: (x * s.w).sum())
    with pytest.raises(NotImplementedError, match="cresset.export.export"):
        aot_autograd.aot_export_module(model, (cresset.ones(3),), trace_joint=False, pre_dispatch=True)
    with pytest.raises(NotImplementedError, match="input 0 is 3"):
        aot_autograd.aot_export_module(model, (3,), trace_joint=False)
    config.functionalize_rng_ops = True
    try:
        with pytest.raises(RuntimeError, match="functionalized RNG ops.*leave config.functionalize_rng_ops False"):
            aot_autograd.aot_export_module(model, (cresset.ones(3),), trace_joint=False)
    finally:
        config.functionalize_rng_ops = False


# ---- functions ----

def test_joint_simple():
    def fn(x, y):
        return x * y.sin(), y + 1

    x, y = torch.rand(3, requires_grad=True), torch.rand(3)
    for joint in (False, True):
        want = theirs_api.aot_export_joint_simple(fn, (x, y), trace_joint=joint)
        config.debug_assert = True
        try:
            made = aot_autograd.aot_export_joint_simple(fn, (ours(x), ours(y)), trace_joint=joint)
        finally:
            config.debug_assert = False
        if not joint:
            for a, b in zip(made(ours(x), ours(y)), want(x, y)):
                assert torch.allclose(torch.tensor(a.tolist()), b)
            continue
        tangent = torch.rand(3)
        results, grads = made([ours(x), ours(y)], [ours(tangent)])
        expected, other = want([x, y], [tangent])
        assert [g is None for g in grads] == [g is None for g in other] == [False, True]
        for a, b in zip([*results, grads[0]], [*expected, other[0]]):
            assert torch.allclose(torch.tensor(a.tolist()), b)
        forward, backward = aot_autograd.default_partition(made, [], num_fwd_outputs=2)
        out = forward(ours(x), ours(y))
        assert torch.allclose(torch.tensor(out[0].tolist()), x.detach() * y.sin())
        assert backward(*out[2:], ours(tangent))[1] is None


SIMPLE_ERRORS = {
    "writes": (lambda x: (x.add_(1),), lambda x: (x * 1,), "input mutations",
               r"write to a clone\(\)\..*input 0: leaf written"),
    "alias": (lambda x: (x.view(-1),), lambda x: (x,), "alias inputs",
              r"return \.clone\(\)\..*output 0: view of input 0"),
    "bare": (lambda x: x * 2, lambda x: (x,), "outputs to be a single list/tuple", r"return \(result,\)"),
    "bare input": (lambda *rows: (rows[0] * 2,), lambda x: x, "inputs to be a single list/tuple", r"pass \(x,\)"),
    "nested outputs": (lambda x: ((x * 2, x * 3), x + 1), lambda x: (x,), "outputs not to be pytrees",
                       "return their leaves"),
    "nested inputs": (lambda p: (p[0] * 2,), lambda x: ((x, x),), "inputs not to be pytrees", "pass their leaves"),
}


@pytest.mark.parametrize("name", SIMPLE_ERRORS)
def test_joint_simple_errors(name):
    fn, prepare, facts, remedy = SIMPLE_ERRORS[name]
    for m, api in ((torch, theirs_api), (cresset, aot_autograd)):
        args = prepare(m.ones(2, 2))
        with pytest.raises(RuntimeError, match=facts) as error:
            api.aot_export_joint_simple(fn, args, trace_joint=False)
    assert re.search(remedy, str(error.value), re.DOTALL), str(error.value)


def test_memory_efficient_fusion():
    f = memory_efficient_fusion(lambda x: (x.sin() * x).exp())
    x = cresset.rand(5).requires_grad_()
    f(x).sum().backward()
    y = torch.tensor(x.tolist(), requires_grad=True)
    (y.sin() * y).exp().sum().backward()
    assert torch.allclose(torch.tensor(x.grad.tolist()), y.grad, rtol=1e-4)
    assert isinstance(memory_efficient_fusion(cresset.nn.Linear(2, 2)), cresset.nn.Module)


ALIASES = {
    "the input": lambda x: (x * 2, x),
    "a view of the input": lambda x: (x.t(),),
    "a view of an intermediate": lambda x: ((x * 2).view(-1),),
    "a result and its view": lambda x: (lambda y: (y, y[0]))(x * 2),
    "two views of one": lambda x: (x * 2).unbind(0),
    "none": lambda x: (x * 2, x + 1),
}


@pytest.mark.parametrize("name", ALIASES)
def test_joint_simple_refuses_what_pytorch_refuses_of_aliases(name):
    """Every kind of sharing, with the same class; the message shows what is known of inputs and results."""
    found = []
    for m, api in ((torch, theirs_api), (cresset, aot_autograd)):
        try:
            api.aot_export_joint_simple(ALIASES[name], (m.ones(2, 2, requires_grad=True),), trace_joint=True)
            found.append(None)
        except Exception as error:
            found.append(error)
    assert type(found[0]) is type(found[1]), found
    assert (found[1] is None) == (name == "none" or found[0] is None)
    assert found[1] is None or "alias" in str(found[1])


def test_joint_simple_refuses_one_result_twice():
    """Which PyTorch takes: a caller of the graph could not tell that both are one tensor."""
    def twice(x):
        y = x * 2
        return y, y
    with pytest.raises(RuntimeError, match=r"(?s)each other: return .clone\(\).*output 1: is output 0"):
        aot_autograd.aot_export_joint_simple(twice, (cresset.ones(2),), trace_joint=False)


def test_the_parameter_that_the_loss_does_not_reach_is_named():
    model = module(cresset, lambda m, s, x: ((x * s.w).sum(),), unused=True)
    with pytest.raises(AssertionError, match="did not receive a gradient: the parameter 'unused'.*use it, or"):
        aot_autograd.aot_export_module(model, (cresset.ones(3, 3),), trace_joint=True, output_loss_index=0)


def test_a_parameter_of_two_names_that_is_written():
    class Model(cresset.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", cresset.zeros(3))
            self.register_buffer("b", self.a)

        def forward(self, x):
            self.a.add_(1)
            return x * self.b

    with pytest.raises(RuntimeError, match="duplicated inputs that are mutated.*0 and 1 are one tensor. Pass it once"):
        aot_autograd.aot_export_module(Model(), (cresset.ones(3),), trace_joint=False)
