/* Packed convolutions against the sum they are defined by: kernels, strides, padding beyond half the kernel, dilation,
 * groups, depthwise, Winograd's transforms, channels that fill no register, any layout of the operands, activations,
 * residuals, empty batches, NaN; equal bits for any number of threads; and every allocation failing in turn. */
#include "check.h"
#include "every_isa.h"
#include "runtime/kernels.h"

static char message[128];
static uint64_t seed = 5;

static int64_t draw(int64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

typedef struct problem {
    int64_t n, c, o, h, w, groups, kernel[2], stride[2], padding[2], dilation[2];
    bool bias, residual;
    const char *act;
} problem;

/* [n, c, h, w] in one of three layouts: channels-last, plain, channels-last with gaps. */
static rt_view image_new(int64_t n, int64_t c, int64_t h, int64_t w, int layout) {
    rt_view v = { .rank = 4, .dtype = RT_F32, .size = { n, c, h, w } };
    int64_t pixel = layout == 2 ? c + 3 : c;
    if (layout == 1) v.stride[3] = 1, v.stride[2] = w, v.stride[1] = h * w, v.stride[0] = c * h * w;
    else
        v.stride[1] = 1, v.stride[3] = pixel, v.stride[2] = w * pixel + (layout == 2 ? 5 : 0),
        v.stride[0] = h * v.stride[2];
    size_t elements = (size_t)((n ? n : 1) * (c + 3) * (h + 1) * (w + 1) * 2 + 16 + h * 5);
    v.p = calloc(elements, 4);
    return v;
}
/* The reference runs in one thread: TSan would only make it slow. */
#define ALONE __attribute__((no_sanitize("thread")))

static inline ALONE float *at4(const rt_view *v, int64_t n, int64_t c, int64_t h, int64_t w) {
    return (float *)v->p + n * v->stride[0] + c * v->stride[1] + h * v->stride[2] + w * v->stride[3];
}
static void image_draw(const rt_view *v) {
    for (int64_t n = 0; n < v->size[0]; n++)
        for (int64_t c = 0; c < v->size[1]; c++)
            for (int64_t h = 0; h < v->size[2]; h++)
                for (int64_t w = 0; w < v->size[3]; w++) *at4(v, n, c, h, w) = (float)(draw(9) - 4);
}

static double act_of(const char *name, double x) {
    double sixth = x + 3 < 0 ? 0 : x + 3 > 6 ? 1 : (x + 3) / 6;
    if (!strcmp(name, "relu")) return x < 0 ? 0 : x;
    if (!strcmp(name, "relu6")) return x < 0 ? 0 : x > 6 ? 6 : x;
    if (!strcmp(name, "hardsigmoid")) return sixth;
    if (!strcmp(name, "hardswish")) return x * sixth;
    if (!strcmp(name, "sigmoid")) return 1 / (1 + exp(-x));
    if (!strcmp(name, "silu")) return x / (1 + exp(-x));
    if (!strcmp(name, "tanh")) return tanh(x);
    if (!strcmp(name, "gelu")) return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    if (!strcmp(name, "gelu_tanh")) return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    return x;
}

static ALONE double reference(const problem *q, const rt_view *x, const rt_view *w, const rt_view *r, const float *bias,
                              int64_t n, int64_t o, int64_t y, int64_t z) {
    int64_t channels = q->c / q->groups, first = o / (q->o / q->groups) * channels;
    double s = q->bias ? bias[o] : 0;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t a = 0; a < q->kernel[0]; a++)
            for (int64_t b = 0; b < q->kernel[1]; b++) {
                int64_t i = y * q->stride[0] - q->padding[0] + a * q->dilation[0],
                        j = z * q->stride[1] - q->padding[1] + b * q->dilation[1];
                if (i < 0 || i >= q->h || j < 0 || j >= q->w) continue;
                s += (double)*at4(x, n, first + c, i, j) * (double)*at4(w, o, c, a, b);
            }
    return act_of(q->act, s + (r->p ? (double)*at4(r, n, o, y, z) : 0));
}

typedef struct operands { rt_view x, w, y, residual, packed, bias; } operands;

static operands operands_new(const problem *q) {
    operands t = { .x = image_new(q->n, q->c, q->h, q->w, (int)draw(3)),
                   .w = image_new(q->o, q->c / q->groups, q->kernel[0], q->kernel[1], 1) };
    int64_t out[2], in[2] = { q->h, q->w };
    for (int d = 0; d < 2; d++)
        out[d] = (in[d] + 2 * q->padding[d] - (q->kernel[d] - 1) * q->dilation[d] - 1) / q->stride[d] + 1;
    t.y = image_new(q->n, q->o, out[0], out[1], (int)draw(3));
    if (q->residual) t.residual = image_new(q->n, q->o, out[0], out[1], (int)draw(3)), image_draw(&t.residual);
    image_draw(&t.x), image_draw(&t.w);
    int64_t blocks = q->o / q->groups == 1 && q->c == q->groups ? (q->o + 15) / 16
                                                                : q->groups * ((q->o / q->groups + 15) / 16);
    int64_t size = blocks * 16 * q->c / q->groups * q->kernel[0] * q->kernel[1];
    t.packed = rt_view_contiguous(aligned_alloc(64, (size_t)size * 4), RT_F32, 1, &size);
    t.bias = rt_view_contiguous(calloc((size_t)q->o + 1, 4), RT_F32, 1, &q->o);
    for (int64_t i = 0; i < q->o; i++) ((float *)t.bias.p)[i] = (float)(draw(9) - 4);
    return t;
}
static void operands_free(operands *t) {
    free(t->x.p), free(t->w.p), free(t->y.p), free(t->residual.p), free(t->packed.p), free(t->bias.p);
}

static rt_arg view_arg(const rt_view *v) {
    return v->p ? (rt_arg){ .kind = RT_ARG_VIEW, .u.view = v } : (rt_arg){ .kind = RT_ARG_NONE };
}
static rt_arg ints_arg(const int64_t *two) { return (rt_arg){ .kind = RT_ARG_INTS, .n = 2, .u.ints = two }; }
static rt_arg int_arg(int64_t i) { return (rt_arg){ .kind = RT_ARG_INT, .u.i = i }; }

static int pack(const rt_ctx *ctx, const problem *q, const operands *t) {
    rt_arg args[] = { view_arg(&t->w), int_arg(q->groups) };
    rt_call call = { .arg = args, .out = &t->packed, .nargs = 2, .nout = 1 };
    return rt_k_pack_conv(ctx, &call);
}
static int run(const rt_ctx *ctx, const problem *q, const operands *t) {
    rt_arg none = { .kind = RT_ARG_NONE }, act = { .kind = RT_ARG_STR, .n = (uint32_t)strlen(q->act), .u.str = q->act };
    rt_arg args[] = { view_arg(&t->x),
                      view_arg(&t->packed),
                      q->bias ? view_arg(&t->bias) : none,
                      view_arg(&t->residual),
                      int_arg(q->o),
                      ints_arg(q->kernel),
                      ints_arg(q->stride),
                      ints_arg(q->padding),
                      ints_arg(q->dilation),
                      int_arg(q->groups),
                      act };
    rt_call call = { .arg = args, .out = &t->y, .nargs = 11, .nout = 1 };
    return rt_k_conv_packed(ctx, &call);
}

/* May it be computed by transforms that round, and that carry NaN to a whole tile? */
static bool may_transform(const problem *q) {
    bool square = q->kernel[0] == 3 && q->kernel[1] == 3 && q->stride[0] == 1 && q->stride[1] == 1 &&
                  q->dilation[0] == 1 && q->dilation[1] == 1;
    return square && q->groups == 1 && q->c % 16 == 0 && q->o % 16 == 0;
}

static void check_problem(const problem *q, bool nan) {
    rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
    operands t = operands_new(q);
    if (nan && rt_numel(&t.x) && !may_transform(q)) *at4(&t.x, 0, draw(q->c), draw(q->h), draw(q->w)) = NAN;
    CHECK_EQ(pack(&ctx, q, &t), RT_OK);
    CHECK_EQ(run(&ctx, q, &t), RT_OK);
    double worst = 0, scale = 1e-6;
    bool kinds = true;
    for (int64_t n = 0; n < q->n; n++)
        for (int64_t o = 0; o < q->o; o++)
            for (int64_t y = 0; y < t.y.size[2]; y++)
                for (int64_t z = 0; z < t.y.size[3]; z++) {
                    double want = reference(q, &t.x, &t.w, &t.residual, t.bias.p, n, o, y, z),
                           got = (double)*at4(&t.y, n, o, y, z);
                    if (isnan(want) != isnan(got)) kinds = false;
                    if (fabs(want - got) > worst) worst = fabs(want - got);
                    if (fabs(want) > scale) scale = fabs(want);
                }
    bool exact = !strcmp(q->act, "none") || !strcmp(q->act, "relu") || !strcmp(q->act, "relu6");
    if (!kinds || worst > (may_transform(q) ? 1e-5 : exact ? 0 : 2e-6) * scale)
        CHECK_FAILED("n %d c %d o %d %dx%d groups %d kernel %dx%d stride %dx%d padding %dx%d dilation %dx%d %s: off by "
                     "%g",
                     (int)q->n, (int)q->c, (int)q->o, (int)q->h, (int)q->w, (int)q->groups, (int)q->kernel[0],
                     (int)q->kernel[1], (int)q->stride[0], (int)q->stride[1], (int)q->padding[0], (int)q->padding[1],
                     (int)q->dilation[0], (int)q->dilation[1], q->act, worst);
    else check_count(true);
    operands_free(&t);
}

static const char *const acts[] = { "none", "relu", "relu6",     "hardswish", "hardsigmoid",
                                    "silu", "gelu", "gelu_tanh", "sigmoid",   "tanh" };

static problem draw_problem(void) {
    problem q = { .n = 1 + draw(2),
                  .c = 1 + draw(40),
                  .h = 1 + draw(20),
                  .w = 1 + draw(34),
                  .groups = 1,
                  .bias = draw(2),
                  .residual = draw(2),
                  .act = acts[draw(10)] };
    q.o = 1 + draw(70);
    int64_t kind = draw(4);
    if (kind == 0) q.o = q.groups = q.c = 2 + draw(39);           /* depthwise */
    if (kind == 1) q.groups = 1 + draw(4), q.c = q.groups * (1 + draw(9)), q.o = q.groups * (1 + draw(20));
    for (int d = 0; d < 2; d++) {
        q.kernel[d] = 1 + draw(7);
        q.stride[d] = 1 + draw(3);
        q.padding[d] = draw(q.kernel[d] + 2); /* also beyond what the kernel covers */
        q.dilation[d] = draw(3) ? 1 : 2;
        int64_t *size = d ? &q.w : &q.h, need = (q.kernel[d] - 1) * q.dilation[d] + 1 - 2 * q.padding[d];
        if (*size < need) *size = need;
    }
    if (draw(3) == 0) q.kernel[0] = q.kernel[1] = 1, q.padding[0] = q.padding[1] = 0;
    return q;
}

static void random_problems(void) {
    for (int i = 0; i < 250; i++) {
        problem q = draw_problem();
        check_problem(&q, i % 8 == 0);
    }
}

/* Shapes of networks, with every fixed depthwise kernel, many runs (dilated 11x11), weights large enough for the other
 * order. */
static void chosen_problems(void) {
    static const problem all[] = {
        { 1, 3, 32, 37, 41, 1, { 7, 7 }, { 2, 2 }, { 3, 3 }, { 1, 1 }, true, false, "relu" },
        { 1, 32, 64, 28, 28, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, true, "relu" },
        { 1, 256, 256, 7, 7, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, false, "none" },
        { 1, 512, 320, 5, 5, 1, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, true, true, "relu" },
        { 2, 24, 40, 14, 14, 1, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, true, false, "hardswish" },
        { 1, 72, 72, 28, 28, 72, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, true, false, "relu" },
        { 1, 48, 48, 15, 17, 48, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 }, true, false, "hardswish" },
        { 1, 33, 33, 15, 17, 33, { 5, 5 }, { 2, 2 }, { 2, 2 }, { 1, 1 }, false, true, "none" },
        { 1, 40, 40, 56, 56, 40, { 7, 7 }, { 1, 1 }, { 3, 3 }, { 1, 1 }, true, false, "none" },
        { 2, 17, 17, 7, 7, 17, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, false, "relu6" },
        { 1, 3, 40, 32, 32, 1, { 4, 4 }, { 4, 4 }, { 0, 0 }, { 1, 1 }, true, false, "none" },
        { 1, 5, 7, 40, 40, 1, { 11, 11 }, { 1, 1 }, { 10, 10 }, { 2, 2 }, true, false, "none" },
        { 0, 5, 7, 9, 9, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, false, "none" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_problem(&all[i], false);
}

/* Sizes for which transforms pay (conv_winograd_tile): both tile sizes, borders of every width, few and many weights, a
 * batch. Activations that do not hide how large the sums were. */
static void transformed_problems(void) {
    static const int64_t sizes[][5] = { { 32, 32, 56, 56, 1 },   { 48, 64, 30, 33, 3 },   { 32, 80, 17, 28, 3 },
                                        { 128, 128, 28, 28, 1 }, { 256, 128, 14, 14, 1 }, { 64, 96, 9, 40, 1 } };
    static const char *const acts[] = { "relu", "none", "silu", "gelu" };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t k = 0; k < sizes[i][4]; k++) {
            int64_t padding = (k + 1) % 3;
            problem q = { 1 + (int64_t)(i % 3 == 1),
                          sizes[i][0],
                          sizes[i][1],
                          sizes[i][2],
                          sizes[i][3],
                          1,
                          { 3, 3 },
                          { 1, 1 },
                          { padding, (padding + (int64_t)i) % 3 },
                          { 1, 1 },
                          padding != 2,
                          draw(2),
                          acts[(i + (size_t)k) % 4] };
            check_problem(&q, false);
        }
}

static void same_bits_for_any_threads(void) {
    static const problem all[] = {
        { 1, 64, 96, 19, 23, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, false, "gelu" },
        { 1, 128, 128, 28, 28, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, true, "relu" },
        { 1, 40, 96, 19, 23, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, false, "gelu" },
        { 1, 512, 330, 9, 9, 1, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, true, false, "silu" },
        { 2, 70, 70, 19, 23, 70, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, false, "sigmoid" }
    };
    rt_pool *pool = rt_pool_create(3);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rt_ctx alone = rt_ctx_plain(NULL, message, sizeof message), many = rt_ctx_plain(pool, message, sizeof message);
        operands t = operands_new(&all[i]);
        for (int64_t j = 0; j < all[i].c * 9; j++) ((float *)t.x.p)[j] *= 0.37f;
        CHECK_EQ(pack(&alone, &all[i], &t), RT_OK);
        size_t bytes = (size_t)(t.y.size[0] * t.y.stride[0]) * 4;
        CHECK_EQ(run(&alone, &all[i], &t), RT_OK);
        float *first = malloc(bytes);
        memcpy(first, t.y.p, bytes);
        memset(t.y.p, 0, bytes);
        CHECK_EQ(run(&many, &all[i], &t), RT_OK);
        bool equal = true;
        for (int64_t n = 0; n < t.y.size[0]; n++)
            for (int64_t o = 0; o < t.y.size[1]; o++)
                for (int64_t y = 0; y < t.y.size[2]; y++)
                    for (int64_t z = 0; z < t.y.size[3]; z++) {
                        float *got = at4(&t.y, n, o, y, z);
                        equal = equal && !memcmp(got, first + (got - (float *)t.y.p), 4);
                    }
        CHECK(equal);
        free(first);
        operands_free(&t);
    }
    rt_pool_release(pool);
}

static int allocations_left;
static void *failing_alloc(void *user, size_t size) {
    (void)user;
    return allocations_left-- > 0 ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
}
static void failing_free(void *user, void *p) { (void)user, free(p); }

static void out_of_memory(void) {
    problem q = { 1, 7, 7, 9, 9, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, true, true, "relu" };
    rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
    operands t = operands_new(&q);
    rt_view *plain[] = { &t.x, &t.y, &t.residual };
    for (int i = 0; i < 3; i++) {
        rt_view v = image_new(1, 7, 9, 9, 1);
        free(plain[i]->p);
        *plain[i] = v;
    }
    CHECK_EQ(pack(&ctx, &q, &t), RT_OK);
    ctx.alloc = failing_alloc, ctx.free = failing_free;
    int failed = 0;
    for (allocations_left = 0;; failed++) {
        int allowed = failed;
        allocations_left = allowed;
        int code = run(&ctx, &q, &t);
        if (!code) break;
        CHECK_EQ(code, RT_ENOMEM);
    }
    CHECK(failed >= 4); /* three operands, the bias, the slots */
    operands_free(&t);
}

static void unknown_activation(void) {
    problem q = { 1, 3, 4, 5, 5, 1, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, true, false, "swoosh" };
    rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
    operands t = operands_new(&q);
    CHECK_EQ(run(&ctx, &q, &t), RT_EVALUE);
    CHECK(strstr(message, "swoosh") != NULL);
    operands_free(&t);
}

int main(int argc, char **argv) {
    (void)argc;
    if (every_isa(argv)) return every_isa_result();
    RUN(random_problems);
    RUN(chosen_problems);
    RUN(transformed_problems);
    RUN(same_bits_for_any_threads);
    RUN(out_of_memory);
    RUN(unknown_activation);
    return check_summary();
}
