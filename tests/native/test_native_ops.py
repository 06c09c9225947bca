"""Programs of one call: native code gives what the interpreter gives, above all where nothing is computed. `./dev test
--full native_ops` runs the whole op table."""
import pathlib
import sys

import cresset
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("ops", "full")]
torch = pytest.importorskip("torch", reason="the samples are written with PyTorch's tensors")
import native_ops  # noqa: E402

# Ops that have no kernel for some dtypes and need none for some sizes, that start as a copy, that count first, that go
# through a temporary.
OPS = ["aten::cummax", "aten::cummin", "aten::kthvalue", "aten::mode", "aten::mm", "aten::bmm", "aten::mv",
       "aten::addmm", "aten::searchsorted.Tensor", "aten::index_put",
       "aten::scatter.src", "aten::nonzero", "aten::cumsum", "aten::tril", "aten::conj_physical", "aten::clamp",
       "aten::copy"]


@pytest.mark.parametrize("name", OPS)
def test_native_ops(name):
    counts, failures = native_ops.run(name, [torch.complex64, torch.bool, torch.bfloat16], limit=2)
    assert not failures, "\n".join(failures[:3])
    assert counts["equal"]


def test_sums_over_nothing():
    """No kernel multiplies bools; over an inner size of 0 none is needed."""
    class Product(cresset.nn.Module):
        def forward(self, a, b):
            return cresset.mm(a, b), cresset.bmm(a[None], b[None])
    args = cresset.ones(3, 0, dtype=cresset.bool), cresset.ones(0, 2, dtype=cresset.bool)
    program = cresset.export.export(Product(), args)
    for run in (program.module(), program.compile(options={"wait": True})):
        one, batch = run(*args)
        assert one.tolist() == [[False, False]] * 3 and batch.tolist() == [[[False, False]] * 3]


def test_a_scan_of_a_single_number():
    """Complex numbers have no order; a single one needs none."""
    class Scan(cresset.nn.Module):
        def forward(self, x):
            return cresset.cummax(x, 0)
    x = cresset.tensor(2 - 3j)
    program = cresset.export.export(Scan(), (x,))
    for run in (program.module(), program.compile(options={"wait": True})):
        values, indices = run(x)
        assert values.item() == 2 - 3j and indices.item() == 0


class Changes(cresset.nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x):
        return self.change(x) * 1


@pytest.mark.parametrize("change", [lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.add_(1).squeeze_(0),
                                    lambda x: x.resize_(2, 2)])
def test_a_new_shape_of_an_input_is_refused(change):
    """The caller's tensor would have to change its shape, which the C interface cannot say."""
    program = cresset.export.export(Changes(change), (cresset.ones(1, 6),))
    with pytest.raises(cresset.UnsupportedError, match="changes the shape of an input or buffer itself"):
        cresset.aot_compile(program)


@pytest.mark.parametrize("change", [lambda x: x.clone().resize_(4, 6), lambda x: x.clone().set_(x + 1)])
def test_other_memory_is_refused(change):
    """The tensor's memory was laid out for what it was made with."""
    program = cresset.export.export(Changes(change), (cresset.ones(2, 6),))
    with pytest.raises(cresset.UnsupportedError, match="other memory than it was made with"):
        cresset.aot_compile(program)


@pytest.mark.parametrize("change", [lambda x: x.clone().t_(), lambda x: x.clone().resize_(2, 3),
                                    lambda x: x.t().clone().unsqueeze_(1)])
def test_a_new_shape_within_the_memory(change):
    x = cresset.arange(12).reshape(2, 6)
    program = cresset.export.export(Changes(change), (x,))
    want = (change(x) * 1).tolist()
    assert program.compile(options={"wait": True})(x).tolist() == program.module()(x).tolist() == want
