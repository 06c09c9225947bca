"""Clipping of gradients: by the norm of all together, or by value."""
import functools
import warnings

from cresset import _C
from cresset._grad_mode import no_grad

__all__ = ["clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_"]
_op = _C._function


def _as_list(parameters):
    return [parameters] if _C.is_tensor(parameters) else list(parameters)


def _without_grad(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        with no_grad():
            return function(*args, **kwargs)
    return inner


@_without_grad
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False,
                   foreach=None):  # unused foreach: the numbers are the same either way
    """The norm of all tensors' elements together."""
    tensors, norm_type = _as_list(tensors), float(norm_type)
    if not tensors:
        return _C.tensor(0.0)
    vector_norm = _op("linalg_vector_norm")
    total = vector_norm(_op("stack")([vector_norm(t, norm_type) for t in tensors]), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"the gradients' total norm of order {norm_type} is {total.item()}, so they cannot be "
                           f"clipped; "
                           "to go on anyway, set error_if_nonfinite=False")
    return total


@_without_grad
def clip_grads_with_norm_(parameters, max_norm, total_norm,
                          foreach=None):  # unused foreach: the numbers are the same either way
    """Scales the gradients by max_norm / total_norm where that is below 1."""
    grads = [p.grad for p in _as_list(parameters) if p.grad is not None]
    factor = _op("clamp")(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for grad in grads:
        grad.mul_(factor)


@_without_grad
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients so that their total norm is at most max_norm; returns the norm from before."""
    parameters = _as_list(parameters)
    total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    warnings.warn("clip_grad_norm is deprecated: use clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@_without_grad
def clip_grad_value_(parameters, clip_value, foreach=None):  # unused foreach: the numbers are the same either way
    """Limits every element of the gradients to [-clip_value, clip_value]."""
    for p in _as_list(parameters):
        if p.grad is not None:
            p.grad.clamp_(min=-float(clip_value), max=float(clip_value))
