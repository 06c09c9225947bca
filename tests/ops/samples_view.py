"""Samples of views, conversions, copies and writes into a part."""
import torch
from samples import call, sample

SHAPES = [(), (7,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (1, 1), (2, 1, 3, 1)]


@sample("one_tensor")
def one_tensor(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
    yield call(make.tensor(4, 1).expand(4, 3), note="expanded")


@sample("tensor_list")
def tensor_list(make):
    yield call([make.tensor(()), make.tensor(3), make.tensor(2, 3)])
    yield call([make.tensor(2, 3, 4), make.tensor(0)])


@sample("view")
def view(make):
    for shape, size in [((), []), ((), [1, 1]), ((6,), [2, 3]), ((6,), [-1]), ((2, 3, 4), [6, 4]),
                        ((2, 3, 4), [2, -1]), ((2, 3, 4), [2, 3, 2, 2]),
                        ((2, 3, 4), [24]), ((0,), [0, 3]), ((2, 0, 3), [0]), ((2, 0, 3), [3, -1, 2]),
                        ((2, 0, 3), [2, 0, 3]), ((3, 1), [1, 3]),
                        ((1, 1), [])]:
        yield call(make.tensor(shape), size)
    yield call(make.tensor(6), [4], note="wrong number")
    yield call(make.tensor(6), [-1, -1], note="two unknown")
    yield call(make.tensor(6), [-2, -3], note="negative")
    yield call(make.tensor(0), [0, -1], note="ambiguous")
    yield call(make.tensor(2, 1, 3).expand(2, 4, 3), [2, 12], note="expanded")
    yield call(make.tensor(2, 1, 3).expand(2, 4, 3), [2, 2, 2, 3], note="expanded")


@sample("view_as")
def view_as(make):
    yield call(make.tensor(6), make.tensor(2, 3))
    yield call(make.tensor(2, 3, 4), make.tensor(4, 6))
    yield call(make.tensor(0, 2), make.tensor(3, 0))
    yield call(make.tensor(6), make.tensor(4), note="wrong number")


@sample("view_dtype")
def view_dtype(make):
    for dtype in (make.dtype, torch.uint8, torch.int16, torch.float32, torch.int64, torch.complex64, torch.complex128):
        yield call(make.tensor(2, 16), dtype)
        yield call(make.tensor(3), dtype)
        yield call(make.tensor(()), dtype)


@sample("flatten")
def flatten(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
    yield call(make.tensor(2, 3, 4), 1)
    yield call(make.tensor(2, 3, 4), 0, 1)
    yield call(make.tensor(2, 3, 4), 1, 1)
    yield call(make.tensor(2, 3, 4, 2), -3, -2)
    yield call(make.tensor(2, 3), 1, 0, note="order")
    yield call(make.tensor(2, 3), 0, 2, note="dim out of range")


@sample("unflatten")
def unflatten(make):
    yield call(make.tensor(12), 0, [3, 4])
    yield call(make.tensor(2, 12), -1, [3, -1, 2])
    yield call(make.tensor(6, 2), 0, [2, 3])
    yield call(make.tensor(6, 2), 0, [4, 2], note="wrong number")
    yield call(make.tensor(6, 2), 0, [], note="empty")
    yield call(make.tensor(0, 2), 0, [0, 5])


@sample("expand")
def expand(make):
    for shape, size in [((), []), ((), [3]), ((), [2, 3]), ((3,), [2, 3]), ((3, 1), [3, 4]), ((3, 1), [2, -1, 4]),
                        ((1,), [0]), ((1, 3), [1, 3]),
                        ((3,), [1, 3]), ((2, 1, 3), [4, 2, 5, -1]), ((0,), [2, 0])]:
        yield call(make.tensor(shape), size)
    yield call(make.tensor(3), [4], note="wrong size")
    yield call(make.tensor(2, 3), [3], note="too few")
    if make.schema.name == "aten::expand":
        yield call(make.tensor(3), [-1, 3], note="new dim")


@sample("expand_as")
def expand_as(make):
    yield call(make.tensor(3, 1), make.tensor(2, 3, 4))
    yield call(make.tensor(()), make.tensor(3))
    yield call(make.tensor(2), make.tensor(3), note="wrong size")


@sample("broadcast_tensors")
def broadcast_tensors(make):
    yield call([make.tensor(3, 1), make.tensor(4), make.tensor(())])
    yield call([make.tensor(2, 3)])
    yield call([make.tensor(0, 1), make.tensor(3)])
    yield call([make.tensor(2), make.tensor(3)], note="wrong size")


@sample("permute")
def permute(make):
    yield call(make.tensor(()), [])
    yield call(make.tensor(5), [0])
    yield call(make.tensor(2, 3, 4), [2, 0, 1])
    yield call(make.tensor(2, 3, 4), [-1, 1, 0])
    yield call(make.tensor(2, 0, 4), [1, 2, 0])
    yield call(make.tensor(2, 3), [0, 0], note="repeated")
    yield call(make.tensor(2, 3), [0], note="too few")
    yield call(make.tensor(2, 3), [0, 2], note="dim out of range")


@sample("transpose")
def transpose(make):
    for shape, a, b in [((), 0, -1), ((5,), 0, 0), ((2, 3), 0, 1), ((2, 3, 4), -1, 0), ((2, 0), 1, 0)]:
        yield call(make.tensor(shape), a, b)
    yield call(make.tensor(2, 3), 0, 2, note="dim out of range")


@sample("adjoint")
def adjoint(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))


@sample("movedim")
def movedim(make):
    yield call(make.tensor(()), 0, 0)
    yield call(make.tensor(2, 3, 4), 0, 2)
    yield call(make.tensor(2, 3, 4), -1, 0)
    yield call(make.tensor(2, 3, 4), 3, 0, note="dim out of range")


@sample("movedim_list")
def movedim_list(make):
    yield call(make.tensor(2, 3, 4, 5), [0, 2], [3, 1])
    yield call(make.tensor(2, 3, 4), [], [])
    yield call(make.tensor(2, 3, 4), [2, 0, 1], [0, 1, 2])
    yield call(make.tensor(2, 3, 4), [0, 0], [1, 2], note="repeated")
    yield call(make.tensor(2, 3, 4), [0], [1, 2], note="lengths differ")


@sample("squeeze")
def squeeze(make):
    for shape in SHAPES + [(1, 2, 1, 3), (1, 0, 1)]:
        yield call(make.tensor(shape))


@sample("squeeze_dim")
def squeeze_dim(make):
    for shape, dim in [((), 0), ((1,), -1), ((2, 1, 3), 1), ((2, 1, 3), 0), ((1, 1), 0), ((1, 0), 1)]:
        yield call(make.tensor(shape), dim)
    yield call(make.tensor(2), 1, note="dim out of range")


@sample("squeeze_dims")
def squeeze_dims(make):
    for shape, dims in [((), []), ((1,), [0]), ((2, 1, 3, 1), [1, -1]), ((2, 1, 3), [0, 1]), ((2, 1, 3), []),
                        ((1, 1), [0, 1])]:
        yield call(make.tensor(shape), dims)
    yield call(make.tensor(2, 1), [1, 1], note="repeated")
    yield call(make.tensor(2), [1], note="dim out of range")


@sample("unsqueeze")
def unsqueeze(make):
    for shape in SHAPES:
        for dim in (0, -1):
            yield call(make.tensor(shape), dim)
    yield call(make.tensor(2, 3), 1)
    yield call(make.tensor(2, 3), 3, note="dim out of range")


@sample("select")
def select(make):
    for shape, dim, index in [((5,), 0, 2), ((2, 3), 1, -1), ((2, 3, 4), -2, 0), ((2, 0, 3), 0, 1)]:
        yield call(make.tensor(shape), dim, index)
    yield call(make.tensor(3), 0, 3, note="index out of range")
    yield call(make.tensor(3), 0, -4, note="index out of range")
    yield call(make.tensor(3), 1, 0, note="dim out of range")
    yield call(make.tensor(()), 0, 0, note="0-d")


SLICES = [(), (0,), (0, 1), (0, 1, 3), (0, -2), (0, None, -1), (0, 0, 100), (0, -100, 2), (0, 3, 1), (0, 0, None, 2),
          (0, 1, 9223372036854775807, 3),
          (0, 5, 7), (-1, 1)]


@sample("slice")
def slice_(make):
    for rest in SLICES:
        yield call(make.tensor(5, 3), *rest)
    yield call(make.tensor(0, 2), 0, 0, 1)
    yield call(make.tensor(5), 0, 0, 3, 0, note="step 0")
    yield call(make.tensor(5), 0, 0, 3, -1, note="step negative")
    yield call(make.tensor(()), 0, 0, 1, note="0-d")


@sample("narrow")
def narrow(make):
    for shape, dim, start, length in [((5,), 0, 1, 3), ((5,), 0, 5, 0), ((5,), 0, -2, 2), ((2, 4), 1, 0, 0),
                                      ((2, 4), -1, 2, 2), ((0, 2), 0, 0, 0)]:
        yield call(make.tensor(shape), dim, start, length)
    yield call(make.tensor(5), 0, 3, 3, note="too long")
    yield call(make.tensor(5), 0, 6, 0, note="start out of range")
    yield call(make.tensor(5), 0, 0, -1, note="negative")
    yield call(make.tensor(()), 0, 0, 1, note="0-d")


@sample("narrow_tensor")
def narrow_tensor(make):
    yield call(make.tensor(5), 0, torch.tensor(1), 3)
    yield call(make.tensor(2, 4), 1, torch.tensor(-2), 2)


DIAGONALS = [((3, 4), ()), ((3, 4), (1,)), ((3, 4), (-2,)), ((3, 4), (9,)), ((2, 3, 4), (0, 1, 2)),
             ((2, 3, 4), (-1, -1, 0)), ((0, 3), ()), ((2, 3, 3), (1, 1, -1))]


@sample("diagonal")
def diagonal(make):
    for shape, rest in DIAGONALS:
        yield call(make.tensor(shape), *rest)
    yield call(make.tensor(3, 3), 0, 1, 1, note="same dims")
    yield call(make.tensor(3), note="one dim")


@sample("linalg_diagonal")
def linalg_diagonal(make):
    yield call(make.tensor(3, 4))
    yield call(make.tensor(2, 3, 4), offset=1)
    yield call(make.tensor(2, 3, 4), offset=-1, dim1=0, dim2=2)


@sample("as_strided")
def as_strided(make):
    yield call(make.tensor(12), [3, 2], [2, 1])
    yield call(make.tensor(12), [3, 2], [1, 1], 4)
    yield call(make.tensor(12), [], [], 5)
    yield call(make.tensor(12), [0, 3], [1, 1])
    yield call(make.tensor(12), [3], [0], 2)
    yield call(make.tensor(4), [5], [1], note="beyond")
    yield call(make.tensor(4), [2], [-1], note="negative")
    yield call(make.tensor(4), [2], [1, 1], note="lengths differ")


@sample("unfold")
def unfold(make):
    for shape, dim, size, step in [((), 0, 1, 1), ((7,), 0, 3, 2), ((7,), 0, 3, 1), ((2, 5), 1, 5, 1),
                                   ((4, 3), -2, 2, 3), ((7,), 0, 0, 2)]:
        yield call(make.tensor(shape), dim, size, step)
    yield call(make.tensor(3), 0, 4, 1, note="too large")
    yield call(make.tensor(3), 0, 2, 0, note="step 0")


@sample("split")
def split(make):
    for shape, size, dim in [((7,), 3, 0), ((6,), 2, 0), ((2, 5), 2, 1), ((2, 5), 9, -1), ((0,), 0, 0), ((0, 2), 3, 0)]:
        yield call(make.tensor(shape), size, dim)
    yield call(make.tensor(3), 0, note="size 0")
    yield call(make.tensor(3), -1, note="negative")
    yield call(make.tensor(()), 1, note="0-d")


@sample("split_sizes")
def split_sizes(make):
    for shape, sizes, dim in [((7,), [3, 4], 0), ((7,), [0, 7, 0], 0), ((2, 5), [1, 1, 3], 1), ((2, 5), [2], -2),
                              ((0,), [0, 0], 0)]:
        yield call(make.tensor(shape), sizes, dim)
    yield call(make.tensor(7), [3, 3], note="wrong sum")
    yield call(make.tensor(7), [8, -1], note="negative")


@sample("chunk")
def chunk(make):
    for shape, n, dim in [((7,), 3, 0), ((6,), 3, 0), ((2, 5), 4, 1), ((2,), 5, 0), ((0, 3), 2, 0)]:
        yield call(make.tensor(shape), n, dim)
    yield call(make.tensor(3), 0, note="none")
    yield call(make.tensor(()), 1, note="0-d")


@sample("tensor_split")
def tensor_split(make):
    for shape, cuts, dim in [((7,), [2, 5], 0), ((7,), [], 0), ((2, 5), [-1], 1), ((7,), [5, 2], 0), ((7,), [9], 0),
                             ((7,), [-9, 3], 0)]:
        yield call(make.tensor(shape), cuts, dim)


@sample("tensor_split_tensor")
def tensor_split_tensor(make):
    yield call(make.tensor(7), torch.tensor(3))
    yield call(make.tensor(7), torch.tensor([2, 4]))
    yield call(make.tensor(2, 7), torch.tensor([1]), 1)
    yield call(make.tensor(7), torch.tensor([[2]]), note="two dims")


@sample("unbind")
def unbind(make):
    for shape, dim in [((3,), 0), ((2, 3), 1), ((2, 0, 3), 0), ((0, 2), 0)]:
        yield call(make.tensor(shape), dim)
    yield call(make.tensor(()), note="0-d")


@sample("hsplit")
def hsplit(make):
    for shape in [(4,), (4, 6), (4, 6, 2)]:
        yield call(make.tensor(shape), 2)
    yield call(make.tensor(3, 3, 3), 2, note="does not divide")
    yield call(make.tensor(4, 6, 2), 0, note="none")
    yield call(make.tensor(()), 1, note="0-d")


@sample("hsplit_array")
def hsplit_array(make):
    for shape in [(4,), (4, 6), (4, 6, 5)]:
        yield call(make.tensor(shape), [1, 3])


@sample("view_as_complex")
def view_as_complex(make):
    yield call(make.tensor(3, 2))
    yield call(make.tensor(2))
    yield call(make.tensor(3), note="not 2")
    yield call(make.tensor(2, 2).t(), note="stride")
    yield call(make.tensor(()), note="0-d")


@sample("memory_format")
def memory_format(make):
    for shape in SHAPES:
        yield call(make.tensor(shape))
    yield call(make.tensor(4, 1).expand(4, 3), note="expanded")
    yield call(make.tensor(2, 3, 4, 5), memory_format=torch.channels_last)
    yield call(make.tensor(2, 3, 2, 4, 5), memory_format=torch.channels_last_3d)
    yield call(make.tensor(2, 3, 4, 5), memory_format=torch.contiguous_format)
    yield call(make.tensor(2, 3), memory_format=torch.channels_last, note="wrong rank")
    yield call(make.tensor(2, 3), memory_format=torch.preserve_format)


TO = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool,
      torch.complex64]


@sample("to_dtype")
def to_dtype(make):
    for dtype in TO:
        yield call(make.tensor(3, 4), dtype)
        yield call(make.tensor(()), dtype, False, True)
    yield call(make.tensor(2, 3, 4, 5), make.dtype, memory_format=torch.channels_last)
    yield call(make.tensor(2, 3, 4, 5), torch.float32, False, True, memory_format=torch.channels_last)
    yield call(make.tensor(600, low=-200.0, high=400.0) if make.is_float else make.tensor(600), torch.int64)


@sample("to_device")
def to_device(make):
    yield call(make.tensor(3, 4), torch.device("cpu"), make.dtype)
    yield call(make.tensor(3, 4), torch.device("cpu"), torch.float64)
    yield call(make.tensor(3, 4), torch.device("cpu"), make.dtype, False, True)


@sample("to_dtype_layout")
def to_dtype_layout(make):
    yield call(make.tensor(3, 4))
    for dtype in TO:
        yield call(make.tensor(3, 4), dtype=dtype)
    yield call(make.tensor(3, 4), dtype=torch.float64, device=torch.device("cpu"))
    yield call(make.tensor(2, 3, 4, 5), memory_format=torch.channels_last)


@sample("to_other")
def to_other(make):
    for dtype in TO:
        yield call(make.tensor(3, 4), make.tensor(2, dtype=dtype))


@sample("copy")
def copy(make):
    yield call(make.tensor(3, 4), make.tensor(3, 4))
    yield call(make.tensor(3, 4), make.tensor(4))
    yield call(make.tensor(3, 4), make.tensor(()))
    yield call(make.tensor(0, 4), make.tensor(4))
    yield call(make.tensor(3, 4), make.tensor(1, 4))
    for dtype in TO:
        yield call(make.tensor(3, 4), make.tensor(3, 4, dtype=dtype))
    yield call(make.tensor(3), make.tensor(4), note="wrong size")
    yield call(make.tensor(3), make.tensor(2, 3), note="too many dims")


@sample("fill")
def fill(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), make.scalar())
    yield call(make.tensor(3), 2)
    yield call(make.tensor(3), True)
    yield call(make.tensor(4, 1).expand(4, 3), 1, note="expanded")


@sample("fill_diagonal")
def fill_diagonal(make):
    for shape in [(3, 3), (3, 4), (7, 3), (11, 3), (4, 3), (1, 1), (1, 4), (5, 1), (3, 3, 3), (1, 1, 1), (2, 2, 2, 2),
                  (0, 3), (3, 0), (0, 0, 0)]:
        yield call(make.tensor(shape), make.scalar())
        yield call(make.tensor(shape), make.scalar(), True)
    yield call(make.tensor(3, 3), 2.5)
    yield call(make.tensor(3, 3), float("nan"))
    yield call(make.tensor(2, 3, 3), 1, note="sizes differ")
    yield call(make.tensor(3), 1, note="a vector")
    yield call(make.tensor(()), 1, note="a number")


@sample("fill_tensor")
def fill_tensor(make):
    yield call(make.tensor(3, 4), make.tensor(()))
    yield call(make.tensor(3, 4), make.tensor((), dtype=torch.float32))
    yield call(make.tensor(0), make.tensor(()))
    yield call(make.tensor(3), make.tensor(1), note="one dim")


@sample("select_scatter")
def select_scatter(make):
    yield call(make.tensor(3, 4), make.tensor(4), 0, 1)
    yield call(make.tensor(3, 4), make.tensor(3), 1, -1)
    yield call(make.tensor(5), make.tensor(()), 0, 2)
    yield call(make.tensor(3, 4), make.tensor(3), 0, 1, note="wrong size")
    yield call(make.tensor(3, 4), make.tensor(4), 0, 3, note="index out of range")


@sample("slice_scatter")
def slice_scatter(make):
    whole = make.tensor(5, 3)
    for rest in SLICES:
        part = torch.ops.aten.slice(whole, *rest)
        yield call(whole, make.tensor(part.shape), *rest)
    yield call(make.tensor(5), make.tensor(2), 0, 0, 3, note="wrong size")


@sample("diagonal_scatter")
def diagonal_scatter(make):
    for shape, rest in DIAGONALS:
        whole = make.tensor(shape)
        yield call(whole, make.tensor(whole.diagonal(*rest).shape), *rest)
    yield call(make.tensor(3, 3), make.tensor(2), note="wrong size")


@sample("as_strided_scatter")
def as_strided_scatter(make):
    yield call(make.tensor(12), make.tensor(3, 2), [3, 2], [4, 1])
    yield call(make.tensor(12), make.tensor(3), [3], [2], 5)
    yield call(make.tensor(12), make.tensor(2), [3], [2], note="wrong size")


@sample("select_backward")
def select_backward(make):
    yield call(make.tensor(4), [3, 4], 0, 1)
    yield call(make.tensor(3), [3, 4], -1, -1)
    yield call(make.tensor(()), [5], 0, 2)


@sample("slice_backward")
def slice_backward(make):
    yield call(make.tensor(2, 3), [5, 3], 0, 1, 3, 1)
    yield call(make.tensor(2, 3), [5, 3], 0, 1, 9223372036854775807, 2)
    yield call(make.tensor(5, 0), [5, 3], 1, 3, 3, 1)


@sample("diagonal_backward")
def diagonal_backward(make):
    yield call(make.tensor(3), [3, 4], 0, 0, 1)
    yield call(make.tensor(2, 2), [2, 3, 4], -1, 1, 2)
    yield call(make.tensor(0), [3, 4], 9, 0, 1)


@sample("unfold_backward")
def unfold_backward(make):
    yield call(make.tensor(3, 3), [7], 0, 3, 2)
    yield call(make.tensor(2, 4, 2), [2, 5], 1, 2, 1)
    yield call(make.tensor(1, 3, 2), [4, 3], 0, 2, 3)


@sample("resize")
def resize(make):
    yield call(make.tensor(6), [2, 3])
    yield call(make.tensor(6), [4])
    yield call(make.tensor(2, 3), [2, 3])
    yield call(make.tensor(6), [0, 3])
    yield call(make.tensor(2, 3, 4, 5), [2, 3, 4, 5], memory_format=torch.channels_last)
    yield call(make.tensor(6), [-1], note="negative")


@sample("resize_as")
def resize_as(make):
    yield call(make.tensor(6), make.tensor(2, 3))
    yield call(make.tensor(6), make.tensor(4, dtype=torch.float32))
    yield call(make.tensor(2, 3), make.tensor(2, 3))
    yield call(make.tensor(2, 3).t(), make.tensor(3, 2))
    yield call(make.tensor(6), make.tensor(0, 3))
    yield call(make.tensor(6), make.tensor(()))
    picture = make.tensor(2, 3, 4, 5)
    last = picture.to(memory_format=torch.channels_last)
    yield call(make.tensor(120), last)
    yield call(make.tensor(120), last, memory_format=torch.preserve_format, layouts=False)
    yield call(make.tensor(2, 3, 4, 5), picture, memory_format=torch.preserve_format)
    yield call(make.tensor(120), picture, memory_format=torch.channels_last)
    yield call(make.tensor(120), last, memory_format=torch.contiguous_format)
    yield call(make.tensor(6), make.tensor(2, 3), memory_format=torch.channels_last, note="a matrix")


@sample("set")
def set_(make):
    yield call(make.tensor(3), make.tensor(2, 4))


@sample("set_offset")
def set_offset(make):
    yield call(make.tensor(3), make.tensor(12), 2, [2, 3], [4, 1])
    yield call(make.tensor(3), make.tensor(12), 0, [5])
