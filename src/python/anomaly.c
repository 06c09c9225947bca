/* anomaly.c: the mode that tells which line of the program made a node whose derivative fails. Python keeps the stack
 * with the node's metadata and reports it (python/cresset/autograd/anomaly_mode.py); the tape only says when. */
#include "python/autograd_type.h"

static PyObject *on_made, *on_failed; /* process: the mode is, as PyTorch's; under the GIL; NULL: it was never on */

/* Calls the function with the node and the one that the walk is at, whatever exception is on its way. */
static bool tell(PyObject *function, cr_grad_node *n) {
    cr_grad_node *at = cr_autograd_at();
    cr_grad_node_retain(n);
    if (at) cr_grad_node_retain(at);
    PyObject *node = cr_py_node_wrap(n), *parent = at ? cr_py_node_wrap(at) : Py_NewRef(Py_None);
    PyObject *done = node && parent ? PyObject_CallFunctionObjArgs(function, node, parent, NULL) : NULL;
    Py_XDECREF(node);
    Py_XDECREF(parent);
    Py_XDECREF(done);
    return done;
}

static cr_status made(cr_grad_node *n) {
    PyGILState_STATE state = PyGILState_Ensure();
    bool told = tell(on_made, n);
    PyGILState_Release(state);
    return told ? CR_OK : CR_FAIL(CR_EPYTHON, "the stack of a node could not be kept");
}

static void failed(cr_grad_node *n) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!tell(on_failed, n)) PyErr_WriteUnraisable(on_failed); /* warnings that are errors: the first one counts */
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

/* _set_anomaly(enabled, check_nan, made, failed): functions of (node, node that the walk is at or None). */
static PyObject *set_anomaly(PyObject *module, PyObject *args) {
    int enabled, check_nan;
    PyObject *both[2];
    (void)module;
    if (!PyArg_ParseTuple(args, "ppOO:_set_anomaly", &enabled, &check_nan, &both[0], &both[1])) return NULL;
    Py_XSETREF(on_made, Py_NewRef(both[0]));
    Py_XSETREF(on_failed, Py_NewRef(both[1]));
    cr_autograd_set_anomaly(enabled ? &(cr_anomaly){ check_nan, made, failed } : NULL);
    Py_RETURN_NONE;
}

static PyObject *is_enabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    cr_anomaly a;
    return PyBool_FromLong(cr_autograd_anomaly(&a));
}

static PyMethodDef functions[] = {
    { "_set_anomaly", set_anomaly, METH_VARARGS, NULL },
    { "_is_anomaly_enabled", is_enabled, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_anomaly_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
