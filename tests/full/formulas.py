"""N1: every derivative equals PyTorch's gradients and finite differences in f64, the second one finite differences of
the first; every decomposition equals its kernel. tests/ops/formulas.py says how they are compared. Arguments select ops
by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
sys.path.insert(0, str(ROOT / "tests"))
import derivatives  # noqa: E402

if __name__ == "__main__":
    sys.exit(derivatives.main("formulas", sys.argv[1:]))
