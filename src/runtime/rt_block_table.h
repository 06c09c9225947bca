/* rt_block_table.h: every instruction of block programs, one line each.
 *
 *     X(name, arity, class of the result, class of the operands, expression in a, b, c)
 *
 * RT_BLOCK_FAST: expressions that vectorise, compiled once per instruction set. RT_BLOCK_CALLS: those that call libm or
 * loop, compiled once. RT_BLOCK_RANGED, RT_BLOCK_POLYNOMIALS: see there. RT_BLOCK_SELECTS: a is of class b.
 * RT_BLOCK_DIVISIONS: fail when an element of b is zero. */
#ifndef CRESSET_RT_BLOCK_TABLE_H
#define CRESSET_RT_BLOCK_TABLE_H

#define RT_COMPARE(X, K)                                                                                               \
    X(eq, 2, b, K, a == b) X(ne, 2, b, K, a != b) X(lt, 2, b, K, a < b) X(le, 2, b, K, a <= b)                         \
    X(gt, 2, b, K, a > b) X(ge, 2, b, K, a >= b)
#define RT_FAST_REAL(X, K, F)                                                                                          \
    X(add, 2, K, K, a + b) X(sub, 2, K, K, a - b) X(mul, 2, K, K, a * b) X(div, 2, K, K, a / b)                        \
    X(neg, 1, K, K, -a) X(abs, 1, K, K, fabs##F(a)) X(sqrt, 1, K, K, sqrt##F(a)) X(rsqrt, 1, K, K, 1 / sqrt##F(a))     \
    X(fma, 3, K, K, fma##F(a, b, c))                                                                                   \
    X(max, 2, K, K, a > b || a != a ? a : b) X(min, 2, K, K, a < b || a != a ? a : b)                                  \
    X(fmax, 2, K, K, a >= b || b != b ? a : b) X(fmin, 2, K, K, a <= b || b != b ? a : b)                              \
    X(floor, 1, K, K, floor##F(a)) X(ceil, 1, K, K, ceil##F(a)) X(trunc, 1, K, K, trunc##F(a))                         \
    X(round, 1, K, K, nearbyint##F(a)) X(frac, 1, K, K, a - trunc##F(a)) X(truncdiv, 2, K, K, trunc##F(a / b))         \
    X(sign, 1, K, K, rt_sign_##K(a)) X(copysign, 2, K, K, copysign##F(a, b))                                           \
    X(isnan, 1, b, K, a != a) X(isinf, 1, b, K, fabs##F(a) == INFINITY) X(isfinite, 1, b, K, fabs##F(a) < INFINITY)    \
    X(signbit, 1, b, K, signbit(a) != 0) X(to_b, 1, b, K, a != 0)                                                      \
    X(to_i64, 1, i64, K, (int64_t)a) X(heaviside, 2, K, K, a == 0 ? b : a > 0)                                         \
    RT_COMPARE(X, K)
#define RT_FAST_INTEGER(X, K, W)                                                                                       \
    X(add, 2, K, K, rt_add_##W(a, b)) X(sub, 2, K, K, rt_sub_##W(a, b)) X(mul, 2, K, K, rt_mul_##W(a, b))              \
    X(max, 2, K, K, a > b ? a : b) X(min, 2, K, K, a < b ? a : b) X(fmax, 2, K, K, a > b ? a : b)                      \
    X(fmin, 2, K, K, a < b ? a : b)                                                                                    \
    X(and, 2, K, K, a & b) X(or, 2, K, K, a | b) X(xor, 2, K, K, a ^ b) X(not, 1, K, K, ~a)                            \
    X(shl, 2, K, K, rt_shl_##K(a, b)) X(shr, 2, K, K, rt_shr_##K(a, b))                                                \
    X(to_b, 1, b, K, a != 0) X(to_f32, 1, f32, K, (float)a) X(to_f64, 1, f64, K, (double)a)                            \
    X(isnan, 1, b, K, (void)a, 0) X(isinf, 1, b, K, (void)a, 0) X(isfinite, 1, b, K, (void)a, 1)                       \
    X(floor, 1, K, K, a) X(ceil, 1, K, K, a) X(trunc, 1, K, K, a) X(round, 1, K, K, a)                                 \
    X(heaviside, 2, K, K, a == 0 ? b : a > 0)                                                                          \
    RT_COMPARE(X, K)
#define RT_FAST_COMPLEX(X, K, R)                                                                                       \
    X(add, 2, K, K, rt_add_##K(a, b)) X(sub, 2, K, K, rt_sub_##K(a, b)) X(mul, 2, K, K, rt_mul_##K(a, b))              \
    X(neg, 1, K, K, rt_make_##K(-a.re, -a.im)) X(conj, 1, K, K, rt_make_##K(a.re, -a.im))                              \
    X(real, 1, R, K, a.re) X(imag, 1, R, K, a.im) X(complex, 2, K, R, rt_make_##K(a, b))                               \
    X(eq, 2, b, K, a.re == b.re && a.im == b.im) X(ne, 2, b, K, a.re != b.re || a.im != b.im)                          \
    X(to_b, 1, b, K, a.re != 0 || a.im != 0)

#define RT_LOGS(X, K)                                                                                                  \
    X(logaddexp, 2, K, K, rt_logaddexp_##K(a, b)) X(logaddexp2, 2, K, K, rt_logaddexp2_##K(a, b))                      \
    X(xlogy, 2, K, K, rt_xlogy_##K(a, b)) X(xlog1py, 2, K, K, rt_xlog1py_##K(a, b)) X(entr, 1, K, K, rt_entr_##K(a))

#define RT_BLOCK_FAST(X)                                                                                               \
    RT_FAST_REAL(X, f32, f) RT_FAST_REAL(X, f64, )                                                                     \
    RT_FAST_INTEGER(X, i64, i64) RT_FAST_INTEGER(X, u64, u64)                                                          \
    RT_FAST_COMPLEX(X, c64, f32) RT_FAST_COMPLEX(X, c128, f64)                                                         \
    X(neg, 1, i64, i64, rt_neg_i64(a)) X(abs, 1, i64, i64, rt_abs_i64(a)) X(sign, 1, i64, i64, (a > 0) - (a < 0))      \
    X(signbit, 1, b, i64, a < 0)                                                                                       \
    X(neg, 1, u64, u64, 0 - a) X(abs, 1, u64, u64, a) X(sign, 1, u64, u64, a > 0) X(signbit, 1, b, u64, (void)a, 0)    \
    X(to_u64, 1, u64, i64, (uint64_t)a) X(to_i64, 1, i64, u64, (int64_t)a)                                             \
    X(to_f64, 1, f64, f32, a) X(to_f32, 1, f32, f64, (float)a)                                                         \
    X(to_c64, 1, c64, f32, rt_make_c64(a, 0)) X(to_c128, 1, c128, f64, rt_make_c128(a, 0))                             \
    X(to_c128, 1, c128, c64, rt_make_c128(a.re, a.im)) X(to_c64, 1, c64, c128, rt_make_c64((float)a.re, (float)a.im))  \
    X(exp, 1, f32, f32, rt_exp_f32(a)) X(exp2, 1, f32, f32, rt_exp2_f32(a)) X(expm1, 1, f32, f32, rt_expm1_f32(a))     \
    X(log, 1, f32, f32, rt_log_f32(a)) X(log2, 1, f32, f32, rt_log2_f32(a)) X(log10, 1, f32, f32, rt_log10_f32(a))     \
    X(log1p, 1, f32, f32, rt_log1p_f32(a)) X(tanh, 1, f32, f32, rt_tanh_f32(a)) X(erf, 1, f32, f32, rt_erf_f32(a))     \
    X(sigmoid, 1, f32, f32, rt_sigmoid_f32(a)) X(log_sigmoid, 1, f32, f32, rt_log_sigmoid_f32(a))                      \
    X(asin, 1, f32, f32, rt_asin_f32(a)) X(acos, 1, f32, f32, rt_acos_f32(a)) X(atan, 1, f32, f32, rt_atan_f32(a))     \
    X(atanh, 1, f32, f32, rt_atanh_f32(a)) X(atan2, 2, f32, f32, rt_atan2_f32(a, b))                                   \
    X(nextafter, 2, f32, f32, rt_nextafter_f32(a, b)) X(mantissa, 1, f32, f32, rt_mantissa_f32(a))                     \
    X(exponent, 1, f32, f32, rt_exponent_f32(a)) X(asinh, 1, f32, f32, rt_asinh_f32(a))                                \
    X(acosh, 1, f32, f32, rt_acosh_f32(a)) RT_LOGS(X, f32)                                                             \
    X(hypot, 2, f32, f32, rt_hypot_f32(a, b)) X(angle, 1, f32, f32, rt_angle_f32(a))                                   \
    X(gelu, 1, f32, f32, rt_gelu_f32(a)) X(gelu_slope, 1, f32, f32, rt_gelu_slope_f32(a))                              \
    X(erfc, 1, f32, f32, rt_erfc_f32(a)) X(erfinv, 1, f32, f32, rt_erfinv_f32(a))                                      \
    X(ndtri, 1, f32, f32, rt_ndtri_f32(a)) X(log_ndtr, 1, f32, f32, rt_log_ndtr_f32(a))                                \
    X(digamma, 1, f32, f32, rt_digamma_f32(a)) X(i0, 1, f32, f32, rt_i0_f32(a)) X(i0e, 1, f32, f32, rt_i0e_f32(a))     \
    X(i1, 1, f32, f32, rt_i1_f32(a)) X(i1e, 1, f32, f32, rt_i1e_f32(a))                                                \
    /* A sum of truth values is their or, a product their and. */                                                      \
    X(add, 2, b, b, a | b) X(mul, 2, b, b, a & b) X(and, 2, b, b, a & b) X(or, 2, b, b, a | b) X(xor, 2, b, b, a ^ b)  \
    X(not, 1, b, b, a ^ 1) X(eq, 2, b, b, a == b) X(ne, 2, b, b, a ^ b) X(max, 2, b, b, a | b) X(min, 2, b, b, a & b)  \
    X(fmax, 2, b, b, a | b) X(fmin, 2, b, b, a & b) X(sign, 1, b, b, a) X(isnan, 1, b, b, (void)a, 0)                  \
    X(isinf, 1, b, b, (void)a, 0) X(isfinite, 1, b, b, (void)a, 1) X(signbit, 1, b, b, (void)a, 0)                     \
    X(to_f32, 1, f32, b, a) X(to_f64, 1, f64, b, a) X(to_i64, 1, i64, b, a) X(to_u64, 1, u64, b, a)                    \
    X(to_c64, 1, c64, b, rt_make_c64(a, 0)) X(to_c128, 1, c128, b, rt_make_c128(a, 0))

/* `fast` where `inside` holds of all operands of a block; `any`, which gives the same there, for a block with others.
 *     X(name, arity, class, inside, fast, any)
 * RT_NEAR: those whose other elements go through libm one by one. */
#define RT_NEAR(X, name, arity, inside, fast, slow) X(name, arity, f32, inside, fast, (inside) ? (fast) : (slow))
#define RT_BLOCK_RANGED(X)                                                                                             \
    RT_NEAR(X, sin, 1, fabsf(a) <= RT_SIN_RANGE, rt_sin_f32(a), sinf(a))                                               \
    RT_NEAR(X, cos, 1, fabsf(a) <= RT_SIN_RANGE, rt_cos_f32(a), cosf(a))                                               \
    RT_NEAR(X, tan, 1, fabsf(a) <= RT_SIN_RANGE, rt_tan_f32(a), tanf(a))                                               \
    RT_NEAR(X, sinc, 1, fabsf(a) <= RT_SIN_RANGE / 4, rt_sinc_near(a), rt_sinc_f32(a))                                 \
    RT_NEAR(X, sinh, 1, fabsf(a) <= RT_SINH_RANGE, rt_sinh_f32(a), sinhf(a))                                           \
    RT_NEAR(X, cosh, 1, fabsf(a) <= RT_SINH_RANGE, rt_cosh_f32(a), coshf(a))                                           \
    RT_NEAR(X, pow, 2, rt__pow_known(a, b), rt__pow_known_f32(a, b), powf(a, b))                                       \
    RT_NEAR(X, fmod, 2, rt__fmod_near(a, b), rt_fmod_f32(a, b), fmodf(a, b))                                           \
    RT_NEAR(X, remainder, 2, rt__fmod_near(a, b), rt__remainder_of_f32(b, rt_fmod_f32(a, b)), rt_remainder_f32(a, b))  \
    RT_NEAR(X, floordiv, 2, rt__fmod_near(a, b), rt__floordiv_of_f32(a, b, rt_fmod_f32(a, b)), rt_floordiv_f32(a, b))  \
    X(lgamma, 1, f32, (a > 0) & (a < INFINITY), rt__lgamma_near(a), rt_lgamma_f32(a))                                  \
    X(pow, 2, f64, rt__pow_near_f64(a, b), rt_pow_f64(a, b), rt__pow_near_f64(a, b) ? rt_pow_f64(a, b) : pow(a, b))

#define RT_BLOCK_SELECTS(X) X(f32) X(f64) X(i64) X(u64) X(c64) X(c128) X(b)

#define RT_CALLS_REAL(X, K)                                                                                            \
    X(polygamma, 2, K, K, rt_polygamma_##K(a, b)) X(zeta, 2, K, K, rt_zeta_##K(a, b))                                  \
    X(igamma, 2, K, K, rt_igamma_##K(a, b)) X(igammac, 2, K, K, rt_igammac_##K(a, b))                                  \
    X(erfcx, 1, K, K, rt_erfcx_##K(a)) X(k0, 1, K, K, rt_k0_##K(a)) X(k0e, 1, K, K, rt_k0e_##K(a))                     \
    X(k1, 1, K, K, rt_k1_##K(a)) X(k1e, 1, K, K, rt_k1e_##K(a)) X(j0, 1, K, K, rt_j0_##K(a))                           \
    X(j1, 1, K, K, rt_j1_##K(a)) X(y0, 1, K, K, rt_y0_##K(a)) X(y1, 1, K, K, rt_y1_##K(a))                             \
    X(airy_ai, 1, K, K, rt_airy_ai_##K(a)) X(spherical_j0, 1, K, K, rt_spherical_j0_##K(a))
/* Of a class, x and the degree: rt_NAME_block_K does a whole block. */
#define RT_BLOCK_POLYNOMIALS(X) RT_POLYNOMIALS(X, f32) RT_POLYNOMIALS(X, f64)
#define RT_POLYNOMIALS(X, K)                                                                                           \
    X(chebyshev_t, 2, K, K) X(chebyshev_u, 2, K, K) X(chebyshev_v, 2, K, K) X(chebyshev_w, 2, K, K)                    \
    X(hermite_h, 2, K, K) X(hermite_he, 2, K, K) X(laguerre_l, 2, K, K) X(legendre_p, 2, K, K)
#define RT_CALLS_COMPLEX(X, K, R, F)                                                                                   \
    X(div, 2, K, K, rt_div_##K(a, b)) X(pow, 2, K, K, rt_pow_##K(a, b)) X(exp, 1, K, K, rt_exp_##K(a))                 \
    X(exp2, 1, K, K, rt_exp2_##K(a)) X(expm1, 1, K, K, rt_expm1_##K(a)) X(log, 1, K, K, rt_log_##K(a))                 \
    X(log2, 1, K, K, rt_log2_##K(a)) X(log10, 1, K, K, rt_log10_##K(a)) X(log1p, 1, K, K, rt_log1p_##K(a))             \
    X(sqrt, 1, K, K, rt_sqrt_##K(a)) X(rsqrt, 1, K, K, rt_div_##K(rt_make_##K(1, 0), rt_sqrt_##K(a)))                  \
    X(sin, 1, K, K, rt_sin_##K(a)) X(cos, 1, K, K, rt_cos_##K(a)) X(tan, 1, K, K, rt_tan_##K(a))                       \
    X(asin, 1, K, K, rt_asin_##K(a)) X(acos, 1, K, K, rt_acos_##K(a)) X(atan, 1, K, K, rt_atan_##K(a))                 \
    X(sinh, 1, K, K, rt_sinh_##K(a)) X(cosh, 1, K, K, rt_cosh_##K(a)) X(tanh, 1, K, K, rt_tanh_##K(a))                 \
    X(asinh, 1, K, K, rt_asinh_##K(a)) X(acosh, 1, K, K, rt_acosh_##K(a)) X(atanh, 1, K, K, rt_atanh_##K(a))           \
    X(sigmoid, 1, K, K, rt_sigmoid_##K(a)) X(sgn, 1, K, K, rt_sgn_##K(a)) X(xlogy, 2, K, K, rt_xlogy_##K(a, b))        \
    X(sinc, 1, K, K, rt_sinc_##K(a)) X(logaddexp, 2, K, K, rt_logaddexp_##K(a, b))                                     \
    X(isnan, 1, b, K, isnan(a.re) || isnan(a.im)) X(isinf, 1, b, K, isinf(a.re) || isinf(a.im))                        \
    X(isfinite, 1, b, K, isfinite(a.re) && isfinite(a.im))                                                             \
    X(abs, 1, R, K, hypot##F(a.re, a.im)) X(angle, 1, R, K, atan2##F(a.im, a.re))                                      \
    X(polar, 2, K, R, rt_make_##K(a * cos##F(b), a * sin##F(b)))

/* Of doubles; the float forms are straight-line code. */
#define RT_CALLS_DOUBLE(X, K)                                                                                          \
    X(exp, 1, K, K, exp(a)) X(exp2, 1, K, K, exp2(a)) X(expm1, 1, K, K, expm1(a)) X(log, 1, K, K, log(a))              \
    X(log2, 1, K, K, log2(a)) X(log10, 1, K, K, log10(a)) X(log1p, 1, K, K, log1p(a)) X(sin, 1, K, K, sin(a))          \
    X(cos, 1, K, K, cos(a)) X(tanh, 1, K, K, tanh(a)) X(erf, 1, K, K, erf(a)) X(sigmoid, 1, K, K, rt_sigmoid_##K(a))   \
    X(log_sigmoid, 1, K, K, rt_log_sigmoid_##K(a)) X(tan, 1, K, K, tan(a)) X(asin, 1, K, K, asin(a))                   \
    X(acos, 1, K, K, acos(a)) X(atan, 1, K, K, atan(a)) X(sinh, 1, K, K, sinh(a)) X(cosh, 1, K, K, cosh(a))            \
    X(atanh, 1, K, K, atanh(a)) X(atan2, 2, K, K, atan2(a, b)) X(fmod, 2, K, K, fmod(a, b))                            \
    X(nextafter, 2, K, K, nextafter(a, b)) X(floordiv, 2, K, K, rt_floordiv_##K(a, b))                                 \
    X(remainder, 2, K, K, rt_remainder_##K(a, b)) X(mantissa, 1, K, K, rt_mantissa_##K(a))                             \
    X(exponent, 1, K, K, rt_exponent_##K(a)) X(asinh, 1, K, K, asinh(a)) X(acosh, 1, K, K, acosh(a))                   \
    RT_LOGS(X, K)                                                                                                      \
    X(erfc, 1, K, K, erfc(a)) X(hypot, 2, K, K, hypot(a, b)) X(sinc, 1, K, K, rt_sinc_##K(a))                          \
    X(angle, 1, K, K, rt_angle_##K(a)) X(gelu, 1, K, K, rt_gelu_##K(a)) X(gelu_slope, 1, K, K, rt_gelu_slope_##K(a))   \
    X(lgamma, 1, K, K, rt_lgamma_##K(a)) X(digamma, 1, K, K, rt_digamma_##K(a)) X(erfinv, 1, K, K, rt_erfinv_##K(a))   \
    X(ndtri, 1, K, K, rt_ndtri_##K(a)) X(log_ndtr, 1, K, K, rt_log_ndtr_##K(a)) X(i0, 1, K, K, rt_i0_##K(a))           \
    X(i0e, 1, K, K, rt_i0e_##K(a)) X(i1, 1, K, K, rt_i1_##K(a)) X(i1e, 1, K, K, rt_i1e_##K(a))

#define RT_BLOCK_CALLS(X)                                                                                              \
    RT_CALLS_REAL(X, f32) RT_CALLS_REAL(X, f64) RT_CALLS_DOUBLE(X, f64) RT_CALLS_COMPLEX(X, c64, f32, f)               \
    RT_CALLS_COMPLEX(X, c128, f64, ) X(pow, 2, i64, i64, rt_pow_i64(a, b)) X(pow, 2, u64, u64, rt_pow_u64(a, b))       \
    X(gcd, 2, i64, i64, rt_gcd_i64(a, b)) X(gcd, 2, u64, u64, rt_gcd_u64(a, b))                                        \
    X(lcm, 2, i64, i64, rt_lcm_i64(a, b)) X(lcm, 2, u64, u64, rt_lcm_u64(a, b))                                        \
    X(narrow_f16, 1, f32, f32, rt_f16_to_f32(rt_f32_to_f16(a)))                                                        \
    X(narrow_bf16, 1, f32, f32, rt_bf16_to_f32(rt_f32_to_bf16(a)))                                                     \
    X(nextafter_bf16, 2, f32, f32, rt_nextafter_bf16(a, b)) X(nextafter_f16, 2, f32, f32, rt_nextafter_f16(a, b))

#define RT_BLOCK_DIVISIONS(X)                                                                                          \
    X(floordiv, 2, i64, i64, rt_floordiv_i64(a, b)) X(remainder, 2, i64, i64, rt_remainder_i64(a, b))                  \
    X(truncdiv, 2, i64, i64, rt_truncdiv_i64(a, b)) X(fmod, 2, i64, i64, rt_fmod_i64(a, b))                            \
    X(floordiv, 2, u64, u64, a / b) X(remainder, 2, u64, u64, a % b) X(truncdiv, 2, u64, u64, a / b)                   \
    X(fmod, 2, u64, u64, a % b)

#endif
