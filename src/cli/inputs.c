/* inputs.c: arrays by name become the arguments of a run.
 *
 * Everything that can be said about an input is said here, by its name, before the program sees it: which is missing or
 * unknown, dtype, rank, fixed sizes, ranges of dynamic ones, and sizes that must agree with another input's. NumPy has
 * no bfloat16, float8 or complex32: an input of such a dtype comes as float32 (complex64) and is rounded to nearest, or
 * as its raw bytes. */
#include "cli/arrays.h"

#include "runtime/rt_random.h"

#include <stdio.h>
#include <stdlib.h>

void input_set_dispose(input_set *set) {
    for (size_t i = 0; i < set->n; i++)
        if (set->args[i].kind == CR_ARG_TENSOR) cr_tensor_release(set->args[i].u.t);
    cr_free(set->args);
    *set = (input_set){ 0 };
}

/* ---- what was expected, what came ---- */

typedef struct symbol_value { cr_sym symbol; int64_t value; const char *input; int dim; } symbol_value;
typedef struct binder {
    model *m;
    const char *file; /* the .npz, or NULL: each input has its own file */
    input_set *set;
    CR_VEC(symbol_value) symbols;
} binder;

/* "float32 [s77, 4] with s77 from 2 to 64" */
static void add_symbol_ranges(const binder *b, cr_sym e, cr_str *out) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        cr_range r = cr_sym_range(b->m->env, e);
        if (r.lo == INT64_MIN && r.hi == INT64_MAX) return;
        cr_str_addf(out, "%s%s ", strstr(cr_str_get(out), " with ") ? ", " : " with ", cr_sym_name(e));
        model_add_range(r, out);
        return;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) add_symbol_ranges(b, cr_sym_operand(e, i), out);
}

static void add_expected(const binder *b, const model_slot *s, cr_str *out) {
    if (s->is_constant) {
        cr_str_addf(out, "the %s ", slot_type(s));
        if (s->constant.kind == CR_ARG_NONE) cr_str_add(out, "None");
        else cr_arg_print(b->m->env, &s->constant, out);
        cr_str_add(out, " that the export fixed");
    } else if (s->type == CR_T_TENSOR && s->meta) {
        cr_str_addf(out, "%s ", slot_type(s));
        slot_add_shape(b->m, s, out);
        for (int i = 0; i < s->meta->rank; i++)
            if (!cr_dim_is_plain(s->meta->size[i])) add_symbol_ranges(b, cr_dim_sym(b->m->env, s->meta->size[i]), out);
    } else {
        cr_str_addf(out, "%s %s", strchr("aeiou", slot_type(s)[0]) ? "an" : "a", slot_type(s));
        if (s->type == CR_T_INT && s->expr) add_symbol_ranges(b, s->expr, out);
    }
}

static void add_found(const cr_npy *a, cr_str *out) {
    if (a->dtype < RT_DTYPE_COUNT) cr_str_add(out, rt_dtype_name(a->dtype));
    else cr_str_addf(out, "raw elements of %d byte%s", a->width, a->width == 1 ? "" : "s");
    cr_str_addc(out, ' ');
    cr_shape_print(NULL, a->rank, a->size, out);
}

/* "input 'x': expected float32 [3], found float64 [3]", then `because`. */
static cr_status mismatch(const binder *b, const model_slot *s, const cr_npy *a, const char *because) {
    cr_str expected, found;
    cr_str_init(&expected);
    cr_str_init(&found);
    add_expected(b, s, &expected);
    add_found(a, &found);
    cr_status status = CR_FAIL(CR_EVALUE, "%s%sinput '%s': expected %s, found %s%s%s", b->file ? b->file : "",
                               b->file ? ": " : "", s->name, cr_str_get(&expected), cr_str_get(&found),
                               because[0] ? ": " : "", because);
    cr_str_dispose(&expected);
    cr_str_dispose(&found);
    return status;
}

/* ---- tensors ---- */

/* What arrays stand in for a dtype that NumPy lacks; RT_DTYPE_COUNT: nothing does. */
static int stand_in(int dtype) {
    if (dtype == RT_BF16 || (dtype >= RT_F8E4M3FN && dtype <= RT_F8E8M0FNU)) return RT_F32;
    return dtype == RT_C32 ? RT_C64 : RT_DTYPE_COUNT;
}

static cr_status check_dtype(const binder *b, const model_slot *s, const cr_npy *a) {
    int want = s->meta->dtype, other = stand_in(want);
    if (a->dtype == want || (a->dtype < RT_DTYPE_COUNT && a->dtype == other)) return CR_OK;
    if (a->dtype == RT_DTYPE_COUNT && other != RT_DTYPE_COUNT && a->width == rt_itemsize(want)) return CR_OK;
    const char *name = rt_dtype_name(other == RT_DTYPE_COUNT ? want : other);
    cli_hint("convert the array: a.astype('%s')", name);
    return mismatch(b, s, a, "the dtype differs");
}

static cr_status check_sizes(binder *b, const model_slot *s, const cr_npy *a) {
    char because[128];
    const cr_meta *want = s->meta;
    if (a->rank != want->rank) {
        snprintf(because, sizeof because, "it has %d dimension%s, not %d", a->rank, a->rank == 1 ? "" : "s",
                 want->rank);
        return mismatch(b, s, a, because);
    }
    for (int i = 0; i < a->rank; i++) {
        if (cr_dim_is_plain(want->size[i])) {
            if (a->size[i] == want->size[i]) continue;
            snprintf(because, sizeof because, "dimension %d is %lld, not %lld", i, (long long)a->size[i],
                     (long long)want->size[i]);
            return mismatch(b, s, a, because);
        }
        cr_sym e = cr_dim_sym(b->m->env, want->size[i]);
        if (!e || cr_sym_kind_of(e) != CR_SYM_SYMBOL) continue; /* computed from others: see check_computed */
        cr_range r = cr_sym_range(b->m->env, e);
        if (a->size[i] < r.lo || a->size[i] > r.hi) {
            snprintf(because, sizeof because, "dimension %d is %lld, outside its range", i, (long long)a->size[i]);
            return mismatch(b, s, a, because);
        }
        size_t k = 0;
        while (k < b->symbols.n && b->symbols.at[k].symbol != e) k++;
        if (k == b->symbols.n) {
            CR_TRY(cr_vec_push(&b->symbols, (symbol_value){ e, a->size[i], s->name, i }));
        } else if (b->symbols.at[k].value != a->size[i]) {
            snprintf(because, sizeof because, "dimension %d is %lld, but dimension %d of '%.40s' is %lld", i,
                     (long long)a->size[i], b->symbols.at[k].dim, b->symbols.at[k].input,
                     (long long)b->symbols.at[k].value);
            return mismatch(b, s, a, because);
        }
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
static cr_status check_computed(binder *b, const model_slot *s, const cr_npy *a) {
    for (int i = 0; s->meta && s->type == CR_T_TENSOR && i < a->rank; i++) {
        cr_sym_value value;
        if (cr_dim_is_plain(s->meta->size[i])) continue;
        cr_sym e = cr_dim_sym(b->m->env, s->meta->size[i]);
        if (!e || cr_sym_kind_of(e) == CR_SYM_SYMBOL) continue;
        cr_status status = cr_sym_eval(e, lookup, b, &value);
        if (status == CR_ENOMEM) return status;
        if (status || value.i == a->size[i]) continue;
        char because[128];
        snprintf(because, sizeof because, "dimension %d is %lld, not %lld", i, (long long)a->size[i],
                 (long long)value.i);
        return mismatch(b, s, a, because);
    }
    return CR_OK;
}

static cr_status make_tensor(const model_slot *s, const cr_npy *a, cr_arg *out) {
    cr_meta meta;
    cr_tensor *tensor = NULL;
    int dtype = s->meta->dtype;
    cr_meta_init(&meta, dtype, s->meta->device);
    meta.device = (cr_device){ CR_CPU, -1 };
    CR_TRY(cr_meta_set_dense(NULL, &meta, a->rank, a->size, CR_CONTIGUOUS));
    CR_TRY(cr_tensor_create(&meta, &tensor));
    if (a->dtype == dtype || a->dtype == RT_DTYPE_COUNT) {
        if (a->bytes) cr_npy_copy(a, tensor->storage->data);
    } else if (a->bytes) { /* a stand-in: rounded to nearest */
        void *wide = cr_alloc(a->bytes);
        if (!wide) {
            cr_tensor_release(tensor);
            return CR_ENOMEM;
        }
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
    union { int64_t i; double f; uint8_t bytes[16]; } one = { 0 };
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

static bool number_fits(const model_slot *s, const cr_arg *a) {
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

static cr_status number_mismatch(const binder *b, const model_slot *s, const cr_arg *a, const char *because) {
    cr_str expected, found;
    cr_str_init(&expected);
    cr_str_init(&found);
    add_expected(b, s, &expected);
    cr_arg_print(b->m->env, a, &found);
    cr_status status = CR_FAIL(CR_EVALUE, "%s%sinput '%s': expected %s, found %s%s", b->file ? b->file : "",
                               b->file ? ": " : "", s->name, cr_str_get(&expected), cr_str_get(&found), because);
    cr_str_dispose(&expected);
    cr_str_dispose(&found);
    return status;
}

static cr_status bind_number(binder *b, const model_slot *s, cr_arg *a, cr_arg *out) {
    if (s->is_constant) {
        if (!cr_arg_is_number(&s->constant) || !same_number(&s->constant, a)) return number_mismatch(b, s, a, "");
        *out = s->constant;
        return CR_OK;
    }
    if (!number_fits(s, a)) return number_mismatch(b, s, a, "");
    if (s->type == CR_T_FLOAT && a->kind != CR_ARG_FLOAT) *a = cr_arg_float((double)a->u.i);
    if (s->type == CR_T_INT && s->expr && cr_sym_kind_of(s->expr) == CR_SYM_SYMBOL) {
        cr_range r = cr_sym_range(b->m->env, s->expr);
        if (a->u.i < r.lo || a->u.i > r.hi) return number_mismatch(b, s, a, ": it is outside its range");
        CR_TRY(cr_vec_push(&b->symbols, (symbol_value){ s->expr, a->u.i, s->name, 0 }));
    }
    *out = *a;
    return CR_OK;
}

/* ---- one set ---- */

static cr_status bind_array(binder *b, const model_slot *s, const cr_npy *a, cr_arg *out) {
    if (s->type != CR_T_TENSOR || s->is_constant) {
        cr_arg number;
        if (!read_number(a, &number))
            return mismatch(b, s, a, s->is_constant ? "leave it out" : "a number is an array without dimensions");
        return bind_number(b, s, &number, out);
    }
    if (!s->meta) return CR_FAIL(CR_EUNSUPPORTED, "input '%s': the archive does not say its dtype and shape", s->name);
    CR_TRY(check_dtype(b, s, a));
    CR_TRY(check_sizes(b, s, a));
    return make_tensor(s, a, out);
}

static cr_status find_slot(const binder *b, const char *name, size_t *out) {
    const model *m = b->m;
    for (size_t i = 0; i < m->ninputs; i++)
        if (!strcmp(m->inputs[i].name, name)) return *out = i, CR_OK;
    cr_str names;
    cr_str_init(&names);
    for (size_t i = 0; i < m->ninputs; i++)
        if (!m->inputs[i].is_constant) cr_str_addf(&names, "%s%s", names.n ? ", " : "", m->inputs[i].name);
    cr_status status = CR_FAIL(CR_EVALUE, "%s%sthe program has no input '%s', expected %s", b->file ? b->file : "",
                               b->file ? ": " : "", name, names.n ? cr_str_get(&names) : "none");
    cr_str_dispose(&names);
    cli_hint("'cresset info FILE' shows the inputs");
    return status;
}

static cr_status begin_set(model *m, input_set *set) {
    set->args = cr_calloc(m->ninputs + 1, sizeof *set->args);
    if (!set->args) return CR_ENOMEM;
    set->n = m->ninputs;
    return CR_OK;
}

/* All inputs that were not given, in one message; fixed ones take their values. */
static cr_status fill_rest(const binder *b, const bool *given) {
    const model *m = b->m;
    cr_str missing;
    cr_str_init(&missing);
    for (size_t i = 0; i < m->ninputs; i++) {
        if (given[i]) continue;
        const model_slot *s = &m->inputs[i];
        if (s->is_constant) {
            b->set->args[i] = s->constant;
            continue;
        }
        cr_str_addf(&missing, "%s'%s' (", missing.n ? ", " : "", s->name);
        add_expected(b, s, &missing);
        cr_str_addc(&missing, ')');
    }
    cr_status status = cr_str_status(&missing);
    if (!status && missing.n) {
        status = CR_FAIL(CR_EVALUE, "%s%smissing input %s", b->file ? b->file : "", b->file ? ": " : "",
                         cr_str_get(&missing));
        cli_hint(b->file ? "store it in the .npz under that name" : "give it with --input NAME=FILE.npy");
    }
    cr_str_dispose(&missing);
    return status;
}

cr_status inputs_from_npz(model *m, const char *path, input_set *out) {
    cr_npz *npz = NULL;
    input_set set = { 0 };
    binder b = { .m = m, .file = path, .set = &set };
    bool *given = NULL;
    const cr_npy **arrays = NULL;
    cr_status status = cr_npz_open(path, &npz);
    if (status) {
        if (status == CR_EFORMAT) cli_hint("numpy.savez writes such files");
        return status;
    }
    CR_TRY_OUT(begin_set(m, &set));
    given = cr_calloc(m->ninputs + 1, sizeof *given);
    arrays = cr_calloc(m->ninputs + 1, sizeof *arrays);
    if (!given || !arrays) {
        status = CR_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < cr_npz_count(npz); i++) {
        size_t slot;
        CR_TRY_OUT(find_slot(&b, cr_npz_name(npz, i), &slot));
        arrays[slot] = cr_npz_at(npz, i);
        given[slot] = true;
    }
    CR_TRY_OUT(fill_rest(&b, given));
    for (size_t i = 0; i < m->ninputs; i++)
        if (given[i]) CR_TRY_OUT(bind_array(&b, &m->inputs[i], arrays[i], &set.args[i]));
    for (size_t i = 0; i < m->ninputs; i++)
        if (given[i]) CR_TRY_OUT(check_computed(&b, &m->inputs[i], arrays[i]));
    *out = set;
    set = (input_set){ 0 };
out:
    input_set_dispose(&set);
    cr_free(given);
    cr_free(arrays);
    cr_vec_dispose(&b.symbols);
    cr_npz_release(npz);
    return status;
}

/* ---- NAME=FILE ---- */

typedef struct pair {
    char *name;
    const char *value;
    cr_mapping file;
    cr_npy array;
    bool mapped, number;
    cr_arg literal;
} pair;

static bool parse_literal(const char *text, cr_arg *out) {
    char *end;
    if (!strcmp(text, "true") || !strcmp(text, "True") || !strcmp(text, "false") || !strcmp(text, "False"))
        return *out = cr_arg_bool(text[0] == 't' || text[0] == 'T'), true;
    if (!*text) return false;
    long long i = strtoll(text, &end, 10);
    if (!*end) return *out = cr_arg_int(i), true;
    double f = cr_strtod(text, &end);
    return !*end ? (*out = cr_arg_float(f), true) : false;
}

static cr_status open_pair(binder *b, const char *text, pair *p, size_t *slot) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        cli_hint("write --input NAME=FILE.npy");
        return cli_misuse("--input has the value '%s'", text);
    }
    p->name = cr_strndup(text, (size_t)(equals - text));
    if (!p->name) return CR_ENOMEM;
    p->value = equals + 1;
    CR_TRY(find_slot(b, p->name, slot));
    const model_slot *s = &b->m->inputs[*slot];
    if ((s->type != CR_T_TENSOR || s->is_constant) && parse_literal(p->value, &p->literal))
        return p->number = true, CR_OK;
    cr_status status = cr_mapping_open(&p->file, p->value);
    if (!status) {
        p->mapped = true;
        status = cr_npy_parse(p->file.data, p->file.size, &p->array);
        if (status == CR_EFORMAT) cli_hint("numpy.save writes such files");
        if (status == CR_EFORMAT || status == CR_EUNSUPPORTED) status = cr_error_context(status, "%s", p->value);
    }
    return status ? cr_error_context(status, "input '%s'", p->name) : CR_OK;
}

cr_status inputs_from_pairs(model *m, const char *const *texts, size_t n, input_set *out) {
    input_set set = { 0 };
    binder b = { .m = m, .set = &set };
    cr_status status = CR_OK;
    pair *pairs = cr_calloc(n + 1, sizeof *pairs);
    size_t *slots = cr_calloc(n + 1, sizeof *slots);
    bool *given = cr_calloc(m->ninputs + 1, sizeof *given);
    if (!pairs || !slots || !given) {
        status = CR_ENOMEM;
        goto out;
    }
    CR_TRY_OUT(begin_set(m, &set));
    for (size_t i = 0; i < n; i++) {
        CR_TRY_OUT(open_pair(&b, texts[i], &pairs[i], &slots[i]));
        if (given[slots[i]]) {
            status = cli_misuse("input '%s' was given twice", pairs[i].name);
            goto out;
        }
        given[slots[i]] = true;
    }
    CR_TRY_OUT(fill_rest(&b, given));
    for (size_t i = 0; i < n; i++) {
        const model_slot *s = &m->inputs[slots[i]];
        if (pairs[i].number) CR_TRY_OUT(bind_number(&b, s, &pairs[i].literal, &set.args[slots[i]]));
        else CR_TRY_OUT(bind_array(&b, s, &pairs[i].array, &set.args[slots[i]]));
    }
    for (size_t i = 0; i < n; i++)
        if (!pairs[i].number) CR_TRY_OUT(check_computed(&b, &m->inputs[slots[i]], &pairs[i].array));
    *out = set;
    set = (input_set){ 0 };
out:
    for (size_t i = 0; pairs && i < n; i++) {
        cr_free(pairs[i].name);
        if (pairs[i].mapped) cr_mapping_close(&pairs[i].file);
    }
    cr_free(pairs);
    cr_free(slots);
    cr_free(given);
    cr_vec_dispose(&b.symbols);
    input_set_dispose(&set);
    return status;
}

/* ---- example and random inputs ---- */

cr_status inputs_example(model *m, input_set *out) {
    const cr_program *p = m->program;
    if (!p) {
        cli_hint("use --inputs, --input or --random, or the archive that it was compiled from");
        return CR_FAIL(CR_EVALUE, "a compiled library holds no example inputs");
    }
    if (p->nexample != m->ninputs || (!p->nexample && m->ninputs)) {
        cli_hint("use --inputs, --input or --random");
        if (p->example_problem)
            return CR_FAIL(CR_EVALUE, "the archive's example inputs cannot be read: %s", p->example_problem);
        return CR_FAIL(CR_EVALUE, "the archive holds no example inputs");
    }
    input_set set = { 0 };
    CR_TRY(begin_set(m, &set));
    for (size_t i = 0; i < set.n; i++) {
        set.args[i] = p->example[i];
        if (set.args[i].kind == CR_ARG_TENSOR) cr_tensor_retain(set.args[i].u.t);
    }
    *out = set;
    return CR_OK;
}

/* A size that the program accepts: the example's, else the hint that the archive kept, else the least of the range that
 * is neither 0 nor 1 (exports often treat those apart). */
static cr_status choose_size(binder *b, const cr_tensor *example, const cr_meta *meta, int i, int64_t *out) {
    cr_env *env = b->m->env;
    if (cr_dim_is_plain(meta->size[i])) return *out = meta->size[i], CR_OK;
    if (example && example->meta.rank == meta->rank) return *out = example->meta.size[i], CR_OK;
    cr_sym e = cr_dim_sym(env, meta->size[i]);
    if (!e) return CR_ENOMEM;
    if (cr_env_hint(env, e, out)) return CR_OK;
    cr_range r = cr_sym_range(env, e);
    *out = r.hi < 2 ? r.hi : CR_MAX(r.lo, 2);
    return CR_OK;
}

static int64_t largest_integer(const cr_tensor *t) {
    if (!t) return 1;
    rt_view v = cr_tensor_view(t);
    int64_t most = 0, n = rt_numel(&v), index[RT_MAX_RANK] = { 0 };
    for (int64_t k = 0; k < n; k++) {
        rt_scalar x;
        if (cr_tensor_item(t, index, &x)) return 1;
        most = CR_MAX(most, x.i);
        for (int d = v.rank - 1; d >= 0 && ++index[d] == v.size[d]; d--) index[d] = 0;
    }
    return most;
}

static cr_status random_tensor(binder *b, rt_generator *g, const model_slot *s, const cr_tensor *example, cr_arg *out) {
    cr_meta meta;
    int64_t size[CR_MAX_RANK], n = 1;
    if (!s->meta) return CR_FAIL(CR_EUNSUPPORTED, "input '%s': the archive does not say its dtype and shape", s->name);
    for (int i = 0; i < s->meta->rank; i++) CR_TRY(choose_size(b, example, s->meta, i, &size[i]));
    cr_meta_init(&meta, s->meta->dtype, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &meta, s->meta->rank, size, CR_CONTIGUOUS));
    cr_tensor *tensor;
    CR_TRY(cr_tensor_create(&meta, &tensor));
    for (int i = 0; i < meta.rank; i++) n *= size[i];
    bool whole = !rt_is_float(meta.dtype) && !rt_is_complex(meta.dtype);
    uint64_t most = whole && meta.dtype != RT_BOOL ? (uint64_t)largest_integer(example) + 1 : 2;
    char *at = tensor->storage->data;
    for (int64_t k = 0; k < n; k++, at += rt_itemsize(meta.dtype)) {
        if (whole) {
            int64_t value = (int64_t)(rt__word64(g) % most);
            rt_convert(meta.dtype, at, 1, RT_I64, &value, 1, 1);
        } else {
            double value[2] = { rt__normal(g), 0 };
            if (rt_is_complex(meta.dtype)) value[1] = rt__normal(g);
            rt_convert(meta.dtype, at, 1, rt_is_complex(meta.dtype) ? RT_C128 : RT_F64, value, 1, 1);
        }
    }
    *out = cr_arg_tensor(tensor);
    return CR_OK;
}

static void random_number(const binder *b, rt_generator *g, const model_slot *s, cr_arg *out) {
    int64_t i = 2;
    if (s->type == CR_T_FLOAT || s->type == CR_T_SCALAR) {
        *out = cr_arg_float(rt__unit(g));
    } else if (s->type == CR_T_BOOL) {
        *out = cr_arg_bool(rt__word(g) & 1);
    } else {
        if (s->expr && !cr_env_hint(b->m->env, s->expr, &i)) {
            cr_range r = cr_sym_range(b->m->env, s->expr);
            i = r.hi < 2 ? r.hi : CR_MAX(r.lo, 2);
        }
        *out = cr_arg_int(i);
    }
}

cr_status inputs_random(model *m, uint64_t seed, input_set *out) {
    const cr_program *p = m->program;
    input_set set = { 0 };
    binder b = { .m = m, .set = &set };
    rt_generator g;
    CR_TRY(begin_set(m, &set));
    rt_generator_init(&g, seed);
    cr_status status = CR_OK;
    for (size_t i = 0; i < m->ninputs && !status; i++) {
        const model_slot *s = &m->inputs[i];
        const cr_arg *example = p && p->nexample == m->ninputs ? &p->example[i] : NULL;
        if (s->is_constant) set.args[i] = s->constant;
        else if (s->type == CR_T_TENSOR)
            status = random_tensor(&b, &g, s, example && example->kind == CR_ARG_TENSOR ? example->u.t : NULL,
                                   &set.args[i]);
        else if (example && cr_arg_is_number(example)) set.args[i] = *example;
        else random_number(&b, &g, s, &set.args[i]);
    }
    rt_generator_dispose(&g);
    if (status) input_set_dispose(&set);
    else *out = set;
    return status;
}
