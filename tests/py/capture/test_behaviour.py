"""A sample of `./dev test --full behaviour`: every program of some families, and every ninth of the others."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "full"), str(ROOT / "tests" / "behaviour")]
import behaviour  # noqa: E402
import behaviour_programs  # noqa: E402

EVERY = behaviour_programs.programs()
WHOLE = ("sent.", "containers.")
SAMPLE = [name for i, name in enumerate(EVERY) if i % 9 == 0 or name.startswith(WHOLE)]
RECORDED = dict(line.split(" ", 1) for line in behaviour.RECORDED.read_text().splitlines())


def test_how_many():
    assert len(EVERY) >= 900
    assert set(EVERY) == set(RECORDED)


@pytest.mark.parametrize("name", SAMPLE)
def test_as_plain(name):
    kind, wrong = behaviour.check(EVERY[name])
    assert not wrong
    assert behaviour.recorded("{} {} {}".format(*kind)) == behaviour.recorded(RECORDED[name]), kind[3]


def test_data_dependent_branch_says_what_to_do():
    import cresset

    def f(a):
        if a.sum() > 0:
            return a
        return -a
    with pytest.raises(cresset._dynamo.exc.Unsupported, match=r"test_behaviour.py:\d+ in .*this branch.*cresset.cond"):
        cresset.compile(f, fullgraph=True)(cresset.ones(2))
