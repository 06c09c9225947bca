"""Backward passes that are captured while they run, and compiled.

    with cresset._dynamo.compiled_autograd.enable("native"):
        loss.backward()

The walk back is recorded as a graph when its like is first met: derivatives, sums of gradients, the backward parts of
compiled calls. Later walks of the same structure run what the compiler made of it. Hooks and functions with a backward
of their own run as they are, between two graphs. docs/compile.md.
"""
from __future__ import annotations

import collections
import contextlib
import inspect
import logging
import threading
from typing import Any, Callable, Iterator

from cresset import _C

__all__ = ["enable", "reset"]

_MOST = 32  # compilers whose graphs are kept
_graphs: collections.OrderedDict[tuple[Any, bool], Any] = collections.OrderedDict()


_thread = threading.local()


def _is_forced_eager() -> bool:
    from cresset.compiler import _STANCES
    stance = _C._set_stance(0)
    _C._set_stance(stance)
    return _STANCES[stance] == "force_eager"


def _captured() -> None:
    from cresset._dynamo.utils import counters
    counters["compiled_autograd"]["captures"] += 1


def _plain(why: str) -> None:
    from cresset._dynamo.utils import counters
    counters["compiled_autograd_plain"][why] += 1
    logging.getLogger("cresset.compiled_autograd").debug("[compiled_autograd] a backward runs node by node: %s", why)


def _takes_inputs(function: Callable[..., Any]) -> bool:
    """Is it a backend (gm, example_inputs), not PyTorch's compiler_fn(gm)?"""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # nobody knows
        return True
    return True


def _compiler_of(compiler_fn: Any) -> Callable[[Any, list[Any]], Any]:
    from cresset import _compile
    backend = compiler_fn
    if callable(compiler_fn) and not _takes_inputs(compiler_fn):
        def backend(gm: Any, example_inputs: list[Any]) -> Any:
            # unused example_inputs: PyTorch's compiler_fn gets the module alone
            gm.recompile()  # Python, which compile() can capture
            return compiler_fn(gm)
        backend.__name__ = getattr(compiler_fn, "__name__", type(compiler_fn).__name__)
    found = _compile._find_backend(backend)

    def compile(graph: Any, inputs: list[Any]) -> Any:
        from cresset._dynamo.utils import counters
        counters["compiled_autograd"]["compiles"] += 1
        return found(graph, inputs) if callable(found) else found
    return compile


def _graphs_of(compiler_fn: Any, dynamic: bool) -> Any:
    """What that compiler made before is found again."""
    from cresset._dynamo import config
    key = (compiler_fn, dynamic)
    try:
        known = _graphs.get(key)
    except TypeError:  # it has no hash: nothing is found again
        return _C._WalkGraphs(_compiler_of(compiler_fn), _captured, _plain, dynamic, config.recompile_limit)
    if known is None:
        known = _C._WalkGraphs(_compiler_of(compiler_fn), _captured, _plain, dynamic, config.recompile_limit)
        _graphs[key] = known
        while len(_graphs) > _MOST:
            _graphs.popitem(last=False)
    return known


@contextlib.contextmanager
def enable(compiler_fn: Any, dynamic: bool = True, ignore_active_disable_ctx: bool = True) -> Iterator[None]:
    """Inside of the block backward() and grad() of this thread are captured and compiled.

    compiler_fn: the name of a backend, a backend (gm, example_inputs) -> callable, or a function of gm alone. dynamic:
    sizes that change between two backwards become symbols, instead of giving one graph each. Where the stance is
    force_eager nothing is captured, and inside of _disable() only where ignore_active_disable_ctx is True."""
    if not isinstance(dynamic, bool):
        raise AssertionError(f"dynamic is True or False, not {dynamic!r}")
    graphs = _graphs_of(compiler_fn, dynamic)
    if _is_forced_eager() or (_thread.__dict__.get("disabled") and not ignore_active_disable_ctx):
        yield
        return
    before = _C._use_walk_graphs(graphs)
    try:
        yield
    finally:
        _C._use_walk_graphs(before)


_enable = enable  # PyTorch's name since 2.6


@contextlib.contextmanager
def _disable() -> Iterator[None]:
    """Inside of the block nothing is captured."""
    before, outer = _C._use_walk_graphs(None), _thread.__dict__.get("disabled", False)
    _thread.disabled = True
    try:
        yield
    finally:
        _thread.disabled = outer
        _C._use_walk_graphs(before)


def _of_compiled(made: Any, backend: Any, dynamic: bool | None) -> None:
    """config.compiled_autograd: walks inside of calls of what compile() made are captured, for its own backend."""
    from cresset._dynamo import config
    made._capture_walks(_graphs_of(backend, dynamic is not False if config.automatic_dynamic_shapes else False))


def reset() -> None:
    """Forgets all backward graphs that were captured."""
    for graphs in _graphs.values():
        graphs.forget()
    _graphs.clear()
