/* Intervals: bounds of an expression that hold for every assignment the facts allow and where it is defined.
 *
 * Interval arithmetic is exact for terms that share no symbol; where terms do share symbols a sum is bounded in
 * several ways and the bounds are intersected: through floor(n/d) = (n - rest)/d, through the branches of min, max, abs
 * and where, and by moving symbols to zero (shift.c). Ends are computed in 128 bits, where infinity is one large
 * number; the result is never empty. */
#include "sym/internal.h"
#include "sym/interval.h"

enum { BUDGET = 3 }; /* nested ways of bounding one sum */

static const cr_range everything = {CR__MINF, CR__PINF};

static wide limit(wide v) { return v > INFINITE ? INFINITE : v < -INFINITE ? -INFINITE : v; }

static bool infinite(wide v) { return v >= INFINITE || v <= -INFINITE; }

static wide times(wide a, wide b) {
    if (a == 0 || b == 0) return 0;
    if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? INFINITE : -INFINITE;
    wide product;
    if (cr_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? INFINITE : -INFINITE;
    return limit(product);
}

static wide plus(wide a, wide b) { return infinite(a) ? a : infinite(b) ? b : limit(a + b); }

interval cr__interval(cr_range r) {
    return (interval){r.lo == CR__MINF ? -INFINITE : r.lo, r.hi == CR__PINF ? INFINITE : r.hi};
}

/* Ends beyond int64 move to the last number that is not read as infinity of the wrong side. */
cr_range cr__interval_range(interval r) {
    return (cr_range){
        .lo = r.lo <= INT64_MIN ? CR__MINF : r.lo >= INT64_MAX ? INT64_MAX - 1 : (int64_t)r.lo,
        .hi = r.hi >= INT64_MAX ? CR__PINF : r.hi <= INT64_MIN ? INT64_MIN + 1 : (int64_t)r.hi,
    };
}

interval cr__interval_add(interval a, interval b) { return (interval){plus(a.lo, b.lo), plus(a.hi, b.hi)}; }

static interval hull4(wide a, wide b, wide c, wide d) {
    return (interval){CR_MIN(CR_MIN(a, b), CR_MIN(c, d)), CR_MAX(CR_MAX(a, b), CR_MAX(c, d))};
}

interval cr__interval_mul(interval a, interval b) {
    return hull4(times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi));
}

static interval hull(interval a, interval b) { return (interval){CR_MIN(a.lo, b.lo), CR_MAX(a.hi, b.hi)}; }

/* Both are true of the same value. An empty meeting means that the expression is defined nowhere: any bound is true. */
interval cr__interval_meet(interval a, interval b) {
    interval met = {CR_MAX(a.lo, b.lo), CR_MIN(a.hi, b.hi)};
    return met.lo <= met.hi ? met : a;
}

/* floor or trunc of x/y at a corner; y is not zero. At x = y = infinity any quotient of that sign is near, and the
 * other corners bound it. */
static wide quotient(wide x, wide y, bool floors) {
    bool opposite = (x < 0) != (y < 0);
    if (x == 0) return 0;
    if (infinite(y)) return opposite && floors ? -1 : 0;
    if (infinite(x)) return opposite ? -INFINITE : INFINITE;
    return x / y - (floors && opposite && x % y != 0);
}

static interval divide_by_part(interval a, interval b, bool floors) { /* b does not contain zero */
    return hull4(quotient(a.lo, b.lo, floors), quotient(a.lo, b.hi, floors), quotient(a.hi, b.lo, floors),
                 quotient(a.hi, b.hi, floors));
}

/* The positive and the negative divisors, each where there are any; `of` gives the result for one of them. */
static interval by_sign(interval a, interval b, interval (*of)(interval, interval)) {
    interval all = {-INFINITE, INFINITE};
    interval positive = {CR_MAX(b.lo, 1), b.hi}, negative = {b.lo, CR_MIN(b.hi, -1)};
    bool has_positive = positive.lo <= positive.hi, has_negative = negative.lo <= negative.hi;
    if (has_positive && has_negative) return hull(of(a, positive), of(a, negative));
    return has_positive ? of(a, positive) : has_negative ? of(a, negative) : all;
}

static interval floor_part(interval a, interval b) { return divide_by_part(a, b, true); }
static interval trunc_part(interval a, interval b) { return divide_by_part(a, b, false); }

static interval mod_part(interval a, interval b) {
    interval q = floor_part(a, b);
    if (q.lo == q.hi && b.lo == b.hi && !infinite(q.lo)) { /* one period: the remainder moves with a */
        wide off = times(b.lo, q.lo);
        return (interval){plus(a.lo, -off), plus(a.hi, -off)};
    }
    interval r = b.lo > 0 ? (interval){0, plus(b.hi, -1)} : (interval){plus(b.lo, 1), 0};
    if (b.lo > 0 && a.lo >= 0) r.hi = CR_MIN(r.hi, a.hi);
    if (b.lo > 0 && a.lo >= 0 && a.hi < b.lo) r = a;
    if (b.hi < 0 && a.hi <= 0) r.lo = CR_MAX(r.lo, a.lo);
    if (b.hi < 0 && a.hi <= 0 && a.lo > b.hi) r = a;
    return r;
}

static interval cmod_part(interval a, interval b) {
    wide most = plus(CR_MAX(b.hi, -b.lo), -1);
    return (interval){CR_MAX(-most, CR_MIN(a.lo, 0)), CR_MIN(most, CR_MAX(a.hi, 0))};
}

static wide power(wide x, wide n) {
    wide result = 1;
    if (n == 0 || x == 1) return 1;
    if (x == 0) return 0;
    if (x == -1) return n % 2 ? -1 : 1;
    for (; n > 0 && !infinite(result); n--) result = times(result, x);
    /* The sign of an overflown negative power follows the parity of what was left, too. */
    return infinite(result) && x < 0 && n % 2 ? -result : result;
}

interval cr__interval_power(interval a, int64_t n) {
    if (n % 2 == 1) return (interval){power(a.lo, n), power(a.hi, n)};
    interval r = hull4(power(a.lo, n), power(a.lo, n), power(a.hi, n), power(a.hi, n));
    if (a.lo <= 0 && a.hi >= 0) r.lo = 0;
    return r;
}

static interval power_symbolic(interval base, interval n) {
    interval r = {-INFINITE, INFINITE};
    n.lo = CR_MAX(n.lo, 0); /* negative exponents are undefined */
    if (n.hi < n.lo) return r;
    if (base.lo >= 1) return (interval){power(base.lo, n.lo), power(base.hi, n.hi)};
    if (base.lo >= 0) return (interval){0, CR_MAX(1, power(base.hi, n.hi))};
    return r;
}

static interval range_of(cr_env *env, cr_sym e, int budget);

static interval full(cr_env *env, cr_sym e) { return range_of(env, e, BUDGET); }

/* Rest + c*t of a sum, where t is put in for its term i. */
static cr_sym with_term(cr_env *env, cr_sym sum, size_t i, int64_t scale, cr_sym put, int64_t factor) {
    cr__poly p;
    cr__poly_init(&p);
    cr__poly_add(&p, sum, scale);
    int64_t removed;
    if (cr_mul_overflow(sum->u.coefficients[i], scale, &removed) || removed == INT64_MIN) p.overflow = true;
    else cr__poly_term(&p, sum->operand[i], -removed);
    cr__poly_add(&p, put, factor);
    return cr__poly_take(env, &p);
}

/* c*floor(n/d) = (c*n - c*(n % d)) / d, so d*sum = d*rest + c*n - c*[0, d-1]. */
static interval sum_by_floor(cr_env *env, cr_sym sum, size_t i, int budget) {
    interval r = {-INFINITE, INFINITE};
    cr_sym division = sum->operand[i];
    int64_t c = sum->u.coefficients[i], d = division->operand[1]->constant;
    cr_sym scaled = with_term(env, sum, i, d, division->operand[0], c);
    if (!scaled || cr__is_opaque(scaled)) return r;
    interval rest = cr__interval_mul((interval){-(wide)c, -(wide)c}, (interval){0, d - 1});
    interval s = cr__interval_add(range_of(env, scaled, budget - 1), rest);
    r.lo = infinite(s.lo) ? s.lo : -quotient(-s.lo, d, true); /* up */
    r.hi = infinite(s.hi) ? s.hi : quotient(s.hi, d, true);
    return r;
}

/* A sum with a branching term is one of its branches: for max (c > 0) also at least each of them. */
static interval sum_by_branch(cr_env *env, cr_sym sum, size_t i, int budget) {
    cr_sym t = sum->operand[i];
    int64_t c = sum->u.coefficients[i];
    interval r = {0, 0};
    size_t first = t->kind == CR_SYM_WHERE, n = t->kind == CR_SYM_ABS ? 2 : t->n;
    bool largest = (t->kind == CR_SYM_MIN) == (c < 0);
    for (size_t k = first; k < n; k++) {
        cr_sym branch = t->kind == CR_SYM_ABS ? t->operand[0] : t->operand[k];
        bool negated = t->kind == CR_SYM_ABS && k == 1;
        if (negated && c == INT64_MIN) return (interval){-INFINITE, INFINITE};
        cr_sym whole = with_term(env, sum, i, 1, branch, negated ? -c : c);
        interval b = {-INFINITE, INFINITE};
        if (whole && !cr__is_opaque(whole)) b = range_of(env, whole, budget - 1);
        if (k == first) r = b;
        else if (t->kind == CR_SYM_WHERE) r = hull(r, b);
        else if (largest) r.lo = CR_MAX(r.lo, b.lo), r.hi = CR_MAX(r.hi, b.hi);
        else r.lo = CR_MIN(r.lo, b.lo), r.hi = CR_MIN(r.hi, b.hi);
    }
    return r;
}

static interval range_sum(cr_env *env, cr_sym e, int budget) {
    interval r = {e->constant, e->constant};
    bool nonlinear = false;
    for (size_t i = 0; i < e->n; i++) {
        interval c = {e->u.coefficients[i], e->u.coefficients[i]};
        r = cr__interval_add(r, cr__interval_mul(c, full(env, e->operand[i])));
        nonlinear |= e->operand[i]->degree > 1;
    }
    if (e->n < 2 || e->n > 12 || budget == 0) return r;
    if (nonlinear) r = cr__interval_meet(r, cr__interval_shifted(env, e));
    for (size_t i = 0; i < e->n; i++) {
        cr_sym t = e->operand[i];
        if (t->kind == CR_SYM_FLOORDIV && t->operand[1]->kind == CR_SYM_INTEGER && t->operand[1]->constant > 0)
            r = cr__interval_meet(r, sum_by_floor(env, e, i, budget));
        else if (t->kind == CR_SYM_MIN || t->kind == CR_SYM_MAX || t->kind == CR_SYM_WHERE || t->kind == CR_SYM_ABS)
            r = cr__interval_meet(r, sum_by_branch(env, e, i, budget));
    }
    return r;
}

/* A float rounded to an integer keeps the sign of a quotient or of an integer. */
static interval range_rounded(cr_env *env, cr_sym e) {
    interval r = {-INFINITE, INFINITE};
    cr_sym a = e->operand[0];
    if (a->kind != CR_SYM_TOFLOAT && (a->kind != CR_SYM_TRUEDIV || a->operand[0]->type != CR_TYPE_INT)) return r;
    interval n = full(env, a->operand[0]), d = {1, 1};
    if (a->kind == CR_SYM_TRUEDIV) d = full(env, a->operand[1]);
    if ((n.lo >= 0 && d.lo >= 0) || (n.hi <= 0 && d.hi <= 0)) r.lo = 0;
    if ((n.lo >= 0 && d.hi <= 0) || (n.hi <= 0 && d.lo >= 0)) r.hi = 0;
    return r;
}

/* & takes bits away: not negative when one side is not, and then at most that side. | adds them: at least the larger
 * side and at most the sum where neither is negative, and negative where one side is. */
static interval range_bits(cr_sym_kind kind, interval a, interval b) {
    interval r = {-INFINITE, INFINITE};
    if (kind == CR_SYM_BITAND) {
        if (a.lo >= 0 || b.lo >= 0) r.lo = 0;
        if (a.lo >= 0) r.hi = a.hi;
        if (b.lo >= 0) r.hi = CR_MIN(r.hi, b.hi);
        return r;
    }
    if (a.lo >= 0 && b.lo >= 0) return (interval){CR_MAX(a.lo, b.lo), plus(a.hi, b.hi)};
    if (a.hi < 0 || b.hi < 0) r.hi = -1;
    return r;
}

static interval compute(cr_env *env, cr_sym e, int budget) {
    interval a, b, r = {-INFINITE, INFINITE};
    if (e->type == CR_TYPE_FLOAT) return r;
    if (e->kind == CR_SYM_INTEGER || e->kind == CR_SYM_TRUTH) return (interval){e->constant, e->constant};
    if (e->type == CR_TYPE_BOOL) return (interval){0, 1};
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_SYMBOL: return cr__interval(e->u.symbol->now);
    case CR_SYM_ADD: return range_sum(env, e, budget);
    case CR_SYM_MUL:
        r = (interval){1, 1};
        for (size_t i = 0; i < e->n; i++) r = cr__interval_mul(r, full(env, e->operand[i]));
        return r;
    case CR_SYM_POW:
        if (cr__is_power(e)) return cr__interval_power(full(env, e->operand[0]), e->operand[1]->constant);
        return power_symbolic(full(env, e->operand[0]), full(env, e->operand[1]));
    case CR_SYM_MIN:
    case CR_SYM_MAX:
        r = full(env, e->operand[0]);
        for (size_t i = 1; i < e->n; i++) {
            b = full(env, e->operand[i]);
            if (e->kind == CR_SYM_MAX) r.lo = CR_MAX(r.lo, b.lo), r.hi = CR_MAX(r.hi, b.hi);
            else r.lo = CR_MIN(r.lo, b.lo), r.hi = CR_MIN(r.hi, b.hi);
        }
        return r;
    case CR_SYM_ABS:
        a = full(env, e->operand[0]);
        r = (interval){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, CR_MAX(a.hi, -a.lo)};
        return r;
    case CR_SYM_BITAND:
    case CR_SYM_BITOR: return range_bits((cr_sym_kind)e->kind, full(env, e->operand[0]), full(env, e->operand[1]));
    case CR_SYM_WHERE: return hull(full(env, e->operand[1]), full(env, e->operand[2]));
    case CR_SYM_FLOORDIV:
    case CR_SYM_MOD:
    case CR_SYM_TRUNCDIV:
    case CR_SYM_CMOD:
        a = full(env, e->operand[0]), b = full(env, e->operand[1]);
        return by_sign(a, b, e->kind == CR_SYM_FLOORDIV ? floor_part : e->kind == CR_SYM_MOD ? mod_part
                             : e->kind == CR_SYM_TRUNCDIV ? trunc_part : cmod_part);
    case CR_SYM_FLOOR:
    case CR_SYM_CEIL:
    case CR_SYM_TRUNC:
    case CR_SYM_ROUND: return range_rounded(env, e);
    default: return r;
    }
}

static interval range_of(cr_env *env, cr_sym e, int budget) {
    struct cr_expr *memo = cr__mutable(e);
    if (memo->range_epoch == env->epoch) return cr__interval(memo->range);
    if (budget == BUDGET) {
        /* Should facts ever lead back here, the question is answered without them. */
        memo->range = e->kind == CR_SYM_SYMBOL ? e->u.symbol->now : everything;
        memo->range_epoch = env->epoch;
    }
    interval r = compute(env, e, budget);
    if (e->equal) r = cr__interval_meet(r, full(env, e->equal));
    if (budget == BUDGET) memo->range = cr__interval_range(r);
    return cr__interval(cr__interval_range(r));
}

cr_range cr_sym_range(cr_env *env, cr_sym e) { return e ? cr__interval_range(full(env, e)) : everything; }
