"""The code of docs/optim.md runs as it says, and PyTorch loads what it saves."""
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "optim.md"


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(code, names)
    state = names["torch"].load("checkpoint.pt")
    assert state["optimizer"]["state"][0]["step"].item() == state["scheduler"]["last_epoch"] == 200
