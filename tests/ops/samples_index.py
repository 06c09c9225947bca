"""Samples of indexing, gathers, scatters, masks and embeddings."""
import torch
from samples import call, sample, transposed


def index_calls(make):
    x = make.tensor(4, 5, 6)
    i, j = make.index(4, (3,), negative=True), make.index(5, (3,))
    yield x, [i]
    yield x, [i, j]
    yield x, [None, j]
    yield x, [i, None, make.index(6, (3,))]
    yield x, [make.index(4, (2, 3))]
    yield x, [make.index(4, (2, 1)), make.index(5, (3,))]
    yield x, [None, make.index(5, (2, 2)), make.index(6, (2,))]
    yield x, [make.mask(4)]
    yield x, [make.mask(4, 5)]
    yield x, [None, make.mask(5)]
    yield x, [make.index(4, (), dtype=torch.int64)]
    yield x, [make.index(4, (0,))]
    yield x, [make.index(4, (3,), dtype=torch.int32)]
    yield make.tensor(0, 3), [make.index(1, (0,))]
    yield x, [make.mask(4), make.index(5, (1,))]


@sample("index_valid")
def index_valid(make):
    for x, indices in index_calls(make):
        if not any(i is not None and i.dtype == torch.bool for i in indices):
            yield call(x, indices)


@sample("index")
def index(make):
    for x, indices in index_calls(make):
        yield call(x, indices)
    yield call(make.tensor(3), [torch.tensor([3])], note="out of range")
    yield call(make.tensor(3), [torch.tensor([0]), torch.tensor([0])], note="too many")
    yield call(make.tensor(3, 4), [torch.tensor([0, 1]), torch.tensor([0, 1, 2])], note="shapes do not broadcast")


@sample("index_put_valid")
def index_put_valid(make):
    for x, indices in index_calls(make):
        shape = x[tuple(slice(None) if i is None else i.long() if i.dtype == torch.int32 else i for i in indices)].shape
        yield call(x, indices, make.tensor(()), False)
        if not any(i is not None and i.dtype != torch.bool and i.numel() > 1 for i in indices):  # repeats have no order
            yield call(x, indices, make.tensor(shape), False)
        yield call(x, indices, make.tensor(shape), True)


@sample("index_put")
def index_put(make):
    yield from index_put_valid(make)
    yield call(make.tensor(3), [torch.tensor([5])], make.tensor(()), note="out of range")
    yield call(make.tensor(4, 3), [torch.tensor([1, 2])], make.tensor(5), note="values do not broadcast")


@sample("index_select")
def index_select(make):
    x = make.tensor(4, 5)
    yield call(x, 0, make.index(4, (3,)))
    yield call(x, -1, make.index(5, (7,)))
    yield call(x, 1, make.index(5, (2,), dtype=torch.int32))
    yield call(x, 0, make.index(4, ()))
    yield call(x, 0, make.index(4, (0,)))
    yield call(make.tensor(()), 0, make.index(1, (1,)))
    yield call(make.tensor(3, 2, 4), 1, make.index(2, (5,)))
    yield call(x, 2, make.index(4, (3,)), note="dim out of range")
    yield call(x, 0, make.index(4, (2, 2)), note="not a vector")


@sample("index_select_backward")
def index_select_backward(make):
    yield call(make.tensor(3, 5), [4, 5], 0, make.index(4, (3,)))
    yield call(make.tensor(4, 2), [4, 5], 1, make.index(5, (2,)))


@sample("index_add")
def index_add(make):
    x = make.tensor(4, 5)
    yield call(x, 0, make.index(4, (3,)), make.tensor(3, 5))
    yield call(x, 1, make.index(5, (2,)), make.tensor(4, 2))
    yield call(x, 1, make.index(5, (2,), dtype=torch.int32), make.tensor(4, 2))
    yield call(x, 0, make.index(4, (3,)), make.tensor(3, 5), alpha=make.scalar())
    yield call(make.tensor(5), 0, make.index(5, (3,)), make.tensor(3))


@sample("index_copy")
def index_copy(make):
    x = make.tensor(4, 5)
    yield call(x, 0, torch.tensor([2, 0, 1]), make.tensor(3, 5))
    yield call(x, 1, torch.tensor([4, 2]), make.tensor(4, 2))
    yield call(make.tensor(5), 0, torch.tensor([1]), make.tensor(1))


@sample("index_fill_scalar")
def index_fill_scalar(make):
    yield call(make.tensor(4, 5), 0, make.index(4, (3,)), make.scalar())
    yield call(make.tensor(4, 5), -1, make.index(5, (2,)), 1)
    yield call(make.tensor(4, 5), 1, make.index(5, (0,)), 1)


@sample("index_fill_tensor")
def index_fill_tensor(make):
    yield call(make.tensor(4, 5), 0, make.index(4, (3,)), make.tensor(()))
    yield call(make.tensor(4, 5), 1, make.index(5, (2,)), make.tensor(2), note="value is not 0-d")


@sample("gather")
def gather(make):
    yield call(make.tensor(4, 5), 0, make.index(4, (2, 5)))
    yield call(make.tensor(4, 5), 1, make.index(5, (4, 7)))
    yield call(make.tensor(4, 5), -1, make.index(5, (2, 3)))
    yield call(make.tensor(6), 0, make.index(6, (9,)))
    yield call(make.tensor(()), 0, make.index(1, ()))
    yield call(make.tensor(2, 3, 4), 1, make.index(3, (2, 2, 4)))
    yield call(make.tensor(4, 5), 0, make.index(4, (0, 5)))
    yield call(make.tensor(4, 5), 0, torch.full((2, 5), 4), note="out of range")
    yield call(make.tensor(4, 5), 0, make.index(4, (2, 6)), note="index too wide")


def unique_index(make, n, rows, cols):
    return torch.stack([torch.randperm(n, generator=make.generator)[:cols] for _ in range(rows)])


@sample("scatter_src")
def scatter_src(make):
    i = unique_index(make, 5, 4, 3)
    yield call(make.tensor(4, 5), 1, i, make.tensor(4, 3))
    yield call(make.tensor(5, 4), 0, i.t().contiguous(), make.tensor(3, 4))
    yield call(make.tensor(4, 5), 1, i[:2, :2], make.tensor(3, 3))
    yield call(make.tensor(6), 0, torch.tensor([5, 0, 2]), make.tensor(3))
    yield call(make.tensor(4, 5), 1, make.index(5, (4, 0)), make.tensor(4, 3))
    yield call(make.tensor(4, 5), 1, i, make.tensor(4, 2), note="index larger than src")
    yield call(make.tensor(4, 5), 1, i + 5, make.tensor(4, 3), note="out of range")


@sample("scatter_value")
def scatter_value(make):
    i = unique_index(make, 5, 4, 3)
    yield call(make.tensor(4, 5), 1, i, make.scalar())
    yield call(make.tensor(6), 0, torch.tensor([5, 0, 2]), 1)
    yield call(make.tensor(()), 0, make.index(1, ()), 1)


@sample("scatter_old_reduce")
def scatter_old_reduce(make):
    for reduce in ("add", "multiply"):
        yield call(make.tensor(4, 5), 1, make.index(5, (4, 3)), make.tensor(4, 3), reduce=reduce)


@sample("scatter_value_reduce")
def scatter_value_reduce(make):
    for reduce in ("add", "multiply"):
        yield call(make.tensor(4, 5), 1, make.index(5, (4, 3)), make.scalar(), reduce=reduce)


@sample("scatter_reduce")
def scatter_reduce(make):
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            yield call(make.tensor(4, 5), 1, make.index(5, (4, 3)), make.tensor(4, 3), reduce, include_self=include)
            yield call(make.tensor(5), 0, make.index(5, (7,)), make.tensor(7), reduce, include_self=include)
    yield call(make.tensor(5), 0, make.index(5, (7,)), make.tensor(7), "nothing", note="unknown reduction")


@sample("masked_select")
def masked_select(make):
    yield call(make.tensor(3, 4), make.mask(3, 4))
    yield call(make.tensor(3, 4), make.mask(4))
    yield call(make.tensor(4), make.mask(3, 4))
    yield call(make.tensor(()), torch.tensor(True))
    yield call(make.tensor(0, 2), make.mask(0, 2))
    yield call(make.tensor(3), make.tensor(3, dtype=torch.int64), note="mask is not bool")


@sample("masked_scatter")
def masked_scatter(make):
    yield call(make.tensor(3, 4), make.mask(3, 4), make.tensor(12))
    yield call(make.tensor(3, 4), make.mask(4), make.tensor(3, 4))
    yield call(make.tensor(3, 4), torch.ones(3, 4, dtype=torch.bool), make.tensor(2), note="too few")


@sample("masked_scatter_backward")
def masked_scatter_backward(make):
    yield call(make.tensor(3, 4), make.mask(3, 4), [12])
    yield call(make.tensor(3, 4), make.mask(3, 4), [4, 3])


@sample("nonzero")
def nonzero(make):
    for shape in [(7,), (3, 4), (2, 3, 4), (0,), (2, 0), ()]:
        yield call(make.tensor(shape))
    yield call(torch.zeros(3, 4).to(make.dtype))


@sample("nonzero_static")
def nonzero_static(make):
    yield call(make.tensor(3, 4), size=5)
    yield call(make.tensor(3, 4), size=20, fill_value=-7)
    yield call(make.tensor(7), size=0)


@sample("take")
def take(make):
    yield call(make.tensor(3, 4), make.index(12, (5,), negative=True))
    yield call(make.tensor(3, 4), make.index(12, (2, 2)))
    yield call(make.tensor(3, 4), torch.tensor([12]), note="out of range")


@sample("put")
def put(make):
    yield call(make.tensor(3, 4), torch.tensor([0, 5, -1]), make.tensor(3), False)
    yield call(make.tensor(3, 4), make.index(12, (6,)), make.tensor(6), True)
    yield call(make.tensor(3, 4), torch.tensor([0, 5]), make.tensor(3), note="sizes differ")


@sample("take_along_dim")
def take_along_dim(make):
    yield call(make.tensor(3, 4), make.index(4, (3, 2)), 1)
    yield call(make.tensor(3, 4), make.index(3, (2, 1)), 0)
    yield call(make.tensor(3, 4), make.index(12, (5,)))


@sample("embedding")
def embedding(make):
    yield call(make.tensor(10, 3), make.index(10, (4,)))
    yield call(make.tensor(10, 3), make.index(10, (2, 3)))
    yield call(make.tensor(10, 3), make.index(10, ()))
    yield call(make.tensor(10, 3), make.index(10, (4,), dtype=torch.int32), 2)
    yield call(make.tensor(10, 3), make.index(10, (0,)))


@sample("embedding_backward")
def embedding_backward(make):
    yield call(make.tensor(4, 3), make.index(10, (4,)), 10, -1, False)
    yield call(make.tensor(2, 4, 3), make.index(5, (2, 4)), 5, 2, False)
    if make.is_float:
        yield call(make.tensor(4, 3), make.index(3, (4,)), 3, -1, True)


def bags(make, last=False):
    """weight, indices, offsets (and with `last` the end). No other layouts: PyTorch reads positions as if they were
    contiguous."""
    for n, starts in [(7, [0, 3, 3, 5]), (1, [0]), (0, [0, 0]), (40, [0, 10, 11, 39])]:
        yield make.tensor(10, 4), make.index(10, (n,)), torch.tensor(starts + [n] * last)


@sample("embedding_bag")
def embedding_bag(make):
    for mode in (0, 1, 2):
        for weight, indices, offsets in bags(make):
            yield call(weight, indices, offsets, False, mode)
    for mode in (1, 2):
        for weight, indices, offsets in bags(make, last=True):
            yield call(weight, indices, offsets, False, mode, False, None, True)


@sample("embedding_bag_padding")
def embedding_bag_padding(make):
    for padding in (None, 3, -2):
        for mode in (0, 1, 2):
            for weight, indices, offsets in bags(make):
                yield call(weight, indices, offsets, False, mode, False, None, False, padding)
    yield call(weight, indices, offsets, False, 0, False, None, False, 10, note="no such row")
    yield call(weight, indices, offsets, False, 0, False, None, False, -11, note="no such row")


@sample("_embedding_bag")
def _embedding_bag(make):
    for mode in (0, 1, 2):
        for weight, indices, offsets in bags(make):
            yield call(weight, indices, offsets, False, mode)
            yield call(transposed(weight), indices, offsets, False, mode, note="transposed")
            yield call(weight, indices.int(), offsets.int(), False, mode, False, None, False, 3)
            yield call(weight, indices.int(), offsets, False, mode)
        for weight, indices, offsets in bags(make, last=True):
            yield call(weight, indices, offsets, False, mode, False, None, True)
    for weight, indices, offsets in bags(make):
        yield call(weight, indices, offsets, False, 0, False, make.tensor(indices.shape))
        yield call(weight, indices, offsets, False, 0, False, make.tensor(indices.shape), False, 4)
    weight, indices, offsets = next(bags(make))
    yield call(weight, indices, offsets, False, 1, False, make.tensor(7), note="weights of a mean")
    yield call(weight, indices, offsets, False, 0, False, make.tensor(6), note="too few weights")
    yield call(weight, indices, offsets + 1, note="first offset is not 0")
    yield call(weight, indices, offsets * 3, note="offset beyond the indices")
    yield call(weight, indices + 10, offsets, note="index out of range")
    yield call(weight, indices, offsets, False, 3, note="no such mode")
    yield call(weight[0], indices, offsets, note="weight is a row")
    yield call(weight, indices.double(), offsets, note="indices are no integers")


def bag_results(make):
    """What the forward op hands to its derivatives."""
    for mode in (0, 1, 2):
        for padding in (-1, 3):
            for weight, indices, offsets in bags(make):
                weight = torch.arange(40.0).reshape(10, 4)
                _, bag, size, largest = torch.ops.aten._embedding_bag(weight, indices, offsets, False, mode, False,
                                                                      None, False, padding)
                yield mode, padding, indices, offsets, bag, size, largest


@sample("embedding_bag_backward")
def embedding_bag_backward(make):
    for mode, padding, indices, offsets, bag, size, largest in bag_results(make):
        yield call(make.tensor(offsets.numel(), 4), indices, offsets, bag, size, largest, 10, False, mode, False, None,
                   padding)
    yield call(make.tensor(offsets.numel(), 4), indices, offsets, bag, size, largest, 10, False, 0, False,
               make.tensor(indices.numel()), -1)


@sample("embedding_bag_dense_backward")
def embedding_bag_dense_backward(make):
    for mode, padding, indices, offsets, bag, size, largest in bag_results(make):
        if bag.numel() == indices.numel():
            yield call(make.tensor(offsets.numel(), 4), indices, bag, size, largest, 10, False, mode, None, padding)


@sample("embedding_bag_weights_backward")
def embedding_bag_weights_backward(make):
    for mode, padding, indices, offsets, bag, size, largest in bag_results(make):
        if mode == 0:
            yield call(make.tensor(offsets.numel(), 4), make.tensor(10, 4), indices, offsets, bag, mode, padding)
    yield call(make.tensor(offsets.numel(), 4), make.tensor(10, 4), indices, offsets, bag, 1,
               note="a mean has no weights")


@sample("embedding_renorm")
def embedding_renorm(make):
    yield call(make.tensor(5, 4), make.index(5, (6,)), 1.0, 2.0)
    yield call(make.tensor(5, 4), make.index(5, (2, 3)), 0.5, 1.0)
    yield call(make.tensor(5, 4), make.index(5, (0,)), 1.0, 2.0)
    yield call(make.tensor(5), make.index(5, (3,)), 1.0, 2.0, note="one dimension")


@sample("index_reduce")
def index_reduce(make):
    x = make.tensor(4, 5)
    for reduce in ("prod", "mean", "amax", "amin"):
        for include in (True, False):
            smooth = not (reduce == "prod" and not make.is_float and not make.dtype.is_complex)
            yield call(x, 0, torch.tensor([1, 3, 1]), make.tensor(3, 5), reduce, include_self=include, smooth=smooth)
            yield call(x, 1, torch.tensor([0, 4, 4], dtype=torch.int32), make.tensor(4, 3), reduce,
                       include_self=include, smooth=smooth)
            yield call(make.tensor(()), 0, torch.tensor(0), make.tensor(()), reduce, include_self=include,
                       smooth=smooth)
    yield call(x, 0, torch.tensor([], dtype=torch.int64), make.tensor(0, 5), "prod")
    yield call(x, 0, torch.tensor([4]), make.tensor(1, 5), "prod", note="out of range")
    yield call(x, 0, torch.tensor([-1]), make.tensor(1, 5), "prod", note="negative")
    yield call(x, 0, torch.tensor([1]), make.tensor(1, 5), "sum", note="no such reduction")
    yield call(x, 0, torch.tensor([1]), make.tensor(2, 5), "mean", note="sizes differ")
    yield call(x, 0, torch.tensor([1]), make.tensor(()), "mean", note="ranks differ")


def runs():
    """Lengths, offsets and where, of runs of six slices; axis 0 and 1."""
    yield dict(lengths=torch.tensor([1, 0, 5])), 3, 0
    yield dict(lengths=torch.tensor([2, 4], dtype=torch.int32)), 2, 0
    yield dict(offsets=torch.tensor([0, 1, 1, 6])), 3, 0
    yield dict(offsets=torch.tensor([1, 3, 5])), 2, 0
    yield dict(lengths=torch.tensor([[1, 5], [3, 3]]), axis=1), 2, 1
    yield dict(offsets=torch.tensor([[0, 4], [2, 6]]), axis=-2), 1, 1


@sample("segment_reduce")
def segment_reduce(make):
    for reduce in ("sum", "mean", "max", "amin", "prod"):
        for given, _, axis in runs():
            yield call(make.tensor(*[2, 6, 3][1 - axis:]), reduce, **given)
        yield call(make.tensor(6, 2), reduce, lengths=torch.tensor([1, 0, 5]), initial=2)
    yield call(make.tensor(6), "min", lengths=torch.tensor([3, 3]))
    yield call(make.tensor(0, 2), "max", lengths=torch.tensor([0, 0]))
    yield call(make.tensor(6, 2), "sum", lengths=torch.tensor([1, 2]), unsafe=True)
    yield call(make.tensor(6, 2), "sum", note="no runs")
    yield call(make.tensor(6, 2), "median", lengths=torch.tensor([1, 5]), note="no such reduction")
    yield call(make.tensor(6, 2), "sum", lengths=torch.tensor([1, 4]), note="too short")
    yield call(make.tensor(6, 2), "sum", lengths=torch.tensor([-1, 7]), note="negative")
    yield call(make.tensor(6, 2), "sum", lengths=torch.tensor([1, 5]), axis=1, note="another axis")
    yield call(make.tensor(6, 2), "sum", lengths=torch.tensor([1, 5]), axis=2, note="no such axis")
    yield call(make.tensor(6, 2), "sum", indices=torch.tensor([1, 5]), note="indices")
    yield call(make.tensor(6, 2), "sum", lengths=torch.tensor([1., 5.]), note="lengths of floats")
    yield call(make.tensor(()), "sum", lengths=torch.tensor([1]), note="no dimensions")


@sample("_segment_reduce_backward")
def segment_reduce_backward(make):
    for reduce in ("sum", "mean", "max", "amin", "prod"):
        for given, count, axis in runs():
            data = make.tensor(*[2, 6, 3][1 - axis:])
            sizes = [2, count, 3][1 - axis:]
            yield call(make.tensor(*sizes), make.tensor(*sizes), data, reduce, **given)
    x = make.tensor(6, 2)
    for reduce in ("max", "prod") if make.is_float else ():
        result = torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 4]))
        yield call(make.tensor(2, 2), result, x, reduce, lengths=torch.tensor([2, 4]))
    yield call(make.tensor(2, 2), make.tensor(2, 2), x, "sum", note="no runs")
