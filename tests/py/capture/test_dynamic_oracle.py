"""How often functions are captured, compared with PyTorch: the same programs with torch.compile(backend="eager")."""
import math
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch counts captures, too")
import cresset  # noqa: E402


class Program:
    """`make(t)`: a function, `t` the library; `calls`: its arguments, tuples as sizes of tensors."""

    def __init__(self, make, calls, differs=None, **options):
        self.make, self.calls, self.differs, self.options = make, calls, differs, options


def sizes(*many):
    return [(size,) for size in many]


def rows(*many):
    return [((n, 3),) for n in many]


def counter(t):
    space = types.SimpleNamespace(calls=0)

    def f(x):
        space.calls += 1
        return x + 1
    return f


def global_counter(t):
    space = {"N": 0}
    exec("def f(x):\n    global N\n    N += 1\n    return x * N", space)
    return space["f"]


def cell_counter(t):
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count
    return f


def branches(t):
    def f(x):
        if x.shape[0] > 5:
            return x + 1
        return x - 1
    return f


def module_counter(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * 2
    return Net()


def linear(t):
    return t.nn.Linear(3, 2)


def mark(name, **bounds):
    def make(t):
        def f(x):
            return x * 2

        def before(x):
            getattr(t._dynamo, name)(x, 0, **bounds)
        f.before = before
        return f
    return make


N = (4, 5, 6, 7, 8)
PROGRAMS = {
    "rows": Program(lambda t: lambda x: x * 2, rows(*N)),
    "rows_and_columns": Program(lambda t: lambda x: x.sum(0), sizes((4, 3), (5, 6), (7, 8), (9, 2))),
    "columns_later": Program(lambda t: lambda x: x.sum(0), sizes((4, 3), (5, 3), (5, 6), (7, 8))),
    "two_arguments": Program(lambda t: lambda x, y: x + y, [((n,), (n,)) for n in N]),
    "two_arguments_apart": Program(lambda t: lambda x, y: (x * 2, y * 2), [((4,), (3,)), ((4,), (5,)), ((6,), (7,))]),
    "zero_one_two": Program(lambda t: lambda x: x * 2, rows(4, 5, 1, 0, 2, 3, 1, 0)),
    "one_first": Program(lambda t: lambda x: x * 2, rows(1, 4, 5, 6)),
    "zero_first": Program(lambda t: lambda x: x * 2, rows(0, 4, 5, 6)),
    "rank": Program(lambda t: lambda x: x * 2, sizes((4,), (4, 3), (5, 3), (5, 6), (8,))),
    "always": Program(lambda t: lambda x: x * 2, rows(*N), dynamic=True),
    "always_zero_one": Program(lambda t: lambda x: x * 2, rows(4, 1, 0, 7, 1, 0), dynamic=True),
    "always_duck": Program(lambda t: lambda x: x * 2, sizes((4, 4), (5, 6), (7, 7), (8, 9)), dynamic=True),
    "always_two": Program(lambda t: lambda x, y: (x * 2, y * 2), [((4,), (4,)), ((4,), (5,)), ((7,), (7,))],
                          dynamic=True),
    "never": Program(lambda t: lambda x: x * 2, rows(*N), dynamic=False),
    "returned": Program(lambda t: lambda x: (x * 2, x.shape[0]), rows(*N)),
    "arithmetic": Program(lambda t: lambda x: x * (x.shape[0] * 2 + 1), rows(*N)),
    "reshape": Program(lambda t: lambda x: x.reshape(-1), rows(*N)),
    "view": Program(lambda t: lambda x: x.view(x.shape[0] * 3), rows(*N)),
    "length": Program(lambda t: lambda x: x * len(x), rows(*N)),
    "zeros": Program(lambda t: lambda x: x + t.zeros(x.shape[0], 3), rows(*N)),
    "arange": Program(lambda t: lambda x: t.arange(x.shape[0]), rows(*N)),
    "slice": Program(lambda t: lambda x: x[: x.shape[0] - 1], rows(*N)),
    "half": Program(lambda t: lambda x: x[x.shape[0] // 2:], rows(*N)),
    "matmul": Program(lambda t: lambda x, y: x @ y, [((n, 4), (4, n + 1)) for n in N]),
    "cat": Program(lambda t: lambda x: t.cat([x, x], 0), rows(*N)),
    "branches": Program(branches, rows(3, 4, 5, 6, 7, 8, 2)),
    "range": Program(lambda t: lambda x: [x * k for k in range(x.shape[0])], rows(4, 5, 6, 4, 5)),
    "text": Program(lambda t: lambda x: (x * 2, f"{x.shape[0]}"), rows(4, 5, 6, 5)),
    "equal": Program(lambda t: lambda x: x * 2 if x.shape[0] == 4 else x * 3, rows(4, 5, 6, 7, 4)),
    "truth": Program(lambda t: lambda x: x * 2 if x.shape[0] else x * 3, rows(4, 5, 6, 0)),
    "max": Program(lambda t: lambda x: x * max(x.shape[0], 5), rows(3, 4, 5, 6, 7)),
    "int": Program(lambda t: lambda x, n: x * n, [((3,), n) for n in (2, 3, 4, 0, 1, -7)]),
    "int_zero_first": Program(lambda t: lambda x, n: x * n, [((3,), n) for n in (0, 1, 2, 3)]),
    "int_always": Program(lambda t: lambda x, n: x * n, [((3,), n) for n in (2, 3, 4)], dynamic=True),
    "int_and_size": Program(lambda t: lambda x, n: x * n, [((n,), n) for n in N]),
    "int_of_list": Program(lambda t: lambda x, many: x * many[0], [((3,), [n]) for n in (2, 3, 4, 5)]),
    "int_returned": Program(lambda t: lambda x, n: (x * 2, n + 1), [((3,), n) for n in (2, 3, 4, 5)]),
    "int_as_size": Program(lambda t: lambda x, n: x.sum() + t.zeros(n), [((3,), n) for n in (4, 5, 6)]),
    "bool": Program(lambda t: lambda x, n: x * n, [((3,), n) for n in (True, False, True)]),
    "float": Program(lambda t: lambda x, s: x * s, [((3,), s) for s in (0.5, 0.25, 1.5, 2.5)]),
    "float_never": Program(lambda t: lambda x, s: x * s, [((3,), s) for s in (0.5, 0.25, 1.5)], dynamic=False),
    "float_returned": Program(lambda t: lambda x, s: (x * 2, s * 2), [((3,), s) for s in (0.5, 0.25, 1.5)]),
    "float_branch": Program(lambda t: lambda x, s: x * 2 if s > 1 else x, [((3,), s) for s in (0.5, 0.25, 1.5, 2.5)],
                            differs=(3, 0)),
    "kinds": Program(lambda t: lambda x, n: x * n, [((3,), n) for n in (2, 3, 2.5, 3.5)]),
    "object_counter": Program(counter, sizes(*[(3,)] * 6)),
    "global_counter": Program(global_counter, sizes(*[(3,)] * 6), differs=(2, 6)),
    "cell_counter": Program(cell_counter, sizes(*[(3,)] * 6)),
    "module_counter": Program(module_counter, sizes(*[(3,)] * 5), differs=(2, 5)),
    "linear": Program(linear, rows(*N)),
    "mark_dynamic": Program(mark("mark_dynamic"), rows(*N)),
    "mark_bounds": Program(mark("mark_dynamic", min=3, max=8), rows(4, 3, 8)),
    "maybe_mark_dynamic": Program(mark("maybe_mark_dynamic"), rows(*N)),
    "mark_static": Program(mark("mark_static"), rows(*N)),
}


def tensor(t, size):
    return (t.arange(float(math.prod(size))) - 1.5).reshape(size)


def arguments(t, call):
    return [tensor(t, a) if isinstance(a, tuple) else a for a in call]


def plain(value):
    if isinstance(value, (torch.Tensor, cresset.Tensor)):
        return tuple(value.shape), [round(v, 3) for v in value.detach().reshape(-1).tolist()]
    return [plain(v) for v in value] if isinstance(value, (tuple, list)) else (type(value), value)


def run(t, program, compiled, function):
    outcomes = []
    for call in program.calls:
        args = arguments(t, call)
        getattr(function, "before", lambda x: None)(args[0])
        outcomes.append(plain(compiled(*args)))
    return outcomes


def captures_of_torch(program):
    count = 0

    def backend(graph, inputs):
        nonlocal count
        count += 1
        return graph.forward
    torch._dynamo.reset()
    function = program.make(torch)
    return run(torch, program, torch.compile(function, backend=backend, **program.options), function), count


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_often_as_pytorch(name):
    program = PROGRAMS[name]
    want, theirs = captures_of_torch(program)
    function = program.make(cresset)
    compiled = cresset.compile(function, backend="eager", fullgraph=True, **program.options)
    got = run(cresset, program, compiled, function)
    ours = getattr(compiled, "_compiled", compiled)._counts()["captures"]
    if name != "linear":  # which has weights of its own
        assert got == want
    assert (ours, theirs) == (program.differs or (theirs, theirs))
