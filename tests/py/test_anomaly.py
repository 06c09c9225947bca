"""A1: anomaly mode against PyTorch: the forward line is named, NaNs are found."""
import warnings

import pytest

import cresset

torch = pytest.importorskip("torch", reason="the oracle")

BOTH = pytest.mark.parametrize("m", [cresset, torch], ids=["cresset", "torch"])


def leaf(m, numbers=(1.0, 2.0, 3.0)):
    return m.tensor(list(numbers), dtype=m.float64, requires_grad=True)


def run(m, program, error=RuntimeError, **options):
    """The error, and the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with m.autograd.detect_anomaly(**options), pytest.raises(error) as caught:
            program(m)
    return str(caught.value), [str(w.message) for w in seen]


def makes_nan(m):
    x = leaf(m, (0.0, 1.0))
    y = (x * 0).sqrt()  # the line of the NaN
    (y * 0).sum().backward()


def raises(m):
    class Mine(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")
    y = Mine.apply(leaf(m))  # the line of the function
    y.sum().backward()


def second(m):
    x = leaf(m, (0.0, 1.0))
    y = x ** 1.5  # the first derivative is fine
    g, = m.autograd.grad(y.sum(), x, create_graph=True)
    (g * 0).sum().backward()


@BOTH
def test_the_line_of_a_nan(m):
    message, told = run(m, makes_nan)
    assert "Function 'SqrtBackward0' returned nan values in its 0th output" in message
    assert any("Anomaly Detection has been enabled" in w for w in told)
    line, = [w for w in told if "Error detected in SqrtBackward0" in w]
    assert "Traceback of forward call that caused the error" in line and "# the line of the NaN" in line


@BOTH
def test_the_line_of_an_exception(m):
    message, told = run(m, raises, KeyError)
    assert "mine" in message
    line, = [w for w in told if "Error detected in MineBackward" in w]
    assert "# the line of the function" in line


@BOTH
def test_the_line_behind_a_second_derivative(m):
    message, told = run(m, second)
    assert "returned nan values" in message
    induced, = [w for w in told if "Previous calculation was induced by PowBackward0" in w]
    assert "# the first derivative is fine" in induced


@BOTH
def test_modes(m):
    assert not m.is_anomaly_enabled() and m.is_anomaly_check_nan_enabled()
    with m.autograd.set_detect_anomaly(True, check_nan=False):
        assert m.is_anomaly_enabled() and not m.is_anomaly_check_nan_enabled()
        makes_nan(m)  # is not looked for
        with m.autograd.set_detect_anomaly(False):
            assert not m.is_anomaly_enabled()
        assert m.is_anomaly_enabled()
    assert not m.is_anomaly_enabled()
    m.autograd.set_detect_anomaly(True)
    assert m.is_anomaly_enabled() and m.is_anomaly_check_nan_enabled()
    m.autograd.set_detect_anomaly(False)
    makes_nan(m)


@BOTH
def test_a_forward_without_the_mode(m):
    y = leaf(m, (0.0, 1.0)).mul(0).sqrt()

    def walk(m):
        (y * 0).sum().backward()
    told = run(m, walk)[1]
    assert any("Error detected in SqrtBackward0. No forward pass information available" in w for w in told)
