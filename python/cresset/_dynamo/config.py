"""What compile() goes by, under the names that PyTorch users know. Read when a function is compiled or captured.

    cresset._dynamo.config.recompile_limit = 16
    with cresset._dynamo.config.patch(suppress_errors=True): ...

Setting another name is an AttributeError: what is not here changes nothing."""
from __future__ import annotations

import contextlib
import difflib
import functools
import sys
import types
from typing import Any, Callable, Iterator

from cresset import _C

recompile_limit = 8  # entries of one place (a function's beginning, an instruction behind a break) at most
accumulated_recompile_limit = 256  # entries of one code object at most, of all functions compiled of it
automatic_dynamic_shapes = True  # sizes and numbers that changed since an earlier capture are left open
assume_static_by_default = True  # False: sizes are left open at once, as with dynamic=True
specialize_int = False  # True: ints are captured as they are, whether they change or not
specialize_float = False
use_duck_shape = True  # of what is left open at once: equal sizes are one
capture_scalar_outputs = False  # True: numbers read from data (item(), tolist(), int(x)) are symbols of the graph
capture_dynamic_output_shape_ops = False  # True: sizes that depend on data (nonzero(), x[mask]) are, too
only_allow_pt2_compliant_ops = False  # custom ops without pt2_compliant_tag end captures
reorderable_logging_functions: set[Callable[..., Any]] = set()  # called behind the graph, in order; end no capture
disable = False  # compile() gives back what it got
suppress_errors = False  # a backend that fails: a warning, and the graph runs as it is
verify_correctness = False  # what a backend made is compared with the graph, on copies of the first inputs
# a script is left by a backend ("dynamo"), or a compiler of forward or backward ("aot"), that fails or is found wrong
repro_after: str | None = None
repro_level = 1  # 2: with the smallest graph that fails
debug_dir_root = "cresset_debug"  # where such scripts go
compiled_autograd = False  # backward() inside of calls of what is compiled from now on is captured and compiled, too
raise_on_ctx_manager_usage = True  # `with optimize(...)` raises; False: functions called inside are captured

_other_names = {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit"}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_functions(value: Any) -> bool:
    return type(value) is set and all(map(callable, value))


# what a value has to be
_checks: dict[str, tuple[Callable[[Any], bool], str]] = {
    "recompile_limit": (_is_count, "a number of entries, 1 or more"),
    "accumulated_recompile_limit": (_is_count, "a number of entries, 1 or more"),
    "automatic_dynamic_shapes": (_is_switch, "True or False"),
    "assume_static_by_default": (_is_switch, "True or False"),
    "specialize_int": (_is_switch, "True or False"),
    "specialize_float": (_is_switch, "True or False"),
    "use_duck_shape": (_is_switch, "True or False"),
    "capture_scalar_outputs": (_is_switch, "True or False"),
    "capture_dynamic_output_shape_ops": (_is_switch, "True or False"),
    "only_allow_pt2_compliant_ops": (_is_switch, "True or False"),
    "reorderable_logging_functions": (_is_functions, "a set of functions"),
    "disable": (_is_switch, "True or False"),
    "suppress_errors": (_is_switch, "True or False"),
    "verify_correctness": (_is_switch, "True or False"),
    "repro_after": (lambda value: value in (None, "dynamo", "aot"), "None, 'dynamo' or 'aot'"),
    "repro_level": (lambda value: value in (1, 2), "1 or 2"),
    "debug_dir_root": (lambda value: isinstance(value, str), "the path of a folder"),
    "compiled_autograd": (_is_switch, "True or False"),
    "raise_on_ctx_manager_usage": (_is_switch, "True or False"),
}


# settings of torch._dynamo.config that have nothing to set here, and why
_elsewhere = {
    "log_level": "set CRESSET_LOGS, or call cresset._logging.set_logs()",
    "optimize_ddp": "there are no distributed modules",
    "verbose": "set CRESSET_LOGS, or call cresset._logging.set_logs()",
}


# settings that have one value here, and why: that one is read, and may be set
_settled: dict[str, tuple[Any, str]] = {
    "allow_rnn": (True, "recurrent layers are captured like any other"),
    "guard_nn_modules": (True, "modules are always guarded"),
    "inline_inbuilt_nn_modules": (True, "modules are always inlined"),
}


def _unknown(name: str) -> AttributeError:
    if name in _elsewhere:
        return AttributeError(f"cresset._dynamo.config has no {name!r}: {_elsewhere[name]}; it has "
                              f"{', '.join(_checks)}")
    near = difflib.get_close_matches(name, [*_checks, *_other_names], 1)
    hint = f": did you mean {near[0]!r}?" if near else ";"
    return AttributeError(f"cresset._dynamo.config has no {name!r}{hint} it has {', '.join(_checks)}")


@contextlib.contextmanager
def _patched(changes: dict[str, Any]) -> Iterator[None]:
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


class patch:
    """Other values for a while: patch(name=value, ...), patch("name", value) or patch({...}), as a context manager or a
    decorator."""

    def __init__(self, name: Any = None, value: Any = None, **changes: Any):
        given = {name: value} if isinstance(name, str) else dict(name or {})
        self.changes = {**given, **changes}

    def __enter__(self) -> None:
        self.entered = _patched(self.changes)
        self.entered.__enter__()

    def __exit__(self, *raised: Any) -> Any:
        return self.entered.__exit__(*raised)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def during(*args: Any, **kwargs: Any) -> Any:
            with _patched(self.changes):
                return function(*args, **kwargs)
        return during


class _Config(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in _other_names:
            return getattr(self, _other_names[name])
        if name in _settled:
            return _settled[name][0]
        raise _unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        name = _other_names.get(name, name)
        if name in _checks:
            good, expected = _checks[name]
            if not good(value):
                raise ValueError(f"cresset._dynamo.config.{name} is {expected}, not {value!r}")
        elif name in _settled:
            if value is not _settled[name][0]:
                raise NotImplementedError(f"cresset._dynamo.config.{name} is {_settled[name][0]}, not {value!r}: "
                                          f"{_settled[name][1]}")
            return
        elif not name.startswith("__"):
            raise _unknown(name)
        super().__setattr__(name, value)
        _tell_capture()


def _tell_capture() -> None:
    if hasattr(_C, "_set_reorderable"):
        _C._set_reorderable(reorderable_logging_functions)
        _C._only_compliant(only_allow_pt2_compliant_ops)


_tell_capture()
sys.modules[__name__].__class__ = _Config
