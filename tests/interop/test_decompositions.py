"""A11, X2: run_decompositions() gives the calls that PyTorch's gives. A seeded part of the sweep; `./dev test --full
decomp` runs all of it."""
import pathlib
import random
import sys
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
torch = pytest.importorskip("torch", reason="decompositions are compared with PyTorch's own")

import checking  # noqa: E402
import cresset.export  # noqa: E402
import op_agreement  # noqa: E402
import programs  # noqa: E402

COUNT = 20
NAMES = [p.name for p in programs.programs() if set(p.dialects) == set(programs.DIALECTS)]
SAMPLE = random.Random(11).sample([name for name in NAMES if name not in op_agreement.KNOWN], COUNT)


def decomposed(name, folder):
    """(here, there): the program after run_decompositions() of either."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = programs.export(programs.TABLE[name])
        for dialect, program in (("training", exported), ("core", exported.run_decompositions())):
            torch.export.save(program, folder / f"{name}.{dialect}.pt2")
    training, core = (cresset.export.load(folder / f"{name}.{dialect}.pt2") for dialect in ("training", "core"))
    return training.run_decompositions(), core


@pytest.mark.parametrize("name", SAMPLE)
def test_the_same_calls(name, tmp_path):
    here, there = decomposed(name, tmp_path)
    here.validate()
    here._program.graph.verify("functional")
    assert op_agreement.difference(here._program.graph._data(), there._program.graph._data()) is None
    ours, theirs = here.graph_signature, there.graph_signature
    assert [(spec.kind.name, spec.target) for spec in ours.output_specs] == [(spec.kind.name, spec.target)
            for spec in theirs.output_specs]
    assert [(spec.kind.name, spec.arg.name, spec.target) for spec in ours.input_specs] == [(spec.kind.name,
            spec.arg.name, spec.target) for spec in theirs.input_specs]
    assert dict(here.range_constraints) == dict(there.range_constraints)


@pytest.mark.parametrize("name", random.Random(12).sample(SAMPLE, 5))
def test_the_same_numbers(name, tmp_path):
    p = programs.TABLE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = checking.make(p, "training", tmp_path)
    assert checking.by_module(archive, lambda path: cresset.export.load(path).run_decompositions()) is None


def test_a_difference_is_seen(tmp_path):
    here, there = decomposed("linear", tmp_path)
    other = cresset.export.load(tmp_path / "linear.training.pt2").run_decompositions({})
    assert "aten.addmm" in op_agreement.difference(other._program.graph._data(), there._program.graph._data())
    assert op_agreement.same_order(here._program.graph._data(), there._program.graph._data())


def test_symbols_that_are_found_anew_are_declared(tmp_path):
    """PyTorch has settled how many counts there are; the count is found out again here, and archives declare it."""
    class Program(torch.nn.Module):
        def forward(self, x, y):
            return torch.bincount(x, minlength=3) + y
    x, y = torch.tensor([0, 2, 1, 1]), torch.tensor([1, 2, 3])
    torch.export.save(torch.export.export(Program(), (x, y)), tmp_path / "there.pt2")
    core = cresset.export.load(tmp_path / "there.pt2").run_decompositions()
    cresset.export.save(core, tmp_path / "here.pt2")
    assert torch.export.load(tmp_path / "here.pt2").module()(x, y).tolist() == [2, 4, 4]
    again = cresset.export.load(tmp_path / "here.pt2").module()
    assert again(*(cresset.from_dlpack(t) for t in (x, y))).tolist() == [2, 4, 4]
