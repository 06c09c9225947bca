/* k_rnn.c: one direction of an LSTM or GRU layer on packed weights.
 *
 * The input meets its weights in one product for all steps. A step is then one parallel loop: a thread takes some
 * blocks of 16 hidden units, multiplies the state before with the weights of all their gates, and finishes those units
 * at once. Weights are packed by gate (pack_panels with groups = gates), so the gates of a unit lie in the same lane of
 * panels that are `blocks` apart. The state is kept twice, before and after the step, because every thread reads all of
 * the first. */
#include "runtime/gemm_isa.h"
#include "runtime/kernels.h"

#include <string.h>

enum { WIDTH = RT_PANEL_BYTES / 4, MOST_ROWS = 8, MOST_PANELS = 3, MOST_GATES = 4, LEAST_WORK = 64 * 1024 };

typedef struct layer {
    const gemm_isa *isa;
    const rt_post_isa *post;
    int gates;              /* 4: LSTM, 3: GRU */
    /* blocks in so many parts; padded: hidden units in whole panels */
    int64_t steps, batch, hidden, blocks, parts, padded;
    bool batch_first;
    rt_view out;            /* [steps, batch, hidden] in any order */
    const float *w;         /* of the recurrence */
    float *x, *bias;        /* input's share, rows of gates * padded; bias of the recurrence (GRU), by gate */
    float *before, *after, *cell; /* [batch, padded] */
    int64_t step;
} layer;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t part_begin(int64_t n, int64_t parts, int64_t at) { return n / parts * at + least(at, n % parts); }

/* Units of blocks [b, b + wide) of sequences [r, r + rows). */
static void tile_run(const layer *s, int64_t b, int wide, int64_t r, int rows) {
    _Alignas(64) float z[MOST_GATES][MOST_ROWS * MOST_PANELS * WIDTH];
    int64_t panel = s->hidden * WIDTH, z_row = wide * WIDTH, j = b * WIDTH, n = least(z_row, s->hidden - j);
    for (int q = 0; q < s->gates; q++) {
        const float *w = s->w + (q * s->blocks + b) * panel;
        s->isa->panels(rows, wide, s->hidden, s->before + r * s->padded, s->padded, w, panel, (const char *)w, z[q],
                       z_row);
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t seq = r + i, row = s->batch_first ? seq * s->steps + s->step : s->step * s->batch + seq;
        const float *x = s->x + row * s->gates * s->padded + j;
        float *zi = z[0] + i * z_row, *h = s->after + seq * s->padded + j;
        int64_t gate = MOST_ROWS * MOST_PANELS * WIDTH;
        if (s->gates == 4) {
            s->post->lstm(x, s->padded, zi, gate, n, s->cell + seq * s->padded + j, h);
        } else {
            for (int q = 0; q < s->gates && s->bias; q++)
                s->post->blend(zi + q * gate, NULL, s->bias + q * s->padded + j, n);
            s->post->gru(x, s->padded, zi, gate, n, s->before + seq * s->padded + j, h);
        }
        const rt_view *out = &s->out;
        float *to = (float *)out->p + s->step * out->stride[s->batch_first] + seq * out->stride[!s->batch_first] +
                    j * out->stride[2];
        rt_convert(RT_F32, to, out->stride[2], RT_F32, h, 1, n);
    }
}

static int parts_run(void *arg, int64_t first, int64_t last) {
    const layer *s = arg;
    const int *most = s->isa->f32.rows;
    int64_t begin = part_begin(s->blocks, s->parts, first), end = part_begin(s->blocks, s->parts, last);
    int64_t groups = ratio_up(end - begin, most[2] ? 3 : most[1] ? 2 : 1);
    for (int64_t g = 0; g < groups; g++) {
        int64_t b = begin + part_begin(end - begin, groups, g);
        int wide = (int)(begin + part_begin(end - begin, groups, g + 1) - b);
        int64_t count = ratio_up(s->batch, most[wide - 1]);
        for (int64_t t = 0; t < count; t++) {
            int64_t r = part_begin(s->batch, count, t);
            tile_run(s, b, wide, r, (int)(part_begin(s->batch, count, t + 1) - r));
        }
    }
    return RT_OK;
}

/* A vector over the gates into whole panels, added to what is there. */
static void bias_add(const layer *s, float *to, const rt_view *bias) {
    for (int q = 0; bias && q < s->gates; q++)
        for (int64_t j = 0; j < s->hidden; j++)
            to[q * s->padded + j] += ((const float *)bias->p)[(q * s->hidden + j) * bias->stride[0]];
}

/* The state [batch, hidden] into rows of whole panels, and back. */
static void state_load(const layer *s, float *to, const rt_view *v) {
    memset(to, 0, (size_t)(s->batch * s->padded) * 4);
    rt_gemm_pack_rows(RT_F32, to, s->padded, RT_F32, v->p, v->stride[0], v->stride[1], s->batch, s->hidden);
}
static void state_store(const layer *s, const rt_view *v, const float *from) {
    for (int64_t i = 0; i < s->batch; i++)
        rt_convert(RT_F32, (float *)v->p + i * v->stride[0], v->stride[1], RT_F32, from + i * s->padded, 1, s->hidden);
}

typedef struct operands { const rt_view *input, *h, *c, *w_ih, *w_hh, *b_ih, *b_hh; bool reverse; } operands;

static int layer_run(const rt_ctx *ctx, layer *s, const operands *o, const rt_view *h_out, const rt_view *c_out) {
    if (!s->batch || !s->hidden) return RT_OK;
    int64_t rows = s->steps * s->batch, x_row = s->gates * s->padded, state = s->batch * s->padded;
    rt_view input, w_ih, w_hh;
    void *copies[3] = { 0 };
    float *memory = rt_scratch(ctx, (size_t)(rows * x_row + 3 * state + 2 * x_row) * 4);
    int code = memory ? RT_OK : rt_fail(ctx, RT_ENOMEM, "out of memory for the steps of a recurrent layer");
    if (!code) code = rt_contiguous(ctx, o->input, RT_F32, &input, &copies[0]);
    if (!code) code = rt_contiguous(ctx, o->w_ih, RT_F32, &w_ih, &copies[1]);
    if (!code) code = rt_contiguous(ctx, o->w_hh, RT_F32, &w_hh, &copies[2]);
    if (!code) {
        s->x = memory;
        s->before = s->x + rows * x_row;
        s->after = s->before + state;
        s->cell = s->after + state;
        float *bias = s->cell + state;
        memset(bias, 0, (size_t)(2 * x_row) * 4);
        bias_add(s, bias, o->b_ih);
        if (s->gates == 3) s->bias = bias + x_row;
        bias_add(s, s->gates == 3 ? s->bias : bias, o->b_hh);
        s->w = w_hh.p;
        rt_post post = { .bias = bias };
        rt_gemm_args g = rt_gemm_plain(RT_F32, rows, x_row, input.size[2], input.p, NULL, s->x);
        g.packed_b = w_ih.p;
        g.post = &post;
        code = rt_gemm(ctx, &g);
    }
    if (!code) {
        state_load(s, s->before, o->h);
        memset(s->after, 0, (size_t)state * 4);
        if (o->c) state_load(s, s->cell, o->c);
        /* One part a thread: wide tiles, and the same weights for the same core in every step. */
        s->parts = least(s->blocks, rt_pool_threads(ctx->pool));
        int64_t work = s->batch * s->hidden * s->gates * WIDTH * s->blocks / s->parts;
        for (int64_t t = 0; t < s->steps && !code; t++) {
            s->step = o->reverse ? s->steps - 1 - t : t;
            code = rt_parallel_work(ctx, s->parts, work, LEAST_WORK, parts_run, s);
            float *swap = s->before;
            s->before = s->after;
            s->after = swap;
        }
        state_store(s, h_out, s->before);
        if (c_out) state_store(s, c_out, s->cell);
    }
    for (int i = 0; i < 3; i++) rt_scratch_free(ctx, copies[i]);
    rt_scratch_free(ctx, memory);
    return code;
}

static layer layer_of(const rt_call *c, const rt_view *h, int gates, bool batch_first) {
    const rt_view *input = rt_arg_view(c, 0);
    layer s = {
        .isa = gemm_isa_get(), .post = rt__post_get(), .gates = gates, .batch_first = batch_first, .out = c->out[0]
    };
    s.steps = input->size[batch_first];
    s.batch = input->size[!batch_first];
    s.hidden = h->size[1];
    s.blocks = ratio_up(s.hidden, WIDTH);
    s.padded = s.blocks * WIDTH;
    return s;
}

/* lstm_packed(input, h, c, w_ih, w_hh, b_ih, b_hh, reverse, batch_first) */
RT_KERNEL(rt_k_lstm_packed) {
    operands o = { rt_arg_view(c, 0), rt_arg_view(c, 1), rt_arg_view(c, 2), rt_arg_view(c, 3), rt_arg_view(c, 4),
                   rt_arg_view(c, 5), rt_arg_view(c, 6), rt_arg_int(c, 7) };
    layer s = layer_of(c, o.h, 4, rt_arg_int(c, 8));
    return layer_run(ctx, &s, &o, &c->out[1], &c->out[2]);
}

/* gru_packed(input, h, w_ih, w_hh, b_ih, b_hh, reverse, batch_first) */
RT_KERNEL(rt_k_gru_packed) {
    operands o = { rt_arg_view(c, 0), rt_arg_view(c, 1), NULL, rt_arg_view(c, 2), rt_arg_view(c, 3), rt_arg_view(c, 4),
                   rt_arg_view(c, 5), rt_arg_int(c, 6) };
    layer s = layer_of(c, o.h, 3, rt_arg_int(c, 7));
    return layer_run(ctx, &s, &o, &c->out[1], NULL);
}
