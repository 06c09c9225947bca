"""How the functions here reach ops: `op` at import, `nn` when first called, `tensor_op` with or without the
underscore."""
from cresset import _C

Tensor = _C._populated_tensor_type()


def op(name):
    """The op as a function: takes `input=` as well as positions, chooses the overload."""
    return _C._function(name)


nn = _C._function  # which keeps what it has made


def tensor_op(name, inplace):
    return nn(name + "_" if inplace else name)


def repeated(value, n):
    """A number for all n dimensions, or one number each."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n
