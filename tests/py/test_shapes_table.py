"""S5, X3, X4: verdicts on (program, dynamic_shapes) against PyTorch's, and every suggested fix pasted back.

The programs are in shape_cases.py; PyTorch's verdicts are recorded (`./dev record tests/py/test_shapes_table.py`). A
case may differ only when it is listed here, with the reason; docs/shapes.md has the same list in words."""
import pytest

import cresset as torch
import shape_cases
import shape_verdict
from cresset.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

CASES = shape_cases.CASES

# What PyTorch says otherwise, and why ours is kept.
DIFFERENT = {
    "derived_smaller": "PyTorch stops with KeyError('max'); the sizes are a and a - 1, which is accepted here",
    "branch_half_named": "n // 2 == 2 holds for 4 and 5: the fix here keeps both, PyTorch's fix is 4 alone",
    "branch_half_auto": "n // 2 == 2 is the range 4..5 here; PyTorch keeps the range open and the guard beside it",
    "branch_half_dynamic": "as branch_half_auto",
    "branch_max_auto": "max(n, 8) == 8 is the range 2..8 here; PyTorch keeps the range open and the guard beside it",
    "ceil_half": "PyTorch asks whether (n + 1) // 2 is 1 and refuses; nothing here depends on it",
    "slice_step": "PyTorch asks whether (n + 1) // 2 is 1 and refuses; nothing here depends on it",
    "slice_drop_last": "PyTorch asks whether n - 1 is 1 and refuses; nothing here depends on it",
    "max_pool_image": "PyTorch asks whether h // 2 is 1 and refuses; nothing here depends on it",
    "half_of": "a // 2 == b stays a guard here, and the fix is the bound a >= 4; PyTorch's fix is a = 2*_a, which "
    "drops odd sizes",
    "split": "two parts of at most 2 are 3 or 4 elements: the fix here keeps both, PyTorch's fix is 4 alone",
    "module_sdpa":
    "keys and values must have one length, which is checked here; PyTorch lets them differ until it runs",
    "module_sdpa_causal": "as module_sdpa",
    "cross_batch": "PyTorch's cdist chooses its algorithm by size (25); here one algorithm serves all sizes",
}


def same(ours, theirs):
    """Accepted: the same sizes and ranges. Refused: the same kind of error, dimensions, and fixes where PyTorch has
    any."""
    keys = ("verdict", "kind", "dims", "sizes", "ranges") + (("fixes",) if theirs.get("fixes") else ())
    return all(ours.get(key) == theirs.get(key) for key in keys)


@pytest.mark.parametrize("name", CASES)
def test_verdict(name, oracle):
    theirs = oracle("verdict", lambda live: shape_verdict.facts(shape_verdict.of(live, CASES[name])))
    ours = shape_verdict.of(torch, CASES[name])
    if name in DIFFERENT:
        assert not same(ours, theirs), "no longer different: take it from the list"
    else:
        assert same(ours, theirs), f"here: {ours}\nPyTorch: {theirs}"


def test_at_least_95_percent_are_the_same():
    assert len(CASES) >= 150 and set(DIFFERENT) <= set(CASES)
    assert len(DIFFERENT) <= 0.05 * len(CASES)


FIXED = [name for name in CASES if shape_verdict.of(torch, CASES[name]).get("fixes")]


def test_there_are_fixes():
    assert len(FIXED) >= 40


@pytest.mark.parametrize("name", FIXED)
def test_a_suggested_fix_works(name):
    message = shape_verdict.of(torch, CASES[name])["text"]
    names = message[message.index("(") + 1:message.index(")!")].split(", ")
    assert all(f"  - {dim}" in message for dim in names), message   # a reason for each

    def fixed(torch):
        f, args, spec, options = CASES[name](torch)
        return f, args, refine_dynamic_shapes_from_suggested_fixes(message, spec), options

    again = shape_verdict.of(torch, fixed)
    assert again["verdict"] == "accepted", f"{message}\nthen: {again}"


@pytest.mark.parametrize("name", FIXED)
def test_a_suggested_fix_is_python(name):
    """Each line is Python, given Dim and the Dims of the specification."""
    message = shape_verdict.of(torch, CASES[name])["text"]
    Dim = torch.export.Dim
    known = {dim: Dim(dim) for dim in "abcdfhwcs"} | {"Dim": Dim}
    for line in message.partition("Suggested fixes:\n")[2].splitlines():
        exec(line.strip(), known)
