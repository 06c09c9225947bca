"""Programs of the behaviour suite that give functions to functions of tensors: checkpoint, derivatives, vmap."""

PRELUDE = """
from cresset.utils.checkpoint import checkpoint
from cresset.func import (functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap)
W = cresset.tensor([1.0, -2.0, 3.0], requires_grad=True)
PARTS = {"u": cresset.tensor([1.0, 2.0, 3.0]), "v": cresset.tensor(2.0)}
def loss(x, scale=1.0):
    return ((x * W).sin() * scale).sum()
def with_aux(x):
    return (x * x).sum(), (x * 2, "aux")
def branching(x):
    return (x * 2).sum() if x.sum() > 0 else x.sum()
def counting(x):
    global COUNT
    COUNT += 1
    return x.sum()
def row_loss(row, w):
    return (row * w).cos().sum()
SLOPE = grad(loss)
"""

TRANSFORMS = {
    # checkpoint
    "checkpoint": "return checkpoint(lambda x: (x * W).sin(), a, use_reentrant=False) + 1",
    "checkpoint_keywords": "return checkpoint(loss, a, scale=3.0, use_reentrant=False) + 1",
    "checkpoint_module": "return checkpoint(o.net.inner, a, use_reentrant=False) + 1",
    "checkpoint_tuple": "b, c = checkpoint(lambda x: (x + 1, [x * W]), a, use_reentrant=False)\nreturn b + c[0]",
    "checkpoint_nested": "return checkpoint(lambda x: checkpoint(lambda y: y.exp() * W, x, use_reentrant=False) + x, "
                         "a, use_reentrant=False)",
    "checkpoint_closure": "n = 2\nb = a + 1\nreturn checkpoint(lambda x: x * b * n, a, use_reentrant=False)",
    "checkpoint_no_grad": "with cresset.no_grad():\n    return checkpoint(lambda x: x * W, a, use_reentrant=False)",
    "checkpoint_random": "return checkpoint(lambda x: cresset.nn.functional.dropout(x * W), a, use_reentrant=False)",
    "checkpoint_changes": "return checkpoint(lambda x: (log.append(1), x * W)[1], a, use_reentrant=False)",
    "checkpoint_writes": "b = a + 1\nreturn checkpoint(lambda x: b.add_(1) * x * W, a, use_reentrant=False), b",
    "checkpoint_reentrant": "return checkpoint(lambda x: x * 2, a, use_reentrant=True) + 1",
    "checkpoint_raises": "try:\n    checkpoint(lambda x: {}['k'], a, use_reentrant=False)\nexcept KeyError as e:\n"
                         "    return str(e), a + 1",
    # derivatives
    "grad": "return grad(loss)(a) + 1",
    "grad_outside": "return SLOPE(a) + SLOPE(a * 2)",
    "grad_keywords": "return grad(loss)(a, scale=2.0)",
    "grad_argnums": "return grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(a, a + 1), "
                    "grad(lambda x, y: (x * y).sum(), argnums=1)(a, a + 1)",
    "grad_aux": "return grad(with_aux, has_aux=True)(a)",
    "grad_and_value": "g, value = grad_and_value(loss)(a)\nreturn g * value",
    "grad_of_tree": "return grad(lambda p: (p['w'] * a).sum() + p['b'][0])({'w': a + 1, 'b': [a.sum()]})",
    "grad_of_globals": "return grad(lambda p: (p['u'] * a).sum() * p['v'])(PARTS)",
    "grad_of_module": "return grad(lambda x: o.net(x).sum())(a)",
    "grad_of_object": "return grad(o.net.inner, has_aux=False)(a) if a.dim() == 0 else a",
    "grad_nested": "return grad(lambda x: grad(lambda y: (y ** 3).sum())(x).sum())(a)",
    "grad_of_result": "b = a * W\nreturn grad(lambda x: (x * x * b).sum())(b)",
    "grad_unused": "return grad(lambda x: (a * W).sum())(a)",
    "grad_detached": "return grad(lambda x: (x.detach() * x).sum())(a)",
    "grad_in_no_grad": "with cresset.no_grad():\n    return grad(loss)(a)",
    "no_grad_in_grad": "def f(x):\n    with cresset.no_grad():\n        y = x * 2\n"
                       "    return (x * y).sum()\nreturn grad(f)(a)",
    "grad_of_writes": "def f(x):\n    y = x * 2\n    y.mul_(x)\n    y[0] = 1.0\n"
                      "    return (y * y).sum()\nreturn grad(f)(a)",
    "grad_branches": "return grad(branching)(a)",
    "grad_notes": "return grad(lambda x: (log.append(x), x.sum())[1])(a), len(log)",
    "grad_counts": "return grad(counting)(a), COUNT",
    "grad_writes": "return grad(lambda x: (x * o.w.add_(1)).sum())(a)",
    "grad_of_vector": "try:\n    return grad(lambda x: x * 2)(a)\nexcept RuntimeError as e:\n    return str(e)",
    "grad_raises": "try:\n    return grad(lambda x: raise_from_below(KeyError))(a)\nexcept KeyError as e:\n"
                   "    return str(e), a + 1",
    "grad_then_break": "g = grad(loss)(a)\nprint('between')\nreturn grad(loss)(g)",
    "grad_in_loop": "b = a\nfor _ in range(3):\n    b = b - 0.1 * grad(loss)(b)\nreturn b",
    "vjp": "out, pull = vjp(lambda x: x.sin() * W, a)\nreturn out, pull(out)[0], pull(out * 2)[0]",
    "vjp_tuple": "out, pull = vjp(lambda x, y: (x * y, [x.sum()]), a, a + 1)\nreturn pull((a, [a.sum()]))",
    "vjp_aux": "out, pull, aux = vjp(with_aux, a, has_aux=True)\nreturn out, pull(out), aux",
    "vjp_wrong": "out, pull = vjp(lambda x: x * 2, a)\ntry:\n    return pull((a, a))\nexcept RuntimeError as e:\n"
                 "    return 'refused', out",
    "vjp_returned": "out, pull = vjp(lambda x: x.sin(), a)\nreturn pull(out), callable(pull)",
    "vjp_across": "out, pull = vjp(lambda x: x.sin() * W, a)\nprint('between')\nreturn pull(out + 1)",
    "jvp": "return jvp(lambda x: x.sin() * W, (a,), (a * 2,))",
    "jvp_aux": "return jvp(with_aux, (a,), (a,), has_aux=True)",
    "jvp_strict": "return jvp(lambda x: x * 2, (a,), (a,), strict=True)",
    "linearize": "out, push = linearize(lambda x: x.sin() * W, a)\nreturn out, push(a), push(a * 2)",
    "jacrev": "return jacrev(lambda x: x.sin().sum(0) * W)(a)",
    "jacfwd": "return jacfwd(lambda x: x.sin().sum(0) * W)(a)",
    "hessian": "return hessian(lambda x: (x ** 3).sum())(a[0])",
    "grad_in_cond": "return cresset.cond(a.sum() > 0, lambda x: grad(lambda y: (y ** 2).sum())(x), "
                    "lambda x: x * 1.0, (a,))",
    # vmap
    "vmap": "return vmap(lambda row: row.sin() * W.sum())(a)",
    "vmap_dims": "return vmap(lambda x, y: (x * y).sum(), in_dims=(1, None))(a, a[:, 0]), "
                 "vmap(lambda x: x * 2, in_dims=1, out_dims=1)(a)",
    "vmap_tree": "return vmap(lambda d: {'s': d['p'] + d['q'][0], 't': (d['p'],)})({'p': a, 'q': [a * 2]})",
    "vmap_globals": "return vmap(lambda d: d['u'] * 2, in_dims=({'u': 0, 'v': None},))(PARTS)",
    "vmap_keywords": "return vmap(lambda x, k=None: x * k)(a, k=2.0)",
    "vmap_chunks": "return vmap(lambda x: x * 2, chunk_size=1)(a)",
    "vmap_nested": "return vmap(vmap(lambda x: x * x))(a)",
    "vmap_of_grad": "return vmap(grad(row_loss), in_dims=(0, None))(a, W)",
    "grad_of_vmap": "return grad(lambda x: vmap(lambda r: r.sin().sum())(x).sum())(a)",
    "vmap_of_module": "return vmap(o.net.inner)(a)",
    "vmap_branches": "return vmap(lambda x: x if x.sum() > 0 else -x)(a) if COUNT > 5 else a",
    "vmap_random": "return vmap(lambda x: x + cresset.rand(3), randomness='different')(a), "
                   "vmap(lambda x: x + cresset.rand(3), randomness='same')(a)",
    "vmap_wrong": "try:\n    return vmap(lambda x: x, in_dims=5)(a)\nexcept ValueError as e:\n"
                  "    return 'refused', a + 1",
    "vmap_notes": "return vmap(lambda x: (log.append(2), x * 2)[1])(a)",
    "vmap_gives_number": "try:\n    return vmap(lambda x: 1.0)(a)\nexcept ValueError as e:\n"
                         "    return 'refused', a + 1",
    "vmap_functional": "p = {n: t for n, t in o.net.inner.named_parameters()}\n"
                       "return vmap(lambda x: functional_call(o.net.inner, p, (x,)))(a)",
}
