/* engine.c: the backward walk. Nodes wait in a heap, the latest first: whoever sends a gradient to a node was recorded
 * after it, so when a node is taken out, all its gradients are there. The sinks of leaves come last, or, where that can
 * be seen, right after the first node that used them: then their gradient is whole. No node is visited that no gradient
 * reaches, and, when only some tensors are asked for, none that does not lead to them. */
#include "autograd/walk.h"

#include "ops/formula.h"

#include <stdlib.h>

/* ---- places and the heap ---- */

/* One walk at a time of all threads finds its places in the nodes: the one that holds this; others have a map. */
static int marking; /* atomic */

static bool find_place(const cr__walk *w, const cr_grad_node *node, uint64_t *at) {
    if (!w->marks) return cr_map_find(&w->index, &node, sizeof node, at);
    *at = node->place;
    return node->walk == w->number;
}

static cr_status set_place(cr__walk *w, cr_grad_node *node, size_t at) {
    if (!w->marks) return cr_map_put(&w->index, &node, sizeof node, at);
    node->walk = w->number;
    node->place = at;
    return CR_OK;
}

cr_status cr__walk_place(cr__walk *w, cr_grad_node *node, size_t *out) {
    uint64_t at;
    if (find_place(w, node, &at)) return *out = at, CR_OK;
    CR_TRY(cr_vec_reserve(&w->all, w->all.n + 1));
    cr_tensor **grads = cr_arena_calloc(&w->arena, node->nouts + 1u, sizeof *grads);
    if (!grads) return CR_ENOMEM;
    CR_TRY(set_place(w, node, w->all.n));
    cr_grad_node_retain(node);
    *out = w->all.n;
    w->all.at[w->all.n++] = (cr__pending){ .node = node, .grads = grads, .order = node->order };
    return CR_OK;
}

static uint64_t order_at(const cr__walk *w, size_t i) { return w->all.at[w->heap.at[i]].order; }

static void swap(cr__walk *w, size_t i, size_t k) {
    size_t place = w->heap.at[i];
    w->heap.at[i] = w->heap.at[k];
    w->heap.at[k] = place;
}

cr_status cr__walk_push(cr__walk *w, size_t place) {
    if (w->all.at[place].queued) return CR_OK;
    CR_TRY(cr_vec_push(&w->heap, place));
    w->all.at[place].queued = true;
    for (size_t i = w->heap.n - 1; i && order_at(w, (i - 1) / 2) < order_at(w, i); i = (i - 1) / 2)
        swap(w, i, (i - 1) / 2);
    return CR_OK;
}

void cr__walk_drop(cr__walk *w) {
    size_t n = w->heap.n;
    w->heap.n = 0;
    for (size_t i = 0; i < n; i++) {
        cr__pending *p = &w->all.at[w->heap.at[i]];
        if (!p->queued) continue;
        p->queued = false; /* no memory is needed: it had its place */
        if (cr__walk_push(w, w->heap.at[i])) return;
    }
}

static size_t heap_pop(cr__walk *w) {
    size_t top = w->heap.at[0], i = 0;
    w->heap.at[0] = w->heap.at[--w->heap.n];
    for (;;) {
        size_t left = 2 * i + 1, most = i;
        for (size_t k = left; k < left + 2 && k < w->heap.n; k++)
            if (order_at(w, k) > order_at(w, most)) most = k;
        if (most == i) return top;
        swap(w, i, most);
        i = most;
    }
}

/* ---- sums ---- */

/* May it be written to, because nobody else can see it? */
static bool is_ours(const cr_tensor *t) {
    return __atomic_load_n(&t->refs, __ATOMIC_RELAXED) == 1 && !t->base && !t->fn && !t->autograd &&
           __atomic_load_n(&t->storage->refs, __ATOMIC_RELAXED) == 1 && !t->storage->readonly &&
           cr_meta_is_dense(NULL, &t->meta) == CR_YES && !(t->meta.flags & (CR_META_CONJ | CR_META_NEG));
}

static cr_status add(bool inside, cr_tensor *a, cr_tensor *b, cr_tensor **out) {
    static const cr_op *known[2]; /* by name once */
    const cr_op *op = __atomic_load_n(&known[inside], __ATOMIC_RELAXED);
    if (!op) op = cr_op_find(inside ? "aten::add_.Tensor" : "aten::add.Tensor");
    __atomic_store_n(&known[inside], op, __ATOMIC_RELAXED);
    cr_arg args[3] = { cr_arg_tensor(a), cr_arg_tensor(b), op->schema.params[2].fallback }, made;
    CR_TRY(cr_call(op, args, &made));
    *out = made.u.t;
    return CR_OK;
}

/* *sum += grad. */
static cr_status add_into(cr_tensor **sum, cr_tensor *grad, bool graph) {
    cr_tensor *total;
    bool inside = !graph && !grad->mapped && is_ours(*sum) && (*sum)->meta.dtype == grad->meta.dtype;
    CR_TRY(add(inside, *sum, grad, &total));
    cr_tensor_release(*sum);
    *sum = total;
    return CR_OK;
}

/* Takes over the gradient. */
static cr_status send(cr__walk *w, const cr__edge *to, cr_tensor *grad) {
    size_t place;
    cr_status status = cr__walk_place(w, to->node, &place);
    cr_tensor **sum = status ? NULL : &w->all.at[place].grads[to->result];
    if (!status && !*sum) {
        *sum = grad;
        return cr__walk_push(w, place);
    }
    if (!status) status = add_into(sum, grad, w->b->graph);
    cr_tensor_release(grad);
    return status ? status : cr__walk_push(w, place);
}

/* A leaf's .grad: the gradient itself where it is ours alone, else a copy; or added to what is there. */
static cr_status accumulate(cr_tensor *leaf, cr_tensor **grad, bool graph) {
    cr__autograd *a = cr__autograd_of(leaf);
    if (!a) return CR_ENOMEM;
    cr_status status = CR_OK;
    if ((*grad)->mapped)
        return CR_FAIL(CR_ERUNTIME, "backward() inside of a function under vmap has no one gradient to add to .grad; "
                                    "use func.grad or func.vjp");
    cr__lock(&leaf->lock);
    if (!a->grad && !graph && is_ours(*grad)) {
        a->grad = *grad;
        *grad = NULL;
    } else if (!a->grad) {
        cr_arg arg = cr_arg_tensor(*grad);
        status = cr_call_1("aten::clone", &arg, 1, &a->grad);
        if (status) a->grad = NULL;
    } else if (graph) {
        status = add_into(&a->grad, *grad, true);
    } else {
        cr_tensor *same = NULL;
        status = add(true, a->grad, *grad, &same);
        if (!status) cr_tensor_release(same);
    }
    cr__unlock(&leaf->lock);
    return status;
}

/* ---- one node ---- */

static cr_status run_hook(const cr_grad_hook *hook, cr_tensor **grad) {
    cr_tensor *other = NULL;
    CR_TRY(hook->call(hook->user, *grad, &other));
    if (!other) return CR_OK;
    const cr_meta *m = &(*grad)->meta, *o = &other->meta;
    bool fits = m->rank == o->rank;
    for (int d = 0; fits && d < m->rank; d++) fits = cr_dim_known(other->env, m->size[d], CR_EQ, o->size[d]) == CR_YES;
    if (!fits) {
        cr_tensor_release(other);
        return CR_FAIL(CR_ERUNTIME, "a hook has changed the size of the gradient");
    }
    if (m->dtype != o->dtype) {
        cr_dtype made = o->dtype;
        cr_tensor_release(other);
        return CR_FAIL(CR_ERUNTIME,
                       "a hook has changed the type of the gradient (was %s, got %s): cast what it returns",
                       cr_dtype_name((*grad)->meta.dtype), cr_dtype_name(made));
    }
    cr_tensor_release(*grad);
    *grad = other;
    return CR_OK;
}

/* Hooks may take hooks out, themselves too, and put others in, which wait for the next gradient. Ids grow in order of
 * registration: the next one is the first with a larger id, up to the last that was there before. */
#define LAST_HOOK(v, ID) ((v).n ? (v).at[(v).n - 1] ID : 0)
#define NEXT_HOOK(i, v, ID, done) for ((i) = 0; (i) < (v).n && (v).at[i] ID <= (done); (i)++)

static cr_status run_hooks(const cr__pending *p) {
    cr_grad_node *n = p->node;
    cr__autograd *leaf = n->leaf ? cr__autograd_get(n->leaf) : NULL;
    size_t i;
    for (uint64_t done = 0, last = leaf ? LAST_HOOK(leaf->hooks, .id) : 0; done < last;) {
        NEXT_HOOK(i, leaf->hooks, .id, done);
        if (i == leaf->hooks.n || leaf->hooks.at[i].id > last) break;
        cr_grad_hook hook = leaf->hooks.at[i];
        done = hook.id;
        CR_TRY(run_hook(&hook, &p->grads[0]));
    }
    for (uint64_t done = 0, last = LAST_HOOK(n->hooks, .hook.id); done < last;) {
        NEXT_HOOK(i, n->hooks, .hook.id, done);
        if (i == n->hooks.n || n->hooks.at[i].hook.id > last) break;
        cr__node_hook h = n->hooks.at[i];
        done = h.hook.id;
        if (p->grads[h.result]) CR_TRY(run_hook(&h.hook, &p->grads[h.result]));
    }
    return CR_OK;
}

/* Hooks of the whole node; each may put other tensors into the arrays. */
static cr_status run_node_hooks(cr_grad_node *n, bool before, cr_tensor **made, cr_tensor **grads) {
    uint64_t done = 0, last = 0;
    for (bool first = true; n->extra; first = false) {
        cr_node_hook hook = { .call = NULL };
        size_t i;
        cr__lock(&n->lock);
        CR_VEC(cr_node_hook) *hooks = before ? (void *)&n->extra->before : (void *)&n->extra->after;
        if (first) last = LAST_HOOK(*hooks, .id);
        NEXT_HOOK(i, *hooks, .id, done);
        if (i < hooks->n && hooks->at[i].id <= last) hook = hooks->at[i];
        cr__unlock(&n->lock);
        if (!hook.call) break;
        done = hook.id;
        CR_TRY(hook.call(hook.user, made, made ? n->nslots : 0, grads, n->nouts));
    }
    return CR_OK;
}

static cr_status run_hooks_after(cr_tensor *leaf) {
    cr__autograd *a = cr__autograd_get(leaf);
    size_t i;
    for (uint64_t done = 0, last = a ? LAST_HOOK(a->after, .id) : 0; done < last;) {
        NEXT_HOOK(i, a->after, .id, done);
        if (i == a->after.n || a->after.at[i].id > last) break;
        cr_grad_hook hook = a->after.at[i];
        cr_tensor *unused = NULL;
        done = hook.id;
        CR_TRY(hook.call(hook.user, leaf, &unused));
    }
    return CR_OK;
}

/* Results that retain their gradients. */
static cr_status keep_grads(const cr__pending *p, bool graph) {
    cr_grad_node *n = p->node;
    for (size_t i = 0; i < n->keepers.n; i++) {
        cr__keeper k = n->keepers.at[i];
        cr_tensor *grad = p->grads[k.result];
        if (!grad) continue;
        cr_tensor_retain(grad);
        cr_status status = accumulate(k.tensor, &grad, graph);
        cr_tensor_release(grad);
        if (status) return status;
    }
    return CR_OK;
}

/* The gradients in the shape of the results. Borrowed; lists in `items`, which has room for all. */
void cr__walk_shape(const cr_grad_node *n, cr_tensor *const *grads, const cr_arg *results, cr_arg *items,
                    cr_arg *out) {
    uint32_t at = 0;
    for (uint16_t i = 0; i < n->nresults; i++) {
        out[i] = cr_arg_none();
        if (results[i].kind == CR_ARG_LIST) {
            bool any = false;
            cr_arg *first = &items[at];
            for (uint32_t k = 0; k < results[i].n; k++, at++) {
                items[at] = grads[at] ? cr_arg_tensor(grads[at]) : cr_arg_none();
                any |= grads[at] != NULL;
            }
            if (any) out[i] = cr_arg_list(first, results[i].n);
        } else if (n->singles >> i & 1) {
            if (grads[at]) out[i] = cr_arg_tensor(grads[at]);
            at++;
        }
    }
}

bool cr__walk_wants(const cr__walk *w, const cr__edge *e) {
    uint64_t at;
    if (!e->node) return false;
    return !w->captures || (find_place(w, e->node, &at) && w->all.at[at].needed);
}

/* What the derivative gave, one for each tensor among the arguments; each has a reference. */
void cr__walk_gather(const cr_grad_node *n, const cr_arg *args, cr_arg *made, cr_tensor **each) {
    uint32_t slot = 0;
    for (uint16_t p = 0; p < n->nargs; p++) {
        bool list = args[p].kind == CR_ARG_LIST;
        const cr_arg *items = list ? args[p].u.list : &args[p];
        for (uint32_t k = 0; k < (list ? args[p].n : 1); k++) {
            if (items[k].kind != CR_ARG_TENSOR) continue;
            const cr_arg *g = made[p].kind == CR_ARG_LIST ? &made[p].u.list[k] : &made[p];
            if (g->kind == CR_ARG_TENSOR) {
                each[slot] = g->u.t;
                if (list || g != &made[p]) cr_tensor_retain(g->u.t);
                else made[p] = cr_arg_none(); /* handed over */
            }
            slot++;
        }
    }
}

/* Sends gradients to where the arguments came from; takes them over, and leaves none. */
static cr_status send_all(cr__walk *w, const cr_grad_node *n, cr_tensor **each) {
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < n->nslots; i++) {
        const cr__edge *to = &n->slots[i].edge;
        cr_tensor *grad = each[i];
        each[i] = NULL;
        if (grad && !status && cr__walk_wants(w, to)) status = send(w, to, grad);
        else cr_tensor_release(grad);
    }
    return status;
}

/* With PyTorch's classes: what somebody could register, what a tensor was made to show, what is missing. */
static cr_status refuse(const cr_op *op) {
    if (op->tags & CR_TAG_CUSTOM)
        return CR_FAIL(CR_ERUNTIME,
                       "trying to backward through %s, but no autograd formula was registered; use "
                       "register_autograd() to add one",
                       op->name);
    return CR_FAIL(op->tags & CR_TAG_METADATA ? CR_ERUNTIME : CR_ENOTIMPL, "derivative for %s is not implemented",
                   op->name);
}

enum { SMALL = CR_LIMIT(8, 1) };

/* By the op's derivative. each: per tensor argument, owned. */
static cr_status derive(cr__walk *w, cr_grad_node *n, cr_tensor *const *grads, cr_tensor **each) {
    cr_arg args[CR_MAX_PARAMS], results[CR__MAX_RESULTS], given[CR__MAX_RESULTS], made[CR_MAX_PARAMS], small[SMALL];
    bool needs[CR_MAX_PARAMS], any = false;
    uint32_t slot = 0;
    cr_arg *items = small;
    bool graph = w->b->graph;
    for (uint16_t p = 0; p < n->nargs; p++) args[p] = made[p] = cr_arg_none();
    for (uint16_t i = 0; i < n->nresults; i++) results[i] = cr_arg_none();
    uint64_t lent;
    cr_status status = cr__saved_open(n, graph, !graph && !w->b->keep, args, &lent, results);
    if (status) goto out;
    for (uint16_t p = 0; p < n->nargs; p++) {
        uint32_t tensors = cr__count_tensors(&args[p], 1);
        needs[p] = false;
        for (uint32_t k = 0; k < tensors; k++) needs[p] |= cr__walk_wants(w, &n->slots[slot++].edge);
        any |= needs[p];
    }
    if (!any) goto out;
    if (n->underived) CR_TRY_OUT(refuse(n->op));
    if (n->nouts > SMALL && !(items = cr_calloc(n->nouts, sizeof *items))) CR_TRY_OUT(CR_ENOMEM);
    cr__walk_shape(n, grads, results, items, given);
    CR_TRY_OUT(cr_grad_expand(cr_exec_emitter(), n->op, args, results, given, needs, made));
    cr__walk_gather(n, args, made, each);
out:
    if (items != small) cr_free(items);
    cr_results_release(made, n->nargs);
    cr__args_drop(args, lent);
    cr_results_release(args, n->nargs);
    cr_results_release(results, n->nresults);
    return status;
}

/* Runs the node and sends on what it gives. */
static cr_status run_node(cr__walk *w, cr_grad_node *n, cr_tensor **grads) {
    cr_tensor *small[SMALL] = { NULL }, **each = small;
    bool any = !w->captures;
    for (uint32_t i = 0; i < n->nslots && !any; i++) any = cr__walk_wants(w, &n->slots[i].edge);
    if (!any) return CR_OK; /* it was asked for its own gradient */
    if (n->nslots > SMALL && !(each = cr_calloc(n->nslots, sizeof *each))) return CR_ENOMEM;
    cr_status status = run_node_hooks(n, true, NULL, grads);
    if (!status) status = n->table ? cr__function_call(n, grads, each) : derive(w, n, grads, each);
    if (!status && n->table && n->table->forget && !w->b->keep && !w->b->graph) n->table->forget(n->user);
    if (__atomic_load_n(&cr__anomaly_on, __ATOMIC_RELAXED)) status = cr__anomaly_check(n, status, each);
    if (!status) status = run_node_hooks(n, false, each, grads);
    if (!status) status = send_all(w, n, each);
    for (uint32_t i = 0; i < n->nslots; i++) cr_tensor_release(each[i]);
    if (each != small) cr_free(each);
    return status;
}

static cr_status fill_leaf(const cr__walk *w, cr_grad_node *n, cr_tensor **grads) {
    if (w->captures) return CR_OK;
    CR_TRY(run_node_hooks(n, true, NULL, grads));
    if (!grads[0]) return CR_OK;
    cr_tensor *grad = grads[0];
    if (n->extra) cr_tensor_retain(grad); /* hooks see it afterwards */
    cr_status status = accumulate(n->leaf, &grads[0], w->b->graph);
    if (!n->extra) return status ? status : run_hooks_after(n->leaf);
    cr_tensor_release(grads[0]);
    grads[0] = grad;
    if (!status) status = run_hooks_after(n->leaf);
    return status ? status : run_node_hooks(n, false, NULL, grads);
}

static _Thread_local cr__walk *walking; /* the innermost one */

cr_status cr__walk_show(cr__walk *w, const cr__pending *p) {
    CR_TRY(keep_grads(p, w->b->graph));
    for (size_t i = 0; w->captures && i < w->b->ninputs; i++) {
        cr__captured *c = &w->captures[i];
        if (c->edge.node != p->node || !p->grads[c->edge.result]) continue;
        cr_tensor_retain(c->grad = p->grads[c->edge.result]);
    }
    return CR_OK;
}

static cr_status visit(cr__walk *w, size_t place) {
    const cr__pending p = w->all.at[place]; /* the array may move */
    w->at = p.node;
    if (!p.hooked) CR_TRY(run_hooks(&p));
    CR_TRY(cr__walk_show(w, &p));
    cr_status status;
    if (p.node->leaf) status = fill_leaf(w, p.node, p.grads);
    else status = run_node(w, p.node, p.grads);
    for (uint32_t i = 0; i < p.node->nouts; i++) {
        cr_tensor_release(p.grads[i]);
        p.grads[i] = NULL;
    }
    return status;
}

/* It is put back: a graph may begin with it. */
static cr_status run_hooks_first(cr__walk *w, size_t place) {
    const cr__pending p = w->all.at[place];
    w->at = p.node;
    CR_TRY(run_hooks(&p));
    w->all.at[place].hooked = true;
    w->all.at[place].queued = false;
    return cr__walk_push(w, place);
}

/* ---- the whole walk ---- */

/* A result of the node, or a fake of it; owned. NULL: unknown. */
static cr_status result_of(const cr_grad_node *n, uint32_t result, cr_tensor **out) {
    uint32_t at = 0;
    *out = NULL;
    for (uint16_t r = 0; r < n->nresults; r++) {
        const cr_arg *items = n->results[r].kind == CR_ARG_LIST ? n->results[r].u.list : &n->results[r];
        for (uint32_t k = 0; k < (n->results[r].kind == CR_ARG_LIST ? n->results[r].n : 1); k++) {
            if ((items[k].kind != CR_ARG_TENSOR && !n->table) || at++ != result) continue;
            if (items[k].kind != CR_ARG_TENSOR) return CR_OK;
            if (!items[k].u.t) return cr__shape_open(n, &n->outs[result], out);
            cr_tensor_retain(*out = items[k].u.t);
            return CR_OK;
        }
    }
    return CR_OK;
}

/* What stands for the root: itself, or the leaf or a fake of the node that it is a result of; owned. */
static cr_status root_of(const cr_backward *b, size_t i, cr_tensor **out) {
    *out = b->roots[i] ? b->roots[i] : b->from[i].node->leaf;
    if (!*out) CR_TRY(result_of(b->from[i].node, b->from[i].result, out));
    else cr_tensor_retain(*out);
    if (*out) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "element %zu of tensors is an edge to a result that its node does not know any more: "
                                "it was walked; keep the graph, or give the tensor",
                   i);
}

static cr_status grad_for(const cr_backward *b, size_t i, const cr_tensor *root, cr_tensor **out) {
    const cr_meta *m = &root->meta;
    cr_tensor *given = b->grads ? b->grads[i] : NULL;
    if (!given) {
        int64_t n = 1;
        for (int d = 0; d < m->rank; d++) n = m->size[d] == 1 ? n : 0; /* one element: all sizes are 1 */
        if (!n)
            return CR_FAIL(CR_ERUNTIME, "grad can be implicitly created only for scalar outputs; give the gradient of "
                                        "this one");
        if (cr_dtype_is_complex(m->dtype))
            return CR_FAIL(CR_ERUNTIME,
                           "grad can be implicitly created only for real scalar outputs but got %s; give "
                           "the gradient of this one, or differentiate its real part",
                           cr_dtype_name(m->dtype));
        cr_tensor *like = NULL; /* a fake, of a node, has no memory to be like */
        if (cr_tensor_is_fake(root)) CR_TRY(cr_tensor_create(m, &like));
        cr_arg a = cr_arg_tensor(like ? like : (cr_tensor *)root);
        cr_status status = cr_call_1("aten::ones_like", &a, 1, out);
        cr_tensor_release(like);
        return status;
    }
    bool fits = given->meta.rank == m->rank;
    for (int d = 0; fits && d < m->rank; d++)
        fits = cr_dim_known(given->env, given->meta.size[d], CR_EQ, m->size[d]) == CR_YES;
    if (!fits) {
        cr_str a, c;
        cr_str_init(&a);
        cr_str_init(&c);
        cr_shape_print(NULL, given->meta.rank, given->meta.size, &a);
        cr_shape_print(NULL, m->rank, m->size, &c);
        cr_status status = CR_FAIL(CR_ERUNTIME,
                                   "Mismatch in shape: grad_output[%zu] has a shape of %s and output[%zu] has a shape "
                                   "of %s",
                                   i, cr_str_get(&a), i, cr_str_get(&c));
        cr_str_dispose(&a);
        cr_str_dispose(&c);
        return status;
    }
    if (cr_dtype_is_complex(given->meta.dtype) != cr_dtype_is_complex(m->dtype))
        return CR_FAIL(CR_ERUNTIME, "grad_output[%zu] is %s and output[%zu] is %s: both must be real, or both complex",
                       i, cr_dtype_name(given->meta.dtype), i, cr_dtype_name(m->dtype));
    cr_tensor_retain(*out = given);
    return CR_OK;
}

static cr_status start_grad(const cr_backward *b, size_t i, cr_tensor **out) {
    cr_tensor *root;
    CR_TRY(root_of(b, i, &root));
    cr_status status = grad_for(b, i, root, out);
    cr_tensor_release(root);
    return status;
}

static cr_status start(cr__walk *w) {
    const cr_backward *b = w->b;
    for (size_t i = 0; i < b->nroots; i++) {
        cr__edge e = b->roots[i] ? (cr__edge){ NULL, 0 } : b->from[i];
        cr_tensor *grad;
        if (b->roots[i] && !cr_tensor_requires_grad(b->roots[i]))
            return CR_FAIL(CR_ERUNTIME, "element %zu of tensors does not require grad and does not have a grad_fn", i);
        CR_TRY(start_grad(b, i, &grad));
        cr_status status = b->roots[i] ? cr__edge_of(b->roots[i], &e) : CR_OK;
        if (status) cr_tensor_release(grad);
        else status = send(w, &e, grad);
        if (b->roots[i]) cr_grad_node_release(e.node);
        if (status) return status;
    }
    return CR_OK;
}

static int by_order(const void *a, const void *b) {
    const cr__pending *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

bool cr__leaf_hooks;

/* Finds everything that can be reached, and the place of each sink: right behind the first node that used its leaf, in
 * the order of that node's edges. */
static cr_status place_sinks(cr__walk *w) {
    for (size_t at = 0; at < w->all.n; at++) {
        const cr_grad_node *n = w->all.at[at].node;
        for (uint32_t i = 0; i < n->nslots; i++) {
            const cr_grad_node *to = n->slots[i].edge.node;
            uint64_t behind = n->order - 1 - CR_MIN(i, (1u << CR__ORDER_BITS) - 2);
            size_t place;
            if (!to) continue;
            CR_TRY(cr__walk_place(w, n->slots[i].edge.node, &place));
            cr__pending *p = &w->all.at[place];
            if (to->leaf && (!p->order || behind < p->order)) p->order = behind;
        }
    }
    qsort(w->all.at, w->all.n, sizeof *w->all.at, by_order);
    w->heap.n = 0;
    for (size_t at = 0; at < w->all.n; at++) {
        cr__pending *p = &w->all.at[at];
        bool queued = p->queued;
        CR_TRY(set_place(w, p->node, at));
        p->queued = false;
        if (queued) CR_TRY(cr__walk_push(w, at));
    }
    return CR_OK;
}

/* Which nodes lead to an input: all that can be reached, oldest first. */
static cr_status mark(cr__walk *w) {
    for (size_t i = 0; i < w->b->ninputs; i++) {
        if (!w->b->inputs[i]) {
            cr_grad_node_retain(w->b->to[i].node);
            w->captures[i].edge = w->b->to[i];
            continue;
        }
        if (!cr_tensor_requires_grad(w->b->inputs[i]))
            return CR_FAIL(CR_ERUNTIME, "One of the differentiated Tensors does not require grad");
        CR_TRY(cr__edge_of(w->b->inputs[i], &w->captures[i].edge));
    }
    CR_TRY(place_sinks(w));
    for (size_t at = 0; at < w->all.n; at++) {
        cr__pending *p = &w->all.at[at];
        for (size_t i = 0; i < w->b->ninputs; i++) p->needed |= w->captures[i].edge.node == p->node;
        for (uint32_t i = 0; i < p->node->nslots && !p->needed; i++) {
            uint64_t to;
            cr_grad_node *next = p->node->slots[i].edge.node;
            p->needed = next && find_place(w, next, &to) && w->all.at[to].needed;
        }
    }
    return CR_OK;
}

static cr_status finish(cr__walk *w) {
    for (size_t i = 0; w->captures && i < w->b->ninputs; i++) {
        if (w->b->found) {
            w->b->found[i] = w->captures[i].grad;
            w->captures[i].grad = NULL;
        } else if (w->captures[i].grad) {
            cr_tensor *leaf = w->b->inputs[i] ? w->b->inputs[i] : w->captures[i].edge.node->leaf;
            if (!leaf) return CR_FAIL(CR_ERUNTIME, "input %zu is an edge to no leaf: it has no .grad; use grad()", i);
            CR_TRY(accumulate(leaf, &w->captures[i].grad, w->b->graph));
            CR_TRY(run_hooks_after(leaf));
        }
    }
    return CR_OK;
}

static cr_status run(cr__walk *w) {
    CR_TRY(start(w));
    if (w->captures) CR_TRY(mark(w));
    else if (__atomic_load_n(&cr__leaf_hooks, __ATOMIC_RELAXED)) CR_TRY(place_sinks(w));
    while (w->heap.n) {
        bool taken = false;
        if (w->graphs) CR_TRY(cr__segment_run(w, &taken));
        if (taken) continue;
        size_t place = heap_pop(w);
        if (w->captures && !w->all.at[place].needed) continue;
        CR_TRY(w->graphs && cr__segment_waits(&w->all.at[place]) ? run_hooks_first(w, place) : visit(w, place));
    }
    return finish(w);
}

cr_status cr_autograd_backward(const cr_backward *b) {
    cr_ambient *ambient = cr_ambient_get(), before = *ambient;
    if ((before.mode.recorder || before.mode.fake) && !before.transforms)
        return CR_FAIL(CR_ENOTIMPL, "backward() inside of a program that is being recorded is not supported");
    const struct cr_vmap *level = before.vmap ? cr__backward_level(b) : NULL;
    if (level) return cr__backward_mapped(level, b);
    static uint64_t last; /* atomic */
    cr__walk w = { .b = b, .number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED), .outer = walking };
    walking = &w;
    w.marks = !__atomic_exchange_n(&marking, 1, __ATOMIC_ACQUIRE);
    cr_arena_init(&w.arena);
    cr_map_init(&w.reached);
    cr_map_init(&w.index);
    cr_status status = CR_OK;
    cr__segment_choose(&w);
    if (b->inputs && !(w.captures = cr_calloc(b->ninputs + 1, sizeof *w.captures))) status = CR_ENOMEM;
    ambient->grad = b->graph;
    ambient->mode.autocast.enabled = false; /* a gradient has its tensor's dtype */
    if (!status) status = run(&w);
    ambient->grad = before.grad;
    ambient->mode.autocast = before.mode.autocast;
    for (size_t i = 0; i < w.all.n; i++) {
        for (uint32_t k = 0; k < w.all.at[i].node->nouts; k++) cr_tensor_release(w.all.at[i].grads[k]);
        cr_grad_node_release(w.all.at[i].node);
    }
    for (size_t i = 0; w.captures && i < b->ninputs; i++) {
        cr_grad_node_release(w.captures[i].edge.node);
        cr_tensor_release(w.captures[i].grad);
    }
    cr_free(w.captures);
    cr_vec_dispose(&w.all);
    cr_vec_dispose(&w.heap);
    cr_map_dispose(&w.index);
    cr_map_dispose(&w.reached);
    cr_arena_dispose(&w.arena);
    if (w.marks) __atomic_store_n(&marking, 0, __ATOMIC_RELEASE);
    walking = w.outer;
    cr__segment_leave(&w);
    return status;
}

uint64_t cr_autograd_walk(void) { return walking ? walking->number : 0; }
bool cr_autograd_walk_has_inputs(void) { return walking && walking->captures; }
cr_grad_node *cr_autograd_at(void) { return walking ? walking->at : NULL; }

typedef struct nodes { CR_VEC(cr_grad_node *) at; } nodes;

/* Adds every node that can be reached from those of `todo`, which is emptied, and not through one that is known. */
static cr_status reach(nodes *todo, cr_map *known, bool *leaf) {
    cr_status status = CR_OK;
    while (todo->at.n && !status) {
        cr_grad_node *n = todo->at.at[--todo->at.n];
        if (cr_map_find(known, &n, sizeof n, NULL)) continue;
        *leaf |= n->leaf != NULL;
        status = cr_map_put(known, &n, sizeof n, 1);
        for (uint32_t i = 0; i < n->nslots && !status; i++)
            if (n->slots[i].edge.node) status = cr_vec_push(&todo->at, n->slots[i].edge.node);
    }
    cr_vec_dispose(&todo->at);
    return status;
}

static cr_status reach_all(cr__walk *w) {
    nodes todo = { 0 };
    bool leaf = false;
    cr_status status = CR_OK;
    for (size_t i = 0; i < w->all.n && !status; i++) status = cr_vec_push(&todo.at, w->all.at[i].node);
    cr_status reached = reach(&todo, &w->reached, &leaf);
    return status ? status : reached;
}

cr_status cr_autograd_depends(cr_tensor *t, cr_grad_node *const *through, size_t n, bool *yes) {
    cr__edge e;
    nodes todo = { 0 };
    cr_map known;
    *yes = false;
    CR_TRY(cr__edge_of(t, &e));
    if (!e.node) return CR_OK;
    cr_map_init(&known);
    cr_status status = cr_vec_push(&todo.at, e.node);
    for (size_t i = 0; i < n && !status; i++) status = cr_map_put(&known, &through[i], sizeof through[i], 1);
    cr_status reached = status ? CR_OK : reach(&todo, &known, yes);
    cr_vec_dispose(&todo.at);
    cr_map_dispose(&known);
    cr_grad_node_release(e.node);
    return status ? status : reached;
}

cr_status cr_autograd_will_run(cr_grad_node *n, bool *yes) {
    uint64_t at;
    cr__walk *w = walking;
    *yes = false;
    if (!w) return CR_FAIL(CR_ERUNTIME, "only while a backward() runs is it known which nodes it comes to");
    if (w->captures) {
        *yes = find_place(w, n, &at) && w->all.at[at].needed;
        return CR_OK;
    }
    if (!w->reached.n) CR_TRY(reach_all(w));
    *yes = cr_map_find(&w->reached, &n, sizeof n, &at);
    return CR_OK;
}
