"""Nothing that a stranger sends may reach memory that is not its own: bad arguments, under ASan and UBSan
(build/debug).

    ./dev test --full abuse [-k WORD] [--jobs=N] [--part=NAME] [--cases=N] [--seed=N] [--fresh]

-k: only subjects (ops, archives) with WORD in their name. --jobs: processes at a time (2). --part: only this part, and
--cases: how many cases of it (by default what the table PARTS says). --build=FOLDER: a debug build that is there,
instead of `./dev build --preset debug`; then neither torch nor ./dev are needed, only Python, numpy and that folder.

A part is a function in a module of tests/abuse:

    def part(budget, seed, report):     # budget: how many cases; seed: the same seed tries the same cases

It tries its cases in child processes (report.environment() is theirs: the sanitized build and the sanitizers' options)
and tells `report` about each finished unit, of which one is an op, a seed archive or the like:

    if report.wanted(subject) and not report.is_done(unit):
        ...
        report.add(unit, passed, failures)      # failures: texts: what was called, with which arguments, what came of
        it

A case fails when a child crashes, a sanitizer reports, or it runs for more than report.SECONDS; a refusal is what most
calls should get and passes. Finished units without failures are kept in results/abuse.json as long as neither the build
nor tests/abuse changes, so a sweep that was stopped goes on; failures are tried again.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "abuse"))
import abi  # noqa: E402
import archives  # noqa: E402
import calls  # noqa: E402
from report import Report  # noqa: E402

# name: (function, cases of the whole sweep)
PARTS = {
    "calls": (calls.part, 1_000_000),
    "archives": (archives.part, 100_000),
    "abi": (abi.part, 200_000),
}


def main(argv):
    options = dict((a.lstrip("-").split("=", 1) + [""])[:2] for a in argv if a.startswith("--"))
    words = [a for a in argv if not a.startswith("-")]
    unknown = set(options) - {"jobs", "part", "cases", "seed", "fresh", "build"}
    if unknown or options.get("part", "calls") not in PARTS:
        print(f"abuse: --jobs=N, --part={'|'.join(PARTS)}, --cases=N, --seed=N, --build=FOLDER or --fresh, not "
              f"{' '.join(argv)}", file=sys.stderr)
        return 2
    seed = int(options.get("seed", 0))
    report = Report(ROOT / "results" / "abuse.json", words, int(options.get("jobs", 2)), options.get("build"),
                    "fresh" in options, seed)
    for name, (part, cases) in PARTS.items():
        if options.get("part", name) == name:
            report.begin(name)
            part(int(options.get("cases", cases)), seed, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
