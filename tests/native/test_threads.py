"""A compiled model gives the same bits on any number of threads: what a thread takes never changes a sum."""
import pathlib
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
torch = pytest.importorskip("torch", reason="the programs are exported by PyTorch")

import checking  # noqa: E402
import library  # noqa: E402
import programs  # noqa: E402
import programs_native  # noqa: E402
from test_programs import SAMPLE  # noqa: E402
from torch import nn  # noqa: E402

COUNTS = (1, 2, 3, 4, 8, 16)


class Pictures(nn.Module):
    """Every kind of convolution, each large enough to be cut: Winograd on both tile sizes, direct, 1x1, depthwise,
    grouped."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(32, 64, 3, 1, 1),
            nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1, 1), nn.Conv2d(64, 256, 1), nn.ReLU(), nn.Conv2d(256, 256, 3, 2, 1), nn.Hardswish(),
            nn.Conv2d(256, 256, 3, 1, 1), nn.Conv2d(256, 256, 3, 1, 1, groups=256), nn.Conv2d(256, 512, 1, 2),
            nn.ReLU(),
            nn.Conv2d(512, 512, 3, 1, 1), nn.Conv2d(512, 96, 1, groups=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(96, 1000))

    def forward(self, x):
        return self.layers(x)


class Words(nn.Module):
    """Embedding, attention, products of odd widths, norms, softmax, a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 200)
        self.mix = nn.MultiheadAttention(200, 5, batch_first=True)
        self.norm = nn.LayerNorm(200)
        self.up, self.down = nn.Linear(200, 710), nn.Linear(710, 200)
        self.rnn = nn.LSTM(200, 120, batch_first=True)

    def forward(self, words):
        x = self.table(words)
        x = self.norm(x + self.mix(x, x, x, need_weights=False)[0])
        x = x + self.down(nn.functional.gelu(self.up(x)))
        return torch.softmax(x @ self.table.weight.T, -1).sum(1), self.rnn(x)[0].cumsum(1)


def compiled(path, folder):
    target = folder / "lib.so"
    subprocess.run(["cresset", "compile", str(path), "-o", str(target)], check=True, stdout=subprocess.DEVNULL)
    return target


def results(path, leaves, threads):
    model = library.Model(path, threads=threads)
    model.seed(checking.SEED)
    return [np.asarray(x).tobytes() if isinstance(x, np.ndarray) else x for x in model(*leaves)]


def made(model, args, folder):
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval(), args), folder / "m.pt2")
    return compiled(folder / "m.pt2", folder), [a.numpy() for a in args]


@pytest.mark.parametrize("model, args", [(Pictures, lambda: (torch.randn(1, 3, 112, 112),)),
                                         (Words, lambda: (torch.randint(0, 100, (2, 97)),))],
                         ids=["pictures", "words"])
def test_same_bits(model, args, tmp_path):
    torch.manual_seed(0)
    path, leaves = made(model(), args(), tmp_path)
    want = results(path, leaves, 1)
    assert all(results(path, leaves, n) == want for n in COUNTS for _ in range(3))


@pytest.mark.parametrize("name, dialect", SAMPLE[:8], ids=[".".join(pair) for pair in SAMPLE[:8]])
def test_program_has_the_same_bits(name, dialect, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive = checking.make(programs.TABLE[name], dialect, tmp_path)
    path = compiled(archive.path, tmp_path)
    found = []
    for n in COUNTS:
        found.append(results(path, [programs_native.array(x) for x in checking.flat(checking.copy(archive.calls[0]))],
                             n))
    assert found.count(found[0]) == len(COUNTS)


def test_instances_at_the_same_time(tmp_path):
    """Runs side by side have threads of their own, or the caller's alone, and the same answers."""
    torch.manual_seed(0)
    path, leaves = made(Words(), (torch.randint(0, 100, (2, 97)),), tmp_path)
    want, wrong = results(path, leaves, 1), []

    def work(n):
        for _ in range(5):
            if results(path, leaves, n) != want:
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 2, 4, 4, 3, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
