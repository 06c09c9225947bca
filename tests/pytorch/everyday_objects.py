"""Python around tensors as people ship it: abstract classes, descriptors, matches, closures, containers."""

import abc
import collections
import dataclasses
import enum
import functools
import itertools
import operator
import types

import torch
from everyday import calls, leaf, program
from torch import nn


class Norm(abc.ABC, nn.Module):
    @abc.abstractmethod
    def scale(self, x): ...

    def forward(self, x):
        return x / self.scale(x)


class L2(Norm):
    eps = 1e-6

    @property
    def power(self):
        return 2

    def scale(self, x):
        return (x.abs() ** self.power).sum(-1, keepdim=True).sqrt() + type(self).eps


class L1(L2):
    @functools.cached_property
    def weight(self):
        return torch.ones(3)

    def scale(self, x):
        return (x.abs() * self.weight).sum(-1, keepdim=True) + super().eps


@program(breaks=1)
def abstract_classes(c):
    for model in (L2(), L1()):
        yield from calls(c, model, lambda n: leaf(n, 3))


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", None)

    def forward(self, x):
        if self.table is None or self.table.shape[0] < x.shape[0]:
            self.table = torch.arange(x.shape[0], dtype=x.dtype)
        return x * self.table[: x.shape[0], None]


@program
def buffer_made_at_first_call(c):
    yield from calls(c, Lazy(), lambda n: leaf(n, 3), sizes=(2, 2, 4, 3, 6))


@program
def slots_protocols_descriptors(c):
    class Clamped:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, owner=None):
            return self if obj is None else obj.__dict__[self.name]

        def __set__(self, obj, value):
            obj.__dict__[self.name] = min(max(value, 0.0), 1.0)

    class Mix:
        alpha = Clamped()
        __slots__ = ("__dict__", "bias")

        def __init__(self, alpha, bias):
            self.alpha, self.bias = alpha, bias

        def __call__(self, a, b):
            return a * self.alpha + b * (1 - self.alpha) + self.bias

        def __matmul__(self, other):
            return Mix(self.alpha * other.alpha, self.bias + other.bias)

    mix = Mix(0.3, 1.0)

    def f(a, b):
        m = mix @ Mix(2.0, 0.5)
        m.alpha = m.alpha * 2
        return m(a, b), m.alpha

    g = c(f)
    for alpha in (0.3, 0.4, 5.0, -1.0):
        mix.alpha = alpha
        yield g(torch.ones(2), torch.zeros(2))


@program
def enumerations_and_matches(c):
    class Act(str, enum.Enum):
        RELU = "relu"
        TANH = "tanh"

    @dataclasses.dataclass(slots=True, kw_only=True)
    class Conf:
        act: Act = Act.RELU
        scale: float = 2.0
        dims: tuple = (0, 1)

    def f(x, conf):
        match conf:
            case Conf(act=Act.RELU, scale=s) if s > 1:
                y = x.relu() * s
            case Conf(act="tanh"):
                y = x.tanh()
            case _:
                y = x
        match conf.dims:
            case (a, b):
                return y.transpose(a, b)
            case [*rest]:
                return y.sum(tuple(rest))

    g = c(f)
    for conf in (Conf(), Conf(act=Act.TANH), Conf(scale=0.5), Conf(dims=(0,)), Conf(scale=3.0)):
        yield g(torch.randn(2, 3), conf)


@program
def closures_over_loops(c):
    layers = [nn.Linear(3, 3) for _ in range(3)]
    fs = [lambda x, l=l: l(x).tanh() for l in layers]

    def f(x):
        for g in reversed(fs):
            x = g(x)
        total = functools.reduce(operator.add, (layer.weight.sum() for layer in layers))
        pairs = {
            f"{i}-{j}": (a.weight @ b.weight).trace() for (i, a), (j, b) in itertools.combinations(enumerate(layers), 2)
        }
        return x, total, pairs

    g = c(f)
    for k in range(4):
        yield g(torch.ones(2, 3))
        layers[k % 3] = nn.Linear(3, 3)


@program
def walrus_star_and_defaults(c):
    def f(x, *xs, scale=1.0, **kw):
        if (n := len(xs)) > 1:
            first, *rest = xs
            x = x + first + sum(rest)
        a, (_, *c_) = x, [x * k for k in range(n + 1)]
        out = {**kw, "a": a, "last": c_[-1] if c_ else None}
        out |= {"n": n}
        return out, [*xs, scale], x.mean() if n else x.sum()

    g = c(f)
    for n in (0, 1, 2, 3):
        yield g(torch.ones(2), *[torch.full((2,), float(k)) for k in range(n)], scale=n / 2, tag="t", t=torch.ones(1))


@program
def texts_formats_and_logs_of_shapes(c):
    seen = {}

    def f(x):
        key = f"{tuple(x.shape)}:{str(x.dtype).split('.')[-1]}"
        seen[key] = seen.get(key, 0) + 1
        return x * len(key), key

    g = c(f)
    for n in (2, 2, 3, 12):
        yield g(torch.ones(n)), dict(seen)


@program(breaks=3)
def counters_and_deques(c):
    class Smooth:
        def __init__(self):
            self.values, self.counts, self.total = collections.deque(maxlen=3), collections.Counter(), 0.0

        def __call__(self, x):
            self.counts[x.shape[0]] += 1
            self.values.append(x.mean())
            self.total += 1
            return torch.stack(list(self.values)).mean()

    smooth = Smooth()
    g = c(smooth.__call__)
    for n in (1, 2, 2, 3, 3):
        yield g(torch.ones(n) * n), dict(smooth.counts), list(smooth.values), smooth.total


@program
def globals_switched(c):
    scope = types.SimpleNamespace(debug=False, scale=1.0, hook=None)

    def f(x):
        y = x * scope.scale
        if scope.debug:
            y = y + 100
        return scope.hook(y) if scope.hook else y

    g = c(f)
    for k in range(6):
        yield g(torch.ones(2))
        scope.scale += 0.5
        scope.debug = k == 1
        scope.hook = torch.exp if k == 3 else (lambda t: -t) if k == 4 else None
