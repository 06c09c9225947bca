"""Archives with torch.vmap and associative_scan inside: the training dialect holds their bodies as they are for one
example."""
import pathlib
import sys
import warnings

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "native")]
torch = pytest.importorskip("torch", reason="archives are written by PyTorch")

import checking  # noqa: E402
import cresset  # noqa: E402
import programs  # noqa: E402
import programs_native  # noqa: E402
from torch import vmap  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch.nn import functional as F  # noqa: E402

CASES = {}


def case(*sizes):
    def wrap(function):
        made = lambda: tuple(a if isinstance(a, torch.Tensor) else torch.randn(a) for a in sizes)
        module = lambda: type(function.__name__, (torch.nn.Module,), {"forward": lambda self, *xs: function(*xs)})()
        CASES[function.__name__] = programs.Program(function.__name__, module, made, dialects=("training",))
        return function
    return wrap


@case((5, 3), (5, 3))
def dots(x, y):
    return vmap(lambda a, b: torch.dot(a, b) + a.sum() + b.mean() + a.max())(x, y)


@case((4, 3, 2), (3, 2))
def places(x, y):
    """Batch dimensions in the middle and at the end, in and out; one argument that has none."""
    return (vmap(lambda a, b: a * b.amax(0), in_dims=(1, None))(x, y), vmap(torch.sin, in_dims=1, out_dims=1)(x),
            vmap(lambda a: a.exp(), in_dims=-1, out_dims=-1)(x),
            vmap(lambda a, b: b + 0 * a.sum(), in_dims=(2, None))(x, y), vmap(lambda a, b: b, in_dims=(0, None))(x, y))


@case((2,), (3,), (4,))
def nested(x, y, z):
    return vmap(vmap(vmap(lambda a, b, c: a * b - c.sin(), in_dims=(None, None, 0)), in_dims=(None, 0, None)),
                in_dims=(0, None, None))(x, y, z)


@case((2, 6))
def mask_of_attention(x):
    """As transformers makes masks."""
    f = lambda b, h, q, k: (q >= k) & (k < 5)
    for dims in [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)]:
        f = vmap(f, in_dims=dims)
    return f(torch.arange(2), torch.arange(1), torch.arange(6), torch.arange(6)), x.sin()


@case((4, 3, 5), (4, 5, 2), (4, 5), (3, 5))
def products(a, b, c, d):
    return (vmap(torch.mm)(a, b), vmap(torch.mv)(a, c), vmap(torch.matmul, in_dims=(0, None))(a, d.T),
            vmap(lambda m, v: v @ m)(b, c),
            vmap(lambda x, w: F.linear(x, w))(a, a), vmap(lambda x, w, v: F.linear(v, w, v[:3] * 2) + x.sum())(a, a,
                    c), vmap(lambda v: F.linear(v, d))(c),
            vmap(lambda m, n: torch.einsum("ij,jk->ik", m, n))(a, b))


@case((4, 3, 5))
def shapes(x):
    return (vmap(lambda a: a.reshape(5, 3).T)(x), vmap(lambda a: a.unsqueeze(0).expand(2, 3, 5))(x),
            vmap(lambda a: a.permute(1, 0)[1:3])(x),
            vmap(lambda a: torch.cat([a, a[:1] * 2, a.new_zeros(1, 5)]))(x),
            vmap(lambda a: torch.stack([a[0], a[1]], -1))(x), vmap(lambda a: a.flatten())(x),
            vmap(lambda a: a.view(-1), in_dims=2)(x), vmap(lambda a: a.split(2)[1])(x),
            vmap(lambda a: a.squeeze(0) if a.shape[0] == 1 else a.t())(x))


@case((4, 3, 5))
def reductions(x):
    return (vmap(lambda a: a.sum(0))(x), vmap(lambda a: a.mean(-1, keepdim=True))(x), vmap(lambda a: a.softmax(-1))(x),
            vmap(lambda a: a.amax((0, 1)))(x),
            vmap(lambda a: a.cumsum(1))(x), vmap(lambda a: a.sort(0).values)(x), vmap(lambda a: a.argmax(-1))(x),
            vmap(lambda a: a.var(0) + a.norm())(x),
            vmap(lambda a: F.layer_norm(a, (5,)))(x), vmap(lambda a: (a > 0).any())(x),
            vmap(vmap(lambda a: a.sum() / a.numel()))(x))


@case((4, 3, 5), torch.tensor([[0, 2], [1, 1], [2, 0], [0, 1]]))
def without_rules(x, at):
    """Ops that are called example by example."""
    return (vmap(lambda a, i: a[i])(x, at), vmap(lambda a, i: a.index_add(0, i, a[:2]))(x, at),
            vmap(lambda a: F.avg_pool1d(a, 2))(x),
            vmap(lambda a, i: a.index_select(0, i))(x, at), vmap(lambda a: a.diagonal() + a[:, :3].trace())(x),
            vmap(vmap(lambda a: torch.outer(a, a)))(x), vmap(lambda a: torch.logcumsumexp(a, 0))(x))


@case((4, 3))
def scans(x):
    pair = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    return (associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic"),
            *associative_scan(pair, (x, x + 1), dim=1, combine_mode="generic"),
            associative_scan(torch.matmul, x[:, None] * x[:, :, None], dim=0, combine_mode="generic"))


@pytest.mark.parametrize("name", CASES)
def test_archive(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = checking.make(CASES[name], "training", tmp_path)
    assert checking.by_module(archive) is None
    assert programs_native.difference(archive, tmp_path) is None


def saved(forward, args, path, **options):
    module = type("Program", (torch.nn.Module,), {"forward": forward})()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module, args, **options), path)
    return str(path)


def test_a_dynamic_batch(tmp_path):
    forward = lambda self, x, y: vmap(lambda a, b: (a * b).sum() + a.softmax(0))(x, y)
    batch = torch.export.Dim("batch", min=2, max=64)
    path = saved(forward, (torch.randn(5, 3), torch.randn(5, 3)), tmp_path / "p.pt2",
                 dynamic_shapes=({0: batch}, {0: batch}))
    program = cresset.export.load(path).module()
    for n in (2, 7):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        got = torch.from_dlpack(program(cresset.from_dlpack(x), cresset.from_dlpack(y)))
        assert torch.allclose(got, forward(None, x, y), atol=1e-6)


def test_what_has_no_rule_is_named(tmp_path):
    forward = lambda self, x: vmap(lambda a: torch.logcumsumexp(a, 0))(x)
    path = saved(forward, (torch.randn(300, 3),), tmp_path / "p.pt2")
    with pytest.raises(Exception, match="vmap over aten::logcumsumexp"):
        cresset.export.load(path)


def test_it_is_saved_without_vmap(tmp_path):
    path = saved(lambda self, x: vmap(lambda a: a.sin().sum())(x), (torch.randn(4, 3),), tmp_path / "p.pt2")
    cresset.export.save(cresset.export.load(path), str(tmp_path / "q.pt2"))
    x = torch.randn(4, 3)
    there = torch.export.load(tmp_path / "q.pt2").module()
    assert torch.allclose(there(x), x.sin().sum(1), atol=1e-6)
