"""A sweep that matches nothing fails: it has shown nothing. What it wrote before stays."""
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the sweeps compare with PyTorch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
SWEEPS = sorted(path.stem for path in (ROOT / "tests" / "full").glob("*.py") if not path.stem.endswith("_child"))


def run(name, *words):
    command = [sys.executable, str(ROOT / "tests" / "full" / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "CRESSET_FULL": "1"})


@pytest.mark.parametrize("name", ["ops", "decomp", "interop", "export", "random_graphs", "sym", "calls"])
def test_what_matches_nothing_fails(name):
    before = {path: path.read_bytes() for path in (ROOT / "results").glob(f"{name}.json")}
    done = run(name, "no-such-thing")
    assert done.returncode not in (0, 2) and "no-such-thing" in done.stderr, done.stderr[-500:]
    assert all(path.read_bytes() == text for path, text in before.items())


def test_every_sweep_chooses_by_the_same_functions():
    """Those that the test above does not run begin like one of those that it runs."""
    for name in SWEEPS:
        text = (ROOT / "tests" / "full" / f"{name}.py").read_text()
        ends = ("runner.main(", "interop.sweep(", "results.chosen(", "results.numbered(", "results.only(", "Report(",
                "derivatives.")
        assert any(end in text for end in ends), f"tests/full/{name}.py: end with one of {', '.join(ends)}"
