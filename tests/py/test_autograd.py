"""A1: the eager tape: requires_grad, backward, grad, hooks, modes, versions, views and writes, against PyTorch."""
import gc
import pathlib
import re
import threading
import weakref

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle; tests/unit/test_autograd.c needs none")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def values(t):
    return None if t is None else t.detach().tolist()


def near(a, b):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(near, a, b))
    return a == b or (a is not None and b is not None and (abs(a - b) <= 1e-9 * max(1.0, abs(a)) or a != a and b != b))


def same(program, *sizes):
    """program(module, *leaves) -> what is compared, with both libraries."""
    found = []
    for m in (cresset, torch):
        torch.manual_seed(0)
        numbers = [torch.randn(size).tolist() for size in sizes]
        found.append(program(m, *(m.tensor(n, dtype=m.float64, requires_grad=True) for n in numbers)))
    assert near(*found), f"PyTorch gives {found[1]}, not {found[0]}"


def grads(*leaves):
    return [values(t.grad) for t in leaves]


# ---- values ----

PROGRAMS = {
    "chain": lambda m, x, y: (x * y).sin().exp().sum(),
    "reused": lambda m, x, y: (x * x + x.sum() * y).pow(3).mean(),
    "broadcast": lambda m, x, y: (x[:, :1] * y[0] + y.sum(0, keepdim=True)).tanh().sum(),
    "product": lambda m, x, y: (x @ y.t()).softmax(-1).max(1)[0].sum(),
    "lists": lambda m, x, y: m.cat([x, y.flip(0), x], 1).split([2, 5, 2], 1)[1].square().sum(),
    "empty list item": lambda m, x, y: m.cat([x[:0].reshape(0), x, x[:0, 0], y], 1).sin().sum(),
    "unbind": lambda m, x, y: sum(a * b for a, b in zip(x.unbind(0), y.unbind(1))).prod(),
    "where": lambda m, x, y: m.where(x > 0, x * y, x.abs()).std(),
    "views": lambda m, x, y: x.t().reshape(-1)[1:5].view(2, 2).expand(3, 2, 2).sum() * y.diagonal().sum(),
    "indices": lambda m, x, y: (x[m.tensor([0, 2, 2])] * y[:, m.tensor([1, 0, 1])][:, :3]).sum(),
    "layers": lambda m, x, y: m.nn.functional.layer_norm(m.nn.functional.gelu(m.nn.functional.linear(x, y)),
                                                         (3,)).pow(3).sum(),
    "loss": lambda m, x, y: m.nn.functional.cross_entropy(x, m.tensor([0, 1, 2])) + m.nn.functional.mse_loss(x, y),
    "integers": lambda m, x, y: (x * x.argmax(1).double()[:, None]).sum() + y.round().sum() + y.long().sum(),
    "no dims": lambda m, x, y: x.sum().exp().log1p() * 2 ** y.mean(),
    "empty": lambda m, x, y: x[:0].sum() + y.sum(),
    "complex": lambda m, x, y: m.complex(x, y).pow(2).abs().sum(),
    "dropout": lambda m, x, y: m.nn.functional.dropout(x * y, 0.0, True).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_backward_and_grad(name):
    program = PROGRAMS[name]

    def by_backward(m, x, y):
        program(m, x, y).backward()
        return grads(x, y)

    def by_grad(m, x, y):
        found = m.autograd.grad(program(m, x, y), [y, x], allow_unused=True)
        return [values(g) for g in found] + grads(x, y)
    same(by_backward, (3, 3), (3, 3))
    same(by_grad, (3, 3), (3, 3))


@pytest.mark.parametrize("name", ["chain", "reused", "broadcast", "product", "where", "views", "layers", "loss",
                                  "no dims"])
def test_second_derivatives(name):
    def twice(m, x, y):
        first = m.autograd.grad(PROGRAMS[name](m, x, y), [x, y], create_graph=True, allow_unused=True)
        sum((g * g).sum() for g in first if g is not None and g.requires_grad).backward()
        return [values(g) for g in first] + grads(x, y)
    same(twice, (3, 3), (3, 3))


def test_third_derivative():
    def thrice(m, x):
        y = x.pow(4).sum()
        found = []
        for _ in range(3):
            g, = m.autograd.grad(y, x, create_graph=True)
            found.append(values(g))
            y = g.sum()
        return found
    same(thrice, (4,))


def test_training_of_a_small_network():
    def train(m, w, v):
        x = m.tensor([[0.1 * i + 0.3 * k for k in range(3)] for i in range(4)], dtype=m.float64)
        losses = []
        for _ in range(5):
            loss = (x @ w).tanh().mm(v).pow(2).mean()
            loss.backward()
            with m.no_grad():
                for p in (w, v):
                    p -= 0.5 * p.grad
                    p.grad = None
            losses.append(loss.item())
        return losses + [values(w), values(v)]
    same(train, (3, 5), (5, 2))


def test_modules():
    """Gradients reach parameters, through a batch norm that writes its statistics."""
    def run(m, x):
        net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.ReLU(), m.nn.Linear(4, 2)).double()
        with m.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(m.arange(p.numel(), dtype=m.float64).reshape(p.shape).sin() + i)
        for _ in range(2):
            net(x).square().sum().backward()
        return [values(p.grad) for p in net.parameters()] + [values(x.grad), values(net[1].running_var)]
    same(run, (5, 3))


# ---- accumulation, saved values, modes ----

def test_gradients_add_up():
    def run(m, x):
        x.sum().backward()
        first = x.grad
        (x * 2).sum().backward()
        return [values(x.grad), float(x.grad is first), float(x.grad.requires_grad), values(first)]
    same(run, (3,))


@BOTH
def test_an_argument_that_gives_dtype_or_sizes_alone_has_no_gradient(m):
    like, plain, whole = m.ones(2, 3, requires_grad=True) * 2, m.ones(2, 3), m.ones(2, 3, dtype=m.int64)
    made = [whole.to(like), whole.type_as(like), plain[:1].expand_as(like), plain.view_as(like),
            plain.t().reshape_as(like)]
    assert not any(t.requires_grad for t in made)
    x = m.ones(3, dtype=m.float64, requires_grad=True)
    x.to(like).type_as(like).expand_as(like).sum().backward()
    assert values(x.grad) == [2, 2, 2]


@BOTH
def test_a_graph_is_walked_once(m):
    x = m.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="(?i)trying to backward through the graph a second time"):
        y.backward()
    z = (x + 1).sum()  # nothing was saved: nothing is missing
    z.backward()
    z.backward()
    assert values(x.grad) == [6.0] * 3


@BOTH
def test_only_what_leads_to_the_inputs(m):
    x, w = m.ones(2, requires_grad=True), m.ones(2, requires_grad=True)
    seen = []
    a = x * 3
    a.register_hook(lambda g: seen.append("a"))
    b = w * a
    b.sum().backward(inputs=[w])
    assert x.grad is None and values(w.grad) == [3.0, 3.0] and not seen
    y = x * 2
    g, h = m.autograd.grad((y * y).sum(), [y, x])
    assert (values(g), values(h), x.grad) == ([4.0, 4.0], [8.0, 8.0], None)
    g, = m.autograd.grad((x * 2).sum(), [w], allow_unused=True)
    assert g is None
    g, = m.autograd.grad((x * 2).sum(), [w], materialize_grads=True)
    assert values(g) == [0.0, 0.0]


@BOTH
def test_modes_and_flags(m):
    x = m.ones(2, requires_grad=True)
    y = x * 2
    assert y.requires_grad and not y.is_leaf and x.is_leaf and y.grad_fn is not None and x.grad_fn is None
    assert y.grad_fn.name() == "MulBackward0" and "AccumulateGrad" in y.grad_fn.next_functions[0][0].name()
    assert y.grad_fn.next_functions[0][0].variable is x and repr(y) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    with m.no_grad():
        assert not (x * 2).requires_grad
        with m.enable_grad():
            assert (x * 2).requires_grad
    with m.set_grad_enabled(False):
        assert (x * 2).grad_fn is None
    with m.inference_mode():
        assert not (x * 2).requires_grad
    d = y.detach()
    assert not d.requires_grad and d.is_leaf and d._base is None and d.data_ptr() == y.data_ptr()
    assert not x.data.requires_grad and not (m.ones(2) * 2).requires_grad and not (y > 1).requires_grad
    y.detach_()
    assert not y.requires_grad and y.is_leaf and y.grad_fn is None
    z = x.split(1)[1]
    assert z.output_nr == 1 and z.grad_fn == x.split(1)[1].grad_fn or z.grad_fn.name() == "SplitBackward0"
    assert m.zeros(2, requires_grad=True).requires_grad and not m.zeros(2).requires_grad_(False).requires_grad


@BOTH
def test_versions(m):
    """Views and detach() count together, .data and x.data = y apart."""
    x = m.zeros(3)
    view, detached, data = x[0], x.detach(), x.data
    detached.add_(1)
    view.mul_(2)
    data.add_(1)
    assert (x._version, view._version, detached._version, data._version) == (2, 2, 2, 1)
    x.data = m.ones(3)
    assert (x._version, detached._version) == (2, 2)
    with m.no_grad():
        x[1:].zero_()
    assert x._version == 3


@BOTH
def test_saved_values_that_were_written(m):
    x = m.ones(3, requires_grad=True)
    y = x * 2
    z = y.sin()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.* is at version 1; expected version 0"):
        z.sum().backward()
    y = x.exp()  # its result is saved
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = x * 2
    y.mul_(y)  # what it saved it wrote over itself
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    w = x * m.ones(3)
    w.add_(1)  # not saved: fine
    w.sum().backward()
    s = x.exp()
    s.data.mul_(2)  # unseen, as the user wants it
    s.sum().backward()


# ---- hooks ----

@BOTH
def test_hooks(m):
    x = m.ones(2, requires_grad=True)
    seen = []
    first = x.register_hook(lambda g: seen.append(("x", values(g))))
    x.register_hook(lambda g: g * 10)
    y = x * 3
    y.register_hook(lambda g: seen.append(("y", values(g))) or g + 1)
    (y.sum() + x.sum()).backward()
    assert seen == [("y", [1.0, 1.0]), ("x", [7.0, 7.0])] and values(x.grad) == [70.0, 70.0]
    first.remove()
    first.remove()
    seen.clear()
    y = x * 3
    with y.register_hook(lambda g: seen.append("gone")):
        pass
    y.sum().backward()
    assert not seen and values(x.grad) == [100.0, 100.0]
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require grad"):
        m.ones(2).register_hook(print)

    def raises(g):
        raise KeyError("mine")
    x.register_hook(raises)
    with pytest.raises(KeyError, match="mine"):
        (x * 2).sum().backward()


@BOTH
def test_retain_grad(m):
    x = m.ones(2, requires_grad=True)
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    z = y * y
    z.sum().backward()
    assert y.retains_grad and values(y.grad) == [6.0, 6.0] and not z.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        m.ones(2).retain_grad()


# ---- views and writes ----

def written(f):
    def program(m, x, y):
        found = f(m, x, y)
        total = sum((t * (i + 1)).sum() for i, t in enumerate(found))
        total.backward()
        return grads(x, y) + [values(t) for t in found] + [[float(t.requires_grad), float(t.is_leaf)] for t in found]
    return program


def rows(m, x, y):
    z = m.zeros(3, 3, dtype=m.float64)
    for i in range(3):
        z[i] = x[i] * y[2 - i]
    return z, z.t()


def base_after_views(m, x, y):
    a = x * 1
    first, second = a[0], a[:, 1]
    a.mul_(y)
    return a, first, second


def view_after_base(m, x, y):
    a = x.clone()
    first, second = a[0], a[:, 1]
    first.mul_(y[0])
    second.add_(y[1].exp())
    return a, first, second, a[0] * 2


def view_of_view(m, x, y):
    a = x * 2
    b = a.t()[1:]
    c = b[0]
    c.mul_(y[0])
    b.pow_(2)
    return a, b, c


def buffer_that_gets_history(m, x, y):
    a = m.ones(3, 3, dtype=m.float64)
    other = a[1]
    a[0].add_(x[0])
    return a, other * y[0], a[0]


def transposed_in_place(m, x, y):
    a = x * y
    b = a[:2]
    b.t_()
    a.t_()
    a.unsqueeze_(0)
    return a, b


def masked(m, x, y):
    a = x * 1
    a[a > 0] = 0
    a[:, 0] = y[:, 0] * 3
    a.masked_fill_(y > 1, 2.0)
    a.relu_()
    return a, x


def with_indices(m, x, y):
    a = x * 1
    a[m.tensor([0, 2])] = y[:2]
    a.index_add_(0, m.tensor([1, 1]), y[1:])
    a.scatter_(1, m.tensor([[0], [1], [2]]), y[:, :1])
    return a,


def in_place_chain(m, x, y):
    a = x * 1
    a.mul_(y).sin_().add_(x).div_(y.exp()).clamp_(-1, 1)
    return a,


WRITES = [rows, base_after_views, view_after_base, view_of_view, buffer_that_gets_history, transposed_in_place, masked,
          with_indices, in_place_chain]


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
def test_views_and_writes(f):
    same(written(f), (3, 3), (3, 3))


@pytest.mark.parametrize("f", [rows, base_after_views, view_after_base, in_place_chain], ids=lambda f: f.__name__)
def test_second_derivatives_of_writes(f):
    def twice(m, x, y):
        total = sum((t * t * (i + 1)).sum() for i, t in enumerate(f(m, x, y)))
        first = m.autograd.grad(total, [x, y], create_graph=True)
        sum((g * g).sum() for g in first).backward()
        return grads(x, y)
    same(twice, (3, 3), (3, 3))


ERRORS = {
    "leaf": (lambda m, x: x.add_(1), "leaf Variable that requires grad is being used in an in-place operation"),
    "view of a leaf": (lambda m, x: x[0].add_(1), "a view of a leaf Variable that requires grad"),
    "assigned leaf": (lambda m, x: x.__setitem__(0, 1.0), "a view of a leaf Variable that requires grad"),
    "one of many": (lambda m, x: (x * 1).unbind(0)[0].add_(1), "is a view and is being modified inplace"),
    "out": (lambda m, x: m.add(x, x, out=m.empty(3)), "out=... arguments don't support automatic differentiation"),
    "no scalar": (lambda m, x: (x * 2).backward(), "grad can be implicitly created only for scalar outputs"),
    "shape": (lambda m, x: (x * 2).backward(m.ones(2)), "Mismatch in shape"),
    "nothing": (lambda m, x: m.ones(3).sum().backward(), "element 0 of tensors does not require grad"),
    "unused": (lambda m, x: m.autograd.grad(x.sum(), m.ones(1, requires_grad=True)), "not have been used in the graph"),
    "not asked": (lambda m, x: m.autograd.grad(x.sum(), m.ones(3)), "does not require grad"),
    "flag of a result": (lambda m, x: (x * 2).requires_grad_(False), "you can only change requires_grad flags of leaf"),
    "integers": (lambda m, x: m.ones(3, dtype=m.int64).requires_grad_(), "can require gradients"),
    "numpy": (lambda m, x: (x * 2).numpy(), "requires grad"),
    "detach_ of a view": (lambda m, x: (x * 2)[0].detach_(), "detach"),
    "hook of another size": (lambda m, x: [x.register_hook(lambda g: g[:1]), x.sum().backward()], "size"),
}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, m):
    call, message = ERRORS[name]
    with pytest.raises(RuntimeError, match=message):
        call(m, m.ones(3, requires_grad=True))


@BOTH
def test_view_made_without_grad(m):
    y = m.ones(3, requires_grad=True) * 1
    with m.no_grad():
        view = y[0]
    assert view.requires_grad and view.is_leaf and view.grad_fn is None
    with pytest.raises(RuntimeError, match="(?i)a view was created in no_grad mode"):
        view.add_(1)


def test_unsupported_says_so():
    class Walks(cresset.nn.Module):
        def forward(self, x):
            cresset.ones(2, requires_grad=True).sum().backward()
            return x
    with pytest.raises(NotImplementedError, match="inside of a program that is being recorded"):
        cresset.export.export(Walks(), (cresset.ones(2),))


# ---- life ----

def test_long_chains_are_built_walked_and_freed():
    x = cresset.ones(2, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert values(x.grad) == [1.0, 1.0]
    del y
    z = x
    for _ in range(100_000):
        z = z * 1.0
    del z  # never walked


def test_nothing_is_left():
    x = cresset.ones(8, requires_grad=True)

    def step():
        y = (x * 2).exp()
        y.retain_grad()
        y.register_hook(lambda g: g)
        z = y[1:] * x[:7]
        z[0] = x[1]
        z.sum().backward()
        y.sum()  # never walked
    step()
    gc.collect()
    before = cresset._C._alloc_live()
    for _ in range(50):
        step()
    gc.collect()
    assert cresset._C._alloc_live() == before
    y = x * 2
    seen = weakref.ref(y)
    z = y.exp()
    del y
    assert seen() is None and z.requires_grad


def test_a_graph_of_several_threads_is_walked_in_order():
    """Nodes are later than what they use, also where another thread has made more of them: else the node of `made` runs
    before both of its gradients have arrived."""
    x, made = cresset.ones(2, requires_grad=True), []

    def work():
        for _ in range(1000):
            made.append(x * 3)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    late = made[-1]

    def use():  # on a thread whose first nodes these are
        once = late * 5
        made.append((late * 7 + once * 11).sum())

    user = threading.Thread(target=use)
    user.start()
    user.join()
    order = [made[-1].grad_fn._sequence_nr(), late.grad_fn._sequence_nr()]
    assert order[0] > order[1]
    made[-1].backward()
    assert x.grad.tolist() == [3.0 * (7 + 55)] * 2


def test_threads_share_leaves():
    """Eight walks at once over one parameter: every gradient is added."""
    w = cresset.ones(4, requires_grad=True)
    shared = (w * 2).exp()

    def work(k):
        for _ in range(50):
            (w * k).sum().backward()
            (shared * 0).sum().backward(retain_graph=True)
    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(w.grad) == [50.0 * sum(range(8))] * 4


def test_programs_have_gradients():
    """What export() made is differentiable, with regions of no_grad, and state without history."""
    class Net(cresset.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = cresset.nn.Linear(3, 2)
            self.register_buffer("seen", cresset.zeros(2))

        def forward(self, x):
            y = self.linear(x)
            with cresset.no_grad():
                z = y * 3
            self.seen.add_(z.sum(0))
            return y.tanh() + z
    net, x = Net(), cresset.arange(6.0).reshape(2, 3) / 5
    net(x).sum().backward()
    for ep in (cresset.export.export(net, (x,)), cresset.export.export(net, (x,)).run_decompositions()):
        module = ep.module()
        for p in module.parameters():
            p.grad = None
        module(x).sum().backward()
        for name, p in net.named_parameters():
            got = dict(module.named_parameters())[name].grad
            assert all(abs(a - b) < 1e-5 for a, b in zip(got.flatten().tolist(), p.grad.flatten().tolist())), name
        assert not module.seen.requires_grad


def test_the_page():
    """docs/autograd.md: its code runs, from top to bottom."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "autograd.md").read_text()
    blocks, scope = re.findall(r"```python\n(.*?)```", page, re.S), {}
    for block in blocks:
        exec(compile(block, "docs/autograd.md", "exec"), scope)
    assert len(blocks) >= 4 and scope["losses"][-1] < scope["losses"][0]


def test_training_takes_no_more_memory():
    """1,000 steps; `./dev test --full train` makes 100,000."""
    import training_loop
    first, last, grown = training_loop.run(cresset, 1_000, 300)
    assert last < first and grown < 1 << 20
    step = training_loop.make(cresset)
    for i in range(1, 20):
        step(i)
    gc.collect()
    before = cresset._C._alloc_live()
    for i in range(1, 40):
        step(i)
    gc.collect()
    assert cresset._C._alloc_live() == before


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm"])
def test_third_derivatives_of_norms(norm):
    """Against finite differences of the second ones: PyTorch's third derivatives of these two are wrong."""
    def second(numbers, third=False):
        x = cresset.tensor(numbers, dtype=cresset.float64, requires_grad=True)
        weight = cresset.tensor([1.5, 0.7], dtype=cresset.float64)
        f = cresset.nn.functional
        y = f.batch_norm(x, None, None, weight, None, True) if norm == "batch_norm" else f.layer_norm(x.t(), (3,)).t()
        seeds = [cresset.tensor([[(i * k + 1.0) % 5, (i + k) % 3 - 0.5] for i in range(3)], dtype=cresset.float64)
                 for k in (2, 3, 4)]
        for seed in seeds[:2]:
            (y,) = cresset.autograd.grad((y * seed).sum(), [x], create_graph=True)
        y = (y * seeds[2]).sum()
        return cresset.autograd.grad(y, [x])[0].tolist() if third else y.item()
    numbers = [[0.3, -1.2], [1.1, 0.4], [-0.7, 0.9]]
    got, step = second(numbers, True), 1e-5
    for i in range(3):
        for k in range(2):
            up, down = [list(row) for row in numbers], [list(row) for row in numbers]
            up[i][k] += step
            down[i][k] -= step
            slope = (second(up) - second(down)) / (2 * step)
            assert abs(got[i][k] - slope) <= 1e-5 * max(1.0, abs(slope))
