/* The Fourier kernels against the sum they are defined by: lengths of every kind, both precisions, strides, several
 * dims, normalisations; real transforms against complex ones; equal bits for any number of threads. */
#include "check.h"
#include "runtime/kernels.h"

#include <complex.h>
#include <stdlib.h>

static char message[128];
static rt_ctx ctx;
static uint64_t seed = 5;

static double draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / (1 << 23) - 1;
}

static int call(rt_kernel *kernel, const rt_view *self, const int64_t *dims, uint32_t ndims, int64_t norm, int64_t last,
                const rt_view *out) {
    rt_arg args[4] = { { .kind = RT_ARG_VIEW, .u.view = self },
                       { .kind = RT_ARG_INTS, .n = ndims, .u.ints = dims },
                       { .kind = RT_ARG_INT, .u.i = norm },
                       { .kind = RT_ARG_INT, .u.i = last } };
    rt_call c = { .arg = args, .out = out, .nargs = 4, .nout = 1 };
    return kernel(&ctx, &c);
}

static void naive(const double complex *x, double complex *y, int64_t n, bool forward) {
    for (int64_t j = 0; j < n; j++) {
        y[j] = 0;
        for (int64_t k = 0; k < n; k++)
            y[j] += x[k] * cexp((forward ? -1 : 1) * 2 * M_PI * I * (double)(j * k % n) / (double)n);
    }
}

static void lengths(void) {
    enum { MOST = 300, LINES = 3 };
    static const int64_t more[] = { 64, 67, 97, 100, 128, 131, 134, 169, 243, 256, 300 };
    static double complex x[MOST * LINES * 2], y[MOST * LINES], want[MOST];
    static float complex narrow[MOST * LINES];
    const int64_t dims[] = { -1 };
    for (int64_t i = 0; i < 40 + 11; i++) {
        int64_t n = i < 40 ? i + 1 : more[i - 40];
        for (int64_t k = 0; k < 2 * n * LINES; k++) x[k] = draw() + I * draw();
        rt_view self = rt_view_contiguous(x, RT_C128, 2, (int64_t[]){ LINES, n }),
                out = rt_view_contiguous(y, RT_C128, 2, self.size);
        self.stride[0] = 2 * n, self.stride[1] = 2; /* every second number */
        for (int forward = 0; forward < 2; forward++) {
            CHECK_EQ(call(rt_k_fft_c2c, &self, dims, 1, 0, forward, &out), RT_OK);
            for (int64_t line = 0; line < LINES; line++) {
                double complex dense[MOST];
                for (int64_t k = 0; k < n; k++) dense[k] = x[line * 2 * n + 2 * k];
                naive(dense, want, n, forward);
                double worst = 0;
                for (int64_t k = 0; k < n; k++) worst = fmax(worst, cabs(want[k] - y[line * n + k]));
                CHECK(worst < 1e-11 * (double)n);
            }
        }
        rt_view small = rt_view_contiguous(narrow, RT_C64, 2, out.size), small_out = small;
        for (int64_t k = 0; k < n; k++) narrow[k] = (float complex)x[k], x[k] = narrow[k];
        small.size[0] = small_out.size[0] = 1;
        CHECK_EQ(call(rt_k_fft_c2c, &small, dims, 1, 2, 1, &small_out), RT_OK); /* in place */
        naive(x, want, n, true);
        double worst = 0;
        for (int64_t k = 0; k < n; k++) worst = fmax(worst, cabs(want[k] / (double)n - narrow[k]));
        CHECK(worst < 1e-7);
    }
}

/* r2c is c2c of real numbers, cut; c2r undoes it. Two dims, one of them first in memory. */
static void real_ones(void) {
    enum { A = 6, B = 5 };
    double x[A * B], back[A * B];
    double complex wide[A * B], full[A * B], half[A * (B / 2 + 1)];
    const int64_t dims[] = { 0, 1 };
    for (int i = 0; i < A * B; i++) wide[i] = x[i] = draw();
    rt_view real = rt_view_contiguous(x, RT_F64, 2, (int64_t[]){ A, B }),
            again = rt_view_contiguous(back, RT_F64, 2, real.size);
    rt_view complex_in = rt_view_contiguous(wide, RT_C128, 2, real.size),
            complex_out = rt_view_contiguous(full, RT_C128, 2, real.size);
    rt_view cut = rt_view_contiguous(half, RT_C128, 2, (int64_t[]){ A, B / 2 + 1 });
    CHECK_EQ(call(rt_k_fft_c2c, &complex_in, dims, 2, 1, 1, &complex_out), RT_OK);
    CHECK_EQ(call(rt_k_fft_r2c, &real, dims, 2, 1, 1, &cut), RT_OK);
    for (int a = 0; a < A; a++)
        for (int b = 0; b < B / 2 + 1; b++) CHECK(cabs(full[a * B + b] - half[a * (B / 2 + 1) + b]) < 1e-13);
    CHECK_EQ(call(rt_k_fft_c2r, &cut, dims, 2, 1, B, &again), RT_OK);
    for (int i = 0; i < A * B; i++) CHECK(fabs(back[i] - x[i]) < 1e-13);
    rt_view columns = real; /* the transposed memory gives the transposed result */
    columns.size[0] = B, columns.size[1] = A, columns.stride[0] = 1, columns.stride[1] = B;
    rt_view rows = rt_view_contiguous(half, RT_C128, 2, (int64_t[]){ B / 2 + 1, A });
    CHECK_EQ(call(rt_k_fft_r2c, &columns, (int64_t[]){ 1, 0 }, 2, 1, 1, &rows), RT_OK);
    for (int a = 0; a < A; a++)
        for (int b = 0; b < B / 2 + 1; b++) CHECK(cabs(full[a * B + b] - half[b * A + a]) < 1e-13);
}

static void threads(void) {
    enum { LINES = 500, N = 60 };
    static float x[2 * LINES * N], one[2 * LINES * N], many[2 * LINES * N];
    for (int i = 0; i < 2 * LINES * N; i++) x[i] = (float)draw();
    rt_view self = rt_view_contiguous(x, RT_C64, 2, (int64_t[]){ LINES, N }), a = self, b = self;
    a.p = one, b.p = many;
    CHECK_EQ(call(rt_k_fft_c2c, &self, (int64_t[]){ 0, 1 }, 2, 0, 1, &a), RT_OK);
    ctx.pool = rt_pool_create(4);
    CHECK_EQ(call(rt_k_fft_c2c, &self, (int64_t[]){ 0, 1 }, 2, 0, 1, &b), RT_OK);
    rt_pool_release(ctx.pool);
    ctx.pool = NULL;
    CHECK_EQ(memcmp(one, many, sizeof one), 0);
}

int main(void) {
    ctx = rt_ctx_plain(NULL, message, sizeof message);
    RUN(lengths);
    RUN(real_ones);
    RUN(threads);
    return check_summary();
}
