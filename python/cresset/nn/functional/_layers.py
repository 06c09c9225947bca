"""Linear maps, convolutions, embeddings and normalizations.

The last argument of the normalization ops says whether cuDNN may be used; an export always records False.
"""
import warnings

from cresset import _C
from cresset._grad_mode import no_grad
from cresset.nn.functional._ops import nn, op

linear, bilinear, conv1d, conv2d, conv3d = map(op, "linear bilinear conv1d conv2d conv3d".split())
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(op,
                                                           "conv_transpose1d conv_transpose2d conv_transpose3d".split())
cosine_similarity, pairwise_distance, pdist, one_hot = map(op,
                                                           "cosine_similarity pairwise_distance pdist one_hot".split())
scaled_dot_product_attention, conv_tbc = op("scaled_dot_product_attention"), op("conv_tbc")
_grouped_mm = op("_grouped_mm")

_batch_norm, _instance_norm, _layer_norm, _group_norm, _rms_norm = map(op,
        "batch_norm instance_norm layer_norm group_norm rms_norm".split())
_embedding, _embedding_bag = op("embedding"), op("embedding_bag")


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """A product for each group. Matrices in a stack have a group each; what of a 2-d operand belongs to group i ends
    before offs[i]: rows of mat_a, columns of mat_b, or, where both are 2-d, both sides of what is summed over."""
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


# ---- embeddings ----

def _wrapped_padding(padding_idx, weight, name):
    n = weight.size(0)
    if padding_idx > 0:
        if padding_idx >= n:
            raise AssertionError(f"{name}: padding_idx {padding_idx} must be within num_embeddings {n}")
    elif padding_idx < 0:
        if padding_idx < -n:
            raise AssertionError(f"{name}: padding_idx {padding_idx} must be within num_embeddings {n}")
        padding_idx = n + padding_idx
    return padding_idx


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of `weight` at the positions in `input`. max_norm shortens the rows that are used, in place."""
    padding_idx = -1 if padding_idx is None else _wrapped_padding(padding_idx, weight, "embedding")
    if max_norm is not None:
        input = input.contiguous()
        with no_grad():
            nn("embedding_renorm_")(weight.detach(), input, max_norm, norm_type)
    return _embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of bags of rows. 2-D input: a bag each row; 1-D input: `offsets` says where bags begin."""
    if weight.dtype is _C.int64 and input.is_floating_point():
        warnings.warn("embedding_bag: the arguments are (input, weight), in that order; they seem swapped")
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(f"embedding_bag: per_sample_weights has the sizes {tuple(per_sample_weights.shape)}, input "
                         f"has {tuple(input.shape)}")
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag: weight must be 2-D, not {weight.dim()}-D")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: a 2-D input holds a bag each row, so offsets must be None")
        offsets = nn("arange")(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("embedding_bag: a 1-D input needs offsets")
        if offsets.dim() != 1:
            raise ValueError(f"embedding_bag: offsets must be 1-D, not {offsets.dim()}-D")
    else:
        raise ValueError(f"embedding_bag: input must be 1-D or 2-D, not {input.dim()}-D")
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode must be sum, mean or max, not {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: scale_grad_by_freq does not go with mode 'max'")
    if mode == "max" and sparse:
        raise ValueError("embedding_bag: sparse gradients do not go with mode 'max'")
    if max_norm is not None:
        with no_grad():
            nn("embedding_renorm_")(weight.detach(), input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights go with mode 'sum' only, not {mode!r}")
    if padding_idx is not None:
        padding_idx = _wrapped_padding(padding_idx, weight, "embedding_bag")
    result, _, _, _ = _embedding_bag(weight, input, offsets, scale_grad_by_freq, _BAG_MODES[mode], sparse,
                                     per_sample_weights, include_last_offset, padding_idx)
    return result


# ---- normalizations ----

def _more_than_one_value(size, name, first=1):
    """Statistics of a single value are refused, as they would always be (value, 0)."""
    count = 1 if first is None else size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"{name}: statistics of one value per channel mean nothing; the input's sizes are "
                         f"{tuple(size)}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        _more_than_one_value(input.size(), "batch_norm")
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    if use_input_stats:
        _more_than_one_value(input.size(), "instance_norm", None)
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _layer_norm(input, normalized_shape, weight, bias, eps, False)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    return _rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if input.dim() < 2:
        raise RuntimeError(f"group_norm: expected at least 2 dimensions, received {input.dim()}")
    size = input.size()
    _more_than_one_value([size[0] * size[1] // num_groups, num_groups, *size[2:]], "group_norm")
    return _group_norm(input, num_groups, weight, bias, eps, False)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides by a power of the mean of squares over `size` neighbouring channels."""
    from cresset.nn.functional._vision import pad
    dim = input.dim()
    if dim < 3:
        raise ValueError(f"local_response_norm: the input must have 3 or more dimensions, not {dim}")
    if input.numel() == 0:
        return input
    div = input.mul(input)
    if dim == 3:
        div = div.unsqueeze(1)
        div = pad(div, (0, 0, size // 2, (size - 1) // 2))
        div = nn("avg_pool2d")(div, (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.size()
        div = div.view(sizes[0], 1, sizes[1], sizes[2], -1)
        div = pad(div, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        div = nn("avg_pool3d")(div, (size, 1, 1), stride=1).squeeze(1)
        div = div.view(sizes)
    div = div.mul(alpha).add(k).pow(beta)
    return input / div


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divides by the p-norm over `dim`."""
    if out is None:
        return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return nn("div")(input, input.norm(p, dim, keepdim=True).clamp_min_(eps).expand_as(input), out=out)
