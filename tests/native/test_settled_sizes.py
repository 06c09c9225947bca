"""P1, S6: a size that depends on data and that the program needs to be one number. The symbol stays in the graph, with
that number for its range, so that the archive loads, here and in PyTorch; interpreted and compiled, another number is
an error, never a result of the wrong size."""
import pytest

import cresset as ct


class Read(ct.nn.Module):
    def forward(self, x, y):
        n = x.sum().to(ct.int64).item()
        ct._check(n == y.shape[0])
        return ct.ones(n) + y


class Counted(ct.nn.Module):
    def forward(self, x, y):
        return x[x > 0] + y


FITS, OTHERS = [1.0, 2.0], ([1.0, 3.0], [1.0, -1.0], [0.0, 0.0], [4.0, 4.0])


@pytest.mark.parametrize("model, size, misfits", [(Read, 3, OTHERS), (Counted, 2, OTHERS[1:3])],
                         ids=["item", "mask"])
def test_settled_sizes_load_and_are_checked(tmp_path, model, size, misfits):
    path, y = str(tmp_path / "model.pt2"), ct.arange(float(size))
    program = ct.export.export(model(), (ct.tensor(FITS), y))
    assert [(bounds.lower, bounds.upper) for bounds in program.range_constraints.values()] == [(size, size)]
    ct.export.save(program, path)
    runs = [ct.export.load(path).module(), ct.aot_load(ct.aot_compile(path)), ct.aot_load(ct.aot_compile(program))]
    for run in runs:
        assert run(ct.tensor(FITS), y).tolist() == model()(ct.tensor(FITS), y).tolist()
        for other in misfits:
            with pytest.raises(RuntimeError, match=f"u0 [<>]= {size}|size that depends on data"):
                run(ct.tensor(other), y)


@pytest.mark.parametrize("model, size", [(Read, 3), (Counted, 2)], ids=["item", "mask"])
def test_pytorch_loads_settled_sizes(tmp_path, model, size):
    torch = pytest.importorskip("torch", reason="PyTorch reads the archive")
    path, y = str(tmp_path / "model.pt2"), ct.arange(float(size))
    ct.export.save(ct.export.export(model(), (ct.tensor(FITS), y)), path)
    loaded = torch.export.load(path)
    assert [(bounds.lower, bounds.upper) for bounds in loaded.range_constraints.values()] == [(size, size)]
    assert loaded.module()(torch.tensor(FITS), torch.arange(float(size))).tolist() == \
        model()(ct.tensor(FITS), y).tolist()
