/* safetensors: reading, writing, and one row for every way a header can be wrong. */
#include "archive/safetensors.h"
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[64];

static int folder_entries(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* A file of header and `bytes` data bytes 0, 1, 2, ... in a heap block of exactly its size. */
static uint8_t *file_make(const char *header, size_t bytes, size_t *size) {
    size_t n = strlen(header);
    uint8_t *file = malloc(8 + n + bytes);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < bytes; i++) file[8 + n + i] = (uint8_t)i;
    *size = 8 + n + bytes;
    return file;
}

static void reading(void) {
    size_t size;
    /* Out of order, with empty tensors, a scalar, metadata and padding. */
    uint8_t *file = file_make("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},\"__metadata__\":{"
                              "\"format\":\"pt\",\"n\\u00e9\":\"\"},\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_"
                              "offsets\":[0,4]},\"empty\":{\"dtype\":\"F64\",\"shape\":[0,9],\"data_offsets\":[4,4]},"
                              "\"s\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[12,13]}}   ",
                              13, &size);
    cr_safetensors *s = NULL;
    CHECK_OK(cr_safetensors_open_memory(file, size, &s));
    if (s) {
        static const char *const names[] = {"a", "empty", "b", "s"};
        static const int dtypes[] = {RT_I16, RT_F64, RT_F32, RT_BOOL}, ranks[] = {1, 2, 2, 0};
        static const uint64_t bytes[] = {4, 0, 8, 1};
        CHECK_EQ(cr_safetensors_count(s), 4);
        for (size_t i = 0; i < 4; i++) {
            const cr_safetensor *t = cr_safetensors_at(s, i);
            CHECK_STR(t->name, names[i]);
            CHECK(t->dtype == dtypes[i] && t->rank == ranks[i] && t->bytes == bytes[i]);
            CHECK(cr_safetensors_find(s, names[i]) == t);
        }
        CHECK_EQ(cr_safetensors_at(s, 2)->data[0], 4);
        CHECK(cr_safetensors_find(s, "__metadata__") == NULL && cr_safetensors_find(s, "x") == NULL);
        const char *key, *value;
        CHECK_EQ(cr_safetensors_metadata_count(s), 2);
        cr_safetensors_metadata(s, 1, &key, &value);
        CHECK_STR(key, "n\xc3\xa9");
        CHECK_STR(value, "");
        cr_safetensors_retain(s);
        cr_safetensors_release(s);
    }
    cr_safetensors_release(s);
    cr_safetensors_release(NULL);
    free(file);
    file = file_make("{}", 0, &size);
    CHECK_OK(cr_safetensors_open_memory(file, size, &s));
    CHECK_EQ(cr_safetensors_count(s), 0);
    cr_safetensors_release(s);
    free(file);
}

static void bad_files(void) {
#define T(dtype, shape, offsets) "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    /* each with 8 bytes of data */
    static const struct { const char *header; cr_status code; const char *error; } rows[] = {
        { "", CR_EFORMAT, "its header is no JSON object" },
        { "[]", CR_EFORMAT, "its header is no JSON object" },
        { " {}", CR_EFORMAT, "its header is no JSON object" },
        { "{}", CR_EFORMAT, "8 bytes at the end belong to no tensor" },
        { "{\"t\":", CR_EFORMAT, "header: line 1, column 6: expected a value" },
        { "{} x", CR_EFORMAT, "header: line 1, column 4: expected nothing after the value" },
        { "{\"t\":1}", CR_EFORMAT, "tensor 't': found an integer, expected an object" },
        { "{\"t\":{}}", CR_EFORMAT, "tensor 't': 'dtype' is missing" },
        { "{\"t\":{\"dtype\":\"F32\"}}", CR_EFORMAT, "tensor 't': 'shape' is missing" },
        { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2]}}", CR_EFORMAT, "tensor 't': 'data_offsets' is missing" },
        { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", CR_EFORMAT,
          "tensor 't': unknown field 'x'" },
        { T("\"F32\"", "[2]", "[0,8]") "}", CR_EFORMAT, "expected nothing after the value" },
        { T("7", "[2]", "[0,8]"), CR_EFORMAT, "tensor 't': 'dtype' is an integer, expected a string" },
        { T("\"F31\"", "[2]", "[0,8]"), CR_EUNSUPPORTED, "tensor 't': dtype 'F31' is not known here" },
        { T("\"F4\"", "[16]", "[0,8]"), CR_EUNSUPPORTED, "tensor 't': dtype 'F4' is not known here" },
        { T("\"F32\"", "2", "[0,8]"), CR_EFORMAT, "tensor 't': 'shape' is an integer, expected an array" },
        { T("\"F32\"", "[2.0]", "[0,8]"), CR_EFORMAT, "tensor 't': 'shape' holds something else than sizes" },
        { T("\"F32\"", "[-2]", "[0,8]"), CR_EFORMAT, "tensor 't': 'shape' holds something else than sizes" },
        { T("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]"), CR_EUNSUPPORTED,
          "tensor 't': 'shape' has 17 dimensions; at most 16" },
        { T("\"F32\"", "[4611686018427387904,4]", "[0,8]"), CR_EFORMAT,
          "tensor 't': 'shape' is larger than any memory" },
        { T("\"F32\"", "[0,4611686018427387904,4]", "[0,0]"), CR_EFORMAT,
          "tensor 't': 'shape' is larger than any memory" },
        { T("\"F32\"", "[2]", "[0,8,9]"), CR_EFORMAT, "tensor 't': 'data_offsets' is not a pair" },
        { T("\"F32\"", "[2]", "[]"), CR_EFORMAT, "tensor 't': 'data_offsets' is not a pair" },
        { T("\"F32\"", "[2]", "[8,0]"), CR_EFORMAT, "tensor 't': 'data_offsets' is not a pair of ascending offsets" },
        { T("\"F32\"", "[2]", "[-8,0]"), CR_EFORMAT, "tensor 't': 'data_offsets' is not a pair of ascending offsets" },
        { T("\"F32\"", "[2]", "[0,\"8\"]"), CR_EFORMAT, "tensor 't': 'data_offsets' is not a pair" },
        { T("\"F32\"", "[2]", "{}"), CR_EFORMAT, "tensor 't': 'data_offsets' is an object, expected an array" },
        { T("\"F32\"", "[2]", "[0,9]"), CR_EFORMAT, "tensor 't': its data end at 9, but there are 8 bytes" },
        { T("\"F32\"", "[2]", "[0,9223372036854775807]"), CR_EFORMAT,
          "tensor 't': its data end at 9223372036854775807" },
        { T("\"F32\"", "[2]", "[0,4]"), CR_EFORMAT, "tensor 't': its data have 4 bytes, dtype and shape need 8" },
        { T("\"F32\"", "[1]", "[4,8]"), CR_EFORMAT, "tensor 't': its data begin at 4, after a gap at 0" },
        { T("\"F32\"", "[1]", "[0,4]"), CR_EFORMAT, "4 bytes at the end belong to no tensor" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
          "offsets\":[4,8]}}",
          CR_EFORMAT, "tensor 'b': its data begin at 4, inside those before, which end at 6" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
          "offsets\":[4,8]}}",
          CR_EFORMAT, "tensor 'b': its data begin at 4, after a gap at 2" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_"
          "offsets\":[8,8]}}",
          CR_EFORMAT, "key 'a' occurs twice" },
        { "{\"__metadata__\":[]}", CR_EFORMAT, "'__metadata__' is an array, expected an object" },
        { "{\"__metadata__\":{\"a\":1}}", CR_EFORMAT, "'__metadata__': 'a' is an integer, expected a string" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        size_t size;
        uint8_t *file = file_make(rows[i].header, 8, &size);
        cr_safetensors *s = NULL;
        CHECK_ERROR(cr_safetensors_open_memory(file, size, &s), rows[i].code, rows[i].error);
        CHECK(s == NULL);
        free(file);
    }
    static const struct { const char *bytes; size_t n; const char *error; } starts[] = {
        {"", 0, "0 bytes are too few"},
        {"\x02\0\0\0\0\0\0", 7, "7 bytes are too few"},
        {"\x08\0\0\0\0\0\0\0{}", 10, "truncated: a header of 8 bytes, and 2 are there"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "a header of 18446744073709551615 bytes; at most 100 MB"},
        {"PK\3\4\0\0\0\0{}", 10, "truncated: a header of 67324752 bytes"},
    };
    for (size_t i = 0; i < CR_COUNT(starts); i++) {
        cr_safetensors *s = NULL;
        CHECK_ERROR(cr_safetensors_open_memory(starts[i].bytes, starts[i].n, &s), CR_EFORMAT, starts[i].error);
    }
    /* Cut anywhere: an error. */
    size_t size;
    uint8_t *file = file_make(T("\"F32\"", "[2]", "[0,8]"), 8, &size);
    for (size_t n = 0; n < size; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, file, n);
        cr_safetensors *s = NULL;
        CHECK_EQ(cr_safetensors_open_memory(cut, n, &s), CR_EFORMAT);
        free(cut);
    }
    free(file);
    cr_safetensors *s = NULL;
    CHECK_ERROR(cr_safetensors_open("/no/such.safetensors", &s), CR_EIO, "cannot open '/no/such.safetensors'");
}

/* Files that the safetensors package wrote (tests/fuzz/make_seeds.py). */
static void real_files(void) {
    cr_safetensors *s = NULL;
    CHECK_OK(cr_safetensors_open("tests/fuzz/corpus/safetensors/numpy", &s));
    if (s) {
        const cr_safetensor *a = cr_safetensors_find(s, "a"), *e = cr_safetensors_find(s, "e");
        CHECK(cr_safetensors_count(s) == 3 && a && e);
        if (a && e) {
            CHECK(a->dtype == RT_F32 && a->rank == 2 && a->size[0] == 2 && a->size[1] == 3 &&
                  ((float *)(void *)a->data)[5] == 5);
            CHECK(e->dtype == RT_I64 && e->bytes == 0);
        }
    }
    cr_safetensors_release(s);
    s = NULL;
    CHECK_OK(cr_safetensors_open("tests/fuzz/corpus/safetensors/torch", &s));
    if (s) {
        static const struct {
            const char *name;
            int dtype;
        } want[] = { { "w", RT_BF16 }, { "s", RT_F32 }, { "q", RT_F8E4M3FN }, { "c", RT_C64 } };
        for (size_t i = 0; i < CR_COUNT(want); i++) {
            const cr_safetensor *t = cr_safetensors_find(s, want[i].name);
            CHECK(t && t->dtype == want[i].dtype);
        }
        CHECK_EQ(cr_safetensors_metadata_count(s), 2);
    }
    cr_safetensors_release(s);
    s = NULL;
    CHECK_OK(cr_safetensors_open("tests/fuzz/corpus/safetensors/empty", &s));
    CHECK(s && cr_safetensors_count(s) == 0);
    cr_safetensors_release(s);
}

static uint8_t bytes[64] = {1, 2, 3, 4, 5, 6, 7, 8};
static const cr_safetensor written[] = {
    {.name = "flag", .dtype = RT_BOOL, .rank = 1, .size = {3}, .data = bytes, .bytes = 3},
    {.name = "weight \xe2\x82\xac", .dtype = RT_F32, .rank = 2, .size = {2, 2}, .data = bytes, .bytes = 16},
    {.name = "scalar", .dtype = RT_F64, .rank = 0, .data = bytes, .bytes = 8},
    {.name = "empty", .dtype = RT_BF16, .rank = 3, .size = {2, 0, 7}, .bytes = 0},
    {.name = "eight", .dtype = RT_F8E4M3FN, .rank = 1, .size = {5}, .data = bytes, .bytes = 5},
    {.name = "complex", .dtype = RT_C64, .rank = 1, .size = {1}, .data = bytes, .bytes = 8},
    {.name = "bias", .dtype = RT_F32, .rank = 1, .size = {1}, .data = bytes, .bytes = 4},
};
static const char *const metadata[] = {"format", "pt", "quote\"", "line\n", NULL};

static cr_status write_and_read(void *path) {
    CR_TRY(cr_safetensors_write(path, written, CR_COUNT(written), metadata));
    cr_safetensors *s = NULL;
    CR_TRY(cr_safetensors_open(path, &s));
    cr_safetensors_release(s);
    return CR_OK;
}

static void writing(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    CHECK_OK(cr_safetensors_write(path, written, CR_COUNT(written), metadata));
    CHECK_EQ(folder_entries(), 1);
    cr_safetensors *s = NULL;
    CHECK_OK(cr_safetensors_open(path, &s));
    if (s) {
        static const char *const order[] = { "scalar", "complex", "weight \xe2\x82\xac", "bias", "empty",
                                             "flag",   "eight" };
        CHECK_EQ(cr_safetensors_count(s), CR_COUNT(written));
        for (size_t i = 0; i < CR_COUNT(written); i++) {
            const cr_safetensor *w = &written[i], *t = cr_safetensors_find(s, w->name);
            CHECK_STR(cr_safetensors_at(s, i)->name, order[i]);
            if (!t) {
                CHECK(false);
                continue;
            }
            CHECK(t->dtype == w->dtype && t->rank == w->rank && t->bytes == w->bytes);
            CHECK(!memcmp(t->size, w->size, sizeof *w->size * (size_t)w->rank));
            CHECK(!w->bytes || !memcmp(t->data, w->data, w->bytes));
            CHECK_EQ((uintptr_t)t->data % (uintptr_t)rt_itemsize(w->dtype), 0);
        }
        const char *key, *value;
        CHECK_EQ(cr_safetensors_metadata_count(s), 2);
        cr_safetensors_metadata(s, 1, &key, &value);
        CHECK_STR(key, "quote\"");
        CHECK_STR(value, "line\n");
        cr_safetensors_at(s, 0)->data[0] = 99; /* this process's copy only */
    }
    cr_safetensors_release(s);
    s = NULL;
    CHECK_OK(cr_safetensors_open(path, &s));
    if (s) CHECK_EQ(cr_safetensors_at(s, 0)->data[0], 1);
    cr_safetensors_release(s);
    CHECK_OOM_SWEEP(write_and_read, path);
    CHECK_EQ(folder_entries(), 1);

    static const struct { cr_safetensor entry; cr_status code; const char *error; } bad[] = {
        { { .name = "z", .dtype = RT_C128, .rank = 0, .data = bytes, .bytes = 16 },
          CR_EUNSUPPORTED,
          "tensor 'z': safetensors has no complex128" },
        { { .name = "h", .dtype = RT_C32, .rank = 0, .data = bytes, .bytes = 4 },
          CR_EUNSUPPORTED,
          "tensor 'h': safetensors has no complex32" },
        { { .name = "s", .dtype = RT_F32, .rank = 1, .size = { 2 }, .data = bytes, .bytes = 4 },
          CR_EVALUE,
          "tensor 's': 4 bytes were given, dtype and sizes need 8" },
        { { .name = "n", .dtype = RT_F32, .rank = 1, .size = { -1 }, .data = bytes, .bytes = 4 },
          CR_EVALUE,
          "tensor 'n': its sizes have no product" },
        { { .name = "__metadata__", .dtype = RT_U8, .rank = 0, .data = bytes, .bytes = 1 },
          CR_EVALUE,
          "the name cannot be used" },
        { { .name = "\xff", .dtype = RT_U8, .rank = 0, .data = bytes, .bytes = 1 },
          CR_EVALUE,
          "the name cannot be used" },
        { { .name = "first", .dtype = RT_U8, .rank = 0, .data = bytes, .bytes = 1 },
          CR_EVALUE,
          "tensor 'first': the name occurs twice" },
    };
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        cr_safetensor two[] = {{.name = "first", .dtype = RT_U8, .rank = 0, .data = bytes, .bytes = 1}, bad[i].entry};
        CHECK_ERROR(cr_safetensors_write(path, two, 2, NULL), bad[i].code, bad[i].error);
    }
    CHECK_ERROR(cr_safetensors_write("/no/such/folder/x", written, 1, NULL), CR_EIO,
                "cannot write '/no/such/folder/x'");
    /* A full disk: the old file stays, nothing else is left. */
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 50000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    cr_safetensor large = {
        .name = "large", .dtype = RT_U8, .rank = 1, .size = { 100000 }, .data = cr_calloc(1, 100000), .bytes = 100000
    };
    setrlimit(RLIMIT_FSIZE, &small);
    cr_status status = cr_safetensors_write(path, &large, 1, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_ERROR(status, CR_EIO, "a.safetensors': File too large");
    cr_free(large.data);
    CHECK_EQ(folder_entries(), 1);
    CHECK_OK(cr_safetensors_open(path, &s));
    CHECK_EQ(cr_safetensors_count(s), CR_COUNT(written));
    cr_safetensors_release(s);
    unlink(path);
}

/* ---- data that are made in their turn, sinks ---- */

typedef struct source { int filled, steps, stop; cr_str out; } source;

static cr_status fill(void *user, size_t i, const void **data) {
    ((source *)user)->filled++;
    *data = written[i].data;
    return i == 99 ? CR_EVALUE : CR_OK;
}

static cr_status step(void *user) {
    source *s = user;
    return ++s->steps == s->stop ? CR_FAIL(CR_EVALUE, "that is enough") : CR_OK;
}

static cr_status gather(void *user, const void *data, size_t size) {
    cr_str_addn(&((source *)user)->out, data, size);
    return cr_str_status(&((source *)user)->out);
}

static cr_status write_filled(void *unused) {
    source s = {0};
    cr_safetensor later[CR_COUNT(written)];
    (void)unused;
    memcpy(later, written, sizeof written);
    for (size_t i = 0; i < CR_COUNT(written); i++) later[i].data = NULL;
    cr_status status = cr_safetensors_write_to((cr_sink){ gather, &s }, later, CR_COUNT(later), metadata,
                                               &(cr_safetensors_source){ fill, step, &s });
    cr_str_dispose(&s.out);
    return status;
}

static void sources(void) {
    char path[128], *file = NULL;
    size_t size = 0;
    source s = {0};
    cr_safetensor later[CR_COUNT(written)];
    snprintf(path, sizeof path, "%s/b.safetensors", folder);
    memcpy(later, written, sizeof written);
    for (size_t i = 0; i < CR_COUNT(written); i += 2) later[i].data = NULL;
    CHECK_OK(cr_safetensors_write(path, written, CR_COUNT(written), metadata));
    CHECK_OK(cr_safetensors_write_to((cr_sink){ gather, &s }, later, CR_COUNT(later), metadata,
                                     &(cr_safetensors_source){ fill, NULL, &s }));
    CHECK_OK(cr_file_read(path, &file, &size));
    CHECK(size == s.out.n && !memcmp(file, s.out.at, size));
    CHECK_EQ(s.filled, 4);
    cr_free(file);
    CHECK_ERROR(cr_safetensors_write(path, later, CR_COUNT(later), NULL), CR_EVALUE, "has no data");
    /* Every write fails once, and a long one is given up. */
    for (int64_t n = 1;; n++) {
        cr_write_fail_at(n);
        cr_status status = cr_safetensors_write(path, written, CR_COUNT(written), metadata);
        cr_write_fail_at(0);
        if (!status) break;
        CHECK_ERROR(status, CR_EIO, "No space left");
        CHECK_EQ(folder_entries(), 1);
    }
    cr_safetensor large = { .name = "large",
                            .dtype = RT_U8,
                            .rank = 1,
                            .size = { 64 << 20 },
                            .data = cr_calloc(1, 64 << 20),
                            .bytes = 64 << 20 };
    s.stop = 3;
    CHECK_ERROR(cr_safetensors_write_from(path, &large, 1, NULL, &(cr_safetensors_source){ NULL, step, &s }), CR_EVALUE,
                "that is enough");
    CHECK_EQ(folder_entries(), 1);
    cr_free(large.data);
    cr_str_dispose(&s.out);
    CHECK_OOM_SWEEP(write_filled, NULL);
    unlink(path);
}

int main(void) {
    strcpy(folder, "/tmp/cresset-safetensors-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(reading);
    RUN(real_files);
    RUN(bad_files);
    RUN(writing);
    RUN(sources);
    CHECK_EQ(rmdir(folder), 0);
    return check_summary();
}
