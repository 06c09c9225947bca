"""E6: backend="native": the interpreter of graphs at once, native code when it is built, the same results."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402

import cresset  # noqa: E402
import cresset.nn as nn  # noqa: E402


def compare(got, want):
    if isinstance(want, (tuple, list)):
        return len(got) == len(want) and all(map(compare, got, want))
    assert (got.dtype, tuple(got.shape), got.stride()) == (want.dtype, tuple(want.shape), want.stride())
    if not want.numel():
        return True
    a, b = got.double(), want.double()
    return bool(((a - b).abs().max() <= 1e-4 * b.abs().max() + 1e-12).item())


def check(function, *args, tier="native"):
    compiled = cresset.compile(function, fullgraph=True)
    want = function(*args)
    assert compare(compiled(*args), want)  # at once
    compiled._wait()
    assert compare(compiled(*args), want)
    assert compiled._counts()["failed"] == 0
    state = compiled._entries()[0]["tier"]
    assert state is not None and tier in state
    assert compare(compiled(*args), want)
    return compiled


@pytest.mark.parametrize("size", [(4, 8), (1, 8), (0, 8), (2, 1)])
def test_sizes(size):
    x = cresset.randn(*size)
    check(lambda a, b: ((a * 2 + b).relu().sum(dim=1), a @ b.T), x, x + 1)


def test_non_contiguous_and_nan():
    x = cresset.randn(8, 4).t()
    check(lambda a: (a.exp() / (1 + a.exp())).softmax(dim=-1) if a.dim() == 2 else a, x, tier="")
    y = cresset.tensor([float("nan"), 1.0, -float("inf")])
    compiled = cresset.compile(lambda a: a.relu() + 1)
    plain = (y.relu() + 1).tolist()
    for _ in range(2):
        assert str(compiled(y).tolist()) == str(plain)
        compiled._wait()


def test_results_keep_their_layout():
    """Strides are the plain ones, whoever computes."""
    check(lambda a: (a + 1).t() * 2, cresset.randn(3, 5), tier="")


@pytest.mark.parametrize("function, reason", [
    (lambda a: a + cresset.rand(3), "random"),
    (lambda a: nn.functional.scaled_dot_product_attention(*[a.view(1, 1, 3, 1)] * 3, dropout_p=0.5), "random"),
    (lambda a: a.view(3, 1), "native"),
    (lambda a: (a + 1).view(3, 1)[0:1], "native"),
])
def test_who_stands_for_the_graph(function, reason):
    compiled = cresset.compile(function, fullgraph=True)
    x = cresset.ones(3)
    for _ in range(2):
        cresset.manual_seed(1)
        got = compiled(x)
        compiled._wait()
        cresset.manual_seed(1)
        assert compare(got, function(x))
    assert reason in compiled._entries()[0]["tier"]


def test_views_of_arguments_stay_views():
    compiled = cresset.compile(lambda a: a.view(-1), fullgraph=True)
    x = cresset.zeros(2, 2)
    compiled(x)
    compiled._wait()
    compiled(x).add_(1)
    assert x.tolist() == [[1, 1], [1, 1]]


def test_gradients():
    w = cresset.ones(3, requires_grad=True)
    compiled = cresset.compile(lambda a, w: (a * w).sum(), fullgraph=True)
    a = cresset.arange(3.0)
    compiled(a, w).backward()
    assert w.grad.tolist() == [0, 1, 2]
    compiled._wait()
    assert compiled._entries()[0]["tier"] == "native"
    with cresset.no_grad():
        compiled(a, w)
        compiled._wait()
        assert compiled(a, w).item() == 3
    assert compiled._entries()[0]["tier"] == "native"


def test_error_at_run_time():
    def f(a, i):
        return a[i] + 1
    compiled = cresset.compile(f)
    a = cresset.arange(3.0)
    assert compiled(a, cresset.tensor([2])).tolist() == [3]
    compiled._wait()
    with pytest.raises(IndexError) as caught:
        compiled(a, cresset.tensor([5]))
    assert caught.traceback[-1].lineno + 1 == f.__code__.co_firstlineno + 1
    assert compiled(a, cresset.tensor([1])).tolist() == [2]


def test_weights_are_live():
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval().requires_grad_(False)
    c = cresset.compile(m, fullgraph=True)
    x = cresset.randn(3, 4)
    c(x)
    c._compiled._wait()
    assert c._compiled._entries()[0]["tier"] == "native"
    assert compare(c(x), m(x))
    m[0].weight.mul_(2)
    assert compare(c(x), m(x))
    m.load_state_dict({name: value + 1 for name, value in m.state_dict().items()})
    assert compare(c(x), m(x))
    assert c._compiled._counts()["captures"] == 1


def test_cases_by_name():
    """What the table of cases captures, it gives natively, too."""
    for name in ("inlined", "comprehension", "dict_items", "appends"):
        case = next(c for c in cases.CASES if c.function.__name__ == name)
        compiled = cresset.compile(case.function, fullgraph=True)
        compiled(*case.make_args())
        compiled._wait()
        got, want = compiled(*case.make_args()), case.function(*case.make_args())
        assert str(got) == str(want)
