"""P4: the files that `cresset compile` makes: libraries, static archives, C source; for this processor, any and
another; sizes; what happens when the disk, the cache, the compiler or the process fails. The archives are committed, so
PyTorch is not needed."""
import fcntl
import functools
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import library  # noqa: E402

ROOT = HERE.parents[1]
DIGITS = ROOT / "examples" / "digits"
ARCHIVE = DIGITS / "digits.pt2"
FLAGS = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


def compile_digits(path, *words, **options):
    done = tool("compile", ARCHIVE, "-o", path, *words, **options)
    assert done.returncode == 0, done.stderr
    return path


def needs(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        pytest.skip(f"NOT TESTED: {', '.join(missing)} is not installed (./dev setup does)")


def accuracy(path):
    digit, _ = library.Model(path)(np.load(DIGITS / "images.npy"))
    return (digit == np.load(DIGITS / "labels.npy")).mean()



# ---- shared libraries ----


@pytest.mark.parametrize("target, most", [("multi", 600_000), ("native", 250_000)])
def test_size_and_dependencies(tmp_path, target, most):
    path = compile_digits(tmp_path / "d.so", "--target", target, "--weights", "beside")
    weights = (tmp_path / "d.weights").stat().st_size
    assert path.stat().st_size <= most
    path = compile_digits(tmp_path / "e.so", "--target", target)
    assert path.stat().st_size <= 1.05 * weights + most
    assert accuracy(path) >= 0.95
    needed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    assert {line.split()[0].rpartition("/")[2].partition(".")[0] for line in needed.splitlines()} <= {"linux-vdso",
            "libc", "libm", "ld-linux-x86-64"}


def test_weights_survive_strip_and_objcopy(tmp_path):
    needs("strip", "objcopy")
    path = compile_digits(tmp_path / "d.so")
    stripped, copied = tmp_path / "s.so", tmp_path / "c.so"
    shutil.copy(path, stripped)
    subprocess.run(["strip", stripped], check=True)
    subprocess.run(["objcopy", "--strip-unneeded", path, copied], check=True)
    assert accuracy(stripped) >= 0.95 and accuracy(copied) >= 0.95


def test_weights_of_an_unknown_linker(tmp_path):
    path = compile_digits(tmp_path / "d.so", env={**os.environ, "CRESSET_LINKED_WEIGHTS": "1"})
    assert accuracy(path) >= 0.95


@pytest.mark.skipif(" avx512vl " not in FLAGS, reason="NOT TESTED: this processor has no AVX-512 to leave out")
def test_native_refuses_other_processors(tmp_path):
    path = compile_digits(tmp_path / "d.so", "--target", "native")
    script = (f"import sys; sys.path.insert(0, {str(HERE)!r}); import library\ntry: "
              f"library.Model({str(path)!r})\nexcept library.Failed as e: print(e)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env={**os.environ, "CRESSET_ISA": "avx2"})
    assert "was compiled for AVX-512" in done.stdout and "--target multi" in done.stdout, done.stdout + done.stderr


def test_targets_that_are_none(tmp_path):
    done = tool("compile", ARCHIVE, "-o", tmp_path / "d.so", "--target", "fast")
    assert done.returncode == 1 and "there is no target 'fast': use multi, native, or a triple" in done.stderr
    done = tool("compile", ARCHIVE, "-o", tmp_path / "d.so", "--target", "vax-dec-ultrix")
    assert done.returncode == 1 and "vax-dec-ultrix-gcc is not on the PATH" in done.stderr
    done = tool("compile", ARCHIVE, "-o", tmp_path / "d.c", "--target", "native")
    assert done.returncode == 1 and "C source is for every target" in done.stderr
    assert list(tmp_path.iterdir()) == []


# ---- C source and static archives ----


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return compile_digits(tmp_path_factory.mktemp("source") / "digits.c")


def classify(folder, entry, header):
    text = (ROOT / "examples" / "c" / "classify.c").read_text()
    path = folder / "classify.c"
    path.write_text(text.replace('"cresset/abi.h"', f'"{header}"').replace("cresset_model(", f"{entry}("))
    return path


def run_classify(*words):
    done = subprocess.run([*map(str, words), DIGITS / "images.npy", DIGITS / "labels.npy"], capture_output=True,
                          text=True)
    return done.returncode == 0 and int(done.stdout.split()[0]) >= 190


WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def object_of(source):
    """object_of(compiler): the source compiled alone, without a warning; by each compiler once."""
    @functools.cache
    def made(cc):
        path = source.parent / f"{cc}.o"
        done = subprocess.run([cc, *WARNINGS, "-O1", "-c", source, "-o", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
        return path
    return made


def test_source_compiles_alone_and_runs(source, object_of):
    program = source.parent / "classify"
    main = classify(source.parent, "cresset_model_digits", "digits.h")
    subprocess.run(["cc", "-O1", main, object_of("cc"), "-o", program, "-lm", "-lpthread"], check=True,
                   cwd=source.parent, stderr=subprocess.DEVNULL)
    assert run_classify(program)
    assert '\n#include "' not in source.read_text()


def test_source_has_no_warnings_of_clang(source):
    """It finds all that it warns of while it reads; gcc finds some while it optimises (object_of)."""
    needs("clang")
    done = subprocess.run(["clang", *WARNINGS, "-fsyntax-only", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def test_source_under_address_sanitizer_and_stack_protector(source, tmp_path):
    """gcc's guard moves frames that the sanitizer then takes to be aligned to 64 bytes: vectors of that size in them
    ended the process (GCC bug 110027; Ubuntu's gcc has the guard by default, and from 13 on moves every frame)."""
    program = tmp_path / "classify"
    main = classify(tmp_path, "cresset_model_digits", source.parent / "digits.h")
    flags = ["-O2", "-march=native", "-fsanitize=address", "-fstack-protector-strong", "-w"]
    words = ["cc", *flags, main, source, "-o", program, "-lm", "-lpthread"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    assert run_classify("env", "ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0", program)


def test_steps_say_where_they_come_from(source):
    text = source.read_text()
    steps = text[text.index("static const rt_step m_forward_steps[] = {"):]
    steps = steps[:steps.index("};")]
    assert "  /* 5: cresset::linear_packed -> relu_2 (modules/activation.py:143, classify.3) */\n" in steps
    assert "{ .kind = RT_STEP_KERNEL, .u.kernel = rt_k_linear_packed, " in steps
    assert steps.count("/* ") == steps.count(".kind = RT_STEP_") == 9


def test_source_holds_what_the_model_uses(source):
    """Of the runtime's 1.4 MB, and of the 670 KB in the files that the model needs something of."""
    text = source.read_text()
    runtime = text[:text.index("\nconst uint8_t cresset_weights[")]
    assert len(runtime) < 540_000
    assert "RT_KERNEL(rt_k_linear_packed) {" in runtime and "rt_k_max_pool2d" in runtime
    for name in ["rt_k_sort", "rt_k_nansum", "gemm_taps_f64", "RT_OWN_", "__cplusplus", "#ifndef CRESSET_"]:
        assert name not in runtime, name


@pytest.mark.parametrize("name", ["dropout_train.training", "random_numbers.core", "multihead_masked.core",
                                  "lstm_two_layers.training", "while_loop.core"])
def test_source_of_other_programs_links(name, tmp_path):
    done = tool("compile", ROOT / "tests" / "interop" / "recorded" / f"{name}.pt2", "-o", tmp_path / "m.c")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["cc", "-w", "-O0", "-shared", "-fPIC", "-Wl,-z,defs", tmp_path / "m.c", "-o",
                           tmp_path / "m.so", "-lm", "-lpthread"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def test_source_on_aarch64(source, object_of):
    needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
    program = source.parent / "classify-arm"
    main = classify(source.parent, "cresset_model_digits", "digits.h")
    cc = "aarch64-linux-gnu-gcc"
    subprocess.run([cc, "-O1", "-w", "-static", main, object_of(cc), "-o", program, "-lm", "-lpthread"], check=True,
                   stderr=subprocess.DEVNULL)
    assert run_classify("qemu-aarch64", program)


def test_library_for_aarch64(tmp_path):
    needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
    path = compile_digits(tmp_path / "libarm.so", "--target", "aarch64-linux-gnu")
    program = tmp_path / "classify"
    subprocess.run(["aarch64-linux-gnu-gcc", "-I", ROOT / "include", ROOT / "examples" / "c" / "classify.c", path,
                    "-o", program, f"-Wl,-rpath,{tmp_path}"], check=True)
    assert run_classify("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program)


def optimisation(words):
    """What of a compiler's words decides the code it makes; the last of a kind counts."""
    chosen = [word for word in words if word.startswith(("-O", "-ffp-contract=", "-fno-", "-m"))]
    return {word[:2] if word.startswith("-O") else word.partition("=")[0]: word for word in chosen}


def test_runtime_from_source_has_the_flags_of_the_build(tmp_path):
    """A compiler that only notes its words, asked for the runtime of another processor: each file is compiled as CMake
    compiled it (src/runtime/flags.inc)."""
    compiler, log = tmp_path / "aarch64-linux-gnu-gcc", tmp_path / "log"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n')
    compiler.chmod(0o755)
    done = tool("compile", ARCHIVE, "-o", tmp_path / "arm.so", "--target", "aarch64-linux-gnu", "--cc", compiler,
                env={**os.environ, "CRESSET_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 1 and ".c.o'" in done.stderr  # it made no object

    commands = json.loads((pathlib.Path(os.environ["CRESSET_BUILD"]) / "compile_commands.json").read_text())
    want = {os.path.basename(row["file"]): row["command"].split() for row in commands
            if "/src/runtime/" in row["file"]}
    asked = {os.path.basename(words[words.index("-c") + 1]): words
             for words in map(str.split, log.read_text().splitlines()) if "/runtime/" in words[words.index("-c") + 1]}
    assert {"gemm_packed.c", "rt_block_base.c", "rt_instance.c", "k_pool.c"} <= set(asked)
    for name, words in asked.items():
        assert optimisation(words) == optimisation(want[name]), name


def test_threads_on_instances_under_tsan(source):
    program = source.parent / "threads"
    subprocess.run(["cc", "-O1", "-g", "-fsanitize=thread", "-w", "-I", source.parent, HERE / "threads.c", source,
                    "-o", program, "-lm", "-lpthread"], check=True,
                   stderr=subprocess.DEVNULL)
    done = subprocess.run([program], capture_output=True, text=True, env={**os.environ, "TSAN_OPTIONS": "exitcode=9"})
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr[:3000]


def test_two_archives_in_one_program(tmp_path):
    needs("ar", "objcopy", "nm")
    one = compile_digits(tmp_path / "libone.a")
    two = compile_digits(tmp_path / "libtwo.a", "--target", "native", "--weights", "beside")
    for path in (one, two):
        symbols = subprocess.run(["nm", "-g", "--defined-only", path], capture_output=True, text=True,
                                 check=True).stdout.split()
        assert symbols[-1] == f"cresset_model_{path.stem[3:]}" and symbols.count("T") == 1 and len(symbols) == 4
    (tmp_path / "main.c").write_text("""#include "libone.h"
#include "libtwo.h"
#include <stdio.h>
int main(int argc, char **argv) {
    char message[256] = "";
    cresset_instance *m = 0, *n = 0;
    const cresset_api *a = cresset_model_one(1), *b = cresset_model_two(1);
    cresset_options o = { .struct_size = sizeof o, .weights = argv[1] };
    if (a->create(a, 0, &m, message, sizeof message) || b->create(b, &o, &n, message, sizeof message)) return puts(message), 1;
    a->destroy(m), b->destroy(n);
    return argc != 2 || a == b;
}
""")
    subprocess.run(["cc", tmp_path / "main.c", one, two, "-o", tmp_path / "main", "-lm", "-lpthread"], check=True)
    assert subprocess.run([tmp_path / "main", tmp_path / "libtwo.weights"], capture_output=True,
                          text=True).returncode == 0
    done = subprocess.run([tmp_path / "main", tmp_path / "absent.weights"], capture_output=True, text=True)
    assert done.returncode == 1 and "cannot open the weights" in done.stdout


# ---- the cache ----


@pytest.fixture
def counting(tmp_path):
    """A compiler that writes down how often it is called, and the environment that uses it with a cache of its own."""
    script, log = tmp_path / "cc", tmp_path / "calls"
    script.write_text(f'#!/bin/sh\necho x >> {log}\nexec cc "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "CRESSET_CC": str(script),
            "CRESSET_CACHE": str(tmp_path / "cache")}, lambda: log.read_text().count("x") if log.exists() else 0


def test_the_second_time_needs_no_compiler(counting, tmp_path):
    env, calls = counting
    first = compile_digits(tmp_path / "a.so", env=env).read_bytes()
    before = calls()
    assert before >= 2
    assert compile_digits(tmp_path / "a.so", env=env).read_bytes() == first and calls() == before
    compile_digits(tmp_path / "b.so", "--weights", "beside", env=env)
    damaged = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-100] + b"#" * 100)
    now = calls()
    assert compile_digits(tmp_path / "a.so", env=env).read_bytes() == first and calls() > now


def test_a_cache_that_cannot_be_written(counting, tmp_path):
    env, _ = counting
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "cache", "/proc/cache"):
        assert accuracy(compile_digits(tmp_path / "a.so", env={**env, "CRESSET_CACHE": str(place)})) >= 0.95


# ---- failures ----


def test_killed_in_the_middle(tmp_path):
    script, begun, path = tmp_path / "cc", tmp_path / "begun", tmp_path / "out" / "d.so"
    path.parent.mkdir()
    path.write_text("old")
    script.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 100\n")
    script.chmod(0o755)
    for number in (signal.SIGKILL, signal.SIGTERM):
        begun.unlink(missing_ok=True)
        scratch = tmp_path / f"tmp{number}"
        scratch.mkdir()
        tree = {**os.environ, "CRESSET_CC": str(script), "CRESSET_CACHE": "off", "TMPDIR": str(scratch)}
        child = subprocess.Popen(["cresset", "compile", ARCHIVE, "-o", path], env=tree, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(600):
            if begun.exists():
                break
            time.sleep(0.05)
        assert begun.exists()
        os.kill(child.pid, number)
        assert child.wait() != 0
        os.killpg(child.pid, signal.SIGKILL)
        assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]
        if number == signal.SIGTERM:
            assert list(scratch.iterdir()) == []
        else:  # it could not tidy up: a later run does, once it is sure that nobody works there
            left, = scratch.iterdir()
            os.utime(left, (1, 1))
            held = os.open(left, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            environment = {**os.environ, "CRESSET_CACHE": "off", "TMPDIR": str(scratch)}
            for expected in ([left], []):
                compile_digits(tmp_path / "later.so", env=environment)
                assert list(scratch.iterdir()) == expected
                os.close(held) if expected else None
                os.utime(left, (1, 1)) if expected else None


def test_full_disk(tmp_path):
    path = tmp_path / "d.so"
    compile_digits(path)  # the compiler's part is in the cache then
    path.write_text("old")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    done = tool("compile", ARCHIVE, "-o", path, preexec_fn=limit)
    assert done.returncode == 1 and "cannot write" in done.stderr and done.stderr.count("\n") == 1
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_no_room_for_intermediate_files(tmp_path):
    done = tool("compile", ARCHIVE, "-o", tmp_path / "d.so", env={**os.environ, "TMPDIR": str(tmp_path / "none"),
                                                                  "CRESSET_CACHE": "off"})
    assert done.returncode == 1 and "set TMPDIR" in done.stderr and list(tmp_path.iterdir()) == []


def test_no_compiler(tmp_path):
    env = {**os.environ, "CRESSET_CACHE": "off"}
    cresset = shutil.which("cresset")
    done = subprocess.run([cresset, "compile", ARCHIVE, "-o", tmp_path / "d.so"], capture_output=True, text=True,
                          env={**env, "PATH": str(tmp_path)})
    assert (done.returncode == 1 and "no C compiler (cc, gcc or clang) on the PATH" in done.stderr
            and list(tmp_path.iterdir()) == [])
