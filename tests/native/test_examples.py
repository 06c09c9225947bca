"""P4: the programs of examples/ in C, C++, Rust and Python build and run against the compiled digits model."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES, DIGITS = ROOT / "examples", ROOT / "examples" / "digits"
IMAGES, LABELS = DIGITS / "images.npy", DIGITS / "labels.npy"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("examples") / "libdigits.so"
    subprocess.run(["cresset", "compile", DIGITS / "digits.pt2", "-o", path], check=True, capture_output=True)
    return path


def run(*words, **options):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **options)


def check(*words):
    """It says how many digits it got right, and that is nearly all of them."""
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    right = int(done.stdout.split()[0])
    assert done.stdout == f"{right} of 200 digits right\n" and right >= 194


@pytest.mark.parametrize("compiler, source, flags",
                         [("cc", "c/classify.c", ["-std=c99"]), ("c++", "cpp/classify.cpp", ["-std=c++17"])])
def test_linked(digits, tmp_path, compiler, source, flags):
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    program = tmp_path / "classify"
    built = run(compiler, *flags, "-Wall", "-Wextra", "-Werror", EXAMPLES / source, "-I", ROOT / "include", digits,
                "-o", program)
    assert built.returncode == 0, built.stderr
    check(program, IMAGES, LABELS)
    for words in ([], [IMAGES], [LABELS, IMAGES], [DIGITS / "none.npy", LABELS]):
        done = run(program, *words)
        assert done.returncode in (1, 2) and done.stdout == "" and done.stderr.count("\n") == 1


def test_the_c_program_is_short():
    assert len((EXAMPLES / "c" / "classify.c").read_text().partition("*/\n")[2].splitlines()) <= 32


def test_rust(digits, tmp_path):
    if not shutil.which("cargo"):
        pytest.skip("needs cargo")
    folder = tmp_path / "rust"
    shutil.copytree(EXAMPLES / "rust", folder, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    built = run("cargo", "build", "--offline", "--quiet", cwd=folder,
                env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target"), "RUSTFLAGS": "-D warnings"})
    assert built.returncode == 0, built.stderr
    program = tmp_path / "target" / "debug" / "classify"
    check(program, digits, IMAGES, LABELS)
    for words, message in (([], "usage"), ([IMAGES, IMAGES, LABELS], "images.npy"),
                           ([digits, DIGITS / "none.npy", LABELS], "cannot read")):
        done = run(program, *words)
        assert done.returncode == 1 and message in done.stderr and done.stdout == ""


def test_ctypes(digits):
    check(sys._base_executable, "-I", EXAMPLES / "python" / "classify_ctypes.py", digits, IMAGES, LABELS)


def test_aot_load():
    check(sys.executable, EXAMPLES / "python" / "classify_aot.py", DIGITS / "digits.pt2", IMAGES, LABELS)
