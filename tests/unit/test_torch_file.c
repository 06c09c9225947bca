/* torch.save files: a real one, and hand-made ones that are wrong in one way each. The zips are put together here,
 * stored members only, so that anything can be written into them. */
#include "archive/pickle.h"
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct member { const char *name, *data; size_t size; } member;
typedef struct bytes { uint8_t at[8192]; size_t n; } bytes;

static void put(bytes *b, const void *data, size_t n) {
    memcpy(b->at + b->n, data, n);
    b->n += n;
}
static void number(bytes *b, uint64_t x, int width) {
    for (int i = 0; i < width; i++) put(b, &(uint8_t){(uint8_t)(x >> (8 * i))}, 1);
}
/* What a local header and a directory entry share, up to the name's length. */
static void header(bytes *b, const member *m) {
    number(b, 20, 2), number(b, 0, 2), number(b, 0, 2), number(b, 0, 4);
    number(b, cr_crc32(0, m->data, m->size), 4);
    number(b, m->size, 4), number(b, m->size, 4), number(b, strlen(m->name), 2), number(b, 0, 2);
}
static bytes zip_of(const member *members, size_t n) {
    bytes b = {.n = 0};
    size_t offset[16];
    for (size_t i = 0; i < n; i++) {
        offset[i] = b.n;
        put(&b, "PK\3\4", 4);
        header(&b, &members[i]);
        put(&b, members[i].name, strlen(members[i].name));
        put(&b, members[i].data, members[i].size);
    }
    size_t directory = b.n;
    for (size_t i = 0; i < n; i++) {
        put(&b, "PK\1\2\24\0", 6);
        header(&b, &members[i]);
        number(&b, 0, 2), number(&b, 0, 2), number(&b, 0, 2), number(&b, 0, 4), number(&b, offset[i], 4);
        put(&b, members[i].name, strlen(members[i].name));
    }
    size_t size = b.n - directory;
    put(&b, "PK\5\6", 4);
    number(&b, 0, 4), number(&b, n, 2), number(&b, n, 2), number(&b, size, 4), number(&b, directory, 4),
        number(&b, 0, 2);
    return b;
}

#define TEXT(literal) literal, sizeof literal - 1
#define STORAGE(numel) "(U\x07storagectorch\nFloatStorage\nU\x01" "0U\x03" "cpuK" numel "tQ"
#define TENSOR                                                                         \
    "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE("\x02") "K\0K\x02\x85K\x01\x85\x89" \
                                                           "ccollections\nOrderedDict\n)RtR."
#define DATA "\0\0\x80\x3f\0\0\0\x40"

static const struct { member members[6]; size_t n; cr_status code; const char *part; } files[] = {
    { { { "a/data.pkl", TEXT(TENSOR) },
        { "a/byteorder", TEXT("little") },
        { "a/data/0", TEXT(DATA) },
        { "a/version", TEXT("3\n") } },
      4,
      CR_OK,
      "" },
    { { { "data.pkl", TEXT(TENSOR) }, { "data/0", TEXT(DATA "more") } }, 2, CR_OK, "" },
    { { { "a/data.pkl", TEXT("N.") } }, 1, CR_OK, "" },
    { { { "a/other", TEXT("N.") } }, 1, CR_EFORMAT, "the zip has no data.pkl: this is not a torch.save file" },
    { { { "a/b/data.pkl", TEXT("N.") } }, 1, CR_EFORMAT, "no data.pkl" },
    { { { "a/data.pkl", TEXT("N.") }, { "b/data.pkl", TEXT("N.") } },
      2,
      CR_EFORMAT,
      "two pickles, 'a/data.pkl' and 'b/data.pkl'" },
    { { { "a/data.pkl", TEXT("N.") }, { "a/constants.pkl", TEXT("N.") } },
      2,
      CR_EUNSUPPORTED,
      "a TorchScript archive" },
    { { { "a/data.pkl", TEXT("N.") }, { "a/byteorder", TEXT("big") } }, 2, CR_EUNSUPPORTED, "'byteorder' is 'big'" },
    { { { "a/data.pkl", TEXT("N.") }, { "a/byteorder", TEXT("middle") } },
      2,
      CR_EFORMAT,
      "'byteorder' is 'middle', expected 'little'" },
    { { { "a/data.pkl", TEXT("N.") }, { "a/version", TEXT("99\n") } },
      2,
      CR_EUNSUPPORTED,
      "format version 99; 1 to 10" },
    { { { "a/data.pkl", TEXT("N.") }, { "a/version", TEXT("x\n") } }, 2, CR_EFORMAT, "'version' is 'x'" },
    { { { "a/data.pkl", TEXT("N.") }, { "a/version", TEXT("111111111111111111111111111111") } },
      2,
      CR_EFORMAT,
      "expected a small number" },
    { { { "a/data.pkl", TEXT("N") } }, 1, CR_EFORMAT, "a/data.pkl: byte 1 (end)" },
    { { { "a/data.pkl", TEXT("cos\nsystem\n.") } },
      1,
      CR_EUNSUPPORTED,
      "a/data.pkl: byte 0 (GLOBAL): the pickle names os.system" },
    { { { "a/data.pkl", TEXT(TENSOR) } }, 1, CR_EFORMAT, "the zip has no member 'data/0' for storage '0'" },
    { { { "a/data.pkl", TEXT(TENSOR) }, { "b/data/0", TEXT(DATA) } }, 2, CR_EFORMAT, "the zip has no member 'data/0'" },
    { { { "a/data.pkl", TEXT(TENSOR) }, { "a/data/0", TEXT("1234567") } },
      2,
      CR_EFORMAT,
      "member 'a/data/0' has 7 bytes, its storage needs 8" },
    { { { "a/data.pkl", TEXT("") } }, 1, CR_EFORMAT, "ends without STOP" },
};

static void tables(void) {
    for (size_t i = 0; i < CR_COUNT(files); i++) {
        bytes b = zip_of(files[i].members, files[i].n);
        cr_torch_file *f = NULL;
        cr_status status = cr_torch_open_memory(b.at, b.n, NULL, &f);
        if (status != files[i].code || (status && !strstr(cr_error_message(), files[i].part)))
            CHECK_FAILED("row %zu gave %s \"%s\", expected %s \"%s\"", i, cr_status_name(status),
                         status ? cr_error_message() : "", cr_status_name(files[i].code), files[i].part);
        else CHECK(!status == !!f);
        cr_torch_release(f);
    }
}

static void contents(void) {
    bytes b = zip_of(files[0].members, files[0].n);
    cr_torch_file *f;
    CHECK_OK(cr_torch_open_memory(b.at, b.n, NULL, &f));
    const cr_pickle *root = cr_torch_root(f);
    CHECK_EQ(root->kind, CR_PICKLE_TENSOR);
    CHECK_EQ(cr_torch_storage_count(f), 1);
    const cr_zip_member *m = cr_torch_member(f, root->u.tensor->storage);
    CHECK_STR(m->name, "a/data/0");
    uint8_t *data;
    CHECK_OK(cr_zip_borrow(cr_torch_zip(f), m, &data));
    float second;
    memcpy(&second, data + 4, 4);
    CHECK_FLOAT(second, 2);
    cr_torch_retain(f);
    cr_torch_release(f);
    CHECK_EQ(cr_torch_root(f)->u.tensor->size[0], 2);
    cr_torch_release(f);
    cr_torch_release(NULL);
}

#define LEGACY "\x80\x02\x8a\x0a" "l\xfc\x9c" "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."

static void not_zips(void) {
    char tar[600] = {0};
    cr_torch_file *f;
    strcpy(tar + 257, "ustar");
    CHECK_ERROR(cr_torch_open_memory(TEXT(LEGACY), NULL, &f), CR_EUNSUPPORTED,
                "torch.save's format before PyTorch 1.6 (bare pickles, no zip): load it with PyTorch and torch.save it "
                "again");
    /* protocol 0 or 1 */
    CHECK_ERROR(cr_torch_open_memory(&LEGACY[2], sizeof LEGACY - 3, NULL, &f), CR_EUNSUPPORTED, "before PyTorch 1.6");
    CHECK_ERROR(cr_torch_open_memory(tar, sizeof tar, NULL, &f), CR_EUNSUPPORTED, "(a tar, no zip)");
    CHECK_ERROR(cr_torch_open_memory("", 0, NULL, &f), CR_EFORMAT, "");
    CHECK_ERROR(cr_torch_open_memory(TEXT("\x80\x02N."), NULL, &f), CR_EFORMAT, "");
    CHECK_ERROR(cr_torch_open_path("tests/none.pt", &f), CR_EIO, "tests/none.pt");
}

static void from_a_file(void) {
    char path[] = "/tmp/cresset_torch_XXXXXX";
    int fd = mkstemp(path);
    bytes b = zip_of(files[0].members, files[0].n);
    cr_torch_file *f = NULL;
    CHECK(fd >= 0 && write(fd, b.at, b.n) == (ssize_t)b.n);
    CHECK_OK(cr_torch_open_path(path, &f));
    cr_torch_release(f);
    CHECK(!ftruncate(fd, 0) && pwrite(fd, TEXT(LEGACY), 0) > 0);
    CHECK_ERROR(cr_torch_open_path(path, &f), CR_EUNSUPPORTED, path);
    close(fd);
    unlink(path);
}

/* Files that torch.save wrote (record_pickle.py). */
static void real_files(void) {
    cr_torch_file *f = NULL;
    cr_str text = {0};
    uint8_t *data;
    CHECK_OK(cr_torch_open_path("tests/fuzz/corpus/torch/tensors", &f));
    cr_pickle_print(cr_torch_root(f), &text);
    CHECK_STR(cr_str_get(&text), "{'w': tensor(size=[2, 3], stride=[3, 1], dtype=torch.float32, storage='0'), "
                                 "'view': tensor(size=[3, 2], stride=[1, 3], dtype=torch.float32, storage='0'), "
                                 "'b': tensor(size=[2], stride=[1], dtype=torch.bfloat16, storage='1'), "
                                 "'n': tensor(size=[], stride=[], dtype=torch.int64, storage='2')}");
    CHECK_EQ(cr_torch_storage_count(f), 3);
    CHECK_OK(cr_zip_borrow(cr_torch_zip(f),
                           cr_torch_member(f, cr_pickle_find(cr_torch_root(f), "w")->u.tensor->storage), &data));
    for (int i = 0; i < 6; i++) {
        float x;
        memcpy(&x, data + 4 * i, 4);
        CHECK_FLOAT(x, i);
    }
    CHECK_OK(cr_zip_borrow(cr_torch_zip(f),
                           cr_torch_member(f, cr_pickle_find(cr_torch_root(f), "n")->u.tensor->storage), &data));
    CHECK_EQ(data[0], 7);
    cr_torch_release(f);
    cr_str_dispose(&text);
    CHECK_ERROR(cr_torch_open_path("tests/fuzz/corpus/torch/before_1_6", &f), CR_EUNSUPPORTED,
                "tests/fuzz/corpus/torch/before_1_6: this is torch.save's format before PyTorch 1.6 (bare pickles, no "
                "zip)");
}

/* The file keeps the zip around it alive. */
static void inside_another(void) {
    bytes inner = zip_of(files[0].members, files[0].n);
    bytes outer = zip_of(&(member){"inner.pt", (const char *)inner.at, inner.n}, 1);
    cr_zip *zip;
    cr_torch_file *f;
    uint8_t *data;
    CHECK_OK(cr_zip_open_memory(outer.at, outer.n, NULL, &zip));
    CHECK_OK(cr_zip_borrow(zip, cr_zip_find(zip, "inner.pt"), &data));
    CHECK_OK(cr_torch_open_memory(data, inner.n, zip, &f));
    cr_zip_release(zip);
    CHECK_OK(cr_zip_borrow(cr_torch_zip(f), cr_torch_member(f, cr_torch_root(f)->u.tensor->storage), &data));
    CHECK_EQ(data[3], 0x3f);
    cr_torch_release(f);
}

static cr_status open_and_close(void *arg) {
    const bytes *b = arg;
    cr_torch_file *f;
    CR_TRY(cr_torch_open_memory(b->at, b->n, NULL, &f));
    cr_torch_release(f);
    return CR_OK;
}
static void out_of_memory(void) {
    bytes b = zip_of(files[0].members, files[0].n);
    CHECK_OOM_SWEEP(open_and_close, &b);
}

int main(void) {
    RUN(tables);
    RUN(contents);
    RUN(not_zips);
    RUN(from_a_file);
    RUN(real_files);
    RUN(inside_another);
    RUN(out_of_memory);
    return check_summary();
}
