"""X1, X3, X10: a seeded part of `./dev test --full export`."""
import pathlib
import sys
import warnings

import pytest

pytest.importorskip("torch", reason="the programs are written with PyTorch's helpers")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import random_exports  # noqa: E402


@pytest.mark.parametrize("first", (7000, 7010, 7020))
def test_random(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(number, *random_exports.check(number)) for number in range(first, first + 10)]
    assert [(number, text) for number, outcome, text, _ in found if outcome == "differs"] == []
    assert sum(accepted for *_, accepted in found) >= 15
