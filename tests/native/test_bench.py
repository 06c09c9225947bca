"""P5: `cresset bench`: rows, peers that are there and that are not, the profile of steps. Nothing here depends on how
fast the machine is."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "examples" / "digits" / "digits.pt2"
DATA = HERE.parent / "data" / "cli"


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


def rows(*words, **options):
    done = tool("bench", *words, "--rounds", 1, "--json", **options)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    return {row["name"]: row for row in data["rows"]}, data


@pytest.fixture
def python(tmp_path):
    """A Python with nothing installed."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys._base_executable} -I -S "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "CRESSET_PYTHON": str(script)}


def test_interpreted_and_native():
    found, data = rows(DIGITS, "--threads", 1)
    assert list(found) == ["interpreter", "native"] and all(0 < row["least"] <= row["seconds"] < 10
                                                            for row in found.values())
    assert (data["inputs"] == "example" and data["threads"] == 1 and data["rounds"] == 1
            and data["compile_seconds"] > 0 and "profile" not in data)


def test_table():
    done = tool("bench", DIGITS, "--rounds", 1, "--profile")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (lines[0].startswith(f"{DIGITS}: example inputs, ") and lines[3].startswith("interpreter  ")
            and lines[4].startswith("native  ") and lines[4].endswith(" 1.00x"))
    assert "op -> node (source)" in lines[6] and any("argmax -> argmax" in line and "train.py:" in line
                                                     for line in lines[7:])


def test_a_library_and_its_profile(tmp_path):
    library = tmp_path / "d.so"
    assert tool("compile", DIGITS, "-o", library).returncode == 0
    found, data = rows(library, "--profile")
    assert list(found) == ["native"] and data["inputs"] == "random" and "compile_seconds" not in data
    assert len(data["profile"]) >= 3 and all(step["seconds"] >= 0 and step["steps"] >= 1 and " -> " in step["origin"]
                                             for step in data["profile"])
    assert [s["seconds"] for s in data["profile"]] == sorted((s["seconds"] for s in data["profile"]), reverse=True)


def test_state_and_random_programs():
    for name in ("affine", "noise", "sizes"):
        assert list(rows(DATA / f"{name}.pt2")[0]) == ["interpreter", "native"]


def test_a_peer_that_is_there():
    if "CRESSET_NO_TORCH" in os.environ:
        pytest.skip("the peers are PyTorch and what needs it")
    found, _ = rows(DIGITS, "--against", "torch", env={**os.environ, "CRESSET_PYTHON": sys.executable})
    assert list(found) == ["interpreter", "native", "torch"] and found["torch"]["seconds"] > 0


def test_peers_that_are_not_there(python):
    found, _ = rows(DIGITS, "--against", "onnxruntime,torch", env=python)
    assert list(found) == ["interpreter", "native", "onnxruntime", "torch"]
    assert ("onnxruntime" in found["onnxruntime"]["missing"] and "torch" in found["torch"]["missing"]
            and "seconds" not in found["torch"])
    found, _ = rows(DIGITS, "--against", "torch,openvino", env={**os.environ, "CRESSET_PYTHON": "no-such-python"})
    assert all("no-such-python" in found[name]["missing"] for name in ("torch", "openvino"))
    assert "seconds" in found["native"]
    done = tool("bench", DIGITS, "--rounds", 1, "--against", "torch", env=python)
    assert (done.returncode == 0
            and "torch            not there: ModuleNotFoundError: No module named 'torch'" in done.stdout)


@pytest.mark.parametrize("words, code, message", [
    ([], 2, "bench needs FILE"),
    ([DIGITS, "--against", "onxruntime"], 2, "--against does not know 'onxruntime'; did you mean 'onnxruntime'?"),
    ([DIGITS, "--rounds", "0"], 2, "option '--rounds' has the value '0'"),
    ([DIGITS, "--threads", "many"], 2, "option '--threads' has the value 'many'"),
    ([DIGITS.with_name("none.pt2")], 1, "none.pt2"),
    ([DIGITS.with_name("labels.npy")], 1, "not a zip archive"),
    ([DATA / "unknown.pt2"], 1, "no implementation here"),
    ([DATA / "pair.pt2", "--name", "third"], 1, "third"),
])
def test_bad_input(words, code, message):
    done = tool("bench", *words)
    assert done.returncode == code and message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_peers_take_archives_only(tmp_path):
    library = tmp_path / "d.so"
    assert tool("compile", DIGITS, "-o", library).returncode == 0
    done = tool("bench", library, "--against", "torch")
    assert done.returncode == 1 and "the peers cannot take a compiled library; give the archive" in done.stderr


def test_no_compiler():
    done = tool("bench", DIGITS, env={**os.environ, "CRESSET_CC": "no-such-compiler"})
    assert done.returncode == 1 and "no-such-compiler" in done.stderr
