"""The front end: what is a tensor, a parameter, a module, an op; and ops that a program knows only by name
(cresset::opaque)."""
import copy
import subprocess
import sys
import threading

import pytest

import cresset
import cresset.export
import cresset.library as library
from cresset import _C, Tensor, nn

ops = cresset.ops
opaque = ops.cresset.opaque


@library.custom_op("front::scaled", mutates_args=())
def scaled(x: Tensor, factor: float, *, shift: int = 0) -> Tensor:
    return x * factor + shift


@scaled.register_fake
def _(x, factor, *, shift=0):
    return cresset.empty_like(x)


@library.custom_op("front::parts", mutates_args=())
def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, x.sum()


parts.register_fake(lambda x: (cresset.empty_like(x), x.new_empty(())))

X = cresset.arange(6.0).reshape(2, 3)


# ---- what things are ----

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)


def test_kinds():
    stand_in = X.clone()
    stand_in._is_param = True

    class Own(Tensor):
        pass
    tensors = X, Tensor._make_subclass(Own, X), nn.Parameter(X), stand_in
    assert [_C._kind(o) for o in tensors] == ["tensor", "tensor", "parameter", "parameter"]
    assert [_C._is_tensor(o) for o in (X, nn.Parameter(X), Net(), 1.5, None)] == [True, True, False, False, False]
    assert _C._kind(Net()) == "module"
    assert [_C._kind(o) for o in (Net, Tensor, 1, None, "x", [X], cresset.float32, Net().forward)] == [None] * 8


def test_kind_runs_no_code_of_the_users():
    class Nosy:
        def __getattr__(self, name):
            raise AssertionError(name)
    assert _C._kind(Nosy()) is None


def test_tables_of_a_module():
    tables = _C._module_tables(Net())
    assert all(name in Net().__dict__ for name in tables) and tables[:3] == ("_parameters", "_buffers", "_modules")
    with pytest.raises(TypeError, match="expected a module, not cresset.Tensor"):
        _C._module_tables(X)


def test_ops_by_name():
    assert _C._resolve(ops.aten.add.Tensor) == "aten::add.Tensor" and _C._resolve(ops.aten.relu.default) == "aten::relu"
    assert {_C._resolve(o) for o in (ops.aten.add, cresset.add, Tensor.add)} == {"aten::add"}
    assert _C._resolve(ops.front.scaled.default) == "front::scaled"
    assert _C._resolve(len) is None and _C._resolve(X) is None


def test_stand_ins_keep_class_and_attributes():
    seen = []

    class Own(nn.Parameter):
        pass

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Own(cresset.ones(3))
            self.weight.tag = "mine"

        def forward(self, x):
            seen.append((type(self.weight), self.weight.tag, _C._kind(self.weight), cresset.is_fake(self.weight)))
            return x * self.weight
    module = Reads()
    cresset.export.export(module, (X,))
    assert seen == [(Own, "mine", "parameter", True)] and not cresset.is_fake(module.weight)


def test_what_forward_sets_ends_with_it():
    class Sets(nn.Module):
        def forward(self, x):
            _C._set_grad_enabled(False)
            _C._set_inference_mode(True)
            _C._set_autocast(True, cresset.float16, True)
            return x + 1
    before = cresset.is_grad_enabled(), cresset.is_inference_mode_enabled(), _C._autocast()
    cresset.export.export(Sets(), (X,))
    assert (cresset.is_grad_enabled(), cresset.is_inference_mode_enabled(), _C._autocast()) == before


# ---- ops that have no row ----

def test_opaque_call():
    y, = opaque("front::scaled", ["", "", "shift"], [X, 2.0, 1])
    assert cresset.equal(y, X * 2 + 1)
    a, b = opaque("front::parts", [""], [X])
    assert cresset.equal(a, X + 1) and b.item() == 15
    y, = opaque("aten::add.Tensor", ["", ""], [X, nn.Parameter(X)])  # any op that the front end has
    assert cresset.equal(y, X + X)
    fake = cresset.fake(X, dynamic=0)
    y, = opaque("front::scaled", ["", ""], [fake, 2.0])
    assert cresset.is_fake(y) and str(y.shape) == str(fake.shape)


def test_opaque_is_recorded_printed_and_run():
    def function(x):
        y, = opaque("front::scaled", ["", "", "shift"], [x.relu(), 2.0, 1])
        a, b = opaque("front::parts", [""], [y])
        return a * b
    graph = cresset.record(function, (X,), dynamic=(0,))
    graph.verify()
    text = str(graph)
    assert text.count("cresset.opaque(") == 2 and '"front::scaled"' in text
    again = _C.Graph.parse(text)
    for x in (X, cresset.cat([X, -X]), X.t().contiguous().t()):
        assert cresset.equal(graph.run(x), function(x)) and cresset.equal(again.run(x), function(x))
    fake = graph.run(cresset.fake(X))
    assert cresset.is_fake(fake) and fake.shape == X.shape


def test_opaque_is_called_from_many_threads():
    graph = cresset.record(lambda x: opaque("front::scaled", ["", ""], [x, 2.0])[0].sum(), (X,))
    wrong, gate = [], threading.Barrier(8)

    def run(i):
        gate.wait()
        for k in range(20):
            if graph.run(X * i + k).item() != 2 * (15 * i + 6 * k):
                wrong.append((i, k))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("target, args, error, message", [
    ("front::nowhere", [X], NotImplementedError, "no implementation of front::nowhere; register one"),
    ("aten::add_.Tensor", [X, X], _C.UnsupportedError, r"aten::add_.Tensor wrote to one of its arguments"),
    ("aten::alias", [X], _C.UnsupportedError, "aten::alias: result 0 shares memory with an argument"),
    ("aten::add.Tensor", [X], RuntimeError, "add.*: missing argument 'other'"),
    ("front::scaled", [X, "no"], RuntimeError, "argument 'factor' .* must be float, not str"),
])
def test_opaque_refuses(target, args, error, message):
    args = copy.deepcopy(args)
    with pytest.raises(error, match=message):
        opaque(target, [""] * len(args), args)


def test_opaque_wants_a_name_for_each_argument():
    with pytest.raises(ValueError, match="1 names for 2 arguments of front::scaled"):
        opaque("front::scaled", [""], [X, 2.0])


SAVES = """
import sys, cresset, cresset.export, cresset.library as library
@library.custom_op("late::scaled", mutates_args=())
def scaled(x: cresset.Tensor, factor: float, *, shift: int = 0) -> cresset.Tensor:
    return x * factor + shift
scaled.register_fake(lambda x, factor, shift=0: cresset.empty_like(x))
class Net(cresset.nn.Module):
    def forward(self, x):
        return scaled(x.relu(), 3.0, shift=2) + 1
sizes = ({0: cresset.export.Dim("n", min=0, max=9)},)
cresset.export.save(cresset.export.export(Net(), (cresset.ones(2, 3),), dynamic_shapes=sizes), sys.argv[1])
"""


def test_op_registered_after_the_program_was_loaded(tmp_path):
    """An archive names an op that nobody here knows. Once it is registered the program runs; native code refuses it,
    by name."""
    path = tmp_path / "late.pt2"
    subprocess.run([sys.executable, "-c", SAVES, str(path)], check=True)
    ep = cresset.export.load(path)
    assert ep.unsupported_ops == ["late::scaled"]
    with pytest.raises(_C.UnsupportedError, match="1 op that has no implementation here: late::scaled"):
        ep.module()

    @library.custom_op("late::scaled", mutates_args=())
    def late(x: Tensor, factor: float, *, shift: int = 0) -> Tensor:
        return x * factor + shift
    module = ep.module()
    for x in (X, -X, X[:1], X[:0], X.t().contiguous().t()):
        assert cresset.equal(module(x), x.relu() * 3 + 3)
    with pytest.raises(_C.UnsupportedError, match="late::scaled"):
        cresset.aot_compile(ep, options={"output_path": str(tmp_path / "late.so")})
