"""Samples of Fourier transforms."""
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
        yield call(make.tensor(3, 0, 4), dims, 2, False, note="no numbers" if 1 in dims else "")
    yield call(make.tensor(40, 20), [0], 0, True)


@sample("fft_r2c")
def fft_r2c(make):
    for n in LENGTHS:
        yield call(make.tensor(n), [0], 0, True)
        yield call(make.tensor(3, n), [1], 2, False)
    for dims in ([0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]):
        yield call(make.tensor(2, 3, 4), dims, 1, True)
        yield call(make.tensor(2, 3, 4), dims, 0, False)
        yield call(make.tensor(3, 0, 4), dims, 2, True, note="no numbers" if 1 in dims else "")


@sample("fft_c2r")
def fft_c2r(make):
    for n in LENGTHS:
        yield call(make.tensor(n // 2 + 1), [0], 0, n)
        yield call(make.tensor(3, n // 2 + 1), [1], 2, n)
    for dims in ([0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]):
        last = make.tensor(2, 3, 4).shape[dims[-1]]
        yield call(make.tensor(2, 3, 4), dims, 1, 2 * (last - 1))
        yield call(make.tensor(2, 3, 4), dims, 0, 2 * last - 1)
        yield call(make.tensor(3, 0, 4), dims, 1, 5, note="no numbers" if 1 in dims else "")


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
    yield call(make.tensor(0, 6), note="no batch")
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


@sample("window")
def window(make):
    kinds = [str(a.type) for a in make.schema.arguments]
    rest = [0.4, 0.6][:kinds.count("float")]
    for n in (0, 1, 2, 5, 8, 33):
        for periodic in ((False,), (True,)) if "bool" in kinds else ((),):
            yield call(n, *periodic, *rest)
            yield call(n, *periodic, *rest, dtype=make.dtype)
    yield call(-1, *((True,) if "bool" in kinds else ()), *rest, note="negative")


def stft_calls(make):
    """(signal, n_fft, hop, win, window)"""
    yield make.tensor(20), 8, None, None, None
    yield make.tensor(3, 20), 8, 3, None, make.tensor(8)
    yield make.tensor(3, 20), 7, 2, 5, make.tensor(5)
    yield make.tensor(2, 17), 6, 6, 4, None


@sample("stft")
def stft(make):
    for args in stft_calls(make):
        for normalized in (False, True):
            yield call(*args, normalized, None, True)
        yield call(*args, False, False, True)
        yield call(*args, False, None, False)
    yield call(make.tensor(5), 8, None, None, None, False, None, True, note="too short")
    yield call(make.tensor(20), 8, None, None, None, note="real or complex result?")
    yield call(make.tensor(20), 8, 0, None, None, False, None, True, note="no hop")
    yield call(make.tensor(20), 8, None, 9, None, False, None, True, note="window too long")
    yield call(make.tensor(20), 8, None, None, make.tensor(7), False, None, True, note="another window length")
    yield call(make.tensor(2, 3, 20), 8, None, None, None, False, None, True, note="three dims")


@sample("stft_center")
def stft_center(make):
    for args in stft_calls(make):
        for mode in ("reflect", "constant", "replicate"):
            yield call(*args, True, mode, False, None, True)
        yield call(*args, False, "reflect", False, None, True)
    yield call(make.tensor(20), 8, None, None, None, True, "reflect", False, None, False)


@sample("istft")
def istft(make):
    for n_fft, hop, win, frames in [(8, None, None, 5), (8, 3, None, 6), (7, 2, 5, 6), (6, 2, 6, 1)]:
        window = make.tensor(win or n_fft, low=0.5, high=1.5, dtype=make.dtype.to_real() if make.dtype.is_complex
                             else None)
        yield call(make.tensor(n_fft // 2 + 1, frames), n_fft, hop, win, window)
        yield call(make.tensor(2, n_fft // 2 + 1, frames), n_fft, hop, win, window, True, True)
        yield call(make.tensor(2, n_fft, frames), n_fft, hop, win, window, True, False, False)
        yield call(make.tensor(2, n_fft, frames), n_fft, hop, win, window, False, False, False, None, True)
        yield call(make.tensor(2, n_fft // 2 + 1, frames), n_fft, hop, win, window, False, False, None, 6)
        yield call(make.tensor(2, n_fft // 2 + 1, frames), n_fft, hop, win, window, True, False, None, 100)
    yield call(make.tensor(5, 6), 8)
    yield call(make.tensor(4, 6), 8, note="another number of frequencies")
    yield call(make.tensor(5, 6), 8, 9, note="gaps")
    yield call(make.tensor(5, 6), 8, 2, None, torch.zeros(8), note="a window of zeros")
    yield call(make.tensor(1, 1, 5, 6), 8, note="four dims")
