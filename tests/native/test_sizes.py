"""P4: what is compiled serves every size of the exported range; the example's sizes decide nothing that they need
not."""
import pathlib
import random
import subprocess
import sys
import warnings

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
torch = pytest.importorskip("torch", reason="these archives are written by PyTorch")

import library  # noqa: E402
import programs  # noqa: E402
import small_sizes  # noqa: E402
from torch.export import Dim  # noqa: E402

# A part of `./dev test --full sizes`: names that once differed, and a seeded sample.
NAMES = ["multihead_masked", "pixel_shuffle", "dynamic_batch_and_length", "index_put", "adaptive_avg_pool2d"]
NAMES += random.Random(7).sample([p.name for p in programs.programs() if p.name not in NAMES], 4)


def check_sizes(p, way, dialect, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ep = small_sizes.export(torch, p, way)
        ep = ep if dialect == "training" or ep is None else ep.run_decompositions()
        if ep is None:
            assert small_sizes.exported_here(p, way, dialect, folder) is None
            return
        torch.export.save(ep, folder / "there.pt2")
        made = small_sizes.cases(p, ep, torch.export.load(folder / "there.pt2"))
        for runs in (small_sizes.from_file("there", folder / "there.pt2", folder, *small_sizes.example(p)),
                     small_sizes.exported_here(p, way, dialect, folder)):
            problems, agreed = small_sizes.differences(p, made, runs)
            assert not problems and agreed


@pytest.mark.parametrize("name", NAMES)
def test_small_sizes(name, tmp_path):
    p, number = programs.TABLE[name], NAMES.index(name)
    check_sizes(p, small_sizes.WAYS[number % 2 if p.dynamic else 0], p.dialects[number // 2 % len(p.dialects)],
                tmp_path)


def test_heads_whose_numbers_are_free(tmp_path):
    """Keys and values have numbers of heads that must be equal, each a size of its own: a fused kernel sees only one of
    them."""
    check_sizes(programs.TABLE["sdpa_grouped"], "AUTO", "core", tmp_path)


def compiled(module, args, dynamic, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module.eval(), args, dynamic_shapes=dynamic), folder / "m.pt2")
    done = subprocess.run(["cresset", "compile", folder / "m.pt2", "-o", folder / "m.so"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return library.Model(folder / "m.so")


def test_attention_exported_with_2_takes_1(tmp_path):
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(x, x, x)[0]
    model = compiled(Layer(), (torch.randn(2, 5, 8),), ({0: Dim("batch", min=1, max=64)},), tmp_path)
    for batch in (1, 2, 64):
        x = torch.randn(batch, 5, 8)
        torch.testing.assert_close(torch.from_numpy(model(x.numpy())[0]), attention(x, x, x)[0].detach())
    with pytest.raises(library.Failed, match="dimension 0 must be between 0 and 64, not 65"):
        model(torch.randn(65, 5, 8).numpy())
    for name in ("m.pt2", "m.so"):  # both say what is taken
        shown = subprocess.run(["cresset", "info", tmp_path / name], capture_output=True, text=True).stdout
        assert " 0 to 64\n" in shown


def test_a_size_that_only_one_value_suits_is_named(tmp_path):
    """The archive leaves it open; what it is written to has four rows."""
    class Write(torch.nn.Module):
        def forward(self, x, w):
            return x.select_scatter(w, 1, 2)
    x, w = torch.zeros(4, 5), torch.arange(4.0)
    model = compiled(Write(), (x, w), (None, {0: Dim.AUTO}), tmp_path)
    assert (model(x.numpy(), w.numpy())[0][:, 2] == w.numpy()).all()
    with pytest.raises(library.Failed, match="dimension 0 must be 4, not 3"):
        model(x.numpy(), w[:3].numpy())


def test_a_written_reshape_stays_a_view(tmp_path):
    """Whether it is one depends on the size: then the size is checked, because a copy would not see what is written."""
    class Write(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            flat = y.permute(1, 0, 2).reshape(-1, 4)
            flat.add_(1)
            return y, flat
    model = compiled(Write(), (torch.randn(3, 2, 4),), ({0: Dim("n", min=1)},), tmp_path)
    for n in (2, 3, 7):
        x = torch.randn(n, 2, 4)
        for got, want in zip(model(x.numpy()), Write()(x)):
            assert torch.equal(torch.from_numpy(got), want)
    with pytest.raises(library.Failed, match="dimension 0 must be at least 2, not 1"):
        model(torch.randn(1, 2, 4).numpy())
    shown = subprocess.run(["cresset", "info", tmp_path / "m.so"], capture_output=True, text=True).stdout
    assert "at least 2" in shown  # the library's range, not the archive's


def test_slices_need_what_they_read(tmp_path):
    class Slice(torch.nn.Module):
        def forward(self, x):
            return x[:3] + 1, x[-2:] * 2
    model = compiled(Slice(), (torch.randn(5, 4),), ({0: Dim("n", min=3)},), tmp_path)
    for n in (3, 4, 9):
        x = torch.randn(n, 4)
        for got, want in zip(model(x.numpy()), Slice()(x)):
            assert torch.equal(torch.from_numpy(got), want)


@pytest.mark.parametrize("write", [lambda x, y: torch.select_scatter(x, y[:, 0], 1, 1),
                                   lambda x, y: torch.slice_scatter(x, y[:, :1], 1, 1, 2)], ids=["select", "slice"])
def test_what_is_written_into_an_expanded_tensor(write, tmp_path):
    """The result has memory for each of its elements, at sizes that are symbols, too."""
    class Write(torch.nn.Module):
        def forward(self, x, y):
            return write(x.sum().expand(y.shape), y)

    n, k = Dim("n", min=1, max=64), Dim("k", min=2, max=64)
    model = compiled(Write(), (torch.randn(3), torch.randn(3, 4)), ({}, {0: n, 1: k}), tmp_path)
    for shape in ((3, 4), (1, 2), (5, 3)):
        x, y = torch.randn(3), torch.randn(*shape)
        torch.testing.assert_close(torch.from_numpy(model(x.numpy(), y.numpy())[0]), Write()(x, y))


def test_nothing_is_settled_for_batches_of_none(tmp_path):
    """What a formula asks about sizes that cannot vary (classes, rows and columns of matrices) settles no batch."""
    class Program(torch.nn.Module):
        def forward(self, x, m):
            soft = torch.nn.functional.cross_entropy(x, x.softmax(1), label_smoothing=0.1)
            return soft, torch.linalg.pinv(m), torch.linalg.matrix_rank(m)

    def arguments(n):
        return torch.randn(n, 4), torch.randn(n, 3, 3)
    model = compiled(Program(), arguments(4), ({0: Dim.AUTO}, {0: Dim.AUTO}), tmp_path)
    for n in (0, 1, 2, 5):
        args = arguments(n)
        for want, got in zip(Program()(*args), model(*(a.numpy() for a in args)), strict=True):
            assert torch.allclose(want, torch.from_numpy(got), rtol=1e-3, atol=1e-4, equal_nan=True)
