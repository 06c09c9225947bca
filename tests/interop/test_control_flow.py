"""O7, O6, S6, P1: programs with control flow and data reads, exported and saved here, load in PyTorch, run to the same numbers there, and
can be re-traced there."""
import logging
import pathlib
import sys
import warnings

import cresset
import numpy
import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "py"), str(pathlib.Path(__file__).resolve().parent)]
torch = pytest.importorskip("torch", reason="without the oracle, tests/py/test_higher_order.py and test_data_reads.py run these programs here")

import data_programs  # noqa: E402
import test_higher_order as control  # noqa: E402

# carried literals have no form in archives, PyTorch's own included; tensors that stand in two lists of operands cannot be re-traced by PyTorch
UNSAVED = {"loop_int"}
RUN_ONLY = {"loop_nested", "scan_plain"}


def exported(fn, given, shapes):
    class Program(cresset.nn.Module):
        def forward(self, *args):
            return tuple(control.leaves(fn(cresset, *args)))
    return cresset.export.export(Program(), given, dynamic_shapes=shapes)


def dims(spec):
    return spec and {d: cresset.export.Dim(name, min=2) for d, name in spec.items()}


def numbers(values):
    return [numpy.asarray(v.detach().numpy() if hasattr(v, "detach") else v) for v in control.leaves(values)]


def check(ep, path, cases, retrace):
    """cases: pairs of inputs as arrays and the numbers that must come out."""
    cresset.export.save(ep, path)
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.export.load(path)
    module, ours = theirs.module(), cresset.export.load(path).module()
    for given, wanted in cases:
        for t, model in ((torch, module), (cresset, ours)):
            found = numbers(model(*(t.tensor(v) for v in given)))
            assert len(found) == len(wanted)
            for mine, want in zip(found, wanted):
                numpy.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)
    if retrace:
        theirs.run_decompositions({})


@pytest.mark.parametrize("name", [name for name in (*control.PROGRAMS, *control.ASSOCIATIVE) if name not in UNSAVED])
def test_control_flow(name, tmp_path):
    fn = {**control.PROGRAMS, **control.ASSOCIATIVE}[name]
    shapes = None if name in control.STATIC else ((dims({0: "rows"}), None),)
    ep = exported(fn, control.inputs(cresset), shapes)
    cases = [((control.floats(n, 3), control.W), numbers(fn(cresset, *control.inputs(cresset, n)))) for n in ((4,) if name in control.STATIC else (4, 6))]
    check(ep, tmp_path / "program.pt2", cases, name not in RUN_ONLY)


@pytest.mark.parametrize("name", data_programs.PROGRAMS)
def test_data(name, tmp_path):
    fn, given, dynamic, others = data_programs.PROGRAMS[name]
    shapes = (tuple(dims(spec) for spec in dynamic),) if dynamic else None
    ep = exported(fn, data_programs.inputs(cresset, given), shapes)
    cases = [(case, numbers(fn(torch, *data_programs.inputs(torch, case)))) for case in (given, *others)]
    check(ep, tmp_path / "program.pt2", cases, True)


def test_a_carried_literal_cannot_be_saved(tmp_path):
    ep = exported(control.loop_int, control.inputs(cresset), None)
    with pytest.raises(RuntimeError, match="carry it as a tensor"):
        cresset.export.save(ep, tmp_path / "program.pt2")
