/* rt_box_muller.c: rt_box_muller.h's body for any machine, and the choice between the two. */
#include "runtime/rt_box_muller.h"

void rt__box_muller_f32(float *x, int64_t blocks, float mean, float std) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        rt__box_muller_f32_avx2(x, blocks, mean, std);
        return;
    }
#endif
    box_muller_blocks(x, blocks, mean, std);
}
