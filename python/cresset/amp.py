"""Mixed precision on the CPU: inside of autocast(), ops that PyTorch lists take their floating-point arguments in
bfloat16 (or float16), others in float32. The state belongs to the thread. Casts are made anew for every call: there is
no cache that could be out of date.

    with cresset.autocast("cpu", dtype=cresset.bfloat16):
        y = model(x)
"""
import functools
import warnings

from cresset import _C

__all__ = ["autocast", "autocast_decorator", "is_autocast_available", "GradScaler", "custom_fwd", "custom_bwd"]
_DEVICES = ("cpu", "cuda")  # whose state can be asked for; what is on is the CPU's alone


def _known(device_type):
    if not isinstance(device_type, str):
        raise TypeError(f"a device type is a text, not {type(device_type).__name__}")
    if device_type not in _DEVICES:
        raise RuntimeError(f"unknown device type for autocast: '{device_type}'; there is 'cpu'")
    return device_type


def is_autocast_available(device_type):
    return _known(device_type) in _DEVICES  # as PyTorch answers, whether there is a device or not


def is_autocast_enabled(device_type="cuda"):
    return _known(device_type) == "cpu" and _C._autocast()[0]


def is_autocast_cpu_enabled():
    return _C._autocast()[0]


def set_autocast_enabled(device_type, enabled=None):
    """set_autocast_enabled(device_type, enabled); with one argument, of CUDA."""
    device_type, enabled = ("cuda", device_type) if enabled is None else (_known(device_type), enabled)
    if device_type == "cpu":
        _C._set_autocast(bool(enabled), *_C._autocast()[1:])
    elif enabled:
        raise RuntimeError("set_autocast_enabled: there is no CUDA device")


def set_autocast_cpu_enabled(enabled):
    set_autocast_enabled("cpu", enabled)


def get_autocast_dtype(device_type):
    return _C._autocast()[1] if _known(device_type) == "cpu" else _C.float16


def get_autocast_cpu_dtype():
    return get_autocast_dtype("cpu")


def set_autocast_dtype(device_type, dtype):
    if _known(device_type) != "cpu":
        raise RuntimeError("set_autocast_dtype: there is no CUDA device")
    enabled, _, cache = _C._autocast()
    _C._set_autocast(enabled, dtype, cache)


def set_autocast_cpu_dtype(dtype):
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled():
    return _C._autocast()[2]


def set_autocast_cache_enabled(enabled):
    """Kept and returned; casts are made anew either way."""
    _C._set_autocast(*_C._autocast()[:2], bool(enabled))


def clear_autocast_cache():
    """Nothing: no cast is kept."""


def autocast_decorator(autocast_instance, func):
    @functools.wraps(func)
    def inner(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)
    return inner


class autocast:
    """autocast(device_type, dtype=None, enabled=True, cache_enabled=None): a context manager, or a decorator."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: device_type is a text such as 'cpu', not {type(device_type).__name__}")
        if device_type not in _DEVICES:
            raise RuntimeError(f"autocast: unsupported device_type '{device_type}'; use 'cpu'")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        if enabled and device_type == "cuda":
            warnings.warn("autocast: CUDA is not available, mixed precision stays off", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            warnings.warn(f"autocast: the dtype is bfloat16 or float16, not {self.fast_dtype}: mixed precision stays "
                          f"off", stacklevel=2)
            enabled = False
        self._enabled = bool(enabled)
        self._before = []

    def __enter__(self):
        before = _C._autocast()
        self._before.append(before)
        if self.device == "cpu":
            _C._set_autocast(self._enabled, self.fast_dtype, self._cache_enabled)
        else:
            _C._set_autocast(*before[:2], self._cache_enabled)
        return self

    def __exit__(self, *error):
        _C._set_autocast(*self._before.pop())
        return False

    def __call__(self, func):
        if not callable(func):
            raise TypeError(f"autocast()(function) takes a function, not {type(func).__name__}; for a block of code: "
                            f"with autocast(...):")
        return autocast_decorator(self, func)


# ---- losses that are scaled, so that small gradients of halves are not lost ----

_READY, _UNSCALED, _STEPPED = range(3)


class _Pending:
    """What a scaler knows of an optimizer since the last update()."""

    def __init__(self):
        self.stage, self.found_inf = _READY, None


class GradScaler:
    """scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()

    The loss is multiplied before backward(), gradients are divided before the step; a step whose gradients are not all
    finite is left out, and the scale falls. Not enabled, all of it does nothing but the step.
    """

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        self._device = device
        if enabled and device == "cuda":
            warnings.warn("GradScaler: CUDA is not available, gradients are not scaled; use GradScaler('cpu')",
                          stacklevel=2)
            enabled = False
        self._enabled = bool(enabled)
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: the growth factor must be > 1.0, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"GradScaler: the backoff factor must be < 1.0, got {backoff_factor}")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker = growth_interval, 0
        self._scale = self._growth_tracker = None  # tensors, from the first scale() on
        self._pending = {}  # id of an optimizer -> _Pending

    def _begin(self):
        if self._scale is None:
            self._scale = _C.tensor(self._init_scale, dtype=_C.float32)
            self._growth_tracker = _C.tensor(self._init_growth_tracker, dtype=_C.int32)

    def _begun(self, name):
        if self._scale is None:
            raise AssertionError(f"GradScaler.{name}(): nothing was scaled yet; call scaler.scale(loss) first")

    def scale(self, outputs):
        """The tensor, or the tensors of an iterable, multiplied by the scale."""
        if not self._enabled:
            return outputs
        if _C._is_tensor(outputs):
            self._begin()
            return outputs * self._scale
        if not hasattr(outputs, "__iter__"):
            raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, not {type(outputs).__name__}")
        made = map(self.scale, outputs)
        return type(outputs)(made) if isinstance(outputs, (list, tuple)) else made

    def unscale_(self, optimizer):
        """Divides the gradients of the optimizer's parameters, to be clipped or looked at before step()."""
        if not self._enabled:
            return
        self._begun("unscale_")
        state = self._pending.setdefault(id(optimizer), _Pending())
        if state.stage == _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = 1.0 / self._scale.item()
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if param.grad.dtype == _C.float16:
                    raise ValueError("Attempting to unscale FP16 gradients: keep parameters in float32, and use "
                                     "autocast for the model")
                grad = param.grad.detach()
                finite = bool(_C._function("isfinite")(grad).all())
                state.found_inf = bool(state.found_inf) or not finite
                grad.mul_(inverse)
        state.stage = _UNSCALED

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(), unless a gradient is not finite; unscales before where unscale_() did not."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._begun("step")
        state = self._pending.setdefault(id(optimizer), _Pending())
        if state.stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state.stage == _READY:
            self.unscale_(optimizer)
        if state.found_inf is None:
            raise AssertionError("No inf checks were recorded for this optimizer: none of its parameters has a "
                                 "gradient")
        result = None if state.found_inf else optimizer.step(*args, **kwargs)
        state.stage = _STEPPED
        return result

    def update(self, new_scale=None):
        """The next scale: smaller after a gradient that was not finite, larger after growth_interval steps without, or
        the one that is given."""
        if not self._enabled:
            return
        self._begun("update")
        if new_scale is not None:
            self._scale.fill_(new_scale)
        else:
            found = [state.found_inf for state in self._pending.values() if state.found_inf is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(found):
                self._scale.mul_(self._backoff_factor)
                self._growth_tracker.zero_()
            elif int(self._growth_tracker) + 1 == self._growth_interval:
                grown = self._scale * self._growth_factor
                if bool(_C._function("isfinite")(grown)):
                    self._scale.copy_(grown)
                self._growth_tracker.zero_()
            else:
                self._growth_tracker.add_(1)
        self._pending = {}

    def get_scale(self):
        return 1.0 if not self._enabled else self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker)

    def is_enabled(self):
        return self._enabled

    def state_dict(self):
        """What load_state_dict() takes; empty when not enabled. To be called after update()."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor,
                "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
                "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance "
                               "of GradScaler.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)


# ---- functions with a backward of their own ----

def _cast(value, device_type, dtype):
    if _C._is_tensor(value):
        moves = value.is_floating_point() and value.device.type == device_type and value.dtype != _C.float64
        return value.to(dtype) if moves else value
    if isinstance(value, dict):
        return {key: _cast(item, device_type, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For the forward of an autograd.Function: its backward sees the autocast that it was called with (custom_bwd).
    cast_inputs: where autocast is on, floating-point tensors get that dtype and forward runs with it off."""
    if not isinstance(device_type, str):
        raise ValueError(f"custom_fwd: device_type is a text such as 'cpu', not {type(device_type).__name__}")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def inner(ctx, *args, **kwargs):
        ctx._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))
    return inner


def custom_bwd(bwd=None, *, device_type):
    """For the backward of an autograd.Function whose forward has custom_fwd: it runs with the same autocast."""
    if not isinstance(device_type, str):
        raise ValueError(f"custom_bwd: device_type is a text such as 'cpu', not {type(device_type).__name__}")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def inner(ctx, *grads):
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *grads)
    return inner
