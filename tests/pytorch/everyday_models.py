"""Models as people write them: generation with a cache, diffusion, VAE, graph networks, attention, recurrence. Each is
called with other values, sizes and weights, with gradients and without."""

import collections
import dataclasses
import functools
import math

import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# ---- generation ----


@dataclasses.dataclass
class Config:
    vocab: int = 11
    width: int = 8
    heads: int = 2
    depth: int = 2
    context: int = 16
    dropout: float = 0.0


class CausalAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.qkv, self.out = (
            config,
            nn.Linear(config.width, 3 * config.width),
            nn.Linear(config.width, config.width),
        )
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x, past=None):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, self.config.heads, C // self.config.heads).transpose(1, 2) for t in self.qkv(x).split(C, dim=2)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=past is None, dropout_p=self.config.dropout if self.training else 0.0
        )
        return self.drop(self.out(y.transpose(1, 2).contiguous().view(B, T, C))), (k, v)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(config.width), CausalAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            collections.OrderedDict(
                up=nn.Linear(config.width, 4 * config.width),
                act=nn.GELU(approximate="tanh"),
                down=nn.Linear(4 * config.width, config.width),
            )
        )

    def forward(self, x, past=None):
        a, kept = self.attention(self.norm1(x), past)
        x = x + a
        return x + self.mlp(self.norm2(x)), kept


class GPT(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config = config or Config()
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab, config.width),
                wpe=nn.Embedding(config.context, config.width),
                h=nn.ModuleList([Block(config) for _ in range(config.depth)]),
                norm=nn.LayerNorm(config.width),
            )
        )
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.transformer.wte.weight = self.head.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, 0.2)

    def forward(self, idx, targets=None, past=None):
        b, t = idx.size()
        start = 0 if past is None else past[0][0].size(2)
        assert start + t <= self.config.context, f"cannot go on: {start + t} of {self.config.context}"
        pos = torch.arange(start, start + t, dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        kept = []
        for k, block in enumerate(self.transformer.h):
            x, kv = block(x, None if past is None else past[k])
            kept.append(kv)
        x = self.transformer.norm(x)
        if targets is not None:
            logits = self.head(x)
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1), kept
        return self.head(x[:, [-1], :]), None, kept

    @torch.no_grad()
    def generate(self, idx, n, temperature=1.0, top_k=None):
        past, new = None, idx
        for _ in range(n):
            logits, _, past = self(new, past=past)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("inf")
            new = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, new), dim=1)
        return idx


def tokens(n, t=5):
    return torch.randint(0, 11, (n, t))


@program
def gpt_training(c):
    yield from calls(c, GPT(), lambda n: (tokens(n), tokens(n)))


@program
def gpt_with_dropout(c):
    yield from calls(c, GPT(Config(dropout=0.3)), lambda n: (tokens(n), tokens(n)))


@program
def gpt_one_token_at_a_time(c):
    model = GPT().eval()
    f = c(model)
    with torch.no_grad():
        idx = tokens(2)
        out, _, past = f(idx)
        for _ in range(5):
            new = out[:, -1].argmax(-1, keepdim=True)
            out, _, past = f(new, past=past)
            yield out, past


@program
def gpt_generate_method(c):
    model = GPT().eval()
    generate = c(model.generate)
    for n, k in ((3, None), (3, 4), (5, 4), (4, None)):
        yield generate(tokens(2, 3), n, temperature=0.8, top_k=k)


@program
def gpt_generate_of_compiled_model(c):
    model = c(GPT().eval())
    for n in (3, 4):
        yield model.generate(tokens(2, 3), n)


@program(breaks=1)
def gpt_too_long(c):
    yield from calls(c, GPT(), lambda n: (tokens(2, 4 * n),), sizes=(2, 5, 3, 5), grads=(False,))


class StaticCache(nn.Module):
    """Keys are written into a buffer of fixed size, at a position that is counted."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(8, 8), nn.Linear(8, 16)
        self.register_buffer("keys", torch.zeros(2, 10, 8), persistent=False)
        self.register_buffer("values", torch.zeros(2, 10, 8), persistent=False)
        self.position = 0

    def forward(self, x):
        t = x.shape[1]
        k, v = self.kv(x).chunk(2, -1)
        self.keys[:, self.position : self.position + t] = k
        self.values[:, self.position : self.position + t] = v
        self.position += t
        scores = self.q(x) @ self.keys[:, : self.position].mT / math.sqrt(8)
        return scores.softmax(-1) @ self.values[:, : self.position]


@program
def static_cache(c):
    model = StaticCache()
    f = c(model)
    with torch.no_grad():
        for t in (3, 1, 1, 1, 1):
            yield f(torch.randn(2, t, 8)), model.position, model.keys, model.values


class IndexCopyCache(StaticCache):
    def forward(self, x, at):
        k, v = self.kv(x).chunk(2, -1)
        self.keys.index_copy_(1, at, k)
        self.values.index_copy_(1, at, v)
        mask = torch.arange(10)[None, :] <= at[:, None]
        return F.scaled_dot_product_attention(self.q(x), self.keys, self.values, attn_mask=mask)


@program
def index_copy_cache(c):
    model = IndexCopyCache()
    f = c(model)
    with torch.no_grad():
        for at in ([0, 1, 2], [3], [4], [5]):
            yield f(torch.randn(2, len(at), 8), torch.tensor(at)), model.keys


class Rotary(nn.Module):
    """Angles are made when they are first needed, and again when a longer sequence comes."""

    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("inv", 1.0 / 10000 ** (torch.arange(0, width, 2).float() / width))
        self.kept, self.length = None, 0

    @staticmethod
    def rotate(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def forward(self, x):
        n = x.shape[-2]
        if n > self.length:
            freqs = torch.outer(torch.arange(n).type_as(self.inv), self.inv)
            emb = torch.cat((freqs, freqs), -1)
            self.kept, self.length = (emb.cos(), emb.sin()), n
        cos, sin = (t[:n] for t in self.kept)
        return x * cos + self.rotate(x) * sin


@program
def rotary_lazily(c):
    yield from calls(c, Rotary(), lambda n: leaf(2, n, 8))


def rope_complex(x, theta):
    angles = torch.polar(torch.ones_like(theta), theta)
    turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * angles
    return torch.view_as_real(turned).flatten(-2).type_as(x)


@program
def rotary_complex(c):
    yield from calls(c, rope_complex, lambda n: (leaf(2, n, 8), torch.randn(n, 4)))


class Alibi(nn.Module):
    @functools.lru_cache(maxsize=4)  # noqa: B019  as people write it
    def bias(self, n):
        return -(torch.arange(n)[None] - torch.arange(n)[:, None]).abs().float()

    def forward(self, q, k):
        return (q @ k.mT + self.bias(q.shape[1])).softmax(-1)


@program(breaks=2)
def cached_bias(c):
    yield from calls(c, Alibi(), lambda n: (leaf(2, n, 4), leaf(2, n, 4)))


class GroupedQuery(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q(x).unflatten(-1, (4, 2)).transpose(1, 2)
        k, v = (p(x).unflatten(-1, (2, 2)).transpose(1, 2) for p in (self.k, self.v))
        k = k[:, :, None].expand(B, 2, 2, T, 2).reshape(B, 4, T, 2)
        v = v.repeat_interleave(2, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


@program
def grouped_query(c):
    yield from calls(c, GroupedQuery(), lambda n: leaf(n, 5, 8))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(dim, hidden, bias=False),
            nn.Linear(hidden, dim, bias=False),
            nn.Linear(dim, hidden, bias=False),
        )
        self.norm = RMSNorm(dim)

    def forward(self, x):
        return x + self.w2(F.silu(self.w1(self.norm(x))) * self.w3(x))


@program
def swiglu(c):
    yield from calls(c, SwiGLU(6, 8), lambda n: leaf(n, 6))


@program
def swiglu_bf16(c):
    yield from calls(c, SwiGLU(6, 8).bfloat16(), lambda n: leaf(n, 6, dtype=torch.bfloat16))


class MoE(nn.Module):
    """Top-2 routing with index_add, each expert on the tokens that chose it."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            row, nth = torch.where(chosen == k)
            out.index_add_(0, row, expert(x[row]) * weights[row, nth, None])
        return out


@program(breaks=2)
def experts_by_index(c):
    yield from calls(c, MoE(), lambda n: leaf(n + 3, 6))


class DenseMoE(MoE):
    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return torch.einsum("nk,knd->nd", weights, torch.stack([e(x) for e in self.experts]))


@program
def experts_dense(c):
    yield from calls(c, DenseMoE(), lambda n: leaf(n, 6))


# ---- attention and recurrence of torch.nn ----


@program
def multihead_attention_masks(c):
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    pad = torch.tensor([[False, False, True], [False, False, False]])

    def attend(x, mask, padding):
        return model(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=True)

    attend.__self__ = model
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    for mask, padding in ((None, None), (causal, None), (None, pad), (causal.isinf(), pad)):
        yield from calls(c, attend, lambda n, m=mask, p=padding: (leaf(2, 3, 8), m, p), sizes=(1, 1))


@program
def multihead_attention_fast_path(c):
    model = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    yield from calls(
        c, lambda x: model(x, x, x, need_weights=False)[0].contiguous(), lambda n: torch.randn(n, 3, 8), grads=(False,)
    )
    yield from calls(
        c, lambda x: model(x, x, x, average_attn_weights=False)[1], lambda n: torch.randn(n, 3, 8), grads=(False,)
    )


@program
def multihead_attention_other_sizes(c):
    model = nn.MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True, add_zero_attn=True)
    yield from calls(c, model, lambda n: (leaf(3, n, 8), leaf(5, n, 4), leaf(5, n, 6)))


@program
def transformer_encoder(c):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)
    pad = torch.tensor([[False, False, True], [False, False, False]])
    yield from calls(c, model, lambda n: {"src": leaf(2, 3, 8), "src_key_padding_mask": pad})
    yield from calls(c, model, lambda n: (leaf(n, 3, 8), nn.Transformer.generate_square_subsequent_mask(3), None, True))


@program
def transformer_encoder_fast_path(c):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    yield from calls(c, model, lambda n: torch.randn(n, 3, 8))


@program(breaks=1)
def transformer(c):
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    yield from calls(c, model, lambda n: {"src": leaf(n, 3, 8), "tgt": leaf(n, 4, 8), "tgt_mask": mask})


class Tagger(nn.Module):
    def __init__(self, kind=nn.LSTM, **options):
        super().__init__()
        self.emb = nn.Embedding(10, 6, padding_idx=0)
        self.rnn = kind(6, 5, batch_first=True, **options)
        self.out = nn.Linear(5 * (2 if options.get("bidirectional") else 1), 3)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        out, state = self.rnn(packed)
        out, n = pad_packed_sequence(out, batch_first=True)
        return self.out(out), n, state


def ids(n):
    return torch.randint(1, 10, (3, 5)), torch.tensor([5, 2, 4 - n % 2])


@program(breaks=6)
def lstm_packed(c):
    yield from calls(c, Tagger(), ids)


@program(breaks=6)
def gru_packed_bidirectional(c):
    yield from calls(c, Tagger(nn.GRU, bidirectional=True, num_layers=2), ids)


@program
def lstm_states(c):
    model = nn.LSTM(4, 5, num_layers=2, dropout=0.2)
    yield from calls(c, model, lambda n: (leaf(3, n, 4), (leaf(2, n, 5), leaf(2, n, 5))))


@program
def gru_unbatched(c):
    yield from calls(c, nn.GRU(4, 5), lambda n: leaf(n, 4))


@program
def rnn_projected(c):
    yield from calls(c, nn.LSTM(4, 6, proj_size=3, bidirectional=True), lambda n: leaf(3, n, 4))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(4, 5), nn.GRUCell(5, 3)

    def forward(self, x):
        h = c = x.new_zeros(x.size(1), 5)
        g, out = None, []
        for step in x:
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            out += [g]
        return torch.stack(out), (h, c)


@program
def cells_in_a_loop(c):
    yield from calls(c, Cells(), lambda n: leaf(4, n, 4))


class Seq2Seq(nn.Module):
    """Teacher forcing by a coin, attention over what the encoder gave."""

    def __init__(self):
        super().__init__()
        self.emb, self.enc, self.dec = nn.Embedding(9, 6), nn.GRU(6, 6), nn.GRUCell(12, 6)
        self.out = nn.Linear(6, 9)

    def forward(self, src, tgt, teacher=True):
        memory, h = self.enc(self.emb(src))
        h, token, logits = h[0], tgt[0], []
        for t in range(1, tgt.size(0)):
            scores = torch.einsum("bd,sbd->bs", h, memory).softmax(1)
            context = torch.einsum("bs,sbd->bd", scores, memory)
            h = self.dec(torch.cat([self.emb(token), context], 1), h)
            logits.append(self.out(h))
            token = tgt[t] if teacher else logits[-1].argmax(1)
        return torch.stack(logits)


@program
def sequence_to_sequence(c):
    yield from calls(c, Seq2Seq(), lambda n: (torch.randint(0, 9, (4, n)), torch.randint(0, 9, (3, n)), n % 2 == 1))


@program
def embedding_kinds(c):
    model = nn.ModuleDict(
        {
            "padded": nn.Embedding(7, 3, padding_idx=2),
            "scaled": nn.Embedding(7, 3, scale_grad_by_freq=True),
            "bag": nn.EmbeddingBag(7, 3, mode="mean"),
            "sum": nn.EmbeddingBag(7, 3, mode="sum", include_last_offset=True),
        }
    )
    model.forward = lambda i: [
        model["padded"](i),
        model["scaled"](i),
        model["bag"](i),
        model["sum"](i.flatten(), torch.tensor([0, 2, i.numel()])),
    ]
    yield from calls(c, model, lambda n: torch.randint(0, 7, (n, 4)))


@program(breaks=1)
def embedding_with_max_norm(c):
    model = nn.Sequential(nn.Embedding(7, 3, max_norm=0.5), nn.Linear(3, 2))
    yield from calls(c, model, lambda n: torch.randint(0, 7, (n, 4)))


@program(breaks=2)
def embedding_sparse(c):
    model = nn.Sequential(nn.Embedding(7, 3, sparse=True), nn.Linear(3, 2))
    f, opt = c(model), torch.optim.SparseAdam([model[0].weight])
    for n in (2, 2, 3):
        out = f(torch.randint(0, 7, (n, 4)))
        out.sum().backward()
        yield out, model[0].weight.grad
        opt.step()
        model.zero_grad()
        yield model[0].weight


# ---- pictures ----


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half).to(
        device=t.device
    )
    args = t[:, None].float() * freqs[None]
    emb = torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
    if dim % 2:
        emb = torch.cat([emb, torch.zeros_like(emb[:, :1])], dim=-1)
    return emb


class ResBlock(nn.Module):
    def __init__(self, a, b, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(2, a), nn.Conv2d(a, b, 3, padding=1)
        self.emb, self.norm2, self.conv2 = nn.Linear(emb, 2 * b), nn.GroupNorm(2, b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        return self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift)) + self.skip(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(9, 8), nn.SiLU(), nn.Linear(8, 8))
        self.stem, self.down = nn.Conv2d(1, 4, 3, padding=1), nn.ModuleList([ResBlock(4, 4, 8), ResBlock(4, 8, 8)])
        self.up, self.out = nn.ModuleList([ResBlock(16, 4, 8), ResBlock(8, 4, 8)]), nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x, t):
        emb, x, kept = self.time(timestep_embedding(t, 9)), self.stem(x), []
        for block in self.down:
            x = block(x, emb)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], dim=1), emb)
        return self.out(x)


@program
def unet(c):
    yield from calls(c, UNet(), lambda n: (leaf(n, 1, 8, 8), torch.randint(0, 100, (n,))), sizes=(2, 2, 3))


@program
def diffusion_loss_and_sampling(c):
    model = UNet()
    betas = torch.linspace(1e-4, 0.02, 10)
    alphas = torch.cumprod(1 - betas, 0)

    def loss(x):
        t = torch.randint(0, 10, (x.shape[0],))
        noise = torch.randn_like(x)
        a = alphas[t].view(-1, 1, 1, 1)
        return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)

    loss.__self__ = model
    yield from calls(c, loss, lambda n: torch.randn(n, 1, 8, 8), sizes=(2, 2, 3), grads=(True,))

    @torch.no_grad()
    def sample(n):
        x = torch.randn(n, 1, 8, 8)
        for i in reversed(range(3)):
            t = torch.full((n,), i, dtype=torch.long)
            x = (x - betas[i] / (1 - alphas[i]).sqrt() * model(x, t)) / (1 - betas[i]).sqrt()
            if i > 0:
                x = x + betas[i].sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)

    f = c(sample)
    for n in (2, 2, 3):
        yield f(n)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 8), nn.Sequential(nn.Linear(4, 6), nn.Sigmoid())

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        out = self.dec(self.reparameterize(mu, logvar))
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return {"loss": F.binary_cross_entropy(out, x.detach().sigmoid(), reduction="sum") + kl, "out": out}


@program
def vae(c):
    yield from calls(c, VAE(), lambda n: leaf(n, 6))


class DistributionVAE(VAE):
    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        q = torch.distributions.Normal(mu, (0.5 * logvar).exp(), validate_args=False)
        z = q.rsample()
        kl = torch.distributions.kl_divergence(
            q, torch.distributions.Normal(torch.zeros_like(mu), torch.ones_like(mu), validate_args=False)
        )
        return q.log_prob(z).sum(), kl.sum(), self.dec(z)


@program(breaks=1)
def vae_with_distributions(c):
    yield from calls(c, DistributionVAE(), lambda n: leaf(n, 6))


class VQ(nn.Module):
    """Straight-through nearest neighbours; codes kept by moving averages."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(5, 4))
        self.register_buffer("counts", torch.ones(5))

    def forward(self, x):
        d = torch.cdist(x, self.codes)
        index = d.argmin(-1)
        hot = F.one_hot(index, 5).type_as(x)
        if self.training:
            with torch.no_grad():
                self.counts.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                self.codes.data.lerp_(hot.t() @ x / (hot.sum(0)[:, None] + 1e-5), 0.1)
        q = F.embedding(index, self.codes)
        return x + (q - x).detach(), F.mse_loss(q.detach(), x), index


@program(breaks=3)
def vector_quantised(c):
    yield from calls(c, VQ(), lambda n: leaf(n, 4))


@program
def channels_last(c):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.AdaptiveAvgPool2d(2),
    ).to(memory_format=torch.channels_last)
    yield from calls(c, model, lambda n: torch.randn(n, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_())


@program
def gan(c):
    g, d = (
        nn.Sequential(nn.Linear(3, 6), nn.LeakyReLU(0.2), nn.Linear(6, 4), nn.Tanh()),
        nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)),
    )
    cg, cd = c(g), c(d)
    og, od = torch.optim.Adam(g.parameters(), 1e-2), torch.optim.Adam(d.parameters(), 1e-2)
    for n in (3, 3, 4):
        real, fake = torch.randn(n, 4), cg(torch.randn(n, 3))
        od.zero_grad()
        loss = F.softplus(-cd(real)).mean() + F.softplus(cd(fake.detach())).mean()
        loss.backward()
        od.step()
        og.zero_grad()
        wish = F.softplus(-cd(fake)).mean()
        wish.backward()
        og.step()
        yield loss, wish, list(g.parameters()), list(d.parameters())


# ---- graphs and sets ----


class GraphConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, edges):
        src, dst = edges
        degree = torch.zeros(x.size(0)).scatter_add_(0, dst, torch.ones(dst.numel())).clamp(min=1)
        out = torch.zeros_like(x).index_add(0, dst, self.lin(x)[src])
        return out / degree[:, None]


def graph(n):
    return leaf(n, 4), torch.randint(0, n, (2, 2 * n))


@program
def graph_convolution(c):
    yield from calls(c, GraphConv(), graph)


def attention_over_edges(x, edges):
    src, dst = edges[0], edges[1]
    score = (x[src] * x[dst]).sum(-1)
    top = torch.full((x.size(0),), -torch.inf).scatter_reduce(0, dst, score, "amax")
    e = (score - top[dst]).exp()
    total = torch.zeros(x.size(0)).scatter_add(0, dst, e)
    return torch.zeros_like(x).index_put((dst,), x[src] * (e / (total[dst] + 1e-9))[:, None], accumulate=True)


@program
def graph_attention(c):
    yield from calls(c, attention_over_edges, graph)


@program
def deep_sets(c):
    phi, rho = nn.Linear(3, 5), nn.Linear(5, 2)

    def f(x, mask):
        h = phi(x).relu().masked_fill(~mask[..., None], 0)
        return rho(h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))

    yield from calls(c, f, lambda n: (leaf(n, 4, 3), torch.rand(n, 4) > 0.4))
