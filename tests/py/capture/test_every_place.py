"""A sample of `./dev test --full breaks`: captures that end after every k instructions, for every k."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "full"))
import breaks  # noqa: E402

EVERY = breaks.functions()


def test_how_many():
    assert len(EVERY) >= 2000


@pytest.mark.parametrize("name", list(EVERY)[::37])
def test_as_plain(name):
    places, entries, wrong = breaks.check(name, *EVERY[name])
    assert not wrong and places and entries
