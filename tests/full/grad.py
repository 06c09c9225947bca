"""All sweeps of derivatives (tests/ops/derivatives.py), and what they covered: first derivatives equal to PyTorch's and
to finite differences, second ones, derivatives forwards, many examples at once. Arguments select ops by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
sys.path.insert(0, str(ROOT / "tests"))
import derivatives  # noqa: E402

if __name__ == "__main__":
    sys.exit(derivatives.all_of_them(sys.argv[1:]))
