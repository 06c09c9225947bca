/* opaque.c: calls of ops without a row go to the front ends. The first that has a callable for the name gets the
 * arguments as its own objects; what it returns is read back as that front end reads arguments. */
#include "python/py.h"

#include "graph/host.h"

/* The callable of the first front end that has one, and that front end; NULL without an exception: none has. */
static PyObject *find(const char *target, const cr_frontend **owner) {
    for (size_t i = 0; (*owner = cr_frontend_at(i)); i++) {
        PyObject *callable = (*owner)->find(target);
        if (callable || PyErr_Occurred()) return callable;
    }
    return NULL;
}

static bool has(const char *target) {
    const cr_frontend *owner;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *callable = find(target, &owner);
    PyErr_Clear();
    Py_XDECREF(callable);
    PyGILState_Release(state);
    return callable != NULL;
}

/* callable(*args, **kwargs), the arguments with a name being the latter. */
static PyObject *call_with(const cr_frontend *fe, PyObject *callable, const cr_arg *names, const cr_arg *args,
                           uint32_t n, cr_env *env) {
    PyObject *list = PyList_New(0), *kwargs = PyDict_New(), *positional = NULL, *result = NULL;
    for (uint32_t i = 0; list && kwargs && i < n; i++) {
        PyObject *o = cr_py_borrowed(fe->wrap ? fe : &cr_frontend_cresset, env, &args[i]);
        int bad = !o ? -1 : *names[i].u.s ? PyDict_SetItemString(kwargs, names[i].u.s, o) : PyList_Append(list, o);
        Py_XDECREF(o);
        if (bad) goto out;
    }
    positional = list && kwargs ? PyList_AsTuple(list) : NULL;
    if (positional) result = PyObject_Call(callable, positional, kwargs);
out:
    Py_XDECREF(positional);
    Py_XDECREF(list);
    Py_XDECREF(kwargs);
    return result;
}

/* None is no result, a tuple or list several, anything else one. */
static cr_status take_results(const char *target, PyObject *o, cr_arg *results) {
    bool several = PyTuple_Check(o) || PyList_Check(o);
    uint32_t n = o == Py_None ? 0 : several ? (uint32_t)PySequence_Fast_GET_SIZE(o) : 1;
    cr_arg *items = cr_calloc(n + 1, sizeof *items);
    if (!items) return CR_ENOMEM;
    *results = cr_arg_list(items, n);
    for (uint32_t i = 0; i < n; i++) {
        cr_status status = cr_py_take(target, several ? PySequence_Fast_GET_ITEM(o, i) : o, "tensors and numbers",
                                      &items[i]);
        if (status) return cr_results_release(results, 1), status;
    }
    return CR_OK;
}

/* With or without the GIL: the interpreter of programs runs without. */
static cr_status call(const char *target, const cr_arg *names, const cr_arg *args, uint32_t n, bool fake, cr_env *env,
                      cr_arg *results) {
    PyGILState_STATE state = PyGILState_Ensure();
    const cr_frontend *owner;
    PyObject *callable = find(target, &owner), *o = callable ? call_with(owner, callable, names, args, n, env) : NULL;
    cr_status status = o ? take_results(target, o, results)
                         : CR_FAIL(CR_EPYTHON, "%s, called on %s, raised an exception", target,
                                   fake ? "fake tensors" : "tensors");
    Py_XDECREF(o);
    Py_XDECREF(callable);
    PyGILState_Release(state);
    return status;
}

int cr_py_opaque_init(PyObject *module) {
    static const cr_host host = { has, call };
    (void)module;
    cr_host_set(&host);
    return 0;
}
