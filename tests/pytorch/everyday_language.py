"""Language models as people ship them: sampling, beams, caches, packed batches, adapters, preference losses."""

import dataclasses
import math
import typing

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads=None):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv_heads or heads, width // heads
        self.wq = nn.Linear(width, heads * self.size, bias=False)
        self.wk = nn.Linear(width, self.kv * self.size, bias=False)
        self.wv = nn.Linear(width, self.kv * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x, freqs, mask=None, cache=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.heads, self.size)
        k = self.wk(x).view(b, t, self.kv, self.size)
        v = self.wv(x).view(b, t, self.kv, self.size)
        q, k = rotate(q, freqs), rotate(k, freqs)
        if cache is not None:
            k, v = cache.update(k, v)
        k = (
            k[:, :, :, None].expand(b, k.shape[1], self.kv, self.heads // self.kv, self.size).flatten(2, 3)
            if self.kv == 1
            else k.repeat_interleave(self.heads // self.kv, 2)
        )
        v = (
            v[:, :, :, None].expand(b, v.shape[1], self.kv, self.heads // self.kv, self.size).flatten(2, 3)
            if self.kv == 1
            else v.repeat_interleave(self.heads // self.kv, 2)
        )
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.size)
        if mask is not None:
            scores = scores + mask
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).reshape(b, t, -1))


def rotate(x, freqs):
    cos, sin = freqs
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Cache:
    """Grows in steps, as llama's in many repositories."""

    def __init__(self):
        self.k = self.v = None
        self.seen = 0

    def update(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k, self.v = torch.cat((self.k, k), 1), torch.cat((self.v, v), 1)
        self.seen += k.shape[1]
        return self.k, self.v


class Sliding(Cache):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def update(self, k, v):
        super().update(k, v)
        self.k, self.v = self.k[:, -self.window :], self.v[:, -self.window :]
        return self.k, self.v


class Layer(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.attention = Attention(width, heads, kv_heads)
        self.norm, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.gate, self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x, *rest):
        x = x + self.attention(self.norm(x), *rest)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocab=13, width=16, heads=4, kv_heads=2, layers=2, context=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width, heads, kv_heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(context), 1.0 / 10000 ** (torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.3)

    def forward(self, idx, caches=None, start=0):
        t = idx.shape[1]
        x = self.embed(idx)
        freqs = self.cos[start : start + t], self.sin[start : start + t]
        mask = None
        if t > 1:
            mask = torch.full((t, t), float("-inf"), device=idx.device).triu(1)
            if start:
                mask = torch.hstack([torch.zeros((t, start)), mask]).type_as(x)
        for k, layer in enumerate(self.layers):
            x = layer(x, freqs, mask, caches[k] if caches else None)
        return self.head(self.norm(x)).float()


def words(n, t=6, vocab=13):
    return torch.randint(0, vocab, (n, t))


@program
def llama_training(c):
    yield from calls(c, Llama(), lambda n: words(n))


@program
def llama_cache_objects(c):
    model = Llama().eval()
    f = c(model)
    with torch.inference_mode():
        caches = [Cache() for _ in range(2)]
        idx = words(2, 4)
        logits = f(idx, caches, 0)
        pos = 4
        for _ in range(6):
            new = logits[:, -1].argmax(-1, keepdim=True)
            logits = f(new, caches, pos)
            pos += 1
            yield logits, [c.k for c in caches], [c.seen for c in caches]


@program
def llama_sliding_window(c):
    model = Llama(kv_heads=1).eval()
    f = c(model)
    with torch.no_grad():
        caches = [Sliding(4) for _ in range(2)]
        logits, pos = f(words(1, 1), caches, 0), 1
        for _ in range(8):
            logits = f(logits[:, -1].argmax(-1, keepdim=True), caches, pos)
            pos += 1
            yield logits, caches[0].k, caches[1].v


@program
def chunked_prefill(c):
    model = Llama().eval()
    f, idx = c(model), words(2, 12)
    with torch.no_grad():
        caches, parts = [Cache() for _ in range(2)], []
        for k in range(0, 12, 4):
            parts.append(f(idx[:, k : k + 4], caches, k))
        yield torch.cat(parts, 1), caches[0].k


def top_k_top_p(logits, top_k=0, top_p=1.0, temperature=1.0, min_p=0.0):
    logits = logits / max(temperature, 1e-5)
    if top_k > 0:
        kth = torch.topk(logits, min(top_k, logits.size(-1)))[0][..., -1, None]
        logits = logits.masked_fill(logits < kth, -float("inf"))
    if top_p < 1.0:
        ordered, index = torch.sort(logits, descending=True)
        cumulative = torch.cumsum(F.softmax(ordered, dim=-1), dim=-1)
        remove = cumulative > top_p
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = 0
        logits = logits.masked_fill(remove.scatter(1, index, remove), -float("inf"))
    if min_p > 0:
        probs = logits.softmax(-1)
        logits[probs < min_p * probs.amax(-1, keepdim=True)] = -float("inf")
    return logits


@program
def nucleus_sampling(c):
    f = c(top_k_top_p)
    for n in (1, 2, 5):
        for kw in ({}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 5, "top_p": 0.5, "temperature": 0.7}, {"min_p": 0.1}):
            logits = torch.randn(n, 13)
            out = f(logits, **kw)
            yield out, logits, torch.multinomial(out.softmax(-1), 1)


def repetition_penalty(logits, previous, penalty):
    score = torch.gather(logits, 1, previous)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return logits.scatter(1, previous, score)


def no_repeat_ngrams(logits, idx, n):
    for b in range(idx.shape[0]):
        seen = {}
        tokens = idx[b].tolist()
        for gram in zip(*[tokens[i:] for i in range(n)]):
            seen.setdefault(gram[:-1], []).append(gram[-1])
        banned = seen.get(tuple(tokens[len(tokens) + 1 - n :]), [])
        logits[b, banned] = -float("inf")
    return logits


@program(breaks=3)
def logits_processors(c):
    f, g = c(repetition_penalty), c(no_repeat_ngrams)
    for penalty in (1.2, 1.3, 2.0):
        idx, logits = words(2, 9, 4), torch.randn(2, 4)
        yield f(logits, idx, penalty), g(logits, idx, 2), logits


def gumbel_max(logits, temperature):
    noise = torch.zeros_like(logits).exponential_(1)
    return torch.argmax(F.softmax(logits / temperature, -1) / noise, dim=-1, keepdim=True).to(torch.int)


@program
def gpt_fast_sampling(c):
    f = c(gumbel_max)
    for n, t in ((1, 0.8), (1, 0.9), (3, 1.0), (4, 1.1)):
        yield f(torch.randn(n, 13), t)


def beam_step(logprobs, scores, sequences, done, beams, eos, length):
    batch = scores.shape[0]
    vocab = logprobs.shape[-1]
    logprobs = logprobs.view(batch, beams, vocab)
    frozen = torch.full_like(logprobs, -float("inf"))
    frozen[..., eos] = 0
    logprobs = torch.where(done[..., None], frozen, logprobs)
    total = (scores[..., None] + logprobs).view(batch, -1)
    best, index = total.topk(beams, dim=-1)
    beam, token = torch.div(index, vocab, rounding_mode="floor"), index % vocab
    sequences = torch.gather(sequences, 1, beam[..., None].expand(-1, -1, sequences.shape[-1]))
    sequences = torch.cat((sequences, token[..., None]), -1)
    done = torch.gather(done, 1, beam) | (token == eos)
    return best, sequences, done, best / length**0.6


@program
def beam_search(c):
    model = Llama().eval()
    f, step = c(model), c(beam_step)
    with torch.no_grad():
        batch, beams = 2, 3
        sequences = words(batch, 1)[:, None].repeat(1, beams, 1)
        scores = torch.zeros(batch, beams)
        scores[:, 1:] = -1e9
        done = torch.zeros(batch, beams, dtype=torch.bool)
        for length in range(1, 7):
            logits = f(sequences.view(batch * beams, -1))[:, -1]
            scores, sequences, done, ranked = step(logits.log_softmax(-1), scores, sequences, done, beams, 2, length)
            yield scores, sequences, done, ranked


@torch.no_grad()
def speculate(draft, target, idx, k):
    """Draws k tokens of the draft, accepts a prefix by the target's probabilities."""
    new, probs = idx, []
    for _ in range(k):
        p = draft(new)[:, -1].softmax(-1)
        probs.append(p)
        new = torch.cat((new, torch.multinomial(p, 1)), 1)
    q = target(new)[:, idx.shape[1] - 1 :].softmax(-1)
    p = torch.stack(probs, 1)
    drawn = new[:, idx.shape[1] :]
    ratio = (q[:, :-1] / p).gather(-1, drawn[..., None])[..., 0].clamp(max=1)
    accepted = (torch.rand_like(ratio) < ratio).int().cumprod(-1).sum().item()
    if accepted == k:
        last = torch.multinomial(q[:, -1], 1)
    else:
        rest = (q[:, accepted] - p[:, accepted]).clamp(min=0)
        last = torch.multinomial(rest / rest.sum(-1, keepdim=True), 1)
    return torch.cat((new[:, : idx.shape[1] + accepted], last), 1), accepted


@program(breaks=3)
def speculative_whole(c):
    draft, target = Llama(layers=1).eval(), Llama().eval()
    f = c(speculate)
    idx = words(1, 3)
    for _ in range(5):
        idx, n = f(draft, target, idx, 3)
        yield idx, n


@program
def speculative_of_compiled_models(c):
    draft, target = c(Llama(layers=1).eval()), c(Llama().eval())
    idx = words(1, 3)
    for _ in range(5):
        idx, n = speculate(draft, target, idx, 3)
        yield idx, n


def contrastive_decoding(expert, amateur, alpha=0.1):
    e, a = expert.log_softmax(-1), amateur.log_softmax(-1)
    cutoff = math.log(alpha) + e.max(-1, keepdim=True).values
    return (e - a).masked_fill(e < cutoff, torch.finfo(e.dtype).min)


@program
def contrastive_decoding_of_dtypes(c):
    f = c(contrastive_decoding)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        yield f(torch.randn(2, 7).to(dtype), torch.randn(2, 7).to(dtype))


def packed_mask(lengths, total):
    ids = torch.repeat_interleave(torch.arange(len(lengths)), lengths, output_size=total)
    position = torch.arange(total) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths, output_size=total)
    return (ids[:, None] == ids[None]) & (position[:, None] >= position[None]), position


@program
def packed_sequences_mask(c):
    f = c(packed_mask)
    for lengths in ([3, 2, 4], [1, 1, 7], [9], [2, 2, 2, 3]):
        yield f(torch.tensor(lengths), 9)


def left_padded(mask, dtype):
    positions = (mask.long().cumsum(-1) - 1).masked_fill_(mask == 0, 1)
    t = mask.shape[-1]
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    allowed = causal[None, None] & mask[:, None, None].bool()
    bias = torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)
    return positions, bias * bias.eq(torch.finfo(dtype).min).all(-1, keepdim=True).logical_not()


@program
def left_padding(c):
    f = c(left_padded)
    for n in (1, 2, 4):
        mask = (torch.arange(6) >= torch.randint(0, 5, (n, 1))).long()
        yield f(mask, torch.float32), f(mask, torch.bfloat16)


def preference(chosen, rejected, chosen_ref, rejected_ref, beta=0.1, smoothing=0.0):
    ratio = (chosen - rejected) - (chosen_ref - rejected_ref)
    losses = -F.logsigmoid(beta * ratio) * (1 - smoothing) - F.logsigmoid(-beta * ratio) * smoothing
    rewards = beta * (chosen - chosen_ref).detach(), beta * (rejected - rejected_ref).detach()
    return losses.mean(), *rewards, (rewards[0] > rewards[1]).float().mean()


def sequence_logprobs(logits, labels, average=False):
    labels = labels[:, 1:].clone()
    mask = labels != -100
    labels[labels == -100] = 0
    each = torch.gather(logits[:, :-1].log_softmax(-1), 2, labels[..., None]).squeeze(2)
    return (each * mask).sum(-1) / mask.sum(-1) if average else (each * mask).sum(-1)


@program
def preference_optimisation(c):
    policy, reference = Llama(), Llama().requires_grad_(False)
    logp, loss = c(lambda m, idx, labels: sequence_logprobs(m(idx), labels)), c(preference)
    opt = torch.optim.AdamW(policy.parameters(), 1e-2)
    for step in range(3):
        good, bad = words(2), words(2)
        labels = [torch.where(torch.arange(6) < 2, torch.tensor(-100), t) for t in (good, bad)]
        with torch.no_grad():
            ref = [logp(reference, t, l) for t, l in zip((good, bad), labels)]
        ours = [logp(policy, t, l) for t, l in zip((good, bad), labels)]
        out = loss(*ours, *ref, smoothing=0.1 * step)
        opt.zero_grad()
        out[0].backward()
        opt.step()
        yield out, [p.detach() for p in policy.parameters()]


class GroupedLoss(nn.Module):
    """Relative advantages within groups, clipped ratios, a penalty for leaving the reference."""

    def __init__(self, clip=0.2, beta=0.04):
        super().__init__()
        self.clip, self.beta = clip, beta

    def forward(self, logp, old, ref, rewards, mask):
        groups = rewards.view(-1, 4)
        advantage = ((groups - groups.mean(1, True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        ratio = (logp - old).exp()
        policy = torch.min(ratio * advantage, ratio.clamp(1 - self.clip, 1 + self.clip) * advantage)
        kl = (ref - logp).exp() - (ref - logp) - 1
        each = -(policy - self.beta * kl)
        return ((each * mask).sum(1) / mask.sum(1)).mean(), (kl * mask).sum() / mask.sum()


@program
def group_relative_policy(c):
    yield from calls(
        c,
        GroupedLoss(),
        lambda n: (
            leaf(4 * n, 5),
            torch.randn(4 * n, 5),
            torch.randn(4 * n, 5),
            torch.randn(4 * n),
            torch.arange(5).lt(torch.arange(4 * n)[:, None] % 5 + 1).float(),
        ),
    )


class Tokens(typing.NamedTuple):
    ids: torch.Tensor
    mask: typing.Optional[torch.Tensor] = None
    kinds: typing.Optional[torch.Tensor] = None


class Bert(nn.Module):
    def __init__(self, vocab=17, width=16):
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {
                "words": nn.Embedding(vocab, width, padding_idx=0),
                "positions": nn.Embedding(32, width),
                "kinds": nn.Embedding(2, width),
            }
        )
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(32).expand((1, -1)), persistent=False)
        layer = nn.TransformerEncoderLayer(width, 2, 32, 0.1, F.gelu, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler, self.mlm = nn.Linear(width, width), nn.Linear(width, vocab)
        self.mlm.weight = self.embeddings["words"].weight

    def forward(self, tokens: Tokens, labels=None):
        ids, mask, kinds = tokens
        if kinds is None:
            kinds = torch.zeros_like(ids)
        if mask is None:
            mask = ids.ne(0)
        x = (
            self.embeddings["words"](ids)
            + self.embeddings["positions"](self.position_ids[:, : ids.size(1)])
            + self.embeddings["kinds"](kinds)
        )
        x = self.encoder(self.norm(x), src_key_padding_mask=~mask.bool())
        pooled = torch.tanh(self.pooler(x[:, 0]))
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)
        logits = self.mlm(x)
        loss = None if labels is None else F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
        return {"logits": logits, "pooled": F.normalize(pooled, dim=-1), "mean": mean, "loss": loss}


def padded(n):
    ids = torch.randint(1, 17, (n, 7))
    ids[torch.arange(7) >= torch.arange(n)[:, None] + 3] = 0
    return ids


@program
def bert_pretraining(c):
    def make(n):
        ids = padded(n)
        labels = torch.where(torch.rand(ids.shape) < 0.3, ids, -100)
        labels[0, 0] = 3
        return Tokens(ids), labels

    yield from calls(c, Bert().train(), make)


@program
def bert_evaluation(c):
    model = Bert().eval()
    yield from calls(c, model, lambda n: (Tokens(padded(n), None, torch.ones(n, 7, dtype=torch.long)),), grads=(False,))
    yield from calls(c, model, lambda n: (Tokens(padded(n), padded(n) > 0),), grads=(True,))


def mask_tokens(ids, vocab, mask_id, special, p=0.15):
    labels = ids.clone()
    matrix = torch.full(labels.shape, p).masked_fill_(special, value=0.0)
    masked = torch.bernoulli(matrix).bool()
    labels[~masked] = -100
    replaced = torch.bernoulli(torch.full(labels.shape, 0.8)).bool() & masked
    ids[replaced] = mask_id
    other = torch.bernoulli(torch.full(labels.shape, 0.5)).bool() & masked & ~replaced
    ids[other] = torch.randint(vocab, labels.shape, dtype=torch.long)[other]
    return ids, labels


@program
def masked_language_collator(c):
    f = c(mask_tokens)
    for n in (2, 2, 5, 1):
        ids = torch.randint(1, 17, (n, 9))
        yield f(ids, 17, 16, ids < 3, 0.4), ids


class T5Bias(nn.Module):
    def __init__(self, buckets=8, distance=16, heads=2):
        super().__init__()
        self.table, self.buckets, self.distance = nn.Embedding(buckets, heads), buckets, distance

    @staticmethod
    def bucket(relative, bidirectional=True, buckets=8, distance=16):
        found = 0
        if bidirectional:
            buckets //= 2
            found += (relative > 0).to(torch.long) * buckets
            relative = torch.abs(relative)
        else:
            relative = -torch.min(relative, torch.zeros_like(relative))
        exact = buckets // 2
        large = exact + (torch.log(relative.float() / exact) / math.log(distance / exact) * (buckets - exact)).to(
            torch.long
        )
        return found + torch.where(relative < exact, relative, torch.min(large, torch.full_like(large, buckets - 1)))

    def forward(self, q, k, bidirectional=True):
        relative = torch.arange(k)[None, :] - torch.arange(q)[:, None]
        return self.table(self.bucket(relative, bidirectional, self.buckets, self.distance)).permute(2, 0, 1)[None]


@program
def relative_buckets(c):
    yield from calls(c, T5Bias(), lambda n: (n + 2, 2 * n, bool(n % 2)))


def label_smoothed(logits, labels, epsilon=0.1, ignore=-100):
    labels = labels.unsqueeze(-1)
    logp = -logits.log_softmax(-1)
    pad = labels.eq(ignore)
    nll = logp.gather(-1, labels.clamp(min=0)).masked_fill_(pad, 0.0)
    smooth = logp.sum(-1, keepdim=True, dtype=torch.float32).masked_fill_(pad, 0.0)
    active = pad.numel() - pad.long().sum()
    return (1 - epsilon) * nll.sum() / active + epsilon * smooth.sum() / (active * logp.shape[-1])


@program
def label_smoother(c):
    yield from calls(
        c,
        label_smoothed,
        lambda n: (leaf(n, 4, 7), torch.where(torch.rand(n, 4) < 0.3, -100, torch.randint(0, 7, (n, 4)))),
    )


class Experts(nn.Module):
    """Switch routing with a capacity, dispatch by einsum."""

    def __init__(self, width=8, experts=4, capacity=1.25):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, width, 2 * width) / 4)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * width, width) / 4)
        self.experts, self.capacity = experts, capacity

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        room = int(self.capacity * flat.shape[0] / self.experts) + 1
        logits = self.router(flat)
        probs = logits.softmax(-1)
        gate, index = probs.max(-1)
        one = F.one_hot(index, self.experts)
        place = (one.cumsum(0) * one).sum(-1) - 1
        kept = place < room
        dispatch = (
            one.to(x.dtype)[:, :, None]
            * F.one_hot(place.clamp(max=room - 1), room).to(x.dtype)[:, None]
            * kept[:, None, None]
        )
        inside = torch.einsum("nec,nd->ecd", dispatch, flat)
        out = torch.bmm(F.gelu(torch.bmm(inside, self.w1)), self.w2)
        y = torch.einsum("nec,ecd->nd", dispatch * gate[:, None, None], out)
        balance = self.experts * (one.float().mean(0) * probs.mean(0)).sum()
        z = torch.logsumexp(logits, -1).square().mean()
        return y.view_as(x), balance, z


@program
def switch_routing(c):
    yield from calls(c, Experts(), lambda n: leaf(n, 5, 8))


def sort_dispatch(x, logits, weights, k):
    w, index = torch.topk(logits.softmax(-1), k, dim=-1)
    w = w / w.sum(-1, keepdim=True)
    order = index.flatten().argsort(stable=True)
    rows = order // k
    counts = torch.bincount(index.flatten(), minlength=weights.shape[0])
    gathered = x[rows]
    out = torch.empty_like(gathered)
    start = 0
    for e, n in enumerate(counts.tolist()):
        out[start : start + n] = gathered[start : start + n] @ weights[e]
        start += n
    return torch.zeros_like(x).index_add_(0, rows, out * w.flatten()[order, None])


@program(breaks=3)
def sorted_experts(c):
    yield from calls(c, sort_dispatch, lambda n: (leaf(n, 4), torch.randn(n, 3), leaf(3, 4, 4), 2))


class LoRALinear(nn.Linear):
    def __init__(self, i, o, r=2, alpha=4, dropout=0.1):
        super().__init__(i, o)
        self.lora_A, self.lora_B = nn.Parameter(torch.randn(r, i) / r), nn.Parameter(torch.randn(o, r) / r)
        self.scaling, self.lora_dropout, self.merged = alpha / r, nn.Dropout(dropout), False
        self.weight.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:
            sign = -1 if mode else 1
            self.weight.data += sign * (self.lora_B @ self.lora_A) * self.scaling
            self.merged = not mode
        return self

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        if self.merged:
            return y
        return y + self.lora_dropout(x) @ self.lora_A.t() @ self.lora_B.t() * self.scaling


@program
def lora_merged_in_eval(c):
    model = nn.Sequential(LoRALinear(6, 5), nn.Tanh(), LoRALinear(5, 3))
    f = c(model)
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 0.05)
    for step in range(3):
        f.train()
        opt.zero_grad()
        f(torch.randn(4, 6)).square().mean().backward()
        opt.step()
        f.eval()
        with torch.no_grad():
            yield f(torch.ones(2, 6)), model[0].merged, model[0].weight, [p.grad is None for p in model.parameters()]


def quantise_rows(w, bits=4, group=4):
    g = w.reshape(-1, group)
    top, low = g.amax(1, keepdim=True), g.amin(1, keepdim=True)
    scale = ((top - low) / (2**bits - 1)).clamp(min=1e-6)
    zero = low + scale * 2 ** (bits - 1)
    q = ((g - low) / scale).round().clamp(0, 2**bits - 1).to(torch.uint8)
    return q[:, ::2] << 4 | q[:, 1::2], scale, zero


def unquantise(packed, scale, zero, shape):
    q = torch.stack((packed >> 4, packed & 0xF), -1).flatten(1).to(torch.int8)
    return ((q - 8) * scale + zero).view(shape)


@program
def four_bit_weights(c):
    f, g = c(quantise_rows), c(lambda x, *a: x @ unquantise(*a, (8, 4)).t())
    for n in (2, 3, 4):
        packed, scale, zero = f(torch.randn(8, 4) * n)
        yield packed, scale, g(torch.randn(n, 4), packed, scale, zero)


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (linear.weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.detach())

    def forward(self, x):
        s = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        q = torch.round(x / s).to(torch.int8)
        return (q.to(torch.int32) @ self.weight.t().to(torch.int32)).to(x.dtype) * s * self.scale.t()


@program
def dynamic_int8(c):
    yield from calls(c, Int8Linear(nn.Linear(6, 4)), lambda n: torch.randn(n, 6), grads=(False,))


class Medusa(nn.Module):
    def __init__(self, width=8, vocab=11, n=3):
        super().__init__()
        self.heads = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, vocab, bias=False)) for _ in range(n)]
        )

    def forward(self, hidden, **kwargs):
        return torch.stack([head(hidden) for head in self.heads], dim=kwargs.pop("dim", 0))


@program
def heads_stacked(c):
    yield from calls(c, Medusa(), lambda n: {"hidden": leaf(n, 2, 8), "dim": n % 2})


class MultiToken(nn.Module):
    """Several losses at shifts of one sequence, weights as attributes that change."""

    def __init__(self):
        super().__init__()
        self.embed, self.head, self.weights = nn.Embedding(9, 6), nn.Linear(6, 9), [1.0, 0.5, 0.25]

    def forward(self, idx):
        h = self.embed(idx)
        losses = [
            w * F.cross_entropy(self.head(h[:, : -k - 1]).transpose(1, 2), idx[:, k + 1 :])
            for k, w in enumerate(self.weights)
        ]
        return sum(losses), torch.stack(losses).detach()


@program
def several_shifts(c):
    model = MultiToken()

    def step(n):
        model.weights = model.weights[:-1] + [model.weights[-1] * 0.5]

    yield from calls(c, model, lambda n: torch.randint(0, 9, (n, 7)), step=step)


def chunked_loss(hidden, weight, target, chunks):
    total = hidden.new_zeros(())
    count = 0
    for h, t in zip(hidden.chunk(chunks), target.chunk(chunks)):
        total = total + F.cross_entropy(h @ weight.t(), t, reduction="sum")
        count += t.numel()
    return total / count


@program
def loss_in_chunks(c):
    yield from calls(c, chunked_loss, lambda n: (leaf(2 * n + 1, 4), leaf(6, 4), torch.randint(0, 6, (2 * n + 1,)), 2))


class StopOnTokens:
    def __init__(self, stops):
        self.stops = stops

    def __call__(self, ids):
        done = torch.zeros(ids.shape[0], dtype=torch.bool)
        for stop in self.stops:
            if len(stop) <= ids.shape[1]:
                done = done | (ids[:, -len(stop) :] == torch.tensor(stop)).all(-1)
        return done


@program
def stopping_criteria(c):
    f = c(StopOnTokens([[1], [2, 0], [0, 0, 1]]).__call__)
    for t in (1, 2, 3, 5):
        yield f(torch.randint(0, 3, (4, t)))


def perplexity_windows(model, idx, window, stride):
    total, count = 0.0, 0
    for start in range(0, idx.shape[1] - 1, stride):
        end = min(start + window, idx.shape[1])
        part = idx[:, start:end]
        labels = part.clone()
        if start:
            labels[:, : window - stride] = -100
        logits = model(part)
        loss = F.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum", ignore_index=-100
        )
        total += loss.item()
        count += (labels[:, 1:] != -100).sum().item()
        if end == idx.shape[1]:
            break
    return math.exp(total / count)


@program(breaks=7)
def perplexity(c):
    f, model = c(perplexity_windows), Llama().eval()
    with torch.no_grad():
        for n in (10, 13, 9):
            yield round(f(model, words(1, n), 6, 3), 3)


@dataclasses.dataclass
class GenerationState:
    ids: torch.Tensor
    lengths: torch.Tensor
    done: torch.Tensor
    step: int = 0
    scores: list = dataclasses.field(default_factory=list)


def generate_state(model, state, eos=2):
    logits = model(state.ids)[torch.arange(state.ids.shape[0]), -1]
    new = logits.argmax(-1).masked_fill(state.done, 0)
    state.scores.append(logits.logsumexp(-1))
    return dataclasses.replace(
        state,
        ids=torch.cat((state.ids, new[:, None]), 1),
        lengths=state.lengths + (~state.done),
        done=state.done | (new == eos),
        step=state.step + 1,
    )


@program
def state_replaced(c):
    model, f = Llama().eval(), c(generate_state)
    state = GenerationState(words(3, 2), torch.full((3,), 2), torch.zeros(3, dtype=torch.bool))
    with torch.no_grad():
        for _ in range(4):
            state = f(model, state)
            yield state


class Prefix(nn.Module):
    """Prompts that are learnt, before the words."""

    def __init__(self, base, n=3):
        super().__init__()
        self.base, self.prompt = base, nn.Parameter(torch.randn(n, base.embed.embedding_dim) * 0.1)
        for p in base.parameters():
            p.requires_grad = False
        base.embed.register_forward_hook(lambda m, i, o: torch.cat((self.prompt.expand(o.shape[0], -1, -1), o), 1))

    def forward(self, idx):
        n = self.prompt.shape[0]
        x = self.base.embed(idx)
        t = x.shape[1]
        freqs = self.base.cos[:t], self.base.sin[:t]
        mask = torch.full((t, t), -torch.inf).triu_(1)
        for layer in self.base.layers:
            x = layer(x, freqs, mask)
        return self.base.head(self.base.norm(x))[:, n:]


@program
def prompt_tuning(c):
    yield from calls(c, Prefix(Llama()), lambda n: words(n))


def linear_attention(q, k, v, eps=1e-6):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state = torch.einsum("...nd,...ne->...nde", k, v).cumsum(-3)
    z = 1 / (torch.einsum("...nd,...nd->...n", q, k.cumsum(-2)) + eps)
    return torch.einsum("...nd,...nde,...n->...ne", q, state, z)


@program
def causal_linear_attention(c):
    yield from calls(c, linear_attention, lambda n: (leaf(n, 2, 5, 4), leaf(n, 2, 5, 4), leaf(n, 2, 5, 3)))


class RWKVish(nn.Module):
    """A recurrence over time with the numerically safe exponentials."""

    def __init__(self, width=4):
        super().__init__()
        self.decay, self.first = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))

    def forward(self, k, v, state=None):
        a, b, p = (
            state
            if state is not None
            else (torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e38))
        )
        w, out = -torch.exp(self.decay), []
        for t in range(k.size(1)):
            kt, vt = k[:, t], v[:, t]
            q = torch.maximum(p, self.first + kt)
            e1, e2 = torch.exp(p - q), torch.exp(self.first + kt - q)
            out.append((e1 * a + e2 * vt) / (e1 * b + e2))
            q = torch.maximum(p + w, kt)
            e1, e2 = torch.exp(p + w - q), torch.exp(kt - q)
            a, b, p = e1 * a + e2 * vt, e1 * b + e2, q
        return torch.stack(out, 1), (a, b, p)


@program
def recurrence_in_time(c):
    model = RWKVish()
    yield from calls(c, model, lambda n: (leaf(n, 4, 4), leaf(n, 4, 4)))
    f, state = c(model), None
    with torch.no_grad():
        for _ in range(3):
            out, state = f(torch.randn(2, 1, 4), torch.randn(2, 1, 4), state)
            yield out, state
