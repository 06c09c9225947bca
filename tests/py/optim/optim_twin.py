"""The same training run in both libraries: parameters and gradients from one seed, results as numpy arrays."""
import warnings

import numpy
import torch

import cresset

SIZES = [(5, 3), (7,), (), (0, 4), (6, 4)]
DTYPES = {"f32": ("float32", numpy.float32), "f64": ("float64", numpy.float64), "c64": ("complex64", numpy.complex64),
          "c128": ("complex128", numpy.complex128), "f16": ("float16", numpy.float16), "bf16": ("bfloat16", None)}
TOLERANCE = {"f32": 1e-6, "c64": 1e-6, "f64": 1e-12, "c128": 1e-12}
LIBRARIES = (cresset, torch)


def made(module, random, size, dtype):
    """A seeded tensor; a matrix of 6 rows lies column by column."""
    name, kind = DTYPES[dtype]
    value = random.randn(*size)
    if name.startswith("complex"):
        value = value + 1j * random.randn(*size)
    value = numpy.asarray(value).astype(kind or numpy.float32)
    if size[:1] == (6,):
        return module.from_numpy(value.T.copy()).to(getattr(module, name)).t()
    return module.from_numpy(value.copy()).to(getattr(module, name))


def array(value):
    value = value.detach()
    return (value.float() if "bfloat16" in str(value.dtype) else value).resolve_conj().numpy()


class Run:
    """Parameters of all sizes, the last of them without a gradient, and an optimizer over them."""

    def __init__(self, module, line, dtypes=("f32",), seed=0, groups=1):
        self.module, self.random = module, numpy.random.RandomState(seed)
        self.dtypes = dtypes
        self.params = [module.nn.Parameter(made(module, self.random, size, dtype)) for dtype in dtypes
                       for size in SIZES] + [module.nn.Parameter(module.ones(2))]
        half = len(self.params) // 2
        given = {1: "self.params", 2: "[{'params': self.params[:half], 'lr': 0.05}, {'params': self.params[half:]}]"}
        names = {"self": self, "half": half, "torch": module, "tensor": module.tensor}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer = eval(f"torch.optim.{line}".replace("(", f"({given[groups]}, ", 1), names)

    def steps(self, count):
        for _ in range(count):
            for p in self.params[:-1]:
                dtype = next(d for d, (name, _) in DTYPES.items() if str(p.dtype).endswith("." + name))
                p.grad = made(self.module, self.random, tuple(p.shape), dtype)
            self.optimizer.step()
        return self

    def results(self):
        """{name: array} of parameters and of everything in their state."""
        found = {f"parameter {i}": array(p) for i, p in enumerate(self.params)}
        for i, state in self.optimizer.state_dict()["state"].items():
            for key, value in state.items():
                found[f"{key} of {i}"] = array(value) if hasattr(value, "dtype") else value
        return found


def agree(mine, theirs, tolerance):
    assert list(mine) == list(theirs)
    for key, want in theirs.items():
        got = mine[key]
        assert got.dtype == want.dtype and got.shape == want.shape, key
        assert (numpy.isnan(got) == numpy.isnan(want)).all(), key
        error = numpy.abs(got.astype(complex) - want).max(initial=0)
        assert not error > tolerance * max(numpy.abs(want).max(initial=0), 1e-30), f"{key}: {error}\n{got}\n{want}"
