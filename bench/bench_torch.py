"""PyTorch programs: cresset.compile on unmodified modules, and torch.compile(backend="cresset").

cresset.compile: capturing against Dynamo (thirty times); the first result and native code against torch.compile's first
result (twenty and ten times sooner), both without what their caches on disk keep, as the first time on a machine; the
steady state, with live weights and with frozen ones (options={"freeze": True}), against the best of eager code and
torch.compile; and a call, all but the graph, against bars: 1.5 us for one tensor, 5 us for a module of 200 parameters,
5 and 80 where gradients are recorded. Without gradients the programs measured have no graph (they return their
argument). With gradients they need one, and the rows are

    graph  = the same program without gradients - a program without a graph that reads the same tensors
    row    = the whole call - graph, against the bar; "with its graph": the whole call, against the bar + graph

Results are dropped before the next call, so torch makes a node for each parameter at every call; "the last result
alive": as in a loop of `loss = f(x)`, where the nodes of the call before are still there.

torch.compile(backend="cresset"): our share. The peer of a row is its bar: 10 ms to record a graph (reading it and
making it callable; native code is built beside), 2 us for a call of one tensor, 0.06 us for each further one, all of
it: reading, binding, running and allocating the result in torch's memory.

Small models of models.py, forward and backward graphs of a training step and the graph of inference. Times are of the
processor: what others do on the machine is not in them.
"""
import contextlib
import os
import tempfile
import time

import cresset
import models
from measure import row

try:
    import torch
    import torch._inductor.utils
except ImportError:  # the rows below then say that the peer is missing
    torch = None

MODELS = "mlp8 resnet18 bert gpt2 llama".split()
CAPTURED = "mlp8 resnet18 vit gpt2 llama lstm".split()
COMPILED = "mlp8 pointwise resnet18 resnet50 mobilenet convnext vit bert gpt2 llama lstm".split()
RECORDING, CALL, TENSOR = 10e-3, 2e-6, 0.06e-6


def recorded(name):
    """Seconds for each graph of the model: the best of three."""
    from cresset._torch import backend
    model, args = models.make(name, True)
    graphs = []
    options = backend.read_options({"native": "off"})

    def spy(graph, kind):
        times = []
        for _ in range(3):
            begin = time.thread_time()
            call = backend.compile_graph(graph, kind, options)
            times.append(time.thread_time() - begin)
        graphs.append((kind, min(times)))
        return call
    original = backend.compile_graph
    try:
        backend_call = backend.cresset
        torch._dynamo.reset()
        backend.compile_graph = lambda graph, kind, given: _unpatched(original, spy, backend, graph, kind)
        run = torch.compile(model, backend=backend_call)
        with torch.no_grad():
            run(*args)
        result = run(*args)
        leaves = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        if any(t.requires_grad for t in leaves):
            sum(t.float().sum() for t in leaves if t.requires_grad).backward()
    finally:
        backend.compile_graph = original
    return graphs


def _unpatched(original, spy, backend, graph, kind):
    patched, backend.compile_graph = backend.compile_graph, original
    try:
        return spy(graph, kind)
    finally:
        backend.compile_graph = patched


def called(n):
    """Seconds for a call with n tensors of two numbers, natively."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from cresset._torch import backend
    tensors = [torch.randn(2) for _ in range(n)]
    graph = make_fx(lambda *a: (torch.cat(a) + 1,), tracing_mode="fake")(*tensors)
    call = backend.compile_graph(graph, "inference", backend.read_options({"native": "wait"}))
    return best_of(lambda: call(tensors[:]), 100, 200)


# ---- cresset.compile ----

def best_of(call, rounds=20, calls=100):
    """Seconds of the processor for one call."""
    best = 1.0
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time() - begin) / calls)
    return best


def captured(name):
    """Seconds to capture a model: ours, Dynamo's. Reading bytecode, guards and the graph; nothing is compiled."""
    model, args = models.make(name, True)
    model.eval()
    with torch.no_grad():
        run = cresset.compile(model, backend="eager")
        run(*args)  # what is imported and told once is not part of it
        ours, firsts = [], []
        for _ in range(3):  # in turns, and the best: the machine may have other things to do
            run._compiled._reset()
            run(*args)
            ours.append(sum(e["capture_seconds"] for e in run._compiled._entries()))
            torch._dynamo.reset()
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
            theirs = torch.compile(model, backend="eager")
            begin = time.perf_counter()
            theirs(*args)
            first = time.perf_counter() - begin
            begin = time.perf_counter()
            theirs(*args)
            firsts.append(first - (time.perf_counter() - begin))
        return min(ours), min(firsts)


class Parameters(torch.nn.Module if torch else object):
    """All are read, none is computed with: what is left is the call."""

    def __init__(self, n):
        super().__init__()
        self.parameters_read = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2)) for _ in range(n)])

    def forward(self, x):
        n = 0
        for p in self.parameters_read:
            n += p.shape[0]
        return x


class Summed(Parameters):
    def forward(self, x):
        return torch.stack([x, *self.parameters_read]).sum()


def ready(program, given):
    """A call of the program, natively."""
    run = cresset.compile(program)
    run(given)
    call = getattr(run, "_compiled", run)
    call._wait()
    return lambda: call(given)


def trained(call):
    """Seconds for a call whose result is dropped, and for one that the result of the call before outlives."""
    last = [None]

    def alive():
        last[0] = call()
    return best_of(call, 50), best_of(alive, 50)


def dispatched():
    """(name, seconds, bar, its name)"""
    x, leaf = torch.ones(2), torch.ones(2, requires_grad=True)
    programs = (("one tensor", 1.5e-6, 5e-6, lambda x: x, lambda x: x * x, x, leaf),
                ("200 parameters", 5e-6, 80e-6, Parameters(200), Summed(200), x, x))
    for what, bar, training_bar, read, program, given, differentiable in programs:
        with torch.no_grad():
            nothing, whole = best_of(ready(read, given), 50), best_of(ready(program, given), 50)
        graph = whole - nothing
        yield f"torch: call, {what}, no grad", nothing, bar, "the bar"
        name = f"torch: call, {what}, training forward"
        dropped, alive = trained(ready(program, differentiable))
        yield name, dropped - graph, training_bar, "the bar"
        yield f"{name}, the last result alive", alive - graph, training_bar, "the bar"
        yield f"{name}, with its graph", dropped, training_bar + graph, "the bar and the graph"


@contextlib.contextmanager
def fresh_caches():
    kept = os.environ.get("CRESSET_CACHE")
    with tempfile.TemporaryDirectory() as folder, torch._inductor.utils.fresh_cache():
        os.environ["CRESSET_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["CRESSET_CACHE"]
            if kept is not None:
                os.environ["CRESSET_CACHE"] = kept


def compiled_both(name):
    """Seconds to the first result, to native code, and for a call later: ((ours, torch.compile's), (ours,
    torch.compile's), (ours, the best of PyTorch), (with frozen weights, the best of PyTorch))."""
    model, args = models.make(name, True)
    model.eval()
    with torch.no_grad(), fresh_caches():
        model(*args)
        firsts, calls, native = [], [lambda: model(*args)], None
        torch._dynamo.reset()
        for make in (cresset.compile, torch.compile):
            begin = time.perf_counter()
            run = make(model)
            run(*args)
            firsts.append(time.perf_counter() - begin)
            calls.append(lambda run=run: run(*args))
            if make is cresset.compile:
                run._compiled._wait()
                native = time.perf_counter() - begin
        frozen = cresset.compile(model, options={"freeze": True})
        frozen(*args)
        frozen._compiled._wait()
        calls.append(lambda: frozen(*args))
        times = [[best_of(call, 5, 5) for call in calls] for _ in range(3)]  # in turns
        plain, ours, theirs, with_frozen = map(min, zip(*times))
    best = min(plain, theirs)
    return firsts, (native, firsts[1]), (ours, best), (with_frozen, best)


def captures():
    for name in CAPTURED:
        try:
            yield row(f"torch: capturing {name}", *captured(name), "Dynamo", 30.0)
        except ModuleNotFoundError as error:
            yield row(f"torch: capturing {name}", None, None, f"{error.name} is missing", 30.0)
    for name, seconds, bar, against in dispatched():
        yield row(name, seconds, bar, against, 1.0)
    for name in COMPILED:
        try:
            firsts, native, live, frozen = compiled_both(name)
        except ModuleNotFoundError as error:
            yield row(f"torch: first result of {name}", None, None, f"{error.name} is missing", 20.0)
            continue
        yield row(f"torch: first result of {name}", *firsts, "torch.compile", 20.0)
        yield row(f"torch: native code of {name}", *native, "torch.compile", 10.0)
        yield row(f"torch: live weights, {name}", *live, "the best of torch", 1.0)
        yield row(f"torch: frozen weights, {name}", *frozen, "the best of torch", 1.0)


def rows():
    if torch is None:
        yield row("torch: a call, one tensor", None, CALL, "torch is missing", 1.0)
        return
    yield from captures()
    for name in MODELS:
        try:
            graphs = recorded(name)
        except ModuleNotFoundError as error:
            yield row(f"torch: recording {name}", None, RECORDING, f"{error.name} is missing", 1.0)
            continue
        for kind, seconds in graphs:
            yield row(f"torch: recording {name}, {kind}", seconds, RECORDING, "the bar", 1.0)
    one, many = called(1), called(101)
    yield row("torch: a call, one tensor", one, CALL + TENSOR, "the bar", 1.0)
    yield row("torch: each further tensor", (many - one) / 100, TENSOR, "the bar", 1.0)
