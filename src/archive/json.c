/* Parsing JSON in one pass, without recursion.
 *
 * Values that are complete but whose container is still open wait on one stack; a closing bracket moves the container's
 * part of the stack into the arena in one piece, so that items and members are plain arrays. Texts are packed into
 * chunks, and a key that was seen a moment ago is shared: the programs that PyTorch writes repeat a few dozen keys
 * hundreds of thousands of times. Objects of more than LARGE members have a hash index behind the members: it finds
 * duplicates here and makes cr_json_find constant later. */
#include "archive/json.h"
#include "archive/json_internal.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { KEY_CACHE = 512, FIRST_CHUNK = 1024, LARGEST_CHUNK = 1 << 16, NUMBER_LENGTH = 1000 };

enum { ITEM_WORDS = sizeof(cr_json) / 8, MEMBER_WORDS = sizeof(cr_json_member) / 8 };
_Static_assert(sizeof(cr_json) % 8 == 0 && sizeof(cr_json_member) == sizeof(cr_json) + 8 &&
                   offsetof(cr_json_member, value) == 8,
               "a member is a word and a value");
typedef struct { size_t begin; bool object; } frame; /* begin: the container's first word on the stack */
typedef struct {
    cr_arena *arena;
    const uint8_t *text, *at, *end;
    CR_VEC(uint64_t) stack; /* items of arrays and members of objects, as their words */
    frame open[CR_JSON_DEPTH];
    int depth;
    char *chunk; /* room for texts */
    size_t chunk_left, chunk_next;
    struct {
        const char *key;
        uint32_t n;
    } cache[KEY_CACHE];
} parser;

static cr_status fail_at(const parser *p, const uint8_t *at, const char *format, ...) CR_PRINTF(3, 4);
static cr_status fail_at(const parser *p, const uint8_t *at, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    int line, column;
    cr_text_position((const char *)p->text, (const char *)at, &line, &column);
    return CR_FAIL(CR_EFORMAT, "line %d, column %d: %s", line, column, what);
}

/* What stands at `at`, for a message. */
static cr_status fail_expected(const parser *p, const char *expected) {
    if (p->at == p->end) return fail_at(p, p->at, "expected %s, found the end of the text", expected);
    if (*p->at < 0x20 || *p->at >= 0x7f) return fail_at(p, p->at, "expected %s, found byte 0x%02x", expected, *p->at);
    return fail_at(p, p->at, "expected %s, found '%c'", expected, *p->at);
}

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')) p->at++;
}

/* ---- texts ---- */

/* Room for n bytes that stays at its place; shares a chunk with its neighbours. */
static char *text_room(parser *p, size_t n) {
    if (n > p->chunk_left) {
        size_t wanted = CR_MAX(n, p->chunk_next);
        char *chunk = cr_arena_alloc(p->arena, wanted);
        if (!chunk) return NULL;
        if (wanted > p->chunk_next && p->chunk_left > 0) return chunk; /* an outsize text leaves the open chunk open */
        p->chunk = chunk;
        p->chunk_left = wanted;
        p->chunk_next = CR_MIN(p->chunk_next * 2, (size_t)LARGEST_CHUNK);
    }
    char *at = p->chunk;
    p->chunk += n;
    p->chunk_left -= n;
    return at;
}

/* The first byte from `at` that is a quote, a backslash, a control character or not ASCII. */
static const uint8_t *plain_end(const uint8_t *at, const uint8_t *end) {
    const uint64_t ones = 0x0101010101010101u, tops = ones * 0x80;
    while (end - at >= 8) {
        uint64_t word, quote, slash;
        memcpy(&word, at, 8);
        quote = word ^ ones * '"';
        slash = word ^ ones * '\\';
        if (((quote - ones) | (slash - ones) | (word - ones * 0x20) | word) & tops) break; /* may be one: look closer */
        at += 8;
    }
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

static int hex_digit(uint8_t c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hexadecimal digits at `at`; -1 when they are not there. */
static int hex4(const uint8_t *at, const uint8_t *end) {
    int value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* One escape, the backslash at *at, appended at *to. It never grows: \uXXXX are 6 bytes for at most 3, a pair 12 for
 * 4. */
static cr_status escape_decode(const parser *p, const uint8_t **at, char **to) {
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* pairs: letter, byte */
    const uint8_t *start = *at;
    if (p->end - start < 2) return fail_at(p, p->end, "the text ends inside a string");
    if (start[1] == 'u') {
        int c = hex4(start + 2, p->end), low;
        if (c < 0) return fail_at(p, start, "\\u needs four hexadecimal digits");
        *at = start + 6;
        if (c >= 0xd800 && c < 0xe000) {
            bool pair = c < 0xdc00 && p->end - *at >= 2 && (*at)[0] == '\\' && (*at)[1] == 'u';
            low = pair ? hex4(*at + 2, p->end) : -1;
            if (low < 0xdc00 || low >= 0xe000)
                return fail_at(p, start, "\\u%04x is half of a surrogate pair", (unsigned)c);
            *at += 6;
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
        *to = put_utf8(*to, (uint32_t)c);
        return CR_OK;
    }
    for (const char *pair = letters; *pair; pair += 2) {
        if (start[1] != (uint8_t)*pair) continue;
        *(*to)++ = pair[1];
        *at = start + 2;
        return CR_OK;
    }
    return fail_at(p, start, "an unknown escape in a string");
}

/* Decodes the string body [begin, end) into `to`; *n is its length. */
static cr_status text_decode(const parser *p, const uint8_t *begin, const uint8_t *end, char *to, size_t *n) {
    char *start = to;
    for (const uint8_t *at = begin; at < end;) {
        const uint8_t *plain = at;
        while (at < end && *at != '\\') at++;
        memcpy(to, plain, (size_t)(at - plain));
        to += at - plain;
        if (at < end) CR_TRY(escape_decode(p, &at, &to));
    }
    *to = 0;
    *n = (size_t)(to - start);
    return CR_OK;
}

/* From the byte after the opening quote to the closing one: *end is its place, *escaped whether there are escapes. */
static cr_status text_scan(const parser *p, const uint8_t **end, bool *escaped) {
    const uint8_t *at = p->at;
    *escaped = false;
    for (;;) {
        at = plain_end(at, p->end);
        if (at == p->end) return fail_at(p, at, "the text ends inside a string");
        if (*at == '"') break;
        if (*at == '\\') {
            *escaped = true;
            at += CR_MIN((ptrdiff_t)2, p->end - at);
        } else if (*at < 0x20) {
            return fail_at(p, at, "control character 0x%02x in a string: it must be escaped", *at);
        } else {
            size_t step = cr__utf8_step(at, p->end);
            if (!step) return fail_at(p, at, "byte 0x%02x is not valid UTF-8", *at);
            at += step;
        }
    }
    *end = at;
    return CR_OK;
}

/* A string; p->at is at its opening quote and goes past the closing one. */
static cr_status parse_text(parser *p, bool key, const char **out, uint32_t *n) {
    const uint8_t *begin = ++p->at, *end = begin;
    bool escaped;
    CR_TRY(text_scan(p, &end, &escaped));
    size_t length = (size_t)(end - begin), slot = 0;
    if (length >= UINT32_MAX) return fail_at(p, begin - 1, "a string of %zu bytes is too long", length);
    p->at = end + 1;
    if (key && !escaped) {
        slot = length ? (length * 31 + begin[0] * 7 + begin[length / 2] * 17 + begin[length - 1]) % KEY_CACHE : 0;
        if (p->cache[slot].key && p->cache[slot].n == length && !memcmp(p->cache[slot].key, begin, length)) {
            *out = p->cache[slot].key;
            *n = (uint32_t)length;
            return CR_OK;
        }
    }
    char *room = text_room(p, length + 1);
    if (!room) return CR_ENOMEM;
    if (escaped) {
        CR_TRY(text_decode(p, begin, end, room, &length));
        if (key && memchr(room, 0, length)) return fail_at(p, begin - 1, "a key that contains NUL");
    } else {
        memcpy(room, begin, length);
        room[length] = 0;
        if (key) p->cache[slot].key = room, p->cache[slot].n = (uint32_t)length;
    }
    *out = room;
    *n = (uint32_t)length;
    return CR_OK;
}

/* ---- numbers and words ---- */

/* mantissa * 10^exponent where both are exact doubles, so that one operation rounds once; false: take the long way. */
static bool small_float(uint64_t mantissa, int exponent, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (mantissa > (uint64_t)1 << 53 || exponent < -22 || exponent > 22) return false;
    *out = exponent < 0 ? (double)mantissa / powers[-exponent] : (double)mantissa * powers[exponent];
    return true;
}

static bool is_digit(const parser *p, const uint8_t *at) { return at < p->end && *at >= '0' && *at <= '9'; }

static cr_status parse_number(parser *p, cr_json *out) {
    const uint8_t *start = p->at, *at = start;
    bool negative = *at == '-', integer = true, wide = false;
    uint64_t mantissa = 0;
    int exponent = 0, fraction = 0;
    at += negative;
    if (!is_digit(p, at)) {
        p->at = at;
        return fail_expected(p, "a digit");
    }
    if (*at == '0' && is_digit(p, at + 1)) return fail_at(p, at, "a number may not begin with 0");
    for (; is_digit(p, at); at++) {
        wide |= cr_mul_overflow(mantissa, (uint64_t)10, &mantissa) ||
                cr_add_overflow(mantissa, (uint64_t)(*at - '0'), &mantissa);
    }
    if (at < p->end && *at == '.') {
        integer = false;
        at++;
        if (!is_digit(p, at)) {
            p->at = at;
            return fail_expected(p, "a digit after the decimal point");
        }
        for (; is_digit(p, at); at++, fraction++) {
            wide |= cr_mul_overflow(mantissa, (uint64_t)10, &mantissa) ||
                    cr_add_overflow(mantissa, (uint64_t)(*at - '0'), &mantissa);
        }
    }
    if (at < p->end && (*at == 'e' || *at == 'E')) {
        integer = false;
        at++;
        bool down = at < p->end && *at == '-';
        if (at < p->end && (*at == '-' || *at == '+')) at++;
        if (!is_digit(p, at)) {
            p->at = at;
            return fail_expected(p, "a digit of the exponent");
        }
        for (; is_digit(p, at); at++) exponent = CR_MIN(exponent * 10 + (*at - '0'), 100000);
        if (down) exponent = -exponent;
    }
    p->at = at;
    uint64_t most = (uint64_t)INT64_MAX + negative;
    if (integer && !wide && mantissa <= most) {
        *out = (cr_json){.kind = CR_JSON_INT, .u.i = negative ? (int64_t)(0 - mantissa) : (int64_t)mantissa};
        return CR_OK;
    }
    *out = (cr_json){.kind = CR_JSON_FLOAT};
    size_t length = (size_t)(at - start);
    if (length > NUMBER_LENGTH) return fail_at(p, start, "a number of %zu characters is too long", length);
    if (!wide && small_float(mantissa, exponent - fraction, &out->u.f)) {
        if (negative) out->u.f = -out->u.f;
        return CR_OK;
    }
    char copy[NUMBER_LENGTH + 1];
    memcpy(copy, start, length);
    copy[length] = 0;
    out->u.f = cr_strtod(copy, NULL);
    return CR_OK;
}

static cr_status parse_word(parser *p, cr_json *out) {
    static const struct {
        const char *text;
        size_t n;
        cr_json value;
    } words[] = {
        {"null", 4, {.kind = CR_JSON_NULL}},
        {"true", 4, {.kind = CR_JSON_BOOL, .u.b = true}},
        {"false", 5, {.kind = CR_JSON_BOOL, .u.b = false}},
        {"NaN", 3, {.kind = CR_JSON_FLOAT, .u.f = (double)NAN}},
        {"Infinity", 8, {.kind = CR_JSON_FLOAT, .u.f = (double)INFINITY}},
        {"-Infinity", 9, {.kind = CR_JSON_FLOAT, .u.f = -(double)INFINITY}},
    };
    for (size_t i = 0; i < CR_COUNT(words); i++) {
        if ((size_t)(p->end - p->at) < words[i].n || memcmp(p->at, words[i].text, words[i].n)) continue;
        p->at += words[i].n;
        *out = words[i].value;
        return CR_OK;
    }
    return fail_expected(p, "a value");
}

/* ---- objects ---- */

static uint64_t key_seed(void) {
    /* Differs from process to process, so that nobody can prepare a file whose keys all collide. */
    static uint64_t seed;
    uint64_t now = __atomic_load_n(&seed, __ATOMIC_RELAXED);
    if (now) return now;
    uint64_t parts[3] = {(uint64_t)(uintptr_t)&now, (uint64_t)(uintptr_t)&key_seed, (uint64_t)getpid()}, none = 0;
    now = cr_hash(parts, sizeof parts, 1) | 1;
    return __atomic_compare_exchange_n(&seed, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? now : none;
}

size_t cr__json_slots(uint32_t n) {
    size_t slots = 4;
    while (slots < (size_t)n * 2) slots *= 2;
    return slots;
}

uint32_t *cr__json_slot(const cr_json_member *members, uint32_t n, const char *key) {
    uint32_t *index = (uint32_t *)(members + n);
    size_t mask = cr__json_slots(n) - 1;
    for (size_t i = cr_hash(key, strlen(key), key_seed()) & mask;; i = (i + 1) & mask)
        if (!index[i] || !strcmp(members[index[i] - 1].key, key)) return &index[i];
}

/* The key that occurs twice among the members, or NULL; large objects get their index filled on the way. */
static const char *duplicate_find(const cr_json_member *members, uint32_t n) {
    if (n <= CR__JSON_LARGE) {
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t j = 0; j < i; j++)
                if (members[i].key == members[j].key || !strcmp(members[i].key, members[j].key)) return members[i].key;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *slot = cr__json_slot(members, n, members[i].key);
        if (*slot) return members[i].key;
        *slot = i + 1;
    }
    return NULL;
}

/* Puts a value, or room for one whose end has not come, into the innermost container. */
static cr_status value_push(parser *p, const char *key, const cr_json *value) {
    cr_json_member m = {.key = key};
    if (value) m.value = *value;
    bool object = p->open[p->depth - 1].object;
    size_t words = object ? MEMBER_WORDS : ITEM_WORDS;
    CR_TRY(cr_vec_reserve(&p->stack, p->stack.n + words));
    memcpy(p->stack.at + p->stack.n, object ? (void *)&m : (void *)&m.value, words * 8);
    p->stack.n += words;
    return CR_OK;
}

/* Moves the innermost container's values from the stack into the arena, and fills the room that waits for it. */
static cr_status container_close(parser *p, cr_json *out) {
    frame f = p->open[--p->depth];
    size_t bytes = (p->stack.n - f.begin) * 8, n = bytes / (f.object ? sizeof(cr_json_member) : sizeof(cr_json));
    *out = (cr_json){.kind = f.object ? CR_JSON_OBJECT : CR_JSON_ARRAY, .n = (uint32_t)n};
    if (n > UINT32_MAX / 4) return fail_at(p, p->at, "%zu values in one container are too many", n);
    if (n) {
        size_t index = f.object && n > CR__JSON_LARGE ? cr__json_slots((uint32_t)n) * sizeof(uint32_t) : 0;
        char *values = cr_arena_alloc(p->arena, bytes + index);
        if (!values) return CR_ENOMEM;
        memcpy(values, p->stack.at + f.begin, bytes);
        memset(values + bytes, 0, index);
        if (f.object) out->u.members = (void *)values;
        else out->u.items = (void *)values;
        const char *twice = f.object ? duplicate_find(out->u.members, (uint32_t)n) : NULL;
        if (twice) return fail_at(p, p->at, "key '%.100s' occurs twice in the object that ends here", twice);
    }
    p->stack.n = f.begin;
    if (p->depth) memcpy(p->stack.at + p->stack.n - ITEM_WORDS, out, sizeof *out);
    p->at++;
    return CR_OK;
}

static cr_status container_open(parser *p) {
    if (p->depth == CR_JSON_DEPTH) return fail_at(p, p->at, "values are nested more than %d deep", CR_JSON_DEPTH);
    p->open[p->depth++] = (frame){.begin = p->stack.n, .object = *p->at == '{'};
    p->at++;
    return CR_OK;
}

/* Key and colon of the next member. */
static cr_status parse_key(parser *p, const char **key) {
    uint32_t n;
    skip_space(p);
    if (p->at == p->end || *p->at != '"') return fail_expected(p, "a key in quotes");
    CR_TRY(parse_text(p, true, key, &n));
    skip_space(p);
    if (p->at == p->end || *p->at != ':') return fail_expected(p, "':' after the key");
    p->at++;
    return CR_OK;
}

/* One value that is no container. */
static cr_status parse_leaf(parser *p, cr_json *out) {
    uint8_t c = *p->at;
    if (c == '"') {
        *out = (cr_json){.kind = CR_JSON_STRING};
        return parse_text(p, false, &out->u.s, &out->n);
    }
    if ((c >= '0' && c <= '9') || (c == '-' && !(p->end - p->at > 1 && p->at[1] == 'I'))) return parse_number(p, out);
    return parse_word(p, out);
}

static cr_status parse(parser *p, cr_json *out) {
    const char *key = NULL;
    for (;;) { /* a value begins here; `key` is its key when the innermost container is an object */
        cr_json value;
        skip_space(p);
        if (p->at == p->end) return fail_expected(p, "a value");
        if (*p->at == '{' || *p->at == '[') {
            uint8_t closing = *p->at == '{' ? '}' : ']';
            if (p->depth) CR_TRY(value_push(p, key, NULL));
            CR_TRY(container_open(p));
            skip_space(p);
            if (p->at == p->end || *p->at != closing) {
                key = NULL;
                if (closing == '}') CR_TRY(parse_key(p, &key));
                continue;
            }
            CR_TRY(container_close(p, &value));
        } else {
            CR_TRY(parse_leaf(p, &value));
            if (p->depth) CR_TRY(value_push(p, key, &value));
        }
        for (;;) { /* a value has ended: close what closes here */
            if (!p->depth) {
                *out = value;
                return CR_OK;
            }
            bool object = p->open[p->depth - 1].object;
            skip_space(p);
            if (p->at < p->end && *p->at == ',') {
                p->at++;
                if (object) CR_TRY(parse_key(p, &key));
                break;
            }
            if (p->at == p->end || *p->at != (object ? '}' : ']'))
                return fail_expected(p, object ? "',' or '}'" : "',' or ']'");
            CR_TRY(container_close(p, &value));
        }
    }
}

cr_status cr_json_parse(cr_arena *arena, const char *text, size_t size, const cr_json **out) {
    const uint8_t *bytes = (const uint8_t *)text;
    cr_status status;
    parser *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    p->arena = arena;
    p->text = p->at = bytes;
    p->end = size ? bytes + size : bytes;
    p->chunk_next = CR_MIN(size + 1, (size_t)FIRST_CHUNK);
    cr_json *root = cr_arena_alloc(arena, sizeof *root);
    if (!root) {
        status = CR_ENOMEM;
        goto out;
    }
    CR_TRY_OUT(parse(p, root));
    skip_space(p);
    if (p->at < p->end) {
        status = fail_expected(p, "nothing after the value");
        goto out;
    }
    *out = root;
out:
    cr_vec_dispose(&p->stack);
    cr_free(p);
    return status;
}
