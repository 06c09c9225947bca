/* body.c: the bodies of regions: their inputs, and what they use from outside.
 *
 * A body is a trace of its own inside another one. A tensor that is neither its input nor a result in it is free: it
 * becomes a placeholder behind the inputs when it is first used, and an operand of the region. The enclosing trace is
 * asked for the same tensor at once, so that what an inner body uses goes through every body around it, in the same
 * order. Symbolic numbers are free where no value and no size in the body gives them. */
#include "trace/body.h"

#include "graph/writes.h"

#include <stdio.h>

void cr__body_dispose(cr__body *b) {
    if (!b) return;
    for (size_t i = 0; i < b->free.n; i++)
        if (b->free.at[i].outer.kind == CR_ARG_TENSOR) cr_tensor_release(b->free.at[i].outer.u.t);
    for (size_t i = 0; i < b->given.n; i++) cr_tensor_release(b->given.at[i]);
    cr_vec_dispose(&b->free);
    cr_vec_dispose(&b->given);
    cr_free(b);
}

cr_status cr_trace_body_may_use(cr_trace *t, cr_tensor *outer) {
    cr__body *b = cr__trace_body(t);
    CR_TRY(cr_vec_push(&b->given, outer));
    cr_tensor_retain(outer);
    return CR_OK;
}

cr_status cr_trace_create_body(cr_env *env, bool numbered, cr_trace **out) {
    cr_trace *outer = cr_trace_current();
    cr__body *b = cr_calloc(1, sizeof *b);
    if (!b) return CR_ENOMEM;
    cr_status status = cr_trace_create(outer ? cr_graph_env(cr_trace_graph(outer)) : env, out);
    if (status) return cr_free(b), status;
    b->outer = outer;
    b->numbered = numbered;
    b->first_cond = cr_env_cond_count(cr_graph_env(cr_trace_graph(*out)));
    cr__trace_set_body(*out, b);
    return CR_OK;
}

/* ---- numbers ---- */

/* Does a value or a size of the graph give the expression, or arithmetic on such? */
static bool gives(const cr_graph *g, cr_sym e) {
    cr_env *env = cr_graph_env(g);
    int64_t plain;
    bool truth;
    if (cr_sym_is_int(e, &plain) || cr_sym_is_bool(e, &truth) || cr_sym_kind_of(e) == CR_SYM_REAL) return true;
    for (uint32_t v = 0; v < cr_graph_value_count(g); v++) {
        const cr_value *value = cr_graph_value(g, v);
        if (value->node == CR_NO_NODE) continue;
        if (value->expr == e) return true;
        for (int d = 0; value->meta && d < value->meta->rank; d++)
            if (!cr_dim_is_plain(value->meta->size[d]) && cr_dim_sym(env, value->meta->size[d]) == e) return true;
    }
    size_t n = cr_sym_operand_count(e);
    for (size_t i = 0; i < n; i++)
        if (!gives(g, cr_sym_operand(e, i))) return false;
    return n > 0;
}

/* Can it be had here or in a trace around? */
static bool reaches(const cr_trace *t, cr_sym e) {
    for (; t; t = cr__trace_body(t) ? cr__trace_body(t)->outer : NULL)
        if (gives(cr_trace_graph(t), e)) return true;
    return false;
}

/* A size of an operand that the body was given: the operand is used for it. */
static cr_status need_given(cr_trace *t, cr_sym expr, bool *found) {
    const cr__body *b = cr__trace_body(t);
    cr_env *env = cr_graph_env(cr_trace_graph(t));
    uint32_t value;
    for (size_t i = 0; i < b->given.n && !*found; i++) {
        const cr_meta *m = &b->given.at[i]->meta;
        for (int d = 0; d < m->rank && !*found; d++)
            *found = !cr_dim_is_plain(m->size[d]) && cr_dim_sym(env, m->size[d]) == expr;
        if (*found)
            CR_TRY(cr_trace_lift(t, &(cr_arg){ .kind = CR_ARG_TENSOR, .given = 1, .u.t = b->given.at[i] }, &value));
    }
    return CR_OK;
}

cr_status cr__body_need(cr_trace *t, cr_sym expr) {
    uint32_t value;
    if (!expr || gives(cr_trace_graph(t), expr)) return CR_OK; /* NULL: whoever uses it says so */
    bool found = false;
    CR_TRY(need_given(t, expr, &found));
    if (found) return CR_OK;
    bool boolean = cr_sym_type_of(expr) == CR_TYPE_BOOL;
    size_t n = cr_sym_operand_count(expr);
    /* a comparison is made here from what it compares */
    for (size_t i = 0; boolean && n && i < n; i++) CR_TRY(cr__body_need(t, cr_sym_operand(expr, i)));
    if (boolean && n) return CR_OK;
    return cr_trace_lift(t, &(cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = expr }, &value);
}

/* ---- free variables ---- */

static bool same(const cr_arg *a, const cr_arg *b) {
    return a->kind == b->kind && (a->kind == CR_ARG_TENSOR ? a->u.t == b->u.t : a->u.sym == b->u.sym);
}

bool cr__body_find(const cr__body *b, const cr_arg *outer, uint32_t *value) {
    for (size_t i = 0; i < b->free.n; i++)
        if (same(&b->free.at[i].outer, outer)) return *value = b->free.at[i].value, true;
    return false;
}

bool cr__body_rebind(cr__body *b, const cr_tensor *outer, uint32_t value) {
    for (size_t i = 0; i < b->free.n; i++)
        if (b->free.at[i].outer.kind == CR_ARG_TENSOR && b->free.at[i].outer.u.t == outer)
            return b->free.at[i].value = value, true;
    return false;
}

/* The name under which the enclosing trace knows it, which makes it known there. */
static cr_status name_outside(const cr__body *b, const cr_arg *outer, char *name, size_t size) {
    cr_arg known = cr_arg_none();
    if (b->outer) CR_TRY(cr_trace_arg(b->outer, outer, &known));
    bool named = known.kind == CR_ARG_VALUE && !b->numbered;
    if (named) snprintf(name, size, "%s", cr_graph_value(cr_trace_graph(b->outer), (uint32_t)known.u.i)->name);
    else snprintf(name, size, "arg%u_1", b->placeholders);
    return CR_OK;
}

static cr_status add_placeholder(cr_graph *g, const cr_arg *outer, const char *name, uint32_t *value) {
    static const cr_type types[] = {
        [CR_TYPE_INT] = CR_T_INT, [CR_TYPE_FLOAT] = CR_T_FLOAT, [CR_TYPE_BOOL] = CR_T_BOOL
    };
    if (outer->kind == CR_ARG_TENSOR) return cr_graph_placeholder(g, name, &outer->u.t->meta, value);
    return cr_graph_placeholder_number(g, name, types[cr_sym_type_of(outer->u.sym)], outer->u.sym, value);
}

cr_status cr_trace_lift(cr_trace *t, const cr_arg *outer, uint32_t *value) {
    cr__body *b = cr__trace_body(t);
    cr_graph *g = cr_trace_graph(t);
    char name[120];
    cr_arg number;
    if (outer->kind == CR_ARG_INT) {
        number = (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = cr_dim_sym(cr_graph_env(g), outer->u.i) };
        outer = &number;
    }
    if (cr__body_find(b, outer, value)) return CR_OK;
    CR_TRY(cr_vec_reserve(&b->free, b->free.n + 1));
    CR_TRY(name_outside(b, outer, name, sizeof name));
    uint32_t first = cr_graph_first(g);
    while (first != CR_NO_NODE && cr_graph_node(g, first)->kind == CR_NODE_PLACEHOLDER) first = cr_graph_next(g, first);
    CR_TRY(cr__trace_origin(t, true));
    cr_graph_insert_before(g, first);
    cr_status status = add_placeholder(g, outer, name, value);
    cr_graph_insert_before(g, CR_NO_NODE);
    CR_TRY(status);
    CR_TRY(cr__trace_origin(t, false));
    if (outer->kind == CR_ARG_TENSOR) cr_tensor_retain(outer->u.t);
    b->free.at[b->free.n++] = (cr__free){ *outer, *value };
    b->placeholders++;
    return CR_OK;
}

size_t cr_trace_lifted_count(const cr_trace *t) { return cr__trace_body(t)->free.n; }

cr_arg cr_trace_lifted(const cr_trace *t, size_t i) { return cr__trace_body(t)->free.at[i].outer; }

cr_status cr_trace_body_input(cr_trace *t, cr_tensor *outer, cr_tensor *tensor) {
    char name[120];
    cr__body *b = cr__trace_body(t);
    CR_TRY(name_outside(b, &(cr_arg){ .kind = CR_ARG_TENSOR, .given = 1, .u.t = outer }, name, sizeof name));
    b->placeholders++;
    return cr_trace_input(t, name, tensor);
}

cr_status cr_trace_body_number(cr_trace *t, cr_type type, cr_sym expr) {
    char name[24];
    snprintf(name, sizeof name, "arg%u_1", cr__trace_body(t)->placeholders++);
    return cr_trace_input_number(t, name, type, expr);
}

/* ---- finishing ---- */

/* Does the body give some symbol of the expression, and can all of them be had? */
static void find_symbols(const cr_trace *t, cr_sym e, bool *some, bool *all) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        *some |= gives(cr_trace_graph(t), e);
        *all &= reaches(t, e);
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) find_symbols(t, cr_sym_operand(e, i), some, all);
}

static cr_status need_symbols(cr_trace *t, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return cr__body_need(t, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) CR_TRY(need_symbols(t, cr_sym_operand(e, i)));
    return CR_OK;
}

/* What was asserted in the body about its own numbers is checked in the body: the numbers of outside in it come
 * along. */
cr_status cr_trace_body_finish(cr_trace *t, const cr_arg *outputs, size_t n, cr_graph **out) {
    cr_env *env = cr_graph_env(cr_trace_graph(t));
    for (size_t i = cr__trace_body(t)->first_cond; i < cr_env_cond_count(env); i++) {
        cr_cond c = cr_env_cond(env, i);
        bool some = false, all = true;
        find_symbols(t, c.condition, &some, &all);
        if (c.kind == CR_COND_ASSERT && some && all) CR_TRY(need_symbols(t, c.condition));
    }
    CR_TRY(cr__trace_origin(t, true));
    return cr_trace_finish(t, outputs, n, out);
}

/* ---- what bodies must not do ---- */

static const char *input_on(const cr_graph *g, uint64_t storage) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        const cr_value *v = node->kind == CR_NODE_PLACEHOLDER ? cr_graph_value(g, node->first) : NULL;
        if (v && v->meta && v->meta->storage == storage) return v->name;
    }
    return NULL;
}

cr_status cr_body_writes(const cr_graph *g, const cr_op **op, const char **input) {
    cr_writes writes;
    CR_TRY(cr_writes_find(g, CR_SHARING_KNOWN, &writes));
    *input = NULL;
    for (size_t i = 0; i < writes.all.n && !*input; i++) {
        const cr_meta *meta = cr_graph_value(g, writes.all.at[i].value)->meta;
        *op = cr_graph_node(g, writes.all.at[i].node)->op;
        *input = meta ? input_on(g, meta->storage) : NULL;
    }
    cr_writes_dispose(&writes);
    return CR_OK;
}

bool cr_body_aliases(const cr_graph *g, uint32_t *result, const char **input, uint32_t *other) {
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    for (uint32_t i = 0; i < output->nargs; i++) {
        const cr_value *v = output->args[i].kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)output->args[i].u.i)
                                                                 : NULL;
        if (!v || !v->meta) continue;
        *result = i;
        if ((*input = input_on(g, v->meta->storage))) return true;
        for (*other = 0; *other < i; ++*other) {
            const cr_value *w = output->args[*other].kind == CR_ARG_VALUE
                                    ? cr_graph_value(g, (uint32_t)output->args[*other].u.i)
                                    : NULL;
            if (w && w->meta && w->meta->storage == v->meta->storage) return true;
        }
    }
    return false;
}
