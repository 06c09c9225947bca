"""Samples of softmax and normalisation."""
import torch
from samples import call, sample

SHAPES = [(), (7,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (3, 300)]


@sample("softmax")
def softmax(make):
    for shape in SHAPES:
        for dim in (0, -1):
            yield call(make.tensor(shape), dim, False)
    yield call(make.tensor(3, 4), 2, False, note="dim out of range")
    if make.is_float:
        x = make.tensor(3, 4)
        x[1] = float("-inf")
        x[2, 0] = float("-inf")
        yield call(x, 1, False)
        yield call(make.tensor(3, 4), 1, True, note="half to float")


@sample("softmax_int")
def softmax_int(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), -1)
    yield call(make.tensor(3, 4), 0, torch.float64)
    yield call(make.tensor(3, 4), 0, torch.float32)


@sample("softmax_backward")
def softmax_backward(make):
    for shape in [(), (7,), (3, 4), (2, 0)]:
        yield call(make.tensor(shape), make.tensor(shape), -1, make.dtype)
    yield call(make.tensor(3, 4), make.tensor(3, 4), 0, make.dtype)


def layer_params(make):
    yield make.tensor(2, 3, 4), [4], make.tensor(4), make.tensor(4)
    yield make.tensor(2, 3, 4), [3, 4], make.tensor(3, 4), make.tensor(3, 4)
    yield make.tensor(5), [5], None, None
    yield make.tensor(2, 300), [300], make.tensor(300), None
    yield make.tensor(0, 4), [4], make.tensor(4), make.tensor(4)
    yield make.tensor(2, 3), [4], None, None


@sample("layer_norm")
def layer_norm(make):
    for x, shape, weight, bias in layer_params(make):
        yield call(x, shape, weight, bias)
    yield call(make.tensor(2, 3), [3], eps=0.1)


@sample("native_layer_norm")
def native_layer_norm(make):
    for x, shape, weight, bias in layer_params(make):
        yield call(x, shape, weight, bias, 1e-5)
    if make.dtype in (torch.bfloat16, torch.float16):
        yield call(make.tensor(2, 3), [3], make.tensor(3, dtype=torch.float32), make.tensor(3, dtype=torch.float32),
                   1e-5)


def stats(x, over):
    wide = x.to(torch.float64)
    mean = wide.mean(over, keepdim=True)
    rstd = (wide.var(over, correction=0, keepdim=True) + 1e-5).rsqrt()
    return mean.to(x.dtype), rstd.to(x.dtype)


@sample("layer_norm_backward")
def layer_norm_backward(make):
    if not make.is_float:
        return
    for mask in ([True, True, True], [True, False, False]):
        x = make.tensor(2, 3, 4)
        yield call(make.tensor(2, 3, 4), x, [4], *stats(x, [2]), make.tensor(4), make.tensor(4), mask)
        yield call(make.tensor(2, 3, 4), x, [3, 4], *stats(x, [1, 2]), make.tensor(3, 4), make.tensor(3, 4), mask)


@sample("rms_norm")
def rms_norm(make):
    yield call(make.tensor(2, 3, 4), [4], make.tensor(4))
    yield call(make.tensor(2, 3, 4), [3, 4], None, 1e-3)
    yield call(make.tensor(2, 64), [64], make.tensor(64), 1e-6)


@sample("group_norm")
def group_norm(make):
    yield call(make.tensor(2, 4, 3, 3), 2, make.tensor(4), make.tensor(4))
    yield call(make.tensor(2, 6, 5), 3)
    yield call(make.tensor(3, 4), 4, make.tensor(4), make.tensor(4), 0.1)


@sample("native_group_norm")
def native_group_norm(make):
    yield call(make.tensor(2, 4, 3, 3), make.tensor(4), make.tensor(4), 2, 4, 9, 2, 1e-5)
    yield call(make.tensor(2, 6, 5), None, None, 2, 6, 5, 3, 1e-5)
    yield call(make.tensor(2, 6, 5), make.tensor(6), None, 2, 6, 5, 1, 1e-5)
    if make.dtype in (torch.bfloat16, torch.float16):
        yield call(make.tensor(2, 4, 3), make.tensor(4, dtype=torch.float32), make.tensor(4, dtype=torch.float32), 2,
                   4, 3, 2, 1e-5)


@sample("group_norm_backward")
def group_norm_backward(make):
    if make.dtype not in (torch.float32, torch.float64):
        return
    x = make.tensor(2, 4, 3)
    mean, rstd = stats(x.reshape(2, 2, 6), [2])
    for mask in ([True, True, True], [True, False, True]):
        yield call(make.tensor(2, 4, 3), x, mean.reshape(2, 2), rstd.reshape(2, 2), make.tensor(4), 2, 4, 3, 2, mask)


def positive(make, n):
    return make.tensor(n, low=0.5, high=2.0)


@sample("batch_norm")
def batch_norm(make):
    for shape in [(4, 3), (2, 3, 5), (2, 3, 4, 4), (2, 3, 2, 2, 2)]:
        x = make.tensor(shape)
        yield call(x, make.tensor(3), make.tensor(3), make.tensor(3), positive(make, 3), True, 0.1, 1e-5, True)
        yield call(x, make.tensor(3), None, make.tensor(3), positive(make, 3), False, 0.1, 1e-5, True)
        yield call(x, None, None, None, None, True, 0.1, 1e-5, True)


@sample("batch_norm_legit")
def batch_norm_legit(make):
    for shape in [(4, 3), (2, 3, 5), (2, 3, 4, 4)]:
        x = make.tensor(shape)
        yield call(x, make.tensor(3), make.tensor(3), make.tensor(3), positive(make, 3), True, 0.1, 1e-5)
        yield call(x, make.tensor(3), make.tensor(3), make.tensor(3), positive(make, 3), False, 0.1, 1e-5)


@sample("native_batch_norm")
def native_batch_norm(make):
    yield from batch_norm_legit(make)
    yield call(make.tensor(2, 3, 4), None, None, None, None, True, 0.1, 1e-5)
    yield call(make.tensor(2, 3, 4), None, None, make.tensor(3), positive(make, 3), True, 0.1, 1e-5)


@sample("batch_norm_update_stats")
def batch_norm_update_stats(make):
    for shape in [(2, 3), (2, 3, 4), (3, 2, 4, 5), (1, 3), (5, 1, 2)]:
        yield call(make.tensor(shape), make.tensor(shape[1]), positive(make, shape[1]), 0.1)
        yield call(make.tensor(shape), None, None, 0.1)
    yield call(make.tensor(4, 3), make.tensor(3), None, 0.5)
    yield call(make.tensor(4, 3), None, positive(make, 3), 0.0)
    yield call(make.tensor(2, 3, 4), make.tensor(3, dtype=torch.float32), make.tensor(3, dtype=torch.float32), 1.0)
    yield call(make.tensor(0, 3), None, None, 0.1, note="empty")
    yield call(make.tensor(3), None, None, 0.1, note="a vector")


@sample("batch_norm_no_stats")
def batch_norm_no_stats(make):
    yield call(make.tensor(2, 3, 4), make.tensor(3), make.tensor(3), True, 0.1, 1e-5)
    yield call(make.tensor(2, 3, 4, 4), None, None, True, 0.1, 1e-5)


@sample("batch_norm_no_training")
def batch_norm_no_training(make):
    yield call(make.tensor(2, 3, 4), make.tensor(3), make.tensor(3), make.tensor(3), positive(make, 3), 0.1, 1e-5)
    yield call(make.tensor(2, 3, 4, 4), None, None, make.tensor(3), positive(make, 3), 0.1, 1e-5)


@sample("batch_norm_backward")
def batch_norm_backward(make):
    if make.dtype not in (torch.float32, torch.float64):
        return
    x = make.tensor(4, 3, 2)
    mean, rstd = stats(x, [0, 2])
    for train in (True, False):
        yield call(make.tensor(4, 3, 2), x, make.tensor(3), make.tensor(3), positive(make, 3), mean.reshape(3),
                   rstd.reshape(3), train, 1e-5, [True, True, True])


@sample("instance_norm")
def instance_norm(make):
    yield call(make.tensor(2, 3, 5), make.tensor(3), make.tensor(3), None, None, True, 0.1, 1e-5, True)
    yield call(make.tensor(2, 3, 4, 4), None, None, None, None, True, 0.1, 1e-5, True)


@sample("norm_except_dim")
def norm_except_dim(make):
    for dim in (0, 1, 2, -1, -2):
        yield call(make.tensor(4, 3, 2), 2, dim)
    yield call(make.tensor(4, 3), 1, 1)
    yield call(make.tensor(4))
    yield call(make.tensor(4, 3), 2, 2, note="dim out of range")


@sample("weight_norm")
def weight_norm(make):
    for dim, lengths in [(0, (4, 1, 1)), (1, (1, 3, 1)), (2, (1, 1, 2)), (-1, ()), (-2, (1, 3, 1))]:
        yield call(make.tensor(4, 3, 2), make.tensor(lengths), dim)
    yield call(make.tensor(4, 3, 3, 3), make.tensor(4, 1, 1, 1))
    yield call(make.tensor(4), make.tensor(4))
    yield call(make.tensor(4, 3), make.tensor(4, 1), 3, note="dim out of range")


@sample("weight_norm_interface")
def weight_norm_interface(make):
    for shape, dim, lengths in [((4, 3, 2), 0, (4, 1, 1)), ((4, 3, 2), 2, (1, 1, 2)), ((5, 40), 0, (5, 1)),
                                ((5, 40), 1, (1, 40)), ((4,), 0, (4,))]:
        yield call(make.tensor(shape), make.tensor(lengths), dim)
    yield call(make.tensor(4, 3, 2), make.tensor(1, 3, 1), 1, note="dim in the middle")


@sample("weight_norm_backward")
def weight_norm_backward(make):
    kind = torch.float32 if make.dtype in (torch.float16, torch.bfloat16) else make.dtype
    for shape, dim, lengths in [((4, 3, 2), 0, (4, 1, 1)), ((4, 3, 2), 2, (1, 1, 2)), ((5, 40), 0, (5, 1)),
                                ((5, 40), 1, (1, 40))]:
        v = make.tensor(shape)
        norms = v.to(torch.float64).norm(dim=[d for d in range(len(shape)) if d != dim],
                                         keepdim=True).to(kind) if make.is_float else make.tensor(lengths)
        yield call(make.tensor(shape), v, make.tensor(lengths), norms, dim)
