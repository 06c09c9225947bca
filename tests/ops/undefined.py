"""Calls that PyTorch must not be asked: its own kernel reads or writes memory that is not the tensor's, or answers
something that contradicts itself. The sweep compares ours with PyTorch's answer for dense arguments instead (or for the
layout that an entry names third). test_undefined.py and docs/differences.md have the evidence."""
import torch


def dense(t):
    return t.clone(memory_format=torch.contiguous_format)


def dense_vectors(t):
    return t if t.dim() > 1 else dense(t)


def by_pixel(t):
    return t.clone(memory_format=torch.channels_last) if t.dim() == 4 else dense(t)


def strided(position):
    """The argument there, if given, is not dense."""
    return lambda c: len(c.args) > position and c.args[position] is not None and not c.args[position].is_contiguous()


def any_strided(*positions):
    return lambda c: any(strided(p)(c) for p in positions)


def strided_row(position):
    return lambda c: c.args[position].dim() == 1 and not c.args[position].is_contiguous()


def narrow_positions(c):
    """Channels last, and a dtype that cannot count the positions of a plane."""
    x = c.args[0]
    return x.dtype.itemsize == 1 and x.dim() == 5 and not x.is_contiguous()


def apart(*positions):
    """The last elements of one of these do not lie side by side."""
    return lambda c: any(c.args[p].dim() and c.args[p].stride(-1) != 1 and c.args[p].numel() for p in positions)


def wraps_twice(c):
    """The diagonal of a tall matrix that is not dense begins anew more than once."""
    x, wrap = c.args[0], len(c.args) > 2 and c.args[2]
    return wrap and x.dim() == 2 and not x.is_contiguous() and x.shape[0] > 2 * x.shape[1] + 2


def bytes_to_strided(c):
    return c.args[0].dtype.itemsize == 1 and c.kwargs["out"].numel() > 0 and not c.kwargs["out"].is_contiguous()


def column(smooth):
    """The result is one column of another height, and the image is not channels last. Bytes of few channels have a path
    of their own."""
    def holds(c):
        x, size = c.args[:2]
        planes = x.dim() == 4 and not x.is_contiguous(memory_format=torch.channels_last)
        return planes and size[-1] == 1 and size[0] != x.shape[2] and (x.shape[1] > 4 if x.dtype == torch.uint8
                else smooth and x.dtype.is_floating_point)
    return holds


def pixel_of_three(c):
    """Dense bytes of three channels become one pixel."""
    x, size = c.args[:2]
    return x.dtype == torch.uint8 and x.dim() == 4 and x.shape[1] == 3 and list(size) == [1, 1] and x.is_contiguous()


def resampling(name, form):
    yield column("_aa" in name), "takes the strides of a column for those of a row: repeats the first row", by_pixel
    yield pixel_of_three, "fails a check of its own", by_pixel
    if form:
        yield bytes_to_strided, "writes bytes as if out were dense, and beyond it"


UNDEFINED = {
    **{f"aten::{n}{form}": [*resampling(n, form)]
       for n in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
       for form in ("", ".out")},
    "aten::max_pool3d_with_indices": (narrow_positions, "counts positions in the input's dtype"),
    "aten::max_pool3d_with_indices.out": (narrow_positions, "counts positions in the input's dtype"),
    "aten::max_pool3d": (narrow_positions, "counts positions in the input's dtype"),
    "aten::_scaled_dot_product_flash_attention_for_cpu": (apart(0, 1, 2), "reads rows as if they were dense"),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (apart(0, 1, 2, 3, 4),
                                                                   "reads rows as if they were dense"),
    "aten::adaptive_max_pool3d_backward": (strided(2), "reads indices as if they were dense"),
    "aten::adaptive_max_pool3d_backward.grad_input": (strided(2), "reads indices as if they were dense"),
    "aten::rrelu_with_noise.out": (lambda c: "out empty" in c.note or strided(1)(c)
                                   or not c.kwargs["out"].is_contiguous(), "writes beyond the end of out"),
    **{f"aten::{n}": (strided(1), "writes noise as if it were dense") for n in ("rrelu_with_noise",
            "rrelu_with_noise_", "rrelu_with_noise_functional")},
    **{f"aten::{n}": (strided(4), "reads indices as if they were dense")
       for n in ("fractional_max_pool2d_backward", "fractional_max_pool2d_backward.grad_input",
                 "fractional_max_pool3d_backward", "fractional_max_pool3d_backward.grad_input")},
    **{f"aten::native_layer_norm_backward{form}": (any_strided(3, 4), "reads mean and rstd as if they were dense")
       for form in ("", ".out")},
    **{f"aten::native_group_norm_backward{form}": (any_strided(0, 1, 2, 3, 4), "reads all as if they were dense")
       for form in ("", ".out")},
    **{f"aten::lu_unpack{form}": (lambda c: strided(1)(c) or c.args[1].dim() >= c.args[0].dim(),
                                  "reads pivots as if they were dense, and writes where they say")
       for form in ("", ".out")},
    **{f"aten::_weight_norm_interface{form}": (any_strided(0, 1), "reads both as if they were dense") for form in ("",
            ".out")},
    **{f"aten::{n}{form}": (any_strided(1, 2, 6), "reads indices, offsets and weights as if they were dense",
                            dense_vectors)
       for n in ("_embedding_bag", "_embedding_bag_forward_only") for form in ("", ".out")},
    **{name: (wraps_twice, "wraps by strides: writes beside the diagonal, and beyond the tensor")
       for name in ("cresset::fill_diagonal", "aten::fill_diagonal_")},
    **{f"aten::_embedding_bag_dense_backward{form}": (strided(3), "reads bag_size as if it were dense")
       for form in ("", ".out")},
    **{f"aten::{n}.data": (strided(1), "reads batch_sizes as if they were dense") for n in ("lstm", "gru", "rnn_tanh",
            "rnn_relu")},
    **{f"aten::{n}": (strided_row(at), "reads labels in a row as if they were dense")
       for n, at in [("ctc_loss.IntList", 1), ("ctc_loss.Tensor", 1), ("_ctc_loss", 1), ("_ctc_loss.Tensor", 1),
                     ("_ctc_loss.out", 1),
                     ("_ctc_loss.Tensor_out", 1), ("_ctc_loss_backward", 2), ("_ctc_loss_backward.Tensor", 2),
                     ("_ctc_loss_backward.out", 2)]},
}


def found(name, c):
    """The entry that covers a call, or None."""
    entries = UNDEFINED.get(name, [])
    return next((e for e in ([entries] if isinstance(entries, tuple) else entries) if e[0](c)), None)


def reason(name, c):
    """Why PyTorch must not be asked, or None."""
    entry = found(name, c)
    return entry and entry[1]


def layout(name, c):
    """What gives a call's tensors a layout that PyTorch has an answer for."""
    return ((found(name, c) or ())[2:] or (dense,))[0]
