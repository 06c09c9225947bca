"""Datasets, samplers, loaders and scalers of losses: PyTorch's batches, numbers and errors, for one seed."""
import collections
import importlib

import numpy as np
import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

Pair = collections.namedtuple("Pair", "a b")
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def plain(value, m):
    if isinstance(value, m.Tensor):
        return str(value.dtype).rpartition(".")[2], tuple(value.shape), value.detach().tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(item, m) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item, m) for item in value]
    return value


def data(m):
    return importlib.import_module(m.__name__ + ".utils.data")


def outcome(function, m):
    m.manual_seed(3)
    try:
        return plain(function(m, data(m)), m)
    except Exception as error:
        return type(error).__name__


def refused(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return None


def pairs(m, d, n=7):
    return d.TensorDataset(m.arange(n), m.arange(n) * 0.5)


def numbers(m, d, n=7):
    class Numbers(d.IterableDataset):
        def __iter__(self):
            return iter(range(n))

        def __len__(self):
            return n
    return Numbers()


@program
def batches_in_order(m, d):
    loader = d.DataLoader(pairs(m, d), batch_size=3)
    return list(loader), len(loader), len(iter(loader)), list(d.DataLoader(pairs(m, d), 3, drop_last=True))


@program
def batches_in_random_order(m, d):
    loader = d.DataLoader(pairs(m, d), batch_size=2, shuffle=True)
    made = [list(loader), list(loader), m.rand(2)]
    generator = m.Generator()
    generator.manual_seed(5)
    return made, list(d.DataLoader(pairs(m, d), 4, True, generator=generator)), m.rand(2)


@program
def examples_without_batches(m, d):
    return (list(d.DataLoader(pairs(m, d, 3), batch_size=None)), list(d.DataLoader(numbers(m, d), batch_size=None)),
            list(d.DataLoader([np.float32(1), np.arange(2), "a", (1, np.ones(1))], batch_size=None)))


@program
def iterable_datasets(m, d):
    both = numbers(m, d, 2) + numbers(m, d, 3)
    loaders = [d.DataLoader(numbers(m, d), batch_size=k, drop_last=drop) for k in (2, 7, 9) for drop in (False, True)]
    return [(list(loader), len(loader)) for loader in loaders], list(both), len(both)


@program
def batches_as_somebody_says(m, d):
    batches = [[0, 2], [1], [3, 4, 5]]
    return (list(d.DataLoader(pairs(m, d), batch_sampler=batches)),
            list(d.DataLoader(pairs(m, d), 2, sampler=[5, 3, 1])),
            list(d.DataLoader(pairs(m, d), 3, collate_fn=lambda batch: sum(int(x) for x, _ in batch))))


@program
def samplers(m, d):
    source = range(50)
    return (list(d.RandomSampler(source)), list(d.RandomSampler(source, num_samples=120)), m.rand(1),
            list(d.RandomSampler(source, True, 70)), list(d.SubsetRandomSampler([5, 6, 9])),
            list(d.WeightedRandomSampler([0.1, 0.9, 3.0], 9)), list(d.WeightedRandomSampler([0.1, 0.9, 3.0], 3, False)),
            list(d.SequentialSampler(range(3))), list(d.BatchSampler(d.SequentialSampler(range(5)), 2, False)),
            [len(d.BatchSampler(range(5), 2, drop)) for drop in (False, True)], refused(lambda: d.RandomSampler([])))


@program
def splits(m, d):
    made = [d.random_split(range(10), lengths) for lengths in ([3, 7], [0.3, 0.7], [0.33, 0.33, 0.34])]
    return [[(list(part), len(part)) for part in parts] for parts in made], d.Subset(pairs(m, d), [4, 2])[[0, 1]]


@program
def datasets_of_datasets(m, d):
    both = d.ConcatDataset([range(3), range(10, 12)])
    stack, named = d.StackDataset(range(3), "abc"), d.StackDataset(n=range(3), t="abc")
    return ([both[i] for i in range(-5, 5)], len(both), (pairs(m, d, 2) + pairs(m, d, 1))[2], stack[1], named[2],
            len(named), list(d.DataLoader(stack, 2)), list(d.DataLoader(named, 2)))


@program
def collated(m, d):
    examples = ([1, 2], [1.5, 2], [True, False], ["a", "b"], [b"a", b"b"], [{"a": 1, "b": [m.ones(2), 2.0]}] * 2,
                [(1, "x"), (2, "y")], [Pair(1, 2.0), Pair(3, 4.0)], [[1, 2], [3, 4]], [np.ones(2), np.zeros(2)],
                [np.float32(1), np.float32(2)], [m.ones(2, dtype=m.float16)] * 2,
                [collections.OrderedDict(a=1), collections.OrderedDict(a=2)])
    return [d.default_collate(example) for example in examples]


@program
def converted(m, d):
    return d.default_convert([1, 2.5, "a", np.ones(2), (1, np.float64(2)), {"a": np.arange(2)}, Pair(1, np.ones(1))])


@program
def errors(m, d):
    source = pairs(m, d)

    class Bare(d.Dataset):
        pass

    class Endless(d.IterableDataset):
        pass
    return [refused(call) for call in (
        lambda: d.default_collate([[1], [1, 2]]), lambda: d.default_collate([object()]),
        lambda: d.default_collate([None]),
        lambda: d.default_collate([m.ones(1), m.ones(2)]), lambda: d.default_collate([np.array(["a"])]),
        lambda: d.DataLoader(source, shuffle=True, sampler=[1]), lambda: d.DataLoader(source, 2, batch_sampler=[[1]]),
        lambda: d.DataLoader(source, None, drop_last=True), lambda: d.DataLoader(source, num_workers=-1),
        lambda: d.DataLoader(source, timeout=-1), lambda: d.DataLoader(source, prefetch_factor=2),
        lambda: d.DataLoader(source, persistent_workers=True), lambda: d.DataLoader(source, 0),
        lambda: d.DataLoader(numbers(m, d), shuffle=True), lambda: d.DataLoader(numbers(m, d), sampler=[1]),
        lambda: setattr(d.DataLoader(source), "batch_size", 3), lambda: d.TensorDataset(m.ones(2), m.ones(3)),
        lambda: d.ConcatDataset([]), lambda: d.ConcatDataset([numbers(m, d)]), lambda: d.ConcatDataset([range(2)])[-3],
        lambda: d.StackDataset(), lambda: d.StackDataset(range(2), range(3)),
        lambda: d.StackDataset(range(2), a=range(2)),
        lambda: d.random_split(range(3), [1, 1]), lambda: d.random_split(range(3), [1.5, -0.5]),
        lambda: d.RandomSampler(range(3), num_samples=-1), lambda: d.RandomSampler(range(3), replacement=1),
        lambda: d.WeightedRandomSampler([1.0], 0), lambda: d.WeightedRandomSampler([[1.0]], 1),
        lambda: d.BatchSampler([1], 0, False), lambda: d.BatchSampler([1], 2, 1), lambda: Bare()[0],
        lambda: iter(Endless()), lambda: len(d.DataLoader(Endless())), lambda: iter(d.Sampler()))]


@program
def a_training_loop(m, d):
    model, steps = m.nn.Linear(1, 1), []
    optimizer = m.optim.SGD(model.parameters(), lr=0.05)
    source = d.TensorDataset(m.arange(8.0)[:, None] / 8, m.arange(8.0)[:, None])
    for _ in range(3):
        for x, y in d.DataLoader(source, batch_size=3, shuffle=True):
            loss = m.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(round(loss.item(), 4))
    return steps


# ---- losses that are scaled ----

def scaled_steps(m, scaler, gradients, **options):
    w = m.nn.Parameter(m.ones(2))
    optimizer, seen = m.optim.SGD([w], lr=0.5), []
    for gradient in gradients:
        optimizer.zero_grad()
        scaler.scale((w * gradient).sum()).backward()
        scaler.step(optimizer, **options)
        scaler.update()
        seen.append((scaler.get_scale(), scaler._get_growth_tracker(), w.detach().tolist()))
    return seen, scaler.state_dict()


@program
def scales_fall_and_grow(m, d):
    scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    first = scaled_steps(m, scaler, [1.0, 2.0, float("inf"), 1.0, float("nan"), 1.0, 1.0])
    other = m.amp.GradScaler("cpu")
    other.load_state_dict(first[1])
    return first, other.get_scale(), scaled_steps(m, other, [1.0]), other.is_enabled()


@program
def scalers_that_are_off(m, d):
    scaler, x = m.amp.GradScaler("cpu", enabled=False), m.ones(1)
    return scaler.scale(x) is x, scaler.scale([x])[0] is x, scaler.state_dict(), scaler.get_scale(), \
        scaler.load_state_dict({}), scaled_steps(m, scaler, [1.0])[0], scaler.update()


@program
def what_is_scaled(m, d):
    scaler = m.amp.GradScaler("cpu", init_scale=4.0)
    before = scaler.get_scale(), scaler.state_dict()
    return before, scaler.scale([m.ones(1), (m.ones(2), m.ones(1))]), scaler.update(2.0), scaler.get_scale(), \
        scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()


@program
def gradients_are_unscaled_by_hand(m, d):
    scaler, w = m.amp.GradScaler("cpu", init_scale=16.0), m.nn.Parameter(m.ones(2))
    optimizer = m.optim.SGD([w], lr=1.0)
    scaler.scale((w * w).sum()).backward()
    scaler.unscale_(optimizer)
    norm = m.nn.utils.clip_grad_norm_([w], 1.0)
    twice = refused(lambda: scaler.unscale_(optimizer))
    scaler.step(optimizer)
    after = refused(lambda: scaler.unscale_(optimizer)), refused(lambda: scaler.step(optimizer))
    scaler.update()
    return norm, w, twice, after, scaler.get_scale()


@program
def scalers_refuse(m, d):
    scaler, fresh = m.amp.GradScaler("cpu"), m.amp.GradScaler("cpu")
    optimizer = m.optim.SGD([m.nn.Parameter(m.ones(1))], lr=1.0)
    half = m.nn.Parameter(m.ones(1, dtype=m.float16))
    half.grad = m.ones(1, dtype=m.float16)
    scaler.scale(m.ones(1))
    return [refused(call) for call in (
        lambda: scaler.scale(3), lambda: fresh.step(optimizer), lambda: fresh.update(), lambda: scaler.step(optimizer),
        lambda: scaler.update(), lambda: scaler.step(optimizer, closure=lambda: 1), lambda: scaler.load_state_dict({}),
        lambda: scaler.unscale_(m.optim.SGD([half], lr=1.0)), lambda: m.amp.GradScaler("cpu", growth_factor=1.0),
        lambda: m.amp.GradScaler("cpu", backoff_factor=1.0))]


@program
def functions_know_the_autocast_of_their_forward(m, d):
    seen = []

    class Product(m.autograd.Function):
        @staticmethod
        @m.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            seen.append(m.is_autocast_enabled("cpu"))
            return x @ x

        @staticmethod
        @m.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(m.is_autocast_enabled("cpu"))
            return grad * 2

    class Cast(m.autograd.Function):
        @staticmethod
        @m.amp.custom_fwd(device_type="cpu", cast_inputs=m.float32)
        def forward(ctx, x, more):
            seen.append((m.is_autocast_enabled("cpu"), x.dtype == m.float32, more["a"][0].dtype == m.float32))
            return x * 2

        @staticmethod
        @m.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(m.is_autocast_enabled("cpu"))
            return grad * 2, None
    x, half = m.ones(2, 2, requires_grad=True), m.ones(2, dtype=m.bfloat16, requires_grad=True)
    for on in (True, False):
        with m.autocast("cpu", enabled=on):
            y, z = Product.apply(x), Cast.apply(half, {"a": [half.detach()]})
        y.float().sum().backward()
        z.float().sum().backward()
    return seen, str(y.dtype).rpartition(".")[2], x.grad, half.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_programs(function):
    assert outcome(function, cresset) == outcome(function, torch)


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="num_workers=0"):
        data(cresset).DataLoader([1, 2], num_workers=2)
    with pytest.warns(UserWarning, match="'cpu'"):
        assert not cresset.amp.GradScaler().is_enabled()
