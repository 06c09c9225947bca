"""P1: PyTorch's archives, loaded and saved here, come back to PyTorch as they were. A seeded part; `./dev test --full
roundtrip` does it for all."""
import pathlib
import random
import sys
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
torch = pytest.importorskip("torch", reason="without the oracle, tests/py/test_save.py writes recorded archives again")

import checking  # noqa: E402
import programs  # noqa: E402
import returning  # noqa: E402

ALWAYS = [("cond_on_size", "training"), ("linear_systems", "core"), ("dynamic_image", "training"),
          ("tied_weights", "core"), ("constant_outputs", "training"),
          ("scan_over_rows", "core"), ("buffers_that_are_views", "training"), ("namedtuple_argument", "training")]
SAMPLE = ALWAYS + random.Random(8).sample([(p.name, dialect) for p in programs.programs() for dialect in p.dialects
                                           if (p.name, dialect) not in ALWAYS], 17)


@pytest.mark.parametrize("name, dialect", SAMPLE, ids=[".".join(pair) for pair in SAMPLE])
def test_an_archive_comes_back_the_same(name, dialect, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ep = programs.export(programs.TABLE[name])
        ep = ep.run_decompositions() if dialect == "core" else ep
        checking.forget_paths(ep)
        torch.export.save(ep, tmp_path / "theirs.pt2")
        assert returning.difference(tmp_path / "theirs.pt2", tmp_path / "ours.pt2") is None


class Preserved(torch.nn.Module):
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, pair, *, scale=1.0):
            return {"sum": self.layer(pair[0]) + pair[1] * scale, "n": 3}

    def __init__(self):
        super().__init__()
        self.inner = Preserved.Inner()

    def forward(self, x):
        return self.inner((x, x + 1), scale=2.0)["sum"].sin()


def test_preserved_signatures_of_submodules_come_back(tmp_path):
    ep = torch.export.export(Preserved(), (torch.randn(2, 3),), preserve_module_call_signature=("inner",))
    torch.export.save(ep, tmp_path / "theirs.pt2")
    assert returning.difference(tmp_path / "theirs.pt2", tmp_path / "ours.pt2") is None
    module = torch.export.unflatten(torch.export.load(tmp_path / "ours.pt2"))
    x = torch.randn(2, 3)
    assert torch.equal(module(x), ep.module()(x))


def test_a_change_is_seen(tmp_path):
    """The comparison can fail: another weight, another node, another range."""
    p = programs.TABLE["dynamic_batch"]
    ep = programs.export(p)
    torch.export.save(ep, tmp_path / "a.pt2")
    a, b = torch.export.load(tmp_path / "a.pt2"), torch.export.load(tmp_path / "a.pt2")
    assert returning.programs_differ(a, b) is None
    with torch.no_grad():
        next(iter(b.state_dict.values())).view(-1)[0] += 1
    assert "other bytes" in returning.programs_differ(a, b)
    b = torch.export.load(tmp_path / "a.pt2")
    next(node for node in b.graph.nodes if node.op == "call_function").name = "another"
    assert "nodes" in returning.programs_differ(a, b)
