"""The C API: its headers stand alone, their examples and those of docs/c-api.md are programs that run, the library
shows exactly what they declare, and examples/c_api builds in the tree, with find_package and with pkg-config."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "include" / "cresset").glob("*.h"))
DIGITS, EXAMPLE = ROOT / "examples" / "digits", ROOT / "examples" / "c_api"
BUILD = pathlib.Path(os.environ.get("CRESSET_BUILD", ROOT / "build" / "release"))
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
LANGUAGES = [("gcc", "c99"), ("gcc", "c11"), ("g++", "c++17"), ("clang", "c99"), ("clang", "c11"), ("clang++", "c++17")]


def run(*words, **options):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **options)


def succeed(*words, **options):
    done = run(*words, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


# ---- headers ----

@pytest.mark.parametrize("compiler, standard", LANGUAGES)
def test_headers_stand_alone(compiler, standard, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    for header in HEADERS:  # one file each: a header that leans on another's includes shows
        source = tmp_path / (header.stem + (".cpp" if "++" in standard else ".c"))
        source.write_text(f'#include "cresset/{header.name}"\nint cresset_test_of_headers;\n')
        succeed(compiler, f"-std={standard}", *STRICT, "-fsyntax-only", "-I", ROOT / "include", source)


def declared():
    names = set()
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for statement in re.findall(r"^(?:CR_API|CRESSET_LIBRARY_API)\b[^;]*;", text, flags=re.M):
            names.add(re.search(r"(\w+)\s*\(", statement.replace("CR_PRINTF(", "")).group(1))
    return names


def test_symbols():
    """Every function that the headers declare, each with the version of the interface, and nothing else."""
    lines = succeed("nm", "-D", "--defined-only", BUILD / "libcresset.so").splitlines()
    shown = [line.split()[2] for line in lines if line.split()[1] != "A"]
    assert len(declared()) > 150
    assert sorted(shown) == sorted(f"{name}@@CRESSET_1" for name in declared())
    assert "[libcresset.so.1]" in succeed("readelf", "-d", BUILD / "libcresset.so")


def test_one_version():
    """The macros, the library, the tool and the package agree."""
    text = (ROOT / "include" / "cresset" / "version.h").read_text()
    numbers = [re.search(rf"CR_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    version = re.search(r'CR_VERSION "(.*)"', text).group(1)
    assert version == ".".join(numbers)
    assert succeed("cresset", "--version") == f"cresset {version}\n"
    assert re.search(r'__version__ = "(.*)"', (ROOT / "python/cresset/__init__.py").read_text()).group(1) == version
    assert "CRESSET_1 {" in (ROOT / "src/api/exports.map").read_text() and "#define CR_INTERFACE 1\n" in text


# ---- examples ----

PRELUDE = """#include <cresset/cresset.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
static float pixels[64];
static int fail(const char *message) { fprintf(stderr, "%s\\n", message); return 1; }
static void use(const void *data, const int64_t *size) { if (!data || !size) exit(3); }
"""


def example_blocks(header):
    """The code in a header's comments: lines that are indented by four more than text."""
    blocks, block = [], []
    for line in [*header.read_text().splitlines(), ""]:
        if line.startswith(" *     ") or (block and line == " *" and blocks):
            block.append(line[7:])
        elif block:
            blocks.append("\n".join(block).rstrip() + "\n")
            block = []
    return blocks


def whole_program(code):
    includes = "".join(re.findall(r"^#include.*\n", code, flags=re.M))
    code = re.sub(r"^#include.*\n", "", code, flags=re.M)
    if "int main(" in code or re.match(r"(?:static|const) .*\)\s*[{;]\n", code):
        return includes + "#include <cresset/cresset.h>\n#include <stdio.h>\n" + code, "int main(" in code
    used = "if (!pixels[0]) use(pixels, &size); if (!size) return fail(\"\");"
    return (f"{includes}{PRELUDE}static int example(void) {{\n{code}return 0;\n}}\n"
            f"int main(void) {{ int64_t size = 1; {used} return example(); }}\n"), True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What examples find in their folder: an archive, its library, images."""
    path = tmp_path_factory.mktemp("c_api")
    shutil.copy(DIGITS / "digits.pt2", path / "model.pt2")
    shutil.copy(DIGITS / "images.npy", path / "images.npy")
    succeed("cresset", "compile", path / "model.pt2", "-o", path / "libcompiled.so")
    return path


def build_and_run(name, code, folder, libraries):
    text, runs = whole_program(code)
    source, program = folder / f"{name}.c", folder / name
    source.write_text(text)
    quiet = ["-Wno-unused-function"] if runs else ["-c", "-Wno-error"]
    flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", *quiet, "-I", ROOT / "include"]
    succeed("cc", *flags, source, *(libraries if runs else []), "-o", program)
    return succeed(program, cwd=folder) if runs else ""


LIBRARIES = ["-L", BUILD, "-lcresset", f"-Wl,-rpath,{BUILD}"]


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.stem)
def test_examples_of_headers(header, folder):
    blocks = example_blocks(header)
    assert blocks, f"{header.name} has no example: indent one by four in its first comment"
    libraries = [folder / "libcompiled.so", *LIBRARIES] if header.name == "abi.h" else LIBRARIES
    for i, code in enumerate(blocks):
        assert code.count(";") > 0
        build_and_run(f"{header.stem}_{i}", code, folder, libraries)


GUIDE = ROOT / "docs" / "c-api.md"


def guide_blocks():
    return re.findall(r"```c\n(.*?)```", GUIDE.read_text(), flags=re.S)


def test_guide(folder):
    """Every block of docs/c-api.md is a program that runs; where a text block follows, it is what comes out."""
    assert len(guide_blocks()) >= 6
    for i, code in enumerate(guide_blocks()):
        out = build_and_run(f"guide_{i}", code, folder, LIBRARIES)
        after = GUIDE.read_text().split(code, 1)[1]
        expected = re.match(r"```\n\n```text\n(.*?)```", after, flags=re.S)
        if expected:
            assert out == expected.group(1)


def test_names_in_guide():
    """What the guide calls exists."""
    known = "\n".join(header.read_text() for header in HEADERS)
    for name in set(re.findall(r"\b(?:cr|cresset)_\w+(?=\()", GUIDE.read_text())):
        assert re.search(rf"\b{name}\b", known), name


# ---- examples/c_api ----

SHOWN = """input image: float32 [s40, 8, 8], args[0]
output argmax: int64 [s40], result['digit']
output softmax: float32 [s40, 10], result['probability']
interpreted: 5 7 8 5 1 7 6 0 0 9 ... of 200
compiled: 5 7 8 5 1 7 6 0 0 9 ... of 200
"""


def check(program, folder, **options):
    out = succeed(program, DIGITS / "digits.pt2", DIGITS / "images.npy", folder / "libdigits.so", **options)
    assert out.startswith(SHOWN) and re.fullmatch(r"\d+ passes\n", out[len(SHOWN):])
    wrong = "input 'image': expected float32 [s40, 8, 8]"
    for words, message in (([], "usage"), ([DIGITS / "none.pt2", DIGITS / "images.npy", "x.so"], "none.pt2"),
                           ([DIGITS / "digits.pt2", DIGITS / "labels.npy", folder / "x.so"], wrong)):
        done = run(program, *words, **options)
        assert done.returncode in (1, 2) and message in done.stderr and done.stderr.count("\n") == 1
    assert not (folder / "x.so").exists()


def test_example_is_short():
    lines = (EXAMPLE / "digits.c").read_text().splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 120
    included = {line for line in lines if line.startswith("#include")}
    assert included == {"#include <cresset/cresset.h>", "#include <stdio.h>"}


def test_example_in_the_tree(tmp_path):
    flags = ["-std=c99", *STRICT, "-I", ROOT / "include"]
    succeed("cc", *flags, EXAMPLE / "digits.c", *LIBRARIES, "-o", tmp_path / "digits")
    check(tmp_path / "digits", tmp_path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Installed, then moved: nothing in it may know where it was built or put first."""
    first = tmp_path_factory.mktemp("installed") / "first"
    succeed("cmake", "--install", BUILD, "--prefix", first)
    prefix = first.rename(first.parent / "moved")
    for name in ("bin/cresset", "include/cresset/cresset.h", "lib/libcresset.so.1", "lib/cresset/libcresset_rt.a",
                 "share/man/man1/cresset.1"):
        assert (prefix / name).exists(), name
    return prefix


def test_installed_texts_name_no_build_path(installed):
    places = ("lib/cmake/**/*.cmake", "lib/pkgconfig/*", "include/**/*.h")
    texts = [text for place in places for text in installed.glob(place)]
    assert len(texts) > 20
    for text in texts:
        for path in (ROOT, BUILD, installed.parent):
            assert str(path) not in text.read_text(), text


def test_example_with_find_package(installed, tmp_path):
    environment = {**os.environ, "CMAKE_PREFIX_PATH": str(installed)}
    succeed("cmake", "-S", EXAMPLE, "-B", tmp_path, f"-DCMAKE_C_FLAGS={' '.join(STRICT)}", env=environment)
    succeed("cmake", "--build", tmp_path)
    check(tmp_path / "digits", tmp_path)
    (tmp_path / "newer").mkdir()
    asks = "cmake_minimum_required(VERSION 3.16)\nproject(x C)\nfind_package(Cresset 99 REQUIRED)\n"
    (tmp_path / "newer" / "CMakeLists.txt").write_text(asks)
    assert run("cmake", "-S", tmp_path / "newer", "-B", tmp_path / "newer" / "build", env=environment).returncode != 0


def test_example_with_pkg_config(installed, tmp_path):
    if not shutil.which("pkg-config"):
        pytest.skip("needs pkg-config")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = succeed("pkg-config", "--cflags", "--libs", "cresset", env=environment).split()
    succeed("cc", "-std=c99", *STRICT, EXAMPLE / "digits.c", *flags, "-o", tmp_path / "digits")
    check(tmp_path / "digits", tmp_path, env={**os.environ, "LD_LIBRARY_PATH": str(installed / "lib")})
