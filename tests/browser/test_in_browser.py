"""E8: the pages of `explain` and `cresset view` in a real browser, Debian's package `chromium`
(./dev setup --browser)."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import headless  # noqa: E402

import cresset  # noqa: E402
import cresset._dynamo as dynamo  # noqa: E402
import cresset.nn as nn  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.skipif(not headless.find(), reason="NOT TESTED: no chromium: ./dev setup --browser"),
    pytest.mark.skipif(not dynamo.is_dynamo_supported(), reason="capture does not know this Python"),
]


@pytest.fixture(scope="module")
def open_page():
    with headless.browser() as opened:
        yield opened


def clean(page):
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("file:")] == [], "it loads something from elsewhere"


# ---- explain ----

def scaled(x, k):
    y = (x + 1).relu()
    print(end="")
    return y * k


def explained(path):
    dynamo.explain(scaled)(cresset.ones(3), 2.0).html(path)
    return path


def test_explain(open_page, tmp_path):
    page = open_page(explained(tmp_path / "page.html"))
    clean(page)
    assert page.value("document.title") == "explain(scaled)"
    first = scaled.__code__.co_firstlineno
    row = f"[...document.querySelectorAll('.source tr')].find(row => row.cells[0].textContent === '{first + 1}')"
    assert page.value(f"{row}.cells[1].textContent") == "    y = (x + 1).relu()"
    assert "graph 1 add.Tensor, relu" in page.value(f"{row}.cells[2].textContent")
    broken = row.replace(str(first + 1), str(first + 2))
    assert page.value(f"{broken}.className") == "break" and "print() is called" in page.value(f"{broken}.textContent")
    assert "aten.relu" in page.value("document.getElementById('graph-1').textContent")
    assert page.value("document.querySelectorAll('#graph-1 tbody tr').length") >= 3


def test_explain_by_keyboard(open_page, tmp_path):
    page = open_page(explained(tmp_path / "page.html"))
    page.press("n")
    assert "relu()" in page.value("document.activeElement.textContent")
    page.press("n")
    assert page.value("document.activeElement.className") == "break"
    page.press("p")
    assert page.value("document.activeElement.className") == "graph"
    page.press("b")
    assert page.value("document.activeElement.className") == "break"
    # from the top, Tab comes to the link, to each graph's button, and Enter on one opens and goes to its card
    page, seen = open_page(tmp_path / "page.html"), []
    for _ in range(12):
        page.press("Tab")
        seen.append(page.value("document.activeElement.textContent"))
        if seen[-1] == "graph 1":
            break
    assert "graph 1" in seen, seen
    page.press("Enter")
    assert page.value("document.activeElement.tagName") == "SUMMARY"
    assert page.value("document.getElementById('graph-1').open")


@pytest.mark.parametrize("dark", [False, True])
def test_colours_follow_the_system(open_page, tmp_path, dark):
    page = open_page(explained(tmp_path / "page.html"), dark=dark)

    def light(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
    ground, text = (light(page.value(f"getComputedStyle(document.body).{name}"))
                    for name in ("backgroundColor", "color"))
    assert (ground < 60 and text > 180) if dark else (ground > 200 and text < 80)


# ---- view ----

def cresset_view(archive, page, *words):
    subprocess.run(["cresset", "view", archive, "-o", page, *words], check=True, env=os.environ, capture_output=True)
    return page


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return cresset_view(ROOT / "examples/digits/digits.pt2", tmp_path_factory.mktemp("view") / "digits.html")


def test_view_by_search(open_page, digits):
    page = open_page(digits)
    clean(page)
    page.press("/")
    assert page.value("document.activeElement.id") == "search"
    page.type("conv2d")
    found = page.value("[...document.querySelectorAll('.row.hit')].map(row => row.textContent)")
    assert found and all("conv2d" in text for text in found)
    assert page.value("document.getElementById('count').textContent") == f"{len(found)} nodes"
    hidden = page.value("document.querySelectorAll('.row[hidden]').length")
    assert hidden > 10
    page.press("Enter")
    assert "conv2d" in page.value("document.activeElement.textContent")
    assert "aten.conv2d" in page.value("document.querySelector('aside').textContent")
    page.press("/")
    page.press("Escape")
    assert page.value("document.querySelectorAll('.row[hidden]').length") == 0


def test_view_by_keyboard(open_page, digits):
    page = open_page(digits)
    for _ in range(8):
        page.press("Tab")
        if page.value("document.activeElement.getAttribute('role')") == "row":
            break
    assert page.value("document.activeElement.getAttribute('aria-level')") == "1"
    page.press("ArrowLeft")
    assert page.value("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.press("ArrowRight")
    page.press("ArrowDown")
    assert "image" in page.value("document.activeElement.textContent")
    assert "float32[s40, 8, 8]" in page.value("document.querySelector('aside').textContent")
    page.press("ArrowLeft")
    assert page.value("document.activeElement.getAttribute('aria-level')") == "1"
    page.press("End")
    last = page.value("document.activeElement.textContent")
    assert page.value("[...document.querySelectorAll('.row')].pop().textContent") == last
    page.press("Home")
    assert "inputs" in page.value("document.activeElement.textContent")


def test_view_is_walked_at_once(open_page, digits):
    page = open_page(digits)
    page.press("ArrowDown")  # nothing has the focus yet
    assert "inputs" in page.value("document.activeElement.textContent")
    page.press("/")
    page.type("relu_2")
    page.press("ArrowDown")
    assert page.value("document.activeElement.getAttribute('role')") == "row"


@pytest.mark.parametrize("width", [420, 800])
def test_small_windows(open_page, tmp_path, digits, width):
    page = open_page(explained(tmp_path / "page.html"), width=width, height=700)
    assert page.value("document.documentElement.scrollWidth") <= width
    if width < 700:  # what is said of a line stands below it
        cell = "document.querySelector('.source tr.break').cells[{}].getBoundingClientRect()".format
        assert page.value(f"{cell(2)}.top >= {cell(1)}.bottom")
    page = open_page(digits, width=width, height=700)
    assert page.value("document.documentElement.scrollWidth") <= width
    page.press("ArrowDown", 20)
    place = "document.activeElement.getBoundingClientRect()"
    top, bottom = page.value(f"{place}.top"), page.value(f"{place}.bottom")
    assert top >= page.value("document.querySelector('.bar').getBoundingClientRect().bottom") - 1
    assert bottom <= page.value("document.querySelector('aside').getBoundingClientRect().top") + 1


class Deep(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        for _ in range(self.n):
            x = x + 1
        return x


def test_view_of_5000_nodes(open_page, tmp_path):
    """All are drawn, and the keyboard comes to each; the time is printed."""
    program = cresset.export.export(Deep(5000), (cresset.ones(2),))
    cresset.export.save(program, tmp_path / "deep.pt2")
    page = open_page(cresset_view(tmp_path / "deep.pt2", tmp_path / "deep.html"))
    clean(page)
    drawn = page.value("document.getElementById('main').dataset.drawn")
    print(f"\n5,002 nodes: drawn in {drawn} ms, painted {page.seconds:.2f} s after the page was asked for")
    assert page.value("document.querySelectorAll('.row:not(.folder):not(.head)').length") == 5002
    # none is hidden, and the arrow leads from a node to the next one (asked of every 97th: each step is drawn)
    lost = page.value("""(() => {
        const rows = [...document.querySelectorAll('#tree .row:not(.head)')], lost = rows.filter(row => row.hidden).length;
        const nodes = rows.filter((row, i) => !row.classList.contains('folder') && i + 1 < rows.length && i % 97 === 2);
        return lost + nodes.filter(row => {
            row.click();
            row.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
            return document.activeElement !== rows[rows.indexOf(row) + 1];
        }).length;
    })()""")
    assert lost == 0
    page.press("/")
    page.type("add_4321")
    assert page.value("document.getElementById('count').textContent") == "1 node"


HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>\u2028&amp;"


def test_texts_stay_texts(open_page, tmp_path):
    data = json.loads(dynamo.explain(scaled)(cresset.ones(3), 2.0).json())
    data["title"] = data["sections"][0]["file"] = data["graphs"][0]["text"] = HOSTILE
    data["sections"][0]["lines"][0]["text"] = data["graphs"][0]["guards"][0]["text"] = HOSTILE
    (tmp_path / "hostile.html").write_text(cresset._C._page(HOSTILE, json.dumps(data)))
    page = open_page(tmp_path / "hostile.html")
    assert page.errors == [] and page.value("typeof window.owned") == "undefined"
    assert page.value("document.querySelector('h1').textContent") == HOSTILE
    assert page.value("document.querySelectorAll('img').length") == 0
