"""S1, S5, the whole sweep: a million (expression, assignment) pairs of symbolic integers, floats and bools against
plain evaluation (tests/unit/test_sym_brute.c); a million implications from facts (residues, equalities, bounds,
quotients, divisors) against every assignment of a box, and a hundred thousand verdicts of the solver with their
suggested fixes (tests/unit/test_shape_brute.c). Writes results/sym.json. CRESSET_SEED chooses another million."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import results  # noqa: E402

BUILD = pathlib.Path(os.environ.get("CRESSET_BUILD", ROOT / "build" / "release"))


def run(name):
    """The counts that the program prints, and whether it failed."""
    program = BUILD / "tests" / name
    if not program.exists():
        sys.exit(f"{program} is not built: run ./dev build first")
    done = subprocess.run([program], env=os.environ | {"CRESSET_FULL": "1"}, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="", end="", flush=True)
    counts = {}
    for line in done.stdout.splitlines():
        key, _, value = line.rpartition(" ")
        if value.isdigit() and not key.endswith(","):
            counts[key] = int(value)
    return counts, done.returncode != 0


def main():
    results.only("sym", sys.argv[1:])
    counts, broken = run("test_sym_brute")
    answers, also_broken = run("test_shape_brute")
    wrong = counts.get("wrong", -1)
    failed = broken or also_broken or wrong != 0 or answers.get("wrong answers", -1) != 0
    failed = failed or counts.get("pairs", 0) < 1_000_000 or answers.get("questions", 0) < 1_000_000
    summary = {
        "pairs": counts.get("pairs", 0), "wrong": wrong, "unknown": counts.get("unknown", 0),
        "decided": counts.get("decided", 0),
        "undefined": counts.get("undefined", 0), "opaque": counts.get("opaque expressions", 0),
        "facts": counts.get("facts", 0),
        "implications": answers.get("questions", 0), "implications_decided": answers.get("decided questions", 0),
        "implications_wrong": answers.get("wrong answers", -1), "verdicts": answers.get("verdicts accepted",
                0) + answers.get("verdicts with a fix", 0),
    }
    print(json.dumps(summary))
    return results.end("sym", int(not failed), int(failed), **summary)


if __name__ == "__main__":
    sys.exit(main())
