"""A sample of `./dev test --full cpython`: a few of CPython's own tests with every function captured, and what they
found."""
import enum
import pathlib
import sys

import pytest

import cresset
from cresset import _C

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "full"))
import cpython  # noqa: E402



@pytest.mark.parametrize("name", ["test_with", "test_super", "test_unpack", "test_property", "test_patma"])
def test_own_tests(name):
    if not cpython.is_there(name):
        pytest.skip(f"this installation of Python does not have test.{name}")
    plain, _ = cpython.outcomes(name)
    captured, counts = cpython.outcomes(name, captured=True)
    assert plain and not cpython.differences(plain, captured)
    assert counts["frames"] > counts["whole"] > 0 and counts["plain"]


@pytest.mark.parametrize("name", ["test_yield_from", "test_coroutines"])
def test_own_tests_with_their_functions_compiled(name):
    if not cpython.is_there(name):
        pytest.skip(f"this installation of Python does not have test.{name}")
    plain, _ = cpython.outcomes(name)
    compiled, _ = cpython.outcomes(name, compiled=True)
    assert len(plain) > 20 and not cpython.differences(plain, compiled)


def test_everything_is_counted():
    def inner(a):
        return a + 1

    def outer(a):
        return inner(a) * 2
    result, counts = _C._capture_all(lambda: [outer(1) for _ in range(3)])
    assert result == [4, 4, 4]
    assert counts["frames"] == counts["whole"] + counts["broken"] + sum(counts["plain"].values())
    assert counts["whole"] >= 1


def test_everything_leaves_exceptions_as_they_are():
    def fails(a):
        return 1 // a
    with pytest.raises(ZeroDivisionError):
        _C._capture_all(fails, 0)


class Printed(enum.IntEnum):
    A = 5

    def __repr__(self):
        return "other"


class MadeWith:
    def __new__(cls, *args):
        return object.__new__(cls, *args)


class Cleared(int):
    def __del__(self):
        SHARED.clear()


SHARED = {}
NESTED = []
for _ in range(5000):
    NESTED = [NESTED]
LOOP = []
LOOP.append(LOOP)


def text_of_an_enumeration(x):
    return str(Printed.A), f"{Printed.A}", x + 1


def text_with_format(x):
    return f"{MadeWith():>10}", x


def new_with_arguments(x):
    return MadeWith(1), x


def deep(x):
    return len(NESTED), x + 1


def deep_made(x):
    a = {}
    for _ in range(5000):
        a = {1: a}
    return type(a), x + 1


def in_itself(x):
    return LOOP[0] is LOOP, x + 1


def huge(x):
    try:
        return [0] * (1 << 62)
    except MemoryError:
        return x + 1


def contexts_in_a_circle(x):
    try:
        try:
            raise KeyError(1)
        except KeyError as first:
            first.__context__ = second = IndexError(2)
            second.__context__ = first
            raise TypeError(3)
    except TypeError as last:
        return type(last.__context__), x + 1


def other_traceback(x):
    try:
        KeyError().__traceback__ = 5
    except TypeError as error:
        return str(error), x + 1


def recursion(x, n=20000):
    return x if not n else recursion(x, n - 1)


def recursion_without_end(x):
    def again():
        try:
            raise KeyError
        except KeyError:
            again()
    try:
        again()
    except RecursionError:
        return x + 1


def iterated_and_changed(x):
    d = {k: Cleared(k) for k in range(8)}
    SHARED.clear()
    SHARED.update(d)
    del d
    for key in SHARED:
        if key == 2:
            SHARED[2] = None
    return x


class OwnDict(dict):
    pass


class OwnList(list):
    pass


def methods_of_own_containers(x):
    d, items = OwnDict(), OwnList([1])
    append, keys = items.append, d.keys()
    cresset._dynamo.graph_break()
    d["k"] = 1
    append(2)
    return list(keys), items, type(items).__name__, x + 1


def changed_while_gone_through(x):
    d = {0: 0}
    for _ in d:
        cresset._dynamo.graph_break()
        del d[0]
        d[0] = 0
    return x


def grown_while_gone_through(x):
    d = {0: 0}
    for k in d:
        cresset._dynamo.graph_break()
        d[k + 1] = 0
    return x


def gone_through(x):
    d, seen = {"p": 1, "q": 2, "r": 3}, []
    for k, v in d.items():
        cresset._dynamo.graph_break()
        d[k] = v + 1
        seen.append((k, v))
    return seen, d, x + 1


def text_of_a_class(x):
    class Described:
        @classmethod
        @property
        def __doc__(cls):
            return "described"
    cresset._dynamo.graph_break()
    return Described.__doc__ if not isinstance(Described.__doc__, str) else "described", x + 1


PROGRAMS = [text_of_an_enumeration, text_with_format, new_with_arguments, deep, deep_made, in_itself, huge,
            contexts_in_a_circle, other_traceback, recursion, recursion_without_end, iterated_and_changed,
            methods_of_own_containers, changed_while_gone_through, grown_while_gone_through, gone_through,
            text_of_a_class]


def outcome(f):
    try:
        return str(f(cresset.ones(2)))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_plain(program):
    compiled = cresset.compile(program, backend="eager")
    expected = outcome(program)
    assert [outcome(compiled) for _ in range(2)] == [expected] * 2


def test_changed_dicts_keep_their_place():
    """Whoever goes through a dict while compiled code changes a value goes on where he is."""
    d = {k: k for k in range(6)}
    del d[0]
    seen = []

    @cresset.compile(backend="eager")
    def change(d, x):
        d[3] = d[3] + 10
        return x + 1
    for key in d:
        seen.append(key)
        change(d, cresset.ones(2))
    assert seen == [1, 2, 3, 4, 5] and d[3] == 53


def test_removed_and_added_items():
    @cresset.compile(backend="eager", fullgraph=True)
    def change(d, x):
        d.popitem()
        del d["a"]
        d["b"] = d.pop("b") + 1
        d["new"] = 1
        return x + 1
    d = {"a": 1, "b": 2, "c": 3, "d": 4}
    change(d, cresset.ones(2))
    assert list(d.items()) == [("c", 3), ("b", 3), ("new", 1)]


def test_import_of_a_package_module(tmp_path, monkeypatch):
    """`from package import module` inside of a function imports the module, relative names too."""
    folder = tmp_path / "capture_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("def f(x):\n    from capture_package import part\n    return x + part.N\n"
                                        "def g(x):\n    from .part import N\n    from . import part\n"
                                        "    return x + N + part.N\n")
    (folder / "part.py").write_text("N = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import capture_package
    f = cresset.compile(capture_package.f, backend="eager")
    g = cresset.compile(capture_package.g, backend="eager", fullgraph=True)
    assert f(cresset.zeros(1)).item() == 3 and f(cresset.zeros(1)).item() == 3
    assert g(cresset.zeros(1)).item() == 6
    capture_package.part.N = 4
    assert g(cresset.zeros(1)).item() == 8
