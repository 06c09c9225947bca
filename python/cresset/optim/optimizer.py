"""Optimizer: parameter groups, state for each parameter, hooks, and state dicts that PyTorch's optimizers load.

A state dict numbers the parameters in the order of the groups. What is loaded is cast to the parameter that it belongs
to, except `step`.
"""
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy

from cresset import _C
from cresset._grad_mode import enable_grad, no_grad
from cresset.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]
Tensor = _C._populated_tensor_type()


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()
_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
          "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
          "_optimizer_load_state_dict_post_hooks")
_every_pre_hook, _every_post_hook = OrderedDict(), OrderedDict()


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """hook(optimizer, args, kwargs) runs before every optimizer's step; it may return new (args, kwargs)."""
    return _add_hook(_every_pre_hook, hook)


def register_optimizer_step_post_hook(hook):
    """hook(optimizer, args, kwargs) runs after every optimizer's step."""
    return _add_hook(_every_post_hook, hook)


def scalar_dtype(fused=False):
    """The dtype of `step` and its like: a count must not be rounded to a parameter's half precision."""
    return _C.float64 if not fused and _C.get_default_dtype() == _C.float64 else _C.float32


def as_scalar(x):
    """A tensor of one element as a tensor of rank 0; a number as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def number(x):
    return x.item() if isinstance(x, Tensor) else x


_PLAIN_FLOATS = (_C.float32, _C.float64)


def _has_tensor(group):
    """Hyperparameters that are tensors round in their own dtype, which the fused ops do not."""
    return any(isinstance(group.get(name), Tensor) for name in ("lr", "weight_decay")) or any(
        isinstance(beta, Tensor) for beta in group.get("betas", ()))


def _state_of(param, value, key, keeps_step):
    """A value of a loaded state, as the optimizer of `param` keeps it."""
    if isinstance(value, Tensor):
        if key == "step":
            return value if keeps_step else value.to(dtype=_C.float32, device=param.device)
        return value.to(dtype=param.dtype if param.is_floating_point() else value.dtype, device=param.device)
    if isinstance(value, dict):
        return {name: _state_of(param, item, name, keeps_step) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_state_of(param, item, None, keeps_step) for item in value)
    return value


class Optimizer:
    """Optimizer(params, defaults): params are tensors, (name, tensor) pairs or dicts with "params" and options."""

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__}: params must be an iterable of tensors or dicts, not one tensor; "
                            f"pass [tensor]")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__} got an empty list of parameters; does the module have any?")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _prepare(self):
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)

    @staticmethod
    def profile_hook_step(step):
        """`step` with the hooks around it. A step that calls its base class's runs them once."""
        @functools.wraps(step)
        def hooked(*args, **kwargs):
            self = args[0]
            if self.__dict__.get("_stepping"):
                return step(*args, **kwargs)
            self._opt_called = self._stepping = True
            try:
                for hook in (*_every_pre_hook.values(), *self._optimizer_step_pre_hooks.values()):
                    changed = hook(self, args, kwargs)
                    if changed is None:
                        continue
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(f"a step pre-hook must return None or a tuple of (args, kwargs), but "
                                           f"{hook} returned {changed}")
                    args, kwargs = changed
                result = step(*args, **kwargs)
                for hook in (*self._optimizer_step_post_hooks.values(), *_every_post_hook.values()):
                    hook(self, args, kwargs)
                return result
            finally:
                self._stepping = False
        hooked.hooked = True
        return hooked

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) runs before step; it may return new (args, kwargs)."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) runs after step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) runs before state_dict()."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) runs after state_dict() and may return another dict."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) runs before load_state_dict() and may return another dict."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) runs after load_state_dict()."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self):
        """{"state": {number of a parameter: its state}, "param_groups": groups with numbers for parameters}."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers, first, groups = {}, 0, []
        for group in self.param_groups:
            numbers = {**{id(p): i for i, p in enumerate(group["params"], first)}, **numbers}
            first += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave, of this class or of PyTorch's. Groups and their sizes must agree."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError(f"load_state_dict: the optimizer has {len(self.param_groups)} parameter groups, the state "
                             f"dict {len(saved)}; add groups with add_param_group() first")
        owners = {}
        for i, (group, loaded) in enumerate(zip(self.param_groups, saved)):
            if len(group["params"]) != len(loaded["params"]):
                raise ValueError(f"load_state_dict: group {i} has {len(group['params'])} parameters, in the state dict "
                                 f"{len(loaded['params'])}")
            keeps_step = not (loaded.get("fused") or loaded.get("capturable"))
            owners.update((key, (p, keeps_step)) for key, p in zip(loaded["params"], group["params"]))
            loaded["params"] = group["params"]
            if "param_names" in group:
                loaded.setdefault("param_names", group["param_names"])
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                p, keeps_step = owners[key]
                state[p] = _state_of(p, value, None, keeps_step)
            else:
                state[key] = value
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none=True):
        """Takes every gradient away, or fills it with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    with no_grad():
                        p.grad.detach_() if p.grad.grad_fn is not None else p.grad.requires_grad_(False)
                        p.grad.zero_()

    def step(self, closure=None):
        """One update of the parameters. closure() computes the loss and the gradients again and returns the loss."""
        raise NotImplementedError(f"{type(self).__name__} has no step(); a subclass of Optimizer defines it")

    def add_param_group(self, param_group):
        """Adds {"params": tensors, option: value, ...}; options that are left out come from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"add_param_group: expected a dict with 'params', found {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError("add_param_group: the order of a set changes between runs, and state dicts go by order; "
                            "pass the parameters as a list")
        entries = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in entries if isinstance(entry, tuple)]
        if names and len(names) != len(entries):
            raise ValueError("add_param_group: some parameters have names and some have none; name all of them or none")
        params = param_group["params"] = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        if names:
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer optimizes tensors, but one of the parameters is a {type(p).__name__}")
            if not p.is_leaf and not getattr(p, "retains_grad", False):
                raise ValueError("a parameter is the result of an operation, so it gets no gradient of its own; pass "
                                 "the leaf tensor, or detach() it")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"add_param_group: the group must have a value for '{name}'")
            param_group.setdefault(name, default)
        if len({id(p) for p in params}) != len(params):
            warnings.warn("a parameter group contains a parameter twice; this will become an error: pass each once",
                          stacklevel=3)
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                raise ValueError("add_param_group: some groups have names and some have none; name all of them or none")
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in known for p in params):
            raise ValueError("add_param_group: a parameter is in another group already; each belongs to one group")
        self.param_groups.append(param_group)


class GroupwiseOptimizer(Optimizer):
    """An optimizer whose step is one formula, applied to each parameter that has a gradient.

    A subclass gives `_fresh(group, p)`, the state before the first step, and `_update(group, p, grad, state)`, the
    formula in plain ops, over real views of complex tensors. With `_fused_step` as well, one op updates all parameters
    that it can: with fused=True those of every float dtype, and unless fused or foreach is False also by itself those
    of float32 and float64, where it gives the bits of the plain ops.
    """
    _old_options = {}     # options that state dicts of older versions lack
    _over_reals = True
    _fused_step = None

    def __init__(self, params, defaults):
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults["foreach"]:
                raise RuntimeError(f"{type(self).__name__}: fused=True and foreach=True exclude each other")
            self._step_supports_amp_scaling = True

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        try:
            self._check_group(param_group)
        except Exception:
            self.param_groups.pop()
            raise

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in {"foreach": None, "maximize": False, "differentiable": False, "capturable": False,
                                "fused": None, **self._old_options}.items():
                if name in self.defaults or name in self._old_options:
                    group.setdefault(name, value)
            self._check_group(group)
            for p in group["params"]:
                for name in ("step", "eta", "mu", "mu_product"):
                    value = self.state.get(p, {}).get(name)
                    if value is not None and not isinstance(value, Tensor):
                        self.state[p][name] = _C.tensor(float(value), dtype=scalar_dtype(group.get("fused")))

    def _check_group(self, group):
        if group.get("differentiable"):
            raise NotImplementedError(f"{type(self).__name__}(differentiable=True): gradients through a step are not "
                                      f"computed here; leave it out")

    def _check_step(self, group, work):
        """What PyTorch refuses when the step is made."""
        name, fused = type(self).__name__, group.get("fused")
        if group.get("capturable") and not fused:
            raise AssertionError(f"{name}(capturable=True): parameters on the CPU cannot be captured in a device "
                                 f"graph; leave capturable out")
        for p, _, _ in work if fused else ():
            if not p.is_floating_point():
                raise RuntimeError(f"{name}(fused=True): the parameters must be floating point, but one is {p.dtype}; "
                                   f"leave fused out")

    def _work(self, group):
        """(parameter, gradient, state) of each parameter that has a gradient."""
        work = []
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self.state[p]
                if not state:
                    state.update(self._fresh(group, p))
                work.append((p, grad, state))
        return work

    @no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            work = self._work(group)
            if work:
                self._check_step(group, work)
                if self._fused_step is not None:
                    work = self._fused_group(group, work)
                if work and getattr(self, "found_inf", None) is not None:
                    raise AssertionError(f"{type(self).__name__}: only fused=True takes a gradient scale; leave "
                                         f"grad_scale and found_inf out")
                for p, grad, state in work:
                    self._plain_step(group, p, grad, state)
        return loss

    def _fused_group(self, group, work):
        """Updates what the fused op can; returns the rest."""
        fused, rest = group["fused"], []
        if not fused:
            if fused is False or group["foreach"] is False or _has_tensor(group):
                return work
            rest = [entry for entry in work if entry[0].dtype not in _PLAIN_FLOATS]
            work = [entry for entry in work if entry[0].dtype in _PLAIN_FLOATS] if rest else work
        if not work:
            return rest
        steps = [state["step"] for _, _, state in work if "step" in state]
        for step in steps:
            step += 1
        found_inf = getattr(self, "found_inf", None)
        self._fused_step(group, [p for p, _, _ in work], [grad for _, grad, _ in work], [state for _, _, state in work],
                         steps, maximize=group["maximize"], weight_decay=number(group["weight_decay"]), lr=group["lr"],
                         grad_scale=getattr(self, "grad_scale", None), found_inf=found_inf)
        if found_inf is not None:     # a step that was not made does not count
            for step in steps:
                step -= found_inf
        return rest

    def _plain_step(self, group, p, grad, state):
        if group["maximize"]:
            grad = -grad
        if "step" in state:
            state["step"] += 1
        if p.is_complex() and self._over_reals:
            view = _C._function("view_as_real")
            p, grad = view(p), view(grad)
            state = {key: view(value) if value.is_complex() else value for key, value in state.items()}
        decay = group.get("weight_decay", 0)
        if decay != 0:
            if group.get("decoupled_weight_decay"):
                p.mul_(1 - as_scalar(group["lr"]) * decay)
            else:
                grad = grad.add(p, alpha=number(decay))
        self._update(group, p, grad, state)
