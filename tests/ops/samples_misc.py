"""Samples of the ops that fit in no other family."""
import torch
from samples import call, sample


@sample("kron")
def kron(make):
    for a, b in (((2, 3), (4, 2)), ((3,), (2, 2)), ((2, 1, 2), (3,)), ((), (3,)), ((), ()), ((0, 2), (3, 2))):
        yield call(make.tensor(a), make.tensor(b))


@sample("isin_tensors")
def isin_tensors(make):
    for a, b in (((3, 4), (5,)), ((), (3,)), ((4,), ()), ((5,), (2, 3)), ((0,), (3,)), ((3,), (0,)), ((200,), (300,))):
        yield call(make.tensor(a), make.tensor(b))
        yield call(make.tensor(a), make.tensor(b), invert=True)


@sample("isin_tensor_scalar")
def isin_tensor_scalar(make):
    for shape in ((3, 4), (), (0,)):
        yield call(make.tensor(shape), make.scalar(positive=True))
        yield call(make.tensor(shape), make.scalar(positive=True), invert=True)


@sample("median_all")
def median_all(make):
    for shape in ((7,), (3, 4), (2, 3, 4), (), (1,)):
        yield call(make.tensor(shape))
    yield call(make.tensor(3, 5, special=True), note="with nan")


BLOCKS = [([2, 3], [1, 1], [0, 0], [1, 1]), ([2, 2], [2, 1], [1, 0], [2, 1]), ([3, 1], [1, 2], [1, 2], [1, 3]),
          ([6, 7], [1, 1], [0, 0], [1, 1])]


@sample("im2col")
def im2col(make):
    for blocks in BLOCKS:
        yield call(make.tensor(2, 3, 6, 7), *blocks)
        yield call(make.tensor(3, 6, 7), *blocks, note="no batch")
    yield call(make.tensor(0, 3, 6, 7), *BLOCKS[0])
    yield call(make.tensor(2, 3, 6, 7), [8, 8], [1, 1], [0, 0], [1, 1], note="kernel too large")
    yield call(make.tensor(6, 7), *BLOCKS[0], note="two dimensions")


@sample("col2im")
def col2im(make):
    for blocks in BLOCKS:
        columns = torch.ops.aten.im2col(torch.zeros(2, 3, 6, 7), *blocks)
        yield call(make.tensor(columns.shape), [6, 7], *blocks)
        yield call(make.tensor(columns.shape[1:]), [6, 7], *blocks, note="no batch")
    yield call(make.tensor(2, 7, 20), [6, 7], *BLOCKS[0], note="no multiple of the kernel")
    yield call(make.tensor(2, 6, 20), [6, 7], *BLOCKS[0], note="wrong number of blocks")


@sample("histc")
def histc(make):
    for shape in ((7,), (3, 4), (), (0,), (600,)):
        yield call(make.tensor(shape))
        yield call(make.tensor(shape), 5)
        yield call(make.tensor(shape), 7, -1, 2)
    yield call(make.tensor(300), 10, -1.5, 1.5)
    yield call(make.tensor(3, 5, special=True), 4, -1, 1, note="nan and infinities are outside")
    yield call(torch.ones(5).to(make.dtype), 4, note="one value")
    yield call(make.tensor(5), 4, 1, 1)
    yield call(make.tensor(5), 0, note="no bins")
    yield call(make.tensor(5), 3, 2, 1, note="max below min")
    yield call(make.tensor(5), 3, 0, float("inf"), note="infinite range")
    if make.is_float:
        yield call(make.tensor(6, special=True), 4, note="data without finite range")


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij, jk -> ki", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (1, 4, 5)), ("...ij,jk", (2, 3, 4), (4, 5)), ("bij,jk->bki", (2, 3, 4), (4, 5)),
    ("ii", (4, 4)), ("ii->i", (4, 4)),
    ("iij->j", (2, 2, 3)), ("iii->i", (3, 3, 3)), ("ijij->ji", (2, 3, 2, 3)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ijk->kij", (2, 3, 4)), ("ba", (2, 3)), ("aB", (2, 3)), ("...->", (3, 4)), ("i...->...", (3, 4)),
    ("i...->i", (2, 3, 4)), ("ij->...ij", (3, 4)),
    ("", ()), ("->", ()), (",->", (), ()), ("i,->i", (3,), ()), ("i,j->ji", (3,), (4,)), ("ij,ij->ij", (3, 4), (1, 4)),
    ("ij,ij->i", (3, 4), (1, 4)),
    ("ij,ij->", (3, 4), (3, 4)), ("ij,k->j", (2, 3), (4,)), ("...i,...i->...", (2, 3, 4), (4,)),
    ("ij,jk->ik", (3, 4), (1, 5)), ("ij,jk->ik", (3, 0), (0, 5)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)), ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)),
    ("i,i,i->", (4,), (4,), (4,)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bij,bjk->kbi", (2, 3, 4), (2, 4, 5)), ("ij,jkl->kli", (3, 4), (4, 5, 6)), ("ij,jkl->kil", (3, 4), (4, 5, 6)),
    ("ij,jk->ki", (1, 4), (4, 5)), ("ij,jk->ki", (3, 4), (4, 1)),
]
WRONG_EQUATIONS = [
    ("ij,jk->ik", (3, 4)), ("ij", (3, 4), (3, 4)), ("ij->ik", (3, 4)), ("ij->ii", (3, 4)), ("ijk->i", (3, 4)),
    ("i->i", (3, 4)), ("i1->i", (3, 4)),
    ("ij,jk->ik", (3, 4), (3, 4)), ("ii->i", (3, 4)), ("ij.->", (3, 4)), ("..ij", (3, 4)), ("...i...->i", (3, 4)),
    ("ij->i->j", (3, 4)), ("ij-", (3, 4)),
    ("ij->i,j", (3, 4)), ("ij->i..", (3, 4)), ("ij->......", (3, 4)), ("...ij,...jk->...ik", (2, 3, 4), (3, 4, 5)),
    ("ij",),
]


@sample("einsum")
def einsum(make):
    for equation, *shapes in EQUATIONS:
        yield call(equation, [make.tensor(shape) for shape in shapes], note=equation)
    for equation, *shapes in WRONG_EQUATIONS:
        yield call(equation, [make.tensor(shape) for shape in shapes], note=f"wrong: {equation}")
    for path in ([1, 2, 0, 1], [0, 2, 1, 0], [0, 1, 0, 1], [1, 2], [1, 1, 0, 1], [0, 3, 0, 1]):
        yield call("ij,jk,kl->il", [make.tensor(3, 4), make.tensor(4, 5), make.tensor(5, 2)], path=path,
                   note=f"path {path}")


@sample("one_hot")
def one_hot(make):
    for shape in ((7,), (3, 4), (), (2, 1, 3)):
        yield call(make.tensor(shape, low=0, high=5))
        yield call(make.tensor(shape, low=0, high=5), 6)
    yield call(make.tensor(0, 3), 4)
    yield call(make.tensor(0, 3), note="no classes to find")
    yield call(make.tensor(3, low=2, high=5), 2, note="class too large")
    yield call(make.tensor(3, low=2, high=5), -2, note="negative number of classes")
    if make.is_number and make.dtype != torch.uint8:
        yield call(make.tensor(3, low=-3, high=-1), 2, note="negative class")


@sample("isin_scalar_tensor")
def isin_scalar_tensor(make):
    # PyTorch refuses these dtypes only where there are elements to look through
    few = make.dtype.is_complex or not make.is_number
    for shape in ((2, 3),) if few else ((3, 4), (), (0,)):
        yield call(make.scalar(positive=True), make.tensor(shape))
        yield call(make.scalar(positive=True), make.tensor(shape), invert=True)


@sample("bincount")
def bincount(make):
    for shape in ((7,), (0,), (300,)):
        numbers = make.tensor(shape, low=0, high=9)
        yield call(numbers)
        yield call(numbers, None, 12)
        for kind in (torch.float32, torch.float64, torch.float16, torch.int32, torch.bool):
            yield call(numbers, make.tensor(shape, dtype=kind))
    yield call(make.tensor(2, 3, low=0, high=9), note="two dimensions")
    yield call(make.tensor(4, low=0, high=9), make.tensor(3), note="too few weights")
    yield call(make.tensor(4, low=0, high=9), None, -1, note="negative length")
    if make.is_number and make.dtype != torch.uint8:
        yield call(make.tensor(4, low=-9, high=-1), note="negative numbers")


@sample("repeat_interleave")
def repeat_interleave(make):
    for n in (5, 1, 0):
        times = make.tensor(n, low=0, high=4)
        yield call(times)
        if make.dtype == torch.int64:
            yield call(times, output_size=int(times.sum()))
    yield call(make.tensor(5, low=1, high=4), output_size=2, note="wrong size")
    yield call(make.tensor(2, 3), note="two dimensions")
    if make.is_number and make.dtype != torch.uint8:
        yield call(make.tensor(4, low=-9, high=-1), note="negative")


@sample("repeat_interleave_self")
def repeat_interleave_self(make):
    times = make.index(4, (3,))
    for repeats in (times, times[:1], times[0], times.int()):
        yield call(make.tensor(2, 3, 4), repeats, 1)
    yield call(make.tensor(3), times)
    yield call(make.tensor(2, 3), times[0])
    yield call(make.tensor(2, 3), times, -1, output_size=int(times.sum()))
    yield call(make.tensor(()), times[:1])
    yield call(make.tensor(2, 3), times, 0, note="wrong number of repeats")
    yield call(make.tensor(2, 3), times.reshape(1, 3), 1, note="repeats of two dimensions")


@sample("allclose")
def allclose(make):
    x = make.tensor(3, 4)
    yield call(x, x.clone())
    yield call(x, make.tensor(3, 4))
    yield call(x, make.tensor(4))
    yield call(make.tensor(0), make.tensor(0))
    if make.is_float:
        yield call(x, x + 0.05, 0.0, 0.1)
        nan = torch.full((2,), float("nan"), dtype=make.dtype)
        yield call(nan, nan)
        yield call(nan, nan, equal_nan=True)


@sample("is_nonzero")
def is_nonzero(make):
    for value in (0, 1):
        yield call(torch.tensor(value).to(make.dtype))
        yield call(torch.tensor([[value]]).to(make.dtype))
    yield call(make.tensor(2), note="two elements")
    yield call(make.tensor(0), note="no element")


WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def with_nan(t):
    t = t.clone()
    if t.dtype.is_floating_point and t.numel() > 3:
        t.view(-1)[1] = float("nan")
    return t


@sample("quantile")
def quantile(make):
    for q in (torch.tensor(0.3), torch.tensor([0.0, 0.55, 1.0]), torch.tensor([])):
        q = q.to(make.dtype)
        for way in WAYS:
            yield call(make.tensor(3, 4), q, interpolation=way)
            yield call(make.tensor(3, 4, 2), q, 1, interpolation=way, smooth=make.dtype == torch.float64)
        yield call(with_nan(make.tensor(3, 4)), q, 0, True, smooth=False)
        yield call(with_nan(make.tensor(3, 4)), q, -1, smooth=False)
        yield call(make.tensor(3, 4), q, None, True)
        yield call(make.tensor(()), q, 0, True)
    yield call(make.tensor(3, 4), make.tensor(1, 1, low=0), note="a matrix of q")
    yield call(make.tensor(3, 4), torch.tensor([1.2]).to(make.dtype), note="q above 1")
    yield call(make.tensor(3, 4), torch.tensor([-0.1]).to(make.dtype), note="q below 0")
    yield call(make.tensor(0, 4), torch.tensor([0.1]).to(make.dtype), 1, note="empty")
    yield call(make.tensor(3, 4), torch.tensor(0.1).to(make.dtype), interpolation="cubic", note="no such way")
    yield call(make.tensor(3, 4), torch.tensor(0.1).to(make.dtype), 2, note="no such dim")


@sample("quantile_scalar")
def quantile_scalar(make):
    for way in WAYS:
        yield call(make.tensor(3, 5), 0.55, interpolation=way)
        yield call(make.tensor(3, 5, 2), 0.3, 1, interpolation=way)
    yield call(with_nan(make.tensor(3, 5)), 0.5, 1, smooth=False)
    yield call(torch.full((3, 2), float("nan")).to(make.dtype), 0.5, 1, smooth=False)
    yield call(make.tensor(()), 0.5)
    yield call(make.tensor(3, 5), 1.5, note="q above 1")
    yield call(make.tensor(3, 5), float("nan"), note="q is no number")


@sample("vander")
def vander(make):
    for n in (None, 0, 1, 2, 4):
        for increasing in (False, True):
            yield call(make.tensor(3, low=-2, high=3), n, increasing)
    yield call(make.tensor(0))
    yield call(make.tensor(3), -1, note="negative")
    yield call(make.tensor(3, 2), note="a matrix")


@sample("linalg_vander")
def linalg_vander(make):
    for n in (None, 2, 4):
        yield call(make.tensor(3, low=-2, high=3), N=n)
        yield call(make.tensor(2, 3, low=-2, high=3), N=n)
    yield call(make.tensor(0), N=3)
    yield call(make.tensor(3), N=1, note="one column")
    yield call(make.tensor(()), note="no vector")


@sample("histogram_bins")
def histogram_bins(make):
    edges = torch.tensor([-1.5, -0.5, 0.0, 0.25, 2.0]).to(make.dtype)
    for shape in [(20,), (3, 4), (), (0,)]:
        yield call(make.tensor(shape), edges)
    yield call(with_nan(make.tensor(30)), edges)
    yield call(edges.clone(), edges, note="on the edges")
    yield call(make.tensor(20), edges, weight=make.tensor(20, low=0, high=3), density=True)
    yield call(make.tensor(20), edges, weight=make.tensor(19), note="sizes differ")
    yield call(make.tensor(20), make.tensor(2, 2), note="a matrix of edges")


@sample("histogramdd")
def histogramdd(make):
    low = -1.0 if make.is_signed else 0.0
    for shape, bins in [((20, 2), [3, 4]), ((5, 4, 3), [2, 3, 1]), ((6, 1), [4]), ((0, 2), [2, 2]), ((1, 2), [3, 2])]:
        yield call(make.tensor(shape), bins)
        yield call(make.tensor(shape), bins, range=[low, 1.5] * len(bins))
    yield call(make.tensor(30, 2), [4, 3], range=[0.5, 0.5, -1.0, 1.0])
    yield call(make.tensor(0, 2), [4, 3], range=[-300.0, 0.5, -1.0, 1.0])
    yield call(make.tensor(30, 2), [4, 3], weight=make.tensor(30, low=0, high=3), density=True)
    yield call(make.tensor(2, 15, 2), [4, 3], range=[-2.0, 2.0, -2.0, 2.0], weight=make.tensor(2, 15, low=0, high=3))
    yield call(make.tensor(30, 2), [4, 3], density=True)
    yield call(make.tensor(30, 2), [4, 0], note="no bins")
    yield call(make.tensor(30, 2), [4], note="bins of one dimension")
    yield call(make.tensor(30, 2), [4, 3], range=[1.0, -1.0, 0.0, 1.0], note="backwards")
    yield call(make.tensor(30, 2), [4, 3], range=[0.0, float("inf"), 0.0, 1.0], note="no end")
    yield call(make.tensor(30, 2), [4, 3], range=[0.0, 1.0], note="range of one dimension")
    yield call(make.tensor(30, 2), [4, 3], weight=make.tensor(29), note="sizes differ")
    yield call(make.tensor(30), [4], note="a vector")
    yield call(with_nan(make.tensor(30, 2)), [4, 3], note="no range")


@sample("histogramdd_int")
def histogramdd_int(make):
    for shape in [(20, 2), (5, 4, 3), (0, 2)]:
        yield call(make.tensor(shape), 3)
        yield call(make.tensor(shape), 2, range=[-1.0, 1.5] * shape[-1])
    yield call(make.tensor(30, 2), 4, None, make.tensor(30, low=0, high=3), True)
    yield call(make.tensor(30, 2), 0, note="no bins")
    yield call(make.tensor(30), 2, note="a vector")
    yield call(make.tensor(()), 2, note="a number")


@sample("histogramdd_edges")
def histogramdd_edges(make):
    a, b = (torch.tensor(x).to(make.dtype) for x in ([-1.5, -0.5, 0.0, 0.25, 2.0], [-2.0, 0.0, 1.0]))
    for shape in [(20, 2), (3, 4, 2), (0, 2)]:
        yield call(make.tensor(shape), [a, b])
    yield call(with_nan(make.tensor(30, 2)), [a, b])
    yield call(make.tensor(20, 1), [a])
    yield call(torch.stack([a, a], 1), [a, b], note="on the edges")
    yield call(make.tensor(20, 2), [a, b], weight=make.tensor(20, low=0, high=3), density=True)
    yield call(make.tensor(20, 2), [a], note="edges of one dimension")
    yield call(make.tensor(20, 2), [a, a[:1]], note="one edge")
    yield call(make.tensor(20, 2), [a, a[:0]], note="no edges")
    yield call(make.tensor(20, 2), [a, make.tensor(2, 2)], note="a matrix of edges")
    yield call(make.tensor(20, 2), [a, b], weight=make.tensor(19), note="sizes differ")


@sample("histogram_count")
def histogram_count(make):
    for shape in [(20,), (3, 4), (1,), (0,)]:
        yield call(make.tensor(shape), 5)
    yield call(make.tensor(30), 4, range=[-1.0, 1.0])
    yield call(make.tensor(30), 4, range=[0.5, 0.5])
    yield call(make.tensor(30), 4, weight=make.tensor(30, low=0, high=3), density=True)
    yield call(make.tensor(30), 0, note="no bins")
    yield call(make.tensor(30), 4, range=[1.0, -1.0], note="backwards")
    yield call(with_nan(make.tensor(30)), 4, note="no range")
