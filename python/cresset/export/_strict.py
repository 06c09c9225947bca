"""export(strict=True): the program is captured by its bytecode, as compile(fullgraph=True) would, and recorded by the
tracer of the export on the export's fakes (src/capture/strict.c)."""
from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cresset
from cresset import _C, _torch
from cresset._dynamo.exc import Unsupported
from cresset.export._errors import UserError, UserErrorType
from cresset.export._state import is_tensor
from cresset.utils import _pytree as pytree

_SYMBOLS = (_C.SymInt, _C.SymFloat, _C.SymBool)


def runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ours that captures do not look into: it is run on what the program gives it (capture/rules.c)."""
    function._cresset_rule = "run"  # type: ignore[attr-defined]
    return function


class Standing:
    """Which fake stands for which tensor of the program. `take`: makes a tensor of ours of one that nobody named."""

    def __init__(self, take: Callable[[Any], Any] | None = None):
        self._fakes: dict[int, Any] = {}
        self._real: list[Any] = []  # whose addresses the keys are
        self._take, self.foreign = take, take is not None
        self._found: list[tuple[Any, str | None]] | None = None
        self._known: list[Any] = []

    def add(self, real: Any, fake: Any) -> None:
        self._fakes[id(real)] = fake
        self._real.append(real)

    def watch(self, found: list[tuple[Any, str | None]], known: Iterable[Any]) -> None:
        """Tensors that are neither inputs, nor state, nor `known` are noted, with the line of their first use."""
        self._found, self._known = found, [*known]

    def __call__(self, real: Any) -> Any:
        if id(real) not in self._fakes:
            if self._found is not None and not any(real is tensor for tensor in self._known):
                self._found.append((real, _C._user_line()))
            self.add(real, self._take(real) if self._take and not _C._is_tensor(real) else real)
        return self._fakes[id(real)]

    def of(self, leaf: Any) -> Any:
        """The same of anything: what is no tensor is itself."""
        return self(leaf) if is_tensor(leaf) and not (_C._is_tensor(leaf) and _C.is_fake(leaf)) else leaf


def arguments(real: Any, fake: Any, standing: Standing) -> Any:
    """The arguments of the call that is captured: those of the example, but for numbers that vary."""
    leaves, spec = pytree.tree_flatten(real)
    given = []
    for leaf, stands in zip(leaves, pytree.tree_leaves(fake)):
        if is_tensor(leaf):
            standing.add(leaf, stands)
        given.append(stands if isinstance(stands, _SYMBOLS) else leaf)
    return pytree.tree_unflatten(given, spec)


def function_of(mod: Any) -> types.FunctionType:
    """What runs when the module is called."""
    call = type(mod).__call__
    if not isinstance(call, types.FunctionType):
        raise UserError(UserErrorType.INVALID_INPUT,
                        f"export(strict=True): {type(mod).__name__}.__call__ is no Python function, so there is no "
                        "code to capture; use strict=False")
    return call


def capture(tracer: Any, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], standing: Standing,
            guards: list[str] | None = None) -> Any:
    """The result of mod(*args, **kwargs), fakes in it. Unsupported: the call is not one graph. guards: a list that gets
    what was looked at, as texts."""
    if not hasattr(_C, "_capture_export"):
        raise NotImplementedError("export(strict=True) needs CPython 3.11 to 3.13: it captures bytecode; use "
                                  "strict=False")
    try:
        result, why = _C._capture_export(tracer, mod, function_of(mod), (mod, *args, *kwargs.values()), tuple(kwargs),
                                         standing, guards)
    except _C.GuardOnDataDependentSymNode as error:
        raise UserError(UserErrorType.ANTI_PATTERN,
                        f"export(): say what always holds with cresset._check(...) before the line, or "
                        f"write the branch with cresset.cond() or cresset.where(): {error}") from error
    if why is not None:
        other = "" if standing.foreign else ", or use strict=False, which runs it on fake tensors"
        raise Unsupported(f"export(): the program is not one graph: {why}; take that out of forward{other}")
    if standing.foreign:
        from cresset._torch.exporting import adopt
        adopt(result)
    return pytree.tree_map(standing.of, result)


# ---- PyTorch's modules ----

def taken(mod: Any) -> Any:
    """What makes tensors of ours of the module's, which are PyTorch's; None: they are ours."""
    torch = _torch.real()
    if torch is None or not isinstance(mod, torch.nn.Module):
        return None
    from cresset._torch.exporting import Taken
    return Taken()


@contextlib.contextmanager
def theirs() -> Iterator[None]:
    """In PyTorch's gradient mode."""
    with cresset.set_grad_enabled(sys.modules["torch"].is_grad_enabled()):
        yield
