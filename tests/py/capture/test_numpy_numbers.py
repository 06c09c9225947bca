"""Numbers that a captured function computes with NumPy of constants."""
import re
import warnings

import pytest

np = pytest.importorskip("numpy", reason="numbers of NumPy's")
import cresset  # noqa: E402
from cresset import _C  # noqa: E402


class Box:
    size = 64


box = Box()

WHOLE = {
    "times": lambda x: x * np.sqrt(16),
    "written": lambda x: (x + 1).mul_(np.sqrt(box.size)),
    "minus a quotient": lambda x: x * -(np.log(float(box.size)) / (box.size - 1)),
    "of several": lambda x: x + np.power(2.0, 3) - np.maximum(2, 3.5),
    "rounded": lambda x: (x.reshape(int(np.ceil(x.shape[0] / 2)), -1), int(np.floor(2.5)), float(np.exp(1))),
    "given": lambda x: (np.sqrt(4), [np.log(2.0)], {"n": np.ceil(2.5)}),
    "compared": lambda x: x + 1 if np.sqrt(9) > 2 else x - 1,
    "a text": lambda x: (x, f"{np.sqrt(4):.2f} {np.log(1.0)}"),
    "product": lambda x: (np.prod([2, 3]), np.sum((1, 2)), np.max([1.5, 2]), np.mean([1, 2]), x + 1),
    "isinstance": lambda x: (isinstance(np.sqrt(4), float), isinstance(np.sqrt(4), np.float64), x),
    "an argument of an op": lambda x: (x.clamp(min=np.sqrt(0.25)), cresset.full((2,), np.sqrt(4))),
}
BROKEN = {
    "on the left": lambda x: x + (np.sqrt(4) * x.sum().reshape(1)).sum(),
    "of a tensor": lambda x: np.sqrt(x.numpy()).tolist(),
    "with keywords": lambda x: x * np.sqrt(4, dtype=np.float32),
    "warns": lambda x: x * np.log(0.0),
    "warns later": lambda x: x * (np.sqrt(4) / 0),
    "overflows": lambda x: x * np.exp(1000.0),
    "of a list": lambda x: (x, np.sqrt([4, 9]).tolist()),
    "an index": lambda x: (x[np.max([0, 1])], x.reshape(np.prod([2, 2]))),
    "raises": lambda x: np.sqrt("a"),
    "compared with a tensor": lambda x: x > np.sqrt(1.0),
    "set": lambda x: (x + 1).__setitem__(0, np.prod([2])),
}


def outcome(function):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = function(cresset.arange(4.0))
        except Exception as error:
            result = type(error), str(error)
    return repr(result), [str(w.message) for w in told]


@pytest.mark.parametrize("switches", [{}, {"miss_once": True}, {"fail_graphs": True}, {"every": 2}], ids=str)
@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_as_plain(name, switches):
    function = {**WHOLE, **BROKEN}[name]
    compiled = cresset.compile(function, backend="eager")
    _C._capture_switches(**switches)
    try:
        for _ in range(3):
            assert outcome(compiled) == outcome(function)
    finally:
        _C._capture_switches()


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name):
    compiled = cresset.compile(WHOLE[name], backend="eager", fullgraph=True)
    assert outcome(compiled) == outcome(WHOLE[name])


@pytest.mark.parametrize("name", BROKEN)
def test_ends(name):
    compiled = cresset.compile(BROKEN[name], backend="eager")
    outcome(compiled)
    assert any(entry["reason"] for entry in compiled._entries())


def test_what_it_is_computed_of_is_guarded():
    compiled = cresset.compile(lambda x: x * np.sqrt(box.size), backend="eager")
    for size in (64, 16, 64, 9):
        box.size = size
        assert compiled(cresset.ones(1)).item() == size ** 0.5
    box.size = 64


def test_a_function_that_is_exchanged(monkeypatch):
    compiled = cresset.compile(lambda x: x * np.sqrt(16), backend="eager")
    assert compiled(cresset.ones(1)).item() == 4
    monkeypatch.setattr(np, "sqrt", np.log2)
    assert compiled(cresset.ones(1)).item() == 4
    monkeypatch.setattr(np, "sqrt", np.negative)
    assert compiled(cresset.ones(1)).item() == -16


def test_sizes_that_change():
    compiled = cresset.compile(lambda x: x * np.sqrt(x.shape[0]), backend="eager")
    for n in (4, 9, 16, 25, 4):
        assert compiled(cresset.ones(n))[0].item() == n ** 0.5


def test_of_torchs_tensors():
    torch = pytest.importorskip("torch", reason="tensors of PyTorch")

    def function(x):
        return (x * np.sqrt(16) + np.log(2.0), x.int() * np.sqrt(4), torch.full((2,), np.sqrt(4)),
                (x + 1) / np.prod([2, 3]))
    compiled = cresset.compile(function, backend="eager", fullgraph=True)
    for got, want in zip(compiled(torch.arange(3.0)), function(torch.arange(3.0))):
        assert got.dtype == want.dtype and torch.equal(got, want)

    def made(x):
        return torch.tensor(np.sqrt(4)) + x  # of NumPy's number: float64
    compiled = cresset.compile(made, backend="eager")
    got, want = compiled(torch.ones(())), made(torch.ones(()))
    assert got.dtype == want.dtype == torch.float64
    assert re.search("tensor\\(\\)|NumPy", compiled._entries()[0]["reason"])
