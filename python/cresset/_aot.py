"""Native code: exported programs compiled ahead of time, and what runs them.

    path = cresset.aot_compile("model.pt2", options={"output_path": "libmodel.so"})
    model = cresset.aot_load(path)              # the original call structure
    model = ep.compile()                        # interpreted at once, native as soon as that is built

A library needs nothing of Cresset; see docs/native.md.
"""
from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from cresset import _C
from cresset.export import ExportedProgram, export, load
from cresset.export._call_structure import CallStructure
from cresset.utils._pytree import treespec_loads

_OPTIONS = {"output_path": "where the library goes", "weights": "'inside' or 'beside'", "cc": "the C compiler",
            "target": "'multi', 'native' or a triple"}


def aot_compile(f: str | os.PathLike[str] | ExportedProgram | dict[str, Any] | Callable[..., Any],
                args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,
                dynamic_shapes: Any = None, options: dict[str, Any] | None = None,
                joint: str | dict[str, Any] | None = None, remove_runtime_assertions: bool = False,
                disable_constraint_solver: bool = False, same_signature: bool = True) -> str:
    """Compiles an exported program, the archive at a path, or a module or function called with (*args, **kwargs), to a
    shared library; returns its path. A dictionary of programs gives a library whose methods have its keys for names:
    weights are stored once, buffers that calls change are shared.

    options: output_path (else a new folder of the system's temporary one), weights ("inside" the library or "beside"
    it), cc, target ("multi": any processor of this kind; "native": those like this one; or a triple, with a cross
    compiler). joint: the (first) program returns a loss, and the library trains it: the optimizer, as text
    ("adamw,weight_decay=0.1") or a dictionary ({"optimizer": "adamw", "weight_decay": 0.1}); see docs/training.md.
    Checks of inputs and assertions of the program are always kept: remove_runtime_assertions,
    disable_constraint_solver and same_signature may only be what they are by default.
    """
    build = _build_options(options, _OPTIONS)
    if remove_runtime_assertions:
        raise NotImplementedError("aot_compile(remove_runtime_assertions=True): what a program checks of its data is "
                                  "part of it, and native code relies on it; leave it out")
    if disable_constraint_solver:
        raise NotImplementedError("aot_compile(disable_constraint_solver=True): what dynamic_shapes promises is always "
                                  "checked against the program; use Dim.AUTO for sizes that the program may settle "
                                  "itself")
    if not same_signature:
        raise NotImplementedError("aot_compile(same_signature=False): a library keeps the call structure of the "
                                  "program; leave it out")
    if callable(f) and not isinstance(f, ExportedProgram):
        f, args, kwargs, dynamic_shapes = _exported(f, args, kwargs, dynamic_shapes), (), None, None
    if args or kwargs or dynamic_shapes is not None:
        raise ValueError("aot_compile(): an exported program has its inputs and dynamic sizes already; leave args, "
                         "kwargs and dynamic_shapes out")
    programs = [(name, _program(one)) for name, one in (f if isinstance(f, dict) else {"forward": f}).items()]
    path = build.pop("output_path", None)
    path = os.path.join(tempfile.mkdtemp(prefix="cresset-"), "model.so") if path is None else os.fspath(path)
    if joint is not None:
        build["train"] = _optimizer_text(joint)
    _C._compile_programs(programs, path, **build)
    return path


def _optimizer_text(joint: str | dict[str, Any]) -> str:
    if isinstance(joint, str):
        return joint
    options = dict(joint)
    name = options.pop("optimizer", "adamw")
    betas = options.pop("betas", None)
    if betas is not None:
        options["beta1"], options["beta2"] = betas
    patterns = options.pop("no_decay", ())
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    return ",".join([str(name), *(f"{key}={float(value)!r}" for key, value in options.items()),
                     *(f"no_decay={pattern}" for pattern in patterns)])


def aot_load(path: str | os.PathLike[str], device: str = "cpu", *, threads: int = 0,
             weights: str | os.PathLike[str] | None = None) -> AOTModel:
    """A library that `aot_compile` or `cresset compile` made, ready to be called.

    threads: how many it computes with (0: all that the process may use). weights: where they are, when not in or beside
    the library.
    """
    name = str(device)
    if name != "cpu":
        raise RuntimeError(f"aot_load(): the device '{name}' is not supported: compiled libraries run on 'cpu'")
    return AOTModel(_C._Native(path, threads) if weights is None else _C._Native(path, threads, weights))


class AOTMethod:
    """One method of a library."""

    def __init__(self, native: Any, index: int, name: str, inputs: list[str], in_spec: str, out_spec: str):
        self._native, self._index, self.__name__ = native, index, name
        self._structure = _structure(inputs, in_spec, out_spec)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        structure = self._structure
        return structure.result(self._native.run(self._index, structure.bind(args, kwargs)))

    def __repr__(self) -> str:
        return f"{self.__name__}{self._structure}"


class AOTModel:
    """One instance of a compiled library. Calling it calls its only method, or `forward`; others are attributes.
    Buffers that calls change belong to the instance and are shared by its methods. May be called from several
    threads."""

    def __init__(self, native: Any):
        self._native = native
        self._methods = {name: AOTMethod(native, i, name, inputs, in_spec, out_spec)
                         for i, (name, inputs, _, in_spec, out_spec) in enumerate(native.methods())}
        self._main = next(iter(self._methods.values())) if len(self._methods) == 1 else self._methods.get("forward")

    @property
    def methods(self) -> dict[str, AOTMethod]:
        return dict(self._methods)

    @property
    def path(self) -> str:
        return self._native.path

    def manual_seed(self, seed: int) -> None:
        """Seeds this instance's generator alone; `cresset.manual_seed` reaches every instance with its next call."""
        self._native.manual_seed(seed)

    @property
    def trains(self) -> bool:
        """Was it compiled to train? It then has the methods step, backward and update."""
        return self._native.training() is not None

    def state_dict(self) -> dict[str, Any]:
        """Copies of the weights of a library that trains, by the names of the module that was exported."""
        training = self._native.training()
        if training is None:
            raise RuntimeError("state_dict(): the library does not train; its weights are the exported program's")
        return {name: self._native.get_state(state) for name, state in training["weights"].items()}

    def save(self, path: str | os.PathLike[str], what: str = "all") -> None:
        """Writes a safetensors file: the "weights", or "all" that training goes on from (gradients, moments, counter,
        random state)."""
        if what not in ("weights", "all"):
            raise ValueError(f"save(): what is 'weights' or 'all', not {what!r}")
        self._native.save(path, 1 if what == "weights" else 2)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads what `save` wrote, or the weights that PyTorch wrote as safetensors."""
        self._native.load(path)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._main is None:
            raise TypeError(f"the library has several methods, call one of them: {', '.join(self._methods)}")
        return self._main(*args, **kwargs)

    def __getattr__(self, name: str) -> AOTMethod:
        methods = self.__dict__.get("_methods", {})
        if name in methods:
            return methods[name]
        raise AttributeError(f"the library has no method '{name}'; it has {', '.join(methods)}")

    def __repr__(self) -> str:
        return f"AOTModel({', '.join(map(repr, self._methods.values()))})"


class CompiledProgram:
    """An exported program that is interpreted until its native code is ready.

    The swap happens between two calls, and buffers that calls change go along. A build that fails leaves the program
    interpreted; `error` is what it raised. `tier` is "interpreter" or "native".
    """

    def __init__(self, program: ExportedProgram, options: dict[str, Any] | None = None):
        build = _build_options(options, {"wait": "build before returning",
                                         "threads": "how many native code computes with", "cc": "the C compiler",
                                         "target": "'multi' or 'native'"})
        wait, self._threads = build.pop("wait", False), build.pop("threads", 0)
        # as it is now: another tensor in state_dict is for the next one
        self._program, self._build = program._program, build
        self._structure = program._call_structure()
        self._interpreter = _C._ProgramModule(self._program, True)
        self._native: Any = None
        self._error: Exception | None = None
        self._ready = threading.Event()
        self._calls = threading.Lock()  # held by interpreted calls that change buffers, and by the swap
        self._stateful = self._interpreter.is_stateful
        if wait:
            self._finish()
            if self._error is not None:
                raise self._error
        else:
            # no daemon: a process that ends leaves no files behind
            threading.Thread(target=self._finish, name="cresset-build").start()

    def _finish(self) -> None:
        folder = tempfile.mkdtemp(prefix="cresset-work-")  # of which a later build removes those that are not locked
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            path = os.path.join(folder, "model.so")
            _C._compile_programs([("forward", self._program)], path, **self._build)
            native = _C._Native(path, self._threads)  # mapped: the file itself is not needed any more
            with self._calls:
                native.take_state(self._interpreter)
                self._native = native
        except Exception as error:  # whatever it was: the interpreter goes on
            self._error = error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            self._ready.set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        structure = self._structure
        return structure.result(self._run(structure.bind(args, kwargs)))

    def _run(self, leaves: list[Any]) -> list[Any]:
        native = self._native
        if native is None and self._stateful:
            with self._calls:
                if self._native is None:
                    return self._interpreter.run(leaves)
            native = self._native
        return self._interpreter.run(leaves) if native is None else native.run(0, leaves)

    def wait(self, timeout: float | None = None) -> str:
        """Waits for the build to end, one way or the other; returns the tier."""
        self._ready.wait(timeout)
        return self.tier

    @property
    def tier(self) -> str:
        return "interpreter" if self._native is None else "native"

    @property
    def error(self) -> Exception | None:
        """Why native code could not be built; None while it is being built, and when it was."""
        return self._error

    def __repr__(self) -> str:
        return f"CompiledProgram{self._structure} ({self.tier})"


def _exported(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None,
              dynamic_shapes: Any) -> ExportedProgram:
    """A module, or a function as the forward of one."""
    from cresset import nn
    if not isinstance(f, nn.Module):
        function, f = f, nn.Module()
        f.__dict__["forward"] = function
    return export(f, args, kwargs, dynamic_shapes=dynamic_shapes)


def _program(f: Any) -> Any:
    return (f if isinstance(f, ExportedProgram) else load(f))._program


def _build_options(options: dict[str, Any] | None, known: dict[str, str]) -> dict[str, Any]:
    given = {name.removeprefix("aot_inductor."): value for name, value in (options or {}).items()}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"unknown option {', '.join(map(repr, unknown))}; there are "
                         f"{', '.join(f'{name} ({what})' for name, what in known.items())}")
    return given


def _structure(inputs: list[str], in_spec: str, out_spec: str) -> CallStructure:
    """A positional argument that is one leaf has the name of its input."""
    spec = treespec_loads(in_spec)
    names, at = [], 0
    for i, child in enumerate(spec.children_spec[0].children_spec):
        names.append(inputs[at] if child.is_leaf() else f"args[{i}]")
        at += child.num_leaves
    return CallStructure(spec, treespec_loads(out_spec), names)
