"""Programs with dynamic sizes: what people export with them, and what symbolic sizes go through on the way."""
import torch
from torch import nn, randint, randn
from torch.export import Dim

from programs import layer, program

F = nn.functional
BATCH, LENGTH = Dim("batch", min=1, max=128), Dim("length", min=2, max=256)


# ---- layers ----
layer("dynamic_mlp", lambda: nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 3),
                                           nn.Softmax(-1)), lambda: (randn(4, 6),),
      more=lambda: [(randn(1, 6),), (randn(9, 6),)], dynamic=({0: BATCH},))
layer("dynamic_convnet", lambda: nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
                                               nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 4)),
      lambda: (randn(2, 3, 8, 8),), more=lambda: [(randn(1, 3, 8, 8),), (randn(5, 3, 8, 8),)], dynamic=({0: BATCH},))
layer("dynamic_lstm", lambda: nn.LSTM(5, 6, batch_first=True), lambda: (randn(3, 4, 5),),
      more=lambda: [(randn(7, 4, 5),)], dynamic=({0: BATCH},))
layer("dynamic_encoder_layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
      lambda: (randn(3, 5, 8),),
      more=lambda: [(randn(2, 5, 8),), (randn(6, 9, 8),)], dynamic=({0: BATCH, 1: LENGTH},))
layer("dynamic_conv1d", lambda: nn.Sequential(nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4), nn.SiLU()),
      lambda: (randn(2, 2, 17),),
      more=lambda: [(randn(3, 2, 8),), (randn(1, 2, 101),)], dynamic=({0: BATCH, 2: Dim("samples", min=8, max=256)},))


# ---- functions of sizes ----
@program(lambda: (randn(3, 4), randn(3, 4)), more=lambda: [(randn(7, 4), randn(7, 4))],
         dynamic={"x": {0: BATCH}, "y": {0: BATCH}})
def shared_dim(self, x, y):
    return x * y, torch.cat([x, y]), torch.stack([x, y]), x @ y.T


@program(lambda: (randn(3, 4), randn(3, 5)), more=lambda: [(randn(6, 4), randn(6, 5))],
         dynamic=({0: Dim.AUTO}, {0: Dim.AUTO}))
def auto_dims_become_equal(self, x, y):
    return torch.cat([x, y], 1).sum(0), x.sum(1) + y.sum(1)


@program(lambda: (randn(4, 6), randn(5, 6)), more=lambda: [(randn(2, 6), randn(9, 6))],
         dynamic={"x": {0: Dim("rows")}, "y": {0: Dim("others")}})
def two_independent_dims(self, x, y):
    return torch.cat([x, y]), x @ y.T, x.mean(0) - y.mean(0)


@program(lambda: (randn(5, 3), randn(6, 3)), more=lambda: [(randn(8, 3), randn(9, 3))],
         dynamic=lambda: (lambda n: {"x": {0: n}, "y": {0: n + 1}})(Dim("n", min=2, max=60)))
def derived_plus_one(self, x, y):
    return x + y[1:], torch.cat([x, y]).sum(0)


@program(lambda: (randn(4, 8),), more=lambda: [(randn(3, 12),)],
         dynamic=lambda: {"x": {0: Dim("rows", max=40), 1: 4 * Dim("quarter", min=1, max=20)}})
def divisible_dim(self, x):
    parts = x.view(x.shape[0], 4, -1)
    return parts.sum(1), parts.transpose(1, 2).reshape(x.shape[0], -1), x.shape[1] // 4


@program(lambda: (randn(2, 6, 4),), more=lambda: [(randn(3, 11, 4),)], dynamic={"x": {0: BATCH, 1: LENGTH}})
def flattened(self, x):
    b, n, c = x.shape
    flat = x.reshape(b * n, c)
    return flat.sum(0), flat * 2, x.flatten(1), x.unsqueeze(2).repeat(1, 1, 3, 1).sum(2)


@program(lambda: (randn(5, 6),), more=lambda: [(randn(9, 6),)], dynamic={"x": {0: Dim("n", min=5, max=100)}})
def slices_of_symbolic(self, x):
    n = x.size(0)
    return x[1:], x[:-1] - x[1:], x[2:n], x[: n - 2], x[::2].sum(0), x.narrow(0, 1, n - 3), x[-1], x[n - 1]


@program(lambda: (randint(0, 9, (2, 5)),), lambda: dict(table=nn.Embedding(9, 8), place=nn.Embedding(64, 8)),
         more=lambda: [(randint(0, 9, (3, 12)),)],
         dynamic=lambda: {"tokens": {0: BATCH, 1: Dim("length", min=2, max=64)}})
def positions(self, tokens):
    where = torch.arange(tokens.shape[1])
    return self.table(tokens) + self.place(where), where.float() / tokens.shape[1]


@program(lambda: (randn(2, 5, 8),), lambda: dict(qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)),
         more=lambda: [(randn(4, 9, 8),)], dynamic={"x": {0: BATCH, 1: LENGTH}})
def causal_attention(self, x):
    b, n, c = x.shape
    q, k, v = self.qkv(x).chunk(3, -1)
    q, k, v = (t.view(b, n, 2, 4).transpose(1, 2) for t in (q, k, v))
    return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c))


@program(lambda: (randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)), lambda: dict(score=nn.Linear(8, 1)),
         more=lambda: [(randn(3, 7, 8), torch.rand(3, 7) > 0.2)],
         dynamic={"x": {0: BATCH, 1: LENGTH}, "mask": {0: BATCH, 1: LENGTH}})
def masked_pooling(self, x, mask):
    weight = self.score(x).squeeze(-1).masked_fill(~mask, -1e4).softmax(1)
    return (weight[..., None] * x).sum(1), mask.sum(1)


@program(lambda: (randn(2, 3, 8, 10),), lambda: dict(a=nn.Conv2d(3, 4, 3, padding=1), b=nn.Conv2d(4, 3, 1)),
         more=lambda: [(randn(1, 3, 12, 6),), (randn(3, 3, 4, 4),)],
         dynamic=lambda: {"x": {0: BATCH, 2: 2 * Dim("h", min=2, max=32), 3: 2 * Dim("w", min=2, max=32)}})
def down_and_up(self, x):
    low = F.avg_pool2d(self.a(x).relu(), 2)
    return self.b(F.interpolate(low, scale_factor=2, mode="nearest")) + x, low.amax((2, 3))


@program(lambda: (randn(4, 5),), more=lambda: [(randn(3, 8),)], dynamic={"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}})
def symbolic_factories(self, x):
    a, b = x.shape
    return (torch.zeros(a, b + 1), torch.ones(a + b).cumsum(0), torch.arange(b) * x, torch.eye(a) @ x,
            torch.full((a, 2), 1.5) + a, x.new_zeros(b, a).add(x.T),
            torch.linspace(0, 1, 5) * b, torch.tril(torch.ones(b, b)))


@program(lambda: (randn(4, 5),), more=lambda: [(randn(9, 5),), (randn(2, 5),)],
         dynamic={"x": {0: Dim("n", min=1, max=50)}})
def reductions_over_symbolic(self, x):
    return x.sum(0), x.mean(0), x.var(0,
            correction=0), x.amax(0), x.softmax(0), x.argmax(0), x.cumsum(0), x.sort(0).values, x.norm(
                    dim=0), F.normalize(x, dim=0)


@program(lambda: (randn(3, 4), randn(4)), lambda: dict(total_buffer=torch.zeros(4), count_buffer=torch.zeros(())),
         more=lambda: [(randn(7, 4), randn(4)), (randn(2, 4), randn(4))],
         dynamic={"x": {0: Dim("n", min=1, max=50)}, "y": None})
def running_sum(self, x, y):
    self.total_buffer.add_(x.sum(0))
    self.count_buffer += x.shape[0]
    return self.total_buffer / self.count_buffer + y


@program(lambda: (randn(4, 3), {"scale": randn(4, 1), "items": [randn(3), randn(4, 3)]}),
         kwargs=lambda: {"shift": randn(4)}, more=lambda: [
    ((randn(6, 3), {"scale": randn(6, 1), "items": [randn(3), randn(6, 3)]}), {"shift": randn(6)})],
    dynamic={"x": {0: BATCH}, "parts": {"scale": {0: BATCH}, "items": [None, {0: BATCH}]}, "shift": {0: BATCH}})
def nested_dynamic(self, x, parts, *, shift):
    return {"y": x * parts["scale"] + parts["items"][0], "z": [parts["items"][1] - shift[:, None]]}


@program(lambda: (randn(3, 4), randn(2, 4)), more=lambda: [(randn(8, 4), randn(5, 4))],
         dynamic={"xs": ({0: Dim("first")}, {0: Dim("second")})})
def dynamic_varargs(self, *xs):
    return torch.cat(xs), sum(x.sum(0) for x in xs)


@program(lambda: (randn(6, 4), torch.tensor(True)), lambda: dict(a=nn.Linear(4, 4)),
         more=lambda: [(randn(3, 4), torch.tensor(False))], dynamic={"x": {0: BATCH}, "flag": None})
def cond_of_dynamic(self, x, flag):
    return torch.cond(flag, lambda x: self.a(x) * x.shape[0], lambda x: x.flip(0), (x,))


@program(lambda: (randn(5, 4), torch.tensor([3, 0, 2])), more=lambda: [(randn(9, 4), torch.tensor([1, 8, 8]))],
         dynamic={"x": {0: Dim("n", min=4, max=50)}, "index": None})
def gather_from_dynamic(self, x, index):
    return x[index], x.index_select(0, index), x.gather(0, index[:, None].expand(3, 4)), x.scatter(0,
            index[:, None].expand(3, 4), 0.5)


@program(lambda: (randn(6, 3),), more=lambda: [(randn(4, 3),)], dynamic={"x": {0: Dim("n", min=2, max=50)}})
def masks_of_dynamic(self, x):
    picked = x[x[:, 0] > 0]
    return picked * 2, picked.shape[0], x.masked_fill(x < 0, 0.0)


@program(lambda: (randn(3, 5), 4), more=lambda: [(randn(6, 5), 4)], dynamic={"x": {0: BATCH}, "n": None})
def number_beside_dynamic(self, x, n):
    return x.repeat(n, 1), x.new_ones(x.shape[0], n).cumsum(1)


def tied():
    table = nn.Embedding(11, 6)
    out = nn.Linear(6, 11)
    out.weight = table.weight
    return dict(table=table, norm=nn.LayerNorm(6), out=out)


@program(lambda: (randint(0, 11, (2, 4)),), tied, more=lambda: [(randint(0, 11, (3, 7)),)],
         dynamic={"tokens": {0: BATCH, 1: LENGTH}})
def dynamic_tied_language_model(self, tokens):
    return self.out(self.norm(self.table(tokens))).log_softmax(-1)
