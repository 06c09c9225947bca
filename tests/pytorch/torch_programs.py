"""Programs for torch.compile(backend="cresset"): {name: (function, arguments)}; arguments are made anew by each call.
Those of TRAINED are differentiated with respect to all floating arguments."""
import torch
import torch.nn.functional as F
from torch import randn, tensor


def _write_slice(x, y):
    z = x.clone()
    z[:, 1:3] = y
    z[0].add_(1)
    return z


def _write_input(x):
    x.mul_(2)
    x[1:].add_(1)
    return x.sum()


def _write_view(x):
    v = x.view(-1)
    v[0] = 7
    return v, x + 1


def _loop(x):
    for i in range(4):
        x = torch.tanh(x * (i + 1)) + x.mean(-1, keepdim=True)
    return x


def _attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _mask(x):
    return torch.where(x > 0, x, torch.full_like(x, -1)), (x > 0).sum(), x.masked_fill(x < 0, 3)


def _embed(index, table):
    return F.embedding(index, table).sum(1)


def _conv(x, w, b):
    return F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)


def _batch_norm(x, w, b, mean, var):
    return F.batch_norm(x, mean, var, w, b, training=True)


INFERENCE = {
    "pointwise": (lambda x, y: (x * 2 + y.sin()).relu() / 3, lambda: (randn(3, 4), randn(4))),
    "linear": (lambda x, w, b: F.linear(x, w, b), lambda: (randn(5, 4), randn(3, 4), randn(3))),
    "bmm": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), lambda: (randn(2, 3, 4), randn(2, 5, 4))),
    "softmax": (lambda x: F.softmax(x, -1) + F.log_softmax(x, 0), lambda: (randn(4, 6),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), lambda: (randn(2, 3, 6), randn(6), randn(6))),
    "conv": (_conv, lambda: (randn(2, 3, 8, 8), randn(4, 3, 3, 3), randn(4))),
    "conv_channels_last": (_conv, lambda: (randn(2, 3, 8, 8).to(memory_format=torch.channels_last), randn(4, 3, 3, 3),
                                           randn(4))),
    "attention": (_attention, lambda: (randn(2, 2, 5, 8), randn(2, 2, 5, 8), randn(2, 2, 5, 8))),
    "embedding": (_embed, lambda: (tensor([[1, 2], [0, 3]]), randn(5, 4))),
    "loop": (_loop, lambda: (randn(3, 5),)),
    "reductions": (lambda x: (x.sum(), x.mean(0), x.amax(1), x.std(), x.prod(0), x.norm()), lambda: (randn(3, 4),)),
    "max_indices": (lambda x: x.max(1), lambda: (randn(3, 4),)),
    "sort_topk": (lambda x: (*x.sort(-1), *x.topk(2)), lambda: (randn(3, 7),)),
    "cat_stack": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x + 1])), lambda: (randn(2, 3), randn(2, 4))),
    "split": (lambda x: tuple(p * 2 for p in x.split(2, 1)), lambda: (randn(3, 5),)),
    "split_views": (lambda x: x.split(2, 1), lambda: (randn(3, 5),)),
    "chunk_of_made": (lambda x: (x + 1).chunk(2, 0), lambda: (randn(4, 3),)),
    "gather": (lambda x, i: (x.gather(1, i), x.index_select(0, i[0]), x[i[:, 0]]), lambda: (randn(3, 4),
                                                                                           tensor([[0, 1], [2, 0]]))),
    "index_put": (lambda x, i: x.index_put((i,), torch.ones(4), accumulate=True),
                  lambda: (randn(3, 4), tensor([0, 2, 0]))),
    "write_slice": (_write_slice, lambda: (randn(3, 4), randn(3, 2))),
    "write_input": (_write_input, lambda: (randn(3, 4),)),
    "write_view": (_write_view, lambda: (randn(3, 4),)),
    "views": (lambda x: (x.t(), x[1], x.view(-1), x[:, 1:3], x.unsqueeze(0)), lambda: (randn(3, 4),)),
    "views_of_made": (lambda x: ((x + 1).t(), x * 2), lambda: (randn(3, 4),)),
    "shared_made": (lambda x: (lambda y: (y, y.view(-1), y[0]))(x + 1), lambda: (randn(3, 4),)),
    "returns_input": (lambda x, y: (x, y + x), lambda: (randn(3), randn(3))),
    "twice": (lambda x: (lambda y: (y, y))(x * 2), lambda: (randn(3),)),
    "expand": (lambda x: (x.sum(0).expand(4, 3), x.expand(2, 4, 3)), lambda: (randn(4, 3),)),
    "permuted": (lambda x: x.permute(2, 0, 1).contiguous() + x.permute(2, 0, 1), lambda: (randn(2, 3, 4),)),
    "half": (lambda x: (x.half() * 2, x.bfloat16() + 1, x.double()), lambda: (randn(3, 4),)),
    "dtype_mixture": (lambda x, i, b: (x + i, i * b, i / 2, x * b), lambda: (randn(3), tensor([1, 2, 3]),
                                                                            tensor([True, False, True]))),
    "integers": (lambda i: (i + 1, i // 2, i % 3, i.float().mean(), i.sum(), i > 1), lambda: (tensor([3, 4, 5]),)),
    "bool": (lambda x: ((x > 0) & (x < 1), (x > 0).any(), ~(x > 0)), lambda: (randn(5),)),
    "complex": (lambda x: (x * (1 + 2j), x.abs(), torch.view_as_real(x * x), x.real + x.imag),
                lambda: (randn(4, dtype=torch.complex64),)),
    "conjugated": (lambda x: (x.conj() * 2, x.conj().imag + 1), lambda: (randn(4, dtype=torch.complex64),)),
    "fft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=8), lambda: (randn(3, 8),)),
    "none": (lambda x: (None, x + 1, None), lambda: (randn(3),)),
    "no_tensor": (lambda x: (1, "a", x.shape[0], 2.5), lambda: (randn(3),)),
    "constant": (lambda x: x + torch.tensor([1.0, 2.0, 3.0]), lambda: (randn(3),)),
    "factories": (lambda x: (torch.arange(4) + x.shape[0], torch.zeros(2, 3), torch.ones_like(x), torch.eye(3)),
                  lambda: (randn(3),)),
    "scalar": (lambda x: x.sum() * 2 + 1, lambda: (randn(()),)),
    "empty": (lambda x: (x * 2, x.sum(), torch.cat([x, x])), lambda: (randn(0, 3),)),
    "masks": (_mask, lambda: (randn(4, 3),)),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), lambda: (randn(2, 3, 4), randn(2, 4, 5))),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: (randn(1, 2, 3, 3),)),
    "pad": (lambda x: F.pad(x, (1, 2), value=3) + F.pad(x, (2, 1), mode="reflect"), lambda: (randn(2, 3, 6),)),
    "cumulative": (lambda x: (x.cumsum(1), x.cumprod(0), x.flip(1), x.roll(1, 0)), lambda: (randn(3, 4),)),
    "nan": (lambda x: (x.nan_to_num(), x.isnan(), torch.maximum(x, x.flip(0))),
            lambda: (tensor([1.0, float("nan"), float("inf"), -2.0]),)),
    "rank_seven": (lambda x: x.transpose(1, 5) * 2, lambda: (randn(2, 1, 2, 1, 2, 3, 2),)),
    "large_numbers": (lambda i: i * 2 + 2**40, lambda: (tensor([2**33, 5]),)),
    "histogram": (lambda x: torch.histc(x, 4, -1, 1) * 2, lambda: (randn(20),)),
    "svd": (lambda x: torch.linalg.svdvals(x + 1) * 2, lambda: (randn(4, 3),)),
}

TRAINED = {
    "pointwise": INFERENCE["pointwise"], "linear": INFERENCE["linear"], "bmm": INFERENCE["bmm"],
    "softmax": INFERENCE["softmax"], "layer_norm": INFERENCE["layer_norm"], "conv": INFERENCE["conv"],
    "attention": INFERENCE["attention"], "embedding": INFERENCE["embedding"], "loop": INFERENCE["loop"],
    "max_indices": (lambda x: x.max(1)[0], lambda: (randn(3, 4),)),
    "write_slice": INFERENCE["write_slice"], "views": INFERENCE["views"], "shared_made": INFERENCE["shared_made"],
    "expand": INFERENCE["expand"],
    "complex": (lambda x: (x * (1 + 2j)).abs(), lambda: (randn(4, dtype=torch.complex64),)),
    "returns_input": (lambda x, y: y + x, lambda: (randn(3), randn(3))),
    "batch_norm": (lambda x, w, b: _batch_norm(x, w, b, torch.zeros(3), torch.ones(3)),
                   lambda: (randn(4, 3, 5), randn(3), randn(3))),
    "scalar": INFERENCE["scalar"],
    "gather": (lambda x, i: x.gather(1, i), lambda: (randn(3, 4), tensor([[0, 1], [2, 0]]))),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), lambda: (randn(4, 5), tensor([0, 4, 2, 2]))),
    "int_output": (lambda x: (x * 2, x.argmax()), lambda: (randn(4),)),
    "interpolate": INFERENCE["interpolate"], "cumulative": (lambda x: x.cumsum(1).flip(1), lambda: (randn(3, 4),)),
    "half": (lambda x: x.half().float() * 2, lambda: (randn(3, 4),)),
}
