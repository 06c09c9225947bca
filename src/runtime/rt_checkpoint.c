/* rt_checkpoint.c: what an instance of a training library has learned, to files and back.
 *
 * A file is safetensors: the length of a JSON text in 8 bytes, the text ({"NAME": {"dtype": "F32", "shape": [2, 3],
 * "data_offsets": [0, 24]}, ...}), the bytes. Writing goes to a new file beside it, which then takes its place. Reading
 * maps the file, compares all of it with what the library expects, and copies only when everything fits. */
#define _GNU_SOURCE
#include "runtime/rt_instance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char generator_name[] = "@generator";
enum { LONGEST_HEADER = 100 << 20 };

/* Where failures go. */
typedef struct talk {
    char *message;
    size_t room;
    const char *path;
} talk;

/* One tensor of a file: a state, or the generator (state NULL). */
typedef struct entry {
    const char *name;
    const rt_state *state;
    int32_t at;
    uint64_t bytes, offset;
} entry;
typedef struct table {
    entry *of;
    int32_t n, nweights;
} table;

/* ---- what a file holds ---- */

static const char *dtype_name(int dtype) {
    static const char *const names[] = {
        [RT_BOOL] = "BOOL",     [RT_U8] = "U8",   [RT_I8] = "I8",   [RT_I16] = "I16", [RT_U16] = "U16",
        [RT_F16] = "F16",       [RT_I32] = "I32", [RT_U32] = "U32", [RT_F32] = "F32", [RT_BF16] = "BF16",
        [RT_F64] = "F64",       [RT_I64] = "I64", [RT_U64] = "U64", [RT_C64] = "C64", [RT_F8E4M3FN] = "F8_E4M3",
        [RT_F8E5M2] = "F8_E5M2"
    };
    return (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : NULL;
}

static void add(const cresset_instance *m, table *t, const char *name, const char *state) {
    for (int32_t i = 0; i < m->model->nstates; i++)
        if (!strcmp(m->model->states[i].name, state)) {
            const rt_state *s = &m->model->states[i];
            t->of[t->n++] = (entry){ .name = name, .state = s, .at = i, .bytes = s->bytes };
            return;
        }
}

/* The weights; with `all` what training goes on from, too. */
SELDOM static int list_all(const cresset_instance *m, bool all, table *t) {
    const cresset_train_info *info = m->api->train;
    size_t most = (size_t)info->nweights + 2;
    for (int32_t i = 0; i < info->nparameters; i++) most += 1 + (size_t)info->parameters[i].nmoments;
    *t = (table){ .of = calloc(most, sizeof *t->of) };
    if (!t->of) return 1;
    for (int32_t i = 0; i < info->nweights; i++) add(m, t, info->weights[i].name, info->weights[i].state);
    t->nweights = t->n;
    for (int32_t i = 0; all && i < info->nparameters; i++) {
        const cresset_parameter_info *p = &info->parameters[i];
        add(m, t, p->gradient, p->gradient);
        for (int32_t k = 0; k < p->nmoments; k++) add(m, t, p->moments[k], p->moments[k]);
    }
    if (all) add(m, t, info->counter, info->counter);
    if (all) t->of[t->n++] = (entry){ .name = generator_name, .bytes = RT_GENERATOR_STATE_BYTES };
    return 0;
}

static int dtype_of(const entry *e) { return e->state ? e->state->dtype : RT_U8; }
static const uint8_t *bytes_of(const cresset_instance *m, const entry *e) {
    return m->state[e->at] ? m->state[e->at] : m->weights + e->state->offset;
}

/* The sizes, "[2, 3]". */
static void print_shape(const cresset_instance *m, const entry *e, char *out, size_t room) {
    const cresset_state_info *info = e->state ? &m->api->state[e->at] : NULL;
    size_t n = (size_t)snprintf(out, room, "[");
    if (!info) n += (size_t)snprintf(out + n, room - n, "%d", RT_GENERATOR_STATE_BYTES);
    for (int d = 0; info && d < info->rank && n < room; d++)
        n += (size_t)snprintf(out + n, room - n, "%s%lld", d ? ", " : "", (long long)info->size[d]);
    if (n < room) snprintf(out + n, room - n, "]");
}

/* ---- writing ---- */

typedef struct text {
    char *at;
    size_t n, room;
    bool failed;
} text;

static void put(text *t, const char *bytes, size_t n) {
    if (t->failed) return;
    if (t->n + n > t->room) {
        size_t room = (t->room + n) * 2 + 256;
        char *more = realloc(t->at, room);
        if (!more) {
            t->failed = true;
            return;
        }
        t->at = more, t->room = room;
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
}

static void print(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(text *t, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line) t->failed = true;
    else put(t, line, (size_t)n);
}

static void put_string(text *t, const char *s) {
    put(t, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20) print(t, "\\u%04x", c);
        else if (c == '"' || c == '\\') print(t, "\\%c", c);
        else put(t, s, 1);
    }
    put(t, "\"", 1);
}

SELDOM static int print_header(const cresset_instance *m, table *t, const talk *to, text *out) {
    uint64_t offset = 0;
    print(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int32_t i = 0; i < t->n; i++) {
        entry *e = &t->of[i];
        char shape[512];
        if (!dtype_name(dtype_of(e)))
            return rt__api_fail(to->message, to->room, CRESSET_BAD_ARGUMENT,
                                "'%s' has a dtype that safetensors files do not know: get_state reads it", e->name);
        print_shape(m, e, shape, sizeof shape);
        print(out, ",");
        put_string(out, e->name);
        print(out, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%llu,%llu]}", dtype_name(dtype_of(e)), shape,
              (unsigned long long)offset, (unsigned long long)(offset + e->bytes));
        offset += e->bytes;
    }
    print(out, "}");
    while (out->n % 8 && !out->failed) print(out, " ");
    return out->failed ? rt__api_fail(to->message, to->room, CRESSET_OUT_OF_MEMORY, "out of memory") : CRESSET_OK;
}

static int write_all(int file, const void *data, size_t n) {
    const char *at = data;
    while (n) {
        ssize_t done = write(file, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return 1;
        at += done, n -= (size_t)done;
    }
    return 0;
}

SELDOM static int write_file(cresset_instance *m, const table *t, const text *header, int file) {
    uint8_t length[8], generator[RT_GENERATOR_STATE_BYTES];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header->n >> 8 * i);
    if (write_all(file, length, sizeof length) || write_all(file, header->at, header->n)) return 1;
    rt_generator_get_state(&m->generator, generator);
    for (int32_t i = 0; i < t->n; i++)
        if (write_all(file, t->of[i].state ? bytes_of(m, &t->of[i]) : generator, t->of[i].bytes)) return 1;
    return fsync(file) && errno != EINVAL && errno != EROFS;
}

/* To a new file in the same folder, which takes the name when all of it is there. */
SELDOM static int replace_file(cresset_instance *m, const table *t, const text *header, const talk *to) {
    static atomic_uint made;
    char *beside = NULL;
    int file = -1, code = CRESSET_OK;
    do { /* not mkstemp: what the process allows others to read is asked of nobody but open() */
        free(beside);
        if (asprintf(&beside, "%s.%lx-%x", to->path, (unsigned long)getpid(), atomic_fetch_add(&made, 1)) < 0)
            return rt__api_fail(to->message, to->room, CRESSET_OUT_OF_MEMORY, "out of memory");
        file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file < 0 && errno == EEXIST);
    bool failed = file < 0 || write_file(m, t, header, file);
    int reason = errno;
    if (file >= 0 && close(file) && !failed) failed = true, reason = errno;
    if (!failed && rename(beside, to->path)) failed = true, reason = errno;
    if (failed) {
        if (file >= 0) unlink(beside);
        code = rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS, "%s cannot be written: %s", to->path,
                            strerror(reason));
    }
    free(beside);
    return code;
}

SELDOM int rt_api_save(cresset_instance *m, const char *path, int32_t what, char *message, size_t room) {
    const talk to = { message, room, path };
    table t;
    text header = { NULL };
    if (!m || !path) return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "%s is NULL", m ? "path" : "instance");
    if (what != CRESSET_SAVE_WEIGHTS && what != CRESSET_SAVE_ALL)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                            "what to save is CRESSET_SAVE_WEIGHTS (1) or CRESSET_SAVE_ALL (2), not %d", what);
    if (list_all(m, what == CRESSET_SAVE_ALL, &t))
        return rt__api_fail(message, room, CRESSET_OUT_OF_MEMORY, "out of memory");
    int code = print_header(m, &t, &to, &header);
    if (!code) {
        rt__notice_fork(m);
        pthread_mutex_lock(&m->lock);
        code = replace_file(m, &t, &header, &to);
        pthread_mutex_unlock(&m->lock);
    }
    free(header.at);
    free(t.of);
    return code;
}

/* ---- reading: as much JSON as such a header has ---- */

typedef struct reader {
    const char *at, *end;
    bool failed;
} reader;

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool next_is(reader *r, char c) {
    skip_space(r);
    if (r->failed || r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static void expect(reader *r, char c) { r->failed |= !next_is(r, c); }

static int hex(reader *r) {
    int value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = r->at < r->end ? *r->at : 0;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return r->failed = true, 0;
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *out, uint32_t c) {
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) return out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63));
    return 4;
}

static uint32_t escaped(reader *r) {
    char c = r->at < r->end ? *r->at++ : 0;
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'b': return '\b';
    case 'f': return '\f';
    case '"':
    case '\\':
    case '/': return (uint32_t)c;
    case 'u': break;
    default: return r->failed = true, 0;
    }
    uint32_t high = (uint32_t)hex(r);
    if (high < 0xd800 || high > 0xdbff) return high;
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return r->failed = true, 0;
    r->at += 2;
    uint32_t low = (uint32_t)hex(r);
    if (low < 0xdc00 || low > 0xdfff) return r->failed = true, 0;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* The text between quotes, in `out`, which has as much room as the whole header. */
static void read_string(reader *r, char *out) {
    size_t n = 0;
    expect(r, '"');
    while (!r->failed) {
        if (r->at == r->end) r->failed = true;
        else if (*r->at == '"') break;
        else if (*r->at == '\\') r->at++, n += put_utf8(out + n, escaped(r));
        else out[n++] = *r->at++;
    }
    if (!r->failed) r->at++;
    out[n] = 0;
}

static uint64_t read_number(reader *r) {
    uint64_t value = 0;
    skip_space(r);
    const char *from = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (value > (UINT64_MAX - 9) / 10) r->failed = true;
        else value = value * 10 + (uint64_t)(*r->at - '0');
    }
    r->failed |= r->at == from;
    return value;
}

/* What the header says of one tensor. */
typedef struct found {
    char dtype[16];
    int rank;
    uint64_t size[64], from, to;
} found;

static void read_list(reader *r, uint64_t *out, int most, int *n) {
    expect(r, '[');
    *n = 0;
    if (next_is(r, ']')) return;
    do {
        uint64_t value = read_number(r);
        if (*n == most) r->failed = true;
        else out[(*n)++] = value;
    } while (!r->failed && next_is(r, ','));
    expect(r, ']');
}

static void read_tensor(reader *r, char *scratch, found *f) {
    uint64_t offsets[2];
    int n = 0;
    *f = (found){ .rank = -1 };
    expect(r, '{');
    do {
        read_string(r, scratch);
        expect(r, ':');
        if (!strcmp(scratch, "dtype")) read_string(r, scratch), snprintf(f->dtype, sizeof f->dtype, "%s", scratch);
        else if (!strcmp(scratch, "shape")) read_list(r, f->size, 64, &f->rank);
        else if (!strcmp(scratch, "data_offsets")) read_list(r, offsets, 2, &n);
        else r->failed = true;
    } while (!r->failed && next_is(r, ','));
    expect(r, '}');
    r->failed |= n != 2 || f->rank < 0 || !f->dtype[0];
    if (!r->failed) f->from = offsets[0], f->to = offsets[1];
}

static void skip_metadata(reader *r, char *scratch) {
    expect(r, '{');
    if (next_is(r, '}')) return;
    do {
        read_string(r, scratch);
        expect(r, ':');
        read_string(r, scratch);
    } while (!r->failed && next_is(r, ','));
    expect(r, '}');
}

/* ---- reading: against the library ---- */

static int damaged(const talk *to) {
    return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS, "%s is no safetensors file, or a damaged one",
                        to->path);
}

SELDOM static int take(const cresset_instance *m, table *t, const char *name, const found *f, uint64_t data,
                       const talk *to) {
    entry *e = NULL;
    for (int32_t i = 0; i < t->n && !e; i++)
        if (!strcmp(t->of[i].name, name)) e = &t->of[i];
    if (!e)
        return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS,
                            "%s holds '%s', which this model does not have: it is another model's", to->path, name);
    const cresset_state_info *info = e->state ? &m->api->state[e->at] : NULL;
    bool same = f->rank == (info ? info->rank : 1) &&
                !strcmp(f->dtype, dtype_name(dtype_of(e)) ? dtype_name(dtype_of(e)) : "");
    for (int d = 0; same && info && d < f->rank; d++) same = f->size[d] == (uint64_t)info->size[d];
    if (!same) {
        char shape[512];
        print_shape(m, e, shape, sizeof shape);
        return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS,
                            "'%s' in %s has another dtype or other sizes than the model's, %s %s", name, to->path,
                            dtype_name(dtype_of(e)) ? dtype_name(dtype_of(e)) : "?", shape);
    }
    if (f->from > f->to || f->to > data || f->to - f->from != e->bytes) return damaged(to);
    if (e->offset) return damaged(to); /* twice */
    e->offset = f->from + 1;
    return CRESSET_OK;
}

SELDOM static int read_header(const cresset_instance *m, table *t, const char *header, size_t n, uint64_t data,
                              const talk *to) {
    reader r = { header, header + n, false };
    char *name = malloc(2 * (n + 5)), *scratch = name + n + 5;
    found f;
    uint64_t end = 0;
    int code = CRESSET_OK;
    if (!name) return rt__api_fail(to->message, to->room, CRESSET_OUT_OF_MEMORY, "out of memory");
    expect(&r, '{');
    do {
        read_string(&r, name);
        expect(&r, ':');
        if (!strcmp(name, "__metadata__")) {
            skip_metadata(&r, scratch);
            continue;
        }
        read_tensor(&r, scratch, &f);
        if (!r.failed) code = take(m, t, name, &f, data, to);
        if (!r.failed && f.to > end) end = f.to;
    } while (!code && !r.failed && next_is(&r, ','));
    if (!code) expect(&r, '}');
    free(name);
    return code ? code : r.failed || end != data ? damaged(to) : CRESSET_OK; /* nothing may follow the last tensor */
}

/* Weights alone, or all there is; and one memory for tied ones. */
SELDOM static int check_whole(const table *t, const uint8_t *data, const talk *to) {
    bool more = false;
    for (int32_t i = t->nweights; i < t->n; i++) more |= t->of[i].offset != 0;
    for (int32_t i = 0; i < (more ? t->n : t->nweights); i++) {
        const entry *e = &t->of[i];
        if (!e->offset)
            return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS, "%s has no '%s', which the model has",
                                to->path, e->name);
        for (int32_t k = 0; k < i; k++)
            if (e->state && t->of[k].state == e->state &&
                memcmp(data + t->of[k].offset - 1, data + e->offset - 1, e->bytes))
                return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS,
                                    "'%s' and '%s' are one tensor in the model, but differ in %s", t->of[k].name,
                                    e->name, to->path);
    }
    return CRESSET_OK;
}

/* What no method writes is the library's own, and cannot become something else. */
SELDOM static int check_constants(const cresset_instance *m, const table *t, const uint8_t *data, const talk *to) {
    for (int32_t i = 0; i < t->n; i++) {
        const entry *e = &t->of[i];
        if (e->offset && e->state && e->bytes && !m->state[e->at] &&
            memcmp(m->weights + e->state->offset, data + e->offset - 1, e->bytes))
            return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS,
                                "'%s' is a constant of this library, and another one in %s: compile a program that has "
                                "it",
                                e->name, to->path);
    }
    return CRESSET_OK;
}

SELDOM static int copy_in(cresset_instance *m, const table *t, const uint8_t *data, const talk *to) {
    char reason[128] = "";
    rt_ctx ctx = { .error = reason, .error_size = sizeof reason };
    rt__notice_fork(m);
    for (int32_t i = 0; i < t->n; i++)
        if (t->of[i].offset && !t->of[i].state &&
            rt_generator_set_state(&ctx, &m->generator, data + t->of[i].offset - 1, t->of[i].bytes))
            return rt__api_fail(to->message, to->room, CRESSET_BAD_WEIGHTS, "%s: %s", to->path, reason);
    pthread_mutex_lock(&m->lock);
    for (int32_t i = 0; i < t->n; i++) {
        const entry *e = &t->of[i];
        if (e->offset && e->state && e->bytes && m->state[e->at])
            memcpy(m->state[e->at], data + e->offset - 1, e->bytes);
    }
    pthread_mutex_unlock(&m->lock);
    return CRESSET_OK;
}

SELDOM static int read_file(cresset_instance *m, table *t, const uint8_t *map, size_t size, const talk *to) {
    uint64_t header = 0;
    for (int i = 0; i < 8 && size >= 8; i++) header |= (uint64_t)map[i] << 8 * i;
    if (size < 8 || header > size - 8 || header > LONGEST_HEADER) return damaged(to);
    const uint8_t *data = map + 8 + header;
    int code = read_header(m, t, (const char *)map + 8, (size_t)header, size - 8 - header, to);
    if (!code) code = check_whole(t, data, to);
    if (!code) code = check_constants(m, t, data, to);
    return code ? code : copy_in(m, t, data, to);
}

SELDOM int rt_api_load(cresset_instance *m, const char *path, char *message, size_t room) {
    const talk to = { message, room, path };
    struct stat st;
    table t;
    if (!m || !path) return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "%s is NULL", m ? "path" : "instance");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &st) || !S_ISREG(st.st_mode)) {
        int reason = file < 0 ? errno : EINVAL;
        if (file >= 0) close(file);
        return rt__api_fail(message, room, CRESSET_BAD_WEIGHTS, "%s cannot be read: %s", path, strerror(reason));
    }
    size_t size = (size_t)st.st_size;
    void *map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (map == MAP_FAILED) return damaged(&to);
    int code = list_all(m, true, &t) ? rt__api_fail(message, room, CRESSET_OUT_OF_MEMORY, "out of memory")
                                     : read_file(m, &t, map, size, &to);
    free(t.of);
    munmap(map, size);
    return code;
}

/* ---- the generator ---- */

SELDOM int rt_api_get_random(cresset_instance *m, void *bytes, size_t capacity, char *message, size_t room) {
    if (!m || !bytes || capacity < RT_GENERATOR_STATE_BYTES)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                            "the generator's state needs %d bytes, and an instance", RT_GENERATOR_STATE_BYTES);
    rt__notice_fork(m);
    rt_generator_get_state(&m->generator, bytes);
    return CRESSET_OK;
}

SELDOM int rt_api_set_random(cresset_instance *m, const void *bytes, size_t size, char *message, size_t room) {
    rt_ctx ctx = { .error = message, .error_size = message ? room : 0 };
    if (!m || !bytes) return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "%s is NULL", m ? "bytes" : "instance");
    rt__notice_fork(m);
    return rt_generator_set_state(&ctx, &m->generator, bytes, size) ? CRESSET_BAD_ARGUMENT : CRESSET_OK;
}
