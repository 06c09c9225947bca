"""N1: what of embedding bags cannot be compared with PyTorch, which divides by the frequency of another row."""
import cresset
import pytest


@pytest.mark.parametrize("mode", [0, 1])
def test_gradients_are_divided_by_the_frequency_of_their_row(mode):
    indices, bag, sizes = cresset.tensor([3, 1, 1, 2, 1, 2]), cresset.tensor([0, 0, 0, 0, 1, 1]), cresset.tensor([4, 2])
    grad = cresset.tensor([[1.0, 2.0], [10.0, 20.0]])
    got = cresset.ops.aten._embedding_bag_dense_backward(grad, indices, bag, sizes, sizes, 5, True, mode, None, -1)
    share = [[0.25, 0.5] if mode else [1.0, 1.0]][0]
    want = [[0.0] * 2 for _ in range(5)]
    for row, b in zip(indices.tolist(), bag.tolist()):
        for k in range(2):
            want[row][k] += grad.tolist()[b][k] * share[b] / indices.tolist().count(row)
    assert got.tolist() == [pytest.approx(r) for r in want]


def test_sparse_gradients_are_refused():
    one = cresset.tensor([0])
    with pytest.raises(NotImplementedError, match="sparse"):
        cresset.ops.aten._embedding_bag_backward(cresset.ones(1, 2), one, one, one, one, one, 3, False, 0, True, None)


def test_detach_in_place_keeps_the_tensor_but_not_its_gradient():
    t = cresset.ones(2).requires_grad_()
    assert t.detach_() is t
    assert not t.requires_grad
