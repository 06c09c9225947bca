"""P4, A11: convolution networks, compiled: packed weights, channels-last between convolutions, on every instruction
set; what a caller sees (numbers and strides) is what PyTorch gives."""
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]
torch = pytest.importorskip("torch", reason="without the oracle, tests/unit/test_conv_packed.c and tests/text/passes "
                            "have what can be checked")

import library  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

ISAS = ["portable", "avx2", "avx512"]


def make(model, args, path, dialect="training", **options):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(model.eval(), args, **options)
        if dialect == "decomposed":
            program = program.run_decompositions()
        torch.export.save(program, path / "m.pt2")
        want = model(*args)
    done = subprocess.run(["cresset", "compile", path / "m.pt2", "-o", path / "m.so", "--dump=l"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, want if isinstance(want, (tuple, list)) else (want,)


def check(path, args, want, threads=1, tolerance=1e-5):
    got = library.Model(path / "m.so", threads=threads)(*(a.numpy() for a in args))
    for g, w in zip(got, want):
        w = w.detach()
        assert g.shape == tuple(w.shape)
        assert tuple(s // g.itemsize for s, n in zip(g.strides, g.shape) if n > 1) == tuple(s
                for s, n in zip(w.stride(), w.shape) if n > 1)
        scale = w.abs().max().item() or 1
        assert np.abs(g - w.numpy()).max() <= tolerance * scale
    return got


class Kinds(nn.Module):
    """One of each: stem, depthwise with odd channels, grouped, dilated, patches, squeeze and excite, residuals, pools,
    concatenation, a channel norm."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(24)
        self.depthwise = nn.Conv2d(24, 24, 5, 1, 2, groups=24)
        self.grouped = nn.Conv2d(24, 36, 3, 1, 1, groups=3)
        self.dilated = nn.Conv2d(36, 24, 3, 1, 2, dilation=2)
        self.squeeze, self.excite = nn.Conv2d(24, 7, 1), nn.Conv2d(7, 24, 1)
        self.last = nn.Conv2d(48, 40, 2, 2)
        self.channels = nn.LayerNorm(40)
        self.scale = nn.Parameter(torch.rand(40))
        self.narrow = nn.Conv2d(40, 40, 1)
        self.head = nn.Linear(40, 5)
        self.norm.running_mean.uniform_(-0.2, 0.2)
        self.norm.running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        x = F.max_pool2d(F.hardswish(self.norm(self.stem(x))), 3, 2, 1)
        y = F.silu(self.depthwise(x)) + x
        y = F.relu6(self.grouped(y))
        y = F.relu(self.dilated(y) + x)
        y = y * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = F.gelu(self.last(torch.cat([y, F.avg_pool2d(x, 3, 1, 1)], 1)))
        z = self.narrow(self.channels(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)).mul(self.scale.reshape(1, -1, 1,
                1)) + y
        return self.head(z.mean((2, 3))), z, y.flatten(2)


@pytest.mark.parametrize("dialect", ["training", "decomposed"])
def test_kinds(dialect, tmp_path, monkeypatch):
    torch.manual_seed(3)
    args = (torch.randn(2, 3, 45, 37),)
    text, want = make(Kinds(), args, tmp_path, dialect)
    main = text[text.index("graph("):]
    assert "aten.convolution" not in main and main.count("conv_packed(") == 8
    for isa in ISAS:
        monkeypatch.setenv("CRESSET_ISA", isa)
        (tmp_path / isa).mkdir()
        (tmp_path / isa / "m.so").write_bytes((tmp_path / "m.so").read_bytes())
        one = check(tmp_path / isa, args, want)
        many = check(tmp_path / isa, args, want, threads=3)
        assert all(np.array_equal(a, b) for a, b in zip(one, many))


def test_any_batch_and_layout(tmp_path):
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv2d(3, 20, 3, 2, 1), nn.ReLU(), nn.Conv2d(20, 8, 1), nn.Sigmoid())
    example = torch.randn(2, 3, 9, 11)
    make(model, (example,), tmp_path,
         dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64), 2: torch.export.Dim("height", min=3, max=99)},))
    for n, h in ((1, 9), (5, 30), (2, 9)):
        x = torch.randn(n, 3, h, 11)
        with torch.no_grad():
            want = model(x)
        check(tmp_path, (x,), (want,))
        check(tmp_path, (x.to(memory_format=torch.channels_last),), (want,))


def test_channels_last_program_keeps_its_strides(tmp_path):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 20, 3, 2, 1), nn.ReLU(),
                          nn.Conv2d(20, 8, 3)).to(memory_format=torch.channels_last)
    args = (torch.randn(2, 3, 19, 11).to(memory_format=torch.channels_last),)
    text, want = make(model, args, tmp_path)
    assert want[0].stride()[1] == 1 and "aten.clone" not in text[text.index("graph("):]
    check(tmp_path, args, want)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenet", "convnext"])
def test_models(bench_model, name, tmp_path, monkeypatch):
    model, args = bench_model(name)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    text, want = make(model, args, tmp_path)
    main = text[text.index("graph("):]
    assert not [op for op in ("convolution", "_native_batch_norm", "relu", "hardswish", "clone", "add",
                              "max_pool2d_with_indices") if f"= aten.{op}" in main]
    for isa in ISAS:
        monkeypatch.setenv("CRESSET_ISA", isa)
        (tmp_path / isa).mkdir()
        (tmp_path / isa / "m.so").write_bytes((tmp_path / "m.so").read_bytes())
        check(tmp_path / isa, args, want, threads=2, tolerance=1e-4)
