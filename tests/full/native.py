"""P4: every program of tests/interop and every model of bench/models.py at small size, both dialects, compiled to a
library and called through abi.h alone, against PyTorch, on every instruction set that this machine has. Arguments
select programs by substring.

    ./dev test --full native
"""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("native", "interop", "full")]
import interop  # noqa: E402
import programs_native  # noqa: E402


def isas():
    flags = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    return ["portable"] + ["avx2"] * (" avx2 " in flags) + ["avx512"] * (" avx512vl " in flags)


def check(p, folder, scratch, report):
    for archive in interop.archives(p, folder, report):
        for isa in isas():
            def attempt(isa=isa, archive=archive):
                os.environ["CRESSET_ISA"] = isa  # read when the library is loaded, which happens in this child alone
                return programs_native.difference(archive, scratch)
            report(p.name, archive.dialect, isa, interop.in_child(attempt))
        for path in pathlib.Path(scratch).glob("*"):
            path.unlink()


if __name__ == "__main__":
    sys.exit(interop.sweep("native", check))
