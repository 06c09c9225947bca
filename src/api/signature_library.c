/* signature_library.c: a method of a compiled library as a signature: its descriptions read back into slots.
 *
 * The library gives every size as a text with its range. Texts become expressions of an environment of the
 * signature's own, so that everything that knows dynamic sizes of archives (checks, messages, random inputs) works as
 * it is. */
#include "api/api.h"
#include "archive/json.h"
#include "trace/tree.h"

#include <ctype.h>
#include <stdlib.h>

typedef CR_VEC(cr_symbol) symbols;

static bool is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return !*text;
}

/* Symbols that stand alone, inputs first, get the ranges that the library says. */
static cr_status declare_symbols(cr_signature *s, const cresset_value_info *values, int32_t n, symbols *out) {
    for (int32_t i = 0; i < n; i++)
        for (int32_t d = 0; values[i].kind == CRESSET_TENSOR && d < values[i].rank; d++) {
            const cresset_dim *dim = &values[i].dims[d];
            if (!is_name(dim->text) || cr_sym_find_symbol(s->env, dim->text)) continue;
            if (!cr_sym_symbol(s->env, dim->text, CR_TYPE_INT, dim->min, dim->max)) return CR_ENOMEM;
            CR_TRY(cr_vec_push(out, (cr_symbol){ dim->text, dim->min, dim->max }));
        }
    return CR_OK;
}

static cr_status list_symbols(cr_signature *s, const cresset_method_info *info) {
    symbols all = { 0 };
    cr_status status = declare_symbols(s, info->inputs, info->ninputs, &all);
    if (!status) status = declare_symbols(s, info->outputs, info->noutputs, &all);
    if (!status && all.n && !(s->symbols = cr_arena_copy(&s->arena, all.at, all.n * sizeof *all.at)))
        status = CR_ENOMEM;
    s->nsymbols = all.n;
    cr_vec_dispose(&all);
    return status;
}

static cr_status read_meta(cr_signature *s, const cresset_value_info *v, const cr_meta **out) {
    cr_dim size[CR_MAX_RANK];
    cr_meta *meta = cr_arena_calloc(&s->arena, 1, sizeof *meta);
    if (!meta) return CR_ENOMEM;
    if (v->rank < 0 || v->rank > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "'%s' has %d dimensions, and %d are possible here", v->name, v->rank,
                       CR_MAX_RANK);
    for (int32_t d = 0; d < v->rank; d++) {
        cr_sym e;
        CR_TRY(cr_sym_parse(s->env, v->dims[d].text, false, &e));
        size[d] = cr_dim_of(s->env, e);
    }
    cr_meta_init(meta, v->dtype, (cr_device){ CR_CPU, -1 });
    *out = meta;
    return cr_meta_set_dense(s->env, meta, v->rank, size, CR_CONTIGUOUS);
}

/* 3, true, 0.5, "mean", None: as cr_arg_print writes them. */
static cr_status read_constant(cr_signature *s, const cresset_value_info *v, cr_arg *out) {
    const char *text = v->constant;
    switch (v->kind) {
    case CRESSET_INT: return *out = cr_arg_int(strtoll(text, NULL, 10)), CR_OK;
    case CRESSET_FLOAT: return *out = cr_arg_float(cr_strtod(text, NULL)), CR_OK;
    case CRESSET_BOOLEAN: return *out = cr_arg_bool(text[0] == 't'), CR_OK;
    case CRESSET_STRING: {
        const cr_json *value;
        CR_TRY(cr_json_parse(&s->arena, text, strlen(text), &value));
        return *out = value->kind == CR_JSON_STRING ? cr_arg_str(value->u.s) : cr_arg_none(), CR_OK;
    }
    default: return *out = cr_arg_none(), CR_OK;
    }
}

static const uint8_t types[] = {
    [CRESSET_NONE] = CR_T_ANY,    [CRESSET_TENSOR] = CR_T_TENSOR, [CRESSET_INT] = CR_T_INT,
    [CRESSET_FLOAT] = CR_T_FLOAT, [CRESSET_BOOLEAN] = CR_T_BOOL,  [CRESSET_STRING] = CR_T_STR
};

static cr_status read_slots(cr_signature *s, const cresset_value_info *values, int32_t n, cr__slot **out) {
    cr__slot *slots = cr_arena_calloc(&s->arena, (size_t)n + 1, sizeof *slots);
    if (!slots) return CR_ENOMEM;
    *out = slots;
    for (int32_t i = 0; i < n; i++) {
        const cresset_value_info *v = &values[i];
        cr__slot *slot = &slots[i];
        if (v->kind < 0 || (size_t)v->kind >= CR_COUNT(types))
            return CR_FAIL(CR_EFORMAT, "'%s' is of the unknown kind %d", v->name, v->kind);
        slot->shown.name = v->name;
        slot->type = types[v->kind];
        slot->shown.is_constant = v->constant != NULL || v->kind == CRESSET_NONE;
        if (v->constant) CR_TRY(read_constant(s, v, &slot->shown.constant));
        if (v->kind == CRESSET_TENSOR) CR_TRY(read_meta(s, v, &slot->meta));
    }
    return CR_OK;
}

static cr_status read_spec(const char *text, cr_tree **out) {
    return text && *text ? cr_tree_parse(text, strlen(text), out) : CR_OK;
}

static cr_status fill(cr_signature *s, const cresset_method_info *info) {
    cr_tree *in_spec = NULL, *out_spec = NULL;
    CR_TRY(cr_env_create(&s->env));
    s->ninputs = (size_t)info->ninputs;
    s->noutputs = (size_t)info->noutputs;
    CR_TRY(list_symbols(s, info));
    CR_TRY(read_slots(s, info->inputs, info->ninputs, &s->inputs));
    CR_TRY(read_slots(s, info->outputs, info->noutputs, &s->outputs));
    cr_status status = read_spec(info->in_spec, &in_spec);
    if (!status) status = read_spec(info->out_spec, &out_spec);
    if (!status) status = cr__signature_finish(s, in_spec, out_spec);
    cr_tree_release(in_spec);
    cr_tree_release(out_spec);
    return status;
}

cr_status cr_library_signature(cr_library *lib, int32_t method, cr_signature **out) {
    cr_signature *s;
    const cresset_api *api = cr_library_api(lib);
    if (method < 0 || method >= api->nmethods)
        return CR_FAIL(CR_EINDEX, "the library has %d methods, and none of number %d", api->nmethods, method);
    CR_TRY(cr__signature_create(&s));
    cr_library_retain(s->library = lib);
    cr_status status = fill(s, &api->methods[method]);
    if (status) cr_signature_release(s);
    else *out = s;
    return status;
}
