"""A1: gradients of every op by the eager tape, a seeded part in every dtype; `./dev test --full tape` runs all."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the oracle; tests/unit/test_autograd.c needs none")

import harness  # noqa: E402
import samples  # noqa: E402
import sweep  # noqa: E402
import tape  # noqa: E402

GROUPS = 32


@pytest.mark.parametrize("group", range(GROUPS))
def test_tape(group):
    failures = []
    for name in sweep.op_names()[group::GROUPS]:
        failures += [f"{name}: {text}" for text in tape.sweep_tape(name, limit=1)[1]]
    assert not failures, f"{len(failures)} differ; first:\n" + "\n".join(failures[:3])


def outcome(name, *args, dtype=torch.float64, **kwargs):
    case = tape.Case(name, sweep.torch_op(name), samples.call(*args, **kwargs))
    assert not case.refused and case.flows
    return tape.check(case, case.flows, dtype)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 2])
def test_second_derivatives_of_places_on_pixels_and_borders(mode, padding, corners):
    """A place on a pixel belongs to the cell that begins there, one on the border to the outside."""
    generator = torch.Generator().manual_seed(0)
    image, slopes = (torch.randn(1, 2, *size, generator=generator).double() for size in ((4, 5), (3, 3)))
    places = torch.tensor([-1.5, -1.25, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.25])
    grid = torch.stack([places, places.flip(0)], -1).reshape(1, 3, 3, 2).double()
    rest = (mode, padding, corners, [True, True])
    assert outcome("aten::grid_sampler_2d_backward", slopes, image, grid, *rest) == "equal"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_distances_of_half_precision(dtype):
    """PyTorch has a derivative of Euclidean ones, and no _cdist_backward; equal rows have distance 0."""
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = torch.cat([x[:1], -x[1:]])
    assert outcome("aten::cdist", x, y, 2.0, 1, dtype=dtype) in ("equal", "as in float64")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_second_derivative_of_sure_predictions(dtype):
    """Where a probability is 0 or 1 it is PyTorch's, and beyond half precision in between."""
    p, t = torch.tensor([1.0, 0.0, 0.002, 0.5], dtype=dtype), torch.tensor([0.5, 0.25, 1.0, 0.0], dtype=dtype)
    name = "aten::binary_cross_entropy_backward"
    assert outcome(name, torch.tensor(1.0, dtype=dtype), p, t, None, 1, dtype=dtype) in ("equal", "as in float64")


def test_elements_are_measured():
    """The rule for low precisions lets no wrong element pass."""
    exact = torch.linspace(0.5, 1, 8, dtype=torch.float64)
    mine = exact.half()
    assert tape.within(exact, mine, mine, [])
    mine[3] *= 1.03
    assert not tape.within(exact, mine, exact.half(), [exact * 1.0001])
    assert tape.within(exact, mine, mine, []) and harness.TOLERANCE[torch.float16][0] < 0.01
