"""Whatever hands an argument's memory on says so: by its schema, as a view, or by the tag `shares`. The analysis of
what graphs write relies on it."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
pytest.importorskip("torch", reason="the samples are written with PyTorch's tensors")

import cresset  # noqa: E402
import harness  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402
import torch  # noqa: E402


def start(t):
    return t.data_ptr() - t.storage_offset() * t.element_size()


def shares(name, limit):
    for c in sweep.chosen(list(samples.calls_for(cresset._C._row(name), sweep.torch_op(name), torch.float32)), limit,
                          name):
        args, kwargs = harness.ours(tuple(c.args)), {k: harness.ours(v) for k, v in c.kwargs.items()}
        result = harness.attempt(sweep.our_op(name), args, kwargs)
        if isinstance(result, harness.Refused):
            continue
        given = {start(t) for t in harness.cresset_tensors([*args, *kwargs.values()]) if t.numel()}
        if any(t.numel() and start(t) in given for t in harness.cresset_tensors(list(result) if isinstance(result,
                (list, tuple)) else [result])):
            return True
    return False


def says_so(name):
    return "(a" in cresset._C._schema(name).rpartition("->")[2] or {"view",
                                                                    "shares"} & set(cresset._C._row(name)["tags"])


def test_what_shares_memory_says_so():
    silent = [name for name in sweep.op_names() if not says_so(name) and shares(name, 12)]
    assert not silent, f"tag these rows SHARES: {', '.join(silent)}"


def test_the_tag_is_earned():
    tagged = [name for name in sweep.op_names() if "shares" in cresset._C._row(name)["tags"]]
    assert len(tagged) >= 13 and all(shares(name, None) for name in tagged)
