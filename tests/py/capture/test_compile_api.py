"""E1, E4-E6, E11, E12, O10, O11: the compile API: every error with its class, facts and remedy; backends, rules for
functions, logs, counters, config, scripts that reproduce a failure, cache artifacts."""
import hashlib
import json
import logging
import math
import operator
import os
import pathlib
import re
import subprocess
import sys
import threading
import warnings

import pytest

import cresset
import cresset._dynamo as dynamo
import cresset.nn as nn
from cresset._dynamo import config, exc, utils

pytestmark = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")


def add_one(x):
    return x + 1


def raising(graph, examples):
    raise KeyError("nothing here")


def eager(f, **kwargs):
    return cresset.compile(f, backend="eager", **kwargs)


def in_context(module):
    with module.optimize("eager"):
        pass


def set_config(module):
    module.config.speed = 3


def unpaired(module):
    module.substitute_in_graph(math.comb)(lambda a: 3)


# (what is done with the package and its _dynamo, what the message says)
ERRORS = {
    "unknown backend": (lambda p, d: p.compile(add_one, backend="nope"), "no backend 'nope'.*list_backends"),
    "near backend": (lambda p, d: p.compile(add_one, backend="egger"), "did you mean 'eager'"),
    "unknown mode": (lambda p, d: p.compile(add_one, mode="fast"), "no mode 'fast'.*max-autotune"),
    "mode and options": (lambda p, d: p.compile(add_one, mode="default", options={}), "either mode or options"),
    "unknown option": (lambda p, d: p.compile(add_one, options={"nope": 1}), "'nope'"),
    "not callable": (lambda p, d: p.compile(3), "takes a function, a module or a class, not a int"),
    "backend raises": (lambda p, d: p.compile(add_one, backend=raising)(p.ones(1)), "'raising' raised KeyError"),
    "backend gives no function": (lambda p, d: p.compile(add_one, backend=lambda g, e: 3)(p.ones(1)),
                                  "returned a int, which cannot be called"),
    "fullgraph breaks": (lambda p, d: p.compile(lambda x: print(x) or x, backend="eager", fullgraph=True)(p.ones(1)),
                         "print"),
    "optimize unknown": (lambda p, d: d.optimize("nope"), "no backend 'nope'"),
    "optimize as context": (lambda p, d: in_context(d), "no context manager"),
    "optimize_assert breaks": (lambda p, d: d.optimize_assert("eager")(lambda x: print(x) or x)(p.ones(1)), "print"),
    "lookup unknown": (lambda p, d: d.lookup_backend("nope"), "no backend 'nope'"),
    "register no function": (lambda p, d: d.register_backend(3), "not a int"),
    "register twice": (lambda p, d: d.register_backend(raising, name="eager"), "'eager' already"),
    "config read": (lambda p, d: d.config.speed, "has no 'speed'"),
    "config set": (lambda p, d: set_config(d), "has no 'speed'"),
    "allow no function": (lambda p, d: d.allow_in_graph(3), "takes a function"),
    "disallow no function": (lambda p, d: d.disallow_in_graph(3), "takes a function"),
    "nonstrict no function": (lambda p, d: d.nonstrict_trace(3), "takes a function"),
    "disable no function": (lambda p, d: d.disable(3), "takes a function"),
    "substitute no function": (lambda p, d: p.compiler.substitute_in_graph(3), "takes a function, not a int"),
    "substitute by none": (lambda p, d: p.compiler.substitute_in_graph(math.comb)(3), "written in Python, not a int"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    act, text = ERRORS[name]
    with pytest.raises(Exception, match=text):
        act(cresset, dynamo)


@pytest.fixture(scope="module")
def classes_of_pytorch():
    """Of what PyTorch raises; in a process of its own, since its hooks stay."""
    pytest.importorskip("torch", reason="the classes of errors are PyTorch's")
    code = """
import sys, json, torch, torch._dynamo
sys.path.insert(0, sys.argv[1])
import test_compile_api as tests
found = {}
for name, (act, _) in tests.ERRORS.items():
    try:
        act(torch, torch._dynamo)
    except Exception as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", code, pathlib.Path(__file__).parent], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_the_class_of_pytorch(classes_of_pytorch, name):
    act, _ = ERRORS[name]
    with pytest.raises(Exception) as caught:
        act(cresset, dynamo)
    assert classes_of_pytorch[name] in [cls.__name__ for cls in caught.type.__mro__]


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="force_backend"):
        cresset.compiler.set_stance("default", force_backend="eager")
    with pytest.raises(TypeError, match=r"no Python code to capture: wrap it, compile\(lambda"):
        cresset.compile(len)
    with pytest.raises(TypeError, match="no __call__ to capture"):
        cresset.compile(int)
    with config.patch(verify_correctness=True), pytest.raises(NotImplementedError, match="compile --verify"):
        cresset.compile(add_one)


# ---- what compile takes and gives ----

def test_classes_are_changed_in_place():
    class Twice:
        def __call__(self, x):
            """Doubles."""
            return x * 2
    assert eager(Twice) is Twice
    assert Twice()(cresset.ones(1)).item() == 2 and Twice.__call__._counts()["captures"] == 1
    assert Twice.__call__.__doc__ == "Doubles."


def test_the_original_and_the_configuration():
    def backend(graph, examples):
        return graph.run
    backend.get_compiler_config = lambda: {"level": 3}
    compiled = cresset.compile(add_one, backend=backend)
    assert compiled._torchdynamo_orig_callable is add_one and compiled.get_compiler_config() == {"level": 3}
    assert eager(add_one).get_compiler_config() is None
    assert eager(compiled).__wrapped__ is add_one  # the outermost backend, the innermost code
    with config.patch(disable=True):
        assert cresset.compile(add_one) is add_one


def test_default_backend():
    seen = []

    def backend(graph, examples):
        seen.append(graph)
        return graph.run
    assert cresset.compiler.get_default_backend() == "native"
    try:
        cresset.compiler.set_default_backend(backend)
        cresset.compile(add_one)(cresset.ones(1))
        assert len(seen) == 1
        with pytest.raises(exc.InvalidBackend):
            cresset.compiler.set_default_backend("nope")
    finally:
        cresset.compiler.set_default_backend(None)
    assert cresset.compiler.get_default_backend() == "native"


# ---- backends ----

def test_registry():
    assert "eager" not in dynamo.list_backends() and {"native", "inductor"} <= set(dynamo.list_backends())
    assert {"eager", "aot_eager"} <= set(dynamo.list_backends(exclude_tags=()))

    @dynamo.register_backend(name="counted", tags=("experimental",))
    def backend(graph, examples):
        return graph.run
    try:
        assert "counted" not in cresset.compiler.list_backends() and dynamo.lookup_backend("counted") is backend
        assert cresset.compile(add_one, backend="counted")(cresset.ones(1)).item() == 2
    finally:
        del cresset._compile._backends["counted"]
    graph = eager(add_one)
    graph(cresset.ones(1))
    assert dynamo.lookup_backend("eager")(graph._entries()[0]["graph"], [])(cresset.ones(1)).item() == 2


def test_entry_points(tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text("def backend(graph, examples):\n    return graph.run\n")
    info = tmp_path / "brought-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[cresset_backends]\nfrom_elsewhere = brought:backend\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "from_elsewhere" in dynamo.list_backends()
    try:
        assert cresset.compile(add_one, backend="from_elsewhere")(cresset.ones(1)).item() == 2
    finally:
        cresset._compile._backends.pop("from_elsewhere", None)


def test_aot_eager_gives_gradients():
    w = cresset.ones(3, requires_grad=True)
    compiled = cresset.compile(lambda x: (x * w).sin().sum(), backend="aot_eager")
    x = cresset.tensor([0.5, 1.0, 2.0])
    compiled(x).backward()
    assert cresset.allclose(w.grad, x * (x * 1).cos())


def test_context_around_calls():
    log = []

    class Around:
        def __enter__(self):
            log.append("in")

        def __exit__(self, *raised):
            log.append("out")

    def backend(graph, examples):
        return lambda *args: log.append("run") or graph.run(*args)
    backend.backend_ctx_ctor = Around
    compiled = cresset.compile(add_one, backend=backend)
    for _ in range(2):
        assert compiled(cresset.ones(1)).item() == 2
    assert log == ["in", "run", "out"] * 2


def test_a_failing_backend():
    compiled = cresset.compile(add_one, backend=raising)
    with pytest.raises(exc.BackendCompilerFailed) as caught:
        compiled(cresset.ones(1))
    error = caught.value
    assert error.backend_name == "raising" and isinstance(error.inner_exception, KeyError)
    assert error.__cause__ is error.inner_exception and error.__cause__.__traceback__ is not None
    with config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="'raising' raised.*\n.*runs as it is"):
        assert compiled(cresset.ones(1)).item() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once: what was captured stays
        assert compiled(cresset.ones(1)).item() == 2


def test_verify_correctness():
    def wrong(graph, examples):
        return lambda *args: [result * 2 for result in [graph.run(*args)]]
    with config.patch(verify_correctness=True):
        assert cresset.compile(add_one, backend=dynamo.lookup_backend("eager"))(cresset.ones(1)).item() == 2
        with pytest.raises(exc.BackendCompilerFailed, match="'wrong' computes something else.*result 0 differs by 2.0"):
            cresset.compile(add_one, backend=wrong)(cresset.ones(1))
        with pytest.raises(exc.BackendCompilerFailed, match="gives 2 results, the graph 1"):
            cresset.compile(add_one, backend=lambda g, e: lambda x: [x, x])(cresset.ones(1))
    assert cresset.compile(add_one, backend=wrong)(cresset.ones(1)).item() == 4  # it was not asked


# ---- scripts that reproduce a failure ----

BACKEND = """
def fails_on_tanh(graph, examples):
    if "tanh" in str(graph):
        raise ValueError("no tanh here")
    return graph.run
"""


@pytest.mark.parametrize("level", [1, 2])
def test_repro(tmp_path, monkeypatch, level):
    (tmp_path / "picky.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(tmp_path)
    import picky

    def f(x, y):
        z = (x + 1).relu() * y
        return (z.tanh() + z).sum()
    with config.patch(repro_after="dynamo", repro_level=level, debug_dir_root=str(tmp_path / "out")), \
            pytest.raises(exc.BackendCompilerFailed, match="written to reproduce it: .*repro_0.py"):
        cresset.compile(f, backend=picky.fails_on_tanh)(cresset.ones(2, 3), cresset.ones(3))
    script = tmp_path / "out" / "repro_0.py"
    text = script.read_text()
    ops = set(re.findall(r"aten\.(\w+)", text))
    assert ops == ({"add", "relu", "mul", "tanh", "sum"} if level == 1 else {"tanh"})
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "ValueError: no tanh here" in done.stderr
    sys.modules.pop("picky")


PARTS = """
import cresset

def picky(gm, inputs):
    if any("REFUSED" in str(node.target) for node in gm.graph.nodes):
        raise KeyError("not this one")
    return gm

def wrong(gm, inputs):
    return lambda *args: tuple(r * 2 for r in gm(*args))
"""


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("role, refused", [("forward", "aten.sin"), ("backward", "aten.cos")])
def test_repro_of_a_part(tmp_path, monkeypatch, role, refused, level):
    """repro_after="aot": the compiler of one part fails, and the script has that part's graph alone."""
    from cresset._functorch.aot_autograd import aot_function
    (tmp_path / "part_compilers.py").write_text(PARTS.replace("REFUSED", refused))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("part_compilers", None)
    import part_compilers
    out = tmp_path / "out"

    def backend(gm, example_inputs):
        return aot_function(lambda *args: gm(*args), part_compilers.picky)
    x = cresset.ones(3, requires_grad=True)
    with config.patch(repro_after="aot", repro_level=level, debug_dir_root=str(out)), \
            pytest.raises(Exception, match="written to reproduce it: .*repro_0.py"):
        cresset.compile(lambda x: (x * 2).sin() + 1, backend=backend)(x).sum().backward()
    script = (out / "repro_0.py").read_text()
    assert f"the {role} graph: compiler 'picky' raised KeyError" in script
    assert "from part_compilers import picky as backend" in script
    if level == 2:
        assert script.count("aten.") == 1 and refused in script
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, out / "repro_0.py"], capture_output=True, text=True, env=environment)
    assert done.returncode and "KeyError: 'not this one'" in done.stderr
    sys.modules.pop("part_compilers")


def test_repro_of_a_part_that_is_wrong(tmp_path, monkeypatch):
    from cresset._functorch.aot_autograd import aot_function
    (tmp_path / "wrong_compilers.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    import wrong_compilers
    with config.patch(repro_after="aot", verify_correctness=True, debug_dir_root=str(tmp_path / "out")), \
            pytest.raises(exc.BackendCompilerFailed, match="'wrong' computes something else than the inference graph: "
                                                           "(.|\n)*repro_0.py"):
        aot_function(lambda x: x.sin(), wrong_compilers.wrong)(cresset.ones(3))
    assert "from wrong_compilers import wrong as backend" in (tmp_path / "out" / "repro_0.py").read_text()


def test_repro_of_a_wrong_result(tmp_path):
    def wrong(graph, examples):
        return lambda *args: graph.run(*args) * (2 if "sin" in str(graph) else 1)
    with config.patch(repro_after="dynamo", repro_level=2, verify_correctness=True, debug_dir_root=str(tmp_path)), \
            pytest.raises(exc.BackendCompilerFailed, match="computes something else"):
        cresset.compile(lambda x: (x * 3).sin().cos(), backend=wrong)(cresset.ones(2))
    text = (tmp_path / "repro_0.py").read_text()
    assert set(re.findall(r"aten\.(\w+)", text)) == {"sin"} and "put the backend here" in text


# ---- optimize, run, reset ----

def test_optimize_tells_guards():
    exported, failed = [], []
    told = dynamo.optimize("eager", guard_export_fn=exported.append, guard_fail_fn=failed.append)
    compiled = told(lambda x, up: x + 1 if up else x - 1)
    for up in (True, True, False):
        compiled(cresset.ones(1), up)
    assert len(exported) == 2 and "up is True" in exported[0] and "up is False" in exported[1]
    assert failed == ["up is True"]

    @dynamo.optimize("eager", nopython=True)
    def whole(x):
        return x * 2
    assert whole(cresset.ones(1)).item() == 2 and len(whole._entries()) == 1
    module = dynamo.optimize("eager", guard_export_fn=exported.append)(nn.Linear(2, 2))
    before = len(exported)
    module(cresset.ones(1, 2))
    assert len(exported) > before
    assert dynamo.optimize("eager", disable=True)(add_one) is add_one


def test_guard_callbacks_that_raise(caplog):
    """As in PyTorch: one ends the call, and nothing is kept; the other is logged."""
    calls = []

    def fails(told):
        calls.append(told)
        raise KeyError("mine")
    compiled = dynamo.optimize("eager", guard_export_fn=fails)(add_one)
    for _ in range(2):
        with pytest.raises(dynamo.exc.InternalTorchDynamoError, match="_export_fn raised KeyError: 'mine'") as told:
            compiled(cresset.ones(1))
        assert isinstance(told.value.__cause__, KeyError) and isinstance(told.value, RuntimeError)
    assert len(calls) == 2 and not compiled._entries()
    compiled = dynamo.optimize("eager", guard_fail_fn=fails)(lambda x, up: x + 1 if up else x - 1)
    assert compiled(cresset.ones(1), True).item() == 2 and not caplog.records
    assert compiled(cresset.ones(1), False).item() == 0 and len(compiled._entries()) == 2
    assert calls[2:] == ["up is True"] and "KeyError: 'mine'" in caplog.text and "guard_fail_fn" in caplog.text


def test_run_captures_nothing():
    compiled = eager(lambda x, n: x + n)
    cached = dynamo.run(lambda x, n: compiled(x, n))
    x = cresset.ones(1)
    assert cached(x, 1.0).item() == 2 and not compiled._entries()
    compiled(x, 1.0)
    assert cached(x, 1.0).item() == 2 and cached(x, 2.0).item() == 3
    assert compiled._counts()["captures"] == 1 and compiled._counts()["hits"] == 1
    other = []
    thread = threading.Thread(target=lambda: other.append(compiled(x, 5.0).item()))  # of this thread alone

    def start(y):
        thread.start()
        thread.join()
        return y
    dynamo.run(start)(x)
    assert other == [6.0] and compiled._counts()["captures"] == 2
    with pytest.raises(ValueError):
        dynamo.run(lambda: [].index(3))()
    compiled(cresset.ones(2), 7.0)
    assert compiled._counts()["captures"] >= 3  # and what raised is over


def test_reset_code():
    f, g = (lambda x: x + 1), (lambda x: x + 2)
    ours, other = eager(f), eager(g)
    ours(cresset.ones(1)), other(cresset.ones(1))
    dynamo.reset_code(f.__code__)
    assert not ours._entries() and other._entries()
    dynamo.remove_from_cache(other)
    assert not other._entries() and other(cresset.ones(1)).item() == 3
    with pytest.raises(TypeError, match="expected a code object, a function or something with a forward"):
        dynamo.reset_code(3)
    module = eager(nn.ReLU())
    module(cresset.ones(1))
    dynamo.remove_from_cache(module)
    assert module(-cresset.ones(1)).item() == 0


# ---- rules for functions ----

def test_allow_in_graph():
    runs = []

    @dynamo.allow_in_graph
    def opaque(x, pair, *, k=2):
        runs.append(cresset.compiler.is_compiling())
        exec("pass")  # nothing that captures follow
        return {"sum": x + pair[0], "k": (x * k, k)}

    def f(x):
        made = opaque(x * 2, (x, 1.5), k=3)
        return made["sum"] + made["k"][0] * made["k"][1]
    compiled = eager(f, fullgraph=True)
    for _ in range(3):
        assert compiled(cresset.ones(1)).item() == f(cresset.ones(1)).item() == 21
    assert compiled._entries()[0]["ops"] == 5 and runs.count(True) == 1
    with pytest.raises(exc.Unsupported, match="opaque\\(\\), which is allowed in graphs, is called with an object of "
                                              "class Plain"):
        class Plain:
            pass
        eager(lambda x, p: opaque(p, (x,)), fullgraph=True)(cresset.ones(1), Plain())
    odd = dynamo.nonstrict_trace(lambda x: object())
    with pytest.raises(exc.Unsupported, match="returns an object of class object, which a graph cannot hold"):
        eager(lambda x: (odd(x), x)[1] + 1, fullgraph=True)(cresset.ones(1))
    with pytest.raises(TypeError, match="written in Python"):
        dynamo.allow_in_graph(len)
    assert dynamo.allow_in_graph([opaque]) == [opaque]


def test_marked_functions_are_guarded():
    def scaled(k):
        return dynamo.allow_in_graph(lambda x: x * k)

    def fixed(k):
        return dynamo.assume_constant_result(lambda: k)
    recorded = eager(lambda x, g: g(x), fullgraph=True)
    constant = eager(lambda x, g: x + g(), fullgraph=True)
    two, three = scaled(2), scaled(3)  # one code, two closures
    four, five = fixed(4), fixed(5)
    for _ in range(2):
        assert [recorded(cresset.ones(1), g).item() for g in (two, three)] == [2, 3]
        assert [constant(cresset.ones(1), g).item() for g in (four, five)] == [5, 6]


def test_assume_constant_result():
    calls = []

    class Settings:
        scale = 3

    @cresset.compiler.assume_constant_result
    def setting(s, name):
        calls.append(name)
        return getattr(s, name)

    def f(x, s):
        return x * setting(s, "scale")
    compiled, settings = eager(f, fullgraph=True), Settings()
    assert compiled(cresset.ones(1), settings).item() == 3 and calls
    before = len(calls)
    settings.scale = 5
    assert compiled(cresset.ones(1), settings).item() == 3 and len(calls) == before  # as was said
    with pytest.raises(exc.Unsupported, match="is called with a .*Tensor that the program computes"):
        eager(lambda x: x * setting(x + 1, "ndim"), fullgraph=True)(cresset.ones(1))
    made = dynamo.assume_constant_result(lambda n: [1] * n)
    assert eager(lambda x: x + len(made(2)), fullgraph=True)(cresset.ones(1)).item() == 3
    odd = dynamo.assume_constant_result(lambda: Settings())
    with pytest.raises(exc.Unsupported, match="returns an object of class Settings: only numbers"):
        eager(lambda x: x + odd().scale, fullgraph=True)(cresset.ones(1))
    assert eager(lambda x: x + odd().scale)(cresset.ones(1)).item() == 4


def test_disallow_in_graph():
    inner = dynamo.disallow_in_graph(lambda x: x * 2)
    compiled = eager(lambda x: inner(x + 1) - 1)
    for _ in range(2):
        assert compiled(cresset.ones(1)).item() == 3
    assert not any("mul" in str(entry["graph"]) for entry in compiled._entries())
    with pytest.raises(exc.Unsupported, match="is not allowed in graphs"):
        eager(lambda x: inner(x), fullgraph=True)(cresset.ones(1))


def test_substitute_in_graph():
    from cresset._dynamo import rules
    try:
        @cresset.compiler.substitute_in_graph(operator.length_hint, skip_signature_check=True)
        def hint(obj, default=0):
            return 40 + default
        compiled = eager(lambda x: x + operator.length_hint(x, 2), fullgraph=True)
        assert compiled(cresset.zeros(1)).item() == 42

        def halve(x):
            import gc
            return gc and x / 2

        @dynamo.substitute_in_graph(halve)
        def halved(x):
            return x * 0.5
        compiled = eager(lambda x: halve(x), fullgraph=True)
        assert compiled(cresset.ones(1)).item() == 0.5 and "mul" in str(compiled._entries()[0]["graph"])
        with pytest.raises(TypeError, match="have other parameters.*skip_signature_check"):
            dynamo.substitute_in_graph(halve)(lambda y, z: y)
        with pytest.raises(TypeError, match="is a method"):
            dynamo.substitute_in_graph([].append)
    finally:
        rules._substitutes.clear()
    assert eager(lambda x: x + operator.length_hint([1, 2]))(cresset.zeros(1)).item() == 2


def test_skip_is_disable_without_callees():
    inner = eager(lambda x: x + 1)
    skipped = dynamo.skip(lambda x: inner(x))
    assert skipped(cresset.ones(1)).item() == 2 and inner._counts()["captures"] == 1


# ---- counters, times, logs, config ----

def broken(x):
    y = x + 1
    dynamo.graph_break()
    return y * 2


def test_counters_and_times():
    utils.reset_counters()
    compiled = eager(broken)
    compiled(cresset.ones(1))
    assert utils.counters["stats"]["calls_captured"] == 2 and utils.counters["stats"]["unique_graphs"] == 2
    assert utils.counters["frames"]["total"] >= 1 and utils.counters["frames"]["ok"] >= 1
    assert any("graph_break() is called" in reason for reason in utils.counters["graph_break"])
    compiled(cresset.ones(1))
    assert utils.counters["stats"]["calls_captured"] == 2
    f = eager(lambda x, flag: x + 1 if flag else x - 1)
    f(cresset.ones(1), True), f(cresset.ones(1), False)
    assert "flag is True" in utils.counters["recompiles"]
    text = utils.compile_times()
    assert text.splitlines()[:2] == ["Compilation metrics:", "Function, Runtimes (s)"]
    names, values = utils.compile_times(repr="csv", aggregate=True)
    assert names == ["capture", "compile"] and all(float(value) >= 0 for value in values)
    with pytest.raises(ValueError, match="'str' or 'csv'"):
        utils.compile_times(repr="json")


LOGS = {
    "graph_breaks": r"graph break at .*test_compile_api.py:\d+ in broken: graph_break\(\) is called",
    "graph_code": r"aten\.add\.Tensor\(%arg0, 1\)",
    "graph": r"kind +name +target\n.*placeholder",
    "graph_sizes": r"add: f32\[1\]",
    "guards": r"\d+ guards\n- ",
    "bytecode": r"RETURN_VALUE",
    "trace_call": r"aten\.add\.Tensor from .*test_compile_api.py:\d+ in broken",
    "dynamo": r"broken: 1 ops, captured in [\d.]+ ms",
}


@pytest.mark.parametrize("name", LOGS)
def test_logs(name, caplog):
    caplog.set_level(logging.DEBUG)
    cresset._logging.set_logs(**{name: True})
    try:
        eager(broken)(cresset.ones(1))
    finally:
        cresset._logging.set_logs()
    said = [record.getMessage() for record in caplog.records if record.name == f"cresset.{name}"]
    assert any(re.search(LOGS[name], text) for text in said), said
    assert {record.name for record in caplog.records} == {f"cresset.{name}"}
    caplog.clear()
    eager(broken)(cresset.ones(1))
    assert not caplog.records


def test_log_of_recompiles(caplog):
    caplog.set_level(logging.DEBUG)
    cresset._logging.set_logs(recompiles=True)
    try:
        compiled = eager(lambda x, flag: x + 1 if flag else x - 1)
        for flag in (True, True, False):
            compiled(cresset.ones(1), flag)
    finally:
        cresset._logging.set_logs()
    assert len(caplog.records) == 1 and "what did not hold of the last: flag is True" in caplog.text


@pytest.mark.parametrize("value, text", [
    ("graph_brakes", "there is no log 'graph_brakes', did you mean 'graph_breaks'?"),
    ("recompiles,speed", "there is no log 'speed': there are all, bytecode, dynamo,")])
def test_unknown_logs(value, text):
    done = subprocess.run([sys.executable, "-c", "import cresset"], capture_output=True, text=True,
                          env={**os.environ, "CRESSET_LOGS": value})
    assert done.returncode == 1 and "ValueError: CRESSET_LOGS: " + text in done.stderr
    with pytest.raises(ValueError, match="there is no log"):
        cresset._logging.set_logs(speed=True)


def test_logs_of_the_environment():
    code = "import cresset\ncresset.compile(lambda x: print(end='') or x + 1, backend='eager')(cresset.ones(1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "CRESSET_LOGS": "+graph_breaks,-guards"})
    assert "[graph_breaks] graph break at <string>:2 in <lambda>: print() is called" in done.stderr
    assert "[guards]" not in done.stderr


def test_config():
    with pytest.raises(AttributeError, match="has no 'supress_errors': did you mean 'suppress_errors'"):
        config.supress_errors = True
    with pytest.raises(ValueError, match="suppress_errors is True or False, not 3"):
        config.suppress_errors = 3
    with pytest.raises(ValueError, match="repro_after is None, 'dynamo' or 'aot', not 'after'"):
        config.repro_after = "after"
    with config.patch("recompile_limit", 3), config.patch({"repro_level": 2}):
        assert (config.recompile_limit, config.cache_size_limit, config.repro_level) == (3, 3, 2)

    @config.patch(recompile_limit=2)
    def inside():
        return config.recompile_limit
    assert inside() == 2 and config.recompile_limit == 8 and config.repro_level == 1
    with pytest.raises(AttributeError), config.patch(recompile_limit=4, speed=1):
        pass
    assert config.recompile_limit == 8


# ---- cache artifacts ----

SAVING = """
import sys, cresset
f = cresset.compile(lambda x: (x * 3).sin() + 1)
f(cresset.ones(5))
f._wait()
saved = cresset.compiler.save_cache_artifacts()
open(sys.argv[1], "wb").write(saved[0])
print(saved[1].artifacts, f._entries()[0]["tier"])
"""
LOADING = """
import sys, cresset
info = cresset.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
f = cresset.compile(lambda x: (x * 3).sin() + 1)
f(cresset.ones(5))
f._wait()
hits, misses, _ = cresset._C._cache_counts()
print(info.artifacts, hits > 0, misses, f(cresset.ones(5)).tolist() == ((cresset.ones(5) * 3).sin() + 1).tolist())
"""


def test_cache_artifacts(tmp_path):
    def script(text, cache):
        done = subprocess.run([sys.executable, "-c", text, tmp_path / "saved"], capture_output=True, text=True,
                              check=True, env={**os.environ, "CRESSET_CACHE": str(tmp_path / cache)})
        return done.stdout.split()
    saved = script(SAVING, "one")
    assert int(saved[0]) >= 1 and saved[1] == "native"
    assert script(LOADING, "two") == [saved[0], "True", "0", "True"]
    data = pathlib.Path(tmp_path / "saved").read_bytes()
    for bad in (b"", b"junk", data[:-1], data[:50] + bytes([data[50] ^ 1]) + data[51:]):
        with pytest.raises((RuntimeError, ValueError), match="cache artifacts"):
            cresset.compiler.load_cache_artifacts(bad)
    name, rest = b"0" * 64, b"12345"
    for body in (name, name + b"\5", name + (6).to_bytes(8, "little") + rest, name + b"\xff" * 8 + rest,
                 name + (5).to_bytes(8, "little") + rest + b"x", b"../" + name[3:] + (5).to_bytes(8, "little") + rest):
        with pytest.raises((RuntimeError, ValueError), match="an entry does not fit"):  # whole, and still nonsense
            cresset.compiler.load_cache_artifacts(data[:8] + hashlib.sha256(body).digest() + body)
    with pytest.raises(TypeError, match="are bytes, not str"):
        cresset.compiler.load_cache_artifacts("text")
