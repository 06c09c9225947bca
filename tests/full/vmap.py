"""Every op of the table under func.vmap against PyTorch's, or PyTorch's op on each example, in float64, complex128 and
int64, all tensors mapped or each alone. Arguments select ops by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
sys.path.insert(0, str(ROOT / "tests"))
import derivatives  # noqa: E402

if __name__ == "__main__":
    sys.exit(derivatives.main("vmap", sys.argv[1:]))
