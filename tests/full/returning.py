"""P1, X7: archives of PyTorch's, saved again here and loaded there, and unflattened here: every program of tests/interop/programs.py and every model of bench/models.py at small
size, in the training dialect and after run_decompositions(). What comes back to PyTorch must be the program it was (tests/interop/returning.py says how it is compared), and the
unflattened module must give PyTorch's results in every call. Arguments select programs by substring.

    ./dev test --full returning

PyTorch's archives and results are those of the interop sweep, kept in build/interop.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "full"), str(ROOT / "tests" / "interop")]
import checking  # noqa: E402
import cresset  # noqa: E402
import interop  # noqa: E402
import returning  # noqa: E402


class Unflattened:
    """What `checking.by_module` calls: a program whose module is the unflattened one."""

    def __init__(self, path):
        self.program = cresset.export.load(str(path))

    def module(self):
        return cresset.export.unflatten(self.program)


def check(p, folder, scratch, report):
    for archive in interop.archives(p, folder, report):
        copy = pathlib.Path(scratch) / "ours.pt2"
        report(p.name, archive.dialect, "saved here, loaded there", interop.in_child(lambda: returning.difference(archive.path, copy)))
        report(p.name, archive.dialect, "unflatten()", interop.in_child(lambda: checking.by_module(archive, Unflattened)))
        copy.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(interop.sweep("returning", check))
