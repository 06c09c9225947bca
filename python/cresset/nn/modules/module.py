"""Module: the base class of all layers and models.

A module keeps its parameters, buffers and submodules in three dictionaries, in the order in which they were assigned;
every walk over them (state_dict, parameters(), to(), repr) follows that order. Calling a module calls its `forward`
between its hooks.

While an export records on this thread, `enter(module)` and `leave(module)` of its tracer frame every call; otherwise a
module without hooks calls `forward` at once.
"""
import functools
import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from cresset import _C
from cresset._grad_mode import no_grad
from cresset.nn.modules import _walk
from cresset.nn.parameter import Buffer, Parameter, Tensor, is_lazy
from cresset.utils.hooks import BackwardHook, RemovableHandle

__all__ = ["Module", "register_module_forward_pre_hook", "register_module_forward_hook",
           "register_module_full_backward_pre_hook", "register_module_full_backward_hook",
           "register_module_backward_hook",
           "register_module_buffer_registration_hook",
           "register_module_module_registration_hook", "register_module_parameter_registration_hook"]

_exporting = _C._exporting
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None  # of which kind the hooks of all modules are; there is one kind at a time
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
_HOOK_TABLES = ("_backward_pre_hooks _backward_hooks _forward_hooks _forward_hooks_with_kwargs "
                "_forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs _state_dict_hooks "
                "_state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks").split()


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


def _add_hook(table, hook, *flags, prepend=False):
    """Puts a hook into a table and a mark into each of the tables in `flags`; the handle takes all of them out."""
    handle = RemovableHandle(table, extra_dict=list(flags))
    table[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args), before the forward of every module."""
    return _add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output), after the forward of every module."""
    flags = ([_global_forward_hooks_with_kwargs] if with_kwargs else []) + ([_global_forward_hooks_always_called]
            if always_call else [])
    return _add_hook(_global_forward_hooks, hook, *flags)


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output), when the gradients of the results of any module are there."""
    return _add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output), when the gradients of the arguments of any module are there."""
    _global_kind(True)
    return _add_hook(_global_backward_hooks, hook)


def register_module_backward_hook(hook):
    """The old form of register_module_full_backward_hook: it sees the last op of a module, not the module."""
    _global_kind(False)
    return _add_hook(_global_backward_hooks, hook)


def _global_kind(full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is not None and _global_is_full_backward_hook is not full:
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a global Module hook: "
                           "register_module_full_backward_hook() is the one to use")
    _global_is_full_backward_hook = full


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) whenever a buffer is registered; what it returns is registered instead."""
    return _add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) whenever a submodule is registered; what it returns is registered instead."""
    return _add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) whenever a parameter is registered; what it returns is registered instead."""
    return _add_hook(_global_parameter_registration_hooks, hook)


def _filtered(hooks, module, name, value):
    for hook in hooks.values():
        other = hook(module, name, value)
        if other is not None:
            value = other
    return value


def _name_text(kind, name):
    """Checks the name of a parameter, buffer or submodule; KeyError or TypeError says what is wrong with it."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a str, not {type(name).__name__}")
    if name == "":
        raise KeyError(f'the name of a {kind} cannot be the empty string ""')
    if "." in name:
        raise KeyError(f"the name of a {kind} cannot contain '.', which separates modules: {name!r}")


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _forward_unimplemented(self, *input):
    raise NotImplementedError(f'{type(self).__name__} has no "forward": define it in the class')


class Module:
    """The base class of layers and models: assign parameters and submodules in __init__, compute in forward."""

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and kwargs:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                            f"'{next(iter(kwargs))}'")
        if not self.call_super_init and args:
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were "
                            f"given")
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_non_persistent_buffers_set"] = set()
        state["_is_full_backward_hook"] = None
        for name in _HOOK_TABLES:
            state[name] = OrderedDict()
        state["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- calling ----

    def __call__(self, *args, **kwargs):
        stack = _exporting()
        if stack is None:
            if (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                    or _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks
                    or _global_backward_pre_hooks):
                return self._call_impl(*args, **kwargs)
            return self.forward(*args, **kwargs)
        stack.enter(self)
        try:
            return self._call_impl(*args, **kwargs)
        finally:
            stack.leave(self)

    def compile(self, *args, **kwargs):
        """Compiles forward in place, with the arguments of cresset.compile. Hooks run around what was compiled."""
        import cresset
        self.__dict__["forward"] = cresset.compile(self.forward, *args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(f"a forward pre-hook with keyword arguments must return None or (args, "
                                           f"kwargs), not {changed!r}")
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        full, plain = self._backward_hooks_by_kind()
        pre = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        framed = None
        if full or pre:
            framed = BackwardHook(self, full, pre)
            args = framed.setup_input_hook(args)
        result = self._forward_between_hooks(args, kwargs)
        if framed is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn("For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                              f"but received {type(result)}")
            else:
                result = framed.setup_output_hook(result)
        if plain:
            self._hook_last_op(result, plain)
        return result

    def _forward_between_hooks(self, args, kwargs):
        hooks = (*_global_forward_hooks.items(), *self._forward_hooks.items())
        if not hooks:
            return self.forward(*args, **kwargs)
        result, called = None, set()
        try:
            result = self.forward(*args, **kwargs)
            for key, hook in hooks:
                called.add(key)
                changed = self._run_forward_hook(key, hook, args, kwargs, result)
                if changed is not None:
                    result = changed
            return result
        except Exception:
            for key, hook in hooks:
                if key in called or not (key in self._forward_hooks_always_called
                                         or key in _global_forward_hooks_always_called):
                    continue
                try:
                    changed = self._run_forward_hook(key, hook, args, kwargs, result)
                    result = result if changed is None else changed
                except Exception as error:
                    warnings.warn(f"a forward hook that is always called failed after another error, and is ignored: "
                                  f"{error}")
            raise

    def _run_forward_hook(self, key, hook, args, kwargs, result):
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; it may return new args. with_kwargs: hook(module, args, kwargs) -> (args,
        kwargs)."""
        return _add_hook(self._forward_pre_hooks, hook,
                         *([self._forward_pre_hooks_with_kwargs] if with_kwargs else []), prepend=prepend)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; it may return another output. always_call: also when forward
        raised."""
        flags = ([self._forward_hooks_with_kwargs] if with_kwargs else []) + ([self._forward_hooks_always_called]
                if always_call else [])
        return _add_hook(self._forward_hooks, hook, *flags, prepend=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) when the gradients of the results are there; it may return others."""
        return _add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) when the gradients of the arguments by position are there, None for
        what is no tensor; it may return other gradients of the arguments. What a module is given and gives back must
        not be written to in place then."""
        if self._is_full_backward_hook is False:
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a single Module: "
                               "register_full_backward_hook() is the one to use")
        self._is_full_backward_hook = True
        return _add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """The old form of register_full_backward_hook: it sees the last op of the module, not the module."""
        if self._is_full_backward_hook is True:
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a single Module: "
                               "register_full_backward_hook() is the one to use")
        self._is_full_backward_hook = False
        return _add_hook(self._backward_hooks, hook)

    def _backward_hooks_by_kind(self):
        full, plain = [], []
        for hooks, is_full in ((_global_backward_hooks, _global_is_full_backward_hook),
                               (self._backward_hooks, self._is_full_backward_hook)):
            (full if is_full else plain).extend(hooks.values())
        return full, plain

    def _hook_last_op(self, result, hooks):
        """Old backward hooks see the node of the first tensor in the result."""
        warnings.warn("Using a non-full backward hook: grad_input is that of the last op in the module's forward, and "
                      "may lack or mix inputs of the module; use register_full_backward_hook()", FutureWarning,
                      stacklevel=4)
        while not isinstance(result, Tensor):
            if not isinstance(result, (dict, tuple, list)) or not result:
                return
            result = next((v for v in result.values() if isinstance(v, Tensor)), None) if isinstance(result, dict) \
                else result[0]
        if result.grad_fn is not None:
            for hook in hooks:
                result.grad_fn.register_hook(functools.partial(hook, self))

    # ---- what a module keeps ----

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is no parameter; a persistent one is part of the state_dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError(f"buffer '{name}' is assigned before Module.__init__() ran: call super().__init__() "
                                 f"first")
        _name_text("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"buffer '{name}' must be a Tensor or None, not {type(tensor).__name__}")
        self._buffers[name] = _filtered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a Parameter, or None to keep its place."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"parameter '{name}' is assigned before Module.__init__() ran: call "
                                 f"super().__init__() first")
        _name_text("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"parameter '{name}' must be a Parameter or None, not {type(param).__name__}")
        if param is not None and not param.is_leaf:
            raise ValueError(
                    f"parameter '{name}' is the result of a computation: compute it in forward(), or detach it")
        self._parameters[name] = _filtered(_global_parameter_registration_hooks, self, name, param)

    def add_module(self, name, module):
        """Adds a submodule, or None to keep its place."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"submodule '{name}' must be a Module, not {type(module).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a submodule must be a str, not {type(name).__name__}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        _name_text("submodule", name)
        self._modules[name] = _filtered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name, module):
        """The same as add_module."""
        self.add_module(name, module)

    def __getattr__(self, name):
        state = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if table in state and name in state[table]:
                return state[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def _forget(self, name, *keep):
        """Takes `name` out of everywhere but the tables in `keep`."""
        for table in (self.__dict__, self._parameters, self._buffers, self._modules):
            if not any(table is k for k in keep):
                table.pop(name, None)
        if not any(self._buffers is k for k in keep):
            self._non_persistent_buffers_set.discard(name)

    def __setattr__(self, name, value):
        state = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in state:
                raise AttributeError(f"parameter '{name}' is assigned before Module.__init__() ran: call "
                                     f"super().__init__() first")
            self._forget(name, self._parameters)
            self.register_parameter(name, value)
        elif "_parameters" in state and name in state["_parameters"]:
            if value is not None:
                raise TypeError(f"cannot assign a {type(value).__name__} as parameter '{name}': a Parameter or None is "
                                f"needed")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in state:
                raise AttributeError(f"submodule '{name}' is assigned before Module.__init__() ran: call "
                                     f"super().__init__() first")
            self._forget(name, self._modules)
            _name_text("submodule", name) if name not in self._modules else None
            self._modules[name] = _filtered(_global_module_registration_hooks, self, name, value)
        elif "_modules" in state and name in state["_modules"]:
            if value is not None:
                raise TypeError(f"cannot assign a {type(value).__name__} as submodule '{name}': a Module or None is "
                                f"needed")
            self._modules[name] = _filtered(_global_module_registration_hooks, self, name, value)
        elif (isinstance(value, Tensor) and isinstance(value, Buffer)
              or "_buffers" in state and name in state["_buffers"]):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign a {type(value).__name__} as buffer '{name}': a Buffer, a Tensor or "
                                f"None is needed")
            if "_buffers" not in state:
                raise AttributeError(f"buffer '{name}' is assigned before Module.__init__() ran: call "
                                     f"super().__init__() first")
            if isinstance(value, Buffer):
                self._forget(name, self._buffers)
                self.register_buffer(name, value, value.persistent)
            else:
                self._buffers[name] = _filtered(_global_buffer_registration_hooks, self, name, value)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self):
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # ---- state ----

    def get_extra_state(self):
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state and set_extra_state "
                           f"together")

    def set_extra_state(self, state):
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state and set_extra_state "
                           f"together")

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) after the module's state was collected; it changes the dict
        in place."""
        hook._from_public_api = True
        return _add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("this hook was registered with register_state_dict_post_hook before; use that one")
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before the module's state is collected."""
        return _add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add_hook(self._load_state_dict_pre_hooks, functools.partial(hook, self) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) before
        the module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) after the module and its submodules were loaded; it changes the lists in
        place."""
        return _add_hook(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Parameters and persistent buffers by dotted name; the tensors share memory with the module's."""
        if args:
            warnings.warn("state_dict: give destination, prefix and keep_vars by name", FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if result is not None:
                    raise RuntimeError("a state_dict post-hook changes the dictionary in place and returns None")
            elif result is not None:
                destination = result
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        """Loads this module's own entries; what is wrong goes into the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        kept = {name: buffer for name, buffer in self._buffers.items() if name not in self._non_persistent_buffers_set}
        own = {name: tensor for name, tensor in (*self._parameters.items(), *kept.items()) if tensor is not None}
        for name, param in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_tensor(name, param, key, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key == extra:
                    continue
                first, *rest = key[len(prefix):].split(".", 1)
                if first not in self._modules if rest else first not in own:
                    unexpected_keys.append(key)

    def _load_tensor(self, name, param, key, value, assign):
        """Copies (or assigns) one entry; returns the message when it does not fit."""
        if not isinstance(value, Tensor):
            if not hasattr(value, "__dlpack__"):
                return f"{key} is a {type(value).__name__} in the checkpoint, not a tensor"
            value = _C.from_dlpack(value)
        lazy = is_lazy(param)
        if not lazy and param.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]  # checkpoints from before there were 0-d tensors
        if not lazy and value.shape != param.shape:
            return f"size mismatch for {key}: {tuple(value.shape)} in the checkpoint, {tuple(param.shape)} in the model"
        if param.is_meta and not value.is_meta and not assign:
            warnings.warn(f"'{key}' is on the meta device and stays there: copying into it does nothing; did you mean "
                          f"assign=True?")
        try:
            with no_grad():
                if not assign:
                    param.copy_(value)
                elif isinstance(param, Parameter):
                    fits = isinstance(value, Parameter)
                    setattr(self, name, value.requires_grad_(param.requires_grad) if fits else Parameter(value,
                            param.requires_grad))
                else:
                    setattr(self, name, value)
        except Exception as error:
            return f"{key} cannot be copied, {tuple(value.shape)} into {tuple(param.shape)}: {error}"
        return None

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies a state_dict into the module (assign: takes its tensors). strict: the names must be the module's,
        exactly."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected a dict of tensors by name, not {type(state_dict).__name__}")
        missing_keys, unexpected_keys, error_msgs = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, entries, prefix=""):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(entries, prefix, local_metadata, True, missing_keys, unexpected_keys,
                                         error_msgs)
            for name, child in module._modules.items():
                if child is not None:
                    inner = prefix + name + "."
                    load(child, {key: value for key, value in entries.items() if key.startswith(inner)}, inner)
            incompatible = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise RuntimeError("a load_state_dict post-hook changes the lists in place and returns None")

        load(self, state_dict)
        if strict:
            quoted = lambda keys: ", ".join(f'"{key}"' for key in keys)
            if missing_keys:
                error_msgs.insert(0, f"missing keys: {quoted(missing_keys)}")
            if unexpected_keys:
                error_msgs.insert(0, f"unexpected keys: {quoted(unexpected_keys)}")
        if error_msgs:
            raise RuntimeError(f"this state_dict does not fit {type(self).__name__} (strict={strict}):\n\t"
                               + "\n\t".join(error_msgs))
        return _IncompatibleKeys(missing_keys, unexpected_keys)

    # ---- walks ----

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse=True):
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        for _, module in self.named_children():
            yield module

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate=True):
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def get_submodule(self, target):
        """The submodule at a dotted path; AttributeError where a step is missing or no module."""
        return _walk.submodule(self, target)

    def set_submodule(self, target, module, strict=False):
        """Puts a module at a dotted path; strict: something must be there already."""
        _walk.replace(self, target, module, strict)

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        return _walk.member(self, target, "parameter", lambda value: isinstance(value, Parameter))

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        return _walk.member(self, target, "buffer", lambda value: name in self.get_submodule(path)._buffers)

    def apply(self, fn):
        """Calls fn(module) for every submodule, then for this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes and conversions ----

    def train(self, mode=True):
        """Sets training for this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train() takes a bool, not {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for param in self.parameters():
            if param.grad is not None:
                if set_to_none:
                    param.grad = None
                else:
                    param.grad.zero_()

    def _apply(self, fn, recurse=True):
        """Replaces every parameter's data and every buffer by fn of it; Parameter objects stay the same where they
        can."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with no_grad():
                made = fn(param)
            if made is param:
                continue
            if made.device.type == param.device.type and not param._is_fake() and not made._is_fake():
                param.data = made
                if param.grad is not None:
                    with no_grad():
                        param.grad = fn(param.grad)
            else:
                self._parameters[name] = Parameter(made, param.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """to(device, dtype), to(dtype), to(tensor), each with non_blocking and memory_format: floating members change
        dtype."""
        device, dtype, non_blocking, memory_format = _walk.parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to takes only floating point or complex dtypes, but {dtype} was given")
        if dtype is not None and dtype.is_complex:
            warnings.warn("complex modules: some layers compute something else, or nothing, with complex parameters")

        def convert(t):
            other = {"device": device, "dtype": dtype if t.is_floating_point() or t.is_complex() else None}
            if memory_format is not None and t.dim() in (4, 5):
                other["memory_format"] = memory_format
            return t.to(**other, non_blocking=non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device, recurse=True):
        """Moves everything to a device without its values."""
        empty_like = _C._function("empty_like")
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type):
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self):
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        raise RuntimeError("Module.cuda: this build computes on the CPU only")

    def share_memory(self):
        return self  # memory is shared between threads anyway; other processes are not reached

    # ---- text ----

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What repr shows between the parentheses."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({''.join(lines)})"
        return f"{self._get_name()}(\n  " + "\n  ".join(itertools.chain(lines, children)) + "\n)"
