"""N1: derivatives and decompositions of rows, a seeded part; `./dev test --full formulas grads` runs all of it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
pytest.importorskip("torch",
                    reason="derivatives are compared with PyTorch's; tests/unit/test_reverse.c needs no oracle")

import cresset  # noqa: E402
import formulas  # noqa: E402
import grads  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402
import undefined  # noqa: E402


@pytest.mark.parametrize("name", sweep.op_names())
def test_formulas(name):
    failures = formulas.sweep_formulas(name, limit=2)[1] + grads.sweep_grads(name, limit=1)[1]
    assert not failures, f"{len(failures)} differ; first:\n" + "\n".join(failures[:3])


def test_every_derivative_has_samples():
    """The test above must not pass because there was nothing to try."""
    without = []
    for name in sweep.op_names():
        row, op = cresset._C._row(name), sweep.torch_op(name)
        calls = (c for dtype in grads.DTYPES for c in samples.plain_calls(row, op, dtype))
        differentiable = row["has_grad_fn"] or row["grad"] not in (None, "not_differentiable")
        if differentiable and not any(c.smooth and not undefined.reason(name, c) for c in calls):
            without.append(name)
    assert not without, f"no smooth sample in float64 or complex128: {', '.join(without)}"
