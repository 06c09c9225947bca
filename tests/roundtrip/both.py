"""Programs written once, run with either library: a file that says `import torch` is loaded with `torch` bound to
PyTorch or to Cresset.

    theirs, ours = both.load("torch"), both.load("cresset")          # tests/interop/programs.py and its tables
    theirs.TABLE["linear"].build()                                   # torch.nn.Linear
    ours.TABLE["linear"].build()                                     # cresset.nn.Linear

The text is loaded with its import statements rewritten, those inside of functions too; nothing outside of the loaded
files sees any of it.
"""
import functools
import importlib
import pathlib
import re
import sys
import types

TESTS = pathlib.Path(__file__).resolve().parents[1]
INTEROP = ("programs", "programs_layers", "programs_code", "programs_forms", "programs_dynamic")


def load_files(library, paths):
    """The files as modules that import `library` where they say torch, and each other by name."""
    kept = {path.stem: sys.modules.pop(path.stem, None) for path in paths}
    made = {}
    try:
        for path in paths:
            text = re.sub(r"^(\s*)import torch\b(?!\.)", rf"\1import {library} as torch", path.read_text(), flags=re.M)
            text = re.sub(r"^(\s*)from torch\b", rf"\1from {library}", text, flags=re.M)
            module = made[path.stem] = sys.modules[path.stem] = types.ModuleType(path.stem)
            module.__file__ = str(path)
            exec(compile(text, path, "exec"), vars(module))
    finally:
        for name, module in kept.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
    return made


@functools.cache
def load(library):
    """tests/interop/programs.py with its tables filled."""
    if library == "torch":  # as they are
        sys.path.insert(0, str(TESTS / "interop"))
        module = importlib.import_module("programs")
        module.programs()
        return module
    return load_files(library, [TESTS / "interop" / f"{name}.py" for name in INTEROP])["programs"]


@functools.cache
def random_programs(library):
    """tests/native/random_programs.py: `grow(number)` gives a module and its arguments."""
    return load_files(library, [TESTS / "native" / "random_programs.py"])["random_programs"]
