"""Derivatives of every op of the table by parts: each parameter alone, each result's cotangent alone, in float64 and
complex128. Arguments select ops by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import formulas  # noqa: E402
import grads  # noqa: E402
import runner  # noqa: E402

if __name__ == "__main__":
    sys.exit(runner.main("grads", grads.sweep_grads, sys.argv[1:], formulas.PASSING, formulas.NOTES))
