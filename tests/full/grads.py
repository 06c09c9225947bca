"""Derivatives of every op of the table against PyTorch's, in float64 and complex128. Arguments select ops by substring."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import grads  # noqa: E402
import runner  # noqa: E402


def run(name):
    return grads.sweep_grads(name).outcomes()


if __name__ == "__main__":
    sys.exit(runner.main("grads", run, sys.argv[1:], passing=("equal",)))
