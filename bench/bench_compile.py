"""Making libraries: `cresset compile` against AOTInductor on the models of models.py: seconds cold and warm, size, load
time, and the memory of a process that runs the model once against one that does it with eager PyTorch. Cold means an
empty cache on both sides."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import bench_native
import peers
from bench_archive import MEASURE
from measure import row

LIBRARY_ROOM = {"native": 250_000, "multi": 600_000}  # bytes beyond 1.05 x weights
LOAD_SECONDS, WARM_SECONDS = 0.005, 0.100

RUN_OURS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy
from library import Model
inputs = numpy.load(sys.argv[3])
Model(sys.argv[2], threads=2)(*(inputs[name] for name in sorted(inputs.files)))
"""
RUN_TORCH = """
import sys
sys.path.insert(0, sys.argv[1])
import models, torch
torch.set_num_threads(2)
model, args = models.make(sys.argv[2])
with torch.inference_mode():
    model(*args)
"""
LOAD = """
import ctypes, sys, time
sys.path.insert(0, sys.argv[1])
from library import Model
best = 1e9
for _ in range(9):
    begin = time.perf_counter()
    model = Model(sys.argv[2], threads=2)
    best = min(best, time.perf_counter() - begin)
    handle = model.library._handle
    model.__del__()
    model.instance = None
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle))
print(best)
"""


def compile_seconds(archive, library, target, cache):
    begin = time.perf_counter()
    subprocess.run(["cresset", "compile", "--target", target, str(archive), "-o", str(library)], check=True,
                   stdout=subprocess.DEVNULL,
                   env={**os.environ, "CRESSET_CACHE": str(cache)})
    return time.perf_counter() - begin


def weight_bytes(name):
    import torch
    program = torch.export.load(peers.model_archive(name))
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in [*program.state_dict.values(),
            *program.constants.values()] if isinstance(t, torch.Tensor)}
    return sum(storages.values())


def resident(*command):
    """Peak megabytes of a process."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, sys.executable, "-c", *map(str, command)],
                          capture_output=True, text=True, check=True)
    _, peak, code = done.stdout.split()
    if int(code):
        raise RuntimeError(f"{command[0][:40]!r} ended with {code}")
    return int(peak) / 1024


def rows():
    import models
    import numpy
    here = pathlib.Path(__file__).resolve().parent
    abi = here.parent / "tests" / "native"
    for name in bench_native.chosen_models():
        archive, (_, inductor) = peers.model_archive(name), peers.inductor_package(name)
        weights = weight_bytes(name)
        with tempfile.TemporaryDirectory(dir=peers.FOLDER) as folder:
            folder = pathlib.Path(folder)
            for target, goal in (("native", 10), ("multi", 5)):
                library, cache = folder / f"{target}.so", folder / target
                cold = compile_seconds(archive, library, target, cache)
                warm = min(compile_seconds(archive, library, target, cache) for _ in range(3))
                copy = folder / "copy"
                begin = time.perf_counter()
                copy.write_bytes(b"\0" * weights)
                writing = time.perf_counter() - begin
                copy.unlink()
                yield row(f"compile {target}, {name}: seconds", cold, inductor, "AOTInductor", goal=goal)
                yield row(f"compile {target} again, {name}: seconds", warm, WARM_SECONDS + writing, "limit")
                yield row(f"library {target}, {name}: bytes", library.stat().st_size,
                          1.05 * weights + LIBRARY_ROOM[target], "limit")
            done = subprocess.run([sys.executable, "-c", LOAD, str(abi), str(folder / "native.so")],
                                  capture_output=True, text=True, check=True)
            yield row(f"load, {name}: seconds", float(done.stdout), LOAD_SECONDS, "limit")
            _, args = models.make(name)
            numpy.savez(folder / "inputs.npz", *(a.numpy() for a in args))
            yield row(f"run once, {name}: MB resident", resident(RUN_OURS, abi, folder / "native.so",
                    folder / "inputs.npz"), resident(RUN_TORCH, here, name), "eager PyTorch")
