"""Dual numbers against PyTorch's forward mode."""
import pytest

import cresset

torch = pytest.importorskip("torch", reason="PyTorch's forward mode is the oracle")


def data(m, *shape):
    n = 1
    for size in shape:
        n *= size
    return (m.arange(n, dtype=m.float64).sin() + 1.1).reshape(shape)


def values(t):
    return None if t is None else [list(t.shape), str(t.dtype).partition(".")[2], t.detach().tolist()]


def near(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a))
    return a == b


def unpacked(fa, *tensors):
    return [[values(p), values(t)] for p, t in map(fa.unpack_dual, tensors)]


def one(m, fa):
    x = fa.make_dual(data(m, 2, 3), data(m, 2, 3) * 2)
    return unpacked(fa, x, x.sin() * x, x @ x.t(), x.softmax(1), x.sum(), x.argmax(1), x.detach(), data(m, 2))


def two(m, fa):
    x, y = fa.make_dual(data(m, 3), m.ones(3, dtype=m.float64)), fa.make_dual(data(m, 3) + 1, data(m, 3))
    return unpacked(fa, x * y, x / y, m.stack([x, y]), y, m.where(x > 1, x, y * 2))


def written(m, fa):
    x = fa.make_dual(data(m, 3), data(m, 3) * 3)
    y = m.ones(3, dtype=m.float64)
    y.mul_(x)
    x.add_(1)
    z = m.zeros(2, 3, dtype=m.float64)
    z[0] = x
    z[1].copy_(y * 2)
    return unpacked(fa, x, y, z)


def other_dtypes(m, fa):
    x = fa.make_dual(data(m, 3).to(m.float32), m.ones(3))
    c = fa.make_dual(m.complex(data(m, 2), data(m, 2)), m.complex(data(m, 2), -data(m, 2)))
    return unpacked(fa, x.double().exp(), m.view_as_real(c * c), c.abs())


def branches(m, fa):
    x = fa.make_dual(data(m, 4), m.ones(4, dtype=m.float64))
    for k in range(3):
        x = x * k + 1 if x.sum() > 4 else x.tanh()
    return unpacked(fa, x)


def with_gradients(m, fa):
    """Backwards over forwards."""
    leaf = data(m, 3).requires_grad_()
    x = fa.make_dual(leaf, data(m, 3))
    p, t = fa.unpack_dual((x ** 3).sum())
    first, = m.autograd.grad(p, leaf, retain_graph=True)
    second, = m.autograd.grad(t, leaf)
    return [p.requires_grad, t.requires_grad, values(fa.unpack_dual(first).primal), values(second)]


def tangent_with_gradients(m, fa):
    v = data(m, 3).requires_grad_()
    _, t = fa.unpack_dual(fa.make_dual(data(m, 3), v).exp().sum())
    return [t.requires_grad, values(m.autograd.grad(t, v)[0])]


def in_no_grad_outside(m, fa):
    fa.exit_dual_level()
    with m.no_grad():
        with fa.dual_level():
            p, t = fa.unpack_dual(fa.make_dual(data(m, 3), data(m, 3)).exp())
        on = m.is_grad_enabled()
    fa.enter_dual_level()
    return [values(p), values(t), p.requires_grad, t.requires_grad, on, m.is_grad_enabled()]


def functions(m, fa):
    w, b = data(m, 2, 3).requires_grad_(), data(m, 2).requires_grad_()
    made = m.nn.functional.linear(fa.make_dual(data(m, 4, 3), data(m, 4, 3)), w, b)
    p, t = fa.unpack_dual(m.nn.functional.gelu(made))
    return [values(p), values(t), p.requires_grad, t.requires_grad]


PROGRAMS = [one, two, written, other_dtypes, branches, with_gradients, tangent_with_gradients, in_no_grad_outside,
            functions]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program):
    def run(m):
        with m.autograd.forward_ad.dual_level():
            return program(m, m.autograd.forward_ad)
    theirs, ours = run(torch), run(cresset)
    assert near(theirs, ours), f"PyTorch gives {theirs}, not {ours}"


@pytest.mark.parametrize("m", [torch, cresset], ids=["torch", "cresset"])
def test_levels(m):
    fa = m.autograd.forward_ad
    x = m.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        fa.make_dual(x, x)
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fa.exit_dual_level()
    assert fa.unpack_dual(x).tangent is None
    with fa.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fa.enter_dual_level()
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex, but got: .*int64"):
            fa.make_dual(m.ones(2, dtype=m.int64), x)
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            fa.make_dual(x, m.ones(2, dtype=m.int64))
        with pytest.raises(RuntimeError, match="different size"):
            fa.make_dual(x, m.ones(3))
        with pytest.raises(TypeError):
            fa.unpack_dual(3)
        d = fa.make_dual(x, x)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            fa.make_dual(d, x)
        y = d * 2
        with pytest.raises(RuntimeError, match="[Ii]nvalid level"):
            fa.unpack_dual(y, level=1)
    assert fa.unpack_dual(y).tangent is None
    with fa.dual_level():
        assert fa.unpack_dual(y).tangent is None
    assert tuple(fa.unpack_dual(x)._fields) == ("primal", "tangent")


def test_no_tangent_is_lost():
    fa = cresset.autograd.forward_ad
    with fa.dual_level():
        fa.make_dual(cresset.ones(2), cresset.ones(2))
        with pytest.raises(RuntimeError, match=r"no_grad\(\) inside of forward_ad.dual_level\(\).*detach"):
            cresset.no_grad().__enter__()
    with cresset.no_grad():
        assert not cresset.is_grad_enabled()
