"""Archives: `cresset info` on 1 GB, loading BERT, and the interpreter against eager PyTorch on the models of models.py, 2 threads each.

The archives are made by PyTorch once and kept in build/bench. The single models' rows have no goal of their own: the goal
is the geometric mean. `python bench/profile_archive.py NAME` shows which ops the time goes to.
"""
import math
import subprocess
import sys
import time

from measure import compare, row
from peers import THREADS, archive, model_archive

INFO_SECONDS, INFO_MEGABYTES, LOAD_SECONDS = 0.050, 40, 0.060


def big_archive():
    import torch
    width = 16384
    def make():
        layer = torch.nn.Linear(width, width, bias=False, device="meta").to_empty(device="cpu")
        return layer, (torch.zeros(1, width),)
    return archive("big", make)


# Runs a command and prints its seconds and resident kilobytes. In a small process of its own: the peak that the kernel reports
# for a child includes the memory of the process that it was forked from.
MEASURE = """
import os, subprocess, sys, time
begin = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(time.perf_counter() - begin, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
os._exit(0)
"""


def run_info(path):
    """Seconds and resident megabytes of one `cresset info`."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, "cresset", "info", str(path)], capture_output=True, text=True, check=True)
    took, resident, code = done.stdout.split()
    if int(code):
        raise RuntimeError(f"cresset info ended with {code}")
    return float(took), int(resident) / 1024


def info_rows():
    path = big_archive()
    runs = [run_info(path) for _ in range(9)]
    size = path.stat().st_size / 1e9
    yield row(f"cresset info, {size:.2f} GB: seconds", min(took for took, _ in runs), INFO_SECONDS, "limit")
    yield row(f"cresset info, {size:.2f} GB: MB resident", max(resident for _, resident in runs), INFO_MEGABYTES, "limit")


def load_rows():
    import cresset
    import torch
    path = model_archive("bert")
    best = lambda load, runs: min(timed(load, path) for _ in range(runs))
    ours, peer = best(cresset.export.load, 9), best(torch.export.load, 2)
    yield row("load bert: seconds", ours, LOAD_SECONDS, "limit")
    yield row("load bert", ours, peer, "torch.export.load", goal=20)


def timed(function, *args):
    begin = time.perf_counter()
    function(*args)
    return time.perf_counter() - begin


def interpreter_rows():
    import cresset
    import models
    import torch
    torch.set_num_threads(THREADS)
    cresset.set_num_threads(THREADS)
    ratios = []
    for make in models.ALL:
        name = make.__name__
        model, args = models.make(name)
        module = cresset.export.load(model_archive(name)).module()
        arrays = [cresset.from_dlpack(a) for a in args]
        with torch.inference_mode():
            got, want = torch.from_dlpack(module(*arrays)), model(*args)
            if (got - want).abs().max() > 1e-3 * want.abs().max():
                raise RuntimeError(f"{name}: the results differ by {(got - want).abs().max():.3g}")
            ours, peer = compare(lambda: module(*arrays), lambda: model(*args), rounds=7, round_seconds=0.2)
        ratios.append(peer / ours)
        yield row(f"interpreter, {name}", ours, peer, "eager PyTorch", goal=0)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    yield row(f"interpreter, mean of {len(ratios)} models", 1 / mean, 1, "eager PyTorch", goal=1 / 1.3)


def rows():
    yield from info_rows()
    yield from load_rows()
    yield from interpreter_rows()
