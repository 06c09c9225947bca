"""Archives that PyTorch writes, run here: every program of tests/interop/programs.py and every model of bench/models.py
at small size, in the training dialect and after run_decompositions(), by `ExportedProgram.module()` and by `cresset
run`, against PyTorch. Arguments select programs by substring.

    ./dev test --full interop

Nearly all of the time is PyTorch's: archives and its results are kept in build/interop as long as the programs and
PyTorch's version stay the same, so that a second run, or one that goes on where another stopped, takes seconds; --fresh
makes them again.
"""
import collections
import hashlib
import logging
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import time
import traceback
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "interop"), str(ROOT / "tests"), str(ROOT / "bench")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import checking  # noqa: E402
import programs  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402
from children import LIMIT_SECONDS, in_child, in_order  # noqa: E402

def model_programs():
    """The benchmark's models; without their packages the sweep fails rather than leaving them out."""
    import models
    return [programs.Program(f"model_{f.__name__}", lambda f=f: models.make(f.__name__, small=True)[0],
                             lambda f=f: models.make(f.__name__, small=True)[1]) for f in models.ALL]


def kept_folder(fresh):
    """Where archives of these programs and this PyTorch are kept; those of others go away."""
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([*(ROOT / "tests" / "interop").glob("programs*.py"), ROOT / "tests" / "interop" / "checking.py",
                        ROOT / "bench" / "models.py"]):
        digest.update(path.read_bytes())
    folder = ROOT / "build" / "interop" / digest.hexdigest()[:16]
    for other in folder.parent.glob("*"):
        if fresh or other != folder:
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def archives(p, folder, report):
    """The program's archives, one a dialect."""
    exported = None
    for dialect in p.dialects:
        kept = folder / f"{p.name}.{dialect}.pickle"
        if not kept.is_file():
            try:
                exported = exported or programs.export(p)
                archive = checking.make(p, dialect, folder, exported)
            except Exception as error:
                traceback.print_exc()
                report(p.name, dialect, "export", f"PyTorch could not export it: {type(error).__name__}: {error}"[:500])
                continue
            kept.with_suffix(".part").write_bytes(pickle.dumps(archive))
            kept.with_suffix(".part").replace(kept)
        archive = pickle.loads(kept.read_bytes())
        archive.path = folder / archive.path.name
        yield archive


def check(p, folder, scratch, report):
    for archive in archives(p, folder, report):
        report(p.name, archive.dialect, "module()",
               in_child(lambda: checking.constant_outputs(archive) or checking.by_module(archive)))
        report(p.name, archive.dialect, "cresset run", in_child(lambda: checking.by_tool(archive, scratch)))
        for path in pathlib.Path(scratch).glob("*"):
            path.unlink()


def reports(check, p, folder):
    """What check() reports of one program: (dialect, way, problem or None)."""
    found = []
    with tempfile.TemporaryDirectory(prefix="cresset-sweep-") as scratch:
        check(p, folder, scratch, lambda _program, dialect, way, problem: found.append((dialect, way, problem)))
    return found


def sweep(name, check):
    """check(program, folder of archives, scratch folder, report) for every chosen program; writes results/NAME.json and
    gives the exit code. CRESSET_JOBS=N checks N programs at a time."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    begin, failures, ways = time.monotonic(), [], collections.Counter()
    chosen = results.chosen(name, programs.programs() + model_programs(), sys.argv[1:], lambda p: p.name)
    folder = kept_folder("--fresh" in sys.argv)
    for p, found in in_order(lambda p: in_child(lambda: reports(check, p, folder), 20 * LIMIT_SECONDS), chosen):
        for dialect, way, problem in [("all", "all", found)] if isinstance(found, str) else found:
            ways[way] += not problem
            if problem:
                failures.append({"program": p.name, "dialect": dialect, "way": way, "problem": problem})
                print(f"{p.name} ({dialect}, {way}): {problem}", flush=True)
    passed = sum(ways.values())
    print(f"{len(chosen)} programs: {', '.join(f'{n} passed by {way}' for way, n in ways.items())}")
    return results.end(name, passed, len(failures), programs=len(chosen), ways=ways,
                       seconds=round(time.monotonic() - begin, 1), failures=failures)


if __name__ == "__main__":
    sys.exit(sweep("interop", check))
