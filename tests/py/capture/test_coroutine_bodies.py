"""Compiled coroutine functions: bodies are captured between awaits; everything else is as in plain Python."""
import asyncio
import collections.abc
import functools
import gc
import inspect
import sys
import types
import warnings
import weakref

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import _C

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
LOG = []


@types.coroutine
def pause(value=None):
    return (yield value)


async def inner(x, n):
    x = x * 2
    await pause(n)
    return x + n


async def at_once(x):
    return x + 1


async def sums(x):
    y = x + 1
    for i in range(3):
        y = (y * 2 + await inner(y, i)).relu()
        y = y + 1
    return y


async def awaits_at_once(x):
    y = await at_once(x * 2)
    z = await at_once(y * 3)
    return y + z


async def catches(x):
    try:
        x = x + 1
        await pause("first")
        x = x * 2
        await pause("second")
    except KeyError as error:
        LOG.append([frame.name for frame in stack()])
        x = x - 1
        await pause(str(error))
        raise ValueError("then") from error
    finally:
        x = x + 5
        LOG.append(x.sum().item())
    return x


async def passes_on(x):
    return await catches(x + 1) * 2


async def fails(x):
    y = x * 2
    await pause(1)
    y = y + 1
    raise KeyError(y.sum().item())


async def in_a_loop(x):
    while True:
        got = await pause((x * 2).sum().item())
        if got is None:
            return x
        x = x + got


class Door:
    async def __aenter__(self):
        await pause("in")
        return 3

    async def __aexit__(self, *exc):
        await pause("out")
        LOG.append(exc[0])
        return exc[0] is KeyError


async def through_a_door(x):
    async with Door() as n:
        x = x * n
        await pause("inside")
        x = x + 1
    return x + n


class Steps:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.n -= 1
        if self.n < 0:
            raise StopAsyncIteration
        await pause(self.n)
        return self.n


async def over_steps(x):
    y = x * 2
    async for n in Steps(3):
        y = y + n
    return y, [k async for k in Steps(2)]


class Given:
    def __init__(self, what):
        self.what = what

    def __await__(self):
        return self.what


async def awaits_wrongly(x):
    try:
        await Given(COMPILED["at_once"](x))
    except TypeError as error:
        return str(error), x + 1


async def awaits_twice(x):
    waited = COMPILED["inner"](x, 1)
    waited.send(None)
    try:
        await waited
    except RuntimeError as error:
        return str(error), waited.close(), x + 1


def by_yield_from(x):
    return (yield from COMPILED["inner"](x, 2))


async def through_a_generator(x):
    return await types.coroutine(by_yield_from)(x) + 1


async def wrong_generator(x):
    try:
        next(by_yield_from(x))
    except TypeError as error:
        return str(error), x + 1


def stack():
    """The frames of this file above the one that asks, without those that drive."""
    found, frame = [], sys._getframe(1)
    while frame:
        ours = frame.f_code.co_filename == __file__
        if ours and frame.f_code.co_name not in ("act", "drive", "test_as_plain_python"):
            found.append(types.SimpleNamespace(name=frame.f_code.co_name))
        frame = frame.f_back
    return found


PROGRAMS = [sums, awaits_at_once, catches, passes_on, fails, in_a_loop, through_a_door, over_steps, awaits_wrongly,
            awaits_twice, through_a_generator, wrong_generator]
NESTED = [inner, at_once, catches, Door.__aenter__, Door.__aexit__, Steps.__anext__]
DRIVES = {"to the end": ["send"] * 12, "values": ["send", ("send", 2), ("send", 3), "send"],
          "value at once": [("send", 2)], "throw": ["send", "throw", "send", "send", "send"],
          "throw later": ["send", "send", "throw", "send", "send"], "throw at once": ["throw", "send"],
          "throw two": ["send", "throw two", "send"], "close": ["send", "close", "send"], "close at once": ["close"],
          "drop": ["send"], "drop at once": []}
COMPILED = {}


def lines(error):
    found, at = [], error.__traceback__
    while at:
        if at.tb_frame.f_code.co_filename == __file__ and at.tb_frame.f_code.co_name not in ("act", "drive"):
            found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found


def act(coroutine, step):
    if step == "throw":
        return coroutine.throw(KeyError("thrown"))
    if step == "throw two":
        return coroutine.throw(KeyError, KeyError("thrown"))
    return coroutine.close() if step == "close" else coroutine.send(None if step == "send" else step[1])


def drive(function, steps):
    LOG.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        coroutine, told = function(cresset.ones(2)), []
        for step in steps:
            try:
                told.append(str(act(coroutine, step)))
            except BaseException as error:
                told.append((type(error).__name__, str(error), repr(error.__cause__), lines(error)))
            told.append((coroutine.cr_frame and coroutine.cr_frame.f_lineno, coroutine.cr_running,
                         coroutine.cr_suspended, type(coroutine.cr_await).__name__, coroutine.__name__))
        del coroutine
    return told, list(LOG), [str(w.message) for w in warned]


SWITCHES = [{}, {"fail_graphs": True}, {"miss_once": True}, {"every": 1}, {"every": 3}]


@pytest.mark.parametrize("switches", SWITCHES,
                         ids=["plainly", "graphs fail", "guards miss", "breaks", "breaks every 3"])
@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested ones too"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_plain_python(program, nested, switches, monkeypatch):
    COMPILED.update({f.__name__: f for f in NESTED})
    want = dict(zip(DRIVES, map(functools.partial(drive, program), DRIVES.values())))
    compiled = _C._Compiled(program, None, None, 64)
    for f in NESTED * nested:
        COMPILED[f.__name__] = _C._Compiled(f, None, None, 64)
        owner = {"__aenter__": Door, "__aexit__": Door, "__anext__": Steps}.get(f.__name__, sys.modules[__name__])
        monkeypatch.setattr(owner, f.__name__, COMPILED[f.__name__])
    _C._capture_switches(**switches)
    try:
        for name, steps in DRIVES.items():
            for _ in range(2):
                assert drive(compiled, steps) == want[name], name
    finally:
        _C._capture_switches()


def test_bodies_are_captured():
    compiled = cresset.compile(sums, backend="eager")
    for _ in range(3):
        asyncio.run(compiled_and_slept(compiled, cresset.ones(2)))
    entries = compiled._entries()
    assert sum(entry["ops"] for entry in entries) >= 5 and max(entry["hits"] for entry in entries) >= 2
    assert compiled._counts()["failed"] == 0
    behind = [entry for entry in entries if entry["ops"] and entry["at"] > 10]
    assert behind, "what comes behind an await is captured, too"


async def compiled_and_slept(compiled, x):
    task = asyncio.ensure_future(driven(compiled(x)))
    await asyncio.sleep(0)
    return await task


async def driven(coroutine):
    """Lets a coroutine that yields by itself run in an event loop."""
    result = None
    while True:
        try:
            coroutine.send(result)
        except StopIteration as stop:
            return stop.value
        await asyncio.sleep(0)


def test_it_looks_like_a_coroutine():
    compiled = cresset.compile(at_once, backend="eager")
    coroutine = compiled(cresset.ones(1))
    assert inspect.iscoroutinefunction(compiled) and inspect.iscoroutine(coroutine) and inspect.isawaitable(coroutine)
    assert asyncio.iscoroutine(coroutine) and isinstance(coroutine, types.CoroutineType)
    assert isinstance(coroutine, collections.abc.Coroutine) and not isinstance(coroutine, collections.abc.Iterable)
    assert not isinstance(coroutine, collections.abc.Iterator) and not hasattr(coroutine, "__next__")
    assert inspect.getcoroutinestate(coroutine) == "CORO_CREATED" and "x" in inspect.getcoroutinelocals(coroutine)
    assert coroutine.cr_code is at_once.__code__ and coroutine.cr_origin is None
    assert repr(coroutine).startswith("<coroutine object at_once")
    for ask, text in ((iter, "'coroutine' object is not iterable"), (next, "'coroutine' object is not an iterator"),
                      (len, "object of type 'coroutine' has no len()")):
        with pytest.raises(TypeError) as raised:
            ask(coroutine)
        assert str(raised.value) == text
    assert type(coroutine.__await__()).__name__ == "coroutine_wrapper"
    gone = weakref.ref(coroutine)
    with pytest.warns(RuntimeWarning, match="coroutine 'at_once' was never awaited"):
        del coroutine
        gc.collect()
    assert gone() is None


def test_it_is_what_is_awaited():
    seen = []

    async def outer(coroutine):
        return await coroutine
    waits = cresset.compile(inner, backend="eager")(cresset.ones(1), 3)
    around = outer(waits)
    assert around.send(None) == 3
    seen.append((around.cr_await is waits, waits.cr_await is not None))
    with pytest.raises(StopIteration) as stopped:
        around.send(None)
    assert seen == [(True, True)] and stopped.value.value.item() == 5


def test_origins():
    compiled = cresset.compile(at_once, backend="eager")
    sys.set_coroutine_origin_tracking_depth(2)
    try:
        ours, plain = [make(cresset.ones(1)) for make in (compiled, at_once)]
        assert ours.cr_origin == plain.cr_origin
    finally:
        sys.set_coroutine_origin_tracking_depth(0)
        ours.close()
        plain.close()


def test_event_loops():
    async def work(x, n):
        x = x + 1
        await asyncio.sleep(0)
        x = x * n
        return x.sum().item()

    async def waits(x):
        x = x + 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            LOG.append((x * 2).sum().item())
            raise

    async def all_of_it(work, waits, x):
        results = await asyncio.gather(*(work(x, n) for n in range(4)))
        task = asyncio.create_task(waits(x), name="waits")
        await asyncio.sleep(0)
        assert asyncio.iscoroutine(task.get_coro()) and task.get_stack()[0].f_code.co_name == "waits"
        task.cancel("enough")
        [error] = await asyncio.gather(task, return_exceptions=True)
        try:
            await asyncio.wait_for(waits(x), 0.01)
        except asyncio.TimeoutError:
            results.append("late")
        return results, type(error), error.args, await work(x, 9)
    LOG.clear()
    want = asyncio.run(all_of_it(work, waits, cresset.ones(2))), list(LOG)
    LOG.clear()
    ours = [cresset.compile(f, backend="eager") for f in (work, waits, all_of_it)]
    assert (asyncio.run(ours[2](*ours[:2], cresset.ones(2))), list(LOG)) == want
    assert sum(entry["ops"] for entry in ours[0]._entries()) >= 3


def test_marked_generators():
    """types.coroutine changes the code of what it is given: the function's, not that of what stands for it."""
    @types.coroutine
    @cresset.compile(backend="eager")
    def marked(x):
        return (yield x + 1)

    async def waits(x):
        return await marked(x)
    coroutine = waits(cresset.ones(1))
    assert coroutine.send(None).item() == 2
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(5)
    assert stopped.value.value == 5


def test_whole_graphs_refuse_coroutines():
    with pytest.raises(dynamo.exc.Unsupported, match="the coroutine at_once"):
        cresset.compile(at_once, backend="eager", fullgraph=True)(cresset.ones(1))


def test_asynchronous_generators_run_plain():
    @cresset.compile(backend="eager")
    async def items(x):
        yield x + 1

    async def first():
        async for item in items(cresset.ones(1)):
            return item.item()
    assert inspect.isasyncgen(items(cresset.ones(1))) and asyncio.run(first()) == 2
    assert type(items(cresset.ones(1))) is types.AsyncGeneratorType
