"""Eigenvalues and singular values of matrices that are hard in one way each, in every dtype, against PyTorch's values
in f64 and by what must hold: the product of the factors is the matrix, the vectors are orthonormal."""
import cresset
import pytest

torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")

ops = cresset.ops.aten
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
WIDE = {torch.float32: torch.float64, torch.float64: torch.float64, torch.complex64: torch.complex128,
        torch.complex128: torch.complex128}


def grade(n):
    return torch.diag(10.0 ** -torch.arange(float(n)))


def repeated(random):
    q = torch.linalg.qr(random(10, 10))[0]
    return q @ torch.diag(torch.tensor([1, 1, 1, 2, 2, 2, 3, 3, 3, 3.0])).to(q.dtype) @ q.mH


def hilbert(n):
    return 1 / (torch.arange(n)[:, None] + torch.arange(n) + 1.0)


MATRICES = {
    "one": lambda random: random(1, 1), "two": lambda random: random(2, 2), "square": lambda random: random(30, 30),
    "stack": lambda random: random(2, 3, 4, 4),
    "tall": lambda random: random(50, 20), "wide": lambda random: random(20, 50),
    "column": lambda random: random(9, 1), "row": lambda random: random(1, 9),
    "huge": lambda random: random(10, 10) * 1e30, "tiny": lambda random: random(10, 10) * 1e-30,
    "empty": lambda random: random(0, 4),
    "rank three": lambda random: random(20, 3) @ random(3, 15), "square of rank three": lambda random: random(20,
            3) @ random(3, 20),
    "zero": lambda random: random(4, 4) * 0, "identity": lambda random: torch.eye(6),
    "hilbert": lambda random: hilbert(12),
    "diagonal": lambda random: grade(30), "graded": lambda random: grade(15).to(random(1).dtype) @ random(15,
            15) @ grade(15).to(random(1).dtype),
    "graded up": lambda random: (grade(15).to(random(1).dtype) @ random(15,
            15) @ grade(15).to(random(1).dtype)).flip(0, 1),
    "repeated": repeated, "ones": lambda random: torch.ones(7, 7), "triangle": lambda random: torch.ones(20, 20).triu(),
    "nilpotent": lambda random: torch.diag(torch.ones(9), 1),
}


@pytest.fixture(params=DTYPES, ids=lambda d: str(d)[6:])
def dtype(request):
    return request.param


def matrix(name, dtype):
    generator = torch.Generator().manual_seed(3)
    return MATRICES[name](lambda *size: torch.randn(*size, dtype=WIDE[dtype], generator=generator)).to(dtype)


def ours(*tensors):
    return [torch.from_dlpack(t) for t in tensors]


def off(got, want, scale):
    return float((got - want).abs().max() / scale) if got.numel() else 0.0


def limit(dtype):
    return 1e-12 if dtype in (torch.float64, torch.complex128) else 1e-5


@pytest.mark.parametrize("name", MATRICES)
def test_svd(name, dtype):
    a = matrix(name, dtype)
    w = a.to(WIDE[dtype])
    want = torch.linalg.svdvals(w)
    scale = float(want.max()) + 1e-300 if want.numel() else 1.0
    for full in (False, True):
        u, s, vh = (t.to(torch.promote_types(WIDE[dtype], t.dtype))
                    for t in ours(*ops._linalg_svd(cresset.from_dlpack(a), full, True)))
        k = s.shape[-1]
        s = s.real.double()
        assert off(s, want, scale) < limit(dtype) and bool((s.diff() <= 0).all()) and bool((s >= 0).all())
        assert off(u[..., :k] @ torch.diag_embed(s).to(w.dtype) @ vh[..., :k, :], w, scale) < limit(dtype)
        assert off(u.mH @ u, torch.eye(u.shape[-1], dtype=w.dtype), 1) < limit(dtype)
        assert off(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=w.dtype), 1) < limit(dtype)
        assert off(ours(ops._linalg_svd(cresset.from_dlpack(a), full, False)[1])[0].double(), s, scale) < limit(dtype)


@pytest.mark.parametrize("name", [n for n in MATRICES if matrix(n, torch.float64).shape[-1] == matrix(n,
        torch.float64).shape[-2]])
def test_eigh(name, dtype):
    a = matrix(name, dtype)
    a = (a / 2 + a.mH / 2).contiguous()
    w = a.to(WIDE[dtype])
    for side in ("L", "U"):
        torn = (a.tril() if side == "L" else a.triu()).contiguous()  # the other triangle does not count
        values, v = ours(*ops._linalg_eigh(cresset.from_dlpack(torn), side, True))
        values, v = values.double(), v.to(w.dtype)
        want = torch.linalg.eigvalsh(w, UPLO=side)
        scale = float(want.abs().max()) + 1e-300
        assert off(values, want, scale) < limit(dtype) and bool((values.diff() >= 0).all())
        assert off(v @ torch.diag_embed(values).to(w.dtype) @ v.mH, w, scale) < limit(dtype)
        assert off(v.mH @ v, torch.eye(v.shape[-1], dtype=w.dtype), 1) < limit(dtype)
        assert off(ours(ops._linalg_eigh(cresset.from_dlpack(torn), side, False)[0])[0].double(), values,
                   scale) < limit(dtype)


def apart(got, want):
    """The largest distance between values and those of the other that are nearest, each taken once."""
    left, worst = want.tolist(), 0.0
    for value in got.tolist():
        nearest = min(range(len(left)), key=lambda i: abs(left[i] - value))
        worst = max(worst, abs(left.pop(nearest) - value))
    return worst


SQUARES = {**{name: MATRICES[name] for name in MATRICES if matrix(name, torch.float64).dim() == 2
              and matrix(name, torch.float64).shape[0] == matrix(name, torch.float64).shape[1]},
           "pairs": lambda random: torch.block_diag(*[torch.tensor([[1.0, k], [-k, 1.0]]) for k in (1.0, 2.0, 3.0)]),
           "cycle": lambda random: torch.eye(8).roll(1, 0), "lower": lambda random: random(9, 9).tril(),
           "scaled": lambda random: grade(12).to(random(1).dtype) @ random(12, 12) @ grade(12).inverse().to(
               random(1).dtype),
           "isolated": lambda random: torch.block_diag(random(1, 1).real, torch.tensor([[0.0, 2.0], [-2.0, 0.0]]),
                                                       random(2, 2).real.triu())[[3, 0, 4, 1, 2]][:, [3, 0, 4, 1, 2]],
           "hundred": lambda random: random(100, 100)}
DEFECTIVE = {"nilpotent", "triangle"}  # the values of the latter are all one, and a rounding moves them far


@pytest.mark.parametrize("name", SQUARES)
def test_eig(name, dtype):
    generator = torch.Generator().manual_seed(3)
    a = SQUARES[name](lambda *size: torch.randn(*size, dtype=WIDE[dtype], generator=generator)).to(dtype)
    w = a.to(torch.complex128)
    values, v = ours(*cresset.linalg.eig(cresset.from_dlpack(a)))
    assert values.dtype == v.dtype == (torch.complex128 if WIDE[dtype] == dtype else torch.complex64)
    alone = ours(cresset.linalg.eigvals(cresset.from_dlpack(a)))[0]
    assert torch.equal(alone, values)
    if not dtype.is_complex:  # real, or pairs of conjugates of which the one above comes first
        assert torch.equal(torch.sort(values.imag)[0], -torch.sort(values.imag, descending=True)[0])
        first = [i for i, x in enumerate(values.imag.tolist()) if x > 0]
        assert all(values[i].conj() == values[i + 1] and torch.equal(v[:, i].conj(), v[:, i + 1]) for i in first)
        assert not v.imag[:, values.imag == 0].any()
    values, v = values.to(w.dtype), v.to(w.dtype)
    scale = float(torch.linalg.matrix_norm(w)) + 1e-300
    assert off(v * values @ torch.eye(len(w), dtype=w.dtype), w @ v, scale) < limit(dtype)
    assert off(v.abs().square().sum(0).sqrt(), torch.ones(len(w)), 1) < limit(dtype)
    close = 0.3 if name in DEFECTIVE else limit(dtype) * 10
    assert apart(values, torch.linalg.eigvals(w)) < close * scale


@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_eig(n, dtype):
    a = torch.arange(n * n).reshape(n, n).to(dtype) + 1
    values, v = ours(*cresset.linalg.eig(cresset.from_dlpack(a)))
    want = torch.linalg.eigvals(a)
    assert values.shape == (n,) and v.shape == (n, n) and apart(values, want) < limit(dtype) * 10


def test_eig_of_a_defective_matrix():
    """Both vectors are the only one there is; PyTorch's is the same."""
    a = torch.tensor([[2.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    values, v = ours(*cresset.linalg.eig(cresset.from_dlpack(a)))
    assert values.tolist() == [2, 2] and off(v.abs(), torch.tensor([[1.0, 1.0], [0.0, 0.0]]), 1) < 1e-15


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_the_ends_of_f64(scale):
    a = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    s = ours(cresset.linalg.svdvals(cresset.from_dlpack(a * scale)))[0]
    assert off(s / scale, torch.linalg.svdvals(a), 1) < 1e-12
    values = ours(cresset.linalg.eigvalsh(cresset.from_dlpack((a + a.T) * scale)))[0]
    assert off(values / scale, torch.linalg.eigvalsh(a + a.T), 1) < 1e-12
    values = ours(cresset.linalg.eigvals(cresset.from_dlpack(a * scale)))[0]
    assert apart(values / scale, torch.linalg.eigvals(a)) < 1e-12


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(bad, dtype):
    a = torch.eye(3, dtype=dtype)
    a[2, 1] = bad
    for f in (cresset.linalg.eig, cresset.linalg.eigvals, cresset.linalg.eigh, cresset.linalg.svd,
              cresset.linalg.svdvals, cresset.linalg.pinv):
        with pytest.raises(RuntimeError, match="NaN or infinite"):
            f(cresset.from_dlpack(a))


def phases(ours_vectors, their_vectors):
    """Of each column: theirs = ours * phase."""
    return (ours_vectors.conj() * their_vectors).sum(-2)


def cotangents(loss, results):
    """Of a loss that does not see the phases; a derivative of one that does means nothing."""
    leaves = [t.detach().requires_grad_() for t in results]
    return torch.autograd.grad(loss(*leaves), leaves)


def mine(tensors):
    return [cresset.from_dlpack(t.resolve_conj().contiguous()) for t in tensors]


REAL_AND_COMPLEX = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])


@REAL_AND_COMPLEX
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_derivative_of_svd(shape, dtype):
    generator = torch.Generator().manual_seed(5)
    noise = lambda *size: torch.randn(*size, dtype=dtype, generator=generator)
    a, left, right = noise(*shape).requires_grad_(), noise(*shape[:-1], shape[-2]), noise(*shape[:-2], shape[-1],
            shape[-1])
    loss = lambda u, s, vh: ((left * (u * (s**2).unsqueeze(-2) @ u.mH)).sum()
                             + (right * (vh.mH * s.exp().unsqueeze(-2) @ vh)).sum()).real + (s**3).sum()
    results = torch.linalg.svd(a, full_matrices=False)
    phase = phases(ours(cresset.linalg.svd(cresset.from_dlpack(a.detach()), False)[0])[0], results[0].detach())
    given = cotangents(loss, results)
    want = torch.autograd.grad(results, a, given)[0]
    turned = mine((given[0] * phase.conj().unsqueeze(-2), given[1], given[2] * phase.unsqueeze(-1)))
    got = ours(cresset._C._derivative("aten::linalg_svd", (cresset.from_dlpack(a.detach()), False), {}, turned,
                                      ["A"])[0])[0]
    assert float(want.abs().max()) > 0.1 and off(got, want, float(want.abs().max())) < 1e-9


@REAL_AND_COMPLEX
def test_derivative_of_eigh(dtype):
    generator = torch.Generator().manual_seed(5)
    a, weight = (torch.randn(2, 4, 4, dtype=dtype, generator=generator) for _ in range(2))
    a = (a + a.mH).requires_grad_()
    loss = lambda values, v: (weight * (v * values.exp().unsqueeze(-2) @ v.mH)).sum().real + (values**3).sum()
    results = torch.linalg.eigh(a)
    phase = phases(ours(cresset.linalg.eigh(cresset.from_dlpack(a.detach()))[1])[0], results[1].detach())
    given = cotangents(loss, results)
    want = torch.autograd.grad(results, a, given)[0]
    turned = mine((given[0], given[1] * phase.conj().unsqueeze(-2)))
    got = ours(cresset._C._derivative("aten::linalg_eigh", (cresset.from_dlpack(a.detach()), "L"), {}, turned,
                                      ["self"])[0])[0]
    assert float(want.abs().max()) > 0.1 and off(got, want, float(want.abs().max())) < 1e-9


@REAL_AND_COMPLEX
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1)])
def test_derivatives_of_eig(shape, dtype):
    """The first and the second, of a loss that sees neither the order nor the phases."""
    generator = torch.Generator().manual_seed(5)
    a, weight, to = (torch.randn(*shape, dtype=torch.complex128, generator=generator) for _ in range(3))
    a, to = (x if dtype.is_complex else x.real.contiguous() for x in (a, to))

    def loss(package, x, weight):
        values, v = package.linalg.eig(x)
        joined = v.unsqueeze(-2) * v.conj().unsqueeze(-3) * (values**2).unsqueeze(-2).unsqueeze(-2)
        alone = package.linalg.eigvals(x)
        return ((weight * joined.sum(-1)).sum() + (values**3).sum() + (alone**4).sum()).real

    def both(package, x, weight, to):
        first = package.autograd.grad(loss(package, x, weight), x, create_graph=True)[0]
        second = package.autograd.grad((first * to.conj()).sum().real, x)[0]
        return first.detach(), second

    want = both(torch, a.clone().requires_grad_(), weight, to)
    got = ours(*both(cresset, cresset.from_dlpack(a).requires_grad_(), *mine((weight, to))))
    for mine_, theirs in zip(got, want, strict=True):
        assert mine_.dtype == dtype and float(theirs.abs().max()) > 0.1
        assert off(mine_, theirs, float(theirs.abs().max())) < 1e-8


def test_a_loss_of_phases_has_no_gradient():
    generator = torch.Generator().manual_seed(5)
    a = torch.randn(4, 4, dtype=torch.complex128, generator=generator)
    for package, x in ((torch, a.clone().requires_grad_()), (cresset, cresset.from_dlpack(a).requires_grad_())):
        with pytest.raises(RuntimeError, match="depends on"):
            package.linalg.eig(x)[1].imag.sum().backward()
