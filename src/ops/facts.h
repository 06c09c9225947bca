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

/* A copy of its first argument (`.copy`), or the argument where the copy would change nothing. */
typedef enum cr_copy_kind {
    CR_COPY_NONE,
    CR_COPY_PLAIN, /* the same elements, perhaps laid out otherwise (clone, contiguous) */
    CR_COPY_CAST,  /* in another dtype or on another device */
} cr_copy_kind;

/* What is computed along dimensions of the first argument (`.reduce`): what it is, and which argument has the
 * dimensions and which says whether they are kept with one element. No dimensions: all of them. */
typedef enum cr_reduce_kind {
    CR_REDUCE_NONE,
    CR_REDUCE_SUM, CR_REDUCE_MEAN, CR_REDUCE_MAX, CR_REDUCE_MIN,
    CR_REDUCE_VARIANCE, CR_REDUCE_STD, /* argument 2: what is taken off the count; a second result is the mean */
    CR_REDUCE_SOFTMAX, CR_REDUCE_LOG_SOFTMAX, /* the result has all dimensions */
    CR_REDUCE_LAYER_NORM, /* of the last so many dimensions; the first result has all, the others are statistics */
} cr_reduce_kind;
typedef struct cr_reduction { uint8_t kind, dim, keepdim; } cr_reduction; /* positions; 0: there is no such argument */

/* A matrix product (`.product`): 1 + the positions of its operands; left 0: it is none.
 *
 *     beta * addend + alpha * left @ right      transposed: @ right'; alpha stands behind beta, both are 1 if absent
 *
 * batched: of three dimensions, one product for each index of the first. */
typedef struct cr_product { uint8_t left, right, addend, beta; bool transposed, batched; } cr_product;

/* What an op is to passes that look for it among others (`.role`). */
typedef enum cr_role {
    CR_ROLE_NONE,
    CR_ROLE_ADD, CR_ROLE_SUB, /* (self, other, alpha): self + alpha * other */
    CR_ROLE_MUL, CR_ROLE_DIV, CR_ROLE_POW, /* (self, other) */
    CR_ROLE_CLAMP,       /* (self, min, max); max may be absent or none */
    CR_ROLE_DROPOUT,     /* (input, p, train) */
    CR_ROLE_CONVOLUTION, /* with the parameters of aten::convolution */
    CR_ROLE_RECURRENT,   /* with those of aten::lstm.input: layers of LSTM (three results) or GRU */
    CR_ROLE_COUNT
} cr_role;

/* What an op of one argument does when it is applied again (`.law`). */
typedef enum cr_law {
    CR_LAW_NONE,
    CR_LAW_IDENTITY,        /* f(x) = x */
    CR_LAW_INVOLUTION,      /* f(f(x)) = x */
    CR_LAW_BOOL_INVOLUTION, /* f(f(x)) = x for bools */
    CR_LAW_IDEMPOTENT,      /* f(f(x)) = f(x) */
    CR_LAW_COUNT
} cr_law;

/* The number that all elements of the result are (`.fill`): 0, 1, or the argument `fill - CR_FILL_FROM`. */
typedef enum cr_fill { CR_FILL_NONE, CR_FILL_ZEROS, CR_FILL_ONES, CR_FILL_FROM } cr_fill;

/* What vmap makes of a call (`.batch`; batch.h): by a class of ops that take the examples as one more dimension, else
 * by the text `as`, calls on one example in the formula language, else by its decomposition, else example after
 * example. NONE is POINTWISE, DIMS or PRODUCT where other facts say so. */
typedef enum cr_batch_kind {
    CR_BATCH_NONE,
    CR_BATCH_POINTWISE, /* operands are broadcast */
    CR_BATCH_DIMS,      /* parameters that name dimensions, or give sizes, are told by their names */
    CR_BATCH_LEADING,   /* any number of dimensions in front; `rank` 1: tensors have equally many, else they would be
                         * broadcast against the examples; 2: those of indices do not count */
    CR_BATCH_FIRST,     /* ... of its first argument, while no other is mapped */
    CR_BATCH_FOLD,      /* examples join the first of `rank` dimensions, or become it where there is one less */
    CR_BATCH_CHANNELS,  /* examples join the second dimension, or the one of vectors (statistics of channels) */
    CR_BATCH_PRODUCT,   /* a product of matrices */
    CR_BATCH_STRIDED, CR_BATCH_CONVOLUTION, CR_BATCH_CONVOLUTION_BACKWARD, CR_BATCH_INDEX, CR_BATCH_INDEX_PUT,
    CR_BATCH_EMBEDDING, CR_BATCH_EMBEDDING_BACKWARD, /* of one op each */
    CR_BATCH_LOOP,      /* example after example, in spite of other facts */
    CR_BATCH_KIND_COUNT
} cr_batch_kind;
typedef struct cr_batching { uint8_t kind, rank; const char *as; } cr_batching;

/* What an op without results makes sure of (`.check`). */
typedef enum cr_check {
    CR_CHECK_NONE,
    CR_CHECK_TRUTH, /* (condition, message) */
    CR_CHECK_RANGE, /* (number, min, max) */
    CR_CHECK_METAS, /* of a tensor, which are known when a graph is made */
} cr_check;

/* An op with graphs (`.region`): what they are to it, and where they and their operands are among the arguments. */
typedef enum cr_region_kind {
    CR_REGION_NONE,
    CR_REGION_MARKS, /* says something about its body, which is run as it is */
    CR_REGION_COND, CR_REGION_WHILE,
    CR_REGION_SCAN,  /* the body on slices; with `carried` what it hands from one to the next comes first */
    CR_REGION_FOLD,  /* the body on what came before and the next slice */
    CR_REGION_ROWS,  /* one kernel (passes/rows.h) */
    CR_REGION_FUNCTION, /* (backward, inputs, results, operands): `results`, whose derivative is the body */
} cr_region_kind;
/* What a region that marks its body says of it, as far as anybody asks. */
typedef enum cr_mark {
    CR_MARK_NONE,
    CR_MARK_GRAD,       /* argument 0 is the grad mode that it runs in */
    CR_MARK_CHECKPOINT, /* a backward computes it again */
} cr_mark;
typedef struct cr_region {
    uint8_t kind, graphs, ngraphs; /* graphs: the first one */
    uint8_t mark;                  /* MARKS: cr_mark */
    bool condition, carried;       /* argument 0 is a condition */
    uint8_t lists;                 /* the first list of operands */
} cr_region;

#endif
