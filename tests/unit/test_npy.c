/* .npy and .npz: every element type and order, the header's bytes, and one row for every way a file can be broken. */
#include "archive/npy.h"
#include "check.h"
#include "zip_maker.h"

#include <stdio.h>
#include <unistd.h>

static char folder[64];

/* A file of the given version, dictionary and data, in a heap block of exactly its size. */
static uint8_t *file_make(int version, const char *dictionary, const void *data, size_t bytes, size_t *size) {
    size_t n = strlen(dictionary), at = version == 1 ? 10 : 12;
    uint8_t *file = malloc(at + n + bytes);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[7] = 0;
    for (size_t i = 8; i < at; i++) file[i] = (uint8_t)(n >> 8 * (i - 8));
    memcpy(file + at, dictionary, n);
    if (bytes) memcpy(file + at + n, data, bytes);
    *size = at + n + bytes;
    return file;
}

static void types(void) {
    static const struct { const char *descr; int dtype, width; bool swapped; } rows[] = {
        { "|b1", RT_BOOL, 1, false },        { "|i1", RT_I8, 1, false },          { "<i2", RT_I16, 2, false },
        { "<i4", RT_I32, 4, false },         { "<i8", RT_I64, 8, false },         { "|u1", RT_U8, 1, false },
        { "<u2", RT_U16, 2, false },         { "<u4", RT_U32, 4, false },         { "<u8", RT_U64, 8, false },
        { "<f2", RT_F16, 2, false },         { "<f4", RT_F32, 4, false },         { "<f8", RT_F64, 8, false },
        { "<c8", RT_C64, 8, false },         { "<c16", RT_C128, 16, false },      { ">i2", RT_I16, 2, true },
        { ">f8", RT_F64, 8, true },          { ">c16", RT_C128, 16, true },       { ">b1", RT_BOOL, 1, false },
        { "=i4", RT_I32, 4, false },         { "f4", RT_F32, 4, false },          { "|V2", RT_DTYPE_COUNT, 2, false },
        { "<V2", RT_DTYPE_COUNT, 2, false }, { "|V1", RT_DTYPE_COUNT, 1, false }, { "<f1", RT_DTYPE_COUNT, 1, false },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        char dictionary[128];
        uint8_t data[96];
        for (size_t k = 0; k < sizeof data; k++) data[k] = (uint8_t)k;
        snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }  \n",
                 rows[i].descr);
        for (int version = 1; version <= 3; version++) {
            size_t size;
            uint8_t *file = file_make(version, dictionary, data, (size_t)rows[i].width * 6, &size);
            cr_npy a = {0};
            CHECK_OK(cr_npy_parse(file, size, &a));
            CHECK_EQ(a.dtype, rows[i].dtype);
            CHECK_EQ(a.width, rows[i].width);
            CHECK_EQ(a.swapped, rows[i].swapped);
            CHECK(a.rank == 2 && a.size[0] == 2 && a.size[1] == 3 && !a.fortran &&
                  a.bytes == (uint64_t)rows[i].width * 6);
            uint8_t copy[96];
            cr_npy_copy(&a, copy);
            int unit = rt_is_complex(a.dtype) ? a.width / 2 : a.width;
            for (int k = 0; k < a.width * 6; k++)
                CHECK_EQ(copy[k], rows[i].swapped ? k / unit * unit + unit - 1 - k % unit : k);
            free(file);
        }
        if (rows[i].dtype == RT_DTYPE_COUNT || rows[i].swapped) continue;
        /* The header that we write is read back. */
        cr_str header = {0};
        CHECK_OK(cr_npy_header(rows[i].dtype, 2, (int64_t[]){2, 3}, &header));
        CHECK_EQ(header.n % 64, 0);
        cr_str_addn(&header, (const char *)data, (size_t)rows[i].width * 6);
        cr_npy a = {0};
        CHECK_OK(cr_npy_parse(header.at, header.n, &a));
        CHECK(a.dtype == rows[i].dtype && a.rank == 2 && !a.swapped);
        cr_str_dispose(&header);
    }
    CHECK_ERROR(cr_npy_header(RT_BF16, 0, NULL, &(cr_str){ 0 }), CR_EUNSUPPORTED,
                "NumPy has no bfloat16: cast to float32 first");
    CHECK_ERROR(cr_npy_header(RT_F8E5M2, 0, NULL, &(cr_str){ 0 }), CR_EUNSUPPORTED,
                "NumPy has no float8_e5m2: cast to float32");
    CHECK_ERROR(cr_npy_header(RT_C32, 0, NULL, &(cr_str){ 0 }), CR_EUNSUPPORTED,
                "NumPy has no complex32: cast to complex64");
}

static void orders(void) {
    /* Fortran order of a (2, 3, 4) array whose element [i][j][k] is 100 i + 10 j + k. */
    int32_t data[24], want[24], copy[24];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++) data[i + 2 * j + 6 * k] = want[12 * i + 4 * j + k] = 100 * i + 10 * j + k;
    size_t size;
    uint8_t *file = file_make(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4), }", data, sizeof data,
                              &size);
    cr_npy a = {0};
    CHECK_OK(cr_npy_parse(file, size, &a));
    CHECK(a.fortran && a.rank == 3);
    cr_npy_copy(&a, copy);
    CHECK(!memcmp(copy, want, sizeof want));
    free(file);
    file = file_make(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (24,), }", data, sizeof data, &size);
    CHECK_OK(cr_npy_parse(file, size, &a));
    cr_npy_copy(&a, copy);
    CHECK(!memcmp(copy, data, sizeof data));
    free(file);
    static const struct { const char *shape; int rank; uint64_t bytes; } shapes[] = {
        { "()", 0, 4 },        { "(0,)", 1, 0 },
        { "(3, 0, 5)", 3, 0 }, { "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", 16, 4 },
        { "(2L, 3L)", 2, 24 }, { "( 2 , 3 , )", 2, 24 },
    };
    for (size_t i = 0; i < CR_COUNT(shapes); i++) {
        char dictionary[128];
        snprintf(dictionary, sizeof dictionary, "{\"shape\":%s,'fortran_order':True,'descr':'<i4'}", shapes[i].shape);
        file = file_make(2, dictionary, data, shapes[i].bytes, &size);
        CHECK_OK(cr_npy_parse(file, size, &a));
        CHECK_EQ(a.rank, shapes[i].rank);
        CHECK_EQ(a.bytes, shapes[i].bytes);
        cr_npy_copy(&a, copy);
        free(file);
    }
}

/* The bytes that NumPy 2 writes. */
static void headers(void) {
    static const struct { int dtype, rank; int64_t size[4]; const char *text; } rows[] = {
        {RT_F32, 2, {2, 3}, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"},
        {RT_F64, 0, {0}, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }"},
        {RT_I64, 1, {5}, "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }"},
        {RT_BOOL, 4, {1, 2, 3, 4}, "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2, 3, 4), }"},
        {RT_C128, 1, {3}, "{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }"},
        {RT_U16, 2, {0, 7}, "{'descr': '<u2', 'fortran_order': False, 'shape': (0, 7), }"},
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cr_str header = {0};
        CHECK_OK(cr_npy_header(rows[i].dtype, rows[i].rank, rows[i].size, &header));
        char want[129];
        snprintf(want, sizeof want, "\x93NUMPY\x01%c%c%c%-117s\n", 1, 0x76, 1, rows[i].text);
        want[7] = want[9] = 0;
        CHECK_EQ(header.n, 128);
        CHECK(header.n == 128 && !memcmp(header.at, want, 128));
        cr_str_dispose(&header);
    }
    cr_str header = {0};
    int64_t large[16];
    for (int i = 0; i < 16; i++) large[i] = INT64_MAX;
    CHECK_OK(cr_npy_header(RT_C128, 16, large, &header));
    CHECK_EQ(header.n % 64, 0);
    CHECK_ERROR(cr_npy_parse(header.at, header.n, &(cr_npy){0}), CR_EFORMAT, "larger than any memory");
    cr_str_dispose(&header);
}

static void bad_files(void) {
    static const struct { const char *dictionary; cr_status code; const char *error; } rows[] = {
        { "", CR_EFORMAT, "the .npy header is damaged: no dictionary" },
        { "[]", CR_EFORMAT, "no dictionary" },
        { "{", CR_EFORMAT, "no key where one is expected" },
        { "{}", CR_EFORMAT, "descr, fortran_order or shape is missing" },
        { "{'descr': '<f4', 'fortran_order': False}", CR_EFORMAT, "descr, fortran_order or shape is missing" },
        { "{'descr': '<f4', 'shape': (1,)}", CR_EFORMAT, "is missing" },
        { "{descr: '<f4', 'fortran_order': False, 'shape': (1,)}", CR_EFORMAT, "no key where one is expected" },
        { "{'descr' '<f4'}", CR_EFORMAT, "no key where one is expected" },
        { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", CR_EFORMAT, "a key occurs twice" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", CR_EFORMAT, "a key other than descr" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", CR_EFORMAT, "something follows the dictionary" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", CR_EFORMAT, "the dictionary does not end" },
        { "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", CR_EFORMAT, "the dictionary does not end" },
        { "{'descr': <f4, 'fortran_order': False, 'shape': (1,)}", CR_EFORMAT, "'descr' is no string" },
        { "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "elements of type '<f4, '" },
        { "{'descr': '<f4", CR_EFORMAT, "'descr' is no string" },
        { "{'descr': '<\\x664', 'fortran_order': False, 'shape': (1,)}", CR_EFORMAT, "'descr' is no string" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED,
          "an array of structures" },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED,
          "elements of type '|O': Python objects (pickled)" },
        { "{'descr': '|O8', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "Python objects (pickled)" },
        { "{'descr': '<U5', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED,
          "elements of type '<U5': strings" },
        { "{'descr': '|S5', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "'|S5': byte strings" },
        { "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "'<M8[ns]': dates" },
        { "{'descr': '<m8', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "time spans" },
        { "{'descr': '|V16', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED,
          "'|V16': structures or raw bytes" },
        { "{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "elements of type '<f16'" },
        { "{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "elements of type '<f3'" },
        { "{'descr': '<f', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "elements of type '<f'" },
        { "{'descr': '<f99999999999999', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED,
          "elements of type '<f9999" },
        { "{'descr': '', 'fortran_order': False, 'shape': (1,)}", CR_EUNSUPPORTED, "elements of type ''" },
        { "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", CR_EFORMAT,
          "'fortran_order' is neither True nor False" },
        { "{'descr': '<f4', 'fortran_order': Falsey, 'shape': (1,)}", CR_EFORMAT, "the dictionary does not end" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': 1}", CR_EFORMAT, "'shape' is no tuple" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", CR_EFORMAT, "'shape' is no tuple" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", CR_EFORMAT, "'shape' is no tuple" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1, -2)}", CR_EFORMAT, "a negative size" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2.5)}", CR_EFORMAT, "'shape' does not end" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (None,)}", CR_EFORMAT, "something else than numbers" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2", CR_EFORMAT, "'shape' does not end" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", CR_EFORMAT, "something else than numbers" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", CR_EFORMAT,
          "a size beyond 64 bits" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}", CR_EFORMAT,
          "larger than any memory" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904)}", CR_EFORMAT,
          "larger than any memory" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", CR_EUNSUPPORTED,
          "more than 16 dimensions" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", CR_EFORMAT,
          "truncated: the array needs 8 bytes, 4 are there" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", CR_EFORMAT,
          "truncated: the array needs 4000000000000 bytes" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", CR_EFORMAT, "4 bytes follow the array's 0" },
        { "{'descr': '<i2', 'fortran_order': False, 'shape': ()}", CR_EFORMAT, "2 bytes follow the array's 2" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        size_t size;
        uint8_t *file = file_make(1, rows[i].dictionary, "\0\0\0\0", 4, &size);
        CHECK_ERROR(cr_npy_parse(file, size, &(cr_npy){0}), rows[i].code, rows[i].error);
        free(file);
    }
    static const struct { const char *bytes; size_t n; cr_status code; const char *error; } starts[] = {
        {"", 0, CR_EFORMAT, "not a .npy file"},
        {"\x93NUMP", 5, CR_EFORMAT, "not a .npy file"},
        {"PK\3\4aaaaaaaa", 12, CR_EFORMAT, "not a .npy file"},
        {"\x93NUMPY\1\0v", 9, CR_EFORMAT, "truncated inside its header"},
        {"\x93NUMPY\2\0v\0\0", 11, CR_EFORMAT, "truncated inside its header"},
        {"\x93NUMPY\1\0\x76\0{}", 12, CR_EFORMAT, "truncated inside its header"},
        {"\x93NUMPY\2\0\xff\xff\xff\xff{}", 14, CR_EFORMAT, "truncated inside its header"},
        {"\x93NUMPY\0\0\2\0{}", 12, CR_EUNSUPPORTED, "version 0.0 of the .npy format"},
        {"\x93NUMPY\4\0\2\0{}", 12, CR_EUNSUPPORTED, "version 4.0 of the .npy format"},
        {"\x93NUMPY\1\1\2\0{}", 12, CR_EUNSUPPORTED, "version 1.1 of the .npy format"},
    };
    for (size_t i = 0; i < CR_COUNT(starts); i++)
        CHECK_ERROR(cr_npy_parse(starts[i].bytes, starts[i].n, &(cr_npy){ 0 }), starts[i].code, starts[i].error);
    size_t size;
    char *spaces = malloc((2 << 20) + 1);
    memset(spaces, ' ', 2 << 20);
    spaces[2 << 20] = 0;
    uint8_t *file = file_make(2, spaces, "", 0, &size);
    CHECK_ERROR(cr_npy_parse(file, size, &(cr_npy){0}), CR_EFORMAT, "it is longer than 1 MiB");
    free(file);
    free(spaces);
}

/* Files that NumPy wrote (tests/fuzz/make_seeds.py). */
static void real_files(void) {
    static const struct {
        const char *path;
        int dtype, rank;
        double last;
        cr_status code;
        const char *error;
    } rows[] = {
        { "f4.npy", RT_F32, 2, 5, CR_OK, "" },
        { "version2.npy", RT_F32, 2, 5, CR_OK, "" },
        { "f8_big.npy", RT_F64, 1, 2, CR_OK, "" },
        { "bool.npy", RT_BOOL, 1, 0, CR_OK, "" },
        { "scalar.npy", RT_I64, 0, 7, CR_OK, "" },
        { "fortran.npy", RT_I16, 3, 23, CR_OK, "" },
        { "f2.npy", RT_F16, 1, 0.5, CR_OK, "" },
        { "raw.npy", RT_DTYPE_COUNT, 1, NAN, CR_OK, "" },
        { "empty.npy", RT_U8, 2, NAN, CR_OK, "" },
        { "object.npy", 0, 0, 0, CR_EUNSUPPORTED, "Python objects" },
        { "record.npy", 0, 0, 0, CR_EUNSUPPORTED, "an array of structures" },
        { "text.npy", 0, 0, 0, CR_EUNSUPPORTED, "'<U2': strings" },
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        char path[100];
        cr_mapping file;
        cr_npy a = {0};
        snprintf(path, sizeof path, "tests/fuzz/corpus/npy/%s", rows[i].path);
        CHECK_OK(cr_mapping_open(&file, path));
        if (rows[i].code) {
            CHECK_ERROR(cr_npy_parse(file.data, file.size, &a), rows[i].code, rows[i].error);
        } else {
            CHECK_OK(cr_npy_parse(file.data, file.size, &a));
            CHECK(a.dtype == rows[i].dtype && a.rank == rows[i].rank);
            uint8_t copy[64];
            double last;
            cr_npy_copy(&a, copy);
            if (!isnan(rows[i].last)) {
                rt_convert(RT_F64, &last, 1, a.dtype, copy + a.bytes - (uint64_t)a.width, 1, 1);
                CHECK_FLOAT(last, rows[i].last);
            }
        }
        cr_mapping_close(&file);
    }
    static const char *const archives[] = {"tests/fuzz/corpus/npy/stored.npz", "tests/fuzz/corpus/npy/deflated.npz"};
    for (size_t i = 0; i < CR_COUNT(archives); i++) {
        cr_npz *z = NULL;
        CHECK_OK(cr_npz_open(archives[i], &z));
        if (!z) continue;
        CHECK(cr_npz_count(z) == 2 && cr_npz_find(z, "y/z") == cr_npz_at(z, 1));
        int16_t values[24];
        cr_npy_copy(cr_npz_at(z, 1), values);
        for (int k = 0; k < 24; k++) CHECK_EQ(values[k], k);
        cr_npz_release(z);
    }
}

static uint8_t *small_array(size_t *size) {
    return file_make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", "\0\0\x80\x3f\0\0\0\x40", 8,
                     size);
}

static cr_status npz_once(void *path) {
    cr_npz *z = NULL;
    CR_TRY(cr_npz_open(path, &z));
    cr_npz_release(z);
    return CR_OK;
}

static void npz(void) {
    size_t size;
    uint8_t *array = small_array(&size);
    maker_entry entries[] = { { "x.npy", (char *)array, size, 0 },
                              { "y/z.npy", (char *)array, size, MAKER_DEFLATED },
                              { ".npy", (char *)array, size, MAKER_DESCRIPTOR } };
    maker m = maker_build(entries, 3, false, "");
    char path[128];
    snprintf(path, sizeof path, "%s/a.npz", folder);
    CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
    cr_npz *z = NULL;
    CHECK_OK(cr_npz_open(path, &z));
    CHECK(z && cr_npz_count(z) == 3);
    if (z) {
        static const char *const names[] = {"x", "y/z", ""};
        for (size_t i = 0; i < 3; i++) {
            const cr_npy *a = cr_npz_at(z, i);
            float values[2];
            CHECK_STR(cr_npz_name(z, i), names[i]);
            CHECK(cr_npz_find(z, names[i]) == a);
            CHECK(a->dtype == RT_F32 && a->rank == 2);
            cr_npy_copy(a, values);
            CHECK(values[0] == 1 && values[1] == 2);
        }
        CHECK(cr_npz_find(z, "x.npy") == NULL);
        cr_npz_retain(z);
        cr_npz_release(z);
    }
    cr_npz_release(z);
    cr_npz_release(NULL);
    CHECK_OOM_SWEEP(npz_once, path);

    m.at[m.data[0] + size - 1] ^= 1;
    CHECK_ERROR(cr_npz_open_memory(m.at, m.n, &z), CR_EFORMAT, "member 'x.npy': its data are damaged: checksum");
    m.at[m.data[0] + size - 1] ^= 1;
    m.at[m.data[1] + 5] ^= 1;
    CHECK_EQ(cr_npz_open_memory(m.at, m.n, &z), CR_EFORMAT);
    CHECK_CONTAINS(cr_error_message(), "member 'y/z.npy': ");
    free(m.at);
    CHECK_ERROR(cr_npz_open("/no/such.npz", &z), CR_EIO, "cannot open '/no/such.npz'");
    maker_entry other[] = {{"x.npy", (char *)array, size, 0}, {"notes.txt", "hi", 2, 0}};
    m = maker_build(other, 2, false, "");
    CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
    CHECK_ERROR(cr_npz_open(path, &z), CR_EFORMAT, "a.npz: member 'notes.txt': it is no .npy file");
    free(m.at);
    maker_entry bad[] = {{"x.npy", (char *)array, size - 1, 0}};
    m = maker_build(bad, 1, false, "");
    CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
    CHECK_ERROR(cr_npz_open(path, &z), CR_EFORMAT,
                "a.npz: member 'x.npy': the .npy file is truncated: the array needs 8 bytes, 7 are there");
    free(m.at);
    free(array);
    unlink(path);
}

int main(void) {
    strcpy(folder, "/tmp/cresset-npy-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(types);
    RUN(orders);
    RUN(headers);
    RUN(bad_files);
    RUN(real_files);
    RUN(npz);
    CHECK_EQ(rmdir(folder), 0);
    return check_summary();
}
