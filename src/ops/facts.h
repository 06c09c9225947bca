/* facts.h: what passes and lowering know of an op beyond its schema and tags: the values of its row's columns.
 *
 * A pass asks for a fact (`cr_op_view(op) == CR_VIEW_PERMUTE`), never for a name, unless it looks for one pattern of
 * particular ops. An op whose row has the fact is then served by every pass that knows it. Zero: nothing is known. */
#ifndef CR_FACTS_H
#define CR_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* How a view lies in its first argument (`.view`). What is computed with views is in view.h. */
typedef enum cr_view_kind {
    CR_VIEW_NONE,     /* no view, or one that nobody takes apart (unfold, another dtype) */
    CR_VIEW_SAME,     /* the argument, where nothing has to be done (alias, contiguous, a cast to its own dtype) */
    CR_VIEW_RESHAPE,  /* the same elements in the same order, other sizes (view, flatten) */
    CR_VIEW_ONES,     /* dimensions of one element come and go, whatever the strides (squeeze, unsqueeze) */
    CR_VIEW_PERMUTE,  /* the dimensions in another order (t, movedim) */
    CR_VIEW_EXPAND,   /* dimensions of one element are repeated */
    CR_VIEW_SLICE,    /* a range of one dimension: (self, dim, start, end, step) */
    CR_VIEW_SELECT,   /* one index of one dimension: (self, dim, index) */
    CR_VIEW_DIAGONAL, /* (self, offset, dim1, dim2) */
    CR_VIEW_SPLIT,    /* ranges of one dimension, a result each; the dimension is argument 2 */
    CR_VIEW_UNBIND,   /* every index of one dimension, a result each: (self, dim) */
    CR_VIEW_STRIDED,  /* sizes and strides of its own (as_strided) */
} cr_view_kind;

#endif
