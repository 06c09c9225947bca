"""Asynchronous generators: compiled ones, and those that wait for compiled coroutines. Whatever asend(), athrow() and
aclose() are told, in whatever order, reaches them as in plain Python."""
import functools
import gc
import random
import sys
import types
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import _C

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
LOG = []


@types.coroutine
def pause(value=None):
    try:
        got = yield value
    except BaseException as error:
        LOG.append(("pause", value, type(error).__name__, where(error)))
        raise
    return got


def where(error):
    """The functions that its traceback goes through, without the plain callables' own."""
    found, at = [], error.__traceback__
    while at is not None:
        found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found


# ---- coroutines that generators wait for ----

async def twice(x):
    y = x * 2
    await pause("twice")
    return y + 1


async def stubborn(x):
    """Waits again where it is told to end."""
    try:
        await pause("stubborn")
    except BaseException as error:
        LOG.append(("stubborn", type(error).__name__))
        x = x + 1
        await pause("not yet")
        LOG.append("stubborn goes on")
        raise
    finally:
        x = x - 1
        LOG.append(("left", x.tolist()))
    return x


async def swallows(x):
    try:
        return await stubborn(x * 3)
    except GeneratorExit:
        LOG.append("swallowed")
        return x


class Door:
    def __init__(self, x):
        self.x = x

    async def __aenter__(self):
        await pause("enter")
        return self.x + 1

    async def __aexit__(self, kind, error, traceback):
        LOG.append(("exit", kind and kind.__name__))
        self.x = self.x * 2
        await pause("exit")
        return kind is KeyError


# ---- generators ----

async def plainly(x):
    for i in range(3):
        y = x * i
        got = yield (y + 1).tolist()
        LOG.append(("got", got))


async def waits(x):
    for _ in range(2):
        y = await twice(x)
        yield (y * 2).tolist()
        x = x + 1


async def cleans(x):
    try:
        x = await swallows(x)
        yield x.tolist()
        x = await stubborn(x)
        yield (x + 1).tolist()
    finally:
        LOG.append(("cleans", sys.exc_info()[0] and sys.exc_info()[0].__name__))
        await pause("cleaning")
        x = await twice(x)
        LOG.append(("clean", x.tolist()))


async def handles(x):
    while True:
        try:
            x = x + 1
            yield x.tolist()
        except KeyError as error:
            LOG.append(("handles", str(error)))
            x = await twice(x)
            yield ["handled", x.tolist()]
        except ValueError:
            yield "and again"
            raise
        except GeneratorExit:
            LOG.append("leaves")
            await stubborn(x)
            raise


async def ignores(x):
    try:
        yield x.tolist()
    except GeneratorExit:
        yield (x * 2).tolist()


async def behind_doors(x):
    async with Door(x) as y:
        yield y.tolist()
        async with Door(y) as z:
            await twice(z)
            yield z.tolist()
    yield "outside"


async def passes_on(x):
    source = cleans(x)
    try:
        async for item in source:
            yield item
    finally:
        await source.aclose()
        LOG.append("source closed")


async def throws_on(x):
    source = handles(x)
    item = await source.__anext__()
    while True:
        try:
            got = yield item
        except BaseException as error:
            if isinstance(error, GeneratorExit):
                raise
            item = await source.athrow(error)
        else:
            item = await source.asend(got)


async def ends_early(x):
    y = await twice(x)
    if y.sum() > 100:
        yield 1
    LOG.append("nothing came")


GENERATORS = [plainly, waits, cleans, handles, ignores, behind_doors, passes_on, throws_on, ends_early]
WAITED = [twice, stubborn, swallows]


# ---- coroutines that ask ----

async def collects(x):
    items, source = [], CURRENT[0](x)
    async for item in source:
        items.append(item)
        y = x * len(items)
        await pause(y.tolist())
        if len(items) == 3:
            break
    await source.aclose()
    return items


async def throws(x):
    source, items = CURRENT[0](x), []
    for error in (None, KeyError("a"), ValueError("b"), KeyError("c")):
        try:
            items.append(await (source.asend(None) if error is None else source.athrow(error)))
        except (StopAsyncIteration, KeyError, ValueError) as found:
            items.append((type(found).__name__, str(found)))
        x = x + 1
    try:
        await source.aclose()
    except RuntimeError as found:
        items.append(str(found))
    return items, x.tolist()


async def comprehends(x):
    y = x + 1
    items = [item async for item in CURRENT[0](y)]
    return items, (y * 2).tolist()


ASKERS = [collects, throws, comprehends]
CURRENT = []
ERRORS = [lambda: KeyError("k"), lambda: ValueError("v"), GeneratorExit, StopAsyncIteration, lambda: StopIteration(3),
          KeyboardInterrupt]


# ---- driving ----

def told(call):
    try:
        return call()
    except BaseException as error:
        chain = [type(error).__name__]
        while error.__cause__ or error.__context__:
            error = error.__cause__ or error.__context__
            chain.append(type(error).__name__)
        return chain, str(error)


def awaitable_of(generator, kind, error):
    if kind == "throw":
        return generator.athrow(error)
    return generator.aclose() if kind == "close" else generator.asend(5 if kind == "send" else None)


def act(target, step, error):
    if step == "throw":
        return target.throw(error)
    return target.close() if step == "close" else target.send(None)


def methods(function, seed):
    """Some calls of its methods, each awaitable driven for some steps, and perhaps left."""
    chance, seen = random.Random(seed), []
    generator = function(cresset.ones(2))
    for _ in range(6):
        kind = chance.choice(["next", "next", "send", "throw", "close"])
        awaitable = awaitable_of(generator, kind, chance.choice(ERRORS)())
        for _ in range(chance.randint(1, 5)):
            step, error = chance.choice(["send"] * 6 + ["throw", "close"]), chance.choice(ERRORS)()
            seen.append((kind, step, told(functools.partial(act, awaitable, step, error)), generator.ag_running,
                         generator.ag_frame and generator.ag_frame.f_lineno))
            if isinstance(seen[-1][2], tuple):
                break
    return seen


def turns(function, seed):
    """A coroutine driven for some steps."""
    chance, seen = random.Random(seed), []
    coroutine = function(cresset.ones(2))
    for _ in range(25):
        step, error = chance.choice(["send"] * 12 + ["throw", "close"]), chance.choice(ERRORS)()
        seen.append((step, told(functools.partial(act, coroutine, step, error))))
        if isinstance(seen[-1][1], tuple):
            break
    return seen


def drive(how, function, seed):
    gc.collect()  # what earlier drives left
    LOG.clear()
    return how(function, seed), list(LOG)


SWITCHES = pytest.mark.parametrize("switches", [{}, {"fail_graphs": True}, {"every": 1}],
                                   ids=["plainly", "graphs fail", "breaks"])


def compiled(function):
    return _C._Compiled(function, None, None, 64)


@pytest.fixture(autouse=True)
def no_collector(monkeypatch):
    """What it finds, and when, is no matter of the drives."""
    gc.collect()
    gc.freeze()  # so that drives collect their own in no time
    gc.disable()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coroutines that nobody awaits, of generators that refuse to end
        yield
    gc.collect()
    gc.enable()
    gc.unfreeze()


@pytest.fixture
def nested(request, monkeypatch):
    """The coroutines that generators wait for, and those of doors, are compiled."""
    def compile_them():
        for function in WAITED:
            monkeypatch.setattr(sys.modules[__name__], function.__name__, compiled(function))
        for name in ("__aenter__", "__aexit__"):
            monkeypatch.setattr(Door, name, compiled(getattr(Door, name)))
    return compile_them


@SWITCHES
@pytest.mark.parametrize("program", GENERATORS, ids=lambda p: p.__name__)
def test_methods_of_generators(program, switches, nested):
    want = [drive(methods, program, seed) for seed in range(40)]
    nested()
    _C._capture_switches(**switches)
    try:
        for function in (program, compiled(program)):
            for seed, (seen, log) in enumerate(want):
                ours, own_log = drive(methods, function, seed)
                assert ours == seen and own_log == log, (seed, function)
    finally:
        _C._capture_switches()


@SWITCHES
@pytest.mark.parametrize("asker", ASKERS, ids=lambda p: p.__name__)
def test_coroutines_that_ask_generators(asker, switches, nested):
    def all_of(asker, change):
        found = []
        for program in GENERATORS[:3] + GENERATORS[5:7] if asker.__name__ == "comprehends" else GENERATORS:
            CURRENT[:] = [change(program)]
            found += [drive(turns, asker, seed) for seed in range(20)]
        return found
    want = all_of(asker, lambda f: f)
    nested()
    _C._capture_switches(**switches)
    try:
        assert all_of(compiled(asker), lambda f: f) == want
        assert all_of(compiled(asker), compiled) == want
    finally:
        _C._capture_switches()
