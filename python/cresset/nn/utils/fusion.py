"""A batch normalization in eval mode is a linear map: it can be part of the convolution or linear layer before it."""
import copy

from cresset import _C
from cresset.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _scale(bn_rv, bn_eps, bn_w):
    return bn_w * _C._function("rsqrt")(bn_rv + bn_eps)


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of the convolution that does both."""
    if conv.training or bn.training:
        raise AssertionError("fusion is for layers in eval mode: call .eval() first")
    fused = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("a batch norm without running statistics cannot be fused")
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    return fused


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    bn_w = _C._function("ones_like")(bn_rm) if bn_w is None else bn_w
    bn_b = _C._function("zeros_like")(bn_rm) if bn_b is None else bn_b
    conv_bias = _C._function("zeros_like")(bn_rm) if conv_b is None else conv_b
    scale = _scale(bn_rv, bn_eps, bn_w)
    shape = [1, -1] if transpose else [-1, 1]
    weight = (conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))).to(conv_w.dtype)
    bias = ((conv_bias - bn_rm) * scale + bn_b).to(conv_bias.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_bias.requires_grad)


def fuse_linear_bn_eval(linear, bn):
    """A copy of the linear layer that does both."""
    if linear.training or bn.training:
        raise AssertionError("fusion is for layers in eval mode: call .eval() first")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(f"the linear layer has {linear.out_features} outputs, the batch norm {bn.num_features} "
                             f"features")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var,
                                                      bn.eps, bn.weight, bn.bias)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    linear_bias = _C._function("zeros_like")(bn_rm) if linear_b is None else linear_b
    scale = _scale(bn_rv, bn_eps, bn_w)
    weight = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    bias = ((linear_bias - bn_rm) * scale + bn_b).to(dtype=linear_bias.dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_bias.requires_grad)
