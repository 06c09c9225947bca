"""A1: autograd.functional, gradcheck and gradgradcheck against PyTorch."""
import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def values(v):
    if isinstance(v, (tuple, list)):
        return [values(t) for t in v]
    return [list(v.shape), v.detach().tolist(), v.requires_grad]


def near(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a))
    return a == b


def data(m, *shape, grad=False):
    n = 1
    for size in shape:
        n *= size
    return (m.arange(n, dtype=m.float64).sin() + 1.1).reshape(shape).requires_grad_(grad)


def one(m):
    return lambda x: (x * x).sin()


def two(m):
    return lambda x, y: ((x @ y).exp() * 0.1, x.sum() * y)


def number(m):
    return lambda x: x.pow(3).sum() * x.prod()


def numbers(m):
    return lambda x, y: (x.pow(3).sum() * y.cos()).sum()


CALLS = {
    "vjp": lambda f, m: f.vjp(one(m), data(m, 3), data(m, 3)),
    "vjp of several": lambda f, m: f.vjp(two(m), (data(m, 2, 3), data(m, 3)), (data(m, 2), data(m, 3))),
    "vjp of a number": lambda f, m: f.vjp(number(m), data(m, 3)),
    "vjp with a graph": lambda f, m: f.vjp(one(m), data(m, 3, grad=True), data(m, 3), create_graph=True),
    "jvp": lambda f, m: f.jvp(one(m), data(m, 3), data(m, 3)),
    "jvp of several": lambda f, m: f.jvp(two(m), (data(m, 2, 3), data(m, 3)), (data(m, 2, 3), data(m, 3))),
    "jvp with a graph": lambda f, m: f.jvp(one(m), data(m, 3, grad=True), data(m, 3), create_graph=True),
    "jacobian": lambda f, m: f.jacobian(one(m), data(m, 2, 2)),
    "jacobian of several": lambda f, m: f.jacobian(two(m), (data(m, 2, 3), data(m, 3))),
    "jacobian forwards": lambda f, m: f.jacobian(two(m), (data(m, 2, 3), data(m, 3)), vectorize=True,
                                                 strategy="forward-mode"),
    "jacobian vectorized": lambda f, m: f.jacobian(two(m), (data(m, 2, 3), data(m, 3)), vectorize=True),
    "jacobian with a graph": lambda f, m: f.jacobian(one(m), data(m, 2, grad=True), create_graph=True),
    "jacobian, independent": lambda f, m: f.jacobian(lambda x, y: x * 2, (data(m, 2), data(m, 3))),
    "hessian": lambda f, m: f.hessian(number(m), data(m, 3)),
    "hessian of several": lambda f, m: f.hessian(numbers(m), (data(m, 2), data(m, 3))),
    "hessian forwards": lambda f, m: f.hessian(number(m), data(m, 3), vectorize=True,
                                               outer_jacobian_strategy="forward-mode"),
    "vhp": lambda f, m: f.vhp(number(m), data(m, 3), data(m, 3)),
    "vhp of several": lambda f, m: f.vhp(numbers(m), (data(m, 2), data(m, 3)), (data(m, 2), data(m, 3))),
    "hvp": lambda f, m: f.hvp(number(m), data(m, 3), data(m, 3)),
    "hvp of several": lambda f, m: f.hvp(numbers(m), (data(m, 2), data(m, 3)), (data(m, 2), data(m, 3))),
    "hvp of a linear one": lambda f, m: f.hvp(lambda x: x.sum(), data(m, 3), data(m, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_functional(name):
    ours, theirs = (values(CALLS[name](m.autograd.functional, m)) for m in (cresset, torch))
    if name == "hessian forwards":
        assert theirs.pop() and not ours.pop()  # PyTorch's has a history that nobody asked for
    assert near(ours, theirs), f"PyTorch gives {theirs}, not {ours}"


ERRORS = {
    "type": (lambda f, m: f.vjp(one(m), 3), TypeError,
             "given to vjp must be either a Tensor or a tuple of Tensors.*int"),
    "v of another size": (lambda f, m: f.vjp(one(m), data(m, 3), data(m, 2)), RuntimeError, "v has invalid size"),
    "v of another length": (lambda f, m: f.jvp(one(m), data(m, 3), (data(m, 3), data(m, 2))), RuntimeError,
                            "v is a tuple of invalid length|should contain a single Tensor"),
    "no v": (lambda f, m: f.vjp(one(m), data(m, 3)), RuntimeError, "v can only be None"),
    "no v, jvp": (lambda f, m: f.jvp(one(m), data(m, 3)), RuntimeError, "v can only be None"),
    "hessian of several numbers": (lambda f, m: f.hessian(one(m), data(m, 3)), RuntimeError, "single element"),
    "strict": (lambda f, m: f.jacobian(lambda x, y: x * 2, (data(m, 2), data(m, 3)), strict=True), RuntimeError,
               "independent of input 1"),
    "strict, constant": (lambda f, m: f.vjp(lambda x: m.ones(()), data(m, 3), strict=True), RuntimeError,
                         "does not require gradients"),
    "strict and vectorized": (lambda f, m: f.jacobian(one(m), data(m, 3), strict=True, vectorize=True), RuntimeError,
                              "not supported together"),
    "forwards alone": (lambda f, m: f.jacobian(one(m), data(m, 3), strategy="forward-mode"), NotImplementedError,
                       "vectorize=True"),
    "strategy": (lambda f, m: f.jacobian(one(m), data(m, 3), strategy="sideways"), AssertionError, "Expected strategy"),
}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, m):
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call(m.autograd.functional, m)


# ---- gradcheck ----

def wrong(m):
    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]
    return Wrong.apply


def half_wrong(m):
    """Its second derivative alone is wrong."""
    class Half(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0].detach() ** 2
    return Half.apply


PASSES = {
    "one": lambda m: (one(m), (data(m, 3, grad=True),)),
    "two": lambda m: (two(m), (data(m, 2, 3, grad=True), data(m, 3, grad=True))),
    "one of two": lambda m: (two(m), (data(m, 2, 3, grad=True), data(m, 3))),
    "not contiguous": lambda m: (one(m), (data(m, 2, 3).t().requires_grad_(),)),
    "complex": lambda m: (lambda x: x * x.conj() * (1 + 2j),
                          (m.complex(data(m, 2), data(m, 2) - 3).requires_grad_(),)),
    "complex to real": lambda m: (lambda x: x.abs(), (m.complex(data(m, 2), data(m, 2) - 3).requires_grad_(),)),
    "real to complex": lambda m: (lambda x: m.complex(x, x * x).exp(), (data(m, 2, grad=True),)),
    "softmax": lambda m: (lambda x: x.softmax(-1), (data(m, 2, 3, grad=True),)),
    "an integer beside": lambda m: (lambda x: (x * 2, x.argmax()), (data(m, 3, grad=True),)),
}


@BOTH
@pytest.mark.parametrize("name", PASSES)
def test_gradcheck_passes(name, m):
    function, inputs = PASSES[name](m)
    assert m.autograd.gradcheck(function, inputs) and m.autograd.gradcheck(function, inputs, check_grad_dtypes=True)
    assert m.autograd.gradgradcheck(function, inputs)


def test_gradcheck_forwards():
    for name in PASSES:
        function, inputs = PASSES[name](cresset)
        assert cresset.autograd.gradcheck(function, inputs, check_forward_ad=True)


@BOTH
def test_gradcheck_fails(m):
    x = data(m, 3, grad=True)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        m.autograd.gradcheck(wrong(m), x)
    assert not m.autograd.gradcheck(wrong(m), x, raise_exception=False)
    assert m.autograd.gradcheck(half_wrong(m), x)
    with pytest.raises(RuntimeError, match="Jacobian mismatch|zero"):
        m.autograd.gradgradcheck(half_wrong(m), x)
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        m.autograd.gradcheck(lambda t: t.detach() * 2, x)
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        m.autograd.gradcheck(one(m), data(m, 3))
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        m.autograd.gradcheck(one(m), data(m, 1).expand(3).requires_grad_())
    with pytest.warns(UserWarning, match="not a double precision floating point"):
        m.autograd.gradcheck(one(m), data(m, 2).float().requires_grad_(), raise_exception=False)


def test_gradcheck_of_our_own():
    x = data(cresset, 3, grad=True)
    with pytest.raises(cresset.autograd.gradcheck.__globals__["GradcheckError"], match="by jvp"):
        cresset.autograd.gradcheck(wrong(cresset), x, check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(AssertionError, match="at least one of"):
        cresset.autograd.gradcheck(one(cresset), x, check_backward_ad=False)
    calls = []

    def noisy(t):
        t.register_hook(lambda g: g + (calls.append(1) or len(calls)) * 1e-9)
        return t * 2
    with pytest.raises(RuntimeError, match="Backward is not reentrant"):
        cresset.autograd.gradcheck(lambda t: noisy(t * 1), x)
