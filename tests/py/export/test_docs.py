"""The code of docs/export.md runs as it says, in the order of the page."""
import os
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "export.md"
TAIL = "## Loading"  # from there on the page needs files of the reader's


def _blocks():
    text = PAGE.read_text().partition(TAIL)[0]
    for found in re.finditer(r"```python( [^\n]*)?\n(.*?)```", text, re.S):
        options = dict(re.findall(r'(\w+)="?([^"\n]*?)"?(?= \w+=|$)', (found[1] or "").strip()))
        yield options, found[2], text[: found.start()].count("\n") + 2


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    errors = 0
    for options, code, line in _blocks():
        source = compile("\n" * (line - 1) + code, str(PAGE), "exec", dont_inherit=True)
        if "error" not in options:
            exec(source, names)
            continue
        errors += 1
        with pytest.raises(Exception) as raised:
            exec(source, names)
        assert options["error"] in [cls.__name__
                                    for cls in type(raised.value).__mro__], f"line {line}: {raised.value!r}"
        assert options["says"] in str(raised.value), f"line {line}: {raised.value}"
    assert errors == 10
    assert os.path.exists("classifier.pt2")
