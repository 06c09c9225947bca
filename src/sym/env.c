/* The environment: interning, symbols, hints, conditions.
 *
 * One table maps structure to node, so equal construction gives the same pointer; nodes live in the environment's arena
 * until it dies and are numbered, which gives cr_dim its tags. Nothing here looks at facts. */
#include "sym/internal.h"

#include <stdio.h>

cr_sym cr__fail(cr_env *env) {
    env->failed = true;
    return NULL;
}

bool cr_env_failed(const cr_env *env) { return env->failed; }

void cr_env_recover(cr_env *env) { env->failed = false; }

static void env_destroy(cr_env *env) {
    cr_map_dispose(&env->symbols);
    cr_vec_dispose(&env->nodes);
    cr_vec_dispose(&env->conds);
    cr_vec_dispose(&env->lines);
    cr_vec_dispose(&env->small);
    cr_vec_dispose(&env->sizes);
    cr_vec_dispose(&env->data);
    cr_vec_dispose(&env->nonnegative);
    cr_vec_dispose(&env->replaced);
    cr_vec_dispose(&env->log);
    cr_free(env->table);
    cr_arena_dispose(&env->arena);
    cr_free(env);
}

cr_status cr_env_create(cr_env **out) {
    cr_env *env = cr_calloc(1, sizeof *env);
    if (!env) return CR_ENOMEM;
    env->references = 1;
    env->epoch = 1;
    cr_arena_init(&env->arena);
    cr_map_init(&env->symbols);
    for (int type = 0; type < 3; type++)
        env->opaque[type] = cr__intern(env, CR_SYM_OPAQUE, (cr_sym_type)type, 0, NULL, NULL, 0);
    env->zero = cr_sym_int(env, 0);
    env->one = cr_sym_int(env, 1);
    env->truth[0] = cr__intern(env, CR_SYM_TRUTH, CR_TYPE_BOOL, 0, NULL, NULL, 0);
    env->truth[1] = cr__intern(env, CR_SYM_TRUTH, CR_TYPE_BOOL, 1, NULL, NULL, 0);
    if (env->failed) {
        env_destroy(env);
        return CR_ENOMEM;
    }
    *out = env;
    return CR_OK;
}

/* Programs, graphs and signatures of several threads share one: counting is all that they may do at the same time. */
void cr_env_retain(cr_env *env) { __atomic_add_fetch(&env->references, 1, __ATOMIC_RELAXED); }

void cr_env_release(cr_env *env) {
    if (env && !__atomic_sub_fetch(&env->references, 1, __ATOMIC_ACQ_REL)) env_destroy(env);
}

/* ---- interning ---- */

static bool same(const struct cr_expr *e, const struct cr_expr *probe, const int64_t *coefficients,
                 const cr_sym *operands) {
    if (e->hash != probe->hash || e->kind != probe->kind || e->type != probe->type || e->n != probe->n ||
        e->constant != probe->constant)
        return false;
    if (e->kind == CR_SYM_REAL) return memcmp(&e->u.real, &probe->u.real, sizeof(double)) == 0;
    if (e->kind == CR_SYM_SYMBOL) return false; /* symbols are found by name */
    if (e->n && memcmp(e->operand, operands, e->n * sizeof *operands)) return false;
    return !coefficients || memcmp(e->u.coefficients, coefficients, e->n * sizeof *coefficients) == 0;
}

static bool table_grow(cr_env *env) {
    size_t cap = env->table_cap ? env->table_cap * 2 : CR_LIMIT(64, 2);
    struct cr_expr **table = cr_calloc(cap, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < env->nodes.n; i++) {
        size_t at = env->nodes.at[i]->hash & (cap - 1);
        while (table[at]) at = (at + 1) & (cap - 1);
        table[at] = env->nodes.at[i];
    }
    cr_free(env->table);
    env->table = table;
    env->table_cap = cap;
    return true;
}

static uint32_t saturating(uint64_t value) { return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value; }

/* Fills what follows from the operands. False: too deep or too large. */
static bool measure(struct cr_expr *probe, const cr_sym *operands) {
    uint64_t size = 1, degree = 0;
    unsigned depth = 0;
    for (size_t i = 0; i < probe->n; i++) {
        size += operands[i]->size;
        degree += operands[i]->degree;
        depth = CR_MAX(depth, operands[i]->depth);
    }
    if (depth + 1 > CR__MAX_DEPTH || size > CR__MAX_TREE) return false;
    probe->depth = (uint16_t)(depth + 1);
    probe->size = (uint32_t)size;
    if (probe->kind == CR_SYM_MUL) {
        probe->degree = saturating(degree);
    } else if (probe->kind == CR_SYM_POW && operands[1]->kind == CR_SYM_INTEGER && operands[1]->constant >= 2) {
        probe->degree = saturating((uint64_t)operands[1]->constant);
    } else {
        probe->degree = probe->kind > CR_SYM_TRUTH;
    }
    return true;
}

static cr_sym intern(cr_env *env, struct cr_expr *probe, const int64_t *coefficients, const cr_sym *operands) {
    if (!measure(probe, operands)) return cr__opaque(env, (cr_sym_type)probe->type);
    uint64_t hash = cr_hash(&probe->constant, sizeof probe->constant, (uint64_t)(probe->kind * 4 + probe->type));
    if (probe->kind == CR_SYM_REAL || probe->kind == CR_SYM_SYMBOL) hash = cr_hash(&probe->u, sizeof probe->u, hash);
    for (size_t i = 0; i < probe->n; i++) {
        uint64_t part[2] = {operands[i]->id, coefficients ? (uint64_t)coefficients[i] : 0};
        hash = cr_hash(part, sizeof part, hash);
    }
    probe->hash = (uint32_t)(hash ^ hash >> 32);
    if ((env->nodes.n + 1) * 2 > env->table_cap && !table_grow(env)) return cr__fail(env);
    size_t at = probe->hash & (env->table_cap - 1);
    for (; env->table[at]; at = (at + 1) & (env->table_cap - 1))
        if (same(env->table[at], probe, coefficients, operands)) return env->table[at];

    if (cr_vec_reserve(&env->nodes, env->nodes.n + 1)) return cr__fail(env);
    struct cr_expr *e = cr_arena_alloc(&env->arena, sizeof *e + probe->n * sizeof *operands);
    if (!e) return cr__fail(env);
    *e = *probe;
    if (probe->n) memcpy(e->operand, operands, probe->n * sizeof *operands);
    if (coefficients) {
        e->u.coefficients = cr_arena_copy(&env->arena, coefficients, probe->n * sizeof *coefficients);
        if (!e->u.coefficients) return cr__fail(env);
    }
    e->id = (uint32_t)env->nodes.n;
    e->fact = CR_UNKNOWN;
    env->nodes.at[env->nodes.n++] = e;
    env->table[at] = e;
    return e;
}

cr_sym cr__intern(cr_env *env, cr_sym_kind kind, cr_sym_type type, int64_t constant, const int64_t *coefficients,
                  const cr_sym *operands, size_t n) {
    if (n > CR__MAX_TREE) return cr__opaque(env, type);
    struct cr_expr probe = {.kind = (uint8_t)kind, .type = (uint8_t)type, .n = (uint32_t)n, .constant = constant};
    return intern(env, &probe, coefficients, operands);
}

cr_sym cr__opaque(cr_env *env, cr_sym_type type) { return env->opaque[type]; }

cr_sym cr_sym_int(cr_env *env, int64_t value) {
    return cr__intern(env, CR_SYM_INTEGER, CR_TYPE_INT, value, NULL, NULL, 0);
}

cr_sym cr_sym_float(cr_env *env, double value) {
    if (value != value) value = __builtin_nan(""); /* one NaN, whatever its bits were */
    struct cr_expr probe = {.kind = CR_SYM_REAL, .type = CR_TYPE_FLOAT, .u.real = value};
    return intern(env, &probe, NULL, NULL);
}

cr_sym cr_sym_bool(cr_env *env, bool value) { return env->truth[value]; }

/* ---- symbols ---- */

cr_sym cr_sym_find_symbol(cr_env *env, const char *name) {
    uint64_t id;
    return cr_map_find_str(&env->symbols, name, &id) ? env->nodes.at[id] : NULL;
}

static cr_sym symbol_new(cr_env *env, const char *name, cr_sym_type type, int64_t lo, int64_t hi, bool unbacked) {
    cr__symbol *symbol = cr_arena_calloc(&env->arena, 1, sizeof *symbol);
    if (!symbol) return cr__fail(env);
    symbol->name = cr_arena_strdup(&env->arena, name);
    if (!symbol->name) return cr__fail(env);
    if (type != CR_TYPE_INT || lo > hi) lo = CR__MINF, hi = CR__PINF; /* an empty range states nothing */
    symbol->env = env;
    symbol->declared_lo = lo;
    symbol->declared_hi = hi;
    symbol->now = (cr_range){lo, hi};
    symbol->unbacked = unbacked;
    struct cr_expr probe = {.kind = CR_SYM_SYMBOL, .type = (uint8_t)type, .u.symbol = symbol};
    cr_sym e = intern(env, &probe, NULL, NULL);
    if (!e) return NULL;
    /* A node whose name could not be entered is unreachable: nothing refers to it. */
    return cr_map_put_str(&env->symbols, name, e->id) ? cr__fail(env) : e;
}

cr_sym cr_sym_symbol(cr_env *env, const char *name, cr_sym_type type, int64_t lo, int64_t hi) {
    cr_sym found = cr_sym_find_symbol(env, name);
    return found ? found : symbol_new(env, name, type, lo, hi, false);
}

cr_sym cr_sym_unbacked(cr_env *env, int64_t lo, int64_t hi) {
    char name[24];
    do snprintf(name, sizeof name, "u%d", env->unbacked++);
    while (cr_sym_find_symbol(env, name));
    cr_user_line line;
    if (cr__line_find(env, &line) || cr_vec_reserve(&env->data, env->data.n + 1)) return cr__fail(env);
    cr_sym e = symbol_new(env, name, CR_TYPE_INT, lo, hi, true);
    if (!e) return NULL;
    e->u.symbol->line = line;
    env->data.at[env->data.n++] = e;
    return e;
}

cr_status cr_env_set_hint(cr_env *env, cr_sym symbol, int64_t value) {
    if (!symbol) return CR_FAIL(CR_ENOMEM, "hint");
    if (symbol->kind != CR_SYM_SYMBOL || symbol->type == CR_TYPE_FLOAT)
        return CR_FAIL(CR_EVALUE, "only integer and boolean symbols take a hint");
    (void)env;
    symbol->u.symbol->hint = value;
    symbol->u.symbol->has_hint = true;
    return CR_OK;
}

cr_status cr_env_set_hint_float(cr_env *env, cr_sym symbol, double value) {
    if (!symbol) return CR_FAIL(CR_ENOMEM, "hint");
    if (symbol->kind != CR_SYM_SYMBOL || symbol->type != CR_TYPE_FLOAT)
        return CR_FAIL(CR_EVALUE, "only float symbols take such a hint");
    (void)env;
    symbol->u.symbol->real_hint = value;
    symbol->u.symbol->has_hint = true;
    return CR_OK;
}

bool cr_sym_is_backed(cr_sym symbol) { return symbol->kind == CR_SYM_SYMBOL && symbol->u.symbol->has_hint; }

static bool hint_lookup(void *user, cr_sym symbol, cr_sym_value *out) {
    (void)user;
    if (!symbol->u.symbol->has_hint) return false;
    *out = (cr_sym_value){.type = (cr_sym_type)symbol->type, .i = symbol->u.symbol->hint,
                          .f = symbol->u.symbol->real_hint};
    return true;
}

static bool eval_at_hints(cr_env *env, cr_sym e, cr_sym_value *out) {
    if (!e) return false;
    if (cr__eval(e, hint_lookup, NULL, out, NULL, NULL)) return true;
    e = cr_sym_simplify(env, e); /* an unbacked symbol may equal something that has a hint */
    return e && cr__eval(e, hint_lookup, NULL, out, NULL, NULL);
}

bool cr_env_hint(cr_env *env, cr_sym e, int64_t *value) {
    cr_sym_value result;
    if (!eval_at_hints(env, e, &result) || result.type == CR_TYPE_FLOAT) return false;
    *value = result.i;
    return true;
}

bool cr_env_hint_float(cr_env *env, cr_sym e, double *value) {
    cr_sym_value result;
    if (!eval_at_hints(env, e, &result) || result.type != CR_TYPE_FLOAT) return false;
    *value = result.f;
    return true;
}

/* ---- conditions ---- */

bool cr_env_is_general(const cr_env *env) { return env && env->general; }

bool cr_env_set_general(cr_env *env, bool general) {
    bool was = cr_env_is_general(env);
    if (env) env->general = general;
    return was;
}

bool cr_env_serves_all_sizes(const cr_env *env) { return env && env->all_sizes; }

bool cr_env_set_all_sizes(cr_env *env, bool all_sizes) {
    bool was = cr_env_serves_all_sizes(env);
    if (env) env->all_sizes = all_sizes;
    return was;
}

bool cr_env_is_exact(const cr_env *env) { return env && env->exact; }

void cr_env_set_exact(cr_env *env, bool exact) { env->exact = exact; }

size_t cr_env_cond_count(const cr_env *env) { return env->conds.n; }

cr_cond cr_env_cond(const cr_env *env, size_t i) { return env->conds.at[i]; }

cr_status cr_env_add_cond(cr_env *env, cr_cond_kind kind, cr_sym condition, const char *message) {
    if (!condition) return CR_FAIL(CR_ENOMEM, "condition");
    condition = cr__as_bool(env, condition);
    if (!condition) return CR_ENOMEM;
    if (condition == env->truth[1]) return CR_OK;
    for (size_t i = 0; i < env->conds.n; i++)
        if (env->conds.at[i].condition == condition && env->conds.at[i].kind == kind) return CR_OK;
    CR_TRY(cr_vec_reserve(&env->conds, env->conds.n + 1));
    const char *kept = cr_arena_strdup(&env->arena, message ? message : "");
    if (!kept) return CR_ENOMEM;
    env->lines.n = env->conds.n; /* one more belongs to a condition that could not be added */
    CR_TRY(cr__line_note(env));
    CR_TRY(cr__env_learn(env, condition)); /* it is checked before anything relies on it: from here on a fact */
    env->conds.at[env->conds.n++] = (cr_cond){kind, condition, kept};
    return CR_OK;
}

/* ---- reading ---- */

cr_sym_kind cr_sym_kind_of(cr_sym e) { return (cr_sym_kind)e->kind; }

cr_sym_type cr_sym_type_of(cr_sym e) { return (cr_sym_type)e->type; }

bool cr_sym_is_int(cr_sym e, int64_t *value) {
    if (!e || e->kind != CR_SYM_INTEGER) return false;
    if (value) *value = e->constant;
    return true;
}

bool cr_sym_is_bool(cr_sym e, bool *value) {
    if (!e || e->kind != CR_SYM_TRUTH) return false;
    if (value) *value = e->constant != 0;
    return true;
}

double cr_sym_real(cr_sym e) { return e->u.real; }

uint32_t cr_sym_ordinal(cr_sym e) { return e->id; }

const char *cr_sym_name(cr_sym e) { return e->kind == CR_SYM_SYMBOL ? e->u.symbol->name : NULL; }

size_t cr_sym_operand_count(cr_sym e) { return e->n; }

cr_sym cr_sym_operand(cr_sym e, size_t i) { return e->operand[i]; }

int64_t cr_sym_coefficient(cr_sym e, size_t i) {
    return e->kind == CR_SYM_ADD && e->type == CR_TYPE_INT ? e->u.coefficients[i] : 1;
}

int64_t cr_sym_constant(cr_sym e) { return e->kind == CR_SYM_ADD ? e->constant : 0; }
