"""A11, X2: run_decompositions() and its tables."""
import pathlib

import pytest

import cresset
import cresset.export
from cresset._decomp import CustomDecompTable, core_aten_decompositions, get_decompositions

RECORDED = pathlib.Path(__file__).resolve().parent.parent / "interop" / "recorded"
aten = cresset.ops.aten


def program(name):
    return cresset.export.load(RECORDED / f"{name}.training.pt2")


def ops(ep):
    return [node["target"] for node in ep._program.graph.nodes if node["kind"] == "call"]


def test_mutated_buffers_are_outputs_and_runs_change_them():
    ep = program("counting")
    core = ep.run_decompositions()
    kinds = [(spec.kind.name, spec.target) for spec in core.graph_signature.output_specs]
    assert kinds[0][0] == "BUFFER_MUTATION" and kinds[-1][0] == "USER_OUTPUT"
    core._program.graph.verify("functional", "core")
    assert core.dialect == "ATEN" and ep.dialect == "TRAINING"
    args, kwargs = ep.example_inputs
    one, other = ep.module(own_state=True), core.module(own_state=True)
    for _ in range(2):
        assert [x.tolist() for x in one(*args, **kwargs)] == [x.tolist() for x in other(*args, **kwargs)]


def test_values_are_named_after_their_ops():
    names = [result["name"] for node in program("conv_bn_relu_train").run_decompositions()._program.graph.nodes
             for result in node["results"]]
    assert {"convolution", "add", "getitem", "getitem_3", "getitem_4", "relu"} <= set(names)


def test_an_empty_table_only_makes_the_graph_functional():
    ep = program("conv_bn_relu_train")
    plain = ep.run_decompositions({})
    assert "aten.conv2d" in ops(plain) and "aten.conv2d" not in ops(ep.run_decompositions())
    plain._program.graph.verify("functional")


def test_an_op_taken_out_of_the_table_is_kept():
    table = cresset.export.default_decompositions()
    assert isinstance(table, CustomDecompTable) and aten.conv2d.default in table
    del table[aten.conv2d.default]
    assert "aten.conv2d" in ops(program("conv_bn_relu_train").run_decompositions(table))
    assert aten.conv2d.default in core_aten_decompositions() and aten.conv2d.default not in table.copy()
    assert aten.conv2d.default not in table.materialize() and type(table.materialize()) is dict
    with pytest.raises(KeyError):
        table.pop(aten.conv2d.default)
    assert table.pop(aten.conv2d.default, None) is None


def test_a_function_takes_the_place_of_an_op():
    table = cresset.export.default_decompositions()
    table[aten.relu.default] = lambda x: cresset.where(x > 0, x, x * 0.0)
    ep = program("conv_bn_relu_train")
    core = ep.run_decompositions(table)
    assert "aten.relu" not in ops(core) and "aten.where.self" in ops(core)
    args, kwargs = ep.example_inputs
    assert core.module(own_state=True)(*args, **kwargs).tolist() == ep.module(own_state=True)(*args, **kwargs).tolist()


def test_a_function_that_fails_says_so():
    def broken(x):
        raise ZeroDivisionError("of its own")
    with pytest.raises(ZeroDivisionError, match="of its own"):
        program("conv_bn_relu_train").run_decompositions({aten.relu.default: broken})


def test_a_function_that_comes_back_to_itself_is_refused():
    with pytest.raises(RuntimeError, match="aten::relu does not end"):
        program("conv_bn_relu_train").run_decompositions({aten.relu.default: lambda x: cresset.relu(x)})


def test_a_function_may_decline():
    core = program("conv_bn_relu_train").run_decompositions({aten.relu.default: lambda x: NotImplemented})
    assert "aten.relu" in ops(core)


def test_get_decompositions_takes_ops_and_overloads():
    found = get_decompositions([aten.addcmul, aten.linear.default, aten.mm.default])
    assert aten.addcmul.default in found and aten.linear.default in found and aten.mm.default not in found
    with pytest.raises(TypeError, match="op overloads"):
        program("counting").run_decompositions({"aten.relu": None})
    with pytest.raises(TypeError, match="expected a function"):
        program("counting").run_decompositions({aten.relu.default: 3})


def test_statistics_become_outputs_whatever_the_table():
    """batch_norm and instance_norm write their buffers, though their schemas do not say so: no table keeps that from
    becoming a value."""
    class Norms(cresset.nn.Module):
        def __init__(self):
            super().__init__()
            self.batch, self.instance = cresset.nn.BatchNorm1d(3), cresset.nn.InstanceNorm1d(3,
                    track_running_stats=True)

        def forward(self, x):
            return self.batch(x), self.instance(x)
    x = cresset.randn(4, 3, 5)
    plain = cresset.export.export(Norms(), (x,)).run_decompositions({})
    plain._program.graph.verify("functional")
    mutated = {spec.target for spec in plain.graph_signature.output_specs if spec.kind.name == "BUFFER_MUTATION"}
    assert mutated == {"batch.running_mean", "batch.running_var", "batch.num_batches_tracked", "instance.running_mean",
                       "instance.running_var"}
