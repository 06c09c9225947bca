"""A1: cresset.func against torch.func: grad, vjp, jvp, Jacobians, nesting, histories, models, errors."""
import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def values(v):
    if isinstance(v, (tuple, list)):
        return [values(t) for t in v]
    if isinstance(v, dict):
        return {key: values(t) for key, t in v.items()}
    return [list(v.shape), v.detach().tolist(), v.requires_grad] if hasattr(v, "shape") else v


def near(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a))
    return a == b


def data(m, *shape):
    n = 1
    for size in shape:
        n *= size
    return (m.arange(n, dtype=m.float64).sin() + 1.1).reshape(shape)


def number(x):
    return (x ** 3).sum() * x.prod()


def pair(x, y):
    return (x @ y).exp() * 0.1


def tree(p, x):
    return {"a": (p["w"] * x).sin(), "b": [p["w"].sum() * p["b"]]}


def params(m):
    return {"w": data(m, 3), "b": data(m, 2)}


def composed(f, m):
    """f'''(x) by nesting."""
    g = lambda x: x ** 4 * x.sin()
    return [f.grad(g)(data(m)), f.grad(f.grad(g))(data(m)), f.grad(f.grad(f.grad(g)))(data(m))]


def no_confusion(f, m):
    """The inner variable is not the outer one, though they have one value."""
    inner = lambda x: f.grad(lambda y: x * y * y)(x)
    return [f.grad(lambda x: x * f.grad(lambda y: x + y)(data(m)))(data(m)), f.grad(inner)(data(m)),
            f.jvp(inner, (data(m),), (data(m) * 0 + 1,))]


def forward_over_forward(f, m):
    one = data(m) * 0 + 1
    g = lambda x: x ** 4 * x.sin()
    return f.jvp(lambda x: f.jvp(g, (x,), (one,))[1], (data(m),), (one,))


def reverse_over_forward(f, m):
    g = lambda x: f.jvp(number, (x,), (data(m, 3),))[1]
    return f.grad(g)(data(m, 3))


def branches(f, m):
    return [f.grad(lambda x: x.sum() if x.sum() > 0 else -x.sum())(s * data(m, 3)) for s in (1, -1)]


def history(f, m):
    """backward() goes through a gradient."""
    x, w = data(m, 3).requires_grad_(), data(m, 3).requires_grad_()
    g, v = f.grad_and_value(lambda t: (t ** 3 * w).sum())(x)
    (g.sum() + v).backward()
    h = f.grad(lambda t: (t ** 3 * w).sum())(data(m, 3))
    k = f.grad(lambda t: (t ** 3).sum())(data(m, 3))
    with m.no_grad():
        n = f.grad(lambda t: (t ** 3 * w).sum())(x)
    return [g, v, x.grad, w.grad, h, k, n]


def pulled(f, m):
    out, pull, aux = f.vjp(lambda x, y: (pair(x, y), x.sum()), data(m, 2, 3), data(m, 3), has_aux=True)
    return [out, pull(data(m, 2)), pull(data(m, 2) * 2), aux]


def pulled_tree(f, m):
    out, pull = f.vjp(tree, params(m), data(m, 3))
    return [out, pull({"a": data(m, 3), "b": [data(m, 2)]})]


def twice(f, m):
    """A pullback is differentiable."""
    x = data(m, 3)
    return f.grad(lambda t: f.vjp(lambda u: u.sin() * u, t)[1](t)[0].sum())(x)


def linearized(f, m):
    out, push = f.linearize(pair, data(m, 2, 3), data(m, 3))
    return [out, push(data(m, 2, 3), data(m, 3)), push(data(m, 2, 3) * 0, data(m, 3))]


def model(f, m):
    net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 1)).double()
    with m.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(m.arange(p.numel(), dtype=m.float64).reshape(p.shape).sin() + i)
    weights = {key: p.detach() for key, p in net.named_parameters()}
    loss = lambda w, x: f.functional_call(net, w, (x,)).square().sum()
    return [f.grad(loss)(weights, data(m, 2, 3)), f.grad(loss, argnums=1)(weights, data(m, 2, 3)),
            [p.grad is None for p in net.parameters()]]


def stacked(f, m):
    nets = []
    for i in range(2):
        net = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.BatchNorm1d(2)).double()
        with m.no_grad():
            for p in net.parameters():
                p.fill_(i + 0.5)
        nets.append(net)
    weights, buffers = f.stack_module_state(nets)
    return [weights, buffers, [p.is_leaf for p in weights.values()]]


CALLS = {
    "grad": lambda f, m: f.grad(number)(data(m, 3)),
    "grad, argnums": lambda f, m: f.grad(lambda x, y: (x * y.sin()).sum(), argnums=(1, 0))(data(m, 3), data(m, 3)),
    "grad, argnum": lambda f, m: f.grad(lambda x, y: (x * y.sin()).sum(), argnums=-1)(data(m, 3), data(m, 3)),
    "grad, aux": lambda f, m: f.grad(lambda x: (number(x), x * 2), has_aux=True)(data(m, 3)),
    "grad, tree": lambda f, m: f.grad(lambda p, x: tree(p, x)["a"].sum())(params(m), data(m, 3)),
    "grad, keywords": lambda f, m: f.grad(lambda x, *, scale: (x * scale).sum())(data(m, 3), scale=data(m, 3)),
    "grad, unused": lambda f, m: f.grad(lambda x, y: y.sum())(data(m, 3), data(m, 3)),
    "grad and value": lambda f, m: f.grad_and_value(number)(data(m, 3)),
    "grad and value, aux": lambda f, m: f.grad_and_value(lambda x: (number(x), x * 2), has_aux=True)(data(m, 3)),
    "vjp": pulled, "vjp, tree": pulled_tree, "vjp, twice": twice,
    "jvp": lambda f, m: f.jvp(pair, (data(m, 2, 3), data(m, 3)), (data(m, 2, 3), data(m, 3))),
    "jvp, aux": lambda f, m: f.jvp(lambda x: (x.sin(), x * 2), (data(m, 3),), (data(m, 3),), has_aux=True),
    "jvp, tree": lambda f, m: f.jvp(tree, (params(m), data(m, 3)), (params(m), data(m, 3))),
    "jvp, constant": lambda f, m: f.jvp(lambda x: m.ones(2), (data(m, 3),), (data(m, 3),)),
    "jacrev": lambda f, m: f.jacrev(lambda x: x.sin() * x.sum())(data(m, 2, 2)),
    "jacrev, several": lambda f, m: f.jacrev(pair, argnums=(0, 1))(data(m, 2, 3), data(m, 3)),
    "jacrev, tree": lambda f, m: f.jacrev(tree)(params(m), data(m, 3)),
    "jacrev, aux": lambda f, m: f.jacrev(lambda x: (x.sin(), x.sum()), has_aux=True)(data(m, 3)),
    "jacfwd": lambda f, m: f.jacfwd(lambda x: x.sin() * x.sum())(data(m, 2, 2)),
    "jacfwd, several": lambda f, m: f.jacfwd(pair, argnums=(0, 1))(data(m, 2, 3), data(m, 3)),
    "jacfwd, tree": lambda f, m: f.jacfwd(tree)(params(m), data(m, 3)),
    "hessian": lambda f, m: f.hessian(number)(data(m, 3)),
    "hessian, several": lambda f, m: f.hessian(lambda x, y: (x.sin() @ y.cos()) ** 2, argnums=(0, 1))(data(m, 2),
                                                                                                  data(m, 2)),
    "jacrev of jacrev": lambda f, m: f.jacrev(f.jacrev(number))(data(m, 3)),
    "jacfwd of jacfwd": lambda f, m: f.jacfwd(f.jacfwd(number))(data(m, 3)),
    "composed": composed, "no confusion": no_confusion, "forward over forward": forward_over_forward,
    "reverse over forward": reverse_over_forward, "branches": branches, "history": history, "linearize": linearized,
    "model": model, "stacked": stacked,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    ours, theirs = (values(CALLS[name](m.func, m)) for m in (cresset, torch))
    assert near(ours, theirs), f"PyTorch gives {theirs}, not {ours}"


@BOTH
def test_names(m):
    """The function keeps its name."""
    assert m.func.grad(number).__name__ == "number" and m.func.jacrev(number).__name__ == "number"


ERRORS = {
    "no scalar": (lambda f, m: f.grad(lambda x: x * 2)(data(m, 3)), RuntimeError, "scalar Tensor.*1 dims.*jacrev"),
    "no tensor": (lambda f, m: f.grad(lambda x: 3.0)(data(m, 3)), RuntimeError, "return a Tensor"),
    "argnums": (lambda f, m: f.grad(number, argnums=2)(data(m, 3)), RuntimeError,
                "Got argnum=2, but only 1 positional"),
    "argnums twice": (lambda f, m: f.grad(pair, argnums=(0, 0))(data(m, 2, 3), data(m, 3)), RuntimeError, "unique"),
    "no argnums": (lambda f, m: f.grad(number, argnums=())(data(m, 3)), RuntimeError, "non-empty"),
    "aux": (lambda f, m: f.grad(number, has_aux=True)(data(m, 3)), RuntimeError, "should be a tuple: .output, aux."),
    "cotangents": (lambda f, m: f.vjp(number, data(m, 3))[1]((data(m), data(m))), RuntimeError, "pytree structure"),
    "primals": (lambda f, m: f.jvp(number, data(m, 3), (data(m, 3),)), RuntimeError, "primals to be a tuple"),
    "tangents": (lambda f, m: f.jvp(number, (data(m, 3),), (data(m, 3), data(m, 3))), RuntimeError,
                 "same python structure"),
    "tangent's shape": (lambda f, m: f.jvp(number, (data(m, 3),), (data(m, 2),)), RuntimeError, ".*"),
    "strict": (lambda f, m: f.jvp(lambda x: m.ones(2), (data(m, 3),), (data(m, 3),), strict=True), RuntimeError,
               "independent of the inputs"),
    "nothing": (lambda f, m: f.vjp(lambda x: (), data(m, 3)), RuntimeError, "non-empty output"),
    "type": (lambda f, m: f.vjp(lambda x: "text", data(m, 3)), RuntimeError, "unsupported type"),
    "integers": (lambda f, m: f.grad(lambda x: x.sum())(m.arange(3)), RuntimeError, "can require gradients"),
    "chunks": (lambda f, m: f.jacrev(number, chunk_size=0), ValueError, "chunk_size"),
    "randomness": (lambda f, m: f.jacfwd(number, randomness="some")(data(m, 3)), RuntimeError, "randomness"),
    "no models": (lambda f, m: f.stack_module_state([]), RuntimeError, "at least one model"),
    "models": (lambda f, m: f.stack_module_state([m.nn.Linear(1, 1), m.nn.Tanh()]), RuntimeError, "same class"),
    "modes": (lambda f, m: f.stack_module_state([m.nn.Linear(1, 1), m.nn.Linear(1, 1).eval()]), RuntimeError,
              "training/eval"),
}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, m):
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call(m.func, m)




def test_a_tangent_of_another_shape_says_so():
    with pytest.raises(RuntimeError, match=r"tangent 0 to be a Tensor of the primal's shape \[3\], got \[2\]"):
        cresset.func.jvp(number, (data(cresset, 3),), (data(cresset, 2),))


@pytest.mark.parametrize("f, at", [
    (lambda m, x: x.std(correction=0), ()), (lambda m, x: m.linalg.vector_norm(x, 2, [1]), (2, 0)),
    (lambda m, x: m.linalg.vector_norm(x * 0, 3), (3,)), (lambda m, x: m.logit(x - 1, 0.1), (5,)),
    (lambda m, x: m.cosine_similarity(x * 0, x), (2, 3))], ids=["std", "norm", "norm 3", "logit", "cosine"])
def test_tangents_at_corners_are_numbers(f, at):
    """Where a gradient is 0 by a condition, so is the derivative forwards."""
    found = [m.func.jvp(lambda x: f(m, x), (data(m, *at),), (data(m, *at),))[1].tolist() for m in (cresset, torch)]
    assert near(*found), found
