"""Derivatives and decompositions of rows.

A derivative is held against two oracles: PyTorch's gradients, and central differences of what PyTorch's op computes, in
f64 along one random direction. `check_derivative` says how the three compare:

    equal                            ours, PyTorch's and the differences agree (or the differences say nothing: a bend,
    an
                                     infinity, a low precision)
    exact where PyTorch's is not     ours agrees with the differences, PyTorch's does not
    inexact as PyTorch's             ours is PyTorch's gradient, and the differences show that it is not the derivative
    (an
                                     element written twice, neighbours that round differently on the way back)
    by differences                   PyTorch has no derivative; ours agrees with the differences

Everything else raises harness.Different. There is no list of names: each outcome is measured, call by call. A
decomposition must equal its kernel on every sample.
"""
import collections
import contextlib
import re

import cresset
import harness
import samples
import sweep
import torch
import undefined

PASSING = ("equal", "exact where PyTorch's is not", "inexact as PyTorch's", "by differences")
NOTES = PASSING[1:3]


def differentiable(value):
    return isinstance(value, torch.Tensor) and (value.dtype.is_floating_point or value.dtype.is_complex)


def overlaps(t):
    """Do two elements share memory (a stride of 0)?"""
    return any(n > 1 and not s for n, s in zip(t.shape, t.stride()))


def leaves(c, laid=None):
    """The call with floating tensors made leaves that require gradients, and the leaves. They keep their strides, or
    are `laid` out."""
    found = []

    def leaf(t):
        t = (laid or harness.twin)(t.detach())
        if differentiable(t):
            found.append(t.requires_grad_())
        return t
    remade = lambda v: harness.twin(v) if isinstance(v, torch.Generator) else samples.map_tensors(v, leaf)
    args, kwargs = tuple(remade(a) for a in c.args), {k: remade(v) for k, v in c.kwargs.items()}
    return args, kwargs, found


def movable(c, laid=None):
    """Leaves whose elements move each alone: dense, if two share memory."""
    return leaves(c, laid or (torch.clone if any(overlaps(t) for t in samples.flat(c) if differentiable(t)) else None))


def by_return(results, f):
    """f of every tensor, one entry per return of the schema: a list for a list, None for what is no tensor."""
    one = lambda v: [one(x) for x in v] if isinstance(v, (list, tuple)) else f(v) if isinstance(v,
            torch.Tensor) else None
    return [one(v) for v in results] if isinstance(results, tuple) else [one(results)]


def flat_gradients(out):
    flat = []
    for g in out:
        flat.extend(g if isinstance(g, list) else [g])
    return flat


class Case:
    """One call with PyTorch's results, and a random cotangent for every result that a gradient can come from. `refused`
    when PyTorch refuses the call or nothing has a gradient."""

    def __init__(self, name, op, c, seed=0, laid=None):
        self.name, self.op, self.call, self.laid, self.where = name, op, c, laid, f"{name}({harness.describe(c)})"
        self.flows = []  # (place among the results, result, cotangent)
        self.constants = set()  # parameters that PyTorch refuses when they require gradients
        while True:
            self.args, self.kwargs, self.inputs = leaves(c, laid)
            for t, p in zip(self.inputs, self.parameters()):
                t.requires_grad_(p not in self.constants)
            torch.manual_seed(1234)
            self.results = harness.attempt(op, self.args, self.kwargs)
            self.refused = isinstance(self.results, harness.Refused) or not self.inputs
            found = self.refused and self.inputs and re.search(r"not differentiable with respect to argument '(\w+)'",
                                                               str(self.results.error))
            if not found or found[1] not in self.wanted():
                break
            self.constants.add(found[1])
        if self.refused:
            return
        generator = torch.Generator().manual_seed(seed)
        for i, t in enumerate(harness.tensors(self.results if isinstance(self.results, (list, tuple))
                                              else [self.results])):
            if differentiable(t):
                wide = torch.complex128 if t.dtype.is_complex else torch.float64
                cotangent = torch.randn(t.shape, dtype=wide, generator=generator).to(t.dtype)
                if t.requires_grad:
                    self.flows.append((i, t, cotangent))

    def parameters(self):
        """The parameter that each input belongs to."""
        names, found = [p.name for p in self.op._schema.arguments], []
        for parameter, value in [*zip(names, self.call.args), *self.call.kwargs.items()]:
            samples.map_tensors(value, lambda t: found.append(parameter) if differentiable(t) else None)
        return found

    def wanted(self):
        """Parameters that have a gradient, each once."""
        return [p for p in dict.fromkeys(self.parameters()) if p not in self.constants]

    def theirs(self, flows):
        asked = [t for t in self.inputs if t.requires_grad]
        got = harness.attempt(torch.autograd.grad, ([t for _, t, _ in flows], asked, [g for _, _, g in flows]),
                              {"allow_unused": True, "retain_graph": True})
        if isinstance(got, harness.Refused):
            return got
        made = iter(None if w is None else w.resolve_conj().resolve_neg() for w in got)
        return [next(made) if t.requires_grad else None for t in self.inputs]

    def ours(self, flows, wanted):
        """By the row's formula, on the call's own strides."""
        c, seeds = self.call, {id(t): harness.ours(g) for _, t, g in flows}
        given = by_return(self.results, lambda t: seeds.get(id(t)))
        args, kwargs = harness.ours(harness.twin(c.args)), {k: harness.ours(harness.twin(v))
                                                            for k, v in c.kwargs.items()}
        cresset.manual_seed(1234)
        got = harness.attempt(cresset._C._derivative, (self.name, tuple(args), kwargs, given, wanted), {})
        return got if isinstance(got, harness.Refused) else [None if g is None else harness.theirs(g)
                                                             for g in gradients_of(c, got, self.name)]


def check_derivative(name, op, c):
    """Returns an outcome of the table above, "constant" (nothing flows) or "refused"; raises harness.Different."""
    case = Case(name, op, c)
    if case.refused:
        return "refused"
    return compare(case, case.flows, case.wanted(), True) if case.flows else "constant"


def compare(case, flows, wanted, always):
    """The gradients of the `wanted` parameters for the cotangents of these flows. Finite differences are asked
    `always`, or only when PyTorch's gradients and ours differ. PyTorch's gradient depends on strides in places (its
    vector code and its scalar code differ at a NaN or -0; some kernels forget the strides of integer arguments): ours
    may be the one that it gives for the same values in dense tensors, or with a stride."""
    try:
        return compare_once(case, flows, wanted, always)
    except harness.Different as different:
        for laid in (torch.clone, harness.spread):
            other = type(case)(case.name, case.op, case.call, laid=laid)
            same = [f for f in other.flows if f[0] in [i for i, _, _ in flows]]
            if len(same) == len(flows):
                with contextlib.suppress(harness.Different):
                    return compare_once(other, same, wanted, always)
        raise different from None


def compare_once(case, flows, wanted, always):
    where, inputs = case.where, case.inputs
    chosen = [i for i, p in enumerate(case.parameters()) if p in wanted]
    want, mine = case.theirs(flows), case.ours(flows, wanted)
    if isinstance(mine, harness.Refused):
        if isinstance(want, harness.Refused):
            return "refused"
        raise harness.Different(f"{where}: no derivative: {type(mine.error).__name__}: {mine.error}")
    if any(mine[i] is not None for i in range(len(inputs)) if i not in chosen):
        raise harness.Different(f"{where}: gradients of {sorted(set(wanted))} were asked for, others came too")
    if isinstance(want, harness.Refused):
        if all(g is None for g in mine):
            return "constant"  # PyTorch has no derivative, the row says that nothing flows
        want = None
    elif len(mine) != len(want):
        raise harness.Different(f"{where}: {len(want)} gradients, got {len(mine)}")
    difference = want and unlike(want, mine, inputs, flows, chosen)
    if want and not difference and not always:
        return "equal"
    moved = [i for i in chosen if mine[i] is not None or (want and want[i] is not None)]
    numeric, directions = differences(case, flows, moved)
    agrees = lambda gradients: near(numeric, along(gradients, directions, moved))
    if want is None:
        if numeric is None:
            return "unchecked"
        if agrees(mine):
            return "by differences"
        raise harness.Different(f"{where}: directional derivative {along(mine, directions, moved)} but finite "
                                f"differences give {numeric}")
    if not difference:
        return "equal" if numeric is None or agrees(mine) else "inexact as PyTorch's"
    if numeric is not None and agrees(mine) and not agrees(want):
        return "exact where PyTorch's is not"
    slopes = (f"finite differences: {numeric}, ours: {along(mine, directions, moved)}, PyTorch's: "
              f"{along(want, directions, moved)}")
    raise harness.Different(f"{where}: {difference}\n ({slopes})")


def tolerance(inputs, flows):
    """(rtol, atol): every tensor that takes part may have rounded the gradient on its way, so the lowest precision of
    all decides how near is equal."""
    kinds = [t.dtype for t in inputs] + [t.dtype for _, t, _ in flows]
    return max([(1e-6, 1e-8)] + [tuple(4 * v for v in harness.TOLERANCE[d]) for d in kinds
                                 if d not in (torch.float64, torch.complex128)])


def unlike(want, mine, inputs, flows, chosen):
    """What differs between PyTorch's gradients and ours, or None."""
    rtol, atol = tolerance(inputs, flows)
    for i in chosen:
        w = torch.zeros_like(inputs[i]) if want[i] is None else want[i]
        g = torch.zeros_like(inputs[i]) if mine[i] is None else mine[i]
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"gradient {i} is {g.dtype}{list(g.shape)}, expected {w.dtype}{list(w.shape)}"
        if not torch.allclose(w, g, rtol, atol, equal_nan=True):
            return f"gradient {i} differs\n expected {w}\n got {g}"
    return None


def gradients_of(c, got, name):
    """Gradients of the floating tensors of the call, in the order of `leaves`."""
    names = [p.name for p in sweep.torch_op(name)._schema.arguments]
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


def inner(a, b):
    """<a, b> as a real number: complex numbers are pairs."""
    return float((a.conj() * b).real.sum()) if a.dtype.is_complex else float((a * b).sum())


def near(a, b):
    return abs(a - b) <= 1e-4 * max(1.0, abs(a), abs(b))


def along(gradients, directions, moved):
    return sum(inner(gradients[i], directions[i]) for i in moved if gradients[i] is not None)


def differences(case, flows, moved, step=1e-6):
    """(central difference of sum <result, cotangent> along one random direction of the `moved` inputs, directions).
    None when it says nothing: lower precisions, a bend, no number."""
    generator = torch.Generator().manual_seed(7)
    directions = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in case.inputs]
    exact = (torch.float64, torch.complex128)
    if any(t.dtype not in exact for t in [case.inputs[i] for i in moved]
           + [t for _, t, _ in flows]) or not all(case.inputs[i].numel() for i in moved):
        return None, directions
    args, kwargs, inputs = movable(case.call, case.laid)
    start = [t.detach().clone() for t in inputs]

    def value(move):
        for i in moved:
            inputs[i].data.copy_(start[i] + directions[i] * (move * step))
        with torch.no_grad():
            torch.manual_seed(1234)
            out = harness.attempt(case.op, harness.twin(args), {k: harness.twin(v) for k, v in kwargs.items()})
        if isinstance(out, harness.Refused):  # the sample lies at the border of what the op takes
            return float("nan")
        now = harness.tensors(out if isinstance(out, (list, tuple)) else [out])
        if any(now[i].shape != g.shape for i, _, g in flows):
            return float("nan")
        return sum(inner(now[i].detach(), g) for i, _, g in flows)
    return slope(value, step), directions


def slope(value, step):
    """The derivative of value(move) per step at 0, or None at a bend, a jump, a pole, and where it is no number: there
    the two sides differ, or halving the step changes it."""
    low, near_low, centre, near_high, high = (value(move) for move in (-1, -0.5, 0, 0.5, 1))
    left, right, numeric, again = (centre - low) / step, (high - centre) / step, (high - low) / (2 * step), (near_high
            - near_low) / step
    smooth = max(abs(right - left), abs(numeric - again)) <= 1e-2 * max(1.0, abs(numeric))  # false for NaN, too
    return numeric if smooth and abs(numeric) != float("inf") else None


def theirs_twice(op, args, kwargs, inputs, cotangents, scales):
    """PyTorch's gradients of sum <gradient, scale>."""
    out = op(*args, **kwargs)
    flows = [(t, g) for t, g in zip(harness.tensors(out if isinstance(out, (list, tuple)) else [out]), cotangents)
             if g is not None and t.requires_grad]
    asked = [t for t in inputs if t.requires_grad]
    first = torch.autograd.grad([t for t, _ in flows], asked, [g for _, g in flows], create_graph=True,
                                allow_unused=True)
    total = sum((g * s).sum() for g, s in zip(first, [s for t, s in zip(inputs, scales) if t.requires_grad])
                if g is not None and s is not None)
    made = iter(torch.autograd.grad(total, asked, allow_unused=True))
    return [next(made) if t.requires_grad else None for t in inputs]


def check_second(name, op, c, step=1e-5):
    """The derivative of the derivative against central differences of the first, along one random direction. Saved
    results that a formula treats as constants show here, and nowhere else. Where the first is inexact as PyTorch's, the
    second may be PyTorch's, too."""
    case, where = Case(name, op, c), f"{name}({harness.describe(c)})"
    if case.refused or "random" in cresset._C._row(name)["tags"]:
        return "refused"
    args, kwargs, inputs = movable(c)
    for t, p in zip(inputs, case.parameters()):
        t.requires_grad_(p not in case.constants)
    with torch.no_grad():
        results = op(*args, **kwargs)
    outputs = results if isinstance(results, (list, tuple)) else [results]
    tensors = [t for t in inputs + harness.tensors(outputs) if differentiable(t)]
    if any(t.dtype != torch.float64 or not t.numel() or not t.isfinite().all() for t in tensors):
        return "refused"
    generator = torch.Generator().manual_seed(3)
    noise = lambda t: torch.randn(t.shape, dtype=torch.float64, generator=generator) if differentiable(t) else None
    plain = lambda v: samples.map_tensors(v, lambda t: t.detach())
    mine = lambda: (name, tuple(harness.ours(plain(a)) for a in args),
                    {k: harness.ours(plain(v)) for k, v in kwargs.items()})
    cotangents = [noise(t) for t in harness.tensors(outputs)]
    left = iter(cotangents)
    given = by_return(results, lambda t: harness.ours(next(left)))
    weights = []
    for position, p in enumerate(op._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(p.name)
        listed = isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value)
        weights.append([harness.ours(noise(v)) for v in value] if listed and all(differentiable(v) for v in value)
                       else harness.ours(noise(value)))
    first = harness.attempt(cresset._C._derivative, (*mine(), given, case.wanted()), {})
    if isinstance(first, harness.Refused) or all(g is None for g in first):
        return "constant"
    second = harness.attempt(cresset._C._second_derivative, (*mine(), given, weights, case.wanted()), {})
    if isinstance(second, harness.Refused):
        if isinstance(second.error, NotImplementedError):
            return "absent"
        raise harness.Different(f"{where}: second derivative: {second.error}")
    # What the row calls a constant (a gradient of none) stays where it is.
    flows = [g is not None for g in gradients_of(c, first, name)]
    directions = [torch.randn(t.shape, dtype=t.dtype, generator=generator) * f for t, f in zip(inputs, flows)]
    start = [t.detach().clone() for t in inputs]

    def value(move):
        for t, s, d in zip(inputs, start, directions):
            t.data.copy_(s + d * (move * step))
        got = harness.attempt(cresset._C._derivative, (*mine(), given, case.wanted()), {})
        for t, s in zip(inputs, start):
            t.data.copy_(s)
        if isinstance(got, harness.Refused):
            return float("nan")
        return sum(float((harness.theirs(g) * harness.theirs(w)).sum())
                   for g, w in zip(flat_gradients(got), flat_gradients(weights)) if g is not None and w is not None)
    numeric = slope(value, step)
    if numeric is None:
        return "refused"
    chosen = gradients_of(c, second, name)
    analytic = sum(float((harness.theirs(g) * d).sum()) for g, d in zip(chosen, directions) if g is not None)
    if not near(numeric, analytic):
        scales = [w if w is None else harness.theirs(w) for w in gradients_of(c, weights, name)]
        theirs = harness.attempt(theirs_twice, (op, args, kwargs, inputs, cotangents, scales), {})
        if not isinstance(theirs, harness.Refused) and near(analytic, along(theirs, directions, range(len(inputs)))):
            return "inexact as PyTorch's"
        raise harness.Different(f"{where}: second directional derivative {analytic} but finite differences give "
                                f"{numeric}")
    return "equal"


EPSILON = {torch.float16: 2.0 ** -10, torch.bfloat16: 2.0 ** -7}


def decomposed_near(want, got, largest):
    """A kernel rounds to half precision once, a decomposition after each of its ops: it may be one rounding of the
    largest number around further off."""
    if isinstance(want, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(want) == len(got) and all(decomposed_near(w, g, largest)
                for w, g in zip(want, got))
    if not isinstance(want, torch.Tensor) or want.dtype not in EPSILON:
        return want is got or (isinstance(want, torch.Tensor) and harness.close(want, got))
    return torch.allclose(want.double(), got.double(), harness.TOLERANCE[want.dtype][0], EPSILON[want.dtype] * largest,
                          equal_nan=True)


def check_decomposition(name, ours_op, c):
    where = f"{name}({harness.describe(c)})"
    args, kwargs = harness.ours(harness.twin(c.args)), {k: harness.ours(harness.twin(v)) for k, v in c.kwargs.items()}
    with harness.seeded():
        want = harness.attempt(ours_op, args, kwargs)
    if isinstance(want, harness.Refused):
        return "refused"
    args, kwargs = harness.ours(harness.twin(c.args)), {k: harness.ours(harness.twin(v)) for k, v in c.kwargs.items()}
    with harness.seeded():
        got = harness.attempt(cresset._C._decompose, (name, tuple(args), kwargs), {})
    if isinstance(got, harness.Refused):
        raise harness.Different(f"{where}: the decomposition refuses: {got.error}")
    as_list = lambda v: list(v) if isinstance(v, tuple) else v
    want, got = harness.theirs(as_list(want)), as_list(got)
    harness.compare(want, got, f"{where} decomposed", values=False, strides=False)
    try:
        harness.compare(want, got, f"{where} decomposed", strides=False)
    except harness.Different:
        numbers = [t.double()[t.isfinite()].abs() for t in [*samples.flat(c), *harness.tensors(want)]
                   if differentiable(t) and not t.dtype.is_complex]
        largest = max([float(t.max()) for t in numbers if t.numel()], default=0.0)
        if not decomposed_near(want, harness.theirs(got), largest):
            raise
    return "equal"


def sweep_formulas(name, limit=None):
    """Counts by check and outcome, and failures, of all calls of one op, or a seeded choice of `limit` per dtype."""
    counts, failures = collections.Counter(), []
    row, op = cresset._C._row(name), sweep.torch_op(name)

    def attempt(kind, f, *args):
        try:
            counts[f"{kind} {f(*args)}"] += 1
        except harness.Different as error:
            failures.append(str(error))
    calls = lambda dtype: sweep.chosen([c for c in samples.calls_for(row, op, dtype) if c.smooth
                                        and not undefined.reason(name, c)], limit, name)
    for c in calls(torch.float64):
        attempt("derivative", check_derivative, name, op, c)
        attempt("second derivative", check_second, name, op, c)
    for c in calls(torch.complex128):
        attempt("derivative", check_derivative, name, op, c)
    if (row["has_kernel"] or row["scalar"]) and (row["decomp"] or row["has_decomp_fn"]):
        for dtype in (torch.float32, torch.int64, torch.bfloat16):
            for c in calls(dtype):
                attempt("decomposition", check_decomposition, name, sweep.our_op(name), c)
    return counts, failures
