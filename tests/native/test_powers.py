"""Powers of doubles: no more than one unit in the last place from the real power, doubles where that is one, C's pow
for what is not finite or tiny, and in native code the same bits."""
import decimal
import math
import random

import cresset
from cresset.export import export

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 5e-324, -5e-324, 2.0, -2.0, 0.5, 1e308, -1e308, 3.0]


def powers(pairs):
    a, b = (cresset.tensor([p[i] for p in pairs], dtype=cresset.float64) for i in range(2))
    return cresset.pow(a, b).tolist()


def drawn(count):
    draw = random.Random(5)
    pairs = [(math.exp(draw.uniform(-700, 700)), draw.uniform(-1, 1)) for _ in range(count)]
    pairs += [(1 + draw.uniform(-1e-6, 1e-6), draw.uniform(-1e8, 1e8)) for _ in range(count)]
    pairs += [(draw.uniform(0.5, 2), draw.uniform(-1000, 1000)) for _ in range(count)]
    return pairs + [(-draw.uniform(0, 50), float(draw.randint(-60, 60))) for _ in range(count)]


def test_within_one_unit_in_the_last_place():
    context = decimal.Context(prec=40, Emin=-5000, Emax=5000)
    pairs = drawn(150)
    for (a, b), found in zip(pairs, powers(pairs)):
        real = context.power(decimal.Decimal(abs(a)), decimal.Decimal(b))
        real = -real if a < 0 and b % 2 else real
        assert abs(decimal.Decimal(found) - real) <= decimal.Decimal(math.ulp(found)), (a, b, found, real)


def test_powers_that_are_doubles():
    pairs = drawn(300)
    assert powers([(a, 1.0) for a, _ in pairs]) == [a for a, _ in pairs]
    whole = [(float(a), float(b)) for a in range(1, 40) for b in range(10)]
    assert powers(whole) == [float(int(a) ** int(b)) for a, b in whole]
    assert powers([(2.0, float(n)) for n in range(-1074, 1024)]) == [math.ldexp(1, n) for n in range(-1074, 1024)]
    assert powers([(2.0, 1024.0), (-2.0, 1025.0), (2.0, -1080.0), (1e300, 1e15)]) == [math.inf, -math.inf, 0, math.inf]


def one(a, b):
    """C's pow, where Python raises or has a complex number."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 else math.inf
    except ValueError:
        odd = float(b).is_integer() and b % 2
        return math.nan if a else -math.inf if odd and math.copysign(1, a) < 0 else math.inf


def test_what_is_not_finite():
    pairs = [(a, b) for a in SPECIAL for b in [*SPECIAL, 2.0 ** 53 + 2, 1e300]]
    same = lambda x, y: x == y and math.copysign(1, x) == math.copysign(1, y) or x != x and y != y
    for (a, b), found in zip(pairs, powers(pairs)):
        assert same(found, one(a, b)), (a, b, found)


def test_native_code_has_the_same_bits(tmp_path):
    class Module(cresset.nn.Module):
        def forward(self, a, b):
            return cresset.pow(a * 1.0, b) + 0.0, cresset.float_power(a, 1.7)

    pairs = drawn(200) + [(a, b) for a in SPECIAL for b in SPECIAL]
    args = tuple(cresset.tensor([p[i] for p in pairs], dtype=cresset.float64) for i in range(2))
    path = cresset.aot_compile(export(Module(), args), options={"output_path": str(tmp_path / "lib.so")})
    for found, want in zip(cresset.aot_load(path)(*args), Module()(*args)):
        assert all(x == y or x != x and y != y for x, y in zip(found.tolist(), want.tolist()))
