/* Writing JSON: a stream of tokens into a text; what goes between them follows from the bracket that is open.
 *
 * `first` says that nothing stands yet in the innermost container, `after_key` that a key waits for its value. */
#include "archive/json.h"
#include "base/utf8.h"

#include <math.h>

void cr_json_writer_init(cr_json_writer *w, cr_str *out, int indent) {
    *w = (cr_json_writer){.out = out, .indent = indent, .first = true};
}

static void new_line(cr_json_writer *w) {
    cr_str_addc(w->out, '\n');
    for (int i = 0; i < w->indent * w->depth; i++) cr_str_addc(w->out, ' ');
}

/* What separates the coming token from the one before. */
static void separate(cr_json_writer *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (!w->first) cr_str_add(w->out, w->indent ? "," : ", ");
    if (w->indent && w->depth) new_line(w);
    w->first = false;
}

void cr_json_open(cr_json_writer *w, char bracket) {
    separate(w);
    cr_str_addc(w->out, bracket);
    w->depth++;
    w->first = true;
}

void cr_json_close(cr_json_writer *w, char bracket) {
    w->depth--;
    if (w->indent && !w->first) new_line(w);
    cr_str_addc(w->out, bracket);
    w->first = false;
}

static void add_text(cr_json_writer *w, const char *s, size_t n) {
    const uint8_t *at = (const uint8_t *)s, *end = at + n, *plain = at;
    cr_str_addc(w->out, '"');
    while (at < end) {
        size_t step = cr__utf8_step(at, end);
        if (step && *at >= 0x20 && *at != '"' && *at != '\\') {
            at += step;
            continue;
        }
        cr_str_addn(w->out, (const char *)plain, (size_t)(at - plain));
        if (!step) {
            cr_str_add(w->out, "\xef\xbf\xbd"); /* no text holds this byte: the replacement character */
        } else {
            static const char escapes[] = "\"\"\\\\\nn\tt\rr\bb\ff"; /* pairs: byte, letter */
            const char *pair = escapes;
            while (*pair && (uint8_t)*pair != *at) pair += 2;
            if (*pair) cr_str_addf(w->out, "\\%c", pair[1]);
            else cr_str_addf(w->out, "\\u%04x", *at);
        }
        plain = ++at;
    }
    cr_str_addn(w->out, (const char *)plain, (size_t)(at - plain));
    cr_str_addc(w->out, '"');
}

void cr_json_key(cr_json_writer *w, const char *key) {
    separate(w);
    add_text(w, key, strlen(key));
    cr_str_add(w->out, ": ");
    w->after_key = true;
}

void cr_json_string(cr_json_writer *w, const char *s, size_t n) {
    separate(w);
    add_text(w, s, n);
}

void cr_json_int(cr_json_writer *w, int64_t i) {
    separate(w);
    cr_str_addf(w->out, "%lld", (long long)i);
}

void cr_json_float(cr_json_writer *w, double f) {
    separate(w);
    if (isnan(f)) cr_str_add(w->out, "NaN");
    else if (isinf(f)) cr_str_add(w->out, f < 0 ? "-Infinity" : "Infinity");
    else cr_str_add_double(w->out, f);
}

void cr_json_bool(cr_json_writer *w, bool b) {
    separate(w);
    cr_str_add(w->out, b ? "true" : "false");
}

void cr_json_null(cr_json_writer *w) {
    separate(w);
    cr_str_add(w->out, "null");
}

void cr_json_members(cr_json_writer *w, const char *object) {
    size_t n = strlen(object);
    if (n <= 2) return;
    separate(w);
    cr_str_addn(w->out, object + 1, n - 2);
}

/* Recursion as deep as the parser accepts. */
void cr_json_value(cr_json_writer *w, const cr_json *value) {
    switch ((cr_json_kind)value->kind) {
        case CR_JSON_NULL: cr_json_null(w); break;
        case CR_JSON_BOOL: cr_json_bool(w, value->u.b); break;
        case CR_JSON_INT: cr_json_int(w, value->u.i); break;
        case CR_JSON_FLOAT: cr_json_float(w, value->u.f); break;
        case CR_JSON_STRING: cr_json_string(w, value->u.s, value->n); break;
        case CR_JSON_ARRAY:
            cr_json_open(w, '[');
            for (uint32_t i = 0; i < value->n; i++) cr_json_value(w, &value->u.items[i]);
            cr_json_close(w, ']');
            break;
        case CR_JSON_OBJECT:
            cr_json_open(w, '{');
            for (uint32_t i = 0; i < value->n; i++) {
                cr_json_key(w, value->u.members[i].key);
                cr_json_value(w, &value->u.members[i].value);
            }
            cr_json_close(w, '}');
            break;
    }
}
