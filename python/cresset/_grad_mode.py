"""no_grad, enable_grad, set_grad_enabled, inference_mode: context managers and decorators over the thread's flags."""
import functools
import threading
import warnings

from cresset import _C

# Thread -> its open level of autograd.forward_ad, whose tangents are on the tape. A dict, mostly empty, that captures
# can guard: no_grad() is in many programs.
open_levels = {}
_CO_GENERATOR = 0x20  # inspect.CO_GENERATOR


def _set_grad(value):
    if not value and open_levels and threading.get_ident() in open_levels:
        raise RuntimeError("no_grad() inside of forward_ad.dual_level() would lose tangents: dual numbers are kept on "
                           "the tape; open it outside of the level, or use detach() for what has no derivative")
    return _C._set_grad_enabled(value)


class _Mode:
    """Sets a flag on entry and puts the old value back on exit. As a decorator, around each call."""
    _set = staticmethod(_set_grad)

    def __init__(self, value):
        self._value = value
        self._before = []

    def __enter__(self):
        self._before.append(self._set(self._value))

    def __exit__(self, *error):
        self._set(self._before.pop())

    def __call__(self, function):
        if isinstance(function, type):
            warnings.warn(f"decorating a class with {type(self).__name__} is deprecated: it makes a function of it, "
                          "and only __init__ runs so; decorate methods", FutureWarning, stacklevel=2)
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _CO_GENERATOR:
            return self._around_yields(function)

        @functools.wraps(function)
        def inner(*args, **kwargs):
            before = self._set(self._value)
            try:
                return function(*args, **kwargs)
            finally:
                self._set(before)
        return inner

    def _around_yields(self, function):
        """The flag holds while the generator runs, not while whoever reads it does."""
        @functools.wraps(function)
        def inner(*args, **kwargs):
            generator = function(*args, **kwargs)
            step, given = generator.send, (None,)
            while True:
                before = self._set(self._value)
                try:
                    made = step(*given)
                except StopIteration as end:
                    return end.value
                finally:
                    self._set(before)
                try:
                    step, given = generator.send, ((yield made),)
                except GeneratorExit:
                    before = self._set(self._value)
                    try:
                        generator.close()
                    finally:
                        self._set(before)
                    raise
                except BaseException as error:
                    step, given = generator.throw, (error,)
        return inner


class no_grad(_Mode):
    def __new__(cls, function=None):
        self = super().__new__(cls)
        return self if function is None else (_Mode.__init__(self, False), self(function))[1]

    def __init__(self, function=None):  # unused function: __new__ has dealt with it
        super().__init__(False)


class enable_grad(_Mode):
    def __new__(cls, function=None):
        self = super().__new__(cls)
        return self if function is None else (_Mode.__init__(self, True), self(function))[1]

    def __init__(self, function=None):  # unused function: __new__ has dealt with it
        super().__init__(True)


class set_grad_enabled(_Mode):
    """Takes effect at once, also without `with`."""

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled() takes a bool, not {type(mode).__name__}")
        super().__init__(mode)
        self._made = self._set(self._value)

    def __enter__(self):
        self._before.append(self._made)
        self._set(self._value)

    def __call__(self, function):
        self._set(self._made)
        return super().__call__(function)


class inference_mode(_Mode):
    def __new__(cls, mode=True):
        self = super().__new__(cls)
        return self if not callable(mode) else (cls.__init__(self, True), self(mode))[1]

    def __init__(self, mode=True):
        super().__init__(bool(mode))

    @staticmethod
    def _set(value):
        """Both flags at once; returns both."""
        if isinstance(value, tuple):
            return _C._set_inference_mode(value[0]), _C._set_grad_enabled(value[1])
        return _C._set_inference_mode(value), _C._set_grad_enabled(not value)
