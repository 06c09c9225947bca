"""P3, P4: `cresset compile` and what it makes, called through abi.h alone. The archives are committed, so PyTorch is
not needed."""
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import library  # noqa: E402

DIGITS = HERE.parents[1] / "examples" / "digits"


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "libdigits.so"
    done = tool("compile", DIGITS / "digits.pt2", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def images():
    return np.load(DIGITS / "images.npy")


def test_digits_are_recognised(digits, images):
    digit, probability = library.Model(digits)(images)
    assert digit.shape == (200,) and digit.dtype == np.int64
    assert (digit == np.load(DIGITS / "labels.npy")).mean() >= 0.95
    assert 0 < probability.min() and probability.max() <= 1 and probability.std() > 0


def test_one_library_serves_every_batch(digits, images):
    model = library.Model(digits)
    whole = model(images)[0]
    for n in (1, 2, 7, 200):
        assert (model(images[:n])[0] == whole[:n]).all()


def test_strided_input_is_taken_as_it_is(digits, images):
    turned = np.asfortranarray(images)
    assert (library.Model(digits)(turned)[0] == library.Model(digits)(images)[0]).all()


def test_needs_libc_and_libm_only(digits):
    needed = subprocess.run(["ldd", digits], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].rpartition("/")[2].partition(".")[0] for line in needed.splitlines()}
    assert names <= {"linux-vdso", "libc", "libm", "ld-linux-x86-64", "libpthread", "libdl"}


def test_one_symbol(digits):
    if not shutil.which("nm"):
        pytest.skip("needs nm (binutils)")
    symbols = subprocess.run(["nm", "-D", "--defined-only", digits], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["cresset_model"]


@pytest.mark.parametrize("change, message", [
    (lambda x: x.astype("float64"), "input 'image' must be float32, not float64"),
    (lambda x: x[0], "input 'image' must have 3 dimensions, not 2"),
    (lambda x: x[:, :7], "input 'image': dimension 1 must be 8, not 7"),
    (lambda x: np.repeat(x, 6, 0), "input 'image': dimension 0 must be between 0 and 1024, not 1200"),
    (lambda x: 3, "input 'image' must be a tensor, not an integer"),
    (lambda x: None, "input 'image' must be a tensor, not None"),
])
def test_wrong_inputs_are_refused_by_name(digits, images, change, message):
    with pytest.raises(library.Failed) as failure:
        library.Model(digits)(change(images))
    assert str(failure.value) == message


def test_wrong_counts_and_null_pointers(digits, images):
    model = library.Model(digits)
    with pytest.raises(library.Failed, match="takes 1 inputs, not 2"):
        model(images, images)
    api, message = model.api.contents, b"\0" * 256
    assert api.run(None, 0, None, 0, None, 0, message, 256) == 2
    assert api.run(model.instance, 5, None, 0, None, 0, None, 0) == 2
    assert api.run(model.instance, 0, None, 1, None, 2, None, 0) == 3
    values = (library.Value * 1)(library.Value())
    assert api.run(model.instance, 0, values, 1, None, 2, None, 0) == 3
    api.release(model.instance, None)
    api.destroy(None)


def test_another_major_version(digits):
    model = library.Model(digits)
    assert not model.library.cresset_model(2)


def test_threads_share_an_instance(digits, images):
    model, wrong = library.Model(digits, threads=2), []
    want = model(images)[0]

    def work():
        for n in range(20):
            if not (model(images[: 1 + n * 7])[0] == want[: 1 + n * 7]).all():
                wrong.append(n)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_forked_child_runs(digits, images):
    model = library.Model(digits, threads=2)
    want = model(images)[0]
    child = os.fork()
    if not child:
        os._exit(0 if (model(images)[0] == want).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_weights_beside(digits, images, tmp_path):
    path = tmp_path / "libdigits.so"
    assert tool("compile", DIGITS / "digits.pt2", "-o", path, "--weights", "beside").returncode == 0
    weights = tmp_path / "libdigits.weights"
    assert {p.name for p in tmp_path.iterdir()} == {"libdigits.so", "libdigits.weights"}
    assert (library.Model(path)(images)[0] == library.Model(digits)(images)[0]).all()
    good = weights.read_bytes()
    for bytes_, message in [(good[:-1], "must have"), (good[:8] + b"0" * 32 + good[40:], "another model"),
                            (b"X" + good[1:], "another model"), (None, "cannot open")]:
        weights.unlink()
        if bytes_ is not None:
            weights.write_bytes(bytes_)
        with pytest.raises(library.Failed, match=message):
            library.Model(path)


def test_errors_of_the_tool(tmp_path):
    done = tool("compile", DIGITS / "digits.pt2")
    assert done.returncode == 2 and "-o FILE" in done.stderr
    done = tool("compile", DIGITS / "digits.pt2", "-o", tmp_path / "none" / "x.so")
    assert done.returncode == 1 and "No such file" in done.stderr
    done = tool("compile", DIGITS / "digits.pt2", "-o", tmp_path / "x.so",
                env={**os.environ, "CRESSET_CC": "no-such-compiler"})
    assert done.returncode == 1 and "no-such-compiler" in done.stderr and "CRESSET_CC" in done.stderr
    done = tool("compile", DIGITS / "digits.pt2", "-o", tmp_path / "x.so", "--cc", "false")
    assert done.returncode == 1 and "failed" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_dump(tmp_path):
    done = tool("compile", DIGITS / "digits.pt2", "--dump=z")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    letters = [line.split()[1] for line in lines if line.startswith("# ")]
    assert letters.index("d") < letters.index("z")
    assert any("get_attr" in line for line in lines) and sum(line.startswith("graph(") for line in lines) == 1
    done = tool("compile", DIGITS / "digits.pt2", "--dump=zQ")
    assert done.returncode == 2 and "there is no pass 'Q'" in done.stderr and "z freeze" in done.stderr


def test_constants_are_readable_where_they_are_stored(digits):
    model = library.Model(digits)
    api, message = model.api.contents, library.c.create_string_buffer(256)
    names = {api.state[i].name: api.state[i] for i in range(api.nstate)}
    assert not any(info.is_mutable for info in names.values())
    room = library.c.create_string_buffer(1 << 20)
    for name in names:
        assert api.get_state(model.instance, name, room, len(room), message, 256) == 0, message.value
    assert api.get_state(model.instance, b"no.such", room, len(room), message,
                         256) == 2 and b"folded or packed" in message.value
