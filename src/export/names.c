/* names.c: the names that exported programs give their values.
 *
 * Three rules after each other, as PyTorch has them. A call is named after its op in snake case, made unique by _1, _2 and
 * kept off Python's own names (`max_1`). A call with several results has a name of its own, and each result is a `getitem`
 * of it; those share one count. Placeholders have the last word: their names are given, and a call that collides with one
 * moves on to the next free number. Values that a write left behind are no nodes there; they take what is free. */
#include "export/internal.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct namer {
    cr_graph *g;
    cr_arena arena;
    cr_map used, counts;     /* first rule: names; base -> last number */
    cr_map taken, available; /* third rule: names; prefix -> highest number */
    CR_VEC(const char *) names; /* by value: its final name; NULL: hidden */
} namer;

/* ---- first rule ---- */

/* Names that a Python text must not hide; only those that an op could have. */
static bool is_reserved(const char *name) {
    static const char *const reserved[] = {
        "abs", "all", "and", "any", "assert", "bin", "bool", "bytes", "complex", "device", "dir", "divmod", "eval", "exec", "filter", "float", "format", "hash", "hex",
        "id", "inf", "input", "int", "is", "iter", "len", "list", "map", "max", "min", "nan", "next", "not", "object", "oct", "open", "or", "ord", "pow", "print",
        "range", "repr", "round", "set", "slice", "sorted", "str", "sum", "super", "torch", "tuple", "type", "vars", "zip",
    };
    for (size_t i = 0; i < CR_COUNT(reserved); i++)
        if (!strcmp(name, reserved[i])) return true;
    return false;
}

/* The length of what stands before a final _N, and N; the whole text and -1 without one. */
static size_t split_number(const char *name, long long *number) {
    size_t n = strlen(name), digits = n;
    while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
    *number = -1;
    if (digits == n || !digits || name[digits - 1] != '_' || n - digits > 15) return n;
    *number = strtoll(name + digits, NULL, 10);
    return digits - 1;
}

static cr_status create_name(namer *m, const char *wish, const char **out) {
    long long number;
    size_t length = split_number(wish, &number);
    const char *base = cr_arena_strndup(&m->arena, wish, length), *name = wish;
    if (!base) return CR_ENOMEM;
    if (number < 0 || cr_map_find_str(&m->used, wish, NULL)) {
        uint64_t last = 0;
        cr_map_find_str(&m->counts, base, &last);
        number = (long long)last;
        if (is_reserved(wish) && !(name = cr_arena_printf(&m->arena, "%s_%lld", base, ++number))) return CR_ENOMEM;
    }
    while (cr_map_find_str(&m->used, name, NULL))
        if (!(name = cr_arena_printf(&m->arena, "%s_%lld", base, ++number))) return CR_ENOMEM;
    CR_TRY(cr_map_put_str(&m->used, name, 1));
    CR_TRY(cr_map_put_str(&m->counts, base, (uint64_t)number));
    *out = name;
    return CR_OK;
}

/* ---- third rule ---- */

static cr_status note_taken(namer *m, const char *name) {
    long long number;
    uint64_t highest = 0;
    size_t length = split_number(name, &number);
    CR_TRY(cr_map_put_str(&m->taken, name, 1));
    if (number < 0) return CR_OK;
    cr_map_find(&m->available, name, length, &highest);
    return (uint64_t)number > highest ? cr_map_put(&m->available, name, length, (uint64_t)number) : CR_OK;
}

static cr_status settle_name(namer *m, const char *name, const char **out) {
    if (cr_map_find_str(&m->taken, name, NULL)) {
        long long number;
        uint64_t highest = 0;
        size_t length = split_number(name, &number);
        cr_map_find(&m->available, name, length, &highest);
        if (!(name = cr_arena_printf(&m->arena, "%.*s_%llu", (int)length, name, (unsigned long long)highest + 1))) return CR_ENOMEM;
    }
    *out = name;
    return note_taken(m, name);
}

/* ---- nodes ---- */

/* What the exporter itself inserts is named after op and overload. */
static bool names_overload(const cr_op *op) {
    static const char *const ops[] = { "aten::sym_size.int", "aten::sym_stride.int", "aten::sym_numel", "aten::sym_storage_offset", "aten::_assert_scalar",
                                       "aten::_assert_tensor_metadata", "aten::sym_constrain_range", "aten::sym_constrain_range_for_size" };
    for (size_t i = 0; i < CR_COUNT(ops); i++)
        if (!strcmp(op->name, ops[i])) return true;
    return false;
}

static const char *stem_of(namer *m, const cr_op *op) {
    const cr_schema *s = &op->schema;
    if (names_overload(op)) return cr_arena_printf(&m->arena, "%s_%s", s->name, *s->overload ? s->overload : "default");
    char *stem = cr_arena_alloc(&m->arena, 2 * strlen(s->name) + 1), *to = stem;
    for (const char *c = s->name; stem && *c; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        if (upper && c > s->name && c[-1] >= 'a' && c[-1] <= 'z') *to++ = '_';
        *to++ = upper ? (char)(*c - 'A' + 'a') : *c;
    }
    if (stem) *to = 0;
    return stem;
}

bool cr__has_parts(const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    return s->varargs_returns || s->nreturns > 1 || (s->nreturns == 1 && s->returns[0].list);
}

/* A name by the first and third rules. */
static cr_status next_name(namer *m, const char *stem, const char **out) {
    if (!stem) return CR_ENOMEM;
    CR_TRY(create_name(m, stem, out));
    return settle_name(m, *out, out);
}

static cr_status name_call(namer *m, uint32_t n) {
    const cr_node *node = cr_graph_node(m->g, n);
    const char *name;
    uint32_t visible = 0;
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) visible += !cr_graph_value(m->g, v)->hidden;
    for (uint16_t k = 0; k < node->nargs; k++) /* a body is an attribute that is read first */
        if (node->args[k].kind == CR_ARG_GRAPH) CR_TRY(next_name(m, cr_graph_name(node->args[k].u.graph), &name));
    CR_TRY(next_name(m, stem_of(m, node->op), &name));
    bool parts = cr__has_parts(node);
    if (parts || !visible) CR_TRY(cr_graph_set_target(m->g, n, name));
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
        if (cr_graph_value(m->g, v)->hidden) continue;
        if (parts) CR_TRY(next_name(m, "getitem", &name));
        m->names.at[v] = name;
    }
    return CR_OK;
}

static cr_status name_nodes(namer *m) {
    uint32_t count = cr_graph_value_count(m->g);
    CR_TRY(cr_vec_reserve(&m->names, count + 1u));
    for (uint32_t v = 0; v < count; v++) CR_TRY(cr_vec_push(&m->names, NULL));
    for (uint32_t n = cr_graph_first(m->g); n != CR_NO_NODE; n = cr_graph_next(m->g, n)) {
        const cr_node *node = cr_graph_node(m->g, n);
        if (node->kind == CR_NODE_PLACEHOLDER) {
            m->names.at[node->first] = cr_graph_value(m->g, node->first)->name;
            CR_TRY(note_taken(m, m->names.at[node->first]));
        }
        if (node->kind == CR_NODE_GET_ATTR) CR_TRY(next_name(m, node->target, &m->names.at[node->first]));
        if (node->kind == CR_NODE_CALL) CR_TRY(name_call(m, n));
    }
    return CR_OK;
}

/* Everything steps aside before anything takes its place. */
static cr_status rename_values(namer *m) {
    char aside[32];
    for (uint32_t v = 0; v < m->names.n; v++) {
        const cr_value *value = cr_graph_value(m->g, v);
        if (value->node == CR_NO_NODE || (m->names.at[v] && !strcmp(m->names.at[v], value->name))) continue;
        snprintf(aside, sizeof aside, "__%u", v);
        CR_TRY(cr_graph_rename(m->g, v, aside));
    }
    for (uint32_t v = 0; v < m->names.n; v++)
        if (cr_graph_value(m->g, v)->node != CR_NO_NODE && m->names.at[v]) CR_TRY(cr_graph_rename(m->g, v, m->names.at[v]));
    for (uint32_t v = 0; v < m->names.n; v++) {
        if (cr_graph_value(m->g, v)->node == CR_NO_NODE || m->names.at[v]) continue;
        CR_TRY(cr_graph_rename(m->g, v, cr__shown_name(m->g, v)));
    }
    return CR_OK;
}

cr_status cr__name_values(cr_graph *g) {
    namer m = { .g = g };
    cr_arena_init(&m.arena);
    cr_map_init(&m.used);
    cr_map_init(&m.counts);
    cr_map_init(&m.taken);
    cr_map_init(&m.available);
    cr_status status = name_nodes(&m);
    if (!status) status = rename_values(&m);
    cr_vec_dispose(&m.names);
    cr_map_dispose(&m.used);
    cr_map_dispose(&m.counts);
    cr_map_dispose(&m.taken);
    cr_map_dispose(&m.available);
    cr_arena_dispose(&m.arena);
    return status;
}

/* ---- what a value is called in Python ---- */

/* The k-th tensor among an argument's, depth first. */
static const cr_arg *find_tensor(const cr_arg *a, uint32_t *k) {
    if (a->kind == CR_ARG_VALUE && a->pad == CR_T_TENSOR) return (*k)-- ? NULL : a;
    const cr_arg *found = NULL;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n && !found; i++) found = find_tensor(&a->u.list[i], k);
    return found;
}

const char *cr__shown_name(const cr_graph *g, uint32_t value) {
    for (;;) {
        const cr_value *v = cr_graph_value(g, value);
        if (!v->hidden) return v->name;
        const cr_node *node = cr_graph_node(g, v->node);
        uint32_t k = 0;
        for (uint32_t i = node->first; i < value; i++) k += cr_graph_value(g, i)->hidden && cr_graph_value(g, i)->ret == v->ret;
        const cr_arg *written = find_tensor(&node->args[v->ret], &k);
        if (!written) return v->name;
        value = (uint32_t)written->u.i;
    }
}
