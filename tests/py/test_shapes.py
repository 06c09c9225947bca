"""S4, X3: the dynamic_shapes language, and the fakes that follow from it."""
import math

import pytest

import cresset as torch
from cresset import _C
from cresset._dynamo.exc import UserError, UserErrorType
from cresset.export import Dim, _shapes, dims


def settle(f, args, dynamic_shapes, kwargs=None):
    mode = _C.FakeTensorMode()
    plan = _shapes.plan(f, args, kwargs or {}, dynamic_shapes)
    fake_args, fake_kwargs = plan.fakes(mode)
    with mode:
        f(*fake_args, **fake_kwargs)
    return fake_args, fake_kwargs, plan.settle(mode)


def test_symbols_have_the_names_pytorch_gives_them():
    x, y = torch.randn(4, 6), torch.randn(8, 6)
    d = Dim("d")
    (a, b), _, settled = settle(lambda x, y: (x.sum(), y.sum()), (x, y), {"x": {0: d}, "y": {0: 2 * d}})
    assert [repr(size) for size in (*a.shape, *b.shape)] == ["s77", "6", "2*s77", "6"]
    assert settled.ranges == {"s77": (0, math.inf), "2*s77": (0, math.inf)}
    assert settled.replacements == {"s17": "2*s77"}


def test_the_same_tensor_is_the_same_fake():
    x = torch.randn(4, 6)
    (a, b), _, _ = settle(lambda x, y: x + y, (x, x), {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    assert a is b


def test_int_inputs_may_vary():
    x = torch.randn(4)
    (a, n), _, settled = settle(lambda x, n: x + n, (x, 3), (None, Dim.DYNAMIC))
    assert isinstance(n, torch.SymInt) and repr(n) == "s86"
    (a, n), _, settled = settle(lambda x, n: x + n, (x, 3), None)
    assert n == 3 and settled.ranges == {}


def test_dims_and_their_arithmetic():
    batch, length = dims("batch", "length", min=2, max=8)
    assert repr(batch) == "Dim('batch', max=8)" and repr(2 * length + 1) == "2*length + 1"
    assert (2 * length + 1).min == 5 and (2 * length + 1).max == 17
    assert repr(Dim.AUTO(min=3)) == "DimHint(AUTO, min=3)"
    for wrong in (lambda: batch * 0, lambda: batch * length, lambda: 3 - batch, lambda: batch + 1.5):
        with pytest.raises(NotImplementedError, match="positive integer times a Dim plus an integer"):
            wrong()
    with pytest.raises(AssertionError, match="identifier"):
        Dim("a b")
    with pytest.raises(AssertionError, match="min=5 is larger than max=3"):
        Dim("a", min=5, max=3)
    with pytest.raises(AssertionError, match=r"Dim\('a', min=1\)"):
        (Dim("a") - 1).min


X = torch.randn(4, 6)
WRONG = [
    ((X,), {"z": None}, UserErrorType.INVALID_INPUT, r"no argument 'z'; an entry for 'x' is missing"),
    ((X,), {"x": {2: Dim("b")}}, UserErrorType.INVALID_INPUT, r"\['x'\] has an entry for dimension 2; the tensor has 2 dimensions"),
    ((X,), {"x": (Dim("b"),)}, UserErrorType.INVALID_INPUT, r"has 1 entries for a tensor of 2 dimensions"),
    ((X,), {"x": Dim.AUTO}, UserErrorType.INVALID_INPUT, r"\['x'\] is DimHint\(AUTO\); expected a dict"),
    ((X,), {"x": {0: "b"}}, UserErrorType.INVALID_INPUT, r"\['x'\]\[0\] is 'b'; a size is a Dim"),
    ((X,), ({0: Dim("b")}, None), UserErrorType.INVALID_INPUT, r"1 inputs \(x\), dynamic_shapes has 2 entries"),
    (([X, X],), {"x": [None]}, UserErrorType.INVALID_INPUT, r"inputs\['x'\] has 2 elements, dynamic_shapes\['x'\] has 1"),
    (([X],), {"x": (None,)}, UserErrorType.INVALID_INPUT, r"inputs\['x'\] is a list, dynamic_shapes\['x'\] is a tuple"),
    (({"a": X},), {"x": {"b": None}}, UserErrorType.INVALID_INPUT, r"has the keys \['a'\], dynamic_shapes\['x'\] has \['b'\]"),
    ((X,), {"x": {0: Dim("b", min=2), 1: Dim("b", min=3)}}, UserErrorType.INVALID_INPUT, r"'b' has two definitions: Dim\('b'\) and Dim\('b', min=3\)"),
    ((3.5,), {"x": Dim.AUTO}, UserErrorType.INVALID_INPUT, r"inputs\['x'\] is of type float, which has no sizes"),
    ((X,), 3, UserErrorType.INVALID_INPUT, r"a dict by argument name, or a tuple or list by position, not int"),
    ((X,), {"x": {0: Dim("b", min=5)}}, UserErrorType.CONSTRAINT_VIOLATION, r"inputs\['x'\].shape\[0\] is 4 in the example input, .* bounds 5\.\.inf of b"),
    ((X,), {"x": {0: 5}}, UserErrorType.CONSTRAINT_VIOLATION, r"inputs\['x'\].shape\[0\] is always 5; the example input has 4"),
    ((X,), {"x": {0: 3 * Dim("b")}}, UserErrorType.CONSTRAINT_VIOLATION, r"not of the form 3\*b for any integer b"),
    ((X,), {"x": {0: Dim("b"), 1: Dim("b")}}, UserErrorType.CONSTRAINT_VIOLATION, r"is 6 and inputs\['x'\].shape\[0\] is 4 .* of one b"),
]


@pytest.mark.parametrize("args,spec,kind,text", WRONG, ids=range(len(WRONG)))
def test_wrong_specifications(args, spec, kind, text):
    with pytest.raises(UserError, match=text) as error:
        settle(lambda x: x, args, spec)
    assert error.value.error_type is kind
