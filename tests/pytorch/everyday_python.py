"""Python around tensors: NumPy in the middle, exceptions, prints, closures, caches, containers, generators, threads;
and small programs of numerical work."""

import collections
import contextlib
import functools
import logging
import math
import operator
import threading
import typing
import warnings

import numpy
import torch
import torch.nn.functional as F
from everyday import calls, leaf, program
from torch import nn

# ---- Python around tensors ----


@program(breaks=6)
def numpy_in_the_middle(c):
    def f(x):
        y = (x * 2).detach().numpy()
        z = torch.from_numpy(numpy.sort(y, axis=-1))
        return z + x, torch.as_tensor(numpy.float32(3.0)) * x

    yield from calls(c, f, lambda n: leaf(n, 4))


@program(breaks=3)
def numpy_numbers(c):
    scale = numpy.float64(1.5)
    yield from calls(c, lambda x: x * float(scale) + math.sqrt(2) + int(numpy.int64(3)), lambda n: leaf(n, 4))


@program(breaks=2)
def exceptions(c):
    def f(x, kind):
        if kind == 3:
            return x * 2
        if kind == 5:
            raise ValueError(f"of shape {tuple(x.shape)}")
        return x.view(7, 11)

    yield from calls(c, f, lambda n: (leaf(n), n), sizes=(3, 5, 2, 3, 5, 2))


PROGRAMS_OF_ERRORS = {
    "shapes": lambda x: x @ x,
    "index": lambda x: x[99],
    "type": lambda x: x + "a",
    "key": lambda x: {}[x.shape[0]],
    "attribute": lambda x: x.nothing,
    "zero": lambda x: x / (1 // (x.shape[0] - x.shape[0])),
    "reshape": lambda x: x.reshape(7, 11),
    "cat": lambda x: torch.cat([x, x[:, :1]], 0),
    "dtype": lambda x: F.embedding(x, x),
    "dim": lambda x: x.sum(5),
    "unpack": lambda x: [a for a, b in [x.shape + (1,)]],
    "gather": lambda x: x.gather(0, torch.tensor([[99]])),
}


@program(breaks=12)
def errors_of_torch(c):
    for name, f in PROGRAMS_OF_ERRORS.items():
        g = c(f)
        for _ in range(2):
            try:
                yield g(torch.randn(3, 4))
            except Exception as e:
                yield name, type(e).__name__, str(e) if name not in ("gather",) else None


@program(breaks=3)
def errors_that_are_caught(c):
    def f(x):
        try:
            return x.view(5, -1) * 2
        except RuntimeError:
            return x * 3
        finally:
            x = x + 1

    yield from calls(c, f, lambda n: leaf(n, 4))


@program(breaks=2)
def assertions(c):
    def f(x, lengths=None):
        assert x.ndim == 2 and x.dtype == torch.float32, "two dimensions"
        assert lengths is None or len(lengths) == x.shape[0], f"{len(lengths)} lengths"
        torch._assert(x.shape[1] == 4, "width")
        return x.mean(0)

    yield from calls(c, f, lambda n: (leaf(n, 4), [1] * (3 if n != 2 else 5)))


@program(breaks=2)
def assertion_on_data(c):
    def f(x):
        assert not torch.isnan(x).any(), "nan"
        return x * 2

    yield from calls(c, f, lambda n: leaf(n, 4) if n != 2 else torch.full((2,), math.nan))


@program(breaks=1)
def warnings_given(c):
    def f(x):
        if x.shape[0] > 3:
            warnings.warn(f"large: {x.shape[0]}", UserWarning, stacklevel=2)
        return x * 2

    yield from calls(c, f, lambda n: leaf(n))


@program(breaks=1)
def prints(c):
    def f(x):
        y = x * 2
        print(f"shape {tuple(y.shape)} {y.dtype} {y.shape}", y.size(), end=";\n")
        return y + 1

    yield from calls(c, f, lambda n: leaf(n))


@program
def logged(c):
    log = logging.getLogger("everyday")

    def f(x):
        log.debug("shape %s", x.shape)
        return x * 2

    yield from calls(c, f, lambda n: leaf(n))


@program
def texts(c):
    def f(x, name="a"):
        key = f"{name}_{x.shape[0]}x{x.size(-1)}:{x.dtype}"
        return {
            key: x * 2,
            "%s" % (tuple(x.shape),): x + 1,
            str(list(x.shape)): 0,
            "{:>5}".format(x.ndim): key.split("_")[-1].upper(),
        }

    yield from calls(c, f, lambda n: leaf(n, 2))


@program
def containers(c):
    def f(batch: dict):
        out = collections.defaultdict(list)
        for key, value in sorted(batch.items()):
            out[key[0]].append(value * 2)
        counts = collections.Counter(k[0] for k in batch)
        merged = {**batch, "extra": torch.stack([v.sum() for v in batch.values()])}
        return (
            {k: torch.cat(v) for k, v in out.items()},
            dict(counts),
            merged,
            list(reversed(list(batch))),
            [*batch.values()][::-1],
        )

    yield from calls(c, f, lambda n: {"batch": {"ab": leaf(n), "aa": leaf(2), "b": torch.ones(n)}})


@program
def star_arguments(c):
    def f(*xs, scale=1.0, **more):
        first, *rest = xs
        return sum((x * scale for x in rest), first), {k: v + 1 for k, v in more.items()}, len(xs)

    g = c(f)
    for n in (3, 3, 4):
        yield g(leaf(n)), g(leaf(n), leaf(n), scale=n / 2), g(*[leaf(n)] * 3, a=leaf(2), b=n)


@program
def keyword_only(c):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 2)

        def forward(self, *, hidden, mask=None, **kwargs):
            h = self.lin(hidden)
            return h if mask is None else h * mask.unsqueeze(-1), kwargs.get("more")

    yield from calls(
        c,
        Model(),
        lambda n: {"hidden": leaf(n, 4), "mask": torch.ones(n)} if n > 2 else {"more": "x", "hidden": leaf(n, 4)},
    )


@program
def partials_and_closures(c):
    def scale(x, by, *, shift):
        return x * by + shift

    count = 0

    def counted(x):
        nonlocal count
        count += 1
        return functools.reduce(operator.mul, map(functools.partial(scale, by=2, shift=count), [x, x + 1]))

    yield from calls(c, functools.partial(scale, shift=1.0), lambda n: (leaf(n), n))
    g = c(counted)
    for n in (3, 3, 4, 5):
        yield g(leaf(n)), count


TOTAL = {"calls": 0}
SEEN = 0


@program
def global_state(c):
    TOTAL["calls"] = 0

    def f(x):
        global SEEN
        TOTAL["calls"] += 1
        SEEN = TOTAL["calls"] * 2
        return x * TOTAL["calls"]

    g = c(f)
    for n in (3, 3, 4, 3):
        yield g(leaf(n)), SEEN


@program(breaks=1)
def class_counter(c):
    class Layer(nn.Module):
        made = 0

        def forward(self, x):
            Layer.made += 1
            return x + Layer.made

    g = c(Layer())
    for n in (3, 3, 4):
        yield g(torch.randn(n)), Layer.made


@program
def lazily_built(c):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self._table = {}

        @functools.cached_property
        def scale(self):
            return 2.5

        def positions(self, n):
            if n not in self._table:
                self._table[n] = torch.arange(n).float().sqrt()
            return self._table[n]

        def forward(self, x):
            if not hasattr(self, "extra"):
                self.extra = torch.ones(x.shape[1])
            return x * self.positions(x.shape[0])[:, None] + self.extra

    model = Model()
    yield from calls(c, model, lambda n: leaf(n, 4))
    yield model._table, model.extra


@program(breaks=2)
def memoised(c):
    @functools.lru_cache(None)
    def mask(n):
        return torch.tril(torch.ones(n, n))

    yield from calls(c, lambda x: x @ mask(x.shape[1]), lambda n: leaf(2, n))


@program
def registry(c):
    table: typing.Dict[str, typing.Callable] = {}

    def register(name):
        def add(f):
            table[name] = f
            return f

        return add

    @register("relu")
    def _relu(x):
        return x.relu()

    register("gelu")(F.gelu)
    register("id")(nn.Identity())
    yield from calls(
        c, lambda x, name: table[name](x) + table["id"](x), lambda n: (leaf(n), "relu" if n == 3 else "gelu")
    )


@program
def context_managers(c):
    @contextlib.contextmanager
    def doubled(box):
        box.append(2)
        try:
            yield box
        finally:
            box.pop()

    class Scope:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    def f(x):
        box = [1]
        with doubled(box) as b, Scope(), contextlib.nullcontext(), torch.autograd.profiler.record_function("part"):
            x = x * b[-1]
        with contextlib.suppress(KeyError):
            x = x + {}["a"]
        return x * len(box)

    yield from calls(c, f, lambda n: leaf(n))


@program
def marks_for_profilers(c):
    mark = torch.profiler.record_function("made outside")

    @torch.profiler.record_function("decorates")
    def part(x):
        return x.sin()

    def f(x):
        with torch.profiler.record_function("made inside") as inside, mark:
            y = part(x)
        return y * 2, inside.name

    yield from calls(c, f, lambda n: leaf(n))
    yield mark.run_callbacks_on_exit


@program
def generators_inside(c):
    def pairs(xs):
        for a, b in zip(xs, xs[1:]):
            yield a * b

    def f(x):
        rows = list(x.unbind(0))
        return torch.stack([*pairs(rows)]), [r for r in pairs(rows) if r.ndim == 1][-1], next(pairs(rows))

    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def loops_on_sizes(c):
    def f(x):
        out = []
        for i, row in enumerate(x):
            out.append(row * i if i % 2 else row)
        k = 0
        while k < x.shape[1] - 1:
            k += 2
        return torch.stack(out) * k, x.shape[0] // 2 * 2

    yield from calls(c, f, lambda n: leaf(n, 4))


@program(breaks=2)
def loop_until_converged(c):
    def f(x):
        for k in range(20):
            y = 0.5 * (x + 2 / x)
            if (y - x).abs().max() < 1e-4:
                break
            x = y
        return x, k

    yield from calls(c, f, lambda n: torch.rand(n) + 0.5)


@program(breaks=5)
def items_and_lists(c):
    def f(x):
        top = x.max().item()
        return x / top, x.sum(0).tolist(), int(x.argmax()), bool((x > 0).any())

    yield from calls(c, f, lambda n: leaf(n, 4).abs())


@program
def torch_where_instead(c):
    yield from calls(
        c,
        lambda x: (
            torch.where(x > 0, x, x.exp() - 1),
            torch.clamp(x, 0, 1),
            x.clip(min=0),
            torch.heaviside(x.detach(), torch.zeros(1)),
            torch.lerp(x, x * 2, 0.3),
        ),
        lambda n: leaf(n, 4),
    )


@program
def sorting_and_counting(c):
    def f(x):
        v, i = x.sort(-1, descending=True)
        return (
            v,
            i,
            x.topk(2).indices,
            x.argsort(),
            x.kthvalue(2).values,
            x.median(-1),
            x.mode(-1),
            x.cummax(-1),
            torch.searchsorted(v.flip(-1), x),
            torch.bucketize(x, torch.tensor([0.0, 1.0])),
        )

    yield from calls(c, f, lambda n: torch.randn(n, 4))


@program
def unique_and_nonzero(c):
    yield from calls(
        c,
        lambda x: (x.unique(), (x > 1).nonzero(), x.bincount(), torch.where(x == 2)),
        lambda n: torch.randint(0, 4, (n * 2,)),
    )


@program
def linear_algebra(c):
    def f(x):
        a = x @ x.mT + torch.eye(3)
        return (
            torch.linalg.inv(a),
            torch.linalg.det(a),
            torch.linalg.cholesky(a),
            torch.linalg.solve(a, x),
            torch.linalg.norm(x),
            torch.trace(a),
            torch.linalg.eigvalsh(a),
            torch.linalg.vector_norm(x, dim=-1),
            torch.logdet(a),
        )

    yield from calls(c, f, lambda n: leaf(3, 3))


@program(breaks=1)
def complex_numbers(c):
    def f(x):
        z = torch.complex(x, x.sin())
        return (
            z.abs(),
            z.angle(),
            (z * z.conj()).real,
            torch.view_as_real(z),
            z.imag,
            torch.fft.fft(x).abs(),
            torch.fft.fftshift(x),
            torch.exp(1j * x),
        )

    yield from calls(c, f, lambda n: leaf(n, 4))


@program
def kalman(c):
    A, H = torch.eye(2) + 0.1 * torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0]])

    def f(zs):
        x, P = torch.zeros(2, 1), torch.eye(2)
        for z in zs:
            x, P = A @ x, A @ P @ A.T + 0.01 * torch.eye(2)
            K = P @ H.T @ torch.linalg.inv(H @ P @ H.T + 0.1)
            x, P = x + K @ (z.view(1, 1) - H @ x), (torch.eye(2) - K @ H) @ P
        return x, P

    yield from calls(c, f, lambda n: leaf(n))


@program
def neural_ode(c):
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))

    def rk4(y, steps):
        h = 1.0 / steps
        for _ in range(steps):
            k1 = net(y)
            k2 = net(y + h / 2 * k1)
            k3 = net(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + net(y + h * k3))
        return y

    yield from calls(c, rk4, lambda n: (leaf(n, 2), n))


@program
def k_means(c):
    def f(x, centres):
        for _ in range(3):
            index = torch.cdist(x, centres).argmin(1)
            hot = F.one_hot(index, centres.shape[0]).float()
            centres = hot.T @ x / hot.sum(0)[:, None].clamp(min=1)
        return centres, index

    yield from calls(c, f, lambda n: (torch.randn(n + 5, 2), torch.randn(3, 2)))


@program
def intersection_over_union(c):
    def f(a, b):
        lt, rb = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
        inter = (rb - lt).clamp(min=0).prod(2)
        area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])  # noqa: E731
        return inter / (area(a)[:, None] + area(b) - inter)

    yield from calls(c, f, lambda n: (leaf(n, 4), leaf(n + 1, 4)))


@program(breaks=1)
def interpolations(c):
    def f(x):
        return (
            F.interpolate(x, size=(5, 6), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=(2, 1.5), mode="nearest"),
            F.interpolate(x, size=3, mode="area"),
            F.grid_sample(
                x,
                F.affine_grid(torch.eye(2, 3).expand(x.shape[0], 2, 3), x.shape, align_corners=False),
                align_corners=False,
            ),
            F.pad(x, (1, 1), mode="circular"),
            F.interpolate(x, size=(4, 4), mode="bicubic", antialias=False),
        )

    yield from calls(c, f, lambda n: leaf(n, 2, 4, 4))


@program
def convolutions(c):
    w1, w2, wt, w3 = torch.randn(4, 2, 3), torch.randn(4, 1, 3, 3), torch.randn(4, 2, 2, 2), torch.randn(2, 4, 1, 2, 2)

    def f(x):
        y = F.conv2d(x.unsqueeze(1).repeat(1, 4, 1, 1), w2, groups=4, padding="same")
        return (
            F.conv1d(x[:, :2], w1, stride=2, dilation=1),
            y,
            F.conv_transpose2d(y, wt, stride=2, output_padding=1),
            F.conv3d(y[:, :, None], w3),
            F.avg_pool1d(x, 2, ceil_mode=True),
            F.lp_pool2d(x[:, None], 2, 2),
            F.adaptive_max_pool2d(y, (2, None)),
        )

    yield from calls(c, f, lambda n: leaf(n, 4, 5))


@program
def norms(c):
    mods = nn.ModuleList(
        [
            nn.BatchNorm2d(4),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm2d(4, affine=True),
            nn.LocalResponseNorm(2),
            nn.RMSNorm([3, 3]),
        ]
    )
    mods.forward = lambda x: [m(x) for m in mods]
    yield from calls(c, mods, lambda n: leaf(n, 4, 3, 3))


@program(breaks=2)
def activations(c):
    names = [
        "ReLU6",
        "LeakyReLU",
        "PReLU",
        "RReLU",
        "ELU",
        "SELU",
        "CELU",
        "GELU",
        "SiLU",
        "Mish",
        "Softplus",
        "Softshrink",
        "Softsign",
        "Tanhshrink",
        "Hardtanh",
        "Hardsigmoid",
        "LogSigmoid",
        "Threshold",
        "GLU",
        "Softmin",
        "Hardshrink",
    ]
    mods = nn.ModuleList([getattr(nn, name)(*({"Threshold": (0.1, 20)}.get(name, ()))) for name in names])
    mods.forward = lambda x: [m(x) for m in mods]
    yield from calls(c, mods, lambda n: leaf(n, 4))


@program
def threads(c):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    f, got = c(model), {}

    def work(k):
        x = torch.full((k + 1, 4), 0.1 * k, requires_grad=True)
        for _ in range(5):
            y = f(x)
        got[k] = y, torch.autograd.grad(y.sum(), x)[0]

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    yield [got[k] for k in range(4)]


@program
def methods_and_properties(c):
    class Base(nn.Module):
        @property
        def width(self):
            return self.lin.out_features

        def part(self, x):
            return self.lin(x)

    class Child(Base):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 3)

        @classmethod
        def name(cls):
            return cls.__name__

        @staticmethod
        def double(x):
            return x * 2

        def part(self, x):
            return super().part(x) * self.width

        def forward(self, x):
            parts = {k: getattr(self, k) for k in ("part", "double")}
            return self.double(parts["part"](x)), self.name(), isinstance(self, Base), callable(parts["double"])

    yield from calls(c, Child(), lambda n: leaf(n, 4))


@program
def bound_method_compiled(c):
    class Agent:
        def __init__(self):
            self.policy, self.steps = nn.Linear(4, 2), 0

        def act(self, x, greedy=False):
            self.steps += 1
            logits = self.policy(x)
            return logits.argmax(-1) if greedy else logits.softmax(-1)

    agent = Agent()
    act = c(agent.act)
    for n in (3, 3, 4, 3):
        yield act(torch.randn(n, 4)), act(torch.randn(n, 4), greedy=True), agent.steps


@program
def module_compile_method(c):
    model = nn.Linear(4, 2)
    f = c(model)
    for n in (3, 3, 4):
        yield (
            f(torch.randn(n, 4)),
            f.weight is model.weight,
            f.in_features,
            sorted(k.removeprefix("_orig_mod.") for k in f.state_dict()),
        )
        f.train(n == 3)


@program
def call_forward_directly(c):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.b.forward(self.a.forward(x)), nn.Module.__call__(self.a, x)

    yield from calls(c, Model(), lambda n: leaf(n, 4))


@program
def modules_changed_between_calls(c):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    f = c(model)
    yield f(torch.randn(2, 4))
    model.append(nn.Linear(4, 2))
    yield f(torch.randn(2, 4))
    model[1] = nn.Tanh()
    yield f(torch.randn(2, 4))
    del model[2]
    model[0].weight = nn.Parameter(torch.ones(4, 4))
    model[0].bias = None
    yield f(torch.randn(2, 4))
    model.double()
    yield f(torch.randn(2, 4, dtype=torch.float64))
    model[0].forward = lambda x: x * 2
    yield f(torch.randn(2, 4))


@program
def tied_weights(c):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Linear(4, 3)
            self.dec = nn.Linear(3, 4)
            self.dec.weight = nn.Parameter(self.enc.weight.detach().t())
            self.again = self.enc

        def forward(self, x):
            return self.dec(self.again(x)) + F.linear(self.enc(x), self.enc.weight.t())

    yield from calls(c, Tied(), lambda n: leaf(n, 4))


@program
def parameter_containers(c):
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.list, self.dict = (
                nn.ParameterList([torch.randn(4) for _ in range(3)]),
                nn.ParameterDict({"a": torch.randn(4)}),
            )

        def forward(self, x):
            for k, p in enumerate(self.list):
                x = x * p + k
            return x + self.dict["a"] + sum(p.sum() for p in self.dict.values()) + len(self.list)

    yield from calls(c, Bag(), lambda n: leaf(n, 4))


@program(breaks=1)
def tree_functions(c):
    from torch.utils import _pytree

    def f(tree):
        return _pytree.tree_map(lambda t: t * 2 if isinstance(t, torch.Tensor) else t, tree)

    yield from calls(c, f, lambda n: ({"a": leaf(n), "b": [leaf(2), (1, "x")]},))


@program
def typing_and_casts(c):
    def f(x: torch.Tensor, y: typing.Optional[torch.Tensor] = None) -> typing.Tuple[torch.Tensor, int]:
        z = typing.cast(torch.Tensor, x)
        if y is not None and isinstance(y, (torch.Tensor, nn.Parameter)):
            z = z + y
        return z, (x.shape[0] if not torch.jit.is_scripting() else 0)

    yield from calls(c, f, lambda n: (leaf(n), None if n == 3 else leaf(n)))


@program
def torch_jit_inside(c):
    @torch.jit.script
    def scripted(x: torch.Tensor):
        return x * 2 + 1

    yield from calls(c, lambda x: torch.jit.annotate(torch.Tensor, x.sin()) * 2, lambda n: leaf(n))
    yield scripted(torch.ones(2))


@program
def scalars_as_arguments(c):
    def f(x, a, b, flag, name):
        return x * a + b if flag else x - a, f"{name}{a}", a**2, -b, round(b, 1)

    g = c(f)
    for k in range(5):
        yield g(torch.ones(3), k, k / 2, k % 2 == 0, "n")


@program
def tensors_as_numbers(c):
    g = c(lambda x, s: (x * s, s + 1, s.float().sqrt(), torch.arange(4) < s))
    for k in range(4):
        yield g(torch.ones(3), torch.tensor(k))


@program
def integer_programs(c):
    def f(i):
        return (
            i // 2,
            i % 3,
            i << 1,
            i & 3,
            i ^ 1,
            ~i,
            -i,
            i**2,
            i.float() / 3,
            torch.bitwise_or(i, 4),
            i.div(2, rounding_mode="floor"),
            i.sum(),
            i.cumsum(0),
            i.abs().max(),
            i == i.flip(0),
        )

    yield from calls(c, f, lambda n: torch.randint(-9, 9, (n,)))
