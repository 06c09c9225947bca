/* outputs.c: results of a run into array files, or as a few words each.
 *
 * Result i is "out<i>": numbers become arrays without dimensions; None and texts are left out, and keep their number.
 * NumPy has no bfloat16, float8 or complex32: those are written as float32 (complex64), which holds their values
 * exactly. */
#include "cli/arrays.h"
#include "cli/info.h"

#include <math.h>
#include <stdio.h>

static int written_as(int dtype) {
    if (dtype == RT_BF16 || (dtype >= RT_F8E4M3FN && dtype <= RT_F8E8M0FNU)) return RT_F32;
    return dtype == RT_C32 ? RT_C64 : dtype;
}

/* A result as dense elements of a dtype that NumPy has. `scratch` is freed with cr_free. */
typedef struct dense {
    int dtype, rank;
    int64_t size[RT_MAX_RANK];
    const void *data;
    size_t bytes;
    void *scratch;
    double number[2];
} dense;

static void dense_number(dense *d, int dtype, const void *value) {
    *d = (dense){ .dtype = dtype, .bytes = (size_t)rt_itemsize(dtype) };
    memcpy(d->number, value, d->bytes);
    d->data = d->number;
}

static cr_status dense_init(dense *d, const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_INT: return dense_number(d, RT_I64, &a->u.i), CR_OK;
    case CR_ARG_FLOAT: return dense_number(d, RT_F64, &a->u.f), CR_OK;
    case CR_ARG_BOOL: return dense_number(d, RT_BOOL, &(uint8_t){ a->u.i != 0 }), CR_OK;
    case CR_ARG_COMPLEX: return dense_number(d, RT_C128, a->u.c), CR_OK;
    case CR_ARG_TENSOR: break;
    default: return CR_FAIL(CR_EUNSUPPORTED, "a result of argument kind %d cannot be written as an array", a->kind);
    }
    char error[256] = "";
    rt_ctx ctx = cr_kernel_ctx(error, sizeof error);
    rt_view v = cr_tensor_view(a->u.t);
    int dtype = written_as(v.dtype);
    *d = (dense){ .dtype = dtype, .rank = v.rank, .bytes = (size_t)(rt_numel(&v) * rt_itemsize(dtype)) };
    memcpy(d->size, v.size, sizeof d->size);
    d->data = v.p;
    if (!d->bytes) return d->data = "", CR_OK;
    if (dtype == v.dtype && rt_is_contiguous(&v)) return CR_OK;
    d->scratch = cr_alloc(d->bytes);
    if (!d->scratch) return CR_ENOMEM;
    d->data = d->scratch;
    rt_view to = rt_view_contiguous(d->scratch, dtype, v.rank, v.size);
    if (rt_copy(&ctx, &to, &v) == RT_OK) return CR_OK;
    cr_free(d->scratch);
    d->scratch = NULL;
    return error[0] ? CR_FAIL(CR_ERUNTIME, "%s", error) : CR_FAIL(CR_ENOMEM, "copying a result");
}

static bool is_written(const cr_arg *a) { return a->kind == CR_ARG_TENSOR || cr_arg_is_number(a); }

/* ---- files ---- */

static cr_status write_npy(const cr_arg *a, const char *path) {
    dense d = { 0 };
    cr_str text;
    cr_str_init(&text);
    cr_status status = dense_init(&d, a);
    if (status) goto out;
    CR_TRY_OUT(cr_npy_header(d.dtype, d.rank, d.size, &text));
    cr_str_addn(&text, d.data, d.bytes);
    CR_TRY_OUT(cr_str_status(&text));
    status = cr_file_write_atomic(path, text.at, text.n);
out:
    cr_str_dispose(&text);
    cr_free(d.scratch);
    return status;
}

static cr_status add_member(cr_zip_writer *w, const char *key, const cr_arg *a) {
    dense d = { 0 };
    char name[32];
    cr_str header;
    cr_str_init(&header);
    snprintf(name, sizeof name, "%s.npy", key);
    cr_status status = dense_init(&d, a);
    if (status) goto out;
    CR_TRY_OUT(cr_npy_header(d.dtype, d.rank, d.size, &header));
    CR_TRY_OUT(cr_zip_writer_begin(w, name));
    CR_TRY_OUT(cr_zip_writer_write(w, cr_str_get(&header), header.n));
    if (d.bytes) CR_TRY_OUT(cr_zip_writer_write(w, d.data, d.bytes));
    status = cr_zip_writer_end(w);
out:
    cr_str_dispose(&header);
    cr_free(d.scratch);
    return status;
}

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && !strcmp(text + n - m, ending);
}

cr_status outputs_write(const model *m, const cr_arg *results, size_t n, const char *path) {
    (void)m;
    size_t arrays = 0;
    const cr_arg *only = NULL;
    for (size_t i = 0; i < n; i++)
        if (is_written(&results[i])) arrays++, only = &results[i];
    if (ends_with(path, ".npy")) {
        if (arrays == 1) return write_npy(only, path);
        cli_hint("name it .npz");
        return CR_FAIL(CR_EVALUE, "a .npy file holds one array, and the program gives %zu", arrays);
    }
    cr_zip_writer *w;
    CR_TRY(cr_zip_writer_create(path, 64, &w));
    for (size_t i = 0; i < n; i++) {
        char key[24];
        if (!is_written(&results[i])) continue;
        snprintf(key, sizeof key, "out%zu", i);
        cr_status status = add_member(w, key, &results[i]);
        if (status) {
            cr_zip_writer_abandon(w);
            return status;
        }
    }
    return cr_zip_writer_finish(w);
}

/* ---- words ---- */

static void add_number(cr_str *out, int dtype, double value) {
    if (!rt_is_float(dtype) && !rt_is_complex(dtype) && value == floor(value) && fabs(value) < 1e15)
        cr_str_addf(out, "%.0f", value);
    else cr_str_addf(out, "%.6g", value);
}

/* Of the finite elements, of their magnitudes when complex; `odd` of `n` are not finite. */
typedef struct statistics { double least, most, mean; int64_t n, odd; } statistics;

static statistics statistics_of(const dense *d) {
    double sum = 0, block[512];
    int64_t width = rt_itemsize(d->dtype);
    statistics s = { .least = INFINITY, .most = -INFINITY, .n = (int64_t)d->bytes / width };
    bool complex = rt_is_complex(d->dtype);
    int64_t step = complex ? 256 : 512;
    for (int64_t i = 0; i < s.n; i += step) {
        int64_t count = CR_MIN(step, s.n - i);
        rt_convert(complex ? RT_C128 : RT_F64, block, 1, d->dtype, (const char *)d->data + i * width, 1, count);
        for (int64_t k = 0; k < count; k++) {
            double x = complex ? hypot(block[2 * k], block[2 * k + 1]) : block[k];
            if (!isfinite(x)) {
                s.odd++;
                continue;
            }
            s.least = fmin(s.least, x);
            s.most = fmax(s.most, x);
            sum += x;
        }
    }
    s.mean = sum / (double)(s.n - s.odd);
    return s;
}

static void add_statistics(const dense *d, cr_str *out) {
    statistics s = statistics_of(d);
    if (s.n > s.odd) {
        const char *of = rt_is_complex(d->dtype) ? "|" : "";
        cr_str_addf(out, "  %smin%s ", of, of), add_number(out, d->dtype, s.least);
        cr_str_addf(out, "  %smax%s ", of, of), add_number(out, d->dtype, s.most);
        cr_str_addf(out, "  %smean%s %.6g", of, of, s.mean);
    }
    if (s.odd) cr_str_addf(out, "  (%lld not finite)", (long long)s.odd);
}

cr_status outputs_summary(const model *m, const cr_arg *results, size_t n, cr_str *out) {
    for (size_t i = 0; i < n; i++) {
        const cr_arg *a = &results[i];
        const char *name = i < m->noutputs ? m->outputs[i].name : NULL;
        char key[24];
        dense d = { 0 };
        snprintf(key, sizeof key, "out%zu", i);
        cr_str_addf(out, "%-6s  ", key);
        if (!is_written(a)) {
            cr_str_add(out, a->kind == CR_ARG_NONE ? "None\n" : "a text\n");
            continue;
        }
        CR_TRY(dense_init(&d, a));
        if (a->kind == CR_ARG_TENSOR) {
            cr_str_addf(out, "%s ", cr_dtype_name(a->u.t->meta.dtype));
            cr_shape_print(NULL, d.rank, d.size, out);
            if (d.rank) add_statistics(&d, out);
        }
        if (!d.rank) {
            double value[2];
            rt_convert(RT_C128, value, 1, d.dtype, d.data, 1, 1);
            cr_str_addf(out, "%s= ", a->kind == CR_ARG_TENSOR ? " " : "");
            add_number(out, d.dtype, value[0]);
            if (rt_is_complex(d.dtype)) cr_str_addf(out, "%+.6gj", value[1]);
        }
        if (name && strcmp(name, key)) cr_str_addf(out, "  %%%s", name);
        cr_str_addc(out, '\n');
        cr_free(d.scratch);
    }
    if (!n) cr_str_add(out, "no outputs\n");
    return cr_str_status(out);
}

static void json_result(const dense *d, const cr_arg *a, cr_json_writer *w) {
    statistics s = statistics_of(d);
    info_json_pair(w, "dtype", cr_dtype_name(a->kind == CR_ARG_TENSOR ? a->u.t->meta.dtype : d->dtype));
    cr_json_key(w, "shape");
    info_json_sizes(w, NULL, d->rank, d->size);
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
        char key[24];
        dense d = { 0 };
        snprintf(key, sizeof key, "out%zu", i);
        cr_json_open(w, '{');
        info_json_pair(w, "key", key);
        if (i < m->noutputs) info_json_pair(w, "name", m->outputs[i].name);
        if (is_written(&results[i])) {
            CR_TRY(dense_init(&d, &results[i]));
            json_result(&d, &results[i], w);
            cr_free(d.scratch);
        } else {
            info_json_pair(w, "dtype", results[i].kind == CR_ARG_NONE ? "none" : "str");
        }
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
    return CR_OK;
}
