"""The op table's samples as programs of one call: each is exported, interpreted, and compiled with the others of its op
to one library, whose methods must give what the interpreter gives: results and what the call wrote. Arguments select
ops by substring.

    ./dev test --full native_ops
"""
import collections
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "ops"), str(ROOT / "tests" / "full")]
import graph  # noqa: E402
import harness  # noqa: E402
import runner  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402

import cresset  # noqa: E402

torch = samples.torch
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool]
LIMIT = 6  # calls of an op, dtype and form, beside those in which a tensor has no dimensions or no elements


class OneCall(cresset.nn.Module):
    def __init__(self, op, structure):
        super().__init__()
        self.op, self.structure = op, structure

    def forward(self, *tensors):
        args, kwargs = graph.join(self.structure, tensors)
        result = self.op(*args, **kwargs)
        return list(result) if isinstance(result, (list, tuple)) else result


def is_special(c):
    """The calls in which interpreter and native code are most likely to go apart."""
    return any(not t.dim() or not t.numel() for t in harness.tensors([*c.args, *c.kwargs.values()]))


def chosen(row, op, dtype, form, limit):
    calls = list(samples.calls_for(row, op, dtype))
    special, others = [c for c in calls if is_special(c)], [c for c in calls if not is_special(c)]
    return [c for some, key in ((special, "special"), (others, "")) for c in sweep.chosen(some, limit,
            f"{form}{dtype}{key}")]


def exported(form, c):
    """(what it is, the program), or how the export ended."""
    structure, inputs = graph.arguments(c)
    where = f"{form}({harness.describe(c)})"
    with harness.seeded():
        wanted = harness.attempt(OneCall(sweep.our_op(form), structure), inputs, {})
    if isinstance(wanted, harness.Refused):
        return "refused"
    try:
        return where, cresset.export.export(OneCall(sweep.our_op(form), structure), tuple(graph.arguments(c)[1])), c
    except Exception as error:  # noqa: BLE001 - what can be exported is another sweep's question
        return "data" if isinstance(error, cresset.GuardOnDataDependentSymNode) else "not exported"


def compiled(programs, folder, counts, failures):
    """(programs, library) pairs: one for all; where a program has no native form, the others without it. To be told so
    is no disagreement."""
    path = os.path.join(folder, f"{len(os.listdir(folder))}.so")
    try:
        cresset.aot_compile({f"m{i}": program for i, (_, program, _) in enumerate(programs)},
                            options={"output_path": path})
        return [(programs, path)]
    except Exception as error:  # noqa: BLE001 - reported
        if len(programs) == 1 and isinstance(error, (cresset.UnsupportedError, cresset.GuardOnDataDependentSymNode)):
            counts["not native"] += 1
            return []
        if len(programs) == 1:
            failures.append(f"{programs[0][0]}: does not compile: {type(error).__name__}: {error}")
            return []
    half = len(programs) // 2
    return compiled(programs[:half], folder, counts, failures) + compiled(programs[half:], folder, counts, failures)


def check(where, program, c, method, values):
    """Raises harness.Different."""
    inputs = [graph.arguments(c)[1] for _ in range(2)]
    ends = []
    for run, given in zip((program.module(), method), inputs):
        with harness.seeded():
            ends.append(harness.attempt(run, given, {}))
    want, got = ends
    if isinstance(want, harness.Refused) or isinstance(got, harness.Refused):
        if type(want) is type(got):
            return "refused"
        raise harness.Different(f"{where}: interpreted {getattr(want, 'error', 'it runs')}, native "
                                f"{getattr(got, 'error', 'it runs')}")
    harness.compare(as_theirs(want), got, where, values=values, strides=False)
    harness.compare(as_theirs(inputs[0]), inputs[1], f"{where} inputs", strides=False)
    return "equal"


def as_theirs(value):
    return [as_theirs(v) for v in value] if isinstance(value, (list, tuple)) else harness.theirs(value)


def run(name, dtypes=DTYPES, limit=LIMIT):
    counts, failures, programs = collections.Counter(), [], []
    row, op = cresset._C._row(name), sweep.torch_op(name)
    for dtype in dtypes:
        for form in filter(None, (name, row["inplace"])):
            for c in chosen(row, op, dtype, form, limit):
                program = exported(form, c)
                if isinstance(program, str):
                    counts[program] += 1
                else:
                    programs.append(program)
    with tempfile.TemporaryDirectory() as folder:
        for some, path in compiled(programs, folder, counts, failures) if programs else ():
            model = cresset.aot_load(path, threads=1)
            for i, (where, program, c) in enumerate(some):
                try:
                    counts[check(where, program, c, getattr(model, f"m{i}"), "empty" not in name)] += 1
                except harness.Different as error:
                    failures.append(str(error))
    return counts, failures


if __name__ == "__main__":
    sys.exit(runner.main("native_ops", run, sys.argv[1:], passing=("equal", "refused", "data", "not exported"),
                         notes=("not native",)))
