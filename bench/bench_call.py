"""What a call costs beyond its arithmetic: small ops from Python, ours and PyTorch's in alternating rounds.

Ratios are PyTorch's time over ours, so 1 is "as quick as PyTorch". Both sides run without recording derivatives, which
is PyTorch's quicker way.
"""
import cresset
from measure import compare, row

try:
    import torch
except ImportError:  # the rows below then say that the peer is missing
    torch = None

CASES = {
    "x + y, 4 numbers": lambda m, x, y: lambda: x + y,
    "x * 2, 4 numbers": lambda m, x, y: lambda: x * 2,
    "mul(x, y), 4 numbers": lambda m, x, y: (lambda mul=m.mul: mul(x, y)),
    "x.add_(y), 4 numbers": lambda m, x, y: lambda: x.add_(y),
    "x[0], 4 numbers": lambda m, x, y: lambda: x[0],
    "x.sum(), 4 numbers": lambda m, x, y: lambda: x.sum(),
}
SHORT = {"rounds": 201, "round_seconds": 0.001, "pick": min}


def prepared(module, make):
    return make(module, module.ones(4), module.zeros(4))


def rows():
    if torch is None:
        for name, make in CASES.items():
            yield row(f"call: {name}", compare(prepared(cresset, make), None, **SHORT)[0], None, "torch")
        return
    torch.set_num_threads(1)
    with torch.inference_mode():
        for name, make in CASES.items():
            yield row(f"call: {name}", *compare(prepared(cresset, make), prepared(torch, make), **SHORT), "torch")
