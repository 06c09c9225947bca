"""S1: refusals that need no values are made by fake runs, too: static and symbolic."""
import pytest

import cresset


def fake(name, *args, symbolic):
    return cresset._C._fake_call(name, args, {}, symbolic)


@pytest.mark.parametrize("symbolic", [False, True])
def test_an_expanded_tensor_is_not_written_to(symbolic):
    x = cresset.ones(4, 1).expand(4, 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        fake("aten::relu_", x, symbolic=symbolic)
    assert fake("aten::fill_.Scalar", x, 2, symbolic=symbolic)  # one value everywhere


@pytest.mark.parametrize("symbolic", [False, True])
def test_dtypes_of_targets_and_weights_of_a_loss(symbolic):
    x, at = cresset.ones(4, 3), cresset.zeros(4, dtype=cresset.int64)
    with pytest.raises(RuntimeError, match="targets, not int32"):
        fake("aten::nll_loss_forward", x, at.to(cresset.int32), None, 1, -100, symbolic=symbolic)
    with pytest.raises(RuntimeError, match="weights of float32"):
        fake("aten::nll_loss_forward", x, at, cresset.ones(3, dtype=cresset.float64), 1, -100, symbolic=symbolic)
    assert fake("aten::nll_loss_forward", x, at, None, 1, -100, symbolic=symbolic)
