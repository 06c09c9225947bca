"""Samples of random ops. The harness seeds both sides before each call, so results must be equal, not only alike."""
import torch
from samples import call, sample

SHAPES = [(), (7,), (3, 5), (2, 3, 4), (0,), (2, 0, 3), (4, 8), (37,), (20, 30), (2, 3, 4, 5)]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def seeded(seed=7):
    return torch.Generator().manual_seed(seed)


@sample("uniform")
def uniform(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), -1.5, 2.25)
    yield call(make.tensor(3, 4), generator=seeded())
    yield call(make.tensor(3, 4), 0.5, 0.5)
    yield call(make.tensor(3, 4), 2.0, 1.0, note="from above to")
    yield call(make.tensor(3, 4), 0.0, 1e39, note="beyond float32")
    yield call(make.tensor(3, 1).expand(3, 4), note="expanded")


@sample("normal")
def normal(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), 0.5, 1.75)
    yield call(make.tensor(20), generator=seeded())
    yield call(make.tensor(3, 4), 1.0, 0.0)
    yield call(make.tensor(3, 4), 1.0, -1.0, note="negative deviation")


@sample("normal_tensor_float")
def normal_tensor_float(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), 1.75)
    yield call(make.tensor(20), generator=seeded())
    yield call(make.tensor(3, 4), -1.0, note="negative deviation")


@sample("normal_float_tensor")
def normal_float_tensor(make):
    for shape in SHAPES:
        yield call(0.5, make.tensor(shape, low=0, high=3))
    yield call(-0.25, make.tensor((20,), low=0, high=3), generator=seeded())
    yield call(0.5, make.tensor(20), note="some negative")


@sample("normal_tensor_tensor")
def normal_tensor_tensor(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), make.tensor(shape, low=0, high=3))
    yield call(make.tensor(3, 1), make.tensor((4,), low=0, high=3))
    yield call(make.tensor(5, 4), make.tensor((), low=0, high=3))
    yield call(make.tensor(5, 4), make.tensor((4,), low=0, high=3, dtype=torch.float32), generator=seeded())
    yield call(make.tensor(5, 4), make.tensor((3,), low=0, high=3), note="no broadcast")


@sample("normal_float_float")
def normal_float_float(make):
    for shape in SHAPES:
        yield call(0.5, 2.0, list(shape), dtype=make.dtype)
    yield call(0.5, 2.0, [20], generator=seeded(), dtype=make.dtype)
    yield call(0.5, 2.0, [3, 4])
    yield call(0.5, 2.0, [30])
    yield call(0.5, -2.0, [30], note="negative deviation")


@sample("random")
def random(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
    yield call(make.tensor(20), generator=seeded())


@sample("random_from")
def random_from(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), 3, 100)
    yield call(make.tensor(3, 4), 0, 2)
    yield call(make.tensor(3, 4), 0, None)
    yield call(make.tensor(3, 4), -5, 5)
    yield call(make.tensor(3, 4), 100, None)
    yield call(make.tensor(3, 4), 0, 1 << 40)
    yield call(make.tensor(3, 4), -(1 << 63), None)
    yield call(make.tensor(3, 4), 5, 5, note="empty range")
    yield call(make.tensor(3, 4), 0, 100, generator=seeded())


@sample("random_to")
def random_to(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), 100)
    yield call(make.tensor(3, 4), 1)
    yield call(make.tensor(3, 4), 2)
    yield call(make.tensor(3, 4), 300)
    yield call(make.tensor(3, 4), 1 << 40)
    yield call(make.tensor(3, 4), 0, note="empty range")
    yield call(make.tensor(3, 4), 100, generator=seeded())


@sample("exponential")
def exponential(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), 2.5)
    yield call(make.tensor(3, 4), 0.0, note="zero rate")
    yield call(make.tensor(3, 4), generator=seeded())


@sample("geometric")
def geometric(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), 0.25)
    yield call(make.tensor(3, 4), 1.5, note="p out of range")
    yield call(make.tensor(3, 4), 0.5, generator=seeded())


@sample("bernoulli")
def bernoulli(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, low=0, high=1))
    yield call(make.tensor((3, 4), low=0, high=1), generator=seeded())
    yield call(make.tensor((30,), low=0, high=3), note="not probabilities")


@sample("bernoulli_p")
def bernoulli_p(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), 0.25)
    yield call(make.tensor(40), 0.0)
    yield call(make.tensor(40), 1.0)
    yield call(make.tensor(40), 1.5, note="p out of range")
    yield call(make.tensor(40), 0.5, generator=seeded())


@sample("bernoulli_tensor")
def bernoulli_tensor(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), make.tensor(shape, low=0, high=1, dtype=torch.float32))
    for kind in FLOATS:
        yield call(make.tensor(3, 4), make.tensor((4,), low=0, high=1, dtype=kind))
        yield call(make.tensor(3, 4), make.tensor((), low=0, high=1, dtype=kind))
    yield call(make.tensor(4), make.tensor((3, 4), low=0, high=1, dtype=torch.float32), note="p is larger")
    yield call(make.tensor(4), make.tensor((4,), low=2, high=3, dtype=torch.float32), note="no probabilities")
    yield call(make.tensor(4), make.tensor((4,), low=0, high=2, dtype=torch.int64), note="integers")


@sample("multinomial")
def multinomial(make):
    for shape in [(6,), (3, 6), (40,), (1, 1), (0, 4)]:
        p = make.tensor(shape, low=0.1, high=1)
        yield call(p, 1)
        yield call(p, min(4, shape[-1]))
        yield call(p, 5, True)
        yield call(p, 1, True)
        yield call(p, shape[-1])
    yield call(make.tensor((6,), low=0.1, high=1), 7, note="too many")
    yield call(make.tensor((6,), low=0.1, high=1), 0, note="none")
    yield call(make.tensor((2, 3, 4), low=0.1, high=1), 2, note="three dims")
    yield call(make.tensor((), low=0.1, high=1), 1, note="no dims")
    yield call(make.tensor((6,), low=0.1, high=1), 3, generator=seeded())
    if make.is_float:
        yield call(torch.tensor([0.0, 1, 0, 2, 0]).to(make.dtype), 2)
        yield call(torch.tensor([0.0, -1, 0, 2, 0]).to(make.dtype), 2, note="negative")
        yield call(torch.zeros(4).to(make.dtype), 2, True, note="sum is zero")


@sample("poisson")
def poisson(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, low=0, high=5))
        yield call(make.tensor(shape, low=0, high=60))
    yield call(make.tensor((3, 4), low=0, high=5), seeded())
    yield call(make.tensor((30,), low=-5, high=-1), note="negative rates")


@sample("binomial")
def binomial(make):
    for shape in SHAPES:
        count = make.tensor(shape, low=0, high=40).round() if make.is_float else make.tensor(shape, low=0, high=9)
        yield call(count, make.tensor(shape, low=0, high=1))
    yield call(make.tensor((3, 4), low=1, high=9), make.tensor((4,), low=0, high=1))
    yield call(make.tensor((3, 4), low=1, high=9), make.tensor((3, 4), low=0, high=1), seeded())
    yield call(make.tensor((3, 4), low=1, high=9), make.tensor((3, 4), low=0, high=1, dtype=torch.float64))
    yield call(make.tensor((4,), low=1, high=9), make.tensor((3, 4), low=0, high=1), note="prob is larger")


def generator_kwargs(make):
    named = any(a.name == "generator" for a in make.schema.arguments)
    return [{"generator": None}, {"generator": seeded()}] if named else [{}]


@sample("rand")
def rand(make):
    for extra in generator_kwargs(make):
        for shape in SHAPES:
            yield call(list(shape), dtype=make.dtype, **extra)
        yield call([3, 4], **extra)
        yield call([30], **extra)
        yield call([3, -1], note="negative size", **extra)


@sample("randint")
def randint(make):
    for extra in generator_kwargs(make):
        for shape in SHAPES:
            yield call(100, list(shape), dtype=make.dtype, **extra)
        yield call(1 << 40, [3, 4], **extra)
        yield call(10, [3, 4], **extra)
        yield call(0, [3, 4], note="empty range", **extra)
        yield call(300, [3, 4], dtype=make.dtype, **extra)


@sample("randint_low")
def randint_low(make):
    for extra in generator_kwargs(make):
        for shape in SHAPES:
            yield call(3, 100, list(shape), dtype=make.dtype, **extra)
        yield call(-5, 5, [3, 4], dtype=make.dtype, **extra)
        yield call(-5, 5, [3, 4], **extra)
        yield call(5, 5, [3, 4], note="empty range", **extra)


@sample("randperm")
def randperm(make):
    for extra in generator_kwargs(make):
        for n in (0, 1, 2, 17, 100):
            yield call(n, dtype=make.dtype, **extra)
            yield call(n, **extra)
        yield call(-1, note="negative", **extra)
        yield call(3000, dtype=make.dtype, **extra)


@sample("rand_like")
def rand_like(make):
    for extra in generator_kwargs(make):
        for shape in SHAPES:
            yield call(make.tensor(shape), **extra)
        yield call(make.tensor(3, 4), dtype=torch.float64, **extra)
        yield call(make.tensor(2, 3, 4, 5), memory_format=torch.channels_last, **extra)
        yield call(make.tensor(3, 4).t(), memory_format=torch.contiguous_format, **extra)


@sample("randint_like")
def randint_like(make):
    for extra in generator_kwargs(make):
        for shape in SHAPES:
            yield call(make.tensor(shape), 100, **extra)
        yield call(make.tensor(3, 4), 10, dtype=torch.float64, **extra)
        yield call(make.tensor(3, 4), 0, note="empty range", **extra)


@sample("randint_like_tensor")
def randint_like_tensor(make):
    for extra in generator_kwargs(make):
        yield call(make.tensor(3, 4), torch.tensor(100), **extra)
        yield call(make.tensor(3, 4), torch.tensor([100]), **extra)
        yield call(make.tensor(30), torch.tensor(2), dtype=torch.int32, **extra)
        yield call(make.tensor(3, 4), torch.tensor([100, 3]), note="two numbers", **extra)


@sample("randint_like_low")
def randint_like_low(make):
    for extra in generator_kwargs(make):
        for shape in SHAPES:
            yield call(make.tensor(shape), 3, 100, **extra)
        yield call(make.tensor(3, 4), -4, 10, dtype=torch.float64, **extra)
        yield call(make.tensor(3, 4), 4, 2, note="empty range", **extra)


@sample("dropout")
def dropout(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), 0.25, True)
        yield call(make.tensor(shape), 0.5, False)
        yield call(make.tensor(shape), 0.0, True)
        yield call(make.tensor(shape), 1.0, True)
    yield call(make.tensor(3, 4), 1.5, True, note="p out of range")
    yield call(make.tensor(3, 4), -0.5, False, note="p out of range")


@sample("feature_dropout")
def feature_dropout(make):
    for shape in [(3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 0, 3), (7, 5, 1)]:
        yield call(make.tensor(shape), 0.25, True)
        yield call(make.tensor(shape), 0.5, False)
        yield call(make.tensor(shape), 0.0, True)
        yield call(make.tensor(shape), 1.0, True)
    yield call(make.tensor(4), 0.5, True, note="no features")
    yield call(make.tensor(4), 1.0, True)
    yield call(make.tensor(3, 4), 1.5, True, note="p out of range")


@sample("native_dropout")
def native_dropout(make):
    for shape in SHAPES:
        for train in (True, False, None):
            yield call(make.tensor(shape), 0.25, train)
    yield call(make.tensor(3, 4), 0.0, True)
    yield call(make.tensor(3, 4), 1.0, True)


@sample("rrelu")
def rrelu(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), 0.25, 0.5, True)
    yield call(make.tensor(3, 4), 0.25, 0.5, True, seeded())


@sample("rrelu_with_noise")
def rrelu_with_noise(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), make.tensor(shape))
        yield call(make.tensor(shape), make.tensor(shape), 0.25, 0.5, True)
    yield call(make.tensor(3, 4), make.tensor(3, 4), 0.25, 0.5, True, seeded())


@sample("rrelu_backward")
def rrelu_backward(make):
    for shape in [(), (3, 4), (0, 2), (600,)]:
        for training in (False, True):
            yield call(make.tensor(shape), make.tensor(shape), make.tensor(shape), 0.25, 0.5, training, False)
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(3, 4), 0.25, 0.25, True, True)
