"""A seeded part of the abuse sweep (tests/full/abuse.py), for every change: each op of the table with a few bad calls,
a mutant of an archive of each, bad calls of abi.h, under the sanitizers. `./dev test --preset debug` runs it in the
build that is there."""
import importlib.util
import io
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from report import Report  # noqa: E402

SAMPLE = {"calls": 24_000, "archives": 1_500, "abi": 20_000}  # part: cases, some ten seconds of them each


def parts():
    spec = importlib.util.spec_from_file_location("abuse", HERE.parent / "full" / "abuse.py")
    sweep = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sweep)
    return sweep.PARTS


@pytest.mark.parametrize("name", SAMPLE)
def test_part(name, tmp_path):
    out = io.StringIO()
    report = Report(tmp_path / "abuse.json", jobs=os.cpu_count() or 1, folder=os.environ["CRESSET_BUILD"], out=out)
    report.begin(name)
    parts()[name][0](SAMPLE[name], 1, report)
    report.end()
    passed, failed = report.counts()
    assert not failed and passed >= SAMPLE[name], out.getvalue()[-20000:]
