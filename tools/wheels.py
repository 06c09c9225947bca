"""./dev wheel [PYTHON...]: wheels in dist/ for each CPython given (default: python3.11, 3.12 and 3.13, where they are),
each installed into an empty environment and tried there (tests/wheel/smoke.py), and beside torch where there is one.

A wheel says which glibc it needs (manylinux_2_N: by the symbols that its files ask for), needs no other library than
libc and libm, and has what compiling a model needs: the tool, the runtime's archive and sources.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13")
LARGEST = 10 << 20
ALLOWED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def say(text):
    print(f"wheel: {text}", flush=True)


def run(*words, **more):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"wheel: {' '.join(map(str, words))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def version_of(python):
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", show], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def find(version):
    """A CPython of that version: on the PATH, or beside others that pyenv keeps."""
    kept = pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    places = [shutil.which(f"python{version}"), *sorted(map(str, kept))]
    return next((p for p in places if p and version_of(p) == version), None)


def pip(python):
    return python, "-m", "pip", "--disable-pip-version-check"


def environment(name, python, *packages):
    """A fresh one, with these packages."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    if packages:
        run(*pip(folder / "bin" / "python"), "install", "-qq", "-c", ROOT / "constraints.txt", *packages)
    return folder / "bin" / "python"


def elf_files(wheel, folder):
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            if z.read(name)[:4] == b"\x7fELF":
                yield pathlib.Path(z.extract(name, folder))


def needs(path):
    """(libraries, the newest glibc among its symbols' versions)"""
    libraries = set(re.findall(r"Shared library: \[(.*?)\]", run("readelf", "-d", path)))
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", run("readelf", "-V", path))]
    return libraries, max(versions)


def check(wheel):
    """The platform tag that it may have."""
    if wheel.stat().st_size > LARGEST:
        sys.exit(f"wheel: {wheel.name} has {wheel.stat().st_size} bytes; the limit is {LARGEST}")
    newest = (2, 17)
    for path in elf_files(wheel, FOLDER / "files"):
        libraries, glibc = needs(path)
        if libraries - ALLOWED:
            sys.exit(f"wheel: {path.name} needs {', '.join(sorted(libraries - ALLOWED))}; link it in")
        newest = max(newest, glibc)
    return "manylinux_{}_{}_{}".format(*newest, os.uname().machine)


def build(python, version):
    make = environment(f"build-{version}", python, "scikit-build-core", "wheel")
    raw = FOLDER / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    say(f"building for CPython {version}")
    run(*pip(make), "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", raw, ROOT,
        env={**os.environ, "PATH": f"{make.parent}:{os.environ['PATH']}"})
    [wheel] = raw.glob("*.whl")
    tag = check(wheel)
    run(make, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, wheel)
    [wheel] = raw.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    return pathlib.Path(shutil.move(wheel, DIST / wheel.name))


def clean_environment(**more):
    return {k: v for k, v in os.environ.items() if not k.startswith(("CRESSET", "PYTHON"))} | more


def smoke(wheel, python, version):
    inside = environment(f"empty-{version}", python)
    run(*pip(inside), "install", "-q", "--no-index", wheel)
    env = clean_environment(PATH=f"{inside.parent}:{os.environ['PATH']}", CRESSET_CACHE=str(FOLDER / "cache"))
    say(run(inside, "-I", ROOT / "tests" / "wheel" / "smoke.py", cwd="/", env=env).strip())


def smoke_beside_torch(wheel, version):
    """With the torch of the environment that the tests have, when it is of that version."""
    python = pathlib.Path(os.environ.get("CRESSET_VENV", ROOT / ".venv")) / "bin" / "python"
    fits = python.exists() and version_of(python) == version
    if not fits or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        return say(f"CPython {version}: NOT TRIED beside torch, which is not installed for it")
    target = FOLDER / "beside"
    shutil.rmtree(target, ignore_errors=True)
    run(*pip(python), "install", "-q", "--no-index", "--no-deps", "--target", target, wheel)
    env = clean_environment(PYTHONPATH=str(target), CRESSET_CACHE=str(FOLDER / "cache"))
    say(run(python, ROOT / "tests" / "wheel" / "smoke.py", "torch", cwd="/", env=env).strip())


def main(given):
    pythons = {version_of(p): p for p in given} if given else {v: p for v in VERSIONS if (p := find(v))}
    if None in pythons:
        sys.exit(f"wheel: {pythons[None]} does not run")
    for version in VERSIONS:
        if version not in pythons and not given:
            say(f"CPython {version} is not here: no wheel for it")
    for version, python in pythons.items():
        wheel = build(python, version)
        say(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB")
        smoke(wheel, python, version)
        smoke_beside_torch(wheel, version)


if __name__ == "__main__":
    main(sys.argv[1:])
