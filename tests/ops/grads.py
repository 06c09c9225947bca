"""Gradients of a part: one parameter alone (its op may take a shorter way), and one result's cotangent alone (the
others are undefined). Held against PyTorch's by the rules of formulas.py, which checks all of them together."""
import collections
import warnings

import cresset
import formulas
import harness
import samples
import sweep
import torch
import undefined

DTYPES = [torch.float64, torch.complex128]


def parts(case):
    """(flows, parameters): every single parameter, every single flow; the whole where it has one of each."""
    parameters = case.wanted()
    for p in parameters:
        yield case.flows, [p]
    for flow in case.flows if len(case.flows) > 1 else []:
        yield [flow], parameters


def sweep_grads(name, dtypes=DTYPES, limit=None):
    """Counts by outcome, and failures."""
    counts, failures = collections.Counter(), []
    row, op = cresset._C._row(name), sweep.torch_op(name)
    for dtype in dtypes:
        for c in sweep.chosen([c for c in samples.calls_for(row, op, dtype) if c.smooth and not undefined.reason(name,
                c)], limit, name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = formulas.Case(name, op, c)
                if case.refused or not case.flows:
                    counts["refused" if case.refused else "constant"] += 1
                    continue
                for flows, parameters in parts(case):
                    try:
                        counts[formulas.compare(case, flows, parameters, always=False)] += 1
                    except harness.Different as error:
                        failures.append(f"gradient of {', '.join(parameters)} for result {[i for i, _, _ in flows]}: "
                                        f"{error}")
    return counts, failures
