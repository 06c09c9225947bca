/* bind.c: the inputs of a run against what the graph says of them.
 *
 * Sizes that are one symbol give the symbol its value; a size such as 2*s0 + 1 gives it too where nothing simpler does;
 * all others are computed and compared. In a symbolic run the sizes are expressions of the inputs' environment, and
 * what cannot be decided there becomes a condition of it. A check whose symbols no input gives says nothing. */
#include "graph/plan.h"
#include "sym/shape.h"

#include <stdio.h>

static const char *input_name(const plan_binding *b, uint32_t input) {
    return b->plan->graph->values.at[b->plan->inputs[input]]->name;
}

/* Puts before the message which input it is about. */
static cr_status about(const plan_binding *b, uint32_t input, cr_status status) {
    if (b->plan->labels) return cr_error_context(status, "%s", b->plan->labels[input]);
    return cr_error_context(status, "graph input '%s'", input_name(b, input));
}

static cr_sym_value found_value(const plan_check *check, const cr_arg *a) {
    if (check->dim >= 0) return (cr_sym_value){ CR_TYPE_INT, a->u.t->meta.size[check->dim], 0 };
    if (a->kind == CR_ARG_FLOAT) return (cr_sym_value){ CR_TYPE_FLOAT, 0, a->u.f };
    return (cr_sym_value){ CR_TYPE_INT, a->u.i, (double)a->u.i };
}

/* "s0 = 3, s1 = 4": what an expectation was computed from. */
static void print_symbols(const plan_binding *b, cr_sym e, bool *any, cr_str *out) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        for (size_t i = 0; i < b->plan->symbols.n; i++) {
            if (b->plan->symbols.at[i].symbol != e || !b->bound[i]) continue;
            cr_str_addf(out, "%s%s = ", *any ? ", " : "", cr_sym_name(e));
            *any = true;
            if (b->at[i].type == CR_TYPE_FLOAT) cr_str_add_double(out, b->at[i].f);
            else cr_dim_print(b->env, b->at[i].i, out);
        }
        return;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) print_symbols(b, cr_sym_operand(e, i), any, out);
}

static void print_value(const plan_binding *b, cr_sym_value v, cr_str *out) {
    if (v.type == CR_TYPE_FLOAT) cr_str_add_double(out, v.f);
    else cr_dim_print(b->env, v.i, out);
}

static cr_status mismatch(const plan_binding *b, const plan_check *check, cr_sym_value found, const char *because) {
    cr_str text;
    cr_str_init(&text);
    if (check->dim >= 0) cr_str_addf(&text, "dimension %d", check->dim);
    else cr_str_add(&text, "the number");
    cr_str_add(&text, " is ");
    print_value(b, found, &text);
    cr_str_add(&text, ", expected ");
    if (!check->expr) cr_str_addf(&text, "%lld", (long long)check->plain);
    else {
        bool any = false;
        cr_str names;
        cr_str_init(&names);
        print_symbols(b, check->expr, &any, &names);
        if (any && check->symbol >= 0 && !*because) cr_str_add(&text, cr_str_get(&names));
        else cr_sym_print(check->expr, &text);
        if (any && check->symbol < 0) cr_str_addf(&text, " with %s", cr_str_get(&names));
        cr_str_dispose(&names);
    }
    cr_str_add(&text, because);
    cr_status status = CR_FAIL(CR_EGUARD, "%s", cr_str_get(&text));
    cr_str_dispose(&text);
    return about(b, check->input, status);
}

/* ---- kinds of inputs ---- */

static const char *kind_name(const cr_arg *a) {
    static const char *const names[CR_ARG_KIND_COUNT] = { "None",     "a tensor",    "a tensor", "a value",
                                                          "an int",   "a float",     "a bool",   "a complex number",
                                                          "a text",   "a dtype",     "a layout", "a memory format",
                                                          "a device", "a generator", "a list",   "a graph",
                                                          "a symbol" };
    return names[a->kind];
}

static cr_status check_tensor(const cr_value *v, const cr_arg *a) {
    if (a->kind != CR_ARG_TENSOR) return CR_FAIL(CR_ETYPE, "expected a tensor, not %s", kind_name(a));
    const cr_meta *want = v->meta, *have = &a->u.t->meta;
    if (!want) return CR_OK;
    if (want->dtype != have->dtype)
        return CR_FAIL(CR_ERUNTIME, "dtype is %s, expected %s", cr_dtype_name(have->dtype), cr_dtype_name(want->dtype));
    if (want->rank != have->rank)
        return CR_FAIL(CR_ERUNTIME, "it has %d dimensions, expected %d", have->rank, want->rank);
    if (want->device.type != have->device.type) return CR_FAIL(CR_ERUNTIME, "it is on another device than expected");
    return CR_OK;
}

static cr_status check_kind(plan_binding *b, uint32_t i, const cr_arg *a) {
    const cr_value *v = b->plan->graph->values.at[b->plan->inputs[i]];
    const char *expected = NULL;
    if (a->kind == CR_ARG_SYM || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i))) b->symbolic = true;
    for (int d = 0; a->kind == CR_ARG_TENSOR && d < a->u.t->meta.rank; d++)
        b->symbolic |= !cr_dim_is_plain(a->u.t->meta.size[d]);
    switch ((cr_type)v->type) {
    case CR_T_TENSOR: return a->kind == CR_ARG_NONE && !v->meta ? CR_OK : check_tensor(v, a);
    case CR_T_INT: expected = a->kind == CR_ARG_INT || a->kind == CR_ARG_SYM ? NULL : "an int"; break;
    case CR_T_FLOAT:
        expected = a->kind == CR_ARG_FLOAT || a->kind == CR_ARG_INT || a->kind == CR_ARG_SYM ? NULL : "a float";
        break;
    case CR_T_BOOL: expected = a->kind == CR_ARG_BOOL || a->kind == CR_ARG_SYM ? NULL : "a bool"; break;
    case CR_T_SCALAR: expected = cr_arg_is_number(a) || a->kind == CR_ARG_SYM ? NULL : "a number"; break;
    case CR_T_STR: expected = a->kind == CR_ARG_STR ? NULL : "a text"; break;
    default: break;
    }
    return expected ? CR_FAIL(CR_ETYPE, "expected %s, not %s", expected, kind_name(a)) : CR_OK;
}

/* ---- values of symbols ---- */

static bool lookup(void *user, cr_sym symbol, cr_sym_value *out) {
    const plan_binding *b = user;
    for (size_t i = 0; i < b->plan->symbols.n; i++)
        if (b->plan->symbols.at[i].symbol == symbol && b->bound[i]) return *out = b->at[i], true;
    return false;
}

static bool all_bound(const plan_binding *b, cr_sym e) {
    cr_sym_value unused;
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return lookup((void *)b, e, &unused);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!all_bound(b, cr_sym_operand(e, i))) return false;
    return true;
}

static cr_sym replacement(void *user, cr_sym symbol) {
    const plan_binding *b = user;
    cr_sym_value v;
    if (!lookup(user, symbol, &v)) return NULL;
    return v.type == CR_TYPE_FLOAT ? cr_sym_float(b->env, v.f) : cr_dim_sym(b->env, v.i);
}

/* A symbolic expectation: equal, or made a condition of the run's environment. */
static cr_status require_equal(const plan_binding *b, const plan_check *check, cr_dim found, cr_dim expected) {
    cr_tri equal = cr_dim_known(b->env, found, CR_EQ, expected);
    if (equal == CR_YES) return CR_OK;
    if (equal == CR_NO) return mismatch(b, check, (cr_sym_value){ CR_TYPE_INT, found, 0 }, "");
    char what[160];
    int n = check->dim >= 0 ? snprintf(what, sizeof what, "graph input '%.80s', dimension %d",
                                       input_name(b, check->input), check->dim)
                            : snprintf(what, sizeof what, "graph input '%.80s'", input_name(b, check->input));
    return n < 0 ? CR_ERUNTIME : cr_dim_require(b->env, found, CR_EQ, expected, what);
}

static void bind_symbol(plan_binding *b, int32_t symbol, cr_sym_value value) {
    b->at[symbol] = value;
    b->bound[symbol] = true;
}

/* Last of all: a condition with a message says more than the range that followed from it. */
static cr_status check_range(const plan_binding *b, const plan_check *check, cr_sym_value found) {
    if (check->symbol < 0 || found.type != CR_TYPE_INT || !cr_dim_is_plain(found.i)) return CR_OK;
    cr_range range = b->plan->symbols.at[check->symbol].range;
    char because[96];
    if (found.i >= range.lo && found.i <= range.hi) return CR_OK;
    if (range.hi == INT64_MAX) snprintf(because, sizeof because, " of at least %lld", (long long)range.lo);
    else if (range.lo == INT64_MIN) snprintf(because, sizeof because, " of at most %lld", (long long)range.hi);
    else snprintf(because, sizeof because, " in [%lld, %lld]", (long long)range.lo, (long long)range.hi);
    return mismatch(b, check, found, because);
}

/* A size c*s + k of a symbol that nothing else gives: s = (size - k) / c. */
static cr_status solve(plan_binding *b, const plan_check *check, cr_sym_value found) {
    cr_sym e = check->expr;
    if (cr_sym_kind_of(e) != CR_SYM_ADD || cr_sym_operand_count(e) != 1 || found.type != CR_TYPE_INT ||
        !cr_dim_is_plain(found.i))
        return CR_OK;
    int64_t c = cr_sym_coefficient(e, 0), rest;
    for (size_t i = 0; i < b->plan->symbols.n; i++) {
        if (b->plan->symbols.at[i].symbol != cr_sym_operand(e, 0) || b->bound[i]) continue;
        if (cr_sub_overflow(found.i, cr_sym_constant(e), &rest) || rest % c) return mismatch(b, check, found, "");
        bind_symbol(b, (int32_t)i, (cr_sym_value){ CR_TYPE_INT, rest / c, 0 });
    }
    return CR_OK;
}

static cr_status check_computed(const plan_binding *b, const plan_check *check, cr_sym_value found) {
    if (!check->expr) {
        if (found.type == CR_TYPE_FLOAT) return found.f == (double)check->plain ? CR_OK : mismatch(b, check, found, "");
        if (cr_dim_is_plain(found.i)) return found.i == check->plain ? CR_OK : mismatch(b, check, found, "");
        return require_equal(b, check, found.i, check->plain);
    }
    if (!all_bound(b, check->expr)) return CR_OK;
    if (b->symbolic) {
        if (found.type == CR_TYPE_FLOAT) return CR_OK;
        cr_sym expected = cr_sym_substitute(b->env, check->expr, replacement, (void *)b);
        if (!expected) return CR_FAIL(CR_ENOMEM, "out of memory");
        return require_equal(b, check, found.i, cr_dim_of(b->env, expected));
    }
    cr_sym_value expected;
    if (cr_sym_eval(check->expr, lookup, (void *)b, &expected))
        return mismatch(b, check, found, ", which has no value");
    bool same = expected.type == CR_TYPE_FLOAT || found.type == CR_TYPE_FLOAT ? expected.f == found.f
                                                                              : expected.i == found.i;
    return same ? CR_OK : mismatch(b, check, found, "");
}

static cr_status check_cond(const plan_binding *b, const cr_cond *cond) {
    cr_sym_value holds = { .i = 1 };
    if (!all_bound(b, cond->condition)) return CR_OK;
    if (b->symbolic) {
        cr_sym here = cr_sym_substitute(b->env, cond->condition, replacement, (void *)b);
        if (!here) return CR_FAIL(CR_ENOMEM, "out of memory");
        cr_tri truth = cr_sym_truth(b->env, here);
        if (truth == CR_UNKNOWN) return cr_env_add_cond(b->env, cond->kind, here, cond->message);
        holds.i = truth == CR_YES;
    } else if (cr_sym_eval(cond->condition, lookup, (void *)b, &holds)) {
        return CR_OK; /* it has no value for these inputs, so nothing depended on it */
    }
    if (holds.i) return CR_OK;
    cr_str text;
    cr_str_init(&text);
    bool any = false;
    /* by the inputs' names */
    if (cr_shape_count(b->plan->graph->env)) cr_shape_text(b->plan->graph->env, cond->condition, &text);
    else cr_sym_print(cond->condition, &text);
    cr_str_add(&text, " with ");
    print_symbols(b, cond->condition, &any, &text);
    cr_status status = CR_FAIL(CR_EGUARD, "the graph holds only where %s%s%s", cr_str_get(&text),
                               cond->message && *cond->message ? ": " : "", cond->message ? cond->message : "");
    cr_str_dispose(&text);
    return status;
}

cr_status cr__plan_bind(plan_binding *b, const cr_arg *inputs) {
    enum { BIND, SOLVE, COMPARE, PHASES };
    const cr_plan *p = b->plan;
    for (uint32_t i = 0; i < p->ninputs; i++) {
        cr_status status = check_kind(b, i, &inputs[i]);
        if (status) return about(b, i, status);
    }
    for (int phase = BIND; phase < PHASES; phase++)
        for (size_t i = 0; i < p->checks.n; i++) {
            const plan_check *check = &p->checks.at[i];
            if (inputs[check->input].kind == CR_ARG_SYM) continue;
            cr_sym_value found = found_value(check, &inputs[check->input]);
            if (phase == COMPARE) CR_TRY(check_computed(b, check, found));
            else if (phase == BIND && check->symbol >= 0 && !b->bound[check->symbol])
                bind_symbol(b, check->symbol, found);
            else if (phase == SOLVE && check->expr && check->symbol < 0) CR_TRY(solve(b, check, found));
        }
    for (size_t i = 0; i < p->conds.n; i++) CR_TRY(check_cond(b, &p->conds.at[i]));
    for (size_t i = 0; i < p->checks.n; i++)
        if (inputs[p->checks.at[i].input].kind != CR_ARG_SYM)
            CR_TRY(check_range(b, &p->checks.at[i], found_value(&p->checks.at[i], &inputs[p->checks.at[i].input])));
    return p->check ? p->check(p->check_user, inputs) : CR_OK;
}
