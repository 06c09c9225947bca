/* model_library.c: a method of a compiled library as a model: its descriptions read back into slots.
 *
 * The library gives every size as a text with its range. Texts become expressions of an environment of this model's
 * own, so that everything that knows dynamic sizes of archives (checks, messages, random inputs) works as it is. */
#include "cli/model.h"

#include "archive/json.h"

#include <ctype.h>
#include <stdlib.h>

typedef CR_VEC(cr_symbol_range) symbol_ranges;

static bool is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return !*text;
}

/* Symbols that stand alone, inputs first, get the ranges that the library says. */
static cr_status declare_symbols(model *m, const cresset_value_info *values, int32_t n, symbol_ranges *out) {
    for (int32_t i = 0; i < n; i++)
        for (int32_t d = 0; values[i].kind == CRESSET_TENSOR && d < values[i].rank; d++) {
            const cresset_dim *dim = &values[i].dims[d];
            if (!is_name(dim->text) || cr_sym_find_symbol(m->env, dim->text)) continue;
            if (!cr_sym_symbol(m->env, dim->text, CR_TYPE_INT, dim->min, dim->max)) return CR_ENOMEM;
            CR_TRY(cr_vec_push(out, (cr_symbol_range){ dim->text, { dim->min, dim->max } }));
        }
    return CR_OK;
}

static cr_status read_meta(model *m, const cresset_value_info *v, const cr_meta **out) {
    cr_dim size[CR_MAX_RANK];
    cr_meta *meta = cr_arena_calloc(&m->arena, 1, sizeof *meta);
    if (!meta) return CR_ENOMEM;
    if (v->rank < 0 || v->rank > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "'%s' has %d dimensions, and %d are possible here", v->name, v->rank,
                       CR_MAX_RANK);
    for (int32_t d = 0; d < v->rank; d++) {
        cr_sym e;
        CR_TRY(cr_sym_parse(m->env, v->dims[d].text, false, &e));
        size[d] = cr_dim_of(m->env, e);
    }
    cr_meta_init(meta, v->dtype, (cr_device){ CR_CPU, -1 });
    *out = meta;
    return cr_meta_set_dense(m->env, meta, v->rank, size, CR_CONTIGUOUS);
}

/* 3, true, 0.5, "mean", None: as cr_arg_print writes them. */
static cr_status read_constant(model *m, const cresset_value_info *v, cr_arg *out) {
    const char *text = v->constant;
    switch (v->kind) {
    case CRESSET_INT: return *out = cr_arg_int(strtoll(text, NULL, 10)), CR_OK;
    case CRESSET_FLOAT: return *out = cr_arg_float(cr_strtod(text, NULL)), CR_OK;
    case CRESSET_BOOLEAN: return *out = cr_arg_bool(text[0] == 't'), CR_OK;
    case CRESSET_STRING: {
        const cr_json *value;
        CR_TRY(cr_json_parse(&m->arena, text, strlen(text), &value));
        return *out = value->kind == CR_JSON_STRING ? cr_arg_str(value->u.s) : cr_arg_none(), CR_OK;
    }
    default: return *out = cr_arg_none(), CR_OK;
    }
}

static cr_status read_slots(model *m, const cresset_value_info *values, int32_t n, bool outputs, model_slot **out) {
    static const uint8_t types[] = {
        [CRESSET_NONE] = CR_T_ANY,    [CRESSET_TENSOR] = CR_T_TENSOR, [CRESSET_INT] = CR_T_INT,
        [CRESSET_FLOAT] = CR_T_FLOAT, [CRESSET_BOOLEAN] = CR_T_BOOL,  [CRESSET_STRING] = CR_T_STR
    };
    model_slot *slots = cr_arena_calloc(&m->arena, (size_t)n + 1, sizeof *slots);
    if (!slots) return CR_ENOMEM;
    *out = slots;
    for (int32_t i = 0; i < n; i++) {
        const cresset_value_info *v = &values[i];
        model_slot *s = &slots[i];
        if (v->kind < 0 || (size_t)v->kind >= CR_COUNT(types))
            return CR_FAIL(CR_EFORMAT, "'%s' is of the unknown kind %d", v->name, v->kind);
        s->name = s->key = v->name;
        if (outputs && !(s->key = cr_arena_printf(&m->arena, "out%d", i))) return CR_ENOMEM;
        s->type = types[v->kind];
        s->is_constant = v->constant != NULL || v->kind == CRESSET_NONE;
        s->left_out = outputs && (v->kind == CRESSET_NONE || v->kind == CRESSET_STRING);
        if (v->constant) CR_TRY(read_constant(m, v, &s->constant));
        if (v->kind == CRESSET_TENSOR) CR_TRY(read_meta(m, v, &s->meta));
    }
    return CR_OK;
}

static cr_status read_spec(const char *text, cr_tree **out) {
    return text && *text ? cr_tree_parse(text, strlen(text), out) : CR_OK;
}

cr_status model_open_library(model *m, const char *path, const char *name) {
    symbol_ranges ranges = { 0 };
    CR_TRY(cr_library_open(path, &m->library));
    CR_TRY(cr_library_method(m->library, name, &m->method));
    CR_TRY(cr_env_create(&m->env));
    const cresset_method_info *info = &cr_library_api(m->library)->methods[m->method];
    m->ninputs = (size_t)info->ninputs;
    m->noutputs = (size_t)info->noutputs;
    cr_status status = declare_symbols(m, info->inputs, info->ninputs, &ranges);
    if (!status) status = declare_symbols(m, info->outputs, info->noutputs, &ranges);
    if (!status && ranges.n && !(m->ranges = cr_arena_copy(&m->arena, ranges.at, ranges.n * sizeof *ranges.at)))
        status = CR_ENOMEM;
    m->nranges = ranges.n;
    cr_vec_dispose(&ranges);
    CR_TRY(status);
    CR_TRY(read_slots(m, info->inputs, info->ninputs, false, &m->inputs));
    CR_TRY(read_slots(m, info->outputs, info->noutputs, true, &m->outputs));
    CR_TRY(read_spec(info->in_spec, &m->in_spec));
    return read_spec(info->out_spec, &m->out_spec);
}
