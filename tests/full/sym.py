"""S1, the whole sweep: a million (expression, assignment) pairs of symbolic integers, floats and bools against plain
evaluation (tests/unit/test_sym_brute.c). Writes results/sym.json. CRESSET_SEED chooses another million."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CRESSET_BUILD", ROOT / "build" / "release"))
RESULT = ROOT / "results" / "sym.json"


def main():
    program = BUILD / "tests" / "test_sym_brute"
    if not program.exists():
        sys.exit(f"{program} is not built: run ./dev build first")
    run = subprocess.run([program], env=os.environ | {"CRESSET_FULL": "1"}, capture_output=True, text=True)
    print(run.stdout, run.stderr, sep="", end="", flush=True)
    counts = {}
    for line in run.stdout.splitlines():
        name, _, value = line.rpartition(" ")
        if value.isdigit() and not name.endswith(","):
            counts[name] = int(value)
    wrong = counts.get("wrong", -1)
    failed = run.returncode != 0 or wrong != 0 or counts.get("pairs", 0) < 1_000_000
    summary = {
        "pairs": counts.get("pairs", 0), "wrong": wrong, "unknown": counts.get("unknown", 0), "decided": counts.get("decided", 0),
        "undefined": counts.get("undefined", 0), "opaque": counts.get("opaque expressions", 0), "facts": counts.get("facts", 0),
        "passed": int(not failed), "failed": int(failed),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
