"""E3, capture.md 1, 2, 4: frames entered in the middle; the hook is on only while it is needed."""
import dis
import pathlib
import subprocess
import sys
import threading
import traceback

import pytest

FOLDERS = [pathlib.Path(__file__).parent, pathlib.Path(__file__).parents[2] / "full"]
sys.path[:0] = map(str, FOLDERS)
import reentry_programs as programs  # noqa: E402
import reentry  # noqa: E402

from cresset import _C  # noqa: E402


@pytest.mark.parametrize("function, make_args", programs.PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_every_instruction(function, make_args):
    right, wrong = reentry.check(function, make_args)
    assert not wrong
    assert right > 3
    assert not _C._hook_is_set()


def test_entry_counts_instructions():
    def f(a):
        return a + 1
    assert len(reentry.entered(f, lambda: (1,))) == 1 + sum(
        i.opname not in ("RESUME", "CACHE", "EXTENDED_ARG") for i in dis.get_instructions(f))


def test_enter_by_raising():
    """throwflag: the error is raised at the instruction, in the frame, with its line and handlers."""
    def f(log):
        try:
            log.append("body")
            log.append("more")
        except ValueError as error:
            log.append((str(error), error.__traceback__.tb_lineno - f.__code__.co_firstlineno))
        return log
    seen = set()
    for n in range(40):
        entered = []
        try:
            log = reentry.reenter(f, ([],), {}, n, entered, ValueError("thrown"))
        except ValueError as error:  # before the try begins, or behind it
            assert [*traceback.walk_tb(error.__traceback__)][-1][0].f_code is f.__code__
            continue
        if not entered:
            break
        seen.add(tuple(map(str, log)))
    assert ("('thrown', 2)",) in seen and ("body", "('thrown', 3)") in seen


def test_frame_is_the_users():
    """At the instruction after the entry locals() and sys._getframe() see the function's own frame."""
    def f(a):
        b = a + 1
        frame = sys._getframe()
        return frame.f_code is f.__code__, sorted(locals()), frame.f_locals["b"], b
    for n in range(5):  # up to the call of _getframe()
        assert reentry.reenter(f, (1,), {}, n, [])[0::2] == (True, 2)


def test_deep_recursion_under_the_hook():
    code = """
import sys
sys.path[:0] = PATHS
import reentry
from cresset import _C
sys.setrecursionlimit(80_000)
def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
def f(n):
    return deep(n)
entered = []
assert reentry.reenter(f, (50_000,), {}, 3, entered) == 50_000 and entered
assert not _C._hook_is_set()
"""
    code = code.replace("PATHS", repr([*map(str, FOLDERS)]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_other_threads_fall_through():
    results = []

    def other():
        results.append(sum(programs.fib(k) for k in range(10)))

    def f():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return len(results)
    assert reentry.reenter(f, (), {}, 2, []) == 1
    assert results == [88]


def test_errors_put_the_hook_back():
    def f(d):
        return d["k"]
    with pytest.raises(KeyError):
        reentry.reenter(f, ({},), {}, 1, [])
    assert not _C._hook_is_set()


def test_nested_activations():
    def inner(a):
        return a * 2

    def outer(a):
        return reentry.reenter(inner, (a,), {}, 2, []) + 1
    for n in range(8):
        assert reentry.reenter(outer, (4,), {}, n, []) == 9
    assert not _C._hook_is_set()
