/* Dtypes, promotion, devices, metas, storages, tensors and the shared context. */
#include "check.h"
#include "tensor/tensor.h"

#include <pthread.h>

static const cr_device cpu = { CR_CPU, -1 };

static void dtypes(void) {
    int d;
    CHECK_STR(cr_dtype_name(CR_F32), "float32");
    CHECK_STR(cr_dtype_short(CR_BOOL), "b8");
    CHECK_STR(cr_dtype_aten(CR_C64), "ComplexFloat");
    for (int i = 0; i < CR_DTYPE_COUNT; i++) {
        CHECK(cr_dtype_find(cr_dtype_name(i), &d) && d == i);
        CHECK(cr_dtype_find(cr_dtype_short(i), &d) && d == i);
        CHECK(cr_dtype_find(cr_dtype_aten(i), &d) && d == i);
    }
    CHECK(cr_dtype_find("double", &d) && d == CR_F64);
    CHECK(!cr_dtype_find("float31", &d));
    CHECK_STR(cr_dtype_name(-1), "undefined");
}

/* The table as PyTorch 2.13 prints it; rows and columns in the order of RT_DTYPES up to uint64; "-": an error. */
static const char *const promotions[] = {
    "u8 i16 i16 i32 i64 f16 f32 f64 c32 c64 c128 u8 bf16 - - -",
    "i16 i8 i16 i32 i64 f16 f32 f64 c32 c64 c128 i8 bf16 - - -",
    "i16 i16 i16 i32 i64 f16 f32 f64 c32 c64 c128 i16 bf16 - - -",
    "i32 i32 i32 i32 i64 f16 f32 f64 c32 c64 c128 i32 bf16 - - -",
    "i64 i64 i64 i64 i64 f16 f32 f64 c32 c64 c128 i64 bf16 - - -",
    "f16 f16 f16 f16 f16 f16 f32 f64 c32 c64 c128 f16 f32 f16 f16 f16",
    "f32 f32 f32 f32 f32 f32 f32 f64 c64 c64 c128 f32 f32 f32 f32 f32",
    "f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 c128 f64 f64 f64 f64 f64",
    "c32 c32 c32 c32 c32 c32 c64 c128 c32 c64 c128 c32 c64 - - -",
    "c64 c64 c64 c64 c64 c64 c64 c128 c64 c64 c128 c64 c64 - - -",
    "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 - - -",
    "u8 i8 i16 i32 i64 f16 f32 f64 c32 c64 c128 b8 bf16 - - -",
    "bf16 bf16 bf16 bf16 bf16 f32 f32 f64 c64 c64 c128 bf16 bf16 bf16 bf16 bf16",
    "- - - - - f16 f32 f64 - - - - bf16 u16 - -",
    "- - - - - f16 f32 f64 - - - - bf16 - u32 -",
    "- - - - - f16 f32 f64 - - - - bf16 - - u64",
};

static void promotion_table(void) {
    for (int a = 0; a < (int)CR_COUNT(promotions); a++) {
        const char *at = promotions[a];
        for (int b = 0; b < (int)CR_COUNT(promotions); b++) {
            char want[8];
            size_t n = strcspn(at, " ");
            snprintf(want, sizeof want, "%.*s", (int)n, at);
            at += n + (at[n] == ' ');
            int got = cr_promote_types(a, b);
            CHECK_STR(got < 0 ? "-" : cr_dtype_short(got), want);
        }
    }
    for (int f8 = CR_F8E4M3FN; f8 <= CR_F8E8M0FNU; f8++)
        for (int b = 0; b < CR_DTYPE_COUNT; b++) CHECK_EQ(cr_promote_types(f8, b), b == f8 ? f8 : -1);
    CHECK(cr_can_cast(CR_F64, CR_F16) && !cr_can_cast(CR_F32, CR_I64) && !cr_can_cast(CR_C64, CR_F64));
    CHECK(cr_can_cast(CR_I64, CR_U8) && !cr_can_cast(CR_U8, CR_BOOL) && cr_can_cast(CR_BOOL, CR_U8));
}

enum { DIM, ZERO, NUMBER };
static const struct { int a, a_class, b, b_class; const char *want; } classes[] = {
    { CR_I32, DIM, CR_F64, NUMBER, "f32" },    { CR_F16, DIM, CR_F64, NUMBER, "f16" },
    { CR_F64, DIM, CR_C128, NUMBER, "c128" },  { CR_F16, DIM, CR_C128, NUMBER, "c32" },
    { CR_BF16, DIM, CR_C128, ZERO, "c64" },    { CR_I8, DIM, CR_I64, ZERO, "i8" },
    { CR_BOOL, DIM, CR_I64, NUMBER, "i64" },   { CR_U8, DIM, CR_BOOL, NUMBER, "u8" },
    { CR_F32, DIM, CR_F64, ZERO, "f32" },      { CR_I64, DIM, CR_F16, ZERO, "f16" },
    { CR_I64, ZERO, CR_F64, NUMBER, "f32" },   { CR_U16, DIM, CR_I64, NUMBER, "u16" },
    { CR_U16, DIM, CR_C128, NUMBER, "c64" },   { CR_F32, DIM, CR_F64, DIM, "f64" },
    { CR_I64, NUMBER, CR_F64, NUMBER, "f32" },
};

static void promotion_classes(void) {
    for (size_t i = 0; i < CR_COUNT(classes); i++) {
        cr_promotion p = CR_PROMOTION_INIT;
        int dtype[2] = { classes[i].a, classes[i].b }, class[2] = { classes[i].a_class, classes[i].b_class }, out = -1;
        for (int k = 0; k < 2; k++) {
            cr_meta m;
            cr_meta_init(&m, dtype[k], cpu);
            m.flags = class[k] == NUMBER ? CR_META_WRAPPED : 0;
            if (class[k] == DIM) CHECK_OK(cr_meta_set_dense(NULL, &m, 1, (cr_dim[]){ 2 }, CR_CONTIGUOUS));
            CHECK_OK(cr_promotion_add(&p, &m));
        }
        CHECK_OK(cr_promotion_result(&p, &out));
        CHECK_STR(cr_dtype_short(out), classes[i].want);
    }
    cr_promotion p = CR_PROMOTION_INIT;
    cr_promotion_add_dtype(&p, CR_U16, false);
    cr_promotion_add_dtype(&p, CR_I32, false);
    int out;
    CHECK_ERROR(cr_promotion_result(&p, &out), CR_ERUNTIME, "UInt16 together with Int");
    CHECK_OK(cr_set_default_dtype(CR_F64));
    p = (cr_promotion)CR_PROMOTION_INIT;
    cr_promotion_add_dtype(&p, CR_F64, true);
    CHECK_OK(cr_promotion_result(&p, &out));
    CHECK_EQ(out, CR_F64);
    CHECK_OK(cr_set_default_dtype(CR_F32));
    CHECK_ERROR(cr_set_default_dtype(CR_I64), CR_ETYPE, "int64");
}

static void devices(void) {
    cr_device d;
    cr_str s;
    CHECK_OK(cr_device_parse("cuda:3", &d));
    CHECK_EQ(d.type, CR_CUDA);
    CHECK_EQ(d.index, 3);
    cr_str_init(&s);
    cr_device_print(d, &s);
    CHECK_STR(cr_str_get(&s), "cuda:3");
    cr_str_dispose(&s);
    static const char *const bad[] = { "", "cpu:", "cuda:01", "cuda:-1", "cuda: 1", "gpu", "cpux", "cuda:200" };
    for (size_t i = 0; i < CR_COUNT(bad); i++) CHECK_ERROR(cr_device_parse(bad[i], &d), CR_ERUNTIME, "device");
}

static void metas(void) {
    cr_meta m;
    int64_t bytes;
    cr_meta_init(&m, CR_F32, cpu);
    CHECK_OK(cr_meta_set_dense(NULL, &m, 3, (cr_dim[]){ 2, 0, 4 }, CR_CONTIGUOUS));
    CHECK_EQ(m.stride[0], 4);
    CHECK_EQ(m.stride[1], 4);
    CHECK_EQ(cr_meta_numel(NULL, &m), 0);
    CHECK_OK(cr_meta_bytes(&m, &bytes));
    CHECK_EQ(bytes, 0);
    CHECK_ERROR(cr_meta_set_dense(NULL, &m, 2, (cr_dim[]){ 2, -1 }, CR_CONTIGUOUS), CR_ERUNTIME, "[2, -1]");
    CHECK_ERROR(cr_meta_set_dense(NULL, &m, 2, (cr_dim[]){ INT64_C(1) << 40, INT64_C(1) << 40 }, CR_CONTIGUOUS),
                CR_ERUNTIME, "bytes");
    CHECK_ERROR(cr_meta_set_dense(NULL, &m, 1, (cr_dim[]){ INT64_C(1) << 62 }, CR_CONTIGUOUS), CR_ERUNTIME, "bytes");
    CHECK_ERROR(cr_meta_set_dense(NULL, &m, 3, (cr_dim[]){ 2, 3, 4 }, CR_CHANNELS_LAST), CR_ERUNTIME, "channels_last");
    cr_dim many[CR_MAX_RANK + 1] = { 0 };
    CHECK_ERROR(cr_meta_set_dense(NULL, &m, CR_MAX_RANK + 1, many, CR_CONTIGUOUS), CR_ERUNTIME, "16");
    CHECK_OK(cr_meta_set_dense(NULL, &m, 4, (cr_dim[]){ 2, 3, 4, 5 }, CR_CHANNELS_LAST));
    cr_str s;
    cr_str_init(&s);
    cr_meta_print(NULL, &m, &s);
    CHECK_STR(cr_str_get(&s), "f32[2, 3, 4, 5](60, 1, 15, 3)@cpu");
    cr_str_dispose(&s);
    m.offset = 7;
    CHECK_OK(cr_meta_bytes(&m, &bytes));
    CHECK_EQ(bytes, (120 + 7) * 4);
    m.stride[0] = INT64_MAX / 2;
    CHECK_ERROR(cr_meta_bytes(&m, &bytes), CR_ERUNTIME, "bytes");
}

static void overlaps(void) {
    cr_meta a, b;
    cr_meta_init(&a, CR_F32, cpu);
    CHECK_OK(cr_meta_set_dense(NULL, &a, 2, (cr_dim[]){ 2, 3 }, CR_CONTIGUOUS));
    a.storage = 5;
    b = a;
    CHECK_EQ(cr_meta_overlap(&a, &a), CR_OVERLAP_FULL);
    CHECK_EQ(cr_meta_overlap(&a, &b), CR_OVERLAP_FULL);
    b.offset = 5;
    CHECK_EQ(cr_meta_overlap(&a, &b), CR_OVERLAP_PARTIAL);
    b.offset = 6;
    CHECK_EQ(cr_meta_overlap(&a, &b), CR_OVERLAP_NONE);
    b = a;
    b.storage = 6;
    CHECK_EQ(cr_meta_overlap(&a, &b), CR_OVERLAP_NONE);
    b.storage = 5;
    b.stride[0] = 4;
    CHECK_EQ(cr_meta_overlap(&a, &b), CR_OVERLAP_TOO_HARD);
    b.stride[0] = 0;
    CHECK_EQ(cr_meta_self_overlap(&b), CR_YES);
}

static void tensors(void) {
    int64_t live = cr_alloc_live();
    float data[] = { 1, 2, 3, 4, 5, 6 };
    cr_tensor *t, *v;
    rt_scalar x;
    CHECK_OK(cr_tensor_from(CR_F32, 2, (int64_t[]){ 2, 3 }, data, &t));
    CHECK_EQ((uintptr_t)t->storage->data % 64, 0);
    CHECK_OK(cr_tensor_item(t, (int64_t[]){ 1, 2 }, &x));
    CHECK_EQ(x.kind, RT_ARG_FLOAT);
    CHECK_FLOAT(x.f, 6);
    CHECK_ERROR(cr_tensor_item(t, (int64_t[]){ 2, 0 }, &x), CR_EINDEX, "dimension 0");
    cr_meta m = t->meta;
    m.rank = 1;
    m.size[0] = 2;
    m.stride[0] = 3;
    m.offset = 1;
    CHECK_OK(cr_tensor_on(t->storage, &m, t, NULL, &v));
    CHECK(v->base == t && v->meta.storage == t->meta.storage);
    uint64_t version = cr_tensor_version(t);
    cr_tensor_bump(v);
    CHECK_EQ(cr_tensor_version(t), version + 1);
    cr_tensor *apart, *together;
    CHECK_OK(cr_tensor_on(t->storage, &t->meta, NULL, NULL, &apart));
    CHECK_OK(cr_tensor_on(t->storage, &t->meta, NULL, NULL, &together));
    CHECK_OK(cr_tensor_share_version(together, v)); /* as detach() does: with the view's root */
    uint64_t writes = cr_storage_writes(t->storage);
    cr_tensor_bump(together);
    CHECK(cr_tensor_version(t) == version + 2 && cr_tensor_version(v) == version + 2 && cr_tensor_version(apart) == 0);
    cr_tensor_bump(apart);
    CHECK(cr_tensor_version(t) == version + 2 && cr_tensor_version(apart) == 1);
    CHECK_EQ(cr_storage_writes(t->storage), writes + 2);
    cr_tensor_release(apart);
    cr_tensor_release(together);
    cr_tensor_release(t);
    rt_view view = cr_tensor_view(v);
    CHECK_FLOAT(((float *)view.p)[view.stride[0]], 5);
    m.offset = 3;
    cr_tensor *bad;
    CHECK_ERROR(cr_tensor_on(v->storage, &m, v, NULL, &bad), CR_ERUNTIME, "storage of 24");
    m.offset = -1;
    CHECK_ERROR(cr_tensor_on(v->storage, &m, v, NULL, &bad), CR_ERUNTIME, "negative");
    cr_tensor_release(v);

    CHECK_OK(cr_tensor_scalar(CR_C64, (rt_scalar){ RT_ARG_COMPLEX, 0, 1.5, -2 }, &t));
    CHECK_OK(cr_tensor_item(t, NULL, &x));
    CHECK_FLOAT(x.im, -2);
    t->meta.flags |= CR_META_CONJ;
    CHECK_OK(cr_tensor_item(t, NULL, &x));
    CHECK_FLOAT(x.im, 2);
    cr_tensor_release(t);

    CHECK_OK(cr_tensor_from(CR_I64, 1, (int64_t[]){ 0 }, NULL, &t));
    CHECK(t->storage->data == NULL);
    cr_tensor_release(t);
    m = (cr_meta){ 0 };
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CUDA, 0 });
    CHECK_ERROR(cr_tensor_create(&m, &t), CR_ERUNTIME, "cuda");
    CHECK_OK(cr_tensor_create_fake(NULL, &m, &t));
    CHECK(cr_tensor_is_fake(t) && t->meta.storage);
    CHECK_ERROR(cr_tensor_item(t, NULL, &x), CR_EDATADEP, "fake");
    cr_tensor_release(t);
    CHECK_EQ(cr_alloc_live(), live);
}

static int disposed;
static void count_dispose(void *user, void *data) { disposed += user == &disposed && data == &disposed; }

static void storages(void) {
    cr_storage *s;
    int64_t live = cr_alloc_live();
    CHECK_OK(cr_storage_create(8, &s));
    for (int64_t n = 16; n <= 4096; n *= 4) {
        memset(s->data, (int)n % 251, (size_t)s->bytes);
        int64_t before = s->bytes;
        CHECK_OK(cr_storage_resize(s, n));
        CHECK_EQ(s->bytes, n);
        CHECK_EQ(((unsigned char *)s->data)[before - 1], n % 251);
    }
    CHECK_OK(cr_storage_resize(s, 3));
    CHECK_OK(cr_storage_resize(s, 0));
    CHECK(!s->data);
    CHECK_OK(cr_storage_resize(s, 100));
    CHECK(s->data);
    cr_storage_release(s);
    CHECK_OK(cr_storage_wrap(&disposed, 4, count_dispose, &disposed, &s));
    CHECK_ERROR(cr_storage_resize(s, 8), CR_ERUNTIME, "foreign");
    cr_storage_retain(s);
    cr_storage_release(s);
    CHECK_EQ(disposed, 0);
    cr_storage_release(s);
    CHECK_EQ(disposed, 1);
    CHECK_ERROR(cr_storage_create(-1, &s), CR_ERUNTIME, "-1");
    CHECK_EQ(cr_alloc_live(), live);
}

static cr_status make_some(void *arg) {
    (void)arg;
    cr_tensor *a = NULL, *b = NULL;
    cr_status status;
    float zeros[200] = { 0 };
    CR_TRY_OUT(cr_tensor_from(CR_F32, 1, (int64_t[]){ 200 }, zeros, &a));
    CR_TRY_OUT(cr_tensor_on(a->storage, &a->meta, a, NULL, &b));
out:
    cr_tensor_release(b);
    cr_tensor_release(a);
    return status;
}

static void out_of_memory(void) {
    cr_error_release(cr_error_take()); /* the message of an earlier check is a live block */
    CHECK_OOM_SWEEP(make_some, NULL);
}

/* Threads that make, share and drop tensors: run under the thread sanitizer, too. */
static cr_tensor *shared;
static void *churn(void *arg) {
    float data[4] = { 1, 2, 3, 4 };
    for (int i = 0; i < 2000; i++) {
        cr_tensor *t, *v;
        if (cr_tensor_from(CR_F32, 1, (int64_t[]){ 4 }, data, &t)) break;
        cr_tensor_retain(shared);
        if (cr_tensor_on(shared->storage, &shared->meta, shared, NULL, &v)) break;
        cr_tensor_bump(v);
        if (((float *)t->storage->data)[3] != 4) *(int *)arg += 1;
        cr_tensor_release(v);
        cr_tensor_release(shared);
        cr_tensor_release(t);
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    int wrong[4] = { 0 };
    int64_t live = cr_alloc_live();
    CHECK_OK(cr_tensor_from(CR_F32, 1, (int64_t[]){ 2 }, (float[]){ 1, 2 }, &shared));
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&thread[i], NULL, churn, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++) CHECK_EQ(wrong[i], 0);
    CHECK_EQ(shared->refs, 1);
    CHECK_EQ(cr_tensor_version(shared), 8000);
    cr_tensor_release(shared);
    CHECK_EQ(cr_alloc_live(), live);
}

/* More live objects than there are static blocks. */
static void many(void) {
    enum { N = 1500 };
    static cr_tensor *t[N];
    int64_t live = cr_alloc_live();
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < N; i++) CHECK_OK(cr_tensor_from(CR_I64, 0, NULL, &i, &t[i]));
        for (int64_t i = 0; i < N; i++) CHECK_EQ(*(int64_t *)t[i]->storage->data, i);
        for (int i = 0; i < N; i++) cr_tensor_release(t[round ? N - 1 - i : i]);
    }
    CHECK_EQ(cr_alloc_live(), live);
}

static void context(void) {
    char error[64];
    CHECK(cr_num_threads() >= 1);
    CHECK_OK(cr_set_num_threads(2));
    CHECK_EQ(cr_num_threads(), 2);
    rt_ctx ctx = cr_kernel_ctx(error, sizeof error);
    CHECK_EQ(rt_pool_threads(ctx.pool), 2);
    CHECK_OK(cr_set_num_threads(1));
    CHECK(cr_kernel_ctx(error, sizeof error).pool == NULL);
    CHECK_ERROR(cr_set_num_threads(0), CR_EVALUE, "between 1");
    int64_t live = cr_alloc_live();
    void *p = rt_scratch(&ctx, 100);
    CHECK(p && (uintptr_t)p % 64 == 0);
    CHECK_EQ(cr_alloc_live(), live + 1);
    rt_scratch_free(&ctx, p);
}

int main(void) {
    RUN(dtypes);
    RUN(promotion_table);
    RUN(promotion_classes);
    RUN(devices);
    RUN(metas);
    RUN(overlaps);
    RUN(tensors);
    RUN(storages);
    RUN(out_of_memory);
    RUN(threads);
    RUN(many);
    RUN(context);
    return check_summary();
}
