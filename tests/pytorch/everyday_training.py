"""Training as people write it: every optimizer with its step outside and compiled, schedulers, clipping, moving
averages, mixed precision, accumulation, checkpointing, losses, gradients by hand."""

import functools
import itertools

import torch
import torch.nn.functional as F
from everyday import PROGRAMS, calls, leaf, program
from torch import nn, optim
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset


def net():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def state_of(optimizer):
    return [{k: v for k, v in s.items()} for s in optimizer.state.values()]


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd_momentum": lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, 0.01),
    "adam_amsgrad": lambda p: optim.Adam(p, 0.01, amsgrad=True, foreach=False),
    "adam_foreach": lambda p: optim.Adam(p, 0.01, foreach=True),
    "adam_capturable": lambda p: optim.Adam(p, torch.tensor(0.01), foreach=False),
    "adamw": lambda p: optim.AdamW(p, 0.01),
    "adamw_fused": lambda p: optim.AdamW(p, 0.01, fused=True),
    "nadam": lambda p: optim.NAdam(p, 0.01),
    "radam": lambda p: optim.RAdam(p, 0.01),
    "adamax": lambda p: optim.Adamax(p, 0.01),
    "adadelta": lambda p: optim.Adadelta(p, 0.5),
    "adagrad": lambda p: optim.Adagrad(p, 0.05),
    "asgd": lambda p: optim.ASGD(p, 0.05),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, centered=True, momentum=0.5),
    "rprop": lambda p: optim.Rprop(p, 0.01),
    "adafactor": lambda p: optim.Adafactor(p, 0.05),
}


def train(c, make, compile_step):
    model = net()
    opt, f = make(model.parameters()), c(model)
    step = c(opt.step) if compile_step else opt.step
    for k, n in enumerate((3, 3, 3, 5, 2)):
        opt.zero_grad(set_to_none=k % 2 == 0)
        loss = F.cross_entropy(f(torch.randn(n, 4)), torch.randint(0, 2, (n,)))
        loss.backward()
        step()
        if k == 2:
            for group in opt.param_groups:
                group["lr"] *= 0.5
        yield loss, list(model.parameters()), [p.grad for p in model.parameters()], state_of(opt)


STEP_BREAKS = {  # data decide there, or the fused step has no functional form; others are whole graphs
    "adamw_fused": 2,
    "radam": 4,
    "asgd": 6,
    "adafactor": 9,
}


def _add_optimizers():
    for name, make in OPTIMIZERS.items():
        for compiled in (False, True):

            def run(c, make=make, compiled=compiled):
                return train(c, make, compiled)

            run.__name__ = f"{name}_step{'_compiled' if compiled else ''}"
            program(run, breaks=STEP_BREAKS.get(name, 0) if compiled else 0)


_add_optimizers()


@program
def lbfgs(c):
    model = net()
    f, opt = c(model), optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    x, t = torch.randn(5, 4), torch.randn(5, 2)

    def closure():
        opt.zero_grad()
        loss = F.mse_loss(f(x), t)
        loss.backward()
        return loss

    for _ in range(2):
        yield opt.step(closure), list(model.parameters())


@program
def schedulers(c):
    model = net()
    f, opt = c(model), optim.SGD(model.parameters(), 0.1)
    plans = [optim.lr_scheduler.LinearLR(opt, 0.5, total_iters=2), optim.lr_scheduler.CosineAnnealingLR(opt, 5)]
    for _ in range(4):
        opt.zero_grad()
        f(torch.randn(3, 4)).square().mean().backward()
        opt.step()
        for plan in plans:
            plan.step()
        yield plans[0].get_last_lr(), list(model.parameters())


@program(breaks=12)
def scheduler_compiled_step_with_tensor_lr(c):
    model = net()
    opt = optim.Adam(model.parameters(), lr=torch.tensor(0.01), foreach=False)
    plan, step = optim.lr_scheduler.ExponentialLR(opt, 0.5), c(opt.step)
    for _ in range(4):
        opt.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        step()
        plan.step()
        yield list(model.parameters()), opt.param_groups[0]["lr"]


@program(breaks=14)
def whole_step_in_one_function(c):
    model = net()
    opt = optim.SGD(model.parameters(), 0.1)

    def step(x, t):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        opt.step()
        return loss.detach()

    f = c(step)
    for n in (3, 3, 4):
        yield f(torch.randn(n, 4), torch.randint(0, 2, (n,))), list(model.parameters())


@program
def clipping_and_accumulation(c):
    model = net()
    f, opt = c(model), optim.AdamW(model.parameters(), 0.01)
    for k in range(6):
        (f(torch.randn(3, 4)).square().mean() / 2).backward()
        if k % 2:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
            opt.step()
            opt.zero_grad()
            yield norm, list(model.parameters())


@program(breaks=18)
def clip_grad_norm_compiled(c):
    model = net()
    clip = c(lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1))
    for n in (3, 3, 4):
        model.zero_grad()
        model(torch.randn(n, 4)).square().sum().backward()
        yield clip(), [p.grad for p in model.parameters()]


@program
def moving_average_by_hand(c):
    model, ema = net(), net()

    @torch.no_grad()
    def update(decay):
        for a, b in zip(ema.parameters(), model.parameters()):
            a.mul_(decay).add_(b, alpha=1 - decay)

    f = c(update)
    for k in range(4):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1)
        f(0.9 + k / 100)
        yield list(ema.parameters())


@program
def moving_average_lerp(c):
    model, ema = net(), net()

    @torch.no_grad()
    def update():
        for a, b in zip(ema.parameters(), model.parameters(), strict=True):
            a.lerp_(b, 0.1)
        torch._foreach_mul_(list(ema.parameters()), 0.99)

    f = c(update)
    for _ in range(3):
        f()
        yield list(ema.parameters())


@program
def averaged_model(c):
    model = net()
    f, average = c(model), optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    opt = optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        opt.zero_grad()
        f(torch.randn(3, 4)).square().mean().backward()
        opt.step()
        average.update_parameters(model)
        yield list(average.parameters()), c(average)(torch.ones(1, 4))


@program
def autocast_training(c):
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2))
    f, opt = c(model), optim.SGD(model.parameters(), 0.05)
    for n in (3, 3, 5):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = f(torch.randn(n, 4))
            loss = F.cross_entropy(out, torch.randint(0, 2, (n,)))
        loss.backward()
        opt.step()
        yield out, loss, [p.bfloat16() for p in model.parameters()]  # gradients are added up in the smaller dtype


@program
def autocast_inside(c):
    model = net()

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        return y.float().square().mean(), y

    step.__self__ = model
    yield from calls(c, step, lambda n: leaf(n, 4))


@program
def autocast_as_decorator(c):
    model = net()

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def step(x):
        return model(x).float().logsumexp(-1)

    step.__self__ = model
    yield from calls(c, step, lambda n: leaf(n, 4))


@program
def disabled_grad_scaler(c):
    model = net()
    f, opt, scaler = c(model), optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu", enabled=False)
    for n in (3, 3, 4):
        opt.zero_grad()
        scaler.scale(f(torch.randn(n, 4)).square().mean()).backward()
        scaler.step(opt)
        scaler.update()
        yield list(model.parameters())


@program
def checkpointed(c):
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)

    def f(x):
        x = checkpoint(lambda t: a(t).tanh(), x, use_reentrant=False)
        return checkpoint(b, x, use_reentrant=False)

    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def checkpointed_sequential(c):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)])

    def f(x):
        return checkpoint_sequential(model, 2, x, use_reentrant=False)

    f.__self__ = model
    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def data_loader(c):
    data = TensorDataset(torch.randn(10, 4), torch.randint(0, 2, (10,)))
    model = net()
    f, opt = c(model), optim.Adam(model.parameters(), 0.01)
    for x, t in DataLoader(data, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)):
        opt.zero_grad()
        loss = F.cross_entropy(f(x), t)
        loss.backward()
        opt.step()
        yield loss, list(model.parameters())


@program(breaks=5)
def epoch_compiled(c):
    data = TensorDataset(torch.randn(10, 4), torch.randint(0, 2, (10,)))
    loader, model = DataLoader(data, batch_size=4), net()

    @torch.no_grad()
    def evaluate():
        right = count = 0
        for x, t in loader:
            right += (model(x).argmax(1) == t).sum().item()
            count += len(t)
        return right / count

    f = c(evaluate)
    for _ in range(3):
        yield f()


@program
def frozen_backbone(c):
    model = nn.ModuleDict({"body": nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "head": nn.Linear(4, 2)})
    model.forward = lambda x: model["head"](model["body"](x))
    model["body"].requires_grad_(False).eval()
    yield from calls(c, model, lambda n: leaf(n, 4))
    model["body"].requires_grad_(True).train()
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def gradient_penalty_outside(c):
    model = net()
    f = c(model)
    for n in (3, 3, 4):
        x = leaf(n, 4)
        (g,) = torch.autograd.grad(f(x).sum(), x)
        yield g, x.grad


@program(breaks=9)
def saliency_inside(c):
    model = net()

    def f(x):
        x = x.detach().requires_grad_()
        score = model(x).max(-1).values.sum()
        return torch.autograd.grad(score, x)[0].abs()

    yield from calls(c, f, lambda n: torch.randn(n, 4), grads=(True,))


@program(breaks=8)
def fgsm(c):
    model = net()

    def attack(x, t):
        d = torch.zeros_like(x, requires_grad=True)
        F.cross_entropy(model(x + d), t).backward()
        return (x + 0.1 * d.grad.sign()).clamp(-1, 1)

    f = c(attack)
    for n in (3, 3, 4):
        yield f(torch.randn(n, 4), torch.randint(0, 2, (n,)))


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(x)
        return (x * levels).round() / levels

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1), None


class ScaledSwish(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, beta):
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.beta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return g * (s + ctx.beta * x * s * (1 - s)), None


class GradientReversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.alpha * g, None


@program(breaks=5)
def autograd_function_straight_through(c):
    yield from calls(c, lambda x: StraightThrough.apply(x * 2, 4).sin(), lambda n: leaf(n, 4))


@program(breaks=10)
def autograd_function_setup_context(c):
    yield from calls(c, lambda x: ScaledSwish.apply(x, 1.5) + 1, lambda n: leaf(n, 4))


@program(breaks=5)
def gradient_reversal(c):
    lin = nn.Linear(4, 2)
    yield from calls(c, lambda x: GradientReversal.apply(lin(x), 0.5).tanh(), lambda n: leaf(n, 4))


# ---- losses ----


@program
def classification_losses(c):
    def f(x, t):
        return (
            F.cross_entropy(x, t, label_smoothing=0.1),
            F.nll_loss(x.log_softmax(-1), t, weight=torch.tensor([1.0, 2.0, 0.5])),
            F.binary_cross_entropy_with_logits(x, F.one_hot(t, 3).float(), pos_weight=torch.ones(3) * 2),
            F.multi_margin_loss(x, t),
            F.multilabel_soft_margin_loss(x, F.one_hot(t, 3).float()),
            F.cross_entropy(x, x.detach().softmax(-1)),
            F.cross_entropy(x, t, reduction="none", ignore_index=1),
        )

    yield from calls(c, f, lambda n: (leaf(n, 3), torch.randint(0, 3, (n,))))


@program(breaks=1)
def regression_losses(c):
    def f(x, y):
        return (
            F.mse_loss(x, y),
            F.l1_loss(x, y),
            F.smooth_l1_loss(x, y),
            F.huber_loss(x, y, delta=0.5),
            F.poisson_nll_loss(x, y.exp()),
            F.gaussian_nll_loss(x, y, torch.ones_like(x)),
            F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
            F.soft_margin_loss(x, y.sign()),
            F.hinge_embedding_loss(x, y.sign()),
            F.margin_ranking_loss(x, y, torch.ones_like(x)),
        )

    yield from calls(c, f, lambda n: (leaf(n, 3), torch.randn(n, 3)))


@program
def focal_and_dice(c):
    def f(x, t):
        ce = F.binary_cross_entropy_with_logits(x, t, reduction="none")
        p = torch.exp(-ce)
        s = x.sigmoid()
        return ((1 - p) ** 2 * ce).mean(), 1 - (2 * (s * t).sum() + 1) / (s.sum() + t.sum() + 1)

    yield from calls(c, f, lambda n: (leaf(n, 4), (torch.rand(n, 4) > 0.5).float()))


@program
def ctc(c):
    def f(x, t):
        return F.ctc_loss(x.log_softmax(-1), t, torch.full((2,), 6), torch.full((2,), 3))

    yield from calls(c, f, lambda n: (leaf(6, 2, 5), torch.randint(1, 5, (2, 3))), grads=(True, False))


@program
def ppo(c):
    policy, value = nn.Linear(4, 3), nn.Linear(4, 1)

    def loss(obs, act, old, adv, ret):
        dist = torch.distributions.Categorical(logits=policy(obs), validate_args=False)
        ratio = (dist.log_prob(act) - old).exp()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        return pg + 0.5 * F.mse_loss(value(obs).squeeze(-1), ret) - 0.01 * dist.entropy().mean()

    yield from calls(
        c, loss, lambda n: (leaf(n, 4), torch.randint(0, 3, (n,)), torch.randn(n), torch.randn(n), torch.randn(n))
    )


@program
def dqn(c):
    q, target = net(), net()
    target.load_state_dict(q.state_dict())

    def loss(s, a, r, s2, done):
        now = q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = target(s2).max(1)[0]
        return F.smooth_l1_loss(now, r + 0.99 * best * (1 - done.float()))

    loss.__self__ = q
    yield from calls(
        c,
        loss,
        lambda n: (
            torch.randn(n, 4),
            torch.randint(0, 2, (n,)),
            torch.randn(n),
            torch.randn(n, 4),
            torch.rand(n) > 0.5,
        ),
    )


@program
def returns_and_advantages(c):
    def gae(rewards, values, gamma=0.99, lam=0.95):
        adv, last = torch.zeros_like(rewards), 0
        for t in reversed(range(len(rewards))):
            following = values[t + 1] if t + 1 < len(rewards) else 0.0
            last = rewards[t] + gamma * following - values[t] + gamma * lam * last
            adv[t] = last
        return adv, adv + values

    yield from calls(c, gae, lambda n: (torch.randn(n), leaf(n)))


@program(breaks=5)
def policy_sampling(c):
    policy = nn.Linear(4, 3)

    def act(obs):
        dist = torch.distributions.Categorical(logits=policy(obs), validate_args=True)
        a = dist.sample()
        return a, dist.log_prob(a), dist.entropy()

    yield from calls(c, act, lambda n: torch.randn(n, 4))


@program
def gaussian_policy(c):
    mean, scale = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))

    def act(obs):
        dist = torch.distributions.Normal(mean(obs).tanh(), scale.exp(), validate_args=False)
        a = dist.rsample()
        return a, dist.log_prob(a).sum(-1), dist.entropy().sum(-1)

    yield from calls(c, act, lambda n: leaf(n, 4))


@program
def reward_normaliser(c):
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in (("mean", 0.0), ("var", 1.0), ("count", 1e-4)):
                self.register_buffer(name, torch.tensor(value))

        def forward(self, x):
            m, v, n = x.mean(), x.var(unbiased=False), x.numel()
            delta, total = m - self.mean, self.count + n
            self.mean = self.mean + delta * n / total
            self.var = (self.var * self.count + v * n + delta**2 * self.count * n / total) / total
            self.count = total
            return (x - self.mean) / (self.var + 1e-8).sqrt()

    yield from calls(c, Running(), lambda n: torch.randn(n, 4))


@program
def mixup_and_cutout(c):
    def f(x, t, lam):
        index = torch.randperm(x.size(0))
        x = lam * x + (1 - lam) * x[index]
        x = x * (torch.rand(x.shape[0], 1, 1) > 0.2)
        return x, lam * F.one_hot(t, 3) + (1 - lam) * F.one_hot(t[index], 3)

    yield from calls(c, f, lambda n: (leaf(n, 4, 4), torch.randint(0, 3, (n,)), 0.3 + n / 20))


@program
def knowledge_distillation(c):
    teacher, student = net().eval().requires_grad_(False), net()

    def loss(x, t, temperature=2.0):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, -1)
        out = student(x)
        kd = F.kl_div(F.log_softmax(out / temperature, -1), soft, reduction="batchmean") * temperature**2
        return 0.5 * kd + 0.5 * F.cross_entropy(out, t)

    loss.__self__ = student
    yield from calls(c, loss, lambda n: (torch.randn(n, 4), torch.randint(0, 2, (n,))))


@program
def byol(c):
    online, target, predictor = net(), net(), nn.Linear(2, 2)

    def loss(a, b):
        p = F.normalize(predictor(online(a)), dim=-1)
        with torch.no_grad():
            z = F.normalize(target(b), dim=-1)
        return (2 - 2 * (p * z.detach()).sum(-1)).mean()

    f = c(loss)
    opt = optim.SGD(itertools.chain(online.parameters(), predictor.parameters()), 0.1)
    for n in (3, 3, 4):
        opt.zero_grad()
        value = f(torch.randn(n, 4), torch.randn(n, 4))
        value.backward()
        opt.step()
        with torch.no_grad():
            for a, b in zip(online.parameters(), target.parameters()):
                b.data.mul_(0.9).add_(0.1 * a.data)
        yield value, list(target.parameters()), list(predictor.parameters())


@program
def weight_decay_by_hand(c):
    model = net()

    def loss(x):
        penalty = sum(p.pow(2).sum() for name, p in model.named_parameters() if not name.endswith("bias"))
        return model(x).square().mean() + 1e-2 * penalty

    loss.__self__ = model
    yield from calls(c, loss, lambda n: leaf(n, 4))


@program
def sgd_by_hand(c):
    w, b = leaf(4, 2), leaf(2)

    def loss(w, b, x):
        return (x @ w + b).square().mean()

    f = c(loss)
    for n in (3, 3, 4, 4):
        value = f(w, b, torch.randn(n, 4))
        grads = torch.autograd.grad(value, [w, b])
        with torch.no_grad():
            for p, g in zip((w, b), grads):
                p -= 0.1 * g
        yield value, w, b


@program
def maml(c):
    def inner(w, x, t):
        return F.mse_loss(torch.tanh(x @ w), t)

    f = c(functools.partial(inner, x=torch.randn(3, 4), t=torch.randn(3, 2)))
    w = leaf(4, 2)
    for _ in range(3):
        (g,) = torch.autograd.grad(f(w), w)
        yield f((w - 0.1 * g).detach().requires_grad_()), g


assert len(PROGRAMS) > 60
