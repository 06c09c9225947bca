/* rt_post.c: chooses the epilogue loops of the processor and walks a tile's rows with them. */
#include "runtime/rt_post.h"

#include "runtime/gemm.h"

#include <stdatomic.h>
#include <string.h>

RT_CHOICE const rt_post_isa *rt__post_get(void) {
    static _Atomic(const rt_post_isa *) chosen;
    const rt_post_isa *isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!isa) {
        isa = &rt__post_base;
#if defined(__x86_64__)
        const char *name = rt_gemm_isa_name();
        if (!strcmp(name, "avx2")) isa = &rt__post_avx2;
        if (!strcmp(name, "avx512")) isa = &rt__post_avx512;
#endif
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return isa;
}

int rt_act_find(const char *name) {
    static const char *const names[RT_ACT_COUNT] = {
#define X(name, ...) #name,
        RT_ACTS(X)
#undef X
    };
    for (int i = 0; i < RT_ACT_COUNT; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

void rt_post_run(const rt_post *p, float *tile, int64_t tile_row, int64_t i, int64_t rows, int64_t j, int64_t cols) {
    const rt_post_isa *isa = rt__post_get();
    const float *bias = p->bias ? p->bias + j : NULL;
    if (bias || p->act) isa->act[p->act](tile, tile_row, rows, bias, cols);
    for (int64_t r = 0; r < rows && (p->scale || p->residual); r++)
        isa->blend(tile + r * tile_row, p->scale ? p->scale + (i + r) * p->scale_row + j : NULL,
                   p->residual ? p->residual + (i + r) * p->residual_row + j : NULL, cols);
}
