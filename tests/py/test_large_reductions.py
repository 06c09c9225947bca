"""N1: reductions, sorts and selections where rows are cut into blocks, read as columns or selected in several rounds:
against NumPy in f64."""
import cresset
import numpy as np
import pytest

SHAPES = [(5,), (3, 70000), (70000, 3), (9000, 70), (3, 5, 700), (5000, 20, 3), (130, 65, 4)]
DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"]


def numbers(shape, dtype, seed=0):
    x = np.random.default_rng(seed).normal(size=shape) * 5
    return x > 0 if dtype == "bool" else abs(x).astype(dtype) if dtype == "uint8" else x.astype(dtype)


def layouts(x):
    yield x
    if x.ndim > 1:
        yield x.swapaxes(0, 1)
        yield x[::2]


def axes(x):
    return [None, *range(x.ndim)] + ([(0, x.ndim - 1)] if x.ndim > 1 else [])


def close(ours, expected, scale, dtype):
    ours = ours.double().numpy() if ours.dtype.is_floating_point else ours.numpy()
    assert ours.shape == np.shape(expected)
    tolerance = {"float16": 2e-3}.get(dtype, 2e-6) if dtype.startswith("float") else 0
    assert np.all(np.abs(ours - expected) <= tolerance * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_large_reduction(shape, dtype):
    for x in layouts(numbers(shape, dtype)):
        ours, wide = cresset.from_numpy(x), x.astype("float64" if dtype.startswith("float") else "int64")
        for axis in axes(x):
            chosen = {} if axis is None else {"dim": axis}
            magnitude = np.abs(wide).sum(axis)
            if dtype != "float16" or magnitude.max() < 60000:
                close(cresset.sum(ours, **chosen), wide.sum(axis), magnitude, dtype)
            close(cresset.amax(ours, **chosen), wide.max(axis), 0, dtype)
            close(cresset.amin(ours, **chosen), wide.min(axis), 0, dtype)
            assert np.array_equal(cresset.any(ours, **chosen).numpy(), x.astype(bool).any(axis))
            assert np.array_equal(cresset.all(ours, **chosen).numpy(), x.astype(bool).all(axis))
            assert np.array_equal(cresset.count_nonzero(ours, **chosen).numpy(), np.count_nonzero(x, axis))
            if dtype != "bool" and not isinstance(axis, tuple):
                assert np.array_equal(cresset.argmax(ours, **chosen).numpy(), x.argmax(axis))
                assert np.array_equal(cresset.argmin(ours, **chosen).numpy(), x.argmin(axis))
            if dtype in ("float32", "float64"):
                close(cresset.mean(ours, **chosen), wide.mean(axis), np.abs(wide).mean(axis), dtype)
                close(cresset.var(ours, **chosen, correction=0), wide.var(axis), 1 + wide.var(axis), dtype)
                close(cresset.linalg.vector_norm(ours, **chosen), np.sqrt((wide**2).sum(axis)),
                      1 + np.sqrt((wide**2).sum(axis)), dtype)
            if dtype in ("float32", "float64") and axis is not None:
                close(cresset.logsumexp(ours, axis), np.log(np.exp(wide).sum(axis)), 20, dtype)


@pytest.mark.parametrize("at", [0, 255, 256, 1023, 32767, 32768, 69999])
@pytest.mark.parametrize("columns", [False, True])
def test_first_nan_wins(at, columns):
    x = numbers((4, 70000), "float32")
    x[1, at] = x[1, -1] = np.nan
    ours, dim = (cresset.from_numpy(x.T), 0) if columns else (cresset.from_numpy(x), 1)
    for f, better in ((cresset.max, np.max), (cresset.min, np.min)):
        values, positions = f(ours, dim=dim)
        assert np.isnan(values[1].item()) and positions[1].item() == at
        assert values[0].item() == better(x[0])
    assert np.isnan(cresset.amax(ours, dim).numpy()).tolist() == [False, True, False, False]
    assert np.isnan(cresset.max(ours).item())


def test_empty_rows():
    empty = cresset.zeros(3, 0)
    assert cresset.sum(empty, 1).tolist() == [0, 0, 0] and cresset.prod(empty, 1).tolist() == [1, 1, 1]
    assert cresset.linalg.vector_norm(empty, 2, 1).tolist() == [0, 0, 0] and all(x != x for x in cresset.mean(empty,
            1).tolist())
    assert cresset.all(empty, 1).tolist() == [True] * 3 and cresset.any(empty, 1).tolist() == [False] * 3
    assert cresset.logsumexp(empty, 1).tolist() == [-np.inf] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("n", [1, 2, 31, 33, 64, 65, 500, 3000, 9000])
def test_sorts_and_selections_are_stable(dtype, n):
    x = numbers((2, n), dtype)
    if dtype.startswith("float"):
        x = np.round(x)
        x[:, ::7], x[:, 1::5], x[:, 2::11] = np.nan, -0.0, np.inf
    order = np.argsort(x, axis=1, kind="stable")
    falling = n - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    for view, dim in ((x, 1), (np.ascontiguousarray(x.T).T, 1), (np.ascontiguousarray(x.T), 0)):
        t = cresset.from_numpy(view)
        turned = (lambda a: a.T) if dim == 0 else (lambda a: a)
        for descending, expected in ((False, order), (True, falling)):
            values, positions = cresset.sort(t, dim=dim, descending=descending, stable=True)
            assert np.array_equal(turned(positions.numpy()), expected)
            assert np.array_equal(turned(values.numpy()), np.take_along_axis(x, expected, 1),
                                  equal_nan=dtype.startswith("float"))
            for k in {1, min(3, n), n // 2 + 1, n}:
                assert np.array_equal(turned(cresset.topk(t, k, dim, descending)[1].numpy()), expected[:, :k])
        for k in {1, n // 2 + 1, n}:
            assert np.array_equal(cresset.kthvalue(t, k, dim)[1].numpy(), order[:, k - 1])
    if not dtype.startswith("float"):
        values, inverse, counts = cresset.unique(cresset.from_numpy(x), return_inverse=True, return_counts=True)
        for ours, expected in zip((values, inverse, counts), np.unique(x, return_inverse=True, return_counts=True)):
            assert np.array_equal(ours.numpy(), expected)
