"""torch.func in captured programs: functional_call(), grad(), grad_and_value() and vmap() are part of graphs; jvp, vjp,
jacobians end captures. Results, gradients through them and errors are PyTorch's."""

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402
from torch import func, nn  # noqa: E402

MODEL = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def loss(params, x):
    return func.functional_call(MODEL, params, (x,)).square().mean()


def called(params, x):
    return func.functional_call(MODEL, params, (x,))


def graded(params, x):
    return func.grad(loss)(params, x)


def stepped(params, x):
    found = func.grad(loss)(params, x)
    return {k: p - 0.1 * found[k] for k, p in params.items()}


def with_value(params, x):
    found, value = func.grad_and_value(loss, argnums=1)(params, x)
    return found * value


def several(params, x):
    a, b = func.grad(lambda u, v: (u * v.sin()).sum(), argnums=(0, 1))(x, x + 1)
    return a, b


def auxiliary(params, x):
    return func.grad(lambda u: ((u * u).sum(), {"twice": u * 2}), has_aux=True)(x)


def twice(params, x):
    return func.grad(lambda u: func.grad(lambda v: (v**3).sum())(u).sum())(x)


def of_a_closure(params, x):
    scale = x.sum()
    return func.grad(lambda u: (u * scale).sum())(x)


def by_name(params, x):
    return func.grad(lambda u, *, power: (u**power).sum())(x, power=3)


def unused(params, x):
    return func.grad(lambda u, v: v.sum(), argnums=0)(x, x)


def quiet(params, x):
    def inner(u):
        with torch.no_grad():
            y = u * 2
        return (y * u).sum()
    return func.grad(inner)(x)


def random(params, x):
    return func.grad(lambda u: (u * torch.rand_like(u)).sum())(x)


def mapped(params, x):
    return func.vmap(lambda u: u.sin().sum())(x)


def graded_by_examples(params, x):
    return func.vmap(func.grad(lambda u: u.sin().sum()))(x)


WHOLE = [called, graded, stepped, with_value, several, auxiliary, twice, of_a_closure, by_name, unused, quiet, mapped,
         graded_by_examples]
OTHERS = [
    lambda params, x: func.vmap(func.grad(loss), in_dims=(None, 0))(params, x),
    lambda params, x: func.jvp(lambda u: u.sin(), (x,), (torch.ones_like(x),)),
    lambda params, x: func.vjp(lambda u: u.sin(), x)[1](torch.ones_like(x)),
    lambda params, x: func.jacrev(lambda u: u.sum(0))(x),
    lambda params, x: func.hessian(lambda u: (u**3).sum())(x[0]),
    random,
]


def inputs(k, wants, rows):
    torch.manual_seed(k)
    params = {n: torch.randn(p.shape, requires_grad=wants) for n, p in MODEL.named_parameters()}
    return params, torch.randn(rows, 3, requires_grad=wants)


def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def told(f, given, seed):
    torch.manual_seed(seed)
    result = f(*given)
    wanted = [t for t in leaves(given) if t.requires_grad]
    results = [t for t in leaves(result) if t.requires_grad]
    found = torch.autograd.grad(sum(t.sum() for t in results), wanted, allow_unused=True) if results else None
    return result, [t.requires_grad for t in leaves(result)], found


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("f", WHOLE + OTHERS, ids=lambda f: f.__name__)
def test_as_plain(f, wants):
    run = cresset.compile(f, backend="eager")
    for k, rows in enumerate((2, 2, 5, 1, 3)):
        theirs, ours = told(f, inputs(k, wants, rows), k), told(run, inputs(k, wants, rows), k)
        torch.testing.assert_close(ours, theirs)
    if f in WHOLE:
        assert not [e["reason"] for e in run._entries() if e["reason"]]


def test_errors_are_torchs():
    def not_one_number(x):
        return func.grad(lambda u: u * 2)(x)

    def no_tensor(x):
        return func.grad(lambda u: 3.0)(x)

    def no_such_argument(x):
        return func.grad(lambda u: u.sum(), argnums=3)(x)

    def no_tensor_beside(x):
        return func.grad(lambda u: (u.sum(), "text"), has_aux=True)(x)

    for f in (not_one_number, no_tensor, no_such_argument, no_tensor_beside):
        raised = []
        for call in (f, cresset.compile(f, backend="eager")):
            with pytest.raises(RuntimeError) as caught:
                call(torch.ones(3))
            raised.append(str(caught.value))
        assert raised[0] == raised[1]


def test_what_a_function_changes_is_changed():
    def f(x, seen):
        def inner(u):
            seen.append(1)
            return (u * len(seen)).sum()
        return func.grad(inner)(x)

    run, ours, theirs = cresset.compile(f, backend="eager"), [], []
    for _ in range(3):
        torch.testing.assert_close(run(torch.ones(2), ours), f(torch.ones(2), theirs))
    assert ours == theirs


def test_inside_of_other_transforms():
    run = cresset.compile(graded, backend="eager")
    params, _ = inputs(0, False, 2)
    xs = torch.randn(4, 2, 3)
    theirs = func.vmap(graded, in_dims=(None, 0))(params, xs)
    torch.testing.assert_close(func.vmap(run, in_dims=(None, 0))(params, xs), theirs)
