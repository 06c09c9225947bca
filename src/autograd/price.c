/* price.c: what keeping a value costs, and what computing it again does.
 *
 * Time is a processor's, one thread, in picoseconds, and only its order of magnitude matters. A loop over numbers in
 * memory costs what reading and writing them does; sums and products of them come for nothing, an exponential costs as
 * much again. What runs inside of its reader's loop is not even written. Products, convolutions and attention cost
 * their FLOPs at the rate that the kernels reach. A kernel that nothing is known of (a sort, a factorisation, a
 * pooling) costs so much an element that it is computed again only if the budget leaves no other way. Sizes that are
 * symbols count as their hints, those without a hint as `unknown_size`. */
#include "autograd/partition.h"
#include "graph/writes.h"
#include "passes/passes.h"

enum {
    flops_per_nanosecond = 100,
    arithmetic = 10, /* an addition: its operands are read in any case */
    function = 200,  /* an exponential */
    movement = 500,  /* a write and a read of four bytes */
    draw = 3000,     /* a random number */
    product = 4000,  /* at least, an element of the result: operands are packed */
    unknown = 20000,
    unknown_size = 4096,
};

/* Sums of hints stay far from what a flow may add up to. */
static const int64_t most = (int64_t)1 << 44;

static int64_t times(int64_t a, int64_t b) {
    int64_t r;
    return cr_mul_overflow(a, b, &r) || r > most ? most : r;
}

static int64_t size_hint(const cr_graph *g, cr_dim d) {
    int64_t hint;
    return cr_dim_hint(cr_graph_env(g), d, &hint) ? CR_MAX(hint, 0) : unknown_size;
}

static int64_t count(const cr_graph *g, const cr_meta *m) {
    int64_t n = 1;
    for (int d = 0; m && d < m->rank; d++) n = times(n, size_hint(g, m->size[d]));
    return m ? n : 0;
}

static int64_t last_size(const cr_graph *g, const cr_meta *m, int from_end) {
    return m && m->rank >= from_end ? size_hint(g, m->size[m->rank - from_end]) : 1;
}

int64_t cr__value_bytes(const cr_graph *g, uint32_t value) {
    const cr_value *v = cr_graph_value(g, value);
    if (v->type != CR_T_TENSOR) return 8;
    return v->meta ? times(count(g, v->meta), cr_dtype_size(v->meta->dtype)) : 0;
}

typedef struct search {
    const cr_graph *g;
    uint64_t storage;
    uint32_t found;
} search;

static void see_storage(void *user, uint32_t value) {
    search *s = user;
    const cr_meta *m = cr_graph_value(s->g, value)->meta;
    if (s->found == CR_NO_VALUE && m && m->storage == s->storage) s->found = value;
}

uint32_t cr__value_shows(const cr_graph *g, uint32_t value) {
    const cr_value *v = cr_graph_value(g, value);
    const cr_node *node = cr_graph_node(g, v->node);
    if (node->kind != CR_NODE_CALL || !v->meta || !v->meta->storage) return CR_NO_VALUE;
    search s = { g, v->meta->storage, CR_NO_VALUE };
    cr_args_visit_values(node->args, node->nargs, see_storage, &s);
    return s.found;
}

bool cr__value_is_view(const cr_graph *g, uint32_t value) { return cr__value_shows(g, value) != CR_NO_VALUE; }

/* ---- FLOPs ---- */

static const cr_meta *arg_meta(const cr_graph *g, const cr_node *node, int i) {
    const cr_arg *a = i < node->nargs ? &node->args[i] : NULL;
    return a && a->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)a->u.i)->meta : NULL;
}

/* One number of the result for each filter. */
static int64_t convolution(const cr_graph *g, const cr_meta *weight, const cr_meta *pixels) {
    int64_t filters = weight && weight->rank ? CR_MAX(size_hint(g, weight->size[0]), 1) : 1;
    return times(2 * count(g, pixels), count(g, weight) / filters);
}

static int64_t convolution_forward(const cr_graph *g, const cr_node *node) {
    bool transposed = node->nargs > 6 && node->args[6].kind == CR_ARG_BOOL && node->args[6].u.i;
    const cr_meta *result = cr_graph_value(g, node->first)->meta;
    return convolution(g, arg_meta(g, node, 1), transposed ? arg_meta(g, node, 0) : result);
}

static int64_t convolution_backward(const cr_graph *g, const cr_node *node) {
    int64_t once = convolution(g, arg_meta(g, node, 2), arg_meta(g, node, 0)), sides = 0;
    const cr_arg *mask = &node->args[10];
    for (uint32_t i = 0; i < 2 && mask->kind == CR_ARG_LIST && i < mask->n; i++) sides += mask->u.list[i].u.i != 0;
    return times(once, sides);
}

/* Two products: scores, and what they weigh. */
static int64_t attention(const cr_graph *g, const cr_meta *query, const cr_meta *key, const cr_meta *value) {
    int64_t width = CR_MAX(last_size(g, query, 1), 1);
    return times(2 * count(g, query) / width * last_size(g, key, 2), width + last_size(g, value, 1));
}

static int64_t attention_forward(const cr_graph *g, const cr_node *node) {
    return attention(g, arg_meta(g, node, 0), arg_meta(g, node, 1), arg_meta(g, node, 2));
}

/* Five of them: scores again, the gradients of what they weighed, of themselves, of queries and keys. */
static int64_t attention_backward(const cr_graph *g, const cr_node *node) {
    return 5 * attention(g, arg_meta(g, node, 1), arg_meta(g, node, 2), arg_meta(g, node, 3)) / 2;
}

static const struct {
    const char *name;
    int64_t (*flops)(const cr_graph *g, const cr_node *node);
} heavy[] = {
    { "aten::convolution_backward", convolution_backward },
    { "aten::scaled_dot_product_attention", attention_forward },
    { "aten::_scaled_dot_product_flash_attention_for_cpu", attention_forward },
    { "aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward },
};

static int64_t flops(const cr_graph *g, const cr_node *node) {
    const cr_product *facts = &cr_op_facts(node->op)->product;
    if (facts->left)
        return times(2 * count(g, cr_graph_value(g, node->first)->meta),
                     last_size(g, arg_meta(g, node, facts->left - 1), 1));
    if (cr_op_facts(node->op)->role == CR_ROLE_CONVOLUTION) return convolution_forward(g, node);
    for (size_t i = 0; i < CR_COUNT(heavy); i++)
        if (cr_op_is(node->op, heavy[i].name)) return heavy[i].flops(g, node);
    return 0;
}

/* ---- time ---- */

/* Ops with kernels of their own that go over their numbers once or twice. */
static const char *const streams[] = {
    "aten::native_layer_norm",
    "aten::native_group_norm",
    "aten::_native_batch_norm_legit_functional",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit.no_stats",
    "aten::_native_batch_norm_legit_no_training",
    "aten::native_batch_norm",
    "aten::_fused_rms_norm",
    "aten::_softmax",
    "aten::_log_softmax",
    "aten::cat",
    "aten::stack",
    "aten::constant_pad_nd",
    "aten::slice_scatter",
    "aten::select_scatter",
    "aten::repeat",
    "aten::tril",
    "aten::triu",
};
/* Those that read no more of their arguments than they give. */
static const char *const gathers[] = {
    "aten::embedding", "aten::index.Tensor", "aten::index_select",      "aten::gather",
    "aten::arange",    "aten::arange.start", "aten::arange.start_step",
};
/* What a pointwise text may call that takes as long as a trip to memory. */
static const char *const functions[] = { "exp", "log", "sin", "cos", "tan", "erf", "pow", "sigmoid", "gamma" };

static bool is_among(const cr_op *op, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (cr_op_is(op, names[i])) return true;
    return false;
}

static bool is_gather(const cr_op *op) { return is_among(op, gathers, CR_COUNT(gathers)); }

static bool is_stream(const cr_op *op) {
    const cr_row *facts = cr_op_facts(op);
    /* a view that had to be copied, too */
    if (facts->view || facts->copy || facts->reduce.kind || (op->tags & (CR_TAG_REDUCTION | CR_TAG_COMPOSITE)))
        return true;
    return is_gather(op) || is_among(op, streams, CR_COUNT(streams));
}

static int64_t rate(const cr_op *op) {
    const char *text = op->base->row->scalar;
    if (op->base->tags & CR_TAG_RANDOM) return draw;
    if (!(op->tags & CR_TAG_POINTWISE)) return is_stream(op) ? movement : unknown;
    for (size_t i = 0; text && i < CR_COUNT(functions); i++)
        if (strstr(text, functions[i])) return function;
    return text ? arithmetic : function;
}

typedef struct reads {
    const cr_graph *g;
    int64_t elements;
} reads;

static void see_read(void *user, uint32_t value) {
    reads *r = user;
    r->elements = CR_MIN(r->elements + count(r->g, cr_graph_value(r->g, value)->meta), most);
}

/* Of what it makes, or with `read` of what it reads, where that is more. */
static int64_t elements(const cr_graph *g, const cr_node *node, bool read) {
    int64_t made = 0;
    for (uint32_t i = 0; i < node->nvalues; i++)
        made = CR_MIN(made + count(g, cr_graph_value(g, node->first + i)->meta), most);
    if (!read) return made;
    reads r = { g, 0 };
    cr_args_visit_values(node->args, node->nargs, see_read, &r);
    return CR_MAX(made, r.elements);
}

static bool makes_memory(const cr_graph *g, const cr_node *node) {
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (cr_graph_value(g, node->first + i)->type == CR_T_TENSOR && !cr__value_is_view(g, node->first + i))
            return true;
    return false;
}

void cr__node_price(const cr_graph *g, const cr_node *node, cr_price *out) {
    *out = (cr_price){ .flops = 0 };
    if (node->kind != CR_NODE_CALL) return;
    out->draws = cr_node_only_draws(g, node);
    out->never = !out->draws && !cr_node_is_pure(g, node);
    if (!makes_memory(g, node) || cr_op_facts(node->op)->fill) return;
    out->flops = flops(g, node);
    if (!out->flops) {
        bool read = !(node->op->tags & CR_TAG_POINTWISE) && !is_gather(node->op);
        out->picoseconds = times(elements(g, node, read), rate(node->op));
        return;
    }
    out->picoseconds = CR_MAX(times(out->flops, 1000) / flops_per_nanosecond, times(elements(g, node, false), product));
}
