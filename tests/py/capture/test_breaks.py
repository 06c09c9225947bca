"""capture.md 1, 11: where capture ends, the graph of what came before runs and CPython goes on in the function's own
frame."""
import functools
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_capture  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402

compile = functools.partial(cresset.compile, backend="eager")
LOG = []


def prints(a, log):
    b = a * 2 + 1
    log.append("before")
    print("middle", b.shape[0])
    log.append("after")
    return b * 3, log


def branches(a, log):
    b = (a * 2).sum()
    if b > 0:
        log.append("positive")
        return a + b
    log.append("negative")
    return a - b


def items(a, log):
    b = a + 1
    n = int(b.abs().sum().item())
    log.append(n)
    return b * n


def raises(a, log):
    b = a + 1
    log.append("made")
    if b.dim() == 2:
        raise ValueError("two dimensions")
    return b


def fails(a, log):
    b = a + 1
    log.append("made")
    c = b @ b
    return c


def handles(a, log):
    b = a * 2
    try:
        c = b + 1
        log.append("in try")
        d = c @ c
        return d
    except RuntimeError as error:
        log.append((type(error).__name__, error.__traceback__.tb_lineno - handles.__code__.co_firstlineno))
        return c
    finally:
        log.append("finally")


def cells(a, log):
    n = a.shape[0]
    b = a * n
    print("n", n)

    def inner(k):
        nonlocal n
        n += k
        return b + n
    return inner(2), n


def frames(a, log):
    b = a + 1
    names = sorted(locals())
    log.append((names, sys._getframe().f_code.co_name, sys._getframe().f_locals["b"] is b))
    return b


def loops(a, log):
    b = a + 1
    for k in range(3):
        print(k)
        b = b + k
    return b


def whiles(a, log):
    b, n = a + 1, 0
    while b.sum() < 100:
        b = b * 2
        n += 1
    return b, n


def stacks(a, log):
    return (a + 1, [a * 2, {"k": (a - 1, print("deep"))}], log)


def attributes(a, log):
    b = a + 1
    return b, b.grad_fn is None, b.requires_grad


def texts(a, log):
    b = a.sum() * 0
    return f"{b.shape} {float(b)}"


def objects(a, log):
    b = a + 1
    p = pathlib.PurePosixPath("x") / "y"
    return b, str(p)


# function -> ops of the graph before the first break; None: all of it runs plain
BREAKS = {prints: 2, branches: 3, items: 3, raises: 1, fails: 1, handles: 2, cells: 1, frames: 1,
          loops: 1, whiles: 3, stacks: 3, attributes: 1, texts: 2, objects: 1}
if sys.version_info >= (3, 13):  # one instruction compares and asks for the truth: the comparison runs plain, too
    BREAKS.update({branches: 2, whiles: 2})


@pytest.fixture(params=["", "miss_once", "fail_graphs"])
def switch(request):
    if request.param:
        _C._capture_switches(**{request.param: True})
    yield request.param
    _C._capture_switches()


@pytest.mark.filterwarnings("ignore:.*captured 8 times")
@pytest.mark.parametrize("function", BREAKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sign", [1, -1])
def test_as_plain(function, sign, switch, capsys):
    compiled = compile(function)
    for _ in range(3):
        shown = []
        for run in (compiled, function):
            args = (cresset.arange(6.0).reshape(2, 3) * sign, [])
            shown.append((test_capture.outcome(run, args), lines_of(run, function), capsys.readouterr().out))
        assert shown[0] == shown[1]
    assert not _C._hook_is_set()
    entry = compiled._entries()[0]
    assert entry["reason"]
    assert entry["resumes"] == (BREAKS[function] is not None)
    if entry["resumes"]:
        assert entry["ops"] == BREAKS[function]


def lines_of(run, function):
    """Lines of the traceback inside the function."""
    try:
        run(cresset.arange(6.0).reshape(2, 3), [])
    except Exception as error:
        trace, lines = error.__traceback__, []
        while trace:
            if trace.tb_frame.f_code is function.__code__:
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        return lines
    return None


def test_tracing_runs_plain():
    """14: somebody who watches frames sees all of them."""
    compiled, events = compile(branches), []
    a = cresset.ones(2)
    compiled(a, [])

    def tracer(frame, event, arg):
        if frame.f_code is branches.__code__:
            events.append(event)
        return tracer
    sys.settrace(tracer)
    try:
        compiled(a, [])
    finally:
        sys.settrace(None)
    assert events[0] == "call" and events.count("line") == 4


def test_recursion_through_a_break(capsys):
    def f(a, n):
        b = a + n
        print(n, end="")
        return b if n == 0 else compiled(b, n - 1)
    compiled = _C._Compiled(f, None, None, 100)
    assert compiled(cresset.zeros(1), 5).item() == 15
    assert compiled(cresset.zeros(1), 5).item() == 15
    assert capsys.readouterr().out == "543210" * 2


def test_deep_plain_recursion_after_a_break():
    """23."""
    import subprocess
    code = """
import sys, cresset
sys.setrecursionlimit(80_000)
def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
@cresset.compile(backend="eager")
def f(a):
    b = a + 1
    print(deep(50_000))
    return b
for _ in range(2):
    assert f(cresset.zeros(1)).item() == 1
assert f._entries()[0]["resumes"]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "50000\n" * 2, done.stderr


def test_gradients_through_a_break(capsys):
    def f(w):
        b = w * 2
        print("x")
        return (b * w).sum()
    w = cresset.ones(3, requires_grad=True)
    compiled = compile(f)
    for _ in range(2):
        w.grad = None
        compiled(w).backward()
        assert w.grad.tolist() == [4, 4, 4]
    assert compiled._entries()[0]["resumes"]
