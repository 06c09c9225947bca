"""P4: a million calls of one instance leave nothing behind (tests/unit/test_instance.c with CRESSET_CALLS=1000000).

    ./dev test --full calls
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    done = subprocess.run([pathlib.Path(os.environ["CRESSET_BUILD"]) / "tests" / "test_instance"], cwd=ROOT,
                          env={**os.environ, "CRESSET_CALLS": "1000000"})
    ok = done.returncode == 0
    (ROOT / "results").mkdir(exist_ok=True)
    (ROOT / "results" / "calls.json").write_text(json.dumps({"passed": int(ok), "failed": int(not ok)}))
    sys.exit(not ok)
