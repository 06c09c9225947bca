/* expand_view.c: decompositions of views and conversions that need the rule's answer (does this reshape copy? is there
 * anything to convert? how long is each part?) and so cannot be a text. They run the op's own rule on metas and call
 * the core ops that the answer stands for. */
#include "ops/formula.h"
#include "ops/rules.h"

/* Calls an op by full name. Arguments after the given ones take their defaults; `keyword` (or NULL) is one more. */
static cr_status emit(cr_emitter *e, const char *name, const cr_arg *given, int n, const cr_keyword *keyword,
                      cr_arg *results) {
    const cr_op *op = cr_op_find(name);
    cr_arg args[CR_MAX_PARAMS];
    if (!op) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
    for (int i = 0; i < op->schema.nparams; i++) {
        args[i] = i < n ? given[i] : op->schema.params[i].fallback;
        if (keyword && !strcmp(keyword->name, op->schema.params[i].name)) args[i] = keyword->value;
    }
    return e->call(e, op, args, results);
}

/* The rule's outputs for these arguments in the emitter's terms. Dispose of the rule afterwards. */
static cr_status ask_rule(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_rule *r) {
    cr_arg metas[CR_MAX_PARAMS];
    r->out = r->inline_out;
    for (int i = 0; i < op->schema.nparams; i++) {
        metas[i] = args[i];
        if (op->schema.params[i].type != CR_T_TENSOR || args[i].kind == CR_ARG_NONE) continue;
        const cr_meta *m = NULL;
        CR_TRY(e->meta(e, &args[i], &m));
        if (m) metas[i] = (cr_arg){ .kind = CR_ARG_META, .u.meta = m };
    }
    return cr_rule_run(r, op, e->env, metas, NULL);
}

static cr_arg int_list(cr_arg *items, const cr_dim *values, int n) {
    for (int i = 0; i < n; i++) items[i] = cr_arg_int(values[i]);
    return cr_arg_list(items, (size_t)n);
}

static const cr_keyword dense_format = { "memory_format",
                                         { .kind = CR_ARG_FORMAT, .given = CR_GIVEN_KEYWORD, .u.i = CR_CONTIGUOUS } };

/* reshape and what is one: a view where that is possible, else a view of a dense copy. */
cr_status expand_reshape(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_rule r;
    cr_status status = ask_rule(e, op, args, &r);
    if (!status) {
        cr_arg items[CR_MAX_RANK], copy = cr_arg_none();
        cr_arg pair[2] = { args[0], int_list(items, r.out[0].meta.size, r.out[0].meta.rank) };
        if (r.out[0].alias < 0) {
            status = emit(e, "aten::clone", args, 1, &dense_format, &copy);
            pair[0] = copy;
        }
        if (!status)
            status = r.out[0].same ? emit(e, "aten::alias", args, 1, NULL, results)
                                   : emit(e, "aten::view", pair, 2, NULL, results);
        e->release(e, &copy, 1);
    }
    cr_rule_dispose(&r);
    return status;
}

/* In the core dialect: the view is asked for the shape as it was given, so that -1 stays -1. */
cr_status expand_reshape_core(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_rule r;
    cr_arg copy = cr_arg_none(), pair[2] = { args[0], args[1] };
    cr_status status = ask_rule(e, op, args, &r);
    if (!status && r.out[0].alias < 0) {
        status = emit(e, "aten::clone", args, 1, &dense_format, &copy);
        pair[0] = copy;
    }
    if (!status) status = emit(e, "aten::view", pair, 2, NULL, results);
    e->release(e, &copy, 1);
    cr_rule_dispose(&r);
    return status;
}

/* contiguous and the forms of to. */
cr_status expand_conversion(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_rule r;
    cr_status status = ask_rule(e, op, args, &r);
    if (!status && r.out[0].same) {
        status = emit(e, "aten::alias", args, 1, NULL, results);
    } else if (!status) {
        const cr_meta *from = NULL, *to = &r.out[0].meta;
        const cr_op *target = cr_op_find(strcmp(op->schema.name, "contiguous") ? "aten::_to_copy" : "aten::clone");
        cr_arg given[CR_MAX_PARAMS];
        status = target ? e->meta(e, &args[0], &from)
                        : CR_FAIL(CR_ENOTFOUND, "contiguous and to need aten::clone and aten::_to_copy");
        for (int i = 0; !status && i < target->schema.nparams; i++) {
            const char *name = target->schema.params[i].name;
            given[i] = i ? target->schema.params[i].fallback : args[0];
            if (!strcmp(name, "dtype") && to->dtype != from->dtype) given[i] = cr_arg_dtype(to->dtype);
            if (!strcmp(name, "device") &&
                (to->device.type != from->device.type || to->device.index != from->device.index))
                given[i] = (cr_arg){ .kind = CR_ARG_DEVICE, .given = CR_GIVEN_KEYWORD, .u.device = to->device };
            if (strcmp(name, "memory_format")) continue;
            for (int k = 0; k < op->schema.nparams; k++)
                if (!strcmp(op->schema.params[k].name, name)) given[i] = args[k];
        }
        if (!status) status = e->call(e, target, given, results);
    }
    cr_rule_dispose(&r);
    return status;
}

cr_status expand_movedim(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)op;
    const cr_meta *m = NULL;
    int order[CR_MAX_RANK];
    cr_arg items[CR_MAX_RANK];
    CR_TRY(e->meta(e, &args[0], &m));
    CR_TRY(cr__movedim_order(m->rank, &args[1], &args[2], order));
    for (int i = 0; i < m->rank; i++) items[i] = cr_arg_int(order[i]);
    cr_arg pair[2] = { args[0], cr_arg_list(items, m->rank) };
    return emit(e, "aten::permute", pair, 2, NULL, results);
}

/* split, chunk, tensor_split into sections: parts of known lengths. */
cr_status expand_split(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_rule r;
    int dim = 0;
    cr_arg *items = NULL;
    cr_status status = ask_rule(e, op, args, &r);
    if (!status) {
        status = cr_wrap_dim(args[2].u.i, r.out[0].meta.rank, &dim);
        items = cr_alloc((size_t)r.nout * sizeof *items);
        if (!items) status = CR_ENOMEM;
    }
    if (!status) {
        for (int i = 0; i < r.nout; i++) items[i] = cr_arg_int(r.out[i].meta.size[dim]);
        cr_arg given[3] = { args[0], cr_arg_list(items, (size_t)r.nout), args[2] };
        status = emit(e, "aten::split_with_sizes", given, 3, NULL, results);
    }
    cr_free(items);
    cr_rule_dispose(&r);
    return status;
}

/* Where to cut is in a tensor, which must be there. */
cr_status expand_tensor_split(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)op;
    const cr_meta *m = NULL;
    CR_TRY(e->meta(e, &args[1], &m));
    if (!m || m->dtype != CR_I64 || m->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "tensor_split: tensor_indices_or_sections must be an int64 tensor of at most one "
                                    "dimension");
    if (args[1].kind != CR_ARG_TENSOR || cr_tensor_is_fake(args[1].u.t))
        return CR_FAIL(CR_EDATADEP, "tensor_split: where to cut depends on data that is not known before the program "
                                    "runs");
    int64_t n = m->rank ? m->size[0] : 1;
    cr_arg *items = cr_alloc((size_t)n * sizeof *items);
    if (!items) return CR_ENOMEM;
    cr_status status = CR_OK;
    for (int64_t i = 0; i < n && !status; i++) {
        rt_scalar s;
        status = cr_tensor_item(args[1].u.t, &i, &s);
        items[i] = cr_arg_int(s.i);
    }
    cr_arg given[3] = { args[0], m->rank ? cr_arg_list(items, (size_t)n) : items[0], args[2] };
    if (!status)
        status = emit(e, m->rank ? "aten::tensor_split.indices" : "aten::tensor_split.sections", given, 3, NULL,
                      results);
    cr_free(items);
    return status;
}

cr_status expand_broadcast_tensors(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)op;
    const cr_arg *tensors = &args[0];
    cr_dim size[CR_MAX_RANK];
    cr_arg items[CR_MAX_RANK];
    int rank = 0;
    for (uint32_t i = 0; i < tensors->n; i++) {
        const cr_meta *m = NULL;
        CR_TRY(e->meta(e, &tensors->u.list[i], &m));
        CR_TRY(cr_broadcast(e->env, &rank, size, m->rank, m->size));
    }
    cr_arg *made = cr_alloc(tensors->n * sizeof *made);
    if (!made) return CR_ENOMEM;
    for (uint32_t i = 0; i < tensors->n; i++) {
        cr_arg pair[2] = { tensors->u.list[i], int_list(items, size, rank) };
        cr_status status = emit(e, "aten::expand", pair, 2, NULL, &made[i]);
        if (!status) continue;
        e->release(e, made, i);
        cr_free(made);
        return status;
    }
    results[0] = cr_arg_list(made, tensors->n);
    return CR_OK;
}

/* Channels-last images stay that inside of the result, because PyTorch joins them along the dimension and then splits
 * it. */
static cr_status stack_joined(cr_emitter *e, const cr_arg *args, const cr_meta *first, int dim, cr_arg *results) {
    cr_arg size[CR_MAX_RANK + 1], joined, given[2] = { args[0], cr_arg_int(dim) };
    for (uint32_t i = 1; i < args[0].n; i++) {
        const cr_meta *m = NULL;
        CR_TRY(e->meta(e, &args[0].u.list[i], &m));
        if (m->rank != first->rank) continue; /* cat refuses it */
        CR_TRY(cr_dim_require(e->env, m->size[dim], CR_EQ, first->size[dim],
                              "stack: every tensor must have the sizes of the first"));
    }
    for (int d = 0; d <= first->rank; d++)
        size[d] = cr_arg_int(d == dim ? (cr_dim)args[0].n : first->size[d - (d > dim)]);
    int rank = first->rank + 1;
    CR_TRY(emit(e, "aten::cat", given, 2, NULL, &joined));
    cr_status status = emit(e, "aten::view", (cr_arg[]){ joined, cr_arg_list(size, (size_t)rank) }, 2, NULL, results);
    e->release(e, &joined, 1);
    return status;
}

cr_status expand_stack(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) { /* tensors, dim */
    const cr_arg *tensors = &args[0];
    const cr_meta *m = NULL;
    if (!tensors->n) return CR_FAIL(CR_ERUNTIME, "%s: expected a non-empty list of tensors", op->schema.name);
    bool images = true;
    for (uint32_t i = tensors->n; i-- > 0 && images;) {
        CR_TRY(e->meta(e, &tensors->u.list[i], &m));
        images = cr_meta_suggest_format(e->env, m) != CR_CONTIGUOUS;
    }
    CR_TRY(e->meta(e, &tensors->u.list[0], &m));
    int dim = 0;
    CR_TRY(cr_wrap_dim(args[1].u.i, m->rank + 1, &dim));
    if (images && dim < m->rank) return stack_joined(e, args, m, dim, results);
    cr_arg *parts = cr_alloc(tensors->n * sizeof *parts);
    if (!parts) return CR_ENOMEM;
    cr_status status = CR_OK;
    uint32_t made = 0;
    for (; made < tensors->n && !status; made += !status)
        status = emit(e, "aten::unsqueeze", (cr_arg[]){ tensors->u.list[made], args[1] }, 2, NULL, &parts[made]);
    if (!status)
        status = emit(e, "aten::cat", (cr_arg[]){ cr_arg_list(parts, made), args[1] }, 2, NULL, results);
    e->release(e, parts, made);
    cr_free(parts);
    return status;
}

/* ---- the derivatives of as_strided and as_strided_scatter ---- */

/* Elements of storage that a tensor of this geometry reaches, from `first` on. */
static cr_dim extent(cr_env *env, int n, const cr_dim *size, const cr_dim *stride, cr_dim offset, cr_dim first) {
    cr_dim last = cr_dim_sub(env, offset, first);
    for (int i = 0; i < n; i++) last = cr_dim_add(env, last, cr_dim_mul(env, cr_dim_sub(env, size[i], 1), stride[i]));
    return cr_dim_add(env, last, 1);
}

/* Where a tensor and a part of its storage lie in a flat stand-in for that storage, which begins with the first of
 * both. */
typedef struct geometry { cr_arg size[CR_MAX_RANK], stride[CR_MAX_RANK], place[3]; } geometry;
static void geometry_set(cr_env *env, geometry *g, int n, const cr_dim *size, const cr_dim *stride, cr_dim offset,
                         cr_dim first) {
    g->place[0] = int_list(g->size, size, n);
    g->place[1] = int_list(g->stride, stride, n);
    g->place[2] = cr_arg_int(cr_dim_sub(env, offset, first));
}

/* `given`: size, stride and storage offset of the part, as the ops take them. *n: length of the stand-in. */
static cr_status geometries(cr_emitter *e, const char *name, const cr_arg *tensor, const cr_arg *given, geometry *self,
                            geometry *part, cr_dim *n) {
    const cr_meta *m = NULL;
    CR_TRY(e->meta(e, tensor, &m));
    if (cr_meta_self_overlap(m) == CR_YES)
        return CR_FAIL(CR_EUNSUPPORTED,
                       "%s: the derivative for a tensor whose elements share memory (an expanded one); clone it first",
                       name);
    int rank = (int)given[0].n;
    cr_dim size[CR_MAX_RANK], stride[CR_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        size[i] = given[0].u.list[i].u.i;
        stride[i] = given[1].u.list[i].u.i;
    }
    cr_dim offset = given[2].kind == CR_ARG_NONE ? m->offset : given[2].u.i;
    cr_dim first = cr_dim_min(e->env, offset, m->offset);
    geometry_set(e->env, self, m->rank, m->size, m->stride, m->offset, first);
    geometry_set(e->env, part, rank, size, stride, offset, first);
    *n = cr_dim_max(e->env, extent(e->env, m->rank, m->size, m->stride, m->offset, first),
                    extent(e->env, rank, size, stride, offset, first));
    *n = cr_dim_max(e->env, *n, 0);
    return CR_OK;
}

static cr_status emit_part(cr_emitter *e, const cr_arg *flat, const geometry *g, cr_arg *out) {
    cr_arg args[4] = { *flat, g->place[0], g->place[1], g->place[2] };
    return emit(e, "aten::as_strided", args, 4, NULL, out);
}

static cr_status emit_written(cr_emitter *e, const cr_arg *flat, const cr_arg *values, const geometry *g, cr_arg *out) {
    cr_arg args[5] = { *flat, *values, g->place[0], g->place[1], g->place[2] };
    return emit(e, "aten::as_strided_scatter", args, 5, NULL, out);
}

/* The stand-in collects the gradient at the places the result came from (which may repeat), and the argument's own
 * geometry reads it back. */
cr_status grad_as_strided(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    const cr_arg *grad = cr_grad_fn_grad(op, args, 0);
    geometry self, part;
    cr_dim n;
    for (int i = 0; i < op->schema.nparams; i++) results[i] = cr_arg_none();
    CR_TRY(geometries(e, "as_strided", &args[0], &args[1], &self, &part, &n));
    enum { FLAT, PLACES, PICKED, INDEX, VALUES, SUM, MADE };
    cr_arg made[MADE], one = cr_arg_int(-1), length = cr_arg_int(n);
    for (int i = 0; i < MADE; i++) made[i] = cr_arg_none();
    cr_status status;
    cr_arg flat[2] = { *grad, cr_arg_list(&length, 1) };
    CR_TRY_OUT(emit(e, "aten::new_zeros", flat, 2, NULL, &made[FLAT]));
    CR_TRY_OUT(emit(e, "aten::arange", &length, 1, NULL, &made[PLACES]));
    CR_TRY_OUT(emit_part(e, &made[PLACES], &part, &made[PICKED]));
    cr_arg index[2] = { made[PICKED], cr_arg_list(&one, 1) }, values[2] = { *grad, cr_arg_list(&one, 1) };
    CR_TRY_OUT(emit(e, "aten::reshape", index, 2, NULL, &made[INDEX]));
    CR_TRY_OUT(emit(e, "aten::reshape", values, 2, NULL, &made[VALUES]));
    cr_arg sum[4] = { made[FLAT], cr_arg_int(0), made[INDEX], made[VALUES] };
    CR_TRY_OUT(emit(e, "aten::index_add", sum, 4, NULL, &made[SUM]));
    CR_TRY_OUT(emit_part(e, &made[SUM], &self, &results[0]));
out:
    e->release(e, made, MADE);
    return status;
}

/* The stand-in holds the gradient where self lies and zeros in the gaps between: what was written into a gap is not
 * seen in the result. The part's places are src's gradient, and zeros for self. */
cr_status grad_as_strided_scatter(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    const cr_arg *grad = cr_grad_fn_grad(op, args, 0);
    geometry self, part;
    cr_dim n;
    for (int i = 0; i < op->schema.nparams; i++) results[i] = cr_arg_none();
    CR_TRY(geometries(e, "as_strided_scatter", &args[0], &args[2], &self, &part, &n));
    enum { FLAT, WHOLE, NOTHING, KEPT, MADE };
    cr_arg made[MADE], length = cr_arg_int(n);
    for (int i = 0; i < MADE; i++) made[i] = cr_arg_none();
    cr_status status;
    cr_arg flat[2] = { *grad, cr_arg_list(&length, 1) }, nothing[2] = { *grad, part.place[0] };
    CR_TRY_OUT(emit(e, "aten::new_zeros", flat, 2, NULL, &made[FLAT]));
    CR_TRY_OUT(emit_written(e, &made[FLAT], grad, &self, &made[WHOLE]));
    if (cr_grad_fn_needs(op, args, 1)) CR_TRY_OUT(emit_part(e, &made[WHOLE], &part, &results[1]));
    if (cr_grad_fn_needs(op, args, 0)) {
        CR_TRY_OUT(emit(e, "aten::new_zeros", nothing, 2, NULL, &made[NOTHING]));
        CR_TRY_OUT(emit_written(e, &made[WHOLE], &made[NOTHING], &part, &made[KEPT]));
        CR_TRY_OUT(emit_part(e, &made[KEPT], &self, &results[0]));
    }
out:
    e->release(e, made, MADE);
    if (status) {
        e->release(e, results, 2);
        results[0] = results[1] = cr_arg_none();
    }
    return status;
}
