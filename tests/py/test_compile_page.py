"""docs/compile.md: its code runs, from top to bottom; the names in its tables are there."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import cresset
import cresset._dynamo as dynamo

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "compile.md"


@pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
def test_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 6
    scope = {"__name__": "page"}
    try:
        for i, block in enumerate(blocks):
            path = tmp_path / f"block_{i}.py"
            path.write_text(block)
            exec(compile(block, str(path), "exec"), scope)
    finally:
        cresset._compile._backends.pop("keeps", None)
    assert (tmp_path / "report.html").exists()


def test_settings_are_those_of_the_page():
    table = PAGE.read_text().split("| `cresset._dynamo.config` |")[1].split("\n\n")[0]
    named = {name for cell in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", cell)}
    assert named == {*dynamo.config._checks, *dynamo.config._other_names}


def test_names_are_there():
    names = {"lookup_backend", "register_backend", "reset_code", "remove_from_cache", "mark_static"}
    for name in names | set(re.findall(r"`_dynamo\.([\w.]+)", PAGE.read_text())):
        found = dynamo
        for part in name.split("."):
            found = getattr(found, part)
    for name in re.findall(r"`torch\.compiler\.(\w+)", PAGE.read_text()):
        assert hasattr(cresset.compiler, name), name


SCRIPTS = sorted((PAGE.parent / "explain").glob("*.py"))


@pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_and_their_pages(script, tmp_path):
    """The page that is kept shows the script that is kept; running it now gives a page of the same lines."""
    def data_of(page):
        return json.loads(re.search(r'id="data">([^<]*)</script>', page.read_text())[1])
    kept = data_of(script.with_suffix(".html"))
    lines = script.read_text().splitlines()
    shown = [line["text"] for line in kept["sections"][0]["lines"]]
    assert kept["title"] == script.name and shown == lines and len(SCRIPTS) == 5
    assert script.with_suffix(".html").stat().st_size < 100_000 and f"explain/{script.name}" in PAGE.read_text()
    done = subprocess.run(["cresset", "explain", "-o", tmp_path / "page.html", script], capture_output=True, text=True,
                          cwd=script.parent, env={**os.environ, "CRESSET_PYTHON": sys.executable})
    assert done.returncode == 0, done.stderr
    made = data_of(tmp_path / "page.html")
    assert [line["text"] for line in made["sections"][0]["lines"]] == lines and (made["graphs"] or made["plain"])
