"""P4, P5: `cresset run` and `cresset info` on compiled libraries: the same options and the same results as on archives,
and one clear line for every file that is none."""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "cli"
DIGITS = HERE.parents[1] / "examples" / "digits"


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


def ok(*words, **options):
    done = tool(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words, **options):
    done = tool(*words, **options)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, (done.returncode, done.stdout, done.stderr)
    return done.stderr


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("loader") / "libdigits.so"
    ok("compile", DIGITS / "digits.pt2", "-o", path)
    return path


@pytest.mark.parametrize("name", ["affine", "dtypes", "noise", "sizes", "tied", "affine_old"])
def test_a_library_gives_what_its_archive_gives(name, tmp_path):
    archive, compiled = DATA / f"{name}.pt2", tmp_path / "lib.so"
    ok("compile", archive, "-o", compiled)
    sets = [word for i in range(9) if (file := DATA / f"{name.removesuffix('_old')}_{i}_in.npz").exists()
            for word in ("--inputs", file)]
    assert sets
    for file, kind in ((archive, "a"), (compiled, "b")):
        ok("run", file, *sets, "--seed", 7, "-o", tmp_path / f"{kind}_%d.npz")
    for i in range(len(sets) // 2):
        a, b = np.load(tmp_path / f"a_{i}.npz"), np.load(tmp_path / f"b_{i}.npz")
        assert a.files == b.files
        for key in a.files:
            assert a[key].dtype == b[key].dtype and a[key].shape == b[key].shape
            np.testing.assert_allclose(a[key], b[key], rtol=1e-5, atol=1e-6, equal_nan=True)
    a, b = (json.loads(ok("info", file, "--json")) for file in (archive, compiled))
    assert [[v["dtype"], v["shape"], v["path"], v.get("value", 0)] for v in a["inputs"] + a["outputs"]] == [
        [v["dtype"], v["shape"], v["path"], v.get("value", 0)] for v in b["inputs"] + b["outputs"]]
    assert [v["name"] for v in a["inputs"]] == [v["name"] for v in b["inputs"]]
    assert [v["key"] for v in a["outputs"]] == [v["key"] for v in b["outputs"]]


def test_info_as_text_and_json(digits):
    text = ok("info", digits)
    assert ("  image  float32 [s40, 8, 8]\n" in text and "  out0  int64 [s40]  %argmax\n" in text
            and "  s40         0 to 1024\n" in text)
    data = json.loads(ok("info", digits, "--json"))
    count = data["weights"]["count"]  # what no step reads is not kept
    assert 0 < count <= 18 and len(data["state"]) == count and f"\nweights     {count} tensors, " in text
    assert data["abi_version"][0] == 1 and data["programs"] == ["forward"] and data["state"][0]["kind"] == "weight"
    assert data["dynamic"] == [{"symbol": "s40", "min": 0, "max": 1024}]


def test_run_options(digits, tmp_path):
    images, out = DIGITS / "images.npy", tmp_path / "out.npz"
    done = tool("run", digits, "--input", f"image={images}", "--threads", 2, "--time", "-o", out)
    assert done.returncode == 0 and "the call took" in done.stderr
    assert (np.load(out)["out0"] == np.load(DIGITS / "labels.npy")).mean() >= 0.95
    assert ok("run", digits, "--random").startswith("out0    int64 [2]")
    # a bare name is a file, not a search
    assert ok("run", digits.name, "--random", cwd=digits.parent).startswith("out0")


@pytest.mark.parametrize("words, message", [
    (["--example"], "holds no example inputs"),
    ([], "missing input 'image' (float32 [s40, 8, 8] with s40 0 to 1024)"),
    (["--input", f"image={DIGITS / 'labels.npy'}"],
     "expected float32 [s40, 8, 8] with s40 0 to 1024, found int64 [200]"),
    (["--input", f"picture={DIGITS / 'images.npy'}"], "the program has no input 'picture', expected image"),
    (["--random", "--name", "backward"], "the library has no method 'backward', it has 'forward'; choose one with "
     "--name"),
])
def test_run_refuses_wrong_inputs(digits, words, message):
    assert message in refused("run", digits, *words)


def test_no_graph_in_a_library(digits):
    assert "holds no graph" in refused("info", digits, "--graph")


def compile_c(text, path, *flags):
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path, *flags], input=text, text=True, check=True)


@pytest.mark.parametrize("command", ["info", "run"])
def test_files_that_are_no_library_of_ours(command, digits, tmp_path):
    more = ["--random"] if command == "run" else []
    other = tmp_path / "other.so"
    compile_c("int f(void) { return 1; }", other)
    assert "no symbol 'cresset_model'" in refused(command, other, *more)
    newer = tmp_path / "newer.so"
    compile_c("static int api[64]; const void *cresset_model(unsigned major) { return major == 3 ? api : 0; }", newer)
    assert ("has version 3 of the library interface, and this program speaks version 1; compile it again" in refused(
            command, newer, *more))
    compile_c("const void *cresset_model(unsigned major) { (void)major; return 0; }", newer)
    assert "does not know version 1 of the library interface" in refused(command, newer, *more)
    whole, cut = digits.read_bytes(), tmp_path / "cut.so"
    for n in (5, 63, 64, 200, 4096, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:n])
        assert "cut.so is " in refused(command, cut, *more)
    foreign = bytearray(whole)
    foreign[18:20] = (183).to_bytes(2, "little")
    cut.write_bytes(foreign)
    assert "made for aarch64" in refused(command, cut, *more)
    missing = tmp_path / "unresolved.so"
    compile_c("int nowhere(void); const void *cresset_model(unsigned major) { return nowhere() + major ? 0 : 0; }",
              missing)
    assert "cannot be loaded" in refused(command, missing, *more)
    assert "no_such.so" in refused(command, tmp_path / "no_such.so", *more)
    assert refused(command, tmp_path, *more)


def test_weights_that_are_missing_or_of_another_model(tmp_path):
    path = tmp_path / "lib.so"
    ok("compile", DIGITS / "digits.pt2", "-o", path, "--weights", "beside")
    assert ok("run", path, "--random") and ok("info", path, "--check")
    weights = tmp_path / "lib.weights"
    shutil.move(weights, tmp_path / "kept")
    assert ok("info", path)  # descriptions need none
    assert "cannot open the weights" in refused("run", path, "--random")
    assert "cannot open the weights" in refused("info", path, "--check")
    weights.write_bytes((tmp_path / "kept").read_bytes()[:-8])
    assert "is not the weights of this model" in refused("run", path, "--random")
    weights.write_bytes(b"X" * (tmp_path / "kept").stat().st_size)
    assert "holds the weights of another model" in refused("run", path, "--random")


@pytest.mark.parametrize("command", ["info", "info --json", "run --random", "bench --rounds 1 --profile",
                                     "compile --verify"])
def test_memory_that_runs_out(command, digits, tmp_path):
    """Any request may fail: one line, no crash, no file left behind."""
    name, *words = command.split()
    whole, failing = 0, 1
    operand = DATA / "affine.pt2" if name == "compile" else digits
    words += ["-o", tmp_path / "out.so"] if name == "compile" else []
    while whole < 3:
        done = tool(name, operand, *words, env={**os.environ, "CRESSET_TEST_FAIL_ALLOCATION": str(failing)})
        assert done.returncode in (0, 1), (failing, done.returncode, done.stderr)
        assert done.returncode == 0 or done.stderr.startswith("cresset: ") and done.stderr.count("\n") == 1, (failing,
                done.stderr)
        whole = whole + 1 if done.returncode == 0 else 0
        failing += max(1, failing // 4)
    assert failing > 40
