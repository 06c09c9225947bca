"""N1: every derivative equals PyTorch's gradients and finite differences in f64, the second one finite differences of the
first; every decomposition equals its kernel.
Arguments select ops by substring."""
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import formulas  # noqa: E402
import harness  # noqa: E402
import runner  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402


def run(name, limit=None):
    counts, failures = collections.Counter(), []
    row, op = sweep.cresset._C._row(name), sweep.torch_op(name)

    def attempt(kind, f, *args):
        try:
            counts[f"{kind} {f(*args)}"] += 1
        except harness.Different as error:
            failures.append(str(error))
    for dtype in (samples.torch.float64, samples.torch.complex128):
        for c in sweep.chosen(list(samples.calls_for(row, op, dtype)), limit, name):
            attempt("derivative", formulas.check_derivative, name, op, c)
            if dtype == samples.torch.float64:
                attempt("second derivative", formulas.check_second, name, op, c)
    computed = row["has_kernel"] or row["scalar"]
    if computed and (row["decomp"] or row["has_decomp_fn"]):
        for dtype in (samples.torch.float32, samples.torch.int64, samples.torch.bfloat16):
            for c in sweep.chosen(list(samples.calls_for(row, op, dtype)), limit, name):
                attempt("decomposition", formulas.check_decomposition, name, sweep.our_op(name), c)
    return counts, failures


if __name__ == "__main__":
    kinds = ("derivative", "second derivative", "decomposition")
    sys.exit(runner.main("formulas", run, sys.argv[1:], [f"{k} {p}" for k in kinds for p in formulas.PASSING], [f"derivative {n}" for n in formulas.NOTES]))
