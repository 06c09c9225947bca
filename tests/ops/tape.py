"""Gradients by the eager tape: the op is called on tensors that require grad, and cresset.autograd.grad walks back.
Held against PyTorch's by the rules of formulas.py: all parameters together, and each result's cotangent alone."""
import collections
import contextlib
import dataclasses
import warnings

import cresset
import formulas
import harness
import samples
import sweep
import torch
import undefined

DTYPES = [torch.float64, torch.complex128, torch.float32]


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


def widened(c):
    wide = lambda v: samples.map_tensors(v, lambda t: t.double() if t.dtype == torch.float32 else t)
    return dataclasses.replace(c, args=tuple(map(wide, c.args)), kwargs={k: wide(v) for k, v in c.kwargs.items()})


def as_in_float64(case, flows):
    """Where PyTorch's float32 gradient is not ours: is ours that of the same call in float64, which PyTorch, or finite
    differences where PyTorch is wrong, confirm? Where PyTorch's is NaN, ours in float64 is enough."""
    wide = Case(case.name, case.op, widened(case.call))
    same = [f for f in wide.flows if f[0] in [i for i, _, _ in flows]]
    if wide.refused or len(same) != len(flows):
        return False
    same = [(i, t, g.to(t.dtype)) for (i, t, _), (_, _, g) in zip(same, flows)]
    mine, exact = case.ours(flows, case.wanted()), wide.ours(same, wide.wanted())
    theirs = case.theirs(flows)
    if any(isinstance(found, harness.Refused) for found in (mine, exact, theirs)):
        return False
    near = lambda a, b: torch.isclose(a.float(), b.float(), 1e-3, 1e-4, equal_nan=True)
    if not all((e is None) == (g is None) and (e is None or near(e, g).all()) for e, g in zip(exact, mine)):
        return False
    if all(t is None or g is None or (near(t, g) | t.isnan()).all() for t, g in zip(theirs, mine)):
        return True
    with contextlib.suppress(harness.Different):
        formulas.compare(wide, same, wide.wanted(), always=False)
        return True
    return False


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
                        counts[formulas.compare(case, flows, case.wanted(), always=False)] += 1
                    except harness.Different as error:
                        if dtype == torch.float32 and as_in_float64(case, flows):
                            counts["as in float64"] += 1
                            continue
                        failures.append(f"gradient for result {[i for i, _, _ in flows]}: {error}")
    return counts, failures
