/* rt_special.h: special functions that libm does not have. Computed in double; the float forms round once, or are code
 * of their own (rt_fspecial.h). Domains, poles and infinities as in PyTorch's torch.special. Results are within a few
 * units of the last place, except close to zeros that are not at 0, where the absolute error is of that order. */
#ifndef CRESSET_RT_SPECIAL_H
#define CRESSET_RT_SPECIAL_H

#include <stdint.h>

#define RT_SPECIAL_DOUBLE(X) X(lgamma) X(digamma) X(erfinv) X(ndtri) X(log_ndtr) X(i0) X(i0e) X(i1) X(i1e)
#define RT_SPECIAL_UNARY(X)                                                                                            \
    X(erfcx) X(k0) X(k0e) X(k1) X(k1e) X(j0) X(j1) X(y0) X(y1) X(airy_ai) X(spherical_j0)
/* polygamma(n, x); zeta(s, q) of Hurwitz; igamma(a, x) and igammac(a, x) regularised. */
#define RT_SPECIAL_BINARY(X) X(zeta) X(igamma) X(igammac)
/* (x, degree), and blocks of n, whose result may be one of the operands. */
#define RT_SPECIAL_POLYNOMIALS(X)                                                                                      \
    X(chebyshev_t) X(chebyshev_u) X(chebyshev_v) X(chebyshev_w) X(hermite_h) X(hermite_he) X(laguerre_l) X(legendre_p)

#define X(name) double rt_##name##_f64(double a);
RT_SPECIAL_DOUBLE(X)
#undef X
#define X(name)                                                                                                        \
    double rt_##name##_f64(double a);                                                                                  \
    static inline float rt_##name##_f32(float a) { return (float)rt_##name##_f64((double)a); }
RT_SPECIAL_UNARY(X)
#undef X
#define X(name)                                                                                                        \
    double rt_##name##_f64(double a, double b);                                                                        \
    static inline float rt_##name##_f32(float a, float b) { return (float)rt_##name##_f64((double)a, (double)b); }
RT_SPECIAL_BINARY(X)
#undef X
#define X(name)                                                                                                        \
    double rt_##name##_f64(double x, double degree);                                                                   \
    void rt_##name##_block_f32(int64_t n, float *out, const float *x, const float *degree);                            \
    void rt_##name##_block_f64(int64_t n, double *out, const double *x, const double *degree);
RT_SPECIAL_POLYNOMIALS(X)
#undef X
double rt_polygamma_f64(double n, double x);
float rt_polygamma_f32(float n, float x);

#endif
