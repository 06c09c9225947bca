"""Parametrizations: a tensor of a module that is computed from another one each time it is asked for.

The first parametrization of a module gives it a class of its own with a property for the tensor; what the tensor is
computed from lives in `module.parametrizations[name]`, as `original` (or original0, original1, ...).
"""
import collections
import contextlib
import copy
import threading

from cresset.nn.modules.container import ModuleDict, ModuleList
from cresset.nn.parameter import Parameter, Tensor

__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
           "type_before_parametrizations",
           "transfer_parametrizations_and_params"]



class _Cache(threading.local):
    """Of each thread its own: what one computes, fakes included, is nothing to the others."""

    def __init__(self):
        self.depth, self.tensors = 0, {}


_cache = _Cache()


@contextlib.contextmanager
def cached():
    """Inside, a parametrized tensor is computed once and kept."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.tensors.clear()


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in turn, and what they start from."""

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("a ParametrizationList needs at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        new = original
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    pass
        if not isinstance(new, (Tensor, collections.abc.Sequence)):
            raise ValueError(f"right_inverse must return a Tensor or a sequence of tensors, not {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(f"right_inverse must keep the dtype of an original of {original.dtype}, but it gave "
                                 f"{new.dtype}")
            if original.device != new.device:
                raise ValueError(f"right_inverse must keep the device {original.device}, but it gave {new.device}")
            original.data = new.data if new is not original else original.data
            _register(self, "original", original)
        else:
            for i, tensor in enumerate(new):
                if not isinstance(tensor, Tensor):
                    raise ValueError(f"right_inverse must return tensors, but item {i} is a {type(tensor).__name__}")
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                _register(self, f"original{i}", tensor)
        if not self.unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"a parametrization must return a tensor, not {type(result).__name__}")
            if result.dtype != original.dtype:
                raise ValueError(f"a parametrization must keep the dtype {original.dtype}, but it gave {result.dtype}; "
                                 f"unsafe=True allows it")
            if result.shape != original.shape:
                raise ValueError(f"a parametrization must keep the sizes {tuple(original.shape)}, but it gave "
                                 f"{tuple(result.shape)}; unsafe=True allows it")

    def right_inverse(self, value):
        """Sets the originals so that the parametrized tensor becomes `value`."""
        from cresset._grad_mode import no_grad
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                            f"{type(module).__name__} has no right_inverse, so the tensor cannot be assigned")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"right_inverse must return a tensor, not {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(f"the tensor assigned has dtype {value.dtype}, the original {self.original.dtype}")
                self.original.data = value.data
            else:
                if not isinstance(value, collections.abc.Sequence) or len(value) != self.ntensors:
                    raise ValueError(f"right_inverse must return a sequence of {self.ntensors} tensors")
                for i, tensor in enumerate(value):
                    getattr(self, f"original{i}").data = tensor.data

    def forward(self):
        x = self[0](self.original) if self.is_tensor else self[0](*(getattr(self, f"original{i}")
                                                                    for i in range(self.ntensors)))
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _inject_new_class(module):
    base = type(module)

    def default_deepcopy(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copied = self.__new__(self.__class__)
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def getstate(self):
        raise RuntimeError("parametrized modules are stored through their state_dict(): their class exists in this "
                           "process only")

    members = {"__getstate__": getstate, "__module__": __name__}
    if not hasattr(base, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)


def _inject_property(module, tensor_name):
    if hasattr(type(module), tensor_name):
        raise AssertionError(f"{type(module).__name__} has a class attribute '{tensor_name}'")

    def get(self):
        if not _cache.depth:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if key not in _cache.tensors:
            _cache.tensors[key] = self.parametrizations[tensor_name]()
        return _cache.tensors[key]

    def set(self, value):
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, set))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Makes module.tensor_name the parametrization's forward of the tensor; a second one is applied to the first one's
    result."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parametrizations = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            if not isinstance(after, Tensor) or after.dtype != before.dtype or after.shape != before.shape:
                raise ValueError(f"a parametrization must keep dtype and sizes ({before.dtype}, {tuple(before.shape)}) "
                                 f"of '{tensor_name}'; "
                                 "unsafe=True allows another result")
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(f"{module._get_name()} has no parameter, buffer or parametrized tensor named '{tensor_name}'")
    return module


def is_parametrized(module, tensor_name=None):
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes module.tensor_name a plain tensor again: what it is now, or (leave_parametrized=False) the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{module._get_name()} has no parametrization of '{tensor_name}'")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            original.data = getattr(module, tensor_name).data
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad or isinstance(parametrizations.original0,
                Parameter) else value
    else:
        raise ValueError(f"'{tensor_name}' is computed from {parametrizations.ntensors} tensors: there is no one "
                         f"original to go back to")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives to_module the parametrizations of from_module (of one tensor, or of all) with their originals."""
    if not is_parametrized(from_module):
        raise AssertionError("transfer_parametrizations_and_params: from_module is not parametrized")
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for original in (["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]):
            setattr(target, original, getattr(source, original))
    return to_module
