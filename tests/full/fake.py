"""N1, S1: every sample of the op table run fake, static and symbolic. Arguments select ops by substring."""
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import fakes  # noqa: E402
import harness  # noqa: E402
import runner  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402

DTYPES = [samples.torch.float32, samples.torch.int64, samples.torch.bool, samples.torch.bfloat16, samples.torch.complex64]


def run(name, dtypes=DTYPES, limit=None):
    counts, failures = collections.Counter(), []
    row, op = sweep.cresset._C._row(name), sweep.torch_op(name)
    forms = [name] + ([row["inplace"]] if row["inplace"] else [])
    for dtype in dtypes:
        for c in sweep.chosen(list(samples.calls_for(row, op, dtype)), limit, f"{name}{dtype}"):
            for form in forms:
                for symbolic in (False, True):
                    try:
                        counts[fakes.check(form, sweep.our_op(form), c, symbolic)] += 1
                    except harness.Different as error:
                        failures.append(str(error))
    return counts, failures


if __name__ == "__main__":
    sys.exit(runner.main("fake", run, sys.argv[1:], passing=("equal", "refused", "data")))
