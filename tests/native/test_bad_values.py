"""What a compiled model is given when it runs leads no kernel outside of its operands: values of indices are the
kernel's to check, sizes that were unknown when the model was compiled are checks of the model."""
import cresset
import pytest

aten = cresset.ops.aten


def index(*values):
    return cresset.tensor(values, dtype=cresset.int64)


class Call(cresset.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *args):
        return self.call(*args)


def both(call, *args):
    """The interpreted and the compiled program."""
    program = cresset.export.export(Call(call), args)
    return program.module(), program.compile(options={"wait": True})


INDICES = {
    "embedding": (lambda w, i: aten.embedding(w, i), (cresset.ones(4, 3), index(0, 3)), index(0, 4)),
    "embedding_dense_backward": (lambda g, i: aten.embedding_dense_backward(g, i, 4, -1, False),
                                 (cresset.ones(2, 3), index(0, 3)), index(4, 0)),
    "max_pool2d_backward": (
        lambda g, i: aten.max_pool2d_with_indices_backward(g, cresset.ones(1, 2, 4), [1, 2], [1, 2], [0, 0], [1, 1],
                                                           False, i),
        (cresset.ones(1, 2, 2), index(0, 2, 5, 7).reshape(1, 2, 2)), index(0, 2, 5, 8).reshape(1, 2, 2)),
    "gather": (lambda x, i: cresset.gather(x, 0, i), (cresset.ones(4), index(0, 3)), index(0, -1)),
    "scatter": (lambda x, i: cresset.scatter(x, 0, i, 2.0), (cresset.ones(4), index(0, 3)), index(0, 2**62)),
    "index_select": (lambda x, i: cresset.index_select(x, 0, i), (cresset.ones(4), index(0, 3)), index(0, 4)),
    "index_put": (lambda x, i: x.index_put((i,), cresset.zeros(2)), (cresset.ones(4), index(0, 3)), index(0, -5)),
    "nll_loss": (lambda x, i: cresset.nn.functional.nll_loss(x, i), (cresset.ones(2, 4), index(0, 3)), index(0, 4)),
    "one_hot": (lambda i: cresset.nn.functional.one_hot(i), (index(0, 3),), index(0, 2**63 - 1)),
    "multilabel_margin_loss": (lambda x, i: cresset.nn.functional.multilabel_margin_loss(x, i),
                               (cresset.ones(4), index(0, 3, -1, -1)), index(0, 4, -1, -1)),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices(name):
    call, args, bad = INDICES[name]
    for run in both(call, *args):
        run(*args)
        with pytest.raises((RuntimeError, IndexError)):
            run(*args[:-1], bad)


def test_a_failure_names_its_node():
    def call(x, i, j):
        picked = cresset.index_select(x, 0, i)
        return cresset.index_select(picked, 0, j) * 2
    args = cresset.ones(4), index(0, 3), index(1)
    interpreted, compiled = both(call, *args)
    for bad, node in (((index(0, 4), index(1)), "index_select"), ((index(0, 3), index(2)), "index_select_1")):
        with pytest.raises(IndexError, match=f"^%{node}: index_select: index . is out of bounds"):
            interpreted(args[0], *bad)
        named = rf"^aten::index_select -> {node} \(test_bad_values.py:\d+\): index . is out of bounds"
        with pytest.raises(RuntimeError, match=named):
            compiled(args[0], *bad)


def test_sizes_that_depend_on_data():
    """As many rows as indices: known only when both masks have been counted."""
    def call(grad, rows, at, wanted):
        return aten.embedding_dense_backward(grad[rows], at[wanted], 4, -1, False)
    grad, at = cresset.ones(3, 2), index(0, 1, 3)
    some, fewer = cresset.tensor([True, True, False]), cresset.tensor([False, True, False])
    for run in both(call, grad, some, at, some.clone()):
        assert run(grad, some, at, some).tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]
        assert run(grad, fewer, at, fewer).tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]
        for rows, wanted in ((some, fewer), (fewer, some)):
            with pytest.raises(RuntimeError):
                run(grad, rows, at, wanted)


def strided(x, y):
    return x.as_strided([y.shape[0]], [2], 1) * 2


def strided_by_number(x, k):
    n = k.item()
    cresset._check(n >= 0)
    return x.as_strided([n], [2], 1).clone()


def scattered(x, y):
    return cresset.as_strided_scatter(x, y, [y.shape[0]], [2], 1)


@pytest.mark.parametrize("call,good,bad", [(strided, cresset.ones(3), cresset.ones(6)),
                                           (scattered, cresset.ones(3), cresset.ones(6)),
                                           (strided_by_number, cresset.tensor(5), cresset.tensor(10**9))])
def test_a_view_stays_in_its_storage(call, good, bad):
    class Program(cresset.nn.Module):
        def forward(self, x, y):
            return call(x, y)
    x = cresset.ones(10)
    shapes = (None, {0: cresset.export.Dim("n", max=10**6)}) if good.dim() else None
    program = cresset.export.export(Program(), (x, good), dynamic_shapes=shapes)
    for run in (program.module(), program.compile(options={"wait": True})):
        run(x, good)
        with pytest.raises(RuntimeError):
            run(x, bad)


def negative_size(x):
    return cresset.zeros(x.shape[0] - 3).sum() + cresset.ones(5).sum()


def negative_stride(x):
    return aten.empty_strided([3, 2], [x.shape[0] - 3, 1]).fill_(1.0) * 2


def immense(x):
    n = x.shape[0]
    return cresset.zeros(n * 2**30, n * 2**30).sum()


@pytest.mark.parametrize("call,runs,refused", [(negative_size, (3, 4), 2), (negative_stride, (4,), 2),
                                               (immense, (), 4)])
def test_sizes_that_are_none(call, runs, refused):
    """An expression of a size need not be one itself."""
    class Program(cresset.nn.Module):
        def forward(self, x):
            return call(x)
    program = cresset.export.export(Program(), (cresset.ones(8),), dynamic_shapes=({0: cresset.export.Dim.AUTO},))
    for run in (program.module(), program.compile(options={"wait": True})):
        for n in runs:
            run(cresset.ones(n))
        with pytest.raises((RuntimeError, MemoryError)):
            run(cresset.ones(refused))


@pytest.mark.parametrize("start", (0, 1, 3, -2, -5, 4, -6))
def test_narrow_by_a_start_that_is_data(start):
    """From the end where it is negative, as PyTorch counts; beyond either end it is refused."""
    class Model(cresset.nn.Module):
        def forward(self, x, start):
            return cresset.narrow(x, 0, start, 2) * 1
    x = cresset.arange(10.0).reshape(5, 2)
    program = cresset.export.export(Model(), (x, cresset.tensor(1)))
    wanted = x.tolist()[start:][:2] if -6 < start < 4 else None
    for model in (program.module(), cresset.aot_load(cresset.aot_compile(program))):
        if wanted:
            assert model(x, cresset.tensor(start)).tolist() == wanted
            continue
        with pytest.raises((IndexError, RuntimeError)):
            model(x, cresset.tensor(start))
