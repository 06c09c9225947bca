/* parse.c: reads the text that print.c writes (its grammar is described there).
 *
 * Result types may be left out: the op's rule then gives them, which keeps hand-written tests short. Where an op has
 * several results, one name may stand for them all and be taken apart with `_operator.getitem`, as FX graphs do. Depth
 * and sizes are bounded by the text; every error is CR_EFORMAT with line and column. */
#include "graph/parse.h"

enum { MAX_NESTING = 16, MAX_CONSTANT_BYTES = 1 << 20 };

static cr_status add_result(graph_parser *p, parser_results *r, const char *name, bool hidden) {
    bool twice = cr_graph_find(p->g, name) != CR_NO_VALUE;
    for (size_t i = 0; i < r->n; i++) twice |= !strcmp(r->at[i].name, name);
    for (size_t i = 0; i < p->tuples.n; i++) twice |= !strcmp(p->tuples.at[i].name, name);
    if (twice) return cr__parse_fail(p, "'%%%s' is defined twice", name);
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 8;
        cr_value *grown = cr_arena_calloc(&p->scratch, cap, sizeof *grown);
        if (!grown) return CR_ENOMEM;
        if (r->n) memcpy(grown, r->at, r->n * sizeof *grown);
        r->at = grown;
        r->cap = cap;
    }
    r->at[r->n++] = (cr_value){ .name = name, .hidden = hidden };
    return CR_OK;
}

static cr_status read_result(graph_parser *p, parser_results *r) {
    char *name;
    CR_TRY(cr__parse_expect(p, "%"));
    CR_TRY(cr__parse_name(p, &name));
    bool hidden = *p->at == '!';
    p->at += hidden;
    return add_result(p, r, name, hidden);
}

static cr_status read_result_list(graph_parser *p, parser_results *r) {
    size_t first = r->n;
    while (!cr__parse_accept(p, "]")) {
        if (r->n > first) CR_TRY(cr__parse_expect(p, ","));
        CR_TRY(read_result(p, r));
    }
    if (!cr__parse_accept(p, ":")) return CR_OK;
    CR_TRY(cr__parse_expect(p, "["));
    for (size_t i = first; i < r->n; i++) {
        if (i > first) CR_TRY(cr__parse_expect(p, ","));
        CR_TRY(cr__parse_type(p, r, &r->at[i]));
    }
    r->typed += r->n - first;
    return cr__parse_expect(p, "]");
}

static cr_status read_results(graph_parser *p, parser_results *r) {
    cr__parse_skip(p);
    if (*p->at != '%' && *p->at != '[') return CR_OK; /* a call for its effect */
    bool list = false;
    do {
        if (cr__parse_accept(p, "[")) {
            list = true;
            CR_TRY(read_result_list(p, r));
            continue;
        }
        CR_TRY(read_result(p, r));
        if (!cr__parse_accept(p, ":")) continue;
        r->typed++;
        CR_TRY(cr__parse_type(p, r, &r->at[r->n - 1]));
    } while (cr__parse_accept(p, ","));
    r->single = r->n == 1 && !list;
    if (r->typed && r->typed != r->n) return cr__parse_fail(p, "give every result a type, or none");
    return cr__parse_expect(p, "=");
}

static cr_status read_op(graph_parser *p, const cr_op **out) {
    cr__parse_skip(p);
    const char *begin = p->at;
    while (cr__parse_name_char(*p->at) || *p->at == '.') p->at++;
    char *name = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
    if (!name) return CR_ENOMEM;
    *out = cr_op_find(name);
    if (*out) return CR_OK;
    p->at = begin;
    return cr__parse_fail(p, *name ? "there is no op '%.80s'" : "expected an op", name);
}

static cr_status read_call_args(graph_parser *p, const cr_op *op, cr_binding *binding) {
    cr_arg args[CR_MAX_PARAMS];
    cr_keyword keywords[CR_MAX_PARAMS];
    size_t nargs = 0, nkeywords = 0;
    CR_TRY(cr__parse_expect(p, "("));
    const char *open = p->at;
    while (!cr__parse_accept(p, ")")) {
        if (nargs + nkeywords) CR_TRY(cr__parse_expect(p, ","));
        if (nargs + nkeywords == CR_MAX_PARAMS) return cr__parse_fail(p, "more than %d arguments", CR_MAX_PARAMS);
        cr__parse_skip(p);
        const char *word = p->at;
        while (cr__parse_name_char(*word)) word++;
        if (word > p->at && *word == '=') {
            char *name;
            CR_TRY(cr__parse_name(p, &name));
            p->at++;
            keywords[nkeywords].name = name;
            CR_TRY(cr__parse_arg(p, &keywords[nkeywords++].value));
        } else {
            if (nkeywords) return cr__parse_fail(p, "a positional argument follows keyword arguments");
            CR_TRY(cr__parse_arg(p, &args[nargs++]));
        }
    }
    return cr__parse_fail_at(p, open, cr_bind(op, true, args, nargs, keywords, nkeywords, &p->scratch, binding));
}

static cr_status read_origin(graph_parser *p, cr_origin *origin) {
    *origin = (cr_origin){ .no_grad = false };
    for (;;) {
        char *text;
        size_t n;
        const char **slot = cr__parse_accept(p, "stack=") ? &origin->stack_trace
                            : cr__parse_accept(p, "module=") ? &origin->module_stack
                            : cr__parse_accept(p, "fn=") ? &origin->source_fn : NULL;
        if (!slot) return CR_OK;
        CR_TRY(cr__parse_string(p, &text, &n));
        *slot = text;
    }
}

/* Which schema return or parameter each typed result belongs to: a list takes what the fixed ones leave. */
static cr_status assign_returns(graph_parser *p, const cr_op *op, const cr_arg *args, parser_results *r) {
    const cr_schema *s = &op->schema;
    size_t visible = 0, at = 0;
    while (visible < r->n && !r->at[visible].hidden) visible++;
    for (size_t i = visible; i < r->n; i++)
        if (!r->at[i].hidden) return cr__parse_fail(p, "hidden results come last");
    size_t lists = 0;
    for (uint16_t k = 0; k < s->nreturns; k++) lists += s->returns[k].list;
    if (!s->varargs_returns && (lists ? visible + lists < s->nreturns : visible != s->nreturns))
        return cr__parse_fail(p, "%s gives %d results, not %zu", op->name, s->nreturns, visible);
    for (; s->varargs_returns && at < visible; at++) r->at[at].ret = (uint16_t)at;
    for (uint16_t k = 0; k < s->nreturns; k++) {
        size_t m = s->returns[k].list ? visible - at - (s->nreturns - 1u - k) : 1;
        for (size_t i = 0; i < m; i++) r->at[at++].ret = k;
    }
    for (uint16_t k = 0; k < s->nparams; k++) {
        if (!s->params[k].writes) continue;
        uint32_t n = args[k].kind == CR_ARG_LIST ? args[k].n : args[k].kind == CR_ARG_VALUE;
        for (uint32_t i = 0; i < n; i++, at++) {
            if (at >= r->n)
                return cr__parse_fail(p, "%s writes '%s': name what it is after, as %%name!", op->name,
                                      s->params[k].name);
            r->at[at].ret = k;
        }
    }
    return at == r->n ? CR_OK : cr__parse_fail(p, "%s writes fewer arguments than there are hidden results", op->name);
}

static cr_status add_typed(graph_parser *p, const cr_op *op, const cr_arg *args, parser_results *r) {
    uint32_t id;
    CR_TRY(assign_returns(p, op, args, r));
    return cr_graph_call_with(p->g, op, args, r->at, r->n, &id);
}

static cr_status add_inferred(graph_parser *p, const cr_op *op, const cr_arg *args, parser_results *r) {
    uint32_t id, visible = 0;
    CR_TRY(cr__parse_fail_at(p, p->at, cr_graph_call(p->g, op, args, &id)));
    const cr_node *node = cr_graph_node(p->g, id);
    uint32_t first = node->first, count = node->nvalues;
    for (uint32_t i = 0; i < count; i++) visible += !p->g->values.at[first + i]->hidden;
    if (r->single && visible > 1) return cr_vec_push(&p->tuples, (parser_tuple){ r->at[0].name, id });
    if (r->n && r->n != count && r->n != visible)
        return cr__parse_fail(p, "%s gives %u results, not %zu", op->name, visible, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->at[i].hidden != p->g->values.at[first + i]->hidden)
            return cr__parse_fail(p, "'%%%s' is %s hidden result", r->at[i].name, r->at[i].hidden ? "no" : "a");
        CR_TRY(cr_graph_rename(p->g, first + i, r->at[i].name));
    }
    return CR_OK;
}

/* %b = _operator.getitem(%a, 1), where %a stands for several results: result 1 is %b. */
static cr_status read_getitem(graph_parser *p, parser_results *r) {
    char *name;
    cr_dim index;
    CR_TRY(cr__parse_expect(p, "("));
    CR_TRY(cr__parse_expect(p, "%"));
    const char *begin = p->at;
    CR_TRY(cr__parse_name(p, &name));
    CR_TRY(cr__parse_expect(p, ","));
    CR_TRY(cr__parse_dim(p, &index));
    CR_TRY(cr__parse_expect(p, ")"));
    for (size_t i = 0; i < p->tuples.n; i++) {
        if (strcmp(p->tuples.at[i].name, name)) continue;
        const cr_node *node = cr_graph_node(p->g, p->tuples.at[i].node);
        if (!cr_dim_is_plain(index) || index < 0 || index >= node->nvalues ||
            p->g->values.at[node->first + index]->hidden)
            return cr__parse_fail(p, "'%%%s' has no result %lld", name, (long long)index);
        if (r->n != 1) return cr__parse_fail(p, "getitem gives one result");
        return cr_graph_rename(p->g, node->first + (uint32_t)index, r->at[0].name);
    }
    p->at = begin;
    return cr__parse_fail(p, "'%%%s' does not stand for several results", name);
}

static cr_status read_get_attr(graph_parser *p, parser_results *r) {
    char *target;
    size_t n;
    uint32_t value;
    cr_origin origin;
    cr__parse_skip(p);
    const char *begin = p->at;
    CR_TRY(cr__parse_string(p, &target, &n));
    CR_TRY(read_origin(p, &origin));
    if (r->n != 1) return cr__parse_fail(p, "get_attr gives one result");
    CR_TRY(cr_graph_set_origin(p->g, &origin));
    CR_TRY(cr__parse_fail_at(p, begin, cr_graph_get_attr(p->g, target, &value)));
    CR_TRY(cr_graph_rename(p->g, value, r->at[0].name));
    return r->at[0].meta ? cr_graph_set_meta(p->g, value, r->at[0].meta) : CR_OK;
}

static cr_status read_statement(graph_parser *p) {
    parser_results r = { 0 };
    CR_TRY(read_results(p, &r));
    if (cr__parse_accept(p, "get_attr")) return read_get_attr(p, &r);
    if (cr__parse_accept(p, "_operator.getitem")) return read_getitem(p, &r);
    const cr_op *op;
    cr_origin origin;
    cr__parse_skip(p);
    const char *begin = p->at;
    CR_TRY(read_op(p, &op));
    cr_binding *binding = cr_arena_alloc(&p->scratch, sizeof *binding);
    if (!binding) return CR_ENOMEM;
    CR_TRY(read_call_args(p, op, binding));
    CR_TRY(read_origin(p, &origin));
    CR_TRY(cr_graph_set_origin(p->g, &origin));
    const char *end = p->at;
    p->at = begin; /* where complaints about the call point */
    CR_TRY(r.typed ? add_typed(p, op, binding->args, &r) : add_inferred(p, op, binding->args, &r));
    p->at = end;
    return CR_OK;
}

static cr_status read_bound(graph_parser *p, int64_t *out) {
    if (cr__parse_accept(p, "-inf") || cr__parse_accept(p, "inf")) return CR_OK; /* stays as it was set */
    CR_TRY(cr__parse_dim(p, out));
    return cr_dim_is_plain(*out) ? CR_OK : cr__parse_fail(p, "a bound is a number");
}

static cr_status read_symbol(graph_parser *p) {
    char *name;
    int64_t lo = INT64_MIN, hi = INT64_MAX, hint;
    cr__parse_skip(p);
    const char *begin = p->at;
    CR_TRY(cr__parse_name(p, &name));
    bool real = cr__parse_accept(p, "float"), truth = !real && cr__parse_accept(p, "bool");
    cr_sym_type type = real ? CR_TYPE_FLOAT : truth ? CR_TYPE_BOOL : CR_TYPE_INT;
    if (type == CR_TYPE_INT) {
        CR_TRY(cr__parse_expect(p, "in"));
        CR_TRY(cr__parse_expect(p, "["));
        CR_TRY(read_bound(p, &lo));
        CR_TRY(cr__parse_expect(p, ","));
        CR_TRY(read_bound(p, &hi));
        CR_TRY(cr__parse_expect(p, "]"));
    }
    cr_sym symbol = cr_sym_find_symbol(p->env, name);
    if (symbol && cr_sym_type_of(symbol) != type) return cr__parse_fail(p, "'%s' is known with another type", name);
    if (lo > hi) return cr__parse_fail(p, "the range of %s is empty", name);
    if (!symbol) symbol = cr_sym_symbol(p->env, name, type, lo, hi);
    else if (type == CR_TYPE_INT) CR_TRY(cr__parse_fail_at(p, begin, cr_env_narrow(p->env, symbol, lo, hi)));
    if (!symbol) return cr__env_status(p->env) ? CR_ENOMEM : cr__parse_fail(p, "'%s' cannot be a symbol", name);
    if (type != CR_TYPE_INT || !cr__parse_accept(p, "hint")) return CR_OK;
    begin = p->at;
    CR_TRY(read_bound(p, &hint));
    return cr__parse_fail_at(p, begin, cr_env_set_hint(p->env, symbol, hint));
}

/* guard s0 <= 8 "why" */
static cr_status read_condition(graph_parser *p, cr_cond_kind kind) {
    cr_sym condition = NULL;
    char *message = "";
    size_t n;
    const char *begin = p->at;
    CR_TRY(cr__parse_expr(p, "\"\n", &condition));
    if (cr_sym_type_of(condition) != CR_TYPE_BOOL) {
        p->at = begin;
        return cr__parse_fail(p, "a condition is true or false");
    }
    if (*p->at == '"') CR_TRY(cr__parse_string(p, &message, &n));
    return cr__parse_fail_at(p, begin, cr_env_add_cond(p->env, kind, condition, message));
}

static cr_status read_elements(graph_parser *p, cr_tensor *t, uint32_t count) {
    char message[128] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_view whole = cr_tensor_view(t);
    for (uint32_t i = 0; i < count; i++) {
        cr_arg item;
        if (i) CR_TRY(cr__parse_expect(p, ","));
        cr__parse_skip(p);
        if (cr__parse_accept(p, "(")) CR_TRY(cr__parse_complex(p, &item));
        else CR_TRY(cr__parse_number(p, true, &item));
        rt_view one = { .p = whole.p, .dtype = whole.dtype };
        int64_t at = 0, rest = i;
        for (int d = whole.rank - 1; d >= 0; d--) {
            at += rest % whole.size[d] * whole.stride[d];
            rest /= whole.size[d];
        }
        one.p = (char *)whole.p + at * rt_itemsize(whole.dtype);
        if (rt_fill(&ctx, &one, cr_arg_scalar(&item))) return cr__parse_fail(p, "%s", message);
    }
    return cr__parse_expect(p, "]");
}

/* Without elements only the shape is known: a fake tensor, with which the graph can be checked but not run. */
static cr_status make_constant(graph_parser *p, const cr_meta *meta, cr_tensor **out) {
    const char *begin = p->at;
    int64_t bytes;
    if (!cr__parse_accept(p, "=")) return cr__parse_fail_at(p, begin, cr_tensor_create_fake(p->env, meta, out));
    CR_TRY(cr__parse_expect(p, "["));
    for (int d = 0; d < meta->rank; d++)
        if (!cr_dim_is_plain(meta->size[d]) || !cr_dim_is_plain(meta->stride[d]) || !cr_dim_is_plain(meta->offset))
            return cr__parse_fail(p, "a constant with elements has plain sizes");
    int64_t numel = cr_meta_numel(NULL, meta);
    if (numel > CR__MAX_ITEMS || cr_meta_bytes(meta, &bytes) || bytes > MAX_CONSTANT_BYTES)
        return cr__parse_fail(p, "a constant of the text is too large; give the graph the tensor instead");
    CR_TRY(cr__parse_fail_at(p, begin, cr_tensor_create(meta, out)));
    cr_status status = read_elements(p, *out, (uint32_t)numel);
    if (status) cr_tensor_release(*out);
    return status;
}

static cr_status read_constant(graph_parser *p) {
    char *target, *dtype_name;
    size_t n;
    int dtype;
    cr_meta meta;
    cr__parse_skip(p);
    const char *begin = p->at;
    CR_TRY(cr__parse_string(p, &target, &n));
    CR_TRY(cr__parse_expect(p, ":"));
    CR_TRY(cr__parse_name(p, &dtype_name));
    if (!cr_dtype_find(dtype_name, &dtype)) return cr__parse_fail(p, "'%.40s' is not a dtype", dtype_name);
    CR_TRY(cr__parse_meta(p, dtype, &meta));
    cr_tensor *t = NULL;
    CR_TRY(make_constant(p, &meta, &t));
    cr_status status = cr_graph_add_constant(p->g, target, t);
    cr_tensor_release(t);
    return cr__parse_fail_at(p, begin, status);
}

static cr_status read_placeholders(graph_parser *p) {
    CR_TRY(cr__parse_expect(p, "("));
    for (bool first = true; !cr__parse_accept(p, ")"); first = false) {
        char *name;
        cr_value v = { 0 };
        uint32_t value;
        if (!first) CR_TRY(cr__parse_expect(p, ","));
        CR_TRY(cr__parse_expect(p, "%"));
        CR_TRY(cr__parse_name(p, &name));
        CR_TRY(cr__parse_expect(p, ":"));
        CR_TRY(cr__parse_type(p, NULL, &v));
        if (cr_graph_find(p->g, name) != CR_NO_VALUE) return cr__parse_fail(p, "'%%%s' is defined twice", name);
        if (v.type == CR_T_TENSOR) CR_TRY(cr_graph_placeholder(p->g, name, v.meta, &value));
        else CR_TRY(cr_graph_placeholder_number(p->g, name, v.type, v.expr, &value));
    }
    return CR_OK;
}

static cr_status read_graph(graph_parser *p);

static cr_status read_subgraph(graph_parser *p) {
    graph_parser inner = { .text = p->text, .at = p->at, .env = p->env, .nesting = p->nesting + 1 };
    if (inner.nesting > MAX_NESTING) return cr__parse_fail(p, "graphs nested deeper than %d", MAX_NESTING);
    cr_arena_init(&inner.scratch);
    cr_status status = cr_graph_create(p->env, &inner.g);
    if (!status) status = read_graph(&inner);
    for (size_t i = 0; !status && i < cr_graph_subgraph_count(p->g); i++)
        if (!strcmp(cr_graph_name(cr_graph_subgraph(p->g, i)), cr_graph_name(inner.g)))
            status = cr__parse_fail(&inner, "two graphs are named '%s'", cr_graph_name(inner.g));
    if (!status) status = cr_graph_add_subgraph(p->g, inner.g);
    p->at = inner.at;
    cr_graph_release(inner.g);
    cr_vec_dispose(&inner.tuples);
    cr_arena_dispose(&inner.scratch);
    return status;
}

/* Symbols may be declared after the signature that uses them, so declarations are read first. */
static cr_status read_symbol_lines(graph_parser *p) {
    const char *start = p->at;
    for (const char *line = start; (line = strstr(line, "\n")); ) {
        line++;
        const char *word = line + strspn(line, " \t");
        if (strncmp(word, "symbol ", 7)) continue;
        p->at = word + 7;
        CR_TRY(read_symbol(p));
    }
    p->at = start;
    return CR_OK;
}

static bool begins_line(const graph_parser *p, const char *at) {
    while (at > p->text && (at[-1] == ' ' || at[-1] == '\t')) at--;
    return at == p->text || at[-1] == '\n';
}

static cr_status read_graph(graph_parser *p) {
    CR_TRY(cr__parse_expect(p, "graph"));
    cr__parse_skip(p);
    if (*p->at != '(') {
        char *name;
        CR_TRY(cr__parse_name(p, &name));
        CR_TRY(cr_graph_set_name(p->g, name));
    }
    CR_TRY(read_placeholders(p));
    CR_TRY(cr__parse_expect(p, "{"));
    for (;;) {
        cr__parse_skip(p);
        if (cr__parse_accept(p, "symbol")) {
            if (!begins_line(p, p->at - strlen("symbol")))
                return cr__parse_fail(p, "a symbol is declared on a line of its own");
            CR_TRY(read_symbol(p)); /* a second time, to find its end */
        } else if (cr__parse_accept(p, "guard")) {
            CR_TRY(read_condition(p, CR_COND_GUARD));
        } else if (cr__parse_accept(p, "assert")) {
            CR_TRY(read_condition(p, CR_COND_ASSERT));
        } else if (cr__parse_accept(p, "assume")) {
            CR_TRY(read_condition(p, CR_COND_ASSUMED));
        } else if (cr__parse_accept(p, "constant")) {
            CR_TRY(read_constant(p));
        } else if (!strncmp(p->at, "graph", 5) && !cr__parse_name_char(p->at[5])) {
            CR_TRY(read_subgraph(p));
        } else if (cr__parse_accept(p, "return")) {
            cr_arg *items = NULL;
            uint32_t n = 0;
            cr__parse_skip(p);
            if (*p->at == '}') p->at++;
            else CR_TRY(cr__parse_args(p, "}", &items, &n));
            CR_TRY(cr_graph_set_output(p->g, items, n));
            return cr_graph_check_regions(p->g) ? cr__parse_fail(p, "%s", cr_error_message()) : CR_OK;
        } else if (!*p->at || *p->at == '}') {
            return cr__parse_fail(p, "a graph ends with 'return'");
        } else {
            CR_TRY(read_statement(p));
        }
    }
}

cr_status cr_graph_parse(cr_env *env, const char *text, cr_graph **out) {
    graph_parser p = { .text = text, .at = text };
    cr_arena_init(&p.scratch);
    cr_status status = CR_OK;
    if (env) cr_env_retain(p.env = env);
    else CR_TRY_OUT(cr_env_create(&p.env));
    CR_TRY_OUT(cr_graph_create(p.env, &p.g));
    CR_TRY_OUT(read_symbol_lines(&p));
    CR_TRY_OUT(read_graph(&p));
    cr__parse_skip(&p);
    if (*p.at) CR_TRY_OUT(cr__parse_fail(&p, "unexpected text after the graph"));
    CR_TRY_OUT(cr_graph_set_origin(p.g, NULL));
    *out = p.g;
    p.g = NULL;
out:
    cr_graph_release(p.g);
    cr_env_release(p.env);
    cr_vec_dispose(&p.tuples);
    cr_arena_dispose(&p.scratch);
    return status;
}
