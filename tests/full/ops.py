"""N1, the whole sweep: every overload, dtype, sample and layout, in place and out, against PyTorch. Arguments select
ops by substring. The line at the end counts the (op, dtype, sample) cases; "refused" are calls that both refuse
alike."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import harness  # noqa: E402
import runner  # noqa: E402
import sweep  # noqa: E402


def run(name):
    return sweep.sweep(name).outcomes()


if __name__ == "__main__":
    sys.exit(runner.main("ops", run, sys.argv[1:], passing=harness.PASSING,
                         notes=("wider", "own", "dense", "tie", "layout")))
