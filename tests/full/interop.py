"""Archives that PyTorch writes, run here: every program of tests/interop/programs.py and every model of bench/models.py at small size, in the training dialect and
after run_decompositions(), by `ExportedProgram.module()` and by `cresset run`, against PyTorch. Arguments select programs by substring.

    ./dev test --full interop
"""
import collections
import json
import logging
import os
import pathlib
import pickle
import sys
import tempfile
import time
import traceback
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "interop"), str(ROOT / "bench")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import checking  # noqa: E402
import programs  # noqa: E402
import torch  # noqa: E402

LIMIT_SECONDS = 300


def model_programs():
    """The benchmark's models; without their packages the sweep fails rather than leaving them out."""
    import models
    return [programs.Program(f"model_{f.__name__}", lambda f=f: models.make(f.__name__, small=True)[0], lambda f=f: models.make(f.__name__, small=True)[1]) for f in models.ALL]


def in_child(function):
    """What function() returns, run in a process of its own: a crash or a hang is a result like any other."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            import signal
            signal.alarm(LIMIT_SECONDS)
            try:
                answer = function()
            except Exception as error:
                answer = f"{type(error).__name__}: {error}".splitlines()[0]
                if os.environ.get("CRESSET_TRACE"):
                    traceback.print_exc()
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data else f"the process ended by signal {status & 127}"


def check(p, folder, report):
    for dialect in p.dialects:
        try:
            archive = checking.make(p, dialect, folder)
        except Exception as error:
            traceback.print_exc()
            report(p.name, dialect, "export", f"PyTorch could not export it: {type(error).__name__}: {error}"[:500])
            continue
        report(p.name, dialect, "module", in_child(lambda: checking.constant_outputs(archive) or checking.by_module(archive)))
        report(p.name, dialect, "tool", in_child(lambda: checking.by_tool(archive, folder)))
        for path in pathlib.Path(folder).glob(f"{p.name}.{dialect}.*"):
            path.unlink()


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    begin, failures, counts = time.monotonic(), [], collections.Counter()
    chosen = [p for p in programs.programs() + model_programs() if not sys.argv[1:] or any(word in p.name for word in sys.argv[1:])]

    def report(name, dialect, way, problem):
        counts["failed" if problem else "passed"] += 1
        counts[way] += not problem
        if problem:
            failures.append({"program": name, "dialect": dialect, "way": way, "problem": problem})
            print(f"{name} ({dialect}, {way}): {problem}", flush=True)

    with tempfile.TemporaryDirectory(prefix="cresset-interop-") as folder:
        for p in chosen:
            check(p, folder, report)
    result = {"passed": counts["passed"], "failed": counts["failed"], "programs": len(chosen), "by_module": counts["module"], "by_tool": counts["tool"],
              "seconds": round(time.monotonic() - begin, 1), "failures": failures}
    out = ROOT / "results" / "interop.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"interop: {len(chosen)} programs, {counts['passed']} passed ({counts['module']} by module(), {counts['tool']} by cresset run), {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
