"""A sample of `./dev test --full behaviour --torch`, `natural --torch`, `breaks --torch` and `alias --torch`: the
programs that are written on Cresset's tensors, with torch in their place; those of the behaviour suite in a process of
their own. And what both front ends keep of a call for its walk back."""
import pathlib
import random
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
TESTS = pathlib.Path(__file__).resolve().parents[1]
FULL = TESTS / "full"
sys.path.insert(0, str(TESTS / "ops"))
import alias_cells  # noqa: E402

import cresset  # noqa: E402


@pytest.mark.parametrize("sweep, words", [("behaviour.py", ["modules.", "grad"]), ("breaks.py", ["modules.l"]),
                                          ("natural.py", ["disabled.for", "asked.with"])])
def test_programs_on_torchs_tensors(sweep, words):
    done = subprocess.run([sys.executable, str(FULL / sweep), "--torch", "--fresh", *words], capture_output=True,
                          text=True)
    assert done.returncode == 0 and " 0 failed" in done.stdout, done.stdout[-3000:]


# of each kind of difference that there was: sizes and history changed in place, values written over after they were
# kept, inputs that are written later, parts of unbind() and split(), bases of views of intermediates, writes to views
CELLS = [
    "result, t_ and data, after, unbind of input, out0 written, grad",
    "leaf, t_, before, the input, nothing, no grad",
    "result, detach_, before, the input, nothing, grad",
    "same twice, both, after, fresh, nothing, grad",
    "result, y, before, other input and fresh, out0 written, grad",
    "same twice, x[0], before, fresh, x written, grad",
    "0 rows, x, before, other input and fresh, out0 written, grad",
    "result, one of unbind, before, the input, nothing, grad",
    "1 row, one of split, before, the input, nothing, grad",
    "same twice, none, before, unbind of intermediate, out0 written, grad",
    "leaf, none, before, view of intermediate, nothing, grad",
    "same twice, t_ and data, after, other input and fresh, nothing, grad",
]


@pytest.mark.parametrize("name", CELLS)
def test_cells_that_differed(name):
    warnings.simplefilter("ignore")
    cell = next(c for c in alias_cells.cells() if alias_cells.name_of(c) == name)
    assert alias_cells.check(torch, cresset, cell, alias_cells.CAPTURED) is None


def test_sample_of_the_alias_matrix():
    warnings.simplefilter("ignore")
    chosen = random.Random(29).sample(list(alias_cells.cells()), 300)
    found = {alias_cells.name_of(c): alias_cells.check(torch, cresset, c, alias_cells.CAPTURED) for c in chosen}
    assert not {name: text for name, text in found.items() if text}


# What is written to an input between a call and its walk back; PyTorch keeps what derivatives read, and no input here.
KEPT = {
    "of a cheap function": lambda x, b: ((x - b).sigmoid() * x).sum(),
    "of a function of it": lambda x, b: (x * (b * 2).exp()).sum(),
    "a copy": lambda x, b: (x * b.clone().detach()).sum(),
    "a view of what is made of it": lambda x, b: (x.view(3, 1) * (b.view(1, 3) + 1)).sum(),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("options", [{"backend": "eager"}, {"options": {"wait": True}}], ids=["eager", "native"])
@pytest.mark.parametrize("lib", [torch, cresset], ids=["torch", "cresset"])
def test_an_input_that_no_derivative_reads_may_be_written_before_the_walk_back(lib, options, name):
    def gradient(run, write):
        x, b = lib.tensor([1.0, 2.0, 3.0], requires_grad=True), lib.tensor([0.5, 0.1, 0.2])
        out = run(x, b)
        write(b)
        out.backward()
        return x.grad.tolist()

    for write in (lambda b: b.add_(1), lambda b: b.data.add_(1)):
        found = gradient(cresset.compile(KEPT[name], **options), write)
        assert found == pytest.approx(gradient(KEPT[name], write))


def test_an_input_that_a_derivative_reads_may_not():
    run, b = cresset.compile(lambda x, b: (x * b).sum(), backend="eager"), torch.ones(3)
    out = run(torch.ones(3, requires_grad=True), b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        out.backward()
