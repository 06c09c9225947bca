"""Movement, indexing, scans and reductions at sizes that threads share: PyTorch's answers, and the same ones with one
thread as with three. The samples of the other tests are small, and take the loops of one thread only."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
torch = pytest.importorskip("torch", reason="the answers are PyTorch's")

import cresset  # noqa: E402
import harness  # noqa: E402

torch.manual_seed(5)
IMAGE = torch.randn(3, 4, 120, 170)
MATRIX = torch.randn(700, 900)
TALL = torch.randn(150_000, 3)
LONG = torch.randn(400_003)
BYTES = torch.randint(-100, 100, (700, 900), dtype=torch.int8)
MASK = torch.rand(700, 900) < 0.3
ROWS = torch.randint(0, 700, (1500,))
PLACES = torch.randint(0, 700, (700, 900))
COLUMNS = torch.randint(0, 900, (700, 900))
FEW = torch.randint(0, 3, (150_000, 3))
FLAT = torch.randint(-630_000, 630_000, (300, 1000))

CALLS = {
    "flip": [(MATRIX, [0]), (MATRIX, [1]), (BYTES, [0, 1]), (MATRIX.half(), [1]), (MATRIX.double(), [1]),
             (TALL, [1]), (MASK, [1]),
             (MATRIX.to(torch.complex128), [1]), (MATRIX[:, :61].half(), [1]), (BYTES[:, :67], [1]),
             (MATRIX.t(), [0]), (IMAGE.to(memory_format=torch.channels_last), [2])],
    "roll": [(MATRIX, [37, -11], [0, 1]), (LONG, [1234]), (TALL, [2], [1])],
    "repeat": [(MATRIX, [2, 3]), (TALL, [1, 4]), (LONG[:1000], [300, 1]), (BYTES, [1, 2, 2])],
    "constant_pad_nd": [(IMAGE, [3, 2, 1, 4], 7.5), (MATRIX, [-5, 900, 2, -3]), (BYTES, [1, 1])],
    "reflection_pad2d": [(IMAGE, [5, 3, 2, 7])],
    "replication_pad3d": [(IMAGE, [5, 3, 2, 7, 1, 1])],
    "_pad_circular": [(IMAGE, [5, 3, 2, 7])],
    "reflection_pad2d_backward": [(torch.randn(3, 4, 129, 178), IMAGE, [5, 3, 2, 7])],
    "replication_pad2d_backward": [(torch.randn(3, 4, 129, 178), IMAGE, [5, 3, 2, 7])],
    "triu": [(MATRIX, 3), (IMAGE.transpose(2, 3), -2)],
    "tril": [(BYTES, -40)],
    "im2col": [(IMAGE, [3, 3], [1, 2], [1, 0], [2, 1])],
    "col2im": [(torch.randn(3, 36, 60 * 166), [120, 170], [3, 3], [1, 2], [1, 0], [2, 1])],
    "upsample_nearest2d": [(IMAGE, [240, 341])],
    "gather": [(MATRIX, 0, PLACES), (MATRIX, 1, COLUMNS), (BYTES, 1, COLUMNS[:, :5]), (TALL, 1, FEW),
               (MATRIX.t(), 0, COLUMNS.t()),
               (MATRIX, 0, ROWS.unsqueeze(1).expand(1500, 900))],
    "scatter.src": [(MATRIX, 0, PLACES, torch.randn(700, 900)), (TALL, 1, FEW, torch.randn(150_000, 3))],
    "scatter_add": [(MATRIX, 0, PLACES, torch.randn(700, 900)), (MATRIX, 1, COLUMNS, torch.randn(700, 900))],
    "scatter_reduce.two": [(MATRIX, 0, PLACES, torch.randn(700, 900), "amax"),
                           (MATRIX, 1, COLUMNS, torch.randn(700, 900), "amin")],
    "index_select": [(MATRIX, 0, ROWS), (MATRIX, 1, ROWS), (TALL, 1, FEW[0]), (BYTES.t(), 1, ROWS)],
    "index_add": [(MATRIX, 0, ROWS, torch.randn(1500, 900)), (MATRIX, 1, ROWS, torch.randn(700, 1500))],
    "index_copy": [(MATRIX, 0, ROWS[:300].unique(), torch.randn(len(ROWS[:300].unique()), 900))],
    "index_fill.int_Scalar": [(MATRIX, 1, ROWS, 2.5), (BYTES, 0, ROWS - 700, 3)],
    "index.Tensor": [(TALL, [TALL > 0]), (IMAGE.transpose(1, 2), [IMAGE.transpose(1, 2) > 0]), (MATRIX, [ROWS, ROWS]),
                     (MATRIX, [None, ROWS]), (MATRIX, [MASK]),
                     (IMAGE, [None, torch.tensor([3, 0]), None]),
                     (MATRIX, [ROWS.unsqueeze(1), ROWS[:40]])],
    "index_put": [(MATRIX, [MASK], torch.tensor(1.5)), (MATRIX, [ROWS], torch.randn(900), True)],
    "embedding": [(MATRIX, PLACES[:100])],
    "take": [(MATRIX, FLAT), (MATRIX.t(), FLAT)],
    "put": [(MATRIX, FLAT, torch.randn(300, 1000), True)],
    "masked_select": [(MATRIX, MASK), (MATRIX.t(), MASK.t()), (MATRIX, MASK[0]), (BYTES, MASK)],
    "masked_scatter": [(MATRIX, MASK, torch.randn(700, 900)), (MATRIX.t(), MASK.t(), torch.randn(900, 700))],
    "rot90": [(IMAGE, 1, [2, 3]), (IMAGE, 3, [1, 3])],
    "mul.Tensor": [(TALL, TALL[:, :1]), (TALL[:, 1:], TALL[:, :-1]), (TALL.double(), TALL[:1].double())],
    "sub.Tensor": [(TALL.half(), TALL[:, :1].half()), (FEW[:, 1:], FEW[:, :-1]), (IMAGE[..., 1:3], IMAGE[..., :1])],
    "amax": [(TALL, [1]), (MATRIX, [1]), (BYTES, [0, 1]), (BYTES, [1]), (MATRIX.half(), [1])],
    "max": [(BYTES,), (BYTES.to(torch.uint8),), (FEW,)],
    "max_pool2d_with_indices": [(IMAGE, [3, 2], [2, 1], [1, 1], [1, 2])],
    "max_pool1d": [(IMAGE[0], [3], [1])],
    "max.dim": [(MATRIX.where(MATRIX < 3, torch.nan), 1), (MATRIX, 0)],
    "mode": [(FEW, 1), (FEW.view(3, 50, 3000), 0), (FEW.view(50, 9, 1000)[:, ::2].transpose(0, 2), 1, True)],
    "median.dim": [(TALL, 1), (TALL.where(TALL < 1.5, torch.nan).view(2, 75, 3000), 0), (MATRIX[:, :16], 1, True),
                   (MATRIX[:, :17], 1), (FEW.view(50, 9, 1000).transpose(0, 2), 1)],
    "nanmedian.dim": [(TALL.where(TALL < 1.5, torch.nan), 1), (TALL.half().view(10, 45, 1000), 0)],
    "kthvalue": [(MATRIX[:, ::80], 4, 1)],
    "sort": [(FEW,), (MATRIX[:16], 0, True), (TALL.double(), 1, True)],
    "topk": [(MATRIX[:, :13], 5), (MATRIX[:13], 13, 0, False)],
    "bincount": [(ROWS,), (FEW.view(-1),), (FLAT.abs().view(-1),), (FEW[:, 0], LONG[:150_000].double(), 9)],
    "nonzero": [(MASK,), (LONG > 0,), (BYTES,), (MATRIX.round(),), (MASK.t(),), (FEW,), (FEW[:, :2],), (FEW.t(),),
                (FEW.view(500, 2, 1, 5, 90) > 1,), (FEW.view(250, 600, 3)[:0],),
                (FEW.view(30, 30, 500).transpose(0, 1),), (TALL.round().to(torch.complex64),), (TALL.round().half(),),
                (torch.tensor([-0.0, torch.nan, 0.0, 1.0]).repeat(99, 5).double(),), (torch.tensor(3.0),)],
}

PIXELS = torch.randint(0, 4, (3, 120, 170))
SUMS = {  # within the roundings of a sum
    "sum": [(LONG,), (MATRIX,), (MATRIX.t(),)],
    "sum.dim_IntList": [(TALL, [1]), (MATRIX, [1]), (MATRIX, [0]), (IMAGE, [0, 2]), (MATRIX[:, :30], [1])],
    "prod.dim_int": [(TALL, 1), (MATRIX[:, :20], 1), (MATRIX[:20], 0)],
    "nansum": [(LONG,), (TALL, [1]), (MATRIX.where(MATRIX < 1, torch.nan), [0])],
    "linalg_vector_norm": [(LONG,), (MATRIX, 1, [1]), (TALL, 2, [1]), (TALL, float("inf"), [1]), (MATRIX, 3, [0])],
    "avg_pool2d": [(IMAGE, [3, 2], [2, 1], [1, 1]), (IMAGE, [5, 5], [1, 1], [2, 2], True, False)],
    "_adaptive_avg_pool2d": [(IMAGE, [17, 23])],
    "avg_pool2d_backward": [(torch.randn(3, 4, 60, 171), IMAGE, [3, 2], [2, 1], [1, 1], False, True, None)],
    "nll_loss2d_forward": [(IMAGE, PIXELS, torch.rand(4), 1, 2), (IMAGE, PIXELS, None, 0, -100),
                           (IMAGE, PIXELS, None, 2, 1)],
    "nll_loss2d_backward": [(torch.tensor(0.7), IMAGE, PIXELS, torch.rand(4), 1, 2, torch.tensor(3.0))],
    "nll_loss_forward": [(MATRIX, COLUMNS[:, 0], None, how, 7) for how in (0, 1, 2)] + [
                         (TALL.t().contiguous().t(), FEW[:, 1], torch.rand(3), 1, 2)],
    "nll_loss_backward": [(LONG[:700], MATRIX, COLUMNS[:, 1], None, 0, 7, torch.tensor(0.0)),
                          (torch.tensor(0.7), TALL, FEW[:, 1], torch.rand(3), 1, 2, torch.tensor(3.0))],
    "_log_softmax": [(IMAGE, 1, False), (MATRIX, 0, False), (TALL, 1, False), (TALL, 0, False), (MATRIX, 1, False)],
    "_softmax": [(IMAGE, 2, False), (IMAGE, 0, False), (TALL, 1, False), (MATRIX, 1, False), (MATRIX[:, :33], 1, False),
                 (LONG[:160_000].view(5000, 32), 1, False), (LONG[:400_000].view(5000, 80), 0, False)],
    "_softmax_backward_data": [(TALL, TALL.softmax(1), 1, torch.float32),
                               (MATRIX, MATRIX.softmax(1), 1, torch.float32)],
    "_log_softmax_backward_data": [(TALL, TALL.log_softmax(1), 1, torch.float32),
                                   (MATRIX, MATRIX.log_softmax(0), 0, torch.float32)],
    "native_group_norm": [(IMAGE, torch.rand(4), torch.rand(4), 3, 4, 20_400, groups, 1e-5) for groups in (1, 2, 4)],
    "native_layer_norm": [(MATRIX, [900], LONG[:900], LONG[900:1800], 1e-5), (TALL, [3], None, None, 1e-5)],
    "_native_batch_norm_legit.no_stats": [(IMAGE, torch.rand(4), None, True, 0.1, 1e-5)],
    "_native_batch_norm_legit_no_training": [
        (IMAGE.double(), None, torch.rand(4).double(), torch.rand(4).double(), torch.rand(4).double(), 0.1, 1e-5),
        (IMAGE.transpose(2, 3), None, torch.rand(4), torch.rand(4), torch.rand(4), 0.1, 1e-5)],
    "ctc_loss.IntList": [(TALL.view(50, 300, 30).log_softmax(2), 1 + FEW[:300].repeat(1, 7),
                          [50 - i % 9 for i in range(300)], [i % 22 for i in range(300)], 0, 0)],
    "_weight_norm_interface": [(MATRIX, MATRIX[:, :1].contiguous(), 0), (MATRIX, MATRIX[:1].contiguous(), 1)],
    "prod": [(LONG[:40] / 2,), (MATRIX.clamp(0.99, 1.01),)],
    "embedding_dense_backward": [(torch.randn(1500, 40), ROWS, 700, 3, False),
                                 (torch.randn(1500, 40), ROWS, 700, -1, True)],
    "index_reduce": [(MATRIX, 0, ROWS, torch.randn(1500, 900), how) for how in ("mean", "amax", "prod")] + [
                     (MATRIX.double(), 1, ROWS, torch.randn(700, 1500).double(), "prod")],
}
CALLS |= SUMS


def variants():
    return [pytest.param(name, i, id=f"{name}-{i}") for name, calls in CALLS.items() for i in range(len(calls))]


@pytest.fixture
def threads():
    before = cresset.get_num_threads()
    yield cresset.set_num_threads
    cresset.set_num_threads(before)


def op_of(package, name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(package.ops.aten, packet), overload or "default")


@pytest.mark.parametrize("name, i", variants())
def test_large(name, i, threads):
    args = CALLS[name][i]
    listed = lambda x: x if isinstance(x, (tuple, list)) else [x]
    call = lambda package, given: listed(op_of(package, name)(*given))
    expected, answers = call(torch, args), []
    for n in (1, 3):
        threads(n)
        answers.append(listed(harness.theirs(call(cresset, tuple(harness.ours(args))))))
    sums = name in SUMS or "add" in name or "put" in name
    for a, b, e in zip(*answers, expected):
        largest = float(e.abs().max()) if sums and e.numel() else 0
        torch.testing.assert_close(a, e, rtol=1e-5 * sums, atol=2e-5 * largest if largest < 1e30 else 0, equal_nan=True)
        assert torch.equal(a, b) or e.isnan().any()


@pytest.mark.parametrize("x", (FEW, FEW.t(), LONG.round(), FEW.view(30, 30, 500).transpose(0, 1)))
@pytest.mark.parametrize("size", (0, 1, 5, 700, 70_000, 500_000))
def test_places_up_to_a_number(x, size):
    expected = torch.ops.aten.nonzero_static(x, size=size, fill_value=-7)
    answer = harness.theirs(cresset.ops.aten.nonzero_static(harness.ours(x), size=size, fill_value=-7))
    assert torch.equal(answer, expected)


@pytest.mark.parametrize("scale", (1e25, 1e-30))
def test_norms_beyond_the_range_of_squares(scale):
    """PyTorch's are infinite and 0."""
    x = LONG * scale
    found = float(cresset.linalg.vector_norm(harness.ours(x)).item())
    assert found == pytest.approx(float(torch.linalg.vector_norm(x.double())), rel=1e-5)
