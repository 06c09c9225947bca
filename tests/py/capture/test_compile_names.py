"""E1-E12, O5, O10-O12, X1: what the lines state of names and behaviour, one row for each statement; errors are in
test_compile_errors.py, and what a row cannot say in a line is in the files that are named there."""
import copy
import inspect
import io
import logging
import pickle
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import nn
from cresset._dynamo import config
from cresset.export import Dim, _trace

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
X = cresset.ones(2, 3)


def add_one(x, by=1):
    """Adds."""
    return x + by


def eager(f, **options):
    return cresset.compile(f, backend="eager", **options)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, *, scale=2):
        return {"y": self.layer(x) * scale}


class Called:
    def __call__(self, x):
        return x + 1


def counted():
    seen = []

    def count(graph, examples):
        seen.append(graph)
        return graph.run
    return count, seen


def outermost_wins():
    (inner, a), (outer, b) = counted(), counted()
    cresset.compile(cresset.compile(add_one, backend=inner), backend=outer)(X)
    return (len(a), len(b)) == (0, 1)


def on_a_class():
    made = type("Other", (Called,), {"__call__": Called.__call__})
    return eager(made) is made and made()(X).sum().item() == 12


def compiled_in_place():
    model, calls = Model(), []
    want = model(X)["y"]
    model.register_forward_hook(lambda module, args, result: calls.append(1))
    assert model.compile(backend="eager") is None and type(model) is Model
    got = model(X)["y"]
    copied = copy.deepcopy(model)
    copied.layer.weight.data.zero_()
    return (cresset.equal(got, want) and calls == [1] and model.forward._counts()["captures"] == 1
            and not cresset.equal(copied(X)["y"], want) and cresset.equal(model(X)["y"], want))


def skipped():
    def f(x):
        return x + 1
    compiled = eager(f)
    compiled(X)
    before = len(dynamo._debug_get_cache_entry_list(f.__code__))
    dynamo.skip_code(f.__code__)
    compiled(X)
    return (before, compiled._counts()["captures"], compiled(X).sum().item()) == (1, 0, 12)


def listed():
    def f(x):
        return x + 1
    first, second = eager(f), eager(f)
    first(X), second(X)
    rows = dynamo._debug_get_cache_entry_list(f)
    return len(rows) == 2 and all(row["code"] is f.__code__ and row["guards"] for row in rows)


def resets_backends():
    calls = []

    def backend(graph, examples):
        return graph.run
    backend.reset = lambda: calls.append(1)
    dynamo.register_backend(backend, name="names_with_reset")
    dynamo.reset()
    return calls == [1]


def disabled_class():
    made = dynamo.disable(type("Kept", (), {"__call__": lambda self, x: x + 1}))
    compiled = eager(lambda x: made()(x) * 2)
    return compiled(X).sum().item() == 24 and any("disable()" in (e["reason"] or "") for e in compiled._entries())


def old_forms():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        explained, exported = dynamo.explain(add_one, X), dynamo.export(add_one, X)
    graph_module, guards = exported
    return ([w.category for w in seen] == [FutureWarning] * 2 and explained.graph_count == 1
            and cresset.equal(graph_module(X), X + 1) and isinstance(guards, list))


def explained():
    found = dynamo.explain(lambda x: (x + 1, print(), x * 2))(X)
    names = "graphs graph_count graph_break_count break_reasons op_count ops_per_graph out_guards compile_times"
    return (all(hasattr(found, name) for name in names.split()) and found.graph_break_count == found.graph_count - 1
            and dynamo.explain(lambda x: x)(X).graph_break_count == 0)


def torch_ir():
    model = Model()
    made = dynamo._export_to_torch_ir(model, (X,), {"scale": 3})
    named = {name for name, _ in made.named_parameters()}
    ops = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
    open_ = _trace._export_to_torch_ir(model, (X,), dynamic_shapes={"x": {0: Dim("rows")}})
    return (named == {"layer.weight", "layer.bias"} and "linear" in ops[0]  # not decomposed
            and cresset.equal(made(X, scale=3)["y"], model(X, scale=3)["y"])
            and open_(cresset.ones(5, 3))["y"].shape == (5, 3))


def logged():
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logging.getLogger("cresset.graph_sizes").addHandler(handler)
    cresset._logging.set_logs(graph_sizes=True)
    try:
        eager(add_one, dynamic=True)(X)
    finally:
        cresset._logging.set_logs()
        logging.getLogger("cresset.graph_sizes").removeHandler(handler)
    return "f32[s0, s1]" in out.getvalue()


def dynamic_holds_in_its_calls_alone():
    one, other = eager(lambda x: x + 1, dynamic=True), eager(lambda x: x + 1, dynamic=False)
    for n in (2, 3, 4):
        one(cresset.ones(n)), other(cresset.ones(n))
    return (one._counts()["captures"], other._counts()["captures"]) == (1, 3)


# feature line, statement: whether it holds
STATEMENTS = {
    "E1 a decorator with arguments": lambda: cresset.compile(backend="eager")(add_one)(X).sum().item() == 12,
    "E1 bound methods": lambda: eager(Called().__call__)(X).sum().item() == 12,
    "E1 instances with __call__": lambda: eager(Called())(X).sum().item() == 12,
    "E1 classes, in place": on_a_class,
    "E1 the outermost backend wins": outermost_wins,
    "E1 inductor is native": lambda: dynamo.lookup_backend("inductor").__name__ == "inductor",
    "E1 name, doc, signature": lambda: (eager(add_one).__name__, eager(add_one).__doc__) == ("add_one", "Adds.")
    and inspect.signature(eager(add_one)) == inspect.signature(add_one),
    "E1 the original callable": lambda: eager(add_one)._torchdynamo_orig_callable is add_one,
    "E1 disable": lambda: cresset.compile(add_one, disable=True) is add_one,
    "E2 state under _orig_mod": lambda: set(eager(Model()).state_dict()) == {"_orig_mod.layer.weight",
                                                                             "_orig_mod.layer.bias"},
    "E2 pickles": lambda: pickle.loads(pickle.dumps(eager(nn.Linear(3, 3))))(X).shape == (2, 3),
    "E2 deep copies": lambda: copy.deepcopy(eager(Model()))(X)["y"].shape == (2, 3),
    "E2 lazy modules": lambda: eager(nn.LazyLinear(4))(X).shape == (2, 4),
    "E2 Module.compile()": compiled_in_place,
    "E2 __dir__() has the original's first": lambda: eager(Model()).__dir__()[:5] == dir(Model())[:5],
    "E3 reset() tells backends": resets_backends,
    "E3 skip_code": skipped,
    "E3 a list of entries": listed,
    "E3 a library function itself": lambda: eager(nn.functional.relu, fullgraph=True)(X).shape == (2, 3),
    "E4 disable on a class": disabled_class,
    "E4 disable keeps name and doc": lambda: dynamo.disable(add_one).__doc__ == "Adds.",
    "E4 set_default_backend": lambda: cresset.compiler.get_default_backend() == "native",
    "E6 list_backends": lambda: {"eager", "aot_eager", "native", "inductor"} <= set(dynamo.list_backends(())),
    "E6 one that only records": lambda: hasattr(dynamo.testing.EagerAndRecordGraphs(), "graphs"),
    "E7 the limits": lambda: (config.recompile_limit, config.accumulated_recompile_limit) == (8, 256),
    "E8 explain": explained,
    "E8, E10 old forms": old_forms,
    "E9 only in its own calls": dynamic_holds_in_its_calls_alone,
    "E10 two things": lambda: len(tuple(dynamo.export(add_one)(X))) == 2,
    "E10 _export_to_torch_ir": torch_ir,
    "E11 rules": lambda: all(hasattr(dynamo, name) for name in (
        "allow_in_graph", "disallow_in_graph", "assume_constant_result", "disable", "substitute_in_graph",
        "nonstrict_trace")),
    "E12 compile_times": lambda: "Compilation metrics" in dynamo.utils.compile_times(),
    "E12 graph_sizes": logged,
    "E12 config": lambda: all(hasattr(config, name) for name in (
        "suppress_errors verify_correctness only_allow_pt2_compliant_ops reorderable_logging_functions "
        "capture_scalar_outputs capture_dynamic_output_shape_ops assume_static_by_default automatic_dynamic_shapes "
        "allow_rnn repro_after compiled_autograd recompile_limit accumulated_recompile_limit").split()),
    "E12 what holds may be set": lambda: setattr(config, "allow_rnn", True) is None and config.allow_rnn is True,
    "X1 export_for_training": lambda: cresset.export.export_for_training(Model(), (X,)).graph is not None,
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_it_holds(statement):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lazy modules may change")
        assert STATEMENTS[statement]()


@pytest.mark.parametrize("name, value, why", [
    ("allow_rnn", False, "like any other"), ("inline_inbuilt_nn_modules", False, "always inlined"),
    ("guard_nn_modules", False, "always guarded")])
def test_settings_with_one_value_say_why(name, value, why):
    with pytest.raises(NotImplementedError, match=f"{name} is {not value}, not {value}: .*{why}"):
        setattr(config, name, value)
    with config.patch(**{name: not value}):
        assert getattr(config, name) is (not value)


@pytest.mark.parametrize("given, error, match", [
    (lambda: dynamo._export_to_torch_ir(Model(), X), dynamo.exc.UserError, r"a tuple .*Tensor.*write \(x,\)"),
    (lambda: dynamo._export_to_torch_ir(Model(), (X,), restore_fqn=False), NotImplementedError, "keep their names"),
    (lambda: dynamo._export_to_torch_ir(Model(), (X,), preserve_module_call_signature=("layer",)), NotImplementedError,
     "cresset.export.export"),
    (lambda: dynamo.skip_code(add_one), TypeError, "give f.__code__")])
def test_refusals(given, error, match):
    with pytest.raises(error, match=match):
        given()
