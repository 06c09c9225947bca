"""5,000 random programs of PyTorch's (tests/pytorch/random_torch_programs.py): plain = cresset.compile (every eighth
compiled to native code) in results, gradients, inputs and buffers afterwards, version counters, identity, shared
memory, random numbers and exceptions; three calls each. A number N chooses how many, --from=N where to begin. Finished
chunks are kept in results/torch.json as long as the package and the generator stay the same; --fresh forgets them.
CRESSET_JOBS=N checks N chunks at a time.

    ./dev test --full torch
    ./dev test --full torch --from=1000 500
"""
import collections
import hashlib
import pathlib
import sys
import time
import traceback
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "pytorch")]
import children  # noqa: E402
import cresset  # noqa: E402
import random_torch_programs as programs  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

PROGRAMS, CHUNK = 5000, 25


def fingerprint():
    digest = hashlib.sha256(torch.__version__.encode())
    package = [p for p in pathlib.Path(cresset.__file__).parent.rglob("*") if p.suffix in (".so", ".py")]
    for path in sorted([*package, pathlib.Path(programs.__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check_one(seed):
    try:
        return programs.check(seed)
    except Exception:
        return "failed", f"program {seed}: {traceback.format_exc()[-1500:]}"


def check_all(first):
    warnings.simplefilter("ignore")
    return [(seed, *check_one(seed)) for seed in range(first, first + CHUNK)]


def main(argv):
    torch.set_num_threads(1)
    begin, count = results.numbered("torch", argv, PROGRAMS)
    kept, key, start = results.kept("torch", argv), fingerprint(), time.monotonic()
    done = kept.get("chunks", {}) if kept.get("fingerprint") == key else {}
    total, kinds, rest = collections.Counter(), collections.Counter(), {}

    def checked(first):
        if str(first) in done and all(told is None for *_, told in done[str(first)]):
            return done[str(first)]
        answer = children.in_child(lambda: check_all(first))
        return answer if isinstance(answer, list) else [(first, "failed", f"programs {first} and on: {answer}")]

    for first, done[str(first)] in children.in_order(checked, range(begin, begin + count, CHUNK)):
        for _seed, kind, told in done[str(first)]:
            kinds[kind] += 1
            total["failed" if told else "passed"] += 1
            if told:
                print(told, flush=True)
        rest = {"programs": count, "captured": kinds, "fingerprint": key, "chunks": done}
        results.write("torch", total["passed"], total["failed"], **rest)
    print(f"{count} programs, {dict(kinds)}, {time.monotonic() - start:.0f} s")
    return results.end("torch", total["passed"], total["failed"], **rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
