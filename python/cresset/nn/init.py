"""Initial values of parameters, drawn from the default generator in the order in which PyTorch draws them.

Functions with a trailing underscore fill a tensor in place and return it.
"""
import math
import warnings

from cresset import _C
from cresset._grad_mode import no_grad

_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
          "conv_transpose3d": 1.0,
          "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}


def calculate_gain(nonlinearity, param=None):
    """By how much a layer's weights are scaled so that the nonlinearity after it keeps the variance."""
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif not isinstance(param, bool) and isinstance(param, (int, float)):
            slope = param
        else:
            raise ValueError(f"calculate_gain: the slope of leaky_relu is a number, not {param!r}")
        return math.sqrt(2.0 / (1 + slope ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"calculate_gain: no gain is known for {nonlinearity!r}")
    return 1 if _GAINS[nonlinearity] == 1.0 else _GAINS[nonlinearity]


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """A normal distribution cut off at a and b, by drawing again where a number is refused.

    Candidates are normal numbers when at least 3 in 10 of them lie between a and b; otherwise uniform ones, which are
    taken with the density's probability (relative to its peak there). Every round draws a whole tensor of candidates.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("trunc_normal_: the mean is more than two deviations outside [a, b]; the numbers may be "
                      "distributed wrongly", stacklevel=2)
    below = lambda x: (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0
    where, empty_like = _C._function("where"), _C._function("empty_like")
    peak = -0.5 * ((min(max(mean, a), b) - mean) / std) ** 2
    normal = below(b) - below(a) >= 0.3
    with no_grad():
        open_places = None
        while open_places is None or open_places.any():
            fresh = empty_like(tensor)
            if normal:
                fresh.normal_(mean, std, generator=generator)
                refused = (fresh < a) | (fresh > b)
            else:
                fresh.uniform_(a, b, generator=generator)
                height = empty_like(tensor).uniform_(generator=generator)
                refused = height >= (-0.5 * ((fresh - mean) / std) ** 2 - peak).exp()
            tensor.copy_(fresh if open_places is None else where(open_places, fresh, tensor))
            open_places = refused if open_places is None else open_places & refused
        return tensor


def constant_(tensor, val):
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    return constant_(tensor, 1.0)


def zeros_(tensor):
    with no_grad():
        return tensor.zero_()


def eye_(tensor):
    if tensor.ndimension() != 2:
        raise ValueError(f"eye_: only tensors with 2 dimensions are supported, not {tensor.ndimension()}")
    with no_grad():
        tensor.copy_(_C._function("eye")(*tensor.shape))
    return tensor


def dirac_(tensor, groups=1):
    """A convolution weight that passes its input channels on unchanged, in each group."""
    rank = tensor.ndimension()
    if rank not in (3, 4, 5):
        raise ValueError(f"dirac_: only tensors with 3, 4 or 5 dimensions are supported, not {rank}")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError(f"dirac_: {sizes[0]} output channels cannot be divided into {groups} groups")
    per_group = sizes[0] // groups
    with no_grad():
        tensor.zero_()
        middle = tuple(n // 2 for n in sizes[2:])
        for g in range(groups):
            for d in range(min(per_group, sizes[1])):
                tensor[(g * per_group + d, d) + middle] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("fan in and fan out can not be computed for a tensor with fewer than 2 dimensions")
    field = 1
    for n in tensor.shape[2:]:
        field *= n
    return tensor.size(1) * field, tensor.size(0) * field


def _fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is 'fan_in' or 'fan_out', not {mode!r}")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _empty_warning(tensor):
    if 0 in tensor.shape:
        warnings.warn("initializing a tensor without elements does nothing", stacklevel=3)
        return True
    return False


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _empty_warning(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    with no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _empty_warning(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    with no_grad():
        return tensor.normal_(0, std, generator=generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Orthogonal rows (or columns): the Q of a QR decomposition of normal numbers, with the signs of R's diagonal."""
    if tensor.ndimension() < 2:
        raise ValueError("orthogonal_: only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    flattened = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    if rows < cols:
        flattened.t_()
    q, r = _C._function("linalg_qr")(flattened)
    q *= _C._function("diag")(r, 0).sign()
    if rows < cols:
        q.t_()
    with no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal numbers; the given fraction of each column is zero."""
    if tensor.ndimension() != 2:
        raise ValueError(f"sparse_: only tensors with 2 dimensions are supported, not {tensor.ndimension()}")
    rows, cols = tensor.shape
    zeros = int(math.ceil(sparsity * rows))
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(cols):
            tensor[_C._function("randperm")(rows)[:zeros], column] = 0
    return tensor


def _old_name(function):
    def old(*args, **kwargs):
        warnings.warn(f"nn.init.{function.__name__[:-1]} is deprecated: use nn.init.{function.__name__}",
                      FutureWarning, stacklevel=2)
        return function(*args, **kwargs)
    old.__name__ = function.__name__[:-1]
    return old


uniform, normal, constant, eye, dirac = map(_old_name, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = map(_old_name, (xavier_uniform_, xavier_normal_,
        kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_old_name, (orthogonal_, sparse_))
