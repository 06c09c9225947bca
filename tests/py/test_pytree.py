"""cresset.utils._pytree against torch.utils._pytree: the same leaves, the same texts, the same values back."""
import collections
import dataclasses
import enum
import gc
import json
import sys

import cresset
import pytest
from cresset.utils import _pytree as pt
from hypothesis import given, settings
from hypothesis import strategies as st

Point = collections.namedtuple("Point", "x y")
Named = collections.namedtuple("Named", "left right")


@dataclasses.dataclass
class Box:
    a: object
    b: object = None


class Pair:
    def __init__(self, left, right, tag):
        self.left, self.right, self.tag = left, right, tag


class Color(enum.Enum):
    RED = 1


def pair_flatten(p):
    return [p.left, p.right], p.tag


def pair_unflatten(values, tag):
    return Pair(*values, tag)


def torch_register(p):
    if Box not in p.SUPPORTED_NODES:
        p._register_namedtuple(Named, serialized_type_name="test.Named")
        p.register_dataclass(Box, serialized_type_name="test.Box")
        p.register_pytree_node(Pair, pair_flatten, pair_unflatten, serialized_type_name="test.Pair",
                               flatten_with_keys_fn=lambda v: ([(p.GetAttrKey("left"), v.left),
                                                                (p.GetAttrKey("right"), v.right)], v.tag))


pt._register_namedtuple(Named, serialized_type_name="test.Named")
pt.register_dataclass(Box, serialized_type_name="test.Box")
pt.register_pytree_node(Pair, pair_flatten, pair_unflatten, serialized_type_name="test.Pair",
                        flatten_with_keys_fn=lambda v: ([(pt.GetAttrKey("left"), v.left),
                                                         (pt.GetAttrKey("right"), v.right)], v.tag))

TREES = {
    "leaf": 1,
    "none": (None,),
    "args": ((1, (2, 3)), {}),
    "list": [1, [], [2]],
    "dict": {"b": 1, "a": 2},
    "keys": {3: 1, True: 2, "x": 3, None: 4, 1.5: 5},
    "unicode": {"h\u00e9\u20ac\U0001f600\"\\\n\x7f'": 1},
    "ordered": collections.OrderedDict([("z", 1), ("a", [2])]),
    "default": collections.defaultdict(list, {"k": 1}),
    "namedtuple": Named(1, (2,)),
    "deque": collections.deque([1, 2]),
    "deque 5": collections.deque([1], 5),
    "dataclass": Box(1, [2]),
    "dataclass with None": Box(1),
    "registered": Pair(1, {"k": 2}, "tag"),
    "enum": {Color.RED: 1},
    "call": ((1, {"image": [2, 3, 4]}), {"scale": 5, "p": Named(6, 7)}),
    "empty": ((), {}),
    "text": "abc",
}


def torch_answer(torch, name):
    p = torch.utils._pytree
    torch_register(p)
    leaves, spec = p.tree_flatten(TREES[name])
    return [p.treespec_dumps(spec), len(leaves), spec.num_nodes,
            [p.keystr(path) for path, _ in p.tree_leaves_with_path(TREES[name])]]


@pytest.mark.parametrize("name", TREES)
def test_as_torch(oracle, name):
    """X10: the text of a spec, its counts and the paths of its leaves."""
    text, count, nodes, paths = oracle(name, lambda torch: torch_answer(torch, name))
    leaves, spec = pt.tree_flatten(TREES[name])
    assert pt.treespec_dumps(spec) == text
    assert (len(leaves), spec.num_leaves, spec.num_nodes) == (count, count, nodes)
    found, again = pt.tree_flatten_with_path(TREES[name])
    assert [pt.keystr(path) for path, _ in found] == paths and [leaf for _, leaf in found] == leaves and again == spec
    assert [pt.key_get(TREES[name], path) for path, _ in found] == leaves
    loaded = pt.treespec_loads(text)
    assert loaded == spec and hash(loaded) == hash(spec)
    value = pt.tree_unflatten(leaves, loaded)
    assert type(value) is type(TREES[name])
    assert pt.tree_flatten(value) == (leaves, spec) and spec.flatten(TREES[name]) == leaves
    if name != "registered":
        assert value == TREES[name]


def torch_trees(children):
    keys = st.text(max_size=3)
    return (st.lists(children, max_size=4) | st.lists(children, max_size=4).map(tuple) | st.dictionaries(keys,
            children, max_size=4)
            | st.dictionaries(keys, children, max_size=3).map(collections.OrderedDict) | st.tuples(children,
                    children).map(lambda v: Named(*v))
            | st.lists(children, max_size=3).map(collections.deque) | st.builds(Box, children, children))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.recursive(st.none() | st.integers() | st.text(max_size=2), torch_trees, max_leaves=20))
def test_round_trip(tree):
    leaves, spec = pt.tree_flatten(tree)
    assert pt.tree_unflatten(leaves, spec) == tree
    assert spec.flatten(tree) == leaves and pt.treespec_loads(pt.treespec_dumps(spec)) == spec
    assert len(spec.paths()) == spec.num_leaves
    if "torch" in sys.modules:
        p = sys.modules["torch"].utils._pytree
        torch_register(p)
        theirs, their_spec = p.tree_flatten(tree)
        assert theirs == leaves and p.treespec_dumps(their_spec) == pt.treespec_dumps(spec)


SPEC = {"args": ((0, {"image": [0, 0]}), {"scale": 0, "p": Named(0, 0)}), "box": Box(0, 0), "pair": Pair(0, 0, "tag"),
        "deque": collections.deque([0]),
        "ordered": collections.OrderedDict(a=0)}
BAD = [
    ("args", ((1, {"image": [2]}), {"scale": 3, "p": Named(4, 5)}), "call[0][1]['image']: expected a list of 2, got a "
     "list of 1"),
    ("args", ((1, {"image": (2, 3)}), {"scale": 3, "p": Named(4, 5)}), "call[0][1]['image']: expected a list of 2, got "
     "a tuple of 2"),
    ("args", ((1, {"imag": [2, 3]}), {"scale": 3, "p": Named(4, 5)}), "call[0][1]: the dict has no 'image' and an "
     "unexpected 'imag'; expected the keys 'image'"),
    ("args", ((1, {}), {"scale": 3, "p": Named(4, 5)}),
     "call[0][1]: the dict has no 'image'; expected the keys 'image'"),
    ("args", ((1, {"image": [2, 3], 7: 8}), {"scale": 3, "p": Named(4, 5)}),
     "call[0][1]: the dict has an unexpected 7; expected the keys 'image'"),
    ("args", ((1, {"image": [2, (3,)]}), {"scale": 3, "p": Named(4, 5)}), "call[0][1]['image'][1]: expected one value, "
     "got a tuple of 1"),
    ("args", ((1,), {"scale": 3, "p": Named(4, 5)}), "call[0]: expected a tuple of 2, got a tuple of 1"),
    ("args", ((1, {"image": [2, 3]}), {"scale": {}, "p": Named(4, 5)}), "call[1]['scale']: expected one value, got a "
     "dict of 0"),
    ("args", ((1, {"image": [2, 3]}), {"scale": 3, "p": (4, 5)}), "call[1]['p']: expected a Named of 2, got a tuple of "
     "2"),
    ("args", ((1, {"image": [2, 3]}), {"scale": 3, "p": Point(4, 5)}), "call[1]['p']: expected a Named with the "
     "fields ('left', 'right'), got a Point with ('x', 'y')"),
    ("args", ((1, {"image": [2, 3]}), {"scale": 3, "p": collections.namedtuple("Named", "left right")(4, 5)}),
     "call[1]['p']: expected a Named, got a Named, another class: <class 'tests.py.test_pytree.Named'>"),
    ("args", ((1, {"image": [2, 3]}), {"scale": 3, "p": Named(4, [5])}), "call[1]['p'].right: expected one value, got "
     "a list of 1"),
    ("args", 5, "call: expected a tuple of 2, got an int"),
    ("box", Box(1), "call: the Box has the context [['a'], ['b']], expected [['a', 'b'], []]"),
    ("box", Pair(1, 2, 3), "call: expected a Box of 2, got a Pair"),
    ("pair", Pair(1, 2, "other"), "call: the Pair has the context 'other', expected 'tag'"),
    ("ordered", [1], "call: expected an OrderedDict of 1, got a list of 1"),
    ("deque", [1], "call: expected a deque of 1, got a list of 1"),
    ("deque", collections.deque(), "call: expected a deque of 1, got a deque of 0"),
]


@pytest.mark.parametrize("name, value, message", BAD, ids=range(len(BAD)))
def test_another_structure(name, value, message):
    """X10: the error names the place, what was expected and what came."""
    with pytest.raises(ValueError) as error:
        pt.tree_structure(SPEC[name]).flatten(value, "call")
    assert str(error.value) == message


def test_any_dict_fits():
    spec = pt.tree_structure({"a": 1, "b": 2})
    assert spec.flatten(collections.OrderedDict(b=20, a=10)) == [10, 20]
    assert spec.flatten_up_to({"a": [1], "b": {}}) == [[1], {}]
    with pytest.raises(ValueError, match="the value: expected one value, got a tuple of 0"):
        pt.treespec_leaf().flatten(())


LEAF = '{"type": null, "context": null, "children_spec": []}'


def text(type_name, context, n):
    return json.dumps([1, {"type": type_name, "context": context, "children_spec": [json.loads(LEAF)] * n}])


def test_unknown_classes():
    """Types that nobody registered become structures of that name, and their texts come back unchanged."""
    source = text("somewhere.out.ModelOutput", '["logits", "loss"]', 2)
    spec = pt.treespec_loads(source)
    value = spec.unflatten([1, 2])
    assert type(value).__name__ == "ModelOutput" and (value.logits, value.loss) == (1, 2)
    assert type(spec.unflatten([1, 2])) is type(value) and pt.treespec_loads(source) == spec
    assert spec.flatten(value) == [1, 2] and spec.paths("out") == ["out.logits", "out.loss"]
    assert spec.flatten(type("Other", (), {"logits": 3, "loss": 4})()) == [3, 4]
    assert pt.treespec_dumps(spec) == source and repr(spec) == 'TreeSpec(ModelOutput, ["logits", "loss"], [*, *])'
    with pytest.raises(ValueError, match="x: expected a ModelOutput with the field 'logits', got an int"):
        spec.flatten(5, "x")
    dataclass = pt.treespec_loads(text("somewhere.Config", '[["a"], ["b"]]', 1)).unflatten([1])
    assert (dataclass.a, dataclass.b) == (1, None)
    namedtuple = text("collections.namedtuple", "somewhere.Where", 2)
    spec = pt.treespec_loads(namedtuple)
    assert repr(spec.unflatten([1, 2])) == "Where(field_0=1, field_1=2)" and pt.treespec_dumps(spec) == namedtuple
    assert spec.flatten(Point(3, 4)) == [3, 4]  # what its fields are called, nobody knows
    for odd, context in (("somewhere.class", '"x"'), ("somewhere.Cache", {"a": [1]}), ("nodots", "not json")):
        source = text(odd, context, 2)
        spec = pt.treespec_loads(source)
        assert pt.treespec_dumps(spec) == source and spec.flatten(spec.unflatten([1, 2])) == [1, 2]
    assert pt.treespec_loads(text("collections.defaultdict",
            {"default_factory_module": "os", "default_factory_name": "system", "dict_context": ["k"]}, 1)
                             ).unflatten([1]).default_factory is None
    assert "somewhere" not in sys.modules


def test_enums_are_not_imported():
    key = {"__enum__": True, "fqn": "no.such.module:Color", "name": "RED"}
    assert pt.treespec_loads(text("builtins.dict", json.dumps([key]), 1)).unflatten([1]) == {"Color.RED": 1}
    key["fqn"] = f"{__name__}:Color"
    assert pt.treespec_loads(text("builtins.dict", json.dumps([key]), 1)).unflatten([1]) == {Color.RED: 1}


def test_functions():
    tree = {"a": (1, 2), "b": [3]}
    assert pt.tree_map(lambda x: x + 1, tree) == {"a": (2, 3), "b": [4]}
    assert pt.tree_map(lambda x, y: x * y, tree, {"b": [10], "a": (5, 6)}) == {"a": (5, 12), "b": [30]}
    assert pt.tree_map(len, {"a": (1, 2)}, is_leaf=lambda x: isinstance(x, tuple)) == {"a": 2}
    assert pt.tree_map_only(int, str, (1, "x", 2.0)) == ("1", "x", 2.0)
    assert pt.tree_all(lambda x: x > 0, tree) and not pt.tree_any(lambda x: x > 3, tree)
    assert pt.tree_all_only(int, lambda x: x > 0, (1, "a")) and pt.tree_any_only(str, str.isalpha, (1, "a"))
    assert pt.tree_leaves(tree) == [1, 2, 3] == list(pt.tree_iter(tree)) == pt.arg_tree_leaves(*[1, 2], k=3)
    assert pt.tree_map_with_path(lambda path, x: (pt.keystr(path), x), [1]) == [("[0]", 1)]
    assert pt.tree_is_leaf(None) and not pt.tree_is_leaf([])
    assert not pt.tree_is_leaf(cresset.Size([1, 2])) and pt.tree_is_leaf(cresset.ones(2))
    seen = []
    assert pt.tree_map_(seen.append, tree) is tree and seen == [1, 2, 3]
    spec = pt.tree_structure(tree)
    assert spec.children()[0] == spec.child(0) == pt.treespec_tuple([pt.treespec_leaf()] * 2)
    assert spec.type is dict and spec.context == ["a", "b"]
    assert pt.treespec_dict(a=spec.child(0), b=spec.child(-1)) == spec
    assert repr(spec) == "TreeSpec(dict, ['a', 'b'], [TreeSpec(tuple, None, [*, *]), TreeSpec(list, None, [*])])"


def test_constants():
    @dataclasses.dataclass(frozen=True)
    class Config:
        norm: str

    pt.register_constant(Config)
    leaves, spec = pt.tree_flatten((1, Config("l2")))
    assert leaves == [1] and spec.unflatten([2]) == (2, Config("l2"))
    assert spec != pt.tree_structure((1, Config("l1")))
    pt._deregister_pytree_node(Config)
    assert pt.tree_leaves(Config("l2")) == [Config("l2")]


@pytest.mark.parametrize("call, error, message", [
    (lambda: pt.tree_unflatten([1], pt.tree_structure([1, 2])), ValueError, "the structure has 2 leaves, 1 were given"),
    (lambda: pt.tree_unflatten([1], 5), TypeError, "'treespec' must be a TreeSpec, got int"),
    (lambda: pt.register_pytree_node(Pair, pair_flatten, pair_unflatten), ValueError,
     "already registered as pytree node"),
    (lambda: pt.register_pytree_node(list, pair_flatten, pair_unflatten), ValueError,
     "already registered as pytree node"),
    (lambda: pt.register_pytree_node(5, pair_flatten, pair_unflatten), TypeError, "takes a class, got 5"),
    (lambda: pt.register_pytree_node(int, list, int, serialized_type_name="test.Pair"), ValueError,
     "belongs to another pytree node"),
    (lambda: pt.register_pytree_node(int, list, int, serialized_type_name="builtins.list"), ValueError,
     "belongs to another pytree node"),
    (lambda: pt.register_pytree_node(int, list, int, to_dumpable_context=str), ValueError, "both or none"),
    (lambda: pt._register_namedtuple(int, serialized_type_name="x"), TypeError, "is no namedtuple class"),
    (lambda: pt.register_dataclass(int), ValueError, "is no dataclass"),
    (lambda: pt.register_dataclass(Box, field_names=["a"]), ValueError, "expected ['a', 'b'], got ['a']"),
    (lambda: pt.register_constant(object), TypeError, "needs a class with its own __eq__"),
    (lambda: pt._deregister_pytree_node(int), ValueError, "is not registered"),
    (lambda: pt.treespec_dumps(5), TypeError, "takes a TreeSpec, got int"),
    (lambda: pt.treespec_dumps(pt.treespec_leaf(), 2), ValueError, "Unknown protocol 2"),
    (lambda: pt.treespec_dumps(pt.tree_structure(Point(1, 2))), NotImplementedError, "has no name to be written under"),
    (lambda: pt.treespec_dumps(pt.tree_structure({object(): 1})), TypeError, "does not go into JSON"),
    (lambda: pt.treespec_loads("[2, null]"), Exception, "protocol 2; 1 is read"),
    (lambda: pt.treespec_loads("[1, null]"), Exception, "a node is null"),
    (lambda: pt.treespec_loads(5), TypeError, ""),
    (lambda: pt.treespec_leaf().child(0), IndexError, "child 0 of a spec with 0 children"),
    (lambda: pt._C._treespec(dict, ["a"], []), ValueError, "1 keys for 0 children"),
    (lambda: pt._C._treespec(tuple, None, [5]), TypeError, "child 0 is no TreeSpec"),
    (lambda: pt.tree_flatten([1], is_leaf=lambda x: 1 / 0), ZeroDivisionError, ""),
])
def test_errors(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def test_bad_flatten_functions():
    class Odd:
        pass

    for flatten, error in ((lambda v: 5, TypeError), (lambda v: (5, None), TypeError),
                           (lambda v: 1 / 0, ZeroDivisionError)):
        pt.register_pytree_node(Odd, flatten, lambda values, context: Odd())
        with pytest.raises(error):
            pt.tree_flatten([Odd()])
        pt._deregister_pytree_node(Odd)


def test_deep_and_changing():
    deep = []
    for _ in range(100000):
        deep = [deep]
    with pytest.raises(RecursionError):
        pt.tree_flatten(deep)
    cycle = []
    cycle.append(cycle)
    with pytest.raises(RecursionError):
        pt.tree_flatten(cycle)
    shrinking = [1, 2, 3]
    with pytest.raises(RuntimeError, match="changed its size"):
        pt.tree_flatten(shrinking, is_leaf=lambda x: x == 1 and shrinking.clear())
    while deep:  # taken apart by hand: Python's own destructor is as deep
        deep = deep.pop()


def refused(spec, value):
    try:
        spec.flatten(value, "call")
    except ValueError:
        return
    raise AssertionError("it fits")


def test_no_leaks():
    """One lost object a round would be 700 blocks."""
    specs = {name: pt.tree_structure(tree) for name, tree in SPEC.items()}
    unknown = [text("models.Out", '["a", "b"]', 2), text("collections.namedtuple", "models.Where", 2),
               text("models.Cache", {"a": [1]}, 2)]

    def once():
        for tree in TREES.values():
            leaves, spec = pt.tree_flatten(tree)
            pt.tree_unflatten(leaves, pt.treespec_loads(pt.treespec_dumps(spec)))
            spec.flatten(tree, "x")
            spec.paths()
        for name, value, _ in BAD:
            refused(specs[name], value)
        for source in unknown:
            spec = pt.treespec_loads(source)
            refused(spec, 5)
            spec.flatten(spec.unflatten([1, 2]))

    def grown(rounds):
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(rounds):
            once()
        gc.collect()
        return sys.getallocatedblocks() - before

    grown(300)  # the interpreter fills its own caches first
    assert grown(700) < 700
