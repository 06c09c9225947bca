"""skip_init: a module whose parameters are allocated but not filled."""
import inspect

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    from cresset.nn.modules.module import Module
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init takes a module class, not {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} takes no device, so it cannot be made without filling "
                           f"its parameters")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
