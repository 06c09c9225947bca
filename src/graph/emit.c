/* emit.c: the graph as an emitter, and symbolic integers as values.
 *
 * Formulas and decompositions write graphs through the same interface with which they run on tensors. A size that an
 * expression names becomes a value on demand: a placeholder's, a sym_size of a tensor that has it, or arithmetic. */
#include "graph/internal.h"

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = g->values.at[v]->type, .u.i = v };
}

/* Symbolic numbers among the arguments become values. Lists are copied where they hold one. */
static cr_status name_symbols(cr_graph *g, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_alloc(&g->arena, from->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(name_symbols(g, &from->u.list[i], &items[i]));
        to->u.list = items;
        return CR_OK;
    }
    bool symbolic = from->kind == CR_ARG_SYM || (from->kind == CR_ARG_INT && !cr_dim_is_plain(from->u.i));
    if (!symbolic) return CR_OK;
    CR_TRY(cr_graph_value_for(g, from->kind == CR_ARG_SYM ? from->u.sym : cr_dim_sym(g->env, from->u.i), to));
    to->given = from->given;
    return CR_OK;
}

/* The visible values from `first` on that belong to one list result, or to the one list of an op with "-> ...". */
static cr_status list_result(cr_graph *g, const cr_node *node, uint32_t first, bool all, cr_arg *out) {
    uint32_t n = 0, end = node->first + node->nvalues;
    while (first + n < end && !g->values.at[first + n]->hidden &&
           (all || g->values.at[first + n]->ret == g->values.at[first]->ret))
        n++;
    cr_arg *list = cr_arena_alloc(&g->arena, n * sizeof *list);
    if (!list) return CR_ENOMEM;
    for (uint32_t k = 0; k < n; k++) list[k] = value_arg(g, first + k);
    *out = cr_arg_list(list, n);
    return CR_OK;
}

static cr_status emit_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_graph *g = (cr_graph *)((char *)e - offsetof(cr_graph, emitter));
    cr_arg named[CR_MAX_PARAMS];
    uint32_t id;
    for (uint16_t i = 0; i < op->schema.nparams; i++) CR_TRY(name_symbols(g, &args[i], &named[i]));
    CR_TRY(cr_graph_call(g, op, named, &id));
    const cr_node *node = cr_graph_node(g, id);
    uint32_t at = node->first;
    if (op->schema.varargs_returns) return list_result(g, node, at, true, &results[0]);
    for (uint16_t r = 0; r < op->schema.nreturns; r++) {
        if (op->schema.returns[r].list) {
            bool any = at < node->first + node->nvalues && g->values.at[at]->ret == r && !g->values.at[at]->hidden;
            results[r] = cr_arg_list(NULL, 0);
            if (any) CR_TRY(list_result(g, node, at, false, &results[r]));
            at += results[r].n;
        } else {
            const cr_value *v = g->values.at[at];
            results[r] = v->type == CR_T_TENSOR && !v->meta ? cr_arg_none() : value_arg(g, at);
            at++;
        }
    }
    return CR_OK;
}

/* A value that is a number, as the expression it stands for. */
static cr_arg plain_number(const cr_graph *g, const cr_arg *a) {
    if (a->kind != CR_ARG_VALUE) return *a;
    const cr_value *v = g->values.at[a->u.i];
    if (v->type == CR_T_TENSOR || !v->expr) return *a;
    cr_arg number = cr_number_arg(g->env, v->expr);
    number.given = a->given;
    return number;
}

cr_status cr_graph_plain_args(cr_graph *g, const cr_arg *args, size_t n, cr_arg *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = plain_number(g, &args[i]);
        if (args[i].kind != CR_ARG_LIST) continue;
        cr_arg *items = cr_arena_alloc(&g->arena, (args[i].n + 1) * sizeof *items);
        if (!items) return CR_ENOMEM;
        CR_TRY(cr_graph_plain_args(g, args[i].u.list, args[i].n, items));
        out[i].u.list = items;
    }
    return CR_OK;
}

cr_status cr_graph_keep_arg(cr_graph *g, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_arena_alloc(&g->arena, (from->n + 1) * sizeof *items);
    if (!items) return CR_ENOMEM;
    memcpy(items, from->u.list, from->n * sizeof *items);
    to->u.list = items;
    return CR_OK;
}

static cr_status emit_meta(cr_emitter *e, const cr_arg *arg, const cr_meta **out) {
    const cr_graph *g = (cr_graph *)((char *)e - offsetof(cr_graph, emitter));
    *out = arg->kind == CR_ARG_VALUE ? g->values.at[arg->u.i]->meta : cr_arg_meta(arg);
    return CR_OK;
}

static void emit_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e, (void)results, (void)n; /* values belong to the graph */
}

cr_emitter *cr_graph_emitter(cr_graph *g) {
    g->emitter = (cr_emitter){ emit_call, emit_meta, emit_release, g->env };
    return &g->emitter;
}

/* Is the value defined before the insertion point? */
static bool reaches(const cr_graph *g, uint32_t node) {
    if (g->insert == CR_NO_NODE) return true;
    for (uint32_t n = g->insert; n != CR_NO_NODE; n = g->nodes.at[n]->prev)
        if (n == node) return n != g->insert;
    return false;
}

static bool find_value(const cr_graph *g, cr_sym expr, cr_arg *out) {
    for (uint32_t v = 0; v < g->values.n; v++)
        if (g->values.at[v]->node != CR_NO_NODE && g->values.at[v]->expr == expr && reaches(g, g->values.at[v]->node)) {
            *out = value_arg(g, v);
            return true;
        }
    return false;
}

static cr_status find_size(cr_graph *g, cr_sym expr, bool *found, cr_arg *out) {
    *found = false;
    for (uint32_t v = 0; v < g->values.n; v++) {
        const cr_value *value = g->values.at[v];
        if (value->node == CR_NO_NODE || !value->meta || !reaches(g, value->node)) continue;
        for (int d = 0; d < value->meta->rank; d++) {
            if (cr_dim_is_plain(value->meta->size[d]) || cr_dim_sym(g->env, value->meta->size[d]) != expr) continue;
            cr_arg args[] = { value_arg(g, v), cr_arg_int(d) };
            uint32_t id;
            CR_TRY(cr_graph_call(g, cr_op_find("aten::sym_size.int"), args, &id));
            *found = true;
            *out = value_arg(g, g->nodes.at[id]->first);
            return CR_OK;
        }
    }
    return CR_OK;
}

static cr_status call_number(cr_graph *g, const char *op, const cr_arg *args, cr_arg *out) {
    const cr_op *target = cr_op_find(op);
    if (!target) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", op);
    uint32_t id;
    CR_TRY(cr_graph_call(g, target, args, &id));
    *out = value_arg(g, g->nodes.at[id]->first);
    return CR_OK;
}

static cr_status combine(cr_graph *g, const char *op, cr_arg a, cr_arg b, cr_arg *out) {
    cr_arg args[] = { a, b };
    return call_number(g, op, args, out);
}

/* coefficient * term, added to what is there already. */
static cr_status add_term(cr_graph *g, cr_arg term, int64_t coefficient, bool *first, cr_arg *sum) {
    if (coefficient != 1) CR_TRY(combine(g, "_operator::mul", cr_arg_int(coefficient), term, &term));
    if (*first) *sum = term;
    else CR_TRY(combine(g, "_operator::add", *sum, term, sum));
    *first = false;
    return CR_OK;
}

static const char *operator_of(cr_sym_kind kind) {
    switch (kind) {
    case CR_SYM_MUL: return "_operator::mul";
    case CR_SYM_FLOORDIV: return "_operator::floordiv";
    case CR_SYM_MOD: return "_operator::mod";
    case CR_SYM_POW: return "_operator::pow";
    case CR_SYM_MIN: return "torch::sym_min";
    case CR_SYM_MAX: return "torch::sym_max";
    case CR_SYM_EQ: return "_operator::eq";
    case CR_SYM_NE: return "_operator::ne";
    case CR_SYM_LT: return "_operator::lt";
    case CR_SYM_LE: return "_operator::le";
    case CR_SYM_AND:
    case CR_SYM_BITAND: return "_operator::and_";
    case CR_SYM_OR:
    case CR_SYM_BITOR: return "_operator::or_";
    case CR_SYM_NOT: return "torch::sym_not";
    case CR_SYM_TRUEDIV: return "_operator::truediv";
    case CR_SYM_TOFLOAT: return "torch::sym_float";
    case CR_SYM_FLOOR: return "math::floor";
    case CR_SYM_CEIL: return "math::ceil";
    case CR_SYM_TRUNC: return "math::trunc";
    case CR_SYM_SQRT: return "torch::sym_sqrt";
    case CR_SYM_WHERE: return "torch::sym_ite";
    default: return NULL;
    }
}

/* A symbol that is no size itself, of a size scale*symbol + shift: (size - shift) // scale. */
static cr_status solve_size(cr_graph *g, cr_sym symbol, bool *found, cr_arg *out) {
    for (uint32_t v = 0; v < g->values.n; v++) {
        const cr_value *value = g->values.at[v];
        if (value->node == CR_NO_NODE || !value->meta || !reaches(g, value->node)) continue;
        for (int d = 0; d < value->meta->rank; d++) {
            if (cr_dim_is_plain(value->meta->size[d])) continue;
            cr_sym size = cr_dim_sym(g->env, value->meta->size[d]);
            if (cr_sym_kind_of(size) != CR_SYM_ADD || cr_sym_operand_count(size) != 1 ||
                cr_sym_operand(size, 0) != symbol)
                continue;
            int64_t scale = cr_sym_coefficient(size, 0), shift = cr_sym_constant(size);
            CR_TRY(find_size(g, size, found, out));
            if (*found && shift) CR_TRY(combine(g, "_operator::sub", *out, cr_arg_int(shift), out));
            if (*found && scale != 1) CR_TRY(combine(g, "_operator::floordiv", *out, cr_arg_int(scale), out));
            return CR_OK;
        }
    }
    return CR_OK;
}

cr_status cr_graph_value_for(cr_graph *g, cr_sym expr, cr_arg *out) {
    int64_t plain;
    bool truth;
    if (!expr) return CR_FAIL(CR_ENOMEM, "out of memory");
    if (cr_sym_is_int(expr, &plain)) return *out = cr_arg_int(plain), CR_OK;
    if (cr_sym_is_bool(expr, &truth)) return *out = cr_arg_bool(truth), CR_OK;
    if (cr_sym_kind_of(expr) == CR_SYM_REAL) return *out = cr_arg_float(cr_sym_real(expr)), CR_OK;
    if (find_value(g, expr, out)) return CR_OK;
    bool found;
    CR_TRY(find_size(g, expr, &found, out));
    if (found) return CR_OK;
    if (cr_sym_type_of(expr) == CR_TYPE_BOOL) { /* a bool that was read from data has no other form than itself */
        cr_arg opposite;
        cr_sym negated = cr_sym_make(g->env, CR_SYM_NOT, expr, NULL, NULL);
        if (!negated) return CR_FAIL(CR_ENOMEM, "out of memory");
        if (find_value(g, negated, &opposite)) return call_number(g, "torch::sym_not", &opposite, out);
    }
    cr_sym_kind kind = cr_sym_kind_of(expr);
    size_t n = cr_sym_operand_count(expr);
    cr_arg part;
    bool first = true;
    if (kind == CR_SYM_ADD) {
        for (size_t i = 0; i < n; i++) {
            CR_TRY(cr_graph_value_for(g, cr_sym_operand(expr, i), &part));
            CR_TRY(add_term(g, part, cr_sym_coefficient(expr, i), &first, out));
        }
        if (cr_sym_constant(expr)) CR_TRY(combine(g, "_operator::add", *out, cr_arg_int(cr_sym_constant(expr)), out));
        return CR_OK;
    }
    const char *op = operator_of(kind);
    if (!n) {
        CR_TRY(solve_size(g, expr, &found, out));
        if (found) return CR_OK;
    }
    if (!op || !n) {
        cr_str text;
        cr_str_init(&text);
        cr_sym_print(expr, &text);
        cr_status status = CR_FAIL(CR_EVALUE, "no value in the graph gives %s; make it an input or a size of one",
                                   cr_str_get(&text));
        cr_str_dispose(&text);
        return status;
    }
    const cr_op *target = cr_op_find(op);
    if (target && target->schema.nparams == n) {
        cr_arg parts[3] = { { 0 } };
        for (size_t i = 0; i < n; i++) CR_TRY(cr_graph_value_for(g, cr_sym_operand(expr, i), &parts[i]));
        return call_number(g, op, parts, out);
    }
    for (size_t i = 0; i < n; i++) { /* min, max, and, or, *: any number of operands */
        CR_TRY(cr_graph_value_for(g, cr_sym_operand(expr, i), &part));
        if (first) *out = part;
        else CR_TRY(combine(g, op, *out, part, out));
        first = false;
    }
    return CR_OK;
}
