"""A1: nodes, their hooks and metadata, edges, hooks on several tensors, saved-tensor hooks, against PyTorch."""
import gc
import threading
import weakref

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def values(t):
    return None if t is None else t.detach().tolist()


def leaf(m, numbers=(1.0, 2.0, 3.0)):
    return m.tensor(list(numbers), dtype=m.float64, requires_grad=True)


# ---- nodes ----

@BOTH
def test_hooks_of_a_leafs_node_go_with_its_last_holder(m):
    x, seen = leaf(m), []
    y = x * 2
    y.grad_fn.next_functions[0][0].register_hook(lambda made, out: seen.append("held"))
    (x * 3).sum().backward()
    assert seen == ["held"]  # y holds the node: it is the same one
    del y
    (x * 3).sum().backward()
    assert seen == ["held"]
    kept = (x * 2).grad_fn.next_functions[0][0]
    kept.register_hook(lambda made, out: seen.append("again"))
    (x * 3).sum().backward()
    assert seen == ["held", "again"] and kept.variable is x
    node = weakref.ref(x)
    del x
    gc.collect()
    assert node() is not None or kept.variable is not None  # the node holds its leaf
    assert values(kept.variable) == [1.0, 2.0, 3.0]


@BOTH
def test_leaves_that_only_a_graph_holds(m):
    """What a node saved of its leaves stays with the graph: once, kept for a second walk, and elsewhere by hooks."""
    def graph():
        x, w = leaf(m), leaf(m, (2.0, 3.0, 4.0))
        return (x * w).sum() + (w * w).sum()

    def leaves(fn, found):
        for node, _ in fn.next_functions:
            if node is not None and hasattr(node, "variable"):
                found.append(node.variable)
            elif node is not None:
                leaves(node, found)
        return found

    y = graph()
    gc.collect()
    y.backward(retain_graph=True)
    y.backward()
    assert [values(t.grad) for t in leaves(y.grad_fn, [])] == [[4.0, 6.0, 8.0], [10.0, 16.0, 22.0],
                                                               [10.0, 16.0, 22.0], [10.0, 16.0, 22.0]]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    packed = []
    with m.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or len(packed) - 1, lambda i: packed[i]):
        y = graph()
    y.backward()
    assert len(packed) == 4
    assert values(leaves(y.grad_fn, [])[0].grad) == [2.0, 3.0, 4.0]


def node_hooks(m):
    x, w = leaf(m), leaf(m, (2.0, 2.0, 2.0))
    y = x * w
    seen = []
    y.grad_fn.register_prehook(lambda out: seen.append(("pre", [values(g) for g in out])) or (out[0] * 2,))
    handle = y.grad_fn.register_hook(lambda made, out: seen.append(("post", [values(g) for g in made],
                                                                    [values(g) for g in out])) or (made[0] + 1, None))
    gone = y.grad_fn.register_hook(lambda made, out: seen.append("never"))
    gone.remove()
    gone.remove()
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    return [seen, values(x.grad), values(w.grad)]


def leaf_hooks(m):
    x = leaf(m)
    seen = []
    y = x * 2
    sink = y.grad_fn.next_functions[0][0]
    sink.register_hook(lambda made, out: seen.append(("post", len(made), values(out[0]), values(x.grad))))
    sink.register_prehook(lambda out: seen.append(("pre", values(out[0]))) or (out[0] * 10,))
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p is x, values(p.grad))))
    y.sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    return [seen, values(x.grad)]


def optimizer_in_backward(m):
    """The common use: a step as soon as a gradient is there."""
    x = leaf(m)

    def step(p):
        with m.no_grad():
            p.sub_(p.grad)
            p.grad = None
    x.register_post_accumulate_grad_hook(step)
    (x * 0.5).sum().backward()
    return [values(x), x.grad is None]


def identity(m):
    x = leaf(m)
    y = x * 2
    fn = y.grad_fn
    fn.metadata["mine"] = 3
    z = y + x
    return [y.grad_fn is fn, z.grad_fn.next_functions[0][0] is fn, z.grad_fn.next_functions[0][0].metadata["mine"],
            z.grad_fn.next_functions[1][0].variable is x, isinstance(fn, m.autograd.graph.Node),
            len(z.grad_fn.metadata), z.grad_fn._sequence_nr() > fn._sequence_nr()]


def saved_attributes(m):
    x = leaf(m)
    a, b, c = x.sin(), x.exp(), x.softmax(0)
    d = x.unsqueeze(0).sum(1)
    return [values(a.grad_fn._saved_self), a.grad_fn._saved_self.requires_grad, values(b.grad_fn._saved_result),
            b.grad_fn._saved_result.grad_fn is b.grad_fn, values(c.grad_fn._saved_result), c.grad_fn._saved_dim,
            hasattr(a.grad_fn, "_saved_nothing"), d.requires_grad]


def edges(m):
    x = leaf(m)
    a = x * 2
    b = a.sin()
    edge_a, edge_b, edge_x = map(m.autograd.graph.get_gradient_edge, (a, b, x))
    ones = m.ones(3, dtype=m.float64)
    g = m.autograd.grad(b.sum(), [edge_a, edge_x, x], retain_graph=True)
    h = m.autograd.grad(edge_b, x, ones, retain_graph=True)
    m.autograd.backward(edge_b, ones)
    s = m.autograd.graph.get_gradient_edge((x * 3).sum())
    s_grad = m.autograd.grad(s, x)
    m.autograd.backward((x * 5).sum(), inputs=[edge_x])
    return [[values(t) for t in (*g, *h, *s_grad)], values(x.grad), edge_b.output_nr, edge_b.node is b.grad_fn,
            "AccumulateGrad" in edge_x.node.name()]


def edge_of_a_function(m):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2
    x = leaf(m)
    y = Double.apply(x)
    edge = m.autograd.graph.get_gradient_edge(y)
    del y
    gc.collect()
    g, = m.autograd.grad(edge, x, m.ones(3, dtype=m.float64))
    return [values(g), edge.node.name()]


def several(m):
    x, y, z = leaf(m), leaf(m), leaf(m)
    seen = []
    a = x * y
    handle = m.autograd.graph.register_multi_grad_hook((x, a, z), lambda grads: seen.append([values(g) for g in grads]))
    (a * 2).sum().backward(retain_graph=True)
    (a.sum() + z.sum()).backward(retain_graph=True)
    m.autograd.grad((a + z).sum(), [a], retain_graph=True)
    handle.remove()
    (a.sum() + z.sum()).backward(retain_graph=True)
    first = []
    any_handle = m.autograd.graph.register_multi_grad_hook((x, a), lambda g: first.append(values(g)), mode="any")
    a.sum().backward(retain_graph=True)
    a.sum().backward()
    any_handle.remove()
    return [seen, first]


# ---- saved tensors ----

def saved_hooks(m):
    seen = []

    def pack(t):
        seen.append(("pack", values(t), t.requires_grad))
        return values(t)

    def unpack(packed):
        seen.append(("unpack", packed))
        return m.tensor(packed, dtype=m.float64)
    x, w = leaf(m), leaf(m, (4.0, 5.0, 6.0))
    with m.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * w).sin().exp()
    z = y * x
    z.sum().backward()
    return [sorted(map(str, seen)), values(x.grad), values(w.grad)]


def saved_hooks_twice(m):
    """Second derivatives go through unpacked values."""
    x = leaf(m)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = (x.exp() * x).sum()
        g, = m.autograd.grad(y, x, create_graph=True)
        h, = m.autograd.grad(g.sum(), x)
    return [values(g), values(h)]


def saved_hooks_change(m):
    x = leaf(m)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 100):
        with m.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 10):
            y = x.square()
        z = x.square()
    a = x * 1
    with m.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        w = a.square()
    a.add_(5)  # a copy was kept: no error
    (y + z + w).sum().backward()
    return [values(x.grad)]


def saved_by_functions(m):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x ** 3
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return 3 * g * y / x
    seen = []
    x = leaf(m)
    with m.autograd.graph.saved_tensors_hooks(lambda t: seen.append(values(t)) or t.clone(), lambda t: t):
        y = Cube.apply(x * 1)
    g, = m.autograd.grad(y.sum(), x, create_graph=True)
    h, = m.autograd.grad(g.sum(), x)
    return [seen[-2:], values(g), values(h)]


def on_cpu(m):
    x = leaf(m)
    with m.autograd.graph.save_on_cpu():
        y = (x.sin() * x).sum()
    y.backward()
    return [values(x.grad)]


def freed_with_the_walk(m):
    class Box:
        def __init__(self, t):
            self.t = t
    x, boxes = leaf(m), []

    def pack(t):
        box = Box(t.clone())
        boxes.append(weakref.ref(box))
        return box
    with m.autograd.graph.saved_tensors_hooks(pack, lambda box: box.t):
        y = x.sin().sum()
    alive = boxes[0]() is not None
    y.backward()
    gone = boxes[0]() is None
    with m.autograd.graph.saved_tensors_hooks(pack, lambda box: box.t):
        y = x.sin().sum()
    del y
    return [alive, gone, boxes[1]() is None]


def versions(m):
    x = m.zeros(3)
    m.autograd.graph.increment_version(x)
    m.autograd.graph.increment_version([x, x])
    return [x._version]


def order_of_leaves(m):
    """A leaf has its gradient, and its hooks run, as soon as that is whole, between the nodes of the walk."""
    seen, weights = [], [leaf(m) for _ in range(4)]
    for k, w in enumerate(weights):
        w.register_hook(lambda g, k=k: seen.append(f"w{k}"))
        w.register_post_accumulate_grad_hook(lambda w, k=k: seen.append([f"w{k} has", values(w.grad)]))
    for again in range(2):  # the leaves are used again: their nodes are new or kept
        h = weights[0] * 2
        for k, w in enumerate(weights[1:3]):
            h = (h * w).tanh()
            h.register_hook(lambda g, k=k: seen.append(f"h{k}"))
        late = weights[3].sin() * weights[1]
        (h * late * weights[0]).sum().backward()
        seen.append("end")
    m.addcmul(weights[2], weights[3], weights[0]).sum().backward()
    return seen


PROGRAMS = [order_of_leaves, node_hooks, leaf_hooks, optimizer_in_backward, identity, saved_attributes, edges,
            edge_of_a_function, several, saved_hooks, saved_hooks_twice, saved_hooks_change, saved_by_functions, on_cpu,
            freed_with_the_walk, versions]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program):
    ours, theirs = program(cresset), program(torch)
    assert ours == pytest.approx(theirs) if all(isinstance(v, float) for v in theirs) else near(ours, theirs), \
        f"PyTorch gives {theirs}, not {ours}"


def near(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a))
    return a == b


# ---- errors ----

def hooked(m, pack=lambda t: t, unpack=lambda t: t):
    x = leaf(m)
    with m.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.sin()
    y.sum().backward()


def nested_disabled(m):
    with m.autograd.graph.disable_saved_tensors_hooks("not in here"):
        hooked(m)


def raises(error):
    def inner(*args):
        raise error
    return inner


ERRORS = {
    "unpack": (lambda m: hooked(m, unpack=lambda t: 3), TypeError, "unpack_hook expected to be a Tensor.*int"),
    "pack raises": (lambda m: hooked(m, pack=raises(KeyError("mine"))), KeyError, "mine"),
    "unpack raises": (lambda m: hooked(m, unpack=raises(KeyError("mine"))), KeyError, "mine"),
    "pack writes": (lambda m: hooked(m, pack=lambda t: t.add_(1)), RuntimeError, "modifying its input in place"),
    "disabled": (nested_disabled, RuntimeError, "not in here"),
    "no edge": (lambda m: m.autograd.graph.get_gradient_edge(m.ones(2)), RuntimeError, "does not require gradients"),
    "mode": (lambda m: m.autograd.graph.register_multi_grad_hook([], print, mode="some"), ValueError, "'all', 'any'"),
    "after, no leaf": (lambda m: (leaf(m) * 1).register_post_accumulate_grad_hook(print), RuntimeError, "non-leaf"),
    "after, no grad": (lambda m: m.ones(2).register_post_accumulate_grad_hook(print), RuntimeError,
                       "cannot register a hook on a tensor that doesn't require grad"),
    "hook raises": (lambda m: [y := leaf(m) * 1, y.grad_fn.register_hook(raises(KeyError("mine"))),
                               y.sum().backward()], KeyError, "mine"),
    "prehook raises": (lambda m: [y := leaf(m) * 1, y.grad_fn.register_prehook(raises(KeyError("mine"))),
                                  y.sum().backward()], KeyError, "mine"),
    "hook count": (lambda m: [y := leaf(m) * 1, y.grad_fn.register_hook(lambda a, b: (None, None, None)),
                              y.sum().backward()], RuntimeError, "hook"),
    "freed": (lambda m: [y := leaf(m).sin(), y.sum().backward(), y.grad_fn._saved_self], RuntimeError,
              "(?i)backward through the graph a second time"),
    "materialize": (lambda m: m.autograd.grad((x := leaf(m)).sum(), [m.autograd.graph.get_gradient_edge(leaf(m) * x)],
                                              materialize_grads=True), RuntimeError, "GradientEdge"),
}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, m):
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call(m)


def test_errors_of_our_own():
    with pytest.raises(TypeError, match="pack and unpack; unpack is a int"):
        hooked(cresset, unpack=3)
    edge = cresset.autograd.graph.get_gradient_edge(leaf(cresset) * 1)
    with pytest.raises(RuntimeError, match="names result 3 of a node that has 1"):
        cresset.autograd.grad(edge._replace(output_nr=3), leaf(cresset), cresset.ones(3))
    with pytest.raises(TypeError, match="root 0 is a int, not a Tensor or a GradientEdge"):
        cresset.autograd.backward([3])


# ---- life ----

@BOTH
def test_cycles_through_packed_values_are_collected(m):
    box = []
    x = leaf(m)
    with m.autograd.graph.saved_tensors_hooks(lambda t, box=box: (t, box), lambda packed: packed[0]):
        y = x.sin()
    box.append(y)
    gone = weakref.ref(y)
    del y, box
    gc.collect()
    if m is cresset:  # PyTorch's collector does not go there
        assert gone() is None


def test_cycles_through_node_hooks_and_metadata_are_collected():
    x = leaf(cresset)
    y = x.sin()
    z = y * 2
    held = [z]
    y.grad_fn.register_hook(lambda made, out, held=held: held and None)
    z.grad_fn.metadata["self"] = z
    gone = weakref.ref(z)
    del y, z, held
    gc.collect()
    assert gone() is None
    p = leaf(cresset)
    p.register_post_accumulate_grad_hook(lambda t, p=p: None)
    gone = weakref.ref(p)
    del p
    gc.collect()
    assert gone() is None


def test_a_node_outlives_its_tensor():
    x = leaf(cresset)
    fn = x.sin().grad_fn
    gc.collect()
    assert fn.name() == "SinBackward0" and fn.next_functions[0][0].variable is x
    assert values(fn._saved_self) == [1.0, 2.0, 3.0]


def test_walks_inside_of_walks_share_nodes():
    """The inner walk comes to nodes that the outer one has places for, and the other way round."""
    x = cresset.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    z = (y * x).sum()
    seen = []

    def inner(grad):
        if not seen:  # the inner walk comes here, too
            seen.append(None)
            seen[0] = cresset.autograd.grad(z, [x, y], retain_graph=True)
    y.register_hook(inner)
    z.backward(retain_graph=True)
    assert x.grad.tolist() == [3.0, 12.0, 27.0] and len(seen) == 1
    assert [g.tolist() for g in seen[0]] == [[3.0, 12.0, 27.0], [1.0, 2.0, 3.0]]


def test_walks_on_several_threads_share_nodes():
    x = cresset.ones(4, requires_grad=True)
    y = x
    for _ in range(50):
        y = y * x
    z, found, errors = y.sum(), [], []

    def walk():
        try:
            for _ in range(20):
                found.append(cresset.autograd.grad(z, x, retain_graph=True)[0].tolist())
        except RuntimeError as error:
            errors.append(error)
    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and found == [[51.0] * 4] * 80
