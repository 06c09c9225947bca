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
    "flip": [(MATRIX, [0]), (MATRIX, [1]), (BYTES, [0, 1]), (MATRIX.half(), [1]), (MATRIX.double(), [1]), (TALL, [1]),
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
    "index.Tensor": [(MATRIX, [ROWS, ROWS]), (MATRIX, [None, ROWS]), (MATRIX, [MASK]),
                     (IMAGE, [None, torch.tensor([3, 0]), None]),
                     (MATRIX, [ROWS.unsqueeze(1), ROWS[:40]])],
    "index_put": [(MATRIX, [MASK], torch.tensor(1.5)), (MATRIX, [ROWS], torch.randn(900), True)],
    "embedding": [(MATRIX, PLACES[:100])],
    "take": [(MATRIX, FLAT), (MATRIX.t(), FLAT)],
    "put": [(MATRIX, FLAT, torch.randn(300, 1000), True)],
    "masked_select": [(MATRIX, MASK), (MATRIX.t(), MASK.t()), (MATRIX, MASK[0]), (BYTES, MASK)],
    "masked_scatter": [(MATRIX, MASK, torch.randn(700, 900)), (MATRIX.t(), MASK.t(), torch.randn(900, 700))],
    "nonzero": [(MASK,), (LONG > 0,), (BYTES,), (MATRIX.round(),), (MASK.t(),)],
}


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
    expected = op_of(torch, name)(*args)
    answers = []
    for n in (1, 3):
        threads(n)
        answers.append(harness.theirs(op_of(cresset, name)(*harness.ours(args))))
    for answer in answers:
        sums = "add" in name or "put" in name
        torch.testing.assert_close(answer, expected, rtol=1e-5 * sums, atol=2e-4 * sums)
    assert torch.equal(answers[0], answers[1])
