/* rt_box_muller_avx2.c: rt_box_muller.h's body where fused multiply-add is an instruction. */
#include "runtime/rt_box_muller.h"

void rt__box_muller_f32_avx2(float *x, int64_t blocks, float mean, float std) {
    box_muller_blocks(x, blocks, mean, std);
}
