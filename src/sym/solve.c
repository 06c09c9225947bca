/* The solver: do the sizes vary as the user promised, and if not, what should the promise be?
 *
 * By the facts every size is an expression of the symbols that are left. Roots (named Dims) whose expression is such a
 * symbol own it; the others are numbers, multiples of an owned symbol, or expressions that a Dim cannot say. What the
 * facts of the run say is then compared with what is promised: in a second environment whose owned symbols have the
 * promised bounds, each recorded condition is asked again. One that does not follow there is what the promise lacks.
 *
 * A fix for conditions on one root is read off the values that satisfy them (all of 0..MAX_TRIED): one value, an
 * interval, a residue class. It is suggested only when the second environment, with the fix as its promise, proves
 * every condition; otherwise the example's own value is, which needs no proof. */
#include "sym/shape.h"
#include "sym/internal.h"

enum { MAX_TRIED = 512, MAX_MODULUS = 128, MAX_LISTED = 4096 };

typedef struct root {
    const char *name;
    const cr_size *exact;     /* the size (or phantom) that is this root itself; NULL: none */
    cr_sym expr;              /* by the facts */
    int64_t lo, hi;           /* promised, less what 0 and 1 take away */
    int64_t value;            /* in the example */
    bool owner, blamed, fixed;
} root;

typedef struct solver {
    cr_env *env;
    cr_verdict *out;
    CR_VEC(root) roots;
    CR_VEC(bool) residual;    /* by condition: it does not follow from bounds and relations */
    cr_env *promised;         /* the second environment */
    cr_str derived;           /* fixes that use another Dim: they go after it, as Python reads them from the top */
} solver;

/* ---- small questions about expressions ---- */

/* e = scale * symbol + shift */
static bool linear(cr_sym e, cr_sym *symbol, int64_t *scale, int64_t *shift) {
    *scale = 1, *shift = 0, *symbol = e;
    if (e->kind == CR_SYM_SYMBOL) return true;
    if (e->kind != CR_SYM_ADD || e->type != CR_TYPE_INT || e->n != 1 || e->operand[0]->kind != CR_SYM_SYMBOL)
        return false;
    *symbol = e->operand[0];
    *scale = e->u.coefficients[0];
    *shift = e->constant;
    return true;
}

static bool mentions(cr_sym e, cr_sym symbol) {
    if (e == symbol) return true;
    for (size_t i = 0; i < e->n; i++)
        if (mentions(e->operand[i], symbol)) return true;
    return false;
}

/* The only symbol of e; *several when there are more. NULL: none. */
static cr_sym only_symbol(cr_sym e, cr_sym found, bool *several) {
    if (e->kind == CR_SYM_SYMBOL) {
        if (found && found != e) *several = true;
        return e;
    }
    for (size_t i = 0; i < e->n && !*several; i++) found = only_symbol(e->operand[i], found, several);
    return found;
}

typedef struct trial { cr_sym symbol; int64_t value; } trial;

static bool tried_value(void *user, cr_sym symbol, cr_sym_value *out) {
    const trial *t = user;
    if (symbol != t->symbol) return false;
    *out = (cr_sym_value){.type = CR_TYPE_INT, .i = t->value};
    return true;
}

/* Do the conditions hold at this value of their symbol? */
static bool holds_at(const cr_sym *conditions, size_t n, cr_sym symbol, int64_t value) {
    for (size_t i = 0; i < n; i++) {
        cr_sym_value result;
        trial t = {symbol, value};
        if (!cr__eval(conditions[i], tried_value, &t, &result, NULL, NULL) || !result.i) return false;
    }
    return true;
}

/* By the facts, or by trying: a condition on one symbol that has few values holds when it holds at each of them. */
static bool follows(cr_env *env, cr_sym c) {
    bool several = false;
    if (cr_sym_truth(env, c) == CR_YES) return true;
    cr_sym symbol = only_symbol(c, NULL, &several);
    if (!symbol || several || symbol->type != CR_TYPE_INT) return false;
    cr_range r = cr_sym_range(env, symbol);
    if (r.lo == INT64_MIN || r.hi >= r.lo + MAX_LISTED) return false;
    for (int64_t v = r.lo; v <= r.hi; v++)
        if (!holds_at(&c, 1, symbol, v)) return false;
    return true;
}

static int64_t divide_up(int64_t a, int64_t b) { return -cr__floordiv64(-a, b); }

/* ---- reasons ---- */

static void add_origin(solver *s, size_t i) {
    cr_user_line o = cr_env_cond_line(s->env, i);
    if (!o.file) return;
    cr_str_addf(&s->out->reasons, " (%s:%d", o.file, o.line);
    if (o.text && *o.text) cr_str_addf(&s->out->reasons, ": %s", o.text);
    cr_str_addc(&s->out->reasons, ')');
}

static void add_condition(solver *s, size_t i) {
    cr_str_add(&s->out->reasons, "\n      ");
    cr_shape_text(s->env, s->env->conds.at[i].condition, &s->out->reasons);
    add_origin(s, i);
}

/* The conditions that mention the symbol, or something that the facts replace by it; equalities alone where asked. */
static void add_causes(solver *s, cr_sym symbol, bool equalities) {
    size_t shown = 0;
    for (size_t i = 0; i < s->env->conds.n && shown < 4; i++) {
        cr_sym c = s->env->conds.at[i].condition;
        if (s->env->conds.at[i].kind != CR_COND_GUARD || (equalities && c->kind != CR_SYM_EQ) || !symbol ||
            !mentions(c, symbol))
            continue;
        /* the promise itself: no line of the program asked for it */
        if (s->env->find_line && !cr_env_cond_line(s->env, i).file) continue;
        add_condition(s, i);
        shown++;
    }
}

/* Enters a name into the list of names, sorted, once. */
static cr_status blame(solver *s, const char *name) {
    cr_str list;
    cr_str_init(&list);
    const char *at = cr_str_get(&s->out->names);
    bool placed = false;
    while (*at) {
        size_t n = strcspn(at, ",");
        int order = strncmp(at, name, n);
        if (order == 0 && name[n]) order = -1;
        if (order == 0) placed = true;
        if (order > 0 && !placed) {
            cr_str_addf(&list, "%s%s", list.n ? ", " : "", name);
            placed = true;
        }
        cr_str_add(&list, list.n ? ", " : "");
        cr_str_addn(&list, at, n);
        at += n;
        at += strspn(at, ", ");
    }
    if (!placed) cr_str_addf(&list, "%s%s", list.n ? ", " : "", name);
    cr_status status = cr_str_status(&list);
    cr_str_dispose(&s->out->names);
    s->out->names = list;
    cr_str_add(&s->out->reasons, "  - ");
    return status;
}

static void title(solver *s, const cr_size *size, const char *name) {
    if (size && size->source && strcmp(size->source, name))
        cr_str_addf(&s->out->reasons, "%s = %s", name, size->source);
    else cr_str_add(&s->out->reasons, name);
}

/* ---- roots ---- */

static root *find_root(solver *s, const char *name) {
    for (size_t i = 0; i < s->roots.n; i++)
        if (!strcmp(s->roots.at[i].name, name)) return &s->roots.at[i];
    return NULL;
}

static cr_status gather(solver *s) {
    for (size_t i = 0; i < s->env->sizes.n; i++) {
        const cr_size *size = &s->env->sizes.at[i];
        if (size->promise < CR_SIZE_NAMED) continue;
        root *r = find_root(s, size->root);
        if (!r) {
            CR_TRY(cr_vec_push(&s->roots, (root){.name = size->root, .lo = size->lo, .hi = size->hi}));
            r = &s->roots.at[s->roots.n - 1];
            r->value = cr__floordiv64(size->value - size->shift, size->scale);
        }
        if (!r->exact && size->scale == 1 && size->shift == 0) {
            r->exact = size;
            r->expr = size->symbol ? cr_sym_simplify(s->env, size->symbol) : cr_sym_int(s->env, size->value);
            if (!r->expr) return CR_FAIL(CR_ENOMEM, "size");
        }
        if (size->promise == CR_SIZE_ROOT) r->lo = CR_MAX(r->lo, size->lo);
        else r->lo = CR_MAX(r->lo, divide_up(2 - size->shift, size->scale));
    }
    for (size_t i = 0; i < s->roots.n; i++) {
        root *r = &s->roots.at[i];
        if (!r->exact) return CR_FAIL(CR_EVALUE, "the root '%s' of a derived size was not added", r->name);
        r->owner = r->expr->kind == CR_SYM_SYMBOL;
        for (size_t k = 0; k < i && r->owner; k++) r->owner = s->roots.at[k].expr != r->expr; /* the first keeps it */
    }
    return CR_OK;
}

static root *owner_of(solver *s, cr_sym symbol) {
    for (size_t i = 0; i < s->roots.n; i++)
        if (s->roots.at[i].owner && s->roots.at[i].expr == symbol) return &s->roots.at[i];
    return NULL;
}

/* ---- numbers ---- */

static cr_status blame_numbers(solver *s) {
    for (size_t i = 0; i < s->env->sizes.n; i++) {
        const cr_size *size = &s->env->sizes.at[i];
        int64_t value = size->value;
        if (size->promise == CR_SIZE_AUTO || size->promise == CR_SIZE_ROOT) continue;
        cr_sym now = size->symbol ? cr_sym_simplify(s->env, size->symbol) : NULL;
        if (size->symbol && !now) return CR_FAIL(CR_ENOMEM, "size");
        if (now && !cr_sym_is_int(now, &value)) continue;
        const char *name = size->promise == CR_SIZE_NAMED ? size->name : size->source;
        CR_TRY(blame(s, name));
        title(s, size, name);
        if (!size->symbol) {
            cr_str_addf(&s->out->reasons,
                        " is %lld in the example, and sizes 0 and 1 never vary: give an example of at least 2",
                        (long long)value);
        } else {
            cr_str_addf(&s->out->reasons, " must vary, but the program works with %lld alone", (long long)value);
            add_causes(s, size->symbol, true);
            if (size->promise == CR_SIZE_DYNAMIC)
                cr_str_add(&s->out->reasons, "\n    change the program there, or use Dim.STATIC or Dim.AUTO");
        }
        cr_str_addc(&s->out->reasons, '\n');
        root *r = size->promise == CR_SIZE_NAMED ? find_root(s, size->root) : NULL;
        if (r && !r->fixed) {
            cr_str_addf(&s->out->fixes, "%s = %lld\n", r->name,
                        (long long)cr__floordiv64(value - size->shift, size->scale));
            r->fixed = r->blamed = true;
        }
    }
    return CR_OK;
}

/* ---- relations ---- */

static void add_linear(cr_str *out, int64_t scale, const char *name, int64_t shift) {
    if (scale != 1) cr_str_addf(out, "%lld*", (long long)scale);
    cr_str_add(out, name);
    if (shift) cr_str_addf(out, shift < 0 ? " - %llu" : " + %llu", (unsigned long long)cr__magnitude(shift));
}

static cr_status blame_relations(solver *s) {
    for (size_t i = 0; i < s->roots.n; i++) {
        root *r = &s->roots.at[i], *o;
        cr_sym symbol;
        int64_t scale, shift;
        if (r->owner || r->fixed || !linear(r->expr, &symbol, &scale, &shift) || scale <= 0 ||
            !(o = owner_of(s, symbol)))
            continue;
        CR_TRY(blame(s, r->name));
        title(s, r->exact, r->name);
        cr_str_add(&s->out->reasons, " is always ");
        add_linear(&s->out->reasons, scale, o->name, shift);
        cr_str_add(&s->out->reasons, ", where ");
        title(s, o->exact, o->name);
        add_causes(s, r->exact->symbol, true);
        cr_str_addc(&s->out->reasons, '\n');
        cr_str_addf(&s->derived, "%s = ", r->name);
        add_linear(&s->derived, scale, o->name, shift);
        cr_str_addc(&s->derived, '\n');
        r->fixed = r->blamed = true;
    }
    return CR_OK;
}

/* ---- the second environment ---- */

/* An owned symbol with the given bounds in place of its root's; the rest keeps what the facts leave. */
typedef struct asked { solver *s; cr_env *env; const root *changed; cr_range bounds; cr_sym put; } asked;

static cr_sym import_symbol(void *user, cr_sym symbol) {
    asked *a = user;
    if (a->changed && a->changed->expr == symbol && a->put) return a->put;
    cr_sym known = cr_sym_find_symbol(a->env, cr_sym_name(symbol));
    if (known) return known;
    cr_range r = cr_sym_range(a->s->env, symbol);
    const root *o = owner_of(a->s, symbol);
    if (o) r = (cr_range){CR_MAX(r.lo, o->lo), CR_MIN(r.hi, o->hi)};
    if (a->changed && a->changed->expr == symbol) r = a->bounds;
    cr_sym_type type = cr_sym_type_of(symbol);
    return cr_sym_symbol(a->env, cr_sym_name(symbol), type, r.lo, r.hi);
}

static cr_sym import_by_facts(void *user, cr_sym symbol) {
    asked *a = user;
    return cr_sym_substitute(a->env, cr_sym_simplify(a->s->env, symbol), import_symbol, a);
}

/* Condition i there. NULL: no memory. */
static cr_sym ask(asked *a, size_t i) {
    return cr_sym_substitute(a->env, a->s->env->conds.at[i].condition, import_by_facts, a);
}

/* The residual conditions: guards that bounds and relations do not imply. */
static cr_status find_residual(solver *s) {
    asked a = {.s = s, .env = s->promised};
    for (size_t i = 0; i < s->env->conds.n; i++) {
        bool residual = false;
        if (s->env->conds.at[i].kind == CR_COND_GUARD) {
            cr_sym c = ask(&a, i);
            if (!c) return CR_FAIL(CR_ENOMEM, "condition");
            residual = !follows(s->promised, c);
        }
        CR_TRY(cr_vec_push(&s->residual, residual));
    }
    return s->promised->failed || s->env->failed ? CR_FAIL(CR_ENOMEM, "condition") : CR_OK;
}

/* Is condition i about this owned symbol alone? */
static cr_status concerns(solver *s, size_t i, const root *r, bool *yes) {
    asked a = {.s = s, .env = s->promised};
    bool several = false;
    cr_sym c = ask(&a, i);
    if (!c) return CR_FAIL(CR_ENOMEM, "condition");
    cr_sym symbol = only_symbol(c, NULL, &several);
    *yes = symbol && !several && !strcmp(cr_sym_name(symbol), cr_sym_name(r->expr));
    return CR_OK;
}

/* ---- fixes for one root ---- */

/* Do the conditions follow when the root is scale * k + shift with k in `bounds`? */
static cr_status proved(solver *s, const root *r, const size_t *which, size_t n, int64_t scale, int64_t shift,
                        cr_range bounds, bool *yes) {
    cr_env *env = NULL;
    *yes = false;
    CR_TRY(cr_env_create(&env));
    asked a = {.s = s, .env = env, .changed = r, .bounds = bounds};
    cr_sym k = cr_sym_symbol(env, "k", CR_TYPE_INT, bounds.lo, bounds.hi);
    a.put = cr_sym_add(env, cr_sym_mul(env, cr_sym_int(env, scale), k), cr_sym_int(env, shift));
    bool all = a.put != NULL;
    for (size_t i = 0; i < n && all; i++) {
        cr_sym c = ask(&a, which[i]);
        all = c && follows(env, c);
    }
    cr_status status = env->failed || s->env->failed ? CR_FAIL(CR_ENOMEM, "condition") : CR_OK;
    cr_env_release(env);
    *yes = all;
    return status;
}

static void add_bounds(cr_str *out, const char *prefix, const char *name, int64_t lo, int64_t hi) {
    cr_str_addf(out, "%s%s = Dim('%s%s'", prefix, name, prefix, name);
    if (lo > (*prefix ? 0 : 2)) cr_str_addf(out, ", min=%lld", (long long)lo);
    if (hi != INT64_MAX) cr_str_addf(out, ", max=%lld", (long long)hi);
    cr_str_add(out, ")\n");
}

/* The smallest modulus that the satisfying values from `from` on have in common; 0: none. */
static int64_t common_modulus(const bool *holds, int64_t from, int64_t value) {
    for (int64_t m = 2; m <= MAX_MODULUS; m++) {
        bool same = true;
        for (int64_t v = from; v <= MAX_TRIED && same; v++) same = holds[v] == ((v - value) % m == 0);
        if (same) return m;
    }
    return 0;
}

static cr_status suggest(solver *s, root *r, cr_range left, const size_t *which, size_t n) {
    bool holds[MAX_TRIED + 1], yes = n == 0, bounded = left.hi <= MAX_TRIED;
    asked a = {.s = s, .env = s->promised};
    CR_VEC(cr_sym) conditions = {0};
    cr_status status = CR_OK;
    cr_str *out = &s->out->fixes;
    int64_t last = CR_MIN(left.hi, MAX_TRIED), value = r->value, lo = value, hi = value, outside = 0;
    if (n == 0) {
        if (left.lo == left.hi) cr_str_addf(out, "%s = %lld\n", r->name, (long long)left.lo);
        else add_bounds(out, "", r->name, left.lo, left.hi);
        return CR_OK;
    }
    for (size_t i = 0; i < n; i++) {
        cr_sym c = ask(&a, which[i]);
        if (!c) return cr_vec_dispose(&conditions), CR_FAIL(CR_ENOMEM, "condition");
        CR_TRY_OUT(cr_vec_push(&conditions, c));
    }
    cr_sym symbol = cr_sym_find_symbol(s->promised, cr_sym_name(r->expr));
    if (!symbol || value < left.lo || value > last) goto constant;
    for (int64_t v = 0; v <= MAX_TRIED; v++)
        holds[v] = v >= left.lo && v <= left.hi && holds_at(conditions.at, n, symbol, v);
    if (!holds[value]) goto constant;
    while (lo > left.lo && holds[lo - 1]) lo--;
    while (hi < last && holds[hi + 1]) hi++;
    for (int64_t v = 0; v <= last; v++) outside += holds[v] && (v < lo || v > hi);
    int64_t top = hi == MAX_TRIED && !bounded ? left.hi : hi;
    int64_t m = outside ? common_modulus(holds, CR_MAX(left.lo, 2), value) : 0;
    if (m && left.hi == INT64_MAX) { /* b = m*_b + shift: shift in -m+1..0, as small roots are no sizes */
        int64_t shift = cr__mod64(value, m) ? cr__mod64(value, m) - m : 0,
                least = divide_up(CR_MAX(left.lo, 2) - shift, m);
        CR_TRY_OUT(proved(s, r, which, n, m, shift, (cr_range){least, INT64_MAX}, &yes));
        if (yes) {
            add_bounds(out, "_", r->name, least, INT64_MAX);
            cr_str_addf(out, "%s = %lld*_%s", r->name, (long long)m, r->name);
            if (shift) cr_str_addf(out, " - %llu", (unsigned long long)cr__magnitude(shift));
            cr_str_addc(out, '\n');
            goto out;
        }
    }
    if (lo < hi) { /* every value of a bounded interval was tried; else it needs a proof */
        yes = top <= MAX_TRIED;
        if (!yes) CR_TRY_OUT(proved(s, r, which, n, 1, 0, (cr_range){lo, top}, &yes));
        if (yes) {
            add_bounds(out, "", r->name, lo, top);
            goto out;
        }
    }
constant:
    cr_str_addf(out, "%s = %lld\n", r->name, (long long)value);
out:
    cr_vec_dispose(&conditions);
    return status;
}

/* Bounds that are too wide, and conditions that bounds cannot say. */
static cr_status blame_conditions(solver *s, unsigned options) {
    cr_status status = CR_OK;
    CR_VEC(size_t) which = {0};
    for (size_t i = 0; i < s->roots.n; i++) {
        root *r = &s->roots.at[i];
        if (!r->owner || r->fixed) continue;
        cr_range left = cr_sym_range(s->env, r->expr);
        bool narrower = left.lo > r->lo || left.hi < r->hi;
        left = (cr_range){CR_MAX(left.lo, r->lo), CR_MIN(left.hi, r->hi)};
        which.n = 0;
        for (size_t k = 0; k < s->env->conds.n && !(options & CR_SOLVE_DEFER); k++) {
            bool here = false;
            if (s->residual.at[k]) CR_TRY_OUT(concerns(s, k, r, &here));
            if (here) CR_TRY_OUT(cr_vec_push(&which, k));
        }
        if (!narrower && !which.n) continue;
        CR_TRY_OUT(blame(s, r->name));
        title(s, r->exact, r->name);
        if (narrower) {
            cr_str_addf(&s->out->reasons, " may be %lld", (long long)r->lo);
            if (r->hi == INT64_MAX) cr_str_add(&s->out->reasons, " or more by dynamic_shapes; the program needs ");
            else cr_str_addf(&s->out->reasons, " to %lld by dynamic_shapes; the program needs ", (long long)r->hi);
            if (left.hi == INT64_MAX) cr_str_addf(&s->out->reasons, "at least %lld", (long long)left.lo);
            else if (left.lo == left.hi) cr_str_addf(&s->out->reasons, "%lld", (long long)left.lo);
            else if (left.lo <= r->lo) cr_str_addf(&s->out->reasons, "at most %lld", (long long)left.hi);
            else cr_str_addf(&s->out->reasons, "%lld to %lld", (long long)left.lo, (long long)left.hi);
            if (!which.n) add_causes(s, r->exact->symbol, false);
        } else {
            cr_str_add(&s->out->reasons, ": not every value in its bounds satisfies what the program needs");
        }
        for (size_t k = 0; k < which.n; k++) add_condition(s, which.at[k]);
        cr_str_addc(&s->out->reasons, '\n');
        CR_TRY_OUT(suggest(s, r, left, which.at, which.n));
        r->blamed = r->fixed = true;
    }
out:
    cr_vec_dispose(&which);
    return status;
}

cr_status cr_shape_solve(cr_env *env, unsigned options, cr_verdict *out) {
    *out = (cr_verdict){0};
    solver s = {.env = env, .out = out};
    cr_status status = CR_OK;
    CR_TRY_OUT(cr_env_create(&s.promised));
    CR_TRY_OUT(gather(&s));
    CR_TRY_OUT(find_residual(&s));
    CR_TRY_OUT(blame_numbers(&s));
    CR_TRY_OUT(blame_relations(&s));
    CR_TRY_OUT(blame_conditions(&s, options));
    cr_str_add(&out->fixes, cr_str_get(&s.derived));
    CR_TRY_OUT(cr_str_status(&s.derived));
    for (size_t i = 0; i < env->conds.n; i++)
        CR_TRY_OUT(cr_vec_push(&out->deferred, (options & CR_SOLVE_DEFER) && s.residual.at[i]));
    CR_TRY_OUT(cr_str_status(&out->names));
    CR_TRY_OUT(cr_str_status(&out->reasons));
    CR_TRY_OUT(cr_str_status(&out->fixes));
out:
    cr_env_release(s.promised);
    cr_str_dispose(&s.derived);
    cr_vec_dispose(&s.roots);
    cr_vec_dispose(&s.residual);
    if (status) cr_verdict_dispose(out);
    return status;
}

void cr_verdict_dispose(cr_verdict *verdict) {
    cr_str_dispose(&verdict->names);
    cr_str_dispose(&verdict->reasons);
    cr_str_dispose(&verdict->fixes);
    cr_vec_dispose(&verdict->deferred);
    *verdict = (cr_verdict){0};
}
