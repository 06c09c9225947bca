/* eval_reordered.c: functions that tell somebody something (config.reorderable_logging_functions).
 *
 * A call of one does not end a capture: it is made when the graph has run and everything else that the captured part
 * changes is written, in order among such calls. What it is given is a tensor, a constant or an object from outside:
 * containers that the program makes may still change. A tensor must not be written between the call and the end of the
 * capture: who reads it then would read something else. Where one is, the program is captured again, and such calls end
 * captures as any other does. */
#include "capture/evaluate.h"

#include "python/py.h"

static PyObject *reorderable;           /* the set of config; NULL: nobody has asked for anything */
static _Thread_local bool keeps_order;

bool cr_set_keeps_order(bool on) {
    bool before = keeps_order;
    return keeps_order = on, before;
}

/* 1, 0: it is one of those; -1: exception. A method is found as itself, or by its function. */
static int is_reorderable(PyObject *callable, const cr_arguments *a) {
    int is = PyObject_Hash(callable) == -1 ? -1 : PySet_Contains(reorderable, callable);
    if (is || !PyFunction_Check(callable) || !a->n || !cr_is_token(a->at[0])) return is;
    PyObject *method = PyMethod_New(callable, cr_real(a->at[0]));
    is = method ? PySet_Contains(reorderable, method) : -1;
    Py_XDECREF(method);
    return is;
}

static bool is_told(PyObject *value) {
    return cr_is_tensor_value(value) || cr_is_constant(value) ||
           (cr_is_token(value) && !cr_is_made(value) && cr_source_of(value) != CR_NO_SLOT);
}

/* How often its tensors were written, all together. */
static uint64_t writes_of(PyObject *call) {
    uint64_t n = 0;
    for (Py_ssize_t k = 1; k < PyTuple_GET_SIZE(call); k++) {
        if (!cr_is_tensor_value(PyTuple_GET_ITEM(call, k))) continue;
        PyObject *version = PyObject_GetAttrString(PyTuple_GET_ITEM(call, k), "_version");
        n += version ? PyLong_AsUnsignedLongLongMask(version) : 0;
        Py_XDECREF(version);
    }
    PyErr_Clear();
    return n;
}

int cr_call_reordered(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a) {
    PyObject *real = cr_is_token(callable) ? cr_real(callable) : callable;
    if (!reorderable || !PySet_GET_SIZE(reorderable) || keeps_order || c->plain || c->tracer || cr_sets_context(c))
        return 1;
    int is = is_reorderable(real, a);
    if (is <= 0) return PyErr_Clear(), 1; /* what cannot be hashed is none */
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    for (Py_ssize_t k = 0; k < total; k++)
        if (!is_told(a->at[k])) return 1;
    if (cr_is_token(callable) && cr_guard_object(&c->guards, cr_source_of(callable), CR_HOLDS_IS, real)) return -1;
    cr_reordered call = { .call = PyTuple_New(total + 1), .kwnames = Py_XNewRef(a->kwnames) };
    for (Py_ssize_t k = 0; call.call && k <= total; k++)
        PyTuple_SET_ITEM(call.call, k, Py_NewRef(k ? a->at[k - 1] : callable));
    if (call.call) call.writes = writes_of(call.call);
    if (!call.call || cr_vec_push(&c->reordered, call)) {
        Py_XDECREF(call.call), Py_XDECREF(call.kwnames);
        return PyErr_NoMemory(), -1;
    }
    return cr_push(f, Py_NewRef(Py_None)), 0;
}

bool cr_reordered_too_late(const cr_capture *c) {
    for (size_t i = 0; i < c->reordered.n; i++)
        if (writes_of(c->reordered.at[i].call) != c->reordered.at[i].writes) return true;
    return false;
}

void cr_reordered_dispose(cr_capture *c) {
    for (size_t i = 0; i < c->reordered.n; i++) {
        Py_DECREF(c->reordered.at[i].call);
        Py_XDECREF(c->reordered.at[i].kwnames);
    }
    cr_vec_dispose(&c->reordered);
}

static PyObject *set_reorderable(PyObject *module, PyObject *set) {
    (void)module;
    if (!PySet_CheckExact(set)) return PyErr_Format(PyExc_TypeError, "_set_reorderable() takes a set");
    Py_XSETREF(reorderable, Py_NewRef(set));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_set_reorderable", set_reorderable, METH_O,
      "_set_reorderable(set): calls of these are made behind the graph. The set is kept: what is added later counts." },
    { NULL, NULL, 0, NULL },
};

int cr_reordered_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
