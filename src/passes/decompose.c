/* decompose.c: composite ops become what they consist of.
 *
 * The graph is written anew, node by node, through an emitter that expands where `stop` says no: a decomposition that
 * calls another composite op meets the same emitter again, so expansion goes all the way down in one walk. */
#include "graph/writes.h"
#include "ops/formula.h"
#include "passes/internal.h"

typedef struct rewriter {
    cr_emitter emitter;  /* first: what decompositions call */
    cr_emitter *append;  /* the new graph's own emitter */
    cr_graph *to;
    const cr_decomposition *how;
    const cr_origin *origin; /* of the node that is being rewritten */
    int bodies;    /* of the caller's own, inside each other */
    bool by_text;  /* what is being expanded is a text, or written for the core dialect: what it calls it means */
} rewriter;
/* What the old graph's values are in the new one. A region that is inlined has a scope of its own. */
typedef struct scope {
    rewriter *w;
    const cr_graph *from;
    cr_arg *map;
    /* of `from`, where code is to serve every size: a view of what is written later has to stay one */
    cr_writes writes;
    const cr_origin *origin; /* of nodes that have none of their own */
    /* what surrounds it asks for code that serves every size, and writes nothing that this may share */
    bool general;
} scope;

static bool is_number_op(const cr_op *op) {
    return strcmp(op->schema.ns, "aten") && !(op->tags & CR_TAG_HIGHER_ORDER) && !op->row->kernel && !op->row->decomp;
}

bool cr_stop_at_kernels(const cr_op *op, void *user) {
    (void)user;
    const cr_row *row = op->base->row;
    if (row->kernel || row->scalar || (op->tags & CR_TAG_HIGHER_ORDER) || is_number_op(op)) return true;
    return !row->decomp && !row->decomp_fn;
}

bool cr_stop_at_core(const cr_op *op, void *user) {
    (void)user;
    return is_number_op(op) || cr_op_stays_in_core(op);
}

/* Its kernel does not do what this argument asks for (attention with dropout). */
static bool must_expand(const cr_op *op, const cr_arg *args) {
    return op->base->row->draws_arg && cr_op_draws(op, args);
}

static size_t collect_values(const cr_arg *args, size_t n, cr_arg *out) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) count += collect_values(args[i].u.list, args[i].n, out ? out + count : NULL);
        else if (args[i].kind == CR_ARG_VALUE) {
            if (out) out[count] = args[i];
            count++;
        }
    }
    return count;
}

cr_status cr__body_inputs(cr_graph *g, const cr_arg *args, size_t n, cr_arg **out, size_t *count) {
    *count = collect_values(args, n, NULL);
    if (!(*out = cr_graph_alloc(g, (*count + 1) * sizeof **out))) return CR_ENOMEM;
    collect_values(args, n, *out);
    return CR_OK;
}

enum { MAX_BODIES = 64 };
static cr_status walk(scope *s);
static cr_status map_arg(scope *s, const cr_arg *from, cr_arg *to);

/* A graph's nodes where the call would be: `inputs` are what its placeholders stand for; *results: what it returns. */
static cr_status splice(rewriter *w, const cr_graph *body, const cr_arg *inputs, size_t n, cr_arg **results,
                        size_t *nresults) {
    scope inner = { .w = w, .from = body, .origin = w->origin, .general = cr_env_is_general(cr_graph_env(w->to)) };
    size_t k = 0;
    inner.map = cr_graph_alloc(w->to, (cr_graph_value_count(body) + 1) * sizeof(cr_arg));
    if (!inner.map) return CR_ENOMEM;
    for (uint32_t id = cr_graph_first(body); id != CR_NO_NODE; id = cr_graph_next(body, id)) {
        const cr_node *p = cr_graph_node(body, id);
        if (p->kind != CR_NODE_PLACEHOLDER) continue;
        if (k >= n) return CR_FAIL(CR_EVALUE, "the body takes more inputs than it is given");
        inner.map[p->first] = inputs[k++];
    }
    CR_TRY(walk(&inner));
    const cr_node *output = cr_graph_node(body, cr_graph_output(body));
    if (!(*results = cr_graph_alloc(w->to, (output->nargs + 1u) * sizeof **results))) return CR_ENOMEM;
    for (uint16_t i = 0; i < output->nargs; i++) CR_TRY(map_arg(&inner, &output->args[i], &(*results)[i]));
    *nresults = output->nargs;
    return CR_OK;
}

static cr_status expand_body(rewriter *w, const cr_op *op, const cr_graph *body, const cr_arg *args, cr_arg *results) {
    cr_arg *inputs = NULL, *made;
    size_t n = 0, nmade;
    CR_TRY(cr__body_inputs(w->to, args, op->schema.nparams, &inputs, &n));
    if (w->bodies >= MAX_BODIES)
        return CR_FAIL(CR_ERUNTIME, "the decomposition of %s does not end (it comes back to itself)", op->name);
    w->bodies++;
    cr_status status = splice(w, body, inputs, n, &made, &nmade);
    w->bodies--;
    CR_TRY(status);
    if (nmade != cr_result_count(op))
        return CR_FAIL(CR_EVALUE, "the decomposition of %s gives %zu results, its schema has %u", op->name, nmade,
                       cr_result_count(op));
    memcpy(results, made, nmade * sizeof *made);
    return CR_OK;
}

static cr_status expand(rewriter *w, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_arg plain[CR_MAX_PARAMS];
    CR_TRY(cr_graph_plain_args(w->to, args, op->schema.nparams, plain));
    bool before = w->by_text;
    const cr_row *row = op->base->row;
    w->by_text = (w->how->core && (row->core || row->core_fn)) || row->decomp;
    cr_status status = (w->how->core ? cr_core_expand : cr_decomp_expand)(&w->emitter, op->base, plain, results);
    w->by_text = before;
    return status ? cr_error_context(status, "decomposing %s", op->name) : CR_OK;
}

static bool stops(const rewriter *w, const cr_op *op, const cr_arg *args) {
    if (!w->how->stop(op, w->how->user)) return false;
    if (w->how->keep_writes && cr_op_updates_statistics(op, args)) return false; /* what it writes must be seen */
    return w->how->core || !must_expand(op, args);
}

/* The caller's own body, if it has one. */
static cr_status try_body(rewriter *w, const cr_op *op, const cr_arg *args, bool *done, cr_arg *results) {
    cr_graph *body = NULL;
    *done = false;
    if (!w->how->body) return CR_OK;
    CR_TRY(w->how->body(w->how->user, op, w->to, args, &body));
    if (!body) return CR_OK;
    *done = true;
    cr_status status = expand_body(w, op, body, args, results);
    cr_graph_release(body);
    return status;
}

/* The core dialect shows no argument that is as by default: the graph finds out which are not. */
static void forget_given(const rewriter *w, const cr_op *op, const cr_arg *args, cr_arg *out) {
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        out[i] = args[i];
        if (w->how->core && !(op->tags & CR_TAG_HIGHER_ORDER)) out[i].given = CR_GIVEN_DEFAULT;
    }
}

/* Decompositions in C hand an argument on as an alias or expansion of it, so that results are their own: in a graph
 * that is the argument. */
static bool is_handed_on(rewriter *w, const cr_op *op, const cr_arg *args) {
    const cr_meta *m = args[0].kind == CR_ARG_VALUE ? cr_graph_value(w->to, (uint32_t)args[0].u.i)->meta : NULL;
    if (w->by_text || !w->how->core || !m) return false;
    if (cr_op_is(op, "aten::alias")) return true;
    bool same = cr_op_view(op) == CR_VIEW_EXPAND && args[1].kind == CR_ARG_LIST && args[1].n == m->rank;
    for (int d = 0; same && d < m->rank; d++)
        same = args[1].u.list[d].kind == CR_ARG_INT && args[1].u.list[d].u.i == m->size[d];
    return same;
}

static cr_status rewriter_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    rewriter *w = (rewriter *)(void *)e;
    bool done;
    if (is_handed_on(w, op, args)) return *results = args[0], CR_OK;
    CR_TRY(try_body(w, op, args, &done, results));
    if (done) return CR_OK;
    if (stops(w, op, args)) {
        cr_arg given[CR_MAX_PARAMS];
        forget_given(w, op, args, given);
        return cr__emit_general(w->append, op, given, results);
    }
    cr_arg made[16] = { { 0 } };
    size_t n = cr_result_count(op);
    CR_TRY(expand(w, op, args, made));
    cr_status status = CR_OK;
    for (size_t i = 0; i < n && !status; i++) status = cr_graph_keep_arg(w->to, &made[i], &results[i]);
    cr_results_release(made, n);
    return status;
}

static cr_status rewriter_meta(cr_emitter *e, const cr_arg *arg, const cr_meta **out) {
    rewriter *w = (rewriter *)(void *)e;
    return w->append->meta(w->append, arg, out);
}

static void rewriter_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e, (void)results, (void)n; /* values belong to the graph */
}

/* ---- what is written ---- */

typedef struct meeting { const scope *s; uint32_t node; bool found; } meeting;

static void meet(void *user, uint32_t value) {
    meeting *m = user;
    m->found |= cr_writes_after(&m->s->writes, value, m->node);
}

static bool meets_written(const scope *s, uint32_t id) {
    const cr_node *node = cr_graph_node(s->from, id);
    meeting m = { s, id, false };
    cr_args_visit_values(node->args, node->nargs, meet, &m);
    for (uint32_t i = 0; i < node->nvalues; i++) meet(&m, node->first + i);
    return m.found;
}

/* ---- arguments ---- */

static cr_status rewrite(rewriter *w, const cr_graph *from, cr_graph **out);

static cr_status map_arg(scope *s, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_VALUE) {
        *to = s->map[from->u.i];
        to->given = from->given;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_graph_alloc(s->w->to, from->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(map_arg(s, &from->u.list[i], &items[i]));
        to->u.list = items;
    } else if (from->kind == CR_ARG_GRAPH) {
        rewriter inner = { .how = s->w->how };
        cr_graph *sub = NULL;
        CR_TRY(rewrite(&inner, from->u.graph, &sub));
        cr_status status = cr_graph_add_subgraph(s->w->to, sub); /* holds it from here on */
        cr_graph_release(sub);
        CR_TRY(status);
        to->u.graph = sub;
    }
    return CR_OK;
}

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(g, v)->type, .u.i = v };
}

/* ---- nodes ---- */

/* Results, flattened, become what the node's visible values are; `at` moves on. */
static cr_status bind_results(scope *s, const cr_node *node, const cr_arg *results, size_t n, uint32_t *at) {
    for (size_t i = 0; i < n; i++) {
        if (results[i].kind == CR_ARG_LIST) {
            CR_TRY(bind_results(s, node, results[i].u.list, results[i].n, at));
            continue;
        }
        if (*at >= node->first + node->nvalues)
            return CR_FAIL(CR_EVALUE, "%s gives more results than its node has", node->op->name);
        cr_arg *to = &s->map[(*at)++];
        *to = results[i];
        if (to->kind == CR_ARG_SYM || (to->kind == CR_ARG_INT && !cr_dim_is_plain(to->u.i)))
            CR_TRY(cr_graph_value_for(s->w->to,
                                      to->kind == CR_ARG_SYM ? to->u.sym : cr_dim_sym(cr_graph_env(s->w->to), to->u.i),
                                      to));
    }
    return CR_OK;
}

/* The same node: its values in order are the new node's. */
static cr_status keep_node(scope *s, const cr_node *node, const cr_arg *args) {
    uint32_t made;
    cr_arg given[CR_MAX_PARAMS];
    forget_given(s->w, node->op, args, given);
    CR_TRY(cr__call_or_copy(s->w->to, node->op, given, cr_env_is_general(cr_graph_env(s->w->to)), &made));
    const cr_node *copy = cr_graph_node(s->w->to, made);
    if (copy->nvalues != node->nvalues)
        return CR_FAIL(CR_EVALUE, "%s gives %u results here, its node has %u", node->op->name, copy->nvalues,
                       node->nvalues);
    for (uint32_t i = 0; i < node->nvalues; i++) {
        s->map[node->first + i] = value_arg(s->w->to, copy->first + i);
        if (cr_graph_value(s->w->to, copy->first + i)->type == CR_T_TENSOR &&
            !cr_graph_value(s->w->to, copy->first + i)->meta)
            s->map[node->first + i] = cr_arg_none();
    }
    return CR_OK;
}

/* The results, copied over what the call writes: both a visible result and "x after" are the copy. `targets` are the
 * new graph's. */
static cr_status copy_over(scope *s, const cr_node *node, const cr_arg *targets, const cr_arg *results, uint16_t n) {
    uint32_t seen[2] = { 0, 0 }, first[16];
    for (uint16_t i = 0; i < n; i++) {
        cr_arg copy[] = { targets[i], results[i], cr_arg_bool(false) };
        uint32_t made;
        CR_TRY(cr_graph_call(s->w->to, cr_op_find("aten::copy_"), copy, &made));
        first[i] = cr_graph_node(s->w->to, made)->first;
    }
    for (uint32_t i = 0; i < node->nvalues; i++) {
        bool hidden = cr_graph_value(s->from, node->first + i)->hidden;
        if (seen[hidden] == n) return CR_FAIL(CR_EVALUE, "%s gives more results than its node has", node->op->name);
        s->map[node->first + i] = value_arg(s->w->to, first[seen[hidden]++] + hidden);
    }
    return CR_OK;
}

static cr_status expand_inplace(scope *s, const cr_node *node, const cr_arg *args) {
    cr_arg results[16] = { { 0 } };
    if (node->op->variant != CR_INPLACE || node->op->schema.nreturns != 1)
        return CR_FAIL(CR_EUNSUPPORTED, "%s: this out form is not decomposed; use the functional form", node->op->name);
    CR_TRY(expand(s->w, node->op, args, results));
    cr_status status = copy_over(s, node, args, results, 1);
    cr_results_release(results, 1);
    return status;
}

/* ---- out forms ---- */

static bool same_sizes(const cr_meta *a, const cr_meta *b) {
    return a->rank == b->rank && (!a->rank || !memcmp(a->size, b->size, (size_t)a->rank * sizeof *a->size));
}

/* One tensor for each result of the functional op, which keeps its sizes: resizing is no copy. */
static bool fills_outs(const scope *s, const cr_node *node) {
    const cr_schema *schema = &node->op->schema;
    uint16_t n = schema->nreturns, first = (uint16_t)(schema->nparams - n);
    if (node->op->variant != CR_OUT || !n || n > 16 || node->nvalues != 2u * n || node->op->base->schema.nreturns != n)
        return false;
    for (uint16_t i = 0; i < n; i++) {
        const cr_arg *out = &node->args[first + i];
        if (!schema->params[first + i].writes || schema->params[first + i].list || out->kind != CR_ARG_VALUE)
            return false;
        const cr_meta *before = cr_graph_value(s->from, (uint32_t)out->u.i)->meta,
                      *after = cr_graph_value(s->from, node->first + i)->meta;
        if (!before || !after || !same_sizes(before, after) || node->op->base->schema.returns[i].list) return false;
    }
    return true;
}

/* The functional op's arguments, by name. */
static void out_to_functional(const cr_op *op, const cr_arg *args, const cr_meta *out, cr_arg *to) {
    const cr_schema *s = &op->base->schema;
    for (uint16_t i = 0; i < s->nparams; i++) {
        uint16_t at = 0, n = (uint16_t)(op->schema.nparams - op->schema.nreturns);
        while (at < n && strcmp(op->schema.params[at].name, s->params[i].name)) at++;
        to[i] = at < n ? args[at] : s->params[i].fallback;
        if (cr_out_decides(op, i, at < n ? &args[at] : NULL)) to[i] = cr_arg_dtype(out->dtype);
    }
}

/* What the out form would have refused, or done otherwise than a copy does. */
static cr_status check_out(scope *s, const cr_op *op, const cr_arg *result, const cr_arg *out) {
    const cr_meta *from, *to = cr_graph_value(s->w->to, (uint32_t)out->u.i)->meta;
    cr_env *env = cr_graph_env(s->w->to);
    CR_TRY(s->w->append->meta(s->w->append, result, &from));
    bool same = from->rank == to->rank;
    for (int d = 0; same && d < from->rank; d++) CR_TRY(cr_dim_decide(env, from->size[d], CR_EQ, to->size[d], &same));
    if (!same)
        return CR_FAIL(CR_EUNSUPPORTED, "%s: 'out' has other sizes than the result; make it with those sizes",
                       op->name);
    bool nothing = !to->rank || cr_dim_known(env, cr_meta_numel(env, to), CR_EQ, 0) == CR_YES;
    bool casts = (op->base->tags & CR_TAG_ANY_CAST) || ((op->base->tags & CR_TAG_EMPTY_CAST) && nothing);
    if (!casts && !cr_can_cast(from->dtype, to->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: result type %s can't be cast to the desired output type %s", op->name,
                       cr_dtype_aten(from->dtype), cr_dtype_aten(to->dtype));
    return CR_OK;
}

/* All results are computed before the first of them is written: what is written may be an argument, too. */
static cr_status expand_out(scope *s, const cr_node *node, const cr_arg *args) {
    const cr_op *op = node->op;
    uint16_t n = op->schema.nreturns;
    const cr_arg *outs = &args[op->schema.nparams - n];
    cr_arg functional[CR_MAX_PARAMS], results[16] = { { 0 } };
    out_to_functional(op, args, cr_graph_value(s->w->to, (uint32_t)outs[0].u.i)->meta, functional);
    CR_TRY(rewriter_call(&s->w->emitter, op->base, functional, results));
    for (uint16_t i = 0; i < n; i++) CR_TRY(check_out(s, op, &results[i], &outs[i]));
    return copy_over(s, node, outs, results, n);
}

/* The body's nodes take the region's place. */
static cr_status inline_region(scope *s, const cr_node *node) {
    const cr_graph *body = NULL;
    const cr_arg *operands = NULL;
    for (uint16_t i = 0; i < node->nargs; i++) {
        if (node->args[i].kind == CR_ARG_GRAPH) body = node->args[i].u.graph;
        else if (node->args[i].kind == CR_ARG_LIST) operands = &node->args[i];
    }
    if (!body) return CR_FAIL(CR_EVALUE, "%s has no body", node->op->name);
    size_t n = operands ? operands->n : 0, nresults;
    cr_arg *inputs = cr_graph_alloc(s->w->to, (n + 1) * sizeof *inputs), *results;
    if (!inputs) return CR_ENOMEM;
    for (size_t k = 0; k < n; k++) CR_TRY(map_arg(s, &operands->u.list[k], &inputs[k]));
    cr_status status = splice(s->w, body, inputs, n, &results, &nresults);
    if (status) return cr_error_context(status, "%s", node->op->name);
    uint32_t at = node->first;
    return bind_results(s, node, results, nresults, &at);
}

/* ---- symbols of what depends on data ---- */

static void add_symbol(cr_known_symbols *known, cr_sym e) {
    if (!e || cr_sym_kind_of(e) != CR_SYM_SYMBOL || cr_sym_is_backed(e) || known->n == (int)CR_COUNT(known->at)) return;
    for (int i = 0; i < known->n; i++)
        if (known->at[i] == e) return;
    known->at[known->n++] = e;
}

static void add_value(const cr_graph *g, cr_known_symbols *known, uint32_t value) {
    const cr_value *v = cr_graph_value(g, value);
    cr_env *env = cr_graph_env(g);
    add_symbol(known, v->expr);
    for (int d = 0; v->meta && d < v->meta->rank; d++)
        if (!cr_dim_is_plain(v->meta->size[d])) add_symbol(known, cr_dim_sym(env, v->meta->size[d]));
}

typedef struct told { const cr_graph *g; cr_known_symbols known; } told;
static void add_argument(void *user, uint32_t value) { add_value(((told *)user)->g, &((told *)user)->known, value); }

void cr_node_introduces(const cr_graph *g, const cr_node *node, cr_known_symbols *known) {
    told arguments = { .g = g };
    cr_known_symbols all = { .n = 0 };
    cr_args_visit_values(node->args, node->nargs, add_argument, &arguments);
    for (uint32_t i = 0; i < node->nvalues; i++) add_value(g, &all, node->first + i);
    known->n = 0;
    for (int i = 0; i < all.n; i++) {
        bool old = false;
        for (int k = 0; k < arguments.known.n; k++) old |= arguments.known.at[k] == all.at[i];
        if (!old) known->at[known->n++] = all.at[i];
    }
}

/* The size of a dim that depends on data is asked of the value that it was found out with, which is the first to have
 * it. */
static void ask_first(scope *s, const cr_node *node, cr_arg *args) {
    cr_graph *g = s->w->to;
    cr_env *env = cr_graph_env(g);
    cr_sym e = cr_graph_value(s->from, node->first)->expr;
    int64_t hint;
    if (!e || cr_sym_kind_of(e) != CR_SYM_SYMBOL || cr_env_hint(env, e, &hint)) return;
    for (uint32_t v = 0; v < cr_graph_value_count(g); v++) {
        const cr_value *value = cr_graph_value(g, v);
        for (int d = 0; value->node != CR_NO_NODE && value->meta && !value->hidden && d < value->meta->rank; d++) {
            if (cr_dim_is_plain(value->meta->size[d]) || cr_dim_sym(env, value->meta->size[d]) != e) continue;
            args[0] = value_arg(g, v);
            args[1] = cr_arg_int(d);
            return;
        }
    }
}

/* Archives have it as a plain detach. */
static bool is_detach_inplace(const cr_node *node) {
    return cr_op_is(node->op, "aten::detach_") ||
           (node->archived && node->archived->target && strstr(node->archived->target, "aten.detach_."));
}

static cr_status rewrite_call(scope *s, const cr_node *node) {
    cr_arg args[CR_MAX_PARAMS], results[16] = { { 0 } };
    if (cr_op_facts(node->op)->region.kind == CR_REGION_MARKS) return inline_region(s, node);
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(map_arg(s, &node->args[i], &args[i]));
    if (cr_op_facts(node->op)->region.kind == CR_REGION_FUNCTION) { /* only a derivative asks for its body */
        for (uint32_t i = 0; i < node->nvalues; i++) s->map[node->first + i] = args[2].u.list[i];
        return CR_OK;
    }
    if (s->w->how->core && cr_op_is(node->op, "aten::sym_size.int")) ask_first(s, node, args);
    if (s->w->how->core && is_detach_inplace(node)) { /* only the tape sees it */
        for (uint32_t i = 0; i < node->nvalues; i++) s->map[node->first + i] = args[0];
        return CR_OK;
    }
    bool done = false;
    if (node->op->variant == CR_FUNCTIONAL) CR_TRY(try_body(s->w, node->op, args, &done, results));
    if (done) {
        uint32_t first = node->first;
        return bind_results(s, node, results, cr_result_count(node->op), &first);
    }
    if (!s->w->how->keep_writes && fills_outs(s, node)) return expand_out(s, node, args);
    if (stops(s->w, node->op, args) || (s->w->how->keep_writes && node->op->variant != CR_FUNCTIONAL))
        return keep_node(s, node, args);
    if (node->op->variant != CR_FUNCTIONAL) return expand_inplace(s, node, args);
    CR_TRY(expand(s->w, node->op, args, results));
    uint32_t at = node->first;
    cr_status status = bind_results(s, node, results, cr_result_count(node->op), &at);
    cr_results_release(results, cr_result_count(node->op));
    return status;
}

/* A decomposition that hands an argument through, or an op whose result is one of another name, leaves the old name
 * unused. */
static cr_status keep_names(scope *s, const cr_node *node) {
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_arg *to = &s->map[node->first + i];
        const cr_value *old = cr_graph_value(s->from, node->first + i);
        if (to->kind != CR_ARG_VALUE || old->hidden || cr_graph_find(s->w->to, old->name) != CR_NO_VALUE) continue;
        if (cr_graph_node(s->w->to, cr_graph_value(s->w->to, (uint32_t)to->u.i)->node)->kind == CR_NODE_CALL)
            CR_TRY(cr_graph_rename(s->w->to, (uint32_t)to->u.i, old->name));
    }
    return CR_OK;
}

static cr_status walk_nodes(scope *s) {
    for (uint32_t n = cr_graph_first(s->from); n != CR_NO_NODE; n = cr_graph_next(s->from, n)) {
        const cr_node *node = cr_graph_node(s->from, n);
        if (node->kind == CR_NODE_PLACEHOLDER || node->kind == CR_NODE_OUTPUT) continue;
        s->w->origin = node->origin.stack_trace || node->origin.module_stack || !s->origin ? &node->origin : s->origin;
        CR_TRY(cr_graph_set_origin(s->w->to, s->w->origin));
        if (node->kind == CR_NODE_GET_ATTR) {
            uint32_t v;
            if (!cr_graph_constant(s->w->to, node->target))
                CR_TRY(cr_graph_add_constant(s->w->to, node->target, cr_graph_constant(s->from, node->target)));
            CR_TRY(cr_graph_get_attr(s->w->to, node->target, &v));
            s->map[node->first] = value_arg(s->w->to, v);
            continue;
        }
        cr_known_symbols known, *before = cr_ambient_get()->mode.known;
        cr_node_introduces(s->from, node, &known);
        cr_ambient_get()->mode.known = &known;
        cr_env_set_general(cr_graph_env(s->w->to), s->general && !meets_written(s, n));
        cr_status status = rewrite_call(s, node);
        cr_env_set_general(cr_graph_env(s->w->to), s->general);
        cr_ambient_get()->mode.known = before;
        if (!status) status = keep_names(s, node);
        if (status)
            return node->nvalues ? cr_error_context(status, "%%%s", cr_graph_value(s->from, node->first)->name)
                                 : status;
    }
    return CR_OK;
}

static cr_status walk(scope *s) {
    if (s->general) CR_TRY(cr_writes_find(s->from, CR_SHARING_POSSIBLE, &s->writes));
    cr_status status = walk_nodes(s);
    cr_writes_dispose(&s->writes);
    return status;
}

static cr_status copy_placeholders(scope *s) {
    for (uint32_t n = cr_graph_first(s->from); n != CR_NO_NODE; n = cr_graph_next(s->from, n)) {
        const cr_node *node = cr_graph_node(s->from, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_value *v = cr_graph_value(s->from, node->first);
        uint32_t made;
        CR_TRY(v->type == CR_T_TENSOR
                   ? cr_graph_placeholder(s->w->to, node->target, v->meta, &made)
                   : cr_graph_placeholder_number(s->w->to, node->target, (cr_type)v->type, v->expr, &made));
        s->map[node->first] = value_arg(s->w->to, made);
    }
    return CR_OK;
}

static cr_status rewrite_into(scope *s) {
    cr_arg *outputs;
    const cr_node *output = cr_graph_node(s->from, cr_graph_output(s->from));
    CR_TRY(cr_graph_set_name(s->w->to, cr_graph_name(s->from)));
    s->map = cr_graph_alloc(s->w->to, (cr_graph_value_count(s->from) + 1) * sizeof *s->map);
    outputs = cr_graph_alloc(s->w->to, (output->nargs + 1u) * sizeof *outputs);
    if (!s->map || !outputs) return CR_ENOMEM;
    CR_TRY(copy_placeholders(s));
    CR_TRY(walk(s));
    for (uint16_t i = 0; i < output->nargs; i++) CR_TRY(map_arg(s, &output->args[i], &outputs[i]));
    CR_TRY(cr_graph_set_origin(s->w->to, NULL));
    CR_TRY(cr_graph_set_output(s->w->to, outputs, output->nargs));
    return cr_graph_set_archived(s->w->to, cr_graph_output(s->w->to), output->archived); /* (x,) or x */
}

static cr_status rewrite(rewriter *w, const cr_graph *from, cr_graph **out) {
    if (cr_graph_output(from) == CR_NO_NODE) return CR_FAIL(CR_EVALUE, "the graph has no output yet");
    CR_TRY(cr_graph_create(cr_graph_env(from), &w->to));
    w->append = cr_graph_emitter(w->to);
    w->emitter = (cr_emitter){ rewriter_call, rewriter_meta, rewriter_release, cr_graph_env(from) };
    scope s = { .w = w, .from = from, .general = cr_env_is_general(cr_graph_env(from)) };
    cr_status status = rewrite_into(&s);
    if (status) {
        cr_graph_release(w->to);
        return status;
    }
    *out = w->to;
    return CR_OK;
}

cr_status cr_pass_decompose(const cr_graph *g, cr_stop_fn *stop, void *user, cr_graph **out) {
    return cr_pass_decompose_as(g, &(cr_decomposition){ .stop = stop, .user = user, .core = stop == cr_stop_at_core },
                                out);
}

cr_status cr_pass_decompose_as(const cr_graph *g, const cr_decomposition *how, cr_graph **out) {
    CR_TRY(cr_region_ops_init());
    rewriter w = { .how = how };
    return rewrite(&w, g, out);
}
