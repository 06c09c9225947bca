/* Facts: ranges of symbols, equal terms, inequalities, truths of conditions.
 *
 * An equality replaces one term by the rest of it: symbols first (unbacked before backed, among those the one
 * with the largest example, later names by earlier ones), else a compound term. The replaced term does not occur in its
 * replacement, and the replacement is simplified by the facts before, so replacing ends. A statement is learned as a
 * whole: when a consequence contradicts what is known, everything it had changed is taken back. */
#include "sym/internal.h"
#include "sym/interval.h"

enum { MAX_PUSH = 8, MAX_FACTS = 64 };

/* ---- taking back ---- */

typedef struct { size_t log, replaced, nonnegative; } mark;

static mark begin(cr_env *env) {
    env->learning++;
    return (mark){env->log.n, env->replaced.n, env->nonnegative.n};
}

static cr_status end(cr_env *env, mark from, cr_status status) {
    env->learning--;
    for (size_t i = env->log.n; status && i-- > from.log;) {
        const cr__change *c = &env->log.at[i];
        if (c->range_of) c->range_of->now = c->range;
        if (c->fact_of) c->fact_of->fact = c->fact;
        if (c->equal_of) c->equal_of->equal = NULL;
    }
    if (status) {
        env->log.n = from.log;
        env->replaced.n = from.replaced;
        env->nonnegative.n = from.nonnegative;
        env->epoch++;
    }
    if (env->learning == 0) env->log.n = 0;
    return status;
}

cr_env_trial cr_env_begin_trial(cr_env *env) {
    mark from = begin(env);
    return (cr_env_trial){from.log, from.replaced, from.nonnegative, env->conds.n};
}

void cr_env_end_trial(cr_env *env, cr_env_trial trial) {
    mark from = {trial.log, trial.replaced, trial.nonnegative};
    (void)end(env, from, CR_EVALUE);
    env->conds.n = env->lines.n = trial.conds;
}

static cr_status log_change(cr_env *env, cr__change change) { return cr_vec_push(&env->log, change); }

/* ---- messages ---- */

static void print_symbols(cr_env *env, cr_sym e, cr_sym *seen, size_t *n, cr_str *out) {
    if (e->kind != CR_SYM_SYMBOL) {
        for (size_t i = 0; i < e->n; i++) print_symbols(env, e->operand[i], seen, n, out);
        return;
    }
    for (size_t i = 0; i < *n; i++)
        if (seen[i] == e) return;
    if (*n == 4 || e->type != CR_TYPE_INT) return;
    seen[(*n)++] = e;
    cr_range r = cr_sym_range(env, e);
    cr_str_addf(out, "%s %s ", *n == 1 ? ": known is" : ",", cr_sym_name(e));
    if (r.lo == r.hi) cr_str_addf(out, "== %lld", (long long)r.lo);
    else if (r.lo == CR__MINF && r.hi == CR__PINF) cr_str_add(out, "unbounded");
    else if (r.lo == CR__MINF) cr_str_addf(out, "<= %lld", (long long)r.hi);
    else if (r.hi == CR__PINF) cr_str_addf(out, ">= %lld", (long long)r.lo);
    else cr_str_addf(out, "in %lld..%lld", (long long)r.lo, (long long)r.hi);
}

static cr_status contradiction(cr_env *env, cr_sym condition) {
    cr_str text = {0};
    cr_sym seen[4];
    size_t n = 0;
    if (!condition) return CR_FAIL(CR_ENOMEM, "condition");
    cr_str_addc(&text, '\'');
    cr_sym_print(condition, &text);
    cr_str_add(&text, "' contradicts the facts");
    print_symbols(env, condition, seen, &n, &text);
    cr_status status = cr_str_status(&text);
    if (!status) status = CR_FAIL(CR_EVALUE, "%s", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

/* ---- ranges ---- */

static cr_status narrow(cr_env *env, cr_sym symbol, interval want) {
    cr__symbol *s = symbol->u.symbol;
    interval now = cr__interval(s->now), met = {CR_MAX(now.lo, want.lo), CR_MIN(now.hi, want.hi)};
    if (met.lo > met.hi) return CR_EVALUE; /* the caller knows the statement that failed */
    if (met.lo == now.lo && met.hi == now.hi) return CR_OK;
    CR_TRY(log_change(env, (cr__change){.range_of = s, .range = s->now}));
    s->now = cr__interval_range(met);
    env->epoch++;
    return CR_OK;
}

static interval above(wide lo) { return (interval){lo, INFINITE}; }

static wide divide_up(wide a, wide b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }
static wide divide_down(wide a, wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* x with c*x in `want` */
static interval unscale(interval want, wide c) {
    interval r = {-INFINITE, INFINITE};
    wide lo = c > 0 ? want.lo : want.hi, hi = c > 0 ? want.hi : want.lo;
    if (lo < INFINITE && lo > -INFINITE) r.lo = divide_up(lo, c);
    if (hi < INFINITE && hi > -INFINITE) r.hi = divide_down(hi, c);
    return r;
}

/* Carries "e is in want" to the symbols of e. CR_EVALUE (no message): impossible. */
static cr_status push(cr_env *env, cr_sym e, interval want, int depth) {
    if (e->type != CR_TYPE_INT || cr__is_opaque(e)) return CR_OK;
    interval now = cr__interval(cr_sym_range(env, e));
    if (CR_MAX(now.lo, want.lo) > CR_MIN(now.hi, want.hi)) return CR_EVALUE;
    if ((now.lo >= want.lo && now.hi <= want.hi) || depth == MAX_PUSH) return CR_OK;
    if (e->kind == CR_SYM_SYMBOL) CR_TRY(narrow(env, e, want));
    if (e->equal) CR_TRY(push(env, e->equal, want, depth + 1));
    int64_t d;
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_ADD:
        for (size_t i = 0; i < e->n && e->n <= 8; i++) {
            interval rest = {e->constant, e->constant};
            for (size_t k = 0; k < e->n; k++) {
                interval c = {e->u.coefficients[k], e->u.coefficients[k]};
                if (k != i)
                    rest = cr__interval_add(rest, cr__interval_mul(c, cr__interval(cr_sym_range(env, e->operand[k]))));
            }
            interval term = cr__interval_add(want, (interval){-rest.hi, -rest.lo});
            CR_TRY(push(env, e->operand[i], unscale(term, e->u.coefficients[i]), depth + 1));
        }
        return CR_OK;
    case CR_SYM_FLOORDIV: /* lo <= n//d <= hi  is  lo*d <= n <= hi*d + d - 1 */
        if (!cr_sym_is_int(e->operand[1], &d) || d <= 0) return CR_OK;
        want = cr__interval_mul(want, (interval){d, d});
        if (want.hi < INFINITE) want.hi += d - 1;
        return push(env, e->operand[0], want, depth + 1);
    case CR_SYM_MAX:
        for (size_t i = 0; i < e->n; i++) CR_TRY(push(env, e->operand[i], (interval){-INFINITE, want.hi}, depth + 1));
        return CR_OK;
    case CR_SYM_MIN:
        for (size_t i = 0; i < e->n; i++) CR_TRY(push(env, e->operand[i], above(want.lo), depth + 1));
        return CR_OK;
    case CR_SYM_ABS:
        if (want.hi < 0) return CR_EVALUE;
        return push(env, e->operand[0], (interval){-want.hi, want.hi}, depth + 1);
    default: return CR_OK;
    }
}

cr_status cr_env_narrow(cr_env *env, cr_sym symbol, int64_t lo, int64_t hi) {
    if (!symbol) return CR_FAIL(CR_ENOMEM, "symbol");
    if (symbol->kind != CR_SYM_SYMBOL || symbol->type != CR_TYPE_INT)
        return CR_FAIL(CR_EVALUE, "only an integer symbol has a range that can be narrowed");
    mark from = begin(env);
    interval want = cr__interval((cr_range){lo, hi});
    cr_status status = lo > hi ? CR_EVALUE : push(env, symbol, want, 0);
    if (status == CR_EVALUE) {
        cr_range now = cr_sym_range(env, symbol);
        status = CR_FAIL(CR_EVALUE, "symbol '%s' cannot be in %lld..%lld: the facts have it in %lld..%lld",
                         cr_sym_name(symbol), (long long)lo, (long long)hi, (long long)now.lo, (long long)now.hi);
    }
    return end(env, from, status);
}

void cr_env_declare(cr_env *env, cr_sym symbol, int64_t lo, int64_t hi) {
    if (!symbol || symbol->kind != CR_SYM_SYMBOL || symbol->type != CR_TYPE_INT) return;
    symbol->u.symbol->now = (cr_range){lo, hi};
    env->epoch++;
}

/* ---- equalities ---- */

static bool occurs(cr_sym e, cr_sym t) {
    if (e == t) return true;
    for (size_t i = 0; i < e->n; i++)
        if (occurs(e->operand[i], t)) return true;
    return false;
}

/* The backed symbol in e that comes last: the largest example, then the last name. PyTorch names sizes by this rule. */
static cr_sym last_backed(cr_sym e, cr_sym best) {
    if (e->kind == CR_SYM_SYMBOL && e->u.symbol->has_hint && !e->u.symbol->unbacked) {
        if (!best) return e;
        const cr__symbol *a = e->u.symbol, *b = best->u.symbol;
        return a->hint > b->hint || (a->hint == b->hint && strcmp(a->name, b->name) > 0) ? e : best;
    }
    for (size_t i = 0; i < e->n; i++) best = last_backed(e->operand[i], best);
    return best;
}

static int rank(cr_sym t, cr_sym last) {
    if (t->kind != CR_SYM_SYMBOL) return 1;
    if (t->u.symbol->unbacked || !t->u.symbol->has_hint) return 3;
    return t == last ? 2 : 0;
}

/* The term of d that d == 0 defines; d->n when there is none. */
static size_t defined_term(cr_sym d) {
    size_t best = d->n;
    cr_sym last = last_backed(d, NULL);
    for (size_t i = 0; i < d->n; i++) {
        cr_sym t = d->operand[i];
        bool fits = d->u.coefficients[i] == 1 || d->u.coefficients[i] == -1;
        for (size_t k = 0; fits && k < d->n; k++) fits = k == i || !occurs(d->operand[k], t);
        if (fits && (best == d->n || rank(t, last) >= rank(d->operand[best], last))) best = i;
    }
    return best;
}

static cr_status equate(cr_env *env, cr_sym d);

/* A fact about a term with other operands: x//2 == 5 and x == y give y//2 == 5. One pass over the facts from before;
 * what it adds waits for the next statement, because rewriting a rewritten fact need not end. */
static cr_status renew(cr_env *env) {
    cr_status status = CR_OK;
    size_t n = env->replaced.n;
    if (env->renewing || n > MAX_FACTS) return CR_OK;
    env->renewing = true;
    for (size_t i = 0; i < n; i++) {
        cr_sym t = env->replaced.at[i], operands[3];
        if (t->n == 0 || t->n > 3 || t->kind == CR_SYM_ADD) continue;
        for (size_t k = 0; k < t->n; k++) operands[k] = cr_sym_simplify(env, t->operand[k]);
        cr_sym now = cr__rebuild(env, t, operands);
        if (now && (now == t || cr__is_opaque(now))) continue;
        CR_TRY_OUT(equate(env, cr_sym_sub(env, now, t->equal)));
    }
out:
    env->renewing = false;
    return status;
}

static cr_status replace(cr_env *env, cr_sym t, cr_sym by) {
    struct cr_expr *node = cr__mutable(t);
    /* Each side narrows the symbols of the other, before the equality itself makes the two ranges one. */
    CR_TRY(push(env, t, cr__interval(cr_sym_range(env, by)), 0));
    CR_TRY(push(env, by, cr__interval(cr_sym_range(env, t)), 0));
    CR_TRY(log_change(env, (cr__change){.equal_of = node}));
    CR_TRY(cr_vec_push(&env->replaced, t));
    node->equal = by;
    env->epoch++;
    return renew(env);
}

/* d == 0; CR_EVALUE without a message when impossible. */
static cr_status equate(cr_env *env, cr_sym d) {
    d = cr_sym_simplify(env, d);
    if (!d) return CR_FAIL(CR_ENOMEM, "equality");
    if (cr__is_opaque(d)) return CR_OK; /* nothing can be said about it */
    cr_sym condition = cr_sym_compare(env, d, CR_EQ, env->zero);
    if (!condition) return CR_ENOMEM;
    cr_tri known = cr__decide(env, condition);
    if (known != CR_UNKNOWN) return known == CR_YES ? CR_OK : CR_EVALUE;
    if (cr__is_opaque(condition)) return CR_OK;
    if (d->kind != CR_SYM_ADD) return replace(env, d, env->zero);
    uint64_t g = cr__content(d, true);
    if (g > 1 && g <= INT64_MAX) d = cr__scale_down(env, d, (int64_t)g);
    if (!d) return CR_ENOMEM;
    if (d->kind != CR_SYM_ADD) return replace(env, d, env->zero);
    size_t i = defined_term(d);
    if (i == d->n) return push(env, d, (interval){0, 0}, 0);
    cr_sym t = d->operand[i], rest = cr__combine(env, d, 1, t, -d->u.coefficients[i]);
    rest = cr__linear(env, rest, -d->u.coefficients[i], 0);
    if (!rest) return CR_ENOMEM;
    return cr__is_opaque(rest) ? CR_OK : replace(env, t, rest);
}

/* ---- statements ---- */

static cr_status set_fact(cr_env *env, cr_sym condition, cr_tri truth) {
    struct cr_expr *node = cr__mutable(condition);
    if (node->kind == CR_SYM_TRUTH || node->kind == CR_SYM_OPAQUE || node->fact == (uint8_t)truth) return CR_OK;
    CR_TRY(log_change(env, (cr__change){.fact_of = node, .fact = node->fact}));
    node->fact = (uint8_t)truth;
    env->epoch++;
    return CR_OK;
}

/* CR_EVALUE without a message when impossible. */
static cr_status learn(cr_env *env, cr_sym c) {
    if (cr__is_opaque(c)) return CR_OK;
    cr_tri known = cr_sym_truth(env, c);
    if (known == CR_NO) return CR_EVALUE;
    /* What follows today is stated, too: a fact to come may rewrite it into a form where it is not seen. */
    if (known == CR_YES) return set_fact(env, c, CR_YES);
    if (c->kind == CR_SYM_AND) {
        for (size_t i = 0; i < c->n; i++) CR_TRY(learn(env, c->operand[i]));
        return set_fact(env, c, CR_YES);
    }
    cr_sym complement = cr__not(env, c);
    if (!complement) return CR_ENOMEM;
    bool compares = c->kind >= CR_SYM_EQ && c->kind <= CR_SYM_LE && c->operand[0]->type == CR_TYPE_INT;
    cr_sym d = compares ? cr_sym_sub(env, c->operand[1], c->operand[0]) : NULL;
    if (compares && !d) return CR_ENOMEM;
    if (compares && !cr__is_opaque(d)) {
        if (c->kind == CR_SYM_EQ) {
            CR_TRY(equate(env, d));
        } else if (c->kind == CR_SYM_NE) {
            cr_range r = cr_sym_range(env, d);
            if (r.lo == 0) CR_TRY(push(env, d, above(1), 0));
            if (r.hi == 0) CR_TRY(push(env, d, (interval){-INFINITE, -1}, 0));
        } else {
            if (c->kind == CR_SYM_LT) d = cr__linear(env, d, 1, -1);
            if (!d) return CR_ENOMEM;
            if (!cr__is_opaque(d)) {
                CR_TRY(push(env, d, above(0), 0));
                if (cr_sym_range(env, d).lo < 0 && env->nonnegative.n < MAX_FACTS) {
                    CR_TRY(cr_vec_push(&env->nonnegative, d));
                    env->epoch++;
                }
            }
        }
    }
    CR_TRY(set_fact(env, c, CR_YES));
    return set_fact(env, complement, CR_NO);
}

cr_status cr__env_learn(cr_env *env, cr_sym condition) {
    condition = cr__as_bool(env, condition);
    if (!condition) return CR_FAIL(CR_ENOMEM, "condition");
    bool failed_before = env->failed;
    mark from = begin(env);
    cr_status status = learn(env, condition);
    if (!status && env->failed && !failed_before)
        status = CR_ENOMEM; /* an answer on the way may have been "unknown" for it */
    status = end(env, from, status);
    return status == CR_EVALUE   ? contradiction(env, condition)
           : status == CR_ENOMEM ? CR_FAIL(CR_ENOMEM, "fact")
                                 : status;
}

cr_status cr_env_equate(cr_env *env, cr_sym a, cr_sym b) {
    if (!a || !b) return CR_FAIL(CR_ENOMEM, "equality");
    return cr__env_learn(env, cr_sym_compare(env, a, CR_EQ, b));
}
