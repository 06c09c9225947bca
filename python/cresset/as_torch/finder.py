"""Imports of torch and of its submodules, answered by Cresset's modules of the same name.

`torch` is a module of its own (it has PyTorch's version, Cresset has another); `torch.nn` is `cresset.nn` itself, so
that what a program sets there is set. Where Cresset has no such module, quiet.py may have one. A name that is nowhere
is an AttributeError, or an ImportError from an import, that says so; `missing()` keeps the list."""
from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types
from typing import Any, Iterator

import cresset
from cresset.as_torch import quiet

VERSION = "2.13.0"  # the PyTorch whose names and behaviour Cresset follows
_asked: dict[str, None] = {}  # torch names that were asked for and are not here, in order


def missing() -> list[str]:
    """Names of torch that this process has asked for and that are not here (those that hasattr() asked for, too)."""
    return list(_asked)


def _absent(name: str) -> str:
    _asked[name] = None
    return quiet.REFUSAL.format(name)


def _known_to_torch(value: Any) -> Any:
    """A module of Cresset's that is met as an attribute becomes one of torch's, with quiet names in it."""
    if isinstance(value, types.ModuleType) and value.__name__.startswith("cresset."):
        return importlib.import_module("torch" + value.__name__[len("cresset"):])
    return value


def _answer(torch_name: str, names: dict[str, Any], first: Any) -> Any:
    """The __getattr__ of a module that is imported as torch_name: the module's own one first, then quiet names. What it
    finds stays in `names`, the module's."""
    def find(name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(f"module '{torch_name}' has no attribute '{name}'")
        full = f"{torch_name}.{name}"
        try:
            value = _known_to_torch(first(name))
        except AttributeError:
            if full not in quiet.NAMES and not _home(full):
                raise AttributeError(_absent(full)) from None
            value = quiet.NAMES[full] if full in quiet.NAMES else importlib.import_module(full)
        names[name] = value
        return value
    return find


def _nowhere(name: str) -> Any:
    raise AttributeError(name)


def _home(name: str) -> str | None:
    """Which module is imported as `name`: one of Cresset's, or "quiet"; None: nobody has it."""
    ours = "cresset" + name[len("torch"):]
    if ours in sys.modules:
        return ours
    if name in quiet.MODULES:
        return "quiet"
    parent = sys.modules.get(name.rpartition(".")[0])
    if parent is None or not hasattr(parent, "__path__"):
        return None
    try:
        return ours if importlib.util.find_spec(ours) else None
    except ModuleNotFoundError:
        return None


class _Loader(importlib.abc.Loader):
    """Gives a module that is there under its own name. The import system writes the new name's spec into it, which is
    taken back."""

    def __init__(self, home: str) -> None:
        self.home = home

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if self.home == "quiet":
            return types.ModuleType(spec.name, f"torch's {spec.name}, where nothing is due. See cresset.as_torch.")
        module = types.ModuleType("torch", "Cresset, in torch's place. See cresset.as_torch.") \
            if self.home == "cresset" else importlib.import_module(self.home)
        self.own = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        names = vars(module)
        if self.home == "quiet":
            names["__path__"] = []
            names["__getattr__"] = _answer(module.__name__, names, _nowhere)
            return
        if self.home == "cresset":
            names.update(__version__=VERSION, __path__=[], __dir__=cresset.__dir__,
                         __getattr__=_answer("torch", names, functools.partial(getattr, cresset)))
            return
        shown = "torch" + self.home[len("cresset"):]
        module.__spec__ = self.own
        names.setdefault("__path__", [])  # what has no files below it may have quiet names there
        names["__getattr__"] = _answer(shown, names, names.get("__getattr__", _nowhere))
        for value in list(names.values()):
            if isinstance(value, types.ModuleType) and value.__name__.startswith(self.home + "."):
                _known_to_torch(value)


@functools.cache
def _declare_torchvision() -> Any:
    """torchvision registers fakes of these ops whether or not the library that has them could be loaded."""
    from cresset import library, ops
    made = library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(ops.torchvision, name):
            made.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return made


class Finder(importlib.abc.MetaPathFinder):
    """First in sys.meta_path: a PyTorch that is installed is not seen."""

    # unused path, target: a name of torch's says all
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name == "torchvision.extension":
            _declare_torchvision()
        if name != "torch" and not name.startswith("torch."):
            return None
        home = _home(name) if name != "torch" else "cresset"
        if home is None:
            raise ModuleNotFoundError(_absent(name))  # without its name: `from torch.x import y` passes it on
        return importlib.machinery.ModuleSpec(name, _Loader(home), is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """importlib.metadata.version("torch") is how libraries ask whether torch is there."""
        if context is None or context.name in (None, "torch"):
            yield _Distribution()


class _Last(importlib.abc.MetaPathFinder):
    """Last in sys.meta_path: `from torch.nn import x` asks for cresset.nn.x, and Python would say only that."""

    # unused path, target: a name of torch's says all
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        shown = "torch" + name[len("cresset"):]
        if name.startswith("cresset.") and shown.rpartition(".")[0] in sys.modules:
            raise ModuleNotFoundError(_absent(shown))


class _Distribution(importlib.metadata.Distribution):
    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: torch is Cresset here (cresset.as_torch) and has no files of its own")


def install() -> None:
    """Once. An ImportError when PyTorch itself was imported before: a program cannot have both under one name."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if "torch" in sys.modules:
        raise ImportError("cresset.as_torch: torch has been imported already, and code that did keeps it: import "
                          "cresset.as_torch first, or run the program with python -m cresset.as_torch")
    sys.meta_path.insert(0, Finder())
    sys.meta_path.append(_Last())
