"""X1, X3, X10: 2,000 random programs with random dynamic sizes (tests/roundtrip/random_exports.py): the exported
program gives what the module gives at sizes inside of its ranges, and refuses others. A number N chooses how many,
--from=N where to begin.

    ./dev test --full export
"""
import collections
import os
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "full", "roundtrip", "interop")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import interop  # noqa: E402
import random_exports  # noqa: E402
import results  # noqa: E402

PROGRAMS, CHUNK = 2000, 25


def chunk(first):
    numbers = range(first, first + CHUNK)
    answer = interop.in_child(lambda: [(number, *random_exports.check(number)) for number in numbers])
    if isinstance(answer, list):
        return answer
    return [(first, "differs", f"the chunk of {CHUNK} programs from {first} on: {answer}", 0)]


def main(argv):
    warnings.simplefilter("ignore")
    begin, count = results.numbered("export", argv, PROGRAMS)
    total, failures, sizes, start = collections.Counter(), [], 0, time.monotonic()
    for first, rows in interop.in_order(chunk, range(begin, begin + count, CHUNK)):
        for number, outcome, text, accepted in rows:
            total[outcome] += 1
            sizes += accepted
            if outcome == "differs":
                failures.append({"program": number, "problem": text})
                print(f"program {number}: {text}", flush=True)
        if (first - begin) % (8 * CHUNK) == 0:
            print(f"[{first - begin + CHUNK}/{count}] {dict(total)}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{count} programs at {sizes} other sizes")
    return results.end("export", total["equal"], total["differs"], sizes=sizes, failures=failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
