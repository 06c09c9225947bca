"""Custom operators in native code: functions of C or Python that a compiled model is given when it is loaded."""
import os
import pathlib
import subprocess
import sys

import cresset
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "native"))
import library  # noqa: E402

EXAMPLE = ROOT / "examples" / "custom_op"
INCLUDE = ROOT / "include"


def command(*words, **options):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **options)


def built(*words):
    done = command(os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", INCLUDE, *words)
    assert done.returncode == 0, done.stderr


class Uses(cresset.nn.Module):
    """The operator between other ops, on strided memory, twice."""

    def forward(self, x):
        y, n = cresset.ops.example.clipped(x.t() * 2, 3.0)
        z, m = cresset.ops.example.clipped(y, 1.0)
        return z.t().contiguous() + 1, n + m


def expected(x):
    y = np.clip(2 * x, -3, 3)
    return np.clip(y, -1, 1) + 1, np.int64((np.abs(2 * x) > 3).sum() + (np.abs(y) > 1).sum())


class Plain(cresset.nn.Module):
    def forward(self, x):
        return cresset.ops.example.clipped(x, 2.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The library of operators, archives that call it, and the archives compiled by the tool."""
    folder = tmp_path_factory.mktemp("custom")
    built("-shared", "-fPIC", "-O2", EXAMPLE / "ops.c", "-o", folder / "libops.so")
    cresset.library.load_library(folder / "libops.so")
    cresset.library.load_library(folder / "libops.so")  # again: nothing happens
    n = cresset.export.Dim("n", min=0, max=100)
    uses = cresset.export.export(Uses(), (cresset.randn(4, 3),), dynamic_shapes={"x": {0: n}})
    cresset.export.save(uses, folder / "uses.pt2")
    cresset.export.save(cresset.export.export(Plain(), (cresset.randn(2, 3),)), folder / "plain.pt2")
    for name in ("uses", "plain"):
        done = command("cresset", "compile", folder / f"{name}.pt2", "-o", folder / f"lib{name}.so", "--op-library",
                       folder / "libops.so", "--verify")
        assert done.returncode == 0, done.stderr
    return folder


def test_sizes_and_strides(folder):
    """One library for every size; results are what the interpreter gives."""
    model, module = cresset.aot_load(folder / "libuses.so",
                                     threads=1), cresset.export.load(folder / "uses.pt2").module()
    for rows in (0, 1, 2, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 3), dtype=np.float32)
        for run in (model, module):
            values, count = run(cresset.from_numpy(x))
            want = expected(x)
            np.testing.assert_array_equal(values.numpy(), want[0])
            assert count.item() == want[1]


def test_the_tool_runs_it(folder):
    np.save(folder / "x.npy", np.array([[-3, -1, 0], [1, 2, 5]], dtype=np.float32))
    words = ["cresset", "run", folder / "libplain.so", "--input", f"x={folder / 'x.npy'}", "-o", folder / "out.npz"]
    done = command(*words, "--op-library", folder / "libops.so")
    assert done.returncode == 0, done.stderr
    out = np.load(folder / "out.npz")
    assert out["out0"].tolist() == [[-2, -1, 0], [1, 2, 2]] and out["out1"] == 2
    info = command("cresset", "info", folder / "libplain.so")
    assert "custom ops  example::clipped(Tensor x, float limit) -> (Tensor, Tensor)" in info.stdout


def test_what_is_missing_is_named(folder):
    done = command("cresset", "run", folder / "libplain.so", "--random")
    assert (done.returncode == 1
            and "the model calls the operator example::clipped, and there is no function for it" in done.stderr
            and "--op-library" in done.stderr)
    done = command("cresset", "compile", folder / "plain.pt2", "-o", folder / "none.so")
    assert done.returncode == 1 and "example::clipped" in done.stderr
    with pytest.raises(library.Failed, match="no function for it: give one in options.ops"):
        library.Model(folder / "libplain.so")  # ctypes alone, with options of 1.1


@pytest.mark.parametrize("path, message",
                         [("nowhere.so", "cannot be loaded"), ("libplain.so", "has no symbol 'cresset_ops'")])
def test_what_is_no_library_of_operators(folder, path, message):
    with pytest.raises(OSError, match=message):
        cresset.library.load_library(folder / path)
    done = command("cresset", "compile", folder / "plain.pt2", "-o", folder / "none.so", "--op-library", folder / path)
    assert done.returncode == 1 and message in done.stderr


def test_the_example_host(folder):
    built(EXAMPLE / "host.c", EXAMPLE / "ops.c", folder / "libplain.so", "-o", folder / "host")
    done = command(folder / "host")
    assert done.returncode == 0, done.stderr
    assert (done.stdout == "calls example::clipped(Tensor x, float limit) -> (Tensor, Tensor)\n-2 -1 0 1 2 2 (2 "
            "clipped)\n")


def test_a_function_that_fails_says_why(folder):
    class Wrong(cresset.nn.Module):
        def forward(self, x):
            return cresset.ops.example.clipped(x, -1.0)
    program = cresset.export.export(Wrong(), (cresset.randn(2),))
    for run in (program.module(), program.compile(options={"wait": True})):
        with pytest.raises(RuntimeError, match="the limit not negative, which is -1"):
            run(cresset.randn(2))


def test_the_whole_as_c(folder):
    """-o model.c needs nothing of ours, and still takes the function from its host."""
    done = command("cresset", "compile", folder / "plain.pt2", "-o", folder / "model.c", "--op-library",
                   folder / "libops.so")
    assert done.returncode == 0, done.stderr
    (folder / "host.c").write_text((EXAMPLE / "host.c").read_text().replace("cresset_model(CRESSET_ABI_MAJOR)",
            "cresset_model_model(CRESSET_ABI_MAJOR)").replace(
        '#include "cresset/abi.h"', '#include "model.h"'))
    done = command("cc", "-O1", "-I", folder, "-I", INCLUDE, folder / "host.c", folder / "model.c", EXAMPLE / "ops.c",
                   "-lm", "-lpthread", "-o", folder / "whole")
    assert done.returncode == 0, done.stderr
    assert command(folder / "whole").stdout.endswith("-2 -1 0 1 2 2 (2 clipped)\n")


# ---- operators written in Python ----

@cresset.library.custom_op("nativetest::halved", mutates_args=())
def halved(x: cresset.Tensor, times: int, loud: bool = False, label: str = "") -> cresset.Tensor:
    if label == "bad":
        raise KeyError(label)
    kept.append(x)
    return x / (2 ** times) if not loud else -x


@halved.register_fake
def _(x, times, loud=False, label=""):
    return cresset.empty_like(x)


@cresset.library.custom_op("nativetest::bump", mutates_args=("x",))
def bump(x: cresset.Tensor, by: float) -> None:
    x.add_(by)


@bump.register_fake
def _(x, by):
    return None


@cresset.library.custom_op("nativetest::joined", mutates_args=())
def joined(xs: list[cresset.Tensor]) -> cresset.Tensor:
    return cresset.cat(xs)


@joined.register_fake
def _(xs):
    return cresset.cat(xs)


kept = []


class InPython(cresset.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", cresset.zeros(3))

    def forward(self, x):
        bump(self.state, 1.5)
        return halved(x + 1, 2) + halved(x, 1, True, "fine") + self.state


def test_functions_of_python():
    """Called back, with tensors of their own, which they may keep; what they write to counts."""
    x = cresset.arange(3.0)
    program = cresset.export.export(InPython(), (x,))
    run = program.compile(options={"wait": True})
    assert run.tier == "native"
    for i in (1, 2):
        assert run(x).tolist() == [0.25 + 1.5 * i, 0.5 - 1 + 1.5 * i, 0.75 - 2 + 1.5 * i]
    assert kept[-2].tolist() == [1, 2, 3]


def test_exceptions_of_python_come_through():
    class Bad(cresset.nn.Module):
        def forward(self, x):
            return halved(x, 1, False, "bad")
    program = cresset.export.export(Bad(), (cresset.ones(2),))
    with pytest.raises(KeyError, match="bad"):
        program.compile(options={"wait": True})(cresset.ones(2))


def test_lists_are_refused_by_name():
    class Lists(cresset.nn.Module):
        def forward(self, x):
            return joined([x, x])
    program = cresset.export.export(Lists(), (cresset.ones(2),))
    with pytest.raises(cresset.UnsupportedError, match=r"nativetest::joined: .*this one has xs.*run_decompositions"):
        cresset.aot_compile(program)


SLOW = """
import threading, time
import cresset
@cresset.library.custom_op("nativetest::slow", mutates_args=())
def slow(x: cresset.Tensor) -> cresset.Tensor:
    return x * 2
building = threading.Event()
@slow.register_fake
def _(x):
    if threading.current_thread().name == "cresset-build":
        building.set()
        time.sleep(0.2)  # without the GIL, while the program is locked
    return cresset.empty_like(x)
class M(cresset.nn.Module):
    def forward(self, x):
        return slow(slow(x) + 1)
ep, x = cresset.export.export(M(), (cresset.ones(2),)), cresset.ones(2)
run = ep.compile()
building.wait()
print(str(ep)[:15], ep.module()(x).tolist(), ep.validate(), len(ep.run_decompositions({}).graph.nodes), ep.state_dict)
run.wait()
print(run.tier, run(x).tolist())
"""


def test_a_build_in_the_background_stops_nobody():
    """It holds the program's lock while it calls a fake rule of Python's; who waits for the lock holds up no Python."""
    done = command(sys.executable, "-c", SLOW, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ExportedProgram [6.0, 6.0] None 5 {}\nnative [6.0, 6.0]\n"


# ---- Hugging Face's ----

def grouped(x, weight, offs):
    out, start = np.zeros((x.shape[0], weight.shape[2]), dtype=x.dtype), 0
    for i, end in enumerate(offs):
        out[start:end], start = x[start:end] @ weight[i], end
    return out


class Experts(cresset.nn.Module):
    def forward(self, x, weight, offs):
        return cresset.ops.transformers.grouped_mm_fallback(x, weight, offs)


@pytest.mark.parametrize("offs, dtype", [([2, 2, 5], "int32"), ([0, 3, 4], "int64"), ([5, 5, 5], "int64"),
                                         ([0, 0, 0], "int32")])
def test_grouped_products(offs, dtype):
    rng = np.random.default_rng(3)
    x, weight, ends = rng.standard_normal((5, 4), dtype=np.float32), rng.standard_normal((3, 4, 6),
            dtype=np.float32), np.array(offs, dtype=dtype)
    args = tuple(map(cresset.from_numpy, (x, weight, ends)))
    program = cresset.export.export(Experts(), args)
    for run in (Experts(), program.module(), program.compile(options={"wait": True})):
        np.testing.assert_allclose(run(*args).numpy(), grouped(x, weight, offs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("offs", [[0, 3, 6], [-1, 2, 5]])
def test_grouped_products_stay_inside(offs):
    args = cresset.ones(5, 4), cresset.ones(3, 4, 2), cresset.tensor(offs)
    with pytest.raises(IndexError, match=r"offs\[\d\] is (6|-1), and there are 5 rows"):
        Experts()(*args)
    with pytest.raises(RuntimeError, match="has 4 dim|must have|equal|entry"):
        Experts()(cresset.ones(5, 3), cresset.ones(3, 4, 2), cresset.tensor([1, 2, 3]))


@pytest.mark.parametrize("ends", [[2, 2, 5], [0, 3, 4]])
def test_grouped_products_have_derivatives(ends):
    """First and second, against products of the groups one by one; sizes that PyTorch's own op does not take."""
    def each(x, weight):
        parts, start = [], 0
        for i, end in enumerate(ends):
            parts.append(x[start:end] @ weight[i])
            start = end
        return cresset.cat([*parts, cresset.zeros(5 - start, 6, dtype=x.dtype)])

    offs, found = cresset.tensor(ends), []
    for f in (lambda x, w: Experts()(x, w, offs), each):
        cresset.manual_seed(2)
        x, w = (cresset.randn(*size, dtype=cresset.float64, requires_grad=True) for size in ((5, 4), (3, 4, 6)))
        first = cresset.autograd.grad((f(x, w) ** 3).sum(), (x, w), create_graph=True)
        found.append([*first, *cresset.autograd.grad(sum((g**2).sum() for g in first), (x, w))])
    for mine, want in zip(*found, strict=True):
        assert want.abs().max() > 0.1 and (mine - want).abs().max() <= 1e-9 * want.abs().max()


@pytest.mark.parametrize("a, b", [((5, 4), (3, 4, 6)), ((3, 2, 4), (4, 5)), ((4, 5), (5, 6)), ((3, 2, 4), (3, 4, 6))])
def test_grouped_mm_of_any_sizes(a, b):
    """Products of the groups one by one; also in native code. PyTorch wants strides of 16 bytes."""
    cresset.manual_seed(4)
    x, y = cresset.randn(*a), cresset.randn(*b)
    ends = [1, 1, 5]
    offs = None if len(a) == len(b) == 3 else cresset.tensor(ends, dtype=cresset.int32)
    cuts = list(zip([0, *ends], ends))
    if len(a) == len(b) == 3:
        want = x @ y
    elif len(a) == 3:
        want = cresset.cat([x[i] @ y[:, s:e] for i, (s, e) in enumerate(cuts)], 1)
    elif len(b) == 3:
        want = cresset.cat([x[s:e] @ y[i] for i, (s, e) in enumerate(cuts)])
    else:
        want = cresset.stack([x[:, s:e] @ y[s:e] for s, e in cuts])

    class Product(cresset.nn.Module):
        def forward(self, x, y):
            return cresset.nn.functional.grouped_mm(x, y, offs=offs)

    program = cresset.export.export(Product(), (x, y))
    for run in (Product(), program.compile(options={"wait": True})):
        got = run(x, y)
        assert got.shape == want.shape and (got - want).abs().max() <= 1e-5
    if offs is not None:
        with pytest.raises(RuntimeError, match=r"offs\[2\] is 9, and there are 5 to divide"):
            cresset.nn.functional.grouped_mm(x, y, offs=cresset.tensor([1, 2, 9], dtype=cresset.int32))


def test_grouped_products_of_transformers_archives(tmp_path):
    """The operator that transformers registers, in an archive that PyTorch wrote."""
    code = f"""
import torch
schema = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"
torch.library.custom_op("transformers::grouped_mm_fallback", lambda input, weight, offs: input @ weight[0], mutates_args=(), schema=schema)
torch.library.register_fake("transformers::grouped_mm_fallback", lambda input, weight, offs: input.new_empty(input.size(0), weight.size(2)))
class M(torch.nn.Module):
    def forward(self, x, w, o):
        return torch.ops.transformers.grouped_mm_fallback(x, w, o)
torch.export.save(torch.export.export(M(), (torch.ones(5, 4), torch.ones(3, 4, 6), torch.tensor([2, 2, 5]))), {str(tmp_path / "m.pt2")!r})
"""
    pytest.importorskip("torch")
    done = command(sys.executable, "-W", "ignore", "-c", code)
    assert done.returncode == 0, done.stderr
    program = cresset.export.load(tmp_path / "m.pt2")
    args = cresset.ones(5, 4), cresset.ones(3, 4, 6), cresset.tensor([2, 2, 5])
    assert not program.unsupported_ops
    for run in (program.module(), program.compile(options={"wait": True})):
        assert run(*args).tolist() == [[4] * 6] * 5
