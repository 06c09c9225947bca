/* function.c: nodes of functions that bring a backward of their own: what a front end builds autograd.Function on.
 * Where gradients go is settled before the function runs; which tensors are results, afterwards. */
#include "autograd/internal.h"

const cr_node_vtable *cr_grad_node_table(const cr_grad_node *n, void **user) {
    *user = n->user;
    return n->table;
}

static bool is_recorded(cr_tensor *const *inputs, uint32_t n) {
    if (!cr_tape_is_on()) return false;
    for (uint32_t i = 0; i < n; i++)
        if (cr_tensor_requires_grad(inputs[i])) return true;
    return false;
}

cr_status cr_autograd_function(const cr_node_vtable *table, void *user, cr_tensor *const *inputs, uint32_t n,
                               cr_grad_node **out) {
    *out = NULL;
    if (!is_recorded(inputs, n)) return CR_OK;
    if (n > UINT16_MAX)
        return CR_FAIL(CR_EUNSUPPORTED, "a function of %u tensors: at most %d are supported", n, UINT16_MAX);
    size_t bytes = sizeof(cr_grad_node) + n * (sizeof(cr_arg) + sizeof(cr__slot));
    cr_grad_node *node = cr__node_alloc(bytes, bytes);
    if (!node) return CR_ENOMEM;
    node->refs = 1;
    node->holds = true;
    node->nargs = (uint16_t)n;
    node->nslots = n;
    node->args = (cr_arg *)(node + 1);
    node->slots = (cr__slot *)(node->args + n);
    for (size_t i = 0; i < n; i++) node->args[i] = cr_arg_none();
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        cr_tensor *shape;
        status = cr__edge_of(inputs[i], &node->slots[i].edge);
        if (!status && !(status = cr__shape_of(inputs[i], &shape))) node->args[i] = cr_arg_tensor(shape);
    }
    node->order = cr__node_order(node->slots, n);
    if (status) {
        cr_grad_node_release(node);
        return status;
    }
    node->table = table;
    node->user = user;
    cr__collect_add(table->traverse);
    *out = node;
    return CR_OK;
}

cr_status cr_autograd_results(cr_grad_node *n, uint32_t count) {
    if (count > UINT16_MAX)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has %u results: at most %d are supported", cr__node_name(n), count,
                       UINT16_MAX);
    if (!(n->results = cr_alloc((count + 1u) * sizeof *n->results))) return CR_ENOMEM;
    for (uint32_t i = 0; i < count; i++) n->results[i] = cr_arg_none();
    n->nouts = n->nresults = (uint16_t)count;
    return __atomic_load_n(&cr__anomaly_on, __ATOMIC_RELAXED) ? cr__anomaly_made(n) : CR_OK;
}

cr_status cr_autograd_result(cr_grad_node *n, uint32_t result, cr_tensor *t, bool written) {
    cr_tensor *shape;
    const char *name = n->table->name(n->user);
    if (written && cr_tensor_requires_grad(t) && cr_autograd_is_leaf(t))
        return CR_FAIL(CR_ERUNTIME,
                       "%s: a leaf Variable that requires grad has been used in an in-place operation; write inside of "
                       "no_grad(), or to a clone()",
                       name);
    if (written && t->base && n->nresults > 1)
        return CR_FAIL(CR_ERUNTIME,
                       "%s modifies inplace an input that is a view of another Tensor and returns more than one "
                       "Tensor, which is not supported: split it into functions with one result, or return a clone()",
                       name);
    CR_TRY(cr__shape_of(t, &shape));
    if (n->results[result].kind == CR_ARG_TENSOR) cr_tensor_release(n->results[result].u.t);
    n->results[result] = cr_arg_tensor(shape);
    if (written && t->base) return cr__attach_view(t, n);
    if (t->base) t->view = (uint8_t)((t->view & ~CR_VIEW_NO_GRAD) | CR_VIEW_OF_FUNCTION);
    cr_grad_node_retain(n);
    return cr__autograd_set_fn(t, n, result);
}

/* ---- what its backward gave ---- */

static cr_status misfit(const cr_grad_node *n, uint32_t i, const cr_meta *got, const cr_meta *expected) {
    cr_str a, b;
    cr_str_init(&a);
    cr_str_init(&b);
    cr_shape_print(NULL, got->rank, got->size, &a);
    cr_shape_print(NULL, expected->rank, expected->size, &b);
    cr_status status = CR_FAIL(CR_ERUNTIME,
                               "Function %s returned an invalid gradient at index %u - got %s but expected shape "
                               "compatible with %s, that of the input",
                               cr__node_name(n), i, cr_str_get(&a), cr_str_get(&b));
    cr_str_dispose(&a);
    cr_str_dispose(&b);
    return status;
}

/* *grad becomes what `op` makes of it and one more argument. */
static cr_status replace(cr_tensor **grad, const char *op, cr_arg more, size_t n) {
    cr_arg args[2] = { cr_arg_tensor(*grad), more };
    cr_tensor *made;
    CR_TRY(cr_call_1(op, args, n, &made));
    cr_tensor_release(*grad);
    *grad = made;
    return CR_OK;
}

/* A gradient may be of a shape that the input broadcasts to, and of another dtype. */
static cr_status fit(const cr_grad_node *n, uint32_t i, cr_tensor **grad) {
    const cr_meta *want = &n->args[i].u.t->meta, *got = &(*grad)->meta;
    bool same = want->rank == got->rank, wider = want->rank <= got->rank;
    for (int d = 0; d < want->rank && wider; d++) {
        int64_t size = got->size[got->rank - want->rank + d];
        wider = want->size[d] == size || want->size[d] == 1;
        same = same && want->size[d] == size;
    }
    if (!same && !wider) return misfit(n, i, got, want);
    if (!same) {
        cr_arg sizes[CR_MAX_RANK];
        for (int d = 0; d < want->rank; d++) sizes[d] = cr_arg_int(want->size[d]);
        CR_TRY(replace(grad, "aten::sum_to_size", cr_arg_list(sizes, want->rank), 2));
    }
    if (cr_dtype_is_complex((*grad)->meta.dtype) && !cr_dtype_is_complex(want->dtype))
        CR_TRY(replace(grad, "aten::real", cr_arg_none(), 1));
    if ((*grad)->meta.dtype != want->dtype)
        CR_TRY(replace(grad, "aten::to.dtype", (cr_arg){ .kind = CR_ARG_DTYPE, .u.i = want->dtype }, 2));
    return CR_OK;
}

cr_status cr__function_call(cr_grad_node *n, cr_tensor *const *grads, cr_tensor **out) {
    CR_TRY(n->table->call(n->user, grads, out));
    for (uint32_t i = 0; i < n->nslots; i++)
        if (out[i]) CR_TRY(fit(n, i, &out[i]));
    return CR_OK;
}
