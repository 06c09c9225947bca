"""Compiled models on 1, 2, 4, 8, 16 threads, as many as the machine has, against ONNX Runtime on as many: the models of
models.py, all thread counts and both sides taking turns. For each model also: the worst step from fewer threads to more
(at most 5 % slower), and four instances that run at the same time on a quarter of the threads each, against one on all
of them (calls a second).

A model is measured in a process of its own that has neither PyTorch nor Cresset in it (`python bench_threads.py LIBRARY
ONNX INPUTS.npz`, which prints one JSON object): their threads would be in the way. CRESSET_BENCH_MODELS="bert vit"
chooses models, CRESSET_BENCH_THREADS="4 8" counts."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "native")]
from measure import calls_per_round, row, time_round  # noqa: E402

ROUNDS = int(os.environ.get("CRESSET_BENCH_ROUNDS", "9"))
ROUND_SECONDS = float(os.environ.get("CRESSET_BENCH_SECONDS", "0.1"))
SETTLE_SECONDS = 0.005  # in which the threads of the side before go to sleep


def thread_counts():
    given = os.environ.get("CRESSET_BENCH_THREADS", "").split()
    return [int(n) for n in given] or [n for n in (1, 2, 4, 8, 16) if n <= len(os.sched_getaffinity(0))]


def session(path, threads, feed):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    made = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    named = {given.name: x for given, x in zip(made.get_inputs(), feed)}
    return lambda: made.run(None, named)


def check(got, want, what):
    """A fast wrong answer is none."""
    difference, largest = abs(got - want).max(), abs(want).max()
    if not difference <= 1e-4 * largest:
        raise RuntimeError(f"{what}: the results differ by {difference:.3g}, the largest is {largest:.3g}")


def interleaved(calls):
    """Seconds a call, the sides taking turns; each wakes its threads before its round is timed."""
    counts = {side: calls_per_round(call, ROUND_SECONDS) for side, call in calls.items()}
    times = {side: [] for side in calls}
    for number in range(ROUNDS):
        for side in list(calls) if number % 2 == 0 else list(reversed(calls)):
            time.sleep(SETTLE_SECONDS)
            calls[side]()
            times[side].append(time_round(calls[side], counts[side]))
    return {side: statistics.median(t) for side, t in times.items()}


def together(calls, seconds):
    """Calls a second of all `calls`, each on a thread of its own."""
    done, begin = [0] * len(calls), threading.Barrier(len(calls) + 1)
    end = [0.0]

    def work(i):
        begin.wait()
        while time.perf_counter() < end[0]:
            calls[i]()
            done[i] += 1
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    end[0] = start + seconds
    begin.wait()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


def shared_rates(library, feed, threads):
    """Calls a second: four instances with a quarter of the threads each, one with all."""
    from library import Model
    one = [Model(library, threads=threads).bound(*feed)]
    four = [Model(library, threads=max(threads // 4, 1)).bound(*feed) for _ in range(4)]
    rates = {"four": [], "one": []}
    for number in range(ROUNDS + 1):
        for side, calls in (("four", four), ("one", one)):
            time.sleep(SETTLE_SECONDS)
            rate = together(calls, ROUND_SECONDS)
            if number:
                rates[side].append(rate)
    return {side: statistics.median(r) for side, r in rates.items()}


def measure_files(library, onnx, inputs):
    """{"ours": {threads: seconds}, "ONNX Runtime": {...}, "four": calls a second, "one": ..., "same bits": do all
    thread counts agree}"""
    import numpy as np
    from library import Model
    with np.load(inputs) as file:
        feed = [file[f"in{i}"] for i in range(sum(name.startswith("in") for name in file.files))]
    counts, calls, results = thread_counts(), {}, []
    for n in counts:
        ours = Model(library, threads=n)
        results.append(ours(*feed)[0])
        calls["ours", n] = ours.bound(*feed)
    try:
        for n in counts:
            calls["ONNX Runtime", n] = session(onnx, n, feed)
        check(results[0], calls["ONNX Runtime", counts[0]]()[0], library)
    except ImportError as error:
        print(f"no ONNX Runtime: {error}", file=sys.stderr)
    found = interleaved(calls)
    times = {}
    for (side, n), seconds in found.items():
        times.setdefault(side, {})[n] = seconds
    calls.clear()
    same = all((r.view("uint8") == results[0].view("uint8")).all() for r in results)
    rates = shared_rates(library, feed, counts[-1]) if counts[-1] > 1 else {}
    return {**times, **rates, "same bits": bool(same)}


def model_files(name):
    import bench_native
    import models
    import numpy as np
    import peers
    import torch
    model, args = models.make(name)
    inputs = peers.kept(f"{name}.npz", lambda path: np.savez(path, **{f"in{i}": a.numpy() for i, a in enumerate(args)}))
    with torch.inference_mode():
        return bench_native.library(name), peers.onnx_file(name, model, args), inputs


def rows_of(name, found):
    ours, peer = found["ours"], found.get("ONNX Runtime", {})
    counts = sorted(ours, key=int)
    for n in counts:
        yield row(f"threads, {name}, {n}", ours[n], peer.get(n), "ONNX Runtime", goal=1 if int(n) >= 4 else 0)
    if len(counts) > 1:
        worst = min((min(ours[m] for m in counts[:i]) / ours[n], n) for i, n in enumerate(counts) if i)
        yield row(f"threads, {name}, more never slower", 1 / worst[0], 1, f"fewer than {worst[1]}", goal=0.95)
        yield row(f"threads, {name}, 4 instances", found["four"], found["one"], f"one on {counts[-1]}, 1/s",
                  better="higher")
    yield row(f"threads, {name}, same bits on all", int(found["same bits"]), 1, "")


def rows():
    import bench_native
    for name in bench_native.chosen_models():
        try:
            files = model_files(name)
        except ImportError as error:
            print(f"{name}: not measured: {error}", file=sys.stderr)
            continue
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        output = subprocess.run([sys.executable, __file__, *map(str, files)], stdout=subprocess.PIPE, env=environment,
                                check=True).stdout
        yield from rows_of(name, json.loads(output))


if __name__ == "__main__":
    print(json.dumps(measure_files(*sys.argv[1:4])))
