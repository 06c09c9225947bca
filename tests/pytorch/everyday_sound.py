"""Sound and graphs as people ship them: spectra, filters, messages along edges, transport."""

import math

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn

# ---- sound ----


def mel_filters(bins, mels, rate=8000.0):
    hz = torch.linspace(0, rate / 2, bins)
    top = 2595 * math.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (torch.linspace(0, top, mels + 2) / 2595) - 1)
    slopes = points.unsqueeze(0) - hz.unsqueeze(1)
    diff = points[1:] - points[:-1]
    return torch.max(torch.zeros(1), torch.min(-slopes[:, :-2] / diff[:-1], slopes[:, 2:] / diff[1:]))


class LogMel(nn.Module):
    def __init__(self, n=32, hop=8, mels=6):
        super().__init__()
        self.n, self.hop = n, hop
        self.register_buffer("window", torch.hann_window(n))
        self.register_buffer("fb", mel_filters(n // 2 + 1, mels))

    def forward(self, wave):
        spec = torch.stft(
            wave, self.n, self.hop, window=self.window, center=True, pad_mode="reflect", return_complex=True
        )
        mel = torch.matmul((spec.abs() ** 2).transpose(-1, -2), self.fb).transpose(-1, -2)
        log = torch.clamp(mel, min=1e-10).log10()
        log = torch.maximum(log, log.amax((-2, -1), keepdim=True) - 8.0)
        return (log + 4.0) / 4.0


@program
def whisper_features(c):
    yield from calls(c, LogMel(), lambda n: leaf(n, 96))


class Enhance(nn.Module):
    """A mask over the spectrum and back to a wave."""

    def __init__(self, n=32):
        super().__init__()
        self.n, self.mask = n, nn.GRU(n // 2 + 1, n // 2 + 1, batch_first=True)
        self.register_buffer("window", torch.hann_window(n))

    def forward(self, wave):
        spec = torch.stft(wave, self.n, self.n // 4, window=self.window, return_complex=True)
        gain = torch.sigmoid(self.mask(torch.log1p(spec.abs()).transpose(1, 2))[0]).transpose(1, 2)
        out = torch.istft(
            torch.polar(spec.abs() * gain, spec.angle()), self.n, self.n // 4, window=self.window, length=wave.shape[-1]
        )
        return out, F.l1_loss(out, wave)


@program
def speech_enhancement(c):
    yield from calls(c, Enhance(), lambda n: torch.randn(n, 128), sizes=(2, 2, 3))


def griffin_lim(mag, n, hop, iterations):
    window = torch.hann_window(n)
    angles = torch.rand(mag.shape, dtype=torch.complex64)
    before = torch.tensor(0.0)
    for _ in range(iterations):
        wave = torch.istft(mag * angles, n, hop, window=window)
        rebuilt = torch.stft(wave, n, hop, window=window, return_complex=True)
        angles = rebuilt - before * 0.4
        angles = angles / (angles.abs() + 1e-16)
        before = rebuilt
    return torch.istft(mag * angles, n, hop, window=window)


@program
def phase_reconstruction(c):
    f = c(griffin_lim)
    with torch.no_grad():
        for n in (1, 2):
            yield f(torch.rand(n, 17, 9), 32, 8, 3)


class WaveNet(nn.Module):
    def __init__(self, n=4, layers=3):
        super().__init__()
        self.front = nn.Conv1d(1, n, 1)
        self.filters = nn.ModuleList(nn.Conv1d(n, 2 * n, 2, dilation=2**k) for k in range(layers))
        self.out = nn.ModuleList(nn.Conv1d(n, 2 * n, 1) for _ in range(layers))

    def forward(self, x):
        x, skips = self.front(x), 0
        for k, (f, o) in enumerate(zip(self.filters, self.out)):
            a, b = f(F.pad(x, (2**k, 0))).chunk(2, 1)
            res, skip = o(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, skips = (x + res) * math.sqrt(0.5), skips + skip
        return skips.relu()

    def push(self, sample, queues):
        x, skips = self.front(sample), 0
        for k, (f, o) in enumerate(zip(self.filters, self.out)):
            queue = queues[k]
            a, b = F.conv1d(torch.stack((queue[:, :, 0], x[:, :, 0]), -1), f.weight, f.bias).chunk(2, 1)
            queues[k] = torch.cat((queue[:, :, 1:], x), -1)
            res, skip = o(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, skips = (x + res) * math.sqrt(0.5), skips + skip
        return skips.relu()


@program
def wavenet(c):
    model = WaveNet()
    yield from calls(c, model, lambda n: leaf(n, 1, 9))
    f, queues = c(model.push), [torch.zeros(2, 4, 2**k) for k in range(3)]
    with torch.no_grad():
        for _ in range(4):
            yield f(torch.randn(2, 1, 1), queues), list(queues)


class SpecAugment(nn.Module):
    def forward(self, x, limit=3):
        if not self.training:
            return x
        x = x.clone()
        for k in range(x.shape[0]):
            start = torch.randint(0, x.shape[1] - limit, ())
            width = torch.randint(0, limit + 1, ())
            band = (torch.arange(x.shape[1]) >= start) & (torch.arange(x.shape[1]) < start + width)
            x[k, band] = 0
        return x


@program
def spectrum_masks(c):
    model = SpecAugment()
    yield from calls(c, model, lambda n: leaf(n, 6, 5))
    model.eval()
    yield from calls(c, model, lambda n: leaf(n, 6, 5), sizes=(2, 3))


def biquad(wave, b, a):
    padded = F.pad(wave, (2, 0))
    fir = b[0] * padded[:, 2:] + b[1] * padded[:, 1:-1] + b[2] * padded[:, :-2]
    y1 = y2 = torch.zeros(wave.shape[0])
    out = []
    for t in range(wave.shape[1]):
        y = fir[:, t] - a[1] * y1 - a[2] * y2
        out.append(y)
        y1, y2 = y, y1
    return torch.stack(out, 1).clamp(-1, 1)


@program
def biquad_filter(c):
    yield from calls(
        c,
        biquad,
        lambda n: (
            leaf(n, 8),
            torch.tensor([0.2, 0.4, 0.2]).requires_grad_(),
            torch.tensor([1.0, -0.3, 0.1]).requires_grad_(),
        ),
    )


def fft_convolve(x, kernel):
    n = x.shape[-1] + kernel.shape[-1] - 1
    size = 2 ** math.ceil(math.log2(n))
    return torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(kernel, size), size)[..., : x.shape[-1]]


@program
def long_convolution(c):
    yield from calls(c, fft_convolve, lambda n: (leaf(2, 3, 4 + n), leaf(3, 4 + n)))


def resample(x, up, down, width=3):
    scale = min(1.0, up / down)
    t = torch.arange(-width, width + down)[None] / down + torch.arange(0, -up, -1)[:, None] / up
    t = (t * scale * 2).clamp_(-width, width)
    window = torch.cos(t * math.pi / width / 2) ** 2
    t = t * math.pi
    kernel = torch.where(t == 0, torch.tensor(1.0), t.sin() / t) * window * scale
    y = F.conv1d(F.pad(x[:, None], (width, width + down)), kernel[:, None], stride=down)
    return y.transpose(1, 2).reshape(x.shape[0], -1)[:, : math.ceil(up * x.shape[-1] / down)]


@program
def resampling(c):
    yield from calls(c, resample, lambda n: (leaf(n, 12), 3, 2))


# ---- graphs ----


def propagate(x, edges, weight=None, n=None):
    n = n or x.shape[0]
    message = x[edges[0]] if weight is None else x[edges[0]] * weight[:, None]
    return torch.zeros(n, x.shape[1]).index_add_(0, edges[1], message)


class GIN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)) for _ in range(2)]
        )
        self.eps = nn.ParameterList([nn.Parameter(torch.zeros(())) for _ in range(2)])

    def forward(self, x, edges, batch, graphs):
        for layer, eps in zip(self.layers, self.eps):
            x = F.dropout(F.relu(layer((1 + eps) * x + propagate(x, edges))), 0.2, self.training)
        count = torch.zeros(graphs).scatter_add_(0, batch, torch.ones(len(batch))).clamp(min=1)
        mean = torch.zeros(graphs, x.shape[1]).index_add(0, batch, x) / count[:, None]
        top = torch.full((graphs, x.shape[1]), -torch.inf).scatter_reduce(
            0, batch[:, None].expand_as(x), x, "amax", include_self=True
        )
        return torch.cat((mean, torch.where(top.isinf(), 0.0, top)), -1)


def graphs(n):
    return leaf(3 * n, 4), torch.randint(0, 3 * n, (2, 5 * n)), torch.arange(n).repeat_interleave(3), n + 1


@program
def graph_isomorphism(c):
    yield from calls(c, GIN(), graphs)


def segment_softmax(score, index, n):
    top = torch.zeros(n).scatter_reduce_(0, index, score.detach(), "amax", include_self=False)
    e = (score - top[index]).exp()
    return e / torch.zeros(n).scatter_add_(0, index, e)[index].clamp(min=1e-12)


@program
def softmax_of_segments(c):
    yield from calls(c, segment_softmax, lambda n: (leaf(3 * n), torch.randint(0, n, (3 * n,)), n))


class SAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)

    def forward(self, x, blocks):
        for k, (edges, n) in enumerate(blocks):
            target = x[:n]
            degree = torch.bincount(edges[1], minlength=n)[:, None]
            x = self.left(propagate(x, edges, n=n) / degree.clamp(min=1)) + self.right(target)
            if k != len(blocks) - 1:
                x = F.normalize(x.relu(), p=2.0, dim=-1)
        return x.log_softmax(-1)


@program
def sampled_neighbours(c):
    def make(n):
        a = torch.stack((torch.randint(0, 4 * n, (6 * n,)), torch.randint(0, 2 * n, (6 * n,))))
        b = torch.stack((torch.randint(0, 2 * n, (3 * n,)), torch.randint(0, n, (3 * n,))))
        return leaf(4 * n, 4), [(a, 2 * n), (b, n)]

    yield from calls(c, SAGE(), make)


def radius_graph(pos, r):
    d = torch.cdist(pos, pos)
    d.fill_diagonal_(float("inf"))
    i, j = (d < r).nonzero(as_tuple=True)
    delta = pos[i] - pos[j]
    length = delta.norm(dim=-1)
    basis = torch.exp(-10.0 * (length[:, None] - torch.linspace(0, r, 4)) ** 2)
    envelope = 0.5 * (torch.cos(length * math.pi / r) + 1.0) * (length < r).float()
    energy = torch.zeros(pos.shape[0]).index_add(0, i, (basis.sum(-1) * envelope))
    return energy.sum(), torch.stack((i, j))


@program(breaks=2)
def molecular_energy(c):
    yield from calls(c, radius_graph, lambda n: (leaf(2 * n, 3), 2.0))


def laplacian(edges, n):
    a = torch.zeros(n, n)
    a[edges[0], edges[1]] = 1.0
    a = torch.maximum(a, a.T)
    a.fill_diagonal_(0)
    degree = a.sum(1)
    inv = degree.pow(-0.5)
    inv[torch.isinf(inv)] = 0
    lap = torch.eye(n) - inv[:, None] * a * inv
    values, vectors = torch.linalg.eigh(lap)
    return values, vectors.abs().sort(0).values, a


@program
def laplacian_positions(c):
    f = c(laplacian)
    for n in (4, 4, 5):
        yield f(torch.randint(0, n, (2, 2 * n)), n)[0::2]


def sinkhorn(cost, eps=0.1, steps=8):
    n, m = cost.shape[-2:]
    f, g = torch.zeros(cost.shape[:-1]), torch.zeros(cost.shape[:-2] + (m,))
    for _ in range(steps):
        f = -eps * torch.logsumexp((g[..., None, :] - cost) / eps, -1) - eps * math.log(n)
        g = -eps * torch.logsumexp((f[..., :, None] - cost) / eps, -2) - eps * math.log(m)
    plan = torch.exp((f[..., :, None] + g[..., None, :] - cost) / eps)
    return plan, (plan * cost).sum((-1, -2))


@program
def optimal_transport(c):
    yield from calls(c, sinkhorn, lambda n: leaf(n, 3, 4))
