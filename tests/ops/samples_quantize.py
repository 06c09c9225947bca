"""Samples of rounding to a grid and of products of small integers."""
import torch
from samples import call, sample

SHAPES = [(), (7,), (3, 4), (2, 3, 4, 5), (0,), (4096,)]


def inputs(make):
    for shape in SHAPES:
        x = make.tensor(shape, special=True)
        yield x * 40 if make.is_float and shape == (3, 4) else x


@sample("fake_quantize")
def fake_quantize(make):
    for x in inputs(make):
        yield call(x, 0.1, 3, -128, 127)
    yield call(make.tensor(3, 4), 0.37, 0, 0, 255)
    yield call(make.tensor(3, 4), 0.1, 300, 0, 255, note="zero point outside")
    yield call(make.tensor(3, 4), 0.1, 3, 255, 0, note="no grid")


def one(*value, dtype):
    return torch.tensor(value, dtype=dtype)


@sample("fake_quantize_tensor")
def fake_quantize_tensor(make):
    for x in inputs(make):
        yield call(x, one(0.1, dtype=torch.float32), one(3, dtype=torch.int32), -128, 127)
    yield call(make.tensor(3, 4), torch.tensor(0.1), torch.tensor(3.0), 0, 255)
    yield call(make.tensor(3, 4), torch.tensor(0.1, dtype=torch.float64), torch.tensor(300), 0, 255)
    yield call(make.tensor(3, 4), torch.tensor(0.1), one(3, 4, dtype=torch.int32), 0, 255, note="two zero points")


@sample("fake_quantize_enabled")
def fake_quantize_enabled(make):
    for x in inputs(make):
        yield call(x, one(0.1, dtype=torch.float32), one(3, dtype=torch.int32), one(1, dtype=torch.int64), -128, 127)
    for on in (one(0, dtype=torch.int64), torch.tensor(1.0), torch.tensor(0, dtype=torch.uint8)):
        yield call(make.tensor(3, 4), torch.tensor(0.1), torch.tensor(3), on, 0, 255)


@sample("fake_quantize_channel")
def fake_quantize_channel(make):
    for shape, axis in [((3, 4), 0), ((3, 4), 1), ((2, 3, 4, 5), 1), ((2, 0), 0), ((5,), 0)]:
        scale, zero = torch.rand(shape[axis], generator=make.generator) + 0.1, make.index(9, (shape[axis],),
                dtype=torch.int32)
        yield call(make.tensor(shape, special=len(shape) > 2), scale, zero, axis, -128, 127)
        yield call(make.tensor(shape), scale, zero + 0.5, axis, -128, 127)
    three, zeros = torch.rand(3) + 0.1, torch.zeros(3, dtype=torch.int32)
    yield call(make.tensor(3, 4), three, zeros.half(), 0, 0, 15)
    yield call(make.tensor(3, 4), three, zeros + 200, 0, 0, 15, note="zero point outside")
    yield call(make.tensor(3, 4), three, zeros.long(), 0, 0, 15, note="int64 zero point")
    yield call(make.tensor(3, 4), three.double(), zeros, 0, 0, 15, note="float64 scale")
    yield call(make.tensor(3, 4), three, zeros, 1, 0, 15, note="three scales for four channels")
    yield call(make.tensor(3, 4), three, zeros, -2, 0, 15, note="negative axis")
    yield call(make.tensor(3, 4), three, zeros, 2, 0, 15, note="no such axis")


@sample("fake_quantize_backward")
def fake_quantize_backward(make):
    for shape in SHAPES if make.is_float else SHAPES[:4]:
        yield call(make.tensor(shape), make.mask(*shape))
    yield call(make.tensor(3, 4), make.tensor(3, 4, dtype=torch.int32), note="no mask")
    yield call(make.tensor(3, 4), make.mask(4), note="sizes differ")


@sample("int_mm")
def int_mm(make):
    for m, k, n in [(3, 4, 5), (17, 32, 8), (0, 4, 5), (3, 0, 5), (3, 4, 0), (33, 70, 65)]:
        yield call(make.tensor(m, k, low=-128 if make.is_signed else 0, high=128),
                   make.tensor(k, n, dtype=torch.int8, low=-128, high=128))
    yield call(make.tensor(3, 4), make.tensor(5, 5, dtype=torch.int8), note="sizes differ")
    yield call(make.tensor(3), make.tensor(3, 5, dtype=torch.int8), note="a vector")
    yield call(make.tensor(3, 4), make.tensor(4, 5, dtype=torch.uint8), note="unsigned from the right")
