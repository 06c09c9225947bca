/* k_attention.c: out = softmax(scale * q k' + mask) v, without the matrix of scores.
 *
 * One unit is one head and up to UNIT_ROWS queries. Keys pass by in blocks; for each block, and a few rows at a time,
 * the scores are a small product, and the running maximum m, the running sum l of exp(score - m) and the running output
 * are brought up to date:
 *
 *     m' = max(m, scores)    l' = l e^(m - m') + sum e^(score - m')    out' = out e^(m - m') + e^(score - m') v
 *
 * The output is out / l. A row without any key it may see has l = 0 and gives zeros, as in PyTorch. Lower precisions
 * are widened once, when a block is packed. The order of all sums depends on sizes only. */
#include "runtime/gemm_isa.h"
#include "runtime/kernels.h"

#include <math.h>
#include <string.h>

enum { UNIT_ROWS = 256, ROWS = 32, KEYS = 256, FEW_ROWS = 4, UNITS_PER_THREAD = 3 };

typedef struct attention {
    rt_view q, k, v, mask, out, lse; /* p NULL: no mask, no logsumexp */
    bool has_mask, has_lse, causal;
    double scale;
} attention;

typedef struct job {
    attention a;
    const gemm_kind *kind;
    const rt_post_isa *post;
    int compute, batch_rank;
    int64_t item, width;
    int64_t rows, keys, depth, value; /* sizes: L, S, E, Ev */
    int64_t unit_rows, row_units, out_row; /* out_row: elements of a row of running output, whole panels */
    bool q_in_place, dots, v_in_place;
    size_t at_q, at_k, at_v, at_out, at_scores, at_mask, at_state;
    gemm_slots slots;
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Element offset of batch entry `batch` (counted over out's leading dimensions) in v, which may broadcast, or have
 * fewer heads: query heads then share them in groups. */
static int64_t batch_offset(const job *s, const rt_view *v, int64_t batch) {
    const rt_view *out = &s->a.out;
    int64_t at = 0;
    for (int d = s->batch_rank - 1; d >= 0; d--) {
        int64_t i = batch % out->size[d];
        batch /= out->size[d];
        int from = d - (out->rank - v->rank);
        if (from < 0 || v->size[from] == 1) continue;
        if (v->size[from] != out->size[d]) i /= out->size[d] / v->size[from];
        at += i * v->stride[from];
    }
    return at;
}

typedef struct unit {
    job *s;
    char *slot;
    const char *q, *k, *v; /* first element of the batch entry */
    int64_t batch, i0, i1, mask_at; /* mask_at: elements from the mask's start to the batch entry */
} unit;

static double value_at(const job *s, const char *p, int64_t i) {
    return s->compute == RT_F32 ? (double)((const float *)(const void *)p)[i] : ((const double *)(const void *)p)[i];
}
static void value_set(const job *s, char *p, int64_t i, double x) {
    if (s->compute == RT_F32) ((float *)(void *)p)[i] = (float)x;
    else ((double *)(void *)p)[i] = x;
}

/* Rows by panels of a product with tiles; sums in place when `add`. */
static void multiply(const job *s, int64_t rows, int64_t panels, int64_t k, const char *a, int64_t a_row, const char *b,
                     int64_t b_row, int64_t panel, char *out, int64_t out_row, bool add) {
    int most_panels = s->kind->rows[2] ? 3 : s->kind->rows[1] ? 2 : 1;
    for (int64_t p = 0; p < panels;) {
        int wide = (int)least(most_panels, panels - p);
        for (int64_t i = 0; i < rows;) {
            int high = (int)least(s->kind->rows[wide - 1], rows - i);
            char *to = out + (i * out_row + p * s->width) * s->item;
            s->kind->tile(high, wide, k, a + i * a_row * s->item, a_row, b + p * panel * s->item, b_row, panel,
                          add ? to : NULL, out_row, to, out_row, (gemm_ahead){ .at = to });
            i += high;
        }
        p += wide;
    }
}

/* -inf where one row of scores may not look, and a mask of numbers added. Gives the factor that is still to be applied:
 * the exponentials do it on the way. */
static double row_mask(unit *u, char *scores, int64_t i, int64_t j0, int64_t n) {
    job *s = u->s;
    const attention *a = &s->a;
    double scale = a->scale;
    if (a->has_mask) {
        const rt_view *m = &a->mask;
        int64_t m_row = m->rank > 1 && m->size[m->rank - 2] != 1 ? m->stride[m->rank - 2] : 0;
        int64_t m_col = m->rank > 0 && m->size[m->rank - 1] != 1 ? m->stride[m->rank - 1] : 0;
        const char *from = (const char *)m->p + (u->mask_at + i * m_row + j0 * m_col) * rt_itemsize(m->dtype);
        char *extra = u->slot + s->at_mask;
        if (m->dtype == RT_BOOL && m_col == 1 && s->compute == RT_F32 && scale > 0) {
            s->post->hide((float *)(void *)scores, (const uint8_t *)from, n);
        } else {
            rt_convert(s->compute, extra, 1, m->dtype, from, m_col, n);
            if (m->dtype == RT_BOOL)
                for (int64_t j = 0; j < n; j++) value_set(s, extra, j, value_at(s, extra, j) != 0 ? 0 : -INFINITY);
            s->kind->blend(scores, n, scale, extra, 1, 1);
            scale = 1;
        }
    }
    if (!(scale > 0)) {
        s->kind->blend(scores, n, scale, NULL, 0, 0);
        scale = 1;
    }
    if (a->causal)
        for (int64_t j = i + 1 > j0 ? i + 1 - j0 : 0; j < n; j++) value_set(s, scores, j, -INFINITY);
    return scale;
}

/* Rows [i, i + rows) of the unit meet keys [j0, j0 + n), the first of `packed`. */
static void block_run(unit *u, int64_t i, int64_t rows, int64_t j0, int64_t n, int64_t packed) {
    job *s = u->s;
    char *scores = u->slot + s->at_scores, *out = u->slot + s->at_out + (i - u->i0) * s->out_row * s->item;
    double *m = (double *)(void *)(u->slot + s->at_state), *l = m + UNIT_ROWS;
    const char *q = u->slot + s->at_q + (i - u->i0) * s->depth * s->item;
    int64_t q_row = s->depth;
    if (s->q_in_place) {
        q_row = s->a.q.stride[s->a.q.rank - 2];
        q = u->q + i * q_row * s->item;
    }
    if (s->dots) {
        int64_t k_row = s->a.k.stride[s->a.k.rank - 2];
        s->kind->dot((int)rows, n, s->depth, q, q_row, u->k + j0 * k_row * s->item, k_row, scores, KEYS);
    } else {
        multiply(s, rows, ratio_up(n, s->width), s->depth, q, q_row, u->slot + s->at_k, s->width, s->depth * s->width,
                 scores, KEYS, false);
    }
    for (int64_t r = 0; r < rows; r++) {
        char *row = scores + r * KEYS * s->item;
        double *m_row = &m[i - u->i0 + r], *l_row = &l[i - u->i0 + r];
        double scale = row_mask(u, row, i + r, j0, n), before = *m_row, most = scale * s->kind->most(row, n);
        if (most < before) most = before;
        double shift = most == -INFINITY ? 0 : most, sum = s->kind->exps(row, n, scale, shift);
        double fade = before == -INFINITY ? 0 : exp(before - shift);
        *l_row = *l_row * fade + sum;
        *m_row = most;
        if (fade != 1 && j0) s->kind->blend(out + r * s->out_row * s->item, s->out_row, fade, NULL, 0, 0);
    }
    if (s->v_in_place) {
        int64_t v_row = s->a.v.stride[s->a.v.rank - 2];
        multiply(s, rows, s->out_row / s->width, n, scores, KEYS, u->v + j0 * v_row * s->item, v_row, s->width, out,
                 s->out_row, true);
    } else {
        multiply(s, rows, s->out_row / s->width, n, scores, KEYS, u->slot + s->at_v, s->width, packed * s->width, out,
                 s->out_row, true);
    }
}

static void keys_pack(unit *u, int64_t j0, int64_t n) {
    job *s = u->s;
    const rt_view *k = &s->a.k, *v = &s->a.v;
    rt_gemm_args g = { .dtype = k->dtype, .b = u->k, .b_row = k->stride[k->rank - 1], .b_col = k->stride[k->rank - 2] };
    if (!s->dots) gemm_pack_panels(&g, s->compute, 0, 0, s->depth, j0, j0 + n, u->slot + s->at_k, s->depth * s->width);
    g = (rt_gemm_args){
        .dtype = v->dtype, .b = u->v, .b_row = v->stride[v->rank - 2], .b_col = v->stride[v->rank - 1]
    };
    if (!s->v_in_place) gemm_pack_panels(&g, s->compute, 0, j0, j0 + n, 0, s->value, u->slot + s->at_v, n * s->width);
}

static void unit_store(unit *u) {
    job *s = u->s;
    const rt_view *out = &s->a.out, *lse = &s->a.lse;
    const double *m = (const double *)(const void *)(u->slot + s->at_state), *l = m + UNIT_ROWS;
    int64_t item = rt_itemsize(out->dtype);
    char *to = (char *)out->p + batch_offset(s, out, u->batch) * item;
    for (int64_t i = u->i0; i < u->i1; i++) {
        char *row = u->slot + s->at_out + (i - u->i0) * s->out_row * s->item;
        double total = l[i - u->i0];
        s->kind->blend(row, s->value, total == 0 ? 0 : 1 / total, NULL, 0, 0);
        rt_convert(out->dtype, to + i * out->stride[out->rank - 2] * item, out->stride[out->rank - 1], s->compute, row,
                   1, s->value);
        if (s->a.has_lse) {
            double sum = m[i - u->i0] + log(total);
            char *at = (char *)lse->p +
                       (batch_offset(s, lse, u->batch) + i * lse->stride[lse->rank - 2]) * rt_itemsize(lse->dtype);
            rt_convert(lse->dtype, at, 1, RT_F64, &sum, 1, 1);
        }
    }
}

static void unit_run(unit *u) {
    job *s = u->s;
    double *m = (double *)(void *)(u->slot + s->at_state), *l = m + UNIT_ROWS;
    for (int64_t i = 0; i < u->i1 - u->i0; i++) m[i] = -INFINITY, l[i] = 0;
    memset(u->slot + s->at_out, 0, (size_t)((u->i1 - u->i0) * s->out_row * s->item));
    const rt_view *q = &s->a.q;
    if (!s->q_in_place)
        rt_gemm_pack_rows(s->compute, u->slot + s->at_q, s->depth, q->dtype,
                          u->q + u->i0 * q->stride[q->rank - 2] * rt_itemsize(q->dtype), q->stride[q->rank - 2],
                          q->stride[q->rank - 1], u->i1 - u->i0, s->depth);
    /* A causal row i sees keys 0..i: blocks after the last row are not looked at. */
    int64_t keys = s->a.causal ? least(s->keys, u->i1) : s->keys;
    for (int64_t j = 0; j < keys; j += KEYS) {
        int64_t n = least(KEYS, keys - j);
        keys_pack(u, j, n);
        for (int64_t i = u->i0; i < u->i1; i += ROWS) {
            int64_t rows = least(ROWS, u->i1 - i);
            int64_t seen = s->a.causal ? least(n, i + rows - j) : n; /* by the last of them */
            if (seen > 0) block_run(u, i, rows, j, seen, n);
        }
    }
    unit_store(u);
}

static int units_run(void *arg, int64_t begin, int64_t end) {
    job *s = arg;
    unit u = { .s = s, .slot = gemm_slot_take(&s->slots) };
    for (int64_t at = begin; at < end; at++) {
        u.batch = at / s->row_units;
        u.i0 = at % s->row_units * s->unit_rows;
        u.i1 = least(u.i0 + s->unit_rows, s->rows);
        u.q = (const char *)s->a.q.p + batch_offset(s, &s->a.q, u.batch) * rt_itemsize(s->a.q.dtype);
        u.k = (const char *)s->a.k.p + batch_offset(s, &s->a.k, u.batch) * rt_itemsize(s->a.k.dtype);
        u.v = (const char *)s->a.v.p + batch_offset(s, &s->a.v, u.batch) * rt_itemsize(s->a.v.dtype);
        u.mask_at = s->a.has_mask ? batch_offset(s, &s->a.mask, u.batch) : 0;
        unit_run(&u);
    }
    gemm_slot_give(&s->slots, u.slot);
    return RT_OK;
}

static size_t reserve(size_t *total, int64_t bytes) {
    size_t at = *total;
    *total += ((size_t)bytes + 63) & ~(size_t)63;
    return at;
}

static int attend(const rt_ctx *ctx, const attention *a) {
    int64_t elements = rt_numel(&a->out);
    if (elements == 0 && !a->has_lse) return RT_OK;
    job s = { .a = *a, .compute = rt_gemm_compute_dtype(a->out.dtype) };
    if (s.compute != RT_F32 && s.compute != RT_F64)
        return rt_fail(ctx, RT_EDTYPE, "attention needs a floating-point dtype, found dtype number %d",
                       (int)a->out.dtype);
    s.kind = gemm_kind_get(s.compute);
    s.post = rt__post_get();
    s.item = rt_itemsize(s.compute);
    s.width = RT_PANEL_BYTES / s.item;
    s.batch_rank = a->out.rank - 2;
    s.rows = a->q.size[a->q.rank - 2];
    s.depth = a->q.size[a->q.rank - 1];
    s.keys = a->k.size[a->k.rank - 2];
    s.value = a->v.size[a->v.rank - 1];
    s.out_row = ratio_up(s.value, s.width) * s.width;
    bool native = s.compute == a->out.dtype;
    s.q_in_place = native && a->q.stride[a->q.rank - 1] == 1;
    s.dots = native && s.rows <= FEW_ROWS && a->k.stride[a->k.rank - 1] == 1;
    s.v_in_place = native && s.rows <= FEW_ROWS && a->v.stride[a->v.rank - 1] == 1 && s.value % s.width == 0;

    int64_t batches = 1;
    for (int d = 0; d < s.batch_rank; d++) batches *= a->out.size[d];
    /* Units of one head pack its keys and values each: as few as keep the threads busy. Rows do not need each other. */
    int threads = rt_pool_threads(ctx->pool);
    s.unit_rows = UNIT_ROWS;
    int64_t each = ratio_up(s.rows * batches, threads * UNITS_PER_THREAD);
    if (threads > 1 && each < UNIT_ROWS) s.unit_rows = each > ROWS ? ratio_up(each, ROWS) * ROWS : ROWS;
    s.row_units = ratio_up(s.rows, s.unit_rows);
    int64_t unit_rows = least(s.rows, s.unit_rows);
    size_t total = 0;
    s.at_state = reserve(&total, 2 * UNIT_ROWS * 8);
    s.at_scores = reserve(&total, ROWS * KEYS * s.item);
    s.at_mask = reserve(&total, KEYS * s.item);
    s.at_out = reserve(&total, unit_rows * s.out_row * s.item);
    s.at_q = reserve(&total, s.q_in_place ? 0 : unit_rows * s.depth * s.item);
    s.at_k = reserve(&total, s.dots ? 0 : KEYS * s.depth * s.item);
    s.at_v = reserve(&total, s.v_in_place ? 0 : KEYS * s.out_row * s.item);
    int code = gemm_slots_init(ctx, &s.slots, total);
    if (code) return code;
    int64_t work = unit_rows * s.keys * (s.depth + s.value) + 1;
    code = rt_parallel_work(ctx, batches * s.row_units, work, 64 * 1024, units_run, &s);
    gemm_slots_dispose(ctx, &s.slots);
    return code;
}

static attention attention_of(const rt_call *c, int mask, int causal, int scale) {
    attention a = { .q = *rt_arg_view(c, 0), .k = *rt_arg_view(c, 1), .v = *rt_arg_view(c, 2), .out = c->out[0] };
    if (rt_arg_view(c, mask)) a.mask = *rt_arg_view(c, mask), a.has_mask = true;
    a.causal = rt_arg_int(c, causal);
    a.scale = rt_arg_is_none(c, scale) ? 1 / sqrt((double)a.q.size[a.q.rank - 1]) : rt_arg_float(c, scale);
    return a;
}

/* scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale, enable_gqa). Dropout is
 * not done here: calls with it run the row's decomposition. */
RT_KERNEL(rt_k_sdpa) {
    attention a = attention_of(c, 3, 5, 6);
    return attend(ctx, &a);
}

/* _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, *, attn_mask, scale) ->
 * (output, logsumexp) */
RT_KERNEL(rt_k_sdpa_flash_cpu) {
    attention a = attention_of(c, 5, 4, 6);
    a.lse = c->out[1];
    a.lse.size[a.lse.rank] = a.lse.stride[a.lse.rank] = 1; /* as many dimensions as out */
    a.lse.rank++;
    a.has_lse = true;
    return attend(ctx, &a);
}
