"""Names that PyTorch programs import from `torch._dynamo`: the errors a user meets, marks on tensors, and what is said
about captured functions."""
from cresset import _C
from cresset._dynamo import config, exc, utils
from cresset._dynamo.decorators import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

from cresset._dynamo.backends.registry import list_backends, lookup_backend, register_backend
from cresset._dynamo.explain import explain
from cresset._dynamo.rules import (allow_in_graph, assume_constant_result, disallow_in_graph, nonstrict_trace,
                                   substitute_in_graph)
from cresset._dynamo.optimizing import (_debug_get_cache_entry_list, optimize, optimize_assert, remove_from_cache,
                                        reset_code, run, skip_code)
from cresset._lazy import names as _names

__all__ = ["_debug_get_cache_entry_list", "allow_in_graph", "assume_constant_result", "compiled_autograd", "config",
           "disable", "disallow_in_graph", "exc", "explain", "export", "graph_break", "is_compiling",
           "is_dynamo_supported", "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_unbacked",
           "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert",
           "register_backend", "remove_from_cache", "reset", "reset_code", "run", "skip", "skip_code",
           "substitute_in_graph", "testing", "utils"]
__getattr__, __dir__ = _names(globals(), {"export": "exporting", "ExportResult": "exporting",
                                          "_export_to_torch_ir": "exporting"},
                              {"compiled_autograd", "testing"})


def graph_break(msg: str = "") -> None:
    """Captures end here, for the reason `msg`, and go on behind it."""
    if hasattr(_C, "_graph_break"):
        _C._graph_break(msg)


def disable(fn=None, recursive=True, *, reason=None):
    """As compiler.disable."""
    from cresset import compiler
    return compiler.disable(fn, recursive, reason=reason)


def skip(fn=None):
    """disable() without the functions that fn calls: those are captured by themselves."""
    return disable(fn, recursive=False)


def is_compiling() -> bool:
    """As compiler.is_compiling."""
    from cresset import compiler
    return compiler.is_compiling()


def is_dynamo_supported() -> bool:
    """Does compile() work on this version of CPython?"""
    return hasattr(_C, "_Compiled")


def reset() -> None:
    """Forgets everything that was captured, of all compiled functions; backends with a `reset` are told."""
    from cresset import _compile
    _compile._reset()
