"""C7: strides of results that PyTorch gives in a layout of its own; archives whose inputs come in another layout than
the example's."""
import warnings

import cresset
import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch's strides are compared live")


def ours(tensor):
    """A tensor of the same strides."""
    return cresset.empty_strided(tensor.shape, tensor.stride()).copy_(cresset.tensor(tensor.contiguous().numpy()))


def compare(call, *tensors):
    want, got = call(torch, *tensors), call(cresset, *map(ours, tensors))
    for a, b in zip(want, got) if isinstance(want, tuple) else [(want, got)]:
        assert tuple(a.shape) == tuple(b.shape) and a.stride() == b.stride()
        numpy.testing.assert_allclose(b.contiguous().numpy(), a.contiguous().numpy(), atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_conv1d_of_a_transposed_input(batch):
    x, w = torch.randn(batch, 8, 4).transpose(1, 2), torch.randn(6, 4, 3)
    for weight in (w, torch.randn(6, 3, 4).transpose(1, 2)):
        compare(lambda t, x, w: t.nn.functional.conv1d(x, w, padding=1), x, weight)
        compare(lambda t, x, w: t.nn.functional.conv1d(x, w, stride=2), x.contiguous(), weight)
        grad = torch.randn(batch, 6, 6)
        compare(lambda t, g, x, w: t.ops.aten.convolution_backward(g, x, w, [6], [1], [0], [1], False, [0], 1,
                                                                   [True, True, True]), grad, x, weight)
    compare(lambda t, x, w: t.nn.functional.conv_transpose1d(x, w), x, torch.randn(4, 6, 3))


@pytest.mark.parametrize("shape", [(2, 4, 6, 6), (1, 4, 6, 6), (2, 1, 6, 6), (2, 4, 1, 1)])
def test_adaptive_avg_pool2d_of_channels_last(shape):
    x = torch.randn(shape).to(memory_format=torch.channels_last)
    for size in (1, 2, (1, 3), (None, 1)):
        compare(lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, size), x)
    compare(lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), x.contiguous())


@pytest.mark.parametrize("shape", [(2, 4, 6, 5), (1, 4, 6, 5), (2, 4, 3, 6, 5)])
def test_moves_of_channels_last(shape):
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    x = torch.randn(shape).to(memory_format=last)
    for dim in range(-1, len(shape)):
        compare(lambda t, x, y: t.stack([x, y, x], dim), x, x * 2)
        compare(lambda t, x, y: t.stack([x, y], dim), x, x.contiguous())
    for shift, dim in ((1, 2), (shape[2], 2), (0, 1), ((1, 2), (2, 3)), ((1, shape[3]), (2, 3)), (-1, -1)):
        compare(lambda t, x: t.roll(x, shift, dim), x)
    for mode in ("reflect", "replicate"):
        compare(lambda t, x: t.nn.functional.pad(x, (1, 1) * (len(shape) - 2), mode=mode), x)
    for weight in (None, torch.randn(shape[-1])):
        weights = () if weight is None else (weight,)
        compare(lambda t, x, *w: t.nn.functional.rms_norm(x, shape[-1:], *w), x, *weights)


def test_gradients_of_padding_of_channels_last():
    x = torch.randn(2, 4, 5, 6, 7).to(memory_format=torch.channels_last_3d)
    for name in ("reflection_pad3d_backward", "replication_pad3d_backward"):
        compare(lambda t, g, x: getattr(t.ops.aten, name)(g, x, [1] * 6), torch.randn(2, 4, 7, 8, 9), x)


def test_stack_of_channels_last_of_other_sizes():
    parts = [torch.randn(n, 4, 6, 5).to(memory_format=torch.channels_last) for n in (3, 2, 4)]
    for t, given in ((torch, parts), (cresset, list(map(ours, parts)))):
        with pytest.raises(RuntimeError):
            t.stack(given)


class Norms(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.GroupNorm(2, 6)

    def forward(self, x):
        return self.norm(x) * 2


def test_group_norm_of_other_strides_than_the_archive_has(tmp_path):
    """PyTorch's core programs call native_group_norm on what was contiguous in the example, and refuse anything
    else."""
    module, example = Norms(), torch.randn(2, 6, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module, (example,)).run_decompositions(), tmp_path / "m.pt2")
    loaded = cresset.export.load(tmp_path / "m.pt2")
    for x in (torch.randn(2, 5, 6).transpose(1, 2), torch.randn(6, 2, 5).transpose(0, 1),
              torch.randn(2, 6, 10)[..., ::2], example):
        for run in (loaded.module(), cresset.aot_load(cresset.aot_compile(loaded))):
            numpy.testing.assert_allclose(run(ours(x)).detach().numpy(), module(x).detach().numpy(), atol=1e-5)
