"""The tour of `./dev demo` runs to its end, and the graph files beside it give what they say."""
import pathlib
import subprocess

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def test_demo():
    done = subprocess.run([EXAMPLES / "demo"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "%scores: f32[b, n, n] = aten.bmm(%q, %k)" in done.stdout
    assert "graph(%x: f32[n, 3], %w: f32[3, 2])" in done.stdout
    assert "RuntimeError: matmul" in done.stdout
    assert "Next:" in done.stdout.strip().splitlines()[-2]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.crg")), ids=lambda path: path.name)
def test_graph_file(path):
    done = subprocess.run(["crg", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
