"""N1: derivatives and decompositions of rows, a seeded part; `./dev test --full formulas grads` runs all of it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
pytest.importorskip("torch",
                    reason="derivatives are compared with PyTorch's; tests/unit/test_reverse.c needs no oracle")

import formulas  # noqa: E402
import grads  # noqa: E402
import sweep  # noqa: E402


@pytest.mark.parametrize("name", sweep.op_names())
def test_formulas(name):
    failures = formulas.sweep_formulas(name, limit=2)[1] + grads.sweep_grads(name, limit=1)[1]
    assert not failures, f"{len(failures)} differ; first:\n" + "\n".join(failures[:3])
