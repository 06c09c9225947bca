"""Questions that a program asks about who is running it, and what it says about what is compiled."""
import functools

from cresset import _C

__all__ = ["is_compiling", "is_dynamo_compiling", "is_exporting", "disable", "set_stance"]


def is_exporting():
    """Is an export recording this call?"""
    return _C._exporting() is not None


def is_dynamo_compiling():
    """Is compile() capturing this call? Where a captured call runs plain, after a break or an error, it says no."""
    return _C._is_capturing() if hasattr(_C, "_is_capturing") else False


def is_compiling():
    return is_dynamo_compiling() or is_exporting()


def _disable_function(fn, recursive):
    while isinstance(fn, _C._Compiled):
        fn = fn.__wrapped__

    @functools.wraps(fn)
    def plain(*args, **kwargs):
        return _C._call_plain(fn, args, kwargs, recursive)
    plain._cresset_disabled = True
    return plain


def disable(fn=None, recursive=True, *, reason=None):
    """A function that runs `fn` as it is: captures end before it, and (recursive) compiled functions that it calls run
    plain, too. A module comes back as a wrapper, a class changed in place. Also a decorator."""
    # unused reason: it is for those who read the code
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if not hasattr(_C, "_Compiled") or getattr(fn, "_cresset_disabled", False) is True:
        return fn
    if isinstance(fn, type):
        for name in ("__init__", "__call__"):
            if name in vars(fn):
                setattr(fn, name, _disable_function(vars(fn)[name], recursive))
        return fn
    if _C._kind(fn) == "module":
        from cresset._dynamo.eval_frame import OptimizedModule
        while isinstance(fn, OptimizedModule):
            fn = fn._orig_mod
        return OptimizedModule(fn, _disable_function(fn.__call__, recursive))
    if not callable(fn):
        raise TypeError(f"disable() takes a function, a module or a class, not a {type(fn).__name__}")
    return _disable_function(fn, recursive)


_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class set_stance:
    """What compiled functions do from now on, in all threads: "default"; "force_eager": all run plain;
    "eager_on_recompile": what was captured is used, other calls run plain; "fail_on_recompile": other calls raise,
    naming the guard that failed. As a context manager or decorator it puts the old one back."""

    def __init__(self, stance="default"):
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance(): {stance!r} is no stance; there are {', '.join(map(repr, _STANCES))}")
        self.stance = _STANCES.index(stance)
        self.before = _C._set_stance(self.stance)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        _C._set_stance(self.before)

    def __call__(self, fn):
        _C._set_stance(self.before)  # a decorator: it holds during calls alone

        @functools.wraps(fn)
        def during(*args, **kwargs):
            before = _C._set_stance(self.stance)
            try:
                return fn(*args, **kwargs)
            finally:
                _C._set_stance(before)
        return during
