/* rt_number.c: the integer and float arithmetic of sizes, as a list of instructions over 64-bit slots.
 *
 * Floor division and modulo are Python's. An integer result that does not fit, or a division by zero, ends the run with
 * a message: a size that wrapped around would be a wrong answer. */
#include "runtime/rt_model.h"

#include <math.h>
#include <string.h>

static double real(int64_t bits) { double f; memcpy(&f, &bits, sizeof f); return f; }
static int64_t bits(double f) { int64_t i; memcpy(&i, &f, sizeof i); return i; }

static bool power(int64_t base, int64_t n, int64_t *out) {
    *out = 1;
    if (n < 0) return true;
    for (; n > 0; n >>= 1) {
        if ((n & 1) && __builtin_mul_overflow(*out, base, out)) return true;
        if (n > 1 && __builtin_mul_overflow(base, base, &base)) return true;
    }
    return false;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
static int64_t floor_mod(int64_t a, int64_t b) {
    return b == -1 ? 0 : a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0);
}
static double float_mod(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* A float as an integer: true = it does not fit. */
static bool whole(double f, int64_t *out) {
    if (!(f >= -0x1p63 && f < 0x1p63)) return true;
    *out = (int64_t)f;
    return false;
}

/* True: overflow or division by zero. */
static bool compute(const rt_number *n, int64_t a, int64_t b, int64_t c, int64_t *r) {
    double x = real(a), y = real(b);
    switch ((rt_number_kind)n->kind) {
    case RT_N_ADD: return __builtin_add_overflow(a, b, r);
    case RT_N_SUB: return __builtin_sub_overflow(a, b, r);
    case RT_N_MUL: return __builtin_mul_overflow(a, b, r);
    case RT_N_FLOORDIV:
    case RT_N_CEILDIV:
    case RT_N_TRUNCDIV:
        if (!b || (b == -1 && a == INT64_MIN)) return true;
        *r = n->kind == RT_N_FLOORDIV   ? floor_div(a, b)
             : n->kind == RT_N_TRUNCDIV ? a / b
                                        : a / b + (a % b != 0 && (a % b < 0) == (b < 0));
        return false;
    case RT_N_MOD:
    case RT_N_CMOD:
        if (!b) return true;
        *r = n->kind == RT_N_MOD ? floor_mod(a, b) : b == -1 ? 0 : a % b;
        return false;
    case RT_N_POW: return power(a, b, r);
    case RT_N_MIN: *r = b < a ? b : a; return false;
    case RT_N_MAX: *r = b > a ? b : a; return false;
    case RT_N_ABS: return a < 0 ? __builtin_sub_overflow((int64_t)0, a, r) : (*r = a, false);
    case RT_N_EQ: *r = a == b; return false;
    case RT_N_NE: *r = a != b; return false;
    case RT_N_LT: *r = a < b; return false;
    case RT_N_LE: *r = a <= b; return false;
    case RT_N_AND: *r = a && b; return false;
    case RT_N_OR: *r = a || b; return false;
    case RT_N_NOT: *r = !a; return false;
    case RT_N_BITAND: *r = a & b; return false;
    case RT_N_BITOR: *r = a | b; return false;
    case RT_N_WHERE: *r = a ? b : c; return false;
    case RT_N_TOFLOAT: *r = bits((double)a); return false;
    case RT_N_FADD: *r = bits(x + y); return false;
    case RT_N_FSUB: *r = bits(x - y); return false;
    case RT_N_FMUL: *r = bits(x * y); return false;
    case RT_N_FDIV: *r = bits(x / y); return y == 0;
    case RT_N_FPOW: *r = bits(pow(x, y)); return false;
    case RT_N_FMIN: *r = bits(y < x ? y : x); return false;
    case RT_N_FMAX: *r = bits(y > x ? y : x); return false;
    case RT_N_FSQRT: *r = bits(sqrt(x)); return x < 0;
    case RT_N_FEQ: *r = x == y; return false;
    case RT_N_FNE: *r = x != y; return false;
    case RT_N_FLT: *r = x < y; return false;
    case RT_N_FLE: *r = x <= y; return false;
    case RT_N_FFLOORDIV: *r = bits(rint((x - float_mod(x, y)) / y)); return y == 0; /* exact: 1.0 // 0.1 is 9 */
    case RT_N_FMOD: *r = bits(float_mod(x, y)); return y == 0;
    case RT_N_FLOOR: return whole(floor(x), r);
    case RT_N_CEIL: return whole(ceil(x), r);
    case RT_N_TRUNC: return whole(trunc(x), r);
    case RT_N_ROUND: return whole(rint(x), r);
    case RT_NUMBER_KIND_COUNT: break;
    }
    return true;
}

int rt_numbers_run(const rt_ctx *ctx, const rt_number *numbers, int32_t n, int64_t *slots) {
    for (int32_t i = 0; i < n; i++) {
        const rt_number *k = &numbers[i];
        int64_t r = 0;
        if (compute(k, slots[k->a], slots[k->b], slots[k->c], &r))
            return rt_fail(ctx, RT_ERUNTIME,
                           "a size cannot be computed: division by zero, or a number beyond 64 bits (%lld, %lld)",
                           (long long)slots[k->a], (long long)slots[k->b]);
        slots[k->out] = r;
    }
    return RT_OK;
}
