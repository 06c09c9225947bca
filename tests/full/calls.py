"""P4: a million calls of one instance leave nothing behind (tests/unit/test_instance.c with CRESSET_CALLS=1000000).

    ./dev test --full calls
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "tests"))
import results  # noqa: E402

if __name__ == "__main__":
    results.only("calls", sys.argv[1:])
    done = subprocess.run([pathlib.Path(os.environ["CRESSET_BUILD"]) / "tests" / "test_instance"], cwd=ROOT,
                          env={**os.environ, "CRESSET_CALLS": "1000000"})
    ok = done.returncode == 0
    sys.exit(results.end("calls", int(ok), int(not ok)))
