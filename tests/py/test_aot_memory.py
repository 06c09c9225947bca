"""resize_, set_ and out= in functions that are compiled ahead of time: as eager PyTorch does it."""
import pathlib
import sys
import warnings

import pytest

import cresset
from cresset._functorch.aot_autograd import aot_export_module, aot_function

torch = pytest.importorskip("torch", reason="eager PyTorch is the oracle")

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ops"))
import alias_cells  # noqa: E402


def of_no_grad(m, call):
    with m.no_grad():
        return call()


RESIZED = {
    "input": lambda m, x, y: (x.resize_(2, 2), x * 2),
    "input, used before": lambda m, x, y: (x * 2, x.resize_(2, 2)),
    "input, and back": lambda m, x, y: (x.resize_(1, 2), x.resize_(2, 3) * 1),
    "input, then written": lambda m, x, y: (x.resize_(2, 2).mul_(3), x[0]),
    "input, the same": lambda m, x, y: (x.resize_(2, 3), x + y),
    "input to nothing": lambda m, x, y: (x.resize_(0), y * 2),
    "view of an input": lambda m, x, y: (x[1].resize_(2) * 1, x * 1),
    "result": lambda m, x, y: ((x * 2).resize_(2, 2),),
    "result to more": lambda m, x, y: ((x * 2).resize_(4, 4).zero_(),),
    "result to more, the first": lambda m, x, y: ((x * 2).resize_(9)[:6] * 1,),
    "nothing to more": lambda m, x, y: (m.empty(0).resize_(2, 3).copy_(x), y * 1),
}
SET = {
    "result to result": lambda m, x, y: ((x * 2).set_(y * 3) * 1,),
    "result to input": lambda m, x, y: ((x * 2).set_(y) * 1,),
    "nothing to input, then written": lambda m, x, y: (m.empty(0).set_(y).mul_(2) * 1,),
    "view to result": lambda m, x, y: (x[0].set_(y * 3) * 1, x * 1),
    "part": lambda m, x, y: (m.empty(0).set_(y, 1, (2, 2), (2, 1)) * 1,),
}
OUT = {
    "nothing": lambda m, x, y: (m.add(x, y, out=m.empty(0)),),
    "sized": lambda m, x, y: (m.add(x, y, out=m.zeros(2, 3)),),
    "input": lambda m, x, y: (m.mul(x, 3, out=y), y * 1),
    "itself": lambda m, x, y: (m.exp(x, out=x), x * 1),
    "view of an input": lambda m, x, y: (m.sin(x[0], out=y[1]), y * 1),
    "two": lambda m, x, y: (*m.max(x, 0, out=(m.empty(3), m.empty(3, dtype=m.int64))),),
    "two of other sizes": lambda m, x, y: (*m.sort(x, out=(y, m.empty(0, dtype=m.int64))),),
    "another dtype": lambda m, x, y: (m.add(x, y, out=m.empty(0, dtype=m.float64)),),
    "sum in its dtype": lambda m, x, y: (m.sum(x, 0, out=m.empty(3, dtype=m.float64)),),
    "product": lambda m, x, y: (m.matmul(x, y.t(), out=m.empty(0)),),
    "of random numbers": lambda m, x, y: (m.rand(2, 3, out=m.empty(0)).shape[0] * x,),
    "list of views": lambda m, x, y: (m.cat([x, y], out=m.empty(0)),),
}
PROGRAMS = {f"{kind} {name}": call for kind, programs in (("resize", RESIZED), ("set", SET), ("out", OUT))
            for name, call in programs.items()}


def run(m, function, door):
    tape = alias_cells.Tape()
    tape.x, tape.y = m.arange(6.0).reshape(2, 3) * 1, m.ones(2, 3) * 0.5
    tape.versions = [t._version for t in (tape.x, tape.y)]
    tape.outs = door(lambda x, y: function(m, x, y))(tape.x, tape.y)
    return alias_cells.seen_of(m, tape)


@pytest.mark.parametrize("compiled", ["nop", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager_code(name, compiled):
    warnings.simplefilter("ignore")  # PyTorch warns of tensors that out= resizes
    wanted = run(torch, PROGRAMS[name], lambda f: f)
    seen = run(cresset, PROGRAMS[name], lambda f: aot_function(f, compiled))
    found = alias_cells.differences(wanted, seen)
    # a tensor that got other memory has its history of writes there; a view's sizes are no write of an input here
    loose = [f"{t}.version" for t in ("out0", "out1", *("x" for _ in [0] if "view" in name and "out" not in name))]
    assert not [text for text in found if not text.startswith(tuple(loose))]


def code_of(m, function):
    try:
        x, y = m.ones(2, 3, requires_grad=True) * 1, m.ones(2, 3)
        return [t.tolist() for t in function(x, y)]
    except Exception as error:
        return type(error).__name__, "require" in str(error)


@pytest.mark.parametrize("name", ["resize input", "out nothing", "out input", "out product", "resize result"])
def test_what_requires_grad_is_refused_as_by_eager_code(name):
    wanted = code_of(torch, lambda x, y: PROGRAMS[name](torch, x, y))
    assert wanted == ("RuntimeError", True)
    assert code_of(cresset, aot_function(lambda x, y: PROGRAMS[name](cresset, x, y), "nop")) == wanted


@pytest.mark.parametrize("function", [
    lambda m, x, y: (of_no_grad(m, lambda: m.mul(x, 2, out=y)), y * x),
    lambda m, x, y: (y.resize_(3, 2), x * 2),
])
def test_gradients_flow_by(function):
    def walk(m, door):
        leaf = m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        y = m.ones(2, 3)
        door(lambda x, y: function(m, x, y))(leaf, y)[-1].square().sum().backward()
        return leaf.grad.tolist(), y.tolist()
    assert walk(cresset, lambda f: aot_function(f, "nop")) == walk(torch, lambda f: f)


def grows(x, y):
    x.resize_(4, 4).zero_()
    return x * 1, y * 1


@pytest.mark.parametrize("function", [
    lambda x, y: (x.set_(y * 3) * 1,),
    lambda x, y: (x.set_(y) * 1,),
    grows,
    lambda x, y: (x[0].resize_(4, 4).zero_(),),
])
def test_inputs_get_other_memory(function):
    """On the tape: no code can stand for it."""
    compiled = aot_function(function, "nop")
    wanted = run(torch, lambda m, x, y: function(x, y), lambda f: f)
    assert not alias_cells.differences(wanted, run(cresset, lambda m, x, y: compiled(x, y), lambda f: f))
    assert "changes the memory of a tensor" in compiled._compiled.explain()


def test_exported_graphs_have_none_of_it():
    class M(cresset.nn.Module):
        def forward(self, x):
            return cresset.add(x, x, out=cresset.empty(0)).resize_(2, 2),

    graph, _ = aot_export_module(M(), (cresset.ones(2, 3),), trace_joint=False)
    assert "out" not in str(graph.code).replace("output", "") and "resize" not in str(graph.code)
    assert graph(cresset.ones(2, 3))[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
