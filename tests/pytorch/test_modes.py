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


def cast_lists(x, w):
    """Ops that take the smaller dtype, float32, the widest, or whatever they get."""
    with torch.autocast("cpu"):
        a = x @ w
        b = F.linear(x, w)
        return a, torch.cat([a, x]), a.exp(), a.softmax(-1), F.layer_norm(a, (3,)), a + x, b.sum()


def cast_asked(x, w):
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        inside = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    return x @ w, inside, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


PROGRAMS = [cast, cast_decorated, cast_lists, cast_asked, nested, inference, on_device, default_dtype, raises_inside,
            saved]


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


@pytest.mark.parametrize("function", [cast, cast_decorated, cast_lists, cast_asked], ids=lambda f: f.__name__)
def test_mixed_precision_is_captured(function):
    """Inside and around: one graph each, found again, and not where the surroundings are others."""
    run = cresset.compile(function, backend="eager", fullgraph=True)
    kinds = [lambda: torch.autocast("cpu", enabled=False), lambda: torch.autocast("cpu", dtype=torch.bfloat16)]
    for around in [*kinds, *kinds]:
        for ours, theirs in zip(outcome(run, around), outcome(function, around), strict=True):
            assert not isinstance(theirs, torch.Tensor) or ours.dtype == theirs.dtype
    assert run._counts()["captures"] == 2 and run._counts()["hits"] == 2


def test_a_model_in_mixed_precision_trains():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))
    run = cresset.compile(model, backend="eager")
    x = torch.randn(5, 4)
    grads = []
    for step in (model, run, run):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = step(x)
            loss = F.cross_entropy(out, torch.tensor([0, 1, 0, 1, 1]))
        loss.backward()
        assert out.dtype is torch.bfloat16 and loss.dtype is torch.float32
        grads.append([p.grad.clone() for p in model.parameters()])
    for theirs, *ours in zip(*grads):
        assert all(g.dtype is theirs.dtype and torch.allclose(g, theirs, rtol=5e-2, atol=1e-2) for g in ours)


def test_the_default_dtype_of_autocast_is_guarded():
    def function(x, w):
        with torch.autocast("cpu"):
            return x @ w
    run, x = cresset.compile(function, backend="eager"), torch.ones(2, 2)
    assert run(x, x).dtype is torch.bfloat16
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        assert run(x, x).dtype is torch.float16
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    assert run(x, x).dtype is torch.bfloat16 and run._counts()["plain"] == 0


# ---- what surrounds and changes between calls ----

def test_a_default_device_that_is_set():
    def function(x):
        return torch.ones(2).device.type, x * 2
    run, x = cresset.compile(function, backend="eager"), torch.ones(2)
    assert run(x)[0] == "cpu"
    torch.set_default_device("meta")
    try:
        device, y = run(x)
        assert device == "meta" and torch.equal(y, torch.full((2,), 2.0, device="cpu"))
    finally:
        torch.set_default_device(None)
    assert run(x)[0] == "cpu"


def test_a_parameter_without_memory():
    """Storage freed between calls (as sharded training does): torch's own error, then right again."""
    model = nn.Linear(3, 2)
    run, x = cresset.compile(model, backend="eager"), torch.ones(1, 3)
    wanted, values = run(x).detach(), model.weight.detach().clone()
    storage = model.weight.untyped_storage()
    nbytes = storage.nbytes()
    storage.resize_(0)
    for step in (run, model):
        with pytest.raises(RuntimeError):
            step(x)
    storage.resize_(nbytes)
    model.weight.data.copy_(values)
    assert torch.allclose(run(x), wanted)


@pytest.mark.parametrize("native", ["eager", "native"])
def test_the_generator_is_left_where_pytorch_leaves_it(native):
    def function(x):
        return F.dropout(x, 0.5) + torch.rand(3), torch.randn(2)
    run, x = cresset.compile(function, backend=native), torch.ones(4, 3)
    for seed in (0, 1):
        shown = []
        for step in (function, run):
            torch.manual_seed(seed)
            shown.append([*step(x), *step(x), torch.rand(5), torch.get_rng_state()])
        assert all(torch.equal(ours, theirs) for theirs, ours in zip(*shown, strict=True))


# ---- gradients that are switched on in calls without them ----

@pytest.fixture
def weight():
    return nn.Parameter(torch.ones(3))


def test_what_nobody_outside_made_is_captured_where_gradients_are_switched_on(weight):
    def f(x):
        y = x * weight
        with torch.enable_grad():
            z = y.exp() + torch.ones(3)
            asked = torch.is_grad_enabled()
        return z, asked, torch.distributions.Categorical(logits=y, validate_args=False).entropy()

    run, x = cresset.compile(f, backend="eager", fullgraph=True), torch.ones(3, requires_grad=True)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            ours, theirs = run(x), f(x)
        assert ours[1] is True and not any(t.requires_grad for t in (ours[0], ours[2]))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("use", [lambda x, y, w: y + w, lambda x, y, w: w.view(3, 1), lambda x, y, w: x.view(-1) * y,
                                 lambda x, y, w: torch.zeros(2, requires_grad=True) * 2],
                         ids=["a parameter", "a view", "an argument", "a leaf"])
def test_what_comes_from_outside_has_its_history_there(weight, use):
    def f(x):
        y = x * weight
        with torch.enable_grad():
            z = use(x, y, weight)
        return y, z

    run, x = cresset.compile(f, backend="eager"), torch.ones(3, requires_grad=True)
    for _ in range(2):
        with torch.no_grad():
            ours, theirs = run(x), f(x)
            assert not torch.is_grad_enabled()
        assert [t.requires_grad for t in ours] == [t.requires_grad for t in theirs] == [False, True]
        torch.testing.assert_close(ours, theirs)


def test_gradients_that_stay_on_stay_on(weight):
    def f(x):
        y = x * weight
        torch.set_grad_enabled(True)
        return y * 2

    run = cresset.compile(f, backend="eager")
    for _ in range(2):
        with torch.no_grad():
            result = run(torch.ones(3))
            assert torch.is_grad_enabled() and not result.requires_grad
