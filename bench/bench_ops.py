"""Every op of the table at one large size (large_calls.py), eager here against eager PyTorch, both on all threads:
nothing may be slower than twice PyTorch's time. Ops whose call takes PyTorch under 50 us are bound by the call, which
bench_call measures. CRESSET_BENCH_OPS=WORD,... chooses ops by substring."""
import os
import warnings

import large_calls
from measure import compare, row

GOAL = 0.5
SHORTEST = 50e-6
ROUNDS = {"rounds": 5, "round_seconds": 0.004, "pick": min}


def once(function, c):
    return lambda: function(*c.args, **c.kwargs)


def as_ours(c):
    import harness
    return large_calls.samples.Call(harness.ours(tuple(c.args)), {k: harness.ours(v) for k, v in c.kwargs.items()})


def longest(mine, theirs, c):
    """Seconds of the slower side, None where one refuses. Ours is asked first: sizes that grew apart from each other
    are nobody's call, and PyTorch does not check everything (lu_unpack then writes beyond its memory)."""
    ours = large_calls.seconds(mine, as_ours(c))
    took = None if ours is None else large_calls.seconds(theirs, c)
    return None if took is None else max(took, ours)


def rows():
    import sweep
    import torch
    warnings.simplefilter("ignore")
    wanted = [word for word in os.environ.get("CRESSET_BENCH_OPS", "").split(",") if word]
    with torch.inference_mode():
        for name in sweep.op_names():
            if wanted and not any(word in name for word in wanted):
                continue
            theirs, mine = sweep.torch_op(name), sweep.our_op(name)
            c = large_calls.large_call(sweep.cresset._C._row(name), theirs, lambda c: longest(mine, theirs, c))
            if c is None:
                continue
            ours, peer = compare(once(mine, as_ours(c)), once(theirs, c), **ROUNDS)
            if peer >= SHORTEST or ours >= 4 * SHORTEST:
                shapes = ", ".join("x".join(map(str, t.shape)) for t in large_calls.samples.flat(c)[:2])
                yield row(f"{name.removeprefix('aten::')} {shapes}", ours, peer, "torch", GOAL)
