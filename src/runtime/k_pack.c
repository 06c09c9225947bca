/* k_pack.c: sequences of several lengths, padded to one (time, batch, ...) or packed: the rows of each time step one
 * after the other, of as many sequences as are still alive. Longest first, so the living are always a prefix of the
 * batch. */
#include "runtime/kernels.h"

static int64_t number_at(const rt_view *v, int64_t i) { return ((const int64_t *)v->p)[i * v->stride[0]]; }

/* Rows [0, n) of one time step of a padded tensor. */
static rt_view step_of(const rt_view *v, bool batch_first, int64_t t, int64_t n) {
    int time = batch_first ? 1 : 0, batch = 1 - time;
    rt_view out = { .p = (char *)v->p + t * v->stride[time] * rt_itemsize(v->dtype),
                    .rank = v->rank - 1,
                    .dtype = v->dtype };
    out.size[0] = n;
    out.stride[0] = v->stride[batch];
    for (int d = 2; d < v->rank; d++) out.size[d - 1] = v->size[d], out.stride[d - 1] = v->stride[d];
    return out;
}

/* Rows [first, first + n) of packed data. */
static rt_view rows_of(const rt_view *v, int64_t first, int64_t n) {
    rt_view out = *v;
    out.p = (char *)v->p + first * v->stride[0] * rt_itemsize(v->dtype);
    out.size[0] = n;
    return out;
}

/* input, lengths, batch_first; out: data, batch_sizes */
int rt_k_pack_padded_sequence(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *input = rt_arg_view(c, 0), *lengths = rt_arg_view(c, 1);
    bool batch_first = rt_arg_int(c, 2) != 0;
    int64_t batch = lengths->size[0], steps = input->size[batch_first ? 1 : 0], total = 0;
    for (int64_t b = 0; b < batch; b++) {
        int64_t n = number_at(lengths, b);
        if (n <= 0) return rt_fail(ctx, RT_ERUNTIME, "lengths must be positive, found %lld", (long long)n);
        if (b && n > number_at(lengths, b - 1))
            return rt_fail(ctx, RT_ERUNTIME, "lengths must not increase: sort the batch, longest sequence first");
        if (n > steps)
            return rt_fail(ctx, RT_ERUNTIME, "length %lld is more than the %lld steps of the input", (long long)n,
                           (long long)steps);
        total += n;
    }
    if (c->phase == RT_COUNT) {
        c->count[0] = total;
        c->count[1] = number_at(lengths, 0);
        return RT_OK;
    }
    int64_t alive = batch, row = 0;
    for (int64_t t = 0; t < c->out[1].size[0]; t++) {
        while (alive && number_at(lengths, alive - 1) <= t) alive--;
        ((int64_t *)c->out[1].p)[t * c->out[1].stride[0]] = alive;
        rt_view from = step_of(input, batch_first, t, alive), to = rows_of(&c->out[0], row, alive);
        int code = rt_copy(ctx, &to, &from);
        if (code) return code;
        row += alive;
    }
    return RT_OK;
}

static int unpack(const rt_ctx *ctx, const rt_view *data, const rt_view *sizes, const rt_view *out, bool batch_first) {
    int64_t row = 0, batch = out->size[batch_first ? 0 : 1], steps = out->size[batch_first ? 1 : 0];
    for (int64_t t = 0; t < sizes->size[0]; t++) {
        int64_t n = number_at(sizes, t);
        if (n < 0 || n > batch || t >= steps || n > data->size[0] - row)
            return rt_fail(ctx, RT_ERUNTIME, "batch_sizes do not fit the packed data (step %lld has %lld rows)",
                           (long long)t, (long long)n);
        rt_view from = rows_of(data, row, n), to = step_of(out, batch_first, t, n);
        int code = rt_copy(ctx, &to, &from);
        if (code) return code;
        row += n;
    }
    return RT_OK;
}

/* grad, input_size, batch_sizes, batch_first */
int rt_k_pack_padded_sequence_backward(const rt_ctx *ctx, const rt_call *c) {
    int code = rt_fill(ctx, c->out, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    return code ? code : unpack(ctx, rt_arg_view(c, 0), rt_arg_view(c, 2), c->out, rt_arg_int(c, 3) != 0);
}

/* data, batch_sizes, batch_first, padding_value, total_length; out: padded, lengths */
int rt_k_pad_packed_sequence(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *sizes = rt_arg_view(c, 1);
    if (c->phase == RT_COUNT) {
        c->count[0] = number_at(sizes, 0);
        return RT_OK;
    }
    const rt_view *lengths = &c->out[1];
    for (int64_t b = 0; b < lengths->size[0]; b++) {
        int64_t n = 0;
        while (n < sizes->size[0] && number_at(sizes, n) > b) n++;
        ((int64_t *)lengths->p)[b * lengths->stride[0]] = n;
    }
    int code = rt_fill(ctx, &c->out[0], rt_arg_scalar(c, 3));
    return code ? code : unpack(ctx, rt_arg_view(c, 0), sizes, &c->out[0], rt_arg_int(c, 2) != 0);
}
