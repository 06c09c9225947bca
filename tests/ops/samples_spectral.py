"""Samples of eigenvalues, singular values and what follows from them. Vectors come with any phase, so they are compared
by what has none (settled.py). The values of random matrices are apart from each other."""
import torch
from samples import call, sample
from settled import of_eig, of_eigh, of_eigvals, of_old_svd, of_svd

SQUARES = [(3, 3), (2, 3, 3), (1, 1), (2, 2, 4, 4), (12, 12), (0, 0), (0, 3, 3)]
SHAPES = [(3, 3), (2, 5, 3), (3, 5), (1, 4), (9, 8), (0, 3), (0, 3, 3), (3, 0)]


def shapes(make, among):
    """PyTorch never looks at the dtype of nothing, but has no use for it either: empty matrices are asked for where it
    has a kernel."""
    kernel = make.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128)
    return [shape for shape in among if kernel or 0 not in shape]


def spread(make, *shape):
    """Random, with singular values (and eigenvalues of the triangles) that differ clearly."""
    x = make.tensor(*shape)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return x
    k = min(shape[-2:])
    grow = torch.zeros(shape[-2:], dtype=torch.float64)
    grow.diagonal().copy_(torch.arange(1, k + 1) * 3.0)
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    return (x.to(wide) * 0.5 + grow).to(make.dtype)


def hermitian(make, *shape):
    x = spread(make, *shape)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return x
    wide = x.to(torch.complex128 if x.dtype.is_complex else torch.float64)
    return ((wide + wide.mH) / 2).to(make.dtype)


@sample("eigh")
def eigh(make):
    for shape in shapes(make, SQUARES):
        for side in ("L", "U"):
            yield call(spread(make, *shape), side, settled=of_eigh, smooth=False)
    yield call(spread(make, 3, 3), "lower", note="no such triangle")
    yield call(make.tensor(2, 3), note="not square")
    yield call(make.tensor(3), note="a vector")


@sample("eigh_internal")
def eigh_internal(make):
    for shape in shapes(make, SQUARES):
        for side in ("L", "u"):
            yield call(spread(make, *shape), side, True, settled=of_eigh, smooth=False)
        yield call(spread(make, *shape), "L", False, smooth=False)
    yield call(spread(make, 3, 3), "", note="no such triangle")
    yield call(make.tensor(2, 3), note="not square")


@sample("eigvalsh")
def eigvalsh(make):
    for shape in shapes(make, SQUARES):
        for side in ("L", "U"):
            yield call(hermitian(make, *shape), side)


def paired(make, *shape):
    """Random, with eigenvalues that differ clearly; of a real one the first two are a pair of conjugates."""
    x = spread(make, *shape)
    if shape[-1] > 1 and (x.dtype.is_floating_point or x.dtype.is_complex):
        x[..., 0, 1], x[..., 1, 0], x[..., 1, 1] = 4, -4, x[..., 0, 0]
    return x


@sample("eig")
def eig(make):
    for shape in shapes(make, SQUARES):
        yield call(paired(make, *shape), settled=of_eig, smooth=False)
    yield call(make.tensor(2, 3), note="not square")
    yield call(make.tensor(3), note="a vector")


@sample("eigvals")
def eigvals(make):
    for shape in shapes(make, SQUARES):
        yield call(paired(make, *shape), settled=of_eigvals, smooth=False)
    yield call(make.tensor(2, 3), note="not square")


@sample("svd_internal")
def svd_internal(make):
    for shape in shapes(make, SHAPES):
        for full in (False, True):
            yield call(spread(make, *shape), full, True, settled=of_svd, smooth=False)
        yield call(spread(make, *shape), False, False, smooth=False)
    yield call(spread(make, 3, 3), False, True, driver="gesvd", note="a driver of CUDA")
    yield call(make.tensor(3), note="a vector")


@sample("svd")
def svd(make):
    for shape in shapes(make, SHAPES):
        for full in (False, True):
            yield call(spread(make, *shape), full, settled=of_svd, smooth=False)
    yield call(spread(make, 3, 3), driver="gesvd", note="a driver of CUDA")


@sample("svdvals")
def svdvals(make):
    for shape in shapes(make, SHAPES):
        yield call(spread(make, *shape))


@sample("svd_old")
def svd_old(make):
    for shape in shapes(make, SHAPES):
        for some in (True, False):
            yield call(spread(make, *shape), some, True, settled=of_old_svd, smooth=False)
    yield call(spread(make, 4, 1), True, False, smooth=False)


def deficient(make, *shape):
    """Of rank 2."""
    wide = torch.complex128 if make.dtype.is_complex else torch.float64
    left, right = (make.tensor(*s, dtype=wide) for s in ((*shape[:-1], 2), (*shape[:-2], 2, shape[-1])))
    return (left @ right).to(make.dtype)


PINV = [(3, 3), (2, 5, 3), (3, 5), (1, 4)]


@sample("pinv_tensor")
def pinv_tensor(make):
    for shape in shapes(make, PINV + [(0, 3), (2, 0, 3)]):
        yield call(spread(make, *shape))
    yield call(spread(make, 2, 5, 3), atol=torch.tensor([0.5, 4.0], dtype=torch.float64), smooth=False)
    yield call(spread(make, 2, 5, 3), rtol=torch.tensor(0.6, dtype=torch.float64), smooth=False)
    yield call(spread(make, 5, 3), atol=torch.tensor(0.1, dtype=torch.float64),
               rtol=torch.tensor(0.1, dtype=torch.float64), smooth=False)
    yield call(hermitian(make, 2, 4, 4), hermitian=True)
    yield call(make.tensor(2, 3), hermitian=True, note="not square")
    yield call(make.tensor(3), note="a vector")


@sample("pinv_float")
def pinv_float(make):
    for shape in shapes(make, PINV + [(0, 3)]):
        yield call(spread(make, *shape))
    yield call(spread(make, 2, 5, 3), atol=4.0, smooth=False)
    yield call(spread(make, 2, 5, 3), rtol=0.6, smooth=False)
    yield call(spread(make, 2, 5, 3), atol=0.0)
    yield call(hermitian(make, 2, 4, 4), atol=0.1, rtol=0.2, hermitian=True, smooth=False)
    if make.dtype in (torch.float64, torch.complex128):
        yield call(deficient(make, 5, 4), smooth=False)


@sample("pinv_rcond")
def pinv_rcond(make):
    for shape in PINV:
        yield call(spread(make, *shape), 1e-4)
    yield call(spread(make, 2, 5, 3), 0.6, smooth=False)
    yield call(hermitian(make, 2, 4, 4), 1e-4, True)


@sample("pinv_rcond_tensor")
def pinv_rcond_tensor(make):
    yield call(spread(make, 2, 5, 3), torch.tensor([1e-4, 0.6], dtype=torch.float64), smooth=False)
    yield call(spread(make, 5, 3), torch.tensor(0.6, dtype=torch.float64), smooth=False)
    yield call(hermitian(make, 2, 4, 4), torch.tensor(1e-4, dtype=torch.float64), True)


@sample("pinverse")
def pinverse(make):
    for shape in PINV:
        yield call(spread(make, *shape))
    yield call(spread(make, 5, 3), 0.5, smooth=False)


@sample("cond")
def cond(make):
    for p in (None, 2, -2, 1, -1, float("inf"), -float("inf")):
        for shape in shapes(make, [(3, 3), (2, 4, 4), (0, 0)]):
            yield call(spread(make, *shape), p)
    yield call(spread(make, 2, 5, 3))
    yield call(spread(make, 3, 3), 3, note="no norm")
    yield call(spread(make, 3, 5), 1, note="not square")


@sample("cond_name")
def cond_name(make):
    for p in ("fro", "nuc"):
        for shape in [(3, 3), (2, 4, 4)]:
            yield call(spread(make, *shape), p)
    yield call(spread(make, 3, 3), "two", note="no norm")


@sample("lstsq")
def lstsq(make):
    for driver in (None, "gels", "gelsd", "gelss", "gelsy"):
        yield call(spread(make, 2, 5, 3), make.tensor(2, 5, 2), driver=driver)
        yield call(spread(make, 3, 5), make.tensor(3, 2), driver=driver)
        yield call(spread(make, 4, 3), make.tensor(4), driver=driver)
    yield call(spread(make, 4, 4), make.tensor(4, 1), 1e-3)
    yield call(spread(make, 4, 3), make.tensor(5, 1), note="rows differ")
    yield call(spread(make, 4, 3), make.tensor(4, 1), driver="lu", note="no driver")
    yield call(make.tensor(3), make.tensor(3), note="a vector")


@sample("matrix_exp")
def matrix_exp(make):
    if make.dtype in (torch.float16, torch.bfloat16):  # PyTorch's polynomial overflows there: NaN (docs/differences.md)
        return
    for shape in shapes(make, [(3, 3), (2, 4, 4), (1, 1), (0, 0), (0, 3, 3)]):
        yield call(make.tensor(*shape))
    yield call(make.tensor(3, 3) * 5, smooth=False)
    yield call(make.tensor(2, 3), note="not square")


@sample("matrix_norm")
def matrix_norm(make):
    for ord in (2, -2, 1, -1, float("inf"), -float("inf")):
        yield call(spread(make, 2, 4, 3), ord)
        yield call(spread(make, 2, 4, 3), ord, [2, 0], True)
        yield call(spread(make, 3, 2, 4), ord, [1, -1])
    yield call(spread(make, 4, 3), 3, note="no norm")
    yield call(spread(make, 4, 3), 2, [0, 0], note="one dim twice")
    yield call(spread(make, 4, 3), 2, [0], note="one dim")
    yield call(make.tensor(3), 2, note="a vector")
    if make.dtype in (torch.float32, torch.complex64):
        yield call(spread(make, 4, 3), 2, dtype=torch.float64 if make.is_float else torch.complex128)


@sample("matrix_norm_name")
def matrix_norm_name(make):
    for ord in ("fro", "nuc"):
        yield call(spread(make, 2, 4, 3), ord)
        yield call(spread(make, 2, 4, 3), ord, [2, 0], True)
    yield call(spread(make, 4, 3))
    yield call(spread(make, 4, 3), "two", note="no norm")


@sample("linalg_norm_name")
def linalg_norm_name(make):
    for ord in ("fro", "nuc"):
        yield call(spread(make, 4, 3), ord)
        yield call(spread(make, 2, 4, 3), ord, [0, 2], True)
    yield call(spread(make, 2, 4, 3), "fro", note="three dims")


@sample("nuclear_norm")
def nuclear_norm(make):
    yield call(spread(make, 4, 3))
    yield call(spread(make, 3, 5), True)


@sample("nuclear_norm_dim")
def nuclear_norm_dim(make):
    yield call(spread(make, 2, 4, 3), [1, 2])
    yield call(spread(make, 2, 4, 3), [2, 0], True)
