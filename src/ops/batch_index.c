/* batch_index.c: indexing under vmap: the example is one more index. Indexed dimensions come first, behind the
 * examples, so that the order of the result's dimensions is known: indices, then what is not indexed. */
#include "ops/batch_internal.h"

/* What an index list of one example looks at. */
typedef struct place {
    int rank;                  /* of one example of the tensor */
    int order[CR_MAX_RANK];    /* its dimensions, indexed ones first */
    int nindexed, first;       /* indexed dimensions, and the first of them */
    bool adjacent;             /* the indices' dimensions stay where they are, else they come first */
    int index_rank;            /* of the indices, broadcast */
    bool mapped;               /* one of them is */
} place;

/* false: masks, or nothing is indexed. */
static bool look(const cr__batch *b, const cr_arg *indices, place *p) {
    *p = (place){ .rank = b->args[0].u.t->meta.rank, .adjacent = true, .first = -1 };
    int last = -1, n = 0;
    for (uint32_t k = 0; k < indices->n; k++) {
        const cr_arg *a = &indices->u.list[k];
        if (a->kind != CR_ARG_TENSOR) continue;
        if (a->u.t->meta.dtype == CR_BOOL || a->u.t->meta.dtype == CR_U8) return false;
        p->index_rank = CR_MAX(p->index_rank, a->u.t->meta.rank);
        p->mapped |= cr__is_mapped(b, a);
        if (p->first < 0) p->first = (int)k;
        p->adjacent &= last < 0 || last + 1 == (int)k;
        last = (int)k;
        p->order[n++] = (int)k;
    }
    p->nindexed = n;
    for (int d = 0; d < p->rank; d++) {
        bool indexed = d < (int)indices->n && indices->u.list[d].kind == CR_ARG_TENSOR;
        if (!indexed) p->order[n++] = d;
    }
    return p->nindexed && n == p->rank;
}

static cr_arg permuted(cr__batch *b, cr_arg x, const int *order, int n) {
    cr_arg *dims = cr__batch_list(b, (size_t)n + 1);
    if (!dims) return cr_arg_none();
    dims[0] = cr_arg_int(0);
    for (int d = 0; d < n; d++) dims[d + 1] = cr_arg_int(order[d] + 1);
    return CR_RUN(&b->run, "permute", x, cr_arg_list(dims, (size_t)n + 1));
}

/* The example's own number, and the indices behind it. */
static cr_arg with_example(cr__batch *b, const cr_arg *indices, const place *p) {
    cr_arg *list = cr__batch_list(b, (size_t)p->nindexed + 1);
    if (!list) return cr_arg_none();
    list[0] = CR_RUN(&b->run, "arange", cr_arg_int(b->v->size));
    for (int d = 0; d < p->index_rank; d++) list[0] = CR_RUN(&b->run, "unsqueeze", list[0], cr_arg_int(-1));
    for (int k = 0; k < p->nindexed; k++)
        list[k + 1] = cr__batch_aligned(b, &indices->u.list[p->order[k]], p->index_rank);
    return cr_arg_list(list, (size_t)p->nindexed + 1);
}

/* Where the result of one example has dimension d of (indices, what is not indexed). */
static void result_order(const place *p, int *order) {
    int rest = p->rank - p->nindexed, before = p->adjacent ? p->first : 0, n = 0;
    for (int d = 0; d < before; d++) order[n++] = p->index_rank + d;
    for (int d = 0; d < p->index_rank; d++) order[n++] = d;
    for (int d = before; d < rest; d++) order[n++] = p->index_rank + d;
}

/* The elements that a mask of each example has may be more or fewer. */
static bool has_own_masks(const cr__batch *b, const cr_arg *indices) {
    for (uint32_t k = 0; k < indices->n; k++) {
        const cr_arg *a = &indices->u.list[k];
        if (cr__is_mapped(b, a) && (a->u.t->meta.dtype == CR_BOOL || a->u.t->meta.dtype == CR_U8)) return true;
    }
    return false;
}

void cr__batch_index(cr__batch *b) {
    place p;
    int order[2 * CR_MAX_RANK];
    b->refused = has_own_masks(b, &b->args[1]);
    b->unfit = !look(b, &b->args[1], &p) || p.index_rank + p.rank - p.nindexed >= CR_MAX_RANK;
    if (b->unfit) return;
    cr_arg self = permuted(b, cr__batch_each(b, &b->args[0], 0), p.order, p.rank);
    cr_arg args[] = { self, with_example(b, &b->args[1], &p) };
    cr__batch_run(b, NULL, args);
    if (b->run.status) return;
    result_order(&p, order);
    b->made[0] = permuted(b, b->made[0], order, p.index_rank + p.rank - p.nindexed);
}

void cr__batch_index_put(cr__batch *b) {
    place p;
    int order[2 * CR_MAX_RANK], back[2 * CR_MAX_RANK], n;
    b->unfit = !look(b, &b->args[1], &p) || p.index_rank + p.rank - p.nindexed >= CR_MAX_RANK;
    if (b->unfit) return;
    n = p.index_rank + p.rank - p.nindexed;
    result_order(&p, order);
    for (int d = 0; d < n; d++) back[order[d]] = d;
    cr_arg self = permuted(b, cr__batch_each(b, &b->args[0], 0), p.order, p.rank);
    b->unfit |= b->args[2].u.t->meta.rank > n;
    if (b->unfit) return;
    cr_arg values = permuted(b, cr__batch_each(b, &b->args[2], n), back, n);
    cr_arg args[] = { self, with_example(b, &b->args[1], &p), values, b->args[3] };
    cr__batch_run(b, NULL, args);
    if (b->run.status) return;
    for (int d = 0; d < p.rank; d++) back[p.order[d]] = d;
    b->made[0] = permuted(b, b->made[0], back, p.rank);
}

/* ---- embeddings: weights of all examples are one table ---- */

/* Indices into the tables one after the other. */
static cr_arg offset(cr__batch *b, const cr_arg *indices, int64_t rows) {
    cr_arg index = cr__batch_each(b, indices, 0);
    cr_arg first = CR_RUN(&b->run, "mul.Tensor", CR_RUN(&b->run, "arange", cr_arg_int(b->v->size)), cr_arg_int(rows));
    for (int d = 0; d < indices->u.t->meta.rank; d++) first = CR_RUN(&b->run, "unsqueeze", first, cr_arg_int(-1));
    return CR_RUN(&b->run, "add.Tensor", index, first);
}

void cr__batch_embedding(cr__batch *b) {
    cr_arg args[5];
    memcpy(args, b->args, sizeof args);
    if (!cr__is_mapped(b, &args[0])) {
        args[1] = cr__batch_front(b, &args[1]);
        cr__batch_run(b, NULL, args);
        return;
    }
    cr_dim padding = b->args[2].u.i;
    b->unfit = b->args[3].u.i != 0; /* frequencies are counted by example */
    if (b->unfit) return;
    args[1] = offset(b, &b->args[1], b->args[0].u.t->meta.size[0]);
    args[0] = CR_RUN(&b->run, "flatten.using_ints", cr__batch_front(b, &b->args[0]), cr_arg_int(0), cr_arg_int(1));
    args[2] = cr_arg_int(-1);
    cr__batch_run(b, NULL, args);
    if (b->run.status || padding < 0) return;
    /* no gradient comes back from the rows of padding */
    cr_arg pads = CR_RUN(&b->run, "eq.Scalar", cr__batch_each(b, &b->args[1], 0), cr_arg_int(padding));
    b->made[0] = CR_RUN(&b->run, "where.self", CR_RUN(&b->run, "unsqueeze", pads, cr_arg_int(-1)),
                        CR_RUN(&b->run, "detach", b->made[0]), b->made[0]);
}

/* grad_output, indices, num_weights, padding_idx, scale_grad_by_freq */
void cr__batch_embedding_backward(cr__batch *b) {
    cr_arg args[5];
    memcpy(args, b->args, sizeof args);
    cr_dim rows = b->args[2].u.i, padding = b->args[3].u.i;
    args[0] = cr__batch_each(b, &b->args[0], 0);
    if (padding >= 0) {
        cr_arg pads = CR_RUN(&b->run, "eq.Scalar", cr__batch_each(b, &b->args[1], 0), cr_arg_int(padding));
        args[0] = CR_RUN(&b->run, "masked_fill.Scalar", args[0], CR_RUN(&b->run, "unsqueeze", pads, cr_arg_int(-1)),
                         cr_arg_int(0));
    }
    args[1] = offset(b, &b->args[1], rows);
    args[2] = cr_arg_int(cr_dim_mul(b->exec.env, rows, b->v->size));
    args[3] = cr_arg_int(-1);
    cr__batch_run(b, NULL, args);
}
