/* arg.c: small things every user of cr_arg needs. */
#include "ops/op.h"
#include "sym/shape.h"

#include <stdio.h>

int cr_arg_number_dtype(const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_INT: return CR_I64;
    case CR_ARG_BOOL: return CR_BOOL;
    case CR_ARG_COMPLEX: return CR_C128;
    case CR_ARG_SYM:
        return cr_sym_type_of(a->u.sym) == CR_TYPE_BOOL  ? CR_BOOL
               : cr_sym_type_of(a->u.sym) == CR_TYPE_INT ? CR_I64
                                                         : CR_F64;
    default: return CR_F64;
    }
}

cr_status cr_arg_settle(cr_env *env, cr_arg *a) {
    int64_t hint = 0;
    double real = 0;
    bool yes;
    if (!cr_arg_is_symbolic(env, a)) return CR_OK;
    cr_sym e = a->kind == CR_ARG_SYM ? a->u.sym : cr_dim_sym(env, a->u.i);
    if (!e) return CR_FAIL(CR_ENOMEM, "out of memory");
    cr_sym_type type = cr_sym_type_of(e);
    if (type == CR_TYPE_FLOAT ? !cr_env_hint_float(env, e, &real) : !cr_env_hint(env, e, &hint))
        return cr_env_undecided(env, e);
    cr_sym value = type == CR_TYPE_FLOAT  ? cr_sym_float(env, real)
                   : type == CR_TYPE_BOOL ? cr_sym_bool(env, hint)
                                          : cr_sym_int(env, hint);
    CR_TRY(cr_sym_decide(env, cr_sym_compare(env, e, CR_EQ, value), &yes));
    uint8_t given = a->given;
    *a = type == CR_TYPE_FLOAT ? cr_arg_float(real) : type == CR_TYPE_BOOL ? cr_arg_bool(hint) : cr_arg_int(hint);
    a->given = given;
    return CR_OK;
}

rt_scalar cr_arg_scalar(const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_FLOAT: return (rt_scalar){ RT_ARG_FLOAT, 0, a->u.f, 0 };
    case CR_ARG_COMPLEX: return (rt_scalar){ RT_ARG_COMPLEX, 0, a->u.c[0], a->u.c[1] };
    default: return (rt_scalar){ RT_ARG_INT, a->u.i, 0, 0 };
    }
}

cr_sym cr__known_symbol(cr_sym_type type) {
    cr_known_symbols *known = cr_ambient_get()->mode.known;
    for (int i = 0; known && i < known->n; i++) {
        cr_sym found = known->at[i];
        if (cr_sym_type_of(found) != type) continue;
        memmove(&known->at[i], &known->at[i + 1], (size_t)(--known->n - i) * sizeof *known->at);
        return found;
    }
    return NULL;
}

cr_sym cr_unknown_number(cr_env *env, cr_type type) {
    cr_sym known = type == CR_T_BOOL ? NULL : cr__known_symbol(type == CR_T_INT ? CR_TYPE_INT : CR_TYPE_FLOAT);
    if (known) return known;
    if (type == CR_T_INT) return cr_sym_unbacked(env, INT64_MIN, INT64_MAX);
    if (type == CR_T_BOOL) return cr_sym_compare(env, cr_sym_unbacked(env, 0, 1), CR_EQ, cr_sym_int(env, 1));
    for (int k = 0;; k++) {
        char name[24];
        snprintf(name, sizeof name, "zuf%d", k); /* PyTorch's name for them */
        if (!cr_sym_find_symbol(env, name)) return cr_sym_symbol(env, name, CR_TYPE_FLOAT, INT64_MIN, INT64_MAX);
    }
}

static void print_list(cr_env *env, const cr_arg *a, cr_str *out) {
    cr_str_addc(out, '[');
    for (uint32_t i = 0; i < a->n; i++) {
        if (i) cr_str_add(out, ", ");
        cr_arg_print(env, &a->u.list[i], out);
    }
    cr_str_addc(out, ']');
}

void cr_arg_print(cr_env *env, const cr_arg *a, cr_str *out) {
    static const char *const formats[] = { "contiguous_format", "preserve_format", "channels_last",
                                           "channels_last_3d" };
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: cr_str_add(out, "none"); break;
    case CR_ARG_TENSOR: cr_meta_print(a->u.t->env, &a->u.t->meta, out); break;
    case CR_ARG_META: cr_meta_print(env, a->u.meta, out); break;
    case CR_ARG_VALUE: cr_str_addf(out, "%%%lld", (long long)a->u.i); break;
    case CR_ARG_INT: cr_dim_print(env, a->u.i, out); break;
    case CR_ARG_FLOAT: cr_str_add_double(out, a->u.f); break;
    case CR_ARG_BOOL: cr_str_add(out, a->u.i ? "true" : "false"); break;
    case CR_ARG_COMPLEX:
        cr_str_addc(out, '(');
        cr_str_add_double(out, a->u.c[0]);
        cr_str_add(out, ", ");
        cr_str_add_double(out, a->u.c[1]);
        cr_str_add(out, "j)");
        break;
    case CR_ARG_STR: cr_str_add_quoted(out, a->u.s, a->n); break;
    case CR_ARG_DTYPE: cr_str_add(out, cr_dtype_short((int)a->u.i)); break;
    case CR_ARG_LAYOUT: cr_str_add(out, "strided"); break;
    case CR_ARG_FORMAT: cr_str_add(out, formats[a->u.i & 3]); break;
    case CR_ARG_DEVICE: cr_device_print(a->u.device, out); break;
    case CR_ARG_GENERATOR: cr_str_add(out, "generator"); break;
    case CR_ARG_LIST: print_list(env, a, out); break;
    case CR_ARG_GRAPH: cr_str_add(out, "graph"); break;
    case CR_ARG_SYM: cr_sym_print(a->u.sym, out); break;
    case CR_ARG_KIND_COUNT: break;
    }
}
