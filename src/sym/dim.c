/* cr_dim: sizes that are numbers or tags of expressions, and the three ways to compare them.
 *
 * A tag is a number below -2^62 that counts down with the expression's id, so equal expressions have equal tags. What
 * leaves the range of plain numbers is CR_DIM_OVERFLOW, which spreads. */
#include "sym/internal.h"

static cr_dim tag_of(cr_sym e) { return CR_DIM_TAG_LIMIT - 1 - (int64_t)e->id; }

static cr_dim checked(int64_t value) { return cr_dim_is_plain(value) ? value : CR_DIM_OVERFLOW; }

cr_dim cr_dim_of(cr_env *env, cr_sym e) {
    (void)env;
    if (!e || cr__is_opaque(e) || e->type == CR_TYPE_FLOAT) return CR_DIM_OVERFLOW;
    if (e->kind == CR_SYM_INTEGER || e->kind == CR_SYM_TRUTH) return checked(e->constant);
    return tag_of(e);
}

cr_sym cr_dim_sym(cr_env *env, cr_dim d) {
    if (cr_dim_is_plain(d)) return cr_sym_int(env, d);
    uint64_t id = (uint64_t)CR_DIM_TAG_LIMIT - 1 - (uint64_t)d;
    return d != CR_DIM_OVERFLOW && id < env->nodes.n ? env->nodes.at[id] : cr__opaque(env, CR_TYPE_INT);
}

bool cr_dim_hint(cr_env *env, cr_dim d, int64_t *value) {
    if (!cr_dim_is_plain(d)) return env && d != CR_DIM_OVERFLOW && cr_env_hint(env, cr_dim_sym(env, d), value);
    *value = d;
    return true;
}

void cr_dim_print(cr_env *env, cr_dim d, cr_str *out) {
    if (cr_dim_is_plain(d)) cr_str_addf(out, "%lld", (long long)d);
    else if (!env || d == CR_DIM_OVERFLOW) cr_str_add(out, "overflow");
    else cr_sym_print(cr_dim_sym(env, d), out);
}

static cr_dim plain_op(cr_sym_kind kind, int64_t a, int64_t b) {
    int64_t r;
    switch ((int)kind) {
    case CR_SYM_ADD: return cr_add_overflow(a, b, &r) ? CR_DIM_OVERFLOW : checked(r);
    case CR_SYM_MUL: return cr_mul_overflow(a, b, &r) ? CR_DIM_OVERFLOW : checked(r);
    case CR_SYM_MIN: return a < b ? a : b;
    case CR_SYM_MAX: return a > b ? a : b;
    default: break;
    }
    if (b == 0) return CR_DIM_OVERFLOW;
    switch ((int)kind) { /* a is plain, hence not INT64_MIN: no quotient overflows */
    case CR_SYM_FLOORDIV: return checked(cr__floordiv64(a, b));
    case CR_SYM_CEILDIV: return checked(-cr__floordiv64(-a, b));
    case CR_SYM_MOD: return cr__mod64(a, b);
    case CR_SYM_TRUNCDIV: return checked(a / b);
    case CR_SYM_CMOD: return a % b;
    default: return CR_DIM_OVERFLOW;
    }
}

cr_dim cr__dim_op(cr_env *env, cr_sym_kind kind, cr_dim a, cr_dim b) {
    if (cr_dim_is_plain(a) && cr_dim_is_plain(b)) return plain_op(kind, a, b);
    if (a == CR_DIM_OVERFLOW || b == CR_DIM_OVERFLOW || !env) return CR_DIM_OVERFLOW;
    /* Neutral operands are common in strides and need no node. */
    if ((kind == CR_SYM_ADD && b == 0) || ((kind == CR_SYM_MUL || kind == CR_SYM_FLOORDIV) && b == 1)) return a;
    if ((kind == CR_SYM_ADD && a == 0) || (kind == CR_SYM_MUL && a == 1)) return b;
    return cr_dim_of(env, cr_sym_make(env, kind, cr_dim_sym(env, a), cr_dim_sym(env, b), NULL));
}

static bool holds(int64_t a, cr_cmp cmp, int64_t b) { return cr_dim_known(NULL, 0, cmp, (b > a) - (b < a)) == CR_YES; }

cr_tri cr__dim_known_slow(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b) {
    if (a == CR_DIM_OVERFLOW || b == CR_DIM_OVERFLOW || !env) return CR_UNKNOWN;
    if (a == b) return holds(0, cmp, 0) ? CR_YES : CR_NO;
    return cr_sym_known(env, cr_dim_sym(env, a), cmp, cr_dim_sym(env, b));
}

static const struct { const char *sign, *words; } comparisons[] = {
    [CR_EQ] = {"==", "must equal"},      [CR_NE] = {"!=", "must differ from"},    [CR_LT] = {"<", "must be less than"},
    [CR_LE] = {"<=", "must be at most"}, [CR_GT] = {">", "must be greater than"}, [CR_GE] = {">=", "must be at least"},
};

/* Facts and, where they do not decide, hints about a comparison. */
typedef struct { cr_tri known, hinted; cr_sym condition; int64_t a, b; } question;

static cr_status ask(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, question *q) {
    *q = (question){.known = CR_UNKNOWN, .hinted = CR_UNKNOWN};
    if (env && env->failed) return CR_FAIL(CR_ENOMEM, "size");
    if (a == CR_DIM_OVERFLOW || b == CR_DIM_OVERFLOW)
        return CR_FAIL(CR_EOVERFLOW, "a size computed here does not fit in 64 bits, or divides by zero");
    q->known = cr_dim_known(env, a, cmp, b);
    bool known_values = cr_dim_hint(env, a, &q->a) && cr_dim_hint(env, b, &q->b);
    if (known_values) q->hinted = holds(q->a, cmp, q->b) ? CR_YES : CR_NO;
    if (env && env->failed) return CR_FAIL(CR_ENOMEM, "size"); /* "unknown" may be for want of memory */
    if (q->known != CR_UNKNOWN) return CR_OK;
    if (!env) return CR_FAIL(CR_EVALUE, "a symbolic size without its environment");
    q->condition = cr_sym_compare(env, cr_dim_sym(env, a), cmp, cr_dim_sym(env, b));
    return q->condition ? CR_OK : CR_FAIL(CR_ENOMEM, "size");
}

/* Records the condition, or its negation, as one the program now depends on. */
static cr_status record(cr_env *env, cr_cond_kind kind, cr_sym condition, bool holds_now, const char *message) {
    if (!holds_now) condition = cr_sym_make(env, CR_SYM_NOT, condition, NULL, NULL);
    return cr_env_add_cond(env, kind, condition, message);
}

cr_status cr_sym_decide(cr_env *env, cr_sym condition, bool *yes) {
    int64_t at_hints;
    if (!condition) return CR_FAIL(CR_ENOMEM, "condition");
    cr_tri truth = cr_sym_truth(env, condition);
    if (truth != CR_UNKNOWN) return *yes = truth == CR_YES, CR_OK;
    if (!cr_env_hint(env, condition, &at_hints)) return cr_env_undecided(env, condition);
    *yes = at_hints != 0;
    return record(env, CR_COND_GUARD, condition, *yes, "");
}

/* A size that is 0 or 1 is nothing a program is written for: decided as if it were not, and checked when it runs. */
static cr_status decide_oblivious(cr_env *env, cr_sym condition, bool *yes) {
    cr_tri answer = cr_sym_truth_oblivious(env, condition);
    if (env->failed) return CR_FAIL(CR_ENOMEM, "size");
    if (answer == CR_UNKNOWN) return cr_env_undecided(env, condition);
    *yes = answer == CR_YES;
    return record(env, CR_COND_ASSUMED, condition, *yes, "");
}

cr_status cr_dim_decide(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, bool *yes) {
    question q;
    CR_TRY(ask(env, a, cmp, b, &q));
    cr_tri answer = q.known != CR_UNKNOWN ? q.known : q.hinted;
    if (answer == CR_UNKNOWN) return decide_oblivious(env, q.condition, yes);
    if (q.known == CR_UNKNOWN) CR_TRY(record(env, CR_COND_GUARD, q.condition, answer == CR_YES, ""));
    *yes = answer == CR_YES;
    return CR_OK;
}

static cr_status violated(cr_env *env, const question *q, cr_dim a, cr_cmp cmp, cr_dim b, const char *what) {
    cr_str text = {0};
    cr_str_addf(&text, "%s: ", what);
    cr_dim_print(env, a, &text);
    cr_str_addf(&text, " %s ", comparisons[cmp].words);
    cr_dim_print(env, b, &text);
    if (q->hinted != CR_UNKNOWN && (!cr_dim_is_plain(a) || !cr_dim_is_plain(b)))
        cr_str_addf(&text, " (here %lld and %lld)", (long long)q->a, (long long)q->b);
    cr_status status = cr_str_status(&text);
    if (!status) status = CR_FAIL(CR_ERUNTIME, "%s", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

cr_status cr_dim_require(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, const char *what) {
    question q;
    CR_TRY(ask(env, a, cmp, b, &q));
    cr_tri answer = q.known != CR_UNKNOWN ? q.known : q.hinted;
    if (answer == CR_NO) return violated(env, &q, a, cmp, b, what);
    if (q.known == CR_YES) return CR_OK;
    cr_status status = record(env, answer == CR_YES ? CR_COND_GUARD : CR_COND_ASSERT, q.condition, true, what);
    /* Learning looks further than asking: a contradiction found there is a requirement that cannot hold. */
    return status == CR_EVALUE ? violated(env, &q, a, cmp, b, what) : status;
}

cr_status cr_dim_assume(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, bool general, bool *yes) {
    question q;
    CR_TRY(ask(env, a, cmp, b, &q));
    if (q.known != CR_UNKNOWN || q.hinted != CR_UNKNOWN) return cr_dim_decide(env, a, cmp, b, yes);
    cr_status status = record(env, CR_COND_ASSUMED, q.condition, general, "");
    if (status && status != CR_EVALUE) return status;
    *yes = status == CR_OK ? general : !general; /* the facts exclude the general case: the other one is certain */
    return CR_OK;
}

cr_status cr_dim_repeats(cr_env *env, cr_dim have, cr_dim want, bool *repeats) {
    question q;
    *repeats = false;
    CR_TRY(ask(env, have, CR_EQ, want, &q));
    if (q.known == CR_YES) return CR_OK;
    /* Only data tell: they are equal. Nothing need be assumed of 1 then, which two equal sizes may both be. */
    if (q.known == CR_UNKNOWN && q.hinted == CR_UNKNOWN && cr_dim_known(env, have, CR_EQ, 1) != CR_YES) return CR_OK;
    if (q.known == CR_UNKNOWN && q.hinted == CR_YES && q.a != 1 && cr_dim_known(env, have, CR_EQ, 1) == CR_UNKNOWN)
        return record(env, CR_COND_GUARD, q.condition, true, "");
    return cr_dim_assume(env, have, CR_EQ, 1, false, repeats);
}
