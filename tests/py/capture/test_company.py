"""capture.md 14: threads, signals, tracing, monitoring and fork beside compiled functions with breaks."""
import functools
import os
import pathlib
import signal
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "full"))
import threads  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402

compile = functools.partial(cresset.compile, backend="eager")


def steps(a, n):
    for k in range(n):
        a = a + 1
        id(a)
    return a * 2


@pytest.mark.filterwarnings(r"ignore:.*captured \d+ times")
def test_threads_for_two_seconds():
    """A sample of `./dev test --full threads`."""
    calls, wrong = threads.run(2)
    assert not wrong and calls > 50 and not _C._hook_is_set()


def test_control_c_while_capturing():
    """Ctrl-C while a long function is captured raises, and what was captured before and is captured later works."""
    def long(a, n):
        total = 0
        for k in range(n):
            total += k
        return a + total
    compiled = compile(long)
    assert compiled(cresset.zeros(1), 3).item() == 3
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
    try:
        for delay in (0.001, 0.003, 0.01):
            thread, end = threading.Timer(delay, signal.raise_signal, [signal.SIGINT]), time.monotonic() + 60
            with pytest.raises(KeyboardInterrupt):
                thread.start()
                while time.monotonic() < end:  # until the signal comes
                    compiled._reset()
                    compiled(cresset.zeros(1), 5_000)
            thread.join()
            assert compiled(cresset.zeros(1), 4).item() == 6
            assert compiled(cresset.zeros(1), 4).item() == 6 and not _C._hook_is_set()
    finally:
        signal.signal(signal.SIGINT, before)


def events_of(run, *args):
    """What sys.settrace shows of the function's own frames."""
    found = []

    def tracer(frame, event, arg):
        if frame.f_code is steps.__code__:
            found.append((event, frame.f_lineno))
        return tracer
    sys.settrace(tracer)
    try:
        result = run(*args)
    finally:
        sys.settrace(None)
    return result.tolist(), found


def test_settrace_sees_every_line():
    compiled = compile(steps)
    for _ in range(2):
        compiled(cresset.zeros(1), 3)
    assert events_of(compiled, cresset.zeros(1), 3) == events_of(steps, cresset.zeros(1), 3)
    for _ in range(2):  # from 3.12 on the first finds instructions of the tracer in the code
        before = compiled._counts()["breaks"]
        assert compiled(cresset.zeros(1), 3).item() == 6
    assert compiled._counts()["breaks"] > before


def test_tracing_begun_at_a_break():
    found = []

    def begin():
        sys.settrace(lambda *_: None)
        sys._getframe(1).f_trace = lambda frame, event, arg: found.append(event)

    def f(a):
        b = a + 1
        begin()
        c = b * 2
        return c
    for run in (f, compile(f)):
        found.clear()
        try:
            assert run(cresset.ones(1)).item() == 4
        finally:
            sys.settrace(None)
        assert "return" in found and found.count("line") >= 2


if sys.version_info >= (3, 12):  # sys.monitoring came with it
    def test_monitoring_sees_every_line():
        monitoring, compiled = sys.monitoring, compile(steps)
        for _ in range(2):
            compiled(cresset.zeros(1), 3)
        seen = []
        for run in (steps, compiled):
            lines = []
            monitoring.use_tool_id(3, "cresset's test")
            monitoring.register_callback(3, monitoring.events.LINE, lambda code, line, to=lines: to.append(line))
            monitoring.register_callback(3, monitoring.events.PY_RETURN, lambda *_, to=lines: to.append("end"))
            monitoring.set_local_events(3, steps.__code__, monitoring.events.LINE | monitoring.events.PY_RETURN)
            try:
                assert run(cresset.zeros(1), 3).item() == 6
            finally:
                monitoring.set_local_events(3, steps.__code__, 0)
                monitoring.free_tool_id(3)
            seen.append(lines)
        assert seen[0] == seen[1] and len(seen[0]) > 8 and seen[0][-1] == "end"
        for _ in range(2):  # the first finds instructions of the tool in the code
            before = compiled._counts()["breaks"]
            assert compiled(cresset.zeros(1), 3).item() == 6
        assert compiled._counts()["breaks"] > before


def test_fork_in_the_middle():
    """A child that a break forks goes on in its own frame; it and its parent capture and call as before."""
    def f(a, read, write):
        b = a + 1
        child = os.fork()
        c = b * 2
        if not child:
            os.write(write, f"{c.item()} {compile(steps)(c, 2).item()}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        return c, os.read(read, 100)
    compiled = compile(f)
    for _ in range(2):
        read, write = os.pipe()
        try:
            result, said = compiled(cresset.ones(1), read, write)
        finally:
            os.close(read), os.close(write)
        assert result.item() == 4 and said == b"4.0 12.0"


def test_fork_beside_threads():
    """Another thread captures and runs while this one forks: the child's compiled functions work."""
    compiled, stop = compile(steps), []

    def work():
        while not stop:
            compiled._reset()
            compiled(cresset.zeros(1), 3)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if not child:
                right = steps(cresset.zeros(1), 3).item() == compile(steps)(cresset.zeros(1), 3).item() == 6
                os._exit(0 if right else 1)
            deadline = time.monotonic() + 60
            while True:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    break
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    pytest.fail("the child hangs")
                time.sleep(0.01)
            assert status == 0
    finally:
        stop.append(True)
        thread.join()
