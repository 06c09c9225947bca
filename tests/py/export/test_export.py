"""export(): what it checks, keeps and refuses. Features X1, X2, X5 to X11, A13, P3."""
import json
import warnings

import pytest

import cresset as torch
from cresset.export import Dim, UserError, UserErrorType, export

nn = torch.nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(()))
        self.scale = torch.tensor([1.0, 2.0, 3.0])
        self.cache, self.table, self.calls, self.names = None, {"k": [torch.zeros(2)]}, 0, ["a"]

    def forward(self, x):
        self.count.add_(1)
        self.calls += 1
        self.names.append("b")
        return self.layer(x) * self.scale


def snapshot(module):
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return ({key: (id(value), value.tolist()) for key, value in tensors.items()},
            {key: id(value) for key, value in module.__dict__.items()},
            module.calls, list(module.names), module.table["k"][0].tolist(), torch.is_grad_enabled(),
            torch.random.get_rng_state().tolist())


# ---- X1: arguments, side effects ----

@pytest.mark.parametrize("args, named", [([torch.ones(2)], "list"), (torch.ones(2), "Tensor"), (None, "NoneType")])
def test_args_must_be_a_tuple(args, named):
    with pytest.raises(UserError, match=f"tuple.*{named}") as raised:
        export(Model(), args)
    assert raised.value.error_type is UserErrorType.INVALID_INPUT


def test_kwargs_must_be_a_dict():
    with pytest.raises(UserError, match="dict.*list") as raised:
        export(Model(), (torch.ones(2, 3),), [1])
    assert raised.value.error_type is UserErrorType.INVALID_INPUT


@pytest.mark.parametrize("function", [lambda x: x, nn.Linear])
def test_only_modules(function):
    with pytest.raises(ValueError, match="takes a module.*forward"):
        export(function, (torch.ones(2),))


def test_inputs_that_do_not_fit_forward():
    with pytest.raises(UserError, match=r"do not fit forward\(x\).*too many") as raised:
        export(Model(), (torch.ones(2, 3), 4))
    assert raised.value.error_type is UserErrorType.INVALID_INPUT


def test_an_input_of_another_type_is_named():
    class M(nn.Module):
        def forward(self, x, options):
            return x
    with pytest.raises(UserError,
                       match=r"the input options\['a'\]\[1\] is a builtins.object.*register_dataclass") as raised:
        export(M(), (torch.ones(2), {"a": [1, object()]}))
    assert raised.value.error_type is UserErrorType.INVALID_INPUT


def test_an_output_of_another_type_is_named():
    class M(nn.Module):
        def forward(self, x):
            return x, {1, 2}
    with pytest.raises(UserError, match="an output is a builtins.set") as raised:
        export(M(), (torch.ones(2),))
    assert raised.value.error_type is UserErrorType.INVALID_OUTPUT


def test_export_changes_nothing():
    module, x = Model(), torch.ones(2, 3)
    before = snapshot(module)
    export(module, (x,))
    assert snapshot(module) == before


def test_a_failing_export_changes_nothing():
    class Failing(Model):
        def forward(self, x):
            super().forward(x)
            self.layer.weight = nn.Parameter(torch.ones(3, 3))
            self.added = 3
            torch._C._set_grad_enabled(False)
            torch.randn(3)
            raise KeyError("in forward")
    module = Failing()
    before = snapshot(module)
    with pytest.raises(KeyError, match="in forward"):
        export(module, (torch.ones(2, 3),))
    assert snapshot(module) == before
    assert not hasattr(module, "added")
    assert torch._C._exporting() is None and torch._C.is_grad_enabled()
    assert torch.equal(module.layer(torch.zeros(1, 3)), module.layer.bias[None])


def test_export_for_training_is_the_same():
    module, x = Model(), torch.ones(2, 3)
    assert str(torch.export.export_for_training(module, (x,))) == str(export(module, (x,)))


def test_capture_pre_autograd_graph_warns_once():
    module, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), torch.ones(2, 3)
    torch.export._trace._warned = False
    with pytest.warns(DeprecationWarning, match="export"):
        made = torch.export.capture_pre_autograd_graph(module, (x,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.export.capture_pre_autograd_graph(module, (x,))
    assert any("dropout" in node.name for node in made.graph.nodes)
    for change in (made.train, made.eval):
        with pytest.raises(NotImplementedError, match="export the module in"):
            change()
    with pytest.raises(ValueError, match="takes a module"):
        torch.export.capture_pre_autograd_graph(lambda x: x, (x,))


def test_patch_forward_exports_another_method():
    class M(nn.Module):
        def forward(self, x):
            return x + 1

        def other(self, x, y):
            return x * y
    module = M()
    with torch.export.patch_forward(module, module.other):
        ep = export(module, (torch.ones(2), torch.ones(2)))
    assert ep.graph_signature.user_inputs == ("x", "y")
    assert "forward" not in module.__dict__ and torch.equal(module(torch.ones(1)), torch.tensor([2.0]))


# ---- X2: what a program has ----

def test_the_program_has_the_modules_own_tensors():
    module = Model()
    ep = export(module, (torch.ones(2, 3),))
    assert ep.state_dict["layer.weight"] is module.layer.weight and ep.constants["scale"] is module.scale
    assert [name for name, _ in ep.named_parameters()] == ["layer.weight", "layer.bias"]
    assert ep.example_inputs[0][0].shape == (2, 3)
    assert ep.dialect == "TRAINING"
    ep.validate()


def test_numbers_and_texts_are_settled():
    class M(nn.Module):
        def forward(self, x, n, mode, flag=None):
            return x * n if mode == "mul" else x + n
    module = export(M(), (torch.ones(2), 3, "mul")).module()
    assert torch.equal(module(torch.ones(2), 3, "mul"), torch.tensor([3.0, 3.0]))
    with pytest.raises(AssertionError, match="'n'.*it is 4.*exported for 3"):
        module(torch.ones(2), 4, "mul")
    with pytest.raises(AssertionError, match="'mode'.*exported for \"mul\""):
        module(torch.ones(2), 3, "add")


# ---- A13: attributes ----

def test_assigned_tensors_are_named():
    class M(Model):
        def forward(self, x):
            self.cache = x + 1
            self.table["k"][0] = x
            self.layer.saved = x * 2
            return x
    module = M()
    with pytest.raises(ValueError, match="register_buffer") as raised:
        export(module, (torch.ones(2, 3),))
    for path in ("self.cache", "self.table['k'][0]", "self.layer.saved"):
        assert path in str(raised.value)
    assert module.cache is None and module.table["k"][0].shape == (2,) and not hasattr(module.layer, "saved")


def test_assigned_tensors_can_be_a_warning(monkeypatch):
    class M(nn.Module):
        def forward(self, x):
            self.cache = x + 1
            return x * 2
    monkeypatch.setattr(torch.export.config, "assigned_tensors", "warn")
    with pytest.warns(UserWarning, match="self.cache"):
        ep = export(M(), (torch.ones(2),))
    assert torch.equal(ep.module()(torch.ones(2)), torch.tensor([2.0, 2.0]))


# ---- X7: module calls ----

def test_calling_conventions_are_kept():
    class Inner(nn.Module):
        def forward(self, pair, *, scale):
            return {"sum": pair[0] + pair[1] * scale}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.other = Inner(), nn.ReLU()

        def forward(self, x):
            return self.inner((x, x + 1), scale=2)["sum"]
    ep = export(Outer(), (torch.ones(2),), preserve_module_call_signature=("inner",))
    root, inner, other = ep.module_call_graph
    assert (root.fqn, inner.fqn, other.fqn) == ("", "inner", "other") and other.signature is None
    assert [getattr(value, "name") or value.value for value in inner.signature.inputs] == ["x", "add", 2]
    assert [value.name for value in inner.signature.outputs] == ["add_1"]
    assert inner.signature.in_spec.num_leaves == 3 and inner.signature.forward_arg_names == ["pair", "scale"]
    with pytest.raises(ValueError, match="'nope'.*'inner', 'other'"):
        export(Outer(), (torch.ones(2),), preserve_module_call_signature=("nope",))


# ---- X9: verification ----

def test_a_violation_names_the_node():
    x = torch.ones(2)
    mode = torch.FakeTensorMode()
    tracer = torch._C._Tracer(mode, {}, {})
    fake = tracer.fake(x)
    tracer.input("x", fake, True)
    result = tracer.run(lambda t: t + 1, (fake,), {})
    tracer.finish([result])
    spec = torch.utils._pytree.treespec_dumps(torch.utils._pytree.tree_structure(((x,), {})))
    leaf = torch.utils._pytree.treespec_dumps(torch.utils._pytree.tree_structure((x,)))
    inputs, outputs = [("USER_INPUT", "x", None, False, False, None)], [("USER_OUTPUT", None)]
    program = torch._C._build_program(tracer.arrange(False), inputs, outputs, [], [], [], [],
                                      [("", spec, leaf, ["x"])], [x], tracer)
    with pytest.raises(ValueError, match="node 'add' has no nn_module_stack"):
        program.check()


def test_wrong_prefixes_are_named():
    class M(nn.Module):
        def forward(self, x):
            return x + 1
    ep = export(M(), (torch.ones(2),))
    data = ep._program._data()
    assert data["inputs"][0][1] == "x"
    graph = ep._program.graph.copy()
    spec = torch.utils._pytree.treespec_dumps(torch.utils._pytree.tree_structure(((), {})))
    leaf = torch.utils._pytree.treespec_dumps(torch.utils._pytree.tree_structure((1,)))
    inputs, outputs, state = [("PARAMETER", "x", "w", False, False, None)], [("USER_OUTPUT", None)], [("w",
            torch.ones(2), True, True)]
    program = torch._C._build_program(graph, inputs, outputs, state, [], [], [], [("", spec, leaf, [])], [], None)
    with pytest.raises(ValueError, match="node 'x' stands for 'w'; its name must begin with 'p_'"):
        program.check()


# ---- X10: checks of inputs ----

def test_inputs_are_checked_by_the_users_names():
    class M(nn.Module):
        def forward(self, image, extra):
            return image + extra["bias"]
    batch = Dim("batch", min=2, max=8)
    module = export(M(), (torch.ones(4, 3), {"bias": torch.ones(3)}),
                    dynamic_shapes=({0: batch}, {"bias": None})).module()
    assert module(torch.ones(7, 3), {"bias": torch.ones(3)}).shape == (7, 3)
    for image, extra, wanted in [(torch.ones(4), torch.ones(3), "'image'.*rank|'image'.*dimension"),
                                 (torch.ones(4, 3, dtype=torch.float64), torch.ones(3),
                                  "'image'.*float32|'image'.*f32"),
                                 (torch.ones(4, 3), torch.ones(4), r"'extra_bias' \(args\[1\]\['bias'\]\)"),
                                 (torch.ones(9, 3), torch.ones(3), "'image'.*(8|batch|s)")]:
        with pytest.raises(RuntimeError, match=wanted):
            module(image, {"bias": extra})


# ---- X11: events and statistics ----

def test_events_are_written_when_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    monkeypatch.setattr(torch.export.config, "log_path", str(path))
    export(Model(), (torch.ones(2, 3),))
    with pytest.raises(UserError):
        export(Model(), (torch.ones(2, 3), 4))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events] == ["enter", "exit", "enter", "error"]
    assert (events[1]["op_count"] == 3 and "aten.linear.default" in events[1]["op_set"]
            and events[0]["flags"]["strict"] is False)
    assert (events[3]["class"] == "ArgumentsDifferError" and events[3]["type"] == "INVALID_INPUT"
            and "do not fit" in events[3]["message"])


def test_statistics_count_nested_graphs():
    class M(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = x + 1
            return y * 2
    stats = torch.export.get_ep_stats(export(M(), (torch.ones(2),)))
    assert {"aten.add.Tensor", "aten.mul.Tensor"} <= stats["op_set"] and stats["op_count"] == 4


# ---- all problems at once ----

def test_a_report_lists_every_problem():
    class M(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                x = x + 1
            n = int(x.max())
            self.cache = x
            if x.shape[0] == 5:
                x = x * 2
            return x * n
    report = export(M(), (torch.ones(5, 3),), dynamic_shapes={"x": {0: Dim("batch")}}, report=True)
    assert not report.success and report.program is None and report.complete
    assert [problem.kind for problem in report.problems] == ["assigned-attribute", "data-dependent", "data-dependent",
                                                             "specialized"]
    first, second = report.problems[1:3]
    assert "if x.sum() > 0:" in first.location and "int(x.max())" in second.location
    assert "_check" in first.fix or "cond" in first.fix
    assert "batch = 5" in report.problems[3].fix
    assert json.loads(report.to_json())["problems"][3]["kind"] == "specialized"
    assert "4 problems" in str(report)


def test_a_report_without_problems_has_the_program():
    report = export(Model(), (torch.ones(2, 3),), report=True)
    assert report.success and str(report) == "The export has no problems."
    assert torch.equal(report.program.module()(torch.zeros(1, 3).expand(2, 3)),
                       report.program.module()(torch.zeros(2, 3)))


def test_a_report_of_what_cannot_go_on():
    class M(nn.Module):
        def forward(self, x):
            raise NotImplementedError("no such thing")
    report = export(M(), (torch.ones(2),), report=True)
    assert (not report.complete and report.problems[0].kind == "missing-rule"
            and "raise NotImplementedError" in report.problems[0].location)


# ---- P3 ----

def test_modules_and_functions_compile(tmp_path):
    module, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(5, 3)
    path = torch.aot_compile(module, (x,), dynamic_shapes={"input": {0: Dim("batch")}},
                             options={"output_path": str(tmp_path / "a.so")})
    model = torch.aot_load(path)
    y = torch.randn(7, 3)
    assert torch.allclose(model(y), module(y))
    path = torch.aot_compile(lambda a, b: a * 2 + b, (x, x), options={"output_path": str(tmp_path / "b.so")})
    assert torch.allclose(torch.aot_load(path)(x, x), x * 3)


def test_a_size_that_can_only_be_two_is_written_as_two():
    class Split(nn.Module):
        def forward(self, x):
            return x.split(2, 0)[-1] * 2

    ep = export(Split(), (torch.randn(2, 5),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    size, = ep.range_constraints
    assert f'x: "f32[2, {size}]"' in str(ep)
    assert ep.module()(torch.ones(2, 1)).tolist() == [[2.0], [2.0]]
    with pytest.raises(RuntimeError, match="dimension 0 is 3, expected 2"):
        ep.module()(torch.ones(3, 5))
