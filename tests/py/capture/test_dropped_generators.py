"""Generators that are dropped before their end: CPython closes them, which runs what is in `try` and `with`."""
from collections.abc import Sequence

import pytest

import cresset
from cresset import _C

log = []


class Numbers(Sequence):
    def __getitem__(self, index):
        if index >= 5:
            raise IndexError(index)
        return index + 1

    def __len__(self):
        return 5


def passes():
    try:
        try:
            yield 1
            yield 2
        except KeyError:
            log.append("key")
        except ValueError:
            log.append("value")
    except Exception:
        log.append("exception")


def ends():
    try:
        yield 1
        yield 2
    finally:
        log.append("finally")


def exits():
    try:
        yield 1
        yield 2
    except GeneratorExit:
        log.append("exit")
        raise


def bases():
    try:
        try:
            yield 1
            yield 2
        except KeyError:
            log.append("key")
    except BaseException:
        log.append("base")
        raise


def bare():
    try:
        yield 1
        yield 2
    except:  # noqa: E722
        log.append("bare")


class Noted:
    def __enter__(self):
        return 1

    def __exit__(self, *exception):
        log.append(exception[0].__name__)


def managed():
    with Noted() as number:
        yield number
        yield 2


def tuples():
    try:
        yield 1
        yield 2
    except (KeyError, GeneratorExit):
        log.append("tuple")


Renamed = GeneratorExit


def renamed():
    try:
        yield 1
        yield 2
    except Renamed:
        log.append("renamed")


def zipped(make):
    def function(x):
        for a, b in zip([3], make()):
            x = x * a + b
        log.append("behind")
        return x
    return function


def first(make):
    def function(x):
        y = x + next(iter(make()))
        log.append("behind")
        return y
    return function


def outcome(function):
    log.clear()
    return function(cresset.ones(2)).tolist(), list(log)


MAKERS = [Numbers, passes, ends, exits, bases, bare, managed, tuples, renamed]


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("use", [zipped, first])
@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_as_plain(make, use, every):
    function = use(make)
    compiled = cresset.compile(function, backend="eager")
    _C._capture_switches(every=every)
    try:
        for _ in range(2):
            assert outcome(compiled) == outcome(function)
    finally:
        _C._capture_switches()


@pytest.mark.parametrize("use", [zipped, first])
@pytest.mark.parametrize("make", [Numbers, passes], ids=lambda f: f.__name__)
def test_one_graph_where_nothing_runs(make, use):
    compiled = cresset.compile(use(make), backend="eager", fullgraph=True)
    assert outcome(compiled) == outcome(use(make))


def test_what_a_name_stands_for_is_guarded():
    def function(x):
        return x + next(iter(passes()))
    compiled = cresset.compile(function, backend="eager")
    assert outcome(compiled) == outcome(function)
    passes.__globals__["KeyError"] = GeneratorExit
    try:
        assert outcome(compiled) == outcome(function) == ([2.0, 2.0], ["key"])
    finally:
        del passes.__globals__["KeyError"]
    assert outcome(compiled) == outcome(function) == ([2.0, 2.0], [])
