"""Special values meet in every pair: a part of what `./dev test --full ops` tries, always the same. Divisions that end
PyTorch's process are held against Python's integers."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the samples are PyTorch's tensors, and its answers are what is compared")

import cresset  # noqa: E402
import harness  # noqa: E402
import samples  # noqa: E402
import special_values  # noqa: E402
import sweep  # noqa: E402

POINTWISE = [name for name in sweep.op_names() if "pointwise" in cresset._C._row(name)["tags"]]


def calls(name, dtype):
    op = sweep.torch_op(name)
    return list(special_values.special_calls(samples.Make(dtype, 0, op, op._schema)))


def failures(name, ours, dtypes):
    counts, accepts = sweep.Counts(), cresset._C._accepts(name)
    for dtype in dtypes:
        for c in calls(name, dtype):
            supported = harness.NAMES[dtype] in accepts
            counts.run(harness.check, name, sweep.torch_op(name), ours, c, True, False, supported)
    return counts.failures


@pytest.mark.parametrize("name", POINTWISE)
def test_every_pair(name):
    found = failures(name, sweep.our_op(name), (torch.float32, torch.float16, torch.int64, torch.complex128))
    assert not found, f"{len(found)} calls differ; first:\n{found[0][:2000]}"


def test_nearly_every_row_has_such_calls():
    without = [name for name in POINTWISE if not calls(name, torch.float32)]
    assert len(POINTWISE) > 240 and set(without) <= {"aten::log_sigmoid_backward", "aten::where.Scalar"}


def naive_logaddexp2(a, b):
    """Right for ordinary numbers: the difference of two infinities is none."""
    largest = cresset.maximum(a, b)
    return largest + cresset.log2(cresset.exp2(a - largest) + cresset.exp2(b - largest))


def test_a_naive_formula_is_found():
    found = failures("aten::logaddexp2", naive_logaddexp2, [torch.float32])
    assert len(found) == 1 and "values differ" in found[0]
    x = torch.randn(50, dtype=torch.float32)
    assert harness.check("aten::logaddexp2", torch.logaddexp2, naive_logaddexp2, samples.call(x, -x)) == "equal"


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("number", [False, True], ids=["tensor", "number"])
def test_the_lowest_integer_by_minus_one(dtype, number):
    lowest = torch.iinfo(dtype).min
    x = cresset.from_dlpack(torch.tensor([lowest, lowest + 1, 5], dtype=dtype))
    by = -1 if number else cresset.from_dlpack(torch.tensor([-1, -1, -1], dtype=dtype))
    for mode in ("trunc", "floor"):
        assert cresset.div(x, by, rounding_mode=mode).tolist() == [lowest, -lowest - 1, -5]  # it wraps
    assert cresset.floor_divide(x, by).tolist() == [lowest, -lowest - 1, -5]
    assert cresset.remainder(x, by).tolist() == cresset.fmod(x, by).tolist() == [0, 0, 0]


def test_where_pytorch_is_wrong():
    """The values that special_values.py leaves out."""
    f64 = lambda *values: cresset.tensor(values, dtype=cresset.float64)
    assert cresset.igamma(f64(5e-324, 5e-324, 1e-310), f64(1.0, 0.5, 1e-300)).tolist() == pytest.approx([1, 1, 1])
    assert cresset.special.zeta(f64(1e300, float("inf")), f64(2.0, 2.0)).tolist() == [0, 0]
    inf = float("inf")
    assert cresset.special.zeta(f64(inf, 1e300, inf), f64(1.0, 1.0, 0.5)).tolist() == [1, 1, inf]
    assert cresset.special.legendre_polynomial_p(f64(float("nan")), 3).isnan().all()


@pytest.mark.parametrize("scale", [1e5, 1e6, 1.1e6, 1e8, 1e10, 1e14])
def test_gamma_functions_of_large_orders(scale):
    steps = torch.tensor([-3, -1, -0.1, -1e-3, 0, 1e-3, 0.1, 1, 3], dtype=torch.float64)
    a, x = torch.full_like(steps, scale), scale + steps * scale**0.5
    for name in ("igamma", "igammac"):
        want, got = getattr(torch, name)(a, x), getattr(cresset, name)(cresset.from_dlpack(a), cresset.from_dlpack(x))
        assert torch.allclose(torch.from_dlpack(got), want, rtol=1e-7, atol=1e-12), name


def test_the_far_side_of_large_orders_is_the_normal_distribution():
    """Six deviations below and above; PyTorch is off by a factor of 800 there."""
    a, low, high = (cresset.tensor([x], dtype=cresset.float64) for x in (1e14, 1e14 - 6e7, 1e14 + 6e7))
    assert cresset.igamma(a, low).item() == pytest.approx(9.8659e-10, rel=1e-4)
    assert cresset.igammac(a, high).item() == pytest.approx(9.8659e-10, rel=1e-4)


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "fmod"])
def test_integers_by_zero_are_refused(op):
    with pytest.raises(RuntimeError, match="(?i)zero"):
        getattr(cresset, op)(cresset.tensor([1, 2]), cresset.tensor([1, 0]))
