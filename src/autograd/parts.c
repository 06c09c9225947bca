/* parts.c: the two graphs that a choice makes of a joint graph, and the report of it.
 *
 * The forward part keeps the joint graph's order. The backward part computes a value again right before the first node
 * that reads it, so that what is computed again is not all there at once. A symbol that sizes of the backward part
 * mention and that none of its inputs shows is handed over as one more number. */
#include "autograd/cut.h"
#include "graph/writes.h"
#include "runtime/rt_random.h"

typedef CR_VEC(uint32_t) ids;
typedef struct builder {
    const cr__choice *c;
    const cr_graph *from;
    cr_parts *out;
    cr_graph *to;
    cr_arena arena;
    cr_arg *map;            /* per value of `from`: what it is in `to`; NONE with given 0: nothing yet */
    bool *needed;           /* per node: of the forward part */
    ids tensors, numbers;   /* saved values, in order */
    cr_arg *states;         /* per node that is drawn again (out->drawn): the generator's state before it */
    CR_VEC(cr_sym) symbols; /* handed over beside them */
    ids stack;
    cr_status status;
} builder;

/* ---- copying ---- */

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = CR_GIVEN_POSITIONAL, .type = cr_graph_value(g, v)->type, .u.i = v };
}

static bool is_there(const builder *b, uint32_t value) { return b->map[value].given; }

static cr_status map_graph(builder *b, cr_graph *sub) {
    for (size_t i = 0; i < cr_graph_subgraph_count(b->to); i++)
        if (cr_graph_subgraph(b->to, i) == sub) return CR_OK;
    return cr_graph_add_subgraph(b->to, sub);
}

static cr_status map_arg(builder *b, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_GRAPH) return map_graph(b, from->u.graph);
    if (from->kind == CR_ARG_VALUE) {
        const char *name = cr_graph_value(b->from, (uint32_t)from->u.i)->name;
        if (!is_there(b, (uint32_t)from->u.i))
            return CR_FAIL(CR_EVALUE, "'%s' is used by a part of the joint graph that does not have it", name);
        *to = b->map[from->u.i];
        to->given = from->given;
    }
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_arena_alloc(&b->arena, (from->n + 1u) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < from->n; i++) CR_TRY(map_arg(b, &from->u.list[i], &items[i]));
    to->u.list = items;
    return CR_OK;
}

static cr_status copy_attr(builder *b, const cr_node *node) {
    uint32_t made;
    if (!cr_graph_constant(b->to, node->target))
        CR_TRY(cr_graph_add_constant(b->to, node->target, cr_graph_constant(b->from, node->target)));
    CR_TRY(cr_graph_get_attr(b->to, node->target, &made));
    b->map[node->first] = value_arg(b->to, made);
    return CR_OK;
}

static cr_status copy_node(builder *b, uint32_t id) {
    const cr_node *node = cr_graph_node(b->from, id);
    uint32_t made;
    if (node->kind == CR_NODE_GET_ATTR) return copy_attr(b, node);
    cr_arg *args = cr_arena_alloc(&b->arena, (node->nargs + 1u) * sizeof *args);
    cr_value *values;
    if (!args) return CR_ENOMEM;
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(map_arg(b, &node->args[i], &args[i]));
    CR_TRY(cr__cut_values(b->from, node, b->to, b->map, &values));
    CR_TRY(cr_graph_set_origin(b->to, &node->origin));
    CR_TRY(cr_graph_call_with(b->to, node->op, args, values, node->nvalues, &made));
    if (node->target) CR_TRY(cr_graph_set_target(b->to, made, node->target));
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (!is_there(b, node->first + i))
            b->map[node->first + i] = value_arg(b->to, cr_graph_node(b->to, made)->first + i);
    return CR_OK;
}

static bool is_drawn(const builder *b, uint32_t id) { return b->c->again[id] && b->c->price[id].draws; }

/* As in cut.c. */
static cr_status copy_drawing(builder *b, uint32_t id, bool again) {
    const cr_node *node = cr_graph_node(b->from, id);
    cr_arg was;
    CR_TRY(cr_graph_set_origin(b->to, &node->origin));
    CR_TRY(cr__random_state(b->to, again ? &b->states[id] : NULL, &was));
    CR_TRY(copy_node(b, id));
    if (again) return cr__random_state(b->to, &was, &was);
    b->states[id] = was;
    return CR_OK;
}

static cr_status add_placeholder(builder *b, uint32_t value) {
    uint32_t made;
    CR_TRY(cr__cut_placeholder(b->to, cr_graph_value(b->from, value), &made));
    b->map[value] = value_arg(b->to, made);
    return CR_OK;
}

static cr_status begin(builder *b, cr_graph **out) {
    memset(b->map, 0, cr_graph_value_count(b->from) * sizeof *b->map);
    CR_TRY(cr_graph_create(cr_graph_env(b->from), out));
    b->to = *out;
    return CR_OK;
}

/* ---- what goes from one to the other ---- */

static cr_status list_saved(builder *b) {
    for (uint32_t n = cr_graph_first(b->from); n != CR_NO_NODE; n = cr_graph_next(b->from, n)) {
        const cr_node *node = cr_graph_node(b->from, n);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            if (!b->c->saved[v]) continue;
            bool tensor = cr_graph_value(b->from, v)->type == CR_T_TENSOR;
            CR_TRY(cr_vec_push(tensor ? &b->tensors : &b->numbers, v));
        }
        if (node->kind == CR_NODE_CALL && is_drawn(b, n)) CR_TRY(cr_vec_push(&b->out->drawn, n));
    }
    return CR_OK;
}

static bool is_handed(const builder *b, cr_sym symbol) {
    for (size_t i = 0; i < b->symbols.n; i++)
        if (b->symbols.at[i] == symbol) return true;
    for (size_t i = 0; i < b->numbers.n; i++)
        if (cr_graph_value(b->from, b->numbers.at[i])->expr == symbol) return true;
    return false;
}

/* Does an input of the backward part have a size that is the symbol itself? */
static bool is_shown(const builder *b, cr_sym symbol) {
    for (uint32_t n = cr_graph_first(b->from); n != CR_NO_NODE; n = cr_graph_next(b->from, n)) {
        const cr_node *node = cr_graph_node(b->from, n);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            const cr_meta *m = cr_graph_value(b->from, v)->meta;
            if (!(b->c->saved[v] || (b->c->tangent[n] && node->kind == CR_NODE_PLACEHOLDER))) continue;
            for (int d = 0; m && d < m->rank; d++)
                if (!cr_dim_is_plain(m->size[d]) && cr_dim_sym(cr_graph_env(b->from), m->size[d]) == symbol)
                    return true;
        }
    }
    return false;
}

static cr_status need_symbols(builder *b, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL)
        return is_handed(b, e) || is_shown(b, e) ? CR_OK : cr_vec_push(&b->symbols, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) CR_TRY(need_symbols(b, cr_sym_operand(e, i)));
    return CR_OK;
}

static cr_status need_dim(builder *b, cr_dim d) {
    return cr_dim_is_plain(d) ? CR_OK : need_symbols(b, cr_dim_sym(cr_graph_env(b->from), d));
}

static cr_status list_symbols(builder *b) {
    for (uint32_t n = cr_graph_first(b->from); n != CR_NO_NODE; n = cr_graph_next(b->from, n)) {
        const cr_node *node = cr_graph_node(b->from, n);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            const cr_meta *m = cr_graph_value(b->from, v)->meta;
            if (!m || !(b->c->tangent[n] || b->c->again[n] || b->c->saved[v])) continue;
            for (int d = 0; d < m->rank; d++) {
                CR_TRY(need_dim(b, m->size[d]));
                CR_TRY(need_dim(b, m->stride[d]));
            }
            CR_TRY(need_dim(b, m->offset));
        }
    }
    return CR_OK;
}

/* ---- the forward part ---- */

static void need(void *user, uint32_t value) {
    builder *b = user;
    b->needed[cr_graph_value(b->from, value)->node] = true;
}

static void find_needed(builder *b, const cr_node *output) {
    cr_args_visit_values(output->args, b->c->joint->nforward, need, b);
    for (size_t i = 0; i < b->tensors.n; i++) need(b, b->tensors.at[i]);
    for (size_t i = 0; i < b->numbers.n; i++) need(b, b->numbers.at[i]);
    uint32_t last = cr_graph_output(b->from);
    for (uint32_t n = last; n != CR_NO_NODE; n = cr_graph_node(b->from, n)->prev) {
        const cr_node *node = cr_graph_node(b->from, n);
        if (node->kind != CR_NODE_CALL || b->c->tangent[n]) continue;
        b->needed[n] |= b->c->forward[n];
        if (b->needed[n]) cr_args_visit_values(node->args, node->nargs, need, b);
    }
}

static cr_status build_forward(builder *b) {
    const cr_joint *joint = b->c->joint;
    const cr_node *output = cr_graph_node(b->from, cr_graph_output(b->from));
    size_t n = joint->nforward, inputs = 0;
    size_t saved = b->tensors.n + b->out->drawn.n + b->numbers.n + b->symbols.n;
    cr_arg *outputs = cr_arena_alloc(&b->arena, (n + saved + 1) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    CR_TRY(begin(b, &b->out->forward));
    find_needed(b, output);
    for (uint32_t id = cr_graph_first(b->from); id != CR_NO_NODE; id = cr_graph_next(b->from, id)) {
        const cr_node *node = cr_graph_node(b->from, id);
        if (node->kind == CR_NODE_PLACEHOLDER) {
            if (inputs++ < joint->nprimals) CR_TRY(add_placeholder(b, node->first));
        } else if (node->kind != CR_NODE_OUTPUT && b->needed[id]) {
            CR_TRY(is_drawn(b, id) ? copy_drawing(b, id, false) : copy_node(b, id));
        }
    }
    for (size_t i = 0; i < n; i++) CR_TRY(map_arg(b, &output->args[i], &outputs[i]));
    for (size_t i = 0; i < b->tensors.n; i++) outputs[n++] = b->map[b->tensors.at[i]];
    for (size_t i = 0; i < b->out->drawn.n; i++) outputs[n++] = b->states[b->out->drawn.at[i]];
    for (size_t i = 0; i < b->numbers.n; i++) outputs[n++] = b->map[b->numbers.at[i]];
    for (size_t i = 0; i < b->symbols.n; i++) CR_TRY(cr_graph_value_for(b->to, b->symbols.at[i], &outputs[n++]));
    CR_TRY(cr_graph_set_origin(b->to, NULL));
    return cr_graph_set_output(b->to, outputs, n);
}

/* ---- the backward part ---- */

static void push_missing(void *user, uint32_t value) {
    builder *b = user;
    if (!b->status && !is_there(b, value)) b->status = cr_vec_push(&b->stack, cr_graph_value(b->from, value)->node);
}

/* The node, and before it what it reads and the part does not have yet. */
static cr_status compute(builder *b, uint32_t id) {
    CR_TRY(cr_vec_push(&b->stack, id));
    while (b->stack.n) {
        uint32_t next = b->stack.at[b->stack.n - 1];
        const cr_node *node = cr_graph_node(b->from, next);
        size_t before = b->stack.n;
        bool known = node->nvalues;
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) known &= is_there(b, v);
        if (!known) cr_args_visit_values(node->args, node->nargs, push_missing, b);
        CR_TRY(b->status);
        if (b->stack.n > before) continue;
        b->stack.n--;
        if (!known) CR_TRY(is_drawn(b, next) ? copy_drawing(b, next, true) : copy_node(b, next));
    }
    return CR_OK;
}

/* Per node: is it on the way to a gradient, or does it have an effect? */
static void find_backward(builder *b, const cr_node *output) {
    memset(b->needed, 0, cr_graph_node_limit(b->from) * sizeof *b->needed);
    size_t nforward = b->c->joint->nforward;
    cr_args_visit_values(output->args + nforward, output->nargs - nforward, need, b);
    for (uint32_t n = cr_graph_output(b->from); n != CR_NO_NODE; n = cr_graph_node(b->from, n)->prev) {
        const cr_node *node = cr_graph_node(b->from, n);
        if (node->kind != CR_NODE_CALL || !b->c->tangent[n]) continue;
        b->needed[n] |= !cr_node_is_pure(b->from, node);
        if (b->needed[n]) cr_args_visit_values(node->args, node->nargs, need, b);
    }
}

static cr_status add_inputs(builder *b) {
    uint32_t inputs = 0, made;
    for (size_t i = 0; i < b->numbers.n; i++) CR_TRY(add_placeholder(b, b->numbers.at[i]));
    for (size_t i = 0; i < b->symbols.n; i++)
        CR_TRY(cr_graph_placeholder_number(b->to, cr_sym_name(b->symbols.at[i]), CR_T_INT, b->symbols.at[i], &made));
    for (size_t i = 0; i < b->tensors.n; i++) CR_TRY(add_placeholder(b, b->tensors.at[i]));
    for (size_t i = 0; i < b->out->drawn.n; i++) {
        const cr_node *node = cr_graph_node(b->from, b->out->drawn.at[i]);
        CR_TRY(cr__state_input(b->to, cr_graph_value(b->from, node->first)->name, &b->states[b->out->drawn.at[i]]));
    }
    for (uint32_t id = cr_graph_first(b->from); id != CR_NO_NODE; id = cr_graph_next(b->from, id)) {
        const cr_node *node = cr_graph_node(b->from, id);
        if (node->kind == CR_NODE_PLACEHOLDER && inputs++ >= b->c->joint->nprimals)
            CR_TRY(add_placeholder(b, node->first));
    }
    return CR_OK;
}

static cr_status build_backward(builder *b) {
    const cr_node *output = cr_graph_node(b->from, cr_graph_output(b->from));
    uint16_t nforward = (uint16_t)b->c->joint->nforward;
    cr_arg *outputs = cr_arena_alloc(&b->arena, (output->nargs + 1u) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    CR_TRY(begin(b, &b->out->backward));
    find_backward(b, output);
    CR_TRY(add_inputs(b));
    for (uint32_t id = cr_graph_first(b->from); id != CR_NO_NODE; id = cr_graph_next(b->from, id))
        if (b->c->tangent[id] && b->needed[id] && cr_graph_node(b->from, id)->kind == CR_NODE_CALL)
            CR_TRY(compute(b, id));
    cr_args_visit_values(output->args + nforward, output->nargs - nforward, push_missing, b);
    CR_TRY(b->status);
    ids rest = b->stack;
    b->stack = (ids){ 0 };
    cr_status status = CR_OK;
    for (size_t i = 0; i < rest.n && !status; i++) status = compute(b, rest.at[i]);
    cr_vec_dispose(&rest);
    CR_TRY(status);
    for (uint16_t i = nforward; i < output->nargs; i++) CR_TRY(map_arg(b, &output->args[i], &outputs[i - nforward]));
    CR_TRY(cr_graph_set_origin(b->to, NULL));
    return cr_graph_set_output(b->to, outputs, output->nargs - nforward);
}

/* ---- report ---- */

static cr_status name_of(builder *b, const cr_node *node, uint32_t value, const char **name, const char **op) {
    *name = cr_arena_strdup(&b->out->arena, cr_graph_value(b->from, value)->name);
    *op = node->kind == CR_NODE_CALL ? node->op->name : node->kind == CR_NODE_PLACEHOLDER ? "input" : "constant";
    return *name ? CR_OK : CR_ENOMEM;
}

static cr_status note_saved(builder *b) {
    for (size_t i = 0; i < b->tensors.n; i++) {
        uint32_t value = b->tensors.at[i];
        const cr_node *node = cr_graph_node(b->from, cr_graph_value(b->from, value)->node);
        cr_saved_value s = { .bytes = b->c->bytes[value], .input = node->kind == CR_NODE_PLACEHOLDER };
        CR_TRY(name_of(b, node, value, &s.name, &s.op));
        CR_TRY(cr_vec_push(&b->out->saved, s));
        b->out->saved_bytes += s.bytes;
    }
    for (size_t i = 0; i < b->out->drawn.n; i++) {
        const cr_node *node = cr_graph_node(b->from, b->out->drawn.at[i]);
        const char *drawn = cr_graph_value(b->from, node->first)->name;
        cr_saved_value s = { .op = "cresset::random_state", .bytes = RT_GENERATOR_STATE_BYTES };
        if (!(s.name = cr_arena_printf(&b->out->arena, "%s_state", drawn))) return CR_ENOMEM;
        CR_TRY(cr_vec_push(&b->out->saved, s));
        b->out->saved_bytes += s.bytes;
    }
    b->out->saved_bytes += 8 * (int64_t)(b->numbers.n + b->symbols.n);
    return CR_OK;
}

/* A node is computed again when both parts have it; views and constants cost nothing. */
static cr_status note_nodes(builder *b) {
    cr_parts *out = b->out;
    for (uint32_t n = cr_graph_first(b->from); n != CR_NO_NODE; n = cr_graph_next(b->from, n)) {
        const cr_node *node = cr_graph_node(b->from, n);
        if (node->kind != CR_NODE_CALL) continue;
        cr_price price = b->c->price[n];
        if (b->c->tangent[n]) cr__node_price(b->from, node, &price);
        if (b->c->tangent[n] || b->c->again[n]) out->backward_flops += price.flops;
        if (b->c->tangent[n]) continue;
        if (b->c->forward[n] || !b->c->again[n]) out->forward_flops += price.flops;
        if (!b->c->again[n] || !b->c->forward[n] || !node->nvalues) continue;
        out->recomputed_flops += price.flops;
        out->seconds += 1e-12 * (double)price.picoseconds;
        cr_recomputed r = { .flops = price.flops };
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++)
            if (cr_graph_value(b->from, v)->type == CR_T_TENSOR && !cr__value_is_view(b->from, v))
                r.bytes += cr__value_bytes(b->from, v);
        if (!r.bytes) continue;
        CR_TRY(name_of(b, node, node->first, &r.name, &r.op));
        CR_TRY(cr_vec_push(&out->recomputed, r));
    }
    return CR_OK;
}

static cr_status build(builder *b) {
    b->map = cr_arena_alloc(&b->arena, (cr_graph_value_count(b->from) + 1) * sizeof *b->map);
    b->needed = cr_arena_calloc(&b->arena, cr_graph_node_limit(b->from) + 1, sizeof *b->needed);
    b->states = cr_arena_alloc(&b->arena, (cr_graph_node_limit(b->from) + 1) * sizeof *b->states);
    if (!b->map || !b->needed || !b->states) return CR_ENOMEM;
    CR_TRY(list_saved(b));
    CR_TRY(list_symbols(b));
    CR_TRY(build_forward(b));
    CR_TRY(build_backward(b));
    b->out->nresults = b->c->joint->nforward;
    b->out->nsaved = (uint32_t)(b->tensors.n + b->out->drawn.n);
    b->out->nnumbers = (uint32_t)(b->numbers.n + b->symbols.n);
    CR_TRY(note_saved(b));
    return note_nodes(b);
}

cr_status cr__parts_build(const cr__choice *c, cr_parts *out) {
    builder b = { .c = c, .from = c->joint->graph, .out = out };
    cr_arena_init(&b.arena);
    cr_status status = build(&b);
    cr_vec_dispose(&b.tensors);
    cr_vec_dispose(&b.numbers);
    cr_vec_dispose(&b.symbols);
    cr_vec_dispose(&b.stack);
    cr_arena_dispose(&b.arena);
    return status;
}

void cr_parts_dispose(cr_parts *p) {
    cr_graph_release(p->forward);
    cr_graph_release(p->backward);
    cr_vec_dispose(&p->saved);
    cr_vec_dispose(&p->drawn);
    cr_vec_dispose(&p->recomputed);
    cr_arena_dispose(&p->arena);
    *p = (cr_parts){ .forward = NULL };
}

void cr_parts_report(const cr_parts *p, cr_str *out) {
    cr_str_addf(out, "saved: %lld bytes\n", (long long)p->saved_bytes);
    for (size_t i = 0; i < p->saved.n; i++)
        if (!p->saved.at[i].input)
            cr_str_addf(out, "  %%%s  %s  %lld bytes\n", p->saved.at[i].name, p->saved.at[i].op,
                        (long long)p->saved.at[i].bytes);
    cr_str_addf(out, "computed again: %lld FLOPs of %lld, about %.3g ms\n", (long long)p->recomputed_flops,
                (long long)p->forward_flops, 1e3 * p->seconds);
    for (size_t i = 0; i < p->recomputed.n; i++)
        cr_str_addf(out, "  %%%s  %s  %lld bytes, %lld FLOPs\n", p->recomputed.at[i].name, p->recomputed.at[i].op,
                    (long long)p->recomputed.at[i].bytes, (long long)p->recomputed.at[i].flops);
}

static void add_text(cr_json_writer *w, const char *key, const char *text) {
    cr_json_key(w, key);
    cr_json_string(w, text, strlen(text));
}

static void add_number(cr_json_writer *w, const char *key, int64_t n) {
    cr_json_key(w, key);
    cr_json_int(w, n);
}

void cr_parts_report_json(const cr_parts *p, cr_str *out) {
    cr_json_writer w;
    cr_json_writer_init(&w, out, 0);
    cr_json_open(&w, '{');
    add_number(&w, "saved_bytes", p->saved_bytes);
    add_number(&w, "forward_flops", p->forward_flops);
    add_number(&w, "backward_flops", p->backward_flops);
    add_number(&w, "recomputed_flops", p->recomputed_flops);
    cr_json_key(&w, "recomputed_seconds");
    cr_json_float(&w, p->seconds);
    cr_json_key(&w, "saved");
    cr_json_open(&w, '[');
    for (size_t i = 0; i < p->saved.n; i++) {
        cr_json_open(&w, '{');
        add_text(&w, "name", p->saved.at[i].name);
        add_text(&w, "op", p->saved.at[i].op);
        add_number(&w, "bytes", p->saved.at[i].bytes);
        cr_json_close(&w, '}');
    }
    cr_json_close(&w, ']');
    cr_json_key(&w, "recomputed");
    cr_json_open(&w, '[');
    for (size_t i = 0; i < p->recomputed.n; i++) {
        cr_json_open(&w, '{');
        add_text(&w, "name", p->recomputed.at[i].name);
        add_text(&w, "op", p->recomputed.at[i].op);
        add_number(&w, "bytes", p->recomputed.at[i].bytes);
        add_number(&w, "flops", p->recomputed.at[i].flops);
        cr_json_close(&w, '}');
    }
    cr_json_close(&w, ']');
    cr_json_close(&w, '}');
}
