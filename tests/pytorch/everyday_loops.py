"""Loops of training as people ship them: two optimizers, penalties, averages, scalers, schedules, frozen layers."""

import contextlib
import io

import torch
import torch.nn.functional as F
from everyday import calls, program
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn


def mlp(*sizes, act=nn.Tanh):
    return nn.Sequential(*[m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), act())][:-1])


def weights(*modules):
    return [p.detach() for m in modules for p in m.parameters()]


@program
def gan_two_optimizers(c):
    g, d = mlp(3, 8, 4), mlp(4, 8, 1)
    fg, fd = c(g), c(d)
    og, od = torch.optim.Adam(g.parameters(), 1e-2, betas=(0.5, 0.999)), torch.optim.Adam(d.parameters(), 1e-2)
    bce = nn.BCEWithLogitsLoss()
    for _ in range(3):
        real, z = torch.randn(5, 4), torch.randn(5, 3)
        fake = fg(z)
        od.zero_grad()
        loss_d = bce(fd(real), torch.ones(5, 1)) + bce(fd(fake.detach()), torch.zeros(5, 1))
        loss_d.backward()
        od.step()
        og.zero_grad()
        loss_g = bce(fd(fake), torch.ones(5, 1))
        loss_g.backward()
        og.step()
        yield loss_d, loss_g, weights(g, d), [p.grad for p in d.parameters()]


@program(breaks=4)
def wgan_step_in_one_function(c):
    g, d = mlp(3, 8, 4), mlp(4, 8, 1)
    og, od = torch.optim.RMSprop(g.parameters(), 1e-2), torch.optim.RMSprop(d.parameters(), 1e-2)

    def step(real, z):
        od.zero_grad(set_to_none=True)
        loss = d(g(z).detach()).mean() - d(real).mean()
        loss.backward()
        od.step()
        with torch.no_grad():
            for p in d.parameters():
                p.clamp_(-0.1, 0.1)
        og.zero_grad(set_to_none=True)
        score = -d(g(z)).mean()
        score.backward()
        og.step()
        return loss.detach(), score.detach()

    f = c(step)
    for _ in range(3):
        yield f(torch.randn(5, 4), torch.randn(5, 3)), weights(g, d)


@program
def gradient_penalty_by_func(c):
    d = mlp(4, 8, 1)

    def penalty(x):
        score = torch.func.grad(lambda t: d(t).sum())(x)
        return ((score.norm(2, dim=1) - 1) ** 2).mean()

    yield from calls(c, penalty, lambda n: torch.randn(n, 4).requires_grad_())


@program
def r1_penalty_of_plain_model_with_compiled_generator(c):
    g, d = mlp(3, 8, 4), mlp(4, 8, 1)
    fg = c(g)
    for _ in range(3):
        fake = fg(torch.randn(4, 3))
        (grad,) = torch.autograd.grad(d(fake).sum(), fake, create_graph=True)
        loss = grad.square().sum() + fake.mean()
        loss.backward()
        yield (
            loss,
            [p.grad.clone() for p in g.parameters()],
            [p.grad.clone() for p in d.parameters() if p.grad is not None],
        )


@program
def accumulated_with_a_partial_last_batch(c):
    model = mlp(3, 4, 2)
    f, opt = c(model), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)
    data = torch.utils.data.TensorDataset(torch.randn(11, 3), torch.randint(0, 2, (11,)))
    for epoch in range(2):
        for k, (x, y) in enumerate(torch.utils.data.DataLoader(data, 4, shuffle=True)):
            loss = F.cross_entropy(f(x), y) / 2
            loss.backward()
            if (k + 1) % 2 == 0 or k == 2:
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                opt.step()
                opt.zero_grad()
        yield loss, norm, weights(model)


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, k):
        return torch.arange(k % 4 + 1), k % 2


def pad(batch):
    words, labels = zip(*batch)
    return (
        pad_sequence(words, batch_first=True, padding_value=0),
        torch.tensor([len(w) for w in words]),
        torch.tensor(labels),
    )


@program
def workers_and_collate(c):
    embed, head = nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 2)

    def f(words, lengths, labels):
        mask = torch.arange(words.shape[1])[None] < lengths[:, None]
        x = (embed(words) * mask[..., None]).sum(1) / lengths[:, None]
        return F.cross_entropy(head(x), labels)

    g = c(f)
    loader = torch.utils.data.DataLoader(Words(), 3, num_workers=1, collate_fn=pad)
    for batch in loader:
        loss = g(*batch)
        loss.backward()
        yield loss, embed.weight.grad.clone()


@program
def grad_scaler_on_cpu(c):
    model = mlp(3, 8, 2)
    f, opt, scaler = (
        c(model),
        torch.optim.SGD(model.parameters(), 0.1),
        torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2),
    )
    for k in range(5):
        x = torch.randn(4, 3)
        if k == 2:
            x[0, 0] = float("inf")
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(f(x).float(), torch.ones(4, 2))
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        yield loss, scaler.get_scale(), weights(model)


@program
def swa(c):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    f, opt = c(model), torch.optim.SGD(model.parameters(), 0.1)
    averaged, schedule = AveragedModel(model), SWALR(opt, anneal_strategy="cos", anneal_epochs=3, swa_lr=0.05)
    data = [torch.randn(4, 3) for _ in range(3)]
    for x in data:
        opt.zero_grad()
        f(x).square().mean().backward()
        opt.step()
        averaged.update_parameters(model)
        schedule.step()
    g = c(averaged)
    update_bn(data, averaged)
    averaged.eval()
    yield g(data[0]), dict(averaged.named_buffers()), weights(averaged), opt.param_groups[0]["lr"]


@program
def ema_of_compiled_model(c):
    model = mlp(3, 4, 2)
    f, opt = c(model), torch.optim.AdamW(model.parameters(), 0.05)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    for _ in range(3):
        opt.zero_grad()
        f(torch.randn(4, 3)).square().mean().backward()
        opt.step()
        ema.update_parameters(model)
        with torch.no_grad():
            yield ema(torch.ones(1, 3)), weights(ema)


@program
def ema_swapped_in_and_out(c):
    model = mlp(3, 4, 2)
    f = c(model)
    shadow = {k: v.clone() for k, v in model.state_dict().items()}

    @contextlib.contextmanager
    def averaged():
        kept = {k: v.clone() for k, v in model.state_dict().items()}
        model.load_state_dict(shadow)
        try:
            yield
        finally:
            model.load_state_dict(kept)

    opt = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(3):
        opt.zero_grad()
        f(torch.ones(2, 3)).square().sum().backward()
        opt.step()
        for k, v in model.state_dict().items():
            shadow[k].mul_(0.5).add_(v, alpha=0.5)
        with averaged(), torch.no_grad():
            inside = f(torch.ones(2, 3))
        yield inside, f(torch.ones(2, 3))


@program
def schedules_of_every_kind(c):
    S = torch.optim.lr_scheduler
    kinds = [
        lambda o: S.OneCycleLR(o, 0.1, total_steps=10),
        lambda o: S.CosineAnnealingWarmRestarts(o, 2),
        lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=2), S.CosineAnnealingLR(o, 5)], [2]),
        lambda o: S.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
        lambda o: S.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    ]
    for make in kinds:
        model = mlp(3, 4, 2)
        opt = torch.optim.SGD(
            [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.05, "weight_decay": 0.1}], 0.1
        )
        f, step, schedule = c(model), c(opt.step), make(opt)
        for _ in range(4):
            f(torch.ones(2, 3)).square().sum().backward()
            step()
            opt.zero_grad()
            schedule.step()
        yield weights(model), [g["lr"] for g in opt.param_groups]


@program
def plateau_with_items(c):
    model = mlp(3, 4, 2)
    f, opt = c(model), torch.optim.Adam(model.parameters(), 0.1, amsgrad=True)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    for k in range(5):
        loss = f(torch.ones(2, 3) * (k % 2 + 1)).square().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step(loss.item())
        yield loss, opt.param_groups[0]["lr"]


@program
def optimizer_state_reloaded(c):
    model = mlp(3, 4, 2)
    opt = torch.optim.AdamW(model.parameters(), 0.05)
    f, step = c(model), c(opt.step)
    for k in range(4):
        f(torch.ones(2, 3)).square().sum().backward()
        step()
        opt.zero_grad()
        if k == 1:
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
        if k == 2:
            file.seek(0)
            saved = torch.load(file)
            model.load_state_dict(saved["model"])
            opt.load_state_dict(saved["opt"])
        yield weights(model), [s["step"].item() for s in opt.state.values()]


@program
def layers_unfrozen_one_by_one(c):
    model = mlp(3, 4, 4, 2)
    model.requires_grad_(False)
    f = c(model)
    for layer in (4, 2, 0):
        model[layer].requires_grad_(True)
        opt = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), 0.1)
        for _ in range(2):
            opt.zero_grad()
            f(torch.randn(3, 3)).square().mean().backward()
            opt.step()
        yield weights(model), [p.grad is None for p in model.parameters()]


@program
def parameter_groups_added(c):
    model = mlp(3, 4, 2)
    opt = torch.optim.SGD(model[0].parameters(), 0.1, momentum=0.5)
    f, step = c(model), c(opt.step)
    for k in range(4):
        if k == 2:
            opt.add_param_group({"params": model[2].parameters(), "lr": 0.01})
        opt.zero_grad()
        f(torch.ones(3, 3)).square().mean().backward()
        step()
        yield weights(model)


@program
def gradients_kept_by_hand(c):
    """Gradients set, scaled, cleared in part and shared between steps."""
    model = mlp(3, 4, 2)
    f = c(model)
    for k in range(4):
        f(torch.randn(2, 3)).sum().backward()
        for p in model.parameters():
            p.grad.mul_(0.5) if k % 2 else p.grad.copy_(p.grad.sign())
        if k == 2:
            model[0].weight.grad = None
        yield [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@program
def hooks_on_parameters(c):
    model = mlp(3, 4, 2)
    told = []
    model[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    model[2].bias.register_post_accumulate_grad_hook(lambda p: told.append(p.grad.sum().item()))
    f = c(model)
    for _ in range(3):
        f(torch.randn(2, 3)).sum().backward()
        yield [p.grad.clone() for p in model.parameters()], [round(v, 4) for v in told]


@program
def optimizer_in_backward(c):
    model = mlp(3, 4, 2)
    opts = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

    def hook(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    f = c(model)
    for _ in range(3):
        f(torch.ones(2, 3)).square().sum().backward()
        yield weights(model), [p.grad for p in model.parameters()]
