/* info_parts.c: what archives and compiled libraries have in common when `cresset info` shows them; see info.h. */
#include "cli/info.h"

void info_count(tally *t, int dtype, int rank, const int64_t *size) {
    int64_t elements = 1;
    for (int i = 0; i < rank; i++)
        if (cr_mul_overflow(elements, size[i], &elements)) elements = 0;
    t->count++;
    t->elements += elements;
    t->bytes += elements * rt_itemsize(dtype);
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

static void add_constant(const model *m, const model_slot *s, cr_str *out) {
    if (s->constant.kind == CR_ARG_NONE) cr_str_add(out, "None");
    else cr_arg_print(m->env, &s->constant, out);
}

static int longest(const model_slot *slots, size_t n) {
    size_t most = 4;
    for (size_t i = 0; i < n; i++) most = CR_MAX(most, strlen(slots[i].key));
    return (int)CR_MIN(most, (size_t)40);
}

static void add_slots(const model *m, const char *title, const model_slot *slots, size_t n, bool outputs, cr_str *out) {
    int width = longest(slots, n);
    cr_str_addf(out, "\n%s\n", title);
    if (!n) cr_str_add(out, "  none\n");
    for (size_t i = 0; i < n; i++) {
        const model_slot *s = &slots[i];
        cr_str_addf(out, "  %-*s  %s", width, s->key, slot_type(s));
        if (s->type == CR_T_TENSOR && s->meta) cr_str_addc(out, ' '), slot_add_shape(m, s, out);
        else if (s->is_constant && s->type != CR_T_ANY) cr_str_add(out, " = "), add_constant(m, s, out);
        else if (s->expr) cr_str_addc(out, ' '), cr_sym_print(s->expr, out);
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
    add_slots(m, "inputs", m->inputs, m->ninputs, false, out);
    add_slots(m, "outputs", m->outputs, m->noutputs, true, out);
    if (m->nranges) cr_str_add(out, "\ndynamic\n");
    for (size_t i = 0; i < m->nranges; i++) {
        cr_str_addf(out, "  %-10s  ", m->ranges[i].symbol);
        model_add_range(m->ranges[i].range, out);
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

void info_json_sizes(cr_json_writer *w, cr_env *env, int rank, const cr_dim *size) {
    cr_json_open(w, '[');
    for (int i = 0; i < rank; i++) {
        cr_str text;
        cr_str_init(&text);
        cr_dim_print(env, size[i], &text);
        if (cr_dim_is_plain(size[i])) cr_json_int(w, size[i]);
        else cr_json_string(w, cr_str_get(&text), text.n);
        cli_str_done(&text, w->out);
    }
    cr_json_close(w, ']');
}

static void json_constant(cr_json_writer *w, const model *m, const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_NONE: cr_json_null(w); break;
    case CR_ARG_INT: cr_json_int(w, a->u.i); break;
    case CR_ARG_BOOL: cr_json_bool(w, a->u.i != 0); break;
    case CR_ARG_FLOAT: cr_json_float(w, a->u.f); break;
    case CR_ARG_STR: cr_json_string(w, a->u.s, a->n); break;
    default: {
        cr_str text;
        cr_str_init(&text);
        cr_arg_print(m->env, a, &text);
        cr_json_string(w, cr_str_get(&text), text.n);
        cli_str_done(&text, w->out);
    }
    }
}

static void json_slots(cr_json_writer *w, const model *m, const char *key, const model_slot *slots, size_t n,
                       bool outputs) {
    cr_json_key(w, key);
    cr_json_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const model_slot *s = &slots[i];
        cr_json_open(w, '{');
        info_json_pair(w, "name", s->name);
        if (outputs) info_json_pair(w, "key", s->left_out ? NULL : s->key);
        info_json_pair(w, "dtype", slot_type(s));
        cr_json_key(w, "shape");
        info_json_sizes(w, m->env, s->meta ? s->meta->rank : 0, s->meta ? s->meta->size : NULL);
        if (s->is_constant) cr_json_key(w, "value"), json_constant(w, m, &s->constant);
        cr_str path;
        cr_str_init(&path);
        model_add_path(m, outputs, i, &path);
        info_json_pair(w, "path", cr_str_get(&path));
        cli_str_done(&path, w->out);
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
    json_slots(w, m, "inputs", m->inputs, m->ninputs, false);
    json_slots(w, m, "outputs", m->outputs, m->noutputs, true);
    cr_json_key(w, "dynamic");
    cr_json_open(w, '[');
    for (size_t i = 0; i < m->nranges; i++) {
        cr_json_open(w, '{');
        info_json_pair(w, "symbol", m->ranges[i].symbol);
        json_bound(w, "min", m->ranges[i].range.lo, INT64_MIN);
        json_bound(w, "max", m->ranges[i].range.hi, INT64_MAX);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}
