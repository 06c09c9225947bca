"""What follows from the op table and is kept in the repository is what the table says today."""
import ast
import pathlib
import subprocess
import sys

import cresset
import pytest
from cresset import _gen

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("what, path", [("docs", "docs/ops.md"), ("stubs", "python/cresset/__init__.pyi")],
                         ids=["docs", "stubs"])
def test_is_up_to_date(what, path, tmp_path):
    """In a process of its own: graphs that other tests made here may have registered the ops of regions, which are not
    rows of the table."""
    subprocess.run([sys.executable, "-m", "cresset._gen", what, str(tmp_path / "made")], check=True,
                   stdout=subprocess.DEVNULL)
    assert (ROOT / path).read_text() == (tmp_path / "made").read_text(), (
        f"{path} is older than the op table: run ./dev gen")


def test_page_of_names_is_up_to_date(tmp_path):
    pytest.importorskip("torch", reason="PyTorch's names are asked of PyTorch")
    subprocess.run([sys.executable, str(ROOT / "tools" / "names.py"), str(tmp_path / "made")], check=True)
    assert (ROOT / "docs" / "names.md").read_text() == (tmp_path / "made").read_text(), (
        "docs/names.md is older than the package: run ./dev gen")


def test_recorded_overloads_are_pytorchs(tmp_path):
    pytest.importorskip("torch", reason="PyTorch's overloads are asked of PyTorch")
    subprocess.run([sys.executable, str(ROOT / "tools" / "aten.py"), str(tmp_path / "made")], check=True)
    assert (ROOT / "tools" / "aten.txt").read_text() == (tmp_path / "made").read_text(), (
        "tools/aten.txt is older than the op table: run ./dev gen")


ROWS = {"aten::relu": ("text", "rule", "formula", "fused"), "aten::nonzero": ("kernel", "new sizes", "none", "kernel"),
        "aten::sum.dim_IntList": ("kernel", "rule", "formula", "kernel, fused"),
        "aten::transpose.int": ("view", "rule", "formula", "no code"),
        "aten::reshape": ("view or kernel", "rule", "formula", "no code or kernel"),
        "aten::is_set_to": ("rule", "rule", "none", "no code"),
        "aten::linalg_ldl_solve": ("kernel", "rule", "none", "kernel"),
        "aten::linalg_svdvals": ("parts", "parts", "formula", "parts"),
        "aten::gradient.array": ("parts", "parts", "parts", "parts"),
        "aten::resize_as_": ("meta", "rule", "none", "no code")}


@pytest.mark.parametrize("name", ROWS)
def test_columns_say_what_the_row_is(name):
    row = cresset._C._row(name)
    assert (_gen.eager(row), _gen.fake(row), _gen.grad(row, False), _gen.native(row)) == ROWS[name]


def test_a_derivative_that_only_pytorch_has_is_missing():
    row = dict(cresset._C._row("aten::linalg_ldl_solve"))
    assert _gen.grad(row, True) == "missing"
    assert _gen.grad({**row, "grad": "LD: not_implemented(grad); B: grad"}, True) == "formula"


def test_dtypes_in_letters():
    assert _gen.dtypes("aten::linalg_ldl_solve") == "fc" and _gen.dtypes("aten::clone") == "all"
    assert _gen.dtypes("aten::binary_cross_entropy") == "hf"


def test_stubs_name_what_the_package_has():
    """The stubs are Python, and every name in them exists."""
    tree = ast.parse(_gen.stubs())
    names = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names += [node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)]
    assert len(names) > 500
    assert [name for name in names if not hasattr(cresset, name)] == []
    tensor = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    methods = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    assert [name for name in methods if not hasattr(cresset.Tensor, name)] == []


def test_page_stays_readable():
    assert len(_gen.docs()) < 300_000
