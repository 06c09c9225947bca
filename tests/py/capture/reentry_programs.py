"""Small functions without tensors, of every shape that frames and evaluators get wrong: loops with live iterators,
with, try, cells, comprehensions, calls with every kind of argument. `PROGRAMS` is [(function, make_args)]; make_args
gives fresh arguments, so that every run begins alike. What a run shows is its result, its exception with the lines of
the traceback, and what is left of the arguments (`outcome`)."""
import traceback

PROGRAMS = []


def program(*args):
    """Registers a function with what makes its arguments: callables are called for each run."""
    def add(function):
        PROGRAMS.append((function, lambda: tuple(a() if callable(a) else a for a in args)))
        return function
    return add


def outcome(run, args, lines=True):
    try:
        result = run(*args)
    except Exception as error:
        code = run.__code__ if hasattr(run, "__code__") else None
        places = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)
                  if f.filename == __file__ and f.name not in ("outcome", "reenter")]
        context = type(error.__context__).__name__, type(error.__cause__).__name__
        return "raised", type(error).__name__, str(error), context, places if lines and code else None, repr(args)
    return "returned", type(result).__name__, repr(result), repr(args)


@program(3, 4)
def add(a, b):
    return a + b * 2 - (a // b) ** 2


@program(5)
def loop(n):
    total = 0
    for i in range(n):
        if i == 3:
            continue
        total += i
    else:
        total += 100
    return total


@program(10)
def loop_break(n):
    for i in range(n):
        for j in range(i):
            if i * j == 12:
                break
        else:
            continue
        break
    return i, j


@program(7)
def while_loop(n):
    out = []
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        out.append(n)
    return out


@program(lambda: [3, 1, 2])
def comprehension(xs):
    return [x * y for x in xs for y in xs if x != y], {x: x + 1 for x in xs}, {x % 2 for x in xs}


@program(lambda: [1, 2, 3])
def generator_caller(xs):
    def gen():
        for x in xs:
            yield x * 2
    return list(gen()), sum(v for v in gen()), max(gen())


@program(lambda: [1, 2, 3, 4])
def half_consumed(xs):
    it = iter(xs)
    first = next(it)
    rest = [x + first for x in it]
    return first, rest, next(it, "end")


@program(lambda: [1, 2], lambda: ["a", "b"])
def zipped(a, b):
    out = []
    for i, (x, y) in enumerate(zip(a, b)):
        out.append((i, x, y))
    return out


class Manager:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append("enter " + self.name)
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return self.swallow


@program(list)
def with_two(log):
    with Manager(log, "a") as a, Manager(log, "b"):
        log.append(a.name)
    return log


@program(list)
def with_swallow(log):
    for i in range(2):
        with Manager(log, "outer", True):
            with Manager(log, "inner"):
                log.append(i)
                raise ValueError(i)
    return log


@program(list)
def with_raise(log):
    with Manager(log, "a"):
        log.append([][0])
    return log


@program(list)
def with_return(log):
    with Manager(log, "a"):
        return len(log)


@program(0)
def try_except(n):
    try:
        return 1 // n
    except ZeroDivisionError as error:
        return "zero " + str(error)
    finally:
        n = n + 1


@program(lambda: [1, 0, 2])
def try_in_loop(xs):
    out = []
    for x in xs:
        try:
            out.append(10 // x)
        except ZeroDivisionError:
            out.append(None)
            continue
        else:
            out.append("else")
        finally:
            out.append("finally")
    return out


@program(0)
def nested_handlers(n):
    out = []
    try:
        try:
            1 // n
        except ZeroDivisionError as first:
            try:
                [][1]
            except IndexError as second:
                out.append((type(second.__context__).__name__, second.__context__ is first))
            raise KeyError("k") from first
    except KeyError as third:
        out.append((type(third.__cause__).__name__, str(third)))
    return out


@program(0)
def bare_raise(n):
    try:
        return 1 // n
    except ZeroDivisionError:
        n += 1
        raise


@program(1)
def uncaught(n):
    x = [n]
    return x[n + 3]


@program(2)
def raise_from(n):
    try:
        int("x" * n)
    except ValueError as error:
        raise TypeError("other") from error


@program(lambda: [])
def finally_overrides(log):
    for i in range(3):
        try:
            if i == 1:
                raise ValueError
            log.append(i)
        except ValueError:
            log.append("caught")
            break
        finally:
            log.append("f")
    return log


@program(3)
def closure(n):
    count = 0

    def step():
        nonlocal count
        count += n
        return count
    return step(), step(), count


@program(2)
def cells(n):
    fs = [lambda k=k: k + n for k in range(3)]
    n += 10
    return [f() for f in fs]


@program(4)
def two_closures(n):
    def get():
        return n

    def put(v):
        nonlocal n
        n = v
    put(n + 1)
    return get(), n


@program(1, 2)
def default_arguments(a, b, c=3, *args, d=4, **kw):
    def inner(x, /, y=a, *rest, z, **more):
        return x, y, rest, z, sorted(more.items())
    return inner(1, z=2), inner(1, 2, 3, 4, z=5, w=6), (a, b, c, args, d, kw)


@program(lambda: [1, 2, 3], lambda: {"z": 4})
def star_calls(xs, kw):
    def f(*a, **k):
        return a, sorted(k.items())
    return f(*xs, 9, **kw, y=1), f(0, *xs), f(**kw), f(*xs, *xs)


@program(lambda: [1, 2, 3, 4, 5])
def unpacking(xs):
    a, *b, c = xs
    (d, e), f = (a, c), b
    [g, *h] = b
    return a, b, c, d, e, f, g, h


@program(lambda: {"a": 1, "b": 2})
def dicts(d):
    out = {**d, "c": 3}
    out["a"] += 5
    del out["b"]
    return out, list(out.items()), "b" in d, d.get("z", 0)


@program(lambda: [5, 3, 8])
def lists(xs):
    ys = xs[:]
    ys.append(1)
    ys[0] = 7
    del ys[1]
    ys += [2]
    ys.sort(reverse=True)
    return ys, xs[::-1], xs[1:], len(ys), max(xs), min(ys)


@program(lambda: {3, 1, 2})
def sets(s):
    t = {*s, 9}
    t |= {4}
    return sorted(t), sorted(s & t), 3 in t, sorted(t - s)


@program("name", 3.14159, 42)
def strings(name, pi, n):
    return f"{name!r:>8} {pi:.2f} {n:05d} {n!s}", name.upper() + name[1:], "%s-%d" % (name, n), ",".join([name] * 2)


@program(5)
def conditions(n):
    a = n and 1
    b = n == 0 or "x"
    c = None if n else 3
    d = 1 < n < 10
    e = not n
    return a, b, c, d, e, a is None, c is None, c is not None, n in (1, 5), n not in (1, 5)


@program(lambda: [1, [2, [3, []]]])
def recursion(tree):
    def depth(t):
        return 1 + max((depth(x) for x in t if isinstance(x, list)), default=0)
    return depth(tree)


@program(12)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@program(3)
def walrus(n):
    out = []
    while (n := n - 1) >= 0:
        out.append(n)
    return out


@program(2)
def many_locals(n):
    a0 = a1 = a2 = a3 = n
    a0, a1, a2 = a1 + 1, a2 + 2, a0 + 3
    del a3
    try:
        return a3  # noqa: F821
    except UnboundLocalError as error:
        return a0, a1, a2, type(error).__name__


@program(5)
def star_expression(n):
    return [*range(n), *"ab"], (*range(2), n), {*range(n)}


@program(lambda: ["b", "a"])
def sorting(xs):
    return sorted(xs), sorted(xs, key=lambda s: -ord(s)), list(reversed(xs)), list(map(str.upper, xs))


class Base:
    attribute = 5

    def __init__(self, x):
        self.x = x

    def method(self, y):
        return self.x + y

    @property
    def double(self):
        return self.x * 2

    @staticmethod
    def static(z):
        return z

    @classmethod
    def made(cls, x):
        return cls(x)

    def __eq__(self, other):
        return self.x == other.x

    def __repr__(self):
        return f"{type(self).__name__}({self.__dict__})"


class Derived(Base):
    def __init__(self, x):
        super().__init__(x + 1)

    def method(self, y):
        return super().method(y) * 10

    def __getattr__(self, name):
        return "missing " + name


@program(lambda: Base(1), lambda: Derived(1))
def objects(a, b):
    a.y = a.method(2)
    b.x += 1
    return (a.method(1), b.method(1), a.double, b.nothing, a.static(4), b.made(7), a.attribute, Base.attribute, a == b,
            a.y, isinstance(b, Base), hasattr(a, "z"), getattr(b, "q"))


@program(lambda: Base(1))
def deletes(a):
    del a.x
    try:
        return a.x
    except AttributeError as error:
        return str(error)


@program(lambda: [(1, 2), "ab", {"k": 5}, Base(3), [1, 2, 3], 7])
def matching(values):
    out = []
    for value in values:
        match value:
            case (a, b) if a == 1:
                out.append(("pair", a, b))
            case {"k": k}:
                out.append(("key", k))
            case Base(x=x):
                out.append(("base", x))
            case [first, *rest]:
                out.append(("list", first, rest))
            case str() as s:
                out.append(("str", s))
            case _:
                out.append("other")
    return out


COUNTER = 0


@program(3)
def globals_written(n):
    global COUNTER
    COUNTER = n
    COUNTER += 1
    return COUNTER


@program(3)
def imports(n):
    import math
    from os import path as p
    return math.sqrt(n), p.sep, math.floor(2.5)


@program(4)
def own_locals(n):
    k = n + 1
    names = sorted(locals())
    return names, eval("n + k"), len(dir())


@program(2)
def inner_class(n):
    class C:
        y = n

        def f(self):
            return self.y + n
    return C().f(), C.y, C.__name__


@program(3)
def lambdas(n):
    f = lambda x, y=n: x + y  # noqa: E731
    return f(1), f(1, 2), (lambda: n)()


@program(lambda: [1, 2, 3])
def asserts(xs):
    assert len(xs) == 3, "three"
    assert xs[0] == 5, f"not {xs[0]}"


@program(lambda: [1, 2, 3])
def slices(xs):
    xs[1:2] = [9, 9]
    xs[::2] = [0, 0]
    return xs, xs[-1], xs[slice(0, 2)]


@program(6, 4)
def operators(a, b):
    c = [a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]
    a += b
    a -= 1
    a *= 2
    a //= 3
    a %= 7
    a **= 2
    a <<= 1
    a >>= 1
    a &= 15
    a |= 1
    a ^= 2
    return c, a, a == b, a != b, a < b, a <= b, a > b, a >= b


@program(3)
def yield_from(n):
    def inner():
        got = yield 1
        return got

    def outer():
        result = yield from inner()
        yield result, n
    g = outer()
    return next(g), g.send("sent"), list(g)


@program(2)
def generator_throw(n):
    out = []

    def gen():
        try:
            while True:
                yield n
        except KeyError:
            out.append("key")
            yield "caught"
        finally:
            out.append("closed")
    g = gen()
    out += [next(g), g.throw(KeyError), n]
    g.close()
    return out


@program(3)
def contexts(n):
    import contextlib

    @contextlib.contextmanager
    def manager(log):
        log.append("in")
        try:
            yield n
        finally:
            log.append("out")
    log = []
    with manager(log) as value:
        log.append(value)
    with contextlib.suppress(ZeroDivisionError):
        log.append(1 // (n - 3))
    return log


@program(lambda: {"a": [1, 2], "b": [3]})
def nested_loops(d):
    out = []
    for key, values in d.items():
        for v in values:
            if v == 2:
                continue
            out.append((key, v))
    return out, [(k, v) for k, vs in d.items() for v in vs]


@program(1000)
def long_jump(n):
    x = 0
    if n > 5:
        x = (n + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20 + 21 + 22 + 23
             + 24 + 25 + 26 + 27 + 28 + 29 + 30 + n * 2 + n * 3 + n * 4 + n * 5 + n * 6 + n * 7 + n * 8 + n * 9 + n)
        x = x + n * 1 + n * 2 + n * 3 + n * 4 + n * 5 + n * 6 + n * 7 + n * 8 + n * 9 + n * 10 + n * 11 + n * 12
        x = x + n * 1 + n * 2 + n * 3 + n * 4 + n * 5 + n * 6 + n * 7 + n * 8 + n * 9 + n * 10 + n * 11 + n * 12
        x = x + n * 1 + n * 2 + n * 3 + n * 4 + n * 5 + n * 6 + n * 7 + n * 8 + n * 9 + n * 10 + n * 11 + n * 12
    else:
        x = -1
    for i in range(3):
        x += i
    return x


@program(0)
def exception_in_callee(n):
    def callee(k):
        if k == 2:
            raise KeyError(k)
        return k
    out = []
    for i in range(4):
        try:
            out.append(callee(i))
        except KeyError as error:
            out.append(("caught", error.args))
    return out


@program(lambda: [1, 2, 3])
def early_return(xs):
    for x in xs:
        if x == 2:
            return x
    return None


@program(1)
def keyword_calls(n):
    def f(a, b=2, *, c, d=4):
        return a, b, c, d
    return f(n, c=3), f(b=n, a=5, c=6), dict(x=n, y=2), "{a}".format(a=n), int("11", base=2)


@program(3)
def except_star(n):
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(n), KeyError(n)])
    except* ValueError as group:
        out.append(len(group.exceptions))
    except* KeyError as group:
        out.append(str(group.exceptions[0]))
    return out


@program(lambda: [[1, 2], [3, 4]])
def matrix(rows):
    return [[row[i] for row in rows] for i in range(2)], sum(map(sum, rows)), [*zip(*rows)]


@program(4)
def stack_depth(n):
    return (n, (n + 1, (n + 2, [n + 3, {n + 4: (n + 5, f"{n + 6}")}])), max(n, min(n + 7, abs(-n - 8))))


@program(lambda: [0, 1, 2])
def ternaries(xs):
    return ["zero" if not x else "one" if x == 1 else "many" for x in xs], all(xs), any(xs)


@program(b"ab", 2 + 3j, 10 ** 30, -0.0)
def constants(b, c, big, zero):
    return b + b"c", c * 2, big + 1, zero, 1.5e300 * 1e10, ..., None, True, b[0], c.real, str(zero)


async def coroutine(n):
    async def inner(k):
        return k * 2
    out = []

    async def agen():
        for i in range(n):
            yield i
    async for i in agen():
        out.append(i)
    return await inner(n), out, [v async for v in agen()]


@program(3)
def run_coroutine(n):
    c = coroutine(n)
    try:
        c.send(None)
    except StopIteration as stop:
        return stop.value
