/* kernels.h: every kernel that op rows may name, one line each, grouped by file. rt.h says what a kernel may rely
 * on. */
#ifndef CRESSET_KERNELS_H
#define CRESSET_KERNELS_H

#include "runtime/rt.h"

#ifndef RT_KERNEL /* src/emit lists the names with another meaning */
#define RT_KERNEL(name) int name(const rt_ctx *ctx, const rt_call *c)
#endif

/* k_view.c */
RT_KERNEL(rt_k_copy_self);
RT_KERNEL(rt_k_copy);
RT_KERNEL(rt_k_reshape);
RT_KERNEL(rt_k_nothing);
RT_KERNEL(rt_k_unfold_backward);
RT_KERNEL(rt_k_select_scatter);
RT_KERNEL(rt_k_slice_scatter);
RT_KERNEL(rt_k_diagonal_scatter);
RT_KERNEL(rt_k_as_strided_scatter);
RT_KERNEL(rt_k_select_backward);
RT_KERNEL(rt_k_slice_backward);
RT_KERNEL(rt_k_diagonal_backward);

/* k_factory.c */
RT_KERNEL(rt_k_zeros);
RT_KERNEL(rt_k_ones);
RT_KERNEL(rt_k_fill);
RT_KERNEL(rt_k_new_full);
RT_KERNEL(rt_k_scalar_tensor);
RT_KERNEL(rt_k_fill_tensor);
RT_KERNEL(rt_k_eye);
RT_KERNEL(rt_k_fill_diagonal);
RT_KERNEL(rt_k_arange);
RT_KERNEL(rt_k_arange_start);
RT_KERNEL(rt_k_arange_step);
RT_KERNEL(rt_k_linspace);
RT_KERNEL(rt_k_logspace);
RT_KERNEL(rt_k_tril_indices);
RT_KERNEL(rt_k_triu_indices);
RT_KERNEL(rt_k_item);
RT_KERNEL(rt_k_is_nonzero);
RT_KERNEL(rt_k_assert_async);
RT_KERNEL(rt_k_equal);

/* k_join.c */
RT_KERNEL(rt_k_cat);
RT_KERNEL(rt_k_flip);
RT_KERNEL(rt_k_roll);
RT_KERNEL(rt_k_repeat);
RT_KERNEL(rt_k_constant_pad);
RT_KERNEL(rt_k_reflection_pad);
RT_KERNEL(rt_k_replication_pad);
RT_KERNEL(rt_k_circular_pad);
RT_KERNEL(rt_k_circular_pad_backward);
RT_KERNEL(rt_k_reflection_pad_backward);
RT_KERNEL(rt_k_replication_pad_backward);
RT_KERNEL(rt_k_tril);
RT_KERNEL(rt_k_triu);

/* k_eig.c */
RT_KERNEL(rt_k_linalg_eig);
RT_KERNEL(rt_k_phaseless);
/* k_eigh.c, k_svd.c, k_lstsq.c */
RT_KERNEL(rt_k_linalg_eigh);
RT_KERNEL(rt_k_linalg_svd);
RT_KERNEL(rt_k_lstsq);

/* k_expm.c */
RT_KERNEL(rt_k_matrix_exp);

/* k_quantize.c */
RT_KERNEL(rt_k_fake_quantize);
RT_KERNEL(rt_k_fake_quantize_tensor);
RT_KERNEL(rt_k_fake_quantize_channel);

/* k_index.c, k_gather.c */
RT_KERNEL(rt_k_index);
RT_KERNEL(rt_k_index_put);
RT_KERNEL(rt_k_index_select);
RT_KERNEL(rt_k_index_copy);
RT_KERNEL(rt_k_index_add);
RT_KERNEL(rt_k_index_fill_tensor);
RT_KERNEL(rt_k_index_fill_scalar);
RT_KERNEL(rt_k_embedding);
RT_KERNEL(rt_k_embedding_backward);
RT_KERNEL(rt_k_nonzero);
RT_KERNEL(rt_k_nonzero_static);
RT_KERNEL(rt_k_masked_select);
RT_KERNEL(rt_k_masked_scatter);
RT_KERNEL(rt_k_gather);
RT_KERNEL(rt_k_scatter_src);
RT_KERNEL(rt_k_scatter_value);
RT_KERNEL(rt_k_scatter_reduce_src);
RT_KERNEL(rt_k_scatter_reduce_value);
RT_KERNEL(rt_k_scatter_add);
RT_KERNEL(rt_k_scatter_reduce);
RT_KERNEL(rt_k_index_reduce);
/* k_segment.c */
RT_KERNEL(rt_k_segment_reduce);
RT_KERNEL(rt_k_segment_reduce_backward);
RT_KERNEL(rt_k_take);
RT_KERNEL(rt_k_put);
/* k_optim.c */
RT_KERNEL(rt_k_fused_sgd);
RT_KERNEL(rt_k_fused_adam);
RT_KERNEL(rt_k_fused_adamw);
RT_KERNEL(rt_k_fused_adagrad);

/* k_bag.c */
RT_KERNEL(rt_k_embedding_bag);
/* k_bag_backward.c, k_renorm.c */
RT_KERNEL(rt_k_embedding_bag_dense_backward);
RT_KERNEL(rt_k_embedding_bag_weights_backward);
RT_KERNEL(rt_k_embedding_renorm);

/* k_reduce.c, k_scan.c, k_sort.c */
RT_KERNEL(rt_k_sum_all);
RT_KERNEL(rt_k_sum_dim);
RT_KERNEL(rt_k_prod_all);
RT_KERNEL(rt_k_prod_dim);
RT_KERNEL(rt_k_mean_all);
RT_KERNEL(rt_k_mean_dim);
RT_KERNEL(rt_k_nansum);
RT_KERNEL(rt_k_amax);
RT_KERNEL(rt_k_amin);
RT_KERNEL(rt_k_max_all);
RT_KERNEL(rt_k_min_all);
RT_KERNEL(rt_k_logsumexp);
RT_KERNEL(rt_k_max_dim);
RT_KERNEL(rt_k_min_dim);
RT_KERNEL(rt_k_argmax);
RT_KERNEL(rt_k_argmin);
RT_KERNEL(rt_k_aminmax);
RT_KERNEL(rt_k_any_all);
RT_KERNEL(rt_k_any_dim);
RT_KERNEL(rt_k_all_all);
RT_KERNEL(rt_k_all_dim);
RT_KERNEL(rt_k_count_nonzero);
RT_KERNEL(rt_k_var);
RT_KERNEL(rt_k_std);
RT_KERNEL(rt_k_var_mean);
RT_KERNEL(rt_k_std_mean);
RT_KERNEL(rt_k_vector_norm);
RT_KERNEL(rt_k_cumsum);
RT_KERNEL(rt_k_cumprod);
RT_KERNEL(rt_k_cumprod_backward);
RT_KERNEL(rt_k_cummax);
RT_KERNEL(rt_k_cummin);
RT_KERNEL(rt_k_logcumsumexp);
RT_KERNEL(rt_k_sort);
RT_KERNEL(rt_k_sort_stable);
RT_KERNEL(rt_k_topk);
RT_KERNEL(rt_k_kthvalue);
RT_KERNEL(rt_k_median_dim);
RT_KERNEL(rt_k_nanmedian_dim);
RT_KERNEL(rt_k_mode);
RT_KERNEL(rt_k_searchsorted);
RT_KERNEL(rt_k_bucketize);
RT_KERNEL(rt_k_unique2);
RT_KERNEL(rt_k_unique_dim);
RT_KERNEL(rt_k_unique_consecutive);

/* k_norm.c, k_softmax.c */
RT_KERNEL(rt_k_layer_norm);
RT_KERNEL(rt_k_group_norm);
RT_KERNEL(rt_k_batch_norm);
RT_KERNEL(rt_k_batch_norm_no_stats);
RT_KERNEL(rt_k_batch_norm_no_training);
RT_KERNEL(rt_k_batch_norm_functional);
RT_KERNEL(rt_k_batch_norm_backward); /* k_norm_backward.c */
RT_KERNEL(rt_k_weight_norm);         /* k_weight_norm.c */
RT_KERNEL(rt_k_weight_norm_backward);
RT_KERNEL(rt_k_softmax);
RT_KERNEL(rt_k_log_softmax);
RT_KERNEL(rt_k_softmax_backward);
RT_KERNEL(rt_k_log_softmax_backward);

/* k_matmul.c */
RT_KERNEL(rt_k_mm);
RT_KERNEL(rt_k_grouped_mm);
RT_KERNEL(rt_k_groups);
RT_KERNEL(rt_k_bmm);
RT_KERNEL(rt_k_addmm);
RT_KERNEL(rt_k_baddbmm);
RT_KERNEL(rt_k_mv);
RT_KERNEL(rt_k_addmv);
RT_KERNEL(rt_k_dot);
RT_KERNEL(rt_k_vdot);
RT_KERNEL(rt_k_linear);

/* k_int_mm.c */
RT_KERNEL(rt_k_int_mm);

/* k_factor.c */
RT_KERNEL(rt_k_lu_factor);
RT_KERNEL(rt_k_lu_unpack);
RT_KERNEL(rt_k_linalg_det);
RT_KERNEL(rt_k_linalg_slogdet);
RT_KERNEL(rt_k_solve_ex);
RT_KERNEL(rt_k_lu_solve);
RT_KERNEL(rt_k_inv_ex);
RT_KERNEL(rt_k_cholesky_ex);
RT_KERNEL(rt_k_cholesky_inverse);
RT_KERNEL(rt_k_solve_triangular);
RT_KERNEL(rt_k_geqrf);
RT_KERNEL(rt_k_householder_product);
RT_KERNEL(rt_k_ormqr);      /* k_ormqr.c */
RT_KERNEL(rt_k_ldl_factor); /* k_ldl.c */
RT_KERNEL(rt_k_ldl_solve);
RT_KERNEL(rt_k_linalg_check_errors);
/* Their products may be in f64 whatever dtype the tensors have (rt_stack.h, k_expm.c). */
#define RT_KERNELS_IN_F64(X)                                                                                           \
    X(rt_k_linalg_eigh) X(rt_k_linalg_svd) X(rt_k_matrix_exp) X(rt_k_lu_factor) X(rt_k_linalg_det)                     \
    X(rt_k_linalg_slogdet) X(rt_k_solve_ex) X(rt_k_lu_solve) X(rt_k_inv_ex) X(rt_k_cholesky_ex)                        \
    X(rt_k_solve_triangular) X(rt_k_geqrf) X(rt_k_householder_product) X(rt_k_cholesky_inverse) X(rt_k_lstsq)

/* k_distance.c */
RT_KERNEL(rt_k_cdist);
RT_KERNEL(rt_k_cdist_backward);
RT_KERNEL(rt_k_pdist);
RT_KERNEL(rt_k_pdist_backward);

/* conv.c, conv_packed.c, k_attention.c */
RT_KERNEL(rt_k_convolution);
RT_KERNEL(rt_k_convolution_backward);
RT_KERNEL(rt_k_pack_conv);
RT_KERNEL(rt_k_conv_packed);
RT_KERNEL(rt_k_sdpa);
RT_KERNEL(rt_k_sdpa_flash_cpu);

/* k_pool.c, k_upsample.c */
RT_KERNEL(rt_k_max_pool1d);
RT_KERNEL(rt_k_max_pool2d);
RT_KERNEL(rt_k_max_pool3d);
RT_KERNEL(rt_k_avg_pool1d);
RT_KERNEL(rt_k_avg_pool2d);
RT_KERNEL(rt_k_avg_pool3d);
RT_KERNEL(rt_k_adaptive_avg_pool2d);
RT_KERNEL(rt_k_adaptive_avg_pool3d);
RT_KERNEL(rt_k_adaptive_max_pool2d);
RT_KERNEL(rt_k_adaptive_max_pool3d);
RT_KERNEL(rt_k_max_pool2d_backward);
RT_KERNEL(rt_k_max_pool3d_backward);
RT_KERNEL(rt_k_adaptive_max_pool2d_backward);
RT_KERNEL(rt_k_adaptive_max_pool3d_backward);
RT_KERNEL(rt_k_fractional_pool2d); /* k_fractional.c */
RT_KERNEL(rt_k_fractional_pool3d);
RT_KERNEL(rt_k_fractional_pool2d_backward);
RT_KERNEL(rt_k_fractional_pool3d_backward);
RT_KERNEL(rt_k_avg_pool2d_backward);
RT_KERNEL(rt_k_avg_pool3d_backward);
RT_KERNEL(rt_k_adaptive_avg_pool2d_backward);
RT_KERNEL(rt_k_adaptive_avg_pool3d_backward);

/* k_upsample.c: self, output_size, [align_corners,] a scale per dimension; backward: grad_output, output_size,
 * input_size, ... */
RT_KERNEL(rt_k_upsample_nearest);
RT_KERNEL(rt_k_upsample_nearest_exact);
RT_KERNEL(rt_k_upsample_linear);
RT_KERNEL(rt_k_upsample_cubic);
RT_KERNEL(rt_k_upsample_nearest_backward);
RT_KERNEL(rt_k_upsample_nearest_exact_backward);
RT_KERNEL(rt_k_upsample_linear_backward);
RT_KERNEL(rt_k_upsample_cubic_backward);
RT_KERNEL(rt_k_upsample_linear_smooth);
RT_KERNEL(rt_k_upsample_cubic_smooth);
RT_KERNEL(rt_k_upsample_linear_smooth_backward);
RT_KERNEL(rt_k_upsample_cubic_smooth_backward);

/* k_grid.c: two and three spatial dimensions */
RT_KERNEL(rt_k_grid_sampler);
RT_KERNEL(rt_k_grid_sampler_backward);

/* k_histogram.c, k_one_hot.c */
RT_KERNEL(rt_k_histc);
RT_KERNEL(rt_k_histogram_bins);
RT_KERNEL(rt_k_histogramdd);
RT_KERNEL(rt_k_one_hot);

/* k_isin.c */
RT_KERNEL(rt_k_isin);

/* k_bins.c */
RT_KERNEL(rt_k_bincount);
RT_KERNEL(rt_k_repeat_interleave);

/* k_blocks.c */
RT_KERNEL(rt_k_im2col);
RT_KERNEL(rt_k_col2im);

/* k_loss.c */
RT_KERNEL(rt_k_nll_loss);                       /* nll_loss_forward, nll_loss2d_forward */
RT_KERNEL(rt_k_nll_loss_backward);
RT_KERNEL(rt_k_binary_cross_entropy);
RT_KERNEL(rt_k_multilabel_margin_loss);
RT_KERNEL(rt_k_multilabel_margin_loss_backward);

/* k_ctc.c: lengths as numbers or as tensors */
RT_KERNEL(rt_k_ctc_loss);
RT_KERNEL(rt_k_ctc_loss_backward);

/* k_pack.c */
RT_KERNEL(rt_k_pack_padded_sequence);
RT_KERNEL(rt_k_pack_padded_sequence_backward);
RT_KERNEL(rt_k_pad_packed_sequence);

/* k_rnn.c */

/* k_random.c, k_dropout.c, k_multinomial.c, k_counts.c: the generator is found by rt_call_generator (rt_random.h);
 * in-place fills have self as out[0] and do not read it */
RT_KERNEL(rt_k_uniform);              /* uniform_, uniform: self, from, to, generator */
RT_KERNEL(rt_k_rand);                 /* rand, rand_like and their .generator: only the generator counts */
RT_KERNEL(rt_k_normal);               /* normal_, normal_functional: self, mean, std, generator */
RT_KERNEL(rt_k_random_state);         /* state or none; the generator */
RT_KERNEL(rt_k_normal_strided);       /* self, stride, mean, std, generator */
RT_KERNEL(rt_k_normal_float_float);   /* mean, std, size, ... */
RT_KERNEL(rt_k_normal_tensor_float);  /* mean, std, generator */
RT_KERNEL(rt_k_normal_float_tensor);
RT_KERNEL(rt_k_normal_tensor_tensor);
RT_KERNEL(rt_k_randn);                /* randn, randn_like and their .generator: only the generator counts */
RT_KERNEL(rt_k_random);               /* random_, random: self, generator */
RT_KERNEL(rt_k_random_from);          /* self, from, to?, generator */
RT_KERNEL(rt_k_random_to);            /* self, to, generator */
RT_KERNEL(rt_k_randint);              /* high, size, ... */
RT_KERNEL(rt_k_randint_low);          /* low, high, size, ... */
RT_KERNEL(rt_k_randint_like);         /* self, high, ... */
RT_KERNEL(rt_k_randint_like_low);     /* self, low, high, ... */
RT_KERNEL(rt_k_randint_like_tensor);  /* self, high as a tensor, ... */
RT_KERNEL(rt_k_exponential);          /* self, lambd, generator */
RT_KERNEL(rt_k_cauchy);               /* self, median, sigma, generator */
RT_KERNEL(rt_k_log_normal);           /* self, mean, std, generator */
RT_KERNEL(rt_k_geometric);            /* self, p, generator */
RT_KERNEL(rt_k_bernoulli);            /* self (the probabilities), generator */
RT_KERNEL(rt_k_bernoulli_float);      /* bernoulli_.float, bernoulli.p: self, p, generator */
RT_KERNEL(rt_k_bernoulli_tensor);     /* bernoulli_.Tensor, bernoulli.Tensor: self, p, generator */
RT_KERNEL(rt_k_dropout);              /* dropout, dropout_: input, p, train; a generator may follow, here and below */
RT_KERNEL(rt_k_native_dropout);       /* input, p, train?; out: result, mask */
RT_KERNEL(rt_k_feature_dropout);
RT_KERNEL(rt_k_alpha_dropout);
RT_KERNEL(rt_k_feature_alpha_dropout);
RT_KERNEL(rt_k_rrelu_with_noise);     /* self, noise (written), lower, upper, training, generator */
RT_KERNEL(rt_k_rrelu_with_noise_functional); /* the same arguments; out: result, noise */
RT_KERNEL(rt_k_randperm);             /* n, ... */
RT_KERNEL(rt_k_multinomial);          /* self, num_samples, replacement, generator */
RT_KERNEL(rt_k_poisson);              /* self, generator */
RT_KERNEL(rt_k_binomial);             /* count, prob, generator */

/* k_linear_packed.c, k_rnn.c: what compiled models use instead of linear and lstm */
RT_KERNEL(rt_k_pack_panels);   /* weight, transposed, groups */
RT_KERNEL(rt_k_linear_packed); /* input, panels, n, bias?, act, scale?, residual? */
RT_KERNEL(rt_k_embedding_packed); /* panels, indices, n */
RT_KERNEL(rt_k_lstm_packed);   /* input, h, c, w_ih, w_hh, b_ih?, b_hh?, reverse, batch_first; out: output, h, c */
RT_KERNEL(rt_k_gru_packed);    /* input, h, w_ih, w_hh, b_ih?, b_hh?, reverse, batch_first; out: output, h */

/* k_fft.c */
RT_KERNEL(rt_k_fft_c2c); /* self, dim, normalization, forward */
RT_KERNEL(rt_k_fft_r2c); /* self, dim, normalization, onesided */
RT_KERNEL(rt_k_fft_c2r); /* self, dim, normalization, last_dim_size */

#endif
