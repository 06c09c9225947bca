"""compile(): functions whose tensor computations are captured as graphs.

    @cresset.compile
    def f(x): ...

What comes back looks like the function and is called like it. The first call captures; later calls check guards and run
the graph. What capture does not follow runs plain, always with the same result; `fullgraph=True` raises instead, naming
the line and the reason. The work is done in C (`_C._Compiled`, src/capture).
"""
from __future__ import annotations

import functools
import os
import sys
import types
import weakref
from typing import Any, Callable

from cresset import _C
from cresset._dynamo import utils
from cresset._dynamo.backends import registry
from cresset._dynamo.backends.registry import _backends, list_backends, register_backend
from cresset._dynamo.exc import NotCallableError, Unsupported

__all__ = ["compile", "list_backends", "register_backend"]

_made: weakref.WeakSet[Any] = weakref.WeakSet()  # what compile() has made, so that reset() finds it
_blocks: weakref.WeakSet[Any] = weakref.WeakSet()  # of `with optimize(...)`
_kept: list[Any] | None = None  # the same, held, while a whole script is explained
_told_of_reset: dict[int, Any] = {}  # backends without a name that were used since the last reset() and have one


utils.start()


def _reset() -> None:
    for compiled in [*_made, *_blocks]:
        compiled._reset()
    if "cresset._dynamo.compiled_autograd" in sys.modules:
        sys.modules["cresset._dynamo.compiled_autograd"].reset()
    used = {id(backend): backend for backend in _backends.values()} | _told_of_reset
    _told_of_reset.clear()
    for backend in used.values():
        if callable(getattr(backend, "reset", None)):
            backend.reset()


def _open_numbers(dynamic: bool | None) -> int:
    """What captures leave open, as src/capture/numbers.h has it: CR_DYNAMIC_*."""
    from cresset._dynamo import config
    everything = dynamic is True or (dynamic is None and not config.assume_static_by_default)
    automatic = dynamic is not False and config.automatic_dynamic_shapes
    theirs = sys.modules.get("torch._dynamo.config")  # whoever compiles a program of PyTorch's may have set it there

    def follows(name: str) -> bool:
        return getattr(config, name) or bool(getattr(theirs, name, False))
    data = follows("capture_scalar_outputs") * 32 | follows("capture_dynamic_output_shape_ops") * 64
    if not everything and not automatic:
        return data
    return (automatic * 1 | everything * 2 | config.use_duck_shape * 4 | (not config.specialize_int) * 8
            | (not config.specialize_float) * 16 | data)


def _violated(place: str, conditions: list[str], size: int, bounds: tuple[int, int] | None) -> None:
    """What the program does not leave open of a size that mark_dynamic() promised; size: in this call."""
    from cresset._dynamo.exc import UserErrorType
    from cresset.export._shapes import ConstraintViolationError
    if conditions:
        why = f"the program needs: {', '.join(conditions)}"
    elif bounds and not bounds[0] <= size <= bounds[1]:
        most = bounds[1] if bounds[1] < 1 << 62 else "inf"
        why = f"in this call it is {size}, which is not in the range [{bounds[0]}, {most}]"
    else:
        why = f"in this call it is {size}, and 0 and 1 are never left open: give a larger example"
    raise ConstraintViolationError(
        UserErrorType.CONSTRAINT_VIOLATION,
        f"Constraints violated ({place})! mark_dynamic() promises that {place} varies; {why}\n"
        "  remove what needs one value, give bounds that the program keeps (min=, max=), or use maybe_mark_dynamic()")


def _make(owner: Any, compiler: Any, fullgraph: bool, dynamic: bool | None = None, ways: int = 1,
          walks: Any = None) -> Any:
    """walks: the backend for what is walked back inside of calls, where config.compiled_autograd is on."""
    from cresset._dynamo import config
    made = _C._Compiled(owner, compiler, Unsupported if fullgraph else None, config.recompile_limit,
                        _open_numbers(dynamic), config.accumulated_recompile_limit, ways)
    _made.add(made)
    if walks is not None and config.compiled_autograd:
        from cresset._dynamo import compiled_autograd
        compiled_autograd._of_compiled(made, walks, dynamic)
    if _kept is not None:
        _kept.append(made)
    return made


def _find_backend(backend: Any, fullgraph: bool = False,
                  given: dict[str, Any] | None = None) -> Callable[..., Any] | str | None:
    """What _C._Compiled takes. given: what a backend in Python gets beside the graph and its inputs."""
    if isinstance(backend, str):
        backend = registry.find(backend)
        if backend is None or isinstance(backend, str):
            return backend
    if not callable(backend):
        raise NotCallableError(f"backend must be a name or a function, not a {type(backend).__name__}")
    if callable(getattr(backend, "reset", None)):
        _told_of_reset[id(backend)] = backend
    from cresset._dynamo.backends.calling import Backend
    return Backend(backend, fullgraph, given)


def _check_options(mode: str | None, options: dict[str, Any] | None) -> None:
    if mode is not None and options is not None:
        raise RuntimeError("give either mode or options, not both")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options is a dict of names and values, not a {type(options).__name__}")


def _check_frozen(model: Any) -> None:
    if _C._kind(model) == "module" and getattr(model, "training", False):
        raise RuntimeError("options={'freeze': True}: the module is in training mode, in which weights change; call "
                           "its eval() first, or compile without the option")


def _code_owner(fn: Any) -> Any:
    """The function or method that is captured when `fn` is called; TypeError where there is none."""
    if isinstance(fn, _C._Compiled):
        return fn.__wrapped__
    if type(fn) is types.FunctionType:  # of disable(): what it kept out, since the outermost counts
        return _code_owner(fn.__wrapped__) if vars(fn).get("_cresset_disabled") is True else fn
    if isinstance(fn, staticmethod):
        return _code_owner(fn.__func__)
    if isinstance(fn, functools.partial):
        return _of_partial(fn)
    if type(fn) is types.MethodType:
        return types.MethodType(_code_owner(fn.__func__), fn.__self__)
    if isinstance(fn, type):
        raise TypeError(f"the class {fn.__name__} has no __call__ to capture: compile a method, or an instance")
    call = getattr(type(fn), "__call__", None)
    if type(call) is types.FunctionType:
        return types.MethodType(call, fn)
    if not callable(fn):
        raise NotCallableError(f"compile() takes a function, a module or a class, not a {type(fn).__name__}")
    raise TypeError(f"{fn!r} has no Python code to capture: wrap it, compile(lambda *args: f(*args))")


def _of_partial(fn: functools.partial[Any]) -> Any:
    """A function that calls it, since a partial has no code of its own."""
    def partial(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)
    partial.__wrapped__ = fn  # type: ignore[attr-defined]
    return functools.update_wrapper(partial, fn)


def _call_of(kind: type) -> Any:
    """The __call__ of a class's objects, its own or inherited, where it is written in Python."""
    found = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    return found if isinstance(found, types.FunctionType) else None


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False) -> Any:
    """A function or module that runs as `model` does, its tensor computations captured as graphs. Also a decorator.

    fullgraph: raises where a call cannot be one graph. dynamic: False captures every size as it is, True leaves sizes
    open at once, None those that changed since an earlier capture. backend: a name of list_backends() (None: "native",
    or what set_default_backend() said), or a function (gm, example_inputs) -> callable, gm a cresset.fx.GraphModule.
    mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs"; options: single settings in its
    place (_dynamo/options.py has them). disable: the very same object comes back."""
    if not hasattr(_C, "_Compiled"):
        raise RuntimeError("compile() needs CPython 3.11 to 3.13: it looks into frames and dicts, which differ by "
                           "version")
    _check_options(mode, options)
    if dynamic is not None and not isinstance(dynamic, bool):  # PyTorch asserts
        raise AssertionError(f"dynamic is True, False or None, not {dynamic!r}; mark_dynamic() opens single sizes")
    if backend is None:
        from cresset.compiler import get_default_backend
        backend = get_default_backend()
    from cresset._dynamo.options import arguments, ways
    compiler = _find_backend(backend, fullgraph, arguments(backend, mode, options))
    how = ways(mode, options) if isinstance(compiler, str) else 1
    if model is None:
        return lambda fn: compile(fn, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                  disable=disable)
    from cresset._dynamo import config
    if disable or config.disable or os.environ.get("CRESSET_DISABLE") == "1":
        return model
    if config.verify_correctness and isinstance(compiler, str):
        raise NotImplementedError("config.verify_correctness compares backends that are written in Python; native code "
                                  "is compared by 'cresset compile --verify'")
    if options and options.get("freeze") and isinstance(compiler, str):
        _check_frozen(model)
    if isinstance(model, type) and (call := _call_of(model)) is not None:
        model.__call__ = _make(_code_owner(call), compiler, fullgraph, dynamic, how, backend)  # type: ignore[misc]
        return model
    if _C._kind(model) == "module":
        return _compile_module(model, compiler, fullgraph, dynamic, how, backend)
    return _make(_code_owner(model), compiler, fullgraph, dynamic, how, backend)


def _compile_module(module: Any, compiler: Any, fullgraph: bool, dynamic: bool | None, ways: int,
                    walks: Any) -> Any:
    from cresset._dynamo.eval_frame import Optimized, OptimizedModule
    while isinstance(module, Optimized):
        module = module._orig_mod
    kind = OptimizedModule
    if "torch" in sys.modules:
        from cresset import _torch
        if _torch.real() and isinstance(module, _torch.real().nn.Module):
            from cresset._torch.module import TorchModule
            kind = TorchModule
    return kind(module, _make(_code_owner(module), compiler, fullgraph, dynamic, ways, walks))
