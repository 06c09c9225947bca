"""N1: ops give PyTorch's results. A seeded part of the sweep; `./dev test --full ops` runs all of it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
pytest.importorskip("torch", reason="without the oracle, tests/py/test_recorded_ops.py replays recorded results")

import sweep  # noqa: E402


@pytest.mark.parametrize("name", sweep.op_names())
def test_op(name):
    counts = sweep.sweep(name, limit=4)
    assert not counts.failures, (
        f"{len(counts.failures)} of {counts.cases} cases differ; first:\n" + "\n".join(counts.failures[:3]))
    assert counts.passed["equal"], f"{name}: no sample was accepted; give the row a .sample"


def test_derived_schemas_are_pytorchs():
    """Every schema in the table, derived variants included, prints as PyTorch prints it."""
    import cresset
    wrong = []
    for name in cresset._C._op_names():
        op = sweep.torch_op(name) if name.startswith("aten::") else None
        if op is not None and str(op._schema) != cresset._C._schema(name):
            wrong.append(f"{cresset._C._schema(name)}\n   PyTorch: {op._schema}")
        elif op is None and name.startswith("aten::"):
            wrong.append(f"{name}: PyTorch has no such op")
    assert not wrong, "\n".join(wrong)
