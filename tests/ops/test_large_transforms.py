"""Fourier transforms of more numbers than the samples have: those of f32 are computed in f32 then, one line or several
side by side, as pairs of real numbers, as matrices, or as convolutions. Against PyTorch's in f64."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the answers are PyTorch's")

import cresset  # noqa: E402
import harness  # noqa: E402

LENGTHS = (3, 8, 72, 250, 1000, 1021, 1024, 3003)
MANY = 1 << 12
LIMIT = {torch.float32: 1e-6, torch.float64: 1e-13}
aten = torch.ops.aten


def numbers(*shape, dtype, is_complex=False):
    made = torch.randn(*shape, dtype=torch.complex128 if is_complex else torch.float64,
                       generator=torch.Generator().manual_seed(sum(shape)))
    return made.to(dtype.to_complex() if is_complex else dtype)


def check(name, x, *args):
    found = harness.theirs(getattr(cresset.ops.aten, name)(harness.ours(x), *args))
    exact = getattr(aten, name)(x.to(torch.complex128 if x.is_complex() else torch.float64), *args)
    assert found.shape == exact.shape and found.dtype == getattr(aten, name)(x, *args).dtype
    assert (found - exact).abs().max() <= LIMIT[x.real.dtype] * exact.abs().max()


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("n", LENGTHS)
def test_lines(n, dtype):
    lines = MANY // n + 3
    for forward in (True, False):
        check("_fft_c2c", numbers(lines, n, dtype=dtype, is_complex=True), [1], 1, forward)
        check("_fft_c2c", numbers(n, lines, dtype=dtype, is_complex=True), [0], 2, forward)
    for one_sided in (True, False):
        check("_fft_r2c", numbers(lines, n, dtype=dtype), [1], 0, one_sided)
        check("_fft_r2c", numbers(n, lines, dtype=dtype), [0], 0, one_sided)
    check("_fft_c2r", numbers(2 * lines, n // 2 + 1, dtype=dtype, is_complex=True), [1], 2, n)
    check("_fft_c2r", numbers(n // 2 + 1, 2 * lines, dtype=dtype, is_complex=True), [0], 0, n)


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("shape", ((40, 24, 18), (5, 7, 331)))
def test_dimensions(shape, dtype):
    for dims in ([0, 1, 2], [2, 0]):
        for turned in (False, True):
            order = (2, 0, 1) if turned else (0, 1, 2)
            check("_fft_c2c", numbers(*shape, dtype=dtype, is_complex=True).permute(order), dims, 0, True)
            check("_fft_r2c", numbers(*shape, dtype=dtype).permute(order), dims, 2, True)
            half = numbers(*shape, dtype=dtype, is_complex=True).permute(order)
            check("_fft_c2r", half, dims, 1, 2 * half.shape[dims[-1]] - 2)
            check("_fft_c2r", half, dims, 1, 2 * half.shape[dims[-1]] - 1)
    check("_fft_c2c", numbers(*shape, dtype=dtype, is_complex=True)[:, ::2, 1::3], [1, 2], 0, False)
    check("_fft_r2c", numbers(*shape, dtype=dtype)[::2, :, ::2].expand(3, -1, -1, -1), [3, 1], 0, True)


@pytest.mark.parametrize("n", (1 << 16, 3 << 15, 65537, 100003))
def test_one_long_line(n):
    check("_fft_c2c", numbers(n, dtype=torch.float32, is_complex=True), [0], 0, True)
    check("_fft_r2c", numbers(n, dtype=torch.float32), [0], 0, True)
    check("_fft_c2r", numbers(n // 2 + 1, dtype=torch.float32, is_complex=True), [0], 0, n)
    check("_fft_c2c", numbers(n, dtype=torch.float64, is_complex=True), [0], 0, False)


def test_numbers_that_are_not_finite_spoil_their_line_alone():
    x = numbers(20, 1024, dtype=torch.float32, is_complex=True)
    x[3, 5], x[7, 1000] = float("nan"), float("inf")
    found = harness.theirs(cresset.ops.aten._fft_c2c(harness.ours(x), [1], 0, True))
    assert (~found.real.isfinite() | ~found.imag.isfinite()).all(1).nonzero().flatten().tolist() == [3, 7]
    assert found.isfinite().all(1).sum() == 18


@pytest.mark.parametrize("n", (4, 8, 12, 16))
def test_a_quarter_of_a_mirrored_signal_is_a_positive_zero(n):
    half = torch.randint(-9, 9, (n // 2 + 1,)).double()
    mirrored = torch.cat([half, half[1:-1].flip(0)])
    expected, answer = torch.fft.rfft(mirrored), harness.theirs(cresset.fft.rfft(harness.ours(mirrored)))
    for x in (expected, answer):
        assert x.imag[n // 4] == 0 and not torch.signbit(x.imag[n // 4])
