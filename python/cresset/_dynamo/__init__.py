"""Names that PyTorch programs import from `torch._dynamo`: the errors a user meets, marks on tensors, and what is said
about captured functions."""
from cresset import _C
from cresset._dynamo import config, exc
from cresset._dynamo.decorators import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

from cresset._dynamo.explain import explain

__all__ = ["config", "disable", "exc", "explain", "graph_break", "is_compiling", "is_dynamo_supported", "list_backends",
           "mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic", "reset"]


def graph_break(msg: str = "") -> None:
    """Captures end here, and go on behind it. `msg` is for readers."""
    # unused msg: it is for those who read the code
    if hasattr(_C, "_graph_break"):
        _C._graph_break()


def disable(fn=None, recursive=True, *, reason=None):
    """As compiler.disable."""
    from cresset import compiler
    return compiler.disable(fn, recursive, reason=reason)


def is_compiling() -> bool:
    """As compiler.is_compiling."""
    from cresset import compiler
    return compiler.is_compiling()


def is_dynamo_supported() -> bool:
    """Does compile() work on this version of CPython?"""
    return hasattr(_C, "_Compiled")


def list_backends() -> list[str]:
    """The names that compile(backend=...) knows."""
    from cresset import _compile
    return _compile.list_backends()


def reset() -> None:
    """Forgets everything that was captured, of all compiled functions; backends with a `reset` are told."""
    from cresset import _compile
    _compile._reset()
