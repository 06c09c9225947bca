"""Plans of one call: prepared once, run without a frame, and what they give is what the op gives."""
import json

import cresset
import pytest

ADD_ONE = "graph(%x: f32[{0}]) {{\n %y = aten.add.Tensor(%x, {1})\n return %y\n}}"
SUM = "graph(%x: f32[2, 3](1, 2), %y: f32[2, 3]) {\n %z = aten.add.Tensor(%x, %y, alpha=2)\n return %z\n}"
DIVIDE = "graph(%x: i64[3]) {\n %y: f32[3] = aten.div.Tensor(%x, 2)\n return %y\n}"
SINGLE = "graph(%x: f32[3]) {\n %y = aten.mul.Tensor(%x, 2.5)\n return %y\n}"


def same(got, want):
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    assert repr(got.tolist()) == repr(want.tolist())  # NaN, -0.0


@pytest.mark.parametrize("number", ["1", "2.5", "-0.0", "true"])
@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_numbers(n, number):
    graph = cresset.Graph.parse(ADD_ONE.format(n, number))
    x = cresset.arange(n, dtype=cresset.float32)
    if n:
        x[0] = float("nan")
    for _ in range(2):
        same(graph.run(x), x + json.loads(number))


def test_layouts():
    """The strides that were prepared for, and others."""
    graph = cresset.Graph.parse(SUM)
    base, y = cresset.arange(6.0), cresset.ones(2, 3)
    for x in (base.view(3, 2).t(), base.view(2, 3), cresset.arange(12.0).view(3, 4)[:, ::2].t()):
        same(graph.run(x, y), cresset.add(x, y, alpha=2))
        same(graph.run(x, y.t().contiguous().t()), cresset.add(x, y.t().contiguous().t(), alpha=2))
    same(graph.run(base.view(3, 2).t(), cresset.ones(1, 1).expand(2, 3)), base.view(3, 2).t() + 2)


def test_default_dtype():
    """It decides what integers divided give, in every run."""
    graph, x = cresset.Graph.parse(DIVIDE), cresset.tensor([1, 2, 3])
    same(graph.run(x), x / 2)
    cresset.set_default_dtype(cresset.float64)
    try:
        assert graph.run(x).dtype == cresset.float64
    finally:
        cresset.set_default_dtype(cresset.float32)
    same(graph.run(x), x / 2)


def test_gradients_and_modes():
    graph, x = cresset.Graph.parse(SINGLE), cresset.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = graph.run(x)
    y.sum().backward()
    assert x.grad.tolist() == [2.5] * 3
    with cresset.no_grad():
        assert not graph.run(x).requires_grad
    with cresset.inference_mode():
        assert graph.run(cresset.ones(3)).is_inference()
    assert not graph.run(cresset.ones(3)).is_inference()
    graph = cresset.Graph.parse("graph(%x: f32[2, 2], %y: f32[2, 2]) {\n %z = aten.mm(%x, %y)\n return %z\n}")
    x = cresset.ones(2, 2)
    with cresset.autocast("cpu", dtype=cresset.bfloat16):
        assert graph.run(x, x).dtype == cresset.bfloat16
    assert graph.run(x, x).dtype == cresset.float32


def test_recorded_and_fake():
    """A recorder sees the number, not the tensor that was made of it."""
    graph = cresset.Graph.parse(SINGLE)
    recorded = cresset.fx.experimental.proxy_tensor.make_fx(lambda x: graph.run(x))(cresset.ones(3))
    assert "2.5" in recorded.code
    fake = cresset.FakeTensorMode().from_tensor(cresset.ones(3))
    assert repr(graph.run(fake)).startswith("FakeTensor")


def test_wrong_inputs():
    graph = cresset.Graph.parse(SINGLE)
    with pytest.raises(RuntimeError, match="graph input 'x': dimension 0 is 4, expected 3"):
        graph.run(cresset.ones(4))
    with pytest.raises(RuntimeError, match="graph input 'x': dtype is float64, expected float32"):
        graph.run(cresset.ones(3, dtype=cresset.float64))
    with pytest.raises(TypeError, match="graph input 'x': expected a tensor, not an int"):
        graph.run(3)
    bad = cresset.Graph.parse("graph(%x: i64[2], %y: i64[2]) {\n"
                              " %z = aten.div.Tensor_mode(%x, %y, rounding_mode=\"floor\")\n return %z\n}")
    with pytest.raises(RuntimeError, match="%z: .*[Zz]ero"):
        bad.run(cresset.ones(2, dtype=cresset.int64), cresset.zeros(2, dtype=cresset.int64))
