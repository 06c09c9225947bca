/* batch.h: vmap: a program written for one example runs for all of them at once.
 *
 *     cr_vmap v;
 *     cr_vmap_begin(&v, 8, CR_RANDOM_ERROR);
 *     CR_TRY(cr_vmap_lower(&v, x, 0, &one));        -- x: f32[8, 3]; one: f32[3], any of the eight
 *     ... y = f(one): cr_call carries out every call on `one` for all examples ...
 *     CR_TRY(cr_vmap_lift(&v, y, &ys));             -- the results of all examples, along a new first dimension
 *     cr_vmap_end(&v);
 *
 * A *mapped* tensor has the sizes of one example and no memory of its own (to whoever does not know it, it is fake);
 * behind it is its *value*, a tensor with one more dimension, or a tensor that an outer vmap maps. cr_call sends a call
 * with mapped arguments here, innermost level first, and runs what it becomes on the values, so that levels nest, the
 * tape records calls on values (gradients of all examples at once), and a recorder records those, too.
 *
 * What a call becomes is the row's `.batch`: a class (facts.h), a text of other calls on one example, else the row's
 * decomposition, else a loop over the examples, which is counted. The row's rule runs on one example first: errors are
 * those of one example, and a class that does not give what the rule says is not trusted but replaced by the loop. */
#ifndef CR_BATCH_H
#define CR_BATCH_H

#include "ops/op.h"

/* What happens to random numbers: refused, drawn for each example, drawn once for all. */
typedef enum cr_randomness { CR_RANDOM_ERROR, CR_RANDOM_DIFFERENT, CR_RANDOM_SAME } cr_randomness;

/* One running vmap: caller-owned; in force on the thread from begin to end, which nest. */
typedef struct cr_vmap {
    uint64_t id; /* later ones have more */
    cr_dim size; /* examples */
    cr_randomness randomness;
    struct cr_vmap *outer;
} cr_vmap;
void cr_vmap_begin(cr_vmap *v, cr_dim size, cr_randomness randomness);
void cr_vmap_end(cr_vmap *v);

/* Is it mapped at this level, or at one inside of it? */
bool cr_vmap_maps(const cr_vmap *v, const cr_tensor *t);
/* Maps dimension `dim` of t. */
CR_NODISCARD cr_status cr_vmap_lower(const cr_vmap *v, cr_tensor *t, int dim, cr_tensor **out);
/* The other way: the examples are dimension `dim`, which is one that there is; a tensor that is not mapped is repeated
 * along it. */
CR_NODISCARD cr_status cr_vmap_lift(const cr_vmap *v, cr_tensor *t, int dim, cr_tensor **out);
/* The tensor mapped at every level that is in force: a value of its own for every example. */
CR_NODISCARD cr_status cr_vmap_lower_all(cr_tensor *t, cr_tensor **out);
/* What has memory: behind all levels. Borrowed. */
static inline cr_tensor *cr_vmap_value(cr_tensor *t) {
    while (t->mapped) t = t->mapped;
    return t;
}

/* Carries the call out if an argument is mapped, or if it draws random numbers; *done false: neither. */
CR_NODISCARD cr_status cr__vmap_call(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done);

#endif
