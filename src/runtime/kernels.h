/* kernels.h: every kernel that op rows may name, one line each, grouped by file. rt.h says what a kernel may rely on. */
#ifndef CRESSET_KERNELS_H
#define CRESSET_KERNELS_H

#include "runtime/rt.h"

#define RT_KERNEL(name) int name(const rt_ctx *ctx, const rt_call *c)

/* k_factory.c, k_move.c */

/* k_index.c */

/* k_reduce.c, k_scan.c, k_sort.c */

/* k_norm.c */

/* k_linalg.c, gemm */

/* conv.c, k_attention.c */

/* k_pool.c, k_upsample.c */

/* k_loss.c */

/* k_rnn.c */

/* k_random.c */

/* k_fft.c */

#endif
