"""How ./dev zoo judges (bench/zoo.py): PyTorch's own results decide what is right, and rounding is not wrong."""
import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="the zoo compares with PyTorch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import zoo  # noqa: E402

nn = torch.nn


class OtherWay(nn.Module):
    """As transformers' masks: another result while PyTorch captures."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        x = self.linear(x)
        return ((x * 1.1 if torch.compiler.is_compiling() else x) + torch.rand(3),)


@pytest.fixture(scope="module")
def other_way():
    torch.manual_seed(0)
    model, args = OtherWay().eval(), (torch.randn(2, 3),)
    zoo.seed()
    with torch.no_grad():
        return model, args, model(*args)


def test_archives_are_compared_with_what_was_exported(other_way):
    model, args, expected = other_way
    row = {}
    zoo.archive_steps(model, args, expected, row)
    assert row["archive"] == row["native"] == "ok" and row["other_way"].startswith("differs by")


def test_results_are_compared_with_what_torch_captures(other_way):
    model, args, expected = other_way
    run, row = zoo.captured_by_torch(model), {}
    zoo.seed()
    with torch.no_grad():
        own = run(*args)
    assert zoo.judged(own, expected, model, args, row) == "ok" and "other_way" in row
    row = {}
    assert zoo.judged([own[0] + 1], expected, model, args, row).startswith("differs by") and not row
    assert zoo.judged(expected, expected, model, args, row) == "ok" and not row


class Edge(nn.Module):
    """Gradients that are there or not, by the rounding of a sum that is zero."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.1, 0.2, -0.3]))

    def forward(self, x):
        return (torch.relu((x * self.weight).sum(-1)) * 3 + self.weight.sum(),)


def test_rounding_at_a_kink_is_not_wrong_and_a_wrong_gradient_is():
    model, args = Edge(), (torch.ones(1, 3),)
    sides = {float(zoo.gradients_by(zoo.as_it_is, zoo.nudged(model, n), args)[0][0]) for n in range(6)}
    assert len(sides) == 2
    for gradient in sides:
        assert zoo.referee(model, args, [torch.full((3,), gradient)], zoo.as_it_is) == "ok"
    assert zoo.referee(model, args, [torch.full((3,), 20.0)], zoo.as_it_is).startswith("differs by")

    def twice(mine):
        return lambda *given: [2 * out for out in mine(*given)]
    assert zoo.referee(model, args, [torch.full((3,), 1.0)], twice).startswith("in double precision: differs by")


class Untrained(nn.Linear):
    def forward(self, x):
        if self.training:
            raise ValueError("labels are required")
        return (super().forward(x),)


def test_what_torch_does_not_train_is_not_due(tmp_path, monkeypatch):
    row = {"parts": ["backend"], "inference": "ok"}
    zoo.train(Untrained(3, 3), (torch.ones(2, 3),), zoo.as_it_is, "training", row)
    assert "training" not in row and row["untrained"] == "ValueError: labels are required"
    assert zoo.due(row, "inference") and not zoo.due(row, "training")
    rows = {"timm/a": row, "timm/b": {"parts": ["backend"], "inference": "differs by 1.0e+00", "training": "ok",
                                      "other_way": "differs by 3.0e-01"}, "timm/c": {"skipped": "", "parts": []}}
    rows["timm/b"]["ms"] = {"eager": 3.0, "compile": 2.0, "cresset": 1.0}
    monkeypatch.setattr(zoo, "PAGE", tmp_path / "zoo.md")
    zoo.page(json.loads(json.dumps(rows)))
    page = zoo.PAGE.read_text()
    assert "| timm | 2 | 0 of 0 | 0 of 0 | 1 of 2 | 1 of 1 |" in page
    assert "| backend, inference | differs by 1.0e+00 | timm/b |" in page
    assert "timm/b (differs by 3.0e-01)." in page and "timm/a (ValueError: labels are required)." in page
    assert "settings: timm/c." in page and "| timm | 1 | 3.00 (3.00) | 2.00 (2.00) |" in page


def test_results_of_several_runs_become_one_page(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "PAGE", tmp_path / "zoo.md")
    monkeypatch.setattr(zoo, "RESULTS", tmp_path / "results" / "zoo.json")
    zoo.keep({"timm/a": {"parts": ["archive", "capture"], "archive": "differs by 1.0e+00", "native": "ok",
                         "whole": "ok", "crashed": "longer than 300 s"}})
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"timm/a": {"parts": ["archive"], "archive": "ok", "native": "ok"},
                                 "timm/b": {"parts": ["archive"], "refused": "ValueError"}}))
    zoo.take([other])
    assert zoo.kept()["timm/a"] == {"parts": ["archive", "capture"], "archive": "ok", "native": "ok", "whole": "ok"}
    assert "| timm | 2 | 1 of 1 | 1 of 1 | 0 of 0 | 0 of 0 | 1 of 1 |" in zoo.PAGE.read_text()


def test_the_page_of_all_models_is_not_replaced_by_one_of_some(tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    docs.mkdir()
    monkeypatch.setattr(zoo, "PAGE", docs / "zoo.md")
    monkeypatch.setattr(zoo, "RESULTS", tmp_path / "results" / "zoo.json")
    monkeypatch.setattr(zoo, "results", lambda todo, until, jobs: ((name, {"inference": "ok"}) for name, *_ in todo))
    everything = {"timm/a": None, "timm/b": None}
    zoo.run({"timm/a": None}, ["backend"], 0, False, everything)
    assert not zoo.PAGE.exists() and "| timm | 1 |" in (tmp_path / "results" / "zoo.md").read_text()
    zoo.run(everything, ["backend"], 0, False, everything)
    assert "| timm | 2 |" in zoo.PAGE.read_text()


def test_reasons_have_no_place_and_no_remedy():
    said = ("Unsupported: /env/{}/models/led.py:{} in Encoder.forward: the attribute 'item' of a tensor is read "
            "fullgraph=True asks for one graph")
    reasons = {zoo.reason_of(said.format(*where)) for where in (("sp", 12), ("site-packages", 34))}
    assert reasons == {"the attribute 'item' of a tensor is read"}
    assert zoo.reason_of("differs by 1.0e+00") == "differs by 1.0e+00"
