"""Gradients of every op of the table by the eager tape, in float64, complex128, float32, complex64, float16 and
bfloat16. tests/ops/tape.py says how near is equal. Arguments select ops by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
sys.path.insert(0, str(ROOT / "tests"))
import derivatives  # noqa: E402

if __name__ == "__main__":
    sys.exit(derivatives.main("tape", sys.argv[1:]))
