"""cdist() of points with a few coordinates, which are taken many at a time: PyTorch's distances, at sizes around those
blocks, in batches, with infinite and missing numbers, and the same bits with one thread as with three."""
import math

import pytest

torch = pytest.importorskip("torch", reason="the answers are PyTorch's")

import cresset  # noqa: E402

SIZES = [(1, 1), (2, 63), (3, 64), (65, 2), (130, 131), (0, 5), (5, 0)]


def points(*sizes, dtype, seed=0):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def ours(x, y, p):
    return torch.from_dlpack(cresset.cdist(cresset.from_dlpack(x), cresset.from_dlpack(y), p))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8])
def test_as_pytorchs(width, dtype, p):
    for rows, others in SIZES:
        for batch in ((), (2,), (2, 1)):
            x, y = points(*batch, rows, width, dtype=dtype), points(*batch, others, width, dtype=dtype, seed=1)
            expected = torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist")
            torch.testing.assert_close(ours(x, y, p), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_numbers_that_are_none(p):
    x, y = points(3, 3, dtype=torch.float32), points(70, 3, dtype=torch.float32, seed=1)
    y[5, 1], y[66, 2], x[1, 0] = math.inf, math.nan, -math.inf
    found, expected = ours(x, y, p), torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.isinf(), expected.isinf())


def test_threads_do_not_change_it():
    x, y = points(4, 900, 3, dtype=torch.float32), points(4, 1100, 3, dtype=torch.float32, seed=1)
    before = cresset.get_num_threads()
    try:
        found = []
        for n in (1, 3):
            cresset.set_num_threads(n)
            found.append(ours(x, y, 2.0))
    finally:
        cresset.set_num_threads(before)
    assert torch.equal(*found)
