"""A2 to A5: 3,000 random differentiable programs (tests/ops/aot_programs.py): writes, views, shared inputs, mixes of
requires_grad, dynamic sizes; tape = nop = native = eager PyTorch in results, gradients, inputs afterwards, identity,
aliasing, versions. Of 3,900 seeds that are tried PyTorch runs as many; the others it refuses where compiled code need
not. A number N chooses how many seeds, --from=N where to begin, --door=NAME one door. Finished chunks are kept in
results/aot.json as long as the package and the generator stay the same; --fresh forgets them. CRESSET_JOBS=N checks N
chunks at a time; what one run compiled, the next finds in the cache of compiled code.

    ./dev test --full aot
    ./dev test --full aot --door=native --from=1000 500
"""
import collections
import hashlib
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "ops", "interop", "full")]
import aot_programs  # noqa: E402
import cresset  # noqa: E402
import interop  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

PROGRAMS, CHUNK = 3900, 25


def fingerprint():
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([*pathlib.Path(cresset.__file__).parent.rglob("*.so*"), pathlib.Path(aot_programs.__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check_all(first, doors):
    """(how many say something, [(seed, door, what differs)])."""
    warnings.simplefilter("ignore")
    told, found = 0, []
    for seed in range(first, first + CHUNK):
        answer = aot_programs.check(torch, cresset, seed, doors)
        told += answer is not None
        found += [(seed, *what) for what in answer or []]
    return [told, found]


def main(argv):
    torch.set_num_threads(1)
    doors = [a.partition("=")[2] for a in argv if a.startswith("--door=")] or list(aot_programs.DOORS)
    begin, count = results.numbered("aot", [a for a in argv if not a.startswith("--door=")], PROGRAMS)
    kept, key, start = results.kept("aot", argv), f"{fingerprint()} {doors}", time.monotonic()
    done = kept.get("chunks", {}) if kept.get("fingerprint") == key else {}
    total, rest = collections.Counter(), {}

    def checked(first):
        if str(first) in done and not done[str(first)][1]:
            return done[str(first)]
        answer = interop.in_child(lambda: check_all(first, doors))
        return answer if isinstance(answer, list) else [1, [(first, "all", f"{CHUNK} programs: {answer}")]]

    for first, done[str(first)] in interop.in_order(checked, range(begin, begin + count, CHUNK)):
        told, found = done[str(first)]
        total["failed"] += len({seed for seed, *_ in found})
        total["passed"] += max(0, told - len({seed for seed, *_ in found}))
        for seed, door, text in found:
            print(f"{door}: {text}", flush=True)
        rest = {"programs": count, "doors": doors, "fingerprint": key, "chunks": done}
        results.write("aot", total["passed"], total["failed"], **rest)
    said = total["passed"] + total["failed"]
    print(f"{count} programs by {', '.join(doors)}, {said} that PyTorch runs, {time.monotonic() - start:.0f} s")
    return results.end("aot", total["passed"], total["failed"], **rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
