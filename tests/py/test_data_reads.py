"""Numbers and sizes that depend on data (O6, S2, S6): recorded as unbacked symbols, checked when the program runs."""
import pathlib
import sys

import cresset
import numpy
import pytest
from cresset import _C

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import data_programs as programs  # noqa: E402

every_program = pytest.mark.parametrize("name", programs.PROGRAMS)


def export(name):
    fn, given, dynamic, _ = programs.PROGRAMS[name]

    class Program(cresset.nn.Module):
        def forward(self, *args):
            return tuple(programs.leaves(fn(cresset, *args)))
    shapes = (tuple(spec and {d: cresset.export.Dim(n, min=2) for d, n in spec.items()} for spec in dynamic),
              ) if dynamic else None
    return cresset.export.export(Program(), programs.inputs(cresset, given), dynamic_shapes=shapes)


def check(model, name, oracle):
    fn, given, _, others = programs.PROGRAMS[name]
    for i, case in enumerate([given, *others]):
        wanted = oracle(f"case {i}", lambda torch, case=case: programs.leaves(fn(torch, *programs.inputs(torch, case))))
        ours = programs.arrays(model(*programs.inputs(cresset, case)))
        assert len(ours) == len(wanted)
        for mine, want in zip(ours, wanted):
            numpy.testing.assert_allclose(mine, want.array, rtol=1e-5, atol=1e-6)


@every_program
def test_exported(name, oracle):
    check(export(name).module(), name, oracle)


@every_program
def test_compiled(name, oracle):
    check(export(name).compile(options={"wait": True}), name, oracle)


def record(fn, *args, **how):
    return _C.record(fn, args, **how)


def test_a_number_is_read_once():
    graph = record(lambda n, x: x * n.item() + n.item(), cresset.tensor(3), cresset.ones(2))
    assert [node["target"] for node in graph.nodes if node["kind"] == "call"] == ["aten.item", "aten.mul.Tensor",
            "aten.add.Tensor"]
    graph = record(lambda n, x: (x * n.item(), n.add_(1), x * n.item())[2], cresset.tensor(3), cresset.ones(2))
    # it was written in between
    assert [node["target"] for node in graph.nodes if node["kind"] == "call"].count("aten.item") == 2
    assert graph.run(cresset.tensor(3), cresset.ones(2)).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("fn, names", [
    (lambda n, x: x if n.item() > 2 else x + 1, "u0"), (lambda n, x: x * int(n), "u0"),
    (lambda n, x: x if n else x + 1, "u0"), (lambda n, x: x * bool(n), "u0"),
    (lambda n, x: [x] * n.item(), "u0"),
])
def test_a_branch_on_data_is_an_error(fn, names):
    with pytest.raises(cresset.GuardOnDataDependentSymNode, match=names):
        record(fn, cresset.tensor(3), cresset.ones(2))


def test_negative_sizes_are_refused_when_the_program_runs():
    model = export("item_as_size").module()
    with pytest.raises(Exception, match="u0 >= 0|negative|size"):
        model(cresset.tensor(-1))
    compiled = export("item_as_size").compile(options={"wait": True})
    with pytest.raises(Exception, match="u0|size|negative"):
        compiled(cresset.tensor(-1))


def test_an_index_out_of_range_is_refused_when_the_program_runs():
    for model in (export("select_item").module(), export("select_item").compile(options={"wait": True})):
        for at in (4, -5):
            with pytest.raises((IndexError, RuntimeError)):
                model(cresset.tensor(at), cresset.tensor(programs.X))


def test_what_was_checked_is_checked_again():
    for model in (export("check_with_message").module(), export("check_with_message").compile(options={"wait": True})):
        with pytest.raises(RuntimeError, match="two or more|u0 >= 2"):
            model(cresset.tensor(1), cresset.tensor(programs.X))


def test_sizes_that_must_be_equal_are_checked():
    class Program(cresset.nn.Module):
        def forward(self, x, y):
            return x[x > 0] + y[y > 0]
    ep = cresset.export.export(Program(), (cresset.tensor([1.0, 2.0]), cresset.tensor([3.0, 4.0])))
    for model in (ep.module(), ep.compile(options={"wait": True})):
        assert model(cresset.tensor([1.0, -1.0]), cresset.tensor([-1.0, 5.0])).tolist() == [6.0]
        with pytest.raises(RuntimeError):
            model(cresset.tensor([1.0, 2.0]), cresset.tensor([-1.0, 5.0]))


def test_assertions_are_nodes_of_the_program():
    targets = [str(node.target) for node in export("two_masks").graph.nodes]
    assert sum("_assert_scalar" in target for target in targets) == 5  # bounds of both counts, and that they are equal


def test_assertions_can_be_left_out(monkeypatch):
    monkeypatch.setattr("cresset.export.config.runtime_asserts", False)
    assert not any("_assert_scalar" in str(node.target) for node in export("two_masks").graph.nodes)


def test_nothing_is_found_in_nothing():
    """Of a tensor that has no elements the size is no question: 0, as PyTorch has it."""
    class Program(cresset.nn.Module):
        def forward(self, x):
            return x.nonzero(), x[x > 0], x.unique()
    ep = cresset.export.export(Program(), (cresset.ones(0, 4),))
    for program in (ep, ep.run_decompositions()):
        assert not program.range_constraints
        sizes = [node.meta["val"].shape for node in program.graph.nodes if node.name.startswith(("nonzero", "index"))]
        assert sizes == [(0, 2), (0,)]
        assert [y.shape for y in program.module()(cresset.ones(0, 4))] == [(0, 2), (0,), (0,)]
