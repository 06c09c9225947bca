"""tests/behaviour/telling_programs.py: programs that change the world between calls, compiled as plain."""
import pathlib
import sys
import warnings

import pytest

import cresset
from cresset import _C

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "behaviour"))
import telling_programs  # noqa: E402

SWITCHES = {"": {}, "guards miss once": {"miss_once": True}, "graphs fail": {"fail_graphs": True},
            "breaks": {"every": 4}, "stamps are compared": {"stamps": "compare"}, "stamps lie": {"stamps": "lie"}}


def compiled(function):
    return cresset.compile(function, backend="eager")


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("name", telling_programs.PROGRAMS)
def test_as_plain(name, switch):
    program = telling_programs.PROGRAMS[name]
    expected = program(lambda function: function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _C._capture_switches(**SWITCHES[switch])
        try:
            found = program(compiled)
            stale = _C._stale_stamps()
        finally:
            _C._capture_switches()
    assert found == expected and not stale
