"""Custom operators on the tape: the derivative that was registered, what a library's implementation calls, or an error
that says what to register; as in PyTorch."""
import pytest

import cresset

torch = pytest.importorskip("torch", reason="derivatives are compared with PyTorch's")
BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def define(m, name, function, backward=None, setup_context=None):
    made = m.library.custom_op(f"autograd_custom::{name}", function, mutates_args=())
    if backward:
        made.register_autograd(backward, setup_context=setup_context)
    return made


@BOTH
def test_registered_derivative(m):
    def scaled(x: m.Tensor, y: m.Tensor, k: float) -> m.Tensor:
        return x * y * k

    def setup(ctx, inputs, output):
        x, y, ctx.k = inputs
        ctx.save_for_backward(x, y)
        ctx.seen = ctx.needs_input_grad

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        assert ctx.seen[:3] == (True, False, False)  # PyTorch has one more, of its own
        return grad * y * ctx.k, None, None
    scaled.__annotations__ = {"x": m.Tensor, "y": m.Tensor, "k": float, "return": m.Tensor}
    op = define(m, "scaled", scaled, backward, setup)
    x, y = m.tensor([1.0, 2.0], requires_grad=True), m.tensor([3.0, 4.0])
    out = op(x, y, 2.0)
    assert out.requires_grad and not out.is_leaf and "scaled" in out.grad_fn.name()
    out.sum().backward()
    assert x.grad.tolist() == [6.0, 8.0]
    getattr(m.ops.autograd_custom, "scaled")(x, y, k=1.0).sum().backward()
    assert x.grad.tolist() == [9.0, 12.0]
    with m.no_grad():
        assert not op(x, y, 2.0).requires_grad
    assert not op(x.detach(), y, 2.0).requires_grad


@BOTH
def test_second_derivative_and_several_results(m):
    def parts(x: m.Tensor) -> tuple[m.Tensor, m.Tensor]:
        return x * x, x.sin()

    def backward(ctx, a, b):
        x, = ctx.saved_tensors
        return a * 2 * x + b * x.cos()

    def setup(ctx, inputs, output):
        assert isinstance(output, tuple) and len(output) == 2
        ctx.save_for_backward(inputs[0])
    parts.__annotations__ = {"x": m.Tensor, "return": tuple[m.Tensor, m.Tensor]}
    op = define(m, "parts", parts, backward, setup)
    x = m.tensor([0.5, 1.0], dtype=m.float64, requires_grad=True)
    a, b = op(x)
    g, = m.autograd.grad((a + b).sum(), x, create_graph=True)
    g.sum().backward()
    assert g.tolist() == pytest.approx((2 * x + x.cos()).tolist())
    assert x.grad.tolist() == pytest.approx((2 - x.sin()).tolist())


@BOTH
def test_lists(m):
    def joined(xs: list[m.Tensor]) -> m.Tensor:
        return m.cat(list(xs)) * 2

    def setup(ctx, inputs, output):
        ctx.sizes = [t.shape[0] for t in inputs[0]]

    def backward(ctx, grad):
        return [g * 2 for g in grad.split(ctx.sizes)]
    joined.__annotations__ = {"xs": list[m.Tensor], "return": m.Tensor}
    op = define(m, "joined", joined, backward, setup)
    x, y = m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)
    (op([x, y]) * m.arange(5.0)).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 2.0], [4.0, 6.0, 8.0])


@BOTH
def test_none_registered(m):
    def twice(x: m.Tensor) -> m.Tensor:
        return x * 2
    twice.__annotations__ = {"x": m.Tensor, "return": m.Tensor}
    op = define(m, "twice", twice)
    out = op(m.ones(2, requires_grad=True))
    assert out.requires_grad
    with pytest.raises(RuntimeError, match="(?i)trying to backward through autograd_custom.*register_autograd"):
        out.sum().backward()


@BOTH
@pytest.mark.parametrize("key", ["CPU", "CompositeImplicitAutograd"])
@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")
def test_of_a_library(m, key):
    """What the implementation calls is recorded."""
    lib = m.library.Library("autograd_custom_lib", "FRAGMENT")
    name = f"f_{key.lower()}"
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, lambda x: x.exp() * 2, key)
    x = m.zeros(2, requires_grad=True)
    getattr(m.ops.autograd_custom_lib, name)(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_wrong_number_of_gradients():
    def pair(x: cresset.Tensor, y: cresset.Tensor) -> cresset.Tensor:
        return x + y
    pair.__annotations__ = {"x": cresset.Tensor, "y": cresset.Tensor, "return": cresset.Tensor}
    op = define(cresset, "pair", pair, lambda ctx, grad: grad)
    with pytest.raises(RuntimeError, match="autograd_custom::pair.*1 gradients for 2 arguments; return one, or None"):
        op(cresset.ones(2, requires_grad=True), cresset.ones(2)).sum().backward()
