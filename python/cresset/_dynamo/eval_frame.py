"""OptimizedModule: what compile() makes of a module.

The original is its submodule `_orig_mod`, so that state dicts carry that prefix, as PyTorch's do. Everything else that
is read, set or deleted goes to the original; a call goes to what was compiled of the original's call, its hooks
included. Hooks of the wrapper, and those of all modules, run around that once more.
"""
from __future__ import annotations

import warnings
from typing import Any, Iterator

from cresset.nn.modules.module import (
    Module, _global_backward_hooks, _global_backward_pre_hooks, _global_forward_hooks, _global_forward_pre_hooks)

__all__ = ["Optimized", "OptimizedModule"]

_told = False  # that hooks of all modules run twice


class Optimized:
    """What compile() adds to a class of modules, Cresset's or torch's: calls are captured. The class itself has a
    __call__ that looks for hooks."""

    def __init__(self, module: Any, compiled: Any):
        super().__init__()
        self.__dict__["_compiled"] = compiled
        self._modules["_orig_mod"] = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def get_compiler_config(self) -> Any:
        """As that of compiled functions: what the backend says of itself."""
        told = getattr(self.__dict__["_compiled"], "get_compiler_config", None)  # disable() has none
        return told() if told else None

    @property
    def _torchdynamo_orig_callable(self) -> Any:
        return self._modules["_orig_mod"].__call__

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, value: bool) -> None:
        if "_orig_mod" in self.__dict__.get("_modules", ()):  # not while it is being made
            self._modules["_orig_mod"].training = value

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules")
        if not modules or "_orig_mod" not in modules:  # being made, copied or unpickled
            raise AttributeError(name)
        return modules["_orig_mod"] if name == "_orig_mod" else getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod":
            raise AttributeError("the module that was compiled cannot be replaced: compile the other one")
        if name in self.__dict__ or name in ("training", "forward"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        if name == "forward" and name in self.__dict__:
            object.__delattr__(self, name)
        else:
            delattr(self._modules["_orig_mod"], name)

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules["_orig_mod"])

    def __getitem__(self, key: Any) -> Any:
        return self._modules["_orig_mod"][key]

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        original = dir(self._modules["_orig_mod"])
        return original + [name for name in super().__dir__() if name not in set(original)]


def tell_twice() -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn("hooks of all modules (register_module_forward_hook() and its like) run for what compile() makes "
                      "of a module, too, and so twice in a call: use module.compile(), or hooks of single modules",
                      UserWarning, stacklevel=3)


class OptimizedModule(Optimized, Module):
    """A module whose calls are captured."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if (_global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks
                or _global_backward_pre_hooks):
            tell_twice()
        elif not (own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
                  or own["_backward_pre_hooks"] or "forward" in own):
            return own["_compiled"](*args, **kwargs)
        return super().__call__(*args, **kwargs)
