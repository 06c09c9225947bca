/* region_infer.c: what the body of a region gives on fake operands, read off its graph.
 *
 * A body that was recorded in the environment of the run says already what its results are like; running it again would
 * only make new symbols for everything that depends on data. Symbols of its placeholders stand for what the operands
 * have there, symbols that the body makes itself (u0 of a nonzero inside) are fresh ones for the caller. Where the
 * operands do not fit the placeholders term by term, the caller runs the body. */
#include "graph/plan.h"

typedef struct renaming { cr_sym from, to; } renaming;
typedef struct inference {
    cr_env *env;
    const cr_graph *g;
    const cr_arg *inputs;
    size_t ninputs;
    CR_VEC(renaming) names;
    CR_VEC(cr_tensor *) made; /* results that later ones may share memory with; borrowed */
    bool fits, failed;
} inference;

static cr_sym renamed(void *user, cr_sym symbol) {
    inference *f = user;
    for (size_t i = 0; i < f->names.n; i++)
        if (f->names.at[i].from == symbol) return f->names.at[i].to;
    return NULL;
}

/* Symbols that no operand gives and no other environment knows: data of the body. */
static cr_sym renamed_or_fresh(void *user, cr_sym symbol) {
    inference *f = user;
    cr_sym known = renamed(user, symbol), fresh = NULL;
    const char *name = cr_sym_name(symbol);
    int64_t hint;
    if (known || cr_env_hint(f->env, symbol, &hint) || (name[0] != 'u' && name[0] != 'z')) return known;
    if (cr_sym_type_of(symbol) == CR_TYPE_FLOAT) fresh = cr_unknown_number(f->env, CR_T_FLOAT);
    else {
        cr_range range = cr_sym_range(f->env, symbol);
        fresh = cr_sym_unbacked(f->env, range.lo, range.hi);
    }
    if (!fresh || cr_vec_push(&f->names, (renaming){ symbol, fresh })) f->failed = true;
    return fresh;
}

static void give(inference *f, cr_sym symbol, cr_sym to) {
    if (!renamed(f, symbol) && cr_vec_push(&f->names, (renaming){ symbol, to })) f->failed = true;
}

static void give_itself(inference *f, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) give(f, e, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) give_itself(f, cr_sym_operand(e, i));
}

/* A term of a placeholder against the operand's: the symbol's meaning, or equal to it. */
static void fit_expr(inference *f, cr_sym placeholder, cr_sym operand) {
    if (!placeholder || !operand) f->failed = true;
    else if (cr_sym_kind_of(placeholder) == CR_SYM_SYMBOL && !renamed(f, placeholder)) give(f, placeholder, operand);
    else if (placeholder == operand) give_itself(f, operand);
    else f->fits &= cr_sym_substitute(f->env, placeholder, renamed, f) == operand;
}

static cr_sym number_of(cr_env *env, const cr_arg *a) {
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_INT: return cr_dim_sym(env, a->u.i);
    case CR_ARG_BOOL: return cr_sym_bool(env, a->u.i != 0);
    case CR_ARG_FLOAT: return cr_sym_float(env, a->u.f);
    case CR_ARG_SYM: return a->u.sym;
    default: return NULL;
    }
}

static void fit_dims(inference *f, int rank, const cr_dim *placeholder, const cr_dim *operand) {
    for (int d = 0; d < rank && f->fits; d++)
        if (!cr_dim_is_plain(placeholder[d]) || placeholder[d] != operand[d])
            fit_expr(f, cr_dim_sym(f->env, placeholder[d]), cr_dim_sym(f->env, operand[d]));
}

static void fit_input(inference *f, const cr_value *v, const cr_arg *a) {
    if (a->kind == CR_ARG_TENSOR) {
        const cr_meta *m = v->meta, *o = &a->u.t->meta;
        f->fits &= m && m->rank == o->rank && m->dtype == o->dtype && m->device.type == o->device.type;
        if (f->fits) fit_dims(f, m->rank, m->size, o->size);
        if (f->fits) fit_dims(f, m->rank, m->stride, o->stride);
        return;
    }
    cr_sym given = number_of(f->env, a);
    f->fits &= given && v->expr;
    if (!f->fits) return;
    /* a truth that depends on data is Eq(u0, 1) */
    if (v->type == CR_T_BOOL && cr_sym_kind_of(v->expr) == CR_SYM_EQ && cr_sym_kind_of(given) == CR_SYM_EQ) {
        for (size_t i = 0; i < 2; i++) fit_expr(f, cr_sym_operand(v->expr, i), cr_sym_operand(given, i));
        return;
    }
    fit_expr(f, v->expr, given);
}

/* ---- results ---- */

static void translate(inference *f, int rank, cr_dim *dims) {
    for (int d = 0; d < rank; d++)
        if (!cr_dim_is_plain(dims[d]))
            dims[d] = cr_dim_of(f->env, cr_sym_substitute(f->env, cr_dim_sym(f->env, dims[d]), renamed_or_fresh, f));
}

/* The operand or result whose memory the value has; NULL: its own. */
static cr_tensor *shared_with(inference *f, const cr_meta *meta, const uint64_t *storages) {
    for (size_t i = 0; i < f->made.n; i++)
        if (storages[i] == meta->storage) return f->made.at[i];
    size_t at = 0;
    for (uint32_t n = cr_graph_first(f->g); n != CR_NO_NODE && cr_graph_node(f->g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(f->g, n), at++) {
        const cr_value *v = cr_graph_value(f->g, cr_graph_node(f->g, n)->first);
        if (!v->meta || v->meta->storage != meta->storage) continue;
        if (v->meta->offset != f->inputs[at].u.t->meta.offset) f->fits = false;
        return f->inputs[at].u.t;
    }
    return NULL;
}

static cr_status infer_tensor(inference *f, const cr_meta *meta, uint64_t *storages, cr_arg *out) {
    cr_meta own;
    cr_tensor *t = NULL, *with = shared_with(f, meta, storages);
    if (!f->fits) return CR_OK;
    cr_meta_copy(&own, meta);
    translate(f, own.rank, own.size);
    translate(f, own.rank, own.stride);
    translate(f, 1, &own.offset);
    if (f->failed) return CR_FAIL(CR_ENOMEM, "out of memory");
    if (with) CR_TRY(cr_tensor_on(with->storage, &own, with->base ? with->base : with, f->env, &t));
    else CR_TRY(cr_tensor_create_fake(f->env, &own, &t));
    storages[f->made.n] = meta->storage;
    f->made.at[f->made.n++] = t; /* reserved */
    *out = cr_arg_tensor(t);
    return CR_OK;
}

static cr_status infer_number(inference *f, cr_sym expr, cr_arg *out) {
    if (!expr) return f->fits = false, CR_OK;
    cr_sym e = cr_sym_substitute(f->env, expr, renamed_or_fresh, f);
    if (!e || f->failed) return CR_FAIL(CR_ENOMEM, "out of memory");
    *out = cr_number_arg(f->env, e);
    return CR_OK;
}

static cr_status infer_results(inference *f, const cr_node *output, uint64_t *storages, cr_arg *results) {
    for (uint16_t i = 0; i < output->nargs && f->fits; i++) {
        const cr_arg *a = &output->args[i];
        const cr_value *v = a->kind == CR_ARG_VALUE ? cr_graph_value(f->g, (uint32_t)a->u.i) : NULL;
        if (a->kind == CR_ARG_LIST || (v && v->type == CR_T_TENSOR && !v->meta)) f->fits = false;
        else if (!v) results[i] = *a;
        else if (v->meta) CR_TRY(infer_tensor(f, v->meta, storages, &results[i]));
        else CR_TRY(infer_number(f, v->expr, &results[i]));
    }
    return CR_OK;
}

cr_status cr__body_infer(const cr_plan *p, cr_env *env, const cr_arg *inputs, size_t n, cr_arg *results, bool *done) {
    inference f = {
        .env = env, .g = p->graph, .inputs = inputs, .ninputs = n, .fits = n == p->ninputs && p->graph->env == env
    };
    const cr_node *output = cr_graph_node(p->graph, cr_graph_output(p->graph));
    cr_status status = CR_OK;
    *done = false;
    for (size_t i = 0; f.fits && i < n; i++) fit_input(&f, p->graph->values.at[p->inputs[i]], &inputs[i]);
    uint64_t *storages = f.fits ? cr_calloc(output->nargs + 1u, sizeof *storages) : NULL;
    if (f.fits && (!storages || cr_vec_reserve(&f.made, output->nargs + 1u))) status = CR_ENOMEM;
    if (f.failed && !status) status = CR_FAIL(CR_ENOMEM, "out of memory");
    if (f.fits && !status) status = infer_results(&f, output, storages, results);
    *done = f.fits && !status;
    if (!*done) cr_results_release(results, output->nargs);
    cr_free(storages);
    cr_vec_dispose(&f.names);
    cr_vec_dispose(&f.made);
    return status;
}

cr_sym cr__body_number(const cr_plan *p, cr_env *env, size_t input) {
    return input < p->ninputs && p->graph->env == env ? p->graph->values.at[p->inputs[input]]->expr : NULL;
}
