"""Methods of training as people ship them: metric learning, quantisation, parametrizations, functions with a backward
of their own, optimizers by hand, meta learning."""

import math

import torch
import torch.nn.functional as F
import torch.nn.utils.parametrize as P
from everyday import calls, leaf, program
from everyday_loops import mlp, weights
from torch import nn


def batch_hard(x, labels, margin=0.3):
    d = torch.cdist(x, x)
    same = labels[:, None] == labels[None]
    eye = torch.eye(len(labels), dtype=torch.bool)
    positive = (d * (same & ~eye)).max(1).values
    negative = (d + 1e5 * same).min(1).values
    return F.relu(positive - negative + margin).mean()


@program
def triplets_batch_hard(c):
    yield from calls(c, batch_hard, lambda n: (leaf(2 * n, 4), torch.arange(n).repeat(2)))


class ArcFace(nn.Module):
    def __init__(self, i=4, o=5, s=8.0, m=0.3):
        super().__init__()
        self.weight, self.s = nn.Parameter(torch.randn(o, i)), s
        self.cos, self.sin, self.th, self.mm = (
            math.cos(m),
            math.sin(m),
            math.cos(math.pi - m),
            math.sin(math.pi - m) * m,
        )

    def forward(self, x, label):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - cosine.pow(2)).clamp(1e-7, 1))
        phi = torch.where(cosine > self.th, cosine * self.cos - sine * self.sin, cosine - self.mm)
        one = torch.zeros(cosine.size())
        one.scatter_(1, label.view(-1, 1).long(), 1)
        return (one * phi + (1.0 - one) * cosine) * self.s


@program
def angular_margin(c):
    yield from calls(c, ArcFace(), lambda n: (leaf(n, 4), torch.randint(0, 5, (n,), dtype=torch.int32)))


class MoCo(nn.Module):
    def __init__(self, k=6):
        super().__init__()
        self.q, self.k = mlp(4, 6, 3), mlp(4, 6, 3)
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.data.copy_(a.data)
            b.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(3, k), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum(self):
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.data = b.data * 0.9 + a.data * 0.1

    def forward(self, x, y):
        q = F.normalize(self.q(x), dim=1)
        with torch.no_grad():
            self.momentum()
            index = torch.randperm(y.shape[0])
            k = F.normalize(self.k(y[index]), dim=1)[index.argsort()]
        logits = (
            torch.cat(
                (
                    torch.einsum("nc,nc->n", q, k).unsqueeze(-1),
                    torch.einsum("nc,ck->nk", q, self.queue.clone().detach()),
                ),
                1,
            )
            / 0.07
        )
        loss = F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))
        with torch.no_grad():
            at = int(self.ptr)
            self.queue[:, at : at + k.shape[0]] = k.T
            self.ptr[0] = (at + k.shape[0]) % self.queue.shape[1]
        return loss


@program(breaks=11)
def momentum_contrast(c):
    model = MoCo()
    f, opt = c(model), torch.optim.SGD(model.q.parameters(), 0.1)
    for _ in range(4):
        loss = f(torch.randn(2, 4), torch.randn(2, 4))
        opt.zero_grad()
        loss.backward()
        opt.step()
        yield loss, weights(model), model.queue, model.ptr


def vicreg(x, y):
    std = [F.relu(1 - torch.sqrt(t.var(0) + 1e-4)).mean() for t in (x, y)]
    cov = []
    for t in (x, y):
        t = t - t.mean(0)
        m = t.T @ t / (len(t) - 1)
        n = m.shape[0]
        cov.append(m.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten().pow(2).sum() / n)
    return 25 * F.mse_loss(x, y) + 25 * sum(std) / 2 + sum(cov)


@program
def variance_covariance(c):
    yield from calls(c, vicreg, lambda n: (leaf(n, 4), leaf(n, 4)), sizes=(3, 3, 5, 2, 1))


class FakeQuantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, zero, low, high):
        q = torch.round(x / scale + zero)
        mask = (q >= low) & (q <= high)
        ctx.save_for_backward(mask, x, scale)
        ctx.bounds = low, high
        return (q.clamp(low, high) - zero) * scale

    @staticmethod
    def backward(ctx, grad):
        mask, x, scale = ctx.saved_tensors
        return grad * mask, (grad * x / scale).sum().reshape(scale.shape), None, None, None


class QLinear(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.scale = nn.Parameter(torch.tensor(0.05))
        self.register_buffer("low", torch.tensor(float("inf")))
        self.register_buffer("high", torch.tensor(-float("inf")))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.low.copy_(torch.minimum(self.low, x.min()))
                self.high.copy_(torch.maximum(self.high, x.max()))
        s = (self.high - self.low).clamp(min=1e-6) / 255
        x = x + (((x / s).round().clamp(-128, 127) * s) - x).detach()
        return F.linear(x, FakeQuantise.apply(self.weight, self.scale.abs(), 0.0, -8, 7), self.bias)


@program(breaks=8)
def quantisation_aware(c):
    yield from calls(c, nn.Sequential(QLinear(3, 4), nn.ReLU(), QLinear(4, 2)), lambda n: leaf(n, 3))


@program
def torch_fake_quantise(c):
    def f(x, w, scale, zero):
        a = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)
        b = torch.fake_quantize_per_channel_affine(w, scale, zero, 0, -8, 7)
        return a @ b.t()

    yield from calls(c, f, lambda n: (leaf(n, 3), leaf(4, 3), torch.rand(4) + 0.05, torch.zeros(4, dtype=torch.int32)))


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, a):
        return a.triu()


class Exponential(nn.Module):
    def forward(self, x):
        return torch.matrix_exp(x - x.mT)


@program
def parametrizations_in_a_row(c):
    model = nn.Linear(3, 3)
    P.register_parametrization(model, "weight", Symmetric())
    P.register_parametrization(model, "weight", Exponential())
    yield from calls(c, model, lambda n: leaf(n, 3), sizes=(2, 2, 3))
    P.remove_parametrizations(model, "weight")
    yield from calls(c, model, lambda n: leaf(n, 3), sizes=(2,))


@program
def parametrized_while_compiled(c):
    model = mlp(3, 4, 2)
    f = c(model)
    for k in range(4):
        if k == 1:
            nn.utils.parametrizations.weight_norm(model[0])
        if k == 2:
            nn.utils.parametrizations.spectral_norm(model[2])
        if k == 3:
            P.remove_parametrizations(model[0], "weight")
        out = f(torch.ones(2, 3))
        model.zero_grad()
        out.sum().backward()
        yield out, {n: p.grad for n, p in model.named_parameters()}, dict(model.named_buffers())


@program
def pruned(c):
    import torch.nn.utils.prune as prune

    model = mlp(4, 6, 2)
    prune.l1_unstructured(model[0], "weight", amount=0.3)
    prune.random_structured(model[2], "weight", amount=0.5, dim=1)
    f = c(model)
    yield from calls(lambda m: f if m is model else m, model, lambda n: leaf(n, 4), sizes=(2, 3))
    prune.remove(model[0], "weight")
    yield f(torch.ones(2, 4)), [n for n, _ in model.named_parameters()]


@program(breaks=7)
def reversible_blocks(c):
    class Reversible(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, f, g):
            ctx.f, ctx.g = f, g
            a, b = x.chunk(2, -1)
            with torch.no_grad():
                a = a + f(b)
                b = b + g(a)
            y = torch.cat((a, b), -1)
            ctx.save_for_backward(y.detach())
            return y

        @staticmethod
        def backward(ctx, dy):
            (y,) = ctx.saved_tensors
            a, b = y.chunk(2, -1)
            da, db = dy.chunk(2, -1)
            with torch.enable_grad():
                a1 = a.detach().requires_grad_()
                ga = ctx.g(a1)
                ga.backward(db)
            with torch.no_grad():
                b = b - ga
                da = da + a1.grad
            with torch.enable_grad():
                b1 = b.detach().requires_grad_()
                ctx.f(b1).backward(da)
            return torch.cat((da, db + b1.grad), -1), None, None

    f, g = mlp(2, 4, 2), mlp(2, 4, 2)
    run = c(lambda x: Reversible.apply(x * 2, f, g).sin())
    for n in (2, 3):
        x = leaf(n, 4)
        out = run(x)
        out.sum().backward()
        yield out, x.grad, [p.grad for m in (f, g) for p in m.parameters()]
        for m in (f, g):
            m.zero_grad()


@program(breaks=8)
def memory_efficient_swish(c):
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            ctx.save_for_backward(i)
            return i * torch.sigmoid(i)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (i,) = ctx.saved_tensors
            s = torch.sigmoid(i)
            return grad * (s * (1 + i * (1 - s)))

    yield from calls(
        c,
        nn.Sequential(
            nn.Linear(3, 4), type("M", (nn.Module,), {"forward": lambda self, x: Swish.apply(x)})(), nn.Linear(4, 2)
        ),
        lambda n: leaf(n, 3),
    )


@program(breaks=7)
def functions_with_several_results(c):
    class TopTwo(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            v, i = x.topk(k, -1)
            ctx.mark_non_differentiable(i)
            ctx.save_for_backward(i)
            ctx.shape = x.shape
            return v, i

        @staticmethod
        def backward(ctx, gv, gi):
            (i,) = ctx.saved_tensors
            return torch.zeros(ctx.shape).scatter_(-1, i, gv), None

    yield from calls(c, lambda x: TopTwo.apply(x * 2, 2), lambda n: leaf(n, 4))


@program(breaks=7)
def function_that_writes(c):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.mark_dirty(x)
            ctx.k = k
            return x.mul_(k)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    yield from calls(c, lambda x: Scale.apply(x + 1, 3.0) * 2, lambda n: leaf(n, 4))


@program(breaks=8)
def functions_without_gradients_for_some(c):
    class Pick(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, flag=True):
            ctx.set_materialize_grads(False)
            ctx.needs = ctx.needs_input_grad
            return a * 2, b * 3

        @staticmethod
        def backward(ctx, ga, gb):
            return None if ga is None else ga * 2, None if gb is None else gb * 3, None

    def f(a, b):
        x, y = Pick.apply(a, b)
        return x.sum() + a.sum()

    yield from calls(c, f, lambda n: (leaf(n), torch.randn(n)))
    yield from calls(c, f, lambda n: (leaf(n), leaf(n)))


@program
def maml_inner_loop(c):
    model = mlp(1, 6, 1)

    def adapt(params, x, y, xq, yq):
        def loss(p):
            return F.mse_loss(torch.func.functional_call(model, p, (x,)), y)

        for _ in range(2):
            grads = torch.func.grad(loss)(params)
            params = {k: v - 0.1 * grads[k] for k, v in params.items()}
        return F.mse_loss(torch.func.functional_call(model, params, (xq,)), yq)

    f = c(adapt)
    for n in (3, 3, 4):
        params = {k: v for k, v in model.named_parameters()}
        out = f(params, *(torch.randn(n, 1) for _ in range(4)))
        model.zero_grad()
        out.backward()
        yield out, [p.grad for p in model.parameters()]


@program
def elastic_weights(c):
    model = mlp(3, 4, 2)
    anchor = {n: p.detach().clone() for n, p in model.named_parameters()}
    fisher = {n: torch.rand_like(p) for n, p in model.named_parameters()}

    def loss(x, y):
        penalty = sum((fisher[n] * (p - anchor[n]) ** 2).sum() for n, p in model.named_parameters())
        return F.cross_entropy(model(x), y) + 0.5 * penalty

    f, opt = c(loss), torch.optim.SGD(model.parameters(), 0.1)
    for k in range(4):
        value = f(torch.randn(3, 3), torch.randint(0, 2, (3,)))
        opt.zero_grad()
        value.backward()
        opt.step()
        if k == 1:
            anchor = {n: p.detach().clone() for n, p in model.named_parameters()}
        yield value, weights(model)


@program
def sharpness_aware(c):
    model = mlp(3, 4, 2)
    f, opt = c(model), torch.optim.SGD(model.parameters(), 0.1)

    @c
    @torch.no_grad()
    def climb(params, rho):
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        e = [p.grad * (rho / (norm + 1e-12)) for p in params]
        for p, d in zip(params, e):
            p.add_(d)
        return e

    for _ in range(3):
        x, y = torch.randn(3, 3), torch.randint(0, 2, (3,))
        F.cross_entropy(f(x), y).backward()
        e = climb(list(model.parameters()), 0.05)
        opt.zero_grad()
        F.cross_entropy(f(x), y).backward()
        with torch.no_grad():
            torch._foreach_sub_([*model.parameters()], e)
        opt.step()
        opt.zero_grad()
        yield weights(model)


@program(breaks=3)
def lion(c):
    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1):
            super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

        @torch.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = torch.zeros_like(p)
                    m = state["exp_avg"]
                    update = m.clone().mul_(group["betas"][0]).add(p.grad, alpha=1 - group["betas"][0]).sign_()
                    p.add_(update, alpha=-group["lr"])
                    m.mul_(group["betas"][1]).add_(p.grad, alpha=1 - group["betas"][1])
            return loss

    model = mlp(3, 4, 2)
    opt = Lion(model.parameters())
    f, step = c(model), c(opt.step)
    for _ in range(4):
        f(torch.ones(2, 3)).square().sum().backward()
        step()
        opt.zero_grad()
        yield weights(model), [s["exp_avg"] for s in opt.state.values()]


@program
def muon(c):
    def newton_schulz(g, steps=3):
        a, b, d = 3.4445, -4.7750, 2.0315
        x = g.bfloat16()
        x = x / (x.norm() + 1e-7)
        if g.size(0) > g.size(1):
            x = x.T
        for _ in range(steps):
            m = x @ x.T
            x = a * x + (b * m + d * m @ m) @ x
        return x.T if g.size(0) > g.size(1) else x

    f = c(newton_schulz)
    for sizes in ((3, 5), (5, 3), (4, 4), (6, 5)):
        yield f(torch.randn(sizes))


@program(breaks=11)
def evaluation_loop_with_metrics(c):
    model = mlp(3, 4, 2)

    class Metric:
        def __init__(self):
            self.right, self.total, self.losses = 0, 0, []

        def update(self, logits, y):
            self.right += (logits.argmax(-1) == y).sum().item()
            self.total += len(y)
            self.losses.append(F.cross_entropy(logits, y).item())

    @torch.inference_mode()
    def evaluate(batches, metric):
        model.eval()
        for x, y in batches:
            metric.update(model(x), y)
        model.train()
        return metric.right / metric.total

    f = c(evaluate)
    for sizes in ((4, 4, 3), (4, 4, 1)):
        metric = Metric()
        yield (
            f([(torch.randn(n, 3), torch.randint(0, 2, (n,))) for n in sizes], metric),
            metric.total,
            [round(v, 4) for v in metric.losses],
            model.training,
        )
