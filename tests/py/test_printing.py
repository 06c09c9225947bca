"""N2: tensors print as PyTorch's do."""
# ruff: noqa: E501 - one case is one line
import pytest

import cresset
from agree import agree, lines

LINES = lines("""
    repr(t.tensor([1., 2.])), repr(t.tensor([1.5, 2.])), repr(t.tensor([1, 20, 300])), repr(t.tensor([True, False])), repr(t.tensor(1.5)), repr(t.tensor(3))
    repr(t.tensor([0.1, 1e-5])), repr(t.tensor([1e10, 1.])), repr(t.tensor([1e-8])), repr(t.tensor([1e5, 1e-3])), repr(t.tensor([123456.7])), repr(t.tensor([999., 0.5]))
    repr(t.tensor([nan, inf, -inf])), repr(t.tensor([nan, 1.5])), repr(t.tensor([inf, 1.])), repr(t.tensor([-inf, 1e-9])), repr(t.tensor([0., -0.])), repr(t.tensor([-1., 1.]))
    repr(t.tensor([])), repr(t.tensor([], dtype=t.int64)), repr(t.zeros(2, 0)), repr(t.zeros(0, dtype=t.bool)), repr(t.zeros(0, 3, dtype=t.float64))
    repr(t.tensor([1.], dtype=t.float64)), repr(t.tensor([1.], dtype=t.float16)), repr(t.tensor([1.25], dtype=t.bfloat16)), repr(t.tensor([1], dtype=t.int8)), repr(t.tensor([255], dtype=t.uint8))
    repr(t.tensor([1 + 2j, 3 - 4.5j])), repr(t.tensor([1j])), repr(t.tensor(1 + 2j)), repr(t.tensor([1e10 + 1j, 2e-5j], dtype=t.complex128))
    repr(t.arange(12).view(3, 4)), repr(t.arange(24.).view(2, 3, 4) / 7), repr(t.arange(8).view(2, 2, 2, 1)), repr(t.arange(6).view(2, 3).T)
    repr(t.arange(1000)), repr(t.arange(1001)), repr(t.arange(2000.)), repr(t.arange(1200).view(2, 600)), repr(t.arange(1200.).view(600, 2) / 3), repr(t.arange(4000).view(4, 10, 100))
    repr(t.arange(30.) / 3), repr(t.arange(30) - 15), repr(t.arange(300.) * 1e4), repr(t.arange(40, dtype=t.int16)), repr(t.arange(26).to(t.complex64))
    repr(t.ones(2, requires_grad=True)), repr(t.ones(14, dtype=t.float64)), repr(t.ones(15, dtype=t.float64)), repr(t.ones(1, dtype=t.float64, requires_grad=True))
    str(t.tensor([1., 2.])), '%s' % t.tensor(1), f'{t.tensor([1, 2])}', [t.tensor(1.), {'a': t.tensor([2])}].__repr__()
""")


@pytest.mark.parametrize("line", LINES)
def test_repr(oracle, line):
    agree(oracle, line)


OPTIONS = lines("""
    precision=2
    precision=8
    edgeitems=1, threshold=10
    edgeitems=0, threshold=5
    linewidth=40
    sci_mode=True
    sci_mode=False
    profile='short'
    profile='full'
""")


@pytest.mark.parametrize("options", OPTIONS)
def test_options(oracle, options):
    line = (f"r | t.set_printoptions({options}); r = [repr(x) for x in (t.arange(12.).view(3, 4) / 7, t.arange(30), "
            f"t.arange(1100) / 3, "
            "t.arange(125.).view(5, 5, 5) * 1e5, t.tensor(1.5), t.tensor([1j, 2.5]))]; "
            "t.set_printoptions(profile='default')")
    agree(oracle, line)


def test_unknown_profile():
    with pytest.raises(ValueError, match="short"):
        cresset.set_printoptions(profile="tiny")
