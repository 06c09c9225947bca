"""Functions of torch's that take functions: cond(), while_loop(), map(), scan(), associative_scan() and checkpoint()
are part of the captured graph; transforms of torch.func are torch's. Values and gradients are plain PyTorch's."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
from torch._higher_order_ops import associative_scan, map as map_, scan, while_loop  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

WEIGHT = torch.linspace(-1.0, 1.0, 9).reshape(3, 3)


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() @ WEIGHT, lambda x: x.cos(), (x,)) + 1


def branches_in_branches(x):
    def inner(x):
        return torch.cond(x.max() > 2, lambda x: x * 3, lambda x: x - 1, (x,))
    return torch.cond(x.sum() > 0, inner, lambda x: x.cos(), (x * 2,))


def loops(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2 + i), (torch.zeros((), dtype=torch.int64), x))[1]


def maps(x):
    return map_(lambda row, w: row * w + 1, x, WEIGHT[0])


def scans(x):
    last, every = scan(lambda carry, row: (carry + row, carry * 2), x[0] * 0, x)
    return last + every.sum(0)


def scans_by_halves(x):
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")


def checkpoints(x):
    return checkpoint(lambda a, k: (a.sin() @ WEIGHT).exp() * k, x, 2.0, use_reentrant=False) * 2


def checkpoints_of_modules(x):
    return checkpoint(MODEL, x, use_reentrant=False).relu()


MODEL = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
# what eager PyTorch differentiates
TRAINED = [branches, branches_in_branches, maps, checkpoints, checkpoints_of_modules]


def outcome(function, sign, grad):
    MODEL.zero_grad()
    x = (torch.linspace(-1.0, 2.0, 9).reshape(3, 3) * sign).requires_grad_(grad)
    result = function(x)
    if result.requires_grad and grad:
        (result * torch.arange(1.0, 4.0)).sum().backward()
    return result.detach(), x.grad, *(p.grad for p in MODEL.parameters())


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-5, atol=1e-6))


@pytest.mark.parametrize("function", [branches, branches_in_branches, loops, maps, scans, scans_by_halves, checkpoints,
                                      checkpoints_of_modules], ids=lambda f: f.__name__)
def test_in_the_graph(function):
    run = cresset.compile(function, backend="eager", fullgraph=True)
    for grad in (False, True) if function in TRAINED else (False,):
        with torch.set_grad_enabled(grad):
            for sign in (1, -1, 1):
                theirs = outcome(function, sign, grad)
                assert_same(outcome(run, sign, grad), theirs)
    torch._dynamo.reset()


def reentrant(x):
    return checkpoint(lambda a: a.sin().exp(), x, use_reentrant=True) * 2


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_left_to_torch():
    run = cresset.compile(reentrant, backend="eager")
    for grad in (False, True, True):
        assert_same(outcome(run, 1, grad), outcome(reentrant, 1, grad))
    entries = run._entries()
    assert any(e["reason"] and "use_reentrant=False" in e["reason"] for e in entries)
    assert len(entries) <= 6  # nothing of torch's dispatcher or transforms is captured


def test_a_body_that_changes_something_is_left_to_torch():
    seen = []

    def function(x):
        return torch.cond(x.sum() > 0, lambda x: seen.append(1) or x * 2, lambda x: x + 1, (x,))
    run = cresset.compile(function, backend="eager")
    with pytest.raises(Exception):  # noqa: B017  torch refuses it, too
        function(torch.ones(3))
    with pytest.raises(Exception):  # noqa: B017
        run(torch.ones(3))
    assert any("changes something" in (e["reason"] or "") for e in run._entries())
    torch._dynamo.reset()


# ---- both compilers in one program ----

def fails_to_compile(_graph, _inputs):
    raise RuntimeError("this backend fails")


def test_together_with_a_hook_that_torch_has_left():
    """Where a backend of torch.compile fails, its frame hook stays: ours goes on working with it."""
    from cresset import _C
    with pytest.raises(Exception, match="this backend fails"):
        torch.compile(lambda x: x + 1, backend=fails_to_compile)(torch.ones(2))
    theirs = torch.compile(lambda x: x.cos() * 2, backend="eager")

    def inner(x, log):
        y = theirs(x)
        log.append(y.sum().item() > 0)
        print("between")
        return y + theirs(y)
    ours = cresset.compile(inner, backend="eager")
    outer = torch.compile(lambda x, log: ours(x * 2, log) - 1, backend="eager")
    for sign in (1, -1, 1):
        x = torch.linspace(-1.0, 2.0, 5) * sign
        log, plain = [], []
        wanted = (x * 2).cos() * 2
        plain.append(wanted.sum().item() > 0)
        assert torch.allclose(outer(x, log), wanted + wanted.cos() * 2 - 1) and log == plain
        assert not _C._hook_is_set()
    torch._dynamo.reset()
