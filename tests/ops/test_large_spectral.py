"""Eigenvalues and singular values of matrices that are halved (more than 24 rows) or stay in f32 (64 x 64 and more),
hard in one way each: by what must hold, and against PyTorch's values in f64."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")

import cresset  # noqa: E402
import harness  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.complex128]
LIMIT = {torch.float32: 5e-6, torch.float64: 5e-14, torch.complex128: 5e-14}


def random(*size):
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(size)))


def beside(n, by=1.0):
    one = torch.full((n - 1,), by, dtype=torch.float64)
    return torch.diag(one, 1) + torch.diag(one, -1)


def with_values(values):
    q = torch.linalg.qr(random(len(values), len(values)))[0]
    return (q * values) @ q.mT


def wilkinson(n):
    return torch.diag((torch.arange(n) - n // 2).abs().double()) + beside(n)


def glued(count, n, by):
    a = torch.block_diag(*[wilkinson(n)] * count)
    for i in range(n, count * n, n):
        a[i - 1, i] = a[i, i - 1] = by
    return a


def steps(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


SYMMETRIC = {
    **{f"random {n}": lambda n=n: random(n, n) + random(n, n).mT for n in (24, 25, 49, 64, 130, 200)},
    "identity": lambda: torch.eye(70).double(), "zero": lambda: torch.zeros(70, 70).double(),
    "rank three": lambda: random(150, 3) @ random(150, 3).mT, "diagonal": lambda: torch.diag(random(90)),
    "falling": lambda: torch.diag(torch.arange(90, 0, -1).double()),
    "second differences": lambda: 2 * torch.eye(100).double() - beside(100), "wilkinson": lambda: wilkinson(101),
    "glued": lambda: glued(7, 21, 1e-8), "barely glued": lambda: glued(5, 21, 1e-14),
    "close": lambda: with_values(1 + 1e-12 * torch.arange(100).double()),
    "two values": lambda: with_values(torch.cat([torch.ones(40), -torch.ones(60)]).double()),
    "graded": lambda: with_values(torch.logspace(0, -18, 100).double()),
    "weakly coupled": lambda: torch.diag(10.0 ** (-torch.arange(100) / 8).double()) + beside(100, 1e-8),
    "tiny": lambda: (2 * torch.eye(80).double() - beside(80)) * 1e-30, "huge": lambda: random(80, 80) * 1e30,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_eigh(name, dtype):
    a = SYMMETRIC[name]().to(dtype)
    n = len(a)
    if dtype.is_complex:
        turn = torch.exp(1j * random(n))
        a = turn[:, None] * a * turn.conj()
    a = ((a + a.mH) / 2).contiguous()
    size = float(a.abs().max()) or 1.0
    values, vectors = harness.theirs(cresset.ops.aten._linalg_eigh(harness.ours(a), "L", True))
    alone = harness.theirs(cresset.ops.aten._linalg_eigh(harness.ours(a), "U", False)[0])
    wide = (a / size).to(torch.complex128)
    want, found, v = torch.linalg.eigvalsh(wide), values.double() / size, vectors.to(torch.complex128)
    limit = LIMIT[dtype] * max(1.0, float(want.abs().max()))
    assert bool((values.diff() >= 0).all())
    assert (found - want).abs().max() < limit and (alone.double() / size - want).abs().max() < limit
    assert (wide @ v - v * found).abs().max() < limit
    assert (v.mH @ v - torch.eye(n)).abs().max() < LIMIT[dtype]


MATRICES = {
    **{f"random {m}x{n}": lambda m=m, n=n: random(m, n)
       for m, n in ((16, 16), (70, 70), (130, 90), (90, 130), (2000, 9), (9, 2000))},
    "stack": lambda: random(5, 40, 30), "zero": lambda: torch.zeros(40, 30).double(),
    "identity": lambda: torch.eye(50).double(), "ones": lambda: torch.ones(40, 50).double(),
    "rank three": lambda: random(80, 3) @ random(3, 60), "two columns": lambda: random(300, 2),
    "graded": lambda: random(60, 60) @ torch.diag(torch.logspace(0, -12, 60).double()) @ random(60, 60).mT,
    "falling": lambda: with_values(torch.logspace(0, -9, 80).double()),
    "equal": lambda: torch.linalg.qr(random(90, 60))[0], "triangle": lambda: torch.ones(60, 60).triu().double(),
    "tiny": lambda: random(50, 40) * 1e-30, "huge": lambda: random(50, 40) * 1e30,
}


@pytest.mark.parametrize("name", MATRICES)
def test_svd_of_floats(name):
    a = MATRICES[name]().float()
    size = float(a.abs().max()) or 1.0
    wide = a.double() / size
    want = torch.linalg.svdvals(wide)
    limit = 1e-6 * max(1.0, float(want.max()))
    for full in (False, True):
        u, s, vh = harness.theirs(cresset.ops.aten._linalg_svd(harness.ours(a), full, True))
        alone = harness.theirs(cresset.ops.aten._linalg_svd(harness.ours(a), full, False)[1])
        u, found, vh, k = u.double(), s.double() / size, vh.double(), s.shape[-1]
        assert bool((s.diff() <= 0).all()) and bool((s >= 0).all())
        assert (found - want).abs().max() < limit and (alone.double() / size - want).abs().max() < limit
        assert (u[..., :k] @ torch.diag_embed(found) @ vh[..., :k, :] - wide).abs().max() < limit
        assert (u.mT @ u - torch.eye(u.shape[-1])).abs().max() < 1e-6
        assert (vh @ vh.mT - torch.eye(vh.shape[-2])).abs().max() < 1e-6


def test_what_is_no_number_is_refused():
    for bad in (float("nan"), float("inf")):
        a = random(70, 70).float()
        a[30, 20] = bad
        for op in (cresset.linalg.eigh, cresset.linalg.svd, cresset.linalg.svdvals):
            with pytest.raises(RuntimeError, match="NaN or infinite"):
                op(harness.ours(a))
