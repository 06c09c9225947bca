"""Derivatives forwards of every op of the table against PyTorch's forward mode, in float64. Arguments select ops by
substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
sys.path.insert(0, str(ROOT / "tests"))
import derivatives  # noqa: E402

if __name__ == "__main__":
    sys.exit(derivatives.main("jvp", sys.argv[1:]))
