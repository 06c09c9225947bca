"""Samples of pooling."""
import torch
from samples import call, sample


def inputs(make, spatial):
    yield make.tensor(2, 3, *(7, 6, 5)[:spatial])
    yield make.tensor(3, *(7, 6, 5)[:spatial])


def max_pool(make, spatial):
    if spatial == 3 and make.dtype in (torch.uint8, torch.int8):  # PyTorch counts positions in the dtype itself when channels are last
        yield call(make.tensor(2, 3, 7, 6, 5), [2] * 3, layouts=False)
        return
    for x in inputs(make, spatial):
        yield call(x, [2] * spatial)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial)
        yield call(x, [2] * spatial, [1] * spatial, [0] * spatial, [2] * spatial)
        yield call(x, [3] * spatial, [2] * spatial, [1] * spatial, [1] * spatial, True)
    yield call(make.tensor(1, 1, *(2,) * spatial), [3] * spatial, note="kernel too large")
    yield call(make.tensor(1, 1, *(4,) * spatial), [2] * spatial, [1] * spatial, [2] * spatial, note="padding too large")


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
        for window in ([[2] * spatial, [2] * spatial, [0] * spatial, [1] * spatial, False], [[3] * spatial, [2] * spatial, [1] * spatial, [1] * spatial, True]):
            y, index = forward(x, *window)
            yield call(make.tensor(y.shape), x, *window, index)


def avg_backward(make, spatial):
    forward = {2: torch.ops.aten.avg_pool2d, 3: torch.ops.aten.avg_pool3d}[spatial]
    if not make.is_float:
        return
    for x in inputs(make, spatial):
        for window in ([[2] * spatial, [2] * spatial, [0] * spatial, False, True, None], [[3] * spatial, [2] * spatial, [1] * spatial, True, False, None],
                       [[3] * spatial, [2] * spatial, [1] * spatial, False, True, 4]):
            yield call(make.tensor(forward(x, *window).shape), x, *window)


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
            yield call(make.tensor(y.shape), x, index, layouts=spatial == 2)  # in 3-d PyTorch reads strided indices as if they were dense


for _n in (2, 3):
    sample(f"adaptive_max_pool{_n}d_backward")(lambda make, n=_n: adaptive_max_backward(make, n))
