"""E1, O1 to O4: what compile() gives is what plain Python gives: result, identity, side effects, exceptions with their
lines; and what was captured is what was recorded."""
import collections
import copy
import enum
import functools
import gc
import inspect
import pathlib
import pickle
import sys
import threading
import traceback
import types
import weakref

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2] / "full")]
import cases  # noqa: E402
import reentry_programs as programs  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402
from cresset._dynamo.exc import BackendCompilerFailed, Unsupported  # noqa: E402

compile = functools.partial(cresset.compile, backend="eager")


def describe(value, arguments, seen):
    """A value as something to compare: contents, classes, and which objects are the same one."""
    if id(value) in seen and not isinstance(value, (int, float, str, type(None))):
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, cresset.Tensor):
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(), value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [describe(item, arguments, seen) for item in value]
    if isinstance(value, dict):
        return type(value).__name__, [(key, describe(item, arguments, seen)) for key, item in value.items()]
    if hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType)):
        return type(value).__name__, describe(vars(value), arguments, seen)
    return type(value).__name__, repr(value) if not callable(value) else "callable"


def outcome(run, args):
    """What a caller sees."""
    kept = args
    try:
        result = run(*args)
    except Exception as error:
        frames = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == cases.__file__]
        return "raised", type(error), str(error), frames, describe(kept, kept, {})
    return "returned", describe((kept, result), kept, {})


@pytest.fixture(params=["", "miss_once", "fail_graphs"])
def switch(request):
    if request.param:
        _C._capture_switches(**{request.param: True})
    yield request.param
    _C._capture_switches()


@pytest.mark.parametrize("case", cases.CASES, ids=lambda c: c.function.__name__)
def test_as_plain(case, switch):
    compiled = compile(case.function)
    for _ in range(3):
        assert outcome(compiled, case.make_args()) == outcome(case.function, case.make_args())
    entries, counts = compiled._entries(), compiled._counts()
    if case.plain is not None:
        assert entries[0]["reason"] and case.plain in entries[0]["reason"]
        assert counts["plain"] >= 3
        assert pathlib.Path(cases.__file__).name in entries[0]["reason"]
        return
    assert [entry["reason"] for entry in entries] == [None] * len(entries)
    assert entries[0]["ops"] == case.ops
    if not switch:
        assert counts == {"captures": 1, "hits": 2, "misses": 1, "plain": 0, "failed": 0, "breaks": 0}
    if switch == "miss_once":
        assert counts["captures"] >= 2
    if switch == "fail_graphs" and entries[0]["graph"] is not None:
        assert counts["failed"] == 3


@pytest.mark.parametrize("case", cases.CASES, ids=lambda c: c.function.__name__)
def test_fullgraph(case):
    compiled = compile(case.function, fullgraph=True)
    if case.plain is None:
        assert outcome(compiled, case.make_args()) == outcome(case.function, case.make_args())
        return
    for _ in range(2):
        with pytest.raises(Unsupported, match=r"cases.py:\d+ in "):
            compiled(*case.make_args())


@pytest.mark.parametrize("function, make_args", programs.PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_programs_without_tensors(function, make_args, switch):
    """Captured or plain: the same."""
    compiled = compile(function)
    for _ in range(2):
        programs.COUNTER = 0
        plain = programs.outcome(function, make_args())
        programs.COUNTER = 0
        assert programs.outcome(compiled, make_args()) == plain


EVALUATED_REALLY = {"own_locals", "objects"}  # locals(), super(): ask for their own frame


@pytest.mark.parametrize("function, make_args", programs.PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_evaluator_as_interpreter(function, make_args):
    """The evaluator on real objects: what it carries out to the end, it carries out as CPython."""
    def evaluated(*args):
        return _C._evaluate(function, *args)
    found = programs.outcome(evaluated, make_args(), lines=False)
    if found[1] == "NotImplementedError":
        assert any(reason in found[2] for reason in _C._instruction_table().values() if reason) or "handled" in found[2]
    elif function.__name__ not in EVALUATED_REALLY:
        plain = programs.outcome(function, make_args(), lines=False)
        assert found[:3] == plain[:3] and found[-1] == plain[-1]


# ---- guards: the same function, called again when something has changed ----


def check_again(function, *calls, captures):
    """Each call is (arguments) or a function that changes something; all as plain."""
    compiled = compile(function, fullgraph=True)
    for call in calls:
        if callable(call):
            call()
        else:
            args = call
            assert outcome(compiled, copy.deepcopy(args)) == outcome(function, copy.deepcopy(args))
    assert compiled._counts()["captures"] == captures
    return compiled


def test_sizes_and_dtypes():
    x = cresset.randn(2, 3)
    check_again(lambda a: a.sum(dim=-1) * a.shape[0], (x,), (x,), (x[:1],), (cresset.randn(3, 2),), (x.double(),),
                (x.t().contiguous().t(),), (x[:0],), captures=6)


def test_number_arguments():
    """9: type and bits count."""
    x = cresset.ones(2)
    values = [1, 1.0, True, 0.0, -0.0, float("nan"), 10 ** 30, "a", None, 2, 1]
    compiled = compile(lambda a, n: (a + 1, n, type(n)), fullgraph=True)
    compiled_limit = _C._Compiled(compiled.__wrapped__, None, None, 20)
    for n in values:
        shown = compiled_limit(x, n)[1:]
        assert repr(shown) == repr((n, type(n)))
    assert compiled_limit._counts()["captures"] == 10


def test_one_list_twice():
    """1: distinct lists, then one list twice."""
    def f(a, b):
        a.append(1)
        return len(b)
    compiled = compile(f, fullgraph=True)
    a, b = [], []
    assert (compiled(a, b), a, b) == (0, [1], [])
    c = []
    assert (compiled(c, c), c) == (1, [1])
    assert compiled(a, b) == 0


def test_globals_and_builtins():
    """5: a global of a builtin's name, defined later; a builtin patched."""
    namespace = {"__builtins__": {"len": len}}
    exec("def f(a, items):\n    return a + len(items)", namespace)
    f = namespace["f"]
    x = cresset.ones(2)
    compiled = compile(f, fullgraph=True)
    assert compiled(x, [1, 2]).tolist() == [3, 3]
    namespace["len"] = lambda items: 10
    assert compiled(x, [1, 2]).tolist() == [11, 11]
    del namespace["len"]
    assert compiled(x, [1, 2]).tolist() == [3, 3]
    namespace["__builtins__"]["len"] = lambda items: 20
    assert compiled(x, [1, 2]).tolist() == [21, 21]


def test_global_changes():
    namespace = {"K": 1}
    exec("def f(a):\n    return a + K", namespace)
    compiled = compile(namespace["f"], fullgraph=True)
    x = cresset.zeros(1)
    for k in (1, 2, 1, 2.5, True):
        namespace["K"] = k
        assert compiled(x).tolist() == namespace["f"](x).tolist()
    assert compiled._counts()["captures"] == 4


def test_function_parts():
    """8: defaults, keyword defaults, code, a cell."""
    def make(k):
        def g(a, n=1, *, m=2):
            return a * n + m + k

        def set_k(value):
            nonlocal k
            k = value
        return g, set_k
    g, set_k = make(5)

    def f(a):
        return g(a)
    x = cresset.ones(2)
    compiled = compile(f, fullgraph=True)

    def check():
        assert compiled(x).tolist() == f(x).tolist()
    check()
    g.__defaults__ = (7,)
    check()
    g.__kwdefaults__["m"] = 9
    check()
    g.__kwdefaults__ = {"m": -1}
    check()
    set_k(100)
    check()
    g.__code__ = make(0)[0].__code__.replace(co_consts=tuple(c for c in g.__code__.co_consts))
    check()
    g.__defaults__ = (3,)
    check()


def test_objects_change():
    """4, 7: attributes by every way, methods patched on instance, class and base, another class."""
    class Base:
        def scale(self):
            return 2

    class Thing(Base):
        pass

    class Other(Base):
        def scale(self):
            return 100

    t = Thing()
    t.x = 1

    def f(a, t):
        return a * t.scale() + t.x
    a = cresset.ones(2)
    compiled = _C._Compiled(f, None, Unsupported, 50)

    def check():
        assert compiled(a, t).tolist() == f(a, t).tolist()
    check()
    check()
    assert compiled._counts()["captures"] == 1
    for change in (lambda: setattr(t, "x", 2), lambda: t.__dict__.update(x=3), lambda: setattr(t, "y", 1),
                   lambda: setattr(Base, "scale", lambda self: 5), lambda: setattr(Thing, "scale", lambda self: 6),
                   lambda: setattr(t, "scale", lambda: 7), lambda: delattr(t, "scale"), lambda: delattr(Thing, "scale"),
                   lambda: setattr(t, "__class__", Other), lambda: setattr(t, "__dict__", {"x": 9}),
                   lambda: (t.__dict__.popitem(), t.__dict__.update(x=-1)),
                   lambda: setattr(Other, "__bases__", (Thing,))):
        change()
        check()
        check()


def test_objects_at_old_addresses():
    """2: made again where another one was."""
    class Thing:
        pass

    def f(a, t):
        return a + t.x
    compiled = _C._Compiled(f, None, Unsupported, 500)
    a = cresset.zeros(1)
    for k in range(60):
        t = Thing()
        t.x = k % 7
        assert compiled(a, t).item() == k % 7
        del t
    assert compiled._counts()["captures"] == 7


def test_tensors_change_in_place():
    """3: requires_grad_, .data = on a tensor that is read from outside."""
    class Holder:
        pass
    h = Holder()
    h.w = cresset.ones(3)

    def f(a, h):
        return a * h.w, h.w.requires_grad
    compiled = _C._Compiled(f, None, Unsupported, 50)
    a = cresset.arange(3.0)

    def check():
        got, want = compiled(a, h), f(a, h)
        assert got[0].tolist() == want[0].tolist() and got[1] is want[1]
        assert got[0].requires_grad == want[0].requires_grad
    check()
    h.w.mul_(2)
    check()
    assert compiled._counts()["captures"] == 1
    h.w.requires_grad_(True)
    check()
    h.w.requires_grad_(False)
    check()
    h.w.data = cresset.full((3,), 4.0)
    check()
    h.w.data = cresset.full((1,), 4.0)
    check()
    del h.w
    h.w = cresset.zeros(3)
    check()


def test_identity_of_results():
    """16."""
    def f(a, items):
        t = (a + 1, items)
        return a, items, t, t
    a, items = cresset.ones(1), [1]
    compiled = compile(f, fullgraph=True)
    for _ in range(2):
        r = compiled(a, items)
        assert r[0] is a and r[1] is items and r[2] is r[3] and r[2][1] is items


def test_same_tensor_twice():
    def f(a, b):
        return (a is b), a + b
    a, b = cresset.ones(2), cresset.zeros(2)
    compiled = compile(f, fullgraph=True)
    assert compiled(a, b)[0] is False
    assert compiled(a, a)[0] is True
    assert compiled(a, b)[0] is False


def test_one_object_twice():
    """Attributes are set on two objects, then on one that is both."""
    def f(p, q, a):
        p.value = 1
        q.value = 2
        return a * p.value
    compiled = compile(f, fullgraph=True)
    a = cresset.ones(1)
    for same in (False, True, False):
        p, q = cases.Point(0), cases.Point(0)
        q = p if same else q
        assert compiled(p, q, a).item() == (2 if same else 1)
        assert (p.value, q.value) == ((2, 2) if same else (1, 2))


def test_global_counter():
    """5: a global that every call writes: the second capture leaves it open."""
    namespace = {"N": 0}
    exec("def f(a):\n    global N\n    N += 1\n    return a + N", namespace)
    compiled = compile(namespace["f"])
    a = cresset.zeros(1)
    assert [compiled(a).item() for _ in range(12)] == list(range(1, 13))
    assert namespace["N"] == 12 and compiled._counts()["captures"] == 2


def test_effects_wait_for_the_graph():
    """A graph that fails has set nothing: the plain run sets everything once."""
    p = cases.Point(0)

    def f(p, a, i):
        p.value += 1
        return a[i] + p.value
    compiled = compile(f)
    a = cresset.arange(3.0)
    assert compiled(p, a, cresset.tensor([0])).tolist() == [1] and p.value == 1
    p.value = 0
    with pytest.raises(IndexError):
        compiled(p, a, cresset.tensor([9]))
    assert p.value == 1 and compiled._counts()["failed"] == 1


def test_gradients_flow():
    def f(a, w):
        return (a * w).sum()
    w = cresset.ones(3, requires_grad=True)
    a = cresset.arange(3.0)
    compiled = compile(f, fullgraph=True)
    for _ in range(2):
        w.grad = None
        compiled(a, w).backward()
        assert w.grad.tolist() == [0, 1, 2]
    with cresset.no_grad():
        assert not compiled(a, w).requires_grad
    assert compiled(a, w).requires_grad


def test_run_time_error_runs_plain():
    """13: the error, its line and what was done before it are eager's."""
    def f(log, a, i):
        log.append("begun")
        b = a + 1
        return b[i]
    compiled = compile(f)
    a = cresset.arange(3.0)
    log = []
    assert compiled(log, a, cresset.tensor([0, 2])).tolist() == [1, 3]
    with pytest.raises(IndexError) as caught:
        compiled(log, a, cresset.tensor([0, 7]))
    assert log == ["begun", "begun"]
    assert caught.traceback[-1].lineno + 1 == f.__code__.co_firstlineno + 3
    assert compiled._counts()["failed"] == 1


def test_random_streams():
    """20: the stream goes on as in eager, also when a graph fails."""
    def f(a, i):
        b = cresset.nn.functional.dropout(a, 0.5)
        return (b + cresset.rand(3))[i]
    compiled = compile(f)
    a, ok, bad = cresset.ones(3), cresset.tensor([0]), cresset.tensor([9])
    shown = []
    for run in (f, compiled):
        cresset.manual_seed(7)
        numbers = [run(a, ok).tolist() for _ in range(2)]
        with pytest.raises(IndexError):
            run(a, bad)
        numbers.append(cresset.rand(2).tolist())
        shown.append(numbers)
    assert shown[0] == shown[1]


def test_limit():
    compiled = compile(lambda a, n: a + len(range(n)))
    a = cresset.zeros(1)
    with pytest.warns(RuntimeWarning, match="did not hold of each: n is 0; n == 1; .*n == 7\n"):
        for n in range(12):
            assert compiled(a, n).item() == n
    counts = compiled._counts()
    assert counts["captures"] == 8 and counts["plain"] == 4


def test_keywords_and_shapes_of_calls():
    def f(a, b=2, *rest, c=3, **more):
        return a * b + c, rest, more
    compiled = compile(f, fullgraph=True)
    a = cresset.ones(2)
    for args, kwargs in [((a,), {}), ((a, 5), {}), ((), {"a": a}), ((a,), {"c": 7, "b": 1}), ((a,), {"b": 1, "c": 7}),
                         ((a, 1, 2, 3), {"z": a}), ((a,), {})]:
        got, want = compiled(*args, **kwargs), f(*args, **kwargs)
        assert got[0].tolist() == want[0].tolist() and str(got[1:]) == str(want[1:])
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compile(f)()


def test_random_changes():
    """A part of ./dev test --full guards."""
    import guards
    calls, wrong, hits = guards.sweep(900, 12345)
    assert not wrong
    assert calls == 1800 and hits > 600


# ---- the object ----


def test_looks_like_the_function():
    def f(a: int, b=2):
        """Documented."""
        return a
    f.mark = 1
    k = compile(f)
    for name in ("__name__", "__doc__", "__module__", "__qualname__", "__defaults__", "__code__"):
        assert getattr(k, name) == getattr(f, name)
    assert inspect.signature(k) == inspect.signature(f) and inspect.isfunction(k)
    assert k.__wrapped__ is f and k.mark == 1 and isinstance(k, types.FunctionType)
    k.own = 2
    assert k.__dict__ == {"own": 2} and not hasattr(f, "own")
    assert "compiled" in repr(k)
    assert compile(k).__wrapped__ is f
    assert weakref.ref(k)() is k


def test_binds_as_a_method():
    class C:
        w = 3

        @compile
        def f(self, a):
            return a * self.w
    c = C()
    x = cresset.ones(2)
    assert c.f(x).tolist() == [3, 3] == C.f(c, x).tolist()
    k = compile(c.f)
    assert k(x).tolist() == [3, 3]
    c.w = 4
    assert k(x).tolist() == c.f(x).tolist() == [4, 4]


def test_copies():
    class C:
        def __init__(self):
            self.w = 2

        def f(self, a):
            return a * self.w
    c = C()
    k = compile(c.f)
    x = cresset.ones(1)
    k(x)
    twin = copy.deepcopy(k)
    twin.__wrapped__.__self__.w = 9
    assert (k(x).item(), twin(x).item()) == (2, 9)
    again = pickle.loads(pickle.dumps(compile(cases.arithmetic)))
    assert again.__wrapped__ is cases.arithmetic and again(x, x).item() == 3


def test_nothing_is_kept_alive():
    """6: what entries hold is no object of the user's."""
    class Thing:
        pass

    def f(a, t):
        return a + t.x.sum() + len(t.items)
    compiled = compile(f, fullgraph=True)
    t, a = Thing(), cresset.ones(2)
    t.x, t.items = cresset.ones(3), [cresset.ones(1)]
    compiled(a, t)
    refs = [weakref.ref(o) for o in (t, t.x, a, t.items[0], Thing)]
    del t, a, Thing
    gc.collect()
    assert [r() for r in refs] == [None] * 5


def test_no_leak():
    compiled = compile(cases.object_with_tensor, fullgraph=True)
    point, y = cases.Point(cases.x()), cases.y()
    for _ in range(100):
        compiled(point, y)
    before = (sys.getrefcount(point), sys.getrefcount(y), sys.getrefcount(point.value), len(gc.get_objects()))
    for _ in range(20000):
        compiled(point, y)
    after = (sys.getrefcount(point), sys.getrefcount(y), sys.getrefcount(point.value), len(gc.get_objects()))
    assert after[:3] == before[:3] and after[3] - before[3] < 50


def test_capture_leaks_nothing():
    import tracemalloc
    f = compile(cases.inlined)
    x = cases.x()
    for _ in range(20):
        f._reset()
        f(x)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        f._reset()
        f(x)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20000


# ---- backends ----


def test_recording_backend():
    seen = []

    def backend(graph, example_inputs):
        seen.append((graph, example_inputs))
        return graph.run
    x = cases.x()
    compiled = cresset.compile(cases.methods, backend=backend, fullgraph=True)
    for _ in range(2):
        assert compiled(x).tolist() == cases.methods(x).tolist()
    (graph, examples), = seen
    assert examples[0] is x and "aten.relu" in str(graph)


def test_backend_errors():
    def broken(graph, example_inputs):
        raise ValueError("no")
    with pytest.raises(BackendCompilerFailed, match="broken.*ValueError: no"):
        cresset.compile(cases.methods, backend=broken)(cases.x())
    with pytest.raises(BackendCompilerFailed, match="cannot be called"):
        cresset.compile(cases.methods, backend=lambda g, e: 3)(cases.x())
    with pytest.raises(RuntimeError, match="list_backends"):
        cresset.compile(cases.methods, backend="nothing")


def test_arguments_of_compile():
    def f(a):
        return a + 1
    assert cresset.compile(f, disable=True) is f
    assert cresset.compile(backend="eager")(f)(cresset.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="not both"):
        cresset.compile(f, mode="default", options={})
    with pytest.raises(RuntimeError, match="'speed'"):
        cresset.compile(f, options={"speed": 1})
    with pytest.raises(TypeError, match="wrap it"):
        cresset.compile(len)
    with pytest.raises(TypeError, match="class"):
        cresset.compile(int)


def test_environment_disables(monkeypatch):
    monkeypatch.setenv("CRESSET_DISABLE", "1")
    assert cresset.compile(cases.arithmetic) is cases.arithmetic


# ---- company ----


def test_inside_export():
    """Whoever records sees through it."""
    inner = compile(cases.arithmetic)
    x = cases.x()
    graph = _C.record(lambda a: inner(a, a), (x,))
    assert "aten.add" in str(graph)


def test_what_runs_meanwhile_is_not_recorded():
    """Finalizers and handlers of signals are no part of the program."""
    import signal
    seen = []

    class Loud:
        def __del__(self):
            seen.append((cresset.ones(2) * 3).tolist())

    def handler(number, frame):
        seen.append((cresset.ones(2) * 5).tolist())

    def f(a, n):
        for k in range(n):
            a = a + k
        return a
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(20):
            o = Loud()
            o.self = o
            del o
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            compiled = compile(f, fullgraph=True)
            assert compiled(cresset.zeros(2), 300).tolist() == [44850, 44850]
            assert compiled._entries()[0]["ops"] == 300
            signal.pause() if not seen else None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    assert {tuple(s) for s in seen} == {(3, 3), (5, 5)}


def test_modules_that_compute_their_names():
    """Code of a module that is asked for a name does not run in a capture."""
    module = types.ModuleType("computed")
    module.__getattr__ = lambda name: len(calls) if not calls.append(name) else 0
    calls = []

    def f(a, m):
        return a + m.anything
    compiled = compile(f)
    assert [compiled(cresset.zeros(1), module).item() for _ in range(3)] == [1, 2, 3]
    assert len(calls) == 3 and "no 'anything' of its own" in compiled._entries()[0]["reason"]


def test_threads():
    compiled = compile(cases.inlined)
    x, wrong = cases.x(), []
    want = cases.inlined(x).tolist()

    def work():
        for k in range(200):
            if compiled(x).tolist() != want:
                wrong.append(k)
            if k % 20 == 0:
                compiled._reset()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_settrace_changes_nothing():
    lines = []
    compiled = compile(cases.loop, fullgraph=True)
    x = cases.x()
    sys.settrace(lambda *args: lines.append(args[1]))
    try:
        result = compiled(x, 3)
    finally:
        sys.settrace(None)
    assert result.tolist() == cases.loop(x, 3).tolist()


class Layout(str, enum.Enum):
    ROWS = "rows"
    COLUMNS = "columns"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


def choose(x, layout=Layout.ROWS, level=Level.LOW, side=Side.LEFT):
    if layout != Layout.ROWS:
        x = x + 1
    if layout == "columns":
        x = x + 2
    if layout in (Layout.COLUMNS, None):
        x = x * 2
    if level < Level.HIGH:
        x = x - 1
    if level in [2, 3]:
        x = x * 3
    if side in (Side.RIGHT,):
        x = x * 5
    return x * (level + 1)


def test_members_of_enumerations_are_their_values():
    compiled = compile(choose, fullgraph=True)
    x = cases.x()
    for args in [(), (Layout.COLUMNS,), (Layout.ROWS, Level.HIGH), (Layout.ROWS, Level.HIGH, Side.RIGHT),
                 ("columns",), ("rows", 2)]:
        for _ in range(2):
            assert compiled(x, *args).tolist() == choose(x, *args).tolist(), args
    assert compiled._counts()["hits"] == 6


class Same:
    def __init__(self, key):
        self.key = key

    def __eq__(self, other):
        return isinstance(other, Same) and self.key == other.key


@pytest.mark.parametrize("keys", [(1, 2), (2, 3), ()])
def test_in_asks_the_objects(keys):
    def f(x, objects, wanted):
        return x + 1 if wanted in objects else x - 1
    compiled, x = compile(f, fullgraph=True), cases.x()
    objects, wanted = [Same(key) for key in keys], Same(1)
    for key in (1, 3, 1):
        wanted.key = key
        assert compiled(x, objects, wanted).tolist() == f(x, objects, wanted).tolist()


class Firsts(collections.OrderedDict):
    def __getitem__(self, key):
        return super().__getitem__(key)[0]


def test_items_of_a_dict_with_its_own_getitem():
    firsts = Firsts(a=(2, 0), b=(3, 0))

    def f(x, end):
        return x * firsts["" + end]
    compiled, x = compile(f, fullgraph=True), cases.x()
    for change in (None, (7, 0)):
        if change:
            collections.OrderedDict.__setitem__(firsts, "b", change)
        for end in "ab":
            assert compiled(x, end).tolist() == f(x, end).tolist()


def test_texts_made_here_are_keys():
    table = {"key": 2.0}

    def f(x, end):
        return x * table["ke" + end] if "ke" + end in table else x
    compiled, x = compile(f, fullgraph=True), cases.x()
    for end in ("y", "z", "y"):
        assert compiled(x, end).tolist() == f(x, end).tolist()
    assert compiled._counts()["plain"] == 0


class Chunked:
    def chunk(self, x, y, *rest, scale=1.0):
        return x + y

    def count(self, x):
        parameters = inspect.signature(self.chunk).parameters
        return x * len(parameters) + ("scale" in parameters) + ("self" in parameters)


def test_how_many_arguments_a_function_takes():
    compiled, chunked, x = compile(Chunked.count, fullgraph=True), Chunked(), cases.x()
    assert compiled(chunked, x).tolist() == Chunked().count(x).tolist() == (x * 4 + 1).tolist()
    chunked.chunk.__func__.__signature__ = inspect.signature(lambda self, other: None)
    try:
        assert compile(Chunked.count)(chunked, x).tolist() == x.tolist()
    finally:
        del chunked.chunk.__func__.__signature__
    assert compiled(chunked, x).tolist() == (x * 4 + 1).tolist()


def test_a_signature_that_is_kept_is_a_real_one():
    def f(x, y=1):
        return inspect.signature(f), inspect.signature(f).parameters, x + 1
    signature, parameters, _ = compile(f)(cases.x())
    assert signature == inspect.signature(f) and parameters == inspect.signature(f).parameters
    assert compile(lambda x: (inspect.signature(f).parameters["y"].default, x))(cases.x())[0] == 1
    assert compile(lambda x: (list(inspect.signature(f).parameters), x))(cases.x())[0] == ["x", "y"]
    assert compile(lambda x: (bool(inspect.signature(f).parameters), x))(cases.x())[0] is True
    assert compile(lambda x: (str(inspect.signature(f)), x))(cases.x())[0] == "(x, y=1)"


def test_lines_of_nodes_as_frames_come_and_go():
    """The text of an op's frames is written anew only inside of the frame that moved: it must say the same."""
    def inner(x):
        x = x + 1
        return x * 2

    def middle(x):
        x = inner(x)
        return inner(x) - 3

    def outer(x):
        x = x.exp()
        x = middle(x)
        x = middle(x).abs()
        return inner(x)
    compiled = cresset.compile(outer, backend="eager", fullgraph=True)
    compiled(cresset.ones(2))
    first = outer.__code__.co_firstlineno

    def told(text):
        lines = text.splitlines()
        names = [line.rpartition(".")[2] for line in lines]
        return [(name, int(line.split("line ")[1].split(",")[0]) - first) for name, line in zip(names, lines)]
    nodes = [n for n in compiled._entries()[0]["graph"].nodes if n["kind"] == "call"]
    inlined = [("inner", -7), ("inner", -6)]  # lines of inner, from the first of outer
    twice = [[("middle", -3), inlined[0]], [("middle", -3), inlined[1]], [("middle", -2), inlined[0]],
             [("middle", -2), inlined[1]], [("middle", -2)]]
    want = [[("outer", 1)], *[[("outer", 2), *t] for t in twice], *[[("outer", 3), *t] for t in twice], [("outer", 3)],
            *[[("outer", 4), i] for i in inlined]]
    assert [told(n["origin"][0])[-len(w):] for n, w in zip(nodes, want, strict=True)] == want
    assert [len(told(n["origin"][0])) for n in nodes] == [len(w) for w in want]


def test_what_calls_go_by_is_set_in_the_function():
    def f(x, scale=2, *, shift=1):
        return x * scale + shift

    def g(x, scale=2, *, shift=1):
        return x - scale - shift
    compiled = cresset.compile(f, backend="eager")
    assert compiled(cresset.ones(1)).item() == 3
    compiled.__defaults__ = (5,)
    assert compiled(cresset.ones(1)).item() == 6 and f.__defaults__ == compiled.__defaults__ == (5,)
    compiled.__kwdefaults__ = {"shift": 3}
    assert compiled(cresset.ones(1)).item() == 8
    compiled.__code__ = g.__code__
    assert compiled(cresset.ones(1)).item() == -7 and f.__code__ is g.__code__
    del compiled.__defaults__
    with pytest.raises(TypeError, match="scale"):
        compiled(cresset.ones(1))
