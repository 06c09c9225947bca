"""Modes inside of compiled functions and around them: autocast, gradient modes, default devices and dtypes, hooks on
what is saved. Values, dtypes and gradients are plain PyTorch's; the state is afterwards what it was."""
import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def cast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ w
    return y, z, x @ w


def cast_decorated(x, w):
    @torch.autocast("cpu", dtype=torch.float16)
    def inner(x):
        return F.linear(x, w) + 1
    return inner(x), torch.is_autocast_enabled("cpu")


def nested(x, w):
    with torch.no_grad():
        a = x @ w
        with torch.enable_grad():
            b = x * w
            with torch.set_grad_enabled(False):
                c = b + a
        d = b * 2
    return a, b, c, d, torch.is_grad_enabled()


def inference(x, w):
    with torch.inference_mode():
        a = (x @ w).sum()
    return x * a.item(), a.is_inference()


def on_device(x, w):
    with torch.device("meta"):
        a = torch.empty(3)
    return x + w, a.device.type


def default_dtype(x, w):
    torch.set_default_dtype(torch.float64)
    try:
        return torch.ones(2) + 1, x @ w
    finally:
        torch.set_default_dtype(torch.float32)


def raises_inside(x, w):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            y = x @ w
            raise KeyError("inside")
    except KeyError:
        return y, x @ w, torch.is_grad_enabled()


def saved(x, w):
    with torch.autograd.graph.save_on_cpu():
        y = torch.tanh(x @ w)
    return y * 2


PROGRAMS = [cast, cast_decorated, nested, inference, on_device, default_dtype, raises_inside, saved]


def state():
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(),
            torch.is_autocast_enabled("cpu"), torch.get_default_device())


def outcome(function, around):
    torch.manual_seed(3)
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    before = state()
    with around():
        results = function(x, w)
    assert state() == before
    flat = torch.utils._pytree.tree_leaves(results)
    live = [r for r in flat if isinstance(r, torch.Tensor) and r.requires_grad and r.grad_fn is not None]
    if live:
        sum(r.float().sum() for r in live).backward()
    return [*flat, x.grad, w.grad]


@pytest.mark.parametrize("around", [lambda: torch.set_grad_enabled(True), torch.no_grad,
                                    lambda: torch.autocast("cpu", dtype=torch.bfloat16),
                                    torch.autograd.graph.save_on_cpu],
                         ids=["plainly", "no_grad", "autocast", "save_on_cpu"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_modes(function, around):
    run = cresset.compile(function, backend="eager")
    for _ in range(3):
        for ours, theirs in zip(outcome(run, around), outcome(function, around), strict=True):
            assert type(ours) is type(theirs)
            if not isinstance(theirs, torch.Tensor):
                assert ours == theirs
                continue
            assert (ours.dtype, ours.shape, ours.requires_grad) == (theirs.dtype, theirs.shape, theirs.requires_grad)
            assert torch.allclose(ours.float(), theirs.float(), rtol=2e-2, atol=2e-2)
