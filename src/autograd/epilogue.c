/* epilogue.c: calling a compiled program: the code, one node on the eager tape for it, and what the program did besides
 * computing. See aot.h.
 *
 * Everything here that touches the caller's tensors is an eager call on the tape: copying a new value to an input gives
 * the input the history that the program would have given it, a view that is taken again has its root's. */
#include "autograd/segment.h"

#include "graph/writes.h"

/* ---- what one call keeps for its backward ---- */

typedef struct kept {
    cr_aot *aot;
    cr_tensor **saved;   /* aliases: same memory and version, no history */
    uint64_t *versions;
    cr_arg *numbers;
    cr__primals primals; /* for derivatives of gradients */
    cr_meta *tangents;   /* how each is laid out */
    bool gone;
    const cr_grad_node *node; /* whose it is */
} kept;

static void kept_forget(void *user) {
    kept *k = user;
    for (uint32_t i = 0; k->saved && i < k->aot->cut.nsaved; i++) cr_tensor_release(k->saved[i]);
    cr_free(k->saved);
    k->saved = NULL;
    cr__twice_release(k->aot, &k->primals);
    k->gone = true;
}

static void kept_release(void *user) {
    kept *k = user;
    kept_forget(k);
    cr_free(k->versions);
    cr_free(k->numbers);
    cr_free(k->tangents);
    cr_aot_release(k->aot);
    cr_free(k);
}

cr_status cr__aot_call_1(const char *name, const cr_arg *args, size_t n, bool grad, cr_tensor **out) {
    cr_ambient *ambient = cr_ambient_get();
    bool before = ambient->grad;
    ambient->grad = before && grad;
    cr_status status = cr_call_1(name, args, n, out);
    ambient->grad = before;
    return status;
}

static cr_status kept_create(cr_aot *a, kept **out) {
    kept *k = cr_calloc(1, sizeof *k);
    if (!k) return CR_ENOMEM;
    cr_aot_retain(k->aot = a);
    k->saved = cr_calloc(a->cut.nsaved + 1u, sizeof *k->saved);
    k->versions = cr_calloc(a->cut.nsaved + 1u, sizeof *k->versions);
    k->numbers = cr_calloc(a->cut.nnumbers + 1u, sizeof *k->numbers);
    k->tangents = cr_calloc(a->joint.ntangents + 1u, sizeof *k->tangents);
    if (k->saved && k->versions && k->numbers && k->tangents) return *out = k, CR_OK;
    kept_release(k);
    return CR_ENOMEM;
}

bool cr__aot_is_updated(const cr_aot *a, const cr_arg *inputs, const cr_tensor *t) {
    for (size_t i = 0; i < a->updates.n; i++)
        if (cr__aot_source(a, inputs, a->updates.at[i].source)->storage == t->storage) return true;
    return false;
}

/* The i-th saved tensor: an input, a result, or one that the code gave besides; `made` counts those. */
static cr_tensor *saved_tensor(const cr_aot *a, const cr_arg *inputs, const cr_arg *forward, uint32_t i,
                               uint32_t *made) {
    if (a->cut.primal[i] >= 0) return cr__aot_source(a, inputs, (size_t)a->cut.primal[i]);
    if (!a->cut.given[i]) return forward[a->cut.result[i]].u.t;
    return forward[a->joint.nforward + (*made)++].u.t;
}

static cr_status keep(kept *k, const cr_arg *inputs, const cr_arg *forward) {
    const cr_aot *a = k->aot;
    const cr_arg *numbers = forward + a->joint.nforward + a->cut.nmade;
    for (uint32_t i = 0, made = 0; i < a->cut.nsaved; i++) {
        cr_arg t = cr_arg_tensor(saved_tensor(a, inputs, forward, i, &made));
        /* what the program itself writes later is kept as it is now */
        bool written = cr__aot_is_updated(a, inputs, t.u.t);
        CR_TRY(cr__aot_call_1(written ? "aten::clone" : "aten::detach", &t, 1, false, &k->saved[i]));
    }
    memcpy(k->numbers, numbers, a->cut.nnumbers * sizeof *numbers);
    for (uint32_t i = 0; i < a->joint.ntangents; i++) {
        const cr_meta *m = &forward[a->joint.tangent_of[i]].u.t->meta;
        cr_meta_copy(&k->tangents[i], m);
        k->tangents[i].offset = 0;
        k->tangents[i].flags = 0;
        cr_layout_like(NULL, m, &k->tangents[i]);
    }
    return CR_OK;
}

/* What the program wrote itself is settled when it was compiled; what is written from here on is found. */
static void remember_versions(kept *k) {
    for (uint32_t i = 0; i < k->aot->cut.nsaved; i++) k->versions[i] = cr_tensor_version(k->saved[i]);
    cr__twice_remember(k->aot, &k->primals);
}

/* ---- the backward ---- */

static const char *kept_name(const void *user) {
    (void)user;
    return "CompiledFunctionBackward";
}

/* The tangent, laid out as the code expects it. */
static cr_status lay_out(cr_tensor *grad, const cr_meta *as, cr_tensor **out) {
    bool same = grad->meta.dtype == as->dtype && !(grad->meta.flags & (CR_META_CONJ | CR_META_NEG));
    for (int d = 0; same && d < as->rank; d++)
        same = as->size[d] < 2 || grad->meta.stride[d] == as->stride[d];
    if (same) return cr_tensor_retain(*out = grad), CR_OK;
    cr_tensor *copied = NULL;
    CR_TRY(cr_tensor_create(as, out));
    cr_arg args[] = { cr_arg_tensor(*out), cr_arg_tensor(grad) };
    cr_status status = cr__aot_call_1("aten::copy_", args, 2, false, &copied);
    if (status) cr_tensor_release(*out);
    else cr_tensor_release(copied);
    return status;
}

static cr_status check_saved(const kept *k) {
    if (k->gone)
        return CR_FAIL(CR_ERUNTIME, "Trying to backward through the graph a second time: what %s saved is freed after "
                                    "the first; specify retain_graph=True there",
                       kept_name(k));
    for (uint32_t i = 0; i < k->aot->cut.nsaved; i++) {
        uint64_t found = cr_tensor_version(k->saved[i]);
        if (found == k->versions[i]) continue;
        return CR_FAIL(CR_ERUNTIME,
                       "one of the variables needed for gradient computation has been modified by an inplace "
                       "operation: a tensor that %s saved is at version %llu; expected version %llu instead; clone() "
                       "it before it is written",
                       kept_name(k), (unsigned long long)found, (unsigned long long)k->versions[i]);
    }
    return CR_OK;
}

static cr_status run_backward(kept *k, const cr_aot_code *code, cr_tensor *const *grads, cr_tensor **out) {
    const cr_aot *a = k->aot;
    uint32_t n = 0, nout = a->joint.nprimals, first;
    cr_arg *args = cr_calloc(a->cut.nnumbers + a->cut.nsaved + a->joint.ntangents + nout + 1u, sizeof *args);
    if (!args) return CR_ENOMEM;
    cr_arg *results = args + a->cut.nnumbers + a->cut.nsaved + a->joint.ntangents;
    for (uint32_t i = 0; i < a->cut.nnumbers; i++) args[n++] = k->numbers[i];
    for (uint32_t i = 0; i < a->cut.nsaved; i++) args[n++] = cr_arg_tensor(k->saved[i]);
    first = n;
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < a->joint.ntangents && !status; i++) {
        cr_tensor *t;
        if (!grads[i]) continue;
        status = lay_out(grads[i], &k->tangents[i], &t);
        if (!status) args[n++] = cr_arg_tensor(t);
    }
    if (!status) status = code->run(code->code, args, n, results, nout);
    for (size_t i = 0; i < a->edges.n && !status; i++) {
        const cr_arg *made = &results[a->edges.at[i]];
        out[i] = made->kind == CR_ARG_TENSOR ? made->u.t : NULL;
    }
    cr_results_release(args + first, n - first);
    cr_free(args);
    return status;
}

/* ---- the backward of the backward ---- */

static const char *twice_name(const void *user) {
    (void)user;
    return "CompiledFunctionBackwardBackward";
}

static cr_status twice_call(void *user, cr_tensor *const *grads, cr_tensor **out) {
    (void)user, (void)grads, (void)out;
    return CR_FAIL(CR_ERUNTIME, "torch.compile with aot_autograd does not currently support double backward of "
                                "programs that draw random numbers: gradients that CompiledFunctionBackward made of "
                                "them have no derivative; where second derivatives are needed, call the function "
                                "itself, not what was compiled of it");
}

static void twice_release(void *user) { (void)user; }

static const cr_node_vtable twice = { twice_name, twice_call, NULL, twice_release, NULL };

/* Gradients that a graph is asked for are results of a node with the edges of the first one, which refuses to run. */
static cr_status refuse_later(const kept *k, cr_tensor **made) {
    uint32_t n = cr_grad_node_edges(k->node), count = 0;
    cr_tensor **inputs = cr_calloc(n + 1u, sizeof *inputs);
    cr_grad_node *node = NULL;
    cr_status status = inputs ? CR_OK : CR_ENOMEM;
    for (uint32_t i = 0; i < n && !status; i++) {
        cr_grad_edge edge;
        edge.node = cr_grad_node_edge(k->node, i, &edge.result);
        if (made[i] && edge.node) status = cr_autograd_alias(made[i], edge, &inputs[count]);
        count += made[i] && edge.node && !status;
    }
    if (!status) status = cr_autograd_function(&twice, NULL, inputs, count, &node);
    if (!status && node) status = cr_autograd_results(node, n);
    for (uint32_t i = 0; i < n && node && !status; i++)
        if (made[i]) status = cr_autograd_result(node, i, made[i], false);
    cr_grad_node_release(node);
    for (uint32_t i = 0; i < count; i++) cr_tensor_release(inputs[i]);
    cr_free(inputs);
    return status;
}

static cr_status kept_call(void *user, cr_tensor *const *grads, cr_tensor **out) {
    kept *k = user;
    cr_aot *a = k->aot;
    cr__backward *part = NULL;
    bool *defined = cr_calloc(a->joint.ntangents + 1u, sizeof *defined), any = false;
    if (!defined) return CR_ENOMEM;
    for (uint32_t i = 0; i < a->joint.ntangents; i++) any |= defined[i] = grads[i] != NULL;
    bool *grad = &cr_ambient_get()->grad, again = *grad;
    *grad = false;
    cr_status status = check_saved(k);
    if (!status && any) status = cr__aot_backward(a, defined, again, &part);
    if (!status && any && part->stale)
        status = CR_FAIL(CR_ERUNTIME,
                         "one of the variables needed for gradient computation has been modified by an inplace "
                         "operation: the compiled program writes to '%s' after it used it; write to a clone()",
                         part->stale);
    bool twice = !status && any && again && part->again;
    if (!status && any && !twice) status = run_backward(k, &part->code, grads, out);
    *grad = again;
    if (twice) status = cr__twice_run(a, part, &k->primals, k->node, grads, out);
    else if (!status && any && again) status = refuse_later(k, out);
    cr_free(defined);
    return status;
}

static const cr_node_vtable table = { kept_name, kept_call, kept_forget, kept_release, NULL };

bool cr__aot_inlined(const cr_grad_node *n, cr__inlined *out) {
    if (n->table != &table) return false;
    const kept *k = n->user;
    *out = (cr__inlined){ k->aot, k->numbers, k->saved, k->tangents };
    return !k->gone;
}

cr_status cr__aot_check_saved(const cr_grad_node *n) { return check_saved(n->user); }

/* ---- what the program did besides ---- */

cr_tensor *cr__aot_source(const cr_aot *a, const cr_arg *inputs, size_t i) {
    const cr_arg *arg = &inputs[a->sources.at[i].input];
    if (!a->sources.at[i].tensor) return NULL;
    return a->sources.at[i].root && arg->u.t->base ? arg->u.t->base : arg->u.t;
}

static cr_status copy_back(const cr_aot *a, const cr_arg *inputs, const cr_arg *forward) {
    for (size_t i = 0; i < a->updates.n; i++) {
        cr_tensor *t = cr__aot_source(a, inputs, a->updates.at[i].source), *same;
        cr_arg args[] = { cr_arg_tensor(t), forward[i] };
        cr_tensor *plain = NULL;
        if (!a->updates.at[i].bumps) { /* written by x.data alone, which nobody counts */
            CR_TRY(cr_tensor_apart(t, &plain));
            args[0] = cr_arg_tensor(plain);
        }
        cr_status status = cr__aot_call_1("aten::copy_", args, 2, !a->updates.at[i].hidden, &same);
        cr_tensor_release(plain);
        CR_TRY(status);
        cr_tensor_release(same);
        for (uint16_t k = 1; k < a->updates.at[i].bumps; k++) cr_tensor_bump(t);
    }
    return CR_OK;
}

static cr_status run_replays(cr_aot *a, const cr_arg *inputs, const cr_arg *roots, cr_arg **out, size_t *n) {
    *n = a->epilogue ? cr_plan_result_count(a->epilogue) : 0;
    *out = NULL;
    if (!a->epilogue) return CR_OK;
    size_t nargs = a->meta.ninputs + a->meta.needed.n;
    cr_arg *args = cr_calloc(nargs + 1, sizeof *args);
    if (!(*out = cr_calloc(*n + 1, sizeof **out)) || !args) {
        cr_free(args);
        return CR_ENOMEM;
    }
    memcpy(args, inputs, a->meta.ninputs * sizeof *args);
    for (size_t i = 0; i < a->meta.needed.n; i++) args[a->meta.ninputs + i] = roots[a->meta.needed.at[i]];
    cr_status status = cr_plan_run(a->epilogue, args, nargs, *out, *n);
    cr_free(args);
    if (status) *n = 0;
    return status;
}

static void hand_out(cr_arg *result, const cr_arg *from) {
    *result = *from;
    if (from->kind == CR_ARG_TENSOR) cr_tensor_retain(from->u.t);
}

/* Views and objects. forward: the code's results, updates first. */
static cr_status give_results(cr_aot *a, const cr_arg *inputs, const cr_arg *forward, cr_arg *results) {
    const cr_arg *roots = forward + a->updates.n;
    cr_arg *views;
    size_t n;
    cr_status status = run_replays(a, inputs, roots, &views, &n);
    for (uint32_t i = 0; i < a->meta.noutputs && !status; i++) {
        const cr_aot_output *o = &a->meta.outputs[i];
        if (o->replayed >= 0) hand_out(&results[i], &views[o->replayed]);
        else if (o->kind == CR_AOT_IS_INPUT) hand_out(&results[i], &inputs[o->of]);
        else if (o->kind == CR_AOT_IS_OUTPUT) hand_out(&results[i], &results[o->of]);
        else hand_out(&results[i], &roots[o->of]);
    }
    if (views) cr_results_release(views, n);
    cr_free(views);
    return status;
}

/* `t`, which lies in the new value `from`, as it lies in `to`, where that was copied. */
static cr_status move_alias(const cr_tensor *t, const cr_tensor *from, cr_tensor *to, cr_tensor **out) {
    cr_arg size[CR_MAX_RANK], stride[CR_MAX_RANK];
    int rank = t->meta.rank;
    for (int d = 0; d < rank; d++) size[d] = cr_arg_int(t->meta.size[d]), stride[d] = cr_arg_int(t->meta.stride[d]);
    cr_arg args[] = { cr_arg_tensor(to), cr_arg_list(size, (size_t)rank), cr_arg_list(stride, (size_t)rank),
                      cr_arg_int(t->meta.offset - from->meta.offset + to->meta.offset) };
    cr_tensor *placed;
    CR_TRY(cr__aot_call_1("aten::as_strided", args, 4, false, &placed));
    cr_arg arg = cr_arg_tensor(placed);
    cr_status status = cr__aot_call_1("aten::detach", &arg, 1, false, out);
    cr_tensor_release(placed);
    return status;
}

static bool lie_alike(const cr_tensor *a, const cr_tensor *b) {
    for (int d = 0; d < a->meta.rank; d++)
        if (a->meta.size[d] > 1 && a->meta.stride[d] != b->meta.stride[d]) return false;
    return a->meta.dtype == b->meta.dtype && !((a->meta.flags ^ b->meta.flags) & (CR_META_CONJ | CR_META_NEG));
}

/* New values of inputs that were saved are in the inputs now: one memory, and a later write to it is noticed. */
static cr_status save_again(kept *k, const cr_arg *inputs, const cr_arg *forward) {
    const cr_aot *a = k->aot;
    for (uint32_t i = 0, made = 0; i < a->cut.nsaved; i++) {
        const cr_tensor *t = saved_tensor(a, inputs, forward, i, &made);
        for (size_t u = 0; u < a->updates.n; u++) {
            const cr_tensor *from = forward[u].u.t;
            cr_tensor *to = cr__aot_source(a, inputs, a->updates.at[u].source), *alias;
            if (t->storage != from->storage || !lie_alike(from, to)) continue;
            CR_TRY(move_alias(t, from, to, &alias));
            cr_tensor_release(k->saved[i]);
            k->saved[i] = alias;
            break;
        }
    }
    return CR_OK;
}

static bool fills(const cr_tensor *t, const cr_tensor *whole) {
    return t->meta.dtype == whole->meta.dtype &&
           cr_meta_numel(NULL, &t->meta) == cr_meta_numel(NULL, &whole->meta) &&
           cr_meta_is_dense(NULL, &t->meta) == CR_YES && cr_meta_is_dense(NULL, &whole->meta) == CR_YES;
}

/* A saved tensor of which a result is a view lies in the result's memory, also where the code gives both apart. */
static cr_status join_saved(const cr_aot *a, cr_arg *forward) {
    for (uint32_t i = 0, made = 0; i < a->cut.nsaved; i++) {
        if (!a->cut.given[i]) continue;
        cr_arg *saved = &forward[a->joint.nforward + made++];
        if (a->cut.result[i] < 0) continue;
        cr_tensor *whole = forward[a->cut.result[i]].u.t, *alias, own = *saved->u.t;
        if (own.storage == whole->storage || !fills(&own, whole)) continue;
        own.meta.offset = whole->meta.offset;
        CR_TRY(move_alias(&own, whole, whole, &alias));
        cr_tensor_release(saved->u.t);
        saved->u.t = alias;
    }
    return CR_OK;
}

/* ---- a call ---- */

/* As the program itself would complain, before anything is written. */
static cr_status check_writes(const cr_aot *a, const cr_arg *inputs) {
    for (uint32_t i = 0; i < a->meta.ninputs && cr_ambient_get()->grad; i++) {
        const cr_aot_input *in = &a->meta.inputs[i];
        cr_tensor *t = inputs[i].kind == CR_ARG_TENSOR ? inputs[i].u.t : NULL;
        bool seen = in->writes & CR_WRITE_META || (in->writes & CR_WRITE_DATA && !in->hidden);
        if (!t || !seen || !cr_tensor_requires_grad(t)) continue;
        bool view = t->base && cr_tensor_requires_grad(t->base) && cr_autograd_is_leaf(t->base);
        if (view || cr_autograd_is_leaf(t))
            return CR_FAIL(CR_ERUNTIME,
                           "input %u: a %sleaf Variable that requires grad is being used in an in-place operation; "
                           "write inside of no_grad()",
                           i, view ? "view of a " : "");
    }
    return CR_OK;
}

static cr_status attach(cr_aot *a, kept *k, cr_grad_node *node, const cr_arg *inputs, const cr_arg *forward) {
    CR_TRY(keep(k, inputs, forward));
    CR_TRY(cr__twice_keep(a, inputs, &k->primals));
    CR_TRY(cr_autograd_results(node, a->joint.ntangents));
    for (uint32_t i = 0; i < a->joint.ntangents; i++)
        CR_TRY(cr_autograd_result(node, i, forward[a->joint.tangent_of[i]].u.t, false));
    return CR_OK;
}

/* What the code gives is nobody's view, whatever the code thinks. */
static cr_status own_results(cr_arg *results, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cr_tensor *own;
        if (results[i].kind != CR_ARG_TENSOR || !results[i].u.t->base) continue;
        CR_TRY(cr__aot_call_1("aten::detach", &results[i], 1, false, &own));
        cr_tensor_release(results[i].u.t);
        results[i].u.t = own;
    }
    return CR_OK;
}

static void count_writes(const cr_aot *a, const cr_arg *roots) {
    for (size_t i = 0; i < a->meta.roots.n; i++)
        for (uint16_t k = 0; roots[i].kind == CR_ARG_TENSOR && k < a->meta.bumps[i]; k++) cr_tensor_bump(roots[i].u.t);
}

static cr_status run_forward(cr_aot *a, const cr_arg *inputs, cr_arg *args, cr_arg *forward, size_t n) {
    cr_ambient *ambient = cr_ambient_get();
    bool grad = ambient->grad;
    for (size_t i = 0; i < a->sources.n; i++) {
        cr_tensor *t = cr__aot_source(a, inputs, i);
        args[i] = t ? cr_arg_tensor(t) : inputs[a->sources.at[i].input];
    }
    ambient->grad = false;
    cr_status status = a->forward.run(a->forward.code, args, a->sources.n, forward, n);
    ambient->grad = grad;
    return status;
}

/* The node, where the tape records; its edges are those of the inputs as they are before the program. */
static cr_status make_node(cr_aot *a, const cr_arg *inputs, kept **k, cr_grad_node **node) {
    *node = NULL;
    *k = NULL;
    if (!a->joint.graph) return CR_OK;
    uint32_t n = (uint32_t)a->edges.n;
    cr_tensor **tensors = cr_calloc(n + 1u, sizeof *tensors);
    if (!tensors) return CR_ENOMEM;
    for (uint32_t i = 0; i < n; i++) tensors[i] = cr__aot_source(a, inputs, a->edges.at[i]);
    cr_status status = kept_create(a, k);
    if (!status) {
        status = cr_autograd_function(&table, *k, tensors, n, node);
        (*k)->node = *node;
        if (status || !*node) {
            kept_release(*k);
            *k = NULL;
        }
    }
    cr_free(tensors);
    return status;
}

cr_status cr_aot_call(cr_aot *a, const cr_arg *inputs, size_t n, cr_arg *results, bool *wrote) {
    bool nobody;
    wrote = wrote ? wrote : &nobody;
    *wrote = a->replay != NULL; /* where in it who knows */
    if (n != a->meta.ninputs) return CR_FAIL(CR_ETYPE, "the program takes %u inputs, not %zu", a->meta.ninputs, n);
    if (a->replay) return cr__aot_run_replay(a, inputs, n, results);
    for (size_t i = 0; i < a->sources.n; i++)
        if (a->sources.at[i].tensor && inputs[a->sources.at[i].input].kind != CR_ARG_TENSOR)
            return CR_FAIL(CR_ETYPE, "input %u must be a tensor", a->sources.at[i].input);
    size_t given = a->updates.n + a->meta.roots.n, all = given + a->cut.nmade + a->cut.nnumbers;
    cr_arg *forward = cr_calloc(all + a->sources.n + 1, sizeof *forward);
    cr_grad_node *node = NULL;
    kept *k = NULL;
    cr_status status = forward ? CR_OK : CR_ENOMEM;
    bool ran = false;
    if (!forward) return status;
    for (uint32_t i = 0; i < a->meta.noutputs; i++) results[i] = cr_arg_none();
    CR_TRY_OUT(check_writes(a, inputs));
    CR_TRY_OUT(make_node(a, inputs, &k, &node));
    CR_TRY_OUT(run_forward(a, inputs, forward + all, forward, all));
    ran = true;
    CR_TRY_OUT(own_results(forward, given));
    CR_TRY_OUT(join_saved(a, forward));
    count_writes(a, forward + a->updates.n);
    if (node) CR_TRY_OUT(attach(a, k, node, inputs, forward));
    *wrote = a->updates.n || a->meta.any_meta;
    CR_TRY_OUT(copy_back(a, inputs, forward));
    if (node) CR_TRY_OUT(save_again(k, inputs, forward));
    CR_TRY_OUT(give_results(a, inputs, forward, results));
    if (node) remember_versions(k);
out:
    cr_grad_node_release(node);
    if (ran) cr_results_release(forward, all);
    cr_free(forward);
    if (status) cr_results_release(results, a->meta.noutputs);
    return status;
}
