"""Functions in which captures end by themselves (tests/behaviour/natural_breaks.py: what ends one x where it stands)
compiled and plain, as in behaviour.py: three worlds of other values and sizes, every guard missing once, every graph
failing. How many graphs, ops and breaks two calls need is compared with tests/behaviour/recorded_breaks.txt, a column
for each version of CPython: a lost capture shows. Writes results/natural.json. Words choose functions by name; --record
writes the column of this version. --torch: the same on PyTorch's tensors, results/natural-torch.json; how often
captures end there is not compared."""
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "behaviour"), str(ROOT / "tests" / "full")]
import behaviour  # noqa: E402
import natural_breaks  # noqa: E402
import results  # noqa: E402

import cresset  # noqa: E402

RECORDED = ROOT / "tests" / "behaviour" / "recorded_breaks.txt"
VERSION = "{}.{}".format(*sys.version_info)


def read_recorded():
    """{name: {version: "graphs/ops/breaks"}}."""
    lines = RECORDED.read_text().splitlines() if RECORDED.exists() else []
    return {name: dict(cell.split("=") for cell in cells) for name, *cells in map(str.split, lines)}


def count(function):
    """Graphs, ops and breaks of two calls, in words, and the reasons."""
    compiled = cresset.compile(function, backend="eager")
    for _ in range(2):
        behaviour.outcome(compiled, function, 0)
    entries = compiled._entries()
    ops = [entry["ops"] for entry in entries if entry["ops"]]
    reasons = [entry["reason"].split(": ", 1)[1] for entry in entries if entry["reason"] and not entry["resumes"]]
    return f"{len(ops)}/{sum(ops)}/{compiled._counts()['breaks']}", reasons


def main(argv):
    every = natural_breaks.programs()
    chosen = results.chosen("natural", list(every), argv)
    compares, suffix = behaviour.world.LIBRARY == "cresset", "-torch" * (behaviour.world.LIBRARY == "torch")
    known, wrong, reasons, total = read_recorded(), [], collections.Counter(), collections.Counter()
    for name in chosen:
        found = behaviour.check(every[name])[1]
        counted, why = count(every[name])
        total.update(dict(zip(("graphs", "ops", "breaks"), map(int, counted.split("/")))))
        reasons.update(text.split("'")[0].split(":")[0][:60] for text in why)
        if "--record" in argv:
            known.setdefault(name, {})[VERSION] = counted
        elif compares and known.get(name, {}).get(VERSION) != counted:
            found.append(f"{name}: {counted} graphs/ops/breaks, recorded are {known.get(name, {}).get(VERSION)}")
        wrong += found[:1]
    if "--record" in argv:
        RECORDED.write_text("".join(" ".join([name, *(f"{v}={n}" for v, n in sorted(known[name].items()))]) + "\n"
                                    for name in every if name in known))
    for line in wrong[:20]:
        print(line[:4000])
    print(f"{len(chosen)} functions, {dict(total)}; why calls end plain:")
    for reason, n in reasons.most_common(25):
        print(f"{n:5}  {reason}")
    return results.end("natural" + suffix, len(chosen) - len(wrong), len(wrong), functions=len(chosen),
                       reasons=dict(reasons), **total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
