"""What Python refuses to compute of numbers is refused of open ones (O3), also where nothing uses the result: a dynamic
int or float that was 6 when the function was captured may be 0 now."""

import pytest

import cresset

NUMBERS = {
    "floor division": lambda x, n: (6 // n, x + 1),
    "remainder": lambda x, n: (6 % n, x + 1),
    "division": lambda x, n: (6 / n, x + 1),
    "divmod": lambda x, n: (divmod(7, n), x + 1),
    "by a constant": lambda x, n: (-n // 4, -n % 4, n // -4, n % -4, x + 1),
    "of two": lambda x, n: (n // (n - 1), x + 1),
    "by nothing": lambda x, n: (n % 0, x + 1),
    "inverse": lambda x, n: (n ** -1, x + 1),
    "square": lambda x, n: (n ** 2, x + 1),
    "root": lambda x, n: (n ** 0.5, x + 1),
    "power": lambda x, n: (2 ** n, x + 1),
    "its own power": lambda x, n: (n ** n, x + 1),
    "absolute": lambda x, n: (abs(n), x + 1),
    "caught": lambda x, n: (safe(n), x + 1),
    "int": lambda x, n: (int(n), x + 1),
    "no int64": lambda x, n: ((n + 2 ** 62) * 4, n * 2 ** 64, x + 1),
}
BITS = {
    "left": lambda x, n: (1 << n, x + 1),
    "right": lambda x, n: (100 >> n, x + 1),
    "bits": lambda x, n: (n ^ 5, ~n, n | 3, x + 1),
    "beyond": lambda x, n: (1 << (n + 60), x + 1),
}
INTS = (6, 0, 3, 1, -1, 2, -3, 0, 64, 5, 100)
FLOATS = (2.5, 0.0, -1.5, float("inf"), float("nan"), -0.0, 1e300, 3.0)


def safe(n):
    try:
        return 6 // n
    except ZeroDivisionError as error:
        return str(error)


def outcome(function, n):
    try:
        return repr(function(cresset.tensor([1]), n))
    except Exception as error:
        return repr(error)


@pytest.mark.filterwarnings("ignore:.*was captured 8 times")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("values", [INTS, FLOATS], ids=["ints", "floats"])
@pytest.mark.parametrize("name", [*NUMBERS, *BITS])
def test_as_plain(name, values, used, dynamic):
    both = {**NUMBERS, **BITS}[name]
    plain = both if used else lambda x, n: both(x, n)[-1]
    compiled = cresset.compile(plain, dynamic=dynamic)
    for n in values:
        assert outcome(compiled, n) == outcome(plain, n), n


def test_one_capture_serves_what_is_not_refused():
    compiled = cresset.compile(lambda x, n: (6 // n, 100 >> n, n ** -1, x + 1)[-1], dynamic=True)
    for n in (6, 3, 2, 5, 7):
        compiled(cresset.tensor([1]), n)
    assert len(compiled._entries()) == 1


SIZES = {
    "zeros": lambda x, n: cresset.zeros(n),
    "full": lambda x, n: cresset.full((n, 2), 1.0),
    "eye": lambda x, n: cresset.eye(n),
    "arange": lambda x, n: cresset.arange(n),
    "reshape": lambda x, n: x.reshape(n, -1),
    "view": lambda x, n: x.view(-1, n),
    "narrow": lambda x, n: x.narrow(0, n, 2),
    "unfold": lambda x, n: x.unfold(0, n, 1),
    "expand": lambda x, n: x.expand(n),
    "repeat": lambda x, n: x.repeat(n),
    "select": lambda x, n: x[n],
    "split": lambda x, n: x.split(n),
    "pad": lambda x, n: cresset.nn.functional.pad(x, (n, 0)),
    "broadcast": lambda x, n: x + cresset.ones(n),
}


@pytest.mark.filterwarnings("ignore:.*was captured 8 times")
@pytest.mark.parametrize("name", SIZES)
def test_unused_tensors_of_such_sizes(name):
    """Native code leaves out what nothing uses."""
    def plain(x, n):
        return (SIZES[name](x, n), x + 1)[1]

    def outcome(function, n):
        try:
            return repr(function(cresset.arange(12.0), n))
        except Exception as error:
            return type(error).__name__
    compiled = cresset.compile(plain, dynamic=True, backend="native")
    for n in (4, 0, 3, 1, -1, 2, -3, 12, 5, 100, -12):
        assert outcome(compiled, n) == outcome(plain, n), n
        compiled._wait()
        assert outcome(compiled, n) == outcome(plain, n), n
