/* partition.c: who computes what, as a minimum cut.
 *
 * The network has a node for each node of the joint graph that depends on no tangent (where it is computed) and one for
 * each of its values (where it is known). On the sink's side means: in the backward part.
 *
 *     source -> N       price of computing N again; paid where N is on the sink's side. Of random numbers also
 *                       lambda * the bytes of the generator's state, which is saved for it
 *     N -> v            lambda * bytes of v; paid where v is known there and N is not computed there: v is saved
 *     v -> M            infinite, for each M that reads v: whoever computes M there must know v there
 *     v -> sink         infinite, for each v that a node which depends on a tangent reads
 *
 * Views are never saved, the memory that they show is. Primals that nobody writes are kept by the caller anyway, and
 * cost nothing; where the caller may write to them before the backward part runs, those without gradients that no
 * derivative reads are dearer than all else, so that something made of them is saved instead, as a tape would.
 * Constants are in both parts. What no forward result needs is computed once wherever it is, so that it
 * costs nothing in the backward part. */
#include "autograd/partition.h"
#include "graph/writes.h"
#include "runtime/rt_random.h"

#include <math.h>

/* A byte that is saved is worth so many picoseconds, here in units of 1 / `fine`: a number of four bytes as much as
 * writing and reading it three times. What goes over memory a few times is then computed again, and no product is. */
enum { fine = 16, usual_lambda = 400 * fine };

typedef struct cutter {
    const cr_joint *joint;
    const cr_graph *g;
    const cr_partition_options *options;
    cr_arena arena;
    uint32_t *order; /* node ids in order */
    uint32_t nnodes;
    bool *tangent;       /* per node: depends on one */
    bool *forward;       /* per node: a forward result, or an effect, needs it */
    bool *read;          /* per value: the backward part cannot do without */
    cr_price *price;     /* per node */
    int64_t *bytes;      /* per value; -1: it cannot be saved */
    bool *saved, *again; /* per value, per node: the choice */
    bool *dear;          /* per value: a primal that is saved only where there is no other way */
    uint32_t ndear;
    int shift; /* of all capacities, so that their sum stays below 2^60 */
    int64_t saved_bytes;
} cutter;

/* ---- sides ---- */

static cr_status list_nodes(cutter *c) {
    uint32_t limit = cr_graph_node_limit(c->g), nvalues = cr_graph_value_count(c->g);
    c->order = cr_arena_alloc(&c->arena, (limit + 1) * sizeof *c->order);
    c->tangent = cr_arena_calloc(&c->arena, limit + 1, sizeof *c->tangent);
    c->forward = cr_arena_calloc(&c->arena, limit + 1, sizeof *c->forward);
    c->again = cr_arena_calloc(&c->arena, limit + 1, sizeof *c->again);
    c->price = cr_arena_calloc(&c->arena, limit + 1, sizeof *c->price);
    c->read = cr_arena_calloc(&c->arena, nvalues + 1, sizeof *c->read);
    c->saved = cr_arena_calloc(&c->arena, nvalues + 1, sizeof *c->saved);
    c->bytes = cr_arena_calloc(&c->arena, nvalues + 1, sizeof *c->bytes);
    c->dear = cr_arena_calloc(&c->arena, nvalues + 1, sizeof *c->dear);
    if (!c->order || !c->tangent || !c->forward || !c->again || !c->price || !c->read || !c->saved || !c->bytes ||
        !c->dear)
        return CR_ENOMEM;
    for (uint32_t n = cr_graph_first(c->g); n != CR_NO_NODE; n = cr_graph_next(c->g, n)) c->order[c->nnodes++] = n;
    return CR_OK;
}

typedef struct depends {
    const cutter *c;
    bool yes;
} depends;

static void see_tangent(void *user, uint32_t value) {
    depends *d = user;
    d->yes |= d->c->tangent[cr_graph_value(d->c->g, value)->node];
}

static bool reads_tangent(const cutter *c, const cr_arg *args, size_t n) {
    depends d = { c, false };
    cr_args_visit_values(args, n, see_tangent, &d);
    return d.yes;
}

static void find_tangents(cutter *c) {
    uint32_t inputs = 0;
    for (uint32_t i = 0; i < c->nnodes; i++) {
        const cr_node *node = cr_graph_node(c->g, c->order[i]);
        if (node->kind == CR_NODE_PLACEHOLDER) c->tangent[c->order[i]] = inputs++ >= c->joint->nprimals;
        else if (node->kind == CR_NODE_CALL) c->tangent[c->order[i]] = reads_tangent(c, node->args, node->nargs);
    }
}

static void need_forward(void *user, uint32_t value) {
    cutter *c = user;
    c->forward[cr_graph_value(c->g, value)->node] = true;
}

static cr_status find_forward(cutter *c) {
    const cr_node *output = cr_graph_node(c->g, cr_graph_output(c->g));
    if (reads_tangent(c, output->args, c->joint->nforward))
        return CR_FAIL(CR_EVALUE, "a forward result of the joint graph depends on a tangent: it has no forward part");
    cr_args_visit_values(output->args, c->joint->nforward, need_forward, c);
    for (uint32_t i = c->nnodes; i-- > 0;) {
        const cr_node *node = cr_graph_node(c->g, c->order[i]);
        if (node->kind != CR_NODE_CALL || c->tangent[c->order[i]]) continue;
        c->forward[c->order[i]] |= !cr_node_is_pure(c->g, node); /* effects happen, and numbers are drawn, in order */
        if (c->forward[c->order[i]]) cr_args_visit_values(node->args, node->nargs, need_forward, c);
    }
    return CR_OK;
}

static void see_read(void *user, uint32_t value) {
    cutter *c = user;
    if (!c->tangent[cr_graph_value(c->g, value)->node]) c->read[value] = true;
}

/* What nodes with tangents read that gradients need, and gradients that depend on none. */
static cr_status find_reads(cutter *c) {
    const cr_node *output = cr_graph_node(c->g, cr_graph_output(c->g));
    bool *needed = cr_arena_calloc(&c->arena, cr_graph_node_limit(c->g) + 1, sizeof *needed);
    if (!needed) return CR_ENOMEM;
    cutter local = *c;
    local.forward = needed;
    cr_args_visit_values(output->args + c->joint->nforward, output->nargs - c->joint->nforward, see_read, c);
    cr_args_visit_values(output->args + c->joint->nforward, output->nargs - c->joint->nforward, need_forward, &local);
    for (uint32_t i = c->nnodes; i-- > 0;) {
        const cr_node *node = cr_graph_node(c->g, c->order[i]);
        if (node->kind != CR_NODE_CALL || !c->tangent[c->order[i]]) continue;
        if (!needed[c->order[i]] && cr_node_is_pure(c->g, node)) continue;
        cr_args_visit_values(node->args, node->nargs, need_forward, &local);
        cr_args_visit_values(node->args, node->nargs, see_read, c);
    }
    return CR_OK;
}

/* ---- prices ---- */

static void price_value(cutter *c, const cr_node *node, uint32_t value) {
    const cr_value *v = cr_graph_value(c->g, value);
    if (node->kind == CR_NODE_PLACEHOLDER) c->bytes[value] = v->type == CR_T_TENSOR ? 0 : 8;
    else if (node->kind == CR_NODE_GET_ATTR || cr__value_is_view(c->g, value)) c->bytes[value] = -1;
    else c->bytes[value] = cr__value_bytes(c->g, value);
}

static cr_policy policy_of(const cutter *c, uint32_t id) {
    if (c->options->policy && c->options->policy[id]) return (cr_policy)c->options->policy[id];
    uint8_t said = id < c->joint->forward_nodes ? cr_graph_node(c->g, id)->origin.policy : CR_POLICY_FREE;
    if (said) return (cr_policy)said;
    for (size_t i = 0; i < c->joint->checkpoints.n; i++)
        if (id >= c->joint->checkpoints.at[i].first && id < c->joint->checkpoints.at[i].end) return CR_POLICY_RECOMPUTE;
    return CR_POLICY_FREE;
}

static void apply_policy(cutter *c, uint32_t id, const cr_node *node) {
    cr_policy policy = policy_of(c, id);
    cr_price *price = &c->price[id];
    bool shows = false; /* it makes a view: which is free, and never saved itself */
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) shows |= c->bytes[v] < 0;
    if (shows) return;
    if (policy == CR_POLICY_SAVE || (c->options->kind == CR_PARTITION_DEFAULT && c->forward[id]))
        price->never |= node->kind == CR_NODE_CALL;
    if (policy != CR_POLICY_RECOMPUTE || price->never) return;
    price->picoseconds = 0;
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) c->bytes[v] = -1;
}

static int64_t state_bytes(const cr_price *price) { return price->draws ? RT_GENERATOR_STATE_BYTES : 0; }

/* Numbers that take no more room than the state that they are drawn from are better kept. */
static void price_draw(cutter *c, uint32_t id, const cr_node *node) {
    cr_price *price = &c->price[id];
    int64_t bytes = 0;
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) bytes += CR_MAX(c->bytes[v], 0);
    if (price->draws && (c->options->keep_draws || bytes <= state_bytes(price))) price->never = true;
}

static void price_all(cutter *c) {
    for (uint32_t i = 0; i < c->nnodes; i++) {
        uint32_t id = c->order[i];
        const cr_node *node = cr_graph_node(c->g, id);
        if (c->tangent[id] || node->kind == CR_NODE_OUTPUT) continue;
        cr__node_price(c->g, node, &c->price[id]);
        if (node->kind == CR_NODE_PLACEHOLDER) c->price[id].never = true;
        if (!c->forward[id] && !c->price[id].never) c->price[id].picoseconds = 0;
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) price_value(c, node, v);
        price_draw(c, id, node);
        apply_policy(c, id, node);
    }
}

/* Whoever reads a view reads the memory that it shows. */
static void see_kept(void *user, uint32_t value) {
    cutter *c = user;
    uint32_t root = value;
    for (uint32_t of = value; of != CR_NO_VALUE; of = cr__value_shows(c->g, of)) root = of;
    c->dear[root] = false;
}

/* Derivatives are the nodes with tangents, and those that no forward result needs. */
static void find_dear(cutter *c) {
    const cr_node *output = cr_graph_node(c->g, cr_graph_output(c->g));
    uint32_t nvalues = cr_graph_value_count(c->g), at = c->joint->nforward;
    for (uint32_t i = 0; i < c->nnodes; i++) {
        const cr_node *node = cr_graph_node(c->g, c->order[i]);
        if (node->kind != CR_NODE_PLACEHOLDER || c->tangent[c->order[i]]) continue;
        c->dear[node->first] = cr_graph_value(c->g, node->first)->type == CR_T_TENSOR && at < output->nargs &&
                               output->args[at].kind == CR_ARG_NONE;
        at++;
    }
    for (uint32_t v = 0; v < nvalues; v++)
        if (c->read[v]) see_kept(c, v);
    for (uint32_t i = 0; i < c->nnodes; i++) {
        const cr_node *node = cr_graph_node(c->g, c->order[i]);
        bool derives = node->kind == CR_NODE_CALL && !c->forward[c->order[i]] && !c->tangent[c->order[i]];
        if (derives) cr_args_visit_values(node->args, node->nargs, see_kept, c);
    }
    for (uint32_t v = 0; v < nvalues; v++) c->ndear += c->dear[v];
}

/* ---- the network ---- */

static int64_t shifted(double capacity, int shift) { return (int64_t)ldexp(capacity, -shift); }

/* Layers that are alike cost alike, and all of them would be saved or none: the earlier ones are made a little cheaper,
 * so that budgets take them one by one. */
static double price_of(const cutter *c, uint32_t id) {
    return (double)c->price[id].picoseconds * fine * (1 + 0.05 * id / cr_graph_node_limit(c->g));
}

static int64_t computing(const cutter *c, uint32_t id, int64_t lambda) {
    return shifted(price_of(c, id) + (double)state_bytes(&c->price[id]) * (double)lambda, c->shift);
}

static int64_t keeping(const cutter *c, uint32_t value, int64_t lambda) {
    return shifted((double)c->bytes[value] * (double)lambda, c->shift);
}

/* All finite capacities together; *bytes: their part at lambda 1. */
static double sum_capacities(const cutter *c, int64_t lambda, double *bytes) {
    double time = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < c->nnodes; i++) {
        const cr_node *node = cr_graph_node(c->g, c->order[i]);
        const cr_price *price = &c->price[c->order[i]];
        if (!price->never) time += price_of(c, c->order[i]);
        if (!price->never) *bytes += (double)state_bytes(price);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) *bytes += (double)CR_MAX(c->bytes[v], 0);
    }
    return time + *bytes * (double)lambda;
}

typedef struct network {
    cutter *c;
    cr_flow flow;
    uint32_t nodes, values; /* where those of the graph begin */
    uint32_t reader;
    int64_t dear, endless; /* more than everything that has a price, and than that and all that is dear */
    cr_status status;
} network;

enum { SOURCE, SINK, FIRST };

static void add_read(void *user, uint32_t value) {
    network *n = user;
    if (!n->status) n->status = cr_flow_edge(&n->flow, n->values + value, n->reader, n->endless);
}

static cr_status add_node(network *n, uint32_t id, int64_t lambda) {
    const cutter *c = n->c;
    const cr_node *node = cr_graph_node(c->g, id);
    const cr_price *price = &c->price[id];
    int64_t again = price->never ? n->endless : computing(c, id, lambda);
    if (again) CR_TRY(cr_flow_edge(&n->flow, SOURCE, n->nodes + id, again));
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
        int64_t keep = c->bytes[v] < 0 ? n->endless : c->dear[v] ? n->dear : keeping(c, v, lambda);
        if (keep) CR_TRY(cr_flow_edge(&n->flow, n->nodes + id, n->values + v, keep));
        if (c->read[v]) CR_TRY(cr_flow_edge(&n->flow, n->values + v, SINK, n->endless));
    }
    n->reader = n->nodes + id;
    cr_args_visit_values(node->args, node->nargs, add_read, n);
    return n->status;
}

static void read_sides(cutter *c, const network *n) {
    c->saved_bytes = 0;
    for (uint32_t i = 0; i < c->nnodes; i++) {
        uint32_t id = c->order[i];
        const cr_node *node = cr_graph_node(c->g, id);
        if (c->tangent[id] || node->kind == CR_NODE_OUTPUT) continue;
        c->again[id] = cr_flow_needs(&n->flow, n->nodes + id);
        if (c->again[id]) c->saved_bytes += state_bytes(&c->price[id]);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            c->saved[v] = !c->again[id] && cr_flow_needs(&n->flow, n->values + v);
            if (c->saved[v]) c->saved_bytes += c->bytes[v];
        }
    }
}

static cr_status cut(cutter *c, int64_t lambda) {
    network n = { .c = c, .nodes = FIRST, .values = FIRST + cr_graph_node_limit(c->g) };
    double bytes, all = sum_capacities(c, lambda, &bytes);
    for (c->shift = 0; ldexp(all, -c->shift) * (c->ndear + 1.0) >= 0x1p60;) c->shift++;
    n.dear = shifted(all, c->shift) + 1;
    n.endless = n.dear * (c->ndear + 1);
    CR_TRY(cr_flow_init(&n.flow, n.values + cr_graph_value_count(c->g)));
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < c->nnodes && !status; i++)
        if (!c->tangent[c->order[i]] && cr_graph_node(c->g, c->order[i])->kind != CR_NODE_OUTPUT)
            status = add_node(&n, c->order[i], lambda);
    if (!status && cr_flow_run(&n.flow, SOURCE, SINK) >= n.endless)
        status = CR_FAIL(CR_EUNSUPPORTED, "the backward part needs a value that can neither be saved nor computed "
                                          "again; let its checkpoint policy save it");
    if (!status) read_sides(c, &n);
    cr_flow_dispose(&n.flow);
    return status;
}

/* The smallest lambda, within a part in ten thousand, at which no more bytes are saved than the budget allows. */
static cr_status cut_within_budget(cutter *c) {
    double bytes, time = sum_capacities(c, 0, &bytes);
    int64_t low = usual_lambda, high = (int64_t)CR_MIN(time, 0x1p50) + 2 * low; /* a byte outweighs all time there is */
    CR_TRY(cut(c, low));
    int64_t allowed = (int64_t)(c->options->budget * (double)c->saved_bytes);
    if (c->saved_bytes <= allowed) return CR_OK;
    CR_TRY(cut(c, high));
    if (c->saved_bytes > allowed) return CR_OK; /* as little as there can be */
    while (high - low > low / 10000) {
        int64_t middle = low > high / 4 ? low + (high - low) / 2 : (int64_t)sqrt((double)low * (double)high);
        CR_TRY(cut(c, middle));
        if (c->saved_bytes <= allowed) high = middle;
        else low = middle;
    }
    return cut(c, high);
}

static cr_status choose(cutter *c, cr_parts *out) {
    CR_TRY(list_nodes(c));
    find_tangents(c);
    CR_TRY(find_forward(c));
    CR_TRY(find_reads(c));
    price_all(c);
    if (c->options->inputs_change) find_dear(c);
    CR_TRY(cut_within_budget(c));
    return cr__parts_build(&(cr__choice){ c->joint, c->tangent, c->forward, c->again, c->saved, c->price, c->bytes },
                           out);
}

cr_status cr_partition(const cr_joint *joint, const cr_partition_options *options, cr_parts *out) {
    static const cr_partition_options usual = { .budget = 1 };
    cutter c = { .joint = joint, .g = joint->graph, .options = options ? options : &usual };
    *out = (cr_parts){ .forward = NULL };
    if (!(c.options->budget >= 0 && c.options->budget <= 1))
        return CR_FAIL(CR_EVALUE,
                       "activation_memory_budget is %g; it is a fraction from 0 (compute everything again) "
                       "to 1 (the minimum cut)",
                       c.options->budget);
    cr_arena_init(&c.arena);
    cr_arena_init(&out->arena);
    cr_status status = choose(&c, out);
    cr_arena_dispose(&c.arena);
    if (status) cr_parts_dispose(out);
    return status;
}
