"""N1: special functions against their power series, where PyTorch is no oracle."""
import decimal

import cresset
import pytest


def airy(x):
    """Ai by its Maclaurin series, with enough digits for the cancellation at |x| < 12."""
    with decimal.localcontext() as context:
        context.prec = 60
        x, one = decimal.Decimal(x), decimal.Decimal(1)
        first = decimal.Decimal("0.355028053887817239260063186004183176397979174199")   # Ai(0)
        slope = decimal.Decimal("-0.258819403792806798405183560189203963479091138354")  # Ai'(0)
        total, f, g = decimal.Decimal(0), one, x
        for k in range(1, 200):
            total += first * f + slope * g
            f *= x ** 3 / ((3 * k - 1) * (3 * k))
            g *= x ** 3 / ((3 * k) * (3 * k + 1))
        return float(total)


@pytest.mark.parametrize("x", [-9.5, -8.0, -6.25, -5.0, -4.1, -3.0, -2.5, -2.1, -2.0, -0.5, 0.0, 0.75, 2.0, 3.5])
def test_airy(x):
    got = cresset.ops.aten.special_airy_ai.default(cresset.tensor([x], dtype=cresset.float64)).item()
    assert got == pytest.approx(airy(x), rel=1e-12, abs=1e-14)
