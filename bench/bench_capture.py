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


class Tree(nn.Module):
    """200 modules, of which each is asked for a flag and a weight."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(200)])

    def forward(self, x):
        n = 0
        for layer in self.layers:
            n += layer.weight.shape[0] if layer.training else 0
        return n


def chain(x, n):
    for _ in range(n):
        x = x + 1
    return x


def unrelated(n):
    total = 0
    for i in range(n):
        total += len(str(i))
    return total


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


def seconds_per_node(n, repeats=3):
    """Of capturing a chain of so many ops."""
    best = 1e9
    for _ in range(repeats):
        compiled = cresset.compile(chain, backend="eager", fullgraph=True)
        begin = time.process_time()
        compiled(cresset.ones(1), n)
        best = min(best, time.process_time() - begin)
    return best / n


def first_call():
    """Seconds to the first result of a small MLP, and until its code is native."""
    firsts, natives = [], []
    for i in range(3):
        width = 100 + int(time.time()) % 1000 + i  # code that no cache has
        model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)).eval()
        x = cresset.ones(8, 64)
        with cresset.no_grad():
            begin = time.perf_counter()
            compiled = cresset.compile(model)
            compiled(x)
            firsts.append(time.perf_counter() - begin)
            compiled._compiled._wait()
            natives.append(time.perf_counter() - begin)
    return min(firsts), min(natives)


def rows():
    x = cresset.ones(4)
    before = per_call(unrelated, 1000, calls=100)
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
    tree = cresset.compile(Tree().forward, backend="eager", fullgraph=True)
    for _ in range(4):
        tree(x)
    words, left, plain, split = tree._entries()[0]["stamps"]
    bar = 2 if plain and split else 6  # where versions of dicts can be trusted, and elsewhere
    yield measure.row(f"guards of 200 modules ({words} words), us", per_call(tree, x, calls=5000) * 1e6, bar,
                      f"{bar} us", goal=1, better="lower")
    yield measure.row("capture of 20,000 nodes, us a node", seconds_per_node(20_000) * 1e6,
                      seconds_per_node(2_000) * 1e6, "of 2,000", goal=0.8, better="lower")
    first, native = first_call()
    yield measure.row("first compiled call of a small MLP, ms", first * 1e3, 10, "10 ms", goal=1, better="lower")
    yield measure.row("... until its code is native, s", native, 0.5, "0.5 s", goal=1, better="lower")
    yield measure.row("code that is not compiled, ms", per_call(unrelated, 1000, calls=100) * 1e3, before * 1e3,
                      "before compile()", goal=0.97, better="lower")
    for what, function, args in (("while on data", until, (cresset.zeros(1), 10_000)),
                                 ("for over a list", over_items, (cresset.zeros(1), [None] * 10_000))):
        ours, breaks = per_break(function, *args)
        yield measure.row(f"a break of {breaks} in a loop ({what}), us", ours * 1e6, 3, "3 us", goal=1, better="lower")
    for name in ("resnet50", "bert"):
        ours, peer = capture_time(name), torch_capture_time(name)
        yield measure.row(f"capture of {name} (small), ms", ours * 1e3, peer and peer * 1e3, "torch.compile", goal=100,
                          better="lower")
