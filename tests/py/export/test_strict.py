"""export(strict=True): by bytecode. Features X1, E10, S5: what it records, what it leaves alone, and its errors."""
import logging
import pathlib
import random
import sys
import time
import warnings

import pytest

import cresset as torch
from cresset._dynamo.exc import Unsupported
from cresset.export import Dim, UserError, UserErrorType, export

nn, LOG = torch.nn, logging.getLogger(__name__)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "roundtrip"))
import strictly  # noqa: E402


def module(forward, **parts):
    """A module with this forward and these attributes."""
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)
    M.forward = forward
    return M()


def both_ways(m, *args, **options):
    return [export(m, args, strict=strict, **options) for strict in (True, False)]


# ---- the same programs ----

def programs():
    return strictly.both.load("cresset").TABLE


@pytest.mark.parametrize("name", random.Random(15).sample(sorted(programs()), 12))
def test_the_graph_is_the_same_as_without(name):
    pair = [strictly.export("cresset", name, torch, strict=strict) for strict in (True, False)]
    if name not in strictly.WRITTEN_ONCE_MORE:
        assert strictly.difference(*pair) is None
    assert strictly.decomposed(*pair) is None


def test_the_comparison_notices_what_differs():
    a, b = both_ways(module(lambda self, x: x + 1), torch.ones(2)), both_ways(module(lambda self, x: x * 1),
                                                                              torch.ones(2))
    assert strictly.difference(*a) is None and "aten.mul" in strictly.difference(a[0], b[0])


def test_pytorch_loads_and_runs_the_archive(tmp_path):
    theirs = pytest.importorskip("torch", reason="PyTorch loads what is exported here")

    def forward(self, x, scale=2.0):
        self.steps += 1
        return {"out": self.layer(x).relu() * scale, "rows": x.shape[0]}
    m = module(forward, layer=nn.Linear(3, 2))
    m.register_buffer("steps", torch.zeros(()))
    ep = export(m, (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim("n", max=64)}}, strict=True)
    torch.export.save(ep, tmp_path / "strict.pt2")
    x = torch.randn(7, 3)
    got = theirs.export.load(tmp_path / "strict.pt2").module()(theirs.tensor(x.tolist()))
    want = m(x)
    assert got["rows"] == 7 and theirs.allclose(got["out"], theirs.tensor(want["out"].tolist()), atol=1e-6)


# ---- X1: what does not fail it, what it leaves alone ----

def test_what_is_told_to_somebody_is_left_out(capsys):
    def forward(self, x):
        print("in forward", x)
        LOG.warning("%s", x.shape)
        warnings.warn("careful")
        return x + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ep = export(module(forward), (torch.ones(2),), strict=True)
    assert ep.module()(torch.ones(2)).tolist() == [2, 2] and capsys.readouterr().out == ""


def test_recurrent_layers_are_captured():
    m = module(lambda self, x: self.rnn(x)[0], rnn=nn.LSTM(3, 4, batch_first=True))
    ep = export(m, (torch.randn(2, 5, 3),), strict=True)
    x = torch.randn(2, 5, 3)
    assert torch.allclose(ep.module()(x), m(x))


def test_nothing_outside_is_changed():
    def forward(self, x):
        self.seen.append("x")
        self.count = self.count + 1
        self.last["size"] = x.shape[0]
        torch.manual_seed(3)
        return torch.nn.functional.dropout(x, 0.5, True) * self.count
    m = module(forward, seen=[], last={})
    m.register_buffer("count", torch.zeros(()))
    count, state = m.count, torch.random.get_rng_state().tolist()
    with pytest.raises(Unsupported):  # manual_seed() is no computation
        export(m, (torch.ones(2),), strict=True)
    assert m.seen == [] and m.last == {} and m.count is count and torch.random.get_rng_state().tolist() == state
    m = module(lambda self, x: (self.seen.append("x"), setattr(self, "count", self.count + 1), x * self.count)[2],
               seen=[])
    m.register_buffer("count", torch.zeros(()))
    count = m.count
    ep = export(m, (torch.ones(2),), strict=True)
    assert m.seen == [] and m.count is count and count.item() == 0
    run = ep.module()
    assert [run(torch.ones(2)).tolist() for _ in range(2)] == [[1, 1], [2, 2]]


def test_a_program_may_ask_whether_it_is_exported():
    def forward(self, x):
        assert torch.compiler.is_compiling() and torch.compiler.is_exporting()
        return x + torch.compiler.is_dynamo_compiling()
    assert export(module(forward), (torch.ones(1),), strict=True).module()(torch.ones(1)).item() == 2


def test_numbers_read_from_data_are_symbols():
    def forward(self, n, x):
        k = n.item()
        torch._check(k >= 1)
        torch._check(k <= 4)
        return x.narrow(0, 0, k)
    ep = export(module(forward), (torch.tensor(2), torch.arange(4)), strict=True)
    assert ep.module()(torch.tensor(3), torch.arange(4)).tolist() == [0, 1, 2]


def test_functions_of_regions_are_captured():
    def forward(self, p, x):
        return torch.cond(p, lambda x: self.layer(x).relu(), lambda x: x - x.shape[0], (x,))
    m = module(forward, layer=nn.Linear(2, 2))
    strict, plain = both_ways(m, torch.tensor(True), torch.randn(3, 2), dynamic_shapes={"p": None, "x": {0: Dim.AUTO}})
    assert strictly.difference(strict, plain) is None
    x = torch.randn(5, 2)
    assert torch.allclose(strict.module()(torch.tensor(False), x), x - 5)


def test_gradient_modes_and_tensors_from_elsewhere():
    bias = torch.tensor([1.0, 2.0])

    def forward(self, x):
        with torch.no_grad():
            y = x.sin()
        return y + bias + self.plain + self.parts[0]
    m = module(forward, plain=torch.ones(2), parts=[torch.zeros(2)])
    strict, plain = both_ways(m, torch.ones(2))
    assert strictly.difference(strict, plain) is None and "wrap_with_set_grad_enabled" in str(strict)
    assert sorted(strict.constants) == ["lifted_tensor_0", "lifted_tensor_1", "plain"]


def test_calling_conventions_of_submodules_are_kept():
    inner = module(lambda self, x, *, k: {"sum": x + k, "k": k})
    m = module(lambda self, x: self.inner(x, k=2)["sum"] + self.inner(x + 1, k=3)["sum"], inner=inner)
    strict, plain = both_ways(m, torch.ones(2), preserve_module_call_signature=("inner",))
    assert strictly.difference(strict, plain) is None
    assert torch.export.unflatten(strict)(torch.ones(2)).tolist() == m(torch.ones(2)).tolist()


def test_sizes_are_judged_as_without():
    def forward(self, x):
        return x + 1 if x.shape[0] == 4 else x
    texts = []
    for strict in (True, False):
        with pytest.raises(UserError) as raised:
            export(module(forward), (torch.ones(4, 2),), dynamic_shapes={"x": {0: Dim("n")}}, strict=strict)
        assert raised.value.error_type is UserErrorType.CONSTRAINT_VIOLATION
        texts.append(str(raised.value))
    assert texts[0] == texts[1] and "n = 4" in texts[0] and "test_strict.py" in texts[0]


# ---- errors: class, facts, remedy ----

def on_data(self, x):
    return x + 1 if x.sum() > 0 else x


def on_clock(self, x):
    return x + time.time()


def raises(self, x):
    raise ZeroDivisionError(f"rank {x.dim()}")


def bad_sizes(self, x):
    return x @ x


def keeps(self, x):
    self.kept = x + 1
    return x


def gives_object(self, x):
    return x, object


ERRORS = {
    "a branch on data": (on_data, UserError, ["_check", "cresset.cond", "test_strict.py", "x.sum() > 0"]),
    "a call that is no computation": (on_clock, Unsupported, ["test_strict.py", "on_clock", "time() is called",
                                                              "strict=False"]),
    "what the program raises": (raises, ZeroDivisionError, ["rank 2"]),
    "what an op raises": (bad_sizes, RuntimeError, ["3", "2"]),
    "a tensor that is kept": (keeps, ValueError, ["self.kept", "register_buffer"]),
    "an output of another type": (gives_object, UserError, ["builtins.type", "register_dataclass"]),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_name_facts_and_remedy(what):
    forward, kind, facts = ERRORS[what]
    m = module(forward)
    before = dict(m.__dict__)
    with pytest.raises(kind) as raised:
        export(m, (torch.ones(2, 3),), strict=True)
    assert not [fact for fact in facts if fact not in str(raised.value)], str(raised.value)
    assert m.__dict__ == before
    if what == "a branch on data":
        assert raised.value.error_type is UserErrorType.ANTI_PATTERN
    if what == "an output of another type":
        assert raised.value.error_type is UserErrorType.INVALID_OUTPUT


def test_a_report_of_a_strict_export():
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x * 2
    report = export(module(forward), (torch.ones(3),), strict=True, report=True)
    assert [p.kind for p in report.problems] == ["data-dependent"] and not report.success
    assert "test_strict.py" in report.problems[0].location and "x.sum() > 0" in report.problems[0].location
    assert export(module(lambda self, x: x + 1), (torch.ones(3),), strict=True, report=True).success
    stopped = export(module(on_clock), (torch.ones(3),), strict=True, report=True)
    assert not stopped.complete and "time() is called" in stopped.problems[0].message
