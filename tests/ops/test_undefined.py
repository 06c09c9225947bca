"""Evidence for undefined.py: PyTorch contradicts itself where the sweep does not ask it. Each test gives PyTorch the
same values twice, in two layouts, and expects two answers; when a later PyTorch gives one, its entry can go. Entries
whose calls write beyond a tensor are not tried: docs/differences.md says what happens there."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="what PyTorch does can only be shown with it")

import cresset  # noqa: E402
import harness  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402
import undefined  # noqa: E402

READS = [("native_layer_norm_backward", 3), ("native_layer_norm_backward", 4),
         *(("native_group_norm_backward", p) for p in range(5)),
         ("_weight_norm_interface", 0), ("_weight_norm_interface", 1), ("fractional_max_pool2d_backward", 4),
         ("fractional_max_pool3d_backward", 4),
         ("adaptive_max_pool3d_backward", 2), ("_embedding_bag", 1), ("_embedding_bag", 2), ("_embedding_bag", 6),
         ("_embedding_bag_forward_only", 1),
         ("_embedding_bag_dense_backward", 3), ("_ctc_loss", 1)]


def contradicts(op, c, position):
    """Does one argument's layout change the answer?"""
    want = harness.attempt(op, c.args, c.kwargs)
    got = harness.attempt(op, [samples.strided(a) if i == position else a for i, a in enumerate(c.args)], c.kwargs)
    if isinstance(want, harness.Refused) or isinstance(got, harness.Refused):
        return isinstance(want, harness.Refused) != isinstance(got, harness.Refused)
    return not all(a.shape == b.shape and harness.close(a, b) for a, b in zip(harness.flat(want), harness.flat(got)))


@pytest.mark.parametrize("name, position", READS)
def test_reads_an_argument_as_if_it_were_dense(name, position):
    name = f"aten::{name}"
    op, row = sweep.torch_op(name), cresset._C._row(name)
    calls = [c for c in samples.plain_calls(row, op, torch.float32) if len(c.args) > position
             and isinstance(c.args[position], torch.Tensor) and not c.note]
    shown = [c for c in calls if contradicts(op, c, position)]
    assert shown, f"{name}: PyTorch gives one answer for all layouts of argument {position}"
    c = shown[0]
    laid = harness.dataclasses.replace(c,
            args=tuple(samples.strided(a) if i == position else a for i, a in enumerate(c.args)))
    assert undefined.reason(name, laid), f"{name}: undefined.py does not know this call"


def test_a_diagonal_that_wraps_by_strides_is_no_diagonal():
    dense = torch.zeros(9, 2).fill_diagonal_(1, True)
    wide = torch.zeros(9, 4)
    wide[:, :2].fill_diagonal_(1, True)  # inside of the memory of `wide`, but not of the matrix
    assert not torch.equal(wide[:, :2], dense) and float(wide[:, 2:].sum()) > 0
    ours = cresset.zeros(9, 4)
    ours[:, :2].fill_diagonal_(1, True)
    assert torch.equal(harness.theirs(ours[:, :2]), dense) and float(ours[:, 2:].sum()) == 0


def picture(*shape, dtype=torch.uint8):
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("name, dtype", [("upsample_bilinear2d", torch.uint8), ("upsample_bicubic2d", torch.uint8),
                                         ("_upsample_bilinear2d_aa", torch.uint8),
                                         ("_upsample_bilinear2d_aa", torch.float32),
                                         ("_upsample_bicubic2d_aa", torch.float64)])
def test_a_column_is_taken_for_a_row(name, dtype):
    op, x = getattr(torch.ops.aten, name), picture(1, 5, 2, 1, dtype=dtype)
    y = op(x, [3, 1], False)
    assert torch.equal(y[:, :, 0], y[:, :, 2]) and not torch.equal(x[:, :, 0], x[:, :, 1])  # the first row, three times
    assert not torch.equal(y, op(undefined.by_pixel(x), [3, 1], False))


def test_one_pixel_of_three_channels_fails_an_internal_check():
    x = picture(1, 3, 4, 5)
    with pytest.raises(RuntimeError, match="INTERNAL ASSERT"):
        torch.ops.aten.upsample_bilinear2d(x, [1, 1], False)
    assert torch.ops.aten.upsample_bilinear2d(undefined.by_pixel(x), [1, 1], False).shape == (1, 3, 1, 1)
