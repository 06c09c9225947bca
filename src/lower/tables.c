/* tables.c: see tables.h. */
#include "lower/tables.h"

/* ---- life ---- */

cr_status cr__method_init(cr__method *m, cr_lowered *l, cr__weights *w, const cr_graph *g) {
    *m = (cr__method){ .l = l, .weights = w, .g = g, .env = cr_graph_env(g) };
    cr_map_init(&m->slots);
    cr_map_init(&m->coming);
    cr_map_init(&m->storages);
    uint32_t n = cr_graph_value_count(g);
    m->window = cr_arena_alloc(&l->arena, (n + 1) * sizeof *m->window);
    if (!m->window) return CR_ENOMEM;
    for (uint32_t i = 0; i < n; i++) m->window[i] = -1;
    CR_TRY(cr_vec_push(&m->origins, "inputs and outputs")); /* origin 0: steps of no node */
    int32_t zero;
    return cr__slot_bits(m, CR_TYPE_INT, 0, &zero); /* slot 0 is the number 0 */
}

void cr__method_dispose(cr__method *m) {
    cr_vec_dispose(&m->waiting);
    cr_map_dispose(&m->slots);
    cr_map_dispose(&m->coming);
    cr_map_dispose(&m->storages);
    cr_vec_dispose(&m->constants);
    cr_vec_dispose(&m->when);
    cr_vec_dispose(&m->entry);
    cr_vec_dispose(&m->pending);
    cr_vec_dispose(&m->buffers);
    cr_vec_dispose(&m->extents);
    cr_vec_dispose(&m->windows);
    cr_vec_dispose(&m->dims);
    cr_vec_dispose(&m->lists);
    cr_vec_dispose(&m->args);
    cr_vec_dispose(&m->steps);
    cr_vec_dispose(&m->inputs);
    cr_vec_dispose(&m->binds);
    cr_vec_dispose(&m->outputs);
    cr_vec_dispose(&m->texts);
    cr_vec_dispose(&m->origins);
}

#define TABLE(field, n_field)                                                                \
    do {                                                                                     \
        t->field = cr_arena_copy(&m->l->arena, m->field.at ? (const void *)m->field.at : "", \
                                 m->field.n * sizeof *m->field.at);                          \
        if (!t->field) return CR_ENOMEM;                                                     \
        n_field = (int32_t)m->field.n;                                                       \
    } while (0)

cr_status cr__method_finish(cr__method *m, rt_method **out) {
    CR_TRY(cr__flush_numbers(m));
    if (!m->origins.n) CR_TRY(cr_vec_push(&m->origins, "")); /* steps that no node made name the first */
    rt_method *t = cr_arena_calloc(&m->l->arena, 1, sizeof *t);
    if (!t) return CR_ENOMEM;
    int32_t unused;
    TABLE(constants, t->nconstants);
    t->nslots = t->nconstants;
    TABLE(inputs, t->ninputs);
    TABLE(binds, t->nbinds);
    TABLE(entry, t->nentry);
    TABLE(buffers, t->nbuffers);
    TABLE(windows, t->nwindows);
    TABLE(dims, unused);
    TABLE(args, unused);
    TABLE(lists, unused);
    TABLE(texts, unused);
    TABLE(steps, t->nsteps);
    TABLE(outputs, t->noutputs);
    TABLE(origins, unused);
    (void)unused;
    t->writes_state = m->writes_state;
    *out = t;
    return CR_OK;
}

/* ---- numbers ---- */

cr_status cr__slot_new(cr__method *m, int when, int64_t bits, int32_t *out) {
    CR_TRY(cr_vec_push(&m->constants, bits));
    CR_TRY(cr_vec_push(&m->when, (uint8_t)when));
    *out = (int32_t)m->constants.n - 1;
    return CR_OK;
}

cr_status cr__slot_bits(cr__method *m, int type, int64_t bits, int32_t *out) {
    struct { int64_t type, bits; } key = { type, bits };
    uint64_t found;
    if (cr_map_find(&m->slots, &key, sizeof key, &found)) return *out = (int32_t)found, CR_OK;
    CR_TRY(cr__slot_new(m, CR__SLOT_CONSTANT, bits, out));
    return cr_map_put(&m->slots, &key, sizeof key, (uint64_t)*out);
}

int32_t cr__slot_find(const cr__method *m, cr_sym e) {
    uint64_t found;
    return cr_map_find(&m->slots, &e, sizeof e, &found) ? (int32_t)found : -1;
}

cr_status cr__slot_define(cr__method *m, cr_sym symbol, int when, int32_t *out) {
    CR_TRY(cr__slot_new(m, when, 0, out));
    return cr_map_put(&m->slots, &symbol, sizeof symbol, (uint64_t)*out);
}

static bool is_float(cr_sym e) { return cr_sym_type_of(e) == CR_TYPE_FLOAT; }

static cr_status compute(cr__method *m, rt_number_kind kind, int32_t a, int32_t b, int32_t c, int32_t *out) {
    bool late = m->when.at[a] == CR__SLOT_LATE || m->when.at[b] == CR__SLOT_LATE || m->when.at[c] == CR__SLOT_LATE;
    CR_TRY(cr__slot_new(m, late ? CR__SLOT_LATE : CR__SLOT_ENTRY, 0, out));
    rt_number n = { (uint8_t)kind, *out, a, b, c };
    return late ? cr_vec_push(&m->pending, n) : cr_vec_push(&m->entry, n);
}

/* An operand in the arithmetic of its expression: integers among floats are converted. */
static cr_status operand(cr__method *m, cr_sym e, bool real, int32_t *out) {
    CR_TRY(cr__slot(m, e, out));
    if (!real || is_float(e)) return CR_OK;
    return compute(m, RT_N_TOFLOAT, *out, 0, 0, out);
}

static cr_status slot_sum(cr__method *m, cr_sym e, int32_t *out) {
    bool real = is_float(e), first = true;
    int64_t constant = cr_sym_constant(e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) {
        int32_t term, factor;
        int64_t coefficient = cr_sym_coefficient(e, i);
        CR_TRY(operand(m, cr_sym_operand(e, i), real, &term));
        if (coefficient != 1) {
            if (real) return CR_FAIL(CR_EUNSUPPORTED, "a float sum with factors has no native form yet");
            CR_TRY(cr__slot_bits(m, CR_TYPE_INT, coefficient, &factor));
            CR_TRY(compute(m, RT_N_MUL, term, factor, 0, &term));
        }
        if (first) *out = term;
        else CR_TRY(compute(m, real ? RT_N_FADD : RT_N_ADD, *out, term, 0, out));
        first = false;
    }
    if (!constant) return CR_OK;
    int32_t slot;
    CR_TRY(cr__slot_bits(m, CR_TYPE_INT, constant, &slot));
    if (real) CR_TRY(compute(m, RT_N_TOFLOAT, slot, 0, 0, &slot));
    return compute(m, real ? RT_N_FADD : RT_N_ADD, *out, slot, 0, out);
}

/* Which instruction an operator is, on integers and on floats; -1: none. */
static const struct { cr_sym_kind kind; int whole, real; } operators[] = {
    { CR_SYM_MUL, RT_N_MUL, RT_N_FMUL },
    { CR_SYM_POW, RT_N_POW, RT_N_FPOW },
    { CR_SYM_FLOORDIV, RT_N_FLOORDIV, RT_N_FFLOORDIV },
    { CR_SYM_MOD, RT_N_MOD, RT_N_FMOD },
    { CR_SYM_CEILDIV, RT_N_CEILDIV, -1 },
    { CR_SYM_TRUNCDIV, RT_N_TRUNCDIV, -1 },
    { CR_SYM_CMOD, RT_N_CMOD, -1 },
    { CR_SYM_MIN, RT_N_MIN, RT_N_FMIN },
    { CR_SYM_MAX, RT_N_MAX, RT_N_FMAX },
    { CR_SYM_ABS, RT_N_ABS, -1 },
    { CR_SYM_BITAND, RT_N_BITAND, -1 },
    { CR_SYM_BITOR, RT_N_BITOR, -1 },
    { CR_SYM_TRUEDIV, RT_N_FDIV, RT_N_FDIV },
    { CR_SYM_TOFLOAT, RT_N_TOFLOAT, -1 },
    { CR_SYM_FLOOR, -1, RT_N_FLOOR },
    { CR_SYM_CEIL, -1, RT_N_CEIL },
    { CR_SYM_TRUNC, -1, RT_N_TRUNC },
    { CR_SYM_ROUND, -1, RT_N_ROUND },
    { CR_SYM_SQRT, -1, RT_N_FSQRT },
    { CR_SYM_WHERE, RT_N_WHERE, RT_N_WHERE },
    { CR_SYM_EQ, RT_N_EQ, RT_N_FEQ },
    { CR_SYM_NE, RT_N_NE, RT_N_FNE },
    { CR_SYM_LT, RT_N_LT, RT_N_FLT },
    { CR_SYM_LE, RT_N_LE, RT_N_FLE },
    { CR_SYM_AND, RT_N_AND, -1 },
    { CR_SYM_OR, RT_N_OR, -1 },
    { CR_SYM_NOT, RT_N_NOT, -1 },
};

static cr_status slot_operator(cr__method *m, cr_sym e, int32_t *out) {
    cr_sym_kind kind = cr_sym_kind_of(e);
    size_t n = cr_sym_operand_count(e);
    bool real = kind == CR_SYM_TRUEDIV || kind == CR_SYM_SQRT;
    for (size_t i = 0; i < n && kind != CR_SYM_WHERE; i++) real |= is_float(cr_sym_operand(e, i));
    for (size_t k = 0; k < CR_COUNT(operators); k++) {
        if (operators[k].kind != kind) continue;
        int op = real ? operators[k].real : operators[k].whole;
        int32_t at[3] = { 0, 0, 0 };
        if (op < 0 || !n) break;
        for (size_t i = 0; i < n && i < 3; i++) CR_TRY(operand(m, cr_sym_operand(e, i), real, &at[i]));
        if (n <= 2 || kind == CR_SYM_WHERE) return compute(m, (rt_number_kind)op, at[0], at[1], at[2], out);
        *out = at[0]; /* a product, minimum or conjunction of many */
        for (size_t i = 1; i < n; i++) {
            CR_TRY(operand(m, cr_sym_operand(e, i), real, &at[1]));
            CR_TRY(compute(m, (rt_number_kind)op, *out, at[1], 0, out));
        }
        return CR_OK;
    }
    cr_str text;
    cr_str_init(&text);
    cr_sym_print(e, &text);
    cr_status status = CR_FAIL(CR_EUNSUPPORTED, "the size %s has no native form", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

cr_status cr__slot(cr__method *m, cr_sym e, int32_t *out) {
    int64_t i;
    bool truth;
    if (!e) return CR_FAIL(CR_ENOMEM, "out of memory");
    *out = cr__slot_find(m, e);
    if (*out >= 0) return CR_OK;
    if (cr_sym_is_int(e, &i)) return cr__slot_bits(m, CR_TYPE_INT, i, out);
    if (cr_sym_is_bool(e, &truth)) return cr__slot_bits(m, CR_TYPE_INT, truth, out);
    if (cr_sym_kind_of(e) == CR_SYM_REAL) {
        double f = cr_sym_real(e);
        memcpy(&i, &f, sizeof i);
        return cr__slot_bits(m, CR_TYPE_FLOAT, i, out);
    }
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        /* what it must equal is asserted of it once it is there */
        bool coming = cr_map_find(&m->coming, &e, sizeof e, NULL);
        cr_sym simple = coming ? e : cr_sym_simplify(m->env, e);
        if (simple && simple != e) {
            CR_TRY(cr__slot(m, simple, out));
            return cr_map_put(&m->slots, &e, sizeof e, (uint64_t)*out);
        }
        return CR_FAIL(CR_EUNSUPPORTED, "the size %s is not given by any input or earlier result", cr_sym_name(e));
    }
    CR_TRY(cr_sym_kind_of(e) == CR_SYM_ADD ? slot_sum(m, e, out) : slot_operator(m, e, out));
    return cr_map_put(&m->slots, &e, sizeof e, (uint64_t)*out);
}

cr_status cr__slot_dim(cr__method *m, cr_dim d, int32_t *out) {
    if (d == CR_DIM_OVERFLOW) return CR_FAIL(CR_EOVERFLOW, "a size does not fit in 64 bits");
    if (cr_dim_is_plain(d)) return cr__slot_bits(m, CR_TYPE_INT, d, out);
    return cr__slot(m, cr_dim_sym(m->env, d), out);
}

cr_status cr__flush_numbers(cr__method *m) {
    if (!m->pending.n) return CR_OK;
    rt_number *copy = cr_arena_copy(&m->l->arena, m->pending.at, m->pending.n * sizeof *copy);
    if (!copy) return CR_ENOMEM;
    for (size_t at = 0; at < m->pending.n; at += UINT16_MAX) { /* as many as a step can count */
        rt_step s = { .kind = RT_STEP_NUMBERS,
                      .nargs = (uint16_t)CR_MIN(m->pending.n - at, (size_t)UINT16_MAX),
                      .origin = m->origin,
                      .u.numbers = copy + at };
        CR_TRY(cr_vec_push(&m->steps, s));
    }
    m->pending.n = 0;
    return CR_OK;
}

/* ---- memory ---- */

cr_status cr__weight_add(cr__weights *w, const cr_tensor *t, uint64_t *offset) {
    uint64_t id = t->storage->id;
    if (cr_map_find(&w->by_storage, &id, sizeof id, offset)) return CR_OK;
    uint64_t bytes = (uint64_t)t->storage->bytes;
    for (size_t i = 0; i < w->all.n; i++) /* equal bytes in another storage: the same model exported twice */
        if (w->all.at[i].bytes == bytes && bytes >= 4096 && !memcmp(w->all.at[i].data, t->storage->data, bytes)) {
            *offset = w->all.at[i].offset;
            return cr_map_put(&w->by_storage, &id, sizeof id, *offset);
        }
    *offset = (w->bytes + 63) & ~(uint64_t)63;
    CR_TRY(cr_vec_push(&w->all, (cr_weight){ t->storage->data, *offset, bytes }));
    w->bytes = *offset + bytes;
    return cr_map_put(&w->by_storage, &id, sizeof id, *offset);
}

cr_status cr__buffer_add(cr__method *m, rt_buffer b, uint64_t storage, cr_dim bytes, int32_t *out) {
    b.first = INT32_MAX;
    b.last = -1;
    CR_TRY(cr_vec_push(&m->buffers, b));
    CR_TRY(cr_vec_push(&m->extents, bytes));
    *out = (int32_t)m->buffers.n - 1;
    return storage ? cr_map_put(&m->storages, &storage, sizeof storage, (uint64_t)*out + 1) : CR_OK;
}

cr_status cr__buffer_weight(cr__method *m, const cr_tensor *t, int32_t *out) {
    uint64_t offset, found, id = t->storage->id;
    if (cr_map_find(&m->storages, &id, sizeof id, &found)) return *out = (int32_t)found - 1, CR_OK;
    CR_TRY(cr__weight_add(m->weights, t, &offset));
    return cr__buffer_add(m, (rt_buffer){ .kind = RT_BUFFER_WEIGHT, .offset = offset }, id, t->storage->bytes, out);
}

cr_dim cr__bytes_of(cr__method *m, const cr_meta *meta) {
    cr_dim last = meta->offset, n = 1;
    for (int d = 0; d < meta->rank; d++) {
        last = cr_dim_add(m->env, last, cr_dim_mul(m->env, cr_dim_sub(m->env, meta->size[d], 1), meta->stride[d]));
        n = cr_dim_mul(m->env, n, meta->size[d]);
    }
    if (cr_dim_known(m->env, n, CR_EQ, 0) == CR_YES) return 0;
    cr_dim bytes = cr_dim_mul(m->env, cr_dim_add(m->env, last, 1), rt_itemsize(meta->dtype));
    /* with no elements the sum may be negative */
    return cr_dim_known(m->env, n, CR_NE, 0) == CR_YES ? bytes : cr_dim_max(m->env, bytes, 0);
}

/* Expressions like n - 3 are sizes only where they are not negative. */
static cr_status check_not_negative(cr__method *m, cr_dim d) {
    cr_tri known = cr_dim_known(m->env, d, CR_GE, 0);
    if (known == CR_YES) return CR_OK;
    if (known == CR_NO) return CR_FAIL(CR_ERUNTIME, "a size or stride is negative; sizes are 0 or more");
    cr_sym condition = cr_sym_compare(m->env, cr_dim_sym(m->env, d), CR_GE, cr_sym_int(m->env, 0));
    return condition ? cr__check_step(m, condition, "a size or stride would be negative; sizes are 0 or more")
                     : CR_FAIL(CR_ENOMEM, "out of memory");
}

cr_status cr__buffer_of(cr__method *m, const cr_meta *meta, int32_t *out) {
    uint64_t found, storage = meta->storage;
    if (storage && cr_map_find(&m->storages, &storage, sizeof storage, &found)) return *out = (int32_t)found - 1, CR_OK;
    int32_t bytes;
    for (int d = 0; d < meta->rank; d++) {
        CR_TRY(check_not_negative(m, meta->size[d]));
        CR_TRY(check_not_negative(m, meta->stride[d]));
    }
    cr_dim extent = cr__bytes_of(m, meta);
    CR_TRY(cr__slot_dim(m, extent, &bytes));
    return cr__buffer_add(m,
                          (rt_buffer){
                              .kind = RT_BUFFER_SCRATCH, .bytes = bytes, .late = m->when.at[bytes] == CR__SLOT_LATE },
                          storage, extent, out);
}

/* as_strided alone may ask for more than its argument has. */
cr_status cr__check_reach(cr__method *m, const cr_meta *meta) {
    int32_t buffer;
    CR_TRY(cr__buffer_of(m, meta, &buffer));
    cr_dim bytes = cr__bytes_of(m, meta), have = m->extents.at[buffer];
    cr_tri fits = cr_dim_known(m->env, bytes, CR_LE, have);
    if (fits == CR_YES) return CR_OK;
    cr_dim n = cr_meta_numel(m->env, meta);
    if (fits == CR_NO && cr_dim_known(m->env, n, CR_NE, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "as_strided: the view reaches beyond its storage");
    cr_sym empty = cr_sym_compare(m->env, cr_dim_sym(m->env, n), CR_EQ, cr_sym_int(m->env, 0));
    cr_sym inside = cr_sym_compare(m->env, cr_dim_sym(m->env, bytes), CR_LE, cr_dim_sym(m->env, have));
    cr_sym condition = empty && inside ? cr_sym_make(m->env, CR_SYM_OR, empty, inside, NULL) : NULL;
    if (!condition) return CR_FAIL(CR_ENOMEM, "out of memory");
    return cr__check_step(m, condition, "as_strided: the view would reach beyond its storage");
}

cr_status cr__window(cr__method *m, int32_t buffer, const cr_meta *meta, int32_t *out) {
    rt_window w = { .buffer = buffer, .dtype = meta->dtype, .rank = meta->rank };
    int32_t dims[2 * CR_MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        CR_TRY(cr__slot_dim(m, meta->size[d], &dims[d]));
        CR_TRY(cr__slot_dim(m, meta->stride[d], &dims[meta->rank + d]));
    }
    CR_TRY(cr__slot_dim(m, meta->offset, &w.offset));
    w.dims = (int32_t)m->dims.n;
    for (size_t at = m->windows.n; at--;) { /* the layout of a recent window again? */
        const rt_window *o = &m->windows.at[at];
        if (o->rank != w.rank || (w.rank && memcmp(m->dims.at + o->dims, dims, 2 * (size_t)w.rank * sizeof *dims)))
            continue;
        w.dims = o->dims;
        if (o->buffer == w.buffer && o->offset == w.offset && o->dtype == w.dtype) return *out = (int32_t)at, CR_OK;
        break;
    }
    if (w.dims == (int32_t)m->dims.n)
        for (int d = 0; d < 2 * meta->rank; d++) CR_TRY(cr_vec_push(&m->dims, dims[d]));
    CR_TRY(cr_vec_push(&m->windows, w));
    *out = (int32_t)m->windows.n - 1;
    return CR_OK;
}

cr_status cr__scratch(cr__method *m, const cr_meta *meta, int32_t *window) {
    cr_meta dense;
    cr_meta_copy(&dense, meta);
    dense.offset = 0;
    dense.storage = 0;
    cr_layout_like(m->env, meta, &dense);
    int32_t buffer;
    CR_TRY(cr__buffer_of(m, &dense, &buffer));
    return cr__window(m, buffer, &dense, window);
}

/* ---- steps ---- */

cr_status cr__text(cr__method *m, const char *text, int32_t *out) {
    const char *copy = cr_arena_strdup(&m->l->arena, text);
    if (!copy) return CR_ENOMEM;
    *out = (int32_t)m->texts.n;
    return cr_vec_push(&m->texts, copy);
}

cr_status cr__arg_add(cr__method *m, rt_operand_ref a) { return cr_vec_push(&m->args, a); }
cr_status cr__list_add(cr__method *m, int32_t item) { return cr_vec_push(&m->lists, item); }

static void extend(cr__method *m, int32_t window, int32_t step) {
    if (window < 0) return;
    rt_buffer *b = &m->buffers.at[m->windows.at[window].buffer];
    b->first = CR_MIN(b->first, step);
    b->last = CR_MAX(b->last, step);
}

static void extend_args(cr__method *m, const rt_operand_ref *args, int n, int32_t step) {
    for (int i = 0; i < n; i++) {
        if (args[i].kind == RT_A_WINDOW) extend(m, args[i].at, step);
        for (uint32_t k = 0; args[i].kind == RT_A_WINDOWS && k < args[i].n; k++)
            extend(m, m->lists.at[args[i].at + (int32_t)k], step);
    }
}

cr_status cr__step_add(cr__method *m, rt_step s) {
    CR_TRY(cr__flush_numbers(m));
    int32_t at = (int32_t)m->steps.n;
    s.origin = m->origin;
    CR_TRY(cr_vec_push(&m->steps, s));
    extend_args(m, m->args.at + s.args, s.nargs, at);
    if (s.kind >= RT_STEP_COND) extend_args(m, m->args.at + s.outs, s.nout, at);
    else if (s.kind != RT_STEP_COUNT && s.kind != RT_STEP_NUMBER)
        for (int i = 0; i < s.nout; i++) extend(m, m->lists.at[s.outs + i], at);
    return CR_OK;
}

cr_status cr__copy_step(cr__method *m, int32_t from, int32_t to) {
    rt_step s = {
        .kind = RT_STEP_COPY, .nargs = 1, .nout = 1, .args = (int32_t)m->args.n, .outs = (int32_t)m->lists.n
    };
    CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_WINDOW, .at = from }));
    CR_TRY(cr__list_add(m, to));
    return cr__step_add(m, s);
}

cr_status cr__zero_step(cr__method *m, int32_t window) {
    rt_step s = {
        .kind = RT_STEP_FILL, .nargs = 1, .nout = 1, .args = (int32_t)m->args.n, .outs = (int32_t)m->lists.n
    };
    CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_INT, .at = 0 })); /* slot 0 is the number 0 */
    CR_TRY(cr__list_add(m, window));
    return cr__step_add(m, s);
}

cr_status cr__check_step(cr__method *m, cr_sym condition, const char *message) {
    int32_t slot, text;
    bool truth;
    if (cr_sym_is_bool(condition, &truth) && truth) return CR_OK;
    CR_TRY(cr__slot(m, condition, &slot));
    CR_TRY(cr__text(m, message, &text));
    rt_step s = { .kind = RT_STEP_CHECK, .nargs = 2, .args = (int32_t)m->args.n };
    CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_INT, .at = slot }));
    CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_STR, .at = text }));
    return cr__step_add(m, s);
}
