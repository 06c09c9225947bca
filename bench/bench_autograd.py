"""The eager tape: what an op costs more with gradients than without, what its derivative costs, and a chain of 100,000
nodes from the first call to the last free; ours and PyTorch's in alternating rounds.

The first two rows have times of their own as goals: 0.15 us more for a call, 1.5 us for its derivative, both of a
product of 4 numbers. The others are PyTorch's time over ours.
"""
import gc
import time

import cresset
from measure import compare, row

try:
    import torch
except ImportError:  # the rows below then say that the peer is missing
    torch = None

FORWARD_GOAL, BACKWARD_GOAL, LENGTH, LONG = 0.15e-6, 1.5e-6, 200, 100_000
SHORT = {"rounds": 201, "round_seconds": 0.001, "pick": min}
CASES = {
    "mul": lambda m, z, y: z * y,
    "add": lambda m, z, y: z + y,
    "exp": lambda m, z, y: z.exp(),
    "select": lambda m, z, y: z[1:].expand(4) if z.shape[0] == 2 else z[:2],
    "mm": lambda m, z, y: (z.view(2, 2) @ y.view(2, 2)).view(4),
}


def one_call(m, case, grad):
    x, y = m.ones(4).requires_grad_(grad), m.ones(4).requires_grad_(grad)
    return lambda: case(m, x, y)


def chain(m, case, walk):
    """LENGTH calls, one after the other, and with `walk` their derivatives."""
    x, y, seed = m.ones(4, requires_grad=True), m.ones(4, requires_grad=True), m.ones(4)

    def run():
        z = x
        for _ in range(LENGTH):
            z = case(m, z, y)
        if walk:
            z.backward(seed[:z.shape[0]])
            x.grad = y.grad = None
    return run


def extra(m, case):
    """Seconds that a call takes longer where an argument requires grad."""
    with_grad, without = compare(one_call(m, case, True), one_call(m, case, False), **SHORT)
    return max(with_grad - without, 1e-9)


def derivative(m, case):
    """Seconds of one derivative in a long walk."""
    both, forward = compare(chain(m, case, True), chain(m, case, False), rounds=41, round_seconds=0.01, pick=min)
    return max(both - forward, 1e-9) / LENGTH


def long_chain(m):
    """Seconds to build, walk and free a chain of LONG nodes."""
    x = m.ones(4, requires_grad=True)
    gc.collect()
    begin = time.perf_counter()
    z = x
    for _ in range(LONG):
        z = z * 1.0
    z.sum().backward()
    del z
    return time.perf_counter() - begin


def rows():
    product = CASES["mul"]
    yield row("tape: mul, 4 numbers, forward, more than plain", extra(cresset, product), FORWARD_GOAL, "0.15 us")
    yield row("tape: mul, 4 numbers, backward", derivative(cresset, product), BACKWARD_GOAL, "1.5 us")
    if torch is not None:
        torch.set_num_threads(1)
    for name, case in CASES.items():
        sides = [cresset, torch] if torch is not None else [cresset]
        forward = [extra(m, case) for m in sides] + [None]
        yield row(f"tape: {name}, 4 numbers, forward, more", forward[0], forward[1], "torch")
        calls = compare(*[one_call(m, case, True) for m in sides], *[None][: 2 - len(sides)], **SHORT)
        yield row(f"tape: {name}, 4 numbers, call with grad", *calls, "torch")
        backward = [derivative(m, case) for m in sides] + [None]
        yield row(f"tape: {name}, 4 numbers, backward", backward[0], backward[1], "torch")
    ours = min(long_chain(cresset) for _ in range(3))
    theirs = min(long_chain(torch) for _ in range(3)) if torch is not None else None
    yield row(f"tape: chain of {LONG} nodes, built, run, freed", ours, theirs, "torch")
