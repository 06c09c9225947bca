"""P4: 2,000 random programs (tests/native/random_programs.py): compiled = interpreter = PyTorch. A number N chooses how
many, --from=N where to begin. Finished chunks are kept in results/random_graphs.json as long as the package, the tool
and the generator stay the same; --fresh forgets them.

    ./dev test --full random_graphs
"""
import collections
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("native", "interop", "full")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import cresset  # noqa: E402
import interop  # noqa: E402
import random_programs  # noqa: E402
import torch  # noqa: E402

HERE = ROOT / "tests" / "native"
PROGRAMS, CHUNK = 2000, 20


def fingerprint():
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([*pathlib.Path(cresset.__file__).parent.rglob("*.so*"), pathlib.Path(shutil.which("cresset")),
                        HERE / "random_programs.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def chunk(first):
    with tempfile.TemporaryDirectory(prefix="cresset-random-") as folder:
        answer = interop.in_child(lambda: random_programs.check(range(first, first + CHUNK), folder))
    if isinstance(answer, list):
        return answer
    return [(first, "differs", f"the chunk of {CHUNK} programs from {first} on: {answer}")]


def main(argv):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    begin = next((int(a.partition("=")[2]) for a in argv if a.startswith("--from=")), 0)
    count = next((int(a) for a in argv if a.isdigit()), PROGRAMS)
    out, key, start = ROOT / "results" / "random_graphs.json", fingerprint(), time.monotonic()
    kept = json.loads(out.read_text()) if out.exists() and "--fresh" not in argv else {}
    done = kept.get("chunks", {}) if kept.get("fingerprint") == key else {}
    out.parent.mkdir(exist_ok=True)
    total, failures = collections.Counter(), []

    def checked(first):
        if str(first) not in done or any(outcome == "differs" for _, outcome, _ in done[str(first)]):
            return chunk(first)
        return done[str(first)]

    for first, done[str(first)] in interop.in_order(checked, range(begin, begin + count, CHUNK)):
        for number, outcome, text in done[str(first)]:
            total[outcome] += 1
            if outcome == "differs":
                failures.append(number)
                print(f"program {number}: {text}", flush=True)
        result = {"passed": total["equal"], "failed": total["differs"], "refused by PyTorch": total["refused"],
                  "fingerprint": key, "chunks": done}
        out.with_suffix(".part").write_text(json.dumps(result))
        out.with_suffix(".part").replace(out)
        if first % (10 * CHUNK) == 0:
            print(f"[{first - begin + CHUNK}/{count}] {dict(total)}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{count} programs, {total['refused']} that PyTorch refuses: {total['equal']} passed, {total['differs']} "
          f"failed")
    return 1 if failures or not total["equal"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
