"""Archives with ops that few models have: quantisation, quantiles, reductions by index, factorisations. Written by
PyTorch, in both dialects, interpreted and as native code."""
import pathlib
import sys
import warnings

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "native")]
torch = pytest.importorskip("torch", reason="archives are written by PyTorch")

import checking  # noqa: E402
import programs  # noqa: E402
import programs_native  # noqa: E402

CASES = {}


def case(*args):
    """A function of tensors of these sizes (or of these tensors) as a program."""
    def wrap(function):
        made = lambda: tuple(a if isinstance(a, torch.Tensor) else torch.randn(a) for a in args)
        module = lambda: type(function.__name__, (torch.nn.Module,), {"forward": lambda self, *xs: function(*xs)})()
        CASES[function.__name__] = programs.Program(function.__name__, module, made)
        return function
    return wrap


@case((4, 6))
def fake_quantized(x):
    scale, zero = x[:, 0].abs() + 0.1, torch.tensor([0, 1, 2, 3], dtype=torch.int32)
    return (torch.fake_quantize_per_tensor_affine(x, 0.07, 3, -128, 127), torch.fake_quantize_per_channel_affine(x,
            scale, zero, 0, 0, 15),
            torch.fake_quantize_per_tensor_affine(x, torch.tensor([0.2]), torch.tensor([3], dtype=torch.int32), 0, 255))


@case(torch.randint(-128, 128, (20, 33), dtype=torch.int8), torch.randint(-128, 128, (33, 8), dtype=torch.int8))
def integer_product(a, b):
    return torch._int_mm(a, b)


@case((5, 7))
def quantiles(x):
    q = torch.tensor([0.1, 0.5, 0.93])
    return torch.quantile(x, 0.4), torch.quantile(x, q, 1), torch.nanquantile(x.log(), 0.3, 0, True), torch.quantile(x,
            q, 0, interpolation="nearest")


@case((5, 4), (6, 4))
def reduced_by_index(x, y):
    at = torch.tensor([0, 3, 3, 1, 0, 3])
    return [x.index_reduce(0, at, y, how, include_self=own) for how in ("prod", "mean", "amax", "amin")
            for own in (True, False)]


@case((5,))
def powers(x):
    return torch.vander(x), torch.vander(x, 3, True), torch.linalg.vander(x, N=4)


@case((3, 6, 4))
def singular(a):
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    h = a.mT @ a
    values, v = torch.linalg.eigh(h)
    return (u * s.unsqueeze(-2)) @ vh, s, torch.linalg.svdvals(a), values, (v
            * values.unsqueeze(-2)) @ v.mT, torch.linalg.eigvalsh(h, UPLO="U")


@case((3, 6, 4), (5, 5))
def inverted(a, b):
    flat = b[:, :2] @ b[:2]
    return (torch.linalg.pinv(a), torch.pinverse(flat, 1e-4), torch.linalg.matrix_rank(a),
            torch.linalg.matrix_rank(flat, rtol=1e-4),
            torch.linalg.pinv(flat @ flat.mT, rtol=1e-3, hermitian=True))


@case((3, 6, 4), (3, 4, 4), (6, 2))
def measured(a, b, c):
    norms = [torch.linalg.matrix_norm(a, ord) for ord in ("fro", "nuc", 2, -2, 1, -1, float("inf"))]
    return (*norms, torch.linalg.norm(a, 2, (0, 2), True), torch.linalg.norm(c, "nuc"), torch.linalg.cond(b),
            torch.linalg.matrix_exp(b))


@case((40,), (40,))
def counted(x, w):
    return (*torch.histogram(x, torch.tensor([-2.0, -0.5, 0.0, 1.0])), *torch.histogram(x, 6, range=(-1.0, 1.5),
            weight=w.abs(), density=True))


@pytest.mark.parametrize("dialect", programs.DIALECTS)
@pytest.mark.parametrize("name", CASES)
def test_archive(name, dialect, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = checking.make(CASES[name], dialect, tmp_path)
    assert checking.by_module(archive) is None
    assert programs_native.difference(archive, tmp_path) is None
