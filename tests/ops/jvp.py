"""Derivatives forwards (cresset.func.jvp) of every op, along random tangents, in float64.

    equal                        PyTorch's forward mode gives the same, wherever the result is a number
    as PyTorch's gradient        PyTorch's forward mode gives something else, or refuses; ours is the transpose of
                                 PyTorch's gradient: <u, jvp(t)> = <vjp(u), t>
    exact where PyTorch's is not both of PyTorch's are something else; ours is the slope along the tangents
    by differences               PyTorch has neither; ours is the slope
    refused                      by both, or there is no gradient in PyTorch either

Everything else is a failure. There is no list of names.
"""
import collections
import contextlib
import warnings

import cresset
import formulas
import harness
import samples
import sweep
import torch
import torch.autograd.forward_ad as forward
import undefined

PASSING = ("equal", "as PyTorch's gradient", "exact where PyTorch's is not", "by differences")


class Case(formulas.Case):
    """With a random tangent for every input that has a gradient."""

    def __init__(self, name, op, c, laid=None):
        super().__init__(name, op, c, laid=laid)
        if not self.refused and self.flows:
            self.moved = [i for i, t in enumerate(self.inputs) if t.requires_grad]
            self.slope, directions = formulas.differences(self, self.flows, self.moved)
            self.tangents = [d if i in self.moved else None for i, d in enumerate(directions)]

    def remade(self, change):
        """The call with change(place) instead of its differentiable tensors."""
        place = iter(range(len(self.inputs)))
        one = lambda t: change(next(place)) if formulas.differentiable(t) else harness.twin(t)
        remake = lambda v: harness.twin(v) if isinstance(v, torch.Generator) else samples.map_tensors(v, one)
        return [remake(a) for a in self.call.args], {k: remake(v) for k, v in self.call.kwargs.items()}

    def forwards(self):
        """PyTorch's tangents of the results that flow; Refused."""
        def run():
            with forward.dual_level():
                args, kwargs = self.remade(lambda i: self.inputs[i].detach() if self.tangents[i] is None else
                                           forward.make_dual(self.inputs[i].detach(), self.tangents[i]))
                torch.manual_seed(1234)
                results = self.op(*args, **kwargs)
                found = harness.tensors(results if isinstance(results, (list, tuple)) else [results])
                made = [forward.unpack_dual(found[i]).tangent for i, _, _ in self.flows]
                return [torch.zeros_like(t) if g is None else g.resolve_conj().resolve_neg()
                        for g, (_, t, _) in zip(made, self.flows)]
        return harness.attempt(run, (), {})

    def ours(self):
        """The same by func.jvp."""
        moved = self.moved

        def call(*tensors):
            args, kwargs = self.remade(lambda i: ("here", i))
            given = dict(zip(moved, tensors))
            put = lambda v: given[v[1]] if isinstance(v, tuple) and v[:1] == ("here",) and v[1] in given else \
                harness.ours(self.inputs[v[1]]) if isinstance(v, tuple) and v[:1] == ("here",) else \
                [put(x) for x in v] if isinstance(v, (list, tuple)) and any(isinstance(x, tuple) for x in v) else \
                harness.ours(v)
            cresset.manual_seed(1234)
            results = cresset._C._op(self.name, "overload")(*map(put, args), **{k: put(v) for k, v in kwargs.items()})
            found = harness.cresset_tensors(results if isinstance(results, (list, tuple)) else [results])
            return tuple(found[i] for i, _, _ in self.flows)

        def run():
            primals = tuple(harness.ours(harness.twin(self.inputs[i].detach())) for i in moved)
            pushed = cresset.func.jvp(call, primals, tuple(harness.ours(self.tangents[i]) for i in moved))[1]
            return [harness.theirs(t.detach().resolve_conj().resolve_neg()) for t in pushed]
        return harness.attempt(run, (), {})


def alike(case, want, got):
    """What is no number has no derivative: where a result is NaN, its tangent may be anything."""
    nearness = formulas.tolerance(case.inputs, case.flows)
    defined = [(w, g) if w.shape != g.shape else (w[~t.isnan()], g[~t.isnan()])
               for w, g, (_, t, _) in zip(want, got, case.flows)]
    return len(want) == len(got) and all(w.shape == g.shape and w.dtype == g.dtype and
                                         torch.allclose(w, g, *nearness, equal_nan=True) for w, g in defined)


def by_gradient(case, mine):
    """The outcome by <u, jvp(t)> = <vjp(u), t>, PyTorch's vjp, or where it has none by differences. None: different."""
    pulled = case.theirs(case.flows)
    left = sum(formulas.inner(u, g) for g, (_, _, u) in zip(mine, case.flows))
    if isinstance(pulled, harness.Refused) and not any(g.any() for g in mine):
        return "constant"  # PyTorch has no derivative, the row says that nothing flows
    if isinstance(pulled, harness.Refused):
        return "unchecked" if case.slope is None else "by differences" if formulas.near(left, case.slope) else None
    right = sum(formulas.inner(g, t) for g, t in zip(pulled, case.tangents) if g is not None and t is not None)
    rtol = 10 * formulas.tolerance(case.inputs, case.flows)[0]
    same = abs(left - right) <= rtol * max(1.0, abs(left), abs(right)) if left == left else right != right
    if same or left == right:
        return "as PyTorch's gradient"
    return "exact where PyTorch's is not" if case.slope is not None and formulas.near(left, case.slope) else None


def check(name, op, c):
    """The outcome; raises harness.Different. PyTorch's derivatives depend on strides in places: dense ones are asked,
    too."""
    try:
        return check_once(name, op, c, None)
    except harness.Different as different:
        with contextlib.suppress(harness.Different):
            return check_once(name, op, c, lambda t: t.clone(memory_format=torch.contiguous_format))
        raise different from None


def check_once(name, op, c, laid):
    case = Case(name, op, c, laid)
    if case.refused or not case.flows:
        return "refused" if case.refused else "constant"
    want, mine = case.forwards(), case.ours()
    if isinstance(mine, harness.Refused):
        if isinstance(want, harness.Refused) or isinstance(case.theirs(case.flows), harness.Refused):
            return "refused"  # also where PyTorch has it forwards alone: ours is the transpose of the gradient
        raise harness.Different(f"{case.where}: no derivative forwards: {type(mine.error).__name__}: {mine.error}")
    if not isinstance(want, harness.Refused) and alike(case, want, mine):
        return "equal"
    outcome = by_gradient(case, mine)
    if outcome:
        return outcome
    theirs = want.error if isinstance(want, harness.Refused) else want
    raise harness.Different(f"{case.where}:\n expected {theirs}\n got {mine}")


def sweep_jvp(name, limit=None):
    """Counts by outcome, and failures."""
    counts, failures = collections.Counter(), []
    row, op = cresset._C._row(name), sweep.torch_op(name)
    smooth = [c for c in samples.calls_for(row, op, torch.float64) if c.smooth and not undefined.reason(name, c)]
    for c in sweep.chosen(smooth, limit, name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                counts[check(name, op, c)] += 1
            except harness.Different as error:
                failures.append(str(error))
    return counts, failures
