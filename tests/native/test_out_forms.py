"""Calls with out=, as PyTorch's archives hold them: interpreted and compiled they write what PyTorch writes, through
views and into inputs."""
import cresset
import numpy
import pytest

torch = pytest.importorskip("torch", reason="the archives are PyTorch's")


def views(x, y):
    z = torch.zeros(2, *x.shape)
    torch.add(x, y, alpha=2, out=z[0])
    torch.mul(x, y, out=z[1])
    torch.exp(x[:, ::2], out=z[1, :, ::2])
    return z * 2


def transposed(x, y):
    z = torch.ones(x.size(1), x.size(0))
    torch.sub(x, y, out=z.t())
    return z, z + 1


def inputs(x, y):
    torch.add(x, 1, out=y)
    torch.mul(y, x, out=x[:])
    return x - y


def own_argument(x, y):
    torch.matmul(x.t(), y, out=(z := torch.empty(x.size(1), y.size(1))))
    torch.softmax(z, -1, dtype=torch.float32, out=z)
    return z


def several(x, y):
    values, indices = torch.zeros(2, x.size(0)), torch.zeros(x.size(0), dtype=torch.int64)
    a, b = torch.max(x, 1, out=(values[1], indices))
    torch.sort(y, 1, out=(y, torch.empty(y.shape, dtype=torch.int64)))
    return values, indices, a + 1, b * 2


def dtypes(x, y):
    z = torch.zeros(x.shape, dtype=torch.float64)
    torch.add(x, y, out=z)
    torch.sum(x, 1, out=z[:, 0])
    whole = torch.arange(0, 6, out=torch.zeros(6, dtype=torch.float64))
    truth = torch.gt(x, y, out=torch.zeros(x.shape, dtype=torch.uint8))
    return z, whole / 4, truth, torch.full((2, 3), 1, out=torch.zeros(2, 3, dtype=torch.float16))


def sums(x, y):
    """Computed in the dtype of what is written: the product of halves would be infinite."""
    x, y, z = torch.full((x.size(0), 4), 99, dtype=torch.float16), (x * 99).nan_to_num().half(), torch.zeros(4,
            x.size(0))
    torch.prod(x, 1, out=z[0])
    torch.sum(y, 1, out=z[1])
    torch.cumsum(y[:, 0], 0, out=z[2])
    torch.cumprod(y[:, 0], 0, out=z[3])
    return z, torch.sum(y, 1, out=torch.zeros(x.size(0), dtype=torch.int32)), torch.sum(y, 1, dtype=torch.float16,
            out=torch.zeros(x.size(0), dtype=torch.float16))


def composite(x, y):
    z = torch.zeros(2 * x.size(0), x.size(1))
    torch.cat([x, y], out=z)
    torch.clamp(z, -0.5, 0.5, out=z)
    torch.stack([x, y], 1, out=z.unflatten(0, (-1, 2)))
    return torch.cumsum(z, 0, out=torch.empty(z.shape))


FUNCTIONS = [views, transposed, inputs, own_argument, several, dtypes, sums, composite]


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def pair(t, rows):
    made = numpy.random.default_rng(rows).standard_normal((2, rows, 4), dtype="float32")
    if rows > 1:
        made[0, 1, 2] = numpy.nan
    return [t.from_numpy(made[i].copy()) for i in range(2)]


def run(t, function, rows):
    """Results, and the inputs after the call."""
    given = pair(t, rows)
    made = function(*given)
    return [v.numpy() for v in (*(made if isinstance(made, (tuple, list)) else [made]), *given)]


def same(have, wanted):
    assert [(a.dtype, a.shape) for a in have] == [(a.dtype, a.shape) for a in wanted]
    for a, b in zip(have, wanted):
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# PyTorch's export settles every size of what sort writes.
WAYS = [(f, dynamic) for f in FUNCTIONS for dynamic in (False, True) if not (dynamic and f is several)]


@pytest.mark.parametrize("function, dynamic", WAYS, ids=lambda v: ("static", "dynamic")[v] if isinstance(v, bool)
                         else v.__name__)
def test_out_forms(function, dynamic, tmp_path):
    shapes = ({0: torch.export.Dim("n", min=0)},) * 2 if dynamic else None
    exported = torch.export.export(Module(function), tuple(pair(torch, 3)), dynamic_shapes=shapes)
    assert any("out" in str(node.target) or "dim_max" in str(node.target) for node in exported.graph.nodes)
    torch.export.save(exported, tmp_path / "model.pt2")
    program = cresset.export.load(tmp_path / "model.pt2")
    native = cresset.aot_load(cresset.aot_compile(program, options={"output_path": tmp_path / "model.so"}))
    for rows in (0, 1, 2, 3, 5) if dynamic else (3,):
        wanted = run(torch, function, rows)
        same(run(cresset, program.module(), rows), wanted)
        same(run(cresset, native, rows), wanted)


def test_resizing_is_refused_by_name(tmp_path):
    """An out tensor that gets other sizes is other memory."""
    exported = torch.export.export(Module(lambda x, y: torch.add(x, y, out=torch.empty(0))), tuple(pair(torch, 3)))
    torch.export.save(exported, tmp_path / "model.pt2")
    program = cresset.export.load(tmp_path / "model.pt2")
    same(run(cresset, program.module(), 3), run(torch, lambda x, y: x + y, 3))
    with pytest.raises(cresset.UnsupportedError, match="aten::add.out: 'out' has other sizes than the result"):
        cresset.aot_compile(program, options={"output_path": tmp_path / "model.so"})
