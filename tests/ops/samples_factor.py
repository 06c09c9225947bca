"""Samples of matrix factorisations. Matrices are well away from singular ones: a diagonal is added."""
import torch
from samples import call, sample


def square(make, *shape):
    """Random, but invertible."""
    x = make.tensor(*shape)
    return (x + (shape[-1] + 1) * torch.eye(shape[-1]).to(make.dtype) if make.is_number and x.dtype.is_floating_point
            or x.dtype.is_complex else x)


def positive(make, *shape):
    x = make.tensor(*shape)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return x
    wide = x.to(torch.complex128 if x.dtype.is_complex else torch.float64)
    return (wide @ wide.mH + torch.eye(shape[-1])).to(make.dtype)


RECTANGLES = [(2, 3, 5), (5, 3)]  # their factors have no derivative here
SQUARES = [(3, 3), (2, 3, 3), (1, 1), (2, 2, 4, 4), (12, 12)]


@sample("square")
def squares(make):
    for shape in SQUARES:
        yield call(square(make, *shape))
    yield call(make.tensor(2, 3), note="not square")
    yield call(make.tensor(3), note="a vector")


@sample("lu_factor_ex")
def lu_factor_ex(make):
    for shape in SQUARES + RECTANGLES:
        yield call(make.tensor(shape), smooth=shape in SQUARES)
    yield call(make.tensor(2, 3, 3), pivot=False, note="no pivots")
    yield call(torch.zeros(3, 3).to(make.dtype), check_errors=True, note="singular")


@sample("lu_factor")
def lu_factor(make):
    for shape in SQUARES + RECTANGLES:
        yield call(make.tensor(shape), smooth=shape in SQUARES)


@sample("linalg_lu")
def linalg_lu(make):
    for shape in SQUARES + RECTANGLES:
        yield call(make.tensor(shape), smooth=shape in SQUARES)
    yield call(make.tensor(3), note="a vector")


def factors(make, shape):
    kind = make.dtype if make.dtype in (torch.float32, torch.float64, torch.complex64,
                                        torch.complex128) else torch.float64
    lu, pivots = torch.linalg.lu_factor(torch.randn(shape, generator=make.generator, dtype=kind))
    return lu.to(make.dtype), pivots


@sample("lu_unpack")
def lu_unpack(make):
    if not make.dtype.is_floating_point and not make.dtype.is_complex:
        return
    for shape in [(3, 3), (2, 3, 3), (2, 3, 5), (5, 3)]:
        yield call(*factors(make, shape))
    yield call(*factors(make, (3, 3)), False, True)
    yield call(*factors(make, (3, 3)), True, False)


@sample("lu_solve")
def lu_solve(make):
    for shape, b in [((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 4)), ((3, 3), (2, 3, 4)), ((2, 1, 3, 3), (2, 3, 1))]:
        for adjoint in (False, True):
            yield call(*factors(make, shape), make.tensor(b), adjoint=adjoint)
            yield call(*factors(make, shape), make.tensor(*b[:-2], b[-1], b[-2]), left=False, adjoint=adjoint)
    yield call(*factors(make, (3, 3)), make.tensor(2, 2), note="sizes differ")


@sample("lu_solve_old")
def lu_solve_old(make):
    yield call(make.tensor(2, 3, 4), *factors(make, (2, 3, 3)))


SYSTEMS = [((3, 3), (3, 2)), ((3, 3), (3,)), ((2, 3, 3), (2, 3, 4)), ((2, 3, 3), (2, 3)), ((3, 3), (2, 3, 4)),
           ((2, 3, 3), (3, 4)), ((2, 1, 3, 3), (4, 3, 2)), ((12, 12), (12, 5))]


@sample("solve_ex")
def solve_ex(make):
    for a, b in SYSTEMS:
        yield call(square(make, *a), make.tensor(b))
    yield call(square(make, 2, 3, 3), make.tensor(2, 4, 3), left=False)
    yield call(square(make, 3, 3), make.tensor(2, 2), note="sizes differ")
    yield call(make.tensor(2, 3), make.tensor(2, 2), note="not square")
    yield call(torch.zeros(3, 3).to(make.dtype), make.tensor(3, 1), check_errors=True, note="singular")


@sample("solve")
def solve(make):
    for a, b in SYSTEMS:
        yield call(square(make, *a), make.tensor(b))
    yield call(square(make, 2, 3, 3), make.tensor(2, 4, 3), left=False)
    yield call(torch.zeros(3, 3).to(make.dtype), make.tensor(3, 1), note="singular")


@sample("cholesky_ex")
def cholesky_ex(make):
    for shape in SQUARES:
        for upper in (False, True):
            yield call(positive(make, *shape), upper=upper)
    yield call(make.tensor(2, 3), note="not square")
    if make.is_float:
        yield call(-positive(make, 3, 3), check_errors=True, note="not positive")


@sample("cholesky")
def cholesky(make):
    for shape in SQUARES:
        for upper in (False, True):
            yield call(positive(make, *shape), upper=upper)
    if make.is_float:
        yield call(-positive(make, 3, 3), note="not positive")


@sample("cholesky_old")
def cholesky_old(make):
    for shape in SQUARES:
        for upper in (False, True):
            yield call(positive(make, *shape), upper)


@sample("solve_triangular")
def solve_triangular(make):
    for a, b in [((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 4)), ((3, 3), (2, 3, 4)), ((2, 1, 4, 4), (3, 4, 1))]:
        for upper in (False, True):
            for unit in (False, True):
                yield call(square(make, *a), make.tensor(b), upper=upper, unitriangular=unit)
                yield call(square(make, *a), make.tensor(*b[:-2], b[-1], b[-2]), upper=upper, left=False,
                           unitriangular=unit)
    yield call(square(make, 3, 3), make.tensor(2, 2), upper=True, note="sizes differ")


def triangle(make, *shape):
    t = torch.tril(square(make, *shape))
    if t.dtype.is_complex:  # factors of positive matrices have a real diagonal
        torch.diagonal(torch.view_as_real(t)[..., 1], dim1=-2, dim2=-1).zero_()
    return t


@sample("cholesky_solve")
def cholesky_solve(make):
    yield call(make.tensor(3, 2), triangle(make, 3, 3))
    yield call(make.tensor(2, 3, 4), triangle(make, 2, 3, 3))
    yield call(make.tensor(2, 3, 4), triangle(make, 2, 3, 3).mT.contiguous(), True)


@sample("cholesky_inverse")
def cholesky_inverse(make):
    yield call(triangle(make, 3, 3))
    yield call(triangle(make, 2, 3, 3).mT.contiguous(), True)


@sample("geqrf")
def geqrf(make):
    for shape in [(3, 3), (2, 5, 3), (3, 5), (1, 1), (4, 1)]:
        yield call(make.tensor(shape))


@sample("householder")
def householder(make):
    for shape, k in [((3, 3), 3), ((2, 5, 3), 3), ((5, 3), 2), ((4, 2), 0)]:
        yield call(make.tensor(shape), make.tensor(*shape[:-2], k))
    yield call(make.tensor(3, 5), make.tensor(3), note="wide")


@sample("ormqr")
def ormqr(make):
    for left in (True, False):
        for transpose in (True, False):
            for a, other in [((3, 3), (3, 2)), ((2, 5, 3), (2, 5, 4)), ((4, 1), (4, 1)), ((3, 5), (3, 2)),
                             ((1, 1), (1, 3))]:
                k = min(a[-2:])
                yield call(make.tensor(a), make.tensor(*a[:-2], k),
                           make.tensor(*(other if left else (*other[:-2], other[-1], other[-2]))), left, transpose)
    yield call(make.tensor(4, 0), make.tensor(0), make.tensor(4, 2), smooth=False)
    yield call(make.tensor(3, 3), make.tensor(3), make.tensor(3, 0), smooth=False)
    yield call(make.tensor(0, 0), make.tensor(0), make.tensor(0, 2), smooth=False)
    yield call(make.tensor(4, 3), make.tensor(2), make.tensor(4, 2), note="too few factors")
    yield call(make.tensor(4, 3), make.tensor(4), make.tensor(4, 2), note="too many factors")
    yield call(make.tensor(4, 3), make.tensor(3), make.tensor(2, 4), note="sizes differ")
    yield call(make.tensor(2, 4, 3), make.tensor(2, 3), make.tensor(4, 2), note="no batch")
    yield call(make.tensor(4), make.tensor(3), make.tensor(4, 2), note="a vector")


@sample("triangular_solve")
def triangular_solve(make):
    for b, a in [((3, 2), (3, 3)), ((2, 3, 4), (2, 3, 3)), ((2, 3, 4), (3, 3)), ((3, 4, 1), (2, 1, 4, 4)),
                 ((1, 1), (1, 1))]:
        for upper in (False, True):
            for transpose in (False, True):
                yield call(make.tensor(b), square(make, *a), upper, transpose)
                yield call(make.tensor(b), square(make, *a), upper, transpose, True)
    yield call(make.tensor(3, 0), square(make, 3, 3), smooth=False)
    yield call(make.tensor(0, 2), make.tensor(0, 0), smooth=False)
    yield call(make.tensor(3), square(make, 3, 3), note="a vector")
    yield call(make.tensor(2, 2), square(make, 3, 3), note="sizes differ")
    yield call(make.tensor(3, 2), make.tensor(3, 2), note="not square")


def ldl_matrices(make):
    """Of any signs, so that there are pivots of one and of two rows."""
    for shape in SQUARES:
        yield make.tensor(shape)
        if len(shape) == 2 and shape[0] > 1:  # nothing on the diagonal: all pivots are of two rows
            x = make.tensor(shape)
            x.diagonal().zero_()
            yield x
    yield make.tensor(6, 6)


@sample("ldl_factor_ex")
def ldl_factor_ex(make):
    for x in ldl_matrices(make):
        yield call(x, smooth=False)
        yield call(x, hermitian=True, smooth=False)
    yield call(make.tensor(2, 0, 0), smooth=False)
    yield call(make.tensor(0, 3, 3), smooth=False)
    yield call(torch.zeros(3, 3).to(make.dtype), smooth=False)
    yield call(torch.zeros(3, 3).to(make.dtype), check_errors=True, note="singular")
    yield call(make.tensor(2, 3), note="not square")
    yield call(make.tensor(3), note="a vector")


@sample("ldl_factor")
def ldl_factor(make):
    for x in ldl_matrices(make):
        yield call(x, smooth=False)
        yield call(x, hermitian=True, smooth=False)
    yield call(torch.zeros(3, 3).to(make.dtype), note="singular")


@sample("ldl_solve")
def ldl_solve(make):
    kind = make.dtype if make.dtype in (torch.float32, torch.float64, torch.complex64,
                                        torch.complex128) else torch.float64
    for a, b in [((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 4)), ((3, 3), (2, 3, 4)), ((1, 1), (1, 1)), ((12, 12), (12, 3)),
                 ((2, 4, 4), (4, 1))]:
        for hermitian in (False, True):
            x = torch.randn(a, generator=make.generator, dtype=kind)
            if hermitian and a[-1] > 1:
                x.diagonal(dim1=-2, dim2=-1).zero_()  # pivots of two rows, then
                x = x + torch.eye(a[-1]) * 1e-3
            ld, pivots = torch.linalg.ldl_factor(x, hermitian=hermitian)
            yield call(ld.to(make.dtype), pivots, make.tensor(b), hermitian=hermitian, smooth=False)
            yield call(ld.to(make.dtype), pivots.long(), make.tensor(b), hermitian=hermitian, smooth=False)
    ones = torch.tensor([1, 2, 3], dtype=torch.int32)
    yield call(make.tensor(0, 0), ones[:0], make.tensor(0, 2), smooth=False)
    yield call(make.tensor(3, 3), ones, make.tensor(3, 0), smooth=False)
    yield call(make.tensor(3, 3), ones, make.tensor(2, 2), note="sizes differ")
    yield call(make.tensor(3, 3), ones, make.tensor(3), note="a vector")
    yield call(make.tensor(3, 3), ones.float(), make.tensor(3, 2), note="pivots of float32")
    yield call(make.tensor(2, 3, 3), ones, make.tensor(3, 2), note="pivots of one matrix")
    yield call(make.tensor(2, 3), ones, make.tensor(3, 2), note="not square")


@sample("qr")
def qr(make):
    for shape in [(3, 3), (2, 5, 3), (1, 1), (4, 1)]:
        yield call(make.tensor(shape))
    for shape in RECTANGLES + [(3, 3)]:
        yield call(make.tensor(shape), "reduced", smooth=shape == (3, 3))
        yield call(make.tensor(shape), "complete", smooth=shape == (3, 3))
    yield call(make.tensor(5, 3), "q", note="no such mode")


@sample("qr_old")
def qr_old(make):
    yield call(make.tensor(2, 5, 3))
    yield call(make.tensor(3, 3), False)


@sample("linalg_check_errors")
def linalg_check_errors(make):
    yield call(torch.zeros(2, dtype=torch.int32), "linalg.inv", is_matrix=False)
    yield call(torch.tensor(2, dtype=torch.int32), "linalg.inv", is_matrix=True)


@sample("tensorinv")
def tensorinv(make):
    yield call(make.tensor(4, 6, 8, 3), 2)
    yield call(make.tensor(4, 2, 2), 1)
    yield call(make.tensor(4, 6, 8), 2, note="other products")
    yield call(make.tensor(4, 4), 0, note="no dimension")


@sample("tensorsolve")
def tensorsolve(make):
    yield call(make.tensor(6, 4, 2, 3, 4), make.tensor(6, 4))
    yield call(make.tensor(4, 2, 3, 6), make.tensor(6), [3, 0])
    yield call(make.tensor(2, 6, 3), make.tensor(6), [0, 2])
    yield call(make.tensor(6, 4, 4, 3), make.tensor(4, 3, 2), note="other products")
