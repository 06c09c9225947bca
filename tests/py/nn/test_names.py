"""N2: names that model code uses with `torch` bound to Cresset."""
# ruff: noqa: E501 - one case is one line
import pytest

import cresset
from agree import agree, lines

LINES = lines("""
    t.LongTensor([1, 2]), t.FloatTensor([1, 2]), t.BoolTensor([True]), t.ByteTensor([3])
    t.FloatTensor(2, 3).shape, t.IntTensor(t.Size([2])).dtype
    isinstance(t.ones(2), t.FloatTensor), isinstance(t.ones(2), t.LongTensor), isinstance(3, t.FloatTensor)
    t.asarray([1, 2, 3]), t.asarray(2.5, dtype=t.float64)
    t.asarray([1, 2], copy=False)
    t.range(1, 4), t.range(0, 1, 0.5), t.range(0, 1, 0.3), t.range(1, 5, dtype=t.int64)
    [i.tolist() for i in t.unravel_index(t.tensor([5, 7]), (3, 4))]
    t.vander(t.tensor([1., 2., 3.])), t.vander(t.tensor([1., 2., 3.]), N=2, increasing=True)
    t.combinations(t.tensor([1, 2, 3])), t.combinations(t.tensor([1, 2, 3]), 3, True)
    t.chain_matmul(t.ones(2, 3), t.ones(3, 4), t.ones(4, 1))
    t.jit.is_scripting(), t.jit.is_tracing(), t.jit.annotate(int, 3)
    t.cuda.is_available(), t.cuda.device_count()
    t.is_autocast_enabled(), t.are_deterministic_algorithms_enabled(), t.get_float32_matmul_precision(), t.get_default_device()
    t.compiler.is_compiling(), t.compiler.is_exporting()
    t._assert(False, 'no')
    t.set_float32_matmul_precision('low')
    t.is_tensor(t.ones(1)), t.get_default_dtype(), t.is_grad_enabled()
    x.split(2), x.split([1, 3]), x.split(split_size=3, dim=0) | x = t.arange(4)
    x.contiguous() is x, x.t().contiguous() is x, x.t().contiguous().stride() | x = t.ones(2, 3)
    x.contiguous(memory_format=t.channels_last).stride() | x = t.ones(2, 3, 4, 5)
""")


@pytest.mark.parametrize("line", LINES)
def test_line(oracle, line):
    agree(oracle, line)


def test_decorators():
    @cresset.jit.ignore
    def f(x):
        return x

    @cresset.jit.ignore(drop=True)
    def g(x):
        return x

    assert (f(1) == g(1) == cresset.jit.unused(f)(1) == cresset.compiler.disable(f)(1) == cresset.compiler.disable(
            recursive=False)(f)(1) == 1)


def test_refusals():
    with pytest.raises(NotImplementedError, match="cuda"):
        cresset.set_default_device("cuda")
    with pytest.raises(RuntimeError, match="CUDA"):
        cresset.cuda.current_device()


def test_is_exporting():
    seen = []

    class Asks(cresset.nn.Module):
        def forward(self, x):
            seen.append(cresset.compiler.is_exporting())
            return x + 1

    cresset.export.export(Asks(), (cresset.ones(2),))
    Asks()(cresset.ones(2))
    assert len(seen) >= 2 and all(seen[:-1]) and not seen[-1]
