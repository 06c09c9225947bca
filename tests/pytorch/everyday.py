"""How the everyday programs are run (everyday_models.py and its neighbours).

A program is a generator that is given `c`, which compiles: it makes its own models, calls c(...) of what is to be
compiled, and yields what is to be equal, plain and compiled. It is run twice from one seed; `breaks` says at how many
places captures end at most (torch's own Python runs otherwise once it has done something before), 0 where each call is
one graph, so that a lost capture shows."""

import contextlib
import dataclasses
import io
import warnings

import cresset
import torch

PROGRAMS = {}


def program(function=None, *, breaks=0):
    """breaks: at how many places captures end, at most."""

    def keep(f):
        assert f.__name__ not in PROGRAMS, f.__name__
        PROGRAMS[f.__name__] = (f, breaks)
        return f

    return keep(function) if function else keep


# ---- what is seen ----


def flat(value, found, name=""):
    """Leaves by name; containers leave their class behind."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found.append((name, type(value).__name__))
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        found.append((name, f"{type(value).__name__} {list(value)}"))
        for key, item in value.items():
            flat(item, found, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        found.append((name, f"{type(value).__name__} of {len(value)}"))
        for k, item in enumerate(value):
            flat(item, found, f"{name}[{k}]")
    else:
        found.append((name, value))
    return found


def seen(value):
    """[(name, what it is)]: values, kinds, which tensors are one object and which share memory."""
    told, objects, places = [], {}, {}
    for name, item in flat(value, []):
        if not isinstance(item, torch.Tensor):
            told.append((name, item))
            continue
        if item.layout != torch.strided:
            told.append((name, item.layout, item.detach().to_dense().clone()))
            continue
        memory = item.untyped_storage()._cdata
        told.append(
            (
                name,
                item.detach().clone(),
                type(item).__name__,
                item.requires_grad,
                item.stride() if item.numel() else (),
                objects.setdefault(id(item), name),
                places.setdefault(memory, name) if item.numel() else None,
                item._version if name.startswith(OUTSIDE) and not item.is_inference() else None,
            )
        )
    return told


OUTSIDE = ("['args']", "['kwargs']", "['buffers']", "['parameters']")  # of results torch counts writes of its own


NEAR = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float64: 1e-8, torch.complex128: 1e-8}


def same(a, b):
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if not isinstance(a, torch.Tensor):
        return a == b or (a != a and b != b)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if not a.is_floating_point() and not a.is_complex():
        return torch.equal(a, b)
    if not a.numel():
        return True
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b))
    finite = b[b.isfinite()].abs()
    near = NEAR.get(a.dtype, 2e-4)
    return torch.allclose(
        a, b, rtol=near, atol=near * max(5e-2, finite.max().item() if finite.numel() else 0), equal_nan=True
    )


# ---- running a program ----


class Compiler:
    """The `c` of a program: keeps what it compiled, to count breaks."""

    def __init__(self, compile=None):
        self.compile, self.made = compile, []

    def __call__(self, function, **options):
        if self.compile is None:
            return function
        made = self.compile(function, **options)
        self.made.append(getattr(made, "_compiled", made))
        return made

    def broken(self):
        """Why captures ended, and where: one of the functions in each other that a break leaves is enough."""
        return sorted(
            {
                e["reason"]
                for made in self.made
                if hasattr(made, "_entries")
                for e in made._entries()
                if e["reason"] is not None
            }
        )


def run(function, compiler):
    """What a program yields and prints, the warnings it gives and the state it leaves the generator in."""
    torch.manual_seed(5)
    out, told = io.StringIO(), []
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for value in function(compiler):
            told.append(seen(value))
    told.append(
        [
            ("printed", out.getvalue()),
            ("random", torch.get_rng_state().numpy().tobytes()),
            ("grad mode", torch.is_grad_enabled()),
        ]
    )
    told.append(
        [
            (
                "warnings",
                sorted(
                    {
                        str(w.message).partition("\n")[0]
                        for w in caught
                        if w.category is UserWarning
                        and "cresset" not in str(w.message)
                        and "Triggered internally" not in str(w.message)
                    }
                ),
            )
        ]
    )
    return told


def told(x, y):
    """What of two things differs, in short."""
    parts = []
    for a, b in zip(x[1:], y[1:]):
        if not same(a, b):
            tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape
            parts.append(
                f"{a.dtype} {list(a.shape)} off by {(a.double() - b.double()).abs().max().item():.3g}, here {b.dtype}"
                if tensors and a.numel()
                else f"{a}, here {b}"[:400]
            )
    return "; ".join(parts) if len(x) == len(y) else f"{x[1:]}, here {y[1:]}"[:400]


def differences(theirs, ours):
    found = [] if len(theirs) == len(ours) else [f"{len(theirs)} values, here {len(ours)}"]
    for k, (a, b) in enumerate(zip(theirs, ours)):
        if [x[0] for x in a] != [x[0] for x in b]:
            found.append(f"value {k}: {a}, here {b}"[:600])
            continue
        found += [f"value {k}{x[0]}: {told(x, y)}" for x, y in zip(a, b) if not same(x, y)]
    return found


def eager(function, **options):
    return cresset.compile(function, backend="eager", **options)


def waiting(function, **options):
    """Native code that the first call waits for."""
    return cresset.compile(function, options={"wait": True}, **options)


def by_torch(function, **options):
    return torch.compile(function, backend="cresset", **options)


# ---- what most programs do: a function or model on several arguments, with gradients and without ----


def calls(c, f, make, sizes=(3, 3, 5, 2), grads=(True, False), step=None, mode=None):
    """Yields the result, the arguments afterwards, their gradients and those of f's parameters, of f on make(n)."""
    module = f if isinstance(f, torch.nn.Module) else getattr(f, "__self__", None)
    module = module if isinstance(module, torch.nn.Module) else None
    g = c(f)
    for on in grads:
        for n in sizes:
            args = make(n)
            kwargs = args if isinstance(args, dict) else {}
            args = () if isinstance(args, dict) else args if isinstance(args, tuple) else (args,)
            result, error = None, None
            with (mode or torch.set_grad_enabled)(on):
                try:
                    result = g(*args, **kwargs)
                except Exception as e:
                    error = type(e).__name__, str(e)[:60]
            yield {
                "error": error,
                "result": result,
                "args": args,
                "kwargs": kwargs,
                "gradients": walk(result, [args, kwargs], module),
                "buffers": dict(module.named_buffers()) if module else None,
                "parameters": dict(module.named_parameters()) if module else None,
            }
            if step:
                step(n)
            if module:
                change(module)


def change(module):
    """Other weights, from no random number."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            if p.is_floating_point() and not isinstance(p, torch.nn.parameter.UninitializedParameter):
                p.mul_(0.9 + 0.01 * (k % 7))


def walk(result, args, module):
    due = [t for _, t in flat(result, []) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [t for _, t in flat(args, []) if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf]
    if module is not None:
        leaves += list(module.parameters())
    if due:
        parts = [torch.view_as_real(t) if t.is_complex() else t for t in due]
        sum((t * torch.arange(1, t.numel() + 1).cos().reshape(t.shape).to(t.dtype)).sum() for t in parts).backward()
    found = [None if t.grad is None else t.grad.clone() for t in leaves]
    for t in leaves:
        t.grad = None
    return found


def leaf(*sizes, **options):
    return torch.randn(*sizes, **options).requires_grad_()
