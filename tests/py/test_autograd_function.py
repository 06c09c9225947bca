"""A1: autograd.Function, old and new style, against PyTorch: every program runs with both libraries."""
import gc
import warnings
import weakref

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def values(t):
    return None if t is None else t.detach().tolist()


def leaf(m, numbers=(1.0, 2.0, 3.0)):
    return m.tensor(list(numbers), dtype=m.float64, requires_grad=True)


def scale(m):
    class Scale(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None
    return Scale


def product(m):
    class Product(m.autograd.Function):
        @staticmethod
        def forward(x, y, scale=1.0):
            return x * y * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:2], output)
            ctx.scale = inputs[2]

        @staticmethod
        def backward(ctx, grad):
            x, y, out = ctx.saved_tensors
            return grad * y * ctx.scale, grad * x * ctx.scale if ctx.needs_input_grad[1] else None, None
    return Product


def exponential(m):
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            y, = ctx.saved_tensors
            return grad * y
    return Exp


def old_style(m):
    x = leaf(m)
    y = scale(m).apply(x, 3.0)
    y.sum().backward()
    return [values(y), values(x.grad), y.requires_grad, y.is_leaf, y.grad_fn.name(), type(y.grad_fn).__name__,
            y.grad_fn.factor, [n[0].name().split("::")[-1] for n in y.grad_fn.next_functions]]


def new_style(m):
    x, y = leaf(m), leaf(m, (4.0, 5.0, 6.0))
    z = product(m).apply(x, y, scale=2.0) + product(m).apply(x, y)
    z.sum().backward()
    return [values(z), values(x.grad), values(y.grad)]


def needs(m):
    x, y = leaf(m), leaf(m).detach()
    z = product(m).apply(x, y)
    found = z.grad_fn.needs_input_grad
    z.sum().backward()
    return [list(found), values(x.grad), y.grad is None]


def double(m):
    x, y = leaf(m), leaf(m, (4.0, 5.0, 6.0))
    z = product(m).apply(x, y).sin()
    first = m.autograd.grad(z.sum(), [x, y], create_graph=True)
    second = m.autograd.grad(sum((g * g).sum() for g in first), [x, y])
    return [values(g) for g in (*first, *second)]


def saved_result(m):
    x = leaf(m)
    y = exponential(m).apply(x)
    first, = m.autograd.grad(y.sum(), x, create_graph=True)
    second, = m.autograd.grad(first.sum(), x, create_graph=True)
    third, = m.autograd.grad(second.sum(), x)
    return [values(t) for t in (y, first, second, third)]


def dirty(m):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    x = leaf(m)
    a = x * 1
    b = Double.apply(a)
    same = b is a
    (b * b).sum().backward()
    view_root = x * 1
    view = view_root[1:]
    Double.apply(view)
    g, = m.autograd.grad((view_root * view_root).sum(), x)
    plain = m.ones(2)
    out = Double.apply(plain)
    return [same, values(x.grad), a._version, values(b), values(view_root), values(g), out is plain, values(plain),
            out.requires_grad]


def constants(m):
    class Sort(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            s, i = x.sort()
            rounded = x.round()
            ctx.mark_non_differentiable(i, rounded)
            ctx.save_for_backward(i)
            return s, i, rounded, "a text", 7

        @staticmethod
        def backward(ctx, gs, gi, gr, text, number):
            ctx.seen = [gs is None, gi is None, gr is None, text, number]
            i, = ctx.saved_tensors
            out = m.zeros_like(gs)
            out[i] = gs
            return out
    x = leaf(m, (3.0, 1.0, 2.0))
    s, i, r, text, number = Sort.apply(x)
    fn = s.grad_fn
    (s * m.arange(3, dtype=m.float64)).sum().backward()
    return [values(s), values(i), text, number, s.requires_grad, i.requires_grad, r.requires_grad, r.grad_fn is None,
            values(x.grad), fn.seen]


def materialized(m):
    seen = []

    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x.sum() * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append([values(a), values(b)])
            return (0 if a is None else a * 2) + (0 if b is None else (b * 3).expand(3)), None
    x = leaf(m)
    for flag in (True, False):
        a, b = Two.apply(x, flag)
        a.sum().backward()
        b.backward()
        a, b = Two.apply(x, flag)
        (a.sum() + b).backward()
    return [seen, values(x.grad)]


def returns_an_input(m):
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, y + x

        @staticmethod
        def backward(ctx, a, b):
            return a * 10 + b, b
    x, y = leaf(m), leaf(m)
    a, b = Same.apply(x, y)
    (a + 2 * b).sum().backward()
    with m.no_grad():
        c, _ = Same.apply(x, y)
    d, _ = Same.apply(x.detach(), y.detach())
    return [a is x, a._is_view(), a.data_ptr() == x.data_ptr(), a.is_leaf, values(x.grad), values(y.grad),
            c is x, c.requires_grad, d.requires_grad, d.data_ptr() == x.data_ptr()]


def views(m):
    class First(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x[:2]

        @staticmethod
        def backward(ctx, grad):
            out = grad.new_zeros(ctx.shape)
            out[:2] = grad * 100
            return out
    x = leaf(m)
    a = x * 1
    b = First.apply(a)
    c = b[1:]
    (b.sum() + c.sum()).backward()
    return [b._is_view(), b._base is a, values(x.grad), b.requires_grad]


def none_gradients(m):
    class Nothing(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return None, grad, None, None  # more, as long as they are None
    x, y = leaf(m), leaf(m)
    Nothing.apply(x, y).sum().backward()
    return [x.grad is None, values(y.grad)]


def fits_gradients(m):
    class Wide(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1, y * 1

        @staticmethod
        def backward(ctx, a, b):
            return m.ones(4, 3, dtype=m.float32), m.ones((), dtype=m.float64).expand(1, 3) + 0
    x = leaf(m)
    y = m.ones(1, dtype=m.float64, requires_grad=True)
    a, b = Wide.apply(x, y)
    (a.sum() + b.sum()).backward()
    return [values(x.grad), str(x.grad.dtype).split(".")[-1], values(y.grad)]


def modes(m):
    seen = []

    class Mode(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(m.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(m.is_grad_enabled())
            return grad * 2
    x = leaf(m)
    Mode.apply(x).sum().backward()
    g, = m.autograd.grad(Mode.apply(x).sum(), x, create_graph=True)
    seen.append(m.is_grad_enabled())
    with m.no_grad():
        y = Mode.apply(x)
        seen.append(m.is_grad_enabled())
    with m.inference_mode():
        z = Mode.apply(x)
    return [seen, y.requires_grad, y.grad_fn is None, z.requires_grad, values(g)]


def vjp_and_inheritance(m):
    class Base(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

    class Derived(Base):
        pass
    x = leaf(m)
    y = Derived.apply(x)
    y.sum().backward()
    return [values(x.grad), y.grad_fn.name(), issubclass(Derived, m.autograd.Function)]


def lists(m):
    """A list is an argument and an output like any other object."""
    class Add(m.autograd.Function):
        @staticmethod
        def forward(ctx, xs, y, *more):
            return xs[0] + y + sum(more)

        @staticmethod
        def backward(ctx, grad):
            return None, grad, *[grad * 2] * 2
    x, y, z = leaf(m), leaf(m), leaf(m)
    out = Add.apply([x], y, z, z)
    out.sum().backward()
    return [x.grad is None, values(y.grad), values(z.grad)]


def kept(m):
    x = leaf(m)
    y = exponential(m).apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return [values(x.grad)]


def partly_asked(m):
    x, y = leaf(m), leaf(m)
    z = product(m).apply(x * 2, y)
    mid = z * 1
    g = m.autograd.grad(mid.sum(), [z, y])
    return [values(t) for t in g]


PROGRAMS = [old_style, new_style, needs, double, saved_result, dirty, constants, materialized, returns_an_input, views,
            none_gradients, fits_gradients, modes, vjp_and_inheritance, lists, kept, partly_asked]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program):
    ours, theirs = program(cresset), program(torch)
    assert ours == theirs


# ---- errors: class, facts, remedy ----

def make(m, backward=None, forward=None, **more):
    parts = {"forward": staticmethod(forward or (lambda ctx, x, *rest: x * 2)),
             "backward": staticmethod(backward or (lambda ctx, grad: grad)), **more}
    return type("Mine", (m.autograd.Function,), parts)


def saves(ctx, x, *rest):
    ctx.save_for_backward(x)
    return x * 2


def wrong_count(m, x):
    make(m, lambda ctx, g: (g, g)).apply(x).sum().backward()


def too_few(m, x):
    make(m, lambda ctx, g: g).apply(x, 1).sum().backward()


def for_a_number(m, x):
    make(m, lambda ctx, g: (g, g)).apply(x, 1).sum().backward()


def wrong_shape(m, x):
    make(m, lambda ctx, g: g[:2]).apply(x).sum().backward()


def wrong_type(m, x):
    make(m, lambda ctx, g: "text").apply(x).sum().backward()


def no_forward(m, x):
    class Empty(m.autograd.Function):
        pass
    Empty.apply(x)


def no_backward(m, x):
    class Half(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
    Half.apply(x).sum().backward()


def both_backwards(m, x):
    make(m, vjp=staticmethod(lambda ctx, g: g)).apply(x).sum().backward()


def second_walk(m, x):
    y = make(m, lambda ctx, g: g * ctx.saved_tensors[0], saves).apply(x).sum()
    y.backward()
    y.backward()


def written_since(m, x):
    a = x * 1
    y = make(m, lambda ctx, g: g * ctx.saved_tensors[0], saves).apply(a)
    a.add_(1)
    y.sum().backward()


def saves_a_number(m, x):
    make(m, forward=lambda ctx, x: ctx.save_for_backward(3) or x * 2).apply(x)


def dirty_leaf(m, x):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    make(m, forward=forward).apply(x)


def dirty_not_returned(m, x):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2
    make(m, forward=forward).apply(x * 1)


def dirty_view_of_several(m, x):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x * 1
    make(m, forward=forward).apply((x * 1)[1:])


def writes_to_a_view(m, x):
    make(m, forward=lambda ctx, x: x[:2]).apply(x * 1).add_(1)


def writes_to_an_input_returned(m, x):
    make(m, forward=lambda ctx, x: x).apply(x * 1).add_(1)


def returned_and_saved(m, x):
    class Same(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad):
            return grad
    Same.apply(x)


def once(m, x):
    def backward(ctx, g):
        return g * 2
    f = make(m, m.autograd.function.once_differentiable(backward))
    y = f.apply(x * 1)
    seed = m.ones(3, dtype=m.float64, requires_grad=True)
    g, = m.autograd.grad(y, x, seed, create_graph=True)
    assert values(g) == [2.0, 2.0, 2.0] and g.requires_grad
    g.sum().backward()


def keywords(m, x):
    make(m).apply(x, factor=1)


def raises_in_backward(m, x):
    def backward(ctx, g):
        raise KeyError("mine")
    make(m, backward).apply(x).sum().backward()


ERRORS = [
    (wrong_count, RuntimeError, r"MineBackward returned an incorrect number of gradients \(expected 1.*got 2\)"),
    (too_few, RuntimeError, r"MineBackward returned an incorrect number of gradients \(expected 2.*got 1\)"),
    (for_a_number, RuntimeError, "returned a gradient different than None at position 2.*not a Variable"),
    (wrong_shape, RuntimeError, r"returned an invalid gradient at index 0 - got \[2\] but expected shape compatible "
                                r"with \[3\]"),
    (wrong_type, (TypeError, RuntimeError), "expected Variable or None"),
    (no_forward, NotImplementedError, "You must implement the forward function"),
    (no_backward, NotImplementedError, "You must implement either the backward or vjp method"),
    (both_backwards, RuntimeError, "mplementing both 'backward' and 'vjp'"),
    (second_walk, RuntimeError, "(?s)backward through the graph a second time.*retain_graph=True"),
    (written_since, RuntimeError, "(?s)modified by an inplace operation.*is at version 1; expected version 0"),
    (saves_a_number, TypeError, "save_for_backward can only save variables, but argument 0 is of type int"),
    (dirty_leaf, RuntimeError, "a leaf Variable that requires grad"),
    (dirty_not_returned, RuntimeError, "marked as dirty during the forward method were not returned"),
    (dirty_view_of_several, RuntimeError, "is a view of another Tensor.*more than one Tensor"),
    (writes_to_a_view, RuntimeError, "is a view and is being modified inplace.*custom Function"),
    (writes_to_an_input_returned, RuntimeError, "is a view and is being modified inplace.*custom Function"),
    (returned_and_saved, RuntimeError, "returned as-is as output is being saved for backward"),
    (once, RuntimeError, "trying to differentiate twice a function that was marked with @once_differentiable"),
    (keywords, TypeError, "keyword argument"),
    (raises_in_backward, KeyError, "mine"),
]


@BOTH
@pytest.mark.parametrize("program, error, message", ERRORS, ids=[e[0].__name__ for e in ERRORS])
def test_errors(m, program, error, message):
    with pytest.raises(error, match=message):
        program(m, leaf(m))


def test_errors_of_our_own():
    f = make(cresset)
    with pytest.raises(RuntimeError, match="Mine should not be instantiated.*Mine.apply"):
        f()
    x = leaf(cresset)
    fn = f.apply(x).grad_fn
    with pytest.raises(RuntimeError, match="MineBackward recorded nothing, or its results are gone"):
        _ = fn.next_functions
    y = (x * 1)
    z = make(cresset, forward=lambda ctx, x: x[:2]).apply(y)
    with cresset.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        z.sum()


@BOTH
def test_mark_dirty_of_another_tensor_warns(m):
    def forward(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make(m, forward=forward).apply(leaf(m))
    assert any("ctx.mark_dirty() received a tensor that was not an input" in str(w.message) for w in seen)


# ---- life ----

@BOTH
def test_a_context_that_holds_its_result_is_collected(m):
    def forward(ctx, x):
        ctx.out = x * 2
        return ctx.out
    x = leaf(m)
    y = make(m, forward=forward).apply(x)
    gone, fn = weakref.ref(y), weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert gone() is None and fn() is None
    x.sum().backward()
    assert values(x.grad) == [1.0, 1.0, 1.0]


def test_hooks_that_hold_their_tensor_are_collected():  # PyTorch's are not
    x = leaf(cresset)
    y = (x * 2).sin()
    held = [y]
    y.register_hook(lambda g, held=held: g * held[0].detach())
    gone = weakref.ref(y)
    del y, held
    gc.collect()
    assert gone() is None


def test_cycles_through_chains_and_live_graphs():
    x = leaf(cresset)
    first = x * 2
    held = []
    first.register_hook(lambda g, held=held: g * len(held))
    z = first
    for _ in range(10):
        z = scale(cresset).apply(z, 1.0) + 1
    held.append(z)
    del first
    gc.collect()
    z.sum().backward(retain_graph=True)  # nothing of a live graph was taken
    assert values(x.grad) == [2.0, 2.0, 2.0]
    gone = weakref.ref(z)
    del z, held
    gc.collect()
    assert gone() is None


def test_long_chains_of_functions_are_freed():
    f = make(cresset, forward=saves)
    x = leaf(cresset)
    y = x
    for _ in range(100_000):
        y = f.apply(y)
    del y
    y = x
    for _ in range(2000):
        y = f.apply(y)
    y.sum().backward()
    assert values(x.grad) == [1.0, 1.0, 1.0]


def test_nothing_is_left():
    f, g = exponential(cresset), product(cresset)
    x = leaf(cresset)

    def step():
        y = f.apply(x)
        z = g.apply(y, x)
        z.sum().backward()
        f.apply(x)  # never walked
        with pytest.raises(TypeError):
            make(cresset, forward=lambda ctx, x: ctx.save_for_backward(3) or x * 2).apply(x)
    step()
    gc.collect()
    before = cresset._C._alloc_live()
    for _ in range(3):
        step()
    gc.collect()
    assert cresset._C._alloc_live() == before
