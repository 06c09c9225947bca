"""Programs that change the world between calls, and stay right only if every guard looks where it must. A program gets
`wrap` (compile, or nothing) and gives what it saw; compiled and plain it must be the same: what guards look at
(objects, names, hooks, methods, functions, numbers), lifetimes, recursion and frames, threads and other company,
tensors with more to them."""
import gc
import inspect
import os
import sys
import threading
import weakref

import cresset
from cresset import nn

PROGRAMS = {}


def telling(function):
    PROGRAMS[function.__name__] = function
    return function


def x(n=3):
    return cresset.arange(float(n)) + 1


def values(tensor):
    return tensor.detach().tolist()


class Scale(nn.Module):
    def __init__(self, n=3, factor=2.0):
        super().__init__()
        self.w = nn.Parameter(cresset.ones(n) * factor)
        self.factor = factor

    def forward(self, a):
        return a * self.w * self.factor


# ---- parameters replaced, modules rebuilt, dicts exchanged ----

@telling
def parameter_deleted_and_made_again(wrap):
    m = Scale()
    f = wrap(lambda a: m(a))
    seen = [values(f(x()))]
    del m.w
    m.w = nn.Parameter(cresset.ones(3) * 5)
    seen.append(values(f(x())))
    m._parameters.popitem()
    m._parameters["w"] = nn.Parameter(cresset.ones(3) * 7)
    return seen + [values(f(x()))]


@telling
def module_rebuilt_at_its_address(wrap):
    seen = []
    f = wrap(lambda m, a: m(a))
    for k in range(30):
        m = Scale(factor=float(k % 3))
        seen.append(values(f(m, x())))
        del m
        if k % 7 == 0:
            gc.collect()
    return seen


@telling
def dict_exchanged(wrap):
    m = Scale()
    f = wrap(lambda a: m(a))
    seen = [values(f(x()))]
    m.__dict__ = {**m.__dict__, "factor": 10.0}
    seen.append(values(f(x())))
    m.__dict__["factor"] = -1.0
    seen.append(values(f(x())))
    state = dict(m.__dict__)
    state["_parameters"] = {"w": nn.Parameter(cresset.zeros(3))}
    m.__dict__ = state
    return seen + [values(f(x()))]


@telling
def dict_popped_and_filled(wrap):
    class Box:
        pass
    box = Box()
    box.a, box.b = 1, 2

    def read(a):
        return a + box.a + getattr(box, "b", 100) + getattr(box, "c", 1000)
    f = wrap(read)
    seen = [values(f(x()))]
    box.__dict__.popitem()
    seen.append(values(f(x())))
    box.__dict__["c"] = 5
    seen.append(values(f(x())))
    box.__dict__.popitem()
    box.__dict__["b"] = 3
    return seen + [values(f(x()))]


# ---- tensors changed in place ----

@telling
def gradients_switched(wrap):
    m = Scale()
    f = wrap(lambda a: m(a))
    seen = [f(x()).requires_grad]
    m.w.requires_grad_(False)
    seen.append(f(x()).requires_grad)
    m.w.requires_grad_(True)
    out = f(x())
    out.sum().backward()
    return seen + [out.requires_grad, values(m.w.grad)]


@telling
def data_exchanged(wrap):
    m = Scale()
    f = wrap(lambda a: (m(a).sum(), m.w.numel()))
    seen = [(values(f(x())[0]), f(x())[1])]
    m.w.data = cresset.ones(1) * 3
    seen.append((values(f(x())[0]), f(x())[1]))
    m.w.data = cresset.ones(3, dtype=cresset.float64)
    out, n = f(x())
    return seen + [(str(out.dtype), n, values(out))]


@telling
def sizes_changed_in_place(wrap):
    w = cresset.ones(2, 3)
    f = wrap(lambda: (w * 2).shape)
    seen = [tuple(f())]
    w.t_()
    seen.append(tuple(f()))
    w.unsqueeze_(0)
    return seen + [tuple(f())]


# ---- objects ----

class Slotted:
    __slots__ = ("v", "__weakref__")

    def __init__(self, v):
        self.v = v


class Other:
    def __init__(self, v):
        self.v = v

    def twice(self):
        return self.v * 2


class Another(Other):
    def twice(self):
        return self.v * 20


@telling
def attributes_set(wrap):
    seen = []
    for o in (Other(1), Slotted(1)):
        f = wrap(lambda a: a + o.v)
        seen.append(values(f(x())))
        o.v = 2
        seen.append(values(f(x())))
        setattr(o, "v", 3.5)
        seen.append(values(f(x())))
        if hasattr(o, "__dict__"):
            o.__dict__["v"] = 4
            vars(o).update(v=5)
            seen.append(values(f(x())))
        del o.v
        try:
            f(x())
        except AttributeError as error:
            seen.append(str(error))
    return seen


@telling
def class_of_an_object_exchanged(wrap):
    o = Other(3)
    f = wrap(lambda a: a + o.twice())
    seen = [values(f(x()))]
    o.__class__ = Another
    seen.append(values(f(x())))
    o.__class__ = Other
    return seen + [values(f(x()))]


# ---- names ----

def globals_of(text, **names):
    exec(text, names)
    return names


@telling
def builtin_hidden_later(wrap):
    names = globals_of("def f(a):\n    return a + len([1, 2])")
    f = wrap(names["f"])
    seen = [values(f(x()))]
    names["len"] = lambda items: 50
    seen.append(values(f(x())))
    del names["len"]
    return seen + [values(f(x()))]


@telling
def builtin_patched(wrap):
    import builtins
    own = dict(vars(builtins))
    names = globals_of("def f(a):\n    return a + abs(-3)", __builtins__=own)
    f = wrap(names["f"])
    seen = [values(f(x()))]
    own["abs"] = lambda n: 7
    return seen + [values(f(x()))]


@telling
def counter_in_globals(wrap):
    names = globals_of("N = 0\ndef f(a):\n    global N\n    N += 1\n    return a + N")
    f = wrap(names["f"])
    return [values(f(x())) for _ in range(12)], names["N"]


# ---- hooks ----

@telling
def hooks_come_and_go(wrap):
    m = Scale()
    f = wrap(lambda a: m(a))
    log, seen = [], [values(f(x()))]

    def plus(module, args, out):
        log.append("plus")
        return out + 1

    def times(module, args, out):
        log.append("times")
        return out * 10
    first = m.register_forward_hook(plus)
    seen.append(values(f(x())))
    m.register_forward_hook(times)
    seen.append(values(f(x())))
    m._forward_hooks.move_to_end(first.id)
    seen.append(values(f(x())))
    first.remove()
    seen.append(values(f(x())))
    before = m.register_forward_pre_hook(lambda module, args: (args[0] * 100,))
    seen.append(values(f(x())))
    before.remove()
    return seen + [values(f(x()))], log


@telling
def global_hook(wrap):
    from cresset.nn.modules import module as base
    m = Scale()
    f = wrap(lambda a: m(a))
    seen = [values(f(x()))]
    handle = base.register_module_forward_hook(lambda module, args, out: out - 1)
    try:
        seen.append(values(f(x())))
    finally:
        handle.remove()
    return seen + [values(f(x()))]


# ---- methods patched ----

@telling
def methods_patched(wrap):
    class Base:
        def of_base(self, a):
            return a + 1

        def g(self, a):
            return a + 10

    class Child(Base):
        pass
    o = Child()
    f = wrap(lambda a: o.of_base(o.g(a)))
    seen = [values(f(x()))]
    Base.of_base = lambda self, a: a + 2
    seen.append(values(f(x())))
    Child.of_base = lambda self, a: a + 3
    seen.append(values(f(x())))
    o.of_base = lambda a: a + 4
    seen.append(values(f(x())))
    del o.of_base, Child.of_base
    return seen + [values(f(x()))]


@telling
def bases_changed(wrap):
    class A:
        def g(self, a):
            return a + 1

    class B:
        def g(self, a):
            return a + 2

    class C(A):
        pass
    o = C()
    f = wrap(lambda a: o.g(a))
    seen = [values(f(x()))]
    C.__bases__ = (B,)
    return seen + [values(f(x())), isinstance(o, B)]


# ---- functions changed ----

@telling
def defaults_code_and_cells(wrap):
    n = 1

    def inner(a, b=1, *, k=1):
        return a + b * 10 + k * 100 + n * 1000

    def other(a, b=1, *, k=1):
        return a - n
    f = wrap(lambda a: inner(a))
    seen = [values(f(x()))]
    inner.__defaults__ = (2,)
    seen.append(values(f(x())))
    inner.__kwdefaults__["k"] = 3
    seen.append(values(f(x())))
    inner.__kwdefaults__ = {"k": 4}
    seen.append(values(f(x())))
    n = 5
    seen.append(values(f(x())))
    inner.__code__ = other.__code__
    seen.append(values(f(x())))
    inner.__closure__[0].cell_contents = 7
    return seen + [values(f(x()))]


# ---- numbers that are equal and others ----

@telling
def numbers_as_arguments(wrap):
    f = wrap(lambda a, n: (a * n, type(n).__name__, repr(n), n == n))
    seen = []
    for n in (1, 1.0, True, 0.0, -0.0, float("nan"), 10**15, 2, 1, 1.0, True, -0.0, 0.0):
        out, *rest = f(x(), n)
        seen.append((str(values(out)), str(out.dtype), *rest))
    g = wrap(lambda n: (type(n).__name__, n + 1, n // 3))
    return seen, [g(n) for n in (10**30, 10**30 + 1, -10**30, 3, True)]


@telling
def signs_of_zero(wrap):
    import math
    f = wrap(lambda a, n: a + math.copysign(1.0, n))
    return [values(f(x(), n)) for n in (0.0, -0.0, 0.0, -0.0)]


# ---- lifetimes ----

@telling
def finalizer_inside(wrap):
    log = []

    class Loud:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(self.name)

    def f(a):
        loud = Loud("one")
        b = a + 1
        log.append("before")
        del loud
        log.append("after")
        Loud("two")
        return b
    f = wrap(f)
    return [values(f(x())) for _ in range(3)], log


@telling
def weak_reference_inside(wrap):
    class Thing:
        pass

    def f(a):
        thing = Thing()
        ref = weakref.ref(thing)
        alive = ref() is thing
        del thing
        return a + 1, alive, ref() is None
    f = wrap(f)
    return [(values(out), *rest) for out, *rest in (f(x()) for _ in range(2))]


@telling
def last_reference_dropped_inside(wrap):
    log = []
    box = {}

    class Loud:
        def __del__(self):
            log.append("gone")

    def f(a):
        box.pop("loud")
        log.append("popped")
        return a + 1
    f = wrap(f)
    seen = []
    for _ in range(3):
        box["loud"] = Loud()
        seen.append(values(f(x())))
    return seen, log


@telling
def nothing_is_kept_alive(wrap):
    m = Scale()
    f = wrap(lambda m, a: m(a))
    t = x()
    f(m, t)
    refs = [weakref.ref(m), weakref.ref(m.w), weakref.ref(t)]
    del m, t
    gc.collect()
    return [r() is None for r in refs]


# ---- recursion ----

@telling
def recursion(wrap):
    def down(a, n):
        return a if not n else down(a + 1, n - 1) * 1.5
    f = wrap(down)
    return [values(f(x(), n)) for n in (0, 1, 5, 40)]


@telling
def deep_recursion_at_a_break(wrap):
    def down(n):
        return 0 if not n else 1 + down(n - 1)
    deep = cresset._dynamo.disable(down)

    def f(a):
        b = a + 1
        n = deep(50000 if sys.version_info < (3, 12) else 3000)
        return b + n
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60000)
    try:
        f = wrap(f)
        return [values(f(x())) for _ in range(2)]
    finally:
        sys.setrecursionlimit(limit)


# ---- frames ----

@telling
def frames_at_a_break(wrap):
    def f(a, n):
        b = a + 1
        names = sorted(locals())
        four = eval("n + 3")
        frame = sys._getframe()
        here = frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, sorted(frame.f_locals)
        stack = [s.function for s in inspect.stack()[:1]]
        c = b * 2
        return c, names, four, here, stack, sorted(locals())
    f = wrap(f)
    return [(values(out), *rest) for out, *rest in (f(x(), 1) for _ in range(2))]


@telling
def exec_at_a_break(wrap):
    def f(a):
        names = {"n": 2}
        exec("m = n * 21", names)
        return a + names["m"]
    f = wrap(f)
    return [values(f(x())) for _ in range(2)]


# ---- company ----

@telling
def threads(wrap):
    def f(a, n):
        return (a * n + 1).relu() - n
    f = wrap(f)
    wrong = []

    def work(k):
        for i in range(30):
            n = float((i + k) % 5)
            if values(f(x(2 + k % 2), n)) != values((x(2 + k % 2) * n + 1).relu() - n):
                wrong.append((k, i))
    every = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in every:
        t.start()
    for t in every:
        t.join()
    return wrong


@telling
def forked(wrap):
    f = wrap(lambda a: a * 3)
    seen = [values(f(x()))]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, str(values(f(x())) + values(f(x(4)))).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    text = os.read(read, 1000).decode()
    os.close(read), os.close(write)
    return seen, text, values(f(x()))


@telling
def traced(wrap):
    def f(a):
        b = a + 1
        c = b * 2
        return c
    f = wrap(f)
    seen, lines = [values(f(x()))], []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "f":
            lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        seen.append(values(f(x())))
    finally:
        sys.settrace(before)
    return seen + [values(f(x()))]


@telling
def interrupted(wrap):
    """Ctrl-C while it is captured is Ctrl-C; the next call is as ever."""
    import signal

    def f(a, n):
        for _ in range(n):
            a = a + 1
        return a
    f = wrap(f)
    if threading.current_thread() is not threading.main_thread():
        return None

    def stop(number, frame):
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGALRM, stop)
    seen = []
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        try:
            while True:
                f(x(), 3000)
        except KeyboardInterrupt:
            seen.append("interrupted")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return seen + [values(f(x(), 3))]


# ---- tensors with more to them ----

@telling
def tensors_with_attributes(wrap):
    t = x()
    t.note = 5
    f = wrap(lambda a: a + getattr(a, "note", 0))
    seen = [values(f(t))]
    t.note = 6
    seen.append(values(f(t)))
    del t.note
    return seen + [values(f(t)), values(f(x()))]


@telling
def parameters_as_tensors(wrap):
    f = wrap(lambda a: (a * 2, isinstance(a, nn.Parameter), type(a) is cresset.Tensor))
    seen = []
    for t in (x(), nn.Parameter(x()), x()):
        out, *rest = f(t)
        seen.append((values(out), out.requires_grad, *rest))
    return seen


@telling
def tensors_in_a_global_dict(wrap):
    names = globals_of("def f(a):\n    CACHE['last'] = a * 2\n    return CACHE['w'] + a", CACHE={"w": x()})
    f = wrap(names["f"])
    seen = [values(f(x())), values(names["CACHE"]["last"])]
    names["CACHE"]["w"] = x() * 100
    seen.append(values(f(x())))
    names["CACHE"] = {"w": x(1)}
    return seen + [values(f(x())), sorted(names["CACHE"])]
