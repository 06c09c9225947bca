"""Documentation is true: names of files and functions in it are those of the tree, every page is in the index, links
lead somewhere."""
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load():
    spec = importlib.util.spec_from_file_location("doc_names", ROOT / "tools" / "doc_names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def checker():
    tool = load()
    names = tool.tracked()
    words = tool.words_of(names)
    return lambda page, text: [message for _, message in tool.findings(page, text, names, words)]


def pages():
    return sorted(page for pattern in ("*.md", "docs/*.md", "src/*/README.md", "examples/**/*.md")
                  for page in ROOT.glob(pattern))


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_are_in_the_tree(checker, path):
    assert checker(path.relative_to(ROOT).as_posix(), path.read_text()) == []


@pytest.mark.parametrize("text, expected", [
    ("see `src/lower/lowering_of_old.c`", "there is no file"),
    ("see `no_such_file.py`", "there is no file"),
    ("call `cr_lower_" "everything`", "no source has the name"),
    ("set `CRESSET_NO_" "SUCH_VARIABLE`", "no source has the name"),
    ("then `walks_the_" "old_way` does it", "no source has the name"),
    ("| `run_steps` | `src/runtime/rt_block.c` | walks |", "has no `run_steps`"),
    ("| `rt_copy` | `src/runtime/rt_method.c` | is only called there |", "has no `rt_copy`"),
])
def test_a_stale_name_is_found(checker, text, expected):
    assert any(expected in message for message in checker("docs/architecture.md", text))


def test_the_walk_leads_to_the_kernel():
    """From the command line to the kernel, each function in the file that the page names."""
    rows = re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert len(rows) >= 25 and rows[0][0] == "main" and any(name.startswith("rt_k_") for name, _ in rows)
    folders = [path.split("/")[1] for _, path in rows]
    assert {"cli", "export", "archive", "lower", "passes", "emit", "runtime"} <= set(folders)
    seen = "".join((ROOT / path).read_text() for path in ("src/runtime/rt_model.h", "src/ops/table/products.inc"))
    for name, path in rows:  # each is named in a file that the walk has come through, or called by the emitted tables
        seen += (ROOT / path).read_text()
        assert len(re.findall(rf"\b{name}\b", seen)) > 1 or name == "main", f"nothing before it calls {name} ({path})"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    links = {page.name: f"({page.name})" for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"}
    links |= {f"../{page.name}": f"(../{page.name})" for page in ROOT.glob("*.md")}
    missing = [name for name, link in links.items() if link not in index]
    assert not missing, f"docs/README.md does not list {', '.join(missing)}"


def test_every_column_is_explained():
    row = re.search(r"typedef struct cr_row \{(.*?)\n\} cr_row;", (ROOT / "src/ops/op.h").read_text(), re.DOTALL)[1]
    fields = re.sub(r"/\*.*?\*/", "", row, flags=re.DOTALL)
    columns = [name for line in fields.split(";") for name in re.findall(r"(\w+)(?=\s*(?:,|$))", line.strip())]
    page = (ROOT / "docs" / "adding-an-op.md").read_text()
    missing = [name for name in columns if f"`.{name}`" not in page]
    assert len(columns) > 20 and not missing, f"docs/adding-an-op.md leaves out {', '.join(missing)}"


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
