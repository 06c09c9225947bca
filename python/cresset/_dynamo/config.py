"""What compile() goes by, under the names that PyTorch users know. Read when a function is compiled.

    cresset._dynamo.config.recompile_limit = 16

Setting another name is an AttributeError: what is not here changes nothing."""
from __future__ import annotations

import sys
import types
from typing import Any

recompile_limit = 8  # entries of one place (a function's beginning, an instruction behind a break) at most
automatic_dynamic_shapes = True  # sizes and numbers that changed since an earlier capture are left open
assume_static_by_default = True  # False: sizes are left open at once, as with dynamic=True
specialize_int = False  # True: ints are captured as they are, whether they change or not
specialize_float = False
use_duck_shape = True  # of what is left open at once: equal sizes are one

_switches = ("automatic_dynamic_shapes", "assume_static_by_default", "specialize_int", "specialize_float",
             "use_duck_shape")
_other_names = {"cache_size_limit": "recompile_limit"}


def _unknown(name: str) -> str:
    return f"cresset._dynamo.config has no {name!r}; it has recompile_limit, {', '.join(_switches)}"


class _Config(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in _other_names:
            return getattr(self, _other_names[name])
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        name = _other_names.get(name, name)
        if name == "recompile_limit":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"recompile_limit is a number of entries, 1 or more, not {value!r}")
        elif name in _switches:
            if not isinstance(value, bool):
                raise ValueError(f"{name} is True or False, not {value!r}")
        elif not name.startswith("__"):
            raise AttributeError(_unknown(name))
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Config
