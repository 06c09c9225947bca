/* Generators and random kernels against numbers recorded from PyTorch (record_random.py), plus what needs no recording:
 * states, drawing in pieces, both bodies of the Box-Muller blocks, threads sharing a generator, failing allocations. */
#include "check.h"
#include "runtime/kernels.h"
#include "runtime/rt_box_muller.h"
#include "runtime/rt_random.h"
#include "runtime/rt_select.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { SEED = 20231, SHOWN = 16 };
enum { NOTHING, SELF, INPUT, COUNT_AND_P };
#define I(x) { RT_ARG_INT, 0, { .i = (x) } }
#define F(x) { RT_ARG_FLOAT, 0, { .f = (x) } }

typedef struct expected {
    rt_kernel *kernel;
    int given, in_dtype, dtype;
    int64_t in_size[2], size[2];
    int nargs;
    rt_arg arg[2];
    double scale;
    bool transposed, exact; /* exact, or up to the last bits of libm */
    uint64_t next;
    double value[SHOWN];
} expected;

static const expected recorded[] = {
#include "random_expected.inc"
};

static rt_ctx ctx;
static char message[256];

static void *elements(int dtype, int64_t n) { return calloc((size_t)n + 1, (size_t)rt_itemsize(dtype)); }

static rt_view input_of(int dtype, const int64_t *size, double scale, bool round_down) {
    int64_t n = size[0] * size[1];
    char *p = elements(dtype, n);
    for (int64_t i = 0; i < n; i++) {
        double x = scale * ((double)(i % 11 + 1) / 12);
        if (round_down) x = floor(x);
        rt_convert(dtype, p + i * rt_itemsize(dtype), 1, RT_F64, &x, 1, 1);
    }
    return rt_view_contiguous(p, dtype, size[1] == 1 ? 1 : 2, size);
}

static rt_view transposed(rt_view v) {
    rt_view t = v;
    t.size[0] = v.size[1], t.size[1] = v.size[0], t.stride[0] = v.stride[1], t.stride[1] = v.stride[0];
    return t;
}

/* The distance that errors of a libm in its last place may make, after rounding to the dtype. */
static double tolerance(int dtype, double x) {
    return fabs(x) * (dtype == RT_F64   ? 0x1p-50
                      : dtype == RT_F32 ? 0x1p-22
                      : dtype == RT_F16 ? 0x1p-9
                                        : 0x1p-6) +
           0x1p-60;
}

static void test_recorded(void) {
    for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++) {
        const expected *e = &recorded[k];
        rt_generator g;
        rt_generator_init(&g, SEED);
        int64_t n = e->size[0] * e->size[1];
        rt_view result =
            rt_view_contiguous(elements(e->dtype, n), e->dtype, e->size[1] == 1 && e->in_size[1] == 1 ? 1 : 2, e->size);
        rt_view out = e->transposed ? transposed(result) : result;
        rt_view in = input_of(e->in_dtype, e->in_size, e->scale, e->given == COUNT_AND_P),
                p = input_of(e->in_dtype, e->in_size, 1, false);
        rt_arg arg[5];
        int nargs = 0;
        if (e->given == SELF) arg[nargs++] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &out } };
        if (e->given == INPUT || e->given == COUNT_AND_P) arg[nargs++] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &in } };
        if (e->given == COUNT_AND_P) arg[nargs++] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &p } };
        for (int i = 0; i < e->nargs; i++) arg[nargs++] = e->arg[i];
        arg[nargs++] = (rt_arg){ RT_ARG_GENERATOR, 0, { .generator = &g } };
        rt_call call = { .arg = arg, .out = &out, .nargs = nargs, .nout = 1 };
        CHECK_EQ(e->kernel(&ctx, &call), RT_OK);
        int shown = n < SHOWN ? (int)n : SHOWN;
        for (int i = 0; i < shown; i++) {
            int64_t at = i < 8 || n <= SHOWN ? i : n - SHOWN + i;
            double x;
            rt_convert(RT_F64, &x, 1, e->dtype, (char *)result.p + at * rt_itemsize(e->dtype), 1, 1);
            if (e->exact ? x == e->value[i] : fabs(x - e->value[i]) <= tolerance(e->dtype, x)) check_count(true);
            else CHECK_FAILED("recorded[%zu], element %lld is %a, expected %a", k, (long long)at, x, e->value[i]);
        }
        CHECK(rt_generator_random64(&g) == e->next);
        free(result.p);
        free(in.p);
        free(p.p);
        rt_generator_dispose(&g);
    }
}

static void test_reference_stream(void) {
    /* The 10000th number of the reference implementation for seed 5489 (also the C++ standard's check value). */
    rt_generator g;
    rt_generator_init(&g, 5489);
    for (int i = 0; i < 9999; i++) rt_generator_random32(&g);
    CHECK_EQ(rt_generator_random32(&g), 4123659995u);
    rt_generator_manual_seed(&g, UINT64_C(7) << 32 | 5489); /* the high half is kept but not used */
    CHECK_EQ(rt_generator_random32(&g), 3499211612u);
    CHECK(rt_generator_initial_seed(&g) == (UINT64_C(7) << 32 | 5489));
    rt_generator_dispose(&g);
}

static void test_words_in_pieces(void) {
    static uint32_t whole[3000], pieces[3000];
    rt_generator a, b;
    rt_generator_init(&a, 1);
    rt_generator_init(&b, 1);
    for (int i = 0; i < 3000; i++) whole[i] = rt__word(&a);
    for (int64_t at = 0, step = 1; at < 3000; at += step, step = step * 3 % 701 + 1) {
        if (step > 3000 - at) step = 3000 - at;
        rt__words(&b, pieces + at, step);
    }
    CHECK(!memcmp(whole, pieces, sizeof whole));
    CHECK_EQ(a.left, b.left);
    CHECK_EQ(a.next, b.next);
    rt_generator_dispose(&a);
    rt_generator_dispose(&b);
}

static void test_state(void) {
    static uint8_t state[RT_GENERATOR_STATE_BYTES], again[RT_GENERATOR_STATE_BYTES], bad[RT_GENERATOR_STATE_BYTES];
    rt_generator a, b;
    rt_generator_init(&a, 3);
    rt_generator_init(&b, 4);
    for (int i = 0; i < 1000; i++) rt_generator_random32(&a);
    rt__normal(&a); /* keeps one back */
    rt_generator_get_state(&a, state);
    CHECK_EQ(rt_generator_set_state(&ctx, &b, state, sizeof state), RT_OK);
    rt_generator_get_state(&b, again);
    CHECK(!memcmp(state, again, sizeof state));
    CHECK(rt__normal(&a) == rt__normal(&b));
    CHECK(rt_generator_random64(&a) == rt_generator_random64(&b));
    rt_generator_get_state(&b, again);
    static const struct {
        int at;
        uint8_t byte;
    } damage[] = {{12, 0}, {9, 0x7f}, {8, 0}, {11, 0x80}, {17, 3}};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        memcpy(bad, state, sizeof bad);
        bad[damage[i].at] = damage[i].byte;
        if (damage[i].at == 8) bad[9] = 0; /* no words left */
        CHECK_EQ(rt_generator_set_state(&ctx, &b, bad, sizeof bad), RT_ERUNTIME);
        CHECK_CONTAINS(message, "invalid mt19937 state");
    }
    /* More words promised than there are: PyTorch would read past its array. */
    memcpy(bad, state, sizeof bad);
    bad[8] = 0x70, bad[9] = 2, bad[16] = 0x70, bad[17] = 2;
    CHECK_EQ(rt_generator_set_state(&ctx, &b, bad, sizeof bad), RT_ERUNTIME);
    CHECK_EQ(rt_generator_set_state(&ctx, &b, state, sizeof state - 1), RT_ERUNTIME);
    CHECK_CONTAINS(message, "5055");
    rt_generator_get_state(&b, bad);
    CHECK(!memcmp(bad, again, sizeof bad)); /* failures change nothing */
    rt_generator_dispose(&a);
    rt_generator_dispose(&b);
}

/* The body of the header as this file is compiled, against the one the library chose: the same bits. */
static void test_box_muller_bodies(void) {
    enum { N = 16 * 500 };
    static float a[N], b[N];
    rt_generator g;
    rt_generator_init(&g, 9);
    for (int i = 0; i < N; i++) a[i] = b[i] = rt__unit_f32(&g);
    a[0] = b[0] = 0, a[1] = b[1] = 0x1.fffffep-1f, a[8] = b[8] = 0, a[9] = b[9] = 0x1.fffffep-1f;
    rt__box_muller_f32(a, N / 16, 0.25f, 3);
    box_muller_blocks(b, N / 16, 0.25f, 3);
    CHECK(!memcmp(a, b, sizeof a));
    double sum = 0;
    for (int i = 0; i < N; i++) sum += a[i];
    CHECK_NEAR(sum / N, 0.25, 0.15);
    rt_generator_dispose(&g);
}

static void test_arguments(void) {
    float x[20] = { 0 };
    rt_view out = rt_view_contiguous(x, RT_F32, 1, (int64_t[]){ 20 });
    rt_arg arg[3] = { { RT_ARG_VIEW, 0, { .view = &out } }, F(3.0), F(1.0) };
    rt_call call = { .arg = arg, .out = &out, .nargs = 3, .nout = 1 };
    CHECK_EQ(rt_k_uniform(&ctx, &call), RT_ERUNTIME);
    CHECK_CONTAINS(message, "from=3 > to=1");
    arg[2] = (rt_arg)F(-1.0);
    CHECK_EQ(rt_k_normal(&ctx, &call), RT_ERUNTIME);
    CHECK_CONTAINS(message, "std -1");
    call.nargs = 2;
    CHECK_EQ(rt_k_bernoulli_float(&ctx, &call), RT_ERUNTIME);
    arg[1] = (rt_arg)F(0.5);
    CHECK(rt_call_generator(&call) == rt_generator_default()); /* no generator given */
    CHECK(rt_generator_initial_seed(rt_generator_default()) == RT_GENERATOR_DEFAULT_SEED);
    rt_view bytes = rt_view_contiguous(x, RT_U8, 1, (int64_t[]){ 20 });
    call.out = &bytes;
    CHECK_EQ(rt_k_exponential(&ctx, &call), RT_ENOTIMPL);
    CHECK_CONTAINS(message, "uint8");
    CHECK_STR(rt_dtype_name(RT_BOOL), "bool");
    CHECK_EQ(rt_k_uniform(&ctx, &(rt_call){ .arg = arg, .out = &bytes, .nargs = 3, .nout = 1 }), RT_ENOTIMPL);
}

/* native_dropout's mask and result belong together, whatever the layout. */
static void test_native_dropout(void) {
    float in[60], result[60];
    uint8_t mask[60];
    for (int i = 0; i < 60; i++) in[i] = (float)i + 1;
    rt_view v = transposed(rt_view_contiguous(in, RT_F32, 2, (int64_t[]){ 6, 10 }));
    rt_view out[2] = { rt_view_contiguous(result, RT_F32, 2, v.size), rt_view_contiguous(mask, RT_BOOL, 2, v.size) };
    rt_generator g;
    rt_generator_init(&g, 5);
    rt_arg arg[4] = { { RT_ARG_VIEW, 0, { .view = &v } }, F(0.25), I(1), { RT_ARG_GENERATOR, 0, { .generator = &g } } };
    rt_call call = { .arg = arg, .out = out, .nargs = 4, .nout = 2 };
    CHECK_EQ(rt_k_native_dropout(&ctx, &call), RT_OK);
    int kept = 0;
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 6; j++) {
            int at = i * 6 + j;
            kept += mask[at];
            CHECK(result[at] == in[j * 10 + i] * (mask[at] ? (float)(1 / 0.75) : 0.0f));
        }
    CHECK(kept > 30 && kept < 58);
    arg[2] = (rt_arg)I(0);
    CHECK_EQ(rt_k_native_dropout(&ctx, &call), RT_OK);
    for (int i = 0; i < 60; i++) CHECK(mask[i] == 1 && result[i] == in[i % 6 * 10 + i / 6]);
    rt_generator_dispose(&g);
}

/* Selection puts the right numbers in the right order for every k; equal ones may come in any, but never twice. */
static void test_select(void) {
    enum { N = 300 };
    rt_generator g;
    rt_generator_init(&g, 12);
    for (int k = 1; k <= N; k += k < 20 ? 1 : 37) {
        for (int kind = 0; kind < 6; kind++) {
            rt_keyed x[N];
            bool seen[N] = { false }, smallest = kind & 1;
            double key[N];
            for (int i = 0; i < N; i++) {
                uint32_t w = rt_generator_random32(&g);
                key[i] = kind < 2 ? (double)(w % 7) : kind < 4 ? (double)w : (double)i;
                if (kind == 1 && w % 50 == 0) key[i] = NAN;
                x[i] = (rt_keyed){ key[i], i };
            }
            rt_select_top(x, N, k, smallest, true);
            for (int i = 0; i < k; i++) {
                CHECK(!seen[x[i].index]);
                seen[x[i].index] = true;
                CHECK(key[x[i].index] == x[i].key || (x[i].key != x[i].key && key[x[i].index] != key[x[i].index]));
                if (i && x[i].key == x[i].key) CHECK(smallest ? x[i - 1].key <= x[i].key : !(x[i - 1].key < x[i].key));
            }
            int better = 0;
            for (int i = 0; i < N; i++)
                better += smallest ? key[i] < x[k - 1].key
                                   : key[i] > x[k - 1].key || (key[i] != key[i] && x[k - 1].key == x[k - 1].key);
            if (x[k - 1].key == x[k - 1].key) CHECK(better < k);
        }
    }
    rt_generator_dispose(&g);
}

static void *draw_thread(void *arg) {
    static const int64_t size[1] = { 4000 };
    rt_generator *g = arg;
    uint64_t *sum = calloc(1, sizeof *sum);
    int64_t *x = calloc(4000, sizeof *x);
    rt_view out = rt_view_contiguous(x, RT_I64, 1, size);
    rt_arg a[3] = { { RT_ARG_VIEW, 0, { .view = &out } }, I(1 << 20), { RT_ARG_GENERATOR, 0, { .generator = g } } };
    rt_ctx own = rt_ctx_plain(NULL, NULL, 0);
    for (int i = 0; i < 10; i++) {
        rt_k_random_to(&own, &(rt_call){ .arg = a, .out = &out, .nargs = 3, .nout = 1 });
        for (int j = 0; j < 4000; j++) *sum += (uint64_t)x[j];
    }
    free(x);
    return sum;
}

/* Threads on one generator get disjoint stretches: together the numbers that one thread would have got. */
static void test_threads(void) {
    enum { THREADS = 4 };
    rt_generator g, alone;
    rt_generator_init(&g, 77);
    rt_generator_init(&alone, 77);
    pthread_t thread[THREADS];
    uint64_t sum = 0, want = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, draw_thread, &g);
    for (int i = 0; i < THREADS; i++) {
        void *part;
        pthread_join(thread[i], &part);
        sum += *(uint64_t *)part;
        free(part);
    }
    for (int i = 0; i < THREADS * 10 * 4000; i++) want += rt_generator_random32(&alone) % (1 << 20);
    CHECK(sum == want);
    CHECK(rt_generator_random64(&g) == rt_generator_random64(&alone));
    rt_generator_dispose(&g);
    rt_generator_dispose(&alone);
}

static int allocations_left;
static void *scarce(void *user, size_t size) {
    (void)user;
    return allocations_left-- > 0 ? aligned_alloc(64, size) : NULL;
}
static void give_back(void *user, void *p) { (void)user, free(p); }

static void test_out_of_memory(void) {
    rt_ctx poor = { .alloc = scarce, .free = give_back, .error = message, .error_size = sizeof message };
    double w[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, result[8];
    int64_t chosen[2];
    rt_view in = rt_view_contiguous(w, RT_F64, 2, (int64_t[]){2, 4}),
            drawn = rt_view_contiguous(result, RT_F64, 2, in.size);
    rt_view weights = rt_view_contiguous(w, RT_F64, 1, (int64_t[]){8}),
            out = rt_view_contiguous(chosen, RT_I64, 1, (int64_t[]){2});
    rt_arg choose[3] = {{RT_ARG_VIEW, 0, {.view = &weights}}, I(2), I(0)},
           drop[3] = {{RT_ARG_VIEW, 0, {.view = &in}}, F(0.5), I(1)};
    rt_call choice = {.arg = choose, .out = &out, .nargs = 3, .nout = 1},
            dropout = {.arg = drop, .out = &drawn, .nargs = 3, .nout = 1};
    for (int n = 0; n < 3; n++) {
        allocations_left = n;
        CHECK_EQ(rt_k_multinomial(&poor, &choice), n < 2 ? RT_ENOMEM : RT_OK);
        allocations_left = n;
        CHECK_EQ(rt_k_feature_dropout(&poor, &dropout), n < 1 ? RT_ENOMEM : RT_OK);
    }
    choose[2] = (rt_arg)I(1);
    allocations_left = 0;
    CHECK_EQ(rt_k_multinomial(&poor, &choice), RT_ENOMEM);
}

int main(void) {
    ctx = rt_ctx_plain(NULL, message, sizeof message);
    RUN(test_reference_stream);
    RUN(test_recorded);
    RUN(test_words_in_pieces);
    RUN(test_state);
    RUN(test_box_muller_bodies);
    RUN(test_arguments);
    RUN(test_native_dropout);
    RUN(test_select);
    RUN(test_threads);
    RUN(test_out_of_memory);
    return check_summary();
}
