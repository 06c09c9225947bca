"""A1: cresset.func.vmap against torch.func.vmap: arguments, nesting, writes, random numbers, derivatives, errors.
tests/ops/vmaps.py has every op."""
import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def data(m, *shape):
    n = 1
    for size in shape:
        n *= size
    return (m.arange(n, dtype=m.float64).sin() + 1.1).reshape(shape)


def values(v):
    if isinstance(v, (tuple, list)):
        return [values(t) for t in v]
    if isinstance(v, dict):
        return {key: values(t) for key, t in v.items()}
    return [list(v.shape), str(v.dtype).partition(".")[2], v.detach().tolist(), v.requires_grad]


def near(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a)) or (a != a and b != b)
    return a == b


def conv(m, w, b, x):
    return m.nn.functional.conv2d(x, w, b, padding=1).relu()


def net(m, p, x):
    """A small network of one example, as people write it for per-sample gradients."""
    f = m.nn.functional
    h = f.conv2d(x.unsqueeze(0), p["conv"], p["bias"], stride=2)
    h = f.max_pool2d(f.group_norm(h, 2, p["scale"], p["shift"]).relu(), 2)
    h = f.layer_norm(f.linear(h.flatten(1), p["w"], p["b"]), [5], p["scale5"], None)
    return f.cross_entropy(h, (x.sum() * 0).long().reshape(1) + 2)


def net_params(m):
    return {"conv": data(m, 4, 2, 3, 3), "bias": data(m, 4), "scale": data(m, 4), "shift": data(m, 4),
            "w": data(m, 5, 16) - 1, "b": data(m, 5), "scale5": data(m, 5)}


def in_place(m, x):
    y = x.clone()
    y[0] = 7
    y.mul_(x.sum()).add_(1)
    y[1:].sin_()
    y.t_()
    return y


def through_views(m, x):
    y = x.new_zeros(4, 3)
    y[1].copy_(x[0])
    y.view(-1)[9:] += x[1]
    return y, y.T.reshape(-1)


def indexed(m, x, i):
    return x[i], x[:, i], x[i, i], x[i[:, None], i[None, :2]], x.index_select(0, i), x.gather(1, i[:, None])


def put(m, x, i):
    y = x.clone()
    y[i] = x[i.flip(0)] * 2
    y[i] += 1
    return y, x.index_add(0, i, x[:3]), x.scatter_add(1, i[:, None], x[:, :1]), m.nn.functional.embedding(i, x)


def sequence(m, x, w, b):
    """One layer of attention and a recurrent cell."""
    f = m.nn.functional
    q = f.linear(x, w, b).reshape(4, 2, 3).transpose(0, 1)
    y = f.scaled_dot_product_attention(q[None], q[None], q[None], is_causal=True)
    return y.transpose(1, 2).reshape(4, 6), x.softmax(-1), x.logsumexp(0), x.std(0), f.gelu(x), x.sort(0)


# name: (function of (f = m.func, m))
PROGRAMS = {
    "pointwise": lambda f, m: f.vmap(lambda a, b: a * b.sum() + a)(data(m, 5, 3), data(m, 5, 3)),
    "in_dims": lambda f, m: f.vmap(lambda a, b: a @ b, in_dims=(1, None))(data(m, 3, 5), data(m, 3, 2)),
    "negative": lambda f, m: f.vmap(lambda a, b: a @ b, in_dims=(-1, -2), out_dims=-1)(data(m, 3, 5), data(m, 5, 3)),
    "trees": lambda f, m: f.vmap(lambda p, x: {"y": p["a"] * x + p["b"], "n": [x]}, in_dims=({"a": 0, "b": None}, 0),
                                 out_dims={"y": 1, "n": 0})({"a": data(m, 4, 2), "b": data(m)}, data(m, 4, 2)),
    "keywords": lambda f, m: f.vmap(lambda x, scale=None: x * scale)(data(m, 4, 2), scale=data(m, 2)),
    "out_dims": lambda f, m: f.vmap(lambda x: (x, x.sum(), x.T), out_dims=(1, 0, -1))(data(m, 4, 2, 3)),
    "constants": lambda f, m: f.vmap(lambda x: (data(m, 3), x), out_dims=(0, 0))(data(m, 4, 2)),
    "not mapped": lambda f, m: f.vmap(lambda x: (x, data(m, 3)), out_dims=(0, None))(data(m, 4, 2)),
    "one": lambda f, m: f.vmap(lambda x: (x.squeeze(), x.sum(0), x.reshape(-1)))(data(m, 1, 1, 3)),
    "zero": lambda f, m: f.vmap(lambda x: (x.sin(), x.sum(0), x @ x.T))(data(m, 0, 2, 3)),
    "chunks": lambda f, m: f.vmap(lambda x, y: (x * y.sum(), y), in_dims=(1, 0), out_dims=(1, 0),
                                  chunk_size=2)(data(m, 3, 5), data(m, 5, 3)),
    "nested": lambda f, m: f.vmap(f.vmap(lambda a, b: a * b.sum(), (None, 0)), (0, None))(data(m, 3), data(m, 4, 2)),
    "three": lambda f, m: f.vmap(f.vmap(f.vmap(m.dot, (None, 0)), (0, None)), (0, 0))(data(m, 2, 3, 4),
                                                                                    data(m, 2, 5, 4)),
    "inner closure": lambda f, m: f.vmap(lambda x: f.vmap(lambda y: x @ y)(data(m, 3, 2)))(data(m, 4, 5, 2)),
    "scalars": lambda f, m: f.vmap(lambda a, b: (a * b, b.float() + a, a / 2))(
        data(m, 4), m.ones(4, 3, dtype=m.float32)),
    "in place": lambda f, m: f.vmap(lambda x: in_place(m, x))(data(m, 4, 3, 2)),
    "in place last": lambda f, m: f.vmap(lambda x: in_place(m, x), in_dims=2)(data(m, 3, 2, 4)),
    "through views": lambda f, m: f.vmap(lambda x: through_views(m, x))(data(m, 4, 2, 3)),
    "index": lambda f, m: f.vmap(lambda x, i: indexed(m, x, i))(data(m, 2, 3, 3), m.tensor([[0, 2, 1], [1, 1, 0]])),
    "index by one": lambda f, m: f.vmap(lambda x, i: indexed(m, x, i), (0, None))(data(m, 2, 3, 3),
                                                                                m.tensor([0, 2, 1])),
    "index of one": lambda f, m: f.vmap(lambda x, i: indexed(m, x, i), (None, 0))(
        data(m, 3, 3), m.tensor([[0, 2, 1], [1, 1, 0]])),
    "put": lambda f, m: f.vmap(lambda x, i: put(m, x, i))(data(m, 2, 3, 3), m.tensor([[0, 2, 1], [1, 0, 2]])),
    "convolution": lambda f, m: [f.vmap(lambda w, b, x: conv(m, w, b, x), dims)(
        data(m, *(2,) * (dims[0] is not None), 4, 2, 3, 3), data(m, *(2,) * (dims[1] is not None), 4),
        data(m, *(2,) * (dims[2] is not None), *first, 2, 5, 5))
        for dims in ((None, None, 0), (0, 0, 0), (0, None, None), (None, 0, 0)) for first in ((), (3,))],
    "batch norm": lambda f, m: f.vmap(lambda x: m.nn.functional.batch_norm(x, None, None, training=True))(
        data(m, 4, 3, 2, 2)),
    "batch norm, statistics": lambda f, m: f.vmap(lambda x, a, b: (m.nn.functional.batch_norm(
        x, a, b, training=True), a, b))(data(m, 4, 3, 2), data(m, 4, 2), data(m, 4, 2)),
    "sequence": lambda f, m: f.vmap(lambda x, w: sequence(m, x, w, data(m, 6)), (0, None))(data(m, 3, 4, 5),
                                                                                         data(m, 6, 5)),
    "weights": lambda f, m: f.vmap(lambda w: sequence(m, data(m, 4, 5), w, data(m, 6)))(data(m, 3, 6, 5)),
    "per-sample gradients": lambda f, m: f.vmap(f.grad(lambda p, x: net(m, p, x)), (None, 0))(
        net_params(m), data(m, 3, 2, 10, 10)),
    "per-sample values": lambda f, m: f.vmap(f.grad_and_value(lambda w, x: (w * x).sin().sum()), (None, 0))(
        data(m, 3), data(m, 4, 3)),
    "gradient of vmap": lambda f, m: f.grad(lambda w: f.vmap(lambda x: (w @ x).sin().sum())(data(m, 4, 3)).sum())(
        data(m, 2, 3)),
    "both": lambda f, m: f.grad(lambda w: f.vmap(f.grad(lambda w, x: (w * x).sin().sum()), (None, 0))(
        w, data(m, 4, 3)).square().sum())(data(m, 3)),
    "vmap in grad in vmap": lambda f, m: f.vmap(f.grad(lambda w, x: f.vmap(lambda y: (w * y).sin().sum())(x).sum()),
                                                (None, 0))(data(m, 3), data(m, 2, 4, 3)),
    "systems": lambda f, m: f.vmap(lambda a, b: (m.linalg.solve(a, b), m.linalg.solve_triangular(a, b, upper=True)))(
        data(m, 2, 3, 3) + 3 * m.eye(3, dtype=m.float64), data(m, 2, 2, 3, 4)),
    "vjp": lambda f, m: f.vmap(lambda x, u: f.vjp(lambda t: t.sin() * t.sum(), x)[1](u))(data(m, 4, 3), data(m, 4, 3)),
    "seeds": lambda f, m: f.vmap(f.vjp(lambda t: t.sin() * t.sum(), data(m, 3))[1])(data(m, 4, 3)),
    "seeds of a network": lambda f, m: f.vmap(f.vjp(lambda p: net(m, p, data(m, 2, 10, 10)), net_params(m))[1])(
        data(m, 4)),
    "seeds inside": lambda f, m: f.vmap(lambda x: f.vmap(f.vjp(lambda t: t.sin() * t.sum(), x)[1])(data(m, 4, 3)))(
        data(m, 2, 3)),
    "jvp": lambda f, m: f.vmap(lambda x, t: f.jvp(lambda v: v.sin() * v.prod(), (x,), (t,)))(data(m, 4, 3),
                                                                                           data(m, 4, 3)),
    "tangents": lambda f, m: f.vmap(lambda t: f.jvp(lambda v: v.sin() * v.prod(), (data(m, 3),), (t,))[1])(
        data(m, 4, 3)),
    "jacrev": lambda f, m: f.vmap(f.jacrev(lambda x: (x.sin() * x.sum()).cumsum(0)))(data(m, 4, 3)),
    "jacfwd": lambda f, m: f.vmap(f.jacfwd(lambda x: (x.sin() * x.sum()).cumsum(0)))(data(m, 4, 3)),
    "cat of nothing": lambda f, m: f.vmap(lambda x, y: m.cat([x, y], 1))(data(m, 4, 1)[:, 1:], data(m, 4, 2, 3)),
    "hessian": lambda f, m: f.vmap(f.hessian(lambda x: x.sin().prod()))(data(m, 4, 3)),
    "jacrev of vmap": lambda f, m: f.jacrev(f.vmap(lambda x: x.sin().prod()))(data(m, 4, 3)),
    "rows at a time": lambda f, m: f.jacrev(lambda x: (x.sin() * x.sum()).cumsum(0), chunk_size=2)(data(m, 5)),
    "two inputs": lambda f, m: f.jacrev(lambda x, y: (x @ y, x.sum()), (0, 1), chunk_size=1)(data(m, 2, 3), data(m, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_pytorch(name):
    ours, theirs = (values(PROGRAMS[name](m.func, m)) for m in (cresset, torch))
    assert near(ours, theirs), (ours, theirs)


def test_models_in_a_stack():
    def run(m):
        m.manual_seed(3)
        models = [m.nn.Sequential(m.nn.Linear(3, 4), m.nn.ReLU(), m.nn.Linear(4, 2)) for _ in range(3)]
        params, buffers = m.func.stack_module_state(models)
        call = lambda p, b, x: m.func.functional_call(models[0], (p, b), (x,))
        x = m.ones(5, 3)
        return [m.func.vmap(call, (0, 0, None))(params, buffers, x).detach().tolist(),
                [model(x).detach().tolist() for model in models]]
    for ours, theirs in zip(run(cresset), run(torch)):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-6)


def test_gradients_of_outside_flow():
    def run(m):
        w, x = data(m, 3).requires_grad_(), data(m, 4, 3).requires_grad_()
        (m.func.vmap(lambda t: (t * w).sin().sum())(x) ** 2).sum().backward()
        return [w.grad.tolist(), x.grad.tolist()]
    assert near(run(cresset), run(torch))


# ---- random numbers ----

DRAWS = {
    "factory": lambda m, x: m.randn(3, dtype=m.float64) + x,
    "like": lambda m, x: m.rand_like(x) + x,
    "in place": lambda m, x: m.empty_like(x).uniform_() + x,
    "dropout": lambda m, x: m.nn.functional.dropout(x, 0.5),
    "permutation": lambda m, x: m.randperm(5) + x[0].long(),
    "bernoulli": lambda m, x: m.bernoulli((x / 3).clamp(0, 1)),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("randomness", ["error", "different", "same"])
def test_random_numbers(name, randomness):
    def run(m):
        m.manual_seed(7)
        return m.func.vmap(lambda x: DRAWS[name](m, x), randomness=randomness)(data(m, 4, 3)).tolist()
    try:
        want = run(torch)
    except RuntimeError:
        with pytest.raises(RuntimeError, match="vmap"):
            run(cresset)
    else:
        assert near(run(cresset), want)


def test_chunks_draw_the_same():
    cresset.manual_seed(1)
    found = cresset.func.vmap(lambda x: x + cresset.rand(2), randomness="same", chunk_size=2)(cresset.zeros(5, 2))
    assert found.tolist() == [found[0].tolist()] * 5


# ---- errors: class, facts and remedy ----

def _no_example(m):
    return m.func.vmap(lambda: 1)()


def _leak(m):
    kept = []
    m.func.vmap(lambda x: kept.append(x) or x)(data(m, 3))
    return kept[0] + 1


ERRORS = {
    "sizes": (ValueError, r"same size in the mapped dimension, got sizes \[2, 3\]",
              lambda f, m: f.vmap(lambda a, b: a)(data(m, 2), data(m, 3))),
    "no input": (ValueError, "got no inputs", lambda f, m: _no_example(m)),
    "nothing mapped": (ValueError, "expected `in_dims` to be int", lambda f, m: f.vmap(lambda a: a, None)(data(m, 2))),
    "nothing mapped in a tuple": (ValueError, "at least one Tensor",
                                  lambda f, m: f.vmap(lambda a: a, (None,))(data(m, 2))),
    "no tensor": (ValueError, "non-Tensor", lambda f, m: f.vmap(lambda a, b: a)(data(m, 2), 3)),
    "in_dims": (ValueError, "in_dims", lambda f, m: f.vmap(lambda a: a, "x")(data(m, 2))),
    "in_dims structure": (ValueError, "in_dims is not compatible",
                          lambda f, m: f.vmap(lambda a: a, (0, 0))(data(m, 2))),
    "in_dims entry": (ValueError, "in_dim", lambda f, m: f.vmap(lambda a: a, (0.5,))(data(m, 2))),
    "out of range": (ValueError, "dimensionality 1", lambda f, m: f.vmap(lambda a: a, 1)(data(m, 2))),
    "0-d": (ValueError, "dimensionality 0", lambda f, m: f.vmap(lambda a: a)(data(m))),
    "returns a number": (ValueError, "must only return Tensors", lambda f, m: f.vmap(lambda a: 3)(data(m, 2))),
    "out_dims": (ValueError, "out_dims", lambda f, m: f.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(data(m, 2))),
    "out_dims None": (ValueError, "out_dim is None", lambda f, m: f.vmap(lambda a: a, out_dims=None)(data(m, 2))),
    "out_dims range": (IndexError, "out of range|ange", lambda f, m: f.vmap(lambda a: a, out_dims=3)(data(m, 2))),
    "randomness": (RuntimeError, "'error', 'different', or 'same'", lambda f, m: f.vmap(abs, randomness="x")(data(m))),
    "chunk_size": (ValueError, "chunk_size", lambda f, m: f.vmap(abs, chunk_size=0)(data(m, 2))),
    "item": (RuntimeError, r"\.item\(\)", lambda f, m: f.vmap(lambda a: a * a.item())(data(m, 2))),
    "float": (RuntimeError, r"\.item\(\)", lambda f, m: f.vmap(lambda a: a * float(a))(data(m, 2))),
    "branch": (RuntimeError, "data-dependent control flow",
               lambda f, m: f.vmap(lambda a: a if a > 1 else -a)(data(m, 2))),
    "nonzero": (RuntimeError, "vmap", lambda f, m: f.vmap(lambda a: a.nonzero())(data(m, 2, 3))),
    "mask": (RuntimeError, "vmap", lambda f, m: f.vmap(lambda a: a[a > 1])(data(m, 2, 3))),
    "write": (RuntimeError, r"vmap: .*(add_|mul_).* is not possible", lambda f, m: f.vmap(lambda a: m.zeros(
        3, dtype=m.float64).add_(a))(data(m, 2, 3))),
    "write a part": (RuntimeError, "vmap", lambda f, m: f.vmap(lambda a: m.zeros(3, dtype=m.float64)[0].copy_(a[0]))(
        data(m, 2, 3))),
    "statistics": (RuntimeError, "vmap", lambda f, m: f.vmap(lambda a: m.nn.functional.batch_norm(
        a, data(m, 2), data(m, 2), training=True))(data(m, 3, 2, 2))),
    "requires_grad": (RuntimeError, "requires_grad_", lambda f, m: f.vmap(lambda a: a.requires_grad_())(data(m, 2))),
    "cast": (RuntimeError, "can't be cast", lambda f, m: f.vmap(lambda a, i: i.add_(a))(
        data(m, 2, 3), m.ones(2, 3, dtype=m.int64))),
    "one example's error": (RuntimeError, "", lambda f, m: f.vmap(lambda a: a @ a)(data(m, 2, 3, 2))),
    "one example's dim": (IndexError, "", lambda f, m: f.vmap(lambda a: a.sum(1))(data(m, 2, 3))),
}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, m):
    kind, message, run = ERRORS[name]
    with pytest.raises(kind, match=message if m is cresset and message else None):
        run(m.func, m)
    assert cresset._C._vmap_depth() == 0


def test_a_tensor_of_one_call_is_none_outside():
    with pytest.raises(RuntimeError, match="outside of that call; return it"):
        _leak(cresset)


def test_out_forms_are_refused_by_name():
    with pytest.raises(RuntimeError, match="aten::add.out: functions with out="):
        cresset.func.vmap(lambda a: cresset.add(a, 1, out=cresset.empty(3)))(cresset.ones(2, 3))


def test_backward_inside_says_what_to_use():
    w = data(cresset, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="use func.grad"):
        cresset.func.vmap(lambda x: (x * w).sum().backward() or x)(data(cresset, 2, 3))
    with pytest.raises(NotImplementedError, match="use func.grad"):
        cresset.func.vmap(lambda x: cresset.autograd.grad((x * w).sum(), w)[0])(data(cresset, 2, 3))


# ---- loops ----

def test_classes_make_no_loops():
    before = cresset._C._vmap_counts()[0]
    cresset.func.vmap(cresset.func.grad(lambda p, x: net(cresset, p, x)), (None, 0))(net_params(cresset),
                                                                                data(cresset, 3, 2, 10, 10))
    assert cresset._C._vmap_counts()[0] == before


def test_what_has_no_class_is_a_loop_that_is_counted():
    x = data(cresset, 3, 8)
    before = cresset._C._vmap_counts()[0]
    found = cresset.func.vmap(lambda t: cresset.histc(t, 4, 0, 2))(x)
    loops, _, name = cresset._C._vmap_counts()
    assert loops == before + 1 and name == "aten::histc"
    assert found.tolist() == [cresset.histc(t, 4, 0, 2).tolist() for t in x]


def test_exported_programs_have_calls_on_all_examples():
    class M(cresset.nn.Module):
        def forward(self, x, w):
            return cresset.func.vmap(lambda t: (w @ t).tanh().sum())(x)
    x, w = cresset.ones(4, 3), cresset.ones(2, 3)
    program = cresset.export.export(M(), (x, w))
    assert program.module()(x, w).tolist() == M()(x, w).tolist()


# ---- batches of gradients ----

def batches(m):
    x, y = data(m, 3).requires_grad_(), data(m, 2).requires_grad_()
    out = (x.sin() * x.sum(), x.prod())
    unused = m.autograd.grad(out, [x, y], [data(m, 4, 3), data(m, 4)], is_grads_batched=True, allow_unused=True,
                             retain_graph=True)
    zeros = m.autograd.grad(out[0], [x, y], data(m, 4, 3), is_grads_batched=True, materialize_grads=True,
                            create_graph=True)
    second = m.autograd.grad(zeros[0].sum(), x)
    return [unused[0], zeros[0], zeros[1].detach(), *second]


def test_batches_of_gradients():
    assert near(values(batches(cresset)), values(batches(torch)))
    x = data(cresset, 3).requires_grad_()
    both = [x, data(cresset, 2).requires_grad_()]
    found = cresset.autograd.grad(x.sin(), both, data(cresset, 4, 3), allow_unused=True, is_grads_batched=True)
    assert found[1] is None
    with pytest.raises(RuntimeError, match="needs grad_outputs"):
        cresset.autograd.grad(x.sum(), x, is_grads_batched=True)
    with pytest.raises(RuntimeError):
        cresset.autograd.grad(x.sin(), x, data(cresset, 4, 2), is_grads_batched=True)


# ---- functions with a backward of their own ----

def own_function(m, generated):
    class Scaled(m.autograd.Function):
        generate_vmap_rule = generated

        @staticmethod
        def forward(x, y, factor):
            return x * y * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], inputs[1])
            ctx.factor = inputs[2]

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y * ctx.factor * 10, grad * x * ctx.factor, None  # 10: seen where it is used
    return Scaled


def with_rule(m):
    class Scaled(own_function(m, False)):
        @staticmethod
        def vmap(info, in_dims, x, y, factor):
            assert info.batch_size == 4 and in_dims == (0, None, None)
            return Scaled.apply(x, y.expand(4, *y.shape), factor), 0
    return Scaled


@pytest.mark.parametrize("make", [lambda m: own_function(m, True), with_rule], ids=["generated", "own"])
def test_functions(make):
    def run(m):
        f, call = m.func, make(m).apply
        x, y = data(m, 4, 3), data(m, 3)
        mapped = lambda x, y: f.vmap(lambda t: call(t, y, 2.0))(x)
        return [mapped(x, y), f.grad(lambda x: mapped(x, y).sin().sum())(x), f.grad(lambda y: mapped(x, y).sum())(y)]
    assert near(values(run(cresset)), values(run(torch)))


@BOTH
def test_functions_without_a_rule_say_so(m):
    with pytest.raises(RuntimeError, match="does not have vmap support.*generate_vmap_rule=True"):
        m.func.vmap(lambda t: own_function(m, False).apply(t, t, 1.0))(data(m, 4, 3))


def test_one_hot():
    found = cresset.func.vmap(lambda i: cresset.nn.functional.one_hot(i, 4))(cresset.tensor([[0, 3], [2, 1]]))
    assert found.tolist() == [[[1, 0, 0, 0], [0, 0, 0, 1]], [[0, 0, 1, 0], [0, 1, 0, 0]]]
    with pytest.raises(RuntimeError, match="vmap: aten::one_hot: the size of the result depends on the values"):
        cresset.func.vmap(lambda i: cresset.nn.functional.one_hot(i))(cresset.tensor([[0, 3], [2, 1]]))


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_classes_as_bytes(reduction, weights):
    """nll_loss takes uint8 classes; gather, by which the examples are taken together, does not."""
    def parts(m):
        options = {"weight": data(m, 3) if weights else None, "reduction": reduction, "ignore_index": 2}
        classes = m.tensor([[0, 2, 1, 1], [2, 2, 0, 1]], dtype=m.uint8)
        return lambda x, y: m.nn.functional.nll_loss(x, y, **options), data(m, 2, 4, 3), classes
    loss, x, y = parts(torch)
    each = torch.stack([loss(a, b) for a, b in zip(x, y)])  # PyTorch's vmap refuses them, its nll_loss does not
    loss, x, y = parts(cresset)
    assert near(values(cresset.func.vmap(loss)(x, y)), values(each))


def test_numbers_alone_are_no_probabilities():
    """Outside of vmap a 0-d tensor is refused; PyTorch's takes the examples for the classes of one draw."""
    with pytest.raises(RuntimeError, match="multinomial: the probabilities must have 1 or 2 dims, not 0"):
        cresset.func.vmap(lambda p: cresset.multinomial(p, 1), randomness="different")(data(cresset, 3))


# ---- regions: loops and choices; PyTorch runs the same in plain Python, example by example ----

def chosen(m, x, w):
    if m is torch:
        return x * w if x.sum() > 3.5 else x.sin() - w
    return m.cond(x.sum() > 3.5, lambda x, w: x * w, lambda x, w: x.sin() - w, (x, w))


def chosen_for_all(m, x, w):
    if m is torch:
        return x * w if w.sum() > 100 else x.exp()
    return m.cond(cresset.tensor(False), lambda x: x * w, lambda x: x.exp(), (x,))


def halved(m, x, w):
    if m is torch:
        while x.norm() > 0.3:
            x = x * w / (1 + w)
        return x
    return m.while_loop(lambda x: x.norm() > 0.3, lambda x: (x * w / (1 + w),), (x,))[0]


def counted(m, x, w):
    if m is torch:
        for _ in range(3):
            x = x * w + 1
        return x
    return m.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * w + 1), (m.tensor(0), x))[1]


def scanned(m, x, w):
    if m is torch:
        carry, out = w.sum(), []
        for row in x:
            out.append(carry * row)
            carry = carry.tanh() + row
        return torch.stack(out) + carry
    from cresset._higher_order_ops import scan
    carry, out = scan(lambda c, row: (c.tanh() + row, c * row), w.sum(), x)
    return out + carry


def each(m, x, w):
    if m is torch:
        return torch.stack([(row * w).sum() for row in x])
    from cresset._higher_order_ops import map
    return map(lambda row, w: (row * w).sum(), x, w)


def running(m, x, w):
    if m is torch:
        return torch.cumprod(x * w, 0)
    from cresset._higher_order_ops import associative_scan
    return associative_scan(lambda a, b: a * b, x * w, 0)


@pytest.mark.parametrize("dims", [(0, None), (0, 0), (1, 0)])
@pytest.mark.parametrize("region", [chosen, chosen_for_all, halved, counted, scanned, each, running],
                         ids=lambda f: f.__name__)
def test_regions(region, dims):
    x, w = data(torch, 3, 3), data(torch, 3, 3) if dims[1] == 0 else data(torch, 3)
    one = [(x.select(dims[0], i), w if dims[1] is None else w[i]) for i in range(3)]
    wanted = torch.stack([region(torch, a, b) for a, b in one])
    grads = [torch.func.grad(lambda a, b=b: (region(torch, a, b) * 2).sum())(a) for a, b in one]
    x, w = cresset.tensor(x.tolist(), dtype=cresset.float64), cresset.tensor(w.tolist(), dtype=cresset.float64)
    assert near(values(cresset.vmap(lambda a, b: region(cresset, a, b), dims)(x, w)), values(wanted))
    made = cresset.func.vmap(cresset.func.grad(lambda a, b: (region(cresset, a, b) * 2).sum()), dims)(x, w)
    assert near(values(made), values(torch.stack(grads)))


def test_branches_under_vmap_must_agree():
    from cresset._dynamo.exc import UncapturedHigherOrderOpError
    x = data(cresset, 3, 2)
    with pytest.raises(UncapturedHigherOrderOpError, match=r"result 0 of both functions must be a tensor of one dtype"):
        cresset.vmap(lambda a: cresset.cond(a.sum() > 0, lambda a: a, lambda a: a[:1], (a,)))(x)
    with pytest.raises(UncapturedHigherOrderOpError, match="must return the same structure"):
        cresset.vmap(lambda a: cresset.cond(a.sum() > 0, lambda a: a, lambda a: (a, a), (a,)))(x)


def test_a_number_of_each_example_indexes():
    x, i = cresset.arange(12.0).reshape(3, 4), cresset.tensor([3, 0, 2])
    assert cresset.func.vmap(lambda a, k: a[k])(x, i).tolist() == [3.0, 4.0, 10.0]
    assert cresset.func.vmap(lambda k: x[1:, k])(i).tolist() == [[7.0, 11.0], [4.0, 8.0], [6.0, 10.0]]


def test_what_is_given_back_is_the_argument():
    x = cresset.arange(6.0).reshape(2, 3)
    for dim in (0, 1, -1):
        assert cresset.func.vmap(lambda a: a, in_dims=dim, out_dims=dim)(x)._storage_id() == x._storage_id()
    assert cresset.func.vmap(lambda a: a, in_dims=1, out_dims=0)(x).tolist() == x.t().tolist()
