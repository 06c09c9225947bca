/* rt_rows_vector.h: what emitted row kernels are written in: vectors of W lanes, without any system header.
 *
 * A lane is one element. f32 and truth values fill one register of the instruction set; i64 and f64 vectors have as
 * many lanes and so take two, which the compiler splits. W comes from the instruction set that the unit is compiled
 * for. Every function gives the bits that the block instruction of the same name gives (rt_block_table.h).
 *
 * Loads and stores take k, the number of lanes that exist: a loop needs no second body for its tail. Lanes that do not
 * exist read as 0 and are never written. */
#include "runtime/rt_dmath.h"
#include "runtime/rt_rows_call.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
#define W 16
#elif defined(__AVX2__)
#define W 8
#else
#define W 4
#endif
#if W == 16 && !defined(__clang__)
#define MASKS 1 /* comparisons give mask registers */
#else
#define MASKS 0
#endif

typedef __INT64_TYPE__ i64;
typedef float vf __attribute__((vector_size(4 * W)));
typedef int vi __attribute__((vector_size(4 * W)));
typedef unsigned vu __attribute__((vector_size(4 * W)));
typedef i64 vl __attribute__((vector_size(8 * W)));
typedef __UINT64_TYPE__ vw __attribute__((vector_size(8 * W)));
typedef double vd __attribute__((vector_size(8 * W)));
typedef unsigned char vc __attribute__((vector_size(W)));
typedef unsigned short vs __attribute__((vector_size(2 * W)));
#define MEMORY(type, name, bytes) typedef type name __attribute__((vector_size(bytes), aligned(1), may_alias))
MEMORY(float, mem_f32, 4 * W);
MEMORY(int, mem_i32, 4 * W);
MEMORY(i64, mem_i64, 8 * W);
MEMORY(double, mem_f64, 8 * W);
MEMORY(unsigned char, mem_u8, W);
MEMORY(unsigned short, mem_u16, 2 * W);
#define INLINE static inline __attribute__((always_inline))
#define EACH(i) for (int i = 0; i < W; i++)
#define INF __builtin_inff()

/* ---- masks ---- */
#if MASKS
typedef unsigned short vb;
INLINE vb mask_of(vi m) { return (vb)__builtin_ia32_cvtd2mask512(m); }
INLINE vi mask_int(vb m) { return __builtin_ia32_cvtmask2d512(m); }
#define COMPARE(name, predicate) \
    INLINE vb name(vf a, vf b) { return (vb)__builtin_ia32_cmpps512_mask(a, b, predicate, (vb)-1, 4); }
COMPARE(GT, 0x1e) COMPARE(LT, 0x11) COMPARE(GE, 0x1d) COMPARE(LE, 0x12) COMPARE(EQ, 0x00) COMPARE(NE, 0x04)
INLINE vf PICK(vb m, vf a, vf b) { return __builtin_ia32_blendmps_512_mask(b, a, m); }
INLINE vb not_b(vb m) { return (vb)~m; }
INLINE vb first_lanes(i64 k) { return k >= W ? (vb)-1 : (vb)((1u << k) - 1); }
#else
typedef vi vb;
INLINE vb mask_of(vi m) { return m; }
INLINE vi mask_int(vb m) { return m; }
#define COMPARE(name, op) INLINE vb name(vf a, vf b) { return (vb)(a op b); }
COMPARE(GT, >) COMPARE(LT, <) COMPARE(GE, >=) COMPARE(LE, <=) COMPARE(EQ, ==) COMPARE(NE, !=)
INLINE vf PICK(vb m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
INLINE vb not_b(vb m) { return ~m; }
INLINE vb first_lanes(i64 k) {
    vi lane;
    EACH(i) lane[i] = i;
    return (vb)(lane < (int)(k < W ? k : W));
}
#endif
INLINE vb and_b(vb a, vb b) { return (vb)(a & b); }
INLINE vb or_b(vb a, vb b) { return (vb)(a | b); }
INLINE vb xor_b(vb a, vb b) { return (vb)(a ^ b); }
INLINE vb eq_b(vb a, vb b) { return not_b(xor_b(a, b)); }
INLINE vb select_b(vb m, vb a, vb b) { return (vb)((a & m) | (b & not_b(m))); }

/* ---- f32 ---- */
#define SPLAT(c) ((c) - (vf){ 0 })
#define ABS(x) ((vf)((vi)(x) & 0x7fffffff))
#define COPYSIGN(a, b) ((vf)(((vi)(a) & 0x7fffffff) | ((vi)(b) & (-0x7fffffff - 1))))
#define V vf
#define VI vi
#define VU vu
#define VD vd
#define FN(name) name##_f32
#define AS_INT(x) ((vi)(x))
#define AS_FLOAT(x) ((vf)(x))
#define TO_INT(x) __builtin_convertvector(x, vi)
#define TO_FLOAT(x) __builtin_convertvector(x, vf)
#define TO_DOUBLE(x) __builtin_convertvector(x, vd)
#define NARROW(x) __builtin_convertvector(x, vf)
#define ODD(i) mask_of(((i) & 1) != 0)
#define HALVES(i) mask_of(((i) & 2) != 0)
#include "runtime/rt_fmath_text.h"

/* One lane after the other: what this instruction set has no instruction for. */
#define LANES1(vec, name, call) INLINE vec name(vec a) { EACH(i) a[i] = call(a[i]); return a; }
#define LANES2(vec, name, call) INLINE vec name(vec a, vec b) { EACH(i) a[i] = call(a[i], b[i]); return a; }
#if MASKS
INLINE vf sqrt_f32(vf a) { return __builtin_ia32_sqrtps512_mask(a, a, (vb)-1, 4); }
#define ROUND(name, mode) INLINE vf name(vf a) { return __builtin_ia32_rndscaleps_mask(a, mode, a, (vb)-1, 4); }
ROUND(floor_f32, 9) ROUND(ceil_f32, 10) ROUND(trunc_f32, 11) ROUND(round_f32, 12)
INLINE vf fma_f32(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, (vb)-1, 4); }
#elif W == 8
INLINE vf sqrt_f32(vf a) { return __builtin_ia32_sqrtps256(a); }
#define ROUND(name, mode) INLINE vf name(vf a) { return __builtin_ia32_roundps256(a, mode); }
ROUND(floor_f32, 9) ROUND(ceil_f32, 10) ROUND(trunc_f32, 11) ROUND(round_f32, 12)
INLINE vf fma_f32(vf a, vf b, vf c) { EACH(i) a[i] = __builtin_fmaf(a[i], b[i], c[i]); return a; }
#else
LANES1(vf, sqrt_f32, __builtin_sqrtf)
LANES1(vf, floor_f32, __builtin_floorf)
LANES1(vf, ceil_f32, __builtin_ceilf)
LANES1(vf, trunc_f32, __builtin_truncf)
LANES1(vf, round_f32, __builtin_nearbyintf)
INLINE vf fma_f32(vf a, vf b, vf c) { EACH(i) a[i] = __builtin_fmaf(a[i], b[i], c[i]); return a; }
#endif
INLINE vf rsqrt_f32(vf a) { return 1.0f / sqrt_f32(a); }
INLINE vf abs_f32(vf a) { return ABS(a); }
INLINE vf copysign_f32(vf a, vf b) { return COPYSIGN(a, b); }
INLINE vf max_f32(vf a, vf b) { return PICK(or_b(GT(a, b), NE(a, a)), a, b); }
INLINE vf min_f32(vf a, vf b) { return PICK(or_b(LT(a, b), NE(a, a)), a, b); }
INLINE vf fmax_f32(vf a, vf b) { return PICK(or_b(GE(a, b), NE(b, b)), a, b); }
INLINE vf fmin_f32(vf a, vf b) { return PICK(or_b(LE(a, b), NE(b, b)), a, b); }
INLINE vf frac_f32(vf a) { return a - trunc_f32(a); }
INLINE vf truncdiv_f32(vf a, vf b) { return trunc_f32(a / b); }
INLINE vf sign_f32(vf a) {
    return PICK(GT(a, SPLAT(0.0f)), SPLAT(1.0f), SPLAT(0.0f)) - PICK(LT(a, SPLAT(0.0f)), SPLAT(1.0f), SPLAT(0.0f));
}
INLINE vb isnan_f32(vf a) { return NE(a, a); }
INLINE vb isinf_f32(vf a) { return EQ(ABS(a), SPLAT(INF)); }
INLINE vb isfinite_f32(vf a) { return LT(ABS(a), SPLAT(INF)); }
INLINE vb signbit_f32(vf a) { return mask_of((vi)a < 0); }
INLINE vb to_b_f32(vf a) { return NE(a, SPLAT(0.0f)); }
INLINE vl to_i64_f32(vf a) { vl r; EACH(i) r[i] = (i64)a[i]; return r; }
INLINE vd to_f64_f32(vf a) { return __builtin_convertvector(a, vd); }
INLINE vb eq_f32(vf a, vf b) { return EQ(a, b); }
INLINE vb ne_f32(vf a, vf b) { return NE(a, b); }
INLINE vb lt_f32(vf a, vf b) { return LT(a, b); }
INLINE vb le_f32(vf a, vf b) { return LE(a, b); }
INLINE vb gt_f32(vf a, vf b) { return GT(a, b); }
INLINE vb ge_f32(vf a, vf b) { return GE(a, b); }
INLINE vf select_f32(vb m, vf a, vf b) { return PICK(m, a, b); }
INLINE vf to_f32_b(vb a) { return PICK(a, SPLAT(1.0f), SPLAT(0.0f)); }
/* Beyond the range of the polynomials libm takes over, lane by lane. */
#define RANGED(name, slow)                                                                                             \
    INLINE vf name##_near_f32(vf a) {                                                                                  \
        vi far = mask_int(not_b(LE(ABS(a), SPLAT(1e6f))));                                                             \
        vf r = name##_f32(a);                                                                                          \
        EACH(i) if (far[i]) r[i] = slow(a[i]);                                                                         \
        return r;                                                                                                      \
    }
RANGED(sin, __builtin_sinf)
RANGED(cos, __builtin_cosf)
INLINE vf pow_f32(vf a, vf b) {
    vb near = and_b(and_b(GE(ABS(a), SPLAT(0x1p-126f)), LT(ABS(a), SPLAT(INF))), LE(ABS(b), SPLAT(0x1p21f)));
    vi far = mask_int(not_b(near));
    /* Lanes that libm computes are 1 in the others' arithmetic, which infinities would take out of its range. */
    vf r = _pow_near_f32(PICK(near, a, SPLAT(1.0f)), PICK(near, b, SPLAT(1.0f)));
    EACH(i) if (far[i]) r[i] = __builtin_powf(a[i], b[i]);
    return r;
}

/* ---- i64 and f64: two registers ---- */
INLINE vb mask_wide(vl m) { return mask_of(__builtin_convertvector(m, vi)); }
INLINE vl wide_mask(vb m) { return __builtin_convertvector(mask_int(m), vl); }
#define SPLAT_I64(c) ((c) - (vl){ 0 })
#define SPLAT_F64(c) ((c) - (vd){ 0 })
#define COMPARES(vec, suffix)                                                                                          \
    INLINE vb eq_##suffix(vec a, vec b) { return mask_wide(a == b); }                                                  \
    INLINE vb ne_##suffix(vec a, vec b) { return mask_wide(a != b); }                                                  \
    INLINE vb lt_##suffix(vec a, vec b) { return mask_wide(a < b); }                                                   \
    INLINE vb le_##suffix(vec a, vec b) { return mask_wide(a <= b); }                                                  \
    INLINE vb gt_##suffix(vec a, vec b) { return mask_wide(a > b); }                                                   \
    INLINE vb ge_##suffix(vec a, vec b) { return mask_wide(a >= b); }                                                  \
    INLINE vec select_##suffix(vb m, vec a, vec b) { vl w = wide_mask(m); return (vec)(((vl)a & w) | ((vl)b & ~w)); }
COMPARES(vl, i64)
COMPARES(vd, f64)
INLINE vl add_i64(vl a, vl b) { return (vl)((vw)a + (vw)b); }
INLINE vl sub_i64(vl a, vl b) { return (vl)((vw)a - (vw)b); }
INLINE vl mul_i64(vl a, vl b) { return (vl)((vw)a * (vw)b); }
INLINE vl neg_i64(vl a) { return (vl)(0 - (vw)a); }
INLINE vl max_i64(vl a, vl b) { return select_i64(gt_i64(a, b), a, b); }
INLINE vl min_i64(vl a, vl b) { return select_i64(lt_i64(a, b), a, b); }
INLINE vl abs_i64(vl a) { return select_i64(lt_i64(a, (vl){ 0 }), neg_i64(a), a); }
INLINE vl and_i64(vl a, vl b) { return a & b; }
INLINE vl or_i64(vl a, vl b) { return a | b; }
INLINE vl xor_i64(vl a, vl b) { return a ^ b; }
INLINE vl not_i64(vl a) { return ~a; }
INLINE vl sign_i64(vl a) { return (vl)(a < 0) - (vl)(a > 0); }
INLINE vb to_b_i64(vl a) { return mask_wide(a != 0); }
INLINE vf to_f32_i64(vl a) { return __builtin_convertvector(a, vf); }
INLINE vd to_f64_i64(vl a) { return __builtin_convertvector(a, vd); }
INLINE vl to_i64_b(vb a) { return wide_mask(a) & 1; }
INLINE vd to_f64_b(vb a) { return __builtin_convertvector(to_i64_b(a), vd); }
INLINE vf to_f32_f64(vd a) { return __builtin_convertvector(a, vf); }
INLINE vl to_i64_f64(vd a) { vl r; EACH(i) r[i] = (i64)a[i]; return r; }
INLINE vd abs_f64(vd a) { return (vd)((vl)a & 0x7fffffffffffffff); }
LANES1(vd, sqrt_f64, __builtin_sqrt)
INLINE vd rsqrt_f64(vd a) { return 1 / sqrt_f64(a); }
INLINE vb isnan_f64(vd a) { return ne_f64(a, a); }
INLINE vb to_b_f64(vd a) { return ne_f64(a, (vd){ 0 }); }
INLINE vd max_f64(vd a, vd b) { return select_f64(or_b(gt_f64(a, b), isnan_f64(a)), a, b); }
INLINE vd min_f64(vd a, vd b) { return select_f64(or_b(lt_f64(a, b), isnan_f64(a)), a, b); }
#define LIBM_F64(name) LANES1(vd, name##_f64, __builtin_##name)
LIBM_F64(exp)
LIBM_F64(exp2) LIBM_F64(expm1) LIBM_F64(log) LIBM_F64(log2) LIBM_F64(log10) LIBM_F64(log1p) LIBM_F64(tanh) LIBM_F64(erf)
INLINE double pow_lane(double a, double b) {
    return rt__pow_near_f64(a, b) ? rt_pow_f64(a, b) : __builtin_pow(a, b);
}
LANES2(vd, pow_f64, pow_lane)
INLINE vd gelu_f64(vd a) { return a * 0.5 * (1.0 + erf_f64(a * 0.7071067811865476)); }
INLINE vd gelu_slope_f64(vd a) {
    return 0.5 * (1.0 + erf_f64(a * 0.7071067811865476)) + a * (0.3989422804014327 * exp_f64(a * a * -0.5));
}

/* ---- memory ---- */
/* `step`: bytes between the lanes. */
#define MOVES(suffix, type, mem, small)                                                                                \
    INLINE small get_##suffix(const char *p, i64 k) {                                                                  \
        if (k >= W) return (small)*(const mem *)p;                                                                     \
        small v = { 0 };                                                                                               \
        for (i64 i = 0; i < k; i++) v[i] = ((const type *)p)[i];                                                       \
        return v;                                                                                                      \
    }                                                                                                                  \
    INLINE small gather_##suffix(const char *p, i64 step, i64 k) {                                                     \
        small v = { 0 };                                                                                               \
        for (i64 i = 0; i < (k < W ? k : W); i++) v[i] = *(const type *)(p + i * step);                                \
        return v;                                                                                                      \
    }                                                                                                                  \
    INLINE void put_##suffix(char *p, i64 k, small v) {                                                                \
        if (k >= W) *(mem *)p = (mem)v;                                                                                \
        else for (i64 i = 0; i < k; i++) ((type *)p)[i] = v[i];                                                        \
    }                                                                                                                  \
    INLINE void scatter_##suffix(char *p, i64 step, i64 k, small v) {                                                  \
        for (i64 i = 0; i < (k < W ? k : W); i++) *(type *)(p + i * step) = v[i];                                      \
    }
#if !MASKS
        MOVES(f32, float, mem_f32, vf)
#else
        INLINE vf get_f32(const char *p, i64 k) {
    return __builtin_ia32_loadups512_mask((const float *)p, (vf){ 0 }, first_lanes(k));
}
INLINE void put_f32(char *p, i64 k, vf v) { __builtin_ia32_storeups512_mask((float *)p, v, first_lanes(k)); }
INLINE vf gather_f32(const char *p, i64 step, i64 k) {
    vf v = { 0 };
    for (i64 i = 0; i < (k < W ? k : W); i++) v[i] = *(const float *)(p + i * step);
    return v;
}
INLINE void scatter_f32(char *p, i64 step, i64 k, vf v) {
    for (i64 i = 0; i < (k < W ? k : W); i++) *(float *)(p + i * step) = v[i];
}
#endif
            MOVES(i64, i64, mem_i64, vl) MOVES(f64, double, mem_f64, vd) MOVES(raw_i32, int, mem_i32, vi)
                MOVES(raw_u8, unsigned char, mem_u8, vc) MOVES(raw_u16, unsigned short, mem_u16, vs)

    /* Elements whose register form differs from what lies in memory: how it is widened, how it is narrowed. */
    INLINE vl widen_i32(vi v) { return __builtin_convertvector(v, vl); }
INLINE vi narrow_i32(vl v) { return __builtin_convertvector(v, vi); }
INLINE vb widen_b8(vc v) { return mask_of(__builtin_convertvector(v, vi) != 0); }
INLINE vc narrow_b8(vb v) { return __builtin_convertvector(mask_int(v) & 1, vc); }
INLINE vl widen_u8(vc v) { return __builtin_convertvector(v, vl); }
INLINE vc narrow_u8(vl v) { return __builtin_convertvector(v, vc); }
INLINE vf widen_bf16(vs v) { return (vf)(__builtin_convertvector(v, vu) << 16); }
/* To nearest even; NaN becomes the one that rt_f32_to_bf16 makes. */
INLINE vs narrow_bf16(vf v) {
    vu u = (vu)v, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    vi nan = mask_int(NE(v, v));
    return __builtin_convertvector((vu)((nan & 0x7fc0) | ((vi)rounded & ~nan)), vs);
}
#define CONVERTED(suffix, raw, wide)                                                                                   \
    INLINE wide get_##suffix(const char *p, i64 k) { return widen_##suffix(get_##raw(p, k)); }                         \
    INLINE wide gather_##suffix(const char *p, i64 step, i64 k) { return widen_##suffix(gather_##raw(p, step, k)); }   \
    INLINE void put_##suffix(char *p, i64 k, wide v) { put_##raw(p, k, narrow_##suffix(v)); }                          \
    INLINE void scatter_##suffix(char *p, i64 step, i64 k, wide v) { scatter_##raw(p, step, k, narrow_##suffix(v)); }
CONVERTED(i32, raw_i32, vl)
CONVERTED(b8, raw_u8, vb)
CONVERTED(u8, raw_u8, vl)
CONVERTED(bf16, raw_u16, vf)
/* Lanes j .. of a row of n elements whose halves are exchanged, the one that comes first negated. */
INLINE vf rotate_f32(const char *row, i64 j, i64 n) {
    const i64 half = n / 2, k = n - j;
    if (j + W <= half) return -get_f32(row + 4 * (j + half), W);
    if (j >= half) return get_f32(row + 4 * (j - half), k);
    vf v = { 0 };
    for (i64 i = 0; i < (k < W ? k : W); i++)
        v[i] = j + i < half ? -((const float *)row)[j + i + half] : ((const float *)row)[j + i - half];
    return v;
}
/* One element in every lane. */
INLINE vf same_f32(const char *p) { return SPLAT(*(const float *)p); }
INLINE vd same_f64(const char *p) { return SPLAT_F64(*(const double *)p); }
INLINE vl same_i64(const char *p) { return SPLAT_I64(*(const i64 *)p); }
INLINE vl same_i32(const char *p) { return SPLAT_I64((i64)*(const int *)p); }
INLINE vl same_u8(const char *p) { return SPLAT_I64((i64)*(const unsigned char *)p); }
INLINE vb same_b8(const char *p) { return mask_of((vi){ 0 } - (*(const unsigned char *)p != 0)); }
INLINE vf same_bf16(const char *p) { return (vf)(((unsigned)*(const unsigned short *)p << 16) - (vu){ 0 }); }

/* ---- reductions: partial results in lanes, one number in every lane at the end ---- */
INLINE vf keep_f32(vf v, i64 k, float rest) { return k >= W ? v : PICK(first_lanes(k), v, SPLAT(rest)); }
typedef float f4 __attribute__((vector_size(16)));
typedef int i4 __attribute__((vector_size(16)));
typedef double d2 __attribute__((vector_size(16)));
typedef float f8 __attribute__((vector_size(32)));
typedef int i8 __attribute__((vector_size(32)));
typedef double d4 __attribute__((vector_size(32)));
#define TURN(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)
/* a > b || a != a ? a : b, as the instruction max: NaN stays. */
#define MOST(a, b, ints) PART((ints)(((a) > (b)) | ((a) != (a))), a, b, ints)
#define LEAST(a, b, ints) PART((ints)(((a) < (b)) | ((a) != (a))), a, b, ints)
#define PART(m, a, b, ints) ((__typeof__(a))(((ints)(a) & (m)) | ((ints)(b) & ~(m))))
#if W == 16
#define HALVES_OF(a) f8 low = TURN(a, 0, 1, 2, 3, 4, 5, 6, 7), high = TURN(a, 8, 9, 10, 11, 12, 13, 14, 15)
#define QUARTER(a, FOLD)                                    \
    ({                                                      \
        HALVES_OF(a);                                       \
        f8 h = FOLD(low, high, i8);                         \
        FOLD(TURN(h, 0, 1, 2, 3), TURN(h, 4, 5, 6, 7), i4); \
    })
#elif W == 8
#define QUARTER(a, FOLD) FOLD(TURN(a, 0, 1, 2, 3), TURN(a, 4, 5, 6, 7), i4)
#else
#define QUARTER(a, FOLD) (a)
#endif
#define ACROSS(name, FOLD)                                                                                             \
    INLINE vf name(vf a) {                                                                                             \
        f4 q = QUARTER(a, FOLD), r = FOLD(q, TURN(q, 2, 3, 0, 1), i4);                                                 \
        r = FOLD(r, TURN(r, 1, 0, 3, 2), i4);                                                                          \
        return SPLAT(r[0]);                                                                                            \
    }
ACROSS(across_max_f32, MOST)
ACROSS(across_min_f32, LEAST)
/* The last partial sums and those that went to double before, added up in double. */
INLINE vf total_f32(vd s, vf a) {
    union { vd all; d4 part[W / 4]; } x = { s };
    d4 t = x.part[0];
    for (int i = 1; i < W / 4; i++) t += x.part[i];
#if W == 16
    HALVES_OF(a);
    t += (__builtin_convertvector(TURN(low, 0, 1, 2, 3), d4) + __builtin_convertvector(TURN(low, 4, 5, 6, 7), d4)) +
         (__builtin_convertvector(TURN(high, 0, 1, 2, 3), d4) + __builtin_convertvector(TURN(high, 4, 5, 6, 7), d4));
#elif W == 8
    t += __builtin_convertvector(TURN(a, 0, 1, 2, 3), d4) + __builtin_convertvector(TURN(a, 4, 5, 6, 7), d4);
#else
    t += __builtin_convertvector(a, d4);
#endif
    d2 p = TURN(t, 0, 1) + TURN(t, 2, 3);
    return SPLAT((float)(p[0] + p[1]));
}
