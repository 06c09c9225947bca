/* rule.c: running a row's dtype and shape rules, and the helpers that rules are written with.
 *
 * A rule decides every output's meta and aliasing before any memory exists, from metas alone. That is what keeps real,
 * fake and symbolic runs in step. */
#include "ops/rules.h"

#include "sym/shape.h"

#include <stdio.h>

cr_status cr_wrap_dim(int64_t d, int rank, int *out) {
    int n = rank ? rank : 1;
    if (d < -n || d >= n)
        return CR_FAIL(CR_EINDEX, "dimension out of range: expected a value in [%d, %d], got %lld", -n, n - 1,
                       (long long)d);
    *out = (int)(d < 0 ? d + n : d);
    return CR_OK;
}

cr_out *cr_rule_add(cr_rule *r) {
    if (r->nout == r->out_cap) {
        int cap = r->out_cap * 2;
        cr_out *grown = cr_alloc((size_t)cap * sizeof *grown);
        if (!grown) return NULL;
        memcpy(grown, r->out, (size_t)r->nout * sizeof *grown);
        if (r->out != r->inline_out) cr_free(r->out);
        r->out = grown;
        r->out_cap = cap;
    }
    cr_out *out = &r->out[r->nout++];
    cr_device device = { CR_CPU, -1 };
    for (int i = 0; i < r->nargs; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m && !(m->flags & CR_META_WRAPPED)) {
            device = m->device;
            break;
        }
    }
    cr_meta_init(&out->meta, r->result >= 0 ? r->result : cr_default_dtype(), device);
    out->alias = -1;
    out->same = out->none = out->data = false;
    out->scalar = 0;
    out->number = 0;
    return out;
}

cr_status cr_rule_add_dense(cr_rule *r, int dtype, int rank, const cr_dim *size) {
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.dtype = (uint8_t)dtype;
    return cr_meta_set_dense(r->env, &out->meta, rank, size, CR_CONTIGUOUS);
}

cr_out *cr_rule_add_view(cr_rule *r, int arg) {
    const cr_meta *m = cr_rule_meta(r, arg);
    cr_out *out = cr_rule_add(r);
    if (!out) return NULL;
    cr_meta_copy(&out->meta, m);
    out->meta.flags &= (uint8_t)~(CR_META_WRAPPED | CR_META_REQUIRES_GRAD); /* the tape decides what requires grad */
    out->alias = (int16_t)arg;
    return out;
}

cr_status cr_rule_add_number(cr_rule *r, cr_arg_kind kind, cr_dim value) {
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->scalar = (uint8_t)kind;
    out->number = value;
    return CR_OK;
}

cr_status cr_rule_add_data(cr_rule *r, cr_arg_kind kind) {
    CR_TRY(cr_rule_add_number(r, kind, 0));
    r->out[r->nout - 1].data = true;
    return CR_OK;
}

cr_dim cr_rule_count(cr_rule *r, int k, int64_t hi) {
    if (r->count) return r->count[k];
    if (!r->env) return 0;
    cr_sym known = cr__known_symbol(CR_TYPE_INT);
    if (known) return cr_dim_of(r->env, known);
    return hi ? cr_dim_of(r->env, cr_sym_unbacked_size(r->env, hi)) : 0; /* of nothing nothing is found */
}

cr_status cr_rule_dims(cr_rule *r, int i, int rank, bool empty_is_all, uint32_t *mask) {
    const cr_arg *a = &r->arg[i];
    uint32_t all = rank ? (uint32_t)((1ull << rank) - 1) : 1u;
    if (a->kind == CR_ARG_NONE || (a->kind == CR_ARG_LIST && !a->n && empty_is_all)) {
        *mask = all;
        return CR_OK;
    }
    const cr_arg *item = a->kind == CR_ARG_LIST ? a->u.list : a;
    uint32_t n = a->kind == CR_ARG_LIST ? a->n : 1, bits = 0;
    for (uint32_t k = 0; k < n; k++) {
        int d = 0;
        CR_TRY(cr_wrap_dim(item[k].u.i, rank, &d));
        if (bits & (1u << d))
            return CR_FAIL(CR_ERUNTIME, "%s: dim %d appears more than once in the list of dims", r->op->schema.name, d);
        bits |= 1u << d;
    }
    *mask = bits;
    return CR_OK;
}

cr_status cr_rule_ints(cr_rule *r, int i, int want, int max, cr_dim *out, int *n) {
    const cr_arg *a = &r->arg[i];
    const cr_arg *item = a->kind == CR_ARG_LIST ? a->u.list : a;
    int have = a->kind == CR_ARG_LIST ? (int)a->n : a->kind == CR_ARG_INT ? 1 : 0;
    int count = want > 0 && have == 1 ? want : have;
    if (count > max || (want > 0 && count != want))
        return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' must have %d entries, got %d", r->op->schema.name,
                       r->op->schema.params[i].name, want > 0 ? want : max, have);
    for (int k = 0; k < count; k++) out[k] = item[have == 1 ? 0 : k].u.i;
    if (n) *n = count;
    return CR_OK;
}

static const char *param_name(const cr_rule *r, int i) { return r->op->schema.params[i].name; }

cr_status cr_rule_require_rank(const cr_rule *r, int i, int low, int high) {
    int rank = cr_rule_meta(r, i)->rank;
    if (rank >= low && rank <= high) return CR_OK;
    if (low == high)
        return CR_FAIL(CR_ERUNTIME, "%s: '%s' must have %d dimension%s, it has %d", r->op->schema.name,
                       param_name(r, i), low, low == 1 ? "" : "s", rank);
    return CR_FAIL(CR_ERUNTIME, "%s: '%s' must have %d to %d dimensions, it has %d", r->op->schema.name,
                   param_name(r, i), low, high, rank);
}

cr_status cr_rule_require_sizes(cr_rule *r, int i, int rank, const cr_dim *size) {
    const cr_meta *m = cr_rule_meta(r, i);
    CR_TRY(cr_rule_require_rank(r, i, rank, rank));
    for (int d = 0; d < rank; d++) {
        if (cr_dim_known(r->env, m->size[d], CR_EQ, size[d]) == CR_YES) continue;
        char what[160];
        snprintf(what, sizeof what, "%s: the size of '%s' in dimension %d", r->op->schema.name, param_name(r, i), d);
        CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, size[d], what));
    }
    return CR_OK;
}

cr_status cr_rule_require_dtype(const cr_rule *r, int i, int dtype) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->dtype == dtype) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: '%s' must be %s, not %s", r->op->schema.name, param_name(r, i),
                   cr_dtype_name(dtype), cr_dtype_name(m->dtype));
}

cr_status cr_rule_exact_ints(cr_rule *r, int i, int n, cr_dim *out) {
    if (r->arg[i].n == (uint32_t)n) return cr_rule_ints(r, i, 0, n, out, NULL);
    return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' must have %d entries, got %u", r->op->schema.name, param_name(r, i),
                   n, r->arg[i].n);
}

/* Numbers in Tensor slots become metas that promote as wrapped numbers; lists of flags are as long as the schema
 * says. */
static cr_status wrap_numbers(cr_rule *r, const cr_arg *args) {
    const cr_schema *s = &r->op->schema;
    int wrapped = 0;
    r->arg = args;
    for (int i = 0; i < r->nargs; i++) {
        const cr_param *p = &s->params[i];
        /* output_mask */
        if (p->type == CR_T_BOOL && p->list_size > 0 && args[i].kind == CR_ARG_LIST &&
            args[i].n != (uint32_t)p->list_size)
            return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' must have %d entries, got %u", s->name, p->name,
                           p->list_size, args[i].n);
        if (s->params[i].type != CR_T_TENSOR || (!cr_arg_is_number(&args[i]) && args[i].kind != CR_ARG_SYM)) continue;
        if (!wrapped) {
            memcpy(r->local, args, (size_t)r->nargs * sizeof *args);
            r->arg = r->local;
        }
        if (wrapped == (int)CR_COUNT(r->wrapped))
            return CR_FAIL(CR_ETYPE, "%s: too many numbers in tensor arguments", s->name);
        cr_meta *m = &r->wrapped[wrapped++];
        cr_meta_init(m, cr_arg_number_dtype(&args[i]), (cr_device){ CR_CPU, -1 });
        m->flags = CR_META_WRAPPED;
        r->local[i] = (cr_arg){ .kind = CR_ARG_META, .u.meta = m };
    }
    return CR_OK;
}

cr_status dtype_same(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    r->common = r->result = m ? m->dtype : cr_default_dtype();
    return CR_OK;
}

cr_status shape_like(cr_rule *r) {
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    const cr_meta *m = cr_rule_meta(r, 0);
    out->meta.rank = m->rank;
    memcpy(out->meta.size, m->size, m->rank * sizeof *m->size);
    cr_layout_like(r->env, m, &out->meta);
    return CR_OK;
}

/* Pointwise ops are judged by the dtype they compute for, others by their input's: that is how PyTorch dispatches. */
static int kernel_dtype(const cr_rule *r) {
    const cr_meta *m = r->nargs ? cr_rule_meta(r, 0) : NULL;
    return r->op->tags & CR_TAG_POINTWISE ? r->common : m ? m->dtype : -1;
}

bool cr_rule_has_kernel(const cr_rule *r) {
    int dtype = kernel_dtype(r);
    return dtype < 0 || (r->op->accepts >> dtype & 1);
}

static bool is_empty(const cr_rule *r, const cr_meta *m) {
    return m && cr_dim_known(r->env, cr_meta_numel(r->env, m), CR_EQ, 0) == CR_YES;
}

static bool has_empty_input(const cr_rule *r) {
    for (int i = 0; i < r->nargs; i++) {
        if (is_empty(r, cr_rule_meta(r, i))) return true;
        for (uint32_t k = 0; r->arg[i].kind == CR_ARG_LIST && k < r->arg[i].n; k++)
            if (is_empty(r, cr_arg_meta(&r->arg[i].u.list[k]))) return true;
    }
    return false;
}

/* Nothing is to be computed: no results with elements, but for products over an inner size of 0, gradients of nothing
 * and what failed of factors of nothing (`info`), which are zeros, reductions of nothing, and updates and selections by
 * no index. */
static bool is_idle(const cr_rule *r) {
    const cr_schema *s = &r->op->schema;
    bool zeros = r->op->row->dtype == dtype_product || !strcmp(s->params[0].name, "grad_output") ||
                 (s->nreturns && !strcmp(s->returns[s->nreturns - 1].name, "info")) || (r->op->tags & CR_TAGS_RUN_IDLE);
    if (!has_empty_input(r)) return false;
    for (int i = 0; i < r->nout; i++)
        if (!r->out[i].none && !zeros && !is_empty(r, &r->out[i].meta)) return false;
    return true;
}

static cr_status check_accepted(const cr_rule *r, const cr_op *op) {
    int dtype = kernel_dtype(r);
    if ((r->op->tags & CR_TAG_COPIES_0D) && cr_rule_meta(r, 0) && !cr_rule_meta(r, 0)->rank) return CR_OK;
    int rare = cr__rule_judge_rare(r, op->variant == CR_INPLACE);
    if (rare > 0 || (!rare && (cr_rule_has_kernel(r) || ((r->op->idle >> dtype & 1) && is_idle(r))))) return CR_OK;
    if (rare && dtype < 0) dtype = r->nout ? r->out[0].meta.dtype : r->result;
    return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for '%s' on CPU; convert the input with .to(dtype) first",
                   r->op->name, cr_dtype_aten(dtype));
}

static cr_status find_dtypes(cr_rule *r, const cr_op *op, cr_env *env, const cr_arg *args, const int64_t *count) {
    const cr_row *row = op->base->row;
    r->op = op->base;
    r->env = env;
    r->nargs = r->op->schema.nparams;
    r->common = r->result = -1;
    r->out = r->inline_out;
    r->nout = 0;
    r->out_cap = CR_INLINE_OUTS;
    r->count = count;
    CR_TRY(wrap_numbers(r, args));
    return (row->dtype ? row->dtype : row->scalar ? dtype_promote : dtype_same)(r);
}

cr_status cr_rule_begin(cr_rule *r, const cr_op *op, cr_env *env, const cr_arg *args, const int64_t *count) {
    CR_TRY(find_dtypes(r, op, env, args, count));
    return check_accepted(r, op);
}

/* Is it a size of an operand, and so of something that exists? */
static bool has_size(const cr_arg *a, size_t n, cr_dim size) {
    for (size_t i = 0; i < n; i++) {
        const cr_meta *m = cr_arg_meta(&a[i]);
        for (int d = 0; m && d < m->rank; d++)
            if (m->size[d] == size) return true;
        if (a[i].kind == CR_ARG_LIST && has_size(a[i].u.list, a[i].n, size)) return true;
    }
    return false;
}

/* Sizes that depend on data must not be negative; of others the rules know enough, but for numbers that a caller gives:
 * where nothing uses the tensor, nobody would notice. */
static cr_status require_sizes(cr_rule *r, bool *any) {
    for (int i = 0; i < r->nout; i++)
        for (int d = 0; !r->out[i].scalar && !r->out[i].none && d < r->out[i].meta.rank; d++) {
            cr_dim size = r->out[i].meta.size[d];
            int64_t hint;
            bool enough = !cr_env_is_exact(r->env) && cr_dim_hint(r->env, size, &hint);
            if (cr_dim_is_plain(size) || enough || cr_dim_known(r->env, size, CR_GE, 0) != CR_UNKNOWN ||
                has_size(r->arg, (size_t)r->nargs, size))
                continue;
            CR_TRY(cr_dim_require(r->env, size, CR_GE, 0, "size"));
            *any = true;
        }
    return CR_OK;
}

cr_status cr_rule_run(cr_rule *r, const cr_op *op, cr_env *env, const cr_arg *args, const int64_t *count) {
    const cr_row *row = op->base->row;
    CR_TRY(find_dtypes(r, op, env, args, count));
    cr_rule_fn *shape = row->shape ? row->shape : row->scalar ? shape_broadcast : shape_like;
    bool learned = false;
    CR_TRY(shape(r));
    if (env) CR_TRY(require_sizes(r, &learned));
    if (learned) { /* strides are simpler now */
        r->nout = 0;
        CR_TRY(shape(r));
    }
    CR_TRY(check_accepted(r, op)); /* last: a wrong size or dimension is the better reason */
    if (env && cr_env_failed(env)) {
        cr_env_recover(env);
        return CR_FAIL(CR_ENOMEM, "out of memory");
    }
    return CR_OK;
}

void cr_rule_dispose(cr_rule *r) {
    if (r->out != r->inline_out) cr_free(r->out);
    r->out = r->inline_out;
}

cr_status cr_rule_fail_shapes(cr_rule *r, const char *what, int rank, const cr_dim *size, const char *text,
                              const cr_meta *m) {
    cr_str one, other;
    cr_str_init(&one);
    cr_str_init(&other);
    cr_shape_print(r->env, rank, size, &one);
    cr_shape_print(r->env, m->rank, m->size, &other);
    cr_status s = CR_FAIL(CR_ERUNTIME, "%s: %s %s %s %s", r->op->schema.name, what, cr_str_get(&one), text,
                          cr_str_get(&other));
    cr_str_dispose(&one);
    cr_str_dispose(&other);
    return s;
}
