/* inputs.c: arguments of a run by name.
 *
 * Everything that can be said about an input is said here, by its name, before the program sees it: which is missing
 * or unknown, dtype, rank, fixed sizes, ranges of dynamic ones, and sizes that must agree with another input's. NumPy
 * has no bfloat16, float8 or complex32: an input of such a dtype comes as float32 (complex64) and is rounded to
 * nearest, or as its raw bytes. */
#include "api/inputs.h"

#include <stdio.h>

typedef struct symbol_value {
    cr_sym symbol;
    int64_t value;
    const char *input;
    int dim;
} symbol_value;
/* One pass over all inputs: the sizes that their symbols turned out to be. */
typedef struct binder {
    cr_env *env;
    const char *file; /* of the input being looked at */
    CR_VEC(symbol_value) symbols;
} binder;

/* ---- what was expected, what came ---- */

/* "float32 [s77, 4] with s77 from 2 to 64" */
static void add_symbol_ranges(cr_env *env, cr_sym e, cr_str *out) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        cr_range r = cr_sym_range(env, e);
        if (r.lo == INT64_MIN && r.hi == INT64_MAX) return;
        cr_str_addf(out, "%s%s ", strstr(cr_str_get(out), " with ") ? ", " : " with ", cr_sym_name(e));
        cr__range_print(r, out);
        return;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) add_symbol_ranges(env, cr_sym_operand(e, i), out);
}

static void add_expected(cr_env *env, const cr__slot *s, cr_str *out) {
    const char *type = s->shown.type;
    if (s->shown.is_constant) {
        cr_str_addf(out, "the %s ", type);
        if (s->shown.constant.kind == CR_ARG_NONE) cr_str_add(out, "None");
        else cr_arg_print(env, &s->shown.constant, out);
        cr_str_add(out, " that the export fixed");
    } else if (s->type == CR_T_TENSOR && s->meta) {
        cr_str_addf(out, "%s ", type);
        cr_slot_print_shape(&s->shown, out);
        for (int i = 0; i < s->meta->rank; i++)
            if (!cr_dim_is_plain(s->meta->size[i])) add_symbol_ranges(env, cr_dim_sym(env, s->meta->size[i]), out);
    } else {
        cr_str_addf(out, "%s %s", strchr("aeiou", type[0]) ? "an" : "a", type);
        if (s->type == CR_T_INT && s->expr) add_symbol_ranges(env, s->expr, out);
    }
}

static void add_found(const cr_npy *a, cr_str *out) {
    if (a->dtype < RT_DTYPE_COUNT) cr_str_add(out, rt_dtype_name(a->dtype));
    else cr_str_addf(out, "raw elements of %d byte%s", a->width, a->width == 1 ? "" : "s");
    cr_str_addc(out, ' ');
    cr_shape_print(NULL, a->rank, a->size, out);
}

/* "input 'x': expected float32 [3], found float64 [3]", then `because` with what it begins with. */
static cr_status refuse(const binder *b, const cr__slot *s, const cr_str *found, const char *because) {
    cr_str expected;
    cr_str_init(&expected);
    add_expected(b->env, s, &expected);
    cr_status status = CR_FAIL(CR_EVALUE, "%s%sinput '%s': expected %s, found %s%s", b->file ? b->file : "",
                               b->file ? ": " : "", s->shown.name, cr_str_get(&expected), cr_str_get(found), because);
    cr_str_dispose(&expected);
    return status;
}

static cr_status mismatch(const binder *b, const cr__slot *s, const cr_npy *a, const char *because) {
    cr_str found;
    cr_str_init(&found);
    add_found(a, &found);
    cr_status status = refuse(b, s, &found, because);
    cr_str_dispose(&found);
    return status;
}

static cr_status value_mismatch(const binder *b, const cr__slot *s, const cr_arg *a, const char *because) {
    cr_str found;
    cr_str_init(&found);
    cr_arg_print(b->env, a, &found);
    cr_status status = refuse(b, s, &found, because);
    cr_str_dispose(&found);
    return status;
}

/* ---- tensors ---- */

/* What arrays stand in for a dtype that NumPy lacks; RT_DTYPE_COUNT: nothing does. */
static int stand_in(int dtype) {
    if (dtype == RT_BF16 || (dtype >= RT_F8E4M3FN && dtype <= RT_F8E8M0FNU)) return RT_F32;
    return dtype == RT_C32 ? RT_C64 : RT_DTYPE_COUNT;
}

static cr_status check_dtype(const binder *b, const cr__slot *s, const cr_npy *a, bool is_file) {
    int want = s->meta->dtype, other = is_file ? stand_in(want) : RT_DTYPE_COUNT;
    char because[128];
    if (a->dtype == want || (a->dtype < RT_DTYPE_COUNT && a->dtype == other)) return CR_OK;
    if (a->dtype == RT_DTYPE_COUNT && other != RT_DTYPE_COUNT && a->width == rt_itemsize(want)) return CR_OK;
    if (!is_file) return mismatch(b, s, a, ": the dtype differs");
    snprintf(because, sizeof because, ": the dtype differs; convert the array: a.astype('%s')",
             rt_dtype_name(other == RT_DTYPE_COUNT ? want : other));
    return mismatch(b, s, a, because);
}

/* A symbol has one value: the first input that has it says which. */
static cr_status bind_symbol(binder *b, const cr__slot *s, const cr_npy *a, int i, cr_sym e) {
    char because[160];
    cr_range r = cr_sym_range(b->env, e);
    if (a->size[i] < r.lo || a->size[i] > r.hi) {
        snprintf(because, sizeof because, ": dimension %d is %lld, outside its range", i, (long long)a->size[i]);
        return mismatch(b, s, a, because);
    }
    size_t k = 0;
    while (k < b->symbols.n && b->symbols.at[k].symbol != e) k++;
    if (k == b->symbols.n) return cr_vec_push(&b->symbols, (symbol_value){ e, a->size[i], s->shown.name, i });
    const symbol_value *first = &b->symbols.at[k];
    if (first->value == a->size[i]) return CR_OK;
    snprintf(because, sizeof because, ": dimension %d is %lld, but dimension %d of '%.40s' is %lld", i,
             (long long)a->size[i], first->dim, first->input, (long long)first->value);
    return mismatch(b, s, a, because);
}

static cr_status check_sizes(binder *b, const cr__slot *s, const cr_npy *a) {
    char because[128];
    const cr_meta *want = s->meta;
    if (a->rank != want->rank) {
        snprintf(because, sizeof because, ": it has %d dimension%s, not %d", a->rank, a->rank == 1 ? "" : "s",
                 want->rank);
        return mismatch(b, s, a, because);
    }
    for (int i = 0; i < a->rank; i++) {
        if (cr_dim_is_plain(want->size[i])) {
            if (a->size[i] == want->size[i]) continue;
            snprintf(because, sizeof because, ": dimension %d is %lld, not %lld", i, (long long)a->size[i],
                     (long long)want->size[i]);
            return mismatch(b, s, a, because);
        }
        cr_sym e = cr_dim_sym(b->env, want->size[i]);
        if (e && cr_sym_kind_of(e) == CR_SYM_SYMBOL) CR_TRY(bind_symbol(b, s, a, i, e)); /* others: check_computed */
    }
    return CR_OK;
}

static bool lookup(void *user, cr_sym symbol, cr_sym_value *out) {
    const binder *b = user;
    for (size_t i = 0; i < b->symbols.n; i++)
        if (b->symbols.at[i].symbol == symbol)
            return *out = (cr_sym_value){ .type = CR_TYPE_INT, .i = b->symbols.at[i].value }, true;
    return false;
}

/* Sizes such as 2*s0, once every input has given its symbols a value. What stays open, the run itself decides. */
static cr_status check_computed(binder *b, const cr__slot *s, const cr_npy *a) {
    for (int i = 0; s->meta && s->type == CR_T_TENSOR && i < a->rank; i++) {
        cr_sym_value value;
        if (cr_dim_is_plain(s->meta->size[i])) continue;
        cr_sym e = cr_dim_sym(b->env, s->meta->size[i]);
        if (!e || cr_sym_kind_of(e) == CR_SYM_SYMBOL) continue;
        cr_status status = cr_sym_eval(e, lookup, b, &value);
        if (status == CR_ENOMEM) return status;
        if (status || value.i == a->size[i]) continue;
        char because[128];
        snprintf(because, sizeof because, ": dimension %d is %lld, not %lld", i, (long long)a->size[i],
                 (long long)value.i);
        return mismatch(b, s, a, because);
    }
    return CR_OK;
}

static cr_status make_tensor(const cr__slot *s, const cr_npy *a, cr_arg *out) {
    cr_tensor *tensor = NULL;
    int dtype = s->meta->dtype;
    CR_TRY(cr_tensor_empty(dtype, a->rank, a->size, &tensor));
    if (a->dtype == dtype || a->dtype == RT_DTYPE_COUNT) {
        if (a->bytes) cr_npy_copy(a, tensor->storage->data);
    } else if (a->bytes) { /* a stand-in: rounded to nearest */
        void *wide = cr_alloc(a->bytes);
        if (!wide) return cr_tensor_release(tensor), CR_ENOMEM;
        cr_npy_copy(a, wide);
        rt_convert(dtype, tensor->storage->data, 1, a->dtype, wide, 1,
                   (int64_t)(a->bytes / (uint64_t)rt_itemsize(a->dtype)));
        cr_free(wide);
    }
    *out = cr_arg_tensor(tensor);
    return CR_OK;
}

/* ---- numbers ---- */

static bool read_number(const cr_npy *a, cr_arg *out) {
    union {
        int64_t i;
        double f;
        uint8_t bytes[16];
    } one = { 0 };
    if (a->rank != 0 || a->dtype >= RT_DTYPE_COUNT || rt_is_complex(a->dtype)) return false;
    cr_npy_copy(a, one.bytes);
    if (a->dtype == RT_BOOL) {
        *out = cr_arg_bool(one.bytes[0] != 0);
    } else if (rt_is_float(a->dtype)) {
        double f;
        rt_convert(RT_F64, &f, 1, a->dtype, one.bytes, 1, 1);
        *out = cr_arg_float(f);
    } else {
        int64_t i;
        rt_convert(RT_I64, &i, 1, a->dtype, one.bytes, 1, 1);
        *out = cr_arg_int(i);
    }
    return true;
}

static bool number_fits(const cr__slot *s, const cr_arg *a) {
    switch (s->type) {
    case CR_T_INT: return a->kind == CR_ARG_INT;
    case CR_T_BOOL: return a->kind == CR_ARG_BOOL;
    default: return cr_arg_is_number(a);
    }
}

static bool same_number(const cr_arg *a, const cr_arg *b) {
    rt_scalar x = cr_arg_scalar(a), y = cr_arg_scalar(b);
    if (x.kind == RT_ARG_INT && y.kind == RT_ARG_INT) return x.i == y.i;
    double fx = x.kind == RT_ARG_INT ? (double)x.i : x.f, fy = y.kind == RT_ARG_INT ? (double)y.i : y.f;
    return fx == fy || (fx != fx && fy != fy);
}

/* None, or the text that the export fixed: numbers are compared by value, tensors never are fixed. */
static bool is_that_constant(const cr_arg *want, const cr_arg *a) {
    if (cr_arg_is_number(want) && cr_arg_is_number(a)) return same_number(want, a);
    if (want->kind != a->kind) return false;
    return want->kind == CR_ARG_NONE ||
           (want->kind == CR_ARG_STR && want->n == a->n && !memcmp(want->u.s, a->u.s, a->n));
}

static cr_status bind_number(binder *b, const cr__slot *s, cr_arg a, cr_arg *out) {
    if (s->shown.is_constant) {
        if (!is_that_constant(&s->shown.constant, &a)) return value_mismatch(b, s, &a, "");
        *out = s->shown.constant;
        return CR_OK;
    }
    if (!number_fits(s, &a)) return value_mismatch(b, s, &a, "");
    if (s->type == CR_T_FLOAT && a.kind != CR_ARG_FLOAT && a.kind != CR_ARG_COMPLEX) a = cr_arg_float((double)a.u.i);
    if (s->type == CR_T_INT && s->expr && cr_sym_kind_of(s->expr) == CR_SYM_SYMBOL) {
        cr_range r = cr_sym_range(b->env, s->expr);
        if (a.u.i < r.lo || a.u.i > r.hi) return value_mismatch(b, s, &a, ": it is outside its range");
        CR_TRY(cr_vec_push(&b->symbols, (symbol_value){ s->expr, a.u.i, s->shown.name, 0 }));
    }
    *out = a;
    return CR_OK;
}

/* ---- one input ---- */

static cr_status bind_array(binder *b, const cr__slot *s, const cr_npy *a, cr_arg *out) {
    if (s->type != CR_T_TENSOR || s->shown.is_constant) {
        cr_arg number;
        if (read_number(a, &number)) return bind_number(b, s, number, out);
        return mismatch(b, s, a, s->shown.is_constant ? ": leave it out" : ": a number is an array without dimensions");
    }
    if (!s->meta)
        return CR_FAIL(CR_EUNSUPPORTED, "input '%s': the archive does not say its dtype and shape", s->shown.name);
    CR_TRY(check_dtype(b, s, a, true));
    CR_TRY(check_sizes(b, s, a));
    return make_tensor(s, a, out);
}

/* A tensor's shape as an array's: what is checked of both is the same. */
static cr_npy shape_of(const cr_tensor *t) {
    cr_npy a = { .dtype = t->meta.dtype, .rank = t->meta.rank };
    memcpy(a.size, t->meta.size, t->meta.rank * sizeof *a.size);
    return a;
}

static cr_status bind_value(binder *b, const cr__slot *s, const cr__given *g, cr_arg *out) {
    const cr_arg *a = &g->value;
    if (g->unchecked) {
        if (a->kind == CR_ARG_TENSOR) cr_tensor_retain(a->u.t);
        *out = *a;
        return CR_OK;
    }
    if (s->type != CR_T_TENSOR || s->shown.is_constant) return bind_number(b, s, *a, out);
    if (a->kind != CR_ARG_TENSOR) return value_mismatch(b, s, a, "");
    if (s->meta) {
        cr_npy shape = shape_of(a->u.t);
        CR_TRY(check_dtype(b, s, &shape, false));
        CR_TRY(check_sizes(b, s, &shape));
    }
    cr_tensor_retain(a->u.t);
    *out = *a;
    return CR_OK;
}

/* All inputs that were not given, in one message. */
static cr_status check_missing(const cr_inputs *in) {
    const cr_signature *sig = in->signature;
    const char *file = NULL;
    cr_str missing;
    cr_str_init(&missing);
    for (size_t i = 0; i < sig->ninputs; i++) {
        const cr__slot *s = &sig->inputs[i];
        if (in->given[i].file) file = in->given[i].file;
        if (in->given[i].kind != CR__ABSENT || s->shown.is_constant) continue;
        cr_str_addf(&missing, "%s'%s' (", missing.n ? ", " : "", s->shown.name);
        add_expected(sig->env, s, &missing);
        cr_str_addc(&missing, ')');
    }
    cr_status status = cr_str_status(&missing);
    if (!status && missing.n)
        status = CR_FAIL(CR_ENOTFOUND, "%s%smissing input %s", file ? file : "", file ? ": " : "",
                         cr_str_get(&missing));
    cr_str_dispose(&missing);
    return status;
}

static cr_status bind_all(cr_inputs *in, binder *b) {
    const cr_signature *sig = in->signature;
    for (size_t i = 0; i < sig->ninputs; i++) {
        const cr__given *g = &in->given[i];
        const cr__slot *s = &sig->inputs[i];
        b->file = g->file;
        if (g->kind == CR__ABSENT) in->args[i] = s->shown.constant;
        else if (g->kind == CR__ARRAY) CR_TRY(bind_array(b, s, &g->array, &in->args[i]));
        else CR_TRY(bind_value(b, s, g, &in->args[i]));
    }
    for (size_t i = 0; i < sig->ninputs; i++) {
        const cr__given *g = &in->given[i];
        b->file = g->file;
        if (g->kind == CR__ARRAY) CR_TRY(check_computed(b, &sig->inputs[i], &g->array));
        if (g->kind != CR__VALUE || g->unchecked || g->value.kind != CR_ARG_TENSOR) continue;
        cr_npy shape = shape_of(g->value.u.t);
        CR_TRY(check_computed(b, &sig->inputs[i], &shape));
    }
    return CR_OK;
}

/* ---- the set ---- */

static void drop_args(cr_inputs *in) {
    for (size_t i = 0; in->args && i < in->signature->ninputs; i++) {
        if (in->args[i].kind == CR_ARG_TENSOR) cr_tensor_release(in->args[i].u.t);
        in->args[i] = cr_arg_none();
    }
}

static void drop_given(cr__given *g) {
    if (g->kind == CR__VALUE && g->value.kind == CR_ARG_TENSOR) cr_tensor_release(g->value.u.t);
    if (g->mapped) cr_mapping_close(&g->mapping);
    cr_npz_release(g->npz);
    *g = (cr__given){ .kind = CR__ABSENT };
}

cr_status cr_inputs_create(cr_signature *s, cr_inputs **out) {
    cr_inputs *in = cr_calloc(1, sizeof *in);
    if (!in) return CR_ENOMEM;
    cr_signature_retain(in->signature = s);
    cr_arena_init(&in->arena);
    in->given = cr_calloc(s->ninputs + 1, sizeof *in->given);
    in->args = cr_calloc(s->ninputs + 1, sizeof *in->args);
    if (!in->given || !in->args) return cr_inputs_release(in), CR_ENOMEM;
    *out = in;
    return CR_OK;
}

void cr_inputs_release(cr_inputs *in) {
    if (!in) return;
    drop_args(in);
    for (size_t i = 0; in->given && i < in->signature->ninputs; i++) drop_given(&in->given[i]);
    cr_free(in->given);
    cr_free(in->args);
    cr_arena_dispose(&in->arena);
    cr_signature_release(in->signature);
    cr_free(in);
}

void cr__inputs_put(cr_inputs *in, size_t i, cr_arg value, bool unchecked) {
    drop_args(in);
    drop_given(&in->given[i]);
    in->given[i] = (cr__given){ .kind = CR__VALUE, .value = value, .unchecked = unchecked };
}

static cr_status find(const cr_inputs *in, const char *file, const char *name, size_t *out) {
    const cr_signature *s = in->signature;
    if (cr_signature_find(s, name, out)) return CR_OK;
    cr_str names;
    cr_str_init(&names);
    for (size_t i = 0; i < s->ninputs; i++)
        if (!s->inputs[i].shown.is_constant) cr_str_addf(&names, "%s%s", names.n ? ", " : "", s->inputs[i].shown.name);
    cr_status status = CR_FAIL(CR_ENOTFOUND, "%s%sthe program has no input '%s', expected %s", file ? file : "",
                               file ? ": " : "", name, names.n ? cr_str_get(&names) : "none");
    cr_str_dispose(&names);
    return status;
}

cr_status cr_inputs_set(cr_inputs *in, const char *name, const cr_arg *value) {
    size_t i;
    CR_TRY(find(in, NULL, name, &i));
    if (value->kind == CR_ARG_TENSOR) {
        cr_tensor_retain(value->u.t);
    } else if (value->kind == CR_ARG_STR) {
        char *text = cr_arena_strndup(&in->arena, value->u.s, value->n);
        if (!text) return CR_ENOMEM;
        cr__inputs_put(in, i, cr_arg_str(text), false);
        return CR_OK;
    } else if (!cr_arg_is_number(value) && value->kind != CR_ARG_NONE) {
        return CR_FAIL(CR_ETYPE,
                       "input '%s': expected a tensor, a number, a text or none, found an argument of kind %d", name,
                       value->kind);
    }
    cr__inputs_put(in, i, *value, false);
    return CR_OK;
}

cr_status cr_inputs_set_file(cr_inputs *in, const char *name, const char *path) {
    size_t i;
    cr__given g = { .kind = CR__ARRAY };
    CR_TRY(find(in, NULL, name, &i));
    cr_status status = cr_mapping_open(&g.mapping, path);
    if (!status) {
        g.mapped = true;
        status = cr_npy_parse(g.mapping.data, g.mapping.size, &g.array);
        if (status == CR_EFORMAT || status == CR_EUNSUPPORTED) status = cr_error_context(status, "%s", path);
    }
    if (status) {
        drop_given(&g);
        return cr_error_context(status, "input '%s'", name);
    }
    drop_args(in);
    drop_given(&in->given[i]);
    in->given[i] = g;
    return CR_OK;
}

cr_status cr_inputs_set_npz(cr_inputs *in, const char *path) {
    cr_npz *npz = NULL;
    CR_TRY(cr_npz_open(path, &npz));
    const char *file = cr_arena_strdup(&in->arena, path);
    cr_status status = file ? CR_OK : CR_ENOMEM;
    for (size_t k = 0; k < cr_npz_count(npz) && !status; k++) {
        size_t i;
        CR_TRY_OUT(find(in, file, cr_npz_name(npz, k), &i));
    }
    if (!status) drop_args(in);
    for (size_t k = 0; k < cr_npz_count(npz) && !status; k++) {
        size_t i;
        if (!cr_signature_find(in->signature, cr_npz_name(npz, k), &i)) continue;
        drop_given(&in->given[i]);
        in->given[i] = (cr__given){ .kind = CR__ARRAY, .array = *cr_npz_at(npz, k), .npz = npz, .file = file };
        cr_npz_retain(npz);
    }
out:
    cr_npz_release(npz);
    return status;
}

const cr_arg *cr__example_of(const cr_inputs *in, const cr_program *p, size_t i) {
    return p && p->nexample == in->signature->ninputs ? &p->example[i] : NULL;
}

cr_status cr_inputs_set_example(cr_inputs *in, const cr_program *p) {
    if (!cr_program_has_example(p) || p->nexample != in->signature->ninputs) {
        if (p->example_problem)
            return CR_FAIL(CR_EVALUE, "the archive's example inputs cannot be read: %s", p->example_problem);
        return CR_FAIL(CR_EVALUE, "the archive holds no example inputs");
    }
    for (size_t i = 0; i < p->nexample; i++) {
        if (in->signature->inputs[i].shown.is_constant) continue; /* has the value that the export fixed */
        if (p->example[i].kind == CR_ARG_TENSOR) cr_tensor_retain(p->example[i].u.t);
        cr__inputs_put(in, i, p->example[i], true);
    }
    return CR_OK;
}

cr_status cr_inputs_args(cr_inputs *in, const cr_arg **args, size_t *n) {
    binder b = { .env = in->signature->env };
    pthread_mutex_t *lock = cr__signature_lock(in->signature);
    drop_args(in);
    pthread_mutex_lock(lock);
    cr_status status = check_missing(in);
    if (!status) status = bind_all(in, &b);
    pthread_mutex_unlock(lock);
    cr_vec_dispose(&b.symbols);
    if (status) {
        drop_args(in);
        return status;
    }
    *args = in->args;
    *n = in->signature->ninputs;
    return CR_OK;
}
