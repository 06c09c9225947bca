"""Dicts from outside whose keys are tensors or objects: items are read and set one by one, and calls with other keys,
the same key twice, or one dict twice are those of plain Python."""

import collections

import pytest

import cresset


class Thing:
    pass


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


def two_dicts(d, e, a, b):
    d[a] = [1, 2]
    e[b] = [3]
    return d[a], e[b], a in e


def then_all(d, e, a, b):
    d[a] = [1]
    return len(d), bool(d), list(d.values())


def drops(d, e, a, b):
    d[a] = [1]
    del d[a]
    return a in d


def worlds(key):
    def world(there, same=False, one_dict=False, factory=list):
        a = key()
        b = a if same else key()
        d = collections.defaultdict(factory) if factory is not dict else {}
        for name in there:
            d[{"a": a, "b": b}.get(name, name)] = [1, name]
        return d, d if one_dict else {a: [7]}, a, b

    return [lambda: world("ab"), lambda: world("ab"), lambda: world("ab", same=True), lambda: world("a"),
            lambda: world(""), lambda: world("", same=True), lambda: world("ab", one_dict=True), lambda: world("xab"),
            lambda: world("bxa"), lambda: world("ab", factory=dict), lambda: world("", factory=dict),
            lambda: world("", factory=None), lambda: world("", factory=lambda: [5]), lambda: world("ab")]


def outcome(f, given):
    names = {id(given[2]): "a", id(given[3]): "b"}
    try:
        result = f(*given)
    except Exception as error:
        result = type(error)
    return result, [[(names.get(id(k), k), v) for k, v in d.items()] for d in given[:2]]


@pytest.mark.parametrize("key", [lambda: cresset.nn.Parameter(cresset.ones(2)), Thing], ids=["tensor", "object"])
@pytest.mark.parametrize("f", [both, grows, takes, copies, two_dicts, then_all, drops])
def test_as_plain(f, key):
    calls = worlds(key)
    for order in (calls, calls[::-1], calls[5:] + calls[:5]):
        run = cresset.compile(f, backend="eager")
        with cresset._dynamo.config.patch(recompile_limit=64):
            for make in [*order, *order]:
                assert outcome(run, make()) == outcome(f, make())


def test_many_new_keys_are_one_check():
    keys = [Thing() for _ in range(100)]

    def f(d, keys):
        for k in keys:
            d[k].append(1)
        return len(keys)

    run = cresset.compile(f, backend="eager", fullgraph=True)
    for same in (False, True, False):
        given = keys[:50] * 2 if same else keys
        ours, theirs = collections.defaultdict(list), collections.defaultdict(list)
        assert run(ours, given) == f(theirs, given)
        assert ours == theirs and list(ours) == list(theirs)
    assert run._counts()["captures"] == 2
