"""Pooling and unpooling. A stride of None means the kernel's size."""
from cresset.nn.functional._ops import nn, op, repeated

avg_pool1d, avg_pool2d, avg_pool3d, adaptive_avg_pool1d = map(op,
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d".split())


def _max_pool(name):
    plain, indexed = op(name), op(name + "_with_indices")

    # unused return_indices: as in PyTorch, these always return them
    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return indexed(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)

    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        run = indexed if return_indices else plain
        return run(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)

    with_indices.__name__ = with_indices.__qualname__ = name + "_with_indices"
    pool.__name__ = pool.__qualname__ = name
    return pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool("max_pool1d")
max_pool2d, max_pool2d_with_indices = _max_pool("max_pool2d")
max_pool3d, max_pool3d_with_indices = _max_pool("max_pool3d")


# ---- adaptive ----

def _sizes(output_size, input, n):
    """Output sizes with the input's own where None is given."""
    if not isinstance(output_size, (tuple, list)):
        return output_size if output_size is not None else list(input.shape[-n:])
    if len(output_size) > input.dim():
        raise ValueError(f"output_size has {len(output_size)} numbers, more than the input has dimensions "
                         f"({input.dim()})")
    return [own if wanted is None else wanted for wanted, own in zip(output_size, input.shape[-len(output_size):])]


def adaptive_avg_pool2d(input, output_size):
    return nn("adaptive_avg_pool2d")(input, _sizes(output_size, input, 2))


def adaptive_avg_pool3d(input, output_size):
    return nn("adaptive_avg_pool3d")(input, _sizes(output_size, input, 3))


# unused return_indices: as in PyTorch, it always returns them
def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    return nn("adaptive_max_pool1d")(input, output_size)


# unused return_indices: as in PyTorch, it always returns them
def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    return nn("adaptive_max_pool2d")(input, _sizes(output_size, input, 2))


# unused return_indices: as in PyTorch, it always returns them
def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    return nn("adaptive_max_pool3d")(input, _sizes(output_size, input, 3))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    values, indices = adaptive_max_pool1d_with_indices(input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool2d(input, output_size, return_indices=False):
    values, indices = adaptive_max_pool2d_with_indices(input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool3d(input, output_size, return_indices=False):
    values, indices = adaptive_max_pool3d_with_indices(input, output_size)
    return (values, indices) if return_indices else values


# ---- fractional ----

def _fractional(n, input, kernel_size, output_size, output_ratio, samples):
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: give output_size or output_ratio")
    if output_size is None:
        ratio = repeated(output_ratio, n)
        if len(ratio) > n:
            raise ValueError(f"{name}: output_ratio needs one number or {n}")
        output_size = [int(size * r) for size, r in zip(input.shape[-n:], ratio)]
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = nn("rand")(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    return nn(name)(input, kernel_size, output_size, samples)


# unused return_indices: as in PyTorch, it always returns them
def fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                                       _random_samples=None):
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


# unused return_indices: as in PyTorch, it always returns them
def fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                                       _random_samples=None):
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    values, indices = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, indices) if return_indices else values


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    values, indices = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, indices) if return_indices else values


# ---- unpooling ----

def _unpooled_size(input, kernel_size, stride, padding, output_size):
    """The size before pooling: the smallest that fits, or `output_size` when it is within one stride of that."""
    n = len(kernel_size)
    default = [(input.size(-n + d) - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(f"output_size has {n} or {n + 2} numbers, not {len(output_size)}")
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(f"output_size {tuple(output_size)} is not possible: at dimension {d} it lies between "
                             f"{low} and {high}")
    return output_size


def _unpool(n, input, indices, kernel_size, stride, padding, output_size):
    kernel_size = repeated(kernel_size, n)
    stride = kernel_size if stride is None else repeated(stride, n)
    padding = repeated(padding, n)
    size = _unpooled_size(input, kernel_size, stride, padding, output_size)
    if n == 1:
        size = list(size) + [1]
        return nn("max_unpool2d")(input.unsqueeze(-1), indices.unsqueeze(-1), size).squeeze(-1)
    return nn("max_unpool2d")(input, indices, size) if n == 2 else nn("max_unpool3d")(input, indices, size, stride,
            padding)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ---- power means ----

def _lp_pool(n, input, norm_type, kernel_size, stride, ceil_mode):
    """The p-norm of each window: an average of p-th powers, times the window's size, to the power 1/p."""
    count = 1
    for k in repeated(kernel_size, n):
        count *= k
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
    powers = input.pow(norm_type)
    out = pool(powers, kernel_size, padding=0, ceil_mode=ceil_mode) if stride is None else pool(powers, kernel_size,
            stride, 0, ceil_mode)
    return (nn("sign")(out) * nn("relu")(nn("abs")(out))).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
