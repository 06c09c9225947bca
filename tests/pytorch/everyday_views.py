"""Networks that look as people ship them: layers dropped, patches masked, rendering, points, style, flow."""

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn


class SE(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(n, n // 2, 1), nn.Conv2d(n // 2, n, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.fc2(F.hardswish(self.fc1(x.mean((2, 3), keepdim=True)))))


def drop_path(x, p, training):
    if p == 0.0 or not training:
        return x
    keep = 1 - p
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
    if keep > 0.0:
        mask.div_(keep)
    return x * mask


class MBConv(nn.Module):
    def __init__(self, n=4, p=0.5):
        super().__init__()
        self.p = p
        self.conv = nn.Sequential(
            nn.Conv2d(n, 2 * n, 1, bias=False),
            nn.BatchNorm2d(2 * n, momentum=0.01),
            nn.ReLU6(inplace=True),
            nn.Conv2d(2 * n, 2 * n, 3, padding=1, groups=2 * n, bias=False),
            nn.BatchNorm2d(2 * n),
            nn.Hardswish(inplace=True),
            SE(2 * n),
            nn.Conv2d(2 * n, n, 1, bias=False),
            nn.BatchNorm2d(n),
        )

    def forward(self, x):
        return x + drop_path(self.conv(x), self.p, self.training)


@program
def stochastic_depth(c):
    model = nn.Sequential(MBConv(), MBConv(p=0.0), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    modes = iter([False, True] * 10)
    yield from calls(c, model, lambda n: leaf(n, 4, 6, 6), step=lambda n: model.train(next(modes)))


class Deformable(nn.Module):
    """Samples at learnt offsets, many points to a place."""

    def __init__(self, n=4, points=3):
        super().__init__()
        self.offset, self.weight, self.points = nn.Conv2d(n, 2 * points, 3, padding=1), nn.Conv2d(n, points, 1), points

    def forward(self, x):
        b, n, h, w = x.shape
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        base = torch.stack((xs, ys), -1)
        off = self.offset(x).view(b, self.points, 2, h, w).permute(1, 0, 3, 4, 2).tanh()
        weight = self.weight(x).softmax(1)
        return sum(
            weight[:, k : k + 1]
            * F.grid_sample(x, base + off[k] * 0.5, mode="bilinear", padding_mode="zeros", align_corners=False)
            for k in range(self.points)
        )


@program
def deformable_sampling(c):
    yield from calls(c, Deformable(), lambda n: leaf(n, 4, 5, 4))


class MAE(nn.Module):
    def __init__(self, width=6, patch=2):
        super().__init__()
        self.embed, self.patch = nn.Conv2d(1, width, patch, patch), patch
        self.mask_token, self.cls = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, 9, width))
        self.enc = nn.TransformerEncoderLayer(width, 2, 8, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, patch * patch)

    def patchify(self, x):
        p = self.patch
        h = x.shape[2] // p
        return torch.einsum("nchpwq->nhwpqc", x.reshape(x.shape[0], 1, h, p, h, p)).reshape(x.shape[0], h * h, p * p)

    def forward(self, image, ratio=0.5):
        x = self.embed(image).flatten(2).transpose(1, 2) + self.pos
        n, length, d = x.shape
        keep = int(length * (1 - ratio))
        noise = torch.rand(n, length, device=x.device)
        shuffle = torch.argsort(noise, dim=1)
        restore = torch.argsort(shuffle, dim=1)
        ids = shuffle[:, :keep]
        visible = torch.gather(x, 1, ids.unsqueeze(-1).repeat(1, 1, d))
        mask = torch.ones([n, length])
        mask[:, :keep] = 0
        mask = torch.gather(mask, 1, restore)
        y = self.enc(torch.cat((self.cls.expand(n, -1, -1), visible), 1))
        full = torch.cat([y[:, 1:], self.mask_token.repeat(n, length - keep, 1)], 1)
        full = torch.gather(full, 1, restore.unsqueeze(-1).repeat(1, 1, d))
        target = self.patchify(image)
        target = (target - target.mean(-1, keepdim=True)) / (target.var(-1, keepdim=True) + 1e-6) ** 0.5
        loss = ((self.head(full) - target) ** 2).mean(-1)
        return (loss * mask).sum() / mask.sum(), mask


@program
def masked_autoencoder(c):
    yield from calls(c, MAE(), lambda n: leaf(n, 1, 6, 6))


def resize_positions(pos, h, w):
    cls, grid = pos[:, :1], pos[:, 1:]
    side = int(math.sqrt(grid.shape[1]))
    grid = grid.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=(h, w), mode="bicubic", align_corners=False, antialias=False)
    return torch.cat((cls, grid.permute(0, 2, 3, 1).flatten(1, 2)), 1)


@program
def positions_resized(c):
    yield from calls(c, resize_positions, lambda n: (leaf(1, 10, 4), n, n + 1))


class NeRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 4))
        self.register_buffer("bands", 2.0 ** torch.arange(2))

    def encode(self, x):
        y = (x[..., None, :] * self.bands[:, None]).flatten(-2)
        return torch.cat((x, y.sin(), y.cos()), -1)

    def forward(self, origin, direction, samples, noise=True):
        t = torch.linspace(0.5, 2.0, samples).expand(origin.shape[0], samples)
        if noise:
            mids = 0.5 * (t[..., 1:] + t[..., :-1])
            upper, lower = torch.cat([mids, t[..., -1:]], -1), torch.cat([t[..., :1], mids], -1)
            t = lower + (upper - lower) * torch.rand(t.shape)
        points = origin[:, None] + direction[:, None] * t[..., None]
        raw = self.net(self.encode(points))
        rgb, sigma = raw[..., :3].sigmoid(), F.softplus(raw[..., 3])
        delta = torch.cat((t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e10)), -1)
        alpha = 1 - torch.exp(-sigma * delta)
        through = torch.cumprod(torch.cat((torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10), -1), -1)[:, :-1]
        weights = alpha * through
        return (weights[..., None] * rgb).sum(1), (weights * t).sum(1), weights

    def importance(self, weights, bins, n):
        pdf = (weights + 1e-5) / (weights + 1e-5).sum(-1, keepdim=True)
        cdf = F.pad(pdf.cumsum(-1), (1, 0))
        u = torch.rand(*cdf.shape[:-1], n).contiguous()
        index = torch.searchsorted(cdf.detach(), u, right=True)
        below, above = (index - 1).clamp(min=0), index.clamp(max=cdf.shape[-1] - 1)
        pair = torch.stack((below, above), -1)
        c = torch.gather(cdf.unsqueeze(1).expand(-1, n, -1), 2, pair)
        b = torch.gather(bins.unsqueeze(1).expand(-1, n, -1), 2, pair)
        d = c[..., 1] - c[..., 0]
        d = torch.where(d < 1e-5, torch.ones_like(d), d)
        return b[..., 0] + (u - c[..., 0]) / d * (b[..., 1] - b[..., 0])


@program
def volume_rendering(c):
    model = NeRF()
    yield from calls(c, model, lambda n: (leaf(n, 3), leaf(n, 3), 5, n != 5))
    yield from calls(
        c, model.importance, lambda n: (torch.rand(n, 4), torch.linspace(0, 1, 5).expand(n, 5), 3), grads=(False,)
    )


def quaternion(q):
    r, i, j, k = torch.unbind(F.normalize(q, dim=-1), -1)
    two = 2.0 / (q * q).sum(-1).clamp(min=1e-8) * 0 + 2.0
    return torch.stack(
        (
            1 - two * (j * j + k * k),
            two * (i * j - k * r),
            two * (i * k + j * r),
            two * (i * j + k * r),
            1 - two * (i * i + k * k),
            two * (j * k - i * r),
            two * (i * k - j * r),
            two * (j * k + i * r),
            1 - two * (i * i + j * j),
        ),
        -1,
    ).reshape(q.shape[:-1] + (3, 3))


def gaussians(q, scale, mean, camera, focal):
    rot = quaternion(q)
    m = rot @ torch.diag_embed(scale.exp())
    cov = m @ m.transpose(-1, -2)
    p = mean @ camera[:3, :3].T + camera[:3, 3]
    z = p[:, 2].clamp(min=0.1)
    jac = torch.zeros(len(z), 2, 3)
    jac[:, 0, 0] = focal / z
    jac[:, 1, 1] = focal / z
    jac[:, 0, 2] = -focal * p[:, 0] / z**2
    jac[:, 1, 2] = -focal * p[:, 1] / z**2
    t = jac @ camera[:3, :3]
    return focal * p[:, :2] / z[:, None], t @ cov @ t.transpose(1, 2) + 0.3 * torch.eye(2)


@program
def gaussian_splats(c):
    yield from calls(c, gaussians, lambda n: (leaf(n, 4), leaf(n, 3), leaf(n, 3), torch.eye(4), 2.0 + n))


def chamfer(a, b):
    d = torch.cdist(a, b)
    return d.min(2).values.mean(1) + d.min(1)[0].mean(1)


def farthest(points, n):
    b, m, _ = points.shape
    chosen = torch.zeros(b, n, dtype=torch.long)
    distance = torch.ones(b, m) * 1e10
    last = torch.zeros(b, dtype=torch.long)
    rows = torch.arange(b, dtype=torch.long)
    for k in range(n):
        chosen[:, k] = last
        centre = points[rows, last].view(b, 1, 3)
        d = ((points - centre) ** 2).sum(-1)
        closer = d < distance
        distance[closer] = d[closer]
        last = distance.max(-1)[1]
    return chosen


@program
def point_clouds(c):
    yield from calls(c, chamfer, lambda n: (leaf(n, 5, 3), leaf(n, 4, 3)))
    yield from calls(c, farthest, lambda n: (torch.randn(n, 6, 3), 4), grads=(False,))


def ssim(a, b, window=3):
    kernel = torch.exp(-((torch.arange(window) - window // 2) ** 2) / 4.5)
    kernel = (kernel / kernel.sum())[:, None] @ (kernel / kernel.sum())[None]
    w = kernel.expand(a.shape[1], 1, window, window).contiguous()
    blur = lambda t: F.conv2d(t, w, padding=window // 2, groups=a.shape[1])
    ma, mb = blur(a), blur(b)
    va, vb, vab = blur(a * a) - ma**2, blur(b * b) - mb**2, blur(a * b) - ma * mb
    return (((2 * ma * mb + 1e-4) * (2 * vab + 9e-4)) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))).mean((1, 2, 3))


@program
def structural_similarity(c):
    yield from calls(c, ssim, lambda n: (leaf(n, 2, 6, 6), leaf(n, 2, 6, 6)))


def total_variation(x):
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., :, 1:] - x[..., :, :-1]).abs().mean()


def gram(x):
    b, n, h, w = x.size()
    f = x.view(b, n, h * w)
    return torch.baddbmm(torch.zeros(b, n, n), f, f.mT, beta=0).div(n * h * w)


class StyleTransfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 4, 3, padding=1),
                relu1=nn.ReLU(),
                pool=nn.AvgPool2d(2),
                conv2=nn.Conv2d(4, 6, 3),
                relu2=nn.ReLU(),
            )
        )
        self.picks = ("relu1", "relu2")
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, image, style):
        loss, x, y = total_variation(image) * 0.1, image, style
        for name, module in self.net.named_children():
            x, y = module(x), module(y)
            if name in self.picks:
                loss = loss + F.mse_loss(gram(x), gram(y).detach()) * 100
        return loss


@program
def style_transfer(c):
    f = c(StyleTransfer())
    image, style = torch.rand(1, 3, 8, 8).requires_grad_(), torch.rand(1, 3, 8, 8)
    opt = torch.optim.LBFGS([image], max_iter=3)
    losses = []

    def closure():
        opt.zero_grad()
        with torch.no_grad():
            image.clamp_(0, 1)
        loss = f(image, style)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(2):
        opt.step(closure)
        yield image.detach(), [round(v, 3) for v in losses]


def augment(x, flip, brightness, order):
    ops = {
        "flip": lambda t: torch.where(flip[:, None, None, None], t.flip(-1), t),
        "bright": lambda t: (t * brightness).clamp_(0, 1),
        "grey": lambda t: (t * torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True).expand_as(t),
        "norm": lambda t: t.sub(t.new_tensor([0.4, 0.5, 0.6])[:, None, None]).div_(0.2),
        "roll": lambda t: t.roll((1, -1), (2, 3)),
        "rot": lambda t: torch.rot90(t, 1, (2, 3)),
    }
    for name in order:
        x = ops[name](x)
    return x


@program
def augmentations(c):
    f = c(augment)
    for order in (("flip", "bright"), ("grey", "norm"), ("roll", "rot", "flip"), ("flip", "bright")):
        x = torch.rand(3, 3, 4, 4)
        yield f(x, torch.rand(3) > 0.5, torch.rand(3, 1, 1, 1) + 0.5, order), x


class Warp(nn.Module):
    """Optical flow: a cost volume and a warp by it."""

    def forward(self, a, b, flow):
        n, _, h, w = a.shape
        padded = F.pad(b, (1, 1, 1, 1))
        cost = torch.stack([(a * padded[:, :, i : i + h, j : j + w]).mean(1) for i in range(3) for j in range(3)], 1)
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((xs, ys)).float()[None] + flow
        grid = torch.stack((2 * grid[:, 0] / max(w - 1, 1) - 1, 2 * grid[:, 1] / max(h - 1, 1) - 1), -1)
        out = F.grid_sample(b, grid, align_corners=True)
        seen = F.grid_sample(torch.ones_like(b[:, :1]), grid, align_corners=True) > 0.999
        return F.leaky_relu(cost, 0.1), out * seen


@program
def optical_flow(c):
    yield from calls(c, Warp(), lambda n: (leaf(n, 2, 4, 5), leaf(n, 2, 4, 5), leaf(n, 2, 4, 5)))
