"""Small functions with tensors. `CASES` is [Case]: a function, what makes its arguments, and what is recorded of it:
the number of ops in its graph, or words of the reason why it runs plain. A lost capture shows as a changed number."""
import math
import operator
from typing import NamedTuple

import cresset
import cresset.nn.functional as F

CASES = []


class Case(NamedTuple):
    function: object
    make_args: object
    ops: int | None
    plain: str | None


def case(*args, ops=None, plain=None):
    def add(function):
        CASES.append(Case(function, lambda: tuple(a() if callable(a) else a for a in args), ops, plain))
        return function
    return add


def x():
    return cresset.arange(6, dtype=cresset.float32).reshape(2, 3) - 2


def y():
    return cresset.arange(6, dtype=cresset.float32).reshape(2, 3) * 0.5 + 1


def v():
    return cresset.tensor([1.0, -2.0, 3.0])


SCALE = 3.0
WEIGHT = cresset.arange(12, dtype=cresset.float32).reshape(4, 3) * 0.1
CONFIG = {"scale": 2.0, "bias": 1, "nested": {"deep": [1, 2]}}
SIZES = [2, 3]


@case(x, y, ops=2)
def arithmetic(a, b):
    return a + b * 2


@case(x, ops=0)
def constant_of_shape(a):
    return a.shape[0] * 10 + a.dim()


@case(x, ops=0)
def returns_argument(a):
    return a


@case(x, ops=0)
def returns_argument_twice(a):
    t = (a, 1)
    return t, t, [a]


@case(5, ops=0)
def no_tensor(n):
    return n * 2 + 1


@case(x, ops=3)
def methods(a):
    return a.relu().sum(dim=1, keepdim=True).exp()


@case(x, ops=1)
def global_number(a):
    return a * SCALE


@case(x, ops=2)
def global_tensor(a):
    return a @ WEIGHT.T


@case(x, ops=2)
def global_dict(a):
    return a * CONFIG["scale"] + CONFIG["bias"]


@case(x, ops=1)
def nested_dict(a):
    return a + CONFIG["nested"]["deep"][1]


@case(x, ops=1)
def global_list(a):
    return a.reshape(SIZES[1], SIZES[0])


def helper(a, scale=2.0, *, shift=1.0):
    return a * scale + shift


@case(x, ops=4)
def inlined(a):
    return helper(helper(a), 3.0, shift=0.5)


def recursive(a, n):
    return a if n == 0 else recursive(a + n, n - 1)


@case(x, 5, ops=5)
def recursion(a, n):
    return recursive(a, n)


@case(x, 3, ops=3)
def loop(a, n):
    for i in range(n):
        a = a * (i + 1)
    return a


@case(x, ops=2)
def while_loop(a):
    n = 4
    while n > 0:
        a = a + n
        n -= 2
    return a


@case(x, ops=6)
def comprehension(a):
    return [a * k for k in range(3)], {k: a + k for k in (1, 2)}, [row.sum() for row in (a,)]


@case(x, y, ops=2)
def zipped(a, b):
    return [p - q for p, q in zip([a, b], [b, a])]


@case(lambda: [x(), y()], ops=2)
def list_argument(items):
    total = 0
    for item in items:
        total = total + item
    return total


@case(lambda: {"a": x(), "b": y()}, ops=1)
def dict_argument(d):
    return d["a"] * d["b"]


@case(lambda: {"a": x(), "b": y()}, ops=2)
def dict_items(d):
    return {key: value + 1 for key, value in d.items()}


@case(lambda: (x(), (y(), 2)), ops=2)
def nested_tuple(t):
    a, (b, n) = t
    return a + b * n


@case(x, ops=1)
def many_results(a):
    values, indices = a.max(dim=1)
    return values, indices


@case(x, ops=1)
def named_results(a):
    return a.max(dim=1).values


@case(x, ops=3)
def rows(a):
    first, second = a
    return first * second + 1


@case(x, ops=3)
def closure(a):
    n = 2

    def scaled(t, k=3):
        return t * n + k
    return scaled(a).sum()


def make_adder(w, k):
    def add(a):
        return a + w * k
    return add


@case(lambda: make_adder(x(), 3), x, plain=None, ops=2)
def calls_argument(f, a):
    return f(a)


@case(x, ops=1)
def conditional_on_shape(a):
    if a.shape[0] > 1 and a.dtype == cresset.float32:
        return a + 1
    return a - 1


@case(x, None, ops=1)
def optional_argument(a, mask):
    return a * 2 if mask is None else a * mask


@case(x, ops=2)
def functional(a):
    return F.softmax(F.relu(a), dim=-1)


@case(x, ops=1)
def cats(a):
    return cresset.cat([a, a], dim=0)


@case(x, ops=2)
def indexing(a):
    return a[0, 1:] + a[1, :2].sum() if False else a[:, 1] * 2


@case(x, ops=3)
def factories(a):
    return cresset.zeros(2, 3) + cresset.ones_like(a)


@case(x, ops=3)
def writes_to_its_own(a):
    b = a.clone()
    b.add_(1)
    b += a
    return b


@case(x, ops=3)
def item_assignment_of_its_own(a):
    b = a.clone()
    b[0] = 5
    return b


@case(x, ops=1)
def mathematics(a):
    return a * math.sqrt(4.0) if math.floor(2.5) == 2 else a


@case(x, ops=1)
def operators(a):
    return operator.mul(a, 3)


@case(x, ops=1)
def text(a):
    name = f"{a.dim()}d"
    return a + (1 if name == "2d" else 0), name.upper()


@case(x, ops=2)
def star_arguments(a):
    def f(*args, **kwargs):
        return args[0] * kwargs["k"] + args[1]
    return f(*(a, 1), **{"k": 2})


@case(x, ops=1)
def isinstance_folds(a):
    return a + 1 if isinstance(a, cresset.Tensor) and not isinstance(a, (int, str)) else None


@case(x, ops=2)
def sums(a):
    return sum([a, a, 1]) if False else sum((a, a))


@case(x, ops=1)
def try_without_error(a):
    try:
        return a + 1
    except ValueError:
        return a


@case(x, ops=1)
def dtypes(a):
    return a.to(cresset.float64), a.dtype, a.device


@case(x, ops=2)
def lambdas(a):
    f = lambda t: t + 1  # noqa: E731
    return (lambda g: g(g(a)))(f)


@case(x, ops=1)
def default_of_tensor(a, b=y()):
    return a - b


@case(list, x, ops=1)
def appends(log, a):
    log.append(a.shape[0])
    log.append("done")
    return a * 2


@case(dict, x, ops=1)
def sets_items(d, a):
    d["sum"] = a.sum()
    d["n"] = 1
    return len(d)


@case(lambda: [3, 1, 2], x, ops=1)
def sorts(items, a):
    items.sort()
    del items[0]
    return a + items[0]


@case(x, y, ops=1)
def is_tests(a, b):
    return a is b, a is a, a + 1 if a is not b else None


class Point:
    scale = 2

    def __init__(self, value, other=None):
        self.value, self.other = value, other

    def apply(self, a):
        return a * self.value + self.scale

    @property
    def double(self):
        return self.value * 2

    @staticmethod
    def static(a):
        return a + 1

    @classmethod
    def of_class(cls, a):
        return a * cls.scale

    def __call__(self, a):
        return self.apply(a) - 1

    def __getattr__(self, name):
        if name == "missing":
            return 7
        raise AttributeError(name)

    def __len__(self):
        return 3

    def __getitem__(self, k):
        return self.value + k

    def __iter__(self):
        return iter([self.value, 1])

    def __contains__(self, k):
        return k == self.value


@case(lambda: Point(3), x, ops=1)
def object_contains(p, a):
    return a + 1 if 3 in p else a


@case(lambda: Point(3), x, ops=2)
def object_method(p, a):
    return p.apply(a)


@case(lambda: Point(3), x, ops=1)
def object_property(p, a):
    return a + p.double


@case(lambda: Point(3), x, ops=2)
def static_and_class_methods(p, a):
    return p.static(a), p.of_class(a)


@case(lambda: Point(3), x, ops=3)
def object_call(p, a):
    return p(a)


@case(lambda: Point(3), x, ops=1)
def object_getattr(p, a):
    return a + p.missing


@case(lambda: Point(3), x, ops=1)
def object_protocols(p, a):
    total = 0
    for k in p:
        total += k
    return a * total, len(p), p[4]


class BadLength:
    def __len__(self):
        return -1


@case(BadLength, x, plain="__len__() gives")
def bad_length(p, a):
    return a + len(p)


@case(lambda: Point(3, Point(5)), x, ops=1)
def object_in_object(p, a):
    return a * p.other.value if hasattr(p, "other") else a


@case(lambda: Point(x()), y, ops=2)
def object_with_tensor(p, a):
    return p.apply(a)


@case(x, plain="")
def float_of_tensor(a):
    return float(a.sum())


@case(x, plain="")
def branch_on_data(a):
    return a + 1 if a.sum() > 0 else a - 1


@case(x, plain="item")
def item(a):
    return a.sum().item() + 1


@case(x, ops=1)
def writes_to_argument(a):
    a.add_(1)
    return a


@case(x, plain="print")
def prints(a):
    print("x", end="")
    return a + 1


@case(x, plain="ValueError is raised")
def raises(a):
    if a.dim() == 2:
        raise ValueError("two")
    return a


@case(x, plain="raised")
def shape_error(a):
    b = a + 1
    return b @ b


@case(x, ops=1)
def no_grad(a):
    with cresset.no_grad():
        return a * 2


@case(x, ops=10)
def generators(a):
    def pairs(n):
        for k in range(n):
            yield k, a + k
        return "unseen"
    total = sum(a * k for k in range(3))
    for k, b in pairs(2):
        total = total + b
    return total, tuple(k for k, _ in pairs(0)), next(k for k in (4, 5)), all(k > 0 for k in (1, 2))


@case(x, ops=2)
def half_consumed_generator(a):
    def rows():
        for k in range(4):
            yield a + k
    it = rows()
    next(it)
    for b in it:
        return b


@case(list, x, plain="try or with")
def generator_with_try(log, a):
    def rows():
        try:
            yield a
        finally:
            log.append(1)
    return next(rows()) + 1, len(log)


@case(x, plain="is raised")
def error_in_generator(a):
    return sum(a @ a for _ in range(2))


@case(x, ops=0)
def sends_to_generator(a):
    def gen():
        got = yield a
        yield got
    g = gen()
    next(g)
    return g.send(3)


@case(lambda: Point(1), x, ops=3)
def sets_attribute(p, a):
    p.value = 5
    p.last = a + 1
    p.value += 2
    return p.apply(a) if p.value == 7 and hasattr(p, "last") else None


@case(lambda: Point(1), x, ops=1)
def sets_attributes_of_two(p, a):
    q = p.other if p.other else p
    p.value = 3
    q.value = 4
    return a * p.value


@case(lambda: Point(1), x, ops=1)
def sets_and_reads_dict(p, a):
    p.value = 4
    return a * p.__dict__["value"]


class Slotted:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 1

    def __repr__(self):
        return f"Slotted({self.value})"


@case(Slotted, x, ops=0)
def sets_slot(p, a):
    p.value = 2
    return a


class Watched:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)


@case(Watched, x, ops=1)
def sets_watched(p, a):
    p.value = 2
    return a * p.value


@case(x, ops=1)
def counts_in_closure(a):
    count = 0

    def step():
        nonlocal count
        count += 2
        return count
    return a + step() + 0 * step() if False else a * (step() + step()), count


def make_counter():
    count = [0]
    total = 1

    def step(a):
        nonlocal total
        total = total + 1
        count.append(total)
        return a * total, count

    def look():
        return total
    return step, look


@case(make_counter, x, ops=1)
def closures_on_one_cell(pair, a):
    step, look = pair
    before = look()
    result = step(a)
    return result, before, look()


LAST = None


@case(x, ops=2)
def sets_global(a):
    global LAST
    LAST = a.shape[0]
    return a + LAST + read_global()


def read_global():
    return LAST * 1.0


@case(x, ops=0)
def makes_objects(a):
    return Point(a).value


@case(x, plain="attribute 'grad'")
def reads_grad(a):
    return a.grad


@case(x, plain="raised")
def index_error(a):
    log = [1]
    log.append(a)
    return log[5]


@case(lambda: [1], x, plain="raised")
def error_after_append(log, a):
    log.append(2)
    return a @ a


@case(x, plain="")
def text_of_tensor(a):
    return f"{a}"


@case(x, ops=0)
def set_of_tensors(a):
    return len({a})


@case(x, plain="order")
def order_of_a_set_of_tensors(a):
    return [b + 1 for b in {a}]


@case(x, plain="identity")
def identity_of_numbers(a):
    n = a.shape[0] + 1000
    return n is n + 0


@case(x, plain="id()")
def identities(a):
    return id(a) == id(a)


@case(lambda: [2, 1], x, ops=1)
def sort_by_key(items, a):
    items.sort(key=lambda k: k)
    return a + items[0]


@case(lambda: {1, 2}, x, ops=1)
def length_of_a_set_from_outside(items, a):
    return a + len(items)
