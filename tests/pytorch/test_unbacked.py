"""Numbers and sizes that depend on the data of PyTorch's tensors, as symbols of captured graphs:
capture_scalar_outputs, capture_dynamic_output_shape_ops, mark_unbacked(). Results, with their strides, gradients and
errors are plain PyTorch's."""
import re
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
from cresset import _C  # noqa: E402
from cresset import _dynamo as dynamo  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "py" / "capture"))
from unbacked_programs import MASKS, PROGRAMS, SUMS  # noqa: E402

BOTH = dict(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
NATIVE = ["arithmetic", "tolist()", "stored", "written between", "checked", "branch", "select", "slice", "broadcast",
          "nonzero", "mask and its size", "two masks", "unique and counts", "squeezed", "transposed", "scaled",
          "masked", "indexed", "tensor", "mask of a mask"]


def compiled_with(function, config=BOTH, backend="eager", **options):
    with dynamo.config.patch(**config):
        return cresset.compile(function, backend=backend, **options)


def shown(value):
    if isinstance(value, torch.Tensor):
        # of dimensions without elements, or with one, they may be others
        strides = [s for n, s in zip(value.shape, value.stride()) if n > 1 and value.numel()]
        return value.dtype, tuple(value.shape), strides, value.detach().reshape(-1).tolist(), value.requires_grad
    if isinstance(value, (tuple, list)):
        return type(value), [shown(part) for part in value]
    if isinstance(value, dict):
        return {key: shown(part) for key, part in value.items()}
    return type(value), value


def outcome(function, data, records=False):
    x = torch.tensor(data)
    if records:
        x.requires_grad_(True)
    try:
        result = function(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if records:
        result.backward()
    return repr((shown(result), shown(x), shown(x.grad) if records else None))


def graphs_of(compiled):
    return sum(entry["graph"] is not None for entry in compiled._entries())


def compare(program, compiled, between=lambda: None):
    plain = program.make(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # _check_is_size()
        for data in program.calls:
            assert outcome(compiled, data, program.records) == outcome(plain, data, program.records), data
            between()


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_plain(name):
    program = PROGRAMS[name]
    compiled = compiled_with(program.make(torch))
    compare(program, compiled)
    assert graphs_of(compiled) == program.ours


@pytest.mark.parametrize("name", NATIVE)
def test_native(name):
    program = PROGRAMS[name]
    compiled = compiled_with(program.make(torch), backend="native")
    compare(program, compiled, compiled._wait)
    assert {entry["tier"] for entry in compiled._entries() if entry["graph"] is not None} == {"native"}


@pytest.mark.parametrize("switches", [{"miss_once": True}, {"fail_graphs": True}, {"every": 2}, {"every": 5}], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_under_switches(name, switches):
    program = PROGRAMS[name]
    compiled = compiled_with(program.make(torch))
    _C._capture_switches(**switches)
    try:
        compare(program, compiled)
    finally:
        _C._capture_switches()


# ---- what only PyTorch's tensors meet: memory, gradients, writes ----

def rows_and_views(x):
    y = x.reshape(2, -1)[:, x[0] > 0] if x.dim() > 1 else x[x > 0]
    return y, y[1:], y.numel()


def both_ends(x):
    n = x.abs().sum().item()
    return torch.ones(3, n), torch.ones(n, 3).T, torch.ones(2, n, 3).transpose(0, 1), torch.zeros(n).unsqueeze(0)


def shared(x):
    base = torch.arange(x.abs().sum().item() + 2)
    a, b = base[:1], base[1:]
    return a, b, base


def written(x):
    n = x.sum().item()
    x.add_(n)
    return x[x > 1], n


def buffers(x):
    total = torch.zeros(3, dtype=torch.long)
    total[0] = x.sum().item()
    return total, x.index_fill(0, x.argmax(), 9)


def several(x):
    a, b, c = x.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    return torch.ones(a, b) * c, a + b, [a, b, c], float(x.sum()), int(x[0]), bool(x[1])


def truths(x):
    return bool(x.sum() > 2), torch.sym_max(x[0].item(), 2), torch.sym_not(x[0].item() > 1)


def columns(x):
    return x.reshape(1, -1).expand(2, -1).nonzero(), x.nonzero().T


def side_by_side(x):
    y = x.reshape(1, -1).expand(2, -1)
    row, at = torch.where(y > 0)
    return at, row, y.nonzero(as_tuple=True)[1], torch.nonzero(y, as_tuple=True)


def part_of_a_column(x):
    row, at = torch.where(x.reshape(1, -1).expand(2, -1) > 0)
    return at[1:], at, row + 1


def column_written(x):
    row, at = torch.where(x.reshape(1, -1).expand(2, -1) > 0)
    at.add_(1)
    return row, at, at._version


def columns_computed(x):
    return (x.reshape(1, -1).expand(2, -1).nonzero() + 1) * 2


def of_floats(x):
    n = int(x.sum().item() / 2)
    return torch.full((3,), x.sum().item() / 4), n


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", [
    rows_and_views, both_ends, shared, written, buffers, several, truths, columns, side_by_side, part_of_a_column,
    column_written, columns_computed, of_floats], ids=lambda f: f.__name__)
def test_results(function, backend):
    compiled = compiled_with(function, backend=backend)
    for data in SUMS + SUMS:
        assert outcome(compiled, data) == outcome(function, data), data
        compiled._wait()
    if function not in (columns_computed, part_of_a_column, column_written):
        assert compiled._counts()["captures"] == 1


def test_results_share_memory_as_they_do():
    compiled = compiled_with(shared, fullgraph=True)
    a, b, base = compiled(torch.tensor([1, 2]))
    base.zero_()
    assert a.tolist() == [0] and b.tolist() == [0] * 4 and a._base is base and b._base is base


def scaled(x, w):
    y = x[x > 0]
    return (y * w * y.numel()).sum() + (x * x.sum().item()).sum()


def cut(x, w):
    n = (x > 0).sum().item()
    torch._check(n <= x.shape[0])
    return (x[:n] * w).sum() + x[:n].numel(), x[n:]


def gathered(x, w):
    return torch.cat([x[x > 0] * w, x[x <= 0] * 2]), x.sum().item()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", [scaled, cut, gathered], ids=lambda f: f.__name__)
def test_gradients(function, backend):
    compiled = compiled_with(function, backend=backend, fullgraph=True)
    for data in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0], [1.0, -1.0, -1.0], [1.0, 2.0, 3.0]):
        both = []
        for f in (function, compiled):
            x, w = torch.tensor(data, requires_grad=True), torch.tensor(2.5, requires_grad=True)
            result = f(x, w)
            tensors = [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, torch.Tensor)]
            sum((t.sum() for t in tensors), torch.zeros(())).backward()
            both.append(repr((shown(result), x.grad.tolist(), None if w.grad is None else w.grad.tolist())))
        assert both[0] == both[1], data
        compiled._wait()
    assert compiled._counts()["captures"] == 1


def test_a_check_that_fails_is_the_programs_own():
    def checked(x):
        n = x.sum().item()
        torch._check(n < 5, lambda: f"{n} is too large")
        return x + n
    compiled = compiled_with(checked, fullgraph=True)
    assert compiled(torch.tensor([1, 2])).tolist() == [4, 5]
    with pytest.raises(RuntimeError, match="6 is too large"):
        compiled(torch.tensor([3, 3]))
    assert compiled._counts()["failed"] == 1


def test_a_branch_that_facts_do_not_decide():
    def branches(x):
        n = x.sum().item()
        if n > 3:
            return x + 1
        return x
    with pytest.raises(dynamo.exc.UserError, match="cannot decide u0 >= 4"):
        compiled_with(branches, fullgraph=True)(torch.tensor([1, 2]))

    def decided(x):
        n = x.sum().item()
        torch._check(n > 3)
        return x + 1 if n > 2 else x
    compiled = compiled_with(decided, fullgraph=True)
    assert compiled(torch.tensor([2, 2])).tolist() == [3, 3]
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([1, 1]))


# ---- by default, and by whose configuration ----

def read(x):
    return x.sum().item() + 1


def counted(x):
    return x[x > 0].shape[0] + 1


@pytest.mark.parametrize("function, name", [(read, "capture_scalar_outputs"),
                                            (counted, "capture_dynamic_output_shape_ops")])
def test_only_as_configured(function, name):
    x = torch.tensor([1, 0, 2])
    for others in ({}, {other: True for other in BOTH if other != name}):
        compiled = compiled_with(function, others)
        assert compiled(x) == function(x)
        assert re.search(f"'item' of a tensor is read|config.{name}", compiled._entries()[0]["reason"])
    compiled = compiled_with(function, {name: True}, fullgraph=True)
    for data in ([1, 0, 2], [0, 0, 0], [5, 0, 0]):
        assert compiled(torch.tensor(data)) == function(torch.tensor(data))
    assert compiled._counts()["captures"] == 1


@pytest.mark.parametrize("function, name", [(read, "capture_scalar_outputs"),
                                            (counted, "capture_dynamic_output_shape_ops")])
def test_torchs_own_configuration_counts(function, name):
    import torch._dynamo
    with torch._dynamo.config.patch(**{name: True}):
        compiled = cresset.compile(function, fullgraph=True, backend="eager")
    assert compiled(torch.tensor([1, 0, 2])) == function(torch.tensor([1, 0, 2]))


def test_masks_by_default():
    """Nobody reads a size: the graph gives what it has found."""
    compiled = compiled_with(lambda x: (x[x > 0] * 2, x + 1), {}, fullgraph=True)
    for data in MASKS:
        got, want = compiled(torch.tensor(data)), torch.tensor([2 * n for n in data if n > 0], dtype=torch.long)
        assert got[0].tolist() == want.tolist() and got[0].stride() == want.stride()
    assert compiled._counts()["captures"] == 1


def test_sizes_that_change_beside_numbers_of_data():
    def function(x):
        n = x.sum().item()
        torch._check(n >= 0)
        return x[x > 0] * x.shape[0], torch.ones(n, x.shape[0]), n
    compiled = compiled_with(function)
    for data in ([1, 2], [1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0, 1], [1]):
        assert outcome(compiled, data) == outcome(function, data), data


def test_a_python_backend_gets_numbers():
    def backend(graph, inputs):
        return graph.forward

    def program(x):
        y = x[x > 0]
        return y * x.sum().item(), y.shape[0], x.sum().item()
    compiled = compiled_with(program, backend=backend)
    for data in ([1, 0, 2], [0, 0, 0], [0, 4, 0]):
        assert outcome(compiled, data) == outcome(program, data)


# ---- mark_unbacked ----

MARKED = {  # how many captures six sizes need
    "elementwise": (lambda x: x * x + 1, 1),
    "sum": (lambda x: x.sum(0), 1),
    "its sizes": (lambda x: (x.shape[0] + 1, x.numel(), len(x)), 1),
    "reshape": (lambda x: x.reshape(-1) * 2, 1),
    "cat": (lambda x: torch.cat([x, x]), 1),
    "matmul": (lambda x: x @ x.T, None),
    "slice": (lambda x: x[1:], None),
    "zeros": (lambda x: torch.zeros(x.shape[0] + 1) + x.shape[0], 1),
    "mask": (lambda x: x[x > 0], 1),
    "written": (lambda x: x.add_(1), 1),
    "one row": (lambda x: x.squeeze(0), None),
    "a row": (lambda x: x[0], None),
    "layout": (lambda x: (x.T.is_contiguous(), x.T.contiguous(), x.T.stride()), None),
    "transposed": (lambda x: (x.T + 1, x.T * x.T), None),
    "branch": (lambda x: x + 1 if x.shape[0] > 2 else x - 1, None),
    "range": (lambda x: list(range(x.shape[0])), None),
    "broadcast": (lambda x: x + torch.ones(2, 3), None),
}


@pytest.mark.parametrize("mark", [dynamo.mark_unbacked, torch._dynamo.decorators.mark_unbacked], ids=["ours", "torch"])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", MARKED)
def test_mark_unbacked(name, backend, mark):
    function, captures = MARKED[name]
    compiled = compiled_with(function, {}, backend)
    for n in (4, 0, 1, 2, 3, 5):
        def call(f):
            x = torch.arange(float(n * 3)).reshape(n, 3) - 2
            mark(x, 0)
            try:
                return repr((shown(f(x)), shown(x)))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        assert call(compiled) == call(function), n
        compiled._wait()
    if captures:
        assert compiled._counts()["captures"] == captures


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_gradients_of_marked_sizes(backend):
    def function(x, w):
        return (x @ w).relu().sum() + x.mean(1).sum(), x[:1] * 2
    compiled = compiled_with(function, {}, backend)
    for n in (2, 0, 1, 3, 5):
        both = []
        for f in (function, compiled):
            x, w = torch.arange(float(n * 3)).reshape(n, 3) - 2, torch.ones(3, 2, requires_grad=True)
            dynamo.mark_unbacked(x, 0)
            x.requires_grad_()
            results = f(x, w)
            sum(t.sum() for t in results).backward()
            both.append((shown(results), x.grad.tolist(), w.grad.tolist()))
        assert both[0] == both[1], n
        compiled._wait()
    assert compiled._counts()["captures"] == 1
