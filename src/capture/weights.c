/* weights.c: entries whose native code is made with the parameters and buffers of modules.
 *
 * Which inputs those are says how they were read. What they are is looked at before every run: code that was made with
 * other values is not run, the interpreter serves until there is code for these. */
#include "capture/entry.h"

#include "python/py.h"

static int no_memory(void) { return PyErr_NoMemory(), -1; }

static cresset_value value_of(const cr_tensor *t) {
    return (cresset_value){ .struct_size = sizeof(cresset_value), .kind = CRESSET_TENSOR, .dtype = t->meta.dtype,
                            .rank = t->meta.rank, .data = cr_tensor_view(t).p, .size = t->meta.size,
                            .stride = t->meta.stride };
}

/* Inputs that were read from modules: parameters, buffers, tensors that they have as attributes. */
static int find_weights(cr_entry *e, PyObject *const *slots) {
    uint16_t *parents = PyMem_Calloc(e->guards.slots + 1, sizeof *parents);
    e->weights = PyMem_Calloc(e->ninputs + 1, 1);
    if (!parents || !e->weights) return PyMem_Free(parents), no_memory();
    for (size_t i = 0; i < e->guards.rows.n; i++) {
        const cr_guard *row = &e->guards.rows.at[i];
        if (row->read != CR_READ_NONE) parents[row->slot] = row->parent;
    }
    for (uint32_t i = 0; i < e->ninputs; i++)
        for (uint32_t at = (uint32_t)e->inputs[i]; parents[at] < at && !e->weights[i]; at = parents[at]) {
            PyObject *o = slots[parents[at]];
            const cr_frontend *of = o ? cr_frontend_of(o) : NULL;
            e->weights[i] = of && of->kind(o) == CR_KIND_MODULE;
        }
    PyMem_Free(parents);
    return 0;
}

static int refuse_gradients(void) {
    PyErr_SetString(PyExc_RuntimeError,
                    "options={'freeze': True}: this call records gradients, and frozen weights have none; call it "
                    "under no_grad() or inference_mode(), or compile without the option");
    return -1;
}

/* The weights that native code is made with, as they are: one per input. NULL: out of memory. */
static cr_frozen_input *read_weights(const cr_entry *e, const cr_arg *inputs) {
    cr_frozen_input *weights = PyMem_Calloc(e->ninputs + 1, sizeof *weights);
    for (uint32_t i = 0; weights && i < e->ninputs; i++) {
        const cr_tensor *t = e->weights[i] && inputs[i].kind == CR_ARG_TENSOR ? inputs[i].u.t : NULL;
        if (t) weights[i] = (cr_frozen_input){ value_of(t), cr_tensor_version(t), t->storage };
    }
    return weights;
}

static int start_frozen(cr_entry *e, const cr_arg *inputs) {
    cr_frozen_input *weights = read_weights(e, inputs);
    if (!weights) return no_memory();
    cr_status status = cr_tier_freeze(&e->tier, e->graph, e->ways, weights, e->ninputs);
    PyMem_Free(weights);
    return status ? cr_py_fail(status) : 0;
}

int cr_entry_start_frozen(cr_entry *e, PyObject *const *slots, cr_tier_ways ways) {
    cr_py_frame frame;
    e->ways = ways;
    cr_arg *inputs = PyMem_Calloc(e->ninputs + 1, sizeof *inputs);
    int failed = inputs ? 0 : no_memory();
    cr_py_frame_init(&frame);
    for (uint32_t i = 0; !failed && i < e->ninputs; i++)
        failed = cr_py_convert(&frame, slots[e->inputs[i]], &inputs[i]);
    if (!failed) failed = start_frozen(e, inputs);
    cr_py_frame_dispose(&frame);
    PyMem_Free(inputs);
    return failed;
}

int cr_entry_freeze(cr_entry *e, PyObject *const *slots) {
    return e->records ? refuse_gradients() : find_weights(e, slots);
}

PyObject *cr_entry_weights(const cr_entry *e) {
    PyObject *weights = PyList_New(0);
    for (uint32_t i = 0; weights && e->weights && i < e->ninputs; i++) {
        PyObject *number = e->weights[i] ? PyLong_FromUnsignedLong(i) : NULL;
        if (e->weights[i] && (!number || PyList_Append(weights, number))) Py_CLEAR(weights);
        Py_XDECREF(number);
    }
    return weights;
}

/* Native code that was made with other weights is not run, and made anew. */
int cr_entry_find_tier(cr_entry *e, const cr_arg *inputs, cr_tier **tier) {
    const cr_frozen *frozen = e->weights ? cr_tier_frozen(e->tier) : NULL;
    bool holds = !frozen || cr_tier_get(e->tier);
    for (uint32_t i = 0; holds && frozen && i < e->ninputs; i++) {
        if (!cr_frozen_has(frozen, i)) continue;
        const cr_tensor *t = inputs[i].u.t;
        cresset_value now = value_of(t);
        if (cr_frozen_holds(frozen, i, &now, cr_tensor_version(t))) continue;
        if (start_frozen(e, inputs)) return -1;
        holds = false;
    }
    if (holds) cr_tier_retain(*tier = e->tier);
    return 0;
}
