"""The sweeps over the op table that have to do with derivatives and with many examples, each a file of tests/full, and
all of them in one command: `./dev test --full grad`.

    formulas  first derivatives = PyTorch's and finite differences in float64; second ones = differences of the first
    grads     the same by parts: one parameter, one result's gradient alone; float64, complex128
    tape      first derivatives by the eager tape, in every real and complex dtype (tape.py says how near is equal)
    jvp       derivatives forwards
    vmap      every op for two examples at once
"""
import collections
import json

import formulas
import grads
import jvp
import results
import runner
import tape
import vmaps

KINDS = ("derivative", "second derivative", "decomposition")
# name: (sweep, outcomes that pass, outcomes whose ops are listed)
SWEEPS = {
    "formulas": (formulas.sweep_formulas, [f"{kind} {outcome}" for kind in KINDS for outcome in formulas.PASSING],
                 [f"{kind} {outcome}" for kind in KINDS[:2] for outcome in formulas.NOTES]),
    "grads": (grads.sweep_grads, formulas.PASSING, formulas.NOTES),
    "tape": (tape.sweep_tape, (*formulas.PASSING, "as in float64", "tie"), (*formulas.NOTES, "tie")),
    "jvp": (jvp.sweep_jvp, jvp.PASSING, jvp.PASSING[1:]),
    "vmap": (vmaps.sweep_vmap, vmaps.PASSING, vmaps.NOTES),
}


def main(name, argv):
    sweep, passing, notes = SWEEPS[name]
    return runner.main(name, sweep, argv, passing, notes)


def covered(name, done):
    """How many ops have a case that passed, by what the table of all of them counts."""
    passing = SWEEPS[name][1]
    with_case = lambda kinds: sum(any(record["counts"].get(kind) for kind in kinds) for record in done.values())
    if name == "formulas":
        return {kind: with_case([p for p in passing if p.startswith(f"{kind} ")]) for kind in KINDS}
    if name == "vmap":
        return {"for many examples": with_case(passing), "of these in part by a loop": with_case(["by loop"]),
                "sizes depend on values": with_case(["data"]), "not supported, by name": with_case(["not supported"])}
    return {name: with_case(passing)}


def all_of_them(argv):
    """Every sweep, then what they covered. What an earlier run of one has shown, and nothing changed since, stands."""
    passed, failed, coverage = 0, 0, collections.OrderedDict()
    for name in SWEEPS:
        print(f"-- {name}", flush=True)
        main(name, argv)
        found = json.loads(results.path_of(name).read_text())
        passed, failed = passed + found["passed"], failed + found["failed"]
        coverage.update({f"{name}: {kind}": n for kind, n in covered(name, found["by_op"]).items()})
    for what, n in coverage.items():
        print(f"{n:6} ops  {what}")
    return results.end("grad", passed, failed, coverage=coverage)
