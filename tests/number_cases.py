"""Expressions over the numbers of a fake run, written once for both libraries, and what becomes of them.

In a line, `x` is a float tensor of [n, m] with both sizes open, `n` and `m` are those sizes, `f` is `n / 2`, `b` is `n
> 6`, `i` is an int input that is open too, `u`, `uf` and `ub` are an int, a float and a bool read from data, `t` is the
library. tests/py/test_symbolic_numbers.py compares the outcomes."""
import math
import operator
import re
import warnings

SIZES = ((6, 4), (7, 5), (9, 2), (12, 8))   # the first one is exported
INT = {6: 3, 7: 4, 9: 11, 12: 2}            # what the int input is beside them


def lines(text):
    return [line.strip() for line in text.strip().splitlines() if line.strip() and not line.strip().startswith("#")]


def inputs(t, sizes):
    n, m = sizes
    x = (t.arange(n * m).reshape(n, m) - 3).float() / 4
    return x, INT[n], t.tensor([n - 8, 5]), t.tensor([n / 4 - 1.5]), t.tensor([n % 2 == 0])


def program(t, line):
    code, reads = compile(line, line, "eval"), set(re.findall(r"\bu[fb]?\b", line))

    class Program(t.nn.Module):
        def forward(self, x, i, k, r, c):
            n, m = x.shape
            names = {"t": t, "x": x, "n": n, "m": m, "f": n / 2, "b": n > 6, "i": i, "math": math, "operator": operator}
            if "u" in reads:
                names["u"] = k[0].item()
            if "uf" in reads:
                names["uf"] = r[0].item()
            if "ub" in reads:
                names["ub"] = c[0].item()
            return x * 1, eval(code, names)
    return Program()


def plain(t, value):
    """What a program gave, in terms of both libraries; floats to 6 digits."""
    if isinstance(value, t.Tensor):
        return [str(value.dtype).partition(".")[2], list(value.shape), plain(t, value.tolist())]
    if isinstance(value, (list, tuple)):
        return [plain(t, item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value if isinstance(value, (bool, int, str, type(None))) else type(value).__name__


def runs(t, module):
    found = []
    for sizes in SIZES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(plain(t, module(*inputs(t, sizes))[1:]))
        except Exception:
            found.append("refused" if sizes != SIZES[0] else "refused at the example")
    return found


def export(t, line):
    D = t.export.Dim
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return t.export.export(program(t, line), inputs(t, SIZES[0]),
                               dynamic_shapes={"x": {0: D.AUTO, 1: D.AUTO}, "i": D.AUTO, "k": None, "r": None,
                                               "c": None}, strict=False)


def outcome(t, line):
    try:
        ep = export(t, line)
    except Exception as error:
        bases = [base.__name__ for base in type(error).__mro__ if base not in (Exception, BaseException, object)]
        return {"raised": type(error).__name__, "bases": bases}
    return {"runs": runs(t, ep.module())}


# What numbers of a fake run can do: Python's operators, methods, conversions and functions, each on sizes, on what is
# made of sizes, and on what is read from data.
LINES = lines("""
n & 3
n | 4
n ^ 1
3 & n
4 | n
1 ^ n
n & m
n << 1
n >> 1
1 << (n - 4)
1000 >> n
n << m
n >> m
~n
~b
b & True
b | (m > 4)
b ^ (m > 4)
n & True
b & 1
b & n
n & b
f & 1
f << 1
u & 3
u << 1
u >> 1
u ^ 1
u | 4
n in {6, 8}
n in [6, 8]
n in (5, 8)
{6: 1, 7: 2}.get(n, 0)
{6.0: 1, 3.0: 2}.get(f, 0)
{True: 1, False: 2}[b]
hash(n)
hash(f)
hash(b)
hash(u)
hash(uf)
hash(ub)
round(n)
round(n, 1)
round(n, -1)
round(f)
round(n / 4)
round(n / 4, 1)
round(n / 3, 2)
round(uf)
round(u)
f.is_integer()
(n / 4).is_integer()
n.is_integer()
uf.is_integer()
t.sym_not(b)
t.sym_not(ub)
t.sym_not(n)
t.sym_not(u > 0)
not b
n + 1
1 + n
n - 10
10 - n
n * 3
n * m
n // 4
n // -4
-n // 4
100 // n
-100 // n
n % 4
n % -4
-n % 4
-n % -4
100 % n
-100 % n
(n - 8) // 3
(n - 8) % 3
n // m
n % m
(n - 8) // m
(n - 8) % m
n / 4
n / m
10 / n
n / 4.0
n // 4.0
n // 2.5
7.5 // n
n % 2.5
7.5 % n
-n % 2.5
n ** 2
n ** 2.0
n ** 0.5
n ** -1
2 ** n
2.0 ** n
0.5 ** n
(n - 8) ** 2
(n - 8) ** 3
n ** i
n ** (-i)
(-2) ** i
pow(n, 2)
pow(n, 2, 5)
divmod(n, 4)
divmod(100, n)
divmod(n, m)
divmod(-n, 4)
divmod(n, 2.5)
abs(n - 8)
abs(n)
abs(f - 3.75)
abs(u)
abs(uf)
abs(b)
-n
+n
-f
+f
-b
+b
-u
math.trunc(n)
math.floor(n)
math.ceil(n)
math.trunc(n / 4)
math.floor(n / 4)
math.ceil(n / 4)
math.trunc((n - 10) / 4)
math.floor((n - 10) / 4)
math.ceil((n - 10) / 4)
math.trunc(uf)
math.floor(uf)
math.ceil(uf)
math.floor(b)
math.sqrt(n)
math.sqrt(f)
math.sin(n)
math.log(n)
math.log2(n)
math.exp(n)
math.pow(n, 2)
math.gcd(n, 4)
math.isqrt(n)
math.prod([n, m])
math.prod((n, 2, 3))
math.hypot(n, m)
math.isfinite(n)
math.isnan(f)
math.isclose(n, 6.0)
math.factorial(n)
math.comb(n, 2)
math.fmod(n, 4)
math.copysign(n, -1)
math.fabs(n)
math.inf * n
sum([n, m, 1])
sum((n, m))
max(n, m)
min(n, m)
max(n, 7)
min(n, 7.5)
max(n, 7.5)
max([n, m, 8])
max(n, m, 8)
max(f, 3)
t.sym_max(n, 7)
t.sym_min(n, 7)
t.sym_max(n, 7.5)
t.sym_max(f, 3)
t.sym_min(n, m)
t.sym_int(n)
t.sym_int(f)
t.sym_int(n / 4)
t.sym_int(uf)
t.sym_float(n)
t.sym_float(b)
t.sym_float(u)
t.sym_ite(b, n, m)
t.sym_ite(b, f, 1.5)
t.sym_ite(ub, n, m)
t.sym_ite(u > 0, n, m)
t.sym_sqrt(n)
t.sym_sum([n, m, 2])
t.sym_sum((n, m))
n == 6
n != 6
n > 6
n >= 7
n < 7
n <= 6
6 == n
6 < n
n == 6.0
n > 6.5
n < 6.5
6.5 < n
n == 6.5
f > 3
f >= 3.25
f == 3
f == 3.0
f != 3
f < n
n > f
b == True
b == False
b != True
b == 1
b == (m > 4)
b < True
b > 0
n == "6"
n == None
n != None
n is None
n == [6]
n == (6,)
n < "6"
n + "6"
n + None
n + [1]
n * [1]
[1] * n
n * "a"
"a" * n
(1,) * n
n + 1j
n * 1j
n == 6 + 0j
n + x
x + n
n * x
x * n
x / n
n / x
x // n
n // x
x ** n
n - x
x - f
x * f
f * x
x == n
x > n
n < x
x + b
x * b
x + u
x * uf
x + ub
x[n - 5]
x[0, m - 1]
x[:n - 2]
x[n // 2:]
x[::n]
x[-n]
list(range(n))
[j for j in range(n)]
range(n)[2]
len(range(n))
len(x)
len(x[1:])
int(n)
int(f)
int(n * 0.5)
int(n / 2)
int(b)
int(u)
int(uf)
int(ub)
float(n)
float(n / 2)
float(f)
float(b)
float(u)
float(uf)
bool(n)
bool(n - 6)
bool(f)
bool(b)
bool(u)
complex(n)
str(n)
repr(n)
operator.index(n)
n.bit_length()
n.as_integer_ratio()
f.as_integer_ratio()
n.conjugate()
f.conjugate()
f.hex()
n.real
n.numerator
isinstance(n, int)
isinstance(n, (int, t.SymInt))
type(n) is int
bin(n)
hex(n)
divmod(f, 2)
f // 2
f // 0.75
f % 2
f % 0.75
f ** 2
f ** 0.5
2 ** f
f / 2
f / n
n / f
f + n
n - f
f * m
1.5 - f
1.5 / f
f + True
n + True
True + n
n + b
b + n
b + 1
1 + b
b + b
b * 2
b - 1
b / 2
n * b
b * 1.5
n // b
b // 2
b % 2
b ** 2
n == b
b == n
f + b
u % 3
-7 % (u + 20)
u // 2
(u - 1) // -2
u / 2
uf * 2
uf + n
uf // 0.5
uf % 0.7
n // 0.1
n % 0.1
operator.index(f)
operator.index(b)
[1, 2][b]
range(f)
divmod(u, 4)
~u
~ub
ub & b
ub | b
ub ^ b
ub + 1
ub == True
t.sym_float(ub)
t.sym_int(ub)
t.sym_max(u, 3)
t.sym_min(uf, 0.5)
t.sym_sqrt(u + 20)
(n & 3) + (n | 8)
(n << 2) ^ n
(n & 1) == 0
x[:(n & 3) + 1]
x[: n ^ 1]
x.new_zeros(round(n / 4))
""")

# Sizes as arguments of ops: those that PyTorch's schemas take as SymInt or Scalar stay open, plain ints fix the size.
ARGUMENTS = lines("""
t.linspace(0, 1, n)
t.linspace(0, n, 5)
t.logspace(0, 1, n)
t.hann_window(n)
t.hamming_window(n)
t.bartlett_window(n)
t.blackman_window(n)
t.kaiser_window(n)
t.tril_indices(n, n)
t.tril_indices(n, m, 1)
t.triu_indices(3, n)
x.chunk(n // 3)
x.chunk(2)
x.sum(n - 6)
x.sum(m - 4)
x.sum((n - 6,))
t.fft.fftfreq(n)
t.fft.rfftfreq(n)
t.fft.fft(x, n).real
t.fft.rfft(x, m).real
t.stft(x.reshape(-1), 4, n - 4, return_complex=True).real
t.nn.functional.affine_grid(t.ones(1, 2, 3), (1, 1, n, m), False)
x.diagonal(n - 6)
t.diagonal(x, m - 4)
t.diag(x[0], n - 5)
t.tril(x, n - 6)
t.triu(x, m - 4)
x.roll(n - 5, 0)
x.roll(n - 5)
x.unsqueeze(n - 6)
x.transpose(n - 6, 1)
x.select(0, n - 1)
x.narrow(0, n - 6, 2)
x.narrow(0, 0, n - 2)
x.split(n - 3)
x.split([n - 2, 2])
x.repeat(n - 5, 1)
x.repeat_interleave(n - 4, 0)
x.expand(n, m)
x[0].expand(n, m)
x.reshape(m, n)
x.view(n * m)
x.unfold(0, n - 3, 1)
x.unfold(0, 3, n - 4)
t.arange(n)
t.arange(0, n)
t.arange(0, n, 2)
t.arange(0, 20, n - 4)
t.arange(f)
t.eye(n)
t.eye(n, m)
t.zeros(n, m)
t.zeros((n, 2))
t.full((n,), n)
t.full((2,), f)
t.full((2,), n)
t.ones(n).sum()
t.randperm(n).sum()
t.empty(n).shape[0]
t.topk(x, n - 4, 0)[0]
t.kthvalue(x, n - 4, 0)[0]
t.sort(x, n - 6)[0]
t.argsort(x, n - 6)
t.softmax(x, n - 6)
x.softmax(m - 3)
t.cumsum(x, n - 6)
t.argmax(x, n - 6)
t.max(x, n - 6)[0]
t.norm(x, n - 4)
x.norm(2, n - 6)
t.nn.functional.one_hot(t.arange(4), n)
t.bincount(t.arange(4), minlength=n)
t.nn.functional.pad(x, (0, n - 4))
t.nn.functional.pad(x, (n - 4, 1), value=n)
t.nn.functional.avg_pool2d(x[None, None], n - 4)
t.nn.functional.max_pool2d(x[None, None], n - 4)
t.nn.functional.adaptive_avg_pool2d(x[None, None], n - 3)
t.nn.functional.adaptive_avg_pool2d(x[None, None], (n, 2))
t.nn.functional.interpolate(x[None, None], (n, m * 2))
t.nn.functional.interpolate(x[None, None], size=n)
t.nn.functional.interpolate(x[None, None], scale_factor=n - 4)
t.nn.functional.unfold(x[None, None], n - 4)
t.nn.functional.conv2d(x[None, None], t.ones(1, 1, 2, 2), stride=n - 5)
t.nn.functional.conv2d(x[None, None], t.ones(1, 1, 2, 2), padding=n - 5)
t.nn.functional.layer_norm(x, (m,))
t.nn.functional.group_norm(x[None], n - 4)
t.pixel_shuffle(t.ones(1, 4, 2, 2), n - 4)
x.clamp(0, n)
x.clamp(0, n / 4)
x.clamp(max=f)
x + n
x.add(x, alpha=n)
x.sub(x, alpha=f)
x.mul(n)
x.pow(n - 4)
x.masked_fill(x > 0, n)
t.where(x > 0, x, n)
t.where(x > 0, n, x)
t.where(x > 0, n, 0)
x.fill_(n)
x.index_fill(0, t.tensor([0]), n)
x.scatter(0, t.zeros(1, m, dtype=t.int64), n)
t.nn.functional.threshold(x, n, 0)
t.nn.functional.leaky_relu(x, n)
t.nn.functional.dropout(x, n - 6)
t.nn.functional.hardtanh(x, -n, n)
t.addmm(x, x, t.eye(4), beta=n)
t.tensor(n)
t.tensor([n, 2])
t.tensor([n, m])
t.tensor([[n, 1], [m, 2]])
t.tensor(f)
t.tensor([f, 1.0])
t.tensor(n, dtype=t.float32)
t.tensor(b)
t.tensor([n > 7, True])
t.tensor(u)
t.tensor([u, 1])
t.tensor(uf)
t.as_tensor(n)
t.as_tensor([n, 2])
t.scalar_tensor(n)
t.tensor(x.shape)
t.tensor(list(x.shape))
t.LongTensor([n, 2])
x.new_tensor([n, 2])
x.new_tensor(n)
x.new_zeros(n)
x.new_full((2,), n)
x.new_ones(x.shape)
x.shape
x.size()
list(x.shape)
x.shape[1:]
x.shape[:1] + (3,)
t.Size([n, 3])
t.Size((n, m)).numel()
x.shape.numel()
x.numel()
x.numel() * 2
x.dim() + n
x.stride(0)
x.stride()
x.storage_offset()
x[1:].storage_offset()
x.element_size() * n
x.shape == (6, 4)
x.shape == t.Size([6, 4])
x.shape[0] == 6
x.shape == x[:].shape
len(x.shape)
sum(x.shape)
max(x.shape)
6 in x.shape
x.shape.index(6)
x.shape.count(6)
hash(x.shape)
tuple(x.shape)
x.size(n - 6)
x.size(-1)
x.flatten(n - 6)
x.movedim(n - 6, 1)
x.permute(n - 5, n - 6)
t.stack([x, x], n - 6)
t.cat([x, x], n - 6)
x.gather(n - 6, t.zeros(1, m, dtype=t.int64))
t.linalg.vector_norm(x, n - 4)
t.linalg.matrix_power(t.eye(3), n - 4)
t.tensor_split(x, n - 4)
t.tensor_split(x, (n - 4,))
t.block_diag(x, x).shape[0]
t.var(x, correction=n - 5)
t.std(x, n - 6)
x.std(0, correction=n - 5)
t.quantile(x, 0.5, n - 6)
t.isclose(x, x, atol=n)
t.nan_to_num(x, n)
t.round(x, decimals=n - 5)
t.bitwise_left_shift(t.arange(3), n - 5)
t.arange(3) << n
t.arange(3) & n
n & t.arange(3)
n << t.arange(3)
x[n - 6:n - 2:n - 5]
x[..., m - 1]
x[[0, n - 1]]
x[t.tensor([0, 1])][n - 5]
x[n - 1].item() > 0
x.tolist()
t.atleast_2d(n)
t.is_tensor(n)
t.broadcast_shapes((n, 1), (1, m))
t.broadcast_to(x[0], (n, m))
t.meshgrid(t.arange(n), t.arange(m), indexing="ij")[0]
t.combinations(t.arange(n))
t.cartesian_prod(t.arange(n), t.arange(2))
t.vander(t.arange(4), n - 3)
t.tensor([n, 0.5])
t.tensor(ub)
t.tensor(x.shape[:0] + (n,))
{"size": x.shape, "n": n}
""")
