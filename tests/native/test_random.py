"""P4: a seeded part of `./dev test --full random_graphs`."""
import pathlib
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the programs are made with the oracle")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import random_programs  # noqa: E402


@pytest.mark.parametrize("first", (5000, 5020, 5040))
def test_random(first, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = random_programs.check(range(first, first + 20), tmp_path)
    assert [(number, text) for number, outcome, text in found if outcome == "differs"] == []
    assert sum(outcome == "equal" for _, outcome, _ in found) >= 15


def test_programs_that_were_wrong_once(tmp_path):
    """21: a mutation through a view; 52: nothing but constants; 184: the diagonal of either order; 227: a number that only a run knows; 7059: a result
    whose strides decomposing changes."""
    for number in (21, 52, 184, 227, 7059):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert random_programs.check([number], folder) == [(number, "equal", "")]


def test_the_check_notices_a_wrong_result(tmp_path):
    program = random_programs.grow(5001)
    assert random_programs.export(program, tmp_path / "p.pt2")
    right, written = program.wanted[0]
    wrong = [random_programs.agreement.Tensor(w.dtype, w.array + (1 if w.array.dtype != bool else True)) for w in right]
    assert random_programs.compared(program, "nobody", 0, right, written) is None
    assert "nobody, call 0" in random_programs.compared(program, "nobody", 0, wrong, written)
