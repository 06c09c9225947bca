"""C source holds files of the runtime that have names of their own in common with headers of others: a model that uses
a factorisation, a pool, movement and a loss at once compiles."""
import shutil
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="the program is PyTorch's")


class Model(torch.nn.Module):
    def forward(self, x, i):
        y = torch.linalg.inv(x) + torch.linalg.cholesky(x @ x.mT + torch.eye(8)) + torch.flip(x, [0])
        z = torch.nn.functional.max_pool1d(y, 2) + torch.gather(y, 1, i)[..., :4]
        return z, torch.nn.functional.cross_entropy(y, i[:, 0])


def test_source_of_many_kernels_compiles(tmp_path):
    if not shutil.which("cc"):
        pytest.skip("NOT TESTED: no C compiler")
    args = (torch.randn(2, 8, 8), torch.zeros(2, 8, 8, dtype=torch.int64))
    torch.export.save(torch.export.export(Model(), args), tmp_path / "m.pt2")
    done = subprocess.run(["cresset", "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.c"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["cc", "-fsyntax-only", tmp_path / "m.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
