"""N2: x[...] and x[...] = v, against PyTorch on listed and seeded cases, and against NumPy on generated ones."""
# ruff: noqa: E501 - one case is one line
import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cresset
from agree import agree, lines

LISTED = lines("""
    x[0], x[-1], x[1:], x[:2], x[::2], x[1:3:2], x[-2:], x[5:], x[:-10], x[2:1], x[...], x[None], x[()]  | x = t.arange(12).view(3, 4)
    x[0, 1], x[0, -1], x[:, 1], x[..., 1], x[0, ...], x[1, ..., 2], x[..., None], x[:, None], x[None, 0], x[0, None, 1:] | x = t.arange(12).view(3, 4)
    x[True], x[False], x[True, 0], x[0, True], x[None, True, :, False] | x = t.arange(12).view(3, 4)
    x[[0, 2]], x[[2, 0, 0]], x[[]], x[:, [0, 1]], x[[0, 1], [1, 2]], x[[0, 1], :, None], x[range(2)], x[[[0, 1], [1, 2]],] | x = t.arange(12).view(3, 4)
    x[[True, False, True]], x[x > 5], x[:, x[0] > 1], x[t.tensor([True, False, True]), 1], x[x > 100] | x = t.arange(12).view(3, 4)
    x[t.tensor([0, 2])], x[t.tensor([[0, 2], [1, 1]])], x[t.tensor([0, 2]), t.tensor([1, 3])], x[t.tensor([0, 2])[:, None], t.tensor([1, 3])] | x = t.arange(12).view(3, 4)
    x[t.tensor(1)], x[t.tensor(1), 2], x[t.tensor(1, dtype=t.int32)], x[t.tensor(-1, dtype=t.int8)], x[t.tensor(True)], x[t.tensor(1, dtype=t.uint8)] | x = t.arange(12).view(3, 4)
    x[t.tensor([0], dtype=t.int32)], x[t.tensor([1, 0, 1], dtype=t.uint8)] | x = t.arange(12).view(3, 4)
    x[np.array([0, 1])], x[np.int64(1)], x[np.array([[True, False, False, True]] * 3)], x[np.int64(0):np.int64(2)], x[np.array(1)] | x = t.arange(12).view(3, 4)
    x[t.tensor(1):t.tensor(2)], x[slice(None, None, np.int32(2))] | x = t.arange(12).view(3, 4)
    x[:, t.tensor([0, 1]), :], x[t.tensor([0, 1]), :, t.tensor([1, 2])], x[0, :, t.tensor([1, 2])], x[t.tensor([0]), None, t.tensor([1])], x[..., t.tensor([0, 1])] | x = t.arange(60).view(3, 4, 5)
    x[m], x[m, 1], x[m, 1:3], x[m, None], x[m, t.tensor([0, 1])], x[m, ..., 1] | x = t.arange(60).view(3, 4, 5); m = x[:, :, 0] % 25 == 0
    x[[slice(0, 1), 0]], x[[t.tensor(1), t.tensor(2)]], x[[[0, 1], [1, 2]]], x[[None, 0]] | x = t.arange(12).view(3, 4)
    x[...], x[None], x[True], x[False], x[t.tensor(True)], x[()] | x = t.tensor(3)
    x[1:, 1:].stride(), x[:, 1].stride(), x[::2, ::3].stride(), x[None, :, None].shape, x[1:].storage_offset() | x = t.arange(12).view(3, 4)
    x[...] is x, x[...].data_ptr() == x.data_ptr(), x[:].data_ptr() == x.data_ptr(), x[1]._base is x | x = t.arange(12).view(3, 4)
    x[5] | x = t.arange(12).view(3, 4)
    x[0, 4] | x = t.arange(12).view(3, 4)
    x[0, 0, 0] | x = t.arange(12).view(3, 4)
    x[..., 0, 0, 0] | x = t.arange(12).view(3, 4)
    x[..., ..., 0] | x = t.arange(12).view(3, 4)
    x[..., ...] | x = t.arange(12).view(3, 4)
    x[1.0] | x = t.arange(12).view(3, 4)
    x['a'] | x = t.arange(12).view(3, 4)
    x[{}] | x = t.arange(12).view(3, 4)
    x[::-1] | x = t.arange(12).view(3, 4)
    x[::0] | x = t.arange(12).view(3, 4)
    x[1:'a'] | x = t.arange(12).view(3, 4)
    x[1.5:2] | x = t.arange(12).view(3, 4)
    x[2**70] | x = t.arange(12).view(3, 4)
    x[-2**63] | x = t.arange(12).view(3, 4)
    x[2**62:], x[:2**62], x[-2**63:], x[-2**70:2**70] | x = t.arange(12).view(3, 4)
    x[t.tensor([True, False])] | x = t.arange(12).view(3, 4)
    x[t.tensor([1.0])] | x = t.arange(12).view(3, 4)
    x[t.tensor([7])] | x = t.arange(12).view(3, 4)
    x[t.tensor([-4])] | x = t.arange(12).view(3, 4)
    x[t.tensor([1], dtype=t.int16)] | x = t.arange(12).view(3, 4)
    x[t.tensor([0, 1]), t.tensor([0, 1, 2])] | x = t.arange(12).view(3, 4)
    x[t.zeros(3, 4, 2, dtype=t.bool)] | x = t.arange(12).view(3, 4)
    x[0] | x = t.tensor(3)
    x[:] | x = t.tensor(3)
    x[t.tensor([0])] | x = t.tensor(3)
    x[None, 0] | x = t.tensor(3)
    x[t.tensor([0])] | x = t.ones(0, 3)
    x[t.zeros(0, dtype=t.int64)] | x = t.ones(0, 3)
""")


@pytest.mark.parametrize("line", LISTED)
def test_get(oracle, line):
    agree(oracle, line)


SETS = """0 = 1|0 = t.ones(1, 1, 4)|0, 0 = t.tensor([[5.]])|0 = t.ones(2, 4)|: = t.arange(4)|x > 0 = 1|x == 0 = t.arange(12)|x == 0 = t.arange(12.)
x == 0 = t.arange(12.)[None]|[0, 1] = t.ones(1, 1, 2, 4)|[0, 1] = t.ones(3, 1, 2, 4)|0 = [1, 2]|0 = 1j|0 = 'a'|0 = None|True = 2.|False = 2.|0, 0 = t.tensor([1., 2.])
[0, 1] = t.ones(3, 4)|() = 3.|None = t.ones(4)|... = t.ones(3, 1)|5 = 1|0 = np.arange(4)|[[0, 1], [1, 2]] = 7.|:, 1 = t.tensor([1., 2., 3.])|::2, 1:3 = 5
t.tensor([0, 2]), t.tensor([1, 3]) = 9.|t.tensor([0, 0]), 1 = 4.|0, t.tensor([True, False, True, False]) = t.tensor([7., 8.])|x == 0 = t.tensor(2.)
0 = True|1, 2 = t.tensor(3)|1 = t.tensor(3)|-1 = -1|1:2 = t.ones(1, 4) * 2|..., 0 = t.tensor([4])|0 = t.ones(4, dtype=t.int64)|t.tensor(1) = 8|t.tensor(1), t.tensor(2) = 8
0, 4 = 1|x[0] > 0 = 1|t.ones(3, dtype=t.bool) = t.ones(2, 4)|[2, 0] = t.ones(4) * 3|:, [0, 3] = t.ones(3, 1) * 3|[True, False, True] = 6|1:, [0, 1] = t.arange(4.).view(2, 2)""".replace("\n", "|").split("|")


@pytest.mark.parametrize("case", [s for s in SETS])
def test_set(oracle, case):
    index, _, value = case.partition(" = ")
    if " = " not in case:
        raise AssertionError(case)
    agree(oracle, f"x | x = t.zeros(3, 4); x[{index}] = {value}")


def test_set_writes_through_views():
    x = cresset.zeros(3, 4)
    y = x.T[1:]
    y[0] = cresset.arange(3.)
    y[cresset.tensor([1, 2]), 0] = 9.
    assert x.tolist() == [[0, 0, 9, 9], [0, 1, 0, 0], [0, 2, 0, 0]] and x._version == y._version
    cresset.ones(2).expand(3, 2)[0] = cresset.ones(2)  # fine: one row
    with pytest.raises(RuntimeError):
        cresset.ones(2).expand(3, 2)[:] = cresset.ones(3, 2)  # several elements are one


def seeded(n):
    """Index expressions made from a seed: the same on every machine, so PyTorch's answers can be recorded."""
    choose = random.Random(2024)
    sizes = (3, 4, 5)
    for _ in range(n):
        parts, dims, d = [], choose.randint(1, 3), 0
        lists = choose.choice([None, 1, 2, 3])
        while d < dims:
            size = sizes[d]
            kind = choose.randrange(9)
            if kind == 0:
                parts.append("None")
                continue
            if kind == 1 and "..." not in parts:
                parts.append("...")
                break
            if kind in (2, 3):
                parts.append(str(choose.randint(-size, size - 1)))
            elif kind in (4, 5):
                ends = [choose.choice(["", str(choose.randint(-size - 1, size + 1))]) for _ in range(2)]
                parts.append(":".join([*ends, choose.choice(["1", "2", "3"])]))
            elif kind == 6 and lists:
                parts.append("t.tensor(" + repr([choose.randint(-size, size - 1) for _ in range(lists)]) + ")")
            elif kind == 7:
                parts.append("t.tensor(" + repr([choose.randint(-size, size - 1) for _ in range(2)]) + ")[:, None]")
            elif kind == 8:
                count = choose.randint(1, 2)
                mask = [[i] for i in range(size)]
                chosen = choose.sample(range(size), min(count, size))
                parts.append("t.tensor(" + repr([i in chosen for (i,) in mask]) + ")")
            else:
                parts.append(":")
            d += 1
        yield ", ".join(parts)


SEEDED = list(dict.fromkeys(seeded(260)))


@pytest.mark.parametrize("chunk", range(0, len(SEEDED), 10))
def test_get_seeded(oracle, chunk):
    for index in SEEDED[chunk:chunk + 10]:
        agree(oracle, f"x[{index}] | x = t.arange(60).view(3, 4, 5)")


@pytest.mark.parametrize("chunk", range(0, len(SEEDED), 10))
def test_set_seeded(oracle, chunk):
    for index in SEEDED[chunk:chunk + 10]:
        agree(oracle, f"x.sum(), x[0].sum(), x.max() | x = t.arange(60).view(3, 4, 5); x[{index}] = 100")


# ---- against NumPy, whose basic and advanced indexing have the same meaning ----

def items(size):
    at = st.integers(-size - 1, size) if size else st.just(0)
    return st.one_of(st.integers(-size, size - 1) if size else st.just(slice(None)),
                     st.builds(slice, st.none() | at, st.none() | at, st.none() | st.integers(1, 3)),
                     st.lists(st.integers(-size, size - 1), min_size=2, max_size=2) if size else st.just(slice(None)),
                     st.lists(st.booleans(), min_size=size, max_size=size).map(np.array) if size
                     else st.just(slice(None)))


@st.composite
def indexed(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    used = draw(st.integers(0, len(shape)))
    index = []
    for size in shape[:used]:
        if draw(st.integers(0, 5)) == 0:
            index.append(None)
        item = draw(items(size))
        index.append(np.array(item, dtype=bool) if isinstance(item, np.ndarray) else item)
    if used < len(shape) and draw(st.booleans()):
        index.append(...)
    # NumPy takes a number among them for one more index array
    if any(isinstance(i, (list, np.ndarray)) for i in index):
        index = [slice(i, i + 1 or None) if isinstance(i, int) else i for i in index]
    return shape, tuple(index)


def ours(index):
    return tuple(cresset.tensor(i) if isinstance(i, (list, np.ndarray)) else i for i in index)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(indexed())
def test_get_as_numpy(case):
    shape, index = case
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    x = cresset.from_numpy(array)
    try:
        want = array[index]
    except IndexError:
        with pytest.raises(IndexError):
            x[ours(index)]
        return
    got = x[ours(index)]
    assert got.shape == np.shape(want) and got.tolist() == want.tolist()


@settings(max_examples=400, deadline=None, derandomize=True)
@given(indexed(), st.booleans())
def test_set_as_numpy(case, broadcast):
    shape, index = case
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    x = cresset.from_numpy(array.copy())
    try:
        part = array[index]
    except IndexError:
        with pytest.raises(IndexError):
            x[ours(index)] = -1
        return
    value = np.full(np.shape(part)[-1:] if broadcast else np.shape(part), -1, dtype=np.int64)
    value = value - np.arange(value.size).reshape(value.shape) if len(set(map(str, index))) == 0 else value
    array[index] = value
    x[ours(index)] = cresset.tensor(value)
    assert x.tolist() == array.tolist()


def test_many_indices():
    x = cresset.ones(*[1] * 12)
    assert x[(0,) * 12].item() == 1 and x[(None,) * 4].dim() == 16
    with pytest.raises((IndexError, RuntimeError)):
        x[(None,) * 5]
    with pytest.raises(IndexError):
        x[(None,) * 100]


def test_an_index_chain_equals_one_index():
    x = cresset.arange(60).view(3, 4, 5)
    for i, j, k in itertools.product((0, -1, 2), (1, -2), (0, 4)):
        assert x[i, j, k].item() == x[i][j][k].item() == x.tolist()[i][j][k]


def test_a_mask_without_dimensions_is_not_known_before_the_call():
    def written(x):
        x = x.clone()
        x[x > 0] = 5.0
        x[..., x.sum() < 0] = -5.0
        return x

    def kept(x):
        return x[x > 0].sum() + x[None, x < -1].sum()

    for f in (written, kept):
        run = cresset.compile(f, backend="eager")
        for value in (0.5, -0.5, -2.0, 0.0, 7.0):
            assert run(cresset.tensor(value)).item() == f(cresset.tensor(value)).item(), (f.__name__, value)
    exported = cresset.export.export(_Mask(), (cresset.tensor(0.5),)).module()
    assert exported(cresset.tensor(-2.0)).item() == -2 and exported(cresset.tensor(3.0)).item() == 5


class _Mask(cresset.nn.Module):
    def forward(self, x):
        x = x.clone()
        x[x > 0] = 5.0
        return x
