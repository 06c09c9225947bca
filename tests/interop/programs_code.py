"""Programs that are written functions: indexing, sorting, reductions, linear algebra, transforms, random numbers,
views, mutation, dtypes."""
import torch
from torch import nn, randint, randn

from programs import program


@program(lambda: (randn(3, 4), randn(4)))
def arithmetic(self, x, y):
    return ((x + y) * 2 - x / 3 + (x // 0.7) - x % 0.9 + y**2 - (x.abs() + 0.1) ** 0.5 + 2**y
            - (1 - x).reciprocal() + torch.addcmul(x, y, y, value=0.5) + torch.lerp(x, y.expand(3, 4), 0.3))


@program(lambda: (randn(5, 6) * 2,))
def unary(self, x):
    p = x.abs() + 0.1
    return (x.exp() + x.sin() * x.cos() - x.tanh() + p.log() - p.sqrt() + p.rsqrt() + x.erf() + x.floor() - x.ceil()
            + x.round() + x.trunc() + x.frac() + x.sign() + x.neg()
            + p.log1p() + x.expm1() + x.atan() + (x / 9).asin() + (x / 9).acos() + x.sinh() / 9 + x.cosh() / 9
            + x.asinh() + (x / 9).atanh() + p.lgamma() + p.digamma() + x.square()
            + x.sigmoid() + x.logit(0.1) + p.log2() + p.log10() + x.exp2() + x.erfc() + x.sinc() + torch.special.i0(x))


@program(lambda: (randn(4, 5), randn(4, 5)))
def comparisons(self, x, y):
    return (torch.where((x > y) | (x <= -1) & ~(y == 0), torch.maximum(x, y), torch.minimum(x, -y)), (x >= 0.5).sum(),
            torch.isclose(x, y, atol=0.5).any(),
            torch.isnan(x / 0).all(), x.clamp(-0.5, 0.7))


@program(lambda: (randint(-9, 9, (4, 5)), randint(1, 5, (4, 5))))
def integers(self, a, b):
    return (a // b, a % b, a * b - 3, a / b, a & b | 3, a ^ b, a << 2, a >> 1, ~a, a.float() / 2,
            torch.bitwise_left_shift(b, 2), torch.gcd(a, b), a.remainder(b),
            torch.div(a, b, rounding_mode="trunc"))


@program(lambda: (randn(3, 4, 5),))
def reductions(self, x):
    return (x.sum(), x.mean((0, 2)), x.amax(1, keepdim=True), x.amin(0), x.prod(-1), x.std(1),
            x.var((1, 2), correction=0), x.norm(dim=-1), x.norm(3, dim=1), x.logsumexp(-1),
            x.argmax(1), x.argmin(), x.any(), x.max(1).indices, x.median(dim=1).values, *x.aminmax(dim=0), x.nansum(0),
            torch.var_mean(x, dim=2), x.count_nonzero(1))


@program(lambda: (randn(4, 6),))
def cumulative(self, x):
    return x.cumsum(1), x.cumprod(0), *x.cummax(1), x.logcumsumexp(0), x.diff(dim=1), x.cumsum(0,
            dtype=torch.float64), torch.trapezoid(x, dim=1)


@program(lambda: (randn(4, 9),))
def sorting(self, x):
    return (*x.sort(1), *x.sort(0, descending=True), *x.topk(3), *x.topk(2, dim=0, largest=False), x.argsort(1),
            *x.kthvalue(2), x.mode(1).values,
            torch.searchsorted(x.sort(1).values, x[:, :3].contiguous()))


@program(lambda: (randn(5, 6), randint(0, 5, (3, 6)), randn(3, 6)))
def gather_scatter(self, x, index, src):
    return (x.gather(0, index), x.scatter(0, index, src), x.scatter_add(0, index, src),
            x.scatter_reduce(0, index, src, "amax"), x.scatter(0, index, 1.5),
            x.index_select(1, index[0] % 6), x.take_along_dim(index, 0), x.take(index),
            torch.zeros(5, 6).index_add(0, index[:, 0], src, alpha=2))


@program(lambda: (randn(5, 6), torch.tensor([0, 3, 3]), torch.tensor([1, 2, 5]), randn(3)))
def index_put(self, x, rows, columns, values):
    y = x.clone()
    y[rows, columns] = values
    y[:, 2] += 1
    y[1] = 0
    return (y, torch.index_put(x, (rows, columns), values, accumulate=True), x[rows], x[rows[:, None], columns],
            x[:, columns][..., 1],
            x[torch.tensor([True, False, True, True, False])])


@program(lambda: (randn(4, 5, 6),))
def slicing(self, x):
    return (x[1:3, ::2], x[..., -1], x[:, None, 0], x.narrow(1, 1, 3), x.select(0, 2), x[-2:, 1:, 3], x.unbind(1)[2],
            x.tensor_split(2, dim=2)[1],
            x.index_fill(0, torch.tensor([1]), 2.0))


@program(lambda: (randn(4, 6), randn(2, 6)))
def joins(self, x, y):
    a, b, c = x.split([1, 2, 1])
    return (torch.cat([x, y]), torch.stack([y, y + 1], -1), torch.hstack([a, b.reshape(1, -1)]), torch.vstack([c, y]),
            torch.cat(x.chunk(4, 1)[::-1], 1),
            torch.block_diag(a, y), torch.meshgrid(a[0], y[0], indexing="ij"))


@program(lambda: (randn(2, 3, 4),))
def shapes(self, x):
    return (x.permute(2, 0, 1), x.transpose(0, 2).contiguous(), x.reshape(6, -1), x.flatten(1),
            x.squeeze().unsqueeze(0), x.expand(5, 2, 3, 4), x.repeat(2, 1, 1), x.flip(0, 2),
            x.roll((1, 2), (0, 2)), x.movedim(0, -1), x.rot90(1, (1, 2)), x.tile(2), x.repeat_interleave(2, 1),
            x.view(3, 8), x.swapaxes(0, 1), x.unfold(2, 2, 1),
            x.as_strided((2, 2), (1, 3)))


@program(lambda: (randn(3, 4, 5), randn(3, 5, 2), randn(4, 4), randn(5)))
def products(self, a, b, c, v):
    return (a @ b, torch.einsum("bij,bjk->bik", a, b), torch.einsum("ij,bjk,k->bi", c, a, v), torch.bmm(a, b),
            torch.baddbmm(torch.ones(3, 4, 2), a, b, beta=0.5), c @ c.T, a @ v,
            torch.addmm(c, c, c, alpha=2), torch.outer(v, v), torch.dot(v, v), torch.mv(a[0], v),
            torch.tensordot(a, b, ([2], [1])), torch.kron(c, c[:2]),
            torch.einsum("ii->i", c),
            torch.addr(a[0], c[0], v), torch.linalg.multi_dot([c, c, a[0]]))


@program(lambda: (randn(4, 4), randn(4, 2)))
def linear_algebra(self, a, b):
    s = a @ a.T + 4 * torch.eye(4)
    return (torch.linalg.norm(a), torch.linalg.vector_norm(a, 3, dim=1), torch.tril(a), torch.triu(a, 1),
            torch.diagonal(a, 1), torch.diag_embed(b), a.trace(),
            torch.linalg.cross(a[:, :3], a[:, 1:]), s.diag())


@program(lambda: (randn(4, 4), randn(4, 2)))
def linear_systems(self, a, b):
    s = a @ a.T + 4 * torch.eye(4)
    return (torch.linalg.cholesky(s), torch.linalg.solve(s, b), torch.linalg.inv(s), torch.linalg.det(s),
            torch.linalg.matrix_power(a, 3),
            torch.linalg.solve_triangular(a.triu() + 2 * torch.eye(4), b, upper=True))


@program(lambda: (randn(3, 8), torch.complex(randn(4, 6), randn(4, 6))))
def transforms(self, x, z):
    return torch.fft.rfft(x), torch.fft.irfft(torch.fft.rfft(x)), torch.fft.fft2(z), torch.fft.ifft(z,
            dim=0), torch.fft.fftshift(x), torch.fft.fftfreq(8)


@program(lambda: (torch.complex(randn(3, 4), randn(3, 4)), randn(3, 4)))
def complex_numbers(self, z, x):
    return (z * z.conj(), z.abs(), z.angle(), z.real + z.imag, torch.view_as_real(z),
            torch.view_as_complex(torch.stack([x, x], -1)), z @ z.T, z.exp(),
            torch.polar(x.abs(), x), z + 2j * x, z.mH @ z)


@program(lambda: (torch.tensor([3, 1, 2, 3, 1, 7]),))
def unique(self, x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values * 2, inverse, counts.float() / 6


@program(lambda: (randint(0, 5, (4, 3)), torch.tensor([0, 2, 2, 5])))
def one_hot_and_counts(self, x, y):
    return nn.functional.one_hot(x, 5), torch.bincount(y, minlength=7), torch.bucketize(x,
            torch.tensor([1, 3])), torch.histc(x.float(), 4, 0, 4)


@program(lambda: (randn(3, 4),))
def factories(self, x):
    return (torch.arange(3).float() + x.T, torch.zeros_like(x) + torch.ones(4), torch.full((2,), 3.5) * x[0, 0],
            torch.eye(4) @ x.T, torch.linspace(0, 1, 4) * x,
            x.new_full((3, 4), 2) - x,
            torch.empty_like(x).fill_(1) + x, torch.tril_indices(3, 3), torch.logspace(0, 1, 4) + x,
            torch.arange(1, 9, 3), torch.hann_window(6),
            torch.full_like(x, 3, dtype=torch.int32))


@program(lambda: (randn(3, 4),), seed=True)
def random_numbers(self, x):
    return (torch.rand(3, 4) + x, torch.randn(3, 20), torch.randint(0, 9, (4,)), torch.randperm(7), torch.rand_like(x),
            torch.randn_like(x),
            torch.bernoulli(x.sigmoid()), torch.normal(0.5, 2.0, (2, 3)),
            nn.functional.dropout(x, 0.3), torch.randint_like(x, 3, 10))


@program(lambda: (torch.rand(3, 6) + 0.1,), seed=True)
def random_draws(self, p):
    return torch.multinomial(p, 2), torch.empty(3, 4).uniform_(-1, 1), torch.empty(5).normal_(1,
            2), torch.empty(4).exponential_(2.0), torch.poisson(p * 5)


@program(lambda: (randn(3, 4),), more=lambda: [(randn(3, 4),)])
def input_mutation(self, x):
    x.add_(1)
    x[0].mul_(2)
    return x.sum(0)


@program(lambda: (randn(3, 4),))
def views_of_inputs(self, x):
    return x.T, x[1], x.view(12), x.unsqueeze(0).expand(2, 3, 4)


@program(lambda: (randn(4, 4),))
def in_place_chain(self, x):
    y = x * 2
    z = y[:2]
    z.relu_().add_(0.5)
    y[:, 1].zero_()
    y.t().clamp_(max=1.0)
    y.diagonal().fill_(9)
    return y, z, y.masked_fill_(y > 1, -1), y.copy_(x)


@program(lambda: (randn(3, 4),), lambda: dict(calls_buffer=torch.zeros(()), mean_buffer=torch.zeros(4)),
         more=lambda: [(randn(3, 4),), (randn(3, 4),)])
def counting(self, x):
    self.calls_buffer += 1
    self.mean_buffer.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - self.mean_buffer, self.calls_buffer.clone()


@program(lambda: (randn(1, 1, 4), torch.tensor(0)), lambda: dict(cache_buffer=torch.zeros(1, 6, 4)),
         more=lambda: [(randn(1, 1, 4), torch.tensor(1)), (randn(1, 1, 4), torch.tensor(2))])
def key_value_cache(self, x, position):
    self.cache_buffer.index_copy_(1, position[None], x)
    return torch.softmax(x @ self.cache_buffer.mT, -1) @ self.cache_buffer


@program(lambda: (randn(3, 8).bfloat16(),), lambda: dict(a=nn.Linear(8, 16).bfloat16(),
                                                         norm=nn.LayerNorm(16).bfloat16()))
def bf16_layers(self, x):
    return torch.softmax(self.norm(nn.functional.gelu(self.a(x))), -1), x.float().sum(), (x * 1.5 + 2).exp()


@program(lambda: (randn(3, 8).half(),), lambda: dict(a=nn.Linear(8, 16).half(), conv=nn.Conv1d(1, 2, 3).half()))
def f16_layers(self, x):
    return self.conv(self.a(x)[:, None]).relu(), x.mean(1), x.to(torch.float32) * 2


@program(lambda: (randint(-100, 100, (3, 8)).to(torch.int8), randint(0, 200, (3, 8)).to(torch.uint8)))
def int8_arithmetic(self, a, b):
    scale = 0.05
    q = torch.clamp(torch.round(a.float() * scale / 0.02) + 3, -128, 127).to(torch.int8)
    return (a + a, a * 3, b // 3, (q.to(torch.int32) - 3).float() * 0.02, a.to(torch.int32) @ b.T.to(torch.int32),
            b.sum(), a > b)


@program(lambda: (randn(4, 5).double(), randn(4, 5)))
def mixed_dtypes(self, a, b):
    return (a + b, (a > 0) * b, b.to(torch.float64).sum() + a, b.type_as(a), a.int() + 1.5,
            torch.tensor(2.0) * a.half(), b.bool().to(torch.uint8), a.short() * b.long())


@program(lambda: (randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last),),
         lambda: dict(conv=nn.Conv2d(3, 6, 3).to(memory_format=torch.channels_last),
                      norm=nn.BatchNorm2d(6), pool=nn.AvgPool2d(2)))
def channels_last(self, x):
    y = self.pool(self.norm(self.conv(x)).relu())
    return y, y.contiguous(), y.to(memory_format=torch.channels_last) + 1


@program(lambda: (randn(0, 4), randn(3, 0)), lambda: dict(a=nn.Linear(4, 2)), constant=True)
def zero_size(self, x, y):
    return self.a(x), x.sum(0), torch.cat([y, torch.ones(3, 2)], 1), y.sum(), x @ torch.ones(4, 3), y @ torch.ones(0, 2)


@program(lambda: (torch.tensor(2.5), torch.tensor(3)))
def zero_dim(self, x, n):
    return x * n, x + torch.arange(4), n.float().sqrt() + torch.arange(3), torch.stack([x, x + 1])


@program(lambda: (torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0, -0.0]),))
def special_values(self, x):
    return (x.nan_to_num(), x.isnan(), x.isinf(), x * 0, x.maximum(torch.zeros(6)), x.sort().values, torch.signbit(x),
            x.clamp(-1, 1), 1 / x, torch.copysign(torch.ones(6), x))


@program(lambda: (randn(2, 1, 6, 6), torch.rand(2, 4, 4, 2) * 2 - 1, randn(2, 2, 3)))
def grid_sample(self, x, grid, theta):
    f = nn.functional
    return (f.grid_sample(x, grid, align_corners=False),
            f.grid_sample(x, f.affine_grid(theta, (2, 1, 5, 5), align_corners=True), mode="nearest",
                          padding_mode="border",
                          align_corners=True))


@program(lambda: (randn(2, 30),))
def stft(self, x):
    return torch.view_as_real(torch.stft(x, 8, hop_length=4, window=torch.hann_window(8), return_complex=True))


@program(lambda: (randn(4, 5),))
def statistics_and_pairs(self, x):
    return (torch.nanmean(x), torch.std_mean(x, 0), torch.logaddexp(x, x * 2), torch.heaviside(x, torch.tensor(0.5)),
            torch.hypot(x, x + 1), torch.atan2(x, x + 2),
            x.renorm(2, 0, 1.0))


@program(lambda: (randn(3, 4), randn(3, 4)), lambda: dict(scale=nn.Parameter(torch.tensor(1.5)),
                                                          table=torch.arange(4.0)))
def constants_and_attributes(self, x, y):
    return x * self.scale + self.table, torch.tensor([1.0, 2.0, 3.0, 4.0]) * y, x + torch.tensor(3)


@program(lambda: (randn(2, 6, 8),), lambda: dict(q=nn.Linear(8, 8), k=nn.Linear(8, 4), v=nn.Linear(8, 4),
                                                 norm=nn.RMSNorm(8)))
def rotary_attention(self, x):
    def rotate(t):
        angle = torch.arange(6)[:, None] * (10000 ** (-torch.arange(0, 4, 2) / 4))
        a, b = t[..., ::2], t[..., 1::2]
        return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)
    h = self.norm(x)
    q, k, v = (f(h).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
    return x + nn.functional.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True,
                                                          enable_gqa=True).transpose(1, 2).flatten(2)


@program(lambda: (randn(2, 3, 16, 16),), lambda: dict(a=nn.Conv2d(3, 8, 3, 2, 1), b=nn.Conv2d(8, 8, 3, padding=1),
                                                      up=nn.ConvTranspose2d(8, 4, 2, 2), out=nn.Conv2d(7, 2, 1)))
def unet(self, x):
    h = self.a(x).relu()
    h = h + self.b(nn.functional.silu(h))
    return self.out(torch.cat([self.up(h), x], 1)).log_softmax(1)
