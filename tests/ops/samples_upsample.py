"""Samples of resampling."""
import torch
from samples import call, sample

SOURCES = {1: (2, 3, 5), 2: (2, 3, 4, 5), 3: (1, 2, 3, 4, 2)}
SIZES = {1: [(10,), (7,), (3,), (5,), (1,), (11,)], 2: [(8, 10), (7, 3), (4, 5), (1, 1), (9, 13)],
         3: [(6, 8, 4), (5, 3, 3), (3, 4, 2), (1, 2, 1)]}
FACTORS = {1: [(2.0,), (1.3,), (0.7,), (2.19,)], 2: [(2.0, 2.0), (1.3, 0.6), (1.24, 2.19)],
           3: [(2.0, 2.0, 2.0), (1.5, 0.7, 1.2)]}


def spatial(make):
    return int(make.op._schema.name.removesuffix("_backward")[-2])


def cases(make, aligned):
    """(source shape, output size, [align_corners], scales ...)"""
    n = spatial(make)
    for flags in ([(False,), (True,)] if aligned else [()]):
        for size in SIZES[n]:
            yield SOURCES[n], list(size), *flags
        for factors in FACTORS[n]:
            yield SOURCES[n], [int(s * f) for s, f in zip(SOURCES[n][2:], factors)], *flags, *factors
        yield (0, *SOURCES[n][1:]), list(SIZES[n][0]), *flags
        if n > 1 and not aligned:
            yield (1, 5, 4, 3, 2)[:2] + (4, 3, 2)[3 - n:], [5, 3, 3][3 - n:], *flags, *(1.24,) * n
            yield (1, 2, 4, 3, 30)[:2] + (4, 3, 30)[3 - n:], [4, 3, 140][3 - n:], *flags, *(1.2, 1.3, 4.67)[3 - n:]
    if aligned and n == 2:
        yield (1, 7, 4, 3), [9, 2], *flags  # more channels than a vector of bytes takes at once
        yield (2, 5, 3, 1), [7, 1], *flags
        yield (1, 2, 8, 9), [5, 9], *flags, 0.7, 1.3
    yield (1, 1) + ((37,) * n if n < 3 else (11, 5, 9)), [53, 71, 17][:n], *flags


def picture(make, shape):
    return make.tensor(shape, low=0, high=256) if make.dtype == torch.uint8 else make.tensor(shape)


def forward(make, aligned):
    for shape, size, *rest in cases(make, aligned):
        yield call(picture(make, shape), size, *rest)
    n, flags = spatial(make), [False] if aligned else []
    yield call(make.tensor(SOURCES[n]), [0] * n, *flags, note="empty result")
    yield call(make.tensor(SOURCES[n][1:]), [4] * n, *flags, note="no batch")
    yield call(make.tensor(2, 0, *SOURCES[n][2:]), [4] * n, *flags, note="no channels")


def backward(make, aligned):
    for shape, size, *rest in cases(make, aligned):
        yield call(make.tensor(*shape[:2], *size), size, list(shape), *rest)
    n, flags = spatial(make), [False] if aligned else []
    yield call(make.tensor(*SOURCES[n]), [4] * n, [2, 3] + [3] * n, *flags, note="sizes differ")


def vec(make, aligned):
    n = spatial(make)
    for flags in ([[False], [True]] if aligned else [[]]):
        yield call(picture(make, SOURCES[n]), list(SIZES[n][1]), *flags, None)
        for factors in FACTORS[n]:
            yield call(picture(make, SOURCES[n]), None, *flags, list(factors))
        yield call(make.tensor(SOURCES[n]), None, *flags, None, note="neither")
        yield call(make.tensor(SOURCES[n]), list(SIZES[n][1]), *flags, list(FACTORS[n][0]), note="both")


for _name, _aligned in (("upsample_nearest", False), ("upsample_linear", True)):
    sample(_name)(lambda make, aligned=_aligned: forward(make, aligned))
    sample(f"{_name}_backward")(lambda make, aligned=_aligned: backward(make, aligned))
    sample(f"{_name}_vec")(lambda make, aligned=_aligned: vec(make, aligned))


# With antialiasing: shrinking, growing, unchanged; bytes are rounded after each pass.
SMOOTH = [((2, 3, 8, 9), [3, 4]), ((2, 3, 4, 5), [7, 6]), ((1, 2, 8, 5), [8, 2]), ((1, 1, 20, 20), [3, 3]),
          ((0, 2, 4, 4), [2, 2]), ((1, 1, 1, 1), [2, 3]),
          ((1, 6, 7, 5), [4, 9]), ((2, 5, 6, 1), [4, 1])]


@sample("upsample_smooth")
def upsample_smooth(make):
    for shape, size in SMOOTH:
        for aligned in (False, True):
            yield call(picture(make, shape), size, aligned)
    yield call(picture(make, (2, 3, 8, 9)), [4, 4], False, 0.5, 0.5)
    yield call(picture(make, (2, 3, 8)), [4, 4], False, note="three dimensions")


@sample("upsample_smooth_backward")
def upsample_smooth_backward(make):
    for shape, size in SMOOTH:
        for aligned in (False, True):
            yield call(make.tensor(*shape[:2], *size), size, list(shape), aligned)


@sample("upsample_smooth_vec")
def upsample_smooth_vec(make):
    yield call(picture(make, (2, 3, 8, 9)), [3, 4], False, None)
    yield call(picture(make, (2, 3, 8, 9)), None, False, [0.5, 0.7])
