"""Samples of pooling."""
import torch
from samples import call, sample


def inputs(make, spatial):
    yield make.tensor(2, 3, *(7, 6, 5)[:spatial])
    yield make.tensor(3, *(7, 6, 5)[:spatial])


def max_pool(make, spatial):
    for x in inputs(make, spatial):
        yield call(x, [2] * spatial)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial)
        yield call(x, [2] * spatial, [1] * spatial, [0] * spatial, [2] * spatial)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial, [1] * spatial, True)
    yield call(make.tensor(1, 1, *(2,) * spatial), [3] * spatial, note="kernel too large")
    yield call(make.tensor(1, 1, *(4,) * spatial), [2] * spatial, [1] * spatial, [2] * spatial,
               note="padding too large")


def avg_pool(make, spatial):
    for x in inputs(make, spatial):
        yield call(x, [2] * spatial)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial, True)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial, False, False)
        if spatial > 1:
            yield call(x, [3] * spatial, [2] * spatial, [1] * spatial, True, True, 5)


def adaptive(make, spatial):
    for x in inputs(make, spatial):
        yield call(x, [3] * spatial)
        yield call(x, [1] * spatial)
        yield call(x, [8] * spatial)


for _n in (1, 2, 3):
    sample(f"max_pool{_n}d")(lambda make, n=_n: max_pool(make, n))
    sample(f"avg_pool{_n}d")(lambda make, n=_n: avg_pool(make, n))
    sample(f"adaptive_pool{_n}d")(lambda make, n=_n: adaptive(make, n))


def max_backward(make, spatial):
    forward = {2: torch.ops.aten.max_pool2d_with_indices, 3: torch.ops.aten.max_pool3d_with_indices}[spatial]
    if not make.is_float:
        return
    for x in inputs(make, spatial):
        for window in ([[2] * spatial, [2] * spatial, [0] * spatial, [1] * spatial, False],
                       [[3] * spatial, [2] * spatial, [1] * spatial, [1] * spatial, True]):
            y, index = forward(x, *window)
            yield call(make.tensor(y.shape), x, *window, index)


def avg_backward(make, spatial):
    forward = {2: torch.ops.aten.avg_pool2d, 3: torch.ops.aten.avg_pool3d}[spatial]
    if not make.is_float:
        return
    for x in inputs(make, spatial):
        for window in ([[2] * spatial, [2] * spatial, [0] * spatial, False, True, None],
                       [[3] * spatial, [2] * spatial, [1] * spatial, True, False, None],
                       [[3] * spatial, [2] * spatial, [1] * spatial, False, True, 4]):
            yield call(make.tensor(forward(x.float(), *window).shape), x, *window)


def adaptive_backward(make, spatial):
    if not make.is_float:
        return
    for x in inputs(make, spatial):
        for size in (3, 1, 8):
            yield call(make.tensor(*x.shape[:-spatial], *(size,) * spatial), x)


for _n in (2, 3):
    sample(f"max_pool{_n}d_backward")(lambda make, n=_n: max_backward(make, n))
    sample(f"avg_pool{_n}d_backward")(lambda make, n=_n: avg_backward(make, n))
    sample(f"adaptive_pool{_n}d_backward")(lambda make, n=_n: adaptive_backward(make, n))


def adaptive_max_backward(make, spatial):
    forward = {2: torch.ops.aten.adaptive_max_pool2d, 3: torch.ops.aten.adaptive_max_pool3d}[spatial]
    if not make.is_float:
        return
    for x in inputs(make, spatial):
        for size in (3, 1):
            y, index = forward(x, [size] * spatial)
            yield call(make.tensor(y.shape), x, index)


for _n in (2, 3):
    sample(f"adaptive_max_pool{_n}d_backward")(lambda make, n=_n: adaptive_max_backward(make, n))


@sample("max_unpool2d")
def max_unpool2d(make):
    for shape in [(2, 3, 2, 2), (3, 2, 2), (0, 3, 2, 2)]:
        lead = torch.Size(shape[:-2])
        where = torch.rand(*lead, 25, generator=make.generator).argsort(-1)[..., :4].reshape(shape)
        yield call(make.tensor(shape), where, [5, 5])
    yield call(make.tensor(1, 1, 2, 2), torch.tensor([[[[0, 5], [10, 25]]]]), [5, 5], note="index outside")
    yield call(make.tensor(1, 1, 2, 2), torch.tensor([[[[0, 5], [10, 15]]]]), [5], note="one size")
    yield call(make.tensor(1, 1, 2, 2), torch.tensor([[[0, 5], [10, 15]]]), [5, 5], note="ranks differ")


@sample("max_unpool3d")
def max_unpool3d(make):
    for shape in [(2, 3, 2, 2, 2), (3, 2, 2, 2)]:
        lead = torch.Size(shape[:-3])
        where = torch.rand(*lead, 60, generator=make.generator).argsort(-1)[..., :8].reshape(shape)
        yield call(make.tensor(shape), where, [3, 4, 5], [2, 2, 2], [0, 0, 0])
    yield call(make.tensor(1, 1, 1, 1, 2), torch.tensor([[[[[0, 25]]]]]), [1, 5, 5], [1, 1, 1], [0, 0, 0],
               note="index outside")


def drawn(make, *shape):
    return make.tensor(*shape, low=0.0, high=0.99) if make.is_float else make.tensor(*shape)


@sample("fractional_max_pool2d")
def fractional_max_pool2d(make):
    yield call(make.tensor(2, 3, 7, 8), [2, 3], [4, 3], drawn(make, 2, 3, 2))
    yield call(make.tensor(2, 3, 7, 8), [2, 2], [1, 6], drawn(make, 2, 3, 2))
    yield call(make.tensor(3, 7, 8), [2, 2], [4, 5], drawn(make, 1, 3, 2))
    yield call(make.tensor(0, 3, 7, 8), [2, 2], [4, 5], drawn(make, 0, 3, 2))
    yield call(make.tensor(2, 3, 7, 8), [4, 4], [5, 5], drawn(make, 2, 3, 2), note="too many windows")
    yield call(make.tensor(2, 3, 7, 8), [2, 2], [4, 5], drawn(make, 1, 3, 2), note="too few samples")


@sample("fractional_max_pool3d")
def fractional_max_pool3d(make):
    yield call(make.tensor(2, 3, 5, 7, 6), [2, 3, 2], [3, 4, 2], drawn(make, 2, 3, 3))
    yield call(make.tensor(3, 5, 7, 6), [2, 2, 2], [3, 4, 1], drawn(make, 1, 3, 3))


@sample("fractional_max_pool2d_backward")
def fractional_max_pool2d_backward(make):
    yield call(make.tensor(2, 3, 4, 3), make.tensor(2, 3, 7, 8), [2, 3], [4, 3], make.index(56, (2, 3, 4, 3)))
    yield call(make.tensor(3, 4, 3), make.tensor(3, 7, 8), [2, 3], [4, 3], make.index(56, (3, 4, 3)))


@sample("fractional_max_pool3d_backward")
def fractional_max_pool3d_backward(make):
    yield call(make.tensor(2, 3, 2, 4, 3), make.tensor(2, 3, 5, 7, 8), [2, 2, 3], [2, 4, 3],
               make.index(280, (2, 3, 2, 4, 3)))
