"""N1, the whole sweep: every overload, dtype, sample and layout, in place and out, against PyTorch. Resumable: finished ops
are kept in results/ops.json; delete it (or pass --fresh) to start over. Arguments select ops by substring."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import sweep  # noqa: E402

RESULT = ROOT / "results" / "ops.json"


def main(argv):
    fresh = "--fresh" in argv
    wanted = [a for a in argv if not a.startswith("-")]
    done = {} if fresh or not RESULT.exists() else json.loads(RESULT.read_text())["ops"]
    RESULT.parent.mkdir(exist_ok=True)
    names = [n for n in sweep.op_names() if not wanted or any(w in n for w in wanted)]
    for i, name in enumerate(names):
        if name in done and not done[name]["failures"] and not wanted:
            continue
        counts = sweep.sweep(name)
        done[name] = {"cases": counts.cases, "equal": counts.equal, "refused": counts.refused, "failures": len(counts.failures)}
        print(f"[{i + 1}/{len(names)}] {name}: {counts.cases} cases, {len(counts.failures)} differ", flush=True)
        for failure in counts.failures[:2 if not wanted else 10]:
            print("    " + failure.replace("\n", "\n    ")[:1500], flush=True)
        RESULT.write_text(json.dumps({"ops": done}, indent=0))
    total = {key: sum(done[n][key] for n in names) for key in ("cases", "equal", "refused", "failures")}
    RESULT.write_text(json.dumps({"total": total, "ops": done}, indent=0))
    print(f"{len(names)} ops, {total['cases']} (op, dtype, sample) cases: {total['equal']} equal, {total['refused']} refused by both")
    print(f"{total['equal'] + total['refused']} passed, {total['failures']} failed")
    return 1 if total["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
