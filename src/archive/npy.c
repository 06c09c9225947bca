/* The .npy format: a magic string, a version, a Python dictionary as text, the elements.
 *
 * The dictionary is read by a parser of exactly the literals that NumPy writes (strings, True and False, a tuple of
 * integers), never by an evaluator. The element type is a row of one table, for both ways. */
#include "archive/npy.h"

#include <stdio.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, LARGEST_HEADER = 1 << 20, ALIGN = 64, GROWTH = 21 };

/* NumPy's kind letter and width; dtype RT_DTYPE_COUNT: raw elements. `unit` is what a byte order applies to. */
static const struct { char kind; int width, dtype, unit; } types[] = {
    {'b', 1, RT_BOOL, 1}, {'i', 1, RT_I8, 1},  {'i', 2, RT_I16, 2}, {'i', 4, RT_I32, 4}, {'i', 8, RT_I64, 8},
    {'u', 1, RT_U8, 1},   {'u', 2, RT_U16, 2}, {'u', 4, RT_U32, 4}, {'u', 8, RT_U64, 8},
    {'f', 2, RT_F16, 2},  {'f', 4, RT_F32, 4}, {'f', 8, RT_F64, 8}, {'c', 8, RT_C64, 4}, {'c', 16, RT_C128, 8},
    {'V', 1, RT_DTYPE_COUNT, 1}, {'V', 2, RT_DTYPE_COUNT, 2}, {'f', 1, RT_DTYPE_COUNT, 1},
};
/* Kinds that NumPy has and we do not, for the message. */
static const struct { char kind; const char *name; } foreign[] = {
    { 'O', "Python objects (pickled)" },
    { 'S', "byte strings" },
    { 'U', "strings" },
    { 'M', "dates" },
    { 'm', "time spans" },
    { 'V', "structures or raw bytes" },
};

static const bool big_endian_host = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

typedef struct { const char *at, *end; } scanner;

static void skip_space(scanner *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')) s->at++;
}

/* Takes `c` after spaces. */
static bool take(scanner *s, char c) {
    skip_space(s);
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

static bool take_word(scanner *s, const char *word) {
    size_t n = strlen(word);
    skip_space(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n)) return false;
    s->at += n;
    return true;
}

/* A Python string without escapes; its text is [*text, *text + *n). */
static bool take_string(scanner *s, const char **text, size_t *n) {
    skip_space(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) return false;
    char quote = *s->at;
    const char *begin = s->at + 1, *p = begin;
    while (p < s->end && *p != quote && *p != '\\' && *p != '\n') p++;
    if (p == s->end || *p != quote) return false;
    *text = begin;
    *n = (size_t)(p - begin);
    s->at = p + 1;
    return true;
}

static cr_status fail_header(const char *what) { return CR_FAIL(CR_EFORMAT, "the .npy header is damaged: %s", what); }

static cr_status parse_descr(scanner *s, cr_npy *out) {
    const char *text;
    size_t n;
    skip_space(s);
    if (s->at < s->end && *s->at == '[')
        return CR_FAIL(CR_EUNSUPPORTED, "an array of structures (a list in 'descr'); save its fields as arrays of "
                                        "their own");
    if (!take_string(s, &text, &n)) return fail_header("'descr' is no string");
    char order = n ? text[0] : 0;
    bool ordered = order && strchr("<>|=", order);
    const char *p = text + ordered, *end = text + n;
    char kind = p < end ? *p++ : 0;
    int width = 0, digits = 0;
    for (; p < end && *p >= '0' && *p <= '9' && digits < 6; p++, digits++) width = width * 10 + (*p - '0');
    for (size_t i = 0; p == end && digits && i < CR_COUNT(types); i++) {
        if (types[i].kind != kind || types[i].width != width) continue;
        out->dtype = types[i].dtype;
        out->width = width;
        out->swapped = types[i].unit > 1 && order == (big_endian_host ? '<' : '>');
        return CR_OK;
    }
    const char *name = "a type that is not read here";
    for (size_t i = 0; i < CR_COUNT(foreign); i++)
        if (foreign[i].kind == kind) name = foreign[i].name;
    return CR_FAIL(CR_EUNSUPPORTED, "elements of type '%.*s': %s; save booleans, integers, floats or complex numbers",
                   (int)CR_MIN(n, (size_t)24), text, name);
}

static cr_status parse_shape(scanner *s, cr_npy *out) {
    if (!take(s, '(')) return fail_header("'shape' is no tuple");
    out->rank = 0;
    while (!take(s, ')')) {
        int64_t size = 0;
        const char *begin;
        skip_space(s);
        if (s->at < s->end && *s->at == '-') return fail_header("a negative size");
        for (begin = s->at; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
            if (cr_mul_overflow(size, (int64_t)10, &size) || cr_add_overflow(size, (int64_t)(*s->at - '0'), &size))
                return fail_header("a size beyond 64 bits");
        if (s->at == begin) return fail_header("'shape' holds something else than numbers");
        if (s->at < s->end && *s->at == 'L') s->at++; /* as Python 2 wrote them */
        if (out->rank == RT_MAX_RANK)
            return CR_FAIL(CR_EUNSUPPORTED, "an array of more than %d dimensions", (int)RT_MAX_RANK);
        out->size[out->rank++] = size;
        if (take(s, ',')) continue;
        if (!take(s, ')')) return fail_header("'shape' does not end");
        if (out->rank == 1) return fail_header("'shape' is no tuple"); /* (3) is a number */
        break;
    }
    return CR_OK;
}

static cr_status parse_fortran(scanner *s, cr_npy *out) {
    out->fortran = take_word(s, "True");
    if (!out->fortran && !take_word(s, "False")) return fail_header("'fortran_order' is neither True nor False");
    return CR_OK;
}

static cr_status parse_dictionary(scanner *s, cr_npy *out) {
    static const struct { const char *key; cr_status (*parse)(scanner *, cr_npy *); } keys[] = {
        {"descr", parse_descr}, {"fortran_order", parse_fortran}, {"shape", parse_shape}};
    unsigned seen = 0;
    if (!take(s, '{')) return fail_header("no dictionary");
    while (!take(s, '}')) {
        const char *text;
        size_t n, i = 0;
        if (!take_string(s, &text, &n) || !take(s, ':')) return fail_header("no key where one is expected");
        while (i < CR_COUNT(keys) && (strlen(keys[i].key) != n || memcmp(keys[i].key, text, n))) i++;
        if (i == CR_COUNT(keys)) return fail_header("a key other than descr, fortran_order and shape");
        if (seen & 1u << i) return fail_header("a key occurs twice");
        seen |= 1u << i;
        CR_TRY(keys[i].parse(s, out));
        if (take(s, ',')) continue;
        if (!take(s, '}')) return fail_header("the dictionary does not end");
        break;
    }
    skip_space(s);
    if (s->at != s->end) return fail_header("something follows the dictionary");
    if (seen != (1u << CR_COUNT(keys)) - 1) return fail_header("descr, fortran_order or shape is missing");
    return CR_OK;
}

cr_status cr_npy_parse(const void *data, size_t size, cr_npy *out) {
    const uint8_t *p = data;
    if (size < MAGIC || memcmp(p, magic, MAGIC))
        return CR_FAIL(CR_EFORMAT, "not a .npy file: it does not begin with \\x93NUMPY");
    if (size < 10) return CR_FAIL(CR_EFORMAT, "the .npy file is truncated inside its header");
    int version = p[6];
    if (version < 1 || version > 3 || p[7] != 0)
        return CR_FAIL(CR_EUNSUPPORTED, "version %d.%d of the .npy format; 1.0, 2.0 and 3.0 are read", p[6], p[7]);
    size_t begin = version == 1 ? 10 : 12, length = 0;
    if (size < begin) return CR_FAIL(CR_EFORMAT, "the .npy file is truncated inside its header");
    for (size_t i = begin; i-- > 8;) length = length << 8 | p[i];
    if (length > size - begin) return CR_FAIL(CR_EFORMAT, "the .npy file is truncated inside its header");
    if (length > LARGEST_HEADER) return fail_header("it is longer than 1 MiB");
    cr_npy a = {0};
    scanner s = {(const char *)p + begin, (const char *)p + begin + length};
    CR_TRY(parse_dictionary(&s, &a));
    /* The sizes that are not 0 must have a product, so that nobody who multiplies them later can overflow. */
    int64_t bytes = a.width;
    bool empty = false;
    for (int i = 0; i < a.rank; i++) {
        empty |= a.size[i] == 0;
        if (a.size[i] && cr_mul_overflow(bytes, a.size[i], &bytes))
            return fail_header("the array is larger than any memory");
    }
    a.bytes = empty ? 0 : (uint64_t)bytes;
    uint64_t left = size - begin - length;
    if (left < a.bytes)
        return CR_FAIL(CR_EFORMAT, "the .npy file is truncated: the array needs %llu bytes, %llu are there",
                       (unsigned long long)a.bytes, (unsigned long long)left);
    if (left > a.bytes)
        return CR_FAIL(CR_EFORMAT, "%llu bytes follow the array's %llu in the .npy file",
                       (unsigned long long)(left - a.bytes), (unsigned long long)a.bytes);
    a.data = p + begin + length;
    *out = a;
    return CR_OK;
}

/* Reverses each unit of `unit` bytes. */
static void swap_units(uint8_t *p, uint64_t bytes, int unit) {
    for (uint64_t i = 0; i < bytes; i += (uint64_t)unit)
        for (int lo = 0, hi = unit - 1; lo < hi; lo++, hi--) {
            uint8_t byte = p[i + (uint64_t)lo];
            p[i + (uint64_t)lo] = p[i + (uint64_t)hi];
            p[i + (uint64_t)hi] = byte;
        }
}

/* Walks the elements in C order; the source's strides are those of Fortran order. */
static void transpose(const cr_npy *a, uint8_t *to) {
    int64_t index[RT_MAX_RANK] = {0}, stride[RT_MAX_RANK], step = a->width;
    for (int i = 0; i < a->rank; i++) {
        stride[i] = step;
        step *= a->size[i];
    }
    int last = a->rank - 1;
    const uint8_t *from = a->data;
    for (uint64_t done = 0; done < a->bytes;) {
        for (int64_t i = 0; i < a->size[last]; i++) {
            memcpy(to + done, from + i * stride[last], (size_t)a->width);
            done += (uint64_t)a->width;
        }
        for (int d = last - 1; d >= 0; d--) {
            from += stride[d];
            if (++index[d] < a->size[d]) break;
            from -= stride[d] * a->size[d];
            index[d] = 0;
        }
    }
}

void cr_npy_copy(const cr_npy *a, void *to) {
    if (!a->bytes) return;
    if (a->fortran && a->rank > 1) transpose(a, to);
    else memcpy(to, a->data, (size_t)a->bytes);
    if (!a->swapped) return;
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (types[i].dtype == a->dtype && types[i].width == a->width) {
            swap_units(to, a->bytes, types[i].unit);
            return;
        }
}

cr_status cr_npy_header(int dtype, int rank, const int64_t *size, cr_str *out) {
    size_t row = 0;
    while (row < CR_COUNT(types) && (types[row].dtype != dtype || dtype == RT_DTYPE_COUNT)) row++;
    if (row == CR_COUNT(types))
        return CR_FAIL(CR_EUNSUPPORTED, "NumPy has no %s: cast to %s first, which holds its values exactly",
                       rt_dtype_name(dtype), dtype == RT_C32 ? "complex64" : "float32");
    char text[96 + RT_MAX_RANK * 24];
    char order = types[row].width == 1 ? '|' : big_endian_host ? '>' : '<';
    int n = snprintf(text, sizeof text, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", order,
                     types[row].kind, types[row].width);
    for (int i = 0; i < rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, i ? ", %lld" : "%lld", (long long)size[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, rank == 1 ? ",), }" : "), }");
    /* NumPy leaves room for the first size to grow to 21 digits in place. */
    size_t grow = rank ? (size_t)(GROWTH - snprintf(NULL, 0, "%lld", (long long)size[0])) : 0,
           length = (size_t)n + grow;
    size_t total = (10 + length + 1 + ALIGN - 1) / ALIGN * ALIGN;
    cr_str_addn(out, magic, MAGIC);
    cr_str_addn(out, "\x01\x00", 2);
    cr_str_addc(out, (char)((total - 10) & 0xff));
    cr_str_addc(out, (char)((total - 10) >> 8));
    cr_str_addn(out, text, (size_t)n);
    for (size_t i = 10 + (size_t)n; i < total - 1; i++) cr_str_addc(out, ' ');
    cr_str_addc(out, '\n');
    return cr_str_status(out);
}
