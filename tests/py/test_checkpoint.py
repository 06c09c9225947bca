"""A1: utils.checkpoint against PyTorch: both forms, random numbers, nesting, keywords, early stop, errors."""
import contextlib
import gc
import importlib
import warnings
import weakref

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])
FORMS = pytest.mark.parametrize("reentrant", [False, True], ids=["plain", "reentrant"])


def of(m):
    return importlib.import_module(m.__name__ + ".utils.checkpoint")


def values(t):
    return None if t is None else t.detach().tolist()


def near(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a))
    return a == b


def leaf(m, numbers=(1.0, 2.0, 3.0)):
    return m.tensor(list(numbers), dtype=m.float64, requires_grad=True)


class Counter:
    def __init__(self, f):
        self.f, self.calls = f, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.f(*args, **kwargs)


def simple(m, reentrant):
    x, w = leaf(m), leaf(m, (4.0, 5.0, 6.0))
    f = Counter(lambda a, b: (a * b).sin().exp())
    y = of(m).checkpoint(f, x * 1, w, use_reentrant=reentrant)
    once = f.calls
    (y * x).sum().backward()
    return [values(y), values(x.grad), values(w.grad), once, f.calls]


def closed_over(m, reentrant):
    """A weight that is no argument gets its gradient, too."""
    x, w = leaf(m), leaf(m, (4.0, 5.0, 6.0))
    of(m).checkpoint(lambda a: (a * w).tanh(), x, use_reentrant=reentrant).sum().backward()
    return [values(x.grad), values(w.grad)]


def several_results(m, reentrant):
    x = leaf(m)
    a, n, b = of(m).checkpoint(lambda x, k: (x.sin() * k, k, x.cos()), x, 3, use_reentrant=reentrant)
    (a * b).sum().backward()
    return [values(x.grad), n]


def chained(m, reentrant):
    x = leaf(m)
    y = x
    for _ in range(3):
        y = of(m).checkpoint(lambda v: (v * v).sin(), y, use_reentrant=reentrant)
    y.sum().backward()
    return [values(x.grad)]


def nested(m, reentrant):
    x = leaf(m)
    inner = Counter(lambda a: (a * a).sin())

    def outer(a):
        b = a.exp()
        c = of(m).checkpoint(inner, b, use_reentrant=reentrant)
        return (c * b).cos()
    y = of(m).checkpoint(outer, x, use_reentrant=reentrant)
    y.sum().backward()
    return [values(y), values(x.grad)]


def without_grad(m, reentrant):
    x = leaf(m)
    with m.no_grad():
        y = of(m).checkpoint(lambda a: a.sin(), x, use_reentrant=reentrant)
    return [values(y), y.requires_grad]


def sequential(m, reentrant):
    x = leaf(m)
    f = [Counter(lambda a: a.sin()), Counter(lambda a: a * a), Counter(lambda a: a.exp()), Counter(lambda a: a * 2),
         Counter(lambda a: a.tanh())]
    y = of(m).checkpoint_sequential(f, 2, x, use_reentrant=reentrant)
    y.sum().backward()
    return [values(y), values(x.grad), [c.calls for c in f[2:]]]


PROGRAMS = [simple, closed_over, several_results, chained, nested, without_grad, sequential]


@FORMS
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program, reentrant):
    ours, theirs = program(cresset, reentrant), program(torch, reentrant)
    assert near(ours, theirs), f"PyTorch gives {theirs}, not {ours}"


# ---- what only the plain form does ----

def keywords(m):
    x = leaf(m)
    y = of(m).checkpoint(lambda a, *, scale: (a * scale).sin(), x, scale=x.detach() * 2, use_reentrant=False)
    y.sum().backward()
    return [values(x.grad)]


def only_some(m):
    x, w = leaf(m), leaf(m)
    y = of(m).checkpoint(lambda a, b: (a * b).exp(), x, w, use_reentrant=False)
    g, = m.autograd.grad(y.sum(), x, retain_graph=True)
    h = m.autograd.grad(y.sum(), [x, w])
    return [values(t) for t in (g, *h)]


def second_derivative(m):
    x = leaf(m)
    y = of(m).checkpoint(lambda a: (a.sin() * a).exp(), x, use_reentrant=False)
    g, = m.autograd.grad(y.sum(), x, create_graph=True)
    h, = m.autograd.grad((g * g).sum(), x)
    return [values(g), values(h)]


def stops_early(m, early, ambient=None):
    x, seen = leaf(m), []

    def f(a):
        b = a.sin()
        seen.append("saved")
        c = b * 2.0
        seen.append("not")
        return c
    with contextlib.nullcontext() if ambient is None else of(m).set_checkpoint_early_stop(ambient):
        y = of(m).checkpoint(f, x, use_reentrant=False, early_stop=early)
        y.sum().backward()
    return [seen, values(x.grad)]


def contexts(m):
    seen = []

    @contextlib.contextmanager
    def context(name):
        seen.append(name)
        yield
        seen.append("-" + name)
    x = leaf(m)
    y = of(m).checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False,
                         context_fn=lambda: (context("forward"), context("again")))
    y.sum().backward()
    return [seen, values(x.grad)]


def modules(m):
    net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 2)).double()
    with m.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(m.arange(p.numel(), dtype=m.float64).reshape(p.shape).sin() + i)
    x = leaf(m)
    of(m).checkpoint(net, x, use_reentrant=False).square().sum().backward()
    return [values(p.grad) for p in net.parameters()]


def autocast(m):
    w = m.arange(9.0).reshape(3, 3).requires_grad_()
    seen = []

    def f(a):
        y = a @ w
        seen.append(str(y.dtype).split(".")[-1])
        return y.sin()
    with m.autocast("cpu", dtype=m.bfloat16):
        y = of(m).checkpoint(f, m.ones(3, 3), use_reentrant=False)
    y.float().sum().backward()
    return [seen, str(w.grad.dtype).split(".")[-1]]


PLAIN = [keywords, only_some, second_derivative, lambda m: stops_early(m, True), lambda m: stops_early(m, False),
         lambda m: stops_early(m, True, False), contexts, modules, autocast]


@pytest.mark.parametrize("program", PLAIN, ids=["keywords", "only_some", "second_derivative", "stops_early",
                                                "does_not", "told_not_to", "contexts", "modules", "autocast"])
def test_plain(program):
    ours, theirs = program(cresset), program(torch)
    assert near(ours, theirs), f"PyTorch gives {theirs}, not {ours}"


@BOTH
@FORMS
def test_random_numbers(m, reentrant):
    """The second run drops the same elements, and leaves the generator as it was."""
    x = m.ones(1000, requires_grad=True)
    m.manual_seed(3)
    y = of(m).checkpoint(lambda a: m.nn.functional.dropout(a * 2, 0.5, True), x, use_reentrant=reentrant)
    after = m.rand(4)
    m.manual_seed(3)
    m.nn.functional.dropout(x * 2, 0.5, True)
    assert m.rand(4).tolist() == after.tolist()
    state = m.get_rng_state()
    y.sum().backward()
    assert m.equal(state, m.get_rng_state()) and values(x.grad) == values(y)
    x.grad = None
    y = of(m).checkpoint(lambda a: m.nn.functional.dropout(a * 2, 0.5, True), x, use_reentrant=reentrant,
                         preserve_rng_state=False)
    y.sum().backward()
    assert values(x.grad) != values(y)


def test_nothing_is_kept():
    """Between the runs nothing of the function lives; nested ones keep no inputs either."""
    x, made = cresset.ones(64, requires_grad=True), []
    checkpoint = of(cresset).checkpoint

    def inner(a):
        b = a.sin()
        made.append(weakref.ref(b))
        return b.exp()

    def outer(a):
        b = a * 2
        made.append(weakref.ref(b))
        return checkpoint(inner, b, use_reentrant=False).cos()
    checkpoint(outer, x, use_reentrant=False).sum().backward()
    x.grad = None
    made.clear()
    gc.collect()
    before = cresset._C._alloc_live()
    y = checkpoint(outer, x, use_reentrant=False)
    assert len(made) == 2 and all(r() is None for r in made)
    kept = cresset._C._alloc_live()
    y.sum().backward()
    del y
    x.grad = None
    gc.collect()
    assert all(r() is None for r in made)
    assert cresset._C._alloc_live() <= before < kept


# ---- errors ----

def counts(m):
    """Saves more the second time."""
    calls = []

    def f(a):
        calls.append(1)
        return a.sin().exp() if len(calls) == 1 else a * 2.0
    of(m).checkpoint(f, leaf(m), use_reentrant=False).sum().backward()


def metas(m):
    calls = []

    def f(a):
        calls.append(1)
        return a.sin() if len(calls) == 1 else a[:2].sin()
    of(m).checkpoint(f, leaf(m), use_reentrant=False).sum().backward()


def with_inputs(m):
    x = leaf(m)
    m.autograd.grad(of(m).checkpoint(lambda a: a.sin(), x, use_reentrant=True).sum(), x)


def not_necessary(m):
    of(m).checkpoint(lambda a: a.detach() * 1, leaf(m), use_reentrant=True).sum().backward()


def twice(m):
    class Twice(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g + ctx.saved_tensors[0]
    of(m).checkpoint(Twice.apply, leaf(m), use_reentrant=False).sum().backward()


def raising(m):
    calls = []

    def f(a):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("mine")
        return a.sin()
    of(m).checkpoint(f, leaf(m), use_reentrant=False).sum().backward()


ERRORS = {
    "counts": (counts, RuntimeError, "(?s)different number of tensors was saved.*forward: 2.*recomputation: 0"),
    "metas": (metas, RuntimeError, r"(?s)different metadata.*position 0.*\[3\].*\[2\]"),
    "with inputs": (with_inputs, RuntimeError, "(?s)incompatible with .grad.*use_reentrant=False"),
    "not necessary": (not_necessary, RuntimeError, "none of output has requires_grad=True"),
    "twice": (twice, RuntimeError, "already unpacked once"),
    "raising": (raising, KeyError, "mine"),
    "keywords": (lambda m: of(m).checkpoint(lambda a, b: a, leaf(m), b=1, use_reentrant=True), ValueError,
                 "Unexpected keyword arguments: b"),
    "context": (lambda m: of(m).checkpoint(lambda a: a, leaf(m), context_fn=lambda: None, use_reentrant=True),
                ValueError, "`context_fn` or `debug` is only supported when"),
    "determinism": (lambda m: of(m).checkpoint(lambda a: a * 1, leaf(m), determinism_check="some", use_reentrant=False),
                    ValueError, "determinism_check should be one of"),
    "sequential": (lambda m: of(m).checkpoint_sequential([abs], 1, leaf(m), use_reentrant=False, speed=1), ValueError,
                   "Unexpected keyword arguments: speed"),
    "detach": (lambda m: of(m).detach_variable([leaf(m)]), RuntimeError, "Only tuple of tensors is supported.*list"),
}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, m):
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call(m)


@BOTH
def test_warnings(m):
    with pytest.warns(UserWarning, match="use_reentrant"):
        of(m).checkpoint(lambda a: a * 2, leaf(m))
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        of(m).checkpoint(lambda a: a * 2, m.ones(2), use_reentrant=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of(m).checkpoint(lambda a: a * 2, leaf(m), use_reentrant=False)


def test_debug_names_the_lines():
    calls = []

    def f(a):
        calls.append(1)
        return a.sin().exp() if len(calls) == 1 else a * 2.0  # the line that saved
    y = of(cresset).checkpoint(f, leaf(cresset), use_reentrant=False, debug=True)
    with pytest.raises(of(cresset).CheckpointError, match="(?s)Saved during the forward:.*the line that saved"):
        y.sum().backward()
