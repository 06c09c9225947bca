"""Samples of sorts, selections and scans. Where PyTorch leaves open which of equal elements it picks, calls say so
(`ties`)."""
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


def distinct_and_few(make):
    """(function, has it a derivative): of equal elements the one that was selected gets all of it."""
    return ((distinct, True), (few, False))


@sample("scan")
def scan(make):
    for shape in SHAPES:
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
        for values, smooth in distinct_and_few(make):
            yield call(values(make, *shape), ties=-1, smooth=smooth)
            yield call(values(make, *shape), 0, True, ties=0, smooth=smooth)
            yield call(values(make, *shape), 0, ties=0, smooth=smooth)
    yield call(make.tensor(3, 40, special=True), ties=-1, smooth=False)


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
    for values, smooth in distinct_and_few(make):
        yield call(values(make, 7), 3, ties=-1, smooth=smooth)
        yield call(values(make, 7), 7, 0, False, ties=0, smooth=smooth)
        yield call(values(make, 3, 40), 5, ties=-1, smooth=smooth)
        yield call(values(make, 40, 3), 5, 0, False, True, ties=0, smooth=smooth)
        yield call(values(make, 500), 4, ties=-1, smooth=smooth)
        yield call(values(make, 3, 4), 0, ties=-1, smooth=smooth)
        yield call(values(make, 0, 4), 2, ties=-1, smooth=smooth)
    yield call(make.tensor(()), 1)
    yield call(distinct(make, 4), 5, note="k too large")


@sample("kthvalue")
def kthvalue(make):
    for values, smooth in distinct_and_few(make):
        yield call(values(make, 7), 3, ties=-1, smooth=smooth)
        yield call(values(make, 3, 40), 5, 1, True, ties=1, smooth=smooth)
        yield call(values(make, 40, 3), 40, 0, ties=0, smooth=smooth)
    yield call(make.tensor(()), 1)
    yield call(distinct(make, 4), 5, note="k too large")


@sample("select_dim")
def select_dim(make):
    for shape in [(7,), (8,), (3, 4), (2, 3, 5)]:
        for dim in (0, -1):
            for values, smooth in distinct_and_few(make):
                yield call(values(make, *shape), dim, ties=dim, smooth=smooth)
                yield call(values(make, *shape), dim, True, ties=dim, smooth=smooth)
    yield call(make.tensor(()), 0)
    yield call(make.tensor(2, 0), 1, note="nothing to select from")


def ascending(make, *shape):
    x = make.tensor(shape)
    return x if make.dtype.is_complex else x.sort(-1).values


@sample("searchsorted")
def searchsorted(make):
    line, rows = ascending(make, 9), ascending(make, 2, 3, 7)
    for flags in ({}, {"right": True}, {"side": "right"}, {"side": "left", "out_int32": True}):
        yield call(line, make.tensor(5), **flags)
        yield call(line, make.tensor(2, 3), **flags)
        yield call(rows, make.tensor(2, 3, 4), **flags)
        yield call(line, line, **flags)
    yield call(line, make.tensor(()))
    yield call(line[:0], make.tensor(4))
    yield call(line, make.tensor(0, 3))
    shuffled = distinct(make, 8)
    if not make.dtype.is_complex:
        yield call(shuffled, make.tensor(5), sorter=torch.argsort(shuffled, stable=True))
    if make.is_float:
        yield call(line, make.tensor(8, special=True))
        yield call(torch.cat([line, torch.full((2,), float("nan"), dtype=make.dtype)]), make.tensor(8, special=True),
                   right=True)
        yield call(line, make.tensor(4, dtype=torch.float64))
        yield call(line, make.tensor((), dtype=torch.float64))
        yield call(line, make.tensor(4, dtype=torch.int64))
    yield call(rows, make.tensor(2, 2, 4), note="rows do not match")
    yield call(rows, make.tensor(()), note="one value for many rows")
    yield call(make.tensor(()), make.tensor(3), note="no sequence")
    yield call(line, make.tensor(3), right=True, side="left", note="right contradicts side")
    yield call(line, make.tensor(3), side="middle", note="unknown side")
    yield call(line, make.tensor(3), sorter=torch.arange(4), note="sorter too short")
    yield call(line, make.tensor(3), sorter=torch.full((9,), 9), note="sorter out of range")
    yield call(line, make.tensor(3), sorter=torch.arange(9, dtype=torch.int32), note="sorter is not int64")


@sample("searchsorted_scalar")
def searchsorted_scalar(make):
    line = ascending(make, 9)
    yield call(line, 2)
    yield call(line, 0.5, right=True)
    yield call(line, 1, out_int32=True, side="right")
    yield call(ascending(make, 2, 3), 2, note="one value for many rows")


@sample("bucketize")
def bucketize(make):
    line = ascending(make, 9)
    for flags in ({}, {"right": True}, {"out_int32": True}):
        yield call(make.tensor(5), line, **flags)
        yield call(make.tensor(2, 3), line, **flags)
        yield call(line, line, **flags)
    yield call(make.tensor(()), line)
    yield call(make.tensor(4), line[:0])
    if make.is_float:
        yield call(make.tensor(8, special=True), line)
        yield call(make.tensor(4, dtype=torch.int64), line)
    yield call(make.tensor(2, 3), ascending(make, 2, 3), note="boundaries are not 1-d")


@sample("bucketize_scalar")
def bucketize_scalar(make):
    yield call(2, ascending(make, 9))
    yield call(0.5, ascending(make, 9), right=True)
    yield call(1, ascending(make, 9), out_int32=True)


def few(make, *shape):
    """Small integers, so that many are equal."""
    return make.tensor(shape, dtype=torch.uint8, high=4).to(make.dtype)


@sample("unique2")
def unique2(make):
    for shape in [(9,), (3, 4), (2, 3, 4), (), (0,), (0, 2), (200,)]:
        for inverse in (False, True):
            for counts in (False, True):
                yield call(few(make, *shape), True, inverse, counts)
    yield call(few(make, 8))
    if make.is_float:
        yield call(make.tensor(20, special=True), True, True, True)


@sample("unique_dim")
def unique_dim(make):
    for shape in [(9,), (6, 1), (1, 6), (2, 7), (7, 2), (2, 3, 2)]:
        for dim in range(len(shape)):
            yield call(few(make, *shape), dim, True, True, True)
            yield call(few(make, *shape), dim - len(shape))
    yield call(few(make, 2, 0), 1)
    yield call(few(make, 2, 0), 0, note="slices without elements")
    yield call(few(make, 0, 0), 0, note="slices without elements")
    yield call(few(make), 0, note="no dimensions")
    yield call(few(make, 3), 1, note="dim out of range")


@sample("unique_consecutive")
def unique_consecutive(make):
    for shape in [(9,), (3, 4), (), (0,), (0, 2)]:
        for inverse in (False, True):
            for counts in (False, True):
                yield call(few(make, *shape), inverse, counts)
    for shape in [(9,), (6, 1), (1, 6), (2, 7), (7, 2), (2, 3, 2)]:
        for dim in range(len(shape)):
            yield call(few(make, *shape), True, True, dim)
    yield call(few(make, 9), False, False, -1)
    yield call(few(make, 2, 0), True, True, 0, note="slices without elements")
    yield call(few(make, 3), True, True, 1, note="dim out of range")
    if make.is_float:
        yield call(torch.tensor([1, float("nan"), float("nan"), 0.0, -0.0]).to(make.dtype), True, True)
