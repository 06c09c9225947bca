"""Numbers and sizes that depend on data, as symbols of captured graphs: capture_scalar_outputs,
capture_dynamic_output_shape_ops, mark_unbacked()."""
import re
import sys
from pathlib import Path

import pytest

import cresset
from cresset import _C
from cresset import _dynamo as dynamo

sys.path.insert(0, str(Path(__file__).parent))
from unbacked_programs import PROGRAMS  # noqa: E402

BOTH = dict(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
# one of each kind: what is slow is the C compiler
NATIVE = ["arithmetic", "divides for nothing", "int() for nothing", "tolist()", "stored", "written between", "checked",
          "branch", "select", "slice", "broadcast", "max", "nonzero", "mask and its size", "unique and counts",
          "repeat_interleave", "squeezed", "added to two", "transposed", "branch on a size", "scaled", "masked",
          "indexed", "tensor"]


def compiled_with(function, config=BOTH, backend="eager", **options):
    with dynamo.config.patch(**config):
        return cresset.compile(function, backend=backend, **options)


def shown(t, value):
    if isinstance(value, t.Tensor):
        return str(value.dtype).split(".")[-1], tuple(value.shape), value.detach().reshape(-1).tolist()
    if isinstance(value, (tuple, list)):
        return type(value).__name__ if type(value) is list else "tuple", [shown(t, part) for part in value]
    if isinstance(value, dict):
        return {key: shown(t, part) for key, part in value.items()}
    return type(value), value


def outcome(t, function, data, records):
    """What the call gives, or raises, and the gradients; as text, in which NaN equals NaN."""
    x = t.tensor(data)
    if records:
        x.requires_grad_(True)
    try:
        result = function(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if records:
        result.backward()
    return repr((shown(t, result), shown(t, x.grad) if records else None))


def graphs_of(compiled):
    return sum(entry["graph"] is not None for entry in compiled._entries())


def compare(program, compiled, between=lambda: None):
    plain = program.make(cresset)
    for data in program.calls:
        want = outcome(cresset, plain, data, program.records)
        assert outcome(cresset, compiled, data, program.records) == want, data
        between()


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_plain(name):
    program = PROGRAMS[name]
    outcome(cresset, program.make(cresset), program.calls[0], False)  # makes names that are made when asked for
    compiled = compiled_with(program.make(cresset))
    compare(program, compiled)
    assert graphs_of(compiled) == program.ours


@pytest.mark.parametrize("name", NATIVE)
def test_native(name):
    program = PROGRAMS[name]
    compiled = compiled_with(program.make(cresset), backend="native")
    compare(program, compiled, compiled._wait)
    tiers = {entry["tier"] for entry in compiled._entries() if entry["graph"] is not None}
    assert tiers == {"native"}


@pytest.mark.parametrize("switches", [{"miss_once": True}, {"fail_graphs": True}, {"every": 2}, {"every": 5}], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_under_switches(name, switches):
    program = PROGRAMS[name]
    compiled = compiled_with(program.make(cresset))
    _C._capture_switches(**switches)
    try:
        compare(program, compiled)
    finally:
        _C._capture_switches()


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch counts its graphs, too")
    program, count = PROGRAMS[name], 0

    def backend(graph, inputs):
        nonlocal count
        count += 1
        return graph.forward
    torch._dynamo.reset()
    with torch._dynamo.config.patch(**BOTH):
        theirs = torch.compile(program.make(torch), backend=backend)
        ours = compiled_with(program.make(cresset))
        same = 0
        for data in program.calls:
            want, got = (outcome(t, f, data, program.records) for t, f in ((torch, theirs), (cresset, ours)))
            if want.startswith("(") and got.startswith("("):  # both give something
                assert re.sub(r"torch\.", "cresset.", want) == got, data
                same += 1
    assert count == program.theirs
    assert same or name in ("item of a list", "added to two", "broadcast")


# ---- what is there without the configuration, and with half of it ----

def read(x):
    return x.sum().item() + 1


def rows(x):
    return x[x > 0].shape[0] + 1


@pytest.mark.parametrize("function, name, reason", [
    (read, "capture_scalar_outputs", "'item' of a tensor is read|config.capture_scalar_outputs"),
    (rows, "capture_dynamic_output_shape_ops", "depends on the data of a tensor: set .*dynamic_output_shape_ops")])
def test_only_as_configured(function, name, reason):
    x = cresset.tensor([1, 0, 2])
    for others in ({}, {other: True for other in BOTH if other != name}):
        compiled = compiled_with(function, others)
        assert compiled(x) == function(x)
        assert re.search(reason, compiled._entries()[0]["reason"])
    compiled = compiled_with(function, {name: True}, fullgraph=True)
    assert compiled(x) == function(x)
    assert dynamo.config.capture_scalar_outputs is dynamo.config.capture_dynamic_output_shape_ops is False


def test_what_fullgraph_raises():
    def branches(x):
        n = x.sum().item()
        if n > 3:
            return x + 1
        return x
    with pytest.raises(dynamo.exc.UserError) as caught:
        compiled_with(branches, fullgraph=True)(cresset.tensor([1, 2]))
    assert isinstance(caught.value, (dynamo.exc.Unsupported, cresset.GuardOnDataDependentSymNode))
    text = str(caught.value)
    assert "cannot decide u0 >= 4" in text and "if n > 3:" in text and "n = x.sum().item()" in text
    assert "_check(n >= 4) or _check(n <= 3)" in text


def test_a_check_that_fails_is_the_programs_own():
    told = []

    def checked(x):
        n = x.sum().item()
        cresset._check(n < 5, lambda: told.append(n) or f"{n} is too large")
        return x + n
    compiled = compiled_with(checked, fullgraph=True)
    assert compiled(cresset.tensor([1, 2])).tolist() == [4, 5] and told == []
    with pytest.raises(RuntimeError, match="^6 is too large$"):
        compiled(cresset.tensor([3, 3]))
    assert told == [6] and compiled._counts()["failed"] == 1


def test_a_python_backend_gets_symbols():
    seen = {}

    def backend(graph, inputs):
        for node in graph.graph.nodes:
            value = node.meta.get("val")
            if value is not None:
                seen[node.name] = str(tuple(value.shape)) if isinstance(value, cresset.Tensor) else str(value)
        return graph

    def program(x):
        y = x[x > 0]
        return y * x.sum().item(), y.shape[0], x.sum().item()
    compiled = compiled_with(program, backend=backend, fullgraph=True)
    for data in ([1, 0, 2], [0, 0, 0], [0, 4, 0]):
        x = cresset.tensor(data)
        got, want = compiled(x), program(x)
        assert got[0].tolist() == want[0].tolist() and got[1:] == want[1:]
    assert seen["index"] == "(u0,)" and "u1" in seen.values()
    assert compiled._counts()["captures"] == 1


@pytest.mark.parametrize("value", [-2**63, -2**62 - 1, -2**62, 2**63 - 1])
def test_numbers_at_the_ends(value):
    x = cresset.tensor(value)
    assert x.item() == value
    compiled = compiled_with(lambda x: (x.item(), x * x.item()), fullgraph=True)
    number, product = compiled(x)
    assert number == value and product.item() == (x * x).item()
    assert compiled_with(lambda x: x.item() + 1)(x) == value + 1  # of more than 64 bits: plain


def test_numbers_without_a_sign_are_read_plain():
    x = cresset.tensor(2**64 - 1, dtype=cresset.uint64)
    assert compiled_with(lambda x: x.item())(x) == 2**64 - 1


# ---- mark_unbacked ----

def rows_of(n, records=False):
    x = (cresset.arange(float(n * 3)).reshape(n, 3) - 2).detach()
    dynamo.mark_unbacked(x, 0)
    return x.requires_grad_(records)


MARKED = {  # how many captures six sizes need
    "elementwise": (lambda x: x * x + 1, 1),
    "sum": (lambda x: x.sum(0), 1),
    "its sizes": (lambda x: (x.shape[0] + 1, x.numel(), len(x)), 1),
    "reshape": (lambda x: x.reshape(-1) * 2, 1),
    "cat": (lambda x: cresset.cat([x, x]), 1),
    "matmul": (lambda x: x @ x.T, 1),
    "slice": (lambda x: x[1:], 1),
    "zeros": (lambda x: cresset.zeros(x.shape[0] + 1) + x.shape[0], 1),
    "mask": (lambda x: x[x > 0], 1),
    "written": (lambda x: x.add_(1), 1),
    "one row": (lambda x: x.squeeze(0), 2),
    "a row": (lambda x: x[0], 2),
    "layout": (lambda x: (x.T.is_contiguous(), x.T.contiguous(), x.T.stride()), 3),
    "a view or a copy": (lambda x: (x.T.reshape(-1).add_(1), x), 3),
    "branch": (lambda x: x + 1 if x.shape[0] > 2 else x - 1, None),
    "range": (lambda x: list(range(x.shape[0])), None),
    "broadcast": (lambda x: x + cresset.ones(2, 3), None),
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", MARKED)
def test_mark_unbacked(name, backend):
    function, captures = MARKED[name]
    compiled = compiled_with(function, {}, backend)
    for n in (4, 0, 1, 2, 3, 5):
        def call(f):
            x = rows_of(n)
            try:
                return repr((shown(cresset, f(x)), shown(cresset, x)))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        assert call(compiled) == call(function), n
        compiled._wait()
    if captures:
        assert compiled._counts()["captures"] == captures


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_gradients_of_marked_sizes(backend):
    def function(x):
        return (x * x).sum() + x.mean(1).sum()
    compiled = compiled_with(function, {}, backend)
    for n in (2, 0, 1, 3):
        both = []
        for f in (function, compiled):
            x = rows_of(n, records=True)
            f(x).backward()
            both.append(x.grad.tolist())
        assert both[0] == both[1], n
        compiled._wait()
    assert compiled._counts()["captures"] == 1


def test_a_question_about_a_marked_size():
    def function(x):
        if x.shape[0] == 1:
            return x - 1
        return x + 1
    with pytest.raises(dynamo.exc.UserError, match="cannot decide u0 == 1"):
        compiled_with(function, {}, fullgraph=True)(rows_of(4))

    def checked(x):
        cresset._check(x.shape[0] != 1)
        return function(x)
    compiled = compiled_with(checked, {}, fullgraph=True)
    for n in (0, 2, 4):
        assert compiled(rows_of(n)).tolist() == checked(rows_of(n)).tolist()
    assert compiled._counts()["captures"] == 1
