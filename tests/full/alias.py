"""The alias matrix (tests/ops/alias_cells.py): 8,208 functions of two tensors that share memory, are written to and
given back in every way, and lists of what the matrix does not cross; called and differentiated through each door,
against eager PyTorch. Words choose cells by name, --door=NAME one door: tape (eager), nop and native (compiled ahead of
time, run by the interpreter or as C code: a library for every graph that occurs, which cells share). Finished chunks
are kept in results/alias.json as long as package and cells stay the same; --fresh forgets them. CRESSET_JOBS=N checks
N chunks at a time. --torch: the same functions on PyTorch's tensors, plain and by cresset.compile, each called twice;
results/alias-torch.json.

    ./dev test --full alias
    CRESSET_JOBS=16 ./dev test --full alias --torch
    ./dev test --full alias "x view of y, t_ and data"
"""
import collections
import hashlib
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "ops", "interop", "full")]
import alias_cells  # noqa: E402
import cresset  # noqa: E402
import interop  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

CHUNK = 200


def fingerprint():
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([*pathlib.Path(cresset.__file__).parent.rglob("*.so*"), pathlib.Path(alias_cells.__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check_all(cells, door):
    """(name, what differs) of those where something does."""
    warnings.simplefilter("ignore")
    found = [(alias_cells.name_of(cell), alias_cells.check(torch, cresset, cell, door)) for cell in cells]
    return [(name, text) for name, text in found if text]


def main(argv):
    torch.set_num_threads(1)
    doors = [a.partition("=")[2] for a in argv if a.startswith("--door=")] or list(alias_cells.DOORS)
    sweep = "alias"
    if "--torch" in argv:
        doors, sweep = [alias_cells.CAPTURED], "alias-torch"
    cells = results.chosen("alias", list(alias_cells.cells()), argv, alias_cells.name_of)
    key = fingerprint() + (f" {argv}" if [a for a in argv if a != "--fresh"] else "")
    kept, start = results.kept(sweep, argv), time.monotonic()
    done = kept.get("chunks", {}) if kept.get("fingerprint") == key else {}
    total, rest = collections.Counter(), {}

    def checked(place):
        door, first = place
        before = done.get(f"{door} {first}")
        if before == []:
            return before
        chunk = cells[first:first + CHUNK]
        answer = interop.in_child(lambda: check_all(chunk, door))
        return answer if isinstance(answer, list) else [(alias_cells.name_of(cell), answer) for cell in chunk]

    places = [(door, first) for door in doors for first in range(0, len(cells), CHUNK)]
    for (door, first), found in interop.in_order(checked, places):
        done[f"{door} {first}"] = found
        total["failed"] += len(found)
        total["passed"] += max(0, len(cells[first:first + CHUNK]) - len(found))
        for name, text in found:
            print(f"{door}: {name}: {text}", flush=True)
        rest = {"cells": len(cells), "doors": doors, "fingerprint": key, "chunks": done}
        results.write(sweep, total["passed"], total["failed"], **rest)
    print(f"{len(cells)} cells by {', '.join(doors)}, {time.monotonic() - start:.0f} s")
    return results.end(sweep, total["passed"], total["failed"], **rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
