"""Factors of matrices that are larger than the parts which plain loops do (16 rows, panels of 32 columns): PyTorch's,
in f64 and complex f64, where pivots and reflectors are the same ones. The samples of the other tests are smaller than
that."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the answers are PyTorch's")

import cresset  # noqa: E402
import harness  # noqa: E402

DTYPES = (torch.float64, torch.complex128)
SHAPES = ((17, 17), (70, 70), (33, 90), (120, 35), (7, 200), (1500, 11), (2, 40, 40), (150, 150))


@pytest.fixture(autouse=True)
def one_thread():
    """With two, PyTorch's library may leave the last reflector of a complex matrix out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def matrix(dtype, *shape, seed=3):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def definite(dtype, n):
    a = matrix(dtype, n, n)
    return a @ a.mH + n * torch.eye(n, dtype=dtype)


def check(name, *args, **kwargs):
    packet, _, overload = name.partition(".")
    op = lambda package: getattr(getattr(package.ops.aten, packet), overload or "default")
    expected = op(torch)(*args, **kwargs)
    found = harness.theirs(op(cresset)(*harness.ours(args), **{k: harness.ours(v) for k, v in kwargs.items()}))
    for a, b in zip(*(x if isinstance(x, (tuple, list)) else [x] for x in (found, expected))):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9 * max(1.0, float(b.abs().max()) if b.numel() else 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu(dtype, shape):
    check("linalg_lu_factor_ex", matrix(dtype, *shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", (0, 20, 69))
def test_lu_says_which_pivot_is_zero(dtype, zero):
    a = torch.triu(matrix(dtype, 70, 70)) + 4 * torch.eye(70, dtype=dtype)
    a[zero, zero] = 0
    a[zero + 1:, zero] = 0
    check("linalg_lu_factor_ex", a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", (True, False))
@pytest.mark.parametrize("n", (17, 70, 130))
def test_solve(dtype, left, n):
    a = matrix(dtype, n, n) + n * torch.eye(n, dtype=dtype)
    b = matrix(dtype, n, 37) if left else matrix(dtype, 37, n)
    check("_linalg_solve_ex", a, b, left=left)
    check("linalg_inv_ex", a)
    check("_linalg_det", a / n)
    lu, pivots, _ = torch.linalg.lu_factor_ex(a)
    for adjoint in (True, False):
        check("linalg_lu_solve", lu, pivots, b, left=left, adjoint=adjoint)
    for upper in (True, False):
        for unit in (True, False):
            t = a / n if unit else a
            check("linalg_solve_triangular", t, b, upper=upper, left=left, unitriangular=unit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", (True, False))
@pytest.mark.parametrize("n", (33, 70, 150))
def test_cholesky(dtype, upper, n):
    check("linalg_cholesky_ex", definite(dtype, n), upper=upper)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at", (3, 40, 69))
def test_cholesky_says_which_minor_is_not_positive(dtype, at):
    a = definite(dtype, 70)
    a[at, at] = -1
    expected = int(torch.linalg.cholesky_ex(a)[1])
    assert int(cresset.linalg.cholesky_ex(harness.ours(a))[1].item()) == expected == at + 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reflectors(dtype, shape):
    a = matrix(dtype, *shape)
    check("geqrf", a)
    r, tau = torch.geqrf(a)
    if shape[-2] >= shape[-1]:
        check("linalg_householder_product", r, tau)
        check("linalg_householder_product", r, tau[..., : shape[-1] // 2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (17, 70))
def test_exponential(dtype, n):
    check("linalg_matrix_exp", matrix(dtype, n, n) / 4)
