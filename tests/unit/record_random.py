"""Writes tests/unit/random_expected.inc: PyTorch's numbers for tests/unit/test_random.c.

    python tests/unit/record_random.py > tests/unit/random_expected.inc

Each row is one call on a freshly seeded generator: the kernel, dtypes, sizes, arguments, eight numbers from each end of
the result in memory order, and the two words that the generator gives next. The input of ops that have one is scale *
(i % 11 + 1) / 12; binomial's probabilities are the same with scale 1.
"""
import torch

SEED = 20231
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
          torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}


def number(v):
    if v % 1 == 0:
        return str(int(v))
    mantissa, exponent = v.hex().split("p")
    return mantissa.rstrip("0") + "p" + exponent


def lines_of(items, indent, width=118):
    line = indent
    for i, item in enumerate(items):
        item += "," if i + 1 < len(items) else ""
        if len(line) + len(item) + 1 > width:
            yield line.rstrip()
            line = indent
        line += item + " "
    yield line.rstrip()


def row(kernel, dtype, size, args, call, given="NOTHING", exact=True, transposed=False, scale=0):
    """given: what stands before the number arguments: NOTHING, SELF (the result) or INPUT."""
    torch.manual_seed(SEED)
    result = call()
    next_words = torch.empty(1, dtype=torch.int64).random_(-2**63, None).item() % 2**64
    flat = torch.as_strided(result, (result.numel(),), (1,)).to(torch.float64)
    shown = flat.tolist() if flat.numel() <= 16 else flat[:8].tolist() + flat[-8:].tolist()
    size = list(size) + [1] * (2 - len(size))
    out = list(result.shape) + [1] * (2 - result.dim())
    arguments = ", ".join(f"I({int(a)})" if isinstance(a, int) else f"F({a!r})" for a in args)
    sizes = f"{{ {size[0]}, {size[1]} }}, {{ {out[0]}, {out[1]} }}"
    print(f"    {{ rt_k_{kernel}, {given}, RT_{DTYPES[dtype]}, RT_{DTYPES[result.dtype]}, {sizes}, {len(args)}, "
          f"{{ {arguments or '{ 0 }'} }}, {scale},")
    print(f"      {str(transposed).lower()}, {str(exact).lower()}, UINT64_C({next_words}),")
    print("      {")
    for line in lines_of([number(v) for v in shown], " " * 8):
        print(line)
    print("      } },")


def fill(kernel, method, dtype, size, *args, exact=True, transposed=False):
    def call():
        t = torch.zeros(size, dtype=dtype)
        getattr(t.t() if transposed else t, method)(*args)
        return t
    row(kernel, dtype, size, args, call, "SELF", exact, transposed)


def given_input(scale, dtype, size, round_down=False):
    n = size[0] * (size[1] if len(size) > 1 else 1)
    x = scale * ((torch.arange(n) % 11 + 1).double() / 12)
    return (x.floor() if round_down else x).to(dtype).view(size)


def with_input(kernel, op, dtype, size, *args, scale=1.0, exact=True):
    x = given_input(scale, dtype, size)
    row(kernel, dtype, size, args, lambda: op(x, *args), "INPUT", exact, scale=scale)


def main():
    f32, f64, f16, bf16, i64, i32, u8 = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64,
                                         torch.int32, torch.uint8)
    print("/* Written by tests/unit/record_random.py with PyTorch " + torch.__version__ + "; do not edit. */")
    for dtype in (f32, f64, f16, bf16):
        block_exact = dtype != f64  # f64 goes through libm, the others through our own polynomials
        fill("uniform", "uniform_", dtype, (5, 7), -3.1, 5.7)
        fill("uniform", "uniform_", dtype, (700,), 0.0, 1.0)
        fill("normal", "normal_", dtype, (15,), 0.5, 2.0, exact=False)
        fill("normal", "normal_", dtype, (16,), 0.0, 1.0, exact=block_exact)
        fill("normal", "normal_", dtype, (1000,), 0.5, 2.0, exact=block_exact)
        fill("normal", "normal_", dtype, (6, 5), 0.5, 2.0, exact=False, transposed=True)
        fill("exponential", "exponential_", dtype, (20,), 2.5, exact=False)
        fill("cauchy", "cauchy_", dtype, (20,), 0.3, 2.7, exact=False)
        fill("log_normal", "log_normal_", dtype, (20,), -0.3, 0.7, exact=False)
        fill("random", "random_", dtype, (20,))
        fill("random_from", "random_", dtype, (20,), -7, 190)
        fill("bernoulli_float", "bernoulli_", dtype, (300,), 0.3)
        with_input("bernoulli", torch.bernoulli, dtype, (40,))
        with_input("dropout", torch.dropout, dtype, (9, 30), 0.3, True)
        with_input("alpha_dropout", torch.alpha_dropout, dtype, (40,), 0.3, True)
        with_input("feature_dropout", torch.feature_dropout, dtype, (5, 8), 0.4, True)
        with_input("multinomial", torch.multinomial, dtype, (3, 20), 1, False)
        with_input("multinomial", torch.multinomial, dtype, (2, 20), 9, False)
        with_input("multinomial", torch.multinomial, dtype, (2, 500), 6, False)
        with_input("multinomial", torch.multinomial, dtype, (2, 20), 9, True)
        with_input("poisson", torch.poisson, dtype, (50,), scale=9.0)
        with_input("poisson", torch.poisson, dtype, (50,), scale=120.0)
    for dtype in (f32, f64):
        for scale in (10.0, 400.0):
            count, p = given_input(scale, dtype, (60,), True), given_input(1.0, dtype, (60,))
            row("binomial", dtype, (60,), (), lambda: torch.binomial(count, p), "COUNT_AND_P", scale=scale)
    for dtype in (i64, i32, u8):
        fill("random", "random_", dtype, (600,))
        fill("geometric", "geometric_", dtype, (20,), 0.2)
        fill("bernoulli_float", "bernoulli_", dtype, (40,), 0.5)
    for low, high in [(0, 2**28 - 1), (0, 2**28), (-2**40, 2**41)]:
        fill("random_from", "random_", i64, (20,), low, high)
    fill("random_to", "random_", i32, (4, 9), 1000, transposed=True)
    fill("bernoulli_float", "bernoulli_", torch.bool, (5, 6), 0.7, transposed=True)
    for n in (1, 2, 40, 1000):
        row("randperm", i64, (n,), (n,), lambda: torch.randperm(n))
    row("randint_low", i64, (20,), (-5, 90), lambda: torch.randint(-5, 90, (20,)))
    row("randn", f32, (50,), (), lambda: torch.randn(50))
    row("rand", f32, (50,), (), lambda: torch.rand(50))


main()
