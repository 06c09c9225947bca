"""Settings of ahead-of-time autograd. Each is read when something is compiled."""
from __future__ import annotations

debug_assert = False            # aot_export_joint_simple checks its own promise
functionalize_rng_ops = False   # not offered: a backward has the forward's numbers without it


def refuse_functional_rng(what: str) -> None:
    if functionalize_rng_ops:
        raise RuntimeError(f"{what} does not support functionalized RNG ops: a backward has the forward's numbers "
                           "without it, saved or drawn again from the generator's state; leave "
                           "config.functionalize_rng_ops False")
