"""One large call for each op of the table, made of the small ones that the tests use (tests/ops/samples*.py).

A small call that PyTorch takes is grown: every size, only the leading one, or only the trailing two, until its largest
tensor has about `ELEMENTS` elements. The largest that PyTorch takes, and within `SECONDS`, is the op's large call. A
call whose tensors broadcast to more than `SPREAD` elements is not tried: its result may need all memory.
"""
import math
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "ops"))
import samples  # noqa: E402

ELEMENTS = 1 << 20
SPREAD = 8 * ELEMENTS
SECONDS = 0.3  # a call that takes PyTorch longer is made smaller
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.uint8)
TRIED = 6  # of an op's small calls, those with the largest tensors


def everywhere(shape, factor):
    return [n * factor if n > 1 else n for n in shape]


def leading(shape, factor):
    return [shape[0] * factor, *shape[1:]] if shape else []


def trailing(shape, factor):
    return [*shape[:-2], *(n * factor for n in shape[-2:])]


GROWN = (everywhere, trailing, leading)


def grown(t, way, factor):
    """A tensor of another size with values like t's: indices stay in their range."""
    shape = way(list(t.shape), factor)
    if t.dtype.is_floating_point or t.dtype.is_complex:
        low, high = (float(t.real.min()), float(t.real.max())) if t.numel() else (-1, 1)
        if not (abs(low) < 100 and abs(high) < 100):
            low, high = -1, 1
        return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(t.dtype)
    if not t.numel():
        return torch.zeros(shape, dtype=t.dtype)
    return torch.randint(int(t.min()), int(t.max()) + 1, shape).to(t.dtype)


def largest(c):
    return max((t.numel() for t in samples.flat(c)), default=0)


def spread(c):
    """Elements of what a call's tensors broadcast to, at most: by dimension from the right, the largest size."""
    sizes = {}
    for t in samples.flat(c):
        for place, n in enumerate(reversed(t.shape)):
            sizes[place] = max(sizes.get(place, 1), n)
    return math.prod(sizes.values())


def factors(c, way):
    """Powers of two, the one that reaches ELEMENTS first."""
    factor = 1
    while max(torch.Size(way(list(t.shape), factor)).numel() for t in samples.flat(c)) < ELEMENTS and factor < ELEMENTS:
        factor *= 2
    while factor > 1:
        yield factor
        factor //= 4


def with_size(c, way, factor):
    change = lambda t: grown(t, way, factor)
    turned = lambda value: samples.map_tensors(value, change)
    return samples.Call(tuple(turned(a) for a in c.args), {k: turned(v) for k, v in c.kwargs.items()})


def seconds(op, c):
    """What PyTorch needs, or None where it refuses."""
    try:
        begin = time.perf_counter()
        op(*c.args, **c.kwargs)
        return time.perf_counter() - begin
    except Exception:  # noqa: BLE001 - any refusal means that another size is tried
        return None


def enlarged(op, c, takes):
    """The largest call grown from c that both sides take, itself included; None where PyTorch refuses c."""
    if seconds(op, c) is None:
        return None
    found = c
    for way in GROWN if samples.flat(c) else ():
        for factor in factors(c, way):
            larger = with_size(c, way, factor)
            if spread(larger) > SPREAD:
                continue
            if largest(larger) <= largest(found):
                break
            took = seconds(op, larger)
            if took is not None and took < SECONDS and takes(larger):
                found = larger
                break
    return found


def large_call(row, op, takes):
    """The op's large call, or None where PyTorch takes none of its samples. takes(call): is it one for us, too? PyTorch
    does not check everything, and sizes that grew apart from each other are nobody's call."""
    best = None
    for dtype in DTYPES:
        whole = [c for c in samples.plain_calls(row, op, dtype) if all(t.numel() for t in samples.flat(c))]
        calls = sorted(whole, key=largest, reverse=True)
        for c in calls[:TRIED]:
            found = enlarged(op, c, takes)
            if found and (best is None or largest(found) > largest(best)):
                best = found
            if best and largest(best) >= ELEMENTS // 4:
                return best
        if best and largest(best) >= ELEMENTS // 64:
            return best
    return best
