"""Gradients by the eager tape: the op is called on tensors that require grad, and cresset.autograd.grad walks back.
Held against PyTorch's by the rules of formulas.py: all parameters together, and each result's cotangent alone."""
import collections
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
                        failures.append(f"gradient for result {[i for i, _, _ in flows]}: {error}")
    return counts, failures
