"""optimizer.step() and zero_grad() of torch.optim, compiled: the same parameters, states, gradients, versions and
objects as plain PyTorch after every change between steps that programs make; and in how many graphs."""

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
from torch import nn, optim  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

SHAPES = [(3, 2), (4,), (), (1, 5), (0, 2)]


def parameters(shapes=SHAPES, dtype=torch.float32):
    torch.manual_seed(3)
    return [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]


def give_gradients(params, k, spread=1.0):
    torch.manual_seed(100 + k)
    for p in params:
        p.grad = torch.randn_like(p) * spread


class Told:
    """What a program can see of an optimizer."""

    def __init__(self, opt):
        self.tensors, self.rest, self.versions = [], [], []
        for group in opt.param_groups:
            self.rest.append({k: v for k, v in group.items() if k != "params"})
            for p in group["params"]:
                self.note("parameter", p)
                self.note("grad", p.grad)
                for name, value in opt.state[p].items() if p in opt.state else ():
                    self.note(name, value)
        self.order = [[q is p for g in opt.param_groups for q in g["params"]] for p in opt.state]

    def note(self, name, value):
        if isinstance(value, torch.Tensor):
            self.tensors.append((name, value.detach().clone()))
            self.versions.append((name, value._version, value.requires_grad, value.is_leaf))
        else:
            self.rest.append((name, value))


def check_equal(ours, theirs, **tolerance):
    assert [n for n, _ in ours.tensors] == [n for n, _ in theirs.tensors]
    for (name, a), (_, b) in zip(ours.tensors, theirs.tensors):
        torch.testing.assert_close(a, b, equal_nan=True, **tolerance, msg=lambda text, name=name: f"{name}: {text}")
    assert ours.versions == theirs.versions
    assert str(ours.rest) == str(theirs.rest) and ours.order == theirs.order


def objects(opt):
    held = [t for s in opt.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    return [id(s) for s in opt.state.values()] + [id(t) for t in held]


def train(make, steps=20, between=None, compile=None, shapes=SHAPES, dtype=torch.float32, spread=1.0):
    """Told after each step, and what was compiled."""
    params = parameters(shapes, dtype)
    opt = make(params)
    step = compile(opt.step) if compile else opt.step
    told, before = [], None
    for k in range(steps):
        give_gradients(params, k, spread)
        if between is not None:
            between(k, opt, params)
        step()
        told.append(Told(opt))
        if before is not None and between is None:
            assert objects(opt) == before, "state is held in other objects than before"
        before = objects(opt)
    return told, step


def compiled(function):
    return cresset.compile(function, backend="eager")


def compare(make, *, graphs=None, breaks=0, failed=0, tolerance=None, **how):
    """Trains plainly and compiled. graphs: how many captures there may be at most."""
    theirs, _ = train(make, **how)
    ours, step = train(make, compile=compiled, **how)
    for a, b in zip(ours, theirs):
        check_equal(a, b, **(tolerance or {}))
    entries = step._entries()
    assert len({e["reason"] for e in entries if e["reason"]}) <= breaks, "\n".join(str(e["reason"]) for e in entries)
    assert step._counts()["failed"] == failed
    if graphs is not None:
        assert step._counts()["captures"] <= graphs, step._counts()
    return step


# name -> (optimizer, graphs: one for the first step, which makes the state, one for the others; places where it breaks)
OPTIMIZERS = {
    "sgd": (lambda p: optim.SGD(p, 0.1), 1, 0),
    "sgd_weight_decay": (lambda p: optim.SGD(p, 0.1, weight_decay=0.02), 1, 0),
    "sgd_maximize": (lambda p: optim.SGD(p, 0.1, maximize=True), 1, 0),
    "sgd_momentum": (lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.02), 2, 0),
    "sgd_nesterov": (lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True), 2, 0),
    "sgd_tensor_lr": (lambda p: optim.SGD(p, torch.tensor(0.1), momentum=0.9), 2, 0),
    "sgd_foreach": (lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.02, foreach=True), 2, 0),
    "adam": (lambda p: optim.Adam(p, 0.01), 2, 0),
    "adam_weight_decay": (lambda p: optim.Adam(p, 0.01, weight_decay=0.1, maximize=True), 2, 0),
    "adam_amsgrad": (lambda p: optim.Adam(p, 0.01, amsgrad=True), 2, 0),
    "adam_tensor_lr": (lambda p: optim.Adam(p, torch.tensor(0.01)), 2, 0),
    "adam_foreach": (lambda p: optim.Adam(p, 0.01, amsgrad=True, foreach=True), 2, 0),
    "adamw": (lambda p: optim.AdamW(p, 0.01), 2, 0),
    "adamw_amsgrad": (lambda p: optim.AdamW(p, 0.01, amsgrad=True, weight_decay=0.1), 2, 0),
    "adamw_foreach": (lambda p: optim.AdamW(p, 0.01, foreach=True), 2, 0),
    "nadam": (lambda p: optim.NAdam(p, 0.01), 2, 0),
    "nadam_decoupled": (lambda p: optim.NAdam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True), 2, 0),
    "nadam_foreach": (lambda p: optim.NAdam(p, 0.01, foreach=True), 2, 0),
    "adamax": (lambda p: optim.Adamax(p, 0.01, weight_decay=0.1), 2, 0),
    "adamax_foreach": (lambda p: optim.Adamax(p, 0.01, foreach=True), 2, 0),
    "adadelta": (lambda p: optim.Adadelta(p, 0.5, weight_decay=0.1), 2, 0),
    "adadelta_foreach": (lambda p: optim.Adadelta(p, 0.5, foreach=True), 2, 0),
    "adagrad": (lambda p: optim.Adagrad(p, 0.05, lr_decay=0.1, weight_decay=0.1), 1, 0),
    "adagrad_foreach": (lambda p: optim.Adagrad(p, 0.05, foreach=True), 1, 0),
    "rmsprop": (lambda p: optim.RMSprop(p, 0.01), 2, 0),
    "rmsprop_centered": (lambda p: optim.RMSprop(p, 0.01, centered=True, momentum=0.5, weight_decay=0.1), 2, 0),
    "rmsprop_foreach": (lambda p: optim.RMSprop(p, 0.01, centered=True, momentum=0.5, foreach=True), 2, 0),
    "rprop": (lambda p: optim.Rprop(p, 0.01), 2, 0),
    "rprop_foreach": (lambda p: optim.Rprop(p, 0.01, foreach=True), 2, 0),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps(name):
    make, graphs, breaks = OPTIMIZERS[name]
    compare(make, graphs=graphs, breaks=breaks)


# ---- changes between steps ----


def test_no_place_breaks_but_the_numbers_are_recorded():
    """Data decide there: whether RAdam has seen enough steps, what ASGD averages, how far Adafactor goes."""
    for make, breaks in ((lambda p: optim.RAdam(p, 0.01), 12), (lambda p: optim.ASGD(p, 0.05), 12)):
        compare(make, breaks=breaks)
    compare(lambda p: optim.Adafactor(p, 0.05), breaks=30, shapes=SHAPES[:4])


CHANGED = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.02),
    "adam": lambda p: optim.Adam(p, 0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, 0.01),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, momentum=0.5),
    "adagrad": lambda p: optim.Adagrad(p, 0.05),
    "adamw_foreach": lambda p: optim.AdamW(p, 0.01, foreach=True),
}
each = pytest.mark.parametrize("name", CHANGED)


@each
def test_a_rate_that_a_scheduler_changes_is_left_open(name):
    """The first step, the second with another rate, and one graph for all other rates."""
    plans = {}

    def between(k, opt, params):
        if k == 0:
            plans["it"] = optim.lr_scheduler.CosineAnnealingLR(opt, 30)
        else:
            plans["it"].step()

    compare(CHANGED[name], between=between, graphs=3, steps=25)


def test_a_rate_of_zero_and_one_that_comes_back():
    def between(k, opt, params):
        opt.param_groups[0]["lr"] = (0.1, 0.0, 0.1, 1.0, 0.3, float("inf"), 0.1)[k]

    compare(lambda p: optim.SGD(p, 0.1, momentum=0.9), between=between, steps=7)


@each
def test_other_numbers_of_the_group(name):
    def between(k, opt, params):
        group = opt.param_groups[0]
        if k == 3:
            group["weight_decay"] = 0.5
        if k == 5:
            group["maximize"] = True
        if k == 7 and "betas" in group:
            group["betas"] = (0.5, 0.6)

    compare(CHANGED[name], between=between, steps=10)


@each
def test_gradients_that_are_missing(name):
    def between(k, opt, params):
        if k % 3 == 1:
            params[0].grad = None
        if k == 4:
            for p in params:
                p.grad = None
        if k == 5:
            params[1].grad = params[1].grad.double().float()

    compare(CHANGED[name], between=between, steps=12)


@each
def test_a_parameter_whose_first_gradient_comes_late(name):
    def between(k, opt, params):
        if k < 4:
            params[2].grad = None

    compare(CHANGED[name], between=between, steps=8)


@each
def test_gradients_laid_out_otherwise(name):
    def between(k, opt, params):
        if k % 2:
            p = params[0]
            p.grad = torch.randn(2, 3).t()

    compare(CHANGED[name], between=between, steps=8)


@each
def test_a_group_is_added(name):
    def between(k, opt, params):
        if k == 3:
            more = [nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(3))]
            params.extend(more)
            opt.add_param_group({"params": more, "lr": 0.03})
            give_gradients(params, k)

    compare(CHANGED[name], between=between, steps=8)


@each
def test_a_state_is_loaded(name):
    kept = {}

    def between(k, opt, params):
        if k == 4:
            kept["it"] = {"state": {i: dict(s) for i, s in opt.state_dict()["state"].items()},
                          "param_groups": opt.state_dict()["param_groups"]}
            kept["it"]["state"] = {i: {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in s.items()}
                                   for i, s in kept["it"]["state"].items()}
        if k == 8:
            opt.load_state_dict(kept["it"])

    compare(CHANGED[name], between=between, steps=12)


@each
def test_a_state_is_emptied_or_exchanged(name):
    def between(k, opt, params):
        if k == 3:
            opt.state.clear()
        if k == 5:
            del opt.state[params[0]]
        if k == 6:
            opt.state[params[1]] = {n: v.clone() if isinstance(v, torch.Tensor) else v
                                    for n, v in opt.state[params[1]].items()}

    compare(CHANGED[name], between=between, steps=9)


@each
def test_memory_of_a_parameter_is_exchanged(name):
    def between(k, opt, params):
        if k == 3:
            params[0].data = torch.ones(3, 2)
        if k == 5:
            params[0].data = torch.ones(2, 3).t()
        if k == 6:
            params[1].data.add_(1)

    compare(CHANGED[name], between=between, steps=9)


@each
def test_a_parameter_is_exchanged(name):
    def between(k, opt, params):
        if k == 3:
            params[0] = nn.Parameter(torch.full((3, 2), 0.5))
            opt.param_groups[0]["params"][0] = params[0]
            params[0].grad = torch.ones(3, 2)

    compare(CHANGED[name], between=between, steps=7)


@each
def test_one_parameter_twice(name):
    """Two that were two are one: what is kept of them is one, too."""
    def between(k, opt, params):
        opt.param_groups[0]["params"] = [params[0], params[3]] if k < 3 else [params[0], params[0]]

    compare(CHANGED[name], between=between, steps=6)


def test_a_state_that_is_gone_for_two_parameters_that_are_one():
    """What a first step puts into the state, by a graph that was captured for two parameters."""
    def between(k, opt, params):
        opt.state.clear()
        opt.param_groups[0]["params"] = [params[0], params[3]] if k < 3 else [params[3], params[3]]

    for make in (CHANGED["adam"], CHANGED["sgd"]):
        compare(make, between=between, steps=6, shapes=[(3,)] * 4)


def test_gradients_and_parameters_in_one_memory():
    def between(k, opt, params):
        if k == 2:
            params[0].grad = params[1].detach()
        if k == 4:
            params[0].grad = params[1].grad

    compare(lambda p: optim.SGD(p, 0.1, momentum=0.9), between=between, steps=6, failed=1,
            shapes=[(3,), (3,)])  # such a call runs plain


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
def test_other_dtypes(dtype):
    for name in ("sgd", "adam", "rmsprop"):
        plain = dtype.is_complex and name != "sgd"   # views of other dtypes are written to: such a step runs plain
        rough = {"rtol": 0.02, "atol": 0.02} if dtype is torch.bfloat16 else None
        compare(CHANGED[name], dtype=dtype, steps=6, breaks=1 if plain else 0, tolerance=rough)


def test_two_hundred_parameters():
    for make in (CHANGED["sgd"], CHANGED["adamw"]):
        step = compare(make, shapes=[(2, 3), (4,)] * 100, steps=5, graphs=2)
        assert all(e["graph"] is not None for e in step._entries())


# ---- what surrounds a step ----


def test_hooks_of_steps():
    def run(compile):
        params = parameters()
        opt, seen = CHANGED["adam"](params), []
        handle = opt.register_step_pre_hook(lambda o, a, k: seen.append(("before", o is opt)))
        opt.register_step_post_hook(lambda o, a, k: seen.append("after"))
        step = compile(opt.step)
        for k in range(6):
            if k == 4:
                handle.remove()
            give_gradients(params, k)
            step()
        return Told(opt), seen, step

    theirs, ours = run(lambda f: f), run(compiled)
    check_equal(ours[0], theirs[0])
    assert ours[1] == theirs[1] and not any(e["reason"] for e in ours[2]._entries())


def test_hooks_of_all_optimizers():
    def run(compile):
        params, seen = parameters(), []
        opt = CHANGED["sgd"](params)
        handle = register_optimizer_step_post_hook(lambda o, a, k: seen.append(o is opt))
        try:
            step = compile(opt.step)
            for k in range(3):
                give_gradients(params, k)
                step()
        finally:
            handle.remove()
        give_gradients(params, 3)
        step()
        return Told(opt), seen

    theirs, ours = run(lambda f: f), run(compiled)
    check_equal(ours[0], theirs[0])
    assert ours[1] == theirs[1] == [True] * 3


def test_closures():
    def run(compile):
        params = parameters()
        opt = CHANGED["adam"](params)
        step, losses = compile(opt.step), []

        def closure():
            opt.zero_grad()
            loss = sum(p.sin().sum() for p in params)
            loss.backward()
            return loss

        for _ in range(4):
            losses.append(step(closure).item())
        return Told(opt), losses

    theirs, ours = run(lambda f: f), run(compiled)
    check_equal(ours[0], theirs[0])
    assert ours[1] == pytest.approx(theirs[1])


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("foreach", [None, True])
def test_zero_grad(to_none, foreach):
    def run(compile):
        params = parameters()
        opt = optim.SGD(params, 0.1, foreach=foreach)
        zero, told = compile(lambda: opt.zero_grad(set_to_none=to_none)), []
        for k in range(4):
            give_gradients(params, k)
            if k == 2:
                params[0].grad = None
            before = [p.grad for p in params]
            zero()
            told.append(([p.grad is None or p.grad is b for p, b in zip(params, before)],
                         [None if p.grad is None else (p.grad.tolist(), p.grad._version) for p in params]))
        return told, zero

    (theirs, _), (ours, zero) = run(lambda f: f), run(compiled)
    assert ours == theirs
    assert not [e["reason"] for e in zero._entries() if e["reason"]]
    assert zero._counts()["captures"] <= 2


def test_a_step_and_zero_grad_in_one_graph():
    def run(compile):
        params = parameters()
        opt, told = CHANGED["adamw"](params), []

        @compile
        def both():
            opt.step()
            opt.zero_grad()

        for k in range(6):
            give_gradients(params, k)
            both()
            told.append(Told(opt))
        return told, both

    (theirs, _), (ours, both) = run(lambda f: f), run(compiled)
    for a, b in zip(ours, theirs):
        check_equal(a, b)
    assert [e["reason"] for e in both._entries()] == [None, None] and both._counts()["captures"] == 2


def test_fullgraph():
    params = parameters()
    opt = CHANGED["adam"](params)
    step = cresset.compile(opt.step, backend="eager", fullgraph=True)
    for k in range(3):
        give_gradients(params, k)
        step()


def test_native_code():
    for name in ("sgd", "adamw"):
        theirs, _ = train(CHANGED[name], steps=6)
        ours, step = train(CHANGED[name], steps=6,
                           compile=lambda f: cresset.compile(f, options={"wait": True}))
        for a, b in zip(ours, theirs):
            check_equal(a, b)
        assert not any(e["reason"] for e in step._entries())


def test_after_torch_compile():
    """The first torch.compile() of a process hides parts of optimizers from Dynamo."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert hasattr(optim.SGD._init_group, "_torchdynamo_orig_callable")
    for name in CHANGED:
        compare(CHANGED[name], steps=4)


# ---- whole training steps ----


def loops(compile, make, steps=10):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = make(model.parameters())

    @compile
    def step(x, t):
        loss = nn.functional.cross_entropy(model(x), t)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    losses = []
    for k in range(steps):
        torch.manual_seed(k)
        losses.append(step(torch.randn(6, 4), torch.randint(0, 3, (6,))).item())
    return losses, Told(opt), step


@each
def test_a_whole_training_step(name):
    losses, theirs, _ = loops(lambda f: f, CHANGED[name])
    ours, told, step = loops(compiled, CHANGED[name])
    assert ours == pytest.approx(losses, rel=1e-5)
    check_equal(told, theirs)
    # the walk is torch's: a graph before it and one behind, which is another in the first step
    entries = step._entries()
    assert all("backward" in e["reason"] for e in entries if e["reason"]), [e["reason"] for e in entries]
    assert len([e for e in entries if e["graph"] is not None]) == (2 if name == "adagrad" else 3)
    assert len({e["at"] for e in entries if e["graph"] is not None}) == 2
