"""E1, E3, E4, E7, E8: names of cresset._dynamo and cresset.compiler, each with its errors."""

import pytest

import cresset
import cresset._dynamo as dynamo
import cresset.nn as nn


def compiled_of(f, **kwargs):
    return cresset.compile(f, backend="eager", **kwargs)


def test_graph_break():
    def f(x):
        y = x + 1
        dynamo.graph_break()
        return y * 2
    compiled = compiled_of(f)
    for _ in range(2):
        assert compiled(cresset.ones(1)).item() == 4
    assert [e["ops"] for e in compiled._entries() if e["function"].endswith(".f")][0] == 1
    with pytest.raises(dynamo.exc.Unsupported, match=r"test_dynamo_api.py:\d+ in .*graph_break\(\) is called"):
        compiled_of(f, fullgraph=True)(cresset.ones(1))


def test_disable():
    seen = []

    @compiled_of
    def inner(x):
        seen.append(cresset.compiler.is_compiling())
        return x + 1

    @dynamo.disable
    def plain(x):
        """Says so."""
        seen.append(cresset.compiler.is_compiling())
        return inner(x) * 2
    assert plain.__name__ == "plain" and plain.__doc__ == "Says so."
    assert dynamo.disable(plain) is plain

    def f(x):
        return plain(x * 3) - 1
    compiled = compiled_of(f)
    for _ in range(2):
        assert compiled(cresset.ones(1)).item() == 7
    assert seen == [False] * 4 and inner._counts()["captures"] == 0
    assert sum(e["ops"] for e in compiled._entries()) in (1, 2)
    with pytest.raises(dynamo.exc.Unsupported, match=r"plain\(\) is called, which disable\(\)"):
        compiled_of(f, fullgraph=True)(cresset.ones(1))
    assert dynamo.disable(inner)(cresset.ones(1)).item() == 2 and inner._counts()["captures"] == 0
    not_deep = cresset.compiler.disable(recursive=False)(lambda x: inner(x))
    assert not_deep(cresset.ones(1)).item() == 2 and inner._counts()["captures"] == 1
    with pytest.raises(TypeError, match="takes a function"):
        dynamo.disable(3)


def captured(compiled):
    return {e["function"].split(".")[-1]: e["ops"] for e in compiled._entries() if e["ops"]}


def test_what_is_disabled_but_not_what_it_calls():
    """recursive=False: what it calls is captured by whoever called it, as at any break."""
    seen = []

    def callee(x):
        return x * 2 + 1

    def raises(x):
        y = x * 2
        raise KeyError(y.tolist())

    def again(x, n):
        seen.append(cresset.compiler.is_compiling())
        try:
            raises(x)
        except KeyError as error:
            seen.append(str(error))
        return callee(x).sin() + (again(x, n - 1) if n else 0) + sum(callee(x) for _ in range(1)) + sorted(
            [2, 1], key=lambda k: k)[0]
    middle = cresset.compiler.disable(again, recursive=False)

    def f(x):
        return middle(x + 1, 1) * 3
    compiled = compiled_of(f)
    want, log = f(cresset.ones(2)).tolist(), list(seen)
    for _ in range(2):
        seen.clear()
        assert compiled(cresset.ones(2)).tolist() == want and seen == log
    found = captured(compiled)
    assert found["callee"] == 2 and found["raises"] == 1 and "again" not in found
    assert not any("_observe" in e["function"] for e in compiled._entries())
    deep = compiled_of(lambda x: cresset.compiler.disable(again)(x + 1, 1) * 3)
    assert deep(cresset.ones(2)).tolist() == want and "callee" not in captured(deep)


def test_a_disabled_module_but_not_what_it_calls():
    class Inner(nn.Module):
        def forward(self, x):
            return x * 2 + 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x).sin()
    for recursive, ops in ((False, 3), (True, None)):
        module = cresset.compiler.disable(Outer(), recursive=recursive)
        compiled = compiled_of(lambda x: module(x + 1) * 3)
        for _ in range(2):
            assert compiled(cresset.ones(2)).tolist() == ((cresset.ones(2) * 4 + 1).sin() * 3).tolist()
        assert captured(compiled).get("forward") == ops


def test_disable_modules_and_classes():
    module = nn.Linear(2, 2)
    wrapped = dynamo.disable(module)
    x = cresset.ones(1, 2)
    assert wrapped(x).tolist() == module(x).tolist() and "_orig_mod.weight" in wrapped.state_dict()

    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k
    assert dynamo.disable(Scale) is Scale
    compiled = compiled_of(lambda x: Scale(3)(x + 1))
    assert compiled(cresset.ones(1)).item() == 6


def test_is_compiling():
    def f(x):
        return x + 1 if cresset.compiler.is_compiling() else x - 1
    assert f(cresset.ones(1)).item() == 0
    compiled = compiled_of(f, fullgraph=True)
    assert compiled(cresset.ones(1)).item() == compiled(cresset.ones(1)).item() == 2
    assert not dynamo.is_compiling() and dynamo.is_dynamo_supported()


@pytest.mark.parametrize("fullgraph", [False, True])
def test_who_raises_for_being_compiled_is_told_that_it_is_not(fullgraph):
    def inner(mask, x):
        return x * mask.sum()

    def f(x, mask=None):
        if mask is None and not cresset.compiler.is_compiling():
            mask = cresset.ones(3)
        return inner(mask, x + 1)
    compiled = compiled_of(f, fullgraph=fullgraph)
    for _ in range(2):
        assert compiled(cresset.ones(1)).item() == 6
    assert [e["reason"] for e in compiled._entries()] == [None]


def test_who_raises_compiled_or_not_raises():
    def f(x):
        if cresset.compiler.is_compiling():
            raise KeyError("compiled")
        raise ValueError("plain")
    compiled = compiled_of(f)
    for _ in range(2):
        with pytest.raises(ValueError, match="plain"):
            compiled(cresset.ones(1))


def test_reset():
    told = []

    class Backend:
        compiler_name = "told"

        def __call__(self, graph, examples):
            return graph.run

        def reset(self):
            told.append(1)
    cresset._compile.register_backend(Backend(), "told_backend")
    try:
        compiled = cresset.compile(lambda x: x + 1, backend="told_backend")
        compiled(cresset.ones(1))
        assert "told_backend" in dynamo.list_backends() and compiled._entries()
        dynamo.reset()
        assert not compiled._entries() and told
        assert compiled(cresset.ones(1)).item() == 2
    finally:
        del cresset._compile._backends["told_backend"]


def test_limits():
    before = dynamo.config.recompile_limit
    try:
        dynamo.config.cache_size_limit = 2
        assert dynamo.config.recompile_limit == 2
        compiled = compiled_of(lambda x, n: x + len(range(n)))
        with pytest.warns(RuntimeWarning, match="captured 2 times, the limit.*n == 1"):
            for n in range(5):
                assert compiled(cresset.zeros(1), n).item() == n
        assert compiled._counts()["captures"] == 2
    finally:
        dynamo.config.recompile_limit = before
    with pytest.raises(ValueError, match="1 or more"):
        dynamo.config.recompile_limit = 0
    with pytest.raises(AttributeError, match="has no 'speed'"):
        dynamo.config.speed = 3
    with pytest.raises(AttributeError, match="has no 'speed'"):
        dynamo.config.speed


def test_explain():
    def f(x):
        y = x + 1
        print(end="")
        return y * 2 - 1
    found = dynamo.explain(f)(cresset.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 3)
    assert len(found.graphs) == 2 and "aten.add" in str(found.graphs[0]) and found.out_guards
    assert len(found.break_reasons) == 1 and "print() is called" in found.break_reasons[0]
    assert f"test_dynamo_api.py:{f.__code__.co_firstlineno + 2}" in found.break_reasons[0]
    text = str(found)
    assert "Graph break count: 1" in text and "Break reason 1" in text
    with pytest.warns(FutureWarning, match=r"explain\(f\)"):
        assert dynamo.explain(f, cresset.ones(2)).graph_count == 2
    whole = dynamo.explain(lambda x: x)(cresset.ones(1))
    assert (whole.graph_count, whole.graph_break_count, whole.break_reasons) == (0, 0, [])


def test_stances():
    compiled = compiled_of(lambda x, n: x + n)
    x = cresset.ones(1)
    with cresset.compiler.set_stance("force_eager"):
        assert compiled(x, 1).item() == 2 and not compiled._entries()
    compiled(x, 1)
    with cresset.compiler.set_stance("eager_on_recompile"):
        assert compiled(x, 1).item() == 2 and compiled(x, 2).item() == 3
    assert compiled._counts()["captures"] == 1 and compiled._counts()["hits"] == 1
    with cresset.compiler.set_stance("fail_on_recompile"):
        assert compiled(x, 1).item() == 2
        with pytest.raises(RuntimeError, match="fail_on_recompile.*n is 1"):
            compiled(x, 2)

    @cresset.compiler.set_stance("force_eager")
    def during():
        return compiled(x, 5).item()
    assert during() == 6 and compiled._counts()["captures"] == 1
    assert compiled(x, 5).item() == 6 and compiled._counts()["captures"] == 2
    with pytest.raises(RuntimeError, match="'fast' is no stance"):
        cresset.compiler.set_stance("fast")


def test_stances_after_a_break():
    def f(x):
        y = x + 1
        print(end="")
        return y * 2
    compiled = compiled_of(f)
    assert compiled(cresset.ones(1)).item() == 4
    captured = compiled._counts()["captures"]
    for stance in ("force_eager", "eager_on_recompile", "fail_on_recompile"):
        with cresset.compiler.set_stance(stance):
            assert compiled(cresset.ones(1)).item() == 4
    assert compiled._counts()["captures"] == captured


@pytest.mark.parametrize("name", sorted(cresset._dynamo.config._elsewhere))
def test_settings_of_pytorch_say_what_there_is_instead(name):
    config = cresset._dynamo.config
    for use in (lambda: setattr(config, name, True), lambda: getattr(config, name)):
        with pytest.raises(AttributeError) as raised:
            use()
        assert repr(name) in str(raised.value) and config._elsewhere[name] in str(raised.value)
        assert "suppress_errors" in str(raised.value)
