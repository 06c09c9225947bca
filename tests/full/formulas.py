"""N1: every derivative equals PyTorch's gradients and finite differences in f64, the second one finite differences of
the first; every decomposition equals its kernel. tests/ops/formulas.py says how they are compared. Arguments select ops
by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import formulas  # noqa: E402
import runner  # noqa: E402

KINDS = ("derivative", "second derivative", "decomposition")

if __name__ == "__main__":
    passing = [f"{kind} {outcome}" for kind in KINDS for outcome in formulas.PASSING]
    notes = [f"{kind} {outcome}" for kind in KINDS[:2] for outcome in formulas.NOTES]
    sys.exit(runner.main("formulas", formulas.sweep_formulas, sys.argv[1:], passing, notes))
