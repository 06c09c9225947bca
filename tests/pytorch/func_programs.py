"""Programs with torch.func that are whole graphs (test_func.py): WHOLE[name] is (function, what makes its inputs for a
size)."""

import functools

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

MODEL = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
IMAGES = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
NORMED = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2), nn.Softplus())
TABLE = nn.Embedding(7, 4)
LAYERS = [nn.Linear(4, 2) for _ in range(3)]
STACKED = {k: v.detach() for k, v in stack_module_state(LAYERS)[0].items()}
ROWS, COLUMNS, SECOND = jacrev(torch.sin), jacfwd(lambda u: u.cos()), hessian(lambda u: (u**3).sum())
DOUBLED = vmap(lambda u: u * 2)


def weights(model):
    return {k: v.detach() for k, v in model.named_parameters()}


OF_MODEL, OF_IMAGES, OF_NORMED = weights(MODEL), weights(IMAGES), weights(NORMED)
WHOLE = {}


def pair(n):
    return torch.randn(n, 4), torch.randn(n, 4)


def vector(n):
    return (torch.randn(n),)


def program(inputs):
    def add(function):
        WHOLE[function.__name__] = function, inputs
        return function

    return add


def loss(p, x, t):
    return F.mse_loss(functional_call(MODEL, p, (x,)), t)


# ---- vmap ----


@program(pair)
def dots(x, y):
    return vmap(torch.dot)(x, y)


@program(pair)
def other_dimensions(x, y):
    ins = vmap(lambda a: a.sin().sum(), in_dims=1)(x)
    return ins, vmap(lambda a: a * 2, out_dims=1)(x), vmap(lambda a: a * 2, in_dims=1, out_dims=-1)(x)


@program(pair)
def negative_dimensions(x, y):
    return vmap(lambda a, b: (a, b + a.sum()), in_dims=(-1, None), out_dims=(-1, 0))(x, y)


@program(pair)
def trees(x, y):
    return vmap(lambda d, e: {"s": d["p"] + d["q"][0], "t": (d["p"] * e,)}, in_dims=({"p": 0, "q": [0]}, None))(
        {"p": x, "q": [y]}, 2.0
    )


@program(pair)
def chunks(x, y):
    return vmap(lambda a: a.cos().sum(), chunk_size=2)(x), torch.vmap(lambda a: a, chunk_size=7)(x)


@program(pair)
def in_each_other(x, y):
    return vmap(vmap(lambda a, b: a * b.exp()))(x, y), vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)


@program(pair)
def the_same_for_all(x, y):
    return vmap(lambda a: y * 2, out_dims=1)(x), vmap(lambda a: (a * 2, y.sum()), out_dims=(0, None))(x)


@program(pair)
def made_outside(x, y):
    return DOUBLED(x)


@program(pair)
def closures(x, y):
    total = y.sum()
    return vmap(lambda a, *, k: a * total * k)(x, k=y[0])


@program(pair)
def modules(x, y):
    return vmap(MODEL)(x)


@program(pair)
def partials(x, y):
    return vmap(functools.partial(torch.add, alpha=2))(x, y)


@program(pair)
def writes_inside(x, y):
    def one(a):
        b = a * 2
        b.add_(1)
        b[0] = 3.0
        return b

    return vmap(one)(x)


@program(pair)
def numbers_of_each(x, y):
    return vmap(lambda a, i: a[i] * a[i, None])(x, torch.arange(x.shape[0]) % 4)


@program(pair)
def named_results(x, y):
    return vmap(lambda a: a.topk(2))(x), vmap(lambda a: a.max(0))(x).values


@program(pair)
def shapes(x, y):
    def one(a, b):
        c = torch.cat([a, b, torch.ones(1)]).reshape(3, 3).t()
        return torch.stack([c, c * 2], -1).sum(0), a.new_zeros(3) + a.sum(), a.unsqueeze(0).expand(3, -1)

    return vmap(one, out_dims=(0, 0, 2))(x, y)


@program(pair)
def choices(x, y):
    chosen = vmap(lambda a, b: torch.where(a.sum() > 0, a, b).softmax(-1).cumsum(0))(x, y)
    return chosen, vmap(lambda a: (a > 0).sum())(x)


@program(lambda n: (torch.randn(n, 3, 4),))
def products(x):
    return (
        vmap(lambda a: torch.einsum("ij,kj->ik", a, a))(x),
        vmap(lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None])[0])(x),
        vmap(lambda a: torch.linalg.inv(a @ a.mT + torch.eye(3)))(x),
    )


@program(lambda n: (torch.randint(0, 7, (n, 3)),))
def embeddings(i):
    return vmap(TABLE)(i)


@program(lambda n: (torch.randn(n, 1, 4, 4),))
def convolutions(x):
    return vmap(lambda a: F.conv2d(a[None], IMAGES[0].weight, IMAGES[0].bias)[0])(x)


@program(pair)
def ensembles(x, y):
    return vmap(lambda p, x: functional_call(LAYERS[0], p, (x,)), in_dims=(0, None))(STACKED, x)


@program(pair)
def conditions(x, y):
    return vmap(lambda a: torch.cond(a.sum() > 0, lambda a: a + 1, lambda a: a - 1, (a,)))(x)


# ---- gradients of each example ----


@program(pair)
def each_gradient(x, y):
    return vmap(grad(loss), in_dims=(None, 0, 0))(OF_MODEL, x, y[:, :2])


@program(pair)
def each_gradient_of_parameters(x, y):
    return vmap(grad_and_value(loss), in_dims=(None, 0, 0))(dict(MODEL.named_parameters()), x, y[:, :2])


@program(lambda n: (torch.randn(n, 1, 4, 4), torch.randint(0, 3, (n,))))
def each_gradient_of_images(x, t):
    def one(p, x, t):
        return F.cross_entropy(functional_call(IMAGES, p, (x[None],)), t[None])

    return vmap(grad(one), in_dims=(None, 0, 0))(OF_IMAGES, x, t)


@program(pair)
def each_gradient_clipped(x, y):
    def one(p, x, t):
        return F.mse_loss(functional_call(NORMED, p, (x,)), t)

    found = vmap(grad(one), in_dims=(None, 0, 0))(OF_NORMED, x, y[:, :2])
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
    return {k: (g / norms.clamp(min=1.0).view(-1, *[1] * (g.dim() - 1))).sum(0) for k, g in found.items()}


@program(pair)
def gradients_of_ensembles(x, y):
    def one(p, x, t):
        return F.mse_loss(functional_call(LAYERS[0], p, (x,)), t)

    return vmap(grad(one), in_dims=(0, None, None))(STACKED, x, y[:, :2])


@program(pair)
def gradient_of_all(x, y):
    return grad(lambda u: vmap(lambda r: r.sin().sum())(u).pow(2).sum())(x)


# ---- vjp ----


@program(vector)
def pulled(x):
    out, pull = vjp(torch.sin, x)
    return out, pull(out), pull(cotangents=out * 2)


@program(pair)
def pulled_in_trees(x, y):
    out, pull = vjp(lambda a, b: (a * b, {"s": (a + b).sum()}), x, y)
    return out, pull((x, {"s": y.sum()}))


@program(pair)
def pulled_with_more(x, y):
    out, pull, more = vjp(lambda a: (a.exp(), (a * 2, [a + 1])), x, has_aux=True)
    return pull(y), more


@program(pair)
def pulled_for_many(x, y):
    return vmap(vjp(lambda a: a.sin().sum(0), x)[1])(torch.eye(4))


@program(pair)
def pulled_for_each(x, y):
    return vmap(lambda a, b: vjp(lambda u: u.tanh() * b, a)[1](b)[0])(x, y)


@program(pair)
def pulled_through_a_model(x, y):
    out, pull = vjp(lambda p: functional_call(MODEL, p, (x,)), OF_MODEL)
    return pull(out)[0]


@program(pair)
def pulled_twice(x, y):
    return grad(lambda u: vjp(lambda a: a**3, u)[1](y)[0].sum())(x)


@program(pair)
def pulled_to_what_is_not_used(x, y):
    out, pull = vjp(lambda a, b: a * 2, x, y)
    return pull(out)


# ---- jvp ----


@program(vector)
def pushed(x):
    return jvp(torch.exp, (x,), (x * 2,))


@program(pair)
def pushed_in_trees(x, y):
    return jvp(lambda a, b: (a * b, [a.sin().sum()]), (x, y), (y, x))


@program(pair)
def pushed_with_more(x, y):
    return jvp(lambda a: (a.sin(), a * 2), (x,), (y,), has_aux=True)


@program(pair)
def pushed_through_a_model(x, y):
    return jvp(lambda p: functional_call(MODEL, p, (x,)), (OF_MODEL,), ({k: v * 2 for k, v in OF_MODEL.items()},))


@program(pair)
def products_with_second_derivatives(x, y):
    def f(u):
        return (u.sin() * x * u).sum()

    return jvp(grad(f), (x,), (y,))[1], vjp(grad(f), x)[1](y)[0]


@program(pair)
def pushed_in_each_other(x, y):
    return jvp(lambda u: jvp(lambda v: v.sin() * u, (u,), (y,))[1], (x,), (y,))


@program(pair)
def gradient_of_what_is_pushed(x, y):
    return grad(lambda u: jvp(torch.sin, (u,), (y,))[1].sum())(x)


@program(pair)
def pushed_for_each(x, y):
    return vmap(lambda a, b: jvp(lambda u: u.tanh(), (a,), (b,))[1])(x, y)


@program(pair)
def pushed_for_many(x, y):
    return vmap(lambda b: jvp(lambda u: (u * x).tanh().sum(0), (y,), (b,))[1])(torch.stack([y, x, x * 2]))


@program(pair)
def pushed_through_writes(x, y):
    def f(a):
        b = a * 2
        b.mul_(a)
        b[0] = 1.0
        return b

    return jvp(f, (x,), (y,))


@program(pair)
def pushed_to_what_does_not_depend(x, y):
    return jvp(lambda a: (y * 2, a.exp().sum(), (a > 0).sum()), (x,), (y,))


# ---- Jacobians ----


@program(vector)
def jacobians(x):
    return jacrev(torch.sin)(x), jacfwd(torch.cos)(x), hessian(lambda t: t.pow(3).sum())(x)


@program(vector)
def jacobians_made_outside(x):
    return ROWS(x), COLUMNS(x), SECOND(x)


@program(pair)
def jacobians_in_trees(x, y):
    def f(a, b):
        return a @ b.t(), {"k": (a * b).sum(0)}

    return jacrev(f, argnums=(0, 1))(x, y), jacfwd(f, argnums=(0, 1))(x, y), jacrev(f, argnums=-1)(x, y)


@program(pair)
def jacobians_with_more(x, y):
    return (
        jacrev(lambda a: (a.sin().sum(0), a * 2), has_aux=True)(x),
        jacfwd(lambda a: (a.sin().sum(0), a * 2), has_aux=True)(x),
    )


@program(pair)
def jacobians_in_chunks(x, y):
    return [jacrev(lambda a: a.sin().sum(0), chunk_size=k)(x) for k in (1, 3, 9)]


@program(vector)
def jacobians_of_jacobians(x):
    def f(t):
        return (t**3).sin()

    return jacrev(jacrev(f))(x), jacfwd(jacfwd(f))(x), jacrev(jacfwd(f))(x), jacfwd(jacrev(f))(x)


@program(pair)
def jacobians_of_each(x, y):
    return (
        vmap(jacrev(lambda a: a.sin() * a.sum()))(x),
        vmap(jacfwd(lambda a: a.sin() * a.sum()))(x),
        vmap(hessian(lambda a: (a**3).sum() * a[0]))(x),
    )


@program(pair)
def jacobians_of_a_model(x, y):
    def f(p):
        return functional_call(MODEL, p, (x,))

    return jacrev(f)(OF_MODEL), jacfwd(f)(OF_MODEL)


@program(pair)
def tangent_kernel(x, y):
    def f(p, a):
        return functional_call(MODEL, p, (a[None],))[0]

    left, right = vmap(jacrev(f), (None, 0))(OF_MODEL, x), vmap(jacrev(f), (None, 0))(OF_MODEL, y)
    return sum(
        torch.einsum("naf,mbf->nmab", a.flatten(2), b.flatten(2)) for a, b in zip(left.values(), right.values())
    )


@program(pair)
def laplacian(x, y):
    return vmap(lambda a: torch.trace(hessian(lambda u: MODEL(u).sum())(a)))(x)


@program(pair)
def gradient_of_a_jacobian(x, y):
    return grad(lambda u: jacrev(lambda v: v.sin().sum(0))(u).pow(2).sum())(x)


@program(pair)
def newton(x, y):
    def f(u):
        return (u**4).sum() + u.pow(2).sum()

    u = x[0]
    for _ in range(2):
        u = u - torch.linalg.solve(hessian(f)(u), grad(f)(u))
    return u


@program(pair)
def learning_to_learn(x, y):
    def task(p, a, t):
        found = grad(loss)(p, a, t)
        return loss({k: p[k] - 0.1 * found[k] for k in p}, a, t)

    return grad(lambda p: vmap(task, in_dims=(None, 0, 0))(p, x[:, None], y[:, None, :2]).sum())(OF_MODEL)


# ---- random numbers ----


@program(pair)
def different_numbers(x, y):
    def one(a):
        return a * torch.rand(4) + torch.randn_like(a) + F.dropout(a, 0.5), torch.randint(0, 9, (2,)), torch.randperm(3)

    return vmap(one, randomness="different")(x)


@program(pair)
def the_same_numbers(x, y):
    return vmap(lambda a: a * torch.rand(4) + F.dropout(a, 0.5), randomness="same")(x)


@program(pair)
def rows_of_what_is_random(x, y):
    return jacrev(lambda a: (a * torch.rand_like(a)).sum(0))(x)


def linear_maps(x):
    """linearize(): a whole graph where no gradients are recorded."""
    out, push = linearize(lambda a: a.sin() * a, x)
    return out, push(x), push(x * 2)
