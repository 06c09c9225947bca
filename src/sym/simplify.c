/* What the facts of now say: simplified forms and answers to questions.
 *
 * Simplifying rebuilds an expression bottom-up over simplified operands and applies rules that need facts. The result
 * is remembered for the environment's epoch, which every new fact ends. An answer is YES or NO only where facts prove
 * it. */
#include "sym/internal.h"

enum { MAX_REWRITES = 2 * CR__MAX_DEPTH, MAX_PAIRED_FACTS = 16 };

static cr_tri negated(cr_tri t) { return t == CR_UNKNOWN ? t : t == CR_YES ? CR_NO : CR_YES; }

/* ---- deciding ---- */

static bool at_least_zero(cr_env *env, cr_sym e) { return e && !cr__is_opaque(e) && cr_sym_range(env, e).lo >= 0; }

/* e >= 0 because e = f + (something >= 0) for a fact f >= 0, or for the sum of two. */
static bool follows(cr_env *env, cr_sym e) {
    if (!e || cr__is_opaque(e)) return false;
    size_t n = env->nonnegative.n;
    for (size_t i = 0; i < n; i++) {
        cr_sym rest = cr__combine(env, e, 1, cr_sym_simplify(env, env->nonnegative.at[i]), -1);
        if (at_least_zero(env, rest)) return true;
        for (size_t k = i + 1; rest && k < n && n <= MAX_PAIRED_FACTS; k++)
            if (at_least_zero(env, cr__combine(env, rest, 1, cr_sym_simplify(env, env->nonnegative.at[k]), -1)))
                return true;
    }
    return false;
}

cr_tri cr__decide_nonnegative(cr_env *env, cr_sym e) {
    if (!e || cr__is_opaque(e)) return CR_UNKNOWN;
    cr_range r = cr_sym_range(env, e);
    if (r.lo >= 0) return CR_YES;
    if (r.hi < 0) return CR_NO;
    if (env->nonnegative.n == 0) return CR_UNKNOWN;
    if (follows(env, e)) return CR_YES;
    return follows(env, cr__linear(env, e, -1, -1)) ? CR_NO : CR_UNKNOWN; /* -1 - e >= 0 */
}

static cr_tri decide_zero(cr_env *env, cr_sym d) {
    if (!d || cr__is_opaque(d)) return CR_UNKNOWN;
    cr_range r = cr_sym_range(env, d);
    if (r.lo > 0 || r.hi < 0) return CR_NO;
    if (r.lo == 0 && r.hi == 0) return CR_YES;
    cr__congruence c = cr__sym_congruence(env, d);
    if (c.residue != 0) return CR_NO; /* 0 is congruent to 0 alone */
    if (env->nonnegative.n == 0) return CR_UNKNOWN;
    cr_tri up = cr__decide_nonnegative(env, d), down = cr__decide_nonnegative(env, cr__linear(env, d, -1, 0));
    if (up == CR_NO || down == CR_NO) return CR_NO;
    return up == CR_YES && down == CR_YES ? CR_YES : CR_UNKNOWN;
}

cr_tri cr__decide(cr_env *env, cr_sym c) {
    if (c->kind == CR_SYM_TRUTH) return c->constant ? CR_YES : CR_NO;
    if (c->fact != CR_UNKNOWN) return (cr_tri)c->fact;
    cr_tri answer;
    switch ((cr_sym_kind)c->kind) {
    case CR_SYM_EQ:
    case CR_SYM_NE:
    case CR_SYM_LT:
    case CR_SYM_LE:
        if (c->operand[0]->type != CR_TYPE_INT || c->operand[1]->type != CR_TYPE_INT) return CR_UNKNOWN;
        if (c->kind == CR_SYM_LE) return cr__decide_nonnegative(env, cr_sym_sub(env, c->operand[1], c->operand[0]));
        if (c->kind == CR_SYM_LT)
            return cr__decide_nonnegative(env, cr__linear(env, cr_sym_sub(env, c->operand[1], c->operand[0]), 1, -1));
        answer = decide_zero(env, cr_sym_sub(env, c->operand[0], c->operand[1]));
        return c->kind == CR_SYM_EQ ? answer : negated(answer);
    case CR_SYM_NOT: return negated(cr__decide(env, c->operand[0]));
    case CR_SYM_AND:
    case CR_SYM_OR:
        answer = c->kind == CR_SYM_AND ? CR_YES : CR_NO;
        for (size_t i = 0; i < c->n; i++) {
            cr_tri part = cr__decide(env, c->operand[i]);
            if (part == (c->kind == CR_SYM_AND ? CR_NO : CR_YES)) return part;
            if (part == CR_UNKNOWN) answer = CR_UNKNOWN;
        }
        return answer;
    default: return CR_UNKNOWN;
    }
}

/* ---- rules that need facts; each returns e where it has nothing to say, NULL when memory ran out ---- */

static bool positive(cr_env *env, cr_sym e) { return cr__decide_nonnegative(env, cr__linear(env, e, 1, -1)) == CR_YES; }
static bool nonnegative(cr_env *env, cr_sym e) { return cr__decide_nonnegative(env, e) == CR_YES; }
static cr_sym minus(cr_env *env, cr_sym e) { return cr__linear(env, e, -1, 0); }
static bool nonpositive(cr_env *env, cr_sym e) { return nonnegative(env, minus(env, e)); }

/* c*(n // d) = (c/d) * (n - n % d) where n % d is known and d divides c. */
static cr_sym simplify_sum(cr_env *env, cr_sym e) {
    for (size_t i = 0; i < e->n; i++) {
        cr_sym t = e->operand[i];
        int64_t d, c = e->u.coefficients[i];
        if (t->kind != CR_SYM_FLOORDIV || !cr_sym_is_int(t->operand[1], &d) || d <= 0 || c % d != 0) continue;
        cr__congruence known = cr__sym_congruence(env, t->operand[0]);
        if (known.modulus % d != 0) continue;
        cr__poly p;
        cr__poly_init(&p);
        cr__poly_add(&p, e, 1);
        if (c == INT64_MIN) p.overflow = true;
        else cr__poly_term(&p, t, -c);
        cr__poly_add(&p, t->operand[0], c / d);
        int64_t rest;
        if (cr_mul_overflow(c / d, -cr__mod64(known.residue, d), &rest)) p.overflow = true;
        else cr__poly_constant(&p, rest);
        cr_sym simpler = cr__poly_take(env, &p);
        if (!simpler || !cr__is_opaque(simpler)) return simpler;
    }
    return e;
}

static cr_sym simplify_floordiv(cr_env *env, cr_sym e) {
    cr_sym n = e->operand[0], d = e->operand[1];
    if (d->kind == CR_SYM_INTEGER || !positive(env, d)) return e; /* a constant divisor needed no facts */
    if (nonnegative(env, n) && nonnegative(env, cr__linear(env, cr_sym_sub(env, d, n), 1, -1))) return env->zero;
    if (nonnegative(env, cr_sym_add(env, n, d)) && positive(env, minus(env, n))) return cr_sym_int(env, -1);
    if (cr__term_count(n) ? cr__coef_at(n, 0) < 0 : n->constant < 0) /* floor(n/d) = -floor((d - 1 - n) / d) */
        return minus(env, cr__floordiv(env, cr__linear(env, cr_sym_sub(env, d, n), 1, -1), d));
    cr_sym inner = cr__term_count(n) == 1 ? cr__term_at(n, 0) : NULL;
    if (inner && cr__coef_at(n, 0) == 1 && inner->kind == CR_SYM_FLOORDIV) { /* (a//b + c) // d = (a + c*b) // (b*d) */
        cr_sym numerator = cr__combine(env, inner->operand[0], 1, inner->operand[1], cr__constant_of(n));
        cr_sym joined = cr__floordiv(env, numerator, cr_sym_mul(env, inner->operand[1], d));
        if (!joined || !cr__is_opaque(joined)) return joined;
    }
    return e;
}

static cr_sym simplify_mod(cr_env *env, cr_sym e) {
    cr_sym n = e->operand[0], d = e->operand[1];
    int64_t k, q;
    if (cr_sym_is_int(d, &k)) {
        cr__congruence known = cr__sym_congruence(env, n);
        if (k > 0 && known.modulus % k == 0) return cr_sym_int(env, cr__mod64(known.residue, k));
        cr_range r = cr_sym_range(env, n);
        if (k <= 0 || r.lo == CR__MINF || r.hi == CR__PINF) return e;
        q = cr__floordiv64(r.lo, k);
        if (q != cr__floordiv64(r.hi, k) || cr_mul_overflow(q, -k, &q)) return e;
        cr_sym shifted = cr__linear(env, n, 1, q); /* one period */
        return shifted && cr__is_opaque(shifted) ? e : shifted;
    }
    bool below =
        positive(env, d) && nonnegative(env, n) && nonnegative(env, cr__linear(env, cr_sym_sub(env, d, n), 1, -1));
    return below ? n : e;
}

static cr_sym simplify_truncated(cr_env *env, cr_sym e) {
    cr_sym a = e->operand[0], b = e->operand[1];
    bool up = nonnegative(env, a), down = !up && nonpositive(env, a);
    bool divisor_up = positive(env, b), divisor_down = !divisor_up && positive(env, minus(env, b));
    if ((!up && !down) || (!divisor_up && !divisor_down)) return e;
    if (down) a = minus(env, a);
    if (divisor_down) b = minus(env, b);
    bool quotient = e->kind == CR_SYM_TRUNCDIV;
    cr_sym r = quotient ? cr__floordiv(env, a, b) : cr__mod(env, a, b);
    if (r && cr__is_opaque(r)) return e;
    return (quotient ? down != divisor_down : down) ? minus(env, r) : r;
}

static cr_sym simplify_minmax(cr_env *env, cr_sym e) {
    cr_sym small[16], *kept = e->n <= 16 ? small : cr_alloc(e->n * sizeof *kept), result = e;
    size_t n = 0;
    if (!kept) return cr__fail(env);
    for (size_t i = 0; i < e->n; i++) {
        bool drop = false;
        /* Compared with those kept and those to come, so that of two equal ones the last stays. */
        for (size_t k = 0; k < n + (e->n - i - 1) && !drop; k++) {
            cr_sym other = k < n ? kept[k] : e->operand[i + 1 + k - n];
            cr_sym lead =
                e->kind == CR_SYM_MAX ? cr_sym_sub(env, other, e->operand[i]) : cr_sym_sub(env, e->operand[i], other);
            drop = nonnegative(env, lead);
        }
        if (!drop) kept[n++] = e->operand[i];
    }
    if (n < e->n) result = cr__minmax(env, (cr_sym_kind)e->kind, kept, n);
    if (kept != small) cr_free(kept);
    return result;
}

static bool within(cr_env *env, cr_sym e, int64_t most) {
    cr_range r = cr_sym_range(env, e);
    return r.lo >= -most && r.hi <= most;
}

/* Floats hold integers exactly up to 2^53; a quotient of integers up to 2^51 is never rounded across an integer. */
static cr_sym simplify_rounding(cr_env *env, cr_sym e) {
    cr_sym a = e->operand[0];
    if (a->kind == CR_SYM_TOFLOAT && within(env, a->operand[0], (int64_t)1 << 53)) return a->operand[0];
    if (a->kind != CR_SYM_TRUEDIV || a->operand[0]->type != CR_TYPE_INT || e->kind == CR_SYM_ROUND) return e;
    if (!within(env, a->operand[0], (int64_t)1 << 51) || !within(env, a->operand[1], (int64_t)1 << 51)) return e;
    cr_sym_kind kind = e->kind == CR_SYM_FLOOR  ? CR_SYM_FLOORDIV
                       : e->kind == CR_SYM_CEIL ? CR_SYM_CEILDIV
                                                : CR_SYM_TRUNCDIV;
    return cr_sym_make(env, kind, a->operand[0], a->operand[1], NULL);
}

static cr_sym apply_rules(cr_env *env, cr_sym e) {
    if (e->type == CR_TYPE_BOOL) {
        cr_tri answer = cr__decide(env, e);
        return answer == CR_UNKNOWN ? e : env->truth[answer == CR_YES];
    }
    if (e->type != CR_TYPE_INT || cr__is_opaque(e)) return e;
    cr_range r = cr_sym_range(env, e);
    if (e->kind != CR_SYM_INTEGER && cr__range_single(r)) return cr_sym_int(env, r.lo);
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_ADD: return simplify_sum(env, e);
    case CR_SYM_FLOORDIV: return simplify_floordiv(env, e);
    case CR_SYM_MOD: return simplify_mod(env, e);
    case CR_SYM_TRUNCDIV:
    case CR_SYM_CMOD: return simplify_truncated(env, e);
    case CR_SYM_MIN:
    case CR_SYM_MAX: return simplify_minmax(env, e);
    case CR_SYM_ABS:
        return nonnegative(env, e->operand[0])   ? e->operand[0]
               : nonpositive(env, e->operand[0]) ? minus(env, e->operand[0])
                                                 : e;
    case CR_SYM_FLOOR:
    case CR_SYM_CEIL:
    case CR_SYM_TRUNC:
    case CR_SYM_ROUND: return simplify_rounding(env, e);
    default: return e;
    }
}

static cr_sym simplify_operands(cr_env *env, cr_sym e) {
    if (e->n == 0) return e;
    cr_sym small[8], *operands = e->n <= 8 ? small : cr_alloc(e->n * sizeof *operands), result;
    if (!operands) return cr__fail(env);
    bool changed = false;
    for (size_t i = 0; i < e->n; i++) {
        operands[i] = cr_sym_simplify(env, e->operand[i]);
        changed |= operands[i] != e->operand[i];
    }
    result = changed ? cr__rebuild(env, e, operands) : e;
    if (operands != small) cr_free(operands);
    /* Replacing must not lose the value: what left int64 on the way stays as it was. */
    return result && cr__is_opaque(result) ? e : result;
}

cr_sym cr_sym_simplify(cr_env *env, cr_sym e) {
    if (!e) return NULL;
    struct cr_expr *memo = cr__mutable(e);
    if (memo->simple_epoch == env->epoch) return memo->simple;
    if (memo->fact != CR_UNKNOWN) return env->truth[memo->fact == CR_YES];
    if (env->depth >= MAX_REWRITES) return e;
    memo->simple = e; /* a question that leads back here is answered without rewriting */
    memo->simple_epoch = env->epoch;
    env->depth++;
    cr_sym simpler = e->equal ? e->equal : simplify_operands(env, e);
    if (simpler == e) simpler = apply_rules(env, e);
    if (simpler && simpler != e) simpler = cr_sym_simplify(env, simpler);
    env->depth--;
    if (simpler) memo->simple = simpler;
    else memo->simple_epoch = 0;
    return simpler;
}

cr_tri cr_sym_truth(cr_env *env, cr_sym condition) {
    condition = cr__as_bool(env, condition);
    if (!condition || cr__is_opaque(condition)) return CR_UNKNOWN;
    if (condition->fact != CR_UNKNOWN) return (cr_tri)condition->fact;
    cr_sym simple = cr_sym_simplify(env, condition); /* decides on its way what can be decided */
    return !simple || simple->kind != CR_SYM_TRUTH ? CR_UNKNOWN : simple->constant ? CR_YES : CR_NO;
}

cr_tri cr_sym_known(cr_env *env, cr_sym a, cr_cmp cmp, cr_sym b) {
    return a && b ? cr_sym_truth(env, cr_sym_compare(env, a, cmp, b)) : CR_UNKNOWN;
}
