"""torch.func in captured programs: its transforms are part of graphs, in each other, with gradients through them.
Results, their sizes and strides, gradients and errors are PyTorch's."""

import collections
import contextlib
import os
import sys

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
sys.path.insert(0, os.path.dirname(__file__))
import cresset  # noqa: E402
import func_programs  # noqa: E402
import torch.nn.functional as F  # noqa: E402
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


WHOLE = [called, graded, stepped, with_value, several, auxiliary, twice, of_a_closure, by_name, unused, quiet, random]


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
@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_as_plain(f, wants):
    run = cresset.compile(f, backend="eager")
    for k, rows in enumerate((2, 2, 5, 1, 3)):
        theirs, ours = told(f, inputs(k, wants, rows), k), told(run, inputs(k, wants, rows), k)
        torch.testing.assert_close(ours, theirs)
    assert not reasons(run)


def reasons(run):
    return [e["reason"] for e in run._entries() if e["reason"]]


def seen(f, given, seed, around):
    """All that can be told of a call: results, where they lie, and gradients, also of the models."""
    torch.manual_seed(seed)
    with around():
        results, spec = torch.utils._pytree.tree_flatten(f(*given))
    laid_out = [(t.shape, t.dtype, t.requires_grad, t.stride() if t.numel() > 1 else None) for t in results]
    wanted = [t for t in (*given, *func_programs.MODEL.parameters(), *func_programs.IMAGES.parameters())
              if t.requires_grad]
    roots = [(t * torch.linspace(0.5, 1.5, t.numel()).reshape(t.shape)).sum() for t in results if t.requires_grad]
    found = torch.autograd.grad(sum(roots), wanted, allow_unused=True) if roots else None
    return spec, laid_out, results, found, torch.rand(1)


def check(name, compile, wants=False, around=contextlib.nullcontext, sizes=(3, 3, 5, 4, 1, 2)):
    f, made = func_programs.WHOLE[name]
    run = compile(f)
    for k, n in enumerate(sizes):
        given = []
        for _ in range(2):
            torch.manual_seed(100 + k)
            given.append([t.requires_grad_(wants and t.is_floating_point()) for t in made(n)])
        theirs, ours = seen(f, given[0], k, around), seen(run, given[1], k, around)
        assert ours[:2] == theirs[:2]
        torch.testing.assert_close(ours[2:], theirs[2:], rtol=1e-4, atol=1e-5)
    assert not reasons(run)
    return run


@pytest.mark.parametrize("wants, around", [(False, contextlib.nullcontext), (True, contextlib.nullcontext),
                                           (True, torch.no_grad)], ids=["plain", "recorded", "no_grad"])
@pytest.mark.parametrize("name", func_programs.WHOLE)
def test_whole_graphs(name, wants, around):
    check(name, lambda f: cresset.compile(f, backend="eager"), wants, around)


@pytest.mark.parametrize("name", func_programs.WHOLE)
def test_native(name):
    check(name, lambda f: cresset.compile(f, options={"wait": True}), wants=True, sizes=(3, 4))


@pytest.mark.parametrize("name", ["dots", "trees", "modules", "each_gradient", "pulled_in_trees", "pushed_in_trees",
                                  "jacobians", "jacobians_in_trees", "jacobians_of_each", "products"])
def test_sizes_that_change_are_left_open(name):
    run = check(name, lambda f: cresset.compile(f, backend="eager"), sizes=(3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
    assert len(run._entries()) == 2
    check(name, lambda f: cresset.compile(f, backend="eager", dynamic=True), sizes=(3, 4))


def test_linear_maps():
    run, x = cresset.compile(func_programs.linear_maps, backend="eager"), torch.randn(3)
    torch.testing.assert_close(run(x), func_programs.linear_maps(x))
    assert not reasons(run)
    x.requires_grad_()
    torch.testing.assert_close(run(x), func_programs.linear_maps(x))
    assert "linearize() is called where gradients are recorded" in reasons(run)[0]


def test_what_comes_back_is_the_argument_where_torch_gives_it():
    programs = [
        lambda x: func.vmap(lambda a: a, in_dims=-1, out_dims=-1)(x),
        lambda x: func.vmap(lambda a, b: b, in_dims=(0, None), out_dims=None)(x, x),
        lambda x: func.grad(lambda u: (u.sum(), u), has_aux=True)(x)[1],
        lambda x: func.vjp(lambda u: u, x)[0],
        lambda x: func.vjp(lambda u: u[0], x)[0],
        lambda x: func.jvp(lambda u: u, (x,), (x,))[0],
        lambda x: func.jvp(lambda u: x, (x,), (x,))[0],
        lambda x: func.jacrev(lambda u: (u.sum(), u), has_aux=True)(x)[1],
        lambda x: func.jacfwd(lambda u: (u.sum(), u), has_aux=True)(x)[1],
    ]
    for f in programs:
        for wants in (False, True):
            for around in (contextlib.nullcontext, torch.no_grad):
                x = torch.randn(2, 3, requires_grad=wants)
                with around():
                    theirs, ours = f(x), cresset.compile(f, backend="eager")(x)
                told = [(t is x, t._base is x, t.requires_grad, t.is_leaf, t.stride()) for t in (theirs, ours)]
                assert told[0] == told[1]


class Odd(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 100


@torch.library.custom_op("cresset_func::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def keep_nothing(ctx, inputs, output):
    pass


tripled.register_fake(torch.empty_like)
tripled.register_autograd(lambda ctx, g: g * 300, setup_context=keep_nothing)
tripled.register_vmap(lambda info, dims, x: (x * 3, dims[0]))


def without_gradients(u):
    with torch.no_grad():
        y = u * 2
    return y * u


def in_mixed_precision(u):
    with torch.autocast("cpu"):
        return u[None] @ u[:, None]


def counted(u):
    COUNTS.append(1)
    return u * len(COUNTS)


COUNTS = []
Two = collections.namedtuple("Two", "a b")
BROKEN = {  # and why
    "a_function_of_its_own": (lambda x: func.grad(lambda u: Odd.apply(u).sum())(x), "apply() is called in a transform"),
    "one_mapped": (lambda x: func.vmap(Odd.apply)(x), "apply() is called in a transform"),
    "an_op_that_torch_has": (lambda x: func.vmap(lambda a: tripled(a))(x), "which only torch has"),
    "no_grad_forwards": (lambda x: func.jvp(without_gradients, (x,), (x,)), "differentiated forwards"),
    "changes": (lambda x: func.vmap(counted)(x), "changes something that was there before"),
    "writes": (lambda x: (lambda z: (func.vmap(lambda a: a.mul_(2))(z), z))(x * 1), "writes to a tensor"),
    "branches": (lambda x: func.grad(lambda u: (u if u.sum() > 0 else -u).sum())(x), "depends on the data"),
    "numbers_of_tensors": (lambda x: func.vmap(lambda a: a * x.sum().item())(x), "'item'"),
    "precision_inside": (lambda x: func.vmap(in_mixed_precision)(x), "set_autocast_enabled() is called inside of vmap"),
    "structures": (lambda x: func.vmap(lambda a: Two(a, a * 2))(x), "vmap"),
    "ordered": (lambda x: func.grad(lambda d: d["p"].sum())(collections.OrderedDict(p=x)), "something else than"),
    "told_to_keep": (lambda x: func.vjp(torch.sin, x)[1](x, create_graph=True), "what to do with its graph"),
    "of_other_dtypes": (lambda x: func.vjp(lambda u: u * 2, x)[1](x.double()), "other dtypes"),
    "strict": (lambda x: func.jvp(torch.sin, (x,), (x,), strict=True), "strict=True"),
    "in_the_order_of_memory": (lambda x: func.vmap(lambda a: a.clone().normal_(), randomness="different")(x), "drawn"),
    "the_same_in_chunks": (lambda x: func.vmap(lambda a: a + torch.rand(4), 0, 0, "same", chunk_size=2)(x), "same"),
    "random_columns": (lambda x: func.jacfwd(lambda u: u * torch.rand(4), randomness="same")(x), "random"),
    "all_arguments": (lambda x: func.jacfwd(torch.sin, argnums=None)(x), "all arguments at once"),
    "in_a_branch": (lambda x: torch.cond(x.sum() > 9, lambda x: func.vmap(torch.sin)(x), torch.clone, (x,)), "body"),
    "not_a_number_forwards": (lambda x: func.jvp(torch.sinc, (x * 0,), (x,)), "aten::sinc"),
    "pulled_later": (lambda x: func.vjp(torch.sin, x)[1], "part of the result"),
}


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_where_a_capture_ends(name, wants):
    f, why = BROKEN[name]
    run = cresset.compile(f, backend="eager")
    for k in range(3):
        told = []
        for call in (f, run):
            COUNTS.clear()
            torch.manual_seed(k)
            x = torch.randn(3, 4, requires_grad=wants)
            result = call(x)
            told.append((result(x) if callable(result) else result, len(COUNTS)))
        torch.testing.assert_close(told[1], told[0])
    assert any(why in reason for reason in reasons(run)), reasons(run)
    torch._dynamo.reset()


def test_mixed_precision_around():
    f, run = func_programs.modules, cresset.compile(func_programs.modules, backend="eager")
    x, y = func_programs.pair(3)
    with torch.autocast("cpu"):
        theirs, ours = f(x, y), run(x, y)
    torch.testing.assert_close(ours, theirs)
    assert "mixed precision" in reasons(run)[0]


def test_closures_that_leave_are_torchs():
    def f(x):
        return x + 1, func.jacrev(torch.sin), func.vmap(lambda a: a * 2)

    x = torch.randn(3)
    _, rows, doubled = cresset.compile(f, backend="eager")(x)
    assert rows.__code__ is func.jacrev(torch.sin).__code__ and rows.__name__ == "sin"
    torch.testing.assert_close((rows(x), doubled(x)), (x.cos().diag(), x * 2))


def test_second_derivatives_are_right_where_torchs_are_not():
    """Of weights of layer_norm() under vmap, and of solve() forwards twice, PyTorch's differ from differences."""
    x, w = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)

    def of_weights(x):
        one = lambda g, u: (F.layer_norm(u, (4,), g) ** 3).sum()
        return func.vmap(func.grad(one), (None, 0))(w, x).sin().sum()

    given, step = x.clone().requires_grad_(), torch.randn_like(x)
    found, = torch.autograd.grad(cresset.compile(of_weights, backend="eager")(given), given)
    near = (of_weights(x + 1e-6 * step) - of_weights(x - 1e-6 * step)) / 2e-6
    torch.testing.assert_close((found * step).sum(), near, rtol=1e-5, atol=1e-6)

    def solved(a):
        return torch.linalg.solve(a @ a.t() + torch.eye(3, dtype=a.dtype), a).sum()

    ours = cresset.compile(lambda a: func.jacfwd(func.jacfwd(solved))(a), backend="eager")(x)
    torch.testing.assert_close(ours, func.jacrev(func.jacrev(solved))(x))


ERRORS = {
    "not_one_number": lambda x: func.grad(lambda u: u * 2)(x),
    "no_tensor": lambda x: func.grad(lambda u: 3.0)(x),
    "no_such_argument": lambda x: func.grad(lambda u: u.sum(), argnums=3)(x),
    "no_tensor_beside": lambda x: func.grad(lambda u: (u.sum(), "text"), has_aux=True)(x),
    "dims_in_a_list": lambda x: func.vmap(lambda a, b: a + b, in_dims=[0, 0])(x, x),
    "list_for_tuple": lambda x: func.vmap(lambda a: a[0], in_dims=([0, 0],))((x, x)),
    "no_such_dim": lambda x: func.vmap(lambda a: a, in_dims=5)(x),
    "nothing_mapped": lambda x: func.vmap(lambda a: a, in_dims=(None,))(x),
    "sizes_differ": lambda x: func.vmap(lambda a, b: a + b)(x, x[:2]),
    "a_number_mapped": lambda x: func.vmap(lambda a, b: a + b)(x, 2.0),
    "no_such_out_dim": lambda x: func.vmap(lambda a: a, out_dims=3)(x),
    "mapped_without_dim": lambda x: func.vmap(lambda a: a, out_dims=None)(x),
    "a_number_given": lambda x: func.vmap(lambda a: 1.0)(x),
    "chunks_of_one_for_all": lambda x: func.vmap(lambda a: (a, x), out_dims=(0, None), chunk_size=2)(x),
    "no_chunk": lambda x: func.vmap(torch.sin, chunk_size=2)(x[:0]),
    "branches": lambda x: func.vmap(lambda a: a if a.sum() > 0 else -a)(x),
    "data_sizes": lambda x: func.vmap(lambda a: a[a > 0])(x),
    "written_by_each": lambda x: func.vmap(lambda a: torch.zeros(4).add_(a))(x),
    "random": lambda x: func.vmap(lambda a: a + torch.rand(4))(x),
    "random_columns": lambda x: func.jacfwd(lambda u: u * torch.rand(4))(x),
    "recurrent": lambda x: func.vmap(RECURRENT)(x[:, None]),
    "cotangent_sizes": lambda x: func.vjp(lambda u: u * 2, x)[1](x[0]),
    "cotangent_trees": lambda x: func.vjp(lambda u: (u, u), x)[1](x),
    "integers_pulled": lambda x: func.vjp(lambda u: (u > 0).long(), x)[0],
    "by_integers": lambda x: func.vjp(lambda u: u * 1.0, x.long())[0],
    "tangent_sizes": lambda x: func.jvp(lambda u: u * 2, (x,), (x[0],)),
    "tangents_in_a_list": lambda x: func.jvp(lambda u: u * 2, [x], [x]),
    "no_rule_forwards": lambda x: func.jvp(lambda u: torch.cdist(u, u * 2), (x,), (x,)),
    "complex_rows": lambda x: func.jacrev(lambda u: torch.complex(u, u))(x),
    "integer_rows": lambda x: func.jacrev(lambda u: (u > 0).long())(x),
    "keywords": lambda x: func.jacrev(lambda u, k=1: u * k)(x, k=2),
    "twice_the_same": lambda x: func.jacrev(lambda u, v: u * v, argnums=(0, 0))(x, x),
    "ops_that_torch_has": lambda x: func.grad(lambda u: tripled(u).sum())(x),
    "ops_pulled": lambda x: func.vjp(tripled, x)[1](x),
    "ops_by_rows": lambda x: func.jacrev(tripled)(x[0]),
    "linear_sizes": lambda x: func.linearize(torch.sin, x)[1](x[0]),
}
RECURRENT = nn.GRU(4, 3)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    raised = []
    for call in (ERRORS[name], cresset.compile(ERRORS[name], backend="eager")):
        with pytest.raises(Exception) as caught:  # noqa: PT011  whatever torch raises
            call(torch.randn(3, 4))
        raised.append((type(caught.value), str(caught.value)))
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
