/* Strides of results, against rows recorded from PyTorch 2.13: "sizes:strides" of the operands and what came out. */
#include "check.h"
#include "tensor/tensor.h"

#include <stdlib.h>

static int read_dims(const char *text, cr_dim *out) {
    int n = 0;
    while (*text && *text != ':') {
        char *end;
        out[n++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return n;
}

static cr_meta read_meta(const char *text) {
    cr_meta m;
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CPU, -1 });
    m.rank = (uint8_t)read_dims(text, m.size);
    read_dims(strchr(text, ':') + 1, m.stride);
    return m;
}

static void check_dims(const char *what, int n, const cr_dim *got, const char *want) {
    cr_str text;
    cr_str_init(&text);
    for (int i = 0; i < n; i++) cr_str_addf(&text, "%s%lld", i ? "," : "", (long long)got[i]);
    if (strcmp(cr_str_get(&text), want)) CHECK_FAILED("%s: strides %s, expected %s", what, cr_str_get(&text), want);
    else check_count(true);
    cr_str_dispose(&text);
}

static const struct { const char *in[2], *strides; } pointwise_rows[] = {
    { { "5,1,1:3,3,1", "3,5,1,4:2,189,126,14" }, "1,12,12,3" },
    { { "1,5,4,3,4:240,48,12,4,1", "1,5,4,3,1:60,12,1,4,12" }, "240,48,12,4,1" },
    { { "3,2,1,2:2,0,2,1", NULL }, "4,2,2,1" },
    { { "1,4,3:20,4,1", "4,1:1,1" }, "12,3,1" },
    { { "3,5,5,3,1:75,1,15,5,75", "1,5,5,1,1:50,10,2,1,1" }, "75,1,15,5,75" },
    { { "5,1,4:20,12,1", "5,1,4:4,7,1" }, "4,4,1" },
    { { "4,2,2,1:4,1,2,2", "4,2,2,5:20,10,5,1" }, "20,5,10,1" },
    { { "3,5,4:198,1,22", NULL }, "20,1,5" },
    { { "3,4,3,2:2,6,24,1", "1,1,3,2:10,105,15,2" }, "2,6,24,1" },
    { { "1,5,2,1,4:12,12,20,20,6", NULL }, "4,4,20,20,1" },
    { { "5,3,4,3,2:12,1,3,60,180", "5,3,4,3,2:72,24,6,2,1" }, "12,1,3,60,180" },
    { { "3,3,5:77,2,7", NULL }, "15,1,3" },
    { { "2,3,3,5:5,1,4,20", "1,3,3,5:154,2,462,14" }, "9,1,3,18" },
    { { "1,4,4,3:4,6,6,1", "4,1,3:6,3,1" }, "3,12,3,1" },
    { { "2,2,2,2,1:3,0,6,0,6", "2,2,1,2,1:1,2,8,4,8" }, "1,2,8,4,16" },
    { { "2,1:1,1", NULL }, "1,1" },
    { { "2,5,4:1,10,55", "1,1,4:4,1,1" }, "1,2,10" },
    { { "5,4,5,2,1:40,10,2,1,1", "5,4,1,2,1:2,10,2,1,1" }, "40,10,2,1,1" },
    { { "5,4,4:1,5,20", "5,1,1:1,1,1" }, "1,5,20" },
    { { "2,2,3,2,3:36,1,12,6,2", NULL }, "36,1,12,6,2" },
    { { "4,1:1,1", "5,4,0:4,1,1" }, "4,1,1" },
    { { "1,4,5,1,3:1,5,1,1,20", NULL }, "1,5,1,1,20" },
    { { "2,3,2,4:2,4,1,12", "2,1,2,1:6,6,3,1" }, "2,4,1,12" },
    { { "5,1,1,2:1,5,1,5", "5,1,1,2:0,1,1,0" }, "1,5,1,5" },
    { { "1,5,2,3,1:30,6,3,1,1", "2,5,2,3,1:1,2,6,20,0" }, "1,12,6,2,1" },
    { { "1,1,1:2,1,100", "1,4,3:2,3,1" }, "3,3,1" },
    { { "4,4,1:12,2,1", "5,4,4,4:162,18,1,891" }, "16,4,1,80" },
    { { "3,4,3:12,3,1", NULL }, "12,3,1" },
    { { "5,2,1,5:10,1,10,2", NULL }, "10,1,10,2" },
    { { "4,1,3,3,5:0,2,7,1,5", "4,1,1,3,5:72,72,24,6,1" }, "45,3,15,1,3" },
    { { "2,4,1,3,5:60,1,60,20,4", NULL }, "60,1,60,20,4" },
    { { "2,5,4,3:140,20,5,1", "5,1,3:3,3,1" }, "60,12,3,1" },
    { { "5,1,2,5:10,10,5,1", "5,1,2,5:10,0,5,1" }, "10,10,5,1" },
    { { "2,2,5:20,1,5", "2,2,5:11,55,1" }, "10,1,2" },
    { { "2,1,3,5:5,10,10,1", NULL }, "5,10,10,1" },
    { { "5,5:1,22", NULL }, "1,5" },
    { { "3,1,2:15,1,6", "3,1,2:20,20,7" }, "2,1,1" },
    { { "1,3,1,5:1,1,3,3", NULL }, "15,1,15,3" },
    { { "1,4,1,4:16,4,4,1", "1,4,0,4:1,4,2,4" }, "0,0,1,0" },
    { { "5,2:2,1", "5,2:0,1" }, "2,1" },
    { { "2,5,4,4,1:4,8,40,1,1", NULL }, "4,8,40,1,1" },
    { { "4,5,4,1,2:40,1,10,10,5", NULL }, "40,1,10,10,5" },
    { { "1,4,2,2:2,2,8,1", "1,1,1,2:20,12,1,3" }, "2,2,8,1" },
    { { "3,1:1,1", "3,1:1,3" }, "1,1" },
    { { "2,4,3,3,1:1,18,6,2,72", "2,4,3,3,1:0,0,0,1,1" }, "1,18,6,2,72" },
    { { "2,2,4,5:1,990,5,90", "2,1,4,1:1,1,0,1" }, "1,40,2,8" },
    { { "1,3,1,4,1:12,1,12,3,3", "4,3,1,4,4:450,90,30,6,1" }, "48,4,48,12,1" },
    { { "3,4,5:5,0,1", "3,4,5:42,7,1" }, "20,5,1" },
    { { "1,4,4:30,6,1", "4,4,4:1,18,162" }, "1,16,4" },
    { { "1,3,5,1,2:1,1,3,15,15", NULL }, "1,1,3,15,15" },
    { { "5,4:1,5", NULL }, "1,5" },
    { { "1,1,5,5:11,726,2,33", "1,5,5,5:0,20,6,0" }, "5,5,1,25" },
    { { "5,2,4,2,3:6,30,60,3,1", "5,2,4,2,3:48,24,3,12,1" }, "6,30,60,3,1" },
    { { "4,3:3,1", NULL }, "3,1" },
    { { "1,1,1,5:1,1,1,0", "3,1,1,5:20,20,1,7" }, "5,5,1,1" },
    { { "5,4,4,3:48,1,12,4", "5,4,4,3:4,1,0,0" }, "48,1,12,4" },
    { { "3,2:1,3", "3,2:0,6" }, "1,3" },
    { { "1,2,4,3,2:2,8,2,16,1", "1,2,4,3,2:0,5,1,4,12" }, "2,8,2,16,1" },
    { { "2,2,1,3:12,5,2,12", "1,1,1:1,9,6" }, "2,1,1,4" },
    { { "1,1,1,2:2,2,2,1", "1,1,1,2:20,6,0,20" }, "2,2,2,1" },
    { { "3,2,1,4:8,1,8,2", NULL }, "8,1,8,2" },
    { { "3,4:7,1", "4:1" }, "4,1" },
    { { "4,2,1,2,2:8,1,8,4,2", NULL }, "8,1,8,4,2" },
    { { "2,4,1,5:1,7,7,3", "4,1,1:1,4,4" }, "1,10,40,2" },
    { { "4,1,1:1,4,4", "4,2,3:3,12,1" }, "3,12,1" },
    { { "1,4,2,1:36,6,2,1", "4,4,2,2:16,4,2,1" }, "16,4,2,1" },
    { { "4,5:1,4", "5:2" }, "1,4" },
    { { "2,4,5:20,5,1", "2,4,5:20,5,1" }, "20,5,1" },
    { { "3,3,5,5:75,25,5,1", NULL }, "75,25,5,1" },
    { { "4,2,3,4:35,7,1,315", NULL }, "6,3,1,24" },
    { { "2,1,4,3,2:0,1,3,3,6", "1,4,1,1:4,1,1,1" }, "24,1,3,1,12" },
    { { "1,3,1,2,2:2,4,4,2,1", "1,1,1,1,1:3,0,6,1,1" }, "2,4,4,2,1" },
    { { "2,5,2,4:198,9,495,1", NULL }, "20,4,40,1" },
    { { "5,0,5,2:10,10,2,1", NULL }, "10,10,2,1" },
    { { "4,3:1,4", NULL }, "1,4" },
    { { "1,1,2,2,4:16,16,8,4,1", "4,4,2,2,4:64,1,32,16,4" }, "64,1,32,16,4" },
    { { "3,5,3,3,1:45,1,15,5,5", "1,5,1,3,1:15,1,15,5,5" }, "45,1,15,5,5" },
    { { "1,3,3,2,1:18,1,6,3,18", "3,3,2,1:6,2,1,1" }, "18,1,6,3,18" },
    { { "1,0:1,1", "1,0:1,2" }, "1,1" },
    { { "2,1,4,1,1:4,1,1,1,1", "2,4,4,5,2:5,40,10,1,160" }, "20,40,5,1,160" },
    { { "1,2,5,3,3:9,9,18,3,1", NULL }, "9,9,18,3,1" },
    { { "2,1,4,4,1:1,2,2,8,2", NULL }, "1,2,2,8,2" },
    { { "1,1,2:1,100,1", "2,1,2,2:4,4,2,1" }, "4,4,2,1" },
    { { "5,2:1,5", "1,2:5,2" }, "1,5" },
    { { "2,5,4,5:100,20,5,1", "2,5,1,5:66,330,1,3" }, "100,20,5,1" },
    { { "4,2,2:2,9,90", NULL }, "1,4,8" },
    { { "2:4", "5,2:12,12" }, "2,1" },
    { { "2,2,4,2:2,4,8,1", NULL }, "2,4,8,1" },
    { { "5,3,2,5,1:30,1,15,3,3", "5,3,2,5,1:2,0,1,0,1" }, "30,1,15,3,3" },
    { { "3,3,4,5:154,11,1078,1", NULL }, "15,5,45,1" },
};

static void pointwise(void) {
    for (size_t i = 0; i < CR_COUNT(pointwise_rows); i++) {
        cr_meta in[2], out;
        const cr_meta *inputs[2] = { &in[0], &in[1] };
        int n = 0, rank = 0;
        cr_meta_init(&out, CR_F32, (cr_device){ CR_CPU, -1 });
        for (; n < 2 && pointwise_rows[i].in[n]; n++) {
            in[n] = read_meta(pointwise_rows[i].in[n]);
            CHECK_OK(cr_broadcast(NULL, &rank, out.size, in[n].rank, in[n].size));
        }
        out.rank = (uint8_t)rank;
        cr_layout_pointwise(NULL, inputs, n, &out);
        check_dims(pointwise_rows[i].in[0], rank, out.stride, pointwise_rows[i].strides);
    }
}

static const struct { const char *in, *strides; cr_tri dense; cr_memory_format format; cr_tri overlap; } like_rows[] = {
    { "3,1:12,20", "1,3", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,2,2,1:2,1,0,1", "4,2,1,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "4,1,4,4:1,12,0,4", "1,64,4,16", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "1,4,1:1,3,54", "1,1,4", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "1,3,2,2:12,1,6,3", "12,1,6,3", CR_YES, CR_CHANNELS_LAST, CR_NO },
    { "4,4,1,2:8,1,8,4", "8,1,8,4", CR_YES, CR_CHANNELS_LAST, CR_NO },
    { "3,1,2,1,3:0,2,1,1,0", "6,6,3,3,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "4,1:0,1", "1,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "3,2,1,2:2,6,12,1", "2,6,12,1", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "1,3,1,1,2:1,0,1,1,0", "6,2,2,2,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "2,2,2,3,1:1,2,12,4,12", "1,2,12,4,12", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "4,1,2,3:0,6,3,1", "6,6,3,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "4,1:3,1", "1,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "1,1,4:3,1,4", "1,1,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,4,2,2:5,0,12,4", "2,4,16,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "1,3,2,3:6,0,3,1", "18,6,3,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "2,2,4:90,2,5", "8,1,2", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "4,2,3,2,2:0,6,2,0,1", "24,12,4,2,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "2,2:7,0", "2,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "3,2,1:6,3,1", "2,1,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "3,4,4:81,1,18", "16,1,4", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,2,2,2:2,8,4,1", "2,8,4,1", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "3,4,2,2,2:48,12,6,3,1", "32,8,4,2,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,1,3:7,70,2", "3,6,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,2,3:12,0,1", "6,3,1", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "2,2,3,1,1:7,20,0,0,12", "1,6,2,2,6", CR_NO, CR_CONTIGUOUS, CR_YES },
    { "3,4,4,1,3:48,3,12,48,1", "48,3,12,48,1", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "3,1,3:1,1,3", "1,1,3", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "4,1,1,1,1:12,6,6,3,1", "1,1,1,1,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "1,1,2,4:1,2,1,2", "1,2,1,2", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "4,4,4,1,4:120,30,5,5,1", "64,16,4,4,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "3,4,3,1:6,5,6,20", "12,1,4,36", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,3,3,1:21,105,3,1", "3,6,1,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,3,4,3:12,24,1,4", "12,24,1,4", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "4,2,1,2,2:144,48,16,4,1", "8,4,4,2,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "3,2,3:2,14,35", "1,3,6", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "3,2,1,3:1,3,3,6", "1,3,3,6", CR_YES, CR_CONTIGUOUS, CR_NO },
    { "3,1,2,3:12,12,3,1", "6,6,3,1", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "2,3,3:2,35,5", "1,6,2", CR_NO, CR_CONTIGUOUS, CR_UNKNOWN },
    { "3,1,3,4,3:12,1,4,1,36", "12,1,4,1,36", CR_YES, CR_CONTIGUOUS, CR_NO },
};

static void like(void) {
    for (size_t i = 0; i < CR_COUNT(like_rows); i++) {
        cr_meta in = read_meta(like_rows[i].in), out = in;
        cr_layout_like(NULL, &in, &out);
        check_dims(like_rows[i].in, in.rank, out.stride, like_rows[i].strides);
        CHECK_EQ(cr_meta_is_dense(NULL, &in), like_rows[i].dense);
        CHECK_EQ(cr_meta_suggest_format(NULL, &in), like_rows[i].format);
        CHECK_EQ(cr_meta_self_overlap(&in), like_rows[i].overlap);
    }
}

static const struct { const char *in, *sizes, *strides; } view_rows[] = { /* NULL: needs a copy */
    { ":", "", "" },
    { "1,1,2:1,1,1", "2,1", "1,1" },
    { "4:1", "2,2", "2,1" },
    { "4:1", "4", "1" },
    { "1,0:1,2", "0,0,3", "3,3,1" },
    { "3,0:1,5", "2,0,3", "3,3,1" },
    { "1,1,3:3,1,1", "3,1", "1,1" },
    { "1:2", "1", "2" },
    { ":", "1", "1" },
    { "1,0,4,2:8,2,2,1", "2,0,3", "3,3,1" },
    { "2:1", "2", "1" },
    { "1,1,3:100,3,1", "3,1", "1,1" },
    { "4,1,2:2,1,1", "2,4", "4,1" },
    { ":", "1", "1" },
    { "4,4,4,3:4,0,20,20", "48,1,2,2", NULL },
    { "3:1", "3", "1" },
    { ":", "", "" },
    { "3,2,2:6,6,2", "1,12", NULL },
    { "2,3,3,4:96,24,6,1", "9,1,4,2", NULL },
    { "3,4,1,1:4,1,1,1", "1,2,2,3", "12,6,3,1" },
    { "3,3,2,2:10,350,35,2", "9,2,2,1", NULL },
    { ":", "1", "1" },
    { "2,3,3:0,0,20", "18,1", NULL },
    { "1,3,3:1,6,21", "9,1", NULL },
    { "2:1", "2", "1" },
    { "4,1,1:1,1,1", "4,1", "1,1" },
    { "3:1", "3", "1" },
    { "1,2,1,0:1,1,1,1", "0,0,1,3", "3,3,3,1" },
    { "0,3,1,3:9,3,1,1", "2,0,1,3", "3,3,3,1" },
    { ":", "1", "1" },
    { "3,4,2,1:8,2,1,1", "3,2,2,2", "8,4,2,1" },
    { "2,1,1,1:1,2,2,1", "1,2", "2,1" },
    { "0,2,3:7,1,12", "1,0,0,3", "3,3,3,1" },
    { "0:1", "0,0,1,3", "3,3,3,1" },
    { "2,3:3,1", "1,3,2", "6,2,1" },
    { "1,2,1,1:0,0,7,0", "1,2", "0,0" },
    { "4,2:12,12", "2,4", NULL },
    { "2,2:3,1", "1,4", NULL },
    { "4,2,3,1:6,1,2,1", "8,3", NULL },
    { "3,3,3:3,9,1", "9,3,1", NULL },
    { "4,1,2,2:9,9,3,1", "1,8,2", NULL },
    { "2,1,1,3:1,1,1,0", "6", NULL },
    { "3,4,2:4,1,12", "1,6,4", NULL },
    { "1,4,2:1,1,4", "2,4", NULL },
    { "4,4,3:16,4,1", "6,8,1", NULL },
};

static void views(void) {
    for (size_t i = 0; i < CR_COUNT(view_rows); i++) {
        cr_meta in = read_meta(view_rows[i].in);
        cr_dim size[CR_MAX_RANK], stride[CR_MAX_RANK];
        int rank = read_dims(view_rows[i].sizes, size);
        bool possible;
        CHECK_OK(cr_view_strides(NULL, &in, rank, size, stride, &possible));
        CHECK_EQ(possible, view_rows[i].strides != NULL);
        if (possible && view_rows[i].strides) check_dims(view_rows[i].in, rank, stride, view_rows[i].strides);
    }
}

/* A symbolic tensor that is dense by construction is found dense, and its reshapes stay views. */
static void symbolic(void) {
    cr_env *env;
    CHECK_OK(cr_env_create(&env));
    cr_dim s0 = cr_dim_of(env, cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX));
    cr_dim u0 = cr_dim_of(env, cr_sym_unbacked(env, 0, INT64_MAX));
    cr_meta m, out;
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CPU, -1 });
    CHECK_OK(cr_meta_set_dense(env, &m, 4, (cr_dim[]){ s0, 3, u0, s0 }, CR_CONTIGUOUS));
    CHECK_EQ(cr_meta_is_contiguous(env, &m, CR_CONTIGUOUS), CR_YES);
    CHECK_EQ(cr_meta_is_dense(env, &m), CR_YES);
    const cr_meta *inputs[] = { &m, &m };
    out = m;
    cr_layout_pointwise(env, inputs, 2, &out);
    CHECK(cr_meta_equal(env, &m, &out));
    cr_layout_like(env, &m, &out);
    CHECK(cr_meta_equal(env, &m, &out));
    CHECK_OK(cr_meta_set_dense(env, &m, 4, (cr_dim[]){ 2, s0, 5, s0 }, CR_CHANNELS_LAST));
    CHECK_EQ(cr_meta_is_contiguous(env, &m, CR_CHANNELS_LAST), CR_YES);
    CHECK_EQ(cr_meta_is_dense(env, &m), CR_YES);
    CHECK_EQ(cr_meta_suggest_format(env, &m), CR_CHANNELS_LAST);
    out = m;
    cr_layout_pointwise(env, inputs, 2, &out);
    CHECK(cr_meta_equal(env, &m, &out));

    bool possible;
    cr_dim stride[2], flat = cr_dim_mul(env, s0, 12);
    CHECK_OK(cr_meta_set_dense(env, &m, 3, (cr_dim[]){ s0, 3, 4 }, CR_CONTIGUOUS));
    CHECK_OK(cr_view_strides(env, &m, 1, &flat, stride, &possible));
    CHECK(possible);
    CHECK_EQ(stride[0], 1);

    /* Broadcasting a symbol with 1 needs no guard, with an equal term neither. */
    cr_dim size[4] = { s0, 1 };
    int rank = 2;
    CHECK_OK(cr_broadcast(env, &rank, size, 2, (cr_dim[]){ 1, u0 }));
    CHECK_EQ(size[0], s0);
    CHECK_EQ(size[1], u0);
    CHECK_EQ(cr_env_cond_count(env), 0);
    /* Two unbacked sizes are taken as not 1, hence equal; both facts become conditions of the program. */
    cr_dim u1 = cr_dim_of(env, cr_sym_unbacked(env, 0, INT64_MAX));
    CHECK_OK(cr_broadcast(env, &rank, size, 1, &u1));
    CHECK(cr_env_cond_count(env) > 0);
    cr_env_release(env);
}

static void broadcast(void) {
    cr_dim size[CR_MAX_RANK] = { 2, 3 };
    int rank = 2;
    CHECK_OK(cr_broadcast(NULL, &rank, size, 3, (cr_dim[]){ 5, 1, 3 }));
    CHECK_EQ(rank, 3);
    CHECK_EQ(size[0], 5);
    CHECK_EQ(size[1], 2);
    CHECK_EQ(size[2], 3);
    CHECK_ERROR(cr_broadcast(NULL, &rank, size, 1, (cr_dim[]){ 4 }), CR_ERUNTIME, "[5, 2, 3] and [4]");
    CHECK_EQ(rank, 3);
    CHECK_OK(cr_broadcast(NULL, &rank, size, 1, (cr_dim[]){ 1 }));
    size[2] = 1;
    CHECK_OK(cr_broadcast(NULL, &rank, size, 1, (cr_dim[]){ 0 }));
    CHECK_EQ(size[2], 0);
}

int main(void) {
    RUN(pointwise);
    RUN(like);
    RUN(views);
    RUN(broadcast);
    RUN(symbolic);
    return check_summary();
}
