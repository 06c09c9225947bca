"""Programs written once for both libraries: each takes the library and gives (module, args, kwargs, dynamic_shapes)."""
import collections

PROGRAMS = {}
Point = collections.namedtuple("Point", "x y")


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def module(torch, forward, **attributes):
    """A module with this forward; attributes are assigned in order."""
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in attributes.items():
                if name.startswith("buffer_"):
                    self.register_buffer(name[7:], value)
                elif name.startswith("temporary_"):
                    self.register_buffer(name[10:], value, persistent=False)
                else:
                    setattr(self, name, value)
    Model.forward = forward
    return Model()


@program
def linear(torch):
    return torch.nn.Linear(3, 4), (torch.ones(2, 3),), None, None


@program
def sequential(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(4),
                         nn.Linear(4, 2, bias=False)), (torch.ones(2, 3),), None, None


@program
def submodules_called_twice(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return self.inner(x).relu()

    def forward(self, x):
        return self.block(self.block(x)) + self.block.inner(x)
    return module(torch, forward, block=Block()), (torch.ones(2, 3),), None, None


@program
def every_kind_of_argument(torch):
    def forward(self, x, y=None, *xs, k=2, d=None, **kw):
        return {"x": x * k, "y": y, "xs": [t + 1 for t in xs], "d": d["p"][0] + d["p"][1], "rest": kw["zz"], "k": k,
                "flag": kw["flag"], "text": kw["text"]}
    return (module(torch, forward), (torch.ones(2, 3), None, torch.ones(1), torch.ones(2)),
            {"k": 3, "d": {"p": [torch.ones(1), 2.5]}, "zz": torch.ones(3), "flag": True, "text": "mean"}, None)


@program
def keywords_in_call_order(torch):
    def forward(self, x, *, a, b):
        return a - b + x
    return module(torch, forward), (torch.ones(2),), {"b": torch.ones(2), "a": torch.ones(2)}, None


@program
def defaults_left_out(torch):
    def forward(self, x, scale=2.0, bias=None, mode="sum"):
        y = x * scale if bias is None else x * scale + bias
        return y.sum() if mode == "sum" else y
    return module(torch, forward), (torch.ones(2),), None, None


@program
def names_collide(torch):
    def forward(self, add, x_1, x, mul):
        return add + add, x + x_1, mul * x, x * 2
    return module(torch, forward), tuple(torch.ones(2) for _ in range(4)), None, None


@program
def names_of_state(torch):
    def forward(self, x, p_w):
        return x * self.w + self.B + self.Upper.weight.sum() + p_w
    return module(torch, forward, w=torch.nn.Parameter(torch.ones(2)), buffer_B=torch.ones(2),
                  Upper=torch.nn.Linear(1, 1)), (torch.ones(2), torch.ones(2)), None, None


@program
def names_of_builtins(torch):
    def forward(self, x):
        return (x.sum(), x.max(), x.min(), x.abs(), x.pow(2), x.all(), x.any(), x.round(), x[0:1], x.max(dim=0),
                x.sum(0), x.T)
    return module(torch, forward), (torch.ones(2, 3),), None, None


@program
def tied_weights(torch):
    nn = torch.nn
    embedding, head = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
    head.weight = embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x))
    return module(torch, forward, embedding=embedding, head=head), (torch.tensor([0, 1]),), None, None


@program
def tied_modules(torch):
    block = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.second(self.first(x))
    return module(torch, forward, first=block, second=block, w=block.weight), (torch.ones(2, 3),), None, None


@program
def constants(torch):
    shared = torch.ones(3)

    def forward(self, x):
        return x + self.a + self.b + self.inner["c"] * self.n
    return module(torch, forward, a=shared, b=shared, unused=torch.ones(2), inner={"c": torch.ones(3)},
                  temporary_n=torch.ones(3)), (torch.ones(3),), None, None


@program
def tensors_made_inside(torch):
    def forward(self, x):
        a = torch.tensor([1.0, 2.0])
        b = torch.tensor(3)
        c = torch.tensor([5.0])  # noqa: F841 - never used
        return x + a, x * b, torch.tensor(True)
    return module(torch, forward), (torch.ones(2),), None, None


@program
def factories(torch):
    def forward(self, x):
        return (torch.zeros(2), torch.zeros_like(x), torch.arange(3), torch.full((2,), 1.5), torch.randn(2),
                torch.ones(2, dtype=torch.int32), x.new_zeros(2),
                torch.rand(1, device="cpu"), torch.empty(2), torch.eye(2), torch.linspace(0, 1, 3),
                torch.arange(0, 3.0, 1), torch.ones_like(x), torch.full_like(x, 2),
                torch.rand_like(x), torch.randint(0, 5, (2,)), torch.randperm(3), x.new_ones(2, 2),
                x.new_full((2,), 3.0), torch.empty_like(x), torch.arange(1, 4),
                torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, device="cpu", dtype=torch.int64))
    return module(torch, forward), (torch.ones(2),), None, None


@program
def results_of_several_parts(torch):
    def forward(self, x):
        a, b = x.split([1, 2], dim=1)
        c = x.chunk(3, 1)
        values, indices = torch.max(x, 1)
        d = torch.topk(x, 2)
        e = x.sort()
        f = torch.split(x, 2, 1)
        g = x.unbind(0)
        return a, c[0], values, d, e[1], f[1], g[0]
    return module(torch, forward), (torch.ones(2, 3),), None, None


@program
def arithmetic(torch):
    def forward(self, x):
        y = 1 - x
        y -= 2
        y = y ** 2
        y = y / 3
        y = 1 / y
        y = -y
        y = y % 2
        y = y // 2
        y = 2 ** y
        y = y @ y.T
        z = (y > 0) & ~(y < 1) | (y == 2)
        return y, z, x.float().to(torch.float64), x.int(), abs(x), x.T @ x
    return module(torch, forward), (torch.ones(2, 3),), None, None


@program
def indexing(torch):
    def forward(self, x):
        y = x[:, None, :1]
        z = x[0], x[..., -1], x[1:, ::2], x[torch.tensor([0, 1])], x[x[:, 0] > 5 - 10, :] if False else x[0, 1]
        x[0] = 1.0
        x[:, 1] = y[:, 0, 0]
        return y, z, x
    return module(torch, forward), (torch.ones(2, 3),), None, None


@program
def in_place(torch):
    def forward(self, x, y):
        x.add_(1)
        self.b.mul_(2)
        y[0].add_(3)
        z = (x * 2).relu_()
        return x, y * 2, self.b, z
    return module(torch, forward, buffer_b=torch.ones(3), p=torch.nn.Parameter(torch.ones(3))), (torch.ones(3),
            torch.ones(2, 2)), None, None


@program
def buffer_assigned(torch):
    def forward(self, x):
        self.b = self.b + x
        self.count += 1
        return self.b * 2
    return module(torch, forward, buffer_b=torch.ones(3), buffer_count=torch.tensor(0)), (torch.ones(3),), None, None


@program
def batch_norm(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Flatten()), (torch.ones(2, 3, 4, 4),), None, None


@program
def outputs_of_every_kind(torch):
    def forward(self, x):
        return x, self.p, self.c, None, 3, 2.5, True, "text", [x, {"a": (x * 2,)}], x
    return module(torch, forward, p=torch.nn.Parameter(torch.ones(2)), c=torch.ones(2)), (torch.ones(2),), None, None


@program
def named_tuples(torch):
    def forward(self, p):
        return Point(p.x + p.y, [p.x])
    return module(torch, forward), (Point(torch.ones(2), torch.ones(2)),), None, None


@program
def no_grad_region(torch):
    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            z = self.layer(y) + 1
        return z * y
    return module(torch, forward, layer=torch.nn.Linear(3, 3)), (torch.ones(2, 3),), None, None


@program
def attention(torch):
    nn = torch.nn

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, c))
    return module(torch, forward, qkv=nn.Linear(4, 12), proj=nn.Linear(4, 4)), (torch.ones(2, 3, 4),), None, None


@program
def functions(torch):
    F = torch.nn.functional

    def forward(self, x):
        return (F.relu(x), F.gelu(x), F.softmax(x, dim=-1), F.layer_norm(x, [3]), F.dropout(x, 0.5, self.training),
                F.pad(x, (1, 1)), torch.einsum("ij,kj->ik", x, x),
                torch.cat([x, x], 1), torch.stack([x, x]), torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 1),
                x.mean(-1, keepdim=True), x.std(), x.clamp(0, 1), x.flatten(),
                x.squeeze(), x.expand(2, 3), x.contiguous(), x.clone(), x.detach(), x.view(3, 2), x.type(torch.int),
                x.cumsum(0), F.silu(x), F.log_softmax(x, 1), x.argmax(-1),
                x.norm(), torch.tril(torch.ones(2, 2)), F.cross_entropy(x, torch.zeros(2, dtype=torch.long)),
                F.interpolate(x[None], scale_factor=2), F.normalize(x))
    return module(torch, forward), (torch.ones(2, 3),), None, None


@program
def dynamic_batch(torch):
    def forward(self, x):
        return self.layer(x).view(x.shape[0], -1), x.shape[0] + 1, torch.zeros(x.size(0), 2)
    return module(torch, forward, layer=torch.nn.Linear(3, 4)), (torch.ones(5, 3),
                                                                 ), None, {"x": {0: torch.export.Dim("batch")}}


@program
def dynamic_two(torch):
    def forward(self, x, y):
        return x + y, x.sum(0), torch.cat([x, y], 1)
    d, e = torch.export.dims("d", "e")
    return module(torch, forward), (torch.ones(5, 4), torch.ones(5, 4)), None, ({0: d, 1: e}, {0: d, 1: e})
