"""Parameter and Buffer: tensors that a Module keeps when they are assigned to it.

A Parameter is a subclass of Tensor. A Buffer is a plain tensor with a mark on it. A plain tensor that carries the mark
`_is_param` counts as a Parameter too: tracing puts such stand-ins into a module.
"""
from collections import OrderedDict

from cresset import _C

Tensor = _C._populated_tensor_type()
_empty = _C._function("empty")
__all__ = ["Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "is_lazy",
           "UninitializedTensorMixin"]


class _ParameterMeta(type(Tensor)):
    def __instancecheck__(self, instance):
        if super().__instancecheck__(instance):
            return True
        return self is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """Parameter(data=None, requires_grad=True): a tensor that modules list among their parameters."""
    _is_param = True

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: data must be a Tensor, not {type(data).__name__}")
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(memory_format=_C.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        state = {key: value for key, value in self.__dict__.items() if key != "grad"}
        if state:
            return _rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


def _rebuild_parameter(data, requires_grad, _backward_hooks):
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, _backward_hooks, state):
    result = Parameter(data, requires_grad)
    result.__dict__.update(state)
    return result


class _BufferMeta(type(Tensor)):
    def __instancecheck__(self, instance):
        if super().__instancecheck__(instance):
            return True
        return self is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """Buffer(data=None, *, persistent=True): assigned to a module, it becomes a buffer of that name."""

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = _empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """A tensor whose size is not known yet: only its dtype and device can be asked for or changed."""

    _allowed = ("to", "float", "double", "half", "bfloat16", "cpu", "requires_grad_", "requires_grad", "type")

    def materialize(self, shape, device=None, dtype=None):
        """Gives the tensor its size; the elements are not set."""
        self.data = _empty(shape, device=device or self.data.device, dtype=dtype or self.data.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(f"the size of an {type(self).__name__} is not known before the module's first call; run a "
                           f"dry pass first")

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad,)

    def __repr__(self):
        return f"<{type(self).__name__}>"


def is_lazy(param):
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose size a lazy module finds out from its first input."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor._make_subclass(cls, _empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        memo[id(self)] = result = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return result


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose size a lazy module finds out from its first input."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        result = Tensor._make_subclass(cls, _empty(0, device=device, dtype=dtype), requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result
