"""E3: what a call of a compiled function costs before its first op, and what capturing costs; PyTorch's compile is the
peer where it is installed (backend "eager", so that both only dispatch). Processor time, best of some loops: these are
costs of one thread, and the clock on the wall says more about the neighbours."""
import time

import cresset
import cresset.nn as nn
import measure
import twins


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


def until(a, n):
    while a.sum() < n:
        a = a + 1
    return a


def over_items(a, items):
    for _ in items:
        b = a * 2
        id(b)
    return b


def per_break(function, *args):
    """Seconds a break of a loop that breaks 10,000 times, with everything that it computes in between."""
    compiled = cresset.compile(function, backend="eager")
    compiled(*args)
    before = compiled._counts()["breaks"]
    compiled(*args)
    breaks = compiled._counts()["breaks"] - before
    return per_call(compiled, *args, calls=1, repeats=9) / breaks, breaks


def per_call(run, *args, calls=100_000, repeats=7):
    """Seconds a call, the best of some loops; the loop itself is taken off."""
    best = 1e9
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(calls):
            run(*args)
        best = min(best, time.process_time() - begin)
    empty = 1e9
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(calls):
            pass
        empty = min(empty, time.process_time() - begin)
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


def capture_time(name, repeats=7):
    """Seconds to capture a module: the first call, less what the graph takes."""
    module, args = twins.make(cresset, name, small=True)
    compiled = cresset.compile(module.eval(), backend="eager", fullgraph=True)._compiled
    best = 1e9
    with cresset.no_grad():
        for _ in range(repeats):
            compiled._reset()
            begin = time.process_time()
            compiled(*args)
            middle = time.process_time()
            compiled(*args)
            best = min(best, middle - begin - (time.process_time() - middle))
    return best


def torch_capture_time(name):
    try:
        import torch
    except ImportError:
        return None
    module, args = twins.make(torch, name, small=True)
    compiled = torch.compile(module.eval(), backend="eager", fullgraph=True)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))  # its own first time
    with torch.no_grad():
        begin = time.process_time()
        compiled(*args)
        return time.process_time() - begin


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
    for what, function, args in (("while on data", until, (cresset.zeros(1), 10_000)),
                                 ("for over a list", over_items, (cresset.zeros(1), [None] * 10_000))):
        ours, breaks = per_break(function, *args)
        yield measure.row(f"a break of {breaks} in a loop ({what}), us", ours * 1e6, 3, "3 us", goal=1, better="lower")
    for name in ("resnet50", "bert"):
        ours, peer = capture_time(name), torch_capture_time(name)
        yield measure.row(f"capture of {name} (small), ms", ours * 1e3, peer and peer * 1e3, "torch.compile", goal=100,
                          better="lower")
