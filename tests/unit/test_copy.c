/* rt_copy, rt_fill, rt_contiguous and rt_convert against element-by-element loops. */
#include "check.h"
#include "runtime/rt.h"

#include <stdlib.h>

static rt_ctx ctx;
static char message[128];
static uint64_t seed = 1;

static uint64_t draw(uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static int64_t offset_of(const rt_view *v, int64_t linear, const rt_view *shape) {
    int64_t at = 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        int64_t i = linear % shape->size[d];
        linear /= shape->size[d];
        int from = d - (shape->rank - v->rank);
        if (from >= 0 && v->size[from] != 1) at += i * v->stride[from];
    }
    return at;
}

/* Strides for sizes in a random order with random gaps; *extent is the number of elements spanned. */
static void random_strides(rt_view *v, int64_t *extent, bool gaps) {
    int order[RT_MAX_RANK];
    for (int d = 0; d < v->rank; d++) order[d] = d;
    for (int d = v->rank - 1; d > 0; d--) {
        int other = (int)draw((uint64_t)d + 1), t = order[d];
        order[d] = order[other];
        order[other] = t;
    }
    int64_t stride = gaps && draw(3) == 0 ? 2 : 1;
    for (int d = 0; d < v->rank; d++) {
        v->stride[order[d]] = stride;
        stride *= v->size[order[d]];
        if (gaps && draw(4) == 0) stride += 3;
    }
    *extent = stride + 1;
}

static void one_copy(int dtype, int rank, int64_t most) {
    rt_view dst = { .dtype = dtype, .rank = rank }, src = { .dtype = dtype, .rank = rank };
    int64_t n = 1;
    for (int d = 0; d < rank; d++) {
        dst.size[d] = draw(12) == 0 ? (int64_t)draw(2) : 1 + (int64_t)draw((uint64_t)most);
        src.size[d] = draw(6) == 0 ? 1 : dst.size[d];
        n *= dst.size[d];
    }
    int drop = rank && draw(4) == 0;
    if (drop) {
        src.rank--;
        memmove(src.size, src.size + 1, sizeof(int64_t) * (size_t)src.rank);
    }
    int64_t dst_extent, src_extent, bytes = rt_itemsize(dtype);
    random_strides(&dst, &dst_extent, true);
    random_strides(&src, &src_extent, true);
    char *y = malloc((size_t)(dst_extent * bytes)), *want = malloc((size_t)(dst_extent * bytes));
    char *x = malloc((size_t)(src_extent * bytes));
    for (int64_t i = 0; i < src_extent * bytes; i++) x[i] = (char)draw(256);
    if (draw(5) == 0) memset(x, 0, (size_t)(src_extent * bytes));
    memset(y, 0x5a, (size_t)(dst_extent * bytes));
    memset(want, 0x5a, (size_t)(dst_extent * bytes));
    dst.p = y;
    src.p = x;
    for (int64_t i = 0; i < n; i++)
        memcpy(want + offset_of(&dst, i, &dst) * bytes, x + offset_of(&src, i, &dst) * bytes, (size_t)bytes);
    CHECK_EQ(rt_copy(&ctx, &dst, &src), RT_OK);
    CHECK(memcmp(y, want, (size_t)(dst_extent * bytes)) == 0);
    free(x);
    free(y);
    free(want);
}

static void copies(void) {
    static const int dtypes[] = { RT_U8, RT_F16, RT_F32, RT_I64, RT_C128 };
    for (int round = 0; round < 400; round++)
        for (int k = 0; k < 5; k++) one_copy(dtypes[k], (int)draw(5), 9);
    for (int round = 0; round < 6; round++)
        for (int k = 0; k < 5; k++) one_copy(dtypes[k], 2 + (int)draw(2), 100 + 100 * (round & 1));
}

/* 0..7 are exact in every dtype but bool and e8m0, so any pair must give them back, whatever the strides. */
static void all_pairs(void) {
    enum { N = 700 };
    static double start[N], back[N];
    static uint64_t a[N * 3 * 2], b[N * 2 * 2];
    for (int from = 0; from < RT_DTYPE_COUNT; from++) {
        for (int to = 0; to < RT_DTYPE_COUNT; to++) {
            for (int strided = 0; strided < 2; strided++) {
                for (int i = 0; i < N; i++) {
                    int lossy = from == RT_BOOL || to == RT_BOOL ? 2 : 8;
                    start[i] = i * 5 % lossy;
                    if (from == RT_F8E8M0FNU || to == RT_F8E8M0FNU) start[i] = lossy == 2 ? 1 : 1 << (i * 5 % 3);
                }
                int64_t as = strided ? 3 : 1, bs = strided ? 2 : 1;
                rt_convert(from, a, as, RT_F64, start, 1, N);
                rt_convert(to, b, bs, from, a, as, N);
                rt_convert(RT_F64, back, 1, to, b, bs, N);
                int right = 0;
                for (int i = 0; i < N; i++) right += back[i] == start[i];
                if (right != N)
                    CHECK_FAILED("dtype %d to %d (strided %d): %d of %d right", from, to, strided, right, N);
                else CHECK_EQ(right, N);
            }
        }
    }
}

static double converted(int to, double x) {
    uint64_t item[2];
    double back[2];
    rt_convert(to, item, 1, RT_F64, &x, 1, 1);
    rt_convert(RT_F64, back, 1, to, item, 1, 1);
    return back[0];
}

static void conversion_rules(void) {
    CHECK_FLOAT(converted(RT_I32, -2.9), -2);
    CHECK_FLOAT(converted(RT_I64, 2.9), 2);
    CHECK_FLOAT(converted(RT_U8, -1.5), 255);
    CHECK_FLOAT(converted(RT_U8, 257), 1);
    CHECK_FLOAT(converted(RT_I8, 200), -56);
    CHECK_FLOAT(converted(RT_I32, NAN), (double)INT32_MIN);
    CHECK_FLOAT(converted(RT_I64, 1e30), (double)INT64_MIN);
    CHECK_FLOAT(converted(RT_U64, 0x1p63), 0x1p63);
    CHECK_FLOAT(converted(RT_BOOL, NAN), 1);
    CHECK_FLOAT(converted(RT_BOOL, -0.0), 0);
    CHECK_FLOAT(converted(RT_BOOL, 1e-300), 1);
    CHECK_FLOAT(converted(RT_F16, 65519.99), 65504);
    CHECK_FLOAT(converted(RT_F16, 65520), INFINITY);
    CHECK_FLOAT(converted(RT_F16, NAN), NAN);
    CHECK_FLOAT(converted(RT_F16, 0x1p-25), 0);
    CHECK_FLOAT(converted(RT_F16, 0x1.8p-24), 0x1p-23);
    CHECK_FLOAT(converted(RT_BF16, 257), 256);
    CHECK_FLOAT(converted(RT_BF16, 259), 260);
    CHECK_FLOAT(converted(RT_BF16, 3.4e38), INFINITY);
    CHECK_FLOAT(converted(RT_F8E4M3FN, 1e9), 448);
    CHECK_FLOAT(converted(RT_F8E4M3FN, -INFINITY), -448);
    CHECK_FLOAT(converted(RT_F8E4M3FN, NAN), NAN);
    CHECK_FLOAT(converted(RT_F8E4M3FN, 0x1p-10), 0);
    CHECK_FLOAT(converted(RT_F8E4M3FN, 0x1.8p-9), 0x1p-8);
    CHECK_FLOAT(converted(RT_F8E5M2, 61440), INFINITY);
    CHECK_FLOAT(converted(RT_F8E5M2, 61439), 57344);
    CHECK_FLOAT(converted(RT_F8E4M3FNUZ, 240), 240);
    CHECK_FLOAT(converted(RT_F8E4M3FNUZ, 249), NAN);
    CHECK(!signbit(converted(RT_F8E5M2FNUZ, -0.0)));
    CHECK(signbit(converted(RT_F8E5M2, -0.0)));
    CHECK_FLOAT(converted(RT_F8E8M0FNU, -5.9), 4);
    CHECK_FLOAT(converted(RT_F8E8M0FNU, 6.0), 8);
    int64_t big = (1 << 24) + 1, item;
    float f;
    rt_convert(RT_F32, &f, 1, RT_I64, &big, 1, 1);
    CHECK_FLOAT(f, 1 << 24);
    double z[2] = { 0, 3 };
    rt_convert(RT_BOOL, &item, 1, RT_C128, z, 1, 1);
    CHECK_EQ(*(uint8_t *)&item, 1);
    rt_convert(RT_I64, &item, 1, RT_C128, z, 1, 1);
    CHECK_EQ(item, 0);
}

/* Every half: back to itself, and the midpoint to its neighbour rounds to the even one, anything past it up. */
static void halves(void) {
    int exact = 0, even = 0, past = 0, finite = 0;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float x = rt_f16_to_f32((uint16_t)h), next = h == 0x7bff ? 65536 : rt_f16_to_f32((uint16_t)(h + 1));
        float middle = (x + next) / 2;
        finite++;
        exact += rt_f32_to_f16(x) == h && rt_f32_to_f16(-x) == (h | 0x8000);
        even += rt_f32_to_f16(middle) == (h & 1 ? h + 1 : h);
        past += rt_f32_to_f16(nextafterf(middle, INFINITY)) == h + 1 && rt_f32_to_f16(nextafterf(middle, 0)) == h;
    }
    CHECK_EQ(exact, finite);
    CHECK_EQ(even, finite);
    CHECK_EQ(past, finite);
    CHECK(isinf(rt_f16_to_f32(0x7c00)) && isnan(rt_f16_to_f32(0xfc01)));
}

static void converting_copy(void) {
    enum { R = 70, C = 90 };
    static float x[R * C];
    static uint16_t y[C * R];
    for (int i = 0; i < R * C; i++) x[i] = (float)i;
    rt_view src = { .p = x, .size = { C, R }, .stride = { 1, C }, .rank = 2, .dtype = RT_F32 };
    rt_view dst = { .p = y, .size = { C, R }, .stride = { R, 1 }, .rank = 2, .dtype = RT_BF16 };
    CHECK_EQ(rt_copy(&ctx, &dst, &src), RT_OK);
    int right = 0;
    for (int c = 0; c < C; c++)
        for (int r = 0; r < R; r++) right += y[c * R + r] == rt_f32_to_bf16(x[r * C + c]);
    CHECK_EQ(right, R * C);
}

static void fills(void) {
    float x[12];
    for (int i = 0; i < 12; i++) x[i] = -1;
    rt_view v = { .p = x, .size = { 3, 2 }, .stride = { 4, 2 }, .rank = 2, .dtype = RT_F32 };
    CHECK_EQ(rt_fill(&ctx, &v, (rt_scalar){ RT_ARG_FLOAT, 0, 2.5, 0 }), RT_OK);
    for (int i = 0; i < 12; i++) CHECK_FLOAT(x[i], i % 2 ? -1 : 2.5);
    uint8_t flag = 7;
    rt_view one = { .p = &flag, .dtype = RT_BOOL };
    CHECK_EQ(rt_fill(&ctx, &one, (rt_scalar){ RT_ARG_COMPLEX, 0, 0, 1 }), RT_OK);
    CHECK_EQ(flag, 1);
    int64_t many[1000];
    rt_view ints = rt_view_contiguous(many, RT_I64, 1, (int64_t[]){ 1000 });
    CHECK_EQ(rt_fill(&ctx, &ints, (rt_scalar){ RT_ARG_INT, INT64_MAX, 0, 0 }), RT_OK);
    CHECK_EQ(many[999], INT64_MAX);
}

static void contiguous(void) {
    float x[6] = { 0, 1, 2, 3, 4, 5 };
    rt_view v = { .p = x, .size = { 3, 1, 2 }, .stride = { 2, 77, 1 }, .rank = 3, .dtype = RT_F32 }, out;
    void *scratch;
    CHECK(rt_is_contiguous(&v));
    CHECK_EQ(rt_contiguous(&ctx, &v, RT_F32, &out, &scratch), RT_OK);
    CHECK(out.p == x && scratch == NULL);
    v.size[0] = 2, v.size[2] = 3, v.stride[0] = 1, v.stride[2] = 2;
    CHECK(!rt_is_contiguous(&v));
    CHECK_EQ(rt_contiguous(&ctx, &v, RT_I64, &out, &scratch), RT_OK);
    CHECK(out.p == scratch);
    int64_t want[6] = { 0, 2, 4, 1, 3, 5 };
    CHECK(memcmp(out.p, want, sizeof want) == 0);
    rt_scratch_free(&ctx, scratch);
    v.size[1] = 0;
    CHECK(rt_is_contiguous(&v));
    CHECK_EQ(rt_numel(&v), 0);
    v.p = NULL;
    CHECK_EQ(rt_contiguous(&ctx, &v, RT_I64, &out, &scratch), RT_OK);
    rt_scratch_free(&ctx, scratch);
}

int main(void) {
    rt_pool *pool = rt_pool_create(3);
    ctx = rt_ctx_plain(pool, message, sizeof message);
    RUN(copies);
    RUN(all_pairs);
    RUN(conversion_rules);
    RUN(halves);
    RUN(converting_copy);
    RUN(fills);
    RUN(contiguous);
    rt_pool_release(pool);
    return check_summary();
}
