"""Programs of the behaviour suite that use the standard library, and what our own adds to it: decorators made inside,
getters, enumerations, dataclasses, containers of collections, texts, mixed precision, tensors of constants."""

PRELUDE = """
import dataclasses, enum, random, string, typing
class Shade(enum.Enum):
    DARK = 1
    LIGHT = "light"
class Bits(enum.Flag):
    A = 1
    B = 2
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5
@dataclasses.dataclass
class Pair:
    first: int
    second: object = None
@dataclasses.dataclass(frozen=True)
class Fixed:
    first: int = 1
PAIR = Pair(1, [1, 2])
FIRST = operator.itemgetter(0)
BOTH = operator.itemgetter("p", "q")
@functools.lru_cache
def remembered(n):
    return n * 2
@functools.singledispatch
def kind_of(value):
    return "other"
@kind_of.register(int)
def _(value):
    return "int"
class Late:
    def __init__(self):
        self.k = 3
    @functools.cached_property
    def v(self):
        return self.k * 2
    def times(self, n, k):
        return n * k * self.k
    twice = functools.partialmethod(times, k=2)
@contextlib.contextmanager
def shifted(n):
    yield n + 1
def counted(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        inner.calls += 1
        return f(*args, **kwargs) + inner.calls
    inner.calls = 0
    return inner
def plus(n):
    "what it does"
    return n + 1
plus.tag = "tagged"
without_grad = cresset.no_grad()(plus)
"""

LIBRARY = {
    # decorators and functions
    "wraps": "g = counted(plus)\nreturn g(a), g(a), g.__name__, g.__doc__, g.tag, g.calls",
    "wraps_returned": "g = counted(plus)\ng(a)\nreturn g, g.__wrapped__ is plus",
    "wraps_missing": "return hasattr(plus, 'other'), getattr(plus, 'tag'), getattr(plus, 'none', 3), a + 1",
    "function_dict": "return sorted(plus.__dict__), sorted(vars(plus)), plus.__annotations__, a + 1",
    "attribute_of_made": "def g():\n    return a\ng.x = [1]\ng.x.append(2)\nreturn g.x, g.__name__, g",
    "renamed": "def g():\n    return a\ng.__name__ = 'other'\ng.__doc__ = 'text'\nreturn g, g.__name__",
    "no_grad_decorator": "@cresset.no_grad()\ndef g(n):\n    return n * 2\nreturn g(a), without_grad(a)",
    "context_decorator": "@shifted(3)\ndef g():\n    return a * 2\nreturn g()",
    "lru_cache": "return a + remembered(3)",
    "singledispatch": "return kind_of(1), kind_of('a'), a + 1",
    "cached_property": "o = Late()\nreturn a + o.v + o.v",
    "partialmethod": "return a + Late().twice(3)",
    "reduce": "return functools.reduce(lambda m, n: m * n, [1, 2, 3], a)",
    # operator
    "itemgetter": "return FIRST([a, 1]), operator.itemgetter(1, 0)((a, 2)), BOTH({'p': a, 'q': 1})",
    "itemgetter_slice": "return operator.itemgetter(slice(0, 2))([1, a, 3])",
    "itemgetter_missing": "try:\n    FIRST([])\nexcept IndexError as e:\n    return str(e), a + 1",
    "attrgetter": "return operator.attrgetter('first')(PAIR), operator.attrgetter('first', 'second')(PAIR), a + 1",
    "attrgetter_deep": "return operator.attrgetter('net.inner.bias')(o) + a",
    "attrgetter_missing": "try:\n    operator.attrgetter('nope')(PAIR)\nexcept AttributeError as e:\n"
                          "    return str(e), a + 1",
    "methodcaller": "return operator.methodcaller('relu')(a), operator.methodcaller('get', 'k', 3)({})",
    "sorted_by": "return sorted([(2, 1), (1, 5)], key=operator.itemgetter(1)), max([PAIR], "
                 "key=operator.attrgetter('first')).first, a + 1",
    "mapped": "return list(map(operator.itemgetter(0), [(a, 1), (a + 1, 2)]))",
    # enumerations
    "enum_by_value": "return Shade(1) is Shade.DARK, Shade('light').name, a + Shade.DARK.value",
    "enum_by_name": "return Shade['DARK'] is Shade.DARK, a + 1",
    "enum_wrong": "try:\n    Shade(7)\nexcept ValueError as e:\n    return str(e), a + 1",
    "enum_iterated": "return [s.name for s in Shade], len(Shade), a + 1",
    "enum_flags": "both = Bits.A | Bits.B\nreturn both.value, Bits.A in both, a + 1",
    "enum_number": "return a * Level.HIGH.value, Level.LOW.name",
    "enum_text": "return str(Shade.DARK), f'{Shade.DARK}', repr(Shade.DARK), a + 1",
    # dataclasses and copies
    "replace": "return dataclasses.replace(PAIR, first=5).first, a + 1",
    "fields": "return [f.name for f in dataclasses.fields(PAIR)], dataclasses.is_dataclass(PAIR), a + 1",
    "asdict": "return dataclasses.asdict(PAIR), a + 1",
    "equal": "return Pair(1, 2) == Pair(1, 2), Pair(1) == Pair(2), a + 1",
    "frozen": "try:\n    Fixed().first = 2\nexcept dataclasses.FrozenInstanceError as e:\n    return str(e), a + 1",
    "copied": "b = copy.copy(PAIR)\nb.first = 7\nreturn b.first, PAIR.first, a + 1",
    "deep_copied": "b = copy.deepcopy([1, [2, 3]])\nb[1].append(4)\nreturn b, a + 1",
    # collections
    "defaultdict": "d = collections.defaultdict(list)\nd['p'].append(a)\nd['q'].append(1)\nreturn d['p'], len(d), "
                   "'z' in d, dict(d)",
    "defaultdict_counts": "d = collections.defaultdict(int)\nfor k in 'hello':\n    d[k] += 1\n"
                          "return sorted(d.items()), a + d['l']",
    "defaultdict_returned": "d = collections.defaultdict(list, {'p': [1]})\nd['q'].append(a)\nreturn d",
    "defaultdict_function": "d = collections.defaultdict(lambda: a)\nreturn d['p'] + 1",
    "counter": "c = collections.Counter('hello')\nreturn c['l'], c['z'], a + len(c)",
    "counter_common": "return collections.Counter([1, 1, 2]).most_common(1), a + 1",
    "chain_map": "c = collections.ChainMap({'p': 1}, {'q': a})\nreturn c['q'] + c['p'], c.get('z', 5)",
    "bounded_deque": "d = collections.deque([1, 2], maxlen=2)\nd.append(a)\nreturn list(d)",
    "ordered": "d = collections.OrderedDict(p=a, q=1)\nd.move_to_end('p')\nreturn list(d)",
    # contexts
    "exit_stack": "with contextlib.ExitStack() as s:\n    n = s.enter_context(shifted(2))\n"
                  "    s.callback(log.append, 1)\n    b = a + n\nreturn b",
    "nullcontext": "with contextlib.nullcontext(3) as n:\n    return a + n",
    "suppress": "with contextlib.suppress(KeyError):\n    {}['k']\nreturn a + 1",
    "autocast": "with cresset.autocast('cpu', dtype=cresset.bfloat16):\n    b = a @ a.t()\nreturn b, b.dtype is "
                "cresset.bfloat16, a @ a.t()",
    "autocast_break": "with cresset.autocast('cpu', dtype=cresset.bfloat16):\n    b = a @ a.t()\n    print('in')\n"
                      "    c = a @ a.t()\nreturn b, c.dtype is cresset.bfloat16, a @ a.t()",
    "inference_mode": "with cresset.inference_mode():\n    b = a + 1\nreturn b",
    # texts and numbers
    "joined": "return ', '.join(str(n) for n in range(3)), ''.join(map(str, [1, 2])), a + 1",
    "set_of_generator": "return sorted(set(n % 2 for n in range(5))), frozenset(map(abs, [-1, 1])), a + 1",
    "formatted": "return '{} {:>5} {k}'.format(1, 2, k=3), '%s %d' % ('p', 1), f'{3:.2f} {\"p\"!r:>5}', a + 1",
    "shape_in_text": "return f'{tuple(a.shape)} {a.dtype}', a + 1",
    "mathematics": "return a * math.sqrt(2) + math.pi + math.prod([1, 2]), math.isclose(1, 1.0)",
    "cast": "return typing.cast(int, 3) + a",
    # tensors of constants
    "tensor": "return a.sum() + cresset.tensor([1.0, 2.0]), cresset.tensor(3), "
              "cresset.tensor([1], dtype=cresset.int32)",
    "tensor_changed": "t = cresset.tensor([1.0, 2.0])\nt.add_(1)\nt[0] = 7\nreturn t + a.sum(), t",
    "tensor_index": "return a[cresset.tensor([0])]",
    "default_dtype": "return cresset.get_default_dtype() is cresset.float32, a + 1",
}
