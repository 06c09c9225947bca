/* rt_box_muller.h: turns blocks of 16 uniform f32 numbers into 16 normal ones, with PyTorch's last bits.
 *
 * PyTorch's vector units have no libm: they use the single-precision polynomials of the Cephes library (S. Moshier) for
 * log, sin and cos, with multiplications and additions fused where its compiler fused them. Which pairs are fused was
 * found by comparing bits, so every fmaf below is meant and no other product may be fused. The body is compiled
 * once for machines with fused instructions and once for all others; both give the same bits. */
#ifndef CRESSET_RT_BOX_MULLER_H
#define CRESSET_RT_BOX_MULLER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* x holds 16 * blocks uniform numbers in [0, 1); each block's first half gives the radii, its second half the
 * angles. */
void rt__box_muller_f32(float *x, int64_t blocks, float mean, float std);
void rt__box_muller_f32_avx2(float *x, int64_t blocks, float mean, float std);

static inline float box_muller_log(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    float exponent = (float)((int32_t)(bits >> 23) - 126), m;
    bits = (bits & 0x007fffffu) | 0x3f000000u;
    memcpy(&m, &bits, 4);
    /* x = 2^exponent * m with m in [0.5, 1); move to [sqrt(1/2), sqrt(2)) and take 1 away. */
    float low = m < 0.707106781186547524f ? 1.0f : 0.0f;
    m = (m - 1.0f) + low * m;
    exponent -= low;
    float square = m * m, y = 7.0376836292E-2f;
    y = fmaf(y, m, -1.1514610310E-1f);
    y = fmaf(y, m, 1.1676998740E-1f);
    y = fmaf(y, m, -1.2420140846E-1f);
    y = fmaf(y, m, 1.4249322787E-1f);
    y = fmaf(y, m, -1.6668057665E-1f);
    y = fmaf(y, m, 2.0000714765E-1f);
    y = fmaf(y, m, -2.4999993993E-1f);
    y = fmaf(y, m, 3.3333331174E-1f);
    y = fmaf(y * m, square, exponent * -2.12194440e-4f);
    y = fmaf(-square, 0.5f, y);
    return fmaf(exponent, 0.693359375f, m + y);
}

/* For x in [0, 2 pi]. */
static inline void box_muller_sincos(float x, float *sine, float *cosine) {
    int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float turns = (float)octant;
    /* pi/4 in three parts, so that the first products are exact. */
    x = fmaf(turns, -0.78515625f, x);
    x = fmaf(turns, -2.4187564849853515625e-4f, x);
    x = fmaf(turns, -3.77489497744594108e-8f, x);
    float z = x * x;
    float c = fmaf(2.443315711809948E-005f, z, -1.388731625493765E-003f);
    c = fmaf(c, z, 4.166664568298827E-002f);
    c = fmaf(c * z, z, -(z * 0.5f)) + 1.0f;
    float s = fmaf(-1.9515295891E-4f, z, 8.3321608736E-3f);
    s = fmaf(s, z, -1.6666654611E-1f);
    s = fmaf(s * z, x, x);
    int32_t swap = octant & 2;
    float sin_abs = swap ? c : s, cos_abs = swap ? s : c;
    *sine = octant & 4 ? -sin_abs : sin_abs;
    *cosine = (octant - 2) & 4 ? cos_abs : -cos_abs;
}

static inline void box_muller_blocks(float *x, int64_t blocks, float mean, float std) {
    for (int64_t b = 0; b < blocks; b++, x += 16) {
        for (int i = 0; i < 8; i++) {
            float sine, cosine, radius = sqrtf(-2.0f * box_muller_log(1.0f - x[i]));
            box_muller_sincos(6.283185307179586f * x[i + 8], &sine, &cosine);
            x[i] = fmaf(radius * cosine, std, mean);
            x[i + 8] = fmaf(radius * sine, std, mean);
        }
    }
}

#endif
