"""Ops that PyTorch lacks (`cresset::...`): what graphs get from passes and derivatives. Each is held against what it
stands for, written with PyTorch's ops; its fake runs against its real ones; and its derivative, where the row has one,
against central differences. A row without an entry here fails the first test."""
import itertools
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="what the ops stand for is written with PyTorch's")

import cresset  # noqa: E402
import fakes  # noqa: E402
import harness  # noqa: E402
import samples  # noqa: E402
from samples import call  # noqa: E402

ops = cresset.ops.cresset
F = torch.nn.functional
ACTS = {"none": lambda x: x, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid}


def noise(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed + 31 * sum(shape))
    return torch.randn(shape, dtype=dtype, generator=generator)


def packed(op, *args):
    return harness.theirs(getattr(ops, op)(*harness.ours(args)))


def roll_calls(dtype):
    for shape, shifts, dims in [((5,), [2], [0]), ((3, 4), [1, -1], [0, 1]), ((3, 4), [7], [1]), ((2, 0), [1], [0]),
                                ((1,), [3], [0]), ((2, 3, 4), [1, 2], [0, 2])]:
        x = noise(*shape, dtype=dtype)
        yield call(x, shifts, dims), lambda x=x, shifts=shifts, dims=dims: torch.roll(x, shifts, dims)


def circular_calls(dtype):
    for shape, pad in [((1, 2, 5), [2, 1]), ((2, 1, 3, 4), [1, 2, 0, 3]), ((1, 1, 3), [0, 0]),
                       ((1, 1, 2, 2, 3), [1] * 6)]:
        x = noise(*shape, dtype=dtype).requires_grad_()
        padded = F.pad(x, pad, mode="circular")
        grad = noise(*padded.shape, dtype=dtype, seed=1)
        want = torch.autograd.grad(padded, x, grad)[0]
        yield call(grad, x.detach(), pad), lambda want=want: want


def lstsq_calls(dtype):
    for rows, columns, sides in [(6, 4, 2), (3, 5, 1), (2, 2, 3)]:
        a, b = noise(rows, columns, dtype=dtype), noise(rows, sides, dtype=dtype, seed=1)
        want = torch.linalg.lstsq(a, b, driver="gelsy")
        yield call(a, b, None, True), lambda want=want: (want.solution, want.rank)


def panels_of(w, groups=1):
    """[n, k] as panels of 16 columns: [panels, k, 16], each group filled up with zeros."""
    each = w.view(groups, w.shape[0] // groups, w.shape[1])
    padded = F.pad(each, (0, 0, 0, -each.shape[1] % 16))
    return padded.reshape(groups * -(-each.shape[1] // 16), 16, w.shape[1]).transpose(1, 2).contiguous()


def pack_calls(_):
    for n, k, groups in [(20, 6, 1), (16, 3, 1), (1, 1, 1), (12, 5, 4), (40, 7, 2), (3, 0, 1)]:
        w = noise(n, k)
        yield call(w, False, groups), lambda w=w, groups=groups: panels_of(w, groups)
        if groups == 1:
            yield call(w.t().contiguous(), True), lambda w=w: panels_of(w)


def linear_calls(_):
    for rows, act in itertools.product([(1,), (3,), (2, 5), (0,), (33,)], ACTS):
        x, w, bias, n = noise(*rows, 6), noise(20, 6, seed=1), noise(20, seed=2), 20
        scale, residual = noise(n, seed=3), noise(*rows, n, seed=4)
        panels = packed("pack_panels", w)
        yield call(x, panels, n, bias, act), lambda x=x, w=w, b=bias, act=act: ACTS[act](F.linear(x, w, b))
        yield (call(x, panels, n, None, act, scale, residual),
               lambda x=x, w=w, act=act, s=scale, r=residual: ACTS[act](F.linear(x, w)) * s + r)


def embedding_calls(_):
    w = noise(20, 6)
    for at in ([0, 19, 3, 3], [[], []], [[1], [2]]):
        at = torch.tensor(at, dtype=torch.int32 if len(at) == 2 else torch.int64)
        yield call(packed("pack_panels", w), at, 20), lambda at=at: w[at.long()]


def recurrent_calls(kind):
    gates = 4 if kind == "LSTM" else 3
    for steps, batch, size, hidden, biased in [(4, 2, 3, 5, True), (1, 1, 1, 1, False), (3, 1, 2, 17, True)]:
        for batch_first in (False, True):
            layer = getattr(torch.nn, kind)(size, hidden, bias=biased, batch_first=batch_first)
            x = noise(*((batch, steps) if batch_first else (steps, batch)), size)
            states = [noise(1, batch, hidden, seed=1 + i) for i in range(2 if kind == "LSTM" else 1)]
            weights = [packed("pack_panels", w.detach(), False, gates)
                       for w in (layer.weight_ih_l0, layer.weight_hh_l0)]
            biases = [layer.bias_ih_l0.detach(), layer.bias_hh_l0.detach()] if biased else [None, None]

            def want(layer=layer, x=x, states=states, lstm=kind == "LSTM"):
                with torch.no_grad():
                    out, last = layer(x, tuple(states) if lstm else states[0])
                return [out, *(s[0] for s in (last if lstm else [last]))]
            yield call(x, *(s[0] for s in states), *weights, *biases, False, batch_first), want


def pack_conv_calls(_):
    """The layout is the kernels' own (None): what counts is that every weight is there, with zeros between."""
    for shape, groups in [((5, 3, 3, 3), 1), ((16, 4, 1, 1), 1), ((8, 2, 3, 3), 4)]:
        w = noise(*shape)
        yield call(w, groups), None


def conv_calls(_):
    for c, out, groups, kernel, stride, padding, act in [(3, 5, 1, 3, 1, 1, "none"), (4, 16, 1, 1, 1, 0, "relu"),
                                                         (8, 8, 8, 3, 2, 1, "relu"), (8, 6, 2, 3, 1, 0, "silu")]:
        x, w, b = noise(2, c, 7, 6), noise(out, c // groups, kernel, kernel, seed=1), noise(out, seed=2)
        plain = F.conv2d(x, w, b, stride, padding, 1, groups)
        residual = noise(*plain.shape, seed=3)
        given = (out, [kernel] * 2, [stride] * 2, [padding] * 2, [1, 1], groups, act)
        weights = packed("pack_conv", w, groups)
        yield call(x, weights, b, None, *given), lambda plain=plain, act=act: ACTS[act](plain)
        yield call(x, weights, b, residual, *given), lambda plain=plain, r=residual, act=act: ACTS[act](plain + r)


def pool_calls(_):
    for given in ([[2, 2]], [[3, 3], [2, 2], [1, 1]], [[2, 2], [2, 2], [0, 0], [1, 1], True], [[1, 3], [1, 1], [0, 1]]):
        x = noise(2, 3, 7, 6)
        yield call(x, *given), lambda x=x, given=given: F.max_pool2d(x, *given)


def loss_calls(op, slope):
    """Elements' losses, or (slope) what of their sum goes to the input: by PyTorch's ops, without a reduction."""
    def calls(dtype):
        last = 0.0 if op == "smooth_l1" else 4.0
        for shape, width in [((7, 5), 1.0), ((3, 1), 0.3), ((0,), 2.0), ((), 0.5), ((40,), last)]:
            x, t, grad = (noise(*shape, dtype=dtype, seed=seed) for seed in range(3))
            backward = getattr(torch.ops.aten, f"{op}_loss_backward")
            if slope:
                yield call(grad, x, t, 0.25, width), lambda x=x, t=t, g=grad, w=width: 0.25 * backward(g, x, t, 0, w)
            else:
                forward = getattr(torch.ops.aten, f"{op}_loss")
                yield call(x, t, width), lambda x=x, t=t, w=width, f=forward: f(x, t, 0, w)
    return calls


def with_data_calls(dtype):
    for shape in [(4, 3), (0,), ()]:
        data, history = (noise(*shape, dtype=dtype, seed=seed) for seed in range(2))
        yield call(data, history), lambda data=data: data.clone()


def bce_slope_calls(dtype):
    for shape, weighted in [((7, 5), True), ((3,), False), ((0,), True), ((), False)]:
        x, t = noise(*shape, dtype=dtype).sigmoid(), noise(*shape, dtype=dtype, seed=1).sigmoid()
        grad, weight = noise(*shape, dtype=dtype, seed=2), noise(*shape, dtype=dtype, seed=3) if weighted else None
        yield call(grad, x, t, weight, 0.25), lambda x=x, t=t, g=grad, w=weight: 0.25 * (
            torch.ops.aten.binary_cross_entropy_backward(g, x, t, w, 0))


def isin_calls(dtype):
    nan = float("nan")
    for given, tests in [([1, 2, nan, 0.0, -0.0, 3], [nan, 0.0, 3, 3]), ([], [1.0]), ([1.0, 2], []), ([[5.0], [6]], 5),
                         (7.0, [7.0, nan])]:
        x, t = torch.tensor(given, dtype=dtype), torch.tensor(tests, dtype=dtype)
        yield call(x, t), lambda x=x, t=t: torch.isin(x, t)
    x, t = noise(2000).mul(300).long(), noise(700, seed=1).mul(300).long()
    yield call(x, t), lambda x=x, t=t: torch.isin(x, t)


def normal_calls(dtype):
    """normal_ of memory that has these strides. The seed is the same whoever draws."""
    for shape, stride in [((4, 8), (8, 1)), ((4, 8), (1, 4)), ((4, 8), (16, 2)), ((40,), (2,)), ((0, 3), (3, 1)),
                          ((1, 20), (1, 1)), ((3,), (1,)), ((2, 5, 3), (15, 1, 5))]:
        into = torch.empty_strided(shape, stride, dtype=dtype)

        def want(into=into):
            return into.normal_(2.0, 3.0, generator=torch.Generator().manual_seed(4))
        cresset.manual_seed(4)
        yield call(torch.zeros(shape, dtype=dtype), list(stride), 2.0, 3.0), want


def state_calls(_):
    """The generator's state, which is another one afterwards where one is given."""
    for seed, draws in [(4, 0), (5, 3), (6, 700)]:
        generator = torch.Generator().manual_seed(seed)
        torch.rand(draws, generator=generator)
        given = torch.Generator().manual_seed(seed + 1).get_state()
        for args in (None,), (given,):
            cresset.manual_seed(seed)
            cresset.rand(draws)
            yield call(*args), lambda g=generator: g.get_state()


def grouped_calls(dtype):
    """Which operand has groups, which end where offs says: rows of the left one, what is summed over, columns of the
    right one; an empty group among them."""
    ends = [2, 2, 5, 6]
    parts, offs = list(zip([0, *ends], ends)), torch.tensor(ends, dtype=torch.int32)
    rows, left = noise(6, 3, dtype=dtype), noise(4, 5, 3, dtype=dtype, seed=1)
    right, columns = noise(4, 3, 7, dtype=dtype, seed=2), noise(3, 6, dtype=dtype, seed=3)
    yield call(rows, right, offs), lambda: torch.cat([rows[a:b] @ m for (a, b), m in zip(parts, right)])
    yield call(left, columns, offs), lambda: torch.cat([m @ columns[:, a:b] for (a, b), m in zip(parts, left)], 1)
    yield call(columns, rows, offs.long()), lambda: torch.stack([columns[:, a:b] @ rows[a:b] for a, b in parts])
    yield call(left, right), lambda: left @ right


def phaseless_calls(_):
    for shape in [(4, 3), (0,), (), (7,)]:
        x = noise(*shape)
        yield call(torch.complex(x, torch.zeros(shape))), lambda x=x: x.clone()


def fill_diagonal_calls(dtype):
    for shape in [(3, 4), (9, 2), (3, 3, 3), (0, 2), (5, 1)]:
        for wrap in (False, True):
            x = noise(*shape, dtype=dtype)
            yield call(x, 2.5, wrap), lambda x=x, wrap=wrap: x.clone().fill_diagonal_(2.5, wrap)


CALLS = {"random_state": state_calls, "normal_strided": normal_calls, "roll": roll_calls,
         "pad_circular_backward": circular_calls, "pack_panels": pack_calls,
         "linear_packed": linear_calls, "embedding_packed": embedding_calls,
         "lstm_packed": lambda _: recurrent_calls("LSTM"), "gru_packed": lambda _: recurrent_calls("GRU"),
         "pack_conv": pack_conv_calls, "conv_packed": conv_calls, "max_pool2d": pool_calls, "isin": isin_calls,
         "smooth_l1": loss_calls("smooth_l1", False), "smooth_l1_slope": loss_calls("smooth_l1", True),
         "huber": loss_calls("huber", False), "huber_slope": loss_calls("huber", True), "bce_slope": bce_slope_calls,
         "with_data": with_data_calls, "lstsq": lstsq_calls, "grouped_mm": grouped_calls, "phaseless": phaseless_calls,
         "fill_diagonal": fill_diagonal_calls}
NAMES = [name.removeprefix("cresset::") for name in cresset._C._op_names() if name.startswith("cresset::")
         and cresset._C._row(name)["variant"] == "functional"
         and (cresset._C._row(name)["has_kernel"] or "internal" in cresset._C._row(name)["tags"])]


def test_every_row_is_tested():
    assert set(NAMES) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_it_is_what_it_stands_for(name):
    count = 0
    for c, want in CALLS[name](torch.float32):
        got = harness.attempt(getattr(ops, name), harness.ours(c.args), {})
        where = f"{name}({harness.describe(c)})"
        assert not isinstance(got, harness.Refused), f"{where}: {got.error}"
        if want is None:
            given, made = c.args[0], harness.theirs(got)
            assert torch.equal(made[made != 0].sort()[0], given.flatten().sort()[0]), where
        else:
            for w, g in zip(harness.flat(want()), harness.flat(got), strict=True):
                assert w.shape == g.shape and w.dtype == g.dtype, where
                assert torch.allclose(g, w, rtol=1e-4, atol=1e-5), where
        count += 1
    assert count >= 3


@pytest.mark.parametrize("name", CALLS)
def test_fake_runs_know_the_result(name):
    count = 0
    for c, _ in CALLS[name](torch.float32):
        for laid in (c, samples.with_layout(c, "strided")):
            for outcome in fakes.check(f"cresset::{name}", getattr(ops, name), laid):
                assert outcome in ("equal", "data"), outcome
                count += outcome == "equal"
    assert count >= 6


DIFFERENTIABLE = {"roll": ["self"], "pad_circular_backward": ["grad_output", "self"], "grouped_mm": ["self", "mat2"],
                  "fill_diagonal": ["self"]}


def test_derivatives_are_those_that_rows_have():
    rows = {name: cresset._C._row(f"cresset::{name}") for name in NAMES}
    with_one = {name for name, row in rows.items() if row["grad"] or row["has_grad_fn"]}
    assert with_one == {*DIFFERENTIABLE, "with_data", "normal_strided", "phaseless"}


def test_phases_are_refused_and_the_real_part_goes_on():
    x = cresset.tensor([1 + 0j, -2 + 0j], requires_grad=True)
    made = ops.phaseless(x)
    made.backward(cresset.tensor([3.0, 4.0]))
    assert made.tolist() == [1.0, -2.0] and x.grad.tolist() == [3 + 0j, 4 + 0j]
    with pytest.raises(RuntimeError, match="phases of the eigenvectors"):
        ops.phaseless(cresset.tensor([1 + 0.5j]))


def test_drawn_numbers_owe_nothing_to_what_was_there():
    x = cresset.ones(3, requires_grad=True)
    ops.normal_strided(x, [1]).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_numbers_are_drawn_again():
    """Between two calls, the second with what the first gave, the generator is elsewhere."""
    cresset.manual_seed(8)
    state = ops.random_state()
    first = cresset.randn(5).tolist()
    was = ops.random_state(state)
    assert cresset.randn(5).tolist() == first
    after = torch.Generator().manual_seed(8)
    torch.randn(5, generator=after)
    assert torch.equal(harness.theirs(was), after.get_state())
    ops.random_state(was)
    assert cresset.rand(3).tolist() == torch.rand(3, generator=after).tolist()
    for wrong in (cresset.zeros(5056), cresset.zeros(3, dtype=cresset.uint8)):
        with pytest.raises(RuntimeError, match="5056 bytes"):
            ops.random_state(wrong)
    with pytest.raises(RuntimeError, match="invalid mt19937 state"):
        ops.random_state(cresset.zeros(5056, dtype=cresset.uint8))


def test_data_without_their_history():
    """Numbers of one tensor with the history of another: that is what the gradient goes to, all of it."""
    data, history = (cresset.randn(3, requires_grad=True) for _ in range(2))
    made = ops.with_data(data, history)
    made.backward(cresset.tensor([1.0, 2.0, 3.0]))
    assert made.tolist() == data.tolist() and data.grad is None and history.grad.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_differences(name):
    """<gradient, direction> against (f(x + h d) - f(x - h d)) / 2h, in f64, for every floating argument; and again for
    the derivative of the derivative."""
    for c, _ in CALLS[name](torch.float64):
        moved = [i for i, a in enumerate(c.args) if isinstance(a, torch.Tensor) and a.is_floating_point()]
        out = harness.theirs(getattr(ops, name)(*harness.ours(c.args)))
        seed = noise(*out.shape, dtype=torch.float64, seed=5)
        got = cresset._C._derivative(f"cresset::{name}", tuple(harness.ours(c.args)), {}, [harness.ours(seed)],
                                     DIFFERENTIABLE[name])
        for i in moved:
            direction = noise(*c.args[i].shape, dtype=torch.float64, seed=9)

            def value(step, i=i, direction=direction):
                args = list(c.args)
                args[i] = args[i] + step * direction
                return float((harness.theirs(getattr(ops, name)(*harness.ours(args))) * seed).sum())
            want = (value(1e-3) - value(-1e-3)) / 2e-3  # linear in each argument: the step does not matter
            mine = 0.0 if got[i] is None else float((harness.theirs(got[i]) * direction).sum())
            assert mine == pytest.approx(want, rel=1e-7, abs=1e-7), f"{name}({harness.describe(c)}), argument {i}"


# Those with a decomposition have its derivative, which the sweeps of the ops that consist of them hold to PyTorch's.
COMPOSED = {name for name in NAMES if cresset._C._row(f"cresset::{name}")["decomp"]}
# isin gives truth values, random_state bytes; the other three have one that is no difference
OTHERS = sorted(set(CALLS) - set(DIFFERENTIABLE) - COMPOSED
                - {"isin", "with_data", "normal_strided", "random_state", "phaseless"})


@pytest.mark.parametrize("name", OTHERS)
def test_ops_of_passes_have_no_derivative_and_say_so(name):
    c, _ = next(iter(CALLS[name](torch.float32)))
    out = getattr(ops, name)(*harness.ours(c.args))
    seeds = [cresset.ones_like(t) for t in (out if isinstance(out, (list, tuple)) else [out])]
    parameter = cresset._C._schema(f"cresset::{name}").split("(Tensor ")[1].split(",")[0]
    with pytest.raises(NotImplementedError, match=name):
        cresset._C._derivative(f"cresset::{name}", tuple(harness.ours(c.args)), {}, seeds, [parameter])
