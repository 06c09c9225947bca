"""What the sweeps over the op table (tests/full) share: choosing ops, going on where an earlier run stopped, printing
what differs and writing results/NAME.json.

    def run(op):                            # counts by kind of outcome, and the texts of failures
        return Counter, [str]
    sys.exit(runner.main("fake", run, sys.argv[1:], passing=("equal", "refused")))

Arguments select ops by substring; --fresh forgets what was done. Finished ops are kept only as long as nothing changed
that could change an outcome: the built package, tests/ops and the sweep itself. Ops with failures run again.
CRESSET_JOBS=N runs N ops at a time.
"""
import collections
import concurrent.futures
import hashlib
import multiprocessing
import os
import pathlib
import sys
import time

import cresset
import sweep
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import results  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def fingerprint(script):
    """Of all that an outcome depends on."""
    digest = hashlib.sha256(torch.__version__.encode())
    package = pathlib.Path(cresset.__file__).parent
    for path in sorted([*package.rglob("*.so*"), *package.rglob("*.py"), *(ROOT / "tests" / "ops").glob("*.py"),
                        script]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def timed(run, name):
    start = time.monotonic()
    counts, failures = run(name)
    return {"counts": dict(counts), "failed": len(failures), "seconds": round(time.monotonic() - start, 1)}, failures


def outcomes(run, names, jobs):
    """(op, record, failures), in the order of the table."""
    if jobs <= 1:
        for name in names:
            yield name, *timed(run, name)
        return
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, context) as pool:
        for name, outcome in zip(names, pool.map(timed, [run] * len(names), names)):
            yield name, *outcome


def main(name, run, argv, passing, notes=()):
    """`passing`: kinds of outcome that count as passed; all others are printed, but prove nothing. `notes`: kinds whose
    ops are listed by name at the end."""
    torch.set_num_threads(1)  # samples are small: a second thread only waits
    key, names = fingerprint(ROOT / "tests" / "full" / f"{name}.py"), results.chosen(name, sweep.op_names(), argv)
    kept, wanted = results.kept(name, argv), any(not a.startswith("-") for a in argv)
    done = kept.get("by_op", {}) if kept.get("fingerprint") == key else {}
    left = [n for n in names if wanted or n not in done or done[n]["failed"]]

    def write():
        total = collections.Counter()
        for n in names:
            total.update(done.get(n, {}).get("counts", {}))
        failed = sum(done[n]["failed"] for n in names if n in done)
        passed = sum(total[kind] for kind in passing)
        results.write(name, passed, failed, ops=len(names), outcomes=total, fingerprint=key, by_op=done)
        return total, passed, failed

    written = time.monotonic()
    for op, record, failures in outcomes(run, left, int(os.environ.get("CRESSET_JOBS") or 1)):
        done[op] = record
        if failures:
            print(f"[{names.index(op) + 1}/{len(names)}] {op}: {len(failures)} differ", flush=True)
            for failure in failures[:2 if not wanted else 10]:
                print("    " + failure[:1500].replace("\n", "\n    "), flush=True)
        if time.monotonic() - written > 5:
            write()
            written = time.monotonic()
    total, passed, failed = write()
    for kind in notes:
        found = {n: done[n]["counts"][kind] for n in names if done[n]["counts"].get(kind)}
        if found:
            print(f"{kind}: " + ", ".join(f"{n} ({count})" for n, count in found.items()))
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
    print(f"{len(names)} ops, {len(names) - len(left)} of them kept from before: {counted}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
