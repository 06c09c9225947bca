"""Programs of the behaviour suite that use the standard library, and what our own adds to it: decorators made inside,
getters, enumerations, dataclasses, containers of collections, texts, mixed precision, tensors of constants."""

PRELUDE = """
import collections.abc, dataclasses, enum, random, string, sys, typing, weakref
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
class Node:
    pass
NODE, OTHER = Node(), Node()
NODES, WORDS, LINK = {NODE}, {"p", "q"}, weakref.ref(NODE)
CALLS = []
@functools.cache
def noted(n, text="t"):
    CALLS.append(n)
    return (n, text)
@functools.lru_cache(maxsize=1)
def last(n):
    CALLS.append(n)
    return n + 1
class Rows(collections.abc.Sequence):
    def __init__(self, *rows):
        self.rows = rows
    def __getitem__(self, i):
        return self.rows[i]
    def __len__(self):
        return len(self.rows)
class Options(collections.OrderedDict):
    def keys(self):
        return [k for k in super().keys() if k != "hidden"]
    def __getitem__(self, k):
        return super().__getitem__(k)
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
    "lru_cache_calls": "return noted(3), noted(3), noted(4, 'u'), a + 1",
    "lru_cache_calls_here": "b = a + noted(5)[0]\nreturn b, noted(5), noted.cache_info().currsize > 0",
    "lru_cache_limited": "return last(1), last(2), last(1), a + last(1)",
    "lru_cache_cleared": "noted.cache_clear()\nreturn noted(7), a + 1",
    "lru_cache_of_object": "return noted(NODE)[0] is NODE, a + 1",
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
    "deep_copied_shared": "p = [1]\nq = copy.deepcopy({'p': p, 'q': p, 't': (1, 'x'), 'u': (p,)})\nq['p'].append(2)\n"
                          "return q, p, q['p'] is q['q'], q['u'][0] is q['p'], a + 1",
    "deep_copied_circle": "p = [1]\np.append(p)\nq = copy.deepcopy(p)\nreturn q[1] is q, q is p, a + 1",
    "deep_copied_outside": "b = copy.deepcopy(o.table)\nb['one'] = 9\nc = copy.deepcopy(o.items)\nc.append(4)\n"
                           "return b, c, o.table, o.items, a + 1",
    "deep_copied_atoms": "t = (1, 'p', None, plus, int)\nreturn copy.deepcopy(t) is t, copy.deepcopy(3.5), "
                         "copy.deepcopy({1, 2}), copy.deepcopy(Node) is Node, a + 1",
    "deep_copied_tensor": "b = copy.deepcopy([a])\nreturn b[0] is a, b[0] + 1",
    "deep_copied_object": "b = copy.deepcopy(PAIR)\nb.second.append(7)\nreturn b, PAIR, a + 1",
    # collections
    "defaultdict": "d = collections.defaultdict(list)\nd['p'].append(a)\nd['q'].append(1)\nreturn d['p'], len(d), "
                   "'z' in d, dict(d)",
    "defaultdict_counts": "d = collections.defaultdict(int)\nfor k in 'hello':\n    d[k] += 1\n"
                          "return sorted(d.items()), a + d['l']",
    "defaultdict_returned": "d = collections.defaultdict(list, {'p': [1]})\nd['q'].append(a)\nreturn d",
    "defaultdict_kinds": "d = collections.defaultdict(dict, p={'q': a})\nd['r']['s'] = 1\n"
                         "e = collections.defaultdict(None)\n"
                         "return d, e, d.default_factory is dict, d.get('z'), 'z' in d",
    "defaultdict_missing": "d = collections.defaultdict(None)\ntry:\n    d['k']\nexcept KeyError as e:\n"
                           "    return str(e), len(d), a + 1",
    "defaultdict_changed": "d = collections.defaultdict(list)\nd['p'] += [1]\nd.setdefault('q', []).append(a)\n"
                           "d.update(r=[2])\ne = d.copy()\ne['s'].append(3)\ndel d['p']\n"
                           "return d.pop('r'), d.pop('z', 5), list(d), list(e), type(e) is collections.defaultdict",
    "defaultdict_groups": "d = collections.defaultdict(list)\nfor n in range(5):\n    d[n % 2].append(a * n)\n"
                          "return {k: sum(v) for k, v in d.items()}",
    "defaultdict_of_objects": "d = collections.defaultdict(int)\nfor n in (NODE, OTHER, NODE):\n    d[n] += 1\n"
                              "return d[NODE], d[OTHER], len(d), a + 1",
    "defaultdict_kept": "o.kept = collections.defaultdict(set)\no.kept['p'].add(1)\nreturn o.kept['p'], a + 1",
    "defaultdict_break": "d = collections.defaultdict(int)\nd['p'] += 1\nprint('between')\nd['p'] += 1\nd['q'] += 1\n"
                         "return d, a + d['p']",
    "defaultdict_function": "d = collections.defaultdict(lambda: a)\nreturn d['p'] + 1",
    "counter": "c = collections.Counter('hello')\nreturn c['l'], c['z'], a + len(c)",
    "counter_common": "return collections.Counter([1, 1, 2]).most_common(1), a + 1",
    "counter_changed": "c = collections.Counter('abca')\nc.update(['a', 'z'])\nc.subtract('b')\nc['q'] += 2\n"
                       "return dict(c), c.total(), sorted(c.elements()), a + c['a']",
    "counter_returned": "c = collections.Counter(x=2)\nc.update('xy')\nreturn c, a + 1",
    "counter_of_tensors": "return len(collections.Counter([a, a])), a + 1",
    "counters_added": "return collections.Counter('ab') + collections.Counter('bc'), a + 1",
    "counter_of_sizes": "c = collections.Counter(a.shape)\nreturn c[3], len(c), a + 1",
    "chain_map": "c = collections.ChainMap({'p': 1}, {'q': a})\nreturn c['q'] + c['p'], c.get('z', 5)",
    "bounded_deque": "d = collections.deque([1, 2], maxlen=2)\nd.append(a)\nreturn list(d)",
    "ordered": "d = collections.OrderedDict(p=a, q=1)\nd.move_to_end('p')\nreturn list(d)",
    # objects as items of sets and keys of dicts; sets from outside
    "objects_seen": "seen = set()\nfor p in (NODE, OTHER, NODE):\n    if p not in seen:\n        seen.add(p)\n"
                    "return len(seen), NODE in seen, o in seen, a + 1",
    "objects_taken_out": "s = {NODE, OTHER}\ns.discard(NODE)\ns.remove(OTHER)\nreturn len(s), a + 1",
    "objects_missing": "try:\n    {NODE}.remove(OTHER)\nexcept KeyError:\n    return a + 1",
    "objects_as_keys": "d = {NODE: 1, plus: 2}\nd[OTHER] = 3\nd[NODE] += 1\nreturn d[NODE], d[plus], d.get(o), len(d), "
                       "d.pop(OTHER), OTHER in d, list(d.values()), a + 1",
    "objects_set_returned": "return {NODE, OTHER}, {NODE: a + 1}[NODE]",
    "objects_in_order": "return [p is NODE for p in {NODE}], a + 1",
    "objects_united": "return len({NODE} | {OTHER}), {NODE} == {NODE}, a + 1",
    "made_as_keys": "p, q = Node(), Node()\nd = {p: a}\nreturn d[p] + 1, q in d, {p: 1} == {q: 1}",
    "tensors_seen": "seen = {a}\nreturn a in seen, a + 1 in seen, len(seen | set())",
    "tensors_as_keys": "d = {a: 1}\nd[o.w] = 2\nreturn d[a], o.w in d, len(d), a + 1",
    "set_outside": "return 'p' in WORDS, 'z' in WORDS, len(WORDS), sorted(WORDS), a + 1",
    "set_outside_changed": "WORDS.add('r')\nWORDS.discard('p')\nreturn 'r' in WORDS, 'p' in WORDS, len(WORDS), a + 1",
    "set_outside_iterated": "n = 0\nfor w in WORDS:\n    n += len(w)\nreturn a + n, WORDS | {'s'}, WORDS",
    "set_outside_of_objects": "NODES.add(OTHER)\nreturn NODE in NODES, o in NODES, len(NODES), a + 1",
    "abstract_sequence": "b = a\nfor row in Rows(1, 2):\n    b = b + row\nreturn b, 2 in Rows(1, 2), list(Rows(3))",
    "abstract_kinds": "return isinstance(a, collections.abc.Sequence), isinstance(Rows(), collections.abc.Sequence), "
                      "isinstance(NODE, collections.abc.Hashable), a + 1",
    "keywords_of_mapping": "m = Options(u=1, hidden=2)\nreturn items_of(**m), {**m}, a + 1",
    "weak_reference": "r = weakref.ref(NODE)\nreturn r() is NODE, a + 1",
    "weak_reference_outside": "o.seen = 1\nreturn LINK() is NODE, a + 1",
    # contexts
    "exit_stack": "with contextlib.ExitStack() as s:\n    n = s.enter_context(shifted(2))\n"
                  "    s.callback(log.append, 1)\n    b = a + n\nreturn b",
    "exit_stack_order": "with contextlib.ExitStack() as s:\n    for n in range(3):\n        s.callback(log.append, n)\n"
                        "    b = a + len(log)\nreturn b, log",
    "exit_stack_raises": "try:\n    with contextlib.ExitStack() as s:\n        s.callback(log.append, 1)\n"
                         "        raise KeyError('k')\nexcept KeyError as e:\n    return str(e), log, a + 1",
    "exit_stack_swallows": "with contextlib.ExitStack() as s:\n    s.enter_context(contextlib.suppress(KeyError))\n"
                           "    {}['k']\nreturn a + 1",
    "exit_stack_kept": "s = contextlib.ExitStack()\ns.callback(log.append, 1)\nt = s.pop_all()\ns.close()\n"
                       "b = a + len(log)\nt.close()\nreturn b, log",
    "exc_info": "return sys.exc_info(), a + 1",
    "exc_info_handled": "try:\n    {}['k']\nexcept KeyError:\n    return sys.exc_info()[0] is KeyError, a + 1",
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
