"""Samples of factories, questions about tensors, and assertions."""
import torch
from samples import call, sample

SIZES = [[], [0], [5], [2, 3], [2, 0, 3]]


@sample("sizes")
def sizes(make):
    for size in SIZES:
        yield call(size, dtype=make.dtype)
    yield call([2, 3])
    yield call([2, 3], device=torch.device("cpu"))
    yield call([-1], note="negative")
    yield call([2 ** 62, 2 ** 62], note="overflow")


@sample("empty")
def empty(make):
    yield from sizes(make)
    yield call([2, 3, 4, 5], dtype=make.dtype, memory_format=torch.channels_last)
    yield call([2, 3], memory_format=torch.channels_last, note="wrong rank")


@sample("empty_strided")
def empty_strided(make):
    yield call([2, 3], [1, 2], dtype=make.dtype)
    yield call([2, 3], [0, 1], dtype=make.dtype)
    yield call([2, 3], [4, 1])
    yield call([2, 3], [1], note="lengths differ")
    yield call([2], [-1], note="negative")


@sample("empty_permuted")
def empty_permuted(make):
    yield call([2, 3, 4], [0, 2, 1], dtype=make.dtype)
    yield call([2, 0, 4], [2, 0, 1], dtype=make.dtype)
    yield call([2, 3], [0, 0], note="repeated")
    yield call([2, 3], [0], note="too few")


@sample("like")
def like(make):
    for shape in [(), (0,), (3, 4), (2, 3, 4, 5)]:
        yield call(make.tensor(shape))
    yield call(make.tensor(3, 4), dtype=torch.float64)
    yield call(make.tensor(3, 1).expand(3, 4), note="expanded")
    yield call(make.tensor(2, 3, 4, 5), memory_format=torch.channels_last)
    yield call(make.tensor(2, 3, 4, 5), memory_format=torch.contiguous_format)


@sample("full_like")
def full_like(make):
    for shape in [(), (0,), (3, 4), (2, 3, 4, 5)]:
        yield call(make.tensor(shape), make.scalar())
    yield call(make.tensor(3, 4), 2, dtype=torch.float64)
    yield call(make.tensor(3, 4), True)


@sample("new")
def new(make):
    for size in SIZES:
        yield call(make.tensor(2), size)
    yield call(make.tensor(2), [2, 3], dtype=torch.float64)


@sample("new_full")
def new_full(make):
    for size in SIZES:
        yield call(make.tensor(2), size, make.scalar())
    yield call(make.tensor(2), [2, 3], 1, dtype=torch.float64)


@sample("new_strided")
def new_strided(make):
    yield call(make.tensor(2), [2, 3], [1, 2])
    yield call(make.tensor(2), [2, 3], [3, 1], dtype=torch.float64)


@sample("full")
def full(make):
    for size in SIZES:
        yield call(size, make.scalar(), dtype=make.dtype)
    for number in (2, 1.5, True, 1 + 2j, float("nan"), float("-inf")):
        yield call([3], number)


@sample("scalar_tensor")
def scalar_tensor(make):
    yield call(make.scalar(), dtype=make.dtype)
    for number in (2, 1.5, True):
        yield call(number)


@sample("arange")
def arange(make):
    for end in (0, 5, 600, 2.5, 7.0):
        yield call(end)
        if make.is_number and not make.dtype.is_complex and not (end == 600 and make.dtype in (torch.uint8,
                torch.int8)):
            yield call(end, dtype=make.dtype)
    yield call(-1, note="negative")


@sample("arange_start")
def arange_start(make):
    for start, end in [(0, 5), (3, 7), (1.5, 6), (2, 2), (0.5, 2.75)]:
        yield call(start, end)
        if make.is_number and not make.dtype.is_complex:
            yield call(start, end, dtype=make.dtype)
    yield call(3, 1, note="backwards")
    yield call(0, float("nan"), note="nan")
    yield call(0, float("inf"), note="inf")


@sample("arange_step")
def arange_step(make):
    for start, end, step in [(0, 10, 3), (10, 0, -3), (0, 1, 0.25), (1, 2, 0.3), (5, 5, 1), (0, 100, 7)]:
        if make.dtype == torch.uint8 and step < 0:
            continue
        yield call(start, end, step)
        if make.is_number and not make.dtype.is_complex and (make.is_float or abs(step) >= 1):
            yield call(start, end, step, dtype=make.dtype)
    yield call(0, 5, 0, note="step 0")
    yield call(0, 5, -1, note="wrong sign")


@sample("linspace")
def linspace(make):
    for start, end, steps in [(0, 1, 5), (3, 3, 4), (0, 10, 1), (0, 10, 0), (5, 1, 7), (0.5, 2.75, 10), (0, 2, 100)]:
        yield call(start, end, steps)
        if make.is_number:
            yield call(start, end, steps, dtype=make.dtype)
    if make.is_float:
        yield call(-1, 3, 9, dtype=make.dtype)
    if make.dtype.is_complex:
        yield call(0, 1 + 1j, 5, dtype=make.dtype)
    yield call(0, 1 + 1j, 4)
    yield call(0, 1, -1, note="negative")


@sample("linspace_tensor")
def linspace_tensor(make):
    kinds = [str(a.type) for a in make.schema.arguments[:2]]
    for start, end in [(1, 4), (3, 0)]:
        values = [torch.tensor(v, dtype=make.dtype) if k == "Tensor" else v for v, k in zip((start, end), kinds)]
        yield call(*values, 5)
        yield call(*values, 4, dtype=torch.float64)


@sample("eye")
def eye(make):
    for n in (0, 1, 4):
        yield call(n, dtype=make.dtype)
    yield call(3)
    yield call(-1, note="negative")


@sample("eye_m")
def eye_m(make):
    for n, m in [(0, 3), (2, 3), (4, 2)]:
        yield call(n, m, dtype=make.dtype)
    yield call(3, -1, note="negative")


@sample("indices")
def indices(make):
    for row, col, offset in [(3, 3, 0), (3, 5, 1), (5, 3, -1), (4, 4, -9), (4, 4, 9), (0, 3, 0), (3, 0, 0), (2, 7, 3),
                             (7, 2, -3), (1, 1, 0)]:
        yield call(row, col, offset)
        yield call(row, col, offset, dtype=torch.int32)
    yield call(-1, 3, note="negative")


@sample("dim_of")
def dim_of(make):
    for dim in (0, 1, -1):
        yield call(make.tensor(2, 3), dim)
    yield call(make.tensor(2, 3), 2, note="dim out of range")
    yield call(make.tensor(()), 0, note="0-d")


@sample("two_shapes")
def two_shapes(make):
    yield call(make.tensor(2, 3), make.tensor(2, 3))
    yield call(make.tensor(2, 3), make.tensor(3, 2))
    yield call(make.tensor(2), make.tensor(2, 1))


@sample("is_set_to")
def is_set_to(make):
    x = make.tensor(2, 3)
    yield call(x, x, layouts=False)
    yield call(x, x.view(2, 3), layouts=False)
    yield call(x, x.t(), layouts=False)
    yield call(x, x[:1], layouts=False)
    yield call(x, x.view(6), layouts=False)
    yield call(x[:1], x[1:], layouts=False)
    yield call(x, make.tensor(2, 3))
    yield call(make.tensor(()), make.tensor(()))
    yield call(make.tensor(0), make.tensor(0))


@sample("item")
def item(make):
    yield call(make.tensor(()))
    yield call(make.tensor(1, 1))
    if make.schema.name == "aten::item":
        yield call(make.tensor(2), note="two")


@sample("equal")
def equal(make):
    a = make.tensor(3, 4)
    yield call(a, a.clone())
    yield call(a, make.tensor(3, 4))
    yield call(a, make.tensor(4, 3))
    yield call(a.t(), a.clone().t())
    yield call(make.tensor(0), make.tensor(0))
    yield call(make.tensor(()), make.tensor(()))
    if make.is_float:
        nan = torch.tensor([1.0, float("nan")], dtype=make.dtype)
        yield call(nan, nan.clone())
        yield call(torch.tensor([0.0], dtype=make.dtype), torch.tensor([-0.0], dtype=make.dtype))


@sample("bool_tensor")
def bool_tensor(make):
    for shape in [(), (3,), (2, 3), (0,)]:
        yield call(make.mask(shape))
    yield call(torch.ones(3, dtype=torch.bool))


@sample("assert_scalar")
def assert_scalar(make):
    for value in (True, 1, 2.5):
        yield call(value, "message")
    yield call(False, "message", note="false")
    yield call(0, "message", note="zero")


@sample("assert_async")
def assert_async(make):
    yield call(torch.ones((), dtype=make.dtype))
    yield call(torch.ones(1, 1, dtype=make.dtype))
    yield call(torch.zeros((), dtype=make.dtype), note="zero")
    yield call(torch.ones(2, dtype=make.dtype), note="two")


@sample("assert_async_msg")
def assert_async_msg(make):
    yield call(torch.ones((), dtype=make.dtype), "message")
    yield call(torch.zeros((), dtype=make.dtype), "message", note="zero")


@sample("assert_metadata")
def assert_metadata(make):
    yield call(make.tensor(2, 3))
    yield call(make.tensor(2, 3), [2, 3], dtype=make.dtype)
    yield call(make.tensor(2, 3), [2, 3], [3, 1])
    yield call(make.tensor(2, 3), [3, 2], note="size")
    yield call(make.tensor(2, 3), None, [1, 2], note="stride")
    yield call(make.tensor(2, 3), dtype=torch.int16 if make.dtype != torch.int16 else torch.int32, note="dtype")


@sample("constrain_range")
def constrain_range(make):
    yield call(5)
    yield call(5, min=0, max=10)
    yield call(5, min=6, note="below")
    yield call(5, max=4, note="above")
