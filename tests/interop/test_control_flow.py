"""O7, O6, S6, P1: programs with control flow and data reads, exported and saved here, load in PyTorch, run to the same
numbers there, and can be re-traced there."""
import logging
import pathlib
import sys
import warnings

import cresset
import numpy
import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "py"),
                str(pathlib.Path(__file__).resolve().parent)]
torch = pytest.importorskip("torch", reason="without the oracle, tests/py/test_higher_order.py and test_data_reads.py "
                            "run these programs here")

import data_programs  # noqa: E402
import test_higher_order as control  # noqa: E402

# carried literals have no form in archives, PyTorch's own included; tensors that stand in two lists of operands cannot
# be re-traced by PyTorch
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
    cases = [((control.floats(n, 3), control.W), numbers(fn(cresset, *control.inputs(cresset, n))))
             for n in ((4,) if name in control.STATIC else (4, 6))]
    check(ep, tmp_path / "program.pt2", cases, name not in RUN_ONLY)
    check(ep.run_decompositions(), tmp_path / "core.pt2", cases, False)


@pytest.mark.parametrize("name", data_programs.PROGRAMS)
def test_data(name, tmp_path):
    fn, given, dynamic, others = data_programs.PROGRAMS[name]
    shapes = (tuple(dims(spec) for spec in dynamic),) if dynamic else None
    ep = exported(fn, data_programs.inputs(cresset, given), shapes)
    cases = [(case, numbers(fn(torch, *data_programs.inputs(torch, case)))) for case in (given, *others)]
    check(ep, tmp_path / "program.pt2", cases, True)


def without_gradients(t, x, w):
    def yes(a):
        with t.no_grad():
            b = a * w
        return b + 1
    with t.no_grad():
        y = x + 1
    return t.cond(x.sum() > 0, yes, lambda a: a * 2, (y,)) + y


def test_gradient_modes_inside_of_bodies(tmp_path):
    """X8: a part of a body that runs with another gradient mode is a region of the body, as in PyTorch's own export."""
    ep = exported(without_gradients, control.inputs(cresset), None)
    check(ep, tmp_path / "program.pt2",
          [((control.floats(4, 3), control.W), numbers(without_gradients(cresset, *control.inputs(cresset))))], True)

    class Program(torch.nn.Module):
        def forward(self, x, w):
            return without_gradients(torch, x, w)

    def regions(module):
        found = [str(node.target) for node in module.graph.nodes if node.op == "call_function"
                 and str(node.target) in ("cond", "wrap_with_set_grad_enabled")]
        inner = {node.target: regions(getattr(module, node.target)) for node in module.graph.nodes
                 if node.op == "get_attr"}
        return found, inner
    theirs = torch.export.export(Program(), control.inputs(torch)).graph_module
    assert regions(torch.export.load(tmp_path / "program.pt2").graph_module) == regions(theirs)


def test_writes_hidden_in_a_region_are_found():
    def yes(a):
        with cresset.no_grad():
            a.add_(1)
        return a * 2
    with pytest.raises(RuntimeError, match="true_fn changes its input"):
        exported(lambda t, x, w: t.cond(x.sum() > 0, yes, lambda a: a * 2, (x,)), control.inputs(cresset), None)


def test_a_carried_literal_cannot_be_saved(tmp_path):
    ep = exported(control.loop_int, control.inputs(cresset), None)
    with pytest.raises(RuntimeError, match="carry it as a tensor"):
        cresset.export.save(ep, tmp_path / "program.pt2")
