/* view.h: views as steps that can be taken again and undone.
 *
 * A view is a step from its argument's memory: an op, the op's arguments, which of its results. The `.view` column of
 * the op's row says what kind of step it is, and that is all anybody needs who computes with views: a pass that turns
 * writes into values, a tape on which a write through a view changes its base, an epilogue that hands out views of what
 * a call gave. All of it goes through an emitter, so the steps are calls on tensors or nodes of a graph.
 *
 *     cr_view_step s = { .op = op, .args = args, .from = &base->meta, .to = &view->meta };
 *     if (cr_view_can_undo(env, &s)) CR_TRY(cr_view_undo(e, &s, 0, &base, &contents, &out));
 *                                       -- `base` with `contents` where the view lies
 *     CR_TRY(cr_view_take(e, &s, &other, &out));  -- the same view of another base */
#ifndef CR_VIEW_H
#define CR_VIEW_H

#include "ops/op.h"

typedef struct cr_view_step {
    const cr_op *op;             /* functional */
    const cr_arg *args;          /* in schema order and in the emitter's terms; the first is not read */
    const cr_meta *from, *to;    /* what the view was taken of, and the view */
    uint32_t result;             /* which of the op's results it is */
    const cr_meta *const *parts; /* SPLIT: the results before it, `result` of them */
} cr_view_step;

/* Is there a call, or nothing to do, that puts a view's contents back? Not where elements are repeated or overlap. */
bool cr_view_can_undo(cr_env *env, const cr_view_step *s);
/* Does undoing read what the view was taken of? Otherwise its contents say everything. */
bool cr_view_undo_reads(const cr_view_step *s, int flags);
/* By the call that the row's .undo names, as PyTorch does it, also where a reshape would do. */
enum { CR_UNDO_NAMED = 1 };
/* What `whole`, in the place of s->from, is with `part` where the view lies. *out: the emitter's result, or `part`
 * itself where nothing has to be done. CR_EVALUE: the view cannot be undone. */
CR_NODISCARD cr_status cr_view_undo(cr_emitter *e, const cr_view_step *s, int flags, const cr_arg *whole,
                                    const cr_arg *part, cr_arg *out);
/* The view of `whole`, which has the sizes of s->from; a copy where it lies so that a reshape of it is no view. */
CR_NODISCARD cr_status cr_view_take(cr_emitter *e, const cr_view_step *s, const cr_arg *whole, cr_arg *out);

/* ---- what passes ask of a call ---- */
/* PERMUTE: dimension d of the result is dimension order[d] of the argument. False: another kind, or dimensions that are
 * no plain numbers. */
bool cr_view_order(const cr_op *op, const cr_arg *args, int rank, int *order);
/* RESHAPE: the second argument is the list of sizes. */
bool cr_view_takes_sizes(const cr_op *op);
/* Never a copy, whatever the strides: it is a view or refuses. */
bool cr_view_never_copies(const cr_op *op);

#endif
