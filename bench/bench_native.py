"""Compiled models against the best that PyTorch has for each, and against ONNX Runtime and OpenVINO: the models of
models.py, 2 threads on all sides, medians of interleaved rounds. The goal is the geometric mean over all models; no
model may fall below 0.8. The rows of ONNX Runtime and OpenVINO have no goal. CRESSET_BENCH_MODELS="bert vit" chooses
models, CRESSET_BENCH_PEERS="eager" peers."""
import math
import os
import pathlib
import statistics
import subprocess
import sys

import peers
from measure import calls_per_round, row, time_round

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "native"))
ROUNDS, ROUND_SECONDS = 9, 0.15


def library(name):
    """The model's library, newer than the tool that made it."""
    path = peers.FOLDER / f"lib{name}.so"
    subprocess.run(["cresset", "compile", "--target", "native", str(peers.model_archive(name)), "-o", str(path)],
                   check=True, stdout=subprocess.DEVNULL)
    return path


def medians(calls):
    """Seconds a call, the sides taking turns."""
    counts = {side: calls_per_round(call, ROUND_SECONDS) for side, call in calls.items()}
    times = {side: [] for side in calls}
    for number in range(ROUNDS):
        order = list(calls) if number % 2 == 0 else list(reversed(calls))
        for side in order:
            times[side].append(time_round(calls[side], counts[side]))
    return {side: statistics.median(t) for side, t in times.items()}


def check(name, got, want):
    """A fast wrong answer is none."""
    import torch
    difference, largest = (torch.as_tensor(got) - want).abs().max().item(), want.abs().max().item()
    if not difference <= 1e-4 * largest:
        raise RuntimeError(f"{name}: the results differ by {difference:.3g}, the largest is {largest:.3g}")


def measure_model(name):
    import models
    import torch
    from library import Model
    torch.set_num_threads(peers.THREADS)
    model, args = models.make(name)
    with torch.inference_mode():
        ours = Model(library(name), threads=peers.THREADS)
        check(name, ours(*(a.numpy() for a in args))[0], model(*args))
        chosen = os.environ.get("CRESSET_BENCH_PEERS", "").split() or list(peers.ALL)
        calls = {"ours": ours.bound(*(a.numpy() for a in args)), **peers.make(chosen, name, model, args)}
        return medians({side: call for side, call in calls.items() if call})


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def chosen_models():
    import models
    return os.environ.get("CRESSET_BENCH_MODELS", "").split() or [make.__name__ for make in models.ALL]


def rows():
    ratios, others = [], {}
    for name in chosen_models():
        times = measure_model(name)
        best = min((side for side in times if side in peers.PYTORCH), key=times.get, default=None)
        yield row(f"native, {name}", times["ours"], times.get(best), best or "PyTorch", goal=0.8)
        if best:
            ratios.append(times[best] / times["ours"])
        for side in times:
            if side == "ours" or side == best:
                continue
            yield row(f"native, {name}", times["ours"], times[side], side, goal=0)
            others.setdefault(side, []).append(times[side] / times["ours"])
    for side, found in others.items():
        if side not in peers.PYTORCH:
            yield row(f"native, mean of {len(found)} models", 1 / mean(found), 1, side, goal=0)
    yield row(f"native, mean of {len(ratios)} models", 1 / mean(ratios) if ratios else None, 1, "best of PyTorch")
