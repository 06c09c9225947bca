"""The part `abi` of the abuse sweep: functions of abi.h called with bad arguments (tests/unit/test_abi.c), in
batches."""
import queue
import subprocess
import threading

BATCH = 10_000


def work(report, batches):
    while True:
        try:
            unit, first, count = batches.get_nowait()
        except queue.Empty:
            return
        environment = report.environment(CRESSET_CALLS=str(count), CRESSET_SEED=str(first))
        del environment["LD_PRELOAD"]  # the program is linked with them
        try:
            done = subprocess.run([report.folder / "tests" / "test_abi"], env=environment, capture_output=True,
                                  text=True, timeout=600, cwd=report.folder.parents[1])
            failures = ([] if done.returncode == 0 and f"{count} calls" in done.stdout
                        else [f"seed {first}: exit code {done.returncode}\n{done.stderr[-6000:]}"])
        except subprocess.TimeoutExpired:
            failures = [f"seed {first}: took longer than 600 s"]
        report.add(unit, 0 if failures else count, failures)


def part(budget, seed, report):
    batches = queue.Queue()
    for i, at in enumerate(range(0, budget, BATCH)):
        count = min(BATCH, budget - at)
        unit = f"batch {i} {count}"
        if report.wanted(unit) and not report.is_done(unit):
            batches.put((unit, seed * 1_000_003 + i, count))
    workers = [threading.Thread(target=work, args=(report, batches)) for _ in range(min(report.jobs, batches.qsize()))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
