"""One large call for each op of the table, made of the small ones that the tests use (tests/ops/samples*.py).

A small call that both sides take is grown: every size, only the trailing two, or only the leading one, in steps, until
its largest tensor has about `ELEMENTS` elements or a side needs too long for the next step. A call whose tensors
broadcast to more than `SPREAD` elements is not tried: its result may need all memory.
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
SECONDS = 0.3  # no side may need longer for the call
OP_SECONDS = 1.5  # for finding an op's call
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
    return torch.randint(int(t.min()), min(int(t.max()) + 1, 2**63 - 1), shape).to(t.dtype)


def largest(c):
    return max((t.numel() for t in samples.flat(c)), default=0)


def spread(c):
    """Elements of what a call's tensors broadcast to, at most: by dimension from the right, the largest size."""
    sizes = {}
    for t in samples.flat(c):
        for place, n in enumerate(reversed(t.shape)):
            sizes[place] = max(sizes.get(place, 1), n)
    return math.prod(sizes.values())


def with_size(c, way, factor):
    change = lambda t: grown(t, way, factor)
    turned = lambda value: samples.map_tensors(value, change)
    return samples.Call(tuple(turned(a) for a in c.args), {k: turned(v) for k, v in c.kwargs.items()})


def seconds(op, c):
    """What a call takes, or None where it is refused."""
    try:
        begin = time.perf_counter()
        op(*c.args, **c.kwargs)
        return time.perf_counter() - begin
    except Exception:  # noqa: BLE001 - any refusal means that another size is tried
        return None


def step(took):
    """How much larger the next size may be: cubic work takes eight times as long at twice the size."""
    return 0 if took > SECONDS / 8 else 2 if took > SECONDS / 512 else 8


def grow(c, way, longest, until):
    """The largest call grown from c in one way; longest(call): seconds of the slower side, None where one refuses."""
    found, factor, last = None, 2, 1
    while time.perf_counter() < until:
        sizes = [torch.Size(way(list(t.shape), factor)).numel() for t in samples.flat(c)]
        if max(sizes) > 2 * ELEMENTS or factor > ELEMENTS:
            if factor <= 2 * last:
                break
            factor = 2 * last  # the steps were too long
            continue
        larger = with_size(c, way, factor)
        took = longest(larger) if spread(larger) <= SPREAD else None
        if took is not None and took < SECONDS:
            found = larger
        more = 2 if took is None else step(took)
        if not more or (largest(larger) <= largest(c) and factor > 2):
            break
        last, factor = factor, factor * more
    return found


def enlarged(c, longest, until):
    """The largest call grown from c, itself included; None where a side refuses c."""
    if longest(c) is None:
        return None
    grown_calls = [grow(c, way, longest, until) for way in GROWN] if samples.flat(c) else []
    return max([c, *(g for g in grown_calls if g)], key=largest)


def large_call(row, op, longest):
    """The op's large call, or None where a side takes none of its samples."""
    best, until = None, time.perf_counter() + OP_SECONDS
    for dtype in DTYPES:
        whole = [c for c in samples.plain_calls(row, op, dtype) if all(t.numel() for t in samples.flat(c))]
        calls = sorted(whole, key=largest, reverse=True)
        for c in calls[:TRIED]:
            found = enlarged(c, longest, until)
            if found and (best is None or largest(found) > largest(best)):
                best = found
            if best and (largest(best) >= ELEMENTS // 4 or time.perf_counter() > until):
                return best
        if best and largest(best) >= ELEMENTS // 64:
            return best
    return best
