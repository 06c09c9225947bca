"""60 epochs of every scheduler, with state dicts, warnings and errors as PyTorch's."""
import io
import pathlib
import sys
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch", reason="rates are compared with PyTorch's; the values depend on its formulas")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from agree import lines  # noqa: E402
from optim_twin import LIBRARIES  # noqa: E402

SCHEDULES = lines("""
    LambdaLR(o, lambda e: 0.9**e)
    LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])
    MultiplicativeLR(o, lambda e: 0.95)
    MultiplicativeLR(o, [lambda e: 0.95, lambda e: 1 - 0.5 / (1 + e)])
    StepLR(o, 7)
    StepLR(o, 3, gamma=0.5)
    MultiStepLR(o, [5, 5, 20, 40], gamma=0.3)
    ConstantLR(o)
    ConstantLR(o, factor=0.5, total_iters=30)
    LinearLR(o)
    LinearLR(o, 0.1, 0.7, 25)
    ExponentialLR(o, 0.97)
    PolynomialLR(o)
    PolynomialLR(o, 50, 2.5)
    CosineAnnealingLR(o, 10)
    CosineAnnealingLR(o, 25, eta_min=0.01)
    CosineAnnealingWarmRestarts(o, 7)
    CosineAnnealingWarmRestarts(o, 5, 2, 0.001)
    CyclicLR(o, 0.01, 0.1, 7)
    CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 5, 9, mode='triangular2')
    CyclicLR(o, 0.01, 0.1, 5, mode='exp_range', gamma=0.95, cycle_momentum=False)
    CyclicLR(o, 0.01, 0.1, 5, scale_fn=lambda x: 1 / x, base_momentum=0.1, max_momentum=0.7)
    CyclicLR(o, 0.01, 0.1, 5, scale_fn=lambda x: 0.9**x, scale_mode='iterations')
    OneCycleLR(o, 0.1, total_steps=60)
    OneCycleLR(o, [0.1, 0.2], epochs=6, steps_per_epoch=10, anneal_strategy='linear', three_phase=True)
    OneCycleLR(o, 0.1, total_steps=61, pct_start=0.5, cycle_momentum=False, div_factor=5.0, final_div_factor=10.0)
    SequentialLR(o, [ConstantLR(o, 0.1, 2), ExponentialLR(o, 0.9), StepLR(o, 3)], [5, 30])
    SequentialLR(o, [LinearLR(o, 0.1, total_iters=10), CosineAnnealingLR(o, 40)], [10])
    ChainedScheduler([ConstantLR(o, 0.1, 2), ExponentialLR(o, 0.9)])
    ChainedScheduler([LinearLR(o, 0.2), MultiStepLR(o, [20, 40])], o)
    SequentialLR(o, [ChainedScheduler([LinearLR(o), StepLR(o, 9)]), ExponentialLR(o, 0.9)], [20])
    SWALR(o, 0.05)
    SWALR(o, [0.05, 0.001], anneal_epochs=20, anneal_strategy='linear')
    SWALR(o, 0.05, anneal_epochs=0)
""")


def optimizer_of(module, kind="SGD", lr=0.4):
    p, q = (module.nn.Parameter(module.ones(2)) for _ in range(2))
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(module.optim, kind)([{"params": [p]}, {"params": [q], "lr": 0.05}], lr=lr, **options)


def scheduler_of(module, line, optimizer):
    names = {**vars(module.optim.lr_scheduler), "SWALR": module.optim.swa_utils.SWALR, "o": optimizer}
    return eval(line, names)


def rates(scheduler, optimizer, epochs):
    """Learning rates and momenta after each epoch."""
    found = []
    for _ in range(epochs):
        row = [float(group["lr"]) for group in optimizer.param_groups]
        row += [float(last) for last in scheduler.get_last_lr()]
        row += [group["momentum"] if "momentum" in group else group["betas"][0] for group in optimizer.param_groups]
        found.append(row)
        optimizer.step()
        scheduler.step()
    return numpy.array(found)


def plain(value):
    """A state dict without the library's own values."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


# A chain inside a sequence makes its first step when the sequence is made, before any of the optimizer's.
pytestmark = pytest.mark.filterwarnings("ignore:.*before .?optimizer.step:UserWarning")


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("line", SCHEDULES)
def test_sixty_epochs(line, kind):
    found, states = [], []
    for module in LIBRARIES:
        optimizer = optimizer_of(module, kind)
        scheduler = scheduler_of(module, line, optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if "[ChainedScheduler" in line else "error")
            found.append(rates(scheduler, optimizer, 60))
        states.append(plain(scheduler.state_dict()))
    numpy.testing.assert_allclose(*found, rtol=1e-12, atol=1e-300)
    mine, theirs = states
    theirs.pop("anneal_func", None)
    assert sorted(mine) == sorted(theirs)
    assert {k: v for k, v in mine.items() if isinstance(v, (int, str))} == {
        k: v for k, v in theirs.items() if isinstance(v, (int, str))}


@pytest.mark.parametrize("line", SCHEDULES)
def test_tensor_rates(line):
    """A rate that is a tensor stays the same tensor."""
    found = []
    for module in LIBRARIES:
        rate = module.tensor(0.4)
        optimizer = optimizer_of(module, lr=rate)
        found.append(rates(scheduler_of(module, line, optimizer), optimizer, 30))
        assert optimizer.param_groups[0]["lr"] is rate
    numpy.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("line", [line for line in SCHEDULES if "lambda" not in line])
@pytest.mark.parametrize("saver,loader", [(0, 0), (0, 1), (1, 0)])
def test_resume_from_a_file(line, saver, loader):
    """A run that is saved after 17 epochs by one library goes on in the other."""
    first, second = LIBRARIES[saver], LIBRARIES[loader]
    straight = optimizer_of(torch)
    want = rates(scheduler_of(torch, line, straight), straight, 50)[17:]
    optimizer = optimizer_of(first)
    scheduler = scheduler_of(first, line, optimizer)
    rates(scheduler, optimizer, 17)
    file = io.BytesIO()
    first.save({"scheduler": scheduler.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = second.load(file)
    optimizer = optimizer_of(second)
    scheduler = scheduler_of(second, line, optimizer)
    scheduler.load_state_dict(loaded["scheduler"])
    optimizer.load_state_dict(loaded["optimizer"])
    numpy.testing.assert_allclose(rates(scheduler, optimizer, 33), want, rtol=1e-12)


@pytest.mark.parametrize("line", [line for line in SCHEDULES if line.split("(")[0] not in (
    "SequentialLR", "ChainedScheduler")])
def test_epochs_by_number(line):
    """step(epoch) goes to an epoch directly, with a warning where PyTorch gives one."""
    found, kinds = [], []
    for module in LIBRARIES:
        optimizer = optimizer_of(module)
        scheduler = scheduler_of(module, line, optimizer)
        row = []
        optimizer.step()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for epoch in (3, 4, 17, 40, 2):
                scheduler.step(epoch)
                row.append([float(group["lr"]) for group in optimizer.param_groups])
        found.append(row)
        kinds.append([w.category for w in seen])
    numpy.testing.assert_allclose(*found, rtol=1e-12)
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("options", [
    {}, {"patience": 2, "factor": 0.5}, {"mode": "max", "patience": 1}, {"threshold_mode": "abs", "patience": 3},
    {"mode": "max", "threshold_mode": "abs", "patience": 0, "min_lr": [0.1, 0.001]},
    {"patience": 1, "cooldown": 4, "min_lr": 1e-3}], ids=str)
def test_plateau(options):
    found, states = [], []
    for module in LIBRARIES:
        random = numpy.random.RandomState(3)
        optimizer, row = optimizer_of(module), []
        scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        for epoch in range(60):
            scheduler.step(module.tensor(1 / (1 + epoch) + 0.3 * random.rand()))
            row.append([*scheduler.get_last_lr(), scheduler.best, scheduler.num_bad_epochs, scheduler.in_cooldown])
        found.append(row)
        states.append(scheduler.state_dict())
    numpy.testing.assert_allclose(*found, rtol=1e-6)
    assert sorted(states[0]) == sorted(states[1])
    again = cresset.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(cresset))
    again.load_state_dict(states[1])
    assert again.state_dict() == states[1]


@pytest.mark.parametrize("line", lines("""
    LambdaLR(o, [lambda e: e])
    MultiplicativeLR(o, 3)
    StepLR(3, 3)
    StepLR(o, 3, last_epoch=4)
    ConstantLR(o, factor=1.5)
    ConstantLR(o, factor=-1)
    LinearLR(o, start_factor=0)
    LinearLR(o, end_factor=2)
    CosineAnnealingWarmRestarts(o, 0)
    CosineAnnealingWarmRestarts(o, 3, 0)
    CosineAnnealingWarmRestarts(o, 3, 1.5)
    CosineAnnealingWarmRestarts(o, 3, eta_min='0')
    CosineAnnealingWarmRestarts(o, 3).step(-1)
    CyclicLR(o, [0.1], 0.2)
    CyclicLR(o, 0.1, 0.2, mode='square')
    CyclicLR(rmsless, 0.1, 0.2)
    CyclicLR(3, 0.1, 0.2)
    OneCycleLR(o, 0.1)
    OneCycleLR(o, 0.1, total_steps=0)
    OneCycleLR(o, 0.1, total_steps=2.5)
    OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3)
    OneCycleLR(o, 0.1, total_steps=5, pct_start=2)
    OneCycleLR(o, 0.1, total_steps=5, anneal_strategy='step')
    OneCycleLR(rmsless, 0.1, total_steps=5)
    OneCycleLR(o, [0.1], total_steps=5)
    [s := OneCycleLR(o, 0.1, total_steps=2), s.step(), s.step(), s.step()]
    SequentialLR(o, [], [])
    SequentialLR(o, [StepLR(o, 2)], [3])
    SequentialLR(o, [StepLR(o, 2), StepLR(rmsless, 2)], [3])
    SequentialLR(o, [ReduceLROnPlateau(o)], [])
    SequentialLR(o, [3], [])
    ChainedScheduler([])
    ChainedScheduler([StepLR(o, 2), StepLR(rmsless, 2)])
    ChainedScheduler([StepLR(o, 2), ReduceLROnPlateau(o)])
    ReduceLROnPlateau(o, factor=1.0)
    ReduceLROnPlateau(o, mode='up')
    ReduceLROnPlateau(o, threshold_mode='up')
    ReduceLROnPlateau(o, min_lr=[0.1])
    ReduceLROnPlateau(3)
    LRScheduler(o)
    SWALR(o, 0.1, anneal_strategy='no')
    SWALR(o, 0.1, anneal_epochs=-1)
    SWALR(o, [0.1])
    [s := StepLR(o, 2), o.add_param_group({'params': [type(o.param_groups[0]['params'][0])()]}), s.step(3)]
"""))
def test_refusals(line):
    classes = []
    for module in LIBRARIES:
        rmsless = module.optim.Adagrad([module.nn.Parameter(module.ones(2))])
        names = {**vars(module.optim.lr_scheduler), "SWALR": module.optim.swa_utils.SWALR, "rmsless": rmsless}
        with warnings.catch_warnings(), pytest.raises(Exception) as caught:
            warnings.simplefilter("ignore")
            eval(line, {**names, "o": optimizer_of(module)})
        classes.append(caught.type)
    assert classes[0] is classes[1]


@pytest.mark.parametrize("act", ["s.step()", "[o.step(), s.step()]", "[setattr(o, 'step', lambda: 0), s.step()]",
                                 "s.get_lr()", "s.get_last_lr()", "[o.step(), s.step(), s.step()]"])
def test_warnings(act):
    seen = []
    for module in LIBRARIES:
        optimizer = optimizer_of(module)
        scheduler = module.optim.lr_scheduler.StepLR(optimizer, 3)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            eval(act, {"s": scheduler, "o": optimizer, "setattr": setattr})
        seen.append([w.category for w in found])
    assert seen[0] == seen[1]


def test_callable_objects_keep_their_state():
    class Decay:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, epoch):
            return self.rate**epoch

    scheduler = cresset.optim.lr_scheduler.LambdaLR(optimizer_of(cresset), Decay(0.5))
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [{"rate": 0.5}, {"rate": 0.5}]
    other = cresset.optim.lr_scheduler.LambdaLR(optimizer_of(cresset), Decay(0.1))
    other.load_state_dict(state)
    assert other.lr_lambdas[0].rate == 0.5 and callable(other.lr_lambdas[0])
