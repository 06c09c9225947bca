/* infer.c: what a call gives, from the metas of its arguments alone.
 *
 * The call is made on fake tensors of those metas, so that a graph which is built and one which is recorded come out
 * the same, for in-place, metadata-changing and composite ops too. Values that share a storage get fake tensors that
 * share one, and a value that occurs twice is one tensor; what a result shares with them is what its value shares. */
#include "graph/internal.h"

/* storage: as the graph names it */
typedef struct standin { cr_tensor *tensor; uint32_t value; uint64_t storage; } standin;
typedef struct inference {
    cr_graph *g;
    cr_arena *arena;
    const cr_op *op;
    CR_VEC(standin) standins;
    CR_VEC(cr_value) values;
} inference;

uint64_t cr__fresh_storage(void) {
    static uint64_t last = (uint64_t)1 << 63; /* above the ids of real storages */
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static cr_status standin_for(inference *f, uint32_t id, const cr_value *v, cr_tensor **out) {
    cr_storage *shared = NULL;
    if (!v->meta)
        return CR_FAIL(CR_EVALUE, "value '%%%s' has no meta, so what depends on it cannot be inferred", v->name);
    for (size_t i = 0; i < f->standins.n; i++) {
        if (f->standins.at[i].value == id) return *out = f->standins.at[i].tensor, CR_OK;
        if (v->meta->storage && f->standins.at[i].storage == v->meta->storage)
            shared = f->standins.at[i].tensor->storage;
    }
    CR_TRY(cr_vec_reserve(&f->standins, f->standins.n + 1));
    cr_tensor *t = NULL;
    if (shared) CR_TRY(cr_tensor_on(shared, v->meta, NULL, f->g->env, &t));
    else CR_TRY(cr_tensor_create_fake(f->g->env, v->meta, &t));
    f->standins.at[f->standins.n++] = (standin){ t, id, v->meta->storage };
    *out = t;
    return CR_OK;
}

cr_arg cr_number_arg(cr_env *env, cr_sym e) {
    int64_t i;
    bool truth;
    if (cr_sym_type_of(e) == CR_TYPE_INT) return cr_arg_int(cr_dim_of(env, e));
    if (cr_sym_is_bool(e, &truth)) return cr_arg_bool(truth);
    if (cr_sym_is_int(e, &i)) return cr_arg_int(i);
    if (cr_sym_kind_of(e) == CR_SYM_REAL) return cr_arg_float(cr_sym_real(e));
    return (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = e };
}

static cr_status resolve(inference *f, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_alloc(f->arena, from->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(resolve(f, &from->u.list[i], &items[i]));
        to->u.list = items;
    } else if (from->kind == CR_ARG_VALUE) {
        const cr_value *v = f->g->values.at[from->u.i];
        if (v->type == CR_T_TENSOR) {
            cr_tensor *t = NULL;
            CR_TRY(standin_for(f, (uint32_t)from->u.i, v, &t));
            *to = cr_arg_tensor(t);
        } else if (v->expr) {
            *to = cr_number_arg(f->g->env, v->expr);
        } else {
            return CR_FAIL(CR_EDATADEP, "what '%%%s' is cannot be known before the graph runs", v->name);
        }
        to->given = from->given;
    }
    return CR_OK;
}

static cr_status add_value(inference *f, cr_value v) { return cr_vec_push(&f->values, v); }

static cr_status add_tensor(inference *f, const cr_tensor *t, cr_value v) {
    cr_meta *meta = cr_arena_copy(f->arena, &t->meta, sizeof t->meta);
    if (!meta) return CR_ENOMEM;
    meta->flags &= (uint8_t)~CR_META_WRAPPED;
    for (size_t i = 0; i < f->standins.n; i++)
        if (f->standins.at[i].tensor->storage == t->storage && f->standins.at[i].storage) {
            /* otherwise it keeps its fake storage's id, which nobody else has */
            meta->storage = f->standins.at[i].storage;
            break;
        }
    v.type = CR_T_TENSOR;
    v.meta = meta;
    return add_value(f, v);
}

static cr_status add_result(inference *f, const cr_arg *a, cr_value v) {
    cr_env *env = f->g->env;
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_TENSOR: return add_tensor(f, a->u.t, v);
    case CR_ARG_NONE: v.type = CR_T_TENSOR; return add_value(f, v); /* undefined, as a masked-out gradient is */
    case CR_ARG_INT: v.type = CR_T_INT, v.expr = cr_dim_sym(env, a->u.i); break;
    case CR_ARG_BOOL: v.type = CR_T_BOOL, v.expr = cr_sym_bool(env, a->u.i != 0); break;
    case CR_ARG_FLOAT: v.type = CR_T_FLOAT, v.expr = cr_sym_float(env, a->u.f); break;
    case CR_ARG_SYM:
        v.expr = a->u.sym;
        v.type = cr_sym_type_of(v.expr) == CR_TYPE_BOOL    ? CR_T_BOOL
                 : cr_sym_type_of(v.expr) == CR_TYPE_FLOAT ? CR_T_FLOAT
                                                           : CR_T_INT;
        break;
    case CR_ARG_COMPLEX: v.type = CR_T_SCALAR; return add_value(f, v);
    case CR_ARG_STR: v.type = CR_T_STR; return add_value(f, v);
    default: return CR_FAIL(CR_EUNSUPPORTED, "%s: a result of this kind cannot be a value of a graph", f->op->name);
    }
    if (!v.expr) {
        cr_env_recover(env);
        return CR_FAIL(CR_ENOMEM, "out of memory");
    }
    return add_value(f, v);
}

static cr_status add_results(inference *f, const cr_arg *results) {
    const cr_schema *s = &f->op->schema;
    for (uint16_t i = 0; i < cr_result_count(f->op); i++) {
        cr_value v = { .name = s->name, .ret = i };
        if (results[i].kind != CR_ARG_LIST) {
            CR_TRY(add_result(f, &results[i], v));
            continue;
        }
        for (uint32_t k = 0; k < results[i].n; k++) {
            if (s->varargs_returns) v.ret = (uint16_t)k;
            CR_TRY(add_result(f, &results[i].u.list[k], v));
        }
    }
    return CR_OK;
}

/* "x after", for each written argument: the same tensor, as the call left it. */
static cr_status add_written(inference *f, const cr_arg *arg, uint16_t param) {
    if (arg->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < arg->n; i++) CR_TRY(add_written(f, &arg->u.list[i], param));
        return CR_OK;
    }
    if (arg->kind != CR_ARG_VALUE || f->g->values.at[arg->u.i]->type != CR_T_TENSOR) return CR_OK;
    const cr_value *before = f->g->values.at[arg->u.i];
    for (size_t i = 0; i < f->standins.n; i++)
        if (f->standins.at[i].value == (uint32_t)arg->u.i)
            return add_tensor(f, f->standins.at[i].tensor,
                              (cr_value){ .name = before->name, .ret = param, .hidden = true });
    return CR_OK;
}

static cr_status infer(inference *f, const cr_arg *args, const cr_arg *inputs, cr_arg *results) {
    const cr_schema *s = &f->op->schema;
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    *mode = (cr_call_mode){ .fake = true, .depth = saved.depth + 1, .env = f->g->env, .known = saved.known };
    cr_status status = cr_call(f->op, inputs, results);
    *mode = saved;
    CR_TRY(status);
    status = add_results(f, results);
    cr_results_release(results, cr_result_count(f->op));
    for (uint16_t i = 0; i < s->nparams && !status; i++)
        if (s->params[i].writes) status = add_written(f, &args[i], i);
    return status;
}

cr_status cr__infer(cr_graph *g, const cr_op *op, const cr_arg *args, cr_arena *arena, cr_value **values, size_t *n) {
    inference f = { .g = g, .arena = arena, .op = op };
    cr_arg inputs[CR_MAX_PARAMS], results[16] = { { 0 } };
    cr_status status = CR_OK;
    for (uint16_t i = 0; i < op->schema.nparams; i++) CR_TRY_OUT(resolve(&f, &args[i], &inputs[i]));
    CR_TRY_OUT(infer(&f, args, inputs, results));
    *values = cr_arena_copy(arena, f.values.at, f.values.n * sizeof **values);
    if (!*values) CR_TRY_OUT(CR_ENOMEM);
    *n = f.values.n;
out:
    for (size_t i = 0; i < f.standins.n; i++) cr_tensor_release(f.standins.at[i].tensor);
    cr_vec_dispose(&f.standins);
    cr_vec_dispose(&f.values);
    return status;
}
