/* outputs.c: results of a run into array files, or as a few words each.
 *
 * Result i is "out<i>": None and texts are left out of files, and keep their number. */
#include "cli/arrays.h"
#include "cli/info.h"

#include <math.h>
#include <stdio.h>

static bool is_written(const cr_arg *a) { return a->kind == CR_ARG_TENSOR || cr_arg_is_number(a); }

/* ---- files ---- */

static cr_status write_named(const char *path, const char *const *names, const cr_arg *values, size_t n) {
    if (!cli_ends_with(path, ".npy")) return cr_arrays_write(path, CR_ARRAYS_NPZ, names, values, n);
    if (n == 1) return cr_arrays_write(path, CR_ARRAYS_NPY, names, values, n);
    cli_hint("name it .npz");
    return CR_FAIL(CR_EVALUE, "a .npy file holds one array, and the program gives %zu", n);
}

typedef char key[24];

cr_status outputs_write(const cr_arg *results, size_t n, const char *path) {
    size_t count = 0;
    key *keys = cr_calloc(n + 1, sizeof *keys);
    const char **names = cr_calloc(n + 1, sizeof *names);
    cr_arg *values = cr_calloc(n + 1, sizeof *values);
    cr_status status = keys && names && values ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) {
        if (!is_written(&results[i])) continue;
        snprintf(keys[count], sizeof *keys, "out%zu", i);
        names[count] = keys[count];
        values[count++] = results[i];
    }
    if (!status) status = write_named(path, names, values, count);
    cr_free(keys);
    cr_free(names);
    cr_free(values);
    return status;
}

/* ---- words ---- */

/* A result's elements as doubles, two each when it is complex. Free with cr_free. */
typedef struct elements { int dtype, rank; const int64_t *size; int64_t n; double *at; } elements;

static bool is_complex(const elements *e) { return cr_dtype_kind(e->dtype) == CR_KIND_COMPLEX; }

static cr_status elements_of_tensor(elements *e, const cr_tensor *t) {
    *e = (elements){ .dtype = cr_tensor_dtype(t), .rank = cr_tensor_rank(t), .size = cr_tensor_sizes(t) };
    size_t width = is_complex(e) ? 2 * sizeof *e->at : sizeof *e->at;
    e->n = cr_tensor_numel(t);
    e->at = cr_alloc((size_t)e->n * width + 1);
    if (!e->at) return CR_ENOMEM;
    cr_status status = cr_tensor_read(t, is_complex(e) ? CR_C128 : CR_F64, e->at, (size_t)e->n * width);
    if (status) cr_free(e->at);
    return status;
}

static cr_status elements_init(elements *e, const cr_arg *a) {
    if (a->kind == CR_ARG_TENSOR) return elements_of_tensor(e, a->u.t);
    *e = (elements){ .n = 1, .at = cr_calloc(2, sizeof *e->at) };
    if (!e->at) return CR_ENOMEM;
    switch (a->kind) {
    case CR_ARG_INT: e->dtype = CR_I64, e->at[0] = (double)a->u.i; break;
    case CR_ARG_BOOL: e->dtype = CR_BOOL, e->at[0] = a->u.i != 0; break;
    case CR_ARG_FLOAT: e->dtype = CR_F64, e->at[0] = a->u.f; break;
    default: e->dtype = CR_C128, e->at[0] = a->u.c[0], e->at[1] = a->u.c[1];
    }
    return CR_OK;
}

static void add_number(cr_str *out, int dtype, double value) {
    bool whole = cr_dtype_kind(dtype) == CR_KIND_INTEGER || cr_dtype_kind(dtype) == CR_KIND_BOOL;
    if (whole && value == floor(value) && fabs(value) < 1e15) cr_str_addf(out, "%.0f", value);
    else cr_str_addf(out, "%.6g", value);
}

/* Of the finite elements, of their magnitudes when complex; `odd` of `n` are not finite. */
typedef struct statistics { double least, most, mean; int64_t n, odd; } statistics;

static statistics statistics_of(const elements *e) {
    double sum = 0;
    statistics s = { .least = INFINITY, .most = -INFINITY, .n = e->n };
    for (int64_t i = 0; i < e->n; i++) {
        double x = is_complex(e) ? hypot(e->at[2 * i], e->at[2 * i + 1]) : e->at[i];
        if (!isfinite(x)) {
            s.odd++;
            continue;
        }
        s.least = fmin(s.least, x);
        s.most = fmax(s.most, x);
        sum += x;
    }
    s.mean = sum / (double)(s.n - s.odd);
    return s;
}

static void add_statistics(const elements *e, cr_str *out) {
    statistics s = statistics_of(e);
    if (s.n > s.odd) {
        const char *of = is_complex(e) ? "|" : "";
        cr_str_addf(out, "  %smin%s ", of, of), add_number(out, e->dtype, s.least);
        cr_str_addf(out, "  %smax%s ", of, of), add_number(out, e->dtype, s.most);
        cr_str_addf(out, "  %smean%s %.6g", of, of, s.mean);
    }
    if (s.odd) cr_str_addf(out, "  (%lld not finite)", (long long)s.odd);
}

static cr_status add_result(const cr_arg *a, cr_str *out) {
    elements e;
    if (!is_written(a)) {
        cr_str_add(out, a->kind == CR_ARG_NONE ? "None" : "a text");
        return CR_OK;
    }
    CR_TRY(elements_init(&e, a));
    if (a->kind == CR_ARG_TENSOR) {
        cr_tensor_describe(a->u.t, out);
        if (e.rank) add_statistics(&e, out);
    }
    if (!e.rank) {
        cr_str_addf(out, "%s= ", a->kind == CR_ARG_TENSOR ? " " : "");
        add_number(out, e.dtype, e.at[0]);
        if (is_complex(&e)) cr_str_addf(out, "%+.6gj", e.at[1]);
    }
    cr_free(e.at);
    return CR_OK;
}

cr_status outputs_summary(const model *m, const cr_arg *results, size_t n, cr_str *out) {
    for (size_t i = 0; i < n; i++) {
        const cr_slot *slot = cr_signature_output(m->signature, i);
        key key;
        snprintf(key, sizeof key, "out%zu", i);
        cr_str_addf(out, "%-6s  ", key);
        CR_TRY(add_result(&results[i], out));
        if (is_written(&results[i]) && slot && strcmp(slot->name, key)) cr_str_addf(out, "  %%%s", slot->name);
        cr_str_addc(out, '\n');
    }
    if (!n) cr_str_add(out, "no outputs\n");
    return cr_str_status(out);
}

static void json_result(const elements *e, cr_json_writer *w) {
    statistics s = statistics_of(e);
    info_json_pair(w, "dtype", cr_dtype_name(e->dtype));
    cr_json_key(w, "shape");
    info_json_sizes(w, e->rank, e->size);
    if (s.n > s.odd) {
        cr_json_key(w, "min"), cr_json_float(w, s.least);
        cr_json_key(w, "max"), cr_json_float(w, s.most);
        cr_json_key(w, "mean"), cr_json_float(w, s.mean);
    }
    cr_json_key(w, "not_finite"), cr_json_int(w, s.odd);
}

cr_status outputs_json(const model *m, const cr_arg *results, size_t n, cr_json_writer *w) {
    cr_json_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        const cr_slot *slot = cr_signature_output(m->signature, i);
        elements e;
        key key;
        snprintf(key, sizeof key, "out%zu", i);
        cr_json_open(w, '{');
        info_json_pair(w, "key", key);
        if (slot) info_json_pair(w, "name", slot->name);
        if (is_written(&results[i])) {
            CR_TRY(elements_init(&e, &results[i]));
            json_result(&e, w);
            cr_free(e.at);
        } else {
            info_json_pair(w, "dtype", results[i].kind == CR_ARG_NONE ? "none" : "str");
        }
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
    return CR_OK;
}
