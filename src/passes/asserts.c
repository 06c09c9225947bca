/* asserts.c: what must hold of numbers that depend on data becomes part of the graph.
 *
 * While a program is recorded, the environment collects what could not be decided: sizes that must be equal, checks of
 * the user's. Here each becomes a comparison and an _assert_scalar right behind the node after which all of its symbols
 * are known; a symbol that depends on data brings the bounds of its range along. Conditions on symbols that only a body
 * knows go into the body; each is in one graph only, the outermost that can check it.
 *
 * The graph is changed in place, and nothing but these nodes (and the sizes and sums they need) is added. */
#include "passes/passes.h"
#include "sym/shape.h"

typedef CR_VEC(cr_sym) symbols;
typedef struct asserts {
    const cr_asserts *how;
    cr_env *env;
    size_t nconds;   /* those of the recording: asserting adds more */
    bool *placed;    /* one per condition */
} asserts;
typedef struct place { asserts *a; cr_graph *g; symbols known; } place;

static bool knows(const symbols *all, cr_sym s) {
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i] == s) return true;
    return false;
}

static bool knows_all(const symbols *all, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return knows(all, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!knows_all(all, cr_sym_operand(e, i))) return false;
    return true;
}

/* ---- making nodes ---- */

static cr_status made(const place *p, uint32_t node) {
    return p->a->how->made ? p->a->how->made(p->a->how->user, p->g, node) : CR_OK;
}

static cr_status call(const place *p, const char *name, const cr_arg *args, size_t n, cr_arg *out) {
    const cr_op *op = cr_op_find(name);
    cr_arg all[CR_MAX_PARAMS];
    uint32_t id;
    if (!op) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
    for (uint16_t i = 0; i < op->schema.nparams; i++) all[i] = i < n ? args[i] : op->schema.params[i].fallback;
    CR_TRY(cr_graph_call(p->g, op, all, &id));
    CR_TRY(made(p, id));
    if (out)
        *out = (cr_arg){ .kind = CR_ARG_VALUE,
                         .given = CR_GIVEN_POSITIONAL,
                         .type = cr_graph_value(p->g, cr_graph_node(p->g, id)->first)->type,
                         .u.i = cr_graph_node(p->g, id)->first };
    return CR_OK;
}

static cr_status value_of(const place *p, cr_sym e, cr_arg *out) {
    uint32_t next = cr_graph_node_limit(p->g);
    CR_TRY(cr_graph_value_for(p->g, e, out));
    for (; next < cr_graph_node_limit(p->g); next++) CR_TRY(made(p, next));
    return CR_OK;
}

/* A comparison as PyTorch writes it: what varies on the left. */
static cr_status compare(const place *p, cr_sym condition, cr_arg *out) {
    static const struct { uint8_t kind; const char *plain, *swapped; } ops[] = {
        { CR_SYM_LE, "_operator::le", "_operator::ge" },
        { CR_SYM_LT, "_operator::lt", "_operator::gt" },
        { CR_SYM_EQ, "_operator::eq", "_operator::eq" },
        { CR_SYM_NE, "_operator::eq", "_operator::eq" },
    };
    size_t i = 0;
    while (i < CR_COUNT(ops) && ops[i].kind != cr_sym_kind_of(condition)) i++;
    if (i == CR_COUNT(ops)) return value_of(p, condition, out);
    cr_sym left = cr_sym_operand(condition, 0), right = cr_sym_operand(condition, 1);
    bool swap = cr_sym_is_int(left, NULL);
    cr_arg sides[2];
    CR_TRY(value_of(p, left, &sides[swap]));
    CR_TRY(value_of(p, right, &sides[!swap]));
    CR_TRY(call(p, swap ? ops[i].swapped : ops[i].plain, sides, 2, out));
    return ops[i].kind == CR_SYM_NE ? call(p, "torch::sym_not", out, 1, out) : CR_OK;
}

/* Does the graph assert it already? */
static bool asserted(const cr_graph *g, cr_sym condition) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL || cr_op_facts(node->op)->check != CR_CHECK_TRUTH ||
            node->args[0].kind != CR_ARG_VALUE)
            continue;
        if (cr_graph_value(g, (uint32_t)node->args[0].u.i)->expr == condition) return true;
    }
    return false;
}

/* "s0 = x.size(0)": the symbols that inputs give, in the user's words. */
static void print_sources(const cr_graph *g, cr_sym e, bool *any, cr_str *out) {
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) print_sources(g, cr_sym_operand(e, i), any, out);
    if (cr_sym_kind_of(e) != CR_SYM_SYMBOL) return;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && cr_graph_node(g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(g, n)) {
        const cr_value *v = cr_graph_value(g, cr_graph_node(g, n)->first);
        int d = 0, rank = v->meta ? v->meta->rank : 0;
        while (d < rank && (cr_dim_is_plain(v->meta->size[d]) || cr_dim_sym(cr_graph_env(g), v->meta->size[d]) != e))
            d++;
        if (d == rank && v->expr != e) continue;
        cr_str_addf(out, "%s%s = %s", *any ? ", " : ", where ", cr_sym_name(e), v->name);
        if (d < rank) cr_str_addf(out, ".size(%d)", d);
        *any = true;
        return;
    }
}

static void print_message(const place *p, cr_sym condition, const char *message, cr_str *out) {
    bool any = false;
    if (message && *message) cr_str_addf(out, "%s: ", message);
    cr_str_add(out, "expected ");
    cr_sym_print(condition, out);
    print_sources(p->g, condition, &any, out);
}

static cr_status add_assert(const place *p, cr_sym condition, const char *message) {
    cr_arg truth;
    cr_str text;
    if (!condition) return CR_FAIL(CR_ENOMEM, "out of memory");
    if (asserted(p->g, condition)) return CR_OK;
    CR_TRY(compare(p, condition, &truth));
    if (truth.kind != CR_ARG_VALUE) return CR_OK; /* holds whatever comes */
    cr_str_init(&text);
    print_message(p, condition, message, &text);
    cr_status status = cr_str_status(&text);
    cr_arg args[2] = { truth, cr_arg_str(cr_str_get(&text)) };
    if (!status) status = call(p, "aten::_assert_scalar", args, 2, NULL);
    cr_str_dispose(&text);
    return status;
}

/* ---- what to assert, where ---- */

/* lo <= s and s <= hi, where they say something. The user's words for a bound come from the condition that gave it. */
static const char *bound_message(const asserts *a, cr_sym symbol, bool low) {
    for (size_t i = a->nconds; i--;) {
        cr_cond c = cr_env_cond(a->env, i);
        if (c.kind != CR_COND_ASSERT || cr_sym_kind_of(c.condition) != CR_SYM_LE) continue;
        if (cr_sym_operand(c.condition, low ? 1 : 0) == symbol &&
            cr_sym_is_int(cr_sym_operand(c.condition, low ? 0 : 1), NULL))
            return c.message;
    }
    return NULL;
}

static cr_status assert_range(const place *p, cr_sym symbol) {
    cr_env *env = p->a->env;
    cr_range r = cr_sym_range(env, symbol);
    if (cr_sym_type_of(symbol) != CR_TYPE_INT) return CR_OK;
    if (p->a->how->data && cr_env_is_counted(symbol)) { /* the op that counts keeps to its own range */
        cr_range own = cr_sym_declared(symbol);
        if (r.lo == own.lo) r.lo = INT64_MIN;
        if (r.hi == own.hi) r.hi = INT64_MAX;
    }
    if (r.lo != INT64_MIN)
        CR_TRY(add_assert(p, cr_sym_compare(env, symbol, CR_GE, cr_sym_int(env, r.lo)),
                          bound_message(p->a, symbol, true)));
    if (r.hi != INT64_MAX)
        CR_TRY(add_assert(p, cr_sym_compare(env, symbol, CR_LE, cr_sym_int(env, r.hi)),
                          bound_message(p->a, symbol, false)));
    return CR_OK;
}

/* A bound of one symbol that depends on data: its range says it. */
static bool is_bound(cr_sym condition) {
    if (cr_sym_kind_of(condition) != CR_SYM_LE) return false;
    cr_sym left = cr_sym_operand(condition, 0), right = cr_sym_operand(condition, 1);
    cr_sym symbol = cr_sym_is_int(left, NULL) ? right : cr_sym_is_int(right, NULL) ? left : NULL;
    return symbol && cr_sym_kind_of(symbol) == CR_SYM_SYMBOL && !cr_sym_is_backed(symbol);
}

static bool depends_on_data(cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return !cr_sym_is_backed(e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (depends_on_data(cr_sym_operand(e, i))) return true;
    return false;
}

static cr_status place_conditions(const place *p) {
    asserts *a = p->a;
    for (size_t i = 0; i < a->nconds; i++) {
        cr_cond c = cr_env_cond(a->env, i);
        bool wanted = c.kind == CR_COND_ASSERT || (c.kind == CR_COND_GUARD && a->how->guards) ||
                      (a->how->data && depends_on_data(c.condition));
        if (!wanted || a->placed[i] || !knows_all(&p->known, c.condition)) continue;
        a->placed[i] = true;
        if (!is_bound(c.condition)) CR_TRY(add_assert(p, c.condition, c.message));
    }
    return CR_OK;
}

static cr_status learn(place *p, cr_sym s, symbols *fresh) {
    if (!s || cr_sym_kind_of(s) != CR_SYM_SYMBOL || knows(&p->known, s)) return CR_OK;
    CR_TRY(cr_vec_push(&p->known, s));
    return cr_vec_push(fresh, s);
}

/* The symbols that a node's values are, or have as a size. A truth that depends on data is Eq(u0, 1). */
static cr_status find_symbols(place *p, const cr_node *node, symbols *fresh) {
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
        const cr_value *value = cr_graph_value(p->g, v);
        CR_TRY(learn(p, value->expr, fresh));
        for (int d = 0; value->meta && d < value->meta->rank; d++)
            if (!cr_dim_is_plain(value->meta->size[d]))
                CR_TRY(learn(p, cr_dim_sym(p->a->env, value->meta->size[d]), fresh));
    }
    return CR_OK;
}

/* Behind the node `n`: the bounds of its symbols, and every condition that they complete. */
static cr_status assert_behind(place *p, uint32_t n, const symbols *fresh, bool bounds) {
    cr_graph_insert_before(p->g, cr_graph_next(p->g, n));
    for (size_t i = 0; bounds && i < fresh->n; i++)
        if (!cr_sym_is_backed(fresh->at[i])) CR_TRY(assert_range(p, fresh->at[i]));
    return place_conditions(p);
}

static cr_status walk(place *p, symbols *fresh) {
    for (uint32_t n = cr_graph_first(p->g), next; n != CR_NO_NODE; n = next) {
        const cr_node *node = cr_graph_node(p->g, n);
        next = cr_graph_next(p->g, n);
        if (node->kind == CR_NODE_OUTPUT) break;
        CR_TRY(find_symbols(p, node, fresh));
        /* behind the last */
        if (node->kind == CR_NODE_PLACEHOLDER && next != CR_NO_NODE &&
            cr_graph_node(p->g, next)->kind == CR_NODE_PLACEHOLDER)
            continue;
        if (fresh->n) CR_TRY(assert_behind(p, n, fresh, node->kind == CR_NODE_CALL));
        fresh->n = 0;
    }
    return CR_OK;
}

static cr_status insert(asserts *a, cr_graph *g) {
    place p = { .a = a, .g = g };
    symbols fresh = { 0 };
    cr_status status = walk(&p, &fresh);
    cr_graph_insert_before(g, CR_NO_NODE);
    cr_vec_dispose(&p.known);
    cr_vec_dispose(&fresh);
    for (size_t i = 0; i < cr_graph_subgraph_count(g) && !status; i++) status = insert(a, cr_graph_subgraph(g, i));
    return status;
}

cr_status cr_pass_asserts(cr_graph *g, const cr_asserts *how) {
    asserts a = { .how = how, .env = cr_graph_env(g), .nconds = cr_env_cond_count(cr_graph_env(g)) };
    CR_TRY(cr_region_ops_init());
    a.placed = cr_calloc(a.nconds + 1, sizeof *a.placed);
    if (!a.placed) return CR_ENOMEM;
    cr_status status = insert(&a, g);
    cr_free(a.placed);
    return status;
}
