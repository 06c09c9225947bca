"""Each .crg file of this folder, through the graph driver (crg.c says what a file holds).

    ./dev test tests/text                a readable difference for each file that fails
    ./dev test tests/text --update       writes what comes out into the files
"""
import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def driver():
    found = pathlib.Path(os.environ.get("CRESSET_BUILD", "")) / "bin" / "crg"
    return str(found) if found.is_file() else shutil.which("crg")


@pytest.mark.parametrize("path", sorted(HERE.rglob("*.crg")), ids=lambda path: path.relative_to(HERE).as_posix())
def test_file(path, update):
    command = driver()
    assert command, "the driver bin/crg is not built: use ./dev test tests/text"
    done = subprocess.run([command, *(["--update"] if update else []), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
