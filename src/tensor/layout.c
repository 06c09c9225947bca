/* layout.c: which strides does a result get, and can a reshape be a view?
 *
 * A pointwise result follows its operands: one rule decides for eager, fake and decomposed execution alike, and it is
 * PyTorch's, because programs observe strides. Operands that agree (all row-major, all channels-last, or all dense with
 * equal strides) hand their layout on; otherwise dimensions are sorted by the operands' strides and the result is dense
 * in that order, at the example where sizes are symbols. Comparisons that strides do not settle (a broadcast dimension,
 * a size that only data tell) keep the order they have, which is why the sort is an insertion sort that steps over
 * ties. */
#include "tensor/internal.h"

/* Should `outer` move inside of `inner`? 1 yes, -1 no and settled, 0 not settled by this operand. */
static int compare_strides(cr_env *env, cr_dim inner_stride, cr_dim outer_stride, cr_dim inner_size,
                           cr_dim outer_size) {
    if (cr__dim_likely(env, inner_stride, CR_EQ, 0) == CR_YES || cr__dim_likely(env, outer_stride, CR_EQ, 0) == CR_YES)
        return 0;
    if (cr__dim_likely(env, inner_stride, CR_LT, outer_stride) == CR_YES) return -1;
    if (cr__dim_likely(env, inner_stride, CR_GT, outer_stride) == CR_YES) return 1;
    if (cr__dim_likely(env, inner_stride, CR_EQ, outer_stride) != CR_YES) return 0;
    /* Equal strides: the larger size goes outside. */
    return cr__dim_likely(env, inner_size, CR_GT, outer_size) == CR_YES ? 1 : 0;
}

/* The operand's stride along dimension `d` of the result: 0 where it is broadcast. */
static cr_dim aligned_stride(cr_env *env, const cr_meta *m, int rank, const cr_dim *size, int d) {
    int i = d - (rank - m->rank);
    if (i < 0) return 0;
    bool broadcast = cr_dim_known(env, m->size[i], CR_EQ, 1) == CR_YES &&
                     cr_dim_known(env, size[d], CR_EQ, 1) != CR_YES;
    return broadcast ? 0 : m->stride[i];
}

/* Insertion sort of `inner_first` (dimensions, innermost first). */
static void sort_dims(cr_env *env, int rank, const cr_dim *size, const cr_meta *const *inputs, int n,
                      int *inner_first) {
    for (int i = 0; i < rank; i++) inner_first[i] = rank - 1 - i;
    for (int i = 1; i < rank; i++) {
        int moving = i;
        for (int j = i - 1; j >= 0; j--) {
            int a = inner_first[j], b = inner_first[moving], answer = 0;
            for (int k = 0; k < n && !answer; k++)
                answer = compare_strides(env, aligned_stride(env, inputs[k], rank, size, a),
                                         aligned_stride(env, inputs[k], rank, size, b), size[a], size[b]);
            if (answer < 0) break;
            if (answer > 0) {
                inner_first[j] = b;
                inner_first[moving] = a;
                moving = j;
            }
        }
    }
}

static bool is_reversed_order(int rank, const int *inner_first) {
    for (int i = 0; i < rank; i++)
        if (inner_first[i] != rank - 1 - i) return false;
    return true;
}

/* True when the operands agree on a layout and `out` has got it. */
static bool take_common_layout(cr_env *env, const cr_meta *const *inputs, int n, cr_meta *out) {
    bool contiguous = true, channels_last = true, dense = true;
    for (int k = 0; k < n; k++) {
        const cr_meta *m = inputs[k];
        if (m->rank != out->rank) return false;
        for (int i = 0; i < m->rank; i++)
            if (cr_dim_known(env, m->size[i], CR_EQ, out->size[i]) != CR_YES) return false;
        contiguous = contiguous && cr_meta_is_contiguous(env, m, CR_CONTIGUOUS) == CR_YES;
        channels_last = channels_last && cr_meta_is_contiguous(env, m, CR_CHANNELS_LAST) == CR_YES;
        dense = dense && cr_meta_is_dense(env, m) == CR_YES;
        if (!contiguous && !channels_last && !dense) return false;
    }
    if (contiguous) {
        cr_strides_contiguous(env, out->rank, out->size, out->stride);
        return true;
    }
    if (channels_last) {
        static const int order[] = { 0, 2, 3, 1 };
        cr_strides_permuted(env, 4, out->size, order, out->stride);
        return true;
    }
    const cr_meta *last = inputs[n - 1];
    for (int k = 0; k < n - 1; k++)
        for (int i = 0; i < out->rank; i++)
            if (cr_dim_known(env, inputs[k]->stride[i], CR_EQ, last->stride[i]) != CR_YES) return false;
    memcpy(out->stride, last->stride, out->rank * sizeof(cr_dim));
    return true;
}

void cr_layout_pointwise(cr_env *env, const cr_meta *const *inputs, int n, cr_meta *out) {
    int rank = out->rank, inner_first[CR_MAX_RANK];
    if (!n) {
        cr_strides_contiguous(env, rank, out->size, out->stride);
        return;
    }
    if (take_common_layout(env, inputs, n, out)) return;
    sort_dims(env, rank, out->size, inputs, n, inner_first);
    if (is_reversed_order(rank, inner_first)) {
        cr_strides_contiguous(env, rank, out->size, out->stride);
        return;
    }
    /* Unlike row-major strides, these become 0 outside of an empty dimension. */
    cr_dim next = 1;
    for (int i = 0; i < rank; i++) {
        out->stride[inner_first[i]] = next;
        if (i < rank - 1) next = cr_dim_mul(env, next, out->size[inner_first[i]]);
    }
}

void cr_layout_like(cr_env *env, const cr_meta *in, cr_meta *out) {
    int rank = in->rank, inner_first[CR_MAX_RANK];
    if (out != in) {
        memcpy(out->size, in->size, (size_t)rank * sizeof(cr_dim));
        out->rank = in->rank;
    }
    if (cr_meta_is_dense(env, in) == CR_YES) {
        if (out != in) memcpy(out->stride, in->stride, (size_t)rank * sizeof(cr_dim));
        return;
    }
    sort_dims(env, rank, in->size, &in, 1, inner_first);
    cr_dim next = 1;
    for (int i = 0; i < rank; i++) {
        int d = inner_first[i];
        out->stride[d] = next;
        if (i == rank - 1) break;
        bool positive = cr_dim_known(env, in->size[d], CR_GE, 1) == CR_YES;
        next = cr_dim_mul(env, next, positive ? in->size[d] : cr_dim_max(env, in->size[d], 1));
    }
}

static cr_status shapes_do_not_meet(cr_env *env, int dim, int arank, const cr_dim *a, int brank, const cr_dim *b) {
    cr_str x, y;
    cr_str_init(&x);
    cr_str_init(&y);
    cr_shape_print(env, arank, a, &x);
    cr_shape_print(env, brank, b, &y);
    cr_status s = CR_FAIL(CR_ERUNTIME, "shapes %s and %s do not broadcast: dimension %d must be equal or 1",
                          cr_str_get(&x), cr_str_get(&y), dim);
    cr_str_dispose(&x);
    cr_str_dispose(&y);
    return s;
}

cr_status cr_broadcast(cr_env *env, int *rank, cr_dim *size, int brank, const cr_dim *bsize) {
    int arank = *rank, n = CR_MAX(arank, brank);
    if (n > CR_MAX_RANK) return CR_FAIL(CR_ERUNTIME, "a tensor has at most %d dimensions, not %d", CR_MAX_RANK, n);
    cr_dim out[CR_MAX_RANK];
    for (int i = 0; i < n; i++) {
        int ai = i - (n - arank), bi = i - (n - brank);
        if (ai < 0 || bi < 0) {
            out[i] = ai < 0 ? bsize[bi] : size[ai];
            continue;
        }
        cr_dim a = size[ai], b = bsize[bi];
        if (cr_dim_known(env, a, CR_EQ, b) == CR_YES) {
            out[i] = cr_dim_is_plain(a) ? a : b;
            continue;
        }
        if (cr_dim_known(env, a, CR_EQ, 1) == CR_YES || cr_dim_known(env, b, CR_EQ, 1) == CR_YES) {
            out[i] = cr_dim_known(env, a, CR_EQ, 1) == CR_YES ? b : a;
            continue;
        }
        /* Semantics depend on a size being 1; where nothing tells, the general answer is that it is not. */
        bool one;
        CR_TRY(cr_dim_repeats(env, b, a, &one));
        if (one) {
            out[i] = a;
            continue;
        }
        CR_TRY(cr_dim_repeats(env, a, b, &one));
        if (one) {
            out[i] = b;
            continue;
        }
        if (cr_dim_known(env, a, CR_EQ, b) == CR_NO) return shapes_do_not_meet(env, i, arank, size, brank, bsize);
        CR_TRY(cr_dim_require(env, a, CR_EQ, b, "broadcast"));
        out[i] = cr_dim_is_plain(a) ? a : b;
    }
    memcpy(size, out, (size_t)n * sizeof(cr_dim));
    *rank = n;
    return CR_OK;
}

/* A question whose answer decides between a view and a copy: facts, else the hint with a guard. `*open` is set when
 * there is neither, or where every size is to be served; the caller then gives up on a view. */
static cr_status ask(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b, bool *yes, bool *open) {
    cr_tri known = cr_dim_known(env, a, cmp, b);
    int64_t hint;
    *yes = known == CR_YES;
    if (known != CR_UNKNOWN) return CR_OK;
    if (cr_env_is_general(env) || !cr_dim_hint(env, a, &hint) || !cr_dim_hint(env, b, &hint)) {
        *open = true;
        return CR_OK;
    }
    return cr_dim_decide(env, a, cmp, b, yes);
}

static bool is_known(cr_env *env, cr_dim a, cr_dim b) { return cr_dim_known(env, a, CR_EQ, b) == CR_YES; }

/* The strides where they follow from facts alone, and so hold for every size. False says nothing: hints may still find
 * some. Dimensions that may or may not continue each other count as chunks of their own. */
static bool view_by_facts(cr_env *env, const cr_meta *m, int rank, const cr_dim *size, cr_dim *stride) {
    int d = rank - 1;
    cr_dim base = m->stride[m->rank - 1], chunk = 1, tiled = 1;
    for (int i = m->rank - 1; i >= 0; i--) {
        chunk = cr_dim_mul(env, chunk, m->size[i]);
        if (i > 0 &&
            (is_known(env, m->size[i - 1], 1) || is_known(env, m->stride[i - 1], cr_dim_mul(env, chunk, base))))
            continue;
        for (; d >= 0 && (!is_known(env, tiled, chunk) || is_known(env, size[d], 1)); d--) {
            stride[d] = cr_dim_mul(env, tiled, base);
            tiled = cr_dim_mul(env, tiled, size[d]);
        }
        if (!is_known(env, tiled, chunk)) return false;
        if (i > 0) {
            base = m->stride[i - 1];
            chunk = tiled = 1;
        }
    }
    return d < 0;
}

cr_status cr_view_strides(cr_env *env, const cr_meta *m, int rank, const cr_dim *size, cr_dim *stride, bool *possible) {
    bool yes, open = false, same = m->rank == rank, row_major = true, plain = true;
    *possible = true;
    if (m->rank == 0) {
        for (int i = 0; i < rank; i++) stride[i] = 1;
        return CR_OK;
    }
    cr_dim expected = 1;
    for (int i = m->rank - 1; i >= 0; i--) {
        plain = plain && cr_dim_is_plain(m->size[i]) && cr_dim_is_plain(m->stride[i]);
        same = same && cr_dim_known(env, m->size[i], CR_EQ, size[i]) == CR_YES;
        row_major = row_major && cr_dim_known(env, m->stride[i], CR_EQ, expected) == CR_YES;
        if (row_major && i) expected = cr_dim_mul(env, expected, m->size[i]);
    }
    for (int i = 0; i < rank; i++) plain = plain && cr_dim_is_plain(size[i]);
    cr_dim numel = cr_meta_numel(env, m);
    if (same) { /* also what an empty tensor keeps */
        if (!plain || cr_dim_known(env, numel, CR_EQ, 0) == CR_YES) {
            memcpy(stride, m->stride, (size_t)rank * sizeof(cr_dim));
            return CR_OK;
        }
    }
    if (cr_dim_known(env, numel, CR_EQ, 0) == CR_YES || (row_major && !plain)) {
        cr_strides_contiguous(env, rank, size, stride);
        return CR_OK;
    }
    if (!plain && view_by_facts(env, m, rank, size, stride)) return CR_OK;
    /* Old dimensions that continue each other form chunks, innermost first; the new sizes must tile each chunk. */
    int d = rank - 1;
    cr_dim base = m->stride[m->rank - 1], chunk = 1, tiled = 1;
    for (int i = m->rank - 1; i >= 0; i--) {
        chunk = cr_dim_mul(env, chunk, m->size[i]);
        if (i > 0) {
            bool one, continues = false;
            CR_TRY(ask(env, m->size[i - 1], CR_EQ, 1, &one, &open));
            if (!one && !open)
                CR_TRY(ask(env, m->stride[i - 1], CR_EQ, cr_dim_mul(env, chunk, base), &continues, &open));
            if (open) break;
            if (one || continues) continue;
        }
        while (d >= 0) {
            CR_TRY(ask(env, tiled, CR_LT, chunk, &yes, &open));
            if (!yes && !open) CR_TRY(ask(env, size[d], CR_EQ, 1, &yes, &open));
            if (!yes || open) break;
            stride[d] = cr_dim_mul(env, tiled, base);
            tiled = cr_dim_mul(env, tiled, size[d]);
            d--;
        }
        if (open) break;
        CR_TRY(ask(env, tiled, CR_EQ, chunk, &yes, &open));
        if (!yes || open) {
            *possible = false;
            return CR_OK;
        }
        if (i > 0) {
            base = m->stride[i - 1];
            chunk = tiled = 1;
        }
    }
    *possible = !open && d < 0;
    return CR_OK;
}
