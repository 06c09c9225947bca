"""E8: `explain` as text, JSON and page; `cresset explain` and `cresset view`. What browsers make of the pages is in
tests/browser."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import cresset
import cresset._dynamo as dynamo
import cresset.nn as nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
captures = pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python")


def tool(*words, code=0, **options):
    environment = {**os.environ, "CRESSET_PYTHON": sys.executable, **options.pop("env", {})}
    done = subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, env=environment, timeout=120,
                          **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def data_of(page):
    """The JSON in a page, which nothing in it can end early."""
    text = pathlib.Path(page).read_text()
    found = re.search(r'<script type="application/json" id="data">([^<]*)</script>', text)
    assert found and not re.search(r"(?:src|href)=.?https?:", text)
    return json.loads(found[1])


# ---- explain(f)(*args) ----

def stepped(x, n):
    for _ in range(n):
        x = x + 1
        print(end="")
    return x * 2


@captures
def test_explain_as_data():
    found = dynamo.explain(stepped)(cresset.ones(3), 4)
    data = json.loads(found.json())
    assert data == json.loads(json.dumps(found.data)) and data["kind"] == "explain"
    first = stepped.__code__.co_firstlineno
    broken = {(b["file"].rsplit("/")[-1], b["line"]): b["reason"] for b in data["breaks"]}
    assert "print() is called" in broken["test_pages.py", first + 3]
    lines = {line["n"]: line for section in data["sections"] for line in section["lines"]}
    assert lines[first + 2]["text"] == "        x = x + 1" and lines[first + 2]["graphs"][0]["ops"] == ["add.Tensor"]
    assert lines[first + 3]["breaks"] and lines[first + 4]["graphs"][-1]["ops"] == ["mul.Tensor"]
    for graph in data["graphs"]:
        assert graph["capture_seconds"] > 0 and graph["run_seconds"] > 0 and graph["ops"] >= 1
        assert graph["guards"] and all(guard["text"] for guard in graph["guards"])


@captures
def test_guards_are_counted():
    compiled = cresset.compile(lambda x, up: x + 1 if up else x - 1, backend="eager")
    for up in (True, False, True, True):
        compiled(cresset.ones(1), up)
    from cresset._dynamo import report
    newest, oldest = report.describe(compiled._entries(), "counts")["graphs"]
    assert (newest["hits"], oldest["hits"]) == (0, 2)
    # the second call asks the first entry, both later ones ask the newer one first
    failed = {guard["text"]: guard["failed"] for guard in newest["guards"] if guard["failed"]}
    assert failed == {"up is False": 2}
    counts = {guard["text"]: (guard["held"], guard["failed"]) for guard in oldest["guards"]}
    assert counts["up is True"] == (2, 1)
    before = [guard for guard in oldest["guards"] if guard["text"].startswith("x has")]
    assert all(guard["held"] == 3 and not guard["failed"] for guard in before)


@captures
def test_explain_as_page(tmp_path):
    found = dynamo.explain(stepped)(cresset.ones(3), 2)
    assert found.html(tmp_path / "page.html") is None
    assert data_of(tmp_path / "page.html") == json.loads(found.json())
    assert found.html() == (tmp_path / "page.html").read_text()
    with pytest.raises(OSError):
        found.html(tmp_path / "nowhere" / "page.html")


@captures
def test_nodes_know_their_lines():
    def inner(x):
        return x.relu()

    def outer(x):
        return inner(x) + 1
    compiled = cresset.compile(outer, backend="eager", fullgraph=True)
    compiled(cresset.ones(2))
    relu, add = (node["origin"][0] for node in compiled._entries()[0]["graph"].nodes if node["kind"] == "call")
    places = [tuple(map(int, re.findall(r"line (\d+)", stack))) for stack in (relu, add)]
    assert places == [(outer.__code__.co_firstlineno + 1, inner.__code__.co_firstlineno + 1),
                      (outer.__code__.co_firstlineno + 1,)]
    layer = cresset.compile(nn.Linear(2, 2), backend="eager")
    layer(cresset.ones(1, 2))
    entry = layer.__dict__["_compiled"]._entries()[0]
    assert [node["origin"][0] for node in entry["graph"].nodes if node["kind"] == "call"][0].count("File") == 1


# ---- cresset explain ----

SCRIPT = """
import sys
import cresset

@cresset.compile(backend="eager")
def f(x):
    y = x + 1
    print("said", y.tolist())
    return y * 2

for n in (2, 2, 3):
    f(cresset.ones(n))
print(sys.argv[1:])
sys.exit(int(sys.argv[2]))
"""


@captures
def test_a_script_is_explained(tmp_path):
    (tmp_path / "job.py").write_text(SCRIPT)
    done = tool("explain", "job.py", "--json", "3", cwd=tmp_path, code=3)  # what follows the script is the script's
    assert "said [2.0, 2.0]" in done.stdout and "['--json', '3']" in done.stdout
    assert "wrote job.html" in done.stderr
    data = data_of(tmp_path / "job.html")
    assert data["title"] == "job.py" and [section["file"] for section in data["sections"]] == ["job.py"]
    assert any(graph["hits"] for graph in data["graphs"]) and data["breaks"]
    tool("explain", "--json", "-o", "other.json", "job.py", "x", "0", cwd=tmp_path)
    assert json.loads((tmp_path / "other.json").read_text())["breaks"] == data["breaks"]


@captures
def test_a_script_that_fails_or_compiles_nothing(tmp_path):
    (tmp_path / "bad.py").write_text("import cresset\ncresset.compile(lambda x: x + 1)(cresset.ones(1))\n"
                                     "raise KeyError('k')\n")
    done = tool("explain", "bad.py", cwd=tmp_path, code=1)
    assert "KeyError: 'k'" in done.stderr and data_of(tmp_path / "bad.html")["graphs"]
    (tmp_path / "plain.py").write_text("print('x')\n")
    done = tool("explain", "plain.py", cwd=tmp_path)
    assert "no function was compiled" in done.stderr and data_of(tmp_path / "plain.html")["graphs"] == []
    assert "there is no such file" in tool("explain", "missing.py", cwd=tmp_path, code=1).stderr
    lost = tool("explain", "bad.py", cwd=tmp_path, code=1, env={"CRESSET_PYTHON": "no_python"})
    assert "set CRESSET_PYTHON to a Python" in lost.stderr
    assert "needs SCRIPT" in tool("explain", code=2).stderr


REFUSED = {  # what is given, what is said
    ("missing.py",): "missing.py: there is no such file; give a Python script",
    ("folder",): "folder: is a folder; give a Python script",
    ("model.pt2",): "model.pt2: is no Python script; 'cresset view' shows archives",
    ("-o", "folder", "job.py"): "folder: is a folder; name a file with -o, before the script",
    ("-o", "no/such/page.html", "job.py"): "no/such/page.html: there is no folder no/such; make it",
    ("job.html",): "job.html: the report would replace the script; name another file with -o",
}


@captures
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_explain_refuses_before_anything_runs(tmp_path, words):
    (tmp_path / "folder").mkdir()
    for name in ("job.py", "job.html", "model.pt2"):
        (tmp_path / name).write_text("open('ran', 'w')\n")
    done = tool("explain", *words, cwd=tmp_path, code=1)
    assert done.stderr.startswith(f"cresset: {REFUSED[words]}") and done.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists() and (tmp_path / "job.html").read_text() == "open('ran', 'w')\n"


@captures
def test_scripts_fail_as_they_do_alone(tmp_path):
    scripts = {"raises.py": ("def f():\n    raise ValueError('mine')\nf()\n", 1), "syntax.py": ("def f(:\n", 1),
               "exits.py": ("import sys\nsys.exit('a message')\n", 1),
               "wörter.py": ("import sys\nprint(sys.stdin.read(), sys.argv[1:])\nsys.exit(7)\n", 7)}
    for name, (text, code) in scripts.items():
        (tmp_path / name).write_text(text)
        done = tool("explain", name, "a", "-o", cwd=tmp_path, code=code, input="given")
        alone = subprocess.run([sys.executable, name, "a", "-o"], cwd=tmp_path, capture_output=True, text=True,
                               input="given")
        said, rest = done.stderr.split("\n", 1)
        assert said.startswith(f"cresset: wrote {name[:-3]}.html") and done.stdout == alone.stdout
        alone_text = alone.stderr.replace(f"{tmp_path}{os.sep}", "")
        assert rest == alone_text and alone.returncode == code
    full = tool("explain", "-o", "/dev/full", "--json", "exits.py", cwd=tmp_path, code=1)
    assert full.stderr == ("cresset: /dev/full: No space left on device; name another file with -o, before the script\n"
                           "a message\n")


def test_a_python_without_the_package(tmp_path):
    (tmp_path / "job.py").write_text("1\n")
    done = tool("explain", "job.py", cwd=tmp_path, code=1, env={"PYTHONPATH": "", "PYTHONNOUSERSITE": "1"})
    assert "has no package cresset: install it there, or set CRESSET_PYTHON" in done.stderr


# ---- cresset view ----

def test_the_page_does_not_replace_the_archive(tmp_path):
    archive = tmp_path / "digits.pt2"
    archive.write_bytes((ROOT / "examples" / "digits" / "digits.pt2").read_bytes())
    done = tool("view", "digits.pt2", "-o", "./digits.pt2", cwd=tmp_path, code=1)
    assert done.stderr == "cresset: digits.pt2: the page would replace the archive; name another file with -o\n"
    assert archive.read_bytes() == (ROOT / "examples" / "digits" / "digits.pt2").read_bytes()


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)
        self.register_parameter("a</script><b>&", nn.Parameter(cresset.ones(2)))

    def forward(self, x):
        return self.inner(x) * getattr(self, "a</script><b>&")


def test_view(tmp_path):
    cresset.export.save(cresset.export.export(Named(), (cresset.ones(3, 4),)), tmp_path / "named.pt2")
    assert tool("view", "named.pt2", cwd=tmp_path).stdout == "named.html\n"
    data = data_of(tmp_path / "named.html")
    nodes = {node["name"]: node for node in data["nodes"]}
    weight = nodes["p_inner_weight"]
    assert (weight["group"], weight["module"], weight["target"], weight["bytes"], weight["type"]) == \
        ("weights", "inner", "inner.weight", 32, "float32[2, 4]")
    assert "a</script><b>&" in [node.get("target") for node in data["nodes"]]
    linear = nodes["linear"]
    assert (linear["op"], linear["group"], linear["module"]) == ("aten::linear", "calls", "inner")
    assert linear["text"] == "aten.linear(%x, %p_inner_weight, %p_inner_bias)" and linear["inputs"][0] == "x"
    assert nodes["mul"]["module"] == "" and "return self.inner(x) * getattr" in nodes["mul"]["source"]
    assert nodes["x"]["group"] == "inputs" and data["nodes"][-1]["group"] == "outputs"
    assert "not profiled" in data["facts"]


def test_view_with_times(tmp_path):
    tool("view", ROOT / "examples/digits/digits.pt2", "--profile", "-o", tmp_path / "digits.html")
    data = data_of(tmp_path / "digits.html")
    timed = [node for node in data["nodes"] if node.get("seconds")]
    total = sum(node["seconds"] for node in timed)
    assert len(timed) > 3 and abs(total - data["seconds"]) < 1e-6 + data["seconds"] / 100
    assert any(node["op"].startswith("aten::") for node in timed)


def test_view_of_subgraphs(tmp_path):
    class Branches(nn.Module):
        def forward(self, x):
            return cresset.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    cresset.export.save(cresset.export.export(Branches(), (cresset.ones(3),)), tmp_path / "cond.pt2")
    tool("view", "cond.pt2", cwd=tmp_path)
    groups = {node["op"]: node["group"] for node in data_of(tmp_path / "cond.html")["nodes"]}
    assert groups["aten::sin"] != groups["aten::cos"] and groups["aten::sum"] == "calls"


def test_view_refuses(tmp_path):
    assert "no such file" in tool("view", "nothing.pt2", cwd=tmp_path, code=1).stderr.lower()
    digits = ROOT / "examples/digits/digits.pt2"
    assert tool("view", digits, "-o", tmp_path / "no" / "page.html", code=1).stderr.count("\n") == 1
    assert not (tmp_path / "no").exists()
    subprocess.run(["cresset", "compile", digits, "-o", tmp_path / "libdigits.so"], check=True, capture_output=True)
    assert "give the archive" in tool("view", tmp_path / "libdigits.so", code=1).stderr
