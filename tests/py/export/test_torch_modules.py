"""export() of PyTorch's own modules, strict and not: archives that both libraries read. Features X1, X3, T1."""
import collections
import copy
import dataclasses
import logging

import pytest

torch = pytest.importorskip("torch", reason="modules of PyTorch are exported")
import cresset  # noqa: E402
from cresset._dynamo.exc import Unsupported  # noqa: E402
from cresset.export import UserError, UserErrorType  # noqa: E402

Dim = torch.export.Dim


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight  # tied
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.ones(4, dtype=torch.bool), persistent=False)
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x, *, gain=2):
        self.steps += 1
        y = self.second(self.norm(self.first(x)).relu()) * self.scale
        y = torch.where(self.mask, y, 0.0)
        if x.shape[0] > 3:
            y = y + x.shape[0]
        return {"y": y * gain, "x": x, "rows": x.shape[0]}


def both_read(ep, folder):
    """The archive, as a module there and here."""
    cresset.export.save(ep, folder / "program.pt2")
    theirs = torch.export.load(folder / "program.pt2")
    return theirs.module(), cresset.export.load(folder / "program.pt2").module()


def ours(t):
    return cresset.from_dlpack(t.detach())


def close(a, b):
    return torch.allclose(torch.tensor(a.tolist()), torch.tensor(b.tolist()), atol=1e-5)


@pytest.mark.parametrize("strict", [False, True])
def test_a_module_goes_to_an_archive_that_both_read(strict, tmp_path):
    m = Net()
    before = {name: t.clone() for name, t in m.state_dict().items()}
    ep = cresset.export.export(m, (torch.randn(5, 4),), {"gain": 3}, dynamic_shapes={"x": {0: Dim("n", min=4)},
                                                                                   "gain": None}, strict=strict)
    assert all(torch.equal(t, before[name]) for name, t in m.state_dict().items()) and m.steps.item() == 0
    assert sorted(ep.state_dict) == sorted(m.state_dict()) and sorted(ep.constants) == ["mask", "scale"]
    assert ep.state_dict["first.weight"] is ep.state_dict["second.weight"]
    assert ep.state_dict["first.weight"].requires_grad and not ep.state_dict["steps"].requires_grad
    names = [node.name for node in torch.export.export(m, (torch.randn(5, 4),), {"gain": 3}, dynamic_shapes={
        "x": {0: Dim("n", min=4)}, "gain": None}).graph.nodes if node.op == "placeholder"]
    assert [node.name for node in ep.graph.nodes if node.op == "placeholder"] == names
    theirs, here = both_read(ep, tmp_path)
    for n in (5, 9):
        x = torch.randn(n, 4)
        want, got, mine = m(x, gain=3), theirs(x, gain=3), here(ours(x), gain=3)
        assert got["rows"] == mine["rows"] == n and close(got["y"], want["y"]) and close(mine["y"], want["y"])
    assert theirs.steps.item() == here.steps.item() == m.steps.item() == 2


def test_the_values_are_those_of_the_export(tmp_path):
    m = torch.nn.Linear(3, 2)
    ep, x = cresset.export.export(m, (torch.ones(1, 3),)), torch.ones(1, 3)
    before = m(x)
    with torch.no_grad():
        m.weight.mul_(2)
        m.bias.zero_()
    assert close(ep.module()(ours(x)), before) and close(both_read(ep, tmp_path)[0](x), before)
    assert close(cresset.export.export(m, (x,)).module()(ours(x)), m(x))  # nothing is kept of the first


class Pair(collections.namedtuple("Pair", "a b")):
    """An output alone: PyTorch pickles the examples of inputs, and asks who may unpickle them."""


torch.utils._pytree.register_pytree_node(Pair, lambda p: (list(p), None), lambda parts, _: Pair(*parts),
                                         serialized_type_name=f"{__name__}.Pair")


def program(forward):
    return type("M", (torch.nn.Module,), {"forward": forward})()


def read_size(self, n, x):
    k = n.item()
    torch._check(k >= 1)
    torch._check(k <= 4)
    return x.narrow(0, 0, k) * 2


def without(self, x):
    with torch.no_grad():
        y = x.sin()
    return y + x


PROGRAMS = {
    "structures": (lambda self, xs, d: (Pair(xs[0] + 1, xs[1][0]), [d["k"] * 2]),
                   lambda: ([torch.ones(2), (torch.zeros(2),)], {"k": torch.ones(3)})),
    "literals": (lambda self, x: x + torch.tensor([1.0, 2.0]) + torch.tensor(3), lambda: (torch.ones(2),)),
    "gradient modes": (without, lambda: (torch.ones(2),)),
    "cond": (lambda self, p, x: torch.cond(p, lambda x: x.sin(), lambda x: x + 1, (x,)),
             lambda: (torch.tensor(True), torch.ones(2))),
    "0-d int": (lambda self, x, i: x[i] + i, lambda: (torch.arange(4.0), torch.tensor(2))),
    "einsum": (lambda self, a, b: torch.einsum("ij,jk->ik", a, b), lambda: (torch.ones(2, 3), torch.ones(3, 2))),
    "size from data": (read_size, lambda: (torch.tensor(2), torch.arange(4))),
    "interpolate": (lambda self, x: torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
                    lambda: (torch.randn(1, 2, 3, 3),)),
    "views and writes": (lambda self, x: (x.t().clone().add_(1).reshape(-1)[1:], x[..., None].expand(2, 3, 4)),
                         lambda: (torch.randn(2, 3),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path):
    forward, inputs = PROGRAMS[name]
    m = program(forward)
    args = inputs()
    with torch.no_grad():
        got, want = both_read(cresset.export.export(m, args), tmp_path)[0](*copy.deepcopy(args)), m(*args)
    for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b)


def test_constants_that_are_results():
    m = program(lambda self, x: (torch.tensor([1, 2.5]), x + 1, torch.tensor(3)))
    got = cresset.export.export(m, (torch.ones(2),)).module()(cresset.ones(2))
    assert [t.tolist() for t in got] == [[1, 2.5], [2, 2], 3] and got[2].dtype is cresset.int64


def test_tensors_of_numbers_have_the_dtype_that_is_asked_for():
    m = program(lambda self, x: x + torch.tensor([1, 2], dtype=torch.float64, device=torch.device("cpu")))
    got = cresset.export.export(m, (torch.ones(2),)).module()(cresset.ones(2))
    assert got.tolist() == [2, 3] and got.dtype is cresset.float64


def test_names_and_arguments_that_archives_need(tmp_path):
    """A list among results is taken out by a name of its own; generator=None, which has no default, is written."""
    def forward(self, x):
        counts, (rows, columns) = torch.histogramdd(x, [2, 3], range=[-1.0, 1.0, -1.0, 1.0])
        return counts, rows + 1, columns, torch.randn(3, generator=None)
    m, x = program(forward), torch.linspace(-1, 1, 10).reshape(5, 2)
    ep = cresset.export.export(m, (x,))
    assert [node.name for node in ep.graph.nodes][1:5] == ["histogramdd", "getitem", "getitem_2", "getitem_3"]
    results = []
    for call in (m, both_read(ep, tmp_path)[0]):
        torch.manual_seed(3)
        results.append(call(x))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_results_without_a_name_are_refused_when_saved(tmp_path):
    """torch.return_types.max: PyTorch's archives cannot have it. Several of them do not get in each other's way."""
    ep = cresset.export.export(program(lambda self, x: (x.max(0), x.cummax(0))), (torch.ones(2, 3),))
    values, indices = ep.module()(cresset.ones(2, 3))[0]
    assert values.tolist() == [1, 1, 1] and indices.tolist() == [0, 0, 0]
    with pytest.raises(NotImplementedError, match="return_types.*serialized_type_name"):
        cresset.export.save(ep, tmp_path / "program.pt2")


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor | None = None


Couple = collections.namedtuple("Couple", "a b")


@pytest.fixture
def no_logs():
    """PyTorch's warning that it unpickles a class of the user's is malformed, and fails."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def test_classes_that_are_registered_under_other_names(tmp_path, no_logs):
    """Example inputs are pickled with the classes' own paths, not with the names in the call structure."""
    torch.export.register_dataclass(Batch, serialized_type_name="trial.Batch")
    torch.utils._pytree._register_namedtuple(Couple, serialized_type_name="trial.Couple")

    class Inner(collections.namedtuple("Inner", "c")):  # pickle cannot name it: the archive has no example inputs
        pass
    torch.utils._pytree._register_namedtuple(Inner, serialized_type_name="trial.Inner")
    m = program(lambda self, batch, pair: Couple(batch.x + pair[0], batch.x))
    for pair, examples in ((Couple(torch.ones(2), torch.ones(2)), True), (Inner(torch.ones(2)), False)):
        ep = cresset.export.export(m, (Batch(torch.ones(2)), pair))
        theirs, _ = both_read(ep, tmp_path)
        got = theirs(Batch(torch.ones(2)), pair)
        assert isinstance(got, Couple) and got.a.tolist() == [2, 2]
        sized = cresset.export.export(m, (Batch(torch.ones(2)), pair), dynamic_shapes=(
            {"x": {0: Dim.AUTO}}, type(pair)(*({0: Dim.AUTO} for _ in pair))))
        longer = type(pair)(*(cresset.ones(3) for _ in pair))
        assert sized.module()(Batch(cresset.ones(3)), longer)[0].tolist() == [2, 2, 2]
        given = torch.export.load(tmp_path / "program.pt2").example_inputs
        assert (type(given[0][0]) is Batch and given[0][1].a.tolist() == [1, 1]) if examples else not given


@pytest.mark.parametrize("spec", [lambda: {"x": {0: Dim("n", max=9)}, "y": {0: 2 * Dim("n", max=9) + 1}},
                                  lambda: {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO(min=3, max=19)}},
                                  lambda: ({0: cresset.export.Dim("n")}, {0: cresset.export.Dim("m")})])
def test_sizes_by_the_names_of_either_library(spec, tmp_path):
    m = program(lambda self, x, y: x.sum() + y * 2)
    ep = cresset.export.export(m, (torch.randn(3, 2), torch.randn(7, 2)), dynamic_shapes=spec())
    assert close(both_read(ep, tmp_path)[0](torch.ones(4, 2), torch.ones(9, 2)), m(torch.ones(4, 2), torch.ones(9, 2)))


ERRORS = {
    "a branch on data": (lambda self, x: x if x.sum() > 0 else -x, lambda: (torch.ones(2),), {}, UserError, ["cond"]),
    "a call that is no computation": (lambda self, x: x + torch.initial_seed(), lambda: (torch.ones(2),), {},
                                      Unsupported, ["random.py", "initial_seed() is called", "out of forward"]),
    "a size that is settled": (lambda self, x: x + 1 if x.shape[0] == 4 else x, lambda: (torch.ones(4),),
                               {"dynamic_shapes": {"x": {0: Dim("n")}}}, UserError, ["Constraints violated", "n = 4"]),
    "a sparse tensor": (lambda self, x: x, lambda: (torch.eye(2).to_sparse(),), {}, NotImplementedError, ["to_dense"]),
    "another device": (lambda self, x: x, lambda: (torch.ones(2, device="meta"),), {}, NotImplementedError,
                       ["meta", ".cpu()"]),
    "args that are no tuple": (lambda self, x: x, lambda: torch.ones(2), {}, UserError, ["tuple", "Tensor"]),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_name_facts_and_remedy(what):
    forward, args, options, kind, facts = ERRORS[what]
    with pytest.raises(kind) as raised:
        cresset.export.export(program(forward), args(), **options)
    assert not [fact for fact in facts if fact not in str(raised.value)], str(raised.value)
    if what == "a size that is settled":
        assert raised.value.error_type is UserErrorType.CONSTRAINT_VIOLATION
