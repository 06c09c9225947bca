/* Floats, and the operators between integers and floats.
 *
 * Float arithmetic does not associate, so a float node is a pair as written; only the operands of + and * are ordered
 * (IEEE addition and multiplication commute), and constants fold to what evaluation would give. */
#include "sym/internal.h"

#include <math.h>

double cr__int_truediv(int64_t a, int64_t b) {
    bool negative = (a < 0) != (b < 0);
    uint64_t x = cr__magnitude(a), y = cr__magnitude(b);
    if (x == 0) return negative ? -0.0 : 0.0; /* Python: 0 / -5 is -0.0 */
    if (x <= (uint64_t)1 << 53 && y <= (uint64_t)1 << 53) return (double)a / (double)b; /* both exact: rounded once */
    /* 57 or more bits of the quotient, the last one sticky: converting it rounds correctly. */
    int shift = 57 - (__builtin_clzll(y) - __builtin_clzll(x));
    if (shift < 0) shift = 0;
    unsigned __int128 scaled = (unsigned __int128)x << shift;
    uint64_t quotient = (uint64_t)(scaled / y);
    if (scaled % y) quotient |= 1;
    double result = ldexp((double)quotient, -shift);
    return negative ? -result : result;
}

/* Python's float // and %: the remainder takes the divisor's sign, the quotient is a floor made exact by it. */
static double float_floordiv(double a, double b, double *remainder) {
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) mod += b, div -= 1;
    } else {
        mod = copysign(0.0, b);
    }
    *remainder = mod;
    if (div == 0) return copysign(0.0, a / b);
    double floored = floor(div);
    return div - floored > 0.5 ? floored + 1 : floored;
}

bool cr__float_apply(cr_sym_kind kind, double a, double b, double *out) {
    double rest;
    switch ((int)kind) {
    case CR_SYM_ADD: *out = a + b; return true;
    case CR_SYM_MUL: *out = a * b; return true;
    case CR_SYM_MIN: *out = b < a ? b : a; return true; /* the first wins unless the second is smaller */
    case CR_SYM_MAX: *out = b > a ? b : a; return true;
    case CR_SYM_ABS: *out = fabs(a); return true;
    case CR_SYM_TRUEDIV: *out = a / b; return b != 0;
    case CR_SYM_SQRT: *out = sqrt(a); return !(a < 0);
    case CR_SYM_FLOORDIV: *out = b != 0 ? float_floordiv(a, b, &rest) : 0; return b != 0;
    case CR_SYM_MOD: if (b != 0) float_floordiv(a, b, out); return b != 0;
    case CR_SYM_CEILDIV: *out = b != 0 ? -float_floordiv(-a, b, &rest) : 0; return b != 0;
    case CR_SYM_TRUNCDIV: *out = trunc(a / b); return b != 0;
    case CR_SYM_CMOD: *out = fmod(a, b); return b != 0;
    case CR_SYM_POW: *out = pow(a, b); return (isfinite(*out) || !isfinite(a) || !isfinite(b)) && !(a == 0 && b < 0);
    default: return false;
    }
}

bool cr__round_apply(cr_sym_kind kind, double a, int64_t *out) {
    double r = kind == CR_SYM_FLOOR   ? floor(a)
               : kind == CR_SYM_CEIL  ? ceil(a)
               : kind == CR_SYM_TRUNC ? trunc(a)
                                      : rint(a);
    if (!(r >= -0x1p63 && r < 0x1p63)) return false;
    *out = (int64_t)r;
    return true;
}

static bool commutes(cr_sym_kind kind) { return kind == CR_SYM_ADD || kind == CR_SYM_MUL; }

cr_sym cr__float_binary(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b) {
    bool unary = kind == CR_SYM_ABS || kind == CR_SYM_SQRT;
    double folded;
    if (!a || (!b && !unary)) return NULL;
    if (cr__is_opaque(a) || (b && cr__is_opaque(b))) return cr__opaque(env, CR_TYPE_FLOAT);
    if (a->kind == CR_SYM_REAL && (unary || b->kind == CR_SYM_REAL) &&
        cr__float_apply(kind, a->u.real, unary ? 0 : b->u.real, &folded))
        return cr_sym_float(env, folded);
    if (kind == CR_SYM_MUL && a->kind == CR_SYM_REAL && a->u.real == 1) return b;
    if ((kind == CR_SYM_MUL || kind == CR_SYM_TRUEDIV) && b->kind == CR_SYM_REAL && b->u.real == 1) return a;
    cr_sym pair[2] = {a, b};
    if (commutes(kind) && cr__order(b, a) < 0) pair[0] = b, pair[1] = a;
    return cr__intern(env, kind, CR_TYPE_FLOAT, 0, NULL, pair, unary ? 1 : 2);
}

cr_sym cr__as_float(cr_env *env, cr_sym e) {
    if (!e || e->type == CR_TYPE_FLOAT) return e;
    if (e->type == CR_TYPE_BOOL) return cr__where(env, e, cr_sym_float(env, 1), cr_sym_float(env, 0));
    if (cr__is_opaque(e)) return cr__opaque(env, CR_TYPE_FLOAT);
    if (e->kind == CR_SYM_INTEGER) return cr_sym_float(env, (double)e->constant);
    return cr__intern(env, CR_SYM_TOFLOAT, CR_TYPE_FLOAT, 0, NULL, &e, 1);
}

cr_sym cr__truediv(cr_env *env, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT)
        return cr__float_binary(env, CR_SYM_TRUEDIV, cr__as_float(env, a), cr__as_float(env, b));
    a = cr__as_int(env, a), b = cr__as_int(env, b);
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_FLOAT);
    /* The quotient of integers is rounded once, so it depends on the ratio alone. */
    uint64_t g = cr__gcd(cr__content(a, true), cr__content(b, true));
    if (g > 1 && g <= INT64_MAX && !cr__is_const(a, 0) && !cr__is_const(b, 0))
        a = cr__scale_down(env, a, (int64_t)g), b = cr__scale_down(env, b, (int64_t)g);
    if (!a || !b) return NULL;
    if (cr__is_const(b, 1)) return cr__as_float(env, a);
    if (a->kind == CR_SYM_INTEGER && b->kind == CR_SYM_INTEGER && b->constant != 0)
        return cr_sym_float(env, cr__int_truediv(a->constant, b->constant));
    cr_sym pair[2] = {a, b};
    return cr__intern(env, CR_SYM_TRUEDIV, CR_TYPE_FLOAT, 0, NULL, pair, 2);
}

cr_sym cr__round(cr_env *env, cr_sym_kind kind, cr_sym a) {
    int64_t folded;
    if (!a) return NULL;
    if (a->type != CR_TYPE_FLOAT) return cr__as_int(env, a);
    if (cr__is_opaque(a)) return cr__opaque(env, CR_TYPE_INT);
    if (a->kind == CR_SYM_REAL && cr__round_apply(kind, a->u.real, &folded)) return cr_sym_int(env, folded);
    return cr__intern(env, kind, CR_TYPE_INT, 0, NULL, &a, 1);
}

cr_sym cr__sqrt(cr_env *env, cr_sym a) { return cr__float_binary(env, CR_SYM_SQRT, cr__as_float(env, a), NULL); }
