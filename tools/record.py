"""./dev record [PATH...]: runs the Python tests with CRESSET_RECORD=1, which stores PyTorch's answers in
tests/recorded.

`./dev test --no-torch` replays them. With paths, only those tests are asked. Nothing is written unless every test
passed, and answers that no test asks any more go away with the file's rewriting. The whole folder stays under 5 MB.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 5_000_000


def main():
    folders = sys.argv[1:] or [f"tests/{name}" for name in ("py", "ops", "interop") if (ROOT / "tests" / name).is_dir()]
    if not folders:
        print("dev: there is no Python test yet that asks the oracle (tests/py, tests/ops, tests/interop)",
              file=sys.stderr)
        return 1
    environment = {**os.environ, "CRESSET_RECORD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders]
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if code:
        print("dev: nothing was recorded: make the tests above pass first", file=sys.stderr)
        return code
    size = sum(path.stat().st_size for path in (ROOT / "tests" / "recorded").glob("*.jsonl"))
    print(f"tests/recorded: {size} bytes")
    if size > LIMIT:
        print(f"dev: tests/recorded is over {LIMIT} bytes: ask the oracle for smaller answers", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
