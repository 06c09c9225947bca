"""O5, O6, capture.md 1, 11: after a break the rest of the function is captured again. For each function: how many
graphs and how many ops in all two calls need, so that a lost capture shows; and everything that a caller sees, as
plain."""
import contextlib
import functools
import gc
import logging
import pathlib
import sys
import threading
import weakref

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_capture  # noqa: E402

import cresset  # noqa: E402
import cresset.nn as nn  # noqa: E402
from cresset import _C  # noqa: E402

compile = functools.partial(cresset.compile, backend="eager")
PROGRAMS = []


def program(graphs, ops, **later):
    """`later`: the same from another version on. 3.12 has the condition of a loop twice, before it and at its end; from
    3.13 on one instruction compares and asks for the truth, and what is compared there is no part of a graph."""
    for version, counts in later.items():
        if sys.version_info >= (3, int(version[1:])):
            graphs, ops = counts

    def add(function):
        PROGRAMS.append((function, graphs, ops))
        return function
    return add


@program(2, 3)
def prints(a, log):
    b = a * 2 + 1
    print("middle")
    return b * 3


@program(3, 4)
def prints_twice(a, log):
    b = a + 1
    print("one")
    b = b * 2
    print("two", b.shape)
    return b - 1, b.sum()


@program(2, 4, v13=(2, 3))
def branches(a, log):
    if (a * 2).sum() > 0:
        return a + 1
    return a - 1


@program(2, 3)
def items(a, log):
    n = a.sum().item()
    log.append(n)
    return a * n + 1


@program(2, 3)
def floats(a, log):
    b = a.abs().max()
    return a / float(b)


@program(2, 3)
def live_stack(a, log):
    return [a + 1, (a * 2, print("deep"), a - 1)]


@program(2, 4)
def calls_and_keywords(a, log):
    b = max([a.sum(), a.max()], key=lambda t: t.item())
    c = sorted([3, 1, 2], key=lambda k: -k)
    return b * c[0], a + 1


def noisy(a, n):
    b = a + n
    print("in callee", n)
    return b * 2


@program(4, 4)
def callee(a, log):
    b = a * 3
    c = noisy(b, 1)
    return c - 1, noisy


@program(6, 6)
def deep_callee(a, log):
    def outer(x):
        y = x * 2
        z = noisy(y, 2)
        return z + 1
    return outer(a - 1) * 2


@program(3, 3)
def loop_over_range(a, log):
    for k in range(3):
        a = a * 2
        print(a.shape[0])
    return a + 1


@program(2, 6)
def loop_over_zip(a, log):
    total = a * 0
    for i, (x, y) in enumerate(zip([a, a + 1], (1.0, 2.0))):
        total = total + x * y
        print(i)
    else:
        log.append("else")
    return total


@program(2, 7, v12=(3, 12), v13=(3, 9))
def whiles(a, log):
    while a.sum() < 100:
        a = a.abs() * 2 + 1
    return a


@program(5, 13, v13=(5, 9))
def breaks_and_continues(a, log):
    for x in [a, a - 100, a + 1]:
        y = x * 2
        if y.sum() < 0:
            continue
        log.append("kept")
        if y.max() > 1e9:
            break
        a = a + y
    return a


@program(2, 2)
def in_with(a, log):
    with contextlib.suppress(ValueError):
        b = a + 1
        print("inside")
        log.append("inside")
        raise ValueError("suppressed")
    return b * 2


@program(2, 3)
def in_try(a, log):
    b = a + 1
    try:
        print("try")
        c = b * 2
        int("x")
    except ValueError as error:
        log.append(str(error))
        c = b - 1
    finally:
        log.append("finally")
    return c


@program(2, 2)
def cells(a, log):
    n = 2
    b = a * n

    def add(k):
        nonlocal n
        n += k
        return b + n
    print("n", n)
    return add(1), n


@program(3, 3)
def comprehensions(a, log):
    return [(a + k, print(k))[0] for k in (1, 2, 3)]


@program(2, 2)
def names(a, log):
    b = a + 1
    log.append(sorted(locals()))
    log.append(sys._getframe().f_lineno - names.__code__.co_firstlineno)
    return b * 2


@program(2, 2)
def logs(a, log):
    b = a + 1
    logging.getLogger("nobody").debug("shape %s", b.shape)
    return b * 2


@program(1, 2)
def imports(a, log):
    b = a + 1
    from math import pi
    import math
    return b * pi, math.e


@program(2, 2)
def raises_later(a, log):
    b = a + 1
    print("before")
    log.append(b * 2)
    raise KeyError("later")


@program(1, 2)
def raises_in_step(a, log):
    b = a + 1
    log.append("b")
    return b, [1, 2][int(a.sum().item() * 0) + 5]


@program(2, 3)
def function_made(a, log):
    scale = 3
    f = lambda t: t * scale  # noqa: E731
    b = f(a)
    print("x")
    return f(b) + 1


@program(2, 2)
def writes(a, log):
    a.add_(1)
    print(a.shape)
    a.mul_(2)
    return a


@program(2, 2)
def lists(a, log):
    out = []
    out.append(a + 1)
    same = out
    print(len(out))
    same.append(a * 2)
    return out, same is out


def keywords(**kwargs):
    return kwargs


@program(1, 1)
def containers_begun_before(a, log):
    b = a + 1
    d = keywords(**{"x": 1}, **{"y": print("y"), "z": 2})
    s = {1, print("s"), *[2, 3]}
    e = {"k": 0, **{"l": print("e")}}
    return b * 2, d, sorted(map(str, s)), e, {k: print(k) for k in (1, 2)}, {print(k) or k for k in (1, 2)}


def same(x):
    print("same")
    return x


@program(0, 0)
def identity_on_the_stack(a, log):
    other = [1]
    return log is same(log), other is same(log), isinstance(log, (list, type(same(1)))), [*log, same(2)], len(other)


@pytest.fixture(params=["", "miss_once", "fail_graphs"])
def switch(request):
    if request.param:
        _C._capture_switches(**{request.param: True})
    yield request.param
    _C._capture_switches()


def lines(run, function, args):
    try:
        run(*args)
    except Exception as error:
        trace, found = error.__traceback__, []
        while trace:
            if trace.tb_frame.f_code is function.__code__:
                found.append(trace.tb_lineno)
            trace = trace.tb_next
        return found


def make_args(sign):
    return (cresset.arange(6.0).reshape(2, 3) * sign, [])


@pytest.mark.filterwarnings("ignore:.*captured 8 times")
@pytest.mark.parametrize("function, graphs, ops", PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_as_plain(function, graphs, ops, switch, capsys):
    compiled = compile(function)
    for sign in (1, 1, -1, 1):
        shown = []
        for run in (compiled, function):
            shown.append((test_capture.outcome(run, make_args(sign)), lines(run, function, make_args(sign)),
                          capsys.readouterr().out))
        assert shown[0] == shown[1]
    assert not _C._hook_is_set()
    if switch:
        return
    compiled._reset()
    for _ in range(2):
        with contextlib.suppress(Exception):
            compiled(*make_args(1))
    entries = [entry for entry in compiled._entries() if entry["graph"] is not None and entry["ops"]]
    assert (len(entries), sum(entry["ops"] for entry in entries)) == (graphs, ops)


def test_loops_that_break_keep_their_size():
    """10,000 breaks: the same two entries, constant memory."""
    def f(a, n):
        while a.sum() < n:
            a = a + 1
        return a
    compiled = compile(f)
    compiled(cresset.zeros(1), 10)
    gc.collect()
    before, entries = len(gc.get_objects()), len(compiled._entries())
    assert compiled(cresset.zeros(1), 10_000).item() == 10_000
    gc.collect()
    assert len(compiled._entries()) <= entries + 3 and len(gc.get_objects()) - before < 50
    assert compiled._counts()["breaks"] > 10_000


@pytest.mark.parametrize("items", [range(10_000), list(range(10_000)), iter], ids=["range", "long list", "iterator"])
def test_items_that_are_not_read_need_one_entry(items):
    """What an iterator gives is a local that nothing guards until it is read, also out of a tuple."""
    def f(a, items):
        for k, (m, n) in enumerate(zip(items, items)):
            b = a * 2
            id(b)
        return b, k, m, n
    compiled = compile(f)
    make = (lambda: iter(range(20_000))) if items is iter else lambda: items
    sizes = []
    for _ in range(3):
        assert compiled(cresset.ones(1), make())[1:] == f(cresset.ones(1), make())[1:]
        gc.collect()
        sizes.append(len(gc.get_objects()))
    assert compiled._counts()["breaks"] > 40_000 and len(compiled._entries()) <= 8
    assert sizes[2] - sizes[1] < 20


def test_limits_count_by_place():
    """E7: what needs another number each time is captured 8 times, then runs plain, with one warning."""
    def f(a):
        for k in range(30):
            a = a + len(range(k))
            print(end="")
        return a
    compiled = compile(f)
    with pytest.warns(RuntimeWarning, match="from line .* captured 8 times") as warned:
        assert compiled(cresset.zeros(1)).item() == sum(range(30))
    assert len(warned) == 1
    assert compiled(cresset.zeros(1)).item() == sum(range(30))
    places = {}
    for entry in compiled._entries():
        places[entry["at"]] = places.get(entry["at"], 0) + 1
    assert max(places.values()) == 8


def test_gradients_through_breaks():
    def f(w):
        b = w * 2
        print(end="")
        c = b * w
        if c.sum() > 0:
            c = c * 3
        return c.sum()
    for backend in ("eager", "native"):
        compiled = cresset.compile(f, backend=backend)
        for _ in range(3):
            w = cresset.arange(3.0).requires_grad_()
            compiled(w).backward()
            v = cresset.arange(3.0).requires_grad_()
            f(v).backward()
            assert w.grad.tolist() == v.grad.tolist()


def test_a_module_that_breaks_inside():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            print(end="")
            return y.relu()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Inner(), nn.Linear(3, 2)

        def forward(self, x):
            return self.second(self.first(x * 2))
    module = Outer()
    compiled = compile(module)
    x = cresset.randn(4, 3)
    for _ in range(3):
        assert compiled(x).tolist() == module(x).tolist()
    functions = {e["function"].split(".")[-2] for e in compiled._compiled._entries() if e["ops"]}
    assert {"Outer", "Inner"} <= functions


def test_what_dies_dies():
    class Thing:
        pass

    def f(a, thing):
        b = a + 1
        thing = Thing()
        ref = weakref.ref(thing)
        del thing
        print(end="")
        return b * 2, ref() is None
    compiled = compile(f)
    for _ in range(3):
        assert compiled(cresset.ones(1), Thing())[1] == f(cresset.ones(1), Thing())[1]
    thing = Thing()
    ref = weakref.ref(thing)
    compiled(cresset.ones(1), thing)
    del thing
    assert ref() is None


def test_tracing_begins_in_a_break():
    events = []

    def tracer(frame, event, arg):
        events.append((frame.f_code.co_name, event))
        return tracer

    def f(a):
        b = a + 1
        sys.settrace(tracer)
        c = b * 2
        sys.settrace(None)
        return c
    compiled = compile(f)
    for _ in range(2):
        assert compiled(cresset.ones(1)).item() == 4
    assert sys.gettrace() is None


def test_threads():
    def f(a, n):
        b = a * n
        print(end="")
        c = b + 1
        return c * 2 if c.sum() > 0 else c
    compiled = compile(f)
    wrong = []

    def work(n):
        for k in range(200):
            a = cresset.full((2,), float(n * (-1) ** k))
            if compiled(a, n).tolist() != f(a, n).tolist():
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*captured 8 times")
def test_recursion_is_counted():
    def f(a, n):
        print(end="")
        return f(a + 1, n + 1)
    compiled = compile(f)
    with pytest.raises(RecursionError):
        compiled(cresset.zeros(1), 0)


@pytest.mark.filterwarnings("ignore:.*captured 8 times")
def test_recursion_that_the_limit_allows():
    """Steps take C stack for every level; near its end, the rest is CPython's."""
    def f(a, n):
        print(end="")
        return f(a, n - 1) + 1 if n else a
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        assert compile(f)(cresset.zeros(1), 20_000).item() == 20_000
    finally:
        sys.setrecursionlimit(limit)


def test_nothing_happens_before_a_recursion_error():
    """A frame for which there is no room has not begun."""
    def deep(run, n, log):
        return run(log) if not n else deep(run, n - 1, log)

    def f(log):
        log.append("begun")
        id(log)
        log.append("behind")
    compiled, level, frame = compile(f), 0, sys._getframe()
    while frame:
        level, frame = level + 1, frame.f_back
    compiled([])
    for run in (f, compiled):
        found = []
        for n in range(sys.getrecursionlimit() - level - 30, sys.getrecursionlimit() - level + 5):
            log = []
            with contextlib.suppress(RecursionError):
                deep(run, n, log)
            found.append(tuple(log))
        assert found[0] == ("begun", "behind") and found[-1] == () and found == sorted(found, reverse=True)
        assert found.count(("begun",)) <= 1  # up to 3.11 a call of id() takes a level, too
    assert compiled._counts()["breaks"]


def test_frames_that_are_kept_have_their_last_locals():
    def f(a, keep):
        keep.append(sys._getframe())
        b = a + 1
        return b * 2
    compiled = compile(f)
    for _ in range(3):
        keep = []
        result = compiled(cresset.ones(1), keep)
        assert keep[0].f_locals["b"].item() == 2 and result.item() == 4


def test_forgetting_while_it_runs():
    def f(a):
        b = a + 1
        compiled._reset()
        c = b * 2
        compiled._reset()
        return c - 1
    compiled = compile(f)
    for _ in range(5):
        assert compiled(cresset.ones(1)).item() == 3


def test_keyboard_interrupt_in_a_loop_of_breaks():
    import signal

    def f(a):
        while a.sum() < 1e9:
            a = a + 1
        return a
    compiled = compile(f)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(cresset.zeros(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert compiled(cresset.full((1,), 1e9)).item() == 1e9


def test_every_k_instructions():
    """A share of `./dev test --full breaks`."""
    for function in (prints_twice, live_stack, loop_over_zip, cells, in_try, names):
        plain = test_capture.outcome(function, make_args(1))
        for k in range(1, 40):
            compiled = _C._Compiled(function, None, None, 64)
            _C._capture_switches(every=k)
            try:
                assert test_capture.outcome(compiled, make_args(1)) == plain, (function, k)
                assert test_capture.outcome(compiled, make_args(1)) == plain, (function, k)
            finally:
                _C._capture_switches()
