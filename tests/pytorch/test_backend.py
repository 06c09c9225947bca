"""torch.compile(backend="cresset") against plain PyTorch: values, dtypes, strides, aliasing, writes, gradients."""
import copy

import pytest

torch = pytest.importorskip("torch", reason="the backend is for PyTorch's programs")
import sys, pathlib  # noqa: E401,E402
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch_programs  # noqa: E402
from torch_checks import assert_same, backward, clones, leaves, sharing, with_grad  # noqa: E402
from cresset._torch import backend  # noqa: E402

NATIVE = "pointwise linear softmax conv conv_channels_last attention loop views_of_made shared_made complex".split()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._made.clear()
    torch.manual_seed(20261116)
    yield


@torch.library.custom_op("cresset_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * 2)


twice.register_fake(lambda x: torch.empty_like(x))
twice.register_autograd(lambda ctx, grad: grad * 2)


def compiled(function, **options):
    return torch.compile(function, backend="cresset", options={"native": "off", **options})


def check(name, **options):
    function, make = torch_programs.INFERENCE[name]
    args = make()
    if name == "conv_channels_last":
        args = (args[0].clone(memory_format=torch.channels_last), *args[1:])
    own, their = clones(args), clones(args)
    run = compiled(function, **options)
    for _ in range(2):
        ours, theirs = run(*own), function(*their)
        assert_same(ours, theirs)
        assert_same(own, their)
        assert sharing(own, ours) == sharing(their, theirs)
        for a, b in zip(leaves(ours), leaves(theirs)):
            assert any(a is x for x in own) == any(b is x for x in their)


@pytest.mark.parametrize("name", torch_programs.INFERENCE)
def test_inference(name):
    check(name)
    reports = backend.report()
    assert not any(sum(r["fallbacks"]) for r in reports)
    if name not in ("histogram", "conjugated"):  # ops without a row
        assert not any(r["opaque"] for r in reports)


@pytest.mark.parametrize("name", NATIVE)
def test_native(name):
    check(name, native="wait")
    tiers = [tier for r in backend.report() for tier in r["tiers"]]
    assert tiers and set(tiers) == {"native"}
    assert not any(sum(r["fallbacks"]) for r in backend.report())


@pytest.mark.parametrize("name, native", [(name, "off") for name in torch_programs.TRAINED] +
                         [(name, "wait") for name in torch_programs.TRAINED if name in NATIVE])
def test_training(name, native):
    function, make = torch_programs.TRAINED[name]
    args = make()
    ours = backward(compiled(function, native=native), with_grad(args))
    theirs = backward(function, with_grad(args))
    assert_same(ours[0], theirs[0])
    assert_same(ours[1], theirs[1])
    kinds = sorted(r["kind"] for r in backend.report())
    assert kinds == (["inference"] if name == "views" else ["backward", "forward"])  # views are replayed, not derived
    assert not any(sum(r["fallbacks"]) for r in backend.report())


@pytest.mark.parametrize("draw", [
    lambda x: torch.nn.functional.dropout(x, 0.4, training=True), lambda x: x + torch.rand_like(x),
    lambda x: x * torch.randn(5, 7), lambda x: torch.bernoulli(x.sigmoid()),
    lambda x: torch.randint(0, 9, (4,)) + x[0, 0]])
@pytest.mark.parametrize("native", ["off", "wait"])
def test_random_streams(draw, native):
    """Equal draws for the same seed, and torch's generator goes on from where the graph left it."""
    x = torch.randn(5, 7)
    torch.manual_seed(7)
    ours = compiled(draw, native=native)(x), torch.rand(3)
    torch.manual_seed(7)
    theirs = draw(x), torch.rand(3)
    assert_same(ours, theirs)
    assert not any(sum(r["fallbacks"]) for r in backend.report())
    if native == "wait":
        assert [r["tiers"] for r in backend.report()] == [["native"]]


@pytest.mark.parametrize("native", ["off", "wait"])
def test_dropout_trained(native):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    other = copy.deepcopy(model)
    run, x = compiled(model, native=native), torch.randn(4, 6)
    for _ in range(3):
        torch.manual_seed(5)
        run(x).square().sum().backward()
        torch.manual_seed(5)
        other(x).square().sum().backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])


def test_buffers_are_written():
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, bias=False), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    other = copy.deepcopy(model)
    run = compiled(model)
    for _ in range(3):
        x = torch.randn(2, 2, 5, 5)
        run(x).sum().backward()
        other(x).sum().backward()
    assert_same(dict(model.named_buffers()), dict(other.named_buffers()))
    assert_same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])
    model.eval(), other.eval()
    with torch.no_grad():
        assert_same(run(x), other(x))


@pytest.mark.parametrize("native", ["off", "wait"])
def test_dynamic_sizes(native):
    def function(x, w):
        n = x.shape[0]
        return (x @ w).relu(), x.reshape(-1)[: n * 2], torch.cat([x, x]).sum(0) / n, n + 1, x.view(-1, 2)
    run, w = torch.compile(function, backend="cresset", dynamic=True, options={"native": native}), torch.randn(4, 6)
    for n in (3, 5, 2, 1, 0, 7, 3):
        x = torch.randn(n, 4)
        assert_same(run(x, w), function(x, w))
    assert not any(sum(r["fallbacks"]) for r in backend.report())


def test_dynamic_training():
    def function(x, w):
        return torch.nn.functional.gelu(x @ w).mean(0) * x.shape[0]
    run, w = torch.compile(function, backend="cresset", dynamic=True), torch.randn(4, 6)
    for n in (3, 5, 2, 1, 8):
        x = torch.randn(n, 4)
        assert_same(backward(run, with_grad((x, w)))[0], backward(function, with_grad((x, w)))[0])


def test_an_opaque_op_in_the_middle_is_trained_and_counted():
    def function(x):
        return twice(x * 2).sin() + x.sum()
    x = torch.randn(4, 3)
    ours, theirs = backward(compiled(function), with_grad((x,))), backward(function, with_grad((x,)))
    assert_same(ours[0], theirs[0])
    assert any("twice" in reason for r in backend.report() for reason in r["opaque"])
    torch._dynamo.reset()
    with pytest.raises(Exception, match="strict.*twice"):
        compiled(function, strict=True)(x)


@pytest.mark.parametrize("options, words", [({"nativ": 1}, "no option 'nativ'"), ({"native": "no"}, "option 'native'"),
                                            ({"strict": 3}, "option 'strict'")])
def test_options_are_checked(options, words):
    with pytest.raises(Exception, match=words):
        torch.compile(lambda x: x + 1, backend="cresset", options=options)(torch.ones(2))


def test_errors_are_torchs():
    """An index that is too large is found when the graph runs; the exception is torch's own."""
    run = compiled(lambda x, i: x[i] * 2)
    with pytest.raises(IndexError):
        run(torch.randn(3), torch.tensor([7]))


def test_arguments_of_every_kind():
    """As an fx graph has them: lists of all sorts, numbers that JSON has no word for, odd names."""
    import cresset
    aten = torch.ops.aten
    x = torch.randn(2, 3, 4, 4)
    g = torch.fx.Graph()
    a = g.placeholder("a")
    made = [(aten.permute.default, (a, [0, 2, 3, 1]), {}), (aten.index.Tensor, (a, [None, g.placeholder("i")]), {}),
            (aten.cat.default, ([a, a], 1), {}), (aten.full_like.default, (a, float("inf")), {}),
            (aten._to_copy.default, (a,), {"dtype": torch.float64, "memory_format": torch.channels_last}),
            (aten.upsample_nearest2d.vec, (a, None, [2, 1.5]), {}), (aten.sum.dim_IntList, (a, []), {}),
            (aten.add.Tensor, (a, a), {"alpha": 3}), (aten.any.dim, (a, 1, True), {}),
            (aten.zeros.default, ([2, 0],), {"device": torch.device("cpu"), "layout": torch.strided}),
            (aten.mul.Tensor, (a, 1j), {}), (aten.gelu.default, (a,), {"approximate": "tanh"})]
    given = {"a": x, "i": torch.tensor([2, 0])}
    results = []
    for target, args, kwargs in made:
        node = g.call_function(target, args, kwargs)
        node.meta["val"] = target(*torch.fx.map_arg(args, lambda n: given[n.name]), **kwargs)
        results.append(node)
    results[0].name = 'an "odd" name'
    g.output(tuple(results))
    gm = torch.fx.GraphModule(torch.nn.Module(), g)
    graph = cresset.from_fx(gm, list(given.values()))
    ours = graph.run(*(cresset.from_dlpack(t) for t in given.values()))
    for mine, node in zip(ours, results):
        torch.testing.assert_close(torch.from_dlpack(mine), node.meta["val"])


def test_an_op_is_asked_once(monkeypatch):
    """What its schema says costs more than to write a node."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from cresset._torch import targets
    asked = []
    original = targets.Target.__init__
    monkeypatch.setattr(targets, "_known", {})
    monkeypatch.setattr(targets.Target, "__init__", lambda self, t: (asked.append(str(t)), original(self, t))[1])
    graph = make_fx(lambda x: [((x + 1).t() + 1).sum(0) + 1], tracing_mode="fake")(torch.ones(2, 3))
    for _ in range(2):
        backend.compile_graph(graph, "inference", backend.read_options({"native": "off"}))
    assert sorted(asked) == ["aten.add.Tensor", "aten.sum.dim_IntList", "aten.t.default"]


def test_from_fx():
    import cresset
    from torch.fx.experimental.proxy_tensor import make_fx
    gm = make_fx(lambda x, y: torch.relu(x @ y) + torch.tensor([1.0, 2.0]))(torch.randn(3, 4), torch.randn(4, 2))
    graph = cresset.from_fx(gm, [torch.randn(3, 4), torch.randn(4, 2)])
    x, y, c = cresset.randn(3, 4), cresset.randn(4, 2), cresset.tensor([1.0, 2.0])
    result = graph.run(x, y, c)
    assert cresset.allclose(result, cresset.relu(x @ y) + c)
    with pytest.raises(NotImplementedError, match="twice"):
        cresset.from_fx(make_fx(twice)(torch.randn(3, 3)))


def test_control_flow_and_graphs_that_go():
    """A higher-order op is called through torch; graphs that nobody calls any more are freed."""
    import gc

    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x * 2,)) * 3
    run = compiled(function)
    for x in (torch.ones(3), -torch.ones(3)):
        assert_same(run(x), function(x))
    assert any("cond" in reason for r in backend.report() for reason in r["opaque"])
    del run
    torch._dynamo.reset()
    for _ in range(3):
        gc.collect()
    assert backend.report() == []
