"""100,000 steps of a small training loop (tests/training_loop.py) at constant resident size: the process may have grown
by less than 1 MiB after the first 2,000. A number N chooses how many steps.

    ./dev test --full train
"""
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import cresset  # noqa: E402
import results  # noqa: E402
import training_loop  # noqa: E402

STEPS, WARMUP, LIMIT = 100_000, 2_000, 1 << 20


def main(argv):
    results.only("train", argv, str.isdigit)
    steps, start = next((int(a) for a in argv), STEPS), time.monotonic()
    first, last, grown = training_loop.run(cresset, steps, min(WARMUP, steps // 2))
    seconds = time.monotonic() - start
    print(f"{steps} steps in {seconds:.0f} s, loss {first:.4f} -> {last:.4f}, {grown} bytes more", flush=True)
    good = grown < LIMIT and last < first
    return results.end("train", int(good), int(not good), steps=steps, grown=grown, first=first, last=last,
                       seconds=round(seconds, 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
