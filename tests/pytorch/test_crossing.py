"""Torch's tensors between calls of a compiled function: every change is seen, whatever leaves no trace; and how tensors
are read, each way against the others."""
import copy
import os
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the backend is for PyTorch's programs")
sys.path.insert(0, os.path.dirname(__file__))
from torch_checks import CHANGES, apply  # noqa: E402
import cresset  # noqa: E402
from cresset import _C  # noqa: E402
from cresset._torch import crossing, layout  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(3)
    yield
    crossing.set_reader("layout")


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_calls_is_seen(name, grad):
    model = torch.nn.Linear(4, 3)
    run = torch.compile(model, backend="cresset", options={"native": "off"})
    x = torch.randn(2, 4)
    with torch.set_grad_enabled(grad):
        run(x), run(x)
        apply(name, model)
        x = x.to(model.weight.dtype)
        ours, theirs = run(x), model(x)
        assert torch.allclose(ours, theirs, atol=1e-6) and ours.dtype == theirs.dtype
        assert ours.requires_grad == theirs.requires_grad
        if theirs.requires_grad:
            grads = [torch.autograd.grad(y.sum(), [p for p in model.parameters() if p.requires_grad])
                     for y in (ours, theirs)]
            assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*grads))


@pytest.mark.parametrize("native", ["off", "wait"])
def test_fused_adamw_then_forward(native):
    """The optimizer writes without a trace: no copy of a weight may be older than the call."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.Linear(7, 3))
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="cresset", options={"native": native})
    steps = [torch.optim.AdamW(m.parameters(), lr=0.1, fused=True) for m in (model, other)]
    for _ in range(4):
        x = torch.randn(6, 5)
        for call, step in ((run, steps[0]), (other, steps[1])):
            call(x).square().mean().backward()
            step.step()
            step.zero_grad()
        with torch.no_grad():
            assert torch.allclose(run(x), other(x), atol=1e-5)


# ---- telling programs ----

def compiled(function):
    return torch.compile(function, backend="cresset", options={"native": "off"})


def test_results_are_torchs_own_memory():
    x = torch.randn(3)
    y = compiled(lambda x: x + 1)(x)
    y.resize_(100)
    assert y.shape == (100,) and y.untyped_storage().resizable()
    identity, view = compiled(lambda x: (x, x[1:]))(x)
    assert identity is x and view._base is x


def test_lazy_minus_and_conjugation():
    z = torch.randn(4, dtype=torch.complex64)
    run = compiled(lambda a: a * 2)
    for a in (z, z.conj(), z.conj().imag, z.imag, torch._neg_view(z.real)):
        assert torch.allclose(run(a), a * 2)


def test_odd_addresses_and_inference_tensors():
    memory = bytearray(33)
    odd = torch.frombuffer(memory, dtype=torch.float32, count=8, offset=1)
    odd.copy_(torch.arange(8.0))
    run = compiled(lambda a: a * 3)
    assert torch.equal(run(odd), odd * 3)
    with torch.inference_mode():
        t = torch.arange(4.0)
        assert torch.equal(run(t), t * 3)
    assert torch.equal(run(torch.arange(4.0)), torch.arange(4.0) * 3)


def test_modes():
    x = torch.randn(3, 4)

    def function(a):
        return a @ a.t() + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = compiled(function)(x), function(x)
    assert ours.dtype == theirs.dtype and torch.allclose(ours.float(), theirs.float(), rtol=0.05, atol=0.05)
    torch._dynamo.reset()
    with torch.device("cpu"):
        assert torch.allclose(compiled(function)(x), function(x), atol=1e-6)
    batch = torch.randn(5, 3, 4)
    assert torch.allclose(torch.vmap(compiled(function))(batch), torch.vmap(function)(batch), atol=1e-5)
    w = torch.randn(4, 4, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = compiled(lambda a, w: (a @ w).sin())(x, w)
    assert torch.allclose(torch.autograd.grad(y.sum(), w)[0], torch.autograd.grad((x @ w).sin().sum(), w)[0], atol=1e-5)


def test_gradients_by_every_door():
    model = torch.nn.Linear(4, 3)
    run, x = compiled(lambda x: model(x).sin()), torch.randn(2, 4)
    one = torch.autograd.grad(run(x).sum(), model.weight)[0]
    assert torch.allclose(one, torch.autograd.grad(model(x).sin().sum(), model.weight)[0], atol=1e-6)
    seen = []
    hook = model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    run(x).sum().backward()
    assert len(seen) == 1 and torch.allclose(seen[0], one, atol=1e-6)
    hook.remove()
    y = run(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert torch.allclose(model.weight.grad, 3 * one, atol=1e-5)
    with pytest.raises(RuntimeError):
        g, = torch.autograd.grad(run(x).sum(), model.weight, create_graph=True)
        g.sum().backward()
    y = run(x)
    with torch.no_grad():
        model.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y2 = compiled(lambda w: (w * w).sin())(model.weight)
        with torch.no_grad():
            model.weight.add_(1)
        y2.sum().backward()


def test_tied_weights():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).relu())
    model, x = Tied(), torch.randn(3, 4)
    grads = []
    for call in (compiled(model), model):
        model.zero_grad()
        call(x).sum().backward()
        grads.append(model.a.weight.grad.clone())
    assert torch.allclose(*grads, atol=1e-5)


def test_threads_and_live_results_at_exit():
    """Calls from several threads; and a process that ends with results, graphs and builds alive ends well."""
    text = """
import threading, torch
f = torch.compile(lambda x: (x @ x).relu().sum(0), backend="cresset")
x = torch.eye(64)
keep = [f(x)]
def work():
    for _ in range(50): keep.append(f(x))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert all(torch.equal(k, keep[0]) for k in keep)
print("good")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.strip() == "good", done.stderr[-500:]


def test_cresset_does_not_import_torch():
    text = "import sys, cresset; cresset.ones(2) + 1; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


# ---- readers ----

def test_the_layout_is_found_here():
    assert crossing.set_reader("layout") == "layout"


def test_the_layout_agrees_with_torch():
    crossing.set_reader("layout")
    seen = 0
    for t in layout._samples(400):
        seen += 1
        assert layout._agrees(t), (t.shape, t.stride(), t.dtype)
    assert seen > 1000


@pytest.mark.parametrize("reader", ["table", "public"])
def test_other_readers(reader):
    assert crossing.set_reader(reader) == reader
    for t in (torch.randn(3, 4).t(), torch.zeros(2, 0), torch.tensor(1), torch.randn(2, 3, requires_grad=True)):
        address, dtype, sizes, strides, found = _C._torch_read(t)
        assert (address == t.data_ptr() or not t.numel()) and sizes == tuple(t.shape) and not found
        assert strides == t.stride() or reader == "public"
    lazy = torch._neg_view(torch.ones(3))
    run = compiled(lambda a, b: a @ b.t() + 1)
    assert torch.equal(run(lazy[None], torch.ones(2, 3)), lazy[None] @ torch.ones(2, 3).t() + 1)
    w = torch.randn(3, 3, requires_grad=True)
    torch.nn.functional.dropout(compiled(lambda w: (w @ w).sin())(w), 0.5).sum().backward()
    assert w.grad is not None and w.grad.isfinite().all()


def test_the_reader_is_chosen_by_the_environment():
    text = "import torch; from cresset._torch import crossing; print(crossing.prepare())"
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "CRESSET_TORCH_READER": "table"},
                          capture_output=True, text=True)
    assert done.stdout.strip() == "table"
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "CRESSET_TORCH_READER": "fast"},
                          capture_output=True, text=True)
    assert done.returncode and "layout, table, public" in done.stderr


@pytest.mark.parametrize("bad, words", [
    (lambda: torch.zeros(2, device="meta"), "meta"), (lambda: torch.eye(3).to_sparse(), "."),
    (lambda: torch.zeros(2).as_subclass(type("Sub", (torch.Tensor,), {})), "subclass"), (lambda: 3, "torch.Tensor"),
])
def test_what_cannot_be_read_says_so(bad, words):
    with pytest.raises(Exception, match=words):
        _C._torch_read(bad())


NOT_OURS = {
    "export": lambda t: cresset.export.export(Scale(), (t,)),
    "record": lambda t: cresset.record(lambda x: x * 2, (t,)),
    "vmap": lambda t: cresset.func.vmap(lambda x: x * 2)(t),
    "grad": lambda t: cresset.func.grad(lambda x: x * x)(t),
    "cond": lambda t: cresset.cond(cresset.tensor(True), lambda x: x + 1, lambda x: x - 1, (t,)),
}


class Scale(cresset.nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("door", NOT_OURS)
@pytest.mark.parametrize("value", [5, 2.5, [1, 2]])
def test_recordings_refuse_torch_tensors_also_where_compile_has_met_them(door, value):
    """An integer of no dimension has __index__, too: taken for a number and read as a tensor, it ended the process."""
    cresset.compile(lambda x: x + 1)(torch.ones(2))
    with pytest.raises(Exception, match=r"[Tt]ensor") as refusal:
        NOT_OURS[door](torch.tensor(value))
    assert type(refusal.value) is not SystemError


WITHOUT = """
import torch, torch.func, cresset, torch.autograd.forward_ad as fw
import torch.utils._device, torch.utils._python_dispatch     # torch's own code has them by then
class Doubles(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        made = f(*args, **(kwargs or {}))
        return made * 2 if f is torch.sin else made
from cresset._torch import crossing
names = [("_C", "_dynamo", "guards", "_empty_strided_cpu"), ("_C", "_len_torch_function_stack"),
         ("_C", "_FunctionBase"), ("_C", "_functorch", "get_dynamic_layer_stack_depth")]
assert crossing.prepare() == "public" and all(crossing.private(*path) is None for path in names)
f = lambda x, w: torch.sin(x) @ w
run = cresset.compile(f, backend="eager")
x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
same = lambda a, b: torch.allclose(a, b, atol=1e-4) and a.dtype == b.dtype
assert same(run(x, w), f(x, w)) and run._entries()[0]["reason"] is None
run(x, w).sum().backward()
assert same(x.grad, torch.autograd.grad(f(x, w).sum(), x)[0])
with Doubles():
    assert same(run(x, w), f(x, w)) and not same(f(x, w), torch.zeros(3, 3))
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert run(x, w).dtype == f(x, w).dtype == torch.bfloat16
torch.use_deterministic_algorithms(True)
assert same(run(x, w), f(x, w))
torch.use_deterministic_algorithms(False)
with fw.dual_level():
    dual = fw.make_dual(w, torch.ones_like(w))
    assert same(fw.unpack_dual(run(w, dual)).tangent, fw.unpack_dual(f(w, dual)).tangent)
assert same(torch.func.vmap(run, (0, None))(w[None], w), torch.func.vmap(f, (0, None))(w[None], w))
print("fine")
"""


def test_without_private_names():
    done = subprocess.run([sys.executable, "-c", WITHOUT], env={**os.environ, "CRESSET_TORCH_PRIVATE": "0"},
                          capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]
    done = subprocess.run([sys.executable, "-c", "from cresset._torch import crossing; crossing.allows_private()"],
                          env={**os.environ, "CRESSET_TORCH_PRIVATE": "no"}, capture_output=True, text=True)
    assert done.returncode and "0 or 1" in done.stderr


def test_hooks_of_what_was_compiled_run():
    """E2: those of the wrapper, forward and backward, and (twice, with a warning) those of all modules."""
    module, x, calls = torch.nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True), []
    compiled = cresset.compile(module, backend="eager")
    after = compiled.register_forward_hook(lambda m, args, result: calls.append("after") or result + 1)
    back = compiled.register_full_backward_hook(lambda m, given, wanted: calls.append("backward"))
    result = compiled(x)
    assert torch.allclose(result, module(x) + 1)
    result.sum().backward()
    assert calls == ["after", "backward"]
    after.remove(), back.remove()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda m, args, result: calls.append(type(m)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            compiled(x)
    finally:
        handle.remove()
    assert calls[2:] == [torch.nn.Linear, type(compiled)]
