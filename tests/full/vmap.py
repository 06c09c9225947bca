"""Every op of the table under func.vmap against PyTorch's, or PyTorch's op on each example, in float64, complex128 and
int64, all tensors mapped or each alone. Arguments select ops by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import runner  # noqa: E402
import vmaps  # noqa: E402

if __name__ == "__main__":
    sys.exit(runner.main("vmap", vmaps.sweep_vmap, sys.argv[1:], vmaps.PASSING, vmaps.NOTES))
