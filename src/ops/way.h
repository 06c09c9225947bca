/* way.h: how a call is carried out. Asked by whoever does it: call.c for each call, src/lower when it turns a node to
 * steps.
 *
 * The rule has said what the results are; here is said by which of the row's means they are made, and where. Nobody
 * decides any of it a second time, so that interpreted and compiled programs cannot go apart. All functions take a rule
 * that cr_rule_run has filled in; its arguments may be tensors or metas. */
#ifndef CR_WAY_H
#define CR_WAY_H

#include "ops/op.h"

typedef enum cr_way {
    CR_WAY_NOTHING, /* the results are views of arguments, or arguments themselves: no element is touched */
    /* without a kernel for the dtype, because there is nothing to compute: each result is what cr_way_idle says */
    CR_WAY_IDLE,
    CR_WAY_TEXT,    /* the pointwise text */
    CR_WAY_KERNEL,
    CR_WAY_ABSENT,  /* the row has no means of its own */
} cr_way;
/* `op`: the form that was called; the rule is its base's. */
cr_way cr_way_of(const cr_rule *r, const cr_op *op);

/* CR_WAY_IDLE: is result `i` a copy of argument 0 (broadcast to the result's sizes)? Otherwise it is zeros. */
bool cr_way_idle_copies(const cr_rule *r, int i);

/* CR_WAY_KERNEL: does the kernel edit result 0, which must be a copy of argument 0 before? */
bool cr_way_copies_first(const cr_op *base);
/* Do the sizes depend on data, so that the kernel's count phase runs before the rule can say them? */
static inline bool cr_way_counts(const cr_op *base) { return base->tags & CR_TAG_DATA_DEPENDENT; }

/* Where result `i` of an in-place or out form is computed, when it is to end up in `target`. */
typedef enum cr_place {
    CR_PLACE_TARGET,    /* there */
    CR_PLACE_TEMPORARY, /* in memory of its own, from which it is copied there afterwards */
    CR_PLACE_REFUSED,   /* nowhere: elements of an input would change before they are read, which PyTorch refuses */
} cr_place;
cr_place cr_way_place(const cr_rule *r, const cr_op *op, int i, const cr_meta *target);
/* What to say when it is refused. */
CR_NODISCARD cr_status cr_way_refuse(const cr_op *op);

#endif
