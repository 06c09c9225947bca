/* view.c: views as steps: taken again, and undone. See view.h. */
#include "ops/view.h"

#include "runtime/kernels.h"

/* ---- undoing ---- */

/* Kinds that take a part of their argument: the rest of it is needed to put that part back. */
static bool takes_part(int kind) {
    return kind == CR_VIEW_SLICE || kind == CR_VIEW_SELECT || kind == CR_VIEW_DIAGONAL || kind == CR_VIEW_SPLIT ||
           kind == CR_VIEW_UNBIND || kind == CR_VIEW_STRIDED;
}

/* Are sizes, strides and offset all numbers? */
static bool is_plain(const cr_meta *m) {
    bool plain = cr_dim_is_plain(m->offset);
    for (int d = 0; d < m->rank; d++) plain = plain && cr_dim_is_plain(m->size[d]) && cr_dim_is_plain(m->stride[d]);
    return plain;
}

bool cr_view_can_undo(cr_env *env, const cr_view_step *s) {
    switch (cr_op_view(s->op)) {
    case CR_VIEW_NONE: return false;
    case CR_VIEW_STRIDED: return is_plain(s->from) && is_plain(s->to) && cr_meta_is_dense(env, s->from) == CR_YES &&
                                 cr_meta_self_overlap(s->to) == CR_NO;
    case CR_VIEW_SAME: case CR_VIEW_EXPAND: return cr_meta_equal(env, s->to, s->from); /* nothing was repeated */
    default: return true;
    }
}

static cr_arg sizes_of(const cr_meta *m, cr_arg *items) {
    for (int d = 0; d < m->rank; d++) items[d] = cr_arg_int(m->size[d]);
    return cr_arg_list(items, m->rank);
}

static cr_status reshape(cr_emitter *e, const cr_arg *x, const cr_meta *like, cr_arg *out) {
    cr_arg items[CR_MAX_RANK];
    return cr_emit_call(e, "aten::reshape", (cr_arg[]){ *x, sizes_of(like, items) }, 2, out);
}

/* The row's own inverse, with the view's further arguments behind `first`. */
static cr_status named(cr_emitter *e, const cr_view_step *s, const cr_arg *first, size_t n, cr_arg *out) {
    cr_arg args[CR_MAX_PARAMS + 2];
    for (size_t i = 0; i < n; i++) args[i] = first[i];
    for (uint16_t i = 1; i < s->op->schema.nparams; i++) args[n++] = s->args[i];
    return cr_emit_call(e, s->op->row->undo, args, n, out);
}

static cr_status permute_back(cr_emitter *e, const cr_view_step *s, const cr_arg *part, cr_arg *out) {
    int order[CR_MAX_RANK], rank = s->from->rank;
    cr_arg back[CR_MAX_RANK];
    if (s->op->row->undo) return named(e, s, part, 1, out);
    if (!cr_view_order(s->op, s->args, rank, order))
        return CR_FAIL(CR_EVALUE, "%s: its dimensions are not known", s->op->name);
    for (int d = 0; d < rank; d++) back[order[d]] = cr_arg_int(d);
    return cr_emit_call(e, "aten::permute", (cr_arg[]){ *part, cr_arg_list(back, (size_t)rank) }, 2, out);
}

static cr_status join_back(cr_emitter *e, const cr_view_step *s, const cr_arg *whole, const cr_arg *part, cr_arg *out) {
    cr_dim start = 0;
    int dim;
    CR_TRY(cr_wrap_dim(s->args[2].u.i, s->from->rank, &dim));
    for (uint32_t i = 0; i < s->result; i++) start = cr_dim_add(e->env, start, s->parts[i]->size[dim]);
    cr_dim end = cr_dim_add(e->env, start, s->to->size[dim]);
    cr_arg args[] = { *whole, *part, cr_arg_int(dim), cr_arg_int(start), cr_arg_int(end) };
    return cr_emit_call(e, "aten::slice_scatter", args, CR_COUNT(args), out);
}

/* ---- places in memory ---- */

static bool lies_alike(const cr_meta *a, const cr_meta *b) {
    for (int d = 0; d < b->rank; d++)
        if (a->size[d] > 1 && a->stride[d] != b->stride[d]) return false;
    return a->rank == b->rank;
}

/* `whole` in the layout that s->from has, and how far from it in memory: strides mean something there. */
static cr_status lay_out(cr_emitter *e, const cr_view_step *s, const cr_arg *whole, cr_arg *out, int64_t *shift) {
    const cr_meta *now;
    int order[CR_MAX_RANK], rank = s->from->rank;
    cr_arg dims[CR_MAX_RANK], back[CR_MAX_RANK];
    *out = *whole;
    CR_TRY(e->meta(e, whole, &now));
    if (now && lies_alike(now, s->from)) return *shift = now->offset - s->from->offset, CR_OK;
    for (int d = 0; d < rank; d++) { /* the largest stride first */
        int at = d;
        for (; at && s->from->stride[order[at - 1]] < s->from->stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    for (int d = 0; d < rank; d++) dims[d] = cr_arg_int(order[d]), back[order[d]] = cr_arg_int(d);
    cr_arg turned, dense, contiguous = { .kind = CR_ARG_FORMAT, .given = CR_GIVEN_KEYWORD, .u.i = CR_CONTIGUOUS };
    *shift = -s->from->offset;
    CR_TRY(cr_emit_call(e, "aten::permute", (cr_arg[]){ *whole, cr_arg_list(dims, (size_t)rank) }, 2, &turned));
    CR_TRY(cr_emit_call(e, "aten::clone", (cr_arg[]){ turned, contiguous }, 2, &dense));
    e->release(e, &turned, 1);
    cr_status status = cr_emit_call(e, "aten::permute", (cr_arg[]){ dense, cr_arg_list(back, (size_t)rank) }, 2, out);
    e->release(e, &dense, 1);
    return status;
}

/* as_strided of another whole, or the whole with `part` there. */
static cr_status place(cr_emitter *e, const cr_view_step *s, const cr_arg *whole, const cr_arg *part, cr_arg *out) {
    cr_arg size[CR_MAX_RANK], stride[CR_MAX_RANK], laid;
    int64_t shift;
    int rank = s->to->rank;
    CR_TRY(lay_out(e, s, whole, &laid, &shift));
    for (int d = 0; d < rank; d++) size[d] = cr_arg_int(s->to->size[d]), stride[d] = cr_arg_int(s->to->stride[d]);
    cr_arg args[] = { laid, part ? *part : laid, cr_arg_list(size, (size_t)rank), cr_arg_list(stride, (size_t)rank),
                      cr_arg_int(s->to->offset + shift) };
    if (!part) args[1] = args[0];
    cr_status status = cr_emit_call(e, part ? "aten::as_strided_scatter" : "aten::as_strided", part ? args : args + 1,
                                    part ? 5 : 4, out);
    if (laid.u.i != whole->u.i) e->release(e, &laid, 1);
    return status;
}

/* An inverse by name is used where it is asked for, unless the view did nothing (squeeze of a larger dimension). */
static bool undoes_by_name(const cr_view_step *s, int flags) {
    int kind = cr_op_view(s->op);
    if (!(flags & CR_UNDO_NAMED) || !s->op->row->undo || takes_part(kind)) return false;
    return kind != CR_VIEW_ONES || s->from->rank != s->to->rank;
}

bool cr_view_undo_reads(const cr_view_step *s, int flags) {
    return !undoes_by_name(s, flags) && takes_part(cr_op_view(s->op));
}

cr_status cr_view_undo(cr_emitter *e, const cr_view_step *s, int flags, const cr_arg *whole, const cr_arg *part,
                       cr_arg *out) {
    if (undoes_by_name(s, flags)) return named(e, s, part, 1, out);
    switch (cr_op_view(s->op)) {
    case CR_VIEW_SAME: case CR_VIEW_EXPAND: *out = *part; return CR_OK;
    case CR_VIEW_RESHAPE: case CR_VIEW_ONES: return reshape(e, part, s->from, out);
    case CR_VIEW_PERMUTE: return permute_back(e, s, part, out);
    case CR_VIEW_SLICE: case CR_VIEW_SELECT: case CR_VIEW_DIAGONAL:
        return named(e, s, (cr_arg[]){ *whole, *part }, 2, out);
    case CR_VIEW_UNBIND: {
        cr_arg args[] = { *whole, *part, s->args[1], cr_arg_int(s->result) };
        return cr_emit_call(e, "aten::select_scatter", args, CR_COUNT(args), out);
    }
    case CR_VIEW_SPLIT: return join_back(e, s, whole, part, out);
    case CR_VIEW_STRIDED: return place(e, s, whole, part, out);
    default: return CR_FAIL(CR_EVALUE, "%s cannot be undone", s->op->name);
    }
}

/* ---- taking ---- */

cr_status cr_view_take(cr_emitter *e, const cr_view_step *s, const cr_arg *whole, cr_arg *out) {
    cr_arg args[CR_MAX_PARAMS], results[16] = { { 0 } };
    if (cr_op_view(s->op) == CR_VIEW_STRIDED && is_plain(s->from) && is_plain(s->to) &&
        cr_meta_is_dense(e->env, s->from) == CR_YES)
        return place(e, s, whole, NULL, out);
    for (uint16_t i = 0; i < s->op->schema.nparams; i++) args[i] = i ? s->args[i] : *whole;
    cr_status status = e->call(e, s->op, args, results);
    int kind = cr_op_view(s->op);
    if (status && status != CR_ENOMEM && (kind == CR_VIEW_RESHAPE || kind == CR_VIEW_ONES))
        return reshape(e, whole, s->to, out);
    CR_TRY(status);
    *out = results[0];
    if (results[0].kind != CR_ARG_LIST) return CR_OK;
    *out = results[0].u.list[s->result];
    if (out->kind == CR_ARG_TENSOR) cr_tensor_retain(out->u.t);
    e->release(e, results, 1); /* the others */
    return CR_OK;
}

/* ---- what passes ask ---- */

static bool all_plain(const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && !all_plain(args[i].u.list, args[i].n)) return false;
        if (args[i].kind == CR_ARG_VALUE || (args[i].kind == CR_ARG_INT && !cr_dim_is_plain(args[i].u.i))) return false;
    }
    return true;
}

/* The rule is asked where it puts strides that tell the dimensions apart: a row says what it does to metas once. */
bool cr_view_order(const cr_op *op, const cr_arg *args, int rank, int *order) {
    cr_arg probe[CR_MAX_PARAMS];
    cr_meta meta;
    cr_rule rule;
    if (cr_op_view(op) != CR_VIEW_PERMUTE || !all_plain(args + 1, op->schema.nparams - 1u)) return false;
    cr_meta_init(&meta, CR_F32, (cr_device){ .type = CR_CPU });
    meta.rank = (uint8_t)rank;
    for (int d = 0; d < rank; d++) meta.size[d] = 2, meta.stride[d] = d + 1;
    memcpy(probe, args, op->schema.nparams * sizeof *probe);
    probe[0] = (cr_arg){ .kind = CR_ARG_META, .given = CR_GIVEN_POSITIONAL, .u.meta = &meta };
    cr_status status = cr_rule_run(&rule, op, NULL, probe, NULL);
    for (int d = 0; d < rank && !status; d++) order[d] = (int)rule.out[0].meta.stride[d] - 1;
    cr_rule_dispose(&rule);
    if (status) cr_error_release(cr_error_take());
    return !status;
}

bool cr_view_takes_sizes(const cr_op *op) {
    return cr_op_view(op) == CR_VIEW_RESHAPE && op->schema.nparams > 1 && op->schema.params[1].list;
}

bool cr_view_never_copies(const cr_op *op) { return !op->row->kernel || op->row->kernel == rt_k_nothing; }
