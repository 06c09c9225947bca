"""S4, C7: channels-last images of any size: results have PyTorch's values, and its strides, from programs exported here
and there, interpreted and compiled. Where all sizes vary, no fact tells that strides are channels-last: they are what
the example has."""
import warnings

import cresset
import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch's strides are compared live")

WEIGHT = numpy.linspace(-1, 1, 4 * 4 * 9, dtype=numpy.float32).reshape(4, 4, 3, 3)
STATS = numpy.linspace(0.5, 2, 4, dtype=numpy.float32)


def layers(t, x):
    weight, stats = t.tensor(WEIGHT), t.tensor(STATS)
    y = t.nn.functional.batch_norm(t.nn.functional.conv2d(x, weight, stats, padding=1), stats, stats)
    return y, y.relu() + x, t.nn.functional.conv_transpose2d(x, weight, stride=2)


# size of dimension 1 that cannot vary, or None
PROGRAMS = {
    "pointwise": (lambda t, x: (x * 2, x + t.ones(1, 1, 1, 1), x + t.ones(x.shape), t.ones(x.shape) + x,
                                t.where(x > 0, x, t.zeros(1)), x / x.sum(1, keepdim=True)), None),
    "copies": (lambda t, x: (x.clone(), t.zeros_like(x), t.empty_like(x).fill_(3), x.to(t.float64),
                             x.to(memory_format=t.channels_last), x.contiguous(), x.clone().mul_(2)), None),
    "pools": (lambda t, x: (t.nn.functional.max_pool2d(x, 2, 1, 1), t.nn.functional.avg_pool2d(x, 2, 1, 1),
                            t.nn.functional.adaptive_avg_pool2d(x, 2), t.nn.functional.adaptive_max_pool2d(x, 2)),
              None),
    "moves": (lambda t, x: (t.cat([x, x], 1), t.cat([x, x.contiguous()], 0), t.stack([x, x]), x.flip(2),
                            t.nn.functional.pad(x, (1, 1)), x.permute(0, 2, 3, 1) * 2), None),
    "larger": (lambda t, x: (t.nn.functional.interpolate(x, scale_factor=2, mode="nearest"),
                             t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
                             t.nn.functional.pixel_shuffle(t.cat([x, x, x, x], 1), 2)), None),
    "layers": (layers, 4),
}
VOLUMES = {
    "volumes": (lambda t, x: (x.relu(), x + t.ones(x.shape), x.clone(), t.zeros_like(x),
                              t.nn.functional.max_pool3d(x, 2, 1, 1), t.nn.functional.interpolate(x, scale_factor=2),
                              t.nn.functional.pad(x, (1,) * 6, mode="replicate"), t.cat([x, x], 1)), None),
}


def image(shape):
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    values = torch.arange(numpy.prod(shape), dtype=torch.float32).reshape(shape) * 7919 % 23 - 11
    return torch.empty(shape, memory_format=last).copy_(values)


def ours(x):
    return cresset.empty_strided(tuple(x.shape), x.stride()).copy_(cresset.tensor(x.contiguous().numpy()))


def runs_of(function, example, dims, folder):
    for t, x in ((torch, example), (cresset, ours(example))):
        class Program(t.nn.Module):
            def forward(self, x):
                return function(t, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ep = t.export.export(Program(), (x,), dynamic_shapes=({d: t.export.Dim.AUTO for d in dims},))
            t.export.save(ep, folder / "m.pt2")
        loaded = cresset.export.load(folder / "m.pt2")
        yield f"{t.__name__}, file, interpreted", loaded.module()
        yield f"{t.__name__}, file, compiled", cresset.aot_load(cresset.aot_compile(loaded))
        if t is cresset:
            yield "memory, interpreted", ep.module()
            yield "memory, compiled", cresset.aot_load(cresset.aot_compile(ep))


@pytest.mark.parametrize("name", {**PROGRAMS, **VOLUMES})
def test_images_of_any_size(name, tmp_path):
    function, channels = {**PROGRAMS, **VOLUMES}[name]
    shape = (3, 4, 6, 5, 7) if name in VOLUMES else (3, 4, 6, 5)
    dims = [d for d in range(len(shape)) if d != 1 or not channels]
    runs = dict(runs_of(function, image(shape), dims, tmp_path))
    for size in (0, 1, 2, 5):
        x = image([size if d in dims else shape[d] for d in range(len(shape))])
        try:
            wanted = function(torch, x)
        except RuntimeError:
            continue  # PyTorch refuses images without pixels in some layers
        for how, run in runs.items():
            for i, (a, b) in enumerate(zip(wanted, run(ours(x)), strict=True)):
                assert tuple(a.shape) == tuple(b.shape), (how, size, i)
                numpy.testing.assert_allclose(b.contiguous().numpy(), a.contiguous().numpy(), rtol=1e-4, atol=1e-5,
                                              err_msg=f"{how}, size {size}, result {i}")
                if size > 1:
                    assert a.stride() == tuple(b.stride()), (how, size, i)


@pytest.mark.parametrize("where", ["there", "here"])
def test_a_conversion_that_is_none_writes_its_argument(where, tmp_path):
    t = torch if where == "there" else cresset

    class Program(t.nn.Module):
        def forward(self, x):
            y = x.to(memory_format=t.channels_last)
            y.add_(1)
            return x * 2
    x = image((3, 4, 6, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ep = t.export.export(Program(), (x if t is torch else ours(x),),
                             dynamic_shapes=({d: t.export.Dim.AUTO for d in range(4)},))
        t.export.save(ep, tmp_path / "m.pt2")
    loaded = cresset.export.load(tmp_path / "m.pt2")
    for run in (loaded.module(), cresset.aot_load(cresset.aot_compile(loaded))):
        given = ours(image((2, 5, 3, 4)))
        assert numpy.array_equal(run(given).numpy(), (image((2, 5, 3, 4)) + 1).numpy() * 2)
        assert numpy.array_equal(given.numpy(), (image((2, 5, 3, 4)) + 1).numpy())
