"""Samples of products and norms."""
import torch
from samples import call, sample


@sample("mm")
def mm(make):
    for n, m, p in [(3, 4, 5), (1, 4, 1), (7, 1, 3), (0, 4, 2), (3, 0, 2), (33, 65, 17)]:
        yield call(make.tensor(n, m), make.tensor(m, p))
    yield call(make.tensor(3, 4), make.tensor(3, 4), note="inner sizes differ")
    yield call(make.tensor(4), make.tensor(4, 3), note="not a matrix")
    yield call(make.tensor(3, 4), make.tensor(4, 3, dtype=torch.float64 if make.dtype != torch.float64
                                              else torch.float32), note="dtypes differ")


@sample("bmm")
def bmm(make):
    for b, n, m, p in [(2, 3, 4, 5), (1, 1, 4, 1), (0, 2, 3, 4), (2, 3, 0, 2), (3, 17, 9, 8)]:
        yield call(make.tensor(b, n, m), make.tensor(b, m, p))
    yield call(make.tensor(2, 3, 4), make.tensor(3, 4, 5), note="batches differ")


@sample("addmm")
def addmm(make):
    for shape in [(3, 5), (5,), (1, 5), (3, 1), ()]:
        yield call(make.tensor(shape), make.tensor(3, 4), make.tensor(4, 5))
    yield call(make.tensor(3, 5), make.tensor(3, 4), make.tensor(4, 5), beta=2, alpha=3)
    yield call(make.tensor(3, 5), make.tensor(3, 4), make.tensor(4, 5), beta=0)
    yield call(make.tensor(3, 5), make.tensor(3, 0), make.tensor(0, 5))
    yield call(make.tensor(2, 5), make.tensor(3, 4), make.tensor(4, 5), note="self does not broadcast")


@sample("baddbmm")
def baddbmm(make):
    for shape in [(2, 3, 5), (5,), (1, 3, 1)]:
        yield call(make.tensor(shape), make.tensor(2, 3, 4), make.tensor(2, 4, 5))
    yield call(make.tensor(2, 3, 5), make.tensor(2, 3, 4), make.tensor(2, 4, 5), beta=2, alpha=3)


@sample("addbmm")
def addbmm(make):
    yield call(make.tensor(3, 5), make.tensor(2, 3, 4), make.tensor(2, 4, 5))
    yield call(make.tensor(3, 5), make.tensor(2, 3, 4), make.tensor(2, 4, 5), beta=2, alpha=3)


@sample("mv")
def mv(make):
    for n, m in [(3, 4), (1, 4), (0, 3), (3, 0), (33, 65)]:
        yield call(make.tensor(n, m), make.tensor(m))
    yield call(make.tensor(3, 4), make.tensor(3), note="sizes differ")


@sample("addmv")
def addmv(make):
    yield call(make.tensor(3), make.tensor(3, 4), make.tensor(4))
    yield call(make.tensor(1), make.tensor(3, 4), make.tensor(4), beta=2, alpha=3)


@sample("dot")
def dot(make):
    for n in (1, 5, 0, 100):
        yield call(make.tensor(n), make.tensor(n))
    yield call(make.tensor(3), make.tensor(4), note="sizes differ")
    yield call(make.tensor(3, 1), make.tensor(3), note="not a vector")


@sample("matmul")
def matmul(make):
    for a, b in [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)),
                 ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
                 ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((0, 3, 4), (4, 5)),
                 ((2, 3, 0), (0, 5))]:
        yield call(make.tensor(a), make.tensor(b))
    yield call(make.tensor(3, 4), make.tensor(3, 4), note="inner sizes differ")


@sample("linear")
def linear(make):
    yield call(make.tensor(3, 4), make.tensor(5, 4), make.tensor(5))
    yield call(make.tensor(3, 4), make.tensor(5, 4))
    yield call(make.tensor(4), make.tensor(5, 4), make.tensor(5))
    yield call(make.tensor(2, 3, 4), make.tensor(5, 4), make.tensor(5))
    yield call(make.tensor(0, 4), make.tensor(5, 4), make.tensor(5))
    yield call(make.tensor(2, 3), make.tensor(5, 4), note="sizes differ")


@sample("outer")
def outer(make):
    yield call(make.tensor(3), make.tensor(4))
    yield call(make.tensor(0), make.tensor(4))


@sample("addr")
def addr(make):
    yield call(make.tensor(3, 4), make.tensor(3), make.tensor(4))
    yield call(make.tensor(3, 4), make.tensor(3), make.tensor(4), beta=make.scalar(True), alpha=make.scalar(True))


@sample("inner")
def inner(make):
    yield call(make.tensor(4), make.tensor(4))
    yield call(make.tensor(2, 4), make.tensor(3, 4))
    yield call(make.tensor(()), make.tensor(3, 4))


@sample("tensordot")
def tensordot(make):
    yield call(make.tensor(2, 3, 4), make.tensor(4, 3, 5), [1, 2], [1, 0])
    yield call(make.tensor(2, 3), make.tensor(3, 4), [-1], [0])
    yield call(make.tensor(2, 3), make.tensor(4), [], [])


@sample("vecdot")
def vecdot(make):
    yield call(make.tensor(2, 3), make.tensor(2, 3))
    yield call(make.tensor(2, 3), make.tensor(2, 3), dim=0)


@sample("norm_scalar")
def norm_scalar(make):
    for p in (2, 1, 3.5, float("inf")):
        yield call(make.tensor(3, 4), p)


@sample("norm_dim")
def norm_dim(make):
    for p in (None, 1, 3.5):
        yield call(make.tensor(3, 4), p, [1])
        yield call(make.tensor(3, 4), p, [0, 1], True)


@sample("norm_dim_dtype")
def norm_dim_dtype(make):
    yield call(make.tensor(3, 4), 2, [1], False, dtype=torch.float64)


@sample("norm_dtype")
def norm_dtype(make):
    yield call(make.tensor(3, 4), None, dtype=torch.float64)


@sample("frobenius_norm")
def frobenius_norm(make):
    yield call(make.tensor(3, 4), [0, 1])
    yield call(make.tensor(2, 3, 4), [-2, -1], True)


@sample("trilinear")
def trilinear(make):
    yield call(make.tensor(3, 4), make.tensor(5, 4, 2), make.tensor(3, 2), [1, 3], [0], [1, 2], [2, 3])
    if make.is_number:  # PyTorch's bmm refuses bool, but not when there is nothing to do
        yield call(make.tensor(0, 4), make.tensor(5, 4, 2), make.tensor(0, 2), [1, 3], [0], [1, 2], [2, 3])
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(3, 4), [], [], [], [1], 0)
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(4), [], [], [0], [0, 1])
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(3), [], [], [], [1], note="ranks differ")
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(3, 4), [], [], [], [1], 2, note="nothing to unroll")


@sample("bilinear")
def bilinear(make):
    yield call(make.tensor(3, 4), make.tensor(3, 2), make.tensor(5, 4, 2), make.tensor(5))
    yield call(make.tensor(3, 4), make.tensor(3, 2), make.tensor(5, 4, 2))
    yield call(make.tensor(2, 3, 4), make.tensor(2, 3, 2), make.tensor(5, 4, 2), make.tensor(5))
    yield call(make.tensor(4), make.tensor(2), make.tensor(5, 4, 2), make.tensor(5))
    yield call(make.tensor(3, 4), make.tensor(1, 2), make.tensor(5, 4, 2), note="batches differ")
    yield call(make.tensor(3, 4), make.tensor(3, 2), make.tensor(5, 4, 3), note="inner sizes differ")


@sample("linalg_norm")
def linalg_norm(make):
    for shape in [(4,), (3, 4), (2, 3, 4), ()]:
        yield call(make.tensor(shape))
    for order in (1, 2, 3, float("inf"), -float("inf"), 0):
        yield call(make.tensor(5), order)
        yield call(make.tensor(3, 5), order, [1])
    for order in (1, -1, float("inf"), -float("inf")):
        yield call(make.tensor(3, 5), order)
        yield call(make.tensor(2, 3, 5), order, [2, 0], True)
        yield call(make.tensor(2, 3, 5), order, [-2, -1])
    yield call(make.tensor(2, 3), None, [0], True)
    yield call(make.tensor(2, 3, 4), 1, note="an order with three dims")
    yield call(make.tensor(2, 3, 4), None, [0, 1, 2], note="three dims")
    yield call(make.tensor(2, 3), 1, [0, 0], note="a dim twice")


@sample("renorm")
def renorm(make):
    for p in (1, 2, 3.5, float("inf")):
        yield call(make.tensor(3, 4), p, 0, 1.5)
        yield call(make.tensor(2, 3, 4), p, -1, 2)
    yield call(make.tensor(3, 4), 2, 1, 1000.0)


@sample("cross")
def cross(make):
    yield call(make.tensor(4, 3), make.tensor(4, 3))
    yield call(make.tensor(3, 4), make.tensor(3, 1), dim=0)
    yield call(make.tensor(2, 1, 3), make.tensor(1, 5, 3))
    yield call(make.tensor(4, 2), make.tensor(4, 2), note="not three numbers")
    yield call(make.tensor(4, 3), make.tensor(3), note="dims differ")


@sample("multi_dot")
def multi_dot(make):
    yield call([make.tensor(3, 4), make.tensor(4, 2)])
    yield call([make.tensor(3, 4), make.tensor(4, 2), make.tensor(2, 5), make.tensor(5, 3)])
    yield call([make.tensor(4), make.tensor(4, 2), make.tensor(2)])
    yield call([make.tensor(4), make.tensor(4, 2)])
    yield call([make.tensor(3, 4)], note="one alone")
    yield call([make.tensor(3, 4), make.tensor(4), make.tensor(4, 2)], note="a vector in the middle")


@sample("matrix_power")
def matrix_power(make):
    for n in (0, 1, 2, 3, 5, 8):
        yield call(make.tensor(3, 3), n)
    yield call(make.tensor(2, 4, 4), 3)
    yield call(make.tensor(2, 3), 2, note="not square")
    yield call(make.tensor(3), 2, note="not a matrix")


@sample("block_diag")
def block_diag(make):
    yield call([make.tensor(2, 3), make.tensor(1, 2), make.tensor(3), make.tensor(())])
    yield call([make.tensor(2, 3)])
    yield call([make.tensor(0, 2), make.tensor(2, 0), make.tensor(1, 1)])
    yield call([make.tensor(2, 3, 1)], note="three dims")


@sample("trapezoid_dx")
def trapezoid_dx(make):
    yield call(make.tensor(5))
    yield call(make.tensor(3, 4), dx=0.5)
    yield call(make.tensor(3, 4), dx=2, dim=0)
    yield call(make.tensor(3, 1))


@sample("grouped_mm")
def grouped_mm(make):
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)
    yield call(make.tensor(8, 16), make.tensor(3, 16, 24), ends)
    yield call(make.tensor(3, 16, 8), make.tensor(8, 8), ends)
    yield call(make.tensor(16, 8), make.tensor(8, 24), ends)
    yield call(make.tensor(3, 16, 8), make.tensor(3, 8, 24))
    yield call(make.tensor(8, 16), make.tensor(3, 16, 24), ends.long(), note="offs of int64")
    yield call(make.tensor(8, 16), make.tensor(3, 16, 24), note="no offs")
    yield call(make.tensor(3, 16, 8), make.tensor(3, 8, 24), ends, note="offs of nothing")
    yield call(make.tensor(2, 16, 8), make.tensor(3, 8, 24), note="other groups")
    yield call(make.tensor(8, 16), make.tensor(4, 16, 24), ends, note="offs of fewer groups")
    yield call(make.tensor(8, 16), make.tensor(3, 8, 24), ends, note="inner sizes")
    yield call(make.tensor(8, 16), make.tensor(3, 16, 24), ends, make.tensor(3, 24), note="bias")
    yield call(make.tensor(8, 16), make.tensor(3, 16, 24), ends, None, torch.float64, note="another dtype")
