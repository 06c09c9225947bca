"""A1: gradients of every op by the eager tape, a seeded part; `./dev test --full tape` runs all of it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the oracle; tests/unit/test_autograd.c needs none")

import sweep  # noqa: E402
import tape  # noqa: E402

GROUPS = 32


@pytest.mark.parametrize("group", range(GROUPS))
def test_tape(group):
    failures = []
    for name in sweep.op_names()[group::GROUPS]:
        failures += [f"{name}: {text}" for text in tape.sweep_tape(name, dtypes=[torch.float64], limit=1)[1]]
    assert not failures, f"{len(failures)} differ; first:\n" + "\n".join(failures[:3])
