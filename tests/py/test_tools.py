"""The tools that judge everything else: each lint rule finds a planted fault, and the tally counts what really ran."""
import importlib.util
import json
import pathlib

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def load(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FAULTS = [
    ("src/base/x.c", '#include "graph/graph.h"', "src/base is below src/graph"),
    ("src/runtime/x.c", '#include "base/base.h"', "src/runtime includes nothing of ours"),
    ("src/graph/x.c", "#include <Python.h>", "Python.h belongs to"),
    ("src/novel/x.c", '#include "base/base.h"', "not in the order of layers"),
    ("include/cresset/x.h", '#include "base/base.h"', "a public header"),
    ("src/ops/rules_view.c", "    if (m->size[0] == 1) return CR_OK;", "a raw comparison of a size"),
    ("src/ops/rules_view.c", "    if (1 < m->size[i]) return CR_OK;", "a raw comparison of a size"),
    ("src/base/x.c", "char* name;", "write pointers"),
    ("src/base/x.c", "    if(x) return;", "a space before the parenthesis"),
    ("src/base/x.c", "\tint x;", "a tab"),
    ("src/base/x.c", "int x; ", "spaces at the end"),
    ("src/base/x.c", "int " + "x" * 200 + ";", "columns"),
    ("src/base/x.c", "/* TO" "DO: later */", "condition that ends it"),
    ("docs/x.md", "see /ho" "me/someone/file", "a path of one machine"),
    ("tests/data/x.npz", "saved in /ro" "ot/file", "a path of one machine"),
    ("src/base/x.c", "\n" * 1300, "split it"),
    ("src/python/x.c", "static py_tracer *active; /* the one that records */", "a variable that threads share"),
    ("src/python/x.c", "    static PyObject *kept_file, *kept_text;", "a variable that threads share"),
    ("src/python/x.c", "static _Thread_local bool running = true;", "a variable that threads share"),
    ("src/python/x.c", "const cr_py_op *cr_py_calling;", "a variable that threads share"),
    ("src/trace/x.c", "    static uint32_t last;", "a variable that threads share"),
    ("src/trace/x.c", "static int table[4] = { 0 };", "a variable that threads share"),
    ("src/trace/x.c", "static const char *last_name;", "a variable that threads share"),
    ("python/cresset/x.py", "def compile(f, same_signature=True):\n    return f()",
     "compile() never reads 'same_signature'"),
    ("python/cresset/x.py", "class A:\n    def __init__(self, *args, **kwargs):\n        super().__init__(*args)",
     "never reads 'kwargs'"),
    ("python/cresset/x.py", "def f(a, b):  # unused a: for no reason\n    return 1", "never reads 'b'"),
]
CLEAN = [
    ("src/graph/x.c", '#include "base/base.h"\n#include "graph/graph.h"\n#include <stdio.h>'),
    ("src/python/x.c", '#include <Python.h>\n#include "ops/op.h"'),
    ("src/ops/rules_view.c",
     "    out->size[0] = in->size[1];\n    for (int i = 0; i < m->rank; i++) out->size[i] = 1;"),
    ("src/ops/kernel.c", "    if (m->size[0] == 1) return CR_OK;"),
    ("src/base/x.c", "/* TO" "DO until export has environments: pass NULL */"),
    ("src/python/x.c", "static PyMethodDef functions[] = {\n    static char *names[] = { \"a\", NULL };\n    static "
     "const cr_op *detach;\nstatic int f(int x) { return x; }"),
    ("src/python/x.c", "static PyObject *registry; /* process: type -> tuple */\nextern PyTypeObject "
     "*cr_py_tensor_type;\nstatic int g(void);\nint cr_py_f(void);"),
    ("src/trace/x.c", "    static const cr_type types[] = { 1 };\n    static const char *const names[] = { \"a\" "
     "};\nstatic const struct { int a; } rows[] = { { 1 } };"),
    ("src/ops/x.c", "static int count;"),
    ("python/cresset/x.py", "def f(a, b, _c):  # unused b: numbers are the same either way\n    return a"),
    ("python/cresset/x.py", "def f(a):\n    \"\"\"Text.\"\"\"\n    raise NotImplementedError('f(a)')"),
    ("python/cresset/x.py", "class A:\n    def __exit__(self, *error):\n        self.x = 1"),
]


def findings(lint, root, path, text):
    lint.ROOT = root
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(text + "\n")
    return [message for _, message in lint.check(pathlib.Path(path))]


@pytest.mark.parametrize("path, text, expected", FAULTS)
def test_lint_finds(tmp_path, path, text, expected):
    assert any(expected in message for message in findings(load("lint"), tmp_path, path, text))


@pytest.mark.parametrize("path, text", CLEAN)
def test_lint_accepts(tmp_path, path, text):
    assert findings(load("lint"), tmp_path, path, text) == []


def test_tally_adds_up(tmp_path, capsys):
    tally = load("tally")
    (tmp_path / "a.xml").write_text(
        '<testsuites><testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"><failure/></testcase>'
        '<testcase name="c"><skipped/></testcase></testsuite></testsuites>')
    (tmp_path / "b.json").write_text(json.dumps({"passed": 7, "failed": 0}))
    assert tally.main([tmp_path]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "8 passed, 1 failed"


def test_tally_of_nothing_is_a_failure(tmp_path):
    assert load("tally").main([tmp_path]) == 1
