"""Calls that PyTorch must not be asked: its own kernel reads or writes memory that is not the tensor's, or answers something
that contradicts itself. The sweep compares ours with PyTorch's answer for dense arguments instead. docs/differences.md has the
evidence for each."""


def strided(position):
    """The argument there, if given, is not dense."""
    return lambda c: len(c.args) > position and c.args[position] is not None and not c.args[position].is_contiguous()


def strided_row(position):
    return lambda c: c.args[position].dim() == 1 and not c.args[position].is_contiguous()


def narrow_positions(c):
    """Channels last, and a dtype that cannot count the positions of a plane."""
    x = c.args[0]
    return x.dtype.itemsize == 1 and x.dim() == 5 and not x.is_contiguous()


def apart(*positions):
    """The last elements of one of these do not lie side by side."""
    return lambda c: any(c.args[p].dim() and c.args[p].stride(-1) != 1 and c.args[p].numel() for p in positions)


def bytes_to_strided(c):
    return c.args[0].dtype.itemsize == 1 and c.kwargs["out"].numel() > 0 and not c.kwargs["out"].is_contiguous()


UNDEFINED = {
    "aten::_upsample_bilinear2d_aa.out": (bytes_to_strided, "writes bytes as if out were dense, and beyond it"),
    "aten::_upsample_bicubic2d_aa.out": (bytes_to_strided, "writes bytes as if out were dense, and beyond it"),
    "aten::max_pool3d_with_indices": (narrow_positions, "counts positions in the input's dtype"),
    "aten::max_pool3d_with_indices.out": (narrow_positions, "counts positions in the input's dtype"),
    "aten::max_pool3d": (narrow_positions, "counts positions in the input's dtype"),
    "aten::_scaled_dot_product_flash_attention_for_cpu": (apart(0, 1, 2), "reads rows as if they were dense"),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (apart(0, 1, 2, 3, 4), "reads rows as if they were dense"),
    "aten::adaptive_max_pool3d_backward": (strided(2), "reads indices as if they were dense"),
    "aten::adaptive_max_pool3d_backward.grad_input": (strided(2), "reads indices as if they were dense"),
    "aten::rrelu_with_noise.out": (lambda c: "out empty" in c.note or strided(1)(c) or not c.kwargs["out"].is_contiguous(), "writes beyond the end of out"),
    **{f"aten::{n}": (strided(1), "writes noise as if it were dense") for n in ("rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_functional")},
    **{f"aten::{n}.data": (strided(1), "reads batch_sizes as if they were dense") for n in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{f"aten::{n}": (strided_row(at), "reads labels in a row as if they were dense")
       for n, at in [("ctc_loss.IntList", 1), ("ctc_loss.Tensor", 1), ("_ctc_loss", 1), ("_ctc_loss.Tensor", 1), ("_ctc_loss.out", 1),
                     ("_ctc_loss.Tensor_out", 1), ("_ctc_loss_backward", 2), ("_ctc_loss_backward.Tensor", 2), ("_ctc_loss_backward.out", 2)]},
}


def reason(name, c):
    """Why PyTorch must not be asked, or None."""
    found = UNDEFINED.get(name)
    return found[1] if found and found[0](c) else None
