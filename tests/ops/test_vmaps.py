"""A1: every op under vmap, a seeded part; `./dev test --full vmap` runs all of it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the oracle")

import sweep  # noqa: E402
import vmaps  # noqa: E402

GROUPS = 16


@pytest.mark.parametrize("group", range(GROUPS))
def test_vmap(group):
    failures = []
    for name in sweep.op_names()[group::GROUPS]:
        failures += [f"{name}: {text}" for text in vmaps.sweep_vmap(name, [torch.float64], limit=1, ways=2)[1]]
    assert not failures, f"{len(failures)} differ; first:\n" + "\n".join(failures[:3])
