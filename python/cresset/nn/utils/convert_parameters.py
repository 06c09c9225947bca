"""All parameters as one vector, and back."""
from cresset import _C

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    return _C._function("cat")([p.view(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Every parameter becomes a view of its part of `vec`."""
    if not _C.is_tensor(vec):
        raise TypeError(f"vector_to_parameters: expected a Tensor, not {type(vec).__name__}")
    at = 0
    for p in parameters:
        n = p.numel()
        p.data = vec[at:at + n].view_as(p).data
        at += n
