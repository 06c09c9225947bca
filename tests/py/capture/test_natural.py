"""A sample of `./dev test --full natural`: functions in which captures end by themselves."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "full"))
import behaviour  # noqa: E402
import natural  # noqa: E402
import natural_breaks  # noqa: E402

EVERY = natural_breaks.programs()
RECORDED = natural.read_recorded()


def test_how_many():
    assert len(EVERY) >= 300 and set(EVERY) == set(RECORDED)
    breaking = [name for name, cells in RECORDED.items() if not cells[natural.VERSION].endswith("/0")]
    assert len(breaking) >= 300


@pytest.mark.parametrize("name", list(EVERY)[::13] + [name for name in EVERY if name.startswith("breaks.print.")])
def test_as_plain(name):
    assert not behaviour.check(EVERY[name])[1]
    assert natural.count(EVERY[name])[0] == RECORDED[name][natural.VERSION]
