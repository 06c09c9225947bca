"""A1: derivatives forwards of every op, a seeded part; `./dev test --full jvp` runs all of it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the oracle")

import jvp  # noqa: E402
import sweep  # noqa: E402

GROUPS = 16


@pytest.mark.parametrize("group", range(GROUPS))
def test_jvp(group):
    failures = []
    for name in sweep.op_names()[group::GROUPS]:
        failures += [f"{name}: {text}" for text in jvp.sweep_jvp(name, limit=1)[1]]
    assert not failures, f"{len(failures)} differ; first:\n" + "\n".join(failures[:3])
