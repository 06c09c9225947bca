"""Derivatives of the op table against PyTorch's: one op at a time, on the samples of the sweep, in float64 and complex128."""
import warnings

import cresset
import harness
import samples
import sweep
import torch

DTYPES = [torch.float64, torch.complex128]


def arguments(op, c):
    """The call's arguments in the order of the schema, defaults filled in."""
    values = list(c.args)
    for a in op._schema.arguments[len(values):]:
        values.append(c.kwargs[a.name] if a.name in c.kwargs else a.default_value)
    return values


def leaves(values):
    """(index of the argument, place in its list or None, tensor) for all that can have a gradient."""
    found = []
    for i, v in enumerate(values):
        for k, t in enumerate(v) if isinstance(v, (list, tuple)) else [(None, v)]:
            if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex()):
                found.append((i, k, t))
    return found


def marked(value):
    """The value with every tensor in it that can have a gradient asking for one."""
    if isinstance(value, (list, tuple)):
        return [marked(v) for v in value]
    floats = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    return value.detach().requires_grad_() if floats else value


def theirs(op, values):
    """PyTorch's (seeds, gradients), or None when it gives no derivative here."""
    written = [a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments]
    values = [v if w else marked(v) for v, w in zip(values, written)]
    positional = [a for a in op._schema.arguments if not a.kwarg_only]
    named = {a.name: m for a, m in zip(op._schema.arguments, values) if a.kwarg_only}
    results = op(*values[:len(positional)], **named)
    results = list(results) if isinstance(results, tuple) else [results]
    flat = [t for r in results for t in (r if isinstance(r, (list, tuple)) else [r])]
    live = [t for t in flat if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn is not None]
    if not live:
        return None
    generator = torch.Generator().manual_seed(5)
    seeds = {id(t): torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in live}
    inputs = [t for _, _, t in leaves(values)]
    asked = [t for t in inputs if t.requires_grad]
    made = iter(torch.autograd.grad(live, asked, [seeds[id(t)] for t in live], allow_unused=True))
    grads = [next(made) if t.requires_grad else None for t in inputs]
    shaped = [[seeds.get(id(t)) for t in r] if isinstance(r, (list, tuple)) else seeds.get(id(r)) for r in results]
    return shaped, grads


def check(name, op, c):
    """"equal", "refused" (PyTorch has no derivative here), or raises Different."""
    values = arguments(op, c)
    torch.manual_seed(1234)
    try:
        want = theirs(op, [harness.twin(v) for v in values])
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError):
        return "refused"
    if want is None:
        return "refused"
    seeds, grads = want
    where = f"derivative of {name}({harness.describe(c)})"
    cresset.manual_seed(1234)
    try:
        got = cresset._C._reverse(name, [harness.ours(harness.twin(v)) for v in values], [harness.ours(s) for s in seeds])
    except Exception as error:  # noqa: BLE001 - any refusal is a difference
        raise harness.Different(f"{where}: {type(error).__name__}: {error}") from None
    for (i, k, t), g in zip(leaves(values), grads):
        mine = got[i] if k is None or got[i] is None else got[i][k]
        g = torch.zeros_like(t) if g is None else g
        mine = torch.zeros_like(t) if mine is None else harness.theirs(mine)
        if tuple(mine.shape) != tuple(g.shape) or mine.dtype != g.dtype or not harness.close(g, mine):
            raise harness.Different(f"{where}, argument {op._schema.arguments[i].name}:\n expected {g}\n got {mine}")
    return "equal"


def sweep_grads(name, dtypes=DTYPES, limit=None):
    counts, row, op = sweep.Counts(), cresset._C._row(name), sweep.torch_op(name)
    for dtype in dtypes:
        calls = list(samples.calls_for(row, op, dtype))
        for c in calls[:limit] if limit else calls:
            if sweep.departs(name, c) or sweep.departs(f"derivative of {name}", c):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    kind = check(name, op, c)
            except harness.Different as error:
                counts.failures.append(str(error))
                continue
            setattr(counts, kind, getattr(counts, kind) + 1)
    return counts
