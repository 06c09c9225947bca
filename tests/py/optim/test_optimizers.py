"""Every optimizer and option, 20 steps with seeded gradients: parameters and states equal PyTorch's."""
import pathlib
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="steps are compared with PyTorch's; the values depend on its formulas")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cresset  # noqa: E402
from agree import lines  # noqa: E402
from optim_twin import LIBRARIES, TOLERANCE, Run, agree  # noqa: E402

CASES = lines("""
    SGD(lr=0.1)
    SGD(lr=0.1, weight_decay=0.1, maximize=True)
    SGD(lr=0.1, momentum=0.9)
    SGD(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)
    SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    SGD(lr=0.1, momentum=0.9, nesterov=True, maximize=True)
    SGD(lr=tensor(0.1), momentum=0.9)
    SGD(lr=0.1, weight_decay=tensor(0.1))
    RMSprop(lr=0.01)
    RMSprop(lr=0.01, centered=True)
    RMSprop(lr=0.01, momentum=0.9, weight_decay=0.1, maximize=True)
    RMSprop(lr=tensor(0.01), alpha=0.5, momentum=0.9, centered=True)
    Rprop(lr=0.01)
    Rprop(lr=0.01, etas=(0.3, 1.7), step_sizes=(1e-3, 0.05), maximize=True)
    Rprop(lr=tensor(0.01))
    Adagrad(lr=0.1)
    Adagrad(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)
    Adagrad(lr=tensor(0.1), lr_decay=0.1, maximize=True)
    Adadelta()
    Adadelta(lr=0.5, rho=0.7, weight_decay=0.1, maximize=True)
    Adadelta(lr=tensor(0.5))
    Adam(lr=0.01)
    Adam(lr=0.01, amsgrad=True, weight_decay=0.1)
    Adam(lr=0.01, betas=(0.3, 0.5), maximize=True)
    Adam(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)
    Adam(lr=tensor(0.01), weight_decay=0.1)
    Adam(lr=tensor([0.01]), betas=(tensor(0.9), tensor(0.99)))
    AdamW(lr=0.01)
    AdamW(lr=0.01, amsgrad=True, weight_decay=0.3, maximize=True)
    AdamW(lr=tensor(0.01))
    Adamax()
    Adamax(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, maximize=True)
    Adamax(lr=tensor(0.1))
    NAdam()
    NAdam(lr=0.01, weight_decay=0.1, momentum_decay=0.1, maximize=True)
    NAdam(lr=tensor(0.01), weight_decay=0.1, decoupled_weight_decay=True)
    RAdam()
    RAdam(lr=0.01, betas=(0.8, 0.9), weight_decay=0.1, maximize=True)
    RAdam(lr=tensor(0.01), betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True)
    ASGD()
    ASGD(lr=0.1, lambd=0.1, t0=5, weight_decay=0.1, maximize=True)
    ASGD(lr=tensor(0.1), t0=5)
""")
HALF = [line for line in CASES if "tensor" not in line]


@pytest.mark.parametrize("line", CASES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
def test_twenty_steps(line, dtype):
    mine, theirs = (Run(module, line, (dtype,), groups=2).steps(20).results() for module in LIBRARIES)
    if "betas=(tensor" in line:  # f32: PyTorch's powers of them differ in the last bit from processor to processor
        dtype = {"f64": "f32", "c128": "c64"}.get(dtype, dtype)
    agree(mine, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("line", HALF)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision(line, dtype):
    """One rounding to half apart may become a few: the recurrences carry it on."""
    mine, theirs = (Run(module, line, (dtype,)).steps(5).results() for module in LIBRARIES)
    agree(mine, theirs, 3e-2 if dtype == "f16" else 1e-1)


@pytest.mark.parametrize("line", ["SGD(lr=0.1, momentum=0.9)", "Adam(lr=0.01)", "AdamW(lr=0.01)", "Adagrad(lr=0.1)",
                                  "RMSprop(lr=0.01)"])
def test_several_dtypes_at_once(line):
    mine, theirs = (Run(module, line, ("f32", "f64", "c64")).steps(20).results() for module in LIBRARIES)
    agree(mine, theirs, 1e-6)


@pytest.mark.parametrize("option", ["foreach=True", "foreach=False", "fused=True", "fused=False"])
@pytest.mark.parametrize("line", ["SGD(lr=0.1, momentum=0.9)", "SGD(lr=0.1, nesterov=True, momentum=0.5)",
                                  "SGD(lr=0.1)", "Adam(lr=0.01, amsgrad=True, weight_decay=0.1)",
                                  "AdamW(lr=0.01)", "Adagrad(lr=0.1, lr_decay=0.1)"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_other_paths(line, option, dtype):
    mine, theirs = (Run(module, line[:-1] + f", {option})", (dtype,)).steps(20).results() for module in LIBRARIES)
    agree(mine, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("line", ["RMSprop(foreach=True)", "Rprop(foreach=True)", "Adadelta(foreach=True)",
                                  "Adamax(foreach=True)", "NAdam(foreach=True)", "RAdam(foreach=True)",
                                  "ASGD(foreach=True)"])
def test_foreach(line):
    mine, theirs = (Run(module, line).steps(20).results() for module in LIBRARIES)
    agree(mine, theirs, 1e-6)


def test_default_dtype_of_counts():
    for module in LIBRARIES:
        module.set_default_dtype(module.float64)
    try:
        mine, theirs = (Run(module, "NAdam()", ("f64",)).steps(20).results() for module in LIBRARIES)
    finally:
        for module in LIBRARIES:
            module.set_default_dtype(module.float32)
    assert theirs["step of 0"].dtype == numpy.float64
    agree(mine, theirs, 1e-12)


def lbfgs(module, dtype, **options):
    random = numpy.random.RandomState(0)
    curvature = random.randn(8, 8)
    curvature, target = curvature @ curvature.T + 0.1 * numpy.eye(8), random.randn(8)
    x, y = (module.nn.Parameter(module.from_numpy(numpy.ones(size, dtype))) for size in ((3, 2), (2,)))
    optimizer, losses = module.optim.LBFGS([x, y], **options), []

    def closure():
        z = numpy.concatenate([array.detach().numpy().ravel() for array in (x, y)]).astype(float)
        grad = (curvature @ z - target + 0.2 * z**3).astype(dtype)
        x.grad, y.grad = (module.from_numpy(part) for part in (grad[:6].reshape(3, 2).copy(), grad[6:].copy()))
        losses.append(0.5 * z @ curvature @ z - target @ z + 0.05 * (z**4).sum())
        return module.tensor(losses[-1])

    returned = [float(optimizer.step(closure)) for _ in range(3)]
    return optimizer, losses, returned, x.detach().numpy()


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
@pytest.mark.parametrize("options", [
    {}, {"line_search_fn": "strong_wolfe"}, {"lr": 0.1, "history_size": 3, "max_iter": 7},
    {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 5, "lr": 0.01},
    {"line_search_fn": "strong_wolfe", "max_eval": 3, "lr": 5.0}, {"line_search_fn": "strong_wolfe", "lr": 20.0},
    {"tolerance_grad": 10.0}, {"tolerance_change": 0.5}], ids=str)
def test_lbfgs(options, dtype):
    """The line search evaluates the loss at the same points, in f64 to the last digits."""
    mine, theirs = (lbfgs(module, dtype, **options) for module in LIBRARIES)
    assert len(mine[1]) == len(theirs[1])
    tolerance = 1e-4 if dtype is numpy.float32 else 1e-10
    for got, want in zip(mine[1:], theirs[1:]):
        numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    got, want = (run[0].state_dict()["state"][0] for run in (mine, theirs))
    assert {key: type(value).__name__ for key, value in got.items()} == {
        key: type(value).__name__ for key, value in want.items()}
    assert (got["n_iter"], got["func_evals"]) == (want["n_iter"], want["func_evals"])


def test_lbfgs_complex():
    """A complex parameter is a pair of real ones."""
    results = []
    for module in LIBRARIES:
        p = module.nn.Parameter(module.tensor([1 + 2j, -3j]))
        optimizer = module.optim.LBFGS([p], line_search_fn="strong_wolfe")

        def closure():
            p.grad = 2 * (p.detach() - 1)
            return ((p.detach() - 1).abs()**2).sum()

        optimizer.step(closure)
        results.append(p.detach().numpy())
    numpy.testing.assert_allclose(*results, atol=1e-5)


def test_closure_runs_with_gradients_on():
    p = cresset.nn.Parameter(cresset.ones(3))
    p.grad = cresset.ones(3)
    seen = []
    with cresset.no_grad():
        loss = cresset.optim.SGD([p], lr=0.5).step(lambda: seen.append(cresset.is_grad_enabled()) or 7.0)
    assert (loss, seen, p.tolist()) == (7.0, [True], [0.5] * 3)
    assert cresset.is_grad_enabled()
