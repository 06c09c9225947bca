"""P4: 2,000 random programs (tests/native/random_programs.py): compiled = interpreter = PyTorch. A number N chooses how
many, --from=N where to begin. Finished chunks are kept in results/random_graphs.json as long as the package, the tool
and the generator stay the same; --fresh forgets them.

    ./dev test --full random_graphs
"""
import collections
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "native", "interop", "full")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import cresset  # noqa: E402
import interop  # noqa: E402
import random_programs  # noqa: E402
import results  # noqa: E402
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
    begin, count = results.numbered("random_graphs", argv, PROGRAMS)
    kept, key, start = results.kept("random_graphs", argv), fingerprint(), time.monotonic()
    done = kept.get("chunks", {}) if kept.get("fingerprint") == key else {}
    total, rest = collections.Counter(), {}

    def checked(first):
        if str(first) not in done or any(outcome == "differs" for _, outcome, _ in done[str(first)]):
            return chunk(first)
        return done[str(first)]

    for first, done[str(first)] in interop.in_order(checked, range(begin, begin + count, CHUNK)):
        for number, outcome, text in done[str(first)]:
            total[outcome] += 1
            if outcome == "differs":
                print(f"program {number}: {text}", flush=True)
        rest = {"refused by PyTorch": total["refused"], "fingerprint": key, "chunks": done}
        results.write("random_graphs", total["equal"], total["differs"], **rest)
        if first % (10 * CHUNK) == 0:
            print(f"[{first - begin + CHUNK}/{count}] {dict(total)}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{count} programs, {total['refused']} that PyTorch refuses")
    return results.end("random_graphs", total["equal"], total["differs"], **rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
