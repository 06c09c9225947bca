"""Pictures as people ship them: boxes and masks, segmentation, diffusion, flows."""

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn

# ---- detection ----


def nms(boxes, scores, threshold):
    order = scores.argsort(descending=True)
    keep = []
    x1, y1, x2, y2 = boxes.unbind(1)
    areas = (x2 - x1) * (y2 - y1)
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        w = (torch.minimum(x2[i], x2[rest]) - torch.maximum(x1[i], x1[rest])).clamp(min=0)
        h = (torch.minimum(y2[i], y2[rest]) - torch.maximum(y1[i], y1[rest])).clamp(min=0)
        overlap = w * h / (areas[i] + areas[rest] - w * h)
        order = rest[overlap <= threshold]
    return torch.stack(keep)


def boxes(n):
    a = torch.rand(n, 2) * 4
    return torch.cat((a, a + torch.rand(n, 2) * 3 + 0.5), 1)


@program(breaks=4)
def nms_by_hand(c):
    f = c(nms)
    for n in (1, 2, 6, 6, 9):
        yield f(boxes(n), torch.rand(n), 0.3)


def matrix_nms(scores, masks, sigma=2.0):
    order = scores.argsort(descending=True)
    scores, flat = scores[order], masks[order].flatten(1).float()
    inter = flat @ flat.t()
    area = flat.sum(1).expand(len(scores), -1)
    iou = (inter / (area + area.t() - inter)).triu(diagonal=1)
    worst = iou.max(0).values.expand(len(scores), -1).t()
    decay = (torch.exp(-sigma * iou**2) / torch.exp(-sigma * worst**2)).min(0).values
    return scores * decay, order


@program
def nms_by_matrix(c):
    yield from calls(c, matrix_nms, lambda n: (torch.rand(n), torch.rand(n, 4, 4) > 0.4), grads=(False,))


class Anchors(nn.Module):
    def __init__(self, sizes=((2.0, 3.0), (4.0,)), ratios=((0.5, 1.0), (1.0,))):
        super().__init__()
        self.cells = [self.base(s, r) for s, r in zip(sizes, ratios)]

    @staticmethod
    def base(scales, ratios, dtype=torch.float32):
        scales, ratios = torch.as_tensor(scales, dtype=dtype), torch.as_tensor(ratios, dtype=dtype)
        h = torch.sqrt(ratios)
        w = 1 / h
        ws, hs = (w[:, None] * scales[None, :]).view(-1), (h[:, None] * scales[None, :]).view(-1)
        return (torch.stack([-ws, -hs, ws, hs], dim=1) / 2).round()

    def forward(self, features, image):
        found = []
        for feature, base in zip(features, self.cells):
            gh, gw = feature.shape[-2:]
            sh = torch.empty((), dtype=torch.int64).fill_(image.shape[-2] // gh)
            sw = torch.empty((), dtype=torch.int64).fill_(image.shape[-1] // gw)
            ys, xs = torch.arange(gh, dtype=torch.int32) * sh, torch.arange(gw, dtype=torch.int32) * sw
            y, x = torch.meshgrid(ys, xs, indexing="ij")
            shifts = torch.stack((x.reshape(-1), y.reshape(-1)) * 2, dim=1)
            found.append((shifts.view(-1, 1, 4) + base.view(1, -1, 4)).reshape(-1, 4))
        return torch.cat(found)


@program
def anchors(c):
    f = c(Anchors())
    for n in (8, 8, 12, 16):
        yield f([torch.zeros(1, 2, n // 2, n // 2), torch.zeros(1, 2, n // 4, n // 4)], torch.zeros(1, 3, n, n))


def decode(rel, base, weights=(10.0, 10.0, 5.0, 5.0), clip=math.log(1000.0 / 16)):
    base = base.to(rel.dtype)
    w, h = base[:, 2] - base[:, 0], base[:, 3] - base[:, 1]
    cx, cy = base[:, 0] + 0.5 * w, base[:, 1] + 0.5 * h
    dx, dy = rel[:, 0::4] / weights[0], rel[:, 1::4] / weights[1]
    dw, dh = (rel[:, 2::4] / weights[2]).clamp(max=clip), torch.clamp(rel[:, 3::4] / weights[3], max=clip)
    px, py = dx * w[:, None] + cx[:, None], dy * h[:, None] + cy[:, None]
    pw, ph = torch.exp(dw) * w[:, None], torch.exp(dh) * h[:, None]
    half = torch.tensor(0.5, dtype=px.dtype, device=pw.device)
    return torch.stack((px - half * pw, py - half * ph, px + half * pw, py + half * ph), dim=2).flatten(1)


@program
def box_coder(c):
    yield from calls(c, decode, lambda n: (leaf(n, 8), boxes(n).double() if n % 2 else boxes(n)))


def giou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh.prod(-1)
    area = lambda t: (t[:, 2:] - t[:, :2]).prod(1)
    union = area(a)[:, None] + area(b) - inter
    hull = (torch.max(a[:, None, 2:], b[:, 2:]) - torch.min(a[:, None, :2], b[:, :2])).clamp(min=0).prod(2)
    return inter / union - (hull - union) / hull


def detr_cost(logits, pred, labels, target):
    prob = logits.softmax(-1)
    return torch.cdist(pred, target, p=1) * 5 - prob[:, labels] - 2 * giou(pred, target)


@program
def matching_cost(c):
    yield from calls(c, detr_cost, lambda n: (leaf(5, 4), boxes(5), torch.randint(0, 4, (n,)), boxes(n)))


def greedy_match(cost):
    cost = cost.clone()
    found = []
    for _ in range(min(cost.shape)):
        k = cost.argmin()
        r, q = k // cost.shape[1], k % cost.shape[1]
        cost[r] = float("inf")
        cost[:, q] = float("inf")
        found.append(torch.stack((r, q)))
    return torch.stack(found)


@program
def greedy_matching(c):
    f = c(greedy_match)
    for n in (2, 3, 4):
        yield f(torch.rand(n, 3))


def sigmoid_focal(inputs, targets, alpha=0.25, gamma=2, reduction="none"):
    p = inputs.sigmoid()
    ce = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = ce * (1 - p_t) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return {"none": lambda t: t, "mean": torch.mean, "sum": torch.sum}[reduction](loss)


@program
def focal_loss_kinds(c):
    for kind in ("none", "mean", "sum"):
        yield from calls(
            c,
            lambda x, t: sigmoid_focal(x, t, reduction=kind),
            lambda n: (leaf(n, 3), (torch.rand(n, 3) > 0.5).float()),
            sizes=(2, 3),
        )


class RoI(nn.Module):
    """Pools boxes by sampling a grid."""

    def __init__(self, size=3):
        super().__init__()
        self.size = size

    def forward(self, features, rois):
        h, w = features.shape[-2:]
        theta = torch.zeros(rois.shape[0], 2, 3)
        theta[:, 0, 0] = (rois[:, 2] - rois[:, 0]) / (w - 1)
        theta[:, 0, 2] = (rois[:, 0] + rois[:, 2] - w + 1) / (w - 1)
        theta[:, 1, 1] = (rois[:, 3] - rois[:, 1]) / (h - 1)
        theta[:, 1, 2] = (rois[:, 1] + rois[:, 3] - h + 1) / (h - 1)
        grid = F.affine_grid(theta, [rois.shape[0], features.shape[1], self.size, self.size], align_corners=True)
        return F.grid_sample(
            features.expand(rois.shape[0], -1, -1, -1), grid, padding_mode="border", align_corners=True
        )


@program
def regions_of_interest(c):
    yield from calls(c, RoI(), lambda n: (leaf(1, 2, 6, 7), boxes(n)))


class FPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict(
            OrderedDict(
                (f"layer{k}", nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)))
                for k, (i, o) in enumerate(((3, 4), (4, 6), (6, 8)))
            )
        )
        self.inner, self.outer = (
            nn.ModuleList(nn.Conv2d(n, 5, 1) for n in (4, 6, 8)),
            nn.ModuleList(nn.Conv2d(5, 5, 3, padding=1) for _ in range(3)),
        )

    def forward(self, x):
        features = OrderedDict()
        for name, layer in self.body.items():
            x = layer(x)
            features[name] = x
        names, values = list(features), list(features.values())
        last = self.inner[-1](values[-1])
        results = [self.outer[-1](last)]
        for k in range(len(values) - 2, -1, -1):
            lateral = self.inner[k](values[k])
            last = lateral + F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.outer[k](last))
        names.append("pool")
        results.append(F.max_pool2d(results[-1], 1, 2, 0))
        return OrderedDict(zip(names, results))


@program
def feature_pyramid(c):
    yield from calls(c, FPN(), lambda n: leaf(n, 3, 17, 13), sizes=(2, 2, 3))


def paste_masks(masks, found, h, w):
    out = torch.zeros(masks.shape[0], h, w, dtype=torch.bool)
    for k in range(masks.shape[0]):
        x1, y1, x2, y2 = found[k].round().int().tolist()
        x1, y1, x2, y2 = max(x1, 0), max(y1, 0), min(max(x2, x1 + 1), w), min(max(y2, y1 + 1), h)
        part = F.interpolate(masks[k][None, None], size=(y2 - y1, x2 - x1), mode="bilinear", align_corners=False)[0, 0]
        out[k, y1:y2, x1:x2] = part > 0.5
    return out


@program(breaks=3)
def pasted_masks(c):
    f = c(paste_masks)
    for n in (1, 2, 3):
        yield f(torch.rand(n, 4, 4), boxes(n), 9, 8)


def yolo(pred, anchors, stride):
    b, _, h, w = pred.shape
    pred = pred.view(b, len(anchors), -1, h, w).permute(0, 1, 3, 4, 2).contiguous()
    yv, xv = torch.meshgrid([torch.arange(h), torch.arange(w)], indexing="ij")
    grid = torch.stack((xv, yv), 2).view(1, 1, h, w, 2).float()
    y = pred.sigmoid()
    y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + grid) * stride
    y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * anchors.view(1, -1, 1, 1, 2)
    return y.view(b, -1, y.shape[-1])


@program
def yolo_decoding(c):
    yield from calls(
        c, yolo, lambda n: (torch.randn(n, 12, 3, 4), torch.tensor([[1.0, 2.0], [3.0, 1.0]]), 8), grads=(False,)
    )


def soft_argmax(heat, beta=10.0):
    b, k, h, w = heat.shape
    p = (heat.flatten(2) * beta).softmax(-1).view_as(heat)
    x = (p.sum(2) * torch.linspace(0, 1, w)).sum(-1)
    y = (p.sum(3) * torch.linspace(0, 1, h)).sum(-1)
    peak = F.max_pool2d(heat, 3, 1, 1)
    value, at = heat.mul(peak.eq(heat)).flatten(2).max(-1)
    return torch.stack((x, y), -1), value, torch.stack((at % w, at // w), -1)


@program
def heat_maps(c):
    yield from calls(c, soft_argmax, lambda n: leaf(n, 2, 5, 6))


# ---- segmentation, generation ----


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1, bias=False),
            nn.GroupNorm(2, o),
            nn.SiLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1, bias=False),
            nn.GroupNorm(2, o),
            nn.SiLU(True),
        )


class SegUNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.down = nn.ModuleList([DoubleConv(1, width), DoubleConv(width, 2 * width)])
        self.mid, self.pool = DoubleConv(2 * width, 4 * width), nn.MaxPool2d(2)
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)]
        )
        self.join = nn.ModuleList([DoubleConv(4 * width, 2 * width), DoubleConv(2 * width, width)])
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
            x = self.pool(x)
        x = self.mid(x)
        for up, join in zip(self.up, self.join):
            x, skip = up(x), kept.pop()
            dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            x = join(torch.cat([skip, x], dim=1))
        return self.out(x)


@program
def segmentation_odd_sizes(c):
    yield from calls(c, SegUNet(), lambda n: leaf(1, 1, 6 + n, 9), sizes=(2, 3, 3))


def lovasz(logits, labels):
    errors, order = torch.sort((1 - logits * (2 * labels - 1)), 0, descending=True)
    truth = labels[order]
    total = truth.sum()
    inter, union = total - truth.cumsum(0), total + (1 - truth).cumsum(0)
    jaccard = 1 - inter / union
    if len(truth) > 1:
        jaccard[1:] = jaccard[1:] - jaccard[:-1]
    return torch.dot(F.relu(errors), jaccard)


@program
def lovasz_hinge(c):
    yield from calls(c, lovasz, lambda n: (leaf(n), (torch.arange(n) % 2).float()), sizes=(1, 2, 5, 6))


def confusion(pred, target, classes):
    keep = target != 255
    index = classes * target[keep].long() + pred[keep]
    m = torch.bincount(index, minlength=classes**2).reshape(classes, classes).float()
    iou = m.diag() / (m.sum(0) + m.sum(1) - m.diag())
    return m, torch.nanmean(iou), m.diag().sum() / m.sum()


@program
def confusion_matrix(c):
    def make(n):
        t = torch.randint(0, 3, (n, 4, 4))
        t[:, 0] = 255
        return torch.randint(0, 3, (n, 4, 4)), t, 3

    yield from calls(c, confusion, make, grads=(False,))


class Diffusion(nn.Module):
    def __init__(self, steps=20):
        super().__init__()
        s = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
        bar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = (1 - bar[1:] / bar[:-1]).clamp(0, 0.999)
        alphas = 1 - betas
        add = lambda name, t: self.register_buffer(name, t.to(torch.float32))
        add("betas", betas)
        add("bar", alphas.cumprod(0))
        add("bar_prev", F.pad(alphas.cumprod(0)[:-1], (1, 0), value=1.0))
        self.net = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 4))
        self.steps = steps

    def model(self, x, t):
        return self.net(torch.cat((x, t[:, None].float() / self.steps), -1))

    def forward(self, x, guidance=None):
        t = torch.randint(0, self.steps, (x.shape[0],), device=x.device).long()
        noise = torch.randn_like(x)
        a = self.bar.gather(-1, t).reshape(-1, *((1,) * (x.dim() - 1)))
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        loss = F.mse_loss(self.model(noisy, t), noise, reduction="none").flatten(1).mean(-1)
        snr = a.flatten() / (1 - a.flatten())
        return (loss * snr.clamp(max=5) / snr).mean()

    @torch.no_grad()
    def ddim(self, n, k, eta=0.0, clip=True):
        times = torch.linspace(-1, self.steps - 1, k + 1).int().flip(0).tolist()
        x = torch.randn(n, 4)
        for now, then in zip(times[:-1], times[1:]):
            t = torch.full((n,), now, dtype=torch.long)
            eps = self.model(x, t)
            a, b = self.bar[now], self.bar[then] if then >= 0 else torch.ones(())
            x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
            if clip:
                x0.clamp_(-1.0, 1.0)
            sigma = eta * ((1 - a / b) * (1 - b) / (1 - a)).sqrt()
            x = x0 * b.sqrt() + (1 - b - sigma**2).sqrt() * eps + sigma * torch.randn_like(x)
        return x

    @torch.no_grad()
    def ancestral(self, x, now):
        t = torch.full((x.shape[0],), now, dtype=torch.long)
        eps = self.model(x, t)
        a, p, b = self.bar[now], self.bar_prev[now], self.betas[now]
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
        mean = b * p.sqrt() / (1 - a) * x0 + (1 - p) * (1 - b).sqrt() / (1 - a) * x
        return mean + (b * (1 - p) / (1 - a)).clamp(min=1e-20).sqrt() * torch.randn_like(x) if now > 0 else mean


@program
def cosine_diffusion_loss(c):
    yield from calls(c, Diffusion(), lambda n: leaf(n, 4))


@program(breaks=3)
def ddim_sampler(c):
    model = Diffusion()
    f = c(model.ddim)
    for eta in (0.0, 0.5, 1.0):
        yield f(3, 4, eta)


@program
def ancestral_sampler(c):
    model = Diffusion()
    f, x = c(model.ancestral), torch.randn(2, 4)
    for now in range(6, -1, -1):
        x = f(x, now)
        yield x


def karras(model, x, sigmas, churn=0.5):
    for k in range(len(sigmas) - 1):
        s, t = sigmas[k], sigmas[k + 1]
        gamma = min(churn / (len(sigmas) - 1), 2**0.5 - 1)
        hat = s * (gamma + 1)
        if gamma > 0:
            x = x + torch.randn_like(x) * (hat**2 - s**2) ** 0.5
        d = (x - model(x, hat)) / hat
        new = x + d * (t - hat)
        if k < len(sigmas) - 2:
            d2 = (new - model(new, t)) / t
            new = x + (d + d2) / 2 * (t - hat)
        x = new
    return x


@program
def heun_sampler(c):
    net = nn.Linear(3, 3)

    def model(x, sigma):
        skip = 1 / (sigma**2 + 1)
        return skip * x + sigma * skip.sqrt() * net(x * skip.sqrt())

    f = c(karras)
    with torch.no_grad():
        for n in (4, 4, 5):
            ramp = torch.linspace(0, 1, n)
            sigmas = torch.cat(((10 ** (1 / 7) + ramp * (0.1 ** (1 / 7) - 10 ** (1 / 7))) ** 7, torch.zeros(1)))
            yield f(model, torch.randn(2, 3) * 10, sigmas)


def rectified_flow(model, x, labels, null, scale, steps):
    dt = 1.0 / steps
    for k in range(steps):
        t = torch.ones(x.shape[0]) * k / steps
        both = model(torch.cat((x, x)), torch.cat((t, t)), torch.cat((labels, torch.full_like(labels, null))))
        cond, free = both.chunk(2)
        x = x + dt * (free + scale * (cond - free))
    return x


class Velocity(nn.Module):
    def __init__(self):
        super().__init__()
        self.classes, self.net = nn.Embedding(4, 3), nn.Linear(7, 3)

    def forward(self, x, t, y):
        return self.net(torch.cat((x, t[:, None], self.classes(y)), -1))


@program
def guided_flow(c):
    f, model = c(rectified_flow), Velocity()
    for n, scale in ((2, 1.5), (2, 2.5), (3, 4.0)):
        yield f(model, torch.randn(n, 3), torch.randint(0, 3, (n,)), 3, scale, 4)


class AdaLN(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm, self.mod = (
            nn.LayerNorm(width, elementwise_affine=False, eps=1e-6),
            nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width)),
        )
        self.attn, self.mlp = (
            nn.MultiheadAttention(width, 2, batch_first=True),
            nn.Sequential(nn.Linear(width, 16), nn.GELU("tanh"), nn.Linear(16, width)),
        )
        nn.init.normal_(self.mod[-1].weight, std=0.2)

    def forward(self, x, cond):
        a, b, g, a2, b2, g2 = self.mod(cond).chunk(6, dim=1)
        h = self.norm(x) * (1 + b.unsqueeze(1)) + a.unsqueeze(1)
        x = x + g.unsqueeze(1) * self.attn(h, h, h, need_weights=False)[0]
        return x + g2.unsqueeze(1) * self.mlp(self.norm(x) * (1 + b2.unsqueeze(1)) + a2.unsqueeze(1))


@program
def diffusion_transformer_block(c):
    yield from calls(c, AdaLN(), lambda n: (leaf(n, 5, 8), leaf(n, 8)))


class HierarchicalVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = (
            nn.ModuleList([nn.Linear(6, 8), nn.Linear(4, 4)]),
            nn.ModuleList([nn.Linear(2, 4), nn.Linear(4, 6)]),
        )
        self.log_scale = nn.Parameter(torch.zeros(1))

    def forward(self, x, beta=1.0, free_bits=0.1):
        stats, h = [], x
        for layer in self.enc:
            mu, logvar = layer(h).chunk(2, -1)
            logvar = logvar.clamp(-8, 8)
            h = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
            stats.append((mu, logvar))
        for layer in self.dec:
            h = F.leaky_relu(layer(h), 0.1) if layer is not self.dec[-1] else layer(h)
        nll = 0.5 * ((x - h) / self.log_scale.exp()).pow(2).sum(-1) + self.log_scale * x.shape[-1]
        kl = [torch.clamp(-0.5 * (1 + lv - m**2 - lv.exp()), min=free_bits).sum(-1) for m, lv in stats]
        return {"loss": (nll + beta * sum(kl)).mean(), "kl": torch.stack([k.mean() for k in kl]), "sample": h}


@program
def hierarchical_vae(c):
    betas = iter([0.1 * k for k in range(1, 40)])
    yield from calls(c, HierarchicalVAE(), lambda n: (leaf(n, 6), next(betas)))


class Flow(nn.Module):
    """Affine couplings, forward and inverse, with log determinants."""

    def __init__(self, n=3, width=4):
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(width // 2, 8), nn.Tanh(), nn.Linear(8, width)) for _ in range(n)
        )
        self.register_buffer("order", torch.stack([torch.randperm(width) for _ in range(n)]))
        self.register_buffer("back", self.order.argsort(-1))

    def forward(self, x):
        logdet = x.new_zeros(x.shape[0])
        for k, net in enumerate(self.nets):
            x = x[:, self.order[k]]
            a, b = x.chunk(2, -1)
            s, t = net(a).chunk(2, -1)
            s = torch.tanh(s)
            x = torch.cat((a, b * s.exp() + t), -1)
            logdet += s.sum(-1)
        prior = torch.distributions.Normal(0.0, 1.0, validate_args=False)
        return x, prior.log_prob(x).sum(-1) + logdet

    def inverse(self, z):
        for k in reversed(range(len(self.nets))):
            a, b = z.chunk(2, -1)
            s, t = self.nets[k](a).chunk(2, -1)
            z = torch.cat((a, (b - t) * torch.exp(-torch.tanh(s))), -1)[:, self.back[k]]
        return z


@program
def normalising_flow(c):
    model = Flow()
    yield from calls(c, model, lambda n: leaf(n, 4))
    yield from calls(c, model.inverse, lambda n: leaf(n, 4), sizes=(2, 3))
