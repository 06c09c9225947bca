"""Samples of joins, flips, repeats, padding and triangles."""
import torch
from samples import call, sample


@sample("cat")
def cat(make):
    yield call([make.tensor(2, 3), make.tensor(4, 3)])
    yield call([make.tensor(2, 3), make.tensor(2, 1)], -1)
    yield call([make.tensor(2, 3)], 1)
    yield call([make.tensor(0), make.tensor(2, 3)], 1)
    yield call([make.tensor(0, 3), make.tensor(2, 3)])
    yield call([make.tensor(2, 3, 4, 5), make.tensor(2, 1, 4, 5)], 1)
    yield call([make.tensor(3), make.tensor(2, dtype=torch.float32)], note="promotes")
    yield call([make.tensor(2, 3), make.tensor(2, 4)], note="sizes differ")
    yield call([make.tensor(()), make.tensor(())], note="0-d")
    yield call([], note="nothing")
    yield call([make.tensor(2), make.tensor(2)], 1, note="dim out of range")


@sample("stack")
def stack(make):
    yield call([make.tensor(2, 3), make.tensor(2, 3)])
    yield call([make.tensor(2, 3), make.tensor(2, 3)], -1)
    yield call([make.tensor(()), make.tensor(())])
    yield call([make.tensor(2, 3), make.tensor(2, 4)], note="sizes differ")


@sample("stack_nd")
def stack_nd(make):
    yield call([make.tensor(3), make.tensor(3)])
    yield call([make.tensor(2, 3), make.tensor(2, 3)])
    yield call([make.tensor(2, 3, 2), make.tensor(2, 3, 2)])


@sample("flip")
def flip(make):
    yield call(make.tensor(2, 3, 4), [0])
    yield call(make.tensor(2, 3, 4), [-1, 0])
    yield call(make.tensor(5), [0])
    yield call(make.tensor(2, 0), [0])
    yield call(make.tensor(2, 3), [])
    yield call(make.tensor(2, 3), [0, 0], note="dim twice")
    yield call(make.tensor(2, 3), [2], note="dim out of range")


@sample("matrix_like")
def matrix_like(make):
    yield call(make.tensor(3, 4))
    yield call(make.tensor(2, 3, 4))


@sample("roll")
def roll(make):
    yield call(make.tensor(2, 3, 4), [1], [0])
    yield call(make.tensor(2, 3, 4), [1, -2], [0, 2])
    yield call(make.tensor(2, 3), [4], [])
    yield call(make.tensor(5), [-7], [0])
    yield call(make.tensor(2, 3), [1, 2], [0], note="counts differ")


@sample("rot90")
def rot90(make):
    for k in (0, 1, 2, 3, -1):
        yield call(make.tensor(3, 4), k)
    yield call(make.tensor(2, 3, 4), 1, [1, 2])


@sample("repeat")
def repeat(make):
    yield call(make.tensor(2, 3), [2, 2])
    yield call(make.tensor(3), [2, 3])
    yield call(make.tensor(2, 3), [2, 1, 0])
    yield call(make.tensor(()), [3])
    yield call(make.tensor(()), [])
    yield call(make.tensor(2, 3), [2], note="too few")
    yield call(make.tensor(2), [-1], note="negative")


@sample("tile")
def tile(make):
    yield call(make.tensor(2, 3), [2])
    yield call(make.tensor(2, 3), [2, 2, 1])


@sample("triangle")
def triangle(make):
    for diagonal in (0, 1, -1, 10, -10):
        yield call(make.tensor(3, 4), diagonal)
    yield call(make.tensor(2, 4, 3), 1)
    yield call(make.tensor(0, 3))
    yield call(make.tensor(3), note="one dimension")


@sample("constant_pad")
def constant_pad(make):
    yield call(make.tensor(2, 3), [1, 2])
    yield call(make.tensor(2, 3), [1, 2, 0, 3], make.scalar())
    yield call(make.tensor(2, 3), [-1, 1])
    yield call(make.tensor(2, 3, 4, 5), [1, 1, 1, 1], 1)
    yield call(make.tensor(2, 3), [])
    yield call(make.tensor(0, 3), [1, 1])
    yield call(make.tensor(3), [1, 1, 1, 1], note="too many")
    yield call(make.tensor(3), [1], note="odd")


@sample("pad1d")
def pad1d(make):
    yield call(make.tensor(2, 5), [1, 2])
    yield call(make.tensor(2, 3, 5), [2, 0])
    yield call(make.tensor(2, 3, 5), [-1, 2])
    yield call(make.tensor(2, 3), [3, 1], note="padding as large as the input")


@sample("pad2d")
def pad2d(make):
    yield call(make.tensor(2, 4, 5), [1, 2, 3, 0])
    yield call(make.tensor(2, 3, 4, 5), [1, 1, 1, 1])


@sample("pad3d")
def pad3d(make):
    yield call(make.tensor(2, 3, 4, 5), [1, 2, 1, 1, 0, 2])
    yield call(make.tensor(2, 1, 3, 4, 5), [1, 1, 1, 1, 1, 1])


@sample("pad1d_backward")
def pad1d_backward(make):
    yield call(make.tensor(2, 8), make.tensor(2, 5), [1, 2])


@sample("pad2d_backward")
def pad2d_backward(make):
    yield call(make.tensor(2, 7, 8), make.tensor(2, 4, 5), [1, 2, 3, 0])
    yield call(make.tensor(1, 2, 7, 8), make.tensor(1, 2, 4, 5), [1, 2, 3, 0])


@sample("pad3d_backward")
def pad3d_backward(make):
    yield call(make.tensor(2, 5, 6, 8), make.tensor(2, 3, 4, 5), [1, 2, 1, 1, 0, 2])


@sample("pad")
def pad(make):
    yield call(make.tensor(2, 3, 4), [1, 1])
    yield call(make.tensor(2, 3, 4), [1, 1, 1, 0], "constant", 2.0)
    for mode in ("reflect", "replicate", "circular"):
        yield call(make.tensor(2, 3, 4), [1, 2], mode)
        yield call(make.tensor(2, 3, 4, 5), [1, 2, 2, 1], mode)


@sample("pad_circular")
def pad_circular(make):
    yield call(make.tensor(2, 3, 4), [1, 2])
    yield call(make.tensor(2, 3, 4, 5), [1, 2, 2, 1])
    yield call(make.tensor(2, 3, 4), [5, 0], note="wraps twice")


@sample("meshgrid")
def meshgrid(make):
    yield call([make.tensor(3), make.tensor(4)])
    yield call([make.tensor(3), make.tensor(()), make.tensor(2)])


@sample("meshgrid_indexing")
def meshgrid_indexing(make):
    for indexing in ("ij", "xy"):
        yield call([make.tensor(3), make.tensor(4), make.tensor(2)], indexing=indexing)


@sample("diag_embed")
def diag_embed(make):
    yield call(make.tensor(3))
    yield call(make.tensor(2, 3), 1)
    yield call(make.tensor(2, 3), -2, 0, 2)


@sample("diag")
def diag(make):
    yield call(make.tensor(3))
    yield call(make.tensor(3), -1)
    yield call(make.tensor(3, 4), 1)


@sample("trace")
def trace(make):
    yield call(make.tensor(3, 4))
    yield call(make.tensor(0, 0))


@sample("pixel_shuffle")
def pixel_shuffle(make):
    yield call(make.tensor(1, 8, 2, 3), 2)
    yield call(make.tensor(9, 2, 2), 3)


@sample("pixel_unshuffle")
def pixel_unshuffle(make):
    yield call(make.tensor(1, 2, 4, 6), 2)
    yield call(make.tensor(1, 3, 3), 3)


@sample("channel_shuffle")
def channel_shuffle(make):
    yield call(make.tensor(2, 6, 3, 2), 3)


@sample("diff")
def diff(make):
    yield call(make.tensor(5))
    yield call(make.tensor(2, 5), 2, 1)
    yield call(make.tensor(2, 5), 1, 0, make.tensor(1, 5), make.tensor(2, 5))
    yield call(make.tensor(2, 5), 9)


@sample("repeat_interleave_int")
def repeat_interleave_int(make):
    yield call(make.tensor(2, 3), 2)
    yield call(make.tensor(2, 3), 2, 1)
    yield call(make.tensor(2, 3), 3, 0)
    yield call(make.tensor(2, 3), 0, 0)
