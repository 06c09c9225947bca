"""X1-X10, P1: every program of tests/interop written once and exported by both libraries. Ours is saved, and PyTorch loads, runs and exports it again; signature, sizes and
ranges, and the graph after run_decompositions() are compared with PyTorch's own; PyTorch's archive is saved again here and must come back the same there. Arguments select
programs by substring.

    ./dev test --full roundtrip

PyTorch's archives and results are those of the interop sweep, kept in build/interop.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("full", "roundtrip", "interop")]
import checks  # noqa: E402
import cresset  # noqa: E402
import interop  # noqa: E402
import torch  # noqa: E402


def check(p, folder, scratch, report):
    path = pathlib.Path(scratch) / "ours.pt2"
    archives = {archive.dialect: archive for archive in interop.archives(p, folder, report)}
    training = archives.get("training")
    if training is None:
        return

    def here():
        cresset.export.save(checks.export("cresset", p.name), path)

    def against(compare):
        return lambda: compare(cresset.export.load(path), torch.export.load(training.path))

    def way(name, function):
        problem = interop.in_child(function)
        report(p.name, "training" if name != "run_decompositions()" else "core", name, problem)
        return problem

    if way("exported and saved here", here):
        return
    if interop.in_child(lambda: torch.export.load(training.path) and None):
        print(f"{p.name}: PyTorch does not load its own archive either", flush=True)
        return
    way("loaded and run there", lambda: checks.loaded(p.name, path, training))
    way("exported again there", lambda: checks.exported_again(p.name, path))
    way("signature", against(checks.signature))
    way("sizes and ranges", against(checks.ranges))
    if "core" in archives:
        way("run_decompositions()", lambda: checks.operations(p.name, checks.export("cresset", p.name).run_decompositions(), archives["core"].path))


if __name__ == "__main__":
    sys.exit(interop.sweep("roundtrip", check, models=False))
