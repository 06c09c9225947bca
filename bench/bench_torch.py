"""PyTorch programs: cresset.compile on unmodified modules, and torch.compile(backend="cresset").

cresset.compile: capturing against Dynamo (thirty times), the first result and the steady state against torch.compile,
with live weights and with frozen ones (options={"freeze": True}); and a call, all but the graph, against bars: 1.5 us
for one tensor, 5 us for a module of 200 parameters, 5 and 80 where gradients are recorded.

torch.compile(backend="cresset"): our share. The peer of a row is its bar: 10 ms to record a graph (reading it and
making it callable; native code is built beside), 2 us for a call of one tensor, 0.06 us for each further one, all of
it: reading, binding, running and allocating the result in torch's memory.

Small models of models.py, forward and backward graphs of a training step and the graph of inference. Times are of the
processor: what others do on the machine is not in them.
"""
import time

import cresset
import models
from measure import row

try:
    import torch
except ImportError:  # the rows below then say that the peer is missing
    torch = None

MODELS = "mlp8 resnet18 bert gpt2 llama".split()
CAPTURED = "mlp8 resnet18 vit gpt2 llama lstm".split()
COMPILED = "mlp8 pointwise resnet18".split()
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
    best = 1.0
    for _ in range(30):
        begin = time.thread_time()
        for _ in range(200):
            call(tensors[:])
        best = min(best, (time.thread_time() - begin) / 200)
    return best


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


def dispatched():
    """(name, seconds, bar)"""
    x = torch.ones(2)
    for grad, one, many in ((False, 1.5e-6, 5e-6), (True, 5e-6, 80e-6)):
        with torch.set_grad_enabled(grad):
            single = cresset.compile(lambda x: x * x) if grad else cresset.compile(lambda x: x)
            given = torch.ones(2, requires_grad=grad)
            single(given)
            single._wait()
            kind = "training forward" if grad else "no grad"
            yield f"torch: call, one tensor, {kind}", best_of(lambda: single(given)), one
            run = cresset.compile((Summed if grad else Parameters)(200))
            run(x)
            run._compiled._wait()
            call = run._compiled
            yield f"torch: call, 200 parameters, {kind}", best_of(lambda: call(x)), many


def compiled_both(name):
    """Seconds to the first result, and for a call later: ((ours, torch.compile's), (ours, the best of PyTorch), (with
    frozen weights, the best of PyTorch))."""
    model, args = models.make(name, True)
    model.eval()
    with torch.no_grad():
        model(*args)
        firsts, calls = [], [lambda: model(*args)]
        torch._dynamo.reset()
        for make in (cresset.compile, torch.compile):
            begin = time.perf_counter()
            run = make(model)
            run(*args)
            firsts.append(time.perf_counter() - begin)
            calls.append(lambda run=run: run(*args))
            if make is cresset.compile:
                run._compiled._wait()
        frozen = cresset.compile(model, options={"freeze": True})
        frozen(*args)
        frozen._compiled._wait()
        calls.append(lambda: frozen(*args))
        times = [[best_of(call, 5, 5) for call in calls] for _ in range(3)]  # in turns
        plain, ours, theirs, with_frozen = map(min, zip(*times))
    best = min(plain, theirs)
    return firsts, (ours, best), (with_frozen, best)


def captures():
    for name in CAPTURED:
        try:
            yield row(f"torch: capturing {name}", *captured(name), "Dynamo", 30.0)
        except ModuleNotFoundError as error:
            yield row(f"torch: capturing {name}", None, None, f"{error.name} is missing", 30.0)
    for name, seconds, bar in dispatched():
        yield row(name, seconds, bar, "the bar", 1.0)
    for name in COMPILED:
        try:
            firsts, live, frozen = compiled_both(name)
        except ModuleNotFoundError as error:
            yield row(f"torch: first result of {name}", None, None, f"{error.name} is missing", 20.0)
            continue
        yield row(f"torch: first result of {name}", *firsts, "torch.compile", 20.0)
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
