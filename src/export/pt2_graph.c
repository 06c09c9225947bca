/* pt2_graph.c: the graph of an archive as our IR.
 *
 * Names are the archive's and are looked up in one table per graph, filled from tensor_values and its siblings before
 * any node is read: a name that is not there, is used before its node or made twice is an error. Metas are given, so no
 * rule runs here and loading is linear. A name whose tensor was written stands for the "after" value from there on.
 *
 * An op without a row becomes a call of cresset::opaque, which keeps target, argument names, arguments and results. */
#include "export/internal.h"
#include "export/pt2_batch.h"
#include "ops/autocast.h"

#include <stdio.h>

typedef enum entry_kind { TENSOR, SYM_INT, SYM_FLOAT, SYM_BOOL, ENTRY_KINDS } entry_kind;
static const char *const entry_tables[ENTRY_KINDS] = { "tensor_values", "sym_int_values", "sym_float_values",
                                                       "sym_bool_values" };
static const uint8_t entry_types[ENTRY_KINDS] = { CR_T_TENSOR, CR_T_INT, CR_T_FLOAT, CR_T_BOOL };

typedef struct entry { const char *name; const cr_json *type; uint8_t kind; uint32_t value; } entry;

typedef struct scope {
    cr__reader *r;
    cr_graph *g;
    cr_map names;                /* name -> index of its entry */
    CR_VEC(entry) entries;
    CR_VEC(uint32_t) owners;     /* value -> its entry, or CR_NO_VALUE */
    CR_VEC(cr_value) values;     /* results of the node being read */
    CR_VEC(uint32_t) results;    /* their entries, or CR_NO_VALUE */
    CR_VEC(cr_arg) given;
    cr_origin origin;            /* the last one, the JSON's own texts */
    const char *node_name;       /* of the node being read; NULL: it has none */
    cr_archived saved;              /* of the node being read */
    cr__batching batching;       /* of vmaps */
} scope;

static void scope_dispose(scope *s) {
    cr_map_dispose(&s->names);
    cr_vec_dispose(&s->entries);
    cr_vec_dispose(&s->owners);
    cr_vec_dispose(&s->values);
    cr_vec_dispose(&s->results);
    cr_vec_dispose(&s->given);
    cr__batch_dispose(&s->batching);
}

/* ---- names ---- */

static cr_status declare_names(scope *s, const cr_json *graph) {
    for (int kind = 0; kind < ENTRY_KINDS; kind++) {
        const cr_json *table = cr_json_find(graph, entry_tables[kind]);
        if (!table && kind != TENSOR) continue;
        CR_TRY(cr_json_get(graph, entry_tables[kind], CR_JSON_OBJECT, &table));
        for (uint32_t i = 0; i < table->n; i++) {
            const cr_json_member *m = &table->u.members[i];
            if (cr_map_find_str(&s->names, m->key, NULL))
                return CR_FAIL(CR_EFORMAT, "%s: '%s' is listed in another table, too", entry_tables[kind], m->key);
            CR_TRY(cr_map_put_str(&s->names, m->key, s->entries.n));
            CR_TRY(cr_vec_push(&s->entries, (entry){ m->key, &m->value, (uint8_t)kind, CR_NO_VALUE }));
        }
    }
    return CR_OK;
}

static cr_status entry_find(const scope *s, const char *name, int kind, uint32_t *out) {
    uint64_t at;
    if (!cr_map_find_str(&s->names, name, &at) || s->entries.at[at].kind != kind)
        return CR_FAIL(CR_EFORMAT, "'%s' is not in the graph's %s", name, entry_tables[kind]);
    *out = (uint32_t)at;
    return CR_OK;
}

static cr_status use(const scope *s, const char *name, int kind, cr_arg *out) {
    uint32_t at;
    CR_TRY(entry_find(s, name, kind, &at));
    if (s->entries.at[at].value == CR_NO_VALUE) return CR_FAIL(CR_EFORMAT, "'%s' is used before it is defined", name);
    *out = (cr_arg){
        .kind = CR_ARG_VALUE, .given = CR_GIVEN_POSITIONAL, .type = entry_types[kind], .u.i = s->entries.at[at].value
    };
    return CR_OK;
}

/* `value` is what entry `at` stands for from here on; CR_NO_VALUE: it has no name in the archive. */
static cr_status bind_value(scope *s, uint32_t value, uint32_t at) {
    while (s->owners.n <= value) CR_TRY(cr_vec_push(&s->owners, CR_NO_VALUE));
    s->owners.at[value] = at;
    if (at != CR_NO_VALUE) s->entries.at[at].value = value;
    return CR_OK;
}

/* ---- arguments: one row per member of the schema's union ---- */

typedef cr_status arg_reader(scope *s, const cr_json *v, cr_arg *out);

static cr_status read_subgraph(scope *s, const cr_json *v, cr_arg *out);
static cr_status read_argument(scope *s, const cr_json *v, cr_arg *out);

static cr_status wrong_kind(const cr_json *v, const char *expected) {
    return CR_FAIL(CR_EFORMAT, "%s found, expected %s", cr_json_kind_name(v->kind), expected);
}

static cr_status read_none(scope *s, const cr_json *v, cr_arg *out) {
    (void)s, (void)v;
    *out = cr_arg_none();
    out->given = CR_GIVEN_POSITIONAL;
    return CR_OK;
}

static cr_status read_tensor(scope *s, const cr_json *v, cr_arg *out) {
    const char *name;
    CR_TRY(cr_json_get_string(v, "name", &name));
    return use(s, name, TENSOR, out);
}

/* Operands of regions: symbolic numbers among the tensors are written as if they were such. */
static cr_status read_listed(scope *s, const cr_json *v, cr_arg *out) {
    const char *name;
    uint64_t at;
    CR_TRY(cr_json_get_string(v, "name", &name));
    return use(s, name, cr_map_find_str(&s->names, name, &at) ? s->entries.at[at].kind : TENSOR, out);
}

static cr_status read_optional(scope *s, const cr_json *v, cr_arg *out) {
    const cr_json_member *m;
    CR_TRY(cr_json_union(v, &m));
    if (!strcmp(m->key, "as_tensor")) return read_tensor(s, &m->value, out);
    return strcmp(m->key, "as_none") ? CR_FAIL(CR_EFORMAT, "'%s' found, expected 'as_tensor' or 'as_none'", m->key)
                                     : read_none(s, v, out);
}

static cr_status read_int(scope *s, const cr_json *v, cr_arg *out) {
    (void)s;
    if (v->kind != CR_JSON_INT || !cr_dim_is_plain(v->u.i)) return wrong_kind(v, "an integer of 63 bits");
    *out = cr_arg_int(v->u.i);
    return CR_OK;
}

static cr_status read_float(scope *s, const cr_json *v, cr_arg *out) {
    double f;
    (void)s;
    CR_TRY(cr_json_number(v, &f));
    *out = cr_arg_float(f);
    return CR_OK;
}

static cr_status read_bool(scope *s, const cr_json *v, cr_arg *out) {
    (void)s;
    if (v->kind != CR_JSON_BOOL) return wrong_kind(v, "true or false");
    *out = cr_arg_bool(v->u.b);
    return CR_OK;
}

static cr_status read_string(scope *s, const cr_json *v, cr_arg *out) {
    (void)s;
    if (v->kind != CR_JSON_STRING) return wrong_kind(v, "a string");
    *out = (cr_arg){ .kind = CR_ARG_STR, .given = 1, .n = v->n, .u.s = v->u.s };
    return CR_OK;
}

static cr_status read_sym(scope *s, const cr_json *v, int kind, arg_reader *plain, const char *key, cr_arg *out) {
    const cr_json_member *m;
    CR_TRY(cr_json_union(v, &m));
    if (!strcmp(m->key, key)) return plain(s, &m->value, out);
    if (strcmp(m->key, "as_name") || m->value.kind != CR_JSON_STRING)
        return CR_FAIL(CR_EFORMAT, "'%s' found, expected 'as_name' or '%s'", m->key, key);
    return use(s, m->value.u.s, kind, out);
}

static cr_status read_sym_int(scope *s, const cr_json *v, cr_arg *out) {
    return read_sym(s, v, SYM_INT, read_int, "as_int", out);
}
static cr_status read_sym_float(scope *s, const cr_json *v, cr_arg *out) {
    return read_sym(s, v, SYM_FLOAT, read_float, "as_float", out);
}
static cr_status read_sym_bool(scope *s, const cr_json *v, cr_arg *out) {
    return read_sym(s, v, SYM_BOOL, read_bool, "as_bool", out);
}

static cr_status read_scalar_type(scope *s, const cr_json *v, cr_arg *out) {
    int dtype;
    (void)s;
    CR_TRY(cr__read_dtype(v, &dtype));
    *out = cr_arg_dtype(dtype);
    return CR_OK;
}

static cr_status read_memory_format(scope *s, const cr_json *v, cr_arg *out) {
    cr_memory_format format;
    (void)s;
    CR_TRY(cr__read_format(v, &format));
    *out = (cr_arg){ .kind = CR_ARG_FORMAT, .given = 1, .u.i = format };
    return CR_OK;
}

static cr_status read_layout(scope *s, const cr_json *v, cr_arg *out) {
    (void)s;
    CR_TRY(cr__read_layout(v));
    *out = (cr_arg){ .kind = CR_ARG_LAYOUT, .given = 1 };
    return CR_OK;
}

static cr_status read_device(scope *s, const cr_json *v, cr_arg *out) {
    cr_device device;
    (void)s;
    CR_TRY(cr__read_device(v, &device));
    *out = (cr_arg){ .kind = CR_ARG_DEVICE, .given = 1, .u.device = device };
    return CR_OK;
}

static cr_status read_complex(scope *s, const cr_json *v, cr_arg *out) {
    const cr_json *part = cr_json_find(v, "real");
    double *c = cr_arena_alloc(&s->r->scratch, 2 * sizeof *c);
    if (!c) return CR_ENOMEM;
    if (!part || !cr_json_find(v, "imag")) return CR_FAIL(CR_EFORMAT, "a complex number needs 'real' and 'imag'");
    CR_TRY(cr_json_number(part, &c[0]));
    CR_TRY(cr_json_number(cr_json_find(v, "imag"), &c[1]));
    *out = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c };
    return CR_OK;
}

static cr_status read_object(scope *s, const cr_json *v, cr_arg *out) {
    const char *name = "", *class_name = "?";
    (void)s, (void)out;
    if (cr_json_get_string(v, "name", &name) || cr_json_get_string(v, "class_fqn", &class_name)) return cr_error_code();
    return CR_FAIL(CR_EUNSUPPORTED, "'%s' is a script object of class '%s'; programs with such objects cannot run here",
                   name, class_name);
}

/* key, value, key, value, ...: only opaque calls hold such. */
static cr_status read_dict(scope *s, const cr_json *v, cr_arg *out) {
    if (v->kind != CR_JSON_OBJECT) return wrong_kind(v, "an object");
    cr_arg *items = cr_arena_alloc(&s->r->scratch, (2u * v->n + 1) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < v->n; i++) {
        items[2 * i] = cr_arg_str(v->u.members[i].key);
        CR_TRY(read_argument(s, &v->u.members[i].value, &items[2 * i + 1]));
    }
    *out = cr_arg_list(items, 2u * v->n);
    return CR_OK;
}

static cr_status read_list(scope *s, const cr_json *v, arg_reader *item, int depth, cr_arg *out) {
    if (v->kind != CR_JSON_ARRAY) return wrong_kind(v, "a list");
    cr_arg *items = cr_arena_alloc(&s->r->scratch, (v->n + 1u) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < v->n; i++)
        CR_TRY(depth > 1 ? read_list(s, &v->u.items[i], item, depth - 1, &items[i])
                         : item(s, &v->u.items[i], &items[i]));
    *out = cr_arg_list(items, v->n);
    return CR_OK;
}

/* Lists and texts keep their row in `type`, for ops without a schema that tells. */
static const struct { const char *key; arg_reader *read; int depth; } argument_rows[] = {
    /* depth: lists around it */
    { "as_tensor", read_tensor, 0 },
    { "as_int", read_int, 0 },
    { "as_none", read_none, 0 },
    { "as_ints", read_int, 1 },
    { "as_float", read_float, 0 },
    { "as_bool", read_bool, 0 },
    { "as_tensors", read_listed, 1 },
    { "as_sym_int", read_sym_int, 0 },
    { "as_sym_ints", read_sym_int, 1 },
    { "as_floats", read_float, 1 },
    { "as_string", read_string, 0 },
    { "as_strings", read_string, 1 },
    { "as_scalar_type", read_scalar_type, 0 },
    { "as_memory_format", read_memory_format, 0 },
    { "as_layout", read_layout, 0 },
    { "as_device", read_device, 0 },
    { "as_bools", read_bool, 1 },
    { "as_sym_bool", read_sym_bool, 0 },
    { "as_sym_bools", read_sym_bool, 1 },
    { "as_graph", read_subgraph, 0 },
    { "as_optional_tensors", read_optional, 1 },
    { "as_optional_tensor", read_optional, 0 },
    { "as_custom_obj", read_object, 0 },
    { "as_operator", read_string, 0 },
    { "as_sym_float", read_sym_float, 0 },
    { "as_sym_floats", read_sym_float, 1 },
    { "as_complex", read_complex, 0 },
    { "as_nested_tensors", read_tensor, 2 },
    { "as_int_lists", read_int, 2 },
    { "as_float_lists", read_float, 2 },
    { "as_string_to_argument", read_dict, 0 },
};

const char *cr__argument_key(uint16_t pad) {
    return pad && pad <= CR_COUNT(argument_rows) ? argument_rows[pad - 1].key : "";
}

static cr_status read_argument(scope *s, const cr_json *v, cr_arg *out) {
    const cr_json_member *m;
    CR_TRY(cr_json_union(v, &m));
    for (size_t i = 0; i < CR_COUNT(argument_rows); i++) {
        if (strcmp(m->key, argument_rows[i].key)) continue;
        int depth = argument_rows[i].depth;
        cr_status status = depth ? read_list(s, &m->value, argument_rows[i].read, depth, out)
                                 : argument_rows[i].read(s, &m->value, out);
        if (status) return cr_error_context(status, "%s", m->key);
        if (out->kind == CR_ARG_LIST || out->kind == CR_ARG_STR) out->type = (uint16_t)(i + 1);
        return CR_OK;
    }
    return CR_FAIL(CR_EFORMAT, "'%s' is no kind of argument", m->key);
}

/* ---- results ---- */

static cr_status add_result(scope *s, cr_value v, uint32_t at) {
    CR_TRY(cr_vec_push(&s->values, v));
    return cr_vec_push(&s->results, at);
}

/* The value that entry `at` is going to be, with the type its table gives. */
static cr_status add_named(scope *s, const char *name, int kind, uint16_t ret) {
    uint32_t at;
    cr_value v = { .ret = ret, .name = name, .type = entry_types[kind] };
    CR_TRY(entry_find(s, name, kind, &at));
    if (s->entries.at[at].value != CR_NO_VALUE) return CR_FAIL(CR_EFORMAT, "'%s' is defined twice", name);
    for (size_t i = 0; i < s->results.n; i++)
        if (s->results.at[i] == at) return CR_FAIL(CR_EFORMAT, "'%s' is defined twice", name);
    cr_status status = CR_OK;
    if (kind == TENSOR) {
        cr_meta *meta = cr_arena_alloc(&s->r->scratch, sizeof *meta);
        if (!meta) return CR_ENOMEM;
        s->r->value = name;
        status = cr__read_tensor_meta(s->r, s->entries.at[at].type, meta);
        s->r->value = NULL;
        v.meta = meta;
    } else {
        status = cr__read_sym(s->r, s->entries.at[at].type,
                              kind == SYM_INT     ? CR_TYPE_INT
                              : kind == SYM_FLOAT ? CR_TYPE_FLOAT
                                                  : CR_TYPE_BOOL,
                              &v.expr);
    }
    if (status) return cr_error_context(status, "%s['%s']", entry_tables[kind], name);
    return add_result(s, v, at);
}

static cr_status add_tensor_result(scope *s, const cr_json *v, uint16_t ret) {
    const char *name;
    CR_TRY(cr_json_get_string(v, "name", &name));
    if (!*name) return add_result(s, (cr_value){ .name = "unused", .ret = ret, .type = CR_T_TENSOR }, CR_NO_VALUE);
    return add_named(s, name, TENSOR, ret);
}

static cr_status add_optional_result(scope *s, const cr_json *v, uint16_t ret) {
    const cr_json_member *m;
    CR_TRY(cr_json_union(v, &m));
    if (!strcmp(m->key, "as_tensor")) return add_tensor_result(s, &m->value, ret);
    return add_result(s, (cr_value){ .name = "none", .ret = ret, .type = CR_T_TENSOR }, CR_NO_VALUE);
}

/* A result that was known when the program was exported keeps its value as an expression. */
static cr_status add_constant_result(scope *s, const cr_json_member *m, uint16_t ret) {
    bool found;
    cr_arg a;
    cr_value v = { .name = "constant", .ret = ret };
    CR_TRY(cr__read_constant(s->r, m, &found, &a));
    if (!found) return CR_FAIL(CR_EFORMAT, "'%s' is no kind of result", m->key);
    if (a.kind == CR_ARG_NONE) v.type = CR_T_TENSOR;
    else if (a.kind == CR_ARG_STR) v.type = CR_T_STR;
    else if (a.kind == CR_ARG_INT) v.type = CR_T_INT, v.expr = cr_sym_int(s->r->env, a.u.i);
    else if (a.kind == CR_ARG_BOOL) v.type = CR_T_BOOL, v.expr = cr_sym_bool(s->r->env, a.u.i);
    else v.type = CR_T_FLOAT, v.expr = cr_sym_float(s->r->env, a.u.f);
    if (cr_arg_is_number(&a) && !v.expr) return CR_FAIL(CR_ENOMEM, "out of memory");
    return add_result(s, v, CR_NO_VALUE);
}

static cr_status add_sym_result(scope *s, const cr_json *v, int kind, uint16_t ret) {
    const cr_json_member *m;
    CR_TRY(cr_json_union(v, &m));
    if (strcmp(m->key, "as_name")) return add_constant_result(s, m, ret);
    if (m->value.kind != CR_JSON_STRING) return wrong_kind(&m->value, "a name");
    return add_named(s, m->value.u.s, kind, ret);
}

static cr_status read_result(scope *s, const cr_json *v, bool many, uint16_t ret) {
    static const char *const syms[ENTRY_KINDS] = {
        [SYM_INT] = "as_sym_int", [SYM_FLOAT] = "as_sym_float", [SYM_BOOL] = "as_sym_bool"
    };
    const cr_json_member *m;
    CR_TRY(cr_json_union(v, &m));
    if (!strcmp(m->key, "as_tensor")) return add_tensor_result(s, &m->value, ret);
    if (!strcmp(m->key, "as_optional_tensor")) return add_optional_result(s, &m->value, ret);
    for (int kind = SYM_INT; kind < ENTRY_KINDS; kind++)
        if (!strcmp(m->key, syms[kind])) return add_sym_result(s, &m->value, kind, ret);
    bool tensors = !strcmp(m->key, "as_tensors"), optional = !strcmp(m->key, "as_optional_tensors");
    if (!tensors && !optional) return add_constant_result(s, m, ret);
    if (m->value.kind != CR_JSON_ARRAY) return wrong_kind(&m->value, "a list");
    for (uint32_t i = 0; i < m->value.n; i++)
        CR_TRY((tensors ? add_tensor_result : add_optional_result)(s, &m->value.u.items[i],
                                                                   many ? (uint16_t)(ret + i) : ret));
    return CR_OK;
}

/* All results of a node; `many`: its op has "-> ...", so each value is a return of its own. */
static cr_status read_results(scope *s, const cr_json *outputs, bool many) {
    s->values.n = s->results.n = 0;
    for (uint32_t i = 0; i < outputs->n; i++) {
        cr_status status = read_result(s, &outputs->u.items[i], many, (uint16_t)(many ? s->values.n : i));
        if (status) return cr_error_context(status, "outputs[%u]", i);
    }
    if (s->values.n > UINT16_MAX)
        return CR_FAIL(CR_EFORMAT, "%zu results; at most %d are possible", s->values.n, UINT16_MAX);
    return CR_OK;
}

static const cr_meta *meta_of(const scope *s, const cr_arg *a) {
    if (a->kind == CR_ARG_LIST && a->n) a = &a->u.list[0];
    return a->kind == CR_ARG_VALUE ? cr_graph_value(s->g, (uint32_t)a->u.i)->meta : NULL;
}

/* What a schema says may share memory shares it: the metas of the archive do not tell. */
static void share_storage(scope *s, const cr_op *op, const cr_arg *args) {
    for (size_t i = 0; i < s->values.n; i++) {
        cr_value *v = &s->values.at[i];
        char alias = v->meta && v->ret < op->schema.nreturns ? op->schema.returns[v->ret].alias : 0;
        for (uint16_t k = 0; alias && k < op->schema.nparams; k++) {
            const cr_meta *m = op->schema.params[k].alias == alias ? meta_of(s, &args[k]) : NULL;
            if (!m) continue;
            ((cr_meta *)v->meta)->storage = m->storage; /* the scratch's own copy */
            break;
        }
    }
}

/* ---- writes ---- */

static cr_status after_name(scope *s, const char *name, const char **out) {
    const char *wish = cr_arena_printf(&s->r->scratch, "%s_after", name);
    while (wish && cr_map_find_str(&s->names, wish, NULL)) wish = cr_arena_printf(&s->r->scratch, "%s_", wish);
    *out = wish;
    return wish ? CR_OK : CR_ENOMEM;
}

/* One hidden value per tensor in a written argument. In-place views leave the tensor as their result says. */
static cr_status add_written(scope *s, const cr_op *op, uint16_t param, const cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(add_written(s, op, param, &a->u.list[i]));
        return CR_OK;
    }
    if (a->kind != CR_ARG_VALUE || a->type != CR_T_TENSOR) return CR_OK;
    const cr_param *p = &op->schema.params[param];
    cr_value v = *cr_graph_value(s->g, (uint32_t)a->u.i);
    uint32_t at = (size_t)a->u.i < s->owners.n ? s->owners.at[a->u.i] : CR_NO_VALUE;
    CR_TRY(after_name(s, at == CR_NO_VALUE ? v.name : s->entries.at[at].name, &v.name));
    for (uint16_t r = 0; r < op->schema.nreturns && !p->list; r++)
        if (op->schema.returns[r].alias == p->alias && r < s->values.n && s->values.at[r].meta)
            v.meta = s->values.at[r].meta;
    v.hidden = true;
    v.ret = param;
    return add_result(s, v, at);
}

/* ---- calls ---- */

static const char *input_name(const cr_json *inputs, uint32_t i) {
    const char *name = "";
    return cr_json_get_string(&inputs->u.items[i], "name", &name) ? "" : name;
}

/* The names of the arguments, where the parameters have others. */
static cr_status save_names(scope *s, const cr_json *inputs) {
    const char **names = cr_arena_alloc(&s->r->scratch, (inputs->n + 1u) * sizeof *names);
    if (!names) return CR_ENOMEM;
    for (uint32_t i = 0; i < inputs->n; i++) names[i] = input_name(inputs, i);
    s->saved.arg_names = names;
    s->saved.nargs = inputs->n;
    return CR_OK;
}

static bool is_saved(const cr_archived *v) {
    return v->target || v->metadata || v->token || v->arg_names || v->single || v->none || v->implied;
}

/* A node with one result has its name; others keep their own. */
static bool has_own_name(const scope *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->values.n; i++) n += !s->values.at[i].hidden;
    return s->node_name && (n != 1 || strcmp(s->values.at[0].name, s->node_name));
}

static cr_status append(scope *s, const cr_op *op, const cr_arg *args) {
    uint32_t id;
    CR_TRY(cr_graph_call_with(s->g, op, args, s->values.at, s->values.n, &id));
    if (is_saved(&s->saved)) CR_TRY(cr_graph_set_archived(s->g, id, &s->saved));
    if (has_own_name(s)) CR_TRY(cr_graph_set_target(s->g, id, s->node_name));
    for (size_t i = 0; i < s->values.n; i++)
        CR_TRY(bind_value(s, cr_graph_node(s->g, id)->first + (uint32_t)i, s->results.at[i]));
    return CR_OK;
}

/* Reads the node's arguments to s->given, with how they were passed. */
static cr_status read_inputs(scope *s, const cr_json *inputs) {
    const cr_json *arg;
    int64_t kind;
    s->given.n = 0;
    for (uint32_t i = 0; i < inputs->n; i++) {
        const cr_json *input = &inputs->u.items[i];
        cr_arg a;
        const char *name = "";
        cr_status status = cr_json_get_string(input, "name", &name);
        if (!status) status = cr_json_get(input, "arg", CR_JSON_OBJECT, &arg);
        if (!status) status = cr_json_get_int_or(input, "kind", 0, &kind);
        if (!status && (kind < 0 || kind > 2))
            status = CR_FAIL(CR_EFORMAT, "%lld is no kind of argument", (long long)kind);
        if (!status) status = read_argument(s, arg, &a);
        if (status) return cr_error_context(status, *name ? "inputs[%u] ('%s')" : "inputs[%u]", i, name);
        a.given = kind == 2 ? CR_GIVEN_KEYWORD : CR_GIVEN_POSITIONAL;
        CR_TRY(cr_vec_push(&s->given, a));
    }
    return CR_OK;
}

static int param_find(const cr_schema *schema, const char *name, uint32_t guess) {
    if (guess < schema->nparams && !strcmp(schema->params[guess].name, name)) return (int)guess;
    for (uint16_t k = 0; k < schema->nparams; k++)
        if (!strcmp(schema->params[k].name, name)) return k;
    return -1;
}

/* Functions of Python have parameters of any name. */
static bool by_position(const cr_schema *schema) {
    static const char *const namespaces[] = { "_operator", "math", "torch", "higher_order" };
    for (size_t i = 0; i < CR_COUNT(namespaces); i++)
        if (!strcmp(schema->ns, namespaces[i])) return true;
    return false;
}

/* "f(*operands)": what is left goes into the one list at the end. */
static cr_status gather_rest(scope *s, uint32_t from, cr_arg *out) {
    size_t n = s->given.n - from;
    cr_arg *items = cr_arena_copy(&s->r->scratch, s->given.at + from, n * sizeof *items);
    if (!items) return CR_ENOMEM;
    *out = cr_arg_list(items, n);
    return CR_OK;
}

/* s->given in the order of the parameters, defaults and conversions included. */
static cr_status arrange(scope *s, const cr_op *op, const cr_json *inputs, cr_arg *out) {
    const cr_schema *schema = &op->schema;
    bool set[CR_MAX_PARAMS] = { false }, renamed = false;
    uint32_t last = schema->nparams ? schema->nparams - 1u : 0;
    bool variadic = (op->tags & CR_TAG_HIGHER_ORDER) && schema->nparams && schema->params[last].list &&
                    s->given.n > last && !(s->given.n == last + 1u && s->given.at[last].kind == CR_ARG_LIST);
    for (uint32_t i = 0; i < s->given.n; i++) {
        const char *name = input_name(inputs, i);
        int at = *name ? param_find(schema, name, i) : (int)i;
        if (at < 0 && by_position(schema)) at = (int)i, renamed = true;
        if (variadic && i == last) at = (int)last;
        if (at < 0 || at >= schema->nparams)
            return CR_FAIL(CR_EFORMAT, "inputs[%u] ('%s'): the op has no such argument; it is %s", i, name,
                           schema->text);
        if (set[at]) return CR_FAIL(CR_EFORMAT, "inputs[%u]: argument '%s' is given twice", i, schema->params[at].name);
        set[at] = true;
        out[at] = s->given.at[i];
        if (variadic && i == last) {
            CR_TRY(gather_rest(s, i, &out[at]));
            break;
        }
    }
    if (renamed) CR_TRY(save_names(s, inputs));
    cr_keyword keywords[CR_MAX_PARAMS];
    uint8_t given[CR_MAX_PARAMS];
    uint16_t n = 0;
    for (uint16_t k = 0; k < schema->nparams; k++) {
        const cr_param *p = &schema->params[k];
        if (!set[k] && !p->has_default && !(p->optional && p->keyword_only))
            return CR_FAIL(CR_EFORMAT, "argument '%s' is missing; the op is %s", p->name, schema->text);
        if (!set[k]) out[k] = p->has_default ? p->fallback : cr_arg_none();
        given[k] = set[k] ? out[k].given : CR_GIVEN_DEFAULT;
        if (k >= schema->npositional && set[k]) keywords[n++] = (cr_keyword){ p->name, out[k] };
    }
    cr_binding binding;
    /* of a copy: a number that becomes a list of one is an entry of the list, which takes its place */
    const cr_arg *before = cr_arena_copy(&s->r->scratch, out, schema->nparams * sizeof *out);
    if (!before) return CR_ENOMEM;
    cr_status status = cr_bind(op, true, before, schema->npositional, keywords, n, &s->r->scratch, &binding);
    if (status) return status == CR_ETYPE ? CR_FAIL(CR_EFORMAT, "%s", cr_error_message()) : status;
    for (uint16_t k = 0; k < schema->nparams; k++) {
        out[k] = binding.args[k];
        out[k].given = given[k];
    }
    return CR_OK;
}

/* ---- mixed precision ---- */

static void see_widest(const scope *s, const cr_arg *a, int *widest) {
    const cr_meta *m = a->kind == CR_ARG_VALUE ? cr_graph_value(s->g, (uint32_t)a->u.i)->meta : NULL;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) see_widest(s, &a->u.list[i], widest);
    if (m && cr_autocast_eligible(m->dtype)) *widest = *widest < 0 ? m->dtype : cr_promote_types(*widest, m->dtype);
}

static cr_status cast(scope *s, int dtype, cr_arg *a) {
    if (a->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_copy(&s->r->scratch, a->u.list, a->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(cast(s, dtype, &items[i]));
        a->u.list = items;
        return CR_OK;
    }
    const cr_meta *m = a->kind == CR_ARG_VALUE ? cr_graph_value(s->g, (uint32_t)a->u.i)->meta : NULL;
    if (!m || !cr_autocast_eligible(m->dtype) || m->dtype == dtype) return CR_OK;
    const cr_op *to = cr_op_find("aten::to.dtype");
    cr_arg args[] = { *a, cr_arg_dtype(dtype), cr_arg_bool(false), cr_arg_bool(false), cr_arg_none() };
    uint32_t id;
    if (!to) return CR_FAIL(CR_ENOMEM, "out of memory");
    CR_TRY(cr_graph_call(s->g, to, args, &id));
    CR_TRY(cr_graph_set_archived(s->g, id, &(cr_archived){ .implied = true }));
    a->u.i = cr_graph_node(s->g, id)->first;
    return bind_value(s, (uint32_t)a->u.i, CR_NO_VALUE);
}

/* An op that consists of others (einsum) is cast inside: its result, by the archive, has a dtype that nothing else
 * gives. */
static bool is_cast_inside(const scope *s, const cr_op *op, const cr_arg *args, int widest) {
    const cr_meta *result = s->values.n ? s->values.at[0].meta : NULL;
    for (uint16_t k = 0; k < op->schema.nparams; k++)
        if (args[k].kind == CR_ARG_DTYPE) return false;
    const cr_row *row = op->row;
    bool composite = row && (row->decomp || row->decomp_fn) && !row->kernel && !row->scalar;
    return composite && op->variant == CR_FUNCTIONAL && widest == CR_F32 && result &&
           result->dtype == s->r->autocast - 1;
}

/* After the results were read. */
static cr_status cast_args(scope *s, const cr_op *op, cr_arg *args) {
    int widest = -1;
    for (uint16_t k = 0; k < op->schema.nparams; k++) see_widest(s, &args[k], &widest);
    int dtype = widest < 0 ? -1 : cr_autocast_dtype(op, s->r->autocast - 1, widest);
    if (dtype < 0 && is_cast_inside(s, op, args, widest)) dtype = s->r->autocast - 1;
    for (uint16_t k = 0; dtype >= 0 && k < op->schema.nparams; k++) CR_TRY(cast(s, dtype, &args[k]));
    return CR_OK;
}

static const cr_json *input_value(const cr_json *inputs, uint32_t i, const char *key) {
    const cr_json *arg = i < inputs->n ? cr_json_find(&inputs->u.items[i], "arg") : NULL;
    return arg ? cr_json_find(arg, key) : NULL;
}

/* wrap_with_autocast(device_type, dtype, enabled, ...): what holds for the graph that follows; dtype + 1, or 0. */
static int autocast_of(const cr_json *inputs) {
    const cr_json *device = input_value(inputs, 0, "as_string"), *dtype = input_value(inputs, 1, "as_scalar_type"),
                  *enabled = input_value(inputs, 2, "as_bool");
    int lower = CR_BF16;
    if (!device || device->kind != CR_JSON_STRING || strcmp(device->u.s, "cpu") || !enabled ||
        enabled->kind != CR_JSON_BOOL || !enabled->u.b)
        return 0;
    return dtype && cr__read_dtype(dtype, &lower) ? 0 : lower + 1;
}

static cr_status check_results(const scope *s, const cr_op *op, const cr_json *outputs) {
    const cr_schema *schema = &op->schema;
    if (schema->varargs_returns) return CR_OK;
    if (outputs->n != schema->nreturns)
        return CR_FAIL(CR_EFORMAT, "outputs: %u results, the op gives %d", outputs->n, schema->nreturns);
    for (size_t i = 0, at = 0; i < schema->nreturns; i++) {
        size_t n = 0;
        for (; at < s->values.n && s->values.at[at].ret == i; at++) n++;
        if (!schema->returns[i].list && n != 1)
            return CR_FAIL(CR_EFORMAT, "outputs[%zu]: %zu values where the op gives one", i, n);
    }
    return CR_OK;
}

/* [{"as_none": true}] is how nothing may be written. */
static bool gives_none(const cr_json *outputs) {
    return outputs->n == 1 && cr_json_find(&outputs->u.items[0], "as_none");
}

/* ---- vmap ---- */

/* The node's only result is a value that was made for it, with these batch dimensions. */
static cr_status bind_made(scope *s, size_t i, const cr_arg *made, uint32_t levels) {
    const cr_value *want = &s->values.at[i];
    cr_arg own = *made;
    if (made->kind != CR_ARG_VALUE) return CR_FAIL(CR_EUNSUPPORTED, "vmap: a result that is no tensor");
    if ((size_t)made->u.i < s->owners.n && s->owners.at[made->u.i] != CR_NO_VALUE) { /* it has another name already */
        const cr_op *alias = cr_op_find("aten::alias");
        uint32_t id;
        if (!alias) return CR_FAIL(CR_ENOMEM, "out of memory");
        CR_TRY(cr_graph_call(s->g, alias, made, &id));
        own.u.i = cr_graph_node(s->g, id)->first;
    }
    const cr_meta *m = cr_graph_value(s->g, (uint32_t)own.u.i)->meta;
    if (!m || !want->meta || m->dtype != want->meta->dtype || m->rank != want->meta->rank + __builtin_popcount(levels))
        return CR_FAIL(CR_EUNSUPPORTED, "vmap: '%s' would be another tensor for all examples at once than for each",
                       want->name ? want->name : "a result");
    CR_TRY(cr__batch_mark(&s->batching, (uint32_t)own.u.i, levels));
    if (want->name) CR_TRY(cr_graph_rename(s->g, (uint32_t)own.u.i, want->name));
    return bind_value(s, (uint32_t)own.u.i, s->results.at[i]);
}

static uint32_t levels_of(const scope *s, const cr_arg *args, uint16_t n) {
    uint32_t levels = 0;
    for (uint16_t k = 0; k < n; k++) levels |= cr__batch_levels(&s->batching, &args[k]);
    return levels;
}

/* A call inside a vmap. The archive says what it gives for one example. */
static cr_status read_batched(scope *s, const cr_op *op, const cr_arg *args, const cr_json *outputs) {
    uint32_t levels = levels_of(s, args, op->schema.nparams);
    cr_arg results[16] = { { 0 } };
    if (cr_result_count(op) > CR_COUNT(results))
        return CR_FAIL(CR_EUNSUPPORTED, "vmap over %s: too many results", op->name);
    CR_TRY(read_results(s, outputs, op->schema.varargs_returns));
    CR_TRY(check_results(s, op, outputs));
    CR_TRY(cr__batch_call(&s->batching, s->g, op, args, results));
    size_t at = 0;
    for (uint16_t i = 0; i < cr_result_count(op); i++) {
        bool listed = results[i].kind == CR_ARG_LIST;
        for (uint32_t k = 0; k < (listed ? results[i].n : 1); k++, at++) {
            if (at >= s->values.n)
                return CR_FAIL(CR_EFORMAT, "vmap over %s gives more results than the node has", op->name);
            CR_TRY(bind_made(s, at, listed ? &results[i].u.list[k] : &results[i], levels));
        }
    }
    return at == s->values.n ? CR_OK
                             : CR_FAIL(CR_EFORMAT, "vmap over %s gives fewer results than the node has", op->name);
}

static bool takes(const scope *s, const char *kinds) { /* T: a tensor, i: a number, s: a text */
    if (s->given.n != strlen(kinds)) return false;
    for (size_t i = 0; i < s->given.n; i++) {
        const cr_arg *a = &s->given.at[i];
        bool number = a->kind == CR_ARG_INT || (a->kind == CR_ARG_VALUE && a->type == CR_T_INT);
        if (kinds[i] == 's'   ? a->kind != CR_ARG_STR
            : kinds[i] == 'i' ? !number
                              : a->kind != CR_ARG_VALUE || a->type != CR_T_TENSOR)
            return false;
    }
    return true;
}

/* A batch size: the number, or what it stands for. */
static cr_arg plain_size(const scope *s, const cr_arg *a) {
    if (a->kind != CR_ARG_VALUE) return *a;
    return cr_number_arg(cr_graph_env(s->g), cr_graph_value(s->g, (uint32_t)a->u.i)->expr);
}

/* What a vmap consists of in an archive: `name` is a function of torch._functorch.predispatch. */
static cr_status read_vmap(scope *s, const char *name, const cr_json *inputs, const cr_json *outputs) {
    cr_arg made;
    uint32_t left;
    CR_TRY(read_inputs(s, inputs));
    const cr_arg *a = s->given.at;
    if (!strcmp(name, "lazy_load_decompositions")) return CR_OK;
    if (!strcmp(name, "_vmap_increment_nesting") && takes(s, "is")) {
        cr_arg size = plain_size(s, &a[0]);
        return cr__batch_enter(&s->batching, &size, a[1].u.s);
    }
    if (!strcmp(name, "_vmap_decrement_nesting") && takes(s, "")) return cr__batch_leave(&s->batching);
    bool adds = !strcmp(name, "_add_batch_dim") && takes(s, "Tii") && a[1].kind == CR_ARG_INT &&
                a[2].kind == CR_ARG_INT;
    bool removes = !strcmp(name, "_remove_batch_dim") && takes(s, "Tiii") && a[1].kind == CR_ARG_INT &&
                   a[3].kind == CR_ARG_INT;
    if (!adds && !removes) return CR_FAIL(CR_EFORMAT, "arguments that vmap does not take");
    CR_TRY(read_results(s, outputs, false));
    if (s->values.n != 1) return CR_FAIL(CR_EFORMAT, "outputs: %zu results, one expected", s->values.n);
    if (adds) {
        CR_TRY(cr__batch_add(&s->batching, s->g, &a[0], a[1].u.i, a[2].u.i, &made));
        return bind_made(s, 0, &made, cr__batch_levels(&s->batching, &a[0]) | 1u << a[2].u.i);
    }
    cr_arg size = plain_size(s, &a[2]);
    CR_TRY(cr__batch_remove(&s->batching, s->g, &a[0], a[1].u.i, &size, a[3].u.i, &made, &left));
    return bind_made(s, 0, &made, left);
}

static cr_status read_call(scope *s, const cr_json *inputs, const cr_json *outputs, const cr_op *op) {
    static const cr_json nothing = { .kind = CR_JSON_ARRAY };
    cr_arg args[CR_MAX_PARAMS];
    CR_TRY(read_inputs(s, inputs));
    CR_TRY(arrange(s, op, inputs, args));
    if (s->batching.depth || s->batching.levels.n) {
        if (cr_op_draws(op, args) && cr__batch_draws_differently(&s->batching))
            return CR_FAIL(CR_EUNSUPPORTED, "%s inside a vmap with randomness='different' is not supported", op->name);
        if (levels_of(s, args, op->schema.nparams)) {
            s->values.n = 0; /* results are those of one example */
            if (s->r->autocast) CR_TRY(cast_args(s, op, args));
            return read_batched(s, op, args, outputs);
        }
    }
    if (!op->schema.nreturns && !op->schema.varargs_returns && gives_none(outputs))
        outputs = &nothing, s->saved.none = true;
    CR_TRY(read_results(s, outputs, op->schema.varargs_returns));
    CR_TRY(check_results(s, op, outputs));
    if (s->r->autocast) CR_TRY(cast_args(s, op, args));
    share_storage(s, op, args);
    for (uint16_t k = 0; k < op->schema.nparams; k++)
        if (op->schema.params[k].writes) CR_TRY(add_written(s, op, k, &args[k]));
    return append(s, op, args);
}

/* ---- ops without a row ---- */

/* "torch.ops.aten.foo.default" -> "aten::foo", as ops are named here. */
static cr_status op_name(scope *s, const char *target, const char **out) {
    static const char prefix[] = "torch.ops.", suffix[] = ".default";
    size_t skip = strncmp(target, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1, n = strlen(target);
    if (n >= sizeof suffix && !strcmp(target + n - (sizeof suffix - 1), suffix)) n -= sizeof suffix - 1;
    const char *dot = memchr(target + skip, '.', n > skip ? n - skip : 0);
    if (!dot) return *out = target, CR_OK;
    *out = cr_arena_printf(&s->r->scratch, "%.*s::%.*s", (int)(dot - target - (ptrdiff_t)skip), target + skip,
                           (int)(target + n - dot - 1), dot + 1);
    return *out ? CR_OK : CR_ENOMEM;
}

static cr_status note_missing(scope *s, const char *name) {
    const char *copy;
    if (cr_map_find_str(&s->r->unsupported, name, NULL)) return CR_OK;
    CR_TRY(cr_map_put_str(&s->r->unsupported, name, 1));
    CR_TRY(cr__keep_text(s->r, name, &copy));
    return cr_vec_push(&s->r->missing, copy);
}

static cr_status read_opaque(scope *s, const cr_json *inputs, const cr_json *outputs, const char *target) {
    const char *name;
    CR_TRY(op_name(s, target, &name));
    /* of tensor([n, 2]): a dtype that was needed while it was recorded, and by no node */
    if (!strcmp(name, "aten::promote_types")) return CR_OK;
    if (!strcmp(name, "higher_order::call_torchbind"))
        return CR_FAIL(CR_EUNSUPPORTED, "a method of a script object is called; programs with such objects cannot run "
                                        "here");
    CR_TRY(read_inputs(s, inputs));
    cr_arg *names = cr_arena_alloc(&s->r->scratch, (s->given.n + 1) * sizeof *names);
    if (!names) return CR_ENOMEM;
    for (uint32_t i = 0; i < s->given.n; i++)
        names[i] = cr_arg_str(s->given.at[i].given == CR_GIVEN_KEYWORD ? input_name(inputs, i) : "");
    bool wraps = !strncmp(name, "higher_order::auto_functionalized", 33) && s->given.n &&
                 s->given.at[0].kind == CR_ARG_STR;
    if (wraps) CR_TRY(op_name(s, s->given.at[0].u.s, &name)); /* the op inside is the one that is missing */
    CR_TRY(note_missing(s, name));
    CR_TRY(save_names(s, inputs));
    s->saved.target = target;
    cr_arg args[] = { cr_arg_str(name), cr_arg_list(names, s->given.n), cr_arg_list(s->given.at, s->given.n) };
    CR_TRY(read_results(s, outputs, true));
    const cr_op *opaque = cr_op_find("cresset::opaque");
    return opaque ? append(s, opaque, args) : CR_FAIL(CR_ENOMEM, "out of memory");
}

/* ---- nodes ---- */

static const char *text_of(const cr_json *metadata, const char *key) {
    const cr_json *v = metadata ? cr_json_find(metadata, key) : NULL;
    return v && v->kind == CR_JSON_STRING ? v->u.s : NULL;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static cr_status read_origin(scope *s, const cr_json *node) {
    const cr_json *metadata = cr_json_find(node, "metadata");
    cr_origin o = { text_of(metadata, "stack_trace"), text_of(metadata, "nn_module_stack"),
                    text_of(metadata, "torch_fn"), false, false, 0 };
    if (same_text(o.stack_trace, s->origin.stack_trace) && same_text(o.module_stack, s->origin.module_stack) &&
        same_text(o.source_fn, s->origin.source_fn))
        return CR_OK;
    s->origin = o;
    return cr_graph_set_origin(s->g, &o);
}

static bool is_of_origin(const char *key) {
    return !strcmp(key, "stack_trace") || !strcmp(key, "nn_module_stack") || !strcmp(key, "torch_fn");
}

/* What the origin does not have: one line of JSON. */
static cr_status save_metadata(scope *s, const cr_json *metadata) {
    cr_str text;
    cr_json_writer w;
    bool any = false;
    cr_str_init(&text);
    cr_json_writer_init(&w, &text, 0);
    cr_json_open(&w, '{');
    for (uint32_t i = 0; i < metadata->n; i++) {
        const cr_json_member *m = &metadata->u.members[i];
        if (is_of_origin(m->key) && m->value.kind == CR_JSON_STRING) continue;
        cr_json_key(&w, m->key);
        cr_json_value(&w, &m->value);
        any = true;
    }
    cr_json_close(&w, '}');
    cr_status status = cr_str_status(&text);
    if (!status && any && !(s->saved.metadata = cr_arena_strdup(&s->r->scratch, cr_str_get(&text)))) status = CR_ENOMEM;
    cr_str_dispose(&text);
    return status;
}

static cr_status read_saved(scope *s, const cr_json *node) {
    const cr_json *name = cr_json_find(node, "name"), *metadata = cr_json_find(node, "metadata");
    s->saved = (cr_archived){ .target = NULL };
    s->node_name = name && name->kind == CR_JSON_STRING ? name->u.s : NULL;
    CR_TRY(cr_json_get_bool_or(node, "is_hop_single_tensor_return", false, &s->saved.single));
    return metadata && metadata->kind == CR_JSON_OBJECT ? save_metadata(s, metadata) : CR_OK;
}

static cr_status read_effects(scope *s, const cr_json *inputs, const cr_json *outputs);

/* Ops that are another one here: a tensor holds its values, nothing is conjugated or negated later
 * (docs/differences.md); detaching in place changes nothing but the tape. */
static const char *read_as(const char *name) {
    static const char *const pairs[][2] = { { "aten.detach_.default", "aten::detach" },
                                            { "aten._conj.default", "aten::conj_physical" },
                                            { "aten._neg_view.default", "aten::neg" },
                                            { "aten.resolve_conj.default", "aten::alias" },
                                            { "aten.resolve_neg.default", "aten::alias" } };
    for (size_t i = 0; i < CR_COUNT(pairs); i++)
        if (!strcmp(pairs[i][0], name)) return pairs[i][1];
    return name;
}

static cr_status read_target(scope *s, const char *target, const cr_json *inputs, const cr_json *outputs) {
    static const char prefix[] = "torch.ops.";
    const char *name = target;
    if (!strncmp(name, prefix, sizeof prefix - 1)) name += sizeof prefix - 1;
    if (!strcmp(name, "higher_order.with_effects")) return read_effects(s, inputs, outputs);
    static const char vmap[] = "torch._functorch.predispatch.";
    if (!strncmp(name, vmap, sizeof vmap - 1)) return read_vmap(s, name + sizeof vmap - 1, inputs, outputs);
    const cr_op *op = cr_op_find(read_as(name));
    if (op && op->schema.nparams > CR_MAX_PARAMS) op = NULL;
    if (op && read_as(name) != name) s->saved.target = target;
    int outer = s->r->autocast;
    if (!strcmp(name, "higher_order.wrap_with_autocast")) s->r->autocast = autocast_of(inputs);
    cr_status status = op ? read_call(s, inputs, outputs, op) : read_opaque(s, inputs, outputs, target);
    s->r->autocast = outer;
    return status;
}

/* with_effects(token, op, ...) -> (token, ...): the order of nodes is kept anyway, so the op is called as it is and the
 * new token is the old one. */
static cr_status read_effects(scope *s, const cr_json *inputs, const cr_json *outputs) {
    const cr_json_member *op;
    const cr_json *arg, *given;
    cr_arg token;
    const char *name;
    uint32_t at;
    if (inputs->n < 2 || !outputs->n) return CR_FAIL(CR_EFORMAT, "a token, an op and a result are needed");
    CR_TRY(cr_json_get(&inputs->u.items[0], "arg", CR_JSON_OBJECT, &given));
    CR_TRY(read_argument(s, given, &token));
    CR_TRY(cr_json_get(&inputs->u.items[1], "arg", CR_JSON_OBJECT, &arg));
    CR_TRY(cr_json_union(arg, &op));
    if (strcmp(op->key, "as_operator") || op->value.kind != CR_JSON_STRING)
        return CR_FAIL(CR_EFORMAT, "inputs[1]: '%s' found, expected an operator", op->key);
    if (!strncmp(op->value.u.s, "torch.ops.higher_order.with_effects", 35))
        return CR_FAIL(CR_EFORMAT, "inputs[1]: effects of effects");
    CR_TRY(cr_json_get(&outputs->u.items[0], "as_tensor", CR_JSON_OBJECT, &arg));
    CR_TRY(cr_json_get_string(arg, "name", &name));
    s->saved.next_token = name;
    CR_TRY(cr_json_get(given, "as_tensor", CR_JSON_OBJECT, &arg));
    CR_TRY(cr_json_get_string(arg, "name", &s->saved.token));
    cr_json rest_in = *inputs, rest_out = *outputs;
    rest_in.n -= 2, rest_in.u.items += 2;
    rest_out.n -= 1, rest_out.u.items += 1;
    cr_status status = read_target(s, op->value.u.s, &rest_in, &rest_out);
    if (status) return cr_error_context(status, "%s", op->value.u.s);
    CR_TRY(entry_find(s, name, TENSOR, &at));
    if (token.kind != CR_ARG_VALUE || s->entries.at[at].value != CR_NO_VALUE)
        return CR_FAIL(CR_EFORMAT, "'%s' is no new token", name);
    s->entries.at[at].value = (uint32_t)token.u.i;
    return CR_OK;
}

static cr_status read_node(scope *s, const cr_json *node, const char **target) {
    const cr_json *inputs, *outputs;
    CR_TRY(cr_json_get_string(node, "target", target));
    CR_TRY(read_saved(s, node));
    CR_TRY(read_origin(s, node));
    CR_TRY(cr_json_get(node, "inputs", CR_JSON_ARRAY, &inputs));
    CR_TRY(cr_json_get(node, "outputs", CR_JSON_ARRAY, &outputs));
    return read_target(s, *target, inputs, outputs);
}

/* ---- graphs ---- */

static cr_status add_placeholder(scope *s, uint32_t *value, const cr_value *v, const char *name) {
    /* None */
    if (v->type == CR_T_TENSOR && !v->meta) return cr_graph_placeholder_number(s->g, name, CR_T_ANY, NULL, value);
    if (v->type == CR_T_TENSOR) return cr_graph_placeholder(s->g, name, v->meta, value);
    return cr_graph_placeholder_number(s->g, name, (cr_type)v->type, v->expr, value);
}

/* Input i; a constant has no name of its own, the main graph's signature gives it one. */
static cr_status read_input(scope *s, const cr_json *v, uint32_t i, bool main) {
    char fallback[32];
    uint32_t value;
    s->values.n = s->results.n = 0;
    CR_TRY(read_result(s, v, false, 0));
    if (s->values.n != 1) return CR_FAIL(CR_EFORMAT, "an input is one value, not %zu", s->values.n);
    const char *name = s->values.at[0].name;
    if (s->results.at[0] == CR_NO_VALUE) {
        snprintf(fallback, sizeof fallback, "constant_%u", i);
        name = main && i < s->r->p->ninputs && s->r->p->inputs[i].name ? s->r->p->inputs[i].name : fallback;
    }
    CR_TRY(add_placeholder(s, &value, &s->values.at[0], name));
    return bind_value(s, value, s->results.at[0]);
}

static cr_status read_outputs(scope *s, const cr_json *outputs) {
    cr_arg *args = cr_arena_alloc(&s->r->scratch, (outputs->n + 1u) * sizeof *args);
    if (!args) return CR_ENOMEM;
    for (uint32_t i = 0; i < outputs->n; i++) {
        cr_status status = read_argument(s, &outputs->u.items[i], &args[i]);
        if (status) return cr_error_context(status, "outputs[%u]", i);
    }
    CR_TRY(cr_graph_set_output(s->g, args, outputs->n));
    return cr_graph_check_regions(s->g);
}

static cr_status read_parts(scope *s, const cr_json *graph, bool main) {
    const cr_json *inputs, *nodes, *outputs;
    CR_TRY(cr_json_get(graph, "inputs", CR_JSON_ARRAY, &inputs));
    CR_TRY(cr_json_get(graph, "nodes", CR_JSON_ARRAY, &nodes));
    CR_TRY(cr_json_get(graph, "outputs", CR_JSON_ARRAY, &outputs));
    CR_TRY(declare_names(s, graph));
    for (uint32_t i = 0; i < inputs->n; i++) {
        cr_status status = read_input(s, &inputs->u.items[i], i, main);
        if (status) return cr_error_context(status, "inputs[%u]", i);
    }
    bool single;
    CR_TRY(cr_json_get_bool_or(graph, "is_single_tensor_return", false, &single));
    for (uint32_t i = 0; i < nodes->n; i++) {
        const char *target = "?";
        cr_status status = nodes->u.items[i].kind == CR_JSON_OBJECT ? read_node(s, &nodes->u.items[i], &target)
                                                                    : wrong_kind(&nodes->u.items[i], "a node");
        if (status) return cr_error_context(status, "nodes[%u] (%s)", i, target);
    }
    CR_TRY(read_outputs(s, outputs));
    return single ? cr_graph_set_archived(s->g, cr_graph_output(s->g), &(cr_archived){ .single = true }) : CR_OK;
}

static cr_status read_graph(cr__reader *r, const cr_json *json, cr_graph *g, bool main) {
    scope s = { .r = r, .g = g };
    cr_map_init(&s.names);
    cr_status status = read_parts(&s, json, main);
    scope_dispose(&s);
    return status;
}

static cr_status read_subgraph(scope *s, const cr_json *v, cr_arg *out) {
    const cr_json *json;
    const char *name;
    cr_graph *sub = NULL;
    CR_TRY(cr_json_get_string(v, "name", &name));
    CR_TRY(cr_json_get(v, "graph", CR_JSON_OBJECT, &json));
    CR_TRY(cr_graph_create(s->r->env, &sub));
    cr_status status = cr_graph_set_name(sub, name);
    if (!status) status = read_graph(s->r, json, sub, false);
    if (!status) status = cr_graph_add_subgraph(s->g, sub);
    if (status) status = cr_error_context(status, "graph '%s'", name);
    else *out = (cr_arg){ .kind = CR_ARG_GRAPH, .given = 1, .u.graph = sub };
    cr_graph_release(sub); /* the outer graph holds it */
    return status;
}

cr_status cr__read_graph(cr__reader *r, const cr_json *json, cr_graph *g) {
    cr_status status = read_graph(r, json, g, true);
    return status ? cr_error_context(status, "graph") : CR_OK;
}
