"""Derivatives of every op of the table against PyTorch's, in float64 and complex128. Arguments select ops by substring."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import grads  # noqa: E402
import sweep  # noqa: E402

RESULT = ROOT / "results" / "grads.json"


def main(argv):
    done = {}
    for name in [n for n in sweep.op_names() if not argv or any(w in n for w in argv)]:
        counts = grads.sweep_grads(name)
        done[name] = {"cases": counts.cases, "equal": counts.equal, "failures": len(counts.failures)}
        if counts.failures:
            print(f"{name}: {counts.cases} cases, {len(counts.failures)} differ", flush=True)
        for failure in counts.failures[:3]:
            print("    " + failure.replace("\n", "\n    ")[:1000], flush=True)
    total = {key: sum(d[key] for d in done.values()) for key in ("cases", "equal", "failures")}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"passed": total["equal"], "failed": total["failures"], "ops": done}, indent=0))
    print(f"{len(done)} ops, {total['cases']} calls: {total['equal']} derivatives equal, {total['failures']} differ")
    return 1 if total["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
