"""Arguments that would lead a kernel outside of its operands are refused, and immense ones do not keep it busy for
ever. The whole table is tried under the sanitizers by tests/full/abuse.py; what that found once has its call here."""
import pathlib
import sys

import cresset
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "abuse"))
import nonsense  # noqa: E402

aten = cresset.ops.aten
x4, x5 = cresset.ones(1, 1, 4, 4), cresset.ones(1, 1, 4, 4, 4)
low, high = -2**63, 2**63 - 1


def index(shape, value):
    return cresset.full(shape, value, dtype=cresset.int64)


def refused(call, word=None):
    with pytest.raises((RuntimeError, IndexError, ValueError), match=word):
        call()


POOL2, POOL3 = ([2, 2], [2, 2], [0, 0], [1, 1], False), ([2] * 3, [2] * 3, [0] * 3, [1] * 3, False)
AVERAGE2 = ([2, 2], [2, 2], [0, 0], False, True, None)


@pytest.mark.parametrize("value", [-1, 16, 64, 2**40, low, high])
def test_max_pool_backward_writes_where_the_plane_is(value):
    refused(lambda: aten.max_pool2d_with_indices_backward(cresset.ones(1, 1, 2, 2), x4, *POOL2,
                                                          index((1, 1, 2, 2), value)), "out of bounds")
    if value not in (16,):
        refused(lambda: aten.max_pool3d_with_indices_backward(cresset.ones(1, 1, 2, 2, 2), x5, *POOL3,
                                                              index((1, 1, 2, 2, 2), value)), "out of bounds")


@pytest.mark.parametrize("shape", [(1, 1, 3, 2), (1, 2, 2, 2), (2, 1, 2, 2), (1, 2, 2), (0, 1, 2, 2)])
def test_gradients_of_pools_have_the_results_sizes(shape):
    grad, right = cresset.ones(*shape), cresset.ones(1, 1, 2, 2)
    refused(lambda: aten.max_pool2d_with_indices_backward(grad, x4, *POOL2, index(shape, 0)))
    refused(lambda: aten.max_pool2d_with_indices_backward(right, x4, *POOL2, index(shape, 0)), "indices")
    refused(lambda: aten.avg_pool2d_backward(grad, x4, *AVERAGE2))
    if shape[-2:] == (2, 2):
        refused(lambda: aten._adaptive_avg_pool2d_backward(grad, x4))
    refused(lambda: aten._adaptive_avg_pool3d_backward(cresset.ones(2, 1, 2, 2, 2), x5))
    refused(lambda: aten.avg_pool3d_backward(cresset.ones(1, 1, 3, 3, 3), x5, [2] * 3, [2] * 3, [0] * 3, False, True,
                                             None))


def test_indices_of_pools_are_int64():
    refused(lambda: aten.max_pool2d_with_indices_backward(cresset.ones(1, 1, 2, 2), x4, *POOL2,
                                                          cresset.zeros(1, 1, 2, 2)), "int64")


def test_a_window_far_larger_than_the_image():
    huge = 2**61
    y = cresset.ops.aten.max_pool2d(x4, [2 * huge, 2], [4, 2], [huge, 0])
    assert y.shape[-1] == 2 and float(y.max()) == 1


def test_embedding_dense_backward_has_a_row_for_each_index():
    refused(lambda: aten.embedding_dense_backward(cresset.ones(2, 3), index((5,), 0), 4, -1, False), "row")
    refused(lambda: aten.embedding_dense_backward(cresset.ones(5, 3), index((5,), 4), 4, -1, False), "out of range")
    refused(lambda: aten.embedding_dense_backward(cresset.ones(5, 3), index((5,), 0), -1, -1, False))


def test_multilabel_margin_loss_backward_checks_its_operands():
    self, target, flags = cresset.ones(2, 3), index((2, 3), 0), cresset.zeros(2, 3)
    assert aten.multilabel_margin_loss_backward(cresset.ones(2), self, target, 0, flags).shape == (2, 3)
    for grad, t, f in [(cresset.ones(1), target, flags), (cresset.ones(2, 3), target, flags),
                       (cresset.ones(2), index((2, 1), 0), flags),
                       (cresset.ones(2), target, cresset.zeros(2)), (cresset.ones(2), target.int(), flags),
                       (cresset.ones(2), index((2, 3), 3), flags)]:
        refused(lambda grad=grad, t=t, f=f: aten.multilabel_margin_loss_backward(grad, self, t, 0, f))


def test_ctc_loss_backward_checks_its_operands():
    probs, targets, lengths = cresset.zeros(4, 1, 3), index((1, 2), 1), ([4], [2])
    loss, alpha = aten._ctc_loss(probs, targets, *lengths)
    good = dict(grad=cresset.ones(1), log_probs=probs, targets=targets, input_lengths=[4], target_lengths=[2],
                neg_log_likelihood=loss, log_alpha=alpha, blank=0)
    assert aten._ctc_loss_backward(**good).shape == (4, 1, 3)
    bad = dict(grad=cresset.ones(2), neg_log_likelihood=loss.double(), log_alpha=alpha[:, :, :3].contiguous(),
               input_lengths=[5], target_lengths=[3], blank=3)
    for name, value in bad.items():
        refused(lambda name=name, value=value: aten._ctc_loss_backward(**{**good, name: value}))
    refused(lambda: aten._ctc_loss_backward(**{**good, "log_alpha": alpha[:, :2].contiguous()}))
    refused(lambda: aten._ctc_loss_backward(**{**good, "target_lengths": [high], "targets": index((2,), 1)}))


def test_packed_sequences_check_their_gradient():
    sizes = cresset.tensor([2, 1])
    assert aten._pack_padded_sequence_backward(cresset.ones(3, 4), [2, 2, 4], sizes, False).shape == (2, 2, 4)
    for grad, size in [(cresset.ones(3), [2, 2, 4]), (cresset.ones(3, 5), [2, 2, 4]),
                       (cresset.ones(3, 4, 1), [2, 2, 4]), (cresset.ones(3, 4), [2, -2, 4])]:
        refused(lambda grad=grad, size=size: aten._pack_padded_sequence_backward(grad, size, sizes, False))
    refused(lambda: aten._pack_padded_sequence_backward(cresset.ones(3, 4), [2, 2, 4], cresset.tensor([2, high]),
                                                        False))


@pytest.mark.parametrize("name,rank", [("reflection_pad1d", 3), ("reflection_pad2d", 4), ("reflection_pad3d", 5),
                                       ("replication_pad2d", 4), ("replication_pad3d", 5)])
def test_padding_has_two_entries_a_dimension(name, rank):
    x = cresset.ones(*[4] * rank)
    for pad in ([], [1], [1] * (2 * rank - 5), [1] * (2 * rank - 3)):
        refused(lambda pad=pad: getattr(aten, name)(x, pad), "entries")


def test_noise_has_the_inputs_sizes():
    for noise in (cresset.ones(2), cresset.ones(3, 4, 1), cresset.ones(3, 4, dtype=cresset.float64)):
        for name in ("rrelu_with_noise_functional", "rrelu_with_noise"):
            refused(lambda name=name, noise=noise: getattr(aten, name)(cresset.ones(3, 4), noise, training=True),
                    "noise")


def test_immense_sizes_beside_an_empty_one():
    empty = cresset.ones(2, 0)
    for call in (lambda: empty.repeat(2**62, 1), lambda: aten.constant_pad_nd(empty, [0, 0, 2**62, 0]),
                 lambda: cresset.empty(2**62, 4, 0),
                 lambda: cresset.ones(1).expand(2**40, 2**40), lambda: cresset.ones(3).as_strided([2], [2**62]),
                 lambda: cresset.ones(3, 3)[::2**62]):
        refused(call)
    assert empty.repeat(2**40, 1).shape == (2**41, 0)
    assert aten.constant_pad_nd(empty, [0, 0, 2**40, 0]).shape == (2**40 + 2, 0)
    assert cresset.empty(2**40, 0).flip(0).shape == cresset.empty(2**40, 0).roll(1, 0).shape == (2**40, 0)


def test_batch_norm_of_no_batch_and_of_no_statistics():
    y, mean, rstd = aten._native_batch_norm_legit.no_stats(cresset.ones(0, 3), None, None, True, 0.1, 1e-5)
    assert y.shape == (0, 3) and mean.shape == (3,)
    refused(lambda: aten._native_batch_norm_legit.no_stats(cresset.ones(2, 3), None, None, False, 0.1, 1e-5),
            "training")


def test_group_norm_counts_its_elements():
    refused(lambda: aten.native_group_norm(cresset.ones(2, 4, 3), None, None, 2, 4, 5, 2, 1e-5), "elements")


def test_integers_at_the_ends():
    refused(lambda: cresset.special.multigammaln(cresset.ones(3) * 5, low))
    ones = cresset.ones(3, 3)
    assert cresset.equal(cresset.tril(ones, high), ones) and not cresset.triu(ones, high).any()
    refused(lambda: cresset.tril(ones, low))
    assert cresset.tril_indices(2**20, 2, -2**20 + 2).shape == (2, 3)
    refused(lambda: aten.lstm.input(cresset.ones(2, 1, 3), [cresset.ones(1, 1, 3)] * 2, [cresset.ones(12, 3)] * 2,
                                    False, 2**62, 0.0, False, False, False), "layers")


def test_polynomials_of_an_immense_degree_end():
    x = cresset.tensor([0.0, 0.5, 1.0, 1.0 + 2.0**-52, -2.0], dtype=cresset.float64)
    for name in ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
                 "chebyshev_polynomial_w", "hermite_polynomial_h",
                 "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"):
        for degree in (2**40, 2**62, 1e300, float("nan")):
            assert getattr(cresset.special, name)(x, degree).shape == (5,)
    assert cresset.polygamma(2**40, x).shape == cresset.special.zeta(3.0,
                                                                     cresset.tensor([-2.0**40 - 0.5])).shape[:0] + (5,)


def test_chebyshev_polynomials_of_a_high_degree_agree_with_their_recurrence():
    for name, first in (("t", lambda x: x), ("u", lambda x: 2 * x), ("v", lambda x: 2 * x - 1),
                        ("w", lambda x: 2 * x + 1)):
        for x in (1.0001, -1.0001, 1.00000001):
            before, p = 1.0, first(x)
            for _ in range(4999):
                before, p = p, 2 * x * p - before
            got = float(getattr(cresset.special, f"chebyshev_polynomial_{name}")(cresset.tensor(x,
                    dtype=cresset.float64), 5000))
            assert abs(got - p) <= 1e-7 * abs(p), (name, x)


def functions_with_out():
    for name in cresset._C._op_names():
        row = cresset._C._row(name)
        if row["variant"] == "functional" and row["out"] and hasattr(cresset,
                                                                     name.removeprefix("aten::").split(".")[0]):
            yield name


def test_out_takes_tensors_only():
    """In every function with out=: what is no tensor is a TypeError, as in PyTorch."""
    tried = 0
    for name in functions_with_out():
        function, results = getattr(cresset,
                                    name.removeprefix("aten::").split(".")[0]), len(cresset._C._signature(name)[1])
        for args, kwargs in nonsense.recorded(name)[:1]:
            for out in (0, 1.5, True, 1j, "x", object(), cresset.float32, [0] * results, (1.5,) * results,
                        [None] * results, {}):
                with pytest.raises(TypeError):
                    function(*args, **kwargs, out=out)
            tried += 1
    assert tried > 400


def test_attention_reads_within_its_operands():
    q, k = cresset.ones(2, 4, 5, 8), cresset.ones(2, 4, 7, 8)
    flash = aten._scaled_dot_product_flash_attention_for_cpu
    assert flash(q, k, k, attn_mask=cresset.zeros(1, 7))[0].shape == (2, 4, 5, 8)
    for key, mask in ((cresset.ones(1, 4, 7, 8), None), (cresset.ones(2, 3, 7, 8), None), (k, cresset.zeros(0, 7)),
                      (k, cresset.zeros(5, 6)), (k, cresset.zeros(3, 1, 5, 7))):
        refused(lambda key=key, mask=mask: flash(q, key, key, attn_mask=mask))
    attend = cresset.nn.functional.scaled_dot_product_attention
    assert attend(q, k[:, :2], k[:, :2], enable_gqa=True).shape == (2, 4, 5, 8)
    for heads in (0, 3):
        key = cresset.ones(2, heads, 7, 8)
        refused(lambda key=key: attend(q, key, key, enable_gqa=True), "heads")
    refused(lambda: attend(q, k, k, attn_mask=cresset.zeros(4, 7)), "attn_mask")


def test_lists_are_as_long_as_kernels_read():
    refused(lambda: aten.col2im(cresset.ones(4, 9), [4, 4], [2, 2], [1, 1], [0], [1, 1]), "padding")
    refused(lambda: aten.im2col(cresset.ones(1, 4, 4), [2, 2], [1], [0, 0], [1, 1]), "dilation")
    refused(lambda: aten.convolution_backward(cresset.ones(1, 1, 3), cresset.ones(1, 1, 4), cresset.ones(1, 1, 2),
                                              None, [1], [0], [1], False, [0], 1, [True]), "output_mask")
    refused(lambda: aten.convolution(cresset.ones(1, 1, 4), cresset.ones(1, 1, 2), None, [high - 1], [0], [1], False,
                                     [0], 1), "2\\^31")
    refused(lambda: aten.convolution(cresset.ones(*[2] * 6), cresset.ones(2, 2, 1, 1, 1, 1), None, [1], [0], [1],
                                     False, [0], 1), "rank")


def test_a_bias_of_one_element_is_repeated():
    x, w = cresset.ones(2, 3), cresset.ones(40, 3)
    assert cresset.nn.functional.linear(x, w, cresset.full((1,), 2.0)).tolist() == [[5.0] * 40] * 2


def test_resampling_by_any_factor():
    for name in ("_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "upsample_bicubic2d", "upsample_bilinear2d"):
        for scale in (5e-324, 1e300, float("inf")):
            assert getattr(aten, name)(x4, [3, 3], False, scale, scale).shape == (1, 1, 3, 3)


def test_out_is_memory_of_the_right_kind():
    x = cresset.ones(4, 4)
    refused(lambda: cresset.sqrt(x, out=cresset.empty(4, 4, device="meta")), "meta")
    refused(lambda: cresset.sqrt(x.to("meta"), out=cresset.empty(0)), "meta")
    indices = cresset.ones(4, 4, dtype=cresset.int64)
    refused(lambda: cresset.nonzero(indices, out=indices), "shares memory")
    wide = cresset.empty(0, dtype=cresset.float64)
    assert cresset.scatter(cresset.zeros(4), 0, index((1,), 2), cresset.ones(1),
                           out=wide).tolist() == wide.tolist() == [0, 0, 1, 0]


def test_the_smallest_integers_are_numbers():
    x = cresset.ones(2)
    assert x.mul(low).tolist() == x.clone().multiply_(low).tolist() == [float(low)] * 2
    assert cresset.diagonal_copy(cresset.ones(3, 3), low).shape == (0,)
    assert aten._assert_scalar(low, "") is None
    assert cresset.scatter(index((1,), 2**62), 0, index((1,), 0), 6, reduce="multiply").tolist() == [-2**63]


def test_a_loss_of_one_weight():
    args = (cresset.tensor(1.0), cresset.ones(2, 3), index((2,), 0), None, 1, -100)
    refused(lambda: aten.nll_loss_backward(*args, cresset.ones(2, 0)), "total_weight")
    assert aten.nll_loss_backward(*args, cresset.tensor(2.0)).shape == (2, 3)


def test_no_millions_of_empty_parts():
    for call in (lambda: cresset.tensor_split(x4, 2**32), lambda: cresset.chunk(cresset.ones(0), 2**32)):
        refused(call, "parts")


def test_pivots_belong_to_their_matrices():
    pivots = lambda *shape: cresset.ones(*shape, dtype=cresset.int32)
    assert cresset.lu_unpack(cresset.ones(4, 3, 3), pivots(4, 3))[0].shape == (4, 3, 3)
    for bad in (pivots(1, 3), pivots(2, 3), pivots(4, 2), pivots(3), cresset.full((4, 3), -2**31, dtype=cresset.int32)):
        refused(lambda bad=bad: cresset.lu_unpack(cresset.ones(4, 3, 3), bad), "ivots")
    assert aten.geqrf(cresset.ones(2**40, 3, 0))[1].shape == (2**40, 0)


@pytest.mark.parametrize("number", [low, low + 1, low + 1000, -2**62 - 1])
def test_the_lowest_integers_are_numbers(number):
    """And not the tags that stand for symbols while a program is recorded."""
    x = cresset.tensor([1.0, 2.0, 2.0])
    for bound in (2.75, 0.0, 3):
        refused(lambda bound=bound: cresset.arange(number, bound))
    refused(lambda: cresset.arange(0, number, -1))
    refused(lambda: cresset.arange(2**62, -2**62, -1), "beyond 64 bits")
    refused(lambda: aten.multi_margin_loss(cresset.ones(2, 3), index((2,), 0), p=number), "p must be 1 or 2")
    refused(lambda: cresset.histc(x, 3, 0, number), "max")
    assert cresset.histc(x, 1, number, 3).tolist() == [3.0]


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("mode, padding", [(-1, 0), (3, 0), (low, 0), (2**32, 0), (high, 1), (0, -1), (1, 3)])
def test_grid_samplers_know_three_modes_and_three_paddings(rank, mode, padding):
    x, grid = cresset.ones(1, 1, *[2] * rank), cresset.zeros(1, *[2] * rank, rank)
    word = "interpolation_mode" if mode not in (0, 1, 2) else "padding_mode"
    refused(lambda: cresset.grid_sampler(x, grid, mode, padding, False), word)
    refused(lambda: getattr(aten, f"grid_sampler_{rank}d")(x, grid, mode, padding, False), word)
    backward = getattr(aten, f"grid_sampler_{rank}d_backward")
    refused(lambda: backward(x, x, grid, mode, padding, False, [True, True]), word)


def test_bicubic_samples_are_of_images():
    x, grid = cresset.ones(1, 1, 2, 2, 2), cresset.zeros(1, 2, 2, 2, 3)
    refused(lambda: aten.grid_sampler_3d(x, grid, 2, 0, False), "bicubic")
    refused(lambda: aten.grid_sampler_3d_backward(x, x, grid, 2, 0, False, [True, True]), "bicubic")


def test_one_hot_of_the_last_integer():
    refused(lambda: cresset.nn.functional.one_hot(cresset.tensor([1, high])), "class 9223372036854775807")
    refused(lambda: cresset.nn.functional.one_hot(cresset.tensor([1, high]), 4), "class 9223372036854775807")


def test_packing_no_weights_for_immensely_many_groups():
    for shape in ((0, 0, 0, 0), (0, 5, 3, 3)):
        assert cresset.ops.cresset.pack_conv(cresset.ones(*shape), 2**40).numel() == 0


def test_windows_of_fractional_pools_are_not_negative():
    drawn = cresset.full((1, 1, 3), 0.5)
    refused(lambda: aten.fractional_max_pool3d(x5, [-2**62, 2, 2], [3, 3, 1], drawn), "must not be negative")
    refused(lambda: aten.fractional_max_pool2d(x4, [2, -1], [3, 3], drawn[..., :2]), "must not be negative")


@pytest.mark.parametrize("right", [(), (4,), (1, 4, 4)])
def test_least_squares_has_a_right_side_of_as_many_dimensions(right):
    for full in (False, True):
        refused(lambda: cresset.ops.cresset.lstsq(cresset.ones(4, 4), cresset.ones(right), None, full),
                "as many dimensions")


def test_weights_do_not_widen_their_input():
    """Each of these would broadcast."""
    f = cresset.nn.functional
    refused(lambda: f.prelu(cresset.ones(2, 1, 3), cresset.ones(4)), "one a channel")
    refused(lambda: f.prelu(cresset.ones(2, 3), cresset.ones(1, 3)), "number or a vector")
    refused(lambda: f.rms_norm(cresset.ones(2, 5), (7,)), "last sizes")
    refused(lambda: f.rms_norm(cresset.ones(2, 1), (1,), cresset.ones(4)), "'weight'")
    refused(lambda: f.rms_norm(cresset.ones(3, 5), (5,), cresset.ones(3, 5)), "'weight'")
    refused(lambda: f.rms_norm(cresset.ones(5), (2, 5)), "the input only 1")
    refused(lambda: f.rms_norm(cresset.ones(5), ()), "at least one dimension")
    refused(lambda: cresset.addr(cresset.ones(3, 4), cresset.ones(1), cresset.ones(4)), "addr")
