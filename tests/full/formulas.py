"""N1: every derivative equals PyTorch's gradients and finite differences in f64, the second one finite differences of the
first; every decomposition equals its kernel.
Arguments select ops by substring."""
import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import formulas  # noqa: E402
import harness  # noqa: E402
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
                print("    " + failure[:700], flush=True)
    result = ROOT / "results" / "formulas.json"
    result.parent.mkdir(exist_ok=True)
    result.write_text(json.dumps({"ops": len(names), **total, "failures": failed}))
    print(f"{len(names)} ops: " + ", ".join(f"{v} {k}" for k, v in sorted(total.items())))
    print(f"{total['derivative equal'] + total['second derivative equal'] + total['decomposition equal']} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
