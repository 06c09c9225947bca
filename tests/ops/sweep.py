"""The sweep over the op table: every op, dtype and sample, functional, in place and out. `test_ops.py` runs a seeded part
of it, `tests/full/ops.py` all of it."""
import random
import warnings
import zlib

import cresset
import harness
import samples
import torch

warnings.filterwarnings("ignore")
samples.load_families()


def torch_op(name):
    """'aten::add.Tensor' as PyTorch's object, or None."""
    ns, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, ns), packet), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def our_op(name):
    ns, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(cresset.ops, ns), packet), overload or "default")


def op_names(family=None):
    """Names of functional rows that PyTorch has too, in table order."""
    names = []
    for name in cresset._C._op_names():
        row = cresset._C._row(name)
        if row["variant"] == "functional" and name.startswith("aten::"):
            names.append(name)
    return names


# Calls where PyTorch itself is wrong, and which are therefore not compared: which of an op's calls, and why.
DEPARTURES = {
    "aten::detach_": (lambda c: True, "refuses the views that every call is made of here"),
    "aten::normal.Tensor_float_out": (lambda c: "out empty" in c.note, "does not resize the out tensor, then refuses it"),
    "aten::rrelu_with_noise.out": (lambda c: "out empty" in c.note or not c.args[1].is_contiguous(), "writes beyond the out tensor's end"),
    "aten::rrelu_with_noise": (lambda c: not c.args[1].is_contiguous(), "writes noise as if it were contiguous"),
    "aten::rrelu_with_noise_": (lambda c: not c.args[1].is_contiguous(), "writes noise as if it were contiguous"),
    **{f"aten::{n}.data": (lambda c: not c.args[1].is_contiguous(), "reads batch_sizes as if they were contiguous")
       for n in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{f"aten::{n}": (lambda c, at=at: c.args[at].dim() == 1 and not c.args[at].is_contiguous(), "forgets the stride of labels in a row")
       for n, at in [("ctc_loss.IntList", 1), ("ctc_loss.Tensor", 1), ("_ctc_loss", 1), ("_ctc_loss.Tensor", 1), ("_ctc_loss.out", 1),
                     ("_ctc_loss.Tensor_out", 1), ("_ctc_loss_backward", 2), ("_ctc_loss_backward.Tensor", 2), ("_ctc_loss_backward.out", 2)]},
    "aten::nll_loss2d_backward": (lambda c: not c.args[1].is_contiguous(), "refuses a gradient that it laid out itself"),
    "aten::rrelu_with_noise_functional": (lambda c: not c.args[1].is_contiguous(), "writes noise as if it were contiguous"),
}


def departs(name, c):
    return name in DEPARTURES and DEPARTURES[name][0](c)


def out_calls(row, op, c):
    """The call with out= tensors: empty ones, and ones of the right shape but other strides."""
    result = harness.attempt(op, harness.twin(c.args), {k: harness.twin(v) for k, v in c.kwargs.items()})
    if isinstance(result, harness.Refused):
        return
    results = harness.tensors(result)
    schema = row["out_schema"]
    names = [a.name for a in schema.arguments if a.is_out]
    if len(names) != len(results):
        return
    kept = {a.name for a in schema.arguments}
    kwargs = {k: v for k, v in c.kwargs.items() if k in kept}
    if len(kwargs) != len(c.kwargs):
        return
    yield samples.Call(c.args, {**kwargs, **{n: torch.empty(0, dtype=r.dtype) for n, r in zip(names, results)}}, f"{c.note} out empty")
    yield samples.Call(c.args, {**kwargs, **{n: samples.transposed(torch.zeros(r.shape, dtype=r.dtype)) for n, r in zip(names, results)}}, f"{c.note} out strided")


def chosen(calls, limit, key):
    """All calls, or a seeded choice of `limit` of them."""
    if not limit or len(calls) <= limit:
        return calls
    return random.Random(zlib.crc32(key.encode())).sample(calls, limit)


class Counts:
    def __init__(self):
        self.equal = self.refused = 0
        self.failures = []

    @property
    def cases(self):
        return self.equal + self.refused + len(self.failures)

    def outcomes(self):
        """What the sweeps' runner takes."""
        return {"equal": self.equal, "refused": self.refused}, self.failures

    def run(self, name, theirs, ours, c, values, outs):
        try:
            kind = harness.check_out(name, theirs, ours, c, outs, values) if outs else harness.check(name, theirs, ours, c, values)
        except harness.Different as error:
            self.failures.append(str(error))
            return
        setattr(self, kind, getattr(self, kind) + 1)


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
    values = "empty" not in name
    accepts = cresset._C._accepts(name)
    for dtype in dtypes:
        calls = list(samples.calls_for(row, op, dtype))
        if harness.NAMES[dtype] not in accepts:  # PyTorch has no kernel for it; some empty inputs slip through there
            calls = [c for c in calls if all(t.numel() for t in samples.flat(c)) and any(t.numel() > 1 for t in samples.flat(c))][:2]
        for form, (theirs, ours) in forms.items():
            label = name if form == "functional" else row[form]
            tried = [o for c in calls for o in out_calls(row, op, c)] if form == "out" else calls
            tried = [c for c in tried if not departs(label, c)]
            drawn = "random" in row["tags"]  # in the order of the out tensor's memory in places: PyTorch's out form is asked
            outs = [a.name for a in row["out_schema"].arguments if a.is_out] if form == "out" and not drawn else None
            for c in chosen(tried, limit, f"{name}{dtype}{form}"):
                counts.run(label, op if outs else theirs, ours, c, values, outs)
    return counts
