"""Samples of distances between rows."""
import torch
from samples import call, sample

SETS = [((4, 3), (5, 3)), ((2, 4, 3), (2, 5, 3)), ((2, 1, 4, 3), (3, 5, 3)), ((30, 20), (2, 20)), ((0, 3), (5, 3)),
        ((4, 0), (5, 0)), ((1, 1), (1, 1)), ((28, 3), (27, 3))]
ORDERS = (2.0, 1.0, 0.0, 3.5, 0.5, 1.5, float("inf"))


@sample("cdist")
def cdist(make):
    if make.dtype in (torch.float16, torch.bfloat16):
        yield call(make.tensor(28, 3), make.tensor(4, 3))
        yield call(make.tensor(4, 3), make.tensor(5, 3), note="half precision of few rows")
        return
    for a, b in SETS[:-1]:  # PyTorch's large Euclidean distances come from products, to fewer digits
        for p in ORDERS:
            yield call(make.tensor(a), make.tensor(b), p)
    yield call(make.tensor(4, 3), make.tensor(5, 3), 2.0, 2)
    x = make.tensor(4, 3)
    yield call(x, x, note="distances of zero")
    yield call(make.tensor(4, 3), make.tensor(5, 2), note="rows of other lengths")
    yield call(make.tensor(3), make.tensor(5, 3), note="a row")
    yield call(make.tensor(4, 3), make.tensor(5, 3), -1.0, note="negative order")
    yield call(make.tensor(4, 3), make.tensor(5, 3), 2.0, 3, note="no such mode")


@sample("_cdist_forward")
def _cdist_forward(make):
    if make.dtype in (torch.float16, torch.bfloat16):
        yield call(make.tensor(28, 3), make.tensor(4, 3), 2.0, None)
        yield call(make.tensor(4, 3), make.tensor(5, 3), 2.0, 1)
        yield call(make.tensor(4, 3), make.tensor(5, 3), 1.0, None, note="half precision of other orders")
        return
    for a, b in SETS:
        for p in ORDERS:
            yield call(make.tensor(a), make.tensor(b), p, 2)
    yield call(make.tensor(4, 3), make.tensor(5, 3), 2.0, None)


@sample("cdist_backward")
def cdist_backward(make):
    if make.dtype not in (torch.float32, torch.float64):
        yield call(make.tensor(4, 5), make.tensor(4, 3), make.tensor(5, 3), 2.0, make.tensor(4, 5))
        return
    for a, b in SETS[:2] + SETS[3:]:
        for p in ORDERS:
            x, y = make.tensor(a), make.tensor(b)
            d = torch.cdist(x, y, p)
            yield call(make.tensor(d.shape), x, y, p, d)
    x = make.tensor(4, 3)
    for p in ORDERS:
        yield call(make.tensor(4, 4), x, x, p, torch.cdist(x, x, p), note="distances of zero")


@sample("euclidean_dist")
def euclidean_dist(make):
    yield call(make.tensor(4, 3), make.tensor(5, 3))
    yield call(make.tensor(2, 4, 3), make.tensor(2, 5, 3))


@sample("pdist")
def pdist(make):  # without (0, n): PyTorch's derivative of that ends the process
    for shape in [(5, 3), (30, 20), (1, 3), (4, 0), (2, 1)] if make.dtype in (torch.float32,
            torch.float64) else [(5, 3)]:
        for p in ORDERS:
            yield call(make.tensor(shape), p)
    yield call(torch.ones(4, 3).to(make.dtype), note="distances of zero")
    yield call(make.tensor(3), note="a row")
    yield call(make.tensor(4, 3), -1.0, note="negative order")


@sample("_pdist_forward")
def _pdist_forward(make):
    for shape in [(5, 3), (30, 20), (1, 3), (4, 0), (2, 1)] if make.dtype in (torch.float32,
            torch.float64) else [(5, 3)]:
        for p in ORDERS:
            yield call(make.tensor(shape), p)


@sample("pdist_backward")
def pdist_backward(make):
    if make.dtype not in (torch.float32, torch.float64):
        yield call(make.tensor(6), make.tensor(4, 3), 2.0, make.tensor(6))
        return
    for shape in [(5, 3), (12, 20), (2, 1)]:
        for p in ORDERS:
            x = make.tensor(shape)
            d = torch.pdist(x, p)
            yield call(make.tensor(d.shape), x, p, d)
