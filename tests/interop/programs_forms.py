"""Programs whose calls are the point: dynamic sizes, nested and keyword arguments, odd outputs, tied weights, control
flow, sizes that depend on data."""
import collections
import dataclasses

import torch
from torch import nn, randint, randn
from torch.export import Dim

from programs import program

BATCH, LENGTH = Dim("batch", min=1, max=128), Dim("length", min=2, max=256)


# ---- dynamic sizes ----
@program(lambda: (randn(3, 8),), lambda: dict(a=nn.Linear(8, 4), norm=nn.LayerNorm(4)),
         more=lambda: [(randn(5, 8),), (randn(1, 8),)], dynamic={"x": {0: BATCH}})
def dynamic_batch(self, x):
    return self.norm(self.a(x)), x.shape[0]


@program(lambda: (randint(0, 30, (2, 7)),),
         lambda: dict(table=nn.Embedding(30, 8), attention=nn.MultiheadAttention(8, 2, batch_first=True)),
         more=lambda: [(randint(0, 30, (3, 5)),), (randint(0, 30, (1, 11)),)],
         dynamic={"tokens": {0: BATCH, 1: LENGTH}})
def dynamic_batch_and_length(self, tokens):
    n = tokens.shape[1]
    h = self.table(tokens) + torch.arange(n)[None, :, None] / n
    return self.attention(h, h, h, attn_mask=torch.ones(n, n).triu(1).bool())[0]


@program(lambda: (randn(6, 4), randn(3, 4)), more=lambda: [(randn(10, 4), randn(5, 4))],
         dynamic=lambda: {"x": {0: 2 * Dim("half", min=2, max=50)},
                          "y": {0: Dim("half", min=2, max=50)}})
def derived_dim(self, x, y):
    return x.reshape(2, -1, 4).sum(0) + y


@program(lambda: (randn(5, 4),), more=lambda: [(randn(9, 4),)],
         dynamic=lambda: {"x": {0: 2 * Dim("k", min=1, max=50) + 1}})
def odd_dim(self, x):
    n = x.shape[0]
    return x[: n // 2] * 2 + x[n // 2 + 1:], (n - 1) // 2 * 3


@program(lambda: (randn(3, 4), randn(3, 5)), more=lambda: [(randn(6, 4), randn(6, 5))],
         dynamic={"x": {0: Dim.DYNAMIC}, "y": {0: Dim.DYNAMIC}})
def equal_dynamic_sizes(self, x, y):
    return torch.cat([x, y], 1), x.mean(0) * x.size(0)


@program(lambda: (randn(2, 3, 16, 20),), lambda: dict(a=nn.Conv2d(3, 4, 3, 2, 1), pool=nn.AdaptiveAvgPool2d(1)),
         more=lambda: [(randn(3, 3, 12, 33),), (randn(5, 3, 31, 9),)],
         dynamic=lambda: {"x": {0: Dim("n", max=8), 2: Dim("h", min=8, max=64), 3: Dim("w", min=8, max=64)}})
def dynamic_image(self, x):
    h = self.a(x).relu()
    return self.pool(h).flatten(1), nn.functional.interpolate(h, scale_factor=2.0), nn.functional.pad(x, (1, 0, 0, 1))


@program(lambda: (randn(4, 6),), more=lambda: [(randn(7, 3),)], dynamic={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
def symbolic_arithmetic(self, x):
    a, b = x.shape
    return x.new_zeros(a * b + 1), x.reshape(-1)[: a * b // 2] * (a + b), torch.full((max(a, b),),
            a / b), x.new_ones(a, min(b, 3)), a * 2 - b, (a + 1) // 2


# ---- arguments ----
@program(lambda: ({"image": randn(2, 3),
                   "extra": {"scale": randn(3), "ids": [torch.tensor([1, 0]), torch.tensor([0, 1])]}},))
def nested_dict(self, batch):
    return {"y": batch["image"] * batch["extra"]["scale"], "picked": [batch["image"][i] for i in batch["extra"]["ids"]]}


@program(lambda: (randn(2, 3),), kwargs=lambda: {"scale": randn(3), "shift": randn(2, 1)})
def keyword_arguments(self, x, *, shift, scale, power=2):
    return x * scale + shift**power


@program(lambda: (randn(2, 3), randn(2, 3), randn(2, 3)), kwargs=lambda: {"a": randn(3), "b": randn(2, 1)})
def varargs(self, *xs, **named):
    return sum(xs) * named["a"] + named["b"], xs[1] - xs[2]


@program(lambda: (randn(2, 3), 2, 0.5, True, None, "mean"))
def plain_arguments(self, x, n, scale, flip, mask, how):
    y = x.repeat(n, 1) * scale
    y = y.flip(0) if flip else y
    return y.mean(0) if how == "mean" and mask is None else y


Pair = collections.namedtuple("Pair", ["left", "right"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="programs_forms.Pair")


@dataclasses.dataclass
class Sample:
    image: torch.Tensor
    label: torch.Tensor | None = None


torch.export.register_dataclass(Sample, serialized_type_name="programs_forms.Sample")


@program(lambda: (Pair(randn(2, 3), randn(3)),))
def namedtuple_argument(self, pair):
    return Pair(pair.left * pair.right, {"sum": pair.left.sum(0)})


@program(lambda: (Sample(randn(2, 3), randn(3)),))
def dataclass_argument(self, sample):
    return Sample(sample.image * 2, sample.label - 1)


@program(lambda: ((randn(2, 3), [randn(3), (randn(1), randn(2, 1))]),))
def nested_tuples(self, pair):
    a, (b, (c, d)) = pair
    return (a * b, [c + d, (a - d,)], {"sum": a.sum(0)})


@program(lambda: (collections.OrderedDict(b=randn(2, 3), a=randn(3)),))
def ordered_dict(self, d):
    return collections.OrderedDict(z=d["b"] * d["a"], y=d["a"] + 1)


@program(lambda: (randn(2, 3), None), more=tuple)
def none_argument(self, x, y=None):
    return x * 2 if y is None else x * y, None


# ---- outputs ----
@program(lambda: (randn(2, 3),), constant=True)
def constant_outputs(self, x):
    return x * 2, 3, 2.5, None, True, "text", torch.ones(2)


@program(lambda: (randn(2, 3), randn(3)), lambda: dict(weight=nn.Parameter(randn(3)), state_buffer=randn(2)))
def inputs_returned(self, x, y):
    return x, y, self.weight, self.state_buffer, x + y


@program(lambda: (randn(2, 3),))
def repeated_outputs(self, x):
    y = x * 2
    return y, y, {"again": y, "view": y.T}


@program(lambda: (randn(2, 3),))
def single_list_output(self, x):
    return [x.sin()]


@program(lambda: (randn(3, 4),))
def tensor_lists(self, x):
    return torch.split(x, 2), torch.unbind(x), x.chunk(2, 1)


# ---- weights ----
@program(lambda: (randint(0, 20, (2, 5)),), lambda: dict(table=nn.Embedding(20, 6)))
def tied_by_use(self, tokens):
    return self.table(tokens) @ self.table.weight.T


def tied():
    table = nn.Embedding(20, 6)
    head = nn.Linear(6, 20, bias=False)
    head.weight = table.weight
    return dict(table=table, head=head)


@program(lambda: (randint(0, 20, (2, 5)),), tied)
def tied_weights(self, tokens):
    return self.head(self.table(tokens).tanh())


def views():
    whole = randn(4, 6)
    return dict(whole_buffer=whole, part_buffer=whole[1:3, ::2], wide_buffer=randn(3).expand(4, 3),
                flipped_buffer=randn(3, 4).T)


@program(lambda: (randn(2, 3),), views)
def buffers_that_are_views(self, x):
    return x * self.part_buffer, self.wide_buffer.sum(0) * x, x @ self.flipped_buffer.T[:, :2], self.whole_buffer.sum()


class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(3), persistent=False)
        self.register_buffer("kept", torch.ones(3))


@program(lambda: (randn(3),), lambda: dict(hidden=Hidden()), more=lambda: [(randn(3),), (randn(3),)])
def buffer_not_saved(self, x):
    self.hidden.steps += 1
    self.hidden.kept.mul_(1.5)
    return x * self.hidden.steps + self.hidden.kept


@program(lambda: (randn(2, 4),), lambda: dict(layers=nn.ModuleList(nn.Linear(4, 4) for _ in range(3)),
                                              gains=nn.ParameterList(nn.Parameter(randn(4)) for _ in range(3)),
                                              named=nn.ModuleDict({"out": nn.Linear(4, 2)})))
def module_lists(self, x):
    for f, gain in zip(self.layers, self.gains):
        x = f(x).relu() * gain + x
    return self.named["out"](x)


# ---- control flow ----
@program(lambda: (randn(3, 4), torch.tensor(True)), lambda: dict(a=nn.Linear(4, 4)),
         more=lambda: [(randn(3, 4), torch.tensor(False))])
def cond_tensor(self, x, flag):
    return torch.cond(flag, lambda x: self.a(x).relu(), lambda x: x * 2 - 1, (x,))


@program(lambda: (randn(5, 4),), more=lambda: [(randn(2, 4),)], dynamic={"x": {0: BATCH}})
def cond_on_size(self, x):
    return torch.cond(x.shape[0] > 3, lambda x: x.sin(), lambda x: x.cos(), (x,))


@program(lambda: (randn(3), torch.tensor(0)))
def nested_cond(self, x, n):
    def inner(x):
        return torch.cond(n > 2, lambda x: x * 3, lambda x: x - 1, (x,))
    return torch.cond(x.sum() > 0, inner, lambda x: x + 5, (x,))


@program(lambda: (torch.tensor(0), randn(3)), more=lambda: [(torch.tensor(4), randn(3))])
def while_loop(self, i, x):
    from torch._higher_order_ops import while_loop as loop
    return loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (i, x))


@program(lambda: (randn(5, 3), randn(3)), lambda: dict(a=nn.Linear(3, 3)))
def map_over_rows(self, xs, y):
    from torch._higher_order_ops.map import map as each
    return each(lambda x, y: self.a(x) * y, xs, y)


@program(lambda: (randn(3), randn(6, 3)))
def scan_over_rows(self, h, xs):
    from torch._higher_order_ops.scan import scan
    return scan(lambda h, x: ((h * 0.9 + x).tanh(), h + x), h, xs, dim=0)


@program(lambda: (randn(4, 3),))
def no_grad_region(self, x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        z = y.sin()
    return z + x


# ---- sizes that depend on data ----
@program(lambda: (torch.tensor([0.0, 2, 0, 3, 1]),), more=lambda: [(torch.tensor([1.0, 1, 1, 0, 1]),)])
def nonzero_size(self, x):
    index = x.nonzero()
    return index * 2, x[index[:, 0]]


@program(lambda: (torch.tensor(4), randn(6, 3)), more=lambda: [(torch.tensor(2), randn(6, 3))])
def item_as_size(self, n, x):
    k = n.item()
    torch._check(k >= 1)
    torch._check(k <= 6)
    return x.narrow(0, 0, k).sum(1), torch.zeros(k, 2) + 1, k * 2


@program(lambda: (randn(5, 3),), more=lambda: [(randn(5, 3).abs(),)])
def boolean_mask(self, x):
    picked = x[x > 0]
    return picked * 2, torch.masked_select(x, x < 1).sum(), (x > 0).nonzero(as_tuple=True)[0]


@program(lambda: (torch.tensor([2, 3, 1]), randn(3, 2)), more=lambda: [(torch.tensor([0, 1, 4]), randn(3, 2))])
def repeats_from_data(self, counts, x):
    return x.repeat_interleave(counts, 0)


@program(lambda: (torch.tensor([3, 1, 2, 3, 1]),), more=lambda: [(torch.tensor([5, 5, 5, 5, 5]),)])
def unique_size(self, x):
    u = torch.unique(x)
    return u + 1, u.float().mean(), u.shape[0]


@program(lambda: (torch.tensor(1.5), torch.tensor(3)), more=lambda: [(torch.tensor(-2.0), torch.tensor(7))])
def items_as_numbers(self, a, b):
    return a.item() * torch.ones(2), b.item() + torch.arange(3), a * b.item()
