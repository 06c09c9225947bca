/* info_parts.c: what archives and compiled libraries have in common when `cresset info` shows them; see info.h. */
#include "cli/info.h"

void info_count(tally *t, int dtype, int rank, const int64_t *size) {
    int64_t elements = 1;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(elements, size[i], &elements)) elements = 0;
    t->count++;
    t->elements += elements;
    t->bytes += elements * cr_dtype_size(dtype);
}

/* ---- text ---- */

/* 1234567 -> "1 234 567" */
static void add_grouped(cr_str *out, uint64_t n) {
    char digits[24];
    int length = 0;
    do digits[length++] = (char)('0' + n % 10), n /= 10;
    while (n);
    while (length) {
        cr_str_addc(out, digits[--length]);
        if (length && length % 3 == 0) cr_str_addc(out, ' ');
    }
}

static void add_constant(const cr_slot *s, cr_str *out) {
    if (s->constant.kind == CR_ARG_NONE) cr_str_add(out, "None");
    else cr_arg_describe(&s->constant, out);
}

typedef const cr_slot *slot_fn(const cr_signature *s, size_t i);

static int longest(const cr_signature *sig, slot_fn *slots) {
    size_t most = 4;
    for (size_t i = 0; slots(sig, i); i++) most = CLI_MAX(most, strlen(slots(sig, i)->key));
    return (int)CLI_MIN(most, (size_t)40);
}

static void add_slots(const cr_signature *sig, const char *title, slot_fn *slots, bool outputs, cr_str *out) {
    int width = longest(sig, slots);
    cr_str_addf(out, "\n%s\n", title);
    if (!slots(sig, 0)) cr_str_add(out, "  none\n");
    for (size_t i = 0; slots(sig, i); i++) {
        const cr_slot *s = slots(sig, i);
        cr_str_addf(out, "  %-*s  %s", width, s->key, s->type);
        if (s->dims) cr_str_addc(out, ' '), cr_slot_print_shape(s, out);
        else if (s->is_constant && strcmp(s->type, "none")) cr_str_add(out, " = "), add_constant(s, out);
        else if (s->number) cr_str_addf(out, " %s", s->number->text);
        if (s->is_constant && !outputs) cr_str_add(out, " (fixed by the export)");
        if (strcmp(s->name, s->key)) cr_str_addf(out, "  %%%s", s->name);
        cr_str_addc(out, '\n');
    }
}

void info_add_tally(const char *title, const tally *t, cr_str *out) {
    if (!t->count) return;
    cr_str_addf(out, "%-12s%zu tensor%s, ", title, t->count, t->count == 1 ? "" : "s");
    add_grouped(out, (uint64_t)t->elements);
    cr_str_add(out, " elements, ");
    cr_str_add_bytes(out, (uint64_t)t->bytes);
    cr_str_addc(out, '\n');
}

void info_add_names(const char *title, const char *const *names, size_t n, cr_str *out) {
    if (!n) return;
    cr_str_addf(out, "%-12s", title);
    for (size_t i = 0; i < n; i++) cr_str_addf(out, "%s%s", i ? ", " : "", names[i]);
    cr_str_addc(out, '\n');
}

void info_add_interface(const model *m, cr_str *out) {
    const cr_symbol *symbol;
    add_slots(m->signature, "inputs", cr_signature_input, false, out);
    add_slots(m->signature, "outputs", cr_signature_output, true, out);
    if (cr_signature_symbol_count(m->signature)) cr_str_add(out, "\ndynamic\n");
    for (size_t i = 0; (symbol = cr_signature_symbol(m->signature, i)); i++) {
        cr_str_addf(out, "  %-10s  ", symbol->name);
        model_add_range(symbol->min, symbol->max, out);
        cr_str_addc(out, '\n');
    }
    cr_str_addc(out, '\n');
}

/* ---- JSON ---- */

static void json_text(cr_json_writer *w, const char *s) {
    if (s) cr_json_string(w, s, strlen(s));
    else cr_json_null(w);
}

void info_json_pair(cr_json_writer *w, const char *key, const char *s) {
    cr_json_key(w, key);
    json_text(w, s);
}

void info_json_sizes(cr_json_writer *w, int rank, const int64_t *size) {
    cr_json_open(w, '[');
    for (int i = 0; i < rank; i++) cr_json_int(w, size[i]);
    cr_json_close(w, ']');
}

/* A size that is fixed is a number, another one its expression. */
static void json_dims(cr_json_writer *w, const cr_slot *s) {
    cr_json_open(w, '[');
    for (int i = 0; s->dims && i < s->rank; i++) {
        const char *text = s->dims[i].text;
        if (text[strspn(text, "-0123456789")]) cr_json_string(w, text, strlen(text));
        else cr_json_int(w, s->dims[i].min);
    }
    cr_json_close(w, ']');
}

static void json_constant(cr_json_writer *w, const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_NONE: cr_json_null(w); break;
    case CR_ARG_INT: cr_json_int(w, a->u.i); break;
    case CR_ARG_BOOL: cr_json_bool(w, a->u.i != 0); break;
    case CR_ARG_FLOAT: cr_json_float(w, a->u.f); break;
    case CR_ARG_STR: cr_json_string(w, a->u.s, a->n); break;
    default: {
        cr_str text;
        cr_str_init(&text);
        cr_arg_describe(a, &text);
        cr_json_string(w, cr_str_get(&text), text.n);
        cli_str_done(&text, w->out);
    }
    }
}

static void json_slots(cr_json_writer *w, const cr_signature *sig, const char *key, slot_fn *slots, bool outputs) {
    cr_json_key(w, key);
    cr_json_open(w, '[');
    for (size_t i = 0; slots(sig, i); i++) {
        const cr_slot *s = slots(sig, i);
        cr_json_open(w, '{');
        info_json_pair(w, "name", s->name);
        if (outputs) info_json_pair(w, "key", s->is_array ? s->key : NULL);
        info_json_pair(w, "dtype", s->type);
        cr_json_key(w, "shape");
        json_dims(w, s);
        if (s->is_constant) cr_json_key(w, "value"), json_constant(w, &s->constant);
        info_json_pair(w, "path", s->path);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

void info_json_tally(cr_json_writer *w, const char *key, const tally *t) {
    cr_json_key(w, key);
    cr_json_open(w, '{');
    cr_json_key(w, "count"), cr_json_int(w, (int64_t)t->count);
    cr_json_key(w, "elements"), cr_json_int(w, t->elements);
    cr_json_key(w, "bytes"), cr_json_int(w, t->bytes);
    cr_json_close(w, '}');
}

void info_json_names(cr_json_writer *w, const char *key, const char *const *names, size_t n) {
    cr_json_key(w, key);
    cr_json_open(w, '[');
    for (size_t i = 0; i < n; i++) json_text(w, names[i]);
    cr_json_close(w, ']');
}

static void json_bound(cr_json_writer *w, const char *key, int64_t value, int64_t infinite) {
    cr_json_key(w, key);
    if (value == infinite) cr_json_null(w);
    else cr_json_int(w, value);
}

void info_json_interface(cr_json_writer *w, const model *m) {
    const cr_symbol *symbol;
    json_slots(w, m->signature, "inputs", cr_signature_input, false);
    json_slots(w, m->signature, "outputs", cr_signature_output, true);
    cr_json_key(w, "dynamic");
    cr_json_open(w, '[');
    for (size_t i = 0; (symbol = cr_signature_symbol(m->signature, i)); i++) {
        cr_json_open(w, '{');
        info_json_pair(w, "symbol", symbol->name);
        json_bound(w, "min", symbol->min, INT64_MIN);
        json_bound(w, "max", symbol->max, INT64_MAX);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}
