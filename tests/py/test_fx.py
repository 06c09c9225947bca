"""cresset.fx: graphs that passes read and edit, as torch.fx's; there and back to cresset.Graph."""
import copy
import math
import operator
import types

import pytest

import cresset
from cresset import _C, fx
from cresset._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs, same

aten = cresset.ops.aten
X = cresset.tensor([[-1.0, 2.0, math.nan], [0.5, -3.0, 4.0]])


def module(function, *args, **options):
    return fx.GraphModule.from_graph(_C.record(function, args, **options))


def both(gm, *args):
    """What it gives by its code, node by node, and as the graph it lowers to."""
    gm.graph.lint()
    gm.recompile()
    ours = gm(*args)
    lowered = gm.to_graph().run(*args)
    lowered = lowered if isinstance(lowered, tuple) else (lowered,)
    assert same(ours, fx.Interpreter(gm).run(*args)) and same(tuple(ours), lowered)
    return ours


def swap_relu(gm, relu, gelu):
    """A pass as people write them for torch.fx: every relu becomes gelu; how many there were."""
    count = 0
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target is relu:
            with gm.graph.inserting_after(node):
                new = gm.graph.call_function(gelu, args=(node.args[0],))
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new)
            gm.graph.erase_node(node)
            count += 1
    gm.graph.lint()
    gm.recompile()
    return count


def test_nodes():
    gm = module(lambda x, w: (x @ w).relu() + 1, X, X.t().contiguous())
    x, w, matmul, relu, add, output = gm.graph.nodes
    assert [n.op for n in gm.graph.nodes] == ["placeholder"] * 2 + ["call_function"] * 3 + ["output"]
    assert relu.target is aten.relu.default and relu.args == (matmul,) and relu.kwargs == {}
    assert list(relu.users) == [add] and relu.all_input_nodes == [matmul] and relu.next is add and relu.prev is matmul
    assert add.args == (relu, 1) and output.args == ((add,),) and x < add and not add < x
    assert relu.meta["val"].shape == (2, 2) and _C.is_fake(relu.meta["val"])
    assert gm.graph.find_nodes(op="call_function", target=aten.relu.default) == [relu]
    assert len(gm.graph.nodes) == 6 and list(reversed(gm.graph.nodes))[0] is output is gm.graph.output_node()
    assert "relu = cresset.ops.aten.relu.default(matmul);  matmul = None" in gm.code
    assert 'relu: "f32[2, 2]"' in gm.print_readable(print_output=False)
    assert "%relu : [num_users=1] = call_function[target=cresset.ops.aten.relu.default]" in str(gm.graph)


def test_tables(capsys):
    gm = module(lambda x: x.relu(), X)
    gm.graph.print_tabular()
    gm.print_readable()
    shown = capsys.readouterr().out
    assert "opcode" in shown and "class GraphModule(cresset.nn.Module):" in shown


@pytest.mark.parametrize("size", [(0, 3), (1, 3), (2, 3), (2, 2)])
@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_swapped_op(size, layout):
    x = cresset.randn(size) if layout == "plain" else cresset.randn(size[::-1]).t()
    gm = module(lambda x: x.relu() * 2 - x.relu(), x)
    assert swap_relu(gm, aten.relu.default, aten.gelu.default) == 2
    gelu = aten.gelu.default
    assert same(both(gm, x), (gelu(x) * 2 - gelu(x),))
    assert "aten.gelu" in str(gm.to_graph()) and "aten.relu" not in str(gm.to_graph())


PROGRAMS = {
    "several results": lambda x: x.max(dim=1),
    "lists": lambda x: [part * 2 for part in x.split(1)][0],
    "a write": lambda x: x.clone().add_(1).relu_(),
    "a view that is written": lambda x: (lambda y: (y[0].mul_(3), y)[1])(x.clone()),
    "dtypes and devices": lambda x: x.to(cresset.float64) + cresset.zeros(3, dtype=cresset.float64, device="cpu"),
    "slices": lambda x: x[:, 1:] + x[:, :2],
    "infinity": lambda x: x.clamp(-math.inf, 2.5).masked_fill(x > 1, -math.inf),
    "a constant": lambda x: x + cresset.tensor([1.0, 2.0, 3.0]),
    "a region": lambda x: cresset.cond(x[0, 0] > 0, lambda a: a + 1, lambda a: a - 1, (x,)),
    "complex numbers": lambda x: cresset.add(x, 2j),
    "text": lambda x: cresset.ops.aten.gelu.default(x, approximate="tanh"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_there_and_back(name):
    raw = _C.record(PROGRAMS[name], (X,))
    gm = fx.GraphModule.from_graph(raw)
    assert gm.to_graph() is raw
    want = raw.run(X.clone())
    gm.graph.output_node().args = gm.graph.output_node().args  # an edit that changes nothing
    again = gm.to_graph()
    assert again is not raw and again.difference(raw) is None
    got = both(gm, X.clone())
    assert same(got if isinstance(want, tuple) else got[0], want)
    assert same(copy.deepcopy(gm)(X.clone()), got)


def test_open_sizes():
    raw = _C.record(lambda x: x.reshape(-1).relu() * x.shape[0], (cresset.ones(3, 2),), ({0: "n"},))
    gm = fx.GraphModule.from_graph(raw)
    swap_relu(gm, aten.relu.default, aten.sigmoid.default)
    assert "f32[n, 2]" in str(gm.to_graph()) and 'x: "f32[n, 2]"' in gm.print_readable(False)
    for n in (2, 3, 7):
        x = cresset.randn(n, 2)
        assert same(both(gm, x), (x.reshape(-1).sigmoid() * n,))


def test_native_code():
    gm = module(lambda x: x.relu() + 1, X)
    swap_relu(gm, aten.relu.default, aten.sigmoid.default)
    from cresset._functorch.aot_autograd import native
    assert same(tuple(native(gm, [X])([X])), (X.sigmoid() + 1,))


def test_no_grad_stays():
    @cresset.compile(backend=lambda gm, inputs: (gm.recompile(), gm)[1], fullgraph=True)
    def f(x):
        with cresset.no_grad():
            y = x * 2
        return y * x
    x = cresset.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_dead_code():
    g = fx.Graph()
    x = g.placeholder("x")
    used = g.call_function(aten.relu.default, (x,))
    unused = g.call_function(aten.sin.default, (used,))
    g.call_function(aten.cos.default, (unused,))
    g.call_function(aten.add_.Tensor, (used, 1))
    g.call_function(aten.bernoulli.default, (x,))
    g.output(used)
    assert g.eliminate_dead_code() and not g.eliminate_dead_code()
    assert [n.name for n in g.nodes] == ["x", "relu_default", "add__tensor", "bernoulli_default", "output"]
    assert list(used.users) and unused not in used.users


def test_lint():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(aten.relu.default, (x,))
    b = g.call_function(aten.sin.default, (a,))
    g.output(b)
    g.lint()
    a.prepend(b)
    with pytest.raises(RuntimeError, match="'relu_default' of Node 'sin_default' was used before it has been defined"):
        g.lint()
    a.append(b)
    with pytest.raises(RuntimeError, match="Tried to erase Node relu_default but it still had 1 users"):
        g.erase_node(a)
    g.call_function(aten.cos.default, (fx.Graph().placeholder("y"),))
    with pytest.raises(RuntimeError, match="behind the output"):
        g.lint()
    with pytest.raises(RuntimeError, match="nonexistent attribute w"):
        named = fx.Graph()
        gm = fx.GraphModule({}, fx.Graph())
        named.get_attr("w")
        named.owning_module = gm
        named.lint()
    with pytest.raises(TypeError, match="node.args"):
        g.call_function(aten.cat.default, ([x, x],)).args[0].append(x)


def test_built_by_hand():
    """Every kind of node; forward() with defaults and keywords."""
    class Root(cresset.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = cresset.nn.Sequential(cresset.nn.Linear(3, 3))
            self.scale = cresset.nn.Parameter(cresset.tensor(2.0))
    root = Root()
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y", default_value=3)
    made = g.call_module("inner.0", (x,))
    scaled = g.call_function(operator.mul, (made, g.get_attr("scale")))
    g.output({"a": g.call_method("add", (scaled, y)), "b": (x, 2.5, slice(None, 1))})
    gm = fx.GraphModule(root, g)
    g.lint()
    for args in ((X,), (X, 4)):
        want = root.inner(X) * 2.0 + (args[1] if len(args) > 1 else 3)
        assert same(gm(*args)["a"], want) and same(fx.Interpreter(gm).run(*args)["a"], want)
    assert same(gm(X, y=1)["a"], root.inner(X) * 2.0 + 1) and gm(X)["b"][2] == slice(None, 1)
    held = dict(gm.named_parameters())
    assert held["scale"] is root.scale and held["inner.0.weight"] is root.inner[0].weight


def test_python_functions_and_objects():
    """Functions of the user's and objects without a text are called and given as they are."""
    seen = types.SimpleNamespace(calls=0)

    def slice_(x, where):
        where.calls += 1
        return x[0]
    g = fx.Graph()
    x = g.placeholder("slice")
    g.output(g.call_function(slice_, (x, seen)))
    gm = fx.GraphModule({}, g)
    assert same(gm(X), X[0]) and seen.calls == 1 and "slice_1" in gm.code


def test_edits_show_after_recompile():
    gm = module(lambda x: x.relu(), X)
    relu = gm.graph.find_nodes(op="call_function")[0]
    gm(X)
    relu.target = aten.sin.default
    assert same(gm(X)[0], X.relu())
    gm.recompile()
    assert same(gm(X)[0], X.sin())


def test_interpreter_subclass():
    class Counts(fx.Interpreter):
        seen = ()

        def call_function(self, target, args, kwargs):
            self.seen += (str(target),)
            return super().call_function(target, args, kwargs)
    counts = Counts(module(lambda x: x.relu().sin(), X))
    counts.run(X)
    assert counts.seen == ("aten.relu.default", "aten.sin.default")
    with pytest.raises(Exception) as failed:
        counts.run(object())
    assert "While executing %relu" in failed.value.__notes__[0]


def test_exported_graphs_are_not_edited():
    class M(cresset.nn.Module):
        def forward(self, x):
            return x.relu()
    ep = cresset.export.export(M(), (X,))
    relu = ep.graph.find_nodes(op="call_function")[0]
    assert isinstance(relu, fx.Node) and isinstance(ep.graph, fx.Graph)
    with pytest.raises(NotImplementedError, match="from_graph"):
        relu.target = aten.sin.default
    with pytest.raises(NotImplementedError, match="from_graph"):
        ep.graph.call_function(aten.sin.default, (relu,))


# ---- backends ----


def program(x):
    return x.relu() + 1


def test_backend_passes():
    """A pass inside a backend: what comes back runs, by each of the ways in which backends give it back."""
    for give in (lambda gm: gm, lambda gm: gm.forward, lambda gm: gm.run, lambda gm: gm.to_graph().run):
        def backend(gm, example_inputs):
            assert isinstance(gm, fx.GraphModule) and example_inputs[0] is X
            swap_relu(gm, aten.relu.default, aten.gelu.default)
            return give(gm)
        assert same(cresset.compile(program, backend=backend, fullgraph=True)(X), aten.gelu.default(X) + 1)


def test_counting_backends():
    counter = CompileCounter()
    compiled = cresset.compile(program, backend=counter)
    assert same(compiled(X), program(X)) and same(compiled(X), program(X))
    assert (counter.frame_count, counter.op_count) == (1, 2)
    keeping = CompileCounterWithBackend("eager")
    cresset.compile(program, backend=keeping)(X)
    assert keeping.frame_count == 1 and keeping.op_count == 2 and len(keeping.graphs) == 1
    recording = EagerAndRecordGraphs()
    cresset.compile(program, backend=recording)(X)
    assert "cresset.ops.aten.relu.default" in recording.graphs[0].code


def test_messages():
    gm = fx.GraphModule({}, fx.Graph())
    gm.graph.output(gm.graph.placeholder("x"))
    with pytest.raises(TypeError, match="input 'x'.*meta"):
        gm.to_graph()
    assert same(gm.to_graph(X).run(X), X)
    with pytest.raises(RuntimeError, match="'w', which is not among"):
        g = fx.Graph()
        g.get_attr("w")
        fx.GraphModule({}, g)


def test_open_numbers_in_an_edited_graph():
    """Sizes and numbers that are inputs stay inputs."""
    def backend(gm, example_inputs):
        swap_relu(gm, aten.relu.default, aten.sin.default)
        graphs.append(gm.to_graph())
        return graphs[-1].run
    graphs = []
    compiled = cresset.compile(lambda x, n, v: x.relu() * n + v, backend=backend, fullgraph=True)
    for n, v in ((3, 0.5), (4, 1.5), (5, 2.5), (9, -1.0)):
        x = cresset.randn(n, 2)
        assert same(compiled(x, n, v), x.sin() * n + v)
    assert len(graphs) == 2


def test_training_through_an_edited_graph():
    def backend(gm, example_inputs):
        swap_relu(gm, aten.relu.default, aten.sigmoid.default)
        return gm
    x = cresset.randn(4, 3, requires_grad=True)
    twin = x.detach().clone().requires_grad_(True)
    cresset.compile(lambda x: (x.relu() * x).sum(), backend=backend, fullgraph=True)(x).backward()
    (twin.sigmoid() * twin).sum().backward()
    assert same(x.grad, twin.grad)


def test_compilers_ahead_of_time_edit_too():
    from cresset._functorch.aot_autograd import aot_function

    def compiler(gm, inputs):
        seen.append(swap_relu(gm, aten.relu.default, aten.sigmoid.default))
        return gm
    seen = []
    assert same(aot_function(lambda x: x.relu() + 1, compiler)(X), X.sigmoid() + 1) and seen == [1]
