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


FLAT = [(2,), (5,), (4, 3), (2, 3, 5)]


@sample("gradient_scalarint")
def gradient_scalarint(make):
    for shape in FLAT:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), spacing=0.5)
        yield call(make.tensor(shape), spacing=2, dim=-1)
    yield call(make.tensor(3, 4), edge_order=2)
    yield call(make.tensor(3), spacing=0.25, edge_order=2)
    yield call(make.tensor(0, 3), dim=1)
    yield call(make.tensor(()))
    yield call(make.tensor(4), spacing=1.5 + 2j, smooth=False)
    yield call(make.tensor(()), dim=0, note="no dimension")
    yield call(make.tensor(3, 4), dim=2, note="no such dimension")
    yield call(make.tensor(1), note="one point")
    yield call(make.tensor(2), edge_order=2, note="two points")
    yield call(make.tensor(5), edge_order=3, note="another order")
    yield call(make.tensor(0, 3), note="no points")


@sample("gradient_scalararray")
def gradient_scalararray(make):
    yield call(make.tensor(3, 4), spacing=0.5, dim=[0, 1])
    yield call(make.tensor(3, 4, 5), spacing=2, dim=[-1, 0], edge_order=2)
    yield call(make.tensor(3, 4), spacing=2, dim=[])
    yield call(make.tensor(3, 4), spacing=2, dim=[0, -2], note="twice")


@sample("gradient_array")
def gradient_array(make):
    yield call(make.tensor(3, 4), dim=[0, 1])
    yield call(make.tensor(3, 4, 5), dim=[2, 0], edge_order=2)
    yield call(make.tensor(3, 4), dim=[1])
    yield call(make.tensor(3, 4), dim=[2], note="no such dimension")


@sample("gradient_scalarrayint")
def gradient_scalarrayint(make):
    yield call(make.tensor(3, 4), spacing=[0.5, 2])
    yield call(make.tensor(3, 4), spacing=[0.5], dim=1)
    yield call(make.tensor(3, 4), spacing=[1, 3], edge_order=2)
    yield call(make.tensor(3, 4), spacing=[0.5], note="one of two")
    yield call(make.tensor(3, 4), spacing=[0.5, 1], dim=1, note="two of one")


@sample("gradient_scalarrayarray")
def gradient_scalarrayarray(make):
    yield call(make.tensor(3, 4), spacing=[0.5, 2], dim=[1, 0])
    yield call(make.tensor(3, 4, 5), spacing=[0.5], dim=[1], edge_order=2)
    yield call(make.tensor(3, 4), spacing=[0.5, 1], dim=[1], note="two of one")


def places(make, n):
    return torch.tensor([0, 1, 3, 4, 8, 9, 14][:n]).to(make.dtype)


@sample("gradient_tensorarrayint")
def gradient_tensorarrayint(make):
    yield call(make.tensor(5), spacing=[places(make, 5)])
    yield call(make.tensor(4, 3), spacing=[places(make, 4), places(make, 3)])
    yield call(make.tensor(4, 3), spacing=[places(make, 4), places(make, 3)], edge_order=2)
    yield call(make.tensor(4, 3), spacing=[torch.tensor([0.0, 0.5, 2.0])], dim=1)
    yield call(make.tensor(4, 3), spacing=[torch.arange(3)], dim=-1)
    yield call(make.tensor(2), spacing=[places(make, 2)])
    yield call(make.tensor(4, 3), spacing=[places(make, 4)], note="one of two")
    yield call(make.tensor(4, 3), spacing=[places(make, 4)], dim=1, note="as many as rows")
    yield call(make.tensor(4, 3), spacing=[make.tensor(2, 2)], dim=0, note="a matrix")


@sample("gradient_tensorarray")
def gradient_tensorarray(make):
    yield call(make.tensor(4, 3), spacing=[places(make, 3), places(make, 4)], dim=[1, 0])
    yield call(make.tensor(4, 3, 5), spacing=[places(make, 5)], dim=[2], edge_order=2)
    yield call(make.tensor(4, 3), spacing=[places(make, 4)], dim=[0, 0], note="twice")


@sample("combinations")
def combinations(make):
    for n in (0, 1, 2, 5):
        for r in (1, 2, 3):
            yield call(make.tensor(n), r)
            yield call(make.tensor(n), r, True)
    yield call(make.tensor(4))
    yield call(make.tensor(4), 0)
    yield call(make.tensor(4), -1, note="negative")
    yield call(make.tensor(2, 2), note="a matrix")
