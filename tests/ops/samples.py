"""Arguments to try each op with. A row names its generator in `.sample`; rows without one get `from_schema`.

A generator is a function of a `Make` that yields calls; it is registered under its name and written with torch tensors:

    @sample("gather")
    def gather(make):
        yield call(make.tensor(3, 4), 1, make.index(4, (3, 2)))
        yield call(make.tensor(5), 0, make.index(5, (2,)))

Generators yield plain contiguous tensors; the harness adds layouts (transposed, strided, offset) by itself. Values come
from the seed of `make`, so a sample is the same every time. Families keep their generators in samples_FAMILY.py.
"""
import dataclasses
import importlib
import itertools
import pathlib
import random

import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex64, torch.complex128]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
# PyTorch computes little with them
RARE = {torch.uint16: torch.uint8, torch.uint32: torch.uint8, torch.uint64: torch.uint8,
        torch.complex32: torch.complex64}
DTYPES = FLOATS + COMPLEX + INTS + [torch.bool] + list(RARE)
GENERATORS = {}


@dataclasses.dataclass
class Call:
    args: tuple
    kwargs: dict
    note: str = ""
    layouts: bool = True     # try it with other strides, too
    ties: int | None = None  # selects elements along this dimension; which of equal ones is left open
    smooth: bool = True      # has a derivative there, and one that PyTorch has, too
    # results have a choice of their own (phases of vectors): what of them is the same for every choice
    settled: object = None


def call(*args, note="", layouts=True, ties=None, smooth=True, settled=None, **kwargs):
    return Call(args, kwargs, note, layouts, ties, smooth, settled)


def sample(name):
    def register(generator):
        assert name not in GENERATORS, f"two generators are named {name}"
        GENERATORS[name] = generator
        return generator
    return register


class Make:
    """Makes tensors of one dtype with seeded values."""

    def __init__(self, dtype, seed=0, op=None, schema=None):
        self.dtype, self.op, self.schema = dtype, op, schema
        self.generator = torch.Generator().manual_seed(seed)
        self.random = random.Random(seed)

    def tensor(self, *shape, dtype=None, low=None, high=None, special=False):
        """Floats: normal, or uniform in [low, high). Integers: small, both signs, or in [low, high)."""
        dtype = dtype or self.dtype
        shape = tuple(shape[0]) if shape and isinstance(shape[0], (tuple, list, torch.Size)) else shape
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self.generator).bool()
        if not dtype.is_floating_point and not dtype.is_complex:
            small = torch.iinfo(dtype).min < 0
            t = torch.randint(int(low if low is not None else (-9 if small else 0)),
                              int(high if high is not None else 10), shape, generator=self.generator)
            if special and t.numel() >= 6 and dtype in RARE and "special_" not in self.schema.name:
                t.view(-1)[:4] = torch.tensor([-1, -2, 1 << 15, 1 << 31])  # cut to the dtype: its largest numbers
            return t.to(dtype)

        def draw():
            if low is None and high is None:
                return torch.randn(shape, generator=self.generator, dtype=torch.float64)
            lo, hi = (low if low is not None else -1.0), (high if high is not None else 1.0)
            return torch.rand(shape, generator=self.generator, dtype=torch.float64) * (hi - lo) + lo
        t = torch.complex(draw(), draw()) if dtype.is_complex else draw()
        t = t.to(dtype)
        if special and t.numel() >= 6 and not dtype.is_complex:
            flat = t.view(-1)
            flat[0], flat[1], flat[2], flat[3], flat[4] = float("nan"), float("inf"), float("-inf"), 0.0, -0.0
        return t

    def index(self, n, shape, dtype=torch.int64, negative=False):
        return torch.randint(-n if negative else 0, n, shape, generator=self.generator).to(dtype)

    def mask(self, *shape):
        return self.tensor(*shape, dtype=torch.bool)

    @property
    def is_float(self):
        return self.dtype.is_floating_point

    @property
    def is_signed(self):
        return self.dtype.is_signed

    @property
    def is_number(self):
        return self.dtype != torch.bool

    def scalar(self, positive=False):
        """A Python number that suits the dtype."""
        if self.dtype == torch.bool:
            return True
        if self.dtype.is_complex:
            return 1.5 + 0.5j
        if self.dtype.is_floating_point:
            return 1.5
        return 2 if positive or not torch.iinfo(self.dtype).min else -2


SHAPES = [(), (7,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (1, 1), (600,)]
PAIRS = [((), ()), ((5,), (5,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((), (3,)), ((0, 3), (3,)),
         ((1,), (0,)),
         ((2, 1, 2, 1), (3, 1, 4)), ((40, 30), (40, 30))]


def op_scalars(make, schema, skip):
    """Values for the non-tensor parameters without default, by type."""
    kwargs = {}
    for argument in schema.arguments[skip:]:
        if argument.has_default_value() or "Tensor" in str(argument.type):
            continue
        kind = str(argument.type)
        if kind == "number":
            kwargs[argument.name] = make.scalar(positive=True)
        elif kind == "int":
            kwargs[argument.name] = 0
        elif kind == "float":
            kwargs[argument.name] = 0.5
        elif kind == "bool":
            kwargs[argument.name] = False
    return kwargs


def tensor_parameters(schema):
    count = 0
    for argument in schema.arguments:
        if str(argument.type) != "Tensor":
            break
        count += 1
    return count


@sample("unary")
def unary(make):
    rest = op_scalars(make, make.schema, 1)
    for shape in SHAPES:
        yield call(make.tensor(shape, special=shape == (600,)), **rest)
    yield call(make.tensor(4, 1).expand(4, 3), note="expanded", **rest)


@sample("binary")
def binary(make):
    rest = op_scalars(make, make.schema, 2)
    for a, b in PAIRS:
        yield call(make.tensor(a, special=a == (40, 30)), make.tensor(b), **rest)
    yield call(make.tensor(3, 1).expand(3, 4), make.tensor(4), note="expanded", **rest)
    for other in other_dtypes(make.dtype):
        yield call(make.tensor(2, 3), make.tensor(3, dtype=other), note=f"with {other}", **rest)
        yield call(make.tensor(2, 3), make.tensor((), dtype=other), note=f"with 0-d {other}", **rest)
        yield call(make.tensor(()), make.tensor(2, 3, dtype=other), note=f"0-d with {other}", **rest)


@sample("ternary")
def ternary(make):
    rest = op_scalars(make, make.schema, 3)
    yield call(make.tensor(()), make.tensor(()), make.tensor(()), **rest)
    yield call(make.tensor(3, 4), make.tensor(3, 4), make.tensor(3, 4), **rest)
    yield call(make.tensor(3, 4), make.tensor(4), make.tensor(3, 1), **rest)
    yield call(make.tensor(0, 4), make.tensor(4), make.tensor(0, 1), **rest)
    yield call(make.tensor(600), make.tensor(600), make.tensor(600), **rest)


@sample("tensor_scalar")
def tensor_scalar(make):
    for shape in SHAPES:
        yield call(make.tensor(shape), make.scalar(positive=True))
    numbers = {True: [2, 1.5, True], False: [2, True]}[make.dtype.is_floating_point or make.dtype.is_complex]
    for number in numbers + ([1.5] if not make.is_float else []):
        yield call(make.tensor(2, 3), number, note=f"with {number!r}")


def other_dtypes(dtype):
    return [d for d in (torch.float32, torch.int64, torch.float16, torch.bool, torch.uint8, torch.complex64,
                        torch.float64) if d != dtype]


@sample("from_schema")
def from_schema(make):
    """Rows that name no generator: pointwise-looking schemas only; others must name one."""
    kinds = [str(a.type) for a in make.schema.arguments]
    tensors = tensor_parameters(make.schema)
    if tensors == 1 and len(kinds) > 1 and kinds[1] == "number" and not make.schema.arguments[1].has_default_value():
        yield from tensor_scalar(make)
    elif tensors in (1, 2, 3):
        yield from (unary, binary, ternary)[tensors - 1](make)


def load_families():
    for path in sorted(pathlib.Path(__file__).parent.glob("samples_*.py")):
        importlib.import_module(path.stem)


# ---- layouts ----

def transposed(t):
    """The same values with the last two dimensions swapped in memory."""
    if t.dim() < 2:
        return t
    out = torch.empty(0, dtype=t.dtype)
    out = t.transpose(-1, -2).contiguous().transpose(-1, -2)
    return out


def strided(t):
    """The same values, every second element of a larger tensor, from an offset on."""
    if not t.dim():
        return torch.stack([t, t, t])[1]
    size = list(t.shape)
    size[-1] = size[-1] * 2 + 1
    wide = torch.zeros(size, dtype=t.dtype)
    view = wide[..., 1::2]
    view.copy_(t)
    return view


def channels_last(t):
    return (t.contiguous(memory_format=torch.channels_last) if t.dim() == 4
            else t.contiguous(memory_format=torch.channels_last_3d) if t.dim() == 5 else transposed(t))


LAYOUTS = {"contiguous": lambda t: t, "transposed": transposed, "strided": strided, "channels_last": channels_last}


def map_tensors(value, f):
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(v, f) for v in value)
    return value


def with_layout(c, name):
    f = LAYOUTS[name]
    return dataclasses.replace(c, args=tuple(map_tensors(a, f) for a in c.args),
                               kwargs={k: map_tensors(v, f) for k, v in c.kwargs.items()},
                               note=f"{c.note} {name}".strip())


def replaced(value, old, new):
    """With tensors and dtypes of one kind turned into another."""
    if isinstance(value, torch.Tensor):
        return value.to(new) if value.dtype == old else value
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(v, old, new) for v in value)
    return new if value is old else value


def special_calls_of(row, op, dtype):
    """NaN, infinities and the like in every combination, for pointwise rows."""
    import special_values
    return special_values.special_calls(Make(dtype, 0, op, op._schema)) if "pointwise" in row["tags"] else ()


def plain_calls(row, op, dtype, seed=0):
    """What the generator yields, and special values. Where PyTorch cannot compute the arguments in a rare dtype, they
    are computed in another."""
    generator = GENERATORS[row["sample"] or "from_schema"]
    try:
        return [*generator(Make(dtype, seed, op, op._schema)), *special_calls_of(row, op, dtype)]
    except (RuntimeError, TypeError, KeyError):
        if dtype not in RARE:
            raise
    calls = generator(Make(RARE[dtype], seed, op, op._schema))
    turned = lambda value: replaced(value, RARE[dtype], dtype)
    return [dataclasses.replace(c, args=turned(c.args), kwargs={k: turned(v) for k, v in c.kwargs.items()})
            for c in calls]


def calls_for(row, op, dtype, seed=0):
    """All calls of one op for one dtype: (call, layout)."""
    for c in plain_calls(row, op, dtype, seed):
        tried = []
        for name in LAYOUTS if c.layouts else ("contiguous",):
            laid = c if name == "contiguous" else with_layout(c, name)
            strides = [t.stride() for t in flat(laid)]
            if strides not in tried:
                tried.append(strides)
                yield laid


def flat(c):
    out = []
    for value in itertools.chain(c.args, c.kwargs.values()):
        map_tensors(value, out.append)
    return out
