"""Random programs: a seed gives a module's source, its parameters and its calls. PyTorch exports it; the archive is run
by the interpreter and as a method of a library, and all three must agree, results and what the calls wrote to inputs
and buffers alike.

A program grows line by line: a template with random operands is tried on real tensors and kept when PyTorch accepts it.
Values that went through rounding are *inexact*; lines whose result jumps (comparisons, rounding, sorting) only take
exact ones, so that a last bit never becomes an error.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import types
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import agreement  # noqa: E402
import cresset  # noqa: E402
import library  # noqa: E402
import numpy  # noqa: E402
import programs_native  # noqa: E402
import torch  # noqa: E402

MOST_ELEMENTS = 6000
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
OTHERS = (torch.int64, torch.int32, torch.bool, torch.uint8)

# Kinds of lines: `rounds` makes inexact values, `moves` keeps exactness, `jumps` wants exact operands, `writes` changes
# its first operand, which must be a value made here and not a parameter. {a} {b} {c} operands, {f} a float, {i} a small
# integer, {d} a dimension of {a}, {e} another one, {w} a weight.
LINES = {
    "rounds": """
torch.exp({a}.clamp(-3, 3)) | torch.tanh({a}) | torch.sigmoid({a}) | torch.sin({a}) | torch.log1p({a}.abs()) | torch.sqrt({a}.abs() + {f})
torch.rsqrt({a}.abs() + 0.5) | torch.erf({a}) | F.gelu({a}) | F.gelu({a}, approximate="tanh") | F.silu({a}) | F.softplus({a}) | F.elu({a})
F.mish({a}) | F.hardswish({a}) | F.leaky_relu({a}, 0.1) | {a} + {b} | {a} * {b} | {a} - {b} | {a} * {f} | {a} + {f} | {f} - {a}
{a} / ({b}.abs() + 1.5) | torch.addcmul({a}, {b}, {b}, value={f}) | torch.lerp({a}, {b}, {f}) | {a}.sum({d}) | {a}.mean({d}, keepdim=True)
{a}.mean({d}) | {a}.var({d}, correction=0) | {a}.float().logsumexp({d}) | {a}.cumsum({d}) | {a}.sum() | torch.linalg.vector_norm({a}.float(), dim={d})
torch.softmax({a}, {d}) | F.log_softmax({a}, {d}) | F.layer_norm({a}, {a}.shape[-1:]) | F.normalize({a}, dim={d}) | F.rms_norm({a}, {a}.shape[-1:])
F.softmin({a}, {d}) | F.layer_norm({a}, {a}.shape[-1:], {w:last}, {w:last}) | F.linear({a}, {w:last,8}) | F.linear({a}, {w:last,24}, {w:24})
F.relu(F.linear({a}, {w:last,16}, {w:16})) | {a} @ {w:last,5}.t() | {a} @ {b} | torch.matmul({a}, {b}.transpose(-1, -2))
F.conv1d({a}, {w:second,3,k}, padding=1) | F.conv2d({a}, {w:second,8,k,k}, {w:8}, padding=1) | F.conv2d({a}, {w:second,16,1,1})
F.conv2d({a}, {w:second,4,k,k}, stride=2) | F.conv_transpose2d({a}, {w:second,4,2,2}, stride=2)
F.batch_norm(F.conv2d({a}, {w:second,8,k,k}, padding=1), {w:8}, {w:8}.abs() + 0.5, {w:8}, {w:8}) | F.avg_pool2d({a}, 2)
F.adaptive_avg_pool2d({a}, 1) | F.interpolate({a}, scale_factor=2, mode="bilinear") | F.scaled_dot_product_attention({a}, {a}, {a})
F.scaled_dot_product_attention({a}, {a}, {a}, is_causal=True) | F.group_norm({a}, 1) | torch.einsum("...i,...j->...ij", {a}, {b}) | F.glu({a}, {d})
F.prelu({a}, {w:1}) | torch.where({m}, {a}, {b}) + {f} | {a}.masked_fill({m}, {f}) * 0.5 | F.pad({a}, (1, 2), value={f}) * {f}
torch.cat([{a}, {a} * {f}], {d}) | ({a} * {a}).flip({d}) | {a}.float().std({d})
""",
    "moves": """
{a}.relu() | -{a} | {a}.abs() | {a}.clone() | {a}.transpose({d}, {e}) | {a}.transpose({d}, {e}).contiguous() | {a}.unsqueeze({d}) | {a}.flatten()
{a}.flatten(0, 1) | {a}.reshape({a}.shape[0], -1) | {a}.squeeze() | {a}[1:] | {a}[..., :-1] | {a}[:, ::2] | {a}[..., 0] | {a}[None]
{a}.narrow({d}, 0, 1) | {a}.expand(2, *{a}.shape) | {a}.flip({d}) | {a}.roll(1, {d}) | {a}.repeat(2, *[1] * ({a}.dim() - 1)) | {a}.movedim(0, -1)
torch.cat([{a}, {a}], {d}) | torch.stack([{a}, {a}], {d}) | {a}.chunk(2, {d})[0] | {a}.split(2, {d})[-1] | {a}.unbind({d})[0] | F.pad({a}, (1, 1))
F.pad({a}, (0, 1, 2, 0)) | {a}.unfold({d}, 2, 1) | torch.tril({a}) | torch.triu({a}, 1) | torch.maximum({a}, {b}) | torch.minimum({a}, {b})
{a}.clamp(-1, 1) | {a}.clamp(min={f}) | {a}.amax({d}) | {a}.amin({d}, keepdim=True) | {a}.double() | {a}.float() | torch.where({m}, {a}, {b})
{a}.masked_fill({m}, 0.0) | torch.hardtanh({a}) | F.max_pool2d({a}, 2) | {a}.index_select({d}, {x:d})
torch.gather({a}, {d}, torch.zeros_like({a}, dtype=torch.int64)) | {a}[{x:0}] | {a}.take_along_dim(torch.zeros_like({a}, dtype=torch.int64), {d})
torch.zeros_like({a}) | torch.ones_like({a}) | {a}.new_full((3,), {f}) | {a}.contiguous() | {a}.permute(*reversed(range({a}.dim()))) | {a}.diagonal()
F.embedding({x:4}, {w:4,6}) | {w:6,4}[{x:6}] | torch.arange({a}.shape[{d}], dtype=torch.float32) | torch.full_like({a}, {f})
{a}.unflatten(0, (1, -1)) | F.interpolate({a}, scale_factor=2) | {a}.to(memory_format=torch.channels_last)
torch.index_add(torch.zeros_like({a}), 0, {x:0}, {a}[{x:0}])
""",
    "jumps": """
{a} > {b} | {a} == {b} | {a} <= {f} | {a} != 0 | torch.isnan({a}) | torch.sign({a}) | torch.floor({a}) | torch.round({a}) | torch.trunc({a})
{a}.argmax({d}) | {a}.to(torch.int64) | {a}.to(torch.bool) | torch.sort({a}, {d}, stable=True)[0] | torch.topk({a}, 1, {d})[0] | {a}.any({d})
{a}.all() | torch.logical_and({a}, {b}) | torch.logical_not({a}) | torch.eq({a}, {a}.flip({d})) | {a}.bool() ^ {b}.bool() | torch.heaviside({a}, {b})
{a}.cummax({d})[0] | torch.frac({a})
""",
    "writes": """
{t}.add_({f}) | {t}.mul_({f}) | {t}.relu_() | {t}[0] = {f} | {t}.copy_({t} * {f}) | {t}[..., 1:].mul_({f})
{t}.transpose(0, -1).add_({t}.transpose(0, -1)) | {t}.zero_() | {t}.clamp_(-1, 1) | {t}.masked_fill_({t} > {t}, {f}) | self.state.add_({f})
self.state.mul_({f})
""",
}
LINES = {kind: [one.strip() for row in text.strip().splitlines() for one in row.split(" | ")]
         for kind, text in LINES.items()}


class Grown:
    """A program while it grows."""

    def __init__(self, number):
        self.r = random.Random(number)
        self.number, self.lines, self.exact = number, [], {}
        self.module = torch.nn.Module()
        self.values = {"self": self.module, "torch": torch, "F": torch.nn.functional}
        self.torch = torch.Generator().manual_seed(number)
        self.dynamic = self.r.random() < 0.4
        self.inputs, self.writable = [], set()
        self.rename("state", torch.nn.Buffer(torch.ones(3)))

    def rename(self, name, value):
        """Parameters are named by program: many programs share a library."""
        full = f"p{self.number}_{name}"
        setattr(self.module, full, value)
        return full

    def random(self, shape, dtype):
        if dtype is torch.bool:
            return torch.randint(0, 2, shape, generator=self.torch).bool()
        if not dtype.is_floating_point:
            return torch.randint(0 if dtype is torch.uint8 else -5, 6, shape, generator=self.torch, dtype=dtype)
        return torch.randn(shape, generator=self.torch).to(dtype)

    def weight(self, spec, a):
        sizes = []
        for word in spec.split(","):
            if word == "last":
                sizes.append(a.shape[-1])
            elif word == "second":
                sizes.append(a.shape[1])
            else:
                sizes.append(3 if word == "k" else int(word))
        if len(sizes) > 1:  # the operand's size comes first in the text, the result's in the weight
            sizes = [sizes[1], sizes[0], *sizes[2:]] if spec.split(",")[0] in ("last", "second") else sizes
        name = self.rename(f"w{len(self.module._parameters)}",
                torch.nn.Parameter(self.random(sizes, torch.float32) / max(1, sizes[-1]) ** 0.5, requires_grad=False))
        return f"self.{name}"

    def indices(self, spec, a, d):
        limit = a.shape[d] if spec == "d" else a.shape[int(spec)] if int(spec) < a.dim() and spec == "0" else int(spec)
        name = self.rename(f"i{len(self.module._buffers)}",
                torch.nn.Buffer(torch.randint(0, max(1, limit), (self.r.choice((1, 3, 4)),), generator=self.torch)))
        return f"self.{name}"

    def fill(self, template, exact_only):
        """The template as a line of code; None when there are no operands for it."""
        r = self.r
        tensors = [n for n, v in self.values.items() if isinstance(v, torch.Tensor)
                   and (self.exact[n] or not exact_only)]
        recent = tensors[-6:] + [r.choice(tensors)] if tensors else []
        if not recent:
            return None
        a, b = r.choice(recent), r.choice(tensors)
        value = self.values[a]
        d = r.randrange(value.dim()) if value.dim() else 0
        out = template
        if "{t}" in out:
            targets = [n for n in tensors if n in self.writable]
            if not targets:
                return None
            out = out.replace("{t}", r.choice(targets))
        if "{m}" in out:
            exact = [n for n in tensors if self.exact[n]]
            out = out.replace("{m}", f"({r.choice(exact)} > 0)") if exact else None
        while out and "{w:" in out:
            begin, end = out.index("{w:"), out.index("}", out.index("{w:"))
            out = out[:begin] + self.weight(out[begin + 3:end], value) + out[end + 1:]
        while out and "{x:" in out:
            begin, end = out.index("{x:"), out.index("}", out.index("{x:"))
            out = out[:begin] + self.indices(out[begin + 3:end], value, d) + out[end + 1:]
        if out:
            parts = {"{a}": a, "{b}": b, "{d}": str(d), "{e}": str(r.randrange(max(1, value.dim()))),
                     "{f}": repr(r.choice((0.5, 2.0, -1.25, 0.1, 3)))}
            for key, text in {**parts, "self.state": f"self.p{self.number}_state"}.items():
                out = out.replace(key, text)
        return out

    def try_line(self):
        kind = self.r.choices(("rounds", "moves", "jumps", "writes"), (50, 38, 8, 6))[0]
        before = (dict(self.module._parameters), dict(self.module._buffers))
        try:
            line = self.fill(self.r.choice(LINES[kind]), kind == "jumps")
            if line and self.accept(line, kind):
                return True
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AttributeError):
            pass
        self.module._parameters, self.module._buffers = before
        return False

    def accept(self, line, kind):
        if kind == "writes":
            trial = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in self.values.items()}
            exec(line, trial)  # aliases are not kept by the trial: the whole program runs again at the end
            self.lines.append(line)
            for name in self.exact:
                self.exact[name] = False
            return True
        name = f"v{len(self.lines)}"
        value = eval(line, dict(self.values))
        if not isinstance(value, torch.Tensor) or value.numel() > MOST_ELEMENTS or value.dim() > 5:
            return False
        words = re.findall(r"\w+", line)
        used = [n for n in self.exact if n in words]
        if value.is_floating_point() and value.isfinite().any() and value[value.isfinite()].abs().max() > 1e4:
            return False
        self.lines.append(f"{name} = {line}")
        self.values[name] = value
        self.exact[name] = kind != "rounds" and all(self.exact[n] for n in used)
        if not any(word in line for word in ("expand", "unfold", "new_full")):
            self.writable.add(name)
        return True

    def add_inputs(self):
        """Sizes come from few numbers, so that operands broadcast and multiply."""
        sizes = self.r.sample(SIZES, 3)
        for i in range(self.r.choice((1, 2, 2, 3))):
            rank = self.r.choice((1, 2, 2, 3, 3, 4))
            shape = [self.r.choice((*sizes, 1) if not self.dynamic else sizes) for _ in range(rank)]
            if self.r.random() < 0.03 and not self.dynamic:
                shape[0] = 0
            tensor = self.random(shape, self.r.choice(FLOATS if self.r.random() < 0.8 else OTHERS))
            if rank > 1 and self.r.random() < 0.2:
                tensor = tensor.transpose(0, 1).contiguous().transpose(0, 1)
            name = f"x{i}"
            self.inputs.append(name)
            self.values[name], self.exact[name] = tensor, True
            if self.r.random() < 0.1:
                self.writable.add(name)


def grow(number, most=14):
    g = Grown(number)
    g.add_inputs()
    given = {name: g.values[name].clone(memory_format=torch.preserve_format) for name in g.inputs}
    wanted = g.r.randrange(3, most)
    for _ in range(wanted * 8):
        if len(g.lines) >= wanted:
            break
        g.try_line()
    made = [n for n in g.values if n.startswith("v")]
    results = made[-1:] + g.r.sample(made, min(len(made), g.r.choice((0, 1, 2)))) or g.inputs[:1]
    source = "\n    ".join([f"def forward(self, {', '.join(g.inputs)}):", *g.lines, f"return {', '.join(results)},"])
    # a sum in float32 stays one in float64
    tolerance = max(agreement.TOLERANCE.get(str(v.dtype)[6:], 0) for v in g.values.values() if isinstance(v,
            torch.Tensor))
    return written(number, source, tuple(given.values()), g.dynamic, tolerance, g.module)


def written(number, source, args, dynamic, tolerance=1e-4, module=None, **tensors):
    """A program from its text; `tensors` are the module's own."""
    module = module or torch.nn.Module()
    for name, value in tensors.items():
        setattr(module, name, torch.nn.Parameter(value, requires_grad=False) if "_w" in name
                else torch.nn.Buffer(value))
    scope = {"torch": torch, "F": torch.nn.functional}
    exec(source, scope)
    module.__class__ = type("Random", (torch.nn.Module,), {"forward": scope["forward"]})
    return types.SimpleNamespace(number=number, module=module, source=source, args=args, dynamic=dynamic,
                                 tolerance=tolerance or None)


def resized(program, r):
    """Other arguments for a dynamic program: every size that was n becomes another number, the same one everywhere."""
    sizes = sorted({s for a in program.args for s in a.shape if s > 1})
    other = {s: r.choice([n for n in range(2, 24)]) for s in sizes}
    torch.manual_seed(r.randrange(1 << 30))
    def one(a):
        shape = [other.get(s, s) for s in a.shape]
        return torch.randn(shape).to(a.dtype) if a.is_floating_point() else torch.randint(0, 5, shape).to(a.dtype)
    return tuple(one(a) for a in program.args)


def run_torch(module, calls):
    """Results of the calls and the arguments after them."""
    found = []
    with torch.no_grad():
        for args in calls:
            args = tuple(a.clone(memory_format=torch.preserve_format) for a in args)
            found.append((agreement.plain(list(module(*args)), torch.Tensor),
                          agreement.plain(list(args), torch.Tensor)))
    return found


def export(program, path):
    """Saves the archive and adds `calls` and `wanted` to the program. False: PyTorch itself refuses it, or does not
    agree with itself."""
    import copy
    shapes = tuple({d: torch.export.Dim.AUTO for d in range(a.dim())}
                   for a in program.args) if program.dynamic else None
    fresh = copy.deepcopy(program.module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(program.module, program.args, dynamic_shapes=shapes, strict=False)
            if program.number % 2:
                exported = exported.run_decompositions()
            torch.export.save(exported, path)
            calls = [program.args]
            if program.dynamic:
                r = random.Random(program.number)
                for _ in range(6):
                    args = resized(program, r)
                    try:
                        run_torch(exported.module(), [args])
                        run_torch(copy.deepcopy(fresh), [args])
                    except Exception:
                        continue
                    calls.append(args)
            program.calls = calls[:3]
            program.fresh = copy.deepcopy(fresh)
            program.wanted = run_torch(fresh, program.calls)
            itself = run_torch(exported.module(), program.calls)
        except Exception as error:
            program.refused = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            return False
    program.refused = agreement.difference([list(pair) for pair in program.wanted], [list(pair) for pair in itself],
                                           program.tolerance, "PyTorch against itself")
    return program.refused is None


def in_double(program):
    """The calls' results in double precision throughout; None where PyTorch does not take that."""
    import copy
    wide = lambda a: a.double() if a.is_floating_point() else a
    try:
        return run_torch(copy.deepcopy(program.fresh).double(), [tuple(map(wide, args)) for args in program.calls])
    except RuntimeError:
        return None


def is_nearer(program, number, index, got):
    """Is the result no farther from the one in double precision than PyTorch's is? A last bit that a program blows up
    is nobody's error."""
    exact = in_double(program)
    if exact is None:
        return False
    exact, want = exact[number][0][index].array, program.wanted[number][0][index].array
    if exact.shape != got.array.shape or exact.dtype != numpy.float64 or not numpy.isfinite(exact).all():
        return False
    return bool(numpy.abs(got.array - exact).max() <= 1.1 * numpy.abs(want - exact).max())


def compared(program, way, number, got, args):
    """None, or how one call's results or its arguments afterwards differ."""
    want, written = program.wanted[number]
    for index, (w, g) in enumerate(zip(want, got, strict=True)):
        problem = agreement.difference(w, g, program.tolerance, f"{way}, call {number}[{index}]")
        if problem and not is_nearer(program, number, index, g):
            return problem
    return agreement.difference(written, args, program.tolerance, f"{way}, inputs after call {number}")


def interpreted(program, path):
    module = cresset.export.load(path).module()
    for number, args in enumerate(program.calls):
        args = [cresset.from_dlpack(a.clone(memory_format=torch.preserve_format)) for a in args]
        got = agreement.plain(list(module(*args)), cresset.Tensor)
        problem = compared(program, "interpreter", number, got, agreement.plain(args, cresset.Tensor))
        if problem:
            return problem
    return None


def native(program, model, method):
    for number, args in enumerate(program.calls):
        args = [a.clone(memory_format=torch.preserve_format) for a in args]
        got = model(*map(programs_native.array, args), method=method)
        got = [agreement.Tensor(w.dtype, g) for w, g in zip(program.wanted[number][0], got, strict=True)]
        problem = compared(program, "native", number, got, agreement.plain(args, torch.Tensor))
        if problem:
            return problem
    return None


def check(numbers, folder, make=grow):
    """Programs of these seeds in one library: (number, outcome, text) each, outcome being equal, refused (by PyTorch)
    or differs."""
    folder, chosen, found = pathlib.Path(folder), [], []
    for number in numbers:
        program = make(number)
        path = folder / f"{number}.pt2"
        if export(program, path):
            chosen.append((program, path))
        else:
            found.append((number, "refused", program.refused))
    # a path of its own: dlopen knows libraries by their paths
    library_path = folder / f"random{numbers[0]}_{len(numbers)}.so"
    done = subprocess.run(["cresset", "compile", *(str(path) for _, path in chosen), "-o", str(library_path)],
                          capture_output=True, text=True, timeout=600) if chosen else None
    if done and done.returncode:
        if len(chosen) == 1:
            return found + [(chosen[0][0].number, "differs", f"{done.stderr.strip()}\n{chosen[0][0].source}")]
        for program, _ in chosen:  # one at a time, to see which
            found += check([program.number], folder, make)
        return found
    model = library.Model(library_path, threads=2) if chosen else None
    for method, (program, path) in enumerate(chosen):
        try:
            problem = interpreted(program, path) or native(program, model, method)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        found.append((program.number, "differs",
                f"{problem}\n{program.source}\n{[(tuple(a.shape), a.dtype) for a in program.args]}") if problem
                     else (program.number, "equal", ""))
        path.unlink()
    if model:
        os.unlink(library_path)
    return found
