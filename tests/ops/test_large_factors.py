"""Factors of matrices that are larger than the parts which plain loops do (16 rows, panels of 32 columns): PyTorch's,
in f64 and complex f64, where pivots and reflectors are the same ones. Large matrices of f32 are factored in f32: by
what must hold, with no more than a few times PyTorch's own error. The samples of the other tests are smaller."""
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
    if dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        for left in (True, False):
            other = matrix(dtype, *shape[:-2], *((shape[-2], 9) if left else (9, shape[-2])))
            for transpose in (True, False):
                check("ormqr", r, tau, other, left, transpose)


def with_mirror(a, hermitian):
    """The matrix that the lower triangle of `a` stands for."""
    low = a.tril(-1)
    diagonal = torch.diag_embed(a.diagonal(dim1=-2, dim2=-1).real.to(a.dtype) if hermitian
                                else a.diagonal(dim1=-2, dim2=-1))
    return low + diagonal + (low.mH if hermitian else low.mT)


@pytest.mark.parametrize("hermitian", (True, False))
@pytest.mark.parametrize("dtype", (torch.float64, torch.complex128))
@pytest.mark.parametrize("n", (17, 70, 130))
def test_indefinite(dtype, n, hermitian):
    """Pivots are LAPACK's, of one and of two rows."""
    a = matrix(dtype, n, n)
    check("linalg_ldl_factor_ex", a, hermitian=hermitian)
    ld, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
    assert (pivots < 0).any() and (pivots > 0).any()
    check("linalg_ldl_solve", ld, pivots, matrix(dtype, n, 5), hermitian=hermitian)


@pytest.mark.parametrize("hermitian", (True, False))
def test_factors_of_few_matrices_solve_many_systems(hermitian):
    """PyTorch reads pivots beyond their end there (docs/differences.md): ours are held against the matrices."""
    a, b = matrix(torch.complex128, 3, 1, 6, 6), matrix(torch.complex128, 2, 6, 4)
    ld, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
    x = harness.theirs(cresset.linalg.ldl_solve(*harness.ours((ld, pivots, b)), hermitian=hermitian))
    assert x.shape == (3, 2, 6, 4) and torch.allclose(with_mirror(a, hermitian) @ x, b.expand(3, 2, 6, 4))


@pytest.mark.parametrize("pivots", ([0, 1], [3, 1], [-3, -3], [1, -2], [-2, 2], [-2**31, 1], [2**40, 1]))
def test_pivots_of_no_factors_are_refused(pivots):
    with pytest.raises(RuntimeError, match="pivots"):
        cresset.linalg.ldl_solve(cresset.eye(2), cresset.tensor(pivots), cresset.ones(2, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (17, 70))
def test_exponential(dtype, n):
    check("linalg_matrix_exp", matrix(dtype, n, n) / 4)


FLOATS = ((64, 64), (130, 130), (3, 70, 70), (300, 65), (65, 300), (6000, 7))


def conditioned(shape, digits):
    """Singular values from 1 to 10^-digits."""
    *lead, m, n = shape
    k = min(m, n)
    u, v = (torch.linalg.qr(matrix(torch.float64, *lead, size, k, seed=size))[0] for size in (m, n))
    return ((u * torch.logspace(0, -digits, k, dtype=torch.float64)) @ v.mT).float()


def size(x):
    return float(torch.linalg.vector_norm(x.double()))


def ours(name, *args, **kwargs):
    found = getattr(cresset.ops.aten, name)(*harness.ours(args), **kwargs)
    return harness.theirs(found)


def no_worse(error, found, expected, scale=1.0):
    """Errors of f64 results made of ours and of PyTorch's."""
    assert error(*(t.double() for t in found)) <= 4 * error(*(t.double() for t in expected)) + 1e-7 * scale


@pytest.mark.parametrize("digits", (1, 6))
@pytest.mark.parametrize("shape", FLOATS)
def test_large_floats(shape, digits):
    a = conditioned(shape, digits)
    lu, pivots, info = ours("linalg_lu_factor_ex", a)
    assert not bool(info.any()) and lu.dtype == torch.float32

    def from_lu(lu, pivots):
        p, l, u = torch.lu_unpack(lu, pivots.int())
        return size(p @ l @ u - a.double()) / size(a)
    no_worse(from_lu, (lu, pivots), torch.linalg.lu_factor(a))
    expected = torch.linalg.qr(a)
    no_worse(lambda q, r: size(q @ r - a.double()) / size(a), ours("linalg_qr", a), expected)
    no_worse(lambda q, r: size(q.mT @ q - torch.eye(q.shape[-1]).double()), ours("linalg_qr", a), expected, 10)
    for found, want in zip(ours("lu_unpack", lu, pivots), torch.lu_unpack(lu, pivots)):
        assert torch.equal(found, want)


@pytest.mark.parametrize("digits", (1, 6))
@pytest.mark.parametrize("shape", [s for s in FLOATS if s[-1] == s[-2]])
def test_large_systems_of_floats(shape, digits):
    a, n = conditioned(shape, digits), shape[-1]
    b, one = matrix(torch.float32, *shape[:-1], 33), torch.eye(n, dtype=torch.float64)
    off = lambda x: size(a.double() @ x - b.double()) / (size(a) * size(x))
    no_worse(off, (ours("linalg_solve", a, b),), (torch.linalg.solve(a, b),))
    right = lambda x: size(x @ a.double() - b.mT.double()) / (size(a) * size(x))
    no_worse(right, (ours("linalg_solve", a, b.mT, left=False),), (torch.linalg.solve(a, b.mT, left=False),))
    inverse = lambda x: size(a.double() @ x - one) / (size(a) * size(x))
    no_worse(inverse, (ours("linalg_inv", a),), (torch.linalg.inv(a),))
    sign, log = ours("linalg_slogdet", a)
    want_sign, want_log = torch.linalg.slogdet(a.double())
    assert torch.equal(sign.double(), want_sign) and torch.allclose(log.double(), want_log, rtol=10.0 ** (digits - 6))
    definite = (a.double() @ a.double().mT).float() + 1e-3 * torch.eye(n)
    for upper in (False, True):
        whole = lambda c: size((c.mT @ c if upper else c @ c.mT) - definite.double()) / size(definite)
        factor = ours("linalg_cholesky", definite, upper=upper)
        no_worse(whole, (factor,), (torch.linalg.cholesky(definite, upper=upper),))
        for left in (True, False):
            t, x = factor.double(), ours("linalg_solve_triangular", factor, b if left else b.mT, upper=upper, left=left)
            found = (t @ x.double() - b.double()) if left else (x.double() @ t - b.mT.double())
            assert size(found) <= 1e-6 * size(factor) * size(x)


def test_large_floats_that_cannot_be_factored():
    a = torch.triu(matrix(torch.float32, 90, 90)) + 4 * torch.eye(90)
    a[40, 40] = 0
    assert int(ours("linalg_lu_factor_ex", a)[2]) == 41 and int(ours("linalg_cholesky_ex", -a @ a.mT)[1]) == 1
    with pytest.raises(RuntimeError, match="singular: pivot 41 is zero"):
        cresset.linalg.inv(harness.ours(a))
    a[3, 3] = float("nan")
    assert bool(ours("linalg_inv_ex", a)[0].isnan().any()) and bool(ours("geqrf", a)[0].isnan().any())
