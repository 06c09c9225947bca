"""log_softmax's backward in f32 takes short rows many at a time: lengths around the blocks, NaN, infinities, and
results that no log_softmax gives."""
import cresset
import pytest

torch = pytest.importorskip("torch", reason="the answers are PyTorch's")

SPECIAL = dict(plain=[], nan=[(0, float("nan"))], infinity=[(-1, float("-inf"))], large=[(0, 200.0), (-1, 85.0)])


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("n", [1, 2, 17, 32, 33, 1024, 1025, 3000])
def test_blocks_of_exponentials(n, what):
    generator = torch.Generator().manual_seed(n)
    rows = 3 if n > 32 else 1500
    grad = torch.randn(rows, n, generator=generator)
    result = torch.log_softmax(3 * torch.randn(rows, n, generator=generator), -1)
    for at, value in SPECIAL[what]:
        result[1, at] = value
    wanted = torch.ops.aten._log_softmax_backward_data(grad.double(), result.double(), -1, torch.float64).float()
    found = cresset.ops.aten._log_softmax_backward_data(cresset.tensor(grad.tolist()), cresset.tensor(result.tolist()),
                                                        -1, cresset.float32)
    assert torch.allclose(torch.tensor(found.tolist()), wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
