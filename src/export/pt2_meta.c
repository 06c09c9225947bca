/* pt2_meta.c: dtypes, devices, sizes and metas of the PT2 schema.
 *
 * Enumerations are tables from the archive's numbers to ours. A size is a number or the text of an expression; equal
 * texts are parsed once. A symbol must have been declared by range_constraints before an expression may name it, so
 * that no size is without bounds; float symbols, which have no ranges there, are known by their names. */
#include "export/internal.h"

cr_status cr__keep_text(cr__reader *r, const char *text, const char **out) {
    *out = cr_arena_strdup(&r->p->arena, text);
    return *out ? CR_OK : CR_ENOMEM;
}

/* ---- enumerations ---- */

static const int8_t dtypes[] = {
    -1, CR_U8, CR_I8, CR_I16, CR_I32, CR_I64, CR_F16, CR_F32, CR_F64, CR_C32, CR_C64, CR_C128, CR_BOOL, CR_BF16,
    [14] = -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    [28] = CR_U16, CR_F8E4M3FN, CR_F8E5M2, CR_F8E4M3FNUZ, CR_F8E5M2FNUZ, CR_F8E8M0FNU, CR_U32, CR_U64,
};

static cr_status read_enum(const cr_json *value, const char *what, int64_t *out) {
    if (value->kind != CR_JSON_INT)
        return CR_FAIL(CR_EFORMAT, "%s is %s, expected a number", what, cr_json_kind_name(value->kind));
    *out = value->u.i;
    return CR_OK;
}

cr_status cr__read_dtype(const cr_json *value, int *out) {
    int64_t i = -1;
    CR_TRY(read_enum(value, "a dtype", &i));
    if (i < 0 || i >= (int64_t)CR_COUNT(dtypes) || dtypes[i] < 0)
        return CR_FAIL(CR_EFORMAT, "%lld is no dtype of the schema", (long long)i);
    *out = dtypes[i];
    return CR_OK;
}

cr_status cr__read_layout(const cr_json *value) {
    enum { STRIDED = 7 };
    int64_t i = -1;
    CR_TRY(read_enum(value, "a layout", &i));
    if (i < 0 || i > STRIDED) return CR_FAIL(CR_EFORMAT, "%lld is no layout of the schema", (long long)i);
    return i == STRIDED ? CR_OK
                        : CR_FAIL(CR_EUNSUPPORTED, "layout %lld: only strided tensors are supported, not sparse ones",
                                  (long long)i);
}

cr_status cr__read_format(const cr_json *value, cr_memory_format *out) {
    static const int8_t formats[] = { -1, CR_CONTIGUOUS, CR_CHANNELS_LAST, CR_CHANNELS_LAST_3D, CR_PRESERVE };
    int64_t i = -1;
    CR_TRY(read_enum(value, "a memory format", &i));
    if (i < 0 || i >= (int64_t)CR_COUNT(formats) || formats[i] < 0)
        return CR_FAIL(CR_EFORMAT, "%lld is no memory format of the schema", (long long)i);
    *out = (cr_memory_format)formats[i];
    return CR_OK;
}

cr_status cr__read_device(const cr_json *value, cr_device *out) {
    const char *type;
    int64_t index;
    CR_TRY(cr_json_get_string(value, "type", &type));
    CR_TRY(cr_json_get_int_or(value, "index", -1, &index));
    if (index < -1 || index > INT8_MAX) return CR_FAIL(CR_EFORMAT, "%lld is no index of a device", (long long)index);
    cr_status status = cr_device_parse(type, out);
    if (status) return status == CR_ENOMEM ? status : CR_FAIL(CR_EUNSUPPORTED, "device '%s' is not known here", type);
    if (index >= 0 && out->type != CR_CPU) out->index = (int8_t)index;
    return CR_OK;
}

/* ---- expressions ---- */

/* PyTorch's names of float symbols: zf0 with, zuf0 without a backing value. */
static bool is_float_name(const char *name, size_t n) {
    return (n > 2 && !strncmp(name, "zf", 2)) || (n > 3 && !strncmp(name, "zuf", 3));
}

/* Float symbols have no range to declare them; the parser would make integers of them. */
static cr_status declare_floats(cr__reader *r, const char *text) {
    static const char call[] = "Symbol('";
    for (const char *at = text; (at = strstr(at, call));) {
        at += sizeof call - 1;
        size_t n = strcspn(at, "'");
        if (!is_float_name(at, n)) continue;
        char *name = cr_arena_strndup(&r->scratch, at, n);
        if (!name || !cr_sym_symbol(r->env, name, CR_TYPE_FLOAT, INT64_MIN, INT64_MAX))
            return CR_FAIL(CR_ENOMEM, "out of memory");
    }
    return CR_OK;
}

/* The first text of an expression is the one it is written with again, except where another stood. */
static cr_status keep_expr(cr__reader *r, const char *text, cr_sym e) {
    const char *copy;
    uint64_t key = (uint64_t)(uintptr_t)e, found;
    bool known = cr_map_find(&r->p->exprs, &key, sizeof key, &found);
    if (known && (!r->value || !strcmp((const char *)(uintptr_t)found, text))) return CR_OK;
    CR_TRY(cr__keep_text(r, text, &copy));
    if (!known) return cr_map_put(&r->p->exprs, &key, sizeof key, (uint64_t)(uintptr_t)copy);
    cr__place place = cr__place_of(e, r->value, r->slot);
    return cr_map_put(&r->p->exprs, &place, sizeof place, (uint64_t)(uintptr_t)copy);
}

static cr_status parse_expr(cr__reader *r, const char *text, cr_sym *out) {
    uint64_t found;
    size_t n = strlen(text);
    bool srepr = strchr(text, '(') && (strstr(text, "Symbol(") || strstr(text, "Integer("));
    if (cr_map_find(&r->exprs, text, n, &found)) {
        *out = (cr_sym)(uintptr_t)found;
        return srepr && r->value ? keep_expr(r, text, *out) : CR_OK;
    }
    CR_TRY(declare_floats(r, text));
    CR_TRY(srepr ? cr_sym_parse_srepr(r->env, text, true, out) : cr_sym_parse(r->env, text, true, out));
    if (srepr) CR_TRY(keep_expr(r, text, *out));
    return cr_map_put(&r->exprs, text, n, (uint64_t)(uintptr_t)*out);
}

static cr_status read_hint(cr__reader *r, const cr_json *expr, cr_sym e) {
    const cr_json *hint = cr_json_find(expr, "hint");
    const cr_json_member *value;
    if (!hint || hint->kind == CR_JSON_NULL || cr_sym_kind_of(e) != CR_SYM_SYMBOL) return CR_OK;
    CR_TRY(cr_json_union(hint, &value));
    if (value->value.kind != CR_JSON_INT || cr_sym_type_of(e) != CR_TYPE_INT) return CR_OK;
    return cr_env_set_hint(r->env, e, value->value.u.i);
}

cr_status cr__read_sym(cr__reader *r, const cr_json *value, cr_sym_type type, cr_sym *out) {
    static const char *const plain[] = {
        [CR_TYPE_INT] = "as_int", [CR_TYPE_FLOAT] = "as_float", [CR_TYPE_BOOL] = "as_bool"
    };
    const cr_json_member *m;
    const char *text;
    double f;
    CR_TRY(cr_json_union(value, &m));
    if (!strcmp(m->key, "as_expr")) {
        CR_TRY(cr_json_get_string(&m->value, "expr_str", &text));
        CR_TRY(parse_expr(r, text, out));
        bool fits = cr_sym_type_of(*out) == type || (type == CR_TYPE_FLOAT && cr_sym_type_of(*out) == CR_TYPE_INT);
        if (!fits) return CR_FAIL(CR_EFORMAT, "expression '%s' has another type than the field", text);
        return read_hint(r, &m->value, *out);
    }
    if (strcmp(m->key, plain[type]))
        return CR_FAIL(CR_EFORMAT, "'%s' found, expected 'as_expr' or '%s'", m->key, plain[type]);
    if (type == CR_TYPE_INT && m->value.kind == CR_JSON_INT && cr_dim_is_plain(m->value.u.i))
        *out = cr_sym_int(r->env, m->value.u.i);
    else if (type == CR_TYPE_BOOL && m->value.kind == CR_JSON_BOOL) *out = cr_sym_bool(r->env, m->value.u.b);
    else if (type == CR_TYPE_FLOAT) {
        CR_TRY(cr_json_number(&m->value, &f));
        *out = cr_sym_float(r->env, f);
    } else return CR_FAIL(CR_EFORMAT, "'%s' is %s or too large", m->key, cr_json_kind_name(m->value.kind));
    return *out ? CR_OK : CR_FAIL(CR_ENOMEM, "out of memory");
}

/* A size without an expression is read without making one. */
static cr_status read_dim(cr__reader *r, const cr_json *value, cr_dim *out) {
    const cr_json_member *m;
    cr_sym e;
    r->slot++;
    CR_TRY(cr_json_union(value, &m));
    if (!strcmp(m->key, "as_int") && m->value.kind == CR_JSON_INT) {
        if (m->value.u.i < 0) return CR_FAIL(CR_EFORMAT, "%lld is negative", (long long)m->value.u.i);
        *out = m->value.u.i;
        return CR_OK;
    }
    CR_TRY(cr__read_sym(r, value, CR_TYPE_INT, &e));
    *out = cr_dim_of(r->env, e);
    if (*out != CR_DIM_OVERFLOW) return CR_OK;
    if (!cr_env_failed(r->env)) return CR_FAIL(CR_EFORMAT, "the expression does not fit in 64 bits");
    cr_env_recover(r->env);
    return CR_FAIL(CR_ENOMEM, "out of memory");
}

static cr_status read_dims(cr__reader *r, const cr_json *meta, const char *field, cr_dim *out, uint32_t *n) {
    const cr_json *list;
    CR_TRY(cr_json_get(meta, field, CR_JSON_ARRAY, &list));
    if (list->n > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "'%s': %u dimensions; at most %d are supported", field, list->n, CR_MAX_RANK);
    for (uint32_t i = 0; i < list->n; i++) {
        cr_status status = read_dim(r, &list->u.items[i], &out[i]);
        if (status) return cr_error_context(status, "%s[%u]", field, i);
    }
    *n = list->n;
    return CR_OK;
}

cr_status cr__read_tensor_meta(cr__reader *r, const cr_json *value, cr_meta *out) {
    const cr_json *field;
    int dtype;
    cr_device device;
    uint32_t rank, strides;
    bool grad;
    if (value->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "a tensor's meta is %s, expected an object", cr_json_kind_name(value->kind));
    CR_TRY(cr_json_get(value, "dtype", CR_JSON_INT, &field));
    CR_TRY(cr__read_dtype(field, &dtype));
    CR_TRY(cr_json_get(value, "layout", CR_JSON_INT, &field));
    CR_TRY(cr__read_layout(field));
    CR_TRY(cr_json_get(value, "device", CR_JSON_OBJECT, &field));
    CR_TRY(cr__read_device(field, &device));
    CR_TRY(cr_json_get_bool_or(value, "requires_grad", false, &grad));
    cr_meta_init(out, dtype, device);
    r->slot = 0;
    CR_TRY(read_dims(r, value, "sizes", out->size, &rank));
    CR_TRY(read_dims(r, value, "strides", out->stride, &strides));
    if (rank != strides) return CR_FAIL(CR_EFORMAT, "%u sizes and %u strides", rank, strides);
    out->rank = (uint8_t)rank;
    if (grad) out->flags |= CR_META_REQUIRES_GRAD;
    CR_TRY(cr_json_get(value, "storage_offset", CR_JSON_OBJECT, &field));
    cr_status status = read_dim(r, field, &out->offset);
    return status ? cr_error_context(status, "storage_offset") : CR_OK;
}

/* ---- ranges ---- */

static bool is_name(const char *text) {
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return n && !text[n] && !(*text >= '0' && *text <= '9');
}

static cr_status read_range(const cr_json *value, cr_range *out) {
    CR_TRY(cr_json_get_int_or(value, "min_val", INT64_MIN, &out->lo));
    CR_TRY(cr_json_get_int_or(value, "max_val", INT64_MAX, &out->hi));
    return out->lo <= out->hi
               ? CR_OK
               : CR_FAIL(CR_EFORMAT, "min_val %lld is above max_val %lld", (long long)out->lo, (long long)out->hi);
}

static cr_status declare(cr__reader *r, const char *key, cr_range range) {
    cr_sym e;
    if (is_float_name(key, strlen(key))) e = cr_sym_symbol(r->env, key, CR_TYPE_FLOAT, INT64_MIN, INT64_MAX);
    else e = cr_sym_symbol(r->env, key, CR_TYPE_INT, range.lo, range.hi);
    return e ? CR_OK : CR_FAIL(CR_ENOMEM, "out of memory");
}

/* Keys are symbols, or expressions of them whose range follows from theirs: those are kept for show. */
cr_status cr__read_ranges(cr__reader *r, const cr_json *constraints) {
    cr_symbol_range *ranges = cr_arena_calloc(&r->p->arena, constraints->n + 1u, sizeof *ranges);
    cr_sym ignored;
    if (!ranges) return CR_ENOMEM;
    for (uint32_t i = 0; i < constraints->n; i++) {
        const cr_json_member *m = &constraints->u.members[i];
        cr_status status = m->value.kind == CR_JSON_OBJECT ? read_range(&m->value, &ranges[i].range)
                                                           : CR_FAIL(CR_EFORMAT, "a range is %s, expected an object",
                                                                     cr_json_kind_name(m->value.kind));
        if (!status) status = cr__keep_text(r, m->key, &ranges[i].symbol);
        if (!status && is_name(m->key)) status = declare(r, m->key, ranges[i].range);
        if (status) return cr_error_context(status, "range_constraints['%s']", m->key);
    }
    for (uint32_t i = 0; i < constraints->n; i++) {
        const char *key = constraints->u.members[i].key;
        cr_status status = is_name(key) ? CR_OK : parse_expr(r, key, &ignored);
        if (status) return cr_error_context(status, "range_constraints['%s']", key);
    }
    r->p->ranges = ranges;
    r->p->nranges = constraints->n;
    return CR_OK;
}

/* ---- constants ---- */

cr_status cr__read_constant(cr__reader *r, const cr_json_member *m, bool *found, cr_arg *out) {
    const cr_json *v = &m->value;
    double f;
    *found = true;
    if (!strcmp(m->key, "as_none")) return *out = cr_arg_none(), CR_OK;
    if (!strcmp(m->key, "as_int") && v->kind == CR_JSON_INT && cr_dim_is_plain(v->u.i))
        return *out = cr_arg_int(v->u.i), CR_OK;
    if (!strcmp(m->key, "as_bool") && v->kind == CR_JSON_BOOL) return *out = cr_arg_bool(v->u.b), CR_OK;
    if (!strcmp(m->key, "as_float")) {
        CR_TRY(cr_json_number(v, &f));
        return *out = cr_arg_float(f), CR_OK;
    }
    if (!strcmp(m->key, "as_string") && v->kind == CR_JSON_STRING) {
        char *text = cr_arena_strndup(&r->p->arena, v->u.s, v->n);
        if (!text) return CR_ENOMEM;
        *out = (cr_arg){ .kind = CR_ARG_STR, .given = 1, .n = v->n, .u.s = text };
        return CR_OK;
    }
    *found = false;
    return CR_OK;
}
