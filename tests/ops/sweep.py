"""The sweep over the op table: every op, dtype and sample, functional, in place and out. `test_ops.py` runs a seeded
part of it, `tests/full/ops.py` all of it."""
import collections
import dataclasses
import random
import warnings
import zlib

import cresset
import harness
import samples
import torch
import undefined

warnings.filterwarnings("ignore")
samples.load_families()


class OfCopy:
    """An op that PyTorch has in place only, on a copy of its first argument."""

    def __init__(self, op):
        self.op, self._schema = op, op._schema
        self.__name__ = op.__name__

    def __call__(self, x, *args, **kwargs):
        return self.op(x.clone(), *args, **kwargs)


def torch_op(name):
    """'aten::add.Tensor' as PyTorch's object, or None."""
    ns, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, ns), packet), overload or "default")
    except (AttributeError, RuntimeError):
        inplace = cresset._C._row(name)["inplace"] if ns == "cresset" else None
        return OfCopy(torch_op(inplace)) if inplace else None


def our_op(name):
    ns, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(cresset.ops, ns), packet), overload or "default")


def op_names(family=None):
    """Names of functional rows that PyTorch has too, if only in place, in table order."""
    names = []
    for name in cresset._C._op_names():
        row = cresset._C._row(name)
        known = name.startswith("aten::") or (row["inplace"] or "").startswith("aten::")
        if row["variant"] == "functional" and known:
            names.append(name)
    return names


FACTORY = ("dtype", "layout", "device", "pin_memory", "memory_format")  # what an out= tensor says instead


def out_calls(row, op, c):
    """(functional call, its answer, call with out= tensors): empty ones, and ones of the right shape but other
    strides."""
    result = harness.ask(op, c, undefined.layout(row["name"], c) if undefined.reason(row["name"], c) else harness.twin)
    if isinstance(result, harness.Refused):
        return
    schema = row["out_schema"]
    names, kept = [a.name for a in schema.arguments if a.is_out], {a.name for a in schema.arguments}
    results = list(result) if isinstance(result, (tuple, list)) and len(names) > 1 else [result]
    kwargs = {k: v for k, v in c.kwargs.items() if k in kept}
    if len(names) != len(results) or any(k not in kept and k not in FACTORY for k in c.kwargs):
        raise harness.Different(f"{row['out']}: has no place for the results or arguments of {harness.describe(c)}")
    kind = next((t.dtype for t in harness.tensors(results)), torch.float32)  # of what was not asked for
    other = lambda t: (samples.transposed if t.dim() > 1 else samples.strided)(torch.zeros(t.shape, dtype=t.dtype))
    for note, make in (("empty", lambda t: torch.empty(0, dtype=t.dtype)), ("strided", other)):
        outs = {n: torch.empty(0, dtype=kind) if r is None else harness.mapped(r, make) for n, r in zip(names, results)}
        yield c, result, dataclasses.replace(c, kwargs={**kwargs, **outs}, note=f"{c.note} out {note}")


def chosen(calls, limit, key):
    """All calls, or a seeded choice of `limit` of them."""
    if not limit or len(calls) <= limit:
        return calls
    return random.Random(zlib.crc32(key.encode())).sample(calls, limit)


class Counts:
    """Outcomes of one op (harness.py says which there are)."""

    def __init__(self):
        self.passed, self.failures = collections.Counter(), []

    @property
    def cases(self):
        return self.passed.total() + len(self.failures)

    def outcomes(self):
        """What the sweeps' runner takes."""
        return self.passed, self.failures

    def run(self, check, *args, **kwargs):
        try:
            self.passed[check(*args, **kwargs)] += 1
        except harness.Different as error:
            self.failures.append(str(error))


def moves_data(row):
    return samples.GENERATORS[row["sample"] or "from_schema"].__module__ in ("samples_view", "samples_move")


def sweep(name, dtypes=samples.DTYPES, limit=None):
    """All calls of one op, or a seeded choice of `limit` per dtype and variant."""
    counts, row = Counts(), dict(cresset._C._row(name))
    op = torch_op(name)
    if op is None:
        counts.failures.append(f"{name}: PyTorch has no such op")
        return counts
    forms = {"functional": (op, our_op(name))}
    for form in ("inplace", "out"):
        if row[form]:
            theirs = torch_op(row[form])
            if theirs is None:
                counts.failures.append(f"{name}: PyTorch has no {row[form]}")
                continue
            forms[form] = (theirs, our_op(row[form]))
    if "out" in forms:
        row["out_schema"] = forms["out"][0]._schema
    values = "empty" not in name  # nobody has set them
    exact, drawn, accepts = moves_data(row), "random" in row["tags"], cresset._C._accepts(name)
    for dtype in dtypes:
        calls = list(samples.calls_for(row, op, dtype))
        for form, (theirs, ours) in forms.items():
            label, tried, outs = name if form == "functional" else row[form], [(c, None, c) for c in calls], ()
            if form == "out":
                outs = [a.name for a in row["out_schema"].arguments if a.is_out]
                tried = [o for c in chosen(calls, limit, f"{name}{dtype}{form}") for o in out_calls(row, op, c)]
            for given, want, c in chosen(tried, limit, f"{name}{dtype}{form}"):
                if undefined.reason(label, c):
                    counts.run(harness.check_dense, label, op, given, ours, c, outs, values)
                elif form == "out":
                    counts.run(harness.check_out, label, op, given, want, theirs, ours, c, outs, values, drawn)
                else:
                    counts.run(harness.check, label, theirs, ours, c, values, exact, harness.NAMES[dtype] in accepts)
    return counts
