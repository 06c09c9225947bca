"""Samples of the optimizers' fused steps. PyTorch walks strided tensors as if they were dense: contiguous ones only."""
import torch

from samples import call, sample

SIZES = [(3, 4), (5,), (), (0, 2), (40,)]
HALVES = (torch.float16, torch.bfloat16)


def lists(make, count, states, sizes=SIZES):
    """Parameters, gradients and non-negative states."""
    made = [[make.tensor(*size) for size in sizes] for _ in range(2)]
    return made + [[make.tensor(*size, low=0, high=3) for size in sizes] for _ in range(states)] + [
        [torch.tensor(float(k + 1)) for k in range(len(sizes))]] * count


def taken(make, choices):
    """PyTorch looks at found_inf before the dtype: what it then does not compute says nothing of the dtype."""
    return [options for options in choices if make.dtype.is_floating_point or "found_inf" not in options]


def one(value):
    return torch.tensor(value, dtype=torch.float32)


def adam(make, rate):
    plain = dict(lr=rate(0.1), beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    for options in taken(make, [
            {}, {"weight_decay": 0.1}, {"maximize": True, "beta1": 0.2}, {"grad_scale": one(4.0)},
            {"found_inf": one(1.0)}, {"found_inf": one(0.0), "grad_scale": one(2.0), "weight_decay": 0.3}]):
        params, grads, mean, square, _, steps = lists(make, 1, 3)
        yield call(params, grads, mean, square, [], steps, layouts=False, **{**plain, **options})
        yield call(*lists(make, 1, 3), layouts=False, **{**plain, **options, "amsgrad": True})


def sgd(make, rate):
    plain = dict(weight_decay=0.0, momentum=0.9, lr=rate(0.1), dampening=0.0, nesterov=False, maximize=False,
                 is_first_step=False)
    # PyTorch's loop over whole vectors of halves leaves the parameters as they are; its tail is right.
    sizes = SIZES[:-1] if make.dtype in HALVES else SIZES
    for options in taken(make, [
            {}, {"weight_decay": 0.1, "dampening": 0.5}, {"maximize": True}, {"nesterov": True},
            {"is_first_step": True}, {"is_first_step": True, "nesterov": True, "weight_decay": 0.1},
            {"grad_scale": one(4.0)}, {"found_inf": one(1.0)}]):
        yield call(*lists(make, 0, 1, sizes), layouts=False, **{**plain, **options})
    for options in ({}, {"weight_decay": 0.1}, {"maximize": True}):
        params, grads, _ = lists(make, 0, 1, sizes)
        yield call(params, grads, [], layouts=False, **{**plain, "momentum": 0.0, **options})


def adagrad(make, rate):
    plain = dict(lr=rate(0.1), lr_decay=0.0, weight_decay=0.0, eps=1e-10, maximize=False)
    for options in taken(make, [{}, {"lr_decay": 0.5}, {"weight_decay": 0.1}, {"maximize": True},
                                {"grad_scale": one(4.0)}, {"found_inf": one(1.0)}]):
        yield call(*lists(make, 1, 1), layouts=False, **{**plain, **options})


for name, made in (("adam", adam), ("sgd", sgd), ("adagrad", adagrad)):
    sample(f"fused_{name}")(lambda make, made=made: made(make, float))
    sample(f"fused_{name}_rate")(lambda make, made=made: made(make, one))
