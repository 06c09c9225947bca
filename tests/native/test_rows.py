"""P4: fused row kernels. Random programs of pointwise ops, reductions, norms and views, compiled, on every instruction
set, against PyTorch and, where no sum is in them, bit for bit against the interpreter; and how many steps small
programs take, so that lost fusion shows."""
import os
import pathlib
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]
torch = pytest.importorskip("torch", reason="programs are exported by PyTorch")
import cresset  # noqa: E402
import library  # noqa: E402


def isas():
    flags = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    return ["portable"] + ["avx2"] * (" avx2 " in flags) + ["avx512"] * (" avx512vl " in flags)


def make(folder, f, args, dynamic=None):
    """Exports and compiles; the archive's path, the library's path and what the tool said."""
    class Module(torch.nn.Module):
        def forward(self, *args):
            return f(*args)
    archive, path = folder / "m.pt2", folder / "m.so"
    program = torch.export.export(Module(), args, dynamic_shapes={"args": dynamic} if dynamic else None)
    torch.export.save(program, archive)
    done = subprocess.run(["cresset", "compile", archive, "-o", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return archive, path, done.stdout + done.stderr


def models(path):
    """The library once per instruction set: it looks at the environment when it is loaded."""
    for isa in isas():
        before, copy = os.environ.get("CRESSET_ISA"), path.with_suffix(f".{isa}.so")
        shutil.copy(path, copy)
        os.environ["CRESSET_ISA"] = isa
        try:
            model = library.Model(copy)
            yield isa, lambda *inputs, model=model: model(*inputs)
        finally:
            os.environ.pop("CRESSET_ISA")
            if before is not None:
                os.environ["CRESSET_ISA"] = before


def agree(got, want, where, tolerance=2e-5):
    assert got.shape == tuple(want.shape), where
    want = want.numpy()
    assert got.dtype == want.dtype, where
    if want.dtype.kind in "ib":
        assert (got == want).all(), where
        return
    close = np.isclose(got, want, rtol=tolerance,
                       atol=tolerance * max(1, np.abs(want[np.isfinite(want)]).max(initial=0)), equal_nan=True)
    assert close.all(), f"{where}: {got[~close][:4]} against {want[~close][:4]}"


def check(folder, f, calls, dynamic=None, exact=False):
    archive, path, said = make(folder, f, tuple(calls[0]), dynamic)
    interpreted = cresset.export.load(archive).module() if exact else None
    for isa, model in models(path):
        for number, args in enumerate(calls):
            want = f(*args)
            want = want if isinstance(want, (tuple, list)) else [want]
            got = model(*(a.numpy() for a in args))
            for i, (g, w) in enumerate(zip(got, want)):
                agree(g, w, f"{isa}, call {number}, result {i}")
            if exact and isa == isas()[-1]:
                same = interpreted(*(cresset.from_dlpack(a.contiguous()) for a in args))
                for g, s in zip(got, same if isinstance(same, (tuple, list)) else [same]):
                    assert g.tobytes() == s.numpy().tobytes(), (
                        f"{isa}, call {number}: other bits than the interpreter's")
    return said


ODD = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, 3e38, -104.5, 88.9]
UNARY = ["exp", "tanh", "sigmoid", "relu", "erf", "neg", "abs", "sqrt", "log", "log1p", "expm1", "sin", "cos", "floor",
         "round", "rsqrt", "sign", "square", "reciprocal",
         "log2", "exp2", "trunc", "ceil"]
FUNCTIONAL = ["gelu", "silu", "softplus", "hardswish", "hardsigmoid", "leaky_relu", "elu", "mish", "logsigmoid",
              "relu6"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
ROWS = ["softmax", "log_softmax", "layer_norm", "mean", "sum", "amax", "amin", "var", "rms"]


def random_program(r, exact):
    """A function of (x: [a, b, c], y: [c], z: [a, 1, c], m: bool [a, b, 1]) over the ops above."""
    steps = []
    for _ in range(r.randint(3, 9)):
        kinds = ["unary", "binary", "binary", "functional", "where", "cast",
                 "view"] + ([] if exact else ["rows", "rows"])
        kind = r.choice(kinds)
        steps.append((kind,
                r.choice({"unary": UNARY, "functional": FUNCTIONAL, "binary": BINARY, "rows": ROWS}.get(kind, [""])),
                      r.randint(0, 99), r.randint(0, 99)))

    def f(x, y, z, m):
        values = [x, y, z]
        pick = lambda k: values[k % len(values)]  # noqa: E731
        for kind, name, i, k in steps:
            a, b = pick(i), pick(k)
            if kind == "unary":
                v = getattr(torch, name)(a)
            elif kind == "functional":
                v = getattr(torch.nn.functional, name)(a)
            elif kind == "binary":
                v = getattr(torch, name)(a, b * 0.5 if i % 2 else b)
            elif kind == "where":
                v = torch.where(m, a, b) if i % 2 else torch.where(a > b, x, 0.25)
            elif kind == "cast":
                v = (a > 0).to(torch.float32) + (a.double() * 0.5).float()
            elif kind == "view":
                v = x.transpose(0, 1) * 1.5 if i % 3 == 0 else a.unsqueeze(0).squeeze(0) + 1
                v = v.transpose(0, 1) if i % 3 == 0 else v
            elif name in ("softmax", "log_softmax"):
                v = getattr(torch, name)(torch.tanh(a), -1)
            elif name == "layer_norm":
                v = torch.nn.functional.layer_norm(torch.tanh(a), a.shape[-1:], y.tanh())
            elif name == "rms":
                v = a.tanh() * torch.rsqrt(a.tanh().square().mean(-1, keepdim=True) + 1e-3)
            elif name == "var":
                v = a - torch.tanh(a).var(-1, keepdim=True, unbiased=False)
            else:
                v = torch.tanh(a) - getattr(torch, name)(torch.tanh(a), dim=-1, keepdim=True)
            values.append(v)
        return tuple(values[3:][-3:])
    return f


def inputs(r, shape, odd):
    a, b, c = shape
    g = torch.Generator().manual_seed(r.randint(0, 10**6))
    x = torch.randn(a, b, c, generator=g) * 3
    if odd:
        for _ in range(4):
            if x.numel():
                x.view(-1)[r.randrange(x.numel())] = r.choice(ODD)
    return x, torch.randn(c, generator=g), torch.randn(a, 1, c, generator=g), torch.rand(a, b, 1, generator=g) > 0.5


@pytest.mark.parametrize("seed", range(6))
def test_pointwise_has_the_interpreters_bits(seed, tmp_path):
    r = random.Random(seed)
    f = random_program(r, exact=True)
    check(tmp_path, f, [inputs(r, (2, 5, 37), odd=True)], exact=True)


def test_powers_have_the_interpreters_bits(tmp_path):
    x, y, z, _ = inputs(random.Random(7), (2, 50, 37), odd=True)
    whole = (y * 4).round()
    check(tmp_path, lambda x, y, z: (torch.pow(x, y) + 1, torch.pow(x.abs(), z) + 1, torch.pow(z, x) + 1),
          [(x, whole, z), (x, y, z.abs())], exact=True)


def test_functions_without_a_row_form_have_the_interpreters_bits(tmp_path):
    def f(x, z):
        small = x / 9
        angles = torch.atan2(x,
                             z), torch.tan(x), torch.asin(small), torch.acos(small), torch.atan(x), torch.atanh(small)
        parts = torch.fmod(x, z), torch.remainder(x, z), torch.floor_divide(x, z), torch.nextafter(x, z)
        finite = x.clamp(-88.5, 88.5)  # beyond, PyTorch's are infinite a little before the numbers are
        hyperbolic = torch.sinh(finite), torch.cosh(finite), torch.asinh(x), torch.acosh(x)
        return *angles, *parts, *hyperbolic, torch.logaddexp(x, z)
    x, _, z, _ = inputs(random.Random(11), (2, 50, 37), odd=True)
    check(tmp_path, f, [(x, z)], exact=True)


@pytest.mark.parametrize("seed", range(6))
def test_random_rows(seed, tmp_path):
    r = random.Random(100 + seed)
    f = random_program(r, exact=False)
    auto = torch.export.Dim.AUTO
    shapes = [(3, 4, 33), (2, 2, 2), (5, 7, 1030), (2, 3, 16)]
    check(tmp_path, f, [inputs(r, shape, odd=number == 2) for number, shape in enumerate(shapes)],
          dynamic=({0: auto, 1: auto, 2: auto}, {0: auto}, {0: auto, 2: auto}, {0: auto, 1: auto}))


def gated(x, y):
    return torch.softmax(torch.nn.functional.layer_norm(x + y, x.shape[-1:]) * 0.125, -1) * torch.sigmoid(x)


@pytest.mark.parametrize("rows, width", [(1, 1), (1, 7), (3, 16), (2, 17), (5, 1025), (64, 96), (1, 20000)])
def test_sizes_of_rows(rows, width, tmp_path):
    said = check(tmp_path, gated, [(torch.randn(rows, width), torch.randn(rows, width))])
    assert "1 steps" in said or rows * width <= 32


def test_one_kernel_serves_all_sizes(tmp_path):
    auto = torch.export.Dim.AUTO
    calls = [(torch.randn(a, b), torch.randn(a, b)) for a, b in [(3, 5), (2, 40), (17, 2), (2, 4099), (300, 33)]]
    check(tmp_path, gated, calls, dynamic=({0: auto, 1: auto}, {0: auto, 1: auto}))


def test_strided_operands_are_read_where_they_lie(tmp_path):
    x, y = torch.randn(40, 24).t(), torch.randn(24, 80)[:, ::2]
    said = check(tmp_path, lambda x, y: torch.tanh(x) * y + 1, [(x, y)])
    assert "1 steps" in said


def test_reductions_over_any_axes(tmp_path):
    x = torch.randn(3, 5, 6, 16)

    def f(x):
        return (x.tanh().mean((2, 3)), x.tanh().sum(1), torch.softmax(x, 1), x.permute(0, 3, 1, 2).mean((2, 3)),
                x.exp().amax((0, 1, 2)), (x * x).sum(), x.var((1, 3)),
                torch.nn.functional.layer_norm(x, (6, 16)))
    check(tmp_path, f, [(x,)])


def test_several_axes_of_a_row_with_a_factor_for_one(tmp_path):
    x, w = torch.randn(4, 6, 7, 9), torch.randn(6, 1, 1)

    def f(x, w):
        y = x - x.mean((1, 2, 3), keepdim=True)
        return torch.nn.functional.gelu(y * torch.rsqrt((y * y).mean((1, 2, 3), keepdim=True) + 1e-5) * w)
    said = check(tmp_path, f, [(x, w)])
    assert "1 steps" in said


def rotary(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


@pytest.mark.parametrize("width", [2, 6, 8, 16, 32, 64, 100])
def test_rotary_embeddings_are_one_kernel(width, tmp_path):
    x, cos, sin = torch.randn(2, 5, 3, width).transpose(1, 2), torch.randn(5, width), torch.randn(5, width)
    said = check(tmp_path, rotary, [(x, cos, sin)])
    assert "1 steps" in said


@pytest.mark.parametrize("f", [lambda x, cos, sin: rotary(x.tanh() * 2, cos, sin).softmax(-1),
                               lambda x, cos,
                               sin: rotary(x, cos, sin).softmax(-1) + torch.cat([-x[..., 12:], x[..., :12]], -1).sum(1,
                                       keepdim=True)])
def test_halves_of_what_is_computed(f, tmp_path):
    check(tmp_path, f, [(torch.randn(2, 3, 5, 24), torch.randn(5, 24), torch.randn(5, 24))])


def test_a_long_row_keeps_its_digits(tmp_path):
    x = torch.rand(2, 300000) + 1000
    archive, path, _ = make(tmp_path, lambda x: ((x * 1.0).sum(-1), (x * 1.0).mean(-1)), (x,))
    wide = x.double()
    for isa, model in models(path):
        total, mean = model(x.numpy())
        assert np.abs(total / wide.sum(-1).numpy() - 1).max() < 2e-7, isa
        assert np.abs(mean / wide.mean(-1).numpy() - 1).max() < 2e-7, isa


def test_bfloat16_rounds_at_every_op(tmp_path):
    x, y = torch.randn(5, 33).bfloat16(), torch.randn(33).bfloat16()
    f = lambda x, y: torch.tanh(x * y + x) * 1.7  # noqa: E731
    archive, path, said = make(tmp_path, f, (x, y))
    assert "1 steps" in said
    for isa, model in models(path):
        got = model((x.view(torch.uint16).numpy(), "bfloat16"), (y.view(torch.uint16).numpy(), "bfloat16"))[0]
        assert np.abs(got - f(x, y).float().numpy()).max() <= 2 ** -7, isa   # tanh may round to a neighbour


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_numbers_are_what_they_were(dtype, tmp_path):
    """Constants of every form, through the text of the kernel: large whole ones, zeros with a sign, the least and the
    largest."""
    numbers = [-1e9, 1e6, 16777216.0, 123456789.0, -0.0, 1e19, 3.4e38, 1e-45, 0.1, -2.5, 65504.0, float("inf"),
               float("-inf")]
    x = torch.tensor([[-1.0, 0.0, 2.0], [-0.0, 5.0, float("nan")]], dtype=dtype)
    _, path, _ = make(tmp_path, lambda x: tuple(torch.where(x > 0, c, x * 2) for c in numbers), (x,))
    for isa, run in models(path):
        for c, got in zip(numbers, run(x.numpy())):
            want = torch.where(x > 0, c, x * 2).numpy()
            assert got.tobytes() == want.tobytes(), (isa, c, got, want)


def test_no_name_becomes_code(tmp_path):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", torch.randn(40))

        def forward(self, x):
            return torch.tanh(x * self.w) + x
    program = torch.export.export(Module(), (torch.randn(3, 40),))
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta["stack_trace"] = 'File "*/ int main;\\\n", line 1, in *//*'
    torch.export.save(program, tmp_path / "m.pt2")
    done = subprocess.run(["cresset", "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.c"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "m.c").read_text()
    assert "k_mul_tanh_add" in text and "int main" not in text


def test_a_view_that_stands_before_its_group(tmp_path):
    """`v` looks at what is computed together with what comes behind the product: it is taken there, not before."""
    def f(x, w):
        p = x.exp()
        v = p.transpose(0, 1)
        q = (p + x @ w).sigmoid() * p
        return q, v @ w
    args = torch.randn(64, 64) / 8, torch.randn(64, 64)
    _, path, _ = make(tmp_path, f, args)
    for isa, run in models(path):
        for got, want in zip(run(*(a.numpy() for a in args)), f(*args)):
            agree(got, want, isa, 1e-4)


@pytest.mark.parametrize("name, steps, kernels", [("pointwise", 1, 1), ("bert", 20, 2), ("gpt2", 17, 2),
                                                  ("llama", 27, 2), ("lstm", 3, 0)])
def test_steps_of_small_models(bench_model, name, steps, kernels, tmp_path):
    """No more steps than there have been, and as few kernels of their own: what no longer fuses shows here."""
    model, args = bench_model(name)
    torch.export.save(torch.export.export(model, args), tmp_path / "m.pt2")
    done = subprocess.run(["cresset", "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.c"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "m.c").read_text()
    assert text.count("{RT_STEP_") <= steps
    assert text.count("\nint CR_ROWS(") <= kernels
