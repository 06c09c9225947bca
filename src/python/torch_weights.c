/* torch_weights.c: PyTorch's parameters as constants of native code; see torch_weights.h. */
#include "python/torch_weights.h"

int cr_torch_weights_init(cr_torch_weights *w, cr_graph *graph, cr_tier_ways ways, PyObject *which) {
    w->ways = ways;
    w->n = (uint32_t)cr_graph_input_count(graph);
    w->is = PyMem_Calloc(w->n + 1u, 1);
    if (!w->is) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(which); i++) {
        unsigned long at = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(which, i));
        if (PyErr_Occurred()) return -1;
        if (at >= w->n) return PyErr_Format(PyExc_ValueError, "there is no input %lu of %u", at, w->n), -1;
        w->is[at] = 1;
    }
    cr_graph_retain(w->graph = graph);
    return 0;
}

void cr_torch_weights_dispose(cr_torch_weights *w) {
    cr_graph_release(w->graph);
    PyMem_Free(w->is);
    Py_CLEAR(w->held);
}

/* What holds the memory in `held`: as long as it is there, the address is nobody else's. What is read through a copy (a
 * lazy minus, odd addresses) stays an input. */
static int take(PyObject *o, cr_frozen_input *out, PyObject *held, Py_ssize_t at) {
    PyObject *kept = NULL;
    if (cr_torch_read(o, &out->value, &kept)) return -1;
    if (kept && cr_frontend_torch.kind(kept) != CR_KIND_OTHER) {
        Py_DECREF(kept);
        out->value.kind = CRESSET_NONE;
        return 0;
    }
    if (!kept) kept = cr_torch_detached(o);
    if (!kept) return -1;
    PyTuple_SET_ITEM(held, at, kept);
    return cr_torch_version(o, &out->version);
}

int cr_torch_weights_start(cr_torch_weights *w, PyObject *const *inputs, cr_tier **tier) {
    cr_frozen_input *weights = PyMem_Calloc(w->n + 1u, sizeof *weights);
    PyObject *held = weights ? PyTuple_New(w->n) : PyErr_NoMemory();
    int failed = !held;
    for (uint32_t i = 0; !failed && i < w->n; i++)
        if (w->is[i]) failed = take(inputs[i], &weights[i], held, i);
    if (!failed) {
        cr_status status = cr_tier_freeze(tier, w->graph, w->ways, weights, w->n);
        if (status) failed = cr_py_fail(status);
        else Py_XSETREF(w->held, Py_NewRef(held));
    }
    Py_XDECREF(held);
    PyMem_Free(weights);
    return failed ? -1 : 0;
}

bool cr_torch_weights_hold(const cr_torch_weights *w, const cr_tier *tier, PyObject *const *inputs,
                           const cresset_value *values) {
    const cr_frozen *frozen = cr_tier_frozen(tier);
    for (uint32_t i = 0; frozen && i < w->n; i++) {
        uint64_t version;
        if (!cr_frozen_has(frozen, i)) continue;
        if (cr_torch_version(inputs[i], &version)) return PyErr_Clear(), false;
        if (!cr_frozen_holds(frozen, i, &values[i], version)) return false;
    }
    return true;
}
