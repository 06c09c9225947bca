"""S4, X3, P4: a program serves sizes 0 and 1 wherever PyTorch does: exported here or there, from memory and from the
file, interpreted and compiled."""
import warnings

import cresset
import numpy
import pytest

torch = pytest.importorskip("torch", reason="what PyTorch accepts is measured")

LIBRARIES = {"here": cresset, "there": torch}
PROGRAMS = {
    "reshape_of_transposed": (lambda t, x: x.transpose(0, 1).reshape(-1), (3, 4)),
    "reshape_of_expanded": (lambda t, x: x[:, None].expand(-1, 5, -1).reshape(-1, 4) + 1, (3, 4)),
    "matmul": (lambda t, x: t.matmul(x, x.transpose(1, 2)), (3, 4, 5)),
    "einsum": (lambda t, x: t.einsum("bij,bkj->bik", x, x), (3, 4, 5)),
    "first_row_again": (lambda t, x: t.cat([x, x[:1]]), (3, 4)),
    "last_rows": (lambda t, x: x[-2:] * 2, (3, 4)),
    "at_least_two": (lambda t, x: t.ones(t.sym_max(x.shape[0], 2)), (3, 4)),
}
SIZES = (0, 1, 2, 3, 7)


def exported(name, where, dim):
    t, (function, shape) = LIBRARIES[where], PROGRAMS[name]

    class Program(t.nn.Module):
        def forward(self, x):
            return function(t, x)
    dims = t.export.Dim
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return t.export.export(Program(), (t.ones(*shape),),
                               dynamic_shapes=({0: dims("n") if dim == "Dim" else getattr(dims, dim)},))


def wanted(name, x):
    return PROGRAMS[name][0](torch, torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("dim", ["Dim", "AUTO", "DYNAMIC"])
@pytest.mark.parametrize("where", LIBRARIES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_small_sizes(name, where, dim, tmp_path):
    ep = exported(name, where, dim)
    LIBRARIES[where].export.save(ep, tmp_path / "m.pt2")
    loaded = cresset.export.load(tmp_path / "m.pt2")
    # compiling asks, and must leave nothing behind
    runs = [loaded.module(), cresset.aot_load(cresset.aot_compile(loaded)), loaded.module()]
    if where == "here":
        runs += [ep.module(), cresset.aot_load(cresset.aot_compile(ep)), ep.module()]
    theirs = torch.export.load(tmp_path / "m.pt2").module()
    for n in SIZES:
        x = numpy.arange(n * numpy.prod(PROGRAMS[name][1][1:], dtype=int), dtype=numpy.float32).reshape(n,
                *PROGRAMS[name][1][1:])
        want = wanted(name, x)
        assert numpy.array_equal(theirs(torch.from_numpy(x)).numpy(), want)
        for run in runs:
            got = run(cresset.tensor(x)).numpy()
            assert got.shape == want.shape and numpy.array_equal(got, want)


def test_a_bound_above_2_is_checked_as_there(tmp_path):
    class Program(torch.nn.Module):
        def forward(self, x):
            return x * 2
    for low in (1, 2, 3):
        ep = torch.export.export(Program(), (torch.ones(4),),
                                 dynamic_shapes=({0: torch.export.Dim("n", min=low, max=6)},))
        torch.export.save(ep, tmp_path / "m.pt2")
        loaded = cresset.export.load(tmp_path / "m.pt2")
        assert repr(loaded.range_constraints) == f"{{s77: VR[{low}, 6]}}"  # shown as the file has it
        compiled = cresset.aot_load(cresset.aot_compile(loaded))
        for n in range(8):
            accepted = []
            for library_, run in ((torch, torch.export.load(tmp_path / "m.pt2").module()), (cresset, loaded.module()),
                                  (cresset, compiled)):
                try:
                    accepted.append(tuple(run(library_.ones(n)).shape) == (n,))
                except (RuntimeError, AssertionError):
                    accepted.append(False)
            assert accepted == [n <= 6 and (low <= 2 or n >= low)] * 3


def test_a_branch_on_0_or_1_is_not_taken_silently(tmp_path):
    """PyTorch decides it by the example, and then gives the other branch's answer; here such a size is refused, there
    too once it reads the file."""
    class Program(cresset.nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] == 1 else x * 2
    for dim in (cresset.export.Dim("n"), cresset.export.Dim("n", min=1), cresset.export.Dim.AUTO):
        ep = cresset.export.export(Program(), (cresset.ones(3),), dynamic_shapes=({0: dim},))
        cresset.export.save(ep, tmp_path / "m.pt2")
        loaded = cresset.export.load(tmp_path / "m.pt2")
        for run in (ep.module(), loaded.module(), cresset.aot_load(cresset.aot_compile(ep)),
                    cresset.aot_load(cresset.aot_compile(loaded))):
            assert run(cresset.ones(2)).tolist() == [2, 2] and run(cresset.ones(0)).tolist() == []
            with pytest.raises(RuntimeError, match=r"!= 1|Ne\(s77, 1\)"):
                run(cresset.ones(1))
        with pytest.raises(AssertionError, match="Guard failed"):
            torch.export.load(tmp_path / "m.pt2").module()(torch.ones(1))


class MaskedWrite(torch.nn.Module):
    def forward(self, x):
        m = x[:, 0] > 0
        y = x.clone()
        y[m] = x[m] * 2
        return y


@pytest.mark.parametrize("dialect", ["training", "core"])
def test_masked_write_of_any_number_of_rows(dialect, tmp_path):
    ep = torch.export.export(MaskedWrite(), (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(ep if dialect == "training" else ep.run_decompositions(), tmp_path / "m.pt2")
    loaded = cresset.export.load(tmp_path / "m.pt2")
    compiled = cresset.aot_load(cresset.aot_compile(loaded))
    for n in range(5):
        for rows in range(n + 1):
            x = -torch.ones(n, 3)
            x[:rows] = 5
            for run in (loaded.module(), compiled):
                assert numpy.array_equal(run(cresset.tensor(x.numpy())).numpy(), MaskedWrite()(x).numpy())
