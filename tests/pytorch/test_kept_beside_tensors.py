"""Dicts from outside whose keys are tensors or objects, and gradients of tensors, read and set by captured programs:
the same as plain Python in every call, whatever is another object, or the same, than in the call before."""

import collections
import copy
import warnings

import pytest

torch = pytest.importorskip("torch", reason="these are PyTorch's programs")
import cresset  # noqa: E402


class Thing:
    def __init__(self, name):
        self.name = name


def shown(value, names):
    """A value by what it is made of; the objects of the call by their names."""
    if id(value) in names:
        return names[id(value)]
    if isinstance(value, dict):
        return [type(value).__name__, [(shown(k, names), shown(v, names)) for k, v in value.items()]]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [shown(v, names) for v in value]]
    if isinstance(value, torch.Tensor):
        return ("tensor", value.tolist(), value.dtype)
    return value


def outcome(f, world):
    names = {id(v): k for k, v in world.items() if not isinstance(v, dict)}
    try:
        result = shown(f(**world), names)
    except Exception as error:
        result = (type(error).__name__, len(str(error)) > 0)
    return result, {k: shown(v, names) for k, v in world.items() if isinstance(v, dict)}


def make_worlds(kind):
    """Calls of one function: a and b two keys, one key, keys that are there or not, one dict twice."""
    def key(name):
        return torch.nn.Parameter(torch.ones(2)) if kind == "tensor" else Thing(name)

    def world(there, same=False, one_dict=False, factory=list, plain=False):
        a = key("a")
        b = a if same else key("b")
        d = {} if plain else collections.defaultdict(factory)
        for name in there:
            d[{"a": a, "b": b}.get(name, name)] = [1, name]
        return {"d": d, "e": d if one_dict else {a: [7]}, "a": a, "b": b}

    return [lambda: world("ab"), lambda: world("ab"), lambda: world("ab", same=True), lambda: world("a"),
            lambda: world(""), lambda: world("", same=True), lambda: world("b"), lambda: world("ab", one_dict=True),
            lambda: world("xab"), lambda: world("bxa"), lambda: world("ab", plain=True), lambda: world("", plain=True),
            lambda: world("", factory=dict), lambda: world("", factory=None), lambda: world("", factory=lambda: [5]),
            lambda: world("ab")]


def both(d, e, a, b):
    return d[a], d[b], d[a] is d[b]


def grows(d, e, a, b):
    d[a].append(3)
    d[b].append(4)
    return len(d[a])


def takes(d, e, a, b):
    d[a] = [9]
    return d[b], b in d, a in d


def copies(d, e, a, b):
    d[a] = d[b]
    d[b] = [0]
    return d[a] is d[b], d[a]


def asks(d, e, a, b):
    return a in d, b in d, a not in e, b in e


def two_dicts(d, e, a, b):
    d[a] = [1, 2]
    e[b] = [3]
    return d[a], e[b], a in e


def then_all(d, e, a, b):
    d[a] = [1]
    return len(d), [type(k).__name__ for k in d], bool(d)


def nested(d, e, a, b):
    d[a] = {a: 1}
    d[b] = {"k": d[a]}
    d[b]["k"]["n"] = 5
    return d[b]["k"] is d[a]


def drops(d, e, a, b):
    d[a] = [1]
    del d[a]
    return a in d


def by_method(d, e, a, b):
    d[a] = [4]
    return d.get(a), d.get(b), d.setdefault(b, [6])


def raises(d, e, a, b):
    d[a] = [1]
    return e[b][5]


@pytest.mark.parametrize("kind", ["tensor", "object"])
@pytest.mark.parametrize("f", [both, grows, takes, copies, asks, two_dicts, then_all, nested, drops, by_method, raises])
def test_dicts(f, kind):
    worlds = make_worlds(kind)
    for order in (worlds, worlds[::-1], worlds[5:] + worlds[:5]):
        run = cresset.compile(f, backend="eager")
        with cresset._dynamo.config.patch(recompile_limit=64):
            for make in [*order, *order]:
                plain, ours = make(), make()
                assert outcome(run, ours) == outcome(f, plain), f.__name__


def test_items_are_read_without_breaks():
    for f in (both, takes, asks, two_dicts):
        run = cresset.compile(f, backend="eager", fullgraph=True)
        for make in make_worlds("tensor")[:3]:
            plain, ours = make(), make()
            assert outcome(run, ours) == outcome(f, plain), f.__name__


# ---- gradients ----


def leaf(grad=None, requires_grad=True):
    x = torch.ones(3, requires_grad=requires_grad)
    if grad is not None:
        x.grad = torch.full((3,), float(grad))
    return x


def seen(x):
    g = x.grad
    return x.requires_grad, x.is_leaf, None if g is None else (g.tolist(), g._version, g.requires_grad, g.dtype)


def there(x, y):
    return x.grad is None, y.grad is None, x.grad is y.grad


def added(x, y):
    return None if x.grad is None else x.grad + 1


def scaled(x, y):
    if x.grad is not None:
        x.grad.mul_(2)
    return x.grad


def exchanged(x, y):
    x.grad, y.grad = y.grad, x.grad
    return x.grad, y.grad


def set_new(x, y):
    x.grad = torch.zeros(3)
    y.grad = x.grad
    return y.grad is x.grad, y.grad


def set_none(x, y):
    x.grad = None
    return y.grad is None, x.grad


def history(x, y):
    return x.is_leaf, x.grad_fn is None, x.requires_grad


def quietly(x, y):
    with torch.no_grad():
        return x.requires_grad, x.grad is None


def wrong(x, y):
    x.grad = torch.zeros(4)


def itself(x, y):
    x.grad = x


def pairs():
    one = leaf(2)
    shared = leaf(1)
    other = leaf()
    other.grad = shared.grad
    wide = leaf()
    wide.grad = torch.arange(6.0)[::2]
    return [(leaf(1), leaf(2)), (leaf(1), leaf(2)), (leaf(), leaf(2)), (leaf(1), leaf()), (leaf(), leaf()), (one, one),
            (shared, other), (wide, leaf(1)), (leaf(1, False), leaf(2)), (leaf() * 2, leaf(1)), (leaf(1), leaf() * 2),
            (torch.nn.Parameter(torch.ones(3)), leaf(3)), (leaf(1), leaf(2))]


@pytest.mark.parametrize("f", [there, added, scaled, exchanged, set_new, set_none, history, quietly, wrong, itself])
@pytest.mark.parametrize("grad", [True, False])
def test_gradients(f, grad):
    def told(function, x, y):
        with torch.set_grad_enabled(grad), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                result = shown(function(x, y), {id(x): "x", id(y): "y"})
            except Exception as error:
                result = type(error).__name__
        said = [w.category for w in said if w.category is UserWarning]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return result, seen(x), seen(y), said, x.grad is y.grad

    run = cresset.compile(f, backend="eager")
    with cresset._dynamo.config.patch(recompile_limit=64):
        for _ in range(2):
            for ours, theirs in zip(pairs(), pairs()):
                assert told(run, *ours) == told(f, *theirs), f.__name__


def test_gradients_of_walks_are_read_at_every_call():
    w = torch.nn.Parameter(torch.ones(3))
    run = cresset.compile(lambda: None if w.grad is None else w.grad * 2, backend="eager", fullgraph=True)
    assert run() is None
    for k in range(1, 5):
        w.grad = None
        (w * k).sum().backward()
        assert run().tolist() == [2.0 * k] * 3
    assert run._counts()["captures"] == 2
    assert copy.copy(w.grad).tolist() == [4.0] * 3


def test_no_gradient_is_kept_alive():
    w = torch.nn.Parameter(torch.ones(3))
    run = cresset.compile(lambda: w.grad * 2, backend="eager")
    w.grad = torch.ones(3)
    run(), run()
    import gc
    import weakref
    held = weakref.ref(w.grad)
    w.grad = None
    gc.collect()
    assert held() is None
