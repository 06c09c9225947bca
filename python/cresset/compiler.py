"""Questions that a program asks about who is running it, and what it says about what is compiled."""
import dataclasses
import functools

from cresset import _C

__all__ = ["CacheInfo", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
           "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
           "load_cache_artifacts", "reset", "save_cache_artifacts", "set_default_backend", "set_stance",
           "substitute_in_graph"]


def compile(*args, **kwargs):
    """As cresset.compile."""
    from cresset import _compile
    return _compile.compile(*args, **kwargs)


def cudagraph_mark_step_begin():
    """Nothing: what is compiled has no memory that the next step of a program would write over."""


def reset():
    """As _dynamo.reset: forgets everything that was captured."""
    from cresset import _dynamo
    _dynamo.reset()


def list_backends(exclude_tags=("debug", "experimental")):
    """The names that compile(backend=...) knows, without those that have one of these tags."""
    from cresset import _dynamo
    return _dynamo.list_backends(exclude_tags)


def allow_in_graph(fn):
    """As _dynamo.allow_in_graph: the ops that fn calls are recorded, its code is not looked into."""
    from cresset import _dynamo
    return _dynamo.allow_in_graph(fn)


def assume_constant_result(fn):
    """As _dynamo.assume_constant_result: fn is called once, when something is captured."""
    from cresset import _dynamo
    return _dynamo.assume_constant_result(fn)


def substitute_in_graph(original_fn, **options):
    """As _dynamo.substitute_in_graph: captures inline the decorated function where `original_fn` is called."""
    from cresset import _dynamo
    return _dynamo.substitute_in_graph(original_fn, **options)


_default_backend = "native"


def set_default_backend(backend):
    """The backend of functions that are compiled from now on without one; None: "native"."""
    global _default_backend
    from cresset import _compile
    backend = "native" if backend is None else backend
    _compile._find_backend(backend)  # an unknown one is told here
    _default_backend = backend


def get_default_backend():
    return _default_backend


@dataclasses.dataclass
class CacheInfo:
    """How many compiled libraries went into or came out of cache artifacts."""
    artifacts: int

    def empty(self):
        return self.artifacts == 0


def save_cache_artifacts():
    """(bytes, CacheInfo): the code that this process compiled or found in its cache, for load_cache_artifacts()
    elsewhere; None: there is none. Native code that is still being built is not in it."""
    packed, count = _C._cache_pack()
    return (packed, CacheInfo(count)) if count else None


def load_cache_artifacts(serialized_artifacts):
    """Puts such bytes into the cache of compiled code. They become code: load only what you trust. A machine with
    another C compiler or another release of Cresset asks for other entries, and compiles."""
    return CacheInfo(_C._cache_unpack(serialized_artifacts))


def is_exporting():
    """Is an export recording this call?"""
    return _C._is_exporting()


def is_dynamo_compiling():
    """Is compile() capturing this call? Where a captured call runs plain, after a break or an error, it says no."""
    return _C._is_capturing() if hasattr(_C, "_is_capturing") else False


def is_compiling():
    return is_dynamo_compiling() or is_exporting()


def _disable_function(fn, recursive, reason):
    while isinstance(fn, _C._Compiled):
        fn = fn.__wrapped__

    @functools.wraps(fn)
    def plain(*args, **kwargs):
        return _C._call_plain(fn, args, kwargs, recursive, reason)
    plain._cresset_disabled = True
    return plain


def disable(fn=None, recursive=True, *, reason=None):
    """A function that runs `fn` as it is: captures end before it, and (recursive) compiled functions that it calls run
    plain, too. A module comes back as a wrapper, a class changed in place. `reason`: what is said where a capture ends
    for it. Also a decorator."""
    if fn is None:
        decorator = lambda function: disable(function, recursive, reason=reason)
        if not recursive or not hasattr(_C, "_plain"):
            return decorator
        from cresset._dynamo.optimizing import _State
        return _State("disable", decorator, _C._plain)
    if not hasattr(_C, "_Compiled") or getattr(fn, "_cresset_disabled", False) is True:
        return fn
    if isinstance(fn, type):
        for name in ("__init__", "__call__"):
            if name in vars(fn):
                setattr(fn, name, _disable_function(vars(fn)[name], recursive, reason))
        return fn
    if _C._kind(fn) == "module":
        from cresset._dynamo.eval_frame import OptimizedModule
        while isinstance(fn, OptimizedModule):
            fn = fn._orig_mod
        return OptimizedModule(fn, _disable_function(fn.__call__, recursive, reason))
    if not callable(fn):
        from cresset._dynamo.exc import NotCallableError
        raise NotCallableError(f"disable() takes a function, a module or a class, not a {type(fn).__name__}")
    return _disable_function(fn, recursive, reason)


_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class set_stance:
    """What compiled functions do from now on, in all threads: "default"; "force_eager": all run plain;
    "eager_on_recompile": what was captured is used, other calls run plain; "fail_on_recompile": other calls raise,
    naming the guard that failed. As a context manager or decorator it puts the old one back."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if skip_guard_eval_unsafe or force_backend is not None:
            raise NotImplementedError("set_stance(): skip_guard_eval_unsafe and force_backend are not there: guards "
                                      "are always checked, and a function keeps the backend that it was compiled with")
        if is_dynamo_compiling():
            raise RuntimeError("set_stance() is called in a captured function: call it before")
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance(): {stance!r} is no stance; there are {', '.join(map(repr, _STANCES))}")
        self.stance = _STANCES.index(stance)
        self.before = _C._set_stance(self.stance)

    def __enter__(self):
        _C._set_stance(self.stance)  # where one is entered a second time
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
