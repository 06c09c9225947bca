"""Symbolic sizes as arguments of every op: no tag leaks, nothing crashes, and the program gives what the op gives."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the samples are PyTorch's tensors; tests/py/test_symbolic_numbers.py has "
                            "recorded programs")

import cresset  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402
import symbolic_arguments  # noqa: E402

OPS = sweep.op_names()


def calls(name, dtype):
    row, op = dict(cresset._C._row(name)), sweep.torch_op(name)
    drawn = op is None or "random" in row["tags"]
    return [] if drawn else sweep.chosen(list(samples.plain_calls(row, op, dtype)), 2, name)


@pytest.mark.parametrize("part", range(8))
def test_every_number_may_be_symbolic(part):
    found, count = [], 0
    for name in OPS[part::8]:
        for dtype in (torch.float32, torch.int64):
            for c in calls(name, dtype):
                wrong, places = symbolic_arguments.check(name, sweep.our_op(name), c)
                found += wrong
                count += places
    assert not found, f"{len(found)} of {count}:\n" + "\n".join(found[:10])
    assert count > 300


def test_a_leak_is_seen():
    """The check can fail: an op that does something else with a symbolic number."""
    def leaking(x, n):
        return x * n if isinstance(n, int) else x + 1
    wrong, places = symbolic_arguments.check("leaking", leaking, samples.call(torch.ones(3), 2))
    assert places == 1 and wrong
