"""Timing for the benchmarks: ours and the peer interleaved in one process, in many short rounds.

A machine's speed drifts (clock, neighbours), so two numbers are comparable only when their rounds alternate. `compare`
runs A B A B ... and takes the median of each side's rounds, or with `pick=min` the best one, which is what short calls
cost when nobody else has the processor; a row is then a ratio, never a bare time.

    yield row("add, 8 numbers", *compare(lambda: ours.add(a, b), lambda: theirs.add(x, y)), "torch", goal=1.0)
"""
import statistics
import time


def calls_per_round(function, round_seconds):
    """How many calls fill a round; also warms up."""
    calls = 1
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        took = time.perf_counter() - begin
        if took >= round_seconds or calls >= 1 << 24:
            return max(1, int(calls * round_seconds / max(took, 1e-9)))
        calls *= 2 if took > round_seconds / 16 else 8


def time_round(function, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls


def compare(ours, peer, rounds=15, round_seconds=0.02, pick=statistics.median):
    """Seconds a call of `ours` and of `peer` (a callable, or None when the peer is missing: gives None)."""
    sides = [side for side in (ours, peer) if side is not None]
    calls = [calls_per_round(side, round_seconds) for side in sides]
    times = [[] for _ in sides]
    for number in range(rounds):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for i in order:
            times[i].append(time_round(sides[i], calls[i]))
    picked = [pick(side) for side in times]
    return picked[0], (picked[1] if peer is not None else None)


def row(name, ours, peer, peer_name, goal=1.0, better="lower"):
    """One result. `ratio` says how many times better ours is than the peer: peer/ours where lower is better (seconds,
    bytes), ours/peer where higher is (a rate, a share of a peak). Met when ratio >= goal; a missing number is not
    met."""
    ratio = None
    if ours is not None and peer is not None and ours > 0 and peer > 0:
        ratio = peer / ours if better == "lower" else ours / peer
    return {"name": name, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ratio, "goal": goal,
            "met": ratio is not None and ratio >= goal}
