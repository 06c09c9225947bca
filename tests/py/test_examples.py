"""`./dev demo`, the tour and the graph files of examples/ run to their ends and give what they say."""
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def test_demo():
    """The accuracy is the last line; the rest says what was done and how long it took."""
    done = subprocess.run([EXAMPLES / "demo"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  image  float32 [" in done.stdout and "says 5" in done.stdout
    assert len(re.findall(r"^-- \d+ ms$", done.stdout, re.M)) == 6 and "the call took" in done.stderr
    assert "out/libdigits.so: 1 method, " in done.stdout and "largest error" in done.stdout
    assert int(re.search(r"^(\d+) of 200 digits right$", done.stdout, re.M).group(1)) >= 194
    assert re.search(r"^the archive: \d+ bytes; the library: \d+ bytes, weights inside, needs (libm|libc)\.so",
                     done.stdout, re.M)
    share, right, count = re.fullmatch(r"accuracy: ([\d.]+) % \((\d+) of (\d+) digits\)",
                                       done.stdout.splitlines()[-1]).groups()
    assert int(count) == 200 and int(right) >= 194 and float(share) == int(right) / 2


def test_tour():
    done = subprocess.run([sys.executable, EXAMPLES / "tour.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "graph(%x: f32[n, 3], %w: f32[3, 2])" in done.stdout
    assert "RuntimeError: matmul" in done.stdout


def test_graph_runner():
    done = subprocess.run([sys.executable, "run_graph.py", "scores.crg"], cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "%scores: f32[b, n, n] = aten.bmm(%q, %k)" in done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.crg")), ids=lambda path: path.name)
def test_graph_file(path):
    done = subprocess.run(["crg", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
