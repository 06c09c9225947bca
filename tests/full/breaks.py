"""Captures that end after every k instructions of the function, for every k until they end no more: each call is then a
chain of small captures and single instructions in the function's own frame. Every function of tests/behaviour and of
tests/py/capture (cases.py, reentry_programs.py, test_breaks.py) must show what plain Python shows: result, identity,
exceptions with their lines, what is printed, arguments and globals afterwards; twice each, so that what was kept is
used again. Words choose functions by name. Writes results/breaks-VERSION.json, and a second run
goes on where the first was stopped, as long as package and programs stay the same; --fresh forgets. CRESSET_JOBS=N
checks N chunks at a time. --torch: the same functions on PyTorch's tensors, results/breaks-VERSION-torch.json."""
import contextlib
import hashlib
import io
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "behaviour", "py/capture", "full")]
import behaviour  # noqa: E402
import behaviour_programs  # noqa: E402
import cases  # noqa: E402
import children  # noqa: E402
import natural_breaks  # noqa: E402
import reentry_programs as programs  # noqa: E402
import results  # noqa: E402
import test_breaks  # noqa: E402
import test_capture  # noqa: E402

import cresset  # noqa: E402
from cresset import _C  # noqa: E402

CHUNK = 24
MOST = 160  # ends in turn at each of so many instructions; from there on at every 16th
ENDED = "here CPython goes on"  # the reason of an entry that the switch ended


library = behaviour.world.cresset  # whose tensors the functions work on


def put_library_in(module):
    """Functions that are written on Cresset's tensors find torch and its tensors by the same names."""
    for name, value in list(vars(module).items()):
        if value is cresset:
            setattr(module, name, library)
        elif value is cresset.nn.functional:
            setattr(module, name, library.nn.functional)
        elif isinstance(value, cresset.Tensor):
            setattr(module, name, library.tensor(value.tolist()))


def break_args():
    return library.arange(6.0).reshape(2, 3), []


def shown(outcome, make_args):
    def show(run):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = outcome(run, make_args())
        return result, out.getvalue()
    return show


def functions():
    """{name: (function, what a call of it shows)}."""
    if library is not cresset:
        for module in (cases, test_breaks, test_capture):
            put_library_in(module)
    made = {name: (f, lambda run, f=f: behaviour.outcome(run, f, 0))
            for name, f in [*behaviour_programs.programs().items(), *natural_breaks.programs().items()]}
    made.update((f"case.{c.function.__name__}", (c.function, shown(test_capture.outcome, c.make_args)))
                for c in cases.CASES)
    made.update((f"reentry.{f.__name__}", (f, shown(programs.outcome, make))) for f, make in programs.PROGRAMS)
    made.update((f"break.{f.__name__}", (f, shown(test_capture.outcome, break_args))) for f in test_breaks.BREAKS)
    return made


def check(name, function, show):
    """How many places a break was put at, entries used, what was wrong in words."""
    plain = [show(function) for _ in range(2)]
    places, entries, wrong, k = 0, 0, [], 1
    while True:
        compiled = _C._Compiled(function, None, None, 64)
        _C._capture_switches(every=k)
        try:
            got = [show(compiled) for _ in range(2)]
        finally:
            _C._capture_switches()
        used = compiled._entries()
        places, entries = places + 1, entries + len(used)
        if got != plain:
            wrong.append(f"{name} every {k}: {got}\n    instead of {plain}")
        if not any(entry["reason"] and entry["reason"].endswith(ENDED) for entry in used):
            return places, entries, wrong
        k += 1 if k < MOST else 16


def fingerprint():
    digest = hashlib.sha256(sys.version.encode())
    folders = [pathlib.Path(cresset.__file__).parent, ROOT / "tests" / "behaviour", ROOT / "tests" / "py" / "capture"]
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in (".so", ".py")):
        digest.update(path.read_bytes())
    digest.update(pathlib.Path(__file__).read_bytes())
    return digest.hexdigest()


def main(argv):
    warnings.simplefilter("ignore")
    every, start = functions(), time.monotonic()
    name = "breaks-{}.{}".format(*sys.version_info) + "-torch" * (behaviour.world.LIBRARY == "torch")
    chosen = results.chosen("breaks", list(every), argv)
    key, kept = fingerprint(), results.kept(name, argv)
    done = kept.get("done", {}) if kept.get("fingerprint") == key else {}
    left = [n for n in chosen if done.get(n, {}).get("wrong") != []]

    def chunk(first):
        names = left[first:first + CHUNK]
        answer = children.in_child(lambda: [(n, *check(n, *every[n])) for n in names])
        if isinstance(answer, list):
            return answer
        alone = [(n, children.in_child(lambda n=n: check(n, *every[n]))) for n in names]  # which of them crashed?
        return [(n, *(found if isinstance(found, tuple) else (0, 0, [f"{n}: {found}"]))) for n, found in alone]

    def write(end=results.write):
        rows = [done[n] for n in chosen if n in done]
        return end(name, sum(not row["wrong"] for row in rows), sum(bool(row["wrong"]) for row in rows),
                   functions=len(rows), places=sum(row["places"] for row in rows),
                   entries=sum(row["entries"] for row in rows), fingerprint=key, done=done)

    for _, answer in children.in_order(chunk, range(0, len(left), CHUNK)):
        for n, places, entries, wrong in answer:
            done[n] = {"places": places, "entries": entries, "wrong": [text[:4000] for text in wrong]}
            for text in wrong[:2]:
                print(text[:3000], flush=True)
        write()
    rows = [done[n] for n in chosen]
    print(f"{len(chosen)} functions, a break at {sum(row['places'] for row in rows)} places, "
          f"{sum(row['entries'] for row in rows)} entries, {time.monotonic() - start:.0f} s, "
          f"CPython {sys.version.split()[0]}")
    return write(results.end)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
