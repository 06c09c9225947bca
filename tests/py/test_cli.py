"""The tool as a user sees it: what it prints, writes and refuses, and its exit codes. Features P2, P5, N3, X10."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import cli_models
import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ["info", "run", "view", "explain", "doctor", "convert", "completion", "help"]


def cresset(*words, **options):
    environment = {**os.environ, **options.pop("env", {})}
    environment.pop("LD_PRELOAD", None)  # the tool has its own sanitizer, and is wholly ours: leaks count
    environment["ASAN_OPTIONS"] = "detect_leaks=1"
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, env=environment, timeout=120,
                          **options)


def good(*words, **options):
    done = cresset(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words, code=1, **options):
    """The one line that says why."""
    done = cresset(*words, **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("cresset: "), done.stderr
    return lines[0]


@pytest.fixture(scope="session")
def cases(tmp_path_factory):
    return cli_models.load(tmp_path_factory.mktemp("cli"))


def save(path, arrays):
    numpy.savez(path, **arrays)
    return path


def assert_outputs(path, want):
    with numpy.load(path) as got:
        assert sorted(got.files) == sorted(want)
        for key, array in want.items():
            assert got[key].dtype == array.dtype and got[key].shape == array.shape, key
            if array.dtype.kind in "fc" and array.size:
                assert numpy.abs(got[key] - array).max() <= 1e-5 * max(1, numpy.abs(array).max()), key
            else:
                assert numpy.array_equal(got[key], array), key


# ---- the table: help, man page, completion ----

@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_one_screen(command):
    text = good(command, "--help")
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 100
    assert text.startswith(f"usage: cresset {command}")
    assert good("help", command) == text == good(command, "-h")


def test_overview():
    text = good("help")
    assert good("--help") == text and len(text.splitlines()) <= 24
    assert all(re.search(rf"^  {command} +\S", text, re.M) for command in COMMANDS)
    done = cresset()
    assert done.returncode == 2 and done.stderr == text


def test_version():
    assert re.fullmatch(r"cresset \d+\.\d+\.\d+\n", good("--version"))


def test_man_page_is_current():
    page = good("help", "--man")
    assert page == (ROOT / "docs" / "cresset.1").read_text(), "write it again: cresset help --man > docs/cresset.1"
    assert all(f".SS cresset {command}" in page for command in COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_everything(shell):
    script = good("completion", shell)
    for command in COMMANDS:
        assert command in script
        for option in re.findall(r"--([a-z]+)", good(command, "--help")):
            assert f"--{option}" in script or f"-l {option}" in script or option == "help"
    if path := shutil.which(shell):
        assert subprocess.run([path, "-n"], input=script, text=True).returncode == 0


def test_bash_completes(tmp_path):
    (tmp_path / "model.pt2").touch()
    (tmp_path / "data.npz").touch()
    script = good("completion", "bash")

    def complete(*words):
        line = " ".join(f"'{word}'" for word in words)
        text = (f"{script}\ncd {tmp_path}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _cresset; printf '%s\\n' "
                f"\"${{COMPREPLY[@]}}\"")
        return subprocess.run(["bash", "-c", text], capture_output=True, text=True).stdout.split()

    assert complete("cresset", "i") == ["info"]
    assert complete("cresset", "run", "--in") == ["--input", "--inputs"]
    assert complete("cresset", "run", "m") == ["model.pt2"]
    assert complete("cresset", "run", "--inputs", "") == ["data.npz"]
    assert complete("cresset", "completion", "z") == ["zsh"]


MISUSE = [
    (["frobnicate"], "no command 'frobnicate'"),
    (["inof", "x"], "did you mean 'info'"),
    (["--verison"], "no option '--verison'"),
    (["info"], "info needs FILE"),
    (["info", "a", "b"], "found 'b' after it"),
    (["info", "a", "--jsn"], "did you mean '--json'"),
    (["info", "a", "-x"], "no option '-x'"),
    (["info", "a", "--json=yes"], "takes no value"),
    (["info", "a", "--json", "--graph"], "exclude each other"),
    (["info", "a", "--name"], "needs a value"),
    (["info", "a", "--name", "--json"], "option '--name' needs a value"),
    (["compile", "a", "--cc", "-o", "x.so"], "option '--cc' needs a value"),
    (["info", "a", "--name", "x", "--name", "y"], "given twice"),
    (["run", "a", "--threads", "many"], "'--threads' has the value 'many'; write an integer from 1 to 1024"),
    (["run", "a", "--threads", "0"], "'--threads' has the value '0'"),
    (["run", "a", "--seed", "1e3"], "'--seed' has the value '1e3'"),
    (["run", "a", "--example", "--random"], "choose one of"),
    (["run", "a", "--inputs", "a.npz", "--input", "x=b.npy"], "choose one of"),
    (["run", "a", "--inputs", "a.npz", "--inputs", "b.npz", "-o", "out.npz"], "has no %d; write -o out_%d.npz"),
    (["run", "a", "--inputs", "a.npz", "-o", "out_%d_%d.npz"], "more than one %d"),
    (["run", "a", "--example", "-o", "a.pt2"], "cannot tell from 'a.pt2' what to write; end it with .npz"),
    (["run", "a", "--example", "-o", ".npz"], "cannot tell from '.npz'"),
    (["run", "a", "--threads", "-2"], "'--threads' has the value '-2'"),
    (["compile", "a", "-o", "x.dll"], "-o x.dll: end the name in .so"),
    (["compile", "a", "-o", "x.so.old"], "end the name in .so"),
    (["compile", "a", "--dump", "f", "--json"], "it needs -o FILE"),
    (["convert", "a"], "needs an output"),
    (["convert", "a", "-o", "b.onnx"], "cannot tell from 'b.onnx'"),
    (["convert", "a", "-o", "b.safetensors", "--weights", "c.safetensors"], "--weights makes a .pt2"),
    (["completion", "csh"], "use bash, zsh or fish"),
    (["help", "nothing"], "no command 'nothing'"),
]


@pytest.mark.parametrize("words, expected", MISUSE, ids=lambda value: " ".join(value)[:40] if isinstance(value, list)
                         else "")
def test_misuse(words, expected):
    assert expected in refused(*words, code=2)


@pytest.mark.parametrize("name, value, expected", [("CRESSET_ISA", "foo", "portable, avx2 or avx512"),
                                                   ("CRESSET_NUM_THREADS", "-3", "from 1 to 1024"),
                                                   ("CRESSET_NUM_THREADS", "many", "from 1 to 1024")])
def test_settings_that_cannot_be_followed(cases, name, value, expected):
    line = refused("info", cases["affine"].path, env={name: value})
    assert f"{name} is '{value}'" in line and expected in line
    done = subprocess.run([sys.executable, "-c", "import cresset"], capture_output=True, text=True,
                          env={**os.environ, name: value})
    assert done.returncode == 1 and f"{name} is '{value}'" in done.stderr.splitlines()[-1]


# ---- output that cannot be written ----

def test_closed_pipe(cases):
    """A reader that goes away is no failure; the tool is not killed either."""
    for words in (["info", cases["affine"].path, "--json"], ["help", "--man"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(["cresset", *map(str, words)], stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, "")


def test_full_output():
    with open("/dev/full", "w") as full:
        done = subprocess.run(["cresset", "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "cannot write to standard output: No space left" in done.stderr


# ---- info ----

def test_info_text(cases):
    text = good("info", cases["affine"].path)
    assert re.search(r"^  x +float32 \[s\d+, 4\]$", text, re.M)
    assert re.search(r"^  options_bias +float32 \[3\]$", text, re.M)
    assert re.search(r"^  k +int = 2 \(fixed by the export\)$", text, re.M)
    assert re.search(r"^  out0 +float32 \[s\d+, 3\]", text, re.M)
    assert re.search(r"^  out2 +none$", text, re.M)
    assert re.search(r"^  s\d+ +0 to 64$", text, re.M)  # what `run` takes; the archive says 2, because that was traced
    assert re.search(r"^parameters +2 tensors, 15 elements, 60 bytes$", text, re.M)
    assert re.search(r"^buffers +1 tensor, 1 elements, 8 bytes$", text, re.M)
    assert re.search(r"^ +3  aten::add.Tensor$", text, re.M)
    assert re.search(r"^extra files +notes.txt$", text, re.M)
    assert "unsupported" not in text


def test_info_json(cases):
    facts = json.loads(good("info", cases["affine"].path, "--json"))
    assert [(i["name"], i["dtype"], i["shape"][1:]) for i in facts["inputs"]] == [("x", "float32", [4]),
            ("options_bias", "float32", []), ("k", "int", [])]
    symbol = facts["inputs"][0]["shape"][0]
    assert isinstance(symbol, str) and facts["dynamic"] == [{"symbol": symbol, "min": 0, "max": 64}]
    assert facts["inputs"][2]["value"] == 2
    assert [o["key"] for o in facts["outputs"]] == ["out0", "out1", None, "out3", "out4"]
    assert facts["outputs"][0]["dtype"] == "float32" and facts["outputs"][0]["shape"] == [symbol, 3]
    assert facts["outputs"][1]["dtype"] == "int64" and facts["outputs"][1]["shape"] == []
    assert facts["outputs"][4]["value"] == 0.5
    assert facts["unsupported"] == [] and facts["extra_files"] == ["notes.txt"] and facts["programs"] == ["model"]
    assert facts["parameters"] == {"count": 2, "elements": 15, "bytes": 60}
    assert {t["name"]: t["kind"] for t in facts["state"]} == {"linear.weight": "parameter", "linear.bias": "parameter",
                                                              "count": "buffer", "shift": "constant"}
    assert facts["ops"]["aten::linear"] == 1


def test_info_of_the_old_layout(cases):
    new, old = (json.loads(good("info", cases[name].path, "--json")) for name in ("affine", "affine_old"))
    for key in ("inputs", "outputs", "dynamic", "parameters", "buffers", "ops", "extra_files"):
        assert new[key] == old[key], key


def test_info_graph(cases):
    text = good("info", cases["affine"].path, "--graph")
    assert text.startswith("graph(%p_linear_weight: f32[3, 4]") and "aten.linear(" in text


def test_info_unsupported(cases):
    facts = json.loads(good("info", cases["unknown"].path, "--json"))
    (op,) = facts["unsupported"]
    assert op["name"].startswith("cli_test::twice") and op["count"] == 2
    assert re.fullmatch(r"cli_models.py:\d+: return twice\(x\) \+ twice\(x.relu\(\)\)", op["source"])
    assert re.search(r"^unsupported\n  cli_test::twice\S* \(2 times\), first at cli_models.py:\d+: return",
                     good("info", cases["unknown"].path), re.M)
    line = refused("run", cases["unknown"].path, "--example")
    assert "cli_test::twice" in line and "cli_models.py" in line


def test_info_chooses_a_program(cases):
    path = cases["pair"].path
    assert json.loads(good("info", path, "--name", "second", "--json"))["program"] == "second"
    assert json.loads(good("info", path, "--name", "first", "--json"))["programs"] == ["first", "second"]
    line = refused("info", path, "--name", "third")
    assert "third" in line and "first" in line and "second" in line
    assert "first" in refused("info", path)


def test_info_reports_packages(cases, tmp_path):
    """AOTInductor's compiled packages are named, not run."""
    path = shutil.copy(cases["tied"].path, tmp_path / "with_package.pt2")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as file:
        file.writestr("tied/data/aotinductor/fast/model.so", b"x" * 100)
        file.writestr("tied/data/aotinductor/fast/model.cpp", b"int x;")
    assert json.loads(good("info", path, "--json"))["aotinductor"] == ["fast"]
    assert re.search(r"^AOTInductor +fast$", good("info", path), re.M)
    good("run", path, "--example")


def test_doctor_of_archives_without_a_program(tmp_path):
    for name, problems in (("model.pt2", ["the archive holds no exported program"]), ("package.pt2", [])):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr("m/archive_format", "pt2")
            if not problems:
                file.writestr("m/data/aotinductor/fast/model.so", b"x")
        done = subprocess.run(["cresset", "doctor", "--json", tmp_path / name], capture_output=True, text=True)
        found = json.loads(done.stdout)
        assert done.returncode == bool(problems) and len(found["problems"]) == len(problems)
        assert all(words in line for words, line in zip(problems, found["problems"]))


def test_info_of_what_is_no_archive(tmp_path):
    (tmp_path / "empty.pt2").touch()
    (tmp_path / "text.pt2").write_text("hello " * 100)
    with zipfile.ZipFile(tmp_path / "other.pt2", "w") as file:
        file.writestr("readme.txt", "x")
    for name in ("empty.pt2", "text.pt2", "other.pt2", "missing.pt2"):
        assert name in refused("info", tmp_path / name)
    assert "Is a directory" in refused("info", tmp_path)


# ---- run ----

@pytest.mark.parametrize("name", ["affine", "affine_old", "dtypes", "tied", "tied_old", "sizes"])
def test_run_matches(cases, tmp_path, name):
    """Several sets run in order on one instance, whose buffers are kept."""
    case = cases[name]
    words = []
    for i, (inputs, _) in enumerate(case.sets):
        words += ["--inputs", save(tmp_path / f"in_{i}.npz", inputs)]
    assert good("run", case.path, *words, "-o", tmp_path / "out_%d.npz") == ""
    for i, (_, want) in enumerate(case.sets):
        assert_outputs(tmp_path / f"out_{i}.npz", want)


def test_run_draws_as_torch(cases, tmp_path):
    """--seed acts before each call."""
    case = cases["noise"]
    path = save(tmp_path / "in.npz", case.sets[0][0])
    good("run", case.path, "--inputs", path, "--inputs", path, "--seed", cli_models.SEED, "-o", tmp_path / "out_%d.npz")
    for i in range(2):
        assert_outputs(tmp_path / f"out_{i}.npz", case.sets[i][1])
    good("run", case.path, "--inputs", path, "--seed", cli_models.SEED + 1, "-o", tmp_path / "other.npz")
    assert not numpy.array_equal(numpy.load(tmp_path / "other.npz")["out1"], case.sets[0][1]["out1"])


def test_run_single_inputs(cases, tmp_path):
    inputs, want = cases["affine"].sets[0]
    words = []
    for key, array in inputs.items():
        numpy.save(tmp_path / f"{key}.npy", array)
        words += ["--input", f"{key}={tmp_path / key}.npy"]
    good("run", cases["affine"].path, *words, "-o", tmp_path / "out.npz")
    assert_outputs(tmp_path / "out.npz", want)
    inputs, want = cases["sizes"].sets[1]
    for key in "ab":
        numpy.save(tmp_path / f"{key}.npy", inputs[key])
    good("run", cases["sizes"].path, f"-ia={tmp_path}/a.npy", "-i", f"b={tmp_path}/b.npy", "-i", f"n={inputs['n']}",
         "-o", tmp_path / "out.npy")
    assert numpy.allclose(numpy.load(tmp_path / "out.npy"), want["out0"])


def test_run_example(cases, tmp_path):
    good("run", cases["affine"].path, "--example", "-o", tmp_path / "out.npz")
    assert_outputs(tmp_path / "out.npz", cases["affine"].sets[0][1])
    text = good("run", cases["affine"].path, "--example")
    assert re.search(r"^out0 +float32 \[5, 3\]  min \S+  max \S+  mean \S+", text, re.M)
    assert re.search(r"^out1 +int64 \[\] = 1 ", text, re.M)
    assert re.search(r"^out2 +None$", text, re.M)
    assert re.search(r"^out3 += 10", text, re.M)


def test_run_random(cases, tmp_path):
    for name in ("affine", "dtypes", "tied", "sizes", "noise"):
        for i, seed in enumerate((3, 3, 4)):
            good("run", cases[name].path, "--random", "--seed", seed, "-o", tmp_path / f"{i}.npz")
        first, again, other = ((tmp_path / f"{i}.npz").read_bytes() for i in range(3))
        assert first == again and (first != other or name == "tied")


def test_run_layouts(cases, tmp_path):
    """Fortran order, other byte order, compressed .npz, raw bfloat16."""
    inputs, want = cases["affine"].sets[0]
    changed = {key: numpy.asfortranarray(array).astype(array.dtype.newbyteorder(">")) for key, array in inputs.items()}
    numpy.savez_compressed(tmp_path / "in.npz", **changed)
    good("run", cases["affine"].path, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert_outputs(tmp_path / "out.npz", want)
    inputs, want = cases["dtypes"].sets[0]
    raw = (inputs["b16"].view(numpy.uint32) >> 16).astype(numpy.uint16).view("V2")
    save(tmp_path / "raw.npz", {**inputs, "b16": raw})
    good("run", cases["dtypes"].path, "--inputs", tmp_path / "raw.npz", "-o", tmp_path / "raw_out.npz")
    assert_outputs(tmp_path / "raw_out.npz", want)


def test_run_rounds_to_bfloat16(cases, tmp_path):
    inputs, want = cases["dtypes"].sets[0]
    nearly = numpy.nextafter(inputs["b16"], numpy.inf, dtype=numpy.float32)
    save(tmp_path / "in.npz", {**inputs, "b16": nearly})
    good("run", cases["dtypes"].path, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert_outputs(tmp_path / "out.npz", want)


def test_run_threads_and_check(cases, tmp_path):
    for words in (["--threads", 1], ["--threads", 3], ["--check"]):
        good("run", cases["affine"].path, "--example", *words, "-o", tmp_path / "out.npz")
        assert_outputs(tmp_path / "out.npz", cases["affine"].sets[0][1])


def test_run_json(cases, tmp_path):
    case = cases["affine"]
    files = [save(tmp_path / f"in_{i}.npz", inputs) for i, (inputs, _) in enumerate(case.sets)]
    words = [word for path in files for word in ("--inputs", path)]
    data = json.loads(good("run", case.path, *words, "-o", tmp_path / "out_%d.npz", "--json"))
    assert [call["inputs"] for call in data["calls"]] == [str(path) for path in files]
    for i, (call, (_, want)) in enumerate(zip(data["calls"], case.sets, strict=True)):
        assert (call["file"] == str(tmp_path / f"out_{i}.npz") and pathlib.Path(call["file"]).exists()
                and call["seconds"] > 0)
        outputs = [output for output in call["outputs"] if output["dtype"] not in ("none", "str")]
        assert [output["key"] for output in outputs] == sorted(want)
        for output in outputs:
            array = want[output["key"]]
            assert (output["shape"] == list(array.shape) and output["dtype"] == str(array.dtype)
                    and output["not_finite"] == 0)
            assert (output["min"], output["max"], output["mean"]) == pytest.approx((array.min(), array.max(),
                    array.mean()), rel=1e-5, abs=1e-5)


def test_compile_json(cases, tmp_path):
    data = json.loads(good("compile", cases["affine"].path, "-o", tmp_path / "a.so.1", "--json", "--verify"))
    assert data["file"] == str(tmp_path / "a.so.1") and data["methods"] == ["forward"]
    assert data["bytes"] == (tmp_path / "a.so.1").stat().st_size
    assert data["steps"] > 0 and data["seconds"] > 0 and "largest error" in data["verified"]


def test_run_says_how_long(cases):
    done = cresset("run", cases["affine"].path, "--example", "--time")
    assert done.returncode == 0
    assert re.search(r"^cresset: loading took \d+\.\d+ ms$", done.stderr, re.M) and "the call took" in done.stderr


WRONG_INPUTS = [
    ("affine", {"x": None}, r"missing input 'x' \(float32 \[s\d+, 4\] with s\d+ 0 to 64\)"),
    ("affine", {"y": numpy.zeros(3)}, r"no input 'y', expected x, options_bias"),
    ("affine", {"x": numpy.zeros((5, 4))},
     r"input 'x': expected float32 \[s\d+, 4\] with s\d+ 0 to 64, found float64 \[5, 4\]: the dtype differs; convert "
     r".* a.astype\('float32'\)"),
    ("affine", {"x": numpy.zeros((5, 1, 4), "f4")}, r"input 'x': expected float32 .*, found float32 \[5, 1, 4\]: it "
     r"has 3 dimensions, not 2"),
    ("affine", {"x": numpy.zeros((5, 7), "f4")}, r"input 'x': .* found float32 \[5, 7\]: dimension 1 is 7, not 4"),
    ("affine", {"x": numpy.zeros((65, 4), "f4")}, r"input 'x': .* found float32 \[65, 4\]: dimension 0 is 65, outside "
     r"its range"),
    ("affine", {"k": numpy.array(3)}, r"input 'k': expected the int 2 that the export fixed, found 3"),
    ("affine", {"k": numpy.zeros(2)}, r"input 'k': expected the int 2 that the export fixed, found float64 \[2\]"),
    ("sizes", {"b": numpy.zeros((7, 3), "f4")}, r"input 'b': .* found float32 \[7, 3\]: dimension 0 is 7, not 8"),
    ("sizes", {"b": numpy.zeros((8, 2), "f4")}, r"input 'b': .* found float32 \[8, 2\]: dimension 1 is 2, but "
     r"dimension 1 of 'a' is 3"),
    ("sizes", {"n": numpy.array(1.5)}, r"input 'n': expected an int.*, found 1.5"),
    ("sizes", {"n": numpy.zeros(2)}, r"input 'n': expected an int.*, found float64 \[2\]"),
    ("dtypes", {"b16": numpy.zeros((2, 3), "f8")},
     r"input 'b16': expected bfloat16 \[2, 3\], found float64 \[2, 3\]: the dtype differs; convert .* "
     r"a.astype\('float32'\)"),
    ("dtypes", {"flag": numpy.zeros(2, "i8")}, r"input 'flag': expected bool \[2\], found int64 \[2\]"),
]


@pytest.mark.parametrize("name, change, expected", WRONG_INPUTS,
                         ids=[f"{name}-{next(iter(change))}-{i}" for i, (name, change, _) in enumerate(WRONG_INPUTS)])
def test_wrong_input(cases, tmp_path, name, change, expected):
    """Refused by the argument's name, with what was expected and what came; nothing is written."""
    inputs = {**cases[name].sets[0][0], **change}
    path = save(tmp_path / "in.npz", {key: array for key, array in inputs.items() if array is not None})
    line = refused("run", cases[name].path, "--inputs", path, "-o", tmp_path / "out.npz")
    assert re.search(expected, line), line
    assert not (tmp_path / "out.npz").exists()


def test_unreadable_input(cases, tmp_path):
    path, model = tmp_path / "x.npy", cases["affine"].path
    numpy.save(path, numpy.zeros((5, 4), "f4"))
    whole = path.read_bytes()
    for bad in (b"", b"\x93NUMPY", b"not an array at all", whole[:-3], whole.replace(b"'<f4'", b"'|O' ")):
        path.write_bytes(bad)
        line = refused("run", model, "--input", f"x={path}", "--input", f"options_bias={path}")
        assert "input 'x'" in line and "x.npy" in line
    assert "input 'x'" in refused("run", model, "--input", "x=/no/such.npy") and "No such file" in refused("run",
            model, "--input", "x=/no/such.npy")
    path.write_bytes(whole)
    assert "input 'x' was given twice" in refused("run", model, "--input", f"x={path}", "--input", f"x={path}", code=2)
    assert "write --input NAME=FILE.npy" in refused("run", model, "--input", "x.npy", code=2)
    save(tmp_path / "in.npz", {"x": numpy.array([1, "a"], dtype=object)})
    line = refused("run", model, "--inputs", tmp_path / "in.npz")
    assert line.count("in.npz") == 1 and "'x.npy'" in line and "Python objects" in line
    (tmp_path / "in.npz").write_bytes(b"PK\x05\x06 nothing")
    assert "in.npz" in refused("run", model, "--inputs", tmp_path / "in.npz")


def test_no_input_at_all(cases):
    line = refused("run", cases["affine"].path)
    assert "'x'" in line and "'options_bias'" in line and "--input NAME=FILE.npy" in line


def test_output_must_hold_the_results(cases, tmp_path):
    assert "holds one array, and the program gives 4; name it .npz" in refused("run", cases["affine"].path,
            "--example", "-o", tmp_path / "out.npy")
    assert "No such file or directory" in refused("run", cases["affine"].path, "--example", "-o",
                                                  tmp_path / "no" / "out.npz")
    assert list(tmp_path.iterdir()) == []


def test_output_must_not_replace_the_inputs(cases, tmp_path):
    case = cases["affine"]
    good("run", case.path, "--example", "-o", tmp_path / "in_0.npz")
    before = (tmp_path / "in_0.npz").read_bytes()
    (tmp_path / "link.npy").symlink_to(tmp_path / "in_0.npz")
    for words in (["--inputs", tmp_path / "in_0.npz", "-o", tmp_path / "in_0.npz"],
                  ["--inputs", tmp_path / "in_0.npz", "-o", tmp_path / "in_%d.npz"],
                  ["--input", f"x={tmp_path / 'link.npy'}", "-o", tmp_path / "in_0.npz"]):
        assert "would replace the inputs; name another file with -o" in refused("run", case.path, *words)
    assert (tmp_path / "in_0.npz").read_bytes() == before


# ---- nothing half-written ----

def limited(size):
    """The disk is full after `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("words", [["run", "--example", "-o", "out.npz"], ["convert", "-o", "out.safetensors"],
                                   ["convert", "-o", "out.pt2"]], ids=" ".join)
def test_full_disk(cases, tmp_path, words):
    target = tmp_path / words[-1]
    target.write_text("old")
    done = cresset(words[0], cases["affine"].path, *words[1:-1], target, preexec_fn=limited(200))
    assert done.returncode == 1 and "File too large" in done.stderr and target.name in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [target.name] and target.read_text() == "old"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(cases, tmp_path, number):
    """A signal in the middle of writing: only whole files stay. The output is large, so that some of the signals hit
    the write."""
    big = tmp_path / "big.pt2"
    with zipfile.ZipFile(cases["tied"].path) as old, zipfile.ZipFile(big, "w") as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
        with new.open("tied/extra/filler", "w", force_zip64=True) as filler:
            for _ in range(64):
                filler.write(bytes(1 << 20))
    hits = 0
    for delay in range(2, 60, 4):
        target = tmp_path / "out.pt2"
        target.unlink(missing_ok=True)
        # a job in the background starts with SIGINT ignored  # noqa: E731
        heard = lambda: signal.signal(number, signal.SIG_DFL)
        process = subprocess.Popen(["cresset", "convert", big, "-o", target], stderr=subprocess.PIPE, preexec_fn=heard)
        time.sleep(delay / 200)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert process.returncode in (0, -number), error
        hits += process.returncode == -number
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left in (["big.pt2"], ["big.pt2", "out.pt2"]), left
        if "out.pt2" in left:
            assert zipfile.ZipFile(target).testzip() is None
    assert hits


# ---- doctor ----

def test_doctor_of_the_machine():
    text = good("doctor")
    for key in ("cresset", "processor", "instructions", "threads", "memory", "compiler", "ops"):
        assert re.search(rf"^{key} +\S", text, re.M), key
    facts = json.loads(good("doctor", "--json"))
    assert facts["problems"] == [] and int(facts["ops"]) > 500
    assert json.loads(good("doctor", "--json",
                           env={"CRESSET_ISA": "portable"}))["instructions"].startswith("portable in use")
    assert "none found" in json.loads(good("doctor", "--json",
                                           env={"PATH": os.path.dirname(shutil.which("cresset"))}))["compiler"]
    done = cresset("doctor", env={"CRESSET_CC": "/no/such/cc"})
    assert done.returncode == 1 and "CRESSET_CC is '/no/such/cc'" in done.stdout and "1 problem" in done.stderr


@pytest.mark.parametrize("name", ["affine", "affine_old", "dtypes", "noise", "tied", "tied_old", "sizes", "pair"])
def test_doctor_of_a_sound_file(cases, name):
    text = good("doctor", cases[name].path)
    assert re.search(r"^checksums +(\d+) of \1 right$", text, re.M)
    assert text.count("sound and ready to run") == (2 if name == "pair" else 1)


def test_doctor_of_an_unsupported_op(cases):
    text = good("doctor", cases["unknown"].path)
    assert re.search(r"^unsupported model +cli_test::twice", text, re.M) and ": sound" in text


def flip(path, to, member):
    """One bit in the middle of a member's data."""
    with zipfile.ZipFile(path) as file:
        info = next(i for i in file.infolist() if i.filename.endswith(member))
        where = info.header_offset
    data = bytearray(path.read_bytes())
    where += 30 + int.from_bytes(data[where + 26:where + 28], "little") + int.from_bytes(data[where + 28:where + 30],
            "little") + info.file_size // 2
    data[where] ^= 1
    to.write_bytes(data)
    return info.filename


def test_doctor_finds_damage(cases, tmp_path):
    """P2: a flipped bit of a weight is found by doctor and --check; of the metadata, always."""
    bad = tmp_path / "bad.pt2"
    member = flip(cases["affine"].path, bad, "weight_0")
    done = cresset("doctor", bad)
    assert done.returncode == 1 and re.search(rf"^WRONG +.*{member}", done.stdout, re.M) and "1 problem" in done.stderr
    good("run", bad, "--example")
    assert member in refused("run", bad, "--example", "--check")
    assert member in refused("info", bad, "--check")
    assert member in refused("convert", bad, "-o", tmp_path / "copy.pt2") and not (tmp_path / "copy.pt2").exists()
    facts = json.loads(cresset("doctor", bad, "--json").stdout)
    assert len(facts["problems"]) == 1 and member in facts["problems"][0]
    flip(cases["affine"].path, bad, "models/model.json")
    assert cresset("doctor", bad).returncode == 1 and "models/model.json" in refused("info", bad)
    bad.write_bytes(cases["affine"].path.read_bytes()[:5000])
    assert cresset("doctor", bad).returncode == 1
    assert "No such file" in refused("doctor", tmp_path / "missing.pt2")


def test_doctor_of_arrays(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.zeros(3))
    save(tmp_path / "a.npz", {"x": numpy.zeros(3)})
    for name in ("a.npy", "a.npz"):
        assert "sound" in good("doctor", tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-5])
        assert cresset("doctor", tmp_path / name).returncode == 1


# ---- convert ----

def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    kinds = {"F32": "<f4", "I64": "<i8"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            tensors[name] = numpy.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        begin = len(data)
        data += numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": {"f4": "F32", "i8": "I64", "f8": "F64"}[array.dtype.str[1:]],
                        "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("name", cli_models.OLD)
def test_convert_old_to_new(cases, tmp_path, name):
    new = tmp_path / "new.pt2"
    good("convert", cases[f"{name}_old"].path, "-o", new)
    with zipfile.ZipFile(new) as file:
        assert file.testzip() is None
        names = file.namelist()
        assert all(info.compress_type == zipfile.ZIP_STORED for info in file.infolist())
        assert file.read("new/archive_format") == b"pt2" and file.read("new/extra/notes.txt") == b"from long ago"
    assert "new/models/model.json" in names
    if name == "tied":
        assert sum("weight_" in member for member in names) == 2  # the tied one is stored once
    assert "sound and ready to run" in good("doctor", new)
    words = []
    for i, (inputs, _) in enumerate(cases[name].sets):
        words += ["--inputs", save(tmp_path / f"in_{i}.npz", inputs)]
    good("run", new, *words, "-o", tmp_path / "out_%d.npz")
    for i, (_, want) in enumerate(cases[name].sets):
        assert_outputs(tmp_path / f"out_{i}.npz", want)
    if cli_models.torch is not None:
        torch = cli_models.torch
        extra = {"notes.txt": ""}
        module = torch.export.load(new, extra_files=extra).module()
        assert extra["notes.txt"] == "from long ago"
        inputs, want = cases[name].sets[0]
        given = [torch.from_numpy(array) for array in inputs.values()]
        result = module(given[0], options={"bias": given[1]}, k=2)["y"] if name == "affine" else module(*given)
        assert numpy.allclose(result.detach().numpy(), want["out0"], atol=1e-6)


def test_convert_weights_out(cases, tmp_path):
    good("convert", cases["tied"].path, "-o", tmp_path / "w.safetensors")
    tensors = read_safetensors(tmp_path / "w.safetensors")
    assert sorted(tensors) == ["embedding.weight", "head.weight", "turned"]
    assert numpy.array_equal(tensors["embedding.weight"], tensors["head.weight"])
    if cli_models.torch is not None:
        state = cli_models.torch.export.load(cases["tied"].path).state_dict
        for name, tensor in state.items():
            assert numpy.array_equal(tensors[name], tensor.detach().numpy())


def test_convert_weights_in(cases, tmp_path):
    """Another set of weights in the same program: what runs is the new one; layout and ties stay."""
    weights, model = tmp_path / "w.safetensors", cases["tied"].path
    good("convert", model, "-o", weights)
    tensors = {name: numpy.array(array) for name, array in read_safetensors(weights).items()}
    tensors["embedding.weight"] = tensors["head.weight"] = tensors["head.weight"] * 2
    tensors["turned"] = tensors["turned"] + 1
    good("convert", model, "--weights", write_safetensors(weights, tensors), "-o", tmp_path / "tuned.pt2")
    inputs, before = cases["tied"].sets[0]
    good("run", tmp_path / "tuned.pt2", "--inputs", save(tmp_path / "in.npz", inputs), "-o", tmp_path / "out.npz")
    want = tensors["embedding.weight"][inputs["ids"]] @ tensors["turned"] @ tensors["head.weight"].T
    assert numpy.allclose(numpy.load(tmp_path / "out.npz")["out0"], want, atol=1e-5) and not numpy.allclose(want,
            before["out0"])
    good("convert", tmp_path / "tuned.pt2", "-o", tmp_path / "again.safetensors")
    for name, array in read_safetensors(tmp_path / "again.safetensors").items():
        assert numpy.array_equal(array, tensors[name])
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(tmp_path / "tuned.pt2") as new:
        assert old.namelist() == new.namelist()
        for member in old.namelist():
            assert "weight_" in member or old.read(member) == new.read(member)
    good("convert", tmp_path / "tuned.pt2", "-o", tmp_path / "same.pt2")
    assert "sound" in good("doctor", tmp_path / "same.pt2") and "sound" in good("doctor", weights)
    if cli_models.torch is not None:
        state = cli_models.torch.export.load(tmp_path / "tuned.pt2").state_dict
        assert state["turned"].stride() == (1, 4) and numpy.array_equal(state["turned"].numpy(), tensors["turned"])


def test_convert_refuses(cases, tmp_path):
    weights, model = tmp_path / "w.safetensors", cases["tied"].path
    good("convert", model, "-o", weights)
    tensors = read_safetensors(weights)
    out = tmp_path / "out.pt2"
    bad = [({"turned": None}, "tensor 'turned' is missing"),
           ({"novel": numpy.zeros(2, "f4")}, "'novel' is no parameter"),
           ({"turned": numpy.zeros((4, 4))}, "tensor 'turned': expected float32 [4, 4], found float64 [4, 4]"),
           ({"turned": numpy.zeros((4, 5), "f4")}, "expected float32 [4, 4], found float32 [4, 5]"),
           ({"head.weight": tensors["head.weight"] + 1}, "shares memory")]
    for change, expected in bad:
        changed = {name: array for name, array in {**tensors, **change}.items() if array is not None}
        assert expected in refused("convert", model, "--weights", write_safetensors(weights, changed), "-o", out)
        assert not out.exists()
    weights.write_bytes(b"short")
    assert "w.safetensors" in refused("convert", model, "--weights", weights, "-o", out)


# ---- memory that runs out ----

@pytest.mark.parametrize("words", [["info"], ["info", "--json"], ["info", "--graph"], ["run", "--example"],
                                   ["run", "--random", "-o", "out.npz"],
                                   ["run", "--inputs", "in.npz", "-o", "out.npz"], ["doctor"], ["doctor", "--json"],
                                   ["convert", "-o", "out.pt2"],
                                   ["convert", "-o", "out.safetensors"]], ids=" ".join)
@pytest.mark.parametrize("name", ["affine", "tied_old"])
def test_out_of_memory(cases, tmp_path, name, words):
    """Whichever request for memory fails: one line, no crash, no leak, nothing half-written."""
    save(tmp_path / "in.npz", cases[name].sets[0][0])
    words = [words[0], cases[name].path, *(tmp_path / word if "." in word else word for word in words[1:])]
    before = sorted(path.name for path in tmp_path.iterdir())
    failing, whole = 1, 0
    while whole < 4:  # a request that can be done without (scratch, a thread) may fail unnoticed, four in a row do not
        done = cresset(*words, env={"CRESSET_TEST_FAIL_ALLOCATION": str(failing)})
        left = sorted(path.name for path in tmp_path.iterdir())
        assert done.returncode in (0, 1), (failing, done.stderr)
        if done.returncode == 1:
            assert re.fullmatch(r"cresset: .*\n", done.stderr), (failing, done.stderr)
            assert left == before, failing
        whole = whole + 1 if done.returncode == 0 else 0
        for path in tmp_path.glob("out.*"):
            path.unlink()
        failing += max(1, failing // 6)
    assert failing > 100


# ---- large archives (P2) ----

def test_info_of_a_large_archive(cases, tmp_path):
    """Weights are not read: little memory, whatever the size. (The time is a benchmark, not a test.)"""
    large = tmp_path / "large.pt2"
    with zipfile.ZipFile(cases["affine"].path) as old, zipfile.ZipFile(large, "w") as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
        with new.open("affine/data/weights/weight_99", "w", force_zip64=True) as filler:
            for _ in range(300):
                filler.write(bytes(1 << 20))
    if "debug" in os.environ.get("CRESSET_BUILD", ""):
        good("info", large)
        return
    # A child's peak begins at its parent's: measured from a small one.
    measure = ("import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL); _, s, u = "
               "os.wait4(p.pid, 0); print(s, u.ru_maxrss)")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", measure, shutil.which("cresset"), "info", large],
                          capture_output=True, text=True)
    status, kilobytes = map(int, done.stdout.split())
    assert status == 0 and kilobytes <= 40_000
