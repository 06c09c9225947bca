"""P6 where there is no PyTorch: programs exported here, compiled to train. test_training.py compares with PyTorch."""
import pathlib

import numpy as np

import cresset
from cresset import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_page(tmp_path, monkeypatch):
    """The Python of docs/training.md runs as it stands."""
    monkeypatch.chdir(tmp_path)
    blocks = (ROOT / "docs" / "training.md").read_text().split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.partition("```")[0], {})
    assert (tmp_path / "net.safetensors").stat().st_size > 1000


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x, y):
        return ((self.net(x) - y) ** 2).mean()


def test_the_tape_agrees(tmp_path):
    """The same steps by the eager tape and cresset.optim, dropout included; then from a file, to the bit."""
    cresset.manual_seed(0)
    loss, x, y = Loss(), cresset.randn(6, 4), cresset.randn(6, 2)
    path = cresset.aot_compile(cresset.export.export(loss, (x, y)), joint="adamw,weight_decay=0.1",
                               options={"output_path": str(tmp_path / "train.so"), "target": "native"})
    library, steps = cresset.aot_load(path), cresset.optim.AdamW(loss.parameters(), lr=0.02, weight_decay=0.1)
    cresset.manual_seed(5)
    library.manual_seed(5)
    for _ in range(5):
        steps.zero_grad()
        want = loss(x, y)
        want.backward()
        steps.step()
        np.testing.assert_allclose(library.step(x, y, lr=0.02).item(), want.item(), rtol=1e-5)
    for name, value in loss.state_dict().items():
        np.testing.assert_allclose(library.state_dict()[name].numpy(), value.numpy(), rtol=1e-3, atol=1e-5)
    library.save(tmp_path / "all")
    other = cresset.aot_load(path)
    other.load(tmp_path / "all")
    for _ in range(3):
        assert library.step(x, y, lr=0.02).item() == other.step(x, y, lr=0.02).item()
