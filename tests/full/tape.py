"""Gradients of every op of the table by the eager tape, in float64, complex128 and float32. Arguments select ops by
substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import formulas  # noqa: E402
import runner  # noqa: E402
import tape  # noqa: E402

if __name__ == "__main__":
    sys.exit(runner.main("tape", tape.sweep_tape, sys.argv[1:], (*formulas.PASSING, "as in float64"), formulas.NOTES))
