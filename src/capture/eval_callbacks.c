/* eval_callbacks.c: functions of the program that C code calls: the key of sorted(), the function of map().
 *
 * C code gets an object in their place; calling that evaluates the function. It lives no longer than the capture. */
#include "capture/evaluate.h"

#include "python/py.h"

typedef struct callback { PyObject_HEAD cr_capture *capture; PyObject *function; } callback;

static void callback_dealloc(PyObject *self) {
    Py_XDECREF(((callback *)self)->function);
    PyObject_Free(self);
}

static PyObject *callback_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    callback *b = (callback *)self;
    cr_capture *c = b->capture;
    PyObject *result = NULL;
    if (kwargs && PyDict_GET_SIZE(kwargs)) cr_break(c, "C code calls a function with keywords");
    else result = cr_call_now(c, c->frame, b->function, ((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args), NULL);
    if (!result && !PyErr_Occurred()) PyErr_Format(cr_break_error, "%U", c->reason ? c->reason : Py_None);
    return result;
}

PyTypeObject cr_callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Callback",
    .tp_basicsize = sizeof(callback),
    .tp_dealloc = callback_dealloc,
    .tp_call = callback_call,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

bool cr_may_be_called(PyObject *value) {
    PyObject *real = cr_is_token(value) ? cr_real(value) : value;
    return PyCallable_Check(real) && !cr_is_tensor_value(value);
}

PyObject *cr_callback_new(cr_capture *c, PyObject *function) {
    callback *b = PyObject_New(callback, &cr_callback_type);
    if (!b) return NULL;
    b->capture = c;
    b->function = Py_NewRef(function);
    return (PyObject *)b;
}
