"""func.grad and its like, vmap and checkpoint in compiled functions: whole graphs, with the values, gradients and flags
of the functions themselves."""
import pytest

import cresset
from cresset.fx.experimental.proxy_tensor import make_fx
from cresset.func import (grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap)
from cresset.utils import _pytree as pytree
from cresset.utils.checkpoint import checkpoint

W = cresset.tensor([1.0, -2.0, 3.0, 0.5], requires_grad=True)


def loss(x, scale=1.0):
    return ((x * W).sin() * scale).sum()


def vjp_twice(x):
    out, pull = vjp(lambda y: y.sin() * W, x)
    return pull(out)[0] + pull(out * 2)[0]


def linear(x):
    out, push = linearize(lambda y: y.sin() * W, x)
    return push(x) + out


def descent(x):
    for _ in range(3):
        x = x - 0.1 * grad(loss)(x)
    return x


def written(x):
    def f(y):
        z = y * 2
        z.mul_(y * W)
        return (z * z).sum()
    return grad(f)(x)


class Cube(cresset.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 3 * x ** 2


LINEAR = cresset.nn.Linear(4, 4)
PARAMETERS = dict(LINEAR.named_parameters())

VECTORS = {
    "grad": lambda x: grad(loss)(x) + 1,
    "grad_of_result": lambda x: grad(loss)(x * W) * x,
    "keywords": lambda x: grad(loss)(x, scale=2.0),
    "argnums": lambda x: sum(grad(lambda a, b: (a * b * W).sin().sum(), argnums=(0, 1))(x, x * 2)),
    "and_value": lambda x: grad_and_value(loss)(x)[0] * grad_and_value(loss)(x)[1],
    "nested": lambda x: grad(lambda y: grad(lambda z: (z ** 3 * W).sum())(y).sum())(x),
    "unused": lambda x: grad(lambda y: W.sum() * x.sum())(x) + x,
    "vjp": vjp_twice,
    "jvp": lambda x: jvp(lambda y: y.sin() * W, (x,), (x * 2,))[1],
    "linearize": linear,
    "jacrev": lambda x: jacrev(lambda y: y.sin() * W)(x),
    "jacfwd": lambda x: jacfwd(lambda y: y.sin() * W)(x),
    "hessian": lambda x: hessian(lambda y: (y ** 3 * W).sum())(x),
    "descent": descent,
    "written": written,
    "composite": lambda x: grad(lambda y: cresset.nn.functional.mse_loss(LINEAR(y), W))(x),
    "layer_norm": lambda x: grad(lambda y: (cresset.nn.functional.layer_norm(y, (4,)) * W).sum())(x),
    "parameters": lambda x: grad(lambda p: (x @ p["weight"].t() + p["bias"]).sin().sum())(PARAMETERS)["weight"],
}
ROWS = {
    "vmap": lambda x: vmap(lambda r: r.sin() * W)(x),
    "vmap_grad": lambda x: vmap(grad(lambda r, w: (r.sin() * w).sum()), in_dims=(0, None))(x, W),
    "vmap_hessian": lambda x: vmap(hessian(lambda r: (r ** 3 * W).sum()))(x),
    "vmap_tree": lambda x: vmap(lambda d: d["a"] + d["b"][0] * W)({"a": x, "b": [x * 2]}),
    "chunks": lambda x: vmap(lambda r: r * W, chunk_size=2)(x),
    "checkpoint": lambda x: checkpoint(lambda y: (y * W).sin().exp(), x, use_reentrant=False) + 1,
    "checkpoint_keywords": lambda x: checkpoint(loss, x, scale=3.0, use_reentrant=False) + x,
    "checkpoint_module": lambda x: checkpoint(LINEAR, x, use_reentrant=False).sin(),
    "checkpoint_nested": lambda x: checkpoint(
        lambda y: checkpoint(lambda z: z.exp() * W, y, use_reentrant=False) + y, x, use_reentrant=False),
}
CASES = [(name, f, 1) for name, f in VECTORS.items()] + [(name, f, 2) for name, f in ROWS.items()]


def gradients(out, x, seed):
    wanted = [t for t in (x, W, *PARAMETERS.values()) if t.requires_grad]
    return cresset.autograd.grad((out * seed).sum(), wanted, allow_unused=True) if out.requires_grad else []


def assert_alike(found, plain, x):
    assert found.requires_grad == plain.requires_grad and found.shape == plain.shape
    assert cresset.allclose(found, plain, rtol=1e-4, atol=1e-5)
    seed = cresset.randn(plain.shape)
    for a, b in zip(gradients(found, x, seed), gradients(plain, x, seed), strict=True):
        assert (a is None) == (b is None)
        assert a is None or cresset.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("name, f, rank", CASES, ids=[c[0] for c in CASES])
def test_whole_graph(name, f, rank, required):
    f(cresset.randn(3, 4)[:3 if rank == 2 else 1].reshape([-1, 4][2 - rank:]))  # names of ops are found once
    for backend in ("eager", "native"):
        compiled = cresset.compile(f, backend=backend, fullgraph=True)
        for seed in range(2):
            cresset.manual_seed(seed)
            x = cresset.randn(3, 4)[:3 if rank == 2 else 1].reshape([-1, 4][2 - rank:]).requires_grad_(required)
            assert_alike(compiled(x), f(x), x)
            with cresset.no_grad():
                assert_alike(compiled(x), f(x), x)
        assert len(compiled._entries()) == 2


@pytest.mark.parametrize("name", ["grad", "vjp", "jvp", "vmap", "vmap_grad", "checkpoint"])
def test_open_sizes(name):
    f = VECTORS.get(name) or ROWS[name]
    compiled = cresset.compile(f, backend="eager", fullgraph=True)
    for rows in (2, 3, 4, 5):
        x = cresset.randn(rows, 4, requires_grad=True)
        assert_alike(compiled(x), f(x), x)
    if not name.startswith("vmap"):  # the number of examples is a number of vmap's own
        assert len(compiled._entries()) == 2


def test_function_with_its_own_backward():
    f = lambda x: grad(lambda y: Cube.apply(y).sum())(x)
    compiled = cresset.compile(f, backend="eager")
    x = cresset.randn(4, requires_grad=True)
    assert_alike(compiled(x), f(x), x)


def test_checkpoint_computes_again():
    """The body is a region of the graph, so that a partitioner can leave its values out."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph
    compiled = cresset.compile(ROWS["checkpoint"], backend=backend, fullgraph=True)
    compiled(cresset.randn(2, 4, requires_grad=True))
    assert "tag_activation_checkpoint" in str(graphs[0])


def test_body_that_writes_to_a_buffer():
    """BatchNorm in checkpoint() counts twice: once forwards, once in backward."""
    net = cresset.nn.BatchNorm1d(4)
    f = lambda x: checkpoint(net, x, use_reentrant=False) * 2
    x = cresset.randn(3, 4, requires_grad=True)
    compiled = cresset.compile(f, backend="eager")
    compiled(x).sum().backward()
    assert net.num_batches_tracked.item() == 2
    with pytest.raises(cresset._dynamo.exc.Unsupported, match="writes to a tensor that was there before"):
        cresset.compile(f, backend="eager", fullgraph=True)(x)


def test_what_a_transform_leaves_behind():
    kept = []

    def f(x):
        return grad(lambda y: (kept.append(y), (y * y).sum())[1])(x)
    x = cresset.randn(3)
    compiled = cresset.compile(f, backend="eager")
    assert cresset.equal(compiled(x), f(x))
    assert kept[0].requires_grad and kept[1].requires_grad and len(kept) == 2


def test_vjp_function_is_nothing_to_return():
    def f(x):
        out, pull = vjp(lambda y: y.sin(), x)
        return out, pull
    x = cresset.randn(3)
    out, pull = cresset.compile(f, backend="eager")(x)
    assert cresset.allclose(pull(out)[0], f(x)[1](out)[0])


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", ["grad", "argnums", "nested", "vjp", "jvp", "hessian", "vmap_grad", "written"])
def test_traced(name, mode):
    """make_fx() records derivatives, of arguments and of what is used besides."""
    f = VECTORS.get(name) or ROWS[name]
    shape = (3, 4) if name in ROWS else (4,)
    graph = make_fx(f, tracing_mode=mode)(cresset.randn(shape))
    x = cresset.randn(shape)
    assert cresset.allclose(graph(x), f(x), rtol=1e-4, atol=1e-5)


def test_traced_with_two_inputs():
    """An argument that the derivative reads and nobody differentiates by is an input, no constant."""
    f = lambda x, y: grad(lambda z: (z * z * y).sum())(x)
    graph = make_fx(f)(cresset.randn(3), cresset.randn(3))
    x, y = cresset.randn(3), cresset.randn(3)
    assert cresset.allclose(graph(x, y), 2 * x * y)


def test_exported():
    class Slope(cresset.nn.Module):
        def forward(self, x):
            return grad(lambda y: (y ** 3).sum())(x)
    x = cresset.randn(4)
    for strict in (False, True):
        program = cresset.export.export(Slope(), (cresset.randn(4),), strict=strict)
        assert cresset.allclose(program.module()(x), 3 * x ** 2)


@pytest.mark.parametrize("f", [
    lambda x: vmap(lambda row: row.sin().sum())(x),
    lambda x: vmap(grad(lambda row: (row ** 3).sum()))(x),
    lambda x: vmap(lambda row: (row @ row[:, None], row.softmax(0), row[0]), in_dims=1, out_dims=(0, 1, 0))(x.t()),
    lambda x: jacrev(lambda y: y.sin())(x[:, 0]),
    lambda x: jacrev(lambda y, z: (y.sin(), z.exp() * y), argnums=(0, 1))(x[:, 0], x[:, 1]),
    lambda x: jacfwd(lambda y: y.sin())(x[:, 0]),
    lambda x: hessian(lambda y: (y ** 3).sum())(x[:, 0]),
], ids=["vmap", "vmap_grad", "other_dims", "jacrev", "two_outputs", "jacfwd", "hessian"])
def test_one_capture_for_all_numbers_of_examples(f):
    compiled = cresset.compile(f, backend="eager")
    for n in range(2, 14):
        x = cresset.randn(n, 3)
        theirs, ours = (pytree.tree_leaves(call(x)) for call in (f, compiled))
        assert all(cresset.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(ours, theirs, strict=True))
    assert len(compiled._entries()) == 2 and not any(e["reason"] for e in compiled._entries())


def test_loops_over_examples_are_as_many_as_there_are():
    f = lambda x: vmap(lambda row: cresset.histc(row, 2, -1.0, 1.0))(x)
    compiled = cresset.compile(f, backend="eager")
    for n in (2, 3, 4):
        x = cresset.randn(n, 5)
        assert cresset.equal(compiled(x), f(x))


def test_same_numbers_in_chunks_are_drawn_outside_of_graphs():
    f = lambda x: vmap(lambda row: row + cresset.rand(2), randomness="same", chunk_size=1)(x)
    compiled, x = cresset.compile(f, backend="eager"), cresset.zeros(3, 2)
    for seed in range(2):
        cresset.manual_seed(seed)
        theirs = f(x)
        cresset.manual_seed(seed)
        assert cresset.equal(compiled(x), theirs) and cresset.equal(theirs[0], theirs[1])


def test_changed_arguments_of_a_region_end_a_capture():
    def f(x, held):
        return grad(lambda y, h: (h["inner"].append(1), (y * len(h["inner"])).sum())[1])(x, held)
    compiled, ours, theirs = cresset.compile(f, backend="eager"), {"inner": []}, {"inner": []}
    for _ in range(3):
        assert cresset.equal(compiled(cresset.ones(2), ours), f(cresset.ones(2), theirs))
    assert ours == theirs
