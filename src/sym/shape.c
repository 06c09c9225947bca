/* What an environment knows beside facts: the sizes its symbols stand for, the lines its conditions came from, and how
 * questions about unbacked sizes are treated.
 *
 * Size-oblivious: a size that the program computes from data may be 0 or 1, which broadcast and are empty, but no
 * program is written for that case alone. A question that facts leave open only because of 0 and 1 is answered as if
 * the size were at least 2: the expression is asked again with u = 2 + k, k >= 0, in place of each such size. */
#include "sym/shape.h"
#include "sym/internal.h"
#include "sym/names.h"

#include <stdio.h>

/* ---- the user's line ---- */

void cr_env_set_user_line(cr_env *env, cr_user_line_fn find, void *user) {
    env->find_line = find;
    env->line_user = user;
}

/* The line that runs now, with texts of the environment. */
cr_status cr__line_find(cr_env *env, cr_user_line *out) {
    *out = (cr_user_line){0};
    return env->find_line ? env->find_line(env->line_user, &env->arena, out) : CR_OK;
}

cr_status cr__line_note(cr_env *env) {
    cr_user_line found;
    CR_TRY(cr__line_find(env, &found));
    return cr_vec_push(&env->lines, found);
}

cr_user_line cr_env_cond_line(const cr_env *env, size_t i) {
    return i < env->lines.n ? env->lines.at[i] : (cr_user_line){0};
}

cr_user_line cr_sym_line(cr_sym symbol) {
    return symbol && symbol->kind == CR_SYM_SYMBOL ? symbol->u.symbol->line : (cr_user_line){0};
}

/* ---- sizes that depend on data ---- */

cr_status cr_env_mark_size(cr_env *env, cr_sym symbol) {
    if (!symbol) return CR_FAIL(CR_ENOMEM, "symbol");
    if (symbol->kind != CR_SYM_SYMBOL || symbol->type != CR_TYPE_INT)
        return CR_FAIL(CR_EVALUE, "only an integer symbol can be a size");
    CR_TRY(cr_env_narrow(env, symbol, 0, INT64_MAX));
    symbol->u.symbol->size_like = true;
    return CR_OK;
}

cr_sym cr_sym_unbacked_size(cr_env *env, int64_t hi) {
    cr_sym e = cr_sym_unbacked(env, 0, hi);
    if (e) e->u.symbol->size_like = e->u.symbol->counted = true;
    return e;
}

size_t cr_env_unbacked_count(const cr_env *env) { return env->data.n; }

cr_sym cr_env_unbacked(const cr_env *env, size_t i) { return env->data.at[i]; }

bool cr_env_is_counted(cr_sym symbol) { return symbol && symbol->kind == CR_SYM_SYMBOL && symbol->u.symbol->counted; }

cr_range cr_sym_declared(cr_sym symbol) {
    return (cr_range){symbol->u.symbol->declared_lo, symbol->u.symbol->declared_hi};
}

bool cr_env_is_size(cr_sym symbol) { return symbol && symbol->kind == CR_SYM_SYMBOL && symbol->u.symbol->size_like; }

/* u -> 2 + k for the sizes that may still be 0 or 1; `any` tells whether there was one. */
typedef struct oblivious { cr_env *env; bool any; } oblivious;

static cr_sym raise_size(void *user, cr_sym symbol) {
    oblivious *o = user;
    char name[64];
    if (!cr_env_is_size(symbol) || cr_sym_range(o->env, symbol).lo >= 2) return symbol;
    if (snprintf(name, sizeof name, "%s_from_2", cr_sym_name(symbol)) >= (int)sizeof name) return symbol;
    int64_t hi = cr_sym_range(o->env, symbol).hi;
    if (hi < 2) return symbol;
    cr_sym k = cr_sym_symbol(o->env, name, CR_TYPE_INT, 0, hi == INT64_MAX ? hi : hi - 2);
    o->any = true;
    return cr_sym_add(o->env, k, cr_sym_int(o->env, 2));
}

cr_tri cr_sym_truth_oblivious(cr_env *env, cr_sym condition) {
    cr_tri known = cr_sym_truth(env, condition);
    if (known != CR_UNKNOWN || !condition) return known;
    oblivious o = {env, false};
    cr_sym raised = cr_sym_substitute(env, cr_sym_simplify(env, condition), raise_size, &o);
    return raised && o.any ? cr_sym_truth(env, raised) : CR_UNKNOWN;
}

cr_status cr_env_check(cr_env *env, cr_sym condition, const char *message) {
    int64_t hinted = 0;
    if (!condition) return CR_FAIL(CR_ENOMEM, "condition");
    cr_tri known = cr_sym_truth(env, condition);
    bool backed = known == CR_UNKNOWN && cr_env_hint(env, condition, &hinted);
    if (env->failed) return CR_FAIL(CR_ENOMEM, "condition");
    if (known == CR_YES) return CR_OK;
    cr_status status = CR_EVALUE;
    if (known != CR_NO && (!backed || hinted))
        status = cr_env_add_cond(env, backed ? CR_COND_GUARD : CR_COND_ASSERT, condition, message);
    if (status != CR_EVALUE) return status;
    cr_str text = {0};
    cr_sym_print(condition, &text);
    if (message && *message) cr_str_addf(&text, ": %s", message);
    status = cr_str_status(&text);
    if (!status) status = CR_FAIL(CR_ERUNTIME, "this check fails: %s", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

/* ---- sizes 0 and 1 ---- */

static bool is_traced_above_1(cr_env *env, cr_sym symbol) {
    cr_range r = cr_sym_range(env, symbol);
    for (size_t i = 0; i < env->sizes.n && (r.lo == 1 || r.lo == 2); i++)
        if (env->sizes.at[i].symbol == symbol) return true;
    return false;
}

/* s -> a symbol that may be 0 and 1, for the sizes that were traced as 2 and more; `any` tells whether there was
 * one. */
static cr_sym lower_size(void *user, cr_sym symbol) {
    oblivious *o = user;
    char name[64];
    cr_sym now = cr_sym_simplify(o->env, symbol);
    if (now && now != symbol) return cr_sym_substitute(o->env, now, lower_size, o);
    if (!is_traced_above_1(o->env, symbol)) return symbol;
    if (snprintf(name, sizeof name, "%s_from_0", cr_sym_name(symbol)) >= (int)sizeof name) return symbol;
    o->any = true;
    return cr_sym_symbol(o->env, name, CR_TYPE_INT, 0, cr_sym_range(o->env, symbol).hi);
}

cr_status cr_shape_rely(cr_env *env, cr_sym condition, bool holds) {
    oblivious o = {env, false};
    cr_sym stated = holds ? condition : cr__not(env, condition);
    if (!stated) return CR_FAIL(CR_ENOMEM, "condition");
    if (!env->sizes.n || stated->fact == CR_YES) return CR_OK;
    cr_sym lowered = cr_sym_substitute(env, stated, lower_size, &o);
    if (!lowered || env->failed) return CR_FAIL(CR_ENOMEM, "condition");
    return o.any && cr_sym_truth(env, lowered) != CR_YES ? cr_env_add_cond(env, CR_COND_TRACED, stated, "") : CR_OK;
}

bool cr_shape_is_tracing(const cr_env *env) { return env && env->sizes.n && !env->opened; }

cr_status cr_shape_open_size(cr_env *env, cr_sym symbol) {
    cr_range r = cr_sym_range(env, symbol);
    if (symbol->kind != CR_SYM_SYMBOL || r.lo < 0 || r.lo > 2) return CR_OK;
    bool known = false;
    for (size_t i = 0; i < env->small.n; i++) known |= env->small.at[i] == symbol;
    if (!known) CR_TRY(cr_vec_push(&env->small, symbol));
    cr_env_declare(env, symbol, 0, r.hi);
    return CR_OK;
}

cr_status cr_shape_open(cr_env *env) {
    env->opened = true;
    for (size_t i = 0; i < env->sizes.n; i++) {
        cr_sym symbol = env->sizes.at[i].symbol;
        /* one that can only be 2 is no size that varies, and the program says 2 */
        bool varies = symbol && cr_sym_range(env, symbol).hi > 2;
        if (varies && is_traced_above_1(env, symbol)) CR_TRY(cr_shape_open_size(env, symbol));
    }
    return CR_OK;
}

void cr_shape_set_traced(cr_env *env, bool traced) {
    for (size_t i = 0; i < env->small.n; i++) {
        cr_range r = cr_sym_range(env, env->small.at[i]);
        if (traced ? r.lo < 2 && r.hi >= 2 : r.lo == 2) cr_env_declare(env, env->small.at[i], traced ? 2 : 0, r.hi);
    }
}

/* The variable that a line assigns to: `n = x.item()`. Empty when it is not so simple. */
static size_t assigned(const char *text) {
    size_t n = 0;
    while (text && cr__name_byte(text[n])) n++;
    size_t at = n;
    while (n && text[at] == ' ') at++;
    return n && text[at] == '=' && text[at + 1] != '=' && !(text[0] >= '0' && text[0] <= '9') ? n : 0;
}

/* Does the line end with the call that makes the number, so that the variable is the number? n = x.item() + 1 is
 * another one. */
static bool ends_with(const char *text, const char *call) {
    size_t n = strlen(text), k = strlen(call);
    while (n && (text[n - 1] == ' ' || text[n - 1] == ';')) n--;
    return n > k && !strncmp(text + n - k, call, k);
}

/* What is read stands alone: only names, calls and subscripts before the call, nothing added, compared or put before
 * it. */
static bool stands_alone(const char *text, size_t name) {
    const char *value = strchr(text + name, '=') + 1;
    int depth = 0;
    while (*value == ' ') value++;
    for (; *value; value++) {
        if (*value == '(' || *value == '[') depth++;
        else if (*value == ')' || *value == ']') depth--;
        else if (!depth && !cr__name_byte(*value) && *value != '.') return false;
    }
    return true;
}

/* z = x.nonzero(), z = x[x > 0]: the size is z.shape[0]. */
static bool first_size(const char *text) {
    if (strstr(text, "nonzero(") || strstr(text, "masked_select("))
        return ends_with(text, ")") && !strchr(text, ',') && !strstr(text, ").");
    return ends_with(text, "]") && !strstr(text, "[:") && !strchr(text, ',');
}

enum { MOST_UNNAMED = 4 };
typedef struct renamed { cr_env *env; cr_sym unnamed[MOST_UNNAMED]; size_t n; } renamed;

static const char *const stand_ins[MOST_UNNAMED] = {"n", "m", "k", "j"};

/* What no variable holds gets a name that the message explains. */
static cr_sym stand_in(renamed *r, cr_sym symbol) {
    size_t i = 0;
    while (i < r->n && r->unnamed[i] != symbol) i++;
    if (i == MOST_UNNAMED) return symbol;
    if (i == r->n) r->unnamed[r->n++] = symbol;
    return cr_sym_symbol(r->env, stand_ins[i], (cr_sym_type)symbol->type, symbol->u.symbol->now.lo,
                         symbol->u.symbol->now.hi);
}

/* Unbacked symbols by the names of their variables. */
static cr_sym rename_symbol(void *user, cr_sym symbol) {
    renamed *r = user;
    const char *text = symbol->u.symbol->line.text;
    size_t n = symbol->u.symbol->unbacked ? assigned(text) : 0;
    char name[64];
    bool size = symbol->u.symbol->size_like;
    if (!symbol->u.symbol->unbacked) return symbol;
    if (!n || n >= sizeof name - 16 || !stands_alone(text, n) ||
        (size ? !first_size(text) : !ends_with(text, ".item()")))
        return stand_in(r, symbol);
    snprintf(name, sizeof name, "%.*s%s", (int)n, text, size ? ".shape[0]" : "");
    return cr_sym_symbol(r->env, name, (cr_sym_type)symbol->type, symbol->u.symbol->now.lo, symbol->u.symbol->now.hi);
}

static void add_line(cr_str *out, const char *what, cr_user_line line) {
    if (!line.file) return;
    cr_str_addf(out, "\n  %s %s:%d", what, line.file, line.line);
    if (line.text && *line.text) cr_str_addf(out, ": %s", line.text);
}

static void add_makers(cr_sym e, cr_sym *seen, size_t *n, cr_str *out) {
    if (e->kind != CR_SYM_SYMBOL) {
        for (size_t i = 0; i < e->n; i++) add_makers(e->operand[i], seen, n, out);
        return;
    }
    for (size_t i = 0; i < *n; i++)
        if (seen[i] == e) return;
    if (*n == 4 || !e->u.symbol->unbacked) return;
    seen[(*n)++] = e;
    char what[64];
    snprintf(what, sizeof what, "%.30s%s made at", e->u.symbol->name, e->u.symbol->size_like ? ", a size," : "");
    add_line(out, what, e->u.symbol->line);
}

/* In Python, arguments by their names: L['x'].size()[0] is x.size()[0] where the program runs. */
static void add_text(cr_env *env, cr_sym e, cr_str *out) {
    cr_str text = {0};
    cr_shape_text(env, e, &text);
    for (const char *at = cr_str_get(&text); *at;) {
        size_t n = strncmp(at, "L['", 3) ? 0 : strcspn(at + 3, "'");
        bool named = n && !strncmp(at + 3 + n, "']", 2);
        if (named) cr_str_addn(out, at + 3, n);
        else cr_str_addc(out, *at);
        at += named ? n + 5 : 1;
    }
    out->failed |= text.failed;
    cr_str_dispose(&text);
}

cr_status cr_env_undecided(cr_env *env, cr_sym e) {
    if (!e) return CR_FAIL(CR_ENOMEM, "condition");
    cr_str text = {0};
    cr_sym seen[4], simple = cr_sym_simplify(env, e);
    size_t n = 0;
    renamed r = {.env = env};
    cr_user_line here;
    if (cr__line_find(env, &here)) return CR_FAIL(CR_ENOMEM, "condition");
    cr_sym shown = cr_sym_substitute(env, e, rename_symbol, &r);
    cr_sym other = e->type == CR_TYPE_BOOL && shown ? cr__not(env, shown) : NULL;
    bool failed = env->failed || !simple || !shown;
    if (failed) return CR_FAIL(CR_ENOMEM, "condition");
    if (e->type == CR_TYPE_BOOL) cr_str_add(&text, "cannot decide ");
    else cr_str_add(&text, "there is no fixed value of ");
    add_text(env, e, &text);
    cr_str_add(&text, ": it depends on tensor data, which is not known before the program runs");
    add_line(&text, "asked at", here);
    add_makers(e, seen, &n, &text);
    if (other) {
        cr_str_add(&text, "\n  if one of the two always holds, state it before: _check(");
        add_text(env, shown, &text);
        cr_str_add(&text, ") or _check(");
        add_text(env, other, &text);
        cr_str_add(&text, "); if both occur, use cond() or where()");
    } else {
        cr_str_add(&text, "\n  keep it a symbolic number: compute with it, or state what it is with _check(");
        add_text(env, shown, &text);
        cr_str_add(&text, " == ...)");
    }
    for (size_t i = 0; i < r.n; i++)
        cr_str_addf(&text, "\n  where %s is %s: give that number a name where it is made", stand_ins[i],
                    cr_sym_name(r.unnamed[i]));
    cr_status status = cr_str_status(&text);
    if (!status) status = CR_FAIL(CR_EDATADEP, "%s", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

/* ---- sizes ---- */

static bool copy(cr_env *env, const char **text) { return !*text || (*text = cr_arena_strdup(&env->arena, *text)); }

cr_status cr_shape_add(cr_env *env, const cr_size *size) {
    cr_size own = *size;
    if (!copy(env, &own.source) || !copy(env, &own.name) || !copy(env, &own.root)) return CR_FAIL(CR_ENOMEM, "size");
    if (own.symbol && own.symbol->kind != CR_SYM_SYMBOL) return CR_FAIL(CR_EVALUE, "a size of the inputs is a symbol");
    if (own.promise >= CR_SIZE_NAMED && (!own.name || !own.root || own.scale <= 0))
        return CR_FAIL(CR_EVALUE, "a Dim is a positive multiple of a named root plus a constant");
    return cr_vec_push(&env->sizes, own);
}

size_t cr_shape_count(const cr_env *env) { return env->sizes.n; }

const cr_size *cr_shape_get(const cr_env *env, size_t i) { return &env->sizes.at[i]; }
