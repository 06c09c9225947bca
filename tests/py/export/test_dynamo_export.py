"""cresset._dynamo.export: a function captured whole. Feature E10: signature, structure, and every error condition."""
import warnings

import pytest

import cresset as torch
from cresset import _dynamo
from cresset._dynamo.exc import Unsupported
from cresset.export import Dim, UserError, UserErrorType

nn = torch.nn
ELSEWHERE = torch.ones(3)


def ops(gm):
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def test_signature_and_structure_are_the_functions():
    def f(x, *rest, k=1, **named):
        return {"sum": x + rest[0] * k, "same": (x, 3, named["z"])}
    x, y, z = torch.ones(3), torch.ones(3), torch.zeros(2)
    gm, guards = _dynamo.export(f)(x, y, k=2, z=z)
    assert isinstance(gm, torch.fx.GraphModule) and guards and all(isinstance(text, str) for text in guards)
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    assert names == ["x", "rest_0", "arg2", "z"]  # k is settled: no node uses it
    got = gm(x, y, k=2, z=z)
    assert got["sum"].tolist() == [3, 3, 3] and got["same"][0] is x and got["same"][1] == 3 and got["same"][2] is z
    with pytest.raises(TypeError, match="takes x, rest_0, k, z; z is missing"):
        gm(x, y, k=2)


def test_sizes_are_open_unless_somebody_says_otherwise():
    f, x = lambda x: x.reshape(-1) * x.shape[0], torch.ones(3, 2)
    assert _dynamo.export(f)(x).graph_module(torch.ones(5, 4)).tolist() == [5.0] * 20
    for options in ({"assume_static_by_default": True}, {"tracing_mode": "fake"}, {"tracing_mode": "real"}):
        gm = _dynamo.export(f, **options)(x).graph_module
        assert [node.meta["val"].shape for node in gm.graph.nodes if node.op == "placeholder"] == [(3, 2)]
    gm = _dynamo.export(f, dynamic_shapes={"x": {0: Dim("n")}})(x).graph_module
    assert gm(torch.ones(4, 2)).tolist() == [4.0] * 8


def test_flat_without_the_signature():
    gm, _ = _dynamo.export(lambda d: {"a": d["x"] + 1}, same_signature=False)({"x": torch.ones(2)})
    out = gm(torch.ones(2))
    assert (out[0] if isinstance(out, (tuple, list)) else out).tolist() == [2, 2]


def test_modules_keep_their_state():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.table = nn.Linear(2, 2), torch.ones(2)
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.steps += 1
            return self.layer(x) + self.table

        def other(self, x):
            return self.layer(x) * 2
    m, x = M(), torch.randn(3, 2)
    for options in ({}, {"aten_graph": True}):
        gm, _ = _dynamo.export(m, **options)(x)
        assert torch.allclose(gm(x), m(x)) and gm.layer.weight is m.layer.weight
    assert torch.allclose(_dynamo.export(m.other)(x).graph_module(x), m.other(x))


def test_aten_graphs_are_decomposed():
    f, x = lambda x: nn.functional.gelu(x).add_(1), torch.randn(4)
    assert any("add_" in op for op in ops(_dynamo.export(f)(x).graph_module))
    gm = _dynamo.export(f, aten_graph=True)(x).graph_module
    assert not any("add_" in op for op in ops(gm)) and torch.allclose(gm(x), f(x))
    table = torch.export.default_decompositions()
    assert torch.allclose(_dynamo.export(f, aten_graph=True, decomposition_table=table)(x).graph_module(x), f(x))
    assert any("add_" in op for op in ops(_dynamo.export(f, aten_graph=True, pre_dispatch=True)(x).graph_module))


def test_no_op_and_constants():
    gm, _ = _dynamo.export(lambda x: (x, 2, "text"))(torch.ones(2))
    x = torch.zeros(2)
    assert gm(x)[0] is x and gm(x)[1:] == (2, "text") and ops(gm) == []


def test_the_old_form_warns_and_works():
    with pytest.warns(FutureWarning, match=r"export\(f\)\(\*args\)"):
        gm, _ = _dynamo.export(lambda x: x + 1, torch.ones(2))
    assert gm(torch.ones(2)).tolist() == [2, 2]


def settled(x):
    return x + 1 if x.shape[0] == 4 else x


ERRORS = {
    "no function": (lambda: _dynamo.export(3), AssertionError, ["function or a module", "int"]),
    "pre_dispatch alone": (lambda: _dynamo.export(settled, pre_dispatch=True), AssertionError, ["aten_graph=True"]),
    "a table alone": (lambda: _dynamo.export(settled, decomposition_table={}), AssertionError, ["aten_graph=True"]),
    "a mode": (lambda: _dynamo.export(settled, tracing_mode="none"), ValueError, ["'symbolic'", "'none'"]),
    "an input": (lambda: _dynamo.export(lambda x, o: x)(torch.ones(2), object()), UserError,
                 ["input o", "builtins.object", "register_pytree_node"]),
    "an output": (lambda: _dynamo.export(lambda x: (x, print))(torch.ones(2)), UserError,
                  ["output", "register_pytree_node"]),
    "tensors from elsewhere": (lambda: _dynamo.export(lambda x: x + ELSEWHERE + OTHERS[0])(torch.ones(3)), UserError,
                               ["[3]", "[1]", "test_dynamo_export.py", "as an argument", "assume_constant_result"]),
    "a break": (lambda: _dynamo.export(lambda x: x + id(x))(torch.ones(3)), Unsupported, ["id", "not one graph"]),
    "a range of what is settled": (lambda: _dynamo.export(settled, dynamic_shapes={"x": {0: Dim("n", max=9)}})(
        torch.ones(4)), UserError, ["Constraints violated", "n = 4"]),
    "arguments that do not fit": (lambda: _dynamo.export(settled)(torch.ones(4), 2), UserError, ["too many"]),
}
OTHERS = [torch.ones(1)]


@pytest.mark.parametrize("what", ERRORS)
def test_errors_name_facts_and_remedy(what):
    call, kind, facts = ERRORS[what]
    with pytest.raises(kind) as raised:
        call()
    assert not [fact for fact in facts if fact not in str(raised.value)], str(raised.value)
    types = {"an input": UserErrorType.INVALID_INPUT, "an output": UserErrorType.INVALID_OUTPUT,
             "a range of what is settled": UserErrorType.CONSTRAINT_VIOLATION}
    if what in types:
        assert raised.value.error_type is types[what]


def test_the_solver_can_be_switched_off():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm, _ = _dynamo.export(settled, dynamic_shapes={"x": {0: Dim("n")}}, disable_constraint_solver=True)(
            torch.ones(4))
    assert gm(torch.ones(4)).tolist() == [2] * 4


def placeholders(graph_module):
    return [node.target for node in graph_module.graph.nodes if node.op == "placeholder"]


def test_inputs_that_nothing_uses_have_numbers():
    """As in PyTorch; arguments go by their places and names all the same."""
    def f(a, *xs, k=3, **kw):
        return a + xs[1] + kw["z"]
    ones = [torch.ones(2) * i for i in range(6)]
    graph, _ = _dynamo.export(f)(*ones[:4], z=ones[4], q=ones[5])
    assert placeholders(graph) == ["a", "arg1", "xs_1", "arg3", "z", "arg5"]
    assert graph(*ones[:4], z=ones[4], q=ones[5]).tolist() == f(*ones[:4], z=ones[4]).tolist()
    graph, _ = _dynamo.export(lambda x, n, y: x * 2)(torch.ones(2), 3, torch.ones(3))
    assert placeholders(graph) == ["x", "arg1", "arg2"]
    graph, _ = _dynamo.export(lambda x, y: y)(torch.ones(2), torch.ones(3))
    assert placeholders(graph) == ["arg0", "y"]


def test_names_of_inputs_stay_where_numbers_would_say_nothing():
    graph, _ = _dynamo.export(lambda x: 3)(torch.ones(2))
    assert placeholders(graph) == ["x"] and graph(torch.ones(2)) == 3
    graph, _ = _dynamo.export(lambda arg1, b: arg1 + 1)(torch.ones(2), torch.ones(3))
    graph.graph.lint()
    assert placeholders(graph) == ["arg1", "arg1_1"] and graph(torch.ones(2), torch.ones(3)).tolist() == [2, 2]

    def writes(x, y):
        y.copy_(x * 2)
        return x + 1
    graph, _ = _dynamo.export(writes, aten_graph=True)(torch.ones(2), torch.zeros(2))
    given = torch.zeros(2)
    graph(torch.ones(2), given)
    assert placeholders(graph) == ["x", "y"] and given.tolist() == [2, 2]
