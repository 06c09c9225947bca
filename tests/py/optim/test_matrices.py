"""Adafactor and Muon against PyTorch's over twenty steps, state dicts both ways, errors."""
import numpy
import pytest

pytest.importorskip("torch", reason="PyTorch's optimizers are the oracle")
import torch  # noqa: E402

import cresset  # noqa: E402

SHAPES = [(5, 3), (7,), (), (6, 4), (2, 3, 4)]


class Run:
    def __init__(self, module, make, dtype, shapes, seed=0):
        self.module, self.random, self.dtype = module, numpy.random.RandomState(seed), dtype
        self.params = [module.nn.Parameter(self.made(shape)) for shape in shapes]
        self.optimizer = make(module.optim, self.params)

    def made(self, shape):
        value = numpy.asarray(self.random.randn(*shape)).astype(self.dtype)
        return self.module.from_numpy(value.T.copy()).t() if shape[:1] == (6,) else self.module.from_numpy(value)

    def steps(self, count):
        for _ in range(count):
            for p in self.params:
                p.grad = self.made(tuple(p.shape))
            self.optimizer.step()
        return self

    def results(self):
        state = self.optimizer.state_dict()["state"]
        found = {f"parameter {i}": p.detach().numpy() for i, p in enumerate(self.params)}
        found.update({f"{key} of {i}": value.numpy() for i, s in state.items() for key, value in s.items()})
        return found


def agree(mine, theirs, tolerance):
    assert list(mine) == list(theirs)
    for key, want in theirs.items():
        assert mine[key].dtype == want.dtype and mine[key].shape == want.shape, key
        assert abs(mine[key] - want).max() <= tolerance * abs(want).max(), key


ADAFACTOR = [{}, {"lr": 0.1, "weight_decay": 0.1}, {"beta2_decay": -0.5, "maximize": True}, {"eps": (1e-6, 1e-2)},
             {"d": 3.0, "lr": 0.5}, {"foreach": False}, {"foreach": True}]


@pytest.mark.parametrize("options", ADAFACTOR, ids=str)
@pytest.mark.parametrize("dtype, tolerance", [(numpy.float32, 3e-6), (numpy.float64, 1e-12)])
def test_adafactor(options, dtype, tolerance):
    mine, theirs = (Run(m, lambda o, ps: o.Adafactor(ps, **options), dtype, SHAPES).steps(20).results()
                    for m in (cresset, torch))
    agree(mine, theirs, tolerance)


MUON = [{}, {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.5}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"},
        {"adjust_lr_fn": "original", "ns_steps": 3}, {"ns_coefficients": (2.0, -1.5, 0.5)}]


@pytest.mark.parametrize("options", MUON, ids=str)
@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
def test_muon(options, dtype):
    """The update is computed in bfloat16, with 8 bits: sums in another order differ in the last of them."""
    mine, theirs = (Run(m, lambda o, ps: o.Muon(ps, **options), dtype, [(5, 3), (6, 4), (3, 8)]).steps(20).results()
                    for m in (cresset, torch))
    agree(mine, theirs, 2e-2)
    for key in theirs:
        if key.startswith("momentum"):
            assert abs(mine[key] - theirs[key]).max() <= 1e-6


def test_one_muon_step():
    """The update itself: nearly orthogonal, as PyTorch's within the rounding of bfloat16."""
    values = numpy.random.RandomState(1).randn(16, 8).astype(numpy.float32)
    made = []
    for m in (cresset, torch):
        p = m.nn.Parameter(m.zeros(16, 8))
        p.grad = m.from_numpy(values.copy())
        m.optim.Muon([p], lr=1.0, weight_decay=0.0).step()
        made.append(-p.detach().numpy() / numpy.sqrt(2))
    singular = numpy.linalg.svd(made[0], compute_uv=False)
    assert 0.6 < singular.min() and singular.max() < 1.3
    assert abs(made[0] - made[1]).max() < 1e-2


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_state_dicts(name):
    """Either library goes on from the other's state."""
    make = lambda o, ps: getattr(o, name)(ps, lr=0.02)  # noqa: E731
    mine, theirs = (Run(m, make, numpy.float64, [(5, 3), (3, 8)]).steps(5) for m in (cresset, torch))
    state = mine.optimizer.state_dict()
    state["state"] = {i: {k: torch.from_numpy(v.numpy().copy()) for k, v in s.items()}
                      for i, s in state["state"].items()}
    theirs.optimizer.load_state_dict(state)
    assert state["param_groups"] == theirs.optimizer.state_dict()["param_groups"]
    agree(mine.steps(5).results(), theirs.steps(5).results(), 1e-9 if name == "Adafactor" else 2e-2)


def test_errors():
    matrix, vector = cresset.nn.Parameter(cresset.ones(2, 2)), cresset.nn.Parameter(cresset.ones(2))
    optim = cresset.optim
    for bad, said in [(lambda: optim.Muon([vector]), "2D parameters.*AdamW"),
                      (lambda: optim.Muon([matrix], lr=-1), "lr"),
                      (lambda: optim.Muon([matrix], adjust_lr_fn="x"), "match_rms_adamw"),
                      (lambda: optim.Adafactor([matrix], beta2_decay=1), "beta2_decay"),
                      (lambda: optim.Adafactor([matrix], d=0.5), "1 or more"),
                      (lambda: optim.Adafactor([matrix], eps=(-1, 0.1)), r"eps\[0\]")]:
        with pytest.raises(ValueError, match=said):
            bad()
    number = cresset.nn.Parameter(cresset.ones(2, 2, dtype=cresset.complex64))
    number.grad = cresset.ones(2, 2, dtype=cresset.complex64)
    for name in ("Adafactor", "Muon"):
        with pytest.raises(RuntimeError, match="does not support complex parameters"):
            getattr(optim, name)([number]).step()
