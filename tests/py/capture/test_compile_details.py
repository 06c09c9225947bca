"""E1-E12, X1: what programs written for torch.compile meet beside the names: what may be compiled, hooks around it,
limits under fullgraph, what is told of each guard. What PyTorch does was seen with the same programs."""
import contextlib
import copy
import functools
import inspect
import logging
import operator
import os
import pickle
import subprocess
import sys
import textwrap
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
from cresset import nn
from cresset._dynamo import config, eval_frame, exc, rules
from cresset.nn.modules.module import register_module_forward_hook

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
X = cresset.ones(2, 3)


def add(x, by=1):
    """Adds."""
    return x + by


def eager(f, **options):
    return cresset.compile(f, backend="eager", **options)


def counted():
    seen = []

    def backend(gm, examples):
        seen.append(gm)
        return gm.forward
    return backend, seen


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


class Prints(nn.Module):
    def forward(self, x):
        print(end="")
        return x + 1


class Called:
    def __call__(self, x):
        return x + 1


# ---- E1: what may be compiled ----

@pytest.mark.parametrize("fullgraph", [False, True])
def test_partials(fullgraph):
    partial = functools.partial(add, by=2)
    compiled = eager(partial, fullgraph=fullgraph)
    assert compiled(X).sum() == 18 and compiled._entries()[0]["ops"] == 1
    assert inspect.signature(compiled) == inspect.signature(partial)
    assert eager(compiled, fullgraph=True)(X).sum() == 18
    assert eager(functools.partial(eager(add), by=3), fullgraph=True)(X).sum() == 24


def test_static_methods():
    class Holder:
        @eager
        @staticmethod
        def doubled(x):
            return x * 2
    assert Holder.doubled(X).sum() == 12 and Holder.doubled._entries()[0]["ops"] == 1


def test_classes_that_inherit_their_call():
    backend, seen = counted()
    kind = cresset.compile(type("Kind", (Called,), {}), backend=backend)
    assert kind()(X).sum() == 12 and len(seen) == 1
    assert "__call__" in vars(kind) and Called()(X).sum() == 12 and len(seen) == 1  # the base stays as it is
    layer = cresset.compile(type("Layer", (nn.Linear,), {}), backend=backend)(3, 3)
    assert cresset.equal(layer(X), nn.functional.linear(X, layer.weight, layer.bias)) and len(seen) == 2
    other, more = counted()
    assert cresset.compile(kind, backend=other)()(X).sum() == 12 and (len(seen), len(more)) == (2, 1)
    with pytest.raises(TypeError, match="the class Nothing has no __call__ to capture: compile a method"):
        eager(type("Nothing", (), {}))


# ---- E2: what compile() makes of a module ----

def test_hooks_of_the_wrapper_run():
    compiled, calls = eager(Model()), []
    want = compiled._orig_mod(X)
    before = compiled.register_forward_pre_hook(lambda module, args: calls.append(type(module).__name__))
    after = compiled.register_forward_hook(lambda module, args, result: calls.append("after") or result + 1)
    compiled._orig_mod.layer.register_forward_hook(lambda *args: calls.append("inside"))
    assert cresset.allclose(compiled(X), want + 1)
    assert calls == ["OptimizedModule", "inside", "after"]
    before.remove(), after.remove()
    assert cresset.equal(compiled(X), want) and calls[3:] == ["inside"]


def test_hooks_of_all_modules_run_twice_and_warn_once(monkeypatch):
    monkeypatch.setattr(eval_frame, "_told", False)
    calls, first, second = [], eager(Model()), eager(Model())
    handle = register_module_forward_hook(lambda module, args, result: calls.append(type(module).__name__))
    try:
        with pytest.warns(UserWarning, match=r"twice in a call: use module.compile\(\)") as told:
            first(X), first(X), second(X)
    finally:
        handle.remove()
    assert calls == ["Linear", "Model", "OptimizedModule"] * 3 and len(told) == 1
    first(X)
    assert len(calls) == 9


def test_what_stays_on_the_wrapper():
    backend, _ = counted()
    backend.get_compiler_config = lambda: {"level": 3}
    model = Model()
    compiled = cresset.compile(model, backend=backend)
    assert compiled.get_compiler_config() == {"level": 3} and eager(model).get_compiler_config() is None
    assert dynamo.disable(model).get_compiler_config() is None
    assert cresset.equal(compiled._torchdynamo_orig_callable(X), model(X))
    compiled.forward = lambda x: "other"
    assert compiled(X) == "other" and "forward" not in vars(model) and model(X).shape == (2, 3)
    del compiled.forward
    assert cresset.equal(compiled(X), model(X))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies_keep_how_they_were_compiled(copied):
    twin = copied(eager(Prints(), fullgraph=True))
    with pytest.raises(exc.Unsupported, match=r"print\(\) is called"):
        twin(X)


# ---- E3, E6: forgetting ----

def test_backends_without_a_name_are_told_of_reset():
    class Backend:
        def __init__(self):
            self.events = []

        def __call__(self, gm, examples):
            return gm.forward

        @contextlib.contextmanager
        def backend_ctx_ctor(self):
            self.events.append("in")
            yield
            self.events.append("out")

        def reset(self):
            self.events.append("reset")
    backend = Backend()
    compiled = cresset.compile(add, backend=backend)
    compiled(X), compiled(X)
    dynamo.reset()
    dynamo.reset()
    assert backend.events == ["in", "out", "in", "out", "reset"]


@pytest.mark.parametrize("given", [lambda m, c: m, lambda m, c: c, lambda m, c: m.forward, lambda m, c: Model.forward])
def test_remove_from_cache_of_modules(given):
    backend, seen = counted()
    model, other = Model(), cresset.compile(nn.Linear(3, 3), backend=backend)
    compiled = cresset.compile(model, backend=backend)
    for _ in range(2):
        compiled(X), other(X)
    assert len(seen) == 2
    dynamo.remove_from_cache(given(model, compiled))
    compiled(X), other(X)
    assert len(seen) == 3


# ---- E1, E7: limits ----

def lengths(x, text):
    return x + len(text)


def test_the_limit_names_the_guard_of_each_capture():
    compiled = eager(lengths)
    with pytest.warns(RuntimeWarning) as told:
        for n in range(12):
            assert compiled(cresset.zeros(1), "a" * n).item() == n
    text = str(told[0].message)
    assert len(told) == 1 and "captured 8 times, the limit" in text and "config.recompile_limit" in text
    assert "; ".join(f"text is {'a' * n!r}" for n in range(8)) in text


@pytest.mark.parametrize("make", [lambda f: eager(f, fullgraph=True), dynamo.optimize_assert("eager")])
def test_the_limit_is_an_error_where_a_graph_is_asked_for(make):
    compiled = make(lengths)
    with config.patch(recompile_limit=2):
        compiled = make(lengths)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (0, 1, 0):
            assert compiled(cresset.zeros(1), "a" * n).item() == n
        for _ in range(2):
            with pytest.raises(exc.FailOnRecompileLimitHit) as raised:
                compiled(cresset.zeros(1), "aaaa")
        assert compiled(cresset.zeros(1), "a").item() == 1
    text = str(raised.value)
    assert isinstance(raised.value, exc.Unsupported) and "lengths" in text and "2 times, the limit" in text
    assert "text is ''; text is 'a'" in text and "fullgraph=True" in text and "config.recompile_limit" in text


def test_a_skipped_frame_is_an_error_where_a_graph_is_asked_for():
    def skipped(x):
        return x + 1
    whole, free = eager(skipped, fullgraph=True), eager(skipped)
    dynamo.skip_code(skipped.__code__)
    with pytest.raises(RuntimeError, match=r"has compiled nothing: .*skipped.* skip_code\(\)\n  leave fullgraph out"):
        whole(X)
    assert free(X).sum() == 12
    with cresset.compiler.set_stance("force_eager"):
        assert whole(X).sum() == 12

    def skips(gm, examples):
        raise exc.SkipFrame("nothing to gain")
    with pytest.raises(RuntimeError, match=r"'skips' skips the graph of .*test_compile_details.py:\d+ in add: nothing"):
        cresset.compile(add, backend=skips, fullgraph=True)(X)


# ---- E4, E5 ----

def test_a_stance_may_be_entered_again():
    backend, seen = counted()
    compiled, stance = cresset.compile(add, backend=backend), cresset.compiler.set_stance("force_eager")
    for size in (1, 2):
        with stance:
            compiled(cresset.ones(size)), compiled(cresset.ones(size, 1))
        assert len(seen) == size - 1
        compiled(cresset.ones(size))
    assert len(seen) == 2


def test_guard_fail_fn_gets_each_failing_guard():
    failed = []
    compiled = dynamo.optimize("eager", guard_fail_fn=failed.append)(lengths)
    for text in ("a", "bb", "ccc", "a"):
        compiled(X, text)
    assert failed == ["text is 'a'", "text is 'bb'", "text is 'a'"]


# ---- E8 ----

def broken(x):
    y = x + 1
    print(end="")
    return (y * 2).relu()


def test_explain_has_pytorchs_fields():
    found = dynamo.explain(broken)(X)
    assert found.ops_per_graph == [["aten.add.Tensor"], ["aten.mul.Tensor", "aten.relu"]]
    assert sum(map(len, found.ops_per_graph)) == found.op_count == 3
    assert found.compile_times.startswith("Compilation metrics:\nFunction, Runtimes (s)\ncapture, ")
    reason, = found.break_reasons
    frame, = reason.user_stack
    assert reason.reason == "print() is called" and reason.endswith("in broken: print() is called")
    assert (frame.name, frame.lineno) == ("broken", broken.__code__.co_firstlineno + 2)
    assert frame.filename.endswith("test_compile_details.py") and "Graph 2: 2 ops" in str(found)


# ---- E9 ----

@pytest.mark.parametrize("size, bounds, text", [
    (20, dict(min=2, max=10), r"x.size\(0\)\)! .* in this call it is 20, which is not in the range \[2, 10\]"),
    (4, dict(min=5), r"in this call it is 4, which is not in the range \[5, inf\]"),
    (1, {}, r"in this call it is 1, and 0 and 1 are never left open: give a larger example")])
def test_mark_dynamic_names_size_and_range(size, bounds, text):
    x = cresset.ones(size, 3)
    dynamo.mark_dynamic(x, 0, **bounds)
    with pytest.raises(exc.UserError, match=text):
        eager(lambda x: x + 1)(x)


# ---- E11 ----

def test_substitutes():
    def original(x, k=1):
        return open

    def another(x, k=1):
        return x + k
    try:
        with pytest.raises(TypeError, match=r"original\(x, k=1\) and .*\(x, k=2\) have other parameters"):
            dynamo.substitute_in_graph(original)(lambda x, k=2: x)
        dynamo.substitute_in_graph(original)(another)
        assert eager(lambda x: original(x), fullgraph=True)(X).sum() == 12
        with pytest.raises(ValueError, match=r"there is one for .*original already, .*another\(\)"):
            dynamo.substitute_in_graph(original)(lambda x, k=1: x)
        dynamo.substitute_in_graph(operator.indexOf)(lambda a, b, /: 3)
        with pytest.raises(ValueError, match="_operator.indexOf already"):
            dynamo.substitute_in_graph(operator.indexOf)(lambda a, b, /: 4)
    finally:
        rules._substitutes.clear()


# ---- E12 ----

def logged(name, call):
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())
    handler = Keep()
    logging.getLogger(f"cresset.{name}").addHandler(handler)
    cresset._logging.set_logs(**{name: True})
    try:
        call()
    finally:
        cresset._logging.set_logs()
        logging.getLogger(f"cresset.{name}").removeHandler(handler)
    return "\n".join(records)


def test_graph_sizes_are_symbolic_and_concrete():
    def f(x):
        y = cresset.cond(x.sum() > 0, lambda v: v.exp(), lambda v: v + 1, (x,))
        return y.reshape(-1, 2 * x.shape[0])
    text = logged("graph_sizes", lambda: eager(f, dynamic=True)(cresset.ones(4, 6)))
    lines = text.splitlines()
    assert "reshape: f32[s1//2, 2*s0]" in lines and "reshape (concrete): f32[3, 8]" in lines
    assert "exp: f32[s0, s1]" in lines and "exp (concrete): f32[4, 6]" in lines  # of a body
    assert "sum: f32[]" in lines and "sum (concrete): f32[]" not in lines
    assert "concrete" not in logged("graph_sizes", lambda: eager(add)(X))


def test_recompiles_name_every_guard():
    compiled = eager(lengths)
    text = logged("recompiles", lambda: [compiled(X, "a" * n) for n in (1, 2, 3)])
    assert "what did not hold of the last: text is 'aa'; of those before: text is 'a'" in text.splitlines()[1]


def test_counters_of_what_is_not_followed():
    dynamo.utils.counters.clear()
    eager(broken)(X)
    assert dynamo.utils.counters["unimplemented"] == {"print() is called": 1}


# ---- E6: scripts that reproduce a failure ----

def test_repro_of_a_graph_that_writes(tmp_path):
    (tmp_path / "refusing.py").write_text(textwrap.dedent("""
        def refusing(gm, example_inputs):
            if "sin" in str(gm.graph):
                raise ValueError("no sin here")
            return gm.forward
        """))
    (tmp_path / "main.py").write_text(textwrap.dedent("""
        import cresset, refusing
        from cresset._dynamo import config

        def f(x):
            x.add_(1)
            return x.sin(), x.to(cresset.bfloat16).cos()
        with config.patch(repro_after="dynamo", repro_level=2, debug_dir_root="out"):
            cresset.compile(f, backend=refusing.refusing)(cresset.ones(3))
        """))

    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    def fails(script):
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": path})
        assert done.returncode == 1, done.stderr
        return done.stderr
    assert "BackendCompilerFailed: backend 'refusing' raised ValueError: no sin here" in fails("main.py")
    assert fails("out/repro_0.py").splitlines()[-1] == "ValueError: no sin here"
    assert "aten.add_" not in (tmp_path / "out" / "repro_0.py").read_text()


# ---- E10 ----

CONSTANTS = (1, 2.0, 3j, True, "text", b"bytes", None, ..., cresset.float64, cresset.device("cpu"), cresset.strided,
             cresset.contiguous_format)


def test_export_takes_constants():
    def f(x, *rest):
        return x.to(rest[8]) * rest[0]
    gm, _ = dynamo.export(f)(X, *CONSTANTS)
    assert gm(X, *CONSTANTS).dtype == cresset.float64
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    assert names == ["x", *(f"arg{i + 1}" for i in range(len(CONSTANTS)))]  # settled: no node uses them


@pytest.mark.parametrize("options", [{}, {"aten_graph": True}, {"same_signature": False}])
def test_export_embeds_constant_outputs(options):
    gm, _ = dynamo.export(lambda x: (x + 1, *CONSTANTS, x * 2), **options)(X)
    first, *constants, last = gm(X)
    assert tuple(constants) == CONSTANTS and cresset.equal(first, last) and cresset.equal(last, X * 2)
    assert dynamo.export(lambda x: {"dtype": cresset.float16, "x": x})(X)[0](X)["dtype"] is cresset.float16


@pytest.mark.parametrize("call, kind", [
    (lambda: dynamo.export(lambda x, o: x)(X, Called()), exc.UserErrorType.INVALID_INPUT),
    (lambda: dynamo.export(lambda x: (x, Called()))(X), exc.UserErrorType.INVALID_OUTPUT)])
def test_export_names_the_leaves_it_allows(call, kind):
    leaves = ("tensors, symbolic numbers, int, float, complex, bool, str, bytes, None, Ellipsis, dtype, device, "
              "layout, memory_format")
    with pytest.raises(exc.UserError, match=f"Called.* {leaves}.*register_pytree_node") as raised:
        call()
    assert raised.value.error_type is kind


@pytest.mark.parametrize("call", [
    lambda: dynamo.export(add)(X, 1, 2), lambda: dynamo.export(add)(), lambda: cresset.export.export(Model(), (X, X)),
    lambda: cresset.export.export(Model(), (), strict=True)])
def test_example_inputs_that_do_not_fit_are_a_type_error(call):
    with pytest.raises(TypeError, match=r"the example inputs do not fit forward\(") as raised:
        call()
    assert raised.value.error_type is exc.UserErrorType.INVALID_INPUT


# ---- X1 ----

def test_modes_of_exported_modules_say_how_to_override_them():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = cresset.export.capture_pre_autograd_graph(Model(), (X,))
    for name, call in (("train", module.train), ("eval", module.eval)):
        with pytest.raises(NotImplementedError, match=rf"say what {name}\(\) is to do: (module\.\w+ = .*)") as raised:
            call()
        exec(str(raised.value).partition("is to do: ")[2], {"module": module})  # it pastes back
        assert getattr(module, name)() is module


def test_a_failed_export_leaves_random_numbers_and_attributes():
    class Fails(Model):
        def forward(self, x):
            self.noise = cresset.randn(3)
            raise ValueError("late")
    module, state = Fails(), cresset.get_rng_state()
    for strict in (False, True):
        with pytest.raises(ValueError, match="late"):
            cresset.export.export(module, (X,), strict=strict)
        assert cresset.equal(cresset.get_rng_state(), state) and not hasattr(module, "noise")


# ---- O2 ----

def test_devices_are_made_in_captures():
    def f(x, name):
        device = cresset.device(name)
        return x.to(device) + cresset.zeros(3, device=device), device, device == x.device
    compiled = eager(f, fullgraph=True)
    for _ in range(2):
        result, device, same = compiled(X, "cpu")
        assert cresset.equal(result, X) and device == cresset.device("cpu") and same
    with pytest.raises(RuntimeError, match="device 'nowhere': expected cpu"):
        eager(f)(X, "nowhere")
