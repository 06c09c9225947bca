"""X1-X10, P1: archives in both directions. Every program of tests/interop, written once, is exported by both libraries:
ours is saved, and PyTorch loads, runs and exports it again; signature, sizes and ranges, and the calls after
run_decompositions() are compared with PyTorch's own. PyTorch's archives (of the models too) are loaded and saved here
and must come back the same there; unflattened, they give PyTorch's results. Arguments select programs by substring.

    ./dev test --full roundtrip

PyTorch's archives and results are those of the interop sweep, kept in build/interop.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("full", "roundtrip", "interop")]
import both  # noqa: E402
import checking  # noqa: E402
import checks  # noqa: E402
import cresset  # noqa: E402
import interop  # noqa: E402
import returning  # noqa: E402
import torch  # noqa: E402


class Unflattened:
    """What `checking.by_module` calls: a program whose module is the unflattened one."""

    def __init__(self, path):
        self.program = cresset.export.load(str(path))

    def module(self):
        return cresset.export.unflatten(self.program)


def check(p, folder, scratch, report):
    path, copy = pathlib.Path(scratch) / "ours.pt2", pathlib.Path(scratch) / "copy.pt2"
    archives = {archive.dialect: archive for archive in interop.archives(p, folder, report)}

    def way(name, function, dialect="training"):
        problem = interop.in_child(function)
        report(p.name, dialect, name, problem)
        return problem

    for dialect, archive in archives.items():
        way("PyTorch's, saved here", lambda archive=archive: returning.difference(archive.path, copy), dialect)
        way("unflatten()", lambda archive=archive: checking.by_module(archive, Unflattened), dialect)
    if "training" not in archives or p.name not in both.load("torch").TABLE:
        return
    training = archives["training"]
    against = lambda compare: lambda: compare(p.name, cresset.export.load(path), torch.export.load(training.path))
    if way("exported and saved here", lambda: cresset.export.save(checks.export("cresset", p.name), path)):
        return
    if "core" in archives:
        way("run_decompositions()",
            lambda: checks.operations(p.name, checks.export("cresset", p.name).run_decompositions(),
                                      archives["core"].path), "core")
    if interop.in_child(lambda: torch.export.load(training.path) and None):
        print(f"{p.name}: PyTorch does not load its own archive either", flush=True)
        return
    way("loaded and run there", lambda: checks.loaded(p.name, path, training))
    if interop.in_child(lambda: checks.exported_again(p.name, training.path)):
        print(f"{p.name}: PyTorch does not export its own archive again either", flush=True)
    else:
        way("exported again there", lambda: checks.exported_again(p.name, path))
    way("signature", against(checks.signature))
    way("sizes and ranges", against(checks.ranges))


if __name__ == "__main__":
    sys.exit(interop.sweep("roundtrip", check))
