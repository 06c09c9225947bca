"""Numbers of a fake run against PyTorch's and against plain Python: operators, methods, conversions, hashes.

Every line of number_cases.py is exported with open sizes and run at four of them. What the program gives must be what
Python gives on plain numbers; it may refuse a size only where PyTorch's program does; a line that PyTorch refuses may
work here, or raises the same class. PyTorch's outcomes are recorded (`./dev record
tests/py/test_symbolic_numbers.py`)."""
import pytest

import cresset
import number_cases as cases

# Where PyTorch's program runs at more sizes, or gives another number, and why ours is kept.
DIFFERENT = {
    "round(n / 4, 1)": "no op of the format rounds to decimals (PyTorch cannot save it either): the size is fixed",
    "round(n / 3, 2)": "as above",
    "math.pow(n, 2)": "Python's float: the size is fixed; PyTorch gives the integer n**2",
    "(-2) ** i": "PyTorch's program computes -(2 ** i): wrong at even i",
    "round(n, -1)": "tens: the size is fixed; PyTorch gives n itself",
    "b & n": "bits of two integers, as in Python; PyTorch makes it a bool",
    "b & 1": "as above",
}


def complaint(eager, theirs, ours):
    if "raised" in ours:
        if "raised" not in theirs:
            return "raises where PyTorch does not"
        return (None if theirs["raised"] in ours["bases"] or ours["raised"] in theirs["bases"]
                else "raises another class")
    want = theirs.get("runs")
    for size, (plain, got) in enumerate(zip(eager, ours["runs"])):
        if isinstance(got, str):
            if want and not isinstance(want[size], str):
                return f"refuses {cases.SIZES[size]}"
        elif repr(got) != repr(plain) and not (want and repr(want[size]) == repr(got)):
            return f"gives another number at {cases.SIZES[size]}"
    return None


@pytest.mark.parametrize("line", cases.LINES + cases.ARGUMENTS)
def test_number(line, oracle):
    theirs = oracle(line, lambda torch: cases.outcome(torch, line), stored=True)
    ours = cases.outcome(cresset, line)
    eager = cases.runs(cresset, cases.program(cresset, line))
    found = complaint(eager, theirs, ours)
    if line in DIFFERENT:
        assert "runs" in ours and all(isinstance(got, str) or got == plain for got, plain in zip(ours["runs"], eager))
        assert repr(ours["runs"]) != repr(theirs.get("runs")), "no longer different: take it from the list"
    else:
        assert not found, f"{found}\nhere: {ours}\nPyTorch: {theirs}\nPython: {eager}"


def test_a_symbolic_int_is_no_key():
    with pytest.raises(TypeError, match="unhashable type: 'SymInt'; use int"):
        cases.export(cresset, "{6: 1}[n]")


def test_a_size_that_outlives_its_program_is_no_low_number():
    kept = []

    class Keeper(cresset.nn.Module):
        def forward(self, x):
            kept.append(x.shape[0])
            return x + 1

    cresset.export.export(Keeper(), (cresset.ones(3, 2),), dynamic_shapes=({0: cresset.export.Dim("n")},))
    with pytest.raises(ValueError, match="outside of the fake mode"):
        cresset.ones(3, 3).diagonal(kept[0])
    assert cresset.ones(3, 3).diagonal(-2**62 - 8).shape == (0,)
