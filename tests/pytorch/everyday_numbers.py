"""What programs do with numbers: overflow, promotion, NaN, complex numbers, FFT, windows, scans, linear algebra."""

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn


@program
def integers_overflow(c):
    def f(a, b, s):
        return (
            a * b,
            a + s,
            a << 1,
            -a,
            a // 3,
            a % 7,
            a.abs(),
            a.sum(),
            a.prod(),
            (a * 1000).to(torch.int8),
            a.pow(2),
            ~a,
            a.float() * s,
        )

    g = c(f)
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        high = torch.iinfo(dtype).max
        a = torch.tensor([high, high - 1, 1, torch.iinfo(dtype).min], dtype=dtype)
        yield g(a, a.flip(0), 100), g(a, a.flip(0), 3)


@program
def numbers_of_python_and_promotion(c):
    def f(x, i, s, b):
        return (
            x + s,
            i + s,
            i * 2.5,
            i / 2,
            x > s,
            x * b,
            i + b,
            i // 2,
            x // 2,
            True + i,
            s * 2,
            torch.where(x > 0, s, 0),
            torch.maximum(x, torch.tensor(s)),
            x**2,
            2**i,
            x % s,
        )

    g = c(f)
    for s in (2, 2.5, 3, -1.5, 4, True):
        for dtype in (torch.float32, torch.float16):
            yield g(torch.tensor([1.5, -2.5], dtype=dtype), torch.tensor([3, -4]), s, torch.tensor([True, False]))


@program
def nan_safe_gradients(c):
    def f(x, y):
        safe = torch.where(x > 0, x, torch.ones_like(x))
        a = torch.where(x > 0, safe.log(), torch.zeros_like(x))
        b = torch.where(y == 0, 0.0, (y.where(y != 0, 1.0)).sqrt().reciprocal())
        d = (x - x).norm() + torch.sqrt(x.clamp(min=0)).sum() * 0
        e = torch.nan_to_num(x / y, nan=0.0, posinf=1.0, neginf=-1.0)
        g = torch.xlogy(x.clamp(min=0), y.abs()) + torch.special.entr(x.sigmoid())
        return a, b, d, e, g, torch.atan2(x, y), x.abs().pow(0.5)

    def make(n):
        x, y = torch.randn(n), torch.rand(n)
        x[0] = 0
        y[-1] = 0
        return x.requires_grad_(), y.requires_grad_()

    yield from calls(c, f, make)


@program
def reductions_with_nan(c):
    def f(x):
        return (
            x.max(),
            x.min(),
            x.amax(-1),
            x.argmax(-1),
            x.sort(-1),
            x.median(),
            x.nanmedian(-1),
            x.nansum(),
            x.nanmean(0),
            x.logsumexp(-1),
            x.cummax(-1),
            x.topk(2),
            x.isnan().any(),
            x.quantile(0.5),
            x.mode(-1),
            x.unique(),
        )

    g = c(f)
    for bad in (None, float("nan"), float("inf"), -float("inf")):
        x = torch.randn(3, 4)
        if bad is not None:
            x[1, 2] = bad
        yield g(x)


@program(breaks=1)
def complex_modules(c):
    class ComplexLinear(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))

        def forward(self, x):
            y = torch.complex(x, x.flip(-1)) @ self.w
            return y.abs(), y.angle(), torch.view_as_real(y), y.real * y.imag, (y.conj() * y).real, y

    yield from calls(c, ComplexLinear(), lambda n: leaf(n, 3))


@program
def fft_shapes(c):
    def f(x):
        y = torch.fft.fft2(x)
        z = torch.fft.fftshift(y, dim=(-2, -1))
        k = torch.fft.fftfreq(x.shape[-1])
        mask = (k.abs() < 0.3).float()
        return (
            torch.fft.ifft2(torch.fft.ifftshift(z, (-2, -1)) * mask).real,
            y.abs().log1p(),
            torch.fft.rfft(x, norm="ortho").imag,
            torch.fft.hfft(y[..., :3]).sum(),
        )

    yield from calls(c, f, lambda n: leaf(2, n + 2, n + 3))


@program(breaks=2)
def sparse_and_embedding_bags(c):
    bag = nn.EmbeddingBag(7, 3, mode="mean", sparse=True)
    table = nn.Embedding(7, 3, sparse=True)
    f = c(lambda i, o: bag(i, o) + table(i[: len(o)]))
    opt = torch.optim.SparseAdam([*bag.parameters(), *table.parameters()], 0.1)
    for offsets in ([0, 2], [0, 1], [0, 3, 3]):
        opt.zero_grad()
        f(torch.randint(0, 7, (5,)), torch.tensor(offsets)).sum().backward()
        opt.step()
        yield bag.weight.detach(), table.weight.detach(), table.weight.grad.is_sparse


@program
def unfold_and_fold(c):
    def f(x):
        cols = F.unfold(x, 3, padding=1, stride=2)
        back = F.fold(cols, x.shape[-2:], 3, padding=1, stride=2)
        windows = x.unfold(2, 3, 2).unfold(3, 2, 1)
        return (
            back / F.fold(torch.ones_like(cols), x.shape[-2:], 3, padding=1, stride=2),
            windows.amax((-1, -2)),
            windows.sum(),
        )

    yield from calls(c, f, lambda n: leaf(n, 2, 6, 7))


@program
def transposed_convolutions(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (
                nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
                nn.ConvTranspose1d(4, 3, 4, dilation=2, bias=False),
            )
            self.d = nn.ConvTranspose3d(1, 2, 2, stride=2)

        def forward(self, x):
            y = self.a(x)
            z = self.a(x, output_size=(2 * x.shape[2], 2 * x.shape[3]))
            return y, z, self.b(y.flatten(2)), self.d(x[:, None, 0, None])

    yield from calls(c, M(), lambda n: leaf(n, 2, 3, 4))


@program(breaks=1)
def pooling_kinds(c):
    def f(x):
        a, i = F.max_pool2d(x, 2, return_indices=True)
        return (
            F.max_unpool2d(a, i, 2, output_size=x.shape[-2:]),
            F.adaptive_max_pool2d(x, (2, 3)),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.lp_pool2d(x.abs(), 2.0, 2),
            F.fractional_max_pool2d(x, 2, output_ratio=0.6),
            F.adaptive_avg_pool2d(x, (None, 2)),
            F.max_pool1d(x.flatten(2), 3, 2, dilation=2),
        )

    yield from calls(c, f, lambda n: leaf(n, 2, 6, 6))


@program
def pads_and_shifts(c):
    def f(x):
        return [F.pad(x, (1, 2, 0, 1), mode=m) for m in ("reflect", "replicate", "circular")] + [
            F.pad(x, (-1, 1)),
            F.pad(x, (1, 1), value=float("-inf")).amax(-1),
            x.roll(1, -1),
            x.narrow(2, 1, 2),
            F.pixel_unshuffle(x[..., :4, :4], 2),
            F.channel_shuffle(x, 2),
        ]

    yield from calls(c, f, lambda n: leaf(n, 2, 5, 4))


@program
def scans(c):
    def f(x, gate):
        a = torch.cumsum(x.log_softmax(-1), -1)
        b = torch.logcumsumexp(x, 1)
        d = torch.cumprod(gate.sigmoid(), 1)
        e = (x / d).cumsum(1) * d
        return (
            a,
            b,
            d,
            e,
            torch.cummax(x, 1).values,
            torch.diff(x, dim=1, prepend=x[:, :1]),
            torch.trapezoid(x, dim=1),
            torch.flip(torch.cumsum(torch.flip(x, [1]), 1), [1]),
        )

    yield from calls(c, f, lambda n: (leaf(n, 4), leaf(n, 4)))


@program
def einsum_kinds(c):
    def f(a, b, w):
        return (
            torch.einsum("bij,bjk->bik", a, b),
            torch.einsum("bij,bij->b", a, a),
            torch.einsum("...ij->...ji", a),
            torch.einsum("bii->b", a @ a.mT),
            torch.einsum("bij,jk,bkl->bil", a, w, b.mT),
            torch.einsum(a, [0, 1, 2], b, [0, 2, 3], [1, 3]),
            torch.tensordot(a, b, ([0, 2], [0, 1])),
            torch.einsum("i,j->ij", a[0, 0], b[0, 0]),
        )

    yield from calls(c, f, lambda n: (leaf(n, 3, 4), leaf(n, 4, 2), leaf(4, 2)))


@program
def linear_algebra_of_training(c):
    def f(x):
        a = x @ x.mT + torch.eye(x.shape[-2]) * 2
        low = torch.linalg.cholesky(a)
        y = torch.cholesky_solve(x, low)
        return (
            y,
            torch.linalg.solve(a, x),
            torch.logdet(a),
            torch.linalg.inv(a),
            torch.linalg.vector_norm(x, dim=(-1, -2)),
            torch.linalg.eigvalsh(a),
            torch.linalg.svdvals(x),
            torch.linalg.matrix_norm(a),
            torch.linalg.lstsq(a, x).solution,
            torch.linalg.pinv(a),
        )

    yield from calls(c, f, lambda n: leaf(n, 3, 2))
