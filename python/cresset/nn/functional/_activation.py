"""Activations and dropout. Each calls the one op that an export is to show; in-place forms call the op with the
underscore."""
import warnings

from cresset import _C
from cresset.nn.functional._ops import nn, op, tensor_op

celu_, elu_, hardtanh_, leaky_relu_, relu_, rrelu_ = map(op, "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_".split())
selu_, threshold_, gelu, hardshrink, prelu = map(op, "selu_ threshold_ gelu hardshrink prelu".split())
softplus, softshrink, logsigmoid = op("softplus"), op("softshrink"), op("log_sigmoid")

_threshold, _relu, _glu, _hardtanh, _relu6, _elu, _selu, _celu = map(op,
        "threshold relu glu hardtanh relu6 elu selu celu".split())
_leaky_relu, _rrelu, _hardsigmoid, _silu, _mish, _hardswish = map(op,
        "leaky_relu rrelu hardsigmoid silu mish hardswish".split())


def threshold(input, threshold, value, inplace=False):
    return (threshold_ if inplace else _threshold)(input, threshold, value)


def relu(input, inplace=False):
    return relu_(input) if inplace else _relu(input)


def glu(input, dim=-1):
    if input.dim() == 0:
        raise RuntimeError("glu halves a dimension, and a 0-d tensor has none")
    return _glu(input, dim)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is greater than max_val {max_val}")
    return (hardtanh_ if inplace else _hardtanh)(input, min_val, max_val)


def relu6(input, inplace=False):
    return nn("relu6_")(input) if inplace else _relu6(input)


def elu(input, alpha=1.0, inplace=False):
    return (elu_ if inplace else _elu)(input, alpha)


def selu(input, inplace=False):
    return selu_(input) if inplace else _selu(input)


def celu(input, alpha=1.0, inplace=False):
    return (celu_ if inplace else _celu)(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return (leaky_relu_ if inplace else _leaky_relu)(input, negative_slope)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    return (rrelu_ if inplace else _rrelu)(input, lower, upper, training)


def tanhshrink(input):
    return input - input.tanh()


def softsign(input):
    return input / (input.abs() + 1)


def tanh(input):
    return input.tanh()


def sigmoid(input):
    return input.sigmoid()


def hardsigmoid(input, inplace=False):
    return nn("hardsigmoid_")(input) if inplace else _hardsigmoid(input)


def silu(input, inplace=False):
    return nn("silu_")(input) if inplace else _silu(input)


def mish(input, inplace=False):
    return nn("mish_")(input) if inplace else _mish(input)


def hardswish(input, inplace=False):
    return nn("hardswish_")(input) if inplace else _hardswish(input)


def _softmax_dim(name, rank, stacklevel):
    """The dimension of old, when none was given: 0 for 0, 1 and 3 dimensions, else 1."""
    warnings.warn(f"{name}: give `dim`; choosing it from the number of dimensions is deprecated",
                  stacklevel=stacklevel + 1)
    return 0 if rank in (0, 1, 3) else 1


def _soft(name, input, dim, dtype, stacklevel):
    if dim is None:
        dim = _softmax_dim(name, input.dim(), stacklevel)
    method = input.log_softmax if name == "log_softmax" else (-input).softmax if name == "softmin" else input.softmax
    return method(dim) if dtype is None else method(dim, dtype=dtype)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    return _soft("softmax", input, dim, dtype, _stacklevel)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return _soft("softmin", input, dim, dtype, _stacklevel)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return _soft("log_softmax", input, dim, dtype, _stacklevel)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Samples of the Gumbel-softmax distribution; hard: one-hot vectors with the soft samples' gradient."""
    if eps != 1e-10:
        warnings.warn("gumbel_softmax: `eps` is deprecated and does nothing")
    noise = -op("empty_like")(logits, memory_format=_C.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = op("zeros_like")(logits, memory_format=_C.contiguous_format).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


# ---- dropout ----

def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"p is a probability, from 0 to 1, not {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    _check_probability(p)
    return tensor_op("dropout", inplace)(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    _check_probability(p)
    return tensor_op("alpha_dropout", inplace)(input, p, training)


def _channel_dropout(name, input, p, training, inplace, rank):
    """Whole channels at once; an input without a batch dimension (rank - 1 dimensions) gets one for the call."""
    _check_probability(p)
    dims = input.dim()
    if dims not in (rank - 1, rank):
        warnings.warn(f"{name}: expected {rank - 1} or {rank} dimensions, received a {dims}-D input; this will be an "
                      f"error in a later version", stacklevel=3)
    batched = dims == rank
    if name == "dropout2d":
        batched = True  # 3-D inputs have always meant (N, C, L) there
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = tensor_op("feature_dropout", inplace)(input, p, training)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


def dropout1d(input, p=0.5, training=True, inplace=False):
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: expected 2 or 3 dimensions, received a {input.dim()}-D input; use dropout for "
                           f"elements")
    return _channel_dropout("dropout1d", input, p, training, inplace, 3)


def dropout2d(input, p=0.5, training=True, inplace=False):
    return _channel_dropout("dropout2d", input, p, training, inplace, 4)


def dropout3d(input, p=0.5, training=True, inplace=False):
    return _channel_dropout("dropout3d", input, p, training, inplace, 5)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    _check_probability(p)
    return tensor_op("feature_alpha_dropout", inplace)(input, p, training)
