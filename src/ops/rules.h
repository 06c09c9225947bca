/* rules.h: the rule vocabulary that rows name in .dtype and .shape. A rule reads r->arg and fills r->common and
 * r->result (dtype rules) or r->out[] (shape rules); it never touches data. Sizes are cr_dim: compare them only with
 * cr_dim_known, cr_dim_decide, cr_dim_require or cr_dim_assume (sym.h says which to use when). */
#ifndef CR_RULES_H
#define CR_RULES_H

#include "ops/op.h"

#define RULE(name) cr_status name(cr_rule *r)

/* What a kernel takes for granted about its operands (rule.c). Every size and dtype that a kernel does not look at
 * itself is required here; sizes that are not known yet become guards or asserts, which a compiled model checks when it
 * runs. Index *values* are the kernel's own to check. */
CR_NODISCARD cr_status cr_rule_require_rank(const cr_rule *r, int i, int low, int high);
CR_NODISCARD cr_status cr_rule_require_sizes(cr_rule *r, int i, int rank, const cr_dim *size);
CR_NODISCARD cr_status cr_rule_require_dtype(const cr_rule *r, int i, int dtype);
/* A list of exactly n entries: for kernels that read so many (cr_rule_ints lets one entry stand for all). */
CR_NODISCARD cr_status cr_rule_exact_ints(cr_rule *r, int i, int n, cr_dim *out);

/* Calls with rare dtypes (rules_rare.c): -1 refused though the op accepts the dtype, 1 the other way round, 0 as the
 * op. */
int cr__rule_judge_rare(const cr_rule *r, bool in_place);

/* pointwise (rules_pointwise.c) */
RULE(dtype_promote);       /* result = common = the promoted dtype of all tensor operands */
RULE(dtype_promote_float); /* integers become the default floating dtype */
RULE(dtype_ldexp);
RULE(dtype_ordered);       /* promoted, complex refused */
RULE(dtype_float_ordered);
RULE(dtype_real);          /* the same, but not implemented instead of wrong */
RULE(dtype_compare);       /* common = promoted, result = bool */
RULE(dtype_compare_real);
RULE(dtype_add);
RULE(dtype_subtract);
RULE(dtype_negative);
RULE(dtype_positive);
RULE(dtype_divide);
RULE(dtype_power);
RULE(dtype_float_power);
RULE(dtype_addcdiv);
RULE(dtype_lerp);
RULE(check_prelu);
RULE(dtype_all_same);      /* no promotion: all tensors must have argument 0's dtype */
RULE(dtype_where);
RULE(dtype_masked_fill);
RULE(dtype_clamp);
RULE(dtype_relu);
RULE(dtype_hardtanh);
RULE(dtype_gelu);
RULE(dtype_celu);
RULE(dtype_isclose);
RULE(dtype_abs);           /* complex to real */
RULE(dtype_angle);
RULE(dtype_complex);       /* real to complex */
RULE(dtype_polygamma);
RULE(dtype_frexp);
RULE(shape_broadcast);
RULE(shape_broadcast_dense);
RULE(shape_angle);
RULE(shape_conj);
RULE(shape_frexp);

/* views (rules_view.c, rules_split.c) */
RULE(shape_view); RULE(shape_reshape); RULE(shape_view_as); RULE(shape_reshape_as);
RULE(shape_flatten); RULE(shape_unflatten); RULE(shape_ravel); RULE(shape_unsqueeze); RULE(shape_atleast_1d);
RULE(shape_atleast_2d); RULE(shape_atleast_3d); RULE(shape_squeeze); RULE(shape_squeeze_dims); RULE(shape_expand);
RULE(shape_expand_as); RULE(shape_permute); RULE(shape_transpose); RULE(shape_t); RULE(shape_numpy_T); RULE(shape_mT);
RULE(shape_movedim); RULE(shape_slice); RULE(shape_select); RULE(shape_narrow); RULE(shape_diagonal);
RULE(shape_as_strided); RULE(shape_unfold); RULE(shape_split); RULE(shape_split_sizes); RULE(shape_chunk);
RULE(shape_tensor_split); RULE(shape_hsplit); RULE(shape_vsplit); RULE(shape_dsplit); RULE(shape_unbind);

/* copies, conversions, writes into a part, dtype views (rules_copy.c) */
RULE(shape_clone); RULE(shape_contiguous); RULE(shape_to_copy); RULE(shape_to); RULE(shape_same); RULE(shape_alias);
RULE(shape_detach);
 RULE(shape_copy); RULE(shape_fill_tensor); RULE(shape_select_scatter); RULE(shape_slice_scatter);
RULE(shape_diagonal_scatter); RULE(shape_as_strided_scatter); RULE(shape_select_backward); RULE(shape_slice_backward);
RULE(shape_diagonal_backward); RULE(shape_unfold_backward); RULE(shape_view_dtype); RULE(shape_view_as_real);
RULE(shape_view_as_complex);
RULE(shape_real);
RULE(shape_imag);
RULE(shape_resize);
RULE(shape_resize_as);
RULE(shape_set);
RULE(shape_fill_diagonal);
cr_status cr__movedim_order(int rank, const cr_arg *from, const cr_arg *to, int *order);
/* expand_view.c: decompositions and derivatives in C */
cr_expand_fn expand_reshape;
cr_expand_fn expand_reshape_core;
cr_expand_fn expand_conversion;
cr_expand_fn expand_movedim;
cr_expand_fn expand_split;
cr_expand_fn expand_tensor_split;
cr_expand_fn expand_broadcast_tensors;
cr_expand_fn expand_stack;
cr_expand_fn grad_as_strided;
cr_expand_fn grad_as_strided_scatter;

/* factories, questions, assertions (rules_factory.c) */
RULE(dtype_none); RULE(shape_empty); RULE(shape_zeros); RULE(shape_full); RULE(shape_new); RULE(shape_empty_strided);
RULE(shape_new_empty_strided); RULE(shape_empty_permuted); RULE(shape_like_option); RULE(shape_scalar_tensor);
RULE(shape_arange); RULE(shape_linspace); RULE(shape_eye); RULE(shape_tril_indices); RULE(shape_triu_indices);
RULE(shape_sym_size); RULE(shape_sym_numel); RULE(shape_sym_offset); RULE(shape_dim); RULE(shape_is_float);
RULE(shape_is_complex);
RULE(shape_is_same_size);
RULE(shape_is_set_to);
RULE(shape_item);
RULE(shape_equal);
RULE(shape_assert_scalar);
RULE(shape_assert_async); RULE(shape_assert_metadata); RULE(shape_constrain_range); RULE(shape_constrain_size);

/* joins, flips, padding (rules_move.c) */
RULE(dtype_cat);
RULE(shape_cat);
RULE(shape_flip);
RULE(shape_roll);
RULE(shape_repeat);
RULE(shape_triangle);
RULE(shape_constant_pad);
RULE(shape_circular_pad);
RULE(shape_circular_pad_backward);
RULE(shape_reflection_pad);
RULE(shape_replication_pad);
RULE(shape_reflection_pad_backward);
RULE(shape_replication_pad_backward);
/* A dense output in the memory format that `like` suggests. */
cr_status cr__rule_add_format(cr_rule *r, const cr_meta *like, int rank, const cr_dim *size);

/* steps of optimizers over lists (rules_optim.c) */
RULE(shape_fused_optimizer);

/* indexing (rules_index.c) */
RULE(shape_index);
RULE(shape_index_put);
RULE(shape_index_select);
RULE(shape_index_add);
RULE(shape_index_copy);
RULE(shape_index_fill);
RULE(shape_index_reduce);
RULE(shape_segment_reduce);
RULE(shape_segment_reduce_backward);
RULE(shape_gather);
RULE(shape_scatter);
RULE(shape_nonzero);
RULE(shape_nonzero_static);
RULE(shape_masked_select);
RULE(shape_masked_scatter);
RULE(shape_take);
RULE(shape_put);
RULE(shape_embedding);
RULE(shape_embedding_backward);

/* embedding bags (rules_bag.c) */
RULE(shape_embedding_bag);
RULE(check_bag_padding);
RULE(check_bag_backward);
RULE(check_bag_dense_backward);
RULE(check_bag_weights_backward);
RULE(shape_bag_dense_backward);
RULE(shape_bag_weights_backward);
RULE(check_embedding_renorm);

/* reductions (rules_reduce.c) */
RULE(dtype_sum);
RULE(dtype_mean);
RULE(dtype_truth);
RULE(dtype_index);
RULE(dtype_variance);
RULE(dtype_norm);
RULE(dtype_floating);
RULE(shape_reduce);
RULE(shape_extreme);
RULE(shape_extreme_index);
RULE(shape_minmax);
RULE(shape_variance_mean);
RULE(shape_norm);
/* The position of a named parameter, or -1. */
int cr__rule_param(const cr_rule *r, const char *name);

/* rounding to a grid (rules_quantize.c) */
RULE(shape_fake_quantize);
RULE(shape_fake_quantize_tensor);
RULE(shape_fake_quantize_channel);
RULE(check_fake_quantize_backward);
RULE(check_int_mm);
RULE(shape_int_mm);

/* sorting and scans (rules_sort.c) */
RULE(shape_scan);
RULE(shape_cumprod_backward);
RULE(shape_scan_index);
RULE(shape_sort);
RULE(shape_search);
RULE(shape_unique);
RULE(shape_topk);
RULE(shape_select_index);

/* normalisation (rules_norm.c) */
RULE(shape_softmax);
RULE(shape_softmax_backward);
RULE(check_rms_norm);
RULE(shape_layer_norm);
RULE(shape_group_norm);
RULE(shape_batch_norm);
RULE(shape_batch_norm_no_stats);
RULE(shape_batch_norm_no_training);
RULE(shape_batch_norm_functional);
RULE(shape_batch_norm_backward);
RULE(check_batch_norm_stats);
cr_expand_fn expand_batch_norm_stats;
RULE(check_weight_norm);
RULE(check_weight_norm_backward);
RULE(shape_weight_norm);
RULE(shape_weight_norm_backward);
RULE(check_glu);
RULE(check_glu_backward);

/* linear algebra (rules_linalg.c) */
RULE(dtype_product);
RULE(shape_mm);
RULE(shape_bmm);
RULE(shape_grouped_mm);
RULE(check_grouped_mm);
RULE(shape_groups);
RULE(check_conv_tbc);
RULE(check_conv_tbc_backward);
RULE(shape_addmm);
RULE(shape_baddbmm);
RULE(shape_mv);
RULE(shape_addmv);
RULE(shape_dot);
RULE(shape_linear);
RULE(check_trilinear);
RULE(check_bilinear);

/* factorisations (rules_factor.c, expand_factor.c) */
RULE(shape_lu_factor);
RULE(shape_lu_unpack);
RULE(shape_det);
RULE(shape_solve_ex);
RULE(shape_lu_solve);
RULE(shape_inv_ex);
RULE(shape_cholesky_ex);
RULE(shape_solve_triangular);
RULE(shape_geqrf);
RULE(shape_householder_product);
RULE(shape_ormqr);
RULE(check_triangular_solve);
RULE(shape_ldl_factor);
RULE(shape_ldl_solve);
RULE(check_matrices);
RULE(check_squares);
RULE(check_qr);
RULE(check_tensorinv);
RULE(check_tensorsolve);
RULE(shape_eig);
RULE(dtype_phaseless);
RULE(shape_eigh);
RULE(shape_svd);
RULE(check_svd_driver);
RULE(check_pinv);
RULE(check_lstsq);
RULE(shape_lstsq);
RULE(shape_cholesky_inverse);
RULE(check_cond);
RULE(shape_matrix_exp);
RULE(shape_check_errors);
cr_expand_fn expand_householder;
cr_expand_fn expand_ormqr;
cr_expand_fn expand_sum_to_size;

/* distances (rules_distance.c) */
RULE(check_cdist);
RULE(shape_cdist);
RULE(shape_cdist_backward);
RULE(shape_pdist);
RULE(shape_pdist_backward);

/* grids (rules_grid.c) */
RULE(check_grid_sampler);
RULE(shape_grid_sampler);
RULE(shape_grid_sampler_backward);
RULE(check_affine_grid);

/* convolution, attention (rules_conv.c) */
RULE(shape_convolution);
RULE(dtype_packed_conv); RULE(shape_pack_conv); RULE(shape_conv_packed); /* rules_packed_conv.c */
RULE(shape_convolution_backward);
RULE(shape_sdpa);
RULE(shape_flash);
RULE(shape_flash_backward);

/* pooling, resampling (rules_pool.c) */
RULE(shape_max_pool);
RULE(shape_avg_pool);
RULE(shape_adaptive_avg_pool);
RULE(shape_adaptive_max_pool);
RULE(shape_pool_backward);
RULE(shape_picked_backward);
RULE(check_unpool);
RULE(check_fractional_pool);
RULE(shape_fractional_pool);

/* resampling (rules_upsample.c) */
RULE(shape_upsample);
RULE(shape_upsample_backward);
cr_expand_fn expand_upsample_vec;

cr_expand_fn expand_einsum; cr_expand_fn expand_trilinear; /* expand_einsum.c */
/* expand_linalg.c */
cr_expand_fn expand_block_diag;
cr_expand_fn expand_multi_dot;
cr_expand_fn expand_matrix_power;
cr_expand_fn expand_linalg_norm;
cr_expand_fn expand_cross;
cr_expand_fn expand_matrix_norm; cr_expand_fn expand_nuclear_norm; cr_expand_fn expand_lstsq;

/* sliding blocks, histograms (rules_misc.c) */
RULE(shape_histc);
RULE(check_quantile);
RULE(check_histogram);
RULE(shape_histogram);
RULE(check_histogramdd);
RULE(check_histogram_edges);
RULE(shape_histogramdd);
RULE(check_slopes);
RULE(check_combinations);
RULE(check_outer);
RULE(check_pad);
RULE(check_softshrink);
cr_expand_fn expand_histogram_edges;
cr_expand_fn expand_histogramdd;
cr_expand_fn expand_histogram;
RULE(check_vander);
RULE(check_linalg_vander);
cr_expand_fn expand_quantile;
RULE(shape_one_hot);
RULE(check_isin);
RULE(shape_isin);
RULE(shape_bincount);
RULE(shape_repeat_interleave);
RULE(check_repeat_interleave);
RULE(shape_is_nonzero);
RULE(check_sum_to_size);
RULE(check_sparse_gradient);
RULE(shape_im2col);
RULE(shape_col2im);

/* losses (rules_loss.c) */
RULE(dtype_second);
RULE(shape_second);
RULE(shape_bce);
RULE(shape_nll);
RULE(shape_nll2d);
RULE(shape_nll_backward);
RULE(shape_nll2d_backward);
RULE(shape_multilabel); RULE(shape_multilabel_backward);
RULE(shape_ctc); RULE(shape_ctc_backward);
RULE(check_ctc_lengths);
RULE(check_not_negative);
RULE(check_positive); RULE(check_mean_of_none);
RULE(check_nll_nd);
RULE(check_cross_entropy);
RULE(check_cosine_similarity);
RULE(check_cosine_embedding);
RULE(check_triplet);
RULE(check_multi_margin);
RULE(check_multi_margin_backward);

/* normalisations (expand_norm.c) */
cr_expand_fn expand_instance_norm;

/* products on packed weights (rules_products.c) */
RULE(dtype_packed);
RULE(shape_pack_panels);
RULE(shape_linear_packed);
RULE(shape_embedding_packed);
RULE(shape_lstm_packed);
RULE(shape_gru_packed);

/* recurrent (rules_rnn.c, expand_rnn.c) */
RULE(shape_pack_padded);
RULE(shape_pack_padded_backward);
RULE(shape_pad_packed);
cr_expand_fn expand_rnn; cr_expand_fn expand_rnn_packed; cr_expand_fn expand_rnn_cell; cr_expand_fn expand_rnn_core;
/* the core dialect (expand_core.c) */
cr_expand_fn expand_one_hot_core;
cr_expand_fn expand_instance_norm_core;
cr_expand_fn expand_multi_dot_core;
cr_expand_fn expand_block_diag_core;

/* random (rules_random.c) */
RULE(dtype_draw);
RULE(shape_draw);
RULE(shape_bernoulli);
RULE(shape_binomial);
RULE(shape_draw_both);
RULE(shape_draw_sized);
RULE(shape_draw_strided);
RULE(shape_random_state);
RULE(shape_randperm);
RULE(shape_multinomial);
RULE(shape_dropout);
RULE(shape_feature_dropout);
RULE(shape_native_dropout);
RULE(shape_rrelu); RULE(shape_rrelu_functional);

/* fft (rules_fft.c, expand_fft.c) */
RULE(shape_fft_c2c);
RULE(shape_fft_r2c);
RULE(shape_fft_c2r);
RULE(check_fft_freq);
cr_expand_fn expand_fft;
cr_expand_fn expand_stft;
cr_expand_fn expand_istft;
RULE(check_window);

/* shared: dtype of argument 0 for common and result */
RULE(dtype_same);
/* Every result has argument 0's sizes, laid out as empty_like does. */
RULE(shape_like);

/* ---- errors ---- */
/* "OP: WHAT [sizes] TEXT [sizes of m]": CR_ERUNTIME. */
CR_NODISCARD cr_status cr_rule_fail_shapes(cr_rule *r, const char *what, int rank, const cr_dim *size, const char *text,
                                           const cr_meta *m);

#endif
