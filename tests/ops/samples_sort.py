"""Samples of sorts, selections and scans. Where PyTorch leaves open which of equal elements it picks, elements differ."""
import torch
from samples import call, sample

SHAPES = [(), (7,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (3, 300)]


def distinct(make, *shape):
    n = 1
    for size in shape:
        n *= size
    values = torch.randperm(n, generator=make.generator)
    if make.dtype == torch.bool:
        return make.tensor(*shape)
    return (values - (n // 2 if make.dtype != torch.uint8 else 0)).to(make.dtype).reshape(shape)


@sample("scan")
def scan(make):
    for shape in SHAPES if make.is_number else [(7,), (2, 3)]:
        for dim in (0, -1):
            yield call(make.tensor(shape, special=shape == (3, 300)), dim)
    yield call(make.tensor(2, 3), 2, note="dim out of range")
    if make.schema.arguments[-1].name == "dtype":
        yield call(make.tensor(2, 3), 1, dtype=torch.float64)
        yield call(make.tensor(2, 3), 1, dtype=torch.int32)


@sample("cumprod_backward")
def cumprod_backward(make):
    if make.dtype == torch.float64:
        x = make.tensor(3, 4)
        yield call(make.tensor(3, 4), x, 1, torch.cumprod(x, 1))
        x = x.clone()
        x[1, 2] = 0
        yield call(make.tensor(3, 4), x, 1, torch.cumprod(x, 1))
        yield call(make.tensor(3, 4), x, 0, torch.cumprod(x, 0))


@sample("cummaxmin_backward")
def cummaxmin_backward(make):
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.index(4, (3, 4)), 1)


@sample("sort")
def sort(make):
    for shape in SHAPES:
        shape = (3, 40) if shape == (3, 300) else shape
        yield call(distinct(make, *shape))
        yield call(distinct(make, *shape), 0, True)
        yield call(distinct(make, *shape), 0)


@sample("msort")
def msort(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))


@sample("sort_stable")
def sort_stable(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), stable=True)
        yield call(make.tensor(shape), stable=True, dim=0, descending=True)


@sample("topk")
def topk(make):
    yield call(distinct(make, 7), 3)
    yield call(distinct(make, 7), 7, 0, False)
    yield call(distinct(make, 3, 40), 5)
    yield call(distinct(make, 40, 3), 5, 0, False, True)
    yield call(distinct(make, 3, 4), 0)
    yield call(distinct(make, 0, 4), 2)
    yield call(make.tensor(()), 1)
    yield call(distinct(make, 4), 5, note="k too large")


@sample("kthvalue")
def kthvalue(make):
    yield call(distinct(make, 7), 3)
    yield call(distinct(make, 3, 40), 5, 1, True)
    yield call(distinct(make, 40, 3), 40, 0)
    yield call(make.tensor(()), 1)
    yield call(distinct(make, 4), 5, note="k too large")


@sample("select_dim")
def select_dim(make):
    for shape in [(7,), (8,), (3, 4), (2, 3, 5)]:
        for dim in (0, -1):
            yield call(distinct(make, *shape), dim)
            yield call(distinct(make, *shape), dim, True)
    yield call(make.tensor(()), 0)
    yield call(make.tensor(2, 0), 1, note="nothing to select from")
