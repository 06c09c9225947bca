"""Gradients of every op of the table by the eager tape, in float64, complex128 and float32. Arguments select ops by
substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
sys.path.insert(0, str(ROOT / "tests"))
import derivatives  # noqa: E402

if __name__ == "__main__":
    sys.exit(derivatives.main("tape", sys.argv[1:]))
