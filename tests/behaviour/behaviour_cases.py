"""The texts of the behaviour suite, by family. An expression stands for `return a * 2, EXPRESSION`."""
from behaviour_programs import crossed


def expressions(lines):
    """One program for each line; its name is its number and what it begins with."""
    rows = [line for line in lines.strip("\n").split("\n") if line.strip()]
    return {f"{i:03d}": f"b = a * 2\nreturn b, {row.strip()}" for i, row in enumerate(rows)}


VALUES = """
o.k + 1, o.k - 1, o.k * 3, o.k / 4, o.k // 3, o.k % 3, o.k ** 2
o.k & 1, o.k | 8, o.k ^ 5, ~o.k, o.k << 2, o.k >> 1
-o.k, +o.k, not o.k, abs(-o.k)
o.k > 2, o.k >= 2, o.k == 2, o.k != 2, 1 < o.k < 9
1 if o.k > 2 else 2
o.k and "yes", o.k or "no", None or o.k, 0 and o.k
(lambda n: n * o.k)(3)
[i * o.k for i in range(4)]
[i for i in range(9) if i % o.k == 0]
{i: i * o.k for i in range(3)}
{i % o.k for i in range(5)}
sum(i * o.k for i in range(4))
[[i, j] for i in range(2) for j in range(o.k) if i != j]
[a[i] for i in range(a.shape[0])]
{"t": a + 1, "u": [a - 1]}
(a, a) , [a, a]
a.shape, a.dim(), a.numel(), a.dtype
tuple(a.shape) + (o.k,)
a.sum(), a.mean(0), a.reshape(-1)[0]
a[0], a[:, 1], a[-1, -1], a[..., 0], a[None]
a[0:1, ::2], a[:, [0, 2]]
a + o.w, a - o.w, a * o.w, a / o.w
o.items[0], o.items[-1], o.items[1:], o.items[::-1]
len(o.items), sum(o.items), max(o.items), min(o.items)
o.table["one"], o.table.get("none"), o.table.get("none", 5)
list(o.table), list(o.table.values()), list(o.table.items())
"one" in o.table, "none" in o.table, 1 in o.items
{**o.table, "three": 3}
[*o.items, *o.items]
(*o.items, 1)
helper(1), helper(1, 2), helper(1, 2, 3, 4), helper(1, key=5), helper(1, z=1, y=2)
helper(*o.items), helper(**{"n": 1, "d": 2})
items_of(1, *o.items, u=1, **o.table)
o.f(3), (o.f)(o.k)
o.child.x, o.child.y, o.child.total, o.child.kind
o.child is o.twin, o.child is not o.twin, o.child is None
o.pair.x, o.pair[1], len(o.pair), list(o.pair)
o.slotted.x + o.slotted.y
o.empty is None, o.empty or 3
o.name.upper(), o.name[1:], o.name + "!", o.name * 2, len(o.name)
f"{o.name}-{o.k}-{o.k:03d}-{o.k!r}-{o.name!r:>8}"
"{} {:>4}".format(o.name, o.k), "%s %d" % (o.name, o.k)
o.name.replace("a", "b"), o.name.split("a"), ",".join(["a", o.name]), o.name.startswith("n")
o.name.find("m"), o.name.encode(), o.name.title(), o.name.center(9, "*"), o.name.zfill(6)
int("12") + o.k, float("1.5"), str(o.k), bool(o.k), repr(o.name), hex(255), chr(65), ord("a")
round(1.2345, 2), divmod(o.k, 2), pow(o.k, 2), complex(1, o.k)
isinstance(o.k, int), isinstance(o.child, Point), isinstance(a, cresset.Tensor), isinstance(o.items, (list, dict))
issubclass(Child, Point), issubclass(int, (str, int)), callable(o.f), callable(o.k)
type(o.k), type(o.child), type(o.items), type(o.child) is Point
getattr(o, "k"), getattr(o, "none", 3), hasattr(o, "k"), hasattr(o, "none")
getattr(o.child, "total"), getattr(o.vector, "x", None)
list(range(o.k)), list(range(1, 9, o.k)), range(o.k), len(range(o.k))
list(enumerate(o.items)), list(zip(o.items, "abc")), list(reversed(o.items)), list(enumerate("ab", 3))
list(map(str, o.items)), list(filter(None, [0, 1, o.k])), list(map(lambda n: n + o.k, o.items))
sorted([3, 1, o.k]), sorted("banana"), sorted(o.items, reverse=True), sorted(o.items, key=lambda n: -n)
min(o.items, key=lambda n: -n), max("ab", "c"), max([], default=4), sum([[1], [2]], [])
any([0, o.k]), all([1, o.k]), any(n > 2 for n in o.items), all(n > 0 for n in o.items)
slice(1, o.k), slice(None), [1, 2, 3][slice(1, 3)]
math.sqrt(o.k), math.floor(2.5), math.pi, math.gcd(12, o.k), math.prod([1, o.k]), math.isnan(1.0)
operator.add(o.k, 1), operator.mul(a, 2), operator.itemgetter(1)(o.items), operator.attrgetter("x")(o.child)
functools.reduce(lambda p, q: p + q, o.items), functools.reduce(operator.mul, o.items, 2)
functools.partial(helper, 1)(2), functools.partial(helper, key=3)(1)
list(itertools.chain(o.items, "ab")), list(itertools.chain.from_iterable([[1], [2]]))
list(itertools.islice(itertools.count(), o.k)), list(itertools.product("ab", [1, o.k]))
list(itertools.accumulate(o.items)), list(itertools.accumulate(o.items, lambda p, q: p * q))
list(itertools.takewhile(lambda n: n < 3, o.items)), list(itertools.dropwhile(lambda n: n < 2, o.items))
list(itertools.combinations(o.items, 2)), list(itertools.permutations("ab")), list(itertools.repeat(1, o.k))
list(itertools.starmap(lambda p, q: p + q, [(1, 2), (3, o.k)])), list(itertools.zip_longest([1], o.items))
[(k, list(g)) for k, g in itertools.groupby([1, 1, 2], lambda n: n)], list(itertools.filterfalse(None, [0, 1]))
list(itertools.compress("abc", [1, 0, o.k])), list(itertools.pairwise(o.items))
collections.OrderedDict(b=1, a=o.k), list(collections.OrderedDict([("z", 1)]))
list(o.ordered), list(o.ordered.items()), o.ordered["a"], len(o.ordered), "b" in o.ordered
copy.copy(o.items), copy.copy(o.table)
set(o.items), frozenset([1, o.k]), {1, 2} | {o.k}, {1, o.k} & {o.k}, {1, 2} - {1}, 1 in {1, 2}
tuple(o.items), list((1, o.k)), dict(a=1, b=o.k), dict([(1, 2)]), list("abc")
o.items.index(2), o.items.count(1), o.items.copy(), (1, 2).index(2)
o.vector + o.vector, 3 + o.vector, -o.vector
o.vector == o.vector, o.vector < Vector(0, 9), len(o.vector), bool(o.vector), o.vector[1], 2 in o.vector
list(o.vector), o.vector(3), [*o.vector]
o.data.x, o.data == Data(3, 4), o.data != Data(0), Data(1).y
o.color is Color.RED, o.color.value, o.color.name, Color.BLUE.value, o.color == Color.RED, o.color != Color.BLUE
Level.LOW.value, Level.HIGH is Level.HIGH
Point.kind, Child.kind, Point.double(o.k), Point.origin().x, o.child.double(3)
Child(1, 2).total, Child(1).scaled(2).y, Child(a).scaled(2).x
o.net.scale, o.net.training, o.net.calls, len(list(o.net.children()))
o.net(a), o.net.inner(a)
[p.shape for p in o.net.parameters()]
o.w.requires_grad, o.w.shape[0] * o.k, len(o.w), o.w.size(0)
(n := o.k + 1), n * 2
[y := o.k, y ** 2]
1_000 + o.k, 0x10, 1e3, 1j * o.k, True + o.k
b"ab" + b"c", bytes([1, o.k]), b"abc"[1]
"a" < "b", (1, 2) < (1, o.k), [1] == [1], (1, a)[0] == 1
o.k.bit_length(), (1.5).is_integer(), (2.0).hex(), int.from_bytes(b"\\x01", "big")
cresset.cat([a, a]), cresset.stack([a, a]).shape, cresset.zeros(2), cresset.ones(o.k)
cresset.where(a > 0, a, a * 0.5), a.clamp(min=0), a.relu(), cresset.nn.functional.gelu(a)
a.t() @ a, cresset.matmul(a, a.t()), a.view(-1), a.permute(1, 0).contiguous(), a.flatten()
a.max(1).values, a.max(1)[1], cresset.sort(a, dim=1)[0], a.split(1)[0], a.unbind(1)[1], [r.sum() for r in a]
a.to(cresset.float64), a.int(), a.type(cresset.int64), (a > 0).float()
None, ..., NotImplemented is None
"""

STATEMENTS = {
    "if_else": "if o.k > 2:\n    return a + 1\nelse:\n    return a - 1",
    "elif": "if o.k == 9:\n    b = a\nelif o.k == 2:\n    b = a * 2\nelse:\n    b = a * 3\nreturn b",
    "while": "n, b = 0, a\nwhile n < o.k:\n    b = b + n\n    n += 1\nreturn b, n",
    "while_else": "n = 0\nwhile n < 2:\n    n += 1\nelse:\n    log.append('else')\nreturn a * n",
    "while_break": "n = 0\nwhile True:\n    n += 1\n    if n > o.k:\n        break\nreturn a * n",
    "for": "b = a\nfor n in o.items:\n    b = b + n\nreturn b",
    "for_else": "for n in o.items:\n    if n == 99:\n        break\nelse:\n    log.append(n)\nreturn a + n",
    "for_break": "for n in o.items:\n    if n == 2:\n        break\nelse:\n    log.append(n)\nreturn a + n",
    "for_continue": "b = a\nfor n in o.items:\n    if n == 2:\n        continue\n    b = b * n\nreturn b",
    "nested_loops": "b = a\nfor n in range(2):\n    for m in range(n + 1):\n        b = b + n * m\nreturn b",
    "loop_over_dict": "b = a\nfor key, value in o.table.items():\n    b = b + value\n    log.append(key)\nreturn b",
    "loop_over_zip": "b = a\nfor (i, n), m in zip(enumerate(o.items), 'abc'):\n    b = b + i * n\n"
                     "    log.append(m)\nreturn b",
    "loop_over_rows": "total = 0\nfor row in a:\n    total = total + row.sum()\nreturn total",
    "loop_over_object": "b = a\nfor n in Countdown(o.k):\n    b = b + n\nreturn b",
    "unpack": "p, q, *r = o.items + [9]\nreturn a + p, q, r",
    "unpack_nested": "(p, (q, r)), s = (1, (2, o.k)), 4\nreturn a * p + q, r, s",
    "unpack_star_middle": "first, *middle, last = range(o.k + 3)\nreturn a + first + last, middle",
    "swap": "p, q = 1, o.k\np, q = q, p\nreturn a * p, q",
    "chained_assignment": "p = q = [o.k]\np.append(1)\nreturn a, p is q, q",
    "augmented": "n = o.k\nn += 1\nn *= 2\nn -= 3\nn //= 2\nreturn a + n",
    "augmented_tensor": "b = a * 1\nb += 1\nb *= o.k\nreturn b",
    "augmented_list": "p = [1]\nq = p\np += [o.k]\nreturn a, p is q, q",
    "delete_local": "n = o.k\ndel n\nn = 3\nreturn a + n",
    "delete_item": "p = [1, 2, 3]\ndel p[0]\ndel p[-1:]\nd = {'x': 1, 'y': 2}\ndel d['x']\nreturn a, p, d",
    "walrus": "if (n := o.k * 2) > 3:\n    return a + n\nreturn n",
    "ternary_chain": "n = 1 if o.k > 5 else 2 if o.k > 2 else 3\nreturn a * n",
    "assert_true": "assert o.k > 0, 'positive'\nreturn a + 1",
    "assert_false": "assert o.k < 0, f'not {o.k}'\nreturn a + 1",
    "early_return": "for n in o.items:\n    if n > 1:\n        return a + n\nreturn a",
    "no_return": "log.append(a + 1)",
    "pass_only": "pass",
    "docstring": "'''A text.'''\nreturn a + 1",
    "inner_function": "def g(n):\n    return a * n\nreturn g(o.k)",
    "inner_defaults": "def g(n, m=o.k, *, p=3):\n    return n + m + p\nreturn a + g(1) + g(1, 2, p=4)",
    "closure": "n = 1\ndef g():\n    return n + o.k\nn = 5\nreturn a * g()",
    "nonlocal": "n = 0\ndef g():\n    nonlocal n\n    n += 1\n    return n\ng(), g()\nreturn a + n",
    "two_closures": "n = 0\ndef up():\n    nonlocal n\n    n += 1\ndef get():\n    return n\nup()\nup()\n"
                    "return a + get()",
    "closure_returned": "n = o.k\ndef g(m):\n    return n * m\nreturn a, g(3)",
    "closure_escapes": "n = o.k\ndef g(m=2):\n    nonlocal n\n    n += m\n    return n\nlog.append(g)\n"
                       "return a + g(), [g(), g(5)]",
    "recursion": "def g(n):\n    return 1 if n < 2 else n * g(n - 1)\nreturn a * g(o.k + 2)",
    "mutual_recursion": "def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n"
                        "    return n != 0 and even(n - 1)\nreturn a, even(o.k), odd(o.k)",
    "lambda_in_loop": "made = [lambda n, m=m: n + m for m in range(3)]\nreturn a + sum(g(1) for g in made)",
    "late_binding": "made = [lambda: m for m in range(3)]\nreturn a, [g() for g in made]",
    "decorator": "def twice(g):\n    def inner(n):\n        return g(g(n))\n    return inner\n@twice\n"
                 "def h(n):\n    return n + o.k\nreturn a * h(1)",
    "wraps": "def deco(g):\n    @functools.wraps(g)\n    def inner(*args):\n        return g(*args)\n"
             "    return inner\nreturn a, deco(o.f)(1)",
    "global_read": "return a * NAMES['u'] + COUNT",
    "global_write": "global COUNT\nCOUNT += o.k\nreturn a + COUNT",
    "global_delete": "global EXTRA\nEXTRA = 3\nn = EXTRA\ndel EXTRA\nreturn a + n",
    "comprehension_scope": "n = 1\nm = [n for n in range(3)]\nreturn a + n, m",
    "import_inside": "import math as m\nreturn a * m.floor(2.5)",
    "from_import": "from math import sqrt, pi\nreturn a * sqrt(4), pi",
    "import_package": "import collections.abc\nreturn a, isinstance([], collections.abc.Sequence)",
    "import_cresset": "import cresset.nn.functional as F\nreturn F.relu(a)",
    "print": "print('k', o.k)\nreturn a + 1",
    "print_between": "b = a + 1\nprint('between')\nlog.append(1)\nc = b * 2\nprint('after')\nreturn c",
    "branch_on_data": "if a.sum() > 0:\n    return a + 1\nreturn a - 1",
    "while_on_data": "n = 0\nwhile a.sum() + n < 3:\n    n += 1\nreturn a + n",
    "item": "n = a.max().item()\nreturn a * n",
    "tolist": "return a + len(a.tolist())",
    "index_by_item": "return a[int(a.shape[0] - 1)], o.items[int(o.k) % 2]",
    "float_of": "return a * float(o.k), float(a[0, 0])",
    "match_value": "match o.k:\n    case 2:\n        return a + 1\n    case 3 | 4:\n        return a + 2\n"
                   "    case _:\n        return a",
    "match_sequence": "match o.items:\n    case [1, *rest]:\n        return a + sum(rest)\n    case _:\n"
                      "        return a",
    "match_mapping": "match o.table:\n    case {'one': n, **rest}:\n        return a + n, rest\n    case _:\n"
                     "        return a",
    "match_class": "match o.child:\n    case Point(x=n, y=m):\n        return a + n + m\n    case _:\n"
                   "        return a",
    "match_guard": "match o.k:\n    case n if n > 2:\n        return a * n\n    case n:\n        return a - n",
    "match_positional": "match o.data:\n    case Data(n, m):\n        return a + n + m",
    "match_text": "match o.name:\n    case 'name':\n        return a + 1\n    case _:\n        return a",
    "match_none": "match o.empty:\n    case None:\n        return a + 1\n    case _:\n        return a",
    "match_nested": "match (o.k, [1, {'x': 2}]):\n    case (n, [m, {'x': p}]):\n        return a + n + m + p",
    "class_inside": "class Local:\n    v = 3\n    def get(self):\n        return self.v\nreturn a + Local().get()",
    "locals": "n = o.k\nreturn a, sorted(locals())",
    "star_call": "args, kwargs = (1, 2), {'key': o.k}\nreturn a * helper(*args, **kwargs)",
    "same_argument": "return a, a, log, log, o",
    "tuple_twice": "t = (a, 1)\nreturn t, t, t is t",
    "string_building": "out = ''\nfor n in o.items:\n    out += f'{n},'\nreturn a, out",
    "try_no_error": "try:\n    b = a + 1\nexcept KeyError:\n    b = a\nelse:\n    b = b * 2\nfinally:\n"
                    "    log.append(1)\nreturn b",
    "no_grad": "with cresset.no_grad():\n    b = a * 2\nreturn b, b.requires_grad",
    "no_grad_weights": "with cresset.no_grad():\n    b = o.net(a)\nc = o.net(a)\nreturn b.detach(), c.detach()",
    "grad_mode_read": "with cresset.no_grad():\n    n = cresset.is_grad_enabled()\n"
                      "return a + 1, n, cresset.is_grad_enabled()",
    "set_grad": "before = cresset.is_grad_enabled()\nwith cresset.set_grad_enabled(False):\n    b = a + 1\n"
                "return b, before",
    "enable_in_no_grad": "with cresset.no_grad():\n    with cresset.enable_grad():\n        b = o.net(a)\n"
                         "return b.detach()",
    "no_grad_decorator": "@cresset.no_grad()\ndef g(b):\n    return b * 2\nreturn g(a)",
    "write_outside_tensor": "o.w.add_(1)\nreturn a + o.w",
    "in_place_local": "b = a.clone()\nb.add_(1)\nb[0] = 7.0\nb[:, 1].mul_(2)\nreturn b",
    "shape_branch": "if a.shape[0] > 2:\n    return a.sum(0)\nreturn a.sum(1)",
    "shape_error": "log.append(1)\nb = a + 1\nreturn b @ b",
    "size_arithmetic": "n = a.shape[0] * a.shape[1]\nreturn a.reshape(n), n // 2",
    "dropout_eval": "return cresset.nn.functional.dropout(a, 0.5, training=False)",
    "random": "cresset.manual_seed(3)\nreturn cresset.rand(2) + a[0, 0]",
    "dict_of_functions": "table = {'p': lambda n: n + 1, 'q': o.f}\nreturn a + table['p'](1) + table['q'](2)",
    "getattr_chain": "return a + getattr(getattr(o, 'child'), 'x')",
    "setattr_builtin": "setattr(o.child, 'x', 9)\nreturn a + o.child.x",
    "delattr_builtin": "delattr(o.child, 'x')\nreturn a, hasattr(o.child, 'x')",
    "vars_builtin": "return a, sorted(vars(o.child)), vars(o.child)['y']",
    "dict_attribute": "o.child.__dict__['x'] = 5\nreturn a * o.child.x",
    "identity_of_result": "b = a + 1\nreturn b, [b], {'b': b}",
    "unbound": "if o.k > 100:\n    n = 1\nreturn a + n",
    "undefined_name": "return a + not_there",
    "divide_by_zero": "log.append('x')\nreturn a * (1 // (o.k - o.k))",
    "wrong_call": "return a + helper()",
    "wrong_keyword": "return a + o.f(nothing=1)",
    "not_callable": "return a + o.k()",
    "not_iterable": "for n in o.k:\n    pass\nreturn a",
    "missing_key": "log.append(1)\nreturn a + o.table['none']",
    "missing_attribute": "log.append(1)\nreturn a + o.child.nothing",
    "bad_index": "return a + o.items[99]",
    "unpack_too_few": "p, q = [1]\nreturn a",
    "unpack_too_many": "p, q = 1, 2, o.k\nreturn a",
}

RAISERS = {
    "key": "{}[o.k]",
    "index": "o.items[99]",
    "zero": "1 // (o.k - o.k)",
    "value": "int('x')",
    "attribute": "o.child.nothing",
    "custom": "raise Failure(o.k)",
    "builtin": "raise ValueError('made', o.k)",
    "class_only": "raise KeyError",
    "below": "raise_from_below(IndexError)",
    "assertion": "assert o.k > 99, 'small'",
    "stop": "next(iter([]))",
    "type": "len(o.k)",
    "lookup_in_generator": "list({}[n] for n in o.items)",
    "chained": "raise KeyError('outer') from ValueError('inner')",
    # classes that look at what they are given
    "group": "raise ExceptionGroup('several', [ValueError(o.k), KeyError('k')])",
    "syntax": "raise SyntaxError('bad', ('file', o.k, len(o.items), 'text'))",
    "none": "log.append('no error')",
}
HANDLERS = {
    "exact": "b = a + 1\ntry:\n    {raiser}\nexcept (KeyError, IndexError, ValueError) as e:\n"
             "    log.append(type(e).__name__)\n    return b, e.args\nreturn b",
    "base": "try:\n    {raiser}\nexcept Exception as e:\n    return a * 2, type(e), str(e)\nreturn a",
    "else_finally": "try:\n    {raiser}\nexcept LookupError:\n    log.append('lookup')\nelse:\n"
                    "    log.append('else')\nfinally:\n    log.append('finally')\nreturn a + len(log)",
    "finally_only": "try:\n    {raiser}\nfinally:\n    log.append('finally')\nreturn a + 1",
    "bare": "try:\n    {raiser}\nexcept:\n    return a + 1, log\nreturn a",
    "reraised": "try:\n    try:\n        {raiser}\n    except Exception:\n        log.append('seen')\n"
                "        raise\nexcept Exception as e:\n    return a + 1, type(e)\nreturn a",
    "replaced": "try:\n    try:\n        {raiser}\n    except Exception as e:\n"
                "        raise RuntimeError('other') from e\nexcept RuntimeError as e:\n"
                "    return a + 1, type(e.__cause__), e.__suppress_context__\nreturn a",
    "in_context": "try:\n    try:\n        {raiser}\n    except Exception as e:\n"
                  "        raise RuntimeError('other')\nexcept RuntimeError as e:\n"
                  "    return a + 1, type(e.__context__), e.__cause__\nreturn a",
    "in_loop": "b = a\nfor n in range(3):\n    try:\n        {raiser}\n        b = b + 1\n"
               "    except Exception:\n        b = b + 10\n        continue\n    finally:\n"
               "        log.append(n)\nreturn b",
    "return_in_finally": "def g():\n    try:\n        {raiser}\n        return 1\n    except Exception:\n"
                         "        return 2\n    finally:\n        log.append('f')\nreturn a + g()",
    "two_excepts": "try:\n    {raiser}\nexcept KeyError:\n    return a + 1\n"
                   "except (ValueError, ArithmeticError):\n    return a + 2\nexcept Exception:\n"
                   "    return a + 3\nreturn a",
    "suppressed": "with contextlib.suppress(LookupError, ValueError):\n    {raiser}\n    log.append('after')\n"
                  "return a + 1",
    "swallowed": "with Manager(log, (LookupError, ValueError)):\n    {raiser}\n    log.append('after')\nreturn a + 1",
    "managed": "try:\n    with managed(log) as n:\n        {raiser}\nexcept Exception as e:\n"
               "    return a + 1, type(e)\nreturn a + n",
    "in_callee": "def g(b):\n    b = b * 2\n    {raiser}\n    return b\ntry:\n    return g(a)\n"
                 "except Exception:\n    return a - 1",
    "uncaught": "b = a + 1\nlog.append('before')\n{raiser}\nreturn b",
}
MANAGERS = {
    "plain": "Manager(log)", "swallowing": "Manager(log, KeyError)", "managed": "managed(log, o.k)",
    "null": "contextlib.nullcontext(o.k)", "suppress": "contextlib.suppress(KeyError)", "no_grad": "cresset.no_grad()",
    "closing": "contextlib.closing(Closed(log))", "stack": "contextlib.ExitStack()",
}
WITH_BODIES = {
    "normal": "with <manager> as m:\n    b = a + 1\nreturn b, m is None",
    "raises": "with <manager>:\n    log.append({}[1])\nreturn a + 1",
    "raises_caught": "try:\n    with <manager>:\n        b = a + 1\n        raise ValueError(o.k)\n"
                     "except ValueError as e:\n    return b, e.args\nreturn b",
    "returns": "with <manager>:\n    return a + 1\nreturn a",
    "in_loop": "b = a\nfor n in o.items:\n    with <manager>:\n        if n == 2:\n            continue\n"
               "        b = b + n\nreturn b",
    "breaks": "b = a\nfor n in o.items:\n    with <manager>:\n        b = b + n\n        break\nreturn b",
    "nested": "with <manager>, Manager(log):\n    b = a * 2\nreturn b",
    "in_finally": "try:\n    b = a\nfinally:\n    with <manager>:\n        b = a + 1\nreturn b",
    "in_callee": "def g(b):\n    with <manager>:\n        return b * 2\nreturn g(a)",
    "prints": "b = a + 1\nwith <manager>:\n    print('inside')\n    b = b * 2\nreturn b",
}

TARGETS = {
    "local": ("n = 1", "n"), "attribute": ("", "o.k"), "child": ("", "o.child.x"), "slot": ("", "o.slotted.x"),
    "item": ("", "o.items[0]"), "key": ("", "o.table['one']"), "global": ("global COUNT", "COUNT"),
    "made": ("p = Point(1, 2)", "p.x"), "made_slot": ("p = Slotted(1)", "p.x"), "made_item": ("p = [1]", "p[0]"),
    "watched": ("", "o.watched.x"), "property": ("", "o.child.total"), "module": ("", "o.net.calls"),
    "module_float": ("", "o.net.scale"), "twin": ("", "o.twin.y"), "made_data": ("p = Data(1)", "p.y"),
    "dict_of_dict": ("p = {'q': {}}; p['q']['r'] = 1", "p['q']['r']"), "checked": ("p = Checked(1)", "p.y"),
}
CHANGES = {
    "set": "<t> = 5\nreturn a + <t>",
    "add": "<t> += 2\nreturn a * <t>, <t>",
    "set_twice": "<t> = 1\nlog.append(<t>)\n<t> = 4\nreturn a + <t>",
    "in_loop": "for n_ in range(3):\n    <t> += n_\nreturn a + <t>",
    "then_error": "try:\n    <t> = 8\n    {}[1]\nexcept KeyError:\n    log.append(<t>)\nreturn a + <t>",
    "conditional": "if o.k > 2:\n    <t> = 6\nreturn a + <t>",
    "tensor_value": "<t> = a + 1\nreturn <t> * 2",
    "then_print": "<t> = 3\nprint('set')\nreturn a + <t>",
    "uncaught_error": "<t> = 8\nlog.append('x')\nreturn a + o.table['none']",
}


def mutation():
    found = {}
    for name, (before, target) in TARGETS.items():
        for change, text in CHANGES.items():
            found[f"{name}.{change}"] = (before + "\n" if before else "") + text.replace("<t>", target)
    return found


CONTAINERS = {
    "sized_empty": "return a + (1 if Sized(0) else 2)",
    "sized_full": "return a + (1 if Sized(o.k + 1) else 2)",
    "sized_not": "s = Sized(o.k - o.k)\nreturn a, not s, bool(s), s or 5, s and 6",
    "sized_loop": "s, b = Sized(3), a\nwhile s:\n    b = b + len(s)\n    s.n -= 1\nreturn b",
    "sized_kept": "o.sized = Sized(0)\nif o.sized:\n    return a - 1\nreturn a + 1",
    "namespace": "p = Point(a)\nd = p.__dict__\nd['z'] = a + 1\nreturn d, p, d is p.__dict__, p.z",
    "namespace_alone": "return Point(a + 1).__dict__, vars(Point(a))",
    "hidden": "p = Hidden()\np.__dict__['x'] = 1\nreturn a, p",
    "hidden_set": "p = Hidden()\np.x = 1\nreturn a + p.x, p",
    "append": "o.items.append(a + 1)\nreturn len(o.items)",
    "append_twice": "o.items.append(1)\no.items.append(2)\nreturn a",
    "extend": "o.items.extend([a, 2])\nreturn a",
    "insert": "o.items.insert(0, a * 2)\nreturn a",
    "pop": "n = o.items.pop()\nreturn a + n",
    "pop_first": "return a + o.items.pop(0), o.items",
    "remove": "o.items.remove(2)\nreturn a",
    "clear": "o.items.clear()\nreturn a + len(o.items)",
    "sort": "o.items.sort(reverse=True)\nreturn a",
    "sort_key": "o.items.sort(key=lambda n: -n)\nreturn a",
    "reverse": "o.items.reverse()\nreturn a * o.items[0]",
    "slice": "o.items[1:] = [a, a]\nreturn a",
    "delete": "del o.items[0]\nreturn a",
    "iadd": "o.items += [4]\nreturn a",
    "key": "o.table['new'] = a + 1\nreturn a",
    "update": "o.table.update(one=9, z=a)\nreturn a",
    "setdefault": "return a + o.table.setdefault('one', 5), o.table.setdefault('w', 6)",
    "pop_key": "return a + o.table.pop('one'), o.table.pop('none', 3)",
    "popitem": "return a, o.table.popitem()",
    "delete_key": "del o.table['one']\nreturn a",
    "order": "n = o.table.pop('one')\no.table['one'] = n\nreturn a",
    "clear_dict": "o.table.clear()\nreturn a, o.table",
    "through_alias": "p = o.items\np.append(7)\nreturn a, p is o.items",
    "in_callee": "append_to(o.items, a)\nreturn a",
    "in_list_of_log": "log.append(log)\nreturn a",
    "nested": "log.append([a, [a + 1]])\nlog[0][1].append(2)\nreturn a",
    "log_twice": "log.append(a)\nlog.append(a)\nreturn log",
    "ordered_move": "o.ordered.move_to_end('b')\nreturn a, list(o.ordered)",
    "ordered_set": "o.ordered['c'] = a\nreturn a",
    "read_after": "log.append(1)\nn = len(log)\nlog.append(n)\nreturn a + log[-1]",
    "pop_empty": "log.pop()\nreturn a",
    "while_items": "n = 0\nwhile o.items:\n    n += o.items.pop()\nreturn a + n",
    "comprehension": "o.items[:] = [n * 2 for n in o.items]\nreturn a",
    "set_in_object": "o.items = [a]\nreturn a",
    "delete_attribute": "del o.child.x\nreturn a",
    "add_attribute": "o.child.new = a + 1\nreturn a",
    "replace_child": "o.child = Point(a, 1)\nreturn a, o.child is o.twin",
    "counter": "o.k += 1\no.k += 1\nreturn a * o.k",
    "made_then_stored": "p = Point(a)\no.child.x = p\np.y = 5\nreturn a",
    "cycle": "p = Point(a)\np.self = p\no.child.x = p\nreturn p",
    "buffer": "o.net.seen = o.net.seen + a[0]\nreturn a",
    "module_attribute": "o.net.extra = 3\nreturn o.net(a) + o.net.extra",
    "module_child_attribute": "o.net.inner.note = 'x'\nreturn a",
}

CLASSES = {name: name for name in ("Point", "Child", "Slotted", "Made", "Data", "Frozen", "Pair", "Watched", "Lazy",
                                   "Vector", "Table", "Stack", "Checked")}
CLASSES["Ordered"] = "(lambda x, y=1: Ordered(y, x))"
USES = {
    "arithmetic": "p = <c>(a, 2)\nreturn p.x * 2 + p.y",
    "returned": "p = <c>(a + 1)\nreturn p",
    "stored_twice": "p = <c>(a)\nlog.append(p)\nlog.append(p)\nreturn [p, p]",
    "local_only": "total = 0\nfor n in range(3):\n    total += <c>(n, n).x\nreturn a + total",
    "passed": "def g(p):\n    return p.x - 1\nreturn g(<c>(a))",
    "changed": "p = <c>(a)\ntry:\n    p.x = a * 3\nexcept AttributeError as e:\n"
               "    log.append(type(e).__name__)\nreturn p.x, p",
    "in_container": "made = {n: <c>(a, n) for n in range(2)}\nreturn made[1].x + made[0].y, made",
    "of_class": "p = <c>(a)\nreturn type(p).__name__, isinstance(p, (Point, tuple, dict)), a",
    "missing_attribute": "p = <c>(a)\ntry:\n    p.nothing\nexcept (AttributeError, KeyError) as e:\n"
                         "    return a + 1, type(e)\nreturn a",
    "compared": "p, q = <c>(1, 2), <c>(1, 2)\nreturn a, p is q, p is p, p is None, p != None",
    "wrong_arguments": "p = <c>()\nreturn a",
    "kept_after_print": "p = <c>(a + 1, 3)\nprint('made')\nreturn p.x, p",
}

GENERATORS = {
    "simple": "def g():\n    yield a\n    yield a + 1\n    yield a + 2",
    "loop": "def g():\n    for n in o.items:\n        yield a * n",
    "finally_": "def g():\n    try:\n        yield a\n        yield a * 2\n    finally:\n        log.append('end')",
    "from_": "def g():\n    yield from [a, a + 1]\n    yield from (a * n for n in range(2))",
    "nested": "def h(n):\n    yield a + n\n    return n\ndef g():\n    r = yield from h(3)\n    yield a * r",
    "except_": "def g():\n    for n in (1, 0, 2):\n        try:\n            yield a * (2 // n)\n"
               "        except ZeroDivisionError:\n            yield a",
    "with_": "def g():\n    with Manager(log):\n        yield a\n        yield a - 1",
    "object": "def g():\n    return iter([a, a * 3])",
    "expression": "def g():\n    return (a + n for n in o.items if n > 1)",
    "class_": "def g():\n    return (a + n for n in Countdown(o.k))",
}
CONSUMERS = {
    "for": "total = 0\nfor b in g():\n    total = total + b\nreturn total",
    "list": "return list(g())",
    "sum": "return sum(g())",
    "next_default": "it = g()\np = next(it)\nq = next(it, None)\nr = next(it, 5)\ns = next(it, 6)\n"
                    "t = next(it, 7)\nlist(it)\nreturn p, q is None, r, s, t",
    "zip": "return [b + n for b, n in zip(g(), range(9))]",
    "enumerate": "return [b * n for n, b in enumerate(g())]",
    "unpack": "first, *rest = g()\nreturn first, len(rest)",
    "star": "return items_of(*g())",
    "dict": "return {n: b for n, b in enumerate(g())}",
    "twice": "return [b for _ in range(2) for b in g()]",
    "half": "for b in g():\n    break\nreturn b",
    "map": "return list(map(lambda b: b + 1, g()))",
}

SENT = {
    "send": "def g():\n    r = yield 1\n    r = yield r + 1\n    yield r * 2\nit = g()\n"
            "return a + next(it), it.send(4), it.send(5)",
    "send_none": "def g():\n    r = yield 1\n    yield r\nit = g()\nreturn a + it.send(None), it.send(None)",
    "send_to_new": "def g():\n    yield 1\ntry:\n    g().send(3)\nexcept TypeError as e:\n    return a + 1, str(e)",
    "throw": "def g():\n    try:\n        yield 1\n    except ValueError as e:\n        yield e.args\n"
             "it = g()\nnext(it)\nreturn a, it.throw(ValueError('x'))",
    "throw_uncaught": "def g():\n    yield 1\nit = g()\nnext(it)\ntry:\n    it.throw(KeyError('k'))\n"
                      "except KeyError as e:\n    return a + 1, e.args",
    "close": "def g():\n    try:\n        yield 1\n    finally:\n        log.append('closed')\nit = g()\n"
             "next(it)\nit.close()\nit.close()\nreturn a + len(log)",
    "close_new": "def g():\n    log.append('never')\n    yield 1\ng().close()\nreturn a + len(log)",
    "return_value": "def g():\n    yield 1\n    return 5\nit = g()\nnext(it)\ntry:\n    next(it)\n"
                    "except StopIteration as e:\n    return a + e.value",
    "running_average": "def g():\n    total, n, mean = 0, 0, None\n    while True:\n        v = yield mean\n"
                       "        total += v\n        n += 1\n        mean = total / n\nit = g()\nnext(it)\n"
                       "return a * it.send(4), it.send(8)",
    "from_send": "def h():\n    r = yield 1\n    return r\ndef g():\n    v = yield from h()\n    yield v * 2\n"
                 "it = g()\nnext(it)\nreturn a + it.send(7)",
    "exhausted": "def g():\n    yield 1\nit = g()\nreturn a, list(it), list(it), next(it, 9)",
    "passed_on": "def g():\n    yield from range(5)\ndef take(it, n):\n"
                 "    return [next(it) for _ in range(n)]\nit = g()\nreturn a, take(it, 2), take(it, 2)",
    "raises_inside": "def g():\n    yield 1\n    raise ValueError('in')\ntry:\n    list(g())\n"
                     "except ValueError as e:\n    return a + 1, e.args",
    "stop_inside": "def g():\n    yield 1\n    raise StopIteration\ntry:\n    list(g())\n"
                   "except RuntimeError as e:\n    return a + 1, str(e)",
    "handled_inside": "def g():\n    try:\n        raise KeyError('x')\n    except KeyError:\n        yield 1\n"
                      "        yield 2\nreturn a + sum(g())",
    "contextmanager_inside": "@contextlib.contextmanager\ndef m():\n    log.append(1)\n    yield 3\n"
                             "    log.append(2)\nwith m() as n:\n    b = a * n\nreturn b",
    "class_iterator": "it = Countdown(3)\nreturn a + next(it), list(it), next(it, None)",
    "infinite": "def g():\n    n = 0\n    while True:\n        yield n\n        n += 1\n"
                "return a, list(itertools.islice(g(), o.k))",
}

LAYERS = {
    "Linear": "(3, 4)", "Identity": "()", "ReLU": "()", "GELU": "()", "Sigmoid": "()", "Tanh": "()", "ELU": "()",
    "SiLU": "()", "Softmax": "(dim=1)", "LogSoftmax": "(dim=1)", "Softplus": "()", "LeakyReLU": "(0.1)",
    "Hardtanh": "()", "PReLU": "()", "Dropout": "(0.0)", "LayerNorm": "(3)", "BatchNorm1d": "(3)", "Flatten": "(0)",
    "Threshold": "(0.1, 20.0)", "Hardswish": "()", "Mish": "()", "CELU": "()", "SELU": "()", "Softsign": "()",
    "LogSigmoid": "()", "Hardsigmoid": "()", "Softmin": "(dim=0)", "Softshrink": "()", "Tanhshrink": "()",
    "ReLU6": "()", "Hardshrink": "()", "RMSNorm": "(3)",
}
LAYER_USES = {
    "eval": "m = LAYER.eval()\nreturn m(a)",
    "train": "m = LAYER.train()\nreturn m(a).detach()",
}

MODULES = {
    "sequential": "return SEQ(a)",
    "index": "return SEQ[0](a)",
    "iterate": "b = a\nfor m in SEQ:\n    b = m(b)\nreturn b",
    "list": "b = a\nfor m in LIST:\n    b = m(b)\nreturn b, len(LIST)",
    "dict": "return DICT['x'](a) + DICT['y'](a)",
    "list_index": "return LIST[-1](a)",
    "named": "return a, [n for n, _ in SEQ.named_children()]",
    "parameters": "return sum(p.sum() for p in SEQ.parameters())",
    "state": "return a * o.net.scale",
    "training": "return a + 1 if o.net.training else a - 1",
    "hooked": "return HOOKED(a)",
    "pre_hooked": "return PRE(a)",
    "parametrized": "return PARAM(a)",
    "lstm": "return LSTM(a[None])[0]",
    "gru": "return GRU(a[None])[0]",
    "rnn": "return RNN(a[None])[0]",
    "attention": "return ATT(a[None], a[None], a[None])[0]",
    "encoder": "return ENC(a[None])",
    "embedding": "return EMB(cresset.tensor([1, 0]))",
    "conv": "return CONV(a[None, None])",
    "batch_norm_train": "return BN(a).detach()",
    "loss": "return cresset.nn.MSELoss()(a, a * 2)",
    "cross_entropy": "return cresset.nn.functional.cross_entropy(a, cresset.zeros(a.shape[0], dtype=cresset.int64))",
    "functional": "F = cresset.nn.functional\nreturn F.softmax(F.relu(a), dim=-1)",
    "apply_twice": "return o.net(o.net(a))",
    "submodule_method": "return o.net.forward(a)",
    "isinstance": "return [isinstance(m, cresset.nn.Linear) for m in SEQ]",
    "get_parameter": "return o.net.get_parameter('inner.weight').sum()",
    "module_in_list": "return [m(a) for m in (o.net, SEQ)]",
    "buffers": "return o.net.seen + a",
    "make_inside": "return cresset.nn.ReLU()(a)",
    "weights": "return a @ o.net.inner.weight.t()",
    "lstm_state": "out, (h, c) = LSTM(a[None])\nreturn out, h, c",
    "bilinear": "return cresset.nn.functional.linear(a, o.net.inner.weight)",
}
MODULE_PRELUDE = """
cresset.manual_seed(0)
SEQ = cresset.nn.Sequential(cresset.nn.Linear(3, 3), cresset.nn.ReLU(), cresset.nn.Linear(3, 3)).eval()
LIST = cresset.nn.ModuleList([cresset.nn.Linear(3, 3), cresset.nn.Tanh()])
DICT = cresset.nn.ModuleDict({"x": cresset.nn.Linear(3, 3), "y": cresset.nn.ReLU()})
HOOKED = cresset.nn.Linear(3, 3)
HOOKED.register_forward_hook(lambda m, args, out: out * 2)
PRE = cresset.nn.Linear(3, 3)
PRE.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
PARAM = cresset.nn.utils.parametrizations.weight_norm(cresset.nn.Linear(3, 3))
LSTM, GRU, RNN = (kind(3, 4, batch_first=True) for kind in (cresset.nn.LSTM, cresset.nn.GRU, cresset.nn.RNN))
ATT = cresset.nn.MultiheadAttention(3, 1, batch_first=True).eval()
ENC = cresset.nn.TransformerEncoderLayer(3, 1, 8, batch_first=True).eval()
EMB, CONV, BN = cresset.nn.Embedding(4, 3), cresset.nn.Conv2d(1, 2, 1), cresset.nn.BatchNorm1d(3)
"""


def layers():
    return {f"{name}.{use}": text.replace("LAYER", f"LAYERS['{name}']")
            for name in LAYERS for use, text in LAYER_USES.items()}


FAMILIES = {
    "values": expressions(VALUES),
    "control": STATEMENTS,
    "exceptions": crossed(HANDLERS, RAISERS, "raiser"),
    "contexts": {f"{m}.{b}": text.replace("<manager>", MANAGERS[m])
                 for m in MANAGERS for b, text in WITH_BODIES.items()},
    "mutation": mutation(),
    "containers": CONTAINERS,
    "classes": {f"{c}.{u}": text.replace("<c>", CLASSES[c]) for c in CLASSES for u, text in USES.items()},
    "generators": {f"{g}.{c}": GENERATORS[g] + "\n" + CONSUMERS[c] for g in GENERATORS for c in CONSUMERS},
    "sent": SENT,
    "modules": MODULES,
    "layers": layers(),
}
