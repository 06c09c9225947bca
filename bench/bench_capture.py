"""E3: what a call of a compiled function costs before its first op, and what capturing costs; PyTorch's compile is the
peer where it is installed (backend "eager", so that both only dispatch)."""
import time

import cresset
import cresset.nn as nn
import measure


def shape_of(x):
    return x.shape[0]


def add_one(x):
    return x + 1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return x.shape[0] if self.training and self.first.weight.shape[0] == self.second.weight.shape[1] else 0


def per_call(run, *args, calls=100_000, repeats=7):
    """Seconds a call, the best of some loops; the loop itself is taken off."""
    best = 1e9
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(calls):
            run(*args)
        best = min(best, time.perf_counter() - begin)
    empty = 1e9
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(calls):
            pass
        empty = min(empty, time.perf_counter() - begin)
    return (best - empty) / calls


def torch_peer(function, make_args, calls=20_000):
    try:
        import torch
    except ImportError:
        return None
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    args = make_args(torch)
    compiled(*args)
    return per_call(compiled, *args, calls=calls, repeats=3)


def capture_time(function, *args, repeats=30):
    compiled = cresset.compile(function, backend="eager", fullgraph=True)
    times = []
    for _ in range(repeats):
        compiled._reset()
        begin = time.perf_counter()
        compiled(*args)
        times.append(time.perf_counter() - begin)
    return min(times)


def rows():
    x = cresset.ones(4)
    ours = per_call(cresset.compile(shape_of, backend="eager", fullgraph=True), x)
    peer = torch_peer(shape_of, lambda torch: (torch.ones(4),))
    yield measure.row("dispatch of one tensor, us", ours * 1e6, peer and peer * 1e6, "torch.compile", goal=50,
                      better="lower")
    yield measure.row("dispatch of one tensor against 0.1 us", ours * 1e6, 0.1, "0.1 us", goal=1, better="lower")
    compiled = cresset.compile(add_one, backend="eager", fullgraph=True)
    yield measure.row("x + 1 compiled, us", per_call(compiled, x) * 1e6, per_call(add_one, x) * 1e6, "plain", goal=1,
                      better="lower")
    block = Block()
    guarded = cresset.compile(block.forward, backend="eager", fullgraph=True)
    ours = per_call(guarded, x)
    yield measure.row(f"dispatch of a module with {len(guarded._entries()[0]['guards'])} guards, us", ours * 1e6, 0.2,
                      "0.2 us", goal=1, better="lower")
