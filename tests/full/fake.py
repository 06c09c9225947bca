"""N1, S1: every sample of the op table run fake, static and symbolic. Arguments select ops by substring."""
import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import fakes  # noqa: E402
import harness  # noqa: E402
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


def main(argv):
    total, failed = collections.Counter(), 0
    names = [n for n in sweep.op_names() if not argv or any(w in n for w in argv)]
    for i, name in enumerate(names):
        counts, failures = run(name)
        total.update(counts)
        failed += len(failures)
        if failures:
            print(f"[{i + 1}/{len(names)}] {name}: {len(failures)} differ", flush=True)
            for failure in failures[:2 if not argv else 10]:
                print("    " + failure[:600], flush=True)
    result = ROOT / "results" / "fake.json"
    result.parent.mkdir(exist_ok=True)
    result.write_text(json.dumps({"ops": len(names), "equal": total["equal"], "refused": total["refused"], "depends_on_data": total["data"], "failures": failed}))
    print(f"{len(names)} ops, {sum(total.values()) + failed} fake runs: {total['equal']} equal to the real run, {total['refused']} refused by both, {total['data']} depend on data")
    print(f"{sum(total.values())} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
