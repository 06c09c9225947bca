"""multi_head_attention_forward: what MultiheadAttention computes, in the sequence of ops that PyTorch's export
records."""
import math
import warnings

from cresset import _C
from cresset.nn.functional._ops import nn, op
from cresset.nn.functional._activation import dropout, softmax
from cresset.nn.functional._vision import pad

linear = op("linear")


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Is there a batch dimension? AssertionError where the inputs' ranks do not belong together."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(f"query must be 2-D (no batch) or 3-D (a batch), but it is {rank}-D")
    batched = rank == 3
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(f"query is {rank}-D, so key and value must be too, but they are {key.dim()}-D and "
                             f"{value.dim()}-D")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(f"query is {rank}-D, so key_padding_mask must be {rank - 1}-D, but it is "
                             f"{key_padding_mask.dim()}-D")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"attn_mask must be 2-D or 3-D, but it is {attn_mask.dim()}-D")
        if not batched and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(f"attn_mask must have the sizes {expected}, but it has {tuple(attn_mask.shape)}")
    return batched


def canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers to add: a bool mask becomes 0 and -inf."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    if mask.dtype is not _C.bool and not is_float:
        raise AssertionError(f"{mask_name} must be bool or floating point, not {mask.dtype}")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(f"{mask_name} and {other_name} have different dtypes; that is deprecated, use the same for both")
    return mask if is_float else nn("zeros_like")(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _split_heads(packed, n, width):
    """(..., n * width) as n tensors (..., width) that lie one after the other."""
    return packed.unflatten(-1, (n, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


def _in_projection_packed(q, k, v, w, b):
    """The three projections with one packed weight: one product where the inputs are the same object."""
    width = q.size(-1)
    if k is v:
        if q is k:
            packed = _split_heads(linear(q, w, b), 3, width)
            return packed[0], packed[1], packed[2]
        w_q, w_kv = w.split([width, width * 2])
        b_q, b_kv = (None, None) if b is None else b.split([width, width * 2])
        q = linear(q, w_q, b_q)
        packed = _split_heads(linear(k, w_kv, b_kv), 2, width)
        return q, packed[0], packed[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
                                 bias_k, bias_v, add_zero_attn,
                                 dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
                                 need_weights=True, attn_mask=None,
                                 use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                                 v_proj_weight=None, static_k=None,
                                 static_v=None, average_attn_weights=True, is_causal=False):
    """Returns (output, weights or None); inputs are (length, batch, width), or (length, width)."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    src_len = key.shape[0]
    key_padding_mask = canonical_mask(key_padding_mask, "key_padding_mask",
                                      None if attn_mask is None else attn_mask.dtype, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("is_causal says what attn_mask holds: give the mask, too")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the attention op makes the mask itself
    else:
        attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        if key_padding_mask is not None:
            is_causal = False
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"the layer is for a width of {embed_dim_to_check}, but the query's is {embed_dim}")
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"a width of {embed_dim} cannot be divided among {num_heads} heads")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(f"key's length and batch {tuple(key.shape[:2])} differ from value's "
                                 f"{tuple(value.shape[:2])}")
    elif key.shape != value.shape:
        raise AssertionError(f"key's sizes {tuple(key.shape)} differ from value's {tuple(value.shape)}")
    if not use_separate_proj_weight:
        if in_proj_weight is None:
            raise AssertionError("in_proj_weight is None, but use_separate_proj_weight is False")
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    else:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise AssertionError("use_separate_proj_weight needs q_proj_weight, k_proj_weight and v_proj_weight")
        b_q, b_k, b_v = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = linear(query, q_proj_weight, b_q), linear(key, k_proj_weight, b_k), linear(value, v_proj_weight, b_v)
    if attn_mask is not None:
        if attn_mask.dim() == 2:
            if tuple(attn_mask.shape) != (tgt_len, src_len):
                raise RuntimeError(f"a 2-D attn_mask must have the sizes {(tgt_len, src_len)}, but it has "
                                   f"{tuple(attn_mask.shape)}")
            attn_mask = attn_mask.unsqueeze(0)
        elif tuple(attn_mask.shape) != (bsz * num_heads, tgt_len, src_len):
            raise RuntimeError(f"a 3-D attn_mask must have the sizes {(bsz * num_heads, tgt_len, src_len)}, but it has "
                               f"{tuple(attn_mask.shape)}")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("a bias cannot be added to static keys or values")
        k = nn("cat")([k, bias_k.repeat(1, bsz, 1)])
        v = nn("cat")([v, bias_v.repeat(1, bsz, 1)])
        if attn_mask is not None:
            attn_mask = pad(attn_mask, (0, 1))
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, (0, 1))
    elif bias_k is not None or bias_v is not None:
        raise AssertionError("bias_k and bias_v go together")
    q = q.view(tgt_len, bsz * num_heads, head_dim).transpose(0, 1)
    if static_k is None:
        k = k.view(k.shape[0], bsz * num_heads, head_dim).transpose(0, 1)
    else:
        k = _static("static_k", static_k, bsz * num_heads, head_dim)
    if static_v is None:
        v = v.view(v.shape[0], bsz * num_heads, head_dim).transpose(0, 1)
    else:
        v = _static("static_v", static_v, bsz * num_heads, head_dim)
    if add_zero_attn:
        size = (bsz * num_heads, 1, head_dim)
        k = nn("cat")([k, nn("zeros")(size, dtype=k.dtype, device=k.device)], dim=1)
        v = nn("cat")([v, nn("zeros")(size, dtype=v.dtype, device=v.device)], dim=1)
        if attn_mask is not None:
            attn_mask = pad(attn_mask, (0, 1))
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, (0, 1))
    src_len = k.size(1)
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (bsz, src_len):
            raise AssertionError(f"key_padding_mask must have the sizes {(bsz, src_len)}, but it has "
                                 f"{tuple(key_padding_mask.shape)}")
        key_padding_mask = key_padding_mask.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1,
                -1).reshape(bsz * num_heads, 1, src_len)
        attn_mask = key_padding_mask if attn_mask is None else attn_mask + key_padding_mask
    if not training:
        dropout_p = 0.0
    if need_weights:
        scaled = q * math.sqrt(1.0 / float(head_dim))
        if is_causal and attn_mask is None:
            raise AssertionError("is_causal together with need_weights needs attn_mask")
        scores = nn("bmm")(scaled, k.transpose(-2, -1)) if attn_mask is None else nn("baddbmm")(attn_mask, scaled,
                k.transpose(-2, -1))
        weights = softmax(scores, dim=-1)
        if dropout_p > 0.0:
            weights = dropout(weights, p=dropout_p)
        out = nn("bmm")(weights, v).transpose(0, 1).reshape(tgt_len * bsz, embed_dim)
        out = linear(out, out_proj_weight, out_proj_bias)
        out = out.view(tgt_len, bsz, out.size(1))
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        return (out, weights) if batched else (out.squeeze(1), weights.squeeze(0))
    if attn_mask is not None:
        attn_mask = attn_mask.unsqueeze(0) if attn_mask.size(0) == 1 and attn_mask.dim() == 3 else attn_mask.view(bsz,
                num_heads, -1, src_len)
    q = q.view(bsz, num_heads, tgt_len, head_dim)
    k = k.view(bsz, num_heads, src_len, head_dim)
    v = v.view(bsz, num_heads, src_len, head_dim)
    out = nn("scaled_dot_product_attention")(q, k, v, attn_mask, dropout_p, is_causal)
    out = out.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim)
    out = linear(out, out_proj_weight, out_proj_bias)
    out = out.view(tgt_len, bsz, out.size(1))
    return (out, None) if batched else (out.squeeze(1), None)


def _static(name, tensor, batch, width):
    if tensor.size(0) != batch or tensor.size(2) != width:
        raise AssertionError(f"{name} must have the sizes ({batch}, length, {width}), but it has {tuple(tensor.shape)}")
    return tensor
