"""Gradients through control flow and functions with a backward of their own: on the tape, in joint graphs and in native
code, against eager PyTorch."""
import cresset
import pytest

from cresset import _C, nn
from cresset import _higher_order as regions
from cresset._functorch.aot_autograd import (aot_function, default_partition, min_cut_rematerialization_partition)

torch = pytest.importorskip("torch", reason="eager PyTorch is the oracle")


class Eager:
    """What the regions mean, in plain Python over PyTorch."""

    @staticmethod
    def cond(pred, yes, no, operands):
        return (yes if pred else no)(*operands)

    @staticmethod
    def map(f, xs, *args):
        return torch.stack([f(x, *args) for x in xs])

    @staticmethod
    def scan(f, init, xs):
        ys = []
        for x in xs:
            init, y = f(init, x)
            ys.append(y)
        return init, torch.stack(ys) if ys else torch.zeros(0, *init.shape, dtype=init.dtype)

    @staticmethod
    def while_loop(test, step, carried):
        while test(*carried):
            carried = step(*carried)
        return carried

    @staticmethod
    def associative_scan(f, xs, dim):
        made = [xs.select(dim, 0)]
        for i in range(1, xs.shape[dim]):
            made.append(f(made[-1], xs.select(dim, i)))
        return torch.stack(made, dim)


def steps_below(m, limit):
    return lambda i, c: i < limit


def inner_cond(h):
    return lambda c, x: (lambda r: (r, r * x))(h.cond(c.sum() > 2, lambda: c * x.sin(), lambda: c + x, ()))


PROGRAMS = {
    "cond": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a: a * w, lambda a: a.sin(), (x,)),
    "cond, other branch": lambda m, h, x, w: h.cond(x.sum() < 0, lambda a: a * w, lambda a: a.sin(), (x,)),
    "cond, an operand as it is": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a * 2, (x,)),
    "cond, one input each": lambda m, h, x, w: h.cond(w.sum() > 0, lambda a, b: a.exp(), lambda a, b: b.t() @ b,
                                                      (x, w)),
    "cond, transposed": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a: (a.t() @ a).t() * 1, lambda a: (w @ w).t() * 1,
                                                  (x,)),
    "cond in cond": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a: h.cond(
        w.sum() > 100, lambda b: b * w, lambda b: (b * b) @ w, (a * 2,)), lambda a: a - w, (x,)),
    "map": lambda m, h, x, w: h.map(lambda r: (r @ w).sin() * r, x),
    "map with arguments": lambda m, h, x, w: h.map(lambda r, v: (r * v).exp().sum(0), x, w),
    "map in map": lambda m, h, x, w: h.map(lambda r: h.map(lambda s: s * w.sum() + r.sin().sum() * s, r), x),
    "map of cond": lambda m, h, x, w: h.map(lambda r: h.cond(r.sum() > 2, lambda: r * w[0], lambda: r.sin() * w[1],
                                                             ()), x),
    "scan": lambda m, h, x, w: (lambda c, ys: (c * 2).sum() + ys)(*h.scan(
        lambda c, r: ((c @ w).tanh() + r, c * r), w[0], x)),
    "scan, only the last": lambda m, h, x, w: h.scan(lambda c, r: (c * r + 1, c.sin()), w[0], x)[0],
    "scan, only the slices": lambda m, h, x, w: h.scan(lambda c, r: (c * r, (c + r).exp()), w[0], x)[1],
    "scan, a carry from nowhere": lambda m, h, x, w: h.scan(lambda c, r: (c + r * w[1], c * r), m.zeros(3).double(),
                                                            x)[1],
    "scan of cond": lambda m, h, x, w: h.scan(inner_cond(h), w[0], x)[1],
    "scan of products": lambda m, h, x, w: h.scan(lambda c, r: (c @ w + m.outer(r, r), (c @ c).t().sum(0)), w, x)[1],
    "while": lambda m, h, x, w: h.while_loop(steps_below(m, 4), lambda i, c: (i + 1, (c * w).sin()),
                                             (m.tensor(0), x))[1],
    "while, by its data": lambda m, h, x, w: h.while_loop(lambda c: c.sum() < 50, lambda c: (c * c + w,), (x,))[0],
    "while, no step": lambda m, h, x, w: h.while_loop(steps_below(m, 0), lambda i, c: (i + 1, c * w),
                                                      (m.tensor(0), x))[1] * w,
    "while of scan": lambda m, h, x, w: h.while_loop(
        steps_below(m, 3), lambda i, c: (i + 1, h.scan(lambda a, r: (a + r * w[0], a * r), w[1], c)[1]),
        (m.tensor(0), x))[1],
    "associative scan": lambda m, h, x, w: h.associative_scan(lambda a, b: a * b.sin(), x * w, 0),
    "associative scan, last dim": lambda m, h, x, w: h.associative_scan(lambda a, b: a * b, x * w, 1),
}
NATIVE = ["cond", "cond in cond", "map with arguments", "map of cond", "scan", "scan of products", "while, by its data",
          "while, no step", "while of scan", "associative scan"]


def values():
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(3, 3, generator=generator, dtype=torch.float64) + 0.25 for _ in range(2)]


def ours(t):
    return cresset.tensor(t.tolist(), dtype=cresset.float64).requires_grad_(t.requires_grad)


def expected(fn, grads=(True, True), inputs=None):
    leaves = [t.clone().requires_grad_(g) for t, g in zip(inputs or values(), grads)]
    result = fn(torch, Eager, *leaves)
    (result * torch.arange(1, result.numel() + 1).reshape(result.shape)).sum().backward()
    return result, [t.grad for t in leaves]


def made(fn, grads=(True, True), inputs=None):
    leaves = [ours(t).requires_grad_(g) for t, g in zip(inputs or values(), grads)]
    result = fn(*leaves)
    (result * cresset.arange(1, result.numel() + 1).reshape(result.shape)).sum().backward()
    return result, [t.grad for t in leaves]


def agree(a, b):
    assert close(a[0], b[0])
    for ours_, theirs in zip(a[1], b[1]):  # a region gives zeros where a branch that was not taken has the gradient
        assert close(ours_, theirs) or (theirs is None and not ours_.any())


def close(a, b):
    if a is None or b is None:
        return a is None and b is None
    return tuple(a.shape) == tuple(b.shape) and torch.allclose(torch.tensor(a.tolist(), dtype=b.dtype), b.detach(),
                                                               rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager(name):
    """On real tensors regions run as they are, on the tape."""
    fn = PROGRAMS[name]
    agree(made(lambda x, w: fn(cresset, regions, x, w)), expected(fn))


@pytest.mark.parametrize("grads", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_joint_graphs(name, grads):
    fn = PROGRAMS[name]
    want = expected(fn, (True, True))
    want[1][:] = [g if due else None for g, due in zip(want[1], grads)]
    for partition in (default_partition, min_cut_rematerialization_partition):
        f = aot_function(lambda x, w: fn(cresset, regions, x, w), "nop", partition_fn=partition)
        leaves = [ours(t).requires_grad_(g) for t, g in zip(values(), grads)]
        result = f(*leaves)
        if not result.requires_grad:
            assert all(g is None for g in want[1]) or name == "cond, one input each"
            continue
        (result * cresset.arange(1, result.numel() + 1).reshape(result.shape)).sum().backward()
        agree((result, [t.grad for t in leaves]), want)


@pytest.mark.parametrize("name", NATIVE)
def test_native(name):
    fn = PROGRAMS[name]
    agree(made(aot_function(lambda x, w: fn(cresset, regions, x, w), "native")), expected(fn))


@pytest.mark.parametrize("name", ["cond", "map", "scan, only the slices", "while", "associative scan"])
@pytest.mark.parametrize("compiler", ["nop", "native"])
def test_other_sizes(name, compiler):
    """One compilation, several sizes."""
    fn = {"cond": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a: (a * a).sum(0) * w, lambda a: a.sum(0), (x,)),
          "while": lambda m, h, x, w: h.while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * w.sin()),
                                                   (m.tensor(0), x))[1],
          "map": lambda m, h, x, w: h.map(lambda r: (r * w).sin(), x),
          "scan, only the slices": lambda m, h, x, w: h.scan(lambda c, r: (c * r, (c + r).exp()), w, x)[1],
          "associative scan": lambda m, h, x, w: h.associative_scan(lambda a, b: a * b.sin(), x * w, 0)}[name]
    count = []

    def compile(graph, inputs):
        count.append(graph)
        from cresset._functorch.aot_autograd import native, nop
        return {"nop": nop, "native": native}[compiler](graph, inputs)

    f = aot_function(lambda x, w: fn(cresset, regions, x, w), compile, dynamic=True)
    for rows, columns in [(4, 3), (2, 5), (7, 2)]:
        inputs = [torch.rand(rows, columns, dtype=torch.float64) + 0.5, torch.rand(columns, dtype=torch.float64) + 0.5]
        agree(made(f, inputs=inputs), expected(fn, inputs=inputs))
    assert len(count) == 2


@pytest.mark.parametrize("name", ["map", "scan"])
def test_no_slices(name):
    fn = {"map": lambda h, x, w: h.map(lambda r: (r * w).sin(), x),
          "scan": lambda h, x, w: h.scan(lambda c, r: (c * r, (c + r).exp()), w, x)[0] * 3}[name]
    x, w = cresset.zeros(0, 3, requires_grad=True), cresset.ones(3, requires_grad=True)
    aot_function(lambda x, w: fn(regions, x, w), "nop")(x, w).sum().backward()
    assert x.grad.shape == (0, 3) and w.grad.tolist() == ([0.0] * 3 if name == "map" else [3.0] * 3)


def test_like_pytorch_regions():
    """The regions of PyTorch itself, where it differentiates them."""
    from torch._higher_order_ops import map as torch_map, scan as torch_scan
    x, w = values()
    pairs = [(lambda x, w: torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a.sin() + b, (x, w)),
              lambda x, w: regions.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a.sin() + b, (x, w))),
             (lambda x, w: torch_map(lambda r, v: (r * v).sin(), x, w),
              lambda x, w: regions.map(lambda r, v: (r * v).sin(), x, w)),
             (lambda x, w: torch_scan(lambda c, r: (c * r, (c + r).exp()), w[0].clone(), x)[1],
              lambda x, w: regions.scan(lambda c, r: (c * r, (c + r).exp()), w[0].clone(), x)[1])]
    for theirs, mine in pairs:
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        theirs(a, b).sum().backward()
        c, d = ours(x).requires_grad_(), ours(w).requires_grad_()
        aot_function(mine, "nop")(c, d).sum().backward()
        assert close(c.grad, a.grad) and close(d.grad, b.grad)


def test_exported_modules():
    """ep.module() has the gradients of the module, through every region."""
    class Model(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.w, self.fn = nn.Parameter(ours(values()[1])), fn

        def forward(self, x):
            return self.fn(cresset, regions, x, self.w)

    for name in ("cond", "map with arguments", "scan", "while", "associative scan", "cond, an operand as it is"):
        model = Model(PROGRAMS[name])
        x = ours(values()[0])
        module = cresset.export.export(model, (x,)).module()
        x.requires_grad_()
        result = module(x)
        (result * cresset.arange(1, result.numel() + 1).reshape(result.shape)).sum().backward()
        agree((result, [x.grad, *(p.grad for p in module.parameters())]), expected(PROGRAMS[name]))


def test_random_numbers():
    """Steps of map and scan keep what they drew; a loop whose condition draws is refused by name."""
    x = cresset.rand(4, 3)

    def fn(x):
        return regions.map(lambda r: nn.functional.dropout(r, 0.5, True) * r, x)

    def run(f):
        cresset.manual_seed(5)
        leaf = x.clone().requires_grad_()
        y = f(leaf)
        y.sum().backward()
        return y.tolist(), leaf.grad.tolist()

    for partition in (default_partition, min_cut_rematerialization_partition):
        assert run(aot_function(fn, "nop", partition_fn=partition)) == run(fn)
    drawn = aot_function(lambda x: regions.while_loop(lambda c: c.sum() < 9 * cresset.rand(()), lambda c: (c + c,),
                                                      (x,))[0], "nop")
    with pytest.raises(NotImplementedError, match="higher_order::while_loop: its condition draws random numbers by "
                                                  "aten::rand.*in the body, and carry them to the condition"):
        drawn(x.clone().requires_grad_())
    counted = aot_function(lambda x: regions.while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * c), (0, x))[1],
                           "nop")
    with pytest.raises(NotImplementedError, match="value 0 that it carries is a number; carry it as a tensor"):
        counted(x.clone().requires_grad_())


DRAWING = {
    "both": lambda m, h, x, w: h.cond(
        x.sum() > 0, lambda a, b: a * m.rand_like(a) * m.nn.functional.dropout(b, 0.5, True),
        lambda a, b: a * m.randn_like(b), (x, w)) * w,
    "one": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a * m.bernoulli(b.sigmoid()),
                                     (x * m.rand_like(x), w)),
    "nested": lambda m, h, x, w: h.cond(
        w.sum() > 0, lambda a, b: h.cond(a.sum() > 0, lambda c, d: c * m.rand_like(d) * d, lambda c, d: c.exp() * d,
                                         (a * m.randn_like(a), b)),
        lambda a, b: a.sin() * m.rand_like(b) * b, (x, w)),
    "loop": lambda m, h, x, w: h.while_loop(
        lambda i, c: i < 3, lambda i, c: (i + 1, m.nn.functional.dropout(c * w, 0.5, True) * m.rand_like(c)),
        (m.tensor(0), x))[1] * m.rand_like(x),
    "no steps": lambda m, h, x, w: h.while_loop(
        lambda i, c: i < 0, lambda i, c: (i + 1, c * w * m.rand_like(c)), (m.tensor(0), x * m.rand_like(x)))[1] * w,
    "steps by what was drawn": lambda m, h, x, w: h.while_loop(
        lambda s, c: s.sum() < 4, lambda s, c: (s + m.rand_like(s), (c * w).sin() * m.rand_like(c)),
        (m.zeros(3), x))[1],
    "loop in a loop": lambda m, h, x, w: h.while_loop(
        lambda i, c: i < 2, lambda i, c: (i + 1, h.while_loop(
            lambda k, d: k < 2, lambda k, d: (k + 1, (d * w).cos() * m.rand_like(d)), (i * 1, c * m.rand_like(c)))[1]),
        (m.tensor(0), x))[1],
    "loop in a branch": lambda m, h, x, w: h.cond(
        x.sum() > 0, lambda a, b: h.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, c * b * m.rand_like(c)),
                                               (m.tensor(0), a))[1] * m.rand_like(a),
        lambda a, b: a * b, (x, w)),
}


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("sign", [1, -1])
def test_regions_that_draw(name, sign):
    """Values, gradients and the generator afterwards are eager PyTorch's, whoever runs the graphs."""
    fn = DRAWING[name]
    x, w = (sign * t for t in values())

    def run(m, f):
        m.manual_seed(11)
        leaves = [(t if m is torch else ours(t)).clone().requires_grad_() for t in (x, w)]
        before = m.rand(3).tolist()
        y = f(*leaves)
        (y * y).sum().backward()
        return (y, [t.grad for t in leaves]), before + m.get_rng_state().tolist()

    want, stream = run(torch, lambda x, w: fn(torch, Eager, x, w))
    for compiler in ("nop", "native"):
        for partition in (default_partition, min_cut_rematerialization_partition):
            f = aot_function(lambda x, w: fn(cresset, regions, x, w), compiler, partition_fn=partition)
            got, mine = run(cresset, f)
            assert close(got[0], want[0]) and all(close(a, b) for a, b in zip(got[1], want[1]))
            assert mine == stream


def test_twice():
    """A joint graph may be differentiated again: regions in its backward part are regions, too."""
    for name in ("cond", "map", "scan", "while"):
        fn = PROGRAMS[name]
        x, w = values()
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        first = torch.autograd.grad(fn(torch, Eager, a, b).sum(), (a, b), create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), (a, b))
        recorded = _C.record(lambda x, w: fn(cresset, regions, x, w).sum(), (ours(x), ours(w)))
        joint, *_ = _C._differentiate(_C._functionalize(recorded)[0])
        twice, primals, results, of = _C._differentiate(joint, wrt=[True, True, False], through=[False, True, True])
        twice.verify("metas", "functional")
        outs = twice.run(ours(x), ours(w), cresset.ones((), dtype=cresset.float64), *(2 * ours(g.detach()) for g in
                                                                                      first))
        assert results == 3 and of == (1, 2)
        for g, want in zip(outs[3:5], second):
            assert close(g, want)


# ---- functions with a backward of their own ----

def functions_of(m):
    class Odd(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            y = x * factor
            ctx.save_for_backward(x, y)
            ctx.factor = factor
            return y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * (ctx.factor * x + y), None

    class Turn(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x.view_as(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return -grad

    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            order = y.argsort()
            ctx.mark_non_differentiable(order)
            return x + 1, order, (x * y).sum()

        @staticmethod
        def backward(ctx, a, order, b):
            y, = ctx.saved_tensors
            return a * 3 + b * y, None

    return Odd, Turn, Two


FUNCTIONS = {
    "saved": lambda m, h, x, w: functions_of(m)[0].apply(x * w, 3.0) * x,
    "reversed": lambda m, h, x, w: functions_of(m)[1].apply(x * w) * x,
    "two results": lambda m, h, x, w: (lambda a, order, b: a * w + b)(*functions_of(m)[2].apply(x, w)),
    "one of two results": lambda m, h, x, w: functions_of(m)[2].apply(x * 2, w)[2] * w,
    "in a branch": lambda m, h, x, w: h.cond(x.sum() > 0, lambda a: functions_of(m)[0].apply(a * w, 2.0),
                                             lambda a: a.sin(), (x,)),
    "in a loop": lambda m, h, x, w: h.scan(lambda c, r: (functions_of(m)[0].apply(c * r, 0.5), c * r), w[0], x)[1],
    "in no_grad": lambda m, h, x, w: m.no_grad()(lambda: functions_of(m)[0].apply(x, 2.0))() * w,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("compiler", ["nop", "native"])
def test_functions(name, compiler):
    fn = FUNCTIONS[name]
    agree(made(aot_function(lambda x, w: fn(cresset, regions, x, w), compiler)), expected(fn))
    x, w = (ours(t) for t in values())  # nothing requires grad: the body is not asked for
    assert close(aot_function(lambda x, w: fn(cresset, regions, x, w), compiler)(x, w), expected(fn)[0])


def test_functions_that_write():
    class Write(cresset.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with pytest.raises(NotImplementedError, match=r"Write: mark_dirty\(\).*compute a new value"):
        aot_function(lambda x: Write.apply(x * 1), "nop")(cresset.ones(3, requires_grad=True))
