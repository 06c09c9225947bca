"""P4: every program of tests/interop and every model of bench/models.py at small size, both dialects, compiled to a library and called through abi.h alone,
against PyTorch, on every instruction set that this machine has. Arguments select programs by substring.

    ./dev test --full native
"""
import collections
import json
import logging
import os
import pathlib
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "native"), str(ROOT / "tests" / "interop"), str(ROOT / "tests" / "full"), str(ROOT / "bench")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import checking  # noqa: E402
import interop  # noqa: E402
import programs  # noqa: E402
import programs_native  # noqa: E402
import torch  # noqa: E402


def isas():
    flags = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    return ["portable"] + ["avx2"] * (" avx2 " in flags) + ["avx512"] * (" avx512vl " in flags)


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    begin, failures, counts = time.monotonic(), [], collections.Counter()
    chosen = [p for p in programs.programs() + interop.model_programs() if not sys.argv[1:] or any(word in p.name for word in sys.argv[1:])]
    for p in chosen:
        for dialect in p.dialects:
            with tempfile.TemporaryDirectory(prefix="cresset-native-") as folder:
                archive = checking.make(p, dialect, folder)
                for isa in isas():
                    def attempt(isa=isa):
                        os.environ["CRESSET_ISA"] = isa  # read once, when the library is loaded: in the child
                        return programs_native.difference(archive, folder)
                    problem = interop.in_child(attempt)
                    counts["failed" if problem else "passed"] += 1
                    if problem:
                        failures.append({"program": p.name, "dialect": dialect, "isa": isa, "problem": problem})
                        print(f"{p.name} ({dialect}, {isa}): {problem}", flush=True)
    result = {"passed": counts["passed"], "failed": counts["failed"], "programs": len(chosen), "isas": isas(), "seconds": round(time.monotonic() - begin, 1), "failures": failures}
    out = ROOT / "results" / "native.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"native: {len(chosen)} programs on {', '.join(isas())}: {counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
