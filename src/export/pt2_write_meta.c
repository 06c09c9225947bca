/* pt2_write_meta.c: dtypes, devices, sizes and metas as the PT2 schema writes them; the other half of pt2_meta.c.
 *
 * An expression that an archive had is written with its text there: SymPy compares by structure, and ours is another
 * normal form. Its hint is its value at the hints of its symbols, none where one of them has no backing value. */
#include "export/internal.h"
#include "export/pt2_write.h"

#include <math.h>

/* ---- enumerations ---- */

static const uint8_t dtypes[CR_DTYPE_COUNT] = {
    [CR_U8] = 1,      [CR_I8] = 2,          [CR_I16] = 3,         [CR_I32] = 4,        [CR_I64] = 5,
    [CR_F16] = 6,     [CR_F32] = 7,         [CR_F64] = 8,         [CR_C32] = 9,        [CR_C64] = 10,
    [CR_C128] = 11,   [CR_BOOL] = 12,       [CR_BF16] = 13,       [CR_U16] = 28,       [CR_F8E4M3FN] = 29,
    [CR_F8E5M2] = 30, [CR_F8E4M3FNUZ] = 31, [CR_F8E5M2FNUZ] = 32, [CR_F8E8M0FNU] = 33, [CR_U32] = 34,
    [CR_U64] = 35,
};

int cr__schema_dtype(int dtype) { return dtypes[dtype]; }

int cr__schema_format(int format) {
    static const uint8_t formats[] = {
        [CR_CONTIGUOUS] = 1, [CR_CHANNELS_LAST] = 2, [CR_CHANNELS_LAST_3D] = 3, [CR_PRESERVE] = 4
    };
    return formats[format];
}

void cr__write_device(cr__pt2_writer *w, cr_device device) {
    cr_str type;
    cr_str_init(&type);
    cr_device_print((cr_device){ device.type, -1 }, &type);
    if (cr_str_status(&type)) cr__writer_fail(w, cr_str_status(&type));
    cr_json_open(&w->j, '{');
    cr__put_text(&w->j, "type", cr_str_get(&type));
    cr_json_key(&w->j, "index");
    if (device.index < 0) cr_json_null(&w->j);
    else cr_json_int(&w->j, device.index);
    cr_json_close(&w->j, '}');
    cr_str_dispose(&type);
}

/* Not-a-number and the infinities are texts. */
void cr__write_float(cr__pt2_writer *w, double f) {
    const char *text = isnan(f) ? "NaN" : isinf(f) ? f < 0 ? "-Infinity" : "Infinity" : NULL;
    if (text) cr_json_string(&w->j, text, strlen(text));
    else cr_json_float(&w->j, f);
}

/* ---- expressions ---- */

static const char *archive_text(const cr__pt2_writer *w, cr_sym e) {
    uint64_t key = (uint64_t)(uintptr_t)e, found;
    for (const cr_program *p = w->p; p; p = p->base) {
        if (w->value) {
            cr__place place = cr__place_of(e, w->value, w->slot);
            if (cr_map_find(&p->exprs, &place, sizeof place, &found)) return (const char *)(uintptr_t)found;
        }
        if (cr_map_find(&p->exprs, &key, sizeof key, &found)) return (const char *)(uintptr_t)found;
    }
    return NULL;
}

static bool hint_of(void *user, cr_sym symbol, cr_sym_value *out) {
    out->type = cr_sym_type_of(symbol);
    return out->type == CR_TYPE_INT && cr_env_hint(user, symbol, &out->i);
}

static void write_hint(cr__pt2_writer *w, cr_sym e) {
    cr_sym_value value;
    /* PyTorch gives conditions none. */
    cr_status status = cr_sym_type_of(e) == CR_TYPE_BOOL ? CR_EVALUE : cr_sym_eval(e, hint_of, w->env, &value);
    if (status == CR_ENOMEM) cr__writer_fail(w, status);
    if (status) {
        cr_json_null(&w->j);
        return;
    }
    cr_json_open(&w->j, '{');
    if (cr_sym_type_of(e) == CR_TYPE_INT) cr__put_int(&w->j, "as_int", value.i);
    else cr_json_key(&w->j, "as_float"), cr__write_float(w, value.f);
    cr_json_close(&w->j, '}');
}

static void write_expr(cr__pt2_writer *w, cr_sym e) {
    const char *known = archive_text(w, e);
    cr_str text;
    cr_str_init(&text);
    if (!known) cr_sym_print_srepr(e, &text);
    if (cr_str_status(&text)) cr__writer_fail(w, cr_str_status(&text));
    cr_json_open(&w->j, '{');
    cr_json_key(&w->j, "as_expr");
    cr_json_open(&w->j, '{');
    cr__put_text(&w->j, "expr_str", known ? known : cr_str_get(&text));
    cr_json_key(&w->j, "hint");
    write_hint(w, e);
    cr_json_close(&w->j, '}');
    cr_json_close(&w->j, '}');
    cr_str_dispose(&text);
}

static void write_int(cr__pt2_writer *w, int64_t i) {
    cr_json_open(&w->j, '{');
    cr__put_int(&w->j, "as_int", i);
    cr_json_close(&w->j, '}');
}

void cr__write_dim(cr__pt2_writer *w, cr_dim d) {
    w->slot++;
    if (cr_dim_is_plain(d)) write_int(w, d);
    else if (d == CR_DIM_OVERFLOW) cr__writer_fail(w, CR_FAIL(CR_EVALUE, "a size is too large to be written"));
    else write_expr(w, cr_dim_sym(w->env, d));
}

void cr__write_sym(cr__pt2_writer *w, cr_sym e, cr_type type) {
    cr_arg a = cr_number_arg(w->env, e);
    if (!cr_arg_is_number(&a) || (a.kind == CR_ARG_INT && !cr_dim_is_plain(a.u.i))) {
        write_expr(w, e);
        return;
    }
    double f = a.kind == CR_ARG_FLOAT ? a.u.f : (double)a.u.i;
    cr_json_open(&w->j, '{');
    if (type == CR_T_FLOAT) cr_json_key(&w->j, "as_float"), cr__write_float(w, f);
    else if (type == CR_T_BOOL) cr__put_bool(&w->j, "as_bool", a.u.i != 0);
    else cr__put_int(&w->j, "as_int", a.u.i);
    cr_json_close(&w->j, '}');
}

/* ---- metas ---- */

static void write_dims(cr__pt2_writer *w, const char *key, const cr_dim *at, int n) {
    cr_json_key(&w->j, key);
    cr_json_open(&w->j, '[');
    for (int i = 0; i < n; i++) cr__write_dim(w, at[i]);
    cr_json_close(&w->j, ']');
}

void cr__write_meta(cr__pt2_writer *w, const cr_meta *m) {
    enum { STRIDED = 7 };
    w->slot = 0;
    cr_json_open(&w->j, '{');
    cr__put_int(&w->j, "dtype", cr__schema_dtype(m->dtype));
    write_dims(w, "sizes", m->size, m->rank);
    cr__put_bool(&w->j, "requires_grad", m->flags & CR_META_REQUIRES_GRAD);
    cr_json_key(&w->j, "device");
    cr__write_device(w, m->device);
    write_dims(w, "strides", m->stride, m->rank);
    cr_json_key(&w->j, "storage_offset");
    cr__write_dim(w, m->offset);
    cr__put_int(&w->j, "layout", STRIDED);
    cr_json_close(&w->j, '}');
}

/* ---- unions ---- */

void cr__write_constant(cr__pt2_writer *w, const cr_arg *a) {
    cr_json_writer *j = &w->j;
    cr_json_open(j, '{');
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: cr__put_bool(j, "as_none", true); break;
    case CR_ARG_INT: cr__put_int(j, "as_int", a->u.i); break;
    case CR_ARG_BOOL: cr__put_bool(j, "as_bool", a->u.i != 0); break;
    case CR_ARG_FLOAT: cr_json_key(j, "as_float"), cr__write_float(w, a->u.f); break;
    case CR_ARG_STR: cr_json_key(j, "as_string"), cr_json_string(j, a->u.s, a->n); break;
    default:
        cr__writer_fail(w, CR_FAIL(CR_EUNSUPPORTED, "a constant that is neither a number nor a text cannot be "
                                                    "written"));
    }
    cr_json_close(j, '}');
}

void cr__write_named(cr__pt2_writer *w, cr_type type, const char *name) {
    static const char *const keys[CR_T_COUNT] = {
        [CR_T_INT] = "as_sym_int", [CR_T_FLOAT] = "as_sym_float", [CR_T_BOOL] = "as_sym_bool"
    };
    cr_json_open(&w->j, '{');
    cr_json_key(&w->j, keys[type] ? keys[type] : "as_tensor");
    cr_json_open(&w->j, '{');
    cr__put_text(&w->j, keys[type] ? "as_name" : "name", name);
    cr_json_close(&w->j, '}');
    cr_json_close(&w->j, '}');
}
