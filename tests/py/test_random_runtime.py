"""The runtime's random kernels against PyTorch: same seed, same numbers, same generator state afterwards.

The kernels are compiled into a small shared library and called through ctypes, so that nothing above src/runtime takes
part. Every check compares all bytes of the results and all 5056 bytes of the generator state.
"""
import ctypes
import itertools
import math
import os
import pathlib
import random
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="compares with PyTorch; tests/unit/test_random.c has recorded numbers")
if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
    pytest.skip("PyTorch's kernels for this machine round twice where its AVX2 ones (and ours) round once: see "
                "docs/random.md",
                allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = """rt_ctx rt_recycle rt_pool rt_process rt_view rt_copy rt_convert rt_walk rt_select rt_random
             rt_box_muller rt_box_muller_avx2 k_random k_dropout k_multinomial k_counts""".split()
MAX_RANK = 16
DTYPES = """uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16
            uint16 uint32 uint64""".split()  # in the order of rt.h
NONE, VIEW, VIEWS, INT, FLOAT, COMPLEX, INTS, FLOATS, STR, GENERATOR = range(10)
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
FLOATING = [F32, F64, F16, BF16]
SIZES = [0, 1, 2, 15, 16, 17, 31, 100, 512, 513, 1000, 100_000]


class View(ctypes.Structure):
    _fields_ = [("p", ctypes.c_void_p), ("size", ctypes.c_int64 * MAX_RANK), ("stride", ctypes.c_int64 * MAX_RANK),
                ("rank", ctypes.c_int32), ("dtype", ctypes.c_int32)]


class Value(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("f", ctypes.c_double), ("p", ctypes.c_void_p)]


class Arg(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("n", ctypes.c_uint32), ("u", Value)]


class Call(ctypes.Structure):
    _fields_ = [("arg", ctypes.POINTER(Arg)), ("out", ctypes.POINTER(View)), ("nargs", ctypes.c_int32),
                ("nout", ctypes.c_int32), ("phase", ctypes.c_int32), ("count", ctypes.c_void_p),
                ("result", ctypes.c_void_p)]


class Context(ctypes.Structure):
    _fields_ = [("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p), ("user", ctypes.c_void_p),
                ("pool", ctypes.c_void_p), ("error", ctypes.c_void_p), ("error_size", ctypes.c_size_t)]


class KernelError(Exception):
    pass


def view_of(t):
    v = View(p=t.data_ptr(), rank=t.dim(), dtype=DTYPES.index(str(t.dtype).removeprefix("torch.")))
    for d in range(t.dim()):
        v.size[d], v.stride[d] = t.size(d), t.stride(d)
    return v


class Runtime:
    """Our kernels with one generator."""

    def __init__(self, lib):
        self.lib = lib
        self.error = ctypes.create_string_buffer(1024)
        self.ctx = lib.rt_ctx_plain(None, self.error, 1024)
        self.memory = ctypes.create_string_buffer(8192)  # larger than rt_generator
        lib.rt_generator_init(self.memory, 0)

    def seed(self, seed):
        self.lib.rt_generator_manual_seed(self.memory, seed & (2**64 - 1))

    def state(self):
        out = ctypes.create_string_buffer(5056)
        self.lib.rt_generator_get_state(self.memory, out)
        return out.raw

    def set_state(self, state):
        if self.lib.rt_generator_set_state(ctypes.byref(self.ctx), self.memory, state, len(state)):
            raise KernelError(self.error.value.decode())

    def call(self, name, outs, *args):
        """Runs rt_k_NAME with these arguments and the generator last."""
        outs = [outs] if isinstance(outs, torch.Tensor) else outs
        keep, list_ = [], (Arg * (len(args) + 1))()
        for slot, value in zip(list_, args):
            if value is None:
                slot.kind = NONE
            elif isinstance(value, torch.Tensor):
                keep.append(view_of(value))
                slot.kind, slot.u.p = VIEW, ctypes.addressof(keep[-1])
            elif isinstance(value, (bool, int)):
                slot.kind, slot.u.i = INT, value
            else:
                slot.kind, slot.u.f = FLOAT, value
        list_[len(args)].kind, list_[len(args)].u.p = GENERATOR, ctypes.addressof(self.memory)
        views = (View * len(outs))(*[view_of(t) for t in outs])
        call = Call(arg=list_, out=views, nargs=len(args) + 1, nout=len(outs))
        if getattr(self.lib, "rt_k_" + name)(ctypes.byref(self.ctx), ctypes.byref(call)):
            raise KernelError(self.error.value.decode())
        return outs[0] if len(outs) == 1 else outs


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random_runtime")
    flags = ["-std=gnu11", "-O2", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
             f"-I{ROOT}/src", f"-I{ROOT}/include"]
    objects = []
    for name in SOURCES:
        objects.append(str(folder / f"{name}.o"))
        wide = ["-mavx2", "-mfma", "-mf16c"] if name.endswith("_avx2") else []
        subprocess.run([os.environ.get("CC", "cc"), *flags, *wide, "-c", f"{ROOT}/src/runtime/{name}.c", "-o",
                        objects[-1]], check=True)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", *objects, "-o", str(folder / "random.so"), "-lm",
                    "-pthread"], check=True)
    lib = ctypes.CDLL(str(folder / "random.so"))
    lib.rt_ctx_plain.restype = Context
    lib.rt_ctx_plain.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    lib.rt_generator_init.argtypes = lib.rt_generator_manual_seed.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    lib.rt_generator_get_state.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.rt_generator_set_state.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    for name in ("random32", "random64", "initial_seed"):
        getattr(lib, "rt_generator_" + name).argtypes = [ctypes.c_void_p]
    lib.rt_generator_random32.restype = ctypes.c_uint32
    lib.rt_generator_random64.restype = lib.rt_generator_initial_seed.restype = ctypes.c_uint64
    return lib


@pytest.fixture
def rt(library):
    return Runtime(library)


def seed_both(rt, seed):
    torch.manual_seed(seed)
    rt.seed(seed)


def same(ours, theirs):
    """Equal to the last bit, but for which NaN a NaN is."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    a, b = (t.detach().contiguous().reshape(-1).clone() for t in (ours, theirs))
    for t in (a, b):
        part = torch.view_as_real(t) if t.is_complex() else t
        if part.is_floating_point():
            part[part != part] = math.nan
    differ = (a.view(torch.uint8) != b.view(torch.uint8)).view(a.numel(),
            a.element_size()).any(1).nonzero().flatten().tolist() if a.numel() else []
    assert not differ, (f"{len(differ)} of {a.numel()} differ, first [{differ[0]}]: {a[differ[0]].item()!r}, PyTorch "
                        f"has {b[differ[0]].item()!r}")


def same_state(rt):
    assert rt.state() == torch.get_rng_state().numpy().tobytes(), "generator states differ"


def filled(rt, kernel, method, like, *args):
    """Fills two tensors laid out like `like`, compares them and the states."""
    ours, theirs = torch.zeros_like(like), torch.zeros_like(like)
    getattr(theirs, method)(*args)
    rt.call(kernel, ours, ours, *args)
    same(ours, theirs)
    same_state(rt)


# What is filled: kernel, method, arguments.
FILLS = [
    ("uniform", "uniform_", (0.0, 1.0)), ("uniform", "uniform_", (-3.1, 5.7)), ("uniform", "uniform_", (2.5, 2.5)),
    ("uniform", "uniform_", (1.0, 1.001)),
    ("normal", "normal_", (0.0, 1.0)), ("normal", "normal_", (-3.1, 5.7)), ("normal", "normal_", (2.0, 0.0)),
    ("exponential", "exponential_", (1.0,)), ("exponential", "exponential_", (3.7,)),
    ("cauchy", "cauchy_", (0.0, 1.0)), ("cauchy", "cauchy_", (0.3, 2.7)),
    ("log_normal", "log_normal_", (1.0, 2.0)), ("log_normal", "log_normal_", (-0.3, 0.7)),
    ("geometric", "geometric_", (0.3,)), ("geometric", "geometric_", (0.9,)),
    ("bernoulli_float", "bernoulli_", (0.5,)), ("bernoulli_float", "bernoulli_", (0.3,)),
    ("bernoulli_float", "bernoulli_", (0.0,)), ("bernoulli_float", "bernoulli_", (1.0,)),
    ("random", "random_", ()), ("random_to", "random_", (100,)), ("random_from", "random_", (-7, 90)),
]


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("kernel,method,args", FILLS, ids=lambda v: str(v))
def test_fills_by_size(rt, dtype, kernel, method, args):
    for seed, n in itertools.product([0, 123, 2**40 + 5], SIZES):
        seed_both(rt, seed)
        filled(rt, kernel, method, torch.empty(n, dtype=dtype), *args)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32], ids=str)
def test_complex(rt, dtype):
    for n in [0, 1, 3, 7, 8, 9, 50, 1000]:
        seed_both(rt, 5)
        filled(rt, "uniform", "uniform_", torch.empty(n, dtype=dtype), -1.0, 3.0)
        filled(rt, "normal", "normal_", torch.empty(n, dtype=dtype), 0.5, 3.0)
    seed_both(rt, 6)
    for kernel, method, args in [("normal", "normal_", (0.0, 1.0)), ("uniform", "uniform_", (0.0, 1.0))]:
        ours, theirs = torch.zeros(6, 8, dtype=dtype).t(), torch.zeros(6, 8, dtype=dtype).t()
        getattr(theirs, method)(*args)
        rt.call(kernel, ours, ours, *args)
        same(ours, theirs)
        same_state(rt)


def layouts(dtype):
    """Functions making a zero tensor of some layout."""
    z = lambda *s: torch.zeros(*s, dtype=dtype)
    return {
        "transposed": lambda: z(5, 7).t(), "transposed large": lambda: z(50, 70).t(),
        "columns": lambda: z(6, 40)[:, ::2],
        "rows": lambda: z(40, 6)[::3], "permuted": lambda: z(3, 4, 5).permute(2, 0, 1),
        "permuted 4": lambda: z(3, 4, 5, 2).permute(1, 3, 0, 2),
        "channels last": lambda: z(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "slice of permuted": lambda: z(4, 6, 8).permute(1, 2, 0)[1:5, ::2], "ones": lambda: z(1, 5, 1, 6).transpose(1,
                3),
        "0-d": lambda: z(()), "empty": lambda: z(0, 3).t(), "strided": lambda: torch.as_strided(z(200), (4, 5, 3),
                (7, 1, 40)),
        "column": lambda: z(30, 4)[:, 1], "offset": lambda: z(50)[3:],
        "size-1 odd stride": lambda: torch.as_strided(z(100), (4, 1, 5), (5, 77, 1)),
    }


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("layout", sorted(layouts(F32)))
def test_fills_by_layout(rt, dtype, layout):
    make = layouts(dtype)[layout]
    seed_both(rt, 77)
    for kernel, method, args in FILLS:
        ours, theirs = make(), make()
        getattr(theirs, method)(*args)
        rt.call(kernel, ours, ours, *args)
        same(ours, theirs)
        same_state(rt)


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATING, ids=str)
def test_random_integers(rt, dtype):
    for n in [0, 1, 5, 16, 1000]:
        seed_both(rt, 9)
        filled(rt, "random", "random_", torch.empty(n, dtype=dtype))
        filled(rt, "bernoulli_float", "bernoulli_", torch.empty(n, dtype=dtype), 0.25)
        filled(rt, "random_to", "random_", torch.empty(n, dtype=dtype), 2)
        if dtype != torch.bool:
            filled(rt, "geometric", "geometric_", torch.empty(n, dtype=dtype), 0.2)
            filled(rt, "random_from", "random_", torch.empty(n, dtype=dtype), 3, 120)


BOUNDS = [0, 1, 2, 3, 100, 127, 128, 255, 256, 257, 2047, 2048, 2049, 65503, 65504, 65505, 2**16, 2**24, 2**24 + 1,
          2**28 - 1, 2**28,
          2**28 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**53 + 3, 2**62, 2**63 - 1]
BOUNDS = sorted({*BOUNDS, *[-b for b in BOUNDS], -2**63})


@pytest.mark.filterwarnings("ignore:.*is out of bounds")
@pytest.mark.parametrize("dtype", INTEGERS + FLOATING + [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_random_bounds(rt, dtype):
    """Every pair of interesting bounds: the same numbers, or an error on both sides."""
    seed_both(rt, 3)
    good = bad = 0
    for low, high in itertools.product(BOUNDS, [*BOUNDS, None]):
        ours, theirs = torch.zeros(40, dtype=dtype), torch.zeros(40, dtype=dtype)
        if high is None and low == 2**63 - 1 and dtype.is_floating_point:  # PyTorch does not come back from this one
            with pytest.raises(KernelError):
                rt.call("random_from", ours, ours, low, high)
            continue
        try:
            theirs.random_(low, high)
        except RuntimeError:
            with pytest.raises(KernelError):
                rt.call("random_from", ours, ours, low, high)
            bad += 1
            continue
        rt.call("random_from", ours, ours, low, high)
        same(ours, theirs)
        good += 1
    same_state(rt)
    assert good > (0 if dtype == torch.bool else 10) and bad > 100


def test_factories(rt):
    seed_both(rt, 4)
    for shape in [(), (3,), (4, 5), (2, 3, 7)]:
        for dtype in FLOATING:
            same(rt.call("rand", torch.empty(shape, dtype=dtype)), torch.rand(shape, dtype=dtype))
            same(rt.call("randn", torch.empty(shape, dtype=dtype)), torch.randn(shape, dtype=dtype))
            x = torch.zeros(shape, dtype=dtype).mT if len(shape) > 1 else torch.zeros(shape, dtype=dtype)
            same(rt.call("rand", torch.empty_like(x), x), torch.rand_like(x))
            same(rt.call("randn", torch.empty_like(x), x), torch.randn_like(x))
            same(rt.call("randint_like", torch.empty_like(x), x, 50), torch.randint_like(x, 50))
            same(rt.call("randint_like_low", torch.empty_like(x), x, -4, 50), torch.randint_like(x, -4, 50))
            same(rt.call("randint_like_tensor", torch.empty_like(x), x, torch.tensor(60)),
                 torch.randint_like(x, torch.tensor(60)))
        for low, high in [(0, 10), (-5, 6), (0, 2**28 - 1), (0, 2**28), (-2**40, 2**41)]:
            same(rt.call("randint_low", torch.empty(shape, dtype=torch.int64), low, high),
                 torch.randint(low, high, shape))
        same(rt.call("randint", torch.empty(shape, dtype=torch.int64), 99), torch.randint(99, shape))
        same(rt.call("normal_float_float", torch.empty(shape), 1.5, 0.3), torch.normal(1.5, 0.3, shape))
    same_state(rt)


@pytest.mark.parametrize("p_dtype", FLOATING, ids=str)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATING, ids=str)
def test_bernoulli_tensor(rt, dtype, p_dtype):
    seed_both(rt, 8)
    for shape, p_shape in [((7,), (7,)), ((4, 5), (5,)), ((4, 5), (4, 1)), ((4, 5), ()), ((0,), (0,)),
                           ((100, 30), (100, 30)), ((2, 3, 4), (3, 1))]:
        p = torch.rand(p_shape, dtype=F64).to(p_dtype)
        rt.set_state(torch.get_rng_state().numpy().tobytes())
        ours, theirs = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
        same(rt.call("bernoulli_tensor", ours, ours, p), theirs.bernoulli_(p))
        if len(shape) > 1:
            ours, theirs = torch.zeros(shape[::-1],
                    dtype=dtype).permute(*range(len(shape))[::-1]), torch.zeros(shape[::-1],
                            dtype=dtype).permute(*range(len(shape))[::-1])
            same(rt.call("bernoulli_tensor", ours, ours, p), theirs.bernoulli_(p))
            pt = torch.rand(shape[::-1], dtype=F64).to(p_dtype).permute(*range(len(shape))[::-1])
            rt.set_state(torch.get_rng_state().numpy().tobytes())
            theirs = torch.bernoulli(pt)
            same(rt.call("bernoulli", torch.empty_like(theirs), pt), theirs)
        same_state(rt)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_normal_with_tensors(rt, dtype):
    seed_both(rt, 2)
    sync = lambda: rt.set_state(torch.get_rng_state().numpy().tobytes())
    for shape in [(3,), (20,), (5, 8), (), (6, 5, 7)]:
        for other in [dtype, F64, F32, BF16]:
            mean, std = torch.randn(shape, dtype=dtype), torch.rand(shape, dtype=F64).to(other)
            shapes = [(mean, std)]
            if shape:
                shapes += [(mean, std.flatten()[0]), (mean[..., :1], std),
                           (mean.mT if mean.dim() > 1 else mean, std.mT if std.dim() > 1 else std)]
            for m, s in shapes:
                sync()
                want = torch.normal(m, s)
                same(rt.call("normal_tensor_tensor", torch.empty_like(want), m, s), want)
                want = torch.normal(m, 0.7)
                same(rt.call("normal_tensor_float", torch.empty_like(want), m, 0.7), want)
                want = torch.normal(0.3, s)
                same(rt.call("normal_float_tensor", torch.empty_like(want), 0.3, s), want)
                same_state(rt)
    with pytest.raises(KernelError, match="std >= 0"):
        rt.call("normal_tensor_tensor", torch.empty(2), torch.zeros(2), torch.tensor([1.0, -1.0]))
    for c in [torch.complex64, torch.complex128]:
        m, s = torch.randn(9, dtype=c), torch.rand(9, dtype=dtype)
        sync()
        want = torch.normal(m, s)
        same(rt.call("normal_tensor_tensor", torch.empty_like(want), m, s), want)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, F32, F64, F16,
                                   BF16], ids=str)
def test_randperm(rt, dtype):
    seed_both(rt, 11)
    for n in [0, 1, 2, 5, 16, 100, 127, 1000, 2049, 30000, 100_000]:
        try:
            want = torch.randperm(n, dtype=dtype)
        except RuntimeError:
            continue
        same(rt.call("randperm", torch.empty(n, dtype=dtype), n), want)
    same_state(rt)
    out = torch.empty(40, dtype=dtype)[::2]
    theirs = torch.randperm(20, dtype=dtype)
    same(rt.call("randperm", out, 20), theirs)


def noisy_inputs(dtype):
    torch.manual_seed(1)
    x = torch.randn(4, 6, 5, 3, dtype=dtype)
    x[0, 0, 0] = torch.tensor([math.nan, math.inf, -0.0])
    return [x, x.transpose(0, 2), x.contiguous(memory_format=torch.channels_last), x[:, ::2], x[..., 0], x[0, 0, 0, 0],
            x[:0],
            x[:, :1].expand(4, 6, 5, 3), torch.randn(1000, dtype=dtype), torch.randn(33, 40, dtype=dtype).t(),
            x[0, 0, 0].expand(7, 3),
            x.permute(3, 1, 0, 2)[:, :, :1].expand(3, 6, 4, 5)]


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dropout(rt, dtype, p):
    for x in noisy_inputs(dtype):
        seed_both(rt, 21)
        for train in [True, False]:
            for kernel, op in [("dropout", torch.dropout), ("alpha_dropout", torch.alpha_dropout),
                               ("feature_dropout", torch.feature_dropout),
                               ("feature_alpha_dropout", torch.feature_alpha_dropout)]:
                if x.dim() < 2 and "feature" in kernel:
                    continue
                want = op(x, p, train)
                same(rt.call(kernel, torch.empty_like(want), x, p, train), want)
                same_state(rt)
                if x.is_contiguous():
                    inplace = x.clone()
                    want = getattr(torch, kernel + "_")(x.clone(), p, train)
                    same(rt.call(kernel, inplace, inplace, p, train), want)
                    same_state(rt)
            for flag in [train, None]:
                want, mask = torch.native_dropout(x, p, flag)
                ours = [torch.empty_like(want), torch.empty_like(mask)]
                rt.call("native_dropout", ours, x, p, flag)
                same(ours[0], want)
                if x.numel():
                    same(ours[1], mask)
                same_state(rt)


@pytest.mark.parametrize("dtype", [F32, F64, BF16], ids=str)
def test_rrelu(rt, dtype):
    for x in noisy_inputs(dtype):
        seed_both(rt, 31)
        for training, (lower, upper) in itertools.product([True, False], [(0.125, 1 / 3), (0.1, 0.1), (0.3, 2.7)]):
            noise, ours = torch.zeros(x.shape, dtype=dtype), torch.zeros(x.shape, dtype=dtype)
            want = torch._C._nn.rrelu_with_noise(x, noise, lower, upper, training)
            out = torch.empty_like(want)
            rt.call("rrelu_with_noise", out, x, ours, lower, upper, training)
            same(out, want)
            same(ours, noise)
            same_state(rt)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_multinomial(rt, dtype):
    rng = random.Random(5)
    for shape in [(1,), (2,), (7,), (100,), (1000,), (3, 5), (20, 300), (2, 5000), (20000,)]:
        torch.manual_seed(rng.randrange(1000))
        weights = torch.rand(shape, dtype=F64).to(dtype)
        weights = torch.where(weights < 0.1, torch.zeros((), dtype=dtype), weights)
        weights[..., -1] = 0.5
        for w in [weights, torch.ones(shape, dtype=dtype), *([weights.t().contiguous().t()] if len(shape) > 1 else [])]:
            for samples in {1, 2, shape[-1] // 70 or 1, shape[-1] // 2 or 1, shape[-1]}:
                for replacement in [False, True]:
                    seed_both(rt, rng.randrange(1000))
                    if not replacement and samples > shape[-1]:
                        continue
                    want = torch.multinomial(w, samples, replacement)
                    same(rt.call("multinomial", torch.empty_like(want), w, samples, replacement), want)
                    same_state(rt)


@pytest.mark.parametrize("bad", [[-1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0], [0.0, 0.0]], ids=str)
def test_multinomial_errors(rt, bad):
    for samples, replacement in [(1, False), (2, True)]:
        with pytest.raises(RuntimeError):
            torch.multinomial(torch.tensor(bad), samples, replacement)
        with pytest.raises(KernelError, match="multinomial"):
            rt.call("multinomial", torch.empty(samples, dtype=torch.int64), torch.tensor(bad), samples, replacement)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_poisson(rt, dtype):
    torch.manual_seed(1)
    rates = [torch.rand(3000, dtype=F64) * scale for scale in [0.0, 1.0, 10.0, 20.0, 300.0, 1e6]]
    for rate in rates:
        for r in [rate.to(dtype), rate.to(dtype).view(50, 60).t()]:
            seed_both(rt, 41)
            want = torch.poisson(r)
            same(rt.call("poisson", torch.empty_like(want), r), want)
            same_state(rt)
    with pytest.raises(KernelError, match="not negative"):
        rt.call("poisson", torch.empty(1), torch.tensor([-1.0]))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_binomial(rt, dtype):
    torch.manual_seed(1)
    for scale in [1, 5, 30, 1000, 1e6]:
        count = torch.floor(torch.rand(60, 50, dtype=F64) * scale).to(dtype)
        for p in [torch.rand(60, 50, dtype=dtype), torch.full((60, 50), 0.5, dtype=dtype),
                  torch.rand(50, 60, dtype=dtype).t(),
                  torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5], dtype=dtype).repeat(600).view(60, 50)]:
            seed_both(rt, 51)
            want = torch.binomial(count, p)
            same(rt.call("binomial", torch.empty_like(want), count, p), want)
            same_state(rt)


def test_errors_like_pytorch(rt):
    """Arguments that PyTorch refuses are refused."""
    t = torch.zeros(20)
    cases = [("uniform", "uniform_", (3.0, 1.0)), ("uniform", "uniform_", (0.0, math.inf)),
             ("uniform", "uniform_", (-3e38, 3e38)),
             ("uniform", "uniform_", (math.nan, 1.0)), ("normal", "normal_", (0.0, -1.0)),
             ("exponential", "exponential_", (0.0,)),
             ("exponential", "exponential_", (-1.0,)), ("cauchy", "cauchy_", (0.0, 0.0)),
             ("log_normal", "log_normal_", (0.0, 0.0)),
             ("geometric", "geometric_", (0.0,)), ("geometric", "geometric_", (1.0,)),
             ("bernoulli_float", "bernoulli_", (-0.1,)),
             ("bernoulli_float", "bernoulli_", (1.5,)), ("bernoulli_float", "bernoulli_", (math.nan,)),
             ("random_from", "random_", (5, 5)),
             ("random_to", "random_", (0,))]
    for kernel, method, args in cases:
        with pytest.raises(RuntimeError):
            getattr(t, method)(*args)
        with pytest.raises(KernelError, match=kernel.split("_")[0]):
            rt.call(kernel, t, t, *args)
    with pytest.raises(RuntimeError):
        torch.bernoulli(torch.tensor([0.5, 1.5]))
    with pytest.raises(KernelError, match="1.5"):
        rt.call("bernoulli", torch.empty(2), torch.tensor([0.5, 1.5]))
    for p in [-0.1, 1.1, math.nan]:
        with pytest.raises(RuntimeError):
            torch.dropout(t, p, True)
        with pytest.raises(KernelError, match="between 0 and 1"):
            rt.call("dropout", torch.empty(20), t, p, True)


def test_state(rt):
    for seed in [0, 1, 5489, 2**32 - 1, 2**32, 2**63, 2**64 - 1, -1, -2**63]:
        seed_both(rt, seed)
        same_state(rt)
        assert rt.lib.rt_generator_initial_seed(rt.memory) == torch.initial_seed()
        torch.empty(3).normal_()  # leaves one normal number behind
        state = torch.get_rng_state().numpy().tobytes()
        rt.set_state(state)
        same_state(rt)
        same(rt.call("randn", torch.empty(1, dtype=F64)), torch.randn(1, dtype=F64))
        same_state(rt)
        word = rt.lib.rt_generator_random32(rt.memory)
        assert word == torch.empty(1, dtype=torch.int64).random_(0, 2**27).item() % 2**27 + (word & ~(2**27 - 1))
        long = rt.lib.rt_generator_random64(rt.memory)
        assert long == torch.empty(1, dtype=torch.int64).random_(-2**63, None).item() % 2**64
        same_state(rt)
    # The other way: ours goes into PyTorch.
    rt.seed(99)
    rt.call("randn", torch.empty(5))
    torch.set_rng_state(torch.frombuffer(bytearray(rt.state()), dtype=torch.uint8))
    same(rt.call("randn", torch.empty(7)), torch.randn(7))
    same_state(rt)
    good = bytearray(rt.state())
    for change in [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b[:8] + bytes(4) + b[12:],
                   lambda b: b[:8] + b"\x71\x02\0\0" + b[12:],
                   lambda b: b[:12] + bytes(4) + b[16:], lambda b: b[:16] + b"\x71\x02" + b[18:],
                   lambda b: bytes(5056)]:
        with pytest.raises(RuntimeError):
            torch.set_rng_state(torch.frombuffer(bytearray(change(good)), dtype=torch.uint8))
        with pytest.raises(KernelError):
            rt.set_state(bytes(change(good)))
    assert rt.state() == bytes(good)


@pytest.mark.parametrize("seed", range(20))
def test_mixed_calls_share_the_stream(rt, seed):
    """Random programs of random ops on one generator."""
    rng = random.Random(seed)
    seed_both(rt, seed)
    for _ in range(60):
        kernel, method, args = rng.choice(FILLS)
        make = rng.choice([*layouts(rng.choice(FLOATING)).values(), lambda n=rng.choice(SIZES[:-1]): torch.zeros(n)])
        ours, theirs = make(), make()
        getattr(theirs, method)(*args)
        rt.call(kernel, ours, ours, *args)
        same(ours, theirs)
        if rng.random() < 0.3:
            x = theirs.to(F32)
            same(rt.call("dropout", torch.empty_like(x), x, 0.2, True), torch.dropout(x, 0.2, True))
        if rng.random() < 0.3:
            n = rng.randrange(50)
            same(rt.call("randperm", torch.empty(n, dtype=torch.int64), n), torch.randperm(n))
        same_state(rt)
