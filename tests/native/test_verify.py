"""P5: `cresset compile --verify`: compiled code against the interpreter, and where it goes wrong. A C compiler that
spoils what it links stands in for the faults that are to be found."""
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "examples" / "digits"
DATA = HERE.parent / "data" / "cli"
RECORDED = HERE.parent / "interop" / "recorded"


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


def test_errors_of_each_output_are_shown(tmp_path):
    done = tool("compile", DIGITS / "digits.pt2", "-o", tmp_path / "d.so", "--verify")
    assert done.returncode == 0, done.stderr
    assert "against the interpreter, on the example inputs:\n" in done.stdout
    lines = done.stdout.splitlines()
    assert any(line.startswith("  out0  largest error 0, ") and line.endswith("%argmax") for line in lines)
    assert any(line.startswith("  out1  largest error ") and line.endswith("%softmax")
               for line in lines) and done.stderr == ""


@pytest.mark.parametrize("archive", [DATA / "affine.pt2", DATA / "dtypes.pt2", DATA / "noise.pt2", DATA / "sizes.pt2",
                                     RECORDED / "counting.training.pt2",
                                     RECORDED / "input_mutation.core.pt2"])
def test_state_seeds_dtypes_and_random_inputs(archive, tmp_path):
    done = tool("compile", archive, "-o", tmp_path / "d.so", "--verify")
    assert done.returncode == 0 and "largest error" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def spoiling(tmp_path):
    """A compiler that replaces one word by another in every C file it is given."""
    def make(word, other):
        script = tmp_path / "cc"
        script.write_text(f"""#!{sys.executable}
import os, sys
for path in sys.argv[1:]:
    if path.endswith(".c"):
        text = open(path).read()
        if {word!r} in text:  # a file may be compiled several times at once
            open(f"{{path}}.{{os.getpid()}}", "w").write(text.replace({word!r}, {other!r}))
            os.replace(f"{{path}}.{{os.getpid()}}", path)
os.execvp("cc", ["cc", *sys.argv[1:]])
""")
        script.chmod(0o755)
        return script
    return make


def test_the_first_node_that_differs(spoiling, tmp_path):
    done = tool("compile", DIGITS / "digits.pt2", "-o", tmp_path / "d.so", "--verify", "--cc",
                spoiling("= rt_k_argmax,", "= rt_k_argmin,"))
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert any(line.startswith("  out0  ") and ": too large" in line for line in done.stdout.splitlines())
    assert "out0 of the library differs from the interpreter's by" in done.stderr
    assert "the first node that differs is %argmax = aten::argmax at " in done.stderr and "train.py:" in done.stderr


def test_bad_command_lines(tmp_path):
    for words, message in ((["-o", tmp_path / "x.c", "--verify"], "--verify runs the library"),
                           (["--verify"], "compile needs -o FILE"),
                           (["-o", tmp_path / "x.so", "--verify", "--target", "aarch64-linux-gnu"],
                            "which one for 'aarch64-linux-gnu' cannot here")):
        done = tool("compile", DIGITS / "digits.pt2", *words)
        assert done.returncode == 2 and message in done.stderr
    library = tmp_path / "d.so"
    assert tool("compile", DIGITS / "digits.pt2", "-o", library).returncode == 0
    done = tool("compile", library, "-o", tmp_path / "e.so")
    assert done.returncode == 1 and "is a compiled library already; give the archive" in done.stderr
    assert not (tmp_path / "e.so").exists()
