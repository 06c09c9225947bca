"""What a captured call writes to the caller's tensors it writes once, whatever fails at whatever point of the call: an
exception after the first write is raised, and nothing is run again."""
import signal
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
from cresset._torch import opaque, running, stages  # noqa: E402

FILES = {m.__file__ for m in (running, stages, opaque)}


@torch.library.custom_op("cresset_failures::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def views(x, y):
    x.add_(1)
    y.mul_(2)
    return x[1:], y.t(), x * y


def detached(x, y):
    x.add_(1)
    return x.detach()[1:], x.detach()


def with_history(x, y):
    x.mul_(3)
    y.add_(x)
    return x[1:], (x * y).sum()


def draws(x, y):
    x.add_(torch.rand(x.shape))
    return x[:2], y + 1


def behind_torchs_op(x, y):
    z = twice(y)
    x.add_(z)
    return x[1:], z


def counted(x, y):
    made = y + 1
    made.add_(x)
    x.sub_(1)
    return made, made[0], x


PROGRAMS = {f.__name__: f for f in (views, detached, with_history, draws, behind_torchs_op, counted)}
CASES = [(name, grads) for name in PROGRAMS for grads in ((False, True) if name == "with_history" else (False,))]


class Ours(Exception):
    """No class of Python's own."""


class Subclass(torch.Tensor):
    """An input that refuses to be looked at."""
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise Ours(func)


def inputs(grads):
    torch.manual_seed(7)
    x, y = torch.arange(12.).reshape(3, 4), torch.linspace(1, 2, 12).reshape(3, 4)
    return (x.requires_grad_() * 1, y.requires_grad_() * 1) if grads else (x, y)


def state(tensors):
    return [(t.tolist(), t._version) for t in tensors]


def strike(call, k, error):
    """Raises `error` at the k-th line that is run in the files above. (raised, reached?)"""
    left = [k]

    def line(frame, event, arg):
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise error
        return line

    def trace(frame, event, arg):  # (in carry_out() it would be the op that raised it)
        own = frame.f_code.co_filename in FILES and frame.f_code is not opaque.carry_out.__code__
        return line if own else None
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
        raised = None
    except BaseException as found:
        raised = found
    finally:
        sys.settrace(before)
    return raised, left[0] <= 0


def assert_once(name, tensors, whole, grads):
    """Each tensor is as before, or as one whole call leaves it; its version may lag behind."""
    for (now, version), (old, first), (new, last) in zip(state(tensors), state(inputs(grads)), whole):
        assert now in (old, new), name
        assert first <= version <= last


@pytest.mark.parametrize("error", [Ours("struck"), MemoryError("struck"), KeyboardInterrupt("struck")],
                         ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("name,grads", CASES)
def test_what_is_raised_at_any_line_of_a_call_is_raised_and_writes_nothing_twice(name, grads, error):
    compiled = cresset.compile(PROGRAMS[name], fullgraph=True)
    given = inputs(grads)
    expected = PROGRAMS[name](*given)
    whole = state(given)
    compiled(*inputs(grads))
    written = 0
    for k in range(1, 500):
        given = inputs(grads)
        raised, reached = strike(lambda: compiled(*given), k, error)
        if not reached:
            break
        assert raised is error
        assert_once(name, given, whole, grads)
        written += state(given) != state(inputs(grads))
    assert not reached and written >= 2  # lines behind the first write were struck, too
    given = inputs(grads)
    results = compiled(*given)
    assert state(given) == whole
    for ours, theirs in zip(results, expected):
        torch.testing.assert_close(ours, theirs)
    assert compiled._counts()["failed"] == 0


@pytest.mark.parametrize("method", ["as_strided", "copy_", "detach", "permute", "storage_offset", "is_inference"])
@pytest.mark.parametrize("name,grads", CASES)
def test_a_call_of_torch_that_fails(name, grads, method, monkeypatch):
    """A function in C in its place raises, and no Python has seen it: before the first write the call runs plain."""
    compiled = cresset.compile(PROGRAMS[name])
    given = inputs(grads)
    PROGRAMS[name](*given)
    whole = state(given)
    compiled(*inputs(grads))
    given = inputs(grads)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, method, divmod)
        try:
            compiled(*given)
        except TypeError:
            pass
    assert_once(name, given, whole, grads)


def test_increment_version_fails(monkeypatch):
    compiled = cresset.compile(views)
    compiled(*inputs(False))
    given = inputs(False)
    monkeypatch.setattr(torch.autograd.graph, "increment_version", divmod)
    with pytest.raises(TypeError):
        compiled(*given)
    plain = inputs(False)
    views(*plain)
    assert given[0].tolist() == plain[0].tolist()


@pytest.mark.parametrize("grads", [False, True])
def test_hooks_that_fail(grads):
    """Of gradients that reach an input that was written; and what packs saved tensors."""
    compiled, seen = cresset.compile(with_history), []

    def fail(grad):
        seen.append(grad)
        raise Ours("hook")
    x, y = inputs(True)
    x.register_hook(fail)
    compiled(x, y)
    once = inputs(True)
    with_history(*once)
    assert x.tolist() == once[0].tolist()
    results = compiled(*inputs(True))
    results[1].register_hook(fail)
    with pytest.raises(Ours):
        results[1].backward()
    assert len(seen) == 1
    given = inputs(grads)
    with torch.autograd.graph.saved_tensors_hooks(fail, lambda t: t):
        try:
            compiled(*given)
        except Ours:
            assert grads
    whole = inputs(grads)
    with_history(*whole)
    assert_once("hooks", given, state(whole), grads)


def test_a_subclass_that_raises():
    compiled = cresset.compile(views)
    compiled(*inputs(False))
    x, y = inputs(False)
    before = y.tolist()
    with pytest.raises(Ours):
        compiled(x, y.as_subclass(Subclass))
    assert x.tolist() == (inputs(False)[0] + 1).tolist() and y.tolist() == before  # as plain


def test_the_generator_is_where_plain_calls_leave_it_when_torchs_op_fails_behind_a_draw():
    @torch.library.custom_op("cresset_failures::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 100:
            raise Ours("too much")
        return x + 1

    @picky.register_fake
    def _(x):
        return torch.empty_like(x)

    def f(x):
        return picky(torch.rand(3) + x) * torch.rand(3)
    compiled = cresset.compile(f, fullgraph=True)
    compiled(torch.zeros(3))
    after = []
    for call in (f, compiled):
        torch.manual_seed(3)
        with pytest.raises(Ours):
            call(torch.full((3,), 50.))
        after.append(torch.get_rng_state())
    assert torch.equal(*after) and compiled._counts()["failed"] == 1


def test_a_handler_of_signals_is_heard():
    """It runs wherever Python does, also between the halves of a call: what it raises is nobody's failure."""
    def f(x):
        x.add_(1)
        return x[1:]

    def ring(number, frame):
        raise TimeoutError("time is over")
    compiled = cresset.compile(f)
    x = torch.zeros(20000)
    compiled(x)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for wait in (0.001, 0.0017, 0.0023, 0.0031, 0.0043):
            x.zero_()
            calls, end = 0, time.monotonic() + 30
            with pytest.raises(TimeoutError):
                signal.setitimer(signal.ITIMER_REAL, wait)
                while time.monotonic() < end:
                    compiled(x)
                    calls += 1
            assert calls <= x[0].item() <= calls + 1 and bool((x == x[0]).all())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
