"""X1-X10, P1: a seeded part of `./dev test --full roundtrip`: programs written once, exported by both libraries, ours
loaded by PyTorch."""
import pathlib
import random
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch loads what is exported here")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import both  # noqa: E402
import checks  # noqa: E402
import cresset  # noqa: E402

NAMES = [p.name for p in both.load("torch").TABLE.values() if "training" in p.dialects]
SAMPLE = random.Random(6).sample(NAMES, 14)


@pytest.fixture(scope="module", params=SAMPLE)
def pair(request, tmp_path_factory):
    """(name, path of the archive saved here, PyTorch's archive)"""
    folder = tmp_path_factory.mktemp("archives")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = checks.checking.make(both.load("torch").TABLE[request.param], "training", folder)
        cresset.export.save(checks.export("cresset", request.param), folder / "ours.pt2")
        yield request.param, folder / "ours.pt2", archive


def test_pytorch_runs_it(pair):
    assert checks.loaded(*pair) is None


def test_pytorch_exports_it_again(pair):
    assert checks.exported_again(*pair[:2]) is None


def test_signature_and_sizes(pair):
    mine, theirs = cresset.export.load(pair[1]), torch.export.load(pair[2].path)
    assert checks.signature(pair[0], mine, theirs) is None
    assert checks.ranges(pair[0], mine, theirs) is None


def test_there_are_enough_programs():
    table = both.load("torch").TABLE.values()
    assert len(table) >= 150 and sum(p.dynamic is not None for p in table) >= 30


def test_decomposed_it_has_the_same_calls(pair, tmp_path):
    name = pair[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = checks.checking.make(both.load("torch").TABLE[name], "core", tmp_path)
        assert checks.operations(name, checks.export("cresset", name).run_decompositions(), core.path) is None


def test_the_checks_notice_what_differs():
    a = torch.export.export(torch.nn.Linear(3, 4), (torch.ones(2, 3),))
    assert checks.signature("", a, a) is None and checks.ranges("", a, a) is None
    c = torch.export.export(torch.nn.Linear(3, 4, bias=False), (torch.ones(2, 3),))
    assert "bias" in checks.signature("", c, a)
    d = torch.export.export(torch.nn.Linear(3, 4), (torch.ones(2, 3),),
                            dynamic_shapes=({0: torch.export.Dim("n", max=9)},))
    e = torch.export.export(torch.nn.Linear(3, 4), (torch.ones(2, 3),),
                            dynamic_shapes=({0: torch.export.Dim("n", max=8)},))
    assert "input" in checks.ranges("", a, d) and "9.0" in checks.ranges("", e, d)
