"""ContextVar in captured functions: what is set is reset, or the capture ends before it; what is outside is guarded."""
import contextvars
import threading

import pytest

import cresset
from cresset import _C

outer = contextvars.ContextVar("outer", default=3)
empty = contextvars.ContextVar("empty")


def restored(x):
    token = outer.set(5)
    try:
        y = x * outer.get()
    finally:
        outer.reset(token)
    return y + outer.get()


def nested(x):
    first = outer.set(5)
    second = outer.set(7)
    y = x * outer.get()
    outer.reset(second)
    y = y + outer.get()
    outer.reset(first)
    return y + outer.get()


def two_variables(x):
    a, b = outer.set(5), empty.set(x + 1)
    y = empty.get() * outer.get()
    outer.reset(a)
    y = y + outer.get() + empty.get()
    empty.reset(b)
    return y


def helper(x):
    return x * outer.get()


def through_calls(x):
    token = outer.set(x.shape[0])
    y = helper(x)
    outer.reset(token)
    return y - helper(x)


def lists(x):
    token = outer.set([1])
    outer.get().append(x + 1)
    found = outer.get()
    outer.reset(token)
    return found


def about_the_token(x):
    token = outer.set(5)
    said = token is None, bool(token), isinstance(token, contextvars.Token)
    outer.reset(token)
    return x + 1, said


def raised(x):
    token = outer.set(5)
    try:
        try:
            raise KeyError(outer.get())
        finally:
            outer.reset(token)
    except KeyError as error:
        return x + error.args[0] + outer.get()


WHOLE = [restored, nested, two_variables, through_calls, lists, about_the_token, raised]


def stays_set(x):
    outer.set(5)
    return x * outer.get()


def half_reset(x):
    first = outer.set(5)
    second = outer.set(7)
    outer.reset(first)
    a = outer.get()
    outer.reset(second)
    b = outer.get()
    return x * a + b


def reset_twice(x):
    token = outer.set(5)
    outer.reset(token)
    try:
        outer.reset(token)
    except RuntimeError:
        return x + 1
    return x


def another_variables_token(x):
    token = outer.set(5)
    try:
        empty.reset(token)
    except ValueError:
        x = x + outer.get()
    outer.reset(token)
    return x


def behind_a_break(x):
    token = outer.set(5)
    x = x + 1
    print(end="")
    y = x * outer.get()
    outer.reset(token)
    return y + outer.get()


def without_a_value(x):
    try:
        return x + empty.get()
    except LookupError:
        return x + empty.get(9)


def token_is_given(x):
    token = outer.set(5)
    outer.reset(token)
    return x + 1, token.var is outer


def old_value(x):
    token = outer.set(5)
    old = token.old_value
    outer.reset(token)
    return x + (1 if old is contextvars.Token.MISSING else old)


BROKEN = [stays_set, half_reset, reset_twice, another_variables_token, behind_a_break, without_a_value, token_is_given,
          old_value]


def outcome(function, value):
    """What the call gives, and what the variables have then, in a context of its own."""
    def run():
        if value is not None:
            outer.set(value)
        try:
            result = function(cresset.ones(2))
        except Exception as error:
            result = error
        return repr((result, outer.get(), empty.get(None)))
    return contextvars.Context().run(run)


@pytest.mark.parametrize("switches", [{}, {"miss_once": True}, {"fail_graphs": True}, {"every": 1}, {"every": 3}],
                         ids=str)
@pytest.mark.parametrize("function", WHOLE + BROKEN, ids=lambda f: f.__name__)
def test_as_plain(function, switches):
    compiled = cresset.compile(function, backend="eager")
    _C._capture_switches(**switches)
    try:
        for value in (None, None, 4, 4, None, 11):
            assert outcome(compiled, value) == outcome(function, value), value
    finally:
        _C._capture_switches()


@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
def test_one_graph(function):
    compiled = cresset.compile(function, backend="eager", fullgraph=True)
    assert outcome(compiled, None) == outcome(function, None)


@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_ends(function):
    compiled = cresset.compile(function, backend="eager")
    outcome(compiled, None)
    assert any(entry["reason"] for entry in compiled._entries())


def test_each_thread_reads_its_own():
    compiled = cresset.compile(helper, backend="eager")
    found = {}

    def run(value):
        outer.set(value)
        for _ in range(20):
            found.setdefault(value, set()).add(compiled(cresset.ones(1)).item())
    threads = [threading.Thread(target=run, args=(n,)) for n in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: {float(n)} for n in range(2, 6)}


def test_another_variable_is_another_capture():
    a, b = contextvars.ContextVar("a", default=1), contextvars.ContextVar("b", default=2)

    def function(x, v, w):
        token = v.set(5)
        y = x * w.get()
        v.reset(token)
        return y
    compiled = cresset.compile(function, backend="eager")
    for pair in ((a, a), (a, b), (b, a), (b, b)):
        assert compiled(cresset.ones(1), *pair).item() == function(cresset.ones(1), *pair).item()
