/* path.h: the forward part of a joint graph, for differentiate.c. */
#ifndef CR_AUTOGRAD_PATH_H
#define CR_AUTOGRAD_PATH_H

#include "autograd/joint.h"

typedef struct cr__region cr__region; /* regions.h */
typedef struct cr__path {
    cr_emitter emitter;  /* first: what expansions on a gradient path call */
    cr_emitter *append;  /* the new graph's own */
    cr_graph *to;
    bool grad;           /* the mode of what is being copied */
    CR_VEC(bool) live;   /* per value of `to`: does it lead back to a primal whose gradient is due? */
    cr_joint *joint;     /* gets the checkpoints; NULL: nobody asks */
    CR_VEC(cr__region *) regions; /* calls that have a derivative by their bodies */
    CR_VEC(cr_graph *) bodies;    /* made for them */
} cr__path;

/* Writes `from` into p->to, which is empty: primals, calls, and `outputs`, room for one each. */
CR_NODISCARD cr_status cr__path_copy(cr__path *p, const cr_graph *from, const cr_differentiation *how, cr_arg *outputs);
void cr__path_dispose(cr__path *p);
/* Values that were added meanwhile are not live. */
CR_NODISCARD cr_status cr__path_grow(cr__path *p);
/* Appends the calls of `from` to `to`: `inputs` are what its placeholders stand for there, `outputs` what it gives. */
CR_NODISCARD cr_status cr__graph_inline(cr_graph *to, const cr_graph *from, const cr_arg *inputs, cr_arg *outputs);
/* The value, or one of the list's. */
bool cr__path_is_live(const cr__path *p, const cr_arg *a);
static inline cr_arg cr__value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(g, v)->type, .u.i = v };
}
static inline bool cr__is_differentiable(const cr_meta *m) {
    return m && (cr_dtype_is_floating(m->dtype) || cr_dtype_is_complex(m->dtype));
}

/* Is the op one that differentiation alone looks at? */
bool cr__is_history(const cr_op *op);
/* In place: cresset::with_data becomes its data, cresset::function its results; whose history those have is noted in
 * `j` (NULL: nobody asks). (differentiate.c) */
CR_NODISCARD cr_status cr__drop_histories(cr_graph *g, cr_joint *j);

/* `by` stands for the value in all nodes after `after`; later views of it lie in the memory of `by` then. */
CR_NODISCARD cr_status cr__stand_in(cr_graph *g, uint32_t value, cr_arg by, uint32_t after);

#endif
