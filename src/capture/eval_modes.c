/* eval_modes.c: function modes of another library that the program enters: `with torch.device("cpu"):`, and those that
 * transforms of masks enter.
 *
 * A mode decides what every function of the library does. Three are known, by their classes: one for a device, which
 * here is the one that tensors are on anyway, one that changes nothing, and one that makes indices of tensors and ints
 * one gather. Any other ends the capture where it is entered. The stack of modes is the program's own: outside there
 * are none, or nothing is captured, and where a capture ends it must be empty. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

typedef enum kind { UNKNOWN, DEVICE, NOTHING, INDEX } kind;

static kind kind_of(PyObject *mode) {
    static const struct {
        const char *module, *name;
        kind is;
    } known[] = {
        { "torch.utils._device", "DeviceContext", DEVICE },
        { "torch.overrides", "BaseTorchFunctionMode", NOTHING },
        { "torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex", INDEX },
    };
    if (!cr_is_token(mode)) return UNKNOWN;
    PyTypeObject *type = Py_TYPE(cr_real(mode));
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    kind found = UNKNOWN;
    for (size_t i = 0; module && PyUnicode_Check(module) && i < CR_COUNT(known); i++)
        if (!strcmp(type->tp_name, known[i].name) && !PyUnicode_CompareWithASCIIString(module, known[i].module))
            found = known[i].is;
    PyErr_Clear();
    Py_XDECREF(module);
    return found;
}

/* _push_mode(mode): its device, if it has one, was looked at (cresset/_torch/instead.py). */
int cr_push_mode(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out) {
    (void)f;
    kind is = a->n == 1 ? kind_of(a->at[0]) : UNKNOWN;
    if (is == UNKNOWN || c->tracer) return cr_break(c, "a function mode is entered that is not known");
    if (cr_vec_push(&c->modes, ((cr_mode){ a->at[0], is == INDEX }))) return PyErr_NoMemory(), -1;
    Py_INCREF(a->at[0]);
    return *out = Py_NewRef(Py_None), 1;
}

int cr_pop_mode(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out) {
    (void)f;
    if (a->n || !c->modes.n) return cr_break(c, "a function mode is left that was not entered here");
    return *out = c->modes.at[--c->modes.n].value, 1;
}

int cr_count_modes(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out) {
    (void)f, (void)a;
    return (*out = PyLong_FromSize_t(c->modes.n)) ? 1 : -1;
}

int cr_mode_at(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out) {
    (void)f;
    Py_ssize_t at = a->n == 1 && PyLong_CheckExact(a->at[0]) ? PyLong_AsSsize_t(a->at[0]) : -1;
    if (at < 0 || (size_t)at >= c->modes.n) return PyErr_Clear(), cr_break(c, "a function mode is asked for");
    return *out = Py_NewRef(c->modes.at[at].value), 1;
}

void cr_modes_dispose(cr_capture *c) {
    while (c->modes.n) Py_DECREF(c->modes.at[--c->modes.n].value);
    cr_vec_dispose(&c->modes);
}

/* ---- indices ---- */

/* What an index is made of, in a flat list; lists and tuples in it are looked into. 1: tensors and ints; 0: something
 * else, too; -1. */
static int flatten(cr_capture *c, PyObject *key, PyObject *leaves) {
    if (PyBool_Check(key) || cr_is_open(key)) return cr_break(c, "an index under a mode that makes it a gather"), -1;
    if (cr_is_tensor_value(key) || PyLong_CheckExact(key)) return PyList_Append(leaves, key) ? -1 : 1;
    int all = 1;
    for (Py_ssize_t i = 0; (PyTuple_CheckExact(key) || PyList_CheckExact(key)) && i < PySequence_Fast_GET_SIZE(key);
         i++) {
        int one = flatten(c, PySequence_Fast_GET_ITEM(key, i), leaves);
        if (one < 0) return -1;
        all &= one;
    }
    return (PyTuple_CheckExact(key) || PyList_CheckExact(key)) && all;
}

int cr_index_by_mode(cr_capture *c, PyObject *container, PyObject *key, PyObject **out) {
    bool on = false;
    for (size_t i = 0; i < c->modes.n; i++) on |= c->modes.at[i].indexes;
    if (!on || !cr_is_tensor_value(container)) return 0;
    PyObject *leaves = PyList_New(0), *module = NULL;
    int all = leaves ? flatten(c, key, leaves) : -1;
    if (all == 1 && !PyList_GET_SIZE(leaves)) all = cr_break(c, "an index under a mode that makes it a gather");
    if (all == 1 && (module = PyImport_ImportModule("cresset._torch.capture")))
        *out = PyObject_CallMethod(module, "_gather", "OO", container, leaves);
    Py_XDECREF(module);
    Py_XDECREF(leaves);
    return all < 1 ? all : *out ? 1 : -1;
}
