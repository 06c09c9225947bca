"""Joint graphs: a recorded graph and its derivative in one, against the eager tape and PyTorch."""
import time

import cresset
import pytest

from cresset import _C

torch = pytest.importorskip("torch", reason="gradients are compared with PyTorch's")

F = cresset.nn.functional


def values(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(shape, generator=generator, dtype=torch.float64) + 0.25 for shape in shapes]


def ours(t):
    return cresset.tensor(t.tolist(), dtype=getattr(cresset, str(t.dtype).split(".")[1]))


def joint_of(fn, inputs, wrt=None, through=None, dynamic=None):
    recorded = _C.record(fn, tuple(inputs), dynamic)
    graph, mutated = _C._functionalize(recorded)
    assert not mutated
    joint, primals, results, of = _C._differentiate(graph, wrt, through)
    joint.verify("metas", "functional")
    return joint, primals, results, of


def eager(fn, inputs, wrt=None):
    leaves = [t.detach().clone().requires_grad_(wrt is None or wrt[i]) for i, t in enumerate(inputs)]
    results = fn(*leaves)
    return leaves, results if isinstance(results, tuple) else (results,)


def seeds_for(results):
    return [(torch.arange(r.numel(), dtype=torch.float64).reshape(r.shape) % 5 + 1) / 3 for r in results]


def close(a, b):
    return torch.allclose(torch.tensor(a.tolist(), dtype=torch.float64), b.detach().double(), rtol=1e-9, atol=1e-11)


# What differentiates by a text, through views, lists, several results, decompositions, and several uses of one value.
PROGRAMS = {
    "product": (lambda x, w: (x @ w).relu().sum(), [(3, 4), (4, 5)]),
    "views": (lambda x, w: (x.t()[1:3].reshape(-1) * w[0, 1]).cumsum(0), [(3, 4), (4, 5)]),
    "lists": (lambda x, w: cresset_or_torch(x).cat([x, w.t(), x[:1]], 0).sum(0), [(3, 4), (4, 5)]),
    "split": (lambda x, w: x.split(2, 1)[1] * 2 + x.unbind(0)[1].sum(), [(3, 4), (4, 5)]),
    "two results": (lambda x, w: (x.sin(), (x @ w).logsumexp(1)), [(3, 4), (4, 5)]),
    "statistics": (lambda x, w: cresset_or_torch(x).var_mean(x @ w, 0)[0] + x.std(), [(3, 4), (4, 5)]),
    "norm": (lambda x, w: nnf(x).layer_norm(x, (4,), w[:, 0], w[:, 1]).exp(), [(3, 4), (4, 5)]),
    "composite": (lambda x, w: nnf(x).cosine_similarity(x, w[:, :3].t()), [(3, 4), (4, 5)]),
    "loss": (lambda x, w: nnf(x).smooth_l1_loss(x @ w, x[:, :1].expand(3, 5)), [(3, 4), (4, 5)]),
    "index": (lambda x, w: x[[0, 2, 0]].sum(1) * w[1, 1], [(3, 4), (4, 5)]),
    "detached": (lambda x, w: x * x.detach() + w.sum().detach(), [(3, 4), (4, 5)]),
    "maximum": (lambda x, w: (x.max(1)[0] * w.max(1)[0][:3]).prod(), [(3, 4), (4, 5)]),
}


def cresset_or_torch(x):
    return torch if isinstance(x, torch.Tensor) else cresset


def nnf(x):
    return cresset_or_torch(x).nn.functional


@pytest.mark.parametrize("name", PROGRAMS)
def test_joint_is_eager(name):
    fn, shapes = PROGRAMS[name]
    inputs = values(shapes)
    leaves, results = eager(fn, inputs)
    seeds = seeds_for(results)
    expected = torch.autograd.grad(results, leaves, seeds, allow_unused=True)
    joint, primals, nresults, of = joint_of(fn, [ours(t) for t in inputs])
    assert primals == 2 and nresults == len(results)
    made = joint.run(*[ours(t) for t in inputs], *[ours(seeds[i]) for i in of])
    for a, b in zip(made[:nresults], results):
        assert close(a, b)
    for a, b in zip(made[nresults:], expected):
        assert (a is None) == (b is None) and (a is None or close(a, b))
        assert a is None or tuple(a.shape) == tuple(b.shape)


@pytest.mark.parametrize("name", PROGRAMS)
def test_joint_of_a_joint(name):
    fn, shapes = PROGRAMS[name]
    inputs = values(shapes)
    leaves, results = eager(fn, inputs)
    seeds = [s.requires_grad_() for s in seeds_for(results)]
    first = torch.autograd.grad(results, leaves, seeds, create_graph=True, allow_unused=True)
    joint, primals, nresults, of = joint_of(fn, [ours(t) for t in inputs])
    through = [False] * nresults + [g is not None and g.requires_grad for g in first]
    twice, _, n, of2 = _C._differentiate(joint, None, through)
    twice.verify("metas", "functional")
    known = [g for g in first if g is not None and g.requires_grad]
    weights = [torch.full_like(g, 0.5 + i) for i, g in enumerate(known)]
    expected = torch.autograd.grad(known, leaves + [seeds[i] for i in of], weights, allow_unused=True) if known else []
    assert [i - nresults for i in of2] == [i for i, g in enumerate(first) if g is not None and g.requires_grad]
    made = twice.run(*[ours(t) for t in inputs + [seeds[i] for i in of]], *[ours(w) for w in weights])
    for a, b in zip(made[n:], expected):
        zero = b is None or not b.abs().max()
        assert (a is None and zero) or close(a, b if b is not None else torch.zeros(a.shape))


def test_undefined_stays_undefined():
    x, y, z = (ours(t) for t in values([(3,), (3,), (3,)]))
    joint, _, n, of = joint_of(lambda x, y, z: (x * y, y.detach() * 2, z.sin(), x.sum()), [x, y, z],
                               wrt=[True, True, True], through=[True, True, False, False])
    assert of == (0,)  # nothing flows through a detached result, and nobody has a tangent for the others
    made = joint.run(x, y, z, cresset.ones(3, dtype=cresset.float64))
    assert made[n].tolist() == y.tolist() and made[n + 1].tolist() == x.tolist() and made[n + 2] is None
    calls = [node["target"] for node in joint.nodes if node["kind"] == "call"]
    assert "aten.cos" not in calls and "aten.zeros" not in calls


def test_only_what_is_due():
    x, w = (ours(t) for t in values([(3, 4), (4, 5)]))
    joint, _, n, _ = joint_of(lambda x, w: x @ w, [x, w], wrt=[False, True])
    made = joint.run(x, w, cresset.ones(3, 5, dtype=cresset.float64))
    assert made[n] is None and made[n + 1].shape == (4, 5)
    # an op off the gradient path stays one op
    joint, _, _, _ = joint_of(lambda x, w: F.cosine_similarity(x, x, 0).sum() * w, [x, w], wrt=[False, True])
    assert "aten.cosine_similarity" in [node["target"] for node in joint.nodes]
    joint, _, _, of = joint_of(lambda x, w: (x * 2, x.sum()), [x, w], wrt=[False, False])
    assert of == ()


def test_random_numbers_are_drawn_once():
    x, = (ours(t) for t in values([(50,)]))
    joint, _, n, _ = joint_of(lambda x: F.dropout(x, 0.5, True), [x])
    y, grad = joint.run(x, cresset.ones(50, dtype=cresset.float64))
    assert [v != 0 for v in y.tolist()] == [v != 0 for v in grad.tolist()] and 0 in y.tolist()
    drawn = [node["target"] for node in joint.nodes if node["target"] and "dropout" in node["target"]]
    assert drawn == ["aten.native_dropout", "aten.native_dropout_backward"]


@pytest.mark.parametrize("mask", [None, "bool", "rows", "float", "grad"])
def test_attention_keeps_its_logsumexp(mask):
    """No matrix of all pairs is kept: the op's .train stands for it, unless the mask itself wants a gradient."""
    q, k, v = values([(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)])
    m = None if mask is None else torch.rand(4, 6, dtype=torch.float64)
    if mask == "bool":
        m = torch.ones(4, 6, dtype=torch.bool).tril()
    if mask == "rows":  # one that sees nothing
        m = (torch.arange(4) > 0)[:, None].expand(4, 6).clone()
    inputs = [q, k, v] + ([] if m is None else [m])

    def fn(q, k, v, m=None):
        return nnf(q).scaled_dot_product_attention(q, k, v, attn_mask=m)

    wrt = [True, True, True] + ([mask == "grad"] if m is not None else [])
    leaves, results = eager(fn, inputs, wrt)
    expected = torch.autograd.grad(results, [t for t, w in zip(leaves, wrt) if w], seeds_for(results))
    joint, _, n, _ = joint_of(fn, [ours(t) for t in inputs], wrt)
    targets = [node["target"] for node in joint.nodes]
    assert ("aten._scaled_dot_product_flash_attention_for_cpu" in targets) == (mask != "grad")
    made = joint.run(*[ours(t) for t in inputs], ours(seeds_for(results)[0]))
    assert all(close(a, b) for a, b in zip([made[0]] + [g for g in made[n:] if g is not None], [*results, *expected]))
    tape = [ours(t).requires_grad_(w) for t, w in zip(inputs, wrt)]
    fn(*tape).backward(ours(seeds_for(results)[0]))
    assert all(close(t.grad, g) for t, g in zip([t for t, w in zip(tape, wrt) if w], expected))


def test_symbolic_sizes():
    x, w = (ours(t) for t in values([(3, 4), (4, 5)]))
    fn = lambda x, w: (x @ w).softmax(1).mean(0) * x.shape[0]
    joint, _, n, _ = joint_of(fn, [x, w], dynamic=({0: "rows"}, None))
    for rows in (2, 7):
        inputs = values([(rows, 4), (4, 5)], rows)
        leaves, results = eager(fn, inputs)
        expected = torch.autograd.grad(results, leaves, seeds_for(results))
        made = joint.run(*[ours(t) for t in inputs], ours(seeds_for(results)[0]))
        assert all(close(a, b) for a, b in zip(made, [*results, *expected]))


def test_regions_that_mark():
    class Marked(cresset.nn.Module):
        def forward(self, x, y):
            with cresset.no_grad():
                a = x * y
            return a * y.sin()

    x, y = values([(3,), (3,)])
    graph = cresset.export.export(Marked(), (ours(x), ours(y)))._program.graph
    assert "wrap_with_set_grad_enabled" in str(graph)
    joint, _, n, of = _C._differentiate(graph)
    joint.verify("metas", "functional")
    _, gx, gy = joint.run(ours(x), ours(y), cresset.ones(3, dtype=cresset.float64))
    assert gx is None and close(gy, x * y * y.cos())  # the product was made without grad


def test_errors():
    x = cresset.ones(3)
    written = _C.record(lambda x: x.add_(1), (x,))
    with pytest.raises(ValueError, match="only functional graphs are differentiated.*add_"):
        _C._differentiate(written)
    graph = _C.record(lambda x: x * 2, (x,))
    with pytest.raises(ValueError, match="wrt has 2 entries, the graph 1"):
        _C._differentiate(graph, [True, False])
    with pytest.raises(TypeError, match="takes a Graph, not int"):
        _C._differentiate(3)
    bessel = _C.record(lambda x: cresset.special.bessel_j0(x), (x,))
    with pytest.raises(NotImplementedError, match="derivative of %.*bessel_j0 has no derivative"):
        _C._differentiate(bessel)


def test_a_transformer_takes_milliseconds():
    layers = [cresset.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(12)]
    program = cresset.export.export(cresset.nn.Sequential(*layers), (cresset.randn(2, 5, 16),))
    graph, _ = _C._functionalize(program._program.graph)
    best = 1.0
    for _ in range(3):
        start = time.perf_counter()
        joint, _, _, _ = _C._differentiate(graph)
        best = min(best, time.perf_counter() - start)
    assert len(joint.nodes) > 1000 and best < 0.02
