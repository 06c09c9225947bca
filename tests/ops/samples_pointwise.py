"""Samples of pointwise ops whose arguments need care: domains, masks, numbers that steer the op."""
import torch

from samples import PAIRS, SHAPES, binary, call, other_dtypes, sample, tensor_scalar, unary


def nonzero(make, shape, dtype=None):
    """Divisors: no zero among integers (both refuse that, but only one sample should)."""
    if (dtype or make.dtype) == torch.float64:  # far from 0: finite differences must not meet a step of the quotient
        return make.tensor(shape, dtype=dtype, low=0.5, high=3)
    t = make.tensor(shape, dtype=dtype)
    dtype = t.dtype
    if dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
        return t
    return torch.where(t == 0, torch.tensor(3, dtype=dtype), t)


def numbers_for(make):
    """Numbers of every kind, the ones that change the class of the result included."""
    return [2, 3, True, 1.5] + ([1.5 + 0.5j] if make.dtype.is_complex else [])


@sample("unary_rough")
def unary_rough(make):
    """NaN, infinities and zeros only where no derivative is taken: steps, and gradients that PyTorch gives at
    infinity."""
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,) and make.dtype != torch.float64))
    yield call(make.tensor(4, 1).expand(4, 3), note="expanded")


@sample("unary_low")
def unary_low(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,)))


@sample("unary_dense")
def unary_dense(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,)))
    yield call(make.tensor(4, 1).expand(4, 3), note="expanded")


@sample("add_tensors")
def add_tensors(make):
    yield from binary(make)
    for alpha in [2, 1, True] + ([0.375] if make.is_float else []) + ([0.5 - 2j] if make.dtype.is_complex else []):
        yield call(make.tensor(40, 30), make.tensor(30), alpha=alpha)
    yield call(make.tensor(3), make.tensor(3), alpha=0.5, note="fractional alpha")


@sample("add")
def add(make):
    yield from add_tensors(make)
    for number in numbers_for(make):
        yield call(make.tensor(2, 3), number, note=f"with {number!r}")


@sample("add_scalar")
def add_scalar(make):
    yield from tensor_scalar(make)
    for alpha in [2, True] + ([0.375] if make.is_float else []):
        yield call(make.tensor(3, 4), make.scalar(), alpha)


@sample("nonzero_binary")
def nonzero_binary(make):
    for a, b in PAIRS:
        yield call(make.tensor(a, special=a == (40, 30)), nonzero(make, b))
    yield call(make.tensor(6), torch.zeros(6).to(make.dtype), note="by zero", smooth=False)
    for other in other_dtypes(make.dtype):
        yield call(make.tensor(2, 3), nonzero(make, (3,), other), note=f"with {other}")
        yield call(make.tensor(2, 3), nonzero(make, (), other), note=f"with 0-d {other}")


@sample("div_mode")
def div_mode(make):
    for mode in (None, "trunc", "floor"):
        for a, b in PAIRS:
            yield call(make.tensor(a), nonzero(make, b), rounding_mode=mode)
        for other in other_dtypes(make.dtype):
            yield call(make.tensor(2, 3), nonzero(make, (3,), other), rounding_mode=mode)
        yield call(make.tensor(2, 3), torch.zeros(2, 3).to(make.dtype), rounding_mode=mode, note="by zero",
                   smooth=False)
    yield call(make.tensor(2), nonzero(make, (2,)), rounding_mode="up", note="no such mode")


@sample("div_scalar_mode")
def div_scalar_mode(make):
    for mode in (None, "trunc", "floor"):
        for number in numbers_for(make):
            yield call(make.tensor(3, 4), number, rounding_mode=mode)


@sample("number_tensor")
def number_tensor(make):
    for shape in SHAPES:
        yield call(make.scalar(positive=True), make.tensor(shape))
    for number in numbers_for(make):
        yield call(number, make.tensor(2, 3))


@sample("number_tensor_nonzero")
def number_tensor_nonzero(make):
    for shape in SHAPES:
        yield call(make.scalar(positive=True), nonzero(make, shape))
    yield call(7.5, nonzero(make, (5,)))


def small(make, shape, dtype=None):
    """Exponents: small, not negative for integers."""
    dtype = dtype or make.dtype
    if dtype == torch.bool:
        return make.tensor(shape, dtype=dtype)
    if not dtype.is_floating_point and not dtype.is_complex:
        return make.tensor(shape, dtype=dtype, low=0, high=5)
    return make.tensor(shape, dtype=dtype)


@sample("power")
def power(make):
    for a, b in PAIRS:
        yield call(make.tensor(a), small(make, b))
    for other in other_dtypes(make.dtype):
        yield call(make.tensor(2, 3), small(make, (3,), other))
        yield call(make.tensor(2, 3), small(make, (), other))
    if make.is_number and not make.is_float and not make.dtype.is_complex:
        yield call(make.tensor(40), make.tensor(40), note="negative exponents")


@sample("power_scalar")
def power_scalar(make):
    for e in [0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.7, True, 2.0, 0.0] + ([1 + 0.5j] if make.dtype.is_complex else []):
        yield call(make.tensor(40, special=True), e)
    for shape in SHAPES:
        yield call(make.tensor(shape), 2)


@sample("scalar_power")
def scalar_power(make):
    for base in [1, 2, 0, -2, 0.5, 1.0, True] + ([1 + 0.5j] if make.dtype.is_complex else []):
        yield call(base, small(make, (10,)))
    yield call(2, small(make, ()))
    yield call(2, small(make, (0, 3)))


@sample("round_decimals")
def round_decimals(make):
    for decimals in (0, 1, 3, -1):
        yield call(make.tensor(40, low=-30, high=30), decimals=decimals)


@sample("addcmul")
def addcmul(make):
    from samples import ternary
    yield from ternary(make)
    for value in [2, -1] + ([0.375] if make.is_float else []) + ([0.5j] if make.dtype.is_complex else []):
        yield call(make.tensor(30, 4), make.tensor(30, 4), make.tensor(4), value=value)
    yield call(make.tensor(3), make.tensor(3, dtype=torch.float64), make.tensor(3))


@sample("lerp_scalar")
def lerp_scalar(make):
    for weight in [0.3, 0.5, 0.9, -0.2, 1.5, 2]:
        yield call(make.tensor(30, 4), make.tensor(4), weight)
    yield call(make.tensor(3), make.tensor(3, dtype=torch.float64), 0.5,
               note="dtypes differ" if make.dtype != torch.float64 else "")


@sample("lerp_tensor")
def lerp_tensor(make):
    yield call(make.tensor(30, 4), make.tensor(4), make.tensor(30, 1))
    yield call(make.tensor(30, 4), make.tensor(30, 4), make.tensor(30, 4))
    yield call(make.tensor(()), make.tensor(()), make.tensor(()))
    yield call(make.tensor(0, 3), make.tensor(3), make.tensor(1))


@sample("ldexp")
def ldexp(make):
    yield call(make.tensor(5), torch.tensor([0, 1, 2, 3, 4]))
    yield call(make.tensor(3, 5), torch.tensor([0, 1, 2, 3, 4]))
    yield call(make.tensor(()), torch.tensor(2))


@sample("binary_same")
def binary_same(make):
    for a, b in PAIRS:
        yield call(make.tensor(a), make.tensor(b))
    yield call(torch.zeros(6).to(make.dtype), make.tensor(6), smooth=False)
    yield call(make.tensor(3), make.tensor(3, dtype=torch.float64), note="other dtype" if make.dtype != torch.float64
               else "")


@sample("nan_to_num")
def nan_to_num(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,)))
    yield call(make.tensor(20, special=True), nan=2.0)
    yield call(make.tensor(20, special=True), posinf=3.0, neginf=-4.0)
    yield call(make.tensor(20, special=True), 1.0, 2.0, 3.0)


@sample("isclose")
def isclose(make):
    x = make.tensor(20, special=True)
    near = x if make.dtype == torch.bool else (x * 1.00001).to(make.dtype)
    for kwargs in ({}, {"equal_nan": True}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 0.1}, {"atol": 2.0}, {"rtol": -1.0}):
        yield call(x, near, **kwargs)
        yield call(x, make.tensor(20), **kwargs)
    yield call(make.tensor(3, 4), make.tensor(4))
    yield call(make.tensor(3), make.tensor(3, dtype=torch.float64), note="other dtype" if make.dtype != torch.float64
               else "")


@sample("shift")
def shift(make):
    for shape in [(), (7,), (3, 4), (0,)]:
        yield call(make.tensor(shape), make.tensor(shape, low=0, high=5) if make.is_number else make.tensor(shape))
    if make.is_number and not make.is_float and not make.dtype.is_complex:
        yield call(make.tensor(5), torch.tensor([0, 7, 8, 63, 100]).to(make.dtype), note="out of range")


@sample("shift_scalar")
def shift_scalar(make):
    yield call(make.tensor(3, 4), 2)
    yield call(make.tensor(7), 0)


@sample("where")
def where(make):
    for shape in [(), (7,), (3, 4), (0, 3), (600,)]:
        yield call(make.mask(*shape), make.tensor(shape, special=shape == (600,)), make.tensor(shape))
    yield call(make.mask(3, 1), make.tensor(4), make.tensor(2, 1, 1))
    for other in other_dtypes(make.dtype):
        yield call(make.mask(3), make.tensor(3), make.tensor(3, dtype=other))
        yield call(make.mask(3), make.tensor(3), make.tensor((), dtype=other))
    yield call(make.tensor(3), make.tensor(3), make.tensor(3), note="condition of the dtype itself")


@sample("where_scalar_self")
def where_scalar_self(make):
    for number in numbers_for(make):
        yield call(make.mask(3, 1), number, make.tensor(4))


@sample("where_scalar_other")
def where_scalar_other(make):
    for number in numbers_for(make):
        yield call(make.mask(3, 1), make.tensor(4), number)


@sample("where_scalar")
def where_scalar(make):
    for a in (1, 1.5, True):
        for b in (2, 0.5, False):
            yield call(make.mask(3, 2), a, b)


@sample("masked_fill_scalar")
def masked_fill_scalar(make):
    for shape in [(), (7,), (3, 4), (0, 3), (600,)]:
        yield call(make.tensor(shape), make.mask(*shape), make.scalar())
    yield call(make.tensor(3, 4), make.mask(4), 0)
    yield call(make.tensor(4), make.mask(3, 4), 0)
    yield call(make.tensor(4), make.mask(4), 1.5)
    yield call(make.tensor(4), make.mask(4), 1j)
    yield call(make.tensor(4), make.mask(4), 300)
    yield call(make.tensor(4), make.tensor(4, dtype=torch.uint8), 1)
    yield call(make.tensor(4), make.mask(4), float("-inf"))


@sample("masked_fill_tensor")
def masked_fill_tensor(make):
    yield call(make.tensor(3, 4), make.mask(4), make.tensor(()))
    yield call(make.tensor(4), make.mask(4), torch.tensor(1.5))
    yield call(make.tensor(4), make.mask(4), make.tensor(4), note="value with dimensions")


@sample("clamp")
def clamp(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,)), 0, 1)
    for lo, hi in [(None, 1), (0, None), (None, None), (0.5, 2), (2, 1), (-1, 0.25), (float("nan"), None), (300, None),
                   (None, -300)]:
        yield call(make.tensor(40, special=True), lo, hi)


@sample("clamp_tensor")
def clamp_tensor(make):
    yield call(make.tensor(3, 4), make.tensor(4), make.tensor(3, 1))
    yield call(make.tensor(40, special=True), make.tensor(40), make.tensor(40))
    yield call(make.tensor(40, special=True), make.tensor(40), None)
    yield call(make.tensor(40), None, make.tensor(()))
    yield call(make.tensor(3), None, None)
    yield call(make.tensor(3), make.tensor(3, dtype=torch.float64), None)


@sample("unit_interval")
def unit_interval(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, low=0, high=1))


@sample("unit_interval_eps")
def unit_interval_eps(make):
    for eps in (None, 0.1):
        for shape in SHAPES:
            yield call(make.tensor(shape, low=0, high=1), eps)
        yield call(make.tensor(20, special=True), eps)


@sample("gelu")
def gelu(make):
    for approximate in ("none", "tanh"):
        for shape in SHAPES:
            yield call(make.tensor(shape), approximate=approximate)
    yield call(make.tensor(3), approximate="x", note="no such approximation")


@sample("hardtanh")
def hardtanh(make):
    yield from unary(make)
    for lo, hi in [(0, 6), (-2, 0.5), (1, 2), (-1, 3)]:
        yield call(make.tensor(40, special=True), lo, hi)


@sample("unary_signed")
def unary_signed(make):
    yield from unary(make)
    yield call(make.tensor(40, special=True), 0.2)
    yield call(make.tensor(40), -1.5)


@sample("elu")
def elu(make):
    yield from unary(make)
    yield call(make.tensor(40), 0.7, 1.3, 0.5)
    yield call(make.tensor(40), 2)


@sample("celu")
def celu(make):
    yield from unary(make)
    for alpha in (0.5, 2, -1.5, 0):
        yield call(make.tensor(40, special=True), alpha)


@sample("softplus")
def softplus(make):
    yield from unary(make)
    yield call(make.tensor(40, low=-5, high=5), 2, 3)
    yield call(make.tensor(40, low=-50, high=50), 0.5)


@sample("shrink")
def shrink(make):
    yield from unary(make)
    yield call(make.tensor(40, special=True), 0.1)
    yield call(make.tensor(40), 1)


@sample("threshold")
def threshold(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,)), 0, 2)
    yield call(make.tensor(40), 0.1, -3.5)
    yield call(make.tensor(40), 1, 300)


@sample("prelu")
def prelu(make):
    yield call(make.tensor(2, 3, 4), make.tensor(3))
    yield call(make.tensor(2, 3), make.tensor(1))
    yield call(make.tensor(5), make.tensor(1))
    yield call(make.tensor(()), make.tensor(1))


def backward(name, *extra_sets):
    @sample(name)
    def generator(make):
        for extra in extra_sets:
            for a, b in [((), ()), ((7,), (7,)), ((3, 4), (3, 4)), ((600,), (600,)), ((0, 3), (0, 3))]:
                yield call(make.tensor(a), make.tensor(b), *extra)
            yield call(make.tensor(40, special=True), make.tensor(40), *extra, smooth=False)
            yield call(make.tensor(40), make.tensor(40, special=True), *extra, smooth=False)
    return generator


@sample("backward3")
def backward3(make):
    for shape in [(), (7,), (3, 4), (600,), (0, 3)]:
        x = make.tensor(shape)
        yield call(make.tensor(shape), x, (-x.abs()).exp().to(make.dtype) if make.is_float else x)


@sample("ternary_same")
def ternary_same(make):
    for shape in [(), (7,), (3, 4), (600,), (0, 3)]:
        yield call(make.tensor(shape), make.tensor(shape), make.tensor(shape))
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(4))


@sample("airy")
def airy(make):
    for shape in SHAPES:  # below -2 PyTorch is off by 1e-6; test_special.py asks the series instead
        yield call(make.tensor(shape, low=-2, high=9))


backward("backward", ())
backward("threshold_backward", (0,), (0.5,))
backward("hardtanh_backward", (-1, 1), (0, 6), (-0.5, 2))
backward("leaky_relu_backward", (0.01, False), (0.2, True))
backward("softplus_backward", (1, 20), (2, 0.5))
backward("shrink_backward", (0.5,), (0.1,))


@sample("gelu_backward")
def gelu_backward(make):
    for approximate in ("none", "tanh"):
        for shape in SHAPES:
            yield call(make.tensor(shape), make.tensor(shape), approximate=approximate)


@sample("elu_backward")
def elu_backward(make):
    for alpha, scale, input_scale, is_result in [(1, 1, 1, False), (1.5, 0.7, 2, False), (1.5, 0.7, 2, True),
                                                 (0.5, 1, 1, True)]:
        for shape in [(), (7,), (3, 4), (0,)]:
            yield call(make.tensor(shape), alpha, scale, input_scale, is_result, make.tensor(shape))


@sample("logit_backward")
def logit_backward(make):
    for eps in (None, 0.1):
        yield call(make.tensor(40), make.tensor(40, low=0, high=1), eps)
        yield call(make.tensor(40), make.tensor(40), eps)


@sample("dropout_backward")
def dropout_backward(make):
    yield call(make.tensor(3, 4), make.mask(3, 4), 2.0)
    yield call(make.tensor(()), make.mask(), 1.25)


@sample("positive")
def positive(make):
    for shape in SHAPES:
        yield call(make.tensor(shape, low=1, high=9) if make.is_number else make.tensor(shape))
    yield call(make.tensor(40, special=True))


@sample("polygamma")
def polygamma(make):
    for n in (0, 1, 2, 3, 5):
        yield call(n, make.tensor(20, low=1, high=9) if make.is_number else make.tensor(20))
    yield call(1, make.tensor(()))
    yield call(2, make.tensor(0, 3))
    yield call(-1, make.tensor(3), note="negative order")


@sample("mvlgamma")
def mvlgamma(make):
    for p in (1, 2, 3):
        yield call(make.tensor(3, 4, low=3, high=9), p)


@sample("positive_binary")
def positive_binary(make):
    draw = lambda *shape: make.tensor(*shape, low=1, high=9) if make.is_number else make.tensor(*shape)
    yield call(draw(20), draw(20))
    yield call(draw(3, 4), draw(4))
    yield call(draw(()), draw(()))
    yield call(make.tensor(20), draw(20), note="outside the domain")


@sample("zeta")
def zeta(make):
    draw = lambda *shape: make.tensor(*shape, low=2, high=9) if make.is_number else make.tensor(*shape)
    yield call(draw(20), draw(20))
    yield call(draw(3, 4), draw(4))
    yield call(make.tensor(20), make.tensor(20), note="outside the domain")


@sample("zeta_scalar")
def zeta_scalar(make):
    yield call(make.tensor(20, low=2, high=9) if make.is_number else make.tensor(20), 3)
    yield call(make.tensor(20, low=2, high=9) if make.is_number else make.tensor(20), 1.5)


@sample("polynomial")
def polynomial(make):
    degrees = torch.tensor([0, 1, 2, 3, 6, 7, 8, 9, 12, -1 if make.is_signed else 0])
    yield call(make.tensor(10, low=-1 if make.is_signed else 0, high=2) if make.is_number else make.tensor(10),
               degrees.to(make.dtype))
    yield call(make.tensor(4, 10), degrees)
    yield call(make.tensor(()), torch.tensor(3))


@sample("polynomial_x")
def polynomial_x(make):
    yield call(0.3, torch.tensor([0, 1, 2, 3, 6, 7, 8, 9, 12, 0]).to(make.dtype))
    yield call(2, make.tensor(3))


@sample("polynomial_n")
def polynomial_n(make):
    for n in (0, 1, 4, 9):
        yield call(make.tensor(3, 4), n)


@sample("glu")
def glu(make):
    for shape, dim in [((4, 6), -1), ((4, 6), 0), ((6,), 0), ((2, 4, 3, 3), 1), ((0, 4), 1), ((4, 0), 1), ((300,), -1)]:
        yield call(make.tensor(shape), dim)
    yield call(make.tensor(4, 6))
    yield call(make.tensor(4, 5), note="odd")
    yield call(make.tensor(()), note="no dimensions")
    yield call(make.tensor(4, 6), 2, note="dim out of range")


@sample("glu_backward")
def glu_backward(make):
    for shape, dim in [((4, 6), -1), ((4, 6), 0), ((6,), 0), ((2, 4, 3, 3), 1), ((0, 4), 1)]:
        half = list(shape)
        half[dim] //= 2
        yield call(make.tensor(half), make.tensor(shape), dim)
    yield call(make.tensor(2), make.tensor(5), 0, note="odd")
