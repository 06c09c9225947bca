"""A module's state while it is traced: parameters and buffers become fakes, and whatever forward changes is put back.

    with Swapped(module, fakes) as swapped:
        ... forward runs ...
        swapped.assigned_tensors()      # ["self.cache['k'][0]"]
"""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

from cresset import _C

_SIMPLE = frozenset({int, float, bool, str, bytes, complex, type(None), type})


def is_tensor(value: Any) -> bool:
    """Ours or PyTorch's."""
    torch = sys.modules.get("torch")
    return _C._is_tensor(value) or (torch is not None and isinstance(value, torch.Tensor))


def attribute_tensors(modules: list[tuple[str, Any]]) -> dict[str, Any]:
    """Tensors that are plain attributes, by path. The same tensor may have several."""
    found = {}
    for path, module in modules:
        for name, value in module.__dict__.items():
            if is_tensor(value):
                found[f"{path}.{name}" if path else name] = value
    return found


class _Assigned(dict):
    """A module's buffers, and the names that were assigned to, in order."""

    def __init__(self, buffers: dict[str, Any]):
        super().__init__(buffers)
        self.before = dict(buffers)
        self.assigned: dict[str, None] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        self.assigned[name] = None
        super().__setitem__(name, value)


_claimed: dict[int, int] = {}  # id of a module that is being exported -> the thread that does it
_changed = threading.Condition()


@contextlib.contextmanager
def claimed(mod: Any) -> Iterator[None]:
    """The module's state is swapped while it is traced: inside, no other thread exports it or a module that shares
    parts with it."""
    modules, me = list(mod.named_modules()), threading.get_ident()
    with _changed:
        while path := next((path or type(module).__name__ for path, module in modules if _claimed.get(id(module),
                me) != me), None):
            if me in _claimed.values():  # two that wait for each other would wait for ever
                raise RuntimeError(f"export() inside of export(): '{path}' is being exported by another thread; export "
                                   f"it after that")
            _changed.wait()
        mine = [id(module) for _, module in modules if id(module) not in _claimed]
        _claimed.update(dict.fromkeys(mine, me))
    try:
        yield
    finally:
        with _changed:
            for key in mine:
                del _claimed[key]
            _changed.notify_all()


class Swapped:
    """Everything that forward could change is remembered on entry and restored on exit, also after an error.

    captured: forward is not run; what it sets is written at its end, so that only what is there then counts."""

    def __init__(self, modules: list[tuple[str, Any]], fakes: dict[int, Any], captured: bool = False):
        self._modules, self._fakes, self._captured = modules, fakes, captured
        self._before: list[dict[str, Any]] = []  # of `captured`: the buffers of each module
        self._attributes: list[dict[str, Any]] = []
        self._tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._containers: list[tuple[Any, Any]] = []
        self._structures: list[dict[str, Any]] = []

    def __enter__(self) -> Swapped:
        for _, module in self._modules:
            attributes = dict(module.__dict__)
            self._attributes.append(attributes)
            names = _C._module_tables(module)
            tables = [attributes.get(name) for name in names]
            structures = {}
            for name, value in attributes.items():
                if type(value) in _SIMPLE or (hasattr(value, "__len__") and type(value) in (dict, list) and not value):
                    if type(value) in (dict, list):
                        self._containers.append((value, type(value)()))
                    continue
                if any(value is table for table in tables):
                    self._tables.append((value, value.copy()))
                elif type(value) in (dict, list, tuple):
                    structures[name] = self._remember(value)
            self._structures.append(structures)
            for table in tables[:2]:
                for name, value in (table or {}).items():
                    if value is not None:
                        table[name] = self._fakes.get(id(value), value)
            self._before.append(dict(tables[1] or {}))
            if tables[1] is not None and not self._captured:
                module.__dict__[names[1]] = _Assigned(tables[1])
        return self

    def _remember(self, value: Any) -> Any:
        """A copy of the containers around the leaves; dicts and lists will be filled from it again."""
        if isinstance(value, dict):
            copy: Any = dict(value)
            self._containers.append((value, copy))
            return {key: self._remember(item) if type(item) in (dict, list, tuple) else item
                    for key, item in value.items()}
        if isinstance(value, list):
            self._containers.append((value, list(value)))
        return [self._remember(item) if type(item) in (dict, list, tuple) else item for item in value]

    def __exit__(self, *error: Any) -> None:
        for value, copy in self._containers:
            if isinstance(value, list):
                value[:] = copy
            elif value != copy or any(value[key] is not item for key, item in copy.items()):
                value.clear()
                value.update(copy)
        for (_, module), attributes in zip(self._modules, self._attributes):
            module.__dict__.clear()
            module.__dict__.update(attributes)
        for table, copy in self._tables:
            table.clear()
            table.update(copy)

    # ---- what forward did ----

    def assigned_buffers(self) -> list[tuple[str, Any]]:
        """(path of the buffer, what was assigned to it)."""
        found = []
        for (path, module), before in zip(self._modules, self._before):
            buffers = module.__dict__.get(_C._module_tables(module)[1])
            for name in buffers.assigned if isinstance(buffers, _Assigned) else ():
                same = path and buffers.get(name) is buffers.before.get(name)  # self.b += 1: written already
                if buffers.get(name) is not None and not same:
                    found.append((f"{path}.{name}" if path else name, buffers[name]))
            for name in (before if self._captured else ()):
                if (now := buffers.get(name)) is not None and now is not before[name]:
                    found.append((f"{path}.{name}" if path else name, buffers[name]))
        return found

    def assigned_tensors(self) -> list[str]:
        """Paths of attributes that hold another tensor than before and are no buffers."""
        found: list[str] = []
        for (path, module), attributes, structures in zip(self._modules, self._attributes, self._structures):
            root = f"self.{path}" if path else "self"
            tables = _C._module_tables(module)
            for name, value in module.__dict__.items():
                if name in tables or type(value) in _SIMPLE:
                    continue
                if is_tensor(value):
                    if attributes.get(name) is not value:
                        found.append(f"{root}.{name}")
                elif type(value) in (dict, list, tuple):
                    before = structures.get(name) if attributes.get(name) is value or name in structures else None
                    _compare(f"{root}.{name}", value, before, found)
        return found


def _compare(path: str, value: Any, before: Any, found: list[str]) -> None:
    if is_tensor(value):
        if value is not before:
            found.append(path)
    elif isinstance(value, dict):
        for key, item in value.items():
            _compare(f"{path}[{key!r}]", item, before.get(key) if isinstance(before, dict) else None, found)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _compare(f"{path}[{i}]", item, before[i] if isinstance(before, list) and i < len(before) else None, found)
