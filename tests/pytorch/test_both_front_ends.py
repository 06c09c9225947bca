"""A sample of `./dev test --full behaviour --torch` and `breaks --torch`: the programs that are written on Cresset's
tensors, with torch in their place, in a process of their own."""
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="these are PyTorch's programs")
FULL = pathlib.Path(__file__).resolve().parents[1] / "full"


@pytest.mark.parametrize("sweep, words", [("behaviour.py", ["modules.", "grad"]), ("breaks.py", ["modules.l"])])
def test_programs_on_torchs_tensors(sweep, words):
    done = subprocess.run([sys.executable, str(FULL / sweep), "--torch", "--fresh", *words], capture_output=True,
                          text=True)
    assert done.returncode == 0 and " 0 failed" in done.stdout, done.stdout[-3000:]
