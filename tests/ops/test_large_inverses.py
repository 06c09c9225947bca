"""Inverses and least squares of matrices that are larger than what plain loops do: PyTorch's answers where the matrix
has full rank, where it has not, and on any number of threads the same bits."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the answers are PyTorch's")

import cresset  # noqa: E402
import harness  # noqa: E402

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SHAPES = ((0, 0), (1, 1), (2, 1), (1, 2), (5, 3), (40, 33), (33, 40), (70, 70), (300, 65), (65, 300), (3, 90, 40),
          (2, 40, 90))


def matrix(dtype, *shape, seed=3):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(found, expected, digits=1.0):
    """Within what a condition of 10^digits leaves."""
    precision = torch.finfo(expected.dtype).eps * 10 ** digits
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if expected.numel():
        strides = [[step for step, n in zip(t.stride(), t.shape) if n > 1] for t in (found, expected)]
        assert strides[0] == strides[1]
        assert float((found - expected).abs().max()) <= 200 * precision * max(1.0, float(expected.abs().max()))


def ours(name, *args, **kwargs):
    return harness.theirs(getattr(cresset.ops.aten, name)(*harness.ours(args), **kwargs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", (None, "gels"))
@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares(dtype, driver, shape):
    m, n = shape[-2:]
    a = matrix(dtype, *shape)
    if m == n:
        a = a + n * torch.eye(n, dtype=dtype)
    for k in (0, 1, 35):
        b = matrix(dtype, *shape[:-1], k, seed=4)
        found, expected = (f(a, b, driver=driver) for f in (lambda *x, **y: ours("linalg_lstsq", *x, **y),
                                                             torch.linalg.lstsq))
        close(found[0], expected.solution, 2)
        assert torch.equal(found[2], expected.rank)
        if driver and expected.residuals.numel():
            close(found[1], expected.residuals, 2)
    turned = a.mT.contiguous().mT
    assert torch.equal(ours("linalg_lstsq", turned, b, driver=driver)[0], found[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ((70, 50), (50, 70), (2, 60, 60)))
def test_least_squares_without_full_rank(dtype, shape):
    *lead, m, n = shape
    a = matrix(dtype, *lead, m, 20) @ matrix(dtype, *lead, 20, n, seed=5)
    b = matrix(dtype, *lead, m, 3, seed=4)
    found, expected = ours("linalg_lstsq", a, b), torch.linalg.lstsq(a, b)
    assert torch.equal(found[2], expected.rank) and int(found[2].flatten()[0]) == 20
    close(found[0], expected.solution, 2)
    assert int(ours("linalg_lstsq", a, b, 0.5)[2].flatten()[0]) < 20
    a[..., 1, 1] = float("nan")
    with pytest.raises(RuntimeError, match="holds NaN"):
        ours("linalg_lstsq", a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", (False, True))
@pytest.mark.parametrize("shape", ((0, 0), (1, 1), (2, 2), (17, 17), (70, 70), (150, 150), (3, 40, 40)))
def test_inverse_of_a_cholesky_factor(dtype, upper, shape):
    a = matrix(dtype, *shape)
    factor = torch.linalg.cholesky(a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=dtype), upper=upper)
    other = factor + (torch.tril if upper else torch.triu)(matrix(dtype, *shape), -1 if upper else 1)
    for given in (factor, other, factor.mT.contiguous().mT):  # what is beside the triangle does not count
        close(ours("cholesky_inverse", given, upper), torch.cholesky_inverse(given, upper))
    if shape[-1] > 1:
        factor[..., 1, 1] = 0
        with pytest.raises(RuntimeError, match="singular: diagonal element 2 is zero"):
            ours("cholesky_inverse", factor, upper)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_threads(dtype):
    a, b = matrix(dtype, 2, 150, 150) + 20 * torch.eye(150, dtype=dtype), matrix(dtype, 2, 150, 90)
    calls = (("linalg_lu_factor_ex", a), ("linalg_inv_ex", a), ("linalg_solve", a[0], b[0]), ("linalg_slogdet", a[0]),
             ("cholesky_inverse", a), ("linalg_lstsq", a, b), ("linalg_lstsq", a[:, :, :120], b))
    before, made = cresset.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            cresset.set_num_threads(threads)
            found = [ours(*call) for call in calls]
            made.append([t for x in found for t in (x if isinstance(x, (tuple, list)) else [x])])
    finally:
        cresset.set_num_threads(before)
    for other in made[1:]:
        assert all(torch.equal(x, y) for x, y in zip(made[0], other))
