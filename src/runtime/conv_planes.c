/* conv_planes.c: convolutions with one channel on a side of each group (depthwise). A product would have one row;
 * instead each row of the result is summed from shifted rows of the image, in registers. */
#include "runtime/conv_image.h"

typedef struct job {
    const conv_planes *c;
    const gemm_kind *kind;
    const char *weights; /* compute type */
    gemm_slots slots;
} job;

static int planes_run(void *arg, int64_t begin, int64_t end) {
    job *s = arg;
    const conv_planes *c = s->c;
    const conv_image *image = c->image;
    int64_t item = image->item, to_item = rt_itemsize(c->g.dtype), width = c->grid[2];
    bool direct = gemm_can_finish_in_c(&c->g, image->compute);
    char *row = gemm_slot_take(&s->slots);
    for (int64_t at = begin; at < end; at++) {
        int64_t picture = at / c->planes, plane = at % c->planes;
        const char *data = image->data +
                           (picture * image->picture + plane / c->per_source * c->source * image->channel) * item;
        for (int64_t line = 0; line < c->grid[0] * c->grid[1]; line++) {
            int64_t z = line / c->grid[1], y = line % c->grid[1], j = line * width;
            void *to = row;
            if (direct) to = (char *)c->g.c + (picture * c->g.c_batch + plane * c->g.c_row + j) * to_item;
            s->kind->taps(to, width, data + (z * image->extent[1] + y) * image->extent[2] * item, c->tap,
                          s->weights + plane * c->k * item, c->k);
            gemm_finish(&c->g, s->kind, image->compute, to, 0, direct, picture, plane, 1, j, width);
        }
    }
    gemm_slot_give(&s->slots, row);
    return RT_OK;
}

int conv_planes_run(const rt_ctx *ctx, const conv_planes *c) {
    job s = { .c = c, .kind = gemm_kind_get(c->image->compute) };
    void *copy;
    rt_view dense;
    int code = rt_contiguous(ctx, c->weights, c->image->compute, &dense, &copy);
    if (code) return code;
    s.weights = dense.p;
    code = gemm_slots_init(ctx, &s.slots, (size_t)(c->grid[2] * c->image->item));
    if (!code) {
        int64_t work = c->grid[0] * c->grid[1] * c->grid[2] * c->k;
        code = rt_parallel_work(ctx, c->pictures * c->planes, work, 64 * 1024, planes_run, &s);
        gemm_slots_dispose(ctx, &s.slots);
    }
    rt_scratch_free(ctx, copy);
    return code;
}
