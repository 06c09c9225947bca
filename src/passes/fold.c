/* fold.c: calls on constants are made now, and become constants.
 *
 * A result may be as large as the constants it is made of, or 64 KB: an artifact must not grow by what one call can
 * expand. Views are free. Small results of calls without tensors (arange, zeros) count as constants where something is
 * computed from them, but stay calls themselves: as index expressions they cost no memory at all. A call that fails is
 * left to fail in a run. */
#include "graph/writes.h"
#include "passes/internal.h"

enum { FOLD_LIMIT = 64 << 10 };

cr_status cr__evaluate(const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    *mode = (cr_call_mode){ .depth = saved.depth + 1 };
    cr_status status = cr_call(op, args, results);
    *mode = saved;
    return status;
}

typedef struct folding {
    cr_rewriter *w;
    cr_arena arena;
    int64_t bytes;
    bool tensors;
    CR_VEC(cr_tensor *) made;
} folding;

static bool is_plain(const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && !is_plain(args[i].u.list, args[i].n)) return false;
        if (args[i].kind == CR_ARG_VALUE || args[i].kind == CR_ARG_SYM || args[i].kind == CR_ARG_GRAPH ||
            args[i].kind == CR_ARG_GENERATOR)
            return false;
        if (args[i].kind == CR_ARG_INT && !cr_dim_is_plain(args[i].u.i)) return false;
    }
    return true;
}

/* Bytes of a value of a known size; -1: not known. */
static int64_t bytes_of(const cr_meta *meta) {
    int64_t bytes = rt_itemsize(meta->dtype);
    for (int d = 0; d < meta->rank; d++)
        if (!cr_dim_is_plain(meta->size[d]) || cr_mul_overflow(bytes, meta->size[d], &bytes)) return -1;
    return bytes;
}

/* A small tensor that a call without tensors makes. */
static cr_status evaluate_factory(folding *f, const cr_arg *a, cr_tensor **out) {
    const cr_node *node = cr_rewrite_producer(f->w, a, NULL);
    if (!node || node->nvalues != 1 || !cr_node_is_pure(cr_rewrite_graph(f->w), node) ||
        !is_plain(node->args, node->nargs))
        return CR_OK;
    int64_t bytes = bytes_of(cr_rewrite_meta(f->w, a));
    if (bytes < 0 || bytes > FOLD_LIMIT) return CR_OK;
    cr_arg result = cr_arg_none();
    CR_TRY(cr_vec_reserve(&f->made, f->made.n + 1));
    cr_status status = cr__evaluate(node->op, node->args, &result);
    if (status) return status == CR_ENOMEM ? status : CR_OK;
    if (result.kind != CR_ARG_TENSOR) return cr_results_release(&result, 1), CR_OK;
    *out = f->made.at[f->made.n++] = result.u.t;
    return CR_OK;
}

/* The arguments as real tensors and plain numbers; *ready: all of them are known. */
static cr_status known_args(folding *f, const cr_arg *from, size_t n, cr_arg *to, bool *ready) {
    for (size_t i = 0; i < n && *ready; i++) {
        to[i] = from[i];
        if (from[i].kind == CR_ARG_LIST) {
            cr_arg *items = cr_arena_alloc(&f->arena, (from[i].n + 1) * sizeof *items);
            if (!items) return CR_ENOMEM;
            CR_TRY(known_args(f, from[i].u.list, from[i].n, items, ready));
            to[i].u.list = items;
        } else if (from[i].kind == CR_ARG_VALUE && cr_rewrite_meta(f->w, &from[i])) {
            cr_tensor *t = cr_rewrite_constant(f->w, &from[i]);
            if (!t) CR_TRY(evaluate_factory(f, &from[i], &t));
            if (!t) return *ready = false, CR_OK;
            f->tensors = true;
            /* an expanded view is no larger than what it repeats */
            f->bytes += CR_MIN(bytes_of(&t->meta), t->storage->bytes);
            to[i] = cr_arg_tensor(t);
        } else {
            *ready = is_plain(&from[i], 1);
        }
    }
    return CR_OK;
}

/* Are the results, views of arguments aside, small enough? */
static bool fits(const folding *f, const cr_node *node) {
    const cr_graph *g = cr_rewrite_source(f->w);
    int64_t total = 0;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(g, node->first + i);
        int64_t bytes = v->meta ? bytes_of(v->meta) : -1;
        if (bytes < 0) return false;
        if (!(node->op->base->tags & CR_TAG_VIEW)) total += bytes;
    }
    return total <= CR_MAX(f->bytes, FOLD_LIMIT);
}

static cr_status bind_results(cr_rewriter *w, const cr_node *node, const cr_arg *results, size_t n, uint32_t *at) {
    for (size_t i = 0; i < n; i++) {
        if (results[i].kind == CR_ARG_LIST) {
            CR_TRY(bind_results(w, node, results[i].u.list, results[i].n, at));
            continue;
        }
        cr_arg made = results[i];
        if (made.kind == CR_ARG_TENSOR)
            CR_TRY(cr_rewrite_add_constant(w, cr_graph_value(cr_rewrite_source(w), node->first + *at)->name, made.u.t,
                                           &made));
        CR_TRY(cr_rewrite_result(w, node, (*at)++, made));
    }
    return CR_OK;
}

static cr_status fold(folding *f, const cr_node *node, const cr_arg *args, bool *done) {
    cr_arg known[CR_MAX_PARAMS], results[16] = { { 0 } };
    bool ready = true;
    CR_TRY(known_args(f, args, node->nargs, known, &ready));
    if (!ready || !f->tensors || !fits(f, node)) return CR_OK;
    cr_status status = cr__evaluate(node->op, known, results);
    if (status) return status == CR_ENOMEM ? status : CR_OK;
    uint32_t at = 0;
    *done = true;
    status = bind_results(f->w, node, results, cr_result_count(node->op), &at);
    cr_results_release(results, cr_result_count(node->op));
    return status;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    if (!cr_node_is_pure(cr_rewrite_source(w), node)) return CR_OK;
    folding f = { .w = w };
    cr_arena_init(&f.arena);
    cr_status status = fold(&f, node, args, done);
    for (size_t i = 0; i < f.made.n; i++) cr_tensor_release(f.made.at[i]);
    cr_vec_dispose(&f.made);
    cr_arena_dispose(&f.arena);
    return status;
}

cr_status cr_pass_fold(const cr_graph *g, cr_graph **out) {
    return cr_rewrite(g, rule, NULL, out);
}
