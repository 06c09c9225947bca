"""What captures know of the standard library, where the world around a call changes."""
import collections
import contextlib
import copy
import functools
import sys
from typing import List, Optional

import cresset


def reasons(compiled):
    return [entry["reason"] for entry in compiled._entries() if entry["reason"]]


def test_exception_handled_around_the_call():
    def f(x):
        return sys.exc_info()[0], x + 1
    compiled = cresset.compile(f, backend="eager")
    x = cresset.ones(2)
    assert compiled(x)[0] is None and not reasons(compiled)
    try:
        raise KeyError("around")
    except KeyError:
        assert compiled(x)[0] is KeyError
    assert compiled(x)[0] is None


def test_exit_stack_while_an_exception_is_handled():
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 1)
            x = x + len(log)
        return x, list(log)
    compiled = cresset.compile(f, backend="eager")
    x = cresset.ones(2)
    for _ in range(2):
        assert compiled(x, [])[1] == [1]
        try:
            raise KeyError("around")
        except KeyError:
            assert compiled(x, [])[1] == [1]


def test_defaultdict_is_made_anew_in_every_call():
    def f(x):
        d = collections.defaultdict(list)
        d["a"].append(x)
        return d
    compiled = cresset.compile(f, backend="eager", fullgraph=True)
    first, second = compiled(cresset.ones(2)), compiled(cresset.ones(2))
    assert type(first) is collections.defaultdict and first.default_factory is list
    assert first is not second and first["a"] is not second["a"]
    assert first["z"] == [] and "z" not in second


def test_copy_is_nothing_of_the_original():
    table = {"a": [1, 2]}

    def f(x):
        made = copy.deepcopy(table)
        made["a"].append(len(made["a"]))
        return made, x * sum(made["a"])
    compiled = cresset.compile(f, backend="eager", fullgraph=True)
    x = cresset.ones(2)
    for _ in range(3):
        made, value = compiled(x)
        assert made == f(x)[0] and cresset.equal(value, f(x)[1]) and made["a"] is not table["a"]
        table["a"].append(7)


def test_annotations_of_a_wrapper_are_those_of_what_it_wraps():
    def wrapped(a: float, b: int = 3):
        return a + b

    def program(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper

    run = cresset.compile(program, backend="eager")
    first, second = run(wrapped), run(wrapped)
    assert first.__annotations__ is wrapped.__annotations__ is second.__annotations__ and first is not second


def test_annotations_made_inside_are_new_in_every_call():
    def program():
        def made(a: int):
            return a
        made.__annotations__["b"] = float
        return made

    run = cresset.compile(program, backend="eager")
    first, second = run(), run()
    first.__annotations__["c"] = str
    assert second.__annotations__ == {"a": int, "b": float} == run().__annotations__


def test_what_typing_keeps_is_passed_on():
    List[cresset.Tensor], Optional[int], List[int], List[str]  # as the annotations of a program do

    def annotated(kind, value):
        return value

    def f(x):
        found = annotated(List[cresset.Tensor], [])
        found.append(x + 1)
        return found, List[cresset.Tensor], Optional[int] is Optional[int], List[int] == List[str]
    compiled = cresset.compile(f, backend="eager")
    f(cresset.ones(2))
    for _ in range(2):
        got, want = compiled(cresset.ones(2)), f(cresset.ones(2))
        assert got[0][0].tolist() == want[0][0].tolist() and got[1:] == want[1:] and got[1] is List[cresset.Tensor]
    assert not reasons(compiled)


def test_what_typing_keeps_is_not_looked_into():
    def f(x):
        kind = List[cresset.Tensor]
        return x + len(kind.__args__), str(kind), isinstance(kind, type), type(kind), {kind: 1}, hash(kind)
    compiled = cresset.compile(f, backend="eager")
    for _ in range(2):
        got, want = compiled(cresset.ones(2)), f(cresset.ones(2))
        assert got[0].tolist() == want[0].tolist() and got[1:] == want[1:]
    assert reasons(compiled)


def test_a_cache_that_gives_objects_keeps_its_meaning():
    class Kept:
        pass

    made = []

    @functools.lru_cache(maxsize=1)
    def remember(n):
        made.append(n)
        return Kept()

    def f(x, n):
        return x + n, remember(n)
    compiled = cresset.compile(f, backend="eager")
    one = remember(1)
    assert compiled(cresset.ones(1), 1)[1] is one is compiled(cresset.ones(1), 1)[1]
    two = compiled(cresset.ones(1), 2)[1]
    assert two is not one and remember(2) is two and made == [1, 2]
    assert compiled(cresset.ones(1), 1)[1] is not one and made == [1, 2, 1]
