"""The op table's samples through the graph: each call is recorded on fakes (every other one with symbolic sizes),
verified, printed, parsed, taken through JSON and run on the real inputs, where it must give what the eager call gives,
bit for bit. Arguments select ops by substring.

    ./dev test --full graph
"""
import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops"))
import harness  # noqa: E402
import runner  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402

import cresset  # noqa: E402
from cresset._json import from_json, to_json  # noqa: E402

DTYPES = [samples.torch.float32, samples.torch.int64, samples.torch.complex64]
LIMIT = 6  # calls of an op, dtype and form


def split(value, found):
    """The structure of arguments with tensors replaced by their number."""
    if isinstance(value, cresset.Tensor):
        found.append(value)
        return ("tensor", len(found) - 1)
    if isinstance(value, (list, tuple)):
        return ("list", [split(v, found) for v in value])
    if isinstance(value, dict):
        return ("dict", {k: split(v, found) for k, v in value.items()})
    return ("plain", value)


def join(structure, tensors):
    kind, value = structure
    if kind == "tensor":
        return tensors[value]
    if kind == "list":
        return [join(v, tensors) for v in value]
    return {k: join(v, tensors) for k, v in value.items()} if kind == "dict" else value


def same_bits(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, cresset.Tensor):
        if a.dtype != b.dtype or tuple(a.shape) != tuple(b.shape):
            return False
        x, y = (harness.theirs(t).resolve_conj().resolve_neg().contiguous().flatten().view(samples.torch.uint8)
                for t in (a, b))
        return a.numel() == 0 or bool((x == y).all())
    return type(a) is type(b) and (a == b or a != a)


def arguments(c):
    found = []
    structure = split([harness.ours(harness.twin(c.args)),
                       {k: harness.ours(harness.twin(v)) for k, v in c.kwargs.items()}], found)
    return structure, found


def check(name, c, symbolic):
    """Raises harness.Different; returns how it ended."""
    op, where = sweep.our_op(name), f"{name}({harness.describe(c)}){' symbolic' * symbolic}"
    structure, eager_inputs = arguments(c)

    def call(*tensors):
        args, kwargs = join(structure, tensors)
        result = op(*args, **kwargs)
        return list(result) if isinstance(result, (list, tuple)) else result

    with harness.seeded():
        wanted = harness.attempt(call, eager_inputs, {})
    if isinstance(wanted, harness.Refused):
        return "refused"
    inputs = arguments(c)[1]
    try:
        graph = cresset.record(call, tuple(inputs), dynamic=(True,) * len(inputs) if symbolic else None)
    except cresset.GuardOnDataDependentSymNode:
        return "data"
    except (cresset.UnsupportedError, OverflowError):  # a generator object, a number below -2^62
        return "unsupported"
    except Exception as error:
        raise harness.Different(f"{where}: recording fails: {type(error).__name__}: {error}") from error
    try:
        graph.verify("metas")
        parsed = cresset.Graph.parse(str(graph))
        read = from_json(json.loads(json.dumps(to_json(graph))))
    except Exception as error:
        raise harness.Different(f"{where}: {type(error).__name__}: {error}\n{graph}") from error
    for other, way in ((parsed, "the text"), (read, "JSON")):
        difference = graph.difference(other)
        if difference:
            raise harness.Different(f"{where}: {way} gives another graph: {difference}\n{graph}")
    with harness.seeded():
        result = harness.attempt(parsed.run, inputs, {})
    if isinstance(result, harness.Refused):
        raise harness.Different(f"{where}: the graph does not run: {type(result.error).__name__}: "
                                f"{result.error}\n{graph}")
    if "empty" not in name and not (same_bits(wanted, result) and same_bits(eager_inputs, inputs)):
        raise harness.Different(f"{where}: the graph gives another result\n{graph}")
    return "equal"


def run(name, dtypes=DTYPES, limit=LIMIT):
    counts, failures = collections.Counter(), []
    row, op = cresset._C._row(name), sweep.torch_op(name)
    for dtype in dtypes:
        for form in filter(None, (name, row["inplace"])):
            for i, c in enumerate(sweep.chosen(list(samples.calls_for(row, op, dtype)), limit, f"{name}{dtype}{form}")):
                try:
                    counts[check(form, c, bool(i % 2))] += 1
                except harness.Different as error:
                    failures.append(str(error))
    return counts, failures


if __name__ == "__main__":
    sys.exit(runner.main("graph", run, sys.argv[1:], passing=("equal", "refused", "data", "unsupported")))
