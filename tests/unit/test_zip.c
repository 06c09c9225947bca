/* Zip reading: every form a writer uses, every way an archive can be broken (one row each), files on disk, memory. */
#include "archive/zip.h"
#include "check.h"
#include "zip_maker.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static const char lorem[] =
    "the quick brown fox jumps over the lazy dog, the quick brown fox jumps over the lazy dog again";

/* A copy in a heap block of exactly its size, so that a sanitizer sees any read past the end. */
static cr_status open_exact(const uint8_t *data, size_t n, cr_zip **out, uint8_t **copy) {
    *copy = malloc(n ? n : 1);
    memcpy(*copy, data, n);
    return cr_zip_open_memory(*copy, n, NULL, out);
}

static void check_contents(cr_zip *zip, const maker_entry *entries, size_t count) {
    CHECK_EQ(cr_zip_count(zip), count);
    for (size_t i = 0; i < count && i < cr_zip_count(zip); i++) {
        const cr_zip_member *m = cr_zip_at(zip, i);
        CHECK_STR(m->name, entries[i].name);
        CHECK(cr_zip_find(zip, entries[i].name) == m);
        CHECK_EQ(m->size, entries[i].size);
        char *copy = NULL;
        CHECK_OK(cr_zip_read(zip, m, 1000, &copy));
        CHECK(copy && !memcmp(copy, entries[i].data, entries[i].size) && copy[m->size] == 0);
        cr_free(copy);
        CHECK_OK(cr_zip_check(zip, m));
        uint8_t *bytes = NULL;
        if (m->deflated) {
            CHECK_ERROR(cr_zip_borrow(zip, m, &bytes), CR_EFORMAT, "it is deflated");
        } else {
            CHECK_OK(cr_zip_borrow(zip, m, &bytes));
            CHECK(!memcmp(bytes, entries[i].data, entries[i].size));
        }
    }
    CHECK(cr_zip_find(zip, "absent") == NULL);
    CHECK(cr_zip_find(zip, "") == NULL);
}

static const maker_entry forms[] = {
    {"top/stored", "stored bytes", 12, 0},
    {"top/deflated", lorem, sizeof lorem, MAKER_DEFLATED},
    {"top/descriptor", "as PyTorch writes", 17, MAKER_DESCRIPTOR},
    {"top/bare", "without signature", 17, MAKER_BARE_DESCRIPTOR},
    {"top/streamed", lorem, sizeof lorem, MAKER_DEFLATED | MAKER_DESCRIPTOR},
    {"top/wide", "zip64 sizes", 11, MAKER_ZIP64},
    {"top/wide streamed", lorem, sizeof lorem, MAKER_ZIP64 | MAKER_DESCRIPTOR | MAKER_DEFLATED},
    {"top/empty", "", 0, 0},
    {"top/empty deflated", "", 0, MAKER_DEFLATED},
    {"top/caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac", "name in UTF-8", 13, 0},
    {"folder/", "", 0, 0},
};

static void all_forms(void) {
    for (int variant = 0; variant < 4; variant++) {
        maker m = maker_build(forms, CR_COUNT(forms), variant & 1, variant & 2 ? "a comment, PK\x05\x06 and all" : "");
        cr_zip *zip = NULL;
        uint8_t *copy;
        CHECK_OK(open_exact(m.at, m.n, &zip, &copy));
        if (zip) {
            check_contents(zip, forms, CR_COUNT(forms));
            CHECK_EQ(cr_zip_size(zip), m.n);
            CHECK(cr_zip_at(zip, 1)->deflated && !cr_zip_at(zip, 0)->deflated);
        }
        cr_zip_release(zip);
        free(copy);

        char path[128];
        snprintf(path, sizeof path, "%s/forms.zip", folder);
        CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
        zip = NULL;
        CHECK_OK(cr_zip_open(path, &zip));
        if (zip) check_contents(zip, forms, CR_COUNT(forms));
        cr_zip_release(zip);
        free(m.at);
    }
    maker empty = maker_build(NULL, 0, false, "");
    cr_zip *zip = NULL;
    CHECK_OK(cr_zip_open_memory(empty.at, empty.n, NULL, &zip));
    if (zip) check_contents(zip, NULL, 0);
    cr_zip_release(zip);
    free(empty.at);
}

/* ---- broken archives: one field each ---- */

enum record { LOCAL, DATA, CENTRAL, END, END64, LOCATOR };
static const maker_entry broken_base[] = {
    {"a/one", "first member", 12, 0},
    {"a/two", lorem, sizeof lorem, MAKER_DEFLATED},
    {"a/three", "third", 5, MAKER_DESCRIPTOR},
    {"a/four", "wide", 4, MAKER_ZIP64},
};
typedef struct {
    const char *what;
    enum record record;
    int member, field, bytes;
    uint64_t value;
    cr_status code;
    const char *error;
} breakage;

static size_t record_at(const maker *m, enum record record, int member) {
    switch (record) {
        case LOCAL: return m->local[member];
        case DATA: return m->data[member];
        case CENTRAL: return m->central[member];
        case END: return m->end;
        case END64: return m->end64;
        case LOCATOR: return m->locator;
    }
    return 0;
}

static void check_breakage(const breakage *row, bool zip64) {
    maker m = maker_build(broken_base, CR_COUNT(broken_base), zip64, "");
    maker_put(&m, record_at(&m, row->record, row->member) + (size_t)row->field, row->value, row->bytes);
    cr_zip *zip = NULL;
    uint8_t *copy;
    cr_status status = open_exact(m.at, m.n, &zip, &copy);
    if (!status && row->record == DATA) { /* damaged data are seen when they are read */
        char *text = NULL;
        status = cr_zip_check(zip, cr_zip_at(zip, (size_t)row->member));
        CHECK_EQ(cr_zip_read(zip, cr_zip_at(zip, (size_t)row->member), 1000, &text),
                 row->field < (int)m.packed[row->member] ? status : CR_OK);
        cr_free(text);
    }
    check_current = row->what;
    CHECK_ERROR(status, row->code, row->error);
    if (row->code && row->record != DATA) CHECK(zip == NULL);
    cr_zip_release(zip);
    free(copy);
    free(m.at);
}

static void broken(void) {
    static const breakage plain[] = {
        { "end signature", END, 0, 0, 1, 'X', CR_EFORMAT, "truncated, or something was appended" },
        { "disk number", END, 0, 4, 2, 1, CR_EUNSUPPORTED, "an archive in several files" },
        { "directory's disk", END, 0, 6, 2, 3, CR_EUNSUPPORTED, "an archive in several files" },
        { "entries here", END, 0, 8, 2, 3, CR_EUNSUPPORTED, "an archive in several files" },
        { "too many entries", END, 0, 8, 4, 0x00ff00ff, CR_EFORMAT, "255 members cannot be in a directory of" },
        { "one entry more", END, 0, 8, 4, 0x00050005, CR_EFORMAT, "entry 4 of the directory is damaged" },
        { "one entry less", END, 0, 8, 4, 0x00030003, CR_EFORMAT, "unexpected bytes at the end of the directory" },
        { "no entries", END, 0, 8, 4, 0, CR_EFORMAT, "unexpected bytes at the end of the directory" },
        { "directory too large", END, 0, 12, 4, 0xffff, CR_EFORMAT, "lies outside the file" },
        { "directory too small", END, 0, 12, 4, 46, CR_EFORMAT, "unexpected bytes between the directory and its end" },
        { "directory outside", END, 0, 16, 4, 0xfffffff0, CR_EFORMAT, "lies outside the file" },
        { "directory at 0", END, 0, 16, 4, 0, CR_EFORMAT, "unexpected bytes between the directory and its end" },
        { "comment too long", END, 0, 20, 2, 1, CR_EFORMAT, "truncated, or something was appended" },
        { "entry signature", CENTRAL, 1, 0, 1, 'X', CR_EFORMAT, "entry 1 of the directory is damaged" },
        { "encrypted", CENTRAL, 0, 8, 2, 0x801, CR_EUNSUPPORTED, "member 'a/one': it is encrypted" },
        { "strong encryption", CENTRAL, 0, 8, 2, 0x840, CR_EUNSUPPORTED, "member 'a/one': it is encrypted" },
        { "masked header", CENTRAL, 0, 8, 2, 0x2800, CR_EUNSUPPORTED, "member 'a/one': it is encrypted" },
        { "patch data", CENTRAL, 0, 8, 2, 0x820, CR_EUNSUPPORTED, "member 'a/one': it is a patch" },
        { "bzip2", CENTRAL, 1, 10, 2, 12, CR_EUNSUPPORTED, "member 'a/two': compression method 12" },
        { "deflate64", CENTRAL, 1, 10, 2, 9, CR_EUNSUPPORTED, "member 'a/two': compression method 9" },
        { "zstd", CENTRAL, 1, 10, 2, 93, CR_EUNSUPPORTED, "member 'a/two': compression method 93" },
        { "checksum in the directory", CENTRAL, 0, 16, 4, 7, CR_EFORMAT,
          "member 'a/one': its local header says 12 bytes (12 packed, checksum" },
        { "packed size", CENTRAL, 0, 20, 4, 11, CR_EFORMAT,
          "member 'a/one': stored with 11 bytes, but 12 bytes are declared" },
        { "size", CENTRAL, 0, 24, 4, 13, CR_EFORMAT,
          "member 'a/one': stored with 12 bytes, but 13 bytes are declared" },
        { "impossible deflate ratio", CENTRAL, 1, 24, 4, 0xfffffff0, CR_EFORMAT,
          "member 'a/two': 4294967280 bytes cannot come out of" },
        { "size behind zip64 missing", CENTRAL, 0, 24, 4, 0xffffffff, CR_EFORMAT,
          "member 'a/one': the zip64 sizes are missing" },
        { "zip64 field cut", CENTRAL, 3, 54, 2, 20, CR_EFORMAT, "member 'a/four': the zip64 sizes are incomplete" },
        { "zip64 field too long", CENTRAL, 3, 54, 2, 0x7000, CR_EFORMAT,
          "member 'a/four': the zip64 sizes are missing" },
        { "zip64 size", CENTRAL, 3, 56, 8, UINT64_MAX, CR_EFORMAT,
          "member 'a/four': stored with 4 bytes, but 18446744073709551615 bytes" },
        { "zip64 header offset", CENTRAL, 3, 72, 8, UINT64_MAX - 3, CR_EFORMAT,
          "member 'a/four': its header at 18446744073709551612 lies outside" },
        { "empty name", CENTRAL, 0, 28, 2, 0, CR_EFORMAT, "member \"\": refused: an empty name" },
        { "name length", CENTRAL, 3, 28, 2, 0xffff, CR_EFORMAT, "entry 3 of the directory goes past its end" },
        { "extra length", CENTRAL, 3, 30, 2, 0xffff, CR_EFORMAT, "entry 3 of the directory goes past its end" },
        { "comment length", CENTRAL, 3, 32, 2, 1, CR_EFORMAT, "entry 3 of the directory goes past its end" },
        { "member's disk", CENTRAL, 0, 34, 2, 2, CR_EUNSUPPORTED, "member 'a/one': it lies in another file" },
        { "header outside", CENTRAL, 0, 42, 4, 0xfffffffe, CR_EFORMAT,
          "member 'a/one': its header at 4294967294 lies outside" },
        { "header elsewhere", CENTRAL, 0, 42, 4, 2, CR_EFORMAT, "member 'a/one': there is no local header at 2" },
        { "absolute path", CENTRAL, 0, 46, 1, '/', CR_EFORMAT, "member \"//one\": refused: an absolute path" },
        { "backslash", CENTRAL, 0, 47, 1, '\\', CR_EFORMAT, "member \"a\\\\one\": refused: a backslash" },
        { "dot dot", CENTRAL, 2, 48, 3, 0x2f2e2e, CR_EFORMAT, "member \"a/../ee\": refused: '.' or '..' in the path" },
        { "dot dot first", CENTRAL, 2, 46, 3, 0x2f2e2e, CR_EFORMAT, "member \"../hree\": refused: '.' or '..'" },
        { "dot dot last", CENTRAL, 2, 50, 3, 0x2e2e2f, CR_EFORMAT, "member \"a/th/..\": refused: '.' or '..'" },
        { "dot", CENTRAL, 0, 46, 1, '.', CR_EFORMAT, "member \"./one\": refused: '.' or '..'" },
        { "empty folder name", CENTRAL, 0, 48, 1, '/', CR_EFORMAT, "member \"a//ne\": refused: an empty folder name" },
        { "NUL in the name", CENTRAL, 0, 49, 1, 0, CR_EFORMAT, "member \"a/o\\u0000e\": refused: a control character" },
        { "escape in the name", CENTRAL, 0, 49, 1, 27, CR_EFORMAT, "refused: a control character" },
        { "bad UTF-8", CENTRAL, 0, 49, 1, 0xff, CR_EFORMAT, "member \"a/o?e\": refused: a name that is not UTF-8" },
        { "a folder with data", CENTRAL, 0, 50, 1, '/', CR_EFORMAT, "member 'a/on/': a folder with 12 bytes" },
        { "local signature", LOCAL, 0, 0, 1, 'X', CR_EFORMAT, "member 'a/one': there is no local header at 0" },
        { "local flags", LOCAL, 0, 6, 2, 0x801, CR_EFORMAT, "member 'a/one': its local header has other flags" },
        { "local method", LOCAL, 0, 8, 2, 8, CR_EFORMAT,
          "member 'a/one': its local header says compression method 8, the directory 0" },
        { "local checksum", LOCAL, 0, 14, 4, 1, CR_EFORMAT, "member 'a/one': its local header says" },
        { "local packed size", LOCAL, 0, 18, 4, 11, CR_EFORMAT,
          "member 'a/one': its local header says 12 bytes (11 packed" },
        { "local size", LOCAL, 0, 22, 4, 0, CR_EFORMAT, "member 'a/one': its local header says 0 bytes" },
        { "local zip64 missing", LOCAL, 0, 22, 4, 0xffffffff, CR_EFORMAT,
          "member 'a/one': the zip64 sizes are missing" },
        { "local zip64 size", LOCAL, 3, 40, 8, 5, CR_EFORMAT, "member 'a/four': its local header says 5 bytes" },
        { "sizes before a descriptor", LOCAL, 2, 22, 4, 9, CR_EFORMAT,
          "member 'a/three': its local header says 9 bytes" },
        { "local name", LOCAL, 0, 30, 1, 'b', CR_EFORMAT, "member 'a/one': its local header has another name" },
        { "local name length", LOCAL, 0, 26, 2, 4, CR_EFORMAT, "member 'a/one': its local header has another name" },
        { "local extra length", LOCAL, 0, 28, 2, 0xffff, CR_EFORMAT,
          "member 'a/one': its 12 bytes at 65570 go past the end" },
        { "padding over the next member", LOCAL, 0, 28, 2, 8, CR_EFORMAT,
          "member 'a/two': it overlaps member 'a/one'" },
        { "stored data", DATA, 0, 3, 1, '?', CR_EFORMAT, "member 'a/one': its data are damaged: checksum" },
        { "deflated data", DATA, 1, 0, 1, 0xff, CR_EFORMAT,
          "member 'a/two': its deflated data are damaged: invalid block type" },
        { "deflated data, later", DATA, 1, 30, 4, 0, CR_EFORMAT,
          "member 'a/two': it inflates to 30 bytes, 95 were declared" },
        { "descriptor's checksum", DATA, 2, 9, 4, 1, CR_EFORMAT,
          "member 'a/three': the record behind its data is damaged" },
        { "descriptor's signature", DATA, 2, 5, 1, 'X', CR_EFORMAT,
          "member 'a/three': the record behind its data is damaged" },
        { "descriptor's size", DATA, 2, 17, 4, 6, CR_EFORMAT,
          "member 'a/three': the record behind its data is damaged" },
        { "data a byte later", LOCAL, 2, 28, 2, 1, CR_EFORMAT,
          "member 'a/three': 15 unexpected bytes follow its data" },
        { "data at a bare descriptor", LOCAL, 2, 28, 2, 4, CR_EFORMAT,
          "member 'a/three': the record behind its data is damaged" },
        { "data earlier", LOCAL, 3, 28, 2, 16, CR_EFORMAT, "member 'a/four': the zip64 sizes are missing" },
    };
    static const breakage wide[] = {
        {"zip64 end outside", LOCATOR, 0, 8, 8, UINT64_MAX, CR_EFORMAT, "the zip64 end record lies outside the file"},
        {"zip64 end too late", LOCATOR, 0, 8, 8, 500, CR_EFORMAT, "the zip64 end record"},
        {"zip64 end elsewhere", LOCATOR, 0, 8, 8, 0, CR_EFORMAT, "the zip64 end record is damaged"},
        {"zip64 end's disk", LOCATOR, 0, 4, 4, 1, CR_EUNSUPPORTED, "an archive in several files"},
        {"zip64 end signature", END64, 0, 0, 1, 'X', CR_EFORMAT, "the zip64 end record is damaged"},
        {"zip64 end length", END64, 0, 4, 8, UINT64_MAX, CR_EFORMAT, "the zip64 end record is damaged"},
        {"zip64 disk", END64, 0, 16, 4, 1, CR_EUNSUPPORTED, "an archive in several files"},
        {"zip64 directory's disk", END64, 0, 20, 4, 1, CR_EUNSUPPORTED, "an archive in several files"},
        {"zip64 entries here", END64, 0, 24, 8, 1, CR_EUNSUPPORTED, "an archive in several files"},
        {"zip64 entries", END64, 0, 32, 8, UINT64_MAX, CR_EUNSUPPORTED, "an archive in several files"},
        {"zip64 directory size", END64, 0, 40, 8, UINT64_MAX, CR_EFORMAT, "lies outside the file"},
        {"zip64 directory offset", END64, 0, 48, 8, UINT64_MAX - 10, CR_EFORMAT, "lies outside the file"},
        {"end records disagree on the count", END, 0, 10, 2, 3, CR_EFORMAT,
         "the two end records describe different directories"},
        {"end records disagree on the size", END, 0, 12, 4, 3, CR_EFORMAT,
         "the two end records describe different directories"},
        {"end records disagree on the place", END, 0, 16, 4, 3, CR_EFORMAT,
         "the two end records describe different directories"},
        {"no locator", LOCATOR, 0, 0, 1, 'X', CR_EFORMAT, "lies outside the file"},
    };
    for (size_t i = 0; i < CR_COUNT(plain); i++) check_breakage(&plain[i], false);
    for (size_t i = 0; i < CR_COUNT(wide); i++) check_breakage(&wide[i], true);
}

/* What one changed field cannot make. */
static void broken_wholes(void) {
    cr_zip *zip = NULL;
    uint8_t *copy;
    maker m = maker_build(broken_base, CR_COUNT(broken_base), false, "");
    for (size_t n = 0; n < m.n; n++) { /* cut anywhere: an error, never a part */
        cr_status status = open_exact(m.at, n, &zip, &copy);
        CHECK_EQ(status, CR_EFORMAT);
        free(copy);
    }
    CHECK_ERROR(cr_zip_open_memory("hello", 5, NULL, &zip), CR_EFORMAT, "not a zip archive");
    CHECK_ERROR(cr_zip_open_memory("", 0, NULL, &zip), CR_EFORMAT, "not a zip archive");
    CHECK_ERROR(cr_zip_open_memory(NULL, 0, NULL, &zip), CR_EFORMAT, "not a zip archive");
    /* Bytes in front shift every offset; bytes behind hide the end. */
    uint8_t *shifted = calloc(m.n + 100, 1);
    memcpy(shifted + 100, m.at, m.n);
    CHECK_ERROR(cr_zip_open_memory(shifted, m.n + 100, NULL, &zip), CR_EFORMAT,
                "100 unexpected bytes between the directory");
    memset(shifted, 0, m.n + 100);
    memcpy(shifted, m.at, m.n);
    CHECK_ERROR(cr_zip_open_memory(shifted, m.n + 1, NULL, &zip), CR_EFORMAT, "something was appended");
    free(shifted);
    /* One member twice: entry 1 becomes a copy of entry 0. */
    maker_entry twins[] = {{"a/same", "one", 3, 0}, {"b/same", "two", 3, 0}};
    maker t = maker_build(twins, 2, false, "");
    t.at[t.central[1] + 46] = t.at[t.local[1] + 30] = 'a';
    CHECK_ERROR(cr_zip_open_memory(t.at, t.n, NULL, &zip), CR_EFORMAT, "member 'a/same': it is in the directory twice");
    memcpy(t.at + t.central[1], t.at + t.central[0], t.central[1] - t.central[0]);
    CHECK_ERROR(cr_zip_open_memory(t.at, t.n, NULL, &zip), CR_EFORMAT, "it is in the directory twice");
    free(t.at);
    /* Bytes that belong to nobody: a member that the directory does not list, or no longer. */
    maker_entry three_members[] = {{"x1", "a", 1, 0}, {"x2", "b", 1, 0}, {"x3", "c", 1, 0}};
    maker g = maker_build(three_members, 3, false, "");
    memmove(g.at + g.central[1], g.at + g.central[2], g.n - g.central[2]);
    g.n -= 48;
    maker_put(&g, g.end - 48 + 8, 0x00020002, 4);
    maker_put(&g, g.end - 48 + 12, 96, 4);
    CHECK_ERROR(cr_zip_open_memory(g.at, g.n, NULL, &zip), CR_EFORMAT,
                "member 'x1': 33 unexpected bytes follow its data");
    free(g.at);
    /* Members that lie inside each other: the second one's header is in the first one's data. */
    maker inner = maker_build((maker_entry[]){{"in", "side", 4, 0}}, 1, false, "");
    maker_entry nested[] = {{"out", (const char *)inner.at, inner.directory, 0}, {"in", "side", 4, 0}};
    maker n = maker_build(nested, 2, false, "");
    maker_put(&n, n.central[1] + 42, n.data[0], 4);
    CHECK_ERROR(cr_zip_open_memory(n.at, n.n, NULL, &zip), CR_EFORMAT, "member 'in': it overlaps member 'out'");
    free(inner.at);
    free(n.at);
    /* The same archive with its directory in another order is fine. */
    maker_entry three[] = {{"x1", "a", 1, 0}, {"x2", "b", 1, 0}, {"x3", "c", 1, 0}};
    maker o = maker_build(three, 3, false, "");
    uint8_t entry[48];
    memcpy(entry, o.at + o.central[0], 48);
    memmove(o.at + o.central[0], o.at + o.central[1], 96);
    memcpy(o.at + o.central[2], entry, 48);
    CHECK_OK(cr_zip_open_memory(o.at, o.n, NULL, &zip));
    check_contents(zip, (maker_entry[]){three[1], three[2], three[0]}, 3);
    cr_zip_release(zip);
    free(o.at);
    /* Sizes that lie about a deflated member, in both places. */
    static const struct {
        int more;
        const char *error;
    } sizes[] = {{-1, "it inflates to more than the declared 94 bytes"},
                 {1, "it inflates to 95 bytes, 96 were declared"}};
    for (size_t i = 0; i < CR_COUNT(sizes); i++) {
        maker s = maker_build(broken_base, CR_COUNT(broken_base), false, "");
        maker_put(&s, s.central[1] + 24, sizeof lorem + (size_t)sizes[i].more, 4);
        maker_put(&s, s.local[1] + 22, sizeof lorem + (size_t)sizes[i].more, 4);
        char *text = NULL;
        CHECK_OK(cr_zip_open_memory(s.at, s.n, NULL, &zip));
        CHECK_ERROR(cr_zip_read(zip, cr_zip_at(zip, 1), 1000, &text), CR_EFORMAT, sizes[i].error);
        CHECK_ERROR(cr_zip_check(zip, cr_zip_at(zip, 1)), CR_EFORMAT, sizes[i].error);
        cr_zip_release(zip);
        free(s.at);
    }
    CHECK_OK(cr_zip_open_memory(m.at, m.n, NULL, &zip));
    char *text = NULL;
    CHECK_ERROR(cr_zip_read(zip, cr_zip_at(zip, 0), 11, &text), CR_EFORMAT,
                "member 'a/one': 12 bytes, more than the 11 that are accepted here");
    cr_zip_release(zip);
    free(m.at);
}

static void files(void) {
    char path[128], long_name[400];
    cr_zip *zip = NULL;
    CHECK_ERROR(cr_zip_open("/no/such.zip", &zip), CR_EIO, "cannot open '/no/such.zip'");
    CHECK_ERROR(cr_zip_open(folder, &zip), CR_EIO, "Is a directory");
    snprintf(path, sizeof path, "%s/pipe", folder);
    CHECK(!mkfifo(path, 0600));
    CHECK_ERROR(cr_zip_open(path, &zip), CR_EIO, "it is not a regular file"); /* and does not wait for a writer */
    snprintf(path, sizeof path, "%s/empty.zip", folder);
    CHECK_OK(cr_file_write_atomic(path, "", 0));
    CHECK_ERROR(cr_zip_open(path, &zip), CR_EFORMAT, "empty.zip: not a zip archive");

    memset(long_name, 'n', sizeof long_name);
    long_name[399] = 0;
    maker_entry entries[] = {{long_name, "x", 1, 0}, {"w/mutable", "unchanged", 9, MAKER_DESCRIPTOR}};
    maker m = maker_build(entries, 2, true, "");
    snprintf(path, sizeof path, "%s/private.zip", folder);
    CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
    CHECK_OK(cr_zip_open(path, &zip));
    check_contents(zip, entries, 2);
    CHECK_ERROR(cr_zip_read(zip, cr_zip_at(zip, 0), 0, (char **)&(char *){NULL}), CR_EFORMAT,
                "member '...nnnn");
    /* Writing to a borrowed member is private: another reader, and the checksum, see the file. */
    uint8_t *bytes;
    CHECK_OK(cr_zip_borrow(zip, cr_zip_at(zip, 1), &bytes));
    memset(bytes, 'z', 9);
    CHECK_OK(cr_zip_check(zip, cr_zip_at(zip, 1)));
    cr_zip *second = NULL;
    CHECK_OK(cr_zip_open(path, &second));
    check_contents(second, entries, 2);
    cr_zip_release(second);
    cr_zip_release(zip);

    /* A zip in a zip keeps the outer one alive. */
    maker_entry outer_entries[] = {{"inner.zip", (const char *)m.at, m.n, 0}};
    maker outer = maker_build(outer_entries, 1, false, "");
    cr_zip *inner = NULL;
    CHECK_OK(cr_file_write_atomic(path, outer.at, outer.n));
    CHECK_OK(cr_zip_open(path, &zip));
    CHECK_OK(cr_zip_borrow(zip, cr_zip_at(zip, 0), &bytes));
    CHECK_OK(cr_zip_open_memory(bytes, (size_t)cr_zip_at(zip, 0)->size, zip, &inner));
    cr_zip_release(zip);
    check_contents(inner, entries, 2);
    cr_zip_release(inner);
    cr_zip_release(NULL);
    free(outer.at);
    free(m.at);
}

/* Files that PyTorch and Python's zipfile wrote (tests/fuzz/make_seeds.py). */
static void real_files(void) {
    static const struct { const char *path; size_t members; const char *one; uint64_t size, aligned; } rows[] = {
        {"tests/fuzz/corpus/zip/export.pt2", 11, "archive/archive_format", 3, 64},
        {"tests/fuzz/corpus/zip/save.pt", 7, "archive/data/0", 32, 64},
        {"tests/fuzz/corpus/zip/zipfile.zip", 4, "folder/caf\xc3\xa9", 100, 1},
        {"tests/fuzz/corpus/zip/streamed.zip", 2, "a", 200, 1},
        {"tests/fuzz/corpus/zip/nested.zip", 1, "inner.zip", 499, 1},
        {"tests/fuzz/corpus/zip/empty.zip", 0, NULL, 0, 1},
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        cr_zip *zip = NULL;
        CHECK_OK(cr_zip_open(rows[i].path, &zip));
        if (!zip) continue;
        CHECK_EQ(cr_zip_count(zip), rows[i].members);
        for (size_t k = 0; k < cr_zip_count(zip); k++) {
            CHECK_OK(cr_zip_check(zip, cr_zip_at(zip, k)));
            CHECK_EQ(cr_zip_at(zip, k)->offset % rows[i].aligned, 0);
        }
        const cr_zip_member *m = rows[i].one ? cr_zip_find(zip, rows[i].one) : NULL;
        CHECK_EQ(m ? m->size : 0, rows[i].size);
        cr_zip_release(zip);
    }
}

/* Against zlib, at every length and alignment around the steps of the fast way, in one piece and in two. */
static void checksums(void) {
    enum { N = 1200 };
    uint8_t *data = malloc(N);
    srand(11);
    for (int i = 0; i < N; i++) data[i] = (uint8_t)rand();
    for (size_t n = 0; n <= N; n += n < 600 ? 1 : 37) {
        size_t at = n % 17 < N - n ? n % 17 : 0, half = n / 3;
        uint32_t want = (uint32_t)crc32(0, data + at, (uInt)n);
        CHECK_EQ(cr_crc32(0, data + at, n), want);
        CHECK_EQ(cr_crc32(cr_crc32(0, data + at, half), data + at + half, n - half), want);
    }
    CHECK_EQ(cr_crc32(0, "123456789", 9), 0xcbf43926);
    CHECK_EQ(cr_crc32(77, NULL, 0), 77);
    free(data);
}

static void *read_everything(void *zip) {
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < cr_zip_count(zip); i++) {
            char *text = NULL;
            CHECK_OK(cr_zip_check(zip, cr_zip_at(zip, i)));
            CHECK_OK(cr_zip_read(zip, cr_zip_find(zip, forms[i].name), 1000, &text));
            cr_free(text);
        }
    cr_zip_release(zip);
    return NULL;
}

static void threads(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/threads.zip", folder);
    maker m = maker_build(forms, CR_COUNT(forms), false, "");
    CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
    free(m.at);
    cr_zip *zip = NULL;
    CHECK_OK(cr_zip_open(path, &zip));
    pthread_t workers[4];
    for (int i = 0; i < 4; i++) {
        cr_zip_retain(zip);
        CHECK_EQ(pthread_create(&workers[i], NULL, read_everything, zip), 0);
    }
    cr_zip_release(zip);
    for (int i = 0; i < 4; i++) pthread_join(workers[i], NULL);
}

static cr_status open_and_read(void *path) {
    cr_zip *zip = NULL;
    char *text = NULL;
    CR_TRY(cr_zip_open(path, &zip));
    cr_status status = CR_OK;
    for (size_t i = 0; i < cr_zip_count(zip) && !status; i++) {
        CR_TRY_OUT(cr_zip_check(zip, cr_zip_at(zip, i)));
        CR_TRY_OUT(cr_zip_read(zip, cr_zip_at(zip, i), 1000, &text));
        cr_free(text);
    }
out:
    cr_zip_release(zip);
    return status;
}

static void out_of_memory(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/oom.zip", folder);
    maker m = maker_build(forms, CR_COUNT(forms), true, "");
    CHECK_OK(cr_file_write_atomic(path, m.at, m.n));
    CHECK_OOM_SWEEP(open_and_read, path);
    free(m.at);
}

int main(void) {
    strcpy(folder, "/tmp/cresset-zip-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(checksums);
    RUN(all_forms);
    RUN(broken);
    RUN(broken_wholes);
    RUN(files);
    RUN(real_files);
    RUN(threads);
    RUN(out_of_memory);
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    CHECK_EQ(system(command), 0);
    return check_summary();
}
