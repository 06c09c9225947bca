/* print.c: a graph as text that parse.c reads back to the same graph.
 *
 *     graph NAME(%x: f32[2, s0], %n: int{s0}) {
 *       symbol s0 in [2, 64] hint 8
 *       guard s0 <= 32
 *       constant "w": f32[3] = [1.0, 2.0, 3.0]
 *       graph body(%a: f32[2]) { ... }
 *       %w: f32[3] = get_attr "w"
 *       [%a, %b]: [f32[1](2) of %x, f32[1](2)+1 of %x] = aten.split.Tensor(%x, 1, dim=1)
 *       %add_: f32[2] of %x, %x_1!: f32[2] of %x = aten.add_.Tensor(%x, %w)
 *       return %a, [%b, none], 3
 *     }
 *
 * A tensor's type is dtype[sizes], then (strides) unless dense row-major, +offset unless 0, @device unless the CPU,
 * conj and neg where set, and "of %v" when it shares the storage of the earlier value v. Defaults are left out; keyword
 * arguments print their name. A guard (or assert, assume) is a condition on symbols under which the graph was made. */
#include "graph/internal.h"

/* What all parts of one printing share. */
typedef struct printer {
    const cr_graph *g;
    cr_str *out;
    cr_map owners; /* storage -> the first value on it, + 1 */
    int flags;
} printer;

static void find_owners(printer *p) {
    const cr_graph *g = p->g;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = g->nodes.at[n];
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            const cr_meta *m = g->values.at[v]->meta;
            if (m && !cr_map_find(&p->owners, &m->storage, sizeof m->storage, NULL) &&
                cr_map_put(&p->owners, &m->storage, sizeof m->storage, v + 1))
                p->out->failed = true;
        }
    }
}

static void print_dims(cr_env *env, const cr_dim *dims, int n, char open, char close, cr_str *out) {
    cr_str_addc(out, open);
    for (int i = 0; i < n; i++) {
        if (i) cr_str_add(out, ", ");
        cr_dim_print(env, dims[i], out);
    }
    cr_str_addc(out, close);
}

static bool has_dense_strides(cr_env *env, const cr_meta *m) {
    cr_dim dense[CR_MAX_RANK];
    cr_strides_contiguous(env, m->rank, m->size, dense);
    return !memcmp(dense, m->stride, m->rank * sizeof *dense); /* the same terms */
}

static void print_meta(cr_env *env, const cr_meta *m, cr_str *out) {
    cr_str_add(out, cr_dtype_short(m->dtype));
    print_dims(env, m->size, m->rank, '[', ']', out);
    if (!has_dense_strides(env, m)) print_dims(env, m->stride, m->rank, '(', ')', out);
    if (m->offset) {
        bool plain = cr_dim_is_plain(m->offset);
        cr_str_add(out, plain ? "+" : "+(");
        cr_dim_print(env, m->offset, out);
        if (!plain) cr_str_addc(out, ')');
    }
    if (m->device.type != CR_CPU) {
        cr_str_addc(out, '@');
        cr_device_print(m->device, out);
    }
    if (m->flags & CR_META_CONJ) cr_str_add(out, " conj");
    if (m->flags & CR_META_NEG) cr_str_add(out, " neg");
}

static void print_type(const printer *p, uint32_t value) {
    static const char *const names[CR_T_COUNT] = { [CR_T_TENSOR] = "tensor", [CR_T_INT] = "int", [CR_T_FLOAT] = "float",
                                                  [CR_T_BOOL] = "bool", [CR_T_SCALAR] = "number", [CR_T_STR] = "str" };
    const cr_value *v = p->g->values.at[value];
    uint64_t owner = value + 1;
    if (v->type != CR_T_TENSOR || !v->meta) {
        cr_str_add(p->out, v->type < CR_T_COUNT && names[v->type] ? names[v->type] : "any");
        if (v->expr) {
            cr_str_addc(p->out, '{');
            cr_sym_print(v->expr, p->out);
            cr_str_addc(p->out, '}');
        }
        return;
    }
    print_meta(p->g->env, v->meta, p->out);
    cr_map_find(&p->owners, &v->meta->storage, sizeof v->meta->storage, &owner);
    if (owner != value + 1) cr_str_addf(p->out, " of %%%s", p->g->values.at[owner - 1]->name);
}

static void print_arg(const cr_graph *g, const cr_arg *a, cr_str *out) {
    if (a->kind == CR_ARG_VALUE) cr_str_addf(out, "%%%s", g->values.at[a->u.i]->name);
    else if (a->kind == CR_ARG_GRAPH) cr_str_addf(out, "@%s", cr_graph_name(a->u.graph));
    else if (a->kind == CR_ARG_DEVICE) {
        cr_str_add(out, "device(\"");
        cr_device_print(a->u.device, out);
        cr_str_add(out, "\")");
    } else if (a->kind == CR_ARG_LIST) {
        cr_str_addc(out, '[');
        for (uint32_t i = 0; i < a->n; i++) {
            if (i) cr_str_add(out, ", ");
            print_arg(g, &a->u.list[i], out);
        }
        cr_str_addc(out, ']');
    } else cr_arg_print(g->env, a, out);
}

static void print_results(const printer *p, const cr_node *node) {
    const cr_graph *g = p->g;
    const cr_schema *s = node->op ? &node->op->schema : NULL;
    cr_str *out = p->out;
    for (uint32_t v = node->first, end = node->first + node->nvalues; v < end;) {
        const cr_value *value = g->values.at[v];
        if (v > node->first) cr_str_add(out, ", ");
        if (!s || value->hidden || value->ret >= s->nreturns || !s->returns[value->ret].list) {
            cr_str_addf(out, "%%%s%s: ", value->name, value->hidden ? "!" : "");
            print_type(p, v++);
            continue;
        }
        uint32_t n = 0;
        cr_str_addc(out, '[');
        for (; v + n < end && g->values.at[v + n]->ret == value->ret && !g->values.at[v + n]->hidden; n++)
            cr_str_addf(out, "%s%%%s", n ? ", " : "", g->values.at[v + n]->name);
        cr_str_add(out, "]: [");
        for (uint32_t k = 0; k < n; k++) {
            if (k) cr_str_add(out, ", ");
            print_type(p, v + k);
        }
        cr_str_addc(out, ']');
        v += n;
    }
    if (node->nvalues) cr_str_add(out, " = ");
}

static void print_call(const cr_graph *g, const cr_node *node, cr_str *out) {
    const cr_schema *s = &node->op->schema;
    cr_str_addf(out, "%s.%s%s%s(", s->ns, s->name, *s->overload ? "." : "", s->overload);
    bool any = false;
    for (uint16_t i = 0; i < node->nargs; i++) {
        if (node->args[i].given == CR_GIVEN_DEFAULT) continue;
        if (any) cr_str_add(out, ", ");
        any = true;
        if (node->args[i].given == CR_GIVEN_KEYWORD) cr_str_addf(out, "%s=", s->params[i].name);
        print_arg(g, &node->args[i], out);
    }
    cr_str_addc(out, ')');
}

static void print_origin(const cr_origin *origin, cr_str *out) {
    const char *const keys[] = { "stack", "module", "fn" };
    const char *const texts[] = { origin->stack_trace, origin->module_stack, origin->source_fn };
    for (int i = 0; i < 3; i++)
        if (texts[i]) {
            cr_str_addf(out, " %s=", keys[i]);
            cr_str_add_quoted(out, texts[i], strlen(texts[i]));
        }
}

enum { MAX_CONSTANT = 64 }; /* elements whose values are printed; larger constants print their shape only */

static void print_number(const rt_scalar *s, cr_str *out) {
    if (s->kind == RT_ARG_INT) cr_str_addf(out, "%lld", (long long)s->i);
    else if (s->kind == RT_ARG_FLOAT) cr_str_add_double(out, s->f);
    else {
        cr_str_addc(out, '(');
        cr_str_add_double(out, s->f);
        cr_str_add(out, ", ");
        cr_str_add_double(out, s->im);
        cr_str_add(out, "j)");
    }
}

void cr__print_tensor(cr_env *env, const cr_tensor *t, cr_str *out) {
    cr_meta meta;
    cr_meta_copy(&meta, &t->meta);
    meta.flags = 0; /* the elements are printed as they read */
    print_meta(env, &meta, out);
    if (cr_tensor_is_fake(t)) return;
    int64_t numel = cr_meta_numel(NULL, &t->meta);
    if (numel > MAX_CONSTANT) return;
    cr_str_add(out, " = [");
    for (int64_t i = 0; i < numel; i++) {
        int64_t index[CR_MAX_RANK], rest = i;
        for (int d = t->meta.rank - 1; d >= 0; d--) {
            index[d] = rest % t->meta.size[d];
            rest /= t->meta.size[d];
        }
        rt_scalar value = { .kind = RT_ARG_INT };
        if (i) cr_str_add(out, ", ");
        if (!cr_tensor_item(t, index, &value)) print_number(&value, out);
    }
    cr_str_addc(out, ']');
}

static void print_constant(const cr_graph *g, const graph_constant *c, int indent, cr_str *out) {
    cr_str_addf(out, "%*sconstant ", indent, "");
    cr_str_add_quoted(out, c->target, strlen(c->target));
    cr_str_add(out, ": ");
    cr__print_tensor(g->env, c->tensor, out);
    cr_str_addc(out, '\n');
}

typedef struct symbols { CR_VEC(cr_sym) seen; bool failed; } symbols;

static void collect_expr(symbols *s, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        for (size_t i = 0; i < s->seen.n; i++)
            if (s->seen.at[i] == e) return;
        if (cr_vec_push(&s->seen, e)) s->failed = true;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) collect_expr(s, cr_sym_operand(e, i));
}

static void collect_dim(symbols *s, cr_env *env, cr_dim d) {
    if (!cr_dim_is_plain(d) && d != CR_DIM_OVERFLOW) collect_expr(s, cr_dim_sym(env, d));
}

static void collect_symbols(const cr_graph *g, symbols *s) {
    for (uint32_t v = 0; v < g->values.n; v++) {
        const cr_value *value = g->values.at[v];
        if (value->node == CR_NO_NODE) continue;
        if (value->expr) collect_expr(s, value->expr);
        if (!value->meta) continue;
        collect_dim(s, g->env, value->meta->offset);
        for (int d = 0; d < value->meta->rank; d++) {
            collect_dim(s, g->env, value->meta->size[d]);
            collect_dim(s, g->env, value->meta->stride[d]);
        }
    }
    for (size_t i = 0; i < g->subgraphs.n; i++) collect_symbols(g->subgraphs.at[i], s);
}

static void print_symbol(const cr_graph *g, cr_sym symbol, int indent, cr_str *out) {
    cr_range range = cr_sym_range(g->env, symbol);
    int64_t hint;
    cr_str_addf(out, "%*ssymbol %s ", indent, "", cr_sym_name(symbol));
    if (cr_sym_type_of(symbol) != CR_TYPE_INT) {
        cr_str_add(out, cr_sym_type_of(symbol) == CR_TYPE_FLOAT ? "float\n" : "bool\n");
        return;
    }
    if (range.lo == INT64_MIN) cr_str_add(out, "in [-inf");
    else cr_str_addf(out, "in [%lld", (long long)range.lo);
    if (range.hi == INT64_MAX) cr_str_add(out, ", inf]");
    else cr_str_addf(out, ", %lld]", (long long)range.hi);
    if (cr_sym_is_backed(symbol) && cr_env_hint(g->env, symbol, &hint)) cr_str_addf(out, " hint %lld", (long long)hint);
    cr_str_addc(out, '\n');
}

static bool all_seen(const symbols *s, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        for (size_t i = 0; i < s->seen.n; i++)
            if (s->seen.at[i] == e) return true;
        return false;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (!all_seen(s, cr_sym_operand(e, i))) return false;
    return true;
}

/* Conditions of the environment that speak of this graph's symbols alone. */
static void print_conditions(const cr_graph *g, const symbols *s, int indent, cr_str *out) {
    static const char *const kinds[] = {
        [CR_COND_GUARD] = "guard", [CR_COND_ASSERT] = "assert", [CR_COND_ASSUMED] = "assume", [CR_COND_TRACED] = "guard"
    };
    for (size_t i = 0; i < cr_env_cond_count(g->env); i++) {
        cr_cond cond = cr_env_cond(g->env, i);
        if (!all_seen(s, cond.condition)) continue;
        cr_str_addf(out, "%*s%s ", indent, "", kinds[cond.kind]);
        cr_sym_print(cond.condition, out);
        if (cond.message && *cond.message) {
            cr_str_addc(out, ' ');
            cr_str_add_quoted(out, cond.message, strlen(cond.message));
        }
        cr_str_addc(out, '\n');
    }
}

/* The graph's symbols, those of its subgraphs too, and what was found to hold for them. */
static void print_symbols(const cr_graph *g, int indent, cr_str *out) {
    symbols s = { { 0 }, false };
    collect_symbols(g, &s);
    for (size_t i = 0; i < s.seen.n; i++) print_symbol(g, s.seen.at[i], indent, out);
    print_conditions(g, &s, indent, out);
    if (s.failed) out->failed = true;
    cr_vec_dispose(&s.seen);
}

void cr_graph_print_node(const cr_graph *g, const cr_node *node, cr_str *out) {
    if (node->kind == CR_NODE_OUTPUT) {
        cr_str_add(out, "return");
        for (uint16_t i = 0; i < node->nargs; i++) {
            cr_str_add(out, i ? ", " : " ");
            print_arg(g, &node->args[i], out);
        }
    } else if (node->kind == CR_NODE_CALL) print_call(g, node, out);
    else if (node->kind == CR_NODE_GET_ATTR) {
        cr_str_add(out, "get_attr ");
        cr_str_add_quoted(out, node->target, strlen(node->target));
    }
}

static void print_node(const printer *p, const cr_node *node, int indent) {
    cr_str *out = p->out;
    bool returns = node->kind == CR_NODE_OUTPUT;
    cr_str_addf(out, "%*s", indent, "");
    if (!returns) print_results(p, node);
    cr_graph_print_node(p->g, node, out);
    if (!returns && (p->flags & CR_PRINT_ORIGINS)) print_origin(&node->origin, out);
    cr_str_addc(out, '\n');
}

static void print_graph(const cr_graph *g, int flags, bool nested, int indent, cr_str *out) {
    printer p = { .g = g, .out = out, .flags = flags };
    cr_map_init(&p.owners);
    find_owners(&p);
    cr_str_addf(out, "%*sgraph%s%s(", indent, "", *g->name ? " " : "", g->name);
    uint32_t n = cr_graph_first(g);
    for (bool first = true; n != CR_NO_NODE && g->nodes.at[n]->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(g, n), first = false) {
        cr_str_addf(out, "%s%%%s: ", first ? "" : ", ", g->values.at[g->nodes.at[n]->first]->name);
        print_type(&p, g->nodes.at[n]->first);
    }
    cr_str_add(out, ") {\n");
    if (!nested) print_symbols(g, indent + 2, out);
    for (size_t i = 0; i < g->constants.n; i++) print_constant(g, &g->constants.at[i], indent + 2, out);
    for (size_t i = 0; i < g->subgraphs.n; i++) print_graph(g->subgraphs.at[i], flags, true, indent + 2, out);
    for (; n != CR_NO_NODE; n = cr_graph_next(g, n)) print_node(&p, g->nodes.at[n], indent + 2);
    cr_str_addf(out, "%*s}\n", indent, "");
    cr_map_dispose(&p.owners);
}

void cr_graph_print(const cr_graph *g, int flags, cr_str *out) { print_graph(g, flags, false, 0, out); }
