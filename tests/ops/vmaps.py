"""Every op under cresset.func.vmap, on two examples: what it gives is what the op gives for each of them.

    equal         PyTorch's vmap gives the same
    each example  PyTorch's vmap refuses, or differs from its own op on each example (strides, 0-d tensors, index_put
                  behind a slice): ours is PyTorch's op, example after example
    as alone      ours is our own op, example after example, which tests/full/ops.py holds against PyTorch's
    random        different numbers for each example: sizes and dtypes are PyTorch's
    refused       by both, or PyTorch refuses one of the examples
    not supported here, by name: writes to sizes and storages (resize_, set_)
    data          the size of the result, or a number, depends on values: refused here, in PyTorch at times

Everything else is a failure, and so is a class of ops (`.batch`) that gives up without saying so. There is no list of
names. `by` counts how our calls were carried out: by class or by loop.
"""
import collections
import warnings

import cresset
import harness
import samples
import sweep
import torch
import undefined
from cresset import func

torch._C._functorch._set_vmap_fallback_warning_enabled(False)  # it says so for every call
PASSING = ("equal", "each example", "as alone", "random")
NOTES = ("not supported", "data")
DTYPES = [torch.float64, torch.complex128, torch.int64]


def examples(t):
    """Two examples like t, along a new first dimension: the same values for integers, so that indices stay valid."""
    if t.dtype.is_floating_point or t.dtype.is_complex:
        return torch.stack([t, t * 0.5])
    return torch.stack([t, t.flip(list(range(t.dim())))])


class Case:
    """A call with some of its tensors mapped."""

    def __init__(self, name, op, c, mapped, dim):
        self.name, self.op, self.c, self.mapped, self.dim = name, op, c, mapped, dim

    def __str__(self):
        return f"{self.name} {harness.describe(self.c)} with tensors {self.mapped} mapped at {self.dim}"

    def split(self):
        """(tensors that are mapped, a function of one example of them that gives arguments)."""
        found, place, c = [], iter(range(1000)), self.c

        def one(t):
            i = next(place)
            if i not in self.mapped:
                return ("plain", harness.twin(t))
            stacked = examples(t)
            found.append(stacked if self.dim == 0 else stacked.movedim(0, self.dim))
            return ("here", len(found) - 1)
        held = lambda v: samples.map_tensors(v, one)
        args, kwargs = [held(a) for a in c.args], {k: held(v) for k, v in c.kwargs.items()}

        def put(v, given, own):
            if isinstance(v, tuple) and len(v) == 2 and v[0] in ("plain", "here"):
                return given[v[1]] if v[0] == "here" else own(v[1])
            if isinstance(v, (list, tuple)):
                return [put(x, given, own) for x in v] if any(isinstance(x, tuple) for x in v) else own(v)
            return own(v)
        return found, lambda given, own: ([put(a, given, own) for a in args],
                                          {k: put(v, given, own) for k, v in kwargs.items()})

    def run(self, vmap, op, tensors, call, own, randomness):
        def f(*given):
            args, kwargs = call(given, own)
            found = op(*args, **kwargs)
            if isinstance(found, (list, tuple)):
                return tuple(t for t in found if t is not None)
            return given[0] if found is None else found
        return harness.attempt(lambda: vmap(f, in_dims=self.dim, randomness=randomness)(*tensors), (), {})

    def theirs(self, randomness="error"):
        tensors, call = self.split()
        torch.manual_seed(1234)
        own = lambda v: harness.twin(v) if isinstance(v, (torch.Tensor, torch.Generator)) else v
        return self.run(torch.func.vmap, self.op, tensors, call, own, randomness)

    def ours(self, randomness="error"):
        tensors, call = self.split()
        cresset.manual_seed(1234)
        op = cresset._C._op(self.name, "overload")
        return self.run(func.vmap, op, [harness.ours(t) for t in tensors], call, harness.ours, randomness)

    def by_example(self, op=None):
        """PyTorch's results, or another op's, stacked; Refused."""
        tensors, call = self.split()

        def run():
            rows = []
            for i in range(2):
                args, kwargs = call([t.select(self.dim, i) for t in tensors], harness.twin)
                found = (op or self.op)(*args, **kwargs)
                found = tensors[0].select(self.dim, i) if found is None else found
                rows.append([t for t in listed(found) if t is not None])
            if any(not isinstance(v, torch.Tensor) for row in rows for v in row):
                raise TypeError("a number")
            return [torch.stack(pair) for pair in zip(*rows)]
        torch.manual_seed(1234)
        return harness.attempt(run, (), {})

    def alone(self):
        """Our own results, example after example."""
        ours = cresset._C._op(self.name, "overload")

        def op(*args, **kwargs):
            found = ours(*map(harness.ours, args), **{k: harness.ours(v) for k, v in kwargs.items()})
            made = [None if t is None else harness.theirs(t.detach().resolve_conj().resolve_neg())
                    for t in listed(found)]
            return tuple(made)
        cresset.manual_seed(1234)
        return self.by_example(op)


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def alike(want, got, values=True, loose=False):
    """Sizes, dtypes and values."""
    if len(want) != len(got):
        return False
    for w, g in zip(want, got):
        if (w is None) != (g is None):
            return False
        if w is None:
            continue
        g = harness.theirs(g.detach().resolve_conj().resolve_neg())
        w = w.detach().resolve_conj().resolve_neg()
        if w.shape != g.shape or w.dtype != g.dtype:
            return False
        if not values:
            continue
        floats = w.dtype.is_floating_point or w.dtype.is_complex
        if not (torch.allclose(w, g, 1e-6, 1e-7, equal_nan=True) if floats else torch.equal(w, g)):
            if not (loose and floats):
                return False
    return True


def choices(c):
    """Which tensors are mapped, and along which dimension of their own."""
    tensors = harness.tensors([*c.args, *c.kwargs.values()])
    n, rank = len(tensors), min((t.dim() for t in tensors), default=0)
    if not n:
        return
    yield tuple(range(n)), 0
    if rank:
        yield tuple(range(n)), 1
    if 1 < n < 6:
        for i in range(n):
            yield (i,), 0


def check(case, random, values):
    """The outcome, and how it was carried out; raises harness.Different."""
    before = cresset._C._vmap_counts()
    mine = case.ours("different" if random else "error")
    loops, misfits, last = cresset._C._vmap_counts()
    by = "loop" if loops > before[0] else "class"
    if misfits > before[1]:
        by = "misfit"
    if random:
        want = case.theirs("different")
        if isinstance(want, harness.Refused):
            return "refused", by
        if isinstance(mine, harness.Refused) and isinstance(case.by_example(), harness.Refused):
            return "refused", by  # a call that no example can make: multinomial of 0-d takes examples for categories
        if isinstance(mine, harness.Refused) or not alike(listed(want), listed(mine), False):
            raise harness.Different(f"{case}:\n expected {want}\n got {mine}")
        return "random", by
    each = case.by_example()
    if isinstance(mine, harness.Refused):
        if isinstance(each, harness.Refused) or isinstance(case.alone(), harness.Refused):
            return "refused", by
        if "randomness error mode" in str(mine.error):
            return "refused", by  # dropout between layers
        if "depend" in str(mine.error) and "vmap" in str(mine.error):
            return "data", by
        if isinstance(mine.error, RuntimeError) and ".item()" in str(mine.error):
            return "data", by
        if isinstance(case.theirs(), harness.Refused) and "is not possible because" in str(mine.error):
            return "refused", by
        said = ("not supported for mapped tensors", "is not possible because")
        if any(text in str(mine.error) for text in said) or isinstance(mine.error, NotImplementedError):
            return "not supported", by
        raise harness.Different(f"{case}: {type(mine.error).__name__}: {mine.error}")
    if by == "misfit":
        raise harness.Different(f"{case}: the class of {last} did not give what its rule says")
    want = case.theirs()
    if not isinstance(want, harness.Refused) and alike(listed(want), listed(mine), values):
        return "equal", by
    if isinstance(each, harness.Refused):
        return "refused", by
    if alike(each, listed(mine), values, loose=bool(case.c.settled)):
        return "each example", by
    alone = case.alone()
    if not isinstance(alone, harness.Refused) and alike(alone, listed(mine), values):
        return "as alone", by
    raise harness.Different(f"{case}:\n expected {each}\n got {mine}")


def sweep_vmap(name, dtypes=DTYPES, limit=None, ways=None):
    """Counts by outcome and by how ("by class", "by loop"), and failures. ways: of mapping, for each call."""
    counts, failures = collections.Counter(), []
    row, op = cresset._C._row(name), sweep.torch_op(name)
    random, values = "random" in row["tags"], "empty" not in name
    for dtype in dtypes:
        calls = [c for c in samples.calls_for(row, op, dtype) if not undefined.reason(name, c)]
        for c in sweep.chosen(calls, limit, name):
            for mapped, dim in [*choices(c)][:ways]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        outcome, by = check(Case(name, op, c, mapped, dim), random, values and not c.ties)
                        counts[outcome] += 1
                        if outcome in PASSING:
                            counts[f"by {by}"] += 1
                    except harness.Different as error:
                        failures.append(str(error))
    return counts, failures
