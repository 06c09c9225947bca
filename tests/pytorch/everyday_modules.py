"""Modules as people write them: outputs in dataclasses, named tuples and dicts, configuration objects, early exits,
hooks, parametrizations, copies, ensembles."""

import collections
import copy
import dataclasses
import enum
import functools
import io
import pickle
import typing

import torch
import torch.nn.functional as F
from everyday import calls, change, leaf, program
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import pad_sequence

# ---- what outputs and arguments are ----


@dataclasses.dataclass
class Output:
    logits: Tensor
    loss: typing.Optional[Tensor] = None
    hidden: tuple = ()


class ModelOutput(collections.OrderedDict):
    """As transformers has it: items by key, by attribute and by number."""

    def __init__(self, **values):
        super().__init__((k, v) for k, v in values.items() if v is not None)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


class Pair(typing.NamedTuple):
    mean: Tensor
    scale: Tensor = None

    @property
    def total(self):
        return self.mean.sum()


class Head(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.lin, self.kind = nn.Linear(4, 3), kind

    def forward(self, x, labels=None, *, output_hidden=False, return_dict=True, **extra):
        h = self.lin(x)
        loss = F.cross_entropy(h, labels) if labels is not None else None
        if extra:
            h = h + sum(extra[k] for k in sorted(extra))
        if not return_dict:
            return (h,) + ((loss,) if loss is not None else ())
        if self.kind is Pair:
            return {"all": [Pair(h, x), Pair(h.sum(0))], "total": Pair(h).total}
        return self.kind(logits=h, loss=loss, hidden=(x, h) if output_hidden else ())


def head_arguments(n):
    full = {"x": leaf(n, 4), "labels": torch.randint(0, 3, (n,)), "output_hidden": True}
    return {2: {"x": leaf(n, 4), "return_dict": False}, 5: {"x": leaf(n, 4), "b": torch.ones(3), "a": 2.0}}.get(n, full)


@program
def dataclass_output(c):
    yield from calls(c, Head(Output), head_arguments)


@program
def model_output_dict(c):
    yield from calls(c, Head(ModelOutput), head_arguments)


@program
def named_tuples(c):
    yield from calls(c, Head(Pair), head_arguments)


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
    NONE = "none"


class Flags(enum.IntFlag):
    BIAS = 1
    SCALE = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    mode: Mode = Mode.SUM
    flags: Flags = Flags.BIAS | Flags.SCALE
    scale: float = 2.0

    @functools.cached_property
    def doubled(self):
        return self.scale * 2


class Pool(nn.Module):
    total = 0

    def __init__(self, config):
        super().__init__()
        self.config = config

    @property
    def factor(self):
        return self.config.doubled if Flags.SCALE in self.config.flags else 1

    def forward(self, x):
        Pool.last = self.config.mode.name
        type(self).total += 1
        match self.config.mode:
            case Mode.SUM:
                x = x.sum(0)
            case Mode.MEAN:
                x = x.mean(0)
        return x * self.factor + (self.config.flags & Flags.BIAS), f"{self.config.mode!r} {tuple(x.shape)} {x.dtype}"


@program(breaks=3)
def configuration_objects(c):
    Pool.total = 0
    model = Pool(Frozen())
    f = c(model)
    for mode in (Mode.SUM, Mode.SUM, Mode.MEAN, Mode.NONE):
        model.config = dataclasses.replace(model.config, mode=mode)
        yield f(torch.randn(3, 2)), Pool.total, Pool.last


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.heads = nn.ModuleDict({str(k): nn.Linear(4, 2) for k in range(4)})

    def forward(self, x, sure=0.6):
        for k, layer in enumerate(self.layers):
            x = layer(x).tanh()
            out = self.heads[str(k)](x).softmax(-1)
            if out.max() > sure:
                break
        return out, k


@program(breaks=2)
def early_exit_on_data(c):
    yield from calls(c, EarlyExit(), lambda n: (leaf(1, 4), 0.5 + n / 20))


class LayerDrop(EarlyExit):
    def forward(self, x, depth):
        for layer in self.layers[:depth]:
            x = x + layer(x)
        for name, head in self.heads.items():
            if name == str(depth - 1):
                return head(x)


@program
def layers_by_number(c):
    yield from calls(c, LayerDrop(), lambda n: (leaf(2, 4), n - 1))


# ---- hooks, parametrizations ----


class LoRA(nn.Module):
    def __init__(self, n, m, rank=2):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(rank, m) * 0.1), nn.Parameter(torch.randn(n, rank) * 0.1)

    def forward(self, weight):
        return weight + self.b @ self.a


@program
def lora_by_parametrize(c):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).requires_grad_(False)
    for layer in (model[0], model[2]):
        parametrize.register_parametrization(layer, "weight", LoRA(*layer.weight.shape))
    yield from calls(c, model, lambda n: leaf(n, 4))
    parametrize.remove_parametrizations(model[0], "weight")
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def lora_by_hooks(c):
    base = nn.Linear(4, 3).requires_grad_(False)
    base.a, base.b = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(3, 2))
    handle = base.register_forward_hook(lambda m, args, out: out + args[0] @ m.a.t() @ m.b.t())
    model = nn.Sequential(base, nn.Tanh())
    yield from calls(c, model, lambda n: leaf(n, 4))
    handle.remove()
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def weight_norm(c):
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(4, 5)), parametrizations.weight_norm(nn.Linear(5, 2), dim=None)
    )
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def weight_norm_by_hook(c):
    model = nn.Sequential(torch.nn.utils.weight_norm(nn.Linear(4, 5)), nn.ReLU())
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def spectral_norm(c):
    model = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 5)), nn.ReLU())
    yield from calls(c, model, lambda n: leaf(n, 4))
    model.eval()
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def orthogonal(c):
    model = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley")
    yield from calls(c, model, lambda n: leaf(n, 4))


@program(breaks=3)
def parametrization_cached(c):
    model = parametrizations.weight_norm(nn.Linear(4, 4))

    def f(x):
        with parametrize.cached():
            return model(model(x))

    f.__self__ = model
    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def hooks_of_all_kinds(c):
    model, told = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
    model.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    model[0].register_forward_hook(lambda m, args, kwargs, out: told.append(out.shape) or out + 1, with_kwargs=True)
    model[1].register_forward_hook(lambda m, args, out: None, always_call=True)
    yield from calls(c, model, lambda n: leaf(n, 4))
    yield told


@program(breaks=5)
def full_backward_hook(c):
    model, told = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), []
    model[0].register_full_backward_hook(lambda m, gi, go: told.append(go[0].detach().clone()))
    model[2].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    yield from calls(c, model, lambda n: leaf(n, 4))
    yield told


@program
def feature_extractor(c):
    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.kept = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), {}
            for name in ("0", "1"):
                self.body.get_submodule(name).register_forward_hook(self.keep(name))

        def keep(self, name):
            def hook(_, __, out):
                self.kept[name] = out

            return hook

        def forward(self, x):
            self.kept.clear()
            return self.body(x), dict(self.kept)

    yield from calls(c, Features(), lambda n: leaf(n, 4))


@program
def tensor_hooks(c):
    told = []

    def f(x):
        return (x * 2).sin()

    g = c(f)
    for n in (3, 3, 4):
        x = leaf(n)
        x.register_hook(lambda g: told.append(g.clone()) or g * 3)
        y = g(x)
        y.register_hook(lambda g: g + 1)
        y.retain_grad()
        y.sum().backward()
        yield x.grad, y.grad, told


# ---- copies ----


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.bn = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.steps += 1
        return self.bn(self.lin(x)) * self.steps


def plain_keys(state):
    return {k.removeprefix("_orig_mod."): v for k, v in state.items()}


@program
def copies_of_compiled_modules(c):
    model = c(Counted())
    yield model(torch.randn(3, 4))
    other = copy.deepcopy(model)
    yield other(torch.randn(3, 4)), model(torch.randn(3, 4)), model.steps, other.steps
    third = pickle.loads(pickle.dumps(model))
    yield third(torch.randn(3, 4)), third.steps
    file = io.BytesIO()
    torch.save(plain_keys(model.state_dict()), file)
    file.seek(0)
    fourth = Counted()
    fourth.load_state_dict(torch.load(file))
    fourth = c(fourth)
    yield fourth(torch.randn(3, 4)), plain_keys(fourth.state_dict())
    change(model)
    yield (
        model.eval()(torch.randn(3, 4)),
        other(torch.randn(3, 4)),
        model.training,
        [p.shape for p in model.parameters()],
    )


@program
def functional_call(c):
    model = Counted()

    def f(p, x):
        return torch.func.functional_call(model, p, (x,))

    g = c(f)
    for n in (3, 3, 4):
        p = {k: (v * 1.1).detach().requires_grad_(v.is_floating_point()) for k, v in model.named_parameters()}
        out = g(p, torch.randn(n, 4))
        out.sum().backward()
        yield out, p, [v.grad for v in p.values()], dict(model.named_buffers())


@program
def ensemble(c):
    models = [nn.Linear(4, 2) for _ in range(3)]

    def f(x):
        return torch.stack([m(x) for m in models]).mean(0)

    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def padded_batch(c):
    emb = nn.Embedding(10, 4, padding_idx=0)

    def f(rows):
        ids = pad_sequence(rows, batch_first=True)
        mask = ids.ne(0).unsqueeze(-1)
        return (emb(ids) * mask).sum(1) / mask.sum(1)

    yield from calls(c, f, lambda n: ([torch.randint(1, 10, (k + 1,)) for k in range(n)],))


@program
def siamese(c):
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())

    def f(a, p, n):
        za, zp, zn = map(net, (a, p, n))
        return (
            F.triplet_margin_loss(za, zp, zn),
            F.cosine_similarity(za, zp),
            F.cosine_embedding_loss(za, zn, -torch.ones(len(a))),
        )

    yield from calls(c, f, lambda n: tuple(leaf(n, 4) for _ in range(3)))


@program
def contrastive(c):
    def f(a, b, scale):
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        logits = scale.exp() * a @ b.T
        labels = torch.arange(len(a))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    yield from calls(c, f, lambda n: (leaf(n, 4), leaf(n, 4), leaf(())))


@program
def state_space(c):
    a, b, d = torch.rand(4) * 0.9, torch.randn(4, 3), torch.randn(3, 4)

    def f(x):
        state, out = torch.zeros(x.shape[0], 4), []
        for u in x.unbind(1):
            state = state * a + u @ b.T
            out.append(state @ d.T)
        return torch.stack(out, 1)

    yield from calls(c, f, lambda n: leaf(n, 4, 3))


@program
def lazy_modules(c):
    model = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(2))
    model(torch.zeros(1, 4))
    yield from calls(c, model, lambda n: leaf(n, 4))


@program
def swin_windows(c):
    def f(x):
        B, H, W, C = x.shape
        x = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
        w = x.view(B, H // 2, 2, W // 2, 2, C).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, C)
        w = (w @ w.mT).softmax(-1) @ w
        x = w.view(B, H // 2, W // 2, 2, 2, -1).permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)
        return torch.roll(x, shifts=(1, 1), dims=(1, 2))

    yield from calls(c, f, lambda n: leaf(n, 4, 4, 3))


@program
def patches(c):
    def f(x):
        p = F.unfold(x, 3, padding=1).transpose(1, 2)
        y = F.fold((p * p.mean(-1, keepdim=True)).transpose(1, 2), x.shape[-2:], 3, padding=1)
        return F.pixel_unshuffle(F.pixel_shuffle(y.repeat(1, 4, 1, 1), 2), 2)

    yield from calls(c, f, lambda n: leaf(n, 2, 4, 4))


@program
def spectral_convolution(c):
    class Spectral(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(2, 2, 3, dtype=torch.cfloat))

        def forward(self, x):
            ft = torch.fft.rfft(x)
            out = torch.zeros(x.shape[0], 2, ft.shape[-1], dtype=torch.cfloat)
            out[:, :, :3] = torch.einsum("bix,iox->box", ft[:, :, :3], self.w)
            return torch.fft.irfft(out, n=x.size(-1))

    yield from calls(c, Spectral(), lambda n: leaf(n, 2, 8))


@program
def spectrogram(c):
    window = torch.hann_window(8)

    def f(x):
        s = torch.stft(x, 8, hop_length=4, window=window, return_complex=True)
        mel = (s.abs() ** 2).transpose(1, 2).log1p()
        return mel, torch.istft(s, 8, hop_length=4, window=window, length=x.shape[-1])

    yield from calls(c, f, lambda n: leaf(n, 32))
