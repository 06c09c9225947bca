/* disabled.c: what disable() keeps out of captures runs as it is, and (recursive) everything that it calls; otherwise
 * what it calls is captured, as what a break calls is: by the function that reached the break. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/capture.h"
#include "capture/dispatch.h"
#include "capture/everything.h"

/* ---- what it calls ---- */

typedef struct disabled {
    cr_dispatcher *d;         /* of the function that reached the break */
    const PyCodeObject *code; /* its own, also where it calls itself */
} disabled;

/* Functions of the libraries themselves run as they are, too (is_compiling() says no), modules apart. */
static bool is_of_library(PyObject *function) {
    static const char *const own[] = { "cresset", "torch" };
    PyObject *globals = PyFunction_Check(function) ? PyFunction_GET_GLOBALS(function) : NULL;
    PyObject *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (!text) PyErr_Clear();
    for (size_t i = 0; text && i < CR_COUNT(own); i++) {
        size_t n = strlen(own[i]);
        if (!strncmp(text, own[i], n) && (!text[n] || (text[n] == '.' && strncmp(text + n, ".nn.", 4)))) return true;
    }
    return false;
}

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    disabled *s = a->user;
    PyCodeObject *code = cr_frame_code(frame);
    PyObject *reason = NULL;
    int suspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (code == s->code || code->co_flags & suspends || cr_frame_why_not(frame, throwflag)) return false;
    PyObject *function = cr_frame_function(frame);
    if (is_of_library(function) || !cr_is_program_frame(code, function)) return false;
    cr_hook_end(a); /* capturing calls Python, too, and what the frame calls at its own breaks is captured anyway */
    bool carried = cr_carry_frame(s->d, thread, frame, result, &reason);
    Py_XDECREF(reason);
    cr_hook_begin(a, see, s);
    return carried;
}

/* Of a function, a method, or an object with __call__; NULL: it is in C. Borrowed. */
static PyCodeObject *code_of(PyObject *o) {
    static PyObject *name; /* once */
    if (!name && !(name = PyUnicode_InternFromString("__call__"))) return PyErr_Clear(), NULL;
    if (PyMethod_Check(o)) o = PyMethod_GET_FUNCTION(o);
    if (!PyFunction_Check(o)) o = _PyType_Lookup(Py_TYPE(o), name);
    return o && PyFunction_Check(o) ? (PyCodeObject *)PyFunction_GET_CODE(o) : NULL;
}

/* ---- calling it ---- */

static PyObject *call_plain(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    if (n != 5 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "_call_plain() takes a function, a tuple, a dict, a bool and a reason");
    int recursive = PyObject_IsTrue(args[3]);
    if (recursive < 0) return NULL;
    if (recursive) cr_plain_begin();
    PyObject *result = PyObject_Call(args[0], args[1], args[2]);
    if (recursive) cr_plain_end();
    return result;
}

static bool is_call_plain(PyObject *o) {
    return PyCFunction_CheckExact(o) && PyCFunction_GET_FUNCTION(o) == (PyCFunction)(void (*)(void))call_plain;
}

bool cr_is_disabled_call(PyObject *callable, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    return is_call_plain(callable) && nargs == 5 && !kwnames && args[3] == Py_False && code_of(args[0]);
}

PyObject *cr_call_disabled(cr_dispatcher *d, PyObject *const *args, Py_ssize_t nargs) {
    disabled s = { d, code_of(args[0]) };
    cr_activation activation;
    cr_hook_begin(&activation, see, &s);
    PyObject *result = call_plain(NULL, args, nargs);
    cr_hook_end(&activation);
    return result;
}

static PyMethodDef functions[] = {
    { "_call_plain", (PyCFunction)(void (*)(void))call_plain, METH_FASTCALL,
      "_call_plain(fn, args, kwargs, recursive, why): fn(*args, **kwargs); captures end before it, and say why; "
      "(recursive) compiled functions run plain inside of it." },
    { NULL, NULL, 0, NULL },
};

int cr_disabled_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
