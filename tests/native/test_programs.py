"""P4: a seeded part of `./dev test --full native`: programs that PyTorch exported, compiled and called through
abi.h."""
import pathlib
import random
import sys
import warnings

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
torch = pytest.importorskip("torch", reason="without the oracle, test_native.py has what can be checked")

import checking  # noqa: E402
import programs  # noqa: E402
import programs_native  # noqa: E402

SAMPLE = random.Random(5).sample([(p.name, dialect) for p in programs.programs() for dialect in p.dialects], 20)


@pytest.mark.parametrize("name, dialect", SAMPLE, ids=[".".join(pair) for pair in SAMPLE])
def test_program(name, dialect, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = checking.make(programs.TABLE[name], dialect, tmp_path)
    assert programs_native.difference(archive, tmp_path) is None
