/* names.c: the names that exported programs give their values.
 *
 * Three rules after each other, as PyTorch has them. A call is named after its op in snake case, made unique by _1, _2
 * and kept off Python's own names (`max_1`). A call with several results has a name of its own, and each result is a
 * `getitem` of it; those share one count. Placeholders have the last word: their names are given, and a call that
 * collides with one moves on to the next free number. Values that a write left behind are no nodes there; they take
 * what is free. */
#include "export/internal.h"

#include <stdio.h>
#include <stdlib.h>

struct cr_names {
    cr_arena arena;
    cr_map used, counts;         /* first rule: names; base -> last number */
    CR_VEC(const char *) nodes;  /* by node: the call's own name */
    CR_VEC(const char *) values; /* by value; NULL: hidden */
};

typedef struct settler {
    cr_graph *g;
    cr_arena arena;
    cr_map taken, available; /* third rule: names; prefix -> highest number */
} settler;

/* ---- first rule ---- */

/* Names that a Python text must not hide; sorted. */
bool cr__is_reserved(const char *name) {
    static const char *const reserved[] = {
        "abs",        "aiter",      "all",     "and",       "anext",        "any",      "as",         "ascii",
        "assert",     "async",      "await",   "bin",       "bool",         "break",    "breakpoint", "bytearray",
        "bytes",      "callable",   "chr",     "class",     "classmethod",  "compile",  "complex",    "continue",
        "copyright",  "credits",    "def",     "del",       "delattr",      "device",   "dict",       "dir",
        "divmod",     "elif",       "else",    "enumerate", "eval",         "except",   "exec",       "exit",
        "filter",     "finally",    "float",   "for",       "format",       "from",     "frozenset",  "fx_pytree",
        "getattr",    "global",     "globals", "hasattr",   "hash",         "help",     "hex",        "id",
        "if",         "import",     "in",      "inf",       "input",        "int",      "is",         "isinstance",
        "issubclass", "iter",       "lambda",  "len",       "license",      "list",     "locals",     "map",
        "max",        "memoryview", "min",     "nan",       "next",         "nonlocal", "not",        "object",
        "oct",        "open",       "or",      "ord",       "pass",         "pow",      "print",      "property",
        "pytree",     "quit",       "raise",   "range",     "repr",         "return",   "reversed",   "round",
        "set",        "setattr",    "slice",   "sorted",    "staticmethod", "str",      "sum",        "super",
        "torch",      "try",        "tuple",   "type",      "vars",         "while",    "with",       "yield",
        "zip",
    };
    size_t low = 0, high = CR_COUNT(reserved);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, reserved[middle]);
        if (!order) return true;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
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

static cr_status create_name(cr_names *m, const char *wish, const char **out) {
    long long number;
    size_t length = split_number(wish, &number);
    const char *base = cr_arena_strndup(&m->arena, wish, length), *name = wish;
    if (!base) return CR_ENOMEM;
    if (number < 0 || cr_map_find_str(&m->used, wish, NULL)) {
        uint64_t last = 0;
        cr_map_find_str(&m->counts, base, &last);
        number = (long long)last;
        if (cr__is_reserved(wish) && !(name = cr_arena_printf(&m->arena, "%s_%lld", base, ++number))) return CR_ENOMEM;
    }
    while (cr_map_find_str(&m->used, name, NULL))
        if (!(name = cr_arena_printf(&m->arena, "%s_%lld", base, ++number))) return CR_ENOMEM;
    CR_TRY(cr_map_put_str(&m->used, name, 1));
    CR_TRY(cr_map_put_str(&m->counts, base, (uint64_t)number));
    *out = name;
    return CR_OK;
}

/* ---- third rule ---- */

static cr_status note_taken(settler *m, const char *name) {
    long long number;
    uint64_t highest = 0;
    size_t length = split_number(name, &number);
    CR_TRY(cr_map_put_str(&m->taken, name, 1));
    if (number < 0) return CR_OK;
    cr_map_find(&m->available, name, length, &highest);
    return (uint64_t)number > highest ? cr_map_put(&m->available, name, length, (uint64_t)number) : CR_OK;
}

static cr_status settle_name(settler *m, const char *name, const char **out) {
    if (cr_map_find_str(&m->taken, name, NULL)) {
        long long number;
        uint64_t highest = 0;
        size_t length = split_number(name, &number);
        cr_map_find(&m->available, name, length, &highest);
        if (!(name = cr_arena_printf(&m->arena, "%.*s_%llu", (int)length, name, (unsigned long long)highest + 1)))
            return CR_ENOMEM;
    }
    *out = name;
    return note_taken(m, name);
}

/* ---- nodes ---- */

/* What the exporter itself inserts is named after op and overload. */
static bool names_overload(const cr_op *op) {
    static const char *const ops[] = { "aten::sym_size.int",        "aten::sym_stride.int",
                                       "aten::sym_numel",           "aten::sym_storage_offset",
                                       "aten::_assert_scalar",      "aten::_assert_tensor_metadata",
                                       "aten::sym_constrain_range", "aten::sym_constrain_range_for_size" };
    for (size_t i = 0; i < CR_COUNT(ops); i++)
        if (!strcmp(op->name, ops[i])) return true;
    return false;
}

static const char *stem_of(cr_names *m, const cr_op *op) {
    const cr_schema *s = &op->schema;
    if (names_overload(op)) return cr_arena_printf(&m->arena, "%s_%s", s->name, *s->overload ? s->overload : "default");
    size_t length = strlen(s->name);
    /* __and__ is called and */
    bool magic = length > 4 && !strncmp(s->name, "__", 2) && !strcmp(s->name + length - 2, "__");
    const char *begin = s->name + (magic ? 2 : 0), *end = s->name + length - (magic ? 2 : 0);
    char *stem = cr_arena_alloc(&m->arena, 2 * length + 1), *to = stem;
    for (const char *c = begin; stem && c < end; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        if (upper && c > begin && c[-1] >= 'a' && c[-1] <= 'z') *to++ = '_';
        *to++ = upper ? (char)(*c - 'A' + 'a') : *c;
    }
    if (stem) *to = 0;
    return stem;
}

bool cr__has_parts(const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    return s->varargs_returns || s->nreturns > 1 || (s->nreturns == 1 && s->returns[0].list);
}

static cr_status make_room(cr_names *m, const cr_graph *g, uint32_t node) {
    while (m->values.n < cr_graph_value_count(g)) CR_TRY(cr_vec_push(&m->values, NULL));
    while (m->nodes.n <= node) CR_TRY(cr_vec_push(&m->nodes, NULL));
    return CR_OK;
}

static cr_status name_call(cr_names *m, const cr_graph *g, uint32_t n) {
    const cr_node *node = cr_graph_node(g, n);
    const char *name;
    for (uint16_t k = 0; k < node->nargs; k++) /* a body is an attribute that is read first */
        if (node->args[k].kind == CR_ARG_GRAPH) CR_TRY(create_name(m, cr_graph_name(node->args[k].u.graph), &name));
    const char *stem = node->target ? node->target : stem_of(m, node->op);
    if (!stem) return CR_ENOMEM;
    CR_TRY(create_name(m, stem, &name));
    m->nodes.at[n] = name;
    bool parts = cr__has_parts(node), several = node->op->schema.nreturns > 1;
    for (uint32_t v = node->first, list = UINT32_MAX; v < node->first + node->nvalues; v++) {
        const cr_value *value = cr_graph_value(g, v);
        if (value->hidden) continue;
        if (parts && several && value->ret != list && node->op->schema.returns[value->ret].list) {
            list = value->ret; /* one of several results: it is taken out first, and has a name for that */
            CR_TRY(create_name(m, "getitem", &name));
        }
        if (parts) CR_TRY(create_name(m, "getitem", &name));
        m->values.at[v] = name;
    }
    return CR_OK;
}

cr_status cr__names_add(cr_names *m, const cr_graph *g, uint32_t n) {
    const cr_node *node = cr_graph_node(g, n);
    CR_TRY(make_room(m, g, n));
    if (node->kind == CR_NODE_GET_ATTR) {
        CR_TRY(create_name(m, node->target, &m->values.at[node->first]));
        m->nodes.at[n] = m->values.at[node->first];
    }
    return node->kind == CR_NODE_CALL ? name_call(m, g, n) : CR_OK;
}

cr_status cr__names_skip(cr_names *m, const char *stem) {
    const char *name;
    return create_name(m, stem, &name);
}

cr_status cr__names_region(cr_names *m, const cr_graph *g, uint32_t node, const uint32_t *outputs, size_t n) {
    const char *name;
    CR_TRY(make_room(m, g, node));
    uint32_t first = cr_graph_node(g, node)->first;
    for (size_t i = 0; n > 1 && i < n; i++) m->values.at[first + i] = m->values.at[outputs[i]];
    if (n == 1) {
        name = m->values.at[outputs[0]];
        CR_TRY(create_name(m, "getitem", &m->values.at[first]));
    } else {
        CR_TRY(create_name(m, "wrap_with_set_grad_enabled", &name));
    }
    m->nodes.at[node] = name;
    return CR_OK;
}

void cr_names_free(cr_names *m) {
    if (!m) return;
    cr_vec_dispose(&m->nodes);
    cr_vec_dispose(&m->values);
    cr_map_dispose(&m->used);
    cr_map_dispose(&m->counts);
    cr_arena_dispose(&m->arena);
    cr_free(m);
}

cr_status cr_names_create(const cr_graph *g, cr_names **out) {
    cr_names *m = cr_calloc(1, sizeof *m);
    if (!m) return CR_ENOMEM;
    cr_arena_init(&m->arena);
    cr_map_init(&m->used);
    cr_map_init(&m->counts);
    cr_status status = CR_OK;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && !status; n = cr_graph_next(g, n))
        status = cr__names_add(m, g, n);
    if (status) cr_names_free(m);
    else *out = m;
    return status;
}

/* ---- all rules together ---- */

/* Final names, by the third rule, in the order of the nodes. */
static cr_status settle_nodes(settler *s, const cr_names *m, const char **values) {
    for (uint32_t n = cr_graph_first(s->g); n != CR_NO_NODE; n = cr_graph_next(s->g, n)) {
        const cr_node *node = cr_graph_node(s->g, n);
        if (node->kind == CR_NODE_PLACEHOLDER) {
            values[node->first] = cr_graph_value(s->g, node->first)->name;
            CR_TRY(note_taken(s, values[node->first]));
            continue;
        }
        if (n >= m->nodes.n || !m->nodes.at[n]) continue;
        const char *name;
        CR_TRY(settle_name(s, m->nodes.at[n], &name));
        bool parts = node->kind == CR_NODE_CALL && cr__has_parts(node), shown = false;
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
            if (v >= m->values.n || !m->values.at[v]) continue;
            shown = true;
            values[v] = name;
            if (parts) CR_TRY(settle_name(s, m->values.at[v], &values[v]));
        }
        if (node->kind == CR_NODE_CALL && (parts || !shown)) CR_TRY(cr_graph_set_target(s->g, n, name));
    }
    return CR_OK;
}

/* Everything steps aside before anything takes its place. */
static cr_status rename_values(cr_graph *g, const char **names, uint32_t n) {
    char aside[32];
    for (uint32_t v = 0; v < n; v++) {
        const cr_value *value = cr_graph_value(g, v);
        if (value->node == CR_NO_NODE || (names[v] && !strcmp(names[v], value->name))) continue;
        snprintf(aside, sizeof aside, "__%u", v);
        CR_TRY(cr_graph_rename(g, v, aside));
    }
    for (uint32_t v = 0; v < n; v++)
        if (cr_graph_value(g, v)->node != CR_NO_NODE && names[v]) CR_TRY(cr_graph_rename(g, v, names[v]));
    for (uint32_t v = 0; v < n; v++) {
        if (cr_graph_value(g, v)->node == CR_NO_NODE || names[v]) continue;
        CR_TRY(cr_graph_rename(g, v, cr__shown_name(g, v)));
    }
    return CR_OK;
}

cr_status cr__name_values(cr_graph *g, const cr_names *names) {
    settler s = { .g = g };
    cr_names *made = NULL;
    if (!names) CR_TRY(cr_names_create(g, &made));
    cr_arena_init(&s.arena);
    cr_map_init(&s.taken);
    cr_map_init(&s.available);
    uint32_t n = cr_graph_value_count(g);
    const char **values = cr_arena_calloc(&s.arena, n + 1u, sizeof *values);
    cr_status status = values ? settle_nodes(&s, names ? names : made, values) : CR_ENOMEM;
    if (!status) status = rename_values(g, values, n);
    /* bodies have names of their own */
    for (size_t i = 0; i < cr_graph_subgraph_count(g) && !status; i++)
        status = cr__name_values(cr_graph_subgraph(g, i), NULL);
    cr_map_dispose(&s.taken);
    cr_map_dispose(&s.available);
    cr_arena_dispose(&s.arena);
    cr_names_free(made);
    return status;
}

/* ---- what a value is called in Python ---- */

/* The k-th tensor among an argument's, depth first. */
static const cr_arg *find_tensor(const cr_arg *a, uint32_t *k) {
    if (a->kind == CR_ARG_VALUE && a->type == CR_T_TENSOR) return (*k)-- ? NULL : a;
    const cr_arg *found = NULL;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n && !found; i++) found = find_tensor(&a->u.list[i], k);
    return found;
}

uint32_t cr__shown_value(const cr_graph *g, uint32_t value) {
    for (;;) {
        const cr_value *v = cr_graph_value(g, value);
        if (!v->hidden) return value;
        const cr_node *node = cr_graph_node(g, v->node);
        uint32_t k = 0;
        for (uint32_t i = node->first; i < value; i++)
            k += cr_graph_value(g, i)->hidden && cr_graph_value(g, i)->ret == v->ret;
        const cr_arg *written = find_tensor(&node->args[v->ret], &k);
        if (!written) return value;
        value = (uint32_t)written->u.i;
    }
}

const char *cr__shown_name(const cr_graph *g, uint32_t value) {
    return cr_graph_value(g, cr__shown_value(g, value))->name;
}
