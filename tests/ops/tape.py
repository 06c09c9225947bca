"""Gradients by the eager tape: the op is called on tensors that require grad, and cresset.autograd.grad walks back.
Held against PyTorch's by the rules of formulas.py: all parameters together, and each result's cotangent alone; in every
real and complex dtype that PyTorch computes with.

In a low precision (float16, bfloat16, float32, complex64) "equal" is within 4 times the tolerance that PyTorch
publishes for the dtype (harness.TOLERANCE). PyTorch's kernels round in places where ours do not, and the other way
round, so that two more outcomes pass, of which every element is measured:

    as in float64   the element is PyTorch's in its dtype, or as near to PyTorch's gradient of the same numbers in
                    float64 (ours there, where PyTorch's is NaN or finite differences contradict it) as 4 times the
                    tolerance, as PyTorch's own in the dtype is, as eight roundings of the largest element, or as 4
                    times what moving all arguments and cotangents by up to one rounding of their dtype moves it in
                    four tries: no computation in that dtype can know better
    tie             the call leaves open which of equal elements it selects (`Call.ties`): equal elements of the
                    argument have the same gradients taken together
"""
import collections
import dataclasses
import warnings

import cresset
import formulas
import harness
import samples
import sweep
import torch
import undefined

LOW = [torch.float32, torch.complex64, torch.float16, torch.bfloat16]
DTYPES = [torch.float64, torch.complex128, *LOW]


class Case(formulas.Case):
    def ours(self, flows, wanted):
        c, found = self.call, []

        def leaf(t):
            mine = harness.ours(harness.twin(t))
            if formulas.differentiable(t):
                found.append(mine)
            return mine
        remade = lambda v: harness.ours(v) if not isinstance(v, (torch.Tensor, list, tuple)) else samples.map_tensors(
            v, leaf) if isinstance(v, torch.Tensor) or any(isinstance(i, torch.Tensor) for i in v) else harness.ours(v)
        args, kwargs = [remade(a) for a in c.args], {key: remade(value) for key, value in c.kwargs.items()}
        asked = [t.requires_grad_() for t, p in zip(found, self.parameters()) if p in wanted]
        cresset.manual_seed(1234)

        def walk():
            results = cresset._C._op(self.name, "overload")(*args, **kwargs)
            tensors = harness.cresset_tensors(results if isinstance(results, (list, tuple)) else [results])
            through = [(tensors[i], harness.ours(g)) for i, _, g in flows if tensors[i].requires_grad]
            if not through:
                return [None] * len(asked)
            return cresset.autograd.grad([t for t, _ in through], asked, [g for _, g in through], allow_unused=True)
        got = harness.attempt(walk, (), {})
        if isinstance(got, harness.Refused):
            return got
        made = iter(None if g is None else harness.theirs(g.detach().resolve_conj().resolve_neg()) for g in got)
        return [next(made) if p in wanted else None for p in self.parameters()]


def widened(c, shaken=lambda t: 0):
    """The call in float64; `shaken`: by which share its numbers move."""
    wide = lambda v: (harness.widened(v) * (1 + shaken(v)) if isinstance(v, torch.Tensor) and v.dtype in LOW
                      else type(v)(map(wide, v)) if isinstance(v, (list, tuple)) else harness.widened(v))
    return dataclasses.replace(c, args=wide(tuple(c.args)), kwargs={k: wide(v) for k, v in c.kwargs.items()})


class Wide:
    """A call of a low precision, its numbers exactly the same or `shaken`, in float64."""

    def __init__(self, case, flows, shaken=lambda t: 0):
        self.case = Case(case.name, case.op, widened(case.call, shaken))
        given = {i: g for i, _, g in flows}
        wide = lambda t, g: g.to(t.dtype) * (1 + shaken(g))
        self.flows = [(i, t, wide(t, given[i])) for i, t, _ in self.case.flows if i in given
                      and t.shape == given[i].shape]
        self.refused = self.case.refused or len(self.flows) != len(flows)

    def gradients(self):
        """PyTorch's, or ours where it has none."""
        theirs = self.case.theirs(self.flows)
        return theirs if not isinstance(theirs, harness.Refused) else self.case.ours(self.flows, self.case.wanted())


def shakes(case, flows, runs=4):
    """Gradients in float64 of calls whose numbers are all moved by up to one rounding of their dtype."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda t: 2 * torch.rand(t.shape, dtype=torch.float64, generator=generator) - 1
    shaken = lambda t: torch.finfo(t.dtype).eps * draw(t)
    for _ in range(runs):
        wide = Wide(case, flows, shaken)
        found = None if wide.refused else wide.gradients()
        if found is not None and not isinstance(found, harness.Refused):
            yield found


def within(exact, mine, theirs, moved):
    """Is every element of ours as near as the rule at the top says?"""
    if not exact.numel():
        return mine.shape == exact.shape
    rtol, atol = (4 * v for v in harness.TOLERANCE[mine.dtype])
    wide, rounded = lambda t: t.to(exact.dtype), exact.to(mine.dtype)
    largest = torch.where(exact.isfinite(), exact.abs(), 0.0).amax()
    limit = torch.stack([atol + rtol * exact.abs(), (8 * torch.finfo(mine.dtype).eps * largest).expand(exact.shape),
                         *(4 * (m - exact).abs() for m in moved if m is not None)]).amax(0)
    ok = (wide(mine) - exact).abs() <= limit
    ok |= torch.isclose(wide(mine), wide(rounded), rtol, atol, equal_nan=True)  # infinite, beyond the dtype
    if mine.dtype.is_complex:  # of no particular parts
        ok |= ~rounded.isfinite() & ~mine.isfinite()
    if theirs is not None:
        ok |= torch.isclose(wide(mine), wide(theirs), rtol, atol, equal_nan=True)
        ok |= (wide(mine) - exact).abs() <= (wide(theirs) - exact).abs()
    return bool(ok.all())


def confirmed(wide, exact):
    """Is our gradient in float64 PyTorch's, wherever that is a number, or as formulas.py asks?"""
    theirs = wide.case.theirs(wide.flows)
    if not isinstance(theirs, harness.Refused) and not isinstance(exact, harness.Refused) and all(
            t is None or e is None or bool((torch.isclose(t, e, 1e-6, 1e-8) | t.isnan()).all())
            for t, e in zip(theirs, exact)):
        return True
    try:
        return formulas.compare(wide.case, wide.flows, wide.case.wanted(), always=False) in formulas.PASSING
    except harness.Different:
        return False


def as_in_float64(case, flows):
    wide, mine, theirs = Wide(case, flows), case.ours(flows, case.wanted()), case.theirs(flows)
    if wide.refused or isinstance(mine, harness.Refused):
        return False
    exact = wide.case.ours(wide.flows, case.wanted())
    theirs = [None] * len(mine) if isinstance(theirs, harness.Refused) else theirs
    moved = list(shakes(case, flows))
    return confirmed(wide, exact) and all(
        (e is None) == (g is None) and (e is None or within(e, g, t, [m[i] for m in moved]))
        for i, (e, g, t) in enumerate(zip(exact, mine, theirs)))


def selects_equal_ones(case, flows):
    """Where the call leaves open which of equal elements it selects: do they get the same together?"""
    if case.call.ties is None or len(case.inputs) != 1:
        return False
    x, mine, theirs = case.inputs[0].detach(), case.ours(flows, case.wanted()), case.theirs(flows)
    if any(isinstance(g, harness.Refused) or g[0] is None for g in (mine, theirs)):
        return False
    rows = x.movedim(case.call.ties, -1)
    equal = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).double()
    together = lambda g: (equal @ g.movedim(case.call.ties, -1).double().unsqueeze(-1)).squeeze(-1)
    return torch.allclose(together(mine[0]), together(theirs[0]), *formulas.tolerance([x], flows), equal_nan=True)


def check(case, flows, dtype):
    """The outcome; raises harness.Different."""
    try:
        outcome = formulas.compare(case, flows, case.wanted(), always=False)
    except harness.Different:
        if dtype in LOW and selects_equal_ones(case, flows):
            return "tie"
        if dtype in LOW and as_in_float64(case, flows):
            return "as in float64"
        raise
    return "as in float64" if outcome == "unchecked" and dtype in LOW and as_in_float64(case, flows) else outcome


def sweep_tape(name, dtypes=DTYPES, limit=None):
    """Counts by outcome, and failures."""
    counts, failures = collections.Counter(), []
    row, op = cresset._C._row(name), sweep.torch_op(name)
    for dtype in dtypes:
        smooth = [c for c in samples.calls_for(row, op, dtype) if c.smooth and not undefined.reason(name, c)]
        for c in sweep.chosen(smooth, limit, name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = Case(name, op, c)
                if case.refused or not case.flows:
                    counts["refused" if case.refused else "constant"] += 1
                    continue
                for flows in [case.flows, *([flow] for flow in case.flows if len(case.flows) > 1)]:
                    try:
                        counts[check(case, flows, dtype)] += 1
                    except harness.Different as error:
                        failures.append(f"gradient for result {[i for i, _, _ in flows]}: {error}")
    return counts, failures
