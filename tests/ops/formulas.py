"""Derivatives and decompositions of rows. A derivative must equal PyTorch's gradients and central differences in f64; a
decomposition must equal its kernel on every sample."""
import cresset
import harness
import samples
import torch


# Gradients that PyTorch gets wrong: finite differences decide alone.
PYTORCH_IS_WRONG = {
    "aten::native_dropout",  # train=None scales the result, but not the gradient
    "aten::as_strided_scatter",  # its gradient of self is the one of the part that was overwritten
}


def differentiable(value):
    return isinstance(value, torch.Tensor) and (value.dtype.is_floating_point or value.dtype.is_complex)


def leaves(c):
    """The call with floating tensors made leaves that require gradients, and the leaves."""
    found = []

    def leaf(t):
        if not differentiable(t):
            return t
        t = t.detach().clone().requires_grad_()
        found.append(t)
        return t
    args = tuple(samples.map_tensors(a, leaf) for a in c.args)
    kwargs = {k: samples.map_tensors(v, leaf) for k, v in c.kwargs.items()}
    return args, kwargs, found


def by_return(results, f):
    """f of every tensor, one entry per return of the schema: a list for a list, None for what is no tensor."""
    one = lambda v: [one(x) for x in v] if isinstance(v, (list, tuple)) else f(v) if isinstance(v, torch.Tensor) else None
    return [one(v) for v in results] if isinstance(results, tuple) else [one(results)]


def flat_gradients(out):
    flat = []
    for g in out:
        flat.extend(g if isinstance(g, list) else [g])
    return flat


def check_derivative(name, op, c, seed=0):
    """Returns "equal", "constant" (nothing flows) or "refused"; raises harness.Different."""
    args, kwargs, inputs = leaves(c)
    where = f"{name}({harness.describe(c)})"
    torch.manual_seed(1234)
    results = harness.attempt(op, args, kwargs)
    if isinstance(results, harness.Refused) or not inputs:
        return "refused"
    outputs = results if isinstance(results, (list, tuple)) else [results]
    flat = harness.tensors(outputs)
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(t.shape, dtype=torch.float64, generator=generator).to(t.dtype) if differentiable(t) else None for t in flat]
    flows = [(t, g) for t, g in zip(flat, cotangents) if g is not None and t.requires_grad]
    if not flows:
        return "constant"
    want = harness.attempt(torch.autograd.grad, ([t for t, _ in flows], inputs, [g for _, g in flows]), {"allow_unused": True})
    seeds = {id(t): harness.ours(g) for t, g in flows}
    given = by_return(results, lambda t: seeds.get(id(t)))
    plain = lambda v: samples.map_tensors(v, lambda t: t.detach())
    cresset.manual_seed(1234)
    got = harness.attempt(cresset._C._derivative, (name, tuple(harness.ours(plain(a)) for a in args), {k: harness.ours(plain(v)) for k, v in kwargs.items()}, given), {})
    if isinstance(got, harness.Refused):
        if isinstance(want, harness.Refused):
            return "refused"
        raise harness.Different(f"{where}: no derivative: {got.error}")
    mine = gradients_of(c, got, name)
    if isinstance(want, harness.Refused) and all(g is None for g in mine):
        return "constant"  # PyTorch has no derivative, the row says that nothing flows
    if isinstance(want, harness.Refused) or name in PYTORCH_IS_WRONG:
        check_differences(where, op, args, kwargs, inputs, flows, flat, mine)
        return "equal"
    # Mixed inputs: the gradient was rounded to the lowest precision on its way.
    tolerance = max([(1e-6, 1e-8)] + [tuple(4 * v for v in harness.TOLERANCE[t.dtype]) for t in inputs + [t for t, _ in flows] if t.dtype not in (torch.float64, torch.complex128)])
    if len(mine) != len(want):
        raise harness.Different(f"{where}: {len(want)} gradients, got {len(mine)}")
    for i, (w, g, x) in enumerate(zip(want, mine, inputs)):
        w = torch.zeros_like(x) if w is None else w
        g = torch.zeros_like(x) if g is None else harness.theirs(g)
        if w.shape != g.shape or w.dtype != g.dtype:
            raise harness.Different(f"{where}: gradient {i} is {g.dtype}{list(g.shape)}, expected {w.dtype}{list(w.shape)}")
        if not torch.allclose(w.resolve_conj(), g, *tolerance, equal_nan=True):
            raise harness.Different(f"{where}: gradient {i} differs\n expected {w}\n got {g}")
    if "inexact gradient" in c.note:  # PyTorch's, and so ours, is not the derivative of what it computes
        return "equal"
    check_differences(where, op, args, kwargs, inputs, flows, flat, mine)
    return "equal"


def gradients_of(c, got, name):
    """Gradients of the floating tensors of the call, in the order of `leaves`."""
    names = [p.name for p in getattr_schema(name).arguments]
    by_name = dict(zip(names, got))
    chosen = []

    def take(value, gradient):
        if differentiable(value):
            chosen.append(gradient)
        elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            for v, g in zip(value, gradient if gradient is not None else [None] * len(value)):
                take(v, g)
    for value, parameter in zip(c.args, names):
        take(value, by_name[parameter])
    for key, value in c.kwargs.items():
        take(value, by_name[key])
    return chosen


def getattr_schema(name):
    import sweep
    return sweep.torch_op(name)._schema


def check_differences(where, op, args, kwargs, inputs, flows, flat, mine, step=1e-6):
    """Central differences of sum(result * cotangent) along one random direction."""
    if any(t.dtype != torch.float64 for t in inputs + [t for t, _ in flows]) or not all(t.numel() for t in inputs):
        return  # lower precision says nothing at this step
    index = [i for i, t in enumerate(flat) if any(t is f for f, _ in flows)]

    def value():
        with torch.no_grad():
            torch.manual_seed(1234)
            out = op(*args, **kwargs)
        now = harness.tensors(out if isinstance(out, (list, tuple)) else [out])
        return sum(float((now[i].double() * g.double()).sum()) for i, (_, g) in zip(index, flows))
    generator = torch.Generator().manual_seed(7)
    directions = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in inputs]
    for t, d in zip(inputs, directions):
        t.data.add_(d, alpha=step)
    high = value()
    for t, d in zip(inputs, directions):
        t.data.add_(d, alpha=-2 * step)
    low = value()
    for t, d in zip(inputs, directions):
        t.data.add_(d, alpha=step)
    numeric = (high - low) / (2 * step)
    analytic = sum(float((harness.theirs(g) * d).sum()) for g, d in zip(mine, directions) if g is not None)
    if numeric != numeric or abs(numeric) == float("inf"):
        return
    if abs(numeric - analytic) > 1e-4 * max(1.0, abs(numeric), abs(analytic)):
        raise harness.Different(f"{where}: directional derivative {analytic} but finite differences give {numeric}")


def check_second(name, op, c, step=1e-5):
    """The derivative of the derivative against central differences of the first, along one random direction. Saved results
    that a formula treats as constants show here, and nowhere else."""
    args, kwargs, inputs = leaves(c)
    where = f"{name}({harness.describe(c)})"
    row = cresset._C._row(name)
    with torch.no_grad():
        results = harness.attempt(op, args, kwargs)
    if isinstance(results, harness.Refused) or not inputs or "random" in row["tags"]:
        return "refused"
    outputs = results if isinstance(results, (list, tuple)) else [results]
    tensors = [t for t in inputs + harness.tensors(outputs) if differentiable(t)]
    if any(t.dtype != torch.float64 or not t.numel() or not t.isfinite().all() for t in tensors):
        return "refused"
    generator = torch.Generator().manual_seed(3)
    noise = lambda t: torch.randn(t.shape, dtype=torch.float64, generator=generator) if differentiable(t) else None
    plain = lambda v: samples.map_tensors(v, lambda t: t.detach())
    mine = lambda: (name, tuple(harness.ours(plain(a)) for a in args), {k: harness.ours(plain(v)) for k, v in kwargs.items()})
    given = by_return(results, lambda t: harness.ours(noise(t)) if differentiable(t) else None)
    weights = []
    for p in getattr_schema(name).arguments:
        position = [q.name for q in getattr_schema(name).arguments].index(p.name)
        value = args[position] if position < len(args) else kwargs.get(p.name)
        listed = isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value)
        weights.append([harness.ours(noise(v)) for v in value] if listed and all(differentiable(v) for v in value) else harness.ours(noise(value)))
    first = harness.attempt(cresset._C._derivative, (*mine(), given), {})
    if isinstance(first, harness.Refused) or all(g is None for g in first):
        return "constant"

    def slope():
        got = cresset._C._derivative(*mine(), given)
        return sum(float((harness.theirs(g) * harness.theirs(w)).sum())
                   for g, w in zip(flat_gradients(got), flat_gradients(weights)) if g is not None and w is not None)
    second = harness.attempt(cresset._C._second_derivative, (*mine(), given, weights), {})
    if isinstance(second, harness.Refused):
        if isinstance(second.error, NotImplementedError):
            return "absent"
        raise harness.Different(f"{where}: second derivative: {second.error}")
    directions = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in inputs]
    values = []
    for move in (1, -1, 0):
        saved = [t.detach().clone() for t in inputs]
        for t, d in zip(inputs, directions):
            t.data.add_(d, alpha=move * step)
        values.append(slope())
        for t, s in zip(inputs, saved):
            t.data.copy_(s)
    high, low, centre = values
    right, left, numeric = (high - centre) / step, (centre - low) / step, (high - low) / (2 * step)
    if not abs(right - left) <= 1e-2 * max(1.0, abs(numeric)):
        return "refused"  # a bend, or no number
    chosen = gradients_of(c, second, name)
    analytic = sum(float((harness.theirs(g) * d).sum()) for g, d in zip(chosen, directions) if g is not None)
    if abs(numeric - analytic) > 1e-4 * max(1.0, abs(numeric), abs(analytic)):
        raise harness.Different(f"{where}: second directional derivative {analytic} but finite differences give {numeric}")
    return "equal"


def check_decomposition(name, ours_op, c):
    where = f"{name}({harness.describe(c)})"
    args, kwargs = harness.ours(harness.twin(c.args)), {k: harness.ours(harness.twin(v)) for k, v in c.kwargs.items()}
    want = harness.attempt(ours_op, args, kwargs)
    if isinstance(want, harness.Refused):
        return "refused"
    args, kwargs = harness.ours(harness.twin(c.args)), {k: harness.ours(harness.twin(v)) for k, v in c.kwargs.items()}
    got = harness.attempt(cresset._C._decompose, (name, tuple(args), kwargs), {})
    if isinstance(got, harness.Refused):
        raise harness.Different(f"{where}: the decomposition refuses: {got.error}")
    as_list = lambda v: list(v) if isinstance(v, tuple) else v
    harness.compare(harness.theirs(as_list(want)), as_list(got), f"{where} decomposed", strides=False)
    return "equal"
