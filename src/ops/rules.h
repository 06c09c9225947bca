/* rules.h: the rule vocabulary that rows name in .dtype and .shape. A rule reads r->arg and fills r->common and
 * r->result (dtype rules) or r->out[] (shape rules); it never touches data. Sizes are cr_dim: compare them only with
 * cr_dim_known, cr_dim_decide, cr_dim_require or cr_dim_assume (sym.h says which to use when). */
#ifndef CR_RULES_H
#define CR_RULES_H

#include "ops/op.h"

#define RULE(name) cr_status name(cr_rule *r)

/* pointwise (rules_pointwise.c) */
RULE(dtype_promote);       /* result = common = the promoted dtype of all tensor operands */
RULE(dtype_promote_float); /* integers become the default floating dtype */
RULE(dtype_ordered);       /* promoted, complex refused */
RULE(dtype_real);          /* the same, but not implemented instead of wrong */
RULE(dtype_compare);       /* common = promoted, result = bool */
RULE(dtype_compare_real);
RULE(dtype_add);
RULE(dtype_subtract);
RULE(dtype_negative);
RULE(dtype_divide);
RULE(dtype_power);
RULE(dtype_float_power);
RULE(dtype_addcdiv);
RULE(dtype_lerp);
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
RULE(shape_frexp);

/* views (rules_view.c) */

/* factories (rules_factory.c) */

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

/* indexing (rules_index.c) */
RULE(shape_index);
RULE(shape_index_put);
RULE(shape_index_select);
RULE(shape_index_add);
RULE(shape_index_copy);
RULE(shape_index_fill);
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

/* sorting and scans (rules_sort.c) */
RULE(shape_scan);
RULE(shape_scan_index);
RULE(shape_sort);
RULE(shape_topk);
RULE(shape_select_index);

/* normalisation (rules_norm.c) */
RULE(shape_softmax);
RULE(shape_softmax_backward);
RULE(shape_layer_norm);
RULE(shape_group_norm);
RULE(shape_batch_norm);
RULE(shape_batch_norm_no_stats);
RULE(shape_batch_norm_no_training);
RULE(shape_batch_norm_functional);

/* linear algebra (rules_linalg.c) */

/* convolution, attention (rules_conv.c) */

/* pooling, resampling (rules_pool.c) */

/* losses (rules_loss.c) */

/* recurrent (rules_rnn.c) */

/* random (rules_random.c) */

/* fft (rules_fft.c) */

/* shared: dtype of argument 0 for common and result */
RULE(dtype_same);
/* Every result has argument 0's sizes, laid out as empty_like does. */
RULE(shape_like);

#endif
