"""What compile() goes by, under the names that PyTorch users know. Read when a function is compiled.

    cresset._dynamo.config.recompile_limit = 16

Setting another name is an AttributeError: what is not here changes nothing."""
from __future__ import annotations

import sys
import types
from typing import Any

recompile_limit = 8  # entries of one place (a function's beginning, an instruction behind a break) at most

_other_names = {"cache_size_limit": "recompile_limit"}


class _Config(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in _other_names:
            return getattr(self, _other_names[name])
        raise AttributeError(f"cresset._dynamo.config has no {name!r}; it has recompile_limit")

    def __setattr__(self, name: str, value: Any) -> None:
        name = _other_names.get(name, name)
        if name == "recompile_limit":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"recompile_limit is a number of entries, 1 or more, not {value!r}")
        elif not name.startswith("__"):
            raise AttributeError(f"cresset._dynamo.config has no {name!r}; it has recompile_limit")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Config
