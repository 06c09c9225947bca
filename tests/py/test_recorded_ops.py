"""N1 without torch: ops give the results that PyTorch gave when `./dev record` asked it.

A recording holds whole calls: arguments with their strides, results, and the argument tensors after the call. So
nothing here needs torch but the recording itself, which takes a seeded choice of the calls of tests/ops, if possible of
those where PyTorch's own f32 result is near its f64 one and the same for other strides: a replay cannot ask which of
two answers is right. Results that leave a choice open are compared by what is the same for every choice
(tests/ops/settled.py), whose name is recorded with the call. The recording is replayed where torch is installed, too,
which shows that it is sound; the live comparison is tests/ops.
"""
import functools
import itertools
import os
import pathlib
import random
import sys
import zlib

import cresset
import numpy
import oracle as oracle_module
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))
import settled  # noqa: E402

FILE = pathlib.Path(__file__).stem
RECORDING = bool(os.environ.get("CRESSET_RECORD"))
SMALL, LARGEST = 48, 3000  # elements of one call's tensors: wanted, and taken when nothing smaller is there
PLAN = (("float32", 2), ("int64", 1))  # dtype, how many calls
ELSE = (("float64", 1), ("complex64", 1), ("int8", 1))  # for ops whose samples have none of these
TOLERANCE = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
             "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}


def table():
    rows = {name: cresset._C._row(name) for name in cresset._C._op_names() if name.startswith("aten::")}
    return {name: row for name, row in rows.items() if row["variant"] == "functional"}


@functools.cache
def recorded():
    return oracle_module.Records(FILE).answers


def names():
    return sorted(table() if RECORDING else {key.split("[", 1)[1].split("]", 1)[0] for key in recorded()})


# ---- recording ----

def packed(value, torch):
    """A call's value as the oracle stores it; what is no number, text or tensor becomes {kind: name}."""
    if isinstance(value, (list, tuple)):
        return [packed(item, torch) for item in value]
    for kind, cls in (("dtype", torch.dtype), ("format", torch.memory_format), ("layout", torch.layout),
                      ("device", torch.device)):
        if isinstance(value, cls):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, torch.Generator):
        return {"generator": value.initial_seed()}
    return value


def record_calls(name, torch):
    """PyTorch's answers to a few small calls of one op."""
    import harness
    import samples
    import sweep
    import undefined
    op, row, found = sweep.torch_op(name), table()[name], []

    size = lambda c: sum(t.numel() for t in samples.flat(c))
    free = "empty" in name  # of values that nobody has set

    def fits(c):
        tensors = samples.flat(c)
        plain = all(harness.NAMES.get(t.dtype) and (t.numel() == 0 or 0 not in t.stride()) for t in tensors)
        if "as_strided" in name:  # reads what lies between the elements
            plain = plain and all(t.is_contiguous() and not t.storage_offset() for t in tensors)
        return plain and size(c) <= LARGEST and not undefined.reason(name, c)

    def answer(c, strict=True):
        args, kwargs = harness.twin(c.args), {k: harness.twin(v) for k, v in c.kwargs.items()}
        with harness.seeded():
            result = harness.attempt(op, args, kwargs)
        results = harness.tensors([result])
        if isinstance(result, harness.Refused) or sum(t.numel() for t in results) > LARGEST:
            return None
        if strict and "random" not in row["tags"] and not free:
            named = {k: harness.widened(harness.twin(v)) for k, v in c.kwargs.items()}
            wide = harness.attempt(op, harness.widened(harness.twin(c.args)), named)
            same = c.settled or (lambda *results: results)
            exact = harness.tensors([] if isinstance(wide, harness.Refused) else [wide])
            if exact and not all(a.shape == e.shape and harness.close(a, e.to(a.dtype))
                                 for a, e in zip(same(*results), same(*exact))):
                return None
            laid = [harness.tensors([other]) for other in harness.answers(op, c)]  # it must not depend on strides
            if not all(a.shape == b.shape and harness.close(a, b, signs=True) for other in laid
                       for a, b in zip(same(*results), same(*other))):
                return None
        if free:
            for t in results:
                t.zero_()
        before, after = (harness.tensors(list(values)) for values in ((*c.args, *c.kwargs.values()),
                                                                      (*args, *kwargs.values())))
        same = lambda a, b: torch.equal(a, b) or (
            a.shape == b.shape and a.is_floating_point() and torch.allclose(a, b, equal_nan=True))
        changed = not all(map(same, before, after))
        return {"args": packed(c.args, torch), "kwargs": {k: packed(v, torch) for k, v in c.kwargs.items()},
                "result": packed(result, torch), "after": after if changed else [],
                **({"settled": c.settled.__name__} if c.settled else {})}

    for dtype, count in PLAN + ELSE:
        if getattr(cresset, dtype) not in cresset._C._accepts(name) or ((dtype, count) in ELSE and found):
            continue
        calls = [c for c in samples.calls_for(row, op, getattr(torch, dtype)) if fits(c)]
        random.Random(zlib.crc32(name.encode())).shuffle(calls)
        calls.sort(key=lambda c: (max(size(c), SMALL), not size(c)))  # small ones first, of them the empty ones last
        answers = [*itertools.islice((a for a in map(answer, calls) if a), count)]
        found += answers or itertools.islice((a for a in (answer(c, strict=False) for c in calls) if a), 1)
    return found


# ---- replaying ----

def ours(value):
    if isinstance(value, list):
        return [ours(item) for item in value]
    if isinstance(value, dict):
        (kind, name), = value.items()
        if kind == "generator":
            return cresset.Generator().manual_seed(name)
        return cresset.device(name) if kind == "device" else getattr(cresset, name)
    if isinstance(value, oracle_module.Answer):
        plain = cresset.from_numpy(value.array.copy()).to(getattr(cresset, value.dtype))
        laid = cresset.empty_strided(value.shape, value.stride, dtype=plain.dtype)
        return laid.copy_(plain)
    return value


PAIRS = ("aten::stft", "aten::stft.center")  # real and imaginary parts: as of complex numbers, zeros have no sign


def near(want, got, dtype, signs):
    if dtype not in TOLERANCE:
        return bool((want == got).all())
    rtol, atol = TOLERANCE[dtype]
    if want.dtype.kind == "c":
        wide = "complex128"
    else:
        wide = "float64"
        if signs and (numpy.signbit(want) != numpy.signbit(got))[(want == 0) & (got == 0)].any():
            return False
    return bool(numpy.isclose(got.astype(wide), want.astype(wide), rtol, atol, equal_nan=True).all())


def compare(want, got, where, values=True, signs=True):
    if isinstance(want, list):
        some = isinstance(got, (list, tuple)) and len(want) == len(got)
        assert some, f"{where}: {len(want)} results expected, got {got!r}"
        for i, (w, g) in enumerate(zip(want, got)):
            compare(w, g, f"{where}[{i}]", values, signs)
    elif isinstance(want, oracle_module.Answer):
        assert isinstance(got, cresset.Tensor), f"{where}: a tensor expected, got {got!r}"
        assert str(got.dtype).rpartition(".")[2] == want.dtype, where
        assert list(got.shape) == want.shape, where
        if 0 not in want.shape:
            wrong = [d for d, n in enumerate(want.shape) if n > 1 and got.stride()[d] != want.stride[d]]
            assert not wrong, f"{where}: strides {want.stride} expected, got {got.stride()}"
        if values:
            array = (got.float() if want.dtype == "bfloat16" else got).numpy()
            assert near(want.array, array, want.dtype, signs), f"{where}: expected\n{want.array}\ngot\n{array}"
    else:
        same = type(want) is type(got) and (want == got or (want != want and got != got)
                                            or abs(want - got) <= 1e-6 * abs(want))
        assert same, f"{where}: {want!r} expected, got {got!r}"


def compare_settled(name, want, got, where):
    """What is the same for every choice is within a hundred roundings of the largest number of PyTorch's."""
    rule = getattr(settled, name)
    listed = [x if isinstance(x, (list, tuple)) else [x] for x in (ours(want), got)]
    for a, b in zip(*(rule(*x) for x in listed)):
        a, b = a.numpy(), b.numpy()
        limit = 100 * numpy.finfo(a.dtype).eps * numpy.abs(a).max(initial=0)
        assert a.shape == b.shape and (numpy.abs(a - b) <= limit).all(), f"{where}: {name}: expected\n{a}\ngot\n{b}"


@pytest.mark.parametrize("name", names())
def test_op(name, oracle):
    calls = oracle("calls", lambda torch: record_calls(name, torch), stored=True)
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(cresset.ops.aten, packet), overload or "default")
    assert calls, f"{name} has no small call to record"
    for number, call in enumerate(calls):
        args, kwargs = ours(call["args"]), {key: ours(value) for key, value in call["kwargs"].items()}
        cresset.manual_seed(1234)
        got = op(*args, **kwargs)
        got = list(got) if isinstance(got, tuple) else got
        where, rule = f"{name}, call {number}", call.get("settled")
        compare(call["result"], got, where, values="empty" not in name and not rule, signs=name not in PAIRS)
        if rule:
            compare_settled(rule, call["result"], got, where)
        tensors = []
        for value in [*args, *kwargs.values()]:
            tensors += [t for t in (value if isinstance(value, list) else [value]) if isinstance(t, cresset.Tensor)]
        for i, want in enumerate(call["after"]):
            compare(want, tensors[i], f"{where}: tensor argument {i} after the call")


def test_a_phase_is_no_difference_and_another_vector_is():
    values, vectors = cresset.linalg.eigh(cresset.tensor([[2.0, 1.0], [1.0, 5.0]]))
    compare_settled("of_eigh", [values, vectors], [values, -vectors], "the same")
    with pytest.raises(AssertionError, match="of_eigh: expected"):
        compare_settled("of_eigh", [values, vectors], [values, vectors.flip(1)], "the columns swapped")


def test_most_of_the_table_is_recorded():
    """New rows may be ahead of the recording, but not far."""
    missing = set(table()) - set(names())
    command = f"./dev record tests/py/{FILE}.py"
    assert len(missing) <= len(table()) // 10, (
        f"{len(missing)} ops were never recorded: run {command}; e.g. {sorted(missing)[:5]}")
