"""Samples of ops that are texts over others."""
import torch
from samples import call, sample


@sample("trapezoid_x")
def trapezoid_x(make):
    yield call(make.tensor(3, 4), make.tensor(4))
    yield call(make.tensor(3, 4), make.tensor(3), dim=0)
    yield call(make.tensor(3, 4), make.tensor(3, 4), dim=1)
    yield call(make.tensor(3, 4), make.tensor(2), note="sizes differ")


@sample("cov")
def cov(make):
    yield call(make.tensor(3, 5))
    yield call(make.tensor(5))
    yield call(make.tensor(3, 5), correction=0)
    if make.dtype in (torch.float32, torch.float64):
        yield call(make.tensor(3, 5), fweights=make.index(4, (5,)) + 1)
        yield call(make.tensor(3, 5), aweights=make.tensor(5, low=0.1, high=1.0))
        yield call(make.tensor(3, 5), fweights=make.index(4, (5,)) + 1, aweights=make.tensor(5, low=0.1, high=1.0))


@sample("corrcoef")
def corrcoef(make):
    yield call(make.tensor(3, 5))
    yield call(make.tensor(5))


@sample("diagflat")
def diagflat(make):
    yield call(make.tensor(3))
    yield call(make.tensor(2, 2), 1)
    yield call(make.tensor(()))


@sample("cartesian_prod")
def cartesian_prod(make):
    yield call([make.tensor(2), make.tensor(3)])
    yield call([make.tensor(2), make.tensor(3), make.tensor(1)])


@sample("sum_to_size")
def sum_to_size(make):
    for size in ([3, 4], [4], [1, 4], [3, 1], [], [2, 3, 4], [1, 1, 4]):
        yield call(make.tensor(2, 3, 4), size)
    yield call(make.tensor(2, 3, 4), [2, 4], note="sizes do not fit")
    yield call(make.tensor(3), [1, 3], note="too many sizes")


@sample("safe_softmax")
def safe_softmax(make):
    yield call(make.tensor(3, 4), 1)
    yield call(make.tensor(3, 4), 0, torch.float64)
    if make.is_float:
        x = make.tensor(3, 4)
        x[1] = float("-inf")
        yield call(x, -1)


@sample("native_channel_shuffle")
def native_channel_shuffle(make):
    yield call(make.tensor(2, 6, 3, 2), 3)


@sample("masked_select_backward")
def masked_select_backward(make):
    mask = make.mask(3, 4)
    yield call(make.tensor(int(mask.sum())), make.tensor(3, 4), mask)


@sample("embedding_backward_any")
def embedding_backward_any(make):
    yield call(make.tensor(2, 3, 4), make.index(5, (2, 3)), 5, -1, False, False)


@sample("special_log_softmax")
def special_log_softmax(make):
    yield call(make.tensor(3, 4), 1)
    yield call(make.tensor(3, 4), 0, dtype=torch.float64)


@sample("cross_dim")
def cross_dim(make):
    yield call(make.tensor(2, 3), make.tensor(2, 3))
    yield call(make.tensor(3, 2), make.tensor(3, 2))
    yield call(make.tensor(2, 3, 4), make.tensor(2, 3, 4), 1)
    yield call(make.tensor(2, 2, 2, 3), make.tensor(2, 2, 2, 3))
    yield call(make.tensor(4, 2), make.tensor(4, 2), note="no dimension of three")
