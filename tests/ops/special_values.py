"""Calls of pointwise ops whose arguments are special: NaN, infinities, zeros of both signs, the largest and the
smallest numbers, and every pair (or triple) of them. Every row tagged `pointwise` gets them beside the calls of its
generator, so that a formula which is right for ordinary numbers and wrong where two special ones meet (`inf - inf`)
does not pass.

They say nothing about derivatives (`smooth=False`). Lists have 16 or 8 numbers, so that PyTorch's vector loops leave no
rest, for which another loop may give another answer at the same place of every layout.
"""
import itertools
import math

import torch
from samples import call, op_scalars

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32,
         torch.int64, torch.bool, torch.complex64, torch.complex128)
ORDERS = [0, 1, 2, 3, 4, 5, 8, 9]  # of polynomials, in the parameter `n`: PyTorch's kernels take as many steps
MASKS = ("condition", "mask")
MODES = {"rounding_mode": (None, "trunc", "floor")}  # parameters without default that choose what is computed
BOUND = {"aten::log_sigmoid_backward"}  # `buffer` follows from `self`: they are not free to be combined
# PyTorch's process ends at the lowest integer by -1, and both refuse integers by 0: test_special_values.py has these.
# Places where PyTorch's answer is wrong in f64, too: the same test has ours, docs/differences.md the list.
WRONG = {"aten::igamma": lambda name, x: name == "self" and 0 < x < torch.finfo(torch.float64).tiny,
         "aten::special_zeta": lambda name, x: name == "self" and x > 1e4}
DIVIDING = ("div", "floor_divide", "fmod", "remainder")
OVERFLOWING = ("gcd", "lcm")  # a sign that is lost, as the compiler likes it


def floats(dtype, few):
    """Special numbers of a dtype, and some ordinary ones for them to meet."""
    info = torch.finfo(dtype)
    chosen = [math.nan, math.inf, -math.inf, 0.0, -0.0, info.max, info.tiny, -1.5]
    return chosen if few else [*chosen, -info.max, info.tiny * info.eps, info.eps, 1.0, -1.0, 0.5, 2.0, -3.0]


PARTS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 0.5)
CHOSEN = tuple(complex(*parts) for parts in (
    (0.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0), (1.0, 0.0), (-1.5, -0.0), (0.0, 2.0), (0.5, -1.5),
    (math.inf, 0.0), (-math.inf, -0.0), (0.0, math.inf), (1.0, -math.inf), (math.inf, -math.inf), (math.nan, 0.0),
    (math.inf, math.nan), (math.nan, math.nan)))


def complexes(alone, few):
    """Parts of every kind: all pairs of them where they meet no other number."""
    return [complex(*parts) for parts in itertools.product(PARTS, PARTS)] if alone else CHOSEN[::2] if few else CHOSEN


def integers(dtype, name, op_name):
    """The ends of the dtype, and small numbers; no 0 to divide by."""
    info, stem = torch.iinfo(dtype), op_name.removeprefix("aten::")
    if stem in OVERFLOWING:
        return small_integers(dtype)
    chosen = [info.min, 0, 1, 2, 7, info.max - 1, info.max, *([info.min + 1, -1, -2] if info.min else [3, 4, 5])]
    if stem in DIVIDING:
        chosen = [n for n in chosen if n != info.min or not n]
        chosen = [n for n in chosen if n or name == "self"]
    return [*chosen, 9][:8]


def small_integers(dtype):
    """Where integers become floats: the ends of wide dtypes are rounded on the way."""
    return [0, 1, 2, 5, 50, -1, -2, -50] if torch.iinfo(dtype).min else [0, 1, 2, 3, 5, 8, 50, 100]


def becomes_float(make, kinds):
    """Is an integer argument computed as a float?"""
    ones = {name: torch.ones(1).to(make.dtype) if kind == "Tensor" else 1
            for name, kind in kinds.items() if kind in ("Tensor", "number")}
    modes = {name: None for name in MODES if name in kinds}
    try:
        made = make.op(**{**op_scalars(make, make.schema, 0), **ones, **modes})
    except (RuntimeError, TypeError, IndexError, ValueError):
        return False
    return isinstance(made, torch.Tensor) and made.dtype.is_floating_point


def combined(dtype, named):
    """Tensors whose elements at one place run through all combinations of the values."""
    rows, first = list(itertools.product(*named.values())), len(next(iter(named.values())))
    kinds = [torch.bool if name in MASKS else dtype for name in named]
    return {name: torch.tensor([row[i] for row in rows], dtype=kind).view(first, -1)
            for i, (name, kind) in enumerate(zip(named, kinds))}


def special_calls(make):
    """Tensors of every combination. A number that is one of two operands is special, too: a call for each."""
    schema, dtype = make.schema, make.dtype
    if dtype not in KINDS or schema.name in BOUND:
        return
    kinds = {a.name: str(a.type) for a in schema.arguments if not a.has_default_value()}
    operands = [name for name, kind in kinds.items() if kind in ("Tensor", "number")]
    few, truth, real = len(operands) > 2, dtype == torch.bool, dtype.is_floating_point
    small = not truth and not real and not dtype.is_complex and becomes_float(make, kinds)

    def numbers(name):
        if name in MASKS or truth:
            return [False, True]
        if name == "n":
            return ORDERS
        if dtype.is_complex:
            return complexes(len(operands) == 1, few)
        chosen = floats(dtype, few) if real else small_integers(dtype) if small else integers(dtype, name, schema.name)
        wrong = WRONG.get(schema.name, lambda name, x: "n" in kinds and x != x)  # polynomials: memory nobody has set
        return [3.0 if wrong(name, number) else number for number in chosen]

    named = {name: numbers(name) for name in operands if kinds[name] == "Tensor"}
    loose = {} if few else {name: numbers(name) for name in operands if kinds[name] == "number"}
    modes = {name: values for name, values in MODES.items() if name in kinds}
    if not named or (truth and loose):
        return
    for chosen in itertools.product(*loose.values(), *modes.values()):
        picked = dict(zip([*loose, *modes], chosen))
        values = {**op_scalars(make, schema, 0), **combined(dtype, named), **picked}
        note = " ".join(["special", *(f"{name}={value}" for name, value in picked.items())])
        args = [values.pop(a.name) for a in schema.arguments if not a.kwarg_only and a.name in values]
        yield call(*args, **values, note=note, smooth=False)
