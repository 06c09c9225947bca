/* layout.c: a value in another layout, and the layout that numbers are drawn in.
 *
 * Passes may lay values out as they like where values alone count. Two things keep theirs: outputs, and what random ops
 * read, because numbers are drawn in memory order (docs/random.md): another order is another mask. */
#include "passes/internal.h"

bool cr__same_strides(cr_env *env, const cr_meta *a, const cr_meta *b, bool ones) {
    for (int d = 0; d < a->rank; d++) {
        if (ones && cr_dim_known(env, a->size[d], CR_EQ, 1) == CR_YES) continue;
        if (cr_dim_known(env, a->stride[d], CR_EQ, b->stride[d]) != CR_YES) return false;
    }
    return a->rank == b->rank;
}

bool cr__layout_can_restore(cr_env *env, const cr_meta *was) {
    cr_memory_format format = was ? cr_meta_suggest_format(env, was) : CR_PRESERVE;
    return was && (format == CR_CONTIGUOUS || format == CR_CHANNELS_LAST) &&
           cr_meta_is_contiguous(env, was, format) == CR_YES;
}

/* Strides of dimensions with one element differ, and nothing else: a view says so. */
static cr_status restride(cr_rewriter *w, cr_arg made, const cr_meta *was, cr_arg *out) {
    cr_arg size[CR_MAX_RANK], stride[CR_MAX_RANK];
    for (int d = 0; d < was->rank; d++) {
        size[d] = cr_arg_int(was->size[d]);
        stride[d] = cr_arg_int(was->stride[d]);
    }
    cr_arg args[] = { made, cr_arg_list(size, was->rank), cr_arg_list(stride, was->rank) };
    return cr_rewrite_call(w, "aten::as_strided", args, 3, out);
}

static bool is_plain(const cr_meta *m) {
    for (int d = 0; d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d]) || !cr_dim_is_plain(m->stride[d])) return false;
    return true;
}

static cr_status permute(cr_rewriter *w, cr_arg made, const int *order, int rank, cr_arg *out) {
    cr_arg dims[CR_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = cr_arg_int(order[d]);
    return cr_rewrite_call(w, "aten::permute", (cr_arg[]){ made, cr_arg_list(dims, (size_t)rank) }, 2, out);
}

/* A row-major copy of the dimensions in the order in which `was` has them in memory. */
static cr_status permuted_copy(cr_rewriter *w, cr_arg made, const cr_meta *was, cr_arg *out) {
    int order[CR_MAX_RANK], back[CR_MAX_RANK];
    if (!cr_meta_find_order(cr_graph_env(cr_rewrite_graph(w)), was, order))
        return CR_FAIL(CR_EUNSUPPORTED,
                       "the strides of '%s' depend on sizes in a way that no copy can have; call .contiguous() on it "
                       "before numbers are drawn",
                       cr_graph_value(cr_rewrite_graph(w), (uint32_t)made.u.i)->name);
    for (int d = 0; d < was->rank; d++) back[order[d]] = d;
    CR_TRY(permute(w, made, order, was->rank, out));
    cr_arg args[] = { *out, { .kind = CR_ARG_FORMAT, .given = 2, .u.i = CR_CONTIGUOUS } };
    CR_TRY(cr_rewrite_call(w, "aten::clone", args, 2, out));
    return permute(w, *out, back, was->rank, out);
}

cr_status cr__layout_restore(cr_rewriter *w, cr_arg made, const cr_meta *was, cr_arg *out, bool *same) {
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    const cr_meta *is = cr_rewrite_meta(w, &made);
    *same = cr__same_strides(env, is, was, false);
    *out = made;
    if (*same) return CR_OK;
    if (cr__same_strides(env, is, was, true) && is_plain(was)) return restride(w, made, was, out);
    cr_memory_format format = cr_meta_suggest_format(env, was);
    if (cr_meta_is_contiguous(env, was, format) != CR_YES) return permuted_copy(w, made, was, out);
    cr_arg args[] = { made, { .kind = CR_ARG_FORMAT, .given = 2, .u.i = format } };
    return cr_rewrite_call(w, "aten::clone", args, 2, out);
}

cr_status cr__layout_for_draws(cr_rewriter *w, const cr_meta *was, cr_arg *arg) {
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    const cr_meta *is = cr_rewrite_meta(w, arg);
    cr_meta drawn, now;
    bool same;
    if (!was || !is || was->rank != is->rank) return CR_OK;
    drawn = *was, now = *is;
    cr_layout_like(env, was, &drawn);
    cr_layout_like(env, is, &now);
    if (cr__same_strides(env, &drawn, &now, true)) return CR_OK;
    uint8_t given = arg->given;
    CR_TRY(cr__layout_restore(w, *arg, &drawn, arg, &same));
    arg->given = given;
    return CR_OK;
}

static int tensor_count(const cr_rewriter *w, const cr_op *op, const cr_arg *args) {
    int n = 0;
    for (uint16_t i = 0; i < op->schema.nparams; i++) n += cr_rewrite_meta(w, &args[i]) != NULL;
    return n;
}

static cr_status draw_strided(cr_rewriter *w, const cr_op *op, const cr_meta *into, const cr_arg *args,
                              cr_arg *results) {
    cr_arg stride[CR_MAX_RANK];
    for (int d = 0; d < into->rank; d++) stride[d] = cr_arg_int(into->stride[d]);
    cr_arg given[CR_MAX_PARAMS + 1] = { args[0], cr_arg_list(stride, into->rank) };
    memcpy(given + 2, args + 1, (op->schema.nparams - 1u) * sizeof *given);
    return cr_rewrite_op(w, cr_op_find(op->row->strided), given, results);
}

cr_status cr__layout_draw(cr_rewriter *w, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_arg given[CR_MAX_PARAMS];
    cr_meta like = *cr_rewrite_meta(w, &args[0]);
    int order[CR_MAX_RANK], back[CR_MAX_RANK];
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    if (op->row && op->row->strided && cr_meta_is_contiguous(env, &like, CR_CONTIGUOUS) != CR_YES)
        return draw_strided(w, op, &like, args, results);
    cr_layout_like(env, cr_rewrite_meta(w, &args[0]), &like);
    bool plain = like.rank < 2 || cr_meta_is_contiguous(env, &like, CR_CONTIGUOUS) == CR_YES;
    if (plain || tensor_count(w, op, args) > 1 || !cr_meta_find_order(env, &like, order))
        return cr_rewrite_op(w, op, args, results);
    for (int d = 0; d < like.rank; d++) back[order[d]] = d;
    memcpy(given, args, op->schema.nparams * sizeof *given);
    CR_TRY(permute(w, args[0], order, like.rank, &given[0]));
    CR_TRY(cr_rewrite_op(w, op, given, results));
    return permute(w, results[0], back, like.rank, &results[0]);
}
