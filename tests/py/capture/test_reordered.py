"""O5: config.reorderable_logging_functions: print, warnings and logs run behind the graph, in order."""
import io
import logging
import sys
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import cond
from cresset._dynamo import config

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
log = logging.getLogger("reordered")
told = []


def tell(*args, **kwargs):
    told.append((args, kwargs))
    return "never seen by who calls it"


def words(x):
    y = x + 1
    print("first", y.sum(), sep=": ", end=";\n")
    z = y * 2
    print("second", 3, 2.5, None, flush=True)
    return z


def in_a_callee(x):
    return words(x) + words(x * 2)


def in_a_loop(x):
    for i in range(3):
        x = x + i
        print(i, x)
    return x


def behind_a_break(x):
    print("before")
    dynamo.graph_break()
    print("behind", x + 1)
    return x * 2


def written_behind(x):
    y = x + 1
    print("old", y)
    y.add_(1)
    return y


def written_input(x):
    print("old", x)
    x.add_(1)
    return x * 1


def a_container(x):
    items = [x + 1]
    print(items)
    items.append(3)
    return items[0]


def raises(x):
    y = x + 1
    print("told", y)
    raise KeyError("then")


def a_result(x):
    return x + 1, print("nothing")


def in_a_branch(x):
    return cond(x.sum() > 0, lambda v: print("up") or v + 1, lambda v: v - 1, (x,))


# how often a capture ends by itself, printing being let behind it
PROGRAMS = {words: 0, in_a_callee: 0, in_a_loop: 0, a_result: 0, written_behind: 1, written_input: 1, a_container: 1}


def run(f, capsys):
    x = cresset.ones(2)
    try:
        result = f(x)
    except KeyError as error:
        result = repr(error)
    return str(result), x.tolist(), capsys.readouterr().out


@pytest.mark.parametrize("program", [*PROGRAMS, behind_a_break, raises, in_a_branch], ids=lambda f: f.__name__)
def test_the_same_is_told(program, capsys):
    want = run(program, capsys)
    with config.patch(reorderable_logging_functions={print}):
        compiled = cresset.compile(program, backend="eager")
        for _ in range(2):
            assert run(compiled, capsys) == want
    if program in PROGRAMS:
        reasons = [entry["reason"] for entry in compiled._entries() if entry["reason"]]
        assert len(reasons) == PROGRAMS[program], reasons


def test_whole_graphs_and_native_code(capsys):
    with config.patch(reorderable_logging_functions={print}):
        compiled = cresset.compile(words, fullgraph=True, options={"wait": True})
        for _ in range(2):
            assert run(compiled, capsys) == run(words, capsys)
    assert len(compiled._entries()) == 1
    with pytest.raises(dynamo.exc.Unsupported, match="print"):
        cresset.compile(words, fullgraph=True, backend="eager")(cresset.ones(2))


def test_functions_methods_warnings_and_logs(caplog):
    def program(x):
        tell(x.sum(), level=2)
        log.info("sum %s", x.sum())
        warnings.warn("careful")
        return x + 1
    told.clear()
    with config.patch(reorderable_logging_functions={tell, log.info, warnings.warn}), caplog.at_level(logging.INFO):
        compiled = cresset.compile(program, backend="eager", fullgraph=True)
        with pytest.warns(UserWarning, match="careful"):
            assert compiled(cresset.ones(2)).tolist() == [2, 2]
    assert [(args[0].item(), kwargs) for args, kwargs in told] == [(2.0, {"level": 2})]
    assert [record.getMessage() for record in caplog.records] == ["sum tensor(2.)"]


def test_changes_come_first_and_calls_in_order():
    state = {"n": 0}

    def look(tag):
        told.append((tag, state["n"]))

    def program(x):
        look("a")
        state["n"] = 1
        look("b")
        return x + 1
    told.clear()
    with config.patch(reorderable_logging_functions={look}):
        cresset.compile(program, backend="eager", fullgraph=True)(cresset.ones(1))
    assert told == [("a", 1), ("b", 1)]  # documented: who looks sees what there is at the end


def test_the_set_is_read_when_something_is_captured():
    functions = set()
    with config.patch(reorderable_logging_functions=functions):
        functions.add(print)
        out = io.StringIO()
        compiled = cresset.compile(lambda x: (print("a", file=sys.stderr), x + 1)[1], backend="eager", fullgraph=True)
        before, sys.stderr = sys.stderr, out
        try:
            compiled(cresset.ones(1))
        finally:
            sys.stderr = before
        assert out.getvalue() == "a\n"
        functions.clear()
        with pytest.raises(dynamo.exc.Unsupported, match="print"):
            cresset.compile(words, backend="eager", fullgraph=True)(cresset.ones(1))
