/* errors.c: status codes become exceptions.
 *
 * One table row per code. The classes that Python does not have are made here: running out of memory is both a
 * MemoryError (what Python programs expect) and a RuntimeError (what PyTorch raises); inputs that a graph was not made
 * for are an AssertionError (what exported modules of PyTorch raise) and a RuntimeError (what its ops do). */
#include "python/py.h"

PyObject *cr_py_data_dependent_error, *cr_py_unsupported_error; /* once */
static PyObject *out_of_memory_error, *guard_error; /* once */

/* What each code raises. A pointer to the variable, because the exceptions are set up at run time. */
static PyObject **const exception_of[CR_STATUS_COUNT] = {
    [CR_ENOMEM] = &out_of_memory_error,
    [CR_EVALUE] = &PyExc_ValueError,
    [CR_ETYPE] = &PyExc_TypeError,
    [CR_EINDEX] = &PyExc_IndexError,
    [CR_ERUNTIME] = &PyExc_RuntimeError,
    [CR_ENOTIMPL] = &PyExc_NotImplementedError,
    [CR_EOVERFLOW] = &PyExc_OverflowError,
    [CR_EDATADEP] = &cr_py_data_dependent_error,
    [CR_EUNSUPPORTED] = &cr_py_unsupported_error,
    [CR_EGUARD] = &guard_error,
    [CR_EFORMAT] = &PyExc_ValueError,
    [CR_EIO] = &PyExc_OSError,
    [CR_ENOTFOUND] = &PyExc_KeyError,
    [CR_ETOOLCHAIN] = &PyExc_RuntimeError,
};

PyObject *cr_py_raise(cr_status status) {
    if (status == CR_EPYTHON && PyErr_Occurred()) return NULL;
    if (status == CR_EIO && cr_error_system()) { /* OSError makes itself FileNotFoundError, PermissionError, ... */
        PyObject *args = Py_BuildValue("is", cr_error_system(), cr_error_message());
        if (args) PyErr_SetObject(PyExc_OSError, args);
        Py_XDECREF(args);
        return NULL;
    }
    PyObject **type = status > CR_OK && status < CR_STATUS_COUNT ? exception_of[status] : NULL;
    PyErr_SetString(type ? *type : PyExc_RuntimeError, cr_error_message());
    return NULL;
}

int cr_py_fail(cr_status status) {
    cr_py_raise(status);
    return -1;
}

int cr_py_refuse(cr_status status) {
    cr_ambient_get()->refused = true;
    return cr_py_fail(status);
}

cr_status cr_py_look_for_signals(void *user) {
    (void)user;
    PyGILState_STATE state = PyGILState_Ensure();
    int interrupted = PyErr_CheckSignals();
    PyGILState_Release(state);
    return interrupted ? CR_EPYTHON : CR_OK;
}

PyObject *cr_py_text(cr_str *text) {
    cr_status status = cr_str_status(text);
    PyObject *o = status ? cr_py_raise(status) : PyUnicode_FromStringAndSize(cr_str_get(text), (Py_ssize_t)text->n);
    cr_str_dispose(text);
    return o;
}

static PyObject *make(PyObject *module, const char *name, const char *full, const char *doc, PyObject *bases) {
    PyObject *type = bases ? PyErr_NewExceptionWithDoc(full, doc, bases, NULL) : NULL;
    if (type && PyModule_AddObjectRef(module, name, type)) Py_CLEAR(type);
    return type;
}

int cr_py_errors_init(PyObject *module) {
    PyObject *bases = PyTuple_Pack(2, PyExc_MemoryError, PyExc_RuntimeError);
    out_of_memory_error = make(module, "OutOfMemoryError", "cresset.OutOfMemoryError",
                               "Memory for a tensor could not be had.", bases);
    Py_XDECREF(bases);
    bases = PyTuple_Pack(2, PyExc_AssertionError, PyExc_RuntimeError);
    guard_error = make(module, "GuardError", "cresset.GuardError",
                       "Inputs have sizes or values that the program was not exported for.", bases);
    Py_XDECREF(bases);
    cr_py_data_dependent_error = make(module, "GuardOnDataDependentSymNode", "cresset.GuardOnDataDependentSymNode",
                                      "The answer depends on tensor data that a fake run does not have.",
                                      PyExc_RuntimeError);
    cr_py_unsupported_error = make(module, "UnsupportedError", "cresset.UnsupportedError",
                             "Not supported here; the message names what.", PyExc_RuntimeError);
    return out_of_memory_error && guard_error && cr_py_data_dependent_error && cr_py_unsupported_error ? 0 : -1;
}
