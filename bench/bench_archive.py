"""Archives: `cresset info` on 1 GB, loading and saving 1 GB, loading BERT, and the interpreter against eager PyTorch on
the models of models.py, 2 threads each.

The archives are made by PyTorch once and kept in build/bench. The single models' rows have no goal of their own: the
goal is the geometric mean. `python bench/profile_archive.py NAME` shows which ops the time goes to.
"""
import math
import subprocess
import sys
import time

from measure import compare, row
from peers import THREADS, archive, model_archive

INFO_SECONDS, INFO_MEGABYTES, LOAD_SECONDS, SAVE_MEGABYTES = 0.050, 40, 0.060, 64


def big_archive():
    import torch
    width = 16384
    def make():
        layer = torch.nn.Linear(width, width, bias=False, device="meta").to_empty(device="cpu")
        return layer, (torch.zeros(1, width),)
    return archive("big", make)


# Runs a command and prints its seconds and resident kilobytes. In a small process of its own: the peak that the kernel
# reports for a child includes the memory of the process that it was forked from.
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
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, "cresset", "info", str(path)], capture_output=True,
                          text=True, check=True)
    took, resident, code = done.stdout.split()
    if int(code):
        raise RuntimeError(f"cresset info ended with {code}")
    return float(took), int(resident) / 1024


def info_rows():
    path = big_archive()
    runs = [run_info(path) for _ in range(9)]
    size = path.stat().st_size / 1e9
    yield row(f"cresset info, {size:.2f} GB: seconds", min(took for took, _ in runs), INFO_SECONDS, "limit")
    yield row(f"cresset info, {size:.2f} GB: MB resident", max(resident for _, resident in runs), INFO_MEGABYTES,
              "limit")


def load_rows():
    import cresset
    import torch
    path = model_archive("bert")
    best = lambda load, runs: min(timed(load, path) for _ in range(runs))
    ours, peer = best(cresset.export.load, 9), best(torch.export.load, 2)
    yield row("load bert: seconds", ours, LOAD_SECONDS, "limit")
    yield row("load bert", ours, peer, "torch.export.load", goal=20)


# Loads an archive and saves it, or saves a program whose weights are in memory; prints the seconds and by how many
# megabytes the process grew at most. What is in memory already when the writing begins is not counted.
SAVE = """
import pathlib, sys, time
import cresset, cresset.export
what, source, target, small = sys.argv[1:]
def megabytes(key):
    return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1]) / 1024
class Big(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = cresset.nn.Parameter(cresset.ones(16384, 16384))
    def forward(self, x):
        return x + self.weight[0, 0]
cresset.export.save(cresset.export.load(small), target)  # once, for what is made only once
if what == "memory":
    ep = cresset.export.export(Big(), (cresset.zeros(2),))
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
before, begin = megabytes("VmHWM"), time.perf_counter()
if what == "archive":
    ep = cresset.export.load(source)
cresset.export.save(ep, target)
again = cresset.export.load(target)
print(time.perf_counter() - begin, megabytes("VmHWM") - before)
"""


def copy_file(source, target):
    """Seconds to copy a file and wait until it is on the disk."""
    begin = time.perf_counter()
    subprocess.run(["cp", "--reflink=never", str(source), str(target)], check=True)
    subprocess.run(["sync", str(target)], check=True)
    return time.perf_counter() - begin


def run_save(what, source, target, small):
    done = subprocess.run([sys.executable, "-c", SAVE, what, str(source), str(target), str(small)],
                          capture_output=True, text=True, check=True)
    took, grown = done.stdout.split()
    return float(took), float(grown)


def save_rows():
    """Saving and loading again against the disk's own rate, in alternation; the best of each."""
    source, small = big_archive(), model_archive("lstm")
    target = source.with_name("part-saved.pt2")
    size = source.stat().st_size / 1e9
    runs = {"archive": [], "memory": [], "copy": []}
    try:
        for _ in range(4):
            runs["copy"].append((copy_file(source, target), 0))
            target.unlink()
            for what in ("archive", "memory"):
                runs[what].append(run_save(what, source, target, small))
                target.unlink()
    finally:
        target.unlink(missing_ok=True)
    best = {what: min(took for took, _ in found) for what, found in runs.items()}
    yield row(f"save and load {size:.2f} GB that an archive holds", best["archive"], best["copy"], "cp and sync",
              goal=0.7)
    yield row(f"save and load {size:.2f} GB that memory holds", best["memory"], best["copy"], "cp and sync", goal=0.7)
    for what, name in (("archive", "an archive"), ("memory", "memory")):
        yield row(f"save and load {size:.2f} GB that {name} holds: MB more", max(max(grown for _, grown in runs[what]),
                0.1), SAVE_MEGABYTES, "limit")


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
    yield from save_rows()
    yield from load_rows()
    yield from interpreter_rows()
