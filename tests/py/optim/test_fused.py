"""One op updates all parameters: the same bits as the plain step, for any layout, size and number of threads."""
import itertools

import numpy
import pytest

import cresset
from agree import lines

LINES = lines("""
    SGD(lr=0.1)
    SGD(lr=0.1, momentum=0.9, weight_decay=0.1)
    SGD(lr=0.1, momentum=0.9, dampening=0.3, maximize=True)
    SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
    Adam(lr=0.01)
    Adam(lr=0.01, betas=(0.3, 0.5), amsgrad=True, weight_decay=0.1)
    Adam(lr=0.01, maximize=True, eps=0.1)
    AdamW(lr=0.01)
    AdamW(lr=0.01, weight_decay=0.3, amsgrad=True)
    Adagrad(lr=0.1)
    Adagrad(lr=0.1, lr_decay=0.1, weight_decay=0.1, maximize=True, initial_accumulator_value=0.1)
""")


def layouts(value):
    """The same elements in other places: dense in another order, every second, one for all, and as they are."""
    rows, columns = value.shape
    wide = cresset.zeros(rows, 2 * columns, dtype=value.dtype)
    wide[:, ::2] = value
    return [value.clone(), value.t().contiguous().t(), wide[:, ::2], value[:1].expand(rows, columns)]


def parameters(dtype):
    random = numpy.random.RandomState(0)
    made = [cresset.from_numpy(random.randn(5, 7)).to(dtype) for _ in range(4)]
    pairs = itertools.product(range(3), range(4))     # an expanded tensor cannot be written
    laid = [(layouts(made[0])[i], layouts(made[1])[k]) for i, k in pairs]
    special = cresset.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, 1e30], dtype=dtype)
    grid = cresset.cartesian_prod(special, special)
    laid += [(grid[:, 0].clone(), grid[:, 1].clone())]
    for size in [(), (0,), (0, 3), (1,), (513,), (70000,)]:
        laid.append(tuple(cresset.from_numpy(numpy.asarray(random.randn(*size))).to(dtype) for _ in range(2)))
    return [(cresset.nn.Parameter(p), grad) for p, grad in laid]


def run(line, options, dtype, steps=4):
    pairs = parameters(dtype)
    made = line.replace("(", "([p for p, _ in pairs], ", 1)[:-1] + options + ")"
    optimizer = eval(f"cresset.optim.{made}", {"cresset": cresset, "pairs": pairs})
    for p, grad in pairs:
        p.grad = grad
    for _ in range(steps):
        optimizer.step()
    found = [p.detach() for p, _ in pairs] + [grad for _, grad in pairs]
    for state in optimizer.state_dict()["state"].values():
        found += [value.contiguous() for value in state.values()]
    return found


def bits(values):
    return [(str(v.dtype), tuple(v.shape), v.contiguous().numpy().tobytes()) for v in values]


def equal(mine, others):
    """To the bit, except that a NaN is a NaN."""
    assert len(mine) == len(others)
    for a, b in zip(mine, others):
        assert a.dtype == b.dtype and a.stride() == b.stride()
        numpy.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", [cresset.float32, cresset.float64])
@pytest.mark.parametrize("line", LINES)
def test_the_bits_of_the_plain_step(line, dtype):
    plain = run(line, ", foreach=False", dtype)
    equal(run(line, "", dtype), plain)
    equal(run(line, ", fused=True", dtype), plain)


@pytest.mark.parametrize("line", ["AdamW()", "SGD(momentum=0.9)"])
def test_threads_change_nothing(line):
    before, found = cresset.get_num_threads(), []
    for threads in (1, 2, 5):
        cresset.set_num_threads(threads)
        found.append(bits(run(line, "", cresset.float32)))
    cresset.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", [cresset.float16, cresset.bfloat16])
@pytest.mark.parametrize("line", LINES)
def test_halves_are_computed_as_floats(line, dtype):
    """One step: the floats' result, rounded once."""
    half, single = (run(line, ", fused=True", kind, 1) for kind in (dtype, cresset.float32))
    for a, b in zip(half[:12], single[:12]):
        numpy.testing.assert_allclose(a.float().numpy(), b.to(dtype).float().numpy(), rtol=2e-2, atol=2e-2)


def test_a_gradient_scale():
    """What a gradient scaler sets: gradients are divided, and a step with an infinite one is not made."""
    results = []
    for scale in (None, 8.0):
        p = cresset.nn.Parameter(cresset.ones(40))
        p.grad = cresset.arange(40.0) * (scale or 1)
        optimizer = cresset.optim.AdamW([p], fused=True)
        optimizer.grad_scale = None if scale is None else cresset.tensor(scale)
        optimizer.found_inf = cresset.tensor(0.0)
        optimizer.step()
        results.append(bits([p.detach(), p.grad, *optimizer.state[p].values()]))
        optimizer.found_inf = cresset.tensor(1.0)
        before = bits([p.detach(), *optimizer.state[p].values()])
        optimizer.step()
        assert bits([p.detach(), *optimizer.state[p].values()]) == before
    assert results[0] == results[1]
    optimizer = cresset.optim.RMSprop([p])
    optimizer.found_inf = cresset.tensor(0.0)
    with pytest.raises(AssertionError, match="grad_scale"):
        optimizer.step()


def test_momentum_that_begins_later():
    """A parameter that gets its first gradient after others have theirs."""
    found = []
    for foreach in (None, False):
        p, q = (cresset.nn.Parameter(cresset.ones(3)) for _ in range(2))
        optimizer = cresset.optim.SGD([p, q], lr=0.1, momentum=0.5, foreach=foreach)
        p.grad = cresset.ones(3)
        optimizer.step()
        q.grad = cresset.ones(3)
        optimizer.step()
        found.append(bits([p.detach(), q.detach()]))
    assert found[0] == found[1]


def adam(params, grads, mean, square, steps, **options):
    numbers = dict(lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    return cresset.ops.aten._fused_adam_(params, grads, mean, square, [], steps, **{**numbers, **options})


@pytest.mark.parametrize("line,says", [
    ("adam([x], [], [x], [x], [one])", "grads has 0 tensors, but there are 1 parameters"),
    ("adam([x], [x], [x], [x], [])", "state_steps has 0"),
    ("adam([x], [x], [x], [x], [one], amsgrad=True)", "max_exp_avg_sqs has 0"),
    ("adam([x], [x.double()], [x], [x], [one])", r"grads\[0\] is float64, but the parameter is float32"),
    ("adam([x], [x[:2]], [x], [x], [one])", r"grads\[0\] must have the parameter's sizes"),
    ("adam([x], [x], [x.expand(2, 3)], [x], [one])", r"exp_avgs\[0\] must have the parameter's sizes"),
    ("adam([x], [x], [x], [x], [x])", "state_steps must be floating point tensors of one element each"),
    ("adam([x.int()], [x.int()], [x.int()], [x.int()], [one])", "not implemented for 'Int'"),
    ("adam([one.expand(3)], [x], [x], [x], [one])", r"more than one element of self\[0\]"),
    ("adam([x], [x], [x], [x], [one], found_inf=x)", "found_inf must be"),
])
def test_refusals(line, says):
    with pytest.raises((RuntimeError, NotImplementedError), match=says):
        eval(line, {"adam": adam, "x": cresset.ones(3), "one": cresset.tensor(1.0)})


def test_versions_and_nothing_to_do():
    p, grad, mean, square, step = (cresset.ones(3), cresset.ones(3), cresset.zeros(3), cresset.zeros(3),
                                   cresset.tensor(1.0))
    before = [t._version for t in (p, mean, square, step)]
    assert adam([p], [grad], [mean], [square], [step]) is None
    assert [t._version - b for t, b in zip((p, mean, square, step), before)] == [1, 1, 1, 0]
    assert adam([], [], [], [], []) is None
