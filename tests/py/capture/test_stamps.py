"""Guards by words (src/capture/stamps.h): what they stand for, that every change is seen, and that nothing is kept."""
import gc
import weakref

import pytest

import cresset
import cresset.nn as nn
from cresset import _C


class Tree(nn.Module):
    def __init__(self, n=20):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(n)])
        self.scale = 2

    def forward(self, x):
        total = 0
        for layer in self.layers:
            total += layer.weight.shape[0] * self.scale if layer.training else 1
        return x.shape[0] * total


@pytest.fixture(params=["used", "compare", "lie", "off"])
def mode(request):
    before = _C._stale_stamps()
    _C._capture_switches(stamps=request.param)
    yield request.param
    _C._capture_switches()
    assert _C._stale_stamps() == before


def stamps_of(compiled):
    return compiled._entries()[0]["stamps"]


def test_words_stand_for_the_guards_of_a_tree():
    compiled = cresset.compile(Tree(100).forward, backend="eager", fullgraph=True)
    x = cresset.ones(3)
    assert [compiled(x) for _ in range(4)] == [1200] * 4
    entry = compiled._entries()[0]
    words, left, plain, split = entry["stamps"]
    assert plain and left <= 4  # dicts of their own have versions that can be trusted, on every CPython so far
    assert words < len(entry["guards"]) * (1 if split else 2)
    assert compiled._counts()["hits"] == 3


def test_calls_that_are_made_once_get_none():
    compiled = cresset.compile(Tree().forward, backend="eager")
    compiled(cresset.ones(3))
    assert stamps_of(compiled) == ()


def change_class(tree):
    class Other(nn.Linear):
        pass
    tree.layers[3].__class__ = Other


def replace_at_address(tree):
    tree.layers._modules["3"] = None
    tree.layers._modules["3"] = nn.Linear(2, 5)


CHANGES = {
    "an attribute": lambda t: setattr(t, "scale", 3),
    "an attribute in __dict__": lambda t: t.__dict__.update(scale=4),
    "the whole __dict__": lambda t: setattr(t, "__dict__", {**t.__dict__, "scale": 5}),
    "a flag far down": lambda t: t.layers[7].eval(),
    "a parameter": lambda t: setattr(t.layers[3], "weight", nn.Parameter(cresset.ones(7, 2))),
    "a parameter's data": lambda t: setattr(t.layers[3].weight, "data", cresset.ones(9, 2)),
    "a layer": lambda t: t.layers.__setitem__(3, nn.Linear(2, 4)),
    "a layer where the old one was": replace_at_address,
    "one layer more": lambda t: t.layers.append(nn.Linear(2, 2)),
    "one layer less": lambda t: t.layers._modules.popitem(),
    "an order": lambda t: t.layers._modules.update({"0": t.layers._modules.pop("0")}),
    "a class": change_class,
    "a method of the object": lambda t: setattr(t.layers, "__iter__", lambda: iter(())),
    "a name that hides": lambda t: t.__dict__.__setitem__("layers", [nn.Linear(2, 6)]),
    "nothing that counts": lambda t: setattr(t, "other", 1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(change, mode):
    tree, x = Tree(), cresset.ones(3)
    compiled = cresset.compile(tree.forward, backend="eager")
    for _ in range(4):
        assert compiled(x) == tree.forward(x)
    for _ in range(4):  # words are made again and changed again
        CHANGES[change](tree)
        for _ in range(3):
            assert compiled(x) == tree.forward(x)
        tree.scale = 2


class Tagged(cresset.Tensor):
    pass


class Buffers(nn.Module):
    """Everything that a program can ask of a tensor without its elements."""

    def __init__(self):
        super().__init__()
        self.base = cresset.zeros(2, 1, 3)
        for name in "abc":
            self.register_buffer(name, cresset.ones(2, 1, 3))
        self.register_buffer("view", self.base[:])

    def forward(self, x):
        read = [x.shape[0]]
        for t in (self.a, self.b, self.c, self.view):
            read.append((t.shape, t.stride(), t.dtype, t.requires_grad, type(t), t.is_conj(), t.is_neg()))
        return read


def become_other(m):
    m.a = None
    m.a = cresset.ones(4)


def write_in_place(m):
    m.b.mul_(cresset.ones(1, requires_grad=True))


def resize_as_result(m):
    with cresset.no_grad():
        cresset.add(cresset.ones(5), 1, out=m.c)


IN_PLACE = {
    "t_": lambda m: m.a.squeeze_(1).t_(),
    "transpose_": lambda m: m.b.transpose_(0, 2),
    "swapaxes_": lambda m: m.c.swapaxes_(0, 1),
    "squeeze_": lambda m: m.a.squeeze_(),
    "unsqueeze_": lambda m: m.b.unsqueeze_(0),
    "as_strided_": lambda m: m.c.as_strided_((3,), (2,)),
    "resize_": lambda m: m.a.resize_(7),
    "set_": lambda m: m.b.set_(cresset.ones(3, 3)),
    "data": lambda m: setattr(m.c, "data", cresset.ones(4, 4)),
    "data of another dtype": lambda m: setattr(m.a, "data", cresset.ones(2, dtype=cresset.float64)),
    "data that is conjugated": lambda m: setattr(m.a, "data", cresset.ones(2, dtype=cresset.complex64).conj()),
    "requires_grad_": lambda m: m.a.requires_grad_(not m.a.requires_grad),
    "requires_grad": lambda m: setattr(m.b, "requires_grad", True),
    "requires_grad of the root": lambda m: m.base.requires_grad_(not m.base.requires_grad),
    "a result that requires grad": write_in_place,
    "detach_": lambda m: (m.b.detach_(), write_in_place(m), m.b.detach_()),
    "out=": resize_as_result,
    "a class": lambda m: setattr(m.a, "__class__", Tagged),
    "an attribute": lambda m: setattr(m.a, "note", 1),
    "another at its address": become_other,
    "all of them": lambda m: m.to(cresset.float64),
}


@pytest.mark.parametrize("change", IN_PLACE)
def test_tensors_that_change_in_place_are_seen(change, mode):
    m, x = Buffers(), cresset.ones(3)
    compiled = cresset.compile(m.forward, backend="eager")
    for _ in range(3):
        for _ in range(4):
            assert compiled(x) == m.forward(x)
        IN_PLACE[change](m)
        for _ in range(3):
            assert compiled(x) == m.forward(x)


def test_watched_tensors_are_looked_at_again_only_after_a_change():
    """Gradients, steps of an optimizer and other tensors leave what was captured as it is."""
    m, x = Tree(3), cresset.ones(3)
    compiled = cresset.compile(m.forward, backend="eager", fullgraph=True)
    for _ in range(4):
        compiled(x)
    words = stamps_of(compiled)
    for layer in m.layers:
        layer(cresset.ones(1, 2)).sum().backward()
    with cresset.no_grad():
        for p in m.parameters():
            p.sub_(p.grad)
    m.layers[0].weight.requires_grad_(False)
    before = compiled._counts()["misses"]
    compiled(x)
    assert compiled._counts()["misses"] == before + 1  # gradients are part of what is asked
    m.layers[0].weight.requires_grad_(True)
    for _ in range(3):
        compiled(x)
    assert compiled._counts()["misses"] == before + 1 and words in [e["stamps"] for e in compiled._entries()]


def test_functions_cells_and_defaults_at_old_addresses(mode):
    def make(value):
        def add(n, by=value):
            return n + value + by
        return add

    def run(x, add):
        return x.shape[0] + add(1)

    compiled = cresset.compile(run, backend="eager")
    x = cresset.ones(2)
    for value in (1, 1, 1, 2, 3, 2, 1, 2):
        add = make(value)
        assert compiled(x, add) == run(x, add)
        del add
    add = make(1)
    for value in (5, 6, 7, 8):
        add.__defaults__ = (value,)
        assert compiled(x, add) == run(x, add) == compiled(x, add)


def test_a_dict_that_always_changes_costs_no_captures(mode):
    names = {"cresset": cresset, "count": 0, "limit": 3}
    exec("def run(x):\n    return x.shape[0] + limit", names)
    compiled = cresset.compile(names["run"], backend="eager")
    x = cresset.ones(2)
    for n in range(40):
        names["count"] = object()
        names[f"more{n % 7}"] = n
        assert compiled(x) == 5
    assert compiled._counts()["captures"] == 1 and compiled._counts()["hits"] == 39
    names["limit"] = 4
    assert compiled(x) == 6


def test_objects_take_turns(mode):
    trees = [Tree(3), Tree(4), Tree(5)]
    compiled = cresset.compile(Tree.forward, backend="eager", dynamic=False)
    x = cresset.ones(2)
    for n in range(30):
        tree = trees[n % 3]
        assert compiled(tree, x) == tree.forward(x)
    same = [Tree(3) for _ in range(3)]  # one entry for all
    for n in range(30):
        assert compiled(same[n % 3], x) == same[n % 3].forward(x)
    assert compiled._counts()["captures"] == 3


def test_nothing_is_kept_alive():
    compiled = cresset.compile(Tree.forward, backend="eager")
    x = cresset.ones(2)
    for n in (3, 3, 4, 3):
        tree = Tree(n)
        gone = weakref.ref(tree.layers[1])
        for _ in range(4):
            assert compiled(tree, x) == tree.forward(x)
        del tree
        gc.collect()
        assert gone() is None


def test_what_stamps_can_be():
    with pytest.raises(ValueError, match="stamps is 'never'; it can be used, lie, compare or off"):
        _C._capture_switches(stamps="never")
