"""N1, S1: every sample of the op table, in place and out, run fake, static and symbolic. Arguments select ops by
substring. "data" are calls that the real run refuses for a value (an index out of range, say), or whose fake run asks
for one: a fake run has none. The ops with such calls are listed."""
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import fakes  # noqa: E402
import runner  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402

PASSING = ("equal", "refused", "data")


def calls(name, row, op, dtype, limit):
    """(form, call)"""
    for c in sweep.chosen(list(samples.calls_for(row, op, dtype)), limit, f"{name}{dtype}"):
        yield name, c
        if row["inplace"]:
            yield row["inplace"], c
        if row["out"]:
            row["out_schema"] = sweep.torch_op(row["out"])._schema
            for _, _, o in sweep.out_calls(row, op, c):
                yield row["out"], o


def run(name, dtypes=samples.DTYPES, limit=None):
    counts, failures = collections.Counter(), []
    row, op = dict(sweep.cresset._C._row(name)), sweep.torch_op(name)
    for dtype in dtypes:
        for form, c in calls(name, row, op, dtype, limit):
            for outcome in fakes.check(form, sweep.our_op(form), c):
                if outcome in PASSING:
                    counts[outcome] += 1
                else:
                    failures.append(outcome)
    return counts, failures


if __name__ == "__main__":
    sys.exit(runner.main("fake", run, sys.argv[1:], passing=PASSING, notes=("data",)))
