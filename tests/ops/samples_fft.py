"""Samples of Fourier transforms. Empty batches are left out: PyTorch's library refuses them."""
import torch
from samples import call, sample

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 30, 49, 64, 67, 100, 128, 134, 360, 1000, 1024]


@sample("fft_c2c")
def fft_c2c(make):
    for n in LENGTHS:
        yield call(make.tensor(n), [0], 0, True)
        yield call(make.tensor(3, n), [1], 2, False)
    for dims in ([0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2], []):
        yield call(make.tensor(2, 3, 4), dims, 1, True)
        yield call(make.tensor(2, 3, 4), dims, 2, False)
    yield call(make.tensor(40, 20), [0], 0, True)


@sample("fft_r2c")
def fft_r2c(make):
    for n in LENGTHS:
        yield call(make.tensor(n), [0], 0, True)
        yield call(make.tensor(3, n), [1], 2, False)
    for dims in ([0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]):
        yield call(make.tensor(2, 3, 4), dims, 1, True)
        yield call(make.tensor(2, 3, 4), dims, 0, False)


@sample("fft_c2r")
def fft_c2r(make):
    for n in LENGTHS:
        yield call(make.tensor(n // 2 + 1), [0], 0, n)
        yield call(make.tensor(3, n // 2 + 1), [1], 2, n)
    for dims in ([0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]):
        last = make.tensor(2, 3, 4).shape[dims[-1]]
        yield call(make.tensor(2, 3, 4), dims, 1, 2 * (last - 1))
        yield call(make.tensor(2, 3, 4), dims, 0, 2 * last - 1)


@sample("fft_one")
def fft_one(make):
    for norm in (None, "backward", "forward", "ortho"):
        yield call(make.tensor(3, 6), None, -1, norm)
        yield call(make.tensor(5, 3), None, 0, norm)
    for n in (1, 2, 5, 6, 9):
        yield call(make.tensor(3, 6), n)
        yield call(make.tensor(6, 3, 2), n, 0)
    yield call(make.tensor(7))
    yield call(make.tensor(()), note="no dims")
    yield call(make.tensor(3, 0), note="no numbers")
    yield call(make.tensor(3, 6), 0, note="no numbers")
    yield call(make.tensor(3, 6), None, 2, note="dim out of range")
    yield call(make.tensor(3, 6), None, -1, "orthogonal", note="no such norm")


@sample("fft_many")
def fft_many(make):
    for norm in (None, "backward", "forward", "ortho"):
        yield call(make.tensor(3, 6), None, [0, 1], norm)
        yield call(make.tensor(5, 3, 4), None, [2, 0], norm)
    for sizes, dims in (([4, 8], [0, 1]), ([2, 3], [1, 2]), ([5], [1]), ([-1, 4], [0, 2]), ([3, -1], [2, 1])):
        yield call(make.tensor(3, 6, 4), sizes, dims)
    yield call(make.tensor(3, 6))
    yield call(make.tensor(2, 3, 4))
    yield call(make.tensor(2, 3, 4), None, [1])
    yield call(make.tensor(2, 3, 4), [4, 4], [0, 0], note="dim twice")
    yield call(make.tensor(2, 3, 4), [4], [0, 1], note="too few sizes")
    yield call(make.tensor(2, 3, 4), [0, 4], [0, 1], note="no numbers")
    if make.dtype not in (torch.float16, torch.bfloat16):  # refused for their dtype, or for the dims first
        yield call(make.tensor(4), [4, 4], [0, 1], note="dim out of range")


@sample("fft_shift")
def fft_shift(make):
    yield call(make.tensor(7))
    yield call(make.tensor(3, 4))
    yield call(make.tensor(3, 4, 5), [1])
    yield call(make.tensor(3, 4, 5), [0, -1])
    yield call(make.tensor(0, 3))


@sample("fft_freq")
def fft_freq(make):
    for n in (0, 1, 2, 5, 8):
        yield call(n)
        yield call(n, 0.25, dtype=make.dtype)
