"""OptimizedModule: what compile() makes of a module.

The original is its submodule `_orig_mod`, so that state dicts carry that prefix, as PyTorch's do. Everything else that
is read, set or deleted goes to the original; a call goes to what was compiled of the original's call, its hooks
included.
"""
from __future__ import annotations

from typing import Any, Iterator

from cresset.nn.modules.module import Module

__all__ = ["Optimized", "OptimizedModule"]


class Optimized:
    """What compile() adds to a class of modules, Cresset's or torch's: calls are captured."""

    def __init__(self, module: Any, compiled: Any):
        super().__init__()
        self.__dict__["_compiled"] = compiled
        self._modules["_orig_mod"] = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

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
        if name in self.__dict__ or name == "training":
            object.__setattr__(self, name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
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


class OptimizedModule(Optimized, Module):
    """A module whose calls are captured."""
