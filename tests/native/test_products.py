"""P3, P4: linear layers, attention and recurrent layers of compiled models run on packed weights, in both dialects, and
give PyTorch's numbers; fused activations have the interpreter's bits."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="without the oracle, tests/unit/test_packed.c and tests/text/passes have "
                            "what can be checked")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import cresset  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import library  # noqa: E402

ISAS = ["avx512", "avx2", "portable"]


def tool(*words, **options):
    return subprocess.run(["cresset", *map(str, words)], capture_output=True, text=True, **options)


def export(model, args, path, core=False, **options):
    program = torch.export.export(model.eval(), args, strict=False, **options)
    torch.export.save(program.run_decompositions() if core else program, path)
    return path


def internal_ops(archive):
    """The cresset:: calls of the finished graph, in order, with their plain arguments."""
    done = tool("compile", archive, "--dump=u")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"= cresset\.(\w+)\(([^\n]*)\)", done.stdout)
    return [(name, re.sub(r"%\w+", "%", text)) for name, text in found if name.endswith("_packed")]


class Block(nn.Module):
    """One layer of a transformer, with a gated and a plain feed-forward part."""

    def __init__(self, width=48, heads=3):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.gate = nn.Linear(width, 100, bias=False), nn.Linear(width, 100, bias=False)
        self.down = nn.Linear(100, width, bias=False)
        self.fc1, self.fc2, self.scale = nn.Linear(width, 70), nn.Linear(70, width), nn.Parameter(torch.randn(width))

    def forward(self, x):
        n = self.norm(x)
        q, k, v = (f(n).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        return x + self.scale * self.fc2(F.gelu(self.fc1(x)))


def check(path, model, args, threads=2, tolerance=2e-5):
    with torch.no_grad():
        want = model(*args)
    got = library.Model(path, threads=threads)(*[a.numpy() for a in args])
    want = want if isinstance(want, tuple) else (want,)
    got = got if isinstance(got, (list, tuple)) else (got,)
    for w, g in zip(want, got, strict=True):
        assert np.abs(np.asarray(g) - w.numpy()).max() <= tolerance * max(1.0, float(w.abs().max()))


def test_both_dialects_give_the_same_packed_calls(tmp_path):
    torch.manual_seed(0)
    model, args = Block(), (torch.randn(2, 9, 48),)
    calls = {core: internal_ops(export(model, args, tmp_path / f"block{core}.pt2", core)) for core in (False, True)}
    assert calls[False] == calls[True]
    names = [name for name, _ in calls[False]]
    assert names == ["linear_packed"] * 9
    texts = [text for _, text in calls[False]]
    assert sum('"silu", %' in t for t in texts) == 1 and sum('"gelu"' in t for t in texts) == 1
    assert sum(t.endswith('"none", none, %') for t in texts) == 3  # a constant factor is in the weights by then


@pytest.mark.parametrize("core", [False, True])
def test_transformer_block(tmp_path, core):
    torch.manual_seed(1)
    model, args = Block(), (torch.randn(2, 9, 48),)
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=64)
    archive = export(model, args, tmp_path / "block.pt2", core, dynamic_shapes=({0: batch, 1: length},))
    path = tmp_path / "block.so"
    done = tool("compile", archive, "-o", path)
    assert done.returncode == 0, done.stderr
    for shape in ((2, 9), (2, 2), (5, 33), (3, 64)):
        check(path, model, (torch.randn(*shape, 48),))


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True},
                                     {"bias": False, "batch_first": True}, {"num_layers": 2, "dropout": 0.5}])
def test_recurrent_layers(tmp_path, make, options):
    torch.manual_seed(2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = make(13, 21, **options)

        def forward(self, x):
            y, state = self.rnn(x)
            return (y, *state) if isinstance(state, tuple) else (y, state)

    model, args = Model(), (torch.randn(5, 4, 13),)
    archive, path = export(model, args, tmp_path / "rnn.pt2"), tmp_path / "rnn.so"
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    assert [name for name, _ in internal_ops(archive)] == [make.__name__.lower() + "_packed"] * layers
    done = tool("compile", archive, "-o", path)
    assert done.returncode == 0, done.stderr
    check(path, model, args)


def test_a_tied_table_is_stored_once(tmp_path):
    torch.manual_seed(3)

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm, self.head = nn.Embedding(1000, 64), nn.LayerNorm(64), nn.Linear(64, 1000, bias=False)
            self.head.weight = self.table.weight

        def forward(self, i):
            return self.head(self.norm(self.table(i)))

    model, args = Tied(), (torch.randint(0, 1000, (2, 7)),)
    archive, path = export(model, args, tmp_path / "tied.pt2"), tmp_path / "tied.so"
    assert [name for name, _ in internal_ops(archive)] == ["embedding_packed", "linear_packed"]
    done = tool("compile", archive, "-o", path, "--weights", "beside")
    assert done.returncode == 0, done.stderr
    beside = sum(f.stat().st_size for f in tmp_path.iterdir() if f.suffix not in (".so", ".pt2"))
    assert 1000 * 64 * 4 <= beside < 1.1 * 1000 * 64 * 4
    check(path, model, args)
    with pytest.raises(library.Failed, match="index 1000 is out of bounds"):
        library.Model(path)(np.full((2, 7), 1000))


ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
               "sigmoid": torch.sigmoid,
               "tanh": torch.tanh, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid}


def fused_bits():
    """Prints the activations whose fused form differs from the separate one in any bit (run once for each instruction
    set)."""
    op, aten, rng = cresset.ops.cresset, cresset.ops.aten, np.random.default_rng(0)
    for rows, n, k in ((1, 16, 8), (7, 33, 19), (64, 100, 70)):
        make = lambda *shape: cresset.from_numpy((3 * rng.standard_normal(shape)).astype(np.float32))  # noqa: E731
        x, w, bias, scale, residual = make(rows, k), make(n, k), make(n), make(n), make(rows, n)
        panels = op.pack_panels(w)
        plain = op.linear_packed(x, panels, n, bias)
        for act in ACTIVATIONS:
            separate = aten.gelu(plain, approximate="tanh") if act == "gelu_tanh" else getattr(aten, act)(plain)
            for s, r in ((None, None), (scale, None), (None, residual), (scale, residual)):
                want = separate if s is None else separate * s
                want = want if r is None else want + r
                if not np.array_equal(op.linear_packed(x, panels, n, bias, act, s, r).numpy(), want.numpy()):
                    print(act, rows, n, k)


@pytest.mark.parametrize("isa", ISAS)
def test_fused_activations_have_the_bits_of_separate_ones(isa):
    done = subprocess.run([sys.executable, "-c", "import test_products; test_products.fused_bits(); print('done')"],
                          capture_output=True, text=True,
                          env={**os.environ, "CRESSET_ISA": isa,
                               "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations_against_pytorch(act):
    x, w = torch.randn(5, 7), torch.randn(20, 7)
    op = cresset.ops.cresset
    got = op.linear_packed(cresset.from_numpy(x.numpy()), op.pack_panels(cresset.from_numpy(w.numpy())), 20, None, act)
    assert np.abs(got.numpy() - ACTIVATIONS[act](F.linear(x, w)).numpy()).max() < 2e-5


def test_refusals():
    op, f = cresset.ops.cresset, lambda *shape, dtype=np.float32: cresset.from_numpy(np.zeros(shape, dtype))
    panels = op.pack_panels(f(20, 6))
    for call, message in ((lambda: op.linear_packed(f(2, 5), panels, 20), "'panels' in dimension 1"),
                          (lambda: op.linear_packed(f(2, 6), panels, 40), "'panels' in dimension 0"),
                          (lambda: op.linear_packed(f(2, 6), panels, 20, f(19)), "'bias' in dimension 0"),
                          (lambda: op.linear_packed(f(2, 6), panels, 20, None, "swish"), "'swish'"),
                          (lambda: op.pack_panels(f(20, 6, dtype=np.float64)), "float32"),
                          (lambda: op.pack_panels(f(20, 6), False, 3), "divide into the groups")):
        with pytest.raises((RuntimeError, ValueError), match=message):
            call()
