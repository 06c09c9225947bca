"""Samples of convolution and attention."""
import torch
from samples import call, sample


def cases(make):
    """(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)"""
    yield make.tensor(2, 3, 8), make.tensor(4, 3, 3), make.tensor(4), [1], [0], [1], False, [0], 1
    yield make.tensor(2, 4, 9), make.tensor(6, 2, 3), None, [2], [1], [2], False, [0], 2
    yield make.tensor(1, 3, 8, 7), make.tensor(4, 3, 3, 3), make.tensor(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    yield make.tensor(2, 4, 6, 6), make.tensor(4, 1, 3, 3), None, [2, 1], [1, 0], [1, 1], False, [0, 0], 4
    yield make.tensor(1, 3, 5, 5), make.tensor(2, 3, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    yield (make.tensor(1, 2, 4, 5, 6), make.tensor(3, 2, 2, 3, 3), make.tensor(3), [1, 1, 2], [0, 1, 1], [1, 1, 1],
           False, [0, 0, 0], 1)
    yield make.tensor(0, 3, 8), make.tensor(4, 3, 3), make.tensor(4), [1], [0], [1], False, [0], 1
    yield make.tensor(2, 3, 5), make.tensor(3, 4, 3), make.tensor(4), [2], [1], [1], True, [1], 1
    yield make.tensor(1, 4, 4, 5), make.tensor(4, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2
    yield (make.tensor(1, 2, 3, 3, 3), make.tensor(2, 3, 2, 2, 2), None, [2, 1, 1], [0, 0, 0], [1, 1, 1], True,
           [0, 0, 0], 1)


@sample("convolution")
def convolution(make):
    for case in cases(make):
        yield call(*case)
    yield call(make.tensor(1, 3, 8), make.tensor(4, 2, 3), None, [1], [0], [1], False, [0], 1, note="channels differ")
    yield call(make.tensor(1, 3, 2), make.tensor(4, 3, 3), None, [1], [0], [1], False, [0], 1, note="kernel too large")


@sample("_convolution")
def _convolution(make):
    for case in list(cases(make))[:4]:
        yield call(*case, False, False, False, False)


@sample("convolution_backward")
def convolution_backward(make):
    for case in cases(make):
        x, w, b, stride, padding, dilation, transposed, output_padding, groups = case
        shape = torch.ops.aten.convolution(torch.zeros(x.shape), torch.zeros(w.shape), None, *case[3:]).shape
        for mask in ([True, True, True], [True, False, False], [False, True, False]):
            yield call(make.tensor(shape), x, w, [w.shape[1] * groups if transposed else w.shape[0]], stride, padding,
                       dilation, transposed, output_padding, groups, mask)


def unpacked(make, rank, transposed):
    for case in cases(make):
        x, w, b, stride, padding, dilation, is_transposed, output_padding, groups = case
        if x.dim() != rank + 2 or is_transposed != transposed:
            continue
        if transposed:
            yield call(x, w, b, stride, padding, output_padding, groups, dilation)
            continue
        yield call(x, w, b, stride, padding, dilation, groups)
        if x.numel():
            yield call(x[0], w, b, stride, padding, dilation, groups, note="without batch")


for _rank in (1, 2, 3):
    sample(f"conv{_rank}d")(lambda make, rank=_rank: unpacked(make, rank, False))
    sample(f"conv_transpose{_rank}d")(lambda make, rank=_rank: unpacked(make, rank, True))


def padded(make, rank):
    x, w = make.tensor(2, 3, *(7,) * rank), make.tensor(4, 3, *(3,) * rank)
    even = make.tensor(4, 3, *(2,) * rank)
    for padding in ("valid", "same"):
        yield call(x, w, make.tensor(4), [1] * rank, padding)
        yield call(x, w, None, [1] * rank, padding, [2] * rank)
        yield call(x, even, None, [1] * rank, padding)


for _rank in (1, 2, 3):
    sample(f"conv{_rank}d_padding")(lambda make, rank=_rank: padded(make, rank))


@sample("sdpa")
def sdpa(make):
    q, k, v = make.tensor(2, 3, 5, 8), make.tensor(2, 3, 7, 8), make.tensor(2, 3, 7, 8)
    yield call(q, k, v)
    yield call(q, k, v, scale=0.5)
    yield call(q, q, q, None, 0.0, True)
    yield call(q, k, v, make.mask(5, 7) | torch.eye(5, 7).bool())
    yield call(q, k, v, make.tensor(2, 1, 5, 7))
    yield call(make.tensor(5, 8), make.tensor(7, 8), make.tensor(7, 4))
    yield call(make.tensor(2, 4, 5, 8), make.tensor(2, 2, 7, 8), make.tensor(2, 2, 7, 8), enable_gqa=True)
    yield call(q, k, v, make.mask(5, 7), 0.0, True, note="mask and causal")


@sample("flash")
def flash(make):
    laid = make.dtype != torch.float64  # PyTorch's derivative is undefined for other strides (undefined.py)
    q, k, v = make.tensor(2, 3, 5, 8), make.tensor(2, 3, 7, 8), make.tensor(2, 3, 7, 8)
    by_length = make.tensor(2, 5, 3, 8).transpose(1, 2)
    yield call(q, k, v, layouts=laid)
    yield call(by_length, k, v, layouts=laid)
    yield call(q, q, q, 0.0, True, layouts=laid)
    yield call(q, k, v, scale=0.3, layouts=laid)
    yield call(q, k, v, attn_mask=make.tensor(2, 3, 5, 7), layouts=laid)
    yield call(q, k, v, 0.0, True, attn_mask=make.tensor(5, 7), layouts=laid)
    yield call(q[0], k[0], v[0], layouts=laid, note="three dimensions")
    yield call(q, k, v, 0.5, layouts=laid, note="dropout")


@sample("flash_backward")
def flash_backward(make):
    if make.dtype not in (torch.float32, torch.float64):
        return
    laid = make.dtype != torch.float64
    q, k, v = make.tensor(2, 3, 5, 8), make.tensor(2, 3, 7, 8), make.tensor(2, 3, 7, 8)
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    yield call(make.tensor(2, 3, 5, 8), q, k, v, *forward(q, k, v), 0.0, False, layouts=laid)
    yield call(make.tensor(2, 3, 5, 8), q, q, q, *forward(q, q, q, 0.0, True), 0.0, True, layouts=laid)
    yield call(make.tensor(2, 3, 5, 8), q, k, v, *forward(q, k, v, scale=0.3), 0.0, False, scale=0.3, layouts=laid)


@sample("conv_tbc")
def conv_tbc(make):
    for time, pad in ((5, 0), (5, 1), (1, 2), (2, 0)):
        if time == 2 and make.dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex32):
            continue  # there is no product of these, but PyTorch makes an empty one
        yield call(make.tensor(time, 2, 3), make.tensor(3, 3, 4), make.tensor(4), pad)
    yield call(make.tensor(5, 2, 3), make.tensor(3, 3, 4), make.tensor(1), note="bias of another size")
    yield call(make.tensor(5, 2, 3), make.tensor(3, 2, 4), make.tensor(4), note="other channels")
    yield call(make.tensor(5, 3), make.tensor(3, 3, 4), make.tensor(4), note="no batch")


@sample("conv_tbc_backward")
def conv_tbc_backward(make):
    for steps, pad in ((3, 0), (5, 1)):
        yield call(make.tensor(steps, 2, 4), make.tensor(5, 2, 3), make.tensor(3, 3, 4), make.tensor(4), pad)
