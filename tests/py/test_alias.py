"""A sample of the alias matrix (tests/ops/alias_cells.py); `./dev test --full alias` has all of it."""
import pathlib
import random
import sys
import warnings

import pytest

import cresset

torch = pytest.importorskip("torch", reason="eager PyTorch is the oracle")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ops"))
import alias_cells  # noqa: E402

CELLS = list(alias_cells.cells())
MATRIX = alias_cells.MATRIX
SAMPLES = [(part, door) for part in ("matrix", "lists") for door in alias_cells.DOORS]


def test_the_matrix_is_whole():
    assert len(CELLS) > MATRIX and len(set(CELLS)) == len(CELLS)
    axes = [set(axis) for axis in zip(*CELLS[:MATRIX])]
    assert [len(axis) for axis in axes] == [9, 10, 2, 12, 2, 2]
    assert len(set(CELLS[:MATRIX])) == 9 * (9 * 2 + 1) * 12 * 2 * 2


def test_a_difference_is_seen():
    """The harness itself: other numbers, another error, another base are differences."""
    cell = alias_cells.Cell("y view of x", "x", "before", "view of input", "nothing", True)
    seen = alias_cells.seen_of(torch, alias_cells.run(torch, cell))
    other = alias_cells.seen_of(torch, alias_cells.run(torch, cell._replace(write="y")))
    assert not alias_cells.differences(seen, seen)
    assert any("values" in text for text in alias_cells.differences(seen, other))
    assert any("grad" in text for text in alias_cells.differences(seen, other))
    leaf = alias_cells.seen_of(torch, alias_cells.run(torch, cell._replace(inputs="leaf")))
    assert any(text.startswith("error") for text in alias_cells.differences(seen, leaf))
    assert any("base" in text for text in alias_cells.differences(seen, leaf))


@pytest.mark.parametrize("part, door", SAMPLES)
def test_sample(part, door):
    cells = CELLS[:MATRIX] if part == "matrix" else CELLS[MATRIX:]
    warnings.simplefilter("ignore")
    chosen = random.Random(13).sample(cells, 40 if door == "native" else 400)
    found = {alias_cells.name_of(cell): alias_cells.check(torch, cresset, cell, door) for cell in chosen}
    assert not {name: text for name, text in found.items() if text}
