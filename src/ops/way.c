/* way.c: see way.h. */
#include "ops/way.h"

#include "ops/rules.h"

static bool all_views(const cr_rule *r) {
    bool views = r->nout > 0;
    for (int i = 0; i < r->nout; i++) views &= r->out[i].alias >= 0;
    return views;
}

/* The only result is an argument as it stands, and is wanted there or anywhere. */
static bool hands_through(const cr_rule *r, const cr_op *op) {
    if (r->nout != 1 || !r->out[0].same) return false;
    return op->variant == CR_FUNCTIONAL || (op->variant == CR_INPLACE && !r->out[0].alias);
}

static bool is_idle(const cr_rule *r) {
    if (cr_rule_has_kernel(r) || !r->nout || (r->op->tags & CR_TAGS_RUN_IDLE)) return false;
    return cr__rule_judge_rare(r, false) <= 0;
}

cr_way cr_way_of(const cr_rule *r, const cr_op *op) {
    const cr_row *row = r->op->row;
    if (is_idle(r)) return CR_WAY_IDLE;
    if (row->scalar) return hands_through(r, op) ? CR_WAY_NOTHING : CR_WAY_TEXT;
    if ((r->op->tags & CR_TAG_VIEW) && all_views(r)) return CR_WAY_NOTHING;
    return row->kernel ? CR_WAY_KERNEL : CR_WAY_ABSENT;
}

/* Sums over nothing are zeros, what they are added to remains, and a tensor without dimensions is its own result. */
bool cr_way_idle_copies(const cr_rule *r, int i) {
    if (i) return false;
    return cr__rule_param(r, "beta") >= 0 || ((r->op->tags & CR_TAG_COPIES_0D) && !cr_rule_meta(r, 0)->rank);
}

bool cr_way_copies_first(const cr_op *base) {
    /* Drawing overwrites all, as does one value everywhere. */
    return (base->tags & CR_TAG_UPDATES) && !(base->tags & (CR_TAG_RANDOM | CR_TAG_SAME_VALUE));
}

typedef struct clash { bool any, partial; } clash;

static void meet(clash *c, const cr_meta *input, const cr_meta *target) {
    if (!input || !input->storage || input->storage != target->storage) return;
    cr_overlap overlap = cr_meta_overlap(input, target);
    c->any |= overlap != CR_OVERLAP_NONE;
    c->partial |= overlap == CR_OVERLAP_PARTIAL || (overlap == CR_OVERLAP_FULL && input->dtype != target->dtype);
}

/* Would writing `target` change an input before it is read? */
static clash clash_with(const cr_rule *r, const cr_meta *target) {
    clash c = { false, false };
    for (int i = 0; i < r->nargs; i++) {
        const cr_arg *a = &r->arg[i];
        meet(&c, cr_arg_meta(a), target);
        for (uint32_t k = 0; a->kind == CR_ARG_LIST && k < a->n; k++) meet(&c, cr_arg_meta(&a->u.list[k]), target);
    }
    return c;
}

/* Numbers are drawn in memory order: where PyTorch's out form is its functional form and a copy, the layout drawn in is
 * that of the functional result. */
static bool is_drawn_apart(const cr_op *op) {
    return op->variant == CR_OUT && (op->base->tags & CR_TAG_RANDOM) &&
           (op->base->tags & (CR_TAG_UPDATES | CR_TAG_DENSE_OUT));
}

/* Texts compute halves as floats and round when they store: into a wider tensor, what is stored is rounded first. */
static bool is_rounded_first(int computed, const cr_meta *target) {
    return target->dtype != computed && rt_itemsize(computed) < 4 && rt_is_float(computed);
}

cr_place cr_way_place(const cr_rule *r, const cr_op *op, int i, const cr_meta *target) {
    const cr_out *out = &r->out[i];
    clash c = clash_with(r, target);
    if ((r->op->tags & CR_TAG_POINTWISE) && c.partial) return CR_PLACE_REFUSED;
    if (is_drawn_apart(op) || is_rounded_first(out->meta.dtype, target)) return CR_PLACE_TEMPORARY;
    /* They read an element before they write it; kernels that edit know one dtype only. */
    if ((r->op->tags & CR_TAG_POINTWISE) || ((r->op->tags & CR_TAG_UPDATES) && target->dtype == out->meta.dtype))
        return CR_PLACE_TARGET;
    return !c.any && out->alias < 0 && target->dtype == out->meta.dtype ? CR_PLACE_TARGET : CR_PLACE_TEMPORARY;
}

cr_status cr_way_refuse(const cr_op *op) {
    return CR_FAIL(CR_ERUNTIME,
                   "%s: some elements of an input and of the written-to tensor refer to a single memory location; "
                   ".clone() the input first",
                   op->schema.name);
}
