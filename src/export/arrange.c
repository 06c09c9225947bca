/* arrange.c: a recorded graph in the order that exported programs have.
 *
 * While a program is recorded, a size is read where it is first needed, off whatever tensor has it. Here every symbol
 * is read off its input, once, in front of everything; numbers that sizes of intermediate tensors gave are computed
 * from those; equal numbers are one; and numbers nobody needs go. Facts that were found later (this size is 5, these
 * are equal) reach all metas. */
#include "export/internal.h"
#include "passes/passes.h"

typedef struct home { uint32_t value; int dim; cr_sym symbol; } home;
typedef struct arranger {
    cr_graph *g;
    cr_names *names;
    cr_env *env;
    cr_map known; /* cr_sym -> value + 1 */
    CR_VEC(home) homes; /* sizes of inputs that are symbols */
    uint32_t top; /* the first node that is no placeholder */
} arranger;

/* ---- facts ---- */

/* A symbol of an input as it turned out to be; one that depends on data stays, or what is asserted of it would be
 * asserted of nothing. */
static cr_sym settled_symbol(void *user, cr_sym symbol) {
    return cr_sym_is_backed(symbol) ? cr_sym_simplify(((arranger *)user)->env, symbol) : NULL;
}

static bool depends_on_data(cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return !cr_sym_is_backed(e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (depends_on_data(cr_sym_operand(e, i))) return true;
    return false;
}

static cr_sym settled(arranger *a, cr_sym e) {
    return depends_on_data(e) ? cr_sym_substitute(a->env, e, settled_symbol, a) : cr_sym_simplify(a->env, e);
}

static cr_status simplify_meta(arranger *a, uint32_t value) {
    const cr_meta *m = cr_graph_value(a->g, value)->meta;
    cr_meta now;
    bool changed = false;
    if (!m) return CR_OK;
    for (int d = 0; d < m->rank && !changed; d++)
        changed = !cr_dim_is_plain(m->size[d]) || !cr_dim_is_plain(m->stride[d]);
    if (!changed && cr_dim_is_plain(m->offset)) return CR_OK;
    cr_meta_copy(&now, m);
    cr_dim *dims[2 * CR_MAX_RANK + 1] = { &now.offset };
    int n = 1;
    for (int d = 0; d < m->rank; d++) dims[n++] = &now.size[d], dims[n++] = &now.stride[d];
    for (int i = 0; i < n; i++) {
        if (cr_dim_is_plain(*dims[i])) continue;
        cr_sym e = settled(a, cr_dim_sym(a->env, *dims[i]));
        *dims[i] = e ? cr_dim_of(a->env, e) : CR_DIM_OVERFLOW;
        if (*dims[i] == CR_DIM_OVERFLOW) return cr_env_recover(a->env), CR_FAIL(CR_ENOMEM, "out of memory");
    }
    return cr_graph_set_meta(a->g, value, &now);
}

static cr_sym expr_of(arranger *a, uint32_t value) {
    cr_sym e = cr_graph_value(a->g, value)->expr;
    return e ? settled(a, e) : NULL;
}

/* ---- numbers ---- */

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = CR_GIVEN_POSITIONAL, .type = cr_graph_value(g, v)->type, .u.i = v };
}

static cr_status know(arranger *a, cr_sym e, uint32_t value) { return cr_map_put(&a->known, &e, sizeof e, value + 1u); }

static bool find(const arranger *a, cr_sym e, uint32_t *value) {
    uint64_t found;
    if (!cr_map_find(&a->known, &e, sizeof e, &found)) return false;
    *value = (uint32_t)(found - 1);
    return true;
}

static bool is_symbol(cr_sym e) { return cr_sym_kind_of(e) == CR_SYM_SYMBOL; }

static cr_status read_size(arranger *a, uint32_t tensor, int dim) {
    static const char *const trace = "File \"cresset/export/arrange.c\", line 1, in cr_program_arrange";
    static const char *const nowhere = "_empty_nn_module_stack_from_metadata_hook";
    cr_str stack;
    cr_str_init(&stack);
    cr_str_addf(&stack, "%s,%s,%s", nowhere, nowhere, nowhere);
    cr_arg args[] = { value_arg(a->g, tensor), cr_arg_int(dim) };
    uint32_t node = 0;
    cr_graph_insert_before(a->g, a->top);
    cr_status status = cr_str_status(&stack);
    if (!status)
        status = cr_graph_set_origin(a->g, &(cr_origin){ trace, cr_str_get(&stack),
                                                         "sym_size.int_0;OpOverload.sym_size.int", false, false, 0 });
    if (!status) status = cr_graph_call(a->g, cr_op_find("aten::sym_size.int"), args, &node);
    cr_str_dispose(&stack);
    CR_TRY(status);
    CR_TRY(cr__names_add(a->names, a->g, node));
    uint32_t value = cr_graph_node(a->g, node)->first;
    return know(a, expr_of(a, value), value);
}

/* Which input each symbol was made for, before facts made symbols equal. */
static cr_status find_homes(arranger *a) {
    for (uint32_t n = cr_graph_first(a->g); n != CR_NO_NODE && cr_graph_node(a->g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(a->g, n)) {
        uint32_t v = cr_graph_node(a->g, n)->first;
        const cr_meta *m = cr_graph_value(a->g, v)->meta;
        for (int d = 0; m && d < m->rank; d++) {
            cr_sym e = cr_dim_is_plain(m->size[d]) ? NULL : cr_dim_sym(a->env, m->size[d]);
            if (e && is_symbol(e)) CR_TRY(cr_vec_push(&a->homes, ((home){ v, d, e })));
        }
    }
    return CR_OK;
}

/* Every symbol off the input it was made for, else the first one that has it. */
static cr_status read_symbols(arranger *a) {
    uint32_t value;
    /* inputs that are numbers are there already */
    for (uint32_t n = cr_graph_first(a->g); n != a->top; n = cr_graph_next(a->g, n)) {
        uint32_t v = cr_graph_node(a->g, n)->first;
        cr_sym e = expr_of(a, v);
        if (e && is_symbol(e) && !find(a, e, &value)) CR_TRY(know(a, e, v));
    }
    for (size_t i = 0; i < a->homes.n; i++) {
        const home *h = &a->homes.at[i];
        if (cr_sym_simplify(a->env, h->symbol) == h->symbol && !find(a, h->symbol, &value))
            CR_TRY(read_size(a, h->value, h->dim));
    }
    for (uint32_t n = cr_graph_first(a->g), next; n != a->top; n = next) {
        next = cr_graph_next(a->g, n);
        if (cr_graph_node(a->g, n)->kind != CR_NODE_PLACEHOLDER) break;
        uint32_t v = cr_graph_node(a->g, n)->first;
        for (int d = 0; cr_graph_value(a->g, v)->meta && d < cr_graph_value(a->g, v)->meta->rank; d++) {
            cr_dim size = cr_graph_value(a->g, v)->meta->size[d];
            cr_sym e = cr_dim_is_plain(size) ? NULL : cr_dim_sym(a->env, size);
            if (e && is_symbol(e) && !find(a, e, &value)) CR_TRY(read_size(a, v, d));
        }
    }
    return CR_OK;
}

static bool symbols_known(const arranger *a, cr_sym e) {
    uint32_t value;
    if (is_symbol(e)) return find(a, e, &value);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!symbols_known(a, cr_sym_operand(e, i))) return false;
    return true;
}

static const char *operator_of(cr_sym_kind kind) {
    static const struct { cr_sym_kind kind; const char *op; } rows[] = {
        { CR_SYM_MUL, "_operator::mul" }, { CR_SYM_FLOORDIV, "_operator::floordiv" }, { CR_SYM_MOD, "_operator::mod" },
        { CR_SYM_POW, "_operator::pow" }, { CR_SYM_MIN, "torch::sym_min" },           { CR_SYM_MAX, "torch::sym_max" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (rows[i].kind == kind) return rows[i].op;
    return NULL;
}

static bool is_expressible(cr_sym e) {
    int64_t plain;
    if (is_symbol(e) || cr_sym_is_int(e, &plain)) return true;
    if (cr_sym_kind_of(e) != CR_SYM_ADD && !operator_of(cr_sym_kind_of(e))) return false;
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!is_expressible(cr_sym_operand(e, i))) return false;
    return true;
}

static cr_status combine(arranger *a, const char *op, cr_arg x, cr_arg y, cr_arg *out) {
    cr_arg args[] = { x, y };
    uint32_t node;
    CR_TRY(cr_graph_call(a->g, cr_op_find(op), args, &node));
    CR_TRY(cr__names_add(a->names, a->g, node));
    uint32_t value = cr_graph_node(a->g, node)->first;
    CR_TRY(know(a, expr_of(a, value), value));
    *out = value_arg(a->g, value);
    return CR_OK;
}

/* The expression from what is known, at the insertion point. */
static cr_status express(arranger *a, cr_sym e, cr_arg *out) {
    int64_t plain;
    uint32_t value;
    cr_arg part;
    if (cr_sym_is_int(e, &plain)) return *out = cr_arg_int(plain), CR_OK;
    if (find(a, e, &value)) return *out = value_arg(a->g, value), CR_OK;
    cr_sym_kind kind = cr_sym_kind_of(e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) {
        CR_TRY(express(a, cr_sym_operand(e, i), &part));
        int64_t coefficient = kind == CR_SYM_ADD ? cr_sym_coefficient(e, i) : 1;
        if (coefficient != 1) CR_TRY(combine(a, "_operator::mul", cr_arg_int(coefficient), part, &part));
        if (i) CR_TRY(combine(a, kind == CR_SYM_ADD ? "_operator::add" : operator_of(kind), *out, part, out));
        else *out = part;
    }
    if (kind == CR_SYM_ADD && cr_sym_constant(e))
        CR_TRY(combine(a, "_operator::add", *out, cr_arg_int(cr_sym_constant(e)), out));
    return CR_OK;
}

static bool reads_size(const cr_op *op) {
    return !strncmp(op->name, "aten::sym_", 10) && strncmp(op->name, "aten::sym_constrain", 19);
}

static bool is_arithmetic(const cr_op *op) {
    return !strcmp(op->schema.ns, "_operator") || !strcmp(op->schema.ns, "math") || !strcmp(op->schema.ns, "torch");
}

/* A node that gives one number: replaced where the number is known, else known from here on. */
static cr_status settle_number(arranger *a, uint32_t n) {
    const cr_node *node = cr_graph_node(a->g, n);
    uint32_t v = node->first, value;
    cr_sym e = expr_of(a, v);
    int64_t plain;
    cr_arg to;
    /* truths are there because somebody asks for them */
    if (!e || cr_graph_value(a->g, v)->type == CR_T_BOOL) return CR_OK;
    if (cr_sym_is_int(e, &plain)) {
        to = cr_arg_int(plain);
    } else if (find(a, e, &value)) {
        to = value_arg(a->g, value);
    } else if (reads_size(node->op) && is_expressible(e) && symbols_known(a, e)) {
        CR_TRY(cr_graph_set_origin(a->g, &node->origin));
        cr_graph_insert_before(a->g, n);
        CR_TRY(express(a, e, &to));
    } else {
        cr_graph_set_expr(a->g, v, e); /* a symbol that became a number is none of the program's */
        return know(a, e, v);
    }
    CR_TRY(cr_graph_replace(a->g, v, to, CR_NO_NODE));
    return cr_graph_erase(a->g, n);
}

/* Bodies speak of the same symbols: what became a number is one there, too. */
static cr_status settle_bodies(arranger *a) {
    for (size_t i = 0; i < cr_graph_subgraph_count(a->g); i++) {
        arranger body = { .g = cr_graph_subgraph(a->g, i), .env = a->env };
        for (uint32_t v = 0; v < cr_graph_value_count(body.g); v++) {
            if (cr_graph_value(body.g, v)->node == CR_NO_NODE) continue;
            CR_TRY(simplify_meta(&body, v));
            if (cr_graph_value(body.g, v)->expr) cr_graph_set_expr(body.g, v, expr_of(&body, v));
        }
        CR_TRY(settle_bodies(&body));
    }
    return CR_OK;
}

/* ---- what nobody uses ---- */

static bool may_go(const cr_node *node) {
    if (node->kind != CR_NODE_CALL) return false;
    const char *name = node->op->name;
    return is_arithmetic(node->op) || reads_size(node->op) || !strcmp(name, "aten::lift_fresh_copy") ||
           !strcmp(name, "aten::detach_");
}

/* A literal's copy goes with its detach_, not a tensor of the program. */
static bool is_literal(const cr_graph *g, const cr_node *node) {
    if (strcmp(node->op->name, "aten::detach_")) return true;
    const cr_arg *from = &node->args[0];
    const cr_node *before = from->kind == CR_ARG_VALUE ? cr_graph_node(g, cr_graph_value(g, (uint32_t)from->u.i)->node)
                                                       : NULL;
    return before && before->kind == CR_NODE_CALL && !strcmp(before->op->name, "aten::lift_fresh_copy");
}

static cr_status drop_unused(arranger *a) {
    uint32_t *uses = cr_calloc(cr_graph_value_count(a->g) + 1u, sizeof *uses), last = CR_NO_NODE;
    if (!uses) return CR_ENOMEM;
    for (uint32_t n = cr_graph_first(a->g); n != CR_NO_NODE; n = cr_graph_next(a->g, n)) last = n;
    cr_status status = CR_OK;
    cr_graph_count_uses(a->g, uses);
    for (uint32_t n = last, before; n != CR_NO_NODE && !status; n = before) {
        const cr_node *node = cr_graph_node(a->g, n);
        before = node->prev;
        if (node->dead || !may_go(node) || !is_literal(a->g, node)) continue;
        bool used = false;
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) used |= uses[v] > 0;
        if (used) continue;
        status = cr_graph_erase(a->g, n);
        if (!status) cr_graph_count_uses(a->g, uses);
    }
    cr_free(uses);
    return status;
}

static cr_status arrange(arranger *a) {
    CR_TRY(find_homes(a));
    for (uint32_t v = 0; v < cr_graph_value_count(a->g); v++)
        if (cr_graph_value(a->g, v)->node != CR_NO_NODE) CR_TRY(simplify_meta(a, v));
    for (a->top = cr_graph_first(a->g);
         a->top != CR_NO_NODE && cr_graph_node(a->g, a->top)->kind == CR_NODE_PLACEHOLDER;)
        a->top = cr_graph_next(a->g, a->top);
    uint32_t first = a->top;
    CR_TRY(read_symbols(a));
    for (uint32_t n = first, next; n != CR_NO_NODE; n = next) {
        const cr_node *node = cr_graph_node(a->g, n);
        next = cr_graph_next(a->g, n);
        if (node->kind == CR_NODE_CALL && node->nvalues == 1 && !cr_graph_value(a->g, node->first)->hidden &&
            cr_graph_value(a->g, node->first)->expr)
            CR_TRY(settle_number(a, n));
    }
    CR_TRY(settle_bodies(a));
    return drop_unused(a);
}

static cr_status name_assert(void *user, cr_graph *g, uint32_t node) {
    const arranger *a = user;
    return g == a->g ? cr__names_add(a->names, g, node) : CR_OK;
}

cr_status cr_program_arrange(cr_graph *g, cr_names *names, const char *root, bool asserts, bool guards) {
    arranger a = { .g = g, .names = names, .env = cr_graph_env(g) };
    CR_TRY(cr_region_ops_init());
    cr_map_init(&a.known);
    cr_status status = arrange(&a);
    cr_graph_insert_before(g, CR_NO_NODE);
    if (!status) status = cr_graph_set_origin(g, &(cr_origin){ .module_stack = root });
    if (!status && asserts)
        status = cr_pass_asserts(g, &(cr_asserts){ .guards = guards, .made = name_assert, .user = &a });
    cr_graph_insert_before(g, CR_NO_NODE);
    if (!status) status = cr_graph_set_origin(g, NULL);
    cr_vec_dispose(&a.homes);
    cr_map_dispose(&a.known);
    if (status == CR_ENOMEM) cr_env_recover(a.env);
    return status;
}
