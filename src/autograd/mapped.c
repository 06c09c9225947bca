/* mapped.c: backward walks inside of vmap. The tape records calls on the values of mapped tensors, so a walk between
 * mapped tensors is one between values: examples do not depend on each other, and one walk gives the gradients of all.
 * Gradients that are mapped while the tensors are not (a batch of seeds for one function) need nothing: derivatives are
 * calls, which vmap carries out like any other. */
#include "autograd/internal.h"

#include "ops/batch.h"

typedef struct values { cr_tensor **at; size_t n; } values;

static void values_release(values *v) {
    for (size_t i = 0; v->at && i < v->n; i++) cr_tensor_release(v->at[i]);
    cr_free(v->at);
}

static cr_status values_create(size_t n, values *out) {
    *out = (values){ cr_calloc(n + 1, sizeof(cr_tensor *)), n };
    return out->at ? CR_OK : CR_ENOMEM;
}

/* The tensor without the level; roots and inputs, which must be those that were recorded: nothing is moved. */
static cr_status value_at(const cr_vmap *v, cr_tensor *t, cr_tensor **out) {
    if (!t->mapped || t->level != v->id)
        return CR_FAIL(CR_ENOTIMPL, "autograd.grad() inside of a vmap that is nested in another one cannot mix tensors "
                                    "of both; use func.grad or func.vjp");
    cr_tensor_retain(*out = t->mapped);
    return CR_OK;
}

static bool maps(const cr_vmap *v, const cr_tensor *t) { return t && cr_vmap_maps(v, t); }

/* A root's gradient for all examples, laid out as the root: 1 where none is given to a root of one element. */
static cr_status seed(const cr_vmap *v, cr_tensor *root, cr_tensor *given, cr_tensor **out) {
    if (!given) {
        if (cr_dim_known(root->env, cr_meta_numel(root->env, &root->meta), CR_EQ, 1) != CR_YES)
            return CR_FAIL(CR_ERUNTIME, "grad can be implicitly created only for scalar outputs");
        return cr_call_1("aten::ones_like", (cr_arg[]){ cr_arg_tensor(root->mapped) }, 1, out);
    }
    return cr_vmap_lift(v, given, root->mapped_dim, out);
}

static cr_status prepare(const cr_vmap *v, const cr_backward *b, values *roots, values *grads, values *inputs) {
    for (size_t i = 0; i < b->nroots; i++) {
        if (!maps(v, b->roots[i]))
            return CR_FAIL(CR_ENOTIMPL, "autograd.grad() inside of vmap: output %zu is not mapped, others are; use "
                                        "func.grad or func.vjp", i);
        CR_TRY(value_at(v, b->roots[i], &roots->at[i]));
        CR_TRY(seed(v, b->roots[i], b->grads ? b->grads[i] : NULL, &grads->at[i]));
    }
    for (size_t i = 0; i < b->ninputs; i++) {
        if (!maps(v, b->inputs[i]))
            return CR_FAIL(CR_ENOTIMPL, "autograd.grad() inside of vmap: the outputs are mapped, input %zu is not, so "
                                        "that it has no gradient for each example; use func.grad or func.vjp", i);
        CR_TRY(value_at(v, b->inputs[i], &inputs->at[i]));
    }
    return CR_OK;
}

cr_status cr__backward_mapped(const cr_vmap *v, const cr_backward *b) {
    values roots = { 0 }, grads = { 0 }, inputs = { 0 };
    if (!b->found)
        return CR_FAIL(CR_ERUNTIME, "backward() inside of a function under vmap has no one gradient to add to .grad; "
                                    "use func.grad or func.vjp");
    cr_status status = values_create(b->nroots, &roots);
    if (!status) status = values_create(b->nroots, &grads);
    if (!status) status = values_create(b->ninputs, &inputs);
    if (!status) status = prepare(v, b, &roots, &grads, &inputs);
    if (!status) {
        cr_backward inner = *b;
        inner.roots = roots.at;
        inner.grads = grads.at;
        inner.inputs = inputs.at;
        status = cr_autograd_backward(&inner);
    }
    for (size_t i = 0; i < b->ninputs && !status; i++) {
        cr_tensor *value = b->found[i];
        if (!value) continue;
        status = cr_vmap_lower(v, value, b->inputs[i]->mapped_dim, &b->found[i]);
        if (status) b->found[i] = NULL;
        cr_tensor_release(value);
    }
    values_release(&roots);
    values_release(&grads);
    values_release(&inputs);
    return status;
}

const cr_vmap *cr__backward_level(const cr_backward *b) {
    for (const cr_vmap *v = cr_ambient_get()->vmap; v; v = v->outer) {
        for (size_t i = 0; i < b->nroots; i++)
            if (maps(v, b->roots[i])) return v;
        for (size_t i = 0; b->inputs && i < b->ninputs; i++)
            if (maps(v, b->inputs[i])) return v;
    }
    return NULL;
}
