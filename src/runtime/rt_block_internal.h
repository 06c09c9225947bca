/* rt_block_internal.h: opcodes and loop tables, shared by the files of the block evaluator. */
#ifndef CRESSET_RT_BLOCK_INTERNAL_H
#define CRESSET_RT_BLOCK_INTERNAL_H

#include "runtime/rt_block.h"
#include "runtime/rt_block_table.h"

enum {
#define X(name, arity, K, J, ...) RT_OP_##name##_##J,
#define S(K) RT_OP_select_##K,
#define R(name, arity, K, ...) RT_OP_##name##_##K,
    RT_BLOCK_FAST(X) RT_BLOCK_RANGED(R) RT_BLOCK_SELECTS(S)
    RT_BLOCK_CALLS(X) RT_BLOCK_POLYNOMIALS(X) RT_BLOCK_DIVISIONS(X)
#undef X
#undef S
#undef R
    RT_OP_COUNT
};
/* One instruction on n elements. Only divisions fail (RT_ERUNTIME: by zero). */
typedef int rt_block_fn(int64_t n, void *out, const void *a, const void *b, const void *c);
/* Entries of the other tables are NULL. */
extern rt_block_fn *const rt__block_base[RT_OP_COUNT], *const rt__block_calls[RT_OP_COUNT];
#if defined(__x86_64__)
extern rt_block_fn *const rt__block_avx2[RT_OP_COUNT], *const rt__block_avx512[RT_OP_COUNT];
#endif

#endif
