"""LazyModuleMixin: a module whose parameters get their sizes from the first call.

Until then its parameters are UninitializedParameters. The first call runs `initialize_parameters` in a forward
pre-hook, then the object becomes one of `cls_to_become` and the hook is gone.
"""
import itertools
import warnings

from cresset.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)
        warnings.warn("lazy modules may change in a later version")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if is_lazy(param) or keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if is_lazy(buffer) or keep_vars else buffer.detach()

    def _lazy_load_hook(self, state_dict, prefix, *_args):
        """Sizes come from the checkpoint where it has them."""
        for name, param in itertools.chain(self._parameters.items(), self._buffers.items()):
            found = state_dict.get(prefix + name)
            if param is not None and found is not None and is_lazy(param) and not is_lazy(found):
                param.materialize(found.shape)

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters: a lazy module defines it")

    def has_uninitialized_params(self):
        return any(is_lazy(param) for param in itertools.chain(self._parameters.values(), self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"{module._get_name()}: initialize_parameters left parameters without a size")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
