"""torch.compile(backend="cresset"): our share. The peer of a row is its bar: 10 ms to record a graph (reading it and
making it callable; native code is built beside), 2 us for a call of one tensor, 0.06 us for each further one, all of
it: reading, binding, running and allocating the result in torch's memory.

Small models of models.py, forward and backward graphs of a training step and the graph of inference. Times are of the
processor: what others do on the machine is not in them.
"""
import time

import models
from measure import row

try:
    import torch
except ImportError:  # the rows below then say that the peer is missing
    torch = None

MODELS = "mlp8 resnet18 bert gpt2 llama".split()
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


def rows():
    if torch is None:
        yield row("torch: a call, one tensor", None, CALL, "torch is missing", 1.0)
        return
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
