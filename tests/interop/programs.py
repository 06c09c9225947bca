"""The programs of the interop tests: small, written with torch alone, exported and saved by real PyTorch.

    for p in programs(): ep = export(p)                      # checking.py saves it, with and without
    run_decompositions()

A program is a module, the arguments it is exported with, and further calls of one instance (other sizes, or to see
state change). `programs_layers.py` has the layers of torch.nn, `programs_code.py` has written functions; both fill the
table below. Everything is made anew, from the name as seed, each time it is asked for.
"""
import dataclasses
import importlib
import pathlib
import sys
import typing
import zlib

import torch

DIALECTS = ("training", "core")
TABLE = {}


@dataclasses.dataclass
class Program:
    name: str
    module: typing.Callable            # () -> torch.nn.Module
    args: typing.Callable              # () -> tuple
    kwargs: typing.Callable = dict     # () -> dict
    more: typing.Callable = tuple      # () -> further calls of the same instance: tuples of args, or (args, kwargs)
    dynamic: object = None             # dynamic_shapes, or () -> them
    train: bool = False
    seed: bool = False                 # draws random numbers: every call starts from the same seed
    constant: bool = False             # an output may hold one value only
    dialects: tuple = DIALECTS
    tolerance: float | None = None     # instead of the dtype's own (agreement.py), with the reason in `why`
    why: str = ""

    def calls(self):
        """[(args, kwargs), ...]: the first are the example inputs."""
        torch.manual_seed(zlib.crc32(self.name.encode()))
        found = [(self.args(), self.kwargs())]
        for call in self.more():
            pair = len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], dict)
            found.append(call if pair else (call, self.kwargs()))
        return found

    def build(self):
        torch.manual_seed(zlib.crc32(self.name.encode()) + 1)
        return self.module().train(self.train)


def add(program):
    if program.name in TABLE:
        raise ValueError(f"two programs are named {program.name}")
    TABLE[program.name] = program


def layer(name, module, args, **options):
    """A program that is one layer, or several in a row."""
    add(Program(name, module, args, **options))


def program(args, make=None, **options):
    """Decorator: the function is the forward of a module; `make` has the module's submodules, parameters and buffers
    (names ending in `_buffer`)."""
    def wrap(forward):
        def module():
            m = type(forward.__name__, (torch.nn.Module,), {"forward": forward})()
            for key, value in (make() if make else {}).items():
                if key.endswith("_buffer"):
                    m.register_buffer(key, value)
                else:
                    setattr(m, key, value)
            return m
        add(Program(forward.__name__, module, args, **options))
        return forward
    return wrap


def programs():
    folder = str(pathlib.Path(__file__).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules.setdefault("programs", sys.modules[__name__])
    for name in ("programs_layers", "programs_code", "programs_forms", "programs_dynamic"):
        importlib.import_module(name)
    return list(TABLE.values())


def export(p):
    """-> torch.export.ExportedProgram, in the training dialect"""
    args, kwargs = p.calls()[0]
    dynamic = p.dynamic() if callable(p.dynamic) else p.dynamic
    with torch.no_grad():
        return torch.export.export(p.build(), args, kwargs, dynamic_shapes=dynamic)
