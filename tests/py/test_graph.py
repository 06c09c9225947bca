"""Graphs, fake tensors, symbolic numbers and recording, as Python sees them."""
import threading

import cresset
import numpy
import pytest

from cresset import _C
from cresset._json import from_json, to_json

TEXT = """graph(%x: f32[s0, 3], %w: f32[3]) {
  symbol s0 in [2, 64] hint 8
  %mul: f32[s0, 3] = aten.mul.Tensor(%x, %w)
  %sum: f32[s0] = aten.sum.dim_IntList(%mul, [1])
  return %sum, [%mul, 3]
}
"""


def test_parse_print_run():
    graph = cresset.Graph.parse(TEXT)
    assert str(graph) == TEXT and graph == graph.copy() and graph.name == ""
    total, (product, three) = graph.run(cresset.ones(4, 3), cresset.tensor([1.0, 2.0, 3.0]))
    assert total.tolist() == [6.0] * 4 and product.shape == (4, 3) and three == 3
    assert [node["kind"] for node in graph.nodes] == ["placeholder", "placeholder", "call", "call", "output"]
    graph.verify("metas", "functional", "core")


def test_errors():
    with pytest.raises(ValueError, match=r"graph text 1:10: 'f33' is not a type"):
        cresset.Graph.parse("graph(%x: f33[2]) { return %x }")
    graph = cresset.Graph.parse(TEXT)
    with pytest.raises(RuntimeError, match=r"graph input 'x': dimension 1 is 4, expected 3"):
        graph.run(cresset.ones(4, 4), cresset.ones(3))
    with pytest.raises(RuntimeError, match=r"graph input 'x': dimension 0 is 65, expected s0 in \[2, 64\]"):
        graph.run(cresset.ones(65, 3), cresset.ones(3))
    with pytest.raises(TypeError, match="takes 2 inputs, not 1"):
        graph.run(cresset.ones(4, 3))
    with pytest.raises(ValueError, match="no property 'pretty'"):
        graph.verify("pretty")
    with pytest.raises(ValueError, match="is not functional: %relu_"):
        cresset.Graph.parse("graph(%x: f32[2]) {\n %relu_ = aten.relu_(%x)\n return %relu_\n}").verify("functional")


def test_symbolic_numbers():
    mode = cresset.FakeTensorMode()
    x = mode.from_tensor(cresset.ones(6, 4), dynamic={0: "n", 1: "m"})
    n, m = x.shape
    assert (str(n), str(n * m + 1), str((n + n) // 2), str(2 * n - n)) == ("n", "m*n + 1", "n", "n")
    assert n.hint == 6 and (n * m).hint == 24 and isinstance(n < 10, cresset.SymBool) and isinstance(n / 4,
            cresset.SymFloat)
    assert n >= 2 and not n < 0  # facts decide, without a guard
    assert mode.guards == []
    assert n > m  # the hint decides, and that is remembered
    assert mode.guards == ["m < n"]
    assert int(m) == 4 and mode.guards[-1] == "Eq(m, 4)"


def test_fake_mode():
    mode = cresset.FakeTensorMode()
    x = mode.from_tensor(cresset.ones(6, 4), dynamic=0)
    assert cresset.is_fake(x) and not cresset.is_fake(cresset.ones(2))
    with mode:
        y = cresset.cat([x, cresset.zeros(x.shape[0], 2)], 1)
    assert str(y.shape) == "cresset.Size([s0, 6])" and cresset.is_fake(y)
    view = x.t()
    assert [str(s) for s in view.stride()] == ["1", "4"]
    with pytest.raises(cresset.GuardOnDataDependentSymNode, match="not known before the program runs"):
        if x.sum() > 0:
            pass
    assert isinstance(x.sum().item(), cresset.SymFloat)
    shared = cresset.ones(4)
    a, b = mode.from_tensor(shared), mode.from_tensor(shared[1:])
    graph = _C.record(lambda: None, ())
    assert a.shape == (4,) and b.shape == (3,) and str(graph) == "graph() {\n  return none\n}\n"


def test_recording_writes_and_constants():
    table = cresset.tensor([10.0, 20.0, 30.0])

    def program(x):
        y = x + table
        y[0] = 7.0
        y.mul_(2)
        return y

    graph = _C.record(program, (cresset.ones(3),))
    graph.verify("metas")
    wanted = program(cresset.tensor([1.0, 2.0, 3.0]))
    assert graph.run(cresset.tensor([1.0, 2.0, 3.0])).tolist() == wanted.tolist() == [14.0, 44.0, 66.0]
    assert [c["name"] for c in graph._data()["constants"]] == ["_tensor_constant0"]
    assert cresset.Graph.parse(str(graph)) == graph == from_json(to_json(graph))


def test_recording_control_flow():
    def program(x, flag):
        a = cresset.cond(flag, lambda t: t * 2, lambda t: t - 1, (x,))
        i, b = cresset.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + a.shape[0] * 0 + t),
                                  (cresset.tensor(0), x))
        return a, b

    graph = _C.record(program, (cresset.ones(4), cresset.tensor(True)), dynamic=(0,))
    for flag, n in ((True, 4), (False, 9)):
        x = cresset.arange(n, dtype=cresset.float32)
        ours, wanted = graph.run(x, cresset.tensor(flag)), program(x, cresset.tensor(flag))
        assert [t.tolist() for t in ours] == [t.tolist() for t in wanted]


def test_recording_refuses():
    with pytest.raises(cresset.GuardOnDataDependentSymNode, match="record on fake tensors"):
        _C.record(lambda x: x.sum().item(), (cresset.ones(2),), fake=False)
    other = cresset.FakeTensorMode().from_tensor(cresset.ones(2))
    with pytest.raises(ValueError, match="neither an input of the trace"):
        _C.record(lambda x: x + other, (cresset.ones(2),))
    with pytest.raises(TypeError, match="returns a dict"):
        _C.record(lambda x: {"x": x}, (cresset.ones(2),))
    with pytest.raises(ZeroDivisionError):
        _C.record(lambda x: 1 // 0, (cresset.ones(2),))
    assert not cresset.is_fake(cresset.ones(2) + 1)  # the failed recordings left nothing behind


def test_item_in_a_graph():
    """A number that only data gives: recorded as a node, used as a size."""
    graph = _C.record(lambda n, x: x * n.item() + cresset.zeros(n.item()), (cresset.tensor(3), cresset.ones(1)))
    assert graph.run(cresset.tensor(4), cresset.ones(1)).tolist() == [4.0] * 4
    assert any(node["target"] == "aten.item" for node in graph.nodes)


def test_threads():
    graph = cresset.Graph.parse(TEXT)
    failures = []

    def work(k):
        x, w = cresset.tensor(numpy.full((k + 2, 3), k, "float32")), cresset.ones(3)
        for _ in range(20):
            if graph.run(x, w)[0].tolist() != [3.0 * k] * (k + 2):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
