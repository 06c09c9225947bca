"""Backends by name.

    @register_backend
    def shout(gm, example_inputs):
        print(gm)
        return gm

    cresset.compile(f, backend="shout")

A backend is a function (gm, example_inputs) -> callable, gm a cresset.fx.GraphModule; it may have `compiler_name`,
`reset`, `get_compiler_config` and `backend_ctx_ctor` (a function that gives a context manager, entered and left around
every call). Packages bring theirs by an entry point of the group `cresset_backends`.
"""
from __future__ import annotations

import difflib
import importlib.metadata
from typing import Any, Callable, Iterable

from cresset._dynamo.exc import InvalidBackend, NotCallableError

__all__ = ["list_backends", "lookup_backend", "register_backend"]

# None: graphs run as they are; a text: native code is made of them
_backends: dict[str, Callable[..., Any] | str | None] = {"eager": None, "native": "native", "inductor": "native"}
_tags: dict[str, frozenset[str]] = {"eager": frozenset({"debug"})}
GROUP = "cresset_backends"


def register_backend(compiler_fn: Callable[..., Any] | None = None, name: str | None = None,
                     tags: Iterable[str] = ()) -> Any:
    """Makes backend(graph, example_inputs) -> callable known by a name; also a decorator."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler_fn):
        raise NotCallableError("a backend is a function (graph, example_inputs) -> callable, not a "
                               f"{type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    if name in _backends and _backends[name] is not compiler_fn:
        raise AssertionError(f"there is a backend {name!r} already: give another name=")
    _backends[name] = compiler_fn
    _tags[name] = frozenset(tags)
    return compiler_fn


def _entry_points() -> dict[str, Any]:
    return {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that compile(backend=...) knows, without those that have one of these tags."""
    left_out = set(exclude_tags or ())
    names = {*_backends, *_entry_points()}
    return sorted(name for name in names if not left_out & _tags.get(name, frozenset()))


def find(name: str) -> Callable[..., Any] | str | None:
    """What stands under a name: a function, or what src/capture makes itself. InvalidBackend."""
    if name not in _backends and name in (points := _entry_points()):
        _backends[name] = points[name].load()
    if name not in _backends:
        known = list_backends(exclude_tags=None)
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidBackend(f"there is no backend {name!r}: {hint}list_backends() gives {known}; register_backend() "
                             "adds one")
    return _backends[name]


def lookup_backend(backend: Any) -> Callable[..., Any]:
    """The function (graph, example_inputs) -> callable of that name; a function is itself."""
    if not isinstance(backend, str):
        return backend
    found = find(backend)
    if callable(found):
        return found

    def run(graph: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        # unused example_inputs: the interpreter needs none
        return graph.run  # what native code stands for
    run.__name__ = run.__qualname__ = backend
    return run


def aot_eager(graph: Any, example_inputs: list[Any]) -> Callable[..., Any]:
    """Forward and backward ahead of time, both interpreted."""
    # unused example_inputs: the first call has them
    from cresset._functorch.aot_autograd import aot_function
    return aot_function(lambda *args: tuple(_listed(graph.run(*args))), "nop")


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


register_backend(aot_eager, tags=("debug",))
