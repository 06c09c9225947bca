"""optimize(), optimize_assert(), run(): the forms that torch.compile grew out of, and forgetting what was captured."""
from __future__ import annotations

import functools
import logging
import os
import types
from typing import Any, Callable

from cresset import _C
from cresset._dynamo import config
from cresset._dynamo.exc import InternalTorchDynamoError, NotCallableError

__all__ = ["OptimizeContext", "optimize", "optimize_assert", "remove_from_cache", "reset_code", "run",
           "skip_code"]
_log = logging.getLogger("cresset.guards")


def _check_usage(name: str) -> None:
    if config.raise_on_ctx_manager_usage:
        raise RuntimeError(f"{name}(...) is no context manager: write @{name}(...) before the function, or "
                           f"{name}(...)(function); config.raise_on_ctx_manager_usage = False allows 'with'")


class OptimizeContext:
    """What optimize() gives: called with a function or module, it compiles it. As a context manager
    (config.raise_on_ctx_manager_usage is False): functions that this thread calls inside are captured."""

    def __init__(self, arguments: dict[str, Any], guard_export_fn: Any, guard_fail_fn: Any):
        self.arguments, self.guard_export_fn, self.guard_fail_fn = arguments, guard_export_fn, guard_fail_fn
        self._entered: list[Any] = []  # blocks, the innermost last
        self._known: Any = None  # a block that has ended, with what it captured

    def __call__(self, fn: Any) -> Any:
        from cresset import _compile
        made = _compile.compile(fn, **self.arguments)
        told = made.__dict__.get("_compiled", made) if made is not fn else None
        if told is not None and (self.guard_export_fn or self.guard_fail_fn):
            _tell_guards(told, self.guard_export_fn, self.guard_fail_fn)
        return made

    def __enter__(self) -> None:
        _check_usage("optimize")
        if self.guard_export_fn or self.guard_fail_fn:
            raise NotImplementedError("'with optimize(guard_export_fn=..., guard_fail_fn=...)': guards are told of "
                                      "functions that are compiled; write optimize(...)(function)")
        if self.arguments["disable"] or config.disable or os.environ.get("CRESSET_DISABLE") == "1":
            self._entered.append(None)
            return
        block, self._known = self._known or _make_block(self.arguments), None
        self._entered.append(block)
        block.begin()

    def __exit__(self, *raised: Any) -> None:
        block = self._entered[-1]
        if block is not None:
            block.end()
            self._known = block
        self._entered.pop()


def _make_block(arguments: dict[str, Any]) -> Any:
    from cresset import _compile
    found = _compile._find_backend(arguments["backend"], arguments["fullgraph"])
    block: Any = None

    def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            block.pause(1)  # what a backend calls is not the program's
            try:
                return function(*args)
            finally:
                block.pause(-1)
        return run

    def backend(graph: Any, example_inputs: list[Any], *library: str) -> Callable[..., Any]:
        return quiet(quiet(found)(graph, example_inputs, *library))
    from cresset._dynamo.exc import Unsupported
    block = _C._Block(backend if callable(found) else found, Unsupported if arguments["fullgraph"] else None,
                      config.recompile_limit, _compile._open_numbers(arguments["dynamic"]), 1,
                      os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/")
    _compile._blocks.add(block)
    return block


class _State:
    """run() and disable() without a function: decorators, and context managers for this thread."""

    def __init__(self, name: str, wrap: Callable[[Any], Any], switch: Callable[[bool], None]):
        self.name, self.wrap, self.switch = name, wrap, switch

    def __call__(self, fn: Any) -> Any:
        return self.wrap(fn)

    def __enter__(self) -> None:
        _check_usage(self.name)
        self.switch(True)

    def __exit__(self, *raised: Any) -> None:
        self.switch(False)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def _tell_guards(compiled: Any, exported: Any, failed: Any) -> None:
    from cresset._dynamo import utils

    def watch(who: Any, entry: dict[str, Any], missed: list[str]) -> Exception | None:
        if who is not compiled:
            return None
        for guard in missed if failed else ():
            try:
                failed(guard)
            except Exception:
                _log.exception("guard_fail_fn raised for %r; the call goes on", guard)
        try:
            if exported:
                exported(entry["guards"])
        except Exception as error:
            return _caused(InternalTorchDynamoError(f"guard_export_fn raised {type(error).__name__}: {error}"), error)
        return None
    utils.watch(watch, details=True)


def optimize(backend: Any = "native", *, nopython: bool = False,
             guard_export_fn: Callable[[list[str]], Any] | None = None,
             guard_fail_fn: Callable[[str], Any] | None = None, disable: bool = False,
             dynamic: bool | None = None) -> OptimizeContext:
    """A decorator: as compile(f, backend=backend, fullgraph=nopython, ...). guard_export_fn gets the guards of each
    capture as texts: if it raises, so does the call (InternalTorchDynamoError), and nothing is kept. guard_fail_fn
    gets, when something is captured again, the guard that did not hold of each capture before, the last one's first;
    what it raises is logged, and the call goes on."""
    from cresset import _compile
    _compile._find_backend(backend)  # an unknown one is told here
    return OptimizeContext(dict(backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic), guard_export_fn,
                           guard_fail_fn)


def optimize_assert(backend: Any = "native", *, dynamic: bool | None = None, **hooks: Any) -> OptimizeContext:
    """optimize() with nopython=True: a call that is not one graph raises Unsupported."""
    return optimize(backend, nopython=True, dynamic=dynamic, **hooks)


def run(fn: Any = None) -> Any:
    """A function that calls `fn`; compiled functions use what was captured before and capture nothing, on this
    thread."""
    if fn is None:
        return _State("run", run, _C._run_only)
    if not callable(fn):
        raise NotCallableError(f"run() takes a function, not a {type(fn).__name__}")

    @functools.wraps(fn)
    def cached(*args: Any, **kwargs: Any) -> Any:
        return _C._call_cached(fn, args, kwargs)
    return cached


def _code_of(what: Any) -> types.CodeType:
    if isinstance(what, types.CodeType):
        return what
    for name in ("__wrapped__", "__func__", "_orig_mod"):
        what = getattr(what, name, what)
    if not hasattr(what, "__code__"):
        what = getattr(type(what), "forward", what)
    if not hasattr(what, "__code__"):
        raise TypeError(f"expected a code object, a function or something with a forward, not a {type(what).__name__}")
    return what.__code__


def _is_module_with(compiled: Any, code: types.CodeType) -> bool:
    """Was a module compiled whose forward has this code? Its captures begin at the module's __call__."""
    module = getattr(compiled.__wrapped__, "__self__", None)
    forward = getattr(module, "forward", None) if _C._kind(module) == "module" else None
    return getattr(forward, "__code__", None) is code


def reset_code(code: Any) -> None:
    """Forgets what was captured of a code object (or of a function's), whoever called it, and of modules that have it
    as their forward."""
    from cresset import _compile
    code = _code_of(code)
    for compiled in list(_compile._made):
        if _is_module_with(compiled, code):
            compiled._reset()
        else:
            compiled._forget(code)


def skip_code(code: types.CodeType) -> None:
    """Frames of a code object run plain from now on, and what was captured of them is forgotten. Where another function
    is captured that calls it, it is inlined all the same."""
    _C._skip_code(code)
    reset_code(code)


def _debug_get_cache_entry_list(code: Any) -> list[dict[str, Any]]:
    """What was captured of a code object (or of a function's), by all who compiled it: graph, guards, hits, reason."""
    from cresset import _compile
    code = _code_of(code)
    return [entry for compiled in list(_compile._made) for entry in compiled._entries() if entry["code"] is code]


def remove_from_cache(f: Any) -> None:
    """As reset_code(): of a code object, a function, or anything with a forward."""
    reset_code(f)
