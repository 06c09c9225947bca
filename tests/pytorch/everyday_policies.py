"""Reinforcement, distributions and sequences as people ship them."""

import collections
import math
import random

import torch
import torch.distributions as D
import torch.nn.functional as F
from everyday import calls, leaf, program
from everyday_loops import mlp, weights
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

# ---- reinforcement ----


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pi, self.v = mlp(4, 8, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, obs):
        h = self.body(obs).tanh()
        return D.Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)

    def act(self, obs):
        dist, value = self(obs)
        action = dist.sample()
        return action, dist.log_prob(action), value

    def evaluate(self, obs, action):
        dist, value = self(obs)
        return dist.log_prob(action), dist.entropy(), value


def advantages(rewards, values, dones, last, gamma=0.99, lam=0.95):
    out, running = torch.zeros_like(rewards), 0
    for t in reversed(range(len(rewards))):
        then = last if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + gamma * then * (1 - dones[t]) - values[t]
        out[t] = running = delta + gamma * lam * (1 - dones[t]) * running
    return out, out + values


@program
def ppo_loop(c):
    model = ActorCritic()
    act, evaluate, gae = c(model.act), c(model.evaluate), c(advantages)
    opt = torch.optim.Adam(model.parameters(), 3e-3, eps=1e-5)
    obs = torch.randn(3, 4)
    for _ in range(2):
        kept = collections.defaultdict(list)
        with torch.no_grad():
            for _ in range(4):
                action, logp, value = act(obs)
                for name, t in dict(
                    obs=obs,
                    action=action,
                    logp=logp,
                    value=value,
                    reward=action.float() - 1,
                    done=(action == 2).float(),
                ).items():
                    kept[name].append(t)
                obs = obs.roll(1, 0) + action[:, None] * 0.1
            kept = {k: torch.stack(v) for k, v in kept.items()}
            adv, returns = gae(kept["reward"], kept["value"], kept["done"], model(obs)[1])
        flattened = {k: v.flatten(0, 1) for k, v in kept.items()} | {"adv": adv.flatten(), "returns": returns.flatten()}
        for index in torch.randperm(12).split(5):
            b = {k: v[index] for k, v in flattened.items()}
            logp, entropy, value = evaluate(b["obs"], b["action"])
            a = (b["adv"] - b["adv"].mean()) / (b["adv"].std() + 1e-8)
            ratio = (logp - b["logp"]).exp()
            loss = (
                -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
                + 0.5 * F.mse_loss(value, b["returns"])
                - 0.01 * entropy.mean()
            )
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
        yield adv, loss, weights(model)


class Replay:
    def __init__(self, size=8):
        self.obs, self.next, self.size, self.at, self.full = torch.zeros(size, 4), torch.zeros(size, 4), size, 0, False
        self.action, self.reward, self.done = (
            torch.zeros(size, dtype=torch.long),
            torch.zeros(size),
            torch.zeros(size, dtype=torch.bool),
        )

    def add(self, obs, action, reward, then, done):
        self.obs[self.at], self.action[self.at], self.reward[self.at] = obs, action, reward
        self.next[self.at], self.done[self.at] = then, done
        self.at = (self.at + 1) % self.size
        self.full = self.full or self.at == 0

    def sample(self, n):
        index = torch.randint(0, self.size if self.full else self.at, (n,))
        return self.obs[index], self.action[index], self.reward[index], self.next[index], self.done[index]


@program
def replay_buffer(c):
    q, target = mlp(4, 8, 3), mlp(4, 8, 3)
    target.load_state_dict(q.state_dict())
    buffer = Replay()
    add, sample = c(buffer.add), c(buffer.sample)

    def loss(obs, action, reward, then, done):
        value = q(obs).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            best = q(then).argmax(1, keepdim=True)
            goal = reward + 0.9 * target(then).gather(1, best).squeeze(1) * ~done
        return F.smooth_l1_loss(value, goal), (value - goal).abs().detach()

    f, opt = c(loss), torch.optim.Adam(q.parameters(), 0.01)
    for k in range(11):
        add(torch.randn(4), k % 3, float(k % 2), torch.randn(4), k % 5 == 4)
        if k > 2:
            value, priority = f(*sample(3))
            opt.zero_grad()
            value.backward()
            opt.step()
            with torch.no_grad():
                for a, b in zip(target.parameters(), q.parameters()):
                    a.lerp_(b, 0.1)
            yield value, priority, buffer.at, buffer.full, buffer.obs, weights(q, target)


class SquashedPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(4, 8, 4)

    def forward(self, obs, deterministic=False):
        mu, log_std = self.net(obs).chunk(2, -1)
        std = log_std.clamp(-20, 2).exp()
        dist = D.Normal(mu, std, validate_args=False)
        u = mu if deterministic else dist.rsample()
        logp = dist.log_prob(u).sum(-1) - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), logp


@program
def soft_actor_critic(c):
    policy, q1, q2 = SquashedPolicy(), mlp(6, 8, 1), mlp(6, 8, 1)
    log_alpha = torch.zeros(1, requires_grad=True)
    f = c(policy)
    h = c(lambda obs, act: torch.min(q1(torch.cat((obs, act), -1)), q2(torch.cat((obs, act), -1))).squeeze(-1))
    opt, oa = torch.optim.Adam(policy.parameters(), 0.01), torch.optim.Adam([log_alpha], 0.01)
    for _ in range(3):
        obs = torch.randn(5, 4)
        action, logp = f(obs)
        loss = (log_alpha.exp().detach() * logp - h(obs, action)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        alpha_loss = -(log_alpha * (logp.detach() - 2.0)).mean()
        oa.zero_grad()
        alpha_loss.backward()
        oa.step()
        yield loss, alpha_loss, weights(policy), log_alpha.detach(), f(obs, deterministic=True)[0], q1[0].weight.grad


@program(breaks=1)
def transformed_distributions(c):
    def f(mu, scale, n):
        base = D.Independent(D.Normal(mu, scale, validate_args=False), 1, validate_args=False)
        dist = D.TransformedDistribution(
            base, [D.TanhTransform(cache_size=1), D.AffineTransform(0.5, 2.0)], validate_args=False
        )
        x = dist.rsample((n,))
        return (
            x,
            dist.log_prob(x),
            base.entropy(),
            D.kl_divergence(base, D.Independent(D.Normal(0.0 * mu, 1.0, validate_args=False), 1, validate_args=False)),
        )

    yield from calls(c, f, lambda n: (leaf(2, 3), leaf(2, 3).detach().abs().requires_grad_(), n))


@program
def mixtures(c):
    def f(logits, mu, scale, x):
        mix = D.MixtureSameFamily(
            D.Categorical(logits=logits, validate_args=False),
            D.Independent(D.Normal(mu, scale.exp(), validate_args=False), 1, validate_args=False),
            validate_args=False,
        )
        return mix.log_prob(x), mix.mean

    yield from calls(c, f, lambda n: (leaf(3), leaf(3, 2), leaf(3, 2), leaf(n, 2)))


@program(breaks=12)
def distributions_with_checks(c):
    def f(logits, concentration):
        cat, bern, beta = (
            D.Categorical(logits=logits, validate_args=True),
            D.Bernoulli(logits=logits, validate_args=True),
            D.Dirichlet(concentration.exp(), validate_args=True),
        )
        a = cat.sample()
        return cat.log_prob(a), cat.entropy(), bern.log_prob(bern.sample()), beta.log_prob(beta.rsample())

    yield from calls(c, f, lambda n: (leaf(n, 3), leaf(n, 3)))


@program(breaks=7)
def many_distributions(c):
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(False)
    try:
        for make in (
            lambda t: D.Laplace(t, t.exp()),
            lambda t: D.Gumbel(t, t.exp()),
            lambda t: D.LogNormal(t, t.exp()),
            lambda t: D.Cauchy(t, t.exp()),
            lambda t: D.Uniform(t, t + 1.0),
            lambda t: D.Exponential(t.exp()),
            lambda t: D.Gamma(t.exp() + 1, t.exp()),
            lambda t: D.Beta(t.exp() + 1, t.exp() + 1),
            lambda t: D.StudentT(t.exp() + 3),
            lambda t: D.RelaxedOneHotCategorical(torch.tensor(0.7), logits=t),
            lambda t: D.RelaxedBernoulli(torch.tensor(0.7), logits=t),
            lambda t: D.MultivariateNormal(t, torch.eye(3) * 2),
            lambda t: D.LowRankMultivariateNormal(t, torch.ones(3, 1), torch.ones(3)),
            lambda t: D.HalfNormal(t.exp()),
            lambda t: D.Weibull(t.exp(), t.exp() + 1),
            lambda t: D.Kumaraswamy(t.exp(), t.exp()),
            lambda t: D.Pareto(t.exp(), t.exp() + 1),
        ):

            def f(t, make=make):
                dist = make(t)
                x = dist.rsample((2,))
                return x, dist.log_prob(x), dist.batch_shape, dist.event_shape

            yield from calls(c, f, lambda n: leaf(n, 3), sizes=(2, 2), grads=(True,))
    finally:
        D.Distribution.set_default_validate_args(before)


@program(breaks=1)
def discrete_distributions(c):
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(False)
    try:
        for make in (
            lambda t: D.Poisson(t.exp()),
            lambda t: D.Binomial(5, logits=t),
            lambda t: D.Geometric(logits=t),
            lambda t: D.OneHotCategoricalStraightThrough(logits=t),
            lambda t: D.Multinomial(4, logits=t),
            lambda t: D.NegativeBinomial(3.0, logits=t),
        ):

            def f(t, make=make):
                dist = make(t)
                x = dist.sample((2,))
                return x, dist.log_prob(x), dist.mean, dist.variance

            yield from calls(c, f, lambda n: leaf(n, 3), sizes=(2, 2), grads=(True,))
    finally:
        D.Distribution.set_default_validate_args(before)


@program
def value_distribution(c):
    """Projection of a categorical value distribution (C51)."""

    def project(then, reward, done, support, gamma):
        low, high, n = support[0], support[-1], support.numel()
        delta = (high - low) / (n - 1)
        t = (reward[:, None] + gamma * (1 - done[:, None]) * support).clamp(low, high)
        b = (t - low) / delta
        lower, upper = b.floor().long(), b.ceil().long()
        lower[(upper > 0) * (lower == upper)] -= 1
        upper[(lower < (n - 1)) * (lower == upper)] += 1
        offset = torch.linspace(0, (then.shape[0] - 1) * n, then.shape[0]).long().unsqueeze(1).expand(-1, n)
        m = torch.zeros(then.shape)
        m.view(-1).index_add_(0, (lower + offset).view(-1), (then * (upper.float() - b)).view(-1))
        m.view(-1).index_add_(0, (upper + offset).view(-1), (then * (b - lower.float())).view(-1))
        return m

    yield from calls(
        c,
        project,
        lambda n: (
            torch.rand(n, 5).softmax(-1),
            torch.randn(n),
            (torch.rand(n) > 0.5).float(),
            torch.linspace(-2, 2, 5),
            0.9,
        ),
        grads=(False,),
    )


class NoisyLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.mu, self.sigma = nn.Parameter(torch.randn(o, i) / i), nn.Parameter(torch.full((o, i), 0.1))
        self.register_buffer("noise", torch.zeros(o, i))

    def reset(self):
        f = lambda n: torch.randn(n).sign().mul_(torch.randn(n).abs().sqrt_())
        self.noise.copy_(f(self.mu.shape[0]).outer(f(self.mu.shape[1])))

    def forward(self, x):
        if self.training:
            self.reset()
            return F.linear(x, self.mu + self.sigma * self.noise)
        return F.linear(x, self.mu)


@program
def noisy_layers(c):
    yield from calls(c, nn.Sequential(NoisyLinear(3, 4), nn.ReLU(), NoisyLinear(4, 2)), lambda n: leaf(n, 3))


@program
def recurrent_policy(c):
    cell, head = nn.GRUCell(4, 6), nn.Linear(6, 3)

    def rollout(obs, done, h):
        out = []
        for o, d in zip(obs.unbind(0), done.unbind(0)):
            h = cell(o, h * (1.0 - d)[:, None])
            out.append(head(h))
        return torch.stack(out), h

    f, h = c(rollout), torch.zeros(2, 6)
    for _ in range(3):
        out, h = f(torch.randn(4, 2, 4), (torch.rand(4, 2) > 0.7).float(), h.detach())
        (grad,) = torch.autograd.grad(out.square().sum(), cell.weight_hh)
        yield out, h, grad


# ---- sequences ----


@program
def truncated_backpropagation(c):
    lstm, head = nn.LSTM(3, 5, 2, dropout=0.2), nn.Linear(5, 3)
    model = nn.ModuleList([lstm, head])
    f = c(lambda x, state: (lambda o, s: (head(o), s))(*lstm(x, state)))
    opt, state = torch.optim.SGD(model.parameters(), 0.1), None
    for _ in range(4):
        out, state = f(torch.randn(4, 2, 3), state)
        opt.zero_grad()
        out.square().mean().backward()
        opt.step()
        state = tuple(s.detach() for s in state)
        yield out, state, weights(model)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.rnn, self.head = (
            nn.Conv1d(4, 6, 3, 2, 1),
            nn.LSTM(6, 5, bidirectional=True, batch_first=True),
            nn.Linear(10, 5),
        )

    def forward(self, x, lengths):
        h = self.conv(x).relu().transpose(1, 2)
        lengths = (lengths - 1) // 2 + 1
        packed = pack_padded_sequence(h, lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, lengths = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(h).log_softmax(-1), lengths


@program(breaks=8)
def speech_ctc(c):
    model = Speech()
    f = c(model)
    for n in (2, 2, 3):
        lengths = torch.randint(8, 13, (n,))
        logp, out = f(torch.randn(n, 4, 12), lengths)
        loss = F.ctc_loss(
            logp.transpose(0, 1), torch.randint(1, 5, (n, 2)), out, torch.full((n,), 2), zero_infinity=True
        )
        model.zero_grad()
        loss.backward()
        yield logp, out, loss, [p.grad for p in model.parameters()]


@program
def ctc_greedy_and_beams(c):
    def greedy(logp, lengths):
        best = logp.argmax(-1)
        best = best.masked_fill(torch.arange(best.shape[1]) >= lengths[:, None], 0)
        keep = (best != 0) & (best != F.pad(best[:, :-1], (1, 0)))
        place = keep.cumsum(-1) - 1
        out = torch.zeros_like(best).scatter_add_(1, place.clamp(min=0), best * keep)
        return out, keep.sum(-1)

    yield from calls(
        c, greedy, lambda n: (torch.randn(n, 7, 4).log_softmax(-1), torch.randint(3, 8, (n,))), grads=(False,)
    )


@program(breaks=8)
def packed_lists(c):
    rnn = nn.GRU(3, 4)

    def f(sequences):
        packed = pack_sequence(sequences, enforce_sorted=False)
        out, h = rnn(packed)
        padded, lengths = pad_packed_sequence(out)
        last = padded[lengths - 1, torch.arange(len(sequences))]
        return packed, padded, lengths, last, h

    g = c(f)
    for sizes in ((3, 2), (3, 2), (1, 4, 2)):
        yield g([torch.randn(k, 3) for k in sizes])[1:]


class Decoder(nn.Module):
    """Attention over an encoder, teacher forcing by a coin of Python's."""

    def __init__(self, vocab=7, width=6):
        super().__init__()
        self.embed, self.cell = nn.Embedding(vocab, width), nn.LSTMCell(2 * width, width)
        self.query, self.head = nn.Linear(width, width), nn.Linear(2 * width, vocab)

    def forward(self, memory, target, force=0.5):
        h = cell = memory.mean(1)
        token, out = target.new_zeros(target.shape[0]), []
        for t in range(target.shape[1]):
            weight = torch.softmax(torch.bmm(memory, self.query(h).unsqueeze(2)).squeeze(2), 1)
            context = torch.bmm(weight.unsqueeze(1), memory).squeeze(1)
            h, cell = self.cell(torch.cat((self.embed(token), context), 1), (h, cell))
            logits = self.head(torch.cat((h, context), 1))
            out.append(logits)
            token = target[:, t] if random.random() < force else logits.argmax(1)
        return torch.stack(out, 1)


@program(breaks=2)
def teacher_forcing(c):
    random.seed(3)
    yield from calls(c, Decoder(), lambda n: (leaf(n, 4, 6), torch.randint(0, 7, (n, 3))), sizes=(2, 2, 3))


def viterbi(emissions, transitions):
    score, back = emissions[:, 0], []
    for t in range(1, emissions.shape[1]):
        best, index = (score.unsqueeze(2) + transitions).max(1)
        score = best + emissions[:, t]
        back.append(index)
    tags = [score.argmax(-1)]
    for index in reversed(back):
        tags.insert(0, index.gather(1, tags[0][:, None]).squeeze(1))
    return torch.stack(tags, 1), score.max(-1).values


def crf_loss(emissions, transitions, tags, mask):
    alpha = emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        new = torch.logsumexp(alpha[:, :, None] + transitions + emissions[:, t, None], 1)
        alpha = torch.where(mask[:, t, None], new, alpha)
    path = emissions.gather(2, tags[..., None]).squeeze(2)
    steps = transitions[tags[:, :-1], tags[:, 1:]]
    gold = (path * mask).sum(1) + (steps * mask[:, 1:]).sum(1)
    return (torch.logsumexp(alpha, 1) - gold).mean()


@program
def conditional_random_field(c):
    def make(n):
        mask = torch.arange(5) < torch.randint(1, 6, (n, 1))
        return leaf(n, 5, 3), leaf(3, 3), torch.randint(0, 3, (n, 5)), mask

    yield from calls(c, crf_loss, make)
    yield from calls(c, viterbi, lambda n: make(n)[:2])
