"""Compiled generator functions: bodies are captured between yields; everything else is as in plain Python."""
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


def counts(x, n):
    y = x * 2
    for i in range(n):
        y = y + i
        yield (y * 3).relu()
    return y.sum()


def takes(x):
    total = x * 0
    while True:
        got = yield total + 1
        if got is None:
            return total
        total = total + got


def catches(x):
    try:
        x = x + 1
        yield x
        yield x * 2
    except KeyError as error:
        yield x - 1
        x = x * 3
        yield str(error)
        raise ValueError("then") from error
    finally:
        x = x + 5
        LOG.append(x.sum().item())


def delegates(x):
    result = yield from counts(x + 1, 2)
    yield result * 2
    yield from [x, x + 1]
    yield from (x + k for k in range(2))


def with_cells(x):
    scale = 2

    def scaled(v):
        return v * scale
    yield scaled(x)
    scale = 3
    yield scaled(x)


def with_managers(x):
    with cresset.no_grad():
        y = x + 1
        yield y
        y = y * 2
        yield y, y.requires_grad
    yield x * 2, (x * 2).requires_grad


def over_an_iterator(x):
    for k, v in zip("ab", iter([x, x + 1])):
        print(k, v.sum().item())
        yield {k: v * 2}


def raises(x):
    yield x + 1
    y = x * 2
    raise KeyError(y.sum().item())


def stops(x):
    yield x + 1
    raise StopIteration(3)


def data(x):
    for _ in range(3):
        x = x - 1
        if x.sum() > 0:
            yield x * 2
        else:
            yield "low"


def empty(x):
    return x + 1
    yield


def nested(x, depth):
    if depth:
        for v in nested(x + 1, depth - 1):
            yield v * 2
    yield x


def looks(x):
    y = x + 1
    yield sorted(locals())
    yield sys._getframe().f_lineno, sys._getframe().f_code.co_name, y + 1


LOG = []
PROGRAMS = [(counts, (3,)), (takes, ()), (catches, ()), (delegates, ()), (with_cells, ()), (with_managers, ()),
            (over_an_iterator, ()), (raises, ()), (stops, ()), (data, ()), (empty, ()), (nested, (3,)), (looks, ())]
DRIVES = {"next": ["next"] * 12, "send": ["next", ("send", 2), ("send", 3), "next", ("send", 1), "next"],
          "send at once": [("send", 2)], "throw": ["next", "throw", "next", "next", "next"],
          "throw later": ["next", "next", "throw", "next", "next"], "throw at once": ["throw", "next"],
          "close": ["next", "close", "next"], "close at once": ["close", "next"], "drop": ["next"]}


def lines(error):
    found, at = [], error.__traceback__
    while at:
        if at.tb_frame.f_code.co_filename == __file__ and at.tb_frame.f_code.co_name not in ("act", "run"):
            found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found


def act(generator, step):
    if step == "next":
        return next(generator)
    if step == "throw":
        return generator.throw(KeyError("thrown"))
    return generator.close() if step == "close" else generator.send(step[1])


def run(function, args, steps, capsys):
    LOG.clear()
    generator, told = function(cresset.ones(2, requires_grad=function.__name__ == "with_managers"), *args), []
    for step in steps:
        try:
            told.append(str(act(generator, step)))
        except BaseException as error:
            told.append((type(error).__name__, str(error), repr(error.__cause__), lines(error)))
    told.append((generator.gi_frame is None, generator.gi_running, generator.gi_suspended, generator.__name__))
    del generator
    return told, list(LOG), capsys.readouterr().out


@pytest.mark.parametrize("switches", [{}, {"fail_graphs": True}, {"miss_once": True}, {"every": 1}, {"every": 3}],
                         ids=["plainly", "graphs fail", "guards miss", "breaks", "breaks every 3"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0].__name__)
def test_as_plain_python(program, switches, capsys):
    function, args = program
    compiled = _C._Compiled(function, None, None, 64)
    _C._capture_switches(**switches)
    try:
        for name, steps in DRIVES.items():
            want = run(function, args, steps, capsys)
            for _ in range(2):
                assert run(compiled, args, steps, capsys) == want, name
    finally:
        _C._capture_switches()


def test_bodies_are_captured():
    compiled = cresset.compile(counts, backend="eager")
    for _ in range(3):
        list(compiled(cresset.ones(2), 3))
    entries = compiled._entries()
    assert sum(entry["ops"] for entry in entries) >= 5 and max(entry["hits"] for entry in entries) >= 2
    assert any("the generator yields" in (entry["reason"] or "") for entry in entries)
    assert compiled._counts()["failed"] == 0


def test_it_looks_like_a_generator():
    compiled = cresset.compile(counts, backend="eager")
    generator = compiled(cresset.ones(1), 2)
    assert inspect.isgeneratorfunction(compiled) and inspect.isgenerator(generator)
    assert isinstance(generator, types.GeneratorType) and iter(generator) is generator
    assert inspect.getgeneratorstate(generator) == "GEN_CREATED"
    next(generator)
    assert inspect.getgeneratorstate(generator) == "GEN_SUSPENDED" and "i" in inspect.getgeneratorlocals(generator)
    with pytest.raises(TypeError, match="object of type 'generator' has no len"):
        len(generator)
    assert generator.gi_code is counts.__code__ and repr(generator).startswith("<generator object counts")
    gone = weakref.ref(generator)
    del generator
    gc.collect()
    assert gone() is None


def test_methods_and_reset_while_it_waits():
    class Source:
        scale = 3

        @cresset.compile(backend="eager")
        def items(self, x):
            for k in range(3):
                yield x * self.scale + k
    items = Source().items(cresset.ones(1))
    first = next(items).item()
    dynamo.reset()
    assert [first, *(v.item() for v in items)] == [3, 4, 5]


def frames(steps):
    """What a generator sees above it while something is thrown into one that waits for it, and what is warned of."""
    def inside(x):
        try:
            yield x + 1
        except KeyError as error:
            frame, names = sys._getframe(), []
            while frame and len(names) < 4:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            yield names, str(error)

    def around(x):
        yield from steps(inside)(x)
    told = []
    for exception in ((KeyError("one"),), (KeyError, KeyError("two")), (KeyError, "three", None)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            generator = steps(around)(cresset.ones(1))
            next(generator)
            told.append((generator.throw(*exception), [str(w.message) for w in warned]))
    return told


def test_who_waits_is_on_the_stack():
    assert frames(lambda f: cresset.compile(f, backend="eager")) == frames(lambda f: f)


class Ends:
    """Iterators in Python may end with a value, which is that of `yield from`."""

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(42)


def asks(x):
    result = yield from Ends()
    yield x * result


def test_ends_with_a_value():
    compiled = cresset.compile(asks, backend="eager")
    assert [next(compiled(cresset.ones(1))).item() for _ in range(2)] == [42, 42]
    inlined = cresset.compile(lambda x: next(asks(x)), backend="eager")
    assert [inlined(cresset.ones(1)).item() for _ in range(2)] == [42, 42]


def test_what_comes_behind_yield_from_is_captured():
    def around(x):
        yield from (k for k in range(2))
        yield (x * 2 + 1).relu()
    compiled = cresset.compile(around, backend="eager")
    for _ in range(2):
        assert list(compiled(cresset.ones(1)))[2].item() == 3
    assert sum(entry["ops"] for entry in compiled._entries()) >= 3


def test_whole_graphs_refuse_generators():
    with pytest.raises(dynamo.exc.Unsupported, match="a generator is made"):
        cresset.compile(counts, backend="eager", fullgraph=True)(cresset.ones(1), 2)


def test_gradients_go_through_yields():
    x, y = cresset.ones(2, requires_grad=True), cresset.ones(2, requires_grad=True)
    sum(v.sum() for v in cresset.compile(counts)(x, 3)).backward()
    sum(v.sum() for v in counts(y, 3)).backward()
    assert cresset.equal(x.grad, y.grad)
