"""X1, E10: every program of tests/interop exported strictly, by bytecode, and not, by running it on fakes: the same
graphs, modules and lines, as recorded and after run_decompositions(); the strict archive is loaded and run by PyTorch.
So is that of the same program as a module of PyTorch's, exported here. Arguments select programs by substring.

    ./dev test --full strict

PyTorch's results are those of the interop sweep, kept in build/interop.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("full", "roundtrip", "interop")]
import both  # noqa: E402
import checks  # noqa: E402
import cresset  # noqa: E402
import interop  # noqa: E402
import strictly  # noqa: E402


def check(p, folder, scratch, report):
    if p.name not in both.load("torch").TABLE:  # a model of the benchmark
        return
    path = pathlib.Path(scratch) / "strict.pt2"
    training = {archive.dialect: archive for archive in interop.archives(p, folder, report)}.get("training")

    def way(name, function):
        report(p.name, "training", name, interop.in_child(function))

    def pair():
        return [strictly.export("cresset", p.name, cresset, strict=strict) for strict in (True, False)]

    if p.name not in strictly.WRITTEN_ONCE_MORE:
        way("as recorded", lambda: strictly.difference(*pair()))
    way("run_decompositions()", lambda: strictly.decomposed(*pair()))

    def loaded(library="cresset"):
        cresset.export.save(strictly.export(library, p.name, cresset, strict=True), path)
        return checks.loaded(p.name, path, training)
    if training is not None:
        way("loaded and run in PyTorch", loaded)
        way("of PyTorch's module, loaded and run there", lambda: loaded("torch"))


if __name__ == "__main__":
    sys.exit(interop.sweep("strict", check))
