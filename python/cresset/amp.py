"""Mixed precision on the CPU: inside of autocast(), ops that PyTorch lists take their floating-point arguments in
bfloat16 (or float16), others in float32. The state belongs to the thread. Casts are made anew for every call: there is
no cache that could be out of date.

    with cresset.autocast("cpu", dtype=cresset.bfloat16):
        y = model(x)
"""
import functools
import warnings

from cresset import _C

__all__ = ["autocast", "autocast_decorator", "is_autocast_available"]
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
