/* rt_fmath_text.h: float functions as straight-line code over a type of the includer's choice.
 *
 * Included twice: by rt_fmath.h with V = float, which is what block loops compute with, and by rt_rows_vector.h with V
 * = a vector of W floats, which is what emitted kernels compute with. One text, so both give the same bits.
 *
 * No calls, no branches, no fused operations. Results are within 2.5 units of the last place (tests/unit/test_fmath.c
 * holds them to that over the whole range); NaN, infinities, signed zeros and subnormal numbers come out as libm's.
 * Coefficients are minimax fits of our own (relative error in the comments).
 *
 * The includer defines: V, VI, VU (float, int32, uint32), VD (double), FN(name), GT LT GE LE EQ (comparisons to a
 * mask), PICK(mask, a, b) (of V), SPLAT(c) (a constant as V), AS_INT, AS_FLOAT (bits), TO_INT, TO_FLOAT, TO_DOUBLE,
 * NARROW (values), ABS, COPYSIGN, ODD(i), HALVES(i) (masks: bit 0, bit 1 of an integer is set). */

/* To the nearest integer, |a| < 2^22: the sum has no bits left for a fraction. */
static inline V FN(_round)(V a) { return (a + 12582912.0f) - 12582912.0f; }
/* -126 <= n <= 127. Integers wrap here and below: what NaN makes of them does not matter, NaN comes through anyway. */
static inline V FN(_power_of_2)(VU n) { return AS_FLOAT((VI)((n + 127u) << 23)); }

/* ---- exponentials: x = n log 2 + r, e^x = 2^n e^r ---- */

/* r with |r| <= log(2)/2, |x| < 2^21; log 2 in two pieces, the first short enough that n times it is exact. *n: its low
 * bits are the integer's; the bits above are those of the number that rounded it, and leave with the first shift. */
static inline V FN(_reduce_exp)(V x, VU *n) {
    V t = x * 1.44269504f + 12582912.0f, whole = t - 12582912.0f;
    *n = (VU)AS_INT(t);
    return (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
}
/* e^r - 1 to 3e-9. */
static inline V FN(_exp_rest)(V r) {
    V z = r * r, tail = (1.395047347e-3f * z + 4.166620614e-2f) * z + 0.5f + r * (8.368882564e-3f * z + 0.1666651891f);
    return z * tail + r;
}
/* p 2^n for -252 <= n <= 254: two factors, so that neither leaves the range before the product does. */
static inline V FN(_scale)(V p, VI n) {
    VI half = n >> 1;
    return p * FN(_power_of_2)((VU)half) * FN(_power_of_2)((VU)n - (VU)half);
}

static inline V FN(exp)(V x) {
    VU n;
    V y = PICK(GT(x, SPLAT(89.0f)), SPLAT(89.0f), x);
    y = PICK(LT(y, SPLAT(-104.0f)), SPLAT(-104.0f), y);
    V r = FN(_reduce_exp)(y, &n);
    return FN(_scale)(FN(_exp_rest)(r) + 1.0f, (VI)n);
}
/* The same numbers for -87 <= x <= 88, where one factor is enough. NaN and what is farther away give anything. */
static inline V FN(_exp_near_0)(V x) {
    VU n;
    V r = FN(_reduce_exp)(x, &n);
    return (FN(_exp_rest)(r) + 1.0f) * FN(_power_of_2)(n);
}
static inline V FN(exp2)(V x) {
    V y = PICK(GT(x, SPLAT(129.0f)), SPLAT(129.0f), x);
    y = PICK(LT(y, SPLAT(-151.0f)), SPLAT(-151.0f), y);
    V t = y + 12582912.0f, r = (y - (t - 12582912.0f)) * 0.693147181f;
    return FN(_scale)(FN(_exp_rest)(r) + 1.0f, AS_INT(t));
}
/* 2^n (e^r - 1) + (2^n - 1), halved on the way: 2^128 is no float. -18 <= x <= 89. */
static inline V FN(_expm1_near)(V x) {
    VU n;
    V r = FN(_reduce_exp)(x, &n), t = FN(_power_of_2)(n - 1u);
    return 2.0f * (t * FN(_exp_rest)(r) + (t - 0.5f));
}
static inline V FN(expm1)(V x) {
    V y = PICK(GT(x, SPLAT(89.0f)), SPLAT(89.0f), x);
    y = PICK(LT(y, SPLAT(-18.0f)), SPLAT(-18.0f), y);
    return PICK(EQ(x, SPLAT(0.0f)), x, FN(_expm1_near)(y));
}
static inline V FN(sigmoid)(V x) { return 1.0f / (1.0f + FN(exp)(-x)); }
/* (e^2x - 1) / (e^2x + 1), odd by construction. */
static inline V FN(tanh)(V x) {
    V size = ABS(x), y = PICK(GT(size, SPLAT(10.0f)), SPLAT(10.0f), size), e = FN(_expm1_near)(2.0f * y);
    return COPYSIGN(e / (e + 2.0f), x);
}

/* ---- logarithms: x = 2^e m, sqrt(1/2) <= m < sqrt(2) ---- */

/* Parts of log(x): the exponent, and log(m) = f - (f^2/2 - s (f^2/2 + R)), s = f / (2 + f), as f minus *rest. */
static inline V FN(_reduce_log)(V x, V *e, V *rest) {
    V y = PICK(LT(x, SPLAT(1.17549435e-38f)), x * 8388608.0f, x);
    VU i = (VU)AS_INT(y);
    VI k = (VI)(i - 0x3f3504f3u) >> 23;
    V f = AS_FLOAT((VI)(i - ((VU)k << 23))) - 1.0f;
    *e = TO_FLOAT(k) - PICK(LT(x, SPLAT(1.17549435e-38f)), SPLAT(23.0f), SPLAT(0.0f));
    V s = f / (2.0f + f), z = s * s, half = 0.5f * f * f;
    V tail = 2.0f * z * (((0.1167244537f * z + 0.1427513688f) * z + 0.2000006344f) * z + 0.3333333327f); /* 6e-10 */
    *rest = half - s * (half + tail);
    return f;
}
/* What is not a positive finite number. */
static inline V FN(_log_edges)(V x, V result) {
    /* infinity, NaN */
    V outside = PICK(EQ(x, SPLAT(0.0f)), SPLAT(-__builtin_inff()),
                     PICK(LT(x, SPLAT(0.0f)), SPLAT(__builtin_nanf("")), x));
    return PICK(GT(x, SPLAT(0.0f)) & LT(x, SPLAT(__builtin_inff())), result, outside);
}
static inline V FN(_log_near)(V x) { /* 0 < x < infinity */
    V e, rest, f = FN(_reduce_log)(x, &e, &rest);
    return e * 0.693359375f + ((f - (rest + e * 2.12194440e-4f)));
}
static inline V FN(log)(V x) { return FN(_log_edges)(x, FN(_log_near)(x)); }
static inline V FN(log2)(V x) {
    V e, rest, f = FN(_reduce_log)(x, &e, &rest), m = f - rest;
    /* log2(e) in two pieces, and log(m) with what its subtraction lost. */
    V lost = (f - m) - rest;
    return FN(_log_edges)(x, e + (m * 1.44269502f + (lost * 1.44269502f + m * 1.92596298e-8f)));
}
static inline V FN(log10)(V x) {
    V e, rest, f = FN(_reduce_log)(x, &e, &rest), m = f - rest, lost = (f - m) - rest;
    return FN(_log_edges)(x, e * 0.301025391f + (m * 0.434294492f +
                                                 (lost * 0.434294492f + (e * 4.60503914e-6f - m * 1.01010111e-8f))));
}
/* log(u) + (x - (u - 1)) / u with u = 1 + x rounded: the second term is what the rounding lost. -1 < x < infinity. */
static inline V FN(_log1p_near)(V x) {
    V u = 1.0f + x, e, rest, f = FN(_reduce_log)(u, &e, &rest), lost = (x - (u - 1.0f)) / u;
    return e * 0.693359375f + (f - (rest + e * 2.12194440e-4f - lost));
}
static inline V FN(log1p)(V x) {
    V result = PICK(LT(ABS(x), SPLAT(5.96046448e-8f)), x, FN(_log1p_near)(x));
    V below = PICK(LT(x, SPLAT(-1.0f)), SPLAT(__builtin_nanf("")), x);
    V outside = PICK(EQ(x, SPLAT(-1.0f)), SPLAT(-__builtin_inff()), below);
    return PICK(GT(x, SPLAT(-1.0f)) & LT(x, SPLAT(__builtin_inff())), result, outside);
}
static inline V FN(log_sigmoid)(V a) {
    return PICK(LT(a, SPLAT(0.0f)), a, SPLAT(0.0f)) - FN(_log1p_near)(FN(exp)(-ABS(a)));
}

/* ---- the error function: 1 - e^q, q = log(1 - erf|x|) = -(y + y P(y)), y = |x| ---- */
static inline V FN(erf)(V x) {
    V size = ABS(x), y = PICK(GT(size, SPLAT(3.96f)), SPLAT(3.96f), size);
    V z = y * y; /* even and odd terms apart: half as long a chain */
    V even = (((9.25625868e-6f * z + 6.328366701e-4f) * z + 1.603957502e-4f) * z - 0.1027778306f) * z - 0.128379172f;
    V odd = ((-1.176412161e-4f * z - 1.667027143e-3f) * z + 1.91530641e-2f) * z - 0.636619382f;
    return COPYSIGN(-FN(_expm1_near)(y * (even + y * odd) - y), x);
}

/* ---- gelu: x times the normal distribution, its tails e^(-x^2/2) P(v), v = t / (1 + t), t = |x| / sqrt 8 ---- */
/* The distribution at x, to 1e-7, and *density, e^(-x^2/2), which is 0 beyond 13.1. */
static inline V FN(_normal)(V x, V *density) {
    V size = ABS(x), t = PICK(GT(size, SPLAT(20.0f)), SPLAT(20.0f), size) * 0.353553391f, v = t / (1.0f + t);
    V z = v * v, y = x * x * -0.5f;
    *density = PICK(LT(y, SPLAT(-86.0f)), SPLAT(0.0f), FN(_exp_near_0)(y));
    V even = (9.716252534e-3f * z - 0.1364692147f) * z - 1.128376682f;
    V odd = (4.654509122e-2f * z - 0.1595231366f) * z + 0.8715359167f;
    V tail = *density * (0.5f + v * (even + v * odd));
    return PICK(GT(x, SPLAT(0.0f)), 1.0f - tail, tail);
}
static inline V FN(gelu)(V x) {
    V density;
    return x * FN(_normal)(x, &density);
}
/* Its derivative. */
static inline V FN(gelu_slope)(V x) {
    V density, area = FN(_normal)(x, &density);
    return area + x * (0.398942280f * density);
}

/* ---- sine and cosine, |x| <= RT_SIN_RANGE (beyond, pi/2 has too few bits: libm) ---- */
/* The quadrant (in the low bits), and the rest reduced in double, where n times the first piece of pi/2 is exact. */
static inline V FN(_reduce_sin)(V x, VI *quadrant) {
    V t = x * 0.636619772f + 12582912.0f;
    VD n = TO_DOUBLE(t - 12582912.0f);
    *quadrant = AS_INT(t);
    return NARROW((TO_DOUBLE(x) - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11);
}
static inline V FN(_sin_part)(V r, V z) { /* 5e-12 */
    return r + r * z * (((2.717519243e-6f * z - 1.983925185e-4f) * z + 8.333329129e-3f) * z - 0.1666666664f);
}
static inline V FN(_cos_part)(V z) {
    return 1.0f - (0.5f * z -
                   z * z * (((-2.720288708e-7f * z + 2.479943134e-5f) * z - 1.388888342e-3f) * z + 4.166666662e-2f));
}
static inline V FN(sin)(V x) {
    VI n;
    V r = FN(_reduce_sin)(x, &n), z = r * r, s = FN(_sin_part)(r, z), c = FN(_cos_part)(z), v = PICK(ODD(n), c, s);
    return PICK(EQ(x, SPLAT(0.0f)), x, PICK(HALVES(n), -v, v));
}
static inline V FN(cos)(V x) {
    VI n;
    V r = FN(_reduce_sin)(x, &n), z = r * r, s = FN(_sin_part)(r, z), c = FN(_cos_part)(z), v = PICK(ODD(n), s, c);
    return PICK(HALVES((VI)((VU)n + 1u)), -v, v);
}

/* ---- powers: 2^(b log2 |a|) in double, for a normal, |b| <= 2^21 (else libm) ---- */
static inline V FN(_pow_near)(V a, V b) {
    VI bits = AS_INT(ABS(a)), e = (bits >> 23) - 127;
    V m = AS_FLOAT((bits & 0x7fffff) | 0x3f800000);
    /* m between sqrt(1/2) and sqrt(2), so that the logarithm of numbers near 1 keeps its digits. */
    V whole = TO_FLOAT(e) + PICK(GT(m, SPLAT(1.41421356f)), SPLAT(1.0f), SPLAT(0.0f));
    VD x = TO_DOUBLE(PICK(GT(m, SPLAT(1.41421356f)), 0.5f * m, m)), f = (x - 1.0) / (x + 1.0), z = f * f;
    /* The series of atanh(f): 2e-12 are left out. */
    VD tail = (((((z * (1.0 / 13) + 1.0 / 11) * z + 1.0 / 9) * z + 1.0 / 7) * z + 1.0 / 5) * z + 1.0 / 3) * z;
    VD y = TO_DOUBLE(b) * (TO_DOUBLE(whole) + (f + f * tail) * 2.88539008177792681472);
    VD n = (y + 6755399441055744.0) - 6755399441055744.0, r = (y - n) * 0.69314718055994530942;
    /* The series of e^r: 3e-11 are left out. */
    VD p = ((r * (1.0 / 40320) + 1.0 / 5040) * r + 1.0 / 720) * r + 1.0 / 120;
    p = ((((p * r + 1.0 / 24) * r + 1.0 / 6) * r + 0.5) * r + 1.0) * r + 1.0;
    V steps = NARROW(n);
    steps = PICK(GT(steps, SPLAT(200.0f)), SPLAT(200.0f), PICK(LT(steps, SPLAT(-200.0f)), SPLAT(-200.0f), steps));
    V size = FN(_scale)(NARROW(p), TO_INT(steps)), turns = FN(_round)(b);
    V below = PICK(EQ(turns, b), PICK(ODD(TO_INT(turns)), -size, size), SPLAT(__builtin_nanf("")));
    return PICK(LT(a, SPLAT(0.0f)), below, size);
}
