"""How a program is called: nested arguments to flat leaves, flat results to nested ones."""
from __future__ import annotations

from typing import Any

from cresset.utils._pytree import TreeSpec


class CallStructure:
    """`in_spec` describes (args, kwargs); `names` are those of the positional arguments, where they are known."""

    def __init__(self, in_spec: TreeSpec, out_spec: TreeSpec, names: list[str] | None = None):
        self._args_spec, self._kwargs_spec = in_spec.children_spec
        self._out_spec, self._names = out_spec, names

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call. Positional arguments may be given by name where the names are known."""
        expected, keys = self._args_spec.num_children, self._kwargs_spec.context
        names = self._names[:expected] if self._names else []
        if len(args) < expected and names:
            named = [name for name in names[len(args):] if name in kwargs and name not in keys]
            if named == names[len(args):]:
                args = (*args, *(kwargs[name] for name in named))
                kwargs = {name: value for name, value in kwargs.items() if name not in named}
        problems = []
        if len(args) < expected:
            missing = [repr(name) for name in names[len(args):]] or [f"args[{i}]" for i in range(len(args), expected)]
            problems.append("missing " + ", ".join(missing))
        if len(args) > expected:
            problems.append(f"{len(args) - expected} positional arguments too many ({expected} expected, {len(args)} "
                            f"given)")
        missing, extra = [repr(key) for key in keys if key not in kwargs], [repr(key) for key in kwargs
                if key not in keys]
        if missing:
            problems.append("missing keyword arguments " + ", ".join(missing))
        if extra:
            problems.append("unexpected keyword arguments " + ", ".join(extra))
        if problems:
            raise ValueError(f"{'; '.join(problems)}. The program was exported with {self}")
        leaves = self._args_spec.flatten(args, "args")
        return leaves + self._kwargs_spec.flatten(kwargs, "kwargs")

    def __str__(self) -> str:
        expected = self._args_spec.num_children
        names = self._names[:expected] if self._names and len(self._names) >= expected else [f"args[{i}]"
                for i in range(expected)]
        return "(" + ", ".join([*names, *(f"{key}=" for key in self._kwargs_spec.context)]) + ")"

    def result(self, leaves: list[Any]) -> Any:
        return self._out_spec.unflatten(leaves)
