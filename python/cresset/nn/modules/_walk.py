"""Dotted paths through modules, and the arguments of Module.to."""
from cresset import _C


def _step(module, name, whole):
    from cresset.nn.modules.module import Module
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}` (looking for '{whole}')")
    found = getattr(module, name)
    if not isinstance(found, Module):
        raise AttributeError(f"`{name}` is not an nn.Module but a {type(found).__name__} (looking for '{whole}')")
    return found


def submodule(module, target):
    for name in target.split(".") if target else []:
        module = _step(module, name, target)
    return module


def replace(module, target, value, strict):
    from cresset.nn.modules.module import Module
    if target == "":
        raise ValueError("set_submodule: a module cannot replace itself; give the path of a submodule")
    *path, last = target.split(".")
    if not isinstance(value, Module):
        raise ValueError(f"set_submodule: `module` is not an nn.Module but a {type(value).__name__}")
    parent = submodule(module, ".".join(path))
    if strict and not hasattr(parent, last):
        raise AttributeError(f"{parent._get_name()} has no attribute `{last}`")
    if hasattr(parent, last) and not isinstance(getattr(parent, last), Module):
        raise AttributeError(f"`{last}` is not an nn.Module but a {type(getattr(parent, last)).__name__}")
    setattr(parent, last, value)


def member(module, target, kind, accept):
    path, _, name = target.rpartition(".")
    owner = submodule(module, path)
    if not hasattr(owner, name):
        raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
    value = getattr(owner, name)
    if not accept(value):
        raise AttributeError(f"`{name}` is not a {kind} of {owner._get_name()} but a {type(value).__name__}")
    return value


def parse_to(*args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None, tensor=None):
    """The arguments of Module.to as (device, dtype, non_blocking, memory_format)."""
    rest = list(args)
    if rest and _C.is_tensor(rest[0]):
        tensor = rest.pop(0)
    elif rest and isinstance(rest[0], _C.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], _C.dtype)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = rest.pop(0)
    if rest and isinstance(rest[0], bool):
        copy = rest.pop(0)
    if rest or copy:
        raise TypeError(
                "Module.to takes (device, dtype), (dtype) or (tensor), then non_blocking; memory_format by name")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if device is not None and not isinstance(device, _C.device):
        device = _C.device(device)
    return device, dtype, bool(non_blocking), memory_format
