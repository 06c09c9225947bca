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


def rows():
    import harness
    import sweep
    import torch
    warnings.simplefilter("ignore")
    wanted = [word for word in os.environ.get("CRESSET_BENCH_OPS", "").split(",") if word]
    with torch.inference_mode():
        for name in sweep.op_names():
            if wanted and not any(word in name for word in wanted):
                continue
            theirs = sweep.torch_op(name)
            mine_op = sweep.our_op(name)
            as_ours = lambda c: large_calls.samples.Call(harness.ours(tuple(c.args)),
                                                         {k: harness.ours(v) for k, v in c.kwargs.items()})
            takes = lambda c: large_calls.seconds(mine_op, as_ours(c)) is not None
            c = large_calls.large_call(sweep.cresset._C._row(name), theirs, takes)
            if c is None or large_calls.seconds(theirs, c) is None or not takes(c):
                continue
            mine, peer = compare(once(mine_op, as_ours(c)), once(theirs, c), **ROUNDS)
            if peer >= SHORTEST or mine >= 4 * SHORTEST:
                shapes = ", ".join("x".join(map(str, t.shape)) for t in large_calls.samples.flat(c)[:2])
                yield row(f"{name.removeprefix('aten::')} {shapes}", mine, peer, "torch", GOAL)
